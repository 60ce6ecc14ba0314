/* Half precision as an option of a session: which values are stored so, that variables and fetches are not, and that
 * networks train. On the CPU, where half-precision operands are converted around the float loops. */
#define TP_IMPLEMENTATION
#include "tp_layers.h"
#include "tp_optim.h"
#include "tp_test.h"

static tp_session *open_with(tp_graph *g, tp_precision precision, int threads, bool no_fusion)
{
    tp_session_config c = tp_default_session_config();
    c.precision = precision;
    c.threads = threads;
    c.no_fusion = no_fusion;
    tp_session *s = tp_session_new(g, &c);
    CHECK_MSG(s != NULL, "%s", tp_last_error());
    return s;
}

static float rounded(float x, tp_precision p)
{
    if (p == TP_PRECISION_BF16) return tp_bf16_to_f32(tp_f32_to_bf16(x));
    if (p == TP_PRECISION_F16) return tp_f16_to_f32(tp_f32_to_f16(x));
    return x;
}

static void fill(tp_tensor *t, tp_shape s, uint64_t key)
{
    if (!CHECK_OK(tp_tensor_resize(t, TP_F32, s))) return;
    for (int64_t i = 0; i < tp_tensor_size(t); i++)
        ((float *)t->data)[i] = 2 * tp_random_uniform(key, 7, (uint64_t)i) - 1;
}

/* A sum for each of so many towers has more half-precision operands than can be converted: the session says so. */
TEST(an_all_reduce_of_too_many_halves_is_a_sentence)
{
    for (int n = 32; n <= 33; n++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x[33], *y[33];
        const tp_tensor *out = NULL;
        for (int i = 0; i < n; i++) x[i] = tp_cast(tp_const(g, (float)i), TP_F16);
        tp_all_reduce(x, n, false, y);
        tp_session *s = open_with(g, TP_PRECISION_F32, 1, false);
        if (n == 33) CHECK_ERR(tp_session_run(s, NULL, 0, y, 1, &out), TP_ERR_UNSUPPORTED, "too many half-precision");
        else if (CHECK_OK(tp_session_run(s, NULL, 0, y, 1, &out))) CHECK_NEAR(tp_tensor_get(out, 0), 496, 0, 0);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

TEST(a_product_rounds_its_operands_and_its_result)
{
    const tp_precision all[] = {TP_PRECISION_F32, TP_PRECISION_TF32, TP_PRECISION_BF16, TP_PRECISION_F16};
    for (int q = 0; q < TP_COUNT(all); q++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_tensor a, b;
        memset(&a, 0, sizeof a);
        memset(&b, 0, sizeof b);
        fill(&a, tp_make_shape(5, 37), 1);
        fill(&b, tp_make_shape(37, 6), 2);
        tp_node *x = tp_placeholder(g, "x", TP_F32, a.shape), *w = tp_placeholder(g, "w", TP_F32, b.shape);
        tp_node *y = tp_matmul(x, w), *fetch[] = {y, tp_tanh(y), tp_sum(y), x};
        tp_session *s = open_with(g, all[q], 1, false);
        tp_feed feed[2];
        memset(feed, 0, sizeof feed);
        feed[0].node = x, feed[1].node = w;
        feed[0].value = a, feed[1].value = b;
        const tp_tensor *v[4];
        if (s && CHECK_OK(tp_session_run(s, feed, 2, fetch, 4, v))) {
            double sum = 0;
            for (int i = 0; i < 30; i++) {
                double exact = 0;
                for (int k = 0; k < 37; k++)
                    exact += (double)rounded(((float *)a.data)[i / 6 * 37 + k], all[q]) *
                             (double)rounded(((float *)b.data)[k * 6 + i % 6], all[q]);
                const float got = ((const float *)v[0]->data)[i];
                const double ulp = all[q] == TP_PRECISION_BF16  ? 1.0 / 256
                                   : all[q] == TP_PRECISION_F16 ? 1.0 / 2048
                                                                : 1e-6;
                CHECK(got == rounded(got, all[q]));
                CHECK_MSG(fabs((double)got - exact) <= ulp * fabs(exact) + 1e-5, "precision %d: %g, expected %g",
                          (int)all[q], (double)got, exact);
                const float t = ((const float *)v[1]->data)[i];
                CHECK(t == rounded(t, all[q]) && fabs((double)t - tanh((double)got)) <= ulp + 1e-6);
                sum += (double)got;
            }
            CHECK(v[0]->dtype == TP_F32 && v[1]->dtype == TP_F32);
            CHECK_NEAR(tp_tensor_get(v[2], 0), sum, 1e-5, 1e-5); /* sums are float32, of what was stored */
            CHECK(memcmp(v[3]->data, a.data, tp_tensor_bytes(&a)) == 0);
        }
        tp_session_free(s);
        tp_graph_free(g);
        tp_tensor_free(&a);
        tp_tensor_free(&b);
    }
}

typedef struct net {
    tp_graph *g;
    tp_node *x, *labels, *cost, *train, *conv, *norm, *pool, *product;
} net;

static net begin(void)
{
    net n;
    memset(&n, 0, sizeof n);
    n.g = tp_graph_new(NULL);
    n.x = tp_placeholder(n.g, "x", TP_F32, tp_make_shape(TP_ANY, 8, 8, 3));
    n.labels = tp_placeholder(n.g, "labels", TP_I32, tp_make_shape(TP_ANY));
    tp_tower_desc d;
    memset(&d, 0, sizeof d);
    d.is_training = true;
    tp_tower_enter(n.g, &d);
    return n;
}
static net finish(net n, tp_node *logits, bool scaled)
{
    n.cost = tp_mean(tp_sparse_softmax_cross_entropy(logits, n.labels));
    for (n.product = logits; strcmp(n.product->op->row->name, "matmul") != 0;) n.product = n.product->op->in[0];
    int n_var = 0;
    tp_node *const *vars = tp_collection(n.g, TP_KEY_TRAINABLE_VARIABLES, &n_var);
    tp_grad_var gv[32];
    tp_optimizer *o = tp_momentum(tp_get_scalar_variable(n.g, "learning_rate", 0.05f));
    if (scaled) o = tp_loss_scale(o, .initial = 1024, .interval = 10);
    tp_optimizer_compute_gradients(o, n.cost, vars, n_var, gv);
    n.train = tp_apply_gradients(o, gv, n_var);
    tp_tower_leave(n.g);
    CHECK_MSG(tp_graph_status(n.g) == TP_OK, "%s", tp_graph_error(n.g));
    return n;
}
static net convnet(bool scaled)
{
    net n = begin();
    n.conv = tp_conv2d(n.x, "conv0", .filters = 8, .kernel_size = 3);
    n.norm = tp_relu(tp_batch_norm(n.conv, "bn0"));
    n.pool = tp_max_pooling(n.norm, "pool0", .pool_size = 2);
    tp_node *l = tp_add(tp_conv2d(n.pool, "conv1", .filters = 8, .kernel_size = 3), n.pool);
    l = tp_fully_connected(l, "fc0", .units = 16, .activation = tp_relu);
    l = tp_fully_connected(l, "fc1", .units = 4);
    return finish(n, l, scaled);
}
/* LSTM, GRU and attention, over the picture's eight rows. */
static net sequences(bool scaled)
{
    net n = begin();
    tp_node *l = tp_reshape_to(n.x, tp_make_shape(TP_ANY, 8, 24)), *both[2];
    tp_rnn_state last;
    memset(&last, 0, sizeof last);
    n.conv = tp_lstm(l, "lstm", .units = 16, .state = &last);
    n.norm = tp_gru(n.conv, "gru", .units = 16);
    n.pool = tp_multi_head_attention(n.norm, "attention", .heads = 2, .causal = TP_YES);
    both[0] = tp_batch_flatten(n.pool), both[1] = tp_add(last.h, last.c);
    l = tp_fully_connected(tp_concat(both, 2, 1), "fc", .units = 4);
    return finish(n, l, scaled);
}
static net (*const nets[])(bool scaled) = {convnet, sequences};

/* Train on one batch; the cost before and after, and a hash of the variables. */
static uint64_t train(const net *n, tp_session *s, int steps, tp_node *extra, double cost[2])
{
    tp_tensor x, y;
    memset(&x, 0, sizeof x);
    memset(&y, 0, sizeof y);
    fill(&x, tp_make_shape(12, 8, 8, 3), 3);
    CHECK_OK(tp_tensor_resize(&y, TP_I32, tp_make_shape(12)));
    for (int i = 0; i < 12; i++) ((int32_t *)y.data)[i] = i % 4;
    tp_feed feed[2];
    memset(feed, 0, sizeof feed);
    feed[0].node = n->x, feed[1].node = n->labels;
    feed[0].value = x, feed[1].value = y;
    for (int i = 0; i < steps; i++) {
        tp_node *fetch[3] = {n->cost, n->train, extra};
        const tp_tensor *v[3];
        if (!CHECK_OK(tp_session_run(s, feed, 2, fetch, extra ? 3 : 2, v))) break;
        if (i == 0) cost[0] = tp_tensor_get(v[0], 0);
        cost[1] = tp_tensor_get(v[0], 0);
        if (extra) CHECK(v[2]->dtype == TP_F32);
    }
    uint64_t h = 0;
    for (int i = 0; i < tp_graph_n_variables(n->g); i++) {
        tp_tensor t;
        memset(&t, 0, sizeof t);
        if (CHECK_OK(tp_session_read(s, tp_graph_variable(n->g, i), &t))) {
            CHECK(t.dtype == tp_graph_variable(n->g, i)->dtype);
            h = h * 31 + tp_hash(t.data, tp_tensor_bytes(&t));
        }
        tp_tensor_free(&t);
    }
    tp_tensor_free(&x);
    tp_tensor_free(&y);
    return h;
}

TEST(networks_train_in_half_precision)
{
    tp_set_log(tp_test_drop_log, NULL);
    double exact[2] = {0, 0};
    for (int which = 0; which < TP_COUNT(nets) * 4; which++) {
        const int p = which % 4;
        net n = nets[which / 4](p == (int)TP_PRECISION_F16);
        tp_session *s = open_with(n.g, (tp_precision)p, 1, false);
        double cost[2] = {0, 0};
        if (s) train(&n, s, 40, NULL, cost);
        if (p == 0) exact[0] = cost[0], exact[1] = cost[1];
        CHECK_MSG(fabs(cost[0] - exact[0]) < 0.02 * exact[0], "network %d, precision %d begins at %g, float32 at %g",
                  which / 4, p, cost[0], exact[0]);
        CHECK_MSG(cost[1] < 0.2 * cost[0], "network %d, precision %d: the cost went from %g to %g only", which / 4, p,
                  cost[0], cost[1]);
        tp_session_free(s);
        tp_graph_free(n.g);
    }
    tp_set_log(NULL, NULL);
}

TEST(fetches_threads_and_fusion_change_no_bits)
{
    tp_set_log(tp_test_drop_log, NULL);
    for (int which = 0; which < TP_COUNT(nets) * 2; which++) {
        const int p = (int)TP_PRECISION_BF16 + which % 2;
        uint64_t first = 0;
        for (int how = 0; how < 8; how++) {
            net n = nets[which / 2](false);
            tp_node *extra[] = {NULL, n.conv, n.norm, n.pool, n.norm->op->in[0], n.product, NULL, NULL};
            tp_session *s = open_with(n.g, (tp_precision)p, how == 6 ? 3 : 1, how == 7);
            double cost[2];
            const uint64_t h = s ? train(&n, s, 3, extra[how], cost) : 0;
            if (how == 0) first = h;
            CHECK_MSG(h == first, "network %d, precision %d: variant %d trained to other bits", which / 2, p, how);
            tp_session_free(s);
            tp_graph_free(n.g);
        }
    }
    tp_set_log(NULL, NULL);
}

/* The product's sum is rounded once, with its bias, which is an operand and rounded like one; seen alone it is float32. */
TEST(a_bias_is_added_before_rounding)
{
    const tp_precision half[] = {TP_PRECISION_BF16, TP_PRECISION_F16};
    for (int how = 0; how < 8; how++) {
        const tp_precision p = half[how % 2];
        tp_graph *g = tp_graph_new(NULL);
        tp_tensor v[3];
        memset(v, 0, sizeof v);
        fill(&v[0], tp_make_shape(5, 37), 1);
        fill(&v[1], tp_make_shape(37, 6), 2);
        fill(&v[2], tp_make_shape(6), 3);
        tp_feed feed[3];
        memset(feed, 0, sizeof feed);
        for (int i = 0; i < 3; i++) {
            feed[i].node = tp_placeholder(g, i == 0 ? "x" : i == 1 ? "w" : "b", TP_F32, v[i].shape);
            feed[i].value = v[i];
        }
        tp_node *product = tp_matmul(feed[0].node, feed[1].node), *y = tp_nn_bias_add(product, feed[2].node, TP_NHWC);
        tp_node *fetch[] = {tp_relu(y), y, product};
        tp_session *s = open_with(g, p, 1, how >= 6);
        const tp_tensor *got[3];
        const int n = how / 2 % 3 + 1; /* with the product, with y fetched, too, they are steps of their own */
        if (s && CHECK_OK(tp_session_run(s, feed, 3, fetch, n, got)))
            for (int i = 0; i < 30; i++) {
                float sum = 0;
                for (int k = 0; k < 37; k++)
                    sum += rounded(((float *)v[0].data)[i / 6 * 37 + k], p) *
                           rounded(((float *)v[1].data)[k * 6 + i % 6], p);
                if (n == 3) {
                    const float alone = ((const float *)got[2]->data)[i];
                    CHECK_NEAR((double)alone, (double)sum, 1e-5, 1e-5);
                    sum = alone;
                }
                sum += rounded(((float *)v[2].data)[i % 6], p);
                const float last = ((const float *)got[0]->data)[i], once = rounded(sum > 0 ? sum : 0, p);
                if (n == 3) CHECK(last == once);
                CHECK(last == rounded(last, p) && fabs((double)(last - once)) <= 0.01 * fabs((double)once) + 1e-6);
                if (n > 1) CHECK(((const float *)got[1]->data)[i] == rounded(((const float *)got[1]->data)[i], p));
            }
        tp_session_free(s);
        tp_graph_free(g);
        for (int i = 0; i < 3; i++) tp_tensor_free(&v[i]);
    }
}

/* What a sequence carries on stays float32; what it gives to the next layer is stored half. */
TEST(states_stay_single)
{
    tp_set_log(tp_test_drop_log, NULL);
    const tp_precision all[] = {TP_PRECISION_F32, TP_PRECISION_BF16, TP_PRECISION_F16};
    float exact[3][4 * 30 * 6];
    for (int q = 0; q < TP_COUNT(all); q++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_tensor x;
        memset(&x, 0, sizeof x);
        fill(&x, tp_make_shape(4, 30, 6), 5);
        tp_feed feed;
        memset(&feed, 0, sizeof feed);
        feed.node = tp_placeholder(g, "x", TP_F32, x.shape);
        feed.value = x;
        tp_rnn_state last;
        memset(&last, 0, sizeof last);
        tp_node *fetch[] = {tp_lstm(feed.node, "lstm", .units = 6, .state = &last), NULL,
                            tp_nn_attention(feed.node, feed.node, feed.node, 2, true)};
        fetch[1] = last.c;
        tp_session *s = open_with(g, all[q], 1, false);
        const tp_tensor *got[3];
        if (s && CHECK_OK(tp_session_run(s, &feed, 1, fetch, 3, got)))
            for (int o = 0; o < 3; o++) {
                const int64_t size = tp_tensor_size(got[o]);
                int64_t coarse = 0;
                double worst = 0;
                for (int64_t i = 0; i < size && CHECK(size <= 720); i++) {
                    const float y = ((const float *)got[o]->data)[i];
                    if (q == 0) exact[o][i] = y;
                    worst = tp_test_worse(worst, fabs((double)(y - exact[o][i])));
                    coarse += y == rounded(y, all[q]);
                }
                CHECK(o == 1 && q > 0 ? coarse < size : coarse == size);
                CHECK_MSG(worst <= (all[q] == TP_PRECISION_BF16 ? 2e-2 : 3e-3), "precision %d, output %d: off by %g",
                          (int)all[q], o, worst);
            }
        tp_session_free(s);
        tp_graph_free(g);
        tp_tensor_free(&x);
    }
    tp_set_log(NULL, NULL);
}

/* ==== which values are rounded ========================================================================= */
/* x (4,8), w (8,8) and b (8) are fed, float32 of more digits than a half has; their sums of products are exact. r rounds. */

enum { ROWS = 4, COLS = 8, MOST_FED = 5 };
typedef struct halves {
    tp_graph *g;
    tp_node *x, *w, *b, *y, *fed; /* y is fetched; fed, too, with its own values, of x's shape */
    float X[ROWS * COLS], W[COLS * COLS], B[COLS], F[ROWS * COLS], mm[ROWS * COLS], want[ROWS * COLS];
    tp_precision p;
} halves;

static float r(const halves *h, float v) { return rounded(v, h->p); }
static tp_node *times(const halves *h) { return tp_matmul(h->x, h->w); }
static tp_node *cut(const halves *h, const float *v, int64_t rows, int64_t cols) /* a constant */
{
    tp_tensor t;
    memset(&t, 0, sizeof t);
    tp_tensor_view(&t, TP_F32, tp_make_shape(rows, cols), v);
    return tp_constant(h->g, &t);
}
/* What is built for each case, and element i of it. */
enum {
    P_PRODUCT,
    P_SQUARE,
    P_PLUS_X,
    P_TIMES_B,
    P_TIMES_TWO,
    P_VIEW,
    P_CONCAT,
    P_CONCAT_X,
    P_SUM,
    P_BIAS,
    P_BIAS_NCHW,
    P_BIAS_OF_SQUARE,
    P_BIAS_BATCHED,
    P_BIAS_ROWS,
    P_BESIDE_BIAS,
    P_CONSTANTS,
    P_CONSTANT_LEFT,
    P_RANDOM,
    P_FED,
    P_FED_BIAS,
    P_BIAS_FED,
    P_ASSIGN,
    P_CAST,
    P_CAST_INT,
    P_ADD_N,
    P_ADD_N_X,
    P_SELECT,
    P_ZEROS,
    P_ASSIGNED_CONSTANT,
    P_CONSTANT_FED,
    P_NORM_FED,
    P_LSTM_FED,
    P_ROWS_NCHW,
    P_KINDS
};
static tp_node *build_half(halves *h, int kind)
{
    tp_node *mm = kind == P_CONSTANTS || kind == P_RANDOM ? NULL : times(h), *two[2];
    switch (kind) {
    case P_SQUARE: return tp_square(mm);
    case P_PLUS_X: return tp_add(mm, h->x);
    case P_TIMES_B: return tp_mul(mm, h->b);
    case P_TIMES_TWO: return tp_mul(tp_const(h->g, 1.7f), mm);
    case P_VIEW: return tp_square(tp_reshape_to(tp_transpose(mm, NULL, 0), tp_make_shape(ROWS, COLS)));
    case P_CONCAT:
    case P_CONCAT_X: /* with half of x the whole is float32 */
        two[0] = mm, two[1] = kind == P_CONCAT ? mm : h->x;
        return tp_square(tp_slice(tp_concat(two, 2, 0), (const int64_t[]){0, 0}, (const int64_t[]){ROWS, COLS}));
    case P_SUM: return tp_mul(tp_reduce_sum(mm, (const int[]){1}, 1, true), tp_ones_like(h->x));
    case P_BIAS: return tp_nn_bias_add(mm, h->b, TP_NHWC);
    case P_BIAS_NCHW: return tp_nn_bias_add(mm, h->b, TP_NCHW);
    case P_BIAS_OF_SQUARE: return tp_nn_bias_add(tp_square(mm), h->b, TP_NHWC);
    case P_BIAS_BATCHED: /* the right operand has more than two dimensions: rounded, then the bias, which is float32 */
    case P_BIAS_ROWS:    /* the left one alone: as without */
        two[0] = tp_reshape_to(h->x, tp_make_shape(1, ROWS, COLS));
        two[1] = kind == P_BIAS_ROWS ? h->w : tp_reshape_to(h->w, tp_make_shape(1, COLS, COLS));
        return tp_reshape_to(tp_nn_bias_add(tp_matmul(two[0], two[1]), h->b, TP_NHWC), tp_make_shape(ROWS, COLS));
    case P_BESIDE_BIAS: /* who else reads the product reads it unrounded */
        two[0] = tp_nn_bias_add(mm, h->b, TP_NHWC);
        return tp_add(tp_square(mm), tp_zeros_like(two[0]));
    case P_CONSTANTS: return tp_matmul(cut(h, h->X, ROWS, COLS), cut(h, h->W, COLS, COLS));
    case P_CONSTANT_LEFT: return tp_matmul(cut(h, h->X, ROWS, COLS), h->w);
    case P_RANDOM: return tp_matmul(tp_nn_dropout(cut(h, h->X, ROWS, COLS), 1e-9f), cut(h, h->W, COLS, COLS));
    case P_FED: return tp_square(h->fed = mm);
    case P_FED_BIAS: return tp_nn_bias_add(h->fed = mm, h->b, TP_NHWC);
    case P_BIAS_FED: return tp_square(h->fed = tp_nn_bias_add(mm, h->b, TP_NHWC));
    case P_ASSIGN:
        return tp_square(tp_assign(tp_get_variable_as(h->g, "v", TP_F32, h->x->shape, tp_init_zeros()), mm, NULL));
    case P_CAST: return tp_cast(tp_cast(mm, TP_F64), TP_F32);
    case P_CAST_INT: return tp_cast(tp_cast(mm, TP_I32), TP_F32);
    case P_ADD_N:
    case P_ADD_N_X: {
        tp_node *three[3] = {mm, tp_neg(times(h)), kind == P_ADD_N ? tp_square(mm) : h->x};
        return tp_add_n(three, 3);
    }
    case P_SELECT: return tp_select(tp_greater(h->x, tp_const(h->g, 0)), mm, tp_neg(mm));
    case P_ZEROS: return tp_add(tp_zeros_like(mm), h->x);
    case P_ASSIGNED_CONSTANT: /* what is written now is not known before */
        two[0] = tp_get_variable_as(h->g, "v", TP_F32, h->x->shape, tp_init_zeros());
        return tp_matmul(tp_assign(two[0], cut(h, h->X, ROWS, COLS), NULL), cut(h, h->W, COLS, COLS));
    case P_CONSTANT_FED: /* one of two parts of what is known, the other one is still to be made */
        tp_split(cut(h, h->W, 2 * ROWS, COLS), 2, 0, two);
        h->fed = two[0];
        return tp_add(tp_matmul(two[0], cut(h, h->W, COLS, COLS)), tp_mul(two[1], tp_const(h->g, 0)));
    case P_NORM_FED: /* its mean is still to be made */
        h->fed = tp_nn_batch_norm_train(mm, h->b, h->b, 1, 1e-3f, false, &two[1], NULL);
        return tp_add(tp_square(h->fed), tp_mul(two[1], tp_const(h->g, 0)));
    case P_LSTM_FED: /* and here its last state */
        two[0] = tp_get_variable_as(h->g, "k", TP_F32, tp_make_shape(2 * COLS, 4 * COLS), tp_init_zeros());
        two[1] = tp_get_variable_as(h->g, "kb", TP_F32, tp_make_shape(4 * COLS), tp_init_zeros());
        h->fed = tp_nn_lstm(tp_reshape_to(h->x, tp_make_shape(1, ROWS, COLS)), two[0], two[1], h->x, h->x, 1, false,
                            &two[1], NULL);
        return tp_add(tp_reshape_to(tp_square(h->fed), h->x->shape), tp_mul(two[1], tp_const(h->g, 0)));
    case P_ROWS_NCHW: /* a bias for each row: not in the product */
        two[0] = tp_matmul(tp_reshape_to(h->x, tp_make_shape(1, ROWS, COLS)), h->w);
        two[1] = tp_slice(h->b, (const int64_t[]){0}, (const int64_t[]){ROWS});
        return tp_reshape_to(tp_nn_bias_add(two[0], two[1], TP_NCHW), h->x->shape);
    default: return mm;
    }
}
static float expected_half(const halves *h, int kind, int i)
{
    const float m = h->mm[i], R = r(h, m), b = h->B[i % COLS], x = h->X[i], f = h->F[i];
    float sum = 0;
    switch (kind) {
    case P_SQUARE:
    case P_CONCAT: return r(h, R * R);
    case P_PLUS_X: return R + x;
    case P_TIMES_B: return r(h, R * b);
    case P_TIMES_TWO: return r(h, 1.7f * R);
    case P_VIEW: { /* of the transposed one */
        const float v = r(h, h->mm[i % ROWS * COLS + i / ROWS]);
        return r(h, v * v);
    }
    case P_CONCAT_X:
    case P_ASSIGN: return R * R;
    case P_SUM:
        for (int k = 0; k < COLS; k++) sum += r(h, h->mm[i / COLS * COLS + k]);
        return sum;
    case P_BIAS:
    case P_BIAS_NCHW:
    case P_BIAS_ROWS: return r(h, m + r(h, b));
    case P_BIAS_OF_SQUARE: return r(h, r(h, R * R) + b);
    case P_BIAS_BATCHED: return r(h, R + b);
    case P_BESIDE_BIAS: return m * m;
    case P_CONSTANTS: /* float32, operands and all */
        for (int k = 0; k < COLS; k++) sum += h->X[i / COLS * COLS + k] * h->W[k * COLS + i % COLS];
        return sum;
    case P_FED:
    case P_NORM_FED:
    case P_LSTM_FED:
    case P_BIAS_FED: return f * f;
    case P_CONSTANT_FED:
        for (int k = 0; k < COLS; k++) sum += r(h, h->F[i / COLS * COLS + k]) * r(h, h->W[k * COLS + i % COLS]);
        return r(h, sum);
    case P_ROWS_NCHW: return r(h, R + h->B[i / COLS]);
    case P_FED_BIAS: return f + b;
    case P_CAST_INT: return truncf(R);
    case P_ADD_N: return r(h, r(h, R * R));
    case P_ADD_N_X: return x;
    case P_SELECT: return x > 0 ? R : -R;
    case P_ZEROS: return x;
    default: return R;
    }
}

TEST(each_value_is_rounded_where_it_should_be)
{
    static const tp_precision all[] = {TP_PRECISION_F32, TP_PRECISION_BF16, TP_PRECISION_F16};
    for (int q = 0; q < TP_COUNT(all); q++)
        for (int kind = 0; kind < P_KINDS; kind++) {
            halves h;
            memset(&h, 0, sizeof h);
            h.p = all[q];
            for (int i = 0; i < ROWS * COLS; i++)
                h.X[i] = (float)((i * 379 + 57) % 2047 - 1023) / 512, h.F[i] = (float)(i * i % 511 + 1) / 512;
            for (int i = 0; i < COLS * COLS; i++) h.W[i] = (float)((i * 811 + 13) % 2047 - 1023) / 1024;
            for (int i = 0; i < COLS; i++) h.B[i] = (float)(i * 413 % 2047 - 1023) / 1024;
            for (int i = 0; i < ROWS * COLS; i++)
                for (int k = 0; k < COLS; k++)
                    h.mm[i] += r(&h, h.X[i / COLS * COLS + k]) * r(&h, h.W[k * COLS + i % COLS]);
            h.g = tp_graph_new(NULL);
            h.x = tp_placeholder(h.g, "x", TP_F32, tp_make_shape(ROWS, COLS));
            h.w = tp_placeholder(h.g, "w", TP_F32, tp_make_shape(COLS, COLS));
            h.b = tp_placeholder(h.g, "b", TP_F32, tp_make_shape(COLS));
            h.y = build_half(&h, kind);
            tp_feed f[4];
            memset(f, 0, sizeof f);
            f[0].node = h.x, f[1].node = h.w, f[2].node = h.b, f[3].node = h.fed;
            for (int i = 0; i < 4; i++)
                tp_tensor_view(&f[i].value, TP_F32, f[i].node ? f[i].node->shape : h.x->shape,
                               i == 0   ? h.X
                               : i == 1 ? h.W
                               : i == 2 ? h.B
                                        : h.F);
            for (int plain = 0; plain < 2; plain++) {
                tp_session *s = open_with(h.g, h.p, 1, plain != 0);
                if (h.fed && plain) { /* what is fed may come first, too */
                    const tp_feed first = f[3];
                    f[3] = f[0];
                    f[0] = first;
                }
                const tp_tensor *out = NULL;
                if (s && CHECK_OK(tp_session_run(s, f, h.fed ? 4 : 3, &h.y, 1, &out)) && out)
                    for (int i = 0; i < ROWS * COLS; i++) {
                        const float v = ((const float *)out->data)[i], want = expected_half(&h, kind, i);
                        const float loose =
                            h.p == TP_PRECISION_F32 || kind == P_SUM || kind == P_CONSTANTS || kind == P_CONSTANT_FED
                                ? 2e-6f
                                : 0;
                        if (!CHECK_MSG(fabsf(v - want) <= loose * (1 + fabsf(want)),
                                       "precision %d, case %d%s: %d is %.9g, not %.9g", (int)h.p, kind,
                                       plain ? " op by op" : "", i, (double)v, (double)want))
                            break;
                    }
                tp_session_free(s);
            }
            tp_graph_free(h.g);
        }
}

/* The state of a sequence is float32 from the beginning: with a kernel of zeros, last_c = c0 sigmoid(forget bias). */
TEST(first_states_are_not_rounded)
{
    for (int q = 0; q < 2; q++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(1, 2, 3)),
                *s0 = tp_placeholder(g, "s", TP_F32, tp_make_shape(2, 4));
        tp_node *kernel = tp_get_variable_as(g, "k", TP_F32, tp_make_shape(7, 16), tp_init_zeros());
        tp_node *bias = tp_get_variable_as(g, "b", TP_F32, tp_make_shape(16), tp_init_zeros());
        tp_node *gates = tp_get_variable_as(g, "g", TP_F32, tp_make_shape(7, 8), tp_init_zeros());
        tp_node *gates_bias = tp_get_variable_as(g, "gb", TP_F32, tp_make_shape(8), tp_init_zeros());
        tp_node *cand = tp_get_variable_as(g, "c", TP_F32, tp_make_shape(7, 4), tp_init_zeros());
        tp_node *cand_bias = tp_get_variable_as(g, "cb", TP_F32, tp_make_shape(4), tp_init_zeros());
        tp_node *last[2] = {NULL, NULL};
        tp_nn_lstm(x, kernel, bias, s0, s0, 1, false, NULL, &last[0]);
        tp_nn_gru(x, gates, gates_bias, cand, cand_bias, s0, false, &last[1]); /* u = 1/2, the candidate 0 */
        float data[6] = {1, 2, 3, 4, 5, 6}, state[8];
        for (int i = 0; i < 8; i++) state[i] = 1 + (float)(i * 37 + 1) / 1024;
        tp_feed f[2];
        memset(f, 0, sizeof f);
        f[0].node = x, f[1].node = s0;
        tp_tensor_view(&f[0].value, TP_F32, x->shape, data);
        tp_tensor_view(&f[1].value, TP_F32, s0->shape, state);
        tp_session *s = open_with(g, q ? TP_PRECISION_F16 : TP_PRECISION_BF16, 1, false);
        const tp_tensor *out[2];
        if (s && CHECK_OK(tp_session_run(s, f, 2, last, 2, out)))
            for (int i = 0; i < 8; i++) {
                CHECK_NEAR(tp_tensor_get(out[0], i), (double)state[i] / (1 + exp(-1.0)), 1e-6, 0);
                CHECK_NEAR(tp_tensor_get(out[1], i), (double)state[i] / 2, 1e-6, 0);
            }
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* Variables of half-precision types: their kernels work in float32, which begins as what the variable holds. */
TEST(variables_of_half_types_are_written)
{
    static const tp_dtype half[2] = {TP_F16, TP_BF16};
    for (int q = 0; q < 2; q++) {
        tp_graph *g = tp_graph_new(NULL);
        const tp_shape s3 = tp_make_shape(3);
        tp_node *v = tp_get_variable_as(g, "v", half[q], s3, tp_init_constant(2)),
                *d = tp_placeholder(g, "d", half[q], s3);
        tp_node *writer[3] = {tp_assign_add(v, d, NULL), tp_assign_sub(v, d, NULL), tp_assign(v, d, NULL)};
        static const double want[3] = {2.5, 2, 0.5}; /* one after the other */
        tp_tensor t, now;
        memset(&t, 0, sizeof t);
        memset(&now, 0, sizeof now);
        CHECK_OK(tp_tensor_resize(&t, half[q], s3));
        for (int i = 0; i < 3; i++) tp_tensor_set(&t, i, 0.5 * (i + 1));
        tp_feed f;
        memset(&f, 0, sizeof f);
        f.node = d, f.value = t;
        tp_session *s = open_with(g, TP_PRECISION_F32, 1, false);
        for (int w = 0; w < 3 && s; w++) {
            const tp_tensor *out = NULL;
            if (!CHECK_OK(tp_session_run(s, &f, 1, &writer[w], 1, &out))) break;
            CHECK_OK(tp_session_read(s, tp_node_variable(v), &now));
            CHECK(out->dtype == half[q] && now.dtype == half[q]);
            for (int i = 0; i < 3; i++) {
                const double is = w == 0 ? 2 + 0.5 * (i + 1) : w == 1 ? 2 : 0.5 * (i + 1);
                CHECK(tp_tensor_get(out, i) == is && tp_tensor_get(&now, i) == is && (i || is == want[w]));
            }
        }
        tp_session_free(s);
        tp_tensor_free(&t);
        tp_tensor_free(&now);
        tp_graph_free(g);
    }
}

/* A value that the graph casts to float16 is float16 when it is fetched, whatever precision the session has. */
TEST(halves_of_the_graph_are_fetched_as_they_are)
{
    static const tp_precision all[] = {TP_PRECISION_F32, TP_PRECISION_BF16, TP_PRECISION_F16};
    static const tp_dtype type[2] = {TP_F16, TP_BF16};
    const float three[3] = {1.5f, -2, 0.25f}; /* exact in all types */
    for (int q = 0; q < TP_COUNT(all); q++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_feed f;
        memset(&f, 0, sizeof f);
        f.node = tp_placeholder(g, "x", TP_F32, tp_make_shape(3));
        tp_tensor_view(&f.value, TP_F32, f.node->shape, three);
        tp_node *fetch[2];
        for (int k = 0; k < 2; k++) fetch[k] = tp_cast(f.node, type[k]);
        tp_session *s = open_with(g, all[q], 1, false);
        const tp_tensor *out[2];
        if (s && CHECK_OK(tp_session_run(s, &f, 1, fetch, 2, out)))
            for (int k = 0; k < 2; k++) {
                CHECK_MSG(out[k]->dtype == type[k], "precision %d: %s instead of %s", (int)all[q],
                          tp_dtype_name(out[k]->dtype), tp_dtype_name(type[k]));
                for (int i = 0; i < 3; i++) CHECK(tp_tensor_get(out[k], i) == (double)three[i]);
            }
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* A count of elements may be more than the largest float16, and a class more than a half can count to: both are float32. The sizes are
 * known when the graph is built, or when it runs. */
TEST(counts_and_classes_of_half_precision_nodes_are_exact)
{
    enum { SAMPLES = 2, COLUMNS = 40000, CLASSES = 300 };
    static const tp_dtype type[2] = {TP_F16, TP_BF16};
    for (int k = 0; k < 4; k++) {
        const bool known = k >= 2;
        const tp_dtype d = type[k % 2];
        tp_graph *g = tp_graph_new(NULL);
        tp_feed f[3];
        memset(f, 0, sizeof f);
        tp_tensor x = {0}, logits = {0};
        const int32_t label[1] = {257};
        if (!CHECK_OK(tp_tensor_resize(&x, TP_F32, tp_make_shape(SAMPLES, COLUMNS))) ||
            !CHECK_OK(tp_tensor_resize(&logits, TP_F32, tp_make_shape(1, CLASSES))))
            return;
        fill(&x, x.shape, 1);
        memset(logits.data, 0, CLASSES * sizeof(float));
        f[0].node = tp_placeholder(g, "x", TP_F32, tp_make_shape(SAMPLES, known ? COLUMNS : TP_ANY));
        f[1].node = tp_placeholder(g, "logits", TP_F32, tp_make_shape(1, known ? CLASSES : TP_ANY));
        f[2].node = tp_placeholder(g, "label", TP_I32, tp_make_shape(1));
        f[0].value = x;
        f[1].value = logits;
        tp_tensor_view(&f[2].value, TP_I32, tp_make_shape(1), label);
        tp_node *half[2], *fetch[2];
        for (int i = 0; i < 2; i++) half[i] = tp_cast(f[i].node, d);
        tp_gradients(tp_cast(tp_mean(half[0]), TP_F32), &half[0], 1, &fetch[0]);
        tp_gradients(tp_sum(tp_cast(tp_sparse_softmax_cross_entropy(half[1], f[2].node), TP_F32)), &half[1], 1,
                     &fetch[1]);
        tp_session *s = open_with(g, TP_PRECISION_F32, 1, false);
        const tp_tensor *out[2];
        if (s && CHECK_OK(tp_session_run(s, f, 3, fetch, 2, out))) {
            const float part = 1.0f / (SAMPLES * COLUMNS);
            const double mean_grad = (double)rounded(part, d == TP_F16 ? TP_PRECISION_F16 : TP_PRECISION_BF16);
            for (int64_t i = 0; i < SAMPLES * COLUMNS; i += 9999) CHECK_NEAR(tp_tensor_get(out[0], i), mean_grad, 0, 0);
            for (int64_t i = 250; i < CLASSES; i++) /* softmax is 1/300; 1 less at the label */
                CHECK_MSG((tp_tensor_get(out[1], i) < 0) == (i == 257), "%s, class %d: %g", tp_dtype_name(d), (int)i,
                          tp_tensor_get(out[1], i));
        }
        tp_session_free(s);
        tp_graph_free(g);
        tp_tensor_free(&x);
        tp_tensor_free(&logits);
    }
}

/* An op on constants is folded in float32, also when what it reads came from integers. */
TEST(a_product_of_cast_constants_is_folded)
{
    static const int32_t whole[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 257};
    static const float parts[16] = {0.1f, 0, 0, 0, 0, 0.1f, 0, 0, 0, 0, 0.1f, 0, 0, 0, 0, 0.1f};
    const tp_precision all[] = {TP_PRECISION_F32, TP_PRECISION_BF16, TP_PRECISION_F16};
    const tp_shape shape = tp_make_shape(4, 4);
    tp_tensor t;
    memset(&t, 0, sizeof t);
    for (int q = 0; q < TP_COUNT(all); q++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_tensor_view(&t, TP_I32, shape, whole);
        tp_node *i = tp_constant(g, &t), *x = tp_cast(tp_reshape(i, 4, 4), TP_F32);
        tp_tensor_view(&t, TP_F32, shape, parts);
        tp_node *y = tp_matmul(x, tp_constant(g, &t));
        tp_session *s = open_with(g, all[q], 1, false);
        const tp_tensor *out = NULL;
        tp_plan_info info;
        if (s && CHECK_OK(tp_session_run(s, NULL, 0, &y, 1, &out)) &&
            CHECK_OK(tp_exec_plan_info(tp_session_exec(s), &y, 1, &info))) {
            for (int k = 0; k < 16; k++) CHECK_NEAR(tp_tensor_get(out, k), (double)((float)whole[k] * 0.1f), 0, 0);
            CHECK_MSG(info.n_steps == 0 && info.n_folded == 2, "%d steps, %d ops folded", info.n_steps, info.n_folded);
        }
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* 2^-28, which no float16 is: as a gradient it is multiplied by the loss scale, a product of halves, then divided in float32. The
 * optimizer may accumulate and clip it before it uses it. */
TEST(a_loss_scale_divides_in_float32)
{
    static const tp_precision half[] = {TP_PRECISION_F16, TP_PRECISION_BF16};
    for (int how = 0; how < 8; how++) {
        tp_graph *g = tp_graph_new(NULL);
        const float one[4] = {1, 1, 1, 1};
        tp_feed f;
        memset(&f, 0, sizeof f);
        f.node = tp_placeholder(g, "x", TP_F32, tp_make_shape(1, 4));
        tp_tensor_view(&f.value, TP_F32, f.node->shape, one);
        tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(4, 1), tp_init_zeros());
        tp_node *cost = tp_affine(tp_sum(tp_matmul(f.node, w)), 1.0f / 268435456, 0);
        tp_optimizer *o = tp_sgd(tp_const(g, 268435456));
        if (how & 2) o = tp_accum_grad(tp_apply_grad_processors(o, TP_GRADPROCS(tp_gradproc_global_norm_clip(1))), 1);
        tp_node *op = tp_minimize(tp_loss_scale(o, .initial = 16384), cost, NULL);
        CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g));
        tp_session *s = open_with(g, half[how % 2], 1, how >= 4);
        tp_tensor now;
        memset(&now, 0, sizeof now);
        if (s && CHECK_OK(tp_session_run(s, &f, 1, &op, 1, NULL)) &&
            CHECK_OK(tp_session_read(s, tp_node_variable(w), &now)))
            for (int i = 0; i < 4; i++) CHECK_NEAR(tp_tensor_get(&now, i), -1, 0, 0);
        tp_tensor_free(&now);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* Values whose squares no float16 is, too large or too small: their variance is that of float32. */
typedef struct spread {
    tp_node *x[2], *y[2];
    bool ghost;
} spread;
static tp_node *build_spread(const tp_tower_context *tower, void *user)
{
    spread *p = (spread *)user;
    const int i = tower->index;
    const float one[4] = {1, 0, 0, 1};
    tp_tensor t;
    memset(&t, 0, sizeof t);
    tp_tensor_view(&t, TP_F32, tp_make_shape(2, 2), one);
    p->x[i] = tp_placeholder(tower->graph, "x", TP_F32, tp_make_shape(4, 2));
    tp_node *product = tp_matmul(p->x[i], tp_constant(tower->graph, &t)); /* stored in half precision */
    p->y[i] = p->ghost ? tp_batch_norm(product, "bn", .virtual_batch_size = 2, .epsilon = 1e-12f)
                       : tp_batch_norm(product, "bn", .sync_statistics = TP_SYNC_TOWERS, .ema_update = TP_EMA_INTERNAL,
                                       .epsilon = 1e-12f);
    return tp_mean(tp_square(p->y[i]));
}
TEST(squares_of_batch_norm_stay_float32)
{
    tp_set_log(tp_test_drop_log, NULL);
    static const float x[8] = {512, 3.0517578125e-05f, -512, -3.0517578125e-05f,
                               512, 3.0517578125e-05f, -512, -3.0517578125e-05f}; /* 2^9, 2^-15 */
    const tp_precision all[] = {TP_PRECISION_F32, TP_PRECISION_BF16, TP_PRECISION_F16};
    for (int how = 0; how < 2 * TP_COUNT(all); how++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_towers_desc d;
        spread p;
        tp_node *cost[2], *fetch[2];
        memset(&p, 0, sizeof p);
        memset(&d, 0, sizeof d);
        p.ghost = how % 2 == 1;
        d.n = p.ghost ? 1 : 2;
        if (!CHECK_OK(tp_build_on_towers(g, &d, build_spread, &p, cost))) return;
        tp_feed f[2];
        memset(f, 0, sizeof f);
        for (int i = 0; i < d.n; i++) {
            f[i].node = p.x[i], fetch[i] = p.y[i];
            tp_tensor_view(&f[i].value, TP_F32, tp_make_shape(4, 2), x);
        }
        const tp_tensor *out[2];
        tp_device *dev[2] = {NULL, NULL};
        CHECK_OK(tp_cpu_devices_new(d.n, 1, NULL, dev));
        tp_session_config c = tp_default_session_config();
        c.precision = all[how / 2];
        c.devices = dev, c.n_devices = d.n;
        tp_session *s = tp_session_new(g, &c);
        tp_tensor variance;
        memset(&variance, 0, sizeof variance);
        if (CHECK_MSG(s != NULL, "%s", tp_last_error()) && CHECK_OK(tp_session_run(s, f, d.n, fetch, d.n, out)))
            for (int i = 0; i < 8 * d.n; i++)
                CHECK_MSG(fabs(tp_tensor_get(out[i / 8], i % 8) - (x[i % 8] > 0 ? 1 : -1)) <= 1e-3,
                          "precision %d, %s: element %d is %g", (int)all[how / 2], p.ghost ? "groups" : "towers", i,
                          tp_tensor_get(out[i / 8], i % 8));
        if (s && CHECK_OK(tp_session_read(s, tp_find_variable(g, "bn/variance/EMA"), &variance)))
            for (int i = 0; i < 2; i++)
                CHECK_NEAR(tp_tensor_get(&variance, i), 0.9 + 0.1 * (double)(x[i] * x[i]), 0, 1e-6);
        tp_tensor_free(&variance);
        tp_session_free(s);
        for (int i = 0; i < d.n; i++)
            if (dev[i]) dev[i]->close(dev[i]);
        tp_graph_free(g);
    }
    tp_set_log(NULL, NULL);
}

/* Losses and regularizers of half-precision nodes are summed in float32: what they give is that of float32 nodes, rounded once. Squares
 * and sums overflow in float16 here, and the differences of logarithms vanish. */
enum { N_LOSSES = 11 };
static void losses(tp_graph *g, tp_node *a, tp_node *b, tp_node *c, tp_node *many, tp_node *y[N_LOSSES])
{
    const float weights[2] = {1, 3};
    const int32_t label[40] = {0, 0, 0, 1, 0, 0, 0, 1}, one[1] = {0};
    tp_tensor t;
    memset(&t, 0, sizeof t);
    tp_tensor_view(&t, TP_I32, tp_make_shape(40), label);
    tp_node *labels = tp_constant(g, &t);
    tp_tensor_view(&t, TP_I32, tp_make_shape(1), one);
    tp_node *similar = tp_constant(g, &t);
    y[0] = tp_sym_rms(a, NULL);
    y[1] = tp_sym_mse(a, b, NULL);
    y[2] = tp_sym_psnr(a, b, 1000, NULL);
    y[3] = tp_sym_contrastive_loss(a, b, similar, 600, NULL);
    y[4] = tp_sym_siamese_cosine_loss(a, c, similar, NULL);
    y[5] = tp_sym_triplet_loss(a, b, c, 4, NULL);
    y[6] = tp_sym_soft_triplet_loss(a, b, c, NULL);
    y[7] = tp_sym_weighted_loss(many, labels, weights, 2, NULL);
    tp_node *p = tp_slice(many, (const int64_t[]){0}, (const int64_t[]){4});
    p = tp_reshape(tp_affine(p, 1.0f / 32, -64), 1, 4); /* 0, 1, 2, 3 */
    y[8] = tp_sym_kl_divergence(p, tp_affine(p, 1.03125f, 0), NULL);
    y[9] = tp_sum(y[8]);
    y[10] = tp_sym_class_balanced_sigmoid_cross_entropy(tp_affine(many, 1.0f / 1024, 0), labels, NULL);
}
TEST(losses_of_half_nodes_are_summed_in_float32)
{
    static const tp_dtype half[2] = {TP_F16, TP_BF16};
    float in[3][16] = {{512, 3}, {0, 1}, {2, 1}}, many[40];
    for (int i = 0; i < 40; i++) many[i] = 2048 + 32.0f * (float)i;
    for (int q = 0; q < 2; q++) {
        const tp_precision as = q ? TP_PRECISION_BF16 : TP_PRECISION_F16;
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x[2][4], *y[2][N_LOSSES], *fetch[2 * N_LOSSES];
        tp_tensor t;
        memset(&t, 0, sizeof t);
        for (int i = 0; i < 4; i++) {
            tp_tensor_view(&t, TP_F32, i < 3 ? tp_make_shape(1, 16) : tp_make_shape(40), i < 3 ? in[i] : many);
            x[0][i] = tp_cast(tp_constant(g, &t), half[q]), x[1][i] = tp_cast(x[0][i], TP_F32);
        }
        for (int k = 0; k < 2; k++) losses(g, x[k][0], x[k][1], x[k][2], x[k][3], y[k]);
        if (!CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g))) return;
        for (int i = 0; i < N_LOSSES; i++) {
            CHECK_MSG(y[0][i]->dtype == half[q] && y[1][i]->dtype == TP_F32, "loss %d is %s", i,
                      tp_dtype_name(y[0][i]->dtype));
            fetch[2 * i] = y[0][i], fetch[2 * i + 1] = y[1][i];
        }
        tp_session *s = open_with(g, TP_PRECISION_F32, 1, false);
        const tp_tensor *out[2 * N_LOSSES];
        if (s && CHECK_OK(tp_session_run(s, NULL, 0, fetch, 2 * N_LOSSES, out)))
            for (int i = 0; i < N_LOSSES; i++) {
                const double got = tp_tensor_get(out[2 * i], 0);
                const float want = (float)tp_tensor_get(out[2 * i + 1], 0);
                CHECK_MSG(isfinite(got) && got != 0 && got == (double)rounded(want, as), "%s, loss %d: %g, float32: %g",
                          tp_dtype_name(half[q]), i, got, (double)want);
            }
        tp_session_free(s);
        tp_graph_free(g);
    }
}
TEST(regularizers_of_half_variables_are_summed_in_float32)
{
    static const tp_dtype half[2] = {TP_F16, TP_BF16};
    tp_set_log(tp_test_drop_log, NULL);
    for (int q = 0; q < 2; q++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_tower_desc tower;
        memset(&tower, 0, sizeof tower);
        tower.is_training = true;
        tp_tower_enter(g, &tower);
        tp_node *w = tp_get_variable_as(g, "fc/W", half[q], tp_make_shape(4099), tp_init_constant(64));
        const tp_regularizer l1 = tp_l1_regularizer(1.0f / 1024), l2 = tp_l2_regularizer(1.0f / 65536);
        tp_node *fetch[6] = {l1.fn(w, l1.scale),
                             l2.fn(w, l2.scale),
                             tp_regularize_cost(g, "fc.*", l1, "sum1"),
                             tp_regularize_cost(g, "fc.*", l2, "sum2"),
                             NULL,
                             NULL};
        tp_tower_leave(g);
        for (int i = 0; i < 2; i++) tp_gradients(fetch[i], &w, 1, &fetch[4 + i]);
        if (!CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g))) return;
        CHECK(fetch[0]->dtype == TP_F32 && fetch[1]->dtype == TP_F32 && fetch[4]->dtype == half[q]);
        tp_session *s = open_with(g, TP_PRECISION_F32, 1, false);
        const tp_tensor *out[6];
        static const double want[6] = {4099 * 64 / 1024.0, 4099 * 2048 / 65536.0,
                                       4099 * 64 / 1024.0, 4099 * 2048 / 65536.0,
                                       1 / 1024.0,         64 / 65536.0};
        if (s && CHECK_OK(tp_session_run(s, NULL, 0, fetch, 6, out)))
            for (int i = 0; i < 6; i++) CHECK_NEAR(tp_tensor_get(out[i], 0), want[i], 0, 0);
        tp_session_free(s);
        tp_graph_free(g);
    }
    tp_set_log(NULL, NULL);
}
/* The same losses of what a session stores in half precision. */
TEST(squares_of_losses_stay_float32)
{
    const tp_precision all[] = {TP_PRECISION_F32, TP_PRECISION_F16, TP_PRECISION_BF16};
    const float in[2][16] = {{512, 4}, {2, 4}}, eye[4] = {1, 0, 0, 1};
    for (int q = 0; q < TP_COUNT(all); q++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_feed f[2];
        tp_node *x[2], *zero;
        tp_tensor t;
        memset(&t, 0, sizeof t);
        memset(f, 0, sizeof f);
        tp_tensor_view(&t, TP_F32, tp_make_shape(2, 2), eye);
        tp_node *unit = tp_constant(g, &t);
        for (int i = 0; i < 2; i++) {
            f[i].node = tp_placeholder(g, i ? "b" : "a", TP_F32, tp_make_shape(8, 2));
            tp_tensor_view(&f[i].value, TP_F32, tp_make_shape(8, 2), in[i]);
            x[i] = tp_reshape(tp_matmul(f[i].node, unit), 1, 16);
        }
        zero = tp_sub(x[0], x[0]);
        tp_node *fetch[3] = {tp_sym_rms(x[0], NULL), tp_sym_mse(x[0], x[1], NULL),
                             tp_sym_triplet_loss(x[0], zero, x[1], 4, NULL)};
        static const double want[3] = {128.00390619039610, 260100 / 16.0, 262144 + 16 - 260100 + 4};
        tp_session *s = open_with(g, all[q], 1, false);
        const tp_tensor *out[3];
        if (s && CHECK_OK(tp_session_run(s, f, 2, fetch, 3, out)))
            for (int i = 0; i < 3; i++) CHECK_NEAR(tp_tensor_get(out[i], 0), want[i], 0, 1e-6);
        tp_session_free(s);
        tp_graph_free(g);
    }
}
/* 1/x and x^-1/2 of a half-precision x: squares and cubes of the results are beyond float16, the derivatives are not. */
TEST(derivatives_of_inverses_fit_in_half_precision)
{
    enum { N = 1024 };
    static float in[N];
    const float eye[4] = {1, 0, 0, 1};
    for (int kind = 0; kind < 3; kind++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_feed f;
        tp_node *dx;
        tp_tensor t;
        memset(&t, 0, sizeof t);
        memset(&f, 0, sizeof f);
        tp_tensor_view(&t, TP_F32, tp_make_shape(2, 2), eye);
        for (int i = 0; i < N; i++) in[i] = kind == 2 ? 1.0f / 4096 : 1.0f / 512;
        f.node = tp_placeholder(g, "x", TP_F32, tp_make_shape(N / 2, 2));
        tp_tensor_view(&f.value, TP_F32, tp_make_shape(N / 2, 2), in);
        tp_node *x = tp_matmul(f.node, tp_constant(g, &t));
        tp_node *y = kind == 0 ? tp_reciprocal(x) : kind == 1 ? tp_pow(x, tp_const(g, -1)) : tp_rsqrt(x);
        tp_gradients(tp_mean(y), &x, 1, &dx);
        tp_session *s = open_with(g, TP_PRECISION_F16, 1, false);
        const tp_tensor *out;
        if (s && CHECK_OK(tp_session_run(s, &f, 1, &dx, 1, &out)))
            CHECK_MSG(tp_tensor_get(out, N - 1) == (kind == 2 ? -128 : -256), "kind %d: %g", kind,
                      tp_tensor_get(out, N - 1));
        tp_session_free(s);
        tp_graph_free(g);
    }
}
/* d/da a^b = b a^(b-1) is 0 where b is 0, also where a is a subnormal float16, whose inverse no float16 is. */
TEST(the_gradient_of_a_power_of_0_is_0)
{
    const tp_precision all[] = {TP_PRECISION_F32, TP_PRECISION_F16, TP_PRECISION_BF16};
    const float in[4] = {1.0f / 1048576, 0, 1.0f / 16384, 3}, eye[4] = {1, 0, 0, 1}, none[4] = {0};
    for (int q = 0; q < TP_COUNT(all); q++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_feed f[2];
        tp_node *x[2], *dx[2];
        tp_tensor t;
        memset(&t, 0, sizeof t);
        memset(f, 0, sizeof f);
        tp_tensor_view(&t, TP_F32, tp_make_shape(2, 2), eye);
        tp_node *unit = tp_constant(g, &t);
        for (int i = 0; i < 2; i++) {
            f[i].node = tp_placeholder(g, i ? "b" : "a", TP_F32, tp_make_shape(2, 2));
            tp_tensor_view(&f[i].value, TP_F32, tp_make_shape(2, 2), i ? none : in);
            x[i] = tp_matmul(f[i].node, unit);
        }
        tp_gradients(tp_sum(tp_pow(x[0], x[1])), x, 2, dx);
        tp_session *s = open_with(g, all[q], 1, false);
        const tp_tensor *out[2];
        if (s && CHECK_OK(tp_session_run(s, f, 2, dx, 2, out)))
            for (int i = 0; i < 4; i++) {
                CHECK_MSG(tp_tensor_get(out[0], i) == 0, "precision %d, a %g: %g", (int)all[q], (double)in[i],
                          tp_tensor_get(out[0], i));
                CHECK_NEAR(tp_tensor_get(out[1], i), in[i] > 0 ? log((double)in[i]) : 0, 0, 0.01);
            }
        tp_session_free(s);
        tp_graph_free(g);
    }
}

TEST(half_precision_moves_fewer_bytes)
{
    tp_set_log(tp_test_drop_log, NULL);
    double moved[2] = {0, 0};
    for (int half = 0; half < 2; half++) {
        net n = convnet(false);
        tp_session *s = open_with(n.g, half ? TP_PRECISION_BF16 : TP_PRECISION_F32, 1, false);
        double cost[2];
        tp_node *fetch[] = {n.cost, n.train};
        tp_plan_info info;
        if (s) train(&n, s, 1, NULL, cost);
        if (s && CHECK_OK(tp_exec_plan_info(tp_session_exec(s), fetch, 2, &info))) moved[half] = info.bytes;
        tp_session_free(s);
        tp_graph_free(n.g);
    }
    CHECK_MSG(moved[1] > 0 && moved[1] < 0.9 * moved[0], "%g bytes in half precision, %g in float32", moved[1],
              moved[0]);
    tp_set_log(NULL, NULL);
}

TEST_MAIN()
