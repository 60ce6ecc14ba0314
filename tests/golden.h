/* golden.h - what a test saw before: sections of a file beside the tests, compared with what it sees now
 *
 *     golden_say("%s %d\n", name, n);              a line
 *     golden_compare("choices.txt", "products");    all lines since the last comparison are those of the section
 *     golden_digest(golden_hash(h, text));          a case, of which only 16 bits are kept
 *     golden_compare("digests_data.txt", "csv");
 *
 * A section begins with "== <name>" and ends where the next one begins. TP_TEST_WRITE=1 writes it anew instead: after a change of
 * the library that was meant. Such a file proves nothing by itself; it shows that a change has an effect, and where. What a test
 * says must be the same with every compiler and on every machine: no address, no folder of this run, no time. */
#ifndef GOLDEN_H
#define GOLDEN_H

static tp_buf golden__said;   /* the lines since the last comparison */
static int golden__n_digests; /* and the digests in them */

TP_PRINTF(1, 2) TP_TEST__UNUSED static void golden_say(const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    CHECK_MSG(n >= 0 && n < (int)sizeof text, "a line of %d bytes", n);
    tp_buf_printf(&golden__said, "%s", text);
}

/* h, changed by a text; "" and NULL differ. */
TP_TEST__UNUSED static uint64_t golden_hash(uint64_t h, const char *text)
{
    return tp_test_mix(h ^ (text ? tp_hash_name(text) : 1));
}

/* h, changed by a text in which each `what`, a folder of this run, counts as "DIR". */
TP_TEST__UNUSED static uint64_t golden_hash_without(uint64_t h, const char *text, const char *what)
{
    tp_buf b;
    memset(&b, 0, sizeof b);
    for (const char *at; text && what && *what && (at = strstr(text, what)) != NULL; text = at + strlen(what)) {
        tp_buf_put(&b, text, (size_t)(at - text));
        tp_buf_printf(&b, "DIR");
    }
    tp_buf_printf(&b, "%s", text ? text : "");
    h = golden_hash(h, b.data);
    tp_buf_free(&b);
    return h;
}

/* The digest of the next case. Sixteen stand in a line, behind the number of the first of them. */
TP_TEST__UNUSED static void golden_digest(uint64_t h)
{
    if (golden__n_digests % 16 == 0) golden_say("%5d:", golden__n_digests);
    golden_say(" %04x%s", (unsigned)(tp_test_mix(h) & 0xffff), ++golden__n_digests % 16 ? "" : "\n");
}

static const char *golden__path(const char *file)
{
    static char path[1024];
    const char *slash = strrchr(__FILE__, '/');
    snprintf(path, sizeof path, "%.*s%s", slash ? (int)(slash - __FILE__) + 1 : 0, __FILE__, file);
    if (!tp_file_exists(path)) snprintf(path, sizeof path, "tests/%s", file);
    return path;
}

/* The section in the file's text; NULL if there is none. */
static char *golden__section(char *text, const char *section, size_t *size)
{
    char head[128];
    snprintf(head, sizeof head, "== %s\n", section);
    char *at = text;
    while (at && (at = strstr(at, head)) != NULL && at != text && at[-1] != '\n') at++;
    if (!at) return NULL;
    at += strlen(head);
    const char *end = strncmp(at, "== ", 3) == 0 ? at : strstr(at, "\n== ");
    *size = !end ? strlen(at) : end == at ? 0 : (size_t)(end + 1 - at);
    return at;
}

/* Replaces the section by what was said; a new one comes last. */
static void golden__write(const char *path, char *text, const char *section)
{
    tp_buf out;
    size_t size = 0;
    memset(&out, 0, sizeof out);
    const char *at = golden__section(text, section, &size);
    tp_buf_put(&out, text, at ? (size_t)(at - text) : strlen(text));
    if (!at) tp_buf_printf(&out, "== %s\n", section);
    tp_buf_put(&out, golden__said.data, golden__said.len);
    if (at) tp_buf_printf(&out, "%s", at + size);
    CHECK(tp_test_write(path, out.data, out.len));
    tp_buf_free(&out);
}

/* skip: NULL, or whether a line of the file is of no account on this machine. */
TP_TEST__UNUSED static void golden_compare_but(const char *file, const char *section, bool (*skip)(const char *line))
{
    const char *path = golden__path(file);
    char *text = NULL;
    size_t size = 0;
    int wrong = 0, same = 0;
    if (golden__n_digests % 16) golden_say("\n");
    if (getenv("TP_TEST_WRITE") && !tp_file_exists(path)) tp_test_write(path, "", 0);
    if (CHECK_OK(tp_file_read(path, false, 0, &text, &size)) && getenv("TP_TEST_WRITE"))
        golden__write(path, text, section);
    else if (text) {
        char *at = golden__section(text, section, &size), *now = golden__said.data, *const end = at ? at + size : NULL;
        CHECK_MSG(at != NULL, "%s has no section '%s': TP_TEST_WRITE=1 writes it", file, section);
        for (char *next; at && at < end; at = next) {
            next = strchr(at, '\n');
            *next++ = 0;
            if (skip && skip(at)) continue;
            char *now_next = now && *now ? strchr(now, '\n') : NULL;
            if (now_next) *now_next++ = 0;
            if (now_next && strcmp(at, now) == 0) same++;
            else if (++wrong <= 3) CHECK_MSG(false, "before: %s\n    now:    %s", at, now_next ? now : "nothing");
            now = now_next;
        }
        CHECK_MSG(wrong == 0 && (!now || !*now), "%s: %d lines of '%s' differ%s", file, wrong, section,
                  now && *now ? ", and there are more now" : "");
        CHECK(same > 0);
    }
    tp_free(text);
    tp_buf_free(&golden__said);
    golden__n_digests = 0;
}
TP_TEST__UNUSED static void golden_compare(const char *file, const char *section)
{
    golden_compare_but(file, section, NULL);
}

#endif
