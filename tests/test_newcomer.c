/* What a newcomer runs into: mistakes that name their remedy, and the short ways of doing what is done often. */
#define TP_IMPLEMENTATION
#include "tp_export.h"
#include "tp_layers.h"
#include "tp_train.h"

#include "tp_test.h"

#if !defined(_WIN32) && !defined(TP_NO_FILES)
#include <errno.h>
#include <sys/wait.h>
#endif

static char logged[1 << 14];
static void keep_log(void *user, tp_log_level level, const char *line)
{
    (void)user;
    const size_t n = strlen(logged);
    if (level >= TP_LOG_WARN) snprintf(logged + n, sizeof logged - n, "%s\n", line);
}
static void keep_the_log(void)
{
    logged[0] = 0;
    tp_set_log(keep_log, NULL);
}

/* ==== >>mistakes ====================================================================================== */

static tp_node *line_tower(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(4, 1), tp_init_zeros());
    return tp_named(tp_mean(tp_squared_difference(tp_matmul(in[0], w), in[1])), "cost");
}

TEST(names_of_nodes_that_are_not_there)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "image", TP_F32, tp_make_shape(2)), *cost = tp_named(tp_mean(x), "cost");
    tp_session *s = tp_session_new(g, NULL);
    float data[2] = {1, 2};
    tp_feed feed = {x, {0}};
    tp_tensor_view(&feed.value, TP_F32, tp_make_shape(2), data);
    tp_node *fetch = tp_graph_find(g, "cots");
    CHECK_ERR(tp_session_run(s, &feed, 1, &fetch, 1, NULL), TP_ERR_ARG,
              "fetch 0 is NULL; was 'cots' meant? There is no node of that name; did you mean 'cost'?");
    CHECK_ERR(tp_session_run(s, &feed, 1, &fetch, 1, NULL), TP_ERR_ARG,
              "fetch 0 is NULL: no node of that name, or no gradient"); /* said once */
    feed.node = tp_graph_find(g, "imaeg:0");
    CHECK_ERR(
        tp_session_run(s, &feed, 1, &cost, 1, NULL), TP_ERR_ARG,
        "feed 0 has no node: it is NULL; was 'imaeg:0' meant? There is no node of that name; did you mean 'image'?");
    tp_session_free(s);
    tp_add(x, tp_graph_find(g, "imag"));
    CHECK_HAS(tp_graph_error(g),
              "add: input 1 is NULL; was 'imag' meant? There is no node of that name; did you mean 'image'?");
    tp_graph_free(g);
}

/* Each look-up by name that finds nothing says what was looked for, and what is similar. */
TEST(lookups_that_find_nothing)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "image", TP_F32, tp_make_shape(TP_ANY, 4));
    tp_node *y = tp_fully_connected(x, "fc0", .units = 2);
    CHECK(tp_graph_find(g, "imaeg") == NULL);
    CHECK_STR(tp_last_error(), "there is no node 'imaeg' in the graph; did you mean 'image'?");
    CHECK(tp_graph_find(g, "fc0") == NULL); /* a layer's name is a scope */
    CHECK_STR(tp_last_error(), "there is no node 'fc0' in the graph; did you mean 'fc0/output'?");
    CHECK(tp_graph_find(g, "something else") == NULL);
    CHECK_STR(tp_last_error(), "there is no node 'something else' in the graph");
    CHECK(tp_graph_find(g, "image_of_x") == NULL);
    CHECK_STR(tp_last_error(), "there is no node 'image_of_x' in the graph; did you mean 'image'?");
    CHECK(tp_graph_find_operation(g, "imgae") == NULL);
    CHECK_STR(tp_last_error(), "there is no operation 'imgae' in the graph; did you mean 'image'?");
    CHECK(tp_find_variable(g, "fc0/w") == NULL);
    CHECK_STR(tp_last_error(), "there is no variable 'fc0/w' in the graph; did you mean 'fc0/W'?");
    CHECK(tp_op_find("matmull") == NULL);
    CHECK_STR(tp_last_error(), "there is no op 'matmull'; did you mean 'matmul'?");
    CHECK(tp_graph_find(g, "fc0/output") == y && tp_graph_status(g) == TP_OK);
    tp_graph_free(g);
}

TEST(lookups_in_towers_that_find_nothing)
{
    static const tp_spec spec[] = {TP_SPEC("image", TP_F32, TP_ANY, 4), TP_SPEC("y", TP_F32, TP_ANY, 1)};
    tp_graph *g = tp_graph_new(NULL);
    tp_tower_func *f = tp_tower_func_new(g, line_tower, NULL, spec, 2);
    tp_node *in[2] = {tp_placeholder(g, "image", TP_F32, spec[0].shape), tp_placeholder(g, "y", TP_F32, spec[1].shape)};
    const tp_tower_desc d = {.name = "tower0", .is_training = true};
    if (CHECK(f && tp_tower_enter(g, &d))) {
        tp_tower_func_call(f, in);
        tp_tower_leave(g);
        CHECK(tp_tower_func_find(f, "tower1") == NULL);
        CHECK_STR(tp_last_error(), "there is no tower 'tower1'; did you mean 'tower0'?");
        CHECK(tp_tower_handles_find(tp_tower_func_towers(f, TP_TOWERS_INFERENCE), "tower0") == NULL);
        CHECK_STR(tp_last_error(), "there is no inference tower 'tower0'");
        const tp_tower_handle *h = tp_tower_func_find(f, "tower0");
        CHECK(tp_tower_handle_get(h, "cost") != NULL && tp_tower_handle_get(h, "cots") == NULL);
        CHECK_HAS(tp_last_error(), "tower 'tower0' has no tensor 'cots'");
        CHECK(tp_tower_handle_get_variable(h, "W") == NULL);
        CHECK_STR(tp_last_error(), "tower 'tower0' has no variable 'W'; did you mean 'w'?");
    }
    tp_graph_free(g);
}

TEST(an_array_that_is_not_there)
{
    tp_dict d = {0};
    CHECK(tp_dict_find(&d, "w") == NULL);
    CHECK_STR(tp_last_error(), "there is no array 'w': there are none");
    tp_dict_add(&d, "conv0/W");
    tp_dict_add(&d, "conv0/b");
    CHECK(tp_dict_find(&d, "conv0/w") == NULL);
    CHECK_STR(tp_last_error(), "there is no array 'conv0/w'; the first of 2 is 'conv0/W'");
    CHECK(tp_dict_find(&d, "conv0/b") == &d.item[1].value);
    tp_dict_free(&d);
}

TEST(a_name_that_is_given_twice)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *a = tp_named(tp_const(g, 1), "loss"), *b = tp_named(tp_const(g, 2), "loss");
    tp_node *c = tp_named(tp_const(g, 3), "other"), *d = tp_named(tp_const(g, 4), "other_1");
    char want[200];
    CHECK_STR(tp_node_name(b), "loss_1");
    keep_the_log();
    CHECK(tp_graph_find(g, "loss_1") == b && tp_graph_find(g, "other") == c && tp_graph_find(g, "other_1") == d);
    CHECK_STR(logged, "");
    CHECK(tp_graph_find(g, "loss") == a);
    tp_set_log(NULL, NULL);
    snprintf(
        want, sizeof want,
        "The name 'loss' was given more than once. It finds test_newcomer.c:%d: 'loss'; not found: ", a->op->at.line);
    CHECK_HAS(logged, want);
    CHECK_HAS(logged, "'loss_1'");
    tp_graph_free(g);
}

TEST(scalars_have_a_shape)
{
    const tp_shape scalar = tp_make_shape(), pair = tp_make_shape(2, 3);
    CHECK(scalar.ndim == 0 && pair.ndim == 2 && pair.dim[0] == 2 && pair.dim[1] == 3);
    CHECK(tp_shape_size(&scalar) == 1);
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape()), *y = tp_square(x);
    tp_session *s = tp_session_new(g, NULL);
    const float value = 3;
    const tp_feed feed = TP_FEED(x, TP_F32, &value);
    const tp_tensor *out = NULL;
    if (CHECK_OK(tp_session_run(s, &feed, 1, &y, 1, &out))) CHECK(tp_tensor_get(out, 0) == 9);
    tp_session_free(s);
    tp_graph_free(g);
}

/* Numbers of classes and probabilities of classes have a function each. */
TEST(labels_of_the_other_kind)
{
    for (int i = 0; i < 2; i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 3));
        if (i == 0) tp_softmax_cross_entropy(x, tp_placeholder(g, "label", TP_I32, tp_make_shape(TP_ANY)));
        else tp_sparse_softmax_cross_entropy(x, tp_placeholder(g, "label", TP_I32, tp_make_shape(TP_ANY, 3)));
        CHECK_HAS(
            tp_graph_error(g),
            i == 0
                ? "the labels are int32, but have to be probabilities of the classes; tp_sparse_softmax_cross_entropy "
                  "takes the numbers of classes"
                : "needs (B,..,C) and (B,..); tp_softmax_cross_entropy takes a probability for each class");
        tp_graph_free(g);
    }
}

TEST(labels_of_sequences)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_sparse_softmax_cross_entropy(tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 3)),
                                    tp_placeholder(g, "label", TP_I32, tp_make_shape(TP_ANY, 20)));
    CHECK_HAS(tp_graph_error(g),
              "logits are (?,3) and labels (?,20): needs (B,..,C) and (B,..); tp_flatten makes one row of the labels");
    tp_graph_free(g);
}

/* The place of the label is told for each type of integers, wherever it stands; casts and other names are looked through. */
TEST(a_label_outside_the_classes)
{
    static const tp_dtype dtypes[] = {TP_U8, TP_I32, TP_I64, TP_F32};
    static const float logits[12];
    for (int i = 0; i < 4 * 4; i++) {
        const tp_dtype dtype = dtypes[i / 4];
        const int at = i % 4;
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 3));
        tp_node *label = tp_placeholder(g, "label", dtype, tp_make_shape(TP_ANY));
        tp_node *number = dtype == TP_F32 ? tp_cast(label, TP_I32) : at % 2 ? tp_identity(label) : label;
        tp_node *cost = tp_sparse_softmax_cross_entropy(tp_named(x, "logits"), number);
        tp_session *s = tp_session_new(g, NULL);
        tp_feed feeds[2], logits_fed = TP_FEED(x, TP_F32, logits, 4, 3), label_fed = {.node = label};
        char want[64];
        CHECK_OK(tp_tensor_resize(&label_fed.value, dtype, tp_make_shape(4)));
        for (int k = 0; k < 4; k++) tp_tensor_set(&label_fed.value, k, k < at ? k % 3 : k == at ? 7 : 8);
        feeds[at / 2] = label_fed, feeds[1 - at / 2] = logits_fed; /* in either order */
        CHECK_ERR(tp_session_run(s, feeds, 2, &cost, 1, NULL), TP_ERR_NUMERIC,
                  "label 7 is outside the classes; the inputs are 'logits' (?,3), ");
        snprintf(want, sizeof want, "; 'label' has it at element (%d)", at);
        if (dtype != TP_F32) CHECK_HAS(tp_last_error(), want);
        else CHECK_MSG(!strstr(tp_last_error(), "has it at"), "%s", tp_last_error());
        tp_tensor_free(&label_fed.value);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* Of a label map the place is told with all its dimensions: entry of the batch, row, column. */
TEST(a_label_of_a_pixel_outside_the_classes)
{
    for (int i = 0; i < 4; i++) {
        const tp_dtype dtype = i % 2 ? TP_U8 : TP_I32;
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 3, 4, 21));
        tp_node *map = tp_placeholder(g, "map", dtype, tp_make_shape(TP_ANY, 3, 4));
        tp_node *cost = i < 2 ? tp_sparse_softmax_cross_entropy(x, map)
                              : tp_sparse_softmax_cross_entropy(tp_reshape(x, TP_ANY, 21), tp_flatten(map));
        tp_session *s = tp_session_new(g, NULL);
        tp_feed feeds[2] = {{.node = x}, {.node = map}};
        CHECK_OK(tp_tensor_resize(&feeds[0].value, TP_F32, tp_make_shape(2, 3, 4, 21)));
        memset(feeds[0].value.data, 0, tp_tensor_bytes(&feeds[0].value));
        CHECK_OK(tp_tensor_resize(&feeds[1].value, dtype, tp_make_shape(2, 3, 4)));
        for (int k = 0; k < 24; k++) tp_tensor_set(&feeds[1].value, k, k == 12 + 2 * 4 + 1 ? 255 : k % 21);
        CHECK_ERR(tp_session_run(s, feeds, 2, &cost, 1, NULL), TP_ERR_NUMERIC, "label 255 is outside the classes");
        CHECK_HAS(tp_last_error(), "; 'map' has it at element (1,2,1)");
        tp_tensor_free(&feeds[0].value);
        tp_tensor_free(&feeds[1].value);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

TEST(a_checkpoint_for_a_session_of_ones_own)
{
    char path[600];
    snprintf(path, sizeof path, "%s/newcomer.npz", tp_test_tmpdir());
    tp_graph *g = tp_graph_new(NULL);
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(2), tp_init_constant(3));
    tp_session *s = tp_session_new(g, NULL);
    tp_tensor t = {0};
    static const float values[2] = {5, 7};
    tp_tensor_view(&t, TP_F32, tp_make_shape(2), (void *)(uintptr_t)values);
    CHECK_OK(tp_session_load(s, tp_node_variable(w), &t));
    CHECK_OK(tp_save_checkpoint(s, path, NULL, 0));
    tp_session *other = tp_session_new(g, NULL);
    CHECK_OK(tp_restore_checkpoint(other, path));
    memset(&t, 0, sizeof t);
    if (CHECK_OK(tp_session_read(other, tp_node_variable(w), &t))) CHECK(tp_tensor_get(&t, 1) == 7);
    CHECK_ERR(tp_restore_checkpoint(other, "newcomre.npz"), TP_ERR_NAME, "newcomre.npz");
    tp_graph *wider = tp_graph_new(NULL);
    tp_get_variable_as(wider, "w", TP_F32, tp_make_shape(3), tp_init_zeros());
    tp_session *wide = tp_session_new(wider, NULL);
    CHECK_ERR(
        tp_restore_checkpoint(wide, path), TP_ERR_SHAPE,
        "newcomer.npz: variable 'w' has shape (3), the value to load has (2). tp_saver_restore_ex goes on without it");
    tp_session_free(wide);
    tp_graph_free(wider);
    CHECK_ERR(tp_restore_checkpoint(NULL, path), TP_ERR_ARG, "");
    CHECK_ERR(tp_restore_checkpoint(other, NULL), TP_ERR_ARG, "");
    tp_tensor_free(&t);
    tp_session_free(s);
    tp_session_free(other);
    tp_graph_free(g);
}

/* A name of another graph, of one that is gone, or that is there by now is not why something is NULL. */
TEST(names_that_were_not_there_elsewhere)
{
    static const char *const plain = "fetch 0 is NULL: no node of that name, or no gradient";
    tp_graph *g = tp_graph_new(NULL), *other = tp_graph_new(NULL);
    tp_session *s = tp_session_new(g, NULL);
    const tp_tensor *value = NULL;
    tp_node *fetch = tp_graph_find(other, "cost");
    CHECK_ERR(tp_session_run(s, NULL, 0, &fetch, 1, &value), TP_ERR_ARG, plain);
    CHECK(strstr(tp_last_error(), "meant") == NULL);
    tp_graph_find(other, "cost");
    tp_graph_free(other);
    CHECK(tp_is_poison(tp_relu(NULL)));
    CHECK(strstr(tp_last_error(), "meant") == NULL);
    tp_graph_find(g, "cost");
    tp_named(tp_const(g, 1), "cost");
    CHECK_ERR(tp_session_run(s, NULL, 0, &fetch, 1, &value), TP_ERR_ARG, plain);
    CHECK(strstr(tp_last_error(), "meant") == NULL);
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(names_of_variables_that_are_not_there)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_get_variable_as(g, "conv0/W", TP_F32, tp_make_shape(2), tp_init_ones());
    tp_session *s = tp_session_new(g, NULL);
    tp_tensor t = {0};
    CHECK_ERR(tp_session_read(s, tp_find_variable(g, "conv0/w"), &t), TP_ERR_ARG,
              "there is no variable: it is NULL; was 'conv0/w' meant? There is no variable of that name; did you mean "
              "'conv0/W'?");
    CHECK_ERR(tp_session_load(s, tp_find_variable(g, "conv/W"), &t), TP_ERR_ARG, "did you mean 'conv0/W'?");
    CHECK_ERR(tp_session_load(s, NULL, &t), TP_ERR_ARG, "there is no variable: it is NULL");
    tp_graph *later = tp_graph_new(NULL); /* looked up too early: by now there is one of that name */
    CHECK(tp_find_variable(later, "W") == NULL);
    tp_get_variable_as(later, "W", TP_F32, tp_make_shape(2), tp_init_ones());
    tp_session *of_later = tp_session_new(later, NULL);
    CHECK_ERR(tp_session_load(of_later, NULL, &t), TP_ERR_ARG, "there is no variable: it is NULL");
    CHECK_STR(tp_last_error(), "there is no variable: it is NULL");
    tp_session_free(of_later);
    tp_graph_free(later);
    CHECK(tp_get_global_step_value(s) == 0); /* the library's own questions are not told */
    CHECK_ERR(tp_session_read(s, NULL, &t), TP_ERR_ARG, "there is no variable: it is NULL");
    CHECK(strstr(tp_last_error(), "meant") == NULL);
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(a_tensor_that_was_never_set)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 28, 28)), *y = tp_mean(x);
    tp_session *s = tp_session_new(g, NULL);
    static float data[28 * 28];
    tp_feed feed = {x, {0}};
    CHECK_ERR(tp_session_run(s, &feed, 1, &y, 1, NULL), TP_ERR_DTYPE, "tp_tensor_view");
    tp_tensor_view(&feed.value, TP_F32, tp_make_shape(28, 28), data);
    CHECK_ERR(tp_session_run(s, &feed, 1, &y, 1, NULL), TP_ERR_SHAPE,
              "'x' has shape (?,28,28) but is fed (28,28): one sample? A batch of one has the shape (1,...)");
    tp_tensor_view(&feed.value, TP_F32, tp_make_shape(28, 14), data);
    CHECK_ERR(tp_session_run(s, &feed, 1, &y, 1, NULL), TP_ERR_SHAPE, "but is fed (28,14)");
    CHECK(strstr(tp_last_error(), "one sample") == NULL);
    tp_session_free(s);
    tp_graph_free(g);
}

/* One weight that should become 3. */
static const tp_spec line_inputs[] = {TP_SPEC("x", TP_F32, TP_ANY, 1), TP_SPEC("y", TP_F32, TP_ANY, 1)};
static tp_node *line_graph(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(1, 1), tp_init_zeros());
    return tp_named(tp_mean(tp_squared_difference(tp_named(tp_matmul(in[0], w), "prediction"), in[1])), "cost");
}
static tp_optimizer *line_optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_sgd(tp_get_scalar_variable(g, "learning_rate", 0.1f));
}
static tp_dataflow *line_data(void)
{
    static const float x[] = {1, 2, -1, 0.5f}, y[] = {3, 6, -3, 1.5f};
    tp_tensor t[2];
    memset(t, 0, sizeof t);
    tp_tensor_view(&t[0], TP_F32, tp_make_shape(4, 1), (void *)(uintptr_t)x);
    tp_tensor_view(&t[1], TP_F32, tp_make_shape(4, 1), (void *)(uintptr_t)y);
    return tp_df_from_arrays(.arrays = t, .n = 2, .shuffle = TP_NO);
}
#define LINE_MODEL                                                                                   \
    {                                                                                                \
        .inputs = line_inputs, .n_inputs = 2, .build_graph = line_graph, .optimizer = line_optimizer \
    }

TEST(data_without_batches)
{
    TEST_MAY_ERROR("");
    CHECK_ERR(
        tp_launch_train_with_config(
            &(tp_train_config){.model = LINE_MODEL, .dataflow = line_data(), .max_epoch = 1, .steps_per_epoch = 2},
            tp_simple_trainer()),
        TP_ERR_SHAPE, "has shape (1), the input signature wants (?,1): is tp_df_batch missing?");
}

/* A batch of another shape: where it is from, and what can be done. */
TEST(data_of_another_shape)
{
    static const float x[12];
    tp_tensor t[2] = {{0}, {0}};
    for (int i = 0; i < 2; i++) tp_tensor_view(&t[i], TP_F32, tp_make_shape(4, 3), (void *)(uintptr_t)x);
    TEST_MAY_ERROR("");
    CHECK_ERR(
        tp_launch_train_with_config(
            &(tp_train_config){.model = LINE_MODEL,
                               .dataflow = tp_df_batch(tp_df_from_arrays(.arrays = t, .n = 2), 4),
                               .max_epoch = 1},
            tp_simple_trainer()),
        TP_ERR_SHAPE,
        "component 0 ('x') of datapoint 0 of tp_df_batch has shape (4,3), the input signature wants (?,1): change the "
        "signature, or the component with tp_df_map_component");
}

static tp_status halve(double *value, void *user)
{
    (void)user;
    *value /= 2;
    return TP_OK;
}
static tp_status report(tp_callback *cb) { return tp_monitors_put_scalar(cb->train->monitors, "learning_rate", 0.5); }
static tp_train_config line_config(int64_t epochs)
{
    tp_train_config c = {
        .model = LINE_MODEL, .dataflow = tp_df_batch(line_data(), 4), .max_epoch = epochs, .steps_per_epoch = 1};
    return c;
}

/* ---- wrong inputs of a training: nodes of another graph, tensors that differ from the signature, batches without rows ---- */

static tp_graph *other_graph;
static int mistake;
static tp_status own_tensors(tp_input_source *s, tp_node **in)
{
    tp_graph *g = mistake == 3 ? other_graph : s->graph;
    in[1] = tp_placeholder(s->graph, "y_right", TP_F32, tp_make_shape(4, 1));
    if (mistake == 0) in[0] = tp_placeholder(g, "wide", TP_F32, tp_make_shape(4, 3));
    if (mistake == 1) in[0] = tp_placeholder(g, "counts", TP_I32, tp_make_shape(4, 1));
    if (mistake > 2) in[0] = tp_placeholder(g, "right", TP_F32, tp_make_shape(4, 1));
    return TP_OK;
}
TEST(a_source_of_ones_own_keeps_to_the_signature)
{
    static const char *const sentence[] = {
        "Own: its get_input_tensors gives float32 (4,3) for 'x', the signature says float32 (?,1)",
        "Own: its get_input_tensors gives int32 (4,1) for 'x', the signature says float32 (?,1)",
        "Own: its get_input_tensors gives no tensor for 'x'",
        "Own: its get_input_tensors gives a tensor of another graph for 'x'", "'right' must be fed"};
    other_graph = tp_graph_new(NULL);
    TEST_MAY_ERROR("");
    for (mistake = 0; mistake < TP_COUNT(sentence); mistake++)
        for (int runner = 0; runner < 2; runner++) { /* the source of the training, or of a validation */
            tp_input_source *own = tp_feedfree_input("Own", 0);
            if (!CHECK(own != NULL)) continue;
            own->get_input_tensors = own_tensors;
            tp_callback *cb =
                runner ? tp_cb_inference_runner(.input = own, .inferencers = {tp_inf_scalar_stats(TP_NAMES("cost"))})
                       : tp_callback_new("Nothing", 0);
            tp_train_config c = {TP_CALLBACKS(cb), .model = LINE_MODEL, .max_epoch = 1, .steps_per_epoch = 1};
            if (runner) c.dataflow = tp_df_batch(line_data(), 4);
            else c.data = own;
            CHECK(tp_launch_train_with_config(&c, tp_simple_trainer()) != TP_OK);
            if (!runner || mistake < 4) CHECK_HAS(tp_last_error(), sentence[mistake]);
        }
    tp_graph_free(other_graph);
}

static tp_node *other_node;
static tp_status asks_elsewhere(tp_callback *cb, tp_run_request *r)
{
    static const float one[1] = {1};
    tp_tensor t = TP_EMPTY;
    (void)cb;
    tp_tensor_view(&t, TP_F32, tp_make_shape(1), (void *)(uintptr_t)one);
    if (mistake) return tp_request_feed(r, other_node, &t);
    return tp_request_fetch(r, other_node) < 0 ? TP_ERR_ARG : TP_OK;
}
static tp_node *costs_elsewhere(tp_graph *g, tp_node *const *in, void *user)
{
    line_graph(g, in, user);
    return tp_const(other_graph, 3);
}
TEST(nodes_of_another_graph_in_a_training)
{
    static const char *const sentence[] = {
        "Own: it fetches 'strange', which is a node of another graph than the training's",
        "Own: it feeds 'strange', which is a node of another graph than the training's",
        "build_graph returned the cost 'Const', which is a node of another graph: make it of the inputs"};
    other_graph = tp_graph_new(NULL);
    other_node = tp_placeholder(other_graph, "strange", TP_F32, tp_make_shape(1));
    TEST_MAY_ERROR("");
    for (mistake = 0; mistake < TP_COUNT(sentence); mistake++) {
        tp_callback *cb = tp_callback_new("Own", 0);
        if (mistake < 2) cb->before_run = asks_elsewhere;
        tp_train_config c = {TP_CALLBACKS(cb), .model = LINE_MODEL, .max_epoch = 1, .steps_per_epoch = 1};
        if (mistake == 2) c.model.build_graph = costs_elsewhere;
        c.dataflow = tp_df_batch(line_data(), 4);
        CHECK_ERR(tp_launch_train_with_config(&c, tp_simple_trainer()), TP_ERR_ARG, sentence[mistake]);
    }
    tp_graph_free(other_graph);
}

static tp_status no_rows_at_step_2(void *user, int64_t pass, int64_t i, tp_datapoint *dp)
{
    (void)user, (void)pass;
    tp_status st = tp_datapoint_resize(dp, 2);
    for (int k = 0; k < 2 && st == TP_OK; k++) {
        st = tp_tensor_resize(&dp->c[k], TP_F32, tp_make_shape(i == 1 ? 0 : 1, 1));
        if (st == TP_OK && i != 1) ((float *)dp->c[k].data)[0] = 1;
    }
    return st;
}
TEST(a_batch_of_no_rows)
{
    const tp_train_config c = {.model = LINE_MODEL,
                               .dataflow = tp_df_from_generator(no_rows_at_step_2, .size = 4, .indexed = TP_YES),
                               .max_epoch = 1};
    TEST_MAY_ERROR("");
    CHECK_ERR(
        tp_launch_train_with_config(&c, tp_simple_trainer()), TP_ERR_NUMERIC,
        "the cost 'cost' is NaN after step 2 of epoch 1 (global_step=2): the batch has 0 rows, 'x' was fed (0,1)");
}

/* ---- an inferencer that forgets its names, or its function ---- */

static tp_status takes_values(tp_inferencer *inf, const tp_tensor *const *values, int n)
{
    (void)values;
    *(int *)inf->user += n;
    return TP_OK;
}
TEST(an_inferencer_that_forgets_something)
{
    static const tp_spec fake[] = {TP_SPEC("x", TP_F32, 3, 4), TP_SPEC("y", TP_F32, 3, 1)};
    static const char *const names[] = {"cost"};
    for (int i = 0; i < 4; i++) { /* the values' names, what takes them, both and neither, which is fine */
        tp_inferencer *inf = tp_inferencer_new("IoU", sizeof(int));
        if (i % 2 == 0) inf->on_fetches = takes_values;
        if (i == 1 || i == 2) CHECK_OK(tp_inferencer_set_names(inf, names, 1));
        keep_the_log();
        tp_logger_set_dir(tp_test_tmpdir(), 'd');
        CHECK_OK(tp_launch_train_with_config(
            TP_OPTIONS(tp_train_config,
                       .model = {.inputs = fake, .n_inputs = 2, .build_graph = line_tower, .optimizer = line_optimizer},
                       .dataflow = tp_df_fake(fake, 2, .size = 4),
                       TP_CALLBACKS(tp_cb_inference_runner(tp_df_fake(fake, 2, .size = 4), .inferencers = {inf})),
                       .max_epoch = 1),
            tp_simple_trainer()));
        tp_set_log(NULL, NULL);
        static const char *const warning[] = {
            "IoU has on_fetches, which will get no values: name them by tp_inferencer_set_names",
            "IoU names values, but has no on_fetches that takes them"};
        for (int k = 0; k < 2; k++)
            CHECK_MSG((strstr(logged, warning[k]) != NULL) == (i == k), "inferencer %d: %s", i, logged);
    }
}

/* A moving summary of something that is no scalar has the place of that value. */
TEST(a_summary_of_many_values_has_its_place)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_tower_desc tower = {.is_training = true};
    tp_tower_enter(g, &tower);
    tp_node *x = tp_named(tp_relu(tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 2))), "losses");
    const int line = __LINE__ - 1;
    char at[64];
    tp_add_moving_summary(x);
    tp_tower_leave(g);
    snprintf(at, sizeof at, "test_newcomer.c:%d: moving summary of 'losses'", line);
    CHECK_HAS(tp_graph_error(g), at);
    CHECK_HAS(tp_graph_error(g), "a scalar is needed: take its mean");
    tp_graph_free(g);
}

/* Functions that return a number cannot return a status: the log has the sentence, once for a loop. */
TEST(an_element_that_is_not_there_is_told)
{
    static float data[2];
    tp_tensor t = TP_EMPTY;
    tp_tensor_view(&t, TP_F32, tp_make_shape(2), data);
    tp_fail(TP_ERR_ARG, "another sentence");
    keep_the_log();
    for (int i = 1; i < 5; i++) CHECK(tp_tensor_get(&t, i) == 0);
    tp_tensor_set(NULL, 0, 1);
    tp_set_log(NULL, NULL);
    CHECK_HAS(logged, "tp_tensor_get: there is no element 2 in a tensor of shape (2), which has 2, numbered from 0");
    CHECK(strstr(logged, "no element 3") == NULL);
    CHECK_HAS(logged, "tp_tensor_set: the tensor is NULL");
    tp_fail(TP_ERR_ARG, "another sentence");
}

/* A parameter that a callback of one's own uses, but that was never given its training. */
TEST(a_parameter_without_a_training)
{
    double value;
    tp_hyper_param *p = tp_param_graph_var("learning_rate");
    CHECK_ERR(p->setup_graph(p), TP_ERR_STATE, "in a callback of your own set its .train to cb->train");
    CHECK_ERR(p->get_value(p, &value), TP_ERR_STATE, "the parameter 'learning_rate' has no value before training");
    CHECK_ERR(p->set_value(p, 1), TP_ERR_STATE, "the parameter 'learning_rate' cannot be set before training");
    tp_hyper_param_free(p);
}

/* A callback that fetches a node by a name that is not there. */
static tp_status asks_for_cots(tp_callback *cb, tp_run_request *r)
{
    return tp_request_fetch(r, tp_graph_find(cb->train->graph, "cots")) < 0 ? TP_ERR : TP_OK;
}
TEST(a_callback_that_fetches_what_is_not_there)
{
    TEST_MAY_ERROR("");
    tp_callback *cb = tp_callback_new("Asks", 0);
    cb->before_run = asks_for_cots;
    CHECK_ERR(tp_launch_train_with_config(TP_OPTIONS(tp_train_config, .model = LINE_MODEL,
                                                     .dataflow = tp_df_batch(line_data(), 2), TP_CALLBACKS(cb),
                                                     .max_epoch = 1),
                                          tp_simple_trainer()),
              TP_ERR,
              "a hook asks for a node that does not exist; was 'cots' meant? There is no node of that name; did you "
              "mean 'cost'?");
}

/* Weights of a program that has the other order of dimensions: they load, but the warning asks. It asks of no other shape, nor where
 * only one dimension is more than 1: then there is nothing to transpose. */
TEST(weights_that_are_not_transposed)
{
    static const struct {
        tp_shape variable, value;
        const char *text; /* the variable's shape */
        bool asks;
    } t[] = {{{2, {4, 3}}, {2, {3, 4}}, "(4,3)", true},
             {{2, {4, 3}}, {2, {2, 6}}, "(4,3)", false},
             {{2, {4, 3}}, {3, {3, 1, 4}}, "(4,3)", false},
             {{3, {3, 1, 4}}, {2, {3, 4}}, "(3,1,4)", false},
             {{2, {4, 1}}, {2, {1, 4}}, "(4,1)", false},
             {{3, {1, 1, 5}}, {3, {5, 1, 1}}, "(1,1,5)", false},
             {{3, {2, 2, 3}}, {3, {3, 2, 2}}, "(2,2,3)", true},
             {{3, {2, 6, 2}}, {3, {4, 2, 3}}, "(2,6,2)", false},
             {{3, {2, 2, 9}}, {3, {2, 3, 6}}, "(2,2,9)", false},
             {{3, {3, 1, 2}}, {3, {2, 1, 3}}, "(3,1,2)", true},
             {{4, {2, 6, 3, 4}}, {4, {2, 2, 6, 6}}, "(2,6,3,4)", false},
             {{4, {2, 6, 2, 6}}, {4, {2, 2, 6, 6}}, "(2,6,2,6)", true}};
    for (int i = 0; i < TP_COUNT(t); i++) {
        char want[96];
        tp_graph *g = tp_graph_new(NULL);
        tp_get_variable_as(g, "fc/W", TP_F32, t[i].variable, tp_init_zeros());
        tp_dict d = TP_EMPTY;
        CHECK_OK(tp_tensor_resize(tp_dict_add(&d, "fc/W"), TP_F32, t[i].value));
        memset(d.item[0].value.data, 0, tp_tensor_bytes(&d.item[0].value));
        tp_session *s = tp_session_new(g, NULL);
        tp_session_init *init = tp_dict_restore(&d, false);
        keep_the_log();
        CHECK_OK(tp_session_init_run(init, s));
        tp_set_log(NULL, NULL);
        snprintf(want, sizeof want, "is reshaped to load it into variable 'fc/W' whose shape is %s.", t[i].text);
        CHECK_HAS(logged, want);
        CHECK_MSG((strstr(logged, "Should its dimensions be transposed instead?") != NULL) == t[i].asks, "%d", i);
        tp_session_init_free(init);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* A build_graph that gives up: what made it do so is said, by a trainer and by a predictor. */
static tp_node *gives_up(tp_graph *g, tp_node *const *in, void *user)
{
    (void)g, (void)in, (void)user;
    return tp_fail(TP_ERR_IO, "net.onnx cannot be opened"), (tp_node *)NULL;
}
TEST(a_model_that_gives_up_says_why)
{
    static const char *const names[] = {"x", "logits"};
    TEST_MAY_ERROR("");
    tp_model m = LINE_MODEL;
    m.build_graph = gives_up;
    CHECK_ERR(tp_launch_train_with_config(&(tp_train_config){.model = m, .dataflow = line_data(), .max_epoch = 1},
                                          tp_simple_trainer()),
              TP_ERR_ARG, "it returns the cost, a scalar node: net.onnx cannot be opened");
    const tp_predict_config c = {.inputs = line_inputs,
                                 .n_inputs = 2,
                                 .build_graph = gives_up,
                                 .input_names = names,
                                 .n_input_names = 1,
                                 .output_names = names + 1,
                                 .n_output_names = 1};
    CHECK(tp_offline_predictor(&c) == NULL);
    CHECK_HAS(tp_last_error(), "there is no tensor 'logits' for an output");
    CHECK_HAS(tp_last_error(), ". build_graph returned NULL: net.onnx cannot be opened");
    tp_graph *g = tp_graph_new(NULL);
    tp_fully_connected(tp_graph_find(g, "relu_2"), "head", .units = 2);
    CHECK_HAS(tp_last_error(),
              "head: FullyConnected: the input is NULL; was 'relu_2' meant? There is no node of that name");
    tp_graph_free(g);
}

/* A run_step of one's own that runs nothing, runs too often, or runs without the data; a trainer without its functions. */
static tp_status steps_of_ones_own(tp_trainer *t)
{
    const char kind = *(const char *)t->user;
    tp_status st = kind == 's' ? tp_session_run(t->state.session, NULL, 0, &t->train_op, 1, NULL) : TP_OK;
    for (int i = 0; i < (kind == '2' ? 2 : kind == '1') && st == TP_OK; i++)
        st = tp_hooked_run(t->state.hooked_session, &t->train_op, 1, NULL);
    return st;
}
TEST(a_run_step_that_runs_too_little_or_too_much)
{
    static const struct {
        const char *kind, *sentence;
    } c[] = {{"0", "SimpleTrainer: run_step ran nothing in 2 steps: it should call tp_hooked_run once a step"},
             {"1", ""},
             {"2", "run_step called tp_hooked_run 4 times in 2 steps"},
             {"s", "tp_session_run feeds nothing"},
             {"b", "SimpleTrainer: its function build is NULL"},
             {"r", "SimpleTrainer: its function run_step is NULL"}};
    for (int i = 0; i < TP_COUNT(c); i++) {
        TEST_MAY_ERROR("");
        tp_trainer *t = tp_simple_trainer();
        t->run_step = *c[i].kind == 'r' ? NULL : steps_of_ones_own;
        t->user = (void *)(size_t)c[i].kind;
        if (*c[i].kind == 'b') t->build = NULL;
        tp_logger_set_dir(tp_test_tmpdir(), 'd');
        keep_the_log();
        const tp_status st =
            tp_launch_train_with_config(TP_OPTIONS(tp_train_config, .model = LINE_MODEL,
                                                   .dataflow = tp_df_batch(tp_df_repeated(line_data(), -1), 2),
                                                   .steps_per_epoch = 2, .max_epoch = 2),
                                        t);
        tp_set_log(NULL, NULL);
        CHECK_MSG((st == TP_OK) == (i < 3), "%s: %s", c[i].kind, tp_last_error());
        CHECK_HAS(logged, c[i].sentence);
        if (i == 1) CHECK(strstr(logged, "run_step") == NULL);
    }
}

/* Steps are counted from where the epoch goes on. */
static tp_status interrupt_step_2(tp_callback *cb) { return cb->train->local_step == 1 ? TP_INTR : TP_OK; }
TEST(a_run_step_that_runs_too_much_in_the_rest_of_an_epoch)
{
    tp_logger_set_dir(tp_test_tmpdir(), 'd');
    for (int rest = 0; rest < 2; rest++) {
        tp_callback *cb[2] = {tp_cb_model_saver(), tp_callback_new("Interrupts", 0)};
        tp_trainer *t = tp_simple_trainer();
        t->run_step = steps_of_ones_own;
        t->user = (void *)(size_t)(rest ? "2" : "1");
        if (!rest) cb[1]->trigger_step = interrupt_step_2;
        keep_the_log();
        const tp_status st = tp_launch_train_with_config(
            TP_OPTIONS(tp_train_config, .model = LINE_MODEL,
                       .dataflow = tp_df_batch(tp_df_repeated(line_data(), -1), 2), .callbacks = cb, .n_callbacks = 2,
                       .auto_resume = TP_YES, .steps_per_epoch = 4, .max_epoch = 1),
            t);
        tp_set_log(NULL, NULL);
        CHECK_MSG(st == (rest ? TP_OK : TP_INTR), "%s: %s", tp_status_name(st), tp_last_error());
    }
    CHECK_HAS(logged, "run_step called tp_hooked_run 4 times in 2 steps");
}

/* A state that does not fit the layer, and one that is carried although nothing reads it. */
static tp_node *reads_one_of_two(tp_graph *g, tp_node *const *in, void *user)
{
    (void)g, (void)user;
    tp_named(tp_affine(in[1], 2, 0), "next");
    return tp_named(tp_mean(in[1]), "cost");
}
TEST(states_that_do_not_fit)
{
    for (int i = 0; i < 2; i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 5, 2));
        tp_node *h = tp_placeholder(g, "h", TP_F32, tp_make_shape(TP_ANY, 16));
        tp_rnn_state s = {i ? h : NULL, h};
        if (i) tp_gru(x, "rnn", .units = 32, .state = &s);
        else tp_lstm(x, "rnn", .units = 32, .state = &s);
        CHECK_HAS(tp_graph_error(g), i ? "GRU has .units 32, but its state h is (?,16): it must be (B,32)"
                                       : "LSTM has .units 32, but its state c is (?,16): it must be (B,32)");
        tp_graph_free(g);
    }
    /* a state that was not made: the first mistake is told, not a shape that follows from it */
    for (int i = 0; i < 4; i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 5, 2));
        tp_node *no = i % 2 ? tp_neg(tp_graph_find(g, "stat")) : tp_matmul(x, x), *zero = NULL;
        tp_rnn_state s = {i < 2 ? no : zero, i < 2 ? zero : no};
        tp_node *y = tp_lstm(x, "rnn", .units = 32, .state = &s);
        CHECK(tp_is_poison(y) && s.h == (i < 2 ? no : zero) && s.c == (i < 2 ? zero : no));
        CHECK_HAS(tp_graph_error(g), i % 2 ? "neg: input 0 is NULL; was 'stat' meant?" : "MatMul: shapes (?,5,2) and");
        if (i % 2) CHECK_HAS(tp_graph_error(g), i < 2 ? "lstm: input 3 was not made" : "lstm: input 4 was not made");
        tp_graph_free(g);
    }
    static const tp_spec specs[] = {TP_SPEC("h", TP_F32, TP_ANY, 2), TP_SPEC("x", TP_F32, TP_ANY, 2)};
    static const char *const outs[] = {"next"};
    const tp_predict_config c = {
        .inputs = specs, .n_inputs = 2, .build_graph = reads_one_of_two, .output_names = outs, .n_output_names = 1};
    tp_predictor *p = tp_offline_predictor(&c);
    keep_the_log();
    CHECK_OK(tp_predictor_carry(p, 0, 0));
    tp_set_log(NULL, NULL);
    CHECK_HAS(logged, "no output reads the input 'h', so carrying it changes nothing");
    tp_predictor_free(p);
}

TEST(a_misspelled_statistic)
{
    keep_the_log();
    tp_train_config c = line_config(2);
    double field = 1;
    tp_callback *cb[] = {tp_cb_stat_monitor_param_setter("f", "learning_rat", halve, .last_k = 2,
                                                         .param = tp_param_field("f", &field, TP_F64)),
                         tp_cb_lambda(.trigger = report)};
    c.callbacks = cb, c.n_callbacks = 2;
    TEST_MAY_ERROR("");
    CHECK_ERR(tp_launch_train_with_config(&c, tp_simple_trainer()), TP_ERR_NAME, "did you mean 'learning_rate'?");
    CHECK_HAS(logged, "[StatMonitorParamSetter] Key learning_rat not found in monitor history; did you mean "
                      "'learning_rate'?");
    tp_set_log(NULL, NULL);
}

static tp_status read_score(tp_callback *cb)
{
    tp_stat stat;
    return tp_monitors_get_latest(cb->train->monitors, "score", &stat);
}
static tp_status write_score(tp_callback *cb) { return tp_monitors_put_scalar(cb->train->monitors, "score", 1); }

/* The callback that failed is named, and the order of the list is the remedy. */
TEST(a_callback_that_reads_too_early)
{
    for (int late = 0; late < 2; late++) {
        tp_callback *reader = tp_callback_new("ScoreReader", 0), *writer = tp_cb_lambda(.trigger = write_score);
        reader->trigger = read_score;
        tp_callback *cb[] = {late ? writer : reader, late ? reader : writer};
        tp_train_config c = line_config(1);
        c.callbacks = cb, c.n_callbacks = 2;
        if (!late) TEST_MAY_ERROR("");
        const tp_status st = tp_launch_train_with_config(&c, tp_simple_trainer());
        if (late) CHECK(st == TP_OK);
        else
            CHECK_ERR(st, TP_ERR_NAME,
                      "ScoreReader: No available data for the key: score. Reported until now: nothing. List the "
                      "callback that reports it before the one "
                      "that reads it");
    }
}

/* What only the training needs of a checkpoint is not missed in a graph that does not train. */
TEST(a_trained_checkpoint_for_a_session_of_ones_own)
{
    tp_train_config c = line_config(1);
    char dir[600];
    snprintf(dir, sizeof dir, "%s/trained", tp_test_tmpdir());
    CHECK_OK(tp_logger_set_dir(dir, 'd'));
    tp_callback *cb = tp_cb_model_saver();
    c.callbacks = &cb, c.n_callbacks = 1;
    CHECK_OK(tp_launch_train_with_config(&c, tp_simple_trainer()));
    tp_logger_set_dir(NULL, 0);
    tp_graph *g = tp_graph_new(NULL);
    tp_get_variable_as(g, "w", TP_F32, tp_make_shape(1, 1), tp_init_zeros());
    tp_session *s = tp_session_new(g, NULL);
    keep_the_log();
    CHECK_OK(tp_restore_checkpoint(s, dir));
    CHECK_STR(logged, "");
    tp_set_log(NULL, NULL);
    tp_tensor t = {0};
    if (CHECK_OK(tp_session_read(s, tp_find_variable(g, "w"), &t))) CHECK(tp_tensor_get(&t, 0) > 0);
    tp_tensor_free(&t);
    tp_session_free(s);
    tp_graph_free(g);
}

static tp_status fail_silently(tp_callback *cb) { return (void)cb, TP_ERR_IO; }
static tp_status no_point(void *user, int64_t pass, int64_t i, tp_datapoint *dp)
{
    return (void)user, (void)pass, (void)i, (void)dp, TP_ERR_IO;
}
static tp_optimizer *no_optimizer(tp_graph *g, void *user) { return (void)g, (void)user, tp_sgd(NULL); }

/* The sentence of an earlier error is not taken for that of a function that gives none. */
TEST(functions_that_fail_without_a_sentence)
{
    TEST_MAY_ERROR("");
    tp_train_config c = line_config(1);
    tp_callback *cb = tp_callback_new("Silent", 0);
    cb->trigger = fail_silently;
    c.callbacks = &cb, c.n_callbacks = 1;
    tp_fail(TP_ERR, "an earlier error");
    CHECK_ERR(tp_launch_train_with_config(&c, tp_simple_trainer()), TP_ERR_IO,
              "Silent: a function of the program returned TP_ERR_IO without a sentence: tp_fail gives one");
    c = line_config(1);
    tp_df_free(c.dataflow);
    c.dataflow = tp_df_batch(tp_df_from_generator(no_point, .size = 8), 4);
    CHECK_ERR(
        tp_launch_train_with_config(&c, tp_simple_trainer()), TP_ERR_IO,
        "tp_df_from_generator: a function of the program returned TP_ERR_IO without a sentence: tp_fail gives one");
    c = line_config(1);
    c.model.optimizer = no_optimizer;
    CHECK_ERR(tp_launch_train_with_config(&c, tp_simple_trainer()), TP_ERR_ARG,
              "the model's optimizer function returned NULL: ");
    CHECK_HAS(tp_last_error(), "the learning rate is NULL");
}

static tp_status build_silently(tp_trainer *t, const tp_model *m) { return (void)t, (void)m, TP_ERR_IO; }
static tp_status step_silently(tp_trainer *t) { return (void)t, TP_ERR_IO; }
static tp_status build_an_open_tower(tp_trainer *t, const tp_model *m)
{
    const tp_tower_desc tower = {.name = "tower0", .is_training = true};
    (void)m;
    tp_tower_enter(t->graph, &tower);
    return TP_OK;
}
TEST(trainers_of_ones_own_that_fail)
{
    TEST_MAY_ERROR("");
    static const char *const want[] = {"SimpleTrainer: a function of the program returned TP_ERR_IO without a sentence",
                                       "SimpleTrainer: a function of the program returned TP_ERR_IO without a sentence",
                                       "the tower 'tower0' is still open after build: tp_tower_leave is missing"};
    for (int i = 0; i < 3; i++) {
        tp_train_config c = line_config(1);
        tp_trainer *t = tp_simple_trainer();
        if (i == 0) t->build = build_silently;
        else if (i == 1) t->run_step = step_silently;
        else t->build = build_an_open_tower;
        CHECK_ERR(tp_launch_train_with_config(&c, t), i < 2 ? TP_ERR_IO : TP_ERR_STATE, want[i]);
    }
}

/* What a function needs is said in words, with the names of its parameters. */
TEST(arguments_that_are_wrong)
{
    TEST_MAY_ERROR("");
    tp_graph *g = tp_graph_new(NULL);
    const float two[2] = {1, 2};
    tp_tensor t = TP_EMPTY;
    tp_constant(g, NULL);
    CHECK_HAS(tp_graph_error(g), "tp_constant: g and value must not be NULL; value->data must not be NULL, or "
                                 "tp_tensor_bytes(value) must be 0");
    CHECK_ERR(tp_save_checkpoint(NULL, NULL, NULL, -1), TP_ERR_ARG,
              "tp_save_checkpoint: s and path must not be NULL; variables must be NULL, or n must be at least 0");
    CHECK(!tp_queue_new(-1));
    CHECK_STR(tp_last_error(), "tp_queue_new: capacity is -1: give 1 to 16777216, or 0 for 50");
    CHECK_ERR(tp_monitors_get_latest(NULL, NULL, NULL), TP_ERR_ARG,
              "tp_monitors_get_latest: m, name and stat must not be NULL");
    tp_name_scope_push(NULL, "x");
    CHECK_STR(tp_last_error(), "tp_name_scope_push: g must not be NULL");
    tp_tensor_view(&t, TP_F32, tp_make_shape(2), two);
    CHECK(tp_tensor_get(&t, 2) == 0);
    CHECK_STR(tp_last_error(),
              "tp_tensor_get: there is no element 2 in a tensor of shape (2), which has 2, numbered from 0");
    tp_graph_free(g);
}

TEST(an_op_is_named_once)
{
    static const char *const want[] = {"MatMul: shapes (?,8) and (9,3) do not fit",
                                       "fc/MatMul does not work on int32",
                                       "scores: matmul: shapes (?,8) and (9,3) do not fit",
                                       "x: placeholder: dimension 1 would be -4: it must be at least 0, or TP_ANY",
                                       "MatMul_1: shapes (?,8) and (9,3) do not fit",
                                       "MatMul_one: matmul: shapes (?,8) and (9,3) do not fit",
                                       "MatMul_: matmul: shapes (?,8) and (9,3) do not fit"};
    for (int i = 0; i < TP_COUNT(want); i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, i == 3 ? tp_make_shape(3, -4) : tp_make_shape(TP_ANY, 8));
        tp_node *y = tp_placeholder(g, "y", i == 1 ? TP_I32 : TP_F32, tp_make_shape(9, 3)), *both[2];
        tp_apply_desc d;
        both[0] = x, both[1] = y;
        memset(&d, 0, sizeof d);
        d.row = tp_op_find("matmul"), d.in = both, d.n_in = 2, d.name = "scores";
        if (i == 0) tp_matmul(x, y);
        if (i == 1) TP_NAME_SCOPE(g, "fc") tp_matmul(x, y);
        if (i == 4) tp_matmul(tp_placeholder(g, "z", TP_F32, tp_make_shape(2, 9)), y), tp_matmul(x, y);
        if (i >= 5) d.name = i == 5 ? "MatMul_one" : "MatMul_";
        if (i == 2 || i >= 5) tp_apply_ex(g, &d);
        const char *said = strrchr(tp_graph_error(g), '/');
        CHECK_HAS(tp_graph_error(g), want[i]);
        CHECK_MSG(!strstr(tp_graph_error(g), "MatMul: matmul") && !strstr(tp_graph_error(g), "MatMul_1: matmul"), "%s",
                  said ? said : tp_graph_error(g));
        tp_graph_free(g);
    }
}

static tp_node *half_frozen_tower(tp_graph *g, tp_node *const *in, void *user)
{
    tp_node *h = NULL;
    (void)user;
    TP_FREEZE_VARIABLES(g) h = tp_fully_connected(in[0], "frozen", .units = 3);
    tp_get_variable_as(g, "unused", TP_F32, tp_make_shape(2), tp_init_zeros());
    tp_node *y = tp_fully_connected(h, "trained", .units = 1);
    return tp_named(tp_sym_mse(y, in[1], NULL), "cost");
}
/* What is frozen on purpose is no surprise; and a training without a folder says so once. */
TEST(warnings_that_say_something)
{
    keep_the_log();
    CHECK_OK(tp_logger_set_dir(NULL, 0));
    tp_train_config c = line_config(1);
    c.model.build_graph = half_frozen_tower;
    c.n_monitors = 0; /* the default ones */
    CHECK_OK(tp_launch_train_with_config(&c, tp_simple_trainer()));
    tp_set_log(NULL, NULL);
    CHECK_HAS(logged, "No gradient w.r.t. 1 trainable variables: unused\n");
    CHECK(!strstr(logged, "frozen/W"));
    const char *once = strstr(logged, "No logger directory was set: ");
    CHECK_MSG(once != NULL, "%s", logged);
    CHECK_MSG(once && !strstr(once + 20, "directory was"), "%s", logged);
}

/* Logits of each pixel and a label of each pixel: no reshape is needed, and the losses have the labels' shape. */
TEST(losses_of_pixels)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 2, 3)), *dx[2];
    tp_node *label = tp_placeholder(g, "label", TP_I32, tp_make_shape(TP_ANY, 2));
    tp_node *loss = tp_sparse_softmax_cross_entropy(x, label);
    tp_node *rows = tp_sparse_softmax_cross_entropy(tp_reshape(x, TP_ANY, 3), tp_flatten(label));
    tp_gradients(tp_sum(tp_square(loss)), &x, 1, &dx[0]);
    tp_gradients(tp_sum(tp_square(rows)), &x, 1, &dx[1]);
    const float logits[12] = {1, 2, 3, 0, 0, 0, -1, 5, 2, 4, 4, 1};
    const int32_t labels[4] = {0, 2, 1, 0};
    tp_feed feeds[] = {TP_FEED(x, TP_F32, logits, 2, 2, 3), TP_FEED(label, TP_I32, labels, 2, 2)};
    tp_node *fetches[4];
    fetches[0] = loss, fetches[1] = rows, fetches[2] = dx[0], fetches[3] = dx[1];
    const tp_tensor *v[4];
    tp_session *s = tp_session_new(g, NULL);
    if (CHECK_OK(tp_session_run(s, feeds, 2, fetches, 4, v))) {
        CHECK(v[0]->shape.ndim == 2 && v[0]->shape.dim[0] == 2 && v[0]->shape.dim[1] == 2);
        CHECK(memcmp(v[0]->data, v[1]->data, 4 * sizeof(float)) == 0);
        CHECK(memcmp(v[2]->data, v[3]->data, 12 * sizeof(float)) == 0);
        CHECK(fabs(tp_tensor_get(v[0], 1) - log(3.0)) < 1e-6);
    }
    tp_session_free(s);
    tp_sparse_softmax_cross_entropy(x, tp_placeholder(g, "other", TP_I32, tp_make_shape(TP_ANY, 5)));
    CHECK_HAS(tp_graph_error(g), "logits are (?,2,3) and labels (?,5): needs (B,..,C) and (B,..)");
    tp_graph_free(g);
}

/* Predictions (B,1) and truths (B) would broadcast to (B,B), and a training learn the mean in silence. */
TEST(a_column_against_a_row)
{
    for (int i = 0; i < 4; i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *column = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 1));
        tp_node *row = tp_placeholder(g, "y", TP_F32, tp_make_shape(TP_ANY));
        if (i == 0) tp_sym_mse(column, row, NULL);
        if (i == 1) tp_sym_mse(row, column, NULL);
        if (i == 2) tp_sigmoid_cross_entropy(column, row);
        if (i == 3) { /* these fit */
            tp_sym_mse(tp_squeeze(column, 1), row, NULL);
            tp_sym_mse(column, tp_const(g, 3), NULL);
            tp_sym_mse(tp_placeholder(g, "z", TP_F32, tp_make_shape(TP_ANY, 3)),
                       tp_placeholder(g, "w", TP_F32, tp_make_shape(3)), NULL);
            CHECK_STR(tp_graph_error(g), "");
        } else
            CHECK_HAS(tp_graph_error(g),
                      "each would be compared with each; give both the same shape, tp_squeeze(x, 1)");
        if (i == 0) CHECK_HAS(tp_graph_error(g), "mse: the predictions are (?,1) and the truth (?): ");
        tp_graph_free(g);
    }
}

static tp_node *wrong_cost_tower(tp_graph *g, tp_node *const *in, void *user)
{
    if (*(const int *)user == 2) return tp_named(tp_mean(in[0]), "cost");
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(4, 1), tp_init_zeros());
    tp_node *error = tp_square(tp_matmul(tp_reshape(in[0], TP_ANY, 4), w));
    if (*(const int *)user == 3) return tp_named(tp_mean(tp_cast(tp_argmax(error, 1), TP_F32)), "cost");
    if (*(const int *)user == 4) return tp_named(tp_mean(tp_stop_gradient(error)), "cost");
    return *(const int *)user == 1 ? tp_cast(tp_mean(error), TP_I32) : error;
}
/* The line of the node is told, as tp_simple_trainer() knows no other place. */
TEST(a_wrong_cost_has_its_place)
{
    static const char *const want[] = {
        "Cost must be a scalar tensor, but 'Square' has shape (?,1): take its mean",
        "Cost must be floating, but 'Cast' is int32: tp_cast what it is made of",
        "the cost 'cost' depends on no trainable variable: there is nothing to train",
        "no gradient of the cost 'cost' comes to a variable: it ends at 'ArgMax'",
        ("no gradient of the cost 'cost' comes to a variable: it ends at 'StopGradient', "
         "because the op stop_gradient has no gradient. Does TP_FREEZE_VARIABLES freeze all")};
    for (int i = 0; i < 5; i++) {
        tp_train_config c = line_config(1);
        c.model.build_graph = wrong_cost_tower, c.model.user = &i;
        TEST_MAY_ERROR("");
        CHECK(tp_launch_train_with_config(&c, tp_simple_trainer()) != TP_OK);
        CHECK_HAS(tp_last_error(), want[i]);
        CHECK_HAS(tp_last_error(), "test_newcomer.c:");
    }
}

/* -- an op of one's own: y (B,C) = a (B,D) b (D,C), whose row or gradient is wrong in some way */

static int row_mistake;
static tp_status product_infer(tp_infer *s)
{
    if (row_mistake == 10) return TP_ERR_SHAPE;
    if (row_mistake == 11) return TP_OK;
    s->out[0].dtype = s->in[0].dtype;
    s->out[0].shape = tp_make_shape(s->in[0].shape.dim[0], s->in[1].shape.dim[1]);
    return TP_OK;
}
static void product_f64(const tp_call *k)
{
    const double *a = (const double *)k->in[0].data, *b = (const double *)k->in[1].data;
    const int64_t B = k->in[0].shape.dim[0], D = k->in[0].shape.dim[1], C = k->in[1].shape.dim[1];
    for (int64_t i = 0; i < B * C; i++) {
        double sum = 0;
        for (int64_t d = 0; d < D; d++) sum += a[i / C * D + d] * b[d * C + i % C];
        ((double *)k->out[0].data)[i] = sum;
    }
}
static void product_grad(tp_grad *g)
{
    g->din[0] = tp_matmul_ex(g->dout[0], g->in[1], false, true);
    if (row_mistake != 1) g->din[1] = tp_matmul_ex(g->in[0], g->dout[0], true, false);
    if (row_mistake == 2) g->din[0] = tp_affine(g->din[0], 0.5f, 0);
    if (row_mistake == 3) g->din[1] = tp_permute(g->din[1], 1, 0);
    if (row_mistake == 4) g->din[0] = tp_cast(g->din[0], TP_F32);
    if (row_mistake == 5) g->din[0] = g->in[1]; /* its shape may be that of a, as the batch is not known */
}
static tp_op product_row(void)
{
    tp_op row;
    memset(&row, 0, sizeof row);
    row.name = row_mistake == 6 ? NULL : "product", row.label = row_mistake == 7 ? NULL : "Product";
    row.min_in = row.max_in = 2, row.n_out = row_mistake == 8 ? 0 : 1;
    row.infer = row_mistake == 9 ? NULL : product_infer;
    row.grad = product_grad, row.naive_f64 = product_f64;
    static const tp_attr schema[] = {{"delta", TP_ATTR_FLOAT, 4}, {NULL, TP_ATTR_INT, 0}};
    if (row_mistake == 12 || row_mistake == 13) row.attr = schema, row.attr_size = row_mistake == 12 ? 0 : 4;
    return row;
}
TEST(an_op_of_ones_own_with_a_mistake)
{
    static const char *const want[] = {
        "",
        "the gradient of 'Product' by element 0 of 'b' is 0, by finite differences ",
        "the gradient of 'Product' by element 5 of 'a' is ",
        "Product: its gradient function gives input 1, which is float64 (3,4), a gradient of float64 (4,3)",
        "Product: its gradient function gives input 0, which is float64 (?,3), a gradient of float32 (?,3)",
        "the gradient of 'Product' by 'a' has shape (3,4), but 'a' has shape (2,3)",
        "the row of op without a name is not filled in: it needs name, label, infer",
        "the row of op product is not filled in",
        "the row of op product is not filled in",
        "the row of op product is not filled in",
        "Product: a function of the program returned TP_ERR_SHAPE without a sentence: tp_fail gives one",
        "Product: its shape rule sets no type of output 0: s->out[0]",
        "the row of op product has attributes, but attr_size is 0",
        "the row of op product has attributes, but attr_size is 4"};
    static const double a[6] = {1, 2, -1, 0.5, 3, -2}, b[12] = {1, -1, 2, 0.5, 3, 1, -2, 0.25, 1.5, -3, 2, 1};
    for (row_mistake = 0; row_mistake < 14; row_mistake++) {
        const tp_op row = product_row();
        tp_graph *g = tp_graph_new(NULL);
        tp_node *in[2];
        in[0] =
            tp_placeholder(g, "a", TP_F64, row_mistake == 5 ? tp_make_shape(TP_ANY, TP_ANY) : tp_make_shape(TP_ANY, 3));
        in[1] = tp_placeholder(g, "b", TP_F64, tp_make_shape(3, 4));
        const tp_feed feeds[] = {TP_FEED(in[0], TP_F64, a, 2, 3), TP_FEED(in[1], TP_F64, b, 3, 4)};
        double worst = 0;
        const tp_status st = tp_check_gradients(tp_apply(NULL, &row, in, 2, NULL), feeds, 2, 0, &worst);
        if (row_mistake == 0) CHECK(st == TP_OK && worst < 1e-8);
        else CHECK_ERR(st, st, want[row_mistake]);
        if (row_mistake > 0) CHECK(st != TP_OK);
        if (row_mistake == 1 || row_mistake == 2) CHECK(st == TP_ERR_NUMERIC && worst > 0.1);
        tp_graph_free(g);
    }
}
TEST(gradients_are_checked)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY)),
            *i = tp_placeholder(g, "i", TP_I32, tp_make_shape(2));
    const float three[3] = {0.3f, -1.2f, 2};
    const int32_t two[2] = {0, 1};
    const tp_feed feeds[] = {TP_FEED(x, TP_F32, three, 3), TP_FEED(i, TP_I32, two, 2)};
    double worst = -1;
    CHECK_OK(tp_check_gradients(tp_softmax(tp_expand_dims(x, 0)), feeds, 2, 0, &worst)); /* a plain sum would be 1 */
    CHECK(worst >= 0 && worst < 0.02);
    CHECK_OK(tp_check_gradients(tp_nn_dropout(x, 0.5f), feeds, 1, 0, NULL)); /* the same numbers in each run */
    CHECK_ERR(tp_check_gradients(tp_cast(x, TP_I32), feeds, 1, 0, NULL), TP_ERR_DTYPE, "only a floating value");
    tp_graph_free(g);
    g = tp_graph_new(NULL);
    i = tp_placeholder(g, "i", TP_I32, tp_make_shape(2));
    const tp_feed whole = TP_FEED(i, TP_I32, two, 2);
    CHECK_ERR(tp_check_gradients(tp_cast(i, TP_F32), &whole, 1, 0, &worst), TP_ERR_ARG, "no floating value is fed");
    CHECK(isnan(worst));
    tp_graph_free(g);
    g = tp_graph_new(NULL);
    tp_node *y = tp_placeholder(g, "y", TP_F32, tp_make_shape(3)), *dy = NULL;
    tp_gradients_from(tp_square(y), tp_placeholder(g, "dy", TP_F32, tp_make_shape(4)), &y, 1, &dy);
    CHECK_HAS(tp_graph_error(g), "the gradient of 'Square' is float32 (4), but it is itself float32 (3)");
    tp_graph_free(g);
}

/* Contrastive learning: each sample of a batch, whose size is not known, is a class. */
TEST(as_many_classes_as_samples)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *a = tp_placeholder(g, "a", TP_F64, tp_make_shape(TP_ANY, 2)),
            *b = tp_placeholder(g, "b", TP_F64, tp_make_shape(TP_ANY, 2));
    tp_node *label = tp_placeholder(g, "label", TP_I32, tp_make_shape(TP_ANY));
    tp_node *loss = tp_sparse_softmax_cross_entropy(tp_matmul_ex(a, b, false, true), label);
    static const double va[6] = {1, 2, -1, 0.5, 3, -2}, vb[6] = {0.5, 1, -1, 0.25, 2, -2};
    static const int32_t labels[3] = {0, 2, 1};
    const tp_feed feeds[] = {TP_FEED(a, TP_F64, va, 3, 2), TP_FEED(b, TP_F64, vb, 3, 2),
                             TP_FEED(label, TP_I32, labels, 3)};
    double worst = 1;
    CHECK_OK(tp_check_gradients(loss, feeds, 3, 0, &worst));
    CHECK(worst < 1e-8);
    tp_graph_free(g);
}

/* Two towers have a node of the same name: each finds its own. */
TEST(a_tower_finds_its_own_node)
{
    static const char *const name[] = {"tower0", "tower1"};
    tp_graph *g = tp_graph_new(NULL);
    tp_node *made[2] = {NULL, NULL}, *shared = tp_named(tp_const(g, 1), "shared");
    for (int i = 0; i < 2; i++) {
        tp_tower_desc d;
        memset(&d, 0, sizeof d);
        d.name = name[i];
        if (!CHECK(tp_tower_enter(g, &d))) break;
        made[i] = tp_named(tp_const(g, (float)i), "mean");
        CHECK(tp_graph_find(g, "mean") == made[i] && tp_graph_find(g, "shared") == shared);
        CHECK(tp_graph_find(g, "tower0/mean") == made[0]);
        tp_tower_leave(g);
    }
    CHECK(tp_graph_find(g, "mean") == NULL && tp_graph_find(g, "tower1/mean") == made[1]);
    tp_graph_free(g);
}

static tp_node *computes_only(tp_optimizer *o, const tp_grad_var *gvs, int n)
{
    return (void)n, tp_mul(o->learning_rate, gvs[0].grad);
}
/* An optimizer whose op only writes two counters of the variable; the op's attributes name it. */
typedef struct counts_attrs {
    const tp_variable *of;
} counts_attrs;
static tp_status counts_infer(tp_infer *s) { return s->out[0] = s->var[0], TP_OK; }
static void counts(const tp_call *k)
{
    for (int i = 0; i < k->n_var; i++) *(float *)k->var[i].data += 1;
}
static tp_node *counts_only(tp_optimizer *o, const tp_grad_var *gvs, int n)
{
    static tp_op row;
    const counts_attrs a = {tp_node_variable(gvs[0].var)};
    tp_node *counter[2] = {tp_optimizer_scalar(o, "first", 0), tp_optimizer_scalar(o, "second", 0)};
    tp_apply_desc d;
    memset(&d, 0, sizeof d);
    row.name = "counts", row.label = "Counts", row.flags = TP_OP_WRITES_VAR | TP_OP_VIEW | TP_OP_HOST;
    row.n_out = 1, row.attr_size = sizeof a, row.infer = counts_infer, row.naive_f32 = counts;
    d.row = &row, d.attrs = &a, d.vars = counter, d.n_var = 2;
    return (void)n, tp_apply_ex(o->graph, &d);
}

TEST(an_optimizer_that_writes_nothing)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(2), tp_init_ones()), *cost = tp_sum(tp_square(w));
    tp_optimizer *o = tp_optimizer_new(g, "Mine", computes_only, NULL);
    if (CHECK(o)) {
        o->learning_rate = tp_const(g, 1);
        keep_the_log();
        tp_minimize(o, cost, NULL);
        CHECK_HAS(logged, "Mine: its update writes none of the 1 variables: tp_assign_sub(var, ..) writes one");
        keep_the_log();
        tp_minimize(tp_optimizer_new(g, "Counts", counts_only, NULL), cost, NULL);
        CHECK_HAS(logged, "Counts: its update writes none of the 1 variables");
        keep_the_log();
        tp_minimize(tp_sgd(tp_const(g, 1)), cost, NULL);
        CHECK_STR(logged, "");
        tp_set_log(NULL, NULL);
    }
    tp_graph_free(g);
}

/* Two optimizers, each for its variables, with one clip by the norm of all gradients: w by gradient descent, v by Momentum. */
static tp_optimizer *of_parts[2];
static tp_node *both(tp_optimizer *o, const tp_grad_var *gvs, int n)
{
    tp_grad_var of[2][4];
    int count[2] = {0, 0};
    for (int i = 0; i < n; i++) {
        const int k = strcmp(tp_node_name(gvs[i].var), "w") != 0;
        of[k][count[k]++] = gvs[i];
    }
    tp_node *update[2];
    for (int k = 0; k < 2; k++) update[k] = tp_apply_gradients_if(of_parts[k], of[k], count[k], o->pred);
    return tp_group(o->graph, update, 2, NULL);
}
TEST(two_optimizers_with_one_norm)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(), tp_init_constant(3));
    tp_node *v = tp_get_variable_as(g, "v", TP_F32, tp_make_shape(), tp_init_constant(4));
    tp_node *cost = tp_add(tp_square(w), tp_square(v)); /* gradients 6 and 8: their norm is 10 */
    of_parts[0] = tp_sgd(tp_const(g, 0.5)), of_parts[1] = tp_momentum(tp_const(g, 0.25));
    tp_optimizer *o = tp_optimizer_new(g, "Both", both, NULL);
    o = tp_apply_grad_processors(o, TP_GRADPROCS(tp_gradproc_global_norm_clip(5)));
    tp_node *update = tp_minimize(o, cost, NULL), *const fetch[] = {w, v};
    tp_session *s = tp_session_new(g, NULL);
    const tp_tensor *value[2];
    CHECK_OK(tp_session_run(s, NULL, 0, &update, 1, NULL));
    CHECK_OK(tp_session_run(s, NULL, 0, fetch, 2, value));
    CHECK_NEAR(tp_tensor_get(value[0], 0), 3 - 0.5 * 3, 1e-6, 0);
    CHECK_NEAR(tp_tensor_get(value[1], 0), 4 - 0.25 * 4, 1e-6, 0);
    tp_session_free(s);
    tp_graph_free(g);
}

static tp_node *left_early(tp_graph *g, tp_node *x, bool by_argscope)
{
    if (by_argscope) TP_ARGSCOPE(g, fully_connected, .use_bias = TP_NO) return tp_fully_connected(x, "a", .units = 2);
    TP_VARIABLE_SCOPE(g, "early") return tp_fully_connected(x, "a", .units = 2);
    return NULL;
}
TEST(a_block_that_is_left_by_return)
{
    static const char *const said[] = {
        "a scope of its graph is still open (name scope 'early', variable scope 'early')",
        "a TP_ARGSCOPE of its graph is still open (name scope '', variable scope '')", ""};
    for (int i = 0; i < TP_COUNT(said); i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(2, 3));
        if (i < 2) left_early(g, x, i == 1);
        keep_the_log();
        tp_session_free(tp_session_new(g, NULL));
        CHECK(strstr(logged, "still open") ? strstr(logged, said[i]) != NULL : i == 2);
        tp_set_log(NULL, NULL);
        tp_graph_free(g);
    }
}

static tp_node *one_weight(tp_graph *g, tp_node *const *in, void *user)
{
    return (void)user,
           tp_named(tp_matmul(in[0], tp_get_variable_as(g, "w", TP_F32, tp_make_shape(4, 1), tp_init_zeros())), "y");
}
TEST(a_predictor_that_loads_nothing)
{
    static const tp_spec in[] = {TP_SPEC("x", TP_F32, TP_ANY, 4)};
    static const char *const out[] = {"y"};
    tp_predict_config c = {
        .inputs = in, .n_inputs = 1, .build_graph = one_weight, .output_names = out, .n_output_names = 1};
    keep_the_log();
    tp_predictor_free(tp_offline_predictor(&c));
    CHECK_HAS(logged, "predictor: neither .checkpoint nor .session_init: the variables have their initial values");
    tp_set_log(NULL, NULL);
}

TEST(an_exported_input_that_is_not_there)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "image", TP_F32, tp_make_shape(1, 2)), *y = tp_relu(x),
            *none = tp_graph_find(g, "imag");
    tp_session *s = tp_session_new(g, NULL);
    tp_buf text;
    memset(&text, 0, sizeof text);
    static const char want[] =
        "export: input 0 is NULL; was 'imag' meant? There is no node of that name; did you mean 'image'?";
    CHECK_ERR(tp_export_c_text(s, &none, 1, &y, 1, &text, NULL, NULL), TP_ERR_ARG, want);
    none = tp_graph_find(g, "imag");
    CHECK_ERR(tp_export_onnx_buf(s, &none, 1, &y, 1, &text, NULL), TP_ERR_ARG, want);
    tp_buf_free(&text);
    tp_session_free(s);
    tp_graph_free(g);
}

/* Without a name, too, it compiles without a warning. */
TEST(a_dropout_without_a_name)
{
    tp_graph *g = tp_graph_new(NULL);
    const tp_tower_desc d = {.is_training = true};
    if (CHECK(tp_tower_enter(g, &d))) {
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(2)), *y = tp_dropout(x);
        CHECK_STR(y->op->row->name, "dropout");
        y = tp_dropout(x, .rate = 0);
        CHECK_STR(y->op->row->name, "identity");
        tp_tower_leave(g);
    }
    CHECK_STR(tp_graph_error(g), "");
    tp_graph_free(g);
}

static bool keep_even(const tp_datapoint *dp, const tp_map_call *call)
{
    (void)call;
    return (int)tp_tensor_get(&dp->c[0], 0) % 2 == 0;
}
/* InferenceRunner reads as many datapoints as a flow says, and a filter can say it. */
TEST(a_filter_says_its_size)
{
    float x[6] = {0, 1, 2, 3, 4, 5};
    tp_tensor t = TP_EMPTY;
    tp_tensor_view(&t, TP_F32, tp_make_shape(6), x);
    for (int64_t size = 0; size < 4; size += 3) {
        tp_dataflow *df = tp_df_filter(tp_df_from_arrays(&t, 1), .keep = keep_even, .size = size);
        CHECK(tp_df_size(df) == (size ? 3 : 6));
        df = tp_df_batch(df, 2, .remainder = true);
        CHECK(tp_df_size(df) == (size ? 2 : 3));
        tp_df_free(df);
    }
    tp_dataflow *df = tp_df_filter(tp_df_from_arrays(&t, 1), .keep = keep_even, .size = -1);
    CHECK_ERR(tp_df_status(df), TP_ERR_ARG, "tp_df_filter: .size is -1");
    tp_df_free(df);
}

TEST(a_random_shape_that_nothing_fixes)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *z = tp_rand_normal(g, tp_make_shape(TP_ANY, 4), 0, 1);
    tp_session *s = tp_session_new(g, NULL);
    CHECK_ERR(tp_session_run(s, NULL, 0, &z, 1, NULL), TP_ERR_SHAPE,
              "is still (?,4) when everything is fed: give all its dimensions, or use a function of another node "
              "(tp_rand_normal_like");
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(a_parameter_that_is_not_there)
{
    TEST_MAY_ERROR("");
    tp_train_config c = line_config(1);
    tp_callback *cb = tp_cb_scheduled_hyper_param_setter("lr", .schedule = {{1, 0.5}});
    c.callbacks = &cb, c.n_callbacks = 1;
    CHECK_ERR(tp_launch_train_with_config(&c, tp_simple_trainer()), TP_ERR_NAME,
              "ScheduledHyperParamSetter: lr:0 is not a variable in the graph! Scalars there: learning_rate");
}

TEST(no_epoch_is_left)
{
    tp_test_keep_log();
    tp_train_config c = line_config(1);
    c.max_epoch = TP_NONE;
    CHECK_OK(tp_launch_train_with_config(&c, tp_simple_trainer()));
    tp_set_log(NULL, NULL);
    CHECK_HAS(tp_test_logged, "No epoch is left to train: the next one is 1, and max_epoch is 0.");
}

TEST(predictions_count_their_arrays)
{
    static const char *const out_names[] = {"prediction", "cost"};
    tp_predict_config c = {.inputs = line_inputs,
                           .n_inputs = 2,
                           .build_graph = line_graph,
                           .output_names = out_names,
                           .n_output_names = 2};
    tp_predictor *p = tp_offline_predictor(&c);
    const float data[4] = {1, 2, 3, 4};
    tp_tensor in[3];
    const tp_tensor *out[3];
    memset(in, 0, sizeof in);
    for (int i = 0; i < 3; i++) tp_tensor_view(&in[i], TP_F32, tp_make_shape(4, 1), (void *)(uintptr_t)data);
    if (!CHECK_MSG(p != NULL, "%s", tp_last_error())) return;
    CHECK_ERR(
        tp_predict(p, in, out), TP_ERR_ARG,
        "the predictor has 2 inputs and 2 outputs: .input_names and .output_names of its config choose one of each");
    for (int i = 0; i <= 3; i++)
        for (int k = 0; k <= 3; k++) {
            if (i == 2 && k == 2) continue;
            char want[128];
            snprintf(want, sizeof want, "has 2 inputs and 2 outputs, the arrays have %d and %d entries", i, k);
            CHECK_ERR(tp_predict_n(p, i ? in : NULL, i, out, k), TP_ERR_ARG, want);
        }
    if (CHECK_OK(tp_predict_n(p, in, 2, out, 2))) CHECK_NEAR(tp_tensor_get(out[1], 0), 7.5, 1e-6, 0); /* w is 0 */
    tp_predictor_free(p);
}

/* Trains the line for as long as the config says. */
static tp_status run_short(const tp_train_config *config)
{
    tp_train_config c = *config;
    c.model = (tp_model)LINE_MODEL;
    c.dataflow = tp_df_batch(line_data(), 4);
    c.n_extra_callbacks = c.n_monitors = TP_NONE;
    c.log_layers = TP_NO;
    return tp_launch_train_with_config(&c, tp_simple_trainer());
}

/* One that a test is about to lose: nothing of what was given may be lost with it (the sanitizers look). */
static tp_status run_with(tp_train_config c)
{
    c.model = (tp_model)LINE_MODEL;
    c.dataflow = tp_df_batch(line_data(), 4);
    c.max_epoch = c.steps_per_epoch = 1;
    return tp_launch_train_with_config(&c, tp_simple_trainer());
}

TEST(lists_with_a_gap_name_the_place)
{
    TEST_MAY_ERROR("");
    CHECK_ERR(run_with((tp_train_config){TP_CALLBACKS(tp_cb_maintain_step_counter(), NULL)}), TP_ERR_NOMEM,
              "callbacks[1] of 2 is NULL: its constructor found no memory, or the list is not there any more");
    CHECK_ERR(run_with((tp_train_config){TP_EXTRA_CALLBACKS(NULL, tp_cb_progress_bar())}), TP_ERR_NOMEM,
              "extra_callbacks[0] of 2 is NULL");
    CHECK_ERR(run_with((tp_train_config){TP_MONITORS(tp_monitor_scalar_printer(), tp_monitor_scalar_printer(), NULL)}),
              TP_ERR_NOMEM, "monitors[2] of 3 is NULL");
    CHECK_ERR(run_with((tp_train_config){TP_CALLBACKS(tp_cb_inference_runner(
                  tp_df_batch(line_data(), 4),
                  .inferencers = {tp_inf_scalar_stats({"cost"}), NULL, tp_inf_scalar_stats({"cost"})}))}),
              TP_ERR_ARG, "InferenceRunner: .inferencers[1] is NULL, but others follow it");
    CHECK_ERR(run_with((tp_train_config){TP_CALLBACKS(tp_cb_tensor_printer({"cost", NULL, "w"}))}), TP_ERR_ARG,
              "TensorPrinter: .names[1] is NULL, but others follow it");
    CHECK_ERR(run_with((tp_train_config){TP_CALLBACKS(tp_cb_progress_bar(.names = {NULL, "w"}))}), TP_ERR_ARG,
              "ProgressBar: .names[0] is NULL, but others follow it");
    CHECK_ERR(run_with((tp_train_config){
                  TP_CALLBACKS(tp_cb_model_saver(.checkpoint_dir = ".", .var_collections = {NULL, "w"}))}),
              TP_ERR_ARG, "ModelSaver: .var_collections[0] is NULL");
    CHECK_ERR(run_with((tp_train_config){TP_MONITORS(tp_monitor_scalar_printer(.blacklist = {NULL, "w"}))}), TP_ERR_ARG,
              "ScalarPrinter: .blacklist[0] is NULL");
    tp_dataflow *flows[3] = {line_data(), line_data(), NULL};
    CHECK(tp_df_join(flows, 3) == NULL);
    CHECK_HAS(tp_last_error(), "tp_df_join: dataflow 2 of 3 is NULL");
}

/* ==== >>conveniences: graphs ========================================================================== */

static double value_of(tp_node *x, int64_t i)
{
    tp_tensor t = {0};
    if (!CHECK_OK(tp_eval_now(x, NULL, 0, &t))) return NAN;
    const double v = tp_tensor_get(&t, i);
    tp_tensor_free(&t);
    return v;
}
static tp_node *constant(tp_graph *g, const float *values, tp_shape shape)
{
    tp_tensor t = {0};
    tp_tensor_view(&t, TP_F32, shape, (void *)(uintptr_t)values);
    return tp_constant(g, &t);
}

TEST(scopes_and_lists_without_ceremony)
{
    tp_graph *g = tp_graph_new(NULL);
    for (int i = 0; i < 2; i++) TP_VARIABLE_SCOPE(g, "gen", .reuse = TP_REUSE_AUTO)
    tp_get_variable_as(g, "w", TP_F32, tp_make_shape(1), tp_init_ones());
    TP_VARIABLE_SCOPE(g, "dis")
    {
        CHECK_STR(tp_variable_scope(g), "dis");
        TP_VARIABLE_SCOPE(g, "deep", .no_name_scope = true) CHECK_STR(tp_name_scope(g), "dis");
        tp_get_variable_as(g, "w", TP_F32, tp_make_shape(1), tp_init_ones());
    }
    CHECK_STR(tp_variable_scope(g), "");
    CHECK(tp_graph_n_variables(g) == 2 && tp_find_variable(g, "gen/w") && tp_find_variable(g, "dis/w"));
    float v[24];
    for (int i = 0; i < 24; i++) v[i] = (float)(i * i % 17 - 5);
    tp_node *x = constant(g, v, tp_make_shape(2, 3, 4));
    tp_node *c = tp_concat_along(2, x, x, x), *s = tp_stack_along(0, x, x), *a = tp_add_all(x, x, x);
    CHECK(c->shape.dim[2] == 12 && s->shape.ndim == 4 && s->shape.dim[0] == 2 && tp_graph_status(g) == TP_OK);
    CHECK_NEAR(value_of(a, 7), 3 * v[7], 0, 0);
    CHECK_NEAR(value_of(c, 12 + 5), v[4 + 1], 0, 0);
    tp_node *over[5] = {tp_sum_over(x, 0, 2), tp_mean_over(x, 0, 2), tp_max_over(x, 0, 2), tp_min_over(x, 0, 2),
                        tp_prod_over(x, 0, 2)};
    for (int m = 0; m < 3; m++) {
        double sum = 0, prod = 1, most = -1e9, least = 1e9;
        for (int i = 0; i < 2; i++)
            for (int k = 0; k < 4; k++) {
                const double e = v[i * 12 + m * 4 + k];
                sum += e, prod *= e, most = fmax(most, e), least = fmin(least, e);
            }
        const double want[5] = {sum, sum / 8, most, least, prod};
        for (int k = 0; k < 5; k++) CHECK_NEAR(value_of(over[k], m), want[k], 1e-6, 1e-6);
    }
    tp_node *p = tp_permute(x, 2, 0, 1);
    CHECK(p->shape.dim[0] == 4 && p->shape.dim[2] == 3);
    CHECK_NEAR(value_of(p, (3 * 2 + 1) * 3 + 2), v[1 * 12 + 2 * 4 + 3], 0, 0);
    tp_graph_free(g);
}

static char told[256];
static void keep_info(void *user, tp_log_level level, const char *line)
{
    (void)user, (void)level;
    snprintf(told, sizeof told, "%s", line);
}

TEST(a_node_is_looked_at_while_the_graph_is_built)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(2), tp_init_constant(3));
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 2)), *y = tp_named(tp_mul(x, w), "y");
    float data[2] = {1, 0.5f};
    tp_feed feed = {x, {0}};
    tp_tensor out = {0};
    tp_tensor_view(&feed.value, TP_F32, tp_make_shape(1, 2), data);
    CHECK_OK(tp_eval_now(y, &feed, 1, &out));
    CHECK(out.shape.ndim == 2 && tp_tensor_get(&out, 0) == 3 && tp_tensor_get(&out, 1) == 1.5);
    tp_set_log(keep_info, NULL);
    CHECK_OK(tp_eval_now(y, &feed, 1, NULL));
    tp_set_log(NULL, NULL);
    CHECK_STR(told, "y float32 (1,2): 3 1.5");
    CHECK_ERR(tp_eval_now(y, NULL, 0, &out), TP_ERR_ARG, "placeholder 'x' must be fed");
    tp_node *z = tp_square(y); /* building goes on */
    CHECK_OK(tp_eval_now(z, &feed, 1, &out));
    CHECK(tp_tensor_get(&out, 0) == 9 && tp_graph_status(g) == TP_OK);
    CHECK_ERR(tp_eval_now(tp_add(z, NULL), &feed, 1, &out), TP_ERR_ARG, "add: input 1 is NULL");
    CHECK_ERR(tp_eval_now(tp_relu(NULL), NULL, 0, &out), TP_ERR_ARG, "relu: input 0 is NULL");
    tp_tensor_free(&out);
    tp_graph_free(g);
}

/* ==== >>conveniences: losses, schedules, optimizers =================================================== */

/* d f / d x[i] of a scalar node against finite differences: `make` builds it of a variable. */
static void check_gradient(tp_node *(*make)(tp_node *x, double *formula, const float *v), int64_t rows, int64_t columns)
{
    tp_graph *g = tp_graph_new(NULL);
    float v[16];
    const int n = (int)(rows * columns);
    for (int i = 0; i < n; i++) v[i] = (float)sin(1.7 * i + 0.3);
    tp_node *x = tp_get_variable_as(g, "x", TP_F32, tp_make_shape(rows, columns), tp_init_values(v, n)), *dx = NULL;
    double formula = NAN;
    tp_node *y = make(x, &formula, v);
    tp_gradients(y, &x, 1, &dx);
    if (CHECK_MSG(dx != NULL && tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g))) {
        CHECK_NEAR(value_of(y, 0), formula, 1e-6, 1e-5);
        for (int i = 0; i < n; i++) {
            float w[16];
            double at[2];
            for (int k = 0; k < 2; k++) { /* the formula is in double */
                memcpy(w, v, sizeof w);
                w[i] = v[i] + (k ? 1e-3f : -1e-3f);
                tp_graph *h = tp_graph_new(NULL);
                make(tp_get_variable_as(h, "x", TP_F32, tp_make_shape(rows, columns), tp_init_values(w, n)), &at[k], w);
                tp_graph_free(h);
            }
            const double step = (double)(v[i] + 1e-3f) - (double)(v[i] - 1e-3f);
            CHECK_NEAR(value_of(dx, i), (at[1] - at[0]) / step, 2e-5, 1e-4);
        }
    }
    tp_graph_free(g);
}
static void log_softmax(const float *x, int n, double *out)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += exp((double)x[i]);
    for (int i = 0; i < n; i++) out[i] = (double)x[i] - log(sum);
}
static const float fixed[12] = {0.5f, -1, 2, 0.25f, 1.5f, -0.5f, 0, 1, -2, 0.75f, 3, -1.25f};
static const int32_t classes_of[4] = {2, 0, 1, 2};
static tp_node *labels_of(tp_graph *g)
{
    tp_tensor t = {0};
    tp_tensor_view(&t, TP_I32, tp_make_shape(4), (void *)(uintptr_t)classes_of);
    return tp_constant(g, &t);
}
static tp_node *make_mse(tp_node *x, double *formula, const float *v)
{
    *formula = 0;
    for (int i = 0; i < 12; i++) *formula += ((double)v[i] - fixed[i]) * ((double)v[i] - fixed[i]) / 12;
    return tp_sym_mse(x, constant(tp_node_graph(x), fixed, tp_make_shape(4, 3)), NULL);
}
static double kl(const float *a, const float *b)
{
    double p[3], q[3], sum = 0;
    log_softmax(a, 3, p), log_softmax(b, 3, q);
    for (int i = 0; i < 3; i++) sum += exp(p[i]) * (p[i] - q[i]);
    return sum;
}
static tp_node *make_kl(tp_node *x, double *formula, const float *v)
{
    *formula = 0;
    for (int r = 0; r < 4; r++) *formula += kl(v + 3 * r, fixed + 3 * r);
    return tp_sum(tp_sym_kl_divergence(x, constant(tp_node_graph(x), fixed, tp_make_shape(4, 3)), NULL));
}
static tp_node *make_kl_back(tp_node *x, double *formula, const float *v)
{
    *formula = 0;
    for (int r = 0; r < 4; r++) *formula += kl(fixed + 3 * r, v + 3 * r);
    return tp_sum(tp_sym_kl_divergence(constant(tp_node_graph(x), fixed, tp_make_shape(4, 3)), x, NULL));
}
static tp_node *make_smooth(tp_node *x, double *formula, const float *v)
{
    *formula = 0;
    for (int r = 0; r < 4; r++) {
        double p[3];
        log_softmax(v + 3 * r, 3, p);
        for (int i = 0; i < 3; i++) *formula -= (0.7 * (i == classes_of[r]) + 0.1) * p[i] / 4; /* epsilon 0.3 */
    }
    tp_node *labels = tp_sym_smooth_labels(labels_of(tp_node_graph(x)), 3, 0.3f, NULL);
    return tp_mean(tp_softmax_cross_entropy(x, labels));
}
static tp_node *make_weighted(tp_node *x, double *formula, const float *v)
{
    static const float weight[3] = {0.5f, 2, 4};
    double sum = 0, all = 0;
    for (int r = 0; r < 4; r++) {
        double p[3];
        log_softmax(v + 3 * r, 3, p);
        sum -= (double)weight[classes_of[r]] * p[classes_of[r]];
        all += (double)weight[classes_of[r]];
    }
    *formula = sum / all;
    tp_node *labels = labels_of(tp_node_graph(x));
    return tp_sym_weighted_loss(tp_sparse_softmax_cross_entropy(x, labels), labels, weight, 3, NULL);
}

TEST(losses_and_their_gradients)
{
    check_gradient(make_mse, 4, 3);
    check_gradient(make_kl, 4, 3);
    check_gradient(make_kl_back, 4, 3);
    check_gradient(make_smooth, 4, 3);
    check_gradient(make_weighted, 4, 3);
    tp_graph *g = tp_graph_new(NULL);
    tp_sym_smooth_labels(labels_of(g), 3, 1.5f, NULL);
    CHECK_HAS(tp_graph_error(g), "smooth_labels: epsilon is 1.5");
    tp_graph_free(g);
}

TEST(cosine_decay_and_warm_up)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *step = tp_placeholder(g, "step", TP_I64, tp_make_shape_n(0, NULL));
    tp_node *lr = tp_cosine_decay(g, 0.4f, step, 100, 0.1f), *both = tp_warm_up(lr, step, 10, 0.2f);
    CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g));
    tp_session *s = tp_session_new(g, NULL);
    for (int64_t i = 0; i <= 130; i += i < 12 ? 1 : 11) {
        tp_feed feed = {step, {0}};
        tp_tensor_view(&feed.value, TP_I64, tp_make_shape_n(0, NULL), &i);
        tp_node *fetch[2] = {lr, both};
        const tp_tensor *out[2];
        if (!CHECK_OK(tp_session_run(s, &feed, 1, fetch, 2, out))) break;
        const double part = i < 100 ? (double)i / 100 : 1, wave = (1 + cos(3.14159265358979 * part)) / 2;
        const double want = 0.4 * (0.1 + 0.9 * wave);
        CHECK_NEAR(tp_tensor_get(out[0], 0), want, 1e-7, 1e-5);
        CHECK_NEAR(tp_tensor_get(out[1], 0), want * (i < 10 ? 0.2 + 0.8 * (double)i / 10 : 1), 1e-7, 1e-5);
    }
    tp_session_free(s);
    tp_graph_free(g);
    for (int i = 0; i < 2; i++) {
        g = tp_graph_new(NULL);
        if (i) tp_warm_up(tp_const(g, 1), NULL, 0, 0);
        else tp_cosine_decay(g, 1, NULL, -3, 0);
        CHECK_HAS(tp_graph_error(g), i ? "warm_up: steps is 0" : "cosine_decay: decay_steps is -3");
        tp_graph_free(g);
    }
}

TEST(minimize_trains_what_the_regex_names)
{
    for (int what = 0; what < 4; what++) {
        static const char *const regex[] = {"gen/.*", NULL, "gen/v", "other"};
        tp_graph *g = tp_graph_new(NULL);
        tp_node *w[3];
        static const char *const names[] = {"gen/w", "dis/w", "other"};
        for (int i = 0; i < 3; i++)
            w[i] = tp_get_variable_as(g, names[i], TP_F32, tp_make_shape(1), tp_init_constant((float)(i + 1)));
        tp_node *cost = tp_sum(tp_mul(tp_square(w[0]), w[1])); /* gradients 2 a b, a^2 */
        tp_node *train = tp_minimize(tp_sgd(tp_const(g, 0.1f)), cost, regex[what]);
        if (what >= 2) {
            CHECK_HAS(tp_graph_error(g), what == 2 ? "minimize: there is no trainable variable 'gen/v'; did you mean"
                                                   : "no gradient of 'Sum' comes to any of the 1 variables 'other'");
            tp_graph_free(g);
            continue;
        }
        tp_session *s = tp_session_new(g, NULL);
        CHECK_OK(tp_session_run(s, NULL, 0, &train, 1, NULL));
        tp_tensor t = {0};
        CHECK_OK(tp_session_read(s, tp_find_variable(g, "gen/w"), &t));
        CHECK_NEAR(tp_tensor_get(&t, 0), 1 - 0.1 * 2 * 1 * 2, 1e-6, 0);
        CHECK_OK(tp_session_read(s, tp_find_variable(g, "dis/w"), &t));
        CHECK_NEAR(tp_tensor_get(&t, 0), what == 0 ? 2 : 2 - 0.1, 1e-6, 0);
        tp_tensor_free(&t);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* ==== >>conveniences: data, callbacks, loading ======================================================== */

TEST(the_first_datapoints_of_each_pass)
{
    static const int64_t sizes[] = {1, 3, 4, 9};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        const int64_t want = sizes[k] < 4 ? sizes[k] : 4;
        tp_dataflow *df = tp_df_take(line_data(), sizes[k]);
        static const double x[4] = {1, 2, -1, 0.5};
        CHECK(tp_df_size(df) == want);
        for (int pass = 0; pass < 2; pass++) {
            CHECK_OK(tp_df_restart(df, pass));
            tp_datapoint dp = {0};
            int64_t n = 0;
            tp_status st;
            for (; (st = tp_df_next(df, &dp)) == TP_OK; n++) CHECK_NEAR(tp_tensor_get(&dp.c[0], 0), x[n], 0, 0);
            CHECK(st == TP_END && n == want);
            int64_t skipped = 0;
            CHECK_OK(tp_df_restart(df, pass));
            st = tp_df_seek(df, 2, &skipped);
            CHECK(skipped == (want < 2 ? want : 2) && (st == TP_OK || st == TP_END));
            for (n = 0; tp_df_next(df, &dp) == TP_OK;) n++;
            CHECK(n == want - skipped);
            tp_datapoint_free(&dp);
        }
        tp_df_free(df);
    }
    tp_dataflow *none = tp_df_take(line_data(), 0);
    CHECK_ERR(tp_df_status(none), TP_ERR_ARG, "tp_df_take: 0 datapoints: take at least 1");
    tp_df_free(none);
}

static const double *scores;
static tp_status put_score(tp_callback *cb)
{
    return tp_monitors_put_scalar(cb->train->monitors, "score", scores[cb->train->epoch_num]);
}
static int64_t epochs_seen;
static tp_status count_epoch(tp_callback *cb)
{
    epochs_seen = cb->train->epoch_num;
    return TP_OK;
}
static int64_t steps_of_epoch = 1;
/* Runs at most `epochs`, with a checkpoint in dir after each; gives the last epoch. */
static int64_t stops_at(tp_callback *early, const char *dir, bool resume, int64_t epochs)
{
    tp_callback *cb[] = {tp_cb_lambda(.trigger = put_score, .name = "Put"), early,
                         tp_cb_lambda(.trigger = count_epoch, .name = "Count"),
                         tp_cb_model_saver(.checkpoint_dir = dir)};
    tp_trainer *t = tp_noop_trainer();
    tp_train_desc d = {.callbacks = cb, .n_callbacks = 4, .steps_per_epoch = steps_of_epoch, .max_epoch = epochs};
    char path[512];
    snprintf(path, sizeof path, "%s/checkpoint", dir);
    if (resume) d.session_init = tp_smart_init(path, false), d.starting_epoch = epochs_seen + 1;
    epochs_seen = 0;
    CHECK_OK(tp_train(t, &d));
    tp_trainer_free(t);
    return epochs_seen;
}

/* Values of epochs without steps all have the same global_step: each is a value of its own, also after a resume, and stats.json has
 * those of each epoch once. */
static int values_seen;
static tp_status count_values(tp_callback *cb)
{
    const tp_stat *all = NULL;
    values_seen = tp_monitors_get_history(cb->train->monitors, "score", &all);
    return TP_OK;
}
static void trains_without_steps(const char *dir, bool resume, int64_t epochs)
{
    tp_callback *cb[] = {tp_cb_lambda(.before_train = count_values, .trigger = put_score, .name = "Put"),
                         tp_cb_model_saver(.checkpoint_dir = dir)};
    tp_monitor *json[] = {tp_monitor_json_writer()};
    tp_trainer *t = tp_noop_trainer();
    tp_train_desc d = {.callbacks = cb, .n_callbacks = 2, .monitors = json, .n_monitors = 1};
    char path[512];
    snprintf(path, sizeof path, "%s/checkpoint", dir);
    d.steps_per_epoch = TP_NO_STEPS, d.max_epoch = epochs;
    if (resume) d.session_init = tp_smart_init(path, false), d.starting_epoch = 3;
    CHECK_OK(tp_train(t, &d));
    tp_trainer_free(t);
}
/* A callback that is listed before the one that reports sees a value one epoch later, also where a resume lies between. */
static int64_t reads_first(const char *dir, bool resume, int64_t epochs)
{
    tp_callback *cb[] = {
        tp_cb_early_stopping("score", .patience = 3), tp_cb_lambda(.trigger = put_score, .name = "Put"),
        tp_cb_lambda(.trigger = count_epoch, .name = "Count"), tp_cb_model_saver(.checkpoint_dir = dir)};
    tp_monitor *json[] = {tp_monitor_json_writer()};
    tp_trainer *t = tp_noop_trainer();
    tp_train_desc d = {.callbacks = cb, .n_callbacks = 4, .monitors = json, .n_monitors = 1};
    char path[512];
    snprintf(path, sizeof path, "%s/checkpoint", dir);
    d.steps_per_epoch = TP_NO_STEPS, d.max_epoch = epochs;
    if (resume) d.session_init = tp_smart_init(path, false), d.starting_epoch = epochs_seen + 1;
    CHECK_OK(tp_train(t, &d));
    tp_trainer_free(t);
    return epochs_seen;
}
TEST(what_was_not_seen_before_a_resume_is_seen_after_it)
{
    static const double ends[] = {0, 5, 4, 4.5, 4.5, 4.5, 4.5, 4.5, 4.5};
    scores = ends;
    for (int64_t parts = 0; parts < 4; parts++) { /* killed after epoch 3, 4, 5 */
        const char *dir = tp_test_tmpdir();
        CHECK_OK(tp_logger_set_dir(dir, 'k'));
        if (parts) CHECK(reads_first(dir, false, 2 + parts) == 2 + parts);
        CHECK(reads_first(dir, parts > 0, 8) == 6);
        CHECK_OK(tp_logger_set_dir(NULL, 0));
    }
}

TEST(epochs_without_steps_have_values_of_their_own)
{
    static const double falls[] = {0, 5, 4, 4.5, 3.9, 4, 4.1, 4.2, 4.3, 1, 1, 1};
    const char *dir = tp_test_tmpdir(), *later = ", {\"score\": 77, \"epoch_num\": 3, \"global_step\": 0}]";
    char path[512];
    scores = falls;
    steps_of_epoch = TP_NO_STEPS;
    CHECK(stops_at(tp_cb_early_stopping("score", .patience = 3), dir, false, 11) == 7);
    CHECK(stops_at(tp_cb_early_stopping("score", .patience = 2), dir, false, 11) == 6);
    static const double again[] = {0, 5, 4, 4.5, 4.5, 4.5, 4.5, 4.5};
    scores = again;
    CHECK(stops_at(tp_cb_early_stopping("score", .patience = 3), dir, false, 3) == 3);
    CHECK(stops_at(tp_cb_early_stopping("score", .patience = 3), dir, true, 7) == 5);
    steps_of_epoch = 1;

    dir = tp_test_tmpdir();
    CHECK_OK(tp_logger_set_dir(dir, 'k'));
    trains_without_steps(dir, false, 2);
    snprintf(path, sizeof path, "%s/stats.json", dir);
    FILE *f = fopen(path, "r+b"); /* killed after the file of epoch 3 was written, and before its checkpoint */
    CHECK(f && fseek(f, -1, SEEK_END) == 0 && fputs(later, f) >= 0 && fclose(f) == 0);
    trains_without_steps(dir, true, 4);
    CHECK_MSG(values_seen == 2, "%d", values_seen);
    tp_stat_entry *e = NULL;
    int n = 0;
    CHECK_OK(tp_load_existing_stats(dir, &e, &n));
    CHECK_MSG(n == 4, "%d", n);
    for (int i = 0; i < n && n == 4; i++) CHECK(e[i].epoch_num == i + 1 && e[i].value == again[i + 1]);
    tp_free(e);
    CHECK_OK(tp_logger_set_dir(NULL, 0));
}

TEST(training_that_brings_nothing_any_more_ends)
{
    static const double falls[] = {0, 5, 4, 4.5, 3.9, 4, 4.1, 4.2, 4.3, 1, 1, 1};
    const char *dir = tp_test_tmpdir();
    scores = falls;
    CHECK(stops_at(tp_cb_early_stopping("score", .patience = 3), dir, false, 11) == 7);
    CHECK(stops_at(tp_cb_early_stopping("score", .patience = 2), dir, false, 11) == 6);
    CHECK(stops_at(tp_cb_early_stopping("score", .patience = 2, .threshold = 0.3), dir, false, 11) == 4);
    CHECK(stops_at(tp_cb_early_stopping("score"), dir, false, 11) == 11);
    CHECK(stops_at(tp_cb_early_stopping("score", .patience = 4, .reverse = TP_YES), dir, false, 11) == 5);
    static const double nan_first[] = {0, NAN, 2, NAN, NAN, 1, 1, 1, 1};
    scores = nan_first;
    CHECK(stops_at(tp_cb_early_stopping("score", .patience = 2), dir, false, 8) == 4);
    static const double again[] = {0, 5, 4, 4.5, 4.5, 4.5, 4.5, 4.5};
    scores = again; /* killed after epoch 3 and resumed: as if nothing had been */
    CHECK(stops_at(tp_cb_early_stopping("score", .patience = 3), dir, false, 3) == 3);
    CHECK(stops_at(tp_cb_early_stopping("score", .patience = 3), dir, true, 7) == 5);
    epochs_seen = 5;
    CHECK(stops_at(tp_cb_early_stopping("score", .patience = 3), dir, true, 7) == 0); /* it had ended */
    tp_callback *wrong[2] = {tp_cb_early_stopping(.patience = 2), tp_cb_early_stopping("score", .patience = -2)};
    CHECK_ERR(tp_callback_status(wrong[0]), TP_ERR_ARG, "EarlyStopping: .monitor_stat is missing");
    CHECK_ERR(tp_callback_status(wrong[1]), TP_ERR_ARG, ".patience is -2");
    tp_callback_free(wrong[0]);
    tp_callback_free(wrong[1]);
}

TEST(strict_loading)
{
    char path[512];
    snprintf(path, sizeof path, "%s/strict.npz", tp_test_tmpdir());
    for (int what = 0; what < 4; what++) { /* bit 0: one more in the graph, bit 1: in the file */
        for (int side = 0; side < 2; side++) {
            tp_graph *g = tp_graph_new(NULL);
            tp_get_variable_as(g, "fc/W", TP_F32, tp_make_shape(2), tp_init_ones());
            if (side == 0 && (what & 2)) tp_get_variable_as(g, "old/W", TP_F32, tp_make_shape(2), tp_init_ones());
            if (side == 1 && (what & 1)) tp_get_variable_as(g, "new/W", TP_F32, tp_make_shape(2), tp_init_ones());
            if (side == 1)
                tp_get_variable_as(g, "fc/W/Momentum", TP_F32, tp_make_shape(2), tp_init_ones()); /* may lack */
            tp_session *s = tp_session_new(g, NULL);
            if (side == 0) CHECK_OK(tp_save_checkpoint(s, path, NULL, 0));
            else {
                tp_saver_restore_desc d = {.path = path, .strict = true};
                tp_session_init *init = tp_saver_restore_ex(&d);
                const tp_status st = tp_session_init_run(init, s);
                CHECK(st == (what ? TP_ERR_NAME : TP_OK));
                if (what & 1) CHECK_HAS(tp_last_error(), "in the graph, but not in the checkpoint: new/W");
                if (what & 2) CHECK_HAS(tp_last_error(), "not in the graph, but in it: old/W");
                tp_session_init_free(init);
                d.relaxed = true;
                init = tp_saver_restore_ex(&d);
                CHECK_ERR(tp_session_init_run(init, s), TP_ERR_ARG, ".strict and .relaxed exclude each other");
                tp_session_init_free(init);
            }
            tp_session_free(s);
            tp_graph_free(g);
        }
    }
}

/* h' = h/2 + x, and twice that. */
static tp_node *cell_graph(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user, (void)g;
    tp_node *h = tp_named(tp_add(tp_affine(in[0], 0.5f, 0), in[1]), "next");
    return tp_named(tp_affine(h, 2, 0), "out");
}

/* Only the batch of a state may be unknown; the output has its type and its sizes. */
static tp_node *open_cell(tp_graph *g, tp_node *const *in, void *user)
{
    (void)g, (void)user;
    tp_named(tp_cast(in[0], TP_I32), "number");
    tp_named(tp_reduce_sum(in[0], NULL, 0, false), "sum");
    return tp_named(tp_affine(in[0], 0.5f, 0), "next");
}
TEST(sizes_of_a_carried_state_are_known)
{
    static const char *const outs[] = {"next", "number", "sum"};
    static const struct {
        tp_shape shape;
        const char *text; /* NULL: it is carried */
    } t[] = {{{3, {TP_ANY, 2, 3}}, NULL},
             {{1, {TP_ANY}}, NULL},
             {{3, {4, 2, 3}}, NULL},
             {{2, {TP_ANY, TP_ANY}}, "(?,?)"},
             {{3, {TP_ANY, TP_ANY, 3}}, "(?,?,3)"},
             {{3, {TP_ANY, 2, TP_ANY}}, "(?,2,?)"},
             {{3, {4, 2, TP_ANY}}, "(4,2,?)"}};
    for (int i = 0; i < TP_COUNT(t); i++) {
        tp_spec spec[2] = {TP_SPEC("h", TP_F32, 1), TP_SPEC("x", TP_F32, 1)};
        spec[0].shape = spec[1].shape = t[i].shape;
        const tp_predict_config c = {
            .inputs = spec, .n_inputs = 2, .build_graph = open_cell, .output_names = outs, .n_output_names = 3};
        char want[96];
        tp_predictor *p = tp_offline_predictor(&c);
        if (!CHECK_MSG(p != NULL, "%s", tp_last_error())) return;
        CHECK_ERR(tp_predictor_carry(p, 1, 0), TP_ERR_SHAPE, "'number' is int32 ");
        CHECK_ERR(tp_predictor_carry(p, 2, 0), TP_ERR_SHAPE, "'sum' is float32 (), which the input 'h', float32 ");
        CHECK_ERR(tp_predictor_carry(p, 3, 0), TP_ERR_ARG, "output 3 to input 0: the predictor has 3 outputs and 2");
        CHECK_ERR(tp_predictor_carry(p, -1, 0), TP_ERR_ARG, "output -1 to input 0");
        CHECK_ERR(tp_predictor_carry(p, 0, 2), TP_ERR_ARG, "output 0 to input 2");
        CHECK_ERR(tp_predictor_carry(p, 0, -1), TP_ERR_ARG, "output 0 to input -1");
        snprintf(want, sizeof want, "the input 'h' has shape %s: only its first dimension may be unknown",
                 t[i].text ? t[i].text : "");
        if (t[i].text) CHECK_ERR(tp_predictor_carry(p, 0, 0), TP_ERR_SHAPE, want);
        for (int k = 0; k < 2 && !t[i].text; k++) { /* no output reads the second input */
            keep_the_log();
            CHECK_OK(tp_predictor_carry(p, 0, k));
            tp_set_log(NULL, NULL);
            CHECK((strstr(logged, "no output reads the input 'x', so carrying it changes nothing") != NULL) ==
                  (k == 1));
        }
        CHECK(tp_predictor_n_inputs(p) == (t[i].text ? 2 : 0));
        tp_predictor_free(p);
    }
}

static tp_node *counting_cell(tp_graph *g, tp_node *const *in, void *user)
{
    (void)g, (void)user;
    tp_named(tp_affine(in[0], 1, 1), "next");
    return tp_named(tp_affine(in[1], 2, 0), "out");
}
/* A call that fails leaves no state, not even its shape. */
TEST(a_first_call_that_fails_begins_no_state)
{
    static const char *const outs[] = {"next", "out"};
    tp_spec spec[2] = {TP_SPEC("h", TP_F32, TP_ANY), TP_SPEC("x", TP_F32, TP_ANY, 2)};
    const tp_predict_config config = {
        .inputs = spec, .n_inputs = 2, .build_graph = counting_cell, .output_names = outs, .n_output_names = 2};
    const float x[9] = {0};
    tp_predictor *p = tp_offline_predictor(&config);
    if (!CHECK_MSG(p != NULL, "%s", tp_last_error())) return;
    CHECK_OK(tp_predictor_carry(p, 0, 0));
    const tp_tensor *out[2];
    tp_tensor in;
    tp_tensor_view(&in, TP_F32, tp_make_shape(3, 3), x);
    CHECK(tp_predict_n(p, &in, 1, out, 2) == TP_ERR_SHAPE);
    for (int i = 1; i < 3; i++) {
        tp_tensor_view(&in, TP_F32, tp_make_shape(1, 2), x);
        CHECK_OK(tp_predict_n(p, &in, 1, out, 2));
        CHECK(tp_tensor_size(out[0]) == 1 && tp_tensor_get(out[0], 0) == i);
        tp_tensor_view(&in, TP_F32, tp_make_shape(1, 3), x);
        CHECK(tp_predict_n(p, &in, 1, out, 2) == TP_ERR_SHAPE); /* nor does a later one change it */
    }
    tp_predictor_free(p);
}

/* Only a first dimension that is unknown is that of the first input, which is 1 where there is none. */
TEST(a_carried_state_has_its_own_length_or_the_batch)
{
    static const char *const outs[] = {"next", "out"};
    static const struct {
        tp_shape h, x;
        int64_t n[3]; /* elements of the state in three calls, of batches of 4, 4 and 2 */
    } c[] = {{{0, {0}}, {1, {TP_ANY}}, {1, 1, 1}},           {{1, {0}}, {1, {TP_ANY}}, {0, 0, 0}},
             {{2, {0, 3}}, {1, {TP_ANY}}, {0, 0, 0}},        {{2, {1, 3}}, {1, {TP_ANY}}, {3, 3, 3}},
             {{2, {5, 3}}, {1, {TP_ANY}}, {15, 15, 15}},     {{1, {TP_ANY}}, {1, {TP_ANY}}, {4, 4, 2}},
             {{2, {TP_ANY, 3}}, {1, {TP_ANY}}, {12, 12, 6}}, {{2, {TP_ANY, 3}}, {0, {0}}, {3, 3, 3}}};
    for (int i = 0; i < TP_COUNT(c); i++) {
        tp_spec spec[2] = {TP_SPEC("h", TP_F32, 1), TP_SPEC("x", TP_F32, 1)};
        spec[0].shape = c[i].h, spec[1].shape = c[i].x;
        const tp_predict_config config = {
            .inputs = spec, .n_inputs = 2, .build_graph = counting_cell, .output_names = outs, .n_output_names = 2};
        tp_predictor *p = tp_offline_predictor(&config);
        if (!CHECK_MSG(p != NULL, "%s", tp_last_error())) return;
        CHECK_OK(tp_predictor_carry(p, 0, 0));
        for (int call = 0, counted = 0; call < 3; call++) {
            float data[4] = {1, 2, 3, 4};
            tp_tensor x;
            const tp_tensor *out[2];
            memset(&x, 0, sizeof x);
            tp_tensor_view(&x, TP_F32, c[i].x.ndim ? tp_make_shape(call < 2 ? 4 : 2) : c[i].x, data);
            if (call && c[i].n[call] != c[i].n[call - 1]) {
                CHECK_ERR(tp_predict_n(p, &x, 1, out, 2), TP_ERR_SHAPE, " is needed: tp_predictor_reset begins anew");
                tp_predictor_reset(p);
                counted = 0;
            }
            if (!CHECK_OK(tp_predict_n(p, &x, 1, out, 2))) break;
            counted++;
            const int64_t n = tp_tensor_size(out[0]);
            CHECK_MSG(n == c[i].n[call], "case %d: %d elements", i, (int)n);
            for (int64_t k = 0; k < n; k++) CHECK(tp_tensor_get(out[0], k) == counted);
            CHECK(tp_tensor_get(out[1], 1 - !c[i].x.ndim) == (c[i].x.ndim ? 4 : 2));
        }
        tp_predictor_free(p);
    }
}

TEST(predictors_carry_their_state)
{
    static const tp_spec specs[] = {TP_SPEC("h", TP_F32, TP_ANY, 2), TP_SPEC("x", TP_F32, TP_ANY, 2)};
    static const char *const outs[] = {"out", "next"};
    const tp_predict_config c = {
        .inputs = specs, .n_inputs = 2, .build_graph = cell_graph, .output_names = outs, .n_output_names = 2};
    tp_predictor *p = tp_offline_predictor(&c);
    if (!CHECK_MSG(p != NULL, "%s", tp_last_error())) return;
    CHECK_ERR(tp_predictor_carry(p, 2, 0), TP_ERR_ARG, "output 2 to input 0: the predictor has 2 outputs and 2 inputs");
    CHECK_OK(tp_predictor_carry(p, 1, 0));
    CHECK_ERR(tp_predictor_carry(p, 0, 0), TP_ERR_STATE, "the input 'h' is carried already");
    CHECK(tp_predictor_n_inputs(p) == 1);
    for (int round = 0; round < 2; round++) {
        double h[6] = {0};
        const int batch = round ? 3 : 2;
        for (int t = 0; t < 4; t++) {
            float data[6];
            tp_tensor x = {0};
            const tp_tensor *out[2];
            for (int i = 0; i < 6; i++) data[i] = (float)(i - t), h[i] = h[i] / 2 + i - t;
            tp_tensor_view(&x, TP_F32, tp_make_shape(batch, 2), data);
            if (!CHECK_OK(tp_predict_n(p, &x, 1, out, 2))) break;
            for (int i = 0; i < 2 * batch; i++) CHECK_NEAR(tp_tensor_get(out[0], i), 2 * h[i], 1e-6, 0);
            tp_tensor_view(&x, TP_F32, tp_make_shape(1, 2), data); /* refused: the state stays */
            CHECK_ERR(tp_predict_n(p, &x, 1, out, 2), TP_ERR_SHAPE, "tp_predictor_reset begins anew");
        }
        tp_predictor_reset(p);
    }
    tp_predictor_free(p);
}

/* ==== >>training and prediction ======================================================================= */

/* Every optimizer leaves something in the checkpoint that a predictor has no use for. */
static tp_optimizer *any_optimizer(tp_graph *g, void *user)
{
    tp_node *lr = tp_get_scalar_variable(g, "learning_rate", 0.1f);
    switch (*(int *)user) {
    case 0: return tp_momentum(lr);
    case 1: return tp_adam(lr);
    case 2: return tp_adamw(lr);
    case 3: return tp_rmsprop(lr);
    case 4: return tp_adagrad(lr);
    case 5: return tp_adadelta(lr);
    case 6: return tp_ftrl(lr);
    case 7: return tp_lamb(lr);
    case 8: return tp_loss_scale(tp_adam(lr));
    default: return tp_accum_grad(tp_nesterov(lr), 2);
    }
}

TEST(a_trained_model_is_loaded_without_a_warning)
{
    for (int what = 0; what < 10; what++) {
        char path[512];
        const char *dir = tp_test_tmpdir();
        tp_train_config c = line_config(1);
        c.model.optimizer = any_optimizer, c.model.user = &what;
        c.steps_per_epoch = 2;
        CHECK_OK(tp_launch_train_with_config(&(tp_train_config){.model = c.model,
                                                                .dataflow = c.dataflow,
                                                                .max_epoch = 1,
                                                                .steps_per_epoch = 2,
                                                                .n_extra_callbacks = TP_NONE,
                                                                .n_monitors = TP_NONE,
                                                                TP_CALLBACKS(tp_cb_model_saver(.checkpoint_dir = dir))},
                                             tp_simple_trainer()));
        snprintf(path, sizeof path, "%s/checkpoint", dir);
        keep_the_log();
        static const char *const names[] = {"prediction"};
        tp_predictor *p = tp_offline_predictor(&(tp_predict_config){.inputs = line_inputs,
                                                                    .n_inputs = 1 + 1,
                                                                    .build_graph = line_graph,
                                                                    .output_names = names,
                                                                    .n_output_names = 1,
                                                                    .checkpoint = path});
        CHECK_MSG(p != NULL, "%s", tp_last_error());
        CHECK_MSG(logged[0] == 0, "%d: %s", what, logged);
        tp_predictor_free(p);
        tp_set_log(NULL, NULL);
    }
    /* what is of another model is still told */
    char path[512];
    tp_graph *g = tp_graph_new(NULL);
    tp_get_variable_as(g, "w", TP_F32, tp_make_shape(1, 1), tp_init_ones());
    tp_get_variable_as(g, "other/w", TP_F32, tp_make_shape(1, 1), tp_init_ones());
    tp_session *s = tp_session_new(g, NULL);
    snprintf(path, sizeof path, "%s/two.npz", tp_test_tmpdir());
    CHECK_OK(tp_save_checkpoint(s, path, NULL, 0));
    keep_the_log();
    static const char *const names[] = {"prediction"};
    tp_predictor_free(tp_offline_predictor(&(tp_predict_config){.inputs = line_inputs,
                                                                .n_inputs = 2,
                                                                .build_graph = line_graph,
                                                                .output_names = names,
                                                                .n_output_names = 1,
                                                                .session_init = tp_saver_restore(path)}));
    CHECK_HAS(logged, "but not found in the graph: other/w");
    tp_set_log(NULL, NULL);
    tp_session_free(s);
    tp_graph_free(g);
}

static int built, steps;
static bool sticks;
static tp_status my_build(tp_trainer *t, const tp_model *m)
{
    tp_node *in[2];
    built++;
    CHECK(m->n_inputs == 2 && t->state.tower_func != NULL && t->state.input != NULL && t->state.session == NULL);
    tp_tower_enter(t->graph, &(tp_tower_desc){.is_training = true});
    CHECK_OK(tp_input_get_tensors(t->state.input, in));
    t->cost = tp_tower_func_call(t->state.tower_func, in);
    t->train_op = tp_minimize(m->optimizer(t->graph, m->user), t->cost, NULL);
    tp_tower_leave(t->graph);
    if (sticks) tp_add(in[0], NULL);
    return TP_OK;
}
static tp_status my_step(tp_trainer *t)
{
    tp_tensor w = {0};
    const tp_variable *v = tp_find_variable(t->graph, "w");
    if (++steps == 6) return TP_END; /* success */
    const int64_t before = t->state.global_step;
    CHECK_OK(tp_hooked_run(t->state.hooked_session, &t->train_op, 1, NULL));
    CHECK(t->state.global_step == before + 1);
    CHECK_OK(tp_session_eval(t->state.session, v->node, &w)); /* no callback sees it */
    CHECK(t->state.global_step == before + 1);
    tp_tensor_free(&w);
    return TP_OK;
}

TEST(the_contract_of_build_and_run_step)
{
    for (int i = 0; i < 2; i++) {
        tp_trainer *t = tp_simple_trainer();
        tp_train_config c = line_config(4);
        built = steps = 0, sticks = i == 1;
        t->build = my_build, t->run_step = my_step;
        c.steps_per_epoch = 2;
        TEST_MAY_ERROR("input 1 is NULL");
        const tp_status st = tp_launch_train_with_config(&c, t);
        CHECK(st == (i ? TP_ERR_ARG : TP_OK) && built == 1 && steps == (i ? 0 : 6));
        if (i) CHECK_HAS(tp_last_error(), "add: input 1 is NULL");
        CHECK(strstr(tp_last_error(), "meant") == NULL); /* what the library looked for is not told */
    }
}

#if !defined(TP_NO_SIGNALS) && !defined(TP_NO_THREADS)
static void interrupt_soon(void *user)
{
    const struct timespec pause = {0, 50 * 1000 * 1000};
    (void)user;
    nanosleep(&pause, NULL);
    kill(getpid(), SIGINT);
}
static tp_status keep_point(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    return (void)call, tp_datapoint_view(out, in);
}
/* Data that never come: the training ends where it is, whoever waits for them. */
TEST(ctrl_c_ends_the_waiting_for_data)
{
    for (int kind = 0; kind < 6; kind++) {
        tp_queue *q = tp_queue_new(2);
        tp_thread *thread = NULL;
        tp_train_config c = line_config(2);
        tp_dataflow *df = tp_df_from_queue(q);
        if (kind == 1) df = tp_df_prefetch(df);
        if (kind == 2) df = tp_df_parallel_map(df, keep_point, .num_thread = 2);
        if (kind == 3) df = tp_df_multi_process(df, 2);
        tp_df_free(c.dataflow);
        c.dataflow = NULL;
        c.data = kind < 4 ? tp_feed_input(df) : kind == 4 ? tp_queue_input(df) : tp_staging_input(tp_queue_input(df));
        CHECK_OK(tp_thread_start(&thread, interrupt_soon, NULL));
        CHECK_MSG(tp_launch_train_with_config(&c, tp_simple_trainer()) == TP_INTR, "kind %d: %s", kind,
                  tp_last_error());
        tp_thread_join(thread);
        tp_queue_free(q);
    }
}

static tp_status slow_line_point(void *user, int64_t pass, int64_t i, tp_datapoint *dp)
{
    const struct timespec pause = {0, 20 * 1000 * 1000};
    (void)user, (void)pass, (void)i;
    nanosleep(&pause, NULL);
    tp_status st = tp_datapoint_resize(dp, 2);
    for (int k = 0; k < 2 && st == TP_OK; k++) {
        st = tp_tensor_resize(&dp->c[k], TP_F32, tp_make_shape(4, 1));
        for (int j = 0; j < 4 && st == TP_OK; j++) ((float *)dp->c[k].data)[j] = (float)j;
    }
    return st;
}
static tp_status press_ctrl_c(tp_callback *cb) { return (void)cb, raise(SIGINT) == 0 ? TP_OK : TP_ERR; }
/* What an epoch's end has to do is done, also where it waits for data. */
TEST(ctrl_c_finishes_the_validation)
{
    for (int kind = 0; kind < 2; kind++) {
        double cost = -1;
        tp_callback *press = tp_callback_new("Press", 0);
        press->after_epoch = press_ctrl_c;
        tp_train_config c = line_config(2);
        tp_dataflow *df = tp_df_from_generator(slow_line_point, .size = 3, .indexed = TP_YES);
        if (kind == 0) df = tp_df_prefetch(df);
        tp_input_source *s = kind == 0 ? tp_feed_input(df, .infinite = TP_NO) : tp_queue_input(df, .infinite = TP_NO);
        tp_callback *cb[] = {press, tp_cb_inference_runner(NULL, {tp_inf_scalar_stats({"cost"})}, .input = s),
                             tp_cb_get_latest("validation_cost", &cost)};
        c.callbacks = cb, c.n_callbacks = 3;
        CHECK(tp_launch_train_with_config(&c, tp_simple_trainer()) == TP_INTR);
        CHECK_MSG(cost >= 0, "kind %d: it was not validated: %s", kind, tp_last_error());
    }
}
#endif

/* A tensor of the model has the name of an input: InferenceRunner takes the data by itself, with each trainer. */
static tp_node *graph_with_y(tp_graph *g, tp_node *const *in, void *user)
{
    tp_node *y = tp_named(tp_affine(in[1], 1, 0), "y");
    return line_graph(g, (tp_node *[]){in[0], y}, user);
}
TEST(a_tensor_with_the_name_of_an_input)
{
    double cost[4];
    for (int kind = 0; kind < 4; kind++) {
        tp_train_config c = line_config(2);
        tp_callback *cb[] = {tp_cb_inference_runner(tp_df_batch(line_data(), 2), {tp_inf_scalar_stats({"cost"})}),
                             tp_cb_get_latest("validation_cost", &cost[kind])};
        c.model.build_graph = graph_with_y;
        c.callbacks = cb, c.n_callbacks = 2;
        CHECK_OK(tp_launch_train_with_config(&c, kind == 0   ? tp_simple_trainer()
                                                 : kind == 1 ? tp_queue_input_trainer()
                                                 : kind == 2 ? tp_horovod_trainer()
                                                             : tp_sync_multi_gpu_trainer_replicated(.n_devices = 1)));
        CHECK_NEAR(cost[kind], cost[0], 1e-6, 1e-6);
    }
    tp_graph *g = tp_graph_new(NULL);
    tp_named(tp_affine(tp_placeholder(g, "a", TP_F32, tp_make_shape(1)), 1, 0), "y");
    tp_input_source *s = tp_placeholder_input();
    CHECK(tp_input_setup(s, g, line_inputs, 2) != TP_OK || tp_graph_status(g) == TP_ERR_NAME);
    CHECK_HAS(tp_graph_error(g), "test_newcomer.c:");
    CHECK_HAS(tp_graph_error(g), "a node of that name is there, made by identity, float32 (1): give it another name");
    tp_input_free(s);
    tp_graph_free(g);
}

TEST(statistics_are_read_as_numbers)
{
    char path[512];
    const char *dir = tp_test_tmpdir();
    tp_stat_entry *e = NULL;
    int n = 0;
    snprintf(path, sizeof path, "%s/stats.json", dir);
    CHECK_ERR(tp_load_existing_stats(dir, &e, &n), TP_ERR_NAME, "there is no file");
    CHECK(e == NULL && n == 0);
    FILE *f = fopen(path, "wb");
    fputs("[{\"cost\": 0.5, \"epoch_num\": 1, \"global_step\": 10, \"note\": \"x\", \"list\": [1, 2]},\n"
          " {\"epoch_num\": 2, \"global_step\": 20, \"a/\\\"b\": -3e2, \"cost\": NaN}, {}, {\"cost\": 7}]",
          f);
    fclose(f);
    static const char *const name[] = {"cost", "a/\"b", "cost", "cost"};
    static const double value[] = {0.5, -300, NAN, 7};
    static const int64_t epoch[] = {1, 2, 2, -1}, step[] = {10, 20, 20, -1};
    if (CHECK_OK(tp_load_existing_stats(dir, &e, &n)) && CHECK(n == 4))
        for (int i = 0; i < n; i++) {
            CHECK_STR(e[i].name, name[i]);
            CHECK(e[i].epoch_num == epoch[i] && e[i].global_step == step[i]);
            CHECK(isnan(value[i]) ? isnan(e[i].value) : e[i].value == value[i]);
        }
    tp_free(e);
    long failures = 0;
    for (long k = 1, failed = 1; failed; k++, failures++) {
        tp_test_fail_after(k);
        const tp_status st = tp_load_existing_stats(dir, &e, &n);
        failed = tp_test_alloc_failed();
        CHECK_MSG(st == (failed ? TP_ERR_NOMEM : TP_OK) && n == (failed ? 0 : 4) && (e == NULL) == (failed != 0),
                  "allocation %ld: %s, %d", k, tp_status_name(st), n);
        tp_free(e);
        CHECK(tp_test_live_blocks() == 0);
    }
    tp_test_alloc_reset();
    CHECK(failures >= 3);
    f = fopen(path, "wb");
    fputs("[{\"cost\": 0.5}", f);
    fclose(f);
    CHECK_ERR(tp_load_existing_stats(dir, &e, &n), TP_ERR_FORMAT, "is no JSON");
    CHECK(e == NULL && n == 0);
    /* what JSONWriter writes */
    CHECK_OK(tp_logger_set_dir(tp_test_tmpdir(), 'k'));
    tp_train_config c = line_config(3);
    c.n_extra_callbacks = TP_NONE;
    tp_callback *cb[] = {tp_cb_lambda(.trigger = report)};
    tp_monitor *m[] = {tp_monitor_json_writer()};
    c.callbacks = cb, c.n_callbacks = 1, c.monitors = m, c.n_monitors = 1;
    CHECK_OK(tp_launch_train_with_config(&c, tp_simple_trainer()));
    if (CHECK_OK(tp_load_existing_stats(NULL, &e, &n)) && CHECK(n == 3))
        for (int i = 0; i < 3; i++)
            CHECK(strcmp(e[i].name, "learning_rate") == 0 && e[i].value == 0.5 && e[i].epoch_num == i + 1 &&
                  e[i].global_step == i + 1);
    tp_free(e);
}

/* ==== >>stumbles ====================================================================================== */

static char all_told[1 << 12]; /* what is logged, also what is no warning */
static void keep_all(void *user, tp_log_level level, const char *line)
{
    (void)user, (void)level;
    const size_t n = strlen(all_told);
    snprintf(all_told + n, sizeof all_told - n, "%s\n", line);
}

static tp_status report_score(tp_callback *cb)
{
    return tp_monitors_put_scalar(cb->train->monitors, "score", 1.5 * (double)cb->train->epoch_num);
}
static tp_status train_with(tp_callback *latest, int n_steps, int epochs)
{
    tp_callback *cb[2];
    cb[0] = tp_cb_lambda(.trigger = report_score);
    cb[1] = latest;
    return run_short(TP_OPTIONS(tp_train_config, .callbacks = cb, .n_callbacks = 2, .steps_per_epoch = n_steps,
                                .max_epoch = epochs));
}

TEST(main_gets_the_last_value_of_a_stat)
{
    double score = 0, missing = 0;
    CHECK_OK(train_with(tp_cb_get_latest("score", &score), 2, 3));
    CHECK(score == 4.5);
    keep_the_log();
    CHECK_OK(train_with(tp_cb_get_latest("scre", &missing), 2, 1));
    CHECK(missing != missing);
    CHECK_HAS(logged, "tp_cb_get_latest: No available data for the key: scre");
    CHECK_HAS(logged, "'score'");
    tp_set_log(NULL, NULL);
    TEST_MAY_ERROR("neither can be negative");
    missing = 0; /* a training that cannot begin: the value is not one of another training */
    CHECK_ERR(run_short(TP_OPTIONS(tp_train_config, TP_CALLBACKS(tp_cb_get_latest("score", &missing)),
                                   .starting_epoch = -2, .max_epoch = -3)),
              TP_ERR_ARG, "epochs");
    CHECK(missing != missing);
    tp_trainer *t = tp_simple_trainer(); /* by hand */
    const tp_model model = LINE_MODEL;
    tp_callback *const reports = tp_cb_lambda(.trigger = report_score);
    tp_stat stat = {0, 0, false};
    CHECK_OK(tp_trainer_setup_graph(t, &model, tp_feed_input(tp_df_batch(line_data(), 4))));
    CHECK_OK(tp_train(
        t, TP_OPTIONS(tp_train_desc, .callbacks = &reports, .n_callbacks = 1, .steps_per_epoch = 1, .max_epoch = 4)));
    CHECK_OK(tp_monitors_get_latest(tp_trainer_monitors(t), "score", &stat));
    CHECK(stat.value == 6 && stat.step == 4);
    tp_trainer_free(t);
    tp_callback *cb = tp_cb_get_latest("score", NULL);
    CHECK_ERR(tp_callback_status(cb), TP_ERR_ARG, "tp_cb_get_latest: a name and an address are needed");
    tp_callback_free(cb);
}

/* An option by name that is 0 when the program runs means 0; in a struct that is filled in it is the default. */
TEST(epochs_without_steps_are_told)
{
    double score = 0;
    const int none = 0;
    all_told[0] = 0;
    tp_set_log(keep_all, NULL);
    CHECK_OK(train_with(tp_cb_get_latest("score", &score), none, 2));
    CHECK_HAS(
        all_told,
        "The epochs have no steps: .steps_per_epoch was set to 0. Leave the option out for the size of the data.");
    CHECK(score == 3);
    all_told[0] = 0;
    tp_train_config c;
    memset(&c, 0, sizeof c);
    c.max_epoch = 1;
    c.steps_per_epoch = none;
    CHECK_OK(run_short(&c));
    CHECK(!strstr(all_told, "no steps"));
    CHECK_HAS(all_told, "global_step");
    tp_set_log(NULL, NULL);
}

TEST(a_feed_in_one_line)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 3));
    tp_node *row = tp_placeholder(g, "row", TP_I32, tp_make_shape(2));
    tp_node *y = tp_reduce_sum(tp_gather(x, row), NULL, 0, false);
    tp_session *s = tp_session_new(g, NULL);
    const float data[6] = {1, 2, 3, 40, 50, 60};
    const int32_t rows[2] = {1, 1};
    const tp_feed feeds[] = {TP_FEED(x, TP_F32, data, 2, 3), TP_FEED(row, TP_I32, rows, 2)};
    const tp_tensor *out = NULL;
    if (CHECK_OK(tp_session_run(s, feeds, 2, &y, 1, &out))) CHECK(tp_tensor_get(out, 0) == 300);
    const tp_feed wrong = TP_FEED(x, TP_F32, data, 3, 2);
    CHECK_ERR(tp_session_run(s, &wrong, 1, &x, 1, &out), TP_ERR_SHAPE, "(3,2)");
    const tp_feed same = tp_make_feed(x, TP_F32, tp_make_shape(2, 3), data);
    CHECK(same.node == x && same.value.data == (const void *)data && same.value.shape.ndim == 2 && !same.value.own);
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(layers_on_sequences)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_tower_desc tower = TP_EMPTY;
    tp_tower_enter(g, &tower);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 5, 4));
    tp_node *flat = tp_fully_connected(x, "flat", .units = 3);
    tp_node *rows = tp_fully_connected(tp_reshape(x, TP_ANY, 4), "rows", .units = 3);
    tp_node *each = tp_reshape(rows, TP_ANY, 5, 3), *norm = tp_layer_norm(tp_reshape(x, TP_ANY, 4), "norm");
    CHECK(flat->shape.ndim == 2 && tp_find_variable(g, "flat/W")->shape.dim[0] == 20);
    CHECK(each->shape.ndim == 3 && tp_find_variable(g, "rows/W")->shape.dim[0] == 4);
    CHECK(norm->shape.ndim == 2 && tp_find_variable(g, "norm/gamma")->shape.dim[0] == 4);
    CHECK(tp_is_poison(tp_layer_norm(x, "wrong")));
    CHECK_HAS(tp_graph_error(g),
              "wrong: input is (?,5,4), LayerNorm needs 4 dimensions (B,H,W,C) or 2 (B,C); for each step of a "
              "sequence (B,T,C) apply it to tp_reshape(x, TP_ANY, C)");
    tp_graph_free(g);
    g = tp_graph_new(NULL);
    tp_tower_enter(g, &tower);
    x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, TP_ANY, 4));
    CHECK(tp_is_poison(tp_fully_connected(x, "fc", .units = 3)));
    CHECK_HAS(tp_graph_error(g),
              "fc: input is (?,?,4), FullyConnected needs to know every dimension but the batch, because it "
              "flattens them; for each step of a sequence (B,T,C) apply it to tp_reshape(x, TP_ANY, C)");
    tp_graph_free(g);
}

TEST(c_code_has_fixed_sizes)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_tower_desc tower = TP_EMPTY;
    tp_tower_enter(g, &tower);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 3)), *y = tp_square(x);
    tp_node *image = tp_placeholder(g, "image", TP_F32, tp_make_shape(TP_ANY, TP_ANY, TP_ANY, 1)),
            *z = tp_square(image);
    tp_node *pair = tp_reshape(x, 2, 3);
    tp_session *s = tp_session_new(g, NULL);
    tp_buf c = TP_EMPTY;
    CHECK_OK(tp_export_c_text(s, &x, 1, &y, 1, &c, NULL, NULL)); /* a batch of 1 */
    CHECK_ERR(tp_export_c_text(s, &image, 1, &z, 1, &c, NULL, NULL), TP_ERR_SHAPE,
              "C export: input 'image' is (?,?,?,1), and C code has fixed sizes: set .batch, the value of all unknown "
              "dimensions, or build the graph with an input of known size");
    tp_export_c_desc d = TP_EMPTY;
    d.batch = 2;
    CHECK_OK(tp_export_c_text(s, &image, 1, &z, 1, &c, &d, NULL));
    CHECK_OK(tp_export_c_text(s, &x, 1, &pair, 1, &c, &d, NULL));
    CHECK_ERR(tp_export_c_text(s, &x, 1, &pair, 1, &c, NULL, NULL), TP_ERR_SHAPE,
              "C export with a batch of 1 (see .batch): ");
    CHECK_ERR(tp_export_c_text(s, NULL, 0, &y, 1, &c, NULL, NULL), TP_ERR_ARG,
              "placeholder 'x' must be fed: what is fetched depends on it. List it among the inputs");
    CHECK_HAS(tp_last_error(), "C export: ");
    tp_buf_free(&c);
    tp_session_free(s);
    tp_graph_free(g);
}

/* Big-endian number of a PNG file. */
static unsigned long png_word(const unsigned char *at)
{
    return (unsigned long)at[0] << 24 | (unsigned long)at[1] << 16 | (unsigned long)at[2] << 8 | at[3];
}

TEST(pictures_as_png)
{
    /* PNG's colour types: grey 0, RGB 2, RGBA 6 */
    static const int channels[4] = {0, 1, 3, 4}, color[4] = {0, 0, 2, 6};
    char path[512];
    snprintf(path, sizeof path, "%s/picture.png", tp_test_tmpdir());
    for (int k = 0; k < 4; k++) {
        tp_tensor image = TP_EMPTY, back = TP_EMPTY;
        const int c = channels[k] ? channels[k] : 1;
        const tp_shape shape = channels[k] ? tp_make_shape(3, 5, channels[k]) : tp_make_shape(3, 5);
        CHECK_OK(tp_tensor_resize(&image, k % 2 ? TP_F32 : TP_U8, shape));
        for (int i = 0; i < 15 * c; i++) tp_tensor_set(&image, i, i * 7 % 256);
        if (k % 2)
            tp_tensor_set(&image, 0, -20), tp_tensor_set(&image, 1, 300.7), tp_tensor_set(&image, 2, 99.9),
                tp_tensor_set(&image, 3, 1);
        CHECK_OK(tp_save_png(path, &image)); /* the second time another file is replaced */
        unsigned char file[1024];
        FILE *f = fopen(path, "rb");
        const size_t size = f ? fread(file, 1, sizeof file, f) : 0;
        if (f) fclose(f);
        if (CHECK(size > 57)) {
            CHECK(memcmp(file, "\x89PNG\r\n\x1a\n", 8) == 0 && memcmp(file + 12, "IHDR", 4) == 0);
            CHECK(png_word(file + 16) == 5 && png_word(file + 20) == 3 && file[24] == 8 && file[25] == color[k]);
            /* an independent decoder, where there is one; RGBA it would give without its last channel */
            const tp_status st = c == 4 ? TP_OK : tp_image_decode(file, size, c, &back);
            CHECK(st == TP_OK || st == TP_ERR_UNSUPPORTED);
            for (int i = 0; i < 15 * c && back.data; i++) {
                static const double odd[4] = {0, 255, 99, 1};
                const double v = k % 2 && i < 4 ? odd[i] : i * 7 % 256;
                CHECK(tp_tensor_get(&back, i) == v);
            }
        }
        tp_tensor_free(&image);
        tp_tensor_free(&back);
    }
}

TEST(pictures_that_cannot_be_written)
{
    char path[512];
    const unsigned char u8[12] = {0};
    const float f32[4] = {0, 0.25f, 1, 0.5f};
    tp_tensor image = TP_EMPTY;
    snprintf(path, sizeof path, "%s/picture.png", tp_test_tmpdir());
    CHECK_ERR(tp_save_png(path, &image), TP_ERR_SHAPE,
              "tp_save_png: the image is (): it needs to be (H,W), or (H,W,C)");
    tp_tensor_view(&image, TP_U8, tp_make_shape(3, 2, 2), u8);
    CHECK_ERR(tp_save_png(path, &image), TP_ERR_SHAPE, "tp_save_png: the image is (3,2,2)");
    tp_tensor_view(&image, TP_U8, tp_make_shape(0, 4), u8);
    CHECK_ERR(tp_save_png(path, &image), TP_ERR_SHAPE, "tp_save_png: the image is (0,4)");
    for (int i = 0; i < 2; i++) {
        const int64_t dim[2] = {i ? 1 : (int64_t)1 << 31, i ? (int64_t)1 << 31 : 1};
        tp_tensor_view(&image, TP_U8, tp_make_shape_n(2, dim), u8);
        CHECK_ERR(tp_save_png(path, &image), TP_ERR_SHAPE, "a side of a PNG has at most 2147483647 pixels");
    }
    tp_tensor_view(&image, TP_U8, tp_make_shape(3, 4), NULL);
    CHECK_ERR(tp_save_png(path, &image), TP_ERR_ARG, "no values");
    tp_tensor_view(&image, TP_U8, tp_make_shape(3, 4), u8);
    CHECK_ERR(tp_save_png("/no/such/folder/x.png", &image), TP_ERR_IO, "/no/such/folder");
    CHECK(!tp_file_exists(path));
    keep_the_log();
    CHECK_OK(tp_save_png(path, &image)); /* black, as it should be */
    CHECK(logged[0] == 0);
    tp_tensor_view(&image, TP_F32, tp_make_shape(2, 2), f32);
    CHECK_OK(tp_save_png(path, &image));
    CHECK_HAS(logged, "picture.png is black, because no value is above 1: white is 255");
    tp_set_log(NULL, NULL);
}

/* The tag of a summary is <name scope>/<name>, as in TensorFlow. The default name is the operation's full name, which has the scope, too. */
TEST(tags_within_a_scope)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_name_scope_push(g, "loss");
    tp_node *cost = tp_named(tp_const(g, 1), "cost");
    tp_add_tensor_summary(cost, TP_SUMMARY_MEAN);
    tp_add_tensor_summary(cost, TP_SUMMARY_MEAN, .name = "cost");
    tp_name_scope_pop(g);
    tp_add_tensor_summary(cost, TP_SUMMARY_RMS);
    int n = 0;
    tp_node *const *all = tp_collection(g, TP_KEY_SUMMARIES, &n);
    if (CHECK(n == 3)) {
        CHECK_STR(tp_summary_info(all[0])->tag, "loss/loss/cost-mean");
        CHECK_STR(tp_summary_info(all[1])->tag, "loss/cost-mean");
        CHECK_STR(tp_summary_info(all[2])->tag, "loss/cost-rms");
    }
    tp_graph_free(g);
}

/* What TensorFlow does with gradient_override_map: the value of one function with the gradient of another. */
TEST(a_gradient_that_is_replaced)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(3)), *dx = NULL;
    tp_node *f = tp_round(x), *h = tp_square(x);
    tp_node *y = tp_add(h, tp_stop_gradient(tp_sub(f, h)));
    tp_gradients(tp_sum(y), &x, 1, &dx);
    tp_session *s = tp_session_new(g, NULL);
    const float at[3] = {0.25f, 0.75f, -1.5f};
    const tp_feed feed = TP_FEED(x, TP_F32, at, 3);
    tp_node *const fetch[2] = {y, dx};
    const tp_tensor *out[2];
    if (CHECK_OK(tp_session_run(s, &feed, 1, fetch, 2, out)))
        for (int i = 0; i < 3; i++) {
            CHECK_NEAR(tp_tensor_get(out[0], i), i == 0 ? 0 : i == 1 ? 1 : -2, 1e-6, 0);
            CHECK(tp_tensor_get(out[1], i) == 2 * (double)at[i]);
        }
    tp_session_free(s);
    tp_graph_free(g);
}

/* A condition that is false is TP_NO: by name, and with TP_TRI in a struct that is filled in. */
TEST(conditions_as_options)
{
    const bool mirror = false;
    tp_augmentor *a = tp_aug_flip(.horiz = mirror, .vert = !mirror);
    CHECK_MSG(tp_aug_status(a) == TP_OK, "%s", tp_last_error());
    tp_aug_free(a);
    a = tp_aug_flip(.horiz = mirror);
    CHECK_ERR(tp_aug_status(a), TP_ERR_ARG,
              "tp_aug_flip: set one of .horiz and .vert to true; for both use two flips, for no "
              "flip .prob = 0");
    tp_aug_free(a);
    a = tp_aug_flip(.horiz = true, .prob = mirror ? 0.5f : 0);
    CHECK_MSG(tp_aug_status(a) == TP_OK, "%s", tp_last_error());
    tp_aug_free(a);
    tp_graph *g = tp_graph_new(NULL);
    tp_tower_desc tower = TP_EMPTY;
    tp_tower_enter(g, &tower);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 3));
    tp_fully_connected_desc d = TP_EMPTY;
    d.name = "without";
    d.units = 2;
    d.use_bias = TP_TRI(mirror);
    tp_fully_connected_(x, &d);
    d.name = "with";
    d.use_bias = TP_TRI(!mirror);
    tp_fully_connected_(x, &d);
    CHECK(!tp_find_variable(g, "without/b") && tp_find_variable(g, "with/b"));
    tp_graph_free(g);
}

/* ==== >>without memory ================================================================================ */

static tp_status builds_much(void)
{
    tp_graph *g = tp_graph_new(NULL);
    if (!g) return TP_ERR_NOMEM;
    static const float weight[3] = {1, 2, 3};
    tp_node *step = tp_placeholder(g, "step", TP_I64, tp_make_shape_n(0, NULL));
    tp_node *x = tp_get_variable_as(g, "x", TP_F32, tp_make_shape(4, 3), tp_init_ones()), *labels = labels_of(g);
    tp_node *losses = tp_softmax_cross_entropy(x, tp_sym_smooth_labels(labels, 3, 0.1f, NULL));
    tp_node *cost =
        tp_add_all(tp_sym_mse(x, tp_zeros_like(x), NULL), tp_sym_weighted_loss(losses, labels, weight, 3, NULL),
                   tp_sum_over(tp_sym_kl_divergence(x, tp_concat_along(0, x), NULL), 0));
    tp_minimize(tp_sgd(tp_warm_up(tp_cosine_decay(g, 0.1f, step, 10, 0), step, 3, 0)), cost, "x|y");
    TP_VARIABLE_SCOPE(g, "scope") tp_get_variable_as(g, "w", TP_F32, tp_make_shape(1), tp_init_ones());
    const tp_status st = tp_graph_status(g);
    tp_graph_free(g);
    return st;
}
static tp_status looks_now(void)
{
    tp_tensor t = {0};
    tp_graph *g = tp_graph_new(NULL);
    tp_status st = g ? tp_eval_now(tp_square(tp_const(g, 3)), NULL, 0, &t) : TP_ERR_NOMEM;
    if (st == TP_OK) CHECK(tp_tensor_get(&t, 0) == 9);
    tp_tensor_free(&t);
    tp_graph_free(g);
    return st;
}
static tp_status carries(void)
{
    static const tp_spec specs[] = {TP_SPEC("h", TP_F32, TP_ANY, 2), TP_SPEC("x", TP_F32, TP_ANY, 2)};
    static const char *const outs[] = {"out", "next"};
    static const float data[2] = {1, 2};
    const tp_predict_config c = {
        .inputs = specs, .n_inputs = 2, .build_graph = cell_graph, .output_names = outs, .n_output_names = 2};
    tp_predictor *p = tp_offline_predictor(&c);
    tp_status st = p ? tp_predictor_carry(p, 1, 0) : TP_ERR_NOMEM;
    tp_tensor x = {0};
    const tp_tensor *out[2];
    tp_tensor_view(&x, TP_F32, tp_make_shape(1, 2), data);
    for (int i = 0; i < 2 && st == TP_OK; i++) st = tp_predict_n(p, &x, 1, out, 2);
    if (st == TP_OK) CHECK(tp_tensor_get(out[0], 1) == 6);
    tp_predictor_free(p);
    return st;
}
static const char *stats_dir;
static tp_status reads_stats(void)
{
    tp_stat_entry *e = NULL;
    int n = 0;
    const tp_status st = tp_load_existing_stats(stats_dir, &e, &n);
    CHECK((st == TP_OK) == (e != NULL) && n == (st == TP_OK ? 1 : 0));
    tp_free(e);
    return st;
}
static tp_status makes_early(void)
{
    tp_callback *cb = tp_cb_early_stopping("cost");
    tp_callback_free(cb);
    return cb ? TP_OK : TP_ERR_NOMEM;
}

static tp_status makes_latest(void)
{
    double value;
    tp_callback *cb = tp_cb_get_latest("cost", &value);
    tp_callback_free(cb);
    return cb ? TP_OK : TP_ERR_NOMEM;
}
static tp_status draws(void)
{
    char path[512];
    const unsigned char pixels[12] = {0};
    tp_tensor image = TP_EMPTY;
    snprintf(path, sizeof path, "%s/picture.png", stats_dir);
    tp_tensor_view(&image, TP_U8, tp_make_shape(3, 4), pixels);
    return tp_save_png(path, &image);
}

TEST(each_of_them_may_find_no_memory)
{
    tp_status (*const all[])(void) = {builds_much, looks_now, carries, reads_stats, makes_early, makes_latest, draws};
    char path[512];
    stats_dir = tp_test_tmpdir();
    snprintf(path, sizeof path, "%s/stats.json", stats_dir);
    FILE *f = fopen(path, "wb");
    fputs("[{\"cost\": 1, \"epoch_num\": 1}]", f);
    fclose(f);
    keep_the_log();
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        for (long n = 1, failed = 1; failed; n++) {
            tp_test_fail_after(n);
            const tp_status st = all[k]();
            failed = tp_test_alloc_failed();
            CHECK_MSG(failed ? st == TP_ERR_NOMEM : st == TP_OK, "%d, allocation %ld: %s: %s", (int)k, n,
                      tp_status_name(st), tp_last_error());
            CHECK_MSG(tp_test_live_blocks() == 0, "%d, allocation %ld leaks", (int)k, n);
            if (n > 2000) break;
        }
    tp_test_alloc_reset();
    tp_set_log(NULL, NULL);
}

/* ==== >>a first table, a first loss ==================================================================== */

/* What a file of numbers with another form than the program expects is told. */
TEST(csv_files_of_another_form)
{
    static const tp_csv_column columns[] = {{.name = "age", .count = 3}, {.name = "price"}};
    static const tp_csv_column too_many[] = {{.name = "rooms", .count = 3}};
    static const struct {
        const char *text;
        const tp_csv_column *columns;
        const char *sentence;
    } c[] = {
        {"age,area,rooms,price\n1,2,3,4\n1,n/a,3,4\n", columns, ":3: column 1 (1 after age): \"n/a\" is no float32"},
        {"age,area,rooms,price\nx,2,3,4\n", columns, ":2: column 0 (age): \"x\" is no float32"},
        {"1,2,3,4\n5,6,7,8\n", columns,
         "the columns are \"1\", \"2\", \"3\", \"4\": if the first line has no names, give .header"},
        {"age;area;rooms;price\n1;2;3;4\n", columns, "\"age;area;rooms;price\": is .separator another one?"},
        {"age, price\n1, 2\n", columns, "there is no column called \"price\"; the columns are \"age\", \" price\""},
        {"age,area,rooms,price\n1,2,3,4\n", too_many,
         "column 4 was asked for (.count is 3, from column 2 on), there are 4, numbered from 0"},
    };
    char path[600];
    snprintf(path, sizeof path, "%s/t.csv", tp_test_tmpdir());
    for (int i = 0; i < TP_COUNT(c); i++) {
        FILE *f = fopen(path, "w");
        if (!CHECK(f != NULL)) return;
        fputs(c[i].text, f);
        fclose(f);
        tp_dataflow *df = tp_df_csv(path, c[i].columns, c[i].columns == columns ? 2 : 1);
        CHECK(tp_df_status(df) != TP_OK);
        CHECK_HAS(tp_last_error(), c[i].sentence);
        tp_df_free(df);
    }
}

/* Losses whose arguments do not fit each other. */
TEST(shapes_and_probabilities_of_losses)
{
    for (int i = 0; i < 9; i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 1)),
                *y = tp_placeholder(g, "y", TP_F32, tp_make_shape(TP_ANY)),
                *label = tp_placeholder(g, "label", TP_I32, tp_make_shape(TP_ANY)),
                *logits = tp_placeholder(g, "logits", TP_F32, tp_make_shape(TP_ANY, 3));
        static const float weights[3] = {1, 2, 3};
        keep_the_log();
        if (i == 0) tp_squared_difference(x, y);
        if (i == 1) tp_sub(y, x);
        if (i == 2) tp_squared_difference(x, tp_expand_dims(y, 0)), tp_sub(logits, y), tp_sub(x, tp_const(g, 1));
        if (i == 3) tp_sparse_softmax_cross_entropy(tp_named(tp_softmax(logits), "prob"), label);
        if (i == 4) tp_softmax_cross_entropy(tp_softmax(logits), tp_softmax(logits));
        if (i == 5) tp_sigmoid_cross_entropy(tp_sigmoid(logits), logits);
        if (i == 6) tp_softmax_cross_entropy(logits, tp_softmax(logits));
        if (i == 7)
            tp_sym_weighted_loss(tp_mean(tp_sparse_softmax_cross_entropy(logits, label)), label, weights, 3, NULL);
        if (i == 8) tp_conv2d(tp_expand_dims(logits, 1), "c", .filters = 1, .kernel_size = 1);
        tp_set_log(NULL, NULL);
        static const char *const warning[] = {
            "tp_squared_difference of (?,1) and (?) compares each row with each, (?,?)",
            "tp_sub of (?,1) and (?) compares each row with each, (?,?)",
            NULL,
            "the logits of sparse_softmax_cross_entropy come from tp_softmax: give its input instead",
            "the logits of softmax_cross_entropy come from tp_softmax",
            "the logits of sigmoid_cross_entropy come from tp_sigmoid",
            NULL,
        };
        if (i < 7 && warning[i]) CHECK_HAS(logged, warning[i]), CHECK_HAS(logged, "test_newcomer.c:");
        else CHECK_STR(logged, "");
        if (i < 7) CHECK(i == 2 || tp_graph_status(g) == TP_OK);
        if (i == 7) CHECK_HAS(tp_graph_error(g), "weighted_loss: the losses are () and the labels (?)");
        if (i == 8) CHECK_HAS(tp_graph_error(g), "(B,H,W,C): tp_expand_dims(x, 3) adds the channel of grey images");
        tp_graph_free(g);
    }
}

static tp_status halves_in_place(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    (void)in, (void)call;
    ((float *)out->c[0].data)[0] /= 2;
    return TP_OK;
}
static tp_status halves_a_copy(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    (void)call;
    const tp_status st = tp_tensor_resize(&out->c[0], TP_F32, in->c[0].shape);
    if (st == TP_OK) ((float *)out->c[0].data)[0] = ((const float *)in->c[0].data)[0] / 2;
    return st;
}
static tp_status fails_silently(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    (void)in, (void)out, (void)call;
    return TP_ERR_IO;
}
static tp_status component_in_place(const tp_tensor *in, tp_tensor *out, tp_map_call *call)
{
    (void)in, (void)call;
    ((float *)out->data)[0] /= 2;
    return TP_OK;
}
/* A mapping function that writes into the view that it is given would change the data of the flow below with each pass. */
TEST(functions_that_map)
{
    static const char *const sentence[] = {NULL, "tp_df_map: the function wrote into the datapoint that it reads",
                                           "tp_df_parallel_map: the function wrote",
                                           "tp_df_map_component: the function wrote",
                                           "tp_df_map: a function of the program returned TP_ERR_IO without"};
    for (int i = 0; i < TP_COUNT(sentence); i++) {
        float x[3] = {2, 4, 6};
        tp_tensor rows = TP_EMPTY;
        tp_tensor_view(&rows, TP_F32, tp_make_shape(3, 1), x);
        tp_dataflow *df = tp_df_from_arrays(&rows, 1, .shuffle = false);
        df = i == 2   ? tp_df_parallel_map(df, halves_in_place, .num_thread = 2)
             : i == 3 ? tp_df_map_component(df, component_in_place, 0)
                      : tp_df_map(df, i == 0   ? halves_a_copy
                                      : i == 1 ? halves_in_place
                                               : fails_silently);
        tp_datapoint dp = TP_EMPTY;
        tp_fail(TP_ERR_ARG, "an older sentence");
        const tp_status st = tp_df_next(df, &dp);
        if (i == 0) CHECK_OK(st), CHECK(tp_tensor_get(&dp.c[0], 0) == 1);
        else CHECK(st < TP_OK), CHECK_HAS(tp_last_error(), sentence[i]);
        tp_datapoint_free(&dp);
        tp_df_free(df);
    }
}

static tp_status evaluates_nothing(tp_callback *cb)
{
    tp_tensor t = TP_EMPTY;
    return tp_session_eval(cb->train->session, tp_graph_find(cb->train->graph, "cots"), &t);
}
static tp_status reads_the_cost(tp_callback *cb)
{
    tp_stat s;
    return tp_monitors_get_latest(cb->train->monitors, "cost", &s);
}
/* What a callback that asks for the wrong thing is told. */
TEST(callbacks_that_ask_for_the_wrong_thing)
{
    for (int i = 0; i < 5; i++) {
        TEST_MAY_ERROR("");
        tp_callback *cb = i == 0   ? tp_cb_lambda(.trigger = evaluates_nothing)
                          : i == 1 ? tp_cb_lambda(.setup_graph = evaluates_nothing)
                          : i == 2 ? tp_cb_lambda(.trigger = reads_the_cost)
                          : i == 3 ? tp_cb_early_stopping("cost")
                                   : tp_cb_inference_runner(tp_df_batch(line_data(), 2),
                                                            .inferencers = {tp_inf_classification_error()});
        const tp_status st = tp_launch_train_with_config(
            TP_OPTIONS(
                tp_train_config,
                .model = {.inputs = line_inputs, .n_inputs = 2, .build_graph = line_graph, .optimizer = line_optimizer},
                .dataflow = tp_df_batch(line_data(), 2), .max_epoch = 3, TP_CALLBACKS(cb)),
            tp_simple_trainer());
        static const char *const sentence[] = {
            "tp_session_eval: the fetch is NULL; was 'cots' meant? There is no node of that name; did you mean 'cost'?",
            "tp_session_eval: the session is NULL (in a callback train->session is there from before_train on)",
            "The graph has a node of this name: tp_add_moving_summary in build_graph reports it",
            "The graph has a node of this name: tp_add_moving_summary in build_graph reports it",
            "incorrect_vector not found in the graph! tp_sym_prediction_incorrect makes it"};
        CHECK(st != TP_OK);
        CHECK_HAS(tp_last_error(), sentence[i]);
    }
    TEST_MAY_ERROR("the trainer is NULL: give one, such as tp_simple_trainer()");
    CHECK(tp_launch_train_with_config(
              TP_OPTIONS(tp_train_config, .model = LINE_MODEL, .dataflow = tp_df_batch(line_data(), 2)), NULL) !=
          TP_OK);
    CHECK_HAS(tp_last_error(), "the trainer is NULL: give one, such as tp_simple_trainer()");
}

/* Numbers, lists and rows that were not filled in. */
static tp_status like_input(tp_infer *s)
{
    s->out[0] = s->in[0];
    return TP_OK;
}
static void copies(const tp_call *k)
{
    memcpy(k->out[0].data, k->in[0].data, sizeof(float) * (size_t)tp_shape_size(&k->in[0].shape));
}
TEST(what_was_not_filled_in)
{
    static const tp_op row = {.name = "same",
                              .label = "Same",
                              .flags = TP_OP_ELEMENTWISE,
                              .min_in = 1,
                              .max_in = 1,
                              .n_out = 1,
                              .infer = like_input,
                              .naive_f32 = copies};
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_get_variable_as(g, "weights", TP_F32, tp_make_shape(2), tp_init_ones());
    tp_node *y = tp_apply(g, &row, &x, 1, NULL), *dx = NULL;
    tp_session *s = tp_session_new(g, TP_OPTIONS(tp_session_config, .threads = -3));
    CHECK(!s);
    CHECK_HAS(tp_last_error(), "-3 threads for a CPU device: give at least 1, or 0 for one per processor");
    s = tp_session_new(g, NULL);
    CHECK_ERR(tp_session_run(s, NULL, 0, &y, 1, NULL), TP_ERR_DTYPE,
              "an element-wise row needs a block function for it");
    x = tp_graph_find(g, "weight");
    CHECK(tp_is_poison(tp_gradients(tp_mean(y), &x, 1, &dx)));
    CHECK_HAS(tp_graph_error(g), "tp_gradients: xs[0] is NULL; was 'weight' meant?");
    tp_session_free(s);
    tp_graph_free(g);
    const tp_tensor nothing = TP_EMPTY;
    tp_dataflow *df = tp_df_from_arrays(&nothing, 1);
    CHECK(tp_df_status(df) == TP_ERR_ARG);
    CHECK_HAS(tp_last_error(), "array 0 is a tensor of zeros, with neither type nor shape");
    tp_df_free(df);
}

static tp_status returns_one(tp_callback *cb) { return (void)cb, (tp_status) true; }
/* Options whose parts do not fit each other; a hook that returns true. */
TEST(options_without_their_other_half)
{
    for (int i = 0; i < 5; i++) {
        TEST_MAY_ERROR("");
        tp_callback *cb[1] = {i == 1 || i == 4 ? tp_cb_lambda(.trigger = returns_one, .name = "Mine") : NULL};
        tp_session_config session = TP_EMPTY;
        if (i == 2) session.n_devices = 2;
        if (i == 3) session.precision = (tp_precision)9;
        tp_train_config c = {.model = LINE_MODEL, .dataflow = tp_df_batch(line_data(), 2), .max_epoch = 2};
        c.session_config = &session;
        if (i == 0) c.n_callbacks = 3;
        if (i == 1 || i == 4) c.callbacks = cb, c.n_callbacks = i == 4;
        tp_test_keep_log();
        const tp_status st = tp_launch_train_with_config(&c, tp_simple_trainer());
        tp_set_log(NULL, NULL);
        static const char *const sentence[] = {".n_callbacks is 3, but .callbacks is NULL: TP_CALLBACKS",
                                               ".callbacks is a list, but .n_callbacks is 0, so nothing of it is used",
                                               "a session's n_devices is 2, but its devices are NULL: n_cpu_devices",
                                               "a session's precision is 9: it must be one of the TP_PRECISION_ values",
                                               "Training was stopped: Mine returned TP_STOP."};
        CHECK((st == TP_OK) == (i == 1 || i == 4));
        CHECK_HAS(i == 2 || i == 3 || i == 0 ? tp_last_error() : tp_test_logged, sentence[i]);
        if (i == 1) tp_callback_free(cb[0]);
    }
}

static int means_of_gradients(const tp_gradproc *p, tp_graph *g, tp_grad_var *gvs, int n)
{
    (void)p, (void)g;
    gvs[0].grad = tp_mean(gvs[0].grad);
    return n;
}
/* Data that are not there, summaries of nothing, a gradient that is unlike its variable. */
TEST(data_at_null_and_gradients_of_another_shape)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 3));
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(3, 2), tp_init_ones());
    tp_node *cost = tp_mean(tp_matmul(x, w));
    keep_the_log();
    tp_add_tensor_summary(cost, 0);
    tp_set_log(NULL, NULL);
    CHECK_HAS(logged, "tp_add_tensor_summary of 'Mean' has no types, so it adds nothing");
    tp_session *s = tp_session_new(g, NULL);
    tp_feed f = TP_FEED(x, TP_F32, NULL, 2, 3);
    CHECK_ERR(tp_session_run(s, &f, 1, &cost, 1, NULL), TP_ERR_ARG, "'x' is fed data at NULL");
    f = TP_FEED(x, TP_F32, NULL, 0, 3); /* no rows need no memory */
    CHECK_OK(tp_session_run(s, &f, 1, &cost, 1, NULL));
    const tp_gradproc mine = {.name = "Mine", .process = means_of_gradients};
    tp_minimize(tp_apply_grad_processors(tp_sgd(tp_const(g, 0.1f)), &mine, 1), cost, NULL);
    CHECK_HAS(tp_graph_error(g), "Mine makes a gradient of float32 () for variable 'w', which is float32 (3,2)");
    tp_session_free(s);
    tp_graph_free(g);
}

/* Several devices are fed by a flow that can be read only once: what is read ahead must not be asked for a second time. */
TEST(a_queue_feeds_two_devices)
{
    tp_queue *q = tp_queue_new(8);
    float x[2] = {1, 2}, y[2] = {3, 6};
    tp_datapoint dp = TP_EMPTY;
    if (!CHECK(q != NULL) || !CHECK_OK(tp_datapoint_resize(&dp, 2))) return;
    tp_tensor_view(&dp.c[0], TP_F32, tp_make_shape(2, 1), x);
    tp_tensor_view(&dp.c[1], TP_F32, tp_make_shape(2, 1), y);
    for (int i = 0; i < 8; i++) CHECK_OK(tp_queue_put(q, &dp));
    tp_queue_close(q);
    CHECK_OK(
        tp_launch_train_with_config(TP_OPTIONS(tp_train_config, .model = LINE_MODEL, .dataflow = tp_df_from_queue(q),
                                               .steps_per_epoch = 2, .max_epoch = 1),
                                    tp_sync_multi_gpu_trainer_replicated(.n_devices = 2)));
    tp_datapoint_free(&dp);
    tp_queue_free(q);
}

TEST(running_averages_that_run_away)
{
    for (int i = 0; i < 4; i++) {
        tp_graph *g = tp_graph_new(NULL);
        const tp_tower_desc tower = {.is_training = true};
        tp_tower_enter(g, &tower);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 3));
        if (i == 0) tp_batch_norm(x, "bn", .momentum = 1.5f);
        if (i == 1) tp_batch_norm(x, "bn", .epsilon = -1e-3f);
        if (i == 2) tp_batch_renorm(x, "bn", .rmax = 2, .dmax = 1, .momentum = -0.5f);
        if (i == 3) tp_batch_norm(x, "bn", .momentum = 1, .epsilon = 0);
        static const char *const sentence[] = {
            "bn: BatchNorm has .momentum 1.5 and .epsilon 0: momentum must be from 0 to 1",
            "bn: BatchNorm has .momentum 0 and .epsilon -0.001", "bn: BatchRenorm has .momentum -0.5", ""};
        CHECK((tp_graph_status(g) == TP_OK) == (i == 3));
        CHECK_HAS(tp_graph_error(g), sentence[i]);
        tp_graph_free(g);
    }
}

#if !defined(_WIN32) && !defined(TP_NO_FILES)
/* Another process that logs in the same folder. */
TEST(two_trainings_in_one_folder)
{
    char dir[600], x = 0;
    int ready[2];
    snprintf(dir, sizeof dir, "%s/both", tp_test_tmpdir());
    if (!CHECK(pipe(ready) == 0)) return;
    const pid_t child = fork();
    if (child == 0) {
        if (tp_logger_set_dir(dir, 'd') != TP_OK || write(ready[1], "x", 1) != 1) _exit(1);
        for (;;) pause();
    }
    close(ready[1]);
    CHECK(child > 0 && read(ready[0], &x, 1) == 1);
    close(ready[0]);
    TEST_EXPECT_ERROR("another process, or another copy of this library in this one, writes its log there");
    CHECK_ERR(tp_logger_set_dir(dir, 'd'), TP_ERR_STATE,
              "is not deleted: another process, or another copy of this library in this one, writes its log there");
    for (int dead = 0; dead < 2; dead++) {
        keep_the_log();
        errno = EWOULDBLOCK; /* of an earlier call */
        CHECK_OK(tp_logger_set_dir(dir, 'k'));
        CHECK(dead == !strstr(logged, "Two trainings in one folder replace each other's checkpoints"));
        keep_the_log();
        CHECK_OK(tp_logger_set_dir(dir, 'k')); /* its own folder again */
        CHECK_STR(logged, "");
        tp_set_log(NULL, NULL);
        CHECK_OK(tp_logger_set_dir(NULL, 0));
        if (!dead) CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    }
    CHECK_OK(tp_logger_set_dir(dir, 'd'));
    CHECK_OK(tp_logger_set_dir(NULL, 0));
}

/* What one of several ranks meets that set the same folder at the same moment: 'o' nothing, 'w' the warning, 'r' the refusal of a folder
 * that is to be deleted, '?' something else. */
static char one_rank_of(const char *dir, char action)
{
    keep_the_log();
    const tp_status st = tp_logger_set_dir(dir, action);
    const bool hint = strstr(logged, "Each rank needs its own folder: tp_logger_set_rank_dir") != NULL;
    if (st == TP_OK && !logged[0]) return 'o';
    if (st == TP_OK && hint &&
        strstr(logged, "another process, or another copy of this library in this one, writes its log in"))
        return 'w';
    if (st == TP_ERR_STATE && hint && strstr(tp_last_error(), "is not deleted: another process, or another copy"))
        return 'r';
    fprintf(stderr, "%s", logged);
    return '?';
}
TEST(ranks_in_one_folder)
{
    enum { RANKS = 4, ROUNDS = 6 };
    char dir[600];
    snprintf(dir, sizeof dir, "%s/ranks", tp_test_tmpdir());
    TEST_EXPECT_ERROR("another process, or another copy of this library in this one, writes its log there");
    CHECK(setenv("OMPI_COMM_WORLD_SIZE", "4", 1) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        const char action = i % 2 ? 'd' : 'k';
        int go[2], said[2], end[2], n_alone = 0, n_told = 0;
        char x;
        if (!CHECK(pipe(go) == 0 && pipe(said) == 0 && pipe(end) == 0)) return;
        for (int k = 0; k < RANKS; k++) {
            if (fork() != 0) continue;
            close(go[1]), close(end[1]);
            x = (char)read(go[0], &x, 1); /* until all are there */
            x = one_rank_of(dir, action);
            x = (char)(write(said[1], &x, 1) == 1 && read(end[0], &x, 1) == 0);
            _exit(0);
        }
        close(go[1]);
        for (int k = 0; k < RANKS && CHECK(read(said[0], &x, 1) == 1); k++) {
            n_alone += x == 'o';
            n_told += x == (action == 'd' ? 'r' : 'w');
        }
        CHECK(n_alone == 1);
        CHECK(n_told == RANKS - 1);
        close(end[1]);
        while (wait(NULL) > 0) {}
        close(go[0]), close(said[0]), close(said[1]), close(end[0]);
    }
    unsetenv("OMPI_COMM_WORLD_SIZE");
}
#endif

TEST(a_folder_that_is_null)
{
    TEST_EXPECT_ERROR("log directory: the path is NULL");
    CHECK_ERR(tp_logger_set_dir(NULL, 'd'), TP_ERR_ARG, "log directory: the path is NULL");
    CHECK_OK(tp_logger_set_dir(NULL, 0));
}

static int line_width;
static int bars;
static tp_node *other_line(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    tp_node *w = tp_get_variable_as(g, "other", TP_F32, tp_make_shape(1, 1), tp_init_zeros());
    return tp_named(tp_mean(tp_squared_difference(tp_matmul(in[0], w), in[1])), "cost");
}
static tp_optimizer *ends_at_two(tp_graph *g, void *user)
{
    return (void)user, tp_sgd(tp_named(tp_cosine_decay(g, 0.1f, NULL, 2, 0), "learning_rate"));
}
static tp_node *wide_line(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(1, line_width), tp_init_zeros());
    tp_node *b = tp_get_variable_as(g, "b", TP_F32, tp_make_shape(1), tp_init_zeros());
    return tp_named(tp_mean(tp_squared_difference(tp_add(tp_matmul(in[0], w), b), in[1])), "cost");
}
TEST(a_resume_after_a_layer_was_changed)
{
    char dir[600];
    snprintf(dir, sizeof dir, "%s/changed", tp_test_tmpdir());
    for (line_width = 1; line_width <= 2; line_width++) {
        tp_train_config c = line_config(line_width);
        tp_callback *cb = tp_cb_model_saver();
        CHECK_OK(tp_logger_set_dir(dir, 'k'));
        c.model.build_graph = wide_line;
        c.callbacks = &cb, c.n_callbacks = 1;
        c.auto_resume = TP_YES;
        if (line_width == 2) TEST_MAY_ERROR("");
        const tp_status st = tp_launch_train_with_config(&c, tp_simple_trainer());
        if (line_width == 1) CHECK_OK(st);
        else
            CHECK_ERR(
                st, TP_ERR_SHAPE,
                "Was the model changed? Train it in another folder (tp_logger_set_dir), or remove the checkpoints "
                "there");
        tp_logger_set_dir(NULL, 0);
    }
}

static tp_status drop_some(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    (void)in, (void)out;
    call->drop = call->index % 2;
    return TP_OK;
}
TEST(a_map_that_drops_what_it_keeps)
{
    tp_datapoint dp = TP_EMPTY;
    for (int way = 0; way < 5; way++) { /* the warning is logged once for each kind of flow */
        const tp_tri keeps = way == 0 ? TP_NO : TP_YES;
        tp_dataflow *df = line_data();
        df = way < 2 ? tp_df_map(df, drop_some, .keeps_all = keeps)
                     : tp_df_parallel_map(df, drop_some, .num_thread = way - 1, .keeps_all = keeps);
        int n = 0;
        keep_the_log();
        while (tp_df_next(df, &dp) == TP_OK) n++;
        tp_set_log(NULL, NULL);
        CHECK(n == 2);
        CHECK((strstr(logged, "drops datapoints, but .keeps_all is TP_YES") != NULL) == (way == 1 || way == 2));
        tp_df_free(df);
    }
    tp_datapoint_free(&dp);
}

static char plan_of_step[4096];
static tp_status print_the_plan(tp_callback *cb)
{
    tp_buf text = TP_EMPTY;
    const tp_status st =
        tp_exec_print_plan(tp_hooked_session_exec(cb->train->trainer->state.hooked_session), NULL, 0, &text);
    snprintf(plan_of_step, sizeof plan_of_step, "%s", st == TP_OK ? text.data : tp_last_error());
    tp_buf_free(&text);
    return st;
}
TEST(the_plan_of_a_training_step)
{
    tp_train_config c = line_config(1);
    tp_callback *cb = tp_callback_new("PlanPrinter", 0);
    cb->trigger_step = print_the_plan;
    c.callbacks = &cb, c.n_callbacks = 1;
    CHECK_OK(tp_launch_train_with_config(&c, tp_simple_trainer()));
    CHECK_HAS(plan_of_step, "matmul");
    CHECK_HAS(plan_of_step, "assign");
    CHECK_HAS(plan_of_step, "kernels, ");
}

TEST(a_profiler_that_writes_nothing)
{
    CHECK_OK(tp_logger_set_dir(tp_test_tmpdir(), 'k'));
    for (int on = 0; on < 2; on++) {
        keep_the_log();
        tp_callback *cb = tp_cb_graph_profiler(.dump_tracing = TP_NO, .dump_event = on ? TP_YES : TP_NO);
        CHECK((strstr(logged, "GraphProfiler writes nothing") != NULL) == !on);
        tp_set_log(NULL, NULL);
        tp_callback_free(cb);
    }
    tp_logger_set_dir(NULL, 0);
}

/* Weights of another model are refused, for a training and for a session, or taken with a warning where what does not fit is skipped. A
 * schedule that has ended is told. */
#define NOTHING_FITS "has none of the model's weights, or none that fits: they all keep their values"
TEST(weights_that_are_not_this_models)
{
    char dir[600], path[700];
    snprintf(dir, sizeof dir, "%s/first", tp_test_tmpdir());
    CHECK_OK(tp_logger_set_dir(dir, 'k'));
    tp_train_config c = line_config(2);
    tp_callback *cb = tp_cb_model_saver();
    c.callbacks = &cb, c.n_callbacks = 1;
    CHECK_OK(tp_launch_train_with_config(&c, tp_simple_trainer()));
    CHECK_OK(tp_logger_set_dir(NULL, 0));
    snprintf(path, sizeof path, "%s/model-2.npz", dir);
    for (int smart = 0; smart < 2; smart++) {
        TEST_MAY_ERROR("is of another model");
        c = line_config(1);
        line_width = 1;
        c.model.build_graph = other_line;
        c.session_init = smart ? tp_smart_init(path, false) : tp_saver_restore(path);
        CHECK_ERR(tp_launch_train_with_config(&c, tp_simple_trainer()), TP_ERR_NAME,
                  "model-2.npz is of another model, it has none of this one's weights");
    }
    c = line_config(1);
    c.model.build_graph = other_line;
    c.session_init = tp_saver_restore_ex(&(tp_saver_restore_desc){path, .relaxed = true});
    keep_the_log();
    CHECK_OK(tp_launch_train_with_config(&c, tp_simple_trainer()));
    CHECK_HAS(logged, NOTHING_FITS);
    tp_set_log(NULL, NULL);
    for (int fits = 0; fits < 2; fits++) { /* the same names: one of another number of elements, one of the same */
        tp_graph *g = tp_graph_new(NULL);
        tp_get_variable_as(g, "w", TP_F32, tp_make_shape(fits ? 3 : 4), tp_init_ones());
        tp_dict d = TP_EMPTY;
        tp_tensor *value = tp_dict_add(&d, "w");
        CHECK_OK(tp_tensor_resize(value, TP_F32, tp_make_shape(3)));
        memset(value->data, 0, tp_tensor_bytes(value));
        tp_session *s = tp_session_new(g, NULL);
        tp_session_init *init = tp_dict_restore(&d, true);
        keep_the_log();
        CHECK_OK(tp_session_init_run(init, s));
        CHECK((strstr(logged, NOTHING_FITS) != NULL) == !fits);
        tp_set_log(NULL, NULL);
        tp_session_init_free(init);
        tp_session_free(s);
        tp_graph_free(g);
    }
    for (int anew = 0; anew < 2; anew++) {
        static const char *const step[] = {"global_step"};
        c = line_config(1);
        c.model.optimizer = ends_at_two;
        c.session_init = tp_saver_restore_ex(&(tp_saver_restore_desc){path, .ignore = step, .n_ignore = anew});
        keep_the_log();
        CHECK_OK(tp_launch_train_with_config(&c, tp_simple_trainer()));
        CHECK((strstr(logged, "is 0 at global_step 2: has its schedule ended?") != NULL) == !anew);
        tp_set_log(NULL, NULL);
    }
}

/* What auto_resume cannot do, because nothing was kept or nothing will be. */
TEST(a_resume_of_nothing)
{
    char dir[600];
    snprintf(dir, sizeof dir, "%s/deleted", tp_test_tmpdir());
    for (int run = 0; run < 3; run++) {
        CHECK_OK(tp_logger_set_dir(dir, run < 2 ? 'd' : 'k'));
        tp_train_config c = line_config(1);
        tp_callback *cb = run < 2 ? tp_cb_model_saver() : NULL;
        if (cb) c.callbacks = &cb, c.n_callbacks = 1;
        c.auto_resume = TP_YES;
        keep_the_log();
        CHECK_OK(tp_launch_train_with_config(&c, tp_simple_trainer()));
        CHECK((strstr(logged, "'d') has deleted the earlier run") != NULL) == (run == 1));
        CHECK((strstr(logged, "no ModelSaver is among the callbacks") != NULL) == (run == 2));
        tp_set_log(NULL, NULL);
        tp_logger_set_dir(NULL, 0);
    }
}

TEST(accuracy_is_better_when_it_is_larger)
{
    CHECK_OK(tp_logger_set_dir(tp_test_tmpdir(), 'k'));
    for (int i = 0; i < 6; i++) {
        keep_the_log();
        tp_callback *cb = i == 0   ? tp_cb_min_saver("validation_accuracy")
                          : i == 1 ? tp_cb_early_stopping("validation_accuracy")
                          : i == 2 ? tp_cb_early_stopping("validation_accuracy", .reverse = true)
                          : i == 3 ? tp_cb_max_saver("validation_accuracy")
                          : i == 4 ? tp_cb_min_saver("validation_error")
                                   : tp_cb_min_saver("validation_accuracy", .reverse = true);
        CHECK((strstr(logged, "takes a smaller 'validation_accuracy' for a better one") != NULL) == (i < 2));
        tp_set_log(NULL, NULL);
        tp_callback_free(cb);
    }
    tp_logger_set_dir(NULL, 0);
}

/* A batch of grey images looks like an image of many channels. */
TEST(augmenting_after_batching)
{
    tp_datapoint dp = TP_EMPTY;
    tp_dataflow *df =
        tp_df_augment_image(tp_df_batch(tp_df_digits("train", .size = 8), 4), tp_aug_flip(.horiz = TP_YES));
    keep_the_log();
    CHECK_OK(tp_df_next(df, &dp));
    CHECK_HAS(logged, "images have shape (4,28,28): are 28 channels meant?");
    tp_set_log(NULL, NULL);
    tp_df_free(df);
    for (int64_t c = 1; c < 7; c++) { /* up to four are usual */
        const tp_spec spec = {NULL, TP_U8, {3, {3, 2, c}}};
        df = tp_df_augment_image(tp_df_fake(&spec, 1, .size = 1), tp_aug_flip(.horiz = TP_YES));
        keep_the_log();
        CHECK_OK(tp_df_next(df, &dp));
        CHECK((strstr(logged, "channels meant?") != NULL) == (c > 4));
        tp_set_log(NULL, NULL);
        tp_df_free(df);
    }
    df = tp_df_augment_image(tp_df_batch(tp_df_batch(tp_df_digits("train", .size = 8), 2), 2),
                             tp_aug_flip(.horiz = TP_YES));
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_SHAPE, "this one has (2,2,28,28): tp_df_batch comes after the augmentation");
    tp_df_free(df);
    tp_datapoint_free(&dp);
}

/* A progress bar among the program's callbacks replaces the default one. */
static void count_bars_among(tp_callback *const *cb, int n)
{
    for (int i = 0; i < n; i++) {
        bars += strcmp(cb[i]->name, "ProgressBar") == 0;
        count_bars_among(cb[i]->inner, cb[i]->n_inner);
    }
}
static tp_status count_bars(tp_callback *cb)
{
    count_bars_among(cb->train->callbacks, cb->train->n_callbacks);
    return TP_OK;
}
static bool in_odd_epochs(tp_callback *wrapper, void *user)
{
    (void)user;
    return wrapper->train->epoch_num % 2 == 1;
}
static tp_callback *wrapped_bar(int way)
{
    tp_callback *bar = way ? tp_cb_progress_bar(.names = {"cost"}) : NULL, *pair[2];
    if (way == 2) return tp_cb_enable_if(bar, .pred = in_odd_epochs);
    if (way == 3) return tp_cb_periodic_trigger(tp_cb_proxy(bar), .every_k_epochs = 1);
    if (way < 4) return bar;
    pair[0] = tp_callback_new("Beside", 0), pair[1] = bar;
    return tp_cb_group(pair, 2);
}
TEST(a_progress_bar_of_ones_own)
{
    for (int own = 0; own < 5; own++) { /* none, one, and three in wrappers */
        tp_train_config c = line_config(1);
        tp_callback *cb[] = {tp_callback_new("Counter", 0), wrapped_bar(own)};
        cb[0]->before_train = count_bars;
        c.callbacks = cb, c.n_callbacks = 1 + (own > 0);
        bars = 0;
        CHECK_OK(tp_launch_train_with_config(&c, tp_simple_trainer()));
        CHECK_MSG(bars == 1, "%d bars", bars);
    }
}

/* A second run of an exec while one is in progress: as two threads with one predictor would make it. */
static tp_exec *exec_in_use;
static tp_node *other_fetch;
static char second_run[400];
static void run_meanwhile(const tp_call *c)
{
    const tp_tensor *out = NULL;
    CHECK_ERR(tp_exec_run(exec_in_use, NULL, 0, &other_fetch, 1, &out), TP_ERR_STATE, "two runs at a time of one exec");
    snprintf(second_run, sizeof second_run, "%s", tp_last_error());
    memcpy(c->out[0].data, c->in[0].data, sizeof(float));
}
TEST(one_exec_for_two_runs)
{
    static const tp_op row = {.name = "meanwhile",
                              .label = "Meanwhile",
                              .min_in = 1,
                              .max_in = 1,
                              .n_out = 1,
                              .infer = like_input,
                              .naive_f32 = run_meanwhile};
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_get_variable_as(g, "x", TP_F32, tp_make_shape(1), tp_init_ones()),
            *y = tp_apply(g, &row, &x, 1, NULL);
    other_fetch = tp_mul(x, tp_const(g, 3));
    tp_session *s = tp_session_new(g, NULL);
    exec_in_use = tp_session_exec(s);
    const tp_tensor *out = NULL;
    for (int i = 0; i < 2; i++) {
        second_run[0] = 0;
        CHECK_OK(tp_exec_run(exec_in_use, NULL, 0, &y, 1, &out));
        CHECK_HAS(second_run, "give each thread its own (tp_multi_tower_predictor, tp_exec_new)");
        CHECK_OK(tp_exec_run(exec_in_use, NULL, 0, &other_fetch, 1, &out)); /* after it, it is free again */
        CHECK(tp_tensor_get(out, 0) == 3);
    }
    tp_session_free(s);
    tp_graph_free(g);
}

/* ---- scopes, runs and statuses that are not what they should be ---- */

static int mistake;
static tp_node *mistaken_tower(tp_graph *g, tp_node *const *in, void *user)
{
    tp_node *cost = line_graph(g, in, user), *none = NULL;
    if (mistake == 0) tp_tower_leave(g);
    if (mistake == 1) tp_device_enter(g, 1);
    if (mistake == 2) CHECK_OK(tp_eval_now(tp_const(g, 2), NULL, 0, NULL)); /* no mistake */
    if (mistake == 3) tp_add_moving_summary_n(&none, 1, NULL);
    return cost;
}
static tp_status runs_in_a_run(tp_callback *cb, tp_run_request *r)
{
    tp_node *cost = cb->train->cost;
    (void)r;
    return mistake == 4   ? tp_hooked_run(cb->train->hooked_session, &cost, 1, NULL)
           : mistake == 5 ? tp_trainer_run_step(cb->train->trainer)
           : mistake == 6 ? (tp_status)77
                          : TP_OK;
}
TEST(mistakes_in_a_build_function_or_a_callback)
{
    static const char *const said[] = {
        "build_graph has left the tower that it is called in: remove its tp_tower_leave",
        "tower '' ends on a device that it has entered: tp_device_leave is missing",
        "",
        "tp_add_moving_summary: node 0 is NULL: nothing is reported of it",
        "Mistaken: tp_hooked_run: a hook of this run (before_run or after_run of a callback) starts another one",
        "Mistaken: SimpleTrainer: a step starts another one: ",
        "Mistaken: a function of the program returned 77, which is no tp_status"};
    TEST_MAY_ERROR("");
    for (mistake = 0; mistake < TP_COUNT(said); mistake++) {
        tp_callback *cb = tp_callback_new("Mistaken", 0);
        cb->before_run = runs_in_a_run;
        tp_train_config c = {TP_CALLBACKS(cb), .max_epoch = 1, .steps_per_epoch = 1};
        c.model = (tp_model)LINE_MODEL;
        c.model.build_graph = mistaken_tower;
        c.dataflow = tp_df_batch(line_data(), 4);
        c.n_extra_callbacks = c.n_monitors = TP_NONE;
        keep_the_log();
        const tp_status st = tp_launch_train_with_config(&c, tp_simple_trainer());
        if (mistake == 2 || mistake == 3) CHECK_OK(st);
        else CHECK_MSG(st < 0 && strstr(tp_last_error(), said[mistake]), "%s", tp_last_error());
        if (mistake == 2) CHECK(!strstr(logged, "still open"));
        if (mistake == 3) CHECK_HAS(logged, said[mistake]);
    }
    tp_set_log(NULL, NULL);
}

/* Losses refuse shapes that would broadcast: each prediction has one truth, each row of logits one row. */
TEST(losses_compare_one_with_one)
{
    static const char *const want[] = {
        "psnr: the predictions are (?,4,4,1) and the truth (?,4,4): each would be compared with each",
        "softmax_cross_entropy: the logits are (?,1,5) and the labels (?,5): each row needs a row of its own",
        "softmax_cross_entropy: the logits are (2,3) and the labels (1,3): each row needs a row of its own",
        "softmax_cross_entropy: the logits are (2,3) and the labels (3): each row needs a row of its own",
        ("kl_divergence: p_logits are (?,1,5) and q_logits (?,5): each row needs a row of its own; give both the same "
         "shape, tp_broadcast_like repeats one"),
        "kl_divergence: p_logits are (?,1) and q_logits (?,5): each row needs a row of its own",
        "psnr: the predictions are uint8, floating values are needed: tp_cast first",
        "mse: the truth is int32, floating values are needed: tp_cast first",
        "huber_loss: x is int32, floating values are needed: tp_cast first",
    };
    for (int i = 0; i <= TP_COUNT(want); i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *image = tp_placeholder(g, "image", TP_F32, tp_make_shape(TP_ANY, 4, 4, 1)),
                *plane = tp_placeholder(g, "plane", TP_F32, tp_make_shape(TP_ANY, 4, 4)),
                *word = tp_placeholder(g, "word", TP_F32, tp_make_shape(TP_ANY, 1, 5)),
                *rows = tp_placeholder(g, "rows", TP_F32, tp_make_shape(TP_ANY, 5)),
                *column = tp_placeholder(g, "column", TP_F32, tp_make_shape(TP_ANY, 1)),
                *two = tp_placeholder(g, "two", TP_F32, tp_make_shape(2, 3)),
                *one = tp_placeholder(g, "one", TP_F32, tp_make_shape(1, 3)),
                *three = tp_placeholder(g, "three", TP_F32, tp_make_shape(3));
        if (i == 0) tp_sym_psnr(image, plane, 0, NULL);
        if (i == 1) tp_softmax_cross_entropy(word, rows);
        if (i == 2) tp_softmax_cross_entropy(two, one);
        if (i == 3) tp_softmax_cross_entropy(two, three);
        if (i == 4) tp_sym_kl_divergence(word, rows, NULL);
        if (i == 5) tp_sym_kl_divergence(column, rows, NULL);
        if (i == 6) tp_sym_psnr(tp_cast(image, TP_U8), tp_cast(image, TP_U8), 255, NULL);
        if (i == 7) tp_sym_mse(three, tp_cast(three, TP_I32), NULL);
        if (i == 8) tp_sym_huber_loss(tp_cast(three, TP_I32), 1, NULL);
        if (i < TP_COUNT(want)) CHECK_HAS(tp_graph_error(g), want[i]);
        else { /* these fit */
            tp_sym_psnr(tp_squeeze(image, 3), plane, 0, NULL), tp_sym_psnr(image, tp_const(g, 1), 0, NULL);
            tp_softmax_cross_entropy(two, tp_broadcast_like(one, two)), tp_sym_kl_divergence(rows, rows, NULL);
            tp_softmax_cross_entropy(word, word), tp_softmax_cross_entropy(three, three);
            CHECK_STR(tp_graph_error(g), "");
        }
        tp_graph_free(g);
    }
}

/* A label that is no class makes no distribution. */
TEST(smooth_labels_outside_of_the_classes)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *label = tp_placeholder(g, "label", TP_I32, tp_make_shape(TP_ANY));
    tp_node *y = tp_sym_smooth_labels(label, 3, 0.3f, NULL);
    tp_session *s = tp_session_new(g, NULL);
    for (int i = 0; i < 3; i++) {
        const int32_t labels[2] = {2, i == 0 ? 0 : i == 1 ? 3 : -1};
        tp_feed f = TP_FEED(label, TP_I32, labels, 2);
        const tp_tensor *v;
        if (i == 0 && CHECK_OK(tp_session_run(s, &f, 1, &y, 1, &v))) {
            CHECK_NEAR(tp_tensor_get(v, 2), 0.8, 1e-6, 0);
            CHECK_NEAR(tp_tensor_get(v, 3), 0.8, 1e-6, 0);
            CHECK_NEAR(tp_tensor_get(v, 5), 0.1, 1e-6, 0);
        }
        if (i > 0)
            CHECK_ERR(tp_session_run(s, &f, 1, &y, 1, &v), TP_ERR_NUMERIC,
                      i == 1 ? "index 3 is outside the rows" : "index -1 is outside the rows");
        if (i > 0) CHECK_HAS(tp_last_error(), "class_of_label");
    }
    tp_session_free(s);
    tp_graph_free(g);
}

/* Losses name the logits and the labels, not the ops that they are made of. */
TEST(losses_whose_arguments_do_not_fit)
{
    static const char *const want[] = {
        "softmax_cross_entropy: the logits (?,9) are of 9 classes, the labels (?,10) of 10",
        "sigmoid_cross_entropy: the logits are float32, the labels int32: tp_cast the labels",
        "kl_divergence: q_logits are int32, but have to be logits of the classes"};
    for (int i = 0; i < TP_COUNT(want); i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 9));
        tp_node *y = tp_placeholder(g, "y", i ? TP_I32 : TP_F32, tp_make_shape(TP_ANY, i ? 9 : 10));
        if (i == 0) tp_softmax_cross_entropy(x, y);
        if (i == 1) tp_sigmoid_cross_entropy(x, y);
        if (i == 2) tp_sym_kl_divergence(x, y, NULL);
        CHECK_HAS(tp_graph_error(g), want[i]);
        tp_graph_free(g);
    }
}

static tp_status half_a_point(void *user, int64_t pass, int64_t i, tp_datapoint *dp)
{
    (void)user, (void)pass, (void)i;
    const tp_status st = tp_datapoint_resize(dp, 2);
    return st == TP_OK ? tp_tensor_resize(&dp->c[0], TP_F32, tp_make_shape(3)) : st;
}
TEST(options_out_of_range_and_half_filled_datapoints)
{
    tp_vocabulary v = {0};
    CHECK_ERR(tp_vocabulary_words(&v, "x.txt", -1, 0), TP_ERR_ARG, "min_count is -1 and max_words 0");
    tp_dataflow *df = tp_df_batch(tp_df_from_generator(half_a_point, .size = 8), 4);
    tp_datapoint dp = {0};
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_ARG, "component 1 of 2 has no type yet: tp_tensor_resize gives it");
    tp_datapoint_free(&dp);
    tp_df_free(df);
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(2, 3)), *y = tp_relu(x);
    tp_session *s = tp_session_new(g, NULL);
    tp_buf out = {0};
    CHECK_ERR(tp_export_c_text(s, &x, 1, &y, 1, &out, TP_OPTIONS(tp_export_c_desc, .name = "int"), NULL), TP_ERR_NAME,
              "'int' cannot be a function's name");
    CHECK_ERR(tp_export_c_text(s, &x, 1, &y, 1, &out, TP_OPTIONS(tp_export_c_desc, .batch = -2), NULL), TP_ERR_ARG,
              ".batch is -2: it is 1 or more");
    CHECK_ERR(tp_export_c_text(s, &x, 1, &y, 1, &out, TP_OPTIONS(tp_export_c_desc, .name = " auto"), NULL), TP_ERR_NAME,
              "' auto' cannot be a function's name");
    static const char *const had[] = {"memset", "expf", "exp",  "expl", "strdup",
                                      "fmaxf",  "j0",   "main", "auto", "using"};
    for (int i = 0; i < TP_COUNT(had); i++)
        CHECK_ERR(tp_export_c_text(s, &x, 1, &y, 1, &out, TP_OPTIONS(tp_export_c_desc, .name = had[i]), NULL),
                  TP_ERR_NAME,
                  i < 7 ? "cannot be a function's name: <math.h> or <string.h>, which the file includes, has it"
                        : "cannot be a function's name");
    static const char *const free_names[] = {"memory", "f", "l", "expm", "model", "fabsfl"};
    for (int i = 0; i < TP_COUNT(free_names); i++)
        CHECK_OK(tp_export_c_text(s, &x, 1, &y, 1, &out, TP_OPTIONS(tp_export_c_desc, .name = free_names[i]), NULL));
    CHECK_OK(tp_export_c_text(s, &x, 1, &y, 1, &out, TP_OPTIONS(tp_export_c_desc, .name = "in"), NULL));
    tp_buf_free(&out);
    CHECK_ERR(tp_save_checkpoint(s, "a.npz", NULL, 5), TP_ERR_ARG, "n is 5, but variables is NULL");
    tp_session_free(s);
    tp_graph_free(g);
    TEST_MAY_ERROR("Training did not start");
    tp_train_config c = {.n_callbacks = -7};
    CHECK_ERR(run_with(c), TP_ERR_ARG, ".n_callbacks is -7: it cannot be negative");
}

/* At the root of 0 there is no derivative: the sentence does not send the user to a grad function. */
TEST(a_gradient_where_there_is_none)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F64, tp_make_shape(2));
    const double data[2] = {0, -1};
    tp_feed f = TP_FEED(x, TP_F64, data, 2);
    CHECK_ERR(tp_check_gradients(tp_sqrt(x), &f, 1, 0, NULL), TP_ERR_NUMERIC,
              "the values that are fed lie outside of where the function has a derivative");
    tp_graph_free(g);
}

/* A gradient of NaN is not forgotten for that of the next feed. */
TEST(a_gradient_of_nan_is_the_worst)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x[2] = {tp_placeholder(g, "x", TP_F64, tp_make_shape(2)),
                     tp_placeholder(g, "z", TP_F64, tp_make_shape(2))};
    const double data[2] = {0, 1};
    const tp_feed f[2] = {TP_FEED(x[0], TP_F64, data, 2), TP_FEED(x[1], TP_F64, data, 2)};
    double worst = 0;
    tp_node *below = tp_less(x[0], tp_const_as(g, TP_F64, -9)),
            *y = tp_sqrt(x[0]); /* is not selected: 0 times infinity */
    y = tp_select(below, y, x[0]);
    y = tp_add(y, tp_sin(x[1]));
    CHECK_ERR(tp_check_gradients(y, f, 2, 0, &worst), TP_ERR_NUMERIC, "element 0 of 'x'");
    CHECK(isnan(worst));
    tp_graph_free(g);
}

/* The status is that of the sentence, not that of memory, where no session can be made. */
TEST(a_value_on_a_device_that_is_not_there)
{
    for (int i = 0; i < 2; i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_device_enter(g, 1);
        tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(2), tp_init_zeros());
        tp_device_leave(g);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(2));
        const float data[2] = {1, 2};
        const tp_feed f = TP_FEED(x, TP_F32, data, 2);
        tp_node *y = tp_mul(x, w);
        CHECK_ERR(i ? tp_eval_now(y, &f, 1, NULL) : tp_check_gradients(y, &f, 1, 0, NULL), TP_ERR_ARG,
                  "variable 'w' is to live on device 1");
        tp_graph_free(g);
    }
}

/* A resumed training says nothing of values that begin anew where none does. */
static tp_node *averaged_line(tp_graph *g, tp_node *const *in, void *user)
{
    tp_node *cost = line_graph(g, in, user);
    tp_add_moving_summary(cost);
    return cost;
}
static char all_lines[1 << 13];
static void keep_all_lines(void *user, tp_log_level level, const char *line)
{
    (void)user, (void)level;
    const size_t n = strlen(all_lines);
    snprintf(all_lines + n, sizeof all_lines - n, "%s\n", line);
}
TEST(a_resume_without_a_change_leaves_nothing_out)
{
    const char *dir = tp_test_tmpdir();
    for (int run = 0; run < 2; run++) {
        CHECK_OK(tp_logger_set_dir(dir, 'k'));
        tp_train_config c = {TP_CALLBACKS(tp_cb_model_saver()), .max_epoch = run + 1, .steps_per_epoch = 2};
        c.auto_resume = TP_YES;
        c.model = (tp_model)LINE_MODEL;
        c.model.build_graph = averaged_line;
        c.dataflow = tp_df_batch(line_data(), 4);
        all_lines[0] = 0;
        tp_set_log(keep_all_lines, NULL);
        CHECK_OK(tp_launch_train_with_config(&c, tp_simple_trainer()));
        tp_set_log(NULL, NULL);
        CHECK((strstr(all_lines, "Restoring checkpoint from") != NULL) == (run == 1));
        CHECK_MSG(!strstr(all_lines, "are not used"), "%s", all_lines);
    }
    CHECK_OK(tp_logger_set_dir(NULL, 0));
}

/* A checkpoint of 80 steps of Adam, into a graph with a new variable: its averages begin at zero, so that the powers of beta do, too.
 * With those of the checkpoint its first steps would be three to five times too large. Without a new variable all is restored. A value that is skipped because
 * its shape has changed counts as new. */
TEST(adam_begins_anew_as_a_whole_where_a_variable_is_new)
{
    static const char *const names[] = {"w", "w/Adam", "w/Adam_1", "beta1_power", "beta2_power"};
    static const char *const said[] = {NULL, "4 values of the checkpoint for Adam or LAMB are not restored",
                                       "0 are restored, 4 begin anew"};
    for (int i = 0; i < 6; i++) {
        const bool more = i % 3 > 0, lamb = i >= 3;
        tp_graph *g = tp_graph_new(NULL);
        tp_dict d = TP_EMPTY;
        tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(2), tp_init_constant(3.0f)), *cost = tp_sum(w);
        tp_node *head = more ? tp_get_variable_as(g, "head", TP_F32, tp_make_shape(2), tp_init_zeros()) : NULL;
        if (head) cost = tp_add(cost, tp_sum(head));
        tp_node *lr = tp_get_scalar_variable(g, "learning_rate", 0.01f);
        tp_node *train = tp_minimize(lamb ? tp_lamb(lr) : tp_adam(lr), cost, NULL);
        for (int k = 0; k < TP_COUNT(names); k++) {
            char name[32];
            snprintf(name, sizeof name, "%s", names[k]);
            if (lamb && (k == 1 || k == 2)) snprintf(name, sizeof name, k == 1 ? "w/LAMB" : "w/LAMB_1");
            tp_tensor *value = tp_dict_add(&d, name);
            const bool scalar = k >= 3;
            CHECK_OK(tp_tensor_resize(value, TP_F32, scalar ? tp_make_shape_n(0, NULL) : tp_make_shape(2)));
            for (int e = 0; e < (scalar ? 1 : 2); e++)
                ((float *)value->data)[e] = k == 0 ? 1.0f : k == 3 ? 0.0002f : k == 4 ? 0.92f : 1.0f;
        }
        tp_session *s = tp_session_new(g, NULL);
        tp_session_init *init = tp_dict_restore(&d, i % 3 == 2);
        all_lines[0] = 0;
        tp_set_log(keep_all_lines, NULL);
        CHECK_OK(tp_session_init_run(init, s));
        tp_set_log(NULL, NULL);
        if (said[i % 3])
            CHECK_HAS(all_lines, said[lamb ? 1 : i % 3]); /* LAMB's slots are not among tensorpack's names */
        else CHECK_MSG(!strstr(all_lines, "anew"), "%s", all_lines);
        int n = 0, power = 0;
        tp_node *const *vars = tp_collection(g, TP_KEY_GLOBAL_VARIABLES, &n);
        while (power + 1 < n && strcmp(tp_node_name(vars[power]), "beta1_power") != 0) power++;
        tp_tensor value = TP_EMPTY;
        CHECK_OK(tp_session_read(s, tp_node_variable(vars[power]), &value));
        CHECK_NEAR(((float *)value.data)[0], more ? 0.9f : 0.0002f, 1e-7, 0);
        CHECK_OK(tp_session_run(s, NULL, 0, &train, 1, NULL));
        if (head && !lamb) {
            CHECK_OK(tp_session_read(s, tp_node_variable(head), &value));
            CHECK_NEAR(((float *)value.data)[0], -0.01, 1e-6, 0); /* as in a new training */
        }
        tp_tensor_free(&value);
        tp_session_init_free(init);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* Two optimizers train w, so that the second's averages of it are w/Adam_2 and w/Adam_3. One that lacks an average or a power of beta in
 * the checkpoint begins anew, the other one does not. */
TEST(adam_begins_anew_without_the_other_optimizer)
{
    enum { POWERS = 6 }; /* the names from here on are those of powers */
    static const char *const names[] = {"w/Adam",      "w/Adam_1",    "w/Adam_2",    "w/Adam_3",      "head/Adam",
                                        "head/Adam_1", "beta1_power", "beta2_power", "beta1_power_1", "beta2_power_1"};
    static const bool of_second[] = {0, 0, 1, 1, 1, 1, 0, 0, 1, 1};
    for (int lacks = -1; lacks < 2 * TP_COUNT(names); lacks++) {
        const int without = lacks < 0 ? -1 : lacks % TP_COUNT(names);
        /* the updates of float64 variables read the powers, which are float32, through a cast */
        const tp_dtype dtype = lacks < TP_COUNT(names) ? TP_F32 : TP_F64;
        tp_graph *g = tp_graph_new(NULL);
        tp_dict d = TP_EMPTY;
        tp_node *w = tp_get_variable_as(g, "w", dtype, tp_make_shape(2), tp_init_ones());
        tp_node *head = tp_get_variable_as(g, "head", dtype, tp_make_shape(2), tp_init_ones());
        tp_node *lr = tp_get_scalar_variable(g, "learning_rate", 0.01f);
        tp_minimize(tp_adam(lr), tp_sum(w), "w");
        tp_minimize(tp_adam(lr), tp_sum(tp_mul(w, head)), NULL);
        for (int k = 0; k < TP_COUNT(names); k++) {
            if (k == without) continue;
            tp_tensor *value = tp_dict_add(&d, names[k]);
            CHECK_OK(k < POWERS ? tp_tensor_resize(value, dtype, tp_make_shape(2))
                                : tp_tensor_resize(value, TP_F32, tp_make_shape_n(0, NULL)));
            for (int e = 0; e < tp_tensor_size(value); e++) tp_tensor_set(value, e, 0.25);
        }
        tp_session *s = tp_session_new(g, NULL);
        tp_session_init *init = tp_dict_restore(&d, false);
        CHECK_OK(tp_session_init_run(init, s));
        for (int k = 0; k < TP_COUNT(names); k++) {
            tp_tensor value = TP_EMPTY;
            CHECK_OK(tp_session_read(s, tp_find_variable(g, names[k]), &value));
            const bool anew = without >= 0 && of_second[k] == of_second[without];
            const double first = k < POWERS ? 0 : k % 2 ? 0.999 : 0.9;
            CHECK_MSG(fabs(tp_tensor_get(&value, 0) - (anew ? first : 0.25)) < 1e-6, "without %s: %s is %g",
                      without < 0 ? "none" : names[without], names[k], tp_tensor_get(&value, 0));
            tp_tensor_free(&value);
        }
        tp_session_init_free(init);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* What is said of slots and averages: how many are restored, begin anew and are left over; nothing where all of them are restored, nor
 * where the graph has none. */
TEST(what_is_said_of_slots_that_begin_anew)
{
    enum { MOST = 4 };
    static const struct {
        const char *graph[MOST], *file[MOST], *said; /* "!" in the file: of another shape, so that it is skipped */
    } t[] = {{{"w", "w/Momentum"}, {"w", "w/Momentum"}, NULL},
             {{"w", "w/Momentum"}, {"w"}, "0 are restored, 1 begin anew, 0 of"},
             {{"w", "w/Momentum"}, {"w", "w/Adam"}, "0 are restored, 1 begin anew, 1 of"},
             {{"w", "w/Momentum", "w/Adam"}, {"w", "w/Momentum"}, "1 are restored, 1 begin anew, 0 of"},
             {{"w", "w/Momentum"}, {"w", "w/Momentum", "EMA/loss"}, "1 are restored, 0 begin anew, 1 of"},
             {{"w", "w/Momentum"}, {"w", "w/Momentum", "tp:local/EMA/loss"}, NULL},
             {{"w/Momentum", "w"}, {"w/Adam", "w"}, "0 are restored, 1 begin anew, 1 of"},
             {{"w", "w/Momentum"}, {"w", "!w/Momentum"}, "0 are restored, 1 begin anew, 1 of"},
             {{"w", "v"}, {"w", "w/Adam"}, NULL},
             {{"w", "v"}, {"w", "v"}, NULL}};
    for (int i = 0; i < TP_COUNT(t); i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_dict d = TP_EMPTY;
        for (int k = 0; k < MOST && t[i].graph[k]; k++)
            tp_get_variable_as(g, t[i].graph[k], TP_F32, tp_make_shape(2), tp_init_zeros());
        for (int k = 0; k < MOST && t[i].file[k]; k++) {
            const bool skipped = t[i].file[k][0] == '!';
            tp_tensor *value = tp_dict_add(&d, t[i].file[k] + skipped);
            CHECK_OK(tp_tensor_resize(value, TP_F32, tp_make_shape(skipped ? 3 : 2)));
            memset(value->data, 0, tp_tensor_bytes(value));
        }
        tp_session *s = tp_session_new(g, NULL);
        tp_session_init *init = tp_dict_restore(&d, true);
        all_lines[0] = 0;
        tp_set_log(keep_all_lines, NULL);
        CHECK_OK(tp_session_init_run(init, s));
        tp_set_log(NULL, NULL);
        if (t[i].said) CHECK_HAS(all_lines, t[i].said);
        else CHECK_MSG(!strstr(all_lines, "begin anew"), "%d: %s", i, all_lines);
        tp_session_init_free(init);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* Precision, recall and error take values from 0 to 1: numbers of classes and logits are refused. */
static tp_node *numbers_tower(tp_graph *g, tp_node *const *in, void *user)
{
    tp_node *cost = line_graph(g, in, user);
    tp_named(tp_affine(tp_squeeze(in[1], 1), 0, 4), "fours");
    tp_named(tp_affine(tp_squeeze(in[1], 1), 0, 1), "ones");
    return cost;
}
TEST(inferencers_that_count_refuse_other_numbers)
{
    TEST_MAY_ERROR("Training failed at global_step=");
    for (int i = 0; i < 4; i++) {
        tp_inferencer *inf = i == 0   ? tp_inf_classification_error("fours")
                             : i == 1 ? tp_inf_binary_classification("ones", "fours")
                             : i == 2 ? tp_inf_binary_classification("fours", "ones")
                                      : tp_inf_binary_classification("ones", "ones");
        tp_train_config c = {TP_CALLBACKS(tp_cb_inference_runner(tp_df_batch(line_data(), 4), .inferencers = {inf})),
                             .max_epoch = 1, .steps_per_epoch = 1};
        c.model = (tp_model)LINE_MODEL;
        c.model.build_graph = numbers_tower;
        c.dataflow = tp_df_batch(line_data(), 4);
        c.n_extra_callbacks = c.n_monitors = TP_NONE;
        const tp_status st = tp_launch_train_with_config(&c, tp_simple_trainer());
        if (i == 3) CHECK_OK(st);
        else
            CHECK_MSG(st == TP_ERR_ARG &&
                          strstr(tp_last_error(), "'fours' has the value 4: its values are 0, 1 or in between"),
                      "%s", tp_last_error());
    }
}

/* A resumed training says that the checkpoint's learning rate is in use, where the program has another one. */
static float line_rate;
static tp_optimizer *optimizer_of_rate(tp_graph *g, void *user)
{
    (void)user;
    return tp_sgd(tp_get_scalar_variable(g, "learning_rate", line_rate));
}
TEST(a_learning_rate_that_changes_at_a_resume)
{
    const char *dir = tp_test_tmpdir();
    for (int run = 0; run < 4; run++) {
        line_rate = run == 2 ? 0.02f : 0.1f;
        CHECK_OK(tp_logger_set_dir(dir, 'k'));
        tp_callback *setter =
            run < 3 ? NULL : tp_cb_scheduled_hyper_param_setter("learning_rate", .schedule = {{4, 0.01}});
        tp_train_config c = {TP_CALLBACKS(tp_cb_model_saver(), setter), .max_epoch = run + 1, .steps_per_epoch = 2};
        if (!setter) c.n_callbacks = 1;
        c.auto_resume = TP_YES;
        c.model = (tp_model)LINE_MODEL;
        c.model.optimizer = optimizer_of_rate;
        c.dataflow = tp_df_batch(line_data(), 4);
        all_lines[0] = 0;
        tp_set_log(keep_all_lines, NULL);
        CHECK_OK(tp_launch_train_with_config(&c, tp_simple_trainer()));
        tp_set_log(NULL, NULL);
        const char *said =
            "The learning rate 'learning_rate' is 0.1, from the checkpoint; the program's 0.02 is not used";
        CHECK_MSG((strstr(all_lines, said) != NULL) == (run == 2), "run %d: %s", run, all_lines);
        CHECK_MSG((strstr(all_lines, "from the checkpoint; the program's") != NULL) == (run == 2), "run %d", run);
    }
    CHECK_OK(tp_logger_set_dir(NULL, 0));
}

/* An inferencer that is given a tensor of the wrong shape fails before the first epoch. Datapoints that fill no batch are told. */
static tp_node *tower_of_shapes(tp_graph *g, tp_node *const *in, void *user)
{
    tp_node *cost = line_graph(g, in, user);
    tp_named(tp_squeeze(in[1], 1), "each");
    return cost;
}
TEST(shapes_and_sizes_of_a_validation)
{
    static const char *const said[] = {"ScalarStats: 'each' has shape (?), only scalars have a mean here",
                                       "ClassificationError: 'cost' has shape () and is not a vector",
                                       "BinaryClassificationStats: 'each' has shape (?), 'y' has (?,1): each "
                                       "prediction needs a label, so the shapes must "
                                       "be equal; tp_squeeze takes away a dimension of 1"};
    TEST_MAY_ERROR("Training did not start");
    for (int i = 0; i < 6; i++) {
        tp_inferencer *inf = i == 0   ? tp_inf_scalar_stats(TP_NAMES("cost", "each"))
                             : i == 1 ? tp_inf_classification_error("cost")
                             : i == 2 ? tp_inf_binary_classification("each", "y")
                                      : tp_inf_scalar_stats(TP_NAMES("cost"));
        keep_the_log();
        tp_dataflow *test =
            i == 4 ? tp_df_batch(line_data(), 3, .remainder = true) : tp_df_batch(line_data(), i == 5 ? 2 : 3);
        tp_train_config c = {TP_CALLBACKS(tp_cb_inference_runner(test, .inferencers = {inf})), .max_epoch = 1};
        c.steps_per_epoch = 1;
        c.model = (tp_model)LINE_MODEL;
        c.model.build_graph = tower_of_shapes;
        c.dataflow = tp_df_batch(line_data(), 4);
        c.n_extra_callbacks = c.n_monitors = TP_NONE;
        const tp_status st = tp_launch_train_with_config(&c, tp_simple_trainer());
        tp_set_log(NULL, NULL);
        if (i < 3) CHECK_MSG(st == TP_ERR_SHAPE && strstr(tp_last_error(), said[i]), "%s", tp_last_error());
        else CHECK_OK(st);
        CHECK_MSG((strstr(logged, "[InferenceRunner] The last 1 datapoints of a pass fill no batch") != NULL) ==
                      (i < 4),
                  "%d: %s", i, logged);
    }
}

TEST(more_than_all_classes_and_an_input_that_the_model_lacks)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 3));
    tp_node *y = tp_placeholder(g, "y", TP_I32, tp_make_shape(TP_ANY));
    keep_the_log();
    tp_in_top_k(x, y, 2);
    CHECK_STR(logged, "");
    tp_in_top_k(x, y, 3);
    CHECK_HAS(logged, "in_top_k: k is 3 and 'x' has 3 classes: each label is among the first k");
    tp_set_log(NULL, NULL);
    tp_graph_free(g);
    static const tp_spec one = TP_SPEC("x", TP_F32, TP_ANY, 1);
    tp_train_config c = {.model = LINE_MODEL, .max_epoch = 1};
    c.model.inputs = &one;
    c.model.n_inputs = 1;
    c.dataflow = tp_df_batch(line_data(), 4);
    TEST_MAY_ERROR("Training did not start");
    CHECK_ERR(tp_launch_train_with_config(&c, tp_simple_trainer()), TP_ERR_ARG, ".n_inputs inputs in build_graph");
}

/* C code of a net that has no C form: that is said, and not that .batch is missing. */
TEST(what_an_export_as_c_asks_for)
{
    for (int i = 0; i < 2; i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, TP_ANY, 4));
        tp_node *y = i == 0 ? tp_lstm(x, "lstm", 3) : tp_relu(x);
        tp_session *s = tp_session_new(g, NULL);
        tp_buf out = {0};
        if (i == 0) {
            CHECK_ERR(tp_export_c_text(s, &x, 1, &y, 1, &out, NULL, NULL), TP_ERR_UNSUPPORTED, "which has no C form");
        } else {
            CHECK_ERR(tp_export_c_text(s, &x, 1, &y, 1, &out, NULL, NULL), TP_ERR_SHAPE,
                      "C export: input 'x' is (?,?,4), and C code has fixed sizes: set .batch");
            CHECK_OK(tp_export_c_text(s, &x, 1, &y, 1, &out, TP_OPTIONS(tp_export_c_desc, .batch = 2), NULL));
        }
        tp_buf_free(&out);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* A state that is named like its input: the lookup warns, and carrying the input to itself is refused. */
static tp_node *state_of_the_same_name(tp_graph *g, tp_node *const *in, void *user)
{
    tp_node *state = tp_add(in[0], in[1]);
    (void)g;
    tp_named(state, (const char *)user);
    return tp_named(tp_tanh(state), "out");
}
TEST(a_state_that_is_named_like_its_input)
{
    static const tp_spec specs[] = {TP_SPEC("x", TP_F32, 1, 2), TP_SPEC("h", TP_F32, 1, 2)};
    for (int i = 0; i < 2; i++) {
        const char *const out[] = {"out", i ? "next" : "h"};
        tp_predict_config c = {.inputs = specs, .n_inputs = 2, .build_graph = state_of_the_same_name};
        c.user = (void *)(uintptr_t)out[1];
        c.output_names = out;
        c.n_output_names = 2;
        keep_the_log();
        tp_predictor *p = tp_offline_predictor(&c);
        CHECK((strstr(logged, "The name 'h' was given more than once") != NULL) == (i == 0));
        if (i == 0)
            CHECK_ERR(tp_predictor_carry(p, 1, 1), TP_ERR_ARG,
                      "output 1 is the input 'h' itself: give the new state a name of its own");
        else CHECK_OK(tp_predictor_carry(p, 1, 1));
        tp_set_log(NULL, NULL);
        tp_predictor_free(p);
    }
}
/* In a tower with a name, a node of the tower may have the name of an input. */
TEST(a_node_of_a_tower_that_is_named_like_an_input)
{
    static const tp_spec specs[] = {TP_SPEC("x", TP_F32, 1, 2), TP_SPEC("h", TP_F32, 1, 2)};
    tp_graph *g = tp_graph_new(NULL);
    tp_tower_func *f = tp_tower_func_new(g, state_of_the_same_name, (void *)(uintptr_t) "h", specs, 2);
    tp_node *in[2];
    for (int i = 0; i < 2; i++) in[i] = tp_placeholder(g, specs[i].name, TP_F32, specs[i].shape);
    CHECK(tp_tower_enter(g, TP_OPTIONS(tp_tower_desc, .name = "tower0")) != NULL);
    tp_tower_func_call(f, in);
    tp_tower_leave(g);
    keep_the_log();
    CHECK(tp_tower_handle_get(tp_tower_func_tower(f, 0), "h") == in[1]);
    CHECK_HAS(logged, "The name 'h' finds the tower's input; not found: 'tower0/h'");
    CHECK(tp_tower_handle_get(tp_tower_func_tower(f, 0), "x") == in[0]);
    CHECK(strstr(logged, "'x'") == NULL);
    tp_set_log(NULL, NULL);
    tp_graph_free(g);
}

static tp_status no_component(tp_dataflow *df, tp_datapoint *dp) { return (void)df, tp_datapoint_resize(dp, 2); }
TEST(a_flow_of_ones_own_that_fills_nothing)
{
    tp_dataflow *own = tp_df_new("bars", 0, 0);
    own->next = no_component;
    tp_dataflow *df = tp_df_batch(own, 4);
    tp_datapoint dp = {0};
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_ARG, "component 0 of 2 has no type yet: tp_tensor_resize gives it");
    CHECK_HAS(tp_last_error(), "[bars: pass 0, datapoint 0]");
    tp_datapoint_free(&dp);
    tp_df_free(df);
}

/* A node that a callback adds after the last step is as wrong as one after any other. */
static tp_status adds_a_node(tp_callback *cb)
{
    tp_node *cost = tp_callback_find(cb, "cost");
    tp_mul(cost, cost);
    return TP_OK;
}
TEST(a_callback_that_adds_a_node_at_the_end)
{
    TEST_MAY_ERROR("Training failed");
    for (int epochs = 1; epochs <= 2; epochs++) {
        tp_callback *cb = tp_callback_new("Adds", 0);
        cb->trigger = adds_a_node;
        tp_train_config c = {TP_CALLBACKS(cb), .max_epoch = epochs, .steps_per_epoch = 1};
        c.model = (tp_model)LINE_MODEL;
        c.dataflow = tp_df_batch(line_data(), 4);
        c.n_extra_callbacks = c.n_monitors = TP_NONE;
        CHECK_ERR(tp_launch_train_with_config(&c, tp_simple_trainer()), TP_ERR_STATE,
                  "added to a graph that is finalized");
    }
}

/* An op whose only input is NULL knows no graph that could keep its error. Whoever uses its result must repeat the sentence. */
static int null_kind;
static tp_node *only_input_is_null(tp_graph *g, tp_node *const *in, void *user)
{
    line_graph(g, in, user);
    if (null_kind == 0) return tp_mean(tp_square(tp_graph_find(g, "predictoin")));
    return tp_mean(tp_fully_connected(NULL, "fc", .units = 3));
}
TEST(a_null_that_is_the_only_input)
{
    static const char *const said[] = {"the cost was not made: test_newcomer.c:",
                                       "the cost was not made: test_newcomer.c:"};
    static const char *const why[] = {"square: input 0 is NULL; was 'predictoin' meant?", "FullyConnected"};
    TEST_MAY_ERROR("Training did not start");
    for (null_kind = 0; null_kind < 2; null_kind++) {
        tp_train_config c = {.model = LINE_MODEL, .max_epoch = 1};
        c.model.build_graph = only_input_is_null;
        c.dataflow = tp_df_batch(line_data(), 4);
        CHECK(tp_launch_train_with_config(&c, tp_simple_trainer()) == TP_ERR_ARG);
        CHECK_HAS(tp_last_error(), said[null_kind]);
        CHECK_HAS(tp_last_error(), why[null_kind]);
        tp_graph *g = tp_graph_new(NULL), *h = tp_graph_new(NULL);
        tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(1), tp_init_ones());
        tp_session *s = tp_session_new(g, NULL);
        tp_node *none = tp_square(NULL);
        const tp_tensor *out = NULL;
        CHECK_ERR(tp_session_run(s, NULL, 0, &none, 1, &out), TP_ERR_ARG, "square: input 0 is NULL");
        tp_node *x = tp_placeholder(h, "x", TP_F32, tp_make_shape(1)), *mixed = tp_add(x, w);
        CHECK_ERR(tp_session_run(s, NULL, 0, &mixed, 1, &out), TP_ERR_ARG, "add: input 1 belongs to another graph");
        tp_minimize(tp_sgd(tp_const(g, 0.1f)), tp_square(NULL), NULL);
        CHECK_HAS(tp_graph_error(g), "minimize: the cost was not made: test_newcomer.c:");
        tp_session_free(s);
        tp_graph_free(g);
        tp_graph_free(h);
    }
}

/* A process has one directory: a training that runs within another one, or beside it, warns. */
static tp_status trains_within(tp_callback *cb)
{
    (void)cb;
    tp_train_config c = {.model = LINE_MODEL, .max_epoch = 1, .steps_per_epoch = 1};
    c.dataflow = tp_df_batch(line_data(), 4);
    c.n_extra_callbacks = c.n_monitors = TP_NONE;
    return tp_launch_train_with_config(&c, tp_simple_trainer());
}
TEST(two_trainings_of_one_process_have_one_folder)
{
    for (int i = 0; i < 2; i++) {
        CHECK_OK(tp_logger_set_dir(i ? tp_test_tmpdir() : NULL, i ? 'k' : 0));
        for (int nested = 0; nested < 2; nested++) {
            tp_callback *cb = tp_callback_new("Nested", 0);
            if (nested) cb->trigger = trains_within;
            tp_train_config c = {TP_CALLBACKS(cb), .model = LINE_MODEL, .max_epoch = 1, .steps_per_epoch = 1};
            c.dataflow = tp_df_batch(line_data(), 4);
            c.n_extra_callbacks = c.n_monitors = TP_NONE;
            keep_the_log();
            CHECK_OK(tp_launch_train_with_config(&c, tp_simple_trainer()));
            tp_set_log(NULL, NULL);
            CHECK_MSG((strstr(logged, "another training of this process writes into") != NULL) == (i && nested),
                      "%d %d: %s", i, nested, logged);
            CHECK((strstr(logged, "the statistics of one of them are lost. Run each in a process of its own") !=
                   NULL) == (i && nested));
        }
    }
    CHECK_OK(tp_logger_set_dir(NULL, 0));
}

/* A gradient that misses a tight tolerance: the sentence tells by how much. */
TEST(a_gradient_that_is_nearly_right)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F64, tp_make_shape(1));
    const double data[1] = {0.3};
    tp_feed f = TP_FEED(x, TP_F64, data, 1);
    CHECK_ERR(tp_check_gradients(tp_exp(tp_tanh(x)), &f, 1, 1e-30, NULL), TP_ERR_NUMERIC, "(relative difference ");
    CHECK_HAS(tp_last_error(), "tolerance 1e-30)");
    tp_graph_free(g);
}

/* The README's recipes for padded sequences (B,T,C) of unknown B and T: mask, last real step, and an LSTM that reads backward. */
static tp_node *backward_rows(tp_node *t, tp_node *length) /* t: positions (B,T); length (B,1) */
{
    const int axis = 1;
    tp_node *one = tp_ones_like(t), *sequence = tp_cumsum(one, 0, true, false);
    tp_node *from = tp_select(tp_less(t, length), tp_sub(tp_affine(length, 1, -1), t), t);
    return tp_flatten(tp_cast(tp_add(tp_mul(sequence, tp_reduce_sum(one, &axis, 1, true)), from), TP_I32));
}
static tp_node *in_order(tp_node *x, tp_node *rows)
{
    return tp_reshape_like(tp_gather(tp_reshape(x, TP_ANY, x->shape.dim[2]), rows), x);
}
TEST(padded_sequences_of_unknown_length)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, TP_ANY, 3));
    tp_node *n = tp_placeholder(g, "n", TP_I32, tp_make_shape(TP_ANY)), *length = tp_expand_dims(tp_cast(n, TP_F32), 1);
    tp_node *t = tp_cumsum(tp_ones_like(tp_sum_over(x, 2)), 1, true, false);
    tp_node *mask = tp_cast(tp_less(t, length), TP_F32), *rows = backward_rows(t, length);
    tp_node *y = tp_concat_along(2, tp_lstm(x, "forward", .units = 4),
                                 in_order(tp_lstm(in_order(x, rows), "backward", .units = 4), rows));
    tp_node *last = tp_cast(tp_equal(t, tp_expand_dims(tp_affine(tp_cast(n, TP_F32), 1, -1), 1)), TP_F32);
    last = tp_sum_over(tp_mul(y, tp_expand_dims(last, 2)), 1);
    CHECK_STR(tp_graph_error(g), "");
    tp_node *const fetch[3] = {y, mask, last};
    tp_session *s = tp_session_new(g, NULL);
    float data[3 * 5 * 3], padded[3 * 5 * 8];
    for (int i = 0; i < TP_COUNT(data); i++) data[i] = sinf(1.7f * (float)i);
    const int32_t lengths[3] = {5, 3, 0};
    const tp_tensor *v[3];
    const tp_feed all[2] = {TP_FEED(x, TP_F32, data, 3, 5, 3), TP_FEED(n, TP_I32, lengths, 3)};
    if (CHECK_OK(tp_session_run(s, all, 2, fetch, 3, v))) {
        memcpy(padded, v[0]->data, sizeof padded);
        for (int i = 0; i < 15; i++) CHECK(tp_tensor_get(v[1], i) == (i % 5 < lengths[i / 5]));
        for (int i = 0; i < 24; i++)
            CHECK(tp_tensor_get(v[2], i) == (i < 16 ? padded[(i / 8 * 5 + lengths[i / 8] - 1) * 8 + i % 8] : 0));
    }
    const tp_feed alone[2] = {TP_FEED(x, TP_F32, data + 15, 1, 3, 3), TP_FEED(n, TP_I32, lengths + 1, 1)};
    if (CHECK_OK(tp_session_run(s, alone, 2, fetch, 3, v)))
        for (int i = 0; i < 24; i++) CHECK_NEAR(tp_tensor_get(v[0], i), padded[40 + i], 1e-6, 1e-6);
    tp_session_free(s);
    tp_graph_free(g);
}

/* What is wrong is named as the program wrote it. */
TEST(mistakes_in_numbers_of_layers)
{
    tp_node *parts[2];
    for (int i = 0; i < 10; i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 1));
        tp_node *t = tp_placeholder(g, "t", TP_F32, tp_make_shape(TP_ANY, 10));
        tp_node *k = tp_placeholder(g, "k", TP_I32, tp_make_shape(TP_ANY));
        static const char *const said[] = {"the initial values of variable 'w' are NULL",
                                           "sigmoid_cross_entropy: the logits are (?,1) and the labels (?,10)",
                                           "sigmoid_cross_entropy: the logits are (?,10) and the labels (?,1)",
                                           "mse: the predictions are (?,1) and the truth (?,10): give both the same",
                                           "one_hot: depth -3 makes no shape",
                                           "huber_loss: delta is -1: it must be a number above 0, or 0 for 1",
                                           "split: 0 parts: give 1 or more",
                                           "split: 2 parts at NULL",
                                           "one_hot: depth -1 makes no shape; for an unknown number of classes compare",
                                           "the image is (1,0,4,3) and coords (1,2,2,2): needs (B,H,W,C), with pixels"};
        if (i == 0) tp_get_variable_as(g, "w", TP_F32, tp_make_shape(2), tp_init_values(NULL, 2));
        else if (i == 1) tp_sigmoid_cross_entropy(x, t);
        else if (i == 2) tp_sigmoid_cross_entropy(t, x);
        else if (i == 3) tp_sym_mse(x, t, NULL);
        else if (i == 4) tp_one_hot(k, -3, 1, 0);
        else if (i == 5) tp_sym_huber_loss(x, -1.0f, NULL);
        else if (i == 6) tp_split(x, 0, 0, parts);
        else if (i == 7) tp_split(x, 2, 0, NULL);
        else if (i == 8) tp_one_hot(k, TP_ANY, 1, 0);
        else
            tp_bilinear_sampler(tp_placeholder(g, "image", TP_F32, tp_make_shape(1, 0, 4, 3)),
                                tp_placeholder(g, "at", TP_F32, tp_make_shape(1, 2, 2, 2)), TP_BORDER_CONSTANT);
        CHECK(tp_graph_status(g) != TP_OK);
        CHECK_HAS(tp_graph_error(g), said[i]);
        tp_graph_free(g);
    }
    tp_graph *g = tp_graph_new(NULL); /* shapes that fit, or may fit, are none */
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, 10));
    tp_node *t = tp_placeholder(g, "t", TP_F32, tp_make_shape(1, 10));
    tp_sigmoid_cross_entropy(x, t), tp_sym_mse(t, x, NULL), tp_sym_huber_loss(x, 0.0f, NULL);
    CHECK_OK(tp_graph_status(g));
    tp_graph_free(g);
}

/* What the program called is named, also where a function behind it looks at the arguments. */
TEST(mistakes_name_the_function_that_was_called)
{
    static const char *const want[] = {"tp_resize_nearest: a must not be NULL",
                                       "tp_resize_bilinear: a must not be NULL",
                                       "tp_gradients: dxs must not be NULL",
                                       "tp_gradients: y must not be NULL",
                                       "depth_to_space: the data format is 9: it must be TP_NHWC or TP_NCHW",
                                       "assign_moving_average: decay is 2: it must be from 0 to 1",
                                       "assign_moving_average: decay is nan: it must be from 0 to 1",
                                       "assign_moving_average: decay is -0.1: it must be from 0 to 1",
                                       ("comes to any of the 1 variables '.*': it depends on none of them, or an op "
                                        "between has no gradient. Does TP_FREEZE_VARIABLES freeze all variables?")};
    TEST_MAY_ERROR("x must not be NULL");
    CHECK(tp_is_poison(tp_depth_to_space(NULL, 2, TP_NHWC)));
    CHECK_HAS(tp_last_error(), "tp_depth_to_space: x must not be NULL");
    CHECK(tp_is_poison(tp_space_to_depth(NULL, 2, TP_NHWC)));
    CHECK_HAS(tp_last_error(), "tp_space_to_depth: x must not be NULL");
    for (int i = 0; i < TP_COUNT(want); i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(1, 4, 4, 4)), *v = tp_get_scalar_variable(g, "v", 0),
                *dx = x;
        if (i == 0) tp_resize_nearest(x, NULL);
        if (i == 1) tp_resize_bilinear(x, NULL);
        if (i == 2) tp_gradients(tp_sum(x), &x, 1, NULL);
        if (i == 3) tp_gradients(NULL, &x, 1, &dx), CHECK(dx == NULL);
        if (i == 4) tp_depth_to_space(x, 2, (tp_data_format)9);
        if (i >= 5 && i < 8) tp_assign_moving_average(v, tp_const(g, 1), i == 5 ? 2 : i == 6 ? NAN : -0.1f, NULL);
        if (i == 8) {
            tp_node *w = NULL;
            TP_FREEZE_VARIABLES(g) w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(3), tp_init_zeros());
            tp_minimize(tp_sgd(tp_const(g, 0.1f)), tp_mean(w), NULL);
        }
        CHECK_HAS(tp_graph_error(g), want[i]);
        tp_graph_free(g);
    }
}

/* The first mistake is told, not what follows from it. */
TEST(an_optimizer_of_a_learning_rate_that_was_not_made)
{
    tp_node *rate = tp_warm_up(NULL, NULL, 5, 0);
    CHECK_HAS(tp_last_error(), "tp_warm_up: lr must not be NULL");
    CHECK(tp_adam(rate) == NULL);
    CHECK_HAS(tp_last_error(), "tp_warm_up: lr must not be NULL");
}

TEST(summaries_of_nothing_are_a_warning)
{
    keep_the_log();
    tp_add_tensor_summary(NULL, TP_SUMMARY_RMS);
    tp_add_activation_summary(NULL, 0, NULL, NULL);
    tp_set_log(NULL, NULL);
    CHECK_HAS(logged, "tp_add_tensor_summary: x is NULL");
    CHECK_HAS(logged, "tp_add_activation_summary: x is NULL");
}

/* Functions of the program that fail without a sentence get one, with the name of what they belong to. */
static int fails_at; /* 1: save_state, 2: load_state, 3: restart, 4: seek */
static tp_status mute_save(tp_callback *cb, tp_dict *d, const char *prefix)
{
    return fails_at == 1 && cb && d && prefix ? TP_ERR_IO : TP_OK;
}
static tp_status mute_load(tp_callback *cb, const tp_dict *d, const char *prefix)
{
    return fails_at == 2 && cb && d && prefix ? TP_ERR_IO : TP_OK;
}
static tp_status mute_restart(tp_dataflow *df, int64_t pass)
{
    return fails_at == 3 && df && pass >= 0 ? TP_ERR_IO : TP_OK;
}
static tp_status mute_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    *skipped = n;
    return fails_at == 4 && df ? TP_ERR_IO : TP_OK;
}
TEST(state_and_flows_that_fail_without_a_sentence)
{
    tp_dict d;
    memset(&d, 0, sizeof d);
    tp_callback *cb = tp_callback_new("Mine", 0);
    cb->save_state = mute_save;
    cb->load_state = mute_load;
    for (fails_at = 0; fails_at <= 4; fails_at++) {
        const char *const save = "Mine: a function of the program returned TP_ERR_IO without a sentence";
        const char *const flow = "mine: a function of the program returned TP_ERR_IO without a sentence";
        if (fails_at == 1) CHECK_ERR(tp_callback_save_state(cb, &d, "m/"), TP_ERR_IO, save);
        else CHECK_OK(tp_callback_save_state(cb, &d, "m/"));
        if (fails_at == 2) CHECK_ERR(tp_callback_load_state(cb, &d, "m/"), TP_ERR_IO, save);
        else CHECK_OK(tp_callback_load_state(cb, &d, "m/"));
        tp_dataflow *df = tp_df_new("mine", 0, 0);
        df->restart = mute_restart;
        df->seek = mute_seek;
        if (fails_at == 3) CHECK_ERR(tp_df_restart(df, 0), TP_ERR_IO, flow);
        else CHECK_OK(tp_df_restart(df, 0));
        if (fails_at >= 3) CHECK_ERR(tp_df_seek(df, 1, NULL), TP_ERR_IO, flow);
        else CHECK_OK(tp_df_seek(df, 1, NULL));
        tp_df_free(df);
    }
    tp_callback_free(cb);
    tp_dict_free(&d);
}

static tp_status data_at_null(tp_dataflow *df, tp_datapoint *dp)
{
    const tp_status st = df ? tp_datapoint_resize(dp, 1) : TP_ERR;
    if (st == TP_OK) tp_tensor_view(&dp->c[0], TP_F32, tp_make_shape(3), NULL);
    return st;
}
TEST(a_flow_gives_data_at_null)
{
    tp_dataflow *df = tp_df_new("mine", 0, 0);
    df->next = data_at_null;
    df = tp_df_batch(df, 2);
    tp_datapoint dp = {0, NULL, 0};
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_ARG, "the data of component 0 of 1 are NULL");
    CHECK_HAS(tp_last_error(), "[mine: pass 0, datapoint 0]");
    tp_df_free(df);
    tp_datapoint_free(&dp);
}

TEST(an_epoch_before_the_first)
{
    TEST_MAY_ERROR("Training did not start");
    tp_train_config c = {.model = LINE_MODEL, .max_epoch = 1, .steps_per_epoch = 1, .starting_epoch = -4};
    c.dataflow = tp_df_batch(line_data(), 4);
    CHECK_ERR(tp_launch_train_with_config(&c, tp_simple_trainer()), TP_ERR_ARG, "starting_epoch is -4");
}
/* The place of a bad number is told only where it is sure: the labels and their lengths are all integers. */
TEST(labels_that_ctc_does_not_take)
{
    static const float logits[2 * 4 * 3] = {0};
    static const int32_t frames[2] = {4, 4};
    static const struct {
        int32_t label[2 * 3], length[2];
        const char *said, *place;
    } bad[] = {{{0, 1, 0, 1, 2, 0}, {3, 2}, "ctc_loss: 2 is no label", NULL}, /* 2 is the blank, and a length */
               {{0, 1, 0, 1, 7, 0}, {3, 2}, "ctc_loss: 7 is no label", "'label' has it at element (1,1)"},
               {{0, 1, 0, 1, 1, 0}, {3, 5}, "or a length beyond what is there", "'length' has it at element (1)"}};
    for (int i = 0; i < TP_COUNT(bad); i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape(4, 2, 3));
        tp_node *label = tp_placeholder(g, "label", TP_I32, tp_make_shape(2, 3));
        tp_node *length = tp_placeholder(g, "length", TP_I32, tp_make_shape(2));
        tp_node *frame = tp_placeholder(g, "frame", TP_I32, tp_make_shape(2));
        const tp_ctc_attrs blank = {.blank = -1};
        tp_node *loss = tp_ctc_loss(x, label, length, frame, &blank);
        tp_session *s = tp_session_new(g, NULL);
        const tp_feed feed[] = {TP_FEED(x, TP_F32, logits, 4, 2, 3), TP_FEED(label, TP_I32, bad[i].label, 2, 3),
                                TP_FEED(length, TP_I32, bad[i].length, 2), TP_FEED(frame, TP_I32, frames, 2)};
        const tp_tensor *y = NULL;
        CHECK_ERR(tp_session_run(s, feed, 4, &loss, 1, &y), TP_ERR_NUMERIC, bad[i].said);
        if (bad[i].place) CHECK_HAS(tp_last_error(), bad[i].place);
        else CHECK_MSG(!strstr(tp_last_error(), "has it at element"), "%s", tp_last_error());
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* A cost of +inf is a warning, once; -inf ends the training as NaN does. */
static float infinity_of_cost;
static tp_node *infinite_cost(tp_graph *g, tp_node *const *in, void *user)
{
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(1, 1), tp_init_ones());
    return (void)user, tp_add(tp_mean(tp_matmul(in[0], w)), tp_const(g, infinity_of_cost));
}
TEST(a_cost_that_is_infinite)
{
    TEST_EXPECT_ERROR("is -inf after step 1");
    tp_train_config c = {.model = LINE_MODEL, .max_epoch = 2, .steps_per_epoch = 2};
    c.model.build_graph = infinite_cost;
    c.dataflow = tp_df_batch(line_data(), 4);
    infinity_of_cost = INFINITY;
    keep_the_log();
    CHECK_OK(tp_launch_train_with_config(&c, tp_simple_trainer()));
    const char *first = strstr(logged, "is infinite after step 1 of epoch 1");
    CHECK(first && !strstr(first + 1, "is infinite after"));
    infinity_of_cost = -INFINITY;
    for (int goes_on = 0; goes_on < 2; goes_on++) {
        c.dataflow = tp_df_batch(line_data(), 4);
        c.stop_on_nan = goes_on ? TP_NO : 0;
        const tp_status st = tp_launch_train_with_config(&c, tp_simple_trainer());
        if (goes_on) CHECK_OK(st);
        else CHECK_ERR(st, TP_ERR_NUMERIC, "is -inf after step 1 of epoch 1 (global_step=1). Lower the learning rate");
    }
    tp_set_log(NULL, NULL);
}

TEST(a_flow_of_a_negative_size)
{
    tp_dataflow *df = tp_df_from_generator(no_point, NULL, .size = -7);
    CHECK_ERR(tp_df_status(df), TP_ERR_ARG, ".size is -7 datapoints");
    tp_df_free(df);
    df = tp_df_from_generator(no_point, NULL, .size = -1);
    CHECK_OK(tp_df_status(df));
    CHECK(tp_df_size(df) == -1);
    tp_df_free(df);
}

/* A file whose values are of another type: the file is named. */
TEST(a_file_of_another_type)
{
    char path[400];
    snprintf(path, sizeof path, "%s/other_type.npz", tp_test_tmpdir());
    tp_dict d;
    memset(&d, 0, sizeof d);
    CHECK_OK(tp_tensor_resize(tp_dict_add(&d, "w"), TP_I32, tp_make_shape(1)));
    tp_tensor_set(tp_dict_find(&d, "w"), 0, 3);
    CHECK_OK(tp_npz_save(path, &d, false));
    tp_graph *g = tp_graph_new(NULL);
    tp_get_variable_as(g, "w", TP_F32, tp_make_shape(1), tp_init_ones());
    for (int i = 0; i < 2; i++) {
        tp_session *s = tp_session_new(g, NULL);
        tp_session_init *from = i ? tp_saver_restore(path) : tp_smart_init(path, false);
        CHECK_ERR(tp_session_init_run(from, s), TP_ERR_DTYPE, "other_type.npz: ");
        tp_session_init_free(from);
        tp_session_free(s);
    }
    tp_graph_free(g);
    tp_dict_free(&d);
}

/* A join ends with its shortest flow, so a seek, as of a resume, reads the other flows no further than that. */
static int64_t made_by_long;
static tp_status long_flow(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    (void)user, (void)pass;
    made_by_long++;
    if (index == 30) return tp_fail(TP_ERR_FORMAT, "30 is bad");
    tp_status st = tp_datapoint_resize(dp, 1);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_I32, tp_make_shape_n(0, NULL));
    if (st == TP_OK) *(int32_t *)dp->c[0].data = (int32_t)index;
    return st;
}
static tp_status five_points(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    return index < 5 ? long_flow(user, pass, index, dp) : TP_END;
}
TEST(a_join_seeks_no_further_than_its_shortest_flow)
{
    for (int order = 0; order < 2; order++) {
        tp_dataflow *few = tp_df_from_generator(five_points, NULL, .size = 5);
        tp_dataflow *many = tp_df_from_generator(long_flow, NULL);
        tp_dataflow *both[2] = {order ? many : few, order ? few : many};
        tp_dataflow *df = tp_df_join(both, 2);
        int64_t skipped = -1;
        made_by_long = 0;
        CHECK_OK(tp_df_seek(df, 100, &skipped));
        CHECK(skipped == 5 && made_by_long == 10); /* five of each */
        tp_datapoint dp = {0, NULL, 0};
        CHECK(tp_df_next(df, &dp) == TP_END);
        tp_df_free(df);
        tp_datapoint_free(&dp);
    }
}

static tp_status too_far(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    *skipped = n + 5;
    return df ? TP_OK : TP_ERR;
}
TEST(a_seek_that_skips_more_than_it_should)
{
    tp_dataflow *df = tp_df_new("mine", 0, 0);
    df->seek = too_far;
    int64_t skipped = -1;
    CHECK_ERR(tp_df_seek(df, 3, &skipped), TP_ERR_ARG, "mine: its seek says that it skipped 8 of 3 datapoints");
    CHECK(skipped == 0);
    tp_df_free(df);
}

static tp_status nothing_at_all(tp_dataflow *df, tp_datapoint *dp) { return df && dp ? TP_END : TP_ERR; }
static int64_t size_of_nothing(tp_dataflow *df) { return df ? 0 : -1; }
/* An inference over nothing would report statistics of nothing. */
TEST(an_inference_over_an_empty_flow)
{
    TEST_MAY_ERROR("Training failed");
    tp_dataflow *none = tp_df_new("mine", 0, 0);
    none->next = nothing_at_all;
    none->size = size_of_nothing;
    tp_train_config c = {
        TP_CALLBACKS(tp_cb_inference_runner(none, .inferencers = {tp_inf_scalar_stats(.names = {"cost"})})),
        .model = LINE_MODEL, .max_epoch = 1, .steps_per_epoch = 1};
    c.dataflow = tp_df_batch(line_data(), 4);
    CHECK_ERR(tp_launch_train_with_config(&c, tp_simple_trainer()), TP_ERR_ARG, "the input has no datapoints");
}

/* A step of the program's own that wants the usual one calls the pointer that was there before. */
static tp_status calls_itself(tp_trainer *t) { return tp_trainer_run_step(t); }
TEST(a_run_step_that_calls_itself)
{
    TEST_MAY_ERROR("Training failed");
    tp_train_config c = {.model = LINE_MODEL, .max_epoch = 1, .steps_per_epoch = 1};
    c.dataflow = tp_df_batch(line_data(), 4);
    tp_trainer *t = tp_simple_trainer();
    t->run_step = calls_itself;
    CHECK_ERR(tp_launch_train_with_config(&c, t), TP_ERR_STATE,
              "SimpleTrainer: a step starts another one: a run_step of yours");
}

static tp_session *no_session_at_all(tp_session_creator *c, tp_graph *g)
{
    (void)c, (void)g;
    return NULL;
}
TEST(a_session_creator_without_a_sentence)
{
    TEST_MAY_ERROR("Training did not start");
    tp_train_config c = {.model = LINE_MODEL, .max_epoch = 1, .steps_per_epoch = 1};
    c.dataflow = tp_df_batch(line_data(), 4);
    tp_trainer *t = tp_simple_trainer();
    t->creator.create = no_session_at_all;
    CHECK_ERR(tp_launch_train_with_config(&c, t), TP_ERR, "the session creator returned NULL without a sentence");
}

TEST(a_field_of_integers_takes_integers)
{
    int32_t field = 7;
    double value = 0;
    tp_hyper_param *p = tp_param_field("n", &field, TP_I32);
    CHECK_ERR(p->set_value(p, 0.5), TP_ERR_DTYPE, "the parameter 'n' is int32: it cannot be set to 0.5");
    CHECK_ERR(p->set_value(p, 3e9), TP_ERR_DTYPE, "it cannot be set to 3e+09");
    CHECK(field == 7);
    CHECK_OK(p->set_value(p, -3));
    CHECK(field == -3 && p->get_value(p, &value) == TP_OK && value == -3);
    tp_hyper_param_free(p);
}

#if !defined(_WIN32) && !defined(TP_NO_FILES)
/* Digits that are too large for their type are no infinity; "inf" and "nan" are what they say. */
TEST(numbers_of_a_csv_that_are_too_large)
{
    const char *path = tp_test_path(tp_test_tmpdir(), "large.csv");
    static const struct {
        const char *text;
        tp_dtype dtype;
        bool fits;
    } row[] = {{"1e39\n", TP_F32, false}, {"1e39\n", TP_F64, true}, {"-1e400\n", TP_F64, false},
               {"inf\n", TP_F32, true},   {"NaN\n", TP_F64, true},  {"3e38\n", TP_F32, true}};
    for (int i = 0; i < TP_COUNT(row); i++) {
        const tp_csv_column column[] = {{.dtype = row[i].dtype}};
        CHECK(tp_test_write(path, row[i].text, strlen(row[i].text)));
        tp_dataflow *df = tp_df_csv(path, column, 1, .header = TP_NO);
        CHECK_MSG((tp_df_status(df) == TP_OK) == row[i].fits, "%d: %s", i, tp_last_error());
        if (!row[i].fits) CHECK_HAS(tp_last_error(), "large.csv:1");
        tp_df_free(df);
    }
}

TEST(a_list_of_images_with_a_byte_order_mark)
{
    char folder[300], path[400];
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    snprintf(path, sizeof path, "%s/list.txt", folder);
    CHECK(tp_test_write(path, "\xEF\xBB\xBFnone.png 1\n", 14));
    tp_dataflow *df = tp_df_image_list(path, .dir = folder);
    tp_datapoint dp = {0, NULL, 0};
    CHECK(tp_df_next(df, &dp) != TP_OK);
    CHECK_HAS(tp_last_error(), "/none.png cannot be opened");
    tp_df_free(df);
    tp_datapoint_free(&dp);
}

/* Batches behind a failure come once, from any number of processes. */
static tp_status row_4_fails(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    return call->index == 4 ? tp_fail(TP_ERR_FORMAT, "row 4 is bad") : tp_datapoint_copy(out, in);
}
TEST(batches_behind_a_failure)
{
    for (int n = 1; n <= 3; n++) {
        char seen[256] = "";
        static const tp_spec one[] = {TP_SPEC("i", TP_F32)};
        tp_dataflow *df = tp_df_map(tp_df_fake(one, 1, .size = 12), row_4_fails);
        df = tp_df_multi_process(tp_df_batch(df, 3, .remainder = true), n);
        tp_datapoint dp = {0, NULL, 0};
        tp_status st;
        for (int k = 0; k < 20 && (st = tp_df_next(df, &dp)) != TP_END; k++)
            snprintf(seen + strlen(seen), sizeof seen - strlen(seen), " %lld",
                     st == TP_OK ? (long long)dp.c[0].shape.dim[0] : (long long)st);
        CHECK_STR(seen, " 3 -7 3 3 1");
        tp_df_free(df);
        tp_datapoint_free(&dp);
    }
}

/* Where the list of the checkpoints is gone, the one that an interrupted training wrote is the newest. */
static tp_status interrupts(tp_callback *cb)
{
    return cb->train->epoch_num == 2 && cb->train->local_step == 1 ? TP_INTR : TP_OK;
}
TEST(an_interrupted_training_goes_on_without_its_list)
{
    TEST_MAY_ERROR("");
    char folder[300];
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    char *kept = NULL;
    size_t kept_size = 0;
    for (int again = 0; again < 2; again++) {
        CHECK_OK(tp_logger_set_dir(folder, again ? 'k' : 'd'));
        tp_callback *cb = tp_callback_new("Interrupts", 0);
        if (!again) cb->trigger_step = interrupts;
        tp_train_config c = {TP_CALLBACKS(cb, tp_cb_model_saver()), .model = LINE_MODEL, .max_epoch = 3,
                             .steps_per_epoch = 4, .auto_resume = true};
        c.dataflow = tp_df_batch(line_data(), 4);
        keep_the_log();
        const tp_status st = tp_launch_train_with_config(&c, tp_simple_trainer());
        tp_set_log(NULL, NULL);
        CHECK(st == (again ? TP_OK : TP_INTR));
        char path[400];
        snprintf(path, sizeof path, "%s/interrupted.npz", folder);
        CHECK(tp_file_exists(path) == !again);
        if (!again) CHECK_OK(tp_file_read(path, false, 0, &kept, &kept_size));
        else CHECK(tp_test_write(path, kept, kept_size)); /* as if the process had been killed before it was deleted */
        snprintf(path, sizeof path, "%s/checkpoint", folder);
        CHECK(remove(path) == 0);
        if (again) CHECK_HAS(logged, "checkpoint' is missing, but there are checkpoints");
        if (again) CHECK_HAS(logged, "interrupted");
        CHECK_OK(tp_logger_set_dir(NULL, 0));
    }
    tp_free(kept);
    CHECK_OK(tp_logger_set_dir(folder, 'k')); /* then it is not the newest */
    tp_train_config c = {TP_CALLBACKS(tp_cb_model_saver()), .model = LINE_MODEL, .max_epoch = 3, .steps_per_epoch = 4,
                         .auto_resume = true};
    c.dataflow = tp_df_batch(line_data(), 4);
    keep_the_log();
    CHECK_OK(tp_launch_train_with_config(&c, tp_simple_trainer()));
    tp_set_log(NULL, NULL);
    CHECK_HAS(logged, "/model-12");
    CHECK(!strstr(logged, "interrupted"));
    CHECK_OK(tp_logger_set_dir(NULL, 0));
}
#endif

/* A best model that is looked for within epochs needs a statistic that comes at their end. */
static tp_status says_score(tp_callback *cb)
{
    return tp_monitors_put_scalar(cb->train->monitors, "score", (double)cb->train->epoch_num);
}
TEST(a_statistic_of_the_end_of_an_epoch_is_looked_for_within_it)
{
    TEST_MAY_ERROR("Training failed");
    for (int reports = 0; reports < 2; reports++) {
        CHECK_OK(tp_logger_set_dir(tp_test_tmpdir(), 'k'));
        tp_callback *cb = tp_callback_new("Score", 0);
        if (reports) cb->trigger_epoch = says_score;
        tp_train_config c = {
            TP_CALLBACKS(cb, tp_cb_model_saver(), tp_cb_periodic_trigger(tp_cb_min_saver("score"), .every_k_steps = 2)),
            .model = LINE_MODEL, .max_epoch = 3, .steps_per_epoch = 8};
        c.dataflow = tp_df_batch(line_data(), 4);
        const tp_status st = tp_launch_train_with_config(&c, tp_simple_trainer());
        if (reports) CHECK_OK(st);
        else CHECK_ERR(st, TP_ERR_NAME, "nobody has reported a statistic 'score'");
        CHECK_OK(tp_logger_set_dir(NULL, 0));
    }
}

/* A node that was not made, or NULL for a value, is a mistake of the graph: it is not dropped from an assignment or a group. */
TEST(what_was_not_made_is_not_left_out)
{
    for (int how = 0; how < 6; how++) {
        tp_graph *g = tp_graph_new(NULL), *other = tp_graph_new(NULL);
        tp_node *v = tp_get_scalar_variable(g, "v", 1), *x = tp_const(g, 1.0f), *bad = tp_square(NULL);
        tp_node *nodes[] = {x, NULL, how == 5 ? tp_const(other, 1.0f) : bad};
        if (how == 0) tp_assign(v, NULL, NULL);
        if (how == 1) tp_assign_sub(v, bad, NULL);
        if (how == 2) CHECK(tp_is_poison(tp_group(g, nodes, 3, NULL)));
        if (how == 3) CHECK(tp_is_poison(tp_with_dependencies(x, nodes, 3)));
        if (how == 4) CHECK(!tp_is_poison(tp_group(g, nodes, 2, NULL))); /* NULL entries are skipped */
        if (how == 5) tp_group(g, nodes, 3, NULL);
        static const char *const sentence[] = {"assign: input 0 is NULL",
                                               "assign_sub: input 0 was not made",
                                               "group: input 2 was not made",
                                               "identity: input 2 was not made",
                                               "",
                                               "group: input 2 belongs to another graph"};
        CHECK(tp_graph_status(g) == (how == 4 ? TP_OK : TP_ERR_ARG));
        if (how != 4) CHECK_HAS(tp_graph_error(g), sentence[how]);
        tp_graph_free(g);
        tp_graph_free(other);
    }
}

static tp_status fails_without_a_sentence(tp_trainer *t) { return (void)t, TP_ERR; }
static tp_status fetches_nothing(tp_trainer *t)
{
    tp_node *none = NULL;
    return tp_hooked_run(t->state.hooked_session, &none, 1, NULL);
}
TEST(mistakes_of_a_trainer_of_ones_own_are_named)
{
    TEST_MAY_ERROR("");
    static const char *const sentence[] = {
        "SimpleTrainer: a function of the program returned TP_ERR without a sentence", "tp_hooked_run: fetch 0 is NULL",
        "SimpleTrainer: .n_devices is -1"};
    for (int how = 0; how < 3; how++) {
        tp_trainer *t = tp_simple_trainer();
        if (how == 0) t->initialize_hooks = fails_without_a_sentence;
        if (how == 1) t->run_step = fetches_nothing;
        if (how == 2) t->n_devices = -1;
        tp_train_config c = {.model = LINE_MODEL, .max_epoch = 1, .steps_per_epoch = 2};
        c.dataflow = tp_df_batch(line_data(), 4);
        CHECK_ERR(tp_launch_train_with_config(&c, t), how ? TP_ERR_ARG : TP_ERR, sentence[how]);
    }
}

static tp_status line_of_four(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    tp_status st = user || pass < 0 || index > 3 ? TP_END : tp_datapoint_resize(dp, 2);
    for (int i = 0; i < 2 && st == TP_OK; i++) st = tp_tensor_resize(&dp->c[i], TP_F32, tp_make_shape(1));
    return st;
}
/* What reads a whole pass would never come back from a flow that has no end. */
TEST(endless_flows_are_refused)
{
    TEST_MAY_ERROR("Training failed");
    static const char *const names[] = {"x", "y"};
    const char *path = tp_test_path(tp_test_tmpdir(), "endless");
    tp_tensor mean = TP_EMPTY;
    tp_dataflow *df = tp_df_repeated(line_data(), -1);
    CHECK_ERR(tp_df_per_pixel_mean(df, 0, &mean), TP_ERR_ARG,
              "tp_df_per_pixel_mean: the passes of tp_df_repeated have no end: put tp_df_take or tp_df_fixed_size "
              "around it");
    CHECK_ERR(tp_df_per_channel_mean(df, 0, &mean), TP_ERR_ARG, "tp_df_per_channel_mean: the passes of tp_df_repeated");
#ifndef TP_NO_FILES
    CHECK_ERR(tp_df_save_tfrecord(df, path, names, 2), TP_ERR_ARG, "tp_df_save_tfrecord: the passes of tp_df_repeated");
    CHECK(!tp_file_exists(path));
#endif
    tp_df_free(df);
    tp_tensor_free(&mean);
    for (int way = 0; way < 2; way++) {
        tp_dataflow *four = tp_df_from_generator(line_of_four, NULL); /* the size is not known */
        tp_dataflow *batches = tp_df_batch(way ? four : tp_df_repeated(four, -1), 2);
        tp_inferencer *stats = tp_inf_scalar_stats(.names = {"cost"});
        tp_callback *cb = way ? tp_cb_inference_runner(.input = tp_queue_input(batches), .inferencers = {stats})
                              : tp_cb_inference_runner(batches, .inferencers = {stats});
        tp_train_config c = {TP_CALLBACKS(cb), .model = LINE_MODEL, .max_epoch = 1, .steps_per_epoch = 1};
        c.dataflow = tp_df_batch(line_data(), 4);
        CHECK_ERR(tp_launch_train_with_config(&c, tp_simple_trainer()), TP_ERR_ARG,
                  "have no end, and its size is unknown: give tp_df_take or tp_df_fixed_size");
    }
}

static tp_dataflow *no_flow_for_thread_1(void *user, int i) { return i == 1 && !user ? NULL : line_data(); }
TEST(a_thread_without_a_flow)
{
    CHECK(tp_df_multi_thread(no_flow_for_thread_1, 3) == NULL);
    CHECK_STR(tp_last_error(), "tp_df_multi_thread: get_df returned NULL for thread 1 of 3 (or found no memory)");
}

/* Some callbacks have no trigger: they do their work in their other functions. */
TEST(a_periodic_trigger_of_what_has_none)
{
    for (int i = 0; i < 2; i++) {
        tp_callback *cb = i ? tp_cb_lambda(.trigger = report_score) : tp_cb_estimated_time_left();
        keep_the_log();
        CHECK_OK(train_with(tp_cb_periodic_trigger(cb, .every_k_epochs = 2), 1, 1));
        tp_set_log(NULL, NULL);
        CHECK((strstr(logged, "EstimatedTimeLeft has no trigger, so it is never called at these times") != NULL) == !i);
    }
}

TEST(points_in_the_wrong_component)
{
    static const unsigned char pixels[1 * 8 * 8 * 3];
    tp_tensor t[2];
    tp_datapoint dp = TP_EMPTY;
    memset(t, 0, sizeof t);
    tp_tensor_view(&t[0], TP_U8, tp_make_shape(1, 8, 8, 3), (void *)(uintptr_t)pixels);
    tp_tensor_view(&t[1], TP_U8, tp_make_shape(1, 8), (void *)(uintptr_t)pixels);
    tp_dataflow *df = tp_df_augment_coordinates(tp_df_from_arrays(.arrays = t, .n = 2, .shuffle = TP_NO),
                                                tp_aug_flip(.horiz = TP_YES));
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_DTYPE,
              "component 1 (.coords_index): points must be float32, these are uint8");
    CHECK_HAS(tp_last_error(), "[tp_df_augment_coordinates: pass 0, datapoint 0]");
    tp_df_free(df);
    tp_datapoint_free(&dp);
}

TEST(a_rotation_without_an_angle)
{
    for (int i = 0; i < 2; i++) {
        tp_augmentor *aug = i ? tp_aug_rotation_and_crop_valid() : tp_aug_rotation();
        CHECK_ERR(tp_aug_status(aug), TP_ERR_ARG, "max_deg is 0 and step_deg 0: max_deg must be positive");
        tp_aug_free(aug);
    }
}

/* A transform's text has the order of colours as it was given. */
TEST(the_text_of_an_order_of_colours)
{
    static const char *const texts[] = {"Contrast(factor=1, clip=1)",
                                        "Contrast(factor=1, clip=1, rgb=1)",
                                        "Contrast(factor=1, clip=1, rgb=0)",
                                        "Saturation(factor=1, clip=1, rgb=1)",
                                        "Saturation(factor=1, clip=1, rgb=0)",
                                        "Hue(hue=30, rgb=1)",
                                        "Hue(hue=30, rgb=0)"};
    for (int i = 0; i < TP_COUNT(texts); i++) {
        const tp_tri rgb = i == 0 ? TP_UNSET : i % 2 ? TP_YES : TP_NO;
        tp_augmentor *aug = i < 3   ? tp_aug_contrast(.factor_range = {1, 1}, .rgb = rgb)
                            : i < 5 ? tp_aug_saturation(.alpha = TP_ZERO, .rgb = rgb)
                                    : tp_aug_hue(.range = {30, 30}, .rgb = rgb);
        tp_transform t = TP_EMPTY;
        char text[200];
        CHECK_OK(tp_aug_draw(aug, 8, 8, 1, 0, &t));
        CHECK_STR(tp_transform_text(&t, text, sizeof text), texts[i]);
        tp_transform_free(&t);
        tp_aug_free(aug);
    }
}

/* Some augmentors mean pixels of 0 to 255. */
TEST(float_images_of_0_to_1)
{
    float pixels[8 * 8 * 3];
    tp_tensor image = TP_EMPTY, out = TP_EMPTY;
    tp_tensor_view(&image, TP_F32, tp_make_shape(8, 8, 3), pixels);
    for (int way = 0; way < 3; way++) { /* values of 0 to 1; black; values of 0 to 255, dark but for one */
        for (int i = 0; i < TP_COUNT(pixels); i++) pixels[i] = way == 1 ? 0.0f : (float)(i % 10) * 0.1f;
        if (way == 2) pixels[TP_COUNT(pixels) - 1] = 255;
        for (int k = 0; k < 8; k++) {
            tp_augmentor *aug = k == 0   ? tp_aug_gamma()
                                : k == 1 ? tp_aug_jpeg_noise()
                                : k == 2 ? tp_aug_salt_pepper_noise()
                                : k == 3 ? tp_aug_to_uint8()
                                : k == 4 ? tp_aug_lighting(.std = 1)
                                : k == 5 ? tp_aug_brightness(.delta = 63)
                                : k == 6 ? tp_aug_contrast(.factor_range = {0.8f, 1.2f}) /* fits any range */
                                         : tp_aug_saturation();
            tp_transform t = TP_EMPTY;
            keep_the_log();
            CHECK_OK(tp_aug_draw(aug, 8, 8, 1, k, &t));
            CHECK_OK(tp_aug_apply_image(&t, &image, &out));
            tp_set_log(NULL, NULL);
            CHECK_MSG((strstr(logged, "takes pixels for values of 0 to 255") != NULL) == (way == 0 && k < 6),
                      "way %d, augmentor %d: %s", way, k, logged);
            tp_transform_free(&t);
            tp_aug_free(aug);
        }
    }
    tp_tensor_free(&out);
}

TEST(shifts_and_affine_maps_that_change_nothing)
{
    for (int i = 0; i < 7; i++) {
        keep_the_log();
        tp_augmentor *aug = i == 0   ? tp_aug_shift()
                            : i == 1 ? tp_aug_affine(.border = TP_EDGE_WRAP)
                            : i == 2 ? tp_aug_shift(.vert_frac = 0.1f)
                            : i == 3 ? tp_aug_affine(.shear = 1)
                            : i == 4 ? tp_aug_affine(.scale = {0.5f, 1})
                            : i == 5 ? tp_aug_affine(.translate_frac = {0, 0.1f})
                                     : tp_aug_affine(.rotate_max_deg = 1);
        tp_set_log(NULL, NULL);
        CHECK_OK(tp_aug_status(aug));
        if (i == 0) CHECK_HAS(logged, "tp_aug_shift changes no image: give .horiz_frac or .vert_frac");
        else if (i == 1)
            CHECK_HAS(logged,
                      "tp_aug_affine changes no image: give .scale, .translate_frac, .rotate_max_deg or .shear");
        else CHECK_MSG(!strstr(logged, "changes no image"), "%d: %s", i, logged);
        tp_aug_free(aug);
    }
}

/* A mistake in any flow has the line of its constructor, not that of a flow above it. */
TEST(flows_name_the_line_of_their_call)
{
    static const tp_spec spec = TP_SPEC("x", TP_F32, 2);
    tp_dataflow *df[11] = {NULL}, *below;
    int line[11];
    /* clang-format off */
    line[0] = __LINE__; df[0] = tp_df_take(tp_df_fake(&spec, 1), 0);
    line[1] = __LINE__; df[1] = tp_df_repeated(tp_df_fake(&spec, 1), 0);
    line[2] = __LINE__; df[2] = tp_df_shard(tp_df_fake(&spec, 1), 2, 1);
    line[3] = __LINE__; df[3] = tp_df_select(tp_df_fake(&spec, 1), NULL, 1);
    line[4] = __LINE__; df[4] = tp_df_cast(tp_df_fake(&spec, 1), -1, TP_F32, 0);
    line[5] = __LINE__; df[5] = tp_df_concat(NULL, 0);
    line[6] = __LINE__; df[6] = tp_df_join(NULL, 0);
    line[7] = __LINE__; df[7] = tp_df_zip(NULL, 0);
    line[8] = __LINE__; df[8] = tp_df_repeated_point(tp_df_fake(&spec, 1), 0);
    line[9] = __LINE__; df[9] = tp_df_from_queue(NULL);
    line[10] = __LINE__; below = tp_df_take(tp_df_fake(&spec, 1), -1);
    df[10] = tp_df_zip(&below, 1);
    /* clang-format on */
    for (int i = 0; i < TP_COUNT(df); i++) {
        char place[40];
        snprintf(place, sizeof place, "test_newcomer.c:%d: tp_df_", line[i]);
        CHECK(tp_df_status(df[i]) == TP_ERR_ARG);
        CHECK_MSG(strncmp(tp_last_error(), place, strlen(place)) == 0, "%d: %s", line[i], tp_last_error());
        tp_df_free(df[i]);
    }
    below = (tp_df_take)(tp_df_fake(&spec, 1), 0); /* without a place it gets none of the flow above */
    below = tp_df_repeated(below, 2);
    CHECK(tp_df_status(below) == TP_ERR_ARG);
    CHECK_STR(tp_last_error(), "tp_df_take: 0 datapoints: take at least 1");
    tp_df_free(below);
}

/* ---- a flow that plays with what a callback owns and with a predictor, on the thread of a queue ---- */

typedef struct player {
    double skill;
    int unset; /* number of datapoints made before the training gave `skill` its first value */
    tp_predictor *predictor;
} player;
static tp_status play(void *user, int64_t pass, int64_t i, tp_datapoint *dp)
{
    player *p = (player *)user;
    const float x = (float)(i % 4);
    tp_tensor view = {0};
    const tp_tensor *y;
    (void)pass;
    p->unset += p->skill == 0;
    tp_tensor_view(&view, TP_F32, tp_make_shape(1, 1), &x);
    tp_status st = p->predictor ? tp_predict(p->predictor, &view, &y) : TP_OK;
    if (st == TP_OK) st = tp_datapoint_resize(dp, 2);
    for (int c = 0; c < 2 && st == TP_OK; c++) {
        if ((st = tp_tensor_resize(&dp->c[c], TP_F32, tp_make_shape(1))) == TP_OK)
            tp_tensor_set(&dp->c[c], 0, c ? 3 * x + 1 : x);
    }
    return st;
}
static tp_status meet_the_player(tp_callback *cb)
{
    player *p = (player *)cb->user;
    p->predictor = tp_trainer_get_predictor(cb->train->trainer, (const char *const[]){"x"}, 1,
                                            (const char *const[]){"prediction"}, 1, 0);
    return p->predictor ? TP_OK : TP_ERR;
}
static tp_status nothing_was_played_too_early(tp_callback *cb)
{
    CHECK_MSG(((player *)cb->user)->unset == 0, "%d", ((player *)cb->user)->unset);
    return TP_OK;
}
TEST(a_flow_plays_with_what_the_training_owns)
{
    for (int run = 0; run < 10; run++) {
        tp_train_config c = line_config(3);
        tp_callback *owner = tp_callback_new("Player", sizeof(player));
        owner->setup_graph = meet_the_player;
        owner->after_train = nothing_was_played_too_early;
        tp_df_free(c.dataflow);
        c.dataflow = tp_df_batch(tp_df_from_generator(play, .user = owner->user, .size = 1000), 4);
        c.steps_per_epoch = 5;
        tp_callback *cb[] = {owner, tp_cb_scheduled_hyper_param_setter(
                                        NULL, .schedule = {{0, 1}, {2, 2}},
                                        .param = tp_param_field("skill", &((player *)owner->user)->skill, TP_F64))};
        c.callbacks = cb, c.n_callbacks = 2;
        CHECK_OK(tp_launch_train_with_config(&c, tp_queue_input_trainer()));
    }
}

/* ---- two threads with one predictor: a call that is refused must not change what the other one reads ---- */

static tp_node *tenfold(tp_graph *g, tp_node *const *in, void *user)
{
    (void)g, (void)user;
    return tp_named(tp_affine(in[0], 10, 0), "y");
}
typedef struct crowd {
    tp_predictor *p;
    int rows, failed;
} crowd;
static void press(void *user)
{
    crowd *c = (crowd *)user;
    float *x = (float *)calloc((size_t)c->rows,
                               sizeof *x); /* exactly as large as the input: a checker sees each read beyond it */
    for (int i = 0; i < 3000 && x; i++) {
        tp_tensor view = {0};
        const tp_tensor *y;
        tp_tensor_view(&view, TP_F32, tp_make_shape(c->rows, 1), x);
        const tp_status st = tp_predict(c->p, &view, &y);
        if (st != TP_OK && (st != TP_ERR_STATE || !strstr(tp_last_error(), "two runs at a time"))) c->failed++;
    }
    free(x);
}
TEST(one_predictor_for_two_threads)
{
    const tp_spec x = TP_SPEC("x", TP_F32, TP_ANY, 1);
    tp_predict_config c = {.inputs = &x,
                           .n_inputs = 1,
                           .build_graph = tenfold,
                           .output_names = (const char *const[]){"y"},
                           .n_output_names = 1};
    tp_predictor *p = tp_offline_predictor(&c);
    crowd few = {p, 1, 0}, many = {p, 256, 0};
    tp_thread *other = NULL;
    if (CHECK(p) && CHECK_OK(tp_thread_start(&other, press, &many))) {
        press(&few);
        tp_thread_join(other);
    }
    CHECK(few.failed == 0 && many.failed == 0);
    tp_predictor_free(p);
}

TEST_MAIN()
