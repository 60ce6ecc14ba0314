/* Regular expressions: 10,000 patterns and texts against Python's re (ref_regex.py), and what a file cannot say. */
#define TP_IMPLEMENTATION
#include "tp_layers.h"
#include "tp_optim.h"
#include "tp_test.h"

/* -- the cases of ref_regex.txt */

static int hex(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

/* %xx becomes a byte, in place. */
static void decode(char *s)
{
    char *to = s;
    for (; *s; s++, to++) {
        if (*s == '%') {
            *to = (char)(hex(s[1]) * 16 + hex(s[2]));
            s += 2;
        } else {
            *to = *s;
        }
    }
    *to = 0;
}

/* The answer of tp in the words of the file. */
static void answer(char mode, const char *pattern, const char *text, char *out, size_t size)
{
    tp_regex *re = NULL;
    tp_span span[100];
    bool found = false;
    size_t n = 0;
    const tp_status s = tp_regex_new(pattern, &re);
    if (s != TP_OK) {
        snprintf(out, size, s == TP_ERR_ARG ? "E" : "status %d", (int)s);
        return;
    }
    const tp_status t = mode == 's'   ? tp_regex_search(re, text, &found, span, 100)
                        : mode == 'm' ? tp_regex_match(re, text, &found, span, 100)
                                      : tp_regex_fullmatch(re, text, &found, span, 100);
    snprintf(out, size, t == TP_OK ? "-" : "status %d", (int)t);
    for (int i = 0; found && i <= tp_regex_n_groups(re) && n < size; i++) {
        if (span[i].begin < 0) n += (size_t)snprintf(out + n, size - n, "%s-", i ? " " : "");
        else n += (size_t)snprintf(out + n, size - n, "%s%d,%d", i ? " " : "", (int)span[i].begin, (int)span[i].end);
    }
    tp_regex_free(re);
}

TEST(ten_thousand_cases_of_python)
{
    static char line[4096];
    char *field[4], got[1024];
    int n = 0;
    FILE *f = fopen("tests/ref_regex.txt", "rb");
    if (!CHECK_MSG(f != NULL, "cannot open tests/ref_regex.txt")) return;
    while (fgets(line, sizeof line, f)) {
        char *at = line;
        line[strcspn(line, "\n")] = 0;
        for (int i = 0; i < 4; i++) {
            field[i] = at;
            at += strcspn(at, "\t");
            if (*at) *at++ = 0;
        }
        decode(field[1]);
        decode(field[2]);
        answer(field[0][0], field[1], field[2], got, sizeof got);
        CHECK_MSG(strcmp(got, field[3]) == 0, "%c '%s' on '%s': Python says %s, tp %s", field[0][0], field[1], field[2],
                  field[3], got);
        n++;
    }
    fclose(f);
    CHECK_MSG(n == 10000, "%d cases", n);
}

/* -- what the file cannot say */

static bool says(char mode, const char *pattern, const char *text, const char *want)
{
    char got[256];
    answer(mode, pattern, text, got, sizeof got);
    return CHECK_MSG(strcmp(got, want) == 0, "%c '%s' on '%.40s': %s instead of %s", mode, pattern, text, got, want);
}

/* `n` times c, then `end`. */
static char *many(char c, int n, const char *end)
{
    char *s = (char *)malloc((size_t)n + strlen(end) + 1);
    if (!s) abort();
    memset(s, c, (size_t)n);
    strcpy(s + n, end);
    return s;
}

/* The flag of many lines is for ^ and $; \A and \Z are the text's begin and end, and borders of words are what they were. */
TEST(anchors_of_many_lines)
{
    static const struct {
        const char *pattern, *text, *plain, *lines; /* lines: with the flag m */
    } row[] = {{"^b", "a\nb", "-", "2,3"},     {"a$", "a\nb", "-", "0,1"},     {"b$", "a\nb\n", "2,3", "2,3"},
               {"^$", "a\n\nb", "-", "2,2"},   {"\\Ab", "a\nb", "-", "-"},     {"\\Aa", "a\nb", "0,1", "0,1"},
               {"a\\Z", "a\nb", "-", "-"},     {"b\\Z", "a\nb", "2,3", "2,3"}, {"b\\Z", "a\nb\n", "-", "-"},
               {"^\\Ab", "a\nb", "-", "-"},    {"a\\Z$", "a\nb", "-", "-"},    {"\\bb", "a\nb", "2,3", "2,3"},
               {"a\\b", "a\nb", "0,1", "0,1"}, {"a\\Bb", "ab", "0,2", "0,2"},  {"a\\B", "a\nb", "-", "-"},
               {"\\A^b", "a\nb", "-", "-"},    {"\\Z", "a\nb", "3,3", "3,3"},  {"\\A", "a\nb", "0,0", "0,0"}};
    for (int i = 0; i < TP_COUNT(row); i++) {
        char pattern[40];
        says('s', row[i].pattern, row[i].text, row[i].plain);
        snprintf(pattern, sizeof pattern, "(?m)%s", row[i].pattern);
        says('s', pattern, row[i].text, row[i].lines);
    }
}

/* Patterns that take Python and POSIX for ever: hours for 30 letters, here 3,000 are nothing. A test that hung would be seen. */
TEST(catastrophic_patterns_end)
{
    static const char *const pattern[] = {"(a+)+b",
                                          "(a*)*b",
                                          "(a|aa)+b",
                                          "(a|a)*b",
                                          "(a+?)+?b",
                                          "(?:a?){30}a{30}b",
                                          "(.*)(.*)(.*)b",
                                          "((a?)*|a)*b",
                                          "(?:(?:(?:a*)*)*)*b",
                                          "^(?:(a+)|(a*))*$(?!)"};
    char *text[2];
    text[0] = many('a', 30, "");
    text[1] = many('a', 3000, "");
    for (int i = 0; i < TP_COUNT(pattern); i++)
        for (int k = 0; k < 2; k++) says('m', pattern[i], text[k], "-");
    says('s', "(a+)+b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", "0,31 0,30");
    free(text[0]);
    free(text[1]);
}

/* What failed within an atomic group may match when the group is entered again, where fewer loops around it are empty. */
TEST(atomic_groups_that_are_entered_again)
{
    static const char *const row[][3] = {
        {"(?>(?:a*|a|(?:b)*?)+a)*b", "ababba", "1,2"},          {"(?>(?:(?:aa|a*|ba)*)*a){2}a*", "ababaa", "-"},
        {"(?>(?:a*|b(?:a*|b)*?)*a){1,3}b|ba*", "aabaa", "2,5"}, {"(?>(?:a|a?a?|a*(?:b?\?a*)*a?)+a)+b", "aabba", "-"},
        {"(?>(?:(?:a*|b|a?)*)*a){2}b?", "bbabab", "-"},         {"(?>(?:a(?:b?\?a*)*)*a){1,3}a?b", "aabbaa", "-"}};
    for (int i = 0; i < TP_COUNT(row); i++) says('s', row[i][0], row[i][1], row[i][2]);
}

/* A pattern that matches no characters may be repeated, even if it is the whole pattern. */
TEST(nothing_is_repeated)
{
    static const char *const repeat[] = {"*", "+", "?", "*?", "{3}", "{2,}", "{0}", "{1,4}?", "*+"};
    for (int i = 0; i < TP_COUNT(repeat); i++) {
        char pattern[40];
        snprintf(pattern, sizeof pattern, "(?:)%s", repeat[i]);
        says('s', pattern, "ab", "0,0");
        says('f', pattern, "", "0,0");
        snprintf(pattern, sizeof pattern, "(?:(?:)%s)+b", repeat[i]);
        says('s', pattern, "ab", "1,2");
        snprintf(pattern, sizeof pattern, "a(?i:)%sB?", repeat[i]);
        says('f', pattern, "aB", "0,2");
        snprintf(pattern, sizeof pattern, "(?:|)%sb", repeat[i]);
        says('m', pattern, "b", "0,1");
    }
}

TEST(a_sentence_instead_of_no_end)
{
    tp_regex *re = NULL;
    bool found = true;
    char *text = many('a', 30000, "");
    if (CHECK_OK(tp_regex_new("(?:(?=.*$).)*b", &re))) {
        CHECK(tp_regex_match(re, text, &found, NULL, 0) == TP_ERR_ARG && !found);
        CHECK_HAS(tp_last_error(), "no answer within 20000000 steps");
    }
    tp_regex_free(re);
    free(text);
    /* ten thousand choices at each of so many places: more than can be remembered */
    text = many('a', 429496, "");
    if (CHECK_OK(tp_regex_new("(?:a?){10000}", &re))) {
        found = true;
        CHECK(tp_regex_match(re, text, &found, NULL, 0) == TP_ERR_ARG && !found);
        CHECK_STR(tp_last_error(), "regular expression '(?:a?){10000}': a text of 429496 bytes is too long");
        text[5000] = 0;
        CHECK(tp_regex_fullmatch(re, text, &found, NULL, 0) == TP_OK && found);
    }
    tp_regex_free(re);
    free(text);
}

/* Positions are 32-bit numbers. The text of 2 GiB is a few pages of memory, seen again and again. */
#ifndef _WIN32
TEST(a_text_of_two_gigabytes)
{
    const size_t whole = (size_t)INT32_MAX + 1, part = (size_t)1 << 22;
    if (sizeof(void *) < 8) TEST_SKIP("there is no room for so long a text");
    FILE *f = tmpfile();
    if (!CHECK(f != NULL)) return;
    char *text = (char *)mmap(NULL, whole, PROT_NONE, MAP_PRIVATE, fileno(f), 0);
    char *page = many('a', (int)part, "");
    if (!CHECK((void *)text != MAP_FAILED && fwrite(page, 1, part, f) == part && fflush(f) == 0)) return;
    for (size_t at = 0; at < whole; at += part) {
        const int seen = at + part < whole ? MAP_SHARED : MAP_PRIVATE; /* the last part has an end of its own */
        CHECK(mmap(text + at, part, PROT_READ | PROT_WRITE, seen | MAP_FIXED, fileno(f), 0) == (void *)(text + at));
    }
    tp_regex *re = NULL;
    if (CHECK_OK(tp_regex_new("aa", &re)))
        for (int less = 0; less < 2; less++) {
            bool found = !less;
            tp_span span = {-1, -1};
            text[INT32_MAX - less] = 0;
            const tp_status st = tp_regex_search(re, text, &found, &span, 1);
            if (less) CHECK(st == TP_OK && found && span.begin == 0 && span.end == 2);
            else CHECK_ERR(st, TP_ERR_ARG, "regular expression 'aa': a text of 2147483647 bytes is too long");
            CHECK(found == (less != 0));
        }
    tp_regex_free(re);
    munmap(text, whole);
    fclose(f);
    free(page);
}
#endif

/* A repetition of what matches a character takes one instruction more: this pattern has 29999 of the 30000 there may be. */
TEST(the_longest_pattern)
{
    tp_regex *re = NULL;
    bool found = false;
    char *text = many('a', 14999, "");
    if (CHECK_OK(tp_regex_new("(?:a+?){14999}", &re))) {
        CHECK(tp_regex_fullmatch(re, text, &found, NULL, 0) == TP_OK && found);
        text[100] = 0;
        CHECK(tp_regex_fullmatch(re, text, &found, NULL, 0) == TP_OK && !found);
    }
    tp_regex_free(re);
    free(text);
    CHECK_ERR(tp_regex_new("(?:a+?){15000}", &re), TP_ERR_ARG, "the counts of the repetitions make it too large");
}

static void refused(const char *pattern, const char *sentence)
{
    tp_regex *re = (tp_regex *)&re;
    CHECK_MSG(tp_regex_new(pattern, &re) == TP_ERR_ARG && re == NULL, "'%s' is taken", pattern);
    CHECK_HAS(tp_last_error(), sentence);
}

TEST(mistakes_are_sentences)
{
    refused("conv(", "regular expression 'conv(', character 5: missing ), unterminated subpattern");
    refused("*a", "character 1: nothing to repeat");
    refused("a**", "character 3: multiple repeat");
    refused("a)", "character 2: unbalanced parenthesis");
    refused("\\q", "character 1: bad escape");
    refused("[a", "unterminated character set");
    refused("(a)\\1", "back references are not supported");
    refused("(?P<n>a)(?P=n)", "back references are not supported");
    refused("(a)?(?(1)b|c)", "groups with a condition are not supported");
    refused("\\N{DIGIT ONE}", "bad escape");
    refused("(?<=a*)b", "look-behind requires fixed-width pattern");
    refused("a(?i)", "global flags not at the start of the expression");
    refused("((a{100}){100}){100}", "the counts of the repetitions make it too large");
    refused("a{5000000000}", "the repetition number is too large");
    refused("a{5000000000,}", "the repetition number is too large");
    refused("a{1,5000000000}", "the repetition number is too large");
    refused("a{,5000000000}", "the repetition number is too large");
    refused("a{5000000000,2}", "the repetition number is too large");
    refused("a{3,2}", "min repeat greater than max repeat");
    refused(NULL, "the pattern is NULL");
    char *deep = many('(', 5000, "a");
    refused(deep, "its groups are nested too deep");
    free(deep);
}

TEST(atomic_and_possessive)
{
    says('m', "(?>a+)ab", "aaab", "-");
    says('m', "(?>a+|b)c", "aac", "0,3");
    says('m', "a++b", "aab", "0,3");
    says('m', "a*+a", "aa", "-");
    says('m', "a{1,2}+a", "aaa", "0,3");
    says('m', "(?>(a)|b)*c", "abc", "0,3 0,1");
    says('s', "a?+b", "ab", "0,2");
}

/* A byte that is not UTF-8 is one character, that is neither a letter nor a space. */
TEST(bytes_that_are_no_utf8)
{
    says('f', ".", "\xff", "0,1");
    says('f', "a.b",
         "a\xe4"
         "b",
         "0,3");
    says('f', "..", "\xe4\xb8", "0,2");
    says('f', ".", "\xe4\xb8\xad", "0,3");
    says('s', "\\w|\\s", "\xff\xc3", "-");
    says('s', "(?<=.)b",
         "\xed\xa0\x80"
         "b",
         "3,4");
    says('f', "[\xff]", "\xff", "0,1");
    says('f', "....", "\xf0\x80\x80\x80", "0,4");
}

/* ==== every character of Latin-1, and edges beyond ==================================================== */

static const char *utf8(uint32_t c, char s[5])
{
    int n = 0;
    if (c < 0x80) s[n++] = (char)c;
    else {
        const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        s[n++] = (char)((more == 1 ? 0xc0u : more == 2 ? 0xe0u : 0xf0u) | c >> (6 * more));
        for (int i = more - 1; i >= 0; i--) s[n++] = (char)(0x80u | (c >> (6 * i) & 0x3fu));
    }
    s[n] = 0;
    return s;
}
static bool is_one_of(uint32_t c, const uint32_t (*range)[2])
{
    bool yes = false;
    for (; (*range)[1]; range++) yes = yes || (c >= (*range)[0] && c <= (*range)[1]);
    return yes;
}
static bool takes(const tp_regex *re, uint32_t c)
{
    char s[5];
    bool found = false;
    CHECK_OK(tp_regex_fullmatch(re, utf8(c, s), &found, NULL, 0));
    return found;
}

/* What Python 3.11 says of \w, \s and \d, with and without flag a. */
TEST(classes_of_characters)
{
    static const uint32_t word[][2] = {{'0', '9'},         {'A', 'Z'},
                                       {'_', '_'},         {'a', 'z'},
                                       {0xaa, 0xaa},       {0xb2, 0xb3},
                                       {0xb5, 0xb5},       {0xb9, 0xba},
                                       {0xbc, 0xbe},       {0xc0, 0xd6},
                                       {0xd8, 0xf6},       {0xf8, 0x100},
                                       {0x1ffc, 0x1ffc},   {0x2c00, 0x2c00},
                                       {0x3005, 0x3005},   {0x4e00, 0x4e00},
                                       {0xd7a3, 0xd7a3},   {0xf900, 0xf900},
                                       {0x10000, 0x10000}, {0x1eebb, 0x1eebb},
                                       {0x20000, 0x20000}, {0, 0}},
                          space[][2] = {{9, 13},
                                        {28, 32},
                                        {0x85, 0x85},
                                        {0xa0, 0xa0},
                                        {0x1680, 0x1680},
                                        {0x2000, 0x200a},
                                        {0x2028, 0x2029},
                                        {0x202f, 0x202f},
                                        {0x205f, 0x205f},
                                        {0x3000, 0x3000},
                                        {0, 0}},
                          digit[][2] = {{'0', '9'}, {0, 0}},
                          ascii_word[][2] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}, {0, 0}},
                          ascii_space[][2] = {{9, 13}, {32, 32}, {0, 0}};
    static const uint32_t beyond[] = {0x100,  0x1ffc, 0x2000,  0x200a,  0x200b,  0x2027,  0x2028,  0x2029,
                                      0x202a, 0x202e, 0x202f,  0x2030,  0x205e,  0x205f,  0x2060,  0x2bff,
                                      0x2c00, 0x3000, 0x3001,  0x3004,  0x3005,  0x4e00,  0xd7a3,  0xe000,
                                      0xf8ff, 0xf900, 0x10000, 0x1eebb, 0x1f000, 0x1faff, 0x20000, 0x1680};
    static const struct {
        char letter;
        const uint32_t (*all)[2], (*ascii)[2];
    } k[] = {{'w', word, ascii_word}, {'s', space, ascii_space}, {'d', digit, digit}};
    for (int i = 0; i < TP_COUNT(k); i++)
        for (int form = 0; form < 8; form++) { /* in a set or not, with flag a, negated */
            const bool set = form & 1, ascii = form & 2, not = form & 4;
            char pattern[16];
            tp_regex *re = NULL;
            snprintf(pattern, sizeof pattern, "%s%s\\%c%s", ascii ? "(?a)" : "", set ? "[" : "",
                     not ? k[i].letter - 32 : k[i].letter, set ? "]" : "");
            if (!CHECK_OK(tp_regex_new(pattern, &re))) continue;
            for (uint32_t c = 1; c < 256 + TP_COUNT(beyond); c++) {
                const uint32_t is = c < 256 ? c : beyond[c - 256];
                CHECK_MSG(takes(re, is) == (is_one_of(is, ascii ? k[i].ascii : k[i].all) != not ),
                          "%s takes U+%04X: %d", pattern, (unsigned)is, takes(re, is));
            }
            tp_regex_free(re);
        }
}

/* Latin-1 has each letter of A to Z, and of U+00C0 to U+00DE but the multiplication sign, 32 places on once more. */
TEST(letters_whose_case_is_ignored)
{
    for (uint32_t a = 1; a < 256; a++)
        for (int form = 0; form < 3; form++) {
            static const char *const forms[] = {"(?i)\\x%02x", "(?i)[\\x%02x]", "(?i)[^\\x%02x]"};
            char pattern[24];
            tp_regex *re = NULL;
            snprintf(pattern, sizeof pattern, forms[form], (unsigned)a);
            if (!CHECK_OK(tp_regex_new(pattern, &re))) continue;
            int wrong = 0;
            for (uint32_t b = 1; b < 256; b += form ? 3 : 1) {
                uint32_t low[2] = {a, b};
                for (int i = 0; i < 2; i++) {
                    const bool upper =
                        (low[i] >= 'A' && low[i] <= 'Z') || (low[i] >= 0xc0 && low[i] <= 0xde && low[i] != 0xd7);
                    low[i] += upper ? 32 : 0;
                }
                wrong += takes(re, b) != ((low[0] == low[1]) != (form == 2));
            }
            CHECK_MSG(wrong == 0, "%s: %d wrong", pattern, wrong);
            tp_regex_free(re);
        }
}

/* What is no UTF-8, byte by byte: too long a form, a surrogate, beyond the last character, cut off. Each byte of it is a
 * character of its own. */
TEST(the_edges_of_utf8)
{
    static const struct {
        const char *text;
        int characters;
    } t[] = {
        {"\x7f", 1},
        {"\x80", 1},
        {"\xc1\xbf", 2},
        {"\xc2\x80", 1},
        {"\xdf\xbf", 1},
        {"\xe0\x9f\xbf", 3},
        {"\xe0\xa0\x80", 1},
        {"\xed\x9f\xbf", 1},
        {"\xed\xa0\x80", 3},
        {"\xed\xbf\xbf", 3},
        {"\xee\x80\x80", 1},
        {"\xef\xbf\xbf", 1},
        {"\xf0\x8f\xbf\xbf", 4},
        {"\xf0\x90\x80\x80", 1},
        {"\xf4\x8f\xbf\xbf", 1},
        {"\xf4\x90\x80\x80", 4},
        {"\xf5\x80\x80\x80", 4},
        {"\xff", 1},
        {"\xc2", 1},
        {"\xe1\x80", 2},
        {"\xf1\x80\x80", 3},
        {"\xe1\x80\x7f", 3},
        {"\xf1\x80\x80\xc0", 4},
        {"\xc2\x41", 2},
    };
    for (int i = 0; i < TP_COUNT(t); i++)
        for (int n = 1; n <= 5; n++) {
            char pattern[32];
            tp_regex *re = NULL;
            bool found = false;
            snprintf(pattern, sizeof pattern, "(?s).{%d}", n);
            if (!CHECK_OK(tp_regex_new(pattern, &re))) continue;
            CHECK_OK(tp_regex_fullmatch(re, t[i].text, &found, NULL, 0));
            CHECK_MSG(found == (n == t[i].characters), "%d: %d characters: %d", i, n, found);
            tp_regex_free(re);
            snprintf(pattern, sizeof pattern, "(?s)(?<=^.{%d})$", n); /* and from behind */
            if (!CHECK_OK(tp_regex_new(pattern, &re))) continue;
            CHECK_OK(tp_regex_search(re, t[i].text, &found, NULL, 0));
            CHECK_MSG(found == (n == t[i].characters), "%d: %d characters from behind: %d", i, n, found);
            tp_regex_free(re);
        }
}

TEST(groups_have_names)
{
    tp_regex *re = NULL;
    tp_span span[4];
    bool found = false;
    if (!CHECK_OK(tp_regex_new("(?P<layer>\\w+)/(W|(?P<bias>b))", &re))) return;
    CHECK(tp_regex_n_groups(re) == 3);
    CHECK(tp_regex_group(re, "layer") == 1 && tp_regex_group(re, "bias") == 3 && tp_regex_group(re, "lay") == -1);
    CHECK_OK(tp_regex_search(re, "gen/conv0/W", &found, span, 4));
    CHECK(found && span[0].begin == 4 && span[0].end == 11 && span[1].begin == 4 && span[1].end == 9);
    CHECK(span[2].begin == 10 && span[3].begin == -1 && span[3].end == -1);
    CHECK_OK(tp_regex_search(re, "nothing", &found, NULL, 0));
    CHECK(!found);
    CHECK(tp_regex_match(re, NULL, &found, NULL, 0) == TP_ERR_ARG);
    CHECK(tp_regex_match(NULL, "a", &found, NULL, 0) == TP_ERR_ARG);
    CHECK(tp_regex_n_groups(NULL) == 0);
    tp_regex_free(re);
    tp_regex_free(NULL);
}

TEST(out_of_memory_at_every_point)
{
    long n = 1;
    for (bool failed = true; failed; n++) {
        tp_regex *re = NULL;
        bool found = false;
        tp_test_fail_after(n);
        tp_status s = tp_regex_new("(?P<x>[a-z]+|(?:a?|b){2,3}){3,}(?<=y)(?:a*)*[0-9]{20}", &re);
        if (s == TP_OK)
            s = tp_regex_search(re, "conv0/W01234567890123456789y0123456789012345678901234567890", &found, NULL, 0);
        failed = tp_test_alloc_failed();
        CHECK(failed ? s == TP_ERR_NOMEM && !found : s == TP_OK);
        tp_regex_free(re);
        CHECK(tp_test_live_blocks() == 0);
    }
    tp_test_alloc_reset();
    CHECK_MSG(n > 20, "%ld allocations", n);
}

/* If memory runs out within a lookahead, positive or negative, there is an error and no match. */
TEST(out_of_memory_inside_of_groups)
{
    static const char *const pattern[] = {"(?!a*b)a",     "(?!(?!a*b))a",       "(?!(?!(?!a*b)))a",
                                          "(?=(?!a*b))a", "(?!(?=a*b))a",       "(?>a*)b|a",
                                          "(?!(?>a*)b)a", "(?:(?!(?!a*b))|a)a", "(?!(?!(?:a|ab)*b))a"};
    char *text = many('a', 3000, "");
    for (int i = 0; i < TP_COUNT(pattern); i++) {
        long n = 1;
        for (bool failed = true; failed; n++) {
            tp_regex *re = NULL;
            bool found = true;
            CHECK_OK(tp_regex_new(pattern[i], &re));
            tp_test_fail_after(n);
            const tp_status s = tp_regex_search(re, text, &found, NULL, 0);
            failed = tp_test_alloc_failed();
            tp_test_alloc_reset();
            CHECK_MSG(failed ? s == TP_ERR_NOMEM && !found : s == TP_OK, "%s, allocation %ld", pattern[i], n);
            tp_regex_free(re);
        }
        CHECK_MSG(n > 5, "%s: %ld allocations", pattern[i], n);
    }
    free(text);
}

/* -- who uses them: variables are chosen by Python's syntax, a mistake is the graph's, no match is warned about once */

static char logged[8192];
static void keep_log(void *user, tp_log_level level, const char *message)
{
    const size_t n = strlen(logged);
    (void)user;
    snprintf(logged + n, sizeof logged - n, "%s%s\n", level == TP_LOG_WARN ? "WRN " : "", message);
}

static int times_logged(const char *part)
{
    int n = 0;
    for (const char *at = logged; (at = strstr(at, part)) != NULL; at++) n++;
    return n;
}

/* In a training tower, with conv0/W, conv12/W, conv12/b and fc/W. */
static tp_graph *four_variables(void)
{
    static const char *const name[] = {"conv0/W", "conv12/W", "conv12/b", "fc/W"};
    logged[0] = 0;
    tp_set_log(keep_log, NULL);
    tp_graph *g = tp_graph_new(NULL);
    tp_tower_desc d = {.is_training = true};
    tp_tower_enter(g, &d);
    for (int i = 0; i < 4; i++) tp_get_variable_as(g, name[i], TP_F32, tp_make_shape(2), tp_init_zeros());
    return g;
}

static void end_of(tp_graph *g)
{
    tp_graph_free(g);
    tp_set_log(NULL, NULL);
}

TEST(regularize_cost_knows_python)
{
    tp_graph *g = four_variables();
    tp_regularize_cost(g, "conv\\d+/(?!b)\\w", tp_l2_regularizer(1), NULL);
    CHECK_HAS(logged, "regularized: conv0/W, conv12/W\n");
    tp_regularize_cost(g, "(?<=\\d)/W|^fc", tp_l2_regularizer(1), NULL);
    CHECK_HAS(logged, "regularized: conv0/W, conv12/W, fc/W\n");
    CHECK(tp_graph_status(g) == TP_OK && !strstr(logged, "WRN"));
    for (int i = 0; i < 2; i++) tp_regularize_cost(g, "conv0/w", tp_l2_regularizer(1), NULL);
    CHECK(times_logged("WRN ") == 1);
    CHECK_HAS(logged, "WRN test_regex.c:");
    CHECK_HAS(logged, "[regularize_cost] No match was found for regex conv0/w; did you mean 'conv0/W'?");
    const int line = __LINE__ + 1;
    CHECK(tp_is_poison(tp_regularize_cost(g, "conv(", tp_l2_regularizer(1), NULL)));
    char want[128];
    snprintf(want, sizeof want, "test_regex.c:%d: regularize_cost: regular expression 'conv(', character 5: missing )",
             line);
    CHECK(tp_graph_status(g) == TP_ERR_ARG);
    CHECK_HAS(tp_graph_error(g), want);
    end_of(g);
}

static tp_node *drop(tp_node *grad, tp_node *var, void *user)
{
    (void)grad, (void)var, (void)user;
    return NULL;
}

static int run_processor(tp_graph *g, const tp_gradproc *p)
{
    tp_grad_var gv[4];
    int n = 0;
    tp_node *const *var = tp_collection(g, TP_KEY_TRAINABLE_VARIABLES, &n);
    for (int i = 0; i < 4; i++) {
        gv[i].var = var[i];
        gv[i].grad = tp_ones_like(var[i]);
    }
    return tp_gradproc_run(p, g, gv, 4);
}

TEST(gradient_processors_know_python)
{
    const tp_gradproc good[] = {tp_gradproc_scale("conv\\d+/(?:W|b)", 0), tp_gradproc_map(drop, NULL, "(?!fc).*"),
                                tp_gradproc_scale("\\w+?\\d+/.", 0)};
    const tp_gradproc none[] = {tp_gradproc_scale("conv/W", 2), tp_gradproc_map(drop, NULL, "conv/W"),
                                tp_gradproc_summary("conv/W"), tp_gradproc_print("conv/W")};
    const tp_grad_rule rule[] = {{".*/W", 0}, {"fc/(", 0}};
    const tp_gradproc bad[] = {tp_gradproc_scale("[", 2), tp_gradproc_map(drop, NULL, "["), tp_gradproc_summary("["),
                               tp_gradproc_print("["), tp_gradproc_scale_rules(rule, 2)};
    for (int i = 0; i < TP_COUNT(good); i++) {
        tp_graph *g = four_variables();
        CHECK_MSG(run_processor(g, &good[i]) == 1, "processor %d", i);
        CHECK(tp_graph_status(g) == TP_OK && !strstr(logged, "WRN"));
        end_of(g);
    }
    for (int i = 0; i < TP_COUNT(none); i++) {
        tp_graph *g = four_variables();
        char want[128];
        CHECK(run_processor(g, &none[i]) == 4);
        CHECK(run_processor(g, &none[i]) == 4);
        snprintf(want, sizeof want, "[%s] No match was found for regex conv/W; did you mean 'conv0/W'?", none[i].name);
        CHECK_HAS(logged, want);
        CHECK_HAS(logged, "WRN test_regex.c:");
        CHECK(times_logged("WRN ") == 1 && tp_graph_status(g) == TP_OK);
        end_of(g);
    }
    for (int i = 0; i < TP_COUNT(bad); i++) {
        tp_graph *g = four_variables();
        CHECK(run_processor(g, &bad[i]) == 4);
        CHECK(tp_graph_status(g) == TP_ERR_ARG);
        CHECK_HAS(tp_graph_error(g), "test_regex.c:");
        CHECK_HAS(tp_graph_error(g), bad[i].name);
        CHECK_HAS(tp_graph_error(g), i == 4 ? "unterminated subpattern" : "unterminated character set");
        end_of(g);
    }
    const tp_grad_rule rules[2][2] = {{{".*/W", 0}, {"", 0}}, {{NULL, 0}, {".*/W", 0}}};
    const tp_gradproc without[] = {tp_gradproc_scale(NULL, 2), tp_gradproc_scale("", 2),
                                   tp_gradproc_scale_rules(rules[0], 2), tp_gradproc_scale_rules(rules[1], 2)};
    for (int i = 0; i < TP_COUNT(without); i++) {
        tp_graph *g = four_variables();
        CHECK(run_processor(g, &without[i]) == 4);
        CHECK(tp_graph_status(g) == TP_ERR_ARG);
        CHECK_HAS(tp_graph_error(g), "test_regex.c:");
        CHECK_HAS(tp_graph_error(g), "ScaleGradient needs a regular expression for variable names");
        end_of(g);
    }
}

TEST(param_summary_knows_python)
{
    int n = 0;
    tp_graph *g = four_variables();
    tp_add_param_summary(g, "conv\\d+/\\w", TP_SUMMARY_RMS);
    tp_collection(g, TP_KEY_SUMMARIES, &n);
    CHECK(n == 3);
    tp_add_param_summary(g, "conv", TP_SUMMARY_RMS); /* the whole name */
    tp_collection(g, TP_KEY_SUMMARIES, &n);
    CHECK(n == 3 && times_logged("[add_param_summary] No match was found for regex conv.") == 1);
    (tp_add_param_summary)(g, "fc/[WX]", TP_SUMMARY_RMS); /* as C++ calls it: without a place */
    tp_collection(g, TP_KEY_SUMMARIES, &n);
    CHECK(n == 4);
    tp_add_param_summary(g, "+", TP_SUMMARY_RMS);
    CHECK_HAS(tp_graph_error(g), "test_regex.c:");
    CHECK_HAS(tp_graph_error(g), "add_param_summary: regular expression '+$', character 1: nothing to repeat");
    end_of(g);
}

TEST_MAIN()
