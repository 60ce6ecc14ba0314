/* custom_op.c - an op of your own, with its gradient, its test and a network that uses it
 *
 *   gcc -std=c11 -O2 -I.. custom_op.c -lm -lpthread -o custom_op && ./custom_op
 *
 * An op is one constant struct, a row of the op table: a name, a shape rule, a gradient, and the loops that compute it. A row of
 * yours can do everything that the library's own can: it is fused with its neighbours, differentiated, and run on all threads.
 * This one is the activation "snake", y = x + sin(a x)^2 / a, for networks that learn something periodic; a is an attribute.
 * First it is tested: its values against the formula, its derivative against finite differences. Then a small network with it
 * learns sin(3x), and the same network with relu for comparison. New here, compared with training_loop.c: the row of an op.
 *   --steps n (1000)
 * Mean squared error after 1000 steps, in one second: 0.00083 with snake, 0.0506 with relu. */
#define TP_IMPLEMENTATION
#define TP_STATIC
#define TP_NO_SEQUENCE_LAYERS
#include "tp_layers.h"
#include "tp_optim.h"
#include "options.h"
#include <math.h>

/* -- the op: y = x + sin(a x)^2 / a,  dy/dx = 1 + 2 sin(a x) cos(a x) = 1 + sin(2 a x) */

typedef struct snake_attrs {
    float a;
} snake_attrs;
static const tp_attr snake_schema[] = {{"a", TP_ATTR_FLOAT, offsetof(snake_attrs, a)}, {NULL, TP_ATTR_INT, 0}};

/* The shape rule: the output is like the input. Called when the graph is built (dimensions may be TP_ANY), and for each plan. */
static tp_status snake_infer(tp_infer *s)
{
    if (s->in[0].dtype != TP_F32 && s->in[0].dtype != TP_F64)
        return tp_infer_fail(s, TP_ERR_DTYPE, "snake works on float32 and float64, not on %s; tp_cast it first",
                             tp_dtype_name(s->in[0].dtype));
    s->out[0] = s->in[0];
    return TP_OK;
}

/* n elements. The planner calls these for short pieces of a chain of element-wise ops. */
static void snake_f32(int64_t n, void *y, const void *const *in, const void *attrs)
{
    const float a = ((const snake_attrs *)attrs)->a, *x = (const float *)in[0];
    for (int64_t i = 0; i < n; i++) {
        const float sine = sinf(a * x[i]);
        ((float *)y)[i] = x[i] + sine * sine / a;
    }
}
static void snake_f64(int64_t n, void *y, const void *const *in, const void *attrs)
{
    const double a = (double)((const snake_attrs *)attrs)->a, *x = (const double *)in[0];
    for (int64_t i = 0; i < n; i++) {
        const double sine = sin(a * x[i]);
        ((double *)y)[i] = x[i] + sine * sine / a;
    }
}
/* The whole output, for an op that stands alone. */
static void snake_kernel(const tp_call *k)
{
    const void *in[1] = {k->in[0].data};
    const tp_block_fn block = k->in[0].dtype == TP_F64 ? snake_f64 : snake_f32;
    block(tp_shape_size(&k->out[0].shape), k->out[0].data, in, k->attrs);
}

/* The gradient adds nodes, made of other ops: dx = dy (1 + sin(2 a x)). So it can be differentiated again. */
static void snake_grad(tp_grad *g)
{
    const float a = ((const snake_attrs *)g->op->attrs)->a;
    g->din[0] = tp_mul(g->dout[0], tp_affine(tp_sin(tp_affine(g->in[0], 2 * a, 0)), 1, 1));
}

static tp_op snake_row(void)
{
    tp_op row;
    memset(&row, 0, sizeof row);
    row.name = "snake", row.label = "Snake"; /* nodes are named Snake, Snake_1, ... */
    row.flags = TP_OP_ELEMENTWISE;
    row.min_in = row.max_in = row.n_out = 1;
    row.attr = snake_schema, row.attr_size = sizeof(snake_attrs);
    row.infer = snake_infer, row.grad = snake_grad;
    row.block_f32 = snake_f32, row.block_f64 = snake_f64;
    row.naive_f32 = row.naive_f64 = snake_kernel;
    return row;
}
static tp_op row; /* must outlive the graph */

/* The builder, to be used like tp_relu. */
static tp_node *snake(tp_node *x)
{
    const snake_attrs attrs = {2.0f};
    return tp_apply(tp_node_graph(x), &row, &x, 1, &attrs);
}

/* -- its test, in float64 */

static bool test(void)
{
    enum { N = 9 };
    double x[N], worst_value = 0, worst_slope = 0;
    for (int i = 0; i < N; i++) x[i] = 0.7 * (i - 4);
    tp_graph *g = tp_graph_new(NULL);
    if (!g) return false;
    tp_node *in = tp_placeholder(g, "x", TP_F64, tp_make_shape(TP_ANY)), *y = snake(in);
    const tp_feed feed = TP_FEED(in, TP_F64, x, N);
    tp_tensor value = TP_EMPTY;
    const bool good = tp_eval_now(y, &feed, 1, &value) == TP_OK &&
                      tp_check_gradients(y, &feed, 1, 1e-8, &worst_slope) == TP_OK; /* against finite differences */
    if (!good) printf("%s\n", tp_last_error());
    for (int i = 0; i < N && good; i++)
        worst_value = fmax(worst_value, fabs(tp_tensor_get(&value, i) - (x[i] + sin(2 * x[i]) * sin(2 * x[i]) / 2)));
    printf("snake: largest error of its value %.1e, of its derivative %.1e\n", worst_value, worst_slope);
    tp_tensor_free(&value);
    tp_graph_free(g);
    return good && worst_value < 1e-12;
}

/* -- a network that uses it. The data are nodes, too: new random numbers in each run, so that nothing is fed. */

static double train(tp_activation activation, int steps)
{
    double cost = NAN;
    tp_graph *g = tp_graph_new(NULL);
    if (!g) return cost;
    const tp_tower_desc tower = {.is_training = true};
    tp_tower_enter(g, &tower);
    tp_disable_layer_logging(g);
    tp_node *x = tp_rand_uniform(g, tp_make_shape(128, 1), -3, 3), *y = NULL;
    TP_ARGSCOPE(g, fully_connected, .units = 32, .activation = activation)
    {
        y = tp_linear(x, TP_FULLY_CONNECTED("fc0"), TP_FULLY_CONNECTED("fc1"),
                      TP_FULLY_CONNECTED("out", .units = 1, .activation = tp_identity));
    }
    tp_node *mse = tp_sym_mse(y, tp_sin(tp_affine(x, 3, 0)), NULL);
    tp_tower_leave(g);
    tp_node *const fetch[] = {tp_minimize(tp_adam(tp_const(g, 3e-3f)), mse, NULL), mse};
    tp_session *s = tp_session_new(g, NULL);
    tp_status st = s ? TP_OK : TP_ERR;
    for (int i = 0; i < steps && st == TP_OK; i++) {
        const tp_tensor *out[2];
        st = tp_session_run(s, NULL, 0, fetch, 2, out);
        if (st == TP_OK) cost = tp_tensor_get(out[1], 0);
    }
    if (st != TP_OK) printf("%s\n", tp_last_error());
    tp_session_free(s);
    tp_graph_free(g);
    return cost;
}

int main(int argc, char **argv)
{
    int steps = 1000;
    const option list[] = {option_int("--steps n", &steps, 1)};
    read_options(argc, argv, list, TP_COUNT(list));
    row = snake_row();
    if (!test()) return 1;
    const double with_snake = train(snake, steps), with_relu = train(tp_relu, steps);
    printf("sin(3x) after %d steps: mean squared error %.5f with snake, %.5f with relu\n", steps, with_snake,
           with_relu);
    return with_snake < 0.01 ? 0 : 1;
}
