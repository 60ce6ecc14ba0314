/* plan.c - how long graphs of many operations take to build, to plan and to run: a JSON line for each
 *
 *   gcc -std=c11 -O2 -I. tests/bench/plan.c -o plan -lm -lpthread && ./plan [10000]
 *
 * argument: operations, about. "chain": element-wise operations, which are fused. "dense": layers of matrix product, bias and
 * ReLU. "training": fewer layers, with the gradient and Momentum. "wide": sums of pairs of many values. "fan": one value with
 * many readers, with the gradient. "residual": a training whose layers each add to the value before. */
#define TP_IMPLEMENTATION
#include "tp_layers.h"
#include "tp_optim.h"
#include <stdlib.h>

enum { SIDE = 4 };

static tp_node *chain(tp_graph *g, tp_node *x, int n)
{
    (void)g;
    for (int i = 0; i < n / 2; i++) x = tp_tanh(tp_affine(x, 0.5f, 0.1f));
    return x;
}
static tp_node *dense(tp_graph *g, tp_node *x, int n)
{
    for (int i = 0; i < n / 5; i++) { /* two variables, matmul, bias_add, relu */
        char name[32];
        snprintf(name, sizeof name, "fc%d", i);
        x = tp_fully_connected(x, name, .units = SIDE, .activation = tp_relu);
    }
    (void)g;
    return x;
}
static tp_node *train(tp_graph *g, tp_node *x, int n)
{
    tp_grad_var *gv = (tp_grad_var *)calloc((size_t)n, sizeof *gv);
    tp_node **w = (tp_node **)calloc((size_t)n, sizeof *w);
    int n_w = 0;
    for (int i = 0; i < tp_graph_n_variables(g); i++) w[n_w++] = tp_graph_variable(g, i)->node;
    tp_compute_gradients(tp_mean(tp_square(x)), w, n_w, gv);
    x = tp_apply_gradients(tp_momentum(tp_get_scalar_variable(g, "learning_rate", 0.01f), .momentum = 0.9f), gv, n_w);
    free(gv);
    free(w);
    return x;
}
static tp_node *training(tp_graph *g, tp_node *x, int n) { return train(g, dense(g, x, n / 3), n); }
static tp_node *residual(tp_graph *g, tp_node *x, int n)
{
    for (int i = 0; i < n / 14; i++) {
        char name[32];
        snprintf(name, sizeof name, "fc%d", i);
        x = tp_add(x, tp_affine(tp_fully_connected(x, name, .units = SIDE), 14 / (float)n, 0));
    }
    return train(g, x, n);
}
static tp_node *fan(tp_graph *g, tp_node *x, int n)
{
    tp_node *y = tp_affine(x, 1, 0), *dx = NULL;
    for (int i = 0; i < n / 3; i++) y = tp_add(y, tp_affine(x, 1.0f / (float)(i + 1), 0));
    tp_gradients(tp_mean(tp_square(y)), &x, 1, &dx);
    (void)g;
    return dx;
}
static tp_node *wide(tp_graph *g, tp_node *x, int n)
{
    tp_node **v = (tp_node **)calloc((size_t)n + 1, sizeof *v);
    int many = n / 2;
    for (int i = 0; i < many; i++) v[i] = tp_affine(x, 1.0f + (float)i, 0.0f);
    for (; many > 1; many = (many + 1) / 2)
        for (int i = 0; i < many / 2; i++) v[i] = tp_matmul(v[i], v[many - 1 - i]);
    x = v[0];
    (void)g;
    free(v);
    return x;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        tp_node *(*build)(tp_graph *g, tp_node *x, int n);
    } kinds[] = {{"chain", chain}, {"dense", dense}, {"training", training},
                 {"wide", wide},   {"fan", fan},     {"residual", residual}};
    const int n = argc > 1 ? atoi(argv[1]) : 10000;
    for (int k = 0; k < TP_COUNT(kinds); k++) {
        const double t0 = tp_time();
        tp_graph *g = tp_graph_new(NULL);
        tp_tower_desc tower;
        memset(&tower, 0, sizeof tower);
        tower.is_training = true;
        tp_tower_enter(g, &tower);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(SIDE, SIDE)), *y = kinds[k].build(g, x, n);
        tp_tower_leave(g);
        const double t1 = tp_time();
        tp_session_config config = tp_default_session_config();
        config.threads = 1;
        tp_session *s = tp_session_new(g, &config);
        float data[SIDE * SIDE] = {1};
        tp_feed feed;
        memset(&feed, 0, sizeof feed);
        feed.node = x;
        tp_tensor_view(&feed.value, TP_F32, x->shape, data);
        const tp_tensor *out;
        double t[4];
        for (int i = 0; i < 4; i++) {
            t[i] = tp_time();
            if (!s || tp_session_run(s, &feed, 1, &y, 1, &out) != TP_OK)
                return fprintf(stderr, "%s\n", tp_last_error()), 1;
        }
        const double end = tp_time(), run = end - t[3];
        printf("{\"workload\": \"plan.%s\", \"operations\": %d, \"build_ms\": %.1f, \"plan_ms\": %.1f, \"run_ms\": "
               "%.2f}\n",
               kinds[k].name, tp_graph_n_operations(g), (t1 - t0) * 1e3, (t[1] - t[0] - run) * 1e3, run * 1e3);
        tp_session_free(s);
        tp_graph_free(g);
    }
    return 0;
}
