/* test_numbers.c - numbers as text: exact, shortest, and the same under a locale with a decimal comma */
#define TP_IMPLEMENTATION
#include "tp_tensor.h"
#include "tp_test.h"
#include <float.h>
#include <locale.h>

/* the C library's own, which are right in the locale "C" */
static locale_t plain;
static double libc_double(const char *text)
{
    if (!plain) plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    const locale_t before = uselocale(plain);
    const double v = strtod(text, NULL);
    uselocale(before);
    return v;
}
static float libc_float(const char *text)
{
    if (!plain) plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    const locale_t before = uselocale(plain);
    const float v = strtof(text, NULL);
    uselocale(before);
    return v;
}
static int libc_print(char *text, size_t n, const char *fmt, int width, int precision, double v)
{
    if (!plain) plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    const locale_t before = uselocale(plain);
    const int length = snprintf(text, n, fmt, width, precision, v);
    uselocale(before);
    return length;
}
static bool same(double a, double b) { return memcmp(&a, &b, sizeof a) == 0; }

static uint64_t rnd(uint64_t i) { return (uint64_t)tp_random_u32(9, 0, 2 * i) << 32 | tp_random_u32(9, 0, 2 * i + 1); }
static double rnd_double(uint64_t i) /* any finite one */
{
    double v;
    uint64_t bits = rnd(i);
    if ((bits >> 52 & 0x7ff) == 0x7ff) bits ^= (uint64_t)1 << 60;
    memcpy(&v, &bits, sizeof v);
    return v;
}
static int many(void) { return getenv("TP_TEST_QUICK") ? 5000 : 100000; }

TEST(known_numbers)
{
    static const struct {
        double v;
        const char *text;
    } c[] = {{0.0, "0.0"},
             {-0.0, "-0.0"},
             {1.0, "1.0"},
             {-1.5, "-1.5"},
             {0.1, "0.1"},
             {1e22, "1e+22"},
             {1e15, "1000000000000000.0"},
             {1e16, "1e+16"},
             {123456789012345680.0, "1.2345678901234568e+17"},
             {1e-4, "0.0001"},
             {1e-5, "1e-05"},
             {12345.678, "12345.678"},
             {5e-324, "5e-324"},
             {2.2250738585072014e-308, "2.2250738585072014e-308"},
             {2.225073858507201e-308, "2.225073858507201e-308"},
             {1.7976931348623157e308, "1.7976931348623157e+308"},
             {9007199254740993.0, "9007199254740992.0"},
             {1e308, "1e+308"},
             {0x1p-1017, "7.120236347223045e-307"}, /* not the nearest text of 16 digits: that one is another number */
             {0x1p-44, "5.684341886080802e-14"},
             {0.30000000000000004, "0.30000000000000004"},
             {9.5367431640625e-07, "9.5367431640625e-07"},
             {1e100, "1e+100"}};
    char text[TP_NUMBER_TEXT];
    for (int i = 0; i < TP_COUNT(c); i++) {
        CHECK(tp_format_double(text, c[i].v) == (int)strlen(c[i].text));
        CHECK_STR(text, c[i].text);
        CHECK(same(tp_parse_double(text, NULL), c[i].v));
    }
    CHECK(tp_format_float(text, 0.1f) == 3);
    CHECK_STR(text, "0.1");
    CHECK(tp_format_float(text, 16777216.0f) == 10);
    CHECK_STR(text, "16777216.0");
    tp_format_float(text, 1e-45f);
    CHECK_STR(text, "1e-45");
    tp_format_float(text, FLT_MAX);
    CHECK_STR(text, "3.4028235e+38");
    tp_format_double(text, (double)NAN);
    CHECK_STR(text, "nan");
    tp_format_float(text, -INFINITY);
    CHECK_STR(text, "-inf");
}

TEST(what_is_read_and_where_it_ends)
{
    static const struct {
        const char *text;
        double v;
        int n;
    } c[] = {{"1.5", 1.5, 3},
             {" \t-2e3x", -2000, 6},
             {"1,5", 1, 1},
             {".5.", .5, 2},
             {"5.", 5, 2},
             {"1e", 1, 1},
             {"1e+", 1, 1},
             {"+7", 7, 2},
             {"0x10", 0, 1},
             {"", 0, 0},
             {"  ", 0, 0},
             {"-", 0, 0},
             {".", 0, 0},
             {"e5", 0, 0},
             {"1e999", (double)INFINITY, 5},
             {"-1e999", -(double)INFINITY, 6},
             {"1e-999", 0, 6},
             {"inf", (double)INFINITY, 3},
             {"-Infinity", -(double)INFINITY, 9},
             {"infinite", (double)INFINITY, 3},
             {"0e999999999999", 0, 14},
             {"1e99999999999999999999", (double)INFINITY, 22},
             {"00012", 12, 5},
             {"1e0000000000000000000001", 10, 24}};
    for (int i = 0; i < TP_COUNT(c); i++) {
        const char *end = NULL;
        const double v = tp_parse_double(c[i].text, &end);
        CHECK_MSG(v == c[i].v, "'%s' is %.17g", c[i].text, v);
        CHECK_MSG(end - c[i].text == c[i].n, "'%s' ends at %d", c[i].text, (int)(end - c[i].text));
        const float f = tp_parse_float(c[i].text, &end);
        CHECK(f == (float)c[i].v && end - c[i].text == c[i].n);
    }
    CHECK(isnan(tp_parse_double("NaN", NULL)) && isnan(tp_parse_float("-nan", NULL)));
    CHECK(signbit(tp_parse_double("-0.0", NULL)) && signbit(tp_parse_float("-1e-999", NULL)));
}

/* Zeros before the digits and an exponent of many digits: what counts is the number that both give together. */
TEST(exponents_of_many_digits)
{
    enum { ZEROS = 200000 };
    static const struct {
        int zeros; /* so many: between the point and a 1, or behind a 1 that is in front */
        bool large;
        const char *exponent;
        double v;
    } c[] = {{0, false, "e99999", HUGE_VAL},       {0, false, "e100000", HUGE_VAL},
             {0, false, "e1000000", HUGE_VAL},     {0, false, "e99999999999999999999", HUGE_VAL},
             {0, false, "e-1000000", 0},           {0, false, "e-99999999999999999999", 0},
             {99998, false, "e99999", 1},          {99998, false, "e99998", 0.1},
             {99999, false, "e100000", 1},         {99999, false, "e1000000", HUGE_VAL},
             {99999, false, "e1000009", HUGE_VAL}, {100000, false, "e100001", 1},
             {100000, false, "e99999", 0.01},      {199999, false, "e200003", 1000},
             {99999, true, "e-99999", 1},          {100000, true, "e-100001", 0.1},
             {100000, true, "e-1000000", 0},       {199999, true, "e-199997", 100}};
    static char text[ZEROS + 80];
    for (int i = 0; i < TP_COUNT(c); i++) {
        const char *end;
        char *p = text;
        p += snprintf(p, 8, c[i].large ? "1" : "0.");
        memset(p, '0', (size_t)c[i].zeros);
        snprintf(p + c[i].zeros, 64, "%s%s", c[i].large ? "" : "1", c[i].exponent);
        const double v = tp_parse_double(text, &end);
        CHECK_MSG(same(v, c[i].v) && *end == 0, "row %d: %g", i, v);
        CHECK_MSG(tp_parse_float(text, NULL) == (float)c[i].v, "row %d, a float", i);
    }
}

/* the middles between neighbours, and a little beside them; all powers of ten */
TEST(half_way_and_powers_of_ten)
{
    static const char *const hard[] = {
        "9007199254740993",
        "9007199254740993.0000000000000000000000000000000000000000001",
        "9007199254740992.99999999999999999999",
        "9007199254740995",
        "2.4703282292062327208e-324",
        "2.4703282292062328e-324",
        "2.2250738585072011e-308",
        "2.2250738585072012e-308",
        "1.7976931348623158e308",
        "1.79769313486231580793e308",
        "1.79769313486231590e308",
        "6.631236846766476e-316",
        "3.2378839133029012895883524125015321748630094e-319",
        "1.00000017881393432617187499",
        "1.00000017881393432617187500",
        "1.00000017881393432617187501",
        "7.0064923216240853546186479164495806564013097093825788587853e-46",
        "7.00649232162408535461864791644958065640130970938257885878534e-46",
        "16777217",
        "16777219",
        "3.4028235677973366e38",
        "3.40282356779733661637e38",
        "17976931348623158079372897140530341507993413271003782693617377898044496829276475094664901797758720709633028641"
        "66928879109465555478519404026306574886715058206819089020007083836762738548458177115317644757302700698555713669"
        "59622842914819860834936475292719074168444365510704342711559699508093042880"};
    for (int i = 0; i < TP_COUNT(hard); i++) {
        CHECK_MSG(same(tp_parse_double(hard[i], NULL), libc_double(hard[i])), "%s", hard[i]);
        CHECK_MSG(tp_parse_float(hard[i], NULL) == libc_float(hard[i]), "%s", hard[i]);
    }
    for (int e = -360; e <= 320; e++) {
        char text[32], back[TP_NUMBER_TEXT];
        snprintf(text, sizeof text, "1e%d", e);
        const double v = tp_parse_double(text, NULL);
        CHECK_MSG(same(v, libc_double(text)), "%s", text);
        CHECK_MSG(tp_parse_float(text, NULL) == libc_float(text), "%s", text);
        tp_format_double(back, v);
        CHECK(same(tp_parse_double(back, NULL), v));
    }
    for (int i = 0; i < 300; i++) { /* exact middles: 770 digits of them */
        const double a = fabs(rnd_double((uint64_t)i + 7000000)), b = nextafter(a, (double)INFINITY);
        char low[1200], middle[1200];
        if (!(b < 1e300) || !(a > 1e-290)) continue;
        int e;
        const double m = frexp(a, &e);
        libc_print(low, sizeof low, "%*.*f", 0, 60,
                   ldexp(m, 54) + 1); /* twice the significand, and one: the middle of two */
        (void)b;
        snprintf(middle, sizeof middle, "%.*s", (int)strcspn(low, "."), low);
        const double want = libc_double(middle);
        CHECK_MSG(same(tp_parse_double(middle, NULL), want), "%s", middle);
    }
}

TEST(random_doubles_and_floats_come_back)
{
    const int n = many();
    for (int i = 0; i < n; i++) {
        char text[TP_NUMBER_TEXT], shorter[64];
        const double v = rnd_double((uint64_t)i);
        const int length = tp_format_double(text, v);
        if (!CHECK_MSG(length < TP_NUMBER_TEXT && strlen(text) == (size_t)length, "%s", text)) return;
        if (!CHECK_MSG(same(tp_parse_double(text, NULL), v) && same(libc_double(text), v), "%s", text)) return;
        int digits = 0; /* one digit less does not do */
        for (const char *p = text; *p && *p != 'e'; p++) digits += *p >= '0' && *p <= '9';
        if (digits > 1 && strchr(text, 'e')) {
            libc_print(shorter, sizeof shorter, "%*.*e", 0, digits - 2, v);
            CHECK_MSG(!same(libc_double(shorter), v), "%s is longer than %s", text, shorter);
        }
        const uint32_t bits = tp_random_u32(11, 0, (uint64_t)i);
        float f;
        memcpy(&f, &bits, sizeof f);
        if (isnan(f) || isinf(f)) continue;
        tp_format_float(text, f);
        const float a = tp_parse_float(text, NULL), b = libc_float(text);
        if (!CHECK_MSG(memcmp(&a, &f, 4) == 0 && memcmp(&b, &f, 4) == 0, "%s", text)) return;
    }
    for (int i = 0; i < n; i++) { /* text of any length */
        char text[80];
        const uint64_t r = rnd((uint64_t)i + 5000000);
        snprintf(text, sizeof text, "%llu%llu.%llue%d", (unsigned long long)(r >> (r & 63)),
                 (unsigned long long)(r * 77 >> (r >> 58)), (unsigned long long)rnd((uint64_t)i + 6000000),
                 (int)(r >> 20 & 1023) - 560);
        if (!CHECK_MSG(same(tp_parse_double(text, NULL), libc_double(text)), "%s", text)) return;
        const float f = tp_parse_float(text, NULL), g = libc_float(text);
        if (!CHECK_MSG(memcmp(&f, &g, 4) == 0, "%s", text)) return;
    }
}

/* Numbers of up to 19 digits, which a shorter way reads: whole ones with any power of ten, and the middles between neighbours, which
 * 25 or 54 bits and powers of two and five make. */
TEST(short_numbers_are_the_nearest)
{
    const int n = many();
    for (int i = 0; i < 2 * n; i++) {
        char text[64];
        const uint64_t r = rnd((uint64_t)i + 8000000), q = rnd((uint64_t)i + 9000000);
        const int float_bits = 25, double_bits = 54, bits = i & 2 ? float_bits : double_bits;
        uint64_t m = r >> (64 - bits) | 1 | (uint64_t)1 << (bits - 1);
        if (i & 1)
            snprintf(text, sizeof text, "%llue%d", (unsigned long long)(r >> (q & 63)), (int)(q >> 20 & 63) - 34);
        else if (i & 4) snprintf(text, sizeof text, "%llu", (unsigned long long)(m << q % 10));
        else {
            const int tens = (int)(q % (bits == float_bits ? 14 : 4));
            for (int k = 0; k < tens; k++) m *= 5;
            snprintf(text, sizeof text, "%llue-%d", (unsigned long long)m, tens);
        }
        if (!CHECK_MSG(same(tp_parse_double(text, NULL), libc_double(text)), "%s", text)) return;
        const float f = tp_parse_float(text, NULL), g = libc_float(text);
        if (!CHECK_MSG(memcmp(&f, &g, 4) == 0, "%s", text)) return;
    }
}

/* tp_buf_printf and with it sentences and log lines: printf's text, conversion by conversion */
TEST(printf_of_numbers)
{
    static const char *const form[] = {"%*.*f",  "%*.*e",  "%*.*g", "%-*.*g|", "%+*.*f",  "% *.*e",
                                       "%0*.*f", "%#*.*g", "%*.*G", "%*.*E",   "%-+*.*e|"};
    static const double value[] = {0,      -0.0,    1,     -1,     .5,      1.5,   2.5,    0.125,           1e-5,
                                   123456, 1234567, 9.995, 0.0001, 0.00001, 1e100, 1e-320, 3.14159265358979};
    char want[600];
    for (int f = 0; f < TP_COUNT(form); f++)
        for (int i = 0; i < 200; i++) {
            const double v = i < TP_COUNT(value) ? value[i]
                             : i == 30           ? (double)INFINITY
                             : i == 31           ? -(double)INFINITY
                                                 : rnd_double((uint64_t)i);
            const int width = i % 3 * 7, precision = i % 11 - 1;
            tp_buf b = {0};
            tp_buf_printf(&b, form[f], width, precision, v);
            libc_print(want, sizeof want, form[f], width, precision, v);
            CHECK_MSG(b.data && strcmp(b.data, want) == 0, "%s %d %d: '%s' is not '%s'", form[f], width, precision,
                      b.data, want);
            tp_buf_free(&b);
        }
    tp_buf b = {0};
    tp_buf_printf(
        &b, "%d|%5d|%-5d|%05d|%+d|%x|%X|%#x|%o|%u|%c|%3c|%s|%8s|%-8s|%.2s|%.*s|%lld|%llu|%zu|%ld|%lu|%%|%.3d|%hhd", -3,
        42, 42, 42, 42, 255u, 255u, 255u, 8u, 4000000000u, 'a', 'b', "word", "right", "left", "cut", 1, "cut",
        -(1LL << 60), 1ULL << 63, (size_t)-1, -5L, 5UL, 7, (signed char)-1);
    snprintf(want, sizeof want,
             "%d|%5d|%-5d|%05d|%+d|%x|%X|%#x|%o|%u|%c|%3c|%s|%8s|%-8s|%.2s|%.*s|%lld|%llu|%zu|%ld|%lu|%%|%.3d|%hhd", -3,
             42, 42, 42, 42, 255u, 255u, 255u, 8u, 4000000000u, 'a', 'b', "word", "right", "left", "cut", 1, "cut",
             -(1LL << 60), 1ULL << 63, (size_t)-1, -5L, 5UL, 7, (signed char)-1);
    CHECK_STR(b.data ? b.data : "", want);
    tp_buf_free(&b);
    tp_fail(TP_ERR_ARG, "a sentence with %g", 0.5);
    CHECK_STR(tp_last_error(), "a sentence with 0.5");
}

/* Integers are printed without the C library, so that a program needs no printf. */
TEST(printf_of_integers)
{
    static const char *const form[] = {"%*.*lld",    "%-*.*lld|", "%+*.*lld", "% *.*lld", "%0*.*lld",
                                       "%-+*.*lli|", "%+0*.*lld", "%*.*llu",  "%0*.*llu", "%*.*llx",
                                       "%#*.*llx",   "%#0*.*llX", "%*.*llo",  "%#*.*llo", "%-#*.*llo|"};
    static const long long value[] = {0,   1,     -1,    7,          10,         -10,       99,
                                      100, 65535, 65536, 4294967295, 4294967296, INT64_MAX, INT64_MIN};
    char want[200];
    for (int f = 0; f < TP_COUNT(form); f++)
        for (int i = 0; i < 300; i++) {
            const long long v = i < TP_COUNT(value) ? value[i] : (long long)(tp_random_key(3, (uint64_t)i) >> i % 64);
            const int width = i % 4 * 9, precision = i % 13 - 1;
            tp_buf b = {0};
            tp_buf_printf(&b, form[f], width, precision, v);
            snprintf(want, sizeof want, form[f], width, precision, v);
            CHECK_MSG(b.data ? strcmp(b.data, want) == 0 : !want[0], "%s %d %d: '%s' is not '%s'", form[f], width,
                      precision, b.data ? b.data : "", want);
            tp_buf_free(&b);
        }
    tp_buf b = {0};
    tp_buf_printf(&b, "%p", (void *)&b);
    snprintf(want, sizeof want, "0x%llx", (unsigned long long)(uintptr_t)&b);
    CHECK_STR(b.data ? b.data : "", want);
    tp_buf_free(&b);
}

TEST(a_locale_with_a_comma_changes_nothing)
{
    char text[64];
    if (!setlocale(LC_ALL, "de_DE.UTF-8") && !setlocale(LC_ALL, "de_DE.utf8"))
        TEST_SKIP("no locale de_DE.UTF-8 (Debian package locales, tests/run.sh)");
    snprintf(text, sizeof text, "%.1f", 0.5);
    CHECK_STR(text, "0,5");
    tp_format_double(text, 1.5);
    CHECK_STR(text, "1.5");
    CHECK(tp_parse_double("1.5", NULL) == 1.5 && tp_parse_double("1,5", NULL) == 1.0);
    tp_fail(TP_ERR_ARG, "%.2f, %5.1e and %g", 0.25, 1.5, 2.5);
    CHECK_STR(tp_last_error(), "0.25, 1.5e+00 and 2.5");
    setlocale(LC_ALL, getenv("TP_TEST_LOCALE") ? "" : "C");
}
TEST_MAIN()
