/* For tests/interop_augment.py: every row's augmentor applied to every image of its kind; image n of a kind is drawn with index n. */
#define TP_IMPLEMENTATION
#define TP_STATIC
#include "tp_input.h"
#include "augment_rows.h" /* written by it */

static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tp_last_error());
    return 1;
}

int main(int argc, char **argv)
{
    char path[1024];
    const char *dir = argc > 1 ? argv[1] : ".";
    tp_dict images, results;
    tp_transform t;
    memset(&images, 0, sizeof images), memset(&results, 0, sizeof results), memset(&t, 0, sizeof t);
    snprintf(path, sizeof path, "%s/augment_images.npz", dir);
    if (tp_npz_load(path, &images) != TP_OK) return fail(path);
    for (int i = 0; i < AUGMENT_ROWS; i++) {
        tp_augmentor *a = augment_row(i);
        for (int k = 0; k < images.n; k++) {
            const char *name = images.item[k].name;
            const tp_tensor *image = &images.item[k].value;
            if (strncmp(name, augment_kind[i], strlen(augment_kind[i])) != 0) continue;
            snprintf(path, sizeof path, "%d/%s", i, name);
            tp_tensor *out = tp_dict_add(&results, path);
            if (!out ||
                tp_aug_draw(a, image->shape.dim[0], image->shape.dim[1], AUGMENT_KEY, atoi(strchr(name, '/') + 1),
                            &t) != TP_OK ||
                tp_aug_apply_image(&t, image, out) != TP_OK)
                return fail(path);
        }
        tp_aug_free(a);
    }
    snprintf(path, sizeof path, "%s/augmented.npz", dir);
    if (tp_npz_save(path, &results, false) != TP_OK) return fail(path);
    tp_transform_free(&t);
    tp_dict_free(&images);
    tp_dict_free(&results);
    return 0;
}
