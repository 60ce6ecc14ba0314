/* jpeg.c - JPEG files through the input pipeline: images a second, and how long a training step waits for them
 *
 *   gcc -std=c11 -O2 -I. tests/bench/jpeg.c -o jpeg -lm -lpthread && ./jpeg <folder of class folders> 1 3.0 u8
 *
 * arguments: folder, threads that decode and augment, seconds, and what is measured:
 *   u8, f32     batches of 128: read, decoded, padded by 4, cropped to 32x32, flipped, brightness and contrast; as bytes or floats
 *   decode      the same without augmentation
 *   train       a convnet is trained on them, on one thread, from a QueueInput; by the trace of its steps: their time and
 *               the part of it in which they wait for a batch
 *   pack FILE   writes the files to a TFRecord file, which may then be given in place of the folder (its name ends in
 *               .tfrecord): one file is read in place of many
 *   u8 cached   u8; files or records are read in the first pass only and kept in memory, undecoded
 * One JSON line. With -DTP_JPEG and -ljpeg libjpeg-turbo decodes. */
#define TP_IMPLEMENTATION
#include "tp_input.h"
#include "tp_layers.h"
#include "tp_optim.h"
#include <stdlib.h>
#include <sys/resource.h>

#ifdef TP_JPEG
#define DECODER "libjpeg"
#else
#define DECODER "stb_image"
#endif

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

static bool is_packed(const char *path)
{
    return strlen(path) > 9 && strcmp(path + strlen(path) - 9, ".tfrecord") == 0;
}

static tp_dataflow *batches(const char *folder, int threads, const char *what, bool cache)
{
    static const tp_spec features[] = {TP_SPEC("image", TP_U8, TP_ANY), TP_SPEC("label", TP_I32)};
    const bool packed = is_packed(folder), encoded = packed || cache;
    tp_dataflow *df =
        packed ? tp_df_tfrecord(.paths = &folder, .n = 1, .features = features, .n_features = 2, .shuffle = TP_YES)
               : tp_df_image_folder(folder, .decode = TP_NO);
    if (cache && !packed) df = tp_df_map(df, tp_map_image_file, .keeps_all = TP_YES);
    if (cache) df = tp_df_cache(df, .shuffle = TP_YES);
    return tp_df_batch(
        tp_df_load_image(df, augmentors(what), .encoded = encoded ? TP_YES : TP_NO, .num_thread = threads), 128);
}

static tp_status pack(const char *folder, const char *to)
{
    static const char *const names[] = {"image", "label"};
    tp_dataflow *df = tp_df_image_folder(folder, .decode = TP_NO, .shuffle = TP_NO);
    tp_datapoint dp = {0};
    tp_buf record = {0};
    tp_writer *w = NULL;
    tp_status st = tp_writer_open(&w, to);
    while (st == TP_OK && (st = tp_df_next(df, &dp)) == TP_OK) {
        char path[4096], *data = NULL;
        size_t size = 0;
        const int64_t n = tp_tensor_size(&dp.c[0]);
        snprintf(path, sizeof path, "%.*s", (int)n, (const char *)dp.c[0].data);
        st = tp_file_read(path, false, 0, &data, &size);
        const int64_t bytes = (int64_t)size;
        tp_tensor_view(&dp.c[0], TP_U8, tp_make_shape_n(1, &bytes), data);
        record.len = 0;
        if (st == TP_OK) st = tp_example_write(&dp, names, &record);
        if (st == TP_OK) st = tp_tfrecord_put(w, record.data, record.len);
        tp_free(data);
    }
    tp_datapoint_free(&dp);
    tp_df_free(df);
    tp_buf_free(&record);
    if (st == TP_END) return tp_writer_commit(w);
    tp_writer_abort(w);
    return st;
}

static int fails(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tp_last_error());
    return 1;
}

/* As fast as they come, pass after pass. */
static int speed(const char *folder, int threads, double seconds, const char *what, bool cache)
{
    tp_dataflow *df = tp_df_repeated(batches(folder, threads, what, cache), -1);
    tp_datapoint dp = {0};
    int64_t n = 0;
    double start = 0, now = 0, busy = 0;
    const int warm_up = cache ? 80 : 8; /* batches; all files are read in the first pass */
    for (int k = 0; k == 0 || now - start < seconds; k++) {
        if (k == warm_up)
            n = 0, start = tp_time(), busy = processor(); /* the measurement begins: threads run, memory is allocated */
        if (tp_df_next(df, &dp) != TP_OK) return fails("a batch");
        n += dp.c[0].shape.dim[0];
        now = tp_time();
        if (k < warm_up) start = now;
    }
    printf("{\"pipeline\": \"ours, " DECODER
           ", %s, %s%s\", \"workers\": %d, \"images_per_s\": %.0f, \"cpu_us\": %.2f}\n",
           what, is_packed(folder) ? "TFRecord" : "files", cache ? ", cached" : "", threads, (double)n / (now - start),
           (processor() - busy) / (double)n * 1e6);
    tp_datapoint_free(&dp);
    tp_df_free(df);
    return 0;
}

/* A convnet of three layers, and a step of its training. */
static tp_node *step_of(tp_node *image, tp_node *label)
{
    tp_node *x = tp_affine(tp_cast(image, TP_F32), 1 / 128.0f, -1);
    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "conv%d", i);
        x = tp_conv2d(x, name, .filters = 16 << i, .kernel_size = 3, .activation = tp_relu);
        snprintf(name, sizeof name, "pool%d", i);
        x = tp_max_pooling(x, name, .pool_size = 2);
    }
    x = tp_fully_connected(tp_batch_flatten(x), "fc", .units = 10);
    tp_node *cost = tp_mean(tp_sparse_softmax_cross_entropy(x, label));
    return tp_minimize(tp_sgd(tp_const(tp_node_graph(image), 0.01f)), cost, NULL);
}

static tp_status trace_run(tp_hook *h, tp_run_request *r) { return tp_request_trace(r, (tp_trace *)h->user); }

/* The trace of a run is its time in records that follow each other; TP_TRACE_HOOKS is what it spends before it begins, waiting
 * for the input. */
static int train(const char *folder, int threads, double seconds)
{
    const tp_spec specs[] = {TP_SPEC("image", TP_U8, TP_ANY, 32, 32, 3), TP_SPEC("label", TP_I32, TP_ANY)};
    tp_input_source *source = tp_queue_input(batches(folder, threads, "u8", false), .capacity = 8);
    tp_graph *g = tp_graph_new(NULL);
    tp_node *in[2] = {0};
    if (tp_input_setup(source, g, specs, 2) != TP_OK || tp_input_get_tensors(source, in) != TP_OK)
        return fails("input");
    tp_node *step = step_of(in[0], in[1]);
    if (tp_graph_status(g) != TP_OK) return fails("graph");
    tp_session_config c = tp_default_session_config();
    c.threads = 1;
    tp_session *s = tp_session_new(g, &c);
    tp_trace trace = {0};
    tp_hook tracer = {0}, *all[9];
    int n = 0;
    tp_hook *const *hooks = tp_input_hooks(source, &n);
    tracer.user = &trace;
    tracer.before_run = trace_run;
    for (int i = 0; i < n && i < 8; i++) all[i] = hooks[i];
    all[n++] = &tracer;
    tp_hooked_session *h = tp_hooked_session_new(s, all, n);
    if (!h || tp_input_reset_state(source) != TP_OK) return fails("session");
    int64_t runs = 0;
    for (const double start = tp_time(); tp_time() - start < seconds; runs++)
        if (tp_hooked_run(h, &step, 1, NULL) != TP_OK) return fails("a step");
    double waited = 0, all_time = 0;
    int64_t counted = 0;
    for (int64_t i = 0; i < trace.n; i++) {
        const tp_trace_record *r = &trace.record[i];
        if (r->thread || r->run < 10) continue; /* the first ones find an empty queue */
        const double t = 1e-9 * (double)(r->end - r->start);
        all_time += t;
        if (r->kind == TP_TRACE_HOOKS) waited += t, counted++;
    }
    if (counted == 0) return fputs("too few steps\n", stderr), 1;
    printf("{\"pipeline\": \"ours, training\", \"workers\": %d, \"step_ms\": %.3f, \"waited_ms\": %.4f, "
           "\"waited_percent\": %.2f, \"steps\": %lld, "
           "\"batches_in_queue\": %.2f}\n",
           threads, all_time / (double)counted * 1e3, waited / (double)counted * 1e3, 100 * waited / all_time,
           (long long)counted, (double)tp_queue_input_size_ema(source));
    tp_hooked_session_free(h);
    tp_session_free(s);
    tp_input_free(source);
    tp_graph_free(g);
    tp_trace_free(&trace);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 5) return fprintf(stderr, "usage: jpeg <folder> <threads> <seconds> u8|f32|decode|train|pack FILE\n"), 2;
    if (strcmp(argv[4], "pack") == 0) return argc > 5 && pack(argv[1], argv[5]) == TP_OK ? 0 : fails("pack");
    if (strcmp(argv[4], "train") == 0) return train(argv[1], atoi(argv[2]), atof(argv[3]));
    return speed(argv[1], atoi(argv[2]), atof(argv[3]), argv[4], argc > 5 && strcmp(argv[5], "cached") == 0);
}
