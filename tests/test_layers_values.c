/* Every layer against PyTorch in double (ref_layers.py says what the file holds): outputs, gradients, running statistics. */
#define TP_IMPLEMENTATION
#include "tp_layers.h"
#include "tp_test.h"

#define MOST 4096 /* numbers of one tensor */

typedef struct numbers {
    int ndim, n;
    int64_t dim[TP_MAX_DIMS];
    char name[64]; /* of an option or a variable */
    int seed;
    float scale, offset;
    const char *text; /* expected values */
} numbers;

typedef struct option {
    char kind, name[32], value[32];
} option;

typedef struct layer_case {
    char layer[48];
    int training, vocab, n_in, n_opt, n_var, n_din, n_dvar, n_stat, line;
    numbers x, y, dx, in[4], var[10], din[4], dvar[10], stat[8];
    option opt[12];
} layer_case;

/* Whether this input has the integers 0 and 1, to which no gradient flows. */
static int of_zeros_and_ones(const numbers *a)
{
    return strcmp(a->name, "labels") == 0 || strcmp(a->name, "mask") == 0;
}

/* ref_layers.py's value() */
static float value(int seed, int i)
{
    uint32_t h = (uint32_t)seed * 0x9E3779B1u + (uint32_t)i * 0x85EBCA6Bu;
    h ^= h >> 15;
    h *= 0x2C1B3C6Du;
    h ^= h >> 12;
    h *= 0x297A2D39u;
    h ^= h >> 15;
    return (float)(h / 2147483648.0 - 1.0);
}

static tp_shape shape_of(const numbers *a) { return tp_make_shape_n(a->ndim, a->dim); }

/* A tensor with the numbers that both sides compute. */
static void fill(tp_tensor *t, const numbers *a, int seed, int vocab)
{
    memset(t, 0, sizeof *t);
    if (!CHECK_OK(tp_tensor_resize(t, vocab ? TP_I32 : TP_F32, shape_of(a)))) return;
    for (int i = 0; i < tp_tensor_size(t); i++)
        tp_tensor_set(t, i,
                      vocab ? floor((value(seed, i) + 1.0) / 2.0 * vocab)
                            : (double)(a->offset + a->scale * value(seed, i)));
}

/* Within 1e-5 of the largest expected number. */
static void compare(const layer_case *c, const char *what, const numbers *want, const tp_tensor *got)
{
    const char *p = want->text;
    char *end;
    double expected[MOST], largest = 0;
    int n = 0;
    for (double v = strtod(p, &end); end != p && n < MOST; v = strtod(p, &end)) {
        expected[n++] = v;
        if (fabs(v) > largest) largest = fabs(v);
        p = end;
        while (*p == ' ') p++;
        if (*p == '\n') break;
    }
    if (!CHECK_MSG(tp_tensor_size(got) == n, "%s, line %d: %s %s has %lld elements, not %d", c->layer, c->line, what,
                   want->name, (long long)tp_tensor_size(got), n))
        return;
    if (largest < 0.1) largest = 0.1; /* what is left of numbers around 1 that cancel in float32 */
    for (int i = 0; i < n; i++) {
        const double off = fabs(tp_tensor_get(got, i) - expected[i]);
        if (!CHECK_MSG(off <= 1e-5 * largest, "%s, line %d: %s %s [%d] is %.8g, not %.8g", c->layer, c->line, what,
                       want->name, i, tp_tensor_get(got, i), expected[i]))
            return;
    }
}

/* "seed dims..." or "seed scale offset dims..." */
static void read_dims(char *p, numbers *a, bool scaled)
{
    a->seed = (int)strtol(p, &p, 10);
    a->scale = scaled ? strtof(p, &p) : 1;
    a->offset = scaled ? strtof(p, &p) : 0;
    char *end;
    for (long v = strtol(p, &end, 10); end != p && a->ndim < TP_MAX_DIMS; v = strtol(p, &end, 10)) {
        a->dim[a->ndim++] = v;
        p = end;
        while (*p == ' ') p++;
        if (*p == '\n' || *p == '|') break;
    }
}

/* The next word of the line; *p moves behind it. */
static const char *word(char **p, char *out, size_t size)
{
    size_t n = 0;
    while (**p == ' ') ++*p;
    for (; **p && **p != ' ' && **p != '\n'; ++*p)
        if (n + 1 < size) out[n++] = **p;
    out[n] = 0;
    while (**p == ' ') ++*p;
    return out;
}

/* One line of a case; the line ends with \n or the file's end. */
static void read_line(char *p, layer_case *c)
{
    char kind[16], w[16];
    word(&p, kind, sizeof kind);
    if (strcmp(kind, "x") == 0) {
        c->vocab = atoi(word(&p, w, sizeof w));
        read_dims(p, &c->x, false);
    } else if (strcmp(kind, "in") == 0) {
        numbers *a = &c->in[c->n_in++];
        word(&p, a->name, sizeof a->name);
        read_dims(p, a, false);
    } else if (strcmp(kind, "opt") == 0) {
        option *o = &c->opt[c->n_opt++];
        o->kind = *word(&p, w, sizeof w);
        word(&p, o->name, sizeof o->name);
        word(&p, o->value, sizeof o->value);
    } else if (strcmp(kind, "var") == 0) {
        numbers *a = &c->var[c->n_var++];
        word(&p, a->name, sizeof a->name);
        read_dims(p, a, true);
    } else if (strcmp(kind, "y") == 0) {
        char *bar = strchr(p, '|');
        for (char *q = p; bar && q < bar;) {
            c->y.dim[c->y.ndim++] = strtol(q, &q, 10);
            while (*q == ' ') q++;
        }
        c->y.text = bar ? bar + 1 : "";
    } else if (strcmp(kind, "dx") == 0) {
        c->dx.text = p;
    } else if (strcmp(kind, "din") == 0) {
        numbers *a = &c->din[c->n_din++];
        word(&p, a->name, sizeof a->name);
        a->text = p;
    } else {
        numbers *a = strcmp(kind, "dvar") == 0 ? &c->dvar[c->n_dvar++] : &c->stat[c->n_stat++];
        word(&p, a->name, sizeof a->name);
        a->text = p;
    }
}

/* Puts an option where the layer's own table says; false if it has none of that name. */
static bool set_option(const tp_layer_type *t, unsigned char *desc, const char *name, const void *data, size_t size)
{
    const size_t n = strlen(name);
    for (int i = 0; i < t->n_fields; i++) {
        const tp_layer_field *f = &t->fields[i];
        const bool second = n > 2 && strcmp(name + n - 2, "_w") == 0 && strlen(f->name) == n - 2 &&
                            strncmp(f->name, name, n - 2) == 0 && f->size == 2 * sizeof(int);
        if (!second && strcmp(f->name, name) != 0) continue;
        memcpy(desc + f->offset + (second ? sizeof(int) : 0), data, size);
        return true;
    }
    return CHECK_MSG(false, "%s has no option %s", t->name, name);
}

/* The functions beside the layers: x and the other nodes, one number. */
static tp_node *symbolic(const layer_case *c, tp_node *const *in)
{
    const char *name = c->layer + 4;
    float p = 0, scale = 1;
    tp_data_format format = TP_NHWC;
    for (int i = 0; i < c->n_opt; i++) {
        if (strcmp(c->opt[i].name, "p") == 0) p = strtof(c->opt[i].value, NULL);
        else if (strcmp(c->opt[i].name, "scale") == 0) scale = strtof(c->opt[i].value, NULL);
        else if (atoi(c->opt[i].value) == TP_NCHW) format = TP_NCHW;
    }
    tp_node *x = scale == 1 ? in[0] : tp_affine(in[0], scale, 0);
    if (strcmp(name, "rms") == 0) return tp_sym_rms(x, NULL);
    if (strcmp(name, "huber_loss") == 0) return tp_sym_huber_loss(x, p, NULL);
    if (strcmp(name, "psnr") == 0) return tp_sym_psnr(x, in[1], p, NULL);
    if (strcmp(name, "contrastive_loss") == 0) return tp_sym_contrastive_loss(x, in[1], in[2], p, NULL);
    if (strcmp(name, "siamese_cosine_loss") == 0) return tp_sym_siamese_cosine_loss(x, in[1], in[2], NULL);
    if (strcmp(name, "triplet_loss") == 0) return tp_sym_triplet_loss(x, in[1], in[2], p, NULL);
    if (strcmp(name, "soft_triplet_loss") == 0) return tp_sym_soft_triplet_loss(x, in[1], in[2], NULL);
    if (strcmp(name, "class_balanced_sigmoid_cross_entropy") == 0)
        return tp_sym_class_balanced_sigmoid_cross_entropy(x, in[1], NULL);
    if (strcmp(name, "selu") == 0) return tp_selu(x);
    if (strcmp(name, "relu6") == 0) return tp_relu6(x);
    if (strcmp(name, "hard_swish") == 0) return tp_hard_swish(x);
    if (strcmp(name, "depth_to_space") == 0) return tp_depth_to_space(x, (int)p, format);
    if (strcmp(name, "space_to_depth") == 0) return tp_space_to_depth(x, (int)p, format);
    return tp_graph_fail(tp_node_graph(x), NULL, TP_ERR_NAME, "no function %s", name);
}

/* blind: height and width are unknown when the graph is built, as the batch always is. */
static void run_case(const layer_case *c, bool blind)
{
    union {
        unsigned char bytes[TP_LAYER_MAX_DESC];
        tp_layer_head head;
        double align;
    } desc;
    memset(&desc, 0, sizeof desc);
    desc.head.name = "l";
    tp_graph *g = tp_graph_new(NULL);
    tp_tower_desc tower = {.is_training = c->training != 0};
    tp_tower_enter(g, &tower);
    tp_shape s = shape_of(&c->x);
    const bool nchw = c->y.ndim == 4 && strstr(c->layer, "Global") == NULL;
    s.dim[0] = TP_ANY;
    tp_rnn_state state = {0}, *state_at = &state;
    const bool is_symbolic = strncmp(c->layer, "sym.", 4) == 0;
    const tp_layer_type *t = is_symbolic ? NULL : tp_get_registered_layer(g, c->layer);
    if (!CHECK_MSG(is_symbolic || t != NULL, "there is no layer %s", c->layer)) return;
    bool channels_first = false;
    for (int i = 0; t && i < c->n_opt; i++) {
        const option *o = &c->opt[i];
        const int number = atoi(o->value);
        const float f = strtof(o->value, NULL);
        const tp_activation a = strcmp(o->value, "relu") == 0 ? tp_relu : tp_tanh;
        if (o->kind == 'i') set_option(t, desc.bytes, o->name, &number, sizeof number);
        else if (o->kind == 'f') set_option(t, desc.bytes, o->name, &f, sizeof f);
        else set_option(t, desc.bytes, o->name, &a, sizeof a);
        if ((strcmp(o->name, "data_format") == 0 && number == TP_NCHW) || strcmp(o->name, "axis") == 0)
            channels_first = true;
    }
    if (blind && nchw)
        for (int i = 1; i < 4; i++)
            if (i != (channels_first ? 1 : 3)) s.dim[i] = TP_ANY;
    tp_node *x = tp_placeholder(g, "x", c->vocab ? TP_I32 : TP_F32, s), *in[5] = {x};
    for (int i = 0; i < c->n_in; i++) {
        const numbers *a = &c->in[i];
        tp_shape si = shape_of(a);
        if (a->ndim > 1 && strcmp(a->name, "unpool_mat") != 0) si.dim[0] = TP_ANY;
        in[i + 1] = tp_placeholder(g, "other", of_zeros_and_ones(a) ? TP_I32 : TP_F32, si);
        if (strcmp(a->name, "state.h") == 0) state.h = in[i + 1];
        else if (strcmp(a->name, "state.c") == 0) state.c = in[i + 1];
        else if (t) set_option(t, desc.bytes, a->name, &in[i + 1], sizeof in[0]);
    }
    if (state.h) set_option(t, desc.bytes, "state", &state_at, sizeof state_at);

    /* everything that is compared, as one fetch */
    tp_node *y = t ? tp_layer_apply(x, c->layer, desc.bytes) : symbolic(c, in), *xs[32], *dxs[32] = {0}, *fetch[64];
    tp_node *r = tp_placeholder(g, "r", TP_F32, shape_of(&c->y));
    int n_xs = 0, n_fetch = 0, n_updates = 0;
    if (!c->vocab) xs[n_xs++] = x;
    for (int i = 0; i < c->n_in; i++)
        if (!of_zeros_and_ones(&c->in[i])) xs[n_xs++] = in[i + 1];
    for (int i = 0; i < c->n_dvar; i++) {
        char name[80];
        snprintf(name, sizeof name, "l/%s", c->dvar[i].name);
        tp_variable *v = tp_find_variable(g, name);
        if (CHECK_MSG(v != NULL, "%s, line %d: no variable %s", c->layer, c->line, name)) xs[n_xs++] = v->node;
    }
    if (tp_graph_status(g) == TP_OK && n_xs > 0) tp_gradients(tp_sum(tp_mul(y, r)), xs, n_xs, dxs);
    if (!CHECK_MSG(tp_graph_status(g) == TP_OK, "%s, line %d: %s", c->layer, c->line, tp_graph_error(g))) {
        tp_graph_free(g);
        return;
    }
    const numbers *want[32] = {0};
    int k = 0;
    fetch[n_fetch++] = y;
    if (!c->vocab) want[k++] = &c->dx;
    for (int i = 0; i < c->n_in; i++) {
        if (of_zeros_and_ones(&c->in[i])) continue;
        want[k] = NULL;
        for (int j = 0; j < c->n_din; j++)
            if (atoi(c->din[j].name) == i) want[k] = &c->din[j];
        k++;
    }
    for (int i = 0; i < c->n_dvar; i++) want[k++] = &c->dvar[i];
    for (int i = 0; i < n_xs; i++) {
        if (want[i])
            CHECK_MSG(dxs[i] != NULL, "%s, line %d: no gradient reaches %s", c->layer, c->line, tp_node_name(xs[i]));
        if (!dxs[i]) want[i] = NULL;
    }
    for (int i = 0; i < n_xs; i++)
        if (want[i]) fetch[n_fetch++] = dxs[i];
    tp_node *const *updates = tp_collection(g, TP_KEY_UPDATE_OPS, &n_updates);
    const int n_compared = n_fetch;
    for (int i = 0; i < n_updates; i++) fetch[n_fetch++] = updates[i];
    tp_tower_leave(g);

    tp_session *session = tp_session_new(g, NULL);
    if (!CHECK_MSG(session != NULL, "%s", tp_last_error())) return;
    for (int i = 0; i < c->n_var; i++) {
        char name[80];
        tp_tensor v;
        snprintf(name, sizeof name, "l/%s", c->var[i].name);
        fill(&v, &c->var[i], c->var[i].seed, 0);
        const tp_variable *var = tp_find_variable(g, name);
        if (CHECK_MSG(var != NULL, "%s, line %d: no variable %s", c->layer, c->line, name))
            CHECK_OK(tp_session_load(session, var, &v));
        tp_tensor_free(&v);
    }
    CHECK_MSG(tp_graph_n_variables(g) == c->n_var, "%s, line %d: %d variables, not %d", c->layer, c->line,
              tp_graph_n_variables(g), c->n_var);
    for (int step = 0; step < 3; step++) {
        tp_feed feed[6];
        int n_feed = 0;
        memset(feed, 0, sizeof feed);
        for (int i = 0; i <= c->n_in; i++) {
            feed[n_feed].node = in[i];
            fill(&feed[n_feed++].value, i ? &c->in[i - 1] : &c->x, i ? c->in[i - 1].seed : c->x.seed + step,
                 i ? 2 * of_zeros_and_ones(&c->in[i - 1]) : c->vocab);
        }
        numbers of_r = c->y;
        of_r.scale = 1;
        feed[n_feed].node = r;
        fill(&feed[n_feed++].value, &of_r, 999, 0);
        const tp_tensor *got[64];
        if (CHECK_OK(tp_session_run(session, feed, n_feed, fetch, n_fetch, got)) && step == 0) {
            CHECK_MSG(tp_shape_equal(&got[0]->shape, &feed[n_feed - 1].value.shape), "%s, line %d: shape of y",
                      c->layer, c->line);
            compare(c, "y", &c->y, got[0]);
            for (int i = 0, at = 1; i < n_xs && at < n_compared; i++)
                if (want[i]) compare(c, tp_node_name(xs[i]), want[i], got[at++]);
        }
        for (int i = 0; i < n_feed; i++) tp_tensor_free(&feed[i].value);
    }
    for (int i = 0; i < c->n_stat; i++) {
        char name[80];
        tp_tensor v = {0};
        snprintf(name, sizeof name, "l/%s", c->stat[i].name);
        const tp_variable *var = tp_find_variable(g, name);
        if (CHECK(var != NULL) && CHECK_OK(tp_session_read(session, var, &v))) {
            CHECK_MSG(!var->trainable, "%s is trained", name);
            compare(c, "after three steps", &c->stat[i], &v);
        }
        tp_tensor_free(&v);
    }
    tp_session_free(session);
    tp_graph_free(g);
}

static char *read_file(void)
{
    FILE *f = fopen("tests/ref_layers.txt", "r");
    if (!f) f = fopen("ref_layers.txt", "r");
    if (!CHECK_MSG(f != NULL, "tests/ref_layers.txt is missing")) return NULL;
    fseek(f, 0, SEEK_END);
    const long size = ftell(f);
    rewind(f);
    char *text = (char *)calloc((size_t)size + 1, 1);
    if (text && fread(text, 1, (size_t)size, f) != (size_t)size) text[0] = 0;
    fclose(f);
    return text;
}

/* Runs the cases; blind: those with images again, of unknown height and width. */
static void run_all(bool blind)
{
    static struct {
        char layer[48];
        int n;
    } seen[64];
    char *text = read_file();
    int line = 0, n_seen = 0, n_run = 0;
    tp_set_log(tp_test_drop_log, NULL);
    memset(seen, 0, sizeof seen);
    for (char *p = text; p && *p;) {
        static layer_case c;
        memset(&c, 0, sizeof c);
        char kind[16];
        char *q = p;
        word(&q, kind, sizeof kind);
        word(&q, c.layer, sizeof c.layer);
        c.training = atoi(q);
        c.line = ++line;
        for (p = strchr(p, '\n'); p && *++p && strncmp(p, "case ", 5) != 0; p = strchr(p, '\n')) {
            line++;
            read_line(p, &c);
        }
        bool fits = true;
        if (blind) {
            fits = c.x.ndim == 4 && c.y.ndim == 4 && strncmp(c.layer, "sym.", 4) != 0;
            for (int i = 0; i < c.n_opt; i++) fits = fits && strcmp(c.opt[i].name, "virtual_batch_size") != 0;
        }
        if (!fits) continue;
        run_case(&c, blind);
        n_run++;
        int i = 0;
        while (i < n_seen && strcmp(seen[i].layer, c.layer) != 0) i++;
        if (i == n_seen && n_seen < TP_COUNT(seen) - 1) memcpy(seen[n_seen++].layer, c.layer, sizeof c.layer);
        seen[i].n++;
    }
    for (int i = 0; i < n_seen && !blind; i++) CHECK_MSG(seen[i].n >= 8, "%s has %d cases", seen[i].layer, seen[i].n);
    if (blind) CHECK_MSG(n_seen == 17 && n_run > 110, "%d layers, %d cases", n_seen, n_run);
    else CHECK(n_seen == 25 + 13); /* layers, all but Dropout, and functions */
    free(text);
    tp_set_log(NULL, NULL);
}

TEST(layers_as_pytorch) { run_all(false); }
TEST(layers_of_images_of_unknown_size_as_pytorch) { run_all(true); }

/* Functions that are composed with constants have these as doubles where x is float64. */
TEST(constants_of_float64_are_doubles)
{
    static const double at[3] = {1, -0.5, INFINITY};
    /* gelu, gelu by tanh, selu, hard_swish; 20 log10 3 - 10 log10 0.25 */
    static const double want[4][3] = {{0.84134474606854293, -0.15426876936299345, INFINITY},
                                      {0.84119199060827676, -0.15428599017485606, INFINITY},
                                      {1.0507009873554805, -0.69175818780287134, INFINITY},
                                      {4.0 / 6.0, -0.5 * 2.5 / 6.0, INFINITY}};
    const int64_t one[1] = {1}, zero[1] = {0};
    for (int wide = 0; wide < 2; wide++) {
        const tp_dtype dtype = wide ? TP_F64 : TP_F32;
        const double tolerance = wide ? 4e-16 : 2e-7;
        tp_graph *g = tp_graph_new(NULL);
        tp_node *x = tp_placeholder(g, "x", TP_F64, tp_make_shape(3)), *c = tp_cast(x, dtype);
        tp_node *first = tp_slice(c, zero, one), *half = tp_affine(first, 0.5f, 0);
        tp_node *y[5] = {tp_gelu(c), tp_gelu_tanh(c), tp_selu(c), tp_hard_swish(c), tp_sym_psnr(first, half, 3, NULL)};
        tp_feed f = {.node = x};
        const tp_tensor *v[5];
        tp_tensor_view(&f.value, TP_F64, tp_make_shape(3), at);
        tp_session *s = tp_session_new(g, NULL);
        if (CHECK_OK(tp_session_run(s, &f, 1, y, 5, v))) {
            for (int k = 0; k < 4; k++)
                for (int i = 0; i < 3; i++)
                    if (i == 2) CHECK_MSG(tp_tensor_get(v[k], i) == want[k][i], "function %d of inf", k);
                    else CHECK_NEAR(tp_tensor_get(v[k], i), want[k][i], 0, tolerance);
            CHECK_NEAR(tp_tensor_get(v[4], 0), 15.563025007672873, 0, tolerance);
        }
        tp_session_free(s);
        tp_graph_free(g);
    }
}

/* Values that a sum of two parts would round, or make NaN. */
TEST(prelu_is_x_or_alpha_times_x)
{
    const float in[9] = {INFINITY, -INFINITY, NAN, 0, -0.0f, 1.1f, -1.1f, 3e38f, -3e38f};
    for (int k = 0; k < 2; k++) {
        const float alpha = k ? -3 : 0.3f;
        tp_graph *g = tp_graph_new(NULL);
        tp_tensor t;
        memset(&t, 0, sizeof t);
        tp_tensor_view(&t, TP_F32, tp_make_shape(9), in);
        tp_node *x = tp_constant(g, &t), *y = tp_prelu(x, "p", .init = alpha);
        tp_node *finite = tp_slice(x, (const int64_t[]){3}, (const int64_t[]){4});
        tp_variable_scope_desc again;
        memset(&again, 0, sizeof again);
        again.reuse = TP_REUSE_YES;
        tp_variable_scope_push(g, &again);
        tp_node *z = tp_prelu(finite, "p", .init = alpha), *of[2], *fetch[3];
        tp_variable_scope_pop(g);
        of[0] = finite, of[1] = tp_find_variable(g, "p/alpha")->node;
        fetch[0] = y;
        tp_gradients(tp_sum(z), of, 2, &fetch[1]);
        CHECK_MSG(tp_graph_status(g) == TP_OK, "%s", tp_graph_error(g));
        tp_session *s = tp_session_new(g, NULL);
        const tp_tensor *out[3];
        if (CHECK_MSG(s != NULL, "%s", tp_last_error()) && CHECK_OK(tp_session_run(s, NULL, 0, fetch, 3, out))) {
            for (int i = 0; i < 9; i++) {
                const float want = in[i] > 0 ? in[i] : alpha * in[i], got = ((const float *)out[0]->data)[i];
                CHECK_MSG(isnan(want) ? isnan(got) : memcmp(&got, &want, sizeof got) == 0, "%g: %g, not %g",
                          (double)in[i], (double)got, (double)want);
            }
            for (int i = 0; i < 4; i++)
                CHECK(((const float *)out[1]->data)[i] == (in[3 + i] > 0 ? 1 : alpha)); /* 0, -0, 1.1, -1.1 */
            CHECK(((const float *)out[2]->data)[0] == -1.1f);
        }
        tp_session_free(s);
        tp_graph_free(g);
    }
}

TEST_MAIN()
