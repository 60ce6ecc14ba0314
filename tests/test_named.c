/* An option that is taken by name is what it says: .rate = 0 is the zero that a struct spells TP_ZERO, .use_bias = false is TP_NO. Of
 * every option of every descriptor that needs it (tests/zero_named.h), and of calls. The same file is compiled as C++20. */
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include "tp_layers.h"
#include "tp_export.h"
#include "tp_import.h"
#include "tp_test.h"

/* One option, by name, as a number; `text` is what the macro is given. */
#ifdef __cplusplus
#define BY_NAME(part_, struct_, field_, value_) \
    (TP__CXX(part_, struct_, 0, , "." #field_ " = x", .field_ = value_)->field_)
#define NOT_NAMED(part_, struct_, field_) (TP__CXX(part_, struct_, 0, , "")->field_)
#else
#define BY_NAME(part_, struct_, field_, value_) \
    (TP__NAMED(part_, struct_, "." #field_ " = x", .field_ = value_)->field_)
#define NOT_NAMED(part_, struct_, field_) (TP__NAMED(part_, struct_, "", 0)->field_)
#endif

TEST(each_option_takes_a_zero)
{
    int n = 0;
#define NAMED(part_, struct_, field_, spelling_)                                                        \
    CHECK_MSG((double)BY_NAME(part_, struct_, field_, 0) == (double)spelled(spelling_) &&               \
                  (double)BY_NAME(part_, struct_, field_, 0) != 0,                                      \
              "%s.%s: a zero by name is not %s", #struct_, #field_, #spelling_);                        \
    CHECK_MSG((double)BY_NAME(part_, struct_, field_, spelling_) == (double)spelled(spelling_),         \
              "%s.%s: %s by name is not itself", #struct_, #field_, #spelling_);                        \
    CHECK_MSG((double)BY_NAME(part_, struct_, field_, 1) == 1, "%s.%s: 1 is not 1", #struct_, #field_); \
    CHECK_MSG(NOT_NAMED(part_, struct_, field_) == 0, "%s.%s: not given is not 0", #struct_, #field_);  \
    n++;
#define spelled(x) (x)
#include "zero_named.h"
#undef NAMED
    CHECK(n > 80);
}

static tp_graph *training_graph(void)
{
    tp_graph *g = tp_graph_new(TP_OPTIONS(tp_graph_config, .seed = 7));
    tp_tower_desc tower;
    memset(&tower, 0, sizeof tower);
    tower.is_training = true;
    tp_tower_enter(g, &tower);
    return g;
}
static const int64_t image_shape[4] = {2, 8, 8, 3};
static tp_node *image_of(tp_graph *g) { return tp_placeholder(g, "x", TP_F32, tp_make_shape_n(4, image_shape)); }

TEST(calls_take_true_and_false)
{
    for (int use = 0; use < 2; use++) {
        tp_graph *g = training_graph();
        tp_node *x = image_of(g);
        tp_conv2d(x, "named", .filters = 4, .kernel_size = 3, .use_bias = use != 0);
        TP_ARGSCOPE(g, conv2d, .filters = 4, .kernel_size = 3, .use_bias = use != 0)
        {
            tp_conv2d(x, "inherits");
            tp_conv2d(x, "overrides", .use_bias = !use);
            tp_conv2d(x, "as_if_not_given", .use_bias = TP_UNSET);
        }
        tp_conv2d_desc like;
        memset(&like, 0, sizeof like);
        like.use_bias = use ? TP_NO : TP_YES;
        tp_conv2d(x, "asks_another", .filters = like /* a space */.use_bias == TP_NO ? 4 : 8, .kernel_size = 3);
        tp_linear(x, TP_CONV2D("chained", .filters = 4, .kernel_size = 3, .use_bias = use != 0));
        CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g));
        CHECK((tp_find_variable(g, "named/b") != NULL) == (use != 0));
        CHECK((tp_find_variable(g, "inherits/b") != NULL) == (use != 0));
        CHECK((tp_find_variable(g, "overrides/b") != NULL) == (use == 0));
        CHECK((tp_find_variable(g, "as_if_not_given/b") != NULL) == (use != 0));
        CHECK((tp_find_variable(g, "chained/b") != NULL) == (use != 0));
        CHECK(tp_find_variable(g, "asks_another/b") != NULL); /* another's option is no option of this call */
        tp_graph_free(g);
    }
}

/* Options whose default is false: false in a call is false, also where the argscope says true. */
TEST(false_wins_over_an_argscope)
{
    for (int use = 0; use < 3; use++) { /* false, true, not given */
        tp_graph *g = training_graph();
        tp_node *x = image_of(g), *steps = tp_placeholder(g, "steps", TP_F32, tp_make_shape(2, 3, 4));
        tp_rnn_state state;
        memset(&state, 0, sizeof state);
        TP_ARGSCOPE(g, depthwise_conv2d, .kernel_size = 3, .use_bias = true)
        {
            if (use == 2) tp_depthwise_conv2d(x, "depth");
            else tp_depthwise_conv2d(x, "depth", .use_bias = use != 0);
        }
        TP_ARGSCOPE(g, softmax_layer, .use_temperature = true)
        {
            if (use == 2) tp_linear(x, TP_SOFTMAX("soft"));
            else tp_linear(x, TP_SOFTMAX("soft", .use_temperature = use != 0));
        }
        TP_ARGSCOPE(g, gru, .time_major = true)
        {
            if (use == 2) tp_gru(steps, "gru", .units = 5, .state = &state);
            else tp_gru(steps, "gru", .units = 5, .time_major = use != 0, .state = &state);
        }
        CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g));
        CHECK((tp_find_variable(g, "depth/b") != NULL) == (use != 0));
        CHECK((tp_find_variable(g, "soft/invtemp") != NULL) == (use != 0));
        CHECK(state.h && state.h->shape.dim[0] == (use ? 3 : 2));
        tp_graph_free(g);
    }
}

TEST(variables_are_frozen_in_a_block)
{
    tp_graph *g = training_graph();
    tp_node *x = image_of(g);
    TP_FREEZE_VARIABLES(g, .skip_collection = true) tp_conv2d(x, "frozen", .filters = 4, .kernel_size = 3);
    TP_FREEZE_VARIABLES(g, .stop_gradient = false, .skip_collection = false)
    tp_conv2d(x, "free", .filters = 4, .kernel_size = 3);
    tp_conv2d(x, "after", .filters = 4, .kernel_size = 3);
    CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g));
    CHECK(!tp_find_variable(g, "frozen/W")->trainable);
    CHECK(tp_find_variable(g, "free/W")->trainable && tp_find_variable(g, "after/W")->trainable);
    tp_graph_free(g);
}

/* Twelve layers in one scope, the first and the last of which are looked at. */
TEST(an_argscope_is_of_twelve_layers)
{
    tp_graph *g = training_graph();
    const int64_t shape[4] = {2, 3, 8, 8};
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(4, shape)), *y = NULL;
    TP_ARGSCOPE(g,
                (conv2d, max_pooling, avg_pooling, global_avg_pooling, conv2d_transpose, deconv2d, depthwise_conv2d,
                 fixed_unpooling, caffe_bilinear_upsample, layer_norm, instance_norm, group_norm),
                .data_format = TP_NCHW)
    {
        y = tp_conv2d(x, "first", .filters = 4, .kernel_size = 3);
        tp_group_norm(y, "last", .groups = 2);
        tp_max_pooling(y, "pool", .pool_size = 2);
    }
    CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g));
    const int64_t made[4] = {2, 4, 8, 8};
    for (int d = 0; d < 4; d++) CHECK(y->shape.dim[d] == made[d]);
    const tp_variable *gamma = tp_find_variable(g, "last/gamma");
    CHECK(gamma != NULL && tp_shape_size(&gamma->shape) == 4);
    tp_graph_free(g);
}

TEST(a_zero_is_zero_and_nothing_is_the_default)
{
    tp_graph *seeds[2] = {tp_graph_new(TP_OPTIONS(tp_graph_config, .seed = 0)), tp_graph_new(NULL)};
    CHECK(tp_graph_seed(seeds[0]) == 0 && tp_graph_seed(seeds[1]) == 42);
    tp_graph_free(seeds[0]);
    tp_graph_free(seeds[1]);

    tp_graph *g = training_graph();
    tp_node *x = image_of(g), *lr = tp_get_scalar_variable(g, "learning_rate", 0.1f);
    tp_node *all = tp_dropout(x, "none", .rate = 0), *some = tp_dropout(x, "some");
    CHECK_STR(tp_node_name(tp_dropout(x)), "Dropout"); /* every argument but the input may be left out */
    CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g));
    tp_session *s = tp_session_new(g, NULL);
    float ones[2 * 8 * 8 * 3];
    for (int i = 0; i < TP_COUNT(ones); i++) ones[i] = 1;
    tp_feed feed;
    memset(&feed, 0, sizeof feed);
    feed.node = x;
    tp_tensor_view(&feed.value, TP_F32, tp_make_shape_n(4, image_shape), ones);
    tp_node *fetch[2] = {all, some};
    const tp_tensor *out[2];
    if (CHECK_OK(tp_session_run(s, &feed, 1, fetch, 2, out))) {
        int zeros[2] = {0, 0};
        for (int i = 0; i < TP_COUNT(ones); i++)
            for (int k = 0; k < 2; k++) zeros[k] += tp_tensor_get(out[k], i) == 0;
        CHECK(zeros[0] == 0 && zeros[1] > 50); /* half of 384 by default */
    }
    tp_session_free(s);
    tp_optimizer *plain = tp_momentum(lr, .momentum = 0);
    CHECK(plain != NULL);
    CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g));
    tp_graph_free(g);
}

/* The text of a call's options, as a macro passes it on. */
static tp_tri bias_of(const char *text)
{
    tp_conv2d_desc d;
    memset(&d, 0, sizeof d);
    tp__fill_named_zeros(&d, "tp_conv2d_desc", tp__layers_zeros(), text);
    return d.use_bias;
}
TEST(what_is_named_is_read_from_the_text)
{
    CHECK(bias_of("\"conv0\", .filters = 32, .use_bias = 0") == TP_NO);
    CHECK(bias_of(".use_bias = x ? a : b") == TP_NO);
    CHECK(bias_of("{.filters = 32, .use_bias = false}") == TP_NO); /* C++ with braces */
    CHECK(bias_of(".use_bias=0") == TP_NO);
    CHECK(bias_of(". use_bias = 0") == TP_NO);
    CHECK(bias_of("") == 0);
    CHECK(bias_of("\"conv0\", 32, 3") == 0);
    CHECK(bias_of("\", .use_bias = 0\", .filters = 3") == 0);     /* in a literal */
    CHECK(bias_of("\"\\\", .use_bias = 0\", .filters = 3") == 0); /* behind a quote in a literal */
    CHECK(bias_of("f(a, .use_bias = 0), .filters = 3") == 0);     /* an option of another call */
    CHECK(bias_of("f(',', \")\", (b)), .use_bias = 0") == TP_NO);
    CHECK(bias_of(".use_bias_too = 0") == 0); /* another field's name */
    CHECK(bias_of(".use_bias.x = 0") == 0);
    CHECK(bias_of(".filters = d.use_bias") == 0);
    CHECK(bias_of(".filters = a < b, .use_bias = 0") == TP_NO);
    CHECK(bias_of(".a = {1, {2, 3}}, .use_bias = 0") == TP_NO);
    CHECK(bias_of("\"not ended") == 0);
    CHECK(bias_of("f(not ended, .use_bias = 0") == 0);
    CHECK(bias_of("},), .use_bias = 0") == TP_NO);
}

TEST_MAIN()
