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
    CHECK_HAS(tp_graph_error(g), "Pow");
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

/* ==== >>saver ========================================================================================= */

static void add_item(tp_dict *d, const char *name, tp_dtype dtype, tp_shape s, double first)
{
    tp_tensor *t = tp_dict_add(d, name);
    if (!CHECK(t != NULL) || !CHECK_OK(tp_tensor_resize(t, dtype, s))) return;
    for (int64_t i = 0; i < tp_tensor_size(t); i++) tp_tensor_set(t, i, first + (double)i);
}
/* What comes of an initialiser, which is freed, in a session of g. */
static tp_status loaded(tp_graph *g, tp_session_init *init, tp_node *v, double *last)
{
    tp_session *s = tp_session_new(g, NULL);
    tp_tensor t;
    memset(&t, 0, sizeof t);
    tp_test_keep_log();
    const tp_status st = tp_session_init_run(init, s);
    tp_set_log(NULL, NULL);
    CHECK_OK(tp_session_read(s, tp_node_variable(v), &t));
    *last = tp_tensor_get(&t, tp_tensor_size(&t) - 1);
    tp_tensor_free(&t);
    tp_session_init_free(init);
    tp_session_free(s);
    return st;
}

/* Six numbers 1, 2, .. 6 for a variable (2,3) that is -1. What is not loaded leaves it. */
TEST(values_that_do_not_fit_their_variable)
{
    enum { DICT, LENIENT, FILES, RELAXED };
    static const struct {
        int how;
        tp_dtype variable, value;
        int n; /* the value's shape, or 0: (2,3) */
        tp_status status;
        const char *error, *log;
        double last;
    } c[] = {
        {DICT, TP_F32, TP_F32, 0, TP_OK, "", "", 6},
        {DICT, TP_F32, TP_F32, 6, TP_OK, "",
         "The array of shape (6) is reshaped to load it into variable 'v' whose shape is (2,3).\n", 6},
        {DICT, TP_F32, TP_F32, 5, TP_ERR_SHAPE,
         "Trying to load an array of shape (5) into variable 'v' whose shape is (2,3).", "", -1},
        {LENIENT, TP_F32, TP_F32, 5, TP_OK, "",
         "Cannot load an array of shape (5) into variable 'v' whose shape is (2,3): it is skipped.\n", -1},
        {RELAXED, TP_F32, TP_F32, 7, TP_OK, "", "whose shape is (2,3): it is skipped.\n", -1},
        {RELAXED, TP_F64, TP_F32, 6, TP_OK, "", "is reshaped to load it", 6},
        {FILES, TP_F32, TP_F32, 6, TP_ERR_SHAPE, "variable 'v' has shape (2,3), the value to load has (6)", "", -1},
        {DICT, TP_F32, TP_F64, 0, TP_OK, "", "Variable 'v' (float32) is loaded from float64 after casting.\n", 6},
        {DICT, TP_F64, TP_F16, 6, TP_OK, "", "Variable 'v' (float64) is loaded from float16 after casting.\n", 6},
        {FILES, TP_F32, TP_F64, 0, TP_OK, "", "", 6},
        {DICT, TP_I64, TP_I32, 0, TP_OK, "", "", 6}, /* integers that always fit */
        {DICT, TP_I64, TP_I32, 6, TP_OK, "", "is reshaped to load it", 6},
        {LENIENT, TP_I64, TP_U8, 0, TP_OK, "", "", 6},
        {DICT, TP_I32, TP_U8, 0, TP_OK, "", "", 6},
        {DICT, TP_I32, TP_I64, 0, TP_ERR_DTYPE, "int64 array into variable 'v', which is int32", "", -1},
        {DICT, TP_I32, TP_F32, 0, TP_ERR_DTYPE, "float32 array into variable 'v', which is int32", "", -1},
        {LENIENT, TP_F32, TP_I32, 0, TP_ERR_DTYPE, "int32 array into variable 'v', which is float32", "", -1},
        {RELAXED, TP_F32, TP_U8, 0, TP_ERR_DTYPE, "uint8 array into variable 'v', which is float32", "", -1},
        {FILES, TP_I64, TP_I32, 0, TP_ERR_DTYPE, "variable 'v' is int64, the value to load is int32", "", -1},
        {FILES, TP_F32, TP_I32, 0, TP_ERR_DTYPE, "variable 'v' is float32, the value to load is int32", "", -1},
    };
    char path[1100];
    snprintf(path, sizeof path, "%s/model-1.npz", tp_test_tmpdir());
    for (int i = 0; i < TP_COUNT(c); i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_node *v = tp_get_variable_as(g, "v", c[i].variable, shape(2, 2, 3, 0, 0), tp_init_constant(-1));
        tp_dict d;
        memset(&d, 0, sizeof d);
        add_item(&d, "v:0", c[i].value, c[i].n ? shape(1, c[i].n, 0, 0, 0) : shape(2, 2, 3, 0, 0), 1);
        tp_session_init *init = NULL;
        if (c[i].how >= FILES) {
            tp_saver_restore_desc r;
            memset(&r, 0, sizeof r);
            r.path = path, r.relaxed = c[i].how == RELAXED;
            CHECK_OK(tp_save_checkpoint_vars(&d, path));
            init = tp_saver_restore_ex(&r);
        } else init = tp_dict_restore(&d, c[i].how == LENIENT);
        double last = 0;
        const tp_status st = loaded(g, init, v, &last);
        CHECK_MSG(st == c[i].status && (st == TP_OK || strstr(tp_last_error(), c[i].error)), "%d: %s, %s", i,
                  tp_status_name(st), tp_last_error());
        const bool said = *c[i].log ? strstr(tp_test_logged, c[i].log) != NULL : !strstr(tp_test_logged, "'v'");
        CHECK_MSG(said && last == c[i].last, "%d: the last value is %g; log: %s", i, last, tp_test_logged);
        tp_dict_free(&d);
        tp_graph_free(g);
    }
}

/* What one side has and the other uses nowhere is said in one line for each side, but for what only training needs. */
TEST(names_that_are_used_nowhere)
{
    static const char *const in_graph[] = {"a", "b", "gone/W", "b/Momentum", "gone/b", "EMA/x"},
                             *const in_file[] = {"a", "b:0", "left/W", "left/W/Adam_1", "left/b", "AccumGrad/counter"},
                             *const ignore[] = {"b:0", "gone/b"};
    char path[1100];
    double last = 0;
    snprintf(path, sizeof path, "%s/model-1.safetensors", tp_test_tmpdir());
    for (int way = 0; way < 3; way++) { /* a checkpoint; less the names to ignore; a dict */
        tp_graph *g = tp_graph_new(NULL);
        tp_node *v[6];
        tp_dict d;
        memset(&d, 0, sizeof d);
        for (int i = 0; i < 6; i++)
            v[i] = tp_get_variable_as(g, in_graph[i], TP_F32, shape(1, 2, 0, 0, 0), tp_init_constant(-1));
        for (int i = 0; i < 6; i++) add_item(&d, in_file[i], TP_F32, shape(1, 2, 0, 0, 0), 1);
        tp_saver_restore_desc r;
        memset(&r, 0, sizeof r);
        r.path = path, r.ignore = ignore, r.n_ignore = way == 1 ? 2 : 0;
        if (way == 0) CHECK_OK(tp_save_checkpoint_vars(&d, path));
        CHECK_OK(loaded(g, way == 2 ? tp_dict_restore(&d, false) : tp_saver_restore_ex(&r), v[1], &last));
        CHECK(last == (way == 1 ? -1 : 2));
        static const char *const
            graph_only[] = {"in the graph, but not found in the checkpoint: gone/W, gone/b. They keep their values\n",
                            "in the graph, but not found in the checkpoint: gone/W, gone/b. They keep their values\n",
                            "in the graph, but not found in the dict: gone/W, gone/b. They keep their values\n"},
            *const file_only[] = {"in the checkpoint, but not found in the graph: left/W, left/b\n",
                                  "in the checkpoint, but not found in the graph: left/W, left/b\n",
                                  "in the dict, but not found in the graph: left/W, left/b\n"};
        CHECK_HAS(tp_test_logged, graph_only[way]);
        CHECK_HAS(tp_test_logged, file_only[way]);
        CHECK(!strstr(tp_test_logged, "will not be loaded") == (way != 1));
        tp_dict_free(&d);
        tp_graph_free(g);
    }
}

TEST(a_checkpoint_where_two_variables_meet)
{
    char path[1100];
    double last = 0;
    snprintf(path, sizeof path, "%s/model-1.npz", tp_test_tmpdir());
    tp_graph *g = tp_graph_new(NULL);
    tp_get_variable_as(g, "net/w", TP_F32, shape(1, 2, 0, 0, 0), tp_init_ones());
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, shape(1, 2, 0, 0, 0), tp_init_ones());
    tp_dict d;
    memset(&d, 0, sizeof d);
    add_item(&d, "w", TP_F32, shape(1, 2, 0, 0, 0), 5);
    const char *const isa = "tp:isa"; /* of another machine */
    add_item(&d, isa, TP_U8, shape(1, 3, 0, 0, 0), 'x');
    CHECK_OK(tp_save_checkpoint_vars(&d, path));
    tp_saver_restore_desc r;
    memset(&r, 0, sizeof r);
    r.path = path, r.prefix = "net";
    CHECK_ERR(loaded(g, tp_saver_restore_ex(&r), w, &last), TP_ERR_NAME,
              "Restore conflict: 'w' of the checkpoint is for two variables of the graph, 'net/w' and 'w'");
    CHECK_OK(loaded(g, tp_saver_restore(path), w, &last));
    CHECK(last == 6);
    CHECK_HAS(tp_test_logged, "The checkpoint was written with the instruction set 'xyz', this run uses '");
    CHECK_HAS(tp_test_logged, "not found in the checkpoint: net/w. They keep their values\n");
    tp_dict_free(&d);
    tp_graph_free(g);
}

/* The names of two instruction sets may be equally long, and one may begin with the other. */
TEST(a_checkpoint_of_another_instruction_set)
{
    char path[1100], ours[64], name[66], want[256];
    tp_graph *g = tp_graph_new(NULL);
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, shape(1, 2, 0, 0, 0), tp_init_ones());
    tp_session *s = tp_session_new(g, NULL);
    snprintf(path, sizeof path, "%s/model-1.npz", tp_test_tmpdir());
    snprintf(ours, sizeof ours, "%s", tp_device_isa(tp_session_device(s, 0)));
    tp_session_free(s);
    for (int i = 0; i < 3; i++) { /* our own name, another of its length, a longer one */
        tp_dict d;
        double last = 0;
        memset(&d, 0, sizeof d);
        snprintf(name, sizeof name, "%s%s", ours, i == 2 ? "2" : "");
        if (i == 1) name[0] = '?';
        add_item(&d, "w", TP_F32, shape(1, 2, 0, 0, 0), 5);
        add_item(&d, "tp:isa", TP_U8, shape(1, (int64_t)strlen(name), 0, 0, 0), 0);
        for (int k = 0; name[k]; k++) tp_tensor_set(tp_dict_find(&d, "tp:isa"), k, name[k]);
        CHECK_OK(tp_save_checkpoint_vars(&d, path));
        CHECK_OK(loaded(g, tp_saver_restore(path), w, &last));
        snprintf(want, sizeof want, "was written with the instruction set '%s', this run uses '%s'", name, ours);
        if (i > 0) CHECK_HAS(tp_test_logged, want);
        else CHECK(!strstr(tp_test_logged, "instruction set"));
        tp_dict_free(&d);
    }
    tp_graph_free(g);
}

/* A restore warns about options that change nothing, because they may be misspelt. It refuses a list without its length. */
TEST(a_restore_tells_options_that_change_nothing)
{
    static const char *const ignore[] = {"w", "in_file", "no/such:0"};
    char path[1100];
    double last = 0;
    snprintf(path, sizeof path, "%s/model-1.npz", tp_test_tmpdir());
    tp_graph *g = tp_graph_new(NULL);
    tp_node *w = tp_get_variable_as(g, "net/w", TP_F32, shape(1, 2, 0, 0, 0), tp_init_ones());
    tp_dict d;
    memset(&d, 0, sizeof d);
    add_item(&d, "w", TP_F32, shape(1, 2, 0, 0, 0), 5);
    add_item(&d, "in_file", TP_F32, shape(1, 2, 0, 0, 0), 5);
    add_item(&d, "in_file_under_a_name_that_is_long_enough_to_end_what_a_sentence_says/W", TP_F32, shape(1, 2, 0, 0, 0),
             5);
    add_item(&d, "last", TP_F32, shape(1, 2, 0, 0, 0), 5);
    CHECK_OK(tp_save_checkpoint_vars(&d, path));
    tp_saver_restore_desc r;
    memset(&r, 0, sizeof r);
    r.path = path, r.prefix = "net", r.ignore = ignore, r.n_ignore = 3;
    CHECK_OK(loaded(g, tp_saver_restore_ex(&r), w, &last));
    CHECK(last == 1);
    CHECK_HAS(tp_test_logged, ".ignore has 'no/such', which neither the graph nor the checkpoint has");
    CHECK(!strstr(tp_test_logged, ".ignore has 'w'") && !strstr(tp_test_logged, "in_file',") &&
          !strstr(tp_test_logged, ".prefix"));
    r.prefix = "nett", r.n_ignore = 0;
    CHECK_ERR(
        loaded(g, tp_saver_restore_ex(&r), w, &last), TP_ERR_NAME,
        "is of another model, it has none of this one's weights: are layers named as they were when it was "
        "trained? The model has net/w, the file w, in_file, in_file_under_a_name_that_is_long_enough_to_end_what_a_"
        "sentence_says/W, .. (.relaxed of tp_saver_restore_ex takes it)");
    CHECK_HAS(tp_test_logged, ".prefix is 'nett', but no variable's name begins with 'nett/'");
    for (int way = 0; way < 3; way++) { /* a trainer takes NULL for "restore nothing", so this is no NULL */
        static const char *const gap[] = {"a", NULL};
        r.ignore = way == 0 ? NULL : way == 1 ? ignore : gap, r.n_ignore = way == 1 ? -1 : 2;
        CHECK_ERR(loaded(g, tp_saver_restore_ex(&r), w, &last), TP_ERR_ARG,
                  "SaverRestore: .ignore is a list of .n_ignore names: give both");
    }
    tp_dict_free(&d);
    tp_graph_free(g);
}

TEST(what_the_saver_does_not_do)
{
    const char *dir = tp_test_tmpdir();
    char small[8], long_name[1200];
    tp_graph *g = tp_graph_new(NULL), *other = tp_graph_new(NULL);
    tp_get_variable_as(g, "w", TP_F32, shape(1, 2, 0, 0, 0), tp_init_ones());
    tp_session *s = tp_session_new(g, NULL);
    tp_dict d;
    memset(&d, 0, sizeof d);
    add_item(&d, "w", TP_F32, shape(1, 2, 0, 0, 0), 5);
    CHECK_ERR(tp_save_checkpoint_vars(&d, tp_test_path(dir, "x.npy")), TP_ERR_ARG,
              "several variables do not fit an npy");
    CHECK_ERR(tp_dump_session_params(s, tp_test_path(dir, "x.npy")), TP_ERR_ARG, "several variables do not fit an npy");
    CHECK(!tp_file_exists(tp_test_path(dir, "x.npy")));
    CHECK_ERR(tp_checkpoint_state_write(dir, NULL, 0), TP_ERR_ARG, "the checkpoint list of '");
    CHECK(!tp_file_exists(tp_test_path(dir, "checkpoint")));
    const char *name = "model-123456";
    CHECK_OK(tp_checkpoint_state_write(dir, &name, 1));
    CHECK_ERR(tp_checkpoint_state_latest(dir, small, sizeof small), TP_ERR_ARG, "is too long");
    CHECK_OK(tp_checkpoint_state_latest(dir, long_name, strlen(dir) + 1 + strlen(name) + 1));
    CHECK_ERR(tp_checkpoint_state_latest(dir, long_name, strlen(dir) + 1 + strlen(name)), TP_ERR_ARG, "is too long");
    tp_checkpoint_entry *e = NULL;
    int n = 7;
    CHECK_ERR(tp_get_all_checkpoints(tp_test_path(dir, "nowhere"), NULL, &e, &n), TP_ERR_IO, "cannot list '");
    CHECK(e == NULL && n == 0);
    tp_session_creator c = tp_reuse_session_creator(s);
    CHECK(c.create(&c, g) == s && c.create(&c, other) == NULL);
    CHECK_HAS(tp_last_error(), "the session to reuse is of another graph");
    c = tp_reuse_session_creator(NULL);
    CHECK(c.create(&c, g) == NULL);
    CHECK_HAS(tp_last_error(), "the session to reuse is NULL");
    tp_dict_free(&d);
    tp_session_free(s);
    tp_graph_free(g);
    tp_graph_free(other);
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

/* Upsampling where one side of the picture is known and the other is not, as where both are, in both layouts. */
TEST(upsampling_a_half_known_picture)
{
    enum { H = 3, W = 4, C = 2 };
    float v[H * W * C], want[4 * H * W * C];
    for (int i = 0; i < H * W * C; i++) v[i] = (float)(i * i % 7) - 2;
    for (int i = 0; i < 8; i++) {
        const int known = 3 - i % 4, at = i < 4 ? 1 : 2; /* where the height is */
        const int h = known & 1 ? H : TP_ANY, w = known & 2 ? W : TP_ANY;
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F32, at == 1 ? shape(4, 1, h, w, C) : shape(4, 1, C, h, w));
        tp_caffe_bilinear_upsample_desc d;
        memset(&d, 0, sizeof d);
        d.name = "up", d.shape = 2, d.data_format = at == 1 ? TP_NHWC : TP_NCHW;
        tp_node *y = tp_caffe_bilinear_upsample_(x, &d);
        tp_session *s = tp_session_new(g, NULL);
        const tp_feed f = feed(x, TP_F32, at == 1 ? shape(4, 1, H, W, C) : shape(4, 1, C, H, W), v);
        const tp_tensor *out = NULL;
        if (CHECK_MSG(s != NULL, "%s", tp_graph_error(g)) && CHECK_OK(tp_session_run(s, &f, 1, &y, 1, &out)) && out &&
            CHECK(out->shape.dim[at] == 2 * H && out->shape.dim[at + 1] == 2 * W &&
                  out->shape.dim[at == 1 ? 3 : 1] == C)) {
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
        tp_test_keep_log();
        tp_cb_progress_bar_desc d;
        memset(&d, 0, sizeof d);
        CHECK_OK(train_with(tp_cb_progress_bar_(&d), steps[i]));
        tp_set_log(NULL, NULL);
        const char *line = strstr(tp_test_logged, "100%|");
        if (!CHECK(line != NULL)) continue;
        const size_t n = strcspn(line, "\n");
        CHECK_MSG(n == 60, "%d: %.*s", (int)n, (int)n, line);
        CHECK(line[5] == '#' && strspn(line + 5, "#") + 5 == strcspn(line + 5, "|") + 5);
    }
}

/* How often it is drawn is what the variable says, in seconds; without a terminal and without the variable hardly ever. */
TEST(the_progress_bar_is_drawn_as_often_as_asked_for)
{
    static const char *const variable[] = {"TENSORPACK_PROGRESS_REFRESH", "SLURM_JOB_ID", "OMPI_COMM_WORLD_SIZE"};
    static const char *const refresh[] = {NULL, "", "1000", "0"};
    const char *path = tp_test_path(tp_test_tmpdir(), "bar");
    char *before[3];
    for (int k = 0; k < 3; k++) {
        before[k] = getenv(variable[k]) ? tp_strdup(getenv(variable[k])) : NULL;
        unsetenv(variable[k]);
    }
    for (int i = 0; i < TP_COUNT(refresh); i++) {
        tp_cb_progress_bar_desc d;
        char text[4096];
        memset(&d, 0, sizeof d);
        if (refresh[i]) setenv(variable[0], refresh[i], 1);
        fflush(stderr);
        const int old = dup(2);
        FILE *f = fopen(path, "w+");
        if (!CHECK(old >= 0 && f)) break;
        dup2(fileno(f), 2);
        tp_test_default_log();
        const tp_status st = train_with(tp_cb_progress_bar_(&d), 5);
        tp_set_log(NULL, NULL);
        fflush(stderr);
        dup2(old, 2);
        close(old);
        CHECK(st == TP_OK);
        rewind(f);
        text[fread(text, 1, sizeof text - 1, f)] = 0;
        fclose(f);
        for (int n = 1; n <= 5; n++) {
            char part[32];
            snprintf(part, sizeof part, "|%d/5[", n);
            const bool drawn = strstr(text, part) != NULL, want = n == 5 || i == 3;
            CHECK_MSG(drawn == want, "%s: %d of 5 is %s drawn", refresh[i] ? refresh[i] : "unset", n,
                      drawn ? "" : "not");
        }
    }
    for (int k = 0; k < 3; k++) {
        if (before[k]) setenv(variable[k], before[k], 1);
        else unsetenv(variable[k]);
        tp_free(before[k]);
    }
}

/* A weight that is regularized, in a cost that may forget it. */
static tp_node *regularized(tp_graph *g, tp_node *const *in, void *user)
{
    tp_fully_connected_desc d;
    memset(&d, 0, sizeof d);
    d.name = "fc", d.units = 1, d.kernel_regularizer = tp_l2_regularizer(0.1f);
    tp_node *cost = tp_mean(tp_square(tp_fully_connected_(in[0], &d)));
    return *(const bool *)user ? tp_add(cost, tp_regularize_cost_from_collection(g, NULL)) : cost;
}
static tp_optimizer *plain_sgd(tp_graph *g, void *user)
{
    (void)user;
    return tp_sgd_(tp_get_scalar_variable(g, "learning_rate", 0.1f), NULL);
}

TEST(regularizers_that_are_used_nowhere)
{
    static const float v[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (int used = 0; used < 2; used++) {
        bool uses = used == 1;
        tp_tensor t;
        memset(&t, 0, sizeof t);
        tp_tensor_view(&t, TP_F32, shape(2, 4, 2, 0, 0), v);
        tp_df_from_arrays_desc a;
        memset(&a, 0, sizeof a);
        a.arrays = &t, a.n = 1;
        tp_df_batch_desc b;
        memset(&b, 0, sizeof b);
        b.df = tp_df_from_arrays_(&a), b.batch_size = 2;
        tp_spec spec;
        memset(&spec, 0, sizeof spec);
        spec.name = "x", spec.dtype = TP_F32, spec.shape = shape(2, TP_ANY, 2, 0, 0);
        tp_train_config c;
        memset(&c, 0, sizeof c);
        c.model.inputs = &spec, c.model.n_inputs = 1, c.model.user = &uses;
        c.model.build_graph = regularized, c.model.optimizer = plain_sgd;
        c.dataflow = tp_df_batch_(&b);
        c.steps_per_epoch = 2, c.max_epoch = 1, c.n_extra_callbacks = c.n_monitors = TP_NONE;
        tp_test_keep_log();
        CHECK_OK(tp_launch_train_with_config(&c, tp_simple_trainer()));
        tp_set_log(NULL, NULL);
        int said = 0;
        for (const char *at = tp_test_logged; (at = strstr(at, "has no consumers")) != NULL; at++) said++;
        CHECK_MSG(said == !uses, "%s", tp_test_logged);
        if (!uses)
            CHECK_HAS(tp_test_logged,
                      "Item 'fc/Regularizer/Affine' of REGULARIZATION_LOSSES has no consumers. You may have "
                      "forgotten to add regularization to total cost.\n");
    }
}

/* What a training prints of its variables: as wide as the longest name, copies of towers and what is not trained left out. */
TEST(the_table_of_variables_as_it_is_printed)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_get_variable_as(g, "fc0/W", TP_F32, shape(2, 300, 20, 0, 0), tp_init_ones());
    tp_get_variable_as(g, "a/longer/name", TP_F64, shape(0, 0, 0, 0, 0), tp_init_ones());
    tp_node *copy =
        tp_get_variable_as(g, "tower1/fc0/W/which/is/a/copy", TP_F32, shape(2, 300, 20, 0, 0), tp_init_ones());
    tp_node_variable(copy)->copy_of = tp_find_variable(g, "fc0/W");
    tp_get_variable_as(g, "tower_user/w", TP_F32, shape(1, 4, 0, 0, 0),
                       tp_init_ones()); /* no copy, whatever its name */
    tp_get_global_step_var(g);
    tp_buf out;
    memset(&out, 0, sizeof out);
    tp_graph_describe_variables(g, &out);
    CHECK_STR(out.data, "name           shape             #elements\n"
                        "fc0/W          (300,20)               6000\n"
                        "a/longer/name  ()                        1\n"
                        "tower_user/w   (4)                       4\n"
                        "Number of trainable variables: 3\n"
                        "Number of parameters (elements): 6005\n"
                        "Storage space needed for all trainable variables: 0.02 MB\n");
    tp_buf_free(&out);
    tp_graph_free(g);
}

/* A convolution of no channels is 0, to which what is added to it in the same kernel is added. */
TEST(a_convolution_of_nothing_and_a_sum)
{
    float data[32];
    for (int i = 0; i < 32; i++) data[i] = (float)(i + 1);
    tp_graph *g = tp_graph_new(NULL);
    tp_conv2d_attrs a;
    memset(&a, 0, sizeof a);
    a.padding = TP_SAME;
    tp_node *x = tp_placeholder(g, "x", TP_F32, shape(4, 1, 2, 2, 0));
    tp_node *w = tp_placeholder(g, "w", TP_F32, shape(4, 3, 3, 0, 8));
    tp_node *r = tp_placeholder(g, "r", TP_F32, shape(4, 1, 2, 2, 8));
    tp_node *y = tp_add(tp_nn_conv2d(x, w, &a), r);
    CHECK_STR(tp_graph_error(g), "");
    tp_session *s = tp_session_new(g, NULL);
    tp_feed f[3];
    f[0] = feed(x, TP_F32, x->shape, data), f[1] = feed(w, TP_F32, w->shape, data),
    f[2] = feed(r, TP_F32, r->shape, data);
    const tp_tensor *out = NULL;
    if (CHECK_OK(tp_session_run(s, f, 3, &y, 1, &out)))
        for (int i = 0; i < 32; i++) CHECK_NEAR(tp_tensor_get(out, i), i + 1, 0, 0);
    tp_session_free(s);
    tp_graph_free(g);
}

TEST_MAIN()
