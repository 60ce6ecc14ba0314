/* events.c - how fast TFEventWriter writes, beside the disk: one JSON line
 *
 *   gcc -std=c11 -O2 -I. tests/bench/events.c -o events -lm -lpthread && ./events DIR [MB]
 *
 * MB (100) of events go to a file in DIR three times: as summaries of 16 scalars, as histograms of 10,000 numbers (of which most
 * of the time goes into counting them: a tenth of MB), and as events of 64 KiB that are ready. disk: the same number of bytes by
 * write(2), 64 KiB at a time. All files are on the disk (fsync) when the clock stops; best of 3. ./events DIR MB 0: only the
 * first way (1, 2, 3: the others). */
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SCALARS, HISTOGRAMS, READY, DISK, N_WAYS };
static const char *const ways[N_WAYS] = {"scalars", "histograms", "ready", "disk"};
static char block[65536];
static float numbers[10000];

static bool is_event_file(const char *name) { return strncmp(name, "events.out.tfevents.", 20) == 0; }

/* The file that was written last, and its size; it is removed. */
static double finish(const char *dir, double t0, double *seconds)
{
    char path[2000] = "", command[2100];
    struct stat st;
    memset(&st, 0, sizeof st);
    snprintf(command, sizeof command, "ls %s", dir);
    FILE *list = popen(command, "r");
    char name[500];
    while (list && fscanf(list, "%499s", name) == 1)
        if (is_event_file(name)) snprintf(path, sizeof path, "%s/%s", dir, name);
    if (list) pclose(list);
    const int fd = open(path, O_RDWR);
    if (fd < 0 || fsync(fd) != 0 || fstat(fd, &st) != 0) exit(1);
    close(fd);
    *seconds = tp_time() - t0;
    remove(path);
    return (double)st.st_size;
}

static double by_monitor(const char *dir, int way, double bytes, double *seconds)
{
    static const char *const tags[16] = {
        "cost",      "error",     "rate",      "norm",      "a/scalar",     "b/scalar",   "c/scalar", "d/scalar",
        "fc0/W/rms", "fc1/W/rms", "fc2/W/rms", "fc3/W/rms", "conv0/output", "validation", "accuracy", "throughput"};
    tp_monitor_tf_event_writer_desc d;
    tp_train_state train;
    tp_summary_value value[16];
    tp_summary summary = {value, way == SCALARS ? 16 : 1};
    tp_tensor t;
    tp_event e;
    memset(&d, 0, sizeof d), memset(&train, 0, sizeof train), memset(value, 0, sizeof value);
    memset(&t, 0, sizeof t), memset(&e, 0, sizeof e);
    tp_tensor_view(&t, TP_F32, tp_make_shape(10000), numbers);
    for (int i = 0; i < 16; i++) value[i].tag = tags[i], value[i].kind = TP_SUMMARY_SCALAR;
    if (way == HISTOGRAMS) value[0].kind = TP_SUMMARY_HISTOGRAM, value[0].tensor = &t;
    e.field = 8, e.data = block, e.size = sizeof block;
    d.logdir = dir;
    const double each = way == READY ? sizeof block : way == SCALARS ? 16 * 22 + 40 : 16000, t0 = tp_time();
    tp_monitor *m = tp_monitor_tf_event_writer_(&d);
    m->cb.train = &train;
    tp_status st = tp_callback_setup_graph(&m->cb, &train);
    for (double done = 0; done < bytes && st == TP_OK; done += each) {
        train.global_step++;
        for (int i = 0; i < 16; i++) value[i].scalar = (double)train.global_step / (i + 1);
        st = way == READY ? m->process_event(m, &e) : m->process_summary(m, &summary);
    }
    if (st == TP_OK) st = tp_callback_after_train(&m->cb);
    tp_monitor_free(m);
    if (st != TP_OK) fprintf(stderr, "%s\n", tp_last_error()), exit(1);
    return finish(dir, t0, seconds);
}

static double by_hand(const char *dir, double bytes, double *seconds)
{
    char path[2000];
    snprintf(path, sizeof path, "%s/events.out.tfevents.by_hand", dir);
    const double t0 = tp_time();
    const int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0666);
    for (double done = 0; done < bytes; done += sizeof block)
        if (write(fd, block, sizeof block) != (ssize_t)sizeof block) exit(1);
    close(fd);
    return finish(dir, t0, seconds);
}

int main(int argc, char **argv)
{
    char dir[1000];
    const double mb = argc > 2 ? atof(argv[2]) : 100;
    snprintf(dir, sizeof dir, "%s/tp_events", argc > 1 ? argv[1] : ".");
    mkdir(dir, 0777);
    for (size_t i = 0; i < sizeof block; i++) block[i] = (char)tp_random_u32(1, 2, i);
    for (int i = 0; i < 10000; i++) numbers[i] = (float)(tp_random_u32(3, 4, (uint64_t)i) % 10000) / 1000 - 5;
    double best[N_WAYS] = {0};
    for (int round = 0; round < 3; round++)
        for (int way = 0; way < N_WAYS; way++) {
            if (argc > 3 && way != atoi(argv[3])) continue;
            double seconds = 1;
            const double bytes = way == DISK ? by_hand(dir, mb * 1e6, &seconds)
                                             : by_monitor(dir, way, way == HISTOGRAMS ? mb * 1e5 : mb * 1e6, &seconds);
            if (bytes / seconds / 1e6 > best[way]) best[way] = bytes / seconds / 1e6;
        }
    rmdir(dir);
    printf("{\"bench\": \"events\", \"mb\": %g", mb);
    for (int way = 0; way < N_WAYS; way++) printf(", \"%s_mb_per_s\": %.0f", ways[way], best[way]);
    printf("}\n");
    return 0;
}
