/* test_golden_layers.c - programs of random calls of layers, symbolic functions, summaries, regularizers, optimizers, gradient
 * processors and schedules, with options that are right, at a limit, or wrong: what each adds to a graph, logs and says, as
 * digests of digests_layers.txt.
 *
 *     TP_TEST_WRITE=1 build/test/gcc-c11-test_golden_layers   writes them anew, after a change that was meant
 *     TP_TEST_PRINT=layers:12 ...                             prints the graphs of digest 12 of section layers */
#define TP_IMPLEMENTATION
#define TP_STATIC
#include "tp_layers.h"
#include "tp_optim.h"
#include "tp_test.h"
#include "golden.h"
#include "golden_graph.h"

static bool printing;
static tp_graph *g; /* of the case */

/* -- values that options get */

static tp_node *image(tp_node *like, int kind)
{
    tp_shape s = like->shape;
    if (kind == 0) return NULL;
    if (kind == 1) return tp_poison(g);
    if (kind == 2 && s.ndim > 0) s.dim[s.ndim - 1]++;
    if (kind == 3 && s.ndim > 1) s.ndim--;
    return (tp_placeholder)(g, "other", kind == 4 ? TP_F64 : like->dtype, s);
}

static tp_node *small(int kind)
{
    static const int64_t dim[4] = {2, 2, 2, 2};
    if (kind == 0) return (tp_const)(g, 1.5f);
    if (kind == 1) return (tp_get_scalar_variable)(g, "small", 1);
    if (kind == 2) return (tp_placeholder)(g, "small", TP_F32, tp_make_shape_n(2, dim));
    if (kind == 3) return (tp_const_as)(g, TP_I32, 3);
    return (tp_placeholder)(g, "small", TP_F32, tp_make_shape(2, 3, 3, 2));
}

static tp_node *no_activation(tp_node *x) { return (void)x, NULL; }
static tp_node *doubled(tp_node *x) { return (tp_affine)(x, 2, 0); }
static tp_node *cubes(tp_node *w, float scale) { return (tp_affine)((tp_sum)((tp_mul)(w, (tp_square)(w))), scale, 0); }
static tp_node *no_scalar(tp_node *w, float scale) { return (void)scale, w; }

static tp_activation some_activation(void)
{
    static const tp_activation list[] = {NULL, tp_relu, tp_identity, (tp_bn_relu), doubled, tp_tanh, no_activation};
    const int i = draw(20);
    return i < TP_COUNT(list) ? list[i] : tp_relu;
}

static tp_init some_init(void)
{
    static const float values[4] = {1, 2, 3, 4};
    const int i = draw(12);
    const float v = (float)(draw(5) - 2);
    const int mode = draw(5), distribution = draw(5);
    return i == 0   ? tp_init_zeros()
           : i == 1 ? tp_init_ones()
           : i == 2 ? tp_init_normal(v, 0.5f)
           : i == 3 ? tp_init_truncated_normal(0, v)
           : i == 4 ? tp_init_uniform(v, 1)
           : i == 5 ? tp_init_variance_scaling(2, (tp_fan_mode)(1 + mode % 3), (tp_distribution)(1 + distribution % 3))
           : i == 6 ? tp_init_values(values, draw(5))
           : i == 7 ? tp_init_constant(NAN)
           : i == 8 ? tp_init_variance_scaling(v, (tp_fan_mode)mode, (tp_distribution)distribution)
                    : tp_init_constant(v);
}

static tp_regularizer some_regularizer(void)
{
    tp_regularizer r;
    const int i = draw(8);
    memset(&r, 0, sizeof r);
    if (i == 0) return tp_l1_regularizer(0.5f);
    if (i == 1) return tp_l2_regularizer(1.5f);
    if (i == 2) r.fn = cubes, r.scale = 2;
    else if (i == 3) r.fn = no_scalar, r.scale = 1;
    else if (i == 4) r.scale = 1;
    else if (i == 5) r = tp_l2_regularizer(0);
    else r = tp_l2_regularizer(0.25f);
    return r;
}

static float some_float(void)
{
    static const float list[] = {0, TP_ZERO, 1, 0.5f, -0.5f, -1, 2, 1e-5f, 1.001e-5f, 0.9f, NAN, INFINITY, 3};
    return DRAW_OF(list);
}

static int some_int(bool large)
{
    static const int list[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 32, -1, -2, INT_MAX};
    return list[draw((int)TP_COUNT(list) - (large ? 0 : 1))];
}

/* -- descriptors */

typedef union desc {
    unsigned char bytes[TP_LAYER_MAX_DESC];
    tp_layer_head head;
    int64_t i;
    double d;
    void *p;
} desc;

static tp_rnn_state state;

static bool is(const char *name, const char *list)
{
    const char *at = strstr(list, name);
    const size_t n = strlen(name);
    for (; at; at = strstr(at + 1, name))
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || at[n] == 0)) return true;
    return false;
}

/* What a layer needs, in the size that fits the usual input. */
static void put_required(const tp_layer_field *f, tp_node *x, unsigned char *at)
{
    static const struct {
        const char *name;
        int v;
    } ints[] = {{"filters", 8}, {"kernel_size", 3}, {"units", 8},    {"pool_size", 2}, {"shape", 2},
                {"heads", 2},   {"vocab", 10},      {"num_unit", 2}, {"groups", 2},    {"dim", -1}};
    for (int i = 0; i < TP_COUNT(ints); i++)
        if (strcmp(f->name, ints[i].name) == 0) memcpy(at, &ints[i].v, sizeof(int));
    const float two = 2;
    tp_node *n = NULL;
    if (is(f->name, "rmax dmax")) memcpy(at, &two, sizeof two);
    if (strcmp(f->name, "tensor") == 0) n = image(x, 5);
    if (strcmp(f->name, "coords") == 0) n = small(4);
    if (n) memcpy(at, &n, sizeof n);
}

static void put_node(const tp_layer_field *f, tp_node *x, unsigned char *at)
{
    static tp_node *list[3];
    tp_node *n = NULL;
    const int kind = draw(6);
    if (strcmp(f->name, "tensors") == 0) {
        for (int i = 0; i < 3; i++) list[i] = image(x, draw(40) + 1);
        tp_node *const *p = list;
        memcpy(at, &p, sizeof p);
        return;
    }
    if (strcmp(f->name, "state") == 0) {
        tp_rnn_state *p = &state;
        const tp_shape s = tp_make_shape(2, kind < 4 ? 8 : kind);
        memset(&state, 0, sizeof state);
        if (draw(2)) state.h = (tp_placeholder)(g, "h", TP_F32, s);
        if (draw(2)) state.c = (tp_placeholder)(g, "c", TP_F32, s);
        memcpy(at, &p, sizeof p);
        return;
    }
    if (is(f->name, "tensor key value")) n = image(x, kind);
    else if (strcmp(f->name, "mask") == 0 && x->shape.ndim > 1 && kind < 4) /* one that fits */
        n = (tp_placeholder)(g, "mask", TP_F32, tp_make_shape_n(2, x->shape.dim));
    else n = small(kind);
    memcpy(at, &n, sizeof n);
}

static void put_odd(const tp_layer_field *f, tp_node *x, unsigned char *at)
{
    const size_t n = strlen(f->name);
    const char *const end = n > 12 ? f->name + n - 12 : f->name;
    if (strcmp(f->name, "activation") == 0) {
        const tp_activation fn = some_activation();
        memcpy(at, &fn, sizeof fn);
    } else if (strcmp(end, "_initializer") == 0) {
        const tp_init init = some_init();
        memcpy(at, &init, sizeof init);
    } else if (strcmp(end, "_regularizer") == 0) {
        const tp_regularizer r = some_regularizer();
        memcpy(at, &r, sizeof r);
    } else if (is(f->name, "tensor tensors key value mask state coords unpool_mat rmax_node dmax_node"))
        put_node(f, x, at);
    else if (is(f->name, "epsilon momentum rate keep_prob init forget_bias temperature_init rmax dmax")) {
        const float v = some_float();
        memcpy(at, &v, sizeof v);
    } else if (f->size == 2 * sizeof(int)) {
        int pair[2];
        pair[0] = some_int(strcmp(f->name, "shape") != 0);
        pair[1] = draw(2) ? 0 : some_int(strcmp(f->name, "shape") != 0);
        memcpy(at, pair, sizeof pair);
    } else {
        const bool choice = is(f->name, "padding data_format use_bias training center scale ema_update causal "
                                        "time_major use_temperature sync_statistics border_mode");
        int v = choice                              ? draw(3)
                : strcmp(f->name, "n_tensors") == 0 ? draw(4)
                                                    : some_int(strcmp(f->name, "shape") != 0);
        if (choice && draw(30) == 0) v = draw(2) ? -1 : 3;
        memcpy(at, &v, sizeof v);
    }
}

static const char *const layer_names[] = {"Conv2D",
                                          "fully_connected",
                                          "max_pooling",
                                          "AvgPooling",
                                          "GlobalAvgPooling",
                                          "BatchNorm",
                                          "Dropout",
                                          "BNReLU",
                                          "conv2d_transpose",
                                          "DepthwiseConv2D",
                                          "FixedUnPooling",
                                          "CaffeBilinearUpSample",
                                          "LayerNorm",
                                          "InstanceNorm",
                                          "GroupNorm",
                                          "BatchRenorm",
                                          "PReLU",
                                          "Maxout",
                                          "ConcatWith",
                                          "GridSample",
                                          "SoftMax",
                                          "Embedding",
                                          "LSTM",
                                          "GRU",
                                          "BasicLSTMCell",
                                          "GRUCell",
                                          "MultiHeadAttention"};

static tp_node *input_of(const char *layer)
{
    static const int64_t usual[4] = {2, 8, 8, 6}, other[4] = {4, 6, 5, 4};
    static const int64_t odd[] = {0, 1, 2, 3, TP_ANY, 7, 64};
    int64_t dim[6] = {2, 8, 8, 6, 2, 2};
    int n = is(layer, "LSTM GRU MultiHeadAttention")                      ? 3
            : is(layer, "BasicLSTMCell GRUCell Embedding")                ? 2
            : is(layer, "fully_connected SoftMax LayerNorm PReLU Maxout") ? 2 + draw(3)
                                                                          : 4;
    tp_dtype dtype = is(layer, "Embedding") ? TP_I32 : TP_F32;
    const int64_t *from = draw(4) ? usual : other;
    for (int i = 0; i < 4; i++) dim[i] = from[i];
    if (draw(3) == 0) dim[0] = TP_ANY;
    const int at = draw(n);
    if (draw(8) == 0) dim[at] = DRAW_OF(odd);
    if (draw(16) == 0) n = draw(6);
    if (draw(16) == 0) dtype = (tp_dtype)(1 + draw((int)TP_DTYPE_COUNT - 1));
    if (draw(60) == 0) return NULL;
    if (draw(60) == 0) return tp_poison(g);
    return (tp_placeholder)(g, "x", dtype, tp_make_shape_n(n, dim));
}

/* A descriptor of this layer: what it needs, and some options more. x may be NULL: for an argscope. */
static void fill(const tp_layer_type *t, tp_node *x, int odd, bool required, desc *d)
{
    memset(d, 0, sizeof *d);
    if (!x || tp_is_poison(x)) x = (tp_placeholder)(g, "like", TP_F32, tp_make_shape(2, 8, 8, 6));
    for (int i = 0; i < t->n_fields && required; i++) put_required(&t->fields[i], x, d->bytes + t->fields[i].offset);
    for (int i = 0; i < odd && t->n_fields; i++) {
        const tp_layer_field *f = &t->fields[draw(t->n_fields)];
        put_odd(f, x, d->bytes + f->offset);
    }
}

static uint64_t hash_keys(uint64_t h, tp_node *y)
{
    static const char *const keys[] = {"W", "b", "gamma", "beta", "mean", "moving_variance", "alpha", "w"};
    const char *key = DRAW_OF(keys);
    if (y && !tp_is_poison(y) && draw(6) == 0) h = hash_node(h, (tp_layer_variable)(y, key));
    return h;
}

static uint64_t hash_gradients(uint64_t h, tp_node *y)
{
    tp_node *vars[16], *grads[16];
    int n = 0;
    if (!y || tp_is_poison(y)) return h;
    for (int i = 0; i < tp_graph_n_variables(g) && n < 16; i++) vars[n++] = tp_graph_variable(g, i)->node;
    memset(grads, 0, sizeof grads);
    h = hash_node(h, (tp_gradients)(y, vars, n, grads));
    for (int i = 0; i < n && tp_graph_status(g) == TP_OK; i++) h = hash_node(h, grads[i]);
    return h;
}

static uint64_t call_layer(uint64_t h)
{
    static const char *const names[] = {"a", "a", "a", "b", "a/b", "conv0", "", NULL, "a b", "1", "output", "a/"};
    const char *layer = DRAW_OF(layer_names);
    desc d;
    tp_node *x = input_of(layer);
    const tp_layer_type *t = tp_get_registered_layer(g, layer);
    if (!CHECK_MSG(t != NULL, "there is no layer %s", layer)) return h;
    const bool required = draw(20) > 0;
    fill(t, x, draw(4), required, &d);
    const int i = draw(24);
    d.head.name = i < TP_COUNT(names) ? names[i] : "c";
    tp_node *y = (tp_layer_apply)(x, layer, &d);
    h = hash_node(h, y);
    h = hash_node(hash_node(h, state.h), state.c);
    memset(&state, 0, sizeof state);
    if (draw(5) == 0) h = hash_gradients(h, y);
    return hash_keys(h, y);
}

/* Two or three layers of one name under the same options, that variables are reused. */
static uint64_t call_again(uint64_t h)
{
    const char *layer = DRAW_OF(layer_names);
    desc d;
    tp_node *x = input_of(layer);
    const tp_layer_type *t = tp_get_registered_layer(g, layer);
    tp_variable_scope_desc scope;
    memset(&scope, 0, sizeof scope);
    fill(t, x, draw(3), true, &d);
    d.head.name = "again";
    for (int i = 0; i < 2; i++) {
        scope.name = draw(4) ? "s" : NULL;
        scope.reuse = i && draw(4) ? (int)TP_REUSE_YES + draw(2) : draw(20) ? draw(4) : 4;
        scope.no_name_scope = draw(4) == 0;
        (tp_variable_scope_push)(g, &scope);
        h = hash_node(h, (tp_layer_apply)(x, layer, &d));
        h = hash_node(hash_node(h, state.h), state.c);
        if (draw(8) == 0) fill(t, x, 1, true, &d), d.head.name = "again";
        memset(&state, 0, sizeof state);
        (tp_variable_scope_pop)(g);
    }
    return h;
}

static void open_argscope(void)
{
    desc d;
    tp_argscope_begin(g, NULL);
    for (int n = 1 + draw(3); n > 0; n--) {
        const char *layer = DRAW_OF(layer_names);
        const tp_layer_type *t = tp_get_registered_layer(g, layer);
        const bool required = draw(3) == 0;
        fill(t, NULL, 1 + draw(3), required, &d);
        if (draw(30) == 0) d.head.name = "named";
        tp_argscope_set(g, draw(30) ? layer : "Conv3D", &d);
    }
}

/* -- cases */

static uint64_t hash_all(uint64_t h)
{
    tp_buf text;
    memset(&text, 0, sizeof text);
    tp_graph_describe_variables(g, &text);
    h = golden_hash(h, text.data);
    if (draw(4) == 0) {
        tp_graph_to_dot(g, NULL, 0, &text);
        h = golden_hash(h, text.data);
    }
    tp_buf_free(&text);
    h = hash_log(hash_graph(h, g));
    if (printing) {
        printf("%s\n%s", tp_graph_error(g), tp_test_logged);
        for (int i = 0; i < tp_graph_n_operations(g); i++)
            printf("  %s %s\n", tp_graph_operation(g, i)->row->name, tp_graph_operation(g, i)->name);
    }
    return h;
}

static uint64_t in_a_tower(uint64_t h, uint64_t (*fn)(uint64_t h))
{
    static const char *const names[] = {NULL, "tower0", "tower1", "", "t", "t w"};
    tp_tower_desc t;
    memset(&t, 0, sizeof t);
    const int i = draw(30);
    t.name = i < TP_COUNT(names) ? names[i] : "tower0";
    t.is_training = draw(3) > 0;
    t.total = draw(10) ? 0 : draw(4);
    t.index = draw(30) ? 0 : draw(3);
    t.vs_name = draw(10) ? NULL : "vs";
    const bool tower = draw(12) > 0 && tp_tower_enter(g, &t);
    h = fn(h);
    for (int k = 0; k < 2 && tower; k++) {
        int n = 0;
        tp_node *const *list = tp_tower_collection(g, k ? TP_KEY_UPDATE_OPS : TP_KEY_REGULARIZATION_LOSSES, &n);
        for (int j = 0; j < n; j++) h = hash_node(h, list[j]);
    }
    if (tower) tp_tower_leave(g);
    return h;
}

static uint64_t some_layers(uint64_t h)
{
    const int scopes = draw(3) == 0 ? 1 + draw(2) : 0, calls = 1 + draw(2);
    for (int i = 0; i < scopes; i++) open_argscope();
    for (int i = 0; i < calls; i++) h = draw(4) ? call_layer(h) : call_again(h);
    for (int i = draw(60) ? 0 : 1; i < scopes; i++) tp_argscope_end(g);
    if (draw(8) == 0) h = hash_node(h, (tp_regularize_cost_from_collection)(g, draw(2) ? NULL : "reg"));
    return h;
}

/* -- other functions that build */

static tp_node *operand(int rank)
{
    static const int64_t odd[] = {0, 1, 2, 3, 4, 8, TP_ANY};
    int64_t dim[4] = {4, 8, 8, 8};
    tp_dtype dtype = rank < 0 ? TP_I32 : TP_F32;
    int n = rank < 0 ? -rank : rank;
    const int at = draw(4);
    if (draw(6) == 0) dim[at] = DRAW_OF(odd);
    if (draw(10) == 0) n = draw(5);
    if (draw(10) == 0) dtype = (tp_dtype)(1 + draw((int)TP_DTYPE_COUNT - 1));
    if (draw(40) == 0) return NULL;
    return (tp_placeholder)(g, "p", dtype, tp_make_shape_n(n, dim));
}

static const char *some_name(void)
{
    static const char *const list[] = {NULL, NULL, NULL, "n", "n/m", "", "a b"};
    return DRAW_OF(list);
}

static uint64_t call_symbolic(uint64_t h)
{
    static const float weights[] = {1, 2, 3, 4, 0, -1, NAN, 8};
    const int which = draw(20), k = draw(4) - 1, big = some_int(true);
    const float v = some_float();
    const char *name = some_name();
    tp_node *a = operand(2), *b = NULL, *c = NULL, *y = NULL;
    if (which < 2 || which == 10) b = operand(-1);
    else b = operand(2);
    if (which == 11 || which == 12) c = operand(1);
    else if (which == 13 || which == 14) c = operand(2);
    const tp_data_format format = (tp_data_format)draw(4);
    switch (which) {
    case 0: y = (tp_sym_accuracy)(a, b, k, name); break;
    case 1: y = (tp_sym_prediction_incorrect)(a, b, draw(3) ? k : big, name); break;
    case 2: y = (tp_sym_rms)(a, name); break;
    case 3: y = (tp_sym_huber_loss)(a, v, name); break;
    case 4: y = (tp_sym_psnr)(a, b, v, name); break;
    case 5: y = (tp_sym_mse)(a, b, name); break;
    case 6: y = (tp_sym_kl_divergence)(a, b, name); break;
    case 7: y = (tp_sym_print_stat)(a, name); break;
    case 8: a = operand(-1), y = (tp_sym_smooth_labels)(a, big, v, name); break;
    case 10: a = operand(1), y = (tp_sym_weighted_loss)(a, b, k < 2 ? weights : NULL, big % 9, name); break;
    case 11: y = (tp_sym_contrastive_loss)(a, b, c, v, name); break;
    case 12: y = (tp_sym_siamese_cosine_loss)(a, b, c, name); break;
    case 13: y = (tp_sym_triplet_loss)(a, b, c, v, name); break;
    case 14: y = (tp_sym_soft_triplet_loss)(a, b, c, name); break;
    case 15: y = (tp_sym_class_balanced_sigmoid_cross_entropy)(a, b, name); break;
    case 16: y = (tp_relu6)(a); break;
    case 17: y = (tp_hard_swish)(a); break;
    case 18: a = operand(4), y = (tp_depth_to_space)(a, draw(3) ? 2 : big, format); break;
    default: a = operand(4), y = (tp_space_to_depth)(a, draw(3) ? 2 : big, format); break;
    }
    return hash_node(h, y);
}

static const char *some_regex(void)
{
    static const char *const list[] = {NULL,        "",    ".*", "a/W",  ".*/W", "W",     "a|b",  "a.*|b/b",
                                       "[ab]/[Wb]", "a/(", "x",  "b/b$", "^a",   ".*b.*", "a/W|", "(?i)A/w"};
    return DRAW_OF(list);
}

static void some_variables(void)
{
    static const char *const names[] = {"a/W", "a/b", "b/W", "b/b", "W", "c/alpha", "n", "ab/W"};
    const int n = draw(6);
    for (int i = 0; i < n; i++) {
        tp_variable_desc d;
        memset(&d, 0, sizeof d);
        d.name = names[i];
        const int rank = draw(4);
        static const int64_t dim[3] = {3, 2, 4};
        d.shape = tp_make_shape_n(rank, dim);
        d.trainable = draw(3);
        d.local = draw(8) == 0;
        d.dtype = draw(10) ? TP_DTYPE_UNSET : draw(2) ? TP_F64 : TP_I32;
        if (draw(3) == 0) d.init = some_init();
        if (draw(6) == 0) d.regularizer = some_regularizer();
        if (draw(6) == 0) d.collection = "mine";
        (tp_get_variable)(g, &d);
    }
}

static uint64_t call_summary(uint64_t h)
{
    static const char *const lists[][3] = {{"mine", "yours", NULL}, {NULL, NULL, NULL}, {"mine", "mine", NULL}};
    static const char *const keys[] = {NULL, NULL, "mine", TP_NO_COLLECTION, TP_KEY_MODEL_VARIABLES};
    static const float decays[] = {0, TP_ZERO, 0.5f, 1, -1, NAN, 2};
    tp_node *x = operand(draw(5)), *scalar[3];
    tp_moving_summary_desc m;
    tp_tensor_summary_desc s;
    tp_param_summary_desc p;
    memset(&m, 0, sizeof m), memset(&s, 0, sizeof s), memset(&p, 0, sizeof p);
    const int which = draw(5), types = draw(70) - 3, several = draw(8), n = draw(4);
    const char *key = DRAW_OF(keys);
    switch (which) {
    case 0:
        for (int i = 0; i < 3; i++) scalar[i] = operand(draw(20) ? 0 : 1);
        m.decay = DRAW_OF(decays), m.collection = key;
        m.summary_collection = DRAW_OF(keys);
        if (several < 3) m.summary_collections = lists[several];
        tp_node *const *y = tp_add_moving_summary_n(scalar, n, draw(4) ? &m : NULL);
        h = hash_number(h, y != NULL);
        for (int i = 0; y && i < n; i++) h = hash_node(h, y[i]);
        break;
    case 1:
        s.types = types, s.name = some_name(), s.collection = key, s.main_tower_only = draw(3);
        if (several < 3) s.collections = lists[several];
        tp_add_tensor_summary_(x, &s);
        break;
    case 2: tp_add_activation_summary(x, types, some_name(), key); break;
    case 3:
        p.regex = some_regex(), p.types = types, p.collection = key;
        if (several < 3) p.collections = lists[several];
        tp_add_param_summary_(g, &p);
        break;
    default: (tp_add_tensor_summary)(x, types, some_name(), key); break;
    }
    h = hash_collection(hash_collection(h, g, "mine"), g, "yours");
    for (int i = 0; i < tp_graph_n_operations(g); i++) {
        const tp_summary_attrs *a = tp_summary_info(&tp_graph_operation(g, i)->out[0]);
        if (a) h = golden_hash(hash_number(h, a->kind), a->tag);
    }
    return h;
}

static uint64_t some_functions(uint64_t h)
{
    if (draw(3)) some_variables();
    const int n = 1 + draw(3);
    for (int i = 0; i < n; i++) {
        const int which = draw(5);
        if (which < 2) h = call_symbolic(h);
        else if (which < 4) h = call_summary(h);
        else {
            tp_regularizer r;
            memset(&r, 0, sizeof r);
            if (draw(8)) r = some_regularizer();
            tp_at nowhere;
            memset(&nowhere, 0, sizeof nowhere);
            const char *regex = some_regex(), *name = some_name();
            h = hash_node(h, (tp_regularize_cost_)(g, regex, r, name, nowhere));
        }
    }
    return h;
}

/* -- optimizers */

static tp_node *rate(void)
{
    static const int64_t steps[] = {0, 1, 10, -1, 1000000, 7};
    static const int64_t bounds[][3] = {{1, 2, 3}, {5, 5, 6}, {3, 2, 1}, {-1, 0, 1}};
    static const float values[4] = {1, 0.5f, 0.25f, NAN};
    tp_node *step = draw(3) ? NULL : draw(6) ? (tp_const_as)(g, draw(2) ? TP_I32 : TP_I64, 3) : small(draw(5));
    const float lr = draw(3) ? 0.1f : some_float(), other = some_float();
    const int64_t n = DRAW_OF(steps);
    const int which = draw(12), row = draw((int)TP_COUNT(bounds)), count = draw(5) - 1;
    switch (which) {
    case 0: return (tp_exponential_decay)(g, lr, step, n, other, row & 1);
    case 1: return (tp_cosine_decay)(g, lr, step, n, other);
    case 2: return (tp_warm_up)((tp_const)(g, lr), step, n, other);
    case 3: return (tp_piecewise_constant)(g, step, bounds[row], values, count > 3 ? 3 : count);
    case 4: return small(draw(5));
    case 5: return draw(6) ? (tp_const)(g, lr) : draw(2) ? NULL : tp_poison(g);
    case 6: return (tp_const_as)(g, draw(3) ? TP_F64 : TP_I32, 1);
    default: return (tp_get_scalar_variable)(g, "learning_rate", lr);
    }
}

static void some_floats(float *v, int n, int percent)
{
    for (int i = 0; i < n; i++) v[i] = draw(100) < percent ? some_float() : 0;
}

static tp_optimizer *some_optimizer(tp_node *lr)
{
    float v[5];
    some_floats(v, 5, draw(3) ? 10 : 50);
    const tp_tri tri = (tp_tri)(draw(12) ? draw(3) : draw(6) - 1);
    const int which = draw(12);
    tp_momentum_desc momentum = {.momentum = v[0], .use_nesterov = tri};
    tp_adam_desc adam = {.beta1 = v[0], .beta2 = v[1], .epsilon = v[2]};
    tp_adamw_desc adamw = {.beta1 = v[0], .beta2 = v[1], .epsilon = v[2], .weight_decay = v[3]};
    tp_rmsprop_desc rmsprop = {.decay = v[0], .momentum = v[1], .epsilon = v[2], .centered = tri};
    tp_adagrad_desc adagrad = {.initial_accumulator_value = v[0]};
    tp_adadelta_desc adadelta = {.rho = v[0], .epsilon = v[1]};
    tp_ftrl_desc ftrl = {
        .learning_rate_power = v[0], .initial_accumulator_value = v[1], .l1 = v[2], .l2 = v[3], .l2_shrinkage = v[4]};
    tp_lamb_desc lamb = {.beta1 = v[0], .beta2 = v[1], .epsilon = v[2], .weight_decay = v[3]};
    tp_lion_desc lion = {.beta1 = v[0], .beta2 = v[1], .weight_decay = v[2]};
    const bool none = draw(8) == 0;
    switch (which) {
    case 0: return tp_sgd_(lr, NULL);
    case 1: return tp_momentum_(lr, none ? NULL : &momentum);
    case 2: return tp_nesterov_(lr, none ? NULL : &momentum);
    case 3: return tp_adam_(lr, none ? NULL : &adam);
    case 4: return tp_adamw_(lr, none ? NULL : &adamw);
    case 5: return tp_rmsprop_(lr, none ? NULL : &rmsprop);
    case 6: return tp_adagrad_(lr, none ? NULL : &adagrad);
    case 7: return tp_adadelta_(lr, none ? NULL : &adadelta);
    case 8: return tp_ftrl_(lr, none ? NULL : &ftrl);
    case 9: return tp_lamb_(lr, none ? NULL : &lamb);
    case 10: return tp_lion_(lr, none ? NULL : &lion);
    default: return tp_optimizer_new(g, "Mine", NULL, NULL);
    }
}

static tp_node *halved(tp_node *grad, tp_node *var, void *user)
{
    (void)user;
    return var->shape.ndim == 1 ? NULL : (tp_affine)(grad, 0.5f, 0);
}
static tp_node *clipped(tp_node *updated, tp_node *var, void *user)
{
    return user && var->shape.ndim == 2 ? NULL : (tp_clip)(updated, -1, 1);
}
static tp_node *post(tp_node *var, tp_node *updated, tp_node *pred, void *user)
{
    (void)var, (void)pred;
    return user ? (tp_identity)(updated) : NULL;
}

static tp_gradproc some_processor(void)
{
    static const char *const keys[] = {"mine", "yours", NULL};
    static const tp_grad_rule rules[][3] = {
        {{"a/.*", 2}, {".*", 0.5f}, {"b/b", 0}}, {{"W", 0}, {"a/W", 1}, {"(", 1}}, {{"x", 3}, {NULL, 1}, {".*", NAN}}};
    const int which = draw(9), row = draw(3), n = draw(5) - 1;
    const float v = draw(2) ? 1 : some_float();
    const char *regex = some_regex();
    switch (which) {
    case 0: return tp_gradproc_filter_none();
    case 1: return tp_gradproc_global_norm_clip(v);
    case 2: return (tp_gradproc_scale)(regex, v);
    case 3: return (tp_gradproc_scale_rules)(rules[row], n > 3 ? 3 : n);
    case 4: return (tp_gradproc_map)(draw(10) ? halved : NULL, NULL, regex);
    case 5: return (tp_gradproc_summary)(regex);
    case 6: return (tp_gradproc_summary_to)(regex, draw(8) ? keys : NULL);
    case 7: return (tp_gradproc_print)(regex);
    default: return tp_gradproc_check();
    }
}

static tp_optimizer *wrapped(tp_optimizer *opt)
{
    static int token;
    tp_gradproc procs[3];
    tp_loss_scale_desc scale;
    memset(&scale, 0, sizeof scale);
    scale.initial = some_float();
    scale.interval = draw(4) - 1;
    scale.minimum = some_float();
    const int which = draw(6), n = draw(4), iterations = draw(6) - 1;
    void *user = draw(2) ? &token : NULL;
    for (int i = 0; i < n; i++) procs[i] = some_processor();
    switch (which) {
    case 0: return tp_post_process(opt, draw(20) ? post : NULL, user);
    case 1: return tp_variable_assignment(opt, draw(20) ? clipped : NULL, user);
    case 2: return tp_accum_grad(opt, iterations);
    case 3: return tp_loss_scale_(opt, draw(3) ? NULL : &scale);
    case 4: return tp_optimizer_proxy(opt, draw(2) ? "Proxy" : NULL, NULL, NULL);
    default: return tp_apply_grad_processors(opt, procs, n);
    }
}

/* A cost of some of the variables. */
static tp_node *some_cost(void)
{
    tp_node *cost = (tp_const)(g, 1);
    for (int i = 0; i < tp_graph_n_variables(g); i++) {
        tp_node *v = tp_graph_variable(g, i)->node;
        if (!tp_dtype_is_float(v->dtype) || draw(5) == 0) continue;
        if (v->dtype != TP_F32) v = (tp_cast)(v, TP_F32);
        cost = (tp_add)(cost, (tp_sum)((tp_square)(v)));
    }
    const int odd = draw(30);
    if (odd == 0) return NULL;
    if (odd == 1) return (tp_cast)(cost, TP_I32);
    if (odd == 2) return small(2);
    return cost;
}

static uint64_t hash_optimizer(uint64_t h, tp_optimizer *o)
{
    int n = 0;
    if (!o) return h;
    const char *const *names = tp_get_slot_names(o, &n);
    h = golden_hash(hash_number(h, n), o->name);
    for (int i = 0; i < n; i++) h = golden_hash(h, names[i]);
    for (int i = 0; i < tp_graph_n_variables(g) && n && i < 6; i++)
        h = hash_node(h, tp_get_slot(o, tp_graph_variable(g, i)->node, names[draw(n)]));
    return hash_node(hash_node(h, o->learning_rate), o->loss_scale);
}

static uint64_t some_optimization(uint64_t h)
{
    tp_node *vars[12];
    tp_grad_var gvs[12];
    int n = 0;
    some_variables();
    if (draw(3)) (tp_get_variable_as)(g, "a2/W", TP_F32, tp_make_shape(3, 4), tp_init_ones());
    tp_node *cost = some_cost();
    tp_optimizer *opt = some_optimizer(rate());
    const int wraps = draw(3), way = draw(4);
    for (int i = 0; i < wraps; i++) opt = wrapped(opt);
    if (way == 0) h = hash_node(h, (tp_minimize)(opt, cost, some_regex()));
    else if (way == 1) h = hash_node(h, (tp_minimize)(opt, cost, NULL));
    else {
        for (int i = 0; i < tp_graph_n_variables(g) && n < 12; i++)
            if (draw(12)) vars[n++] = tp_graph_variable(g, i)->node;
        const int at = n ? draw(n) : 0;
        if (n && draw(30) == 0) vars[at] = draw(2) ? NULL : cost;
        if (n && draw(30) == 0) vars[at] = vars[0];
        memset(gvs, 0, sizeof gvs);
        if (draw(2)) h = hash_node(h, (tp_optimizer_compute_gradients)(opt, cost, vars, n, gvs));
        else h = hash_node(h, (tp_compute_gradients)(cost, vars, n, gvs));
        for (int i = 0; i < n; i++) h = hash_node(h, gvs[i].grad);
        if (draw(4) == 0) {
            tp_gradproc p = some_processor();
            n = tp_gradproc_run(&p, g, gvs, n);
            h = hash_number(h, n);
        }
        if (at < n && draw(20) == 0) gvs[at].grad = small(draw(5));
        const int updates = draw(8) ? 1 : 2;
        for (int i = 0; i < updates; i++)
            if (way == 2) h = hash_node(h, (tp_apply_gradients)(opt, gvs, n));
            else
                h = hash_node(h,
                              (tp_apply_gradients_if)(opt, gvs, n, draw(3) ? (tp_const_as)(g, TP_BOOL, 1) : small(3)));
    }
    return hash_optimizer(h, opt);
}

static void digest_programs(const char *section, int n, int per_digest, uint64_t (*fn)(uint64_t h))
{
    char wanted[64];
    tp_test_keep_log();
    for (int i = 0; i < n; i++) {
        uint64_t h = 1;
        snprintf(wanted, sizeof wanted, "%s:%d", section, i);
        printing = getenv("TP_TEST_PRINT") && strcmp(getenv("TP_TEST_PRINT"), wanted) == 0;
        for (int k = 0; k < per_digest; k++) {
            seed(tp_hash_name(section) + (uint64_t)(i * 64 + k));
            begin_log();
            memset(&state, 0, sizeof state);
            g = tp_graph_new(NULL);
            if (!CHECK(g != NULL)) continue;
            h = hash_all(in_a_tower(h, fn));
            tp_graph_free(g);
        }
        golden_digest(h);
    }
    tp_set_log(NULL, NULL);
    golden_compare("digests_layers.txt", section);
}

TEST(layers_build_what_they_built) { digest_programs("layers", 1600, 20, some_layers); }
TEST(functions_build_what_they_built) { digest_programs("functions", 1000, 20, some_functions); }
TEST(optimizers_build_what_they_built) { digest_programs("optimizers", 1200, 12, some_optimization); }

TEST_MAIN()
