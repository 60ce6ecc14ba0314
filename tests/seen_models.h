/* seen_models.h - all that can be seen of a graph, an ONNX file and a C file, as a hash. Include golden.h and onnx_tree.h before it.
 *
 * Floats count with 1% of their value: kernels of different instruction sets and C libraries differ in the last digits. */
#ifndef SEEN_MODELS_H
#define SEEN_MODELS_H

TP_TEST__UNUSED static uint64_t seen_int(uint64_t h, int64_t v) { return tp_test_mix((h ^ (uint64_t)v) + 1); }

static uint64_t seen_float(uint64_t h, double v)
{
    int e = 0;
    if (isnan(v)) return seen_int(h, 1001);
    if (isinf(v)) return seen_int(h, v > 0 ? 1002 : 1003);
    if (fabs(v) < 1e-6 && fabs(v) > 1e-30) return seen_int(h, 0); /* what remains where sums cancel */
    const double m = frexp(v, &e);
    return seen_int(seen_int(h, e), (int64_t)floor(m * 128 + 0.4321));
}

static uint64_t seen_shape(uint64_t h, const tp_shape *s)
{
    h = seen_int(h, s->ndim);
    for (int d = 0; d < s->ndim; d++) h = seen_int(h, s->dim[d]);
    return h;
}

static int seen_most = 256; /* of the elements of a tensor, so many are looked at, or one more */
static uint64_t seen_tensor(uint64_t h, const tp_tensor *t)
{
    const int64_t n = tp_tensor_size(t), step = n / seen_most + 1;
    h = seen_shape(seen_int(h, t->dtype), &t->shape);
    for (int64_t i = 0; i < n && t->data; i += step) {
        if (t->dtype == TP_I64) h = seen_int(h, ((const int64_t *)t->data)[i]);
        else h = seen_float(h, tp_tensor_get(t, i));
    }
    return h;
}

static uint64_t seen_attr(uint64_t h, const tp_attr *a, const void *attrs)
{
    const char *at = (const char *)attrs + a->offset;
    switch (a->kind) {
    case TP_ATTR_INT: return seen_int(h, *(const int *)at);
    case TP_ATTR_BOOL: return seen_int(h, *(const bool *)at);
    case TP_ATTR_FLOAT: return seen_float(h, (double)*(const float *)at);
    case TP_ATTR_U64: return seen_int(h, (int64_t)(*(const uint64_t *)at));
    case TP_ATTR_STRING: return golden_hash(h, *(const char *const *)at);
    case TP_ATTR_DTYPE: return seen_int(h, *(const tp_dtype *)at);
    case TP_ATTR_SHAPE: return seen_shape(h, (const tp_shape *)at);
    case TP_ATTR_INTS8:
        for (int i = 0; i < 8; i++) h = seen_int(h, ((const int *)at)[i]);
        return h;
    default:
        for (int i = 0; i < 8; i++) h = seen_int(h, ((const int64_t *)at)[i]);
        return h;
    }
}

static uint64_t seen_operation(uint64_t h, const tp_operation *op)
{
    h = golden_hash(golden_hash(h, op->row->name), op->name);
    h = seen_int(seen_int(h, op->n_in), op->n_out);
    for (int i = 0; i < op->n_in; i++) h = seen_int(seen_int(h, op->in[i]->op->id), op->in[i]->index);
    for (int i = 0; i < op->n_out; i++) h = seen_shape(seen_int(h, op->out[i].dtype), &op->out[i].shape);
    for (int i = 0; i < op->n_ctrl; i++) h = seen_int(h, op->ctrl[i]->id);
    for (int i = 0; i < op->n_var; i++) h = golden_hash(h, op->var[i]->name);
    for (const tp_attr *a = op->row->attr; a && a->name && op->attrs; a++) h = seen_attr(h, a, op->attrs);
    if (strcmp(op->row->name, "constant") == 0 && op->user) {
        tp_tensor t;
        memset(&t, 0, sizeof t);
        tp_tensor_view(&t, op->out[0].dtype, op->out[0].shape, op->user);
        h = seen_tensor(h, &t);
    }
    return h;
}

TP_TEST__UNUSED static uint64_t seen_graph(uint64_t h, const tp_graph *g)
{
    for (int i = 0; i < tp_graph_n_operations(g); i++) h = seen_operation(h, tp_graph_operation(g, i));
    for (int i = 0; i < tp_graph_n_variables(g); i++) {
        const tp_variable *v = tp_graph_variable(g, i);
        h = seen_shape(golden_hash(h, v->name), &v->shape);
        h = seen_int(seen_int(seen_int(h, v->trainable), v->local), v->init.kind);
        for (int64_t k = 0; v->init.kind == TP_INIT_VALUES && k < v->init.n_values && k < seen_most; k++)
            h = seen_float(h, (double)v->init.values[k]);
    }
    return seen_int(h, tp_graph_status(g));
}

static uint64_t seen_bytes(uint64_t h, const uint8_t *p, size_t n)
{
    h = seen_int(h, (int64_t)n);
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001b3u;
    return tp_test_mix(h);
}

/* The type that a tensor of an ONNX file says it has. */
static uint64_t seen_elem(const part *tensor)
{
    for (int i = 0; i < tensor->n_sub; i++)
        if (tensor->sub[i]->field == 2 && tensor->sub[i]->wire == 0) return tensor->sub[i]->v;
    return 0;
}

static uint64_t seen_part(uint64_t h, const part *p)
{
    const uint64_t elem = p->kind == TENSOR ? seen_elem(p) : 0;
    for (int i = 0; i < p->n_sub; i++) {
        const part *s = p->sub[i];
        if (p->kind == MODEL && s->field == 3) continue; /* the version of the library */
        h = seen_int(seen_int(h, s->field), s->wire);
        if (s->kind != LEAF) h = seen_part(h, s);
        else if (s->wire != 2) h = seen_int(h, (int64_t)s->v);
        else if (p->kind == TENSOR && s->field == 9 && (elem == 1 || elem == 11)) {
            tp_tensor t;
            const int64_t n = (int64_t)(s->size / (elem == 1 ? 4 : 8));
            memset(&t, 0, sizeof t);
            if (CHECK_OK(tp_tensor_resize(&t, elem == 1 ? TP_F32 : TP_F64, tp_make_shape(n))) && s->size)
                tp_test_little_endian(t.data, s->bytes, s->size, elem == 1 ? 4 : 8);
            h = seen_tensor(h, &t);
            tp_tensor_free(&t);
        } else h = seen_bytes(h, s->bytes, s->size);
    }
    return seen_int(h, p->n_sub);
}

TP_TEST__UNUSED static uint64_t seen_onnx(uint64_t h, const void *data, size_t size)
{
    part *root = part_new(MODEL, 0, 2);
    const uint8_t *p = (const uint8_t *)data;
    CHECK_MSG(size && read_message(root, p, p + size), "what was exported is no protobuf message");
    h = seen_part(h, root);
    part_free(root);
    return h;
}

/* The text of a C file without its first line, which names the library's version. Numbers that are not whole count as floats. */
TP_TEST__UNUSED static uint64_t seen_c(uint64_t h, const char *text)
{
    const char *p = text ? strchr(text, '\n') : NULL;
    bool word = false; /* inside a name or number */
    for (; p && *p; p++) {
        const bool digit = *p >= '0' && *p <= '9';
        if (digit && !word) {
            const size_t n = strspn(p, "0123456789");
            if (p[n] == '.' || p[n] == 'e') {
                const char *end = p;
                h = seen_float(h, tp_parse_double(p, &end));
                p = end - 1;
                word = true;
                continue;
            }
        }
        word = digit || *p == '_' || (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z');
        h = (h ^ (uint8_t)*p) * 0x100000001b3u;
    }
    return tp_test_mix(h);
}

#endif
