/* The file and line of whoever called a builder: in sentences, and in the operations (>>places of tp_graph.h). */
#define TP_IMPLEMENTATION
#include "tp_layers.h"
#include "tp_optim.h"

#include "tp_test.h"

static tp_shape shape(int n, int64_t a, int64_t b)
{
    int64_t dims[2];
    dims[0] = a, dims[1] = b;
    return tp_make_shape_n(n, dims);
}
static int count;
static tp_node *counted(tp_node *x)
{
    count++;
    return x;
}
static tp_node *input(tp_graph *g, const char *name, int64_t rows, int64_t columns)
{
    return tp_placeholder(g, name, TP_F32, shape(2, rows, columns));
}
static void has_place(const tp_graph *g, int line, const char *rest)
{
    char want[512];
    snprintf(want, sizeof want, "test_places.c:%d: %s", line, rest);
    CHECK_MSG(strncmp(tp_graph_error(g), want, strlen(want)) == 0, "'%s' does not begin with '%s'", tp_graph_error(g),
              want);
    CHECK_STR(tp_last_error(), tp_graph_error(g));
}
static bool is_here(const tp_operation *o, int line)
{
    const size_t n = o->at.file ? strlen(o->at.file) : 0, m = strlen("test_places.c");
    return n >= m && strcmp(o->at.file + n - m, "test_places.c") == 0 && o->at.line == line;
}

TEST(mistakes_have_the_line_of_the_call)
{
    tp_node *xs[2], *parts[3];
    tp_grad_var gvs[1];
    int line = 0;
    for (int i = 0; i < 18; i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = input(g, "x", 4, 3), *y = input(g, "y", 5, 3), *z = NULL;
        const char *rest = "";
        xs[0] = x, xs[1] = NULL;
        /* clang-format off */
        switch (i) {
        case 0: line = __LINE__; z = tp_add(x, y); rest = "Add: shapes (4,3) and (5,3)"; break;
        case 1: line = __LINE__; z = tp_concat(xs, 2, 0); rest = "concat: input 1 is NULL"; break;
        case 2: line = __LINE__; z = tp_relu(NULL); rest = ""; break;
        case 3: line = __LINE__; z = tp_split(x, 3, 0, parts); rest = "Split: axis 0"; break;
        case 4: line = __LINE__; tp_gradients(tp_cast(x, TP_I32), &y, 1, parts); rest = "'Cast' is int32"; break;
        case 5: line = __LINE__; tp_name_scope_pop(g); rest = "a name scope is closed"; break;
        case 6: line = __LINE__; tp_variable_scope_pop(g); rest = "a variable scope is closed"; break;
        case 7: line = __LINE__; tp_device_enter(g, -1); rest = "there is no device -1"; break;
        case 8: line = __LINE__; z = tp_get_variable_as(g, "a:b", TP_F32, x->shape, tp_init_ones()); rest = ""; break;
        case 9: line = __LINE__; z = tp_reshape_to(x, shape(1, 5, 0)); rest = "Reshape: "; break;
        case 10: line = __LINE__; z = tp_named(x, "?"); rest = "'?' is no name"; break;
        case 11: line = __LINE__; z = tp_sym_accuracy(x, y, 1, NULL); rest = ""; break;
        case 12: line = __LINE__; z = tp_exponential_decay(g, 1, x, 10, 0.5f, false); rest = ""; break;
        case 13: line = __LINE__; z = tp_placeholder(g, "?", TP_F32, x->shape); rest = "'?' is no name"; break;
        case 14: line = __LINE__; z = tp_mean(tp_add(x, tp_square(tp_matmul(x, y)))); rest = "MatMul: "; break;
        case 17: line = __LINE__; tp_compute_gradients(x, &y, 1, gvs); rest = "the cost 'x' has shape (4,3)"; break;
        case 15: line = __LINE__; z = tp_assign(x, x, NULL); rest = "assign: 'x' is not a variable"; break;
        case 16: line = __LINE__; tp_collection_add(g, NULL, x); rest = "tp_collection_add: g, key and n must not be NULL"; break;
        default: break;
        }
        /* clang-format on */
        CHECK(z == NULL || tp_is_poison(z));
        if (i == 2) { /* there was no graph: it is told by the first one that meets the result */
            CHECK_HAS(tp_last_error(), "test_places.c:");
            z = tp_add(z, x);
            CHECK_HAS(tp_graph_error(g), "input 0 was not made: test_places.c:");
        } else {
            has_place(g, line, rest);
            tp_add(x, y); /* its echo changes nothing */
            has_place(g, line, rest);
        }
        tp_graph_free(g);
    }
}

TEST(arguments_are_evaluated_once_and_names_are_functions)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = input(g, "x", 4, 3);
    tp_node *(*relu)(tp_node *) = tp_relu, *(*add)(tp_node *, tp_node *) = &tp_add;
    count = 0;
    tp_node *y = tp_add(counted(x), counted(x));
    tp_node *z[3];
    tp_split(counted(y), 3, 1, z);
    CHECK(count == 3);
    CHECK(tp_split(x, 3, 1, z) == z[0] && tp_unstack(x, 1, 3, z) == z[0]);
    const int before = tp_graph_n_operations(g);
    y = relu(add(x, (tp_relu)(x)));
    CHECK(tp_graph_n_operations(g) == before + 3 && tp_graph_status(g) == TP_OK);
    CHECK(y->op->at.file == NULL);
    const int line = __LINE__ + 1;
    y = tp_neg(y);
    CHECK(is_here(y->op, line) && is_here(y->op->in[0]->op, line)); /* those that had none get the next one's */
    tp_graph_free(g);
}

static tp_node *block(tp_node *x) { return tp_add(x, tp_square(x)); }
static const int block_line = __LINE__ - 1;

TEST(operations_know_who_asked_for_them)
{
    tp_graph *g = tp_graph_new(NULL);
    const int at_x = __LINE__ + 1;
    tp_node *x = tp_placeholder(g, "x", TP_F32, shape(2, 4, 3));
    const int at_g = __LINE__ + 1, n = tp_graph_n_operations(g);
    tp_node *y = tp_gelu(x); /* several operations */
    CHECK(tp_graph_n_operations(g) > n + 1 && is_here(x->op, at_x));
    for (int i = n; i < tp_graph_n_operations(g); i++) CHECK(is_here(tp_graph_operation(g, i), at_g));
    tp_node *z = block(y);
    CHECK(is_here(z->op, block_line) && is_here(z->op->in[1]->op, block_line));
    const int at_w = __LINE__ + 1;
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, shape(2, 3, 2), tp_init_ones());
    CHECK(is_here(w->op, at_w));
    const int at_c = __LINE__ + 1;
    tp_node *c = tp_mean(tp_matmul(z, w)), *dw = NULL;
    const int first = tp_graph_n_operations(g);
    const int at_d = __LINE__ + 1;
    CHECK(tp_gradients(c, &w, 1, &dw) == c);
    for (int i = first; i < tp_graph_n_operations(g); i++) /* where what they differentiate is, or the call itself */
        CHECK(is_here(tp_graph_operation(g, i), at_c) || is_here(tp_graph_operation(g, i), at_d));
    CHECK(dw && is_here(dw->op, at_c));
    tp_graph_free(g);
}

#ifndef __cplusplus
TEST(layers_keep_their_line_and_hide_their_inside)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = input(g, "x", 4, 3);
    const int line = __LINE__ + 1, n = tp_graph_n_operations(g);
    tp_node *y = tp_fully_connected(x, "fc", .units = 5, .activation = tp_relu);
    for (int i = n; i < tp_graph_n_operations(g); i++) CHECK(is_here(tp_graph_operation(g, i), line));
    const int after = __LINE__ + 1;
    y = tp_square(y);
    CHECK(is_here(y->op, after));
    for (int i = 0; i < tp_graph_n_operations(g); i++) {
        const char *file = tp_graph_operation(g, i)->at.file;
        CHECK(file && strstr(file, "tp_layers.h") == NULL && strstr(file, "tp_graph.h") == NULL);
    }
    tp_graph_free(g);
}
#endif

TEST(layers_by_description_have_their_line)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_fully_connected_desc d;
    memset(&d, 0, sizeof d);
    d.name = "fc";
    d.units = 5;
    tp_node *x = input(g, "x", 4, 3);
    const int line = __LINE__ + 1, n = tp_graph_n_operations(g);
    tp_node *y = tp_fully_connected_(x, &d);
    for (int i = n; i < tp_graph_n_operations(g); i++) CHECK(is_here(tp_graph_operation(g, i), line));
    const int again = __LINE__ + 1;
    tp_fully_connected_(y, &d); /* its variables are there */
    has_place(g, again, "");
    tp_graph_free(g);
}

static tp_node *build(tp_graph *g, tp_node *const *in, void *user)
{
    (void)g;
    (void)user;
    return tp_square(in[0]);
}
TEST(what_was_there_before_is_not_said_to_be_the_users)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_spec spec;
    memset(&spec, 0, sizeof spec);
    spec.name = "x";
    spec.dtype = TP_F32;
    spec.shape = shape(2, 2, 2);
    tp_tower_desc d;
    memset(&d, 0, sizeof d);
    d.name = "tower0";
    tp_node *x = (tp_placeholder)(g, "x", TP_F32, spec.shape); /* by a library */
    tp_tower_func *f = tp_tower_func_new(g, build, NULL, &spec, 1);
    tp_tower_enter(g, &d);
    tp_node *y = tp_tower_func_call(f, &x);
    tp_tower_leave(g);
    CHECK(x->op->at.file == NULL && y->op->at.file != NULL);
    tp_graph_free(g);
}

TEST(runs_that_fail_tell_the_line_too)
{
    tp_graph *g = tp_graph_new(NULL);
    const int at_x = __LINE__ + 1;
    tp_node *x = tp_placeholder(g, "x", TP_I32, shape(1, TP_ANY, 0));
    tp_node *table = tp_get_variable_as(g, "table", TP_F32, shape(2, 3, 2), tp_init_ones());
    const int at_y = __LINE__ + 1;
    tp_node *y = tp_gather(table, x), *unknown = tp_placeholder(g, "u", TP_F32, shape(2, TP_ANY, 2));
    const int at_s = __LINE__ + 1;
    tp_node *sum = tp_add(y, unknown);
    tp_session *s = tp_session_new(g, NULL);
    const tp_tensor *out;
    char want[128];
    int32_t index[2] = {0, 3};
    float two[8] = {0};
    tp_feed feed[2];
    memset(feed, 0, sizeof feed);
    feed[0].node = x;
    tp_tensor_view(&feed[0].value, TP_I32, shape(1, 2, 0), index);
    feed[1].node = unknown;
    tp_tensor_view(&feed[1].value, TP_F32, shape(2, 4, 2), two);
    snprintf(want, sizeof want, "test_places.c:%d: placeholder 'x' must be fed", at_x);
    CHECK_ERR(tp_session_run(s, NULL, 0, &y, 1, &out), TP_ERR_ARG, want);
    snprintf(want, sizeof want, "test_places.c:%d: 'Gather'", at_y);
    CHECK_ERR(tp_session_run(s, feed, 1, &y, 1, &out), TP_ERR_NUMERIC, want);
    snprintf(want, sizeof want, "test_places.c:%d: Add: shapes (2,2) and (4,2)", at_s);
    CHECK_ERR(tp_session_run(s, feed, 2, &sum, 1, &out), TP_ERR_SHAPE, want);
    tp_session_free(s);
    tp_graph_free(g);
}

/* Every public function that gives a node has its macro, or is one of these. */
static const char *const without[] = {"tp_graph_fail",    "tp_graph_find",       "tp_poison",
                                      "tp_getter_next", /* what asked for it is the place */
                                      "tp_get_slot",      "tp_tower_handle_get", "tp_tower_handle_get_variable",
                                      "tp_linear_print",                        /* passed by its name */
                                      "tp_callback_find", "tp_optimizer_read"}; /* for optimizers, which have a place */

TEST(every_builder_has_its_place)
{
    static const char *const file[] = {"tp_graph.h",     "tp_layers.h", "tp_optim.h",  "tp_input.h",
                                       "tp_callbacks.h", "tp_train.h",  "tp_export.h", "tp_import.h"};
    int found = 0;
    for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
        FILE *f = fopen(file[i], "rb");
        if (!f) TEST_SKIP("it is run where the headers are not");
        static char text[1 << 20];
        const size_t n = fread(text, 1, sizeof text - 1, f);
        fclose(f);
        text[n] = 0;
        char *end = strstr(text, "#if defined(TP_IMPLEMENTATION) && ");
        if (end) *end = 0;
        static const char start[] = "\nTP_DEF tp_node *";
        for (const char *p = text; (p = strstr(p, start)) != NULL;) {
            char name[64], macro[80];
            p += strlen(start);
            if (*p == '*' || *p == 'c') continue; /* a list */
            snprintf(name, sizeof name, "%.*s", (int)strcspn(p, "("), p);
            bool left_out = name[strlen(name) - 1] == '_' || strncmp(name, "tp__", 4) == 0;
            for (size_t k = 0; k < sizeof without / sizeof *without; k++)
                left_out = left_out || strcmp(name, without[k]) == 0;
            snprintf(macro, sizeof macro, "#define %s(", name);
            CHECK_MSG(left_out || strstr(text, macro) != NULL, "%s: %s is no macro", file[i], name);
            found++;
        }
    }
    CHECK(found > 200);
}

TEST_MAIN()
