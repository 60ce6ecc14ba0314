/* sweep.c - one random network: how long a prediction or a training step takes, and all that sweep.py needs to do the same elsewhere
 *
 *   gcc -std=c11 -O2 -I. tests/bench/sweep.c -o build/sweep -lm -lpthread
 *   build/sweep predict|train <seed> <batch> <threads> <seconds> <folder> [plan]
 *
 * batch 0: 1 to 256, as drawn; plan: prints which kernels run, and for how long.
 *
 * networks.h says which networks there are. Prints a JSON line; its "net" is the network as a line of Python, made of the functions
 * that sweep.py has for PyTorch.
 *
 * predict writes net.onnx, x.npy and y.npy (what was computed) into the folder. train draws SGD, Momentum or Adam and makes three steps
 * with x.npy and label.npy; it writes the variables before (start.npz) and after (end.npz), and the gradients after them (grads.npz);
 * "cost" has the cost of each step and the one after them. The time of a step is measured afterwards, with a tiny learning rate. */
#define TP_IMPLEMENTATION
#include "tp_export.h"
#include "tp_layers.h"
#include "tp_optim.h"
#include "networks.h"
#include <math.h>

static const char *folder;
static const char *path(const char *file)
{
    static char buf[1024];
    snprintf(buf, sizeof buf, "%s/%s", folder, file);
    return buf;
}

static tp_status predict(drawing *d)
{
    const tp_tensor *out;
    tp_status st = tp_session_run(d->s, d->feed, 1, &d->y, 1, &out);
    if (st == TP_OK) st = tp_export_onnx(d->s, &d->x, 1, &d->y, 1, path("net.onnx"), NULL);
    if (st == TP_OK) st = tp_npy_save(path("y.npy"), out);
    return st;
}

static tp_status save_gradients(const drawing *d, const tp_tensor *const *value)
{
    tp_dict dict;
    memset(&dict, 0, sizeof dict);
    tp_status st = TP_OK;
    for (int i = 0; st == TP_OK && i < d->n_vars; i++) {
        tp_tensor *t = tp_dict_add(&dict, tp_node_name(d->pair[i].var));
        st = t ? tp_tensor_copy(t, value[i]) : TP_ERR_NOMEM;
    }
    if (st == TP_OK) st = tp_save_checkpoint_vars(&dict, path("grads.npz"));
    tp_dict_free(&dict);
    return st;
}

/* Three steps, and what sweep.py compares. */
static tp_status train(drawing *d)
{
    const tp_tensor *out[1 + MAX_VARS];
    tp_status st = tp_save_checkpoint(d->s, path("start.npz"), NULL, 0);
    for (int i = 0; st == TP_OK && i < 3; i++) {
        st = tp_session_run(d->s, d->feed, 2, d->fetch, 2, out);
        if (st == TP_OK) printf(i ? "%.9g, " : "{\"cost\": [%.9g, ", tp_tensor_get(out[1], 0));
    }
    if (st == TP_OK) st = tp_save_checkpoint(d->s, path("end.npz"), NULL, 0);
    if (st == TP_OK) st = tp_npy_save(path("label.npy"), &d->feed[1].value);
    if (st == TP_OK) st = tp_session_run(d->s, d->feed, 2, d->after, 1 + d->n_vars, out);
    if (st == TP_OK) printf("%.9g], \"optimizer\": \"%s\", ", tp_tensor_get(out[0], 0), d->optimizer);
    if (st == TP_OK) st = save_gradients(d, out + 1);
    const float slow = 1e-6f;
    tp_tensor value = TP_EMPTY;
    tp_tensor_view(&value, TP_F32, tp_make_shape_n(0, NULL), &slow);
    return st == TP_OK ? tp_session_load(d->s, tp_node_variable(d->rate), &value) : st;
}

/* Milliseconds of a run: the best of five averages. */
static tp_status measure(drawing *d, tp_node **fetch, int n_fetch, double seconds, bool plan, double *ms)
{
    const tp_tensor *out[2];
    *ms = 1e30;
    if (plan) tp_exec_set_timing(tp_session_exec(d->s), true);
    for (int round = 0; round < 5; round++) {
        const double t0 = tp_time();
        int n = 0;
        do {
            const tp_status st = tp_session_run(d->s, d->feed, n_fetch, fetch, n_fetch, out);
            if (st != TP_OK) return st;
            n++;
        } while (tp_time() - t0 < seconds / 5);
        *ms = fmin(*ms, (tp_time() - t0) / n * 1e3);
    }
    if (plan) {
        tp_buf text;
        memset(&text, 0, sizeof text);
        tp_exec_print_plan(tp_session_exec(d->s), fetch, n_fetch, &text);
        fputs(text.data, stderr);
        tp_buf_free(&text);
    }
    return TP_OK;
}

static void warnings_only(void *user, tp_log_level level, const char *message)
{
    (void)user;
    if (level >= TP_LOG_WARN) fprintf(stderr, "sweep: %s\n", message);
}

int main(int argc, char **argv)
{
    if (argc < 7)
        return fprintf(stderr, "usage: sweep predict|train <seed> <batch> <threads> <seconds> <folder> [plan]\n"), 2;
    const bool training = strcmp(argv[1], "train") == 0;
    drawing d;
    memset(&d, 0, sizeof d);
    tp_set_log(warnings_only, NULL);
    seed = strtoull(argv[2], NULL, 10);
    folder = argv[6];
    tp_node *cost = draw(&d, atoi(argv[3]), training);
    if (training) add_training(&d, cost);
    tp_session_config config = tp_default_session_config();
    config.threads = atoi(argv[4]);
    d.s = tp_session_new(d.g, &config);
    double ms = 0;
    tp_status st = d.s ? make_feeds(&d) : TP_ERR;
    if (st == TP_OK) st = tp_npy_save(path("x.npy"), &d.feed[0].value);
    if (st == TP_OK) st = training ? train(&d) : predict(&d);
    if (st == TP_OK) st = measure(&d, training ? d.fetch : &d.y, training ? 2 : 1, atof(argv[5]), argc > 7, &ms);
    if (st != TP_OK) return fprintf(stderr, "seed %s: %s: %s\n", argv[2], net, tp_last_error()), 1;
    printf("%s\"seed\": %s, \"batch\": %d, \"threads\": %s, \"ours_ms\": %.4f, \"net\": \"%s\"}\n", training ? "" : "{",
           argv[2], (int)d.x->shape.dim[0], argv[4], ms, net);
    for (int i = 0; i < 2; i++) tp_tensor_free(&d.feed[i].value);
    tp_session_free(d.s);
    tp_graph_free(d.g);
    return 0;
}
