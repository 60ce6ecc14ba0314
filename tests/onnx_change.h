/* onnx_change.h - the models of ref_onnx.txt, as trees, and random changes of them: a seed is the same case everywhere.
 * Include tp_import.h, tp_test.h, op_cases.h, onnx_text.h and onnx_tree.h before. */
#ifndef ONNX_CHANGE_H
#define ONNX_CHANGE_H

/* ==== >>random ======================================================================================== */

static uint64_t state;
static uint64_t draw64(void) { return state = tp_test_mix(state); }
static uint32_t draw(uint32_t n) { return n ? (uint32_t)(draw64() >> 20) % n : 0; }
static bool chance(uint32_t percent) { return draw(100) < percent; }

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
/* A random part of this kind from one of the valid models, or a whole model; NULL if several tries found no such part. */
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
        for (uint32_t k = draw(4); k < 4; k++) {
            uint8_t *to = &p->bytes[draw((uint32_t)p->size)];
            *to = chance(50) ? byte[draw(6)] : (uint8_t)draw64();
        }
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
            const int kind = chance(70) ? VALUE : NODE;
            const place *value = pick(kind, LEAF, chance(70) ? 1 : 2);
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
    if (chance(70)) { /* the new node's output becomes an output of the model */
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
        if ((at = pick(GRAPH, NODE, 0)) != NULL && n_attributes) {
            const int to = (int)draw((uint32_t)at->p->n_sub + 1);
            insert(at->p, to, copy(attributes[draw((uint32_t)n_attributes)]));
        }
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
        for (uint32_t n = 1 + draw(4); n > 0; n--) {
            uint8_t *to = &b.data[draw((uint32_t)b.size)];
            *to ^= (uint8_t)(1u << draw(8));
        }
    return b;
}

#endif
