/* jpeg.c - JPEG files through the input pipeline: images a second, and how long a training step waits for them
 *
 *   gcc -std=c11 -O2 -I. tests/bench/jpeg.c -o jpeg -lm -lpthread && ./jpeg <folder of class folders> 1 3.0 u8
 *
 * arguments: folder, threads that decode and augment, seconds, and what is measured:
 *   u8, f32     batches of 128: read, decoded, padded by 4, cropped to 32x32, flipped, brightness and contrast; as bytes or floats
 *   decode      the same without augmentation
 *   train       a convnet is trained on them (QueueInput); the part of its steps' time in which they wait for a batch
 * One JSON line. */
#define TP_IMPLEMENTATION
#include "tp_input.h"
#include <stdlib.h>
#include <sys/resource.h>

/* Processor time of all threads of this process, in seconds. */
static double processor(void)
{
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) + (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1e-6;
}

static tp_augmentor *augmentors(const char *what)
{
    if (strcmp(what, "decode") == 0) return tp_aug_identity();
    return tp_aug_list(TP_AUGS(tp_aug_pad(.pad = 4), tp_aug_random_crop(32, 32), tp_aug_flip(.horiz = TP_YES),
                               tp_aug_brightness(.delta = 63), tp_aug_contrast(.factor_range = {0.2f, 1.8f}),
                               strcmp(what, "u8") == 0 ? tp_aug_identity() : tp_aug_to_float32()));
}

static tp_dataflow *batches(const char *folder, int threads, const char *what)
{
    tp_dataflow *df = tp_df_image_folder(folder, .decode = TP_NO);
    return tp_df_batch(tp_df_load_image(df, augmentors(what), .num_thread = threads), 128);
}

static int fails(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tp_last_error());
    return 1;
}

/* As fast as they come, pass after pass. */
static int speed(const char *folder, int threads, double seconds, const char *what)
{
    tp_dataflow *df = tp_df_repeated(batches(folder, threads, what), -1);
    tp_datapoint dp = {0};
    int64_t n = 0;
    double start = 0, now = 0, busy = 0;
    for (int k = 0; k == 0 || now - start < seconds; k++) {
        if (k == 8) n = 0, start = tp_time(), busy = processor(); /* threads and memory are there */
        if (tp_df_next(df, &dp) != TP_OK) return fails("a batch");
        n += dp.c[0].shape.dim[0];
        now = tp_time();
        if (k < 8) start = now;
    }
    printf("{\"pipeline\": \"ours, %s\", \"workers\": %d, \"images_per_s\": %.0f, \"cpu_us\": %.2f}\n", what, threads,
           (double)n / (now - start), (processor() - busy) / (double)n * 1e6);
    tp_datapoint_free(&dp);
    tp_df_free(df);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 5) return fprintf(stderr, "usage: jpeg <folder> <threads> <seconds> u8|f32|decode|train\n"), 2;
    return speed(argv[1], atoi(argv[2]), atof(argv[3]), argv[4]);
}
