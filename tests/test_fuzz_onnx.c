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

#include "onnx_tree.h"

#include "onnx_change.h"
#include <fcntl.h>
#include <signal.h>

enum { MOST_VALUES = 16 };

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
