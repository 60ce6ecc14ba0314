/* Predictors: a graph built for inference, with variables from a file, called from one thread or several. */
#define TP_IMPLEMENTATION
#include "tp_graph.h"
#include "tp_test.h"

/* prob = softmax(x W + b) of x (B,3), and the cost of a label: what a model builds, training or not. */
static tp_node *classifier(tp_graph *g, tp_node *const *in, void *user)
{
    tp_variable_scope_desc d;
    memset(&d, 0, sizeof d);
    d.name = "fc";
    tp_variable_scope_push(g, &d);
    tp_node *w = tp_get_variable_as(g, "W", TP_F32, tp_make_shape(3, 2), tp_init_normal(0, 1));
    tp_node *b = tp_get_variable_as(g, "b", TP_F32, tp_make_shape(2), tp_init_zeros());
    tp_node *logits = tp_named(tp_nn_bias_add(tp_matmul(in[0], w), b, TP_NHWC), "output");
    tp_variable_scope_pop(g);
    tp_named(tp_softmax(logits), "prob");
    tp_node *cost = tp_named(tp_mean(tp_sparse_softmax_cross_entropy(logits, in[1])), "cost");
    if (user) *(bool *)user = tp_current_tower_context(g)->is_training;
    return cost;
}

static const char *const prob_only[] = {"prob"};
static const char *const x_only[] = {"x"};

static void config(tp_predict_config *c, tp_spec spec[2])
{
    memset(c, 0, sizeof *c);
    memset(spec, 0, 2 * sizeof *spec);
    spec[0].name = "x", spec[0].dtype = TP_F32, spec[0].shape = tp_make_shape(TP_ANY, 3);
    spec[1].name = "label", spec[1].dtype = TP_I32, spec[1].shape = tp_make_shape(TP_ANY);
    c->inputs = spec;
    c->n_inputs = 2;
    c->build_graph = classifier;
    c->input_names = x_only;
    c->n_input_names = 1;
    c->output_names = prob_only;
    c->n_output_names = 1;
}

/* W = 1 2 3 4 5 6, b = 0.5 -0.5 */
static void weights(tp_dict *d)
{
    memset(d, 0, sizeof *d);
    tp_tensor *w = tp_dict_add(d, "fc/W"), *b = tp_dict_add(d, "fc/b");
    CHECK_OK(tp_tensor_resize(w, TP_F32, tp_make_shape(3, 2)));
    CHECK_OK(tp_tensor_resize(b, TP_F32, tp_make_shape(2)));
    w = tp_dict_find(d, "fc/W");
    for (int i = 0; i < 6; i++) tp_tensor_set(w, i, i + 1);
    tp_tensor_set(tp_dict_find(d, "fc/b"), 0, 0.5);
    tp_tensor_set(tp_dict_find(d, "fc/b"), 1, -0.5);
}

/* The probability of class 0 for x = (v, 0, -v): logits v (1-5) + 0.5 and v (2-6) - 0.5 */
static double expected(void) { return 1 / (1 + exp(-1.0)); }
static double ask(tp_predictor *p, float v)
{
    const float data[3] = {v, 0, -v};
    tp_tensor x;
    const tp_tensor *out[1] = {NULL};
    memset(&x, 0, sizeof x);
    tp_tensor_view(&x, TP_F32, tp_make_shape(1, 3), data);
    if (!CHECK_OK(tp_predict(p, &x, out)) || !out[0]) return -1;
    CHECK(out[0]->shape.ndim == 2 && out[0]->shape.dim[0] == 1 && out[0]->shape.dim[1] == 2);
    return tp_tensor_get(out[0], 0);
}

/* An initialiser that counts its calls, and adds a variable in setup_graph, which run must find in the session. */
typedef struct counted {
    tp_session_init init;
    int setups, runs, frees;
} counted;
static tp_status counted_setup(tp_session_init *i, tp_graph *g)
{
    counted *c = (counted *)i->user;
    c->setups++;
    tp_get_scalar_variable(g, "from_init", 3);
    return TP_OK;
}
static tp_status counted_run(tp_session_init *i, tp_session *s)
{
    counted *c = (counted *)i->user;
    tp_tensor t;
    memset(&t, 0, sizeof t);
    CHECK(c->setups == 1);
    const tp_variable *v = tp_find_variable(tp_session_graph(s), "from_init");
    c->runs++;
    if (CHECK(v != NULL) && CHECK_OK(tp_session_read(s, v, &t))) CHECK_NEAR(tp_tensor_get(&t, 0), 3, 0, 0);
    tp_tensor_free(&t);
    return TP_OK;
}
static void counted_free(tp_session_init *i) { ((counted *)i->user)->frees++; }
static tp_session_init *counting(counted *c)
{
    memset(c, 0, sizeof *c);
    c->init.setup_graph = counted_setup;
    c->init.run = counted_run;
    c->init.free = counted_free;
    c->init.user = c;
    return &c->init;
}

TEST(an_initialiser_sets_the_graph_up_once)
{
    tp_predict_config c;
    tp_spec spec[2];
    counted n[1];
    tp_session_init *both[2];
    config(&c, spec);
    c.session_init = counting(&n[0]);
    tp_predictor *p = tp_offline_predictor(&c);
    CHECK_MSG(p != NULL, "%s", tp_last_error());
    CHECK(n[0].setups == 1 && n[0].runs == 1 && n[0].frees == 0);
    tp_predictor_free(p);
    CHECK(n[0].setups == 1 && n[0].runs == 1 && n[0].frees == 1);
    both[0] = counting(&n[0]); /* in a chain, on two towers */
    both[1] = tp_just_current_session();
    c.session_init = tp_chain_init(both, 2);
    p = tp_multi_tower_predictor(&c, 2);
    CHECK_MSG(p != NULL, "%s", tp_last_error());
    CHECK(n[0].setups == 1 && n[0].runs == 1 && n[0].frees == 0);
    tp_predictor_free(p);
    CHECK(n[0].setups == 1 && n[0].runs == 1 && n[0].frees == 1);
}

TEST(an_offline_predictor_loads_and_predicts)
{
    tp_predict_config c;
    tp_spec spec[2];
    tp_dict d;
    bool training = true;
    config(&c, spec);
    weights(&d);
    c.user = &training;
    c.session_init = tp_dict_restore(&d, false);
    tp_predictor *p = tp_offline_predictor(&c);
    if (CHECK_MSG(p != NULL, "%s", tp_last_error())) {
        CHECK(!training); /* it is an inference tower */
        CHECK(tp_predictor_n_inputs(p) == 1 && tp_predictor_n_outputs(p) == 1);
        CHECK_NEAR(ask(p, 1), expected(), 1e-6, 0);
        CHECK_NEAR(ask(p, -3), expected(), 1e-6, 0); /* the label is not needed for prob, so it is not fed */
        CHECK(tp_find_variable(tp_session_graph(tp_predictor_session(p)), "fc/W") != NULL);
    }
    tp_predictor_free(p);
}

TEST(any_tensor_may_be_input_or_output)
{
    tp_predict_config c;
    tp_spec spec[2];
    tp_dict d;
    static const char *const in[] = {"fc/output:0", "label"}, *const out[] = {"cost", "prob:0"};
    config(&c, spec);
    weights(&d);
    c.input_names = in, c.n_input_names = 2;
    c.output_names = out, c.n_output_names = 2;
    c.session_init = tp_dict_restore(&d, false);
    tp_predictor *p = tp_offline_predictor(&c);
    if (CHECK_MSG(p != NULL, "%s", tp_last_error())) {
        const float logits[4] = {0, 0, 0, 2};
        const int32_t label[2] = {0, 1};
        tp_tensor x[2];
        const tp_tensor *y[2];
        memset(x, 0, sizeof x);
        tp_tensor_view(&x[0], TP_F32, tp_make_shape(2, 2), logits);
        tp_tensor_view(&x[1], TP_I32, tp_make_shape(2), label);
        CHECK_OK(tp_predict_n(p, x, 2, y, 2));
        CHECK_NEAR(tp_tensor_get(y[0], 0), (log(2.0) + log(1 + exp(-2.0))) / 2, 1e-6, 0);
        CHECK_NEAR(tp_tensor_get(y[1], 3), 1 / (1 + exp(-2.0)), 1e-6, 0);
    }
    tp_predictor_free(p);
}

TEST(an_online_predictor_sees_what_training_writes)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape_n(0, NULL), tp_init_constant(2));
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(1)), *y = tp_mul(x, w);
    tp_node *write = tp_assign_add(w, tp_const(g, 1), NULL);
    tp_session *s = tp_session_new(g, NULL);
    tp_predictor *p = tp_online_predictor(s, &x, 1, &y, 1);
    if (CHECK_MSG(p != NULL, "%s", tp_last_error())) {
        const float three = 3;
        tp_tensor t;
        const tp_tensor *out;
        memset(&t, 0, sizeof t);
        tp_tensor_view(&t, TP_F32, tp_make_shape(1), &three);
        CHECK_OK(tp_predict(p, &t, &out));
        CHECK(tp_tensor_get(out, 0) == 6);
        CHECK_OK(tp_session_run(s, NULL, 0, &write, 1, NULL));
        CHECK_OK(tp_predict(p, &t, &out));
        CHECK(tp_tensor_get(out, 0) == 9);
    }
    tp_predictor_free(p); /* the session is not its own */
    CHECK_OK(tp_session_run(s, NULL, 0, &write, 1, NULL));
    p = tp_online_predictor(s, NULL, 0, &w, 1); /* nothing goes in */
    if (CHECK_MSG(p != NULL, "%s", tp_last_error())) {
        const tp_tensor *out;
        CHECK_OK(tp_predict_n(p, NULL, 0, &out, 1));
        CHECK(tp_tensor_get(out, 0) == 4);
    }
    tp_predictor_free(p);
    tp_graph *other = tp_graph_new(NULL);
    tp_node *stranger = tp_const(other, 1), *none = NULL;
    CHECK(tp_online_predictor(s, &x, 1, &stranger, 1) == NULL);
    CHECK_HAS(tp_last_error(), "of another graph");
    CHECK(tp_online_predictor(s, &none, 1, &y, 1) == NULL);
    CHECK_HAS(tp_last_error(), "input 0 is no node");
    CHECK(tp_online_predictor(s, &x, 1, &y, 0) == NULL);
    tp_graph_free(other);
    tp_session_free(s);
    tp_graph_free(g);
}

#ifndef TP_NO_THREADS
typedef struct asker {
    tp_predictor *p;
    double worst;
} asker;
static void ask_often(void *user)
{
    asker *a = (asker *)user;
    for (int i = 0; i < 200; i++) {
        const double e = fabs(ask(a->p, (float)(i % 7)) - expected());
        a->worst = tp_test_worse(a->worst, e);
    }
}
#endif

/* What the outputs need and the checkpoint has not would be random: refused, unless that is what is wanted. */
TEST(variables_that_are_not_in_the_checkpoint)
{
    tp_predict_config c;
    tp_spec spec[2];
    tp_dict d;
    for (int what = 0; what < 4; what++) { /* another model's; half of it; half, allowed; all that is needed */
        config(&c, spec);
        memset(&d, 0, sizeof d);
        if (what == 3) weights(&d);
        tp_tensor *w = tp_dict_add(&d, what == 0 ? "conv/W" : "fc/W");
        if (!w || !CHECK_OK(tp_tensor_resize(w, TP_F32, tp_make_shape(3, 2)))) return;
        for (int i = 0; i < 6; i++) tp_tensor_set(w, i, i + 1);
        c.session_init = tp_dict_restore(&d, false);
        c.allow_missing_variables = what == 2;
        tp_predictor *p = tp_offline_predictor(&c);
        if (what < 2) {
            CHECK(p == NULL);
            CHECK_HAS(tp_last_error(), what == 0 ? "no values for 2 variables that the outputs need: fc/W, fc/b"
                                                 : "no values for 1 variable that the outputs need: fc/b");
        } else if (CHECK_MSG(p != NULL, "%s", tp_last_error())) { /* its session takes other values later */
            const float none[6] = {0};
            tp_tensor zeros;
            memset(&zeros, 0, sizeof zeros);
            tp_tensor_view(&zeros, TP_F32, tp_make_shape(3, 2), none);
            tp_session *s = tp_predictor_session(p);
            CHECK_OK(tp_session_load(s, tp_find_variable(tp_session_graph(s), "fc/W"), &zeros));
            tp_tensor_view(&zeros, TP_F32, tp_make_shape(2), none);
            CHECK_OK(tp_session_load(s, tp_find_variable(tp_session_graph(s), "fc/b"), &zeros));
            CHECK_NEAR(ask(p, 3), 0.5, 1e-6, 0);
        }
        tp_predictor_free(p);
    }
}

/* v00 to vNN, of which the output needs all. */
static tp_node *of_many(tp_graph *g, tp_node *const *in, void *user)
{
    tp_node *sum = in[0];
    for (int i = 0; i < *(const int *)user; i++) {
        char name[16];
        snprintf(name, sizeof name, "v%02d", i);
        sum = tp_add(sum, tp_get_variable_as(g, name, TP_F32, tp_make_shape(3), tp_init_ones()));
    }
    tp_named(sum, "sum");
    return NULL;
}

TEST(ten_missing_variables_are_named)
{
    static const char *const sum_only[] = {"sum"};
    for (int n = 1; n < 13; n++) {
        tp_predict_config c;
        tp_spec spec[2];
        tp_dict d;
        char want[256] = "";
        config(&c, spec);
        memset(&d, 0, sizeof d);
        c.n_inputs = 1;
        c.build_graph = of_many;
        c.user = &n;
        c.output_names = sum_only;
        c.session_init = tp_dict_restore(&d, false);
        CHECK(tp_offline_predictor(&c) == NULL);
        snprintf(want, sizeof want, "no values for %d variable%s that the outputs need: ", n, n == 1 ? "" : "s");
        for (int i = 0; i < n && i < 10; i++)
            snprintf(want + strlen(want), sizeof want - strlen(want), "%sv%02d", i ? ", " : "", i);
        if (n > 10) snprintf(want + strlen(want), sizeof want - strlen(want), ", and %d more", n - 10);
        snprintf(want + strlen(want), sizeof want - strlen(want), ". Is it of another model?");
        CHECK_HAS(tp_last_error(), want);
    }
}

/* One tower has no name, two have; the last one is asked for without a word, the one behind it is the first again. */
TEST(towers_and_their_names)
{
    for (int n = 1; n < 4; n++) {
        tp_predict_config c;
        tp_spec spec[2];
        tp_dict d;
        config(&c, spec);
        weights(&d);
        c.session_init = tp_dict_restore(&d, false);
        tp_fail(TP_ERR, "nothing else failed");
        tp_predictor *p = tp_multi_tower_predictor(&c, n);
        if (!CHECK_MSG(p != NULL, "%s", tp_last_error())) continue;
        CHECK_STR(tp_last_error(), "nothing else failed"); /* no tower is tried that there is not */
        tp_graph *g = tp_session_graph(tp_predictor_session(p));
        CHECK((tp_graph_find(g, "x") != NULL) == (n == 1) && (tp_graph_find(g, "prob") != NULL) == (n == 1));
        for (int i = 0; i < 4; i++) {
            char x[32], prob[32];
            snprintf(x, sizeof x, "tower%d/x", i);
            snprintf(prob, sizeof prob, "tower%d/prob", i);
            CHECK((tp_graph_find(g, x) != NULL) == (n > 1 && i < n) &&
                  (tp_graph_find(g, prob) != NULL) == (n > 1 && i < n));
        }
        tp_test_keep_log();
        for (int i = 0; i < n; i++) CHECK_NEAR(ask(tp_predictor_tower(p, i), 1), expected(), 1e-6, 0);
        CHECK_STR(tp_test_logged, "");
        CHECK(tp_predictor_tower(p, n) == p);
        char want[96];
        snprintf(want, sizeof want, "predictor %d was asked for, there are %d towers: it is number 0 again\n", n, n);
        CHECK_STR(tp_test_logged, want);
        tp_set_log(NULL, NULL);
        tp_predictor_free(p);
    }
}

/* No path, and an empty one, are the session as it is. */
TEST(no_file_is_the_session_as_it_is)
{
    static const char *const paths[] = {NULL, ""};
    for (int i = 0; i < 2; i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(1), tp_init_constant(4));
        tp_session *s = tp_session_new(g, NULL);
        tp_session_init *init = tp_smart_init(paths[i], false);
        tp_tensor t;
        memset(&t, 0, sizeof t);
        if (CHECK(init != NULL)) CHECK_OK(tp_session_init_run(init, s));
        if (CHECK_OK(tp_session_eval(s, w, &t))) CHECK(tp_tensor_get(&t, 0) == 4);
        tp_tensor_free(&t);
        tp_session_init_free(init);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* ==== what initialisers load ========================================================================== */

/* A graph of float32 variables and what stands in them after `init`; "name=value" each, or the sentence. */
static void initialised(tp_session_init *init, const char *const *names, int n, char *got, size_t size)
{
    tp_graph *g = tp_graph_new(NULL);
    got[0] = 0;
    for (int i = 0; i < n; i++) tp_get_variable_as(g, names[i], TP_F32, tp_make_shape(1), tp_init_constant(-1));
    tp_session *s = tp_session_new(g, NULL);
    tp_test_keep_log();
    const tp_status st = CHECK(init && s) ? tp_session_init_run(init, s) : TP_ERR;
    tp_set_log(NULL, NULL);
    if (st != TP_OK) snprintf(got, size, "%s", tp_last_error());
    for (int i = 0; i < n && st == TP_OK; i++) {
        tp_tensor t;
        memset(&t, 0, sizeof t);
        CHECK_OK(tp_session_read(s, tp_find_variable(g, names[i]), &t));
        snprintf(got + strlen(got), size - strlen(got), "%s%s=%g", i ? " " : "", names[i], tp_tensor_get(&t, 0));
        tp_tensor_free(&t);
    }
    tp_session_init_free(init);
    tp_session_free(s);
    tp_graph_free(g);
}

static void add_value(tp_dict *d, const char *name, tp_dtype dtype, tp_shape shape, double value)
{
    tp_tensor *t = tp_dict_add(d, name);
    if (!CHECK(t != NULL) || !CHECK_OK(tp_tensor_resize(t, dtype, shape))) return;
    for (int64_t i = 0; i < tp_tensor_size(t); i++) tp_tensor_set(t, i, value + (double)i);
}

TEST(restored_by_prefix_and_without_some)
{
    static const char *const ignored[] = {"x:0"};
    static const char *const few[] = {"gen/w", "general/w", "x"}, *const two[] = {"gen/w", "w"},
                             *const same[] = {"gen", "genw"};
    static const struct {
        const char *prefix;
        int n_ignore;
        const char *const *names;
        int n;
        const char *got, *log;
    } cases[] = {{NULL, 0, few, 3, "gen/w=-1 general/w=2 x=4",
                  "are in the graph, but not found in the checkpoint: gen/w. They keep"},
                 {NULL, 0, few, 3, "gen/w=-1 general/w=2 x=4",
                  "are in the checkpoint, but not found in the graph: w, gen/v, gen, genw\n"},
                 {"gen", 0, few, 3, "gen/w=1 general/w=2 x=4",
                  "are in the checkpoint, but not found in the graph: gen/v, gen, genw\n"},
                 {"general", 0, few, 3, "gen/w=-1 general/w=1 x=4",
                  "are in the graph, but not found in the checkpoint: gen/w. They keep"},
                 {"gen", 1, few, 3, "gen/w=1 general/w=2 x=-1",
                  "Variable 'x' in the graph will not be loaded from the checkpoint!\n"},
                 {"gen", 0, two, 2,
                  "Restore conflict: 'w' of the checkpoint is for two variables of the graph, 'gen/w' and 'w', since "
                  ".prefix is 'gen': give the one that is not to be restored a scope of its own",
                  ""},
                 {"gen", 0, same, 2, "gen=5 genw=6", ""}};
    char path[600], got[512];
    snprintf(path, sizeof path, "%s/values.npz", tp_test_tmpdir());
    tp_dict d;
    memset(&d, 0, sizeof d);
    add_value(&d, "w", TP_F32, tp_make_shape(1), 1);
    add_value(&d, "general/w", TP_F32, tp_make_shape(1), 2);
    add_value(&d, "gen/v", TP_F32, tp_make_shape(2), 3);
    add_value(&d, "x", TP_F32, tp_make_shape(1), 4);
    add_value(&d, "gen", TP_F32, tp_make_shape(1), 5);
    add_value(&d, "genw", TP_F32, tp_make_shape(1), 6);
    CHECK_OK(tp_save_checkpoint_vars(&d, path));
    tp_dict_free(&d);
    for (int i = 0; i < TP_COUNT(cases); i++) {
        tp_saver_restore_desc r;
        memset(&r, 0, sizeof r);
        r.path = path;
        r.prefix = cases[i].prefix;
        r.ignore = ignored;
        r.n_ignore = cases[i].n_ignore;
        initialised(tp_saver_restore_ex(&r), cases[i].names, cases[i].n, got, sizeof got);
        CHECK_STR(got, cases[i].got);
        CHECK_HAS(tp_test_logged, cases[i].log);
    }
}

/* Values of other shapes and types: what fits as it is, what is made to fit and told, what is skipped, and what is refused. */
TEST(values_that_fit_more_or_less)
{
    static const struct {
        tp_dtype dtype;
        int ndim, n;
        const char *strict, *relaxed, *log; /* log: of the relaxed one */
    } cases[] = {{TP_F32, 1, 1, "a=7", "a=7", ""},
                 {TP_F32, 0, 1, "a=7", "a=7",
                  "The array of shape () is reshaped to load it into variable 'a' whose shape is (1).\n"},
                 {TP_F32, 2, 1, "a=7", "a=7",
                  "The array of shape (1,1) is reshaped to load it into variable 'a' whose shape is (1).\n"},
                 {TP_F64, 1, 1, "a=7", "a=7", "Variable 'a' (float32) is loaded from float64 after casting.\n"},
                 {TP_F32, 1, 2, "Trying to load an array of shape (2) into variable 'a' whose shape is (1).", "a=-1",
                  "Cannot load an array of shape (2) into variable 'a' whose shape is (1): it is skipped.\n"},
                 {TP_I32, 1, 1, "Cannot load a int32 array into variable 'a', which is float32",
                  "Cannot load a int32 array into variable 'a', which is float32", ""}};
    static const char *const names[] = {"a"};
    for (int i = 0; i < TP_COUNT(cases); i++)
        for (int relaxed = 0; relaxed < 2; relaxed++) {
            tp_dict d;
            char got[512];
            const int64_t dims[2] = {cases[i].n, 1};
            memset(&d, 0, sizeof d);
            add_value(&d, "a:0", cases[i].dtype, tp_make_shape_n(cases[i].ndim, dims), 7);
            initialised(tp_dict_restore(&d, relaxed), names, 1, got, sizeof got);
            CHECK_STR(got, relaxed ? cases[i].relaxed : cases[i].strict);
            if (relaxed) CHECK_HAS(tp_test_logged, cases[i].log);
        }
}

/* The first of a chain comes first; NULLs do nothing; what has an owner already is told when it runs. */
TEST(initialisers_in_a_chain)
{
    static const char *const names[] = {"a", "b"};
    tp_dict d[2];
    char got[512];
    tp_session_init *in[3];
    memset(d, 0, sizeof d);
    add_value(&d[0], "a", TP_F32, tp_make_shape(1), 1);
    add_value(&d[0], "b", TP_F32, tp_make_shape(1), 2);
    add_value(&d[1], "a", TP_F32, tp_make_shape(1), 3);
    in[0] = tp_dict_restore(&d[0], false), in[1] = NULL, in[2] = tp_dict_restore(&d[1], false);
    initialised(tp_chain_init(in, 3), names, 2, got, sizeof got);
    CHECK_STR(got, "a=3 b=2");
    initialised(tp_chain_init(NULL, 0), names, 2, got, sizeof got);
    CHECK_STR(got, "a=-1 b=-1");
    CHECK(tp_chain_init(NULL, 1) == NULL && tp_chain_init(in, -1) == NULL);
}

TEST(a_predictor_without_inputs_says_so)
{
    for (int n = 0; n < 2; n++) {
        tp_predict_config c;
        tp_spec spec[2];
        tp_dict d;
        config(&c, spec);
        weights(&d);
        c.session_init = tp_dict_restore(&d, false);
        c.n_input_names = n;
        tp_test_keep_log();
        tp_predictor *p = tp_offline_predictor(&c);
        tp_set_log(NULL, NULL);
        CHECK(p != NULL && (strstr(tp_test_logged, "PredictConfig: there are no inputs") != NULL) == (n == 0));
        tp_predictor_free(p);
    }
}

TEST(towers_predict_at_the_same_time)
{
    tp_predict_config c;
    tp_spec spec[2];
    tp_dict d;
    config(&c, spec);
    weights(&d);
    c.session_init = tp_dict_restore(&d, false);
    tp_predictor *p = tp_multi_tower_predictor(&c, 3);
    if (CHECK_MSG(p != NULL, "%s", tp_last_error())) {
        tp_graph *g = tp_session_graph(tp_predictor_session(p));
        CHECK(tp_graph_find(g, "tower0/prob") && tp_graph_find(g, "tower2/prob") && tp_graph_find(g, "tower1/x"));
        CHECK(tp_graph_n_variables(g) == 2); /* shared */
        CHECK(tp_predictor_tower(p, 0) == p && tp_predictor_tower(p, 1) != p);
        tp_test_keep_log();
        CHECK(tp_predictor_tower(p, 4) == tp_predictor_tower(p, 1));
        CHECK_HAS(tp_test_logged, "predictor 4 was asked for, there are 3 towers");
        tp_set_log(NULL, NULL);
#ifndef TP_NO_THREADS
        tp_thread *t[3];
        asker a[3];
        memset(a, 0, sizeof a);
        for (int i = 0; i < 3; i++) {
            a[i].p = tp_predictor_tower(p, i);
            CHECK_OK(tp_thread_start(&t[i], ask_often, &a[i]));
        }
        for (int i = 0; i < 3; i++) {
            tp_thread_join(t[i]);
            CHECK(a[i].worst < 1e-6);
        }
#endif
    }
    tp_predictor_free(p);
}

TEST(a_predictor_joins_a_graph_and_its_file)
{
    char path[600];
    snprintf(path, sizeof path, "%s/weights.npz", tp_test_tmpdir());
    tp_dict d;
    weights(&d);
    CHECK_OK(tp_save_checkpoint_vars(&d, path));
    tp_dict_free(&d);
    /* a graph that has the variables already: the tower shares them */
    tp_graph *g = tp_graph_new(NULL);
    tp_node *in[2];
    in[0] = tp_placeholder(g, "train_x", TP_F32, tp_make_shape(TP_ANY, 3));
    in[1] = tp_placeholder(g, "train_label", TP_I32, tp_make_shape(TP_ANY));
    classifier(g, in, NULL);
    tp_predict_config c;
    tp_spec spec[2];
    config(&c, spec);
    c.graph = g;
    c.session_init = tp_smart_init(path, false);
    tp_predictor *p = tp_offline_predictor(&c);
    if (CHECK_MSG(p != NULL, "%s", tp_last_error())) {
        CHECK(tp_graph_n_variables(g) == 2);
        CHECK_NEAR(ask(p, 2), expected(), 1e-6, 0);
    }
    c.session_init = tp_smart_init(path, false); /* and a second one */
    tp_predictor *q = tp_offline_predictor(&c);
    if (CHECK_MSG(q != NULL, "%s", tp_last_error())) CHECK_NEAR(ask(q, 2), expected(), 1e-6, 0);
    CHECK(tp_graph_find(g, "tower-pred-0/prob") && tp_graph_find(g, "tower-pred-1/prob"));
    tp_predictor_free(q);
    tp_predictor_free(p);
    tp_graph_free(g);
}

static tp_node *broken(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    return tp_matmul(in[0], tp_const(g, 1));
}

/* n variables v0, v1, ... that are all added up. */
static tp_node *many_variables(tp_graph *g, tp_node *const *in, void *user)
{
    tp_node *y = tp_mean(in[0]);
    for (int i = 0; i < *(const int *)user; i++) {
        char name[16];
        snprintf(name, sizeof name, "v%d", i);
        y = tp_add(y, tp_get_variable_as(g, name, TP_F32, tp_make_shape_n(0, NULL), tp_init_zeros()));
    }
    return tp_named(y, "prob");
}
TEST(missing_variables_are_listed_up_to_ten)
{
    for (int n = 0; n < 14; n++) {
        tp_predict_config c;
        tp_spec spec[2];
        tp_dict d;
        char want[512] = "predictor: session_init has no values for ";
        size_t at = strlen(want);
        config(&c, spec);
        int all = n + 1; /* one is there: v0 */
        c.build_graph = many_variables, c.user = &all;
        memset(&d, 0, sizeof d);
        CHECK_OK(tp_tensor_resize(tp_dict_add(&d, "v0"), TP_F32, tp_make_shape_n(0, NULL)));
        tp_tensor_set(&d.item[0].value, 0, 2);
        tp_session_init *const inits[3] = {tp_just_current_session(), tp_dict_restore(&d, false), NULL};
        c.session_init = tp_chain_init(inits, 3); /* a chain of what only restores is one, too */
        at +=
            (size_t)snprintf(want + at, sizeof want - at, "%d variable%s that the outputs need: ", n, n > 1 ? "s" : "");
        for (int i = 1; i <= n && i <= 10; i++)
            at += (size_t)snprintf(want + at, sizeof want - at, "%sv%d", i > 1 ? ", " : "", i);
        if (n > 10) at += (size_t)snprintf(want + at, sizeof want - at, ", and %d more", n - 10);
        snprintf(want + at, sizeof want - at,
                 ". Is it of another model? .allow_missing_variables = true leaves them as they are initialised");
        tp_predictor *p = tp_offline_predictor(&c);
        CHECK((p == NULL) == (n > 0));
        if (!p) CHECK_STR(tp_last_error(), want);
        tp_predictor_free(p);
    }
}

/* Nodes that are none, or of another graph; inputs without any. */
TEST(online_predictors_are_refused_in_full)
{
    tp_graph *g = tp_graph_new(NULL), *h = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(2)), *y = tp_neg(x), *other = tp_const(h, 1),
            *good[2] = {x, x};
    tp_session *s = tp_session_new(g, NULL);
    const struct {
        tp_session *s;
        tp_node *in[2], *out[2];
        int n_in, n_out;
        const char *sentence;
    } c[] = {
        {NULL, {x, x}, {y, y}, 1, 1, "a predictor needs a session and at least one output"},
        {s, {x, x}, {y, y}, -1, 1, "a predictor needs a session and at least one output"},
        {s, {x, x}, {y, y}, 1, 0, "a predictor needs a session and at least one output"},
        {s, {NULL, x}, {y, y}, 2, 1, "predictor: input 0 is no node"},
        {s, {x, NULL}, {y, y}, 2, 1, "predictor: input 1 is no node"},
        {s, {x, x}, {NULL, y}, 0, 2, "predictor: output 0 is no node"},
        {s, {x, x}, {NULL, y}, 1, 2, "predictor: output 0 is no node"},
        {s, {x, x}, {NULL, y}, 2, 2, "predictor: output 0 is no node"},
        {s, {x, x}, {y, NULL}, 1, 2, "predictor: output 1 is no node"},
        {s, {tp_poison(g), x}, {y, y}, 1, 1, "predictor: input 0 is no node"},
        {s, {x, other}, {y, y}, 2, 2, "predictor: input 1, 'Const', is of another graph than the session"},
        {s, {x, x}, {other, y}, 2, 1, "predictor: output 0, 'Const', is of another graph than the session"},
        {s, {x, x}, {y, other}, 0, 2, "predictor: output 1, 'Const', is of another graph than the session"},
    };
    for (int i = 0; i < TP_COUNT(c); i++) {
        CHECK(tp_online_predictor(c[i].s, c[i].in, c[i].n_in, c[i].out, c[i].n_out) == NULL);
        CHECK_STR(tp_last_error(), c[i].sentence);
    }
    CHECK(tp_online_predictor(s, NULL, 1, good, 1) == NULL && tp_online_predictor(s, good, 1, NULL, 1) == NULL);
    tp_predictor *p = tp_online_predictor(s, &x, 1, &y, 1);
    CHECK(p && tp_predictor_n_inputs(p) == 1 && tp_predictor_n_outputs(p) == 1 && tp_predictor_session(p) == s);
    tp_test_keep_log();
    CHECK(tp_predictor_tower(p, 0) == p && tp_test_logged[0] == 0);
    CHECK(tp_predictor_tower(p, 1) == p && tp_predictor_tower(p, -1) == NULL);
    tp_set_log(NULL, NULL);
    CHECK_STR(tp_test_logged, "predictor 1 was asked for, there are 1 towers: it is number 0 again\n");
    tp_predictor_free(p);
    tp_predictor_free(NULL);
    tp_session_free(s);
    tp_graph_free(g);
    tp_graph_free(h);
}

TEST(mistakes_are_sentences_and_leak_nothing)
{
    static const char *const unknown[] = {"probability"}, *const nobody[] = {"image"};
    static const char *const parts[] = {"there is no tensor 'probability' for an output; the inputs are x, label",
                                        "there is no tensor 'image' for an input",
                                        "output_names must name at least one tensor",
                                        "build_graph is NULL",
                                        "MatMul",
                                        "nowhere.npz",
                                        "-1 towers make no sense",
                                        "needs a name without"};
    for (int i = 0; i < TP_COUNT(parts); i++) {
        tp_predict_config c;
        tp_spec spec[2];
        tp_dict d;
        config(&c, spec);
        weights(&d);
        if (i == 5) {
            tp_dict_free(&d);
            c.session_init = tp_smart_init("/tmp/tp/nowhere.npz", false);
        } else c.session_init = tp_dict_restore(&d, false);
        int towers = 1;
        if (i == 0) c.output_names = unknown;
        if (i == 1) c.input_names = nobody;
        if (i == 2) c.n_output_names = 0;
        if (i == 3) c.build_graph = NULL;
        if (i == 4) c.build_graph = broken;
        if (i == 6) towers = -1;
        if (i == 7) spec[1].name = "a label";
        CHECK_MSG(tp_multi_tower_predictor(&c, towers) == NULL, "mistake %d was not noticed", i);
        CHECK_HAS(tp_last_error(), parts[i]);
    }
    CHECK(tp_test_live_blocks() == 0);
}

TEST(memory_may_run_out_anywhere)
{
    int failures = 0;
    for (long n = 1, failed = 1; failed && n < 5000; n++) {
        tp_predict_config c;
        tp_spec spec[2];
        config(&c, spec);
        tp_test_fail_after(n);
        tp_predictor *p = tp_multi_tower_predictor(&c, 2);
        failed = tp_test_alloc_failed();
        CHECK((p == NULL) == (failed != 0));
        failures += failed != 0;
        tp_predictor_free(p);
        CHECK(tp_test_live_blocks() == 0);
    }
    tp_test_alloc_reset();
    CHECK_MSG(failures > 20, "%d failures", failures);
}

TEST_MAIN()
