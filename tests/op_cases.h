/* The cases of ref_ops_math.txt and ref_ops_nn.txt, read: what test_ops.c compares, and what other tests take as examples of
 * every row. ref_common.py says how they are written. Include tp_graph.h and tp_test.h before. */
#ifndef OP_CASES_H
#define OP_CASES_H

/* ==== >>cases ========================================================================================= */

#define MAX_VALUES 24
#define MAX_ATTRS  16

typedef struct op_case {
    const char *file;
    int line;
    char op[64], nograd[96], nograd2[96];
    double tol;
    int n_in, n_out, n_var, n_attr;
    char attr[MAX_ATTRS][256]; /* "name value..." */
    tp_tensor in[MAX_VALUES], out[MAX_VALUES], var[MAX_VALUES], newvar[MAX_VALUES];
} op_case;

typedef struct case_list {
    op_case *item;
    int n;
} case_list;

static tp_dtype dtype_of(const char *name)
{
    for (int d = 1; d < (int)TP_DTYPE_COUNT; d++)
        if (strcmp(tp_dtype_name((tp_dtype)d), name) == 0) return (tp_dtype)d;
    return TP_DTYPE_UNSET;
}

/* "float32 2 3 4 <12 values>" or "... rand -1 1"; false if the line is not so. */
static bool parse_tensor(char *p, tp_tensor *t, uint64_t key)
{
    char name[32];
    int used = 0, ndim = 0;
    int64_t dim[TP_MAX_DIMS];
    if (sscanf(p, "%31s %d%n", name, &ndim, &used) != 2 || ndim < 0 || ndim > TP_MAX_DIMS) return false;
    const tp_dtype dtype = dtype_of(name);
    p += used;
    for (int d = 0; d < ndim; d++) dim[d] = strtoll(p, &p, 10);
    if (dtype == TP_DTYPE_UNSET || tp_tensor_resize(t, dtype, tp_make_shape_n(ndim, dim)) != TP_OK) return false;
    const int64_t n = tp_tensor_size(t);
    while (*p == ' ') p++;
    if (strncmp(p, "rand", 4) == 0) {
        const char *first = p + 4, *second, *behind;
        const double low = tp_parse_double(first, &second), high = tp_parse_double(second, &behind);
        if (second == first || behind == second) return false;
        for (int64_t i = 0; i < n; i++) {
            const double u = (double)tp_random_uniform(key, 0, (uint64_t)i);
            const double v = tp_dtype_is_float(dtype) ? low + (high - low) * u : floor(low + (high - low + 1) * u);
            if (dtype == TP_F32) ((float *)t->data)[i] = (float)v; /* most are */
            else tp_tensor_set(t, i, v);
        }
        return true;
    }
    for (int64_t i = 0; i < n; i++) {
        char *end = p;
        if (dtype == TP_I64) ((int64_t *)t->data)[i] = strtoll(p, &end, 10); /* a double does not hold all of them */
        else {
            const char *behind;
            tp_tensor_set(t, i, tp_parse_double(p, &behind)); /* in no locale */
            end = p + (behind - p);
        }
        if (end == p) return false;
        p = end;
    }
    return true;
}

TP_TEST__UNUSED static void free_cases(case_list *l)
{
    for (int i = 0; i < l->n; i++) {
        op_case *c = &l->item[i];
        for (int k = 0; k < MAX_VALUES; k++) {
            tp_tensor_free(&c->in[k]);
            tp_tensor_free(&c->out[k]);
            tp_tensor_free(&c->var[k]);
            tp_tensor_free(&c->newvar[k]);
        }
    }
    free(l->item);
    memset(l, 0, sizeof *l);
}

/* Append the cases of one file, which lies beside this one; a missing file is reported by the caller. */
TP_TEST__UNUSED static bool read_cases(case_list *l, const char *name)
{
    char path[1024];
    const char *slash = strrchr(__FILE__, '/');
    snprintf(path, sizeof path, "%.*s%s", slash ? (int)(slash - __FILE__) + 1 : 0, __FILE__, name);
    char *text = NULL;
    size_t size = 0;
    if (!tp_file_exists(path)) snprintf(path, sizeof path, "tests/%s", name);
    if (!tp_file_exists(path)) return false;
    if (!CHECK_OK(tp_file_read(path, false, 0, &text, &size))) return false;
    op_case *c = NULL;
    int line = 0, n_in = 0, n_out = 0, n_var = 0, n_newvar = 0;
    for (char *p = text; *p;) {
        char *next = strchr(p, '\n');
        if (next) *next++ = 0;
        else next = p + strlen(p);
        line++;
        bool ok = true;
        char *space = strchr(p, ' ');
        char *rest = space ? space + 1 : p + strlen(p);
        const uint64_t key = tp_random_key((uint64_t)line, tp_hash_name(name));
        if (strncmp(p, "case ", 5) == 0) {
            if ((l->n & (l->n - 1)) == 0) { /* full at 0, 1, 2, 4, 8...: room for as many again */
                op_case *bigger = (op_case *)realloc(l->item, (size_t)(l->n ? 2 * l->n : 1) * sizeof *bigger);
                if (!CHECK(bigger != NULL)) break;
                l->item = bigger;
            }
            c = &l->item[l->n++];
            memset(c, 0, sizeof *c);
            c->file = name;
            c->line = line;
            n_in = n_out = n_var = n_newvar = 0;
            ok = sscanf(rest, "%63s %d %d", c->op, &c->n_in, &c->n_out) == 3 && c->n_in <= MAX_VALUES &&
                 c->n_out <= MAX_VALUES;
        } else if (!c || *p == 0 || *p == '#') {
            ok = *p == 0 || *p == '#';
        } else if (strncmp(p, "tol ", 4) == 0) {
            c->tol = tp_parse_double(rest, NULL);
        } else if (strncmp(p, "nograd2 ", 8) == 0) {
            snprintf(c->nograd2, sizeof c->nograd2, "%.90s", rest);
        } else if (strncmp(p, "nograd ", 7) == 0) {
            snprintf(c->nograd, sizeof c->nograd, "%.90s", rest);
        } else if (strncmp(p, "attr ", 5) == 0) {
            ok = c->n_attr < MAX_ATTRS && strlen(rest) < sizeof c->attr[0];
            if (ok) snprintf(c->attr[c->n_attr++], sizeof c->attr[0], "%.250s", rest);
        } else if (strncmp(p, "in ", 3) == 0) {
            ok = n_in < c->n_in && parse_tensor(rest, &c->in[n_in++], key);
        } else if (strncmp(p, "out ", 4) == 0) {
            ok = n_out < c->n_out && (strcmp(rest, "skip") == 0 || parse_tensor(rest, &c->out[n_out], key));
            n_out++;
        } else if (strncmp(p, "var ", 4) == 0) {
            ok = n_var < MAX_VALUES && parse_tensor(rest, &c->var[n_var++], key);
            c->n_var = n_var;
        } else if (strncmp(p, "newvar ", 7) == 0) {
            ok = n_newvar < c->n_var && parse_tensor(rest, &c->newvar[n_newvar++], key);
        } else {
            ok = false;
        }
        if (!CHECK_MSG(ok, "%s:%d: this line is no part of a case: %.60s", name, line, p)) break;
        p = next;
    }
    tp_free(text);
    return true;
}

TP_TEST__UNUSED static case_list all_cases(void)
{
    case_list l;
    memset(&l, 0, sizeof l);
    CHECK_MSG(read_cases(&l, "ref_ops_math.txt"), "tests/ref_ops_math.txt is missing");
    read_cases(&l, "ref_ops_nn.txt");
    return l;
}

/* Fill the row's attribute struct from the case's lines. In double a cast's float32 is float64. */
TP_TEST__UNUSED static bool fill_attrs(const op_case *c, const tp_op *row, bool f64, void *attrs)
{
    for (int i = 0; i < c->n_attr; i++) {
        char name[64];
        int used = 0;
        if (sscanf(c->attr[i], "%63s %n", name, &used) < 1) return false;
        const char *v = c->attr[i] + used;
        char *p = (char *)(uintptr_t)v;
        const tp_attr *a = row->attr;
        while (a && a->name && strcmp(a->name, name) != 0) a++;
        if (!a || !a->name) return CHECK_MSG(false, "%s:%d: %s has no attribute '%s'", c->file, c->line, c->op, name);
        void *to = (char *)attrs + a->offset;
        switch (a->kind) {
        case TP_ATTR_INT: *(int *)to = (int)strtol(v, NULL, 10); break;
        case TP_ATTR_BOOL: *(bool *)to = strtol(v, NULL, 10) != 0; break;
        case TP_ATTR_FLOAT: *(float *)to = tp_parse_float(v, NULL); break;
        case TP_ATTR_U64: *(uint64_t *)to = strtoull(v, NULL, 10); break;
        case TP_ATTR_STRING: *(const char **)to = v; break;
        case TP_ATTR_DTYPE: {
            const tp_dtype d = dtype_of(v);
            *(tp_dtype *)to = f64 && d == TP_F32 ? TP_F64 : d;
            break;
        }
        case TP_ATTR_INTS8:
            for (int k = 0; k < 8 && *p; k++) ((int *)to)[k] = (int)strtol(p, &p, 10);
            break;
        case TP_ATTR_I64S8:
            for (int k = 0; k < 8 && *p; k++) ((int64_t *)to)[k] = strtoll(p, &p, 10);
            break;
        case TP_ATTR_SHAPE: {
            tp_shape *s = (tp_shape *)to;
            s->ndim = (int)strtol(p, &p, 10);
            for (int k = 0; k < s->ndim && k < TP_MAX_DIMS; k++) s->dim[k] = strtoll(p, &p, 10);
            break;
        }
        default: return false;
        }
    }
    return true;
}

#endif
