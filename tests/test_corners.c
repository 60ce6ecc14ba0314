/* Corners that no other test turned: each of these was found by changing a line of a header that nothing noticed. */
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include "tp_layers.h"
#include "tp_test.h"

static tp_shape shape(int n, int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t dim[4] = {a, b, c, d};
    return tp_make_shape_n(n, dim);
}
static tp_feed feed(tp_node *x, tp_dtype dtype, tp_shape s, const void *data)
{
    tp_feed f;
    memset(&f, 0, sizeof f);
    f.node = x;
    tp_tensor_view(&f.value, dtype, s, data);
    return f;
}
static char heard[1 << 14];
static void hear(void *user, tp_log_level level, const char *message)
{
    const size_t n = strlen(heard);
    (void)user, (void)level;
    snprintf(heard + n, sizeof heard - n, "%s\n", message);
}
static void listen(void)
{
    heard[0] = 0;
    tp_set_log(hear, NULL);
}

/* ==== >>files and logs ================================================================================ */

TEST(folders_are_made_for_all_whom_the_umask_lets)
{
    static const struct {
        mode_t mask, want;
    } m[] = {{0, 0777}, {022, 0755}, {077, 0700}};
    const char *dir = tp_test_tmpdir();
    for (int i = 0; i < TP_COUNT(m); i++) {
        char name[40];
        struct stat st;
        snprintf(name, sizeof name, "a%d/b/c", i);
        const mode_t before = umask(m[i].mask);
        CHECK_OK(tp_make_dirs(tp_test_path(dir, name)));
        umask(before);
        CHECK(stat(tp_test_path(dir, name), &st) == 0 && (st.st_mode & 0777) == m[i].want);
        name[2] = 0; /* and its parents */
        CHECK(stat(tp_test_path(dir, name), &st) == 0 && (st.st_mode & 0777) == m[i].want);
    }
}

TEST(the_log_directory_ends_without_slashes)
{
    const char *dir = tp_test_tmpdir();
    CHECK_OK(tp_logger_set_dir(tp_test_path(dir, "run//"), 'k'));
    CHECK_STR(tp_logger_dir(), tp_test_path(dir, "run"));
    CHECK_OK(tp_logger_set_dir(NULL, 0));
    CHECK(tp_logger_dir() == NULL);
}

/* The generated digits are part of what trains to the same bits: who changes how they are drawn changes them all. */
TEST(drawn_digits_have_known_bytes)
{
    tp_df_digits_desc d;
    memset(&d, 0, sizeof d);
    d.which = "train", d.size = 100, d.shuffle = TP_NO;
    tp_dataflow *df = tp_df_digits_(&d);
    tp_datapoint dp;
    uint64_t h = 0;
    int n = 0;
    memset(&dp, 0, sizeof dp);
    CHECK_OK(tp_df_restart(df, 0));
    while (tp_df_next(df, &dp) == TP_OK) {
        unsigned char bytes[784];
        for (int i = 0; i < 784; i++) bytes[i] = (unsigned char)(tp_tensor_get(&dp.c[0], i) * 255 + 0.5);
        h = h * 31 + tp_hash(bytes, sizeof bytes) + (uint64_t)tp_tensor_get(&dp.c[1], 0);
        n++;
    }
    CHECK(n == 100);
    CHECK_MSG(h == 0x5232506e60383bdfu, "the hash is %016llx", (unsigned long long)h);
    tp_datapoint_free(&dp);
    tp_df_free(df);
}

TEST(sizes_of_repeated_flows)
{
    static const float v[3] = {1, 2, 3};
    tp_tensor t;
    memset(&t, 0, sizeof t);
    tp_tensor_view(&t, TP_F32, shape(1, 3, 0, 0, 0), v);
    static const int64_t num[] = {1, 4, -1, INT64_MAX / 2}, want[] = {3, 12, -1, -1};
    for (int i = 0; i < TP_COUNT(num); i++) {
        tp_df_from_arrays_desc a;
        memset(&a, 0, sizeof a);
        a.arrays = &t, a.n = 1;
        tp_dataflow *df = tp_df_repeated(tp_df_from_arrays_(&a), num[i]);
        CHECK_MSG(tp_df_size(df) == want[i], "%lld times 3 is %lld", (long long)num[i], (long long)tp_df_size(df));
        tp_df_free(df);
    }
}

/* ==== >>graphs ======================================================================================== */

TEST(random_numbers_like_another_value)
{
    enum { N = 4000 };
    tp_graph *g = tp_graph_new(NULL);
    float data[N] = {0};
    tp_node *x = tp_placeholder(g, "x", TP_F32, shape(2, TP_ANY, 8, 0, 0));
    tp_node *all[3] = {tp_rand_uniform_like(x, -2, 6), tp_rand_normal_like(x, 3, 0.5f), tp_rand_uniform_like(x, -2, 6)};
    tp_session *s = tp_session_new(g, NULL);
    const tp_tensor *out[3] = {NULL, NULL, NULL};
    const tp_feed f = feed(x, TP_F32, shape(2, N / 8, 8, 0, 0), data);
    CHECK_OK(tp_session_run(s, &f, 1, all, 3, out));
    for (int i = 0; i < 2 && out[i]; i++) {
        double sum = 0, squares = 0, low = 1e9, high = -1e9;
        CHECK(out[i]->shape.ndim == 2 && out[i]->shape.dim[0] == N / 8 && out[i]->shape.dim[1] == 8);
        for (int k = 0; k < N; k++) {
            const double v = tp_tensor_get(out[i], k);
            sum += v, squares += v * v;
            low = v < low ? v : low, high = v > high ? v : high;
        }
        const double mean = sum / N, deviation = sqrt(squares / N - mean * mean);
        if (i == 0) CHECK(low >= -2 && low < -1.9 && high < 6 && high > 5.9);
        CHECK_NEAR(mean, i ? 3 : 2, 0.15, 0);
        CHECK_NEAR(deviation, i ? 0.5 : 8 / sqrt(12), 0.1, 0);
    }
    CHECK(out[0] && memcmp(out[0]->data, out[2]->data, 64) != 0); /* each op has its own */
    tp_session_free(s);
    tp_graph_free(g);
}

/* Long names are names as others: found, saved, loaded. */
TEST(names_of_a_thousand_bytes)
{
    static const int length[] = {254, 255, 256, 1022, 1023};
    for (int i = 0; i < TP_COUNT(length); i++) {
        char name[1100];
        memset(name, 'n', sizeof name);
        name[0] = 'v';
        name[length[i]] = 0;
        tp_graph *g = tp_graph_new(NULL);
        tp_node *v = tp_get_variable_as(g, name, TP_F32, shape(1, 2, 0, 0, 0), tp_init_constant(2.5f));
        CHECK_STR(tp_node_name(v), name);
        CHECK(tp_graph_find(g, name) == v);
        tp_session *s = tp_session_new(g, NULL);
        if (!CHECK_MSG(s != NULL, "%d bytes: %s", length[i], tp_graph_error(g))) continue;
        const char *path = tp_test_path(tp_test_tmpdir(), "m.npz");
        tp_dict d;
        memset(&d, 0, sizeof d);
        CHECK_OK(tp_save_checkpoint(s, path, NULL, 0));
        CHECK_OK(tp_npz_load(path, &d));
        const tp_tensor *t = tp_dict_find(&d, name);
        CHECK_MSG(t && tp_tensor_get(t, 1) == 2.5, "%d bytes", length[i]);
        tp_dict_free(&d);
        tp_session_free(s);
        tp_graph_free(g);
    }
}

TEST(types_that_pow_does_not_mix)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *a = tp_placeholder(g, "a", TP_F32, shape(1, 2, 0, 0, 0)),
            *b = tp_placeholder(g, "b", TP_I32, shape(1, 2, 0, 0, 0));
    CHECK(tp_is_poison(tp_pow(a, b)) && tp_graph_status(g) == TP_ERR_DTYPE);
    CHECK_HAS(tp_graph_error(g), "pow");
    tp_graph_free(g);
}

/* What is fed instead of being made asks for nothing that it was made of: as a value, as a shape, as something to wait for. */
TEST(a_value_fed_in_the_middle)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *never = tp_placeholder(g, "never", TP_F32, shape(1, TP_ANY, 0, 0, 0));
    tp_node *y = tp_square(never), *one = tp_const(g, 1);
    tp_node *fetch[3] = {tp_add(y, one), tp_add(tp_zeros_like(y), one), tp_with_dependencies(tp_add(one, one), &y, 1)};
    static const float v[3] = {5, 6, 7};
    const tp_feed f = feed(y, TP_F32, shape(1, 3, 0, 0, 0), v);
    tp_session *s = tp_session_new(g, NULL);
    for (int i = 0; i < 3; i++) {
        const tp_tensor *out = NULL;
        CHECK_OK(tp_session_run(s, &f, 1, &fetch[i], 1, &out));
        if (out)
            CHECK(tp_tensor_get(out, 0) == (i == 0 ? 6 : i == 1 ? 1 : 2) && tp_tensor_size(out) == (i == 2 ? 1 : 3));
    }
    tp_session_free(s);
    tp_graph_free(g);
}

TEST(a_kernel_larger_than_its_input)
{
    for (int valid = 0; valid < 2; valid++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, shape(4, TP_ANY, 2, 9, 3));
        tp_node *w = tp_get_variable_as(g, "w", TP_F32, shape(4, 3, 3, 3, 4), tp_init_ones());
        tp_conv2d_attrs a;
        memset(&a, 0, sizeof a);
        a.padding = valid ? TP_VALID : TP_SAME;
        tp_node *y = tp_nn_conv2d(x, w, &a);
        CHECK(tp_is_poison(y) == (valid == 1));
        if (valid) CHECK_HAS(tp_graph_error(g), "the kernel (3,3,3,4) is larger than the input (?,2,9,3)");
        tp_graph_free(g);
    }
}

/* A product in half precision whose operands are fed as they are. */
TEST(half_precision_fed_to_a_product)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *a = tp_placeholder(g, "a", TP_F16, shape(2, TP_ANY, 3, 0, 0)),
            *b = tp_placeholder(g, "b", TP_F16, shape(2, 3, 2, 0, 0));
    tp_node *y = tp_matmul(a, b);
    CHECK(y->dtype == TP_F16);
    tp_tensor t[2];
    memset(t, 0, sizeof t);
    CHECK_OK(tp_tensor_resize(&t[0], TP_F16, shape(2, 2, 3, 0, 0)));
    CHECK_OK(tp_tensor_resize(&t[1], TP_F16, shape(2, 3, 2, 0, 0)));
    for (int i = 0; i < 6; i++) tp_tensor_set(&t[0], i, i + 1), tp_tensor_set(&t[1], i, 0.5 * i - 1);
    tp_feed f[2];
    memset(f, 0, sizeof f);
    f[0].node = a, f[0].value = t[0], f[1].node = b, f[1].value = t[1];
    tp_session *s = tp_session_new(g, NULL);
    const tp_tensor *out = NULL;
    CHECK_OK(tp_session_run(s, f, 2, &y, 1, &out));
    for (int i = 0; out && i < 2; i++)
        for (int j = 0; j < 2; j++) {
            double want = 0;
            for (int k = 0; k < 3; k++) want += (3 * i + k + 1) * (0.5 * (2 * k + j) - 1);
            CHECK(out->dtype == TP_F16 && tp_tensor_get(out, 2 * i + j) == want);
        }
    tp_session_free(s);
    tp_tensor_free(&t[0]);
    tp_tensor_free(&t[1]);
    tp_graph_free(g);
}

/* ==== >>layers ======================================================================================== */

TEST(unpooling_by_nothing)
{
    static const int size[][2] = {{0, 0}, {-1, 0}, {2, -3}};
    for (int i = 0; i < TP_COUNT(size); i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, shape(4, TP_ANY, 4, 4, 2));
        tp_fixed_unpooling_desc d;
        memset(&d, 0, sizeof d);
        d.name = "up", d.shape = size[i][0], d.shape_w = size[i][1];
        CHECK(tp_is_poison(tp_fixed_unpooling_(x, &d)) && tp_graph_status(g) == TP_ERR_ARG);
        CHECK_HAS(tp_graph_error(g), "needs a .shape of 1 or more");
        tp_graph_free(g);
    }
}

/* Upsampling where one side of the picture is known and the other is not, as where both are. */
TEST(upsampling_a_half_known_picture)
{
    enum { H = 3, W = 4 };
    float v[H * W], want[4 * H * W];
    for (int i = 0; i < H * W; i++) v[i] = (float)(i * i % 7) - 2;
    for (int known = 3; known >= 0; known--) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, shape(4, 1, known & 1 ? H : TP_ANY, known & 2 ? W : TP_ANY, 1));
        tp_caffe_bilinear_upsample_desc d;
        memset(&d, 0, sizeof d);
        d.name = "up", d.shape = 2;
        tp_node *y = tp_caffe_bilinear_upsample_(x, &d);
        tp_session *s = tp_session_new(g, NULL);
        const tp_feed f = feed(x, TP_F32, shape(4, 1, H, W, 1), v);
        const tp_tensor *out = NULL;
        if (CHECK_MSG(s != NULL, "%s", tp_graph_error(g)) && CHECK_OK(tp_session_run(s, &f, 1, &y, 1, &out)) && out &&
            CHECK(out->shape.dim[1] == 2 * H && out->shape.dim[2] == 2 * W)) {
            if (known == 3) memcpy(want, out->data, sizeof want);
            CHECK(memcmp(want, out->data, sizeof want) == 0);
        }
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* Ghost batch norm where the batch is known, as where it is not. */
TEST(ghost_batch_norm_of_a_known_batch)
{
    float v[8 * 3], want[8 * 3];
    for (int i = 0; i < 24; i++) v[i] = (float)(i * 5 % 11);
    for (int known = 0; known < 2; known++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_tower_desc tower;
        tp_batch_norm_desc d;
        memset(&tower, 0, sizeof tower);
        memset(&d, 0, sizeof d);
        tower.is_training = true;
        d.name = "bn", d.virtual_batch_size = 4;
        tp_tower_enter(g, &tower);
        tp_node *x = tp_placeholder(g, "x", TP_F32, shape(2, known ? 8 : TP_ANY, 3, 0, 0)), *y = tp_batch_norm_(x, &d);
        tp_tower_leave(g);
        tp_session *s = tp_session_new(g, NULL);
        const tp_feed f = feed(x, TP_F32, shape(2, 8, 3, 0, 0), v);
        const tp_tensor *out = NULL;
        if (CHECK_MSG(s != NULL, "%s", tp_graph_error(g)) && CHECK_OK(tp_session_run(s, &f, 1, &y, 1, &out)) && out) {
            if (!known) memcpy(want, out->data, sizeof want);
            CHECK(memcmp(want, out->data, sizeof want) == 0);
            for (int half = 0; half < 2; half++) { /* each four of the batch have mean 0 */
                double sum = 0;
                for (int i = 0; i < 4; i++) sum += (double)((const float *)out->data)[(half * 4 + i) * 3];
                CHECK_NEAR(sum, 0, 1e-5, 0);
            }
        }
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* ==== >>callbacks ===================================================================================== */

static tp_status train_with(tp_callback *cb, int64_t steps)
{
    tp_train_desc t;
    memset(&t, 0, sizeof t);
    t.callbacks = &cb, t.n_callbacks = 1, t.steps_per_epoch = steps, t.max_epoch = 1;
    tp_trainer *trainer = tp_noop_trainer();
    const tp_status st = tp_train(trainer, &t);
    tp_trainer_free(trainer);
    return st;
}

static tp_status vector_variable(tp_callback *cb)
{
    tp_get_variable_as(cb->train->graph, "vector", TP_F32, shape(1, 3, 0, 0, 0), tp_init_ones());
    return TP_OK;
}

TEST(what_should_be_a_scalar_and_is_not)
{
    static const char *const why[] = {"'vector' is not a scalar", "'vector' is not a scalar"};
    for (int i = 0; i < 2; i++) {
        tp_callback *cb[2] = {tp_callback_new("Vector", 0), NULL};
        cb[0]->setup_graph = vector_variable;
        if (i == 0) {
            tp_cb_simple_moving_average_desc d;
            memset(&d, 0, sizeof d);
            d.names[0] = "vector", d.window_size = 3;
            cb[1] = tp_cb_simple_moving_average_(&d);
        } else {
            static const tp_schedule_point when[1] = {{1, 0.5}};
            tp_cb_scheduled_hyper_param_setter_desc d;
            memset(&d, 0, sizeof d);
            d.name = "vector", d.schedule[0] = when[0];
            cb[1] = tp_cb_scheduled_hyper_param_setter_(&d);
        }
        tp_train_desc t;
        memset(&t, 0, sizeof t);
        t.callbacks = cb, t.n_callbacks = 2, t.steps_per_epoch = 1, t.max_epoch = 1;
        tp_trainer *trainer = tp_noop_trainer();
        CHECK_ERR(tp_train(trainer, &t), TP_ERR_SHAPE, why[i]);
        tp_trainer_free(trainer);
    }
}

/* The line of the bar is as wide as was asked for, whatever stands beside it. */
TEST(the_width_of_the_progress_bar)
{
    static const int64_t steps[] = {3, 12345};
    for (int i = 0; i < 2; i++) {
        listen();
        tp_cb_progress_bar_desc d;
        memset(&d, 0, sizeof d);
        CHECK_OK(train_with(tp_cb_progress_bar_(&d), steps[i]));
        tp_set_log(NULL, NULL);
        const char *line = strstr(heard, "100%|");
        if (!CHECK(line != NULL)) continue;
        const size_t n = strcspn(line, "\n");
        CHECK_MSG(n == 59, "%d: %.*s", (int)n, (int)n, line);
        CHECK(line[5] == '#' && strspn(line + 5, "#") + 5 == strcspn(line + 5, "|") + 5);
    }
}

TEST_MAIN()
