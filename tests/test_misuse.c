/* test_misuse.c - NULL, empty lists, counts and enums that do not fit, for each parameter of each public function: a sentence,
 * nothing lost, no crash. The calls are in misuse_calls.h, which tests/gen_misuse.py makes of the headers' declarations; here is
 * what makes their good arguments, and what must hold after each.
 *
 *     ./test_misuse calls/tp_session_run     the calls of one function (of those whose names begin so)
 *     ./test_misuse fork                     each call in a process of its own: a list of all that crash
 *     ./test_misuse cycles 10000 [tp_df_]    each function with good arguments, 10,000 times (make soak): see >>cycles
 */
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include "tp_layers.h"
#include "tp_export.h"
#include "tp_import.h"
#include "tp_test.h"

#include <limits.h>
#include <sys/wait.h>

/* ==== >>world ========================================================================================= */
/* What a call may need, made when it is asked for and freed after the call, in an order that is allowed. */

typedef struct thing {
    void *p;
    void (*free)(void *p);
    struct thing *next;
} thing;

static struct {
    thing *things; /* newest first */
    tp_graph *g, *other;
    tp_session *s;
    tp_device *d;
    tp_trainer *t;
    tp_tower_func *f;
    bool in_tower;
    int n_name;
} world;

static void *owned(void *p, void (*free_fn)(void *p))
{
    thing *t = (thing *)malloc(sizeof *t);
    if (!t) abort();
    t->p = p;
    t->free = free_fn;
    t->next = world.things;
    world.things = t;
    return p;
}
#define FREES(type_, fn_) \
    static void free_##fn_(void *p) { fn_((type_ *)p); }
FREES(tp_graph, tp_graph_free)
FREES(tp_session, tp_session_free)
FREES(tp_hooked_session, tp_hooked_session_free)
FREES(tp_predictor, tp_predictor_free)
FREES(tp_session_init, tp_session_init_free)
FREES(tp_trainer, tp_trainer_free)
FREES(tp_callback, tp_callback_free)
FREES(tp_monitor, tp_monitor_free)
FREES(tp_inferencer, tp_inferencer_free)
FREES(tp_dataflow, tp_df_free)
FREES(tp_input_source, tp_input_free)
FREES(tp_model_exporter, tp_model_exporter_free)
FREES(tp_regex, tp_regex_free)
FREES(tp_pool, tp_pool_free)
FREES(tp_queue, tp_queue_free)
FREES(tp_augmentor, tp_aug_free)
FREES(tp_transform, tp_transform_free)
FREES(tp_mutex, tp_mutex_free)
FREES(tp_cond, tp_cond_free)
FREES(tp_writer, tp_writer_abort)
FREES(tp_npz_writer, tp_npz_abort)
FREES(tp_dict, tp_dict_free)
FREES(tp_buf, tp_buf_free)
FREES(tp_arena, tp_arena_free)
FREES(tp_datapoint, tp_datapoint_free)
FREES(tp_tensor, tp_tensor_free)
static void free_device(void *p) { ((tp_device *)p)->close((tp_device *)p); }

/* What outputs are written to; what was written there is freed with the world. */
static char text_out[4096], *chars_out, scratch[1 << 16], log_text[256];
static size_t sizes_out[4];
static int ints_out[8], bad_enum_ = -1, large_enum_ = 99;
static int64_t int64s_out[8];
static double doubles[8];
static float floats[64];
static uint32_t u32s[4];
static tp_thread *thread_out;
static tp_writer *writer_out;
static tp_npz_writer *npz_out;
static tp_device *device_out;
static const tp_tensor *tensors_out[8];
static tp_checkpoint_entry *entries_out;
static tp_stat_entry *records_out;
static tp_plan_info plan_info;
static tp_regex *regex_out;
static tp_tfrecord_reader *record_reader_out;
static const void *data_out;
static tp_span spans[2];
static bool bool_out;
static tp_export_c_info export_info;
static tp_onnx_model onnx_model;
static tp_stat stat_out;
static const tp_stat *stats_out;
static tp_callback *callbacks_out[TP_N_DEFAULT_CALLBACKS];
static tp_monitor *monitors_out[TP_N_DEFAULT_MONITORS];
static tp_node *nodes_out_[64], *no_node;
static const char *text_in, *const names[2] = {"one", "two"}, *no_format = "text";
static const unsigned char bytes[16] = {1, 2, 3, 4};
#define bad_enum   bad_enum_
#define large_enum large_enum_

static const char *tmp_dir(void)
{
    static const char *dir;
    if (!dir) {
        dir = tp_test_tmpdir();
        if (chdir(dir) != 0) abort(); /* what a bad name makes lies there */
    }
    return dir;
}
static const char *a_dir(void) { return tmp_dir(); }
static const char *a_path(const char *name) { return tp_test_path(tmp_dir(), name); }
static const char *a_file(const char *name)
{
    tp_test_write(a_path(name), "bytes", 5);
    return a_path(name);
}
static const char *long_text(void)
{
    static char text[301];
    memset(text, 'x', 300);
    return text;
}

static tp_shape shape_of(int64_t a, int64_t b)
{
    tp_shape s;
    memset(&s, 0, sizeof s);
    s.ndim = 2;
    s.dim[0] = a, s.dim[1] = b;
    return s;
}
static tp_shape bad_shape(int ndim, int64_t dim)
{
    tp_shape s;
    memset(&s, 0, sizeof s);
    s.ndim = ndim;
    for (int i = 0; i < TP_MAX_DIMS; i++) s.dim[i] = dim;
    return s;
}
static const tp_shape *a_shape(void)
{
    static tp_shape s;
    s = shape_of(2, 4);
    return &s;
}

static tp_graph *graph(void)
{
    if (!world.g) world.g = (tp_graph *)owned(tp_graph_new(NULL), free_tp_graph_free);
    return world.g;
}
static tp_graph *graph_given(void) { return tp_graph_new(NULL); }
static tp_tensor *tensor_shaped(tp_dtype dtype, tp_shape shape)
{
    tp_tensor *t = (tp_tensor *)owned(calloc(1, sizeof *t), free_tp_tensor_free);
    owned(t, free);
    /* the shell goes after its content: the newest is freed first */
    thing *shell = world.things, *content = shell->next;
    shell->next = content->next;
    content->next = shell;
    world.things = content;
    if (tp_tensor_resize(t, dtype, shape) == TP_OK && tp_tensor_bytes(t)) memset(t->data, 0, tp_tensor_bytes(t));
    return t;
}
static tp_tensor *a_tensor24(void) { return tensor_shaped(TP_F32, shape_of(2, 4)); }
static tp_tensor *an_image(void) { return tensor_shaped(TP_F32, shape_of(8, 8)); }
static tp_tensor *tensors_in(void) { return a_tensor24(); }
static tp_device *device(void);
static tp_tensor *tensor_out(void)
{
    return (void)device(), a_tensor24();
} /* it may go there, and is freed before it */

static tp_node *node_shaped(tp_dtype dtype, int ndim, int64_t a, int64_t b, int64_t c, int64_t d)
{
    tp_shape s;
    memset(&s, 0, sizeof s);
    s.ndim = ndim;
    s.dim[0] = a, s.dim[1] = b, s.dim[2] = c, s.dim[3] = d;
    return tp_constant(graph(), tensor_shaped(dtype, s));
}
static tp_node *node(void) { return node_shaped(TP_F32, 2, 2, 4, 0, 0); }
static tp_node *node_of(int64_t a, int64_t b) { return node_shaped(TP_F32, 2, a, b, 0, 0); }
static tp_node *node_of1(int64_t a) { return node_shaped(TP_F32, 1, a, 0, 0, 0); }
static tp_node *node_row(void) { return node_of1(4); }
static tp_node *node_square(void) { return node_of(4, 4); }
static tp_node *node_scalar(void) { return tp_const(graph(), 0.5f); }
static tp_node *node_labels(void) { return node_shaped(TP_I32, 1, 2, 0, 0, 0); }
static tp_node *node_labels_float(void) { return node_of1(2); }
static tp_node *node_label_table(void) { return node_shaped(TP_I32, 2, 2, 2, 0, 0); }
static tp_node *node_bool(void) { return node_shaped(TP_BOOL, 2, 2, 4, 0, 0); }
static tp_node *node_pred(void) { return node_shaped(TP_BOOL, 0, 0, 0, 0, 0); }
static tp_node *node_image(void) { return node_shaped(TP_F32, 4, 2, 8, 8, 3); }
static tp_node *node_image2(void) { return node_shaped(TP_F32, 4, 2, 8, 8, 2); }
static tp_node *node_image4(void) { return node_shaped(TP_F32, 4, 2, 8, 8, 4); }
static tp_node *node_coords(void) { return node_shaped(TP_F32, 4, 2, 8, 8, 2); }
static tp_node *node_filter(void) { return node_shaped(TP_F32, 4, 3, 3, 3, 2); }
static tp_node *node_sequence(void) { return node_shaped(TP_F32, 3, 2, 2, 4, 0); }
static tp_node *variable_named(const char *name)
{
    for (int i = 0; i < tp_graph_n_variables(graph()); i++)
        if (strcmp(tp_graph_variable(graph(), i)->name, name) == 0) return tp_graph_variable(graph(), i)->node;
    return tp_get_variable_as(graph(), name, TP_F32, shape_of(2, 4), tp_init_zeros());
}
static tp_node *node_variable(void) { return variable_named("variable"); }
static tp_variable *variable(void) { return tp_node_variable(node_variable()); }
static tp_node *node_cost(void) { return tp_mean(tp_square(node_variable())); }
static tp_node *node_of_another_graph(void)
{
    if (!world.other) world.other = (tp_graph *)owned(tp_graph_new(NULL), free_tp_graph_free);
    return tp_constant(world.other, a_tensor24());
}
static tp_node *node_of_layer(void)
{
    tp_fully_connected_desc d;
    memset(&d, 0, sizeof d);
    d.name = "layer";
    d.units = 2;
    return tp_fully_connected_(node(), &d);
}

/* Lists, of two unless their name says otherwise: eight in turn, for calls that take several. */
static tp_node **list_of_nodes(tp_node *a, tp_node *b)
{
    static tp_node *lists[8][3];
    static int at;
    tp_node **l = lists[at++ % 8];
    l[0] = a, l[1] = b, l[2] = NULL;
    return l;
}
static tp_node **list_nodes(void) { return list_of_nodes(node(), node()); }
static tp_node **list_with_null(void) { return list_of_nodes(NULL, NULL); }
static tp_node **list_scalar(void) { return list_of_nodes(node_scalar(), node_scalar()); }
static tp_node **list_variables(void) { return list_of_nodes(variable_named("a1"), variable_named("a2")); }
static tp_node **list_variables2(void) { return list_of_nodes(variable_named("b1"), variable_named("b2")); }
static tp_node **list_variables3(void) { return list_of_nodes(variable_named("c1"), variable_named("c2")); }
static tp_node *const *const *list_of_lists(void)
{
    static tp_node *const *lists[2];
    lists[0] = lists[1] = list_nodes();
    return lists;
}
static tp_variable **list_of_variables(void)
{
    static tp_variable *list[2];
    list[0] = tp_node_variable(variable_named("a1")), list[1] = tp_node_variable(variable_named("a2"));
    return list;
}
static tp_node **nodes_out(void) { return nodes_out_; }
static tp_node **node_out(void) { return nodes_out_; }
static const int *ints(void)
{
    static const int list[2] = {2, 2};
    return list;
}
static const int *ints_zero(void)
{
    static const int list[2] = {0, 0};
    return list;
}
static const int64_t *int64s_zero(void)
{
    static const int64_t list[TP_MAX_DIMS] = {0};
    return list;
}
static const int64_t *int64s_one(void)
{
    static const int64_t list[TP_MAX_DIMS] = {1, 1, 1, 1, 1, 1, 1, 1};
    return list;
}
static const int64_t *int64s_rising(void)
{
    static const int64_t list[4] = {1, 2, 3, 4};
    return list;
}

/* ==== >>tensor's ====================================================================================== */

static const tp_at here = TP_AT;
static void *room(size_t size) { return owned(calloc(1, size), free); }
static tp_dict *dict(void)
{
    tp_dict *d = (tp_dict *)room(sizeof *d);
    return (tp_dict *)owned(d, free_tp_dict_free);
}
static tp_buf *buf(void) { return (tp_buf *)owned(room(sizeof(tp_buf)), free_tp_buf_free); }
static tp_arena *arena(void) { return (tp_arena *)owned(room(sizeof(tp_arena)), free_tp_arena_free); }
static tp_regex *regex_given(void)
{
    tp_regex *re = NULL;
    tp_regex_new("a(b)*", &re);
    return re;
}
static tp_regex *regex(void) { return (tp_regex *)owned(regex_given(), free_tp_regex_free); }
static tp_queue *queue_given(void) /* with something in it, and room for more */
{
    tp_queue *q = tp_queue_new(4);
    float v = 1;
    tp_tensor t = tp_scalar_view(&v);
    const tp_datapoint dp = {1, &t, 1};
    if (q) tp_queue_put(q, &dp);
    return q;
}
static tp_queue *queue(void) { return (tp_queue *)owned(queue_given(), free_tp_queue_free); }
static tp_pool *pool_given(void) { return tp_pool_new(1); }
static tp_pool *pool(void) { return (tp_pool *)owned(pool_given(), free_tp_pool_free); }
static tp_mutex *mutex_given(void) { return tp_mutex_new(); }
static tp_mutex *mutex(void)
{
    tp_mutex *m = (tp_mutex *)owned(tp_mutex_new(), free_tp_mutex_free);
    return m;
}
static tp_cond *cond_given(void) { return tp_cond_new(); }
static tp_cond *cond(void) { return (tp_cond *)owned(cond_given(), free_tp_cond_free); }
static tp_device *device(void)
{
    if (!world.d) world.d = (tp_device *)owned(tp_cpu_device_new(1, NULL), free_device);
    return world.d;
}
static tp_writer *writer_given(void)
{
    tp_writer *w = NULL;
    tp_writer_open(&w, a_path("written"));
    return w;
}
static tp_writer *writer(void) { return (tp_writer *)owned(writer_given(), free_tp_writer_abort); }
static tp_npz_writer *npz_given(void)
{
    tp_npz_writer *w = NULL;
    tp_npz_open(&w, a_path("written.npz"), false);
    return w;
}
static tp_npz_writer *npz(void) { return (tp_npz_writer *)owned(npz_given(), free_tp_npz_abort); }
static const char *a_checkpoint(void)
{
    tp_dict d;
    memset(&d, 0, sizeof d);
    tp_tensor *t = tp_dict_add(&d, "variable");
    if (t) tp_tensor_copy(t, a_tensor24());
    tp_npz_save(a_path("checkpoint.npz"), &d, false);
    tp_dict_free(&d);
    return a_path("checkpoint.npz");
}
/* A checkpoint of the variables that the session has. */
static const char *its_model(tp_session *s)
{
    if (s) tp_save_checkpoint(s, a_path("model.npz"), NULL, 0);
    return a_path("model.npz");
}
static void no_chunk(void *user, int64_t chunk) { (void)user, (void)chunk; }
static void no_kernel(const tp_call *k) { (void)k; }
static void no_thread(void *user) { (void)user; }
static const tp_call *a_call(void)
{
    static tp_call k;
    static int64_t fault[2];
    memset(&k, 0, sizeof k);
    fault[0] = fault[1] = 0;
    k.fault = fault;
    k.fault_id = 1;
    return &k;
}

/* ==== >>graph's ======================================================================================= */

static tp_conv2d_attrs conv_attrs;
static tp_pool_attrs pool_attrs = {2, 2, 0, 0, 0, 0};
static tp_resize_attrs resize_attrs = {4, 4, false, false, false, 0};
static tp_session_config one_thread;
static tp_saver_restore_desc restore_desc = {"nowhere", NULL, NULL, 0, false, false, false};
static tp_variable_desc variable_desc;
static tp_variable_scope_desc variable_scope;
static tp_tower_desc tower_desc;
static tp_towers_desc towers_desc;

static tp_apply_desc *apply_relu_(void)
{
    static tp_apply_desc d;
    memset(&d, 0, sizeof d);
    d.row = tp_op_find("relu");
    d.in = list_nodes();
    d.n_in = 1;
    return &d;
}
#define apply_relu() *apply_relu_()
static tp_infer *an_infer(void)
{
    static tp_infer s;
    memset(&s, 0, sizeof s);
    s.name = "op";
    return &s;
}
static const tp_init *an_initial(void)
{
    static tp_init i;
    i = tp_init_ones();
    return &i;
}
static tp_init bad_initial(void)
{
    tp_init i = tp_init_ones();
    i.kind = 99;
    return i;
}
static tp_node *tower_function(const tp_tower_context *tower, void *user)
{
    (void)user;
    return tp_const(tower->graph, 1.0f);
}
static tp_node *build_function(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, shape_of(4, 4), tp_init_ones());
    return tp_named(tp_mean(tp_square(in ? tp_matmul(in[0], w) : w)), "cost");
}
static const tp_spec *a_known_spec(void)
{
    static tp_spec spec;
    spec.name = "x";
    spec.dtype = TP_F32;
    spec.shape = shape_of(2, 4);
    return &spec;
}
static const tp_spec *a_spec(void) { return a_known_spec(); }
static tp_tower_func *tower_func(void)
{
    if (!world.f) world.f = tp_tower_func_new(graph(), build_function, NULL, a_spec(), 1);
    if (!world.f || tp_tower_func_n_towers(world.f)) return world.f;
    if (tp_tower_enter(graph(), &tower_desc)) {
        tp_tower_func_call(world.f, list_nodes());
        tp_tower_leave(graph());
    }
    return world.f;
}
static const tp_tower_handle *tower_handle(void) { return tp_tower_func_tower(tower_func(), 0); }
static tp_node *remap(tp_node *var, void *user) { return (void)user, var; }

static tp_session *session_of(tp_graph *g)
{
    one_thread.threads = 1;
    return tp_session_new(g, &one_thread);
}
static tp_session *session(void)
{
    if (!world.s) {
        node_variable();
        world.s = (tp_session *)owned(session_of(graph()), free_tp_session_free);
    }
    return world.s;
}
static tp_session *session_given(void) { return session_of(graph()); }
static tp_hooked_session *hooked_given(void) { return tp_hooked_session_new(session(), NULL, 0); }
static tp_hooked_session *hooked(void)
{
    return (tp_hooked_session *)owned(hooked_given(), free_tp_hooked_session_free);
}
static tp_memory_use memory_out;
static tp_trace trace_out;
static tp_run_options run_options;
static const tp_feed *feeds(void)
{
    static tp_feed feed[2];
    for (int i = 0; i < 2; i++) {
        feed[i].node = node();
        memset(&feed[i].value, 0, sizeof feed[i].value);
        tp_tensor_view(&feed[i].value, TP_F32, shape_of(2, 4), floats);
    }
    return feed;
}
static tp_status hook_begin(tp_hook *h, tp_graph *g) { return (void)h, (void)g, TP_OK; }
static tp_hook *a_hook(void)
{
    static tp_hook h;
    memset(&h, 0, sizeof h);
    h.name = "hook";
    h.begin = hook_begin;
    return &h;
}
static tp_hook **list_hooks(void)
{
    static tp_hook *list[2];
    list[0] = list[1] = a_hook();
    return list;
}
static tp_session *adapt(tp_session *s, void *user) { return (void)user, s; }
static tp_session_adapter *adapter(void)
{
    static tp_session_adapter a;
    a.inner = tp_new_session_creator(NULL);
    a.fn = adapt;
    return &a;
}
static tp_session_init *an_init_given(void) { return tp_just_current_session(); }
static tp_session_init *an_init(void) { return (tp_session_init *)owned(an_init_given(), free_tp_session_init_free); }
static tp_session_init **list_inits_given(void)
{
    static tp_session_init *list[2];
    list[0] = an_init_given(), list[1] = an_init_given();
    return list;
}
#define list_inits() list_inits_given()
static const tp_collection_backup *a_backup(void) { return tp_backup_collection(graph(), NULL, 0); }
static const tp_predict_config *predict_config(void)
{
    static tp_predict_config c;
    static const char *const outputs[1] = {"cost"};
    memset(&c, 0, sizeof c);
    c.inputs = a_spec();
    c.n_inputs = 1;
    c.build_graph = build_function;
    c.output_names = outputs;
    c.n_output_names = 1;
    return &c;
}
static tp_predictor *predictor_given(void) { return tp_offline_predictor(predict_config()); }
static tp_predictor *predictor(void) { return (tp_predictor *)owned(predictor_given(), free_tp_predictor_free); }
static tp_model_exporter *exporter_given(void) { return tp_model_exporter_new(predict_config()); }
static tp_model_exporter *exporter(void)
{
    return (tp_model_exporter *)owned(exporter_given(), free_tp_model_exporter_free);
}

/* ==== >>layers', optim's ============================================================================== */

static tp_fully_connected_desc fully_connected;
static tp_conv2d_desc conv2d_options;
static tp_node *apply_nothing(tp_node *x, void *user) { return (void)user, x; }
static tp_layer a_layer;
static tp_node *build_nothing(tp_node *x, const void *d) { return (void)d, x; }
static const tp_layer_type *a_layer_type(void)
{
    static tp_layer_type t;
    t.name = "Mine";
    t.c_name = "mine";
    t.desc_size = sizeof(tp_layer_head);
    t.build = build_nothing;
    return &t;
}
static tp_grad_var *gvs(void)
{
    static tp_grad_var list[2];
    for (int i = 0; i < 2; i++) {
        list[i].grad = node();
        list[i].var = list_variables()[i];
    }
    return list;
}
static tp_optimizer *optimizer(void) { return tp_sgd_(node_scalar(), NULL); }
static tp_node *post_process(tp_node *var, tp_node *updated, tp_node *pred, void *user)
{
    return (void)var, (void)updated, (void)pred, (void)user, NULL;
}
static tp_node *assignment(tp_node *updated, tp_node *var, void *user)
{
    return (void)updated, (void)var, (void)user, NULL;
}
static tp_node *map_gradient(tp_node *grad, tp_node *var, void *user) { return (void)var, (void)user, grad; }
static const tp_optimizer_part *parts_of_an_optimizer(void)
{
    static tp_optimizer_part list[2];
    list[0].regex = "none", list[1].regex = ".*";
    list[0].opt = optimizer(), list[1].opt = optimizer();
    return list;
}
static const tp_gradproc *gradprocs(void)
{
    static tp_gradproc list[2];
    list[0] = tp_gradproc_filter_none(), list[1] = tp_gradproc_global_norm_clip(1.0f);
    return list;
}
static const tp_grad_rule a_rule = {"x", 0.5f};

/* ==== >>input's, callbacks', train's ================================================================== */

static tp_datapoint *datapoint(void)
{
    tp_datapoint *dp = (tp_datapoint *)owned(room(sizeof *dp), free_tp_datapoint_free);
    if (tp_datapoint_resize(dp, 1) == TP_OK) tp_tensor_copy(&dp->c[0], a_tensor24());
    return dp;
}
static const char *a_tfrecord(void)
{
    const char *path = a_path("x.tfrecord");
    tp_buf b = {NULL, 0, 0, false};
    tp_tfrecord_append(&b, bytes, sizeof bytes);
    tp_test_write(path, b.data, b.len);
    tp_buf_free(&b);
    return path;
}
static tp_tfrecord_reader *record_reader_given(void)
{
    tp_tfrecord_reader *r = NULL;
    tp_tfrecord_open(&r, a_tfrecord());
    return r;
}
static void free_record_reader(void *r) { tp_tfrecord_close((tp_tfrecord_reader *)r); }
static tp_tfrecord_reader *record_reader(void)
{
    return (tp_tfrecord_reader *)owned(record_reader_given(), free_record_reader);
}
static const char *a_text(void)
{
    const char *path = a_path("x.txt");
    tp_test_write(path, "1\n2\n3\n4\n", 8);
    return path;
}
static void free_vocabulary(void *v) { tp_vocabulary_free((tp_vocabulary *)v); }
static tp_vocabulary *vocabulary(void) /* with <unk>, so that every word is found */
{
    tp_vocabulary *v = (tp_vocabulary *)owned(room(sizeof *v), free_vocabulary);
    tp_vocabulary_words(v, a_text(), 1, 0);
    return v;
}
static const tp_csv_column a_column = {NULL, 0, 0, TP_F32};
static tp_map_call a_map_call;
static tp_status generate(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    (void)user, (void)pass;
    if (index >= 8) return TP_END;
    tp_status st = tp_datapoint_resize(dp, 1);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_F32, shape_of(2, 4));
    if (st == TP_OK) memset(dp->c[0].data, 0, tp_tensor_bytes(&dp->c[0]));
    return st;
}
static tp_status map_nothing(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    return (void)in, (void)out, (void)call, TP_OK;
}
static tp_status map_component(const tp_tensor *in, tp_tensor *out, tp_map_call *call)
{
    return (void)in, (void)out, (void)call, TP_OK;
}
static tp_dataflow *dataflow_given(void)
{
    tp_df_from_generator_desc d;
    memset(&d, 0, sizeof d);
    d.fn = generate;
    d.size = 8;
    return tp_df_from_generator_(&d);
}
static tp_status one_sample(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    (void)user, (void)pass, (void)index;
    const int64_t n = 4;
    tp_status st = tp_datapoint_resize(dp, 1);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_F32, tp_make_shape_n(1, &n));
    if (st == TP_OK) memset(dp->c[0].data, 0, tp_tensor_bytes(&dp->c[0]));
    return st;
}
static tp_dataflow *samples_given(void)
{
    tp_df_from_generator_desc d;
    memset(&d, 0, sizeof d);
    d.fn = one_sample;
    return tp_df_from_generator_(&d);
}
/* An image (2,4) and another one, or points (4,2); a path, as bytes. */
static char pair_of_images, pair_with_points, path_alone;
static tp_status one_pair(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    if (user == &path_alone) return tp_datapoint_set_text(dp, 0, a_path("data/class/0.png"));
    tp_status st = generate(NULL, pass, index, dp);
    if (st == TP_OK) st = tp_datapoint_resize(dp, 2);
    if (st == TP_OK)
        st = tp_tensor_resize(&dp->c[1], TP_F32, user == &pair_of_images ? shape_of(2, 4) : shape_of(4, 2));
    if (st == TP_OK) memset(dp->c[1].data, 0, tp_tensor_bytes(&dp->c[1]));
    return st;
}
static tp_dataflow *pairs_given(char *kind)
{
    tp_df_from_generator_desc d;
    memset(&d, 0, sizeof d);
    d.fn = one_pair;
    d.user = kind;
    d.size = 8;
    return tp_df_from_generator_(&d);
}
/* A folder with small files of each data set. */
static const char *data_dir(void)
{
    static char records[4 * 3074], images[16 + 4 * 28 * 28] = {0, 0, 8, 3, 0, 0, 0, 4, 0, 0, 0, 28, 0, 0, 0, 28};
    static const char labels[8 + 4] = {0, 0, 8, 1, 0, 0, 0, 4};
    static bool made;
    const char *dir = a_path("data");
    if (made) return dir;
    made = true;
    if (tp_make_dirs(tp_test_path(dir, "class")) != TP_OK) abort();
    tp_test_write(tp_test_path(dir, "train-images-idx3-ubyte"), images, sizeof images);
    tp_test_write(tp_test_path(dir, "train-labels-idx1-ubyte"), labels, sizeof labels);
    tp_test_write(tp_test_path(dir, "test_batch.bin"), records, 4 * 3073);
    tp_test_write(tp_test_path(dir, "test.bin"), records, sizeof records);
    tp_test_write(tp_test_path(dir, "list.txt"), "class/0.png 0\n", 14);
    tp_save_png(tp_test_path(dir, "class/0.png"), an_image());
    return dir;
}
static const char *data_file(const char *name) { return tp_test_path(data_dir(), name); }
static const char *const *data_files(const char *name)
{
    static const char *list[1];
    list[0] = data_file(name);
    return list;
}
static const char *const *records_files(void)
{
    static const char *list[1];
    list[0] = a_tfrecord();
    return list;
}
static tp_dataflow *dataflow_of_thread(void *user, int i)
{
    (void)user, (void)i;
    return dataflow_given();
}
static tp_dataflow *dataflow(void) { return (tp_dataflow *)owned(dataflow_given(), free_tp_df_free); }
static tp_augmentor *augmentor_given(void) { return tp_aug_center_crop(1, 2); }
static tp_augmentor *augmentor(void) { return (tp_augmentor *)owned(augmentor_given(), free_tp_aug_free); }
static tp_augmentor **list_augmentors_given(void)
{
    static tp_augmentor *list[2];
    list[0] = augmentor_given(), list[1] = augmentor_given();
    return list;
}
static tp_transform *transform(void) /* for images of 2x4 */
{
    static tp_transform t;
    tp_augmentor *a = augmentor();
    tp_transform_free(&t);
    if (tp_aug_draw(a, 2, 4, 1, 1, &t) != TP_OK) abort();
    return (tp_transform *)owned(&t, free_tp_transform_free);
}
static tp_tensor *points(void) { return tensor_shaped(TP_F32, shape_of(4, 2)); }
static tp_status map_pixels(const tp_tensor *in, tp_tensor *out, const tp_aug_call *call)
{
    return (void)in, (void)out, (void)call, TP_OK;
}
static tp_dataflow **list_dataflows_given(void)
{
    static tp_dataflow *list[2];
    list[0] = dataflow_given(), list[1] = dataflow_given();
    return list;
}
static tp_input_source *input_ready_given(void)
{
    tp_feed_input_desc d;
    memset(&d, 0, sizeof d);
    d.df = dataflow_given();
    return tp_feed_input_(&d);
}
static tp_input_source *input_ready(void) { return (tp_input_source *)owned(input_ready_given(), free_tp_input_free); }
static tp_input_source *input_queued_given(void)
{
    tp_queue_input_desc d;
    memset(&d, 0, sizeof d);
    d.df = dataflow_given();
    return tp_queue_input_(&d);
}
static const char *const names_x[] = {"x", NULL};
static const tp_dtype dtypes[] = {TP_F32, TP_I32};
static tp_status give_tensors(tp_graph *g, int tower, tp_node **in, int n, void *user)
{
    (void)tower, (void)user;
    for (int i = 0; i < n; i++) in[i] = tp_constant(g, a_tensor24());
    return TP_OK;
}

static tp_status trigger_nothing(tp_callback *cb) { return (void)cb, TP_OK; }
static bool always(tp_callback *cb, void *user) { return (void)cb, (void)user, true; }
static void run_nothing(tp_stop_flag *f, void *user) { (void)f, (void)user; }
static tp_status make_nothing(tp_callback *runner, tp_input_source *input, void *user)
{
    (void)runner, (void)input, (void)user;
    return TP_OK;
}
static bool filter_nothing(const tp_node *node, const tp_tensor *value, void *user)
{
    (void)node, (void)value, (void)user;
    return false;
}
static tp_node *make_op(tp_graph *g, void *user) { return (void)user, tp_const(g, 1.0f); }
static tp_status process_nothing(tp_callback *cb, const tp_tensor *const *values, int n, void *user)
{
    return (void)cb, (void)values, (void)n, (void)user, TP_OK;
}
static tp_status set_nothing(tp_callback *cb, void *user, double *value, bool *set)
{
    return (void)cb, (void)user, (void)value, *set = false, TP_OK;
}
static double same_value(int64_t epoch, double value, void *user) { return (void)epoch, (void)user, value; }
static tp_status keep_value(double *value, void *user) { return (void)value, (void)user, TP_OK; }
static tp_callback *callback_given(void)
{
    tp_callback *cb = tp_callback_new("Mine", 8);
    if (cb) cb->trigger = trigger_nothing;
    return cb;
}
static tp_train_state *train_state(void)
{
    static tp_train_state s;
    memset(&s, 0, sizeof s);
    s.graph = graph();
    s.session = session();
    s.is_chief = true;
    return &s;
}
static tp_callback *callback(void)
{
    tp_callback *cb = (tp_callback *)owned(callback_given(), free_tp_callback_free);
    if (cb) cb->train = train_state();
    return cb;
}
static tp_callback **list_callbacks_given(void)
{
    static tp_callback *list[2];
    list[0] = callback_given(), list[1] = callback_given();
    return list;
}
static tp_monitor *monitor_given(void) { return tp_monitor_new("Mine", 8); }
static tp_monitor *monitor(void) { return (tp_monitor *)owned(monitor_given(), free_tp_monitor_free); }
static tp_monitor **list_monitors_given(void)
{
    static tp_monitor *list[2];
    list[0] = monitor_given(), list[1] = monitor_given();
    return list;
}
static tp_monitor **list_monitors(void)
{
    static tp_monitor *list[2];
    list[0] = monitor(), list[1] = monitor();
    return list;
}
static void free_monitors(void *p) { tp_callback_free(&((tp_monitors *)p)->cb); }
static tp_monitors *monitors(void)
{
    tp_monitors *m = tp_monitors_new(list_monitors(), 2);
    if (m) m->cb.train = train_state();
    return (tp_monitors *)owned(m, free_monitors);
}
static tp_run_values run_values;
static tp_summary a_summary;
static tp_event an_event;
static tp_inferencer *inferencer_given(void) { return tp_inferencer_new("Mine", 8); }
static tp_inferencer *inferencer(void) { return (tp_inferencer *)owned(inferencer_given(), free_tp_inferencer_free); }
static tp_hyper_param *hyper_param_given(void) { return tp_hyper_param_new("mine", 8); }
static tp_run_request *a_request(void) { return (tp_run_request *)(void *)scratch; } /* nobody looks at it */

static tp_optimizer *model_optimizer(tp_graph *g, void *user) { return (void)user, tp_sgd_(tp_const(g, 0.1f), NULL); }
static tp_model a_model;
static const tp_cluster a_cluster = {1, NULL, NULL, 0};
static tp_job job_out;
static tp_train_desc train_desc;
static tp_trainer *trainer_given(void) { return tp_simple_trainer(); }
static tp_trainer *trainer(void) { return (tp_trainer *)owned(trainer_given(), free_tp_trainer_free); }
static tp_train_config *train_config_given(void)
{
    static tp_train_config c;
    memset(&c, 0, sizeof c);
    c.model = a_model;
    c.dataflow = dataflow_given();
    c.steps_per_epoch = 1;
    c.max_epoch = 1;
    return &c;
}
static tp_train_config *resume_config(void)
{
    static tp_train_config c;
    memset(&c, 0, sizeof c);
    return &c;
}

/* ==== >>use of objects ========================================================================================== */
/* In cycles (see below) an object is used between its creation and its end. The results of these functions do not matter: an object
 * that cannot be used here, such as a callback that misses a name, must not leave anything behind either. */

static const char *call_name, *call_case; /* "tp_add", "!b = NULL" */
static bool survived;                     /* the result was looked at */
static bool in_cycles;

/* With TP_MISUSE_TRACE: what could not be used. */
static bool used(tp_status st)
{
    if (st < TP_OK && getenv("TP_MISUSE_TRACE")) fprintf(stderr, "    %s\n", tp_last_error());
    return st == TP_OK;
}

static tp_node *cycle_graph(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, shape_of(4, 4), tp_init_ones());
    tp_named(tp_cast(in[0], TP_I32), "p");
    tp_named(tp_cast(in[0], TP_I32), "l");
    tp_named(tp_mean_over(in[0], 1), "incorrect_vector");
    tp_node *cost = tp_named(tp_mean(tp_square(tp_matmul(in[0], w))), "cost");
    tp_add_moving_summary(cost);
    return cost;
}
static tp_optimizer *cycle_optimizer(tp_graph *g, void *user)
{
    return (void)user, tp_momentum_(tp_get_scalar_variable(g, "lr", 0.1f), NULL);
}
static tp_status cycle_point(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    tp_status st = generate(user, pass, index, dp);
    for (int i = 0; st == TP_OK && i < 8; i++) ((float *)dp->c[0].data)[i] = (float)(index + i);
    return st;
}
/* Two epochs of two steps, by this trainer (NULL: SimpleTrainer), with this input, callback, monitor, if any. Takes them over. */
static void train_with(tp_trainer *t, tp_input_source *input, tp_callback *cb, tp_monitor *m)
{
    tp_train_config c;
    tp_callback *list[4];
    tp_cb_moving_average_summary_desc averages;
    tp_cb_merge_all_summaries_desc summaries;
    tp_cb_model_saver_desc saver;
    tp_df_from_generator_desc d;
    memset(&c, 0, sizeof c);
    memset(&averages, 0, sizeof averages);
    memset(&summaries, 0, sizeof summaries);
    memset(&saver, 0, sizeof saver);
    memset(&d, 0, sizeof d);
    if (tp_logger_set_dir(a_path("log"), 'k') != TP_OK) abort();
    d.fn = cycle_point;
    d.size = 8;
    c.model.inputs = a_spec();
    c.model.n_inputs = 1;
    c.model.build_graph = cycle_graph;
    c.model.optimizer = cycle_optimizer;
    c.data = input;
    if (!input) c.dataflow = tp_df_from_generator_(&d);
    one_thread.threads = 1;
    c.session_config = &one_thread;
    list[c.n_callbacks++] = tp_cb_moving_average_summary_(&averages);
    list[c.n_callbacks++] = tp_cb_merge_all_summaries_(&summaries);
    if (cb) list[c.n_callbacks++] = cb;
    if (cb && strstr(cb->name, "Saver") && !strstr(cb->name, "ModelSaver"))
        list[c.n_callbacks++] = tp_cb_model_saver_(&saver);
    c.callbacks = list;
    c.n_extra_callbacks = TP_NONE;
    c.monitors = m ? &m : NULL;
    c.n_monitors = m ? 1 : TP_NONE;
    c.steps_per_epoch = 2;
    c.max_epoch = 2;
    used(tp_launch_train_with_config(&c, t ? t : tp_simple_trainer()));
    tp_logger_set_dir(NULL, 0);
    tp_test_remove(a_path("log"));
}
static void use_dataflow(tp_dataflow *df)
{
    tp_datapoint dp = {0, NULL, 0};
    const bool waits = strcmp(call_name, "tp_df_from_queue") == 0; /* for a second datapoint */
    for (int pass = 0; pass < (waits ? 1 : 2) && used(tp_df_restart(df, pass)); pass++) {
        for (int i = 0; i < (waits ? 1 : 3) && used(tp_df_next(df, &dp));) i++;
        if (pass == 0 && !waits && used(tp_df_seek(df, 1, NULL))) used(tp_df_next(df, &dp));
    }
    tp_datapoint_free(&dp);
}
static void use_augmentor(tp_augmentor *a)
{
    static const int64_t dims[3] = {8, 8, 3};
    tp_transform t;
    tp_tensor image, out;
    memset(&t, 0, sizeof t);
    memset(&image, 0, sizeof image);
    memset(&out, 0, sizeof out);
    if (tp_tensor_resize(&image, TP_U8, tp_make_shape_n(3, dims)) == TP_OK) {
        memset(image.data, 7, tp_tensor_bytes(&image));
        if (used(tp_aug_draw(a, 8, 8, 1, 1, &t)) && used(tp_aug_apply_image(&t, &image, &out)))
            used(tp_aug_apply_mask(&t, &image, 0, &out));
    }
    tp_tensor_free(&out);
    tp_tensor_free(&image);
    tp_transform_free(&t);
}
static void use_optimizer(tp_optimizer *o)
{
    tp_node *op = tp_minimize(o, node_cost(), NULL);
    tp_session *s = session_of(graph());
    used(tp_session_run(s, NULL, 0, &op, 1, NULL));
    tp_session_free(s);
}
static void use_session(tp_session *s)
{
    tp_node *y = node_cost();
    used(tp_session_run(s, NULL, 0, &y, 1, NULL));
}
static void use_exec(tp_exec *e)
{
    tp_node *y = node_cost();
    used(tp_exec_run(e, NULL, 0, &y, 1, NULL));
}
static void use_hooked(tp_hooked_session *h)
{
    tp_node *y = node_cost();
    used(tp_hooked_run(h, &y, 1, NULL));
}
static void use_predictor(tp_predictor *p)
{
    const tp_tensor *out[2];
    used(tp_predict(p, a_tensor24(), out));
}
static void use_exporter(tp_model_exporter *x)
{
    tp_session *s = tp_model_exporter_session(x);
    tp_graph *g = tp_session_graph(s);
    tp_node *in = tp_graph_find(g, "x"), *out = tp_graph_find(g, "cost");
    tp_buf b = {NULL, 0, 0, false};
    if (used(tp_export_onnx_buf(s, &in, 1, &out, 1, &b, NULL))) {
        tp_graph *read = tp_graph_new(NULL);
        tp_onnx_model m;
        memset(&m, 0, sizeof m);
        used(tp_import_onnx_parse(read, b.data, b.len, "model", NULL, &m));
        tp_graph_free(read);
    }
    tp_buf_free(&b);
    memset(&b, 0, sizeof b);
    used(tp_export_c_text(s, &in, 1, &out, 1, &b, NULL, NULL));
    tp_buf_free(&b);
}
static void use_queue(tp_queue *q)
{
    tp_datapoint dp = {0, NULL, 0};
    const tp_datapoint of = {1, a_tensor24(), 1};
    if (used(tp_queue_put(q, &of))) used(tp_queue_get(q, &dp));
    tp_datapoint_free(&dp);
}
static void use_device(tp_device *d)
{
    tp_session_config c = tp_default_session_config();
    c.devices = &d;
    c.n_devices = 1;
    tp_node *y = node_cost();
    tp_session *s = tp_session_new(graph(), &c);
    used(tp_session_run(s, NULL, 0, &y, 1, NULL));
    tp_session_free(s);
}

/* ==== >>results ======================================================================================= */

#define EXPECT(cond_, ...) (tp_test__check(cond_, __FILE__, __LINE__, "%s, %s: " __VA_ARGS__), (void)0)
static bool graph_failed(void) { return world.g && tp_graph_status(world.g) != TP_OK; }
/* After a call: failed says what the result says. */
static void judge(bool failed)
{
    survived = true;
    if (call_case[0] == 'G')
        tp_test__check(!failed, __FILE__, __LINE__, "%s with %s fails: %s", call_name, call_case + 1, tp_last_error());
    if (call_case[0] == '!')
        tp_test__check(failed, __FILE__, __LINE__, "%s with %s does not fail", call_name, call_case + 1);
    const char *said[2];
    said[0] = tp_last_error(), said[1] = world.g ? tp_graph_error(world.g) : "";
    for (int i = 0; i < 2; i++) /* a sentence for the user quotes no C, and no private name */
        tp_test__check(!strstr(said[i], "&&") && !strstr(said[i], "||") && !strstr(said[i], "tp__"), __FILE__, __LINE__,
                       "%s with %s: this is no English: %s", call_name, call_case, said[i]);
    if (failed && !strstr(call_name, "fail") && strcmp(call_name, "tp_poison") != 0 &&
        !(world.g && tp_graph_error(world.g)[0]))
        tp_test__check(tp_last_error()[0] != 0, __FILE__, __LINE__, "%s with %s fails without a sentence", call_name,
                       call_case + 1);
}
static void got_status(tp_status st) { judge(st < 0); }
/* What carries its error is returned by its constructor: NULL stands for no memory, of which there is enough here, and for a part
 * that was NULL itself. */
static void carries_error(const void *made)
{
    tp_test__check(made != NULL || strcmp(call_case, "!d = NULL") != 0, __FILE__, __LINE__,
                   "%s with %s returned NULL, and not what carries its error", call_name, call_case + 1);
}
static void got_node(const tp_node *n)
{
    tp_test__check(n != NULL, __FILE__, __LINE__, "%s with %s returned NULL: builders never do", call_name,
                   call_case + 1);
    judge(tp_is_poison(n));
}
static void got_nothing(void) { judge(tp_last_error()[0] != 0 || graph_failed()); }
static void got_answer(void) { survived = true; }
static void got_callback(tp_callback *cb)
{
    carries_error(cb);
    judge(tp_callback_status(cb) != TP_OK);
    if (in_cycles && tp_callback_status(cb) == TP_OK) train_with(NULL, NULL, cb, NULL);
    else tp_callback_free(cb);
}
static void got_monitor(tp_monitor *m)
{
    carries_error(m);
    judge(!m || tp_callback_status(&m->cb) != TP_OK);
    if (in_cycles && m) train_with(NULL, NULL, NULL, m);
    else tp_monitor_free(m);
}
static void got_inferencer(tp_inferencer *inf)
{
    carries_error(inf);
    if (inf && inf->error_) tp_fail(inf->status_, "%s", inf->error_);
    judge(!inf || inf->status_ != TP_OK);
    if (in_cycles && inf) {
        tp_cb_inference_runner_desc d;
        memset(&d, 0, sizeof d);
        d.df = dataflow_given();
        d.inferencers[0] = inf;
        train_with(NULL, NULL, tp_cb_inference_runner_(&d), NULL);
    } else tp_inferencer_free(inf);
}
static void got_dataflow(tp_dataflow *df)
{
    carries_error(df);
    judge(tp_df_status(df) != TP_OK);
    if (in_cycles) use_dataflow(df);
    tp_df_free(df);
}
static void got_input(tp_input_source *s)
{
    if (in_cycles) {
        survived = true;
        train_with(NULL, s, NULL, NULL);
        return;
    }
    tp_node *in[4];
    const bool made = s && tp_input_setup(s, graph(), a_spec(), 1) == TP_OK && tp_input_get_tensors(s, in) == TP_OK;
    judge(!made);
    tp_input_free(s);
}
#define GOT(name_, type_, free_)            \
    static void got_##name_(type_ *p)       \
    {                                       \
        judge(p == NULL);                   \
        if (in_cycles && p) use_##name_(p); \
        free_(p);                           \
    }
#define STAYS(p_) (void)(p_) /* freed with its graph */
GOT(session, tp_session, tp_session_free)
GOT(exec, tp_exec, tp_exec_free)
GOT(hooked, tp_hooked_session, tp_hooked_session_free)
GOT(predictor, tp_predictor, tp_predictor_free)
GOT(exporter, tp_model_exporter, tp_model_exporter_free)
GOT(queue, tp_queue, tp_queue_free)
GOT(optimizer, tp_optimizer, STAYS)
static void got_init(tp_session_init *i) { judge(i == NULL), tp_session_init_free(i); }
static void got_hyper_param(tp_hyper_param *p) { judge(p == NULL), tp_hyper_param_free(p); }
static void got_monitors(tp_monitors *m)
{
    judge(m == NULL);
    if (m) tp_callback_free(&m->cb);
}
static void got_trainer(tp_trainer *t)
{
    judge(t == NULL);
    if (in_cycles && t) train_with(t, NULL, NULL, NULL);
    else tp_trainer_free(t);
}
static void got_augmentor(tp_augmentor *a)
{
    carries_error(a);
    judge(tp_aug_status(a) != TP_OK);
    if (in_cycles) use_augmentor(a);
    tp_aug_free(a);
}
static void got_pool(tp_pool *p) { judge(p == NULL), tp_pool_free(p); }
static void got_mutex(tp_mutex *m) { got_answer(), tp_mutex_free(m); }
static void got_cond(tp_cond *c) { got_answer(), tp_cond_free(c); }
static void got_graph(tp_graph *g) { judge(g == NULL), tp_graph_free(g); }
static void got_device(tp_device *d)
{
    judge(d == NULL);
    if (in_cycles && d) use_device(d);
    if (d) d->close(d);
}

typedef struct misuse_call {
    const char *name;
    void (*call)(int v);
    const char *const *cases; /* '!' must fail, '?' may, 'G' must not, 'S' is not called; and what is bad */
} misuse_call;
#pragma GCC diagnostic ignored "-Wformat-security" /* formats without arguments */
static const tp_smart_source smart_sources[2] = {{"", NULL, NULL, 0}, {NULL, NULL, NULL, 0}};
#include "misuse_calls.h"

/* ==== >>running ======================================================================================= */

static void world_begin(void)
{
    tp_test_fail_after(0); /* counts blocks, fails none */
    memset(&world, 0, sizeof world);
    memset(&variable_desc, 0, sizeof variable_desc);
    memset(&variable_scope, 0, sizeof variable_scope);
    memset(&tower_desc, 0, sizeof tower_desc);
    memset(&towers_desc, 0, sizeof towers_desc);
    memset(&fully_connected, 0, sizeof fully_connected);
    memset(&a_layer, 0, sizeof a_layer);
    memset(&a_model, 0, sizeof a_model);
    memset(&train_desc, 0, sizeof train_desc);
    variable_desc.name = "described";
    variable_desc.shape = shape_of(2, 4);
    variable_scope.name = "scope";
    towers_desc.n = 1;
    fully_connected.name = "fc";
    fully_connected.units = 2;
    a_layer.apply = apply_nothing;
    a_model.inputs = a_spec();
    a_model.n_inputs = 1;
    a_model.build_graph = build_function;
    a_model.optimizer = model_optimizer;
    tp_fail(TP_OK, "%s", "");
}

static void world_end(void)
{
    while (world.things) {
        thing *t = world.things;
        world.things = t->next;
        if (t->p) t->free(t->p);
        free(t);
    }
    for (int i = 0; i < TP_N_DEFAULT_CALLBACKS; i++) tp_callback_free(callbacks_out[i]), callbacks_out[i] = NULL;
    for (int i = 0; i < TP_N_DEFAULT_MONITORS; i++) tp_monitor_free(monitors_out[i]), monitors_out[i] = NULL;
    tp_free(chars_out), chars_out = NULL;
    tp_free(entries_out), entries_out = NULL;
    tp_free(records_out), records_out = NULL;
    tp_thread_join(thread_out), thread_out = NULL;
    tp_regex_free(regex_out), regex_out = NULL;
    tp_tfrecord_close(record_reader_out), record_reader_out = NULL;
    tp_writer_abort(writer_out), writer_out = NULL;
    tp_npz_abort(npz_out), npz_out = NULL;
    if (device_out) device_out->close(device_out);
    device_out = NULL;
    CHECK_MSG(tp_test_live_blocks() == 0, "%s with %s: %ld blocks are left", call_name, call_case + 1,
              tp_test_live_blocks());
}

static void log_nothing(void *user, tp_log_level level, const char *message)
{
    (void)user, (void)level;
    snprintf(log_text, sizeof log_text, "%s", message);
}

static void one_call(const misuse_call *c, int v)
{
    call_name = c->name;
    call_case = c->cases[v];
    if (*call_case == 'S') return;
    if (getenv("TP_MISUSE_TRACE")) fprintf(stderr, "%s with %s\n", call_name, call_case + 1);
    world_begin();
    survived = false;
    c->call(v);
    CHECK_MSG(survived, "%s with %s: its result was not looked at", call_name, call_case + 1);
    world_end();
}

static const char *only = "";
static void every_call(bool forked)
{
    int calls = 0, crashes = 0;
    tp_set_log(log_nothing, NULL);
    tmp_dir();
    for (int i = 0; i < TP_COUNT(misuse_calls); i++) {
        const misuse_call *c = &misuse_calls[i];
        if (strncmp(c->name, only, strlen(only)) != 0) continue;
        for (int v = 0; c->cases[v]; v++, calls++) {
            if (!forked) {
                one_call(c, v);
                continue;
            }
            fflush(stdout);
            const pid_t child = fork();
            if (child == 0) {
                alarm(20);
                one_call(c, v);
                fflush(stdout);
                _exit(0);
            }
            int status = 0;
            waitpid(child, &status, 0);
            if (status == 0) continue;
            crashes++;
            printf("CRASH %s with %s\n", c->name, c->cases[v] + 1);
        }
    }
    tp_test_alloc_reset();
    tp_set_log(NULL, NULL);
    CHECK_MSG(crashes == 0, "%d crashes", crashes);
    if (forked) printf("%d calls, %d crashes\n", calls, crashes);
    if (!*only) CHECK_MSG(calls > 3000, "%d calls are few", calls);
}
TEST(every_function_survives_every_bad_argument)
{
    TEST_MAY_ERROR("");
    every_call(false);
}

/* ==== >>cycles of creation and end ======================================================================================== */
/* Each function called n times with good arguments, and each object that it makes used and freed again. After each cycle no block
 * of the library's allocator is left, as after each call above. Compared after the first tenth and at the end are the open files,
 * the threads and the bytes that malloc has given to anybody. */

typedef struct held {
    int files, threads;
    long bytes;
} held;

static held held_now(void)
{
    held h = {tp_test_files_in("/proc/self/fd"), tp_test_files_in("/proc/self/task"), 0};
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
    const struct mallinfo2 m = mallinfo2();
    h.bytes = (long)(m.uordblks + m.hblkhd);
#endif
    return h;
}

/* What is held once no more than `threads` threads are listed in /proc, which lists a thread for a moment after it was joined. */
static held held_at_rest(int threads)
{
    held h = held_now();
    for (int i = 0; i < 100 && h.threads > threads; i++) {
        tp_test_sleep(1e-3);
        h = held_now();
    }
    return h;
}

static void cycles_of(const misuse_call *c, int n)
{
    const int warm = n / 10 + 2;
    const double began = tp_time();
    for (int i = 0; i < warm; i++) one_call(c, 0);
    const held before = held_at_rest(1);
    for (int i = 0; i < n; i++) one_call(c, 0);
    const held after = held_at_rest(before.threads);
    CHECK_MSG(after.files <= before.files, "%s: %d files are open, %d were, %d cycles before", c->name, after.files,
              before.files, n);
    CHECK_MSG(after.threads <= before.threads, "%s: %d threads, %d were, %d cycles before", c->name, after.threads,
              before.threads, n);
    /* the smallest block of malloc has 24 bytes; malloc's own caches of free blocks count as given */
    CHECK_MSG(n < 100 || after.bytes - before.bytes < 8L * n + (32 << 10), "%s: %ld bytes more after %d cycles",
              c->name, after.bytes - before.bytes, n);
    if (n >= 1000)
        printf("%-44s %d cycles, %.1f us each, %+ld bytes\n", c->name, n, 1e6 * (tp_time() - began) / (n + warm),
               after.bytes - before.bytes);
}

static bool creates(const misuse_call *c)
{
    static const char *const kinds[] = {"tp_df_", "tp_aug_", "tp_cb_",   "tp_monitor_", "tp_inf_",
                                        "_new",   "_input",  "_trainer", "_predictor",  "_open"};
    for (int i = 0; i < TP_COUNT(kinds); i++)
        if (strstr(c->name, kinds[i])) return true;
    return false;
}

/* all: functions that make nothing, too. */
static void every_cycle(int n, bool all)
{
    int done = 0;
    tp_set_log(log_nothing, NULL);
    tmp_dir();
    in_cycles = true;
    for (int i = 0; i < TP_COUNT(misuse_calls); i++) {
        const misuse_call *c = &misuse_calls[i];
        if (c->cases[0][0] == 'S' || strncmp(c->name, only, strlen(only)) != 0 || (!all && !creates(c))) continue;
        cycles_of(c, n);
        done++;
    }
    in_cycles = false;
    tp_test_alloc_reset();
    tp_set_log(NULL, NULL);
    printf("     %d functions, %d cycles each\n", done, n);
}
TEST(objects_are_made_used_and_freed_again_and_again)
{
    TEST_MAY_ERROR("");
    every_cycle(2, false);
}

/* ==== >>sentences ===================================================================================== */

TEST(null_for_a_node_is_poison_of_no_graph)
{
    tp_node *y = tp_relu(NULL);
    CHECK(y && tp_is_poison(y) && !tp_node_graph(y));
    CHECK_HAS(tp_last_error(), "relu: input 0 is NULL");
    y = tp_mean(tp_square(y)); /* passed on */
    CHECK(y && tp_is_poison(y));
    CHECK(tp_is_poison(tp_add_n(NULL, 0)) && tp_is_poison(tp_concat(NULL, 0, 0)) && tp_is_poison(tp_stack(NULL, 3, 0)));
    CHECK_HAS(tp_last_error(), "stack: there are no inputs");
    CHECK(tp_is_poison(tp_cast(NULL, TP_F32)));
    CHECK(tp_is_poison(tp_placeholder(NULL, "x", TP_F32, shape_of(2, 4))));
    CHECK(tp_graph_status(NULL) == TP_ERR_ARG && strlen(tp_graph_error(NULL)) > 0);
    CHECK(tp_is_poison(tp_const(NULL, 1.0f)));
}

TEST(poison_of_no_graph_sticks_to_the_graph_it_meets)
{
    tp_graph *g = tp_graph_new(NULL);
    tp_node *x = tp_const(g, 1.0f);
    tp_node *y = tp_add(tp_relu(NULL), x);
    CHECK(tp_is_poison(y) && tp_node_graph(y) == g);
    CHECK(tp_graph_status(g) == TP_ERR_ARG);
    CHECK_HAS(tp_graph_error(g), "add: input 0 was not made: ");
    CHECK_HAS(tp_graph_error(g), "relu: input 0 is NULL");
    CHECK(!tp_session_new(g, NULL));
    CHECK_HAS(tp_last_error(), "relu: input 0 is NULL");
    tp_graph_free(g);

    g = tp_graph_new(NULL);
    CHECK(tp_is_poison(tp_sub(tp_const(g, 1.0f), NULL)) && tp_graph_status(g) == TP_ERR_ARG);
    CHECK_HAS(tp_graph_error(g), "sub: input 1 is NULL");
    tp_graph_free(g);
}

TEST(what_was_not_found_is_named_where_it_is_missed)
{
    tp_graph *g = tp_graph_new(NULL);
    CHECK(!tp_graph_find(g, NULL) && !tp_graph_find(NULL, "x"));
    tp_node *y = tp_mul(tp_const(g, 1.0f), tp_graph_find(g, "nope"));
    CHECK(tp_is_poison(y));
    CHECK_HAS(tp_graph_error(g), "'nope'");
    CHECK(tp_is_poison(tp_mean(tp_graph_find(g, "neither"))));
    CHECK_HAS(tp_last_error(), "'neither'");
    CHECK(tp_is_poison(tp_mean(NULL)));
    CHECK(!strstr(tp_last_error(), "neither")); /* once */
    tp_graph_free(g);
}

TEST(a_layer_of_null_is_told_with_its_line)
{
    tp_node *y = tp_conv2d(NULL, "conv7", .filters = 2, .kernel_size = 1);
    const int line = __LINE__ - 1;
    char place[64];
    snprintf(place, sizeof place, "test_misuse.c:%d: conv7: Conv2D: the input is NULL", line);
    CHECK(tp_is_poison(y));
    CHECK_HAS(tp_last_error(), place);
    tp_graph *g = tp_graph_new(NULL);
    y = tp_add(tp_const(g, 1.0f), y);
    CHECK_HAS(tp_graph_error(g), place);
    tp_graph_free(g);
}

TEST(constants_of_no_dtype)
{
    tp_graph *g = tp_graph_new(NULL);
    CHECK(tp_is_poison(tp_const_as(g, (tp_dtype)large_enum, 1)));
    CHECK(tp_graph_status(g) == TP_ERR_ARG);
    CHECK_HAS(tp_graph_error(g), "tp_const_as");
    tp_graph_free(g);
    g = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, shape_of(2, 4));
    CHECK(tp_is_poison(tp_nn_conv2d(x, x, NULL)) && tp_graph_status(g) == TP_ERR_ARG);
    tp_graph_free(g);
    g = tp_graph_new(NULL);
    x = tp_placeholder(g, "x", TP_F32, shape_of(2, 4));
    CHECK(tp_is_poison(tp_linear_n(x, NULL, 1)) && tp_graph_status(g) == TP_ERR_ARG);
    x = tp_relu(tp_linear_n(NULL, NULL, 0));
    CHECK(tp_is_poison(x) && strstr(tp_last_error(), "tp_linear_n") != NULL);
    tp_graph_free(g);
}

TEST(running_with_nothing)
{
    TEST_MAY_ERROR("");
    CHECK_ERR(tp_session_run(NULL, NULL, 0, NULL, 0, NULL), TP_ERR_ARG, "tp_session_run");
    CHECK_ERR(tp_save_checkpoint(NULL, "x", NULL, 0), TP_ERR_ARG, "tp_save_checkpoint");
    CHECK_ERR(tp_predict(NULL, NULL, NULL), TP_ERR_ARG, "tp_predict");
    CHECK_ERR(tp_launch_train_with_config(NULL, tp_simple_trainer()), TP_ERR_ARG, "tp_launch_train_with_config");
}

int main(int argc, char **argv)
{
    if (argc > 1 && strncmp(argv[1], "fork", 4) == 0) {
        if (argc > 2) only = argv[2];
        return every_call(true), 0;
    }
    if (argc > 2 && strcmp(argv[1], "cycles") == 0) {
        tp_test__begin();
        setvbuf(stdout, NULL, _IOLBF, 0);
        if (argc > 3) only = argv[3];
        every_cycle(atoi(argv[2]), true);
        printf("%ld failures\n", (long)tp_test__failures);
        return tp_test__failures != 0;
    }
    if (argc > 1 && strncmp(argv[1], "calls/", 6) == 0) {
        only = argv[1] + 6;
        argv[1] = (char *)"every_function";
    }
    return tp_test__main(argc, argv);
}
