/* report.c - the report's page with many long curves: one JSON line, and the page for a browser to open
 *
 *   gcc -std=c11 -O2 -I. tests/bench/report.c -o report -lm -lpthread && ./report DIR [curves] [steps]
 *   python3 tests/browser.py paint DIR/report.html
 *
 * 200 curves of 100,000 steps of noise go to tp_monitor_report, which writes DIR/report.html once, at the end.
 *   put_us    to hand in one number, the mean of all
 *   write_s   to write the page
 *   bytes     of the page */
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static uint32_t noise_state = 1;
static double noise(void)
{
    noise_state = noise_state * 1664525u + 1013904223u;
    return (double)noise_state / 4294967296.0;
}

int main(int argc, char **argv)
{
    if (argc < 2) return fprintf(stderr, "usage: %s DIR [curves] [steps]\n", argv[0]), 2;
    const int curves = argc > 2 ? atoi(argv[2]) : 200, steps = argc > 3 ? atoi(argv[3]) : 100000;
    tp_train_state state;
    memset(&state, 0, sizeof state);
    state.is_chief = true;
    if (tp_logger_set_dir(argv[1], 'd') != TP_OK) return 1;
    tp_monitor *report = tp_monitor_report(.every_secs = 1e9);
    tp_monitors *all = tp_monitors_new(&report, 1);
    if (!all) return 1;
    state.monitors = all;
    all->cb.train = &state;
    tp_status st = tp_callback_setup_graph(&report->cb, &state);
    if (st == TP_OK) st = tp_callback_before_train(&report->cb);
    double t0 = tp_time();
    for (int i = 1; i <= steps && st == TP_OK; i++) {
        state.global_step = i;
        for (int k = 0; k < curves && st == TP_OK; k++) {
            char name[64];
            snprintf(name, sizeof name, "group%d/curve%d", k / 20, k);
            st = tp_monitors_put_scalar(all, name, 1.0 / (1 + i * (1 + k % 7) * 1e-4) + 0.2 * noise());
        }
    }
    const double put = (tp_time() - t0) * 1e6 / ((double)curves * steps);
    t0 = tp_time();
    if (st == TP_OK) st = tp_callback_after_train(&report->cb);
    const double wrote = tp_time() - t0;
    char path[2000];
    struct stat file;
    snprintf(path, sizeof path, "%s/report.html", argv[1]);
    if (st != TP_OK || stat(path, &file) != 0) return fprintf(stderr, "%s\n", tp_last_error()), 1;
    printf("{\"curves\": %d, \"steps\": %d, \"put_us\": %.2f, \"write_s\": %.2f, \"bytes\": %lld}\n", curves, steps,
           put, wrote, (long long)file.st_size);
    tp_callback_free(&all->cb);
    tp_monitor_free(report);
    return 0;
}
