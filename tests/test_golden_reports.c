/* test_golden_reports.c - what is reported and where it ends: random numbers, pictures and histograms in stats.json, event files, the
 * printed list and the report's page; files that are almost right; the logger's folders and lines. All of it is what was seen
 * before (digests_reports.txt).
 *
 *     TP_TEST_PRINT=monitors:17 ...     prints what case 17 of the section tells */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define TP_IMPLEMENTATION
#define TP_STATIC
#include "tp_train.h"
#include "tp_test.h"
#include "golden.h"
#include "golden_text.h"

/* ==== >>monitors ====================================================================================== */

static const char *a_name(void)
{
    static const char *const of[] = {"a",
                                     "b",
                                     "cost",
                                     "tower0/a",
                                     "tower12/b-summary",
                                     "a-summary",
                                     "x/y/z",
                                     "",
                                     "with space",
                                     "\"quote\"",
                                     "back\\slash",
                                     "<b>&",
                                     "\xc3\xa9t\xc3\xa9",
                                     "\xff\xfe",
                                     "line\nend",
                                     "tab\t",
                                     "global_step",
                                     "epoch_num",
                                     "\x01",
                                     "tower/a",
                                     "Throughput",
                                     "a-summary-summary",
                                     "towerX/q",
                                     "tower1/tower2/r"};
    return RND_OF(of);
}
static double a_value(void)
{
    static const double of[] = {0,
                                -0.0,
                                1,
                                0.5,
                                0.1,
                                1e-7,
                                1e300,
                                -1e-300,
                                123456789,
                                0.30000000000000004,
                                1e16,
                                1e15,
                                -2.75,
                                1e22,
                                3.0e-5,
                                65536,
                                4.9406564584124654e-324,
                                1.7976931348623157e308};
    if (chance(8)) return chance(3) ? NAN : chance(2) ? INFINITY : -INFINITY;
    return RND_OF(of);
}
static void a_tensor(tp_tensor *t, bool picture)
{
    static const int64_t sides[] = {1, 2, 3, 4, 5, 8, 0, 16, 7};
    static const tp_dtype types[] = {TP_F32, TP_U8, TP_F64, TP_I32, TP_F16, TP_BOOL, TP_I64};
    int64_t dim[5];
    const int n = (int)rnd(picture ? 5 : 4) + (picture && !chance(20));
    const tp_dtype type = RND_OF(types);
    for (int i = 0; i < n && i < 5; i++) dim[i] = RND_OF(sides);
    if (picture && n >= 3 && n <= 5 && !chance(4)) dim[n - 1] = 1 + rnd(4);
    if (picture && n == 2 && chance(12)) dim[0] = 300;
    memset(t, 0, sizeof *t);
    CHECK_OK(tp_tensor_resize(t, type, tp_make_shape_n(n < 5 ? n : 5, dim)));
    const int64_t kind = rnd(6), scale = 1 + rnd(20);
    for (int64_t i = 0; i < tp_tensor_size(t); i++) {
        double v = (double)((i * scale * 7 + kind) % 256);
        if (kind == 0 && type == TP_F32 && i == 1) v = NAN;
        if (kind == 1) v -= 100;
        if (kind == 2) v /= 4;
        if (kind == 3) v = 3;
        tp_tensor_set(t, i, v);
    }
}

static tp_monitor *a_monitor(void)
{
    tp_monitor_tf_event_writer_desc e;
    tp_monitor_scalar_printer_desc s;
    tp_monitor_report_desc r;
    static const char *const patterns[] = {"cost", ".*", "^a$", "b|c", "", "tower"};
    static const int queues[] = {0, 1, 2, TP_NONE, 100};
    static const double seconds[] = {0, 0, 1, 3, 100};
    memset(&e, 0, sizeof e), memset(&s, 0, sizeof s), memset(&r, 0, sizeof r);
    switch (rnd(6)) {
    case 0: e.max_queue = RND_OF(queues), e.flush_secs = RND_OF(seconds); return tp_monitor_tf_event_writer_(&e);
    case 1:
    case 2: return tp_monitor_json_writer();
    case 3:
        s.enable_step = chance(2) ? TP_YES : TP_UNSET, s.enable_epoch = chance(4) ? TP_NO : TP_UNSET;
        for (int64_t i = rnd(3); i-- > 0;) s.whitelist[i] = RND_OF(patterns);
        if (chance(3)) s.blacklist[0] = RND_OF(patterns);
        return tp_monitor_scalar_printer_(&s);
    default:
        r.every_secs = chance(8) ? TP_ZERO : RND_OF(seconds);
        r.trace = TP_NO;
        if (chance(3)) r.runs[0] = tp_test_path(other_dir, "other");
        if (chance(8)) r.runs[r.runs[0] ? 1 : 0] = "no such folder";
        return tp_monitor_report_(&r);
    }
}

static void report_something(tp_monitors *m)
{
    tp_summary_value v[4];
    tp_tensor t[4];
    tp_summary s;
    tp_event event;
    tp_status st = TP_OK;
    const int64_t kind = rnd(12);
    const char *name = a_name();
    const double value = a_value();
    memset(v, 0, sizeof v), memset(t, 0, sizeof t), memset(&event, 0, sizeof event);
    switch (kind) {
    case 0:
    case 1: {
        static const int64_t of[] = {0, 1, -1, INT64_MAX, INT64_MIN, 1 << 30, 7};
        st = tp_monitors_put_int(m, name, RND_OF(of));
        break;
    }
    case 2:
        a_tensor(&t[0], true);
        st = tp_monitors_put_image(m, name, &t[0]);
        break;
    case 3: st = tp_monitors_process(m, name, value); break;
    case 4: {
        static const unsigned char bytes[] = {1, 2, 3, 0, 5};
        event.field = 4 + (unsigned)rnd(5), event.data = bytes, event.size = (size_t)rnd(6);
        st = tp_monitors_put_event(m, &event);
        break;
    }
    case 5:
    case 6:
    case 7:
        s.n = (int)rnd(5);
        s.value = v;
        for (int i = 0; i < s.n; i++) {
            static const int kinds[] = {TP_SUMMARY_SCALAR, TP_SUMMARY_HISTOGRAM, TP_SUMMARY_IMAGE};
            v[i].tag = a_name(), v[i].kind = RND_OF(kinds), v[i].scalar = a_value();
            v[i].is_int = false;
            a_tensor(&t[i], v[i].kind == TP_SUMMARY_IMAGE);
            if (v[i].kind != TP_SUMMARY_SCALAR) v[i].tensor = &t[i];
        }
        st = tp_monitors_put_summary(m, &s);
        break;
    default: st = tp_monitors_put_scalar(m, name, value);
    }
    for (int i = 0; i < 4; i++) tp_tensor_free(&t[i]);
    if (st != TP_OK) tell("put %d: %s %s\n", (int)kind, tp_status_name(st), tp_last_error());
}

static void ask(const tp_monitors *m)
{
    tp_stat s;
    const tp_stat *all = NULL;
    const char *name = a_name();
    memset(&s, 0, sizeof s);
    const tp_status st = tp_monitors_get_latest(m, name, &s);
    const int n = tp_monitors_get_history(m, name, &all);
    tell("latest %s: %s %s %lld", name, tp_status_name(st), st == TP_OK ? "" : tp_last_error(), (long long)s.step);
    tell_number(s.value);
    for (int i = 0; i < n; i++) {
        tell(" %lld%s", (long long)all[i].step, all[i].is_int ? "i" : "");
        tell_number(all[i].value);
    }
    tell("\n");
}

typedef struct run {
    tp_train_state t;
    tp_monitor *monitor[4];
    tp_callback *list[5];
    int n;
} run;

static bool all_do(run *r, const char *what, tp_status (*hook)(tp_callback *cb))
{
    bool ok = true;
    for (int i = 0; i < r->n; i++) {
        const tp_status st = hook(r->list[i]);
        if (st != TP_OK) tell("%s of %s: %s %s\n", what, r->list[i]->name, tp_status_name(st), tp_last_error());
        ok = ok && st == TP_OK;
    }
    return ok;
}
static bool begin_run(run *r, bool same)
{
    tp_dict state;
    memset(&state, 0, sizeof state);
    if (same) {
        for (int i = 0; i < r->n; i++) {
            char prefix[16];
            snprintf(prefix, sizeof prefix, "%d/", i);
            tell("saved %s\n", tp_status_name(tp_callback_save_state(r->list[i], &state, prefix)));
        }
        for (int i = 0; i < state.n; i++) {
            if (state.item[i].value.dtype == TP_U8)
                tell("%s has %d bytes\n", state.item[i].name, (int)tp_tensor_size(&state.item[i].value));
            else tell_tensor(state.item[i].name, &state.item[i].value);
        }
        for (int i = 0; i < r->n; i++) tp_callback_free(r->list[i]);
        r->t.resumed = true;
    }
    r->n = (int)rnd(4);
    for (int i = 0; i < r->n; i++) r->monitor[i] = a_monitor(), r->list[i] = &r->monitor[i]->cb;
    tp_monitors *m = tp_monitors_new(r->monitor, r->n);
    r->t.monitors = m;
    r->list[r->n++] = &m->cb;
    bool ok = true;
    for (int i = 0; i < r->n; i++) {
        const tp_status st = tp_callback_setup_graph(r->list[i], &r->t);
        if (st != TP_OK) tell("setup: %s %s\n", tp_status_name(st), tp_last_error());
        ok = ok && st == TP_OK;
    }
    for (int i = 0; i < r->n && ok && same; i++) {
        char prefix[16];
        snprintf(prefix, sizeof prefix, "%d/", i);
        r->list[i]->resumed = true;
        tell("loaded %s\n", tp_status_name(tp_callback_load_state(r->list[i], &state, prefix)));
    }
    tp_dict_free(&state);
    return ok && all_do(r, "before_train", tp_callback_before_train);
}

static void monitors_case(void)
{
    run r;
    memset(&r, 0, sizeof r);
    r.t.is_chief = true, r.t.starting_epoch = 1, r.t.steps_per_epoch = 1 + rnd(4), r.t.max_epoch = 1 + rnd(4);
    r.t.local_step = -1;
    if (chance(12)) r.t.max_epoch = 99999, r.t.global_step = INT64_C(4294967290);
    const int64_t epochs = 1 + rnd(4), busy = 1 + rnd(6), resume_at = chance(2) ? 1 + rnd(3) : 0;
    bool on = begin_run(&r, false);
    for (r.t.epoch_num = 1; on && r.t.epoch_num <= epochs; r.t.epoch_num++) {
        all_do(&r, "before_epoch", tp_callback_before_epoch);
        r.t.within_ = true, r.t.done_ = 0;
        for (r.t.local_step = 0; r.t.local_step < r.t.steps_per_epoch; r.t.local_step++) {
            r.t.global_step++, r.t.done_++;
            clock_at += 0.75;
            for (int64_t i = rnd(busy); i-- > 0;) report_something(r.t.monitors);
            all_do(&r, "trigger_step", tp_callback_trigger_step);
        }
        all_do(&r, "after_epoch", tp_callback_after_epoch);
        for (int64_t i = rnd(busy); i-- > 0;) report_something(r.t.monitors);
        r.t.within_ = false;
        all_do(&r, "trigger_epoch", tp_callback_trigger_epoch);
        ask(r.t.monitors);
        if (r.t.epoch_num != resume_at) continue;
        if (chance(3)) all_do(&r, "after_train", tp_callback_after_train);
        if (chance(4)) r.t.global_step -= rnd(3);
        on = begin_run(&r, true);
    }
    static const tp_status ends[] = {TP_OK, TP_STOP, TP_END, TP_INTR, TP_ERR_ARG};
    r.t.end_ = RND_OF(ends);
    snprintf(r.t.stop_reason, sizeof r.t.stop_reason, "%s", a_name());
    all_do(&r, "after_train", tp_callback_after_train);
    for (int i = 0; i < r.n; i++) {
        if (r.list[i]->unsaved) tell("unsaved: %s\n", r.list[i]->unsaved);
        tp_callback_free(r.list[i]);
    }
}
static void other_run(void)
{
    static const char *const texts[] = {
        "[{\"a\": 1.5, \"global_step\": 1}, {\"a\": 2, \"b\": null, \"global_step\": 2}]", "[]", "[{",
        "[{\"a\": NaN, \"global_step\": 3, \"epoch_num\": 1}]", "[{\"a\": 1}]"};
    const char *text = RND_OF(texts), *dir = tp_test_path(other_dir, "other");
    tp_make_dirs(dir);
    rewrite(tp_test_path(dir, "stats.json"), text);
}
static void some_monitors(const char *section, uint64_t seed)
{
    if (!clock_stands()) TEST_SKIP("needs a clock that can be stopped");
    TEST_MAY_ERROR("");
    for (int i = 0; i < 250; i++) {
        begin_case(seed + (uint64_t)i);
        tp_logger_set_dir(chance(30) ? NULL : case_dir, 0);
        other_run();
        if (chance(6))
            tp_test_write(tp_test_path(case_dir, "stats.json"), "[{\"epoch_num\": 1, \"global_step\": 1}]", 36);
        monitors_case();
        tell_folder(case_dir);
        end_case(section, i);
    }
    end_cases();
    golden_compare("digests_reports.txt", section);
}
TEST(random_reports) { some_monitors("monitors", 100); }
TEST(more_random_reports) { some_monitors("more monitors", 1100); }

/* Long histories are thinned, numbers near the ends of pieces and of types. */
TEST(long_histories)
{
    TEST_MAY_ERROR("");
    for (int i = 0; i < 200; i++) {
        static const int sizes[] = {1, 2, 5, 9, 10, 11, 49, 50, 51, 99, 100, 101, 1000},
                         most[] = {5, 10, 50, 49, 9, 100};
        static tp_stat s[1000];
        tp__report r;
        tp_buf values;
        begin_case(3000 + (uint64_t)i);
        memset(&r, 0, sizeof r), memset(&values, 0, sizeof values);
        const int n = RND_OF(sizes), max_points = RND_OF(most);
        int64_t step = chance(3) ? -5 : rnd(3);
        for (int k = 0; k < n; k++) {
            s[k].step = step;
            s[k].value = chance(20) ? NAN : (double)rnd(9) - 4;
            step += chance(4) ? 0 : 1 + rnd(3);
        }
        tell("%d points", tp__report_reduce_points(&r, s, n, max_points, chance(2), &values));
        for (size_t k = 0; k < r.scratch.len; k++) tell(" %x", (unsigned)(unsigned char)r.scratch.data[k]);
        for (size_t k = 0; k < values.len / 8; k++) {
            double v;
            memcpy(&v, values.data + 8 * k, 8);
            tell_number(v);
        }
        tp_buf_free(&r.scratch);
        tp_buf_free(&values);
        end_case("histories", i);
    }
    end_cases();
    golden_compare("digests_reports.txt", "histories");
}

/* ==== >>almost right files ============================================================================ */

/* A text with some of its characters changed, left out, doubled or cut off. */
static char *almost(const char *text)
{
    static const char marks[] = "{}[]\",: \n\\0123456789.eE+-truefalsnN\t/\x01\xff";
    static char out[2048];
    size_t n = strlen(text);
    memcpy(out, text, n + 1);
    for (int64_t k = rnd(4); k-- > 0 && n > 0 && n < 1900;) {
        const size_t at = (size_t)rnd((int64_t)n), size = (size_t)rnd(6);
        const char mark = marks[rnd(TP_COUNT(marks) - 1)];
        switch (rnd(5)) {
        case 0: out[at] = mark; break;
        case 1:
            memmove(out + at + 1, out + at, n - at + 1);
            out[at] = mark;
            n++;
            break;
        case 2: {
            const size_t cut = at + size < n ? size : n - at;
            memmove(out + at, out + at + cut, n - at - cut + 1);
            n -= cut;
            break;
        }
        case 3: out[n = at] = 0; break;
        default:
            memmove(out + at + size, out + at, n - at + 1);
            n += size;
            break;
        }
    }
    return out;
}
static void tell_json(const char *dir)
{
    int64_t epoch = -7;
    tp_stat_entry *e = NULL;
    char *text = NULL;
    int n = -7;
    tp_status st = tp_load_existing_epoch_number(dir, &epoch);
    tell("%s %s %lld\n", tp_status_name(st), st == TP_OK ? "" : tp_last_error(), (long long)epoch);
    st = tp_load_existing_stats(dir, &e, &n);
    tell("%s %s %d\n", tp_status_name(st), st == TP_OK ? "" : tp_last_error(), n);
    for (int i = 0; i < n && e; i++) {
        tell("  %s %lld %lld", e[i].name, (long long)e[i].epoch_num, (long long)e[i].global_step);
        tell_number(e[i].value);
        tell("\n");
    }
    tp_free(e);
    st = tp_load_existing_json(dir, &text);
    tell("%s %s %s\n", tp_status_name(st), st == TP_OK ? "" : tp_last_error(), text ? text : "");
    tp_free(text);
}
static void some_json(const char *section, uint64_t seed)
{
    static const char *const texts[] = {
        "[{\"a\": 1.5, \"epoch_num\": 1, \"global_step\": 2}, {\"a\": 2, \"epoch_num\": 2, \"global_step\": 4}]",
        "[]",
        "[{}]",
        "[{\"cost\": NaN, \"x\": Infinity, \"y\": -Infinity, \"epoch_num\": 3, \"global_step\": 9}]",
        "[{\"a\\\"b\\u00e9\\n\": -1e-7, \"s\": \"text\", \"l\": [1, [2]], \"o\": {\"p\": 1}, \"t\": true}]\n",
        " [ { \"epoch_num\" : 1.0 , \"global_step\" : -3 } , { \"epoch_num\" : 9223372036854775807 } ] ",
        "[{\"epoch_num\": \"1\"}, {\"global_step\": 5}, {\"a\": 1}]",
        "{\"a\": 1}",
        "[1, 2]",
        "",
    };
    TEST_MAY_ERROR("");
    for (int i = 0; i < 600; i++) {
        begin_case(seed + (uint64_t)i);
        same_folder = true;
        for (int k = 0; k < 3; k++) {
            const char *text = almost(RND_OF(texts));
            tell("text %s\n", text);
            rewrite(tp_test_path(case_dir, "stats.json"), text);
            tell_json(case_dir);
        }
        end_case(section, i);
    }
    end_cases();
    golden_compare("digests_reports.txt", section);
}
TEST(almost_right_stats) { some_json("json", 4000); }
TEST(more_almost_right_stats) { some_json("more json", 5000); }

TEST(almost_right_hyper_txt)
{
    static const char *const texts[] = {"lr: 0.5\n",
                                        "lr: 0.5\nother: 2\n",
                                        "other: 2\nlr:0.25",
                                        "lr : 1e-3\n",
                                        "lr:\n",
                                        "# lr: 1\nlr: 2\n",
                                        "lr: 0.5\r\nb: 1\r\n",
                                        "lr: 0x10\n",
                                        "lr: inf\n",
                                        "lr: 1 2\n",
                                        "lr: 0.5\n\nb: 2\n",
                                        "lr=0.5\n",
                                        "LR: 0.5\n",
                                        "lrx: 1\nlr: 3\n",
                                        " lr: 4\n",
                                        "lr: 5\nlr: 6\nlr: 7\n",
                                        "",
                                        "lr: 99999999999\n"};
    TEST_MAY_ERROR("");
    for (int i = 0; i < 300; i++) {
        double value = 1;
        int32_t whole = 2;
        tp_train_state t;
        tp_cb_human_hyper_param_setter_desc h;
        begin_case(6000 + (uint64_t)i);
        if (i == 0) tp_logger_set_dir(case_dir, 'k');
        same_folder = true;
        memset(&h, 0, sizeof h), memset(&t, 0, sizeof t);
        const bool is_int = chance(4);
        h.param = is_int ? tp_param_field("lr", &whole, TP_I32) : tp_param_field("lr", &value, TP_F64);
        tp_callback *cb = tp_cb_human_hyper_param_setter_(&h);
        tp_status st = tp_callback_setup_graph(cb, &t);
        if (st == TP_OK) st = tp_callback_before_train(cb);
        for (t.epoch_num = 1; t.epoch_num < 6 && st == TP_OK; t.epoch_num++) {
            const char *text = almost(RND_OF(texts));
            tell("text '%s'\n", text);
            rewrite(tp_test_path(case_dir, "hyper.txt"), text);
            st = tp_callback_trigger_epoch(cb);
            tell("%s %s %.17g %d\n", tp_status_name(st), st == TP_OK ? "" : tp_last_error(), value, (int)whole);
        }
        tp_callback_free(cb);
        end_case("hyper", i);
    }
    end_cases();
    golden_compare("digests_reports.txt", "hyper");
}

/* Formats of numbers in commands, and times as text. */
TEST(formats_of_numbers)
{
    static const char *const signs[] = {"", "", "<", ">", "<+", "> ", "-", "+", " ", "#", "0", "+0", "#0", "x"};
    static const char *const ends[] = {"", "d", "e", "E", "f", "F", "g", "G", "%", "q", "ff", "s"};
    static const char *const sizes[] = {"", "", "1", "5", "12", "99", "100", "101", "00"};
    static const char *const precisions[] = {"", "", ".", ".0", ".1", ".3", ".17", ".99", ".100", "..1"};
    static const double seconds[] = {0,     1e-9, 0.001234567, 0.9994, 0.9996, 1,     1.5,   59,  59.4, 59.96, 60, 61,
                                     119.5, 3599, 3600,        3661,   86399,  86400, 90061, 1e7, 1e12, -1,    -60};
    for (int i = 0; i < 500; i++) {
        char spec[64], text[TP_TIME_TEXT];
        tp_buf b;
        tp_stat s;
        begin_case(7000 + (uint64_t)i);
        same_folder = true;
        for (int k = 0; k < 8; k++) {
            memset(&b, 0, sizeof b), memset(&s, 0, sizeof s);
            const char *sign = RND_OF(signs), *size = RND_OF(sizes), *precision = RND_OF(precisions),
                       *end = RND_OF(ends);
            snprintf(spec, sizeof spec, "%s%s%s%s", sign, size, precision, end);
            s.value = a_value(), s.is_int = chance(3);
            if (s.is_int) s.value = (double)rnd(1000) - 500;
            const bool ok = tp__send_value(&b, spec, strlen(spec), &s);
            tell("%s %.17g: %d '%s'\n", spec, s.value == s.value ? s.value : 0, ok, b.data ? b.data : "");
            tp_buf_free(&b);
            const double time = RND_OF(seconds);
            tell("%.17g %s\n", time, tp_humanize_time_delta(time, text));
        }
        end_case("formats", i);
    }
    end_cases();
    golden_compare("digests_reports.txt", "formats");
}

/* ==== >>logger ======================================================================================== */

static void fill_folder(const char *dir)
{
    static const char *const names[] = {"log.log", "log.log", "a.txt", ".hidden", "sub", "stats.json", "log.log.old"};
    tp_make_dirs(dir);
    for (int64_t i = rnd(4); i-- > 0;) {
        const char *name = RND_OF(names);
        if (strcmp(name, "sub") == 0) tp_make_dirs(tp_test_path(tp_test_path(dir, "sub"), "inner"));
        else rewrite(tp_test_path(dir, name), name);
    }
}
/* Sets a folder that is there, is not, is a file or has odd names, with each action. */
static void set_folder(void)
{
    static const char actions[] = {'k', 'd', 'b', 'n', 0, 'x', 'K'};
    static const char *const names[] = {"run", "run/", "run//", "deep/er/run", "a b", "file", "file/run", "."};
    static char path[900];
    const char *name = RND_OF(names), action = RND_OF(actions);
    const char *set = tp_test_path(case_dir, name);
    if (strcmp(name, "file") == 0 || strcmp(name, "file/run") == 0) rewrite(tp_test_path(case_dir, "file"), "file");
    else if (strcmp(name, ".") != 0 && chance(2)) fill_folder(set);
    if (chance(12)) set = NULL;
    else if (chance(16)) set = "";
    else if (chance(16)) tp_test_long_path(path, strlen(case_dir) + 450, case_dir), set = path;
    const tp_status st = tp_logger_set_dir(set, action);
    const char *now = tp_logger_dir();
    tell("set '%s' %d: %s %s: %s; %s\n", name, action, tp_status_name(st), st == TP_OK ? "" : tp_last_error(),
         now ? now : "none", tp__logger_missing());
    if (chance(3)) tp_log(TP_LOG_INFO, "a line in %s", name);
}
static void auto_folder(void)
{
    static const char *const programs[] = {"train.c", "/a/b/train.py", "./x", "", "dir/", ".hidden", "a.b.c", "x/.y"};
    static const char *const names[] = {"", "one", "a/b"};
    char before[900];
    const char *program = chance(12) ? NULL : RND_OF(programs), *name = chance(3) ? NULL : RND_OF(names);
    if (!CHECK(getcwd(before, sizeof before) && chdir(case_dir) == 0)) return;
    const tp_status st = tp_logger_auto_set_dir(program, name, chance(4) ? 0 : 'k');
    const char *now = tp_logger_dir();
    tell("auto %s: %s; %s\n", tp_status_name(st), st == TP_OK ? "" : tp_last_error(), now ? now : "none");
    CHECK(chdir(before) == 0);
}
TEST(random_folders_of_the_logger)
{
    TEST_MAY_ERROR("");
    for (int i = 0; i < 200; i++) {
        begin_case(8000 + (uint64_t)i);
        tp_logger_set_dir(NULL, 0);
        tp__logger.dir_failed = false;
        if (chance(3)) tp_test_default_log();
        caught err = catch_output(2, "stderr");
        for (int64_t k = 1 + rnd(4); k-- > 0;) {
            if (chance(5)) auto_folder();
            else set_folder();
        }
        tp_logger_set_dir(NULL, 0);
        tell_output(&err);
        tell_folder(case_dir);
        end_case("folders", i);
    }
    end_cases();
    golden_compare("digests_reports.txt", "folders");
}

/* Lines of each length and level: once, in colour, over a progress bar, in the file and on stderr. */
static void a_line(char *text, int64_t *length)
{
    static const int64_t lengths[] = {0, 1, 20, 1983, 1984, 1985, 2047, 2048, 2049, 5000};
    const bool newline = chance(8);
    *length = RND_OF(lengths);
    for (int64_t i = 0; i < *length; i++) text[i] = (char)('a' + i % 26);
    text[*length] = 0;
    if (newline && *length > 3) text[2] = '\n';
}
TEST(random_lines_of_the_log)
{
    static char text[6000];
    TEST_MAY_ERROR("");
    for (int i = 0; i < 200; i++) {
        begin_case(9000 + (uint64_t)i);
        tp_logger_set_dir(chance(4) ? NULL : case_dir, 0);
        if (!chance(5)) tp_test_default_log();
        caught err = catch_output(2, "stderr");
        for (int64_t k = 1 + rnd(6); k-- > 0;) {
            int64_t length = 0;
            const tp_log_level level = (tp_log_level)rnd(5);
            a_line(text, &length);
            switch (rnd(7)) {
            case 0:
                for (int n = 0; n < 2; n++) tp_log_once(level, "%s", text);
                break;
            case 1: tp__log_line(0, true, level, text); break;
            case 2: {
                const bool is_last = chance(2);
                tp__log_progress(chance(8) ? NULL : "50%", is_last);
                break;
            }
            case 3:
                for (int n = 0; n < 260; n++) tp_log_once(TP_LOG_INFO, "line %d of many", n);
                break;
            default: tp_log(level, "%s %d", text, (int)length); break;
            }
        }
        tp_logger_set_dir(NULL, 0);
        tell_output(&err);
        char *log = NULL;
        size_t size = 0;
        if (tp_file_read(tp_test_path(case_dir, "log.log"), false, 0, &log, &size) == TP_OK)
            tp_buf_put(&told, log, size);
        tp_free(log);
        end_case("lines", i);
    }
    end_cases();
    golden_compare("digests_reports.txt", "lines");
}

/* The report traces two runs: not the first one, which makes the plan, nor one that somebody else traces. */
TEST(a_report_traces_two_runs)
{
    tp_train_state state;
    tp_monitor_report_desc d;
    tp_run_values none;
    tp_trace others;
    char traced[8];
    memset(&state, 0, sizeof state), memset(&d, 0, sizeof d), memset(&none, 0, sizeof none);
    memset(&others, 0, sizeof others);
    state.is_chief = true;
    CHECK_OK(tp_logger_set_dir(tp_test_tmpdir(), 'd'));
    tp_monitor *report = tp_monitor_report_(&d);
    CHECK_OK(tp_callback_setup_graph(&report->cb, &state));
    for (int step = 0; step < 7; step++) {
        tp_run_request q;
        memset(&q, 0, sizeof q);
        if (step == 2) q.run.trace = &others;
        CHECK_OK(tp_callback_before_run(&report->cb, &q));
        traced[step] = q.run.trace == &others ? 'o' : q.run.trace ? 't' : '-';
        CHECK_OK(tp_callback_after_run(&report->cb, &none));
    }
    traced[7] = 0;
    CHECK_STR(traced, "-tot---");
    tp_monitor_free(report);
}

TEST_MAIN()
