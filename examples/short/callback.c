/* callback.c - a callback of your own: it counts the steps whose cost rose, and ends the training when it is low
 *   gcc -std=c11 -O2 -I../.. callback.c -lm -lpthread -o callback && ./callback */
#define TP_IMPLEMENTATION
#define TP_STATIC
#define TP_NO_SEQUENCE_LAYERS
#include "tp_train.h"
#include "tp_layers.h"

static const tp_spec inputs[] = {TP_SPEC("image", TP_F32, TP_ANY, 28, 28), TP_SPEC("label", TP_I32, TP_ANY)};
static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    (void)g, (void)user;
    tp_node *logits = tp_linear(in[0], TP_FULLY_CONNECTED("fc0", .units = 64, .activation = tp_relu),
                                TP_FULLY_CONNECTED("fc1", .units = 10));
    return tp_named(tp_mean(tp_sparse_softmax_cross_entropy(logits, in[1])), "cost");
}

static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_adam(tp_get_scalar_variable(g, "learning_rate", 1e-3f));
}

typedef struct costs {
    double last;
    int rises;
} costs;
static tp_status ask(tp_callback *cb, tp_run_request *r) /* before each step */
{
    return tp_request_fetch(r, cb->train->cost) < 0 ? TP_ERR : TP_OK;
}
static tp_status look(tp_callback *cb, const tp_run_values *v) /* after each step */
{
    costs *c = (costs *)cb->user;
    const double cost = tp_tensor_get(v->value[0], 0);
    c->rises += cost > c->last;
    c->last = cost;
    return cost < 0.2 ? tp_stop(cb->train, "the cost is %g", cost) : TP_OK;
}
static tp_status report(tp_callback *cb) /* each epoch */
{
    return tp_monitors_put_int(cb->train->monitors, "rises", ((costs *)cb->user)->rises);
}
static tp_callback *count_rises(void)
{
    tp_callback *cb = tp_callback_new("CountRises", sizeof(costs)); /* zeroed; freed with the callback */
    if (cb) cb->before_run = ask, cb->after_run = look, cb->trigger = report;
    return cb;
}

int main(void)
{
    tp_logger_set_dir("train_log/callback", 'd');
    return tp_launch_train_with_config(
               TP_OPTIONS(
                   tp_train_config,
                   .model = {.inputs = inputs, .n_inputs = 2, .build_graph = build_graph, .optimizer = optimizer},
                   .dataflow = tp_df_batch(tp_df_digits("train"), 64), TP_CALLBACKS(count_rises()), .max_epoch = 5),
               tp_simple_trainer()) != TP_OK;
}
