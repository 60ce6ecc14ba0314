/* onnx_tree.h - an ONNX model as a tree of protobuf messages, by ONNX's field numbers: read, changed, written. Include tp_test.h before. */
#ifndef ONNX_TREE_H
#define ONNX_TREE_H

enum { MOST_PARTS = 20000 };

enum { LEAF, MODEL, GRAPH, NODE, ATTR, TENSOR, VALUE, TYPE, TENSOR_TYPE, SHAPE, DIM, OPSET, ENTRY, N_KINDS };
/* message kind, field -> kind of what it holds */
static int kind_of(int kind, int field)
{
    static const int table[][3] = {
        {MODEL, 7, GRAPH},  {MODEL, 8, OPSET},      {GRAPH, 1, NODE}, {GRAPH, 5, TENSOR},      {GRAPH, 11, VALUE},
        {GRAPH, 12, VALUE}, {GRAPH, 13, VALUE},     {NODE, 5, ATTR},  {ATTR, 5, TENSOR},       {ATTR, 6, GRAPH},
        {VALUE, 2, TYPE},   {TYPE, 1, TENSOR_TYPE}, {SHAPE, 1, DIM},  {TENSOR_TYPE, 2, SHAPE}, {TENSOR, 13, ENTRY}};
    for (int i = 0; i < TP_COUNT(table); i++)
        if (table[i][0] == kind && table[i][1] == field) return table[i][2];
    return LEAF;
}

typedef struct part {
    int kind, field, wire; /* of the message it is (LEAF: a value), where it stands, how it is coded */
    uint64_t v;            /* of wire 0, 1, 5 */
    uint8_t *bytes;        /* the bytes of a text or a packed list: a LEAF whose wire is 2 */
    size_t size;
    struct part **sub; /* of a message */
    int n_sub;
} part;
static int n_parts;

static part *part_new(int kind, int field, int wire)
{
    part *p = (part *)calloc(1, sizeof *p);
    if (!p) exit(2);
    n_parts++;
    p->kind = kind, p->field = field, p->wire = wire;
    return p;
}
static void part_free(part *p)
{
    if (!p) return;
    for (int i = 0; i < p->n_sub; i++) part_free(p->sub[i]);
    free(p->sub);
    free(p->bytes);
    free(p);
    n_parts--;
}
TP_TEST__UNUSED static void insert(part *to, int at, part *p)
{
    part **sub = (part **)realloc(to->sub, ((size_t)to->n_sub + 1) * sizeof *sub);
    if (!sub) exit(2);
    memmove(sub + at + 1, sub + at, (size_t)(to->n_sub - at) * sizeof *sub);
    sub[at] = p;
    to->sub = sub;
    to->n_sub++;
}
TP_TEST__UNUSED static void drop(part *from, int at)
{
    part_free(from->sub[at]);
    from->n_sub--;
    memmove(from->sub + at, from->sub + at + 1, (size_t)(from->n_sub - at) * sizeof *from->sub);
}
static void set_bytes(part *p, const void *data, size_t size)
{
    uint8_t *b = (uint8_t *)malloc(size + 1);
    if (!b) exit(2);
    if (size) memcpy(b, data, size);
    free(p->bytes);
    p->bytes = b, p->size = size;
}
TP_TEST__UNUSED static part *copy(const part *p)
{
    part *q = part_new(p->kind, p->field, p->wire);
    q->v = p->v;
    if (p->bytes) set_bytes(q, p->bytes, p->size);
    for (int i = 0; i < p->n_sub; i++) insert(q, q->n_sub, copy(p->sub[i]));
    return q;
}

static bool read_varint(const uint8_t **p, const uint8_t *end, uint64_t *v)
{
    *v = 0;
    for (unsigned shift = 0; *p < end && shift < 64; shift += 7) {
        const uint8_t b = *(*p)++;
        *v |= (uint64_t)(b & 127) << shift;
        if (b < 128) return true;
    }
    return false;
}
/* The fields of a message; false where it is damaged. */
static bool read_message(part *to, const uint8_t *p, const uint8_t *end)
{
    uint64_t key, v = 0;
    while (p < end) {
        if (!read_varint(&p, end, &key)) return false;
        const int field = (int)(key >> 3 & 0xffffff), wire = (int)(key & 7);
        part *s = part_new(wire == 2 ? kind_of(to->kind, field) : LEAF, field, wire);
        insert(to, to->n_sub, s);
        if (wire == 0) {
            if (!read_varint(&p, end, &s->v)) return false;
        } else if (wire == 2) {
            if (!read_varint(&p, end, &v) || v > (uint64_t)(end - p)) return false;
            if (s->kind == LEAF) set_bytes(s, p, (size_t)v);
            else if (!read_message(s, p, p + v)) return false;
            p += v;
        } else if (wire == 1 || wire == 5) {
            const int n = wire == 1 ? 8 : 4;
            if (end - p < n) return false;
            for (int i = 0; i < n; i++) s->v |= (uint64_t)*p++ << (8 * i);
        } else return false;
    }
    return true;
}

typedef struct bytes {
    uint8_t *data;
    size_t size, room;
} bytes;
static void put(bytes *b, const void *p, size_t n)
{
    if (b->size + n > b->room) {
        b->room = 2 * (b->size + n) + 64;
        if (!(b->data = (uint8_t *)realloc(b->data, b->room))) exit(2);
    }
    if (n) memcpy(b->data + b->size, p, n);
    b->size += n;
}
static void put_varint(bytes *b, uint64_t v)
{
    uint8_t t[10];
    size_t n = 0;
    for (; v >= 128; v >>= 7) t[n++] = (uint8_t)(v | 128);
    t[n++] = (uint8_t)v;
    put(b, t, n);
}
TP_TEST__UNUSED static void write_message(bytes *b, const part *p)
{
    for (int i = 0; i < p->n_sub; i++) {
        const part *s = p->sub[i];
        put_varint(b, (uint64_t)s->field << 3 | (uint64_t)s->wire);
        if (s->wire == 0) put_varint(b, s->v);
        else if (s->wire == 2 && s->kind == LEAF) {
            put_varint(b, s->size);
            put(b, s->bytes, s->size);
        } else if (s->wire == 2) {
            bytes sub = {NULL, 0, 0};
            write_message(&sub, s);
            put_varint(b, sub.size);
            put(b, sub.data, sub.size);
            free(sub.data);
        } else
            for (int k = 0; k < (s->wire == 1 ? 8 : 4); k++) {
                const uint8_t byte = (uint8_t)(s->v >> (8 * k));
                put(b, &byte, 1);
            }
    }
}

#endif
