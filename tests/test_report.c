/* The report page: it is whole and asks for nothing, its numbers are those of stats.json, its histograms and images those of the
 * tensors, a resumed training is one, and neither kills, a full disk nor missing memory leave half a page or end the training.
 * What the page draws from its data is asked by tests/report_page.js, in node. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include "tp_layers.h"
#include "tp_test.h"
#include "golden.h"
#include "inject.h"

enum { STEPS = 6, WIDTH = 6, CLASSES = 3 };

/* ==== >>json: a reader that takes valid JSON and nothing else ========================================= */

typedef struct value {
    char kind;  /* one of {["0tfn */
    char *text; /* of a string, in UTF-8 */
    double number;
    struct value **item;
    char **key;
    int n;
} value;

static tp_arena json_memory;
static const char *json_at, *json_end;
static bool json_bad;

static value *json_value(void);

static void json_space(void)
{
    while (json_at < json_end && strchr(" \t\r\n", *json_at) && *json_at) json_at++;
}

static bool json_eat(char c)
{
    json_space();
    if (json_at >= json_end || *json_at != c) return false;
    json_at++;
    return true;
}

static char *json_string(void)
{
    const char *end = json_at;
    while (end < json_end && *end != '"') end += *end == '\\' ? 2 : 1;
    char *text = (char *)tp_arena_alloc(&json_memory, (size_t)(end - json_at) * 2 + 1), *to = text;
    for (; json_at < end; json_at++) {
        static const char escapes[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
        const unsigned char c = (unsigned char)*json_at;
        if (c < 32) json_bad = true;
        if (c != '\\') {
            *to++ = (char)c;
            continue;
        }
        json_at++;
        if (*json_at == 'u') {
            char digits[5] = {0};
            memcpy(digits, json_at + 1, 4);
            const long code = strtol(digits, NULL, 16);
            json_bad = json_bad || code <= 0 || code > 127; /* what is above that stands there as it is */
            *to++ = (char)code;
            json_at += 4;
        } else {
            const char *e = strchr(escapes, *json_at);
            json_bad = json_bad || !e;
            *to++ = e ? e[1] : '?';
        }
    }
    *to = 0;
    if (json_at++ >= json_end) json_bad = true;
    return text;
}

static void json_add(value *v, char *key, value *item)
{
    if ((v->n & (v->n + 1)) == 0) { /* the arrays grow when they hold 2^k - 1 */
        value **items = (value **)tp_arena_alloc(&json_memory, (size_t)(2 * v->n + 2) * sizeof *items);
        char **keys = (char **)tp_arena_alloc(&json_memory, (size_t)(2 * v->n + 2) * sizeof *keys);
        for (int i = 0; i < v->n; i++) items[i] = v->item[i], keys[i] = v->key[i];
        v->item = items;
        v->key = keys;
    }
    v->key[v->n] = key;
    v->item[v->n++] = item;
}

static value *json_list(char close)
{
    value *v = (value *)tp_arena_alloc(&json_memory, sizeof *v);
    v->kind = close == '}' ? '{' : '[';
    if (json_eat(close)) return v;
    do {
        char *key = NULL;
        if (close == '}') {
            if (!json_eat('"')) json_bad = true;
            if (json_bad) return v;
            key = json_string();
            if (!json_eat(':')) json_bad = true;
        }
        json_add(v, key, json_value());
    } while (!json_bad && json_eat(','));
    if (!json_eat(close)) json_bad = true;
    return v;
}

static value *json_value(void)
{
    json_space();
    if (json_eat('{')) return json_list('}');
    if (json_eat('[')) return json_list(']');
    value *v = (value *)tp_arena_alloc(&json_memory, sizeof *v);
    if (json_eat('"')) {
        v->kind = '"';
        v->text = json_string();
        return v;
    }
    static const char *const words[] = {"true", "false", "null"};
    for (int i = 0; i < 3; i++)
        if ((size_t)(json_end - json_at) >= strlen(words[i]) && memcmp(json_at, words[i], strlen(words[i])) == 0) {
            v->kind = words[i][0];
            json_at += strlen(words[i]);
            return v;
        }
    char *end = NULL;
    v->kind = '0';
    v->number = json_at < json_end && strchr("-0123456789", *json_at) ? strtod(json_at, &end) : 0;
    if (!end || end == json_at) json_bad = true;
    else json_at = end;
    return v;
}

static value nothing = {'n', NULL, 0, NULL, NULL, 0};
static value *get(const value *v, const char *key)
{
    for (int i = 0; v->kind == '{' && i < v->n; i++)
        if (strcmp(v->key[i], key) == 0) return v->item[i];
    return &nothing;
}

/* ==== >>page: the file, and the data in it ============================================================ */

typedef struct page {
    char *text;
    size_t size, bare; /* bare: without data */
    value *data;
    const char *json; /* it, as it stands there */
    size_t json_size;
} page;

static void page_free(page *p)
{
    tp_free(p->text);
    memset(p, 0, sizeof *p);
}

/* false: it is not a whole page. */
static bool page_read(page *p, const char *dir)
{
    static const char mark[] = "<script type=\"application/json\" id=\"data\">\n";
    char path[700];
    snprintf(path, sizeof path, "%s/report.html", dir);
    memset(p, 0, sizeof *p);
    if (tp_file_read(path, false, 0, &p->text, &p->size) != TP_OK) return false;
    char *begin = strstr(p->text, mark);
    char *end = begin ? strstr(begin, "\n</script>\n") : NULL;
    const bool whole = end && strncmp(p->text, "<!DOCTYPE html>\n", 16) == 0 && p->size > 8 &&
                       strcmp(p->text + p->size - 8, "</html>\n") == 0 && strlen(p->text) == p->size;
    if (!whole) return false;
    begin += sizeof mark - 1;
    p->json = begin;
    p->json_size = (size_t)(end - begin);
    p->bare = p->size - p->json_size;
    json_at = begin;
    json_end = end;
    json_bad = false;
    p->data = json_value();
    json_space();
    return !json_bad && json_at == json_end && !memchr(begin, '<', p->json_size);
}

/* The value in a row of the page's tables; "": there is no such row. */
static const char *row_of(const page *p, const char *title, const char *name)
{
    const value *tables = get(p->data, "setup");
    for (int i = 0; i < tables->n; i++) {
        const value *rows = get(tables->item[i], "rows");
        if (strcmp(get(tables->item[i], "title")->text, title) != 0) continue;
        for (int k = 0; k < rows->n; k++)
            if (strcmp(rows->item[k]->item[0]->text, name) == 0) return rows->item[k]->item[1]->text;
    }
    return "";
}

static unsigned char *unbase64(const char *text, size_t *n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t length = strlen(text);
    unsigned char *out = (unsigned char *)tp_arena_alloc(&json_memory, length + 1);
    unsigned bits = 0;
    int have = 0;
    *n = 0;
    CHECK(length % 4 == 0);
    for (size_t i = 0; i < length && text[i] != '='; i++) {
        const char *d = strchr(digits, text[i]);
        if (!CHECK(d != NULL)) return out;
        bits = bits << 6 | (unsigned)(d - digits);
        have += 6;
        if (have >= 8) out[(*n)++] = (unsigned char)(bits >> (have -= 8));
    }
    return out;
}

typedef struct curve {
    int n;
    int64_t step[20000];
    double value[20000];
} curve;

static uint64_t little(const unsigned char *p, int size)
{
    uint64_t v = 0;
    for (int i = size; i-- > 0;) v = v << 8 | p[i];
    return v;
}

/* A curve of a run, decoded; n is -1 if there is none. */
static void curve_of(curve *c, const value *run, const char *name)
{
    const value *scalars = get(run, "scalars"), *s = &nothing, *like;
    size_t n = 0, m = 0;
    c->n = -1;
    for (int i = 0; i < scalars->n; i++)
        if (strcmp(get(scalars->item[i], "name")->text, name) == 0) s = scalars->item[i];
    if (s->kind != '{') return;
    for (like = s; get(like, "steps")->kind == '0';) like = scalars->item[(int)get(like, "steps")->number];
    const int size = get(s, "wide")->kind == 't' ? 8 : 4;
    const unsigned char *steps = unbase64(get(like, "steps")->text, &n), *values = unbase64(get(s, "values")->text, &m);
    if (!CHECK_MSG(n / (size_t)size == m / 8 && m % 8 == 0 && m / 8 <= 20000, "%zu and %zu bytes", n, m)) return;
    c->n = (int)(m / 8);
    for (int i = 0; i < c->n; i++) {
        const uint64_t bits = little(values + 8 * i, 8);
        c->step[i] = (int64_t)little(steps + size * i, size);
        memcpy(&c->value[i], &bits, sizeof bits);
    }
}

static bool same_bits(double a, double b) { return memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b); }

/* Each number of stats.json is in the page, and nothing else. */
static void check_curves(const page *p, const char *dir)
{
    static curve c;
    tp_stat_entry *e = NULL;
    int n = 0, found = 0, points = 0;
    const value *run = get(p->data, "runs")->item[0];
    CHECK_OK(tp_load_existing_stats(dir, &e, &n));
    for (int k = 0; k < get(run, "scalars")->n; k++) {
        const char *name = get(get(run, "scalars")->item[k], "name")->text;
        curve_of(&c, run, name);
        int at = 0;
        for (int i = 0; i < n; i++) {
            if (strcmp(e[i].name, name) != 0) continue;
            CHECK_MSG(at < c.n && c.step[at] == e[i].global_step && same_bits(c.value[at], e[i].value),
                      "%s: number %d is %g at step %lld", name, at, e[i].value, (long long)e[i].global_step);
            at++;
            found++;
        }
        CHECK_MSG(at == c.n, "%s: %d numbers, stats.json has %d", name, c.n, at);
        points += c.n;
    }
    CHECK_MSG(found == n && points == n, "%d of %d", found, n);
    tp_free(e);
}

/* ==== >>training ====================================================================================== */

static const char odd[] = "odd/\"quotes\" </script><b> & \xc3\xa4\xe2\x82\xac \\ name";
static char said[65536];
static void sink(void *user, tp_log_level level, const char *message)
{
    (void)user, (void)level;
    const size_t at = strlen(said);
    snprintf(said + at, sizeof said - at, "%s\n", message);
}

static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    tp_node *h = tp_fully_connected(in[0], "fc0", .units = 8, .activation = tp_relu);
    /* an operation of the model that no data go through */
    tp_node *scale = tp_named(tp_exp(tp_const(g, 0)), "scale");
    tp_node *logits = tp_mul(tp_fully_connected(h, "fc1", .units = CLASSES), scale);
    tp_node *cost = tp_named(tp_mean(tp_sparse_softmax_cross_entropy(logits, in[1])), "cost");
    tp_add_param_summary(g, ".*/W", TP_SUMMARY_HISTOGRAM);
    tp_add_moving_summary(cost);
    return cost;
}

static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_sgd(tp_get_scalar_variable(g, "learning_rate", 0.125f));
}

static tp_status point(void *user, int64_t pass, int64_t i, tp_datapoint *dp)
{
    (void)user;
    tp_status st = tp_datapoint_resize(dp, 2);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_F32, tp_make_shape(WIDTH));
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[1], TP_I32, tp_make_shape_n(0, NULL));
    if (st != TP_OK) return st;
    for (int k = 0; k < WIDTH; k++) ((float *)dp->c[0].data)[k] = (float)((pass * 7 + i * 5 + k * 3) % 11) / 11;
    *(int32_t *)dp->c[1].data = (int32_t)((i + pass) % CLASSES);
    return TP_OK;
}

static int64_t stop_at, fail_at; /* global steps; 0: never */
static int log_lines;            /* the log has so many lines more */
static tp_status each_step(tp_callback *cb)
{
    tp_monitors *m = cb->train->monitors;
    const int64_t s = cb->train->global_step;
    unsigned char pixel[2 * 3 * 3];
    char path[700];
    tp_tensor image;
    snprintf(path, sizeof path, "%s/log.log", tp_logger_dir());
    FILE *log = s == 1 ? fopen(path, "a") : NULL; /* the sink of these tests writes no file */
    if (log) {
        fprintf(log, "first\na \"line\" of the log </script>\n");
        for (int i = 1; i <= log_lines; i++) fprintf(log, "line %d of a long log\n", i);
        fclose(log);
    }
    tp_status st = tp_monitors_put_scalar(m, odd,
                                          s % 4 == 0   ? (double)NAN
                                          : s % 5 == 0 ? -(double)INFINITY
                                                       : 1.0 / (double)s);
    if (st == TP_OK) st = tp_monitors_put_int(m, "a whole number", s * 1000003);
    if (s % 3 == 0 && st == TP_OK) {
        const int64_t dim[4] = {1, 2, 3, 3};
        memset(&image, 0, sizeof image);
        for (int i = 0; i < 18; i++) pixel[i] = (unsigned char)(s * 16 + i);
        tp_tensor_view(&image, TP_U8, tp_make_shape_n(4, dim), pixel);
        st = tp_monitors_put_image(m, "picture", &image);
    }
    if (st == TP_OK && s == stop_at) return tp_stop(cb->train, "enough of <it>");
    return st == TP_OK && s == fail_at ? tp_fail(TP_ERR_ARG, "this one fails") : st;
}

typedef struct setting {
    const char *dir;
    int epochs, steps;
    bool resume, saver, alone; /* alone: the report is the only monitor */
    tp_tri report;
    double every;
    const char *other;
    int towers; /* 0: a SimpleTrainer */
} setting;

static tp_status train(const setting *s)
{
    static const tp_spec inputs[] = {TP_SPEC("x", TP_F32, TP_ANY, WIDTH), TP_SPEC("y", TP_I32, TP_ANY)};
    tp_train_config c;
    tp_callback *cb[2];
    tp_monitor *m[2];
    said[0] = 0;
    tp_set_log(sink, NULL);
    tp_status st = tp_logger_set_dir(s->dir, s->resume ? 'k' : 'd');
    if (st != TP_OK) return st;
    memset(&c, 0, sizeof c);
    c.model.inputs = inputs;
    c.model.n_inputs = 2;
    c.model.build_graph = build_graph;
    c.model.optimizer = optimizer;
    c.dataflow = tp_df_batch(tp_df_from_generator(point, .size = 64, .indexed = TP_YES), 4);
    c.callbacks = cb;
    cb[c.n_callbacks++] = tp_callback_new("EachStep", 0);
    cb[0]->trigger_step = each_step;
    if (s->saver) cb[c.n_callbacks++] = tp_cb_model_saver();
    if (s->every > 0 || s->alone || s->other) {
        tp_monitor_report_desc d;
        memset(&d, 0, sizeof d);
        d.every_secs = s->every;
        d.runs[0] = s->other;
        c.monitors = m;
        if (!s->alone) m[c.n_monitors++] = tp_monitor_json_writer();
        m[c.n_monitors++] = tp_monitor_report_(&d);
    }
    c.steps_per_epoch = s->steps ? s->steps : STEPS;
    c.max_epoch = s->epochs;
    c.auto_resume = s->resume ? TP_YES : TP_NO;
    c.report = s->report;
    tp_device *device[2] = {NULL, NULL};
    tp_session_config session = tp_default_session_config();
    if (s->towers) {
        CHECK_OK(tp_cpu_devices_new(2, 1, NULL, device));
        session.devices = device;
        session.n_devices = 2;
        c.session_config = &session;
    }
    st = tp_launch_train_with_config(&c, s->towers ? tp_sync_multi_gpu_trainer_replicated(.n_devices = 2)
                                                   : tp_simple_trainer());
    for (int i = 0; i < 2 && s->towers; i++) device[i]->close(device[i]);
    tp_set_log(NULL, NULL);
    return st;
}

static char *in_folder(const char *name)
{
    static char path[4][600];
    static int k;
    k = (k + 1) % 4;
    snprintf(path[k], sizeof path[k], "%s/%s", tp_test_tmpdir(), name);
    return path[k];
}
static bool exists(const char *dir, const char *name)
{
    char path[700];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return tp_file_exists(path);
}

static bool there_is_node(void) { return system("node --version >/dev/null 2>&1") == 0; }
/* Runs the page's script in node, which asks it what it shows; options: of tests/report_page.js. */
static void ask_node(const char *dir, const char *options)
{
    char command[2400], here[600], numbers[700] = "", *text = NULL;
    size_t size = 0;
    snprintf(here, sizeof here, "%s", __FILE__);
    char *slash = strrchr(here, '/');
    snprintf(slash ? slash + 1 : here, 40, "report_page.js");
    if (exists(dir, "stats.json")) snprintf(numbers, sizeof numbers, "'%s/stats.json'", dir);
    snprintf(command, sizeof command, "node '%s' '%s/report.html' %s %s >'%s/node' 2>&1", here, dir, numbers, options,
             dir);
    const int failed = system(command);
    snprintf(command, sizeof command, "%s/node", dir);
    CHECK_OK(tp_file_read(command, false, 0, &text, &size));
    CHECK_MSG(failed == 0 && text && strstr(text, "\nok\n"), "%s", text ? text : "node said nothing");
    tp_free(text);
}

/* ==== >>tests ========================================================================================= */

TEST(a_page_has_the_numbers_of_stats_json)
{
    page p;
    setting s = {.dir = in_folder("run"), .epochs = 3};
    CHECK_OK(train(&s)); /* the default monitors */
    if (!CHECK(page_read(&p, s.dir))) return;
    CHECK_STR(get(p.data, "status")->text, "done");
    CHECK_MSG(p.bare < 300000, "%zu bytes without data", p.bare);
    check_curves(&p, s.dir);
    const value *progress = get(p.data, "progress");
    CHECK(get(progress, "epoch")->number == 3 && get(progress, "max_epoch")->number == 3);
    CHECK(get(progress, "global_step")->number == 3 * STEPS && get(progress, "done_steps")->number == 3 * STEPS);
    CHECK(get(progress, "total_steps")->number == 3 * STEPS && get(progress, "eta")->number == 0);
    CHECK_STR(get(get(p.data, "runs")->item[0], "name")->text, "run");
    CHECK_HAS(get(p.data, "log")->text, "\na \"line\" of the log </script>\n");
    page_free(&p);
}

/* Of a long log the page has the end, from the beginning of a line. */
TEST(a_page_has_the_end_of_a_long_log)
{
    page p;
    setting s = {.dir = in_folder("long"), .epochs = 1};
    log_lines = 1000;
    const tp_status st = train(&s);
    log_lines = 0;
    CHECK_OK(st);
    if (!CHECK(page_read(&p, s.dir))) return;
    const char *log = get(p.data, "log")->text;
    CHECK_MSG(strlen(log) > 12000 && strlen(log) <= 12288, "%zu bytes", strlen(log));
    CHECK_MSG(strncmp(log, "line ", 5) == 0, "%.60s", log);
    CHECK_HAS(log, "\nline 999 of a long log\nline 1000 of a long log\n");
    page_free(&p);
}

/* Of the page's own text: it names no other file or host, and is what tests/report_page.html is. */
TEST(a_page_asks_for_nothing)
{
    static const char *const never[] = {"http:",      "https:",         "//cdn",   "@import",
                                        "fetch(",     "XMLHttpRequest", "import(", "WebSocket",
                                        "sendBeacon", "srcset",         "<iframe", "<link rel=\"stylesheet\""};
    page p;
    char *source = NULL, path[600];
    size_t size = 0;
    setting s = {.dir = in_folder("asks"), .epochs = 1};
    CHECK_OK(train(&s));
    if (!CHECK(page_read(&p, s.dir))) return;
    for (int i = 0; i < TP_COUNT(never); i++) CHECK_MSG(!strstr(p.text, never[i]), "%s", never[i]);
    snprintf(path, sizeof path, "%s", __FILE__);
    char *slash = strrchr(path, '/');
    snprintf(slash ? slash + 1 : path, 40, "report_page.html");
    if (tp_file_read(path, false, 0, &source, &size) == TP_OK) {
        char *at = strstr(source, "@DATA@");
        const size_t head = (size_t)(at - source), tail = strlen(at + 7);
        CHECK(head + tail + 1 == p.bare); /* 1: the newline behind the data */
        CHECK(memcmp(source, p.text, head) == 0 && strcmp(at + 7, p.text + p.size - tail) == 0);
        tp_free(source);
    }
    page_free(&p);
}

TEST(the_report_can_be_left_out)
{
    setting s = {.dir = in_folder("without"), .epochs = 1, .report = TP_NO};
    CHECK_OK(train(&s));
    CHECK(exists(s.dir, "stats.json") && !exists(s.dir, "report.html"));
}

/* The model without gradients and updates; the kernels of a step, which add up to its time; the parameters. */
TEST(a_page_has_the_model_and_a_step)
{
    page p;
    char host[256];
    bool matmul = false, mean = false, scale = false;
    double sum = 0, bytes = 0;
    setting s = {.dir = in_folder("model"), .epochs = 1};
    CHECK_OK(train(&s));
    if (!CHECK(page_read(&p, s.dir))) return;
    const value *ops = get(get(p.data, "graph"), "ops"), *kernels = get(get(p.data, "trace"), "kernels");
    for (int i = 0; i < ops->n; i++) {
        const value *op = ops->item[i], *in = op->item[3];
        const char *name = op->item[0]->text, *kind = op->item[1]->text;
        CHECK_MSG(strncmp(name, "gradients", 9) != 0 && strcmp(kind, "Summary") != 0 &&
                      strcmp(kind, "VariableV2") != 0 && strcmp(kind, "Const") != 0,
                  "%s is no part of the model", name);
        for (int k = 0; k < in->n; k++) CHECK_MSG(in->item[k]->number < i, "%s reads what comes later", name);
        if (strcmp(name, "fc1/MatMul") == 0) {
            matmul = true;
            CHECK_STR(op->item[2]->text, "?\xc3\x97"
                                         "3");
            CHECK(in->n == 1); /* the weights are no box */
            CHECK_STR(ops->item[(int)in->item[0]->number]->item[0]->text, "fc0/output");
        }
        scale = scale || strcmp(name, "scale") == 0;
        mean = mean || (strcmp(kind, "Mean") == 0 && strcmp(op->item[2]->text, "scalar") == 0);
    }
    CHECK(matmul && mean && scale);
    const value *variables = get(get(p.data, "graph"), "variables");
    CHECK_STR(variables->item[0]->item[0]->text, "fc0/W");
    CHECK(variables->item[0]->item[2]->number == WIDTH * 8 && variables->item[0]->item[3]->number == 1);
    for (int i = 0; i < kernels->n; i++) {
        sum += kernels->item[i]->item[4]->number;
        bytes += kernels->item[i]->item[5]->number;
        const value *before =
            kernels->item[i ? i - 1 : 0]
                ->item[3]; /* the first kernel begins at 0, each other one not before the one that precedes it */
        CHECK(i ? kernels->item[i]->item[3]->number >= before->number : before->number == 0);
    }
    CHECK(kernels->n > 10 && sum > 0 && sum == get(get(p.data, "trace"), "total")->number && bytes > 0);
    const double step = get(get(p.data, "trace"), "step")->number;
    CHECK(step == 2 || step == 3);
    const value *parameters = get(get(p.data, "setup")->item[1], "rows");
    CHECK(parameters->n == 1);
    CHECK_STR(parameters->item[0]->item[0]->text, "learning_rate");
    CHECK_STR(parameters->item[0]->item[1]->text, "0.125");
    CHECK_STR(row_of(&p, "Training", "directory"), s.dir);
    CHECK_STR(row_of(&p, "Training", "steps per epoch"), "6");
    CHECK_STR(row_of(&p, "Training", "epochs"), "1");
    CHECK(strlen(row_of(&p, "Training", "seed")) > 0);
    CHECK_STR(row_of(&p, "Training", "resumed"), "no");
    CHECK(gethostname(host, sizeof host) == 0);
    CHECK_STR(row_of(&p, "Machine", "host"), host);
    page_free(&p);
}

/* Of several towers the first one is the model, and its name is left out. */
TEST(several_towers_are_one_model)
{
    page p, q;
    int shown[2] = {0, 0};
    setting one = {.dir = in_folder("tower"), .epochs = 1};
    setting two = {.dir = in_folder("towers"), .epochs = 1, .towers = 2};
    CHECK_OK(train(&one));
    CHECK_OK(train(&two));
    if (!CHECK(page_read(&p, one.dir)) || !CHECK(page_read(&q, two.dir))) return;
    for (int k = 0; k < 2; k++) {
        const value *ops = get(get((k ? &q : &p)->data, "graph"), "ops");
        for (int i = 0; i < ops->n; i++) {
            const char *name = ops->item[i]->item[0]->text;
            CHECK_MSG(!strstr(name, "tower") && !strstr(name, "gradients"), "%s", name);
            shown[k] += strncmp(name, "fc", 2) == 0 || strcmp(name, "cost") == 0;
        }
    }
    CHECK_MSG(shown[0] == shown[1] && shown[0] > 6, "%d and %d operations", shown[0], shown[1]);
    page_free(&p);
    page_free(&q);
}

/* Histograms against a count in the test; pictures against their pixels. */
TEST(a_page_has_histograms_and_images)
{
    tp_train_state state;
    tp_monitor_report_desc d;
    page p;
    enum { N = 1000, TIMES = 3 };
    static float x[N];
    memset(&state, 0, sizeof state);
    memset(&d, 0, sizeof d);
    state.is_chief = true;
    state.steps_per_epoch = 10;
    const char *dir = in_folder("summaries");
    CHECK_OK(tp_logger_set_dir(dir, 'd'));
    tp_monitor *m = tp_monitor_report_(&d);
    tp_monitors *all = tp_monitors_new(&m, 1);
    state.monitors = all;
    all->cb.train = &state;
    CHECK_OK(tp_callback_setup_graph(&m->cb, &state));
    CHECK_OK(tp_callback_before_train(&m->cb));
    tp_tensor t, image;
    memset(&t, 0, sizeof t), memset(&image, 0, sizeof image);
    static unsigned char pixel[600 * 300];
    for (int i = 0; i < 600 * 300; i++) pixel[i] = (unsigned char)(i / 300 / 3 + i % 300 / 3);
    for (int k = 0; k < TIMES; k++) {
        tp_summary_value v;
        tp_summary one = {&v, 1};
        const int64_t n = N, dim[4] = {1, 600, 300, 1};
        memset(&v, 0, sizeof v);
        for (int i = 0; i < N; i++) x[i] = (float)((i * 37 + k * 11) % 101) / 10 - 5;
        x[7] = (float)NAN, x[8] = (float)INFINITY;
        tp_tensor_view(&t, TP_F32, tp_make_shape_n(1, &n), x);
        v.tag = "weights", v.kind = TP_SUMMARY_HISTOGRAM, v.tensor = &t;
        state.global_step = 10 * (k + 1);
        CHECK_OK(tp_monitors_put_summary(all, &one));
        tp_tensor_view(&image, TP_U8, tp_make_shape_n(4, dim), pixel);
        CHECK_OK(tp_monitors_put_image(all, "large", &image));
    }
    CHECK_OK(tp_callback_after_train(&m->cb));
    tp_callback_free(&all->cb);
    tp_monitor_free(m);
    if (!CHECK(page_read(&p, dir))) return;
    const value *h = get(p.data, "histograms")->item[0];
    size_t n = 0;
    const unsigned char *raw = unbase64(get(h, "bins")->text, &n);
    CHECK_STR(get(h, "name")->text, "weights");
    CHECK(get(h, "steps")->n == TIMES && get(h, "steps")->item[2]->number == 30 && n == TIMES * 32 * 4);
    for (int k = 0; k < TIMES; k++) {
        float bin[32];
        double count[32] = {0}, low = 1e9, high = -1e9;
        for (int pass = 0; pass < 2; pass++)
            for (int i = 0; i < N; i++) {
                const float v = (float)((i * 37 + k * 11) % 101) / 10 - 5;
                if (i == 7 || i == 8) continue;
                if (pass == 0) low = fmin(low, v), high = fmax(high, v);
                else count[(int)fmin(31, floor((v - low) / (high - low) * 32))]++;
            }
        for (int q = 0; q < 32; q++) {
            const uint32_t bits = (uint32_t)little(raw + 4 * (32 * k + q), 4);
            memcpy(&bin[q], &bits, sizeof bits);
        }
        double off = 0, sum = 0; /* a value at the edge of two bins may be in either */
        for (int q = 0; q < 32; q++) off += fabs(bin[q] - count[q]), sum += bin[q];
        CHECK_MSG(off <= 40 && sum == N - 2, "histogram %d: %g differ, %g in all", k, off, sum);
        CHECK(get(h, "min")->item[k]->number == low && get(h, "max")->item[k]->number == high);
    }
    const value *shots = get(get(p.data, "images")->item[0], "shots");
    CHECK(shots->n == TIMES && get(shots->item[1], "step")->number == 20);
    const unsigned char *png = unbase64(get(shots->item[2], "png")->item[0]->text, &n);
    static const unsigned char head[] = {
        0x89, 'P', 'N', 'G', 13, 10, 26,  10, 0, 0, 0,   13, 'I',
        'H',  'D', 'R', 0,   0,  0,  100, 0,  0, 0, 200, 8,  0}; /* 600x300 by 3 is 200x100, grey */
    CHECK(n > 60 && memcmp(png, head, sizeof head) == 0);
    size_t bytes = (size_t)png[33] << 24 | (size_t)png[34] << 16 | (size_t)png[35] << 8 | png[36];
    static unsigned char row[200][101];
    CHECK_OK(tp_inflate(png + 41 + 2, bytes - 6, row, sizeof row)); /* zlib's head of 2 and sum of 4 around it */
    for (int y = 0; y < 200; y++)
        for (int z = 0; z < 100; z++) CHECK(row[y][0] == 0 && row[y][1 + z] == (unsigned char)(y + z));
    page_free(&p);
}

/* A report without a training: what is put into its monitors, at the steps that the test gives, is on its page. */
typedef struct by_hand {
    tp_train_state state;
    tp_monitor *report;
    tp_monitors *all;
} by_hand;
static tp_graph *graph_by_hand;   /* NULL: none */
static const char *other_by_hand; /* the folder of another training; NULL: none */
static const char *begin_by_hand(by_hand *h, const char *name, double every_secs)
{
    tp_monitor_report_desc d;
    memset(h, 0, sizeof *h);
    memset(&d, 0, sizeof d);
    d.every_secs = every_secs;
    d.runs[0] = other_by_hand;
    h->state.is_chief = true;
    h->state.graph = graph_by_hand;
    h->state.steps_per_epoch = 1;
    const char *dir = in_folder(name);
    CHECK_OK(tp_logger_set_dir(dir, 'd'));
    h->report = tp_monitor_report_(&d);
    h->state.monitors = h->all = tp_monitors_new(&h->report, 1);
    h->all->cb.train = &h->state;
    CHECK_OK(tp_callback_setup_graph(&h->report->cb, &h->state));
    CHECK_OK(tp_callback_before_train(&h->report->cb));
    return dir;
}
static bool end_by_hand(by_hand *h, page *p, const char *dir)
{
    CHECK_OK(tp_callback_after_train(&h->report->cb));
    tp_callback_free(&h->all->cb);
    tp_monitor_free(h->report);
    return CHECK(page_read(p, dir));
}

static void put_histogram(by_hand *h, const char *tag, const tp_tensor *x)
{
    tp_summary_value v;
    const tp_summary one = {&v, 1};
    memset(&v, 0, sizeof v);
    v.tag = tag, v.kind = TP_SUMMARY_HISTOGRAM, v.tensor = x;
    CHECK_OK(tp_monitors_put_summary(h->all, &one));
}

/* Where no value is finite there is no range: the page says so, and its axis goes over the others. */
TEST(a_histogram_without_a_finite_value)
{
    by_hand h;
    page p;
    tp_tensor t;
    float x[4];
    const int64_t n_x = TP_COUNT(x), none = 0;
    const char *dir = begin_by_hand(&h, "nan", 0);
    memset(&t, 0, sizeof t);
    for (int k = 0; k < 5; k++) {
        for (int i = 0; i < TP_COUNT(x); i++)
            x[i] = k == 1 ? (float)NAN : k == 3 ? (i % 2 ? INFINITY : -INFINITY) : 100 + (float)i / 4;
        tp_tensor_view(&t, TP_F32, tp_make_shape_n(1, k == 4 ? &none : &n_x), x);
        h.state.global_step = k + 1;
        put_histogram(&h, "weights", &t);
        if (k % 2) put_histogram(&h, "never", &t);
    }
    if (!end_by_hand(&h, &p, dir)) return;
    for (int k = 0; k < 5; k++) {
        const value *one = get(p.data, "histograms")->item[0];
        const value *low = get(one, "min")->item[k], *high = get(one, "max")->item[k];
        if (k % 2 || k == 4) CHECK_MSG(low->kind == 'n' && high->kind == 'n', "step %d has a range", k + 1);
        else CHECK(low->number == 100 && high->number == 100.75);
    }
    page_free(&p);
    if (!there_is_node()) TEST_SKIP("there is no node");
    ask_node(dir, "");
}

/* A histogram counts more values than a float can. */
TEST(a_histogram_of_many_values)
{
    enum { N = (1 << 24) + 3 };
    by_hand h;
    page p;
    tp_tensor t;
    const int64_t dim = N;
    size_t n = 0;
    const char *dir = begin_by_hand(&h, "counts", 0);
    memset(&t, 0, sizeof t);
    CHECK_OK(tp_tensor_resize(&t, TP_U8, tp_make_shape_n(1, &dim)));
    put_histogram(&h, "zeros", &t);
    tp_tensor_free(&t);
    if (!end_by_hand(&h, &p, dir)) return;
    const unsigned char *raw = unbase64(get(get(p.data, "histograms")->item[0], "bins")->text, &n);
    const uint32_t bits = (uint32_t)little(raw + 4 * 16, 4);
    float bin;
    memcpy(&bin, &bits, sizeof bits);
    CHECK_MSG(n == 4 * 32 && bin == (float)N, "%zu bytes, %.0f values", n, (double)bin);
    page_free(&p);
}

/* A page has 20000 operations and 20000 variables at most, the first ones. */
TEST(a_page_of_a_very_large_model)
{
    enum { MOST = 20000 };
    by_hand h;
    page p;
    char name[32];
    tp_variable_desc d;
    memset(&d, 0, sizeof d);
    d.name = name;
    d.trainable = TP_NO;
    tp_graph *g = graph_by_hand = tp_graph_new(NULL);
    tp_node *x = tp_placeholder(g, "x", TP_F32, tp_make_shape_n(0, NULL)); /* the first one */
    for (int i = 0; i < MOST; i++) x = i == MOST - 2 ? tp_abs(x) : tp_neg(x);
    for (int i = 0; i <= MOST; i++) {
        snprintf(name, sizeof name, "v%d", i);
        tp_get_variable(g, &d);
    }
    CHECK_OK(tp_graph_status(g));
    const char *dir = begin_by_hand(&h, "large", 0);
    if (end_by_hand(&h, &p, dir)) {
        const value *ops = get(get(p.data, "graph"), "ops"), *variables = get(get(p.data, "graph"), "variables");
        if (CHECK_MSG(ops->n == MOST && variables->n == MOST, "%d and %d", ops->n, variables->n)) {
            CHECK_STR(ops->item[MOST - 1]->item[1]->text, "Abs");
            CHECK_STR(variables->item[0]->item[0]->text, "v0");
            CHECK_STR(variables->item[MOST - 1]->item[0]->text, "v19999");
        }
        page_free(&p);
    }
    graph_by_hand = NULL;
    tp_graph_free(g);
}

/* The page of a training without a graph has no operations and no variables, and nothing says that memory ran out. */
TEST(a_page_without_a_graph)
{
    by_hand h;
    page p;
    for (int bounded = 0; bounded < 2; bounded++) {
        tp_set_log(sink, NULL);
        said[0] = 0;
        const char *dir = begin_by_hand(&h, "no graph", 0);
        h.state.max_epoch = bounded ? 99998 : 99999;
        const bool whole = end_by_hand(&h, &p, dir);
        tp_set_log(NULL, NULL);
        CHECK_MSG(!strstr(said, "memory"), "%s", said);
        if (!whole) return;
        const value *graph = get(p.data, "graph");
        CHECK(get(graph, "ops")->kind == '[' && get(graph, "ops")->n == 0 && get(graph, "variables")->n == 0);
        CHECK_STR(row_of(&p, "Training", "seed"), "");
        CHECK_STR(row_of(&p, "Training", "epochs"), bounded ? "99998" : "");
        CHECK_STR(row_of(&p, "Training", "steps per epoch"), "1");
        page_free(&p);
    }
}

/* How far a training is, and how long the rest takes: unknown before there are two steps, and without an end. A resumed one has steps
 * before its first, which took no time here. */
TEST(a_page_says_how_long_it_takes)
{
    enum { PER_EPOCH = 5, FIRST = 30, EPOCHS = 20, NANOSECONDS = 4000000 };
    const struct timespec pause = {0, NANOSECONDS};
    for (int bounded = 0; bounded < 2; bounded++) {
        by_hand h;
        page p;
        const char *dir = begin_by_hand(&h, "progress", (double)TP_ZERO);
        h.state.steps_per_epoch = PER_EPOCH;
        h.state.max_epoch = bounded ? EPOCHS : 99999;
        double before = 0;
        for (int i = 0; i < 4; i++) { /* before a step; the first; the second; the end of the epoch */
            h.state.global_step = FIRST + i;
            h.state.epoch_num = FIRST / PER_EPOCH + 1;
            h.state.within_ = true;
            h.state.done_ = h.state.local_step = i;
            nanosleep(&pause, NULL);
            CHECK_OK(i == 0 || i == 3 ? tp_callback_trigger(&h.report->cb) : tp_callback_trigger_step(&h.report->cb));
            if (!CHECK(page_read(&p, dir))) continue;
            const value *v = get(p.data, "progress");
            const double step = get(v, "seconds_per_step")->number, eta = get(v, "eta")->number;
            CHECK_MSG((step > 0) == (i > 1), "%g seconds a step after %d steps", step, i);
            CHECK_MSG(step < 60, "%g seconds a step", step);
            /* one step in at least the time of the pause, at most that from page to page */
            const double speed = get(v, "steps_per_second")->number, now = get(v, "elapsed")->number;
            if (i > 0)
                CHECK_MSG(speed <= 1e9 / NANOSECONDS && speed >= 0.99 / (now - before), "%g steps a second", speed);
            before = now;
            CHECK(get(v, "done_steps")->number == FIRST + i && get(v, "epoch")->number == FIRST / PER_EPOCH + 1);
            CHECK(get(v, "total_steps")->number == (bounded ? EPOCHS * PER_EPOCH : 0));
            CHECK(get(v, "max_epoch")->number == (bounded ? EPOCHS : 0) && get(v, "global_step")->number == FIRST + i);
            if (bounded && i > 1) CHECK_NEAR(eta, step * (EPOCHS * PER_EPOCH - FIRST - i), 0, 1e-6);
            else CHECK_MSG(eta == -1, "eta %g", eta);
            page_free(&p);
        }
        if (end_by_hand(&h, &p, dir)) page_free(&p);
    }
}

/* The steps that are done: those of the whole epochs, and of the epoch that runs. */
TEST(a_page_counts_the_steps_that_are_done)
{
    static const struct {
        int epoch, done;
        bool within;
        int want;
    } list[] = {{0, 0, false, 0}, {0, 3, true, 3}, {1, 0, true, 0},  {1, 4, true, 4},
                {1, 5, false, 5}, {2, 1, true, 6}, {3, 0, false, 15}};
    for (int i = 0; i < TP_COUNT(list); i++) {
        by_hand h;
        page p;
        const char *dir = begin_by_hand(&h, "done", 0);
        h.state.steps_per_epoch = 5;
        h.state.epoch_num = list[i].epoch;
        h.state.within_ = list[i].within;
        h.state.done_ = list[i].done;
        if (!end_by_hand(&h, &p, dir)) return;
        const double done = get(get(p.data, "progress"), "done_steps")->number;
        CHECK_MSG(done == list[i].want, "epoch %d: %g, not %d", list[i].epoch, done, list[i].want);
        page_free(&p);
    }
}

/* Shown are scalars that are neither trained nor an optimizer's, 40 at most. */
TEST(a_page_has_the_parameters)
{
    enum { MOST = 40 };
    static const struct {
        const char *name, *want;
        tp_dtype dtype;
        int n_dims;
        bool trained;
    } list[] = {{"rate", "0.1", TP_F32, 0, false},       {"exact", "0.10000000149011612", TP_F64, 0, false},
                {"counter", "0.0", TP_I64, 0, false},    {"weight", "", TP_F32, 0, true},
                {"vector", "", TP_F32, 1, false},        {"global_step", "", TP_I64, 0, false},
                {"_power", "0.1", TP_F32, 0, false},     {"x_power", "", TP_F32, 0, false},
                {"beta1_power", "", TP_F32, 0, false},   {"a/beta2_power", "", TP_F32, 0, false},
                {"the_powers", "0.1", TP_F32, 0, false}, {"powerless", "0.1", TP_F32, 0, false}};
    by_hand h;
    page p;
    char name[32];
    tp_variable_desc d;
    tp_graph *g = graph_by_hand = tp_graph_new(NULL);
    int n_shown = 0;
    for (int i = 0; i < TP_COUNT(list) + MOST; i++) {
        const bool listed = i < TP_COUNT(list);
        const int64_t two = 2;
        memset(&d, 0, sizeof d);
        snprintf(name, sizeof name, "more%d", i);
        d.name = listed ? list[i].name : name;
        d.dtype = listed ? list[i].dtype : TP_F32;
        d.shape = tp_make_shape_n(listed ? list[i].n_dims : 0, &two);
        d.trainable = listed && list[i].trained ? TP_YES : TP_NO;
        d.init = d.dtype == TP_I64 ? tp_init_zeros() : tp_init_constant(0.1f);
        tp_get_variable(g, &d);
        n_shown += listed && *list[i].want;
    }
    CHECK_OK(tp_graph_status(g));
    const char *dir = begin_by_hand(&h, "parameters", 0);
    h.state.session = tp_session_new(g, NULL);
    if (CHECK(h.state.session) && end_by_hand(&h, &p, dir)) {
        for (int i = 0; i < TP_COUNT(list); i++)
            CHECK_MSG(strcmp(row_of(&p, "Parameters", list[i].name), list[i].want) == 0, "%s: '%s'", list[i].name,
                      row_of(&p, "Parameters", list[i].name));
        for (int i = 0; i < 2; i++) { /* the last one, and the first that is not shown */
            snprintf(name, sizeof name, "more%d", TP_COUNT(list) + MOST - n_shown - 1 + i);
            CHECK_STR(row_of(&p, "Parameters", name), i ? "" : "0.1");
        }
        page_free(&p);
    }
    tp_session_free(h.state.session);
    graph_by_hand = NULL;
    tp_graph_free(g);
}

/* Where all images are too large together, the tag with the most of them loses one, neither its first nor its newest. */
TEST(too_many_images_are_thinned)
{
    enum { SIDE = 256, FEW = 3, MANY = 8 };
    tp_tensor image;
    static unsigned char pixel[SIDE * SIDE * 3];
    const int64_t dim[4] = {1, SIDE, SIDE, 3};
    for (int i = 0; i < TP_COUNT(pixel); i++) pixel[i] = (unsigned char)tp_test_mix((uint64_t)i);
    memset(&image, 0, sizeof image);
    tp_tensor_view(&image, TP_U8, tp_make_shape_n(4, dim), pixel);
    for (int few_at = 0; few_at < 2; few_at++) { /* whether the tag with few images comes first or last */
        by_hand h;
        page p;
        const char *dir = begin_by_hand(&h, few_at ? "large1" : "large0", 0);
        for (int k = 1; k <= MANY; k++) { /* the last of them is too much */
            h.state.global_step = k;
            if (k <= FEW && few_at == 0) CHECK_OK(tp_monitors_put_image(h.all, "few", &image));
            CHECK_OK(tp_monitors_put_image(h.all, "many", &image));
            if (k <= FEW && few_at == 1) CHECK_OK(tp_monitors_put_image(h.all, "few", &image));
        }
        if (!end_by_hand(&h, &p, dir)) return;
        const value *images = get(p.data, "images");
        const value *few = get(images->item[few_at], "shots"), *many = get(images->item[1 - few_at], "shots");
        CHECK_STR(get(images->item[few_at], "name")->text, "few");
        if (!CHECK_MSG(few->n == FEW && many->n == MANY - 1, "%d and %d", few->n, many->n)) return;
        for (int k = 0; k < many->n; k++) CHECK(get(many->item[k], "step")->number == (k ? k + 2 : 1));
        for (int k = 0; k < FEW + MANY - 1; k++) { /* those that stay are whole */
            const value *png = get(k < FEW ? few->item[k] : many->item[k - FEW], "png");
            CHECK_MSG(png->n == 1 && strlen(png->item[0]->text) > SIDE * SIDE * 3, "image %d", k);
        }
        page_free(&p);
    }
}

/* Tags whose images are large: each is on the page with its newest, and with as many as there is room for. */
TEST(each_tag_keeps_its_newest_image)
{
    enum { SIDE = 256, BATCH = 8 };
    static unsigned char pixel[BATCH * SIDE * SIDE * 4];
    static const struct {
        int channels[3], steps; /* channels: of each tag's images; 0: there is no such tag */
        int n[3];               /* steps of each tag that are shown */
    } list[] = {
        {{3, 3, 0}, 2, {1, 1, 0}}, {{4, 0, 0}, 2, {1, 0, 0}}, {{1, 1, 1}, 3, {1, 1, 1}}, {{1, 0, 0}, 6, {3, 0, 0}}};
    for (int i = 0; i < TP_COUNT(pixel); i++) pixel[i] = (unsigned char)tp_test_mix((uint64_t)i);
    for (int i = 0; i < TP_COUNT(list); i++) {
        by_hand h;
        page p;
        const char *dir = begin_by_hand(&h, "newest", 0);
        for (int k = 1; k <= list[i].steps; k++) {
            h.state.global_step = k;
            for (int tag = 0; tag < 3 && list[i].channels[tag]; tag++) {
                tp_tensor image;
                const char name[2] = {(char)('a' + tag), 0};
                const int64_t dim[4] = {BATCH, SIDE, SIDE, list[i].channels[tag]};
                memset(&image, 0, sizeof image);
                tp_tensor_view(&image, TP_U8, tp_make_shape_n(4, dim), pixel);
                CHECK_OK(tp_monitors_put_image(h.all, name, &image));
            }
        }
        if (!end_by_hand(&h, &p, dir)) return;
        const value *images = get(p.data, "images");
        for (int tag = 0; tag < 3 && list[i].channels[tag]; tag++) {
            const value *shots = tag < images->n ? get(images->item[tag], "shots") : &nothing;
            CHECK_MSG(shots->n == list[i].n[tag], "case %d, tag %d: %d steps", i, tag, shots->n);
            if (shots->n > 0) CHECK(get(shots->item[shots->n - 1], "step")->number == list[i].steps);
            if (shots->n > 2) CHECK(get(shots->item[0], "step")->number == 1);
        }
        page_free(&p);
    }
}

/* An image of at most 256 pixels a side is shown as it is; a larger one by the means of squares, which are cut off at its border. */
TEST(images_are_reduced_to_256_pixels)
{
    static const struct {
        int height, width, by;
    } list[] = {{1, 1, 1},   {3, 2, 1},   {256, 2, 1}, {2, 256, 1}, {257, 2, 2}, {3, 257, 2},
                {512, 5, 2}, {5, 511, 2}, {513, 4, 3}, {4, 513, 3}, {768, 3, 3}, {7, 769, 4}};
    static unsigned char pixel[769 * 8], row[769 * 8];
    for (int i = 0; i < TP_COUNT(list); i++) {
        by_hand h;
        page p;
        tp_tensor image;
        const int height = list[i].height, width = list[i].width, by = list[i].by;
        const int rows = (height + by - 1) / by, columns = (width + by - 1) / by;
        const int64_t dim[4] = {1, height, width, 1};
        for (int k = 0; k < height * width; k++) pixel[k] = (unsigned char)tp_test_mix((uint64_t)k + 1);
        memset(&image, 0, sizeof image);
        tp_tensor_view(&image, TP_U8, tp_make_shape_n(4, dim), pixel);
        const char *dir = begin_by_hand(&h, "sizes", 0);
        CHECK_OK(tp_monitors_put_image(h.all, "image", &image));
        if (!end_by_hand(&h, &p, dir)) return;
        size_t n = 0;
        const value *shot = get(get(p.data, "images")->item[0], "shots")->item[0];
        const unsigned char *png = unbase64(get(shot, "png")->item[0]->text, &n);
        const int png_width = png[18] << 8 | png[19], png_height = png[22] << 8 | png[23];
        if (CHECK_MSG(n > 60 && png_height == rows && png_width == columns, "%d x %d is shown as %d x %d", height,
                      width, png_height, png_width)) {
            const size_t bytes = (size_t)png[33] << 24 | (size_t)png[34] << 16 | (size_t)png[35] << 8 | png[36];
            CHECK_OK(tp_inflate(png + 41 + 2, bytes - 6, row, (size_t)(rows * (columns + 1))));
            for (int k = 0; k < rows * columns; k++) {
                const int y = k / columns * by, x = k % columns * by;
                double sum = 0, count = 0;
                for (int a = y; a < y + by && a < height; a++)
                    for (int b = x; b < x + by && b < width; b++) sum += pixel[a * width + b], count++;
                const int is = row[k / columns * (columns + 1) + 1 + k % columns];
                if (!CHECK_MSG(is == (int)(sum / count), "%d x %d, pixel %d: %d, not %g", height, width, k, is,
                               sum / count))
                    break;
            }
        }
        page_free(&p);
    }
}

/* What must be the same on a page of a training that was resumed, and one that was not. */
static void same_part(const page *a, const page *b, const char *from, const char *to)
{
    const char *x = strstr(a->json, from), *y = strstr(b->json, from);
    const char *xe = x ? strstr(x, to) : NULL, *ye = y ? strstr(y, to) : NULL;
    if (CHECK(xe && ye))
        CHECK_MSG(xe - x == ye - y && memcmp(x, y, (size_t)(xe - x)) == 0, "what stands between %s and %s differs",
                  from, to);
}

TEST(a_resumed_training_is_one)
{
    page p, q;
    setting s = {.dir = in_folder("straight"), .epochs = 8, .saver = true};
    CHECK_OK(train(&s));
    CHECK(page_read(&p, s.dir));
    setting r = {.dir = in_folder("resumed"), .epochs = 3, .saver = true};
    CHECK_OK(train(&r));
    r.epochs = 6;
    r.resume = true;
    CHECK_OK(train(&r));
    r.epochs = 8;
    CHECK_OK(train(&r));
    if (!CHECK(page_read(&q, r.dir))) return;
    check_curves(&q, r.dir);
    CHECK_STR(row_of(&q, "Training", "resumed"), "at global_step 36");
    same_part(&p, &q, "\"scalars\":", "\"histograms\":");
    same_part(&p, &q, "\"histograms\":", "\"images\":");
    same_part(&p, &q, "\"images\":", "\"trace\":"); /* and the model */
    CHECK(get(get(q.data, "histograms")->item[0], "steps")->n == 8);
    const value *shots = get(get(q.data, "images")->item[0], "shots");
    CHECK(shots->n >= 4 && shots->n <= 8 && get(shots->item[shots->n - 1], "step")->number == 48);
    page_free(&p);
    page_free(&q);
}

TEST(a_page_says_how_a_training_ended)
{
    page p;
    setting s = {.dir = in_folder("ended"), .epochs = 3};
    stop_at = 8;
    CHECK_OK(train(&s));
    stop_at = 0;
    if (!CHECK(page_read(&p, s.dir))) return;
    CHECK_STR(get(p.data, "status")->text, "stopped");
    CHECK_STR(get(p.data, "note")->text, "enough of <it>");
    CHECK(get(get(p.data, "progress"), "done_steps")->number == 8);
    page_free(&p);
    TEST_EXPECT_ERROR("this one fails");
    fail_at = 3;
    CHECK_ERR(train(&s), TP_ERR_ARG, "this one fails");
    fail_at = 0;
    if (!CHECK(page_read(&p, s.dir))) return;
    CHECK_STR(get(p.data, "status")->text, "failed");
    page_free(&p);
}

/* Of 100,000 values the first, the last, the extremes and a NaN are there, and each that is there is one of them. */
TEST(long_curves_are_thinned_without_losing_peaks)
{
    static curve c;
    by_hand h;
    page p;
    enum { N = 100000 };
    const char *dir = begin_by_hand(&h, "long", 0);
    for (int i = 0; i < N; i++) {
        h.state.global_step = 5000000000 + i; /* beyond 32 bits */
        const double v = i == 33333 ? 1e6 : i == 66667 ? -1e6 : i == 50001 ? (double)NAN : sin(i * 0.01);
        CHECK_OK(tp_monitors_put_scalar(h.all, "wave", v));
        if (i % 1000 == 0)
            CHECK_OK(tp_monitors_put_scalar(h.all, "wave", v)); /* twice in a step: the last one counts */
    }
    if (!end_by_hand(&h, &p, dir)) return;
    curve_of(&c, get(p.data, "runs")->item[0], "wave");
    CHECK_MSG(c.n > 4000 && c.n <= 10000, "%d points", c.n);
    bool high = false, low = false, nan = false;
    for (int i = 0; i < c.n; i++) {
        const int64_t k = c.step[i] - 5000000000;
        CHECK(k >= 0 && k < N && (i == 0 || c.step[i] > c.step[i - 1]));
        high = high || (k == 33333 && c.value[i] > 9e5), low = low || (k == 66667 && c.value[i] < -9e5);
        nan = nan || (k == 50001 && c.value[i] != c.value[i]);
        if (k != 33333 && k != 66667 && k != 50001) CHECK(same_bits(c.value[i], sin((double)k * 0.01)));
    }
    CHECK(get(get(get(p.data, "runs")->item[0], "scalars")->item[0], "total")->number == N);
    CHECK(high && low && nan && c.step[0] == 5000000000 && c.step[c.n - 1] == 5000000000 + N - 1);
    page_free(&p);
}

/* The page reads steps beyond 32 bits. */
TEST(steps_beyond_32_bits_are_read)
{
    by_hand h;
    page p;
    tp_buf b;
    char path[700];
    if (!there_is_node()) TEST_SKIP("there is no node");
    const char *dir = begin_by_hand(&h, "wide", 0);
    memset(&b, 0, sizeof b);
    for (int i = 0; i < 60; i++) {
        h.state.global_step = 4294967290 + i * 1000;
        CHECK_OK(tp_monitors_put_scalar(h.all, "wave", i % 7 * 0.25));
        CHECK_OK(tp_monitors_put_scalar(h.all, "other", i));
        tp_buf_printf(&b, "%s{\"wave\": %g, \"other\": %d, \"global_step\": %lld}", i ? ", " : "[", i % 7 * 0.25, i,
                      (long long)h.state.global_step);
    }
    tp_buf_printf(&b, "]");
    snprintf(path, sizeof path, "%s/stats.json", dir);
    CHECK(tp_test_write(path, b.data, b.len));
    tp_buf_free(&b);
    if (end_by_hand(&h, &p, dir)) ask_node(dir, ""), page_free(&p);
}

/* A page that is written rarely, or never again, is loaded again as rarely. */
TEST(a_page_that_is_written_rarely)
{
    static const double every[] = {30, 1e9, INFINITY};
    for (int i = 0; i < TP_COUNT(every); i++) {
        by_hand h;
        page p;
        const char *dir = begin_by_hand(&h, "rarely", every[i]);
        if (CHECK(page_read(&p, dir))) {
            CHECK_STR(get(p.data, "status")->text, "running");
            CHECK(get(p.data, "every")->number == fmin(every[i], 1e9));
            page_free(&p);
        }
        if (there_is_node()) ask_node(dir, "");
        if (end_by_hand(&h, &p, dir)) page_free(&p);
    }
}

/* 200 curves of 100,000 steps would be more than 240 MB. All curves have 400,000 points together, and each keeps its extremes. */
TEST(the_more_curves_the_fewer_points_of_each)
{
    static curve c;
    static const char *const name[] = {"long/a", "long/b", "long/c"};
    by_hand h;
    page p;
    enum { N = 20000, CURVES = 200 };
    const char *dir = begin_by_hand(&h, "many", 1e9);
    for (int i = 0; i < N; i++) {
        h.state.global_step = i + 1;
        for (int k = 0; k < 3; k++) {
            const double v = i == 1111 * (k + 1) ? 50 + k : i == 5555 * (k + 1) ? -50 - k : cos(i * 0.7 + k);
            CHECK_OK(tp_monitors_put_scalar(h.all, name[k], v));
        }
    }
    for (int k = 3; k < CURVES; k++) {
        char one[32];
        snprintf(one, sizeof one, "short/%d", k);
        CHECK_OK(tp_monitors_put_scalar(h.all, one, k));
    }
    if (!end_by_hand(&h, &p, dir)) return;
    for (int k = 0; k < 3; k++) {
        bool high = false, low = false;
        curve_of(&c, get(p.data, "runs")->item[0], name[k]);
        CHECK_MSG(c.n > 1000 && c.n <= 400000 / CURVES, "%d points", c.n);
        for (int i = 0; i < c.n; i++) {
            CHECK(c.step[i] >= 1 && c.step[i] <= N && (i == 0 || c.step[i] > c.step[i - 1]));
            high = high || (c.step[i] == 1111 * (k + 1) + 1 && same_bits(c.value[i], 50 + k));
            low = low || (c.step[i] == 5555 * (k + 1) + 1 && same_bits(c.value[i], -50 - k));
        }
        CHECK(high && low && c.step[0] == 1 && c.step[c.n - 1] == N);
    }
    page_free(&p);
}

/* However many curves there are, each may have 250 points. */
TEST(very_many_curves_keep_250_points_each)
{
    static curve c;
    by_hand h;
    page p;
    enum { N = 3000, CURVES = 4000 };
    const char *dir = begin_by_hand(&h, "very_many", 1e9);
    for (int i = 0; i < N; i++) {
        h.state.global_step = i + 1;
        CHECK_OK(tp_monitors_put_scalar(h.all, "long", i == 1111 ? 50 : cos(i * 0.7)));
        if (i < 250) CHECK_OK(tp_monitors_put_scalar(h.all, "short", i));
    }
    for (int k = 2; k < CURVES; k++) {
        char one[32];
        snprintf(one, sizeof one, "one/%d", k);
        CHECK_OK(tp_monitors_put_scalar(h.all, one, k));
    }
    if (!end_by_hand(&h, &p, dir)) return;
    curve_of(&c, get(p.data, "runs")->item[0], "long");
    CHECK_MSG(c.n > 150 && c.n <= 250, "%d points", c.n);
    bool high = false;
    for (int i = 0; i < c.n; i++) high = high || (c.step[i] == 1112 && c.value[i] == 50);
    CHECK(high && c.step[0] == 1 && c.step[c.n - 1] == N);
    curve_of(&c, get(p.data, "runs")->item[0], "short");
    CHECK_MSG(c.n == 250, "%d points", c.n);
    curve_of(&c, get(p.data, "runs")->item[0], "one/3999");
    CHECK(c.n == 1 && c.value[0] == 3999 && c.step[0] == N);
    page_free(&p);
}

/* Several trainings on one page; what is not there is left out, with a word. */
TEST(other_trainings_lie_beside_it)
{
    static curve a, b;
    page p;
    setting one = {.dir = in_folder("one"), .epochs = 2};
    CHECK_OK(train(&one));
    setting two = {.dir = in_folder("two"), .epochs = 1, .other = one.dir};
    char first[600];
    snprintf(first, sizeof first, "%s", one.dir);
    two.other = first;
    CHECK_OK(train(&two));
    if (!CHECK(page_read(&p, two.dir) && get(p.data, "runs")->n == 2)) return;
    CHECK_STR(get(get(p.data, "runs")->item[1], "name")->text, "one");
    curve_of(&a, get(p.data, "runs")->item[0], odd);
    curve_of(&b, get(p.data, "runs")->item[1], odd);
    CHECK(get(get(p.data, "runs")->item[1], "steps_per_epoch")->number == STEPS);
    CHECK(a.n == STEPS && b.n == 2 * STEPS && same_bits(a.value[2], b.value[2]) && b.step[2 * STEPS - 1] == 2 * STEPS);
    page_free(&p);
    two.other = "/there is no such directory";
    CHECK_OK(train(&two));
    CHECK_HAS(said, "The report leaves out the curves of '/there is no such directory'");
    CHECK(page_read(&p, two.dir) && get(p.data, "runs")->n == 1);
    page_free(&p);
}

/* How many steps an epoch of another training has is found in its stats.json, if its records agree. */
TEST(epochs_of_other_trainings)
{
    static const struct {
        const char *records; /* epoch_num and global_step of each; "-": it has none */
        double want;
    } list[] = {{"1 5 2 10 3 15", 5}, {"0 0 1 5 1 3", 5}, {"1 5 2 7", 5},
                {"1 5 2 10 3 16", 0}, {"1 5 3 10", 0},    {"", 0},
                {"1 -", 0},           {"- 5", 0},         {"1 8999999999999999 8999999999999999 8999999999999999", 0}};
    char other[600], path[700];
    snprintf(other, sizeof other, "%s", in_folder("others"));
    snprintf(path, sizeof path, "%s/stats.json", other);
    CHECK_OK(tp_make_dirs(other));
    for (int i = 0; i < TP_COUNT(list); i++) {
        by_hand h;
        page p;
        tp_buf b;
        char epoch[32], step[32];
        int n = 0;
        memset(&b, 0, sizeof b);
        tp_buf_printf(&b, "[");
        for (const char *at = list[i].records; sscanf(at, "%31s %31s%n", epoch, step, &n) == 2; at += n) {
            tp_buf_printf(&b, "%s{\"a\": 1", b.len > 1 ? ", " : "");
            if (*epoch != '-') tp_buf_printf(&b, ", \"epoch_num\": %s", epoch);
            if (*step != '-') tp_buf_printf(&b, ", \"global_step\": %s", step);
            tp_buf_printf(&b, "}");
        }
        tp_buf_printf(&b, "]");
        CHECK(tp_test_write(path, b.data, b.len));
        tp_buf_free(&b);
        other_by_hand = other;
        const char *dir = begin_by_hand(&h, "epochs", 0);
        other_by_hand = NULL;
        if (!end_by_hand(&h, &p, dir)) return;
        const double found = get(get(p.data, "runs")->item[1], "steps_per_epoch")->number;
        CHECK_MSG(found == list[i].want, "%s: %g", list[i].records, found);
        page_free(&p);
    }
}

/* By default it is written when training begins and ends, and rarely between. */
static int writings;
static ino_t last_file;
static tp_status look(tp_callback *cb)
{
    (void)cb;
    struct stat st;
    char path[700];
    snprintf(path, sizeof path, "%s/report.html", tp_logger_dir());
    if (stat(path, &st) == 0 && st.st_ino != last_file) writings++, last_file = st.st_ino;
    return TP_OK;
}
TEST(it_is_not_written_too_often)
{
    tp_train_state state;
    tp_monitor_report_desc d;
    for (int often = 0; often < 2; often++) {
        memset(&state, 0, sizeof state);
        memset(&d, 0, sizeof d);
        d.every_secs = often ? (double)TP_ZERO : 0;
        state.is_chief = true;
        state.steps_per_epoch = 100;
        CHECK_OK(tp_logger_set_dir(in_folder("often"), 'd'));
        tp_monitor *m = tp_monitor_report_(&d);
        CHECK_OK(tp_callback_setup_graph(&m->cb, &state));
        writings = 0, last_file = 0;
        const double begun = tp_time();
        CHECK_OK(tp_callback_before_train(&m->cb));
        look(NULL);
        for (int i = 0; i < 20; i++) {
            state.local_step = i;
            state.global_step++;
            CHECK_OK(tp_callback_trigger_step(&m->cb));
            look(NULL);
            CHECK_OK(tp_callback_trigger(&m->cb));
            look(NULL);
        }
        if (often) CHECK_MSG(writings > 20, "%d", writings); /* an inode may come back */
        else CHECK_MSG(writings <= 1 + (int)(tp_time() - begun), "%d writings", writings);
        tp_monitor_free(m);
    }
}

/* However often it is asked for: writing takes a small part of the time. */
TEST(writing_takes_little_time)
{
    enum { N = 60 };
    by_hand h;
    page p;
    const char *dir = begin_by_hand(&h, "little", 1e-12);
    h.state.steps_per_epoch = 1000;
    writings = 0, last_file = 0;
    look(NULL);
    for (int i = 0; i < N; i++) {
        h.state.local_step = i;
        h.state.global_step++;
        CHECK_OK(tp_callback_trigger_step(&h.report->cb));
        look(NULL);
        CHECK_OK(tp_callback_trigger(&h.report->cb));
        look(NULL);
    }
    CHECK_MSG(writings < N / 2, "%d writings", writings);
    if (end_by_hand(&h, &p, dir)) page_free(&p);
}

/* Within an epoch each step writes it, if asked to, but not the last one, after which the epoch's values come. */
TEST(a_step_writes_it_within_an_epoch)
{
    static curve c;
    for (int often = 0; often < 2; often++) {
        by_hand h;
        page p;
        const char *dir = begin_by_hand(&h, "steps", often ? (double)TP_ZERO : 1e9);
        h.state.steps_per_epoch = 5;
        for (int i = 0; i < 5; i++) {
            h.state.local_step = i;
            h.state.global_step = i + 1;
            CHECK_OK(tp_monitors_put_scalar(h.all, "wave", i * 0.5));
            CHECK_OK(tp_callback_trigger_step(&h.report->cb));
            if (!CHECK(page_read(&p, dir))) continue;
            curve_of(&c, get(p.data, "runs")->item[0], "wave");
            const int shown = !often ? -1 : i < 4 ? i + 1 : 4; /* -1: there is no such curve */
            CHECK_MSG(c.n == shown, "%d values after step %d", c.n, i + 1);
            if (shown > 0) CHECK(c.step[c.n - 1] == shown && c.value[c.n - 1] == (shown - 1) * 0.5);
            page_free(&p);
        }
        if (!end_by_hand(&h, &p, dir)) return;
        curve_of(&c, get(p.data, "runs")->item[0], "wave");
        CHECK(c.n == 5 && c.value[4] == 2);
        page_free(&p);
    }
}

TEST(misuse_of_the_report)
{
    tp_monitor_report_desc d;
    tp_train_state state;
    memset(&state, 0, sizeof state);
    memset(&d, 0, sizeof d);
    d.every_secs = -1;
    tp_monitor *m = tp_monitor_report_(&d);
    CHECK_ERR(tp_callback_status(&m->cb), TP_ERR_ARG, "tp_monitor_report: .every_secs is -1");
    tp_monitor_free(m);
    d.every_secs = 0;
    d.runs[1] = "x";
    m = tp_monitor_report_(&d);
    CHECK_ERR(tp_callback_status(&m->cb), TP_ERR_ARG, "tp_monitor_report: .runs[0] is NULL, but others follow it");
    tp_monitor_free(m);
    m = tp_monitor_report_(NULL);
    CHECK_ERR(tp_callback_status(&m->cb), TP_ERR_ARG, "the descriptor is NULL");
    tp_monitor_free(m);
    d.runs[1] = NULL;
    m = tp_monitor_report_(&d); /* freed at once; and after_train without before_train writes nothing */
    tp_monitor_free(m);
    CHECK_OK(tp_logger_set_dir(in_folder("misuse"), 'd'));
    state.is_chief = true;
    m = tp_monitor_report_(&d);
    CHECK_OK(tp_callback_setup_graph(&m->cb, &state));
    CHECK_OK(tp_callback_after_train(&m->cb));
    CHECK(!exists(tp_logger_dir(), "report.html"));
    tp_monitor_free(m);
    tp_set_log(sink, NULL);
    said[0] = 0;
    CHECK_OK(tp_logger_set_dir(NULL, 0));
    m = tp_monitor_report_(&d);
    CHECK_OK(tp_callback_setup_graph(&m->cb, &state));
    CHECK_OK(tp_callback_before_train(&m->cb));
    CHECK_OK(tp_callback_trigger_step(&m->cb));
    CHECK_OK(tp_callback_after_train(&m->cb));
    CHECK_HAS(said, "No logger directory was set: ");
    tp_monitor_free(m);
    tp_set_log(NULL, NULL);
}

/* A page with all kinds of content, by hand, so that each allocation of it can fail. */
static tp_status hand_made(bool *alive)
{
    tp_train_state state;
    tp_monitor_report_desc d;
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    tp_tensor t;
    tp_summary_value v[2];
    tp_summary both = {v, 2};
    const int64_t dim[2] = {2, 4};
    memset(&state, 0, sizeof state), memset(&d, 0, sizeof d), memset(&t, 0, sizeof t), memset(v, 0, sizeof v);
    state.is_chief = true;
    d.every_secs = (double)TP_ZERO;
    *alive = false;
    tp_monitor *m = tp_monitor_report_(&d);
    if (!m) return TP_ERR_NOMEM;
    tp_monitors *all = tp_monitors_new(&m, 1);
    tp_status st = all ? tp_callback_setup_graph(&m->cb, &state) : TP_ERR_NOMEM;
    if (st == TP_OK) {
        state.monitors = all;
        all->cb.train = &state;
        st = tp_callback_before_train(&m->cb);
        CHECK_OK(st);
    }
    tp_tensor_view(&t, TP_F32, tp_make_shape_n(2, dim), x);
    v[0].tag = "histogram", v[0].kind = TP_SUMMARY_HISTOGRAM, v[0].tensor = &t;
    v[1].tag = "image", v[1].kind = TP_SUMMARY_IMAGE, v[1].tensor = &t;
    for (int i = 0; i < 12 && st == TP_OK; i++) {
        state.global_step = i + 1;
        st = m->process_summary(m, &both);
        CHECK_OK(st);
        if (st == TP_OK && tp_monitors_put_scalar(all, "cost", i) != TP_OK) st = TP_ERR_NOMEM;
    }
    if (st == TP_OK) {
        st = tp_callback_trigger(&m->cb);
        CHECK_OK(st);
        CHECK(!m->cb.unsaved);
        *alive = true;
    }
    tp_callback_free(all ? &all->cb : NULL);
    tp_monitor_free(m);
    return st;
}

TEST(without_memory_training_goes_on)
{
    page p;
    bool alive = false;
    const char *dir = in_folder("memory");
    CHECK_OK(tp_logger_set_dir(dir, 'd'));
    tp_set_log(sink, NULL);
    int survived = 0;
    for (long n = 1, failed = 1; failed; n += 1 + n / 40) {
        said[0] = 0;
        tp_test_fail_after(n);
        const tp_status st = hand_made(&alive);
        failed = tp_test_alloc_failed();
        CHECK(failed || st == TP_OK);
        CHECK_MSG(st == TP_OK || st == TP_ERR_NOMEM, "allocation %ld: %s", n, tp_last_error());
        CHECK_MSG(tp_test_live_blocks() == 0, "allocation %ld leaks", n);
        if (failed && alive) CHECK_HAS(said, "There is no memory for all of the report. Training goes on"), survived++;
    }
    tp_test_alloc_reset();
    tp_set_log(NULL, NULL);
    CHECK_MSG(survived > 20, "%d", survived);
    if (!CHECK(page_read(&p, dir))) return;
    CHECK(get(get(p.data, "histograms")->item[0], "steps")->n == 12);
    page_free(&p);
}

/* Allocations fail while the report looks at the graph: a page that lacks it, or its variables, is still JSON, and says so. */
TEST(a_graph_without_memory)
{
    tp_graph *g = graph_by_hand = tp_graph_new(NULL);
    for (int i = 0; i < 200; i++) {
        char name[40];
        snprintf(name, sizeof name, "a_variable_with_a_long_name_%d", i);
        tp_get_scalar_variable(g, name, 1);
    }
    tp_set_log(sink, NULL);
    int without = 0, failures = 0;
    for (long n = 1, failed = 1; failed; n++) {
        by_hand h;
        page p;
        tp_train_state train;
        const char *dir = begin_by_hand(&h, "graph", 1e9);
        train = h.state;
        train.monitors = NULL; /* no curves either */
        tp_monitor_report_desc d;
        memset(&d, 0, sizeof d);
        tp_monitor *m = tp_monitor_report_(&d);
        CHECK_OK(tp_callback_setup_graph(&m->cb, &train));
        said[0] = 0;
        tp_test_fail_after(n);
        CHECK_OK(tp_callback_before_train(&m->cb));
        failed = tp_test_alloc_failed();
        failures += failed != 0;
        tp_test_alloc_reset();
        CHECK_OK(tp_callback_after_train(&m->cb));
        tp_monitor_free(m);
        tp_callback_free(&h.all->cb);
        tp_monitor_free(h.report);
        if (!CHECK_MSG(page_read(&p, dir), "allocation %ld", n)) continue;
        CHECK(get(get(p.data, "runs")->item[0], "scalars")->n == 0);
        const value *graph = get(p.data, "graph");
        const bool whole = graph->kind == '{' && get(graph, "variables")->n == 200;
        CHECK_MSG(whole || (graph->kind == 'n' && failed), "allocation %ld: %c", n, graph->kind);
        if (!whole) CHECK_HAS(said, "There is no memory for all of the report. Training goes on"), without++;
        page_free(&p);
    }
    tp_set_log(NULL, NULL);
    CHECK_MSG(without > 3 && failures > without, "%d, %d", without, failures);
    graph_by_hand = NULL;
    tp_graph_free(g);
}

/* Allocations fail while the state is saved: it holds all histograms and images, or the status is TP_ERR_NOMEM. */
TEST(a_state_without_memory)
{
    by_hand h;
    page p;
    tp_tensor t;
    tp_summary_value v;
    const tp_summary one = {&v, 1};
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const int64_t n_x = TP_COUNT(x);
    long size = 0, failures = 0;
    const char *dir = begin_by_hand(&h, "state", 0);
    memset(&t, 0, sizeof t), memset(&v, 0, sizeof v);
    tp_tensor_view(&t, TP_F32, tp_make_shape_n(1, &n_x), x);
    v.tag = "weights", v.kind = TP_SUMMARY_HISTOGRAM, v.tensor = &t;
    for (int i = 0; i < 40; i++) CHECK_OK(tp_monitors_put_summary(h.all, &one));
    for (int pass = 0; pass < 2; pass++) /* the first pass, in which nothing fails, finds out the size */
        for (long n = pass ? 1 : 1 << 30, failed = 1; failed; n++) {
            tp_dict d;
            memset(&d, 0, sizeof d);
            tp_test_fail_after(n);
            const tp_status st = tp_callback_save_state(&h.report->cb, &d, "p/");
            failed = tp_test_alloc_failed();
            failures += failed;
            const tp_tensor *saved = st == TP_OK ? tp_dict_find(&d, "p/summaries") : NULL;
            CHECK_MSG(st == (failed ? TP_ERR_NOMEM : TP_OK), "allocation %ld: %s", n, tp_status_name(st));
            if (st == TP_OK && CHECK(saved != NULL)) {
                CHECK(size == 0 || size == (long)tp_tensor_size(saved));
                size = (long)tp_tensor_size(saved);
            }
            tp_dict_free(&d);
            CHECK(tp_test_live_blocks() == 0);
            tp_test_alloc_reset();
        }
    CHECK_MSG(failures > 3 && size > 1000, "%ld failures, %ld bytes", failures, size);
    if (end_by_hand(&h, &p, dir)) page_free(&p);
}

/* Allocations fail while the state is loaded: all histograms and images come back, or none and the status is TP_ERR_NOMEM. */
TEST(a_state_is_read_without_memory)
{
    by_hand h;
    page p;
    tp_tensor t;
    tp_summary_value v[2];
    const tp_summary both = {v, 2};
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const int64_t dim[2] = {2, 4};
    tp_dict d;
    long failures = 0;
    const char *dir = begin_by_hand(&h, "read", 0);
    memset(&t, 0, sizeof t), memset(v, 0, sizeof v), memset(&d, 0, sizeof d);
    tp_tensor_view(&t, TP_F32, tp_make_shape_n(2, dim), x);
    v[0].tag = "histogram", v[0].kind = TP_SUMMARY_HISTOGRAM, v[0].tensor = &t;
    v[1].tag = "image", v[1].kind = TP_SUMMARY_IMAGE, v[1].tensor = &t;
    for (int i = 0; i < 3; i++) CHECK_OK(tp_monitors_put_summary(h.all, &both));
    CHECK_OK(tp_callback_save_state(&h.report->cb, &d, "p/"));
    const tp_tensor *saved = tp_dict_find(&d, "p/summaries");
    for (long n = 1, failed = 1; failed && saved; n++) {
        tp_dict again;
        memset(&again, 0, sizeof again);
        tp_test_fail_after(n);
        const tp_status st = tp_callback_load_state(&h.report->cb, &d, "p/");
        failed = tp_test_alloc_failed();
        failures += failed;
        CHECK_MSG(st == (failed ? TP_ERR_NOMEM : TP_OK), "allocation %ld: %s", n, tp_status_name(st));
        tp_test_alloc_reset();
        CHECK_OK(tp_callback_save_state(&h.report->cb, &again, "p/"));
        const tp_tensor *same = tp_dict_find(&again, "p/summaries");
        const int64_t size = same ? tp_tensor_size(same) : 0;
        CHECK_MSG(size == (failed ? 0 : tp_tensor_size(saved)), "allocation %ld: %lld bytes", n, (long long)size);
        if (size > 0 && !failed) CHECK(memcmp(same->data, saved->data, (size_t)size) == 0);
        tp_dict_free(&again);
    }
    CHECK_MSG(failures > 3, "%ld failures", failures);
    tp_dict_free(&d);
    if (end_by_hand(&h, &p, dir)) page_free(&p);
}

/* What the report keeps of a state of `size` bytes is that of a state of `same_size` bytes. */
static void check_state_is_read(tp_monitor *m, const void *state, int64_t size, const void *same, int64_t same_size)
{
    tp_dict given, kept;
    tp_tensor t;
    memset(&given, 0, sizeof given), memset(&kept, 0, sizeof kept), memset(&t, 0, sizeof t);
    tp_tensor_view(&t, TP_U8, tp_make_shape_n(1, &size), (void *)(uintptr_t)state);
    CHECK_OK(tp_tensor_copy(tp_dict_add(&given, "p/summaries"), &t));
    said[0] = 0;
    tp_set_log(sink, NULL);
    CHECK_OK(tp_callback_load_state(&m->cb, &given, "p/"));
    tp_set_log(NULL, NULL);
    CHECK_STR(said, "");
    CHECK_OK(tp_callback_save_state(&m->cb, &kept, "p/"));
    const tp_tensor *is = tp_dict_find(&kept, "p/summaries");
    CHECK(is && tp_tensor_size(is) == same_size && memcmp(is->data, same, (size_t)same_size) == 0);
    tp_dict_free(&given);
    tp_dict_free(&kept);
}

/* A tag may have any length. */
TEST(a_state_with_long_tags)
{
    static const int length[] = {0, 1, 1023, 1024, 100000};
    static char tag[100001];
    by_hand h;
    page p;
    tp_tensor t;
    tp_dict d;
    float x[4] = {1, 2, 3, 5};
    const int64_t n_x = TP_COUNT(x);
    const char *dir = begin_by_hand(&h, "long tags", 0);
    memset(&t, 0, sizeof t), memset(&d, 0, sizeof d);
    tp_tensor_view(&t, TP_F32, tp_make_shape_n(1, &n_x), x);
    for (int i = 0; i < TP_COUNT(length); i++) {
        memset(tag, 'x', sizeof tag);
        tag[length[i]] = 0;
        put_histogram(&h, tag, &t);
    }
    CHECK_OK(tp_callback_save_state(&h.report->cb, &d, "p/"));
    const tp_tensor *saved = tp_dict_find(&d, "p/summaries");
    if (CHECK(saved && tp_tensor_size(saved) > 102000))
        check_state_is_read(h.report, saved->data, tp_tensor_size(saved), saved->data, tp_tensor_size(saved));
    tp_dict_free(&d);
    if (end_by_hand(&h, &p, dir)) {
        CHECK(get(p.data, "histograms")->n == TP_COUNT(length));
        page_free(&p);
    }
}

/* Older versions saved counts as float32, and a kind without the flag that says double. */
TEST(a_state_of_an_older_version_is_read)
{
    enum { KIND = 4 + 1, HEAD = KIND + 4 + 8 + 8 + 4 + 4, RANGE = 8 + 8 + 8, BINS = 32 }; /* bytes; the tag has one */
    by_hand h;
    page p;
    tp_tensor t;
    tp_dict d;
    tp_buf old;
    float x[5] = {1, 2, 3, 5, 2.5f};
    const int64_t n_x = TP_COUNT(x);
    const char *dir = begin_by_hand(&h, "older", 0);
    memset(&t, 0, sizeof t), memset(&d, 0, sizeof d), memset(&old, 0, sizeof old);
    tp_tensor_view(&t, TP_F32, tp_make_shape_n(1, &n_x), x);
    put_histogram(&h, "w", &t);
    CHECK_OK(tp_callback_save_state(&h.report->cb, &d, "p/"));
    const tp_tensor *saved = tp_dict_find(&d, "p/summaries");
    if (CHECK(saved && tp_tensor_size(saved) == HEAD + RANGE + 8 * BINS + 4)) {
        const unsigned char *byte = (const unsigned char *)saved->data;
        double sum = 0;
        tp_buf_put(&old, byte, HEAD + RANGE);
        old.data[KIND + 1] = 0; /* the flag is 0x100 */
        for (int i = 0; i < BINS; i++) {
            const uint64_t bits = little(byte + HEAD + RANGE + 8 * i, 8);
            double count;
            memcpy(&count, &bits, sizeof bits);
            sum += count;
            const float f = (float)count;
            uint32_t word;
            memcpy(&word, &f, sizeof f);
            const unsigned char four[] = {(unsigned char)word, (unsigned char)(word >> 8), (unsigned char)(word >> 16),
                                          (unsigned char)(word >> 24)};
            tp_buf_put(&old, four, 4);
        }
        tp_buf_put(&old, "\0\0\0\0", 4);
        CHECK(sum == TP_COUNT(x) && byte[KIND + 1] == 1);
        check_state_is_read(h.report, old.data, (int64_t)old.len, saved->data, tp_tensor_size(saved));
    }
    tp_buf_free(&old);
    tp_dict_free(&d);
    if (end_by_hand(&h, &p, dir)) page_free(&p);
}

/* Something else has the page's name: training goes on, and its end says that the page is not there. */
TEST(a_page_that_cannot_be_written)
{
    page p;
    char path[700];
    setting s = {.dir = in_folder("refused"), .epochs = 2, .every = (double)TP_ZERO};
    CHECK_OK(tp_logger_set_dir(s.dir, 'd'));
    snprintf(path, sizeof path, "%s/report.html/inside", s.dir);
    CHECK_OK(tp_make_dirs(path));
    s.resume = true; /* keeps the directory */
    TEST_EXPECT_ERROR("The report '");
    TEST_EXPECT_ERROR("was not written at global_step=12");
    CHECK_ERR(train(&s), TP_ERR_IO, "was not written at global_step=12");
    CHECK_HAS(said, "Epoch 2 (global_step 12) finished");
    CHECK(exists(s.dir, "stats.json"));
    CHECK(!page_read(&p, s.dir));
    page_free(&p);
    const char *once = strstr(said, "The report '");
    CHECK(once && !strstr(once + 1, "The report '")); /* one line, not one a step */
}

/* The folder's path fits into 4095 bytes; with the name of the page behind it, it does not. */
TEST(a_page_whose_path_is_too_long)
{
    enum { LONGEST = 4095, PAGE = 12 }; /* of a path; of "/report.html" */
    static char dir[LONGEST + 1], path[LONGEST + 100];
    static const int left_for_page[] = {60, PAGE, PAGE - 1, PAGE - 4};
    TEST_MAY_ERROR("");
    for (int i = 0; i < TP_COUNT(left_for_page); i++) {
        tp_train_state state;
        tp_monitor_report_desc d;
        const size_t size = (size_t)(LONGEST - left_for_page[i]);
        tp_test_long_path(dir, size, in_folder("long"));
        memset(&state, 0, sizeof state), memset(&d, 0, sizeof d);
        state.is_chief = true;
        if (tp_logger_set_dir(dir, 'k') != TP_OK) TEST_SKIP("there are no paths that long here");
        tp_monitor *m = tp_monitor_report_(&d);
        CHECK_OK(tp_callback_setup_graph(&m->cb, &state));
        if (left_for_page[i] >= PAGE) CHECK_OK(tp_callback_before_train(&m->cb));
        else CHECK_ERR(tp_callback_before_train(&m->cb), TP_ERR_ARG, "is longer than 4095 bytes");
        snprintf(path, sizeof path, "%s/report.html", dir);
        if (i == 0) CHECK(tp_file_exists(path));
        tp_monitor_free(m);
    }
    CHECK_OK(tp_logger_set_dir(NULL, 0));
}

static int body(void *user)
{
    const tp_status st = train((const setting *)user);
    return st == TP_OK ? 0 : st == TP_ERR_IO ? 5 : 1;
}

/* Killed at its system calls: the page is absent, or whole. Then the same with a disk that is full from there on. */
TEST(killed_between_any_two_system_calls)
{
    inject_plan plan;
    inject_result r;
    page p;
    setting s = {.dir = in_folder("killed"), .epochs = 2, .steps = 2, .alone = true, .every = (double)TP_ZERO};
    memset(&plan, 0, sizeof plan);
    memset(&r, 0, sizeof r);
    if (inject_run(body, &s, &plan, &r) != 0) TEST_SKIP(r.why);
    CHECK(WIFEXITED(r.status) && WEXITSTATUS(r.status) == 0);
    const bool quick = getenv("TP_TEST_QUICK") != NULL;
    const long calls = r.calls, stride = getenv("TP_TEST_WHOLE") ? 1 : calls / (quick ? 6 : 25) + 1;
    int whole = 0, died = 0, ended = 0;
    TEST_MAY_ERROR("");
    for (int full = 0; full < 2; full++)
        for (long n = 1 + full; n <= calls; n += stride) {
            char path[700];
            plan.what = full ? INJECT_FAIL_FROM : INJECT_KILL;
            plan.kinds = full ? INJECT_WRITE | INJECT_SYNC : 0;
            plan.error = ENOSPC;
            plan.n = full ? n / 3 + 1 : n;
            CHECK(inject_run(body, &s, &plan, &r) == 0);
            died += WIFSIGNALED(r.status);
            ended += WIFEXITED(r.status);
            if (full) CHECK_MSG(WIFEXITED(r.status) && (WEXITSTATUS(r.status) == 5 || !r.fired), "call %ld", n);
            snprintf(path, sizeof path, "%s/report.html", s.dir);
            if (!tp_file_exists(path)) continue;
            CHECK_MSG(page_read(&p, s.dir), "call %ld, %s: the page is not whole", n, r.call);
            whole += p.data != NULL;
            page_free(&p);
        }
    CHECK_MSG(whole > (quick ? 2 : 10) && died > (quick ? 2 : 10) && ended > (quick ? 2 : 10), "%d, %d, %d", whole,
              died, ended);
}

/* The part of a checkpoint that is the report's is input like any other. */
/* Adds to h what the report keeps of a state, and what it said of it. */
static uint64_t hash_of_what_is_kept(uint64_t h, tp_monitor *m, const tp_dict *given)
{
    tp_dict kept;
    memset(&kept, 0, sizeof kept);
    said[0] = 0;
    CHECK_OK(tp_callback_load_state(&m->cb, given, "p/"));
    h = golden_hash(h, said);
    CHECK_OK(tp_callback_save_state(&m->cb, &kept, "p/"));
    const tp_tensor *t = tp_dict_find(&kept, "p/summaries");
    for (int64_t i = 0; t && i < tp_tensor_size(t); i++) h = (h ^ ((const unsigned char *)t->data)[i]) * 0x100000001b3u;
    tp_dict_free(&kept);
    return tp_test_mix(h);
}

TEST(a_damaged_state_is_left_out)
{
    tp_train_state state;
    tp_monitor_report_desc d;
    tp_dict dict;
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    tp_tensor t;
    tp_summary_value v[2];
    tp_summary both = {v, 2};
    const int64_t dim[2] = {2, 4};
    memset(&state, 0, sizeof state), memset(&d, 0, sizeof d), memset(&t, 0, sizeof t), memset(v, 0, sizeof v);
    memset(&dict, 0, sizeof dict);
    state.is_chief = true;
    CHECK_OK(tp_logger_set_dir(in_folder("damaged"), 'd'));
    tp_monitor *m = tp_monitor_report_(&d);
    CHECK_OK(tp_callback_setup_graph(&m->cb, &state));
    tp_tensor_view(&t, TP_F32, tp_make_shape_n(2, dim), x);
    v[0].tag = "histogram", v[0].kind = TP_SUMMARY_HISTOGRAM, v[0].tensor = &t;
    v[1].tag = "image", v[1].kind = TP_SUMMARY_IMAGE, v[1].tensor = &t;
    for (int i = 0; i < 3; i++) CHECK_OK(m->process_summary(m, &both));
    CHECK_OK(tp_callback_save_state(&m->cb, &dict, "p/"));
    tp_tensor *saved = tp_dict_find(&dict, "p/summaries");
    if (!CHECK(saved && saved->dtype == TP_U8)) return;
    const int64_t size = tp_tensor_size(saved);
    unsigned char *byte = (unsigned char *)saved->data;
    tp_set_log(sink, NULL);
    for (int64_t i = 0; i < size; i++) {
        const unsigned char was = byte[i];
        byte[i] = (unsigned char)(i % 3 ? was ^ (1 << (i % 8)) : 0xff);
        uint64_t h = hash_of_what_is_kept(0, m, &dict);
        const unsigned char others[] = {0, 1, (unsigned char)(was + 1), (unsigned char)(was - 1), 0x80, 0x7f};
        for (int k = 0; k < TP_COUNT(others); k++) {
            byte[i] = others[k];
            h = hash_of_what_is_kept(h, m, &dict);
        }
        golden_digest(h);
        byte[i] = was;
    }
    golden_compare("digests_reports.txt", "damaged states of the report");
    int silent = 0;
    for (int64_t n = 0; n < size; n++) { /* cut off */
        tp_dict cut;
        tp_tensor part;
        memset(&cut, 0, sizeof cut), memset(&part, 0, sizeof part);
        tp_tensor_view(&part, TP_U8, tp_make_shape_n(1, &n), byte);
        CHECK_OK(tp_tensor_copy(tp_dict_add(&cut, "p/summaries"), &part));
        said[0] = 0;
        CHECK_OK(tp_callback_load_state(&m->cb, &cut, "p/"));
        if (!*said) silent++;
        else CHECK_HAS(said, "histograms and images of the report cannot be read");
        tp_dict_free(&cut);
    }
    CHECK_MSG(silent == 2, "%d", silent); /* nothing, and the histograms alone */
    tp_set_log(NULL, NULL);
    CHECK_OK(tp_callback_load_state(&m->cb, &dict, "p/")); /* and whole it is what it was */
    tp_dict again;
    memset(&again, 0, sizeof again);
    CHECK_OK(tp_callback_save_state(&m->cb, &again, "p/"));
    const tp_tensor *same = tp_dict_find(&again, "p/summaries");
    CHECK(same && tp_tensor_size(same) == size && memcmp(same->data, saved->data, (size_t)size) == 0);
    tp_dict_free(&again);
    tp_dict_free(&dict);
    tp_monitor_free(m);
}

/* The page's script, in node: its drawings, and the numbers under the cursor. */
TEST(the_page_shows_them)
{
    char options[700];
    setting s = {.dir = in_folder("shown"), .epochs = 12, .steps = 20};
    if (!there_is_node()) TEST_SKIP("there is no node");
    CHECK_OK(train(&s));
    snprintf(options, sizeof options, "--width 360 --add '%s/stats.json'", s.dir);
    ask_node(s.dir, options);
}

TEST(the_memory_of_these_tests_is_given_back) { tp_arena_free(&json_memory); }

TEST_MAIN()
