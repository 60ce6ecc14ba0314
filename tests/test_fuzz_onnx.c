/* ONNX files that are almost right: the tree of a valid file, changed, imported; what is accepted is run, differentiated,
 * written again as ONNX and as C, and read again.
 *
 *     cc -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined -I. -Itests tests/test_fuzz_onnx.c -lm -lpthread \
 *        -o build/fuzz_onnx
 *     build/fuzz_onnx                          the fixed seeds of the tests
 *     build/fuzz_onnx 10000 [first]            so many cases from this seed on; or for a time: 30m, 90s
 *     build/fuzz_onnx file.onnx ...            replays files
 *     clang -g -O1 -DFUZZ_LIBFUZZER -fsanitize=fuzzer,address,undefined -I. -Itests tests/test_fuzz_onnx.c -lm -lpthread
 *
 * A seed is the same case everywhere. It takes a model of ref_onnx.txt (all operators, with their attributes), reads it as a
 * tree by ONNX's field numbers, and drops, doubles, moves and exchanges parts, puts in parts of other models, and changes
 * numbers, dimensions, types and names. A case that fails prints its seed and writes fuzz-<seed>.onnx into the current folder.
 * A case fails when
 *   - something crashes, leaks, or a sanitizer finds something
 *   - it takes more than 20 seconds: what is accepted is run only if that is little work, by its shapes
 *   - an error has no sentence, or a sentence that does not name the file
 *   - what was exported is refused, or gives something else */
#define TP_IMPLEMENTATION
#include "tp_import.h"

#include "tp_export.h"
#include "tp_test.h"

#include "op_cases.h"

#include "onnx_text.h"
#include <fcntl.h>
#include <signal.h>

enum { MOST_PARTS = 20000, MOST_VALUES = 16 };

/* ==== >>random ======================================================================================== */

static uint64_t state;
static uint64_t draw64(void) { return state = tp_test_mix(state); }
static uint32_t draw(uint32_t n) { return n ? (uint32_t)(draw64() >> 20) % n : 0; }
static bool chance(uint32_t percent) { return draw(100) < percent; }

/* ==== >>memory: an allocator that counts, has a limit, and fails once on demand ========================= */

static size_t live, live_most;
static long n_alloc, fail_at;
#define MOST_BYTES ((size_t)256 << 20)
typedef struct block {
    size_t size;
    double align; /* what follows is aligned for everything */
} block;

static void *limited_alloc(size_t size, void *user)
{
    (void)user;
    if (++n_alloc == fail_at || size > MOST_BYTES || live > MOST_BYTES - size) return NULL;
    block *b = (block *)malloc(sizeof *b + size);
    if (!b) return NULL;
    b->size = size;
    live += size;
    live_most = live > live_most ? live : live_most;
    return b + 1;
}
static void limited_free(void *p, void *user)
{
    (void)user;
    if (!p) return;
    live -= ((block *)p - 1)->size;
    free((block *)p - 1);
}
static void *limited_realloc(void *p, size_t size, void *user)
{
    void *q = limited_alloc(size, user);
    if (!q || !p) return q;
    const size_t before = ((block *)p - 1)->size;
    memcpy(q, p, before < size ? before : size);
    limited_free(p, user);
    return q;
}

/* ==== >>tree: a protobuf message by ONNX's schema ======================================================= */

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
    uint8_t *bytes;        /* of a leaf of wire 2 */
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
static void insert(part *to, int at, part *p)
{
    part **sub = (part **)realloc(to->sub, ((size_t)to->n_sub + 1) * sizeof *sub);
    if (!sub) exit(2);
    memmove(sub + at + 1, sub + at, (size_t)(to->n_sub - at) * sizeof *sub);
    sub[at] = p;
    to->sub = sub;
    to->n_sub++;
}
static void drop(part *from, int at)
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
static part *copy(const part *p)
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
static void write_message(bytes *b, const part *p)
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

/* ==== >>seeds ========================================================================================== */

static onnx_case *seeds;
static int n_seeds;
static part **grown; /* their trees */
static part *attributes[4096];
static int n_attributes;

static void plant(void)
{
    if (seeds) return;
    seeds = read_onnx_cases(&n_seeds);
    if (!seeds || !(grown = (part **)calloc((size_t)n_seeds + 1, sizeof *grown))) exit(2);
    for (int i = 0; i < n_seeds; i++) {
        grown[i] = part_new(MODEL, 0, 2);
        if (!read_message(grown[i], seeds[i].model, seeds[i].model + seeds[i].size)) exit(2);
        for (int g = 0; g < grown[i]->n_sub; g++)
            for (int n = 0; n < grown[i]->sub[g]->n_sub && grown[i]->sub[g]->kind == GRAPH; n++)
                for (int a = 0; a < grown[i]->sub[g]->sub[n]->n_sub && grown[i]->sub[g]->sub[n]->kind == NODE; a++)
                    if (grown[i]->sub[g]->sub[n]->sub[a]->kind == ATTR && n_attributes < TP_COUNT(attributes))
                        attributes[n_attributes++] = grown[i]->sub[g]->sub[n]->sub[a];
    }
}
static void uproot(void)
{
    for (int i = 0; i < n_seeds; i++) part_free(grown[i]);
    free(grown);
    free_onnx_cases(seeds, n_seeds);
    seeds = NULL, grown = NULL, n_seeds = n_attributes = 0;
}

/* ==== >>changes ======================================================================================== */

/* All parts of a tree, each with what it lies in. */
typedef struct place {
    part *in, *p;
    int at;
} place;
static place places[MOST_PARTS];
static int n_places;
static void list_places(part *p)
{
    for (int i = 0; i < p->n_sub && n_places < MOST_PARTS; i++) {
        places[n_places].in = p, places[n_places].p = p->sub[i], places[n_places++].at = i;
        list_places(p->sub[i]);
    }
}
/* One of them, of a kind (-1: any) and field (0: any); NULL: there is none. */
static place *pick(int in_kind, int kind, int field)
{
    int seen = 0;
    place *best = NULL;
    for (int i = 0; i < n_places; i++) {
        if ((in_kind >= 0 && places[i].in->kind != in_kind) || (kind >= 0 && places[i].p->kind != kind)) continue;
        if (field && places[i].p->field != field) continue;
        if (draw((uint32_t)++seen) == 0) best = &places[i];
    }
    return best;
}
/* The tree of another seed, or a part of it of that kind. */
static const part *other(int kind)
{
    const part *p = grown[draw((uint32_t)n_seeds)];
    for (int tries = 0; tries < 30 && p && p->kind != kind; tries++) {
        if (!p->n_sub) p = grown[draw((uint32_t)n_seeds)];
        else p = p->sub[draw((uint32_t)p->n_sub)];
        if (p->kind == LEAF) p = grown[draw((uint32_t)n_seeds)];
    }
    return p && p->kind == kind ? p : NULL;
}

static uint64_t interesting(uint64_t v)
{
    static const int64_t list[] = {0,
                                   1,
                                   2,
                                   3,
                                   4,
                                   5,
                                   7,
                                   8,
                                   9,
                                   16,
                                   17,
                                   64,
                                   65,
                                   255,
                                   256,
                                   4095,
                                   4096,
                                   4097,
                                   65535,
                                   65536,
                                   1 << 20,
                                   1 << 24,
                                   INT32_MAX,
                                   INT32_MIN,
                                   -1,
                                   -2,
                                   -3,
                                   -8,
                                   -9,
                                   -65536,
                                   INT64_MAX,
                                   INT64_MIN,
                                   INT64_MAX / 2,
                                   INT64_MIN + 4711,
                                   INT64_MIN + 4712,
                                   (int64_t)1 << 32,
                                   ((int64_t)1 << 32) + 1,
                                   (int64_t)1 << 40,
                                   (int64_t)1 << 48,
                                   (int64_t)1 << 62};
    switch (draw(8)) {
    case 0: return v + 1;
    case 1: return v - 1;
    case 2: return v * 2;
    case 3: return 0u - v;
    case 4: return draw(6);
    case 5: return v ^ ((uint64_t)1 << draw(64));
    default: return (uint64_t)list[draw(TP_COUNT(list))];
    }
}

static void set_text(part *p, const char *s) { set_bytes(p, s, strlen(s)); }

/* A leaf gets another value. */
static void change_leaf(const place *at)
{
    part *p = at->p;
    if (p->wire == 0) {
        p->v = interesting(p->v);
        if ((at->in->kind == TENSOR || at->in->kind == TENSOR_TYPE) && p->field < 3 && chance(60)) p->v = draw(18);
        if (at->in->kind == DIM && chance(60)) p->v = draw(6);
    } else if (p->wire == 5) {
        static const uint32_t list[] = {0,           0x80000000u, 0x3f800000u, 0xbf800000u, 0x7f800000u,
                                        0xff800000u, 0x7fc00000u, 1,           0x7f7fffffu, 0x4f000000u};
        p->v = chance(70) ? list[draw(TP_COUNT(list))] : (uint32_t)draw64();
    } else if (p->wire == 1) p->v = draw64();
    else if (at->in->kind == NODE && p->field == 4) {
        int n = 0;
        while (tp_import_onnx_operator(n)) n++;
        set_text(p, tp_import_onnx_operator((int)draw((uint32_t)n)));
    } else if (at->in->kind == NODE || at->in->kind == VALUE || (at->in->kind == TENSOR && p->field == 8)) {
        const place *name = chance(80) ? pick(chance(50) ? NODE : VALUE, LEAF, 0) : NULL;
        if (name && name->p->wire == 2) set_bytes(p, name->p->bytes, name->p->size);
        else set_text(p, chance(50) ? "" : chance(50) ? "a/b:c d" : "x");
    } else if (p->size && chance(60)) { /* numbers of a tensor, text of an attribute */
        static const uint8_t byte[] = {0, 1, 0xff, 0x7f, 0x80, 0x3f};
        for (uint32_t k = draw(4); k < 4; k++)
            p->bytes[draw((uint32_t)p->size)] = chance(50) ? byte[draw(6)] : (uint8_t)draw64();
    } else if (p->size && chance(40)) { /* whole numbers of a list */
        const int64_t v = (int64_t)interesting(0);
        for (size_t k = (size_t)draw((uint32_t)(p->size / 8 + 1)) * 8, i = 0; i < 8 && k + i < p->size; i++)
            p->bytes[k + i] = (uint8_t)((uint64_t)v >> (8 * i));
    } else if (chance(50)) p->size -= p->size ? 1 + draw((uint32_t)p->size) : 0;
    else {
        uint8_t more[64];
        const size_t n = p->size < 48 ? p->size : 48, m = 1 + draw(16);
        if (n) memcpy(more, p->bytes, n);
        memset(more + n, (int)draw(3), m);
        set_bytes(p, more, n + m);
    }
}

/* A node more, of another model, that reads values of this one. */
static void graft(part *root)
{
    const place *graph = pick(-1, GRAPH, 0);
    const part *from = other(NODE);
    char name[24];
    if (!graph || !from) return;
    part *n = copy(from);
    for (int i = 0; i < n->n_sub; i++) {
        part *s = n->sub[i];
        if (s->kind != LEAF || s->wire != 2) continue;
        if (s->field == 1 && chance(90)) {
            const place *value = pick(chance(70) ? VALUE : NODE, LEAF, chance(70) ? 1 : 2);
            if (value && value->p->wire == 2) set_bytes(s, value->p->bytes, value->p->size);
        } else if (s->field == 2) {
            snprintf(name, sizeof name, "g%u", draw(1000));
            set_text(s, name);
        }
    }
    int last = 0;
    for (int i = 0; i < graph->p->n_sub; i++)
        if (graph->p->sub[i]->kind == NODE) last = i + 1;
    insert(graph->p, chance(80) ? last : 0, n);
    if (chance(70)) { /* its result becomes the model's */
        const place *out = pick(GRAPH, VALUE, 12);
        for (int i = 0; out && i < n->n_sub; i++)
            if (n->sub[i]->field == 2 && n->sub[i]->kind == LEAF)
                for (int k = 0; k < out->p->n_sub; k++)
                    if (out->p->sub[k]->field == 1 && out->p->sub[k]->kind == LEAF)
                        set_bytes(out->p->sub[k], n->sub[i]->bytes, n->sub[i]->size);
    }
    (void)root;
}

/* A dimension becomes another number, or nobody knows it. */
static void change_dimension(void)
{
    const place *at = pick(SHAPE, DIM, 1);
    if (!at) return;
    while (at->p->n_sub) drop(at->p, 0);
    if (chance(20)) return;
    part *v = part_new(LEAF, chance(75) ? 1 : 2, 0);
    if (v->field == 1) v->v = chance(80) ? draw(6) : interesting(3);
    else v->wire = 2, set_text(v, chance(50) ? "n" : "m");
    insert(at->p, 0, v);
}

static void change(part *root)
{
    n_places = 0;
    list_places(root);
    const place *at = pick(-1, -1, 0);
    if (!at) return;
    switch (draw(16)) {
    case 0: drop(at->in, at->at); break;
    case 1:
        if (n_parts < MOST_PARTS * 4) insert(at->in, (int)draw((uint32_t)at->in->n_sub + 1), copy(at->p));
        break;
    case 2: { /* two of a message change places */
        const int b = (int)draw((uint32_t)at->in->n_sub);
        part *t = at->in->sub[b];
        at->in->sub[b] = at->p, at->in->sub[at->at] = t;
        break;
    }
    case 3: { /* a part of another model in its place */
        const part *from = at->p->kind != LEAF ? other(at->p->kind) : NULL;
        if (!from) break;
        part *c = copy(from);
        c->field = at->p->field;
        part_free(at->p);
        at->in->sub[at->at] = c;
        break;
    }
    case 4: graft(root); break;
    case 5:
        if ((at = pick(GRAPH, NODE, 0)) != NULL && n_attributes)
            insert(at->p, (int)draw((uint32_t)at->p->n_sub + 1), copy(attributes[draw((uint32_t)n_attributes)]));
        break;
    case 6:
        if ((at = pick(NODE, ATTR, 0)) != NULL) drop(at->in, at->at);
        break;
    case 7: /* an input or output less, or left out */
        if ((at = pick(NODE, LEAF, 1 + (int)draw(2))) == NULL) break;
        if (chance(50)) drop(at->in, at->at);
        else set_text(at->p, "");
        break;
    case 8: change_dimension(); break;
    case 9:
        if ((at = pick(ATTR, LEAF, 2 + (int)draw(7))) != NULL) change_leaf(at);
        break;
    case 10: /* a list gets longer */
        if ((at = pick(ATTR, LEAF, 8)) != NULL && at->p->wire == 0) {
            part *c = copy(at->p);
            c->v = interesting(c->v);
            insert(at->in, at->at, c);
        }
        break;
    case 11:
        if ((at = pick(OPSET, LEAF, 2)) != NULL) at->p->v = 1 + draw(25);
        break;
    case 12:
        if ((at = pick(TENSOR, LEAF, chance(50) ? 9 : 1)) != NULL) change_leaf(at);
        break;
    case 13:
        if ((at = pick(NODE, LEAF, 1 + (int)draw(4))) != NULL) change_leaf(at);
        break;
    default:
        for (int tries = 0; tries < 8 && at && at->p->kind != LEAF; tries++) at = pick(-1, LEAF, 0);
        if (at && at->p->kind == LEAF) change_leaf(at);
    }
}

static bytes case_of_seed(uint64_t seed)
{
    bytes b = {NULL, 0, 0};
    state = tp_test_mix(seed);
    part *root = copy(grown[draw((uint32_t)n_seeds)]);
    for (uint32_t n = 1 + draw(chance(80) ? 3 : 12); n > 0; n--) change(root);
    write_message(&b, root);
    part_free(root);
    if (b.size && chance(3)) /* and now and then no tree any more */
        for (uint32_t n = 1 + draw(4); n > 0; n--) b.data[draw((uint32_t)b.size)] ^= (uint8_t)(1u << draw(8));
    return b;
}

/* ==== >>a case ========================================================================================= */

static char finding[1600];
static uint64_t now_seed;
static bytes now_bytes;
static const char *now_stage = "";
static struct {
    long cases, accepted, run, trained, written, reread, c;
} count;

static bool found(const char *fmt, ...) TP_PRINTF(1, 2);
static bool found(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (!finding[0]) vsnprintf(finding, sizeof finding, fmt, ap);
    va_end(ap);
    return false;
}
/* Is it a status as it should be? Errors have a sentence. */
static bool proper(tp_status st, const char *what)
{
    if (st > TP_OK && st != TP_END) return found("%s: status %d", what, (int)st);
    if (st < TP_OK && !tp_last_error()[0]) return found("%s: status %d without a sentence", what, (int)st);
    return true;
}

/* Operations that running all of a graph takes, where a dimension is not known 2. */
static double work_of(const tp_graph *g)
{
    double work = 0;
    for (int i = 0; i < tp_graph_n_operations(g); i++) {
        const tp_operation *op = tp_graph_operation(g, i);
        tp_operand x[64];
        tp_call k;
        memset(x, 0, sizeof x);
        memset(&k, 0, sizeof k);
        for (int j = 0; j < op->n_in + op->n_out; j++) {
            const tp_node *v = j < op->n_in ? op->in[j] : &op->out[j - op->n_in];
            double size = 1;
            tp_shape s = v->shape;
            for (int d = 0; d < s.ndim; d++) {
                if (s.dim[d] < 0) s.dim[d] = 2;
                size *= (double)s.dim[d];
            }
            work += size;
            if (j >= 64) continue;
            x[j].dtype = v->dtype;
            x[j].shape = s;
        }
        if (op->n_in + op->n_out > 64) continue;
        k.op = op->row, k.attrs = op->attrs, k.in = x, k.n_in = op->n_in, k.out = x + op->n_in, k.n_out = op->n_out;
        if (op->row->flops && op->n_in + op->n_out <= 64 && !op->n_var) work += op->row->flops(&k);
    }
    return work;
}

typedef struct values {
    tp_feed feed[MOST_VALUES];
    tp_node *fetch[MOST_VALUES];
    tp_tensor got[MOST_VALUES];
    int n_feed, n_fetch;
    bool ran;
} values;
static void values_free(values *v)
{
    for (int i = 0; i < v->n_feed; i++) tp_tensor_free(&v->feed[i].value);
    for (int i = 0; i < v->n_fetch; i++) tp_tensor_free(&v->got[i]);
}
/* Feeds for the inputs of a model: small numbers, the same for the same input. False: there are too many, or no memory. */
static bool feed_model(const tp_onnx_model *m, values *v)
{
    if (m->n_input > MOST_VALUES || m->n_output > MOST_VALUES) return false;
    for (int i = 0; i < m->n_input; i++) {
        tp_node *n = m->input[i].node;
        tp_shape s = n->shape;
        if (n->op->row != tp_op_find("placeholder")) continue;
        for (int d = 0; d < s.ndim; d++)
            if (s.dim[d] < 0) s.dim[d] = 2;
        v->feed[v->n_feed].node = n;
        tp_tensor *t = &v->feed[v->n_feed++].value;
        if (tp_tensor_resize(t, n->dtype, s) != TP_OK) return false;
        for (int64_t e = 0; e < tp_tensor_size(t); e++)
            tp_tensor_set(t, e, tp_dtype_is_float(t->dtype) ? (double)(e % 7) * 0.25 - 0.5 : (double)(e % 3));
    }
    for (int i = 0; i < m->n_output; i++) v->fetch[v->n_fetch++] = m->output[i].node;
    return v->n_fetch > 0;
}

static tp_graph *import(const void *data, size_t size, const char *what, bool trainable, tp_onnx_model *m)
{
    tp_import_onnx_desc d;
    tp_graph *g = tp_graph_new(NULL);
    memset(&d, 0, sizeof d);
    d.trainable = trainable ? TP_YES : TP_UNSET;
    d.max_work = 3e6;
    if (!g) return NULL;
    const tp_status st = tp_import_onnx_parse(g, data, size, what, &d, m);
    if (proper(st, what) && st != TP_OK && strncmp(tp_last_error(), what, strlen(what)) != 0 && st != TP_ERR_NOMEM)
        found("a sentence that does not name the file: %s", tp_last_error());
    if (st == TP_OK) return g;
    tp_graph_free(g);
    return NULL;
}
static tp_session *open_session(tp_graph *g)
{
    tp_session_config c = tp_default_session_config();
    c.threads = 1;
    tp_session *s = tp_session_new(g, &c);
    if (!s) proper(TP_ERR, "session");
    return s;
}
static void run(tp_session *s, values *v)
{
    const tp_tensor *out[MOST_VALUES];
    const tp_status st = tp_session_run(s, v->feed, v->n_feed, v->fetch, v->n_fetch, out);
    if (!proper(st, "run") || st != TP_OK) return;
    v->ran = true;
    for (int i = 0; i < v->n_fetch && v->ran; i++) v->ran = tp_tensor_copy(&v->got[i], out[i]) == TP_OK;
}

/* Do the two models give the same? Where sums cancel, or numbers are huge, last digits differ. */
static void compare(const values *a, const values *b)
{
    for (int i = 0; i < a->n_fetch && i < b->n_fetch; i++) {
        const tp_tensor *x = &a->got[i], *y = &b->got[i];
        char tx[TP_SHAPE_TEXT], ty[TP_SHAPE_TEXT];
        if (x->dtype != y->dtype || !tp_shape_equal(&x->shape, &y->shape)) {
            found("output %d is %s %s, written and read again %s %s", i, tp_dtype_name(x->dtype),
                  tp_shape_text(&x->shape, tx), tp_dtype_name(y->dtype), tp_shape_text(&y->shape, ty));
            return;
        }
        double most = 1;
        for (int64_t e = 0; e < tp_tensor_size(x); e++) {
            const double u = fabs(tp_tensor_get(x, e));
            if (u < 1e30 && u > most) most = u;
        }
        for (int64_t e = 0; e < tp_tensor_size(x); e++) {
            const double u = tp_tensor_get(x, e), w = tp_tensor_get(y, e);
            if (u == w || (isnan(u) && isnan(w)) || fabs(u - w) <= 1e-4 * most || most > 1e6) continue;
            found("output %d, element %lld is %.9g, written and read again %.9g", i, (long long)e, u, w);
            return;
        }
    }
}

/* Does dropout drop? It is exported as it is in inference. */
static bool drops(const tp_graph *g)
{
    for (int i = 0; i < tp_graph_n_operations(g); i++)
        if (strcmp(tp_graph_operation(g, i)->row->name, "dropout") == 0) return true;
    return false;
}

/* Written as ONNX and read again; written as C. */
static void write_again(tp_session *s, const values *v)
{
    tp_node *in[MOST_VALUES];
    tp_buf onnx, c;
    tp_onnx_model m;
    values again;
    memset(&onnx, 0, sizeof onnx);
    memset(&c, 0, sizeof c);
    memset(&again, 0, sizeof again);
    for (int i = 0; i < v->n_feed; i++) in[i] = v->feed[i].node;
    now_stage = "C export";
    tp_export_c_desc cd;
    memset(&cd, 0, sizeof cd);
    cd.batch = 2;
    tp_status st = tp_export_c_text(s, in, v->n_feed, v->fetch, v->n_fetch, &c, &cd, NULL);
    if (proper(st, "C export") && st == TP_OK) count.c++;
    tp_buf_free(&c);
    now_stage = "ONNX export";
    tp_export_onnx_desc od;
    memset(&od, 0, sizeof od);
    od.fold = now_seed % 2 != 0;
    st = tp_export_onnx_buf(s, in, v->n_feed, v->fetch, v->n_fetch, &onnx, &od);
    if (proper(st, "ONNX export") && st == TP_OK) {
        count.written++;
        now_stage = "import of what was exported";
        tp_graph *g = import(onnx.data, onnx.len, "again.onnx", false, &m);
        if (!g && fail_at == 0 && !strstr(tp_last_error(), ".dims") &&
            !strstr(tp_last_error(), "too many operations") && !strstr(tp_last_error(), "out of memory"))
            found("what was exported is refused: %s", tp_last_error());
        if (g && work_of(g) < 1e6 && feed_model(&m, &again)) {
            tp_session *t = open_session(g);
            now_stage = "run of what was exported";
            if (t) run(t, &again);
            if (t && again.ran && v->ran && again.n_feed == v->n_feed && !drops(tp_session_graph(s))) {
                compare(v, &again);
                count.reread++;
            }
            tp_session_free(t);
        }
        values_free(&again);
        tp_graph_free(g);
    }
    tp_buf_free(&onnx);
}

/* The gradient of the mean of the first real output by all that it may depend on. */
static void train(const void *data, size_t size)
{
    tp_onnx_model m;
    values v;
    tp_node *x[2 * MOST_VALUES], *dx[2 * MOST_VALUES], *cost = NULL;
    int n = 0, k = 0;
    memset(&v, 0, sizeof v);
    now_stage = "import to train";
    tp_graph *g = import(data, size, "fuzz.onnx", true, &m);
    if (!g) return;
    for (int i = 0; i < m.n_output && !cost; i++)
        if (tp_dtype_is_float(m.output[i].node->dtype)) cost = tp_mean(m.output[i].node);
    for (int i = 0; i < m.n_input && n < MOST_VALUES; i++)
        if (tp_dtype_is_float(m.input[i].node->dtype)) x[n++] = m.input[i].node;
    for (int i = 0; i < tp_graph_n_variables(g) && n < 2 * MOST_VALUES; i++) x[n++] = tp_graph_variable(g, i)->node;
    if (cost && n && feed_model(&m, &v)) {
        now_stage = "gradients";
        tp_gradients(cost, x, n, dx);
        for (int i = 0; i < n && tp_graph_status(g) == TP_OK && k < MOST_VALUES; i++)
            if (dx[i]) v.fetch[k++] = dx[i];
        v.n_fetch = k;
        proper(tp_graph_status(g), "gradients");
        if (k && tp_graph_status(g) == TP_OK && work_of(g) < 2e6) {
            tp_session *s = open_session(g);
            now_stage = "run of gradients";
            if (s) run(s, &v);
            count.trained += v.ran;
            tp_session_free(s);
        }
    }
    values_free(&v);
    tp_graph_free(g);
}

static bool examine(const void *data, size_t size)
{
    tp_onnx_model m;
    values v;
    const size_t before = live;
    memset(&v, 0, sizeof v);
    finding[0] = 0;
    n_alloc = 0;
    count.cases++;
    now_stage = "import";
    tp_graph *g = import(data, size, "fuzz.onnx", false, &m);
    if (g) {
        count.accepted++;
        const bool little = work_of(g) < 1e6 && feed_model(&m, &v);
        tp_session *s = little ? open_session(g) : NULL;
        now_stage = "run";
        if (s) run(s, &v);
        count.run += v.ran;
        if (s) write_again(s, &v);
        tp_session_free(s);
        tp_graph_free(g);
        values_free(&v);
        if (little) train(data, size);
    }
    if (live != before) found("%lld bytes are leaked", (long long)live - (long long)before);
    return !finding[0];
}

/* ==== >>failures ======================================================================================= */

static void write_case(void)
{
    char name[64];
    snprintf(name, sizeof name, "fuzz-%llu.onnx", (unsigned long long)now_seed);
    const int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0) return;
    if (write(fd, now_bytes.data, now_bytes.size) != (ssize_t)now_bytes.size) fprintf(stderr, "%s is cut\n", name);
    close(fd);
    fprintf(stderr, "seed %llu, at %s: written to %s\n", (unsigned long long)now_seed, now_stage, name);
}
static void died(void) { write_case(); }
extern void __ubsan_on_report(
    void); /* called by the undefined behaviour sanitizer, which ends otherwise than the others */
extern void __ubsan_on_report(void) { write_case(); }
static void on_signal(int sig)
{
    if (sig == SIGALRM) fprintf(stderr, "it takes more than 20 seconds\n");
    write_case();
    signal(sig, SIG_DFL);
    if (sig == SIGALRM) abort();
    raise(sig);
}
#if defined(__GNUC__) && !defined(__APPLE__)
extern void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));
#else
static void (*__sanitizer_set_death_callback)(void (*callback)(void));
#endif

static void begin(void)
{
    static const tp_allocator limited = {limited_alloc, limited_realloc, limited_free, NULL};
    tp_set_log(tp_test_drop_log, NULL);
    tp_set_allocator(&limited);
    if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(died);
    else signal(SIGSEGV, on_signal), signal(SIGFPE, on_signal);
    signal(SIGALRM, on_signal);
}
static void end(void)
{
    alarm(0);
    signal(SIGALRM, SIG_DFL);
    tp_set_allocator(NULL);
    tp_set_log(NULL, NULL);
}

/* One seed, every eighth with an allocation that fails. */
static bool try_seed(uint64_t seed)
{
    now_seed = seed;
    now_bytes = case_of_seed(seed);
    fail_at = seed % 8 == 7 ? 1 + (long)draw(chance(50) ? 40 : 600) : 0;
    alarm(20);
    const bool good = examine(now_bytes.data, now_bytes.size);
    if (!good) {
        write_case();
        printf("seed %llu: %s\n", (unsigned long long)seed, finding);
        fflush(stdout);
    }
    free(now_bytes.data);
    now_bytes.data = NULL;
    return good;
}

#ifdef FUZZ_LIBFUZZER
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    begin();
    if (examine(data, size)) return 0;
    fprintf(stderr, "%s\n", finding);
    abort();
}
#else
static void tell(void)
{
    printf("  %ld cases: %ld accepted, %ld run, %ld differentiated, %ld written as ONNX, %ld read again with the same "
           "values, "
           "%ld as C\n",
           count.cases, count.accepted, count.run, count.trained, count.written, count.reread, count.c);
}

TEST(models_that_are_almost_right_do_no_harm)
{
    const int n = getenv("TP_TEST_QUICK") ? 1500 : 4000;
    plant();
    begin();
    for (int seed = 1; seed <= n; seed++) CHECK_MSG(try_seed((uint64_t)seed), "seed %d: %s", seed, finding);
    end();
    tell();
    CHECK(count.accepted > n / 5 && count.run > n / 6 && count.trained > n / 20 && count.reread > n / 20 &&
          count.c > n / 100);
    uproot();
}

/* The seeds themselves, unchanged. */
TEST(models_that_are_right_are_written_and_read_again)
{
    plant();
    begin();
    const long before = count.reread;
    for (int i = 0; i < n_seeds; i++) {
        now_seed = (uint64_t)i;
        fail_at = 0;
        alarm(20);
        CHECK_MSG(examine(seeds[i].model, seeds[i].size), "%s: %s", seeds[i].name, finding);
    }
    end();
    CHECK_MSG(count.reread - before > n_seeds / 3, "only %ld of %d", count.reread - before, n_seeds);
    uproot();
}

static int replay(const char *path)
{
    char *data = NULL;
    size_t size = 0;
    if (tp_file_read(path, false, 0, &data, &size) != TP_OK) return puts(tp_last_error()), 1;
    put(&now_bytes, data, size);
    tp_free(data);
    begin();
    const bool good = examine(now_bytes.data, now_bytes.size);
    end();
    printf("%s: %s\n", path, good ? "no finding" : finding);
    free(now_bytes.data);
    memset(&now_bytes, 0, sizeof now_bytes);
    return !good;
}

int main(int argc, char **argv)
{
    const char last = argc > 1 && argv[1][0] ? argv[1][strlen(argv[1]) - 1] : 0;
    int bad = 0;
    if (argc > 1 && strstr(argv[1], ".onnx")) {
        for (int i = 1; i < argc; i++) bad += replay(argv[i]);
        return bad != 0;
    }
    if (argc < 2 || argv[1][0] < '0' || argv[1][0] > '9') return tp_test__main(argc, argv);
    const uint64_t n = strtoull(argv[1], NULL, 10), first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    const double until = last == 'm' || last == 's' ? tp_test__ms() + (double)n * (last == 'm' ? 60e3 : 1e3) : 0;
    plant();
    begin();
    for (uint64_t s = first; (until > 0 ? tp_test__ms() < until : s < first + n) && bad < 12; s++) bad += !try_seed(s);
    end();
    tell();
    uproot();
    return bad != 0;
}
#endif
