/* Written by tests/gen_misuse.py: python3 tests/gen_misuse.py */
/* clang-format off */
static void call_tp_version(int which)
{
    (void)which;
    (void)tp_version();
    got_answer();
}
static const char *const cases_tp_version[] = {"Ggood arguments", NULL};

static void call_tp_last_error(int which)
{
    (void)which;
    (void)tp_last_error();
    got_answer();
}
static const char *const cases_tp_last_error[] = {"Ggood arguments", NULL};

static void call_tp_fail(int which)
{
    (void)which;
    tp_status status_ = TP_ERR;
    const char *fmt_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : no_format;
    got_status(tp_fail(status_, fmt_));
}
static const char *const cases_tp_fail[] = {"?good arguments", "?fmt = \":/ \"", "?fmt = 300 letters", "?fmt = \"\"", "?fmt = NULL", NULL};

static void call_tp_status_name(int which)
{
    (void)which;
    tp_status status_ = TP_ERR;
    (void)tp_status_name(status_);
    got_answer();
}
static const char *const cases_tp_status_name[] = {"Ggood arguments", NULL};

static void call_tp_format_double(int which)
{
    (void)which;
    char *text_ = which == 1 ? NULL : text_out;
    double value_ = 0.5;
    (void)tp_format_double(text_, value_);
    got_answer();
}
static const char *const cases_tp_format_double[] = {"Ggood arguments", "!text = NULL", NULL};

static void call_tp_format_float(int which)
{
    (void)which;
    char *text_ = which == 1 ? NULL : text_out;
    float value_ = 0.5f;
    (void)tp_format_float(text_, value_);
    got_answer();
}
static const char *const cases_tp_format_float[] = {"Ggood arguments", "!text = NULL", NULL};

static void call_tp_parse_double(int which)
{
    (void)which;
    const char *text_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : "name";
    const char **end_ = which == 5 ? NULL : &text_in;
    (void)tp_parse_double(text_, end_);
    got_answer();
}
static const char *const cases_tp_parse_double[] = {"Ggood arguments", "?text = \":/ \"", "?text = 300 letters", "?text = \"\"", "!text = NULL", "?end = NULL", NULL};

static void call_tp_parse_float(int which)
{
    (void)which;
    const char *text_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : "name";
    const char **end_ = which == 5 ? NULL : &text_in;
    (void)tp_parse_float(text_, end_);
    got_answer();
}
static const char *const cases_tp_parse_float[] = {"Ggood arguments", "?text = \":/ \"", "?text = 300 letters", "?text = \"\"", "!text = NULL", "?end = NULL", NULL};

static void call_tp_log(int which)
{
    (void)which;
    tp_log_level level_ = TP_LOG_DEBUG;
    const char *fmt_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : no_format;
    tp_log(level_, fmt_);
    got_nothing();
}
static const char *const cases_tp_log[] = {"Ggood arguments", "?fmt = \":/ \"", "?fmt = 300 letters", "?fmt = \"\"", "?fmt = NULL", NULL};

static void call_tp_log_once(int which)
{
    (void)which;
    tp_log_level level_ = TP_LOG_DEBUG;
    const char *fmt_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : no_format;
    tp_log_once(level_, fmt_);
    got_nothing();
}
static const char *const cases_tp_log_once[] = {"Ggood arguments", "?fmt = \":/ \"", "?fmt = 300 letters", "?fmt = \"\"", "?fmt = NULL", NULL};

static void call_tp_logger_set_dir(int which)
{
    (void)which;
    const char *dir_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : a_path("log");
    char action_ = which == 5 ? 'x' : 'k';
    got_status(tp_logger_set_dir(dir_, action_));
}
static const char *const cases_tp_logger_set_dir[] = {"Ggood arguments", "?dir = \":/ \"", "?dir = 300 letters", "?dir = \"\"", "?dir = NULL", "?action = 'x'", NULL};

static void call_tp_logger_auto_set_dir(int which)
{
    (void)which;
    const char *program_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : a_path("prog");
    const char *name_ = which == 8 ? NULL : which == 7 ? "" : which == 6 ? long_text() : which == 5 ? ":/ " : "name";
    char action_ = which == 9 ? 'x' : 'k';
    got_status(tp_logger_auto_set_dir(program_, name_, action_));
}
static const char *const cases_tp_logger_auto_set_dir[] = {"Ggood arguments", "?program = \":/ \"", "?program = 300 letters", "?program = \"\"", "!program = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "?name = NULL", "?action = 'x'", NULL};

static void call_tp_logger_dir(int which)
{
    (void)which;
    (void)tp_logger_dir();
    got_answer();
}
static const char *const cases_tp_logger_dir[] = {"Ggood arguments", NULL};

static void call_tp_memory_in_use(int which)
{
    (void)which;
    size_t *most_ = which == 1 ? NULL : sizes_out;
    (void)tp_memory_in_use(most_);
    got_answer();
}
static const char *const cases_tp_memory_in_use[] = {"Ggood arguments", "?most = NULL", NULL};

static void call_tp_malloc(int which)
{
    (void)which;
    size_t size_ = 16;
    tp_free(tp_malloc(size_));
    got_answer();
}
static const char *const cases_tp_malloc[] = {"Ggood arguments", NULL};

static void call_tp_calloc(int which)
{
    (void)which;
    size_t n_ = 4;
    size_t size_ = 4;
    tp_free(tp_calloc(n_, size_));
    got_answer();
}
static const char *const cases_tp_calloc[] = {"Ggood arguments", NULL};

static void call_tp_realloc(int which)
{
    (void)which;
    void *p_ = tp_malloc(4);
    size_t size_ = 16;
    tp_free(tp_realloc(p_, size_));
    got_answer();
}
static const char *const cases_tp_realloc[] = {"Ggood arguments", NULL};

static void call_tp_free(int which)
{
    (void)which;
    void *p_ = tp_malloc(4);
    tp_free(p_);
    got_nothing();
}
static const char *const cases_tp_free[] = {"Ggood arguments", NULL};

static void call_tp_alloc_aligned(int which)
{
    (void)which;
    size_t size_ = 16;
    tp_free_aligned(tp_alloc_aligned(size_));
    got_answer();
}
static const char *const cases_tp_alloc_aligned[] = {"Ggood arguments", NULL};

static void call_tp_free_aligned(int which)
{
    (void)which;
    void *p_ = tp_alloc_aligned(4);
    tp_free_aligned(p_);
    got_nothing();
}
static const char *const cases_tp_free_aligned[] = {"Ggood arguments", NULL};

static void call_tp_mul_size(int which)
{
    (void)which;
    size_t a_ = 4;
    size_t b_ = 4;
    size_t *out_ = which == 1 ? NULL : sizes_out;
    (void)tp_mul_size(a_, b_, out_);
    got_answer();
}
static const char *const cases_tp_mul_size[] = {"Ggood arguments", "!out = NULL", NULL};

static void call_tp_strdup(int which)
{
    (void)which;
    const char *s_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : "name";
    tp_free(tp_strdup(s_));
    got_answer();
}
static const char *const cases_tp_strdup[] = {"Ggood arguments", "?s = \":/ \"", "?s = 300 letters", "?s = \"\"", "!s = NULL", NULL};

static void call_tp_arena_alloc(int which)
{
    (void)which;
    tp_arena *a_ = which == 1 ? NULL : arena();
    size_t size_ = 16;
    (void)tp_arena_alloc(a_, size_);
    got_answer();
}
static const char *const cases_tp_arena_alloc[] = {"Ggood arguments", "!a = NULL", NULL};

static void call_tp_arena_strdup(int which)
{
    (void)which;
    tp_arena *a_ = which == 1 ? NULL : arena();
    const char *s_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    (void)tp_arena_strdup(a_, s_);
    got_answer();
}
static const char *const cases_tp_arena_strdup[] = {"Ggood arguments", "!a = NULL", "?s = \":/ \"", "?s = 300 letters", "?s = \"\"", "!s = NULL", NULL};

static void call_tp_arena_printf(int which)
{
    (void)which;
    tp_arena *a_ = which == 1 ? NULL : arena();
    const char *fmt_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : no_format;
    (void)tp_arena_printf(a_, fmt_);
    got_answer();
}
static const char *const cases_tp_arena_printf[] = {"Ggood arguments", "!a = NULL", "?fmt = \":/ \"", "?fmt = 300 letters", "?fmt = \"\"", "?fmt = NULL", NULL};

static void call_tp_arena_free(int which)
{
    (void)which;
    tp_arena *a_ = which == 1 ? NULL : arena();
    tp_arena_free(a_);
    got_nothing();
}
static const char *const cases_tp_arena_free[] = {"Ggood arguments", "?a = NULL", NULL};

static void call_tp_buf_put(int which)
{
    (void)which;
    tp_buf *b_ = which == 1 ? NULL : buf();
    const void *p_ = bytes;
    size_t n_ = 4;
    tp_buf_put(b_, p_, n_);
    got_nothing();
}
static const char *const cases_tp_buf_put[] = {"Ggood arguments", "!b = NULL", NULL};

static void call_tp_buf_printf(int which)
{
    (void)which;
    tp_buf *b_ = which == 1 ? NULL : buf();
    const char *fmt_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : no_format;
    tp_buf_printf(b_, fmt_);
    got_nothing();
}
static const char *const cases_tp_buf_printf[] = {"Ggood arguments", "!b = NULL", "?fmt = \":/ \"", "?fmt = 300 letters", "?fmt = \"\"", "?fmt = NULL", NULL};

static void call_tp_buf_free(int which)
{
    (void)which;
    tp_buf *b_ = which == 1 ? NULL : buf();
    tp_buf_free(b_);
    got_nothing();
}
static const char *const cases_tp_buf_free[] = {"Ggood arguments", "?b = NULL", NULL};

static void call_tp_dtype_size(int which)
{
    (void)which;
    tp_dtype d_ = which == 3 ? TP_DTYPE_UNSET : which == 2 ? (tp_dtype)bad_enum : which == 1 ? (tp_dtype)large_enum : TP_F32;
    (void)tp_dtype_size(d_);
    got_answer();
}
static const char *const cases_tp_dtype_size[] = {"Ggood arguments", "?d = 99", "?d = -1", "?d = 0", NULL};

static void call_tp_dtype_name(int which)
{
    (void)which;
    tp_dtype d_ = which == 3 ? TP_DTYPE_UNSET : which == 2 ? (tp_dtype)bad_enum : which == 1 ? (tp_dtype)large_enum : TP_F32;
    (void)tp_dtype_name(d_);
    got_answer();
}
static const char *const cases_tp_dtype_name[] = {"Ggood arguments", "?d = 99", "?d = -1", "?d = 0", NULL};

static void call_tp_dtype_is_float(int which)
{
    (void)which;
    tp_dtype d_ = which == 3 ? TP_DTYPE_UNSET : which == 2 ? (tp_dtype)bad_enum : which == 1 ? (tp_dtype)large_enum : TP_F32;
    (void)tp_dtype_is_float(d_);
    got_answer();
}
static const char *const cases_tp_dtype_is_float[] = {"Ggood arguments", "?d = 99", "?d = -1", "?d = 0", NULL};

static void call_tp_f16_to_f32(int which)
{
    (void)which;
    uint16_t h_ = 3;
    (void)tp_f16_to_f32(h_);
    got_answer();
}
static const char *const cases_tp_f16_to_f32[] = {"Ggood arguments", NULL};

static void call_tp_f32_to_f16(int which)
{
    (void)which;
    float f_ = 0.5f;
    (void)tp_f32_to_f16(f_);
    got_answer();
}
static const char *const cases_tp_f32_to_f16[] = {"Ggood arguments", NULL};

static void call_tp_bf16_to_f32(int which)
{
    (void)which;
    uint16_t h_ = 3;
    (void)tp_bf16_to_f32(h_);
    got_answer();
}
static const char *const cases_tp_bf16_to_f32[] = {"Ggood arguments", NULL};

static void call_tp_f32_to_bf16(int which)
{
    (void)which;
    float f_ = 0.5f;
    (void)tp_f32_to_bf16(f_);
    got_answer();
}
static const char *const cases_tp_f32_to_bf16[] = {"Ggood arguments", NULL};

static void call_tp_convert(int which)
{
    (void)which;
    void *dst_ = scratch;
    tp_dtype dst_dtype_ = which == 3 ? TP_DTYPE_UNSET : which == 2 ? (tp_dtype)bad_enum : which == 1 ? (tp_dtype)large_enum : TP_F32;
    const void *src_ = bytes;
    tp_dtype src_dtype_ = which == 6 ? TP_DTYPE_UNSET : which == 5 ? (tp_dtype)bad_enum : which == 4 ? (tp_dtype)large_enum : TP_F32;
    int64_t n_ = which == 9 ? -1 : which == 8 ? 0 : which == 7 ? INT64_MIN : 2;
    tp_convert(dst_, dst_dtype_, src_, src_dtype_, n_);
    got_nothing();
}
static const char *const cases_tp_convert[] = {"Ggood arguments", "?dst_dtype = 99", "?dst_dtype = -1", "?dst_dtype = 0", "?src_dtype = 99", "?src_dtype = -1", "?src_dtype = 0", "?n = INT64_MIN", "?n = 0", "?n = -1", NULL};

static void call_tp_make_shape_n(int which)
{
    (void)which;
    int ndim_ = which == 3 ? -1 : which == 2 ? 0 : which == 1 ? INT_MIN : 2;
    const int64_t *dim_ = which == 4 ? NULL : int64s_one();
    (void)tp_make_shape_n(ndim_, dim_);
    got_answer();
}
static const char *const cases_tp_make_shape_n[] = {"Ggood arguments", "?ndim = INT_MIN", "?ndim = 0", "?ndim = -1", "!dim = NULL", NULL};

static void call_tp_shape_size(int which)
{
    (void)which;
    const tp_shape *s_ = which == 1 ? NULL : a_shape();
    (void)tp_shape_size(s_);
    got_answer();
}
static const char *const cases_tp_shape_size[] = {"Ggood arguments", "!s = NULL", NULL};

static void call_tp_shape_known(int which)
{
    (void)which;
    const tp_shape *s_ = which == 1 ? NULL : a_shape();
    (void)tp_shape_known(s_);
    got_answer();
}
static const char *const cases_tp_shape_known[] = {"Ggood arguments", "!s = NULL", NULL};

static void call_tp_shape_equal(int which)
{
    (void)which;
    const tp_shape *a_ = which == 1 ? NULL : a_shape();
    const tp_shape *b_ = which == 2 ? NULL : a_shape();
    (void)tp_shape_equal(a_, b_);
    got_answer();
}
static const char *const cases_tp_shape_equal[] = {"Ggood arguments", "!a = NULL", "!b = NULL", NULL};

static void call_tp_shape_compatible(int which)
{
    (void)which;
    const tp_shape *a_ = which == 1 ? NULL : a_shape();
    const tp_shape *b_ = which == 2 ? NULL : a_shape();
    (void)tp_shape_compatible(a_, b_);
    got_answer();
}
static const char *const cases_tp_shape_compatible[] = {"Ggood arguments", "!a = NULL", "!b = NULL", NULL};

static void call_tp_shape_text(int which)
{
    (void)which;
    const tp_shape *s_ = which == 1 ? NULL : a_shape();
    char *buf_ = which == 2 ? NULL : text_out;
    (void)tp_shape_text(s_, buf_);
    got_answer();
}
static const char *const cases_tp_shape_text[] = {"Ggood arguments", "!s = NULL", "!buf = NULL", NULL};

static void call_tp_tensor_resize(int which)
{
    (void)which;
    tp_tensor *t_ = which == 1 ? NULL : tensor_out();
    tp_dtype dtype_ = which == 4 ? TP_DTYPE_UNSET : which == 3 ? (tp_dtype)bad_enum : which == 2 ? (tp_dtype)large_enum : TP_F32;
    tp_shape shape_ = which == 8 ? bad_shape(9, 1) : which == 7 ? bad_shape(-1, 1) : which == 6 ? bad_shape(2, -5) : which == 5 ? bad_shape(4, (int64_t)1 << 40) : shape_of(2, 4);
    got_status(tp_tensor_resize(t_, dtype_, shape_));
}
static const char *const cases_tp_tensor_resize[] = {"Ggood arguments", "!t = NULL", "!dtype = 99", "!dtype = -1", "?dtype = 0", "?shape = dimensions of 2^40", "?shape = a dimension of -5", "?shape = -1 dimensions", "?shape = 9 dimensions", NULL};

static void call_tp_tensor_view(int which)
{
    (void)which;
    tp_tensor *t_ = which == 1 ? NULL : tensor_out();
    tp_dtype dtype_ = which == 4 ? TP_DTYPE_UNSET : which == 3 ? (tp_dtype)bad_enum : which == 2 ? (tp_dtype)large_enum : TP_F32;
    tp_shape shape_ = which == 8 ? bad_shape(9, 1) : which == 7 ? bad_shape(-1, 1) : which == 6 ? bad_shape(2, -5) : which == 5 ? bad_shape(4, (int64_t)1 << 40) : shape_of(2, 4);
    const void *data_ = bytes;
    tp_tensor_view(t_, dtype_, shape_, data_);
    got_nothing();
}
static const char *const cases_tp_tensor_view[] = {"Ggood arguments", "!t = NULL", "?dtype = 99", "?dtype = -1", "?dtype = 0", "?shape = dimensions of 2^40", "?shape = a dimension of -5", "?shape = -1 dimensions", "?shape = 9 dimensions", NULL};

static void call_tp_tensor_copy(int which)
{
    (void)which;
    tp_tensor *dst_ = which == 1 ? NULL : tensor_out();
    const tp_tensor *src_ = which == 2 ? NULL : a_tensor24();
    got_status(tp_tensor_copy(dst_, src_));
}
static const char *const cases_tp_tensor_copy[] = {"Ggood arguments", "!dst = NULL", "!src = NULL", NULL};

static void call_tp_tensor_free(int which)
{
    (void)which;
    tp_tensor *t_ = which == 1 ? NULL : tensor_out();
    tp_tensor_free(t_);
    got_nothing();
}
static const char *const cases_tp_tensor_free[] = {"Ggood arguments", "?t = NULL", NULL};

static void call_tp_tensor_to_device(int which)
{
    (void)which;
    tp_tensor *t_ = which == 1 ? NULL : tensor_out();
    struct tp_device *d_ = which == 2 ? NULL : device();
    const tp_tensor *host_ = which == 3 ? NULL : a_tensor24();
    got_status(tp_tensor_to_device(t_, d_, host_));
}
static const char *const cases_tp_tensor_to_device[] = {"Ggood arguments", "!t = NULL", "!d = NULL", "!host = NULL", NULL};

static void call_tp_tensor_stage(int which)
{
    (void)which;
    tp_tensor *t_ = which == 1 ? NULL : tensor_out();
    struct tp_device *d_ = which == 2 ? NULL : device();
    const tp_tensor *host_ = which == 3 ? NULL : a_tensor24();
    got_status(tp_tensor_stage(t_, d_, host_));
}
static const char *const cases_tp_tensor_stage[] = {"Ggood arguments", "!t = NULL", "!d = NULL", "!host = NULL", NULL};

static void call_tp_tensor_unstage(int which)
{
    (void)which;
    tp_tensor *t_ = which == 1 ? NULL : tensor_out();
    got_status(tp_tensor_unstage(t_));
}
static const char *const cases_tp_tensor_unstage[] = {"Ggood arguments", "!t = NULL", NULL};

static void call_tp_tensor_bytes(int which)
{
    (void)which;
    const tp_tensor *t_ = which == 1 ? NULL : a_tensor24();
    (void)tp_tensor_bytes(t_);
    got_answer();
}
static const char *const cases_tp_tensor_bytes[] = {"Ggood arguments", "!t = NULL", NULL};

static void call_tp_tensor_size(int which)
{
    (void)which;
    const tp_tensor *t_ = which == 1 ? NULL : a_tensor24();
    (void)tp_tensor_size(t_);
    got_answer();
}
static const char *const cases_tp_tensor_size[] = {"Ggood arguments", "!t = NULL", NULL};

static void call_tp_tensor_get(int which)
{
    (void)which;
    const tp_tensor *t_ = which == 1 ? NULL : a_tensor24();
    int64_t i_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT64_MIN : 0;
    (void)tp_tensor_get(t_, i_);
    got_answer();
}
static const char *const cases_tp_tensor_get[] = {"Ggood arguments", "!t = NULL", "?i = INT64_MIN", "?i = 0", "?i = -1", NULL};

static void call_tp_tensor_set(int which)
{
    (void)which;
    tp_tensor *t_ = which == 1 ? NULL : a_tensor24();
    int64_t i_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT64_MIN : 0;
    double value_ = 0.5;
    tp_tensor_set(t_, i_, value_);
    got_nothing();
}
static const char *const cases_tp_tensor_set[] = {"Ggood arguments", "!t = NULL", "?i = INT64_MIN", "?i = 0", "?i = -1", NULL};

static void call_tp_scalar_view(int which)
{
    (void)which;
    const float *value_ = which == 1 ? NULL : floats;
    (void)tp_scalar_view(value_);
    got_answer();
}
static const char *const cases_tp_scalar_view[] = {"Ggood arguments", "!value = NULL", NULL};

static void call_tp_philox(int which)
{
    (void)which;
    uint64_t key_ = 3;
    uint64_t counter_lo_ = 3;
    uint64_t counter_hi_ = 3;
    uint32_t *out_ = which == 1 ? NULL : u32s;
    tp_philox(key_, counter_lo_, counter_hi_, out_);
    got_nothing();
}
static const char *const cases_tp_philox[] = {"Ggood arguments", "!out = NULL", NULL};

static void call_tp_random_key(int which)
{
    (void)which;
    uint64_t seed_ = 3;
    uint64_t stream_ = 3;
    (void)tp_random_key(seed_, stream_);
    got_answer();
}
static const char *const cases_tp_random_key[] = {"Ggood arguments", NULL};

static void call_tp_random_u32(int which)
{
    (void)which;
    uint64_t key_ = 3;
    uint64_t step_ = 3;
    uint64_t index_ = 3;
    (void)tp_random_u32(key_, step_, index_);
    got_answer();
}
static const char *const cases_tp_random_u32[] = {"Ggood arguments", NULL};

static void call_tp_random_uniform(int which)
{
    (void)which;
    uint64_t key_ = 3;
    uint64_t step_ = 3;
    uint64_t index_ = 3;
    (void)tp_random_uniform(key_, step_, index_);
    got_answer();
}
static const char *const cases_tp_random_uniform[] = {"Ggood arguments", NULL};

static void call_tp_random_normal(int which)
{
    (void)which;
    uint64_t key_ = 3;
    uint64_t step_ = 3;
    uint64_t index_ = 3;
    (void)tp_random_normal(key_, step_, index_);
    got_answer();
}
static const char *const cases_tp_random_normal[] = {"Ggood arguments", NULL};

static void call_tp_hash(int which)
{
    (void)which;
    const void *p_ = bytes;
    size_t n_ = 4;
    (void)tp_hash(p_, n_);
    got_answer();
}
static const char *const cases_tp_hash[] = {"Ggood arguments", NULL};

static void call_tp_hash_name(int which)
{
    (void)which;
    const char *s_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : "x";
    (void)tp_hash_name(s_);
    got_answer();
}
static const char *const cases_tp_hash_name[] = {"Ggood arguments", "?s = \":/ \"", "?s = 300 letters", "?s = \"\"", "!s = NULL", NULL};

static void call_tp_random_permutation(int which)
{
    (void)which;
    uint64_t key_ = 3;
    int64_t *order_ = which == 1 ? NULL : int64s_out;
    int64_t n_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT64_MIN : 2;
    tp_random_permutation(key_, order_, n_);
    got_nothing();
}
static const char *const cases_tp_random_permutation[] = {"Ggood arguments", "!order = NULL", "?n = INT64_MIN", "?n = 0", "?n = -1", NULL};

static void call_tp_pool_new(int which)
{
    (void)which;
    int threads_ = which == 3 ? -1 : which == 2 ? 0 : which == 1 ? INT_MIN : 1;
    got_pool(tp_pool_new(threads_));
}
static const char *const cases_tp_pool_new[] = {"Ggood arguments", "?threads = INT_MIN", "?threads = 0", "?threads = -1", NULL};

static void call_tp_pool_free(int which)
{
    (void)which;
    tp_pool *p_ = which == 1 ? NULL : pool_given();
    tp_pool_free(p_);
    got_nothing();
}
static const char *const cases_tp_pool_free[] = {"Ggood arguments", "?p = NULL", NULL};

static void call_tp_pool_threads(int which)
{
    (void)which;
    const tp_pool *p_ = which == 1 ? NULL : pool();
    (void)tp_pool_threads(p_);
    got_answer();
}
static const char *const cases_tp_pool_threads[] = {"Ggood arguments", "?p = NULL", NULL};

static void call_tp_pool_run(int which)
{
    (void)which;
    tp_pool *p_ = which == 1 ? NULL : pool();
    int64_t n_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT64_MIN : 3;
    tp_chunk_fn fn_ = which == 5 ? NULL : no_chunk;
    void *user_ = scratch;
    tp_pool_run(p_, n_, fn_, user_);
    got_nothing();
}
static const char *const cases_tp_pool_run[] = {"Ggood arguments", "?p = NULL", "?n = INT64_MIN", "?n = 0", "?n = -1", "!fn = NULL", NULL};

static void call_tp_time(int which)
{
    (void)which;
    (void)tp_time();
    got_answer();
}
static const char *const cases_tp_time[] = {"Ggood arguments", NULL};

static void call_tp_thread_start(int which)
{
    (void)which;
    tp_thread **t_ = which == 1 ? NULL : &thread_out;
    void (*fn_)(void *) = which == 2 ? NULL : no_thread;
    void *user_ = scratch;
    got_status(tp_thread_start(t_, fn_, user_));
}
static const char *const cases_tp_thread_start[] = {"Sgood arguments", "!t = NULL", "!fn = NULL", NULL};

static void call_tp_thread_join(int which)
{
    (void)which;
    tp_thread *t_ = NULL;
    tp_thread_join(t_);
    got_nothing();
}
static const char *const cases_tp_thread_join[] = {"Ggood arguments", "?t = NULL", NULL};

static void call_tp_thread_detach(int which)
{
    (void)which;
    tp_thread *t_ = NULL;
    tp_thread_detach(t_);
    got_nothing();
}
static const char *const cases_tp_thread_detach[] = {"Ggood arguments", "?t = NULL", NULL};

static void call_tp_mutex_new(int which)
{
    (void)which;
    got_mutex(tp_mutex_new());
}
static const char *const cases_tp_mutex_new[] = {"Ggood arguments", NULL};

static void call_tp_mutex_free(int which)
{
    (void)which;
    tp_mutex *m_ = which == 1 ? NULL : mutex_given();
    tp_mutex_free(m_);
    got_nothing();
}
static const char *const cases_tp_mutex_free[] = {"Ggood arguments", "?m = NULL", NULL};

static void call_tp_mutex_lock(int which)
{
    (void)which;
    tp_mutex *m_ = which == 1 ? NULL : mutex();
    tp_mutex_lock(m_);
    got_nothing();
}
static const char *const cases_tp_mutex_lock[] = {"Ggood arguments", "?m = NULL", NULL};

static void call_tp_mutex_unlock(int which)
{
    (void)which;
    tp_mutex *m_ = which == 1 ? NULL : mutex();
    tp_mutex_unlock(m_);
    got_nothing();
}
static const char *const cases_tp_mutex_unlock[] = {"Ggood arguments", "?m = NULL", NULL};

static void call_tp_cond_new(int which)
{
    (void)which;
    got_cond(tp_cond_new());
}
static const char *const cases_tp_cond_new[] = {"Ggood arguments", NULL};

static void call_tp_cond_free(int which)
{
    (void)which;
    tp_cond *c_ = which == 1 ? NULL : cond_given();
    tp_cond_free(c_);
    got_nothing();
}
static const char *const cases_tp_cond_free[] = {"Ggood arguments", "?c = NULL", NULL};

static void call_tp_cond_wait_for(int which)
{
    (void)which;
    tp_cond *c_ = which == 1 ? NULL : cond();
    tp_mutex *m_ = which == 2 ? NULL : mutex();
    double seconds_ = 0.5;
    (void)tp_cond_wait_for(c_, m_, seconds_);
    got_answer();
}
static const char *const cases_tp_cond_wait_for[] = {"Sgood arguments", "?c = NULL", "?m = NULL", NULL};

static void call_tp_cond_signal(int which)
{
    (void)which;
    tp_cond *c_ = which == 1 ? NULL : cond();
    tp_cond_signal(c_);
    got_nothing();
}
static const char *const cases_tp_cond_signal[] = {"Ggood arguments", "?c = NULL", NULL};

static void call_tp_cond_broadcast(int which)
{
    (void)which;
    tp_cond *c_ = which == 1 ? NULL : cond();
    tp_cond_broadcast(c_);
    got_nothing();
}
static const char *const cases_tp_cond_broadcast[] = {"Ggood arguments", "?c = NULL", NULL};

static void call_tp_kernel_fault(int which)
{
    (void)which;
    const tp_call *k_ = which == 1 ? NULL : a_call();
    int64_t value_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT64_MIN : 1;
    tp_kernel_fault(k_, value_);
    got_nothing();
}
static const char *const cases_tp_kernel_fault[] = {"Ggood arguments", "!k = NULL", "?value = INT64_MIN", "?value = 0", "?value = -1", NULL};

static void call_tp_device_ready(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_device_ready(d_);
    got_answer();
}
static const char *const cases_tp_device_ready[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_cpu_device_new(int which)
{
    (void)which;
    int threads_ = which == 3 ? -1 : which == 2 ? 0 : which == 1 ? INT_MIN : 1;
    const char *isa_ = which == 7 ? NULL : which == 6 ? "" : which == 5 ? long_text() : which == 4 ? ":/ " : NULL;
    got_device(tp_cpu_device_new(threads_, isa_));
}
static const char *const cases_tp_cpu_device_new[] = {"Ggood arguments", "?threads = INT_MIN", "?threads = 0", "?threads = -1", "?isa = \":/ \"", "?isa = 300 letters", "?isa = \"\"", "?isa = NULL", NULL};

static void call_tp_cpu_devices_new(int which)
{
    (void)which;
    int n_ = which == 3 ? -1 : which == 2 ? 0 : which == 1 ? INT_MIN : 1;
    int threads_ = which == 6 ? -1 : which == 5 ? 0 : which == 4 ? INT_MIN : 1;
    const char *isa_ = which == 10 ? NULL : which == 9 ? "" : which == 8 ? long_text() : which == 7 ? ":/ " : NULL;
    tp_device **out_ = which == 11 ? NULL : &device_out;
    got_status(tp_cpu_devices_new(n_, threads_, isa_, out_));
}
static const char *const cases_tp_cpu_devices_new[] = {"Ggood arguments", "?n = INT_MIN", "?n = 0", "!n = -1", "?threads = INT_MIN", "?threads = 0", "?threads = -1", "?isa = \":/ \"", "?isa = 300 letters", "?isa = \"\"", "?isa = NULL", "!out = NULL", NULL};

static void call_tp_device_isa(int which)
{
    (void)which;
    const tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_device_isa(d_);
    got_answer();
}
static const char *const cases_tp_device_isa[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_device_memory(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    tp_memory_use *m_ = which == 2 ? NULL : &memory_out;
    got_status(tp_device_memory(d_, m_));
}
static const char *const cases_tp_device_memory[] = {"Ggood arguments", "!d = NULL", "!m = NULL", NULL};

static void call_tp_device_utilization(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_device_utilization(d_);
    got_answer();
}
static const char *const cases_tp_device_utilization[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_device_add_kernel(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    const char *op_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    tp_kernel_fn fn_ = which == 6 ? NULL : no_kernel;
    got_status(tp_device_add_kernel(d_, op_, fn_));
}
static const char *const cases_tp_device_add_kernel[] = {"Ggood arguments", "!d = NULL", "?op = \":/ \"", "?op = 300 letters", "?op = \"\"", "!op = NULL", "!fn = NULL", NULL};

static void call_tp_device_parallel(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    int64_t n_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT64_MIN : 2;
    tp_chunk_fn fn_ = which == 5 ? NULL : no_chunk;
    void *user_ = scratch;
    tp_device_parallel(d_, n_, fn_, user_);
    got_nothing();
}
static const char *const cases_tp_device_parallel[] = {"Ggood arguments", "?d = NULL", "?n = INT64_MIN", "?n = 0", "?n = -1", "!fn = NULL", NULL};

static void call_tp_vec_find_add(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_add(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_add[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_sub(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_sub(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_sub[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_mul(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_mul(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_mul[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_div(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_div(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_div[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_pow(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_pow(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_pow[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_max(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_max(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_max[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_min(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_min(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_min[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_floordiv(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_floordiv(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_floordiv[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_mod(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_mod(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_mod[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_relu_grad(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_relu_grad(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_relu_grad[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_elu_grad(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_elu_grad(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_elu_grad[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_neg(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_neg(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_neg[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_abs(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_abs(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_abs[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_square(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_square(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_square[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_sqrt(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_sqrt(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_sqrt[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_rsqrt(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_rsqrt(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_rsqrt[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_reciprocal(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_reciprocal(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_reciprocal[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_exp(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_exp(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_exp[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_log(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_log(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_log[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_tanh(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_tanh(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_tanh[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_sigmoid(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_sigmoid(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_sigmoid[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_relu(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_relu(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_relu[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_erf(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_erf(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_erf[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_softplus(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_softplus(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_softplus[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_elu(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_elu(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_elu[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_sin(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_sin(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_sin[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_cos(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_cos(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_cos[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_asin(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_asin(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_asin[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_acos(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_acos(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_acos[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_atan(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_atan(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_atan[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_sign(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_sign(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_sign[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_floor(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_floor(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_floor[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_ceil(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_ceil(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_ceil[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_round(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_round(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_round[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_affine(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_affine(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_affine[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_clip(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_clip(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_clip[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_leaky_relu(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_leaky_relu(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_leaky_relu[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_clip_grad(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_clip_grad(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_clip_grad[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_find_leaky_relu_grad(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    (void)tp_vec_find_leaky_relu_grad(d_);
    got_answer();
}
static const char *const cases_tp_vec_find_leaky_relu_grad[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_vec_sum(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    int64_t n_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT64_MIN : 2;
    const float *x_ = which == 5 ? NULL : floats;
    (void)tp_vec_sum(d_, n_, x_);
    got_answer();
}
static const char *const cases_tp_vec_sum[] = {"Ggood arguments", "!d = NULL", "?n = INT64_MIN", "?n = 0", "?n = -1", "!x = NULL", NULL};

static void call_tp_vec_dot(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    int64_t n_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT64_MIN : 2;
    const float *x_ = which == 5 ? NULL : floats;
    const float *y_ = which == 6 ? NULL : floats;
    (void)tp_vec_dot(d_, n_, x_, y_);
    got_answer();
}
static const char *const cases_tp_vec_dot[] = {"Ggood arguments", "!d = NULL", "?n = INT64_MIN", "?n = 0", "?n = -1", "!x = NULL", "!y = NULL", NULL};

static void call_tp_vec_max(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    int64_t n_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT64_MIN : 2;
    const float *x_ = which == 5 ? NULL : floats;
    (void)tp_vec_max(d_, n_, x_);
    got_answer();
}
static const char *const cases_tp_vec_max[] = {"Ggood arguments", "!d = NULL", "?n = INT64_MIN", "?n = 0", "?n = -1", "!x = NULL", NULL};

static void call_tp_vec_adam(int which)
{
    (void)which;
    tp_device *d_ = which == 1 ? NULL : device();
    int64_t n_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT64_MIN : 2;
    float *w_ = which == 5 ? NULL : floats;
    float *m_ = which == 6 ? NULL : floats;
    float *v_ = which == 7 ? NULL : floats;
    const float *g_ = which == 8 ? NULL : floats;
    float lr_t_ = 0.5f;
    float b1_ = 0.5f;
    float b2_ = 0.5f;
    float eps_ = 0.5f;
    tp_vec_adam(d_, n_, w_, m_, v_, g_, lr_t_, b1_, b2_, eps_);
    got_nothing();
}
static const char *const cases_tp_vec_adam[] = {"Ggood arguments", "!d = NULL", "?n = INT64_MIN", "?n = 0", "?n = -1", "!w = NULL", "!m = NULL", "!v = NULL", "!g = NULL", NULL};

static void call_tp_expf(int which)
{
    (void)which;
    float x_ = 0.5f;
    (void)tp_expf(x_);
    got_answer();
}
static const char *const cases_tp_expf[] = {"Ggood arguments", NULL};

static void call_tp_logf(int which)
{
    (void)which;
    float x_ = 0.5f;
    (void)tp_logf(x_);
    got_answer();
}
static const char *const cases_tp_logf[] = {"Ggood arguments", NULL};

static void call_tp_tanhf(int which)
{
    (void)which;
    float x_ = 0.5f;
    (void)tp_tanhf(x_);
    got_answer();
}
static const char *const cases_tp_tanhf[] = {"Ggood arguments", NULL};

static void call_tp_erff(int which)
{
    (void)which;
    float x_ = 0.5f;
    (void)tp_erff(x_);
    got_answer();
}
static const char *const cases_tp_erff[] = {"Ggood arguments", NULL};

static void call_tp_file_read(int which)
{
    (void)which;
    const char *path_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : a_file("bytes");
    bool gunzip_ = true;
    size_t limit_ = 0;
    char **data_ = which == 5 ? NULL : &chars_out;
    size_t *size_ = which == 6 ? NULL : sizes_out;
    got_status(tp_file_read(path_, gunzip_, limit_, data_, size_));
}
static const char *const cases_tp_file_read[] = {"Ggood arguments", "?path = \":/ \"", "?path = 300 letters", "?path = \"\"", "!path = NULL", "!data = NULL", "!size = NULL", NULL};

static void call_tp_file_exists(int which)
{
    (void)which;
    const char *path_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : a_path("x.npz");
    (void)tp_file_exists(path_);
    got_answer();
}
static const char *const cases_tp_file_exists[] = {"Ggood arguments", "?path = \":/ \"", "?path = 300 letters", "?path = \"\"", "!path = NULL", NULL};

static void call_tp_make_dirs(int which)
{
    (void)which;
    const char *path_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : a_path("made");
    got_status(tp_make_dirs(path_));
}
static const char *const cases_tp_make_dirs[] = {"Ggood arguments", "?path = \":/ \"", "?path = 300 letters", "?path = \"\"", "!path = NULL", NULL};

static void call_tp_writer_open(int which)
{
    (void)which;
    tp_writer **w_ = which == 1 ? NULL : &writer_out;
    const char *path_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : a_path("x.npz");
    got_status(tp_writer_open(w_, path_));
}
static const char *const cases_tp_writer_open[] = {"Ggood arguments", "!w = NULL", "?path = \":/ \"", "?path = 300 letters", "?path = \"\"", "!path = NULL", NULL};

static void call_tp_writer_put(int which)
{
    (void)which;
    tp_writer *w_ = which == 1 ? NULL : writer();
    const void *data_ = which == 2 ? NULL : bytes;
    size_t size_ = 4;
    got_status(tp_writer_put(w_, data_, size_));
}
static const char *const cases_tp_writer_put[] = {"Ggood arguments", "!w = NULL", "!data = NULL", NULL};

static void call_tp_writer_commit(int which)
{
    (void)which;
    tp_writer *w_ = which == 1 ? NULL : writer_given();
    got_status(tp_writer_commit(w_));
}
static const char *const cases_tp_writer_commit[] = {"Ggood arguments", "!w = NULL", NULL};

static void call_tp_writer_abort(int which)
{
    (void)which;
    tp_writer *w_ = which == 1 ? NULL : writer_given();
    tp_writer_abort(w_);
    got_nothing();
}
static const char *const cases_tp_writer_abort[] = {"Ggood arguments", "?w = NULL", NULL};

static void call_tp_crc32(int which)
{
    (void)which;
    uint32_t crc_ = 3;
    const void *data_ = bytes;
    size_t n_ = 4;
    (void)tp_crc32(crc_, data_, n_);
    got_answer();
}
static const char *const cases_tp_crc32[] = {"Ggood arguments", NULL};

static void call_tp_crc32c(int which)
{
    (void)which;
    uint32_t crc_ = 3;
    const void *data_ = bytes;
    size_t n_ = 4;
    (void)tp_crc32c(crc_, data_, n_);
    got_answer();
}
static const char *const cases_tp_crc32c[] = {"Ggood arguments", NULL};

static void call_tp_inflate(int which)
{
    (void)which;
    const void *in_ = which == 1 ? NULL : bytes;
    size_t in_size_ = 4;
    void *out_ = which == 2 ? NULL : scratch;
    size_t out_size_ = 4;
    got_status(tp_inflate(in_, in_size_, out_, out_size_));
}
static const char *const cases_tp_inflate[] = {"?good arguments", "!in = NULL", "!out = NULL", NULL};

static void call_tp_inflate_alloc(int which)
{
    (void)which;
    const void *in_ = which == 1 ? NULL : bytes;
    size_t in_size_ = 4;
    size_t limit_ = 100;
    char **out_ = which == 2 ? NULL : &chars_out;
    size_t *out_size_ = which == 3 ? NULL : sizes_out;
    size_t *used_ = which == 4 ? NULL : sizes_out;
    got_status(tp_inflate_alloc(in_, in_size_, limit_, out_, out_size_, used_));
}
static const char *const cases_tp_inflate_alloc[] = {"?good arguments", "!in = NULL", "!out = NULL", "!out_size = NULL", "!used = NULL", NULL};

static void call_tp_deflate(int which)
{
    (void)which;
    const void *in_ = which == 1 ? NULL : bytes;
    size_t in_size_ = 4;
    tp_buf *out_ = which == 2 ? NULL : buf();
    got_status(tp_deflate(in_, in_size_, out_));
}
static const char *const cases_tp_deflate[] = {"Ggood arguments", "!in = NULL", "!out = NULL", NULL};

static void call_tp_npy_save(int which)
{
    (void)which;
    const char *path_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : a_path("x.npz");
    const tp_tensor *t_ = which == 5 ? NULL : a_tensor24();
    got_status(tp_npy_save(path_, t_));
}
static const char *const cases_tp_npy_save[] = {"Ggood arguments", "?path = \":/ \"", "?path = 300 letters", "?path = \"\"", "!path = NULL", "!t = NULL", NULL};

static void call_tp_npy_load(int which)
{
    (void)which;
    const char *path_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : a_path("x.npz");
    tp_tensor *t_ = which == 5 ? NULL : tensor_out();
    got_status(tp_npy_load(path_, t_));
}
static const char *const cases_tp_npy_load[] = {"?good arguments", "?path = \":/ \"", "?path = 300 letters", "?path = \"\"", "!path = NULL", "!t = NULL", NULL};

static void call_tp_npy_parse(int which)
{
    (void)which;
    const void *data_ = which == 1 ? NULL : bytes;
    size_t size_ = sizeof bytes;
    const char *what_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    tp_tensor *t_ = which == 6 ? NULL : tensor_out();
    got_status(tp_npy_parse(data_, size_, what_, t_));
}
static const char *const cases_tp_npy_parse[] = {"?good arguments", "!data = NULL", "?what = \":/ \"", "?what = 300 letters", "?what = \"\"", "?what = NULL", "!t = NULL", NULL};

static void call_tp_dict_find(int which)
{
    (void)which;
    const tp_dict *d_ = which == 1 ? NULL : dict();
    const char *name_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    (void)tp_dict_find(d_, name_);
    got_answer();
}
static const char *const cases_tp_dict_find[] = {"Ggood arguments", "!d = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", NULL};

static void call_tp_dict_add(int which)
{
    (void)which;
    tp_dict *d_ = which == 1 ? NULL : dict();
    const char *name_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    (void)tp_dict_add(d_, name_);
    got_answer();
}
static const char *const cases_tp_dict_add[] = {"Ggood arguments", "!d = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", NULL};

static void call_tp_dict_free(int which)
{
    (void)which;
    tp_dict *d_ = which == 1 ? NULL : dict();
    tp_dict_free(d_);
    got_nothing();
}
static const char *const cases_tp_dict_free[] = {"Ggood arguments", "?d = NULL", NULL};

static void call_tp_npz_load(int which)
{
    (void)which;
    const char *path_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : a_checkpoint();
    tp_dict *d_ = which == 5 ? NULL : dict();
    got_status(tp_npz_load(path_, d_));
}
static const char *const cases_tp_npz_load[] = {"Ggood arguments", "?path = \":/ \"", "?path = 300 letters", "?path = \"\"", "!path = NULL", "!d = NULL", NULL};

static void call_tp_npz_save(int which)
{
    (void)which;
    const char *path_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : a_path("x.npz");
    const tp_dict *d_ = which == 5 ? NULL : dict();
    bool compress_ = true;
    got_status(tp_npz_save(path_, d_, compress_));
}
static const char *const cases_tp_npz_save[] = {"Ggood arguments", "?path = \":/ \"", "?path = 300 letters", "?path = \"\"", "!path = NULL", "!d = NULL", NULL};

static void call_tp_npz_open(int which)
{
    (void)which;
    tp_npz_writer **w_ = which == 1 ? NULL : &npz_out;
    const char *path_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : a_path("x.npz");
    bool compress_ = true;
    got_status(tp_npz_open(w_, path_, compress_));
}
static const char *const cases_tp_npz_open[] = {"Ggood arguments", "!w = NULL", "?path = \":/ \"", "?path = 300 letters", "?path = \"\"", "!path = NULL", NULL};

static void call_tp_npz_put(int which)
{
    (void)which;
    tp_npz_writer *w_ = which == 1 ? NULL : npz();
    const char *name_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    const tp_tensor *t_ = which == 6 ? NULL : a_tensor24();
    got_status(tp_npz_put(w_, name_, t_));
}
static const char *const cases_tp_npz_put[] = {"Ggood arguments", "!w = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", "!t = NULL", NULL};

static void call_tp_npz_close(int which)
{
    (void)which;
    tp_npz_writer *w_ = which == 1 ? NULL : npz_given();
    got_status(tp_npz_close(w_));
}
static const char *const cases_tp_npz_close[] = {"Ggood arguments", "!w = NULL", NULL};

static void call_tp_npz_abort(int which)
{
    (void)which;
    tp_npz_writer *w_ = which == 1 ? NULL : npz_given();
    tp_npz_abort(w_);
    got_nothing();
}
static const char *const cases_tp_npz_abort[] = {"Ggood arguments", "?w = NULL", NULL};

static void call_tp_safetensors_load(int which)
{
    (void)which;
    const char *path_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : a_path("x.npz");
    tp_dict *d_ = which == 5 ? NULL : dict();
    got_status(tp_safetensors_load(path_, d_));
}
static const char *const cases_tp_safetensors_load[] = {"?good arguments", "?path = \":/ \"", "?path = 300 letters", "?path = \"\"", "!path = NULL", "!d = NULL", NULL};

static void call_tp_safetensors_parse(int which)
{
    (void)which;
    const void *data_ = which == 1 ? NULL : bytes;
    size_t size_ = 4;
    const char *what_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    tp_dict *d_ = which == 6 ? NULL : dict();
    got_status(tp_safetensors_parse(data_, size_, what_, d_));
}
static const char *const cases_tp_safetensors_parse[] = {"?good arguments", "!data = NULL", "?what = \":/ \"", "?what = 300 letters", "?what = \"\"", "?what = NULL", "!d = NULL", NULL};

static void call_tp_safetensors_save(int which)
{
    (void)which;
    const char *path_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : a_path("x.npz");
    const tp_dict *d_ = which == 5 ? NULL : dict();
    got_status(tp_safetensors_save(path_, d_));
}
static const char *const cases_tp_safetensors_save[] = {"Ggood arguments", "?path = \":/ \"", "?path = 300 letters", "?path = \"\"", "!path = NULL", "!d = NULL", NULL};

static void call_tp_tf_checkpoint_load(int which)
{
    (void)which;
    const char *prefix_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : a_path("tf");
    tp_dict *d_ = which == 5 ? NULL : dict();
    got_status(tp_tf_checkpoint_load(prefix_, d_));
}
static const char *const cases_tp_tf_checkpoint_load[] = {"?good arguments", "?prefix = \":/ \"", "?prefix = 300 letters", "?prefix = \"\"", "!prefix = NULL", "!d = NULL", NULL};

static void call_tp_tf_checkpoint_save(int which)
{
    (void)which;
    const char *prefix_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : a_path("tf");
    const tp_dict *d_ = which == 5 ? NULL : dict();
    got_status(tp_tf_checkpoint_save(prefix_, d_));
}
static const char *const cases_tp_tf_checkpoint_save[] = {"Ggood arguments", "?prefix = \":/ \"", "?prefix = 300 letters", "?prefix = \"\"", "!prefix = NULL", "!d = NULL", NULL};

static void call_tp_op_registry(int which)
{
    (void)which;
    int i_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT_MIN : which == 1 ? INT_MAX : 0;
    (void)tp_op_registry(i_);
    got_answer();
}
static const char *const cases_tp_op_registry[] = {"Ggood arguments", "?i = INT_MAX", "?i = INT_MIN", "?i = 0", "?i = -1", NULL};

static void call_tp_op_find(int which)
{
    (void)which;
    const char *name_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : "relu";
    (void)tp_op_find(name_);
    got_answer();
}
static const char *const cases_tp_op_find[] = {"Ggood arguments", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", NULL};

static void call_tp_infer_fail(int which)
{
    (void)which;
    tp_infer *s_ = which == 1 ? NULL : an_infer();
    tp_status status_ = TP_ERR;
    const char *fmt_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : no_format;
    got_status(tp_infer_fail(s_, status_, fmt_));
}
static const char *const cases_tp_infer_fail[] = {"?good arguments", "!s = NULL", "?fmt = \":/ \"", "?fmt = 300 letters", "?fmt = \"\"", "?fmt = NULL", NULL};

static void call_tp_apply(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const tp_op *row_ = which == 2 ? NULL : tp_op_find("relu");
    tp_node *const *in_ = which == 4 ? NULL : which == 3 ? list_with_null() : list_nodes();
    int n_in_ = which == 7 ? -1 : which == 6 ? 0 : which == 5 ? INT_MIN : 1;
    const void *attrs_ = NULL;
    got_node(tp_apply(g_, row_, in_, n_in_, attrs_));
}
static const char *const cases_tp_apply[] = {"Ggood arguments", "?g = NULL", "!row = NULL", "?in = a list with a NULL", "!in = NULL", "?n_in = INT_MIN", "?n_in = 0", "?n_in = -1", NULL};

static void call_tp_apply_ex(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const tp_apply_desc *d_ = which == 2 ? NULL : &apply_relu();
    got_node(tp_apply_ex(g_, d_));
}
static const char *const cases_tp_apply_ex[] = {"Ggood arguments", "?g = NULL", "!d = NULL", NULL};

static void call_tp_graph_new(int which)
{
    (void)which;
    const tp_graph_config *config_ = NULL;
    got_graph(tp_graph_new(config_));
}
static const char *const cases_tp_graph_new[] = {"Ggood arguments", "?config = NULL", NULL};

static void call_tp_graph_free(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph_given();
    tp_graph_free(g_);
    got_nothing();
}
static const char *const cases_tp_graph_free[] = {"Ggood arguments", "?g = NULL", NULL};

static void call_tp_graph_status(int which)
{
    (void)which;
    const tp_graph *g_ = which == 1 ? NULL : graph();
    got_status(tp_graph_status(g_));
}
static const char *const cases_tp_graph_status[] = {"Ggood arguments", "!g = NULL", NULL};

static void call_tp_graph_error(int which)
{
    (void)which;
    const tp_graph *g_ = which == 1 ? NULL : graph();
    (void)tp_graph_error(g_);
    got_answer();
}
static const char *const cases_tp_graph_error[] = {"Ggood arguments", "!g = NULL", NULL};

static void call_tp_graph_seed(int which)
{
    (void)which;
    const tp_graph *g_ = which == 1 ? NULL : graph();
    (void)tp_graph_seed(g_);
    got_answer();
}
static const char *const cases_tp_graph_seed[] = {"Ggood arguments", "!g = NULL", NULL};

static void call_tp_graph_fail(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const tp_at *at_ = which == 2 ? NULL : &here;
    tp_status status_ = TP_ERR;
    const char *fmt_ = which == 6 ? NULL : which == 5 ? "" : which == 4 ? long_text() : which == 3 ? ":/ " : no_format;
    got_node(tp_graph_fail(g_, at_, status_, fmt_));
}
static const char *const cases_tp_graph_fail[] = {"?good arguments", "!g = NULL", "?at = NULL", "?fmt = \":/ \"", "?fmt = 300 letters", "?fmt = \"\"", "?fmt = NULL", NULL};

static void call_tp_is_poison(int which)
{
    (void)which;
    const tp_node *n_ = which == 1 ? NULL : node();
    (void)tp_is_poison(n_);
    got_answer();
}
static const char *const cases_tp_is_poison[] = {"Ggood arguments", "?n = NULL", NULL};

static void call_tp_poison(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    got_node(tp_poison(g_));
}
static const char *const cases_tp_poison[] = {"?good arguments", "?g = NULL", NULL};

static void call_tp_node_graph(int which)
{
    (void)which;
    const tp_node *n_ = which == 1 ? NULL : node();
    (void)tp_node_graph(n_);
    got_answer();
}
static const char *const cases_tp_node_graph[] = {"Ggood arguments", "!n = NULL", NULL};

static void call_tp_graph_set_at(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    tp_at at_ = here;
    tp_graph_set_at(g_, at_);
    got_nothing();
}
static const char *const cases_tp_graph_set_at[] = {"Ggood arguments", "!g = NULL", NULL};

static void call_tp_graph_alloc(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    size_t size_ = 16;
    (void)tp_graph_alloc(g_, size_);
    got_answer();
}
static const char *const cases_tp_graph_alloc[] = {"Ggood arguments", "!g = NULL", NULL};

static void call_tp_graph_strdup(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const char *s_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    (void)tp_graph_strdup(g_, s_);
    got_answer();
}
static const char *const cases_tp_graph_strdup[] = {"Ggood arguments", "!g = NULL", "?s = \":/ \"", "?s = 300 letters", "?s = \"\"", "!s = NULL", NULL};

static void call_tp_graph_n_operations(int which)
{
    (void)which;
    const tp_graph *g_ = which == 1 ? NULL : graph();
    (void)tp_graph_n_operations(g_);
    got_answer();
}
static const char *const cases_tp_graph_n_operations[] = {"Ggood arguments", "!g = NULL", NULL};

static void call_tp_graph_operation(int which)
{
    (void)which;
    const tp_graph *g_ = which == 1 ? NULL : graph();
    int i_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : which == 2 ? INT_MAX : 0;
    (void)tp_graph_operation(g_, i_);
    got_answer();
}
static const char *const cases_tp_graph_operation[] = {"Ggood arguments", "!g = NULL", "?i = INT_MAX", "?i = INT_MIN", "?i = 0", "?i = -1", NULL};

static void call_tp_graph_n_variables(int which)
{
    (void)which;
    const tp_graph *g_ = which == 1 ? NULL : graph();
    (void)tp_graph_n_variables(g_);
    got_answer();
}
static const char *const cases_tp_graph_n_variables[] = {"Ggood arguments", "!g = NULL", NULL};

static void call_tp_graph_variable(int which)
{
    (void)which;
    const tp_graph *g_ = which == 1 ? NULL : graph();
    int i_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : which == 2 ? INT_MAX : 0;
    (void)tp_graph_variable(g_, i_);
    got_answer();
}
static const char *const cases_tp_graph_variable[] = {"Ggood arguments", "!g = NULL", "?i = INT_MAX", "?i = INT_MIN", "?i = 0", "?i = -1", NULL};

static void call_tp_graph_finalize(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    tp_graph_finalize(g_);
    got_nothing();
}
static const char *const cases_tp_graph_finalize[] = {"Ggood arguments", "!g = NULL", NULL};

static void call_tp_graph_describe_variables(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    tp_buf *out_ = which == 2 ? NULL : buf();
    tp_graph_describe_variables(g_, out_);
    got_nothing();
}
static const char *const cases_tp_graph_describe_variables[] = {"Ggood arguments", "!g = NULL", "!out = NULL", NULL};

static void call_tp_graph_to_dot(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    tp_node *const *targets_ = which == 3 ? NULL : which == 2 ? list_with_null() : list_nodes();
    int n_ = which == 6 ? -1 : which == 5 ? 0 : which == 4 ? INT_MIN : 2;
    tp_buf *out_ = which == 7 ? NULL : buf();
    tp_graph_to_dot(g_, targets_, n_, out_);
    got_nothing();
}
static const char *const cases_tp_graph_to_dot[] = {"Ggood arguments", "!g = NULL", "?targets = a list with a NULL", "?targets = NULL", "?n = INT_MIN", "?n = 0", "?n = -1", "!out = NULL", NULL};

static void call_tp_graph_find(int which)
{
    (void)which;
    const tp_graph *g_ = which == 1 ? NULL : graph();
    const char *name_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "variable";
    (void)tp_graph_find(g_, name_);
    got_answer();
}
static const char *const cases_tp_graph_find[] = {"Ggood arguments", "!g = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", NULL};

static void call_tp_graph_find_operation(int which)
{
    (void)which;
    const tp_graph *g_ = which == 1 ? NULL : graph();
    const char *name_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "variable";
    (void)tp_graph_find_operation(g_, name_);
    got_answer();
}
static const char *const cases_tp_graph_find_operation[] = {"Ggood arguments", "!g = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", NULL};

static void call_tp_node_name(int which)
{
    (void)which;
    const tp_node *n_ = which == 1 ? NULL : node();
    (void)tp_node_name(n_);
    got_answer();
}
static const char *const cases_tp_node_name[] = {"Ggood arguments", "!n = NULL", NULL};

static void call_tp_named(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    const char *name_ = which == 7 ? NULL : which == 6 ? "" : which == 5 ? long_text() : which == 4 ? ":/ " : "name";
    got_node(tp_named(x_, name_));
}
static const char *const cases_tp_named[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", NULL};

static void call_tp_name_scope_push(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const char *name_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "scope";
    tp_name_scope_push(g_, name_);
    got_nothing();
}
static const char *const cases_tp_name_scope_push[] = {"Ggood arguments", "!g = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "?name = NULL", NULL};

static void call_tp_name_scope_pop(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    tp_name_scope_pop(g_);
    got_nothing();
}
static const char *const cases_tp_name_scope_pop[] = {"?good arguments", "!g = NULL", NULL};

static void call_tp_name_scope(int which)
{
    (void)which;
    const tp_graph *g_ = which == 1 ? NULL : graph();
    (void)tp_name_scope(g_);
    got_answer();
}
static const char *const cases_tp_name_scope[] = {"Ggood arguments", "!g = NULL", NULL};

static void call_tp_cached_name_scope_push(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const char *name_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    bool top_level_ = true;
    tp_cached_name_scope_push(g_, name_, top_level_);
    got_nothing();
}
static const char *const cases_tp_cached_name_scope_push[] = {"Ggood arguments", "!g = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", NULL};

static void call_tp_variable_scope_push(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const tp_variable_scope_desc *d_ = which == 2 ? NULL : &variable_scope;
    tp_variable_scope_push(g_, d_);
    got_nothing();
}
static const char *const cases_tp_variable_scope_push[] = {"Ggood arguments", "!g = NULL", "!d = NULL", NULL};

static void call_tp_variable_scope_pop(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    tp_variable_scope_pop(g_);
    got_nothing();
}
static const char *const cases_tp_variable_scope_pop[] = {"?good arguments", "!g = NULL", NULL};

static void call_tp_variable_scope(int which)
{
    (void)which;
    const tp_graph *g_ = which == 1 ? NULL : graph();
    (void)tp_variable_scope(g_);
    got_answer();
}
static const char *const cases_tp_variable_scope[] = {"Ggood arguments", "!g = NULL", NULL};

static void call_tp_variable_scope_reuse(int which)
{
    (void)which;
    const tp_graph *g_ = which == 1 ? NULL : graph();
    (void)tp_variable_scope_reuse(g_);
    got_answer();
}
static const char *const cases_tp_variable_scope_reuse[] = {"Ggood arguments", "!g = NULL", NULL};

static void call_tp_device_enter(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    int device_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : which == 2 ? INT_MAX : 2;
    tp_device_enter(g_, device_);
    got_nothing();
}
static const char *const cases_tp_device_enter[] = {"Ggood arguments", "!g = NULL", "?device = INT_MAX", "?device = INT_MIN", "?device = 0", "?device = -1", NULL};

static void call_tp_device_leave(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    tp_device_leave(g_);
    got_nothing();
}
static const char *const cases_tp_device_leave[] = {"?good arguments", "!g = NULL", NULL};

static void call_tp_current_device(int which)
{
    (void)which;
    const tp_graph *g_ = which == 1 ? NULL : graph();
    (void)tp_current_device(g_);
    got_answer();
}
static const char *const cases_tp_current_device[] = {"Ggood arguments", "!g = NULL", NULL};

static void call_tp_node_device(int which)
{
    (void)which;
    const tp_node *n_ = which == 1 ? NULL : node();
    (void)tp_node_device(n_);
    got_answer();
}
static const char *const cases_tp_node_device[] = {"Ggood arguments", "!n = NULL", NULL};

static void call_tp_auto_reuse_variable_scope_push(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const char *function_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    tp_auto_reuse_variable_scope_push(g_, function_);
    got_nothing();
}
static const char *const cases_tp_auto_reuse_variable_scope_push[] = {"Ggood arguments", "!g = NULL", "?function = \":/ \"", "?function = 300 letters", "?function = \"\"", "!function = NULL", NULL};

static void call_tp_under_variable_scope_push(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const char *function_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    tp_under_variable_scope_push(g_, function_);
    got_nothing();
}
static const char *const cases_tp_under_variable_scope_push[] = {"Ggood arguments", "!g = NULL", "?function = \":/ \"", "?function = 300 letters", "?function = \"\"", "!function = NULL", NULL};

static void call_tp_under_name_scope_push(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const char *function_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    const char *name_ = which == 9 ? NULL : which == 8 ? "" : which == 7 ? long_text() : which == 6 ? ":/ " : "name";
    tp_under_name_scope_push(g_, function_, name_);
    got_nothing();
}
static const char *const cases_tp_under_name_scope_push[] = {"Ggood arguments", "!g = NULL", "?function = \":/ \"", "?function = 300 letters", "?function = \"\"", "!function = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "?name = NULL", NULL};

static void call_tp_remap_variables_push(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    tp_node *(*fn_)(tp_node *var, void *user) = which == 2 ? NULL : remap;
    void *user_ = scratch;
    tp_remap_variables_push(g_, fn_, user_);
    got_nothing();
}
static const char *const cases_tp_remap_variables_push[] = {"Ggood arguments", "!g = NULL", "!fn = NULL", NULL};

static void call_tp_freeze_variables_push(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    bool stop_gradient_ = true;
    bool skip_collection_ = true;
    tp_freeze_variables_push(g_, stop_gradient_, skip_collection_);
    got_nothing();
}
static const char *const cases_tp_freeze_variables_push[] = {"Ggood arguments", "!g = NULL", NULL};

static void call_tp_freeze_variables_(int which)
{
    (void)which;
    tp_freeze_variables_desc desc;
    memset(&desc, 0, sizeof desc);
    tp_graph *g_ = which == 1 ? NULL : graph();
    const tp_freeze_variables_desc *d_ = which == 2 ? NULL : &desc;
    tp_freeze_variables_(g_, d_);
    got_nothing();
}
static const char *const cases_tp_freeze_variables_[] = {"Ggood arguments", "!g = NULL", "?d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_collection_add(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const char *key_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    tp_node *n_ = which == 8 ? NULL : which == 7 ? node_of_another_graph() : which == 6 ? tp_relu(no_node) : node();
    tp_collection_add(g_, key_, n_);
    got_nothing();
}
static const char *const cases_tp_collection_add[] = {"Ggood arguments", "!g = NULL", "?key = \":/ \"", "?key = 300 letters", "?key = \"\"", "!key = NULL", "?n = poison of no graph", "?n = a node of another graph", "!n = NULL", NULL};

static void call_tp_collection(int which)
{
    (void)which;
    const tp_graph *g_ = which == 1 ? NULL : graph();
    const char *key_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    int *n_ = which == 6 ? NULL : ints_out;
    (void)tp_collection(g_, key_, n_);
    got_answer();
}
static const char *const cases_tp_collection[] = {"Ggood arguments", "!g = NULL", "?key = \":/ \"", "?key = 300 letters", "?key = \"\"", "!key = NULL", "!n = NULL", NULL};

static void call_tp_backup_collection(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const char *const *keys_ = which == 2 ? NULL : names;
    int n_keys_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : 2;
    (void)tp_backup_collection(g_, keys_, n_keys_);
    got_answer();
}
static const char *const cases_tp_backup_collection[] = {"Ggood arguments", "!g = NULL", "?keys = NULL", "?n_keys = INT_MIN", "?n_keys = 0", "?n_keys = -1", NULL};

static void call_tp_restore_collection(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const tp_collection_backup *b_ = which == 2 ? NULL : a_backup();
    tp_restore_collection(g_, b_);
    got_nothing();
}
static const char *const cases_tp_restore_collection[] = {"Ggood arguments", "!g = NULL", "?b = NULL", NULL};

static void call_tp_get_variable(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const tp_variable_desc *d_ = which == 2 ? NULL : &variable_desc;
    got_node(tp_get_variable(g_, d_));
}
static const char *const cases_tp_get_variable[] = {"Ggood arguments", "!g = NULL", "!d = NULL", NULL};

static void call_tp_get_variable_as(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const char *name_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    tp_dtype dtype_ = which == 8 ? TP_DTYPE_UNSET : which == 7 ? (tp_dtype)bad_enum : which == 6 ? (tp_dtype)large_enum : TP_F32;
    tp_shape shape_ = which == 12 ? bad_shape(9, 1) : which == 11 ? bad_shape(-1, 1) : which == 10 ? bad_shape(2, -5) : which == 9 ? bad_shape(4, (int64_t)1 << 40) : shape_of(2, 4);
    tp_init init_ = which == 13 ? bad_initial() : tp_init_zeros();
    got_node(tp_get_variable_as(g_, name_, dtype_, shape_, init_));
}
static const char *const cases_tp_get_variable_as[] = {"Ggood arguments", "!g = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", "!dtype = 99", "!dtype = -1", "?dtype = 0", "?shape = dimensions of 2^40", "?shape = a dimension of -5", "?shape = -1 dimensions", "!shape = 9 dimensions", "?init = of an unknown kind", NULL};

static void call_tp_getter_next(int which)
{
    (void)which;
    tp_getter_call *call_ = NULL;
    tp_variable_desc *d_ = which == 2 ? NULL : &variable_desc;
    got_node(tp_getter_next(call_, d_));
}
static const char *const cases_tp_getter_next[] = {"?good arguments", "!call = NULL", "!d = NULL", NULL};

static void call_tp_get_scalar_variable(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const char *name_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    float init_ = 0.5f;
    got_node(tp_get_scalar_variable(g_, name_, init_));
}
static const char *const cases_tp_get_scalar_variable[] = {"Ggood arguments", "!g = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", NULL};

static void call_tp_find_variable(int which)
{
    (void)which;
    const tp_graph *g_ = which == 1 ? NULL : graph();
    const char *name_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "variable";
    (void)tp_find_variable(g_, name_);
    got_answer();
}
static const char *const cases_tp_find_variable[] = {"Ggood arguments", "!g = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", NULL};

static void call_tp_node_variable(int which)
{
    (void)which;
    const tp_node *n_ = which == 1 ? NULL : node();
    (void)tp_node_variable(n_);
    got_answer();
}
static const char *const cases_tp_node_variable[] = {"Ggood arguments", "!n = NULL", NULL};

static void call_tp_get_global_step_var(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    got_node(tp_get_global_step_var(g_));
}
static const char *const cases_tp_get_global_step_var[] = {"Ggood arguments", "!g = NULL", NULL};

static void call_tp_init_constant(int which)
{
    (void)which;
    float value_ = 0.5f;
    (void)tp_init_constant(value_);
    got_answer();
}
static const char *const cases_tp_init_constant[] = {"Ggood arguments", NULL};

static void call_tp_init_zeros(int which)
{
    (void)which;
    (void)tp_init_zeros();
    got_answer();
}
static const char *const cases_tp_init_zeros[] = {"Ggood arguments", NULL};

static void call_tp_init_ones(int which)
{
    (void)which;
    (void)tp_init_ones();
    got_answer();
}
static const char *const cases_tp_init_ones[] = {"Ggood arguments", NULL};

static void call_tp_init_normal(int which)
{
    (void)which;
    float mean_ = 0.5f;
    float stddev_ = 0.5f;
    (void)tp_init_normal(mean_, stddev_);
    got_answer();
}
static const char *const cases_tp_init_normal[] = {"Ggood arguments", NULL};

static void call_tp_init_truncated_normal(int which)
{
    (void)which;
    float mean_ = 0.5f;
    float stddev_ = 0.5f;
    (void)tp_init_truncated_normal(mean_, stddev_);
    got_answer();
}
static const char *const cases_tp_init_truncated_normal[] = {"Ggood arguments", NULL};

static void call_tp_init_uniform(int which)
{
    (void)which;
    float low_ = 0.5f;
    float high_ = 0.5f;
    (void)tp_init_uniform(low_, high_);
    got_answer();
}
static const char *const cases_tp_init_uniform[] = {"Ggood arguments", NULL};

static void call_tp_init_variance_scaling(int which)
{
    (void)which;
    float scale_ = 0.5f;
    tp_fan_mode mode_ = TP_FAN_IN;
    tp_distribution distribution_ = TP_DIST_NORMAL;
    (void)tp_init_variance_scaling(scale_, mode_, distribution_);
    got_answer();
}
static const char *const cases_tp_init_variance_scaling[] = {"Ggood arguments", NULL};

static void call_tp_init_glorot_uniform(int which)
{
    (void)which;
    (void)tp_init_glorot_uniform();
    got_answer();
}
static const char *const cases_tp_init_glorot_uniform[] = {"Ggood arguments", NULL};

static void call_tp_init_values(int which)
{
    (void)which;
    const float *values_ = which == 1 ? NULL : floats;
    int64_t n_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT64_MIN : 2;
    (void)tp_init_values(values_, n_);
    got_answer();
}
static const char *const cases_tp_init_values[] = {"Ggood arguments", "?values = NULL", "?n = INT64_MIN", "?n = 0", "?n = -1", NULL};

static void call_tp_init_fill(int which)
{
    (void)which;
    const tp_init *init_ = which == 1 ? NULL : an_initial();
    uint64_t seed_ = 3;
    const char *name_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    tp_tensor *t_ = which == 6 ? NULL : a_tensor24();
    got_status(tp_init_fill(init_, seed_, name_, t_));
}
static const char *const cases_tp_init_fill[] = {"Ggood arguments", "!init = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", "!t = NULL", NULL};

static void call_tp_tower_enter(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const tp_tower_desc *d_ = which == 2 ? NULL : &tower_desc;
    (void)tp_tower_enter(g_, d_);
    got_answer();
}
static const char *const cases_tp_tower_enter[] = {"Ggood arguments", "!g = NULL", "!d = NULL", NULL};

static void call_tp_tower_leave(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    tp_tower_leave(g_);
    got_nothing();
}
static const char *const cases_tp_tower_leave[] = {"?good arguments", "!g = NULL", NULL};

static void call_tp_current_tower_context(int which)
{
    (void)which;
    const tp_graph *g_ = which == 1 ? NULL : graph();
    (void)tp_current_tower_context(g_);
    got_answer();
}
static const char *const cases_tp_current_tower_context[] = {"Ggood arguments", "!g = NULL", NULL};

static void call_tp_tower_collection(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const char *key_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    int *n_ = which == 6 ? NULL : ints_out;
    (void)tp_tower_collection(g_, key_, n_);
    got_answer();
}
static const char *const cases_tp_tower_collection[] = {"Ggood arguments", "!g = NULL", "?key = \":/ \"", "?key = 300 letters", "?key = \"\"", "!key = NULL", "!n = NULL", NULL};

static void call_tp_build_on_towers(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const tp_towers_desc *d_ = which == 2 ? NULL : &towers_desc;
    tp_tower_build_fn fn_ = which == 3 ? NULL : tower_function;
    void *user_ = scratch;
    tp_node **outputs_ = which == 4 ? NULL : nodes_out();
    got_status(tp_build_on_towers(g_, d_, fn_, user_, outputs_));
}
static const char *const cases_tp_build_on_towers[] = {"Ggood arguments", "!g = NULL", "!d = NULL", "!fn = NULL", "?outputs = NULL", NULL};

static void call_tp_tower_all_reduce(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    tp_node *const *xs_ = which == 3 ? NULL : which == 2 ? list_with_null() : list_nodes();
    int n_ = which == 6 ? -1 : which == 5 ? 0 : which == 4 ? INT_MIN : 2;
    bool mean_ = true;
    const char *what_ = which == 10 ? NULL : which == 9 ? "" : which == 8 ? long_text() : which == 7 ? ":/ " : "test";
    tp_node **ys_ = which == 11 ? NULL : nodes_out();
    tp_tower_all_reduce(g_, xs_, n_, mean_, what_, ys_);
    got_nothing();
}
static const char *const cases_tp_tower_all_reduce[] = {"?good arguments", "!g = NULL", "?xs = a list with a NULL", "!xs = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", "?what = \":/ \"", "?what = 300 letters", "?what = \"\"", "!what = NULL", "!ys = NULL", NULL};

static void call_tp_tower_func_new(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    tp_build_fn fn_ = which == 2 ? NULL : build_function;
    void *user_ = scratch;
    const tp_spec *specs_ = which == 3 ? NULL : a_spec();
    int n_ = which == 6 ? -1 : which == 5 ? 0 : which == 4 ? INT_MIN : 1;
    (void)tp_tower_func_new(g_, fn_, user_, specs_, n_);
    got_answer();
}
static const char *const cases_tp_tower_func_new[] = {"Ggood arguments", "!g = NULL", "!fn = NULL", "!specs = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_tower_func_call(int which)
{
    (void)which;
    tp_tower_func *f_ = which == 1 ? NULL : tower_func();
    tp_node *const *in_ = which == 3 ? NULL : which == 2 ? list_with_null() : list_nodes();
    got_node(tp_tower_func_call(f_, in_));
}
static const char *const cases_tp_tower_func_call[] = {"?good arguments", "!f = NULL", "?in = a list with a NULL", "!in = NULL", NULL};

static void call_tp_tower_func_signature(int which)
{
    (void)which;
    const tp_tower_func *f_ = which == 1 ? NULL : tower_func();
    int *n_ = which == 2 ? NULL : ints_out;
    (void)tp_tower_func_signature(f_, n_);
    got_answer();
}
static const char *const cases_tp_tower_func_signature[] = {"Ggood arguments", "!f = NULL", "!n = NULL", NULL};

static void call_tp_tower_func_n_towers(int which)
{
    (void)which;
    const tp_tower_func *f_ = which == 1 ? NULL : tower_func();
    (void)tp_tower_func_n_towers(f_);
    got_answer();
}
static const char *const cases_tp_tower_func_n_towers[] = {"Ggood arguments", "!f = NULL", NULL};

static void call_tp_tower_func_tower(int which)
{
    (void)which;
    const tp_tower_func *f_ = which == 1 ? NULL : tower_func();
    int i_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : which == 2 ? INT_MAX : 0;
    (void)tp_tower_func_tower(f_, i_);
    got_answer();
}
static const char *const cases_tp_tower_func_tower[] = {"Ggood arguments", "!f = NULL", "?i = INT_MAX", "?i = INT_MIN", "?i = 0", "?i = -1", NULL};

static void call_tp_tower_func_find(int which)
{
    (void)which;
    const tp_tower_func *f_ = which == 1 ? NULL : tower_func();
    const char *ns_name_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    (void)tp_tower_func_find(f_, ns_name_);
    got_answer();
}
static const char *const cases_tp_tower_func_find[] = {"Ggood arguments", "!f = NULL", "?ns_name = \":/ \"", "?ns_name = 300 letters", "?ns_name = \"\"", "!ns_name = NULL", NULL};

static void call_tp_tower_func_towers(int which)
{
    (void)which;
    const tp_tower_func *f_ = which == 1 ? NULL : tower_func();
    tp_towers which_ = TP_TOWERS_ALL;
    (void)tp_tower_func_towers(f_, which_);
    got_answer();
}
static const char *const cases_tp_tower_func_towers[] = {"Ggood arguments", "?f = NULL", NULL};

static void call_tp_tower_handles_n(int which)
{
    (void)which;
    tp_tower_handles h_ = tp_tower_func_towers(tower_func(), TP_TOWERS_ALL);
    (void)tp_tower_handles_n(h_);
    got_answer();
}
static const char *const cases_tp_tower_handles_n[] = {"Ggood arguments", NULL};

static void call_tp_tower_handles_at(int which)
{
    (void)which;
    tp_tower_handles h_ = tp_tower_func_towers(tower_func(), TP_TOWERS_ALL);
    int i_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT_MIN : which == 1 ? INT_MAX : 2;
    (void)tp_tower_handles_at(h_, i_);
    got_answer();
}
static const char *const cases_tp_tower_handles_at[] = {"Ggood arguments", "?i = INT_MAX", "?i = INT_MIN", "?i = 0", "?i = -1", NULL};

static void call_tp_tower_handles_find(int which)
{
    (void)which;
    tp_tower_handles h_ = tp_tower_func_towers(tower_func(), TP_TOWERS_ALL);
    const char *ns_name_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : "name";
    (void)tp_tower_handles_find(h_, ns_name_);
    got_answer();
}
static const char *const cases_tp_tower_handles_find[] = {"Ggood arguments", "?ns_name = \":/ \"", "?ns_name = 300 letters", "?ns_name = \"\"", "!ns_name = NULL", NULL};

static void call_tp_tower_handle_get(int which)
{
    (void)which;
    const tp_tower_handle *h_ = which == 1 ? NULL : tower_handle();
    const char *name_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    (void)tp_tower_handle_get(h_, name_);
    got_answer();
}
static const char *const cases_tp_tower_handle_get[] = {"Ggood arguments", "!h = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", NULL};

static void call_tp_tower_handle_get_variable(int which)
{
    (void)which;
    const tp_tower_handle *h_ = which == 1 ? NULL : tower_handle();
    const char *name_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    (void)tp_tower_handle_get_variable(h_, name_);
    got_answer();
}
static const char *const cases_tp_tower_handle_get_variable[] = {"Ggood arguments", "!h = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", NULL};

static void call_tp_tower_handle_get_tensors(int which)
{
    (void)which;
    const tp_tower_handle *h_ = which == 1 ? NULL : tower_handle();
    const char *const *names_ = which == 2 ? NULL : names;
    int n_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : 2;
    tp_node **nodes_ = which == 6 ? NULL : node_out();
    got_status(tp_tower_handle_get_tensors(h_, names_, n_, nodes_));
}
static const char *const cases_tp_tower_handle_get_tensors[] = {"?good arguments", "!h = NULL", "!names = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", "!nodes = NULL", NULL};

static void call_tp_tower_handle_get_variables(int which)
{
    (void)which;
    const tp_tower_handle *h_ = which == 1 ? NULL : tower_handle();
    const char *const *names_ = which == 2 ? NULL : names;
    int n_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : 2;
    tp_node **nodes_ = which == 6 ? NULL : node_out();
    got_status(tp_tower_handle_get_variables(h_, names_, n_, nodes_));
}
static const char *const cases_tp_tower_handle_get_variables[] = {"?good arguments", "!h = NULL", "!names = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", "!nodes = NULL", NULL};

static void call_tp_tower_handle_get_collection(int which)
{
    (void)which;
    const tp_tower_handle *h_ = which == 1 ? NULL : tower_handle();
    const char *key_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    int *n_ = which == 6 ? NULL : ints_out;
    (void)tp_tower_handle_get_collection(h_, key_, n_);
    got_answer();
}
static const char *const cases_tp_tower_handle_get_collection[] = {"Ggood arguments", "!h = NULL", "?key = \":/ \"", "?key = 300 letters", "?key = \"\"", "!key = NULL", "!n = NULL", NULL};

static void call_tp_gradients(int which)
{
    (void)which;
    tp_node *y_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_scalar();
    tp_node *const *xs_ = which == 5 ? NULL : which == 4 ? list_with_null() : list_scalar();
    int n_ = which == 8 ? -1 : which == 7 ? 0 : which == 6 ? INT_MIN : 1;
    tp_node **dxs_ = which == 9 ? NULL : nodes_out();
    got_node(tp_gradients(y_, xs_, n_, dxs_));
}
static const char *const cases_tp_gradients[] = {"Ggood arguments", "?y = poison of no graph", "?y = a node of another graph", "!y = NULL", "?xs = a list with a NULL", "!xs = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", "!dxs = NULL", NULL};

static void call_tp_gradients_from(int which)
{
    (void)which;
    tp_node *y_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_scalar();
    tp_node *dy_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : NULL;
    tp_node *const *xs_ = which == 8 ? NULL : which == 7 ? list_with_null() : list_scalar();
    int n_ = which == 11 ? -1 : which == 10 ? 0 : which == 9 ? INT_MIN : 1;
    tp_node **dxs_ = which == 12 ? NULL : nodes_out();
    got_node(tp_gradients_from(y_, dy_, xs_, n_, dxs_));
}
static const char *const cases_tp_gradients_from[] = {"Ggood arguments", "?y = poison of no graph", "?y = a node of another graph", "!y = NULL", "?dy = poison of no graph", "?dy = a node of another graph", "?dy = NULL", "?xs = a list with a NULL", "!xs = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", "!dxs = NULL", NULL};

static void call_tp_depends_on(int which)
{
    (void)which;
    tp_node *const *targets_ = which == 2 ? NULL : which == 1 ? list_with_null() : list_nodes();
    int n_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : 2;
    const tp_operation *op_ = which == 6 ? NULL : node()->op;
    (void)tp_depends_on(targets_, n_, op_);
    got_answer();
}
static const char *const cases_tp_depends_on[] = {"Ggood arguments", "?targets = a list with a NULL", "!targets = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", "!op = NULL", NULL};

static void call_tp_dependency_of_fetches(int which)
{
    (void)which;
    tp_node *const *const *lists_ = which == 1 ? NULL : list_of_lists();
    const int *n_ = which == 2 ? NULL : ints();
    int n_lists_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : 1;
    const tp_operation *op_ = which == 6 ? NULL : node()->op;
    (void)tp_dependency_of_fetches(lists_, n_, n_lists_, op_);
    got_answer();
}
static const char *const cases_tp_dependency_of_fetches[] = {"Ggood arguments", "!lists = NULL", "!n = NULL", "?n_lists = INT_MIN", "?n_lists = 0", "?n_lists = -1", "!op = NULL", NULL};

static void call_tp_placeholder(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const char *name_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    tp_dtype dtype_ = which == 8 ? TP_DTYPE_UNSET : which == 7 ? (tp_dtype)bad_enum : which == 6 ? (tp_dtype)large_enum : TP_F32;
    tp_shape shape_ = which == 12 ? bad_shape(9, 1) : which == 11 ? bad_shape(-1, 1) : which == 10 ? bad_shape(2, -5) : which == 9 ? bad_shape(4, (int64_t)1 << 40) : shape_of(2, 4);
    got_node(tp_placeholder(g_, name_, dtype_, shape_));
}
static const char *const cases_tp_placeholder[] = {"Ggood arguments", "!g = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "?name = NULL", "!dtype = 99", "!dtype = -1", "?dtype = 0", "?shape = dimensions of 2^40", "?shape = a dimension of -5", "?shape = -1 dimensions", "!shape = 9 dimensions", NULL};

static void call_tp_constant(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const tp_tensor *value_ = which == 2 ? NULL : a_tensor24();
    got_node(tp_constant(g_, value_));
}
static const char *const cases_tp_constant[] = {"Ggood arguments", "!g = NULL", "!value = NULL", NULL};

static void call_tp_const(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    float value_ = 0.5f;
    got_node(tp_const(g_, value_));
}
static const char *const cases_tp_const[] = {"Ggood arguments", "!g = NULL", NULL};

static void call_tp_const_as(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    tp_dtype dtype_ = which == 4 ? TP_DTYPE_UNSET : which == 3 ? (tp_dtype)bad_enum : which == 2 ? (tp_dtype)large_enum : TP_F32;
    double value_ = 0.5;
    got_node(tp_const_as(g_, dtype_, value_));
}
static const char *const cases_tp_const_as[] = {"Ggood arguments", "!g = NULL", "!dtype = 99", "!dtype = -1", "?dtype = 0", NULL};

static void call_tp_fill_like(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    float value_ = 0.5f;
    got_node(tp_fill_like(x_, value_));
}
static const char *const cases_tp_fill_like[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_zeros_like(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_zeros_like(x_));
}
static const char *const cases_tp_zeros_like[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_ones_like(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_ones_like(x_));
}
static const char *const cases_tp_ones_like[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_identity(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_identity(x_));
}
static const char *const cases_tp_identity[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_stop_gradient(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_stop_gradient(x_));
}
static const char *const cases_tp_stop_gradient[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_group(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    tp_node *const *nodes_ = which == 3 ? NULL : which == 2 ? list_with_null() : list_nodes();
    int n_ = which == 6 ? -1 : which == 5 ? 0 : which == 4 ? INT_MIN : 2;
    const char *name_ = which == 10 ? NULL : which == 9 ? "" : which == 8 ? long_text() : which == 7 ? ":/ " : "name";
    got_node(tp_group(g_, nodes_, n_, name_));
}
static const char *const cases_tp_group[] = {"Ggood arguments", "!g = NULL", "?nodes = a list with a NULL", "!nodes = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "?name = NULL", NULL};

static void call_tp_with_dependencies(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *const *after_ = which == 5 ? NULL : which == 4 ? list_with_null() : list_nodes();
    int n_ = which == 8 ? -1 : which == 7 ? 0 : which == 6 ? INT_MIN : 2;
    got_node(tp_with_dependencies(x_, after_, n_));
}
static const char *const cases_tp_with_dependencies[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?after = a list with a NULL", "!after = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_print(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    const char *message_ = which == 7 ? NULL : which == 6 ? "" : which == 5 ? long_text() : which == 4 ? ":/ " : "name";
    got_node(tp_print(x_, message_));
}
static const char *const cases_tp_print[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?message = \":/ \"", "?message = 300 letters", "?message = \"\"", "?message = NULL", NULL};

static void call_tp_check_numerics(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    const char *message_ = which == 7 ? NULL : which == 6 ? "" : which == 5 ? long_text() : which == 4 ? ":/ " : "name";
    got_node(tp_check_numerics(x_, message_));
}
static const char *const cases_tp_check_numerics[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?message = \":/ \"", "?message = 300 letters", "?message = \"\"", "?message = NULL", NULL};

static void call_tp_add(int which)
{
    (void)which;
    tp_node *a_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *b_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    got_node(tp_add(a_, b_));
}
static const char *const cases_tp_add[] = {"Ggood arguments", "!a = poison of no graph", "?a = a node of another graph", "!a = NULL", "!b = poison of no graph", "?b = a node of another graph", "!b = NULL", NULL};

static void call_tp_sub(int which)
{
    (void)which;
    tp_node *a_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *b_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    got_node(tp_sub(a_, b_));
}
static const char *const cases_tp_sub[] = {"Ggood arguments", "!a = poison of no graph", "?a = a node of another graph", "!a = NULL", "!b = poison of no graph", "?b = a node of another graph", "!b = NULL", NULL};

static void call_tp_mul(int which)
{
    (void)which;
    tp_node *a_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *b_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    got_node(tp_mul(a_, b_));
}
static const char *const cases_tp_mul[] = {"Ggood arguments", "!a = poison of no graph", "?a = a node of another graph", "!a = NULL", "!b = poison of no graph", "?b = a node of another graph", "!b = NULL", NULL};

static void call_tp_div(int which)
{
    (void)which;
    tp_node *a_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *b_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    got_node(tp_div(a_, b_));
}
static const char *const cases_tp_div[] = {"Ggood arguments", "!a = poison of no graph", "?a = a node of another graph", "!a = NULL", "!b = poison of no graph", "?b = a node of another graph", "!b = NULL", NULL};

static void call_tp_pow(int which)
{
    (void)which;
    tp_node *a_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *b_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    got_node(tp_pow(a_, b_));
}
static const char *const cases_tp_pow[] = {"Ggood arguments", "!a = poison of no graph", "?a = a node of another graph", "!a = NULL", "!b = poison of no graph", "?b = a node of another graph", "!b = NULL", NULL};

static void call_tp_maximum(int which)
{
    (void)which;
    tp_node *a_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *b_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    got_node(tp_maximum(a_, b_));
}
static const char *const cases_tp_maximum[] = {"Ggood arguments", "!a = poison of no graph", "?a = a node of another graph", "!a = NULL", "!b = poison of no graph", "?b = a node of another graph", "!b = NULL", NULL};

static void call_tp_minimum(int which)
{
    (void)which;
    tp_node *a_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *b_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    got_node(tp_minimum(a_, b_));
}
static const char *const cases_tp_minimum[] = {"Ggood arguments", "!a = poison of no graph", "?a = a node of another graph", "!a = NULL", "!b = poison of no graph", "?b = a node of another graph", "!b = NULL", NULL};

static void call_tp_squared_difference(int which)
{
    (void)which;
    tp_node *a_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *b_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    got_node(tp_squared_difference(a_, b_));
}
static const char *const cases_tp_squared_difference[] = {"Ggood arguments", "!a = poison of no graph", "?a = a node of another graph", "!a = NULL", "!b = poison of no graph", "?b = a node of another graph", "!b = NULL", NULL};

static void call_tp_floordiv(int which)
{
    (void)which;
    tp_node *a_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *b_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    got_node(tp_floordiv(a_, b_));
}
static const char *const cases_tp_floordiv[] = {"Ggood arguments", "!a = poison of no graph", "?a = a node of another graph", "!a = NULL", "!b = poison of no graph", "?b = a node of another graph", "!b = NULL", NULL};

static void call_tp_mod(int which)
{
    (void)which;
    tp_node *a_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *b_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    got_node(tp_mod(a_, b_));
}
static const char *const cases_tp_mod[] = {"Ggood arguments", "!a = poison of no graph", "?a = a node of another graph", "!a = NULL", "!b = poison of no graph", "?b = a node of another graph", "!b = NULL", NULL};

static void call_tp_greater(int which)
{
    (void)which;
    tp_node *a_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *b_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    got_node(tp_greater(a_, b_));
}
static const char *const cases_tp_greater[] = {"Ggood arguments", "!a = poison of no graph", "?a = a node of another graph", "!a = NULL", "!b = poison of no graph", "?b = a node of another graph", "!b = NULL", NULL};

static void call_tp_greater_equal(int which)
{
    (void)which;
    tp_node *a_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *b_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    got_node(tp_greater_equal(a_, b_));
}
static const char *const cases_tp_greater_equal[] = {"Ggood arguments", "!a = poison of no graph", "?a = a node of another graph", "!a = NULL", "!b = poison of no graph", "?b = a node of another graph", "!b = NULL", NULL};

static void call_tp_less(int which)
{
    (void)which;
    tp_node *a_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *b_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    got_node(tp_less(a_, b_));
}
static const char *const cases_tp_less[] = {"Ggood arguments", "!a = poison of no graph", "?a = a node of another graph", "!a = NULL", "!b = poison of no graph", "?b = a node of another graph", "!b = NULL", NULL};

static void call_tp_less_equal(int which)
{
    (void)which;
    tp_node *a_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *b_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    got_node(tp_less_equal(a_, b_));
}
static const char *const cases_tp_less_equal[] = {"Ggood arguments", "!a = poison of no graph", "?a = a node of another graph", "!a = NULL", "!b = poison of no graph", "?b = a node of another graph", "!b = NULL", NULL};

static void call_tp_equal(int which)
{
    (void)which;
    tp_node *a_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *b_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    got_node(tp_equal(a_, b_));
}
static const char *const cases_tp_equal[] = {"Ggood arguments", "!a = poison of no graph", "?a = a node of another graph", "!a = NULL", "!b = poison of no graph", "?b = a node of another graph", "!b = NULL", NULL};

static void call_tp_not_equal(int which)
{
    (void)which;
    tp_node *a_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *b_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    got_node(tp_not_equal(a_, b_));
}
static const char *const cases_tp_not_equal[] = {"Ggood arguments", "!a = poison of no graph", "?a = a node of another graph", "!a = NULL", "!b = poison of no graph", "?b = a node of another graph", "!b = NULL", NULL};

static void call_tp_logical_and(int which)
{
    (void)which;
    tp_node *a_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_bool();
    tp_node *b_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node_bool();
    got_node(tp_logical_and(a_, b_));
}
static const char *const cases_tp_logical_and[] = {"Ggood arguments", "!a = poison of no graph", "?a = a node of another graph", "!a = NULL", "!b = poison of no graph", "?b = a node of another graph", "!b = NULL", NULL};

static void call_tp_logical_or(int which)
{
    (void)which;
    tp_node *a_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_bool();
    tp_node *b_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node_bool();
    got_node(tp_logical_or(a_, b_));
}
static const char *const cases_tp_logical_or[] = {"Ggood arguments", "!a = poison of no graph", "?a = a node of another graph", "!a = NULL", "!b = poison of no graph", "?b = a node of another graph", "!b = NULL", NULL};

static void call_tp_logical_not(int which)
{
    (void)which;
    tp_node *a_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_bool();
    got_node(tp_logical_not(a_));
}
static const char *const cases_tp_logical_not[] = {"Ggood arguments", "!a = poison of no graph", "?a = a node of another graph", "!a = NULL", NULL};

static void call_tp_select(int which)
{
    (void)which;
    tp_node *cond_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_bool();
    tp_node *a_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    tp_node *b_ = which == 9 ? NULL : which == 8 ? node_of_another_graph() : which == 7 ? tp_relu(no_node) : node();
    got_node(tp_select(cond_, a_, b_));
}
static const char *const cases_tp_select[] = {"Ggood arguments", "?cond = poison of no graph", "?cond = a node of another graph", "!cond = NULL", "!a = poison of no graph", "?a = a node of another graph", "!a = NULL", "!b = poison of no graph", "?b = a node of another graph", "!b = NULL", NULL};

static void call_tp_neg(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_neg(x_));
}
static const char *const cases_tp_neg[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_abs(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_abs(x_));
}
static const char *const cases_tp_abs[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_sign(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_sign(x_));
}
static const char *const cases_tp_sign[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_square(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_square(x_));
}
static const char *const cases_tp_square[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_sqrt(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_sqrt(x_));
}
static const char *const cases_tp_sqrt[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_rsqrt(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_rsqrt(x_));
}
static const char *const cases_tp_rsqrt[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_reciprocal(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_reciprocal(x_));
}
static const char *const cases_tp_reciprocal[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_exp(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_exp(x_));
}
static const char *const cases_tp_exp[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_ln(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_ln(x_));
}
static const char *const cases_tp_ln[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_sin(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_sin(x_));
}
static const char *const cases_tp_sin[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_cos(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_cos(x_));
}
static const char *const cases_tp_cos[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_asin(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_asin(x_));
}
static const char *const cases_tp_asin[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_acos(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_acos(x_));
}
static const char *const cases_tp_acos[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_atan(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_atan(x_));
}
static const char *const cases_tp_atan[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_erf(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_erf(x_));
}
static const char *const cases_tp_erf[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_gelu(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_gelu(x_));
}
static const char *const cases_tp_gelu[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_gelu_tanh(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_gelu_tanh(x_));
}
static const char *const cases_tp_gelu_tanh[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_silu(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_silu(x_));
}
static const char *const cases_tp_silu[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_tanh(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_tanh(x_));
}
static const char *const cases_tp_tanh[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_sigmoid(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_sigmoid(x_));
}
static const char *const cases_tp_sigmoid[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_softplus(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_softplus(x_));
}
static const char *const cases_tp_softplus[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_relu(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_relu(x_));
}
static const char *const cases_tp_relu[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_leaky_relu(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    float alpha_ = 0.5f;
    got_node(tp_leaky_relu(x_, alpha_));
}
static const char *const cases_tp_leaky_relu[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_elu(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_elu(x_));
}
static const char *const cases_tp_elu[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_selu(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_selu(x_));
}
static const char *const cases_tp_selu[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_floor(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_floor(x_));
}
static const char *const cases_tp_floor[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_ceil(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_ceil(x_));
}
static const char *const cases_tp_ceil[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_round(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_round(x_));
}
static const char *const cases_tp_round[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_is_finite(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_is_finite(x_));
}
static const char *const cases_tp_is_finite[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_clip(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    float low_ = 0.5f;
    float high_ = 1.0f;
    got_node(tp_clip(x_, low_, high_));
}
static const char *const cases_tp_clip[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_affine(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    float scale_ = 0.5f;
    float offset_ = 0.5f;
    got_node(tp_affine(x_, scale_, offset_));
}
static const char *const cases_tp_affine[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_cast(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_dtype dtype_ = which == 6 ? TP_DTYPE_UNSET : which == 5 ? (tp_dtype)bad_enum : which == 4 ? (tp_dtype)large_enum : TP_F64;
    got_node(tp_cast(x_, dtype_));
}
static const char *const cases_tp_cast[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!dtype = 99", "!dtype = -1", "?dtype = 0", NULL};

static void call_tp_add_n(int which)
{
    (void)which;
    tp_node *const *xs_ = which == 2 ? NULL : which == 1 ? list_with_null() : list_nodes();
    int n_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : 2;
    got_node(tp_add_n(xs_, n_));
}
static const char *const cases_tp_add_n[] = {"Ggood arguments", "?xs = a list with a NULL", "!xs = NULL", "?n = INT_MIN", "!n = 0", "!n = -1", NULL};

static void call_tp_all_reduce(int which)
{
    (void)which;
    tp_node *const *xs_ = which == 2 ? NULL : which == 1 ? list_with_null() : list_nodes();
    int n_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : 2;
    bool mean_ = true;
    tp_node **ys_ = which == 6 ? NULL : nodes_out();
    got_node(tp_all_reduce(xs_, n_, mean_, ys_));
}
static const char *const cases_tp_all_reduce[] = {"Ggood arguments", "?xs = a list with a NULL", "!xs = NULL", "?n = INT_MIN", "!n = 0", "!n = -1", "!ys = NULL", NULL};

static void call_tp_reduce_sum(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    const int *axes_ = which == 4 ? NULL : ints_zero();
    int n_axes_ = which == 7 ? -1 : which == 6 ? 0 : which == 5 ? INT_MIN : 1;
    bool keep_dims_ = false;
    got_node(tp_reduce_sum(x_, axes_, n_axes_, keep_dims_));
}
static const char *const cases_tp_reduce_sum[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?axes = NULL", "?n_axes = INT_MIN", "?n_axes = 0", "?n_axes = -1", NULL};

static void call_tp_reduce_mean(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    const int *axes_ = which == 4 ? NULL : ints_zero();
    int n_axes_ = which == 7 ? -1 : which == 6 ? 0 : which == 5 ? INT_MIN : 1;
    bool keep_dims_ = false;
    got_node(tp_reduce_mean(x_, axes_, n_axes_, keep_dims_));
}
static const char *const cases_tp_reduce_mean[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!axes = NULL", "?n_axes = INT_MIN", "?n_axes = 0", "?n_axes = -1", NULL};

static void call_tp_reduce_max(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    const int *axes_ = which == 4 ? NULL : ints_zero();
    int n_axes_ = which == 7 ? -1 : which == 6 ? 0 : which == 5 ? INT_MIN : 1;
    bool keep_dims_ = false;
    got_node(tp_reduce_max(x_, axes_, n_axes_, keep_dims_));
}
static const char *const cases_tp_reduce_max[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!axes = NULL", "?n_axes = INT_MIN", "?n_axes = 0", "?n_axes = -1", NULL};

static void call_tp_reduce_min(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    const int *axes_ = which == 4 ? NULL : ints_zero();
    int n_axes_ = which == 7 ? -1 : which == 6 ? 0 : which == 5 ? INT_MIN : 1;
    bool keep_dims_ = false;
    got_node(tp_reduce_min(x_, axes_, n_axes_, keep_dims_));
}
static const char *const cases_tp_reduce_min[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!axes = NULL", "?n_axes = INT_MIN", "?n_axes = 0", "?n_axes = -1", NULL};

static void call_tp_reduce_prod(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    const int *axes_ = which == 4 ? NULL : ints_zero();
    int n_axes_ = which == 7 ? -1 : which == 6 ? 0 : which == 5 ? INT_MIN : 1;
    bool keep_dims_ = false;
    got_node(tp_reduce_prod(x_, axes_, n_axes_, keep_dims_));
}
static const char *const cases_tp_reduce_prod[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!axes = NULL", "?n_axes = INT_MIN", "?n_axes = 0", "?n_axes = -1", NULL};

static void call_tp_reduce_all(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_bool();
    const int *axes_ = which == 4 ? NULL : ints_zero();
    int n_axes_ = which == 7 ? -1 : which == 6 ? 0 : which == 5 ? INT_MIN : 1;
    bool keep_dims_ = false;
    got_node(tp_reduce_all(x_, axes_, n_axes_, keep_dims_));
}
static const char *const cases_tp_reduce_all[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!axes = NULL", "?n_axes = INT_MIN", "?n_axes = 0", "?n_axes = -1", NULL};

static void call_tp_reduce_any(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_bool();
    const int *axes_ = which == 4 ? NULL : ints_zero();
    int n_axes_ = which == 7 ? -1 : which == 6 ? 0 : which == 5 ? INT_MIN : 1;
    bool keep_dims_ = false;
    got_node(tp_reduce_any(x_, axes_, n_axes_, keep_dims_));
}
static const char *const cases_tp_reduce_any[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!axes = NULL", "?n_axes = INT_MIN", "?n_axes = 0", "?n_axes = -1", NULL};

static void call_tp_sum(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_sum(x_));
}
static const char *const cases_tp_sum[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_mean(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_mean(x_));
}
static const char *const cases_tp_mean[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_l2_loss(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_l2_loss(x_));
}
static const char *const cases_tp_l2_loss[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_zero_fraction(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_zero_fraction(x_));
}
static const char *const cases_tp_zero_fraction[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_global_norm(int which)
{
    (void)which;
    tp_node *const *xs_ = which == 2 ? NULL : which == 1 ? list_with_null() : list_nodes();
    int n_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : 2;
    got_node(tp_global_norm(xs_, n_));
}
static const char *const cases_tp_global_norm[] = {"Ggood arguments", "?xs = a list with a NULL", "!xs = NULL", "?n = INT_MIN", "!n = 0", "!n = -1", NULL};

static void call_tp_argmax(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    int axis_ = which == 7 ? -1 : which == 6 ? 0 : which == 5 ? INT_MIN : which == 4 ? INT_MAX : 0;
    got_node(tp_argmax(x_, axis_));
}
static const char *const cases_tp_argmax[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?axis = INT_MAX", "?axis = INT_MIN", "?axis = 0", "?axis = -1", NULL};

static void call_tp_cumsum(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    int axis_ = which == 7 ? -1 : which == 6 ? 0 : which == 5 ? INT_MIN : which == 4 ? INT_MAX : 0;
    bool exclusive_ = true;
    bool reverse_ = true;
    got_node(tp_cumsum(x_, axis_, exclusive_, reverse_));
}
static const char *const cases_tp_cumsum[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?axis = INT_MAX", "?axis = INT_MIN", "?axis = 0", "?axis = -1", NULL};

static void call_tp_top_k(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    int k_ = which == 7 ? -1 : which == 6 ? 0 : which == 5 ? INT_MIN : which == 4 ? INT_MAX : 1;
    tp_node **indices_ = which == 8 ? NULL : node_out();
    got_node(tp_top_k(x_, k_, indices_));
}
static const char *const cases_tp_top_k[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?k = INT_MAX", "?k = INT_MIN", "?k = 0", "?k = -1", "?indices = NULL", NULL};

static void call_tp_in_top_k(int which)
{
    (void)which;
    tp_node *logits_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *labels_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node_labels();
    int k_ = which == 10 ? -1 : which == 9 ? 0 : which == 8 ? INT_MIN : which == 7 ? INT_MAX : 1;
    got_node(tp_in_top_k(logits_, labels_, k_));
}
static const char *const cases_tp_in_top_k[] = {"Ggood arguments", "!logits = poison of no graph", "?logits = a node of another graph", "!logits = NULL", "?labels = poison of no graph", "?labels = a node of another graph", "!labels = NULL", "?k = INT_MAX", "?k = INT_MIN", "?k = 0", "?k = -1", NULL};

static void call_tp_sum_to_like(int which)
{
    (void)which;
    tp_node *dy_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *ref_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    got_node(tp_sum_to_like(dy_, ref_));
}
static const char *const cases_tp_sum_to_like[] = {"Ggood arguments", "?dy = poison of no graph", "?dy = a node of another graph", "!dy = NULL", "?ref = poison of no graph", "?ref = a node of another graph", "!ref = NULL", NULL};

static void call_tp_broadcast_like(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *ref_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    got_node(tp_broadcast_like(x_, ref_));
}
static const char *const cases_tp_broadcast_like[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?ref = poison of no graph", "?ref = a node of another graph", "!ref = NULL", NULL};

static void call_tp_matmul(int which)
{
    (void)which;
    tp_node *a_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *b_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node_square();
    got_node(tp_matmul(a_, b_));
}
static const char *const cases_tp_matmul[] = {"Ggood arguments", "!a = poison of no graph", "?a = a node of another graph", "!a = NULL", "!b = poison of no graph", "?b = a node of another graph", "!b = NULL", NULL};

static void call_tp_matmul_ex(int which)
{
    (void)which;
    tp_node *a_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *b_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node_square();
    bool transpose_a_ = false;
    bool transpose_b_ = false;
    got_node(tp_matmul_ex(a_, b_, transpose_a_, transpose_b_));
}
static const char *const cases_tp_matmul_ex[] = {"Ggood arguments", "!a = poison of no graph", "?a = a node of another graph", "!a = NULL", "!b = poison of no graph", "?b = a node of another graph", "!b = NULL", NULL};

static void call_tp_nn_conv2d(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_image();
    tp_node *w_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node_filter();
    const tp_conv2d_attrs *a_ = which == 7 ? NULL : &conv_attrs;
    got_node(tp_nn_conv2d(x_, w_, a_));
}
static const char *const cases_tp_nn_conv2d[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?w = poison of no graph", "?w = a node of another graph", "!w = NULL", "!a = NULL", NULL};

static void call_tp_nn_conv2d_input_grad(int which)
{
    (void)which;
    tp_node *dy_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_image2();
    tp_node *w_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node_filter();
    tp_node *x_like_ = which == 9 ? NULL : which == 8 ? node_of_another_graph() : which == 7 ? tp_relu(no_node) : node_image();
    const tp_conv2d_attrs *a_ = which == 10 ? NULL : &conv_attrs;
    got_node(tp_nn_conv2d_input_grad(dy_, w_, x_like_, a_));
}
static const char *const cases_tp_nn_conv2d_input_grad[] = {"Ggood arguments", "?dy = poison of no graph", "?dy = a node of another graph", "!dy = NULL", "?w = poison of no graph", "?w = a node of another graph", "!w = NULL", "?x_like = poison of no graph", "?x_like = a node of another graph", "!x_like = NULL", "!a = NULL", NULL};

static void call_tp_nn_conv2d_filter_grad(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_image();
    tp_node *dy_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node_image2();
    tp_node *w_like_ = which == 9 ? NULL : which == 8 ? node_of_another_graph() : which == 7 ? tp_relu(no_node) : node_filter();
    const tp_conv2d_attrs *a_ = which == 10 ? NULL : &conv_attrs;
    got_node(tp_nn_conv2d_filter_grad(x_, dy_, w_like_, a_));
}
static const char *const cases_tp_nn_conv2d_filter_grad[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?dy = poison of no graph", "?dy = a node of another graph", "!dy = NULL", "?w_like = poison of no graph", "?w_like = a node of another graph", "!w_like = NULL", "!a = NULL", NULL};

static void call_tp_nn_bias_add(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *b_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node_row();
    int data_format_ = which == 10 ? -1 : which == 9 ? 0 : which == 8 ? INT_MIN : which == 7 ? INT_MAX : 2;
    got_node(tp_nn_bias_add(x_, b_, data_format_));
}
static const char *const cases_tp_nn_bias_add[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!b = poison of no graph", "?b = a node of another graph", "!b = NULL", "?data_format = INT_MAX", "?data_format = INT_MIN", "?data_format = 0", "?data_format = -1", NULL};

static void call_tp_nn_max_pool(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_image();
    const tp_pool_attrs *a_ = which == 4 ? NULL : &pool_attrs;
    got_node(tp_nn_max_pool(x_, a_));
}
static const char *const cases_tp_nn_max_pool[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!a = NULL", NULL};

static void call_tp_nn_avg_pool(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_image();
    const tp_pool_attrs *a_ = which == 4 ? NULL : &pool_attrs;
    got_node(tp_nn_avg_pool(x_, a_));
}
static const char *const cases_tp_nn_avg_pool[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!a = NULL", NULL};

static void call_tp_resize_bilinear(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_image();
    const tp_resize_attrs *a_ = which == 4 ? NULL : &resize_attrs;
    got_node(tp_resize_bilinear(x_, a_));
}
static const char *const cases_tp_resize_bilinear[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!a = NULL", NULL};

static void call_tp_resize_nearest(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_image();
    const tp_resize_attrs *a_ = which == 4 ? NULL : &resize_attrs;
    got_node(tp_resize_nearest(x_, a_));
}
static const char *const cases_tp_resize_nearest[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!a = NULL", NULL};

static void call_tp_bilinear_sampler(int which)
{
    (void)which;
    tp_node *image_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_image();
    tp_node *coords_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node_coords();
    int border_ = which == 10 ? -1 : which == 9 ? 0 : which == 8 ? INT_MIN : which == 7 ? INT_MAX : 0;
    got_node(tp_bilinear_sampler(image_, coords_, border_));
}
static const char *const cases_tp_bilinear_sampler[] = {"Ggood arguments", "?image = poison of no graph", "?image = a node of another graph", "!image = NULL", "?coords = poison of no graph", "?coords = a node of another graph", "!coords = NULL", "?border = INT_MAX", "?border = INT_MIN", "?border = 0", "?border = -1", NULL};

static void call_tp_nn_batch_norm_train(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *gamma_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node_row();
    tp_node *beta_ = which == 9 ? NULL : which == 8 ? node_of_another_graph() : which == 7 ? tp_relu(no_node) : node_row();
    int axis_ = which == 13 ? -1 : which == 12 ? 0 : which == 11 ? INT_MIN : which == 10 ? INT_MAX : 1;
    float epsilon_ = 0.5f;
    bool unbiased_ = true;
    tp_node **out_mean_ = which == 14 ? NULL : node_out();
    tp_node **out_var_ = which == 15 ? NULL : node_out();
    got_node(tp_nn_batch_norm_train(x_, gamma_, beta_, axis_, epsilon_, unbiased_, out_mean_, out_var_));
}
static const char *const cases_tp_nn_batch_norm_train[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?gamma = poison of no graph", "?gamma = a node of another graph", "!gamma = NULL", "?beta = poison of no graph", "?beta = a node of another graph", "!beta = NULL", "?axis = INT_MAX", "?axis = INT_MIN", "?axis = 0", "?axis = -1", "?out_mean = NULL", "?out_var = NULL", NULL};

static void call_tp_nn_batch_norm_infer(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *gamma_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node_row();
    tp_node *beta_ = which == 9 ? NULL : which == 8 ? node_of_another_graph() : which == 7 ? tp_relu(no_node) : node_row();
    tp_node *mean_ = which == 12 ? NULL : which == 11 ? node_of_another_graph() : which == 10 ? tp_relu(no_node) : node_row();
    tp_node *var_ = which == 15 ? NULL : which == 14 ? node_of_another_graph() : which == 13 ? tp_relu(no_node) : node_row();
    int axis_ = which == 19 ? -1 : which == 18 ? 0 : which == 17 ? INT_MIN : which == 16 ? INT_MAX : 1;
    float epsilon_ = 0.5f;
    got_node(tp_nn_batch_norm_infer(x_, gamma_, beta_, mean_, var_, axis_, epsilon_));
}
static const char *const cases_tp_nn_batch_norm_infer[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?gamma = poison of no graph", "?gamma = a node of another graph", "!gamma = NULL", "?beta = poison of no graph", "?beta = a node of another graph", "!beta = NULL", "?mean = poison of no graph", "?mean = a node of another graph", "!mean = NULL", "?var = poison of no graph", "?var = a node of another graph", "!var = NULL", "?axis = INT_MAX", "?axis = INT_MIN", "?axis = 0", "?axis = -1", NULL};

static void call_tp_nn_layer_norm(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *gamma_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node_row();
    tp_node *beta_ = which == 9 ? NULL : which == 8 ? node_of_another_graph() : which == 7 ? tp_relu(no_node) : node_row();
    float epsilon_ = 0.5f;
    got_node(tp_nn_layer_norm(x_, gamma_, beta_, epsilon_));
}
static const char *const cases_tp_nn_layer_norm[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?gamma = poison of no graph", "?gamma = a node of another graph", "!gamma = NULL", "?beta = poison of no graph", "?beta = a node of another graph", "!beta = NULL", NULL};

static void call_tp_nn_group_norm(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_image4();
    tp_node *gamma_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node_row();
    tp_node *beta_ = which == 9 ? NULL : which == 8 ? node_of_another_graph() : which == 7 ? tp_relu(no_node) : node_row();
    int axis_ = which == 13 ? -1 : which == 12 ? 0 : which == 11 ? INT_MIN : which == 10 ? INT_MAX : 3;
    int groups_ = which == 17 ? -1 : which == 16 ? 0 : which == 15 ? INT_MIN : which == 14 ? INT_MAX : 2;
    float epsilon_ = 0.5f;
    got_node(tp_nn_group_norm(x_, gamma_, beta_, axis_, groups_, epsilon_));
}
static const char *const cases_tp_nn_group_norm[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?gamma = poison of no graph", "?gamma = a node of another graph", "!gamma = NULL", "?beta = poison of no graph", "?beta = a node of another graph", "!beta = NULL", "?axis = INT_MAX", "?axis = INT_MIN", "?axis = 0", "?axis = -1", "?groups = INT_MAX", "?groups = INT_MIN", "?groups = 0", "?groups = -1", NULL};

static void call_tp_softmax(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_softmax(x_));
}
static const char *const cases_tp_softmax[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_log_softmax(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_log_softmax(x_));
}
static const char *const cases_tp_log_softmax[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_sparse_softmax_cross_entropy(int which)
{
    (void)which;
    tp_node *logits_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *labels_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node_labels();
    got_node(tp_sparse_softmax_cross_entropy(logits_, labels_));
}
static const char *const cases_tp_sparse_softmax_cross_entropy[] = {"Ggood arguments", "!logits = poison of no graph", "?logits = a node of another graph", "!logits = NULL", "?labels = poison of no graph", "?labels = a node of another graph", "!labels = NULL", NULL};

static void call_tp_softmax_cross_entropy(int which)
{
    (void)which;
    tp_node *logits_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *labels_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    got_node(tp_softmax_cross_entropy(logits_, labels_));
}
static const char *const cases_tp_softmax_cross_entropy[] = {"Ggood arguments", "!logits = poison of no graph", "?logits = a node of another graph", "!logits = NULL", "?labels = poison of no graph", "?labels = a node of another graph", "!labels = NULL", NULL};

static void call_tp_sigmoid_cross_entropy(int which)
{
    (void)which;
    tp_node *logits_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *labels_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    got_node(tp_sigmoid_cross_entropy(logits_, labels_));
}
static const char *const cases_tp_sigmoid_cross_entropy[] = {"Ggood arguments", "!logits = poison of no graph", "?logits = a node of another graph", "!logits = NULL", "?labels = poison of no graph", "?labels = a node of another graph", "!labels = NULL", NULL};

static void call_tp_ctc_loss(int which)
{
    (void)which;
    tp_node *logits_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_sequence();
    tp_node *labels_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node_label_table();
    tp_node *label_lengths_ = which == 9 ? NULL : which == 8 ? node_of_another_graph() : which == 7 ? tp_relu(no_node) : node_labels();
    tp_node *logit_lengths_ = which == 12 ? NULL : which == 11 ? node_of_another_graph() : which == 10 ? tp_relu(no_node) : node_labels();
    const tp_ctc_attrs *a_ = NULL;
    got_node(tp_ctc_loss(logits_, labels_, label_lengths_, logit_lengths_, a_));
}
static const char *const cases_tp_ctc_loss[] = {"Ggood arguments", "!logits = poison of no graph", "?logits = a node of another graph", "!logits = NULL", "?labels = poison of no graph", "?labels = a node of another graph", "!labels = NULL", "?label_lengths = poison of no graph", "?label_lengths = a node of another graph", "!label_lengths = NULL", "?logit_lengths = poison of no graph", "?logit_lengths = a node of another graph", "!logit_lengths = NULL", "?a = NULL", NULL};

static void call_tp_nn_lstm(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_sequence();
    tp_node *kernel_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node_of(8, 16);
    tp_node *bias_ = which == 9 ? NULL : which == 8 ? node_of_another_graph() : which == 7 ? tp_relu(no_node) : node_of1(16);
    tp_node *h0_ = which == 12 ? NULL : which == 11 ? node_of_another_graph() : which == 10 ? tp_relu(no_node) : node();
    tp_node *c0_ = which == 15 ? NULL : which == 14 ? node_of_another_graph() : which == 13 ? tp_relu(no_node) : node();
    float forget_bias_ = 0.5f;
    bool batch_major_ = true;
    tp_node **last_h_ = which == 16 ? NULL : node_out();
    tp_node **last_c_ = which == 17 ? NULL : node_out();
    got_node(tp_nn_lstm(x_, kernel_, bias_, h0_, c0_, forget_bias_, batch_major_, last_h_, last_c_));
}
static const char *const cases_tp_nn_lstm[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?kernel = poison of no graph", "?kernel = a node of another graph", "!kernel = NULL", "?bias = poison of no graph", "?bias = a node of another graph", "!bias = NULL", "?h0 = poison of no graph", "?h0 = a node of another graph", "!h0 = NULL", "?c0 = poison of no graph", "?c0 = a node of another graph", "!c0 = NULL", "?last_h = NULL", "?last_c = NULL", NULL};

static void call_tp_nn_gru(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_sequence();
    tp_node *gates_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node_of(8, 8);
    tp_node *gates_bias_ = which == 9 ? NULL : which == 8 ? node_of_another_graph() : which == 7 ? tp_relu(no_node) : node_of1(8);
    tp_node *candidate_ = which == 12 ? NULL : which == 11 ? node_of_another_graph() : which == 10 ? tp_relu(no_node) : node_of(8, 4);
    tp_node *candidate_bias_ = which == 15 ? NULL : which == 14 ? node_of_another_graph() : which == 13 ? tp_relu(no_node) : node_row();
    tp_node *h0_ = which == 18 ? NULL : which == 17 ? node_of_another_graph() : which == 16 ? tp_relu(no_node) : node();
    bool batch_major_ = true;
    tp_node **last_h_ = which == 19 ? NULL : node_out();
    got_node(tp_nn_gru(x_, gates_, gates_bias_, candidate_, candidate_bias_, h0_, batch_major_, last_h_));
}
static const char *const cases_tp_nn_gru[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?gates = poison of no graph", "?gates = a node of another graph", "!gates = NULL", "?gates_bias = poison of no graph", "?gates_bias = a node of another graph", "!gates_bias = NULL", "?candidate = poison of no graph", "?candidate = a node of another graph", "!candidate = NULL", "?candidate_bias = poison of no graph", "?candidate_bias = a node of another graph", "!candidate_bias = NULL", "?h0 = poison of no graph", "?h0 = a node of another graph", "!h0 = NULL", "?last_h = NULL", NULL};

static void call_tp_nn_attention(int which)
{
    (void)which;
    tp_node *q_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_sequence();
    tp_node *k_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node_sequence();
    tp_node *v_ = which == 9 ? NULL : which == 8 ? node_of_another_graph() : which == 7 ? tp_relu(no_node) : node_sequence();
    int heads_ = which == 13 ? -1 : which == 12 ? 0 : which == 11 ? INT_MIN : which == 10 ? INT_MAX : 2;
    bool causal_ = true;
    got_node(tp_nn_attention(q_, k_, v_, heads_, causal_));
}
static const char *const cases_tp_nn_attention[] = {"Ggood arguments", "?q = poison of no graph", "?q = a node of another graph", "!q = NULL", "?k = poison of no graph", "?k = a node of another graph", "!k = NULL", "?v = poison of no graph", "?v = a node of another graph", "!v = NULL", "?heads = INT_MAX", "?heads = INT_MIN", "?heads = 0", "?heads = -1", NULL};

static void call_tp_nn_dropout(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    float rate_ = 0.5f;
    got_node(tp_nn_dropout(x_, rate_));
}
static const char *const cases_tp_nn_dropout[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_reshape_to(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_shape shape_ = which == 7 ? bad_shape(9, 1) : which == 6 ? bad_shape(-1, 1) : which == 5 ? bad_shape(2, -5) : which == 4 ? bad_shape(4, (int64_t)1 << 40) : shape_of(4, 2);
    got_node(tp_reshape_to(x_, shape_));
}
static const char *const cases_tp_reshape_to[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?shape = dimensions of 2^40", "?shape = a dimension of -5", "?shape = -1 dimensions", "!shape = 9 dimensions", NULL};

static void call_tp_reshape_like(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *ref_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    got_node(tp_reshape_like(x_, ref_));
}
static const char *const cases_tp_reshape_like[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?ref = poison of no graph", "?ref = a node of another graph", "!ref = NULL", NULL};

static void call_tp_batch_flatten(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_batch_flatten(x_));
}
static const char *const cases_tp_batch_flatten[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_flatten(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_flatten(x_));
}
static const char *const cases_tp_flatten[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_expand_dims(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    int axis_ = which == 7 ? -1 : which == 6 ? 0 : which == 5 ? INT_MIN : which == 4 ? INT_MAX : 0;
    got_node(tp_expand_dims(x_, axis_));
}
static const char *const cases_tp_expand_dims[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?axis = INT_MAX", "?axis = INT_MIN", "?axis = 0", "?axis = -1", NULL};

static void call_tp_squeeze(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : tp_expand_dims(node(), 0);
    int axis_ = which == 7 ? -1 : which == 6 ? 0 : which == 5 ? INT_MIN : which == 4 ? INT_MAX : 0;
    got_node(tp_squeeze(x_, axis_));
}
static const char *const cases_tp_squeeze[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?axis = INT_MAX", "?axis = INT_MIN", "?axis = 0", "?axis = -1", NULL};

static void call_tp_transpose(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    const int *perm_ = NULL;
    int n_ = which == 7 ? -1 : which == 6 ? 0 : which == 5 ? INT_MIN : 0;
    got_node(tp_transpose(x_, perm_, n_));
}
static const char *const cases_tp_transpose[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?perm = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_concat(int which)
{
    (void)which;
    tp_node *const *xs_ = which == 2 ? NULL : which == 1 ? list_with_null() : list_nodes();
    int n_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : 2;
    int axis_ = which == 9 ? -1 : which == 8 ? 0 : which == 7 ? INT_MIN : which == 6 ? INT_MAX : 0;
    got_node(tp_concat(xs_, n_, axis_));
}
static const char *const cases_tp_concat[] = {"Ggood arguments", "?xs = a list with a NULL", "!xs = NULL", "?n = INT_MIN", "!n = 0", "!n = -1", "?axis = INT_MAX", "?axis = INT_MIN", "?axis = 0", "?axis = -1", NULL};

static void call_tp_split(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    int n_ = which == 6 ? -1 : which == 5 ? 0 : which == 4 ? INT_MIN : 2;
    int axis_ = which == 10 ? -1 : which == 9 ? 0 : which == 8 ? INT_MIN : which == 7 ? INT_MAX : 0;
    tp_node **out_ = which == 11 ? NULL : nodes_out();
    got_node(tp_split(x_, n_, axis_, out_));
}
static const char *const cases_tp_split[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?n = INT_MIN", "!n = 0", "!n = -1", "?axis = INT_MAX", "?axis = INT_MIN", "?axis = 0", "?axis = -1", "!out = NULL", NULL};

static void call_tp_stack(int which)
{
    (void)which;
    tp_node *const *xs_ = which == 2 ? NULL : which == 1 ? list_with_null() : list_nodes();
    int n_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : 2;
    int axis_ = which == 9 ? -1 : which == 8 ? 0 : which == 7 ? INT_MIN : which == 6 ? INT_MAX : 0;
    got_node(tp_stack(xs_, n_, axis_));
}
static const char *const cases_tp_stack[] = {"Ggood arguments", "?xs = a list with a NULL", "!xs = NULL", "?n = INT_MIN", "!n = 0", "!n = -1", "?axis = INT_MAX", "?axis = INT_MIN", "?axis = 0", "?axis = -1", NULL};

static void call_tp_unstack(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    int axis_ = which == 7 ? -1 : which == 6 ? 0 : which == 5 ? INT_MIN : which == 4 ? INT_MAX : 0;
    int n_ = which == 10 ? -1 : which == 9 ? 0 : which == 8 ? INT_MIN : 2;
    tp_node **out_ = which == 11 ? NULL : nodes_out();
    got_node(tp_unstack(x_, axis_, n_, out_));
}
static const char *const cases_tp_unstack[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?axis = INT_MAX", "?axis = INT_MIN", "?axis = 0", "?axis = -1", "?n = INT_MIN", "!n = 0", "!n = -1", "!out = NULL", NULL};

static void call_tp_reverse(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    const int *axes_ = which == 4 ? NULL : ints_zero();
    int n_axes_ = which == 7 ? -1 : which == 6 ? 0 : which == 5 ? INT_MIN : 1;
    got_node(tp_reverse(x_, axes_, n_axes_));
}
static const char *const cases_tp_reverse[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?axes = NULL", "?n_axes = INT_MIN", "?n_axes = 0", "?n_axes = -1", NULL};

static void call_tp_slice(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    const int64_t *begin_ = which == 4 ? NULL : int64s_zero();
    const int64_t *size_ = which == 5 ? NULL : int64s_one();
    got_node(tp_slice(x_, begin_, size_));
}
static const char *const cases_tp_slice[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!begin = NULL", "!size = NULL", NULL};

static void call_tp_pad(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    const int64_t *before_ = which == 4 ? NULL : int64s_one();
    const int64_t *after_ = which == 5 ? NULL : int64s_one();
    int mode_ = which == 9 ? -1 : which == 8 ? 0 : which == 7 ? INT_MIN : which == 6 ? INT_MAX : 2;
    float value_ = 0.5f;
    got_node(tp_pad(x_, before_, after_, mode_, value_));
}
static const char *const cases_tp_pad[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!before = NULL", "!after = NULL", "?mode = INT_MAX", "?mode = INT_MIN", "?mode = 0", "?mode = -1", NULL};

static void call_tp_tile(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    const int64_t *multiples_ = which == 4 ? NULL : int64s_one();
    got_node(tp_tile(x_, multiples_));
}
static const char *const cases_tp_tile[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!multiples = NULL", NULL};

static void call_tp_gather(int which)
{
    (void)which;
    tp_node *params_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *indices_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node_labels();
    got_node(tp_gather(params_, indices_));
}
static const char *const cases_tp_gather[] = {"Ggood arguments", "?params = poison of no graph", "?params = a node of another graph", "!params = NULL", "?indices = poison of no graph", "?indices = a node of another graph", "!indices = NULL", NULL};

static void call_tp_unsorted_segment_sum(int which)
{
    (void)which;
    tp_node *data_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *segment_ids_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node_labels();
    int64_t num_segments_ = which == 9 ? -1 : which == 8 ? 0 : which == 7 ? INT64_MIN : 2;
    got_node(tp_unsorted_segment_sum(data_, segment_ids_, num_segments_));
}
static const char *const cases_tp_unsorted_segment_sum[] = {"Ggood arguments", "?data = poison of no graph", "?data = a node of another graph", "!data = NULL", "?segment_ids = poison of no graph", "?segment_ids = a node of another graph", "!segment_ids = NULL", "?num_segments = INT64_MIN", "?num_segments = 0", "?num_segments = -1", NULL};

static void call_tp_unsorted_segment_sum_like(int which)
{
    (void)which;
    tp_node *data_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *segment_ids_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node_labels();
    tp_node *like_ = which == 9 ? NULL : which == 8 ? node_of_another_graph() : which == 7 ? tp_relu(no_node) : node();
    got_node(tp_unsorted_segment_sum_like(data_, segment_ids_, like_));
}
static const char *const cases_tp_unsorted_segment_sum_like[] = {"Ggood arguments", "?data = poison of no graph", "?data = a node of another graph", "!data = NULL", "?segment_ids = poison of no graph", "?segment_ids = a node of another graph", "!segment_ids = NULL", "?like = poison of no graph", "?like = a node of another graph", "!like = NULL", NULL};

static void call_tp_one_hot(int which)
{
    (void)which;
    tp_node *indices_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_labels();
    int64_t depth_ = which == 6 ? -1 : which == 5 ? 0 : which == 4 ? INT64_MIN : 4;
    float on_ = 0.5f;
    float off_ = 0.5f;
    got_node(tp_one_hot(indices_, depth_, on_, off_));
}
static const char *const cases_tp_one_hot[] = {"Ggood arguments", "?indices = poison of no graph", "?indices = a node of another graph", "!indices = NULL", "?depth = INT64_MIN", "?depth = 0", "?depth = -1", NULL};

static void call_tp_rand_uniform(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    tp_shape shape_ = which == 5 ? bad_shape(9, 1) : which == 4 ? bad_shape(-1, 1) : which == 3 ? bad_shape(2, -5) : which == 2 ? bad_shape(4, (int64_t)1 << 40) : shape_of(2, 4);
    float low_ = 0.5f;
    float high_ = 1.0f;
    got_node(tp_rand_uniform(g_, shape_, low_, high_));
}
static const char *const cases_tp_rand_uniform[] = {"Ggood arguments", "!g = NULL", "?shape = dimensions of 2^40", "?shape = a dimension of -5", "?shape = -1 dimensions", "!shape = 9 dimensions", NULL};

static void call_tp_rand_normal(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    tp_shape shape_ = which == 5 ? bad_shape(9, 1) : which == 4 ? bad_shape(-1, 1) : which == 3 ? bad_shape(2, -5) : which == 2 ? bad_shape(4, (int64_t)1 << 40) : shape_of(2, 4);
    float mean_ = 0.5f;
    float stddev_ = 0.5f;
    got_node(tp_rand_normal(g_, shape_, mean_, stddev_));
}
static const char *const cases_tp_rand_normal[] = {"Ggood arguments", "!g = NULL", "?shape = dimensions of 2^40", "?shape = a dimension of -5", "?shape = -1 dimensions", "?shape = 9 dimensions", NULL};

static void call_tp_rand_truncated_normal(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    tp_shape shape_ = which == 5 ? bad_shape(9, 1) : which == 4 ? bad_shape(-1, 1) : which == 3 ? bad_shape(2, -5) : which == 2 ? bad_shape(4, (int64_t)1 << 40) : shape_of(2, 4);
    float mean_ = 0.5f;
    float stddev_ = 0.5f;
    got_node(tp_rand_truncated_normal(g_, shape_, mean_, stddev_));
}
static const char *const cases_tp_rand_truncated_normal[] = {"Ggood arguments", "!g = NULL", "?shape = dimensions of 2^40", "?shape = a dimension of -5", "?shape = -1 dimensions", "?shape = 9 dimensions", NULL};

static void call_tp_rand_uniform_like(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    float low_ = 0.5f;
    float high_ = 1.0f;
    got_node(tp_rand_uniform_like(x_, low_, high_));
}
static const char *const cases_tp_rand_uniform_like[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_rand_normal_like(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    float mean_ = 0.5f;
    float stddev_ = 0.5f;
    got_node(tp_rand_normal_like(x_, mean_, stddev_));
}
static const char *const cases_tp_rand_normal_like[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_assign(int which)
{
    (void)which;
    tp_node *var_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_variable();
    tp_node *value_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    tp_node *pred_ = which == 9 ? NULL : which == 8 ? node_of_another_graph() : which == 7 ? tp_relu(no_node) : node_pred();
    got_node(tp_assign(var_, value_, pred_));
}
static const char *const cases_tp_assign[] = {"Ggood arguments", "?var = poison of no graph", "?var = a node of another graph", "!var = NULL", "?value = poison of no graph", "?value = a node of another graph", "!value = NULL", "?pred = poison of no graph", "?pred = a node of another graph", "?pred = NULL", NULL};

static void call_tp_assign_add(int which)
{
    (void)which;
    tp_node *var_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_variable();
    tp_node *value_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    tp_node *pred_ = which == 9 ? NULL : which == 8 ? node_of_another_graph() : which == 7 ? tp_relu(no_node) : node_pred();
    got_node(tp_assign_add(var_, value_, pred_));
}
static const char *const cases_tp_assign_add[] = {"Ggood arguments", "?var = poison of no graph", "?var = a node of another graph", "!var = NULL", "?value = poison of no graph", "?value = a node of another graph", "!value = NULL", "?pred = poison of no graph", "?pred = a node of another graph", "?pred = NULL", NULL};

static void call_tp_assign_sub(int which)
{
    (void)which;
    tp_node *var_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_variable();
    tp_node *value_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    tp_node *pred_ = which == 9 ? NULL : which == 8 ? node_of_another_graph() : which == 7 ? tp_relu(no_node) : node_pred();
    got_node(tp_assign_sub(var_, value_, pred_));
}
static const char *const cases_tp_assign_sub[] = {"Ggood arguments", "?var = poison of no graph", "?var = a node of another graph", "!var = NULL", "?value = poison of no graph", "?value = a node of another graph", "!value = NULL", "?pred = poison of no graph", "?pred = a node of another graph", "?pred = NULL", NULL};

static void call_tp_read_after(int which)
{
    (void)which;
    tp_node *var_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_variable();
    tp_node *after_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    got_node(tp_read_after(var_, after_));
}
static const char *const cases_tp_read_after[] = {"Ggood arguments", "?var = poison of no graph", "?var = a node of another graph", "!var = NULL", "?after = poison of no graph", "?after = a node of another graph", "!after = NULL", NULL};

static void call_tp_assign_moving_average(int which)
{
    (void)which;
    tp_node *var_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_variable();
    tp_node *value_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    float decay_ = 0.5f;
    tp_node *pred_ = which == 9 ? NULL : which == 8 ? node_of_another_graph() : which == 7 ? tp_relu(no_node) : node_pred();
    got_node(tp_assign_moving_average(var_, value_, decay_, pred_));
}
static const char *const cases_tp_assign_moving_average[] = {"Ggood arguments", "?var = poison of no graph", "?var = a node of another graph", "!var = NULL", "?value = poison of no graph", "?value = a node of another graph", "!value = NULL", "?pred = poison of no graph", "?pred = a node of another graph", "?pred = NULL", NULL};

static void call_tp_apply_gradient_descent(int which)
{
    (void)which;
    tp_node *const *vars_ = which == 2 ? NULL : which == 1 ? list_with_null() : list_variables();
    tp_node *const *grads_ = which == 4 ? NULL : which == 3 ? list_with_null() : list_nodes();
    int n_ = which == 7 ? -1 : which == 6 ? 0 : which == 5 ? INT_MIN : 2;
    tp_node *lr_ = which == 10 ? NULL : which == 9 ? node_of_another_graph() : which == 8 ? tp_relu(no_node) : node_scalar();
    tp_node *pred_ = which == 13 ? NULL : which == 12 ? node_of_another_graph() : which == 11 ? tp_relu(no_node) : node_pred();
    got_node(tp_apply_gradient_descent(vars_, grads_, n_, lr_, pred_));
}
static const char *const cases_tp_apply_gradient_descent[] = {"Ggood arguments", "?vars = a list with a NULL", "!vars = NULL", "?grads = a list with a NULL", "!grads = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", "!lr = poison of no graph", "?lr = a node of another graph", "!lr = NULL", "?pred = poison of no graph", "?pred = a node of another graph", "?pred = NULL", NULL};

static void call_tp_apply_momentum(int which)
{
    (void)which;
    tp_node *const *vars_ = which == 2 ? NULL : which == 1 ? list_with_null() : list_variables();
    tp_node *const *accums_ = which == 4 ? NULL : which == 3 ? list_with_null() : list_variables2();
    tp_node *const *grads_ = which == 6 ? NULL : which == 5 ? list_with_null() : list_nodes();
    int n_ = which == 9 ? -1 : which == 8 ? 0 : which == 7 ? INT_MIN : 2;
    tp_node *lr_ = which == 12 ? NULL : which == 11 ? node_of_another_graph() : which == 10 ? tp_relu(no_node) : node_scalar();
    float momentum_ = 0.5f;
    bool nesterov_ = true;
    tp_node *pred_ = which == 15 ? NULL : which == 14 ? node_of_another_graph() : which == 13 ? tp_relu(no_node) : node_pred();
    got_node(tp_apply_momentum(vars_, accums_, grads_, n_, lr_, momentum_, nesterov_, pred_));
}
static const char *const cases_tp_apply_momentum[] = {"Ggood arguments", "?vars = a list with a NULL", "!vars = NULL", "?accums = a list with a NULL", "!accums = NULL", "?grads = a list with a NULL", "!grads = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", "!lr = poison of no graph", "?lr = a node of another graph", "!lr = NULL", "?pred = poison of no graph", "?pred = a node of another graph", "?pred = NULL", NULL};

static void call_tp_apply_adam(int which)
{
    (void)which;
    tp_node *const *vars_ = which == 2 ? NULL : which == 1 ? list_with_null() : list_variables();
    tp_node *const *ms_ = which == 4 ? NULL : which == 3 ? list_with_null() : list_variables2();
    tp_node *const *vs_ = which == 6 ? NULL : which == 5 ? list_with_null() : list_variables3();
    tp_node *const *grads_ = which == 8 ? NULL : which == 7 ? list_with_null() : list_nodes();
    int n_ = which == 11 ? -1 : which == 10 ? 0 : which == 9 ? INT_MIN : 2;
    tp_node *lr_ = which == 14 ? NULL : which == 13 ? node_of_another_graph() : which == 12 ? tp_relu(no_node) : node_scalar();
    tp_node *beta1_power_ = which == 17 ? NULL : which == 16 ? node_of_another_graph() : which == 15 ? tp_relu(no_node) : node_scalar();
    tp_node *beta2_power_ = which == 20 ? NULL : which == 19 ? node_of_another_graph() : which == 18 ? tp_relu(no_node) : node_scalar();
    float beta1_ = 0.5f;
    float beta2_ = 0.5f;
    float epsilon_ = 0.5f;
    tp_node *pred_ = which == 23 ? NULL : which == 22 ? node_of_another_graph() : which == 21 ? tp_relu(no_node) : node_pred();
    got_node(tp_apply_adam(vars_, ms_, vs_, grads_, n_, lr_, beta1_power_, beta2_power_, beta1_, beta2_, epsilon_, pred_));
}
static const char *const cases_tp_apply_adam[] = {"Ggood arguments", "?vars = a list with a NULL", "!vars = NULL", "?ms = a list with a NULL", "!ms = NULL", "?vs = a list with a NULL", "!vs = NULL", "?grads = a list with a NULL", "!grads = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", "!lr = poison of no graph", "?lr = a node of another graph", "!lr = NULL", "?beta1_power = poison of no graph", "?beta1_power = a node of another graph", "!beta1_power = NULL", "?beta2_power = poison of no graph", "?beta2_power = a node of another graph", "!beta2_power = NULL", "?pred = poison of no graph", "?pred = a node of another graph", "?pred = NULL", NULL};

static void call_tp_apply_adamw(int which)
{
    (void)which;
    tp_node *const *vars_ = which == 2 ? NULL : which == 1 ? list_with_null() : list_variables();
    tp_node *const *ms_ = which == 4 ? NULL : which == 3 ? list_with_null() : list_variables2();
    tp_node *const *vs_ = which == 6 ? NULL : which == 5 ? list_with_null() : list_variables3();
    tp_node *const *grads_ = which == 8 ? NULL : which == 7 ? list_with_null() : list_nodes();
    int n_ = which == 11 ? -1 : which == 10 ? 0 : which == 9 ? INT_MIN : 2;
    tp_node *lr_ = which == 14 ? NULL : which == 13 ? node_of_another_graph() : which == 12 ? tp_relu(no_node) : node_scalar();
    tp_node *beta1_power_ = which == 17 ? NULL : which == 16 ? node_of_another_graph() : which == 15 ? tp_relu(no_node) : node_scalar();
    tp_node *beta2_power_ = which == 20 ? NULL : which == 19 ? node_of_another_graph() : which == 18 ? tp_relu(no_node) : node_scalar();
    float beta1_ = 0.5f;
    float beta2_ = 0.5f;
    float epsilon_ = 0.5f;
    float decay_ = 0.5f;
    tp_node *pred_ = which == 23 ? NULL : which == 22 ? node_of_another_graph() : which == 21 ? tp_relu(no_node) : node_pred();
    got_node(tp_apply_adamw(vars_, ms_, vs_, grads_, n_, lr_, beta1_power_, beta2_power_, beta1_, beta2_, epsilon_, decay_, pred_));
}
static const char *const cases_tp_apply_adamw[] = {"Ggood arguments", "?vars = a list with a NULL", "!vars = NULL", "?ms = a list with a NULL", "!ms = NULL", "?vs = a list with a NULL", "!vs = NULL", "?grads = a list with a NULL", "!grads = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", "!lr = poison of no graph", "?lr = a node of another graph", "!lr = NULL", "?beta1_power = poison of no graph", "?beta1_power = a node of another graph", "!beta1_power = NULL", "?beta2_power = poison of no graph", "?beta2_power = a node of another graph", "!beta2_power = NULL", "?pred = poison of no graph", "?pred = a node of another graph", "?pred = NULL", NULL};

static void call_tp_apply_rmsprop(int which)
{
    (void)which;
    tp_node *const *vars_ = which == 2 ? NULL : which == 1 ? list_with_null() : list_variables();
    tp_node *const *ms_ = which == 4 ? NULL : which == 3 ? list_with_null() : list_variables2();
    tp_node *const *moms_ = which == 6 ? NULL : which == 5 ? list_with_null() : list_variables3();
    tp_node *const *mgs_ = which == 8 ? NULL : which == 7 ? list_with_null() : NULL;
    tp_node *const *grads_ = which == 10 ? NULL : which == 9 ? list_with_null() : list_nodes();
    int n_ = which == 13 ? -1 : which == 12 ? 0 : which == 11 ? INT_MIN : 2;
    tp_node *lr_ = which == 16 ? NULL : which == 15 ? node_of_another_graph() : which == 14 ? tp_relu(no_node) : node_scalar();
    float decay_ = 0.5f;
    float momentum_ = 0.5f;
    float epsilon_ = 0.5f;
    tp_node *pred_ = which == 19 ? NULL : which == 18 ? node_of_another_graph() : which == 17 ? tp_relu(no_node) : node_pred();
    got_node(tp_apply_rmsprop(vars_, ms_, moms_, mgs_, grads_, n_, lr_, decay_, momentum_, epsilon_, pred_));
}
static const char *const cases_tp_apply_rmsprop[] = {"Ggood arguments", "?vars = a list with a NULL", "!vars = NULL", "?ms = a list with a NULL", "!ms = NULL", "?moms = a list with a NULL", "!moms = NULL", "?mgs = a list with a NULL", "?mgs = NULL", "?grads = a list with a NULL", "!grads = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", "!lr = poison of no graph", "?lr = a node of another graph", "!lr = NULL", "?pred = poison of no graph", "?pred = a node of another graph", "?pred = NULL", NULL};

static void call_tp_apply_adagrad(int which)
{
    (void)which;
    tp_node *const *vars_ = which == 2 ? NULL : which == 1 ? list_with_null() : list_variables();
    tp_node *const *accums_ = which == 4 ? NULL : which == 3 ? list_with_null() : list_variables2();
    tp_node *const *grads_ = which == 6 ? NULL : which == 5 ? list_with_null() : list_nodes();
    int n_ = which == 9 ? -1 : which == 8 ? 0 : which == 7 ? INT_MIN : 2;
    tp_node *lr_ = which == 12 ? NULL : which == 11 ? node_of_another_graph() : which == 10 ? tp_relu(no_node) : node_scalar();
    tp_node *pred_ = which == 15 ? NULL : which == 14 ? node_of_another_graph() : which == 13 ? tp_relu(no_node) : node_pred();
    got_node(tp_apply_adagrad(vars_, accums_, grads_, n_, lr_, pred_));
}
static const char *const cases_tp_apply_adagrad[] = {"Ggood arguments", "?vars = a list with a NULL", "!vars = NULL", "?accums = a list with a NULL", "!accums = NULL", "?grads = a list with a NULL", "!grads = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", "!lr = poison of no graph", "?lr = a node of another graph", "!lr = NULL", "?pred = poison of no graph", "?pred = a node of another graph", "?pred = NULL", NULL};

static void call_tp_apply_adadelta(int which)
{
    (void)which;
    tp_node *const *vars_ = which == 2 ? NULL : which == 1 ? list_with_null() : list_variables();
    tp_node *const *accums_ = which == 4 ? NULL : which == 3 ? list_with_null() : list_variables2();
    tp_node *const *updates_ = which == 6 ? NULL : which == 5 ? list_with_null() : list_variables3();
    tp_node *const *grads_ = which == 8 ? NULL : which == 7 ? list_with_null() : list_nodes();
    int n_ = which == 11 ? -1 : which == 10 ? 0 : which == 9 ? INT_MIN : 2;
    tp_node *lr_ = which == 14 ? NULL : which == 13 ? node_of_another_graph() : which == 12 ? tp_relu(no_node) : node_scalar();
    float rho_ = 0.5f;
    float epsilon_ = 0.5f;
    tp_node *pred_ = which == 17 ? NULL : which == 16 ? node_of_another_graph() : which == 15 ? tp_relu(no_node) : node_pred();
    got_node(tp_apply_adadelta(vars_, accums_, updates_, grads_, n_, lr_, rho_, epsilon_, pred_));
}
static const char *const cases_tp_apply_adadelta[] = {"Ggood arguments", "?vars = a list with a NULL", "!vars = NULL", "?accums = a list with a NULL", "!accums = NULL", "?updates = a list with a NULL", "!updates = NULL", "?grads = a list with a NULL", "!grads = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", "!lr = poison of no graph", "?lr = a node of another graph", "!lr = NULL", "?pred = poison of no graph", "?pred = a node of another graph", "?pred = NULL", NULL};

static void call_tp_apply_ftrl(int which)
{
    (void)which;
    tp_node *const *vars_ = which == 2 ? NULL : which == 1 ? list_with_null() : list_variables();
    tp_node *const *accums_ = which == 4 ? NULL : which == 3 ? list_with_null() : list_variables2();
    tp_node *const *linears_ = which == 6 ? NULL : which == 5 ? list_with_null() : list_variables3();
    tp_node *const *grads_ = which == 8 ? NULL : which == 7 ? list_with_null() : list_nodes();
    int n_ = which == 11 ? -1 : which == 10 ? 0 : which == 9 ? INT_MIN : 2;
    tp_node *lr_ = which == 14 ? NULL : which == 13 ? node_of_another_graph() : which == 12 ? tp_relu(no_node) : node_scalar();
    float lr_power_ = 0.5f;
    float l1_ = 0.5f;
    float l2_ = 0.5f;
    float shrinkage_ = 0.5f;
    tp_node *pred_ = which == 17 ? NULL : which == 16 ? node_of_another_graph() : which == 15 ? tp_relu(no_node) : node_pred();
    got_node(tp_apply_ftrl(vars_, accums_, linears_, grads_, n_, lr_, lr_power_, l1_, l2_, shrinkage_, pred_));
}
static const char *const cases_tp_apply_ftrl[] = {"Ggood arguments", "?vars = a list with a NULL", "!vars = NULL", "?accums = a list with a NULL", "!accums = NULL", "?linears = a list with a NULL", "!linears = NULL", "?grads = a list with a NULL", "!grads = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", "!lr = poison of no graph", "?lr = a node of another graph", "!lr = NULL", "?pred = poison of no graph", "?pred = a node of another graph", "?pred = NULL", NULL};

static void call_tp_apply_lamb(int which)
{
    (void)which;
    tp_node *const *vars_ = which == 2 ? NULL : which == 1 ? list_with_null() : list_variables();
    tp_node *const *ms_ = which == 4 ? NULL : which == 3 ? list_with_null() : list_variables2();
    tp_node *const *vs_ = which == 6 ? NULL : which == 5 ? list_with_null() : list_variables3();
    tp_node *const *grads_ = which == 8 ? NULL : which == 7 ? list_with_null() : list_nodes();
    int n_ = which == 11 ? -1 : which == 10 ? 0 : which == 9 ? INT_MIN : 2;
    tp_node *lr_ = which == 14 ? NULL : which == 13 ? node_of_another_graph() : which == 12 ? tp_relu(no_node) : node_scalar();
    tp_node *beta1_power_ = which == 17 ? NULL : which == 16 ? node_of_another_graph() : which == 15 ? tp_relu(no_node) : node_scalar();
    tp_node *beta2_power_ = which == 20 ? NULL : which == 19 ? node_of_another_graph() : which == 18 ? tp_relu(no_node) : node_scalar();
    float beta1_ = 0.5f;
    float beta2_ = 0.5f;
    float epsilon_ = 0.5f;
    float decay_ = 0.5f;
    tp_node *pred_ = which == 23 ? NULL : which == 22 ? node_of_another_graph() : which == 21 ? tp_relu(no_node) : node_pred();
    got_node(tp_apply_lamb(vars_, ms_, vs_, grads_, n_, lr_, beta1_power_, beta2_power_, beta1_, beta2_, epsilon_, decay_, pred_));
}
static const char *const cases_tp_apply_lamb[] = {"Ggood arguments", "?vars = a list with a NULL", "!vars = NULL", "?ms = a list with a NULL", "!ms = NULL", "?vs = a list with a NULL", "!vs = NULL", "?grads = a list with a NULL", "!grads = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", "!lr = poison of no graph", "?lr = a node of another graph", "!lr = NULL", "?beta1_power = poison of no graph", "?beta1_power = a node of another graph", "!beta1_power = NULL", "?beta2_power = poison of no graph", "?beta2_power = a node of another graph", "!beta2_power = NULL", "?pred = poison of no graph", "?pred = a node of another graph", "?pred = NULL", NULL};

static void call_tp_summary_info(int which)
{
    (void)which;
    const tp_node *n_ = which == 1 ? NULL : node();
    (void)tp_summary_info(n_);
    got_answer();
}
static const char *const cases_tp_summary_info[] = {"Ggood arguments", "!n = NULL", NULL};

static void call_tp_add_tensor_summary_(int which)
{
    (void)which;
    tp_tensor_summary_desc desc;
    memset(&desc, 0, sizeof desc);
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    const tp_tensor_summary_desc *d_ = which == 4 ? NULL : &desc;
    tp_add_tensor_summary_(x_, d_);
    got_nothing();
}
static const char *const cases_tp_add_tensor_summary_[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_add_tensor_summary(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    int types_ = which == 7 ? -1 : which == 6 ? 0 : which == 5 ? INT_MIN : which == 4 ? INT_MAX : 0;
    const char *name_ = which == 11 ? NULL : which == 10 ? "" : which == 9 ? long_text() : which == 8 ? ":/ " : "name";
    const char *collection_ = which == 15 ? NULL : which == 14 ? "" : which == 13 ? long_text() : which == 12 ? ":/ " : "name";
    tp_add_tensor_summary(x_, types_, name_, collection_);
    got_nothing();
}
static const char *const cases_tp_add_tensor_summary[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?types = INT_MAX", "?types = INT_MIN", "?types = 0", "?types = -1", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "?name = NULL", "?collection = \":/ \"", "?collection = 300 letters", "?collection = \"\"", "?collection = NULL", NULL};

static void call_tp_add_activation_summary(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    int types_ = which == 7 ? -1 : which == 6 ? 0 : which == 5 ? INT_MIN : which == 4 ? INT_MAX : 0;
    const char *name_ = which == 11 ? NULL : which == 10 ? "" : which == 9 ? long_text() : which == 8 ? ":/ " : "name";
    const char *collection_ = which == 15 ? NULL : which == 14 ? "" : which == 13 ? long_text() : which == 12 ? ":/ " : "name";
    tp_add_activation_summary(x_, types_, name_, collection_);
    got_nothing();
}
static const char *const cases_tp_add_activation_summary[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?types = INT_MAX", "?types = INT_MIN", "?types = 0", "?types = -1", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "?name = NULL", "?collection = \":/ \"", "?collection = 300 letters", "?collection = \"\"", "?collection = NULL", NULL};

static void call_tp_add_moving_summary_n(int which)
{
    (void)which;
    tp_node *const *scalars_ = which == 2 ? NULL : which == 1 ? list_with_null() : list_scalar();
    int n_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : 1;
    const tp_moving_summary_desc *d_ = NULL;
    (void)tp_add_moving_summary_n(scalars_, n_, d_);
    got_answer();
}
static const char *const cases_tp_add_moving_summary_n[] = {"Ggood arguments", "?scalars = a list with a NULL", "!scalars = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", "?d = NULL", NULL};

static void call_tp_add_param_summary_(int which)
{
    (void)which;
    tp_param_summary_desc desc;
    memset(&desc, 0, sizeof desc);
    tp_graph *g_ = which == 1 ? NULL : graph();
    const tp_param_summary_desc *d_ = which == 2 ? NULL : &desc;
    tp_add_param_summary_(g_, d_);
    got_nothing();
}
static const char *const cases_tp_add_param_summary_[] = {"Ggood arguments", "!g = NULL", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_add_param_summary(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const char *regex_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "fc.*/W";
    int types_ = which == 9 ? -1 : which == 8 ? 0 : which == 7 ? INT_MIN : which == 6 ? INT_MAX : 0;
    tp_add_param_summary(g_, regex_, types_);
    got_nothing();
}
static const char *const cases_tp_add_param_summary[] = {"Ggood arguments", "!g = NULL", "?regex = \":/ \"", "?regex = 300 letters", "?regex = \"\"", "?regex = NULL", "?types = INT_MAX", "?types = INT_MIN", "?types = 0", "?types = -1", NULL};

static void call_tp_regex_new(int which)
{
    (void)which;
    const char *pattern_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : "name";
    tp_regex **re_ = which == 5 ? NULL : &regex_out;
    got_status(tp_regex_new(pattern_, re_));
}
static const char *const cases_tp_regex_new[] = {"Ggood arguments", "?pattern = \":/ \"", "?pattern = 300 letters", "?pattern = \"\"", "!pattern = NULL", "!re = NULL", NULL};

static void call_tp_regex_free(int which)
{
    (void)which;
    tp_regex *re_ = which == 1 ? NULL : regex_given();
    tp_regex_free(re_);
    got_nothing();
}
static const char *const cases_tp_regex_free[] = {"Ggood arguments", "?re = NULL", NULL};

static void call_tp_regex_n_groups(int which)
{
    (void)which;
    const tp_regex *re_ = which == 1 ? NULL : regex();
    (void)tp_regex_n_groups(re_);
    got_answer();
}
static const char *const cases_tp_regex_n_groups[] = {"Ggood arguments", "!re = NULL", NULL};

static void call_tp_regex_group(int which)
{
    (void)which;
    const tp_regex *re_ = which == 1 ? NULL : regex();
    const char *name_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    (void)tp_regex_group(re_, name_);
    got_answer();
}
static const char *const cases_tp_regex_group[] = {"Ggood arguments", "!re = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", NULL};

static void call_tp_regex_search(int which)
{
    (void)which;
    const tp_regex *re_ = which == 1 ? NULL : regex();
    const char *text_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    bool *found_ = which == 6 ? NULL : &bool_out;
    tp_span *spans_ = which == 7 ? NULL : spans;
    int n_spans_ = which == 10 ? -1 : which == 9 ? 0 : which == 8 ? INT_MIN : 2;
    got_status(tp_regex_search(re_, text_, found_, spans_, n_spans_));
}
static const char *const cases_tp_regex_search[] = {"Ggood arguments", "!re = NULL", "?text = \":/ \"", "?text = 300 letters", "?text = \"\"", "!text = NULL", "!found = NULL", "?spans = NULL", "?n_spans = INT_MIN", "?n_spans = 0", "?n_spans = -1", NULL};

static void call_tp_regex_match(int which)
{
    (void)which;
    const tp_regex *re_ = which == 1 ? NULL : regex();
    const char *text_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    bool *found_ = which == 6 ? NULL : &bool_out;
    tp_span *spans_ = which == 7 ? NULL : spans;
    int n_spans_ = which == 10 ? -1 : which == 9 ? 0 : which == 8 ? INT_MIN : 2;
    got_status(tp_regex_match(re_, text_, found_, spans_, n_spans_));
}
static const char *const cases_tp_regex_match[] = {"Ggood arguments", "!re = NULL", "?text = \":/ \"", "?text = 300 letters", "?text = \"\"", "!text = NULL", "!found = NULL", "?spans = NULL", "?n_spans = INT_MIN", "?n_spans = 0", "?n_spans = -1", NULL};

static void call_tp_regex_fullmatch(int which)
{
    (void)which;
    const tp_regex *re_ = which == 1 ? NULL : regex();
    const char *text_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    bool *found_ = which == 6 ? NULL : &bool_out;
    tp_span *spans_ = which == 7 ? NULL : spans;
    int n_spans_ = which == 10 ? -1 : which == 9 ? 0 : which == 8 ? INT_MIN : 2;
    got_status(tp_regex_fullmatch(re_, text_, found_, spans_, n_spans_));
}
static const char *const cases_tp_regex_fullmatch[] = {"Ggood arguments", "!re = NULL", "?text = \":/ \"", "?text = 300 letters", "?text = \"\"", "!text = NULL", "!found = NULL", "?spans = NULL", "?n_spans = INT_MIN", "?n_spans = 0", "?n_spans = -1", NULL};

static void call_tp_get_default_sess_config(int which)
{
    (void)which;
    float mem_fraction_ = 0.5f;
    (void)tp_get_default_sess_config(mem_fraction_);
    got_answer();
}
static const char *const cases_tp_get_default_sess_config[] = {"Ggood arguments", NULL};

static void call_tp_default_session_config(int which)
{
    (void)which;
    (void)tp_default_session_config();
    got_answer();
}
static const char *const cases_tp_default_session_config[] = {"Ggood arguments", NULL};

static void call_tp_session_new(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const tp_session_config *c_ = which == 2 ? NULL : &one_thread;
    got_session(tp_session_new(g_, c_));
}
static const char *const cases_tp_session_new[] = {"Ggood arguments", "!g = NULL", "?c = NULL", NULL};

static void call_tp_session_free(int which)
{
    (void)which;
    tp_session *s_ = which == 1 ? NULL : session_given();
    tp_session_free(s_);
    got_nothing();
}
static const char *const cases_tp_session_free[] = {"Ggood arguments", "?s = NULL", NULL};

static void call_tp_session_graph(int which)
{
    (void)which;
    const tp_session *s_ = which == 1 ? NULL : session();
    (void)tp_session_graph(s_);
    got_answer();
}
static const char *const cases_tp_session_graph[] = {"Ggood arguments", "!s = NULL", NULL};

static void call_tp_session_device(int which)
{
    (void)which;
    const tp_session *s_ = which == 1 ? NULL : session();
    int i_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : which == 2 ? INT_MAX : 0;
    (void)tp_session_device(s_, i_);
    got_answer();
}
static const char *const cases_tp_session_device[] = {"Ggood arguments", "!s = NULL", "?i = INT_MAX", "?i = INT_MIN", "?i = 0", "?i = -1", NULL};

static void call_tp_make_feed(int which)
{
    (void)which;
    tp_node *node_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_dtype dtype_ = which == 6 ? TP_DTYPE_UNSET : which == 5 ? (tp_dtype)bad_enum : which == 4 ? (tp_dtype)large_enum : TP_F32;
    tp_shape shape_ = which == 10 ? bad_shape(9, 1) : which == 9 ? bad_shape(-1, 1) : which == 8 ? bad_shape(2, -5) : which == 7 ? bad_shape(4, (int64_t)1 << 40) : shape_of(2, 4);
    const void *data_ = bytes;
    (void)tp_make_feed(node_, dtype_, shape_, data_);
    got_answer();
}
static const char *const cases_tp_make_feed[] = {"Ggood arguments", "?node = poison of no graph", "?node = a node of another graph", "?node = NULL", "?dtype = 99", "?dtype = -1", "?dtype = 0", "?shape = dimensions of 2^40", "?shape = a dimension of -5", "?shape = -1 dimensions", "?shape = 9 dimensions", NULL};

static void call_tp_session_run(int which)
{
    (void)which;
    tp_session *s_ = which == 1 ? NULL : session();
    const tp_feed *feeds_ = which == 2 ? NULL : feeds();
    int n_feeds_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : 2;
    tp_node *const *fetches_ = which == 7 ? NULL : which == 6 ? list_with_null() : list_nodes();
    int n_fetches_ = which == 10 ? -1 : which == 9 ? 0 : which == 8 ? INT_MIN : 2;
    const tp_tensor **values_ = which == 11 ? NULL : tensors_out;
    got_status(tp_session_run(s_, feeds_, n_feeds_, fetches_, n_fetches_, values_));
}
static const char *const cases_tp_session_run[] = {"Ggood arguments", "!s = NULL", "?feeds = NULL", "?n_feeds = INT_MIN", "?n_feeds = 0", "!n_feeds = -1", "?fetches = a list with a NULL", "!fetches = NULL", "?n_fetches = INT_MIN", "?n_fetches = 0", "!n_fetches = -1", "?values = NULL", NULL};

static void call_tp_trace_free(int which)
{
    (void)which;
    tp_trace *t_ = which == 1 ? NULL : &trace_out;
    tp_trace_free(t_);
    got_nothing();
}
static const char *const cases_tp_trace_free[] = {"Ggood arguments", "?t = NULL", NULL};

static void call_tp_trace_save(int which)
{
    (void)which;
    const tp_trace *t_ = which == 1 ? NULL : &trace_out;
    const char *path_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : a_path("trace.json");
    got_status(tp_trace_save(t_, path_));
}
static const char *const cases_tp_trace_save[] = {"Ggood arguments", "!t = NULL", "?path = \":/ \"", "?path = 300 letters", "?path = \"\"", "!path = NULL", NULL};

static void call_tp_session_run_ex(int which)
{
    (void)which;
    tp_session *s_ = which == 1 ? NULL : session();
    const tp_run_options *o_ = which == 2 ? NULL : &run_options;
    const tp_feed *feeds_ = which == 3 ? NULL : feeds();
    int n_feeds_ = which == 6 ? -1 : which == 5 ? 0 : which == 4 ? INT_MIN : 2;
    tp_node *const *fetches_ = which == 8 ? NULL : which == 7 ? list_with_null() : list_nodes();
    int n_fetches_ = which == 11 ? -1 : which == 10 ? 0 : which == 9 ? INT_MIN : 2;
    const tp_tensor **values_ = which == 12 ? NULL : tensors_out;
    got_status(tp_session_run_ex(s_, o_, feeds_, n_feeds_, fetches_, n_fetches_, values_));
}
static const char *const cases_tp_session_run_ex[] = {"Ggood arguments", "!s = NULL", "?o = NULL", "?feeds = NULL", "?n_feeds = INT_MIN", "?n_feeds = 0", "!n_feeds = -1", "?fetches = a list with a NULL", "!fetches = NULL", "?n_fetches = INT_MIN", "?n_fetches = 0", "!n_fetches = -1", "?values = NULL", NULL};

static void call_tp_session_cancel(int which)
{
    (void)which;
    tp_session *s_ = which == 1 ? NULL : session();
    (void)tp_session_cancel(s_);
    got_answer();
}
static const char *const cases_tp_session_cancel[] = {"Ggood arguments", "!s = NULL", NULL};

static void call_tp_session_eval(int which)
{
    (void)which;
    tp_session *s_ = which == 1 ? NULL : session();
    tp_node *fetch_ = which == 4 ? NULL : which == 3 ? node_of_another_graph() : which == 2 ? tp_relu(no_node) : node();
    tp_tensor *value_ = which == 5 ? NULL : tensor_out();
    got_status(tp_session_eval(s_, fetch_, value_));
}
static const char *const cases_tp_session_eval[] = {"Ggood arguments", "!s = NULL", "?fetch = poison of no graph", "?fetch = a node of another graph", "!fetch = NULL", "!value = NULL", NULL};

static void call_tp_eval_now(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    const tp_feed *feeds_ = which == 4 ? NULL : feeds();
    int n_feeds_ = which == 7 ? -1 : which == 6 ? 0 : which == 5 ? INT_MIN : 2;
    tp_tensor *value_ = which == 8 ? NULL : tensor_out();
    got_status(tp_eval_now(x_, feeds_, n_feeds_, value_));
}
static const char *const cases_tp_eval_now[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!feeds = NULL", "?n_feeds = INT_MIN", "?n_feeds = 0", "!n_feeds = -1", "?value = NULL", NULL};

static void call_tp_check_gradients(int which)
{
    (void)which;
    tp_node *y_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    const tp_feed *feeds_ = which == 4 ? NULL : feeds();
    int n_feeds_ = which == 7 ? -1 : which == 6 ? 0 : which == 5 ? INT_MIN : 2;
    double tolerance_ = 0.5;
    double *worst_ = which == 8 ? NULL : doubles;
    got_status(tp_check_gradients(y_, feeds_, n_feeds_, tolerance_, worst_));
}
static const char *const cases_tp_check_gradients[] = {"Ggood arguments", "?y = poison of no graph", "?y = a node of another graph", "!y = NULL", "!feeds = NULL", "?n_feeds = INT_MIN", "?n_feeds = 0", "!n_feeds = -1", "?worst = NULL", NULL};

static void call_tp_session_read(int which)
{
    (void)which;
    tp_session *s_ = which == 1 ? NULL : session();
    const tp_variable *v_ = which == 2 ? NULL : variable();
    tp_tensor *value_ = which == 3 ? NULL : tensor_out();
    got_status(tp_session_read(s_, v_, value_));
}
static const char *const cases_tp_session_read[] = {"Ggood arguments", "!s = NULL", "!v = NULL", "!value = NULL", NULL};

static void call_tp_session_load(int which)
{
    (void)which;
    tp_session *s_ = which == 1 ? NULL : session();
    const tp_variable *v_ = which == 2 ? NULL : variable();
    const tp_tensor *value_ = which == 3 ? NULL : a_tensor24();
    got_status(tp_session_load(s_, v_, value_));
}
static const char *const cases_tp_session_load[] = {"Ggood arguments", "!s = NULL", "!v = NULL", "!value = NULL", NULL};

static void call_tp_get_global_step_value(int which)
{
    (void)which;
    tp_session *s_ = which == 1 ? NULL : session();
    (void)tp_get_global_step_value(s_);
    got_answer();
}
static const char *const cases_tp_get_global_step_value[] = {"Ggood arguments", "!s = NULL", NULL};

static void call_tp_session_state(int which)
{
    (void)which;
    tp_session *s_ = which == 1 ? NULL : session();
    (void)tp_session_state(s_);
    got_answer();
}
static const char *const cases_tp_session_state[] = {"Ggood arguments", "!s = NULL", NULL};

static void call_tp_exec_new(int which)
{
    (void)which;
    tp_session *s_ = which == 1 ? NULL : session();
    got_exec(tp_exec_new(s_));
}
static const char *const cases_tp_exec_new[] = {"Ggood arguments", "!s = NULL", NULL};

static void call_tp_exec_free(int which)
{
    (void)which;
    tp_exec *e_ = which == 1 ? NULL : tp_exec_new(session());
    tp_exec_free(e_);
    got_nothing();
}
static const char *const cases_tp_exec_free[] = {"Ggood arguments", "?e = NULL", NULL};

static void call_tp_session_exec(int which)
{
    (void)which;
    tp_session *s_ = which == 1 ? NULL : session();
    (void)tp_session_exec(s_);
    got_answer();
}
static const char *const cases_tp_session_exec[] = {"Ggood arguments", "!s = NULL", NULL};

static void call_tp_exec_run(int which)
{
    (void)which;
    tp_exec *e_ = which == 1 ? NULL : tp_session_exec(session());
    const tp_feed *feeds_ = which == 2 ? NULL : feeds();
    int n_feeds_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : 2;
    tp_node *const *fetches_ = which == 7 ? NULL : which == 6 ? list_with_null() : list_nodes();
    int n_fetches_ = which == 10 ? -1 : which == 9 ? 0 : which == 8 ? INT_MIN : 2;
    const tp_tensor **values_ = which == 11 ? NULL : tensors_out;
    got_status(tp_exec_run(e_, feeds_, n_feeds_, fetches_, n_fetches_, values_));
}
static const char *const cases_tp_exec_run[] = {"Ggood arguments", "!e = NULL", "?feeds = NULL", "?n_feeds = INT_MIN", "?n_feeds = 0", "!n_feeds = -1", "?fetches = a list with a NULL", "!fetches = NULL", "?n_fetches = INT_MIN", "?n_fetches = 0", "!n_fetches = -1", "?values = NULL", NULL};

static void call_tp_exec_run_ex(int which)
{
    (void)which;
    tp_exec *e_ = which == 1 ? NULL : tp_session_exec(session());
    const tp_run_options *o_ = which == 2 ? NULL : &run_options;
    const tp_feed *feeds_ = which == 3 ? NULL : feeds();
    int n_feeds_ = which == 6 ? -1 : which == 5 ? 0 : which == 4 ? INT_MIN : 2;
    tp_node *const *fetches_ = which == 8 ? NULL : which == 7 ? list_with_null() : list_nodes();
    int n_fetches_ = which == 11 ? -1 : which == 10 ? 0 : which == 9 ? INT_MIN : 2;
    const tp_tensor **values_ = which == 12 ? NULL : tensors_out;
    got_status(tp_exec_run_ex(e_, o_, feeds_, n_feeds_, fetches_, n_fetches_, values_));
}
static const char *const cases_tp_exec_run_ex[] = {"Ggood arguments", "!e = NULL", "?o = NULL", "?feeds = NULL", "?n_feeds = INT_MIN", "?n_feeds = 0", "!n_feeds = -1", "?fetches = a list with a NULL", "!fetches = NULL", "?n_fetches = INT_MIN", "?n_fetches = 0", "!n_fetches = -1", "?values = NULL", NULL};

static void call_tp_exec_random_step(int which)
{
    (void)which;
    const tp_exec *e_ = which == 1 ? NULL : tp_session_exec(session());
    (void)tp_exec_random_step(e_);
    got_answer();
}
static const char *const cases_tp_exec_random_step[] = {"Ggood arguments", "!e = NULL", NULL};

static void call_tp_exec_set_random_step(int which)
{
    (void)which;
    tp_exec *e_ = which == 1 ? NULL : tp_session_exec(session());
    uint64_t step_ = 1;
    tp_exec_set_random_step(e_, step_);
    got_nothing();
}
static const char *const cases_tp_exec_set_random_step[] = {"Ggood arguments", "!e = NULL", NULL};

static void call_tp_exec_print_plan(int which)
{
    (void)which;
    tp_exec *e_ = which == 1 ? NULL : tp_session_exec(session());
    tp_node *const *fetches_ = which == 3 ? NULL : which == 2 ? list_with_null() : list_nodes();
    int n_fetches_ = which == 6 ? -1 : which == 5 ? 0 : which == 4 ? INT_MIN : 2;
    tp_buf *out_ = which == 7 ? NULL : buf();
    got_status(tp_exec_print_plan(e_, fetches_, n_fetches_, out_));
}
static const char *const cases_tp_exec_print_plan[] = {"?good arguments", "!e = NULL", "?fetches = a list with a NULL", "!fetches = NULL", "?n_fetches = INT_MIN", "?n_fetches = 0", "!n_fetches = -1", "!out = NULL", NULL};

static void call_tp_exec_set_timing(int which)
{
    (void)which;
    tp_exec *e_ = which == 1 ? NULL : tp_session_exec(session());
    bool on_ = true;
    tp_exec_set_timing(e_, on_);
    got_nothing();
}
static const char *const cases_tp_exec_set_timing[] = {"Ggood arguments", "!e = NULL", NULL};

static void call_tp_exec_plan_info(int which)
{
    (void)which;
    tp_exec *e_ = which == 1 ? NULL : tp_session_exec(session());
    tp_node *const *fetches_ = which == 3 ? NULL : which == 2 ? list_with_null() : list_nodes();
    int n_fetches_ = which == 6 ? -1 : which == 5 ? 0 : which == 4 ? INT_MIN : 2;
    tp_plan_info *info_ = which == 7 ? NULL : &plan_info;
    got_status(tp_exec_plan_info(e_, fetches_, n_fetches_, info_));
}
static const char *const cases_tp_exec_plan_info[] = {"?good arguments", "!e = NULL", "?fetches = a list with a NULL", "!fetches = NULL", "?n_fetches = INT_MIN", "?n_fetches = 0", "!n_fetches = -1", "!info = NULL", NULL};

static void call_tp_request_fetch(int which)
{
    (void)which;
    tp_run_request *r_ = NULL;
    tp_node *n_ = which == 4 ? NULL : which == 3 ? node_of_another_graph() : which == 2 ? tp_relu(no_node) : node();
    (void)tp_request_fetch(r_, n_);
    got_answer();
}
static const char *const cases_tp_request_fetch[] = {"Ggood arguments", "!r = NULL", "?n = poison of no graph", "?n = a node of another graph", "!n = NULL", NULL};

static void call_tp_request_feed(int which)
{
    (void)which;
    tp_run_request *r_ = NULL;
    tp_node *n_ = which == 4 ? NULL : which == 3 ? node_of_another_graph() : which == 2 ? tp_relu(no_node) : node();
    const tp_tensor *value_ = which == 5 ? NULL : a_tensor24();
    got_status(tp_request_feed(r_, n_, value_));
}
static const char *const cases_tp_request_feed[] = {"?good arguments", "!r = NULL", "?n = poison of no graph", "?n = a node of another graph", "!n = NULL", "!value = NULL", NULL};

static void call_tp_request_trace(int which)
{
    (void)which;
    tp_run_request *r_ = NULL;
    tp_trace *trace_ = which == 2 ? NULL : &trace_out;
    got_status(tp_request_trace(r_, trace_));
}
static const char *const cases_tp_request_trace[] = {"?good arguments", "!r = NULL", "!trace = NULL", NULL};

static void call_tp_request_datapoints(int which)
{
    (void)which;
    const tp_run_request *r_ = NULL;
    (void)tp_request_datapoints(r_);
    got_answer();
}
static const char *const cases_tp_request_datapoints[] = {"?good arguments", "!r = NULL", NULL};

static void call_tp_request_wait(int which)
{
    (void)which;
    tp_run_request *r_ = NULL;
    tp_cond *c_ = which == 2 ? NULL : cond();
    tp_mutex *m_ = which == 3 ? NULL : mutex();
    const char *what_ = which == 7 ? NULL : which == 6 ? "" : which == 5 ? long_text() : which == 4 ? ":/ " : "name";
    got_status(tp_request_wait(r_, c_, m_, what_));
}
static const char *const cases_tp_request_wait[] = {"?good arguments", "!r = NULL", "!c = NULL", "!m = NULL", "?what = \":/ \"", "?what = 300 letters", "?what = \"\"", "!what = NULL", NULL};

static void call_tp_hooked_session_new(int which)
{
    (void)which;
    tp_session *s_ = which == 1 ? NULL : session();
    tp_hook *const *hooks_ = which == 2 ? NULL : list_hooks();
    int n_hooks_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : 2;
    got_hooked(tp_hooked_session_new(s_, hooks_, n_hooks_));
}
static const char *const cases_tp_hooked_session_new[] = {"Ggood arguments", "!s = NULL", "!hooks = NULL", "?n_hooks = INT_MIN", "?n_hooks = 0", "!n_hooks = -1", NULL};

static void call_tp_hooked_session_free(int which)
{
    (void)which;
    tp_hooked_session *h_ = which == 1 ? NULL : hooked_given();
    tp_hooked_session_free(h_);
    got_nothing();
}
static const char *const cases_tp_hooked_session_free[] = {"Ggood arguments", "?h = NULL", NULL};

static void call_tp_hooked_session_exec(int which)
{
    (void)which;
    tp_hooked_session *h_ = which == 1 ? NULL : hooked();
    (void)tp_hooked_session_exec(h_);
    got_answer();
}
static const char *const cases_tp_hooked_session_exec[] = {"Ggood arguments", "!h = NULL", NULL};

static void call_tp_hooked_session_set_timeout(int which)
{
    (void)which;
    tp_hooked_session *h_ = which == 1 ? NULL : hooked();
    int64_t timeout_ms_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT64_MIN : 2;
    tp_hooked_session_set_timeout(h_, timeout_ms_);
    got_nothing();
}
static const char *const cases_tp_hooked_session_set_timeout[] = {"Ggood arguments", "!h = NULL", "?timeout_ms = INT64_MIN", "?timeout_ms = 0", "?timeout_ms = -1", NULL};

static void call_tp_hooked_session_set_datapoints(int which)
{
    (void)which;
    tp_hooked_session *h_ = which == 1 ? NULL : hooked();
    int n_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT_MIN : 2;
    tp_hooked_session_set_datapoints(h_, n_);
    got_nothing();
}
static const char *const cases_tp_hooked_session_set_datapoints[] = {"Ggood arguments", "!h = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_hooked_session_request_stop(int which)
{
    (void)which;
    tp_hooked_session *h_ = which == 1 ? NULL : hooked();
    tp_hooked_session_request_stop(h_);
    got_nothing();
}
static const char *const cases_tp_hooked_session_request_stop[] = {"Ggood arguments", "!h = NULL", NULL};

static void call_tp_hooked_session_should_stop(int which)
{
    (void)which;
    const tp_hooked_session *h_ = which == 1 ? NULL : hooked();
    (void)tp_hooked_session_should_stop(h_);
    got_answer();
}
static const char *const cases_tp_hooked_session_should_stop[] = {"Ggood arguments", "!h = NULL", NULL};

static void call_tp_hooked_run(int which)
{
    (void)which;
    tp_hooked_session *h_ = which == 1 ? NULL : hooked();
    tp_node *const *fetches_ = which == 3 ? NULL : which == 2 ? list_with_null() : list_nodes();
    int n_fetches_ = which == 6 ? -1 : which == 5 ? 0 : which == 4 ? INT_MIN : 2;
    const tp_tensor **values_ = which == 7 ? NULL : tensors_out;
    got_status(tp_hooked_run(h_, fetches_, n_fetches_, values_));
}
static const char *const cases_tp_hooked_run[] = {"Ggood arguments", "!h = NULL", "?fetches = a list with a NULL", "!fetches = NULL", "?n_fetches = INT_MIN", "?n_fetches = 0", "!n_fetches = -1", "?values = NULL", NULL};

static void call_tp_new_session_creator(int which)
{
    (void)which;
    const tp_session_config *config_ = which == 1 ? NULL : &one_thread;
    (void)tp_new_session_creator(config_);
    got_answer();
}
static const char *const cases_tp_new_session_creator[] = {"Ggood arguments", "?config = NULL", NULL};

static void call_tp_reuse_session_creator(int which)
{
    (void)which;
    tp_session *s_ = which == 1 ? NULL : session();
    (void)tp_reuse_session_creator(s_);
    got_answer();
}
static const char *const cases_tp_reuse_session_creator[] = {"Ggood arguments", "?s = NULL", NULL};

static void call_tp_session_creator_adapter(int which)
{
    (void)which;
    tp_session_adapter *a_ = which == 1 ? NULL : adapter();
    (void)tp_session_creator_adapter(a_);
    got_answer();
}
static const char *const cases_tp_session_creator_adapter[] = {"Ggood arguments", "?a = NULL", NULL};

static void call_tp_session_init_run(int which)
{
    (void)which;
    tp_session_init *i_ = which == 1 ? NULL : an_init();
    tp_session *s_ = which == 2 ? NULL : session();
    got_status(tp_session_init_run(i_, s_));
}
static const char *const cases_tp_session_init_run[] = {"Ggood arguments", "?i = NULL", "!s = NULL", NULL};

static void call_tp_session_init_free(int which)
{
    (void)which;
    tp_session_init *i_ = which == 1 ? NULL : an_init_given();
    tp_session_init_free(i_);
    got_nothing();
}
static const char *const cases_tp_session_init_free[] = {"Ggood arguments", "?i = NULL", NULL};

static void call_tp_saver_restore_ex(int which)
{
    (void)which;
    const tp_saver_restore_desc *d_ = which == 1 ? NULL : &restore_desc;
    got_init(tp_saver_restore_ex(d_));
}
static const char *const cases_tp_saver_restore_ex[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_saver_restore(int which)
{
    (void)which;
    const char *path_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : a_path("x.npz");
    got_init(tp_saver_restore(path_));
}
static const char *const cases_tp_saver_restore[] = {"Ggood arguments", "?path = \":/ \"", "?path = 300 letters", "?path = \"\"", "?path = NULL", NULL};

static void call_tp_dict_restore(int which)
{
    (void)which;
    tp_dict *d_ = which == 1 ? NULL : dict();
    bool ignore_mismatch_ = true;
    got_init(tp_dict_restore(d_, ignore_mismatch_));
}
static const char *const cases_tp_dict_restore[] = {"Ggood arguments", "!d = NULL", NULL};

static void call_tp_chain_init(int which)
{
    (void)which;
    tp_session_init *const *inits_ = which == 1 ? NULL : (which == 2 || which == 3 || which == 4) ? NULL : list_inits_given();
    int n_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT_MIN : 2;
    got_init(tp_chain_init(inits_, n_));
}
static const char *const cases_tp_chain_init[] = {"Ggood arguments", "!inits = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_just_current_session(int which)
{
    (void)which;
    got_init(tp_just_current_session());
}
static const char *const cases_tp_just_current_session[] = {"Ggood arguments", NULL};

static void call_tp_smart_init(int which)
{
    (void)which;
    const char *path_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : a_path("x.npz");
    bool ignore_mismatch_ = true;
    got_init(tp_smart_init(path_, ignore_mismatch_));
}
static const char *const cases_tp_smart_init[] = {"Ggood arguments", "?path = \":/ \"", "?path = 300 letters", "?path = \"\"", "?path = NULL", NULL};

static void call_tp_smart_init_list(int which)
{
    (void)which;
    const tp_smart_source *list_ = which == 1 ? NULL : smart_sources;
    int n_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT_MIN : 2;
    bool ignore_mismatch_ = true;
    got_init(tp_smart_init_list(list_, n_, ignore_mismatch_));
}
static const char *const cases_tp_smart_init_list[] = {"Ggood arguments", "!list = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_save_checkpoint(int which)
{
    (void)which;
    tp_session *s_ = which == 1 ? NULL : session();
    const char *path_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : a_path("x.npz");
    tp_variable *const *variables_ = which == 6 ? NULL : list_of_variables();
    int n_ = which == 9 ? -1 : which == 8 ? 0 : which == 7 ? INT_MIN : 2;
    got_status(tp_save_checkpoint(s_, path_, variables_, n_));
}
static const char *const cases_tp_save_checkpoint[] = {"Ggood arguments", "!s = NULL", "?path = \":/ \"", "?path = 300 letters", "?path = \"\"", "!path = NULL", "?variables = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_restore_checkpoint(int which)
{
    (void)which;
    tp_session *s_ = which == 1 ? NULL : session();
    const char *path_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : its_model(s_);
    got_status(tp_restore_checkpoint(s_, path_));
}
static const char *const cases_tp_restore_checkpoint[] = {"Ggood arguments", "!s = NULL", "?path = \":/ \"", "?path = 300 letters", "?path = \"\"", "!path = NULL", NULL};

static void call_tp_dump_session_params(int which)
{
    (void)which;
    tp_session *s_ = which == 1 ? NULL : session();
    const char *path_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : a_path("x.npz");
    got_status(tp_dump_session_params(s_, path_));
}
static const char *const cases_tp_dump_session_params[] = {"Ggood arguments", "!s = NULL", "?path = \":/ \"", "?path = 300 letters", "?path = \"\"", "!path = NULL", NULL};

static void call_tp_load_checkpoint_vars(int which)
{
    (void)which;
    const char *path_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : a_checkpoint();
    tp_dict *d_ = which == 5 ? NULL : dict();
    got_status(tp_load_checkpoint_vars(path_, d_));
}
static const char *const cases_tp_load_checkpoint_vars[] = {"Ggood arguments", "?path = \":/ \"", "?path = 300 letters", "?path = \"\"", "!path = NULL", "!d = NULL", NULL};

static void call_tp_save_checkpoint_vars(int which)
{
    (void)which;
    const tp_dict *d_ = which == 1 ? NULL : dict();
    const char *path_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : a_path("x.npz");
    got_status(tp_save_checkpoint_vars(d_, path_));
}
static const char *const cases_tp_save_checkpoint_vars[] = {"Ggood arguments", "!d = NULL", "?path = \":/ \"", "?path = 300 letters", "?path = \"\"", "!path = NULL", NULL};

static void call_tp_checkpoint_state_write(int which)
{
    (void)which;
    const char *dir_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : a_dir();
    const char *const *names_ = which == 5 ? NULL : names;
    int n_ = which == 8 ? -1 : which == 7 ? 0 : which == 6 ? INT_MIN : 2;
    got_status(tp_checkpoint_state_write(dir_, names_, n_));
}
static const char *const cases_tp_checkpoint_state_write[] = {"Ggood arguments", "?dir = \":/ \"", "?dir = 300 letters", "?dir = \"\"", "!dir = NULL", "!names = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_checkpoint_state_latest(int which)
{
    (void)which;
    const char *dir_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : a_dir();
    char *path_ = which == 5 ? NULL : text_out;
    size_t size_ = sizeof text_out;
    got_status(tp_checkpoint_state_latest(dir_, path_, size_));
}
static const char *const cases_tp_checkpoint_state_latest[] = {"?good arguments", "?dir = \":/ \"", "?dir = 300 letters", "?dir = \"\"", "!dir = NULL", "!path = NULL", NULL};

static void call_tp_get_all_checkpoints(int which)
{
    (void)which;
    const char *dir_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : a_dir();
    const char *prefix_ = which == 8 ? NULL : which == 7 ? "" : which == 6 ? long_text() : which == 5 ? ":/ " : "model";
    tp_checkpoint_entry **entries_ = which == 9 ? NULL : &entries_out;
    int *n_ = which == 10 ? NULL : ints_out;
    got_status(tp_get_all_checkpoints(dir_, prefix_, entries_, n_));
}
static const char *const cases_tp_get_all_checkpoints[] = {"Ggood arguments", "?dir = \":/ \"", "?dir = 300 letters", "?dir = \"\"", "?dir = NULL", "?prefix = \":/ \"", "?prefix = 300 letters", "?prefix = \"\"", "?prefix = NULL", "!entries = NULL", "!n = NULL", NULL};

static void call_tp_online_predictor(int which)
{
    (void)which;
    tp_session *s_ = which == 1 ? NULL : session();
    tp_node *const *inputs_ = which == 3 ? NULL : which == 2 ? list_with_null() : list_nodes();
    int n_inputs_ = which == 6 ? -1 : which == 5 ? 0 : which == 4 ? INT_MIN : 2;
    tp_node *const *outputs_ = which == 8 ? NULL : which == 7 ? list_with_null() : list_nodes();
    int n_outputs_ = which == 11 ? -1 : which == 10 ? 0 : which == 9 ? INT_MIN : 2;
    got_predictor(tp_online_predictor(s_, inputs_, n_inputs_, outputs_, n_outputs_));
}
static const char *const cases_tp_online_predictor[] = {"Ggood arguments", "!s = NULL", "?inputs = a list with a NULL", "!inputs = NULL", "?n_inputs = INT_MIN", "?n_inputs = 0", "!n_inputs = -1", "?outputs = a list with a NULL", "!outputs = NULL", "?n_outputs = INT_MIN", "?n_outputs = 0", "?n_outputs = -1", NULL};

static void call_tp_offline_predictor(int which)
{
    (void)which;
    const tp_predict_config *c_ = which == 1 ? NULL : predict_config();
    got_predictor(tp_offline_predictor(c_));
}
static const char *const cases_tp_offline_predictor[] = {"Ggood arguments", "!c = NULL", NULL};

static void call_tp_multi_tower_predictor(int which)
{
    (void)which;
    const tp_predict_config *c_ = which == 1 ? NULL : predict_config();
    int n_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT_MIN : 2;
    got_predictor(tp_multi_tower_predictor(c_, n_));
}
static const char *const cases_tp_multi_tower_predictor[] = {"Ggood arguments", "!c = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_predictor_tower(int which)
{
    (void)which;
    tp_predictor *p_ = which == 1 ? NULL : predictor();
    int i_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : which == 2 ? INT_MAX : 2;
    (void)tp_predictor_tower(p_, i_);
    got_answer();
}
static const char *const cases_tp_predictor_tower[] = {"Ggood arguments", "!p = NULL", "?i = INT_MAX", "?i = INT_MIN", "?i = 0", "?i = -1", NULL};

static void call_tp_predict(int which)
{
    (void)which;
    tp_predictor *p_ = which == 1 ? NULL : predictor();
    const tp_tensor *input_ = which == 2 ? NULL : tensors_in();
    const tp_tensor **output_ = which == 3 ? NULL : tensors_out;
    got_status(tp_predict(p_, input_, output_));
}
static const char *const cases_tp_predict[] = {"Ggood arguments", "!p = NULL", "!input = NULL", "!output = NULL", NULL};

static void call_tp_predict_n(int which)
{
    (void)which;
    tp_predictor *p_ = which == 1 ? NULL : predictor();
    const tp_tensor *inputs_ = which == 2 ? NULL : tensors_in();
    int n_inputs_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : 1;
    const tp_tensor **outputs_ = which == 6 ? NULL : tensors_out;
    int n_outputs_ = which == 9 ? -1 : which == 8 ? 0 : which == 7 ? INT_MIN : 1;
    got_status(tp_predict_n(p_, inputs_, n_inputs_, outputs_, n_outputs_));
}
static const char *const cases_tp_predict_n[] = {"Ggood arguments", "!p = NULL", "!inputs = NULL", "?n_inputs = INT_MIN", "?n_inputs = 0", "!n_inputs = -1", "!outputs = NULL", "?n_outputs = INT_MIN", "?n_outputs = 0", "?n_outputs = -1", NULL};

static void call_tp_predictor_carry(int which)
{
    (void)which;
    tp_predictor *p_ = which == 1 ? NULL : predictor();
    int output_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : which == 2 ? INT_MAX : 0;
    int input_ = which == 9 ? -1 : which == 8 ? 0 : which == 7 ? INT_MIN : which == 6 ? INT_MAX : 0;
    got_status(tp_predictor_carry(p_, output_, input_));
}
static const char *const cases_tp_predictor_carry[] = {"?good arguments", "!p = NULL", "?output = INT_MAX", "?output = INT_MIN", "?output = 0", "?output = -1", "?input = INT_MAX", "?input = INT_MIN", "?input = 0", "?input = -1", NULL};

static void call_tp_predictor_reset(int which)
{
    (void)which;
    tp_predictor *p_ = which == 1 ? NULL : predictor();
    tp_predictor_reset(p_);
    got_nothing();
}
static const char *const cases_tp_predictor_reset[] = {"Ggood arguments", "!p = NULL", NULL};

static void call_tp_predictor_n_inputs(int which)
{
    (void)which;
    const tp_predictor *p_ = which == 1 ? NULL : predictor();
    (void)tp_predictor_n_inputs(p_);
    got_answer();
}
static const char *const cases_tp_predictor_n_inputs[] = {"Ggood arguments", "!p = NULL", NULL};

static void call_tp_predictor_n_outputs(int which)
{
    (void)which;
    const tp_predictor *p_ = which == 1 ? NULL : predictor();
    (void)tp_predictor_n_outputs(p_);
    got_answer();
}
static const char *const cases_tp_predictor_n_outputs[] = {"Ggood arguments", "!p = NULL", NULL};

static void call_tp_predictor_session(int which)
{
    (void)which;
    tp_predictor *p_ = which == 1 ? NULL : predictor();
    (void)tp_predictor_session(p_);
    got_answer();
}
static const char *const cases_tp_predictor_session[] = {"Ggood arguments", "!p = NULL", NULL};

static void call_tp_predictor_free(int which)
{
    (void)which;
    tp_predictor *p_ = which == 1 ? NULL : predictor_given();
    tp_predictor_free(p_);
    got_nothing();
}
static const char *const cases_tp_predictor_free[] = {"Ggood arguments", "?p = NULL", NULL};

static void call_tp_conv2d_(int which)
{
    (void)which;
    tp_conv2d_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 5 && which != 4) desc.name = "layer", desc.filters = 2, desc.kernel_size = 1;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_image();
    const tp_conv2d_desc *d_ = which == 4 ? NULL : &desc;
    got_node(tp_conv2d_(x_, d_));
}
static const char *const cases_tp_conv2d_[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_fully_connected_(int which)
{
    (void)which;
    tp_fully_connected_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 5 && which != 4) desc.name = "layer", desc.units = 2;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    const tp_fully_connected_desc *d_ = which == 4 ? NULL : &desc;
    got_node(tp_fully_connected_(x_, d_));
}
static const char *const cases_tp_fully_connected_[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_max_pooling_(int which)
{
    (void)which;
    tp_max_pooling_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 5 && which != 4) desc.name = "layer", desc.pool_size = 2;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_image();
    const tp_max_pooling_desc *d_ = which == 4 ? NULL : &desc;
    got_node(tp_max_pooling_(x_, d_));
}
static const char *const cases_tp_max_pooling_[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_avg_pooling_(int which)
{
    (void)which;
    tp_avg_pooling_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 5 && which != 4) desc.name = "layer", desc.pool_size = 2;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_image();
    const tp_avg_pooling_desc *d_ = which == 4 ? NULL : &desc;
    got_node(tp_avg_pooling_(x_, d_));
}
static const char *const cases_tp_avg_pooling_[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_global_avg_pooling_(int which)
{
    (void)which;
    tp_global_avg_pooling_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 5 && which != 4) desc.name = "layer";
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_image();
    const tp_global_avg_pooling_desc *d_ = which == 4 ? NULL : &desc;
    got_node(tp_global_avg_pooling_(x_, d_));
}
static const char *const cases_tp_global_avg_pooling_[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_batch_norm_(int which)
{
    (void)which;
    tp_batch_norm_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 5 && which != 4) desc.name = "layer", desc.training = TP_YES;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    const tp_batch_norm_desc *d_ = which == 4 ? NULL : &desc;
    got_node(tp_batch_norm_(x_, d_));
}
static const char *const cases_tp_batch_norm_[] = {"?good arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_dropout_(int which)
{
    (void)which;
    tp_dropout_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 5 && which != 4) desc.training = TP_YES;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    const tp_dropout_desc *d_ = which == 4 ? NULL : &desc;
    got_node(tp_dropout_(x_, d_));
}
static const char *const cases_tp_dropout_[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_bn_relu_(int which)
{
    (void)which;
    tp_bn_relu_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 5 && which != 4) desc.name = "layer";
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    const tp_bn_relu_desc *d_ = which == 4 ? NULL : &desc;
    got_node(tp_bn_relu_(x_, d_));
}
static const char *const cases_tp_bn_relu_[] = {"?good arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_bn_relu(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_bn_relu(x_));
}
static const char *const cases_tp_bn_relu[] = {"?good arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_conv2d_transpose_(int which)
{
    (void)which;
    tp_conv2d_transpose_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 5 && which != 4) desc.name = "layer", desc.filters = 2, desc.kernel_size = 1;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_image();
    const tp_conv2d_transpose_desc *d_ = which == 4 ? NULL : &desc;
    got_node(tp_conv2d_transpose_(x_, d_));
}
static const char *const cases_tp_conv2d_transpose_[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_depthwise_conv2d_(int which)
{
    (void)which;
    tp_depthwise_conv2d_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 5 && which != 4) desc.name = "layer", desc.kernel_size = 1;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_image();
    const tp_depthwise_conv2d_desc *d_ = which == 4 ? NULL : &desc;
    got_node(tp_depthwise_conv2d_(x_, d_));
}
static const char *const cases_tp_depthwise_conv2d_[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_fixed_unpooling_(int which)
{
    (void)which;
    tp_fixed_unpooling_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 5 && which != 4) desc.name = "layer", desc.shape = 2;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_image();
    const tp_fixed_unpooling_desc *d_ = which == 4 ? NULL : &desc;
    got_node(tp_fixed_unpooling_(x_, d_));
}
static const char *const cases_tp_fixed_unpooling_[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_caffe_bilinear_upsample_(int which)
{
    (void)which;
    tp_caffe_bilinear_upsample_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 5 && which != 4) desc.name = "layer", desc.shape = 2;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_image();
    const tp_caffe_bilinear_upsample_desc *d_ = which == 4 ? NULL : &desc;
    got_node(tp_caffe_bilinear_upsample_(x_, d_));
}
static const char *const cases_tp_caffe_bilinear_upsample_[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_layer_norm_(int which)
{
    (void)which;
    tp_layer_norm_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 5 && which != 4) desc.name = "layer";
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_image();
    const tp_layer_norm_desc *d_ = which == 4 ? NULL : &desc;
    got_node(tp_layer_norm_(x_, d_));
}
static const char *const cases_tp_layer_norm_[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_instance_norm_(int which)
{
    (void)which;
    tp_instance_norm_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 5 && which != 4) desc.name = "layer";
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_image();
    const tp_instance_norm_desc *d_ = which == 4 ? NULL : &desc;
    got_node(tp_instance_norm_(x_, d_));
}
static const char *const cases_tp_instance_norm_[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_group_norm_(int which)
{
    (void)which;
    tp_group_norm_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 5 && which != 4) desc.name = "layer", desc.groups = 2;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_image4();
    const tp_group_norm_desc *d_ = which == 4 ? NULL : &desc;
    got_node(tp_group_norm_(x_, d_));
}
static const char *const cases_tp_group_norm_[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_batch_renorm_(int which)
{
    (void)which;
    tp_batch_renorm_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 5 && which != 4) desc.name = "layer", desc.rmax = 2.0f, desc.dmax = 1.0f;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    const tp_batch_renorm_desc *d_ = which == 4 ? NULL : &desc;
    got_node(tp_batch_renorm_(x_, d_));
}
static const char *const cases_tp_batch_renorm_[] = {"?good arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_prelu_(int which)
{
    (void)which;
    tp_prelu_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 5 && which != 4) desc.name = "layer";
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    const tp_prelu_desc *d_ = which == 4 ? NULL : &desc;
    got_node(tp_prelu_(x_, d_));
}
static const char *const cases_tp_prelu_[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_maxout_(int which)
{
    (void)which;
    tp_maxout_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 5 && which != 4) desc.num_unit = 2;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    const tp_maxout_desc *d_ = which == 4 ? NULL : &desc;
    got_node(tp_maxout_(x_, d_));
}
static const char *const cases_tp_maxout_[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_concat_with_(int which)
{
    (void)which;
    tp_concat_with_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 5 && which != 4) desc.tensor = node(), desc.dim = 1;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    const tp_concat_with_desc *d_ = which == 4 ? NULL : &desc;
    got_node(tp_concat_with_(x_, d_));
}
static const char *const cases_tp_concat_with_[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_grid_sample_(int which)
{
    (void)which;
    tp_grid_sample_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 5 && which != 4) desc.coords = node_coords();
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_image();
    const tp_grid_sample_desc *d_ = which == 4 ? NULL : &desc;
    got_node(tp_grid_sample_(x_, d_));
}
static const char *const cases_tp_grid_sample_[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_softmax_layer_(int which)
{
    (void)which;
    tp_softmax_layer_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 5 && which != 4) desc.name = "layer";
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    const tp_softmax_layer_desc *d_ = which == 4 ? NULL : &desc;
    got_node(tp_softmax_layer_(x_, d_));
}
static const char *const cases_tp_softmax_layer_[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_embedding_(int which)
{
    (void)which;
    tp_embedding_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 5 && which != 4) desc.name = "layer", desc.vocab = 4, desc.units = 2;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_labels();
    const tp_embedding_desc *d_ = which == 4 ? NULL : &desc;
    got_node(tp_embedding_(x_, d_));
}
static const char *const cases_tp_embedding_[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_lstm_(int which)
{
    (void)which;
    tp_lstm_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 5 && which != 4) desc.name = "layer", desc.units = 2;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_sequence();
    const tp_lstm_desc *d_ = which == 4 ? NULL : &desc;
    got_node(tp_lstm_(x_, d_));
}
static const char *const cases_tp_lstm_[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_gru_(int which)
{
    (void)which;
    tp_gru_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 5 && which != 4) desc.name = "layer", desc.units = 2;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_sequence();
    const tp_gru_desc *d_ = which == 4 ? NULL : &desc;
    got_node(tp_gru_(x_, d_));
}
static const char *const cases_tp_gru_[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_basic_lstm_cell_(int which)
{
    (void)which;
    tp_basic_lstm_cell_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 5 && which != 4) desc.name = "layer", desc.units = 2;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    const tp_basic_lstm_cell_desc *d_ = which == 4 ? NULL : &desc;
    got_node(tp_basic_lstm_cell_(x_, d_));
}
static const char *const cases_tp_basic_lstm_cell_[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_gru_cell_(int which)
{
    (void)which;
    tp_gru_cell_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 5 && which != 4) desc.name = "layer", desc.units = 2;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    const tp_gru_cell_desc *d_ = which == 4 ? NULL : &desc;
    got_node(tp_gru_cell_(x_, d_));
}
static const char *const cases_tp_gru_cell_[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_multi_head_attention_(int which)
{
    (void)which;
    tp_multi_head_attention_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 5 && which != 4) desc.name = "layer", desc.heads = 2;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_sequence();
    const tp_multi_head_attention_desc *d_ = which == 4 ? NULL : &desc;
    got_node(tp_multi_head_attention_(x_, d_));
}
static const char *const cases_tp_multi_head_attention_[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_argscope_begin(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const tp_at *at_ = which == 2 ? NULL : &here;
    tp_argscope_begin(g_, at_);
    got_nothing();
}
static const char *const cases_tp_argscope_begin[] = {"Ggood arguments", "!g = NULL", "?at = NULL", NULL};

static void call_tp_argscope_set(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const char *layer_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "Conv2D";
    const void *desc_ = which == 6 ? NULL : &conv2d_options;
    tp_argscope_set(g_, layer_, desc_);
    got_nothing();
}
static const char *const cases_tp_argscope_set[] = {"?good arguments", "!g = NULL", "?layer = \":/ \"", "?layer = 300 letters", "?layer = \"\"", "!layer = NULL", "!desc = NULL", NULL};

static void call_tp_argscope_end(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    tp_argscope_end(g_);
    got_nothing();
}
static const char *const cases_tp_argscope_end[] = {"?good arguments", "!g = NULL", NULL};

static void call_tp_get_argscope(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const char *layer_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "Conv2D";
    (void)tp_get_argscope(g_, layer_);
    got_answer();
}
static const char *const cases_tp_get_argscope[] = {"Ggood arguments", "!g = NULL", "?layer = \":/ \"", "?layer = 300 letters", "?layer = \"\"", "!layer = NULL", NULL};

static void call_tp_linear_n(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    const tp_layer *layers_ = which == 4 ? NULL : &a_layer;
    int n_ = which == 7 ? -1 : which == 6 ? 0 : which == 5 ? INT_MIN : 1;
    got_node(tp_linear_n(x_, layers_, n_));
}
static const char *const cases_tp_linear_n[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "!layers = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_linear_print(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    void *user_ = scratch;
    got_node(tp_linear_print(x_, user_));
}
static const char *const cases_tp_linear_print[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_layer_register(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const tp_layer_type *type_ = which == 2 ? NULL : a_layer_type();
    tp_layer_register(g_, type_);
    got_nothing();
}
static const char *const cases_tp_layer_register[] = {"Ggood arguments", "!g = NULL", "!type = NULL", NULL};

static void call_tp_enable_argscope_for_function(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const tp_layer_type *type_ = which == 2 ? NULL : a_layer_type();
    int log_shape_ = which == 6 ? -1 : which == 5 ? 0 : which == 4 ? INT_MIN : which == 3 ? INT_MAX : 2;
    tp_enable_argscope_for_function(g_, type_, log_shape_);
    got_nothing();
}
static const char *const cases_tp_enable_argscope_for_function[] = {"Ggood arguments", "!g = NULL", "!type = NULL", "?log_shape = INT_MAX", "?log_shape = INT_MIN", "?log_shape = 0", "?log_shape = -1", NULL};

static void call_tp_enable_argscope_for_module(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const tp_layer_type *types_ = which == 2 ? NULL : a_layer_type();
    int n_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : 1;
    int log_shape_ = which == 9 ? -1 : which == 8 ? 0 : which == 7 ? INT_MIN : which == 6 ? INT_MAX : 2;
    tp_enable_argscope_for_module(g_, types_, n_, log_shape_);
    got_nothing();
}
static const char *const cases_tp_enable_argscope_for_module[] = {"Ggood arguments", "!g = NULL", "!types = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", "?log_shape = INT_MAX", "?log_shape = INT_MIN", "?log_shape = 0", "?log_shape = -1", NULL};

static void call_tp_get_registered_layer(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const char *name_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "Conv2D";
    (void)tp_get_registered_layer(g_, name_);
    got_answer();
}
static const char *const cases_tp_get_registered_layer[] = {"Ggood arguments", "!g = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", NULL};

static void call_tp_layer_apply(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    const char *layer_ = which == 7 ? NULL : which == 6 ? "" : which == 5 ? long_text() : which == 4 ? ":/ " : "FullyConnected";
    const void *desc_ = which == 8 ? NULL : &fully_connected;
    got_node(tp_layer_apply(x_, layer_, desc_));
}
static const char *const cases_tp_layer_apply[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?layer = \":/ \"", "?layer = 300 letters", "?layer = \"\"", "!layer = NULL", "!desc = NULL", NULL};

static void call_tp_layer_hold(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const char *key_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    tp_node *n_ = which == 8 ? NULL : which == 7 ? node_of_another_graph() : which == 6 ? tp_relu(no_node) : node();
    tp_layer_hold(g_, key_, n_);
    got_nothing();
}
static const char *const cases_tp_layer_hold[] = {"Ggood arguments", "!g = NULL", "?key = \":/ \"", "?key = 300 letters", "?key = \"\"", "!key = NULL", "?n = poison of no graph", "?n = a node of another graph", "!n = NULL", NULL};

static void call_tp_layer_variable(int which)
{
    (void)which;
    tp_node *y_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_of_layer();
    const char *key_ = which == 7 ? NULL : which == 6 ? "" : which == 5 ? long_text() : which == 4 ? ":/ " : "W";
    got_node(tp_layer_variable(y_, key_));
}
static const char *const cases_tp_layer_variable[] = {"Ggood arguments", "?y = poison of no graph", "?y = a node of another graph", "!y = NULL", "?key = \":/ \"", "?key = 300 letters", "?key = \"\"", "!key = NULL", NULL};

static void call_tp_disable_layer_logging(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    tp_disable_layer_logging(g_);
    got_nothing();
}
static const char *const cases_tp_disable_layer_logging[] = {"Ggood arguments", "!g = NULL", NULL};

static void call_tp_l2_regularizer(int which)
{
    (void)which;
    float scale_ = 0.5f;
    (void)tp_l2_regularizer(scale_);
    got_answer();
}
static const char *const cases_tp_l2_regularizer[] = {"Ggood arguments", NULL};

static void call_tp_l1_regularizer(int which)
{
    (void)which;
    float scale_ = 0.5f;
    (void)tp_l1_regularizer(scale_);
    got_answer();
}
static const char *const cases_tp_l1_regularizer[] = {"Ggood arguments", NULL};

static void call_tp_regularize_cost(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const char *regex_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "fc.*/W";
    tp_regularizer r_ = tp_l2_regularizer(0.1f);
    const char *name_ = which == 9 ? NULL : which == 8 ? "" : which == 7 ? long_text() : which == 6 ? ":/ " : "name";
    got_node(tp_regularize_cost(g_, regex_, r_, name_));
}
static const char *const cases_tp_regularize_cost[] = {"?good arguments", "!g = NULL", "?regex = \":/ \"", "?regex = 300 letters", "?regex = \"\"", "?regex = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "?name = NULL", NULL};

static void call_tp_regularize_cost_(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const char *regex_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "fc.*/W";
    tp_regularizer r_ = tp_l2_regularizer(0.1f);
    const char *name_ = which == 9 ? NULL : which == 8 ? "" : which == 7 ? long_text() : which == 6 ? ":/ " : "name";
    tp_at at_ = here;
    got_node(tp_regularize_cost_(g_, regex_, r_, name_, at_));
}
static const char *const cases_tp_regularize_cost_[] = {"?good arguments", "!g = NULL", "?regex = \":/ \"", "?regex = 300 letters", "?regex = \"\"", "?regex = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "?name = NULL", NULL};

static void call_tp_regularize_cost_from_collection(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const char *name_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    got_node(tp_regularize_cost_from_collection(g_, name_));
}
static const char *const cases_tp_regularize_cost_from_collection[] = {"?good arguments", "!g = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "?name = NULL", NULL};

static void call_tp_sym_accuracy(int which)
{
    (void)which;
    tp_node *logits_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *labels_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node_labels();
    int topk_ = which == 10 ? -1 : which == 9 ? 0 : which == 8 ? INT_MIN : which == 7 ? INT_MAX : 1;
    const char *name_ = which == 14 ? NULL : which == 13 ? "" : which == 12 ? long_text() : which == 11 ? ":/ " : "name";
    got_node(tp_sym_accuracy(logits_, labels_, topk_, name_));
}
static const char *const cases_tp_sym_accuracy[] = {"Ggood arguments", "!logits = poison of no graph", "?logits = a node of another graph", "!logits = NULL", "?labels = poison of no graph", "?labels = a node of another graph", "!labels = NULL", "?topk = INT_MAX", "?topk = INT_MIN", "?topk = 0", "?topk = -1", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "?name = NULL", NULL};

static void call_tp_sym_prediction_incorrect(int which)
{
    (void)which;
    tp_node *logits_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *labels_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node_labels();
    int topk_ = which == 10 ? -1 : which == 9 ? 0 : which == 8 ? INT_MIN : which == 7 ? INT_MAX : 1;
    const char *name_ = which == 14 ? NULL : which == 13 ? "" : which == 12 ? long_text() : which == 11 ? ":/ " : "name";
    got_node(tp_sym_prediction_incorrect(logits_, labels_, topk_, name_));
}
static const char *const cases_tp_sym_prediction_incorrect[] = {"Ggood arguments", "!logits = poison of no graph", "?logits = a node of another graph", "!logits = NULL", "?labels = poison of no graph", "?labels = a node of another graph", "!labels = NULL", "?topk = INT_MAX", "?topk = INT_MIN", "?topk = 0", "?topk = -1", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "?name = NULL", NULL};

static void call_tp_sym_rms(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    const char *name_ = which == 7 ? NULL : which == 6 ? "" : which == 5 ? long_text() : which == 4 ? ":/ " : "name";
    got_node(tp_sym_rms(x_, name_));
}
static const char *const cases_tp_sym_rms[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "?name = NULL", NULL};

static void call_tp_sym_huber_loss(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    float delta_ = 1.0f;
    const char *name_ = which == 7 ? NULL : which == 6 ? "" : which == 5 ? long_text() : which == 4 ? ":/ " : "name";
    got_node(tp_sym_huber_loss(x_, delta_, name_));
}
static const char *const cases_tp_sym_huber_loss[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "?name = NULL", NULL};

static void call_tp_sym_psnr(int which)
{
    (void)which;
    tp_node *prediction_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *truth_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    float maxp_ = 1.0f;
    const char *name_ = which == 10 ? NULL : which == 9 ? "" : which == 8 ? long_text() : which == 7 ? ":/ " : "name";
    got_node(tp_sym_psnr(prediction_, truth_, maxp_, name_));
}
static const char *const cases_tp_sym_psnr[] = {"Ggood arguments", "?prediction = poison of no graph", "?prediction = a node of another graph", "!prediction = NULL", "?truth = poison of no graph", "?truth = a node of another graph", "!truth = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "?name = NULL", NULL};

static void call_tp_sym_mse(int which)
{
    (void)which;
    tp_node *prediction_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *truth_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    const char *name_ = which == 10 ? NULL : which == 9 ? "" : which == 8 ? long_text() : which == 7 ? ":/ " : "name";
    got_node(tp_sym_mse(prediction_, truth_, name_));
}
static const char *const cases_tp_sym_mse[] = {"Ggood arguments", "?prediction = poison of no graph", "?prediction = a node of another graph", "!prediction = NULL", "?truth = poison of no graph", "?truth = a node of another graph", "!truth = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "?name = NULL", NULL};

static void call_tp_sym_kl_divergence(int which)
{
    (void)which;
    tp_node *p_logits_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *q_logits_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    const char *name_ = which == 10 ? NULL : which == 9 ? "" : which == 8 ? long_text() : which == 7 ? ":/ " : "name";
    got_node(tp_sym_kl_divergence(p_logits_, q_logits_, name_));
}
static const char *const cases_tp_sym_kl_divergence[] = {"Ggood arguments", "?p_logits = poison of no graph", "?p_logits = a node of another graph", "!p_logits = NULL", "?q_logits = poison of no graph", "?q_logits = a node of another graph", "!q_logits = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "?name = NULL", NULL};

static void call_tp_sym_smooth_labels(int which)
{
    (void)which;
    tp_node *labels_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_labels();
    int64_t classes_ = which == 6 ? -1 : which == 5 ? 0 : which == 4 ? INT64_MIN : 2;
    float epsilon_ = 0.5f;
    const char *name_ = which == 10 ? NULL : which == 9 ? "" : which == 8 ? long_text() : which == 7 ? ":/ " : "name";
    got_node(tp_sym_smooth_labels(labels_, classes_, epsilon_, name_));
}
static const char *const cases_tp_sym_smooth_labels[] = {"Ggood arguments", "?labels = poison of no graph", "?labels = a node of another graph", "!labels = NULL", "?classes = INT64_MIN", "?classes = 0", "?classes = -1", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "?name = NULL", NULL};

static void call_tp_sym_weighted_loss(int which)
{
    (void)which;
    tp_node *losses_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_labels_float();
    tp_node *labels_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node_labels();
    const float *weights_ = which == 7 ? NULL : floats;
    int classes_ = which == 10 ? -1 : which == 9 ? 0 : which == 8 ? INT_MIN : 2;
    const char *name_ = which == 14 ? NULL : which == 13 ? "" : which == 12 ? long_text() : which == 11 ? ":/ " : "name";
    got_node(tp_sym_weighted_loss(losses_, labels_, weights_, classes_, name_));
}
static const char *const cases_tp_sym_weighted_loss[] = {"Ggood arguments", "?losses = poison of no graph", "?losses = a node of another graph", "!losses = NULL", "?labels = poison of no graph", "?labels = a node of another graph", "!labels = NULL", "!weights = NULL", "?classes = INT_MIN", "?classes = 0", "?classes = -1", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "?name = NULL", NULL};

static void call_tp_sym_print_stat(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    const char *message_ = which == 7 ? NULL : which == 6 ? "" : which == 5 ? long_text() : which == 4 ? ":/ " : "name";
    got_node(tp_sym_print_stat(x_, message_));
}
static const char *const cases_tp_sym_print_stat[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?message = \":/ \"", "?message = 300 letters", "?message = \"\"", "?message = NULL", NULL};

static void call_tp_sym_contrastive_loss(int which)
{
    (void)which;
    tp_node *left_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *right_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    tp_node *similar_ = which == 9 ? NULL : which == 8 ? node_of_another_graph() : which == 7 ? tp_relu(no_node) : node_labels_float();
    float margin_ = 1.0f;
    const char *name_ = which == 13 ? NULL : which == 12 ? "" : which == 11 ? long_text() : which == 10 ? ":/ " : "name";
    got_node(tp_sym_contrastive_loss(left_, right_, similar_, margin_, name_));
}
static const char *const cases_tp_sym_contrastive_loss[] = {"Ggood arguments", "?left = poison of no graph", "?left = a node of another graph", "!left = NULL", "?right = poison of no graph", "?right = a node of another graph", "!right = NULL", "?similar = poison of no graph", "?similar = a node of another graph", "!similar = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "?name = NULL", NULL};

static void call_tp_sym_siamese_cosine_loss(int which)
{
    (void)which;
    tp_node *left_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *right_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    tp_node *similar_ = which == 9 ? NULL : which == 8 ? node_of_another_graph() : which == 7 ? tp_relu(no_node) : node_labels_float();
    const char *name_ = which == 13 ? NULL : which == 12 ? "" : which == 11 ? long_text() : which == 10 ? ":/ " : "name";
    got_node(tp_sym_siamese_cosine_loss(left_, right_, similar_, name_));
}
static const char *const cases_tp_sym_siamese_cosine_loss[] = {"Ggood arguments", "?left = poison of no graph", "?left = a node of another graph", "!left = NULL", "?right = poison of no graph", "?right = a node of another graph", "!right = NULL", "?similar = poison of no graph", "?similar = a node of another graph", "!similar = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "?name = NULL", NULL};

static void call_tp_sym_triplet_loss(int which)
{
    (void)which;
    tp_node *anchor_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *positive_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    tp_node *negative_ = which == 9 ? NULL : which == 8 ? node_of_another_graph() : which == 7 ? tp_relu(no_node) : node();
    float margin_ = 1.0f;
    const char *name_ = which == 13 ? NULL : which == 12 ? "" : which == 11 ? long_text() : which == 10 ? ":/ " : "name";
    got_node(tp_sym_triplet_loss(anchor_, positive_, negative_, margin_, name_));
}
static const char *const cases_tp_sym_triplet_loss[] = {"Ggood arguments", "?anchor = poison of no graph", "?anchor = a node of another graph", "!anchor = NULL", "?positive = poison of no graph", "?positive = a node of another graph", "!positive = NULL", "?negative = poison of no graph", "?negative = a node of another graph", "!negative = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "?name = NULL", NULL};

static void call_tp_sym_soft_triplet_loss(int which)
{
    (void)which;
    tp_node *anchor_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *positive_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    tp_node *negative_ = which == 9 ? NULL : which == 8 ? node_of_another_graph() : which == 7 ? tp_relu(no_node) : node();
    const char *name_ = which == 13 ? NULL : which == 12 ? "" : which == 11 ? long_text() : which == 10 ? ":/ " : "name";
    got_node(tp_sym_soft_triplet_loss(anchor_, positive_, negative_, name_));
}
static const char *const cases_tp_sym_soft_triplet_loss[] = {"Ggood arguments", "?anchor = poison of no graph", "?anchor = a node of another graph", "!anchor = NULL", "?positive = poison of no graph", "?positive = a node of another graph", "!positive = NULL", "?negative = poison of no graph", "?negative = a node of another graph", "!negative = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "?name = NULL", NULL};

static void call_tp_sym_class_balanced_sigmoid_cross_entropy(int which)
{
    (void)which;
    tp_node *logits_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    tp_node *labels_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : node();
    const char *name_ = which == 10 ? NULL : which == 9 ? "" : which == 8 ? long_text() : which == 7 ? ":/ " : "name";
    got_node(tp_sym_class_balanced_sigmoid_cross_entropy(logits_, labels_, name_));
}
static const char *const cases_tp_sym_class_balanced_sigmoid_cross_entropy[] = {"Ggood arguments", "!logits = poison of no graph", "?logits = a node of another graph", "!logits = NULL", "?labels = poison of no graph", "?labels = a node of another graph", "!labels = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "?name = NULL", NULL};

static void call_tp_relu6(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_relu6(x_));
}
static const char *const cases_tp_relu6[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_hard_swish(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node();
    got_node(tp_hard_swish(x_));
}
static const char *const cases_tp_hard_swish[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", NULL};

static void call_tp_depth_to_space(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_image4();
    int n_ = which == 6 ? -1 : which == 5 ? 0 : which == 4 ? INT_MIN : 2;
    tp_data_format format_ = which == 7 ? (tp_data_format)large_enum : TP_NHWC;
    got_node(tp_depth_to_space(x_, n_, format_));
}
static const char *const cases_tp_depth_to_space[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", "?format = 99", NULL};

static void call_tp_space_to_depth(int which)
{
    (void)which;
    tp_node *x_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_image4();
    int n_ = which == 6 ? -1 : which == 5 ? 0 : which == 4 ? INT_MIN : 2;
    tp_data_format format_ = which == 7 ? (tp_data_format)large_enum : TP_NHWC;
    got_node(tp_space_to_depth(x_, n_, format_));
}
static const char *const cases_tp_space_to_depth[] = {"Ggood arguments", "!x = poison of no graph", "?x = a node of another graph", "!x = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", "?format = 99", NULL};

static void call_tp_compute_gradients(int which)
{
    (void)which;
    tp_node *cost_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_cost();
    tp_node *const *vars_ = which == 5 ? NULL : which == 4 ? list_with_null() : list_variables();
    int n_ = which == 8 ? -1 : which == 7 ? 0 : which == 6 ? INT_MIN : 2;
    tp_grad_var *gvs_ = which == 9 ? NULL : gvs();
    got_node(tp_compute_gradients(cost_, vars_, n_, gvs_));
}
static const char *const cases_tp_compute_gradients[] = {"Ggood arguments", "?cost = poison of no graph", "?cost = a node of another graph", "!cost = NULL", "?vars = a list with a NULL", "!vars = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", "!gvs = NULL", NULL};

static void call_tp_optimizer_new(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const char *name_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    tp_apply_fn apply_gradients_ = NULL;
    void *user_ = scratch;
    got_optimizer(tp_optimizer_new(g_, name_, apply_gradients_, user_));
}
static const char *const cases_tp_optimizer_new[] = {"Ggood arguments", "!g = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", "?apply_gradients = NULL", NULL};

static void call_tp_optimizer_proxy(int which)
{
    (void)which;
    tp_optimizer *inner_ = which == 1 ? NULL : optimizer();
    const char *name_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    tp_apply_fn apply_gradients_ = NULL;
    void *user_ = scratch;
    got_optimizer(tp_optimizer_proxy(inner_, name_, apply_gradients_, user_));
}
static const char *const cases_tp_optimizer_proxy[] = {"Ggood arguments", "!inner = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "?name = NULL", "?apply_gradients = NULL", NULL};

static void call_tp_optimizer_compute_gradients(int which)
{
    (void)which;
    tp_optimizer *o_ = which == 1 ? NULL : optimizer();
    tp_node *cost_ = which == 4 ? NULL : which == 3 ? node_of_another_graph() : which == 2 ? tp_relu(no_node) : node_cost();
    tp_node *const *vars_ = which == 6 ? NULL : which == 5 ? list_with_null() : list_variables();
    int n_ = which == 9 ? -1 : which == 8 ? 0 : which == 7 ? INT_MIN : 2;
    tp_grad_var *gvs_ = which == 10 ? NULL : gvs();
    got_node(tp_optimizer_compute_gradients(o_, cost_, vars_, n_, gvs_));
}
static const char *const cases_tp_optimizer_compute_gradients[] = {"Ggood arguments", "?o = NULL", "?cost = poison of no graph", "?cost = a node of another graph", "!cost = NULL", "?vars = a list with a NULL", "!vars = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", "!gvs = NULL", NULL};

static void call_tp_apply_gradients(int which)
{
    (void)which;
    tp_optimizer *o_ = which == 1 ? NULL : optimizer();
    const tp_grad_var *gvs_ = which == 2 ? NULL : gvs();
    int n_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : 2;
    got_node(tp_apply_gradients(o_, gvs_, n_));
}
static const char *const cases_tp_apply_gradients[] = {"Ggood arguments", "!o = NULL", "!gvs = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_minimize(int which)
{
    (void)which;
    tp_optimizer *o_ = which == 1 ? NULL : optimizer();
    tp_node *cost_ = which == 4 ? NULL : which == 3 ? node_of_another_graph() : which == 2 ? tp_relu(no_node) : node_cost();
    const char *regex_ = which == 8 ? NULL : which == 7 ? "" : which == 6 ? long_text() : which == 5 ? ":/ " : "fc.*/W";
    got_node(tp_minimize(o_, cost_, regex_));
}
static const char *const cases_tp_minimize[] = {"?good arguments", "!o = NULL", "?cost = poison of no graph", "?cost = a node of another graph", "!cost = NULL", "?regex = \":/ \"", "?regex = 300 letters", "?regex = \"\"", "?regex = NULL", NULL};

static void call_tp_apply_gradients_if(int which)
{
    (void)which;
    tp_optimizer *o_ = which == 1 ? NULL : optimizer();
    const tp_grad_var *gvs_ = which == 2 ? NULL : gvs();
    int n_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : 2;
    tp_node *pred_ = which == 8 ? NULL : which == 7 ? node_of_another_graph() : which == 6 ? tp_relu(no_node) : node_pred();
    got_node(tp_apply_gradients_if(o_, gvs_, n_, pred_));
}
static const char *const cases_tp_apply_gradients_if[] = {"Ggood arguments", "!o = NULL", "!gvs = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", "?pred = poison of no graph", "?pred = a node of another graph", "?pred = NULL", NULL};

static void call_tp_optimizer_slot(int which)
{
    (void)which;
    tp_optimizer *o_ = which == 1 ? NULL : optimizer();
    tp_node *var_ = which == 4 ? NULL : which == 3 ? node_of_another_graph() : which == 2 ? tp_relu(no_node) : node_variable();
    const char *slot_ = which == 8 ? NULL : which == 7 ? "" : which == 6 ? long_text() : which == 5 ? ":/ " : "name";
    const char *suffix_ = which == 12 ? NULL : which == 11 ? "" : which == 10 ? long_text() : which == 9 ? ":/ " : "name";
    tp_init init_ = which == 13 ? bad_initial() : tp_init_zeros();
    got_node(tp_optimizer_slot(o_, var_, slot_, suffix_, init_));
}
static const char *const cases_tp_optimizer_slot[] = {"Ggood arguments", "!o = NULL", "?var = poison of no graph", "?var = a node of another graph", "!var = NULL", "?slot = \":/ \"", "?slot = 300 letters", "?slot = \"\"", "!slot = NULL", "?suffix = \":/ \"", "?suffix = 300 letters", "?suffix = \"\"", "?suffix = NULL", "?init = of an unknown kind", NULL};

static void call_tp_optimizer_scalar(int which)
{
    (void)which;
    tp_optimizer *o_ = which == 1 ? NULL : optimizer();
    const char *name_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    float init_ = 0.5f;
    got_node(tp_optimizer_scalar(o_, name_, init_));
}
static const char *const cases_tp_optimizer_scalar[] = {"Ggood arguments", "!o = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", NULL};

static void call_tp_optimizer_read(int which)
{
    (void)which;
    const tp_optimizer *o_ = which == 1 ? NULL : optimizer();
    tp_node *slot_ = which == 4 ? NULL : which == 3 ? node_of_another_graph() : which == 2 ? tp_relu(no_node) : node();
    got_node(tp_optimizer_read(o_, slot_));
}
static const char *const cases_tp_optimizer_read[] = {"Ggood arguments", "!o = NULL", "?slot = poison of no graph", "?slot = a node of another graph", "!slot = NULL", NULL};

static void call_tp_get_slot(int which)
{
    (void)which;
    const tp_optimizer *o_ = which == 1 ? NULL : optimizer();
    const tp_node *var_ = which == 2 ? NULL : node_variable();
    const char *slot_ = which == 6 ? NULL : which == 5 ? "" : which == 4 ? long_text() : which == 3 ? ":/ " : "m";
    (void)tp_get_slot(o_, var_, slot_);
    got_answer();
}
static const char *const cases_tp_get_slot[] = {"Ggood arguments", "!o = NULL", "!var = NULL", "?slot = \":/ \"", "?slot = 300 letters", "?slot = \"\"", "!slot = NULL", NULL};

static void call_tp_get_slot_names(int which)
{
    (void)which;
    const tp_optimizer *o_ = which == 1 ? NULL : optimizer();
    int *n_ = which == 2 ? NULL : ints_out;
    (void)tp_get_slot_names(o_, n_);
    got_answer();
}
static const char *const cases_tp_get_slot_names[] = {"Ggood arguments", "!o = NULL", "!n = NULL", NULL};

static void call_tp_sgd_(int which)
{
    (void)which;
    tp_sgd_desc desc;
    memset(&desc, 0, sizeof desc);
    tp_node *lr_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_scalar();
    const tp_sgd_desc *d_ = which == 4 ? NULL : &desc;
    got_optimizer(tp_sgd_(lr_, d_));
}
static const char *const cases_tp_sgd_[] = {"Ggood arguments", "!lr = poison of no graph", "?lr = a node of another graph", "!lr = NULL", "?d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_momentum_(int which)
{
    (void)which;
    tp_momentum_desc desc;
    memset(&desc, 0, sizeof desc);
    tp_node *lr_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_scalar();
    const tp_momentum_desc *d_ = which == 4 ? NULL : &desc;
    got_optimizer(tp_momentum_(lr_, d_));
}
static const char *const cases_tp_momentum_[] = {"Ggood arguments", "!lr = poison of no graph", "?lr = a node of another graph", "!lr = NULL", "?d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_nesterov_(int which)
{
    (void)which;
    tp_nesterov_desc desc;
    memset(&desc, 0, sizeof desc);
    tp_node *lr_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_scalar();
    const tp_nesterov_desc *d_ = which == 4 ? NULL : &desc;
    got_optimizer(tp_nesterov_(lr_, d_));
}
static const char *const cases_tp_nesterov_[] = {"Ggood arguments", "!lr = poison of no graph", "?lr = a node of another graph", "!lr = NULL", "?d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_adam_(int which)
{
    (void)which;
    tp_adam_desc desc;
    memset(&desc, 0, sizeof desc);
    tp_node *lr_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_scalar();
    const tp_adam_desc *d_ = which == 4 ? NULL : &desc;
    got_optimizer(tp_adam_(lr_, d_));
}
static const char *const cases_tp_adam_[] = {"Ggood arguments", "!lr = poison of no graph", "?lr = a node of another graph", "!lr = NULL", "?d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_adamw_(int which)
{
    (void)which;
    tp_adamw_desc desc;
    memset(&desc, 0, sizeof desc);
    tp_node *lr_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_scalar();
    const tp_adamw_desc *d_ = which == 4 ? NULL : &desc;
    got_optimizer(tp_adamw_(lr_, d_));
}
static const char *const cases_tp_adamw_[] = {"Ggood arguments", "!lr = poison of no graph", "?lr = a node of another graph", "!lr = NULL", "?d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_rmsprop_(int which)
{
    (void)which;
    tp_rmsprop_desc desc;
    memset(&desc, 0, sizeof desc);
    tp_node *lr_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_scalar();
    const tp_rmsprop_desc *d_ = which == 4 ? NULL : &desc;
    got_optimizer(tp_rmsprop_(lr_, d_));
}
static const char *const cases_tp_rmsprop_[] = {"Ggood arguments", "!lr = poison of no graph", "?lr = a node of another graph", "!lr = NULL", "?d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_adagrad_(int which)
{
    (void)which;
    tp_adagrad_desc desc;
    memset(&desc, 0, sizeof desc);
    tp_node *lr_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_scalar();
    const tp_adagrad_desc *d_ = which == 4 ? NULL : &desc;
    got_optimizer(tp_adagrad_(lr_, d_));
}
static const char *const cases_tp_adagrad_[] = {"Ggood arguments", "!lr = poison of no graph", "?lr = a node of another graph", "!lr = NULL", "?d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_adadelta_(int which)
{
    (void)which;
    tp_adadelta_desc desc;
    memset(&desc, 0, sizeof desc);
    tp_node *lr_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_scalar();
    const tp_adadelta_desc *d_ = which == 4 ? NULL : &desc;
    got_optimizer(tp_adadelta_(lr_, d_));
}
static const char *const cases_tp_adadelta_[] = {"Ggood arguments", "!lr = poison of no graph", "?lr = a node of another graph", "!lr = NULL", "?d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_ftrl_(int which)
{
    (void)which;
    tp_ftrl_desc desc;
    memset(&desc, 0, sizeof desc);
    tp_node *lr_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_scalar();
    const tp_ftrl_desc *d_ = which == 4 ? NULL : &desc;
    got_optimizer(tp_ftrl_(lr_, d_));
}
static const char *const cases_tp_ftrl_[] = {"Ggood arguments", "!lr = poison of no graph", "?lr = a node of another graph", "!lr = NULL", "?d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_lamb_(int which)
{
    (void)which;
    tp_lamb_desc desc;
    memset(&desc, 0, sizeof desc);
    tp_node *lr_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_scalar();
    const tp_lamb_desc *d_ = which == 4 ? NULL : &desc;
    got_optimizer(tp_lamb_(lr_, d_));
}
static const char *const cases_tp_lamb_[] = {"Ggood arguments", "!lr = poison of no graph", "?lr = a node of another graph", "!lr = NULL", "?d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_lion_(int which)
{
    (void)which;
    tp_lion_desc desc;
    memset(&desc, 0, sizeof desc);
    tp_node *lr_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_scalar();
    const tp_lion_desc *d_ = which == 4 ? NULL : &desc;
    got_optimizer(tp_lion_(lr_, d_));
}
static const char *const cases_tp_lion_[] = {"Ggood arguments", "!lr = poison of no graph", "?lr = a node of another graph", "!lr = NULL", "?d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_post_process(int which)
{
    (void)which;
    tp_optimizer *opt_ = which == 1 ? NULL : optimizer();
    tp_post_process_fn fn_ = which == 2 ? NULL : post_process;
    void *user_ = scratch;
    got_optimizer(tp_post_process(opt_, fn_, user_));
}
static const char *const cases_tp_post_process[] = {"Ggood arguments", "!opt = NULL", "?fn = NULL", NULL};

static void call_tp_variable_assignment(int which)
{
    (void)which;
    tp_optimizer *opt_ = which == 1 ? NULL : optimizer();
    tp_assignment_fn fn_ = which == 2 ? NULL : assignment;
    void *user_ = scratch;
    got_optimizer(tp_variable_assignment(opt_, fn_, user_));
}
static const char *const cases_tp_variable_assignment[] = {"Ggood arguments", "!opt = NULL", "?fn = NULL", NULL};

static void call_tp_multi_optimizer(int which)
{
    (void)which;
    const tp_optimizer_part *parts_ = which == 1 ? NULL : parts_of_an_optimizer();
    int n_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT_MIN : 2;
    got_optimizer(tp_multi_optimizer(parts_, n_));
}
static const char *const cases_tp_multi_optimizer[] = {"Ggood arguments", "!parts = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_accum_grad(int which)
{
    (void)which;
    tp_optimizer *opt_ = which == 1 ? NULL : optimizer();
    int niter_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : which == 2 ? INT_MAX : 2;
    got_optimizer(tp_accum_grad(opt_, niter_));
}
static const char *const cases_tp_accum_grad[] = {"Ggood arguments", "!opt = NULL", "?niter = INT_MAX", "?niter = INT_MIN", "?niter = 0", "?niter = -1", NULL};

static void call_tp_loss_scale_(int which)
{
    (void)which;
    tp_loss_scale_desc desc;
    memset(&desc, 0, sizeof desc);
    tp_optimizer *opt_ = which == 1 ? NULL : optimizer();
    const tp_loss_scale_desc *d_ = which == 2 ? NULL : &desc;
    got_optimizer(tp_loss_scale_(opt_, d_));
}
static const char *const cases_tp_loss_scale_[] = {"Ggood arguments", "!opt = NULL", "?d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_gradproc_filter_none(int which)
{
    (void)which;
    (void)tp_gradproc_filter_none();
    got_answer();
}
static const char *const cases_tp_gradproc_filter_none[] = {"Ggood arguments", NULL};

static void call_tp_gradproc_global_norm_clip(int which)
{
    (void)which;
    float norm_ = 0.5f;
    (void)tp_gradproc_global_norm_clip(norm_);
    got_answer();
}
static const char *const cases_tp_gradproc_global_norm_clip[] = {"Ggood arguments", NULL};

static void call_tp_gradproc_scale(int which)
{
    (void)which;
    const char *regex_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : "fc.*/W";
    float multiplier_ = 0.5f;
    (void)tp_gradproc_scale(regex_, multiplier_);
    got_answer();
}
static const char *const cases_tp_gradproc_scale[] = {"Ggood arguments", "?regex = \":/ \"", "?regex = 300 letters", "?regex = \"\"", "?regex = NULL", NULL};

static void call_tp_gradproc_scale_rules(int which)
{
    (void)which;
    const tp_grad_rule *rules_ = which == 1 ? NULL : &a_rule;
    int n_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT_MIN : 2;
    (void)tp_gradproc_scale_rules(rules_, n_);
    got_answer();
}
static const char *const cases_tp_gradproc_scale_rules[] = {"Ggood arguments", "?rules = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_gradproc_map(int which)
{
    (void)which;
    tp_node *(*fn_)(tp_node *grad, tp_node *var, void *user) = which == 1 ? NULL : map_gradient;
    void *user_ = scratch;
    const char *regex_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "fc.*/W";
    (void)tp_gradproc_map(fn_, user_, regex_);
    got_answer();
}
static const char *const cases_tp_gradproc_map[] = {"Ggood arguments", "?fn = NULL", "?regex = \":/ \"", "?regex = 300 letters", "?regex = \"\"", "?regex = NULL", NULL};

static void call_tp_gradproc_summary(int which)
{
    (void)which;
    const char *regex_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : "fc.*/W";
    (void)tp_gradproc_summary(regex_);
    got_answer();
}
static const char *const cases_tp_gradproc_summary[] = {"Ggood arguments", "?regex = \":/ \"", "?regex = 300 letters", "?regex = \"\"", "?regex = NULL", NULL};

static void call_tp_gradproc_summary_to(int which)
{
    (void)which;
    const char *regex_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : "fc.*/W";
    const char *const *collections_ = which == 5 ? NULL : names;
    (void)tp_gradproc_summary_to(regex_, collections_);
    got_answer();
}
static const char *const cases_tp_gradproc_summary_to[] = {"Ggood arguments", "?regex = \":/ \"", "?regex = 300 letters", "?regex = \"\"", "!regex = NULL", "!collections = NULL", NULL};

static void call_tp_gradproc_print(int which)
{
    (void)which;
    const char *regex_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : "fc.*/W";
    (void)tp_gradproc_print(regex_);
    got_answer();
}
static const char *const cases_tp_gradproc_print[] = {"Ggood arguments", "?regex = \":/ \"", "?regex = 300 letters", "?regex = \"\"", "?regex = NULL", NULL};

static void call_tp_gradproc_check(int which)
{
    (void)which;
    (void)tp_gradproc_check();
    got_answer();
}
static const char *const cases_tp_gradproc_check[] = {"Ggood arguments", NULL};

static void call_tp_gradproc_at(int which)
{
    (void)which;
    tp_gradproc p_ = tp_gradproc_check();
    tp_at at_ = here;
    (void)tp_gradproc_at(p_, at_);
    got_answer();
}
static const char *const cases_tp_gradproc_at[] = {"Ggood arguments", NULL};

static void call_tp_gradproc_run(int which)
{
    (void)which;
    const tp_gradproc *p_ = which == 1 ? NULL : gradprocs();
    tp_graph *g_ = which == 2 ? NULL : graph();
    tp_grad_var *gvs_ = which == 3 ? NULL : gvs();
    int n_ = which == 6 ? -1 : which == 5 ? 0 : which == 4 ? INT_MIN : 2;
    (void)tp_gradproc_run(p_, g_, gvs_, n_);
    got_answer();
}
static const char *const cases_tp_gradproc_run[] = {"Ggood arguments", "!p = NULL", "!g = NULL", "!gvs = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_apply_grad_processors(int which)
{
    (void)which;
    tp_optimizer *opt_ = which == 1 ? NULL : optimizer();
    const tp_gradproc *procs_ = which == 2 ? NULL : gradprocs();
    int n_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : 2;
    got_optimizer(tp_apply_grad_processors(opt_, procs_, n_));
}
static const char *const cases_tp_apply_grad_processors[] = {"Ggood arguments", "!opt = NULL", "!procs = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_increment_global_step(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    got_node(tp_increment_global_step(g_));
}
static const char *const cases_tp_increment_global_step[] = {"Ggood arguments", "!g = NULL", NULL};

static void call_tp_exponential_decay(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    float lr_ = 0.1f;
    tp_node *step_ = which == 4 ? NULL : which == 3 ? node_of_another_graph() : which == 2 ? tp_relu(no_node) : NULL;
    int64_t decay_steps_ = which == 7 ? -1 : which == 6 ? 0 : which == 5 ? INT64_MIN : 10;
    float rate_ = 0.5f;
    bool staircase_ = true;
    got_node(tp_exponential_decay(g_, lr_, step_, decay_steps_, rate_, staircase_));
}
static const char *const cases_tp_exponential_decay[] = {"Ggood arguments", "!g = NULL", "?step = poison of no graph", "?step = a node of another graph", "?step = NULL", "?decay_steps = INT64_MIN", "?decay_steps = 0", "?decay_steps = -1", NULL};

static void call_tp_cosine_decay(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    float lr_ = 0.1f;
    tp_node *step_ = which == 4 ? NULL : which == 3 ? node_of_another_graph() : which == 2 ? tp_relu(no_node) : NULL;
    int64_t decay_steps_ = which == 7 ? -1 : which == 6 ? 0 : which == 5 ? INT64_MIN : 10;
    float alpha_ = 0.5f;
    got_node(tp_cosine_decay(g_, lr_, step_, decay_steps_, alpha_));
}
static const char *const cases_tp_cosine_decay[] = {"Ggood arguments", "!g = NULL", "?step = poison of no graph", "?step = a node of another graph", "?step = NULL", "?decay_steps = INT64_MIN", "?decay_steps = 0", "?decay_steps = -1", NULL};

static void call_tp_warm_up(int which)
{
    (void)which;
    tp_node *lr_ = which == 3 ? NULL : which == 2 ? node_of_another_graph() : which == 1 ? tp_relu(no_node) : node_scalar();
    tp_node *step_ = which == 6 ? NULL : which == 5 ? node_of_another_graph() : which == 4 ? tp_relu(no_node) : NULL;
    int64_t steps_ = which == 9 ? -1 : which == 8 ? 0 : which == 7 ? INT64_MIN : 2;
    float start_ = 0.5f;
    got_node(tp_warm_up(lr_, step_, steps_, start_));
}
static const char *const cases_tp_warm_up[] = {"Ggood arguments", "!lr = poison of no graph", "?lr = a node of another graph", "!lr = NULL", "?step = poison of no graph", "?step = a node of another graph", "?step = NULL", "?steps = INT64_MIN", "?steps = 0", "?steps = -1", NULL};

static void call_tp_piecewise_constant(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    tp_node *step_ = which == 4 ? NULL : which == 3 ? node_of_another_graph() : which == 2 ? tp_relu(no_node) : NULL;
    const int64_t *boundaries_ = which == 5 ? NULL : int64s_rising();
    const float *values_ = which == 6 ? NULL : floats;
    int n_ = which == 9 ? -1 : which == 8 ? 0 : which == 7 ? INT_MIN : 1;
    got_node(tp_piecewise_constant(g_, step_, boundaries_, values_, n_));
}
static const char *const cases_tp_piecewise_constant[] = {"Ggood arguments", "!g = NULL", "?step = poison of no graph", "?step = a node of another graph", "?step = NULL", "!boundaries = NULL", "!values = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_datapoint_resize(int which)
{
    (void)which;
    tp_datapoint *dp_ = which == 1 ? NULL : datapoint();
    int n_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT_MIN : 2;
    got_status(tp_datapoint_resize(dp_, n_));
}
static const char *const cases_tp_datapoint_resize[] = {"Ggood arguments", "!dp = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_datapoint_view(int which)
{
    (void)which;
    tp_datapoint *dp_ = which == 1 ? NULL : datapoint();
    const tp_datapoint *of_ = which == 2 ? NULL : datapoint();
    got_status(tp_datapoint_view(dp_, of_));
}
static const char *const cases_tp_datapoint_view[] = {"Ggood arguments", "!dp = NULL", "!of = NULL", NULL};

static void call_tp_datapoint_copy(int which)
{
    (void)which;
    tp_datapoint *dp_ = which == 1 ? NULL : datapoint();
    const tp_datapoint *of_ = which == 2 ? NULL : datapoint();
    got_status(tp_datapoint_copy(dp_, of_));
}
static const char *const cases_tp_datapoint_copy[] = {"Ggood arguments", "!dp = NULL", "!of = NULL", NULL};

static void call_tp_datapoint_free(int which)
{
    (void)which;
    tp_datapoint *dp_ = which == 1 ? NULL : datapoint();
    tp_datapoint_free(dp_);
    got_nothing();
}
static const char *const cases_tp_datapoint_free[] = {"Ggood arguments", "?dp = NULL", NULL};

static void call_tp_datapoint_set_bytes(int which)
{
    (void)which;
    tp_datapoint *dp_ = which == 1 ? NULL : datapoint();
    int index_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : which == 2 ? INT_MAX : 2;
    const void *data_ = which == 6 ? NULL : bytes;
    size_t n_ = 4;
    got_status(tp_datapoint_set_bytes(dp_, index_, data_, n_));
}
static const char *const cases_tp_datapoint_set_bytes[] = {"Ggood arguments", "!dp = NULL", "?index = INT_MAX", "?index = INT_MIN", "?index = 0", "?index = -1", "!data = NULL", NULL};

static void call_tp_datapoint_set_text(int which)
{
    (void)which;
    tp_datapoint *dp_ = which == 1 ? NULL : datapoint();
    int index_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : which == 2 ? INT_MAX : 2;
    const char *text_ = which == 9 ? NULL : which == 8 ? "" : which == 7 ? long_text() : which == 6 ? ":/ " : "name";
    got_status(tp_datapoint_set_text(dp_, index_, text_));
}
static const char *const cases_tp_datapoint_set_text[] = {"Ggood arguments", "!dp = NULL", "?index = INT_MAX", "?index = INT_MIN", "?index = 0", "?index = -1", "?text = \":/ \"", "?text = 300 letters", "?text = \"\"", "!text = NULL", NULL};

static void call_tp_datapoint_text(int which)
{
    (void)which;
    tp_datapoint *dp_ = which == 1 ? NULL : datapoint();
    int index_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : which == 2 ? INT_MAX : 2;
    (void)tp_datapoint_text(dp_, index_);
    got_answer();
}
static const char *const cases_tp_datapoint_text[] = {"Ggood arguments", "!dp = NULL", "?index = INT_MAX", "?index = INT_MIN", "?index = 0", "?index = -1", NULL};

static void call_tp_df_next(int which)
{
    (void)which;
    tp_dataflow *df_ = which == 1 ? NULL : dataflow();
    tp_datapoint *dp_ = which == 2 ? NULL : datapoint();
    got_status(tp_df_next(df_, dp_));
}
static const char *const cases_tp_df_next[] = {"Ggood arguments", "!df = NULL", "!dp = NULL", NULL};

static void call_tp_df_restart(int which)
{
    (void)which;
    tp_dataflow *df_ = which == 1 ? NULL : dataflow();
    int64_t pass_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT64_MIN : 2;
    got_status(tp_df_restart(df_, pass_));
}
static const char *const cases_tp_df_restart[] = {"Ggood arguments", "!df = NULL", "?pass = INT64_MIN", "?pass = 0", "?pass = -1", NULL};

static void call_tp_df_size(int which)
{
    (void)which;
    tp_dataflow *df_ = which == 1 ? NULL : dataflow();
    (void)tp_df_size(df_);
    got_answer();
}
static const char *const cases_tp_df_size[] = {"Ggood arguments", "!df = NULL", NULL};

static void call_tp_df_seek(int which)
{
    (void)which;
    tp_dataflow *df_ = which == 1 ? NULL : dataflow();
    int64_t n_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT64_MIN : 2;
    int64_t *skipped_ = which == 5 ? NULL : int64s_out;
    got_status(tp_df_seek(df_, n_, skipped_));
}
static const char *const cases_tp_df_seek[] = {"Ggood arguments", "!df = NULL", "?n = INT64_MIN", "?n = 0", "?n = -1", "?skipped = NULL", NULL};

static void call_tp_df_free(int which)
{
    (void)which;
    tp_dataflow *df_ = which == 1 ? NULL : dataflow_given();
    tp_df_free(df_);
    got_nothing();
}
static const char *const cases_tp_df_free[] = {"Ggood arguments", "?df = NULL", NULL};

static void call_tp_df_status(int which)
{
    (void)which;
    const tp_dataflow *df_ = which == 1 ? NULL : dataflow();
    got_status(tp_df_status(df_));
}
static const char *const cases_tp_df_status[] = {"Ggood arguments", "!df = NULL", NULL};

static void call_tp_df_fail(int which)
{
    (void)which;
    const tp_at *at_ = which == 1 ? NULL : &here;
    tp_status status_ = TP_ERR;
    const char *fmt_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : no_format;
    got_dataflow(tp_df_fail(at_, status_, fmt_));
}
static const char *const cases_tp_df_fail[] = {"?good arguments", "?at = NULL", "?fmt = \":/ \"", "?fmt = 300 letters", "?fmt = \"\"", "?fmt = NULL", NULL};

static void call_tp_df_new(int which)
{
    (void)which;
    const char *name_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : "mine";
    size_t bytes_ = 8;
    uint64_t seed_ = 3;
    got_dataflow(tp_df_new(name_, bytes_, seed_));
}
static const char *const cases_tp_df_new[] = {"Ggood arguments", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", NULL};

static void call_tp_df_stopping(int which)
{
    (void)which;
    (void)tp_df_stopping();
    got_answer();
}
static const char *const cases_tp_df_stopping[] = {"Ggood arguments", NULL};

static void call_tp_df_test_speed(int which)
{
    (void)which;
    tp_dataflow *df_ = which == 1 ? NULL : dataflow();
    int64_t n_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT64_MIN : 2;
    int64_t warmup_ = which == 7 ? -1 : which == 6 ? 0 : which == 5 ? INT64_MIN : 1;
    double *per_second_ = which == 8 ? NULL : doubles;
    got_status(tp_df_test_speed(df_, n_, warmup_, per_second_));
}
static const char *const cases_tp_df_test_speed[] = {"Ggood arguments", "!df = NULL", "?n = INT64_MIN", "?n = 0", "?n = -1", "?warmup = INT64_MIN", "?warmup = 0", "?warmup = -1", "?per_second = NULL", NULL};

static void call_tp_df_from_list_(int which)
{
    (void)which;
    tp_df_from_list_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.points = datapoint(), desc.n = 1;
    const tp_df_from_list_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_from_list_(d_));
}
static const char *const cases_tp_df_from_list_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_from_arrays_(int which)
{
    (void)which;
    tp_df_from_arrays_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.arrays = a_tensor24(), desc.n = 1;
    const tp_df_from_arrays_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_from_arrays_(d_));
}
static const char *const cases_tp_df_from_arrays_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_from_generator_(int which)
{
    (void)which;
    tp_df_from_generator_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.fn = generate;
    const tp_df_from_generator_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_from_generator_(d_));
}
static const char *const cases_tp_df_from_generator_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_fake_(int which)
{
    (void)which;
    tp_df_fake_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.specs = a_known_spec(), desc.n = 1;
    const tp_df_fake_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_fake_(d_));
}
static const char *const cases_tp_df_fake_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_mnist_(int which)
{
    (void)which;
    tp_df_mnist_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.which = "train", desc.dir = data_dir();
    const tp_df_mnist_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_mnist_(d_));
}
static const char *const cases_tp_df_mnist_[] = {"?good arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_digits_(int which)
{
    (void)which;
    tp_df_digits_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.which = "train", desc.size = 4;
    const tp_df_digits_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_digits_(d_));
}
static const char *const cases_tp_df_digits_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_idx_(int which)
{
    (void)which;
    tp_df_idx_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.paths = data_files("train-images-idx3-ubyte"), desc.n = 1;
    const tp_df_idx_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_idx_(d_));
}
static const char *const cases_tp_df_idx_[] = {"?good arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_batch_(int which)
{
    (void)which;
    tp_df_batch_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.df = dataflow_given(), desc.batch_size = 2;
    const tp_df_batch_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_batch_(d_));
}
static const char *const cases_tp_df_batch_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_map_(int which)
{
    (void)which;
    tp_df_map_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.df = dataflow_given(), desc.fn = map_nothing;
    const tp_df_map_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_map_(d_));
}
static const char *const cases_tp_df_map_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_map_component_(int which)
{
    (void)which;
    tp_df_map_component_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.df = dataflow_given(), desc.fn = map_component;
    const tp_df_map_component_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_map_component_(d_));
}
static const char *const cases_tp_df_map_component_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_cast(int which)
{
    (void)which;
    tp_dataflow *df_ = which == 1 ? NULL : dataflow_given();
    int index_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : which == 2 ? INT_MAX : 0;
    tp_dtype dtype_ = which == 8 ? TP_DTYPE_UNSET : which == 7 ? (tp_dtype)bad_enum : which == 6 ? (tp_dtype)large_enum : TP_F32;
    double scale_ = 0.5;
    got_dataflow(tp_df_cast(df_, index_, dtype_, scale_));
}
static const char *const cases_tp_df_cast[] = {"Ggood arguments", "!df = NULL", "?index = INT_MAX", "?index = INT_MIN", "?index = 0", "?index = -1", "?dtype = 99", "?dtype = -1", "?dtype = 0", NULL};

static void call_tp_df_repeated(int which)
{
    (void)which;
    tp_dataflow *df_ = which == 1 ? NULL : dataflow_given();
    int64_t num_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT64_MIN : 2;
    got_dataflow(tp_df_repeated(df_, num_));
}
static const char *const cases_tp_df_repeated[] = {"Ggood arguments", "!df = NULL", "?num = INT64_MIN", "?num = 0", "?num = -1", NULL};

static void call_tp_df_take(int which)
{
    (void)which;
    tp_dataflow *df_ = which == 1 ? NULL : dataflow_given();
    int64_t n_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT64_MIN : 2;
    got_dataflow(tp_df_take(df_, n_));
}
static const char *const cases_tp_df_take[] = {"Ggood arguments", "!df = NULL", "?n = INT64_MIN", "?n = 0", "?n = -1", NULL};

static void call_tp_df_shard(int which)
{
    (void)which;
    tp_dataflow *df_ = which == 1 ? NULL : dataflow_given();
    int rank_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : which == 2 ? INT_MAX : 0;
    int n_ranks_ = which == 9 ? -1 : which == 8 ? 0 : which == 7 ? INT_MIN : which == 6 ? INT_MAX : 2;
    got_dataflow(tp_df_shard(df_, rank_, n_ranks_));
}
static const char *const cases_tp_df_shard[] = {"Ggood arguments", "!df = NULL", "?rank = INT_MAX", "?rank = INT_MIN", "?rank = 0", "?rank = -1", "?n_ranks = INT_MAX", "?n_ranks = INT_MIN", "?n_ranks = 0", "?n_ranks = -1", NULL};

static void call_tp_df_fixed_size_(int which)
{
    (void)which;
    tp_df_fixed_size_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.df = dataflow_given(), desc.size = 2;
    const tp_df_fixed_size_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_fixed_size_(d_));
}
static const char *const cases_tp_df_fixed_size_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_locally_shuffle_(int which)
{
    (void)which;
    tp_df_locally_shuffle_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.df = dataflow_given(), desc.buffer_size = 2;
    const tp_df_locally_shuffle_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_locally_shuffle_(d_));
}
static const char *const cases_tp_df_locally_shuffle_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_select(int which)
{
    (void)which;
    tp_dataflow *df_ = which == 1 ? NULL : dataflow_given();
    const int *indices_ = which == 2 ? NULL : ints_zero();
    int n_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : 1;
    got_dataflow(tp_df_select(df_, indices_, n_));
}
static const char *const cases_tp_df_select[] = {"Ggood arguments", "!df = NULL", "!indices = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_df_concat(int which)
{
    (void)which;
    tp_dataflow *const *dfs_ = which == 1 ? NULL : (which == 2 || which == 3 || which == 4) ? NULL : list_dataflows_given();
    int n_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT_MIN : 2;
    got_dataflow(tp_df_concat(dfs_, n_));
}
static const char *const cases_tp_df_concat[] = {"Ggood arguments", "!dfs = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_df_join(int which)
{
    (void)which;
    tp_dataflow *const *dfs_ = which == 1 ? NULL : (which == 2 || which == 3 || which == 4) ? NULL : list_dataflows_given();
    int n_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT_MIN : 2;
    got_dataflow(tp_df_join(dfs_, n_));
}
static const char *const cases_tp_df_join[] = {"Ggood arguments", "!dfs = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_df_zip(int which)
{
    (void)which;
    tp_dataflow *const *dfs_ = which == 1 ? NULL : (which == 2 || which == 3 || which == 4) ? NULL : list_dataflows_given();
    int n_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT_MIN : 2;
    got_dataflow(tp_df_zip(dfs_, n_));
}
static const char *const cases_tp_df_zip[] = {"Ggood arguments", "!dfs = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_df_print(int which)
{
    (void)which;
    tp_dataflow *df_ = which == 1 ? NULL : dataflow_given();
    int num_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT_MIN : 2;
    const char *name_ = which == 8 ? NULL : which == 7 ? "" : which == 6 ? long_text() : which == 5 ? ":/ " : "name";
    got_dataflow(tp_df_print(df_, num_, name_));
}
static const char *const cases_tp_df_print[] = {"Ggood arguments", "!df = NULL", "?num = INT_MIN", "?num = 0", "?num = -1", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "?name = NULL", NULL};

static void call_tp_df_filter_(int which)
{
    (void)which;
    tp_df_filter_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.df = dataflow_given();
    const tp_df_filter_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_filter_(d_));
}
static const char *const cases_tp_df_filter_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_repeated_point(int which)
{
    (void)which;
    tp_dataflow *df_ = which == 1 ? NULL : dataflow_given();
    int64_t num_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT64_MIN : 2;
    got_dataflow(tp_df_repeated_point(df_, num_));
}
static const char *const cases_tp_df_repeated_point[] = {"Ggood arguments", "!df = NULL", "?num = INT64_MIN", "?num = 0", "?num = -1", NULL};

static void call_tp_df_random_choose_(int which)
{
    (void)which;
    tp_df_random_choose_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.dfs = list_dataflows_given(), desc.n = 2;
    const tp_df_random_choose_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_random_choose_(d_));
}
static const char *const cases_tp_df_random_choose_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_random_mix_(int which)
{
    (void)which;
    tp_df_random_mix_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.dfs = list_dataflows_given(), desc.n = 2;
    const tp_df_random_mix_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_random_mix_(d_));
}
static const char *const cases_tp_df_random_mix_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_cache_(int which)
{
    (void)which;
    tp_df_cache_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.df = dataflow_given();
    const tp_df_cache_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_cache_(d_));
}
static const char *const cases_tp_df_cache_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_batch_by_shape_(int which)
{
    (void)which;
    tp_df_batch_by_shape_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.df = dataflow_given(), desc.batch_size = 2;
    const tp_df_batch_by_shape_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_batch_by_shape_(d_));
}
static const char *const cases_tp_df_batch_by_shape_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_prefetch_(int which)
{
    (void)which;
    tp_df_prefetch_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.df = dataflow_given();
    const tp_df_prefetch_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_prefetch_(d_));
}
static const char *const cases_tp_df_prefetch_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_parallel_map_(int which)
{
    (void)which;
    tp_df_parallel_map_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.df = dataflow_given(), desc.fn = map_nothing;
    const tp_df_parallel_map_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_parallel_map_(d_));
}
static const char *const cases_tp_df_parallel_map_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_multi_thread_(int which)
{
    (void)which;
    tp_df_multi_thread_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.get_df = dataflow_of_thread, desc.num_thread = 2;
    const tp_df_multi_thread_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_multi_thread_(d_));
}
static const char *const cases_tp_df_multi_thread_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_multi_process_(int which)
{
    (void)which;
    tp_df_multi_process_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.df = dataflow_given(), desc.num_proc = 2;
    const tp_df_multi_process_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_multi_process_(d_));
}
static const char *const cases_tp_df_multi_process_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_cifar10_(int which)
{
    (void)which;
    tp_df_cifar10_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.which = "test", desc.dir = data_dir();
    const tp_df_cifar10_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_cifar10_(d_));
}
static const char *const cases_tp_df_cifar10_[] = {"?good arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_cifar100_(int which)
{
    (void)which;
    tp_df_cifar100_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.which = "test", desc.dir = data_dir();
    const tp_df_cifar100_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_cifar100_(d_));
}
static const char *const cases_tp_df_cifar100_[] = {"?good arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_svhn_digit_(int which)
{
    (void)which;
    tp_df_svhn_digit_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.which = "test", desc.dir = data_dir();
    const tp_df_svhn_digit_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_svhn_digit_(d_));
}
static const char *const cases_tp_df_svhn_digit_[] = {"?good arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_per_pixel_mean(int which)
{
    (void)which;
    tp_dataflow *df_ = which == 1 ? NULL : dataflow();
    int index_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : which == 2 ? INT_MAX : 0;
    tp_tensor *mean_ = which == 6 ? NULL : tensor_out();
    got_status(tp_df_per_pixel_mean(df_, index_, mean_));
}
static const char *const cases_tp_df_per_pixel_mean[] = {"Ggood arguments", "!df = NULL", "?index = INT_MAX", "?index = INT_MIN", "?index = 0", "?index = -1", "!mean = NULL", NULL};

static void call_tp_df_per_channel_mean(int which)
{
    (void)which;
    tp_dataflow *df_ = which == 1 ? NULL : dataflow();
    int index_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : which == 2 ? INT_MAX : 0;
    tp_tensor *mean_ = which == 6 ? NULL : tensor_out();
    got_status(tp_df_per_channel_mean(df_, index_, mean_));
}
static const char *const cases_tp_df_per_channel_mean[] = {"Ggood arguments", "!df = NULL", "?index = INT_MAX", "?index = INT_MIN", "?index = 0", "?index = -1", "!mean = NULL", NULL};

static void call_tp_df_npz_(int which)
{
    (void)which;
    tp_df_npz_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.path = a_checkpoint();
    const tp_df_npz_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_npz_(d_));
}
static const char *const cases_tp_df_npz_[] = {"?good arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_tfrecord_append(int which)
{
    (void)which;
    tp_buf *out_ = which == 1 ? NULL : buf();
    const void *data_ = bytes;
    size_t size_ = 4;
    tp_tfrecord_append(out_, data_, size_);
    got_nothing();
}
static const char *const cases_tp_tfrecord_append[] = {"Ggood arguments", "!out = NULL", NULL};

static void call_tp_tfrecord_put(int which)
{
    (void)which;
    tp_writer *w_ = which == 1 ? NULL : writer();
    const void *data_ = bytes;
    size_t size_ = 4;
    got_status(tp_tfrecord_put(w_, data_, size_));
}
static const char *const cases_tp_tfrecord_put[] = {"Ggood arguments", "!w = NULL", NULL};

static void call_tp_tfrecord_open(int which)
{
    (void)which;
    tp_tfrecord_reader **r_ = which == 1 ? NULL : &record_reader_out;
    const char *path_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : a_tfrecord();
    got_status(tp_tfrecord_open(r_, path_));
}
static const char *const cases_tp_tfrecord_open[] = {"Ggood arguments", "!r = NULL", "?path = \":/ \"", "?path = 300 letters", "?path = \"\"", "!path = NULL", NULL};

static void call_tp_tfrecord_next(int which)
{
    (void)which;
    tp_tfrecord_reader *r_ = which == 1 ? NULL : record_reader();
    const void **data_ = which == 2 ? NULL : &data_out;
    size_t *size_ = which == 3 ? NULL : sizes_out;
    got_status(tp_tfrecord_next(r_, data_, size_));
}
static const char *const cases_tp_tfrecord_next[] = {"Ggood arguments", "!r = NULL", "!data = NULL", "!size = NULL", NULL};

static void call_tp_tfrecord_close(int which)
{
    (void)which;
    tp_tfrecord_reader *r_ = which == 1 ? NULL : record_reader_given();
    tp_tfrecord_close(r_);
    got_nothing();
}
static const char *const cases_tp_tfrecord_close[] = {"Ggood arguments", "?r = NULL", NULL};

static void call_tp_example_write(int which)
{
    (void)which;
    const tp_datapoint *dp_ = which == 1 ? NULL : datapoint();
    const char *const *names_ = which == 2 ? NULL : names;
    tp_buf *out_ = which == 3 ? NULL : buf();
    got_status(tp_example_write(dp_, names_, out_));
}
static const char *const cases_tp_example_write[] = {"Ggood arguments", "!dp = NULL", "!names = NULL", "!out = NULL", NULL};

static void call_tp_example_parse(int which)
{
    (void)which;
    const void *data_ = which == 1 ? NULL : bytes;
    size_t size_ = 4;
    const char *what_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    const tp_spec *features_ = which == 6 ? NULL : a_spec();
    int n_ = which == 9 ? -1 : which == 8 ? 0 : which == 7 ? INT_MIN : 2;
    tp_datapoint *dp_ = which == 10 ? NULL : datapoint();
    got_status(tp_example_parse(data_, size_, what_, features_, n_, dp_));
}
static const char *const cases_tp_example_parse[] = {"?good arguments", "!data = NULL", "?what = \":/ \"", "?what = 300 letters", "?what = \"\"", "!what = NULL", "!features = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", "!dp = NULL", NULL};

static void call_tp_df_tfrecord_(int which)
{
    (void)which;
    tp_df_tfrecord_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.paths = records_files(), desc.n = 1;
    const tp_df_tfrecord_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_tfrecord_(d_));
}
static const char *const cases_tp_df_tfrecord_[] = {"?good arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_save_tfrecord(int which)
{
    (void)which;
    tp_dataflow *df_ = which == 1 ? NULL : dataflow();
    const char *path_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : a_path("x.npz");
    const char *const *names_ = which == 6 ? NULL : names;
    int n_ = which == 9 ? -1 : which == 8 ? 0 : which == 7 ? INT_MIN : 1;
    got_status(tp_df_save_tfrecord(df_, path_, names_, n_));
}
static const char *const cases_tp_df_save_tfrecord[] = {"Ggood arguments", "!df = NULL", "?path = \":/ \"", "?path = 300 letters", "?path = \"\"", "!path = NULL", "!names = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_df_csv_(int which)
{
    (void)which;
    tp_df_csv_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.path = a_text(), desc.columns = &a_column, desc.n = 1;
    const tp_df_csv_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_csv_(d_));
}
static const char *const cases_tp_df_csv_[] = {"?good arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_vocabulary_chars(int which)
{
    (void)which;
    tp_vocabulary *v_ = which == 1 ? NULL : vocabulary();
    const char *path_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : a_text();
    got_status(tp_vocabulary_chars(v_, path_));
}
static const char *const cases_tp_vocabulary_chars[] = {"Ggood arguments", "!v = NULL", "?path = \":/ \"", "?path = 300 letters", "?path = \"\"", "!path = NULL", NULL};

static void call_tp_vocabulary_words(int which)
{
    (void)which;
    tp_vocabulary *v_ = which == 1 ? NULL : vocabulary();
    const char *path_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : a_text();
    int64_t min_count_ = which == 8 ? -1 : which == 7 ? 0 : which == 6 ? INT64_MIN : 2;
    int max_words_ = which == 12 ? -1 : which == 11 ? 0 : which == 10 ? INT_MIN : which == 9 ? INT_MAX : 3;
    got_status(tp_vocabulary_words(v_, path_, min_count_, max_words_));
}
static const char *const cases_tp_vocabulary_words[] = {"Ggood arguments", "!v = NULL", "?path = \":/ \"", "?path = 300 letters", "?path = \"\"", "!path = NULL", "?min_count = INT64_MIN", "?min_count = 0", "?min_count = -1", "?max_words = INT_MAX", "?max_words = INT_MIN", "?max_words = 0", "?max_words = -1", NULL};

static void call_tp_vocabulary_from_list(int which)
{
    (void)which;
    tp_vocabulary *v_ = which == 1 ? NULL : vocabulary();
    const char *const *words_ = which == 2 ? NULL : names;
    int n_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : 2;
    got_status(tp_vocabulary_from_list(v_, words_, n_));
}
static const char *const cases_tp_vocabulary_from_list[] = {"Ggood arguments", "!v = NULL", "!words = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_vocabulary_save(int which)
{
    (void)which;
    const tp_vocabulary *v_ = which == 1 ? NULL : vocabulary();
    const char *path_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : a_path("words.txt");
    got_status(tp_vocabulary_save(v_, path_));
}
static const char *const cases_tp_vocabulary_save[] = {"Ggood arguments", "!v = NULL", "?path = \":/ \"", "?path = 300 letters", "?path = \"\"", "!path = NULL", NULL};

static void call_tp_vocabulary_load(int which)
{
    (void)which;
    tp_vocabulary *v_ = which == 1 ? NULL : vocabulary();
    const char *path_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : a_text();
    got_status(tp_vocabulary_load(v_, path_));
}
static const char *const cases_tp_vocabulary_load[] = {"Ggood arguments", "!v = NULL", "?path = \":/ \"", "?path = 300 letters", "?path = \"\"", "!path = NULL", NULL};

static void call_tp_vocabulary_find(int which)
{
    (void)which;
    const tp_vocabulary *v_ = which == 1 ? NULL : vocabulary();
    const char *word_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    size_t size_ = word_ ? strlen(word_) : 4;
    (void)tp_vocabulary_find(v_, word_, size_);
    got_answer();
}
static const char *const cases_tp_vocabulary_find[] = {"Ggood arguments", "!v = NULL", "?word = \":/ \"", "?word = 300 letters", "?word = \"\"", "!word = NULL", NULL};

static void call_tp_vocabulary_free(int which)
{
    (void)which;
    tp_vocabulary *v_ = which == 1 ? NULL : vocabulary();
    tp_vocabulary_free(v_);
    got_nothing();
}
static const char *const cases_tp_vocabulary_free[] = {"Ggood arguments", "?v = NULL", NULL};

static void call_tp_df_text_chars_(int which)
{
    (void)which;
    tp_df_text_chars_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.path = a_text(), desc.sequence_length = 2;
    const tp_df_text_chars_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_text_chars_(d_));
}
static const char *const cases_tp_df_text_chars_[] = {"?good arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_text_words_(int which)
{
    (void)which;
    tp_df_text_words_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.path = a_text(), desc.batch_size = 1, desc.sequence_length = 2;
    const tp_df_text_words_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_text_words_(d_));
}
static const char *const cases_tp_df_text_words_[] = {"?good arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_image_decode(int which)
{
    (void)which;
    const void *data_ = which == 1 ? NULL : bytes;
    size_t size_ = 4;
    int channels_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : which == 2 ? INT_MAX : 3;
    tp_tensor *image_ = which == 6 ? NULL : tensor_out();
    got_status(tp_image_decode(data_, size_, channels_, image_));
}
static const char *const cases_tp_image_decode[] = {"?good arguments", "!data = NULL", "?channels = INT_MAX", "?channels = INT_MIN", "?channels = 0", "?channels = -1", "!image = NULL", NULL};

static void call_tp_save_png(int which)
{
    (void)which;
    const char *path_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : a_path("x.npz");
    const tp_tensor *image_ = which == 5 ? NULL : a_tensor24();
    got_status(tp_save_png(path_, image_));
}
static const char *const cases_tp_save_png[] = {"Ggood arguments", "?path = \":/ \"", "?path = 300 letters", "?path = \"\"", "!path = NULL", "!image = NULL", NULL};

static void call_tp_df_image_from_file_(int which)
{
    (void)which;
    tp_df_image_from_file_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.files = data_files("class/0.png"), desc.n = 1;
    const tp_df_image_from_file_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_image_from_file_(d_));
}
static const char *const cases_tp_df_image_from_file_[] = {"?good arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_image_folder_(int which)
{
    (void)which;
    tp_df_image_folder_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.dir = data_dir();
    const tp_df_image_folder_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_image_folder_(d_));
}
static const char *const cases_tp_df_image_folder_[] = {"?good arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_image_classes(int which)
{
    (void)which;
    const tp_dataflow *df_ = which == 1 ? NULL : dataflow();
    int *n_ = which == 2 ? NULL : ints_out;
    (void)tp_df_image_classes(df_, n_);
    got_answer();
}
static const char *const cases_tp_df_image_classes[] = {"?good arguments", "!df = NULL", "!n = NULL", NULL};

static void call_tp_df_image_list_(int which)
{
    (void)which;
    tp_df_image_list_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.list = data_file("list.txt"), desc.dir = data_dir();
    const tp_df_image_list_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_image_list_(d_));
}
static const char *const cases_tp_df_image_list_[] = {"?good arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_map_image(int which)
{
    (void)which;
    const tp_datapoint *in_ = which == 1 ? NULL : datapoint();
    tp_datapoint *out_ = which == 2 ? NULL : datapoint();
    tp_map_call *call_ = which == 3 ? NULL : &a_map_call;
    got_status(tp_map_image(in_, out_, call_));
}
static const char *const cases_tp_map_image[] = {"?good arguments", "!in = NULL", "!out = NULL", "!call = NULL", NULL};

static void call_tp_map_image_file(int which)
{
    (void)which;
    const tp_datapoint *in_ = which == 1 ? NULL : datapoint();
    tp_datapoint *out_ = which == 2 ? NULL : datapoint();
    tp_map_call *call_ = which == 3 ? NULL : &a_map_call;
    got_status(tp_map_image_file(in_, out_, call_));
}
static const char *const cases_tp_map_image_file[] = {"?good arguments", "!in = NULL", "!out = NULL", "!call = NULL", NULL};

static void call_tp_df_lmdb_(int which)
{
    (void)which;
    tp_df_lmdb_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.path = a_path("x.mdb");
    const tp_df_lmdb_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_lmdb_(d_));
}
static const char *const cases_tp_df_lmdb_[] = {"?good arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_lmdb_save(int which)
{
    (void)which;
    tp_dataflow *df_ = which == 1 ? NULL : dataflow();
    const char *path_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : a_path("x.mdb");
    got_status(tp_lmdb_save(df_, path_));
}
static const char *const cases_tp_lmdb_save[] = {"?good arguments", "!df = NULL", "?path = \":/ \"", "?path = 300 letters", "?path = \"\"", "!path = NULL", NULL};

static void call_tp_aug_status(int which)
{
    (void)which;
    const tp_augmentor *a_ = which == 1 ? NULL : augmentor();
    got_status(tp_aug_status(a_));
}
static const char *const cases_tp_aug_status[] = {"Ggood arguments", "!a = NULL", NULL};

static void call_tp_aug_free(int which)
{
    (void)which;
    tp_augmentor *a_ = which == 1 ? NULL : augmentor_given();
    tp_aug_free(a_);
    got_nothing();
}
static const char *const cases_tp_aug_free[] = {"Ggood arguments", "?a = NULL", NULL};

static void call_tp_aug_draw(int which)
{
    (void)which;
    const tp_augmentor *a_ = which == 1 ? NULL : augmentor();
    int64_t h_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT64_MIN : 2;
    int64_t w_ = which == 7 ? -1 : which == 6 ? 0 : which == 5 ? INT64_MIN : 2;
    uint64_t key_ = 3;
    int64_t index_ = which == 10 ? -1 : which == 9 ? 0 : which == 8 ? INT64_MIN : 2;
    tp_transform *t_ = which == 11 ? NULL : transform();
    got_status(tp_aug_draw(a_, h_, w_, key_, index_, t_));
}
static const char *const cases_tp_aug_draw[] = {"Ggood arguments", "!a = NULL", "?h = INT64_MIN", "?h = 0", "?h = -1", "?w = INT64_MIN", "?w = 0", "?w = -1", "?index = INT64_MIN", "?index = 0", "?index = -1", "!t = NULL", NULL};

static void call_tp_aug_apply_image(int which)
{
    (void)which;
    tp_transform *t_ = which == 1 ? NULL : transform();
    const tp_tensor *image_ = which == 2 ? NULL : a_tensor24();
    tp_tensor *out_ = which == 3 ? NULL : tensor_out();
    got_status(tp_aug_apply_image(t_, image_, out_));
}
static const char *const cases_tp_aug_apply_image[] = {"Ggood arguments", "!t = NULL", "!image = NULL", "!out = NULL", NULL};

static void call_tp_aug_apply_mask(int which)
{
    (void)which;
    tp_transform *t_ = which == 1 ? NULL : transform();
    const tp_tensor *mask_ = which == 2 ? NULL : a_tensor24();
    double fill_ = 0.5;
    tp_tensor *out_ = which == 3 ? NULL : tensor_out();
    got_status(tp_aug_apply_mask(t_, mask_, fill_, out_));
}
static const char *const cases_tp_aug_apply_mask[] = {"Ggood arguments", "!t = NULL", "!mask = NULL", "!out = NULL", NULL};

static void call_tp_aug_apply_coords(int which)
{
    (void)which;
    const tp_transform *t_ = which == 1 ? NULL : transform();
    const tp_tensor *points_ = which == 2 ? NULL : points();
    tp_tensor *out_ = which == 3 ? NULL : tensor_out();
    got_status(tp_aug_apply_coords(t_, points_, out_));
}
static const char *const cases_tp_aug_apply_coords[] = {"Ggood arguments", "!t = NULL", "!points = NULL", "!out = NULL", NULL};

static void call_tp_aug_apply_boxes(int which)
{
    (void)which;
    const tp_transform *t_ = which == 1 ? NULL : transform();
    const tp_tensor *boxes_ = which == 2 ? NULL : a_tensor24();
    tp_tensor *out_ = which == 3 ? NULL : tensor_out();
    got_status(tp_aug_apply_boxes(t_, boxes_, out_));
}
static const char *const cases_tp_aug_apply_boxes[] = {"Ggood arguments", "!t = NULL", "!boxes = NULL", "!out = NULL", NULL};

static void call_tp_transform_text(int which)
{
    (void)which;
    const tp_transform *t_ = which == 1 ? NULL : transform();
    char *buf_ = which == 2 ? NULL : text_out;
    size_t size_ = 4;
    (void)tp_transform_text(t_, buf_, size_);
    got_answer();
}
static const char *const cases_tp_transform_text[] = {"Ggood arguments", "!t = NULL", "!buf = NULL", NULL};

static void call_tp_transform_free(int which)
{
    (void)which;
    tp_transform *t_ = which == 1 ? NULL : transform();
    tp_transform_free(t_);
    got_nothing();
}
static const char *const cases_tp_transform_free[] = {"Ggood arguments", "?t = NULL", NULL};

static void call_tp_aug_list(int which)
{
    (void)which;
    tp_augmentor *const *augs_ = which == 1 ? NULL : (which == 2 || which == 3 || which == 4) ? NULL : list_augmentors_given();
    int n_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT_MIN : 2;
    got_augmentor(tp_aug_list(augs_, n_));
}
static const char *const cases_tp_aug_list[] = {"Ggood arguments", "!augs = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_aug_identity(int which)
{
    (void)which;
    got_augmentor(tp_aug_identity());
}
static const char *const cases_tp_aug_identity[] = {"Ggood arguments", NULL};

static void call_tp_aug_random_apply(int which)
{
    (void)which;
    tp_augmentor *aug_ = which == 1 ? NULL : augmentor_given();
    double prob_ = 0.5;
    got_augmentor(tp_aug_random_apply(aug_, prob_));
}
static const char *const cases_tp_aug_random_apply[] = {"Ggood arguments", "!aug = NULL", NULL};

static void call_tp_aug_random_choose(int which)
{
    (void)which;
    tp_augmentor *const *augs_ = which == 1 ? NULL : (which == 2 || which == 3 || which == 4) ? NULL : list_augmentors_given();
    int n_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT_MIN : 2;
    const double *prob_ = NULL;
    got_augmentor(tp_aug_random_choose(augs_, n_, prob_));
}
static const char *const cases_tp_aug_random_choose[] = {"Ggood arguments", "!augs = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", "?prob = NULL", NULL};

static void call_tp_aug_random_order(int which)
{
    (void)which;
    tp_augmentor *const *augs_ = which == 1 ? NULL : (which == 2 || which == 3 || which == 4) ? NULL : list_augmentors_given();
    int n_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT_MIN : 2;
    got_augmentor(tp_aug_random_order(augs_, n_));
}
static const char *const cases_tp_aug_random_order[] = {"Ggood arguments", "!augs = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_aug_map_image_(int which)
{
    (void)which;
    tp_aug_map_image_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.fn = map_pixels;
    const tp_aug_map_image_desc *d_ = which == 1 ? NULL : &desc;
    got_augmentor(tp_aug_map_image_(d_));
}
static const char *const cases_tp_aug_map_image_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_aug_resize_(int which)
{
    (void)which;
    tp_aug_resize_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.h = 2;
    const tp_aug_resize_desc *d_ = which == 1 ? NULL : &desc;
    got_augmentor(tp_aug_resize_(d_));
}
static const char *const cases_tp_aug_resize_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_aug_resize_shortest_edge_(int which)
{
    (void)which;
    tp_aug_resize_shortest_edge_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.size = 2;
    const tp_aug_resize_shortest_edge_desc *d_ = which == 1 ? NULL : &desc;
    got_augmentor(tp_aug_resize_shortest_edge_(d_));
}
static const char *const cases_tp_aug_resize_shortest_edge_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_aug_random_resize_(int which)
{
    (void)which;
    tp_aug_random_resize_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.xrange[0] = 1, desc.xrange[1] = 2;
    const tp_aug_random_resize_desc *d_ = which == 1 ? NULL : &desc;
    got_augmentor(tp_aug_random_resize_(d_));
}
static const char *const cases_tp_aug_random_resize_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_aug_random_crop(int which)
{
    (void)which;
    int h_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT_MIN : which == 1 ? INT_MAX : 2;
    int w_ = which == 8 ? -1 : which == 7 ? 0 : which == 6 ? INT_MIN : which == 5 ? INT_MAX : 2;
    got_augmentor(tp_aug_random_crop(h_, w_));
}
static const char *const cases_tp_aug_random_crop[] = {"Ggood arguments", "?h = INT_MAX", "?h = INT_MIN", "?h = 0", "?h = -1", "?w = INT_MAX", "?w = INT_MIN", "?w = 0", "?w = -1", NULL};

static void call_tp_aug_center_crop(int which)
{
    (void)which;
    int h_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT_MIN : which == 1 ? INT_MAX : 2;
    int w_ = which == 8 ? -1 : which == 7 ? 0 : which == 6 ? INT_MIN : which == 5 ? INT_MAX : 2;
    got_augmentor(tp_aug_center_crop(h_, w_));
}
static const char *const cases_tp_aug_center_crop[] = {"Ggood arguments", "?h = INT_MAX", "?h = INT_MIN", "?h = 0", "?h = -1", "?w = INT_MAX", "?w = INT_MIN", "?w = 0", "?w = -1", NULL};

static void call_tp_aug_random_crop_random_shape_(int which)
{
    (void)which;
    tp_aug_random_crop_random_shape_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.wmin = desc.hmin = 1;
    const tp_aug_random_crop_random_shape_desc *d_ = which == 1 ? NULL : &desc;
    got_augmentor(tp_aug_random_crop_random_shape_(d_));
}
static const char *const cases_tp_aug_random_crop_random_shape_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_aug_google_net_random_crop_and_resize_(int which)
{
    (void)which;
    tp_aug_google_net_random_crop_and_resize_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_aug_google_net_random_crop_and_resize_desc *d_ = which == 1 ? NULL : &desc;
    got_augmentor(tp_aug_google_net_random_crop_and_resize_(d_));
}
static const char *const cases_tp_aug_google_net_random_crop_and_resize_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_aug_random_cutout_(int which)
{
    (void)which;
    tp_aug_random_cutout_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.h_range[0] = desc.w_range[0] = 1;
    const tp_aug_random_cutout_desc *d_ = which == 1 ? NULL : &desc;
    got_augmentor(tp_aug_random_cutout_(d_));
}
static const char *const cases_tp_aug_random_cutout_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_aug_pad_(int which)
{
    (void)which;
    tp_aug_pad_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_aug_pad_desc *d_ = which == 1 ? NULL : &desc;
    got_augmentor(tp_aug_pad_(d_));
}
static const char *const cases_tp_aug_pad_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_aug_center_paste_(int which)
{
    (void)which;
    tp_aug_paste_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.h = 9;
    const tp_aug_paste_desc *d_ = which == 1 ? NULL : &desc;
    got_augmentor(tp_aug_center_paste_(d_));
}
static const char *const cases_tp_aug_center_paste_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_aug_random_paste_(int which)
{
    (void)which;
    tp_aug_paste_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.h = 9;
    const tp_aug_paste_desc *d_ = which == 1 ? NULL : &desc;
    got_augmentor(tp_aug_random_paste_(d_));
}
static const char *const cases_tp_aug_random_paste_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_aug_flip_(int which)
{
    (void)which;
    tp_aug_flip_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.horiz = TP_YES;
    const tp_aug_flip_desc *d_ = which == 1 ? NULL : &desc;
    got_augmentor(tp_aug_flip_(d_));
}
static const char *const cases_tp_aug_flip_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_aug_transpose_(int which)
{
    (void)which;
    tp_aug_transpose_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_aug_transpose_desc *d_ = which == 1 ? NULL : &desc;
    got_augmentor(tp_aug_transpose_(d_));
}
static const char *const cases_tp_aug_transpose_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_aug_shift_(int which)
{
    (void)which;
    tp_aug_shift_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_aug_shift_desc *d_ = which == 1 ? NULL : &desc;
    got_augmentor(tp_aug_shift_(d_));
}
static const char *const cases_tp_aug_shift_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_aug_rotation_(int which)
{
    (void)which;
    tp_aug_rotation_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.max_deg = 1;
    const tp_aug_rotation_desc *d_ = which == 1 ? NULL : &desc;
    got_augmentor(tp_aug_rotation_(d_));
}
static const char *const cases_tp_aug_rotation_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_aug_rotation_and_crop_valid_(int which)
{
    (void)which;
    tp_aug_rotation_and_crop_valid_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.max_deg = 1;
    const tp_aug_rotation_and_crop_valid_desc *d_ = which == 1 ? NULL : &desc;
    got_augmentor(tp_aug_rotation_and_crop_valid_(d_));
}
static const char *const cases_tp_aug_rotation_and_crop_valid_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_aug_affine_(int which)
{
    (void)which;
    tp_aug_affine_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_aug_affine_desc *d_ = which == 1 ? NULL : &desc;
    got_augmentor(tp_aug_affine_(d_));
}
static const char *const cases_tp_aug_affine_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_aug_brightness_(int which)
{
    (void)which;
    tp_aug_brightness_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.delta = 1;
    const tp_aug_brightness_desc *d_ = which == 1 ? NULL : &desc;
    got_augmentor(tp_aug_brightness_(d_));
}
static const char *const cases_tp_aug_brightness_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_aug_brightness_scale_(int which)
{
    (void)which;
    tp_aug_brightness_scale_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.range[0] = desc.range[1] = 1;
    const tp_aug_brightness_scale_desc *d_ = which == 1 ? NULL : &desc;
    got_augmentor(tp_aug_brightness_scale_(d_));
}
static const char *const cases_tp_aug_brightness_scale_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_aug_contrast_(int which)
{
    (void)which;
    tp_aug_contrast_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.factor_range[0] = desc.factor_range[1] = 1;
    const tp_aug_contrast_desc *d_ = which == 1 ? NULL : &desc;
    got_augmentor(tp_aug_contrast_(d_));
}
static const char *const cases_tp_aug_contrast_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_aug_saturation_(int which)
{
    (void)which;
    tp_aug_saturation_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_aug_saturation_desc *d_ = which == 1 ? NULL : &desc;
    got_augmentor(tp_aug_saturation_(d_));
}
static const char *const cases_tp_aug_saturation_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_aug_hue_(int which)
{
    (void)which;
    tp_aug_hue_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_aug_hue_desc *d_ = which == 1 ? NULL : &desc;
    got_augmentor(tp_aug_hue_(d_));
}
static const char *const cases_tp_aug_hue_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_aug_gamma_(int which)
{
    (void)which;
    tp_aug_gamma_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_aug_gamma_desc *d_ = which == 1 ? NULL : &desc;
    got_augmentor(tp_aug_gamma_(d_));
}
static const char *const cases_tp_aug_gamma_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_aug_clip_(int which)
{
    (void)which;
    tp_aug_clip_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_aug_clip_desc *d_ = which == 1 ? NULL : &desc;
    got_augmentor(tp_aug_clip_(d_));
}
static const char *const cases_tp_aug_clip_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_aug_lighting_(int which)
{
    (void)which;
    tp_aug_lighting_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.std = 1;
    const tp_aug_lighting_desc *d_ = which == 1 ? NULL : &desc;
    got_augmentor(tp_aug_lighting_(d_));
}
static const char *const cases_tp_aug_lighting_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_aug_mean_variance_normalize_(int which)
{
    (void)which;
    tp_aug_mean_variance_normalize_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_aug_mean_variance_normalize_desc *d_ = which == 1 ? NULL : &desc;
    got_augmentor(tp_aug_mean_variance_normalize_(d_));
}
static const char *const cases_tp_aug_mean_variance_normalize_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_aug_min_max_normalize_(int which)
{
    (void)which;
    tp_aug_min_max_normalize_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_aug_min_max_normalize_desc *d_ = which == 1 ? NULL : &desc;
    got_augmentor(tp_aug_min_max_normalize_(d_));
}
static const char *const cases_tp_aug_min_max_normalize_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_aug_grayscale_(int which)
{
    (void)which;
    tp_aug_grayscale_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_aug_grayscale_desc *d_ = which == 1 ? NULL : &desc;
    got_augmentor(tp_aug_grayscale_(d_));
}
static const char *const cases_tp_aug_grayscale_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_aug_color_space_(int which)
{
    (void)which;
    tp_aug_color_space_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.mode = TP_COLOR_RGB2BGR;
    const tp_aug_color_space_desc *d_ = which == 1 ? NULL : &desc;
    got_augmentor(tp_aug_color_space_(d_));
}
static const char *const cases_tp_aug_color_space_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_aug_to_uint8(int which)
{
    (void)which;
    got_augmentor(tp_aug_to_uint8());
}
static const char *const cases_tp_aug_to_uint8[] = {"Ggood arguments", NULL};

static void call_tp_aug_to_float32(int which)
{
    (void)which;
    got_augmentor(tp_aug_to_float32());
}
static const char *const cases_tp_aug_to_float32[] = {"Ggood arguments", NULL};

static void call_tp_aug_gaussian_blur_(int which)
{
    (void)which;
    tp_aug_gaussian_blur_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_aug_gaussian_blur_desc *d_ = which == 1 ? NULL : &desc;
    got_augmentor(tp_aug_gaussian_blur_(d_));
}
static const char *const cases_tp_aug_gaussian_blur_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_aug_jpeg_noise_(int which)
{
    (void)which;
    tp_aug_jpeg_noise_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_aug_jpeg_noise_desc *d_ = which == 1 ? NULL : &desc;
    got_augmentor(tp_aug_jpeg_noise_(d_));
}
static const char *const cases_tp_aug_jpeg_noise_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_aug_gaussian_noise_(int which)
{
    (void)which;
    tp_aug_gaussian_noise_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_aug_gaussian_noise_desc *d_ = which == 1 ? NULL : &desc;
    got_augmentor(tp_aug_gaussian_noise_(d_));
}
static const char *const cases_tp_aug_gaussian_noise_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_aug_salt_pepper_noise_(int which)
{
    (void)which;
    tp_aug_salt_pepper_noise_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_aug_salt_pepper_noise_desc *d_ = which == 1 ? NULL : &desc;
    got_augmentor(tp_aug_salt_pepper_noise_(d_));
}
static const char *const cases_tp_aug_salt_pepper_noise_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_augment_image_(int which)
{
    (void)which;
    tp_df_augment_image_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.df = dataflow_given(), desc.augmentors = augmentor_given();
    const tp_df_augment_image_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_augment_image_(d_));
}
static const char *const cases_tp_df_augment_image_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_augment_coordinates_(int which)
{
    (void)which;
    tp_df_augment_coordinates_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.df = pairs_given(&pair_with_points), desc.augmentors = augmentor_given();
    const tp_df_augment_coordinates_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_augment_coordinates_(d_));
}
static const char *const cases_tp_df_augment_coordinates_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_augment_images_(int which)
{
    (void)which;
    tp_df_augment_images_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.df = pairs_given(&pair_of_images), desc.augmentors = augmentor_given();
    const tp_df_augment_images_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_augment_images_(d_));
}
static const char *const cases_tp_df_augment_images_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_load_image_(int which)
{
    (void)which;
    tp_df_load_image_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.df = pairs_given(&path_alone), desc.augmentors = augmentor_given();
    const tp_df_load_image_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_load_image_(d_));
}
static const char *const cases_tp_df_load_image_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_idx_load(int which)
{
    (void)which;
    const char *path_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : a_path("idx");
    tp_tensor *t_ = which == 5 ? NULL : tensor_out();
    got_status(tp_idx_load(path_, t_));
}
static const char *const cases_tp_idx_load[] = {"?good arguments", "?path = \":/ \"", "?path = 300 letters", "?path = \"\"", "!path = NULL", "!t = NULL", NULL};

static void call_tp_idx_parse(int which)
{
    (void)which;
    const void *data_ = which == 1 ? NULL : bytes;
    size_t size_ = 4;
    const char *what_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    tp_tensor *t_ = which == 6 ? NULL : tensor_out();
    got_status(tp_idx_parse(data_, size_, what_, t_));
}
static const char *const cases_tp_idx_parse[] = {"?good arguments", "!data = NULL", "?what = \":/ \"", "?what = 300 letters", "?what = \"\"", "!what = NULL", "!t = NULL", NULL};

static void call_tp_input_setup(int which)
{
    (void)which;
    tp_input_source *s_ = which == 1 ? NULL : input_ready();
    tp_graph *g_ = which == 2 ? NULL : graph();
    const tp_spec *specs_ = which == 3 ? NULL : a_spec();
    int n_ = which == 6 ? -1 : which == 5 ? 0 : which == 4 ? INT_MIN : 1;
    got_status(tp_input_setup(s_, g_, specs_, n_));
}
static const char *const cases_tp_input_setup[] = {"Ggood arguments", "!s = NULL", "!g = NULL", "!specs = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_input_setup_done(int which)
{
    (void)which;
    const tp_input_source *s_ = which == 1 ? NULL : input_ready();
    (void)tp_input_setup_done(s_);
    got_answer();
}
static const char *const cases_tp_input_setup_done[] = {"Ggood arguments", "!s = NULL", NULL};

static void call_tp_input_get_tensors(int which)
{
    (void)which;
    tp_input_source *s_ = which == 1 ? NULL : input_ready();
    tp_node **in_ = which == 2 ? NULL : nodes_out();
    got_status(tp_input_get_tensors(s_, in_));
}
static const char *const cases_tp_input_get_tensors[] = {"?good arguments", "!s = NULL", "!in = NULL", NULL};

static void call_tp_input_reset_state(int which)
{
    (void)which;
    tp_input_source *s_ = which == 1 ? NULL : input_ready();
    got_status(tp_input_reset_state(s_));
}
static const char *const cases_tp_input_reset_state[] = {"?good arguments", "!s = NULL", NULL};

static void call_tp_input_seek(int which)
{
    (void)which;
    tp_input_source *s_ = which == 1 ? NULL : input_ready();
    int64_t consumed_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT64_MIN : 2;
    got_status(tp_input_seek(s_, consumed_));
}
static const char *const cases_tp_input_seek[] = {"Ggood arguments", "!s = NULL", "?consumed = INT64_MIN", "?consumed = 0", "?consumed = -1", NULL};

static void call_tp_input_size(int which)
{
    (void)which;
    tp_input_source *s_ = which == 1 ? NULL : input_ready();
    (void)tp_input_size(s_);
    got_answer();
}
static const char *const cases_tp_input_size[] = {"Ggood arguments", "!s = NULL", NULL};

static void call_tp_input_hooks(int which)
{
    (void)which;
    tp_input_source *s_ = which == 1 ? NULL : input_ready();
    int *n_ = which == 2 ? NULL : ints_out;
    (void)tp_input_hooks(s_, n_);
    got_answer();
}
static const char *const cases_tp_input_hooks[] = {"Ggood arguments", "!s = NULL", "!n = NULL", NULL};

static void call_tp_input_failure(int which)
{
    (void)which;
    const tp_input_source *s_ = which == 1 ? NULL : input_ready();
    const char **sentence_ = which == 2 ? NULL : &text_in;
    got_status(tp_input_failure(s_, sentence_));
}
static const char *const cases_tp_input_failure[] = {"Ggood arguments", "!s = NULL", "?sentence = NULL", NULL};

static void call_tp_input_cached_name_scope_push(int which)
{
    (void)which;
    tp_input_source *s_ = which == 1 ? NULL : input_ready();
    tp_input_cached_name_scope_push(s_);
    got_nothing();
}
static const char *const cases_tp_input_cached_name_scope_push[] = {"?good arguments", "!s = NULL", NULL};

static void call_tp_input_free(int which)
{
    (void)which;
    tp_input_source *s_ = which == 1 ? NULL : input_ready_given();
    tp_input_free(s_);
    got_nothing();
}
static const char *const cases_tp_input_free[] = {"Ggood arguments", "?s = NULL", NULL};

static void call_tp_placeholder_input(int which)
{
    (void)which;
    got_input(tp_placeholder_input());
}
static const char *const cases_tp_placeholder_input[] = {"Ggood arguments", NULL};

static void call_tp_feed_input_(int which)
{
    (void)which;
    tp_feed_input_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.df = dataflow_given();
    const tp_feed_input_desc *d_ = which == 1 ? NULL : &desc;
    got_input(tp_feed_input_(d_));
}
static const char *const cases_tp_feed_input_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_queue_new(int which)
{
    (void)which;
    int capacity_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT_MIN : which == 1 ? INT_MAX : 2;
    got_queue(tp_queue_new(capacity_));
}
static const char *const cases_tp_queue_new[] = {"Ggood arguments", "?capacity = INT_MAX", "?capacity = INT_MIN", "?capacity = 0", "?capacity = -1", NULL};

static void call_tp_queue_put(int which)
{
    (void)which;
    tp_queue *q_ = which == 1 ? NULL : queue();
    const tp_datapoint *dp_ = which == 2 ? NULL : datapoint();
    got_status(tp_queue_put(q_, dp_));
}
static const char *const cases_tp_queue_put[] = {"Ggood arguments", "!q = NULL", "!dp = NULL", NULL};

static void call_tp_queue_get(int which)
{
    (void)which;
    tp_queue *q_ = which == 1 ? NULL : queue();
    tp_datapoint *dp_ = which == 2 ? NULL : datapoint();
    got_status(tp_queue_get(q_, dp_));
}
static const char *const cases_tp_queue_get[] = {"Ggood arguments", "!q = NULL", "!dp = NULL", NULL};

static void call_tp_queue_size(int which)
{
    (void)which;
    tp_queue *q_ = which == 1 ? NULL : queue();
    (void)tp_queue_size(q_);
    got_answer();
}
static const char *const cases_tp_queue_size[] = {"Ggood arguments", "!q = NULL", NULL};

static void call_tp_queue_close(int which)
{
    (void)which;
    tp_queue *q_ = which == 1 ? NULL : queue();
    tp_queue_close(q_);
    got_nothing();
}
static const char *const cases_tp_queue_close[] = {"Ggood arguments", "!q = NULL", NULL};

static void call_tp_queue_free(int which)
{
    (void)which;
    tp_queue *q_ = which == 1 ? NULL : queue_given();
    tp_queue_free(q_);
    got_nothing();
}
static const char *const cases_tp_queue_free[] = {"Ggood arguments", "?q = NULL", NULL};

static void call_tp_df_from_queue(int which)
{
    (void)which;
    tp_queue *q_ = which == 1 ? NULL : queue();
    got_dataflow(tp_df_from_queue(q_));
}
static const char *const cases_tp_df_from_queue[] = {"Ggood arguments", "!q = NULL", NULL};

static void call_tp_queue_input_(int which)
{
    (void)which;
    tp_queue_input_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.df = dataflow_given();
    const tp_queue_input_desc *d_ = which == 1 ? NULL : &desc;
    got_input(tp_queue_input_(d_));
}
static const char *const cases_tp_queue_input_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_queue_input_size_ema(int which)
{
    (void)which;
    const tp_input_source *s_ = which == 1 ? NULL : input_ready();
    (void)tp_queue_input_size_ema(s_);
    got_answer();
}
static const char *const cases_tp_queue_input_size_ema[] = {"Ggood arguments", "!s = NULL", NULL};

static void call_tp_feedfree_input(int which)
{
    (void)which;
    const char *name_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : "name";
    size_t bytes_ = 8;
    got_input(tp_feedfree_input(name_, bytes_));
}
static const char *const cases_tp_feedfree_input[] = {"?good arguments", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", NULL};

static void call_tp_batch_queue_input_(int which)
{
    (void)which;
    tp_batch_queue_input_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.df = samples_given(), desc.batch_size = 2;
    const tp_batch_queue_input_desc *d_ = which == 1 ? NULL : &desc;
    got_input(tp_batch_queue_input_(d_));
}
static const char *const cases_tp_batch_queue_input_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_queue_input_refill_queue(int which)
{
    (void)which;
    tp_input_source *s_ = which == 1 ? NULL : input_ready();
    got_status(tp_queue_input_refill_queue(s_));
}
static const char *const cases_tp_queue_input_refill_queue[] = {"?good arguments", "!s = NULL", NULL};

static void call_tp_dataflow_to_dataset(int which)
{
    (void)which;
    tp_dataflow *df_ = which == 1 ? NULL : dataflow_given();
    const tp_dtype *types_ = which == 2 ? NULL : dtypes;
    int n_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : 1;
    got_dataflow(tp_dataflow_to_dataset(df_, types_, n_));
}
static const char *const cases_tp_dataflow_to_dataset[] = {"Ggood arguments", "!df = NULL", "!types = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_dataset_input(int which)
{
    (void)which;
    tp_dataflow *df_ = which == 1 ? NULL : dataflow_given();
    got_input(tp_dataset_input(df_));
}
static const char *const cases_tp_dataset_input[] = {"Ggood arguments", "!df = NULL", NULL};

static void call_tp_tensor_input_(int which)
{
    (void)which;
    tp_tensor_input_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.fn = give_tensors;
    const tp_tensor_input_desc *d_ = which == 1 ? NULL : &desc;
    got_input(tp_tensor_input_(d_));
}
static const char *const cases_tp_tensor_input_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_dummy_constant_input(int which)
{
    (void)which;
    const tp_shape *shapes_ = which == 1 ? NULL : a_shape();
    int n_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT_MIN : 1;
    got_input(tp_dummy_constant_input(shapes_, n_));
}
static const char *const cases_tp_dummy_constant_input[] = {"Ggood arguments", "!shapes = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_staging_input_(int which)
{
    (void)which;
    tp_staging_input_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.input = input_queued_given();
    const tp_staging_input_desc *d_ = which == 1 ? NULL : &desc;
    got_input(tp_staging_input_(d_));
}
static const char *const cases_tp_staging_input_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_remap_input_source(int which)
{
    (void)which;
    tp_input_source *input_ = which == 1 ? NULL : input_ready_given();
    const char *const *names_ = which == 2 ? NULL : names_x;
    int n_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : 1;
    got_input(tp_remap_input_source(input_, names_, n_));
}
static const char *const cases_tp_remap_input_source[] = {"Ggood arguments", "!input = NULL", "!names = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_input_default_prefetch(int which)
{
    (void)which;
    tp_input_source *input_ = which == 1 ? NULL : input_ready_given();
    int n_devices_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : which == 2 ? INT_MAX : 2;
    got_input(tp_input_default_prefetch(input_, n_devices_));
}
static const char *const cases_tp_input_default_prefetch[] = {"Ggood arguments", "!input = NULL", "?n_devices = INT_MAX", "?n_devices = INT_MIN", "?n_devices = 0", "?n_devices = -1", NULL};

static void call_tp_datapoint_pack(int which)
{
    (void)which;
    const tp_datapoint *dp_ = which == 1 ? NULL : datapoint();
    tp_buf *out_ = which == 2 ? NULL : buf();
    got_status(tp_datapoint_pack(dp_, out_));
}
static const char *const cases_tp_datapoint_pack[] = {"Ggood arguments", "!dp = NULL", "!out = NULL", NULL};

static void call_tp_datapoint_unpack(int which)
{
    (void)which;
    tp_datapoint *dp_ = which == 1 ? NULL : datapoint();
    const void *data_ = which == 2 ? NULL : bytes;
    size_t size_ = 4;
    const char *what_ = which == 6 ? NULL : which == 5 ? "" : which == 4 ? long_text() : which == 3 ? ":/ " : "name";
    got_status(tp_datapoint_unpack(dp_, data_, size_, what_));
}
static const char *const cases_tp_datapoint_unpack[] = {"?good arguments", "!dp = NULL", "!data = NULL", "?what = \":/ \"", "?what = 300 letters", "?what = \"\"", "!what = NULL", NULL};

static void call_tp_zmq_input_(int which)
{
    (void)which;
    tp_zmq_input_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_zmq_input_desc *d_ = which == 1 ? NULL : &desc;
    got_input(tp_zmq_input_(d_));
}
static const char *const cases_tp_zmq_input_[] = {"?good arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_zmq_input_to_dataset(int which)
{
    (void)which;
    const tp_input_source *s_ = which == 1 ? NULL : input_ready();
    const tp_spec *specs_ = which == 2 ? NULL : a_spec();
    int n_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : 2;
    got_dataflow(tp_zmq_input_to_dataset(s_, specs_, n_));
}
static const char *const cases_tp_zmq_input_to_dataset[] = {"?good arguments", "!s = NULL", "!specs = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_df_remote_zmq_(int which)
{
    (void)which;
    tp_df_remote_zmq_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_df_remote_zmq_desc *d_ = which == 1 ? NULL : &desc;
    got_dataflow(tp_df_remote_zmq_(d_));
}
static const char *const cases_tp_df_remote_zmq_[] = {"?good arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_df_remote_zmq_received(int which)
{
    (void)which;
    const tp_dataflow *df_ = which == 1 ? NULL : dataflow();
    int address_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : which == 2 ? INT_MAX : 2;
    (void)tp_df_remote_zmq_received(df_, address_);
    got_answer();
}
static const char *const cases_tp_df_remote_zmq_received[] = {"Ggood arguments", "!df = NULL", "?address = INT_MAX", "?address = INT_MIN", "?address = 0", "?address = -1", NULL};

static void call_tp_df_send_zmq_(int which)
{
    (void)which;
    tp_df_send_zmq_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_df_send_zmq_desc *d_ = which == 1 ? NULL : &desc;
    got_status(tp_df_send_zmq_(d_));
}
static const char *const cases_tp_df_send_zmq_[] = {"Sgood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_stop(int which)
{
    (void)which;
    tp_train_state *train_ = which == 1 ? NULL : train_state();
    const char *fmt_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : no_format;
    got_status(tp_stop(train_, fmt_));
}
static const char *const cases_tp_stop[] = {"?good arguments", "!train = NULL", "?fmt = \":/ \"", "?fmt = 300 letters", "?fmt = \"\"", "?fmt = NULL", NULL};

static void call_tp_humanize_time_delta(int which)
{
    (void)which;
    double seconds_ = 0.5;
    char *buf_ = which == 1 ? NULL : text_out;
    (void)tp_humanize_time_delta(seconds_, buf_);
    got_answer();
}
static const char *const cases_tp_humanize_time_delta[] = {"Ggood arguments", "!buf = NULL", NULL};

static void call_tp_callback_new(int which)
{
    (void)which;
    const char *name_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : "name";
    size_t bytes_ = 8;
    got_callback(tp_callback_new(name_, bytes_));
}
static const char *const cases_tp_callback_new[] = {"Ggood arguments", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", NULL};

static void call_tp_callback_fail(int which)
{
    (void)which;
    const tp_at *at_ = which == 1 ? NULL : &here;
    tp_status status_ = TP_ERR;
    const char *fmt_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : no_format;
    got_callback(tp_callback_fail(at_, status_, fmt_));
}
static const char *const cases_tp_callback_fail[] = {"?good arguments", "?at = NULL", "?fmt = \":/ \"", "?fmt = 300 letters", "?fmt = \"\"", "?fmt = NULL", NULL};

static void call_tp_callback_status(int which)
{
    (void)which;
    const tp_callback *cb_ = which == 1 ? NULL : callback();
    got_status(tp_callback_status(cb_));
}
static const char *const cases_tp_callback_status[] = {"Ggood arguments", "!cb = NULL", NULL};

static void call_tp_callback_set_chief_only(int which)
{
    (void)which;
    tp_callback *cb_ = which == 1 ? NULL : callback_given();
    bool chief_only_ = true;
    got_callback(tp_callback_set_chief_only(cb_, chief_only_));
}
static const char *const cases_tp_callback_set_chief_only[] = {"Ggood arguments", "!cb = NULL", NULL};

static void call_tp_callback_free(int which)
{
    (void)which;
    tp_callback *cb_ = which == 1 ? NULL : callback_given();
    tp_callback_free(cb_);
    got_nothing();
}
static const char *const cases_tp_callback_free[] = {"Ggood arguments", "?cb = NULL", NULL};

static void call_tp_callback_set_unsaved(int which)
{
    (void)which;
    tp_callback *cb_ = which == 1 ? NULL : callback();
    const char *fmt_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : no_format;
    tp_callback_set_unsaved(cb_, fmt_);
    got_nothing();
}
static const char *const cases_tp_callback_set_unsaved[] = {"Ggood arguments", "!cb = NULL", "?fmt = \":/ \"", "?fmt = 300 letters", "?fmt = \"\"", "?fmt = NULL", NULL};

static void call_tp_callback_setup_graph(int which)
{
    (void)which;
    tp_callback *cb_ = which == 1 ? NULL : callback();
    tp_train_state *train_ = which == 2 ? NULL : train_state();
    got_status(tp_callback_setup_graph(cb_, train_));
}
static const char *const cases_tp_callback_setup_graph[] = {"?good arguments", "!cb = NULL", "!train = NULL", NULL};

static void call_tp_callback_before_train(int which)
{
    (void)which;
    tp_callback *cb_ = which == 1 ? NULL : callback();
    got_status(tp_callback_before_train(cb_));
}
static const char *const cases_tp_callback_before_train[] = {"Ggood arguments", "!cb = NULL", NULL};

static void call_tp_callback_before_epoch(int which)
{
    (void)which;
    tp_callback *cb_ = which == 1 ? NULL : callback();
    got_status(tp_callback_before_epoch(cb_));
}
static const char *const cases_tp_callback_before_epoch[] = {"Ggood arguments", "!cb = NULL", NULL};

static void call_tp_callback_before_run(int which)
{
    (void)which;
    tp_callback *cb_ = which == 1 ? NULL : callback();
    tp_run_request *r_ = which == 2 ? NULL : a_request();
    got_status(tp_callback_before_run(cb_, r_));
}
static const char *const cases_tp_callback_before_run[] = {"?good arguments", "!cb = NULL", "!r = NULL", NULL};

static void call_tp_callback_after_run(int which)
{
    (void)which;
    tp_callback *cb_ = which == 1 ? NULL : callback();
    const tp_run_values *v_ = which == 2 ? NULL : &run_values;
    got_status(tp_callback_after_run(cb_, v_));
}
static const char *const cases_tp_callback_after_run[] = {"Ggood arguments", "!cb = NULL", "!v = NULL", NULL};

static void call_tp_callback_trigger_step(int which)
{
    (void)which;
    tp_callback *cb_ = which == 1 ? NULL : callback();
    got_status(tp_callback_trigger_step(cb_));
}
static const char *const cases_tp_callback_trigger_step[] = {"Ggood arguments", "!cb = NULL", NULL};

static void call_tp_callback_after_epoch(int which)
{
    (void)which;
    tp_callback *cb_ = which == 1 ? NULL : callback();
    got_status(tp_callback_after_epoch(cb_));
}
static const char *const cases_tp_callback_after_epoch[] = {"Ggood arguments", "!cb = NULL", NULL};

static void call_tp_callback_trigger_epoch(int which)
{
    (void)which;
    tp_callback *cb_ = which == 1 ? NULL : callback();
    got_status(tp_callback_trigger_epoch(cb_));
}
static const char *const cases_tp_callback_trigger_epoch[] = {"Ggood arguments", "!cb = NULL", NULL};

static void call_tp_callback_trigger(int which)
{
    (void)which;
    tp_callback *cb_ = which == 1 ? NULL : callback();
    got_status(tp_callback_trigger(cb_));
}
static const char *const cases_tp_callback_trigger[] = {"Ggood arguments", "!cb = NULL", NULL};

static void call_tp_callback_after_train(int which)
{
    (void)which;
    tp_callback *cb_ = which == 1 ? NULL : callback();
    got_status(tp_callback_after_train(cb_));
}
static const char *const cases_tp_callback_after_train[] = {"Ggood arguments", "!cb = NULL", NULL};

static void call_tp_callback_save_state(int which)
{
    (void)which;
    tp_callback *cb_ = which == 1 ? NULL : callback();
    tp_dict *d_ = which == 2 ? NULL : dict();
    const char *prefix_ = which == 6 ? NULL : which == 5 ? "" : which == 4 ? long_text() : which == 3 ? ":/ " : "p/";
    got_status(tp_callback_save_state(cb_, d_, prefix_));
}
static const char *const cases_tp_callback_save_state[] = {"Ggood arguments", "!cb = NULL", "!d = NULL", "?prefix = \":/ \"", "?prefix = 300 letters", "?prefix = \"\"", "!prefix = NULL", NULL};

static void call_tp_callback_load_state(int which)
{
    (void)which;
    tp_callback *cb_ = which == 1 ? NULL : callback();
    const tp_dict *d_ = which == 2 ? NULL : dict();
    const char *prefix_ = which == 6 ? NULL : which == 5 ? "" : which == 4 ? long_text() : which == 3 ? ":/ " : "p/";
    got_status(tp_callback_load_state(cb_, d_, prefix_));
}
static const char *const cases_tp_callback_load_state[] = {"Ggood arguments", "!cb = NULL", "!d = NULL", "?prefix = \":/ \"", "?prefix = 300 letters", "?prefix = \"\"", "!prefix = NULL", NULL};

static void call_tp_callback_find(int which)
{
    (void)which;
    tp_callback *cb_ = which == 1 ? NULL : callback();
    const char *name_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    (void)tp_callback_find(cb_, name_);
    got_answer();
}
static const char *const cases_tp_callback_find[] = {"Ggood arguments", "!cb = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", NULL};

static void call_tp_state_put_i64(int which)
{
    (void)which;
    tp_dict *d_ = which == 1 ? NULL : dict();
    const char *prefix_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "p/";
    const char *key_ = which == 9 ? NULL : which == 8 ? "" : which == 7 ? long_text() : which == 6 ? ":/ " : "a";
    const int64_t *v_ = which == 10 ? NULL : int64s_one();
    int n_ = which == 13 ? -1 : which == 12 ? 0 : which == 11 ? INT_MIN : 2;
    got_status(tp_state_put_i64(d_, prefix_, key_, v_, n_));
}
static const char *const cases_tp_state_put_i64[] = {"Ggood arguments", "!d = NULL", "?prefix = \":/ \"", "?prefix = 300 letters", "?prefix = \"\"", "!prefix = NULL", "?key = \":/ \"", "?key = 300 letters", "?key = \"\"", "!key = NULL", "!v = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_state_put_f64(int which)
{
    (void)which;
    tp_dict *d_ = which == 1 ? NULL : dict();
    const char *prefix_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "p/";
    const char *key_ = which == 9 ? NULL : which == 8 ? "" : which == 7 ? long_text() : which == 6 ? ":/ " : "name";
    const double *v_ = which == 10 ? NULL : doubles;
    int n_ = which == 13 ? -1 : which == 12 ? 0 : which == 11 ? INT_MIN : 2;
    got_status(tp_state_put_f64(d_, prefix_, key_, v_, n_));
}
static const char *const cases_tp_state_put_f64[] = {"Ggood arguments", "!d = NULL", "?prefix = \":/ \"", "?prefix = 300 letters", "?prefix = \"\"", "!prefix = NULL", "?key = \":/ \"", "?key = 300 letters", "?key = \"\"", "!key = NULL", "!v = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_state_get_i64(int which)
{
    (void)which;
    const tp_dict *d_ = which == 1 ? NULL : dict();
    const char *prefix_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "p/";
    const char *key_ = which == 9 ? NULL : which == 8 ? "" : which == 7 ? long_text() : which == 6 ? ":/ " : "name";
    int64_t *v_ = which == 10 ? NULL : int64s_out;
    int n_ = which == 13 ? -1 : which == 12 ? 0 : which == 11 ? INT_MIN : 2;
    (void)tp_state_get_i64(d_, prefix_, key_, v_, n_);
    got_answer();
}
static const char *const cases_tp_state_get_i64[] = {"Ggood arguments", "!d = NULL", "?prefix = \":/ \"", "?prefix = 300 letters", "?prefix = \"\"", "!prefix = NULL", "?key = \":/ \"", "?key = 300 letters", "?key = \"\"", "!key = NULL", "!v = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_state_get_f64(int which)
{
    (void)which;
    const tp_dict *d_ = which == 1 ? NULL : dict();
    const char *prefix_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "p/";
    const char *key_ = which == 9 ? NULL : which == 8 ? "" : which == 7 ? long_text() : which == 6 ? ":/ " : "name";
    double *v_ = which == 10 ? NULL : doubles;
    int n_ = which == 13 ? -1 : which == 12 ? 0 : which == 11 ? INT_MIN : 2;
    (void)tp_state_get_f64(d_, prefix_, key_, v_, n_);
    got_answer();
}
static const char *const cases_tp_state_get_f64[] = {"Ggood arguments", "!d = NULL", "?prefix = \":/ \"", "?prefix = 300 letters", "?prefix = \"\"", "!prefix = NULL", "?key = \":/ \"", "?key = 300 letters", "?key = \"\"", "!key = NULL", "!v = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_train_state_save(int which)
{
    (void)which;
    tp_train_state *train_ = which == 1 ? NULL : train_state();
    got_status(tp_train_state_save(train_));
}
static const char *const cases_tp_train_state_save[] = {"?good arguments", "!train = NULL", NULL};

static void call_tp_train_state_load(int which)
{
    (void)which;
    tp_train_state *train_ = which == 1 ? NULL : train_state();
    got_status(tp_train_state_load(train_));
}
static const char *const cases_tp_train_state_load[] = {"?good arguments", "!train = NULL", NULL};

static void call_tp_callback_request_checkpoint(int which)
{
    (void)which;
    tp_callback *cb_ = which == 1 ? NULL : callback();
    tp_callback_request_checkpoint(cb_);
    got_nothing();
}
static const char *const cases_tp_callback_request_checkpoint[] = {"Ggood arguments", "!cb = NULL", NULL};

static void call_tp_train_checkpoint(int which)
{
    (void)which;
    tp_train_state *train_ = which == 1 ? NULL : train_state();
    bool force_ = true;
    got_status(tp_train_checkpoint(train_, force_));
}
static const char *const cases_tp_train_checkpoint[] = {"Ggood arguments", "!train = NULL", NULL};

static void call_tp_monitor_new(int which)
{
    (void)which;
    const char *name_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : "name";
    size_t bytes_ = 8;
    got_monitor(tp_monitor_new(name_, bytes_));
}
static const char *const cases_tp_monitor_new[] = {"Ggood arguments", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", NULL};

static void call_tp_monitor_fail(int which)
{
    (void)which;
    const tp_at *at_ = which == 1 ? NULL : &here;
    tp_status status_ = TP_ERR;
    const char *fmt_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : no_format;
    got_monitor(tp_monitor_fail(at_, status_, fmt_));
}
static const char *const cases_tp_monitor_fail[] = {"?good arguments", "?at = NULL", "?fmt = \":/ \"", "?fmt = 300 letters", "?fmt = \"\"", "?fmt = NULL", NULL};

static void call_tp_monitor_free(int which)
{
    (void)which;
    tp_monitor *m_ = which == 1 ? NULL : monitor_given();
    tp_monitor_free(m_);
    got_nothing();
}
static const char *const cases_tp_monitor_free[] = {"Ggood arguments", "?m = NULL", NULL};

static void call_tp_monitors_new(int which)
{
    (void)which;
    tp_monitor *const *monitor_ = which == 1 ? NULL : list_monitors();
    int n_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT_MIN : 2;
    got_monitors(tp_monitors_new(monitor_, n_));
}
static const char *const cases_tp_monitors_new[] = {"Ggood arguments", "!monitor = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_monitors_put_scalar(int which)
{
    (void)which;
    tp_monitors *m_ = which == 1 ? NULL : monitors();
    const char *name_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    double value_ = 0.5;
    got_status(tp_monitors_put_scalar(m_, name_, value_));
}
static const char *const cases_tp_monitors_put_scalar[] = {"Ggood arguments", "?m = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", NULL};

static void call_tp_monitors_put_int(int which)
{
    (void)which;
    tp_monitors *m_ = which == 1 ? NULL : monitors();
    const char *name_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    int64_t value_ = which == 8 ? -1 : which == 7 ? 0 : which == 6 ? INT64_MIN : 2;
    got_status(tp_monitors_put_int(m_, name_, value_));
}
static const char *const cases_tp_monitors_put_int[] = {"Ggood arguments", "?m = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", "?value = INT64_MIN", "?value = 0", "?value = -1", NULL};

static void call_tp_monitors_process(int which)
{
    (void)which;
    tp_monitors *m_ = which == 1 ? NULL : monitors();
    const char *name_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    double value_ = 0.5;
    got_status(tp_monitors_process(m_, name_, value_));
}
static const char *const cases_tp_monitors_process[] = {"Ggood arguments", "!m = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", NULL};

static void call_tp_monitors_put_image(int which)
{
    (void)which;
    tp_monitors *m_ = which == 1 ? NULL : monitors();
    const char *name_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    const tp_tensor *image_ = which == 6 ? NULL : an_image();
    got_status(tp_monitors_put_image(m_, name_, image_));
}
static const char *const cases_tp_monitors_put_image[] = {"Ggood arguments", "?m = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", "!image = NULL", NULL};

static void call_tp_monitors_put_summary(int which)
{
    (void)which;
    tp_monitors *m_ = which == 1 ? NULL : monitors();
    const tp_summary *summary_ = which == 2 ? NULL : &a_summary;
    got_status(tp_monitors_put_summary(m_, summary_));
}
static const char *const cases_tp_monitors_put_summary[] = {"Ggood arguments", "?m = NULL", "!summary = NULL", NULL};

static void call_tp_monitors_put_event(int which)
{
    (void)which;
    tp_monitors *m_ = which == 1 ? NULL : monitors();
    tp_event *event_ = which == 2 ? NULL : &an_event;
    got_status(tp_monitors_put_event(m_, event_));
}
static const char *const cases_tp_monitors_put_event[] = {"Ggood arguments", "?m = NULL", "!event = NULL", NULL};

static void call_tp_monitors_get_latest(int which)
{
    (void)which;
    const tp_monitors *m_ = which == 1 ? NULL : monitors();
    const char *name_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    tp_stat *stat_ = which == 6 ? NULL : &stat_out;
    got_status(tp_monitors_get_latest(m_, name_, stat_));
}
static const char *const cases_tp_monitors_get_latest[] = {"?good arguments", "!m = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", "!stat = NULL", NULL};

static void call_tp_monitors_get_history(int which)
{
    (void)which;
    const tp_monitors *m_ = which == 1 ? NULL : monitors();
    const char *name_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    const tp_stat **stats_ = which == 6 ? NULL : &stats_out;
    (void)tp_monitors_get_history(m_, name_, stats_);
    got_answer();
}
static const char *const cases_tp_monitors_get_history[] = {"Ggood arguments", "!m = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", "!stats = NULL", NULL};

static void call_tp_cb_proxy(int which)
{
    (void)which;
    tp_callback *cb_ = which == 1 ? NULL : callback_given();
    got_callback(tp_cb_proxy(cb_));
}
static const char *const cases_tp_cb_proxy[] = {"Ggood arguments", "!cb = NULL", NULL};

static void call_tp_proxy_inner(int which)
{
    (void)which;
    const tp_callback *proxy_ = which == 1 ? NULL : callback();
    (void)tp_proxy_inner(proxy_);
    got_answer();
}
static const char *const cases_tp_proxy_inner[] = {"Ggood arguments", "!proxy = NULL", NULL};

static void call_tp_cb_lambda_(int which)
{
    (void)which;
    tp_cb_lambda_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.trigger = trigger_nothing;
    const tp_cb_lambda_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_lambda_(d_));
}
static const char *const cases_tp_cb_lambda_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_lambda_user(int which)
{
    (void)which;
    const tp_callback *cb_ = which == 1 ? NULL : callback();
    (void)tp_lambda_user(cb_);
    got_answer();
}
static const char *const cases_tp_lambda_user[] = {"Ggood arguments", "!cb = NULL", NULL};

static void call_tp_cb_periodic_trigger_(int which)
{
    (void)which;
    tp_cb_periodic_trigger_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.cb = callback_given(), desc.every_k_steps = 1;
    const tp_cb_periodic_trigger_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_periodic_trigger_(d_));
}
static const char *const cases_tp_cb_periodic_trigger_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_cb_enable_if_(int which)
{
    (void)which;
    tp_cb_enable_if_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.cb = callback_given(), desc.pred = always;
    const tp_cb_enable_if_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_enable_if_(d_));
}
static const char *const cases_tp_cb_enable_if_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_cb_periodic_callback_(int which)
{
    (void)which;
    tp_cb_periodic_callback_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.cb = callback_given(), desc.every_k_steps = 1;
    const tp_cb_periodic_callback_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_periodic_callback_(d_));
}
static const char *const cases_tp_cb_periodic_callback_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_cb_group(int which)
{
    (void)which;
    tp_callback *const *cbs_ = which == 1 ? NULL : (which == 2 || which == 3 || which == 4) ? NULL : list_callbacks_given();
    int n_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT_MIN : 2;
    got_callback(tp_cb_group(cbs_, n_));
}
static const char *const cases_tp_cb_group[] = {"Ggood arguments", "!cbs = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_cb_hook(int which)
{
    (void)which;
    tp_hook *hook_ = which == 1 ? NULL : a_hook();
    got_callback(tp_cb_hook(hook_));
}
static const char *const cases_tp_cb_hook[] = {"Ggood arguments", "!hook = NULL", NULL};

static void call_tp_callback_to_hook(int which)
{
    (void)which;
    tp_callback *cb_ = which == 1 ? NULL : callback();
    tp_train_state *train_ = which == 2 ? NULL : train_state();
    (void)tp_callback_to_hook(cb_, train_);
    got_answer();
}
static const char *const cases_tp_callback_to_hook[] = {"Ggood arguments", "!cb = NULL", "?train = NULL", NULL};

static void call_tp_cb_run_op_(int which)
{
    (void)which;
    tp_cb_run_op_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.fn = make_op;
    const tp_cb_run_op_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_run_op_(d_));
}
static const char *const cases_tp_cb_run_op_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_cb_run_update_ops_(int which)
{
    (void)which;
    tp_cb_run_update_ops_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_cb_run_update_ops_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_run_update_ops_(d_));
}
static const char *const cases_tp_cb_run_update_ops_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_cb_moving_average_summary_(int which)
{
    (void)which;
    tp_cb_moving_average_summary_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_cb_moving_average_summary_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_moving_average_summary_(d_));
}
static const char *const cases_tp_cb_moving_average_summary_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_cb_merge_all_summaries_(int which)
{
    (void)which;
    tp_cb_merge_all_summaries_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_cb_merge_all_summaries_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_merge_all_summaries_(d_));
}
static const char *const cases_tp_cb_merge_all_summaries_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_cb_process_tensors_(int which)
{
    (void)which;
    tp_cb_process_tensors_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.names[0] = "cost", desc.fn = process_nothing;
    const tp_cb_process_tensors_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_process_tensors_(d_));
}
static const char *const cases_tp_cb_process_tensors_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_cb_dump_tensors_(int which)
{
    (void)which;
    tp_cb_dump_tensors_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.names[0] = "cost";
    const tp_cb_dump_tensors_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_dump_tensors_(d_));
}
static const char *const cases_tp_cb_dump_tensors_[] = {"?good arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_cb_tensor_printer_(int which)
{
    (void)which;
    tp_cb_dump_tensors_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.names[0] = "cost";
    const tp_cb_dump_tensors_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_tensor_printer_(d_));
}
static const char *const cases_tp_cb_tensor_printer_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_cb_check_numerics_(int which)
{
    (void)which;
    tp_cb_check_numerics_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_cb_check_numerics_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_check_numerics_(d_));
}
static const char *const cases_tp_cb_check_numerics_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_cb_simple_moving_average_(int which)
{
    (void)which;
    tp_cb_simple_moving_average_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.names[0] = "cost", desc.window_size = 2;
    const tp_cb_simple_moving_average_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_simple_moving_average_(d_));
}
static const char *const cases_tp_cb_simple_moving_average_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_cb_dump_tensor_as_image_(int which)
{
    (void)which;
    tp_cb_dump_tensor_as_image_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.tensor_name = "cost";
    const tp_cb_dump_tensor_as_image_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_dump_tensor_as_image_(d_));
}
static const char *const cases_tp_cb_dump_tensor_as_image_[] = {"?good arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_stop_flag_wait(int which)
{
    (void)which;
    tp_stop_flag *f_ = NULL;
    double seconds_ = 0.5;
    (void)tp_stop_flag_wait(f_, seconds_);
    got_answer();
}
static const char *const cases_tp_stop_flag_wait[] = {"?good arguments", "!f = NULL", NULL};

static void call_tp_cb_start_proc_or_thread_(int which)
{
    (void)which;
    tp_cb_start_proc_or_thread_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.startable[0].run = run_nothing;
    const tp_cb_start_proc_or_thread_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_start_proc_or_thread_(d_));
}
static const char *const cases_tp_cb_start_proc_or_thread_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_cb_session_run_timeout(int which)
{
    (void)which;
    int64_t timeout_in_ms_ = which == 3 ? -1 : which == 2 ? 0 : which == 1 ? INT64_MIN : 2;
    got_callback(tp_cb_session_run_timeout(timeout_in_ms_));
}
static const char *const cases_tp_cb_session_run_timeout[] = {"Ggood arguments", "?timeout_in_ms = INT64_MIN", "?timeout_in_ms = 0", "?timeout_in_ms = -1", NULL};

static void call_tp_cb_progress_bar_(int which)
{
    (void)which;
    tp_cb_progress_bar_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_cb_progress_bar_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_progress_bar_(d_));
}
static const char *const cases_tp_cb_progress_bar_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_cb_estimated_time_left_(int which)
{
    (void)which;
    tp_cb_estimated_time_left_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_cb_estimated_time_left_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_estimated_time_left_(d_));
}
static const char *const cases_tp_cb_estimated_time_left_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_cb_throughput_tracker_(int which)
{
    (void)which;
    tp_cb_throughput_tracker_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_cb_throughput_tracker_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_throughput_tracker_(d_));
}
static const char *const cases_tp_cb_throughput_tracker_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_cb_host_memory_tracker(int which)
{
    (void)which;
    got_callback(tp_cb_host_memory_tracker());
}
static const char *const cases_tp_cb_host_memory_tracker[] = {"Ggood arguments", NULL};

static void call_tp_cb_send_stat(int which)
{
    (void)which;
    const char *command_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : "true";
    got_callback(tp_cb_send_stat(command_));
}
static const char *const cases_tp_cb_send_stat[] = {"?good arguments", "?command = \":/ \"", "?command = 300 letters", "?command = \"\"", "!command = NULL", NULL};

static void call_tp_cb_get_latest(int which)
{
    (void)which;
    const char *name_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : "name";
    double *value_ = which == 5 ? NULL : doubles;
    got_callback(tp_cb_get_latest(name_, value_));
}
static const char *const cases_tp_cb_get_latest[] = {"Ggood arguments", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", "!value = NULL", NULL};

static void call_tp_cb_early_stopping_(int which)
{
    (void)which;
    tp_cb_early_stopping_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.monitor_stat = "cost";
    const tp_cb_early_stopping_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_early_stopping_(d_));
}
static const char *const cases_tp_cb_early_stopping_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_cb_gpu_utilization_tracker_(int which)
{
    (void)which;
    tp_cb_gpu_utilization_tracker_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_cb_gpu_utilization_tracker_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_gpu_utilization_tracker_(d_));
}
static const char *const cases_tp_cb_gpu_utilization_tracker_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_cb_gpu_memory_tracker_(int which)
{
    (void)which;
    tp_cb_gpu_memory_tracker_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_cb_gpu_memory_tracker_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_gpu_memory_tracker_(d_));
}
static const char *const cases_tp_cb_gpu_memory_tracker_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_cb_graph_profiler_(int which)
{
    (void)which;
    tp_cb_graph_profiler_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_cb_graph_profiler_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_graph_profiler_(d_));
}
static const char *const cases_tp_cb_graph_profiler_[] = {"?good arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_cb_model_saver_(int which)
{
    (void)which;
    tp_cb_model_saver_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_cb_model_saver_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_model_saver_(d_));
}
static const char *const cases_tp_cb_model_saver_[] = {"?good arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_cb_min_saver_(int which)
{
    (void)which;
    tp_cb_min_saver_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.monitor_stat = "cost";
    const tp_cb_min_saver_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_min_saver_(d_));
}
static const char *const cases_tp_cb_min_saver_[] = {"?good arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_cb_max_saver_(int which)
{
    (void)which;
    tp_cb_min_saver_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.monitor_stat = "cost";
    const tp_cb_min_saver_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_max_saver_(d_));
}
static const char *const cases_tp_cb_max_saver_[] = {"?good arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_inferencer_new(int which)
{
    (void)which;
    const char *name_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : "name";
    size_t bytes_ = 8;
    got_inferencer(tp_inferencer_new(name_, bytes_));
}
static const char *const cases_tp_inferencer_new[] = {"Ggood arguments", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", NULL};

static void call_tp_inferencer_set_names(int which)
{
    (void)which;
    tp_inferencer *inf_ = which == 1 ? NULL : inferencer();
    const char *const *names_ = which == 2 ? NULL : names;
    int n_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : 2;
    got_status(tp_inferencer_set_names(inf_, names_, n_));
}
static const char *const cases_tp_inferencer_set_names[] = {"Ggood arguments", "!inf = NULL", "!names = NULL", "?n = INT_MIN", "?n = 0", "!n = -1", NULL};

static void call_tp_inferencer_fail(int which)
{
    (void)which;
    const tp_at *at_ = which == 1 ? NULL : &here;
    tp_status status_ = TP_ERR;
    const char *fmt_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : no_format;
    got_inferencer(tp_inferencer_fail(at_, status_, fmt_));
}
static const char *const cases_tp_inferencer_fail[] = {"?good arguments", "?at = NULL", "?fmt = \":/ \"", "?fmt = 300 letters", "?fmt = \"\"", "?fmt = NULL", NULL};

static void call_tp_inferencer_free(int which)
{
    (void)which;
    tp_inferencer *inf_ = which == 1 ? NULL : inferencer_given();
    tp_inferencer_free(inf_);
    got_nothing();
}
static const char *const cases_tp_inferencer_free[] = {"Ggood arguments", "?inf = NULL", NULL};

static void call_tp_inf_scalar_stats_(int which)
{
    (void)which;
    tp_inf_scalar_stats_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.names[0] = "cost";
    const tp_inf_scalar_stats_desc *d_ = which == 1 ? NULL : &desc;
    got_inferencer(tp_inf_scalar_stats_(d_));
}
static const char *const cases_tp_inf_scalar_stats_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_inf_classification_error_(int which)
{
    (void)which;
    tp_inf_classification_error_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_inf_classification_error_desc *d_ = which == 1 ? NULL : &desc;
    got_inferencer(tp_inf_classification_error_(d_));
}
static const char *const cases_tp_inf_classification_error_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_inf_binary_classification_(int which)
{
    (void)which;
    tp_inf_binary_classification_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.pred_tensor_name = "p", desc.label_tensor_name = "l";
    const tp_inf_binary_classification_desc *d_ = which == 1 ? NULL : &desc;
    got_inferencer(tp_inf_binary_classification_(d_));
}
static const char *const cases_tp_inf_binary_classification_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_cb_inference_runner_(int which)
{
    (void)which;
    tp_cb_inference_runner_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.df = dataflow_given(), desc.inferencers[0] = inferencer_given();
    const tp_cb_inference_runner_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_inference_runner_(d_));
}
static const char *const cases_tp_cb_inference_runner_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_cb_data_parallel_inference_runner_(int which)
{
    (void)which;
    tp_cb_data_parallel_inference_runner_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_cb_data_parallel_inference_runner_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_data_parallel_inference_runner_(d_));
}
static const char *const cases_tp_cb_data_parallel_inference_runner_[] = {"?good arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_cb_inference_runner_base_(int which)
{
    (void)which;
    tp_cb_inference_runner_base_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.df = dataflow_given(), desc.inferencers[0] = inferencer_given(), desc.build = make_nothing;
    const tp_cb_inference_runner_base_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_inference_runner_base_(d_));
}
static const char *const cases_tp_cb_inference_runner_base_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_inference_runner_register_hook(int which)
{
    (void)which;
    tp_callback *runner_ = which == 1 ? NULL : callback();
    tp_hook *hook_ = which == 2 ? NULL : a_hook();
    got_status(tp_inference_runner_register_hook(runner_, hook_));
}
static const char *const cases_tp_inference_runner_register_hook[] = {"?good arguments", "!runner = NULL", "!hook = NULL", NULL};

static void call_tp_hyper_param_new(int which)
{
    (void)which;
    const char *name_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : "name";
    size_t bytes_ = 8;
    got_hyper_param(tp_hyper_param_new(name_, bytes_));
}
static const char *const cases_tp_hyper_param_new[] = {"Ggood arguments", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", NULL};

static void call_tp_hyper_param_free(int which)
{
    (void)which;
    tp_hyper_param *p_ = which == 1 ? NULL : hyper_param_given();
    tp_hyper_param_free(p_);
    got_nothing();
}
static const char *const cases_tp_hyper_param_free[] = {"Ggood arguments", "?p = NULL", NULL};

static void call_tp_param_graph_var(int which)
{
    (void)which;
    const char *name_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : "name";
    got_hyper_param(tp_param_graph_var(name_));
}
static const char *const cases_tp_param_graph_var[] = {"Ggood arguments", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", NULL};

static void call_tp_param_graph_var_array(int which)
{
    (void)which;
    const char *name_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : "name";
    tp_shape shape_ = which == 8 ? bad_shape(9, 1) : which == 7 ? bad_shape(-1, 1) : which == 6 ? bad_shape(2, -5) : which == 5 ? bad_shape(4, (int64_t)1 << 40) : shape_of(2, 4);
    got_hyper_param(tp_param_graph_var_array(name_, shape_));
}
static const char *const cases_tp_param_graph_var_array[] = {"Ggood arguments", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", "?shape = dimensions of 2^40", "?shape = a dimension of -5", "?shape = -1 dimensions", "?shape = 9 dimensions", NULL};

static void call_tp_param_field(int which)
{
    (void)which;
    const char *name_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : "name";
    void *field_ = which == 5 ? NULL : doubles;
    tp_dtype dtype_ = which == 8 ? TP_DTYPE_UNSET : which == 7 ? (tp_dtype)bad_enum : which == 6 ? (tp_dtype)large_enum : TP_F64;
    got_hyper_param(tp_param_field(name_, field_, dtype_));
}
static const char *const cases_tp_param_field[] = {"Ggood arguments", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", "!field = NULL", "?dtype = 99", "?dtype = -1", "?dtype = 0", NULL};

static void call_tp_cb_hyper_param_setter_(int which)
{
    (void)which;
    tp_cb_hyper_param_setter_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.name = "lr", desc.fn = set_nothing;
    const tp_cb_hyper_param_setter_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_hyper_param_setter_(d_));
}
static const char *const cases_tp_cb_hyper_param_setter_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_setter_current_value(int which)
{
    (void)which;
    tp_callback *setter_ = which == 1 ? NULL : callback();
    double *value_ = which == 2 ? NULL : doubles;
    got_status(tp_setter_current_value(setter_, value_));
}
static const char *const cases_tp_setter_current_value[] = {"?good arguments", "!setter = NULL", "!value = NULL", NULL};

static void call_tp_setter_current_array(int which)
{
    (void)which;
    tp_callback *setter_ = which == 1 ? NULL : callback();
    tp_tensor *value_ = which == 2 ? NULL : tensor_out();
    got_status(tp_setter_current_array(setter_, value_));
}
static const char *const cases_tp_setter_current_array[] = {"?good arguments", "!setter = NULL", "!value = NULL", NULL};

static void call_tp_cb_human_hyper_param_setter_(int which)
{
    (void)which;
    tp_cb_human_hyper_param_setter_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.name = "lr";
    const tp_cb_human_hyper_param_setter_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_human_hyper_param_setter_(d_));
}
static const char *const cases_tp_cb_human_hyper_param_setter_[] = {"?good arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_cb_scheduled_hyper_param_setter_(int which)
{
    (void)which;
    tp_cb_scheduled_hyper_param_setter_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.name = "lr", desc.schedule[0].at = 1;
    const tp_cb_scheduled_hyper_param_setter_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_scheduled_hyper_param_setter_(d_));
}
static const char *const cases_tp_cb_scheduled_hyper_param_setter_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_cb_hyper_param_setter_with_func_(int which)
{
    (void)which;
    tp_cb_hyper_param_setter_with_func_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.name = "lr", desc.fn = same_value;
    const tp_cb_hyper_param_setter_with_func_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_hyper_param_setter_with_func_(d_));
}
static const char *const cases_tp_cb_hyper_param_setter_with_func_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_cb_stat_monitor_param_setter_(int which)
{
    (void)which;
    tp_cb_stat_monitor_param_setter_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.name = "lr", desc.stat_name = "cost", desc.fn = keep_value, desc.last_k = 2;
    const tp_cb_stat_monitor_param_setter_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_stat_monitor_param_setter_(d_));
}
static const char *const cases_tp_cb_stat_monitor_param_setter_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_cb_debug_cli_(int which)
{
    (void)which;
    tp_cb_debug_cli_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_cb_debug_cli_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_debug_cli_(d_));
}
static const char *const cases_tp_cb_debug_cli_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_debug_cli_add_tensor_filter(int which)
{
    (void)which;
    tp_callback *debugger_ = which == 1 ? NULL : callback();
    const char *name_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : "name";
    tp_tensor_filter_fn fn_ = filter_nothing;
    void *user_ = scratch;
    got_status(tp_debug_cli_add_tensor_filter(debugger_, name_, fn_, user_));
}
static const char *const cases_tp_debug_cli_add_tensor_filter[] = {"?good arguments", "!debugger = NULL", "?name = \":/ \"", "?name = 300 letters", "?name = \"\"", "!name = NULL", NULL};

static void call_tp_cb_inject_shell_(int which)
{
    (void)which;
    tp_cb_inject_shell_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_cb_inject_shell_desc *d_ = which == 1 ? NULL : &desc;
    got_callback(tp_cb_inject_shell_(d_));
}
static const char *const cases_tp_cb_inject_shell_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_monitor_tf_event_writer_(int which)
{
    (void)which;
    tp_monitor_tf_event_writer_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_monitor_tf_event_writer_desc *d_ = which == 1 ? NULL : &desc;
    got_monitor(tp_monitor_tf_event_writer_(d_));
}
static const char *const cases_tp_monitor_tf_event_writer_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_monitor_json_writer(int which)
{
    (void)which;
    got_monitor(tp_monitor_json_writer());
}
static const char *const cases_tp_monitor_json_writer[] = {"?good arguments", NULL};

static void call_tp_load_existing_epoch_number(int which)
{
    (void)which;
    const char *dir_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : a_dir();
    int64_t *epoch_ = which == 5 ? NULL : int64s_out;
    got_status(tp_load_existing_epoch_number(dir_, epoch_));
}
static const char *const cases_tp_load_existing_epoch_number[] = {"?good arguments", "?dir = \":/ \"", "?dir = 300 letters", "?dir = \"\"", "?dir = NULL", "!epoch = NULL", NULL};

static void call_tp_load_existing_stats(int which)
{
    (void)which;
    const char *dir_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : a_dir();
    tp_stat_entry **entries_ = which == 5 ? NULL : &records_out;
    int *n_ = which == 6 ? NULL : ints_out;
    got_status(tp_load_existing_stats(dir_, entries_, n_));
}
static const char *const cases_tp_load_existing_stats[] = {"?good arguments", "?dir = \":/ \"", "?dir = 300 letters", "?dir = \"\"", "?dir = NULL", "!entries = NULL", "!n = NULL", NULL};

static void call_tp_load_existing_json(int which)
{
    (void)which;
    const char *dir_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : a_dir();
    char **text_ = which == 5 ? NULL : &chars_out;
    got_status(tp_load_existing_json(dir_, text_));
}
static const char *const cases_tp_load_existing_json[] = {"?good arguments", "?dir = \":/ \"", "?dir = 300 letters", "?dir = \"\"", "?dir = NULL", "!text = NULL", NULL};

static void call_tp_monitor_scalar_printer_(int which)
{
    (void)which;
    tp_monitor_scalar_printer_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_monitor_scalar_printer_desc *d_ = which == 1 ? NULL : &desc;
    got_monitor(tp_monitor_scalar_printer_(d_));
}
static const char *const cases_tp_monitor_scalar_printer_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_monitor_send_data_(int which)
{
    (void)which;
    tp_monitor_send_data_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.command = "true", desc.names[0] = "cost";
    const tp_monitor_send_data_desc *d_ = which == 1 ? NULL : &desc;
    got_monitor(tp_monitor_send_data_(d_));
}
static const char *const cases_tp_monitor_send_data_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_monitor_comet_(int which)
{
    (void)which;
    tp_monitor_comet_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_monitor_comet_desc *d_ = which == 1 ? NULL : &desc;
    got_monitor(tp_monitor_comet_(d_));
}
static const char *const cases_tp_monitor_comet_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_monitor_report_(int which)
{
    (void)which;
    tp_monitor_report_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_monitor_report_desc *d_ = which == 1 ? NULL : &desc;
    got_monitor(tp_monitor_report_(d_));
}
static const char *const cases_tp_monitor_report_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_default_callbacks(int which)
{
    (void)which;
    tp_callback **list_ = which == 1 ? NULL : callbacks_out;
    tp_default_callbacks(list_);
    got_nothing();
}
static const char *const cases_tp_default_callbacks[] = {"Ggood arguments", "!list = NULL", NULL};

static void call_tp_default_monitors(int which)
{
    (void)which;
    tp_monitor **list_ = which == 1 ? NULL : monitors_out;
    tp_default_monitors(list_);
    got_nothing();
}
static const char *const cases_tp_default_monitors[] = {"Ggood arguments", "!list = NULL", NULL};

static void call_tp_cb_maintain_step_counter(int which)
{
    (void)which;
    got_callback(tp_cb_maintain_step_counter());
}
static const char *const cases_tp_cb_maintain_step_counter[] = {"Ggood arguments", NULL};

static void call_tp_simple_trainer(int which)
{
    (void)which;
    got_trainer(tp_simple_trainer());
}
static const char *const cases_tp_simple_trainer[] = {"Ggood arguments", NULL};

static void call_tp_noop_trainer(int which)
{
    (void)which;
    got_trainer(tp_noop_trainer());
}
static const char *const cases_tp_noop_trainer[] = {"Ggood arguments", NULL};

static void call_tp_queue_input_trainer(int which)
{
    (void)which;
    got_trainer(tp_queue_input_trainer());
}
static const char *const cases_tp_queue_input_trainer[] = {"Ggood arguments", NULL};

static void call_tp_trainer_set_seed(int which)
{
    (void)which;
    tp_trainer *t_ = which == 1 ? NULL : trainer();
    uint64_t seed_ = 1;
    got_status(tp_trainer_set_seed(t_, seed_));
}
static const char *const cases_tp_trainer_set_seed[] = {"Ggood arguments", "!t = NULL", NULL};

static void call_tp_trainer_free(int which)
{
    (void)which;
    tp_trainer *t_ = which == 1 ? NULL : trainer_given();
    tp_trainer_free(t_);
    got_nothing();
}
static const char *const cases_tp_trainer_free[] = {"Ggood arguments", "?t = NULL", NULL};

static void call_tp_trainer_setup_graph(int which)
{
    (void)which;
    tp_trainer *t_ = which == 1 ? NULL : trainer();
    const tp_model *m_ = which == 2 ? NULL : &a_model;
    tp_input_source *input_ = which == 3 ? NULL : input_ready_given();
    got_status(tp_trainer_setup_graph(t_, m_, input_));
}
static const char *const cases_tp_trainer_setup_graph[] = {"Ggood arguments", "!t = NULL", "!m = NULL", "!input = NULL", NULL};

static void call_tp_trainer_register_callback(int which)
{
    (void)which;
    tp_trainer *t_ = which == 1 ? NULL : trainer();
    tp_callback *cb_ = which == 2 ? NULL : callback_given();
    got_status(tp_trainer_register_callback(t_, cb_));
}
static const char *const cases_tp_trainer_register_callback[] = {"Ggood arguments", "!t = NULL", "!cb = NULL", NULL};

static void call_tp_trainer_register_callback_ex(int which)
{
    (void)which;
    tp_trainer *t_ = which == 1 ? NULL : trainer();
    tp_callback *cb_ = which == 2 ? NULL : callback_given();
    bool *registered_ = which == 3 ? NULL : &bool_out;
    got_status(tp_trainer_register_callback_ex(t_, cb_, registered_));
}
static const char *const cases_tp_trainer_register_callback_ex[] = {"Ggood arguments", "!t = NULL", "!cb = NULL", "?registered = NULL", NULL};

static void call_tp_trainer_setup_callbacks(int which)
{
    (void)which;
    tp_trainer *t_ = which == 1 ? NULL : trainer();
    tp_callback *const *callbacks_ = which == 2 ? NULL : (which == 3 || which == 4 || which == 5) ? NULL : list_callbacks_given();
    int n_callbacks_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : 2;
    tp_monitor *const *monitors_ = which == 6 ? NULL : (which == 7 || which == 8 || which == 9) ? NULL : list_monitors_given();
    int n_monitors_ = which == 9 ? -1 : which == 8 ? 0 : which == 7 ? INT_MIN : 2;
    got_status(tp_trainer_setup_callbacks(t_, callbacks_, n_callbacks_, monitors_, n_monitors_));
}
static const char *const cases_tp_trainer_setup_callbacks[] = {"Ggood arguments", "!t = NULL", "!callbacks = NULL", "?n_callbacks = INT_MIN", "?n_callbacks = 0", "?n_callbacks = -1", "!monitors = NULL", "?n_monitors = INT_MIN", "?n_monitors = 0", "?n_monitors = -1", NULL};

static void call_tp_trainer_initialize(int which)
{
    (void)which;
    tp_trainer *t_ = which == 1 ? NULL : trainer();
    tp_session_init *init_ = which == 2 ? NULL : an_init_given();
    got_status(tp_trainer_initialize(t_, init_));
}
static const char *const cases_tp_trainer_initialize[] = {"?good arguments", "!t = NULL", "?init = NULL", NULL};

static void call_tp_trainer_initialize_hooks(int which)
{
    (void)which;
    tp_trainer *t_ = which == 1 ? NULL : trainer();
    got_status(tp_trainer_initialize_hooks(t_));
}
static const char *const cases_tp_trainer_initialize_hooks[] = {"?good arguments", "!t = NULL", NULL};

static void call_tp_trainer_hooks(int which)
{
    (void)which;
    tp_trainer *t_ = which == 1 ? NULL : trainer();
    int *n_ = which == 2 ? NULL : ints_out;
    (void)tp_trainer_hooks(t_, n_);
    got_answer();
}
static const char *const cases_tp_trainer_hooks[] = {"Ggood arguments", "!t = NULL", "!n = NULL", NULL};

static void call_tp_trainer_main_loop(int which)
{
    (void)which;
    tp_trainer *t_ = which == 1 ? NULL : trainer();
    int64_t steps_per_epoch_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT64_MIN : 2;
    int64_t starting_epoch_ = which == 7 ? -1 : which == 6 ? 0 : which == 5 ? INT64_MIN : 2;
    int64_t max_epoch_ = which == 10 ? -1 : which == 9 ? 0 : which == 8 ? INT64_MIN : 2;
    got_status(tp_trainer_main_loop(t_, steps_per_epoch_, starting_epoch_, max_epoch_));
}
static const char *const cases_tp_trainer_main_loop[] = {"Sgood arguments", "!t = NULL", "?steps_per_epoch = INT64_MIN", "?steps_per_epoch = 0", "?steps_per_epoch = -1", "?starting_epoch = INT64_MIN", "?starting_epoch = 0", "?starting_epoch = -1", "?max_epoch = INT64_MIN", "?max_epoch = 0", "?max_epoch = -1", NULL};

static void call_tp_trainer_run_step(int which)
{
    (void)which;
    tp_trainer *t_ = which == 1 ? NULL : trainer();
    got_status(tp_trainer_run_step(t_));
}
static const char *const cases_tp_trainer_run_step[] = {"Sgood arguments", "!t = NULL", NULL};

static void call_tp_trainer_monitors(int which)
{
    (void)which;
    tp_trainer *t_ = which == 1 ? NULL : trainer();
    (void)tp_trainer_monitors(t_);
    got_answer();
}
static const char *const cases_tp_trainer_monitors[] = {"Ggood arguments", "!t = NULL", NULL};

static void call_tp_trainer_set_tower_func(int which)
{
    (void)which;
    tp_trainer *t_ = which == 1 ? NULL : trainer();
    tp_tower_func *f_ = which == 2 ? NULL : tower_func();
    got_status(tp_trainer_set_tower_func(t_, f_));
}
static const char *const cases_tp_trainer_set_tower_func[] = {"?good arguments", "!t = NULL", "!f = NULL", NULL};

static void call_tp_trainer_towers(int which)
{
    (void)which;
    tp_trainer *t_ = which == 1 ? NULL : trainer();
    (void)tp_trainer_towers(t_);
    got_answer();
}
static const char *const cases_tp_trainer_towers[] = {"Ggood arguments", "!t = NULL", NULL};

static void call_tp_trainer_inputs_desc(int which)
{
    (void)which;
    tp_trainer *t_ = which == 1 ? NULL : trainer();
    int *n_ = which == 2 ? NULL : ints_out;
    (void)tp_trainer_inputs_desc(t_, n_);
    got_answer();
}
static const char *const cases_tp_trainer_inputs_desc[] = {"Ggood arguments", "!t = NULL", "!n = NULL", NULL};

static void call_tp_trainer_get_predictor(int which)
{
    (void)which;
    tp_trainer *t_ = which == 1 ? NULL : trainer();
    const char *const *input_names_ = which == 2 ? NULL : names;
    int n_inputs_ = which == 5 ? -1 : which == 4 ? 0 : which == 3 ? INT_MIN : 2;
    const char *const *output_names_ = which == 6 ? NULL : names;
    int n_outputs_ = which == 9 ? -1 : which == 8 ? 0 : which == 7 ? INT_MIN : 2;
    int device_ = which == 13 ? -1 : which == 12 ? 0 : which == 11 ? INT_MIN : which == 10 ? INT_MAX : 2;
    got_predictor(tp_trainer_get_predictor(t_, input_names_, n_inputs_, output_names_, n_outputs_, device_));
}
static const char *const cases_tp_trainer_get_predictor[] = {"?good arguments", "!t = NULL", "!input_names = NULL", "?n_inputs = INT_MIN", "?n_inputs = 0", "!n_inputs = -1", "!output_names = NULL", "?n_outputs = INT_MIN", "?n_outputs = 0", "?n_outputs = -1", "?device = INT_MAX", "?device = INT_MIN", "?device = 0", "?device = -1", NULL};

static void call_tp_train(int which)
{
    (void)which;
    tp_trainer *t_ = which == 1 ? NULL : trainer();
    const tp_train_desc *d_ = which == 2 ? NULL : &train_desc;
    got_status(tp_train(t_, d_));
}
static const char *const cases_tp_train[] = {"Sgood arguments", "!t = NULL", "!d = NULL", NULL};

static void call_tp_train_with_defaults(int which)
{
    (void)which;
    tp_trainer *t_ = which == 1 ? NULL : trainer();
    const tp_train_desc *d_ = which == 2 ? NULL : &train_desc;
    got_status(tp_train_with_defaults(t_, d_));
}
static const char *const cases_tp_train_with_defaults[] = {"Sgood arguments", "!t = NULL", "!d = NULL", NULL};

static void call_tp_interrupt(int which)
{
    (void)which;
    (void)tp_interrupt();
    got_answer();
}
static const char *const cases_tp_interrupt[] = {"Ggood arguments", NULL};

static void call_tp_rank(int which)
{
    (void)which;
    (void)tp_rank();
    got_answer();
}
static const char *const cases_tp_rank[] = {"Ggood arguments", NULL};

static void call_tp_size(int which)
{
    (void)which;
    (void)tp_size();
    got_answer();
}
static const char *const cases_tp_size[] = {"Ggood arguments", NULL};

static void call_tp_local_rank(int which)
{
    (void)which;
    (void)tp_local_rank();
    got_answer();
}
static const char *const cases_tp_local_rank[] = {"Ggood arguments", NULL};

static void call_tp_sync_multi_gpu_trainer_replicated_(int which)
{
    (void)which;
    tp_sync_multi_gpu_trainer_replicated_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.n_devices = 2;
    const tp_sync_multi_gpu_trainer_replicated_desc *d_ = which == 1 ? NULL : &desc;
    got_trainer(tp_sync_multi_gpu_trainer_replicated_(d_));
}
static const char *const cases_tp_sync_multi_gpu_trainer_replicated_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_sync_multi_gpu_trainer_parameter_server_(int which)
{
    (void)which;
    tp_sync_multi_gpu_trainer_parameter_server_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.n_devices = 2;
    const tp_sync_multi_gpu_trainer_parameter_server_desc *d_ = which == 1 ? NULL : &desc;
    got_trainer(tp_sync_multi_gpu_trainer_parameter_server_(d_));
}
static const char *const cases_tp_sync_multi_gpu_trainer_parameter_server_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_async_multi_gpu_trainer_(int which)
{
    (void)which;
    tp_async_multi_gpu_trainer_desc desc;
    memset(&desc, 0, sizeof desc);
    if (which != 2 && which != 1) desc.n_devices = 2;
    const tp_async_multi_gpu_trainer_desc *d_ = which == 1 ? NULL : &desc;
    got_trainer(tp_async_multi_gpu_trainer_(d_));
}
static const char *const cases_tp_async_multi_gpu_trainer_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_default_multi_gpu_trainer(int which)
{
    (void)which;
    int n_devices_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT_MIN : which == 1 ? INT_MAX : 2;
    const int *devices_ = which == 5 ? NULL : ints_zero();
    got_trainer(tp_default_multi_gpu_trainer(n_devices_, devices_));
}
static const char *const cases_tp_default_multi_gpu_trainer[] = {"Ggood arguments", "?n_devices = INT_MAX", "?n_devices = INT_MIN", "?n_devices = 0", "?n_devices = -1", "?devices = NULL", NULL};

static void call_tp_logger_set_rank_dir(int which)
{
    (void)which;
    const char *dir_ = which == 4 ? NULL : which == 3 ? "" : which == 2 ? long_text() : which == 1 ? ":/ " : a_path("log");
    char action_ = which == 5 ? 'x' : 'k';
    got_status(tp_logger_set_rank_dir(dir_, action_));
}
static const char *const cases_tp_logger_set_rank_dir[] = {"Ggood arguments", "?dir = \":/ \"", "?dir = 300 letters", "?dir = \"\"", "?dir = NULL", "?action = 'x'", NULL};

static void call_tp_horovod_trainer_(int which)
{
    (void)which;
    tp_horovod_trainer_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_horovod_trainer_desc *d_ = which == 1 ? NULL : &desc;
    got_trainer(tp_horovod_trainer_(d_));
}
static const char *const cases_tp_horovod_trainer_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_cluster_task(int which)
{
    (void)which;
    const tp_cluster *c_ = which == 1 ? NULL : &a_cluster;
    tp_job *job_ = which == 2 ? NULL : &job_out;
    int *task_ = which == 3 ? NULL : ints_out;
    got_status(tp_cluster_task(c_, job_, task_));
}
static const char *const cases_tp_cluster_task[] = {"?good arguments", "!c = NULL", "!job = NULL", "!task = NULL", NULL};

static void call_tp_distributed_trainer_replicated_(int which)
{
    (void)which;
    tp_distributed_trainer_replicated_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_distributed_trainer_replicated_desc *d_ = which == 1 ? NULL : &desc;
    got_trainer(tp_distributed_trainer_replicated_(d_));
}
static const char *const cases_tp_distributed_trainer_replicated_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_distributed_trainer_parameter_server_(int which)
{
    (void)which;
    tp_distributed_trainer_parameter_server_desc desc;
    memset(&desc, 0, sizeof desc);
    const tp_distributed_trainer_parameter_server_desc *d_ = which == 1 ? NULL : &desc;
    got_trainer(tp_distributed_trainer_parameter_server_(d_));
}
static const char *const cases_tp_distributed_trainer_parameter_server_[] = {"Ggood arguments", "!d = NULL", "?a descriptor of zeros", NULL};

static void call_tp_auto_resume_train_config(int which)
{
    (void)which;
    tp_train_config *c_ = which == 1 ? NULL : resume_config();
    got_status(tp_auto_resume_train_config(c_));
}
static const char *const cases_tp_auto_resume_train_config[] = {"?good arguments", "!c = NULL", NULL};

static void call_tp_apply_default_prefetch(int which)
{
    (void)which;
    tp_dataflow *df_ = which == 1 ? NULL : dataflow_given();
    const tp_trainer *t_ = which == 2 ? NULL : trainer();
    got_input(tp_apply_default_prefetch(df_, t_));
}
static const char *const cases_tp_apply_default_prefetch[] = {"Ggood arguments", "!df = NULL", "!t = NULL", NULL};

static void call_tp_launch_train_with_config(int which)
{
    (void)which;
    const tp_train_config *c_ = which == 1 ? NULL : train_config_given();
    tp_trainer *t_ = which == 2 ? NULL : trainer_given();
    got_status(tp_launch_train_with_config(c_, t_));
}
static const char *const cases_tp_launch_train_with_config[] = {"Sgood arguments", "!c = NULL", "!t = NULL", NULL};

static void call_tp_export_c(int which)
{
    (void)which;
    tp_session *s_ = which == 1 ? NULL : session();
    tp_node *const *inputs_ = which == 3 ? NULL : which == 2 ? list_with_null() : list_nodes();
    int n_inputs_ = which == 6 ? -1 : which == 5 ? 0 : which == 4 ? INT_MIN : 2;
    tp_node *const *outputs_ = which == 8 ? NULL : which == 7 ? list_with_null() : list_nodes();
    int n_outputs_ = which == 11 ? -1 : which == 10 ? 0 : which == 9 ? INT_MIN : 2;
    const char *path_ = which == 15 ? NULL : which == 14 ? "" : which == 13 ? long_text() : which == 12 ? ":/ " : a_path("x.c");
    const tp_export_c_desc *d_ = NULL;
    got_status(tp_export_c(s_, inputs_, n_inputs_, outputs_, n_outputs_, path_, d_));
}
static const char *const cases_tp_export_c[] = {"Ggood arguments", "!s = NULL", "?inputs = a list with a NULL", "!inputs = NULL", "?n_inputs = INT_MIN", "?n_inputs = 0", "!n_inputs = -1", "?outputs = a list with a NULL", "!outputs = NULL", "?n_outputs = INT_MIN", "?n_outputs = 0", "?n_outputs = -1", "?path = \":/ \"", "?path = 300 letters", "?path = \"\"", "!path = NULL", "?d = NULL", NULL};

static void call_tp_export_c_text(int which)
{
    (void)which;
    tp_session *s_ = which == 1 ? NULL : session();
    tp_node *const *inputs_ = which == 3 ? NULL : which == 2 ? list_with_null() : list_nodes();
    int n_inputs_ = which == 6 ? -1 : which == 5 ? 0 : which == 4 ? INT_MIN : 2;
    tp_node *const *outputs_ = which == 8 ? NULL : which == 7 ? list_with_null() : list_nodes();
    int n_outputs_ = which == 11 ? -1 : which == 10 ? 0 : which == 9 ? INT_MIN : 2;
    tp_buf *out_ = which == 12 ? NULL : buf();
    const tp_export_c_desc *d_ = NULL;
    tp_export_c_info *info_ = which == 14 ? NULL : &export_info;
    got_status(tp_export_c_text(s_, inputs_, n_inputs_, outputs_, n_outputs_, out_, d_, info_));
}
static const char *const cases_tp_export_c_text[] = {"Ggood arguments", "!s = NULL", "?inputs = a list with a NULL", "!inputs = NULL", "?n_inputs = INT_MIN", "?n_inputs = 0", "!n_inputs = -1", "?outputs = a list with a NULL", "!outputs = NULL", "?n_outputs = INT_MIN", "?n_outputs = 0", "?n_outputs = -1", "?out = NULL", "?d = NULL", "?info = NULL", NULL};

static void call_tp_export_onnx(int which)
{
    (void)which;
    tp_session *s_ = which == 1 ? NULL : session();
    tp_node *const *inputs_ = which == 3 ? NULL : which == 2 ? list_with_null() : list_nodes();
    int n_inputs_ = which == 6 ? -1 : which == 5 ? 0 : which == 4 ? INT_MIN : 2;
    tp_node *const *outputs_ = which == 8 ? NULL : which == 7 ? list_with_null() : list_nodes();
    int n_outputs_ = which == 11 ? -1 : which == 10 ? 0 : which == 9 ? INT_MIN : 2;
    const char *path_ = which == 15 ? NULL : which == 14 ? "" : which == 13 ? long_text() : which == 12 ? ":/ " : a_path("x.onnx");
    const tp_export_onnx_desc *d_ = NULL;
    got_status(tp_export_onnx(s_, inputs_, n_inputs_, outputs_, n_outputs_, path_, d_));
}
static const char *const cases_tp_export_onnx[] = {"Ggood arguments", "!s = NULL", "?inputs = a list with a NULL", "!inputs = NULL", "?n_inputs = INT_MIN", "?n_inputs = 0", "!n_inputs = -1", "?outputs = a list with a NULL", "!outputs = NULL", "?n_outputs = INT_MIN", "?n_outputs = 0", "?n_outputs = -1", "?path = \":/ \"", "?path = 300 letters", "?path = \"\"", "!path = NULL", "?d = NULL", NULL};

static void call_tp_export_onnx_buf(int which)
{
    (void)which;
    tp_session *s_ = which == 1 ? NULL : session();
    tp_node *const *inputs_ = which == 3 ? NULL : which == 2 ? list_with_null() : list_nodes();
    int n_inputs_ = which == 6 ? -1 : which == 5 ? 0 : which == 4 ? INT_MIN : 2;
    tp_node *const *outputs_ = which == 8 ? NULL : which == 7 ? list_with_null() : list_nodes();
    int n_outputs_ = which == 11 ? -1 : which == 10 ? 0 : which == 9 ? INT_MIN : 2;
    tp_buf *out_ = which == 12 ? NULL : buf();
    const tp_export_onnx_desc *d_ = NULL;
    got_status(tp_export_onnx_buf(s_, inputs_, n_inputs_, outputs_, n_outputs_, out_, d_));
}
static const char *const cases_tp_export_onnx_buf[] = {"Ggood arguments", "!s = NULL", "?inputs = a list with a NULL", "!inputs = NULL", "?n_inputs = INT_MIN", "?n_inputs = 0", "!n_inputs = -1", "?outputs = a list with a NULL", "!outputs = NULL", "?n_outputs = INT_MIN", "?n_outputs = 0", "?n_outputs = -1", "!out = NULL", "?d = NULL", NULL};

static void call_tp_model_exporter_new(int which)
{
    (void)which;
    const tp_predict_config *c_ = which == 1 ? NULL : predict_config();
    got_exporter(tp_model_exporter_new(c_));
}
static const char *const cases_tp_model_exporter_new[] = {"Ggood arguments", "!c = NULL", NULL};

static void call_tp_model_exporter_free(int which)
{
    (void)which;
    tp_model_exporter *x_ = which == 1 ? NULL : exporter_given();
    tp_model_exporter_free(x_);
    got_nothing();
}
static const char *const cases_tp_model_exporter_free[] = {"Ggood arguments", "?x = NULL", NULL};

static void call_tp_model_exporter_session(int which)
{
    (void)which;
    tp_model_exporter *x_ = which == 1 ? NULL : exporter();
    (void)tp_model_exporter_session(x_);
    got_answer();
}
static const char *const cases_tp_model_exporter_session[] = {"Ggood arguments", "!x = NULL", NULL};

static void call_tp_export_compact(int which)
{
    (void)which;
    tp_model_exporter *x_ = which == 1 ? NULL : exporter();
    const char *path_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : a_path("compact.npz");
    const tp_export_compact_desc *d_ = NULL;
    got_status(tp_export_compact(x_, path_, d_));
}
static const char *const cases_tp_export_compact[] = {"Ggood arguments", "!x = NULL", "?path = \":/ \"", "?path = 300 letters", "?path = \"\"", "!path = NULL", "?d = NULL", NULL};

static void call_tp_export_serving(int which)
{
    (void)which;
    tp_model_exporter *x_ = which == 1 ? NULL : exporter();
    const char *dir_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : a_path("served");
    const tp_export_serving_desc *d_ = NULL;
    got_status(tp_export_serving(x_, dir_, d_));
}
static const char *const cases_tp_export_serving[] = {"?good arguments", "!x = NULL", "?dir = \":/ \"", "?dir = 300 letters", "?dir = \"\"", "!dir = NULL", "?d = NULL", NULL};

static void call_tp_import_onnx(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const char *path_ = which == 5 ? NULL : which == 4 ? "" : which == 3 ? long_text() : which == 2 ? ":/ " : a_path("in.onnx");
    const tp_import_onnx_desc *d_ = NULL;
    tp_onnx_model *m_ = which == 7 ? NULL : &onnx_model;
    got_status(tp_import_onnx(g_, path_, d_, m_));
}
static const char *const cases_tp_import_onnx[] = {"?good arguments", "!g = NULL", "?path = \":/ \"", "?path = 300 letters", "?path = \"\"", "!path = NULL", "?d = NULL", "!m = NULL", NULL};

static void call_tp_import_onnx_parse(int which)
{
    (void)which;
    tp_graph *g_ = which == 1 ? NULL : graph();
    const void *data_ = which == 2 ? NULL : bytes;
    size_t size_ = sizeof bytes;
    const char *what_ = which == 6 ? NULL : which == 5 ? "" : which == 4 ? long_text() : which == 3 ? ":/ " : "name";
    const tp_import_onnx_desc *d_ = NULL;
    tp_onnx_model *m_ = which == 8 ? NULL : &onnx_model;
    got_status(tp_import_onnx_parse(g_, data_, size_, what_, d_, m_));
}
static const char *const cases_tp_import_onnx_parse[] = {"?good arguments", "!g = NULL", "!data = NULL", "?what = \":/ \"", "?what = 300 letters", "?what = \"\"", "!what = NULL", "?d = NULL", "!m = NULL", NULL};

static void call_tp_import_onnx_operator(int which)
{
    (void)which;
    int i_ = which == 4 ? -1 : which == 3 ? 0 : which == 2 ? INT_MIN : which == 1 ? INT_MAX : 0;
    (void)tp_import_onnx_operator(i_);
    got_answer();
}
static const char *const cases_tp_import_onnx_operator[] = {"Ggood arguments", "?i = INT_MAX", "?i = INT_MIN", "?i = 0", "?i = -1", NULL};

static const misuse_call misuse_calls[] = {
    {"tp_version", call_tp_version, cases_tp_version},
    {"tp_last_error", call_tp_last_error, cases_tp_last_error},
    {"tp_fail", call_tp_fail, cases_tp_fail},
    {"tp_status_name", call_tp_status_name, cases_tp_status_name},
    {"tp_format_double", call_tp_format_double, cases_tp_format_double},
    {"tp_format_float", call_tp_format_float, cases_tp_format_float},
    {"tp_parse_double", call_tp_parse_double, cases_tp_parse_double},
    {"tp_parse_float", call_tp_parse_float, cases_tp_parse_float},
    {"tp_log", call_tp_log, cases_tp_log},
    {"tp_log_once", call_tp_log_once, cases_tp_log_once},
    {"tp_logger_set_dir", call_tp_logger_set_dir, cases_tp_logger_set_dir},
    {"tp_logger_auto_set_dir", call_tp_logger_auto_set_dir, cases_tp_logger_auto_set_dir},
    {"tp_logger_dir", call_tp_logger_dir, cases_tp_logger_dir},
    {"tp_memory_in_use", call_tp_memory_in_use, cases_tp_memory_in_use},
    {"tp_malloc", call_tp_malloc, cases_tp_malloc},
    {"tp_calloc", call_tp_calloc, cases_tp_calloc},
    {"tp_realloc", call_tp_realloc, cases_tp_realloc},
    {"tp_free", call_tp_free, cases_tp_free},
    {"tp_alloc_aligned", call_tp_alloc_aligned, cases_tp_alloc_aligned},
    {"tp_free_aligned", call_tp_free_aligned, cases_tp_free_aligned},
    {"tp_mul_size", call_tp_mul_size, cases_tp_mul_size},
    {"tp_strdup", call_tp_strdup, cases_tp_strdup},
    {"tp_arena_alloc", call_tp_arena_alloc, cases_tp_arena_alloc},
    {"tp_arena_strdup", call_tp_arena_strdup, cases_tp_arena_strdup},
    {"tp_arena_printf", call_tp_arena_printf, cases_tp_arena_printf},
    {"tp_arena_free", call_tp_arena_free, cases_tp_arena_free},
    {"tp_buf_put", call_tp_buf_put, cases_tp_buf_put},
    {"tp_buf_printf", call_tp_buf_printf, cases_tp_buf_printf},
    {"tp_buf_free", call_tp_buf_free, cases_tp_buf_free},
    {"tp_dtype_size", call_tp_dtype_size, cases_tp_dtype_size},
    {"tp_dtype_name", call_tp_dtype_name, cases_tp_dtype_name},
    {"tp_dtype_is_float", call_tp_dtype_is_float, cases_tp_dtype_is_float},
    {"tp_f16_to_f32", call_tp_f16_to_f32, cases_tp_f16_to_f32},
    {"tp_f32_to_f16", call_tp_f32_to_f16, cases_tp_f32_to_f16},
    {"tp_bf16_to_f32", call_tp_bf16_to_f32, cases_tp_bf16_to_f32},
    {"tp_f32_to_bf16", call_tp_f32_to_bf16, cases_tp_f32_to_bf16},
    {"tp_convert", call_tp_convert, cases_tp_convert},
    {"tp_make_shape_n", call_tp_make_shape_n, cases_tp_make_shape_n},
    {"tp_shape_size", call_tp_shape_size, cases_tp_shape_size},
    {"tp_shape_known", call_tp_shape_known, cases_tp_shape_known},
    {"tp_shape_equal", call_tp_shape_equal, cases_tp_shape_equal},
    {"tp_shape_compatible", call_tp_shape_compatible, cases_tp_shape_compatible},
    {"tp_shape_text", call_tp_shape_text, cases_tp_shape_text},
    {"tp_tensor_resize", call_tp_tensor_resize, cases_tp_tensor_resize},
    {"tp_tensor_view", call_tp_tensor_view, cases_tp_tensor_view},
    {"tp_tensor_copy", call_tp_tensor_copy, cases_tp_tensor_copy},
    {"tp_tensor_free", call_tp_tensor_free, cases_tp_tensor_free},
    {"tp_tensor_to_device", call_tp_tensor_to_device, cases_tp_tensor_to_device},
    {"tp_tensor_stage", call_tp_tensor_stage, cases_tp_tensor_stage},
    {"tp_tensor_unstage", call_tp_tensor_unstage, cases_tp_tensor_unstage},
    {"tp_tensor_bytes", call_tp_tensor_bytes, cases_tp_tensor_bytes},
    {"tp_tensor_size", call_tp_tensor_size, cases_tp_tensor_size},
    {"tp_tensor_get", call_tp_tensor_get, cases_tp_tensor_get},
    {"tp_tensor_set", call_tp_tensor_set, cases_tp_tensor_set},
    {"tp_scalar_view", call_tp_scalar_view, cases_tp_scalar_view},
    {"tp_philox", call_tp_philox, cases_tp_philox},
    {"tp_random_key", call_tp_random_key, cases_tp_random_key},
    {"tp_random_u32", call_tp_random_u32, cases_tp_random_u32},
    {"tp_random_uniform", call_tp_random_uniform, cases_tp_random_uniform},
    {"tp_random_normal", call_tp_random_normal, cases_tp_random_normal},
    {"tp_hash", call_tp_hash, cases_tp_hash},
    {"tp_hash_name", call_tp_hash_name, cases_tp_hash_name},
    {"tp_random_permutation", call_tp_random_permutation, cases_tp_random_permutation},
    {"tp_pool_new", call_tp_pool_new, cases_tp_pool_new},
    {"tp_pool_free", call_tp_pool_free, cases_tp_pool_free},
    {"tp_pool_threads", call_tp_pool_threads, cases_tp_pool_threads},
    {"tp_pool_run", call_tp_pool_run, cases_tp_pool_run},
    {"tp_time", call_tp_time, cases_tp_time},
    {"tp_thread_start", call_tp_thread_start, cases_tp_thread_start},
    {"tp_thread_join", call_tp_thread_join, cases_tp_thread_join},
    {"tp_thread_detach", call_tp_thread_detach, cases_tp_thread_detach},
    {"tp_mutex_new", call_tp_mutex_new, cases_tp_mutex_new},
    {"tp_mutex_free", call_tp_mutex_free, cases_tp_mutex_free},
    {"tp_mutex_lock", call_tp_mutex_lock, cases_tp_mutex_lock},
    {"tp_mutex_unlock", call_tp_mutex_unlock, cases_tp_mutex_unlock},
    {"tp_cond_new", call_tp_cond_new, cases_tp_cond_new},
    {"tp_cond_free", call_tp_cond_free, cases_tp_cond_free},
    {"tp_cond_wait_for", call_tp_cond_wait_for, cases_tp_cond_wait_for},
    {"tp_cond_signal", call_tp_cond_signal, cases_tp_cond_signal},
    {"tp_cond_broadcast", call_tp_cond_broadcast, cases_tp_cond_broadcast},
    {"tp_kernel_fault", call_tp_kernel_fault, cases_tp_kernel_fault},
    {"tp_device_ready", call_tp_device_ready, cases_tp_device_ready},
    {"tp_cpu_device_new", call_tp_cpu_device_new, cases_tp_cpu_device_new},
    {"tp_cpu_devices_new", call_tp_cpu_devices_new, cases_tp_cpu_devices_new},
    {"tp_device_isa", call_tp_device_isa, cases_tp_device_isa},
    {"tp_device_memory", call_tp_device_memory, cases_tp_device_memory},
    {"tp_device_utilization", call_tp_device_utilization, cases_tp_device_utilization},
    {"tp_device_add_kernel", call_tp_device_add_kernel, cases_tp_device_add_kernel},
    {"tp_device_parallel", call_tp_device_parallel, cases_tp_device_parallel},
    {"tp_vec_find_add", call_tp_vec_find_add, cases_tp_vec_find_add},
    {"tp_vec_find_sub", call_tp_vec_find_sub, cases_tp_vec_find_sub},
    {"tp_vec_find_mul", call_tp_vec_find_mul, cases_tp_vec_find_mul},
    {"tp_vec_find_div", call_tp_vec_find_div, cases_tp_vec_find_div},
    {"tp_vec_find_pow", call_tp_vec_find_pow, cases_tp_vec_find_pow},
    {"tp_vec_find_max", call_tp_vec_find_max, cases_tp_vec_find_max},
    {"tp_vec_find_min", call_tp_vec_find_min, cases_tp_vec_find_min},
    {"tp_vec_find_floordiv", call_tp_vec_find_floordiv, cases_tp_vec_find_floordiv},
    {"tp_vec_find_mod", call_tp_vec_find_mod, cases_tp_vec_find_mod},
    {"tp_vec_find_relu_grad", call_tp_vec_find_relu_grad, cases_tp_vec_find_relu_grad},
    {"tp_vec_find_elu_grad", call_tp_vec_find_elu_grad, cases_tp_vec_find_elu_grad},
    {"tp_vec_find_neg", call_tp_vec_find_neg, cases_tp_vec_find_neg},
    {"tp_vec_find_abs", call_tp_vec_find_abs, cases_tp_vec_find_abs},
    {"tp_vec_find_square", call_tp_vec_find_square, cases_tp_vec_find_square},
    {"tp_vec_find_sqrt", call_tp_vec_find_sqrt, cases_tp_vec_find_sqrt},
    {"tp_vec_find_rsqrt", call_tp_vec_find_rsqrt, cases_tp_vec_find_rsqrt},
    {"tp_vec_find_reciprocal", call_tp_vec_find_reciprocal, cases_tp_vec_find_reciprocal},
    {"tp_vec_find_exp", call_tp_vec_find_exp, cases_tp_vec_find_exp},
    {"tp_vec_find_log", call_tp_vec_find_log, cases_tp_vec_find_log},
    {"tp_vec_find_tanh", call_tp_vec_find_tanh, cases_tp_vec_find_tanh},
    {"tp_vec_find_sigmoid", call_tp_vec_find_sigmoid, cases_tp_vec_find_sigmoid},
    {"tp_vec_find_relu", call_tp_vec_find_relu, cases_tp_vec_find_relu},
    {"tp_vec_find_erf", call_tp_vec_find_erf, cases_tp_vec_find_erf},
    {"tp_vec_find_softplus", call_tp_vec_find_softplus, cases_tp_vec_find_softplus},
    {"tp_vec_find_elu", call_tp_vec_find_elu, cases_tp_vec_find_elu},
    {"tp_vec_find_sin", call_tp_vec_find_sin, cases_tp_vec_find_sin},
    {"tp_vec_find_cos", call_tp_vec_find_cos, cases_tp_vec_find_cos},
    {"tp_vec_find_asin", call_tp_vec_find_asin, cases_tp_vec_find_asin},
    {"tp_vec_find_acos", call_tp_vec_find_acos, cases_tp_vec_find_acos},
    {"tp_vec_find_atan", call_tp_vec_find_atan, cases_tp_vec_find_atan},
    {"tp_vec_find_sign", call_tp_vec_find_sign, cases_tp_vec_find_sign},
    {"tp_vec_find_floor", call_tp_vec_find_floor, cases_tp_vec_find_floor},
    {"tp_vec_find_ceil", call_tp_vec_find_ceil, cases_tp_vec_find_ceil},
    {"tp_vec_find_round", call_tp_vec_find_round, cases_tp_vec_find_round},
    {"tp_vec_find_affine", call_tp_vec_find_affine, cases_tp_vec_find_affine},
    {"tp_vec_find_clip", call_tp_vec_find_clip, cases_tp_vec_find_clip},
    {"tp_vec_find_leaky_relu", call_tp_vec_find_leaky_relu, cases_tp_vec_find_leaky_relu},
    {"tp_vec_find_clip_grad", call_tp_vec_find_clip_grad, cases_tp_vec_find_clip_grad},
    {"tp_vec_find_leaky_relu_grad", call_tp_vec_find_leaky_relu_grad, cases_tp_vec_find_leaky_relu_grad},
    {"tp_vec_sum", call_tp_vec_sum, cases_tp_vec_sum},
    {"tp_vec_dot", call_tp_vec_dot, cases_tp_vec_dot},
    {"tp_vec_max", call_tp_vec_max, cases_tp_vec_max},
    {"tp_vec_adam", call_tp_vec_adam, cases_tp_vec_adam},
    {"tp_expf", call_tp_expf, cases_tp_expf},
    {"tp_logf", call_tp_logf, cases_tp_logf},
    {"tp_tanhf", call_tp_tanhf, cases_tp_tanhf},
    {"tp_erff", call_tp_erff, cases_tp_erff},
    {"tp_file_read", call_tp_file_read, cases_tp_file_read},
    {"tp_file_exists", call_tp_file_exists, cases_tp_file_exists},
    {"tp_make_dirs", call_tp_make_dirs, cases_tp_make_dirs},
    {"tp_writer_open", call_tp_writer_open, cases_tp_writer_open},
    {"tp_writer_put", call_tp_writer_put, cases_tp_writer_put},
    {"tp_writer_commit", call_tp_writer_commit, cases_tp_writer_commit},
    {"tp_writer_abort", call_tp_writer_abort, cases_tp_writer_abort},
    {"tp_crc32", call_tp_crc32, cases_tp_crc32},
    {"tp_crc32c", call_tp_crc32c, cases_tp_crc32c},
    {"tp_inflate", call_tp_inflate, cases_tp_inflate},
    {"tp_inflate_alloc", call_tp_inflate_alloc, cases_tp_inflate_alloc},
    {"tp_deflate", call_tp_deflate, cases_tp_deflate},
    {"tp_npy_save", call_tp_npy_save, cases_tp_npy_save},
    {"tp_npy_load", call_tp_npy_load, cases_tp_npy_load},
    {"tp_npy_parse", call_tp_npy_parse, cases_tp_npy_parse},
    {"tp_dict_find", call_tp_dict_find, cases_tp_dict_find},
    {"tp_dict_add", call_tp_dict_add, cases_tp_dict_add},
    {"tp_dict_free", call_tp_dict_free, cases_tp_dict_free},
    {"tp_npz_load", call_tp_npz_load, cases_tp_npz_load},
    {"tp_npz_save", call_tp_npz_save, cases_tp_npz_save},
    {"tp_npz_open", call_tp_npz_open, cases_tp_npz_open},
    {"tp_npz_put", call_tp_npz_put, cases_tp_npz_put},
    {"tp_npz_close", call_tp_npz_close, cases_tp_npz_close},
    {"tp_npz_abort", call_tp_npz_abort, cases_tp_npz_abort},
    {"tp_safetensors_load", call_tp_safetensors_load, cases_tp_safetensors_load},
    {"tp_safetensors_parse", call_tp_safetensors_parse, cases_tp_safetensors_parse},
    {"tp_safetensors_save", call_tp_safetensors_save, cases_tp_safetensors_save},
    {"tp_tf_checkpoint_load", call_tp_tf_checkpoint_load, cases_tp_tf_checkpoint_load},
    {"tp_tf_checkpoint_save", call_tp_tf_checkpoint_save, cases_tp_tf_checkpoint_save},
    {"tp_op_registry", call_tp_op_registry, cases_tp_op_registry},
    {"tp_op_find", call_tp_op_find, cases_tp_op_find},
    {"tp_infer_fail", call_tp_infer_fail, cases_tp_infer_fail},
    {"tp_apply", call_tp_apply, cases_tp_apply},
    {"tp_apply_ex", call_tp_apply_ex, cases_tp_apply_ex},
    {"tp_graph_new", call_tp_graph_new, cases_tp_graph_new},
    {"tp_graph_free", call_tp_graph_free, cases_tp_graph_free},
    {"tp_graph_status", call_tp_graph_status, cases_tp_graph_status},
    {"tp_graph_error", call_tp_graph_error, cases_tp_graph_error},
    {"tp_graph_seed", call_tp_graph_seed, cases_tp_graph_seed},
    {"tp_graph_fail", call_tp_graph_fail, cases_tp_graph_fail},
    {"tp_is_poison", call_tp_is_poison, cases_tp_is_poison},
    {"tp_poison", call_tp_poison, cases_tp_poison},
    {"tp_node_graph", call_tp_node_graph, cases_tp_node_graph},
    {"tp_graph_set_at", call_tp_graph_set_at, cases_tp_graph_set_at},
    {"tp_graph_alloc", call_tp_graph_alloc, cases_tp_graph_alloc},
    {"tp_graph_strdup", call_tp_graph_strdup, cases_tp_graph_strdup},
    {"tp_graph_n_operations", call_tp_graph_n_operations, cases_tp_graph_n_operations},
    {"tp_graph_operation", call_tp_graph_operation, cases_tp_graph_operation},
    {"tp_graph_n_variables", call_tp_graph_n_variables, cases_tp_graph_n_variables},
    {"tp_graph_variable", call_tp_graph_variable, cases_tp_graph_variable},
    {"tp_graph_finalize", call_tp_graph_finalize, cases_tp_graph_finalize},
    {"tp_graph_describe_variables", call_tp_graph_describe_variables, cases_tp_graph_describe_variables},
    {"tp_graph_to_dot", call_tp_graph_to_dot, cases_tp_graph_to_dot},
    {"tp_graph_find", call_tp_graph_find, cases_tp_graph_find},
    {"tp_graph_find_operation", call_tp_graph_find_operation, cases_tp_graph_find_operation},
    {"tp_node_name", call_tp_node_name, cases_tp_node_name},
    {"tp_named", call_tp_named, cases_tp_named},
    {"tp_name_scope_push", call_tp_name_scope_push, cases_tp_name_scope_push},
    {"tp_name_scope_pop", call_tp_name_scope_pop, cases_tp_name_scope_pop},
    {"tp_name_scope", call_tp_name_scope, cases_tp_name_scope},
    {"tp_cached_name_scope_push", call_tp_cached_name_scope_push, cases_tp_cached_name_scope_push},
    {"tp_variable_scope_push", call_tp_variable_scope_push, cases_tp_variable_scope_push},
    {"tp_variable_scope_pop", call_tp_variable_scope_pop, cases_tp_variable_scope_pop},
    {"tp_variable_scope", call_tp_variable_scope, cases_tp_variable_scope},
    {"tp_variable_scope_reuse", call_tp_variable_scope_reuse, cases_tp_variable_scope_reuse},
    {"tp_device_enter", call_tp_device_enter, cases_tp_device_enter},
    {"tp_device_leave", call_tp_device_leave, cases_tp_device_leave},
    {"tp_current_device", call_tp_current_device, cases_tp_current_device},
    {"tp_node_device", call_tp_node_device, cases_tp_node_device},
    {"tp_auto_reuse_variable_scope_push", call_tp_auto_reuse_variable_scope_push, cases_tp_auto_reuse_variable_scope_push},
    {"tp_under_variable_scope_push", call_tp_under_variable_scope_push, cases_tp_under_variable_scope_push},
    {"tp_under_name_scope_push", call_tp_under_name_scope_push, cases_tp_under_name_scope_push},
    {"tp_remap_variables_push", call_tp_remap_variables_push, cases_tp_remap_variables_push},
    {"tp_freeze_variables_push", call_tp_freeze_variables_push, cases_tp_freeze_variables_push},
    {"tp_freeze_variables_", call_tp_freeze_variables_, cases_tp_freeze_variables_},
    {"tp_collection_add", call_tp_collection_add, cases_tp_collection_add},
    {"tp_collection", call_tp_collection, cases_tp_collection},
    {"tp_backup_collection", call_tp_backup_collection, cases_tp_backup_collection},
    {"tp_restore_collection", call_tp_restore_collection, cases_tp_restore_collection},
    {"tp_get_variable", call_tp_get_variable, cases_tp_get_variable},
    {"tp_get_variable_as", call_tp_get_variable_as, cases_tp_get_variable_as},
    {"tp_getter_next", call_tp_getter_next, cases_tp_getter_next},
    {"tp_get_scalar_variable", call_tp_get_scalar_variable, cases_tp_get_scalar_variable},
    {"tp_find_variable", call_tp_find_variable, cases_tp_find_variable},
    {"tp_node_variable", call_tp_node_variable, cases_tp_node_variable},
    {"tp_get_global_step_var", call_tp_get_global_step_var, cases_tp_get_global_step_var},
    {"tp_init_constant", call_tp_init_constant, cases_tp_init_constant},
    {"tp_init_zeros", call_tp_init_zeros, cases_tp_init_zeros},
    {"tp_init_ones", call_tp_init_ones, cases_tp_init_ones},
    {"tp_init_normal", call_tp_init_normal, cases_tp_init_normal},
    {"tp_init_truncated_normal", call_tp_init_truncated_normal, cases_tp_init_truncated_normal},
    {"tp_init_uniform", call_tp_init_uniform, cases_tp_init_uniform},
    {"tp_init_variance_scaling", call_tp_init_variance_scaling, cases_tp_init_variance_scaling},
    {"tp_init_glorot_uniform", call_tp_init_glorot_uniform, cases_tp_init_glorot_uniform},
    {"tp_init_values", call_tp_init_values, cases_tp_init_values},
    {"tp_init_fill", call_tp_init_fill, cases_tp_init_fill},
    {"tp_tower_enter", call_tp_tower_enter, cases_tp_tower_enter},
    {"tp_tower_leave", call_tp_tower_leave, cases_tp_tower_leave},
    {"tp_current_tower_context", call_tp_current_tower_context, cases_tp_current_tower_context},
    {"tp_tower_collection", call_tp_tower_collection, cases_tp_tower_collection},
    {"tp_build_on_towers", call_tp_build_on_towers, cases_tp_build_on_towers},
    {"tp_tower_all_reduce", call_tp_tower_all_reduce, cases_tp_tower_all_reduce},
    {"tp_tower_func_new", call_tp_tower_func_new, cases_tp_tower_func_new},
    {"tp_tower_func_call", call_tp_tower_func_call, cases_tp_tower_func_call},
    {"tp_tower_func_signature", call_tp_tower_func_signature, cases_tp_tower_func_signature},
    {"tp_tower_func_n_towers", call_tp_tower_func_n_towers, cases_tp_tower_func_n_towers},
    {"tp_tower_func_tower", call_tp_tower_func_tower, cases_tp_tower_func_tower},
    {"tp_tower_func_find", call_tp_tower_func_find, cases_tp_tower_func_find},
    {"tp_tower_func_towers", call_tp_tower_func_towers, cases_tp_tower_func_towers},
    {"tp_tower_handles_n", call_tp_tower_handles_n, cases_tp_tower_handles_n},
    {"tp_tower_handles_at", call_tp_tower_handles_at, cases_tp_tower_handles_at},
    {"tp_tower_handles_find", call_tp_tower_handles_find, cases_tp_tower_handles_find},
    {"tp_tower_handle_get", call_tp_tower_handle_get, cases_tp_tower_handle_get},
    {"tp_tower_handle_get_variable", call_tp_tower_handle_get_variable, cases_tp_tower_handle_get_variable},
    {"tp_tower_handle_get_tensors", call_tp_tower_handle_get_tensors, cases_tp_tower_handle_get_tensors},
    {"tp_tower_handle_get_variables", call_tp_tower_handle_get_variables, cases_tp_tower_handle_get_variables},
    {"tp_tower_handle_get_collection", call_tp_tower_handle_get_collection, cases_tp_tower_handle_get_collection},
    {"tp_gradients", call_tp_gradients, cases_tp_gradients},
    {"tp_gradients_from", call_tp_gradients_from, cases_tp_gradients_from},
    {"tp_depends_on", call_tp_depends_on, cases_tp_depends_on},
    {"tp_dependency_of_fetches", call_tp_dependency_of_fetches, cases_tp_dependency_of_fetches},
    {"tp_placeholder", call_tp_placeholder, cases_tp_placeholder},
    {"tp_constant", call_tp_constant, cases_tp_constant},
    {"tp_const", call_tp_const, cases_tp_const},
    {"tp_const_as", call_tp_const_as, cases_tp_const_as},
    {"tp_fill_like", call_tp_fill_like, cases_tp_fill_like},
    {"tp_zeros_like", call_tp_zeros_like, cases_tp_zeros_like},
    {"tp_ones_like", call_tp_ones_like, cases_tp_ones_like},
    {"tp_identity", call_tp_identity, cases_tp_identity},
    {"tp_stop_gradient", call_tp_stop_gradient, cases_tp_stop_gradient},
    {"tp_group", call_tp_group, cases_tp_group},
    {"tp_with_dependencies", call_tp_with_dependencies, cases_tp_with_dependencies},
    {"tp_print", call_tp_print, cases_tp_print},
    {"tp_check_numerics", call_tp_check_numerics, cases_tp_check_numerics},
    {"tp_add", call_tp_add, cases_tp_add},
    {"tp_sub", call_tp_sub, cases_tp_sub},
    {"tp_mul", call_tp_mul, cases_tp_mul},
    {"tp_div", call_tp_div, cases_tp_div},
    {"tp_pow", call_tp_pow, cases_tp_pow},
    {"tp_maximum", call_tp_maximum, cases_tp_maximum},
    {"tp_minimum", call_tp_minimum, cases_tp_minimum},
    {"tp_squared_difference", call_tp_squared_difference, cases_tp_squared_difference},
    {"tp_floordiv", call_tp_floordiv, cases_tp_floordiv},
    {"tp_mod", call_tp_mod, cases_tp_mod},
    {"tp_greater", call_tp_greater, cases_tp_greater},
    {"tp_greater_equal", call_tp_greater_equal, cases_tp_greater_equal},
    {"tp_less", call_tp_less, cases_tp_less},
    {"tp_less_equal", call_tp_less_equal, cases_tp_less_equal},
    {"tp_equal", call_tp_equal, cases_tp_equal},
    {"tp_not_equal", call_tp_not_equal, cases_tp_not_equal},
    {"tp_logical_and", call_tp_logical_and, cases_tp_logical_and},
    {"tp_logical_or", call_tp_logical_or, cases_tp_logical_or},
    {"tp_logical_not", call_tp_logical_not, cases_tp_logical_not},
    {"tp_select", call_tp_select, cases_tp_select},
    {"tp_neg", call_tp_neg, cases_tp_neg},
    {"tp_abs", call_tp_abs, cases_tp_abs},
    {"tp_sign", call_tp_sign, cases_tp_sign},
    {"tp_square", call_tp_square, cases_tp_square},
    {"tp_sqrt", call_tp_sqrt, cases_tp_sqrt},
    {"tp_rsqrt", call_tp_rsqrt, cases_tp_rsqrt},
    {"tp_reciprocal", call_tp_reciprocal, cases_tp_reciprocal},
    {"tp_exp", call_tp_exp, cases_tp_exp},
    {"tp_ln", call_tp_ln, cases_tp_ln},
    {"tp_sin", call_tp_sin, cases_tp_sin},
    {"tp_cos", call_tp_cos, cases_tp_cos},
    {"tp_asin", call_tp_asin, cases_tp_asin},
    {"tp_acos", call_tp_acos, cases_tp_acos},
    {"tp_atan", call_tp_atan, cases_tp_atan},
    {"tp_erf", call_tp_erf, cases_tp_erf},
    {"tp_gelu", call_tp_gelu, cases_tp_gelu},
    {"tp_gelu_tanh", call_tp_gelu_tanh, cases_tp_gelu_tanh},
    {"tp_silu", call_tp_silu, cases_tp_silu},
    {"tp_tanh", call_tp_tanh, cases_tp_tanh},
    {"tp_sigmoid", call_tp_sigmoid, cases_tp_sigmoid},
    {"tp_softplus", call_tp_softplus, cases_tp_softplus},
    {"tp_relu", call_tp_relu, cases_tp_relu},
    {"tp_leaky_relu", call_tp_leaky_relu, cases_tp_leaky_relu},
    {"tp_elu", call_tp_elu, cases_tp_elu},
    {"tp_selu", call_tp_selu, cases_tp_selu},
    {"tp_floor", call_tp_floor, cases_tp_floor},
    {"tp_ceil", call_tp_ceil, cases_tp_ceil},
    {"tp_round", call_tp_round, cases_tp_round},
    {"tp_is_finite", call_tp_is_finite, cases_tp_is_finite},
    {"tp_clip", call_tp_clip, cases_tp_clip},
    {"tp_affine", call_tp_affine, cases_tp_affine},
    {"tp_cast", call_tp_cast, cases_tp_cast},
    {"tp_add_n", call_tp_add_n, cases_tp_add_n},
    {"tp_all_reduce", call_tp_all_reduce, cases_tp_all_reduce},
    {"tp_reduce_sum", call_tp_reduce_sum, cases_tp_reduce_sum},
    {"tp_reduce_mean", call_tp_reduce_mean, cases_tp_reduce_mean},
    {"tp_reduce_max", call_tp_reduce_max, cases_tp_reduce_max},
    {"tp_reduce_min", call_tp_reduce_min, cases_tp_reduce_min},
    {"tp_reduce_prod", call_tp_reduce_prod, cases_tp_reduce_prod},
    {"tp_reduce_all", call_tp_reduce_all, cases_tp_reduce_all},
    {"tp_reduce_any", call_tp_reduce_any, cases_tp_reduce_any},
    {"tp_sum", call_tp_sum, cases_tp_sum},
    {"tp_mean", call_tp_mean, cases_tp_mean},
    {"tp_l2_loss", call_tp_l2_loss, cases_tp_l2_loss},
    {"tp_zero_fraction", call_tp_zero_fraction, cases_tp_zero_fraction},
    {"tp_global_norm", call_tp_global_norm, cases_tp_global_norm},
    {"tp_argmax", call_tp_argmax, cases_tp_argmax},
    {"tp_cumsum", call_tp_cumsum, cases_tp_cumsum},
    {"tp_top_k", call_tp_top_k, cases_tp_top_k},
    {"tp_in_top_k", call_tp_in_top_k, cases_tp_in_top_k},
    {"tp_sum_to_like", call_tp_sum_to_like, cases_tp_sum_to_like},
    {"tp_broadcast_like", call_tp_broadcast_like, cases_tp_broadcast_like},
    {"tp_matmul", call_tp_matmul, cases_tp_matmul},
    {"tp_matmul_ex", call_tp_matmul_ex, cases_tp_matmul_ex},
    {"tp_nn_conv2d", call_tp_nn_conv2d, cases_tp_nn_conv2d},
    {"tp_nn_conv2d_input_grad", call_tp_nn_conv2d_input_grad, cases_tp_nn_conv2d_input_grad},
    {"tp_nn_conv2d_filter_grad", call_tp_nn_conv2d_filter_grad, cases_tp_nn_conv2d_filter_grad},
    {"tp_nn_bias_add", call_tp_nn_bias_add, cases_tp_nn_bias_add},
    {"tp_nn_max_pool", call_tp_nn_max_pool, cases_tp_nn_max_pool},
    {"tp_nn_avg_pool", call_tp_nn_avg_pool, cases_tp_nn_avg_pool},
    {"tp_resize_bilinear", call_tp_resize_bilinear, cases_tp_resize_bilinear},
    {"tp_resize_nearest", call_tp_resize_nearest, cases_tp_resize_nearest},
    {"tp_bilinear_sampler", call_tp_bilinear_sampler, cases_tp_bilinear_sampler},
    {"tp_nn_batch_norm_train", call_tp_nn_batch_norm_train, cases_tp_nn_batch_norm_train},
    {"tp_nn_batch_norm_infer", call_tp_nn_batch_norm_infer, cases_tp_nn_batch_norm_infer},
    {"tp_nn_layer_norm", call_tp_nn_layer_norm, cases_tp_nn_layer_norm},
    {"tp_nn_group_norm", call_tp_nn_group_norm, cases_tp_nn_group_norm},
    {"tp_softmax", call_tp_softmax, cases_tp_softmax},
    {"tp_log_softmax", call_tp_log_softmax, cases_tp_log_softmax},
    {"tp_sparse_softmax_cross_entropy", call_tp_sparse_softmax_cross_entropy, cases_tp_sparse_softmax_cross_entropy},
    {"tp_softmax_cross_entropy", call_tp_softmax_cross_entropy, cases_tp_softmax_cross_entropy},
    {"tp_sigmoid_cross_entropy", call_tp_sigmoid_cross_entropy, cases_tp_sigmoid_cross_entropy},
    {"tp_ctc_loss", call_tp_ctc_loss, cases_tp_ctc_loss},
    {"tp_nn_lstm", call_tp_nn_lstm, cases_tp_nn_lstm},
    {"tp_nn_gru", call_tp_nn_gru, cases_tp_nn_gru},
    {"tp_nn_attention", call_tp_nn_attention, cases_tp_nn_attention},
    {"tp_nn_dropout", call_tp_nn_dropout, cases_tp_nn_dropout},
    {"tp_reshape_to", call_tp_reshape_to, cases_tp_reshape_to},
    {"tp_reshape_like", call_tp_reshape_like, cases_tp_reshape_like},
    {"tp_batch_flatten", call_tp_batch_flatten, cases_tp_batch_flatten},
    {"tp_flatten", call_tp_flatten, cases_tp_flatten},
    {"tp_expand_dims", call_tp_expand_dims, cases_tp_expand_dims},
    {"tp_squeeze", call_tp_squeeze, cases_tp_squeeze},
    {"tp_transpose", call_tp_transpose, cases_tp_transpose},
    {"tp_concat", call_tp_concat, cases_tp_concat},
    {"tp_split", call_tp_split, cases_tp_split},
    {"tp_stack", call_tp_stack, cases_tp_stack},
    {"tp_unstack", call_tp_unstack, cases_tp_unstack},
    {"tp_reverse", call_tp_reverse, cases_tp_reverse},
    {"tp_slice", call_tp_slice, cases_tp_slice},
    {"tp_pad", call_tp_pad, cases_tp_pad},
    {"tp_tile", call_tp_tile, cases_tp_tile},
    {"tp_gather", call_tp_gather, cases_tp_gather},
    {"tp_unsorted_segment_sum", call_tp_unsorted_segment_sum, cases_tp_unsorted_segment_sum},
    {"tp_unsorted_segment_sum_like", call_tp_unsorted_segment_sum_like, cases_tp_unsorted_segment_sum_like},
    {"tp_one_hot", call_tp_one_hot, cases_tp_one_hot},
    {"tp_rand_uniform", call_tp_rand_uniform, cases_tp_rand_uniform},
    {"tp_rand_normal", call_tp_rand_normal, cases_tp_rand_normal},
    {"tp_rand_truncated_normal", call_tp_rand_truncated_normal, cases_tp_rand_truncated_normal},
    {"tp_rand_uniform_like", call_tp_rand_uniform_like, cases_tp_rand_uniform_like},
    {"tp_rand_normal_like", call_tp_rand_normal_like, cases_tp_rand_normal_like},
    {"tp_assign", call_tp_assign, cases_tp_assign},
    {"tp_assign_add", call_tp_assign_add, cases_tp_assign_add},
    {"tp_assign_sub", call_tp_assign_sub, cases_tp_assign_sub},
    {"tp_read_after", call_tp_read_after, cases_tp_read_after},
    {"tp_assign_moving_average", call_tp_assign_moving_average, cases_tp_assign_moving_average},
    {"tp_apply_gradient_descent", call_tp_apply_gradient_descent, cases_tp_apply_gradient_descent},
    {"tp_apply_momentum", call_tp_apply_momentum, cases_tp_apply_momentum},
    {"tp_apply_adam", call_tp_apply_adam, cases_tp_apply_adam},
    {"tp_apply_adamw", call_tp_apply_adamw, cases_tp_apply_adamw},
    {"tp_apply_rmsprop", call_tp_apply_rmsprop, cases_tp_apply_rmsprop},
    {"tp_apply_adagrad", call_tp_apply_adagrad, cases_tp_apply_adagrad},
    {"tp_apply_adadelta", call_tp_apply_adadelta, cases_tp_apply_adadelta},
    {"tp_apply_ftrl", call_tp_apply_ftrl, cases_tp_apply_ftrl},
    {"tp_apply_lamb", call_tp_apply_lamb, cases_tp_apply_lamb},
    {"tp_summary_info", call_tp_summary_info, cases_tp_summary_info},
    {"tp_add_tensor_summary_", call_tp_add_tensor_summary_, cases_tp_add_tensor_summary_},
    {"tp_add_tensor_summary", call_tp_add_tensor_summary, cases_tp_add_tensor_summary},
    {"tp_add_activation_summary", call_tp_add_activation_summary, cases_tp_add_activation_summary},
    {"tp_add_moving_summary_n", call_tp_add_moving_summary_n, cases_tp_add_moving_summary_n},
    {"tp_add_param_summary_", call_tp_add_param_summary_, cases_tp_add_param_summary_},
    {"tp_add_param_summary", call_tp_add_param_summary, cases_tp_add_param_summary},
    {"tp_regex_new", call_tp_regex_new, cases_tp_regex_new},
    {"tp_regex_free", call_tp_regex_free, cases_tp_regex_free},
    {"tp_regex_n_groups", call_tp_regex_n_groups, cases_tp_regex_n_groups},
    {"tp_regex_group", call_tp_regex_group, cases_tp_regex_group},
    {"tp_regex_search", call_tp_regex_search, cases_tp_regex_search},
    {"tp_regex_match", call_tp_regex_match, cases_tp_regex_match},
    {"tp_regex_fullmatch", call_tp_regex_fullmatch, cases_tp_regex_fullmatch},
    {"tp_get_default_sess_config", call_tp_get_default_sess_config, cases_tp_get_default_sess_config},
    {"tp_default_session_config", call_tp_default_session_config, cases_tp_default_session_config},
    {"tp_session_new", call_tp_session_new, cases_tp_session_new},
    {"tp_session_free", call_tp_session_free, cases_tp_session_free},
    {"tp_session_graph", call_tp_session_graph, cases_tp_session_graph},
    {"tp_session_device", call_tp_session_device, cases_tp_session_device},
    {"tp_make_feed", call_tp_make_feed, cases_tp_make_feed},
    {"tp_session_run", call_tp_session_run, cases_tp_session_run},
    {"tp_trace_free", call_tp_trace_free, cases_tp_trace_free},
    {"tp_trace_save", call_tp_trace_save, cases_tp_trace_save},
    {"tp_session_run_ex", call_tp_session_run_ex, cases_tp_session_run_ex},
    {"tp_session_cancel", call_tp_session_cancel, cases_tp_session_cancel},
    {"tp_session_eval", call_tp_session_eval, cases_tp_session_eval},
    {"tp_eval_now", call_tp_eval_now, cases_tp_eval_now},
    {"tp_check_gradients", call_tp_check_gradients, cases_tp_check_gradients},
    {"tp_session_read", call_tp_session_read, cases_tp_session_read},
    {"tp_session_load", call_tp_session_load, cases_tp_session_load},
    {"tp_get_global_step_value", call_tp_get_global_step_value, cases_tp_get_global_step_value},
    {"tp_session_state", call_tp_session_state, cases_tp_session_state},
    {"tp_exec_new", call_tp_exec_new, cases_tp_exec_new},
    {"tp_exec_free", call_tp_exec_free, cases_tp_exec_free},
    {"tp_session_exec", call_tp_session_exec, cases_tp_session_exec},
    {"tp_exec_run", call_tp_exec_run, cases_tp_exec_run},
    {"tp_exec_run_ex", call_tp_exec_run_ex, cases_tp_exec_run_ex},
    {"tp_exec_random_step", call_tp_exec_random_step, cases_tp_exec_random_step},
    {"tp_exec_set_random_step", call_tp_exec_set_random_step, cases_tp_exec_set_random_step},
    {"tp_exec_print_plan", call_tp_exec_print_plan, cases_tp_exec_print_plan},
    {"tp_exec_set_timing", call_tp_exec_set_timing, cases_tp_exec_set_timing},
    {"tp_exec_plan_info", call_tp_exec_plan_info, cases_tp_exec_plan_info},
    {"tp_request_fetch", call_tp_request_fetch, cases_tp_request_fetch},
    {"tp_request_feed", call_tp_request_feed, cases_tp_request_feed},
    {"tp_request_trace", call_tp_request_trace, cases_tp_request_trace},
    {"tp_request_datapoints", call_tp_request_datapoints, cases_tp_request_datapoints},
    {"tp_request_wait", call_tp_request_wait, cases_tp_request_wait},
    {"tp_hooked_session_new", call_tp_hooked_session_new, cases_tp_hooked_session_new},
    {"tp_hooked_session_free", call_tp_hooked_session_free, cases_tp_hooked_session_free},
    {"tp_hooked_session_exec", call_tp_hooked_session_exec, cases_tp_hooked_session_exec},
    {"tp_hooked_session_set_timeout", call_tp_hooked_session_set_timeout, cases_tp_hooked_session_set_timeout},
    {"tp_hooked_session_set_datapoints", call_tp_hooked_session_set_datapoints, cases_tp_hooked_session_set_datapoints},
    {"tp_hooked_session_request_stop", call_tp_hooked_session_request_stop, cases_tp_hooked_session_request_stop},
    {"tp_hooked_session_should_stop", call_tp_hooked_session_should_stop, cases_tp_hooked_session_should_stop},
    {"tp_hooked_run", call_tp_hooked_run, cases_tp_hooked_run},
    {"tp_new_session_creator", call_tp_new_session_creator, cases_tp_new_session_creator},
    {"tp_reuse_session_creator", call_tp_reuse_session_creator, cases_tp_reuse_session_creator},
    {"tp_session_creator_adapter", call_tp_session_creator_adapter, cases_tp_session_creator_adapter},
    {"tp_session_init_run", call_tp_session_init_run, cases_tp_session_init_run},
    {"tp_session_init_free", call_tp_session_init_free, cases_tp_session_init_free},
    {"tp_saver_restore_ex", call_tp_saver_restore_ex, cases_tp_saver_restore_ex},
    {"tp_saver_restore", call_tp_saver_restore, cases_tp_saver_restore},
    {"tp_dict_restore", call_tp_dict_restore, cases_tp_dict_restore},
    {"tp_chain_init", call_tp_chain_init, cases_tp_chain_init},
    {"tp_just_current_session", call_tp_just_current_session, cases_tp_just_current_session},
    {"tp_smart_init", call_tp_smart_init, cases_tp_smart_init},
    {"tp_smart_init_list", call_tp_smart_init_list, cases_tp_smart_init_list},
    {"tp_save_checkpoint", call_tp_save_checkpoint, cases_tp_save_checkpoint},
    {"tp_restore_checkpoint", call_tp_restore_checkpoint, cases_tp_restore_checkpoint},
    {"tp_dump_session_params", call_tp_dump_session_params, cases_tp_dump_session_params},
    {"tp_load_checkpoint_vars", call_tp_load_checkpoint_vars, cases_tp_load_checkpoint_vars},
    {"tp_save_checkpoint_vars", call_tp_save_checkpoint_vars, cases_tp_save_checkpoint_vars},
    {"tp_checkpoint_state_write", call_tp_checkpoint_state_write, cases_tp_checkpoint_state_write},
    {"tp_checkpoint_state_latest", call_tp_checkpoint_state_latest, cases_tp_checkpoint_state_latest},
    {"tp_get_all_checkpoints", call_tp_get_all_checkpoints, cases_tp_get_all_checkpoints},
    {"tp_online_predictor", call_tp_online_predictor, cases_tp_online_predictor},
    {"tp_offline_predictor", call_tp_offline_predictor, cases_tp_offline_predictor},
    {"tp_multi_tower_predictor", call_tp_multi_tower_predictor, cases_tp_multi_tower_predictor},
    {"tp_predictor_tower", call_tp_predictor_tower, cases_tp_predictor_tower},
    {"tp_predict", call_tp_predict, cases_tp_predict},
    {"tp_predict_n", call_tp_predict_n, cases_tp_predict_n},
    {"tp_predictor_carry", call_tp_predictor_carry, cases_tp_predictor_carry},
    {"tp_predictor_reset", call_tp_predictor_reset, cases_tp_predictor_reset},
    {"tp_predictor_n_inputs", call_tp_predictor_n_inputs, cases_tp_predictor_n_inputs},
    {"tp_predictor_n_outputs", call_tp_predictor_n_outputs, cases_tp_predictor_n_outputs},
    {"tp_predictor_session", call_tp_predictor_session, cases_tp_predictor_session},
    {"tp_predictor_free", call_tp_predictor_free, cases_tp_predictor_free},
    {"tp_conv2d_", call_tp_conv2d_, cases_tp_conv2d_},
    {"tp_fully_connected_", call_tp_fully_connected_, cases_tp_fully_connected_},
    {"tp_max_pooling_", call_tp_max_pooling_, cases_tp_max_pooling_},
    {"tp_avg_pooling_", call_tp_avg_pooling_, cases_tp_avg_pooling_},
    {"tp_global_avg_pooling_", call_tp_global_avg_pooling_, cases_tp_global_avg_pooling_},
    {"tp_batch_norm_", call_tp_batch_norm_, cases_tp_batch_norm_},
    {"tp_dropout_", call_tp_dropout_, cases_tp_dropout_},
    {"tp_bn_relu_", call_tp_bn_relu_, cases_tp_bn_relu_},
    {"tp_bn_relu", call_tp_bn_relu, cases_tp_bn_relu},
    {"tp_conv2d_transpose_", call_tp_conv2d_transpose_, cases_tp_conv2d_transpose_},
    {"tp_depthwise_conv2d_", call_tp_depthwise_conv2d_, cases_tp_depthwise_conv2d_},
    {"tp_fixed_unpooling_", call_tp_fixed_unpooling_, cases_tp_fixed_unpooling_},
    {"tp_caffe_bilinear_upsample_", call_tp_caffe_bilinear_upsample_, cases_tp_caffe_bilinear_upsample_},
    {"tp_layer_norm_", call_tp_layer_norm_, cases_tp_layer_norm_},
    {"tp_instance_norm_", call_tp_instance_norm_, cases_tp_instance_norm_},
    {"tp_group_norm_", call_tp_group_norm_, cases_tp_group_norm_},
    {"tp_batch_renorm_", call_tp_batch_renorm_, cases_tp_batch_renorm_},
    {"tp_prelu_", call_tp_prelu_, cases_tp_prelu_},
    {"tp_maxout_", call_tp_maxout_, cases_tp_maxout_},
    {"tp_concat_with_", call_tp_concat_with_, cases_tp_concat_with_},
    {"tp_grid_sample_", call_tp_grid_sample_, cases_tp_grid_sample_},
    {"tp_softmax_layer_", call_tp_softmax_layer_, cases_tp_softmax_layer_},
    {"tp_embedding_", call_tp_embedding_, cases_tp_embedding_},
    {"tp_lstm_", call_tp_lstm_, cases_tp_lstm_},
    {"tp_gru_", call_tp_gru_, cases_tp_gru_},
    {"tp_basic_lstm_cell_", call_tp_basic_lstm_cell_, cases_tp_basic_lstm_cell_},
    {"tp_gru_cell_", call_tp_gru_cell_, cases_tp_gru_cell_},
    {"tp_multi_head_attention_", call_tp_multi_head_attention_, cases_tp_multi_head_attention_},
    {"tp_argscope_begin", call_tp_argscope_begin, cases_tp_argscope_begin},
    {"tp_argscope_set", call_tp_argscope_set, cases_tp_argscope_set},
    {"tp_argscope_end", call_tp_argscope_end, cases_tp_argscope_end},
    {"tp_get_argscope", call_tp_get_argscope, cases_tp_get_argscope},
    {"tp_linear_n", call_tp_linear_n, cases_tp_linear_n},
    {"tp_linear_print", call_tp_linear_print, cases_tp_linear_print},
    {"tp_layer_register", call_tp_layer_register, cases_tp_layer_register},
    {"tp_enable_argscope_for_function", call_tp_enable_argscope_for_function, cases_tp_enable_argscope_for_function},
    {"tp_enable_argscope_for_module", call_tp_enable_argscope_for_module, cases_tp_enable_argscope_for_module},
    {"tp_get_registered_layer", call_tp_get_registered_layer, cases_tp_get_registered_layer},
    {"tp_layer_apply", call_tp_layer_apply, cases_tp_layer_apply},
    {"tp_layer_hold", call_tp_layer_hold, cases_tp_layer_hold},
    {"tp_layer_variable", call_tp_layer_variable, cases_tp_layer_variable},
    {"tp_disable_layer_logging", call_tp_disable_layer_logging, cases_tp_disable_layer_logging},
    {"tp_l2_regularizer", call_tp_l2_regularizer, cases_tp_l2_regularizer},
    {"tp_l1_regularizer", call_tp_l1_regularizer, cases_tp_l1_regularizer},
    {"tp_regularize_cost", call_tp_regularize_cost, cases_tp_regularize_cost},
    {"tp_regularize_cost_", call_tp_regularize_cost_, cases_tp_regularize_cost_},
    {"tp_regularize_cost_from_collection", call_tp_regularize_cost_from_collection, cases_tp_regularize_cost_from_collection},
    {"tp_sym_accuracy", call_tp_sym_accuracy, cases_tp_sym_accuracy},
    {"tp_sym_prediction_incorrect", call_tp_sym_prediction_incorrect, cases_tp_sym_prediction_incorrect},
    {"tp_sym_rms", call_tp_sym_rms, cases_tp_sym_rms},
    {"tp_sym_huber_loss", call_tp_sym_huber_loss, cases_tp_sym_huber_loss},
    {"tp_sym_psnr", call_tp_sym_psnr, cases_tp_sym_psnr},
    {"tp_sym_mse", call_tp_sym_mse, cases_tp_sym_mse},
    {"tp_sym_kl_divergence", call_tp_sym_kl_divergence, cases_tp_sym_kl_divergence},
    {"tp_sym_smooth_labels", call_tp_sym_smooth_labels, cases_tp_sym_smooth_labels},
    {"tp_sym_weighted_loss", call_tp_sym_weighted_loss, cases_tp_sym_weighted_loss},
    {"tp_sym_print_stat", call_tp_sym_print_stat, cases_tp_sym_print_stat},
    {"tp_sym_contrastive_loss", call_tp_sym_contrastive_loss, cases_tp_sym_contrastive_loss},
    {"tp_sym_siamese_cosine_loss", call_tp_sym_siamese_cosine_loss, cases_tp_sym_siamese_cosine_loss},
    {"tp_sym_triplet_loss", call_tp_sym_triplet_loss, cases_tp_sym_triplet_loss},
    {"tp_sym_soft_triplet_loss", call_tp_sym_soft_triplet_loss, cases_tp_sym_soft_triplet_loss},
    {"tp_sym_class_balanced_sigmoid_cross_entropy", call_tp_sym_class_balanced_sigmoid_cross_entropy, cases_tp_sym_class_balanced_sigmoid_cross_entropy},
    {"tp_relu6", call_tp_relu6, cases_tp_relu6},
    {"tp_hard_swish", call_tp_hard_swish, cases_tp_hard_swish},
    {"tp_depth_to_space", call_tp_depth_to_space, cases_tp_depth_to_space},
    {"tp_space_to_depth", call_tp_space_to_depth, cases_tp_space_to_depth},
    {"tp_compute_gradients", call_tp_compute_gradients, cases_tp_compute_gradients},
    {"tp_optimizer_new", call_tp_optimizer_new, cases_tp_optimizer_new},
    {"tp_optimizer_proxy", call_tp_optimizer_proxy, cases_tp_optimizer_proxy},
    {"tp_optimizer_compute_gradients", call_tp_optimizer_compute_gradients, cases_tp_optimizer_compute_gradients},
    {"tp_apply_gradients", call_tp_apply_gradients, cases_tp_apply_gradients},
    {"tp_minimize", call_tp_minimize, cases_tp_minimize},
    {"tp_apply_gradients_if", call_tp_apply_gradients_if, cases_tp_apply_gradients_if},
    {"tp_optimizer_slot", call_tp_optimizer_slot, cases_tp_optimizer_slot},
    {"tp_optimizer_scalar", call_tp_optimizer_scalar, cases_tp_optimizer_scalar},
    {"tp_optimizer_read", call_tp_optimizer_read, cases_tp_optimizer_read},
    {"tp_get_slot", call_tp_get_slot, cases_tp_get_slot},
    {"tp_get_slot_names", call_tp_get_slot_names, cases_tp_get_slot_names},
    {"tp_sgd_", call_tp_sgd_, cases_tp_sgd_},
    {"tp_momentum_", call_tp_momentum_, cases_tp_momentum_},
    {"tp_nesterov_", call_tp_nesterov_, cases_tp_nesterov_},
    {"tp_adam_", call_tp_adam_, cases_tp_adam_},
    {"tp_adamw_", call_tp_adamw_, cases_tp_adamw_},
    {"tp_rmsprop_", call_tp_rmsprop_, cases_tp_rmsprop_},
    {"tp_adagrad_", call_tp_adagrad_, cases_tp_adagrad_},
    {"tp_adadelta_", call_tp_adadelta_, cases_tp_adadelta_},
    {"tp_ftrl_", call_tp_ftrl_, cases_tp_ftrl_},
    {"tp_lamb_", call_tp_lamb_, cases_tp_lamb_},
    {"tp_lion_", call_tp_lion_, cases_tp_lion_},
    {"tp_post_process", call_tp_post_process, cases_tp_post_process},
    {"tp_variable_assignment", call_tp_variable_assignment, cases_tp_variable_assignment},
    {"tp_multi_optimizer", call_tp_multi_optimizer, cases_tp_multi_optimizer},
    {"tp_accum_grad", call_tp_accum_grad, cases_tp_accum_grad},
    {"tp_loss_scale_", call_tp_loss_scale_, cases_tp_loss_scale_},
    {"tp_gradproc_filter_none", call_tp_gradproc_filter_none, cases_tp_gradproc_filter_none},
    {"tp_gradproc_global_norm_clip", call_tp_gradproc_global_norm_clip, cases_tp_gradproc_global_norm_clip},
    {"tp_gradproc_scale", call_tp_gradproc_scale, cases_tp_gradproc_scale},
    {"tp_gradproc_scale_rules", call_tp_gradproc_scale_rules, cases_tp_gradproc_scale_rules},
    {"tp_gradproc_map", call_tp_gradproc_map, cases_tp_gradproc_map},
    {"tp_gradproc_summary", call_tp_gradproc_summary, cases_tp_gradproc_summary},
    {"tp_gradproc_summary_to", call_tp_gradproc_summary_to, cases_tp_gradproc_summary_to},
    {"tp_gradproc_print", call_tp_gradproc_print, cases_tp_gradproc_print},
    {"tp_gradproc_check", call_tp_gradproc_check, cases_tp_gradproc_check},
    {"tp_gradproc_at", call_tp_gradproc_at, cases_tp_gradproc_at},
    {"tp_gradproc_run", call_tp_gradproc_run, cases_tp_gradproc_run},
    {"tp_apply_grad_processors", call_tp_apply_grad_processors, cases_tp_apply_grad_processors},
    {"tp_increment_global_step", call_tp_increment_global_step, cases_tp_increment_global_step},
    {"tp_exponential_decay", call_tp_exponential_decay, cases_tp_exponential_decay},
    {"tp_cosine_decay", call_tp_cosine_decay, cases_tp_cosine_decay},
    {"tp_warm_up", call_tp_warm_up, cases_tp_warm_up},
    {"tp_piecewise_constant", call_tp_piecewise_constant, cases_tp_piecewise_constant},
    {"tp_datapoint_resize", call_tp_datapoint_resize, cases_tp_datapoint_resize},
    {"tp_datapoint_view", call_tp_datapoint_view, cases_tp_datapoint_view},
    {"tp_datapoint_copy", call_tp_datapoint_copy, cases_tp_datapoint_copy},
    {"tp_datapoint_free", call_tp_datapoint_free, cases_tp_datapoint_free},
    {"tp_datapoint_set_bytes", call_tp_datapoint_set_bytes, cases_tp_datapoint_set_bytes},
    {"tp_datapoint_set_text", call_tp_datapoint_set_text, cases_tp_datapoint_set_text},
    {"tp_datapoint_text", call_tp_datapoint_text, cases_tp_datapoint_text},
    {"tp_df_next", call_tp_df_next, cases_tp_df_next},
    {"tp_df_restart", call_tp_df_restart, cases_tp_df_restart},
    {"tp_df_size", call_tp_df_size, cases_tp_df_size},
    {"tp_df_seek", call_tp_df_seek, cases_tp_df_seek},
    {"tp_df_free", call_tp_df_free, cases_tp_df_free},
    {"tp_df_status", call_tp_df_status, cases_tp_df_status},
    {"tp_df_fail", call_tp_df_fail, cases_tp_df_fail},
    {"tp_df_new", call_tp_df_new, cases_tp_df_new},
    {"tp_df_stopping", call_tp_df_stopping, cases_tp_df_stopping},
    {"tp_df_test_speed", call_tp_df_test_speed, cases_tp_df_test_speed},
    {"tp_df_from_list_", call_tp_df_from_list_, cases_tp_df_from_list_},
    {"tp_df_from_arrays_", call_tp_df_from_arrays_, cases_tp_df_from_arrays_},
    {"tp_df_from_generator_", call_tp_df_from_generator_, cases_tp_df_from_generator_},
    {"tp_df_fake_", call_tp_df_fake_, cases_tp_df_fake_},
    {"tp_df_mnist_", call_tp_df_mnist_, cases_tp_df_mnist_},
    {"tp_df_digits_", call_tp_df_digits_, cases_tp_df_digits_},
    {"tp_df_idx_", call_tp_df_idx_, cases_tp_df_idx_},
    {"tp_df_batch_", call_tp_df_batch_, cases_tp_df_batch_},
    {"tp_df_map_", call_tp_df_map_, cases_tp_df_map_},
    {"tp_df_map_component_", call_tp_df_map_component_, cases_tp_df_map_component_},
    {"tp_df_cast", call_tp_df_cast, cases_tp_df_cast},
    {"tp_df_repeated", call_tp_df_repeated, cases_tp_df_repeated},
    {"tp_df_take", call_tp_df_take, cases_tp_df_take},
    {"tp_df_shard", call_tp_df_shard, cases_tp_df_shard},
    {"tp_df_fixed_size_", call_tp_df_fixed_size_, cases_tp_df_fixed_size_},
    {"tp_df_locally_shuffle_", call_tp_df_locally_shuffle_, cases_tp_df_locally_shuffle_},
    {"tp_df_select", call_tp_df_select, cases_tp_df_select},
    {"tp_df_concat", call_tp_df_concat, cases_tp_df_concat},
    {"tp_df_join", call_tp_df_join, cases_tp_df_join},
    {"tp_df_zip", call_tp_df_zip, cases_tp_df_zip},
    {"tp_df_print", call_tp_df_print, cases_tp_df_print},
    {"tp_df_filter_", call_tp_df_filter_, cases_tp_df_filter_},
    {"tp_df_repeated_point", call_tp_df_repeated_point, cases_tp_df_repeated_point},
    {"tp_df_random_choose_", call_tp_df_random_choose_, cases_tp_df_random_choose_},
    {"tp_df_random_mix_", call_tp_df_random_mix_, cases_tp_df_random_mix_},
    {"tp_df_cache_", call_tp_df_cache_, cases_tp_df_cache_},
    {"tp_df_batch_by_shape_", call_tp_df_batch_by_shape_, cases_tp_df_batch_by_shape_},
    {"tp_df_prefetch_", call_tp_df_prefetch_, cases_tp_df_prefetch_},
    {"tp_df_parallel_map_", call_tp_df_parallel_map_, cases_tp_df_parallel_map_},
    {"tp_df_multi_thread_", call_tp_df_multi_thread_, cases_tp_df_multi_thread_},
    {"tp_df_multi_process_", call_tp_df_multi_process_, cases_tp_df_multi_process_},
    {"tp_df_cifar10_", call_tp_df_cifar10_, cases_tp_df_cifar10_},
    {"tp_df_cifar100_", call_tp_df_cifar100_, cases_tp_df_cifar100_},
    {"tp_df_svhn_digit_", call_tp_df_svhn_digit_, cases_tp_df_svhn_digit_},
    {"tp_df_per_pixel_mean", call_tp_df_per_pixel_mean, cases_tp_df_per_pixel_mean},
    {"tp_df_per_channel_mean", call_tp_df_per_channel_mean, cases_tp_df_per_channel_mean},
    {"tp_df_npz_", call_tp_df_npz_, cases_tp_df_npz_},
    {"tp_tfrecord_append", call_tp_tfrecord_append, cases_tp_tfrecord_append},
    {"tp_tfrecord_put", call_tp_tfrecord_put, cases_tp_tfrecord_put},
    {"tp_tfrecord_open", call_tp_tfrecord_open, cases_tp_tfrecord_open},
    {"tp_tfrecord_next", call_tp_tfrecord_next, cases_tp_tfrecord_next},
    {"tp_tfrecord_close", call_tp_tfrecord_close, cases_tp_tfrecord_close},
    {"tp_example_write", call_tp_example_write, cases_tp_example_write},
    {"tp_example_parse", call_tp_example_parse, cases_tp_example_parse},
    {"tp_df_tfrecord_", call_tp_df_tfrecord_, cases_tp_df_tfrecord_},
    {"tp_df_save_tfrecord", call_tp_df_save_tfrecord, cases_tp_df_save_tfrecord},
    {"tp_df_csv_", call_tp_df_csv_, cases_tp_df_csv_},
    {"tp_vocabulary_chars", call_tp_vocabulary_chars, cases_tp_vocabulary_chars},
    {"tp_vocabulary_words", call_tp_vocabulary_words, cases_tp_vocabulary_words},
    {"tp_vocabulary_from_list", call_tp_vocabulary_from_list, cases_tp_vocabulary_from_list},
    {"tp_vocabulary_save", call_tp_vocabulary_save, cases_tp_vocabulary_save},
    {"tp_vocabulary_load", call_tp_vocabulary_load, cases_tp_vocabulary_load},
    {"tp_vocabulary_find", call_tp_vocabulary_find, cases_tp_vocabulary_find},
    {"tp_vocabulary_free", call_tp_vocabulary_free, cases_tp_vocabulary_free},
    {"tp_df_text_chars_", call_tp_df_text_chars_, cases_tp_df_text_chars_},
    {"tp_df_text_words_", call_tp_df_text_words_, cases_tp_df_text_words_},
    {"tp_image_decode", call_tp_image_decode, cases_tp_image_decode},
    {"tp_save_png", call_tp_save_png, cases_tp_save_png},
    {"tp_df_image_from_file_", call_tp_df_image_from_file_, cases_tp_df_image_from_file_},
    {"tp_df_image_folder_", call_tp_df_image_folder_, cases_tp_df_image_folder_},
    {"tp_df_image_classes", call_tp_df_image_classes, cases_tp_df_image_classes},
    {"tp_df_image_list_", call_tp_df_image_list_, cases_tp_df_image_list_},
    {"tp_map_image", call_tp_map_image, cases_tp_map_image},
    {"tp_map_image_file", call_tp_map_image_file, cases_tp_map_image_file},
    {"tp_df_lmdb_", call_tp_df_lmdb_, cases_tp_df_lmdb_},
    {"tp_lmdb_save", call_tp_lmdb_save, cases_tp_lmdb_save},
    {"tp_aug_status", call_tp_aug_status, cases_tp_aug_status},
    {"tp_aug_free", call_tp_aug_free, cases_tp_aug_free},
    {"tp_aug_draw", call_tp_aug_draw, cases_tp_aug_draw},
    {"tp_aug_apply_image", call_tp_aug_apply_image, cases_tp_aug_apply_image},
    {"tp_aug_apply_mask", call_tp_aug_apply_mask, cases_tp_aug_apply_mask},
    {"tp_aug_apply_coords", call_tp_aug_apply_coords, cases_tp_aug_apply_coords},
    {"tp_aug_apply_boxes", call_tp_aug_apply_boxes, cases_tp_aug_apply_boxes},
    {"tp_transform_text", call_tp_transform_text, cases_tp_transform_text},
    {"tp_transform_free", call_tp_transform_free, cases_tp_transform_free},
    {"tp_aug_list", call_tp_aug_list, cases_tp_aug_list},
    {"tp_aug_identity", call_tp_aug_identity, cases_tp_aug_identity},
    {"tp_aug_random_apply", call_tp_aug_random_apply, cases_tp_aug_random_apply},
    {"tp_aug_random_choose", call_tp_aug_random_choose, cases_tp_aug_random_choose},
    {"tp_aug_random_order", call_tp_aug_random_order, cases_tp_aug_random_order},
    {"tp_aug_map_image_", call_tp_aug_map_image_, cases_tp_aug_map_image_},
    {"tp_aug_resize_", call_tp_aug_resize_, cases_tp_aug_resize_},
    {"tp_aug_resize_shortest_edge_", call_tp_aug_resize_shortest_edge_, cases_tp_aug_resize_shortest_edge_},
    {"tp_aug_random_resize_", call_tp_aug_random_resize_, cases_tp_aug_random_resize_},
    {"tp_aug_random_crop", call_tp_aug_random_crop, cases_tp_aug_random_crop},
    {"tp_aug_center_crop", call_tp_aug_center_crop, cases_tp_aug_center_crop},
    {"tp_aug_random_crop_random_shape_", call_tp_aug_random_crop_random_shape_, cases_tp_aug_random_crop_random_shape_},
    {"tp_aug_google_net_random_crop_and_resize_", call_tp_aug_google_net_random_crop_and_resize_, cases_tp_aug_google_net_random_crop_and_resize_},
    {"tp_aug_random_cutout_", call_tp_aug_random_cutout_, cases_tp_aug_random_cutout_},
    {"tp_aug_pad_", call_tp_aug_pad_, cases_tp_aug_pad_},
    {"tp_aug_center_paste_", call_tp_aug_center_paste_, cases_tp_aug_center_paste_},
    {"tp_aug_random_paste_", call_tp_aug_random_paste_, cases_tp_aug_random_paste_},
    {"tp_aug_flip_", call_tp_aug_flip_, cases_tp_aug_flip_},
    {"tp_aug_transpose_", call_tp_aug_transpose_, cases_tp_aug_transpose_},
    {"tp_aug_shift_", call_tp_aug_shift_, cases_tp_aug_shift_},
    {"tp_aug_rotation_", call_tp_aug_rotation_, cases_tp_aug_rotation_},
    {"tp_aug_rotation_and_crop_valid_", call_tp_aug_rotation_and_crop_valid_, cases_tp_aug_rotation_and_crop_valid_},
    {"tp_aug_affine_", call_tp_aug_affine_, cases_tp_aug_affine_},
    {"tp_aug_brightness_", call_tp_aug_brightness_, cases_tp_aug_brightness_},
    {"tp_aug_brightness_scale_", call_tp_aug_brightness_scale_, cases_tp_aug_brightness_scale_},
    {"tp_aug_contrast_", call_tp_aug_contrast_, cases_tp_aug_contrast_},
    {"tp_aug_saturation_", call_tp_aug_saturation_, cases_tp_aug_saturation_},
    {"tp_aug_hue_", call_tp_aug_hue_, cases_tp_aug_hue_},
    {"tp_aug_gamma_", call_tp_aug_gamma_, cases_tp_aug_gamma_},
    {"tp_aug_clip_", call_tp_aug_clip_, cases_tp_aug_clip_},
    {"tp_aug_lighting_", call_tp_aug_lighting_, cases_tp_aug_lighting_},
    {"tp_aug_mean_variance_normalize_", call_tp_aug_mean_variance_normalize_, cases_tp_aug_mean_variance_normalize_},
    {"tp_aug_min_max_normalize_", call_tp_aug_min_max_normalize_, cases_tp_aug_min_max_normalize_},
    {"tp_aug_grayscale_", call_tp_aug_grayscale_, cases_tp_aug_grayscale_},
    {"tp_aug_color_space_", call_tp_aug_color_space_, cases_tp_aug_color_space_},
    {"tp_aug_to_uint8", call_tp_aug_to_uint8, cases_tp_aug_to_uint8},
    {"tp_aug_to_float32", call_tp_aug_to_float32, cases_tp_aug_to_float32},
    {"tp_aug_gaussian_blur_", call_tp_aug_gaussian_blur_, cases_tp_aug_gaussian_blur_},
    {"tp_aug_jpeg_noise_", call_tp_aug_jpeg_noise_, cases_tp_aug_jpeg_noise_},
    {"tp_aug_gaussian_noise_", call_tp_aug_gaussian_noise_, cases_tp_aug_gaussian_noise_},
    {"tp_aug_salt_pepper_noise_", call_tp_aug_salt_pepper_noise_, cases_tp_aug_salt_pepper_noise_},
    {"tp_df_augment_image_", call_tp_df_augment_image_, cases_tp_df_augment_image_},
    {"tp_df_augment_coordinates_", call_tp_df_augment_coordinates_, cases_tp_df_augment_coordinates_},
    {"tp_df_augment_images_", call_tp_df_augment_images_, cases_tp_df_augment_images_},
    {"tp_df_load_image_", call_tp_df_load_image_, cases_tp_df_load_image_},
    {"tp_idx_load", call_tp_idx_load, cases_tp_idx_load},
    {"tp_idx_parse", call_tp_idx_parse, cases_tp_idx_parse},
    {"tp_input_setup", call_tp_input_setup, cases_tp_input_setup},
    {"tp_input_setup_done", call_tp_input_setup_done, cases_tp_input_setup_done},
    {"tp_input_get_tensors", call_tp_input_get_tensors, cases_tp_input_get_tensors},
    {"tp_input_reset_state", call_tp_input_reset_state, cases_tp_input_reset_state},
    {"tp_input_seek", call_tp_input_seek, cases_tp_input_seek},
    {"tp_input_size", call_tp_input_size, cases_tp_input_size},
    {"tp_input_hooks", call_tp_input_hooks, cases_tp_input_hooks},
    {"tp_input_failure", call_tp_input_failure, cases_tp_input_failure},
    {"tp_input_cached_name_scope_push", call_tp_input_cached_name_scope_push, cases_tp_input_cached_name_scope_push},
    {"tp_input_free", call_tp_input_free, cases_tp_input_free},
    {"tp_placeholder_input", call_tp_placeholder_input, cases_tp_placeholder_input},
    {"tp_feed_input_", call_tp_feed_input_, cases_tp_feed_input_},
    {"tp_queue_new", call_tp_queue_new, cases_tp_queue_new},
    {"tp_queue_put", call_tp_queue_put, cases_tp_queue_put},
    {"tp_queue_get", call_tp_queue_get, cases_tp_queue_get},
    {"tp_queue_size", call_tp_queue_size, cases_tp_queue_size},
    {"tp_queue_close", call_tp_queue_close, cases_tp_queue_close},
    {"tp_queue_free", call_tp_queue_free, cases_tp_queue_free},
    {"tp_df_from_queue", call_tp_df_from_queue, cases_tp_df_from_queue},
    {"tp_queue_input_", call_tp_queue_input_, cases_tp_queue_input_},
    {"tp_queue_input_size_ema", call_tp_queue_input_size_ema, cases_tp_queue_input_size_ema},
    {"tp_feedfree_input", call_tp_feedfree_input, cases_tp_feedfree_input},
    {"tp_batch_queue_input_", call_tp_batch_queue_input_, cases_tp_batch_queue_input_},
    {"tp_queue_input_refill_queue", call_tp_queue_input_refill_queue, cases_tp_queue_input_refill_queue},
    {"tp_dataflow_to_dataset", call_tp_dataflow_to_dataset, cases_tp_dataflow_to_dataset},
    {"tp_dataset_input", call_tp_dataset_input, cases_tp_dataset_input},
    {"tp_tensor_input_", call_tp_tensor_input_, cases_tp_tensor_input_},
    {"tp_dummy_constant_input", call_tp_dummy_constant_input, cases_tp_dummy_constant_input},
    {"tp_staging_input_", call_tp_staging_input_, cases_tp_staging_input_},
    {"tp_remap_input_source", call_tp_remap_input_source, cases_tp_remap_input_source},
    {"tp_input_default_prefetch", call_tp_input_default_prefetch, cases_tp_input_default_prefetch},
    {"tp_datapoint_pack", call_tp_datapoint_pack, cases_tp_datapoint_pack},
    {"tp_datapoint_unpack", call_tp_datapoint_unpack, cases_tp_datapoint_unpack},
    {"tp_zmq_input_", call_tp_zmq_input_, cases_tp_zmq_input_},
    {"tp_zmq_input_to_dataset", call_tp_zmq_input_to_dataset, cases_tp_zmq_input_to_dataset},
    {"tp_df_remote_zmq_", call_tp_df_remote_zmq_, cases_tp_df_remote_zmq_},
    {"tp_df_remote_zmq_received", call_tp_df_remote_zmq_received, cases_tp_df_remote_zmq_received},
    {"tp_df_send_zmq_", call_tp_df_send_zmq_, cases_tp_df_send_zmq_},
    {"tp_stop", call_tp_stop, cases_tp_stop},
    {"tp_humanize_time_delta", call_tp_humanize_time_delta, cases_tp_humanize_time_delta},
    {"tp_callback_new", call_tp_callback_new, cases_tp_callback_new},
    {"tp_callback_fail", call_tp_callback_fail, cases_tp_callback_fail},
    {"tp_callback_status", call_tp_callback_status, cases_tp_callback_status},
    {"tp_callback_set_chief_only", call_tp_callback_set_chief_only, cases_tp_callback_set_chief_only},
    {"tp_callback_free", call_tp_callback_free, cases_tp_callback_free},
    {"tp_callback_set_unsaved", call_tp_callback_set_unsaved, cases_tp_callback_set_unsaved},
    {"tp_callback_setup_graph", call_tp_callback_setup_graph, cases_tp_callback_setup_graph},
    {"tp_callback_before_train", call_tp_callback_before_train, cases_tp_callback_before_train},
    {"tp_callback_before_epoch", call_tp_callback_before_epoch, cases_tp_callback_before_epoch},
    {"tp_callback_before_run", call_tp_callback_before_run, cases_tp_callback_before_run},
    {"tp_callback_after_run", call_tp_callback_after_run, cases_tp_callback_after_run},
    {"tp_callback_trigger_step", call_tp_callback_trigger_step, cases_tp_callback_trigger_step},
    {"tp_callback_after_epoch", call_tp_callback_after_epoch, cases_tp_callback_after_epoch},
    {"tp_callback_trigger_epoch", call_tp_callback_trigger_epoch, cases_tp_callback_trigger_epoch},
    {"tp_callback_trigger", call_tp_callback_trigger, cases_tp_callback_trigger},
    {"tp_callback_after_train", call_tp_callback_after_train, cases_tp_callback_after_train},
    {"tp_callback_save_state", call_tp_callback_save_state, cases_tp_callback_save_state},
    {"tp_callback_load_state", call_tp_callback_load_state, cases_tp_callback_load_state},
    {"tp_callback_find", call_tp_callback_find, cases_tp_callback_find},
    {"tp_state_put_i64", call_tp_state_put_i64, cases_tp_state_put_i64},
    {"tp_state_put_f64", call_tp_state_put_f64, cases_tp_state_put_f64},
    {"tp_state_get_i64", call_tp_state_get_i64, cases_tp_state_get_i64},
    {"tp_state_get_f64", call_tp_state_get_f64, cases_tp_state_get_f64},
    {"tp_train_state_save", call_tp_train_state_save, cases_tp_train_state_save},
    {"tp_train_state_load", call_tp_train_state_load, cases_tp_train_state_load},
    {"tp_callback_request_checkpoint", call_tp_callback_request_checkpoint, cases_tp_callback_request_checkpoint},
    {"tp_train_checkpoint", call_tp_train_checkpoint, cases_tp_train_checkpoint},
    {"tp_monitor_new", call_tp_monitor_new, cases_tp_monitor_new},
    {"tp_monitor_fail", call_tp_monitor_fail, cases_tp_monitor_fail},
    {"tp_monitor_free", call_tp_monitor_free, cases_tp_monitor_free},
    {"tp_monitors_new", call_tp_monitors_new, cases_tp_monitors_new},
    {"tp_monitors_put_scalar", call_tp_monitors_put_scalar, cases_tp_monitors_put_scalar},
    {"tp_monitors_put_int", call_tp_monitors_put_int, cases_tp_monitors_put_int},
    {"tp_monitors_process", call_tp_monitors_process, cases_tp_monitors_process},
    {"tp_monitors_put_image", call_tp_monitors_put_image, cases_tp_monitors_put_image},
    {"tp_monitors_put_summary", call_tp_monitors_put_summary, cases_tp_monitors_put_summary},
    {"tp_monitors_put_event", call_tp_monitors_put_event, cases_tp_monitors_put_event},
    {"tp_monitors_get_latest", call_tp_monitors_get_latest, cases_tp_monitors_get_latest},
    {"tp_monitors_get_history", call_tp_monitors_get_history, cases_tp_monitors_get_history},
    {"tp_cb_proxy", call_tp_cb_proxy, cases_tp_cb_proxy},
    {"tp_proxy_inner", call_tp_proxy_inner, cases_tp_proxy_inner},
    {"tp_cb_lambda_", call_tp_cb_lambda_, cases_tp_cb_lambda_},
    {"tp_lambda_user", call_tp_lambda_user, cases_tp_lambda_user},
    {"tp_cb_periodic_trigger_", call_tp_cb_periodic_trigger_, cases_tp_cb_periodic_trigger_},
    {"tp_cb_enable_if_", call_tp_cb_enable_if_, cases_tp_cb_enable_if_},
    {"tp_cb_periodic_callback_", call_tp_cb_periodic_callback_, cases_tp_cb_periodic_callback_},
    {"tp_cb_group", call_tp_cb_group, cases_tp_cb_group},
    {"tp_cb_hook", call_tp_cb_hook, cases_tp_cb_hook},
    {"tp_callback_to_hook", call_tp_callback_to_hook, cases_tp_callback_to_hook},
    {"tp_cb_run_op_", call_tp_cb_run_op_, cases_tp_cb_run_op_},
    {"tp_cb_run_update_ops_", call_tp_cb_run_update_ops_, cases_tp_cb_run_update_ops_},
    {"tp_cb_moving_average_summary_", call_tp_cb_moving_average_summary_, cases_tp_cb_moving_average_summary_},
    {"tp_cb_merge_all_summaries_", call_tp_cb_merge_all_summaries_, cases_tp_cb_merge_all_summaries_},
    {"tp_cb_process_tensors_", call_tp_cb_process_tensors_, cases_tp_cb_process_tensors_},
    {"tp_cb_dump_tensors_", call_tp_cb_dump_tensors_, cases_tp_cb_dump_tensors_},
    {"tp_cb_tensor_printer_", call_tp_cb_tensor_printer_, cases_tp_cb_tensor_printer_},
    {"tp_cb_check_numerics_", call_tp_cb_check_numerics_, cases_tp_cb_check_numerics_},
    {"tp_cb_simple_moving_average_", call_tp_cb_simple_moving_average_, cases_tp_cb_simple_moving_average_},
    {"tp_cb_dump_tensor_as_image_", call_tp_cb_dump_tensor_as_image_, cases_tp_cb_dump_tensor_as_image_},
    {"tp_stop_flag_wait", call_tp_stop_flag_wait, cases_tp_stop_flag_wait},
    {"tp_cb_start_proc_or_thread_", call_tp_cb_start_proc_or_thread_, cases_tp_cb_start_proc_or_thread_},
    {"tp_cb_session_run_timeout", call_tp_cb_session_run_timeout, cases_tp_cb_session_run_timeout},
    {"tp_cb_progress_bar_", call_tp_cb_progress_bar_, cases_tp_cb_progress_bar_},
    {"tp_cb_estimated_time_left_", call_tp_cb_estimated_time_left_, cases_tp_cb_estimated_time_left_},
    {"tp_cb_throughput_tracker_", call_tp_cb_throughput_tracker_, cases_tp_cb_throughput_tracker_},
    {"tp_cb_host_memory_tracker", call_tp_cb_host_memory_tracker, cases_tp_cb_host_memory_tracker},
    {"tp_cb_send_stat", call_tp_cb_send_stat, cases_tp_cb_send_stat},
    {"tp_cb_get_latest", call_tp_cb_get_latest, cases_tp_cb_get_latest},
    {"tp_cb_early_stopping_", call_tp_cb_early_stopping_, cases_tp_cb_early_stopping_},
    {"tp_cb_gpu_utilization_tracker_", call_tp_cb_gpu_utilization_tracker_, cases_tp_cb_gpu_utilization_tracker_},
    {"tp_cb_gpu_memory_tracker_", call_tp_cb_gpu_memory_tracker_, cases_tp_cb_gpu_memory_tracker_},
    {"tp_cb_graph_profiler_", call_tp_cb_graph_profiler_, cases_tp_cb_graph_profiler_},
    {"tp_cb_model_saver_", call_tp_cb_model_saver_, cases_tp_cb_model_saver_},
    {"tp_cb_min_saver_", call_tp_cb_min_saver_, cases_tp_cb_min_saver_},
    {"tp_cb_max_saver_", call_tp_cb_max_saver_, cases_tp_cb_max_saver_},
    {"tp_inferencer_new", call_tp_inferencer_new, cases_tp_inferencer_new},
    {"tp_inferencer_set_names", call_tp_inferencer_set_names, cases_tp_inferencer_set_names},
    {"tp_inferencer_fail", call_tp_inferencer_fail, cases_tp_inferencer_fail},
    {"tp_inferencer_free", call_tp_inferencer_free, cases_tp_inferencer_free},
    {"tp_inf_scalar_stats_", call_tp_inf_scalar_stats_, cases_tp_inf_scalar_stats_},
    {"tp_inf_classification_error_", call_tp_inf_classification_error_, cases_tp_inf_classification_error_},
    {"tp_inf_binary_classification_", call_tp_inf_binary_classification_, cases_tp_inf_binary_classification_},
    {"tp_cb_inference_runner_", call_tp_cb_inference_runner_, cases_tp_cb_inference_runner_},
    {"tp_cb_data_parallel_inference_runner_", call_tp_cb_data_parallel_inference_runner_, cases_tp_cb_data_parallel_inference_runner_},
    {"tp_cb_inference_runner_base_", call_tp_cb_inference_runner_base_, cases_tp_cb_inference_runner_base_},
    {"tp_inference_runner_register_hook", call_tp_inference_runner_register_hook, cases_tp_inference_runner_register_hook},
    {"tp_hyper_param_new", call_tp_hyper_param_new, cases_tp_hyper_param_new},
    {"tp_hyper_param_free", call_tp_hyper_param_free, cases_tp_hyper_param_free},
    {"tp_param_graph_var", call_tp_param_graph_var, cases_tp_param_graph_var},
    {"tp_param_graph_var_array", call_tp_param_graph_var_array, cases_tp_param_graph_var_array},
    {"tp_param_field", call_tp_param_field, cases_tp_param_field},
    {"tp_cb_hyper_param_setter_", call_tp_cb_hyper_param_setter_, cases_tp_cb_hyper_param_setter_},
    {"tp_setter_current_value", call_tp_setter_current_value, cases_tp_setter_current_value},
    {"tp_setter_current_array", call_tp_setter_current_array, cases_tp_setter_current_array},
    {"tp_cb_human_hyper_param_setter_", call_tp_cb_human_hyper_param_setter_, cases_tp_cb_human_hyper_param_setter_},
    {"tp_cb_scheduled_hyper_param_setter_", call_tp_cb_scheduled_hyper_param_setter_, cases_tp_cb_scheduled_hyper_param_setter_},
    {"tp_cb_hyper_param_setter_with_func_", call_tp_cb_hyper_param_setter_with_func_, cases_tp_cb_hyper_param_setter_with_func_},
    {"tp_cb_stat_monitor_param_setter_", call_tp_cb_stat_monitor_param_setter_, cases_tp_cb_stat_monitor_param_setter_},
    {"tp_cb_debug_cli_", call_tp_cb_debug_cli_, cases_tp_cb_debug_cli_},
    {"tp_debug_cli_add_tensor_filter", call_tp_debug_cli_add_tensor_filter, cases_tp_debug_cli_add_tensor_filter},
    {"tp_cb_inject_shell_", call_tp_cb_inject_shell_, cases_tp_cb_inject_shell_},
    {"tp_monitor_tf_event_writer_", call_tp_monitor_tf_event_writer_, cases_tp_monitor_tf_event_writer_},
    {"tp_monitor_json_writer", call_tp_monitor_json_writer, cases_tp_monitor_json_writer},
    {"tp_load_existing_epoch_number", call_tp_load_existing_epoch_number, cases_tp_load_existing_epoch_number},
    {"tp_load_existing_stats", call_tp_load_existing_stats, cases_tp_load_existing_stats},
    {"tp_load_existing_json", call_tp_load_existing_json, cases_tp_load_existing_json},
    {"tp_monitor_scalar_printer_", call_tp_monitor_scalar_printer_, cases_tp_monitor_scalar_printer_},
    {"tp_monitor_send_data_", call_tp_monitor_send_data_, cases_tp_monitor_send_data_},
    {"tp_monitor_comet_", call_tp_monitor_comet_, cases_tp_monitor_comet_},
    {"tp_monitor_report_", call_tp_monitor_report_, cases_tp_monitor_report_},
    {"tp_default_callbacks", call_tp_default_callbacks, cases_tp_default_callbacks},
    {"tp_default_monitors", call_tp_default_monitors, cases_tp_default_monitors},
    {"tp_cb_maintain_step_counter", call_tp_cb_maintain_step_counter, cases_tp_cb_maintain_step_counter},
    {"tp_simple_trainer", call_tp_simple_trainer, cases_tp_simple_trainer},
    {"tp_noop_trainer", call_tp_noop_trainer, cases_tp_noop_trainer},
    {"tp_queue_input_trainer", call_tp_queue_input_trainer, cases_tp_queue_input_trainer},
    {"tp_trainer_set_seed", call_tp_trainer_set_seed, cases_tp_trainer_set_seed},
    {"tp_trainer_free", call_tp_trainer_free, cases_tp_trainer_free},
    {"tp_trainer_setup_graph", call_tp_trainer_setup_graph, cases_tp_trainer_setup_graph},
    {"tp_trainer_register_callback", call_tp_trainer_register_callback, cases_tp_trainer_register_callback},
    {"tp_trainer_register_callback_ex", call_tp_trainer_register_callback_ex, cases_tp_trainer_register_callback_ex},
    {"tp_trainer_setup_callbacks", call_tp_trainer_setup_callbacks, cases_tp_trainer_setup_callbacks},
    {"tp_trainer_initialize", call_tp_trainer_initialize, cases_tp_trainer_initialize},
    {"tp_trainer_initialize_hooks", call_tp_trainer_initialize_hooks, cases_tp_trainer_initialize_hooks},
    {"tp_trainer_hooks", call_tp_trainer_hooks, cases_tp_trainer_hooks},
    {"tp_trainer_main_loop", call_tp_trainer_main_loop, cases_tp_trainer_main_loop},
    {"tp_trainer_run_step", call_tp_trainer_run_step, cases_tp_trainer_run_step},
    {"tp_trainer_monitors", call_tp_trainer_monitors, cases_tp_trainer_monitors},
    {"tp_trainer_set_tower_func", call_tp_trainer_set_tower_func, cases_tp_trainer_set_tower_func},
    {"tp_trainer_towers", call_tp_trainer_towers, cases_tp_trainer_towers},
    {"tp_trainer_inputs_desc", call_tp_trainer_inputs_desc, cases_tp_trainer_inputs_desc},
    {"tp_trainer_get_predictor", call_tp_trainer_get_predictor, cases_tp_trainer_get_predictor},
    {"tp_train", call_tp_train, cases_tp_train},
    {"tp_train_with_defaults", call_tp_train_with_defaults, cases_tp_train_with_defaults},
    {"tp_interrupt", call_tp_interrupt, cases_tp_interrupt},
    {"tp_rank", call_tp_rank, cases_tp_rank},
    {"tp_size", call_tp_size, cases_tp_size},
    {"tp_local_rank", call_tp_local_rank, cases_tp_local_rank},
    {"tp_sync_multi_gpu_trainer_replicated_", call_tp_sync_multi_gpu_trainer_replicated_, cases_tp_sync_multi_gpu_trainer_replicated_},
    {"tp_sync_multi_gpu_trainer_parameter_server_", call_tp_sync_multi_gpu_trainer_parameter_server_, cases_tp_sync_multi_gpu_trainer_parameter_server_},
    {"tp_async_multi_gpu_trainer_", call_tp_async_multi_gpu_trainer_, cases_tp_async_multi_gpu_trainer_},
    {"tp_default_multi_gpu_trainer", call_tp_default_multi_gpu_trainer, cases_tp_default_multi_gpu_trainer},
    {"tp_logger_set_rank_dir", call_tp_logger_set_rank_dir, cases_tp_logger_set_rank_dir},
    {"tp_horovod_trainer_", call_tp_horovod_trainer_, cases_tp_horovod_trainer_},
    {"tp_cluster_task", call_tp_cluster_task, cases_tp_cluster_task},
    {"tp_distributed_trainer_replicated_", call_tp_distributed_trainer_replicated_, cases_tp_distributed_trainer_replicated_},
    {"tp_distributed_trainer_parameter_server_", call_tp_distributed_trainer_parameter_server_, cases_tp_distributed_trainer_parameter_server_},
    {"tp_auto_resume_train_config", call_tp_auto_resume_train_config, cases_tp_auto_resume_train_config},
    {"tp_apply_default_prefetch", call_tp_apply_default_prefetch, cases_tp_apply_default_prefetch},
    {"tp_launch_train_with_config", call_tp_launch_train_with_config, cases_tp_launch_train_with_config},
    {"tp_export_c", call_tp_export_c, cases_tp_export_c},
    {"tp_export_c_text", call_tp_export_c_text, cases_tp_export_c_text},
    {"tp_export_onnx", call_tp_export_onnx, cases_tp_export_onnx},
    {"tp_export_onnx_buf", call_tp_export_onnx_buf, cases_tp_export_onnx_buf},
    {"tp_model_exporter_new", call_tp_model_exporter_new, cases_tp_model_exporter_new},
    {"tp_model_exporter_free", call_tp_model_exporter_free, cases_tp_model_exporter_free},
    {"tp_model_exporter_session", call_tp_model_exporter_session, cases_tp_model_exporter_session},
    {"tp_export_compact", call_tp_export_compact, cases_tp_export_compact},
    {"tp_export_serving", call_tp_export_serving, cases_tp_export_serving},
    {"tp_import_onnx", call_tp_import_onnx, cases_tp_import_onnx},
    {"tp_import_onnx_parse", call_tp_import_onnx_parse, cases_tp_import_onnx_parse},
    {"tp_import_onnx_operator", call_tp_import_onnx_operator, cases_tp_import_onnx_operator},
};
