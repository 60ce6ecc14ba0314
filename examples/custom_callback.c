/* custom_callback.c - a callback of one's own, in 15 lines: the largest cost of all steps, reported after each epoch
 *
 *   gcc -std=c11 -O2 -I.. custom_callback.c -lm -lpthread -o custom_callback && ./custom_callback
 *
 * A callback is a struct of functions; those that are NULL do nothing. This one asks for a value of each step (before_run), gets it
 * when the step is over (after_run), and reports what it made of it when the epoch ends (trigger). What is reported goes to
 * stats.json, to TensorBoard's event file, to report.html and to the terminal. A callback that keeps something from epoch to
 * epoch also sets save_state and load_state, so that a training that was stopped goes on where it was: see tp_callbacks.h.
 *
 * With --debug the debugger opens before the first step and can show every value that the step computes; its command `help`
 * lists the others. */
#define TP_IMPLEMENTATION
#define TP_STATIC
#define TP_NO_SEQUENCE_LAYERS
#include "tp_train.h"
#include "tp_layers.h"
#include "options.h"
#include <math.h>

/* -- the callback */

/* clang-format off */
static tp_status ask(tp_callback *cb, tp_run_request *r) { return tp_request_fetch(r, cb->train->cost) < 0 ? TP_ERR : TP_OK; }
static tp_status keep(tp_callback *cb, const tp_run_values *v)
{
    double *worst = (double *)cb->user;
    *worst = fmax(*worst, tp_tensor_get(v->value[0], 0));
    return *worst < 1e3 ? TP_OK : tp_stop(cb->train, "the cost is %g", *worst);
}
static tp_status report(tp_callback *cb) { return tp_monitors_put_scalar(cb->train->monitors, "worst_cost", *(double *)cb->user); }

static tp_callback *worst_cost(void)
{
    tp_callback *cb = tp_callback_new("WorstCost", sizeof(double));
    if (cb) cb->before_run = ask, cb->after_run = keep, cb->trigger = report;
    return cb;
}
/* clang-format on */

/* -- a training to watch */

static const tp_spec inputs[] = {TP_SPEC("image", TP_F32, TP_ANY, 28, 28), TP_SPEC("label", TP_I32, TP_ANY)};

static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    (void)g, (void)user;
    tp_node *logits = tp_linear(in[0], TP_FULLY_CONNECTED("fc0", .units = 64, .activation = tp_relu),
                                TP_FULLY_CONNECTED("fc1", .units = 10));
    tp_node *cost = tp_named(tp_mean(tp_sparse_softmax_cross_entropy(logits, in[1])), "cost");
    tp_add_moving_summary(cost);
    return cost;
}

static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_adam(tp_get_scalar_variable(g, "learning_rate", 1e-3f));
}

int main(int argc, char **argv)
{
    int debug = 0;
    const option list[] = {option_flag("--debug", &debug)};
    read_options(argc, argv, list, TP_COUNT(list));
    tp_logger_set_dir("train_log/custom_callback", 'd');
    return tp_launch_train_with_config(
               TP_OPTIONS(
                   tp_train_config,
                   .model = {.inputs = inputs, .n_inputs = 2, .build_graph = build_graph, .optimizer = optimizer},
                   .dataflow = tp_df_batch(tp_df_digits("train", .size = 1600), 32),
                   TP_CALLBACKS(worst_cost(), tp_cb_model_saver(),
                                debug ? tp_cb_debug_cli() : tp_cb_throughput_tracker()),
                   .max_epoch = 3),
               tp_simple_trainer()) != TP_OK;
}
