/* golden_graph.h - digests of graphs, for golden.h: all that an operation has but its place in the source, in the order of
 * creation; variables, collections, the first mistake. And numbers that look random. Include golden.h before. */
#ifndef GOLDEN_GRAPH_H
#define GOLDEN_GRAPH_H

/* The next number from 0 to n-1: a function of seed_key and of how many were drawn. Never two in one expression. */
static uint64_t seed_key;
static uint32_t n_drawn;
TP_TEST__UNUSED static void seed(uint64_t key)
{
    seed_key = tp_test_mix(key);
    n_drawn = 0;
}
TP_TEST__UNUSED static int draw(int n) { return (int)(tp_test_mix(seed_key + n_drawn++) >> 33) % n; }
#define DRAW_OF(list_) (list_)[draw((int)TP_COUNT(list_))]

TP_TEST__UNUSED static uint64_t hash_number(uint64_t h, int64_t n)
{
    return tp_test_mix(h ^ (uint64_t)n * 0x2545f491u);
}
TP_TEST__UNUSED static uint64_t hash_float(uint64_t h, double v)
{
    uint64_t bits = 77; /* NaNs differ by machine */
    if (!isnan(v)) memcpy(&bits, &v, sizeof bits);
    return tp_test_mix(h ^ bits);
}
TP_TEST__UNUSED static uint64_t hash_shape(uint64_t h, const tp_shape *s)
{
    h = hash_number(h, s->ndim);
    for (int i = 0; i < s->ndim; i++) h = hash_number(h, s->dim[i]);
    return h;
}

TP_TEST__UNUSED static uint64_t hash_attrs(uint64_t h, const tp_op *row, const void *attrs)
{
    for (const tp_attr *a = row->attr; a && a->name && attrs; a++) {
        const void *at = (const char *)attrs + a->offset;
        switch (a->kind) {
        case TP_ATTR_INT: h = hash_number(h, *(const int *)at); break;
        case TP_ATTR_BOOL: h = hash_number(h, *(const bool *)at); break;
        case TP_ATTR_DTYPE: h = hash_number(h, (int64_t) * (const tp_dtype *)at); break;
        case TP_ATTR_FLOAT: h = hash_float(h, (double)*(const float *)at); break;
        case TP_ATTR_U64: h = hash_number(h, (int64_t) * (const uint64_t *)at); break;
        case TP_ATTR_STRING: h = golden_hash(h, *(const char *const *)at); break;
        case TP_ATTR_SHAPE: h = hash_shape(h, (const tp_shape *)at); break;
        case TP_ATTR_INTS8:
            for (int k = 0; k < 8; k++) h = hash_number(h, ((const int *)at)[k]);
            break;
        case TP_ATTR_I64S8:
            for (int k = 0; k < 8; k++) h = hash_number(h, ((const int64_t *)at)[k]);
            break;
        }
    }
    return h;
}

TP_TEST__UNUSED static uint64_t hash_node(uint64_t h, const tp_node *n)
{
    if (!n) return hash_number(h, -2);
    if (tp_is_poison(n)) return hash_number(h, -3);
    return hash_number(hash_number(h, n->op->id), n->index);
}

TP_TEST__UNUSED static uint64_t hash_operation(uint64_t h, const tp_operation *o)
{
    h = golden_hash(golden_hash(h, o->row->name), o->name);
    h = hash_number(hash_number(h, o->device), (int64_t)o->stream);
    for (int i = 0; i < o->n_in; i++) h = hash_node(h, o->in[i]);
    for (int i = 0; i < o->n_ctrl; i++) h = hash_number(h, 1000 + o->ctrl[i]->id);
    for (int i = 0; i < o->n_var; i++) h = golden_hash(h, o->var[i]->name);
    for (int i = 0; i < o->n_out; i++) h = hash_shape(hash_number(h, (int64_t)o->out[i].dtype), &o->out[i].shape);
    return hash_attrs(h, o->row, o->attrs);
}

TP_TEST__UNUSED static uint64_t hash_variable(uint64_t h, const tp_variable *v)
{
    h = hash_shape(golden_hash(h, v->name), &v->shape);
    h = hash_number(h, (int64_t)v->dtype * 16 + v->trainable * 8 + v->local * 4 + v->frozen * 2 + (v->copy_of != NULL));
    h = hash_number(hash_number(h, v->id), v->device);
    h = hash_number(hash_number(hash_number(h, v->init.kind), v->init.mode), v->init.distribution);
    h = hash_float(hash_float(h, (double)v->init.a), (double)v->init.b);
    for (int64_t i = 0; i < v->init.n_values; i++) h = hash_float(h, (double)v->init.values[i]);
    return h;
}

TP_TEST__UNUSED static uint64_t hash_collection(uint64_t h, const tp_graph *g, const char *key)
{
    int n = 0;
    tp_node *const *list = tp_collection(g, key, &n);
    h = hash_number(h, n);
    for (int i = 0; i < n; i++) h = hash_node(h, list[i]);
    return h;
}

/* The whole graph; of sentences, what stands behind the place. */
TP_TEST__UNUSED static uint64_t hash_graph(uint64_t h, const tp_graph *g)
{
    static const char *const keys[] = {TP_KEY_GLOBAL_VARIABLES,   TP_KEY_LOCAL_VARIABLES, TP_KEY_TRAINABLE_VARIABLES,
                                       TP_KEY_MODEL_VARIABLES,    TP_KEY_UPDATE_OPS,      TP_KEY_REGULARIZATION_LOSSES,
                                       TP_KEY_MOVING_SUMMARY_OPS, TP_KEY_SUMMARIES};
    h = golden_hash(hash_number(h, (int64_t)tp_graph_status(g)), TP_TEST_SAID(tp_graph_error(g)));
    for (int i = 0; i < tp_graph_n_operations(g); i++) h = hash_operation(h, tp_graph_operation(g, i));
    for (int i = 0; i < tp_graph_n_variables(g); i++) h = hash_variable(h, tp_graph_variable(g, i));
    for (int i = 0; i < TP_COUNT(keys); i++) h = hash_collection(h, g, keys[i]);
    return h;
}

/* What is logged from here on counts for the next hash_log, and what was logged once counts as new. */
#ifdef TP_STATIC
TP_TEST__UNUSED static void begin_log(void)
{
    tp__logger.n_once = 0;
    tp_test_logged[0] = 0;
    tp_test_warnings = 0;
}
#endif
TP_TEST__UNUSED static uint64_t hash_log(uint64_t h)
{
    for (char *line = tp_test_logged, *next; *line; line = next) {
        next = line + strcspn(line, "\n");
        if (*next) *next++ = 0;
        h = golden_hash(h, TP_TEST_SAID(line));
    }
    return hash_number(h, tp_test_warnings);
}

#endif
