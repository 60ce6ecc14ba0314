/* augment.c - a contact sheet of all augmentors
 *
 *   gcc -std=c11 -O2 -I.. augment.c -lm -lpthread -o augment && ./augment sheet.png
 *
 * Each cell is one augmentor's work on the same picture, which the program draws, or on the image file that is named after the
 * sheet (if stb_image.h is installed). The list of cells is printed. --seed n draws other numbers. */
#define TP_IMPLEMENTATION
#define TP_STATIC /* all is in this file: what is not used falls away */
#include "tp_input.h"
#include "options.h"

#define SIDE    40 /* of the picture, and of a cell */
#define GAP     4
#define COLUMNS 8

static tp_augmentor *cell(int i, const char **name)
{
#define CELL(n_, name_, make_) \
    case n_: *name = name_; return make_
    switch (i) {
        CELL(0, "the picture", tp_aug_identity());
        CELL(1, "RandomCrop", tp_aug_random_crop(26, 26));
        CELL(2, "CenterCrop", tp_aug_center_crop(26, 26));
        CELL(3, "RandomCropRandomShape", tp_aug_random_crop_random_shape(.wmin = 16, .hmin = 16));
        CELL(4, "GoogleNetRandomCropAndResize", tp_aug_google_net_random_crop_and_resize(.target_shape = SIDE));
        CELL(5, "Resize, nearest",
             tp_aug_list(TP_AUGS(tp_aug_resize(.h = 14), tp_aug_resize(.h = SIDE, .interp = TP_INTER_NEAREST))));
        CELL(6, "Resize, bilinear", tp_aug_list(TP_AUGS(tp_aug_resize(.h = 14), tp_aug_resize(.h = SIDE))));
        CELL(7, "Resize, bicubic",
             tp_aug_list(TP_AUGS(tp_aug_resize(.h = 14), tp_aug_resize(.h = SIDE, .interp = TP_INTER_CUBIC))));
        CELL(8, "Resize, area", tp_aug_resize(.h = 20, .interp = TP_INTER_AREA));
        CELL(9, "ResizeShortestEdge",
             tp_aug_list(TP_AUGS(tp_aug_center_crop(SIDE, 26), tp_aug_resize_shortest_edge(.size = 20))));
        CELL(10, "RandomResize", tp_aug_random_resize(.xrange = {0.5f, 1}, .aspect_ratio_thres = 0.6f));
        CELL(11, "Pad by reflection",
             tp_aug_list(TP_AUGS(tp_aug_resize(.h = 24), tp_aug_pad(.pad = 8, .border = TP_EDGE_REFLECT))));
        CELL(12, "CenterPaste",
             tp_aug_list(TP_AUGS(tp_aug_resize(.h = 26), tp_aug_center_paste(.h = SIDE, .fill = 128))));
        CELL(13, "RandomPaste",
             tp_aug_list(TP_AUGS(tp_aug_resize(.h = 26), tp_aug_random_paste(.h = SIDE, .fill = 128))));
        CELL(14, "RandomCutout", tp_aug_random_cutout(.h_range = {10, 20}, .w_range = {10, 20}));
        CELL(15, "Flip, horiz", tp_aug_flip(.horiz = TP_YES, .prob = 1));
        CELL(16, "Flip, vert", tp_aug_flip(.vert = TP_YES, .prob = 1));
        CELL(17, "Transpose", tp_aug_transpose(.prob = 1));
        CELL(18, "Shift", tp_aug_shift(.horiz_frac = 0.3f, .vert_frac = 0.3f, .border = TP_EDGE_WRAP));
        CELL(19, "Rotation", tp_aug_rotation(.max_deg = 40, .center_range = {0.4f, 0.6f}));
        CELL(20, "RotationAndCropValid", tp_aug_rotation_and_crop_valid(.max_deg = 40));
        CELL(21, "Affine",
             tp_aug_affine(.scale = {0.7f, 0.9f}, .rotate_max_deg = 30, .shear = 30, .border = TP_EDGE_CONSTANT));
        CELL(22, "Brightness", tp_aug_brightness(.delta = 90));
        CELL(23, "BrightnessScale", tp_aug_brightness_scale(.range = {0.4f, 0.7f}));
        CELL(24, "Contrast", tp_aug_contrast(.factor_range = {0.2f, 0.5f}));
        CELL(25, "Saturation", tp_aug_saturation(.alpha = 0.99f));
        CELL(26, "Hue", tp_aug_hue(.range = {30, 150}));
        CELL(27, "Gamma", tp_aug_gamma(.range = {0.6f, 1.5f}));
        CELL(28, "Clip", tp_aug_clip(.min = 70, .max = 170));
        CELL(29, "Lighting", tp_aug_lighting(.std = 0.8f));
        CELL(30, "Grayscale", tp_aug_grayscale(.rgb = TP_YES, .keepshape = TP_YES));
        CELL(31, "ColorSpace, BGR", tp_aug_color_space(.mode = TP_COLOR_RGB2BGR));
        CELL(32, "MinMaxNormalize", tp_aug_min_max_normalize(.max = 200));
        CELL(33, "MeanVarianceNormalize, then MinMaxNormalize",
             tp_aug_list(TP_AUGS(tp_aug_mean_variance_normalize(), tp_aug_min_max_normalize())));
        CELL(34, "GaussianBlur", tp_aug_gaussian_blur(.size_range = {3, 5}));
        CELL(35, "JpegNoise", tp_aug_jpeg_noise(.quality_range = {5, 10}));
        CELL(36, "GaussianNoise", tp_aug_gaussian_noise(.sigma = 25));
        CELL(37, "SaltPepperNoise", tp_aug_salt_pepper_noise());
        CELL(38, "RandomOrderAug",
             tp_aug_random_order(TP_AUGS(tp_aug_rotation(.max_deg = 30), tp_aug_flip(.horiz = TP_YES),
                                         tp_aug_random_cutout(.h_range = {13}, .w_range = {13}, .fill = 255))));
        CELL(39, "RandomChooseAug",
             tp_aug_random_choose(TP_AUGS(tp_aug_hue(), tp_aug_gamma(), tp_aug_flip(.vert = TP_YES)), NULL));
    default: return NULL;
    }
#undef CELL
}

/* What the program draws: a digit in each corner on fields of colour, and a bar, so that every turn can be told. */
static tp_status draw_picture(tp_tensor *image)
{
    static const unsigned char field[4][3] = {{226, 88, 62}, {66, 133, 190}, {88, 160, 92}, {236, 190, 80}};
    tp_dataflow *df = tp_df_digits("train", .size = 4, .shuffle = TP_NO);
    tp_datapoint dp = {0};
    tp_status st = tp_tensor_resize(image, TP_U8, tp_make_shape(SIDE, SIDE, 3));
    for (int q = 0; q < 4 && st == TP_OK; q++) {
        st = tp_df_next(df, &dp);
        for (int i = 0; i < SIDE / 2 && st == TP_OK; i++)
            for (int j = 0; j < SIDE / 2; j++) {
                const float ink = (float)(int)(3 * tp_tensor_get(&dp.c[0], (i + 4) * 28 + j + 4) + 0.5) / 3;
                unsigned char *p =
                    (unsigned char *)image->data + ((q / 2 * SIDE / 2 + i) * SIDE + q % 2 * SIDE / 2 + j) * 3;
                for (int k = 0; k < 3; k++) {
                    const float paper = i == 0 && q < 2 ? 30.0f : (float)field[q][k];
                    p[k] = (unsigned char)(paper + (q == 3 ? -paper : 255 - paper) * ink);
                }
            }
    }
    tp_datapoint_free(&dp);
    tp_df_free(df);
    return st;
}
static tp_status read_picture(const char *path, tp_tensor *image)
{
    tp_dataflow *df = tp_df_image_from_file(&path, 1);
    df = tp_df_augment_image(df, tp_aug_list(TP_AUGS(tp_aug_resize_shortest_edge(.size = SIDE, .antialias = TP_YES),
                                                     tp_aug_center_crop(SIDE, SIDE))));
    tp_datapoint dp = {0};
    tp_status st = tp_df_next(df, &dp);
    if (st == TP_OK) st = tp_tensor_copy(image, &dp.c[0]);
    tp_datapoint_free(&dp);
    tp_df_free(df);
    return st;
}

int main(int argc, char **argv)
{
    const char *path = NULL, *image_path = NULL, *name;
    int n = 0;
    uint64_t seed = 42;
    const option list[] = {option_seed("--seed n", &seed), option_text("sheet.png", &path),
                           option_text("[image]", &image_path)};
    read_options(argc, argv, list, TP_COUNT(list));

    tp_augmentor *a;
    while ((a = cell(n, &name)) != NULL) tp_aug_free(a), n++;
    const int rows = (n + COLUMNS - 1) / COLUMNS, w = COLUMNS * (SIDE + GAP) + GAP, h = rows * (SIDE + GAP) + GAP;
    unsigned char *sheet = (unsigned char *)malloc((size_t)(3 * w * h));
    if (!sheet) return 1;
    memset(sheet, 255, (size_t)(3 * w * h));

    tp_tensor image, out;
    memset(&image, 0, sizeof image);
    memset(&out, 0, sizeof out);
    tp_transform t = {0};
    tp_status st = image_path ? read_picture(image_path, &image) : draw_picture(&image);
    for (int i = 0; i < n && st == TP_OK; i++) {
        char steps[512];
        tp_augmentor *both = tp_aug_list(TP_AUGS(cell(i, &name), tp_aug_to_uint8()));
        st = tp_aug_draw(both, SIDE, SIDE, seed, i, &t);
        if (st == TP_OK) st = tp_aug_apply_image(&t, &image, &out);
        if (st == TP_OK)
            printf("row %d, column %d: %s: %s\n", i / COLUMNS, i % COLUMNS, name,
                   tp_transform_text(&t, steps, sizeof steps));
        for (int64_t y = 0; y < t.out_h && st == TP_OK; y++) /* in the middle of its cell */
            memcpy(sheet + 3 * (((i / COLUMNS) * (SIDE + GAP) + GAP + (SIDE - t.out_h) / 2 + y) * w +
                                (i % COLUMNS) * (SIDE + GAP) + GAP + (SIDE - t.out_w) / 2),
                   (unsigned char *)out.data + 3 * t.out_w * y, (size_t)(3 * t.out_w));
        tp_aug_free(both);
    }
    tp_tensor picture = TP_EMPTY;
    tp_tensor_view(&picture, TP_U8, tp_make_shape(h, w, 3), sheet);
    if (st == TP_OK) st = tp_save_png(path, &picture);
    if (st != TP_OK) fprintf(stderr, "%s\n", tp_last_error());
    tp_transform_free(&t);
    tp_tensor_free(&image), tp_tensor_free(&out);
    free(sheet);
    return st == TP_OK ? 0 : 1;
}
