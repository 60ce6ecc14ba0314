/* The graph, its planner and its session: names, scopes, order of reads and writes, fusion, memory, mistakes. */
#define TP_IMPLEMENTATION
#define TP__KERNELS /* the types that kernels read, beside an implementation compiled before */
#include "tp_graph.h"
#include "tp_help.h"

static tp_shape shape1(int64_t a) { return tp_make_shape_n(1, &a); }
static tp_shape shape2(int64_t a, int64_t b)
{
    const int64_t d[2] = {a, b};
    return tp_make_shape_n(2, d);
}
static tp_shape shape4(int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t n[4] = {a, b, c, d};
    return tp_make_shape_n(4, n);
}
static tp_shape scalar(void) { return tp_make_shape_n(0, NULL); }

static tp_feed feed_f32(tp_node *n, tp_shape s, const float *data)
{
    tp_feed f;
    memset(&f, 0, sizeof f);
    f.node = n;
    tp_tensor_view(&f.value, TP_F32, s, data);
    return f;
}

TEST(names_are_unique_and_found)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *a = tp_const(g, 1), *b = tp_const(g, 2);
    tp_name_scope_push(g, "s");
    tp_node *c = tp_named(tp_add(a, b), "sum");
    tp_name_scope_pop(g);
    tp_name_scope_push(g, "s");
    tp_node *d = tp_named(tp_add(a, b), "sum");
    tp_name_scope_pop(g);
    CHECK_STR(tp_node_name(c), "s/sum");
    CHECK_STR(tp_node_name(d), "s_1/sum");
    CHECK(tp_graph_find(g, "s/sum:0") == c);
    CHECK(tp_graph_find(g, "s_1/sum") == d);
    CHECK(tp_graph_find(g, "nothing") == NULL);
    CHECK(tp_graph_status(g) == TP_OK);
    tp_graph_free(g);
}

TEST(variable_scopes_reuse)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_variable_scope_desc d;
    memset(&d, 0, sizeof d);
    d.name = "fc";
    tp_variable_scope_push(g, &d);
    tp_node *w = tp_get_variable_as(g, "W", TP_F32, shape2(2, 3), tp_init_ones());
    tp_variable_scope_pop(g);
    CHECK_STR(tp_node_name(w), "fc/W");
    d.reuse = TP_REUSE_YES;
    tp_variable_scope_push(g, &d);
    CHECK(tp_get_variable_as(g, "W", TP_F32, shape2(2, 3), tp_init_ones()) == w);
    CHECK_STR(tp_name_scope(g), "fc_1");
    tp_node *x = tp_named(tp_const(g, 1), "output");
    CHECK_STR(tp_node_name(x), "fc_1/output");
    tp_variable_scope_pop(g);
    CHECK(tp_graph_status(g) == TP_OK);
    int n = 0;
    tp_collection(g, TP_KEY_TRAINABLE_VARIABLES, &n);
    CHECK(n == 1);
    tp_graph_free(g);
}

static const char *first_error(void (*build)(tp_graph *g), char *text, size_t size)
{
    tp_graph *g = tp_graph_new(NULL);
    build(g);
    CHECK(tp_graph_status(g) != TP_OK);
    snprintf(text, size, "%s", tp_graph_error(g));
    CHECK(tp_session_new(g, NULL) == NULL);
    tp_graph_free(g);
    return text;
}
static void wrong_shape(tp_graph *g)
{
    tp_node *a = tp_placeholder(g, "a", TP_F32, shape2(TP_ANY, 3)), *b = tp_placeholder(g, "b", TP_F32, shape2(4, 5));
    tp_node *bad = tp_matmul(a, b);
    CHECK(tp_is_poison(bad));
    CHECK(tp_is_poison(tp_relu(tp_add(bad, a))));
}
static void wrong_broadcast(tp_graph *g)
{
    tp_add(tp_placeholder(g, "a", TP_F32, shape1(3)), tp_placeholder(g, "b", TP_F32, shape1(4)));
}
static void duplicate_variable(tp_graph *g)
{
    tp_get_variable_as(g, "W", TP_F32, shape1(3), tp_init_zeros());
    tp_get_variable_as(g, "W", TP_F32, shape1(3), tp_init_zeros());
}
static void unknown_variable_shape(tp_graph *g) { tp_get_variable_as(g, "W", TP_F32, shape1(TP_ANY), tp_init_zeros()); }
static void reuse_missing(tp_graph *g)
{
    tp_variable_scope_desc d;
    memset(&d, 0, sizeof d);
    d.reuse = TP_REUSE_YES;
    tp_variable_scope_push(g, &d);
    tp_get_variable_as(g, "W", TP_F32, shape1(2), tp_init_zeros());
    tp_variable_scope_pop(g);
}
static void reuse_other_shape(tp_graph *g)
{
    tp_variable_scope_desc d;
    memset(&d, 0, sizeof d);
    tp_get_variable_as(g, "W", TP_F32, shape1(3), tp_init_zeros());
    d.reuse = TP_REUSE_AUTO;
    tp_variable_scope_push(g, &d);
    tp_get_variable_as(g, "W", TP_F32, shape1(2), tp_init_zeros());
    tp_variable_scope_pop(g);
}
static void assign_to_nothing(tp_graph *g) { tp_assign(tp_const(g, 1), tp_const(g, 2), NULL); }
static void two_graphs(tp_graph *g)
{
    tp_graph *other = tp_graph_new(NULL);
    tp_add(tp_const(g, 1), tp_const(other, 1));
    tp_graph_free(other);
}
static void finalized(tp_graph *g)
{
    tp_graph_finalize(g);
    tp_const(g, 1);
}
static void gradient_of_integer(tp_graph *g)
{
    tp_node *w = tp_get_variable_as(g, "W", TP_F32, shape1(3), tp_init_zeros()), *dw = NULL;
    tp_gradients(tp_cast(tp_sum(w), TP_I32), &w, 1, &dw);
}
static void scope_never_opened(tp_graph *g) { tp_name_scope_pop(g); }

/* What comes after a mistake is a node like others: the only output of an operation, which is none of the graph's. */
TEST(a_mistake_gives_a_whole_node)
{
    tp_graph *g = tp_graph_new(NULL);
    const tp_node *y = tp_poison(g);
    CHECK(y->op->graph == g && y->op->n_out == 1 && y->op->out == y && y->index == 0 && y->op->id == -1);
    CHECK(y->op->n_in == 0 && y->op->n_ctrl == 0 && y->op->n_var == 0 && tp_graph_n_operations(g) == 0);
    CHECK_STR(tp_name_scope(g), "");
    tp_graph_free(g);
}

TEST(each_mistake_is_one_sentence)
{
    char t[1024];
    CHECK_HAS(first_error(wrong_shape, t, sizeof t), "(?,3)");
    CHECK_HAS(first_error(wrong_broadcast, t, sizeof t), "do not broadcast");
    CHECK_HAS(first_error(duplicate_variable, t, sizeof t), "variable 'W' exists already");
    CHECK_HAS(first_error(unknown_variable_shape, t, sizeof t), "every dimension must be known");
    CHECK_HAS(first_error(reuse_missing, t, sizeof t), "variable 'W' does not exist");
    CHECK_HAS(first_error(reuse_other_shape, t, sizeof t), "it is reused as");
    CHECK_HAS(first_error(assign_to_nothing, t, sizeof t), "is not a variable");
    CHECK_HAS(first_error(two_graphs, t, sizeof t), "another graph");
    CHECK_HAS(first_error(finalized, t, sizeof t), "finalized");
    CHECK_HAS(first_error(gradient_of_integer, t, sizeof t), "only a floating value has a gradient");
    CHECK_HAS(first_error(scope_never_opened, t, sizeof t), "never opened");
}

TEST(a_mistake_says_where)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_at at = {"/somewhere/mnist.c", 35};
    tp_graph_set_at(g, at);
    tp_matmul(tp_const(g, 1), tp_const(g, 2));
    CHECK_HAS(tp_graph_error(g), "mnist.c:35: ");
    tp_graph_free(g);
}

/* What the shape rules multiply is checked first: a sentence, and nothing that overflows (seen by UBSan). */
TEST(sizes_too_large_for_any_memory_are_refused)
{
    const int64_t big = (int64_t)1 << 40, one[TP_MAX_DIMS] = {0}, more[TP_MAX_DIMS] = {big, big, big, big};
    for (int i = 0; i < 12; i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, shape4(1, 4, 4, 2));
        tp_node *wide = tp_placeholder(g, "wide", TP_F32, shape4(1, 1 << 20, 1 << 20, 1));
        tp_pool_attrs p;
        tp_conv2d_attrs c;
        memset(&p, 0, sizeof p);
        memset(&c, 0, sizeof c);
        switch (i) {
        case 0: /* an int holds neither 65536 squared nor the square of the largest int */
        case 1:
        case 2:
            p.size_h = p.size_w = i == 1 ? INT32_MAX : 65536, p.padding = TP_SAME;
            (i == 2 ? tp_nn_avg_pool : tp_nn_max_pool)(x, &p);
            break;
        case 3: tp_nn_conv2d(wide, tp_placeholder(g, "w", TP_F32, shape4(1, 1, 1, big)), &c); break;
        case 4:
            c.dilation_h = INT32_MAX, c.padding = TP_VALID;
            tp_nn_conv2d(wide, tp_placeholder(g, "w", TP_F32, shape4(big, 1, 1, 1)), &c);
            break;
        case 5: tp_placeholder(g, "huge", TP_F32, shape2(big, big)); break;
        case 6: tp_placeholder(g, "empty", TP_F32, shape4(0, big, big, 1)); break;
        case 7:
            tp_add(tp_placeholder(g, "a", TP_F32, shape2(big, 1)), tp_placeholder(g, "b", TP_F32, shape2(1, big)));
            break;
        case 8: tp_pad(x, one, more, TP_PAD_CONSTANT, 0.0f); break;
        case 9: tp_get_variable_as(g, "v", TP_F32, shape2(big, big), tp_init_ones()); break;
        case 10:
            tp_matmul(tp_placeholder(g, "a", TP_F32, shape2(big, 1)), tp_placeholder(g, "b", TP_F32, shape2(1, big)));
            break;
        default: tp_one_hot(tp_placeholder(g, "i", TP_I32, shape1(big)), INT32_MAX, 1.0f, 0.0f); break;
        }
        const char *part = i < 3 || i == 9 ? "too large" : i == 4 ? "larger than the input" : "larger than any memory";
        CHECK_MSG(tp_graph_status(g) != TP_OK && strstr(tp_graph_error(g), part), "%d: %s", i,
                  tp_graph_status(g) == TP_OK ? "accepted" : tp_graph_error(g));
        tp_graph_free(g);
    }
    /* an array of no elements may say so by any dimensions */
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, shape2(TP_ANY, TP_ANY)), *y = tp_relu(x);
    tp_session *s = tp_session_new(g, NULL);
    const tp_tensor *out = NULL;
    tp_feed f;
    memset(&f, 0, sizeof f);
    f.node = x;
    CHECK_OK(tp_tensor_resize(&f.value, TP_F32, shape2(0, INT64_MAX)));
    CHECK_ERR(tp_session_run(s, &f, 1, &y, 1, &out), TP_ERR_SHAPE, "larger than any memory");
    tp_tensor_free(&f.value);
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(runs_need_their_feeds)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, shape2(TP_ANY, 2)), *y = tp_sum(tp_square(x));
    tp_session *s = tp_session_new(g, NULL);
    const float data[6] = {1, 2, 3, 4, 5, 6};
    const int32_t ints[2] = {1, 2};
    tp_feed f = feed_f32(x, shape2(3, 2), data);
    const tp_tensor *v = NULL;
    tp_node *missing = tp_graph_find(g, "no/such/node");
    CHECK_OK(tp_session_run(s, &f, 1, &y, 1, &v));
    CHECK_NEAR(tp_tensor_get(v, 0), 91.0, 1e-5, 0);
    CHECK_ERR(tp_session_run(s, NULL, 0, &y, 1, &v), TP_ERR_ARG, "placeholder 'x' must be fed");
    CHECK_ERR(tp_session_run(s, &f, 1, &missing, 1, &v), TP_ERR_ARG, "fetch 0 is NULL");
    f = feed_f32(x, shape2(2, 3), data);
    CHECK_ERR(tp_session_run(s, &f, 1, &y, 1, &v), TP_ERR_SHAPE, "'x' has shape (?,2) but is fed (2,3)");
    tp_tensor_view(&f.value, TP_I32, shape2(1, 2), ints);
    CHECK_ERR(tp_session_run(s, &f, 1, &y, 1, &v), TP_ERR_DTYPE, "is fed int32");
    tp_feed twice[2];
    twice[0] = twice[1] = feed_f32(x, shape2(3, 2), data);
    CHECK_ERR(tp_session_run(s, twice, 2, &y, 1, &v), TP_ERR_ARG, "fed twice");
    tp_node *sq = y->op->in[0]; /* any node may be fed */
    f = feed_f32(sq, shape2(1, 2), data);
    CHECK_OK(tp_session_run(s, &f, 1, &y, 1, &v));
    CHECK_NEAR(tp_tensor_get(v, 0), 3.0, 1e-6, 0);
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(old_values_are_read_before_they_are_written)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *v = tp_get_variable_as(g, "v", TP_F32, scalar(), tp_init_constant(3));
    tp_node *next = tp_assign_add(v, tp_const(g, 1), NULL); /* made before its readers */
    tp_node *reader = tp_square(v), *view = tp_identity(v), *later = tp_mul(next, tp_const(g, 10));
    tp_node *after = tp_read_after(v, next);
    tp_session *s = tp_session_new(g, NULL);
    tp_node *fetch[6];
    const tp_tensor *out[6];
    fetch[0] = v, fetch[1] = next, fetch[2] = reader, fetch[3] = view, fetch[4] = later, fetch[5] = after;
    for (int i = 0; i < 3; i++) {
        const double x = 3 + i;
        CHECK_OK(tp_session_run(s, NULL, 0, fetch, 6, out));
        CHECK_NEAR(tp_tensor_get(out[0], 0), x, 0, 0);
        CHECK_NEAR(tp_tensor_get(out[1], 0), x + 1, 0, 0);
        CHECK_NEAR(tp_tensor_get(out[2], 0), x * x, 0, 0);
        CHECK_NEAR(tp_tensor_get(out[3], 0), x, 0, 0);
        CHECK_NEAR(tp_tensor_get(out[4], 0), (x + 1) * 10, 0, 0);
        CHECK_NEAR(tp_tensor_get(out[5], 0), x + 1, 0, 0);
    }
    CHECK_NEAR(value_at(s, v, 0), 6, 0, 0);
    CHECK_NEAR(value_at(s, after, 0), 7, 0, 0); /* which runs what it comes after, though nobody else asks for it */
    CHECK_NEAR(value_at(s, v, 0), 7, 0, 0);
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(writers_keep_their_order)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *v = tp_get_variable_as(g, "v", TP_F32, scalar(), tp_init_constant(1));
    tp_node *a = tp_assign_add(v, tp_const(g, 2), NULL);
    tp_node *from_a = tp_affine(a, 1, 0);
    tp_node *b = tp_assign(v, tp_const(g, 10), NULL);
    tp_node *from_b = tp_affine(b, 1, 0);
    tp_session *s = tp_session_new(g, NULL);
    tp_node *fetch[3];
    const tp_tensor *out[3];
    fetch[0] = from_b, fetch[1] = from_a, fetch[2] = v;
    CHECK_OK(tp_session_run(s, NULL, 0, fetch, 3, out));
    CHECK_NEAR(tp_tensor_get(out[0], 0), 10, 0, 0);
    CHECK_NEAR(tp_tensor_get(out[1], 0), 3, 0, 0);
    CHECK_NEAR(tp_tensor_get(out[2], 0), 1, 0, 0);
    tp_session_free(s);
    tp_graph_free(g);
}

/* What a writer left is fetched as it left it, though another writer comes later. */
TEST(a_fetched_assignment_is_its_own_value)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *v = tp_get_variable_as(g, "v", TP_F32, scalar(), tp_init_constant(1)), *fetch[4];
    const tp_tensor *out[4];
    fetch[0] = tp_assign(v, tp_const(g, 2), NULL);
    fetch[1] = tp_assign_add(v, tp_const(g, 3), NULL);
    fetch[2] = fetch[3] = v;
    tp_session *s = tp_session_new(g, NULL);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(tp_session_run(s, NULL, 0, fetch, 4, out));
        CHECK_NEAR(tp_tensor_get(out[0], 0), 2, 0, 0);
        CHECK_NEAR(tp_tensor_get(out[1], 0), 5, 0, 0);
        for (int k = 2; k < 4; k++) CHECK_NEAR(tp_tensor_get(out[k], 0), i ? 5 : 1, 0, 0);
    }
    tp_session_free(s);
    tp_graph_free(g);
}

/* An update reads its inputs as they were before it, though they are other variables that it updates. */
TEST(an_update_reads_what_it_writes_first)
{
    for (int plain = 0; plain < 2; plain++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *w[2], *grad[2];
        w[0] = tp_get_variable_as(g, "a", TP_F32, shape1(3), tp_init_constant(1));
        w[1] = tp_get_variable_as(g, "b", TP_F32, shape1(3), tp_init_constant(10));
        grad[0] = w[1], grad[1] = tp_identity(w[0]);
        tp_node *step = tp_apply_gradient_descent(w, grad, 2, tp_const(g, 0.5f), NULL);
        tp_session_config c = tp_default_session_config();
        c.no_fusion = plain != 0;
        tp_session *s = tp_session_new(g, &c);
        CHECK_OK(tp_session_run(s, NULL, 0, &step, 1, NULL));
        CHECK_NEAR(value_at(s, w[0], 0), 1 - 0.5 * 10, 0, 0);
        CHECK_NEAR(value_at(s, w[1], 0), 10 - 0.5 * 1, 0, 0);
        grad[0] = w[1], grad[1] = w[0];
        step = tp_apply_gradient_descent(w, grad, 2, tp_const(g, 1), NULL);
        CHECK_OK(tp_session_run(s, NULL, 0, &step, 1, NULL));
        CHECK_NEAR(value_at(s, w[0], 0), -4 - 9.5, 0, 0);
        CHECK_NEAR(value_at(s, w[1], 0), 9.5 + 4, 0, 0);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* A variable that is fed, as the first feed, is read as fed, and keeps its value. */
TEST(a_variable_that_is_fed)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, shape1(2), tp_init_ones()), *y = tp_affine(w, 2, 0);
    tp_session *s = tp_session_new(g, NULL);
    const float data[2] = {5, 7};
    const tp_tensor *out;
    for (int fed = 1; fed >= 0; fed--) {
        const tp_feed f = feed_f32(w, shape1(2), data);
        if (CHECK_OK(tp_session_run(s, &f, fed, &y, 1, &out))) CHECK_NEAR(tp_tensor_get(out, 1), fed ? 14 : 2, 0, 0);
    }
    tp_session_free(s);
    tp_graph_free(g);
}

/* What is fed is read as fed, though its op runs for another output's sake or something waits for it. */
TEST(what_is_fed_is_not_overwritten)
{
    for (int plain = 0; plain < 2; plain++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, shape1(4)), *part[2], *fetch[4];
        tp_split(x, 2, 0, part);
        tp_node *r = tp_relu(tp_affine(x, 2, 0)), *view = tp_reshape_to(x, shape2(2, 2));
        fetch[0] = tp_add(part[0], part[1]);
        fetch[1] = tp_add(r, tp_with_dependencies(tp_neg(x), &r, 1));
        fetch[2] = tp_sum(tp_add(view, tp_with_dependencies(tp_ones_like(view), &view, 1)));
        fetch[3] = part[1];
        tp_session_config c = tp_default_session_config();
        c.no_fusion = plain != 0;
        tp_session *s = tp_session_new(g, &c);
        const float data[4] = {1, 2, 3, 4}, other[4] = {100, 100, 100, 100};
        const tp_tensor *out[4];
        tp_feed f[4];
        f[0] = feed_f32(x, shape1(4), data);
        f[1] = feed_f32(part[0], shape1(2), other);
        f[2] = feed_f32(r, shape1(4), other);
        f[3] = feed_f32(view, shape2(2, 2), other);
        for (int run = 0; run < 2; run++) {
            if (!CHECK_OK(tp_session_run(s, f, 4, fetch, 4, out))) break;
            CHECK_NEAR(tp_tensor_get(out[0], 1), 104, 0, 0);
            CHECK_NEAR(tp_tensor_get(out[1], 3), 96, 0, 0);
            CHECK_NEAR(tp_tensor_get(out[2], 0), 404, 0, 0);
            CHECK_NEAR(tp_tensor_get(out[3], 1), 4, 0, 0);
        }
        tp_session_free(s);
        tp_graph_free(g);
    }
}

TEST(a_fault_among_constants_is_told)
{
    tp_graph *g = tp_graph_new(NULL);
    const float rows[3] = {1, 2, 3};
    const int32_t at[2] = {1, 7};
    tp_tensor t, i;
    tp_tensor_view(&t, TP_F32, shape1(3), rows);
    tp_tensor_view(&i, TP_I32, shape1(2), at);
    tp_node *y = tp_gather(tp_constant(g, &t), tp_constant(g, &i)), *z = tp_const(g, 1);
    tp_session *s = tp_session_new(g, NULL);
    for (int k = 0; k < 2; k++) CHECK_ERR(tp_session_run(s, NULL, 0, &y, 1, NULL), TP_ERR_NUMERIC, "index 7");
    CHECK_OK(tp_session_run(s, NULL, 0, &z, 1, NULL));
    tp_session_free(s);
    tp_graph_free(g);
}

/* A view of a constant that lies on another device is the constant brought here, not a step of its own. */
TEST(a_constant_is_viewed_from_another_device)
{
    tp_device *d[2];
    for (int i = 0; i < 2; i++) d[i] = tp_cpu_device_new(1, NULL);
    tp_graph *g = tp_graph_new(NULL);
    const float rows[6] = {1, 2, 3, 4, 5, 6};
    tp_tensor t;
    tp_tensor_view(&t, TP_F32, shape2(3, 2), rows);
    tp_device_enter(g, 1);
    tp_node *there = tp_square(tp_constant(g, &t));
    tp_device_leave(g);
    tp_node *y = tp_affine(tp_flatten(there), 2, 0);
    tp_session_config c = tp_default_session_config();
    c.devices = d;
    c.n_devices = 2;
    tp_session *s = tp_session_new(g, &c);
    const tp_tensor *out = NULL;
    CHECK_OK(tp_session_run(s, NULL, 0, &y, 1, &out));
    if (out) CHECK_NEAR(tp_tensor_get(out, 5), 72, 0, 0);
    tp_session_free(s);
    tp_graph_free(g);
    for (int i = 0; i < 2; i++) d[i]->close(d[i]);
}

TEST(a_circle_of_reads_and_writes_is_refused)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *v = tp_get_variable_as(g, "v", TP_F32, scalar(), tp_init_constant(1));
    tp_node *next = tp_assign_add(v, tp_const(g, 1), NULL);
    tp_node *both = tp_mul(v, next); /* the old value, but only after the new one */
    tp_session *s = tp_session_new(g, NULL);
    CHECK_ERR(tp_session_run(s, NULL, 0, &both, 1, NULL), TP_ERR_STATE, "tp_read_after");
    tp_session_free(s);
    tp_graph_free(g);
}

/* What is fed takes the place of what the graph has there, a constant and a variable too, as whichever feed it comes. */
TEST(constants_and_variables_can_be_fed)
{
    enum { SOURCES = 4 };
    for (int fed = 0; fed <= SOURCES; fed++)
        for (int turn = 0; turn < SOURCES; turn++) {
            tp_graph *g = tp_graph_new(NULL);
            tp_node *x[SOURCES], *fetch[2 * SOURCES];
            const tp_tensor *out[2 * SOURCES];
            float value[SOURCES] = {3, 5, -3, -5}, data[SOURCES] = {20, 21, 22, 23};
            tp_feed f[SOURCES];
            x[0] = tp_const(g, value[0]);
            x[1] = tp_get_variable_as(g, "v", TP_F32, scalar(), tp_init_constant(value[1]));
            x[2] = tp_neg(x[0]), x[3] = tp_neg(x[1]);
            for (int i = 0; i < SOURCES; i++) fetch[i] = x[i], fetch[SOURCES + i] = tp_affine(x[i], 2, 0);
            for (int i = 0; i < fed; i++) f[i] = feed_f32(x[(i + turn) % SOURCES], scalar(), &data[i]);
            tp_session *s = tp_session_new(g, NULL);
            if (CHECK_OK(tp_session_run(s, f, fed, fetch, 2 * SOURCES, out)))
                for (int i = 0; i < SOURCES; i++) {
                    const int at = (i + SOURCES - turn) % SOURCES, of = (i + 2 - turn + SOURCES) % SOURCES;
                    const double above = of < fed && i >= 2 ? -(double)data[of] : (double)value[i];
                    const double want = at < fed ? (double)data[at] : above;
                    CHECK_MSG(tp_tensor_get(out[i], 0) == want && tp_tensor_get(out[SOURCES + i], 0) == 2 * want,
                              "%d fed from %d: %d is %g, not %g", fed, turn, i, tp_tensor_get(out[i], 0), want);
                }
            tp_session_free(s);
            tp_graph_free(g);
        }
}

TEST(a_predicate_decides_on_the_device)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *v = tp_get_variable_as(g, "v", TP_F32, scalar(), tp_init_constant(1));
    tp_node *p = tp_placeholder(g, "p", TP_BOOL, scalar());
    tp_node *next = tp_assign_add(v, tp_const(g, 1), p);
    tp_session *s = tp_session_new(g, NULL);
    uint8_t yes = 1, no = 0;
    tp_feed f;
    memset(&f, 0, sizeof f);
    f.node = p;
    tp_tensor_view(&f.value, TP_BOOL, scalar(), &no);
    CHECK_OK(tp_session_run(s, &f, 1, &next, 1, NULL));
    CHECK_NEAR(value_at(s, v, 0), 1, 0, 0);
    tp_tensor_view(&f.value, TP_BOOL, scalar(), &yes);
    CHECK_OK(tp_session_run(s, &f, 1, &next, 1, NULL));
    CHECK_NEAR(value_at(s, v, 0), 2, 0, 0);
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(gradients_sum_over_consumers_and_differentiate_twice)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_get_variable_as(g, "x", TP_F32, scalar(), tp_init_constant(3));
    tp_node *y = tp_add(tp_mul(x, x), tp_mul(tp_exp(tp_affine(x, 0, 0)), x)); /* x^2 + x */
    tp_node *dx = NULL, *ddx = NULL, *none = NULL,
            *other = tp_get_variable_as(g, "z", TP_F32, scalar(), tp_init_zeros());
    tp_gradients(y, &x, 1, &dx);
    tp_gradients(tp_mul(tp_square(x), x), &x, 1, &ddx); /* 3x^2 */
    tp_gradients(ddx, &x, 1, &ddx);                     /* 6x */
    tp_gradients(y, &other, 1, &none);
    CHECK(none == NULL);
    tp_gradients(tp_stop_gradient(y), &x, 1, &none);
    CHECK(none == NULL);
    tp_session *s = tp_session_new(g, NULL);
    CHECK_NEAR(value_at(s, dx, 0), 7, 1e-5, 0);
    CHECK_NEAR(value_at(s, ddx, 0), 18, 1e-4, 0);
    tp_session_free(s);
    tp_graph_free(g);
}

/* A small network with everything that the planner rearranges, trained a few steps. */
typedef struct net {
    tp_graph *g;
    tp_node *x, *label, *cost, *train, *hidden, *conv;
} net;

static net build_net(void)
{
    net n;
    const int64_t in[4] = {TP_ANY, 9, 9, 3}, kernel[4] = {3, 3, 3, 8};
    tp_conv2d_attrs a;
    tp_pool_attrs pool;
    memset(&a, 0, sizeof a);
    memset(&pool, 0, sizeof pool);
    pool.size_h = pool.size_w = 2;
    n.g = tp_graph_new(NULL);
    n.x = tp_placeholder(n.g, "x", TP_F32, tp_make_shape_n(4, in));
    n.label = tp_placeholder(n.g, "label", TP_I32, shape1(TP_ANY));
    tp_node *vars[4], *grads[4];
    vars[0] = tp_get_variable_as(n.g, "conv/W", TP_F32, tp_make_shape_n(4, kernel),
                                 tp_init_variance_scaling(2, TP_FAN_IN, TP_DIST_NORMAL));
    vars[1] = tp_get_variable_as(n.g, "conv/b", TP_F32, shape1(8), tp_init_zeros());
    vars[2] = tp_get_variable_as(n.g, "fc/W", TP_F32, shape2(4 * 4 * 8, 5), tp_init_glorot_uniform());
    vars[3] = tp_get_variable_as(n.g, "fc/b", TP_F32, shape1(5), tp_init_zeros());
    n.conv = tp_nn_conv2d(tp_affine(n.x, 2, -1), vars[0], &a);
    n.hidden = tp_relu(tp_nn_bias_add(n.conv, vars[1], 0));
    tp_node *pooled = tp_nn_dropout(tp_nn_max_pool(n.hidden, &pool), 0.25f);
    tp_node *logits = tp_nn_bias_add(tp_matmul(tp_batch_flatten(pooled), vars[2]), vars[3], 0);
    n.cost =
        tp_add(tp_mean(tp_sparse_softmax_cross_entropy(logits, n.label)), tp_affine(tp_l2_loss(vars[2]), 1e-3f, 0));
    tp_gradients(n.cost, vars, 4, grads);
    n.train = tp_apply_gradient_descent(vars, grads, 4, tp_const(n.g, 0.1f), NULL);
    return n;
}

/* Of every variable's bytes; 0 without a session. */
static uint64_t hash_of_variables(tp_session *s, tp_graph *g)
{
    uint64_t hash = 0;
    for (int i = 0; s && i < tp_graph_n_variables(g); i++) {
        tp_tensor t;
        memset(&t, 0, sizeof t);
        CHECK_OK(tp_session_read(s, tp_graph_variable(g, i), &t));
        hash = hash * 31 + tp_hash(t.data, tp_tensor_bytes(&t));
        tp_tensor_free(&t);
    }
    return hash;
}

/* Train `steps` steps; every variable's bytes go into `hash`. Every third step asks for `extra` nodes beside. */
static uint64_t train_net(const tp_session_config *config, int steps, bool extras, double *last_cost)
{
    net n = build_net();
    tp_session *s = tp_session_new(n.g, config);
    float *data = (float *)malloc(7 * 243 * sizeof *data);
    int32_t label[7];
    uint64_t hash = 0;
    CHECK(s != NULL);
    for (int i = 0; s && i < steps; i++) {
        tp_feed f[2];
        memset(f, 0, sizeof f);
        const int64_t in[4] = {7, 9, 9, 3};
        for (int k = 0; k < 7 * 243; k++) data[k] = tp_random_uniform(77, (uint64_t)(i % 4), (uint64_t)k);
        for (int k = 0; k < 7; k++) label[k] = (k + i) % 5;
        f[0] = feed_f32(n.x, tp_make_shape_n(4, in), data);
        f[1].node = n.label;
        tp_tensor_view(&f[1].value, TP_I32, shape1(7), label);
        tp_node *fetch[6];
        const tp_tensor *out[6] = {NULL, NULL, NULL, NULL, NULL, NULL};
        int k = 0;
        fetch[k++] = n.train;
        fetch[k++] = n.cost;
        if (extras && i % 3 == 1) {
            fetch[k++] = n.hidden;
            fetch[k++] = n.conv;
            fetch[k++] = tp_find_variable(n.g, "conv/W")->node;
        }
        CHECK_OK(tp_session_run(s, f, 2, fetch, k, out));
        if (last_cost && out[1]) *last_cost = tp_tensor_get(out[1], 0);
    }
    hash = hash_of_variables(s, n.g);
    free(data);
    tp_session_free(s);
    tp_graph_free(n.g);
    return hash;
}

/* Matrices are not broadcast: the gradients of their product are products, with nothing to sum, whatever sizes are known. */
TEST(gradients_of_a_product_of_matrices_are_products)
{
    for (int how = 0; how < 4; how++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *ab[2], *d[2];
        ab[0] = tp_placeholder(g, "a", TP_F32, shape2(TP_ANY, TP_ANY));
        ab[1] = tp_placeholder(g, "b", TP_F32, shape2(TP_ANY, TP_ANY));
        tp_gradients(tp_matmul_ex(ab[0], ab[1], how % 2 == 1, how / 2 == 1), ab, 2, d);
        for (int i = 0; i < 2; i++) CHECK_STR(d[i]->op->row->name, "matmul");
        CHECK(tp_graph_status(g) == TP_OK);
        tp_graph_free(g);
    }
}

/* Where one factor is broadcast, its gradient is summed to its own shape. */
TEST(gradients_of_products_have_the_shapes_of_the_factors)
{
    static const int64_t batch[][2] = {{0, 4}, {4, 0}, {1, 4}, {4, 1}, {4, 4}, {0, 1}, {0, 0}}; /* 0: a matrix */
    static const float data[4 * 3 * 5] = {0.5f, -1, 2, 0.25f, -0.75f};
    for (int i = 0; i < 4 * TP_COUNT(batch); i++) {
        const bool ta = i % 2 == 1, tb = i / 2 % 2 == 1;
        tp_graph *g = tp_graph_new(NULL);
        tp_node *ab[2], *d[2] = {NULL, NULL};
        tp_feed f[2];
        for (int k = 0; k < 2; k++) {
            const int64_t m = (k ? 5 : 2), *b = batch[i / 4];
            const bool high = k ? tb : !ta; /* a is 2 x 3, b is 3 x 5 */
            tp_shape s = high ? shape2(m, 3) : shape2(3, m);
            if (b[k]) {
                const int64_t dim[3] = {b[k], s.dim[0], s.dim[1]};
                s = tp_make_shape_n(3, dim);
            }
            ab[k] = tp_placeholder(g, k ? "b" : "a", TP_F32, s);
            f[k] = feed_f32(ab[k], s, data);
        }
        tp_node *y = tp_matmul_ex(ab[0], ab[1], ta, tb);
        tp_gradients(tp_sum(tp_square(y)), ab, 2, d);
        for (int k = 0; k < 2; k++) CHECK_MSG(d[k] && tp_shape_equal(&d[k]->shape, &ab[k]->shape), "%d of %d", k, i);
        CHECK_OK(tp_check_gradients(y, f, 2, 0, NULL));
        CHECK(tp_graph_status(g) == TP_OK);
        tp_graph_free(g);
    }
}

TEST(bits_do_not_depend_on_threads_fetches_or_fusion)
{
    tp_session_config c = tp_default_session_config();
    double cost = 0, unfused_cost = 0;
    c.threads = 1;
    const uint64_t one = train_net(&c, 20, false, &cost);
    CHECK(train_net(&c, 20, true, NULL) == one);
    c.threads = 2;
    CHECK(train_net(&c, 20, false, NULL) == one);
    c.threads = 4;
    CHECK(train_net(&c, 20, true, NULL) == one);
    c.no_fusion = true;
    CHECK(train_net(&c, 20, true, &unfused_cost) == one);
    CHECK(cost == unfused_cost);
    CHECK(cost < 2.0 && cost > 0.0);
}

#if defined(__SSE__)
/* Weights are drawn in the library's rounding mode, and so are the limits that follow from a shape. */
TEST(initial_weights_do_not_depend_on_the_rounding_mode)
{
    static const unsigned roundings[] = {0, 0x2000u, 0x4000u, 0x6000u}; /* nearest, down, up, to zero */
    const tp_init inits[] = {tp_init_glorot_uniform(), tp_init_variance_scaling(2, TP_FAN_IN, TP_DIST_NORMAL),
                             tp_init_variance_scaling(1.3f, TP_FAN_OUT, TP_DIST_TRUNCATED_NORMAL)};
    const unsigned before = __builtin_ia32_stmxcsr();
    for (int k = 0; k < TP_COUNT(inits); k++)
        for (int64_t n = 3; n <= 43; n += 10) {
            tp_tensor nearest = TP_EMPTY, other = TP_EMPTY;
            CHECK_OK(tp_tensor_resize(&nearest, TP_F32, shape2(n, 7)));
            CHECK_OK(tp_tensor_resize(&other, TP_F32, shape2(n, 7)));
            CHECK_OK(tp_init_fill(&inits[k], 5, "w", &nearest));
            for (int r = 0; r < TP_COUNT(roundings); r++) {
                __builtin_ia32_ldmxcsr((before & ~0x6000u) | roundings[r]);
                const tp_status st = tp_init_fill(&inits[k], 5, "w", &other);
                __builtin_ia32_ldmxcsr(before);
                CHECK_OK(st);
                CHECK_MSG(memcmp(nearest.data, other.data, tp_tensor_bytes(&other)) == 0,
                          "initialiser %d, %d rows, rounding %d", k, (int)n, r);
            }
            tp_tensor_free(&nearest), tp_tensor_free(&other);
        }
}
#endif

/* A perceptron by gradient descent: the products that the planner subtracts from the weights as they arise. Returns a
 * hash of the variables after some steps; *descents: steps of the plan that do so. */
static uint64_t train_by_descent(const tp_session_config *c, int64_t batch, bool fetch_gradients, int *descents)
{
    tp_graph *g = tp_graph_new(NULL);
    const int64_t width[4] = {70, 50, 33, 40};
    tp_node *x = tp_placeholder(g, "x", TP_F32, shape2(TP_ANY, width[0])), *h = x;
    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        tp_node *w = tp_get_variable_as(g, name, TP_F32, shape2(width[i], width[i + 1]), tp_init_uniform(-0.3f, 0.3f));
        h = tp_tanh(tp_matmul(h, w));
    }
    tp_node *vars[3], *grads[3], *fetch[4];
    const tp_tensor *out[4];
    for (int i = 0; i < 3; i++) vars[i] = tp_graph_variable(g, i)->node;
    tp_gradients(tp_mean(tp_square(h)), vars, 3, grads);
    fetch[0] = tp_apply_gradient_descent(vars, grads, 3, tp_const(g, 0.7f), NULL);
    for (int i = 0; i < 3; i++) fetch[1 + i] = grads[i];
    tp_session *s = tp_session_new(g, c);
    CHECK(s != NULL);
    float *data = (float *)malloc((size_t)(batch * 70) * sizeof *data);
    for (int64_t i = 0; i < batch * 70; i++) data[i] = (float)((i * 37) % 101) / 50.0f - 1.0f;
    tp_feed f;
    memset(&f, 0, sizeof f);
    f.node = x;
    f.value.dtype = TP_F32;
    f.value.shape = shape2(batch, 70);
    f.value.data = data;
    for (int i = 0; s && i < 7; i++) CHECK_OK(tp_session_run(s, &f, 1, fetch, fetch_gradients ? 4 : 1, out));
    tp_buf text;
    memset(&text, 0, sizeof text);
    CHECK_OK(tp_exec_print_plan(tp_session_exec(s), fetch, fetch_gradients ? 4 : 1, &text));
    *descents = 0;
    for (const char *at = text.data; at && (at = strstr(at, " descend ")) != NULL; at++) ++*descents;
    tp_buf_free(&text);
    const uint64_t hash = hash_of_variables(s, g);
    free(data);
    tp_session_free(s);
    tp_graph_free(g);
    return hash;
}

TEST(gradient_descent_without_a_stored_gradient_gives_the_same_bits)
{
    static const char *const isa[] = {NULL, "sse2", "avx2", "naive"};
    for (int i = 0; i < TP_COUNT(isa); i++)
        for (int64_t batch = 1; batch <= 17; batch += 4) {
            tp_session_config c = tp_default_session_config();
            int n = 0;
            c.threads = 1;
            c.isa = isa[i];
            if (isa[i]) { /* there may be machines without it */
                tp_device *d = tp_cpu_device_new(1, isa[i]);
                if (!d) continue;
                d->close(d);
            }
            const uint64_t fused = train_by_descent(&c, batch, false, &n);
            CHECK(n == 2); /* one stays with the op */
            CHECK(train_by_descent(&c, batch, true, &n) == fused);
            CHECK(n == 0);
            c.no_fusion = true;
            CHECK(train_by_descent(&c, batch, false, &n) == fused);
            CHECK(n == 0);
            c.no_fusion = false;
            c.threads = 3;
            CHECK(train_by_descent(&c, batch, false, &n) == fused);
        }
    /* more samples than the gradient is worth: as the ops say */
    tp_session_config c = tp_default_session_config();
    int n = 0;
    train_by_descent(&c, 40, false, &n);
    CHECK(n == 0);
}

/* Two tables of 500 rows by gradient descent: the rows that the planner updates where their gradients are summed. The last step has the
 * given learning rate. Returns a hash of the tables; *descents: steps of the plan that do so. */
static uint64_t train_tables(const tp_session_config *c, int64_t n, int64_t width, float last_rate,
                             bool fetch_gradients, int *descents)
{
    enum { ROWS = 500, MOST = 600 };
    tp_graph *g = tp_graph_new(NULL);
    tp_node *i32 = tp_placeholder(g, "i32", TP_I32, shape1(TP_ANY)),
            *i64 = tp_placeholder(g, "i64", TP_I64, shape1(TP_ANY)),
            *lr = tp_placeholder(g, "lr", TP_F32, tp_make_shape()), *vars[2], *grads[2], *fetch[3];
    for (int i = 0; i < 2; i++)
        vars[i] = tp_get_variable_as(g, i ? "w1" : "w0", TP_F32, shape2(ROWS, width), tp_init_uniform(-1, 1));
    tp_gradients(tp_sum(tp_square(tp_mul(tp_gather(vars[0], i32), tp_gather(vars[1], i64)))), vars, 2, grads);
    fetch[0] = tp_apply_gradient_descent(vars, grads, 2, lr, NULL);
    fetch[1] = grads[0], fetch[2] = grads[1];
    tp_session *s = tp_session_new(g, c);
    CHECK(s != NULL);
    static int32_t short_index[MOST];
    static int64_t long_index[MOST];
    for (int step = 0; s && step < 4; step++) {
        for (int64_t i = 0; i < n; i++) { /* a few rows come often */
            short_index[i] = (int32_t)(i * i * (step + 1) % 97 * 5);
            long_index[i] = i % 3 ? 499 : (i + step) % ROWS;
        }
        const float rate = step < 3 ? 0.1f : last_rate;
        tp_feed f[3];
        memset(f, 0, sizeof f);
        f[0].node = i32, f[1].node = i64, f[2].node = lr;
        tp_tensor_view(&f[0].value, TP_I32, shape1(n), short_index);
        tp_tensor_view(&f[1].value, TP_I64, shape1(n), long_index);
        tp_tensor_view(&f[2].value, TP_F32, tp_make_shape(), &rate);
        CHECK_OK(tp_session_run(s, f, 3, fetch, fetch_gradients ? 3 : 1, NULL));
    }
    tp_buf text;
    memset(&text, 0, sizeof text);
    CHECK_OK(tp_exec_print_plan(tp_session_exec(s), fetch, fetch_gradients ? 3 : 1, &text));
    *descents = 0;
    for (const char *at = text.data; at && (at = strstr(at, " descend_rows ")) != NULL; at++) ++*descents;
    tp_buf_free(&text);
    const uint64_t hash = hash_of_variables(s, g);
    tp_session_free(s);
    tp_graph_free(g);
    return hash;
}

TEST(rows_of_tables_descend_with_the_same_bits)
{
    static const int64_t sizes[][2] = {{0, 8}, {1, 1}, {7, 3}, {300, 64}, {499, 65}, {499, 200}, {120, 16}, {500, 8}};
    static const float rates[] = {0.3f, -0.0f, INFINITY, NAN};
    for (int i = 0; i < TP_COUNT(sizes); i++)
        for (int k = 0; k < TP_COUNT(rates); k++) {
            const int64_t n = sizes[i][0], width = sizes[i][1];
            tp_session_config c = tp_default_session_config();
            int descents = 0;
            c.threads = 1;
            const uint64_t fused = train_tables(&c, n, width, rates[k], false, &descents);
            CHECK(descents == (n < 500 ? 2 : 0)); /* as many indices as rows: a dense gradient is as good */
            CHECK_MSG(train_tables(&c, n, width, rates[k], true, &descents) == fused, "n %d, width %d, rate %d", (int)n,
                      (int)width, k);
            CHECK(descents == 0);
            c.threads = 3;
            CHECK(train_tables(&c, n, width, rates[k], false, &descents) == fused);
            c.isa = "naive";
            CHECK(train_tables(&c, n, width, rates[k], false, &descents) == fused);
            c.no_fusion = true;
            CHECK(train_tables(&c, n, width, rates[k], false, &descents) == fused && descents == 0);
        }
}

/* Two residual blocks with batch norm before the convolutions: what the planner makes no memory for (a normalised image that
 * only convolutions read) and no pass for (sums with a convolution or a batch norm's gradient). Returns a hash of the
 * variables after some steps; fetches: 0 none, 1 the normalised images, 2 what is added, too. */
static uint64_t train_residual(const tp_session_config *c, int fetches, double *cost, tp_plan_info *info)
{
    tp_graph *g = tp_graph_new(NULL);
    const int64_t in[4] = {TP_ANY, 12, 11, 16}, kernel[4] = {3, 3, 16, 16};
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(4, in)), *h = x, *fetch[12];
    const tp_tensor *out[12] = {NULL};
    tp_conv2d_attrs a;
    memset(&a, 0, sizeof a);
    int n = 2, n_var = 0;
    tp_node *vars[12], *grads[12];
    tp_node *shortcut = x;
    for (int block = 0; block < 2; block++)
        for (int half = 0; half < 2; half++) {
            char name[40];
            if (half == 0) shortcut = h;
            tp_node *own[3];
            snprintf(name, sizeof name, "w%d%d", block, half);
            own[0] = tp_get_variable_as(g, name, TP_F32, tp_make_shape_n(4, kernel), tp_init_uniform(-0.1f, 0.1f));
            snprintf(name, sizeof name, "gamma%d%d", block, half);
            own[1] = tp_get_variable_as(g, name, TP_F32, shape1(16), tp_init_uniform(0.5f, 1.5f));
            snprintf(name, sizeof name, "beta%d%d", block, half);
            own[2] = tp_get_variable_as(g, name, TP_F32, shape1(16), tp_init_uniform(-0.5f, 0.5f));
            for (int i = 0; i < 3; i++) vars[n_var++] = own[i];
            tp_node *y = tp_nn_batch_norm_train(h, own[1], own[2], 3, 1e-3f, false, NULL, NULL);
            if (block == 0 || half == 0) y = tp_relu(y); /* one without */
            h = tp_nn_conv2d(y, own[0], &a);
            if (fetches > 0) fetch[n++] = y;
            if (fetches > 1) fetch[n++] = h;
            if (half == 1) h = tp_add(h, shortcut);
        }
    fetch[1] = tp_mean(tp_square(tp_affine(h, 1, -0.3f)));
    tp_gradients(fetch[1], vars, n_var, grads);
    fetch[0] = tp_apply_gradient_descent(vars, grads, n_var, tp_const(g, 0.05f), NULL);
    tp_session *s = tp_session_new(g, c);
    CHECK(s != NULL);
    const int64_t size[4] = {3, 12, 11, 16};
    float *data = (float *)malloc(3 * 12 * 11 * 16 * sizeof *data);
    for (int i = 0; i < 3 * 12 * 11 * 16; i++) data[i] = tp_random_uniform(5, 0, (uint64_t)i);
    tp_feed f = feed_f32(x, tp_make_shape_n(4, size), data);
    for (int i = 0; s && i < 5; i++) CHECK_OK(tp_session_run(s, &f, 1, fetch, n, out));
    *cost = out[1] ? tp_tensor_get(out[1], 0) : NAN;
    CHECK_OK(tp_exec_plan_info(tp_session_exec(s), fetch, n, info));
    const uint64_t hash = hash_of_variables(s, g);
    free(data);
    tp_session_free(s);
    tp_graph_free(g);
    return hash;
}

TEST(what_a_plan_does_not_make_changes_no_bits)
{
    static const char *const isa[] = {NULL, "sse2", "avx2"};
    double cost = 0, last = 0;
    tp_plan_info made, unmade;
    for (int i = 0; i < TP_COUNT(isa); i++) {
        tp_session_config c = tp_default_session_config();
        c.threads = 1;
        c.isa = isa[i];
        if (isa[i]) { /* there may be machines without it */
            tp_device *d = tp_cpu_device_new(1, isa[i]);
            if (!d) continue;
            d->close(d);
        }
        const uint64_t hash = train_residual(&c, 0, &cost, &unmade);
        CHECK(train_residual(&c, 1, &last, &made) == hash && last == cost);
        CHECK(train_residual(&c, 2, &last, &made) == hash && last == cost);
        c.threads = 3;
        CHECK(train_residual(&c, 0, &last, &made) == hash && last == cost);
        c.no_fusion = true;
        CHECK(train_residual(&c, 0, &last, &made) == hash && last == cost);
#if !TP__FAST
        continue;
#endif
        /* 4 batch norms, 3 of them with their ReLU and its mask; 2 sums forward, 2 of the gradients backward */
        const size_t image = 3 * 12 * 11 * 16 * sizeof(float);
        CHECK_MSG(unmade.n_steps <= made.n_steps - 3 - 3 - 3, "%d and %d steps", unmade.n_steps, made.n_steps);
        CHECK_MSG(unmade.arena_bytes + 3 * image < made.arena_bytes, "%zu and %zu bytes", (size_t)unmade.arena_bytes,
                  (size_t)made.arena_bytes);
    }
    tp_session_config c = tp_default_session_config();
    c.isa = "naive";
    train_residual(&c, 0, &last, &made);
    CHECK_NEAR(last, cost, 1e-4, 1e-4);
}

/* What stands around a batch norm so that its result must be made after all, or is laid out otherwise. Each case runs as
 * planned and without fusion; the fetched values must be the same. */
static tp_node *around_batch_norm(int kind, tp_graph *g, tp_node *x, tp_node **second)
{
    const int64_t kernel[4] = {3, 3, 16, 16}, flat[4] = {4, 16, 4, 16}, tall[4] = {2, 8, 16, 16};
    tp_conv2d_attrs a;
    memset(&a, 0, sizeof a);
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape_n(4, kernel), tp_init_uniform(-0.1f, 0.1f));
    tp_node *gamma = tp_get_variable_as(g, "gamma", TP_F32, shape1(16), tp_init_uniform(0.5f, 1.5f));
    tp_node *beta = tp_get_variable_as(g, "beta", TP_F32, shape1(16), tp_init_uniform(-0.5f, 0.5f));
    tp_node *v = tp_get_variable_as(g, "v", TP_F32, tp_make_shape_n(4, tall), tp_init_uniform(-1, 1)), *dx = NULL;
    tp_node *from = kind == 3 ? tp_assign(v, x, NULL) : x;
    tp_node *y = tp_nn_batch_norm_train(from, gamma, beta, 3, 1e-3f, false, NULL, NULL);
    *second = NULL;
    if (kind == 0) y = tp_relu(tp_stop_gradient(y));
    if (kind == 1) y = tp_relu(tp_reshape_to(y, tp_make_shape_n(4, flat)));
    if (kind == 2) y = tp_relu(y);
    if (kind == 3) *second = tp_assign(v, tp_affine(x, 3, 1), NULL); /* after the batch norm, before the convolution */
    if (kind == 2) {
        tp_gradients_from(y, y, &x, 1, &dx);
        *second = dx;
    }
    return tp_nn_conv2d(y, w, &a);
}
TEST(a_batch_norm_is_made_where_something_else_reads_it)
{
    for (int kind = 0; kind < 4; kind++) {
        double sum[2][2] = {{0, 0}, {0, 0}};
        for (int plain = 0; plain < 2; plain++) {
            tp_graph *g = tp_graph_new(NULL);
            const int64_t size[4] = {2, 8, 16, 16};
            tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(4, size)), *fetch[2];
            fetch[0] = around_batch_norm(kind, g, x, &fetch[1]);
            const int n = fetch[1] ? 2 : 1;
            tp_session_config c = tp_default_session_config();
            c.no_fusion = plain != 0;
            tp_session *s = tp_session_new(g, &c);
            float *data = (float *)malloc(2 * 8 * 16 * 16 * sizeof *data);
            for (int i = 0; i < 2 * 8 * 16 * 16; i++) data[i] = tp_random_uniform(9, 0, (uint64_t)i) - 0.3f;
            tp_feed f = feed_f32(x, tp_make_shape_n(4, size), data);
            const tp_tensor *out[2] = {NULL, NULL};
            for (int i = 0; i < 3; i++) CHECK_OK(tp_session_run(s, &f, 1, fetch, n, out));
            for (int k = 0; k < n && out[k]; k++)
                for (size_t i = 0; i < (size_t)tp_tensor_size(out[k]); i++)
                    sum[plain][k] += tp_tensor_get(out[k], (int64_t)i) * (double)(i % 7 + 1);
            free(data);
            tp_session_free(s);
            tp_graph_free(g);
        }
        CHECK_MSG(sum[0][0] == sum[1][0] && sum[0][1] == sum[1][1] && sum[0][0] != 0, "case %d: %g %g, %g %g", kind,
                  sum[0][0], sum[1][0], sum[0][1], sum[1][1]);
    }
}

/* A gradient that fusion would read later than the graph does: dy in a variable, which is written before the batch norm's
 * gradient runs; statistics that are fed; a product for gradient descent of what is assigned anew before the step. */
static tp_node *read_late(int kind, tp_graph *g, tp_node *x, tp_node **second, tp_node **fed)
{
    tp_node *gamma = tp_get_variable_as(g, "gamma", TP_F32, shape1(16), tp_init_uniform(0.5f, 1.5f));
    tp_node *beta = tp_get_variable_as(g, "beta", TP_F32, shape1(16), tp_init_uniform(-0.5f, 0.5f));
    tp_node *v = tp_get_variable_as(g, "v", TP_F32, shape2(4, 16), tp_init_uniform(-1, 1)), *dx[2], *w[2];
    if (kind < 2) {
        if (kind == 0) *second = tp_assign_add(v, tp_affine(x, 3, 1), NULL);
        tp_node *y = tp_nn_batch_norm_train(x, gamma, beta, 1, 1e-3f, false, NULL, NULL), *z = tp_relu(y);
        tp_gradients_from(z, v, &x, 1, dx);
        if (kind == 1) *second = z, *fed = &y->op->out[1];
        return dx[0];
    }
    w[0] = tp_get_variable_as(g, "w0", TP_F32, shape2(16, 16), tp_init_uniform(-1, 1));
    w[1] = tp_get_variable_as(g, "w1", TP_F32, shape1(16), tp_init_uniform(-1, 1));
    tp_node *y = tp_tanh(tp_nn_bias_add(tp_matmul(tp_assign(v, x, NULL), w[0]), w[1], TP_NHWC));
    *second = tp_assign(v, tp_affine(x, 3, 1), NULL);
    tp_gradients(y, w, 2, dx);
    tp_node *step = tp_apply_gradient_descent(w, dx, 2, tp_const(g, 0.5f), NULL);
    *second = tp_with_dependencies(*second, &step, 1);
    return tp_sum(tp_read_after(w[0], step));
}
TEST(what_is_read_later_is_still_what_it_was)
{
    for (int kind = 0; kind < 3; kind++) {
        double sum[2][2] = {{0, 0}, {0, 0}};
        for (int plain = 0; plain < 2; plain++) {
            tp_graph *g = tp_graph_new(NULL);
            tp_node *x = tp_placeholder(g, "x", TP_F32, shape2(4, 16)), *fetch[2], *fed = NULL;
            fetch[0] = read_late(kind, g, x, &fetch[1], &fed);
            tp_session_config c = tp_default_session_config();
            c.no_fusion = plain != 0;
            tp_session *s = tp_session_new(g, &c);
            float data[64];
            for (int i = 0; i < 64; i++) data[i] = tp_random_uniform(9, 0, (uint64_t)i) - 0.3f;
            tp_feed f[2];
            f[0] = feed_f32(x, shape2(4, 16), data);
            if (fed) f[1] = feed_f32(fed, shape1(16), data);
            const tp_tensor *out[2] = {NULL, NULL};
            for (int i = 0; i < 3; i++) CHECK_OK(tp_session_run(s, f, fed ? 2 : 1, fetch, 2, out));
            for (int k = 0; k < 2 && out[k]; k++)
                for (int64_t i = 0; i < tp_tensor_size(out[k]); i++)
                    sum[plain][k] += tp_tensor_get(out[k], i) * (double)(i % 7 + 1);
            tp_session_free(s);
            tp_graph_free(g);
        }
        CHECK_MSG(sum[0][0] == sum[1][0] && sum[0][1] == sum[1][1] && sum[0][0] != 0, "case %d: %g %g, %g %g", kind,
                  sum[0][0], sum[1][0], sum[0][1], sum[1][1]);
    }
}

/* A NaN in a batch is in what follows it, whether or not a convolution, a product or batch norm does the ReLU itself. */
TEST(a_nan_is_not_hidden_by_fusion)
{
    static const char *const isa[2] = {NULL, "naive"};
    for (int i = 0; i < 4; i++) {
        tp_graph *g = tp_graph_new(NULL);
        const int64_t image[4] = {2, 1, 2, 16}, kernel[4] = {1, 1, 16, 4};
        tp_conv2d_attrs a;
        memset(&a, 0, sizeof a);
        tp_node *x = tp_placeholder(g, "x", TP_F32, shape2(4, 16)), *fetch[4];
        tp_node *gamma = tp_get_variable_as(g, "gamma", TP_F32, shape1(16), tp_init_ones());
        tp_node *beta = tp_get_variable_as(g, "beta", TP_F32, shape1(16), tp_init_zeros());
        tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape_n(4, kernel), tp_init_ones());
        tp_node *b = tp_get_variable_as(g, "b", TP_F32, shape1(4), tp_init_zeros());
        fetch[0] = tp_relu(tp_nn_batch_norm_train(x, gamma, beta, 1, 1e-3f, false, NULL, NULL));
        tp_gradients(fetch[0], &gamma, 1, &fetch[1]);
        fetch[2] = tp_nn_conv2d(tp_reshape_to(x, tp_make_shape_n(4, image)), w, &a);
        fetch[2] = tp_relu(tp_nn_bias_add(fetch[2], b, TP_NHWC));
        fetch[3] = tp_matmul(x, tp_reshape_to(w, shape2(16, 4)));
        fetch[3] = tp_relu(tp_nn_bias_add(fetch[3], b, TP_NHWC));
        tp_session_config c = tp_default_session_config();
        c.no_fusion = i % 2 != 0;
        c.isa = isa[i / 2];
        tp_session *s = tp_session_new(g, &c);
        float data[64];
        for (int k = 0; k < 64; k++) data[k] = k == 21 ? NAN : (float)(k % 5 - 2);
        tp_feed f = feed_f32(x, shape2(4, 16), data);
        const tp_tensor *out[4];
        if (CHECK_OK(tp_session_run(s, &f, 1, fetch, 4, out))) {
            for (int k = 0; k < 64; k++) CHECK((isnan(tp_tensor_get(out[0], k)) != 0) == (k % 16 == 5));
            for (int k = 0; k < 16; k++) CHECK((isnan(tp_tensor_get(out[1], k)) != 0) == (k == 5));
            for (int k = 0; k < 16; k++) CHECK((isnan(tp_tensor_get(out[2], k)) != 0) == (k / 4 == 1));
            for (int k = 0; k < 16; k++) CHECK((isnan(tp_tensor_get(out[3], k)) != 0) == (k / 4 == 1));
        }
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* A kernel of the user's own sees the op as it is: nothing is fused into it. */
static int own_calls;
static void own_batch_norm(const tp_call *k)
{
    const int64_t C = k->in[0].shape.dim[3], n = tp_shape_size(&k->out[0].shape);
    own_calls++;
    for (int64_t i = 0; i < n; i++)
        ((float *)k->out[0].data)[i] = ((const float *)k->in[0].data)[i] * ((const float *)k->in[1].data)[i % C];
}
TEST(a_users_kernel_is_not_fused_with)
{
    tp_device *d = tp_cpu_device_new(1, NULL);
    CHECK(d && tp_device_add_kernel(d, "batch_norm", own_batch_norm) == TP_OK);
    tp_graph *g = tp_graph_new(NULL);
    const int64_t size[4] = {2, 8, 8, 16}, kernel[4] = {3, 3, 16, 16};
    tp_conv2d_attrs a;
    memset(&a, 0, sizeof a);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(4, size)), *fetch[1];
    tp_node *one = tp_get_variable_as(g, "one", TP_F32, shape1(16), tp_init_ones());
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape_n(4, kernel), tp_init_ones());
    fetch[0] = tp_nn_conv2d(tp_nn_batch_norm_train(x, one, one, 3, 1e-3f, false, NULL, NULL), w, &a);
    tp_session_config c = tp_default_session_config();
    c.devices = &d;
    c.n_devices = 1;
    tp_session *s = tp_session_new(g, &c);
    float *data = (float *)malloc(2 * 8 * 8 * 16 * sizeof *data);
    for (int i = 0; i < 2 * 8 * 8 * 16; i++) data[i] = 0.5f;
    tp_feed f = feed_f32(x, tp_make_shape_n(4, size), data);
    const tp_tensor *out[1] = {NULL};
    CHECK_OK(tp_session_run(s, &f, 1, fetch, 1, out));
    CHECK(own_calls == 1);
    if (out[0]) CHECK_NEAR(tp_tensor_get(out[0], (3 * 8 + 3) * 16), 0.5 * 9 * 16, 1e-4, 1e-4); /* an inner pixel */
    free(data);
    tp_session_free(s);
    tp_graph_free(g);
    d->close(d);
}

TEST(fast_and_naive_agree)
{
    tp_session_config c = tp_default_session_config();
    double fast = 0, naive = 0;
    train_net(&c, 5, false, &fast);
    c.isa = "naive";
    train_net(&c, 5, false, &naive);
    CHECK_NEAR(fast, naive, 1e-4, 1e-4);
}

TEST(a_step_allocates_nothing_after_the_first)
{
    net n = build_net();
    tp_session_config c = tp_default_session_config();
    c.threads = 2;
    float data[2 * 243];
    int32_t label[2] = {1, 3};
    const int64_t in[4] = {2, 9, 9, 3};
    tp_node *fetch[2];
    const tp_tensor *out[2];
    fetch[0] = n.train, fetch[1] = n.cost;
    tp_test_fail_after(0); /* count from here on, fail nothing */
    tp_session *s = tp_session_new(n.g, &c);
    for (int k = 0; k < 2 * 243; k++) data[k] = (float)k / 500.0f;
    tp_feed f[2];
    memset(f, 0, sizeof f);
    f[0] = feed_f32(n.x, tp_make_shape_n(4, in), data);
    f[1].node = n.label;
    tp_tensor_view(&f[1].value, TP_I32, shape1(2), label);
    CHECK_OK(tp_session_run(s, f, 2, fetch, 2, out));
    const long before = (long)tp_test_alloc_count();
    for (int i = 0; i < 50; i++) CHECK_OK(tp_session_run(s, f, 2, fetch, 2, out));
    CHECK((long)tp_test_alloc_count() == before);
    CHECK(before > 0);
    tp_session_free(s);
    tp_test_alloc_reset();
    tp_graph_free(n.g);
}

TEST(a_plan_fuses_folds_and_prints_itself)
{
    net n = build_net();
    tp_session *s = tp_session_new(n.g, NULL);
    float data[243] = {0};
    int32_t label[1] = {0};
    const int64_t in[4] = {1, 9, 9, 3};
    tp_feed f[2];
    memset(f, 0, sizeof f);
    f[0] = feed_f32(n.x, tp_make_shape_n(4, in), data);
    f[1].node = n.label;
    tp_tensor_view(&f[1].value, TP_I32, shape1(1), label);
    CHECK_OK(tp_session_run(s, f, 2, &n.train, 1, NULL));
    tp_plan_info info;
    CHECK_OK(tp_exec_plan_info(tp_session_exec(s), &n.train, 1, &info));
    CHECK(info.n_fused >= 3); /* bias and ReLU of the convolution, bias of the matmul */
    CHECK(info.arena_bytes > 0 && info.flops > 1000);
    tp_buf text;
    memset(&text, 0, sizeof text);
    CHECK_OK(tp_exec_print_plan(tp_session_exec(s), &n.train, 1, &text));
    CHECK_HAS(text.data, "conv2d");
    CHECK_HAS(text.data, "apply_gradient_descent");
    tp_buf_free(&text);
    tp_session_free(s);
    tp_graph_free(n.g);
}

TEST(broadcasts_of_every_kind_in_one_chain)
{
    tp_graph *g = tp_graph_new(NULL);
    const int64_t s4[4] = {2, 3, 4, 5}, mid[4] = {1, 3, 1, 5}, outer[4] = {2, 3, 1, 1};
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(4, s4)),
            *m = tp_placeholder(g, "m", TP_F32, tp_make_shape_n(4, mid));
    tp_node *o = tp_placeholder(g, "o", TP_F32, tp_make_shape_n(4, outer)),
            *v = tp_placeholder(g, "v", TP_F32, shape1(5));
    tp_node *c = tp_placeholder(g, "c", TP_F32, scalar());
    tp_node *y = tp_add(tp_mul(tp_add(tp_add(x, m), o), v), c);
    float xd[120], md[15], od[6], vd[5], cd = 0.5f;
    for (int i = 0; i < 120; i++) xd[i] = (float)i;
    for (int i = 0; i < 15; i++) md[i] = (float)(i * i);
    for (int i = 0; i < 6; i++) od[i] = (float)(100 * i);
    for (int i = 0; i < 5; i++) vd[i] = (float)(i - 2);
    tp_feed f[5];
    f[0] = feed_f32(x, tp_make_shape_n(4, s4), xd);
    f[1] = feed_f32(m, tp_make_shape_n(4, mid), md);
    f[2] = feed_f32(o, tp_make_shape_n(4, outer), od);
    f[3] = feed_f32(v, shape1(5), vd);
    f[4] = feed_f32(c, scalar(), &cd);
    tp_session *s = tp_session_new(g, NULL);
    const tp_tensor *out = NULL;
    CHECK_OK(tp_session_run(s, f, 5, &y, 1, &out));
    for (int i = 0; out && i < 120; i++) {
        const int d3 = i % 5, d1 = i / 20 % 3, d0 = i / 60;
        CHECK_NEAR(((const float *)out->data)[i], (xd[i] + md[d1 * 5 + d3] + od[d0 * 3 + d1]) * vd[d3] + cd, 1e-3,
                   1e-6);
    }
    tp_plan_info info;
    CHECK_OK(tp_exec_plan_info(tp_session_exec(s), &y, 1, &info));
    CHECK(info.n_steps == 1);
    tp_session_free(s);
    tp_graph_free(g);
}

/* Chains over random shapes, with operands that are broadcast along any of the dimensions, of elements of 1, 4 and 8 bytes. All values are
 * small integers, so that the results are exact. */
TEST(broadcasts_of_random_shapes_in_chains)
{
    static const int64_t length[] = {1, 2, 3, 5, 8, 16, 24, 31, 40, 300, 700};
    static const tp_dtype dtypes[] = {TP_F32, TP_F64, TP_I32};
    static double values[4][40000];
    uint64_t drawn = 0;
#define DRAW(n_) ((int)(tp_random_u32(7, 0, drawn++) % (uint32_t)(n_)))
    for (int round = 0; round < 300; round++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_shape full, shape[4];
        tp_feed f[4];
        tp_node *x[4];
        memset(&full, 0, sizeof full);
        for (full.ndim = 1 + DRAW(5); full.ndim > 0;) {
            for (int d = 0; d < full.ndim; d++) full.dim[d] = length[DRAW(TP_COUNT(length))];
            if (tp_shape_size(&full) <= TP_COUNT(values[0])) break;
        }
        const bool by_turns = round % 10 == 0; /* of most dimensions every other one is broadcast */
        if (by_turns) full.ndim = TP_MAX_DIMS - DRAW(3);
        for (int d = 0; by_turns && d < full.ndim; d++) full.dim[d] = 2 + DRAW(2);
        memset(f, 0, sizeof f);
        for (int a = 0; a < 4; a++) { /* the first one is not broadcast, the last one is a condition */
            shape[a] = full;
            for (int d = 0; a > 0 && d < full.ndim; d++)
                if (by_turns ? (a + d) % 2 : DRAW(2)) shape[a].dim[d] = 1;
            char name[2] = {(char)('a' + a), 0};
            x[a] = tp_placeholder(g, name, a == 3 ? TP_BOOL : dtypes[round % 3], shape[a]);
            f[a].node = x[a];
            CHECK_OK(tp_tensor_resize(&f[a].value, x[a]->dtype, shape[a]));
            for (int64_t i = 0; i < tp_shape_size(&shape[a]); i++)
                tp_tensor_set(&f[a].value, i, values[a][i] = a == 3 ? DRAW(2) : DRAW(99) - 49);
        }
        tp_node *y = tp_select(x[3], tp_add(tp_mul(x[0], x[1]), x[2]), tp_sub(x[1], x[0]));
        tp_session_config c;
        memset(&c, 0, sizeof c);
        c.threads = 1 + round % 2;
        tp_session *s = tp_session_new(g, &c);
        const tp_tensor *out = NULL;
        CHECK_OK(tp_session_run(s, f, 4, &y, 1, &out));
        int64_t wrong = 0;
        for (int64_t i = 0; out && i < tp_tensor_size(out); i++) {
            double v[4];
            for (int a = 0; a < 4; a++) {
                int64_t at = 0, rest = i, stride = 1;
                for (int d = full.ndim - 1; d >= 0; d--) {
                    if (shape[a].dim[d] > 1) at += rest % full.dim[d] * stride;
                    stride *= shape[a].dim[d];
                    rest /= full.dim[d];
                }
                v[a] = values[a][at];
            }
            wrong += tp_tensor_get(out, i) != (v[3] != 0 ? v[0] * v[1] + v[2] : v[1] - v[0]);
        }
        char text[2][TP_SHAPE_TEXT];
        CHECK_MSG(out && wrong == 0, "round %d, %s by %s: %d are wrong", round, tp_shape_text(&full, text[0]),
                  tp_shape_text(&shape[1], text[1]), (int)wrong);
        tp_session_free(s);
        tp_graph_free(g);
        for (int a = 0; a < 4; a++) tp_tensor_free(&f[a].value);
    }
#undef DRAW
}

/* Rows of doubles that are repeated in each block of a chain end where the block ends; the scalar beside them is filled in once. */
TEST(repeated_rows_of_doubles_beside_a_scalar)
{
    tp_graph *g = tp_graph_new(NULL);
    const tp_shape shape[3] = {tp_make_shape(8, 100, 3), tp_make_shape(8, 1, 3), scalar()};
    tp_node *x[3];
    tp_feed f[3];
    memset(f, 0, sizeof f);
    for (int a = 0; a < 3; a++) {
        const char name[2] = {(char)('a' + a), 0};
        f[a].node = x[a] = tp_placeholder(g, name, TP_F64, shape[a]);
        CHECK_OK(tp_tensor_resize(&f[a].value, TP_F64, shape[a]));
        for (int64_t i = 0; i < tp_shape_size(&shape[a]); i++) tp_tensor_set(&f[a].value, i, (double)(i % 97 + 2));
    }
    tp_node *y = tp_mul(tp_add(x[0], x[1]), x[2]);
    tp_session *s = tp_session_new(g, NULL);
    const tp_tensor *out = NULL;
    int wrong = 0;
    CHECK_OK(tp_session_run(s, f, 3, &y, 1, &out));
    for (int i = 0; out && i < 2400; i++)
        wrong += tp_tensor_get(out, i) != 2.0 * (i % 97 + 2 + i / 300 * 3 + i % 3 + 2);
    CHECK_MSG(out && wrong == 0, "%d are wrong", wrong);
    tp_session_free(s);
    tp_graph_free(g);
    for (int a = 0; a < 3; a++) tp_tensor_free(&f[a].value);
}

TEST(initial_values_are_a_function_of_the_name)
{
    tp_graph *g = tp_graph_new(NULL), *h = tp_graph_new(NULL);
    tp_get_variable_as(h, "other", TP_F32, shape1(7), tp_init_normal(0, 1));
    tp_node *a = tp_get_variable_as(g, "W", TP_F32, shape2(60, 50),
                                    tp_init_variance_scaling(2, TP_FAN_OUT, TP_DIST_TRUNCATED_NORMAL));
    tp_node *b = tp_get_variable_as(h, "W", TP_F32, shape2(60, 50),
                                    tp_init_variance_scaling(2, TP_FAN_OUT, TP_DIST_TRUNCATED_NORMAL));
    tp_session *s = tp_session_new(g, NULL), *t = tp_session_new(h, NULL);
    tp_tensor x, y;
    memset(&x, 0, sizeof x);
    memset(&y, 0, sizeof y);
    CHECK_OK(tp_session_eval(s, a, &x));
    CHECK_OK(tp_session_eval(t, b, &y));
    CHECK(memcmp(x.data, y.data, tp_tensor_bytes(&x)) == 0);
    double sum = 0, sq = 0, most = 0;
    for (int i = 0; i < 3000; i++) {
        const double v = tp_tensor_get(&x, i);
        sum += v;
        sq += v * v;
        if (fabs(v) > most) most = fabs(v);
    }
    const double std = sqrt(2.0 / 50);
    CHECK_NEAR(sqrt(sq / 3000), std, 0.04 * std, 0);
    CHECK_NEAR(sum / 3000, 0, 4 * std / sqrt(3000.0), 0);
    CHECK(most <= 2 * std / .87962566103423978 * 1.000001);
    tp_tensor_free(&x);
    tp_tensor_free(&y);
    tp_session_free(s);
    tp_session_free(t);
    tp_graph_free(g);
    tp_graph_free(h);
}

static tp_node *tower_body(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    tp_variable_scope_desc d;
    memset(&d, 0, sizeof d);
    d.name = "fc";
    tp_variable_scope_push(g, &d);
    tp_node *y = tp_named(tp_matmul(in[0], tp_get_variable_as(g, "W", TP_F32, shape2(2, 2), tp_init_ones())), "output");
    tp_variable_scope_pop(g);
    tp_node *cost = tp_named(tp_sum(y), "cost");
    tp_add_moving_summary_n(&cost, 1, NULL);
    tp_collection_add(g, TP_KEY_UPDATE_OPS, cost);
    return cost;
}

static tp_node *same_again(tp_graph *g, tp_node *const *in, void *user) { return (void)g, (void)user, in[0]; }

/* Many calls, of which one finds no memory: it gives the poison of its graph, whichever allocation fails. */
TEST(a_tower_is_called_where_memory_runs_out)
{
    enum { CALLS = 200 };
    int failures = 0;
    for (long n = 1, failed = 1; failed && n < 1000; n++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_spec spec = {"x", TP_F32, {0, {0}}};
        tp_node *x = tp_placeholder(g, "x", TP_F32, spec.shape), *y = x;
        tp_tower_func *f = tp_tower_func_new(g, same_again, NULL, &spec, 1);
        tp_tower_desc d;
        memset(&d, 0, sizeof d);
        CHECK(tp_tower_enter(g, &d) != NULL);
        tp_test_fail_after(n);
        int calls = 0;
        while (y == x && calls < CALLS) y = tp_tower_func_call(f, &x), calls++;
        failed = tp_test_alloc_failed();
        if (failed) {
            CHECK(y == tp_poison(g) && tp_graph_status(g) == TP_ERR_NOMEM);
            CHECK(tp_tower_func_n_towers(f) == calls - 1);
            failures++;
        } else {
            CHECK(y == x && calls == CALLS && tp_tower_func_n_towers(f) == CALLS);
        }
        tp_tower_leave(g);
        tp_graph_free(g);
    }
    tp_test_alloc_reset();
    CHECK_MSG(failures > 3, "%d failures", failures);
}

TEST(towers_share_variables_and_keep_their_own_names)
{
    tp_graph *g = tp_graph_new(NULL);
    const int64_t d2[2] = {TP_ANY, 2};
    tp_spec spec = {"x", TP_F32, {0, {0}}};
    spec.shape = tp_make_shape_n(2, d2);
    tp_node *x = tp_placeholder(g, "x", TP_F32, spec.shape);
    tp_tower_func *f = tp_tower_func_new(g, tower_body, NULL, &spec, 1);
    tp_tower_desc d;
    memset(&d, 0, sizeof d);
    d.is_training = true;
    const tp_tower_context *t = tp_tower_enter(g, &d);
    CHECK(t && t->is_main_training_tower && t->has_own_variables);
    CHECK(tp_current_tower_context(g) == t);
    tp_tower_func_call(f, &x);
    tp_tower_leave(g);
    int summaries = 0, updates = 0, after = 0;
    tp_collection(g, TP_KEY_SUMMARIES, &summaries);
    tp_collection(g, TP_KEY_UPDATE_OPS, &updates);
    CHECK(summaries == 1 && updates == 1);
    tp_variable_scope_desc reuse;
    memset(&reuse, 0, sizeof reuse);
    reuse.reuse = TP_REUSE_YES;
    tp_variable_scope_push(g, &reuse);
    d.is_training = false;
    d.name = "InferenceTower";
    t = tp_tower_enter(g, &d);
    CHECK(t && !t->has_own_variables && !t->is_training);
    tp_tower_func_call(f, &x);
    tp_tower_leave(g);
    tp_variable_scope_pop(g);
    tp_collection(g, TP_KEY_UPDATE_OPS, &after);
    CHECK(after == updates);
    CHECK(tp_tower_func_n_towers(f) == 2);
    const tp_tower_handle *h = tp_tower_func_find(f, "InferenceTower");
    CHECK(h != NULL);
    CHECK(h && tp_tower_handle_get(h, "fc/output") == tp_graph_find(g, "InferenceTower/fc/output"));
    CHECK(h && tp_tower_handle_get(h, "x") == x);
    CHECK(h && tp_tower_handle_get(h, "fc/W") == tp_find_variable(g, "fc/W")->node);
    const tp_tower_handles all = tp_tower_func_towers(f, TP_TOWERS_ALL),
                           training = tp_tower_func_towers(f, TP_TOWERS_TRAINING),
                           inference = tp_tower_func_towers(f, TP_TOWERS_INFERENCE);
    CHECK(tp_tower_handles_n(all) == 2 && tp_tower_handles_n(training) == 1 && tp_tower_handles_n(inference) == 1);
    CHECK(tp_tower_handles_at(inference, 0) == h && tp_tower_handles_at(training, 0) == tp_tower_handles_at(all, 0));
    CHECK(tp_tower_handles_at(training, 1) == NULL && tp_tower_handles_at(all, -1) == NULL);
    CHECK(tp_tower_handles_find(all, "InferenceTower") == h && !tp_tower_handles_find(training, "InferenceTower"));
    CHECK(h && !h->ctx.is_training && tp_tower_handles_at(training, 0)->ctx.is_training);
    CHECK(tp_graph_n_variables(g) == 3); /* W and two of the moving summary */
    CHECK(tp_graph_status(g) == TP_OK);
    tp_graph_free(g);
}

TEST(checkpoints_come_back)
{
    char path[1024], dir[900];
    snprintf(dir, sizeof dir, "%s", tp_test_tmpdir());
    snprintf(path, sizeof path, "%s/model-7.npz", dir);
    tp_graph *g = tp_graph_new(NULL);
    tp_node *w = tp_get_variable_as(g, "conv0/W", TP_F32, shape2(3, 4), tp_init_normal(0, 1));
    tp_node *step = tp_get_global_step_var(g);
    tp_session *s = tp_session_new(g, NULL), *t = tp_session_new(g, NULL);
    tp_node *bump = tp_assign_add(step, tp_const_as(g, TP_I64, 7), NULL),
            *twice = tp_assign(w, tp_affine(w, 2, 0), NULL);
    tp_node *both[2];
    both[0] = bump, both[1] = twice;
    CHECK_OK(tp_session_run(s, NULL, 0, both, 2, NULL));
    tp_tensor a, b;
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    tp_tensor *state = tp_dict_add(tp_session_state(s), "tp:random_step");
    CHECK_OK(tp_tensor_resize(state, TP_I64, scalar()));
    tp_tensor_set(state, 0, 99);
    CHECK_OK(tp_save_checkpoint(s, path, NULL, 0));
    const char *names[2] = {"model-3", "model-7"};
    CHECK_OK(tp_checkpoint_state_write(dir, names, 2));
    char latest[1200];
    CHECK_OK(tp_checkpoint_state_latest(dir, latest, sizeof latest));
    CHECK_HAS(latest, "/model-7");
    snprintf(path, sizeof path, "%s/checkpoint", dir);
    tp_session_init *init = tp_saver_restore(path);
    CHECK_OK(tp_session_init_run(init, t));
    tp_session_init_free(init);
    CHECK_OK(tp_session_eval(s, w, &a));
    CHECK_OK(tp_session_eval(t, w, &b));
    CHECK(memcmp(a.data, b.data, tp_tensor_bytes(&a)) == 0);
    tp_test_fail_after(0);
    CHECK(tp_get_global_step_value(t) == 7 && tp_get_global_step_value(s) == 7);
    CHECK(tp_test_live_blocks() == 0); /* asking keeps nothing */
    tp_test_alloc_reset();
    const tp_tensor *back = tp_dict_find(tp_session_state(t), "tp:random_step");
    CHECK(back && tp_tensor_get(back, 0) == 99);
    tp_checkpoint_entry *e = NULL;
    int n = 0;
    CHECK_OK(tp_get_all_checkpoints(dir, "model", &e, &n));
    CHECK(n == 1 && e && e[0].step == 7);
    tp_free(e);
    init = tp_saver_restore("/nowhere/model-1");
    CHECK_ERR(tp_session_init_run(init, t), TP_ERR_NAME,
              "there is no checkpoint '/nowhere/model-1', also not with .npz, .index or .safetensors at its end");
    tp_session_init_free(init);
    init = tp_saver_restore("/nowhere/model-1.npz"); /* what has its end needs no other one */
    CHECK_ERR(tp_session_init_run(init, t), TP_ERR_NAME, "there is no checkpoint '/nowhere/model-1.npz'");
    CHECK(!strstr(tp_last_error(), "at its end"));
    tp_session_init_free(init);
    tp_tensor_free(&a);
    tp_tensor_free(&b);
    tp_session_free(s);
    tp_session_free(t);
    tp_graph_free(g);
}

TEST(hooks_run_in_order_with_the_step)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, scalar()), *y = tp_square(x);
    tp_session *s = tp_session_new(g, NULL);
    tp_hooked_session *h = tp_hooked_session_new(s, NULL, 0);
    CHECK_ERR(tp_hooked_run(h, &y, 1, NULL), TP_ERR_ARG, "must be fed");
    tp_hooked_session_free(h);
    tp_session_free(s);
    tp_graph_free(g);
}

static tp_status everything_once(void)
{
    net n;
    const int64_t in[4] = {2, 9, 9, 3};
    static float data[2 * 243];
    int32_t label[2] = {1, 3};
    n = build_net();
    tp_status st = n.g ? TP_OK : TP_ERR_NOMEM;
    tp_session_config c = tp_default_session_config();
    c.threads = 1;
    tp_session *s = n.g ? tp_session_new(n.g, &c) : NULL;
    if (st == TP_OK && !s) st = TP_ERR_NOMEM;
    if (s) {
        tp_feed f[2];
        memset(f, 0, sizeof f);
        f[0] = feed_f32(n.x, tp_make_shape_n(4, in), data);
        f[1].node = n.label;
        tp_tensor_view(&f[1].value, TP_I32, shape1(2), label);
        st = tp_session_run(s, f, 2, &n.train, 1, NULL);
    }
    tp_session_free(s);
    tp_graph_free(n.g);
    return st;
}

TEST(collections_are_backed_up_and_restored)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *a = tp_const(g, 1), *b = tp_const(g, 2);
    const char *keys[1] = {"mine"};
    int n = 0;
    tp_collection_add(g, "mine", a);
    tp_collection_backup *backup = tp_backup_collection(g, keys, 1), *all = tp_backup_collection(g, NULL, 0);
    tp_collection_add(g, "mine", b);
    tp_collection_add(g, "other", b);
    tp_restore_collection(g, backup);
    tp_node *const *mine = tp_collection(g, "mine", &n);
    CHECK(n == 1 && mine[0] == a);
    tp_collection(g, "other", &n);
    CHECK(n == 1); /* not in the backup: untouched */
    tp_restore_collection(g, all);
    tp_collection(g, "mine", &n);
    CHECK(n == 1);
    tp_collection(g, "other", &n);
    CHECK(n == 0); /* came after it */
    tp_graph_free(g);
}

TEST(cached_scopes_are_entered_again)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_name_scope_push(g, "a");
    tp_cached_name_scope_push(g, "s", false);
    CHECK_STR(tp_name_scope(g), "a/s");
    tp_name_scope_pop(g);
    CHECK(tp_cached_name_scope_push(g, "s", false) == g);
    CHECK_STR(tp_name_scope(g), "a/s");
    tp_name_scope_pop(g);
    tp_cached_name_scope_push(g, "s", true);
    CHECK_STR(tp_name_scope(g), "s");
    tp_name_scope_pop(g);
    tp_name_scope_pop(g);
    tp_name_scope_push(g, "a/");
    CHECK_STR(tp_name_scope(g), "a");
    tp_name_scope_pop(g);
    CHECK(tp_graph_status(g) == TP_OK);
    tp_graph_free(g);
}

static tp_node *doubled(tp_getter_call *call, tp_variable_desc *d, void *user)
{
    ++*(int *)user;
    return tp_affine(tp_getter_next(call, d), 2, 0);
}
TEST(getters_wrap_variables)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_variable_scope_desc d;
    int called = 0;
    memset(&d, 0, sizeof d);
    d.getter = doubled;
    d.getter_user = &called;
    tp_variable_scope_push(g, &d);
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, scalar(), tp_init_constant(3));
    tp_variable_scope_pop(g);
    tp_session *s = tp_session_new(g, NULL);
    CHECK(called == 1 && tp_node_variable(w) == NULL && tp_find_variable(g, "w") != NULL);
    CHECK_NEAR(value_at(s, w, 0), 6, 0, 0);
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(dependencies_are_found)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *a = tp_const(g, 1), *b = tp_const(g, 2), *c = tp_add(a, a), *d = tp_with_dependencies(c, &b, 1);
    CHECK(tp_depends_on(&c, 1, a->op));
    CHECK(tp_depends_on(&c, 1, c->op));
    CHECK(!tp_depends_on(&c, 1, b->op));
    CHECK(tp_depends_on(&d, 1, b->op)); /* through a control edge */
    tp_graph *small = tp_graph_new(NULL);
    tp_node *only = tp_const(small, 1); /* nothing of another graph depends on it */
    CHECK(!tp_depends_on(&d, 1, only->op));
    tp_graph_free(small);
    tp_graph_free(g);
}

/* ==== functions that share, scopes that rename ========================================================= */

static tp_node *shared_weight(tp_graph *g)
{
    tp_auto_reuse_variable_scope_push(g, "shared_weight");
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, scalar(), tp_init_ones());
    tp_variable_scope_pop(g);
    return w;
}
TEST(a_function_reuses_what_it_made_in_this_scope)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *a = shared_weight(g), *b = shared_weight(g);
    tp_under_variable_scope_push(g, "other");
    CHECK_STR(tp_variable_scope(g), "other");
    CHECK_STR(tp_name_scope(g), "other");
    tp_node *c = shared_weight(g), *d = shared_weight(g); /* another outer scope: other weights */
    tp_variable_scope_pop(g);
    CHECK(a == b && c == d && a != c);
    CHECK_STR(tp_node_name(a), "w");
    CHECK_STR(tp_node_name(c), "other/w");
    CHECK(shared_weight(g) == a);
    CHECK(tp_graph_status(g) == TP_OK);
    tp_graph_free(g);
}

TEST(a_function_runs_under_a_name)
{
    tp_test_keep_log();
    tp_graph *g = tp_graph_new(NULL);
    tp_under_name_scope_push(g, "rms", NULL);
    CHECK_STR(tp_name_scope(g), "rms");
    tp_name_scope_pop(g);
    tp_under_name_scope_push(g, "rms", NULL); /* a fresh one each time */
    CHECK_STR(tp_name_scope(g), "rms_1");
    tp_name_scope_pop(g);
    for (int i = 0; i < 2; i++) { /* named by the caller: the same one each time */
        tp_under_name_scope_push(g, "rms", "mine");
        CHECK_STR(tp_name_scope(g), "mine");
        tp_name_scope_pop(g);
    }
    CHECK_STR(tp_test_logged, "");
    tp_named(tp_const(g, 1), "taken");
    tp_under_name_scope_push(g, "rms", "taken");
    CHECK_STR(tp_name_scope(g), "taken_1");
    tp_name_scope_pop(g);
    CHECK_HAS(tp_test_logged, "name scope 'taken' is taken: rms runs in 'taken_1'");
    tp_set_log(NULL, NULL);
    tp_graph_free(g);
}

static tp_node *quantised(tp_node *var, void *user) /* of weights only, as DoReFa does */
{
    ++*(int *)user;
    const char *name = tp_node_name(var), *slash = strrchr(name, '/');
    if (strcmp(slash ? slash + 1 : name, "W") != 0) return var;
    /* the value of the rounded weight, the gradient of the weight itself */
    return tp_add(var, tp_stop_gradient(tp_sub(tp_affine(tp_round(tp_affine(var, 4, 0)), 0.25f, 0), var)));
}
TEST(a_quantised_network_by_remapped_variables)
{
    tp_graph *g = tp_graph_new(NULL);
    int asked = 0;
    tp_remap_variables_push(g, quantised, &asked);
    tp_variable_scope_desc d;
    memset(&d, 0, sizeof d);
    d.name = "fc";
    tp_variable_scope_push(g, &d);
    tp_node *w = tp_get_variable_as(g, "W", TP_F32, scalar(), tp_init_constant(0.8f));
    tp_node *b = tp_get_variable_as(g, "b", TP_F32, scalar(), tp_init_constant(0.8f));
    tp_variable_scope_pop(g);
    tp_variable_scope_pop(g);
    CHECK(asked == 2 && tp_node_variable(b) && !tp_node_variable(w));
    tp_variable *var = tp_find_variable(g, "fc/W");
    CHECK(var && var->trainable);
    tp_node *dw = NULL, *y = tp_add(tp_mul(w, tp_const(g, 3)), b);
    if (var) tp_gradients(y, &var->node, 1, &dw);
    tp_session *s = tp_session_new(g, NULL);
    CHECK_NEAR(value_at(s, w, 0), 0.75, 1e-7, 0);
    CHECK_NEAR(value_at(s, b, 0), 0.8, 1e-7, 0);
    CHECK(dw != NULL);
    if (dw) CHECK_NEAR(value_at(s, dw, 0), 3, 0, 0); /* straight through the rounding */
    CHECK(tp_graph_status(g) == TP_OK);
    tp_session_free(s);
    tp_graph_free(g);
}

static bool in_collection(tp_graph *g, const char *key, const char *variable)
{
    int n = 0;
    tp_node *const *item = tp_collection(g, key, &n);
    for (int i = 0; i < n; i++)
        if (strcmp(tp_node_name(item[i]), variable) == 0) return true;
    return false;
}
TEST(variables_are_frozen_in_two_ways)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_variable_desc d;
    memset(&d, 0, sizeof d);
    d.shape = scalar();
    d.init = tp_init_constant(2);
    CHECK(tp_freeze_variables_push(g, true, false) == g);
    d.name = "stopped";
    tp_node *stopped = tp_get_variable(g, &d);
    tp_variable_scope_pop(g);
    CHECK(tp_freeze_variables_push(g, false, true) == g);
    d.name = "skipped";
    tp_node *skipped = tp_get_variable(g, &d);
    d.name = "statistic";
    d.trainable = TP_NO;
    tp_node *statistic = tp_get_variable(g, &d);
    tp_variable_scope_pop(g);
    CHECK(tp_freeze_variables_push(g, true, true) == g);
    d.name = "both";
    d.trainable = TP_UNSET;
    tp_node *both = tp_get_variable(g, &d);
    tp_variable_scope_pop(g);
    /* stop_gradient: no gradient, still in the collection of what is trained */
    CHECK_STR(tp_node_name(stopped), "freezed_stopped");
    CHECK(in_collection(g, TP_KEY_TRAINABLE_VARIABLES, "stopped") &&
          !in_collection(g, TP_KEY_MODEL_VARIABLES, "stopped"));
    /* skip_collection: the other way round, and there is a gradient to who asks */
    CHECK(tp_node_variable(skipped) && !in_collection(g, TP_KEY_TRAINABLE_VARIABLES, "skipped"));
    CHECK(in_collection(g, TP_KEY_MODEL_VARIABLES, "skipped") && in_collection(g, TP_KEY_GLOBAL_VARIABLES, "skipped"));
    /* what was not trained anyway is left alone */
    CHECK(tp_node_variable(statistic) && !in_collection(g, TP_KEY_MODEL_VARIABLES, "statistic"));
    CHECK(!tp_node_variable(both) && in_collection(g, TP_KEY_MODEL_VARIABLES, "both"));
    /* a variable that was there before stays as it is */
    d.name = "before";
    tp_node *before = tp_get_variable(g, &d);
    tp_variable_scope_desc reuse;
    memset(&reuse, 0, sizeof reuse);
    reuse.reuse = TP_REUSE_AUTO;
    tp_variable_scope_push(g, &reuse);
    tp_freeze_variables_push(g, false, true);
    CHECK(tp_get_variable(g, &d) == before);
    tp_variable_scope_pop(g);
    tp_variable_scope_pop(g);
    CHECK(in_collection(g, TP_KEY_TRAINABLE_VARIABLES, "before") &&
          !in_collection(g, TP_KEY_MODEL_VARIABLES, "before"));
    tp_node *y = tp_add(tp_add(stopped, skipped), both), *vars[3], *dy[3];
    static const char *const names[3] = {"stopped", "skipped", "both"};
    for (int i = 0; i < 3; i++) vars[i] = tp_find_variable(g, names[i])->node;
    tp_gradients(y, vars, 3, dy);
    CHECK(!dy[0] && dy[1] && !dy[2]);
    tp_session *s = tp_session_new(g, NULL);
    CHECK_NEAR(value_at(s, y, 0), 6, 0, 0);
    CHECK(tp_graph_status(g) == TP_OK);
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(frozen_collections_and_fetches)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *a = tp_const(g, 1), *b = tp_const(g, 2), *c = tp_add(a, a);
    int n = 0;
    tp_collection_add(g, TP_KEY_SUMMARIES, a);
#ifdef __cplusplus /* which has no compound literals */
    const char *const kept[] = {TP_KEY_SUMMARIES, "other"};
    TP_FREEZE_COLLECTION(g, kept, 2)
#else
    TP_FREEZE_COLLECTION(g, (const char *const[]){TP_KEY_SUMMARIES, "other"}, 2)
#endif
    {
        tp_collection_add(g, TP_KEY_SUMMARIES, b);
        tp_collection_add(g, TP_KEY_UPDATE_OPS, b);
        tp_collection(g, TP_KEY_SUMMARIES, &n);
        CHECK(n == 2);
    }
    tp_collection(g, TP_KEY_SUMMARIES, &n);
    CHECK(n == 1);
    tp_collection(g, TP_KEY_UPDATE_OPS, &n);
    CHECK(n == 1);
    TP_FREEZE_COLLECTION(g, NULL, 0)
    {
        tp_collection_add(g, TP_KEY_SUMMARIES, b);
        tp_collection_add(g, "made inside", b);
    }
    tp_collection(g, TP_KEY_SUMMARIES, &n);
    CHECK(n == 1);
    tp_collection(g, "made inside", &n);
    CHECK(n == 0);
    tp_node *const *lists[2] = {&b, &c};
    const int counts[2] = {1, 1};
    CHECK(tp_dependency_of_fetches(lists, counts, 2, a->op) && tp_dependency_of_fetches(lists, counts, 2, b->op));
    CHECK(!tp_dependency_of_fetches(lists, counts, 1, a->op));
    tp_node *later = tp_add(c, b); /* newer than the answer that is kept */
    CHECK(!tp_depends_on(&b, 1, later->op) && tp_depends_on(&later, 1, a->op));
    tp_graph_free(g);
}

static tp_session *count_session(tp_session *s, void *user)
{
    ++*(int *)user;
    return s;
}
static tp_session *refuse_session(tp_session *s, void *user)
{
    (void)user;
    tp_session_free(s);
    tp_fail(TP_ERR, "refused");
    return NULL;
}
TEST(session_creators_are_adapted)
{
    tp_graph *g = tp_graph_new(NULL);
    int made = 0;
    tp_node *x = tp_const(g, 4);
    tp_session_adapter a = {tp_new_session_creator(NULL), count_session, &made},
                       no = {tp_new_session_creator(NULL), refuse_session, NULL};
    tp_session_creator c = tp_session_creator_adapter(&a), refusing = tp_session_creator_adapter(&no);
    tp_session *s = c.create(&c, g);
    CHECK(made == 1 && s != NULL);
    if (s) CHECK_NEAR(value_at(s, x, 0), 4, 0, 0);
    CHECK(refusing.create(&refusing, g) == NULL);
    CHECK_STR(tp_last_error(), "refused");
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(activations_are_summarised)
{
    tp_test_keep_log();
    tp_graph *g = tp_graph_new(NULL);
    const int64_t dims[2] = {TP_ANY, 3};
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(2, dims)), *y = tp_named(tp_relu(x), "relu");
    tp_add_activation_summary(y, 0, NULL, NULL);
    tp_add_activation_summary(tp_const(g, 1), 0, NULL, NULL);
    int n = 0, seen = 0;
    tp_node *const *summary = tp_collection(g, TP_KEY_SUMMARIES, &n);
    CHECK(n == 3);
    static const char *const tags[3] = {"activation-summary/relu-histogram", "activation-summary/relu-sparsity",
                                        "activation-summary/relu-rms"};
    for (int i = 0; i < n; i++)
        for (int k = 0; k < 3; k++) {
            const tp_summary_attrs *info = tp_summary_info(summary[i]);
            seen += info && strcmp(info->tag, tags[k]) == 0;
            CHECK(strncmp(tp_node_name(summary[i]), "activation-summary/", 19) == 0);
        }
    CHECK(seen == 3);
    CHECK_HAS(tp_test_logged, "Cannot summarize scalar activation");
    CHECK(tp_graph_status(g) == TP_OK);
    tp_set_log(NULL, NULL);
    tp_graph_free(g);
}

TEST(a_graph_is_drawn)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, scalar(), tp_init_ones()), *one = tp_named(tp_const(g, 1), "one");
    tp_node *y = tp_named(tp_add(w, one), "sum"), *after = tp_with_dependencies(y, &one, 1);
    tp_node *write = tp_assign(w, y, NULL);
    tp_buf all, part;
    memset(&all, 0, sizeof all);
    memset(&part, 0, sizeof part);
    tp_graph_to_dot(g, NULL, 0, &all);
    tp_graph_to_dot(g, &y, 1, &part);
    CHECK(after != NULL && write != NULL && !all.failed && !part.failed);
    CHECK_HAS(all.data, "digraph tp {");
    CHECK_HAS(all.data, "label=\"w\\nvariable ()\", shape=cylinder");
    CHECK_HAS(all.data, "style=dotted");
    CHECK_HAS(all.data, "style=dashed, dir=back");
    CHECK_HAS(part.data, "label=\"sum\\n");
    CHECK(strstr(part.data, "assign") == NULL && strstr(part.data, "dotted") == NULL);
    int opened = 0, boxes = 0;
    for (const char *p = all.data; *p; p++) opened += *p == '{' ? 1 : *p == '}' ? -1 : 0, boxes += *p == '\n';
    CHECK(opened == 0 && boxes > tp_graph_n_operations(g));
    tp_buf_free(&all);
    tp_buf_free(&part);
    tp_graph_free(g);
}

static tp_node *rate_in(tp_graph *g, const char *scope, int reuse, float value)
{
    tp_variable_scope_desc d;
    memset(&d, 0, sizeof d);
    d.name = scope;
    d.reuse = reuse;
    tp_variable_scope_push(g, &d);
    tp_node *n = tp_get_scalar_variable(g, "learning_rate", value);
    tp_variable_scope_pop(g);
    return n;
}

TEST(scalar_variables_live_in_variable_scopes)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *gen = rate_in(g, "gen", 0, 0.25f), *dis = rate_in(g, "dis", 0, 0.5f);
    tp_node *root = tp_get_scalar_variable(g, "learning_rate", 0.125f);
    CHECK_STR(tp_node_name(gen), "gen/learning_rate");
    CHECK_STR(tp_node_name(dis), "dis/learning_rate");
    CHECK_STR(tp_node_name(root), "learning_rate");
    CHECK(!tp_node_variable(gen)->trainable && !tp_node_variable(gen)->local);
    CHECK(rate_in(g, "gen", TP_REUSE_YES, 0.25f) == gen);
    CHECK(rate_in(g, "dis", TP_REUSE_AUTO, 0.5f) == dis);
    CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g));
    tp_session *s = tp_session_new(g, NULL);
    CHECK_NEAR(value_at(s, gen, 0), 0.25, 0, 0);
    CHECK_NEAR(value_at(s, dis, 0), 0.5, 0, 0);
    CHECK_NEAR(value_at(s, root, 0), 0.125, 0, 0);
    tp_session_free(s);
    CHECK(tp_is_poison(rate_in(g, "gen", TP_REUSE_YES, 1)));
    CHECK_HAS(tp_graph_error(g), "scalar variable 'gen/learning_rate' exists with another initial value than 1");
    tp_graph_free(g);
    g = tp_graph_new(NULL);
    tp_get_scalar_variable(g, "learning_rate", 1);
    CHECK(tp_is_poison(tp_get_scalar_variable(g, "learning_rate", 1)));
    CHECK_HAS(tp_graph_error(g), "variable 'learning_rate' exists already");
    tp_graph_free(g);
}

static const char *meant(const char *wanted, const char *const *names, int n)
{
    static char text[512];
    tp_graph *g = tp_graph_new(NULL);
    tp_variable_scope_desc d;
    memset(&d, 0, sizeof d);
    d.reuse = TP_REUSE_YES;
    for (int i = 0; i < n; i++) tp_get_variable_as(g, names[i], TP_F32, scalar(), tp_init_zeros());
    CHECK(tp_graph_status(g) == TP_OK);
    tp_variable_scope_push(g, &d);
    CHECK(tp_is_poison(tp_get_variable_as(g, wanted, TP_F32, scalar(), tp_init_zeros())));
    const char *at = strstr(tp_graph_error(g), "; did");
    snprintf(text, sizeof text, "%s", at ? at : "nothing");
    tp_graph_free(g);
    return text;
}

TEST(a_misspelled_name_is_guessed)
{
    static const char *const names[] = {"conv0/W",       "conv1/W", "conv0/b", "fully_connected/kernel",
                                        "learning_rate", "x"};
    CHECK_STR(meant("conv0/w", names, 6), "; did you mean 'conv0/W'?");
    CHECK_STR(meant("conv2/b", names, 6), "; did you mean 'conv0/b'?");
    CHECK_STR(meant("learning_rat", names, 6), "; did you mean 'learning_rate'?");
    CHECK_STR(meant("lerning_rate", names, 6), "; did you mean 'learning_rate'?");
    CHECK_STR(meant("leanring_rate", names, 6), "; did you mean 'learning_rate'?");
    CHECK_STR(meant("kernel", names, 6), "; did you mean 'fully_connected/kernel'?");
    CHECK_STR(meant("tower0/learning_rate", names, 6), "; did you mean 'learning_rate'?");
    CHECK_STR(meant("cost", names, 6), "nothing");
    CHECK_STR(meant("ernel", names, 6), "nothing"); /* no whole part */
    CHECK_STR(meant("y", names, 6), "; did you mean 'x'?");
    CHECK_STR(meant("conv0/W/Adam", names, 0), "nothing");
    char longer[300];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    CHECK_STR(meant(longer, names, 6), "nothing");
    /* names of up to 127 characters are compared */
    static const int lengths[][2] = {{127, 127}, {127, 128}, {128, 127}, {128, 128}};
    for (int i = 0; i < TP_COUNT(lengths); i++) {
        char wanted[130], name[130], want[200];
        memset(wanted, 'a', sizeof wanted);
        memset(name, 'a', sizeof name);
        wanted[0] = 'b';
        wanted[lengths[i][0]] = name[lengths[i][1]] = 0;
        const char *const one = name;
        snprintf(want, sizeof want, "; did you mean '%s'?", name);
        CHECK_STR(meant(wanted, &one, 1), i == 0 ? want : "nothing");
    }
}

TEST(tags_have_their_name_scope)
{
    static const char *const tags[] = {"x-summary",         "mysummaries/x-summary", "a/x-mean", "b/x-mean",
                                       "b/x-mean_1",        "tower0/x-image",        "a/x",      "a/EMA_of-summary",
                                       "a/EMA_of-summary_1"};
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_named(tp_const(g, 2), "x"), *picture = tp_placeholder(g, "picture", TP_F32, shape4(1, 2, 2, 3));
    int n = 0;
    tp_add_tensor_summary(x, TP_SUMMARY_SCALAR, NULL, NULL);
    tp_name_scope_push(g, "mysummaries");
    tp_add_tensor_summary(x, TP_SUMMARY_SCALAR, "x", NULL);
    tp_name_scope_pop(g);
    tp_name_scope_push(g, "a");
    tp_add_tensor_summary(x, TP_SUMMARY_MEAN, "x", NULL);
    tp_name_scope_pop(g);
    tp_name_scope_push(g, "b");
    for (int i = 0; i < 2; i++) tp_add_tensor_summary(x, TP_SUMMARY_MEAN, "x", NULL);
    tp_name_scope_pop(g);
    tp_name_scope_push(g, "tower0");
    tp_add_tensor_summary(picture, TP_SUMMARY_IMAGE, "x-image", NULL);
    tp_name_scope_pop(g);
    tp_name_scope_push(g, "a/");
    tp_add_tensor_summary(picture, TP_SUMMARY_IMAGE, "x", NULL);
    tp_node *averaged = tp_named(tp_const(g, 3), "EMA_of");
    for (int i = 0; i < 2; i++) tp_add_moving_summary_n(&averaged, 1, NULL); /* its name has the scope already */
    tp_name_scope_pop(g);
    CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g));
    tp_node *const *all = tp_collection(g, TP_KEY_SUMMARIES, &n);
    CHECK(n == TP_COUNT(tags));
    for (int i = 0; i < n && i < TP_COUNT(tags); i++) CHECK_STR(tp_summary_info(all[i])->tag, tags[i]);
    tp_graph_free(g);
}

TEST(summaries_carry_tags_and_kinds)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *w = tp_get_variable_as(g, "conv0/W", TP_F32, shape2(2, 2), tp_init_ones());
    int n = 0;
    tp_add_tensor_summary(w, TP_SUMMARY_HISTOGRAM | TP_SUMMARY_RMS | TP_SUMMARY_MEAN | TP_SUMMARY_SPARSITY, "w", NULL);
    tp_add_param_summary(g, ".*/W", TP_SUMMARY_RMS);
    tp_add_param_summary(g, "W", TP_SUMMARY_RMS); /* anchored: matches nothing */
    tp_node *const *all = tp_collection(g, TP_KEY_SUMMARIES, &n);
    CHECK(n == 5);
    for (int i = 0; i < n; i++) CHECK(tp_summary_info(all[i]) != NULL);
    CHECK_STR(tp_summary_info(all[0])->tag, "w-histogram");
    CHECK(tp_summary_info(all[0])->kind == TP_SUMMARY_HISTOGRAM);
    CHECK_STR(tp_summary_info(all[4])->tag, "param-summary/conv0/W-rms");
    tp_session *s = tp_session_new(g, NULL);
    CHECK_NEAR(value_at(s, all[4], 0), 1, 0, 0);
    CHECK(tp_summary_info(w) == NULL);
    tp_session_free(s);
    tp_graph_free(g);
}

static tp_tensor *put(tp_dict *d, const char *name, tp_dtype dtype, tp_shape shape, double value)
{
    tp_tensor *t = tp_dict_add(d, name);
    CHECK_OK(tp_tensor_resize(t, dtype, shape));
    for (int64_t i = 0; i < tp_tensor_size(t); i++) tp_tensor_set(t, i, value + (double)i);
    return t;
}

TEST(session_initialisers_load_what_fits)
{
    char path[1024];
    tp_graph *g = tp_graph_new(NULL);
    tp_node *w = tp_get_variable_as(g, "net/W", TP_F32, shape2(3, 2), tp_init_zeros());
    tp_node *b = tp_get_variable_as(g, "net/b", TP_F32, shape1(2), tp_init_zeros());
    tp_node *c = tp_get_scalar_variable(g, "count", 0);
    tp_session_creator creator = tp_new_session_creator(NULL);
    tp_session *s = creator.create(&creator, g);
    CHECK(s != NULL);
    tp_session_creator again = tp_reuse_session_creator(s);
    CHECK(again.create(&again, g) == s);
    tp_dict d;
    memset(&d, 0, sizeof d);
    put(&d, "net/W:0", TP_F64, shape2(2, 3), 1); /* reshaped and cast */
    put(&d, "net/b", TP_F32, shape1(2), 5);
    put(&d, "unknown", TP_F32, shape1(2), 5);
    tp_session_init *chain[2];
    chain[0] = tp_just_current_session();
    chain[1] = tp_dict_restore(&d, false);
    tp_session_init *init = tp_chain_init(chain, 2);
    CHECK_OK(tp_session_init_run(init, s));
    tp_session_init_free(init);
    CHECK_NEAR(value_at(s, tp_sum(w), 0), 21, 0, 0);
    CHECK_NEAR(value_at(s, tp_sum(b), 0), 11, 0, 0);
    CHECK_NEAR(value_at(s, c, 0), 0, 0, 0);
    memset(&d, 0, sizeof d);
    put(&d, "net/b", TP_F32, shape1(3), 5);
    init = tp_dict_restore(&d, false);
    CHECK_ERR(tp_session_init_run(init, s), TP_ERR_SHAPE,
              "Trying to load an array of shape (3) into variable 'net/b' whose shape is (2)");
    tp_session_init_free(init);
    memset(&d, 0, sizeof d);
    put(&d, "net/b", TP_F32, shape1(3), 5);
    init = tp_dict_restore(&d, true); /* skipped */
    CHECK_OK(tp_session_init_run(init, s));
    tp_session_init_free(init);
    memset(&d, 0, sizeof d);
    put(&d, "net/b", TP_I32, shape1(2), 5);
    init = tp_dict_restore(&d, true);
    CHECK_ERR(tp_session_init_run(init, s), TP_ERR_DTYPE, "Cannot load a int32 array");
    tp_session_init_free(init);
    /* what the original's tools exchange */
    snprintf(path, sizeof path, "%s/params.npz", tp_test_tmpdir());
    CHECK_OK(tp_dump_session_params(s, path));
    memset(&d, 0, sizeof d);
    CHECK_OK(tp_load_checkpoint_vars(path, &d));
    CHECK(d.n == 2 && tp_dict_find(&d, "net/W") && !tp_dict_find(&d, "count"));
    CHECK_OK(tp_save_checkpoint_vars(&d, path));
    CHECK_ERR(tp_save_checkpoint_vars(&d, "params.npy"), TP_ERR_ARG, "name it .npz");
    CHECK_ERR(tp_dump_session_params(s, "params.npy"), TP_ERR_ARG, "name it .npz");
    const char *plain = tp_test_path(tp_test_tmpdir(), "plainname");
#ifdef TP_NO_TF_CHECKPOINT
    CHECK_ERR(tp_save_checkpoint_vars(&d, plain), TP_ERR_UNSUPPORTED, "this program was compiled without TensorFlow's");
#else
    CHECK_OK(tp_save_checkpoint_vars(&d, plain)); /* a checkpoint */
    tp_dict_free(&d);
    CHECK_OK(tp_tf_checkpoint_load(plain, &d));
    CHECK(d.n == 2);
    CHECK_OK(tp_dump_session_params(s, plain));
    CHECK_OK(tp_tf_checkpoint_load(plain, &d));
    CHECK(d.n == 2 && tp_dict_find(&d, "net/W"));
#endif
    tp_dict_free(&d);
    init = tp_smart_init(path, false);
    CHECK_OK(tp_session_init_run(init, s));
    tp_session_init_free(init);
    init = tp_smart_init("/no/such/file.npz", false);
    CHECK(tp_session_init_run(init, s) != TP_OK);
    tp_session_init_free(init);
    /* a checkpoint read under a prefix, one name ignored */
    snprintf(path, sizeof path, "%s/model-1.npz", tp_test_tmpdir());
    memset(&d, 0, sizeof d);
    put(&d, "W", TP_F32, shape2(3, 2), 10);
    put(&d, "b", TP_F32, shape1(2), 10);
    CHECK_OK(tp_npz_save(path, &d, false));
    tp_dict_free(&d);
    const char *ignore[1] = {"b"};
    tp_saver_restore_desc rd;
    memset(&rd, 0, sizeof rd);
    rd.path = path;
    rd.prefix = "net";
    rd.ignore = ignore;
    rd.n_ignore = 1;
    init = tp_saver_restore_ex(&rd);
    CHECK_OK(tp_session_init_run(init, s));
    tp_session_init_free(init);
    CHECK_NEAR(value_at(s, tp_sum(w), 0), 75, 0, 0);
    CHECK_NEAR(value_at(s, tp_sum(b), 0), 11, 0, 0);
    tp_session_free(s);
    tp_graph_free(g);
}

/* ==== every mistake in full ============================================================================ */
/* What was wrong, with its status: the whole sentence, since a name too many or too few misleads. */

static tp_variable_scope_desc scope_desc(const char *name, int reuse)
{
    tp_variable_scope_desc d;
    memset(&d, 0, sizeof d);
    d.name = name;
    d.reuse = reuse;
    return d;
}
static void push_scope(tp_graph *g, const char *name, int reuse)
{
    const tp_variable_scope_desc d = scope_desc(name, reuse);
    tp_variable_scope_push(g, &d);
}
static tp_node *variable_of(tp_graph *g, const char *name)
{
    return tp_get_variable_as(g, name, TP_F32, shape1(3), tp_init_zeros());
}
static void bad_absolute_scope(tp_graph *g) { tp_name_scope_push(g, "a\"b/"); }
static void bad_cached_scope(tp_graph *g) { tp_cached_name_scope_push(g, "a+c", true); }
static void bad_name_scope(tp_graph *g) { tp_name_scope_push(g, "a+b"); }
static void bad_variable_scope(tp_graph *g) { push_scope(g, "a:b", 0); }
static void bad_variable_name(tp_graph *g) { variable_of(g, "W:0"); }
static void no_variable_name(tp_graph *g) { variable_of(g, NULL); }
static void bad_node_name(tp_graph *g) { tp_named(tp_const(g, 1), "x\ty"); }
static void empty_node_name(tp_graph *g) { tp_named(tp_const(g, 1), ""); }
static void no_node_name(tp_graph *g) { tp_named(tp_const(g, 1), NULL); }
static void bad_placeholder_name(tp_graph *g) { tp_placeholder(g, "x~", TP_F32, scalar()); }
static void taken_variable_name(tp_graph *g)
{
    tp_named(tp_const(g, 1), "W");
    variable_of(g, "W");
}
static void reused_as_another(tp_graph *g)
{
    push_scope(g, "fc", TP_REUSE_AUTO);
    variable_of(g, "W");
    tp_get_variable_as(g, "W", TP_I32, shape2(3, 1), tp_init_zeros());
}
static void reused_as_another_type(tp_graph *g)
{
    push_scope(g, NULL, TP_REUSE_AUTO);
    variable_of(g, "W");
    tp_get_variable_as(g, "W", TP_F64, shape1(3), tp_init_zeros());
}
static void missing_under_reuse(tp_graph *g)
{
    variable_of(g, "W");
    push_scope(g, "fc", TP_REUSE_YES);
    push_scope(g, NULL, TP_REUSE_NO); /* reuse cannot be undone inside */
    variable_of(g, "W");
}
static void too_few_initial_values(tp_graph *g)
{
    static const float v[2] = {1, 2};
    tp_get_variable_as(g, "W", TP_F32, shape1(3), tp_init_values(v, 2));
}
static void variable_of_unknown_shape(tp_graph *g)
{
    tp_get_variable_as(g, "W", TP_F32, shape2(3, TP_ANY), tp_init_zeros());
}
static tp_node *nothing(tp_getter_call *call, tp_variable_desc *d, void *user)
{
    (void)call, (void)d, (void)user;
    return NULL;
}
static void getter_of_nothing(tp_graph *g)
{
    tp_variable_scope_desc d = scope_desc("fc", 0);
    d.getter = nothing;
    tp_variable_scope_push(g, &d);
    variable_of(g, "W");
}
static void remapped_by_nothing(tp_graph *g) { tp_remap_variables_push(g, NULL, NULL); }
static void variable_scope_never_opened(tp_graph *g) { tp_variable_scope_pop(g); }
static void device_never_entered(tp_graph *g) { tp_device_leave(g); }
static void device_of_minus_one(tp_graph *g) { CHECK(tp_device_enter(g, -1) == g && tp_current_device(g) == 0); }
static void name_scopes_too_deep(tp_graph *g)
{
    for (int i = 0; i < 63; i++) tp_name_scope_push(g, "s");
    CHECK(tp_graph_status(g) == TP_OK && strlen(tp_name_scope(g)) == 63 * 2 - 1);
    tp_name_scope_push(g, "last/");
}
static void variable_scopes_too_deep(tp_graph *g)
{
    for (int i = 0; i < 63; i++) push_scope(g, NULL, 0);
    CHECK(tp_graph_status(g) == TP_OK);
    push_scope(g, NULL, 0);
}
static void devices_too_deep(tp_graph *g)
{
    for (int i = 0; i < 63; i++) CHECK(tp_device_enter(g, i) == g);
    CHECK(tp_graph_status(g) == TP_OK && tp_current_device(g) == 62);
    CHECK(tp_device_enter(g, 63) == g && tp_current_device(g) == 62);
}

static tp_node *apply(tp_graph *g, const char *op, tp_node *const *in, int n, tp_node *const *vars, int n_var)
{
    tp_apply_desc d;
    memset(&d, 0, sizeof d);
    d.row = tp_op_find(op), d.in = in, d.n_in = n, d.vars = vars, d.n_var = n_var;
    return tp_apply_ex(g, &d);
}
static void inputs_less_than_none(tp_graph *g) { apply(g, "add", NULL, -1, NULL, 0); }
static void inputs_of_null(tp_graph *g) { apply(g, "add", NULL, 2, NULL, 0); }
static void variables_less_than_none(tp_graph *g)
{
    tp_node *x = tp_const(g, 1);
    apply(g, "square", &x, 1, NULL, -1);
}
static void variables_of_null(tp_graph *g)
{
    tp_node *x = tp_const(g, 1);
    apply(g, "square", &x, 1, NULL, 1);
}
static void too_many_inputs(tp_graph *g)
{
    tp_node *x[3] = {tp_const(g, 1), tp_const(g, 2), tp_const(g, 3)};
    apply(g, "add", x, 3, NULL, 0);
}
static void too_few_inputs(tp_graph *g)
{
    tp_node *x = tp_const(g, 1);
    apply(g, "add", &x, 1, NULL, 0);
}
static void null_input(tp_graph *g)
{
    tp_graph_find(g, "conv0/output");
    tp_add(tp_const(g, 1), NULL);
}
static void null_input_without_a_name(tp_graph *g)
{
    tp_graph_find(g, "conv0/output");
    tp_graph *h = tp_graph_new(NULL);
    tp_add(tp_const(h, 1), NULL); /* which takes the name */
    tp_graph_free(h);
    tp_add(tp_const(g, 1), NULL);
}
static void input_of_another_graph(tp_graph *g)
{
    tp_graph *h = tp_graph_new(NULL);
    tp_add(tp_const(g, 1), tp_const(h, 1));
    tp_graph_free(h);
}
static void no_variable(tp_graph *g) { tp_assign(tp_named(tp_const(g, 1), "one"), tp_const(g, 2), NULL); }
static void variables_of_two_devices(tp_graph *g)
{
    tp_node *w[2], *d[2] = {tp_const(g, 1), tp_const(g, 2)};
    for (int i = 0; i < 2; i++)
        TP_DEVICE(g, i) w[i] = tp_get_variable_as(g, i ? "b" : "a", TP_F32, scalar(), tp_init_zeros());
    tp_apply_gradient_descent(w, d, 2, tp_const(g, 1), NULL);
}
static void too_late(tp_graph *g)
{
    tp_node *x = tp_const(g, 1);
    tp_graph_finalize(g);
    tp_relu(x);
}
static void no_such_type(tp_graph *g) { tp_placeholder(g, "x", TP_DTYPE_COUNT, scalar()); }
static void more_dimensions_than_there_are(tp_graph *g)
{
    tp_shape s = scalar();
    s.ndim = 99;
    tp_placeholder(g, "x", TP_F32, s);
}
static void less_dimensions_than_none(tp_graph *g)
{
    tp_shape s = scalar();
    s.ndim = -1;
    tp_placeholder(g, "x", TP_F32, s);
}
static void no_such_shape(tp_graph *g) { tp_placeholder(g, "x", TP_F32, shape2(2, TP_ANY - 1)); }
static void broadcast_of_two(tp_graph *g)
{
    tp_named(tp_add(tp_placeholder(g, "a", TP_F32, shape2(2, 3)), tp_placeholder(g, "b", TP_F32, shape2(3, 1))), "y");
}
static void types_of_two(tp_graph *g) { tp_add(tp_const(g, 1), tp_const_as(g, TP_I32, 1)); }
static void summary_of_no_type(tp_graph *g) { (tp_add_tensor_summary)(tp_named(tp_const(g, 1), "c"), 64, NULL, NULL); }
static void moving_summary_of_two(tp_graph *g)
{
    tp_node *x = tp_placeholder(g, "x", TP_F32, shape1(2));
    tp_add_moving_summary_n(&x, 1, NULL);
}
static void moving_summary_beyond_one(tp_graph *g)
{
    tp_moving_summary_desc d;
    memset(&d, 0, sizeof d);
    d.decay = 1.5f;
    tp_node *x = tp_const(g, 1);
    CHECK(tp_add_moving_summary_n(&x, 1, &d) == NULL);
}
/* The mistake is told to the graph of what is differentiated. */
static void gradient_by_another_graph(tp_graph *g)
{
    tp_graph *other = tp_graph_new(NULL);
    tp_node *z = tp_named(tp_const(other, 1), "z"), *x = tp_const(g, 2), *dz = x;
    CHECK(tp_is_poison(tp_gradients(tp_named(tp_square(x), "y"), &z, 1, &dz)) && dz == NULL);
    CHECK(tp_graph_status(other) == TP_OK);
    tp_graph_free(other);
}
static void gradient_from_another_graph(tp_graph *g)
{
    tp_graph *other = tp_graph_new(NULL);
    tp_node *dy = tp_named(tp_const(other, 1), "dy"), *x = tp_const(g, 2), *dx;
    tp_gradients_from(tp_named(tp_square(x), "y"), dy, &x, 1, &dx);
    tp_graph_free(other);
}
static void summaries_of_a_bad_regex(tp_graph *g) { (tp_add_param_summary)(g, "W(", TP_SUMMARY_RMS); }

typedef struct mistake {
    void (*build)(tp_graph *g);
    tp_status status;
    const char *sentence;
} mistake;

static void check_mistakes(const mistake *m, int n)
{
    for (int i = 0; i < n; i++) {
        tp_graph *g = tp_graph_new(NULL);
        m[i].build(g);
        CHECK_MSG(tp_graph_status(g) == m[i].status && strcmp(TP_TEST_SAID(tp_graph_error(g)), m[i].sentence) == 0,
                  "%s: %s\n    not %s: %s", tp_status_name(tp_graph_status(g)), tp_graph_error(g),
                  tp_status_name(m[i].status), m[i].sentence);
        CHECK(tp_session_new(g, NULL) == NULL); /* which says it again */
        CHECK_STR(TP_TEST_SAID(tp_last_error()), m[i].sentence);
        tp_const(g, 1);
        CHECK_STR(TP_TEST_SAID(tp_graph_error(g)), m[i].sentence); /* what follows is its echo */
        tp_graph_free(g);
    }
}

#define LETTERS "use letters, digits, '_', '.', '-'"

TEST(mistakes_of_names_and_scopes_in_full)
{
    static const mistake m[] = {
        {bad_name_scope, TP_ERR_NAME, "'a+b' is no name for a scope: " LETTERS},
        {bad_absolute_scope, TP_ERR_NAME, "'a\"b/' is no name for a scope: " LETTERS},
        {bad_cached_scope, TP_ERR_NAME, "'a+c' is no name for a scope: " LETTERS},
        {bad_variable_scope, TP_ERR_NAME, "'a:b' is no name for a scope: " LETTERS},
        {bad_variable_name, TP_ERR_NAME, "'W:0' is no name for a variable: " LETTERS ", '/'"},
        {no_variable_name, TP_ERR_NAME, "'NULL' is no name for a variable: " LETTERS ", '/'"},
        {bad_node_name, TP_ERR_NAME, "'x\ty' is no name for a node: " LETTERS ", '/'"},
        {empty_node_name, TP_ERR_NAME, "'' is no name for a node: " LETTERS ", '/'"},
        {no_node_name, TP_ERR_NAME, "'NULL' is no name for a node: " LETTERS ", '/'"},
        {bad_placeholder_name, TP_ERR_NAME, "'x~' is no name for placeholder: " LETTERS ", '/'"},
        {taken_variable_name, TP_ERR_NAME, "the name 'W' of a variable is already that of another node"},
        {duplicate_variable, TP_ERR_NAME,
         "variable 'W' exists already: give it or its layer another name, or open its scope with .reuse = "
         "TP_REUSE_AUTO"},
        {reused_as_another, TP_ERR_SHAPE, "variable 'fc/W' is float32 (3), but it is reused as int32 (3,1)"},
        {reused_as_another_type, TP_ERR_SHAPE, "variable 'W' is float32 (3), but it is reused as float64 (3)"},
        {missing_under_reuse, TP_ERR_NAME,
         "variable 'fc/W' does not exist, and this scope only reuses variables; did you mean 'W'?"},
        {too_few_initial_values, TP_ERR_SHAPE, "variable 'W' has 3 elements, its initial values are 2"},
        {variable_of_unknown_shape, TP_ERR_SHAPE, "variable 'W' has shape (3,?): every dimension must be known"},
        {getter_of_nothing, TP_ERR_ARG, "the getter of variable scope 'fc' returned NULL for 'W'"},
        {remapped_by_nothing, TP_ERR_ARG, "remap_variables: the function is NULL"},
        {scope_never_opened, TP_ERR_STATE, "a name scope is closed that was never opened"},
        {variable_scope_never_opened, TP_ERR_STATE, "a variable scope is closed that was never opened"},
        {device_never_entered, TP_ERR_STATE, "a device scope is closed that was never opened"},
        {device_of_minus_one, TP_ERR_ARG, "there is no device -1: the devices of a session are numbered from 0"},
        {name_scopes_too_deep, TP_ERR_STATE, "name scopes are nested more than 64 deep at 'last': is one left open?"},
        {variable_scopes_too_deep, TP_ERR_STATE, "variable scopes are nested more than 64 deep: is one left open?"},
        {devices_too_deep, TP_ERR_STATE, "device scopes are nested more than 64 deep: is one left open?"},
    };
    check_mistakes(m, TP_COUNT(m));
}

TEST(mistakes_of_ops_in_full)
{
    static const mistake m[] = {
        {inputs_less_than_none, TP_ERR_ARG, "add: the list of its inputs is NULL or shorter than none"},
        {inputs_of_null, TP_ERR_ARG, "add: the list of its inputs is NULL or shorter than none"},
        {variables_less_than_none, TP_ERR_ARG, "square: the list of its inputs is NULL or shorter than none"},
        {variables_of_null, TP_ERR_ARG, "square: the list of its inputs is NULL or shorter than none"},
        {too_many_inputs, TP_ERR_ARG, "add takes 2 to 2 inputs, not 3"},
        {too_few_inputs, TP_ERR_ARG, "add takes 2 to 2 inputs, not 1"},
        {null_input, TP_ERR_ARG, "add: input 1 is NULL; was 'conv0/output' meant? There is no node of that name"},
        {null_input_without_a_name, TP_ERR_ARG, "add: input 1 is NULL"},
        {input_of_another_graph, TP_ERR_ARG, "add: input 1 belongs to another graph"},
        {no_variable, TP_ERR_ARG, "assign: 'one' is not a variable, so it cannot be assigned"},
        {variables_of_two_devices, TP_ERR_ARG,
         "apply_gradient_descent: 'a' lives on device 0 and 'b' on device 1: one op writes variables of one device"},
        {too_late, TP_ERR_STATE, "relu is added to a graph that is finalized: build it before the session"},
        {no_such_type, TP_ERR_ARG, "x: there is no such element type"},
        {more_dimensions_than_there_are, TP_ERR_SHAPE,
         "x: placeholder: the ndim of its shape would be 99: it must be from 0 to 8"},
        {less_dimensions_than_none, TP_ERR_SHAPE,
         "x: placeholder: the ndim of its shape would be -1: it must be from 0 to 8"},
        {no_such_shape, TP_ERR_SHAPE, "x: placeholder: dimension 1 would be -2: it must be at least 0, or TP_ANY"},
        {broadcast_of_two, TP_ERR_SHAPE, "Add: shapes (2,3) and (3,1) do not broadcast"},
        {types_of_two, TP_ERR_DTYPE, "Add: element types float32 and int32 differ; tp_cast one of them"},
        {gradient_of_integer, TP_ERR_DTYPE,
         "'Cast' is int32: only a floating value has a gradient; tp_cast its inputs"},
        {gradient_by_another_graph, TP_ERR_ARG, "tp_gradients: xs[0], 'z', belongs to another graph than 'y'"},
        {gradient_from_another_graph, TP_ERR_ARG, "tp_gradients: dy, 'dy', belongs to another graph than 'y'"},
        {moving_summary_beyond_one, TP_ERR_ARG,
         "tp_add_moving_summary has .decay 1.5: it must be at least 0 and less than 1"},
        {summary_of_no_type, TP_ERR_ARG, "summary of 'c': 64 is no sum of TP_SUMMARY_ types"},
        {moving_summary_of_two, TP_ERR_SHAPE,
         "moving summary of 'x': its shape is (2), a scalar is needed: take its mean"},
        {summaries_of_a_bad_regex, TP_ERR_ARG,
         "add_param_summary: regular expression 'W($', character 2: missing ), unterminated subpattern"},
    };
    check_mistakes(m, TP_COUNT(m));
}

/* -- mistakes in op rows that a program defines itself */

static int rule_outputs; /* what the shape rule sets n_out to */
static int64_t rule_size;
static tp_dtype rule_dtype;
static tp_status wrong_infer(tp_infer *s)
{
    s->n_out = rule_outputs;
    for (int i = 0; i < rule_outputs && i < (s->op->n_out < 0 ? TP_MAX_OUTPUTS : s->op->n_out); i++) {
        s->out[i].dtype = rule_dtype;
        s->out[i].shape = shape1(rule_size);
    }
    return TP_OK;
}
static void wrong_kernel(const tp_call *k)
{
    for (int i = 0; i < k->n_out; i++) memset(k->out[i].data, 0, (size_t)tp_shape_size(&k->out[i].shape) * 4);
}
static size_t wrong_scratch(const tp_call *k) { return (void)k, (size_t)-1; }
static tp_op wrong_row(void)
{
    tp_op row;
    memset(&row, 0, sizeof row);
    row.name = "mine", row.label = "Mine";
    row.max_in = 1, row.n_out = 1;
    row.infer = wrong_infer, row.naive_f32 = wrong_kernel;
    rule_outputs = 1, rule_size = 3, rule_dtype = TP_F32;
    return row;
}

TEST(rows_of_ones_own_that_are_wrong)
{
    static const char *const said[] = {"Mine: its shape rule sets n_out to 300: an op has 1 to 256 outputs",
                                       "Mine: its shape rule sets n_out to 0: an op has 1 to 256 outputs",
                                       "Mine: its shape rule sets n_out to 2, but n_out of its row is 1",
                                       "the row of op mine has the flag TP_OP_SOURCE, which is for placeholders, "
                                       "constants and variables only: a row of "
                                       "your own has a kernel",
                                       "the row of op mine has min_in 3 and max_in 1: min_in is the least number of "
                                       "inputs, max_in the largest, -1 for "
                                       "any number"};
    for (int i = 0; i < TP_COUNT(said); i++) {
        tp_op row = wrong_row();
        if (i < 2) row.n_out = -1, rule_outputs = i ? 0 : 300;
        if (i == 2) row.n_out = 1, rule_outputs = 2;
        if (i == 3) row.flags = TP_OP_SOURCE;
        if (i == 4) row.min_in = 3;
        tp_graph *g = tp_graph_new(NULL);
        CHECK(tp_is_poison(tp_apply(g, &row, NULL, 0, NULL)));
        CHECK_STR(TP_TEST_SAID(tp_graph_error(g)), said[i]);
        tp_graph_free(g);
    }
    tp_op row = wrong_row(); /* as many as there may be, and any number of inputs */
    row.n_out = -1, row.min_in = 0, row.max_in = -1, rule_outputs = TP_MAX_OUTPUTS;
    tp_graph *g = tp_graph_new(NULL);
    const tp_node *y = tp_apply(g, &row, NULL, 0, NULL);
    if (CHECK(!tp_is_poison(y))) CHECK(y->op->n_out == TP_MAX_OUTPUTS);
    tp_graph_free(g);
}

/* A rule that gives for a run what it did not give when the graph was built, and scratch memory that no machine has. */
TEST(rows_of_ones_own_that_are_wrong_in_a_run)
{
    static const char *const said[] = {
        "",
        "Mine: its shape rule gave output 0 as float32 (3) when the graph was built, and as float32 (2) for this run",
        "Mine: its shape rule gave output 0 as float32 (3) when the graph was built, and as int32 (3) for this run",
        "Mine: its shape rule gave 1 outputs when the graph was built, and 2 for this run",
        "bytes of scratch memory, which no memory has: see scratch of its row"};
    for (int i = 0; i < TP_COUNT(said); i++) {
        tp_op row = wrong_row();
        if (i == 3) row.n_out = -1;
        if (i == 4) row.scratch = wrong_scratch;
        tp_graph *g = tp_graph_new(NULL);
        tp_node *y = tp_apply(g, &row, NULL, 0, NULL);
        if (i == 1) rule_size = 2;
        if (i == 2) rule_dtype = TP_I32;
        if (i == 3) rule_outputs = 2;
        tp_session *s = tp_session_new(g, NULL);
        const tp_tensor *out;
        if (!CHECK(s != NULL)) continue;
        const tp_status st = tp_session_run(s, NULL, 0, &y, 1, &out);
        if (i == 0) CHECK_OK(st);
        else CHECK_ERR(st, i == 4 ? TP_ERR_ARG : TP_ERR_SHAPE, said[i]);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

static const tp_tower_context *enter(tp_graph *g, const char *name, const char *vs, bool training, int index, int total)
{
    tp_tower_desc d;
    memset(&d, 0, sizeof d);
    d.name = name, d.vs_name = vs, d.is_training = training, d.index = index, d.total = total;
    return tp_tower_enter(g, &d);
}
static void tower_in_tower(tp_graph *g)
{
    CHECK(enter(g, "a", NULL, false, 0, 0) != NULL && enter(g, "b", NULL, false, 0, 0) == NULL);
}
static void tower_without_name(tp_graph *g) { CHECK(enter(g, "", "vs", true, 0, 0) == NULL); }
static void tower_past_the_last(tp_graph *g) { CHECK(enter(g, "t", NULL, true, 2, 2) == NULL); }
static void tower_before_the_first(tp_graph *g) { CHECK(enter(g, "t", NULL, true, -1, 2) == NULL); }
static void tower_in_a_scope(tp_graph *g)
{
    push_scope(g, "fc", 0);
    CHECK(enter(g, "t", NULL, true, 0, 1) == NULL);
}
static void tower_of_its_own_that_reuses(tp_graph *g)
{
    push_scope(g, NULL, TP_REUSE_YES);
    CHECK(enter(g, "t", "t", true, 0, 1) == NULL);
}
static void tower_never_entered(tp_graph *g) { tp_tower_leave(g); }
static void tower_left_open(tp_graph *g)
{
    enter(g, "t", NULL, true, 0, 1);
    push_scope(g, "fc", 0);
    tp_name_scope_push(g, "sub");
    tp_tower_leave(g);
    CHECK_STR(tp_name_scope(g), ""); /* which closes them */
    CHECK_STR(tp_variable_scope(g), "");
    CHECK(tp_current_tower_context(g) == NULL);
}
static void tower_that_makes_what_it_shares(tp_graph *g)
{
    enter(g, "t", NULL, true, 1, 2);
    variable_of(g, "W");
    tp_tower_leave(g);
}
static tp_node *first_input(tp_graph *g, tp_node *const *in, void *user)
{
    (void)g, (void)user;
    return in[0];
}
static void signature(tp_graph *g, const char *a, const char *b, const char *c)
{
    tp_spec s[3];
    memset(s, 0, sizeof s);
    s[0].name = a, s[1].name = b, s[2].name = c;
    CHECK(tp_tower_func_new(g, first_input, NULL, s, 3) == NULL);
}
static void signature_with_colon(tp_graph *g) { signature(g, "a", "b:0", "c"); }
static void signature_with_slash(tp_graph *g) { signature(g, "a/b", "b", "c"); }
static void signature_with_space(tp_graph *g) { signature(g, "a", "b", "c d"); }
static void signature_without_name(tp_graph *g) { signature(g, "a", "b", ""); }
static void signature_of_null(tp_graph *g) { signature(g, "a", NULL, "c"); }
static void signature_of_one_name(tp_graph *g) { signature(g, "a", "b", "b"); }
static void called_outside_a_tower(tp_graph *g)
{
    tp_spec s;
    memset(&s, 0, sizeof s);
    s.name = "x";
    tp_tower_func *f = tp_tower_func_new(g, first_input, NULL, &s, 1);
    int n = 0;
    const tp_spec *is = tp_tower_func_signature(f, &n);
    CHECK(n == 1 && is[0].dtype == TP_F32 && is[0].name != s.name); /* of no type: float32; copied */
    TEST_MAY_ERROR("tp_tower_func_signature");
    CHECK(!tp_tower_func_signature(NULL, &n) && n == 0 && !tp_tower_func_signature(f, NULL));
    tp_node *x = tp_const(g, 1);
    CHECK(tp_is_poison(tp_tower_func_call(f, &x)) && tp_tower_func_n_towers(f) == 0);
}
static void shared_by_one_after_the_other(tp_graph *g)
{
    tp_node *x = tp_const(g, 1);
    enter(g, "t", NULL, true, 0, 2);
    tp_tower_all_reduce(g, &x, 1, true, "Mean", &x);
}

TEST(mistakes_of_towers_in_full)
{
#define INPUT "of the signature is named"
#define NEEDS ": it needs a name without ':', '/' or space"
    static const mistake m[] = {
        {tower_in_tower, TP_ERR_STATE,
         "cannot nest tower contexts: leave 'a' before entering 'b'. In build_graph the tower is open already"},
        {tower_without_name, TP_ERR_ARG, "a tower with variable scope 'vs' needs a name"},
        {tower_past_the_last, TP_ERR_ARG, "tower 't' has index 2 of 2"},
        {tower_before_the_first, TP_ERR_ARG, "tower 't' has index -1 of 2"},
        {tower_in_a_scope, TP_ERR_STATE, "training tower 't' must be entered at the root variable scope, not in 'fc'"},
        {tower_of_its_own_that_reuses, TP_ERR_STATE,
         "training tower 't' has a variable scope of its own, so it cannot reuse variables"},
        {tower_never_entered, TP_ERR_STATE, "a tower context is left that was never entered"},
        {tower_left_open, TP_ERR_STATE,
         "tower 't' ends with the scope 't/fc/sub' still open: leave scope blocks at their end, not by return or "
         "break"},
        {tower_that_makes_what_it_shares, TP_ERR_STATE,
         "tower 't' shares its variables, but made a new trainable one: 'W'"},
        {signature_with_colon, TP_ERR_NAME, "input 1 " INPUT " 'b:0'" NEEDS},
        {signature_with_slash, TP_ERR_NAME, "input 0 " INPUT " 'a/b'" NEEDS},
        {signature_with_space, TP_ERR_NAME, "input 2 " INPUT " 'c d'" NEEDS},
        {signature_without_name, TP_ERR_NAME, "input 2 " INPUT " ''" NEEDS},
        {signature_of_null, TP_ERR_NAME, "input 1 " INPUT " 'NULL'" NEEDS},
        {signature_of_one_name, TP_ERR_NAME, "inputs 1 and 2 of the signature are both named 'b'"},
        {called_outside_a_tower, TP_ERR_STATE,
         "a tower function is called outside a tower context: tp_tower_enter first"},
        {shared_by_one_after_the_other, TP_ERR_STATE,
         "Mean asks for a value of all towers, but they are built one after the other: make them with "
         "tp_build_on_towers"},
    };
    check_mistakes(m, TP_COUNT(m));
}

/* What a context says of its tower: index and number, whether it is the main one, whose the variables are; and what of the
 * collections stays. */
TEST(towers_of_every_kind)
{
    static const struct {
        const char *name, *vs;
        bool training, reuse;
        int index, total;
        bool main, own;
        int summaries, moving, updates; /* of one each, those that stay */
        const char *variable;           /* NULL: it may make none */
    } t[] = {
        {NULL, NULL, true, false, 0, 0, true, true, 1, 1, 1, "W"},
        {"tower0", NULL, true, false, 0, 2, true, true, 1, 1, 1, "W"},
        {"tower1", NULL, true, false, 1, 2, false, false, 0, 0, 1, NULL},
        {"tower1", "tower1", true, false, 1, 2, false, true, 0, 0, 1, "tower1/W"},
        {"tower0", NULL, true, true, 0, 1, true, false, 1, 1, 1, NULL},
        {"infer", NULL, false, false, 5, 0, false, true, 0, 0, 0, "W"},
        {"infer", "vs", false, false, 0, 0, false, true, 0, 0, 0, "vs/W"},
        {"infer", NULL, false, true, 0, 0, false, false, 0, 0, 0, NULL},
    };
    static const char *const keys[3] = {TP_KEY_SUMMARIES, TP_KEY_MOVING_SUMMARY_OPS, TP_KEY_UPDATE_OPS};
    for (int i = 0; i < TP_COUNT(t); i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_const(g, 1), *old = tp_const(g, 2);
        int n = 0;
        for (int k = 0; k < 3; k++) tp_collection_add(g, keys[k], old);
        if (t[i].reuse) push_scope(g, NULL, TP_REUSE_YES);
        const tp_tower_context *c = enter(g, t[i].name, t[i].vs, t[i].training, t[i].index, t[i].total);
        if (!CHECK_MSG(c != NULL, "%d: %s", i, tp_graph_error(g))) continue;
        CHECK(tp_current_tower_context(g) == c && c->graph == g && c->is_training == t[i].training);
        CHECK_STR(c->ns_name, t[i].name ? t[i].name : "");
        CHECK_STR(c->vs_name, t[i].vs ? t[i].vs : "");
        CHECK_STR(tp_name_scope(g), t[i].name ? t[i].name : "");
        CHECK_MSG(c->is_main_training_tower == t[i].main && c->has_own_variables == t[i].own, "%d", i);
        CHECK(c->index == t[i].index && c->total == (t[i].total ? t[i].total : 1));
        if (t[i].variable) CHECK_STR(tp_node_name(variable_of(g, "W")), t[i].variable);
        for (int k = 0; k < 3; k++) {
            tp_collection_add(g, keys[k], x);
            tp_node *const *item = tp_tower_collection(g, keys[k], &n);
            CHECK(n == 1 && item[0] == x); /* what was there before is not the tower's */
        }
        CHECK(tp_tower_collection(g, "nothing", &n) != NULL && n == 0);
        tp_tower_leave(g);
        CHECK_MSG(tp_graph_status(g) == TP_OK, "%d: %s", i, tp_graph_error(g));
        CHECK_STR(tp_name_scope(g), "");
        const int stay[3] = {t[i].summaries, t[i].moving, t[i].updates};
        for (int k = 0; k < 3; k++) {
            tp_node *const *item = tp_tower_collection(g, keys[k], &n); /* outside: all of it */
            CHECK_MSG(n == 1 + stay[k] && item[0] == old, "%d: %d of %s", i, n, keys[k]);
        }
        tp_graph_free(g);
    }
}

/* A run is refused in whole sentences, and changes nothing. */
/* One result of an op is fed, as the first feed, and another is computed: what is fed has its own shape. */
TEST(one_of_several_results_is_fed)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, shape2(TP_ANY, TP_ANY)), *part[2], *fetch[2];
    static const float six[6] = {1, 2, 3, 4, 5, 6}, four[4] = {10, 20, 30, 40};
    tp_split(x, 2, 0, part);
    fetch[0] = tp_affine(part[0], 2, 0), fetch[1] = tp_affine(part[1], 1, 1);
    tp_session *s = tp_session_new(g, NULL);
    for (int first = 0; first < 2; first++) {
        tp_feed f[2];
        f[first] = feed_f32(part[0], shape2(3, 2), six);
        f[1 - first] = feed_f32(x, shape2(2, 2), four);
        const tp_tensor *out[2] = {NULL, NULL};
        if (!CHECK_OK(tp_session_run(s, f, 2, fetch, 2, out))) continue;
        CHECK(out[0]->shape.dim[0] == 3 && out[0]->shape.dim[1] == 2 && tp_tensor_size(out[1]) == 2);
        for (int i = 0; i < 6; i++) CHECK(tp_tensor_get(out[0], i) == 2 * (i + 1));
        CHECK(tp_tensor_get(out[1], 0) == 31 && tp_tensor_get(out[1], 1) == 41);
    }
    tp_session_free(s);
    tp_graph_free(g);
}

/* Parts of which each is x times another number, joined or stacked and weighted: the gradient finds the weight of each. */
static void check_parts(int n, bool stacked)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_tensor weights = TP_EMPTY;
    tp_node *x = tp_placeholder(g, "x", TP_F32, stacked ? scalar() : shape1(1)), *dx = NULL,
            *w = tp_placeholder(g, "w", TP_F32, shape1(n)), **part = (tp_node **)calloc((size_t)n, sizeof *part);
    double want = 0;
    CHECK_OK(tp_tensor_resize(&weights, TP_F32, shape1(n)));
    for (int i = 0; i < n; i++) {
        part[i] = tp_affine(x, (float)(i % 7), 0);
        tp_tensor_set(&weights, i, i % 5);
        want += i % 7 * (i % 5);
    }
    tp_node *y = stacked ? tp_stack(part, n, -1) : tp_concat(part, n, 0);
    tp_gradients(tp_sum(tp_mul(y, w)), &x, 1, &dx);
    tp_session *s = tp_session_new(g, NULL);
    const float one = 1;
    tp_feed f[2] = {feed_f32(x, x->shape, &one), feed_f32(w, weights.shape, (const float *)weights.data)};
    tp_node *fetch[2] = {y, dx};
    const tp_tensor *out[2];
    if (CHECK_MSG(s != NULL, "%s", tp_last_error()) && CHECK_OK(tp_session_run(s, f, 2, fetch, 2, out))) {
        CHECK(tp_tensor_size(out[0]) == n && tp_tensor_get(out[1], 0) == want);
        for (int i = 0; i < n; i++) CHECK(tp_tensor_get(out[0], i) == i % 7);
    }
    tp_session_free(s);
    tp_graph_free(g);
    tp_tensor_free(&weights);
    free(part);
}

/* An op has TP_MAX_OUTPUTS outputs at most: more parts are made in groups, and more groups in groups of groups. */
TEST(more_parts_than_an_op_has_outputs)
{
    static const int size[] = {256, 257, 600, 66000};
    for (int i = 0; i < TP_COUNT(size) - (getenv("TP_TEST_QUICK") != NULL); i++) {
        check_parts(size[i], false);
        check_parts(size[i], true);
    }
    tp_graph *g = tp_graph_new(NULL);
    tp_node *part[257];
    CHECK(tp_is_poison(tp_split(tp_placeholder(g, "x", TP_F32, shape1(514)), 257, 0, part)));
    CHECK_HAS(tp_graph_error(g),
              "257 parts are more than the 256 of one split: cut its input into fewer with tp_slice first");
    tp_graph_free(g);
}

/* The variables of two graphs have the same ids. */
TEST(a_session_has_the_variables_of_its_graph)
{
    tp_graph *g = tp_graph_new(NULL), *h = tp_graph_new(NULL);
    tp_get_variable_as(g, "own", TP_F32, shape1(2), tp_init_constant(5));
    for (int i = 0; i < 3; i++)
        tp_get_variable_as(h, i ? i == 1 ? "b" : "c" : "a", TP_F32, shape2(8, 8), tp_init_ones());
    tp_session *s = tp_session_new(g, NULL);
    tp_tensor t;
    memset(&t, 0, sizeof t);
    for (int i = 0; i < 3; i++) {
        const tp_variable *v = tp_graph_variable(h, i);
        char said[80];
        snprintf(said, sizeof said, "'%s' is not a variable of this session's graph", v->name);
        CHECK_ERR(tp_session_read(s, v, &t), TP_ERR_ARG, said);
        CHECK(tp_tensor_bytes(&t) == 0);
    }
    if (CHECK_OK(tp_tensor_resize(&t, TP_F32, shape2(8, 8)))) {
        for (int i = 0; i < 64; i++) tp_tensor_set(&t, i, 7);
        for (int i = 0; i < 3; i++)
            CHECK_ERR(tp_session_load(s, tp_graph_variable(h, i), &t), TP_ERR_ARG, "not a variable of this session's");
    }
    CHECK_NEAR(variable(s, "own"), 5, 0, 0);
    tp_tensor_free(&t);
    tp_session_free(s);
    tp_graph_free(g);
    tp_graph_free(h);
}

TEST(runs_that_are_refused_in_full)
{
    tp_graph *g = tp_graph_new(NULL), *h = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, shape2(TP_ANY, 2)), *y = tp_named(tp_square(x), "y"),
            *other = tp_named(tp_const(h, 1), "other");
    static const float v[6] = {1, 2, 3, 4, 5, 6};
    const struct {
        tp_node *fetch, *feed, *again;
        tp_dtype dtype;
        tp_shape shape;
        tp_status status;
        const char *sentence;
    } c[] = {
        {NULL, x, NULL, TP_F32, shape2(3, 2), TP_ERR_ARG, "fetch 0 is NULL: no node of that name, or no gradient"},
        {other, x, NULL, TP_F32, shape2(3, 2), TP_ERR_ARG, "fetch 0 ('other') is not a node of this session's graph"},
        {tp_poison(g), x, NULL, TP_F32, shape2(3, 2), TP_ERR_ARG,
         "fetch 0 is poisoned: the call that made it has failed: no reason is known"},
        {y, NULL, NULL, TP_F32, shape2(3, 2), TP_ERR_ARG, "feed 0 has no node: it is NULL"},
        {y, other, NULL, TP_F32, scalar(), TP_ERR_ARG, "feed 0 is not a node of this session's graph"},
        {y, tp_poison(g), NULL, TP_F32, scalar(), TP_ERR_ARG, "feed 0 is not a node of this session's graph"},
        {y, x, other, TP_F32, shape2(3, 2), TP_ERR_ARG, "feed 1 is not a node of this session's graph"},
        {y, x, x, TP_F32, shape2(3, 2), TP_ERR_ARG, "'x' is fed twice"},
        {y, x, NULL, TP_I32, shape2(3, 2), TP_ERR_DTYPE, "'x' is float32 but is fed int32: convert it with tp_convert"},
        {y, x, NULL, TP_F32, shape2(2, 3), TP_ERR_SHAPE, "'x' has shape (?,2) but is fed (2,3)"},
        {y, x, NULL, TP_F32, shape1(6), TP_ERR_SHAPE, "'x' has shape (?,2) but is fed (6)"},
        {y, x, NULL, TP_F32, shape2(TP_ANY, 2), TP_ERR_SHAPE, "'x' has shape (?,2) but is fed (?,2)"},
        {y, y, x, TP_F32, shape2(2, 2), TP_OK, ""},
    };
    tp_session *s = tp_session_new(g, NULL);
    for (int i = 0; i < TP_COUNT(c); i++) {
        tp_feed f[2];
        const tp_tensor *out = NULL;
        for (int k = 0; k < 2; k++) f[k] = feed_f32(k ? c[i].again : c[i].feed, c[i].shape, v);
        f[0].value.dtype = c[i].dtype;
        const uint64_t step = tp_exec_random_step(tp_session_exec(s));
        const tp_status st = tp_session_run(s, f, c[i].again ? 2 : 1, &c[i].fetch, 1, &out);
        CHECK_MSG(st == c[i].status && (st == TP_OK || strcmp(TP_TEST_SAID(tp_last_error()), c[i].sentence) == 0),
                  "%d: %s, %s", i, tp_status_name(st), tp_last_error());
        CHECK(tp_exec_random_step(tp_session_exec(s)) == step + (st == TP_OK));
    }
    CHECK_ERR(tp_session_run(s, NULL, 0, &y, 1, NULL), TP_ERR_ARG,
              "placeholder 'x' must be fed: what is fetched depends on it");
    tp_node *zeros = tp_zeros_like(x);
    CHECK_ERR(tp_session_run(s, NULL, 0, &zeros, 1, NULL), TP_ERR_ARG,
              "placeholder 'x' must be fed: the shape of what is fetched depends on it");
    tp_name_scope_pop(g); /* a mistake, now that there is a session */
    const tp_feed f = feed_f32(x, shape2(3, 2), v);
    CHECK_ERR(tp_session_run(s, &f, 1, &y, 1, NULL), TP_ERR_STATE, "a name scope is closed that was never opened");
    tp_plan_info info;
    CHECK_ERR(tp_exec_plan_info(tp_session_exec(s), &zeros, 1, &info), TP_ERR_STATE,
              "these fetches were not run yet, so there is no plan of them");
    tp_session_free(s);
    CHECK(tp_session_new(NULL, NULL) == NULL);
    CHECK_STR(tp_last_error(), "a session needs a graph");
    tp_graph_free(g);
    tp_graph_free(h);
}

/* ==== what it says, what it draws ====================================================================== */

/* Element i of what a distribution gives to a variable of this name, by the formulas of >>variables. */
static double initial(const tp_init *in, tp_shape s, uint64_t key, uint64_t i)
{
    double a = (double)in->a, b = (double)in->b, fan_in = 1, fan_out = 1;
    int kind = in->kind;
    if (kind == TP_INIT_VARIANCE_SCALING) {
        const int64_t *d = s.dim;
        const int n = s.ndim;
        double field = 1;
        for (int k = 0; k < n - 2; k++) field *= (double)d[k];
        if (n == 1) fan_in = fan_out = (double)d[0];
        if (n > 1) fan_in = field * (double)d[n - 2], fan_out = field * (double)d[n - 1];
        const double fan = in->mode == TP_FAN_IN ? fan_in : in->mode == TP_FAN_OUT ? fan_out : (fan_in + fan_out) / 2;
        const double sigma = sqrt((double)in->a / fan);
        kind = in->distribution == TP_DIST_UNIFORM  ? TP_INIT_UNIFORM
               : in->distribution == TP_DIST_NORMAL ? TP_INIT_NORMAL
                                                    : TP_INIT_TRUNCATED_NORMAL;
        b = kind == TP_INIT_UNIFORM ? sigma * sqrt(3) : kind == TP_INIT_NORMAL ? sigma : sigma / 0.87962566103423978;
        a = kind == TP_INIT_UNIFORM ? -b : 0;
    }
    if (kind == TP_INIT_VALUES) return (double)in->values[i];
    if (kind == TP_INIT_CONSTANT) return a;
    if (kind == TP_INIT_UNIFORM) return a + (b - a) * (double)tp_random_uniform(key, 0, i);
    double v = tp_random_normal(key, 0, i);
    for (uint64_t k = 1; kind == TP_INIT_TRUNCATED_NORMAL && fabs(v) > 2; k++) v = tp_random_normal(key, k, i);
    return a + b * v;
}

TEST(initial_values_by_their_formulas)
{
    enum { N = 20000 };
    static float values[N];
    for (int i = 0; i < N; i++) values[i] = (float)(i % 251) - 100;
    tp_init in[32];
    int n = 0;
    in[n++] = tp_init_constant(-2.75f);
    in[n++] = tp_init_zeros();
    in[n++] = tp_init_ones();
    in[n++] = tp_init_normal(3, 0.5f);
    in[n++] = tp_init_truncated_normal(-1, 2);
    in[n++] = tp_init_uniform(-3, 5);
    in[n++] = tp_init_glorot_uniform();
    in[n++] = tp_init_values(values, N);
    for (int mode = TP_FAN_IN; mode <= TP_FAN_AVG; mode++)
        for (int d = TP_DIST_TRUNCATED_NORMAL; d <= TP_DIST_UNIFORM; d++)
            in[n++] = tp_init_variance_scaling(2, (tp_fan_mode)mode, (tp_distribution)d);
    const tp_shape shape[] = {shape1(N), shape2(40, 500), shape4(4, 5, 10, 100), scalar(),
                              shape1(1), shape1(8191),    shape1(8192),          shape1(8193)};
    static const tp_dtype dtype[] = {TP_F32, TP_F64};
    const uint64_t key = tp_random_key(7, tp_hash_name("conv0/W"));
    for (int k = 0; k < n; k++)
        for (int q = 0; q < TP_COUNT(shape); q++)
            for (int w = 0; w < TP_COUNT(dtype); w++) {
                tp_tensor t;
                memset(&t, 0, sizeof t);
                CHECK_OK(tp_tensor_resize(&t, dtype[w], shape[q]));
                if (in[k].kind == TP_INIT_VALUES) in[k].n_values = tp_tensor_size(&t);
                CHECK_OK(tp_init_fill(&in[k], 7, "conv0/W", &t));
                int64_t wrong = 0;
                for (int64_t i = 0; i < tp_tensor_size(&t); i += i < 600 ? 1 : 7) {
                    const double v = initial(&in[k], shape[q], key, (uint64_t)i), is = tp_tensor_get(&t, i);
                    wrong += !(fabs(is - v) <= 1e-6 * (fabs(v) + (in[k].kind > TP_INIT_CONSTANT ? 1 : 0)));
                }
                CHECK_MSG(wrong == 0, "kind %d, shape %d: %lld wrong", in[k].kind, q, (long long)wrong);
                tp_tensor_free(&t);
            }
    tp_tensor t;
    memset(&t, 0, sizeof t);
    CHECK_OK(tp_tensor_resize(&t, TP_I32, shape1(3)));
    tp_init wrong = tp_init_values(values, 2);
    CHECK_ERR(tp_init_fill(&wrong, 7, "W", &t), TP_ERR_SHAPE, "'W' has 3 elements, its initial values are 2");
    for (int kind = 0; kind <= TP_INIT_VALUES + 1; kind += TP_INIT_VALUES + 1) {
        wrong.kind = kind;
        CHECK_ERR(tp_init_fill(&wrong, 7, "W", &t), TP_ERR_ARG,
                  kind ? "'W' has an initialiser of unknown kind 7" : "'W' has an initialiser of unknown kind 0");
    }
    wrong = tp_init_constant(-7.9f);
    CHECK_OK(tp_init_fill(&wrong, 7, "W", &t));
    CHECK(((int32_t *)t.data)[0] == -7 && ((int32_t *)t.data)[2] == -7);
    tp_tensor_free(&t);
}

/* Not set: by the dtype. The seed of the graph is part of every value. */
TEST(variables_without_an_initialiser)
{
    static const uint64_t seed[] = {0, 42, (uint64_t)TP_NONE, 7};
    for (int i = 0; i < TP_COUNT(seed); i++) {
        tp_graph_config gc;
        memset(&gc, 0, sizeof gc);
        gc.seed = seed[i];
        tp_graph *g = tp_graph_new(&gc);
        const uint64_t is = i == 0 ? 42 : i == 2 ? 0 : seed[i];
        CHECK(tp_graph_seed(g) == is);
        tp_init unset;
        memset(&unset, 0, sizeof unset);
        tp_node *w = tp_get_variable_as(g, "w", TP_DTYPE_UNSET, shape2(30, 20), unset),
                *n = tp_get_variable_as(g, "n", TP_I64, shape1(3), unset);
        CHECK(w->dtype == TP_F32);
        tp_session *s = tp_session_new(g, NULL);
        tp_tensor t;
        memset(&t, 0, sizeof t);
        CHECK_OK(tp_session_eval(s, w, &t));
        const double limit = sqrt(6.0 / (30 + 20));
        const uint64_t key = tp_random_key(is, tp_hash_name("w"));
        for (int k = 0; k < 600; k++)
            CHECK_NEAR(tp_tensor_get(&t, k), limit * (2 * (double)tp_random_uniform(key, 0, (uint64_t)k) - 1), 1e-6, 0);
        tp_tensor_free(&t);
        CHECK_NEAR(value_at(s, n, 0), 0, 0, 0);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

TEST(a_graph_is_drawn_in_full)
{
    tp_test_fail_after(1 << 30); /* none fails; they are counted */
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, shape2(TP_ANY, 4)), *part[2], *after[1];
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, shape2(1, 2), tp_init_ones());
    tp_split(x, 2, 1, part);
    tp_node *sum = tp_named(tp_sub(part[1], part[0]), "less");
    after[0] = tp_assign_add(w, w, NULL);
    tp_node *y = tp_named(tp_with_dependencies(sum, after, 1), "y");
    static const char head[] = "digraph tp {\n  node [shape=box, fontsize=10];\n",
                      first[] = "  n0 [label=\"x\\nplaceholder (?,4)\"];\n",
                      second[] = "  n1 [label=\"w\\nvariable (1,2)\", shape=cylinder];\n",
                      split[] = "  n2 [label=\"Split\\nsplit (?,2)\"];\n  n0 -> n2;\n",
                      less[] = "  n3 [label=\"Sub\\nsub (?,2)\"];\n  n2 -> n3 [taillabel=\"1\"];\n  n2 -> n3;\n"
                               "  n4 [label=\"less\\nidentity (?,2)\"];\n  n3 -> n4;\n",
                      rest[] =
                          "  n5 [label=\"AssignAdd\\nassign_add (1,2)\"];\n  n1 -> n5;\n"
                          "  n1 -> n5 [style=dashed, dir=back];\n"
                          "  n6 [label=\"Identity_1\\nidentity (?,2)\"];\n  n4 -> n6;\n  n5 -> n6 [style=dotted];\n"
                          "  n7 [label=\"y\\nidentity (?,2)\"];\n  n6 -> n7;\n";
    char whole[2048], some[2048];
    snprintf(whole, sizeof whole, "%s%s%s%s%s%s}\n", head, first, second, split, less, rest);
    snprintf(some, sizeof some, "%s%s%s%s}\n", head, first, split, less);
    const struct {
        tp_node *const *targets;
        int n;
        const char *want;
    } c[] = {{NULL, 0, whole}, {&y, 1, whole}, {&y, 0, whole}, {&sum, 1, some}, {&sum, 1, some}};
    for (int i = 0; i < TP_COUNT(c); i++) {
        tp_buf out;
        memset(&out, 0, sizeof out);
        tp_graph_to_dot(g, c[i].targets, c[i].n, &out);
        CHECK_STR(out.data, c[i].want);
        tp_buf_free(&out);
    }
    tp_graph_free(g);
    CHECK(tp_test_live_blocks() == 0);
    tp_test_alloc_reset();
}

/* A plan of known steps: what is moved and computed follows from the shapes. */
/* Returns how many bytes the first run of a graph with n folded constants asks for. */
static int64_t bytes_for_constants(int n)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape()), *sum = x;
    for (int i = 0; i < n; i++) sum = tp_add(sum, tp_exp(tp_const(g, (float)(1e-6 * i))));
    tp_session *s = tp_session_new(g, NULL);
    const float one = 1;
    const tp_feed f = feed_f32(x, tp_make_shape(), &one);
    tp_test_fail_after(0);
    CHECK_OK(tp_session_run(s, &f, 1, &sum, 1, NULL));
    const int64_t bytes = tp_test_alloc_bytes();
    tp_session_free(s);
    tp_test_alloc_reset();
    tp_graph_free(g);
    return bytes;
}

/* Four times as many constants take about four times the memory; with a new list for each constant it was sixteen times. */
TEST(a_plan_of_many_constants_takes_memory_in_proportion)
{
    const int64_t few = bytes_for_constants(1000), many = bytes_for_constants(4000);
    CHECK_MSG(few > 0 && many < 7 * few, "%lld and %lld bytes", (long long)few, (long long)many);
}

TEST(a_plan_is_printed_in_full)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, shape2(TP_ANY, 64));
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, shape2(64, 32), tp_init_ones());
    tp_node *y = tp_named(tp_mul(tp_matmul(x, w), tp_const(g, 3)), "scaled"), *fetch[2] = {tp_tanh(y), tp_sum(y)};
    tp_node *four = tp_square(tp_const(g, 2)), *both[2] = {fetch[0], four};
    static const char want[] =
        "step  kernel                       output                  KiB moved        MFLOP         ms  node\n"
        "   0  matmul                       (16,32)                      14.0        0.066          -  MatMul\n"
        "   1  mul+tanh                     (16,32)                       6.0        0.001          -  Tanh\n"
        "   2  reduce_sum                   ()                            2.0        0.001          -  Sum\n"
        "3 kernels, 2 ops fused, 0 folded; arena 6.0 KiB, constants 0.0 KiB; 0.067 MFLOP, 22.0 KiB moved a run\n";
    tp_session_config c = tp_default_session_config();
    c.isa = "naive";
    tp_session *s = tp_session_new(g, &c);
    tp_exec *e = tp_session_exec(s);
    static float data[16 * 64];
    const tp_feed f = feed_f32(x, shape2(16, 64), data);
    CHECK_OK(tp_session_run(s, &f, 1, fetch, 2, NULL));
    tp_buf out;
    memset(&out, 0, sizeof out);
    CHECK_OK(tp_exec_print_plan(e, fetch, 2, &out));
    CHECK_STR(out.data, want);
    tp_plan_info info;
    CHECK_OK(tp_exec_plan_info(e, fetch, 2, &info));
    CHECK(info.n_steps == 3 && info.n_fused == 2 && info.n_folded == 0 && info.n_copies == 0 && !info.recorded);
    CHECK_MSG(info.bytes == 4.0 * (16 * 64 + 64 * 32 + 16 * 32) + 4 * (3 * 16 * 32 + 1) + 4 * (16 * 32 + 1), "%g bytes",
              info.bytes);
    CHECK_MSG(info.flops == 2.0 * 16 * 64 * 32 + 2 * 16 * 32 + 16 * 32, "%g FLOPs", info.flops);
    CHECK(info.arena_bytes == 4096 + 2048); /* x, later two results in its place; the product, later the third */
    /* timed: milliseconds in the place of the dash; a fetch that is folded */
    out.len = 0;
    tp_exec_set_timing(e, true);
    for (int i = 0; i < 2; i++) CHECK_OK(tp_session_run(s, &f, 1, both, 2, NULL));
    tp_exec_set_timing(e, false);
    CHECK_OK(tp_session_run(s, &f, 1, both, 2, NULL));
    CHECK_OK(tp_exec_print_plan(e, both, 2, &out));
    double ms = -1;
    const char *line = strstr(out.data, "\n   0  matmul ");
    CHECK(line && sscanf(line + 1, " 0 matmul (16,32) 14.0 0.066 %lf MatMul", &ms) == 1 && ms > 0 && ms < 1e4);
    CHECK_HAS(out.data, "\n2 kernels, 2 ops fused, 1 folded; arena 6.0 KiB, constants 0.0 KiB; ");
    tp_buf_free(&out);
    tp_session_free(s);
    tp_graph_free(g);
}

/* ==== more than fits at once =========================================================================== */

/* Each choice takes a row and a column, which are laid out in registers, and its result another one, until it is added: as many
 * as a chain has, and more, so that there are several chains. Sizes around the pieces in which a chain works. */
TEST(chains_of_as_many_values_as_registers_and_more)
{
    static const int64_t rows[] = {1, 8, 64, 65, 1025};
    for (int q = 0; q < TP_COUNT(rows); q++)
        for (int n = 2; n <= 11; n++) {
            tp_graph *g = tp_graph_new(NULL);
            const int64_t R = rows[q], C = 8;
            tp_node *in[22], *sum[11];
            static float data[22][1025];
            tp_feed f[22];
            const tp_tensor *out = NULL;
            for (int i = 0; i < 2 * n; i++) {
                char name[16];
                snprintf(name, sizeof name, "x%d", i);
                const tp_shape s = i % 2 ? shape2(1, C) : shape2(R, 1);
                in[i] = tp_placeholder(g, name, TP_F32, s);
                for (int k = 0; k < (i % 2 ? C : R); k++) data[i][k] = (float)((k * 5 + i * 3) % 17 - 8);
                f[i] = feed_f32(in[i], s, data[i]);
            }
            tp_node *which = tp_greater(in[0], in[1]), *y = NULL;
            for (int i = 0; i < n; i++) sum[i] = tp_select(which, in[2 * i], in[2 * i + 1]);
            for (int i = 0; i < n; i++) y = y ? tp_sub(y, sum[i]) : sum[i];
            tp_session *s = tp_session_new(g, NULL);
            int64_t wrong = 0;
            if (CHECK_OK(tp_session_run(s, f, 2 * n, &y, 1, &out)))
                for (int64_t k = 0; k < R * C; k++) {
                    double v = 0;
                    for (int i = 0; i < n; i++) {
                        const bool row = data[0][k / C] > data[1][k % C];
                        const double x = (double)(row ? data[2 * i][k / C] : data[2 * i + 1][k % C]);
                        v = i ? v - x : x;
                    }
                    wrong += tp_tensor_get(out, k) != v;
                }
            CHECK_MSG(wrong == 0, "%d choices of (%lld,8): %lld wrong", n, (long long)R, (long long)wrong);
            tp_session_free(s);
            tp_graph_free(g);
        }
}

/* What a chain tells to a kernel of another device, which runs it here by each op's formula, element by element. */
static int own_chains, own_instrs;
static double own_operand(const tp_call *k, const tp__instr *s, int a, double *const *reg, int64_t i)
{
    const tp__program *p = (const tp__program *)k->attrs;
    const int w = s->in[a];
    tp_tensor t;
    memset(&t, 0, sizeof t);
    if (s->from[a] == TP__FROM_REG) return reg[w][i];
    const tp_operand *o = s->from[a] == TP__FROM_OUT ? &k->out[w] : &k->in[w];
    tp_tensor_view(&t, o->dtype, o->shape, o->data);
    if (s->from[a] == TP__FROM_OUT) return tp_tensor_get(&t, i);
    const tp__external *e = &p->external[w];
    CHECK(e->size == (int)tp_dtype_size(o->dtype));
    int64_t at = 0, rest = i;
    for (int d = p->shape.ndim - 1; d >= 0; d--) {
        at += rest % p->shape.dim[d] * e->stride[d];
        rest /= p->shape.dim[d];
    }
    const int64_t by = e->access == TP__DIRECT  ? i
                       : e->access == TP__SPLAT ? 0
                       : e->access == TP__INNER ? i % e->period
                       : e->access == TP__OUTER ? i / e->inner % e->period
                                                : at;
    CHECK(by == at && (e->reg >= 0) == (e->access != TP__DIRECT) && e->reg < p->n_reg);
    return tp_tensor_get(&t, at);
}
static void own_chain(const tp_call *k)
{
    const tp__program *p = (const tp__program *)k->attrs;
    double *reg[TP__MAX_REG];
    own_chains++;
    CHECK(p->n == tp_shape_size(&p->shape) && p->n_external == k->n_in && p->n_out == k->n_out);
    for (int i = 0; i < TP__MAX_REG; i++) reg[i] = (double *)calloc((size_t)p->n + 1, sizeof **reg);
    for (int j = 0; j < p->n_instr; j++) {
        const tp__instr *s = &p->instr[j];
        const bool to_out = s->to == TP__FROM_OUT;
        own_instrs++;
        CHECK(s->out_size == (int)tp_dtype_size(s->out_dtype) && (to_out || s->out < p->n_reg));
        if (to_out) CHECK(p->out_size[s->out] == s->out_size && k->out[s->out].dtype == s->out_dtype);
        for (int64_t i = 0; i < p->n; i++) {
            double x[4] = {0, 0, 0, 0}, y = NAN;
            for (int a = 0; a < s->n_in; a++) x[a] = own_operand(k, s, a, reg, i);
            const char *op = s->row->name;
            if (strcmp(op, "add") == 0) y = x[0] + x[1];
            if (strcmp(op, "mul") == 0) y = x[0] * x[1];
            if (strcmp(op, "neg") == 0) y = -x[0];
            if (strcmp(op, "greater") == 0) y = x[0] > x[1];
            if (strcmp(op, "select") == 0) y = x[0] != 0 ? x[1] : x[2];
            if (strcmp(op, "affine") == 0)
                y = x[0] * (double)((const tp__affine_attrs *)s->attrs)->scale +
                    (double)((const tp__affine_attrs *)s->attrs)->offset;
            if (strcmp(op, "cast") == 0) {
                const tp__cast_attrs *c = (const tp__cast_attrs *)s->attrs;
                CHECK(c->from == s->dtype && c->to == s->out_dtype);
                y = c->to == TP_I32 ? trunc(x[0]) : x[0];
            } else CHECK(s->out_dtype == (strcmp(op, "greater") == 0 ? TP_BOOL : s->dtype));
            if (!to_out) reg[s->out][i] = y;
            else {
                tp_tensor t;
                memset(&t, 0, sizeof t);
                tp_tensor_view(&t, s->out_dtype, p->shape, k->out[s->out].data);
                tp_tensor_set(&t, i, y);
            }
        }
    }
    for (int i = 0; i < TP__MAX_REG; i++) free(reg[i]);
}

TEST(a_kernel_of_ones_own_for_chains)
{
    tp_device *d = tp_cpu_device_new(1, NULL);
    CHECK(d && tp_device_add_kernel(d, "fused", own_chain) == TP_OK);
    tp_graph *g = tp_graph_new(NULL);
    static const int64_t dim[5][4] = {{2, 3, 4, 5}, {1, 3, 1, 5}, {3, 1, 1}, {5}, {2, 1, 1, 1}};
    static const int ndim[5] = {4, 4, 3, 1, 4};
    tp_shape s[5];
    for (int i = 0; i < 5; i++) s[i] = tp_make_shape_n(ndim[i], dim[i]);
    tp_node *x[5], *fetch[4];
    tp_feed f[5];
    float data[5][120];
    for (int i = 0; i < 5; i++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        x[i] = tp_placeholder(g, name, TP_F32, s[i]);
        for (int k = 0; k < 120; k++) data[i][k] = (float)((k * 7 + i * 5) % 23 - 11) / 4;
        f[i] = feed_f32(x[i], s[i], data[i]);
    }
    tp_node *a = tp_add(tp_mul(x[0], x[1]), x[2]), *b = tp_affine(tp_neg(a), 0.5f, 0.25f);
    tp_node *more = tp_greater(a, x[3]);
    fetch[0] = tp_select(more, b, tp_add(a, x[4]));
    fetch[1] = tp_cast(tp_affine(fetch[0], 4, 0), TP_I32);
    fetch[2] = more;
    fetch[3] = tp_mul(tp_cast(fetch[1], TP_F64), tp_const_as(g, TP_F64, 0.125));
    tp_session_config c = tp_default_session_config();
    c.devices = &d, c.n_devices = 1;
    tp_session *session = tp_session_new(g, &c);
    const tp_tensor *out[4];
    if (CHECK_OK(tp_session_run(session, f, 5, fetch, 4, out)))
        for (int i = 0; i < 120; i++) {
            const int d3 = i % 5, d1 = i / 20 % 3, d0 = i / 60;
            const double A = (double)data[0][i] * (double)data[1][d1 * 5 + d3] + (double)data[2][d1];
            const bool is_more = A > (double)data[3][d3];
            const double y = is_more ? -A * 0.5 + 0.25 : A + (double)data[4][d0];
            CHECK(tp_tensor_get(out[2], i) == (is_more ? 1 : 0));
            CHECK_NEAR(tp_tensor_get(out[0], i), y, 1e-5, 1e-6);
            CHECK(tp_tensor_get(out[1], i) == trunc(4 * tp_tensor_get(out[0], i)));
            CHECK(tp_tensor_get(out[3], i) == 0.125 * tp_tensor_get(out[1], i));
        }
    CHECK_MSG(own_chains == 1 && own_instrs == 11, "%d chains of %d ops", own_chains, own_instrs);
    tp_session_free(session);
    tp_graph_free(g);
    d->close(d);
}

/* A kernel that is not called where all results have no elements, unless it has effects. Of two results one may have some. */
static int counted_calls;
static void own_counter(const tp_call *k) { counted_calls++, (void)k; }
static tp_status own_outputs(tp_infer *s)
{
    for (int i = 0; i < s->n_out; i++) s->out[i] = s->in[0];
    if (s->n_out > 1) s->out[1].shape = shape1(2);
    return TP_OK;
}
TEST(kernels_are_not_called_for_nothing)
{
    static const struct {
        unsigned flags;
        int n_out;
        int64_t n;
        bool called;
    } c[] = {{TP_OP_RANDOM, 1, 0, false},
             {TP_OP_RANDOM, 1, 3, true},
             {TP_OP_RANDOM, 2, 0, true},
             {TP_OP_RANDOM, 2, 3, true},
             {TP_OP_RANDOM | TP_OP_HOST, 1, 0, true},
             {TP_OP_RANDOM | TP_OP_HOST, 2, 0, true},
             {TP_OP_RANDOM | TP_OP_HOST, 1, 3, true}};
    for (int i = 0; i < TP_COUNT(c); i++) {
        tp_op row = *tp_op_find("neg");
        row.name = row.label = "own";
        row.flags = c[i].flags; /* neither fused nor folded */
        row.n_out = c[i].n_out;
        row.infer = own_outputs;
        row.naive_f32 = own_counter;
        row.fast = NULL;
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, shape1(TP_ANY)), *y = tp_apply(g, &row, &x, 1, NULL), *fetch[2];
        fetch[0] = y, fetch[1] = &y->op->out[c[i].n_out - 1];
        float data[3] = {1, 2, 3};
        tp_feed f = feed_f32(x, shape1(c[i].n), data);
        tp_session *s = tp_session_new(g, NULL);
        const tp_tensor *out[2];
        counted_calls = 0;
        if (CHECK_OK(tp_session_run(s, &f, 1, fetch, 2, out)))
            CHECK(tp_tensor_size(out[0]) == c[i].n && tp_tensor_size(out[1]) == (c[i].n_out > 1 ? 2 : c[i].n));
        CHECK_MSG(counted_calls == c[i].called, "case %d: %d calls", i, counted_calls);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* A batch norm that adds what follows, and cuts it off at 0, where that is all that reads it. */
static void own_norm(const tp_call *k)
{
    float *y = (float *)k->out[0].data;
    k->op->naive_f32(k);
    for (int64_t i = 0; i < tp_shape_size(&k->out[0].shape); i++) {
        if (k->fused.add) y[i] += ((const float *)k->in[k->fused.add].data)[i];
        if (k->fused.act == TP_EPILOGUE_RELU && y[i] < 0) y[i] = 0;
    }
}
static unsigned own_fuses_add(tp_device *d, const char *op)
{
    return (void)d, strcmp(op, "batch_norm") == 0 ? TP_FUSES_ADD : 0;
}
static unsigned own_fuses_both(tp_device *d, const char *op)
{
    return own_fuses_add(d, op) ? TP_FUSES_ADD | TP_FUSES_ACT : 0;
}
TEST(what_follows_a_sum_after_a_batch_norm_of_ones_own)
{
    enum { RELU, NOTHING, TANH, WANTED, READ_TWICE, ELSEWHERE, N_KINDS };
    static const int steps[2][N_KINDS] = {{2, 1, 2, 2, 3, 3}, {1, 1, 2, 2, 3, 3}};
    for (int act = 0; act < 2; act++)
        for (int kind = 0; kind < N_KINDS; kind++) {
            tp_graph *g = tp_graph_new(NULL);
            tp_node *x = tp_placeholder(g, "x", TP_F32, shape2(4, 3)),
                    *z = tp_placeholder(g, "z", TP_F32, shape2(4, 3));
            const tp_shape three = shape1(3);
            tp_node *gamma = tp_get_variable_as(g, "gamma", TP_F32, three, tp_init_ones()),
                    *beta = tp_get_variable_as(g, "beta", TP_F32, three, tp_init_zeros());
            tp_node *sum = tp_add(tp_nn_batch_norm_train(x, gamma, beta, -1, 1e-5f, false, NULL, NULL), z), *y[2];
            y[0] = y[1] = sum;
            if (kind == RELU || kind == WANTED || kind == READ_TWICE) y[0] = tp_relu(sum);
            if (kind == TANH) y[0] = tp_tanh(sum);
            if (kind == ELSEWHERE) TP_DEVICE(g, 1)
                {
                    y[0] = tp_relu(sum);
                }
            if (kind == READ_TWICE) y[1] = tp_cumsum(sum, 0, false, false);
            float xd[12], zd[12];
            for (int i = 0; i < 12; i++) xd[i] = (float)(i * 7 % 5), zd[i] = (float)(i * 5 % 7 - 3) / 2;
            tp_feed f[2];
            f[0] = feed_f32(x, shape2(4, 3), xd), f[1] = feed_f32(z, shape2(4, 3), zd);
            const tp_tensor *out[2], *want[2];
            tp_plan_info info;
            tp_session_config c = tp_default_session_config();
            tp_device *d[2];
            for (int i = 0; i < 2; i++) d[i] = tp_cpu_device_new(1, "naive");
            CHECK_OK(tp_device_add_kernel(d[0], "batch_norm", own_norm));
            d[0]->fuses = act ? own_fuses_both : own_fuses_add;
            c.devices = d, c.n_devices = 2;
            tp_session *s = tp_session_new(g, &c);
            c.no_fusion = true;
            tp_session *plain = tp_session_new(g, &c);
            const int n = kind == WANTED || kind == READ_TWICE ? 2 : 1;
            if (CHECK_OK(tp_session_run(s, f, 2, y, n, out)) && CHECK_OK(tp_session_run(plain, f, 2, y, n, want)))
                for (int i = 0; i < n; i++) CHECK(memcmp(out[i]->data, want[i]->data, sizeof xd) == 0);
            CHECK_OK(tp_exec_plan_info(tp_session_exec(s), y, n, &info));
            CHECK_MSG(info.n_steps == steps[act][kind], "kind %d: %d steps", kind, info.n_steps);
            tp_session_free(s);
            tp_session_free(plain);
            for (int i = 0; i < 2; i++) d[i]->close(d[i]);
            tp_graph_free(g);
        }
}

/* A hook that asks for much, and feeds much. */
typedef struct greedy {
    tp_hook hook;
    tp_node *fetch[80], *feed[20];
    tp_tensor value[20];
    int n_fetch, n_feed, first, calls;
    double sum;
} greedy;
static tp_status ask(tp_hook *h, tp_run_request *r)
{
    greedy *q = (greedy *)h->user;
    for (int i = 0; i < q->n_fetch; i++) {
        const int at = tp_request_fetch(r, q->fetch[i]);
        if (at < 0) return TP_OK; /* the run ends by itself */
        CHECK(at == i);
    }
    for (int i = 0; i < q->n_feed; i++)
        if (tp_request_feed(r, q->feed[i], &q->value[i]) != TP_OK) return TP_OK;
    return TP_OK;
}
static tp_status look(tp_hook *h, const tp_run_values *v)
{
    greedy *q = (greedy *)h->user;
    CHECK(v->n == q->n_fetch);
    q->calls++;
    q->sum = 0;
    for (int i = 0; i < v->n; i++) q->sum += (i + 1) * tp_tensor_get(v->value[i], 0);
    return TP_OK;
}

TEST(hooks_ask_for_as_much_as_they_want)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x[20], *y[40];
    static float data[20];
    greedy q[3];
    memset(q, 0, sizeof q);
    tp_hook *hooks[3];
    for (int i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        x[i] = tp_placeholder(g, name, TP_F32, scalar());
        data[i] = (float)(i + 1);
        greedy *who = &q[i < 9 ? 0 : 2]; /* two feed, the one between asks for nothing */
        who->feed[who->n_feed] = x[i];
        tp_tensor_view(&who->value[who->n_feed++], TP_F32, scalar(), &data[i]);
    }
    for (int i = 0; i < 40; i++) y[i] = tp_affine(x[i % 20], i < 20 ? 1 : 10, 0);
    for (int i = 0; i < 3; i++) {
        q[i].hook.user = &q[i], q[i].hook.before_run = i == 1 ? NULL : ask, q[i].hook.after_run = look;
        hooks[i] = &q[i].hook;
        q[i].n_fetch = i == 0 ? 33 : i == 1 ? 0 : 80;
        for (int k = 0; k < q[i].n_fetch; k++) q[i].fetch[k] = y[(k * 7 + i) % 40];
    }
    tp_session *s = tp_session_new(g, NULL);
    double want[3] = {0, 0, 0};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < q[i].n_fetch; k++) {
            const int at = (k * 7 + i) % 40;
            want[i] += (k + 1) * (double)data[at % 20] * (at < 20 ? 1 : 10);
        }
    int failures = 0;
    bool failed = true;
    for (long n = 1; failed && n < 3000; n++) { /* each allocation of three runs fails once */
        tp_test_fail_after(n);
        tp_hooked_session *h = tp_hooked_session_new(s, hooks, 3);
        const tp_tensor *out[40];
        tp_status st = h ? TP_OK : TP_ERR_NOMEM;
        for (int run = 0; run < 3 && st == TP_OK; run++) {
            memset(out, 0, sizeof out);
            st = tp_hooked_run(h, y, 40, out);
            for (int i = 0; st == TP_OK && i < 40; i++)
                CHECK(tp_tensor_get(out[i], 0) == (double)data[i % 20] * (i < 20 ? 1 : 10));
            for (int i = 0; st == TP_OK && i < 3; i++) CHECK(q[i].sum == want[i]);
        }
        failed = tp_test_alloc_failed();
        CHECK(st == (failed ? TP_ERR_NOMEM : TP_OK));
        failures += failed;
        tp_test_alloc_reset();
        tp_hooked_session_free(h);
    }
    CHECK_MSG(failures > 10 && !failed, "%d allocations", failures);
    tp_session_free(s);
    tp_graph_free(g);
}

typedef struct wrong_hook {
    int which;
    tp_node *x;
} wrong_hook;
static tp_status ask_for_nothing(tp_hook *h, tp_run_request *r)
{
    const int which = ((const wrong_hook *)h->user)->which;
    tp_tensor t;
    float one = 1;
    tp_tensor_view(&t, TP_F32, scalar(), &one);
    tp_node *x = ((const wrong_hook *)h->user)->x;
    if (which == 0) CHECK(tp_request_fetch(r, NULL) == -1);
    if (which == 1) CHECK(tp_request_feed(r, NULL, &t) == TP_ERR_ARG);
    if (which == 2) CHECK(tp_request_feed(r, x, NULL) == TP_ERR_ARG);
    if (which == 5) return tp_request_feed(r, x, &t); /* of two hooks */
    if (which == 3)
        for (int i = 0; i < 2; i++) CHECK(tp_request_feed(r, x, &t) == (i ? TP_ERR_ARG : TP_OK));
    return which == 4 ? tp_fail(TP_ERR_IO, "the hook's own") : TP_OK;
}
TEST(hooks_that_fail_end_the_run)
{
    static const char *const sentence[6] = {"a hook asks for a node that does not exist",
                                            "a hook feeds a node that does not exist",
                                            "a hook feeds 'x' a value that is NULL",
                                            "a hook feeds 'x' twice in one run",
                                            "the hook's own",
                                            "two hooks feed 'x' in one run"};
    for (int i = 0; i < 6; i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, scalar()), *c = tp_const(g, 2);
        wrong_hook user = {i, x};
        tp_hook h;
        memset(&h, 0, sizeof h);
        h.user = &user, h.before_run = ask_for_nothing;
        tp_hook *list[] = {&h, &h};
        tp_session *s = tp_session_new(g, NULL);
        tp_hooked_session *session = tp_hooked_session_new(s, list, i == 5 ? 2 : 1);
        CHECK(tp_hooked_run(session, &c, 1, NULL) == (i == 4 ? TP_ERR_IO : TP_ERR_ARG));
        CHECK_STR(tp_last_error(), sentence[i]);
        CHECK(tp_exec_random_step(tp_hooked_session_exec(session)) == 0); /* nothing ran */
        tp_node *none = NULL;
        CHECK_ERR(tp_hooked_run(session, &none, 1, NULL), TP_ERR_ARG,
                  "tp_hooked_run: fetch 0 is NULL: no node of that name, or no gradient");
        tp_hooked_session_free(session);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* ==== names ============================================================================================ */

/* A name that is taken gets the first suffix that is free; scopes and operations share the names. */
TEST(names_get_the_first_free_suffix)
{
    static const char *const steps[][2] = {
        /* "+": a node of this name; ">": a scope of this name is opened and closed; "=": into exactly this scope; then the name */
        {"+x", "x"},       {"+x", "x_1"}, {"+x_2", "x_2"}, {"+x", "x_3"},     {"+x_1", "x_1_1"},
        {">x", "x_4"},     {">s", "s"},   {"+s", "s_1"},   {">s", "s_2"},     {"+s/y", "s/y"},
        {"+s/y", "s/y_1"}, {"=s", "s"},   {"=new", "new"}, {">new", "new_1"}, {"+a b(c).d-e/f", "a b(c).d-e/f"},
        {"+X", "X"},       {"+_", "_"},   {"+9", "9"},
    };
    tp_graph *g = tp_graph_new(NULL);
    for (int i = 0; i < TP_COUNT(steps); i++) {
        const char *name = steps[i][0] + 1;
        char exact[64];
        if (steps[i][0][0] == '+') {
            tp_node *n = tp_placeholder(g, name, TP_F32, scalar());
            CHECK_STR(tp_node_name(n), steps[i][1]);
            CHECK(tp_graph_find(g, steps[i][1]) == n && tp_graph_find_operation(g, steps[i][1]) == n->op);
            continue;
        }
        snprintf(exact, sizeof exact, "%s%s", name, steps[i][0][0] == '=' ? "/" : "");
        tp_name_scope_push(g, exact);
        CHECK_STR(tp_name_scope(g), steps[i][1]);
        tp_name_scope_push(g, i % 2 ? "" : NULL); /* the root, from anywhere */
        CHECK_STR(tp_name_scope(g), "");
        tp_name_scope_pop(g);
        tp_name_scope_pop(g);
        CHECK_STR(tp_name_scope(g), "");
    }
    CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g));
    tp_graph_free(g);
}

TEST(nodes_are_found_by_name_and_output)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, shape1(12)), *part[12];
    TP_NAME_SCOPE(g, "p") tp_split(x, 12, 0, part);
    static const struct {
        const char *name;
        int output; /* of p/Split; -1: none, 100: x */
    } t[] = {{"p/Split", 0},   {"p/Split:0", 0}, {"p/Split:1", 1},  {"p/Split:9", 9},  {"p/Split:10", -1},
             {"p/Split:", -1}, {":0", -1},       {"p/Split:a", -1}, {"p/Split:/", -1}, {"p/Split::", -1},
             {"p/Splitt", -1}, {"p/Spli", -1},   {"Split", -1},     {"", -1},          {"x", 100},
             {"x:0", 100},     {"x:1", -1},      {"x:00", -1},      {"x0", -1},        {"p", -1}};
    for (int i = 0; i < TP_COUNT(t); i++)
        CHECK_MSG(tp_graph_find(g, t[i].name) == (t[i].output < 0      ? NULL
                                                  : t[i].output == 100 ? x
                                                                       : part[t[i].output]),
                  "%s", t[i].name);
    CHECK(tp_graph_find_operation(g, "p/Split:0") == NULL); /* an operation has no output */
    tp_node *w = tp_get_variable_as(g, "v/w", TP_F32, scalar(), tp_init_zeros());
    const tp_variable *v = tp_node_variable(w);
    CHECK(v && tp_find_variable(g, "v/w") == v && tp_find_variable(g, "v/w:0") == v);
    CHECK(!tp_find_variable(g, "v/w:1") && !tp_find_variable(g, "w") && !tp_find_variable(g, "x"));
    CHECK(v->graph == g && v->node == w && v->id == 0 && v->device == 0 && v->trainable && !v->local);
    CHECK(tp_graph_n_variables(g) == 1 && tp_graph_variable(g, 0) == v && tp_node_variable(x) == NULL);
    CHECK(tp_graph_n_operations(g) == 3 && tp_graph_operation(g, 1) == part[0]->op && part[0]->op->id == 1);
    tp_graph_free(g);
}

/* The distance of two words, with neighbours swapped, by the whole table. */
static int distance(const char *a, const char *b)
{
    static int d[40][40];
    const int n = (int)strlen(a), m = (int)strlen(b);
    for (int i = 0; i <= n; i++)
        for (int j = 0; j <= m; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            int least = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < least) least = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < least) least = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && d[i - 2][j - 2] + 1 < least)
                least = d[i - 2][j - 2] + 1;
            d[i][j] = least;
        }
    return d[n][m];
}

/* What is meant is the nearest name, of which a third is another at most, the last part of which is what was asked for, or that
 * goes on after it. */
TEST(what_is_meant_is_the_nearest_name)
{
    int guessed = 0, nothing_near = 0;
    for (uint64_t i = 0; i < 600; i++) {
        char word[4][24], want[64] = "nothing";
        const char *names[3];
        for (uint64_t k = 0; k < 4; k++) { /* of few letters, so that they are near to each other */
            const int n = 1 + (int)(tp_random_uniform(i, 1, k) * 11);
            for (int q = 0; q < n; q++)
                word[k][q] = q > 0 && q < n - 1 && tp_random_uniform(i, k + 2, 100 + (uint64_t)q) < 0.15f
                                 ? '/'
                                 : (char)('a' + (int)(tp_random_uniform(i, k + 2, (uint64_t)q) * 3));
            word[k][n] = 0;
        }
        for (int k = 0; k < 3; k++) {
            names[k] = word[k + 1];
            for (int q = 0; q < k; q++)
                if (strcmp(names[q], names[k]) == 0) word[k + 1][0] = (char)('x' + k);
        }
        if (strcmp(word[0], names[0]) == 0 || strcmp(word[0], names[1]) == 0 || strcmp(word[0], names[2]) == 0)
            continue;
        int best = 99;
        for (int k = 0; k < 3; k++) {
            const int a = (int)strlen(word[0]), b = (int)strlen(names[k]), longer = a > b ? a : b,
                      over = longer - (a > b ? b : a);
            const char *whole = a > b ? word[0] : names[k], *part = a > b ? names[k] : word[0];
            const bool last = over > 1 && whole[over - 1] == '/' && strcmp(whole + over, part) == 0;
            int d = last ? 1 : distance(word[0], names[k]);
            const int length = (int)strlen(part), most = longer / 3 + (a < 3);
            const bool begins = length >= 3 && strncmp(whole, part, (size_t)length) == 0 && whole[length] == '/';
            if (begins && (d > 2 || d > most)) d = 2;
            else if (!last && d > most) continue;
            if (d < best) snprintf(want, sizeof want, "; did you mean '%s'?", names[k]);
            if (d < best) best = d;
        }
        CHECK_MSG(strcmp(meant(word[0], names, 3), want) == 0, "'%s' of '%s', '%s', '%s': %s, not %s", word[0],
                  names[0], names[1], names[2], meant(word[0], names, 3), want);
        guessed += best < 99, nothing_near += best == 99;
    }
    CHECK_MSG(guessed > 50 && nothing_near > 100, "%d guessed, %d not", guessed, nothing_near);
    /* names of 127 characters are compared, longer ones are not */
    for (int n = 126; n <= 129; n++) {
        char a[160], b[160], want[200];
        const char *name = b;
        memset(a, 'a', sizeof a);
        memset(b, 'a', sizeof b);
        a[n] = b[n] = 0;
        b[n / 2] = 'b';
        snprintf(want, sizeof want, "; did you mean '%s'?", b);
        CHECK_STR(meant(a, &name, 1), n < 128 ? want : "nothing");
    }
}

/* ==== plans that are kept ============================================================================== */

TEST(the_plan_that_was_not_used_for_longest_goes)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, shape1(TP_ANY)), *y[40];
    for (int i = 0; i < 40; i++) y[i] = tp_affine(x, (float)i, 1);
    tp_session *s = tp_session_new(g, NULL);
    tp_exec *e = tp_session_exec(s);
    static const float v[64] = {1, 2, 3};
    const tp_tensor *out = NULL;
    tp_plan_info info;
    const tp_feed f = feed_f32(x, shape1(3), v);
    for (int i = 0; i < 32; i++) CHECK_OK(tp_session_run(s, &f, 1, &y[i], 1, &out));
    CHECK_OK(tp_session_run(s, &f, 1, &y[0], 1, &out)); /* now number 1 is the oldest */
    for (int i = 0; i < 32; i++) CHECK_OK(tp_exec_plan_info(e, &y[i], 1, &info));
    for (int i = 32; i < 35; i++) {
        CHECK_OK(tp_session_run(s, &f, 1, &y[i], 1, &out));
        CHECK(tp_tensor_get(out, 2) == 3 * i + 1);
    }
    for (int i = 0; i < 40; i++) {
        const bool there = i == 0 || (i > 3 && i < 35);
        CHECK_MSG(tp_exec_plan_info(e, &y[i], 1, &info) == (there ? TP_OK : TP_ERR_STATE), "%d", i);
    }
    for (int round = 0; round < 2; round++) /* and what is gone is made again */
        for (int i = 0; i < 40; i++) {
            CHECK_OK(tp_session_run(s, &f, 1, &y[i], 1, &out));
            CHECK(tp_tensor_get(out, 2) == 3 * i + 1);
        }
    tp_session_free(s);
    tp_graph_free(g);
}

/* Plans are of shapes and of what is fed; what is told is of the one that ran last. */
TEST(a_plan_for_each_shape_and_each_way_to_feed)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, shape2(TP_ANY, TP_ANY)), *h = tp_square(x), *y = tp_neg(h);
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, scalar(), tp_init_constant(7)), *two[2] = {y, w},
            *swapped[2] = {w, y};
    tp_session *s = tp_session_new(g, NULL);
    tp_exec *e = tp_session_exec(s);
    static float v[24];
    for (int i = 0; i < 24; i++) v[i] = (float)(i + 1);
    tp_plan_info info;
    const tp_tensor *out[2];
    static const int64_t shape[][2] = {{2, 3}, {3, 2}, {6, 1}, {4, 6}, {2, 3}, {0, 5}, {1, 1}};
    for (int i = 0; i < TP_COUNT(shape); i++)
        for (int way = 0; way < 4; way++) { /* x; its square; both orders of the fetches */
            const tp_feed f = feed_f32(way == 1 ? h : x, shape2(shape[i][0], shape[i][1]), v);
            tp_node *const *fetch = way == 3 ? swapped : two;
            CHECK_OK(tp_session_run(s, &f, 1, fetch, 2, out));
            const tp_tensor *of = out[way == 3];
            const int64_t n = shape[i][0] * shape[i][1];
            CHECK(of->shape.dim[0] == shape[i][0] && of->shape.dim[1] == shape[i][1] &&
                  tp_tensor_get(out[way != 3], 0) == 7);
            for (int64_t k = 0; k < n; k++)
                CHECK(tp_tensor_get(of, k) == -(double)v[k] * (way == 1 ? 1 : (double)v[k]));
            CHECK_OK(tp_exec_plan_info(e, fetch, 2, &info));
            CHECK_MSG(info.flops == (double)n * (way == 1 ? 1 : 2) && info.n_fused == (way == 1 ? 1 : 2), "%g FLOPs",
                      info.flops);
        }
    tp_session_free(s);
    tp_graph_free(g);
}

/* The random step numbers runs: the same step, the same numbers. */
TEST(a_random_step_is_repeated)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *noise = tp_rand_uniform(g, shape1(5), 0, 1), *other = tp_rand_uniform(g, shape1(5), 0, 1);
    tp_node *both[2] = {noise, other};
    tp_session *s = tp_session_new(g, NULL);
    tp_exec *e = tp_session_exec(s);
    for (int round = 0; round < 2; round++) {
        tp_exec_set_random_step(e, 10);
        for (uint64_t step = 10; step < 14; step++) {
            const tp_tensor *out[2];
            CHECK(tp_exec_random_step(e) == step);
            CHECK_OK(tp_session_run(s, NULL, 0, both, 2, out));
            for (int k = 0; k < 2; k++) {
                const uint64_t key = tp_random_key(42, tp_hash_name(tp_node_name(both[k])));
                for (uint64_t i = 0; i < 5; i++)
                    CHECK(((const float *)out[k]->data)[i] == tp_random_uniform(key, step, i));
            }
        }
    }
    tp_session_free(s);
    tp_graph_free(g);
}

/* ==== summaries ======================================================================================== */

/* Each type of summary: its tag, its kind, and the number that it is of. x has 3 of 8 zeros. */
TEST(a_summary_of_each_type)
{
    static const float v[8] = {0, 1, -2, 3, 0, 4, -5, 0};
    static const struct {
        int type;
        const char *suffix;
        int kind;
        double value; /* NAN: of x itself */
    } t[] = {{TP_SUMMARY_SCALAR, "-summary", TP_SUMMARY_SCALAR, NAN},
             {TP_SUMMARY_HISTOGRAM, "-histogram", TP_SUMMARY_HISTOGRAM, NAN},
             {TP_SUMMARY_IMAGE, "", TP_SUMMARY_IMAGE, NAN},
             {TP_SUMMARY_SPARSITY, "-sparsity", TP_SUMMARY_SCALAR, 3.0 / 8},
             {TP_SUMMARY_MEAN, "-mean", TP_SUMMARY_SCALAR, 1.0 / 8},
             {TP_SUMMARY_RMS, "-rms", TP_SUMMARY_SCALAR, 2.6220221204253788}}; /* the root of 55/8 */
    for (int all = 0; all < 3; all++) { /* each alone; all of them; in another collection */
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, shape2(2, 4)), *fetch[6];
        const tp_tensor *out[6];
        const char *const collection = all == 2 ? "mine" : NULL;
        int n = 0, sum = 0;
        for (int i = 0; i < 6; i++) sum += t[i].type;
        CHECK(sum == 63);
        for (int i = 0; i < 6 && !all; i++) tp_add_tensor_summary(x, t[i].type, "y", NULL);
        if (all) tp_add_tensor_summary(x, sum, all == 2 ? "y" : NULL, collection);
        tp_node *const *made = tp_collection(g, collection ? collection : TP_KEY_SUMMARIES, &n);
        if (!CHECK_MSG(n == 6, "%d summaries", n)) break;
        memcpy(fetch, made, sizeof fetch);
        tp_collection(g, TP_KEY_SUMMARIES, &n);
        CHECK(n == (all == 2 ? 0 : 6));
        tp_session *s = tp_session_new(g, NULL);
        const tp_feed f = feed_f32(x, shape2(2, 4), v);
        CHECK_OK(tp_session_run(s, &f, 1, fetch, 6, out));
        for (int i = 0; i < 6; i++) {
            char tag[32];
            /* the image's has the name itself, which x has already */
            snprintf(tag, sizeof tag, "%s%s", all == 1 ? t[i].kind == TP_SUMMARY_IMAGE ? "x_1" : "x" : "y",
                     t[i].suffix);
            CHECK_STR(tp_summary_info(fetch[i])->tag, tag);
            CHECK_STR(tp_node_name(fetch[i]), tag);
            CHECK(tp_summary_info(fetch[i])->kind == t[i].kind);
            CHECK_NEAR(tp_tensor_get(out[i], 0), isnan(t[i].value) ? 0 : t[i].value, 1e-7, 1e-6);
            CHECK(tp_tensor_size(out[i]) == (isnan(t[i].value) ? 8 : 1));
        }
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* Summaries are of the main training tower and of what is in no tower. */
TEST(summaries_count_in_the_main_tower_only)
{
    for (int kind = 0; kind < 4; kind++) { /* no tower, the main one, the second, inference */
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, shape2(2, 4)), *c = tp_named(tp_const(g, 1), "c");
        variable_of(g, "W");
        int n = 0, moving = 0;
        if (kind) enter(g, "t", kind == 2 ? "t" : NULL, kind < 3, kind == 2, 2);
        tp_add_tensor_summary(x, TP_SUMMARY_MEAN, NULL, NULL);
        tp_add_activation_summary(x, TP_SUMMARY_RMS, "a", NULL);
        tp_add_param_summary(g, NULL, TP_SUMMARY_HISTOGRAM);
        tp_add_moving_summary_n(&c, 1, NULL);
        tp_collection(g, TP_KEY_SUMMARIES, &n);
        tp_collection(g, TP_KEY_MOVING_SUMMARY_OPS, &moving);
        CHECK_MSG(n == (kind < 2 ? 4 : 0) && moving == (kind < 2 ? 1 : 0), "%d: %d, %d", kind, n, moving);
        CHECK(tp_graph_n_variables(g) == (kind < 2 ? 3 : 1));
        if (kind) tp_tower_leave(g);
        CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g));
        tp_graph_free(g);
    }
}

/* b = d b + (1-d) x, y = b / (1 - d^n); names without the tower; two at once, in collections of one's own. */
TEST(moving_summaries_by_their_formula)
{
    static const struct {
        float decay;
        double is;
    } d[] = {{0, 0.95f}, {0.5f, 0.5}, {TP_ZERO, 0}};
    static const float v[4] = {3, -1, 7, 2};
    static const char *const stripped[][2] = {
        {"tower0/x", "x"},        {"a/tower12/x", "a/x"}, {"tower/x", "tower/x"}, {"tower1x/y", "tower1x/y"},
        {"tower1/tower2/x", "x"}, {"tower1", "tower1"},   {"xtower3/y", "xy"},    {"towertower4/z", "towerz"}};
    for (int i = 0; i < TP_COUNT(d); i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "tower0/x", TP_F32, scalar()),
                *two[2] = {x, tp_placeholder(g, "y", TP_F64, scalar())};
        tp_moving_summary_desc md;
        memset(&md, 0, sizeof md);
        md.decay = d[i].decay, md.collection = "ops", md.summary_collection = "seen";
        tp_add_moving_summary_n(two, 2, &md);
        int n = 0, seen = 0, none = 0;
        tp_node *const *ops = tp_collection(g, "ops", &n), *const *tags = tp_collection(g, "seen", &seen), *fetch[2];
        tp_collection(g, TP_KEY_MOVING_SUMMARY_OPS, &none);
        if (!CHECK(n == 2 && seen == 2 && none == 0)) continue;
        tp_collection(g, TP_KEY_SUMMARIES, &none);
        CHECK(none == 0);
        CHECK_STR(tp_summary_info(tags[0])->tag, "x-summary");
        CHECK_STR(tp_summary_info(tags[1])->tag, "y-summary");
        static const char *const names[4] = {"EMA/x/biased", "EMA/x/local_step", "EMA/y/biased", "EMA/y/local_step"};
        for (int k = 0; k < 4; k++) {
            const tp_variable *w = tp_graph_variable(g, k);
            CHECK_STR(w->name, names[k]);
            CHECK(w->local && !w->trainable && w->dtype == TP_F32 && w->shape.ndim == 0);
        }
        fetch[0] = ops[0], fetch[1] = ops[1];
        tp_session *s = tp_session_new(g, NULL);
        double biased[2] = {0, 0}, power = 1;
        for (int step = 0; step < 4; step++) {
            const double y = 10 * (double)v[3 - step];
            tp_feed f[2];
            const tp_tensor *out[2];
            f[0] = feed_f32(x, scalar(), &v[step]);
            f[1] = f[0], f[1].node = two[1];
            tp_tensor_view(&f[1].value, TP_F64, scalar(), &y);
            CHECK_OK(tp_session_run(s, f, 2, fetch, 2, out));
            power *= d[i].is;
            for (int k = 0; k < 2; k++) {
                biased[k] = d[i].is * biased[k] + (1 - d[i].is) * (k ? y : (double)v[step]);
                CHECK_NEAR(tp_tensor_get(out[k], 0), biased[k] / (1 - power), 2e-6, 2e-6);
            }
        }
        tp_session_free(s);
        tp_graph_free(g);
    }
    for (int i = 0; i < TP_COUNT(stripped); i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, stripped[i][0], TP_F32, scalar());
        char name[64];
        tp_add_moving_summary_n(&x, 1, NULL);
        snprintf(name, sizeof name, "EMA/%s/biased", stripped[i][1]);
        CHECK_MSG(tp_find_variable(g, name) != NULL, "%s: %s", stripped[i][0], tp_graph_variable(g, 0)->name);
        tp_graph_free(g);
    }
    /* where variables are only reused there is a warning instead */
    tp_test_keep_log();
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, scalar());
    push_scope(g, NULL, TP_REUSE_YES);
    tp_add_moving_summary_n(&x, 1, NULL);
    tp_set_log(NULL, NULL);
    CHECK_STR(tp_test_logged, "the moving summary of 'x' is ignored: its variable scope only reuses variables\n");
    CHECK(tp_graph_n_variables(g) == 0 && tp_graph_status(g) == TP_OK);
    tp_graph_free(g);
}

/* ==== variables and collections ======================================================================== */

static tp_node *scaled_sum(tp_node *w, float scale) { return tp_affine(tp_sum(w), scale, 0); }

/* Without memory for it, what a tower added to a collection is nothing. */
TEST(a_towers_collection_without_memory)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_tower_desc d;
    memset(&d, 0, sizeof d);
    d.name = "t", d.is_training = true;
    tp_node *x = tp_const(g, 1);
    tp_collection_add(g, "mine", x);
    tp_tower_enter(g, &d);
    tp_collection_add(tp_collection_add(g, "mine", x), "mine", x);
    bool failed = false;
    for (int i = 0; i < 5000 && !failed; i++) { /* the graph takes memory in blocks */
        int n = 7;
        tp_test_fail_after(1);
        tp_node *const *item = tp_tower_collection(g, "mine", &n);
        failed = tp_test_alloc_failed();
        tp_test_alloc_reset();
        CHECK(failed ? !item && n == 0 : n == 2 && item && item[1] == x);
    }
    CHECK(failed && tp_graph_status(g) == TP_ERR_NOMEM);
    tp_tower_leave(g);
    tp_graph_free(g);
}

/* tp_collection_add gives the graph back, whatever comes of it, so that calls can stand in one another. */
TEST(adding_to_a_collection_gives_the_graph)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_const(g, 1);
    int n = 0, failures = 0;
    CHECK(tp_collection_add(tp_collection_add(g, "mine", x), "mine", x) == g &&
          tp_collection_add(g, "mine", NULL) == g);
    CHECK(tp_graph_status(g) == TP_ERR_ARG && tp_collection_add(g, "mine", tp_poison(g)) == g);
    tp_collection(g, "mine", &n);
    CHECK(n == 2);
    tp_graph_free(g);
    for (int i = 1; i < 8; i++) {
        g = tp_graph_new(NULL);
        x = tp_const(g, 1);
        tp_test_fail_after(0);
        long room = 0; /* how often 16 bytes are in a block; then fewer are left of one */
        for (long count = tp_test_alloc_count(); tp_test_alloc_count() == count;) tp_graph_alloc(g, 16);
        for (long count = tp_test_alloc_count(); tp_test_alloc_count() == count; room++) tp_graph_alloc(g, 16);
        for (long k = 12 - i; k < room; k++) tp_graph_alloc(g, 16);
        tp_test_fail_after(i < 4 ? i : 1);
        bool same = true;
        for (int k = 0; k < 12; k++) {
            char key[40];
            snprintf(key, sizeof key, "a collection of a long name: %d", k);
            same = tp_collection_add(g, key, x) == g && same;
        }
        const bool failed = tp_test_alloc_failed();
        tp_test_alloc_reset();
        CHECK_MSG(same && (tp_graph_status(g) == TP_ERR_NOMEM) == failed, "allocation %d", i);
        failures += failed;
        tp_graph_free(g);
    }
    CHECK_MSG(failures > 1, "%d failures", failures);
}

/* The lists of inputs and variables of an update: memory may end before, between and after them. */
static tp_node *update_of_six(int kind, tp_node *const *v, tp_node *const *grad, tp_node *lr)
{
    if (kind == 0) return tp_apply_gradient_descent(v, grad, 6, lr, NULL);
    if (kind == 1) return tp_apply_momentum(v, v + 3, grad, 3, lr, 0.9f, false, NULL);
    return tp_apply_adam(v, v + 2, v + 4, grad, 2, lr, lr, lr, 0.9f, 0.999f, 1e-8f, NULL);
}
TEST(updates_without_memory)
{
    int failures = 0;
    for (int kind = 0; kind < 3; kind++)
        for (int left = 0; left < 100; left++) { /* so often are 16 bytes left in the graph's memory */
            tp_graph *g = tp_graph_new(NULL);
            tp_node *v[6], *grad[6], *lr = tp_const(g, 1);
            for (int i = 0; i < 6; i++) {
                char name[8];
                snprintf(name, sizeof name, "v%d", i);
                v[i] = tp_get_variable_as(g, name, TP_F32, shape1(3), tp_init_ones());
            }
            for (int i = 0; i < 6; i++) grad[i] = tp_ones_like(v[i]);
            update_of_six(kind, v, grad, lr);
            tp_test_fail_after(0);
            long room = 0; /* how often 16 bytes are in a block; the next one is twice as large */
            for (long count = tp_test_alloc_count(); tp_test_alloc_count() == count;) tp_graph_alloc(g, 16);
            for (long count = tp_test_alloc_count(); tp_test_alloc_count() == count; room++) tp_graph_alloc(g, 16);
            for (long k = left + 1; k < 2 * room; k++) tp_graph_alloc(g, 16);
            CHECK(tp_test_alloc_count() < 4);
            tp_test_fail_after(1);
            tp_node *update = update_of_six(kind, v, grad, lr);
            const bool failed = tp_test_alloc_failed();
            tp_test_alloc_reset();
            CHECK_MSG((tp_graph_status(g) == TP_ERR_NOMEM) == failed && tp_is_poison(update) == failed,
                      "update %d with %d left: %s", kind, left, tp_status_name(tp_graph_status(g)));
            failures += failed;
            tp_graph_free(g);
        }
    CHECK_MSG(failures > 30 && failures < 200, "%d failures", failures);
}

/* A plan of many assignments fills block after block: where there is none for one of them, none is left out. */
TEST(assignments_without_memory)
{
    enum { N = 300 };
    int failures = 0;
    for (long n = 1, failed = 1; failed && n < 10000; n++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *set[N];
        for (int i = 0; i < N; i++) {
            char name[8];
            snprintf(name, sizeof name, "v%d", i);
            set[i] = tp_assign(tp_get_scalar_variable(g, name, 0), tp_const(g, (float)i), NULL);
        }
        tp_node *all = tp_group(g, set, N, "all");
        tp_session *s = tp_session_new(g, NULL);
        tp_test_fail_after(n);
        const tp_status st = tp_session_run(s, NULL, 0, &all, 1, NULL);
        failed = tp_test_alloc_failed();
        tp_test_alloc_reset();
        failures += st != TP_OK;
        CHECK_MSG(st == (failed ? TP_ERR_NOMEM : TP_OK), "allocation %ld: %s", n, tp_status_name(st));
        tp_session_free(s);
        tp_graph_free(g);
    }
    CHECK(failures > 5);
}

/* The name of a constant instead of its value: "SUMMARIES" for TP_KEY_SUMMARIES. */
TEST(names_of_collection_constants_are_no_collections)
{
    static const char *const wrong[] = {"SUMMARIES", "UPDATE_OPS", "TP_KEY_GLOBAL_VARIABLES"};
    for (int i = 0; i < TP_COUNT(wrong); i++) {
        char want[80];
        tp_graph *g = tp_graph_new(NULL);
        int n = 7;
        tp_test_keep_log();
        CHECK(tp_collection(g, wrong[i], &n) == NULL && n == 0);
        tp_set_log(NULL, NULL);
        snprintf(want, sizeof want, "there is no collection '%s': write the constant TP_KEY_", wrong[i]);
        CHECK_HAS(tp_test_logged, want);
        CHECK(tp_collection_add(g, wrong[i], tp_const(g, 1)) == g && tp_graph_status(g) == TP_ERR_NAME);
        CHECK_HAS(tp_graph_error(g), i == 2 ? "is \"variables\"" : "write the constant TP_KEY_");
        tp_graph_free(g);
    }
}
TEST(scalar_summaries_are_of_scalars)
{
    for (int i = 0; i < 2; i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, i ? "one" : "many", TP_F32, i ? shape1(1) : shape1(TP_ANY));
        tp_test_keep_log();
        tp_add_tensor_summary(x, TP_SUMMARY_SCALAR, NULL, NULL);
        tp_set_log(NULL, NULL);
        CHECK(tp_graph_status(g) == TP_OK);
        if (i) CHECK_STR(tp_test_logged, "");
        else
            CHECK_HAS(tp_test_logged,
                      "'many' as a scalar shows its first element only, its shape is (?): take its mean");
        tp_graph_free(g);
    }
}
/* What a remapping function gets itself is not remapped: a shadow of each variable does not get one of its own. */
static tp_node *sum_with_shadow(tp_node *v, void *user)
{
    char name[80];
    int *calls = (int *)user;
    snprintf(name, sizeof name, "shadow%d", (*calls)++);
    return tp_add(v, tp_get_variable_as(tp_node_graph(v), name, TP_F32, shape1(2), tp_init_constant(3)));
}
TEST(variables_of_a_remapping_function_are_not_remapped)
{
    tp_graph *g = tp_graph_new(NULL);
    int calls = 0;
    tp_remap_variables_push(g, sum_with_shadow, &calls);
    tp_node *y = tp_get_variable_as(g, "w", TP_F32, shape1(2), tp_init_constant(4));
    tp_variable_scope_pop(g);
    CHECK(calls == 1 && tp_find_variable(g, "shadow0") && !tp_find_variable(g, "shadow1"));
    tp_session *s = tp_session_new(g, NULL);
    tp_tensor t;
    memset(&t, 0, sizeof t);
    if (CHECK_OK(tp_session_eval(s, y, &t))) CHECK(tp_tensor_get(&t, 1) == 7);
    tp_tensor_free(&t);
    tp_session_free(s);
    tp_graph_free(g);
}
TEST(a_tower_that_closes_too_many_scopes)
{
    tp_tower_desc d;
    memset(&d, 0, sizeof d);
    tp_graph *g = tp_graph_new(NULL);
    tp_tower_enter(g, &d);
    tp_variable_scope_pop(g);
    tp_tower_leave(g);
    CHECK_HAS(tp_graph_error(g), "closed more scopes than it opened");
    tp_graph_free(g);
}
TEST(variables_join_their_collections)
{
    for (int i = 0; i < 16; i++) {
        tp_graph *g = tp_graph_new(NULL);
        const bool local = i & 1, untrained = i & 2, more = i & 4, regular = i & 8;
        tp_variable_desc d;
        memset(&d, 0, sizeof d);
        d.name = "w", d.shape = shape1(3), d.init = tp_init_constant(2), d.local = local;
        d.trainable = untrained ? TP_NO : i & 4 ? TP_YES : TP_UNSET;
        d.collection = more ? "more" : NULL;
        d.regularizer.fn = scaled_sum;
        d.regularizer.scale = regular ? 0.5f : 0;
        TP_NAME_SCOPE(g, "any") { tp_get_variable(g, &d); }
        const tp_variable *v = tp_find_variable(g, "w");
        CHECK(v && v->local == local && v->trainable == !untrained);
        static const char *const keys[] = {TP_KEY_GLOBAL_VARIABLES,      TP_KEY_LOCAL_VARIABLES,
                                           TP_KEY_TRAINABLE_VARIABLES,   "more",
                                           TP_KEY_REGULARIZATION_LOSSES, TP_KEY_MODEL_VARIABLES};
        const int want[] = {!local, local, !untrained, more, regular, 0};
        tp_node *loss = NULL;
        for (int k = 0; k < TP_COUNT(keys); k++) {
            int n = 7;
            tp_node *const *item = tp_collection(g, keys[k], &n);
            CHECK_MSG(n == want[k] && (n == 0 || k == 4 || item[0] == v->node), "%d: %d in %s", i, n, keys[k]);
            if (k == 4 && n) loss = item[0];
        }
        CHECK(!loss == !regular);
        if (loss) {
            tp_session *s = tp_session_new(g, NULL);
            CHECK_STR(tp_node_name(loss), "any/Regularizer/Affine");
            CHECK_NEAR(value_at(s, loss, 0), 0.5 * 2 * 3, 0, 0);
            tp_session_free(s);
        }
        tp_graph_free(g);
    }
}

/* Getters are asked from the inside out; what one changes the next one sees. */
static char asked[64];
static tp_node *letter(tp_getter_call *call, tp_variable_desc *d, void *user)
{
    const size_t n = strlen(asked);
    asked[n] = *(const char *)user, asked[n + 1] = 0;
    d->init.a = d->init.a * 10 + (float)(asked[n] - 'a');
    tp_node *v = tp_getter_next(call, d);
    asked[strlen(asked)] = (char)(*(const char *)user - 32);
    return tp_affine(v, 1, 0.5f);
}
TEST(getters_are_asked_from_the_inside_out)
{
    memset(asked, 0, sizeof asked);
    tp_graph *g = tp_graph_new(NULL);
    static char names[] = "bcd";
    for (int i = 0; i < 3; i++) {
        tp_variable_scope_desc d = scope_desc(i == 1 ? "s" : NULL, 0);
        d.getter = letter, d.getter_user = &names[i];
        tp_variable_scope_push(g, &d);
        push_scope(g, NULL, 0); /* without one */
    }
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, scalar(), tp_init_constant(1));
    CHECK_STR(asked, "dcbBCD");
    const tp_variable *v = tp_find_variable(g, "s/w");
    if (CHECK(v && tp_graph_n_variables(g) == 1)) {
        tp_session *s = tp_session_new(g, NULL);
        CHECK_NEAR(value_at(s, v->node, 0), 1321, 0, 0);
        CHECK_NEAR(value_at(s, w, 0), 1322.5, 0, 0);
        tp_session_free(s);
    }
    /* freezing something that is not a variable any more */
    tp_test_keep_log();
    tp_freeze_variables_push(g, false, true);
    tp_node *y = tp_get_variable_as(g, "y", TP_F32, scalar(), tp_init_constant(0));
    tp_set_log(NULL, NULL);
    char want[128];
    snprintf(want, sizeof want, "freeze_variables: '%s' is a tensor that another getter made\n", tp_node_name(y));
    CHECK_STR(tp_test_logged, want);
    CHECK(!tp_find_variable(g, "s/y")->trainable && !in_collection(g, TP_KEY_MODEL_VARIABLES, "s/y"));
    tp_graph_free(g);
}

/* The variable plus one that the function makes ("late"), or finds where it was made before. */
static tp_node *with_another(tp_node *var, void *user)
{
    tp_graph *g = tp_node_graph(var);
    const tp_variable *early = tp_find_variable(g, "early");
    (void)user;
    return tp_add(var, early ? early->node : tp_get_variable_as(g, "late", TP_F32, scalar(), tp_init_constant(0)));
}
TEST(what_a_remapping_makes_while_frozen_is_named)
{
    for (int i = 0; i < 6; i++) {
        tp_test_keep_log();
        tp_graph *g = tp_graph_new(NULL);
        if (i >= 4) variable_of(g, "early");
        push_scope(g, NULL, TP_REUSE_AUTO);
        if (i & 1) tp_remap_variables_push(g, with_another, NULL); /* around the freezing or in it */
        tp_freeze_variables_push(g, !(i & 2), true);
        if (!(i & 1)) tp_remap_variables_push(g, with_another, NULL);
        for (int k = 0; k < 2; k++) tp_get_variable_as(g, k ? "b" : "a", TP_F32, scalar(), tp_init_constant(0));
        tp_set_log(NULL, NULL);
        const char *said =
            strstr(tp_test_logged, "freeze_variables: 'late', which the function of tp_remap_variables_push");
        CHECK((said != NULL) == (i < 4) && !(said && strstr(said + 1, "freeze_variables: 'late'")));
        CHECK(i < 4 ? !tp_find_variable(g, "late")->trainable : tp_find_variable(g, "early")->trainable);
        CHECK(tp_graph_status(g) == TP_OK);
        tp_graph_free(g);
    }
}

/* A variable that is asked for twice under freezing is in the collection once. */
TEST(what_is_frozen_twice_is_listed_once)
{
    tp_graph *g = tp_graph_new(NULL);
    push_scope(g, NULL, TP_REUSE_AUTO);
    tp_freeze_variables_push(g, false, true);
    tp_node *a = variable_of(g, "a"), *b = variable_of(g, "b");
    CHECK(variable_of(g, "a") == a && variable_of(g, "b") == b && variable_of(g, "a") == a);
    int n = 0;
    tp_node *const *model = tp_collection(g, TP_KEY_MODEL_VARIABLES, &n);
    CHECK(n == 2 && model[0] == a && model[1] == b);
    tp_graph_free(g);
}

TEST(the_table_of_ops_by_number_and_name)
{
    int n = 0;
    const tp_op *row;
    CHECK(tp_op_registry(-1) == NULL && tp_op_find("no such op") == NULL && tp_op_find("") == NULL);
    for (; (row = tp_op_registry(n)) != NULL; n++) CHECK_MSG(tp_op_find(row->name) == row, "%s", row->name);
    CHECK(n > 100);
    for (int i = n; i < n + 5; i++) CHECK(tp_op_registry(i) == NULL);
    static const char *const sources[3] = {"placeholder", "constant", "variable"};
    for (int i = 0; i < 3; i++) CHECK_STR(tp_op_registry(n - 3 + i)->name, sources[i]);
}

/* ==== gradients ======================================================================================== */

TEST(gradients_as_nodes)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, scalar()), *w = tp_placeholder(g, "w", TP_F32, scalar());
    tp_node *i = tp_placeholder(g, "i", TP_I32, scalar());
    const tp_at here = {"model.c", 7}, there = {"train.c", 9};
    tp_graph_set_at(g, here);
    tp_node *y = NULL;
    TP_NAME_SCOPE(g, "fc") y = tp_named(tp_mul(x, w), "out");
    tp_graph_set_at(g, there);
    tp_node *z = tp_add(tp_tanh(y), y), *newer = tp_square(x), *dy = tp_const(g, 3);
    tp_node *to[6] = {w, x, y, z, newer, i}, *d[6];
    TP_NAME_SCOPE(g, "losses") tp_gradients_from(z, dy, to, 6, d);
    CHECK(d[0] && d[1] && d[2] && d[3] == dy && d[4] == NULL && d[5] == NULL);
    CHECK_STR(tp_name_scope(g), "");
    CHECK_STR(tp_node_name(d[0]), "gradients/fc/Mul_grad/Mul_1");
    CHECK_STR(tp_node_name(d[1]), "gradients/fc/Mul_grad/Mul");
    CHECK(d[0]->op->at.file && strcmp(d[0]->op->at.file, "model.c") == 0 &&
          d[0]->op->at.line == 7); /* of what it is of */
    tp_node *again = NULL;
    tp_gradients(z, &x, 1, &again);
    CHECK_STR(tp_node_name(again), "gradients_1/fc/Mul_grad/Mul");
    tp_node *ones[1];
    tp_gradients(z, &z, 1, ones); /* of itself: ones */
    tp_node *last = tp_const(g, 1);
    CHECK(last->op->at.line == 9);
    tp_session *s = tp_session_new(g, NULL);
    const float v[2] = {0.5f, -1.5f};
    tp_feed f[2];
    f[0] = feed_f32(x, scalar(), &v[0]), f[1] = feed_f32(w, scalar(), &v[1]);
    tp_node *fetch[5] = {d[0], d[1], d[2], again, ones[0]};
    const tp_tensor *out[5];
    CHECK_OK(tp_session_run(s, f, 2, fetch, 5, out));
    const double t = tanh(-0.75), slope = 1 - t * t + 1;
    CHECK_NEAR(tp_tensor_get(out[0], 0), 3 * slope * 0.5, 1e-5, 0);
    CHECK_NEAR(tp_tensor_get(out[1], 0), 3 * slope * -1.5, 1e-5, 0);
    CHECK_NEAR(tp_tensor_get(out[2], 0), 3 * slope, 1e-5, 0);
    CHECK_NEAR(tp_tensor_get(out[3], 0), slope * -1.5, 1e-5, 0);
    CHECK(tp_tensor_get(out[4], 0) == 1);
    tp_session_free(s);
    /* nothing to do, and nothing that can be done */
    const int n_op = tp_graph_n_operations(g);
    tp_node *none[2] = {x, x};
    tp_gradients(newer, &w, 1, none);
    CHECK(none[0] == NULL && none[1] == x);
    tp_gradients(tp_poison(g), to, 2, none);
    CHECK(none[0] == NULL && none[1] == NULL);
    to[1] = tp_poison(g);
    tp_gradients(z, to, 2, none);
    CHECK(none[0] == NULL && none[1] == NULL && tp_graph_n_operations(g) <= n_op + 1); /* the ones of newer */
    CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g));
    tp_graph_free(g);
}

/* The gradients of an op's inputs have as many places as there are inputs. However full the graph's memory is: where it ends
 * behind them, the address sanitizer sees what is written beyond. */
TEST(gradients_have_a_place_for_each_input)
{
    static const int ndim[6] = {3, 2, 1, 2, 1, 2};
    static const int64_t dims[6][3] = {{2, 1, 1}, {2, 2}, {2}, {2, 1}, {1}, {1, 1}}, image[4] = {1, 2, 2, 2};
    for (size_t full = 0; full < 4096; full += 16)
        for (int gru = 0; gru < 2; gru++) {
            tp_graph *g = tp_graph_new(NULL);
            tp_node *x[6], *dx[6], *y;
            const int n = gru ? 6 : 2;
            CHECK(tp_graph_alloc(g, full) != NULL);
            for (int i = 0; i < n; i++)
                x[i] =
                    tp_placeholder(g, "x", TP_F32, gru ? tp_make_shape_n(ndim[i], dims[i]) : tp_make_shape_n(4, image));
            if (gru) y = tp_nn_gru(x[0], x[1], x[2], x[3], x[4], x[5], false, NULL);
            else y = tp_bilinear_sampler(x[0], x[1], 0);
            tp_gradients(y, x, n, dx);
            for (int i = 0; i < n; i++) CHECK(dx[i] && tp_shape_equal(&dx[i]->shape, &x[i]->shape));
            CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g));
            tp_graph_free(g);
        }
}

/* An op of one's own that takes nothing and whose rule tells how many values it gives, as the first of a graph. */
static tp_status many_infer(tp_infer *s)
{
    s->n_out = TP_MAX_OUTPUTS;
    for (int i = 0; i < s->n_out; i++) s->out[i].dtype = TP_F32;
    return TP_OK;
}
static void many_kernel(const tp_call *k)
{
    for (int i = 0; i < k->n_out; i++)
        if (k->out[i].data) *(float *)k->out[i].data = (float)i;
}
TEST(the_first_op_may_give_any_number_of_values)
{
    tp_op row;
    row = *tp_op_find("neg");
    row.name = "many", row.label = "Many", row.flags = TP_OP_RANDOM;
    row.min_in = row.max_in = 0, row.n_out = -1;
    row.infer = many_infer, row.grad = NULL;
    row.naive_f32 = row.naive_f64 = row.fast = many_kernel;
    tp_graph *g = tp_graph_new(NULL);
    tp_apply_desc d;
    memset(&d, 0, sizeof d);
    d.row = &row;
    tp_node *y = tp_apply_ex(g, &d);
    if (CHECK_MSG(!tp_is_poison(y), "%s", tp_graph_error(g)) && CHECK(y->op->n_out == TP_MAX_OUTPUTS)) {
        tp_session *s = tp_session_new(g, NULL);
        tp_node *fetch[3] = {y, &y->op->out[100], &y->op->out[TP_MAX_OUTPUTS - 1]};
        const tp_tensor *out[3];
        if (CHECK_OK(tp_session_run(s, NULL, 0, fetch, 3, out)))
            CHECK(tp_tensor_get(out[0], 0) == 0 && tp_tensor_get(out[1], 0) == 100 &&
                  tp_tensor_get(out[2], 0) == TP_MAX_OUTPUTS - 1);
        tp_session_free(s);
    }
    tp_graph_free(g);
}

/* What reads a value for its shape alone passes no gradient, at any input up to the 32nd and beyond. */
TEST(gradients_do_not_flow_through_shapes)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, shape1(4)), *w = tp_placeholder(g, "w", TP_F32, shape1(4)), *d[2],
            *to[2] = {x, w};
    tp_gradients(tp_mul(tp_zeros_like(x), w), to, 2, d);
    CHECK(d[0] == NULL && d[1] != NULL);
    tp_gradients(tp_reshape_like(tp_square(x), w), to, 2, d);
    CHECK(d[0] != NULL && d[1] == NULL);
    tp_node *xs[40], *dx[40];
    for (int i = 0; i < 40; i++) xs[i] = tp_affine(x, (float)i, 0);
    tp_gradients(tp_add_n(xs, 40), xs, 40, dx);
    for (int i = 0; i < 40; i++) CHECK(dx[i] != NULL);
    tp_graph_free(g);
}

TEST(what_depends_on_what)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *a = tp_const(g, 1), *b = tp_neg(a), *c = tp_const(g, 2), *d = tp_add(b, c),
            *e = tp_with_dependencies(c, &b, 1);
    tp_node *const all[5] = {a, b, c, d, e};
    static const bool depends[5][5] = {/* row on column */
                                       {1, 0, 0, 0, 0},
                                       {1, 1, 0, 0, 0},
                                       {0, 0, 1, 0, 0},
                                       {1, 1, 1, 1, 0},
                                       {1, 1, 1, 0, 1}};
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 5; i++)
            for (int k = 0; k < 5; k++)
                CHECK_MSG(tp_depends_on(&all[i], 1, all[k]->op) == depends[i][k], "%d on %d", i, k);
    tp_node *const some[3] = {NULL, c, b}, *const less[3] = {NULL, NULL, a};
    CHECK(tp_depends_on(some, 3, a->op) && tp_depends_on(some, 2, c->op) && !tp_depends_on(some, 2, a->op));
    CHECK(tp_depends_on(less, 3, a->op) && !tp_depends_on(less, 3, c->op) && !tp_depends_on(less, 2, a->op));
    CHECK(!tp_depends_on(NULL, 0, a->op) && !tp_depends_on(all, 0, a->op) && !tp_depends_on(all, 5, tp_poison(g)->op));
    tp_test_fail_after(1); /* of nothing it is known without memory; of something it must be taken for true */
    CHECK(!tp_depends_on(NULL, 0, a->op) && !tp_depends_on(some, 0, c->op) && !tp_test_alloc_failed());
    CHECK(!tp_depends_on(some, 3, tp_poison(g)->op) && !tp_test_alloc_failed());
    CHECK(tp_depends_on(all, 1, c->op) && tp_test_alloc_failed());
    tp_test_alloc_reset();
    tp_node *const *lists[2] = {some, less};
    const int n[2] = {2, 3};
    CHECK(tp_dependency_of_fetches(lists, n, 2, a->op) && !tp_dependency_of_fetches(lists, n, 1, a->op));
    CHECK(tp_dependency_of_fetches(lists, n, 1, c->op) && !tp_dependency_of_fetches(lists, n, 0, c->op));
    tp_graph_free(g);
}

/* ==== rows of one's own that do not fit ================================================================= */

static tp_status shape_unknown(tp_infer *s)
{
    s->out[0] = s->in[0];
    s->out[0].shape.dim[0] = TP_ANY;
    return TP_OK;
}
static tp_status shape_same(tp_infer *s)
{
    s->out[0] = s->in[0];
    return TP_OK;
}
static tp_status shape_in_runs_only(tp_infer *s) /* when all is known it says no */
{
    s->out[0] = s->in[0];
    return tp_shape_known(&s->in[0].shape) ? tp_infer_fail(s, TP_ERR_SHAPE, "three is too %s", "much") : TP_OK;
}

TEST(plans_that_cannot_be_made_in_full)
{
    static tp_op row[4];
    const struct {
        const char *from;
        tp_dtype dtype;
        tp_status status;
        const char *sentence;
    } c[] = {
        {"neg", TP_F32, TP_ERR_SHAPE, "the shape of 'Mine' is still (?) when everything is fed"},
        {"neg", TP_F32, TP_ERR_SHAPE, "Mine: three is too much"},
        {"softmax", TP_F64, TP_ERR_UNSUPPORTED,
         "'mine' cannot run on float64 (node 'Mine'): its row has no naive_f64; tp_cast the inputs"},
        {"tanh", TP_I32, TP_ERR_DTYPE,
         "'Mine' (mine) does not work on int32: an element-wise row needs a block function for it (block_f32, "
         "block_f64, "
         "block_i32, block_i64)"},
    };
    for (int i = 0; i < TP_COUNT(c); i++) {
        row[i] = *tp_op_find(c[i].from);
        row[i].name = "mine", row[i].label = "Mine";
        if (i == 0) row[i].infer = shape_unknown;
        if (i == 1) row[i].infer = shape_in_runs_only;
        if (i == 2) row[i].naive_f64 = NULL;
        if (i == 3) row[i].infer = shape_same;
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", c[i].dtype, shape1(TP_ANY)), *y = tp_apply(g, &row[i], &x, 1, NULL);
        if (!CHECK_MSG(tp_graph_status(g) == TP_OK, "%d: %s", i, tp_graph_error(g))) continue;
        tp_session *s = tp_session_new(g, NULL);
        const double v[3] = {0, 0, 0};
        tp_feed f;
        memset(&f, 0, sizeof f);
        f.node = x;
        tp_tensor_view(&f.value, c[i].dtype, shape1(3), v);
        CHECK(tp_session_run(s, &f, 1, &y, 1, NULL) == c[i].status);
        CHECK_STR(TP_TEST_SAID(tp_last_error()), c[i].sentence);
        tp_session_free(s);
        tp_graph_free(g);
    }
    /* a fault of a row that has no sentence for it; what one tensor may hold */
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, shape2(TP_ANY, TP_ANY)),
            *y = tp_placeholder(g, "y", TP_F32, shape2(TP_ANY, TP_ANY));
    tp_node *fetch[3] = {tp_named(tp_add(x, y), "z"), tp_sum(x), NULL}, *pair[2] = {fetch[0], tp_const(g, 1)};
    fetch[2] = tp_apply(g, tp_op_find("size_ratio"), pair, 2, NULL);
    tp_session *s = tp_session_new(g, NULL);
    const int64_t n[2] = {1 << 21, 1 << 20};
    float *zeros = (float *)calloc((size_t)n[0], sizeof *zeros);
    tp_feed f[2];
    f[0] = feed_f32(x, shape2(n[0], 1), zeros), f[1] = feed_f32(y, shape2(1, n[1]), zeros);
    CHECK(tp_session_run(s, f, 2, fetch, 1, NULL) == TP_ERR_SHAPE);
    CHECK_STR(TP_TEST_SAID(tp_last_error()), "'Add' would have shape (2097152,1048576), too large for any memory");
    const tp_tensor *ratio[1] = {NULL};
    f[0] = feed_f32(x, shape2(n[1], 1), zeros); /* 2^40 elements are the most, of a value that nobody computes */
    CHECK(tp_session_run(s, f, 2, &fetch[2], 1, ratio) == TP_OK && tp_tensor_get(ratio[0], 0) == 1099511627776.0);
    f[0] = feed_f32(x, shape2(0, INT64_MAX), zeros); /* nobody infers what is fed */
    CHECK(tp_session_run(s, f, 1, &fetch[1], 1, NULL) == TP_ERR_SHAPE);
    CHECK_STR(tp_last_error(), "'x' is fed with the shape (0,9223372036854775807), larger than any memory");
    free(zeros);
    tp_session_free(s);
    tp_graph_free(g);
}

/* A machine of 32 bits: no size begins again at 0 where it passes 4 GiB, be it that of a value, of values together, or of scratch memory.
 * What is fed is never read. */
TEST(a_run_for_which_no_memory_is_large_enough)
{
    if (sizeof(size_t) > 4) TEST_SKIP("sizes have more than 32 bits here");
    static float f[1];
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, shape2(TP_ANY, TP_ANY)),
            *y = tp_placeholder(g, "y", TP_F32, shape2(TP_ANY, TP_ANY)), *product[4];
    for (int i = 0; i < 4; i++) product[i] = tp_matmul(tp_mul(x, tp_const(g, (float)(i + 2))), y);
    tp_node *row = tp_reshape(x, TP_ANY), *normed = tp_nn_batch_norm_infer(x, row, row, row, row, 1, 1e-5f);
    tp_session *s = tp_session_new(g, NULL);
    const struct {
        int64_t x[2], y[2];
        tp_node *const *fetch;
        int n_fetch;
        double least; /* megabytes */
    } c[] = {
        {{1 << 15, 1}, {1, 1 << 15}, product, 1, 4096}, /* one value, of 2^32 bytes */
        {{1 << 14, 1}, {1, 1 << 14}, product, 4, 2048}, /* values of 2^30 bytes, at once */
        {{1, 5478276}, {1, 1}, &normed, 1, 2048},       /* scratch of 784 bytes a channel: 1088 more than 2^32 */
    };
    for (int i = 0; i < TP_COUNT(c); i++) {
        tp_feed feed[2];
        feed[0] = feed_f32(x, shape2(c[i].x[0], c[i].x[1]), f), feed[1] = feed_f32(y, shape2(c[i].y[0], c[i].y[1]), f);
        tp_fail(TP_ERR, "nothing yet");
        CHECK(tp_session_run(s, feed, 2, c[i].fetch, c[i].n_fetch, NULL) == TP_ERR_NOMEM);
        const char *needs = strstr(tp_last_error(), "this run needs at least ");
        CHECK_HAS(tp_last_error(), " MB for its values; a smaller batch needs less");
        CHECK(needs && atof(needs + strlen("this run needs at least ")) >= c[i].least - 1);
    }
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(what_is_freed_twice_is_told)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_session *s = tp_session_new(g, NULL);
    tp_exec *e = tp_exec_new(s);
    tp_fail(TP_ERR, "nothing yet");
    tp_session_free(s);
    tp_graph_free(g);
    CHECK_STR(tp_last_error(), "nothing yet");
    tp_session_free(s);
    CHECK_STR(tp_last_error(), "tp_session_free: this session was freed already; it stays until what runs in it is");
    tp_graph_free(g);
    CHECK_STR(tp_last_error(), "tp_graph_free: this graph was freed already; it stays until its sessions are");
    CHECK(tp_exec_random_step(e) == 0);
    tp_exec_free(e);
    tp_session_free(NULL);
    tp_graph_free(NULL);
}

/* A tower alone has what all towers have; two values at once, in place. */
TEST(the_only_tower_shares_with_itself)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x[3] = {tp_const(g, 1), tp_const(g, 2), tp_const(g, 3)}, *y[3] = {NULL, NULL, NULL};
    enter(g, "t", NULL, true, 0, 1);
    const int n = tp_graph_n_operations(g);
    tp_tower_all_reduce(g, x, 3, true, "Mean", y);
    CHECK(y[0] == x[0] && y[1] == x[1] && y[2] == x[2]);
    tp_tower_all_reduce(g, x, 2, false, "Sum", x);
    CHECK(x[0] == y[0] && x[1] == y[1] && tp_graph_n_operations(g) == n);
    x[1] = tp_poison(g);
    tp_tower_all_reduce(g, x, 3, false, "Sum", y); /* one is poison: so are all */
    CHECK(tp_is_poison(y[0]) && tp_is_poison(y[1]) && tp_is_poison(y[2]) && tp_graph_status(g) == TP_OK);
    tp_tower_leave(g);
    tp_graph_free(g);
}

/* ==== initialisers that run out of memory, and files that are not theirs ================================ */

static tp_session_init *init_of(int kind, tp_dict *d)
{
    static const char *const ignore[2] = {"a", "b:0"};
    tp_saver_restore_desc r;
    memset(&r, 0, sizeof r);
    r.path = "/nowhere/model-1", r.prefix = "net", r.ignore = ignore, r.n_ignore = 2;
    switch (kind) {
    case 0: return tp_saver_restore_ex(&r);
    case 1: return tp_saver_restore("/nowhere/model-1");
    case 2: return tp_smart_init("/nowhere/x.npz", true);
    case 3: return tp_smart_init("/nowhere/x.safetensors", false);
    case 4: return tp_smart_init("/nowhere/model-1", false);
    case 5: return tp_smart_init("", false);
    case 6: return tp_smart_init(NULL, false);
    case 7: return tp_just_current_session();
    case 8: return tp_dict_restore(d, false);
    default: break;
    }
    tp_session_init *two[3] = {init_of(7, d), NULL, init_of(1, d)};
    return tp_chain_init(two, 3);
}
TEST(initialisers_and_memory)
{
    for (int kind = 0; kind < 10; kind++) {
        bool failed = true;
        int n = 0;
        for (long at = 1; failed && at < 100; at++) {
            tp_dict d;
            memset(&d, 0, sizeof d);
            put(&d, "w:0", TP_F32, scalar(), 1);
            tp_test_fail_after(at);
            tp_session_init *init = init_of(kind, &d);
            failed = tp_test_alloc_failed();
            CHECK_MSG(failed ? kind == 9 || init == NULL : init != NULL, "kind %d, allocation %ld", kind, at);
            tp_session_init_free(init);
            if (kind != 8) CHECK(tp_test_live_blocks() == 0); /* the dict was there before */
            tp_test_alloc_reset();
            tp_dict_free(&d);
            n++;
        }
        CHECK_MSG(!failed && n > 1, "kind %d: %d allocations", kind, n);
    }
}

/* Loading a file whose memory runs out says so and leaves nothing behind. */
TEST(files_are_loaded_without_memory)
{
#ifdef TP_NO_SAFETENSORS
    static const char *const names[] = {"all.npz"};
#else
    static const char *const names[] = {"all.npz", "all.safetensors"};
#endif
#ifdef _WIN32 /* each look at a file copies its path; without memory for the copy the file cannot be opened, or seems to be missing */
    const bool copies_paths = true;
#else
    const bool copies_paths = false;
#endif
    const char *dir = tp_test_tmpdir();
    tp_graph *g = tp_graph_new(NULL);
    tp_node *w[2] = {tp_get_variable_as(g, "w", TP_F32, shape1(3), tp_init_zeros()),
                     tp_get_variable_as(g, "b", TP_F32, scalar(), tp_init_zeros())};
    tp_session *s = tp_session_new(g, NULL);
    for (int k = 0; k < TP_COUNT(names); k++) {
        const char *path = tp_test_path(dir, names[k]);
        long failures = 0, unsaid = 0, name_at = 0;
        tp_dict d;
        memset(&d, 0, sizeof d);
        put(&d, "w", TP_F32, shape1(3), 5 + k);
        put(&d, "b", TP_F32, scalar(), 7 + k);
        CHECK_OK(k ? tp_safetensors_save(path, &d) : tp_npz_save(path, &d, false));
        for (long at = 1, failed = 1; failed && at < 1000; at++) {
            tp_session_init *init = tp_smart_init(path, false);
            tp_test_fail_after(at);
            const tp_status st = tp_session_init_run(init, s);
            failed = tp_test_alloc_failed();
            failures += failed;
            if (failed && st == TP_OK) unsaid++, name_at = at; /* the file's name, which sentences can do without */
            const bool said = st == TP_ERR_NOMEM || (copies_paths && (st == TP_ERR_IO || st == TP_ERR_NAME));
            CHECK_MSG(failed ? said || st == TP_OK : st == TP_OK, "%s, allocation %ld: status %d, %s", names[k], at,
                      (int)st, tp_last_error());
            CHECK_MSG(tp_test_live_blocks() == 0, "%s, allocation %ld: %ld blocks are left", names[k], at,
                      tp_test_live_blocks());
            tp_test_alloc_reset();
            tp_session_init_free(init);
        }
        CHECK_MSG(failures > 5 && unsaid == 1 + copies_paths, "%ld allocations, %ld not told", failures, unsaid);
        CHECK_NEAR(value_at(s, w[0], 2), 7 + k, 0, 0);
        CHECK_NEAR(value_at(s, w[1], 0), 7 + k, 0, 0);
        tp_dict_free(&d);
        put(&d, "v", TP_F32, shape1(3), 5); /* as much memory for the file of another model */
        put(&d, "c", TP_F32, scalar(), 7);
        CHECK_OK(k ? tp_safetensors_save(path, &d) : tp_npz_save(path, &d, false));
        tp_dict_free(&d);
        for (int named = 0; named < 2; named++) {
            char sentence[1200];
            tp_session_init *init = tp_smart_init(path, false);
            snprintf(sentence, sizeof sentence, "%s is of another model, it has none of", named ? path : "the file");
            tp_test_fail_after(named ? 0 : name_at);
            CHECK_ERR(tp_session_init_run(init, s), TP_ERR_NAME, sentence);
            CHECK(tp_test_alloc_failed() == !named && tp_test_live_blocks() == 0);
            tp_test_alloc_reset();
            tp_session_init_free(init);
        }
    }
    tp_session_free(s);
    tp_graph_free(g);
}

/* A file whose arrays do not fit names itself and what takes it; another mistake, and a file that is taken, say nothing of that. */
TEST(files_that_do_not_fit)
{
    const char *path = tp_test_path(tp_test_tmpdir(), "other.npz");
    tp_graph *g = tp_graph_new(NULL);
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, shape1(3), tp_init_zeros());
    tp_node *b = tp_get_variable_as(g, "b", TP_F32, scalar(), tp_init_zeros());
    tp_session *s = tp_session_new(g, NULL);
    tp_test_keep_log();
    for (int kind = 0; kind < 3; kind++) { /* another shape, another type; the shape when that is allowed */
        static const char *const remedy =
            " Is it of another model? tp_smart_init(file, true) leaves out what does not fit";
        tp_dict d;
        memset(&d, 0, sizeof d);
        put(&d, "w", kind == 1 ? TP_I32 : TP_F32, shape1(kind == 1 ? 3 : 4), 5);
        put(&d, "b", TP_F32, scalar(), 7);
        CHECK_OK(tp_npz_save(path, &d, false));
        tp_session_init *init = tp_smart_init(path, kind == 2);
        const tp_status st = tp_session_init_run(init, s);
        CHECK_MSG(st == (kind == 0 ? TP_ERR_SHAPE : kind == 1 ? TP_ERR_DTYPE : TP_OK), "%d: %d", kind, (int)st);
        if (kind == 0) CHECK(strstr(tp_last_error(), path) == tp_last_error());
        if (kind < 2) CHECK_MSG((strstr(tp_last_error(), remedy) != NULL) == (kind == 0), "%s", tp_last_error());
        tp_session_init_free(init);
        tp_dict_free(&d);
    }
    tp_set_log(NULL, NULL);
    CHECK_NEAR(value_at(s, w, 0), 0, 0, 0);
    CHECK_NEAR(value_at(s, b, 0), 7, 0, 0);
    tp_session_free(s);
    tp_graph_free(g);
}

/* A checkpoint that cannot be read: what is said of older ones. */
TEST(unreadable_checkpoints_name_an_older_one)
{
    const char *dir = tp_test_tmpdir();
    tp_graph *g = tp_graph_new(NULL);
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, scalar(), tp_init_zeros());
    tp_session *s = tp_session_new(g, NULL);
    tp_dict d;
    memset(&d, 0, sizeof d);
    put(&d, "w", TP_F32, scalar(), 5);
    static const char *const good[] = {"model-3.npz", "model-20.npz", "model-x-7.npz", "model-30.npz"},
                             *const bad[] = {"model-10.npz", "model-9.npz", "model-25.npz",
                                             "plain.npz",    "model-x.npz", "model-x-7b.npz",
                                             "model-2.npz",  "model-.npz",  "model-07.npz"};
    for (int i = 0; i < TP_COUNT(good); i++) CHECK_OK(tp_npz_save(tp_test_path(dir, good[i]), &d, false));
    for (int i = 0; i < TP_COUNT(bad); i++) tp_test_write(tp_test_path(dir, bad[i]), "no zip", 6);
    static const char *const older[] = {"model-3.npz",   "model-3.npz", "model-20.npz", NULL,         NULL,
                                        "model-x-7.npz", NULL,          NULL,           "model-3.npz"};
    tp_test_keep_log();
    for (int i = 0; i < TP_COUNT(bad); i++)
        for (int smart = 0; smart < 2; smart++) {
            const char *path = tp_test_path(dir, bad[i]);
            char want[1200];
            tp_session_init *init = smart ? tp_smart_init(path, false) : tp_saver_restore(path);
            snprintf(want, sizeof want, ". An older checkpoint can be read: '%s/%s'", dir, older[i] ? older[i] : "");
            if (i == 5) snprintf(want, sizeof want, "model-x-7b.npz"); /* 7 is no older step than 7 */
            CHECK(tp_session_init_run(init, s) == TP_ERR_FORMAT);
            if (older[i]) CHECK_HAS(tp_last_error(), want);
            else CHECK_MSG(!strstr(tp_last_error(), "older"), "%s", tp_last_error());
            tp_session_init_free(init);
        }
    tp_set_log(NULL, NULL);
    CHECK_NEAR(value_at(s, w, 0), 0, 0, 0);
    tp_dict_free(&d);
    tp_session_free(s);
    tp_graph_free(g);
}

/* Which files are checkpoints, and in which order. */
TEST(checkpoints_of_a_folder)
{
    static const char *const files[] = {"model-10.npz", "model-9.index",
                                        "model-9.npz",  "model-100.safetensors",
                                        "model-0.npz",  "model-9.data-00000-of-00001",
                                        "model-.npz",   "model-1x.npz",
                                        "model-5",      "model-5.npz.tmp",
                                        "model--1.npz", "model-+3.npz",
                                        "modelx-3.npz", "mode-3.npz",
                                        "model-2.NPZ",  "checkpoint",
                                        "other-4.npz"},
                             *const want[] = {"model-0.npz", "model-9.index", "model-9.npz", "model-10.npz",
                                              "model-100.safetensors"};
    static const int64_t steps[] = {0, 9, 9, 10, 100};
    const char *dir = tp_test_tmpdir();
    for (int i = 0; i < TP_COUNT(files); i++) tp_test_write(tp_test_path(dir, files[i]), "x", 1);
    tp_checkpoint_entry *e = NULL;
    int n = 0;
    CHECK_OK(tp_get_all_checkpoints(dir, NULL, &e, &n));
    if (CHECK_MSG(n == TP_COUNT(want), "%d", n))
        for (int i = 0; i < n; i++) {
            CHECK_STR(e[i].path, tp_test_path(dir, want[i]));
            CHECK(e[i].step == steps[i]);
        }
    tp_free(e);
    CHECK_OK(tp_get_all_checkpoints(dir, "other", &e, &n));
    CHECK(n == 1 && e && e[0].step == 4);
    tp_free(e);
    CHECK_OK(tp_get_all_checkpoints(dir, "nobody", &e, &n));
    CHECK(n == 0 && e == NULL);
}

/* ==== the order of reads and writes ==================================================================== */

/* What is made late reads what was meant, though something newer writes: the plan puts it earlier. v begins as 3, each run adds
 * 1 and then 10. */
TEST(late_readers_read_what_was_meant)
{
    for (int plain = 0; plain < 2; plain++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *one = tp_const(g, 1), *ten = tp_const(g, 10), *fetch[6];
        const tp_tensor *out[6];
        tp_node *v = tp_get_variable_as(g, "v", TP_F32, scalar(), tp_init_constant(3));
        tp_node *first = tp_assign_add(v, one, NULL),
                *second = tp_assign_add(v, ten, NULL); /* one right after the other */
        tp_node *between = tp_read_after(v, first);
        fetch[0] = tp_neg(between);        /* after the first, before the second */
        fetch[1] = tp_affine(first, 2, 0); /* the first's own result */
        fetch[2] = tp_square(v);           /* before both */
        fetch[3] = tp_neg(tp_read_after(v, second));
        fetch[4] = first, fetch[5] = tp_named(v, "view");
        tp_session_config c = tp_default_session_config();
        c.no_fusion = plain != 0;
        tp_session *s = tp_session_new(g, &c);
        double x = 3;
        for (int run = 0; run < 3; run++, x += 11) {
            if (!CHECK_OK(tp_session_run(s, NULL, 0, fetch, 6, out))) break;
            const double want[6] = {-(x + 1), 2 * (x + 1), x * x, -(x + 11), x + 1, x};
            for (int i = 0; i < 6; i++) CHECK_NEAR(tp_tensor_get(out[i], 0), want[i], 0, 0);
        }
        /* each alone, which leaves out the writers that it does not need */
        const double adds[6] = {1, 1, 0, 10, 1, 0};
        for (int i = 0; i < 6; i++) {
            const double is = i == 0   ? -(x + 1)
                              : i == 1 ? 2 * (x + 1)
                              : i == 2 ? x * x
                              : i == 3 ? -(x + 10)
                              : i == 4 ? x + 1
                                       : x;
            CHECK_NEAR(value_at(s, fetch[i], 0), is, 0, 0);
            x += adds[i];
            CHECK_NEAR(value_at(s, v, 0), x, 0, 0);
        }
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* A writer that is made before the readers of the old value waits for them, and what reads after it waits with it. */
TEST(who_reads_after_a_delayed_writer_waits_too)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *one = tp_const(g, 1), *v = tp_get_variable_as(g, "v", TP_F32, scalar(), tp_init_constant(3)), *fetch[3];
    const tp_tensor *out[3];
    tp_node *next = tp_assign_add(v, one, NULL);
    fetch[0] = tp_neg(tp_read_after(v, next));
    fetch[1] = tp_tanh(tp_affine(tp_square(v), 0.125f, 0)); /* made last, runs first */
    fetch[2] = next;
    tp_session *s = tp_session_new(g, NULL);
    for (int run = 0; run < 3; run++) {
        const double x = 3 + run;
        CHECK_OK(tp_session_run(s, NULL, 0, fetch, 3, out));
        CHECK_NEAR(tp_tensor_get(out[0], 0), -(x + 1), 0, 0);
        CHECK_NEAR(tp_tensor_get(out[1], 0), tanh(x * x / 8), 1e-6, 0);
        CHECK_NEAR(tp_tensor_get(out[2], 0), x + 1, 0, 0);
    }
    tp_session_free(s);
    tp_graph_free(g);
}

/* A writer that is older than a read_after and waits for who reads the old value may write between what the read_after reads and who
 * reads that. They all see one value, whether it is fetched or not. */
TEST(who_reads_after_sees_one_value)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *v = tp_get_variable_as(g, "v", TP_F32, scalar(), tp_init_constant(3));
    tp_node *next = tp_assign_add(v, tp_const(g, 1), NULL), *r = tp_read_after(v, tp_const(g, 0)), *fetch[6];
    const tp_tensor *out[6];
    fetch[0] = next;
    fetch[1] = tp_square(v); /* next waits for it */
    fetch[2] = tp_neg(r);
    fetch[3] = tp_add(next, r);
    fetch[4] = tp_named(r, "view");
    fetch[5] = r;
    tp_session *s = tp_session_new(g, NULL);
    double x = 3;
    for (int n = 3; n <= 6; n++, x++) {
        const double want[6] = {x + 1, x * x, -x, x + 1 + x, x, x};
        if (!CHECK_OK(tp_session_run(s, NULL, 0, fetch, n, out))) break;
        for (int i = 0; i < n; i++) CHECK_NEAR(tp_tensor_get(out[i], 0), want[i], 0, 0);
    }
    tp_session_free(s);
    tp_graph_free(g);
}

/* A writer that is newer than a read_after, but older than who reads its value. */
TEST(a_newer_writer_waits_for_who_reads_after)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *one = tp_const(g, 1), *ten = tp_const(g, 10), *fetch[2];
    const tp_tensor *out[2];
    tp_node *v = tp_get_variable_as(g, "v", TP_F32, scalar(), tp_init_constant(3));
    tp_node *seen = tp_read_after(v, tp_assign_add(v, one, NULL));
    fetch[1] = tp_assign_add(v, ten, NULL);
    fetch[0] = tp_neg(seen);
    tp_session *s = tp_session_new(g, NULL);
    for (int run = 0; run < 3; run++) {
        const double x = 3 + 11 * run;
        CHECK_OK(tp_session_run(s, NULL, 0, fetch, 2, out));
        CHECK_NEAR(tp_tensor_get(out[0], 0), -(x + 1), 0, 0);
        CHECK_NEAR(tp_tensor_get(out[1], 0), x + 11, 0, 0);
    }
    tp_session_free(s);
    tp_graph_free(g);
}

/* A variable that is written once and read by its writer needs no copy; one whose result is not fetched is not kept. */
TEST(writers_copy_only_what_they_must)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *v = tp_get_variable_as(g, "v", TP_F32, shape1(3), tp_init_constant(2)),
            *c = tp_get_variable_as(g, "c", TP_F32, shape1(3), tp_init_ones());
    tp_node *twice = tp_assign_add(v, v, NULL), *first = tp_assign(c, v, NULL), *last = tp_assign_add(c, v, NULL);
    tp_node *both[2] = {first, last};
    tp_session *s = tp_session_new(g, NULL);
    tp_plan_info info;
    const tp_tensor *out[2];
    CHECK_OK(tp_session_run(s, NULL, 0, &twice, 1, out));
    CHECK(tp_tensor_get(out[0], 2) == 4);
    CHECK_OK(tp_exec_plan_info(tp_session_exec(s), &twice, 1, &info));
    CHECK_MSG(info.n_steps == 1, "%d steps", info.n_steps);
    CHECK_OK(tp_session_run(s, NULL, 0, both, 2, out));
    CHECK(tp_tensor_get(out[0], 0) == 4 && tp_tensor_get(out[1], 0) == 8);
    CHECK_OK(tp_exec_plan_info(tp_session_exec(s), both, 2, &info));
    CHECK_MSG(info.n_steps == 3, "%d steps", info.n_steps); /* the first one's result is kept by a copy */
    tp_node *waits = tp_with_dependencies(last, &first, 1);
    CHECK_OK(tp_session_run(s, NULL, 0, &waits, 1, out));
    CHECK(tp_tensor_get(out[0], 1) == 8);
    CHECK_OK(tp_exec_plan_info(tp_session_exec(s), &waits, 1, &info));
    CHECK_MSG(info.n_steps == 2, "%d steps", info.n_steps); /* but not where nobody asks for it */
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(every_allocation_may_fail)
{
    /* tp_graph_new itself may fail: then there is nothing to build with */
    int failures = 0;
    const int step = 1;
    for (int i = 1; i < 5000; i += step) {
        tp_test_fail_after(i);
        tp_graph *g = tp_graph_new(NULL);
        const bool can_build = g != NULL;
        tp_graph_free(g);
        if (can_build) {
            tp_test_fail_after(i);
            const tp_status st = everything_once();
            if (st == TP_OK) {
                tp_test_alloc_reset();
                break;
            }
            CHECK(st == TP_ERR_NOMEM);
            if (st != TP_ERR_NOMEM) fprintf(stderr, "%d: %s\n", i, tp_last_error());
            failures++;
        }
        CHECK(tp_test_live_blocks() == 0);
        tp_test_alloc_reset();
    }
    CHECK(failures > 5);
}

TEST_MAIN()
