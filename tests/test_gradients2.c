/* Gradients of gradients: the penalty (|d critic / d x| - 1)^2 of a Wasserstein GAN, differentiated by every weight of small
 * critics of all layers that one is made of; against finite differences, against torch (ref_gradients2.py), and in float32. */
#define TP_IMPLEMENTATION
#include "tp_graph.h"
#include "tp_test.h"

enum { MAX_WEIGHTS = 8, BATCH = 2 };

/* ==== >>critics ======================================================================================= */

typedef struct penalty {
    tp_graph *g;
    int n; /* weights */
    tp_node *w[MAX_WEIGHTS], *dw[MAX_WEIGHTS], *loss;
    tp_tensor value[MAX_WEIGHTS + 1]; /* of the weights and of x */
    tp_feed feed[MAX_WEIGHTS + 1];
    int n_feed;
    bool open; /* the batch's size is not known when the graph is built */
} penalty;

static tp_node *sines(penalty *p, tp_dtype dtype, int k, double scale, int nd, int64_t a, int64_t b, int64_t c,
                      int64_t d)
{
    const int64_t dim[4] = {a, b, c, d};
    tp_tensor *t = &p->value[p->n_feed];
    CHECK_OK(tp_tensor_resize(t, dtype, tp_make_shape_n(nd, dim)));
    for (int64_t i = 0; i < tp_tensor_size(t); i++) tp_tensor_set(t, i, scale * sin(1.3 * (double)i + 0.7 * k + 0.2));
    tp_shape s = t->shape;
    if (p->open && p->n_feed == 0) s.dim[0] = TP_ANY;
    tp_node *x = tp_placeholder(p->g, "x", dtype, s);
    p->feed[p->n_feed].node = x;
    memset(&p->feed[p->n_feed].value, 0, sizeof(tp_tensor));
    tp_tensor_view(&p->feed[p->n_feed++].value, dtype, t->shape, t->data);
    return x;
}

static tp_node *weight(penalty *p, tp_dtype dtype, int nd, int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int k = p->n++;
    return p->w[k] = sines(p, dtype, 3 * k, 0.8, nd, a, b, c, d);
}

static tp_node *conv(tp_node *x, tp_node *w, int stride, int padding, int groups, int format)
{
    tp_conv2d_attrs a;
    memset(&a, 0, sizeof a);
    a.stride_h = a.stride_w = stride;
    a.padding = padding;
    a.groups = groups;
    a.data_format = format;
    return tp_nn_conv2d(x, w, &a);
}

static tp_node *leaky(tp_node *x) { return tp_leaky_relu(x, 0.25f); }

/* x (2,4,4,2) -> (2,classes); false if there is no critic of this name. */
static tp_node *critic(penalty *p, const char *name, tp_dtype t, tp_node *x)
{
    const tp_pool_attrs half = {2, 2, 0, 0, TP_VALID, TP_NHWC};
    tp_node *w[MAX_WEIGHTS], *y;
    if (strcmp(name, "plain") == 0) {
        w[0] = weight(p, t, 4, 3, 3, 2, 3), w[1] = weight(p, t, 1, 3, 0, 0, 0), w[2] = weight(p, t, 4, 2, 2, 3, 2);
        w[3] = weight(p, t, 2, 2, 1, 0, 0);
        y = leaky(tp_nn_bias_add(conv(x, w[0], 2, TP_SAME, 1, TP_NHWC), w[1], TP_NHWC));
        y = leaky(conv(y, w[2], 1, TP_VALID, 1, TP_NHWC));
        return tp_matmul(tp_batch_flatten(y), w[3]);
    }
    if (strcmp(name, "layer_norm") == 0) {
        w[0] = weight(p, t, 4, 3, 3, 2, 3), w[1] = weight(p, t, 1, 3, 0, 0, 0), w[2] = weight(p, t, 1, 3, 0, 0, 0);
        w[3] = weight(p, t, 4, 3, 3, 3, 2), w[4] = weight(p, t, 1, 2, 0, 0, 0), w[5] = weight(p, t, 2, 8, 1, 0, 0);
        y = leaky(tp_nn_layer_norm(conv(x, w[0], 1, TP_SAME, 1, TP_NHWC), w[1], w[2], 0.125f));
        y = conv(tp_nn_avg_pool(y, &half), w[3], 1, TP_SAME, 1, TP_NHWC);
        return tp_matmul(tp_batch_flatten(leaky(tp_nn_bias_add(y, w[4], TP_NHWC))), w[5]);
    }
    if (strcmp(name, "batch_norm") == 0) {
        w[0] = weight(p, t, 4, 3, 3, 2, 3), w[1] = weight(p, t, 1, 3, 0, 0, 0), w[2] = weight(p, t, 1, 3, 0, 0, 0);
        w[3] = weight(p, t, 4, 3, 3, 3, 2), w[4] = weight(p, t, 2, 8, 1, 0, 0);
        y = conv(x, w[0], 1, TP_SAME, 1, TP_NHWC);
        y = tp_relu(tp_nn_batch_norm_train(y, w[1], w[2], 3, 0.125f, false, NULL, NULL));
        y = conv(tp_nn_max_pool(y, &half), w[3], 1, TP_SAME, 1, TP_NHWC);
        return tp_matmul(tp_batch_flatten(tp_tanh(y)), w[4]);
    }
    if (strcmp(name, "softmax") == 0) { /* channels first */
        const int perm[4] = {0, 3, 1, 2}, image[2] = {2, 3};
        const int64_t border[4] = {0, 0, 1, 1}, begin[4] = {0, 0, 1, 0}, size[4] = {-1, -1, 3, -1};
        w[0] = weight(p, t, 4, 3, 3, 2, 3), w[1] = weight(p, t, 1, 3, 0, 0, 0), w[2] = weight(p, t, 2, 3, 4, 0, 0);
        w[3] = weight(p, t, 2, 4, 1, 0, 0);
        y = conv(tp_pad(tp_transpose(x, perm, 4), border, border, TP_PAD_REFLECT, 0), w[0], 1, TP_VALID, 1, TP_NCHW);
        y = tp_slice(tp_elu(tp_nn_bias_add(y, w[1], TP_NCHW)), begin, size);
        return tp_matmul(tp_softmax(tp_matmul(tp_reduce_mean(y, image, 2, false), w[2])), w[3]);
    }
    if (strcmp(name, "group_norm") == 0) { /* the second one with channels first */
        const int first[4] = {0, 3, 1, 2}, last[4] = {0, 2, 3, 1};
        w[0] = weight(p, t, 4, 3, 3, 2, 4), w[1] = weight(p, t, 1, 4, 0, 0, 0), w[2] = weight(p, t, 1, 4, 0, 0, 0);
        w[3] = weight(p, t, 4, 3, 3, 4, 2), w[4] = weight(p, t, 1, 2, 0, 0, 0), w[5] = weight(p, t, 1, 2, 0, 0, 0);
        w[6] = weight(p, t, 2, 32, 1, 0, 0);
        y = leaky(tp_nn_group_norm(conv(x, w[0], 1, TP_SAME, 1, TP_NHWC), w[1], w[2], 3, 2, 0.125f));
        y = tp_transpose(conv(y, w[3], 1, TP_SAME, 1, TP_NHWC), first, 4);
        y = tp_transpose(leaky(tp_nn_group_norm(y, w[4], w[5], 1, 1, 0.125f)), last, 4);
        return tp_matmul(tp_batch_flatten(y), w[6]);
    }
    CHECK_STR(name, "groups");
    w[0] = weight(p, t, 4, 3, 3, 1, 4), w[1] = weight(p, t, 1, 64, 0, 0, 0), w[2] = weight(p, t, 1, 64, 0, 0, 0);
    w[3] = weight(p, t, 2, 64, 3, 0, 0), w[4] = weight(p, t, 2, 3, 1, 0, 0);
    y = tp_nn_layer_norm(tp_batch_flatten(conv(x, w[0], 1, TP_SAME, 2, TP_NHWC)), w[1], w[2], 0.125f);
    return tp_matmul(leaky(tp_matmul(y, w[3])), w[4]);
}

static void penalty_new(penalty *p, const char *name, tp_dtype dtype, bool open)
{
    const int image[3] = {1, 2, 3};
    tp_node *dx = NULL;
    memset(p, 0, sizeof *p);
    p->open = open;
    p->g = tp_graph_new(NULL);
    tp_node *x = sines(p, dtype, 50, 1.0, 4, BATCH, 4, 4, 2);
    tp_gradients(tp_sum(critic(p, name, dtype, x)), &x, 1, &dx);
    tp_node *norm = tp_sqrt(tp_reduce_sum(tp_square(dx), image, 3, false));
    p->loss = tp_mean(tp_square(tp_affine(norm, 1, -1)));
    tp_gradients(p->loss, p->w, p->n, p->dw);
    CHECK_MSG(tp_graph_status(p->g) == TP_OK, "%s: %s", name, tp_graph_error(p->g));
}

static void penalty_free(penalty *p)
{
    for (int i = 0; i < p->n_feed; i++) tp_tensor_free(&p->value[i]);
    tp_graph_free(p->g);
}

/* ==== >>tests ========================================================================================= */

TEST(group_norm_of_unknown_channels)
{
    for (int known = 0; known < 2; known++) { /* known: gamma says how many channels there are */
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 3, TP_ANY)), *dx = NULL, *ddx = NULL;
        tp_node *v = tp_placeholder(g, "v", TP_F32, tp_make_shape(known ? 4 : TP_ANY));
        tp_gradients(tp_sum(tp_square(tp_nn_group_norm(x, v, v, 2, 2, 0.5f))), &x, 1, &dx);
        CHECK(tp_graph_status(g) == TP_OK && dx);
        tp_gradients(tp_sum(tp_square(dx)), &x, 1, &ddx);
        if (known) CHECK(tp_graph_status(g) == TP_OK && ddx);
        else CHECK_HAS(tp_graph_error(g), "the gradient of group_norm_grad needs to know the number of channels");
        tp_graph_free(g);
    }
}

static const char *const names[] = {"plain", "layer_norm", "batch_norm", "softmax", "group_norm", "groups"};

TEST(penalties_agree_with_finite_differences)
{
    for (int c = 0; c < TP_COUNT(names); c++) {
        penalty p;
        penalty_new(&p, names[c], TP_F64, false);
        tp_session *s = tp_session_new(p.g, NULL);
        for (int i = 0; s && i < p.n; i++) {
            const tp_tensor *v = NULL;
            double *w = (double *)p.value[i + 1].data; /* x is the first */
            const int64_t n = tp_tensor_size(&p.value[i + 1]), step = n / 10 + 1;
            for (int64_t k = 0; k < n; k += step) {
                const double kept = w[k], h = 1e-5;
                double f[2] = {0, 0}, stated = 0; /* NULL: the penalty does not depend on it, as on a last bias */
                if (p.dw[i] && CHECK_OK(tp_session_run(s, p.feed, p.n_feed, &p.dw[i], 1, &v)))
                    stated = tp_tensor_get(v, k);
                for (int side = 0; side < 2; side++) {
                    w[k] = kept + (side ? h : -h);
                    if (CHECK_OK(tp_session_run(s, p.feed, p.n_feed, &p.loss, 1, &v))) f[side] = tp_tensor_get(v, 0);
                }
                w[k] = kept;
                const double measured = (f[1] - f[0]) / (2 * h);
                CHECK_MSG(fabs(measured - stated) < 3e-7 * (1 + fabs(measured)),
                          "%s: by weight %d[%lld]: %.9g, not %.9g", names[c], i, (long long)k, stated, measured);
            }
        }
        CHECK(s != NULL);
        tp_session_free(s);
        penalty_free(&p);
    }
}

/* In double to torch's digits; with an open batch in float32, through the fast kernels, to fewer. */
TEST(penalties_agree_with_torch)
{
    char path[1024], *text = NULL;
    const char *slash = strrchr(__FILE__, '/');
    size_t size = 0;
    snprintf(path, sizeof path, "%.*sref_gradients2.txt", slash ? (int)(slash - __FILE__) + 1 : 0, __FILE__);
    if (!CHECK_OK(tp_file_read(path, false, 0, &text, &size))) return;
    for (int c = 0; c < TP_COUNT(names); c++)
        for (int open = 0; open < 2; open++) {
            const tp_dtype dtype = open ? TP_F32 : TP_F64;
            const double tol = open ? 2e-4 : 1e-10;
            char name[32];
            penalty p;
            penalty_new(&p, names[c], dtype, open != 0);
            tp_node *fetch[MAX_WEIGHTS + 1] = {NULL};
            const tp_tensor *v[MAX_WEIGHTS + 1] = {NULL};
            int where[MAX_WEIGHTS], n = 0;
            fetch[n++] = p.loss;
            for (int i = 0; i < p.n; i++) {
                where[i] = p.dw[i] ? n : -1;
                if (p.dw[i]) fetch[n++] = p.dw[i];
            }
            snprintf(name, sizeof name, "%s %d ", names[c], p.n);
            char *at = strstr(text, name);
            while (at && at != text && at[-1] != '\n') at = strstr(at + 1, name);
            tp_session *s = tp_session_new(p.g, NULL);
            if (CHECK_MSG(at != NULL, "ref_gradients2.txt has no %s", name) && CHECK(s != NULL) &&
                CHECK_OK(tp_session_run(s, p.feed, p.n_feed, fetch, n, v))) {
                at += strlen(name);
                CHECK_NEAR(tp_tensor_get(v[0], 0), strtod(at, &at), tol, tol);
                for (int i = 0; i < p.n; i++)
                    for (int64_t k = 0; k < tp_tensor_size(&p.value[i + 1]); k++) {
                        const double got = where[i] < 0 ? 0 : tp_tensor_get(v[where[i]], k), want = strtod(at, &at);
                        CHECK_MSG(fabs(got - want) <= tol * (1 + fabs(want)),
                                  "%s: by weight %d[%lld]: %.12g, not %.12g", names[c], i, (long long)k, got, want);
                    }
                CHECK(*at == '\n');
            }
            tp_session_free(s);
            penalty_free(&p);
        }
    tp_free(text);
}

/* What has no second derivative says so, once it matters. */
static void keep(void *user, tp_log_level level, const char *message)
{
    if (level == TP_LOG_WARN) snprintf((char *)user, 512, "%s", message);
}

TEST(missing_second_derivatives_are_told)
{
    static const char *const sentence[] = {
        "attention_grad has none, so nothing flows through it", "lstm_grad has none, so nothing flows through it",
        "gru_grad has none, so nothing flows through it", "that of ctc_loss has none, so nothing flows through it"};
    for (int i = 0; i < TP_COUNT(sentence); i++) {
        char text[512] = "";
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(2, 3, 4)), *dx = NULL, *ddx = NULL, *y;
        tp_node *n = tp_placeholder(g, "n", TP_I32, tp_make_shape(3));
        tp_node *w = tp_placeholder(g, "w", TP_F32, tp_make_shape(6, TP_ANY));
        tp_node *b = tp_placeholder(g, "b", TP_F32, tp_make_shape(TP_ANY));
        tp_node *h = tp_placeholder(g, "h", TP_F32, tp_make_shape(3, 2));
        tp_set_log(keep, text);
        if (i == 0) y = tp_nn_attention(x, x, x, 2, false);
        else if (i == 1) y = tp_nn_lstm(x, w, b, h, h, 1, false, NULL, NULL);
        else if (i == 2) y = tp_nn_gru(x, w, b, w, b, h, false, NULL);
        else y = tp_ctc_loss(x, tp_placeholder(g, "labels", TP_I32, tp_make_shape(3, 1)), n, n, NULL);
        tp_gradients(tp_sum(tp_square(y)), &x, 1, &dx);
        CHECK_STR(text, "");
        CHECK_MSG(dx != NULL && tp_graph_status(g) == TP_OK, "%d: %s", i, tp_graph_error(g));
        tp_gradients(tp_sum(tp_square(dx)), &x, 1, &ddx);
        CHECK_HAS(text, sentence[i]);
        CHECK(tp_graph_status(g) == TP_OK);
        tp_set_log(NULL, NULL);
        tp_graph_free(g);
    }
}

/* bilinear_sampler's second derivatives, of shapes that are not known; and its third, since the nodes of the second are its own. Some
 * places lie outside of the image. */
TEST(bilinear_sampler_may_be_differentiated_again)
{
    double image[4 * 5 * 2], coords[3 * 3 * 2];
    for (int i = 0; i < TP_COUNT(image); i++) image[i] = sin(1.3 * i + 0.2);
    for (int i = 0; i < TP_COUNT(coords); i++) coords[i] = 0.27 * i - 0.4; /* clear of whole numbers */
    for (int border = TP_BORDER_REPEAT; border <= TP_BORDER_CONSTANT; border++)
        for (int order = 2; order <= 3; order++) {
            tp_graph *g = tp_graph_new(NULL);
            tp_node *x[2], *dx[2];
            tp_feed feed[2];
            double worst = -1;
            memset(feed, 0, sizeof feed);
            for (int i = 0; i < 2; i++) {
                x[i] = tp_placeholder(g, "x", TP_F64, tp_make_shape(TP_ANY, TP_ANY, TP_ANY, TP_ANY));
                feed[i].node = x[i];
            }
            tp_tensor_view(&feed[0].value, TP_F64, tp_make_shape(1, 4, 5, 2), image);
            tp_tensor_view(&feed[1].value, TP_F64, tp_make_shape(1, 3, 3, 2), coords);
            tp_node *y = tp_sin(tp_bilinear_sampler(x[0], x[1], border));
            for (int k = 1; k < order; k++) {
                tp_gradients(tp_sum(y), x, 2, dx);
                y = tp_add(tp_sum(tp_sin(dx[0])), tp_sum(tp_sin(dx[1])));
            }
            CHECK_MSG(tp_check_gradients(y, feed, 2, 1e-6, &worst) == TP_OK && worst >= 0, "border %d, order %d: %s",
                      border, order, tp_last_error());
            tp_graph_free(g);
        }
}

TEST_MAIN()
