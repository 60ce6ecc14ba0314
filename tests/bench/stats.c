/* stats.c - what JSONWriter costs if scalars are reported at each step: one JSON line
 *
 *   gcc -std=c11 -O2 -I. tests/bench/stats.c -o stats -lm -lpthread && ./stats DIR [steps] [steps of an epoch]
 *
 * 5 scalars at each of `steps` (20,000) steps, in epochs of 1,000 steps; DIR/stats.json is written and removed. first_us, last_us: a
 * step's time, as the mean of the first and of the last tenth of the steps. */
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    static const char *const names[5] = {"cost", "error", "learning_rate", "fc0/W/rms", "throughput"};
    char path[1000];
    const char *const dir = argc > 1 ? argv[1] : ".";
    const int steps = argc > 2 ? atoi(argv[2]) : 20000, epoch = argc > 3 ? atoi(argv[3]) : 1000;
    tp_train_state train;
    memset(&train, 0, sizeof train);
    tp_monitor *m = tp_monitor_json_writer();
    tp_monitors *all = tp_monitors_new(&m, 1);
    tp_status st = tp_logger_set_dir(dir, 'k');
    train.monitors = all;
    train.steps_per_epoch = epoch;
    if (st == TP_OK) st = tp_callback_setup_graph(&all->cb, &train);
    if (st == TP_OK) st = tp_callback_setup_graph(&m->cb, &train);
    if (st == TP_OK) st = tp_callback_before_train(&m->cb);
    double at[4] = {tp_time(), 0, 0, 0};
    for (int i = 0; i < steps && st == TP_OK; i++) {
        train.global_step = i + 1, train.local_step = i % epoch, train.epoch_num = 1 + i / epoch;
        for (int k = 0; k < 5 && st == TP_OK; k++) st = tp_monitors_put_scalar(all, names[k], 1 / (i + k + 3.0));
        if (st == TP_OK) st = tp_callback_trigger_step(&m->cb);
        if (st == TP_OK && train.local_step == epoch - 1) st = tp_callback_trigger_epoch(&m->cb);
        if (i + 1 == steps / 10) at[1] = tp_time();
        if (i + 1 == steps - steps / 10) at[2] = tp_time();
    }
    if (st == TP_OK) st = tp_callback_after_train(&m->cb);
    at[3] = tp_time();
    tp_callback_free(&all->cb);
    tp_monitor_free(m);
    if (st != TP_OK) return fprintf(stderr, "%s\n", tp_last_error()), 1;
    snprintf(path, sizeof path, "%s/stats.json", dir);
    remove(path);
    printf("{\"bench\": \"stats\", \"steps\": %d, \"epoch\": %d, \"seconds\": %.3f, \"first_us\": %.1f, \"last_us\": "
           "%.1f}\n",
           steps, epoch, at[3] - at[0], (at[1] - at[0]) / (steps / 10) * 1e6, (at[3] - at[2]) / (steps / 10) * 1e6);
    return 0;
}
