/* elementwise.c - nanoseconds per element of element-wise functions and their gradients: one thread, 2^20 float32
 *
 *   make build/elementwise && build/elementwise [part of a name] [instruction set]
 *
 * Prints one line of JSON for each function: "ns" is the best of many runs of y = f(x), "grad_ns" that of dx alone for
 * y = f(x) and a given dy: the run computes only those parts of f that its gradient uses. x and dy are variables, drawn from a normal
 * distribution; pow, log and sqrt get positive numbers. The line "copy" is y = -x: what reading, writing and fetching cost. */
#define TP_IMPLEMENTATION
#define TP_STATIC
#include "tp_graph.h"
#include <stdio.h>
#include <string.h>

enum { N = 1 << 20, RUNS = 40 };

typedef tp_node *(*function)(tp_node *x);
static tp_node *mish(tp_node *x) { return tp_mul(x, tp_tanh(tp_softplus(x))); }
static tp_node *leaky(tp_node *x) { return tp_leaky_relu(x, 0.1f); }
static tp_node *of_size(tp_node *x) { return tp_affine(tp_abs(x), 1.0f, 0.01f); }
static tp_node *sqrt_of(tp_node *x) { return tp_sqrt(of_size(x)); }
static tp_node *log_of(tp_node *x) { return tp_ln(of_size(x)); }
static tp_node *pow_of(tp_node *x) { return tp_pow(of_size(x), x); }
static tp_node *third_power(tp_node *x) { return tp_pow(x, tp_const_as(tp_node_graph(x), TP_F32, 3.0)); }
static tp_node *sine_of_part(tp_node *x) { return tp_asin(tp_affine(x, 0.15f, 0.0f)); }

static const struct {
    const char *name;
    function fn;
} functions[] = {{"copy", tp_neg},          {"relu", tp_relu},    {"leaky_relu", leaky}, {"sqrt", sqrt_of},
                 {"exp", tp_exp},           {"log", log_of},      {"tanh", tp_tanh},     {"sigmoid", tp_sigmoid},
                 {"silu", tp_silu},         {"erf", tp_erf},      {"gelu", tp_gelu},     {"gelu_tanh", tp_gelu_tanh},
                 {"softplus", tp_softplus}, {"mish", mish},       {"elu", tp_elu},       {"selu", tp_selu},
                 {"sin", tp_sin},           {"cos", tp_cos},      {"atan", tp_atan},     {"asin", sine_of_part},
                 {"pow", pow_of},           {"pow3", third_power}};

/* Returns the shortest time of a run that computes y, in nanoseconds per element; -1 after an error. */
static double measure(tp_session *s, tp_node *y)
{
    double best = 1e9;
    for (int i = 0; i < RUNS; i++) {
        const tp_tensor *out = NULL;
        const double begin = tp_time();
        if (tp_session_run(s, NULL, 0, &y, 1, &out) != TP_OK) return puts(tp_last_error()), -1;
        const double t = tp_time() - begin;
        if (t < best) best = t;
    }
    return best * 1e9 / N;
}

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : "";
    tp_session_config config = tp_default_session_config();
    config.threads = 1;
    if (argc > 2) config.isa = argv[2];
    for (int f = 0; f < TP_COUNT(functions); f++) {
        if (!strstr(functions[f].name, only)) continue;
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_get_variable_as(g, "x", TP_F32, tp_make_shape(N), tp_init_normal(0.0f, 2.0f)), *dx = NULL;
        tp_node *dy = tp_get_variable_as(g, "dy", TP_F32, tp_make_shape(N), tp_init_normal(0.0f, 1.0f));
        tp_node *y = functions[f].fn(x);
        tp_gradients(tp_sum(tp_mul(y, dy)), &x, 1, &dx);
        tp_session *s = tp_session_new(g, &config);
        if (!s) return puts(tp_last_error()), 1;
        const double forward = measure(s, y), backward = measure(s, dx);
        printf("{\"function\": \"%s\", \"ns\": %.3f, \"grad_ns\": %.3f}\n", functions[f].name, forward, backward);
        fflush(stdout);
        tp_session_free(s);
        tp_graph_free(g);
        if (forward < 0 || backward < 0) return 1;
    }
    return 0;
}
