/* golden_text.h - for tests that compare with what was seen before (golden.h): all that a case tells, as one text
 *
 *     begin_case(seed);                  random numbers, an empty folder, a clock that stands, an empty text
 *     tell("%s\n", name);                a line; the log, stderr, stdout and the files of the folder tell by themselves
 *     end_case("name", i);               the digest; TP_TEST_PRINT=name:17 prints the text of case 17
 *
 * The text leaves out what differs between runs: folders, dates, hosts, the lines of test files. Only a test moves the clock, so
 * times and speeds are the same in each run; where another thread reads the clock, times are left out (told_times). */
#ifndef GOLDEN_TEXT_H
#define GOLDEN_TEXT_H

#include <fcntl.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

/* -- a clock that only a test moves */

static double clock_at; /* the time in seconds; 0: the system's time */
#if defined(__linux__) && defined(SYS_clock_gettime)
int clock_gettime(clockid_t id, struct timespec *t)
{
    if (clock_at <= 0) return (int)syscall(SYS_clock_gettime, id, t);
    t->tv_sec = (time_t)clock_at;
    t->tv_nsec = (long)((clock_at - floor(clock_at)) * 1e9 + 0.5);
    return 0;
}
#endif
/* Files need not reach the disk. */
int fsync(int fd)
{
    (void)fd;
    return 0;
}
/* False: the library does not read this clock here, so that it cannot be stopped. */
TP_TEST__UNUSED static bool clock_stands(void)
{
    clock_at = 1000;
    const double a = tp_time();
    clock_at = 1001.5;
    const bool ok = fabs(tp_time() - a - 1.5) < 1e-9;
    clock_at = 0;
    return ok;
}

/* -- random numbers */

static uint64_t drawn_seed;
static uint32_t n_drawn;
static int64_t rnd(int64_t n) { return (int64_t)(tp_random_u32(drawn_seed, 7, n_drawn++) % (uint32_t)n); }
TP_TEST__UNUSED static bool chance(int64_t n) { return rnd(n) == 0; } /* one in n */
#define RND_OF(list_) (list_)[rnd(TP_COUNT(list_))]

/* -- the text */

static char case_dir[320];  /* of the case's files */
static char other_dir[300]; /* of what stderr and stdout give */
static tp_buf told;
static bool told_times; /* true: times, speeds and memory are told as they are */

TP_PRINTF(1, 2) static void tell(const char *format, ...)
{
    char text[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tp_buf_printf(&told, "%s", text);
}

/* The text without what differs between runs. */
static bool is_like(const char *p, const char *pattern)
{
    for (; *pattern; p++, pattern++)
        if (*pattern == '9' ? *p < '0' || *p > '9' : *p != *pattern) return false;
    return true;
}
static bool has_word(const char *line, size_t n, const char *const *words, int n_words)
{
    for (int i = 0; i < n_words; i++) {
        const char *at = strstr(line, words[i]);
        if (at && at < line + n) return true;
    }
    return false;
}
/* 0: the line is told; 1: without its numbers; 2: not at all, as it has one part more or less from time to time */
static int is_of_run(const char *line, size_t n)
{
    static const char *const of_memory[] = {"HostFreeMemory", "Free RAM", "PeakMemory", "queue_size"},
                             *const of_time[] = {"time:", "Estimated Time", "Throughput", "second", "minute"},
                             *const of_bar[] = {"it/s"};
    if (!told_times && has_word(line, n, of_bar, 1)) return 2;
    if (!told_times && has_word(line, n, of_time, TP_COUNT(of_time))) return 1;
    return !has_word(line, n, of_memory, TP_COUNT(of_memory)) ? 0 : line[0] == '{' ? 2 : 1; /* {: a curve of a report */
}
static const char *skip_known(const char *p, tp_buf *out)
{
    static const char events[] = "events.out.tfevents.";
    const size_t n = strlen(case_dir);
    if (n && strncmp(p, case_dir, n) == 0) {
        tp_buf_printf(out, "DIR");
        return p + n;
    }
    const size_t other = strlen(other_dir);
    if (other && strncmp(p, other_dir, other) == 0) {
        tp_buf_printf(out, "OTHER");
        return p + other;
    }
    if (is_like(p, "[9999 99:99:99]")) return p + 15;
    if (is_like(p, "9999-999999")) {
        tp_buf_printf(out, "DATE");
        p += 11;
        if (*p == '-') p += 1 + strspn(p + 1, "0123456789");
        return p;
    }
    if (strncmp(p, events, sizeof events - 1) == 0) {
        tp_buf_printf(out, "EVENTS");
        return p + strcspn(p, " '\n:,");
    }
    if (strncmp(p, "test_golden_", 12) == 0) { /* a place: "test_golden_runs.c:35" */
        p += strcspn(p, ".");
        tp_buf_printf(out, "PLACE");
        return p + (is_like(p, ".c:9") ? 3 + strspn(p + 3, "0123456789") : 0);
    }
    return NULL;
}
TP_TEST__UNUSED static void normalise(const char *text, tp_buf *out)
{
    int masked = 0;
    for (const char *p = text; *p;) {
        if (p == text || p[-1] == '\n') {
            const size_t n = strcspn(p, "\n");
            masked = is_of_run(p, n);
            if (masked == 2) {
                tp_buf_printf(out, "BAR");
                p += n;
                continue;
            }
        }
        const char *next = skip_known(p, out);
        if (next) p = next;
        else if (masked && *p >= '0' && *p <= '9') {
            tp_buf_printf(out, "N");
            p += strspn(p, "0123456789.");
            if (*p == 'e' && (p[1] == '-' || p[1] == '+')) p += 2 + strspn(p + 2, "0123456789");
        } else tp_buf_put(out, p++, 1);
    }
}

/* Writes a file anew: to truncate one takes some systems milliseconds. */
TP_TEST__UNUSED static void rewrite(const char *path, const char *text)
{
    unlink(path);
    tp_test_write(path, text, strlen(text));
}

/* -- what the library writes to stderr and stdout */

typedef struct caught {
    int fd, saved;
    const char *name;
} caught;

TP_TEST__UNUSED static caught catch_output(int fd, const char *name)
{
    caught c;
    c.fd = fd, c.name = name;
    fflush(NULL);
    c.saved = dup(fd);
    unlink(tp_test_path(other_dir, name));
    const int file = open(tp_test_path(other_dir, name), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    CHECK(c.saved >= 0 && file >= 0 && dup2(file, fd) >= 0);
    close(file);
    return c;
}
TP_TEST__UNUSED static void tell_output(caught *c)
{
    char *text = NULL;
    size_t size = 0;
    fflush(NULL);
    dup2(c->saved, c->fd);
    close(c->saved);
    if (CHECK_OK(tp_file_read(tp_test_path(other_dir, c->name), false, 0, &text, &size)) && size) {
        tell("%s: ", c->name);
        for (char *p = text; *p; p++)
            if (*p == '\r') *p = '\n';
        tp_buf_put(&told, text, strlen(text));
        tell("\n");
    }
    tp_free(text);
}

TP_TEST__UNUSED static void tell_log(void *user, tp_log_level level, const char *message)
{
    (void)user;
    tell("LOG%d ", (int)level);
    tp_buf_put(&told, message, strlen(message));
    tell("\n");
}

/* -- files */

TP_TEST__UNUSED static void tell_number(double v)
{
    if (v != v) tell(" nan"); /* with either sign */
    else tell(" %.17g", v);
}
TP_TEST__UNUSED static void tell_tensor(const char *name, const tp_tensor *t)
{
    char shape[TP_SHAPE_TEXT];
    tell("%s %s %s:", name, tp_dtype_name(t->dtype), tp_shape_text(&t->shape, shape));
    const bool secret = strstr(name, "queue") || (!told_times && (strstr(name, "Time") || strstr(name, "Throughput")));
    for (int64_t i = 0; i < tp_tensor_size(t) && i < 64 && !secret; i++) tell_number(tp_tensor_get(t, i));
    tell("\n");
}
static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static void tell_checkpoint(const char *path)
{
    tp_dict d;
    const char *names[256];
    memset(&d, 0, sizeof d);
    const tp_status st = tp_load_checkpoint_vars(path, &d);
    if (st != TP_OK) tell("%s %s\n", tp_status_name(st), tp_last_error());
    if (d.n < 256) {
        for (int i = 0; i < d.n; i++) names[i] = d.item[i].name;
        if (d.n) qsort(names, (size_t)d.n, sizeof *names, by_name);
        for (int i = 0; i < d.n; i++) tell_tensor(names[i], tp_dict_find(&d, names[i]));
    }
    tp_dict_free(&d);
}

/* -- event files: records of protocol buffers */

static uint64_t event_varint(const unsigned char **p, const unsigned char *end)
{
    uint64_t v = 0;
    for (int shift = 0; *p < end && shift < 64; shift += 7) {
        v |= (uint64_t)(**p & 127) << shift;
        if (*(*p)++ < 128) break;
    }
    return v;
}
static bool is_secret(const char *tag, size_t n)
{
    return n > 4 && (memcmp(tag, "Host", 4) == 0 || memcmp(tag, "Peak", 4) == 0 || memcmp(tag, "Queue", 5) == 0 ||
                     (!told_times && memcmp(tag, "Thro", 4) == 0));
}
/* Fields of a message: their numbers and what is in them. The first field of an event is its time, which is left out. */
static void tell_message(const unsigned char *p, const unsigned char *end, int depth, bool secret)
{
    static const unsigned inner[] = {5, 1, 5}; /* Event.summary, Summary.value, Value.histo */
    while (p < end) {
        const uint64_t key = event_varint(&p, end);
        const unsigned number = (unsigned)(key >> 3), wire = (unsigned)(key & 7);
        tell(" %u", number);
        if (wire == 0) tell("=%lld", (long long)event_varint(&p, end));
        else if (wire == 2) {
            const size_t n = (size_t)event_varint(&p, end);
            if (n > (size_t)(end - p)) {
                tell("?");
                return;
            }
            if (depth < 3 && number == inner[depth]) {
                tell("(");
                tell_message(p, p + n, depth + 1, secret);
                tell(")");
            } else if (depth == 0) tell("[graph]"); /* it has lines of this test */
            else {
                uint64_t h = 0;
                bool text = true;
                for (size_t i = 0; i < n; i++) h = tp_test_mix(h ^ p[i]), text = text && p[i] >= ' ' && p[i] < 127;
                if (text) tell("'%.*s'", (int)n, (const char *)p);
                else tell("#%zu:%llx", n, (unsigned long long)h);
                secret = secret || (text && is_secret((const char *)p, n));
            }
            p += n;
        } else {
            const int bytes = wire == 1 ? 8 : 4;
            if ((wire != 1 && wire != 5) || end - p < bytes) {
                tell("?");
                return;
            }
            float f = 0;
            double d = 0;
            memcpy(&f, p, 4);
            if (bytes == 8) memcpy(&d, p, 8);
            if (depth > 0 && !secret) tell_number(bytes == 8 ? d : (double)f);
            p += bytes;
        }
    }
}
TP_TEST__UNUSED static void tell_events(const char *text, size_t size)
{
    const unsigned char *p = (const unsigned char *)text, *const end = p + size;
    while ((size_t)(end - p) >= 16) {
        size_t n = 0;
        for (int i = 7; i >= 0; i--) n = n << 8 | p[i];
        if (n > (size_t)(end - p) - 16) break;
        tell("  event");
        tell_message(p + 12, p + 12 + n, 0, false);
        tell("\n");
        p += 16 + n;
    }
    tell("  %d bytes remain\n", (int)(end - p));
}

/* The data of a report's page: each part is a line. Left out are what the machine is and when the page was written. */
static void tell_report(char *text)
{
    static const char begin[] = "<script type=\"application/json\" id=\"data\">\n";
    char *p = strstr(text, begin), *end = p ? strstr(p, "\n</script>\n") : NULL;
    if (!CHECK(p && end)) return;
    *end = 0;
    tell(" %d bytes around the data\n", (int)strlen(end + 1));
    for (p += sizeof begin - 1; p; p = end) {
        end = strchr(p, '\n');
        if (end) *end++ = 0;
        if (strncmp(p, "{\"title\":\"Machine\"", 18) == 0)
            while (end && strncmp(end, "{\"title", 8) != 0 && strchr(end, '\n')) end = strchr(end, '\n') + 1;
        else if (strncmp(p, "\"foot\"", 6) != 0) {
            tp_buf_put(&told, p, strlen(p));
            tell("\n");
        }
    }
}

static void tell_file(const char *name, const char *shown, const char *path)
{
    char *text = NULL;
    size_t size = 0;
    const char *end = strrchr(name, '.');
    tell("FILE %s", shown);
    if (tp_file_read(path, false, 0, &text, &size) != TP_OK) tell(" cannot be read");
    else if (strncmp(name, "events.", 7) == 0) {
        tell("\n");
        tell_events(text, size);
    } else if (strcmp(name, "report.html") == 0 && told_times) {
        tell_report(text);
    } else if (strncmp(name, "log.log", 7) == 0 || strncmp(name, "chrome-", 7) == 0 ||
               strcmp(name, "report.html") == 0 || strncmp(name, "runmeta", 7) == 0)
        tell(" is there");
    else if (end && (strcmp(end, ".npz") == 0 || strcmp(end, ".safetensors") == 0 || strcmp(end, ".index") == 0)) {
        char whole[900];
        tell(" %d bytes\n", told_times || strstr(path, "tensors") ? (int)size : 0);
        snprintf(whole, sizeof whole, "%s", path);
        tell_checkpoint(whole);
    } else {
        uint64_t h = 0;
        for (size_t i = 0; i < size; i++) h = tp_test_mix(h ^ (unsigned char)text[i]);
        const bool is_text = strlen(text) == size && strstr(name, ".png") == NULL;
        if (!is_text) tell(" %zu bytes %llx", size, (unsigned long long)h);
        for (const char *p = text; is_text && *p; p++) tell(p > text && p[-1] == ',' && *p == ' ' ? "\n%c" : "%c", *p);
    }
    tell("\n");
    tp_free(text);
}

/* The files of a folder and of those in it, by their names. */
static void tell_folder_at(const char *dir, const char *shown, int depth)
{
    enum { MOST = 200 };
    char *pairs[MOST];
    int n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d)) != NULL && n < MOST;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        tp_buf b;
        memset(&b, 0, sizeof b);
        normalise(e->d_name, &b); /* these come first, to sort by */
        tp_buf_printf(&b, "\n%s", e->d_name);
        pairs[n++] = b.data;
    }
    if (d) closedir(d);
    if (n) qsort(pairs, (size_t)n, sizeof *pairs, by_name);
    for (int i = 0; i < n; i++) {
        char *name = strchr(pairs[i], '\n'), path[800], as[800];
        struct stat st;
        *name++ = 0;
        snprintf(path, sizeof path, "%s/%s", dir, name);
        snprintf(as, sizeof as, "%s/%s", shown, pairs[i]);
        if (lstat(path, &st) != 0) tell("%s is gone\n", as);
        else if (S_ISDIR(st.st_mode) && depth < 3) {
            tell("FOLDER %s\n", as);
            tell_folder_at(path, as, depth + 1);
        } else tell_file(name, as, path);
        tp_free(pairs[i]);
    }
}
TP_TEST__UNUSED static void tell_folder(const char *dir) { tell_folder_at(dir, "", 0); }

/* -- cases */

static bool same_folder; /* the folder is not emptied */
TP_TEST__UNUSED static void begin_case(uint64_t seed)
{
    if (!other_dir[0]) snprintf(other_dir, sizeof other_dir, "%s", tp_test_tmpdir());
    snprintf(case_dir, sizeof case_dir, "%s/case", other_dir);
    if (!same_folder) tp_test_remove(case_dir);
    tp_make_dirs(case_dir);
    drawn_seed = seed;
    n_drawn = 0;
    told.len = 0;
    tell(" ");
    tp__logger.n_once = 0; /* a message that is logged once is logged in each case */
    tp__logger.open_line = false;
    clock_at = 1000;
    told_times = true;
    tp_set_log(tell_log, NULL);
}

TP_TEST__UNUSED static void end_case(const char *name, int i)
{
    tp_buf out;
    char wanted[64];
    clock_at = 0;
    tp_set_log(NULL, NULL);
    memset(&out, 0, sizeof out);
    normalise(told.data, &out);
    snprintf(wanted, sizeof wanted, "%s:%d", name, i);
    const char *print = getenv("TP_TEST_PRINT");
    if (print && (strcmp(print, wanted) == 0 || strcmp(print, name) == 0)) printf("#### %s\n%s\n", wanted, out.data);
    golden_digest(golden_hash(0, out.data));
    tp_buf_free(&out);
}

/* After the last case. */
TP_TEST__UNUSED static void end_cases(void)
{
    tp_logger_set_dir(NULL, 0);
    tp_buf_free(&told);
    same_folder = false;
}

#endif
