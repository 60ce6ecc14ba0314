/* For tests/interop.py: write arrays for others to read, and read those that they wrote, writing them back. */
#define TP_IMPLEMENTATION
#include "tp_graph.h"

static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tp_last_error());
    return 1;
}

int main(int argc, char **argv)
{
    char path[1024];
    const char *dir = argc > 1 ? argv[1] : ".";
    tp_dict d, back;
    memset(&d, 0, sizeof d);
    memset(&back, 0, sizeof back);
    for (int t = TP_F32; t < TP_DTYPE_COUNT; t++) { /* element i of every array is i - 3, or a truth value */
        snprintf(path, sizeof path, "scope/%s:0", tp_dtype_name((tp_dtype)t));
        tp_tensor *x = tp_dict_add(&d, path);
        if (!x || tp_tensor_resize(x, (tp_dtype)t, tp_make_shape(2, 3, 4)) != TP_OK) return fail("resize");
        for (int i = 0; i < 24; i++) tp_tensor_set(x, i, t == TP_BOOL ? i % 2 : t == TP_U8 ? i : i - 3);
    }
    tp_tensor *s = tp_dict_add(&d, "scalar");
    if (!s || tp_tensor_resize(s, TP_I64, tp_make_shape_n(0, NULL)) != TP_OK) return fail("scalar");
    tp_tensor_set(s, 0, 12345);
    tp_tensor *e = tp_dict_add(&d, "empty");
    if (!e || tp_tensor_resize(e, TP_F32, tp_make_shape(0, 5)) != TP_OK) return fail("empty");
    snprintf(path, sizeof path, "%s/ours.safetensors", dir);
    if (tp_safetensors_save(path, &d) != TP_OK) return fail(path);
    snprintf(path, sizeof path, "%s/ours_tf", dir);
    if (tp_tf_checkpoint_save(path, &d) != TP_OK) return fail(path);
    snprintf(path, sizeof path, "%s/tf_state", dir);
    const char *const names[] = {"model-3", "model-7"};
    if (tp_make_dirs(path) != TP_OK || tp_checkpoint_state_write(path, names, 2) != TP_OK) return fail(path);
    snprintf(path, sizeof path, "%s/tf_state/model-7", dir);
    if (tp_tf_checkpoint_save(path, &d) != TP_OK) return fail(path);
    snprintf(path, sizeof path, "%s/stored.npz", dir);
    if (tp_npz_save(path, &d, false) != TP_OK) return fail(path);
    snprintf(path, sizeof path, "%s/deflated.npz", dir);
    if (tp_npz_save(path, &d, true) != TP_OK) return fail(path);
    snprintf(path, sizeof path, "%s/one.npy", dir);
    if (tp_npy_save(path, &d.item[0].value) != TP_OK) return fail(path);
    static const char *const from[] = {"numpy_stored.npz", "numpy_compressed.npz"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, from[i]);
        tp_dict_free(&back);
        if (tp_npz_load(path, &back) != TP_OK) return fail(path);
        snprintf(path, sizeof path, "%s/again_%s", dir, from[i]);
        if (tp_npz_save(path, &back, i == 1) != TP_OK) return fail(path);
    }
    snprintf(path, sizeof path, "%s/theirs.safetensors", dir);
    if (tp_safetensors_load(path, &back) != TP_OK) return fail(path);
    snprintf(path, sizeof path, "%s/again_theirs.safetensors", dir);
    if (tp_safetensors_save(path, &back) != TP_OK) return fail(path);
    static const char *const tf[] = {"tf_saver-1000", "tf_objects-1", "tf_many"};
    for (int i = 0; i < 3; i++) { /* there where TensorFlow is */
        snprintf(path, sizeof path, "%s/%s.index", dir, tf[i]);
        if (!tp_file_exists(path)) continue;
        if (tp_load_checkpoint_vars(path, &back) != TP_OK) return fail(path);
        snprintf(path, sizeof path, "%s/again_%s%s", dir, tf[i], i < 2 ? ".safetensors" : ".index");
        if (tp_save_checkpoint_vars(&back, path) != TP_OK) return fail(path);
    }
    tp_dict_free(&back);
    tp_dict_free(&d);
    return 0;
}
