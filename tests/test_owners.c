/* test_owners.c - who owns what: sessions, graphs and what runs in them freed in any order; things given away twice */
#define TP_IMPLEMENTATION
#include "../tp_train.h"
#include "../tp_layers.h"
#include "tp_test.h"

static void log_nothing(void *user, tp_log_level level, const char *message) { (void)user, (void)level, (void)message; }

static tp_shape shape_of(int64_t a, int64_t b)
{
    tp_shape s;
    memset(&s, 0, sizeof s);
    s.ndim = 2;
    s.dim[0] = a, s.dim[1] = b;
    return s;
}

static tp_spec spec[1];
static tp_node *build(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, shape_of(2, 1), tp_init_ones());
    return tp_named(tp_mean(tp_square(tp_matmul(in[0], w))), "cost");
}
static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_sgd_(tp_get_scalar_variable(g, "learning_rate", 0.1f), NULL);
}
static tp_model model(void)
{
    tp_model m;
    memset(&m, 0, sizeof m);
    spec[0].name = "x";
    spec[0].dtype = TP_F32;
    spec[0].shape = shape_of(3, 2);
    m.inputs = spec;
    m.n_inputs = 1;
    m.build_graph = build;
    m.optimizer = optimizer;
    return m;
}
static tp_status point(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    (void)user, (void)pass;
    tp_status st = tp_datapoint_resize(dp, 1);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_F32, shape_of(3, 2));
    for (int i = 0; i < 6 && st == TP_OK; i++) ((float *)dp->c[0].data)[i] = (float)(index + i);
    return st;
}
static tp_dataflow *flow(void) { return tp_df_from_generator(point, .size = 8); }

/* ==== >>sessions ====================================================================================== */

static tp_session *pass_through(tp_session *s, void *user) { return (void)user, s; }

/* A trainer that uses a session of ours, trained; adapted: through an adapter. */
static tp_trainer *trained(tp_session **session, bool adapted)
{
    static tp_session_adapter a;
    tp_trainer *t = tp_simple_trainer();
    const tp_model m = model();
    if (!CHECK_OK(tp_trainer_setup_graph(t, &m, tp_feed_input(flow())))) return t;
    CHECK_OK(tp_trainer_setup_callbacks(t, NULL, 0, NULL, 0));
    *session = tp_session_new(t->graph, NULL);
    t->creator = tp_reuse_session_creator(*session);
    if (adapted) {
        a.inner = t->creator;
        a.fn = pass_through;
        t->creator = tp_session_creator_adapter(&a);
    }
    CHECK_OK(tp_trainer_initialize(t, NULL));
    CHECK(t->state.session == *session);
    CHECK_OK(tp_trainer_main_loop(t, 2, 1, 1));
    return t;
}

TEST(a_reused_session_stays_with_its_owner_in_any_order)
{
    tp_set_log(log_nothing, NULL);
    for (int adapted = 0; adapted < 2; adapted++)
        for (int order = 0; order < 2; order++) {
            tp_test_fail_after(0);
            tp_session *s = NULL;
            tp_trainer *t = trained(&s, adapted == 1);
            if (order == 0) {
                tp_trainer_free(t);
                tp_tensor value = {TP_DTYPE_UNSET, {0, {0}}, NULL, NULL, 0};
                CHECK_OK(tp_session_read(s, tp_find_variable(tp_session_graph(s), "w"), &value)); /* still there */
                CHECK(tp_tensor_size(&value) == 2);
                tp_tensor_free(&value);
                tp_session_free(s);
            } else {
                tp_session_free(s);
                tp_trainer_free(t);
            }
            CHECK_MSG(tp_test_live_blocks() == 0, "order %d: %ld blocks", order, tp_test_live_blocks());
        }
    tp_test_alloc_reset();
    tp_set_log(NULL, NULL);
}

/* A graph, its session and a predictor, freed in each order of the three. */
TEST(graph_session_and_predictor_are_freed_in_any_order)
{
    static const char *const orders[6] = {"gsp", "gps", "sgp", "spg", "pgs", "psg"};
    for (int o = 0; o < 6; o++) {
        tp_test_fail_after(0);
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, shape_of(3, 2)), *y = build(g, &x, NULL);
        tp_session *s = tp_session_new(g, NULL);
        tp_predictor *p = tp_online_predictor(s, &x, 1, &y, 1);
        float data[6] = {1, 2, 3, 4, 5, 6};
        tp_tensor in = {TP_DTYPE_UNSET, {0, {0}}, NULL, NULL, 0};
        tp_tensor_view(&in, TP_F32, shape_of(3, 2), data);
        const tp_tensor *out = NULL;
        CHECK_OK(tp_predict(p, &in, &out));
        for (const char *c = orders[o]; *c; c++) {
            if (*c == 'g') tp_graph_free(g);
            if (*c == 's') tp_session_free(s);
            if (*c == 'p') tp_predictor_free(p);
            if (c == orders[o] && *c != 'p') CHECK_OK(tp_predict(p, &in, &out)); /* what runs in it goes on */
            if (c == orders[o] && *c == 'g') {
                tp_graph_free(g); /* twice: seen as long as it stays */
                CHECK_HAS(tp_last_error(), "freed already");
            }
        }
        CHECK_MSG(tp_test_live_blocks() == 0, "%s: %ld blocks", orders[o], tp_test_live_blocks());
    }
    tp_test_alloc_reset();
}

TEST(a_predictor_does_not_free_a_session_that_is_reused)
{
    static const char *const outputs[1] = {"cost"};
    tp_graph *g = tp_graph_new(NULL);
    const tp_model m = model();
    tp_get_variable_as(g, "w", TP_F32, shape_of(2, 1), tp_init_ones());
    tp_session *s = tp_session_new(g, NULL);
    tp_session_creator creator = tp_reuse_session_creator(s);
    tp_predict_config c;
    memset(&c, 0, sizeof c);
    c.inputs = m.inputs;
    c.n_inputs = 1;
    c.build_graph = build;
    c.output_names = outputs;
    c.n_output_names = 1;
    c.graph = g;
    c.session_creator = &creator;
    tp_predictor *p = tp_offline_predictor(&c), *q = tp_offline_predictor(&c);
    if (!CHECK_MSG(p && q, "%s", tp_last_error())) return;
    tp_predictor_free(p);
    float data[6] = {1, 2, 3, 4, 5, 6};
    tp_tensor in = {TP_DTYPE_UNSET, {0, {0}}, NULL, NULL, 0};
    tp_tensor_view(&in, TP_F32, shape_of(3, 2), data);
    const tp_tensor *out = NULL;
    CHECK_OK(tp_predict(q, &in, &out));
    tp_session_free(s);
    tp_graph_free(g);
    CHECK_OK(tp_predict(q, &in, &out));
    tp_predictor_free(q);
}

TEST_MAIN()
