/* test_files.c - whole files, checksums, deflate, npy and npz; the oracle is numpy where a python with
 * numpy is found ($TP_TEST_PYTHON or python3), and the known bytes below everywhere. */
#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#ifndef TP__ZIP64_FROM
static uint32_t zip64_from = 0xFFFFFFFFu; /* tests lower it */
#define TP__ZIP64_FROM zip64_from
#define ZIP64_LOWERS   1
#endif
#define TP_IMPLEMENTATION
#define TP_STATIC /* private functions are tested too */
#include "tp_tensor.h"
#include "tp_test.h"
#include "formats.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* ==== >>helpers ======================================================================================= */

/* Bytes from hexadecimal text; spaces are skipped. */
static size_t unhex(const char *text, uint8_t *out)
{
    size_t n = 0;
    int high = -1;
    for (; *text; text++) {
        if (*text == ' ') continue;
        int v = *text <= '9' ? *text - '0' : *text - 'a' + 10;
        if (high < 0) high = v;
        else out[n++] = (uint8_t)(16 * high + v), high = -1;
    }
    return n;
}

/* Reproducible noise. */
static uint32_t noise(uint64_t i) { return tp_random_u32(tp_random_key(1, 2), 0, i); }

static tp_tensor ramp(tp_dtype dtype, int ndim, int64_t a, int64_t b, int64_t c)
{
    tp_tensor t;
    int64_t dim[3];
    dim[0] = a;
    dim[1] = b;
    dim[2] = c;
    memset(&t, 0, sizeof t);
    if (CHECK_OK(tp_tensor_resize(&t, dtype, tp_make_shape_n(ndim, dim))))
        for (int64_t i = 0; i < tp_tensor_size(&t); i++)
            tp_tensor_set(&t, i,
                          dtype == TP_BOOL ? (double)(i % 3 == 0)
                          : dtype == TP_U8 ? (double)(i % 251)
                                           : (double)i - 2);
    return t;
}

static bool same(const tp_tensor *a, const tp_tensor *b)
{
    if (!a || !b || a->dtype != b->dtype || !tp_shape_equal(&a->shape, &b->shape)) return false;
    return tp_tensor_size(a) == 0 || memcmp(a->data, b->data, tp_tensor_bytes(a)) == 0;
}

/* A byte string that tests build by hand. */
typedef struct bytes {
    uint8_t p[8192];
    size_t n;
} bytes;
static void put(bytes *b, const void *p, size_t n)
{
    if (n) memcpy(b->p + b->n, p, n);
    b->n += n;
}
static void put_le(bytes *b, uint64_t v, int n)
{
    while (n-- > 0) b->p[b->n++] = (uint8_t)v, v >>= 8;
}

/* An npy file with any header text. */
static void put_npy(bytes *b, const char *dict, const void *data, size_t n)
{
    put(b, "\x93NUMPY\x01\x00", 8);
    put_le(b, strlen(dict), 2);
    put(b, dict, strlen(dict));
    put(b, data, n);
}

/* A zip file, member by member, with any lie in it. */
typedef struct lie {
    int method;
    unsigned flags;
    uint64_t csize, usize, local; /* added to the truth in the central directory */
    uint32_t crc;                 /* likewise */
    const char *local_name;       /* another name in the local header */
    bool wide;                    /* sizes and offset in a zip64 field */
    int wide_len;                 /* added to that field's length */
    bool local_ones;              /* the local header has 0xFFFFFFFF and a zip64 field */
} lie;
typedef struct zip {
    bytes file, directory;
    int n;
    size_t last; /* where the last member's local header is */
} zip;

static void zip_add(zip *z, const char *name, const void *packed, size_t csize, const void *plain, size_t usize, lie l)
{
    uint32_t crc = tp_crc32(0, plain, usize) + l.crc;
    const char *ln = l.local_name ? l.local_name : name;
    bytes *f = &z->file, *d = &z->directory;
    z->last = f->n;
    put_le(f, 0x04034b50, 4);
    put_le(f, 20, 2);
    put_le(f, l.flags, 2);
    put_le(f, (uint64_t)l.method, 2);
    put_le(f, 0, 4);
    put_le(f, crc, 4);
    put_le(f, l.local_ones ? 0xFFFFFFFF : csize, 4);
    put_le(f, l.local_ones ? 0xFFFFFFFF : usize, 4);
    put_le(f, strlen(ln), 2);
    put_le(f, l.local_ones ? 20 : 0, 2);
    put(f, ln, strlen(ln));
    if (l.local_ones) put_le(f, 0x00100001, 4), put_le(f, usize, 8), put_le(f, csize, 8);
    put(f, packed, csize);
    put_le(d, 0x02014b50, 4);
    put_le(d, 20, 2);
    put_le(d, 20, 2);
    put_le(d, l.flags, 2);
    put_le(d, (uint64_t)l.method, 2);
    put_le(d, 0, 4);
    put_le(d, crc, 4);
    put_le(d, l.wide ? 0xFFFFFFFF : csize + l.csize, 4);
    put_le(d, l.wide ? 0xFFFFFFFF : usize + l.usize, 4);
    put_le(d, strlen(name), 2);
    put_le(d, l.wide ? 28 : 0, 2);
    put_le(d, 0, 2 + 2 + 2 + 4);
    put_le(d, l.wide ? 0xFFFFFFFF : z->last + l.local, 4);
    put(d, name, strlen(name));
    if (l.wide) {
        put_le(d, 1, 2);
        put_le(d, (uint64_t)(24 + l.wide_len), 2);
        put_le(d, usize + l.usize, 8);
        put_le(d, csize + l.csize, 8);
        put_le(d, z->last + l.local, 8);
    }
    z->n++;
}

static const char two_dict[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n";
static void zip_two(zip *z, const char *name, lie l) /* a stored array [1, 2] */
{
    static const uint8_t data[8] = {0, 0, 0x80, 0x3f, 0, 0, 0, 0x40};
    bytes npy;
    npy.n = 0;
    put_npy(&npy, two_dict, data, 8);
    zip_add(z, name, npy.p, npy.n, npy.p, npy.n, l);
}

static void zip_end(zip *z, bool wide)
{
    size_t begin = z->file.n;
    put(&z->file, z->directory.p, z->directory.n);
    if (wide) {
        size_t at = z->file.n;
        put_le(&z->file, 0x06064b50, 4);
        put_le(&z->file, 44, 8);
        put_le(&z->file, 45 + (45 << 16), 4);
        put_le(&z->file, 0, 8);
        put_le(&z->file, (uint64_t)z->n, 8);
        put_le(&z->file, (uint64_t)z->n, 8);
        put_le(&z->file, z->directory.n, 8);
        put_le(&z->file, begin, 8);
        put_le(&z->file, 0x07064b50, 4);
        put_le(&z->file, 0, 4);
        put_le(&z->file, at, 8);
        put_le(&z->file, 1, 4);
    }
    put_le(&z->file, 0x06054b50, 4);
    put_le(&z->file, 0, 4);
    put_le(&z->file, wide ? 0xFFFF : (uint64_t)z->n, 2);
    put_le(&z->file, wide ? 0xFFFF : (uint64_t)z->n, 2);
    put_le(&z->file, wide ? 0xFFFFFFFF : z->directory.n, 4);
    put_le(&z->file, wide ? 0xFFFFFFFF : begin, 4);
    put_le(&z->file, 0, 2);
}

static lie honest(void)
{
    lie l;
    memset(&l, 0, sizeof l);
    return l;
}

/* Load an npz whose bytes are at p. A copy of exactly that size lets the sanitizer see every read past it. */
static tp_status load_bytes(const void *p, size_t n, tp_dict *d)
{
    uint8_t *copy = (uint8_t *)malloc(n ? n : 1);
    if (n) memcpy(copy, p, n);
    tp_status s = tp__npz_parse(copy, n, "x.npz", d);
    free(copy);
    return s;
}

static void expect_bad(const zip *z, tp_status code, const char *part)
{
    tp_dict d = {NULL, 0, 0};
    CHECK_ERR(load_bytes(z->file.p, z->file.n, &d), code, part);
    tp_dict_free(&d);
}

/* ==== >>checksums ===================================================================================== */

TEST(crc_vectors)
{
    uint8_t b[64], zeros[32], ones[32], count[32];
    memset(zeros, 0, 32);
    memset(ones, 255, 32);
    for (int i = 0; i < 32; i++) count[i] = (uint8_t)i;
    CHECK(tp_crc32(0, "", 0) == 0 && tp_crc32c(0, NULL, 0) == 0);
    CHECK(tp_crc32(0, "123456789", 9) == 0xCBF43926u);
    CHECK(tp_crc32c(0, "a", 1) == 0xc1d04330u);
    CHECK(tp_crc32c(0, "123456789", 9) == 0xe3069283u);
    CHECK(tp_crc32c(0, zeros, 32) == 0x8a9136aau);
    CHECK(tp_crc32c(0, ones, 32) == 0x62a8ab43u);
    CHECK(tp_crc32c(0, count, 32) == 0x46dd794eu);
    memcpy(b,
           "\x1a\x11"
           "CRC test, one two",
           19);
    CHECK(tp_crc32c(0, b, 19) == 0xf2d95a88u);
    CHECK(tp_crc32c(0, "\x18\0\0\0\0\0\0\0", 8) == 0x4a65bfe4u);
}

TEST(crc_of_parts_is_crc_of_whole)
{
    enum { N = 5000 };
    static uint8_t p[N];
    for (int i = 0; i < N; i++) p[i] = (uint8_t)noise((uint64_t)i);
    uint32_t slow = 0xFFFFFFFFu;
    for (int i = 0; i < N; i++) {
        slow ^= p[i];
        for (int k = 0; k < 8; k++) slow = (slow >> 1) ^ (0xEDB88320u & (0u - (slow & 1)));
    }
    CHECK(tp_crc32(0, p, N) == ~slow);
    for (size_t cut = 0; cut <= N; cut += 37) CHECK(tp_crc32(tp_crc32(0, p, cut), p + cut, N - cut) == ~slow);
}

/* CRC-32C may be computed by an instruction that takes eight bytes: all lengths, all alignments, both ways of cutting */
TEST(crc32c_is_the_division_bit_by_bit)
{
    enum { N = 300 };
    static uint8_t p[N + 8];
    for (int i = 0; i < N + 8; i++) p[i] = (uint8_t)noise((uint64_t)i + 9);
    for (size_t at = 0; at < 8; at++) {
        uint32_t slow = 0xFFFFFFFFu;
        for (size_t n = 0; n <= N; n++) {
            const bool same = tp_crc32c(0, p + at, n) == ~slow;
            if (!CHECK(same && tp_crc32c(tp_crc32c(0, p + at, n / 3), p + at + n / 3, n - n / 3) == ~slow)) return;
            if (n == N) break;
            slow ^= p[at + n];
            for (int k = 0; k < 8; k++) slow = (slow >> 1) ^ (0x82F63B78u & (0u - (slow & 1)));
        }
    }
}

/* ==== >>deflate ======================================================================================= */

static const char packed_npy[] = "9bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9366a2aea3a09e965f54529498179f5"
                                 "f94920a12774bcc294e058a17672416a402f9"
                                 "1a463a9a3a0ab50a14002e0686067b0606060700";

TEST(inflate_known)
{
    uint8_t in[128], out[137];
    size_t n = unhex(packed_npy, in), used;
    CHECK_OK(tp_inflate(in, n, out, 136));
    CHECK(tp_crc32(0, out, 136) == 0xE7ABCA9Au);
    CHECK_ERR(tp_inflate(in, n, out, 135), TP_ERR_FORMAT, "more bytes than allowed");
    CHECK_ERR(tp_inflate(in, n, out, 137), TP_ERR_FORMAT, "fewer bytes than declared");
    in[n] = 0;
    CHECK_ERR(tp_inflate(in, n + 1, out, 136), TP_ERR_FORMAT, "follow its end");
    char *p;
    size_t size;
    CHECK_OK(tp_inflate_alloc(in, n + 1, 1000, &p, &size, &used));
    CHECK(size == 136 && used == n && memcmp(p, out, 136) == 0 && p[136] == 0);
    tp_free(p);
    used = size = 77; /* where it fails nothing is given, and nothing counts as read */
    CHECK_ERR(tp_inflate_alloc(in, n, 135, &p, &size, &used), TP_ERR_FORMAT, "more bytes than allowed");
    CHECK(p == NULL && size == 0 && used == 0);
    used = size = 77;
    CHECK_ERR(tp_inflate_alloc(in, 0, 135, &p, &size, &used), TP_ERR_FORMAT, "cut short");
    CHECK(p == NULL && size == 0 && used == 0);
    for (size_t cut = 0; cut < n; cut++) {
        uint8_t *copy = (uint8_t *)malloc(cut ? cut : 1); /* exact, so that the sanitizer sees a read behind it */
        memcpy(copy, in, cut);
        CHECK_ERR(tp_inflate(copy, cut, out, 136), TP_ERR_FORMAT, "cut short");
        CHECK_ERR(tp_inflate_alloc(copy, cut, 0, &p, &size, &used), TP_ERR_FORMAT, "cut short");
        free(copy);
    }
}

TEST(inflate_hostile)
{
    static const struct {
        const char *hex, *part;
    } row[] = {
        {"07", "impossible code"},               /* block type 3 */
        {"0101000000", "impossible code"},       /* stored: the length and its complement disagree */
        {"010400fbff61", "cut short"},           /* stored: 4 promised, 1 there */
        {"030200", "before its beginning"},      /* a copy from before the start */
        {"1b030000", "impossible code"},         /* fixed length code 286 */
        {"63003e0000", "impossible code"},       /* fixed distance code 30 */
        {"fb0f84", "before its beginning"},      /* the data end with the code of a distance: too far, */
        {"fb0f7c", "impossible code"},           /* code 30, */
        {"fb0f04", "cut short"},                 /* and good, after which the end is missing */
        {"fb0f", "cut short"},                   /* or within the code of a length */
        {"fdffff", "impossible code"},           /* 288 literal codes */
        {"051e120000000000", "impossible code"}, /* 31 distance codes */
        {"0500920400000000", "impossible code"}, /* more codes than there can be */
        {"0500000000000000", "impossible code"}, /* no code at all */
        {"0500800000000000", "impossible code"}, /* one code of one bit for the lengths */
        {"0500820000000000", "impossible code"}, /* repeat what came before the first length */
        {"050080e4ff1f0000", "impossible code"}, /* a run past the last length */
        {"050080e47f1b0000", "impossible code"}, /* a block that cannot end */
        {"", "cut short"},                       /* nothing */
    };
    char *p;
    uint8_t in[64];
    size_t size, used;
    for (int i = 0; i < TP_COUNT(row); i++) {
        tp_status s = tp_inflate_alloc(in, unhex(row[i].hex, in), 1000, &p, &size, &used);
        CHECK_MSG(s == TP_ERR_FORMAT && strstr(tp_last_error(), row[i].part), "row %d: %s: %s", i, tp_status_name(s),
                  tp_last_error());
        tp_free(p);
    }
}

static void deflate_round(const void *p, size_t n, size_t most)
{
    tp_buf out = {NULL, 0, 0, false};
    size_t size, used;
    char *back;
    CHECK_OK(tp_deflate(p, n, &out));
    CHECK_MSG(out.len <= most, "%zu bytes became %zu, at most %zu expected", n, out.len, most);
    if (CHECK_OK(tp_inflate_alloc(out.data, out.len, 0, &back, &size, &used))) {
        CHECK(size == n && used == out.len && (n == 0 || memcmp(back, p, n) == 0));
        tp_free(back);
    }
    uint8_t *exact = (uint8_t *)malloc(n ? n : 1);
    CHECK_OK(tp_inflate(out.data, out.len, exact, n));
    CHECK(n == 0 || memcmp(exact, p, n) == 0);
    free(exact);
    tp_buf_free(&out);
}

/* Nothing behind the data is read, which lie in a block of exactly their size (the address sanitizer sees such a read). */
TEST(deflate_of_exact_blocks)
{
    for (size_t n = 1; n < 900; n += n < 40 ? 1 : 61)
        for (int kind = 0; kind < 3; kind++) {
            uint8_t *p = (uint8_t *)malloc(n);
            if (!CHECK(p)) return;
            for (size_t i = 0; i < n; i++) p[i] = (uint8_t)(kind == 0 ? 0 : kind == 1 ? i % 5 : noise(i));
            deflate_round(p, n, 10 + n + n / 8);
            free(p);
        }
}

TEST(deflate_round_trips)
{
    enum { N = 300000 };
    uint8_t *p = (uint8_t *)calloc(1, N);
    deflate_round(p, 0, 2);
    for (size_t n = 1; n < 700; n += n < 20 ? 1 : 67) deflate_round(p, n, 2 + n); /* zeros */
    deflate_round(p, N, N / 100);
    for (int i = 0; i < N; i++) p[i] = (uint8_t)noise((uint64_t)i);
    for (size_t n = 1; n < 700; n += n < 20 ? 1 : 67) deflate_round(p, n, 10 + n + n / 8);
    deflate_round(p, 32768, 32768 + 6);
    deflate_round(p, N, N + 5 * (N / 32768 + 1) + 1); /* noise is stored */
    for (int period = 1; period < 40000; period = period * 3 + 1) {
        for (int i = period; i < N; i++) p[i] = p[i - period];
        deflate_round(p, N, period < 32768 ? (size_t)N / 4 : N + 100);
    }
    for (int i = 0; i < N; i++) p[i] = (uint8_t)("the quick brown fox "[noise((uint64_t)i / 7) % 20]);
    deflate_round(p, N, N / 2);
    for (int i = 0; i < N; i++) p[i] = (uint8_t)(noise((uint64_t)i) % 3);
    deflate_round(p, N, N);
    free(p);
}

/* -- streams made here, by RFC 1951 alone: any Huffman codes, any lengths and distances ------------------------ */

typedef struct stream {
    uint8_t p[40000];
    size_t n; /* whole bytes */
    unsigned nbits;
    uint8_t want[300000]; /* what comes out */
    size_t size;
    uint64_t draws;
} stream;

static uint32_t draw(stream *s, uint32_t below) { return noise(s->draws++) % below; }

static void put_bits(stream *s, uint32_t v, unsigned n)
{
    for (; n > 0; n--, v >>= 1) {
        if (s->nbits == 0) s->p[s->n++] = 0;
        s->p[s->n - 1] |= (uint8_t)((v & 1) << s->nbits);
        s->nbits = (s->nbits + 1) % 8;
    }
}

typedef struct prefix_code {
    int length[320]; /* of one size with code: gcc 12 -O1 loses writes where they are not */
    uint32_t code[320];
} prefix_code;

/* Canonical codes of these lengths, as section 3.2.2 makes them. */
static void number_codes(prefix_code *c, int n)
{
    uint32_t count[16] = {0}, next[16] = {0};
    for (int i = 0; i < n; i++) count[c->length[i]]++;
    count[0] = 0;
    for (int bits = 1; bits <= 15; bits++) next[bits] = 2 * (next[bits - 1] + count[bits - 1]);
    for (int i = 0; i < n; i++)
        if (c->length[i]) c->code[i] = next[c->length[i]]++;
}
static void put_code(stream *s, const prefix_code *c, int symbol)
{
    CHECK(c->length[symbol] > 0);
    for (int i = c->length[symbol]; i-- > 0;) put_bits(s, c->code[symbol] >> i & 1, 1);
}

/* A complete code for `used` of the n symbols, the last of which is `must` if that is not negative; codes of up to `most` bits. */
static void draw_code(stream *s, prefix_code *c, int n, int used, int most, int must)
{
    uint8_t leaf[320] = {1, 1};
    int leaves = 2;
    memset(c, 0, sizeof *c);
    while (leaves < used) { /* split a leaf: now and then the deepest one */
        int i = (int)draw(s, (uint32_t)leaves);
        for (int k = 0; k < leaves && draw(s, 3) == 0; k++) i = leaf[k] > leaf[i] && leaf[k] < most ? k : i;
        if (leaf[i] >= most) continue;
        leaf[leaves++] = ++leaf[i];
    }
    for (int k = 0; k < leaves; k++) {
        int symbol = must >= 0 && k == 0 ? must : (int)draw(s, (uint32_t)n);
        while (c->length[symbol]) symbol = (symbol + 1) % n;
        c->length[symbol] = leaf[k];
    }
    number_codes(c, n);
}

static void fixed_codes(prefix_code *lit, prefix_code *dist)
{
    for (int i = 0; i < 288; i++) lit->length[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    for (int i = 0; i < 32; i++) dist->length[i] = 5;
    number_codes(lit, 288);
    number_codes(dist, 32);
}

/* The lengths of both codes, themselves in a code and with runs. */
static void put_lengths(stream *s, const prefix_code *lit, const prefix_code *dist)
{
    static const uint8_t order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    uint8_t all[320], symbol[320], more[320];
    prefix_code c;
    int nlit = 286, ndist = 30, n = 0, ncode = 19;
    while (nlit > 257 && !lit->length[nlit - 1]) nlit--;
    while (ndist > 1 && !dist->length[ndist - 1]) ndist--;
    for (int i = 0; i < nlit; i++) all[i] = (uint8_t)lit->length[i];
    for (int i = 0; i < ndist; i++) all[nlit + i] = (uint8_t)dist->length[i];
    for (int i = 0; i < nlit + ndist; n++) {
        int run = 1, most;
        while (i + run < nlit + ndist && all[i + run] == all[i]) run++;
        const bool again = i > 0 && all[i - 1] == all[i] && run >= 3 && draw(s, 4) > 0;
        symbol[n] = again                                        ? 16
                    : all[i] == 0 && run >= 11 && draw(s, 4) > 0 ? 18
                    : all[i] == 0 && run >= 3                    ? 17
                                                                 : all[i];
        most = symbol[n] == 16 ? 6 : symbol[n] == 17 ? 10 : 138;
        const int least = symbol[n] == 18 ? 11 : 3;
        run = run < most ? run : most;
        if (draw(s, 2)) run = least + (int)draw(s, (uint32_t)(run < least ? 1 : run - least + 1));
        more[n] = (uint8_t)(run - least);
        i += symbol[n] < 16 ? 1 : run;
    }
    draw_code(s, &c, 19, 19, 7, -1); /* all 19 have a code */
    while (draw(s, 2) && ncode > 19) ncode--;
    put_bits(s, (uint32_t)nlit - 257, 5);
    put_bits(s, (uint32_t)ndist - 1, 5);
    put_bits(s, (uint32_t)ncode - 4, 4);
    for (int i = 0; i < ncode; i++) put_bits(s, (uint32_t)c.length[order[i]], 3);
    for (int i = 0; i < n; i++) {
        put_code(s, &c, symbol[i]);
        if (symbol[i] >= 16) put_bits(s, more[i], symbol[i] == 16 ? 2 : symbol[i] == 17 ? 3 : 7);
    }
}

/* Tables of section 3.2.5, computed: the extra bits and the least value of a symbol. */
static int length_of(int symbol, unsigned *extra)
{
    const int k = symbol - 257;
    *extra = k < 8 || k == 28 ? 0 : (unsigned)k / 4 - 1;
    return k == 28 ? 258 : k < 8 ? k + 3 : ((4 + k % 4) << *extra) + 3;
}
static size_t distance_of(int symbol, unsigned *extra)
{
    *extra = symbol < 4 ? 0 : (unsigned)symbol / 2 - 1;
    return symbol < 4 ? (size_t)symbol + 1 : ((size_t)(2 + symbol % 2) << *extra) + 1;
}

static void put_literal(stream *s, const prefix_code *lit, int byte)
{
    put_code(s, lit, byte);
    s->want[s->size++] = (uint8_t)byte;
}

/* `tokens` literals and copies, of whichever symbols there are, and the end of the block. */
static void put_tokens(stream *s, const prefix_code *lit, const prefix_code *dist, int tokens)
{
    for (int i = 0; i < tokens && s->size < sizeof s->want - 258 && s->n < sizeof s->p - 600; i++) {
        int symbol = (int)draw(s, 286), d = (int)draw(s, 30);
        while (!lit->length[symbol] || symbol == 256) symbol = (symbol + 1) % 286;
        if (symbol < 256) {
            put_literal(s, lit, symbol);
            continue;
        }
        unsigned extra, far;
        int tries = 0;
        while (tries++ < 30 && (!dist->length[d] || distance_of(d, &far) > s->size)) d = (d + 1) % 30;
        if (tries > 30) continue;
        const uint32_t x = draw(s, 1u << (length_of(symbol, &extra), extra)),
                       y = draw(s, 1u << (distance_of(d, &far), far));
        const size_t distance = distance_of(d, &far) + y;
        if (distance > s->size) continue;
        put_code(s, lit, symbol);
        put_bits(s, x, extra);
        put_code(s, dist, d);
        put_bits(s, y, far);
        for (size_t k = 0; k < (size_t)length_of(symbol, &extra) + x; k++, s->size++)
            s->want[s->size] = s->want[s->size - distance];
    }
    put_code(s, lit, 256);
}

static void put_block(stream *s, int type, bool last)
{
    prefix_code lit, dist;
    put_bits(s, last, 1);
    put_bits(s, (uint32_t)type, 2);
    if (type == 0) {
        const size_t n = draw(s, 3) ? draw(s, 300) : 0;
        s->nbits = 0;
        put_bits(s, (uint32_t)n | (uint32_t)(n ^ 0xFFFF) << 16, 32);
        for (size_t i = 0; i < n; i++) put_bits(s, s->want[s->size++] = (uint8_t)draw(s, 256), 8);
        return;
    }
    if (type == 1) {
        fixed_codes(&lit, &dist);
    } else {
        const int used = (int)draw(s, 4), nlit = used == 0 ? 286 : used == 1 ? 20 : 2 + (int)draw(s, 285);
        draw_code(s, &lit, 286, nlit, 15, 256);
        draw_code(s, &dist, 30, 2 + (int)draw(s, 29), 15, (int)draw(s, 4));
        put_lengths(s, &lit, &dist);
    }
    put_tokens(s, &lit, &dist, 30 + (int)draw(s, 600));
}

static void check_stream(const stream *s, int number)
{
    uint8_t *in = (uint8_t *)malloc(s->n), *out = (uint8_t *)malloc(s->size ? s->size : 1); /* of exactly their sizes */
    char *p = NULL;
    size_t size = 0, used = 0;
    memcpy(in, s->p, s->n);
    if (CHECK_MSG(tp_inflate(in, s->n, out, s->size) == TP_OK, "stream %d: %s", number, tp_last_error()))
        CHECK_MSG(s->size == 0 || memcmp(out, s->want, s->size) == 0, "stream %d", number);
    if (s->size) CHECK_ERR(tp_inflate(in, s->n, out, s->size - 1), TP_ERR_FORMAT, "it holds more bytes than allowed");
    if (CHECK_OK(tp_inflate_alloc(in, s->n, s->size ? s->size : 1, &p, &size, &used)))
        CHECK(size == s->size && used == s->n && memcmp(p, s->want, size) == 0);
    tp_free(p);
    CHECK_ERR(tp_inflate(in, s->n - 1, out, s->size), TP_ERR_FORMAT, "it is cut short");
    free(in);
    free(out);
}

TEST(inflate_any_codes)
{
    static stream s;
    uint64_t seed = 0;
    for (int i = 0; i < 60; i++) {
        s.n = s.size = 0, s.nbits = 0, s.draws = seed += 1000000;
        const int blocks = 1 + i % 4;
        for (int k = 0; k < blocks; k++) put_block(&s, i < 8 ? 2 : (int)draw(&s, 3), k == blocks - 1);
        check_stream(&s, i);
    }
    /* every length and every distance, each extreme of its extra bits, from far and over itself */
    prefix_code lit, dist;
    fixed_codes(&lit, &dist);
    s.n = s.size = 0, s.nbits = 0;
    put_bits(&s, 3, 3);
    for (int i = 0; i < 400; i++) put_literal(&s, &lit, (int)draw(&s, 256));
    for (int symbol = 285; symbol > 256; symbol--) /* the longest first: far copies find something */
        for (int d = 0; d < 30; d++)
            for (int high = 0; high < 2; high++) {
                unsigned extra, far;
                const int length = length_of(symbol, &extra) + (high ? (1 << extra) - 1 : 0);
                const size_t distance = distance_of(d, &far) + (high ? ((size_t)1 << far) - 1 : 0);
                if (distance > s.size || s.size > sizeof s.want - 300) continue;
                put_code(&s, &lit, symbol);
                put_bits(&s, high ? (1u << extra) - 1 : 0, extra);
                put_code(&s, &dist, d);
                put_bits(&s, high ? (1u << far) - 1 : 0, far);
                for (int k = 0; k < length; k++, s.size++) s.want[s.size] = s.want[s.size - distance];
            }
    put_code(&s, &lit, 256);
    CHECK(s.size > 100000);
    check_stream(&s, -1);
}

/* Codes with holes: only no distance at all, or one code of one bit. */
TEST(inflate_codes_with_holes)
{
    static const struct {
        uint8_t literal[3], distance[2]; /* bits of 'a', 'b' and the end; of distances 1 and 2 */
        bool good;
    } row[] = {{{1, 2, 2}, {0, 0}, true},  {{1, 2, 2}, {1, 0}, true},   {{1, 2, 2}, {0, 1}, true},
               {{1, 2, 2}, {1, 1}, true},  {{1, 2, 2}, {2, 0}, false},  {{1, 2, 2}, {2, 1}, false},
               {{1, 0, 1}, {1, 1}, true},  {{0, 0, 1}, {1, 1}, true},   {{0, 0, 2}, {1, 1}, false},
               {{1, 2, 3}, {1, 1}, false}, {{2, 2, 2}, {1, 1}, false},  {{1, 1, 1}, {1, 1}, false},
               {{1, 2, 0}, {1, 1}, false}, {{15, 1, 2}, {1, 1}, false}, {{1, 2, 2}, {15, 0}, false}};
    static stream s;
    for (int i = 0; i < TP_COUNT(row); i++)
        for (int behind = 0; behind < 400; behind += 399) { /* near the end of the input, and far from it */
            prefix_code lit, dist;
            memset(&lit, 0, sizeof lit);
            memset(&dist, 0, sizeof dist);
            s.n = s.size = 0, s.nbits = 0, s.draws = 5;
            lit.length['a'] = row[i].literal[0], lit.length['b'] = row[i].literal[1],
            lit.length[256] = row[i].literal[2];
            dist.length[0] = row[i].distance[0], dist.length[1] = row[i].distance[1];
            put_bits(&s, 4 | !behind, 3);
            put_lengths(&s, &lit, &dist);
            if (row[i].good) {
                number_codes(&lit, 286);
                for (int k = 0; k < 5 && lit.length['a']; k++) put_literal(&s, &lit, 'a');
                put_code(&s, &lit, 256);
                if (behind) put_block(&s, 1, true);
                check_stream(&s, i);
                continue;
            }
            put_bits(&s, 0, 8);
            for (int k = 0; k < behind; k++) put_bits(&s, 0, 8);
            uint8_t out[1000];
            CHECK_ERR(tp_inflate(s.p, s.n, out, sizeof out), TP_ERR_FORMAT, "it contains an impossible code");
        }
}

/* What is wrong is found where much input and room is left, too. */
TEST(inflate_hostile_in_the_middle)
{
    static const struct {
        int literals, symbol, distance; /* under the fixed code */
        const char *part;
    } row[] = {{0, 257, 0, "before its beginning"},
               {1, 257, 1, "before its beginning"},
               {3, 257, 3, "before its beginning"},
               {400, 257, 17, "before its beginning"},
               {5, 286, 0, "impossible code"},
               {5, 287, 0, "impossible code"},
               {5, 257, 30, "impossible code"},
               {5, 257, 31, "impossible code"},
               {1, 285, 0, NULL},
               {3, 257, 2, NULL}};
    static stream s;
    static uint8_t out[2000];
    prefix_code lit, dist;
    fixed_codes(&lit, &dist);
    for (int i = 0; i < TP_COUNT(row); i++)
        for (int behind = 0; behind < 2; behind++) {
            unsigned extra, far = 0;
            s.n = s.size = 0, s.nbits = 0;
            put_bits(&s, 3, 3);
            for (int k = 0; k < row[i].literals; k++) put_literal(&s, &lit, k & 255);
            put_code(&s, &lit, row[i].symbol);
            if (row[i].symbol < 286) put_bits(&s, 0, (length_of(row[i].symbol, &extra), extra));
            put_code(&s, &dist, row[i].distance);
            if (row[i].distance < 30) distance_of(row[i].distance, &far);
            put_bits(&s, (1u << far) - 1, far);
            const size_t before = s.size;
            for (int k = 0; k < (behind ? 600 : 0); k++) put_literal(&s, &lit, 'x');
            put_code(&s, &lit, 256);
            const size_t copied = row[i].symbol == 285 ? 258 : 3;
            if (row[i].part) CHECK_ERR(tp_inflate(s.p, s.n, out, sizeof out), TP_ERR_FORMAT, row[i].part);
            else CHECK_OK(tp_inflate(s.p, s.n, out, s.size + copied));
            for (size_t k = before; k < before + copied && !row[i].part; k++)
                CHECK(out[k] == out[k - (size_t)row[i].distance - 1]);
        }
}

/* Bits that a copy takes under the fixed code. */
static size_t copy_bits(size_t length, size_t distance)
{
    unsigned extra, far;
    int symbol = 257, d = 0;
    while (symbol < 285 && (size_t)length_of(symbol + 1, &extra) <= length) symbol++;
    while (d < 29 && distance_of(d + 1, &far) <= distance) d++;
    length_of(symbol, &extra), distance_of(d, &far);
    return (symbol < 280 ? 7u : 8u) + extra + 5 + far;
}

/* Data of one period, whose bytes differ: as many copies of 258 bytes as fit into each block of 32 KiB, then one of the rest. */
TEST(deflate_finds_the_longest_copies)
{
    static const size_t period[] = {1, 2, 3, 4, 5, 7, 33, 100, 143},
                        size[] = {1, 2, 3, 4, 200, 258, 259, 1000, 32768, 32769, 70000};
    static uint8_t p[70000];
    for (int i = 0; i < TP_COUNT(period); i++)
        for (int k = 0; k < TP_COUNT(size); k++) {
            size_t bits = 0;
            for (size_t at = 0; at < size[k]; at++) p[at] = (uint8_t)(at % period[i]);
            for (size_t start = 0; start < size[k]; start += 32768) {
                size_t left = size[k] - start < 32768 ? size[k] - start : 32768;
                const size_t literals = start ? 0 : left < period[i] ? left : period[i];
                bits += 3 + 8 * literals + 7;
                left -= literals;
                bits += left / 258 * copy_bits(258, period[i]);
                left %= 258;
                bits += left < 3 ? 8 * left : copy_bits(left, period[i]);
            }
            tp_buf out = {NULL, 0, 0, false};
            CHECK_OK(tp_deflate(p, size[k], &out));
            CHECK_MSG(out.len <= (bits + 7) / 8, "%d bytes of period %d became %d, not %d", (int)size[k],
                      (int)period[i], (int)out.len, (int)((bits + 7) / 8));
            tp_buf_free(&out);
            deflate_round(p, size[k], (bits + 7) / 8);
        }
}

/* Without copies: bytes from 144 on take nine bits. A block is stored where that is shorter: it takes 3 bits, up to 7 to the
 * next byte and 32 that say how long it is. */
TEST(deflate_stores_what_is_shorter_so)
{
    for (int last = 120; last <= 255; last++) {
        uint8_t p[100];
        size_t bits = 3 + 7;
        for (int i = 0; i < 100; i++) p[i] = (uint8_t)(last - i); /* no three bytes twice */
        for (int i = 0; i < 100; i++) bits += p[i] < 144 ? 8 : 9;
        tp_buf out = {NULL, 0, 0, false};
        CHECK_OK(tp_deflate(p, 100, &out));
        CHECK_MSG(out.len == (bits > 8 * 100 + 42 ? 5 + 100 : (bits + 7) / 8), "up to %d: %d bytes", last,
                  (int)out.len);
        tp_buf_free(&out);
        deflate_round(p, 100, 106);
    }
    /* the same with one copy of each length that has a symbol: so many bytes of nine bits before it that both take about the same.
     * In each 112 of them they go around by a step of its own: no three twice. */
    for (int symbol = 257; symbol <= 285; symbol++) {
        static uint8_t p[4000];
        unsigned extra;
        const size_t length = (size_t)length_of(symbol, &extra);
        int seen[2] = {0, 0};
        size_t n = 0;
        for (int step = 1, at = 0; n < 3000; step += step % 14 == 5 ? 4 : 2)
            for (int i = 0; i < 112; i++, at = (at + step) % 112) p[n++] = (uint8_t)(144 + at);
        for (n = length; n < 3000; n++) {
            const size_t bits = 3 + 9 * n + 2 * 8 + copy_bits(length, n + 2) + 7, size = n + 2 + length;
            static uint8_t q[4000];
            if (bits < 8 * size + 42 || bits > 8 * size + 43) continue;
            memcpy(q, p, n);
            q[n] = 1, q[n + 1] = 2;
            memcpy(q + n + 2, p, length);
            tp_buf out = {NULL, 0, 0, false};
            CHECK_OK(tp_deflate(q, size, &out));
            CHECK_MSG(out.len == (bits > 8 * size + 42 ? 5 + size : (bits + 7) / 8), "a copy of %d, %d bytes: %d bytes",
                      (int)length, (int)size, (int)out.len);
            tp_buf_free(&out);
            seen[bits > 8 * size + 42]++;
        }
        CHECK(seen[0] > 0 && seen[1] > 0);
    }
}

/* ==== >>gzip ========================================================================================== */

static void put_gzip(bytes *b, int flags, const void *data, size_t n)
{
    tp_buf z = {NULL, 0, 0, false};
    size_t begin = b->n;
    put(b, "\x1f\x8b\x08", 3);
    put_le(b, (uint64_t)flags, 1);
    put_le(b, 0, 6);
    if (flags & 4) put_le(b, 5, 2), put(b, "extra", 5);
    if (flags & 8) put(b, "name", 5);
    if (flags & 16) put(b, "comment", 8);
    if (flags & 2) put_le(b, tp_crc32(0, b->p + begin, b->n - begin) & 0xFFFF, 2);
    CHECK_OK(tp_deflate(data, n, &z));
    put(b, z.data, z.len);
    put_le(b, tp_crc32(0, data, n), 4);
    put_le(b, n, 4);
    tp_buf_free(&z);
}

static tp_status gunzip_bytes(const bytes *b, size_t n, char **data, size_t *size)
{
    const char *path = tp_test_path(tp_test_tmpdir(), "x.gz");
    tp_test_write(path, b->p, n);
    return tp_file_read(path, true, 0, data, size);
}

TEST(gunzip)
{
    const char *dir = tp_test_tmpdir(), *path = tp_test_path(dir, "x.gz");
    char text[1000], *data;
    size_t size;
    for (int i = 0; i < 1000; i++) text[i] = (char)('a' + i % 23);
    for (int flags = 0; flags < 32; flags++) { /* flag 1 marks the data as text and changes nothing */
        bytes b;
        b.n = 0;
        put_gzip(&b, flags, text, 600);
        put_gzip(&b, 0, text + 600, 0);
        put_gzip(&b, flags ^ 8, text + 600, 400);
        put_le(&b, 0, 5); /* padding */
        tp_test_write(path, b.p, b.n);
        if (CHECK_OK(tp_file_read(path, true, 0, &data, &size))) {
            CHECK(size == 1000 && memcmp(data, text, 1000) == 0 && data[1000] == 0);
            tp_free(data);
        }
        CHECK_ERR(tp_file_read(path, true, 999, &data, &size), TP_ERR_FORMAT, "more bytes than allowed");
        if (CHECK_OK(tp_file_read(path, false, 0, &data, &size))) {
            CHECK(size == b.n && memcmp(data, b.p, b.n) == 0);
            tp_free(data);
        }
        b.p[b.n++] = 'x';
        CHECK_ERR(gunzip_bytes(&b, b.n, &data, &size), TP_ERR_FORMAT, "other data follows");
    }
    CHECK(tp_test_write(tp_test_path(dir, "plain"), text, 10));
    CHECK_OK(tp_file_read(tp_test_path(dir, "plain"), true, 0, &data, &size));
    CHECK(size == 10);
    tp_free(data);
}

TEST(gunzip_damaged)
{
    bytes b;
    char *data;
    size_t size;
    const char *path = tp_test_path(tp_test_tmpdir(), "x.gz");
    b.n = 0;
    put_gzip(&b, 30, "hello hello hello hello", 23);
    tp_test_fail_after(0);
    for (size_t cut = 0; cut < b.n; cut++) {
        tp_test_write(path, b.p, cut);
        CHECK_ERR(tp_file_read(path, true, 0, &data, &size), TP_ERR_FORMAT, "gzip data is damaged");
        CHECK(data == NULL && tp_test_live_blocks() == 0);
    }
    /* any flipped bit is found, but for those in time, flags and system of the header, which nothing
     * protects here */
    b.n = 0;
    put_gzip(&b, 0, "hello hello hello hello", 23);
    for (size_t i = 0; i < b.n * 8; i++) {
        if (i / 8 >= 3 && i / 8 < 10) continue;
        b.p[i / 8] ^= (uint8_t)(1 << i % 8);
        tp_test_write(path, b.p, b.n);
        tp_status s = tp_file_read(path, true, 0, &data, &size);
        if (i >= 16) CHECK_MSG(s == TP_ERR_FORMAT, "bit %zu: %s", i, tp_status_name(s));
        else CHECK(s == TP_OK && size == b.n); /* no longer gzip: handed out as it is */
        tp_free(data);
        b.p[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    /* fields of a header that end before the file does, with it, or after it */
    static const struct {
        int flags, extra; /* extra: how long it is by the header, which 12 bytes follow; -1: it has none */
        const char *text;
        bool whole;
    } row[] = {
        {4, 11, "xxxxxxxxxxxx", true},      {4, 12, "xxxxxxxxxxxx", true},     {4, 13, "xxxxxxxxxxxx", false},
        {4, 65535, "xxxxxxxxxxxx", false},  {8, -1, "xxxxxxxxxxxxxx", false},  {8, -1, "xxxxxxxxxxxxx\0", true},
        {16, -1, "xxxxxxxxxxxxxx", false},  {16, -1, "xxxxxxxxxxxxx\0", true}, {24, -1, "xxxxxxxxxxxxx\0", false},
        {24, -1, "xxxxxxxxxxxx\0\0", true}, {12, 12, "xxxxxxxxxxxx", false},   {12, 11, "xxxxxxxxxxx\0", true},
        {6, 12, "xxxxxxxxxxxx", false},     {6, 11, "xxxxxxxxxxxx", false},    {6, 10, "xxxxxxxxxxxx", false}};
    for (int i = 0; i < TP_COUNT(row); i++) {
        b.n = 0;
        put(&b, "\x1f\x8b\x08", 3);
        put_le(&b, (uint64_t)row[i].flags, 1);
        put_le(&b, 0, 6);
        if (row[i].extra >= 0) put_le(&b, (uint64_t)row[i].extra, 2);
        put(&b, row[i].text, 24 - b.n);
        CHECK_ERR(gunzip_bytes(&b, b.n, &data, &size), TP_ERR_FORMAT,
                  row[i].whole ? "is damaged: it is cut short" : "is damaged: a gzip header is damaged or cut short");
    }
    CHECK(tp_test_live_blocks() == 0);
    tp_test_alloc_reset();
}

/* ==== >>files and directories ========================================================================= */

TEST(file_read)
{
    const char *dir = tp_test_tmpdir(), *path = tp_test_path(dir, "f");
    char *data;
    size_t size;
    CHECK_ERR(tp_file_read(path, false, 0, &data, &size), TP_ERR_IO, "cannot be opened");
    CHECK_ERR(tp_file_read(dir, false, 0, &data, &size), TP_ERR_IO, "is a directory");
    CHECK(!tp_file_exists(path) && tp_file_exists(dir));
    tp_test_write(path, "abc", 3);
    CHECK(tp_file_exists(path));
    CHECK_OK(tp_file_read(path, false, 3, &data, &size));
    CHECK(size == 3);
    CHECK_STR(data, "abc");
    tp_free(data);
    CHECK_ERR(tp_file_read(path, false, 2, &data, &size), TP_ERR_FORMAT, "more than the 2 allowed");
    tp_test_write(path, "", 0);
    CHECK_OK(tp_file_read(path, false, 0, &data, &size));
    CHECK(size == 0 && data && data[0] == 0);
    tp_free(data);
    /* a file whose size is not known beforehand */
    if (tp_file_exists("/dev/zero"))
        CHECK_ERR(tp_file_read("/dev/zero", false, 1000000, &data, &size), TP_ERR_FORMAT, "larger");
    int ends[2];
    if (pipe(ends) == 0) {
        char name[64];
        snprintf(name, sizeof name, "/dev/fd/%d", ends[0]);
        CHECK(write(ends[1], "through a pipe", 14) == 14);
        close(ends[1]);
        if (tp_file_exists(name) && CHECK_OK(tp_file_read(name, false, 0, &data, &size))) {
            CHECK_STR(data, "through a pipe");
            tp_free(data);
        }
        close(ends[0]);
    }
}

static size_t most_asked; /* by one allocation */
static void *ask_malloc(size_t size, void *user)
{
    (void)user;
    if (size > most_asked) most_asked = size;
    return malloc(size);
}
static void *ask_realloc(void *p, size_t size, void *user)
{
    (void)user;
    if (size > most_asked) most_asked = size;
    return realloc(p, size);
}
static void ask_free(void *p, void *user)
{
    (void)user;
    free(p);
}

/* Of a file whose size nobody knows no more memory is taken than twice what came, nor than the limit. */
TEST(file_read_of_unknown_size)
{
    static const struct {
        size_t n, limit, most;
        bool fits;
    } row[] = {{0, 0, 65537, true},
               {65535, 0, 65537, true},
               {65536, 0, 131073, true},
               {300000, 0, 524289, true},
               {300000, 300000, 300002, true},
               {300001, 300000, 300002, false},
               {299999, 300000, 300002, true},
               {70000, 65000, 65538, false}};
    static char sent[300001];
    for (size_t i = 0; i < sizeof sent; i++) sent[i] = (char)noise(i);
    if (!tp_file_exists("/dev/fd/0")) TEST_SKIP("no /dev/fd");
    for (int i = 0; i < TP_COUNT(row); i++) {
        int ends[2];
        char name[64], *data;
        size_t size;
        if (!CHECK(pipe(ends) == 0)) return;
        const pid_t child = fork();
        if (child == 0) {
            signal(SIGPIPE, SIG_IGN);
            close(ends[0]);
            for (size_t at = 0; at < row[i].n;) {
                const ssize_t put = write(ends[1], sent + at, row[i].n - at);
                if (put <= 0) break;
                at += (size_t)put;
            }
            _exit(0);
        }
        close(ends[1]);
        snprintf(name, sizeof name, "/dev/fd/%d", ends[0]);
        const tp_allocator ask = {ask_malloc, ask_realloc, ask_free, NULL};
        most_asked = 0;
        tp_set_allocator(&ask);
        const tp_status s = tp_file_read(name, false, row[i].limit, &data, &size);
        tp_set_allocator(NULL);
        if (row[i].fits) CHECK(s == TP_OK && size == row[i].n && memcmp(data, sent, size) == 0 && data[size] == 0);
        else {
            char sentence[100];
            snprintf(sentence, sizeof sentence, "is larger than the %d bytes allowed", (int)row[i].limit);
            CHECK_ERR(s, TP_ERR_FORMAT, sentence);
        }
        CHECK_MSG(most_asked <= row[i].most, "%d bytes: %.0f were asked for", (int)row[i].n, (double)most_asked);
        free(data);
        close(ends[0]);
        CHECK(child > 0 && waitpid(child, NULL, 0) == child);
    }
}

/* In a process of its own: write to a pipe that nobody reads by a function of the library, then by write() itself, which ends the
 * process by SIGPIPE if the library has left the signal as it was. Returns the status of waitpid, 0 if the process did not come
 * to its own write. */
static int write_to_closed_pipe(int what, bool is_blocked)
{
    int ends[2], told[2], parent[2], status = 0;
    char come = 0;
    sigset_t closed_pipe, now;
    if (!CHECK(pipe(ends) == 0 && pipe(told) == 0 && pipe(parent) == 0)) return 0;
    const pid_t child = fork();
    if (child != 0) {
        close(ends[0]);
        close(ends[1]);
        close(parent[0]);
        close(parent[1]); /* the child waits until the parent has no end of the other pipe any more */
        close(told[1]);
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        const bool has_come = read(told[0], &come, 1) == 1;
        close(told[0]);
        return has_come ? status : 0;
    }
    char name[64];
    bool is_good = true;
    signal(SIGPIPE, SIG_DFL);
    sigemptyset(&closed_pipe);
    sigaddset(&closed_pipe, SIGPIPE);
    sigprocmask(is_blocked ? SIG_BLOCK : SIG_UNBLOCK, &closed_pipe, NULL);
    snprintf(name, sizeof name, "/dev/fd/%d", ends[1]);
    tp_writer *w = NULL;
    if (what == 0) is_good = tp_writer_open(&w, name) == TP_OK && tp_writer_put(w, "abc", 3) == TP_OK;
    close(ends[0]);
    close(parent[1]);
    if (read(parent[0], &come, 1) != 0) _exit(5);
    if (what == 0)
        is_good = is_good && tp_writer_commit(w) == TP_ERR_IO && strstr(tp_last_error(), name) &&
                  strstr(tp_last_error(), "cannot be written: ") && strstr(tp_last_error(), strerror(EPIPE));
    if (what > 0) dup2(ends[1], 2);
    if (what == 1) tp_set_log(NULL, NULL), tp_log(TP_LOG_INFO, "a line");
    if (what == 2) tp__log_progress("a bar", false);
    sigpending(&now);
    if ((sigismember(&now, SIGPIPE) == 1) != is_blocked) _exit(1);
    sigprocmask(SIG_BLOCK, NULL, &now);
    if (!is_good || (sigismember(&now, SIGPIPE) == 1) != is_blocked) _exit(2);
    if (write(told[1], "x", 1) != 1) _exit(4);
    _exit(write(ends[1], "x", 1) < 0 && errno == EPIPE ? 3 : 4);
}

TEST(a_closed_pipe_is_an_error_and_ends_no_program)
{
    if (!tp_file_exists("/dev/fd/0")) TEST_SKIP("no /dev/fd");
    for (int what = 0; what < 3; what++) {
        const int plain = write_to_closed_pipe(what, false), blocked = write_to_closed_pipe(what, true);
        CHECK_MSG(WIFSIGNALED(plain) && WTERMSIG(plain) == SIGPIPE, "%d: status %x", what, (unsigned)plain);
        CHECK_MSG(WIFEXITED(blocked) && WEXITSTATUS(blocked) == 3, "%d, blocked: status %x", what, (unsigned)blocked);
    }
}

TEST(make_dirs)
{
    const char *dir = tp_test_tmpdir();
    CHECK_OK(tp_make_dirs(tp_test_path(dir, "a/b//c/")));
    CHECK_OK(tp_make_dirs(tp_test_path(dir, "a/b/c")));
    CHECK(tp_file_exists(tp_test_path(dir, "a/b/c")));
    CHECK_OK(tp_make_dirs("/"));
    CHECK_ERR(tp_make_dirs(""), TP_ERR_ARG, "empty");
    tp_test_write(tp_test_path(dir, "file"), "x", 1);
    CHECK_ERR(tp_make_dirs(tp_test_path(dir, "file/sub")), TP_ERR_IO, "not a directory");
    CHECK_ERR(tp_make_dirs(tp_test_path(dir, "file")), TP_ERR_IO, "not a directory");
    CHECK(symlink("nowhere", tp_test_path(dir, "link")) == 0);
    CHECK_ERR(tp_make_dirs(tp_test_path(dir, "link/sub")), TP_ERR_IO,
              "/link cannot be made: it is a symbolic link to what does not exist; make that, or remove the link");
    CHECK_OK(tp_make_dirs(tp_test_path(dir, "nowhere")));
    CHECK_OK(tp_make_dirs(tp_test_path(dir, "link/sub")));
}

TEST(the_path_of_a_folder_is_no_file)
{
    const char *dir = tp_test_tmpdir();
    tp_writer *w;
    CHECK_ERR(tp_writer_open(&w, tp_test_path(dir, "models/")), TP_ERR_ARG,
              "/models/ cannot be written: it ends in '/' as a folder does; add the name of a file");
    CHECK(!w);
    CHECK_OK(tp_make_dirs(tp_test_path(dir, "models")));
    CHECK_ERR(tp_writer_open(&w, tp_test_path(dir, "models/")), TP_ERR_ARG, "add the name of a file");
}

TEST(writer)
{
    const char *dir = tp_test_tmpdir(), *path = tp_test_path(dir, "out");
    tp_writer *w, *v;
    size_t n = 200001;
    uint8_t *p = (uint8_t *)malloc(n);
    for (size_t i = 0; i < n; i++) p[i] = (uint8_t)noise(i);
    CHECK_OK(tp_writer_open(&w, path));
    for (size_t i = 0, k = 1; i < n; i += k, k = k * 2 + 1) {
        if (k > n - i) k = n - i;
        CHECK_OK(tp_writer_put(w, p + i, k));
    }
    CHECK(!tp_file_exists(path));
    CHECK_OK(tp_writer_commit(w));
    CHECK(tp_test_file_equals(path, p, n) && tp_test_files_in(dir) == 1);

    /* abort leaves the old file */
    CHECK_OK(tp_writer_open(&w, path));
    CHECK_OK(tp_writer_put(w, "half", 4));
    CHECK(tp_test_files_in(dir) == 2);
    tp_writer_abort(w);
    tp_writer_abort(NULL);
    CHECK(tp_test_file_equals(path, p, n) && tp_test_files_in(dir) == 1);

    /* two writers of one path: each file is whole, and the last one stays */
    CHECK_OK(tp_writer_open(&w, path));
    CHECK_OK(tp_writer_open(&v, path));
    CHECK_OK(tp_writer_put(v, "half", 4));
    CHECK_OK(tp_writer_put(w, "new", 3));
    CHECK_OK(tp_writer_commit(w));
    CHECK(tp_test_file_equals(path, "new", 3) && tp_test_files_in(dir) == 2);
    CHECK_OK(tp_writer_put(v, "+half", 5));
    CHECK_OK(tp_writer_commit(v));
    CHECK(tp_test_file_equals(path, "half+half", 9) && tp_test_files_in(dir) == 1);

    /* no such directory; a directory in the way */
    CHECK_ERR(tp_writer_open(&w, tp_test_path(dir, "no/such")), TP_ERR_IO, "cannot be created");
    CHECK(w == NULL);
    CHECK_OK(tp_make_dirs(tp_test_path(dir, "d/e")));
    CHECK_OK(tp_writer_open(&w, tp_test_path(dir, "d")));
    CHECK_ERR(tp_writer_commit(w), TP_ERR_IO, "cannot be renamed");
    CHECK(tp_test_files_in(dir) == 2);
    free(p);
}

#ifndef _WIN32
static tp_status write_text(const char *path, const char *text)
{
    tp_writer *w;
    tp_status s = tp_writer_open(&w, path);
    if (s) return s;
    s = tp_writer_put(w, text, strlen(text));
    if (!s) return tp_writer_commit(w);
    tp_writer_abort(w);
    return s;
}

static bool is_link(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

/* A link stays one, and the file that it leads to is replaced as a whole: relative, absolute, through another link, to no file. */
TEST(a_link_is_followed)
{
    const char *dir = tp_test_tmpdir();
    char far[1000], link[1000], chain[1000];
    CHECK_OK(tp_make_dirs(tp_test_path(dir, "away/deep")));
    snprintf(far, sizeof far, "%s/away/deep/file", dir);
    snprintf(link, sizeof link, "%s/away/link", dir);
    snprintf(chain, sizeof chain, "%s/chain", dir);
    CHECK(symlink("deep/file", link) == 0 && symlink(link, chain) == 0);
    CHECK_OK(write_text(chain, "new")); /* there was no file yet */
    CHECK(is_link(link) && is_link(chain) && tp_test_file_equals(far, "new", 3));
    CHECK_OK(write_text(link, "newer"));
    CHECK(is_link(link) && tp_test_file_equals(far, "newer", 5));

    tp_writer *w; /* the temporary file lies beside the target, so that a rename between two disks is never needed */
    CHECK_OK(tp_writer_open(&w, chain));
    CHECK(tp_test_files_in(tp_test_path(dir, "away/deep")) == 2 && tp_test_files_in(dir) == 2);
    tp_writer_abort(w);
    CHECK(is_link(chain) && tp_test_file_equals(far, "newer", 5));

    CHECK(unlink(link) == 0 && symlink("../chain", link) == 0);
    CHECK_ERR(write_text(chain, "lost"), TP_ERR_IO, "links lead in a circle");
    CHECK(unlink(chain) == 0 && symlink("no/such", chain) == 0);
    CHECK_ERR(write_text(chain, "lost"), TP_ERR_IO, "no/such cannot be created, its folder is missing (tp_make_dirs)");
    char here[4096], want[5000];
    if (!CHECK(getcwd(here, sizeof here))) return;
    snprintf(want, sizeof want, "no_such/x cannot be created, its folder is missing in the working directory %.512s",
             here);
    CHECK_ERR(write_text("no_such/x", "lost"), TP_ERR_IO, want);
}

/* A model that only its owner may read stays so when it is written again. */
TEST(permissions_stay)
{
    const char *dir = tp_test_tmpdir();
    char path[1000];
    struct stat is;
    snprintf(path, sizeof path, "%s/private", dir);
    CHECK_OK(write_text(path, "old"));
    CHECK(stat(path, &is) == 0 && (is.st_mode & 0600) == 0600);
    const mode_t modes[] = {0600, 0640, 0666};
    for (int i = 0; i < TP_COUNT(modes); i++) {
        CHECK(chmod(path, modes[i]) == 0);
        CHECK_OK(write_text(path, "new"));
        CHECK(stat(path, &is) == 0 && (is.st_mode & 0777) == modes[i] && tp_test_file_equals(path, "new", 3));
    }
    CHECK(symlink("private", tp_test_path(dir, "link")) == 0 && chmod(path, 0600) == 0);
    CHECK_OK(write_text(tp_test_path(dir, "link"), "newer"));
    CHECK(stat(path, &is) == 0 && (is.st_mode & 0777) == 0600);
}

/* TensorFlow's checkpoints are several files: links to another one are replaced, and that one stays whole. */
TEST(a_checkpoint_behind_links_stays_whole)
{
    const char *dir = tp_test_tmpdir();
    char old[1000], now[1000];
    tp_dict d = TP_EMPTY, back = TP_EMPTY;
    tp_tensor *t = tp_dict_add(&d, "x");
    CHECK_OK(tp_make_dirs(tp_test_path(dir, "old")));
    CHECK_OK(tp_tensor_resize(t, TP_F32, tp_make_shape(1)));
    snprintf(old, sizeof old, "%s/old/model", dir);
    snprintf(now, sizeof now, "%s/model", dir);
    ((float *)t->data)[0] = 1;
    CHECK_OK(tp_tf_checkpoint_save(old, &d));
    CHECK(symlink("old/model.index", tp_test_path(dir, "model.index")) == 0);
    CHECK(symlink("old/model.data-00000-of-00001", tp_test_path(dir, "model.data-00000-of-00001")) == 0);
    ((float *)t->data)[0] = 2;
    CHECK_OK(tp_tf_checkpoint_save(now, &d));
    for (int k = 0; k < 2; k++) {
        CHECK_OK(tp_tf_checkpoint_load(k ? now : old, &back));
        CHECK(back.n == 1 && tp_tensor_get(&back.item[0].value, 0) == 1 + k);
        tp_dict_free(&back);
    }
    tp_dict_free(&d);
}

/* A pipe gets the bytes and stays a pipe; a format that goes back to its header says that it cannot. */
TEST(a_pipe_is_written_directly)
{
    const char *dir = tp_test_tmpdir(), *pipe = tp_test_path(dir, "pipe");
    char got[8] = "";
    struct stat st;
    tp_dict d = TP_EMPTY;
    CHECK(mkfifo(pipe, 0600) == 0 && symlink("pipe", tp_test_path(dir, "link")) == 0);
    const int fd = open(pipe, O_RDONLY | O_NONBLOCK);
    CHECK_OK(write_text(pipe, "abc"));
    CHECK_OK(write_text(tp_test_path(dir, "link"), "def"));
    CHECK(read(fd, got, sizeof got) == 6 && memcmp(got, "abcdef", 6) == 0);

    CHECK_OK(tp_tensor_resize(tp_dict_add(&d, "x"), TP_F32, tp_make_shape(1)));
    CHECK_ERR(tp_npz_save(pipe, &d, false), TP_ERR_IO, "write a file instead");
    CHECK(lstat(pipe, &st) == 0 && S_ISFIFO(st.st_mode) && tp_test_files_in(dir) == 2);
    close(fd);
    tp_dict_free(&d);
}
#endif

/* What a process that was killed left goes when the next file is written to its folder, whatever its name; what a living process
 * writes stays, and so does what only looks alike. */
TEST(leftovers)
{
    const char *dir = tp_test_tmpdir();
    char name[2][256] = {"", ""};
    int ready[2];
    if (!CHECK(pipe(ready) == 0)) return;
    const pid_t child = fork();
    if (child == 0) {
        tp_writer *w;
        if (tp_writer_open(&w, tp_test_path(dir, "model-5.npz")) != TP_OK) _exit(1);
        tp_writer_put(w, dir, 1);
        if (write(ready[1], "x", 1) != 1) _exit(1);
        for (;;) pause();
    }
    char x;
    close(ready[1]);
    CHECK(child > 0 && read(ready[0], &x, 1) == 1);
    close(ready[0]);
    struct timespec old[2] = {{time(NULL) - 2 * 86400, 0}, {time(NULL) - 2 * 86400, 0}};
    /* names that are almost those of temporary files, each wrong in one place */
    static const char *const alike[] = {
        "mine.tmp.0123abcd-17-notes", "mine.tmp.0123abcd-17-",    "mine.tmp.0123abcd-17x17",
        "mine.tmp.0123abcd-0-17",     "mine.tmp.0123abcd--5-17",  "mine.tmp.0123abcd-17",
        "mine.tmp.0123abc-17-17",     "mine.tmp.0123abcd5-17-17", "mine.tmp.0123abcdx17-17",
        "mine.tmp.0123abcd-17-a",     "mine.tmp.0123abcd-1a-17",  "mine.tmp.0123abcg-17-17",
        "mine.tmq.0123abcd-17-17",    "tmp.0123abcd-17-17",       "mine.tmp.17"};
    const int mine = 1 + TP_COUNT(alike); /* and that of the process, or stats.json */
    for (int i = 0; i < TP_COUNT(alike); i++) {
        const char *path = tp_test_path(dir, alike[i]);
        tp_test_write(path, "", 0);
        CHECK(utimensat(AT_FDCWD, path, old, 0) == 0);
    }
    CHECK(tp_test_files_in(dir) == mine);
    for (int dead = 0; dead < 2; dead++) {
        tp_writer *w;
        CHECK_OK(tp_writer_open(&w, tp_test_path(dir, "stats.json")));
        CHECK(tp_test_files_in(dir) == mine + 1);
        CHECK_OK(tp_writer_commit(w));
        DIR *d = opendir(dir);
        for (struct dirent *e; (e = readdir(d)) != NULL;)
            if (strncmp(e->d_name, "model-5.npz.tmp.", 16) == 0) snprintf(name[dead], sizeof name[0], "%s", e->d_name);
        closedir(d);
        if (dead) break;
        CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    }
    CHECK(name[0][0] && !name[1][0]);
    CHECK(tp_test_files_in(dir) == mine);

    /* of another machine: after a day */
    name[0][strlen("model-5.npz.tmp.")] ^= 1; /* a hexadecimal digit stays one, but for 9 and a */
    if (strchr("8`g", name[0][16])) name[0][16] = '0';
    const char *path = tp_test_path(dir, name[0]);
    tp_test_write(path, "", 0);
    for (int day = 0; day < 2; day++) {
        tp_writer *w;
        CHECK_OK(tp_writer_open(&w, tp_test_path(dir, "stats.json")));
        tp_writer_abort(w);
        CHECK(tp_file_exists(path) == (day == 0));
        if (day == 0) CHECK(utimensat(AT_FDCWD, path, old, 0) == 0);
    }

    /* a folder goes with all that is in it */
    tp_writer *next;
    CHECK(mkdir(path, 0700) == 0 && tp_test_write(tp_test_path(path, "part"), "x", 1));
    CHECK(utimensat(AT_FDCWD, path, old, 0) == 0);
    CHECK_OK(tp_writer_open(&next, tp_test_path(dir, "stats.json")));
    tp_writer_abort(next);
    CHECK(access(path, F_OK) != 0);

    /* a day old in one or two seconds: the fraction of a second makes a file younger */
    for (int tries = 0; tries < 50; tries++) {
        tp_writer *w;
        tp_test_write(path, "", 0);
        struct timespec almost[2], now;
        clock_gettime(CLOCK_REALTIME, &now);
        almost[0].tv_sec = almost[1].tv_sec = now.tv_sec - 86400 + 1;
        almost[0].tv_nsec = almost[1].tv_nsec = 999000000;
        if (now.tv_nsec < 2000000) continue;
        CHECK(utimensat(AT_FDCWD, path, almost, 0) == 0);
        CHECK_OK(tp_writer_open(&w, tp_test_path(dir, "stats.json")));
        tp_writer_abort(w);
        const bool kept = tp_file_exists(path);
        clock_gettime(CLOCK_REALTIME, &now);
        if (now.tv_sec - 86400 > almost[0].tv_sec) continue; /* this machine is too slow: once more */
        CHECK(kept);
        break;
    }
}

/* A temporary name is not longer than the file system allows, and what a killed process left under it goes too. */
TEST(names_as_long_as_a_file_system_takes)
{
    const char *dir = tp_test_tmpdir();
    for (int n = 200; n <= 255; n++)
        for (int wide = 0; wide < 2; wide++) {
            char name[256];
            for (int i = 0; i + wide < n; i++) name[i] = !wide ? 'x' : i % 2 ? '\xa9' : '\xc3'; /* whole characters */
            if (wide) name[n - 1] = 'x';
            if (wide && n % 2 == 0) name[n - 2] = 'x';
            name[n] = 0;
            tp_writer *w = NULL;
            if (!CHECK_OK(tp_writer_open(&w, tp_test_path(dir, name)))) break;
            const char *base = strrchr(w->temp, '/') + 1, *end = strstr(base, ".tmp.");
            CHECK(end && strlen(base) <= 255 && (strlen(base) <= (size_t)n || strncmp(base, name, (size_t)n) == 0));
            CHECK(end && (end[-1] == 'x' || end[-1] == '\xa9'));
            CHECK_OK(tp_writer_commit(w));
            CHECK(tp_file_exists(tp_test_path(dir, name)) && remove(tp_test_path(dir, name)) == 0);
            CHECK(tp_test_files_in(dir) == 0);
        }

    char name[2][256]; /* they differ only in the part that a temporary name leaves out */
    tp_writer *w[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        memset(name[i], 'a', 254);
        name[i][254] = (char)('0' + i);
        name[i][255] = 0;
        if (!CHECK_OK(tp_writer_open(&w[i], tp_test_path(dir, name[i])))) return;
        CHECK_OK(tp_writer_put(w[i], i ? "one" : "zero", i ? 3 : 4));
    }
    for (int i = 0; i < 2; i++) {
        char *data = NULL;
        size_t size = 0;
        CHECK_OK(tp_writer_commit(w[i]));
        CHECK_OK(tp_file_read(tp_test_path(dir, name[i]), false, 0, &data, &size));
        CHECK(data && strcmp(data, i ? "one" : "zero") == 0);
        tp_free(data);
    }
    const pid_t child = fork();
    if (child == 0) _exit(tp_writer_open(w, tp_test_path(dir, name[0])) != TP_OK || tp_test_files_in(dir) != 3);
    int left = 0;
    CHECK(child > 0 && waitpid(child, &left, 0) == child && left == 0 && tp_test_files_in(dir) == 3);
    CHECK_OK(tp_writer_open(&w[0], tp_test_path(dir, "short")));
    CHECK_OK(tp_writer_commit(w[0]));
    CHECK(tp_test_files_in(dir) == 3); /* and not four */
}

/* What a function gives back is nothing where it fails, also for misuse: whoever frees it frees nothing. */
TEST(nothing_is_given_back_on_misuse)
{
    char *data = (char *)&data;
    size_t size = 1, used;
    tp_writer *w = (tp_writer *)(void *)&data;
    tp_npz_writer *z = (tp_npz_writer *)(void *)&data;
    CHECK(tp_file_read(NULL, false, 0, &data, &size) == TP_ERR_ARG && !data && size == 0);
    data = (char *)&data, size = 1;
    CHECK(tp_inflate_alloc(NULL, 1, 0, &data, &size, &used) == TP_ERR_ARG && !data && size == 0);
    CHECK(tp_writer_open(&w, NULL) == TP_ERR_ARG && !w);
    CHECK(tp_npz_open(&z, NULL, false) == TP_ERR_ARG && !z);
}

/* A full disk, played by a limit on file sizes. Every later call gives the same error, the old file stays. */
TEST(disk_full)
{
    const char *dir = tp_test_tmpdir(), *path = tp_test_path(dir, "out");
    static uint8_t block[100000];
    tp_writer *w;
    struct rlimit old, small;
    tp_test_write(path, "old", 3);
    if (getrlimit(RLIMIT_FSIZE, &old) != 0) TEST_SKIP("no limits on file sizes here");
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    small = old;
    small.rlim_cur = 150000;
    if (setrlimit(RLIMIT_FSIZE, &small) != 0) TEST_SKIP("the limit on file sizes cannot be set");

    CHECK_OK(tp_writer_open(&w, path));
    CHECK_OK(tp_writer_put(w, block, sizeof block));
    CHECK_ERR(tp_writer_put(w, block, sizeof block), TP_ERR_IO, "cannot be written"); /* after a short write */
    tp_fail(TP_ERR, "something else");
    CHECK_ERR(tp_writer_put(w, block, 1), TP_ERR_IO, "cannot be written");
    tp_fail(TP_ERR, "something else");
    CHECK_ERR(tp_writer_commit(w), TP_ERR_IO, "cannot be written");
    CHECK(tp_test_files_in(dir) == 1);

    /* the error may come as late as in commit */
    small.rlim_cur = 10;
    setrlimit(RLIMIT_FSIZE, &small);
    CHECK_OK(tp_writer_open(&w, path));
    CHECK_OK(tp_writer_put(w, block, 1000));
    CHECK_ERR(tp_writer_commit(w), TP_ERR_IO, "cannot be written");

    /* or where the buffer is full: at once for the byte that does not fit */
    CHECK_OK(tp_writer_open(&w, path));
    CHECK_OK(tp_writer_put(w, block, sizeof w->buffer - 1));
    CHECK_OK(tp_writer_put(w, block, 1));
    CHECK_ERR(tp_writer_put(w, block, 1), TP_ERR_IO, "cannot be written");
    CHECK_ERR(tp_writer_commit(w), TP_ERR_IO, "cannot be written");
    CHECK(tp_test_files_in(dir) == 1);

    tp_tensor t = ramp(TP_F32, 1, 100000, 0, 0);
    tp_dict d = {NULL, 0, 0};
    tp_tensor *in = tp_dict_add(&d, "W");
    if (CHECK(in != NULL)) *in = t;
    CHECK_ERR(tp_npy_save(path, in), TP_ERR_IO, "cannot be written");
    for (int compress = 0; compress < 2; compress++)
        CHECK_ERR(tp_npz_save(path, &d, compress), TP_ERR_IO, "cannot be written");
    small.rlim_cur = 400100; /* fails in the directory or a patch */
    setrlimit(RLIMIT_FSIZE, &small);
    CHECK_ERR(tp_npz_save(path, &d, false), TP_ERR_IO, "cannot be written");

    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, handler);
    CHECK(tp_test_files_in(dir) == 1 && tp_test_file_equals(path, "old", 3));
    tp_dict_free(&d);
}

/* Killed at any moment, a process leaves the old file or the new one. */
TEST(killed_while_writing)
{
    const char *dir = tp_test_tmpdir(), *path = tp_test_path(dir, "out.npz");
    tp_dict d = {NULL, 0, 0};
    tp_tensor *t = tp_dict_add(&d, "W");
    if (!t) return;
    *t = ramp(TP_F32, 1, 50000, 0, 0);
    CHECK_OK(tp_npz_save(path, &d, false));
    for (int i = 0; i < 12; i++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0)
            for (;;)
                if (tp_npz_save(path, &d, i & 1)) _exit(1);
        struct timespec nap;
        nap.tv_sec = 0;
        nap.tv_nsec = 1000000 + (long)(noise((uint64_t)i) % 9000000);
        nanosleep(&nap, NULL);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        tp_dict back = {NULL, 0, 0};
        CHECK_OK(tp_npz_load(path, &back));
        CHECK(back.n == 1 && same(tp_dict_find(&back, "W"), tp_dict_find(&d, "W")));
        tp_dict_free(&back);
    }
    tp_dict_free(&d);
}

/* ==== >>npy =========================================================================================== */

TEST(npy_known_bytes)
{
    static const char head[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    uint8_t want[152];
    memset(want, ' ', sizeof want);
    memcpy(want, "\x93NUMPY\x01\x00\x76\x00", 10);
    memcpy(want + 10, head, strlen(head));
    want[127] = '\n';
    unhex("0000803f0000004000004040000080400000a0400000c040", want + 128);
    const char *path = tp_test_path(tp_test_tmpdir(), "t.npy");
    tp_tensor t = ramp(TP_F32, 2, 2, 3, 0), back;
    memset(&back, 0, sizeof back);
    for (int i = 0; i < 6; i++) tp_tensor_set(&t, i, i + 1);
    CHECK_OK(tp_npy_save(path, &t));
    if (tp__little_endian()) CHECK(tp_test_file_equals(path, want, 152));
    CHECK_OK(tp_npy_parse(want, 152, NULL, &back));
    CHECK(same(&t, &back));
    tp_tensor_free(&back);
    for (size_t cut = 0; cut < 152; cut++) {
        uint8_t *copy = (uint8_t *)malloc(cut ? cut : 1);
        memcpy(copy, want, cut);
        CHECK_ERR(tp_npy_parse(copy, cut, "t.npy", &back), TP_ERR_FORMAT, "t.npy: ");
        free(copy);
    }
    tp_tensor_free(&t);
    tp_tensor_free(&back);
}

TEST(npy_round_trips)
{
    const char *path = tp_test_path(tp_test_tmpdir(), "t.npy");
    static const tp_dtype all[] = {TP_F32, TP_F64, TP_F16, TP_I32, TP_I64, TP_U8, TP_BOOL};
    for (int k = 0; k < TP_COUNT(all); k++)
        for (int ndim = 0; ndim <= 3; ndim++)
            for (int zero = 0; zero <= (ndim > 0); zero++) {
                tp_tensor t = ramp(all[k], ndim, zero ? 0 : 3, 5, 2), back;
                memset(&back, 0, sizeof back);
                CHECK_OK(tp_npy_save(path, &t));
                CHECK_OK(tp_npy_load(path, &back));
                CHECK_MSG(same(&t, &back), "%s with %d dimensions", tp_dtype_name(all[k]), ndim);
                tp_tensor_free(&t);
                tp_tensor_free(&back);
            }
    /* bfloat16 becomes float32 */
    tp_tensor t = ramp(TP_BF16, 1, 3000, 0, 0), back;
    memset(&back, 0, sizeof back);
    CHECK_OK(tp_npy_save(path, &t));
    CHECK_OK(tp_npy_load(path, &back));
    CHECK(back.dtype == TP_F32 && tp_tensor_size(&back) == 3000);
    for (int64_t i = 0; i < 3000; i += 123) CHECK_NEAR(tp_tensor_get(&back, i), tp_tensor_get(&t, i), 0, 0);
    tp_tensor_free(&t);
    tp_tensor_free(&back);
    /* what cannot be saved */
    memset(&t, 0, sizeof t);
    CHECK_ERR(tp_npy_save(path, &t), TP_ERR_ARG, "no element type");
    t.dtype = TP_F32;
    CHECK_ERR(tp_npy_save(path, &t), TP_ERR_ARG, "no data");
    t.shape.ndim = 1;
    CHECK_OK(tp_npy_save(path, &t)); /* no elements need no data */
    CHECK_OK(tp_npy_load(path, &back));
    CHECK(back.dtype == TP_F32 && back.shape.ndim == 1 && back.shape.dim[0] == 0);
    tp_tensor_free(&back);
    t.shape.dim[0] = TP_ANY;
    CHECK_ERR(tp_npy_save(path, &t), TP_ERR_SHAPE, "(?");
}

/* Parse in memory that ends where the file ends. */
static tp_status parse_whole(const bytes *b, tp_tensor *t)
{
    uint8_t *copy = (uint8_t *)malloc(b->n);
    memcpy(copy, b->p, b->n);
    tp_status s = tp_npy_parse(copy, b->n, "t.npy", t);
    free(copy);
    return s;
}
static tp_status parse_npy(const char *dict, const char *hex, tp_tensor *t)
{
    uint8_t data[64];
    bytes b;
    b.n = 0;
    put_npy(&b, dict, data, unhex(hex, data));
    return parse_whole(&b, t);
}

/* Shapes of which a tensor has no size, or of which the bytes are more than memory can hold. Others only lack data. */
TEST(npy_of_impossible_shapes)
{
    static const struct {
        tp_shape shape;
        int bytes; /* an element of this many is too large already; 0: no element has such a shape */
    } rows[] = {{{1, {-1}}, 0},
                {{2, {2, -1}}, 0},
                {{3, {-1, -1, 5}}, 0},
                {{1, {INT64_MIN}}, 0},
                {{1, {INT64_MAX}}, 0},
                {{2, {(int64_t)1 << 32, (int64_t)1 << 32}}, 0},
                {{2, {INT64_MAX / 2, 3}}, 0},
                {{1, {INT64_MAX - 1}}, 4},
                {{1, {(int64_t)1 << 62}}, 4},
                {{2, {(int64_t)1 << 31, (int64_t)1 << 30}}, 8},
                {{1, {(int64_t)1 << 60}}, 16}};
    static const struct {
        tp_dtype dtype;
        int bytes; /* in a file */
    } type[] = {{TP_U8, 1},  {TP_BOOL, 1}, {TP_F16, 2}, {TP_BF16, 4},
                {TP_F32, 4}, {TP_I32, 4},  {TP_F64, 8}, {TP_I64, 8}};
    const char *dir = tp_test_tmpdir(), *path = tp_test_path(dir, "x.npy");
    for (int i = 0; i < TP_COUNT(rows) && sizeof(size_t) == 8; i++)
        for (int k = 0; k < TP_COUNT(type); k++) {
            tp_tensor t;
            memset(&t, 0, sizeof t);
            t.dtype = type[k].dtype;
            t.shape = rows[i].shape;
            const bool large = type[k].bytes >= rows[i].bytes;
            const tp_status st = tp_npy_save(path, &t);
            CHECK_MSG(st == (large ? TP_ERR_SHAPE : TP_ERR_ARG) &&
                          strstr(tp_last_error(), large ? "cannot be saved: its shape is (" : "the tensor has no data"),
                      "row %d, %s: %s", i, tp_dtype_name(t.dtype), tp_last_error());
        }
    for (int ndim = -1; ndim <= TP_MAX_DIMS + 1; ndim += TP_MAX_DIMS + 2) {
        tp_tensor t;
        memset(&t, 0, sizeof t);
        t.dtype = TP_U8;
        t.shape.ndim = ndim;
        CHECK_ERR(tp_npy_save(path, &t), TP_ERR_SHAPE, ndim < 0 ? "it has -1 dimensions" : "it has 9 dimensions");
    }
    CHECK(tp_test_files_in(dir) == 0);
}

TEST(npy_types)
{
    static const struct {
        const char *descr, *hex;
        tp_dtype dtype;
        double v[2];
    } row[] = {
        {"|b1", "0001", TP_BOOL, {0, 1}},
        {"|b1", "00ff", TP_BOOL, {0, 1}},
        {"|i1", "7f80", TP_I32, {127, -128}},
        {"|u1", "7f80", TP_U8, {127, 128}},
        {"<i2", "ff7f0080", TP_I32, {32767, -32768}},
        {">i2", "7fff8000", TP_I32, {32767, -32768}},
        {"<u2", "ff7f0080", TP_I32, {32767, 32768}},
        {">u2", "7fff8000", TP_I32, {32767, 32768}},
        {"<i4", "01000000 ffffffff", TP_I32, {1, -1}},
        {">i4", "00000001 ffffffff", TP_I32, {1, -1}},
        {"<u4", "01000000 ffffffff", TP_I64, {1, 4294967295.0}},
        {"<i8", "0100000000000000 ffffffffffffffff", TP_I64, {1, -1}},
        {">i8", "0000000000000001 fffffffffffffffe", TP_I64, {1, -2}},
        {"<u8", "0100000000000000 0000000000000040", TP_I64, {1, 4611686018427387904.0}},
        {"<f2", "003c00c0", TP_F16, {1, -2}},
        {">f2", "3c00c000", TP_F16, {1, -2}},
        {"<f4", "0000803f 000000c0", TP_F32, {1, -2}},
        {">f4", "3f800000 c0000000", TP_F32, {1, -2}},
        {"<f8", "000000000000f03f 00000000000000c0", TP_F64, {1, -2}},
        {">f8", "3ff0000000000000 c000000000000000", TP_F64, {1, -2}},
    };
    tp_tensor t;
    memset(&t, 0, sizeof t);
    for (int i = 0; i < TP_COUNT(row); i++)
        for (int fortran = 0; fortran < 2; fortran++) {
            char dict[128];
            snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }", row[i].descr,
                     fortran ? "True" : "False", fortran ? "1, 2" : "2,");
            CHECK_OK(parse_npy(dict, row[i].hex, &t));
            CHECK_MSG(t.dtype == row[i].dtype && tp_tensor_get(&t, 0) == row[i].v[0] &&
                          tp_tensor_get(&t, 1) == row[i].v[1],
                      "%s: %s %g %g", dict, tp_dtype_name(t.dtype), tp_tensor_get(&t, 0), tp_tensor_get(&t, 1));
        }
    CHECK_OK(parse_npy("{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3)}", "000100040002000500030006", &t));
    for (int i = 0; i < 6; i++) CHECK(tp_tensor_get(&t, i) == i + 1);
    CHECK_ERR(parse_npy("{'descr': '<u8', 'fortran_order': False, 'shape': (1,)}", "0000000000000080", &t),
              TP_ERR_UNSUPPORTED, "does not fit int64");
    tp_tensor_free(&t);
}

TEST(npy_headers)
{
    static const char *const good[] = {
        "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }",
        "{\"shape\":(1L,),\"fortran_order\":False,\"descr\":\"<i4\"}",
        "  { 'shape' : ( 1 , ) , 'descr' : '=i4' , 'fortran_order' : True } \n",
        "{'descr': 'i4', 'fortran_order': False, 'shape': ()}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1)}",
    };
    static const struct {
        const char *dict;
        tp_status code;
        const char *part;
    } bad[] = {
        {"", TP_ERR_FORMAT, "damaged"},
        {"{", TP_ERR_FORMAT, "damaged"},
        {"{}", TP_ERR_FORMAT, "damaged"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (1,)", TP_ERR_FORMAT, "damaged"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (1,)} x", TP_ERR_FORMAT, "damaged"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': [1]}", TP_ERR_FORMAT, "shape"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (1)}", TP_ERR_FORMAT, "shape"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (,)}", TP_ERR_FORMAT, "shape"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (-1,)}", TP_ERR_FORMAT, "shape"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (1 2)}", TP_ERR_FORMAT, "shape"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (1", TP_ERR_FORMAT, "shape"},
        {"{'descr': '<i4', 'fortran_order': 0, 'shape': (1,)}", TP_ERR_FORMAT, "neither True nor False"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (1,), 'x': 1}", TP_ERR_FORMAT, "unknown or repeated"},
        {"{'descr': '<i4', 'descr': '<i4', 'fortran_order': False, 'shape': (1,)}", TP_ERR_FORMAT, "repeated"},
        {"{'descr': '<i4' 'fortran_order': False, 'shape': (1,)}", TP_ERR_FORMAT, "damaged"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (2,)}", TP_ERR_FORMAT, "promises 8 bytes"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", TP_ERR_UNSUPPORTED, "more than 8"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999,)}", TP_ERR_FORMAT, "too large"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", TP_ERR_FORMAT, "large"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (0, 4294967296, 4294967296)}", TP_ERR_FORMAT, "large"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (2305843009213693952,)}", TP_ERR_FORMAT, "large"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", TP_ERR_UNSUPPORTED, "pickle"},
        {"{'descr': '|S4', 'fortran_order': False, 'shape': (1,)}", TP_ERR_UNSUPPORTED, "'|S4'"},
        {"{'descr': '<U1', 'fortran_order': False, 'shape': (1,)}", TP_ERR_UNSUPPORTED, "'<U1'"},
        {"{'descr': '<V2', 'fortran_order': False, 'shape': (1,)}", TP_ERR_UNSUPPORTED, "'<V2'"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", TP_ERR_UNSUPPORTED, "'<c8'"},
        {"{'descr': '', 'fortran_order': False, 'shape': (1,)}", TP_ERR_UNSUPPORTED, "''"},
        {"{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1,)}", TP_ERR_UNSUPPORTED, "structured"},
        {"{'descr': ('x', '<f4'), 'fortran_order': False, 'shape': (1,)}", TP_ERR_UNSUPPORTED, "structured"},
        {"{'descr': 5, 'fortran_order': False, 'shape': (1,)}", TP_ERR_FORMAT, "the npy header is damaged"},
        {"{'descr': '<i\\x34', 'fortran_order': False, 'shape': (1,)}", TP_ERR_FORMAT, "the npy header is damaged"},
        {"{'descr': '<i", TP_ERR_FORMAT, "the npy header is damaged"},
        {"{'descr': '<i44', 'fortran_order': False, 'shape': (1,)}", TP_ERR_UNSUPPORTED, "type '<i44'"},
        {"{'descr': '<i3', 'fortran_order': False, 'shape': (1,)}", TP_ERR_UNSUPPORTED, "type '<i3'"},
        {"{'descr': '<', 'fortran_order': False, 'shape': (1,)}", TP_ERR_UNSUPPORTED, "type '<'"},
        {"{'descr': 'O', 'fortran_order': False, 'shape': (1,)}", TP_ERR_UNSUPPORTED, "pickle"},
        {"{'descr': '<i4', 'shape': (1,), 'fortran_order': True", TP_ERR_FORMAT, "the npy header is damaged"},
        {"{'descr': '<i4', 'shape': (1,), 'fortran_order': False", TP_ERR_FORMAT, "the npy header is damaged"},
    };
    tp_tensor t;
    memset(&t, 0, sizeof t);
    for (int i = 0; i < TP_COUNT(good); i++) { /* without '<' the order is that of this processor */
        const bool reversed = !strchr(good[i], '<') && !tp__little_endian();
        CHECK_OK(parse_npy(good[i], reversed ? "00000005" : "05000000", &t));
        CHECK_MSG(t.dtype == TP_I32 && tp_tensor_size(&t) == 1 && tp_tensor_get(&t, 0) == 5, "%s", good[i]);
    }
    for (int i = 0; i < TP_COUNT(bad); i++) {
        tp_status s = parse_npy(bad[i].dict, "05000000", &t);
        CHECK_MSG(s == bad[i].code && strncmp(tp_last_error(), "t.npy: ", 7) == 0 &&
                      strstr(tp_last_error() + 7, bad[i].part),
                  "%s: %s: %s", bad[i].dict, tp_status_name(s), tp_last_error());
    }
    /* the largest counts: room is reckoned in the type that elements become, int64 for int32 */
    static const struct {
        const char *dict, *part;
    } large[] = {
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (1152921504606846975,)}", "promises 4611686018427387900"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (1152921504606846976,)}", "impossibly large"},
        {"{'descr': '<i2', 'fortran_order': False, 'shape': (1152921504606846975,)}", "promises 2305843009213693950"},
        {"{'descr': '<i2', 'fortran_order': False, 'shape': (1152921504606846976,)}", "impossibly large"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2305843009213693951,)}", "promises 9223372036854775804"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2305843009213693952,)}", "impossibly large"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2305843009213693951)}", "promises 922337203685477580"},
        {"{'descr': '<f2', 'fortran_order': False, 'shape': (4611686018427387903,)}", "promises 9223372036854775806"},
        {"{'descr': '<f2', 'fortran_order': False, 'shape': (4611686018427387904,)}", "impossibly large"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (922337203685477579,)}", "promises 922337203685477579"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (9223372036854775799,)}", "promises 9223372036854775799"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (9223372036854775808,)}", "too large"},
    };
    for (int i = 0; i < TP_COUNT(large) && sizeof(size_t) == 8; i++)
        CHECK_ERR(parse_npy(large[i].dict, "05000000", &t), TP_ERR_FORMAT, large[i].part);
    /* versions 2 and 3, and one that nobody knows */
    uint8_t raw[256];
    bytes b;
    for (int version = 1; version <= 4; version++) {
        b.n = 0;
        put(&b, "\x93NUMPY", 6);
        put_le(&b, (uint64_t)version, 2);
        put_le(&b, strlen(good[0]), version == 1 ? 2 : 4);
        put(&b, good[0], strlen(good[0]));
        put_le(&b, 5, 4);
        memcpy(raw, b.p, b.n);
        if (version < 4) CHECK_OK(tp_npy_parse(raw, b.n, NULL, &t));
        else CHECK_ERR(tp_npy_parse(raw, b.n, NULL, &t), TP_ERR_UNSUPPORTED, "version 4.0");
    }
    for (size_t n = 0; n < 12; n++) /* files of a few bytes */
        CHECK_ERR(tp_npy_parse(b.p, n, NULL, &t), TP_ERR_FORMAT, n < 6 ? "no npy array" : "cut short");
    b.n = 0; /* the byte 0 is no order of bytes */
    put_npy(&b, good[0], "\5\0\0\0", 4);
    *(uint8_t *)memchr(b.p, '<', b.n) = 0;
    CHECK_ERR(parse_whole(&b, &t), TP_ERR_UNSUPPORTED, "are not read");
    b.p[6] = 2;
    memset(b.p + 8, 255, 4);
    CHECK_ERR(tp_npy_parse(b.p, b.n, NULL, &t), TP_ERR_FORMAT, "too long");
    tp_tensor_free(&t);
}

/* A header ends where its length says, whatever stands behind it: nothing behind the end is read as if it were header. */
TEST(npy_headers_end_where_they_say)
{
    static const char *const dicts[] = {
        "{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1,)}",
        "{'descr': ('x', '<f4'), 'fortran_order': False, 'shape': (1,)}",
        "{'fortran_order': True, 'shape': (1, 2, ), 'descr': '<i4'}",
        "{\"shape\": (12L,), \"descr\": \"<i4\", \"fortran_order\": False }",
        "{'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1), 'descr': '<i4', 'fortran_order': False}",
        "{'shape': (99999999999999999999,), 'descr': '<i4', 'fortran_order': False}",
    };
    char sentence[512];
    tp_tensor t;
    memset(&t, 0, sizeof t);
    for (int i = 0; i < TP_COUNT(dicts); i++)
        for (size_t length = 2; length < strlen(dicts[i]); length++) { /* a file of less than 12 bytes is cut short */
            bytes b;
            memset(&b, 0, sizeof b);
            put(&b, "\x93NUMPY\x01\x00", 8);
            put_le(&b, length, 2);
            put(&b, dicts[i], length);
            const tp_status alone = tp_npy_parse(b.p, b.n, "t.npy", &t);
            snprintf(sentence, sizeof sentence, "%s", tp_last_error());
            CHECK_MSG(alone == TP_ERR_FORMAT || alone == TP_ERR_UNSUPPORTED, "%d of %s", (int)length, dicts[i]);
            CHECK_ERR(parse_whole(&b, &t), alone, sentence);
            put(&b, dicts[i] + length, strlen(dicts[i]) - length); /* what was cut off, in place of the elements */
            CHECK_ERR(parse_whole(&b, &t), alone, sentence);
        }
    CHECK(t.data == NULL);
}

/* ==== >>npz =========================================================================================== */

static const char known_npz[] =
    "504b0304140000000000000021009acaabe788000000880000000b000000636f6e76302f572e6e7079934e554d5059010076007b"
    "276465736372273a20273c6634272c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065273a2028322c"
    "292c207d202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020"
    "2020202020202020202020200a0000803f00000040504b01021400140000000000000021009acaabe788000000880000000b0000"
    "000000000000000000000000000000636f6e76302f572e6e7079504b0506000000000100010039000000b10000000000";

TEST(npz_known_bytes)
{
    uint8_t b[300];
    size_t n = unhex(known_npz, b);
    CHECK(n == 256);
    tp_dict d = {NULL, 0, 0};
    CHECK_OK(load_bytes(b, n, &d));
    tp_tensor *t = tp_dict_find(&d, "conv0/W");
    CHECK(d.n == 1 && t && t->dtype == TP_F32 && tp_tensor_size(t) == 2 && tp_tensor_get(t, 1) == 2);
    tp_dict_free(&d);
    /* cut anywhere, and with any bit flipped: a sentence and no leak; most flips of dates and versions do
     * not matter */
    tp_test_fail_after(0);
    for (size_t cut = 0; cut < n; cut++) {
        tp_status s = load_bytes(b, cut, &d);
        CHECK_MSG(s == TP_ERR_FORMAT, "cut at %zu: %s", cut, tp_status_name(s));
        tp_dict_free(&d);
        CHECK(tp_test_live_blocks() == 0);
    }
    for (size_t i = 0; i < 8 * n; i++) {
        b[i / 8] ^= (uint8_t)(1 << i % 8);
        tp_fail(TP_ERR, "unset");
        tp_status s = load_bytes(b, n, &d);
        bool in_data = i / 8 >= 41 && i / 8 < 177;
        CHECK_MSG(s <= TP_OK && (!in_data || s == TP_ERR_FORMAT), "bit %zu: %s", i, tp_status_name(s));
        CHECK(s == TP_OK || strcmp(tp_last_error(), "unset") != 0);
        tp_dict_free(&d);
        b[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    CHECK(tp_test_live_blocks() == 0);
    tp_test_alloc_reset();
}

#ifdef ZIP64_LOWERS
static uint64_t le(const char *p, int n)
{
    uint64_t v = 0;
    while (n-- > 0) v = v << 8 | (unsigned char)p[n];
    return v;
}

/* Is `data` the zip file of these arrays, field by field, as PKWARE's APPNOTE says, with 64-bit fields from `from` on? */
static void check_zip(const tp_dict *d, bool compress, const char *data, size_t size, uint64_t from)
{
    const char *dir = tp_test_tmpdir(), *path = tp_test_path(dir, "x.npy");
    const char *const end = data + size - 22;
    if (!CHECK(size > 22 && le(end, 4) == 0x06054b50 && le(end + 4, 4) == 0 && le(end + 20, 2) == 0)) return;
    CHECK(le(end + 8, 2) == (uint64_t)d->n && le(end + 10, 2) == (uint64_t)d->n);
    uint64_t n_directory = le(end + 12, 4), begin = le(end + 16, 4);
    const bool located = size >= 42 + 56 && le(end - 20, 4) == 0x07064b50;
    if (located) {
        const char *wide = end - 20 - 56;
        CHECK(le(end - 16, 4) == 0 && le(end - 12, 8) == (uint64_t)(wide - data) && le(end - 4, 4) == 1);
        CHECK(le(wide, 4) == 0x06064b50 && le(wide + 4, 8) == 44 && le(wide + 12, 2) == 45 && le(wide + 14, 2) == 45);
        CHECK(le(wide + 16, 8) == 0 && le(wide + 24, 8) == (uint64_t)d->n && le(wide + 32, 8) == (uint64_t)d->n);
        CHECK(n_directory == (le(wide + 40, 8) < from ? le(wide + 40, 8) : 0xFFFFFFFFu));
        CHECK(begin == (le(wide + 48, 8) < from ? le(wide + 48, 8) : 0xFFFFFFFFu));
        n_directory = le(wide + 40, 8), begin = le(wide + 48, 8);
    }
    CHECK(located == (begin >= from || n_directory >= from));
    CHECK(begin + n_directory + (located ? 76 : 0) + 22 == size);
    uint64_t at = 0, next = begin;
    for (int i = 0; i < d->n && next < size; i++) {
        char *npy = NULL;
        size_t usize = 0;
        CHECK_OK(tp_npy_save(path, &d->item[i].value));
        if (!CHECK_OK(tp_file_read(path, false, 0, &npy, &usize))) return;
        const char *c = data + next, *l = data + at, *x = c + 46 + strlen(d->item[i].name) + 4;
        const size_t name = strlen(d->item[i].name) + 4;
        const uint64_t xlen = le(c + 30, 2), crc = tp_crc32(0, npy, usize);
        uint64_t csize = le(c + 20, 4), u = le(c + 24, 4), local = le(c + 42, 4), used = 4;
        CHECK(le(c, 4) == 0x02014b50 && le(c + 4, 2) == 0x0314 && le(c + 8, 2) == 0 && le(c + 12, 4) == 0x00210000);
        CHECK(le(c + 10, 2) == (compress ? 8 : 0) && le(c + 16, 4) == crc && le(c + 28, 2) == name);
        CHECK(le(c + 32, 4) == 0 && le(c + 36, 2) == 0 && le(c + 38, 4) == 0x81800000u);
        CHECK(memcmp(c + 46, d->item[i].name, name - 4) == 0 && memcmp(c + 42 + name, ".npy", 4) == 0);
        CHECK((u == 0xFFFFFFFFu) == (usize >= from));
        if (u == 0xFFFFFFFFu) u = le(x + used, 8), used += 8;
        if (csize == 0xFFFFFFFFu) csize = le(x + used, 8), used += 8, CHECK(csize >= from);
        else CHECK(csize < from);
        CHECK((local == 0xFFFFFFFFu) == (at >= from));
        if (local == 0xFFFFFFFFu) local = le(x + used, 8), used += 8;
        CHECK(u == usize && local == at && (compress || csize == usize) && xlen == (used > 4 ? used : 0));
        if (used > 4) CHECK(le(x, 2) == 1 && le(x + 2, 2) == used - 4);
        /* the local header: its sizes are known after the array is written, so it has room for 64 bits where it may need it */
        const bool wide = le(l + 28, 2) == 20;
        CHECK(le(c + 6, 2) == (wide || xlen ? 45 : 20) && le(l + 4, 2) == (wide ? 45 : 20));
        CHECK(le(l, 4) == 0x04034b50 && memcmp(l + 6, c + 8, 8) == 0 && le(l + 14, 4) == crc);
        CHECK(wide || (le(l + 28, 2) == 0 && le(l + 18, 4) == csize && le(l + 22, 4) == usize));
        CHECK(le(l + 26, 2) == name && memcmp(l + 30, c + 46, name) == 0);
        if (wide) CHECK(le(l + 18, 4) == 0xFFFFFFFFu && le(l + 22, 4) == 0xFFFFFFFFu);
        if (wide) CHECK(le(l + 30 + name, 2) == 1 && le(l + 32 + name, 2) == 16);
        if (wide) CHECK(le(l + 34 + name, 8) == usize && le(l + 42 + name, 8) == csize);
        CHECK(wide ? usize + usize / 1024 + 2048 >= from : usize < from && csize < from);
        if (!compress) CHECK(memcmp(l + 30 + name + (wide ? 20 : 0), npy, usize) == 0);
        at += 30 + name + (wide ? 20 : 0) + csize;
        next += 46 + name + xlen;
        tp_free(npy);
    }
    CHECK(at == begin && next == begin + n_directory);
}

/* Sizes and offsets on both sides of where 64-bit fields begin, which is 4 GiB when no test lowers it. */
TEST(npz_zip64_field_by_field)
{
    const char *path = tp_test_path(tp_test_tmpdir(), "x.npz");
    tp_dict d = {NULL, 0, 0}, back = {NULL, 0, 0};
    static const int counts[] = {0, 700, 842, 843, 844, 845, 846, 1866, 1867, 1868, 1870, 1871, 1872, 1873, 2500, 1};
    for (int i = 0; i < TP_COUNT(counts); i++) {
        char name[20];
        snprintf(name, sizeof name, "%0*d", i % 5 + 1, i);
        tp_tensor *t = tp_dict_add(&d, name);
        if (!CHECK(t != NULL)) return;
        *t = ramp(TP_U8, 1, counts[i], 0, 0);
        for (int k = 0; k < counts[i] && i % 4; k++) ((uint8_t *)t->data)[k] = (uint8_t)noise((uint64_t)k);
    }
    uint64_t begin = 0, directory = 0;
    for (int round = 0; round < 8; round++)
        for (int compress = 0; compress < 2; compress++) {
            /* first to see where the directory is; then at it, after it, at its size, after it; then among the arrays */
            const uint64_t from[] = {0xFFFFFFFFu, begin, begin + 1, directory, directory + 1, 2000, 1001, 200};
            char *data;
            size_t size;
            if (round >= 1 && round <= 4 && compress) continue; /* the places are those of stored ones */
            zip64_from = (uint32_t)from[round];
            const tp_status s = tp_npz_save(path, &d, compress != 0);
            zip64_from = 0xFFFFFFFFu;
            if (!CHECK_OK(s) || !CHECK_OK(tp_file_read(path, false, 0, &data, &size))) return;
            check_zip(&d, compress != 0, data, size, from[round]);
            if (round == 0 && !compress) directory = le(data + size - 10, 4), begin = le(data + size - 6, 4);
            tp_free(data);
            CHECK_OK(tp_npz_load(path, &back));
            CHECK(back.n == d.n);
            for (int i = 0; i < d.n && i < back.n; i++)
                CHECK(strcmp(back.item[i].name, d.item[i].name) == 0 && same(&back.item[i].value, &d.item[i].value));
        }
    tp_dict_free(&d);
    tp_dict_free(&back);
}

/* An array has a field for large sizes in front of it from the size on at which it could become too large, with its header and
 * what stored blocks add. */
TEST(npz_zip64_in_front_of_an_array)
{
    const char *path = tp_test_path(tp_test_tmpdir(), "x.npz");
    static const int counts[] = {0, 1, 703, 704, 1727, 1728, 5000};
    for (int i = 0; i < TP_COUNT(counts); i++)
        for (int off = -1; off <= 1; off++) {
            const int most = counts[i] + 320, limit = most + most / 1024 + 1024;
            char *data;
            size_t size;
            tp_dict d = {NULL, 0, 0};
            tp_tensor *t = tp_dict_add(&d, "a");
            if (!CHECK(t != NULL)) return;
            *t = ramp(TP_U8, 1, counts[i], 0, 0);
            zip64_from = (uint32_t)(limit + off);
            const tp_status s = tp_npz_save(path, &d, false);
            zip64_from = 0xFFFFFFFFu;
            if (CHECK_OK(s) && CHECK_OK(tp_file_read(path, false, 0, &data, &size))) {
                CHECK_MSG(le(data + 28, 2) == (off <= 0 ? 20 : 0) && le(data + 4, 2) == (off <= 0 ? 45 : 20),
                          "%d bytes, %+d: %d", counts[i], off, (int)le(data + 28, 2));
                tp_free(data);
            }
            tp_dict_free(&d);
        }
}
#endif

static void fill_dict(tp_dict *d)
{
    static const tp_dtype all[] = {TP_F32, TP_F64, TP_F16, TP_I32, TP_I64, TP_U8, TP_BOOL};
    for (int k = 0; k < TP_COUNT(all); k++)
        for (int ndim = 0; ndim <= 3; ndim++) {
            char name[64];
            snprintf(name, sizeof name, "tower0/%s:%d", tp_dtype_name(all[k]), ndim);
            tp_tensor *t = tp_dict_add(d, name);
            if (CHECK(t != NULL)) *t = ramp(all[k], ndim, ndim == 2 ? 0 : 7, 4, 5);
        }
    tp_tensor *t = tp_dict_add(d, "\xc3\xa9t\xc3\xa9");
    if (CHECK(t != NULL)) *t = ramp(TP_F32, 2, 300, 200, 0);
    t = tp_dict_add(d, "../../evil.npy"); /* a name is a name, never a path */
    if (CHECK(t != NULL)) *t = ramp(TP_U8, 1, 3000000, 0, 0);
    t = tp_dict_add(d, "noise");
    if (CHECK(t != NULL)) *t = ramp(TP_I32, 1, 100000, 0, 0);
    for (int i = 0; t && i < 100000; i++) ((uint32_t *)t->data)[i] = noise((uint64_t)i);
}

TEST(npz_round_trips)
{
    const char *path = tp_test_path(tp_test_tmpdir(), "x.npz");
    tp_dict d = {NULL, 0, 0}, back = {NULL, 0, 0};
    for (int compress = 0; compress < 2; compress++) {
        CHECK_OK(tp_npz_save(path, &back, compress)); /* an empty one */
        CHECK_OK(tp_npz_load(path, &back));
        CHECK(back.n == 0);
    }
    fill_dict(&d);
    for (int compress = 0; compress < 2; compress++) {
        CHECK_OK(tp_npz_save(path, &d, compress));
        CHECK_OK(tp_npz_load(path, &back)); /* replaces what was there */
        CHECK(back.n == d.n);
        for (int i = 0; i < d.n; i++)
            CHECK_MSG(same(tp_dict_find(&back, d.item[i].name), &d.item[i].value), "%s", d.item[i].name);
    }
    /* a failed load leaves the dict alone */
    tp_test_write(path, "nonsense", 8);
    CHECK_ERR(tp_npz_load(path, &back), TP_ERR_FORMAT, "x.npz: the npz (zip) file is damaged");
    CHECK(back.n == d.n);
    CHECK_ERR(tp_npz_load(tp_test_path(tp_test_tmpdir(), "none"), &back), TP_ERR_IO, "cannot be opened");
    tp_dict_free(&d);
    tp_dict_free(&back);
}

TEST(npz_writer_refuses)
{
    const char *dir = tp_test_tmpdir(), *path = tp_test_path(dir, "x.npz");
    tp_npz_writer *w;
    float one = 1;
    tp_tensor t = tp_scalar_view(&one), none;
    memset(&none, 0, sizeof none);
    CHECK_OK(tp_npz_open(&w, path, false));
    CHECK_OK(tp_npz_put(w, "a", &t));
    CHECK_OK(tp_npz_put(w, "a.npy", &t)); /* another name */
    CHECK_OK(tp_npz_put(w, "b", &t));
    CHECK_ERR(tp_npz_put(w, "a", &t), TP_ERR_NAME, "'a' is put into the npz twice");
    tp_fail(TP_ERR, "something else");
    CHECK_ERR(tp_npz_put(w, "c", &t), TP_ERR_NAME, "twice");
    CHECK_ERR(tp_npz_close(w), TP_ERR_NAME, "twice");
    CHECK(tp_test_files_in(dir) == 0);
    CHECK_OK(tp_npz_open(&w, path, true));
    CHECK_ERR(tp_npz_put(w, "", &t), TP_ERR_NAME, "needs a name");
    tp_npz_abort(w);
    CHECK_OK(tp_npz_open(&w, path, true));
    CHECK_ERR(tp_npz_put(w, "x", &none), TP_ERR_ARG, "no element type");
    tp_npz_abort(w);
    tp_npz_abort(NULL);
    CHECK_ERR(tp_npz_open(&w, tp_test_path(dir, "no/x.npz"), true), TP_ERR_IO, "cannot be created");
    CHECK(w == NULL && tp_test_files_in(dir) == 0);
}

/* Of two names one may begin as the other ends in the file, "x.npy": they differ, also where they meet in the table of names. */
TEST(npz_names_that_begin_alike)
{
    const char *path = tp_test_path(tp_test_tmpdir(), "x.npz");
    float one = 1;
    const tp_tensor t = tp_scalar_view(&one);
    int met = 0;
    for (int i = 0; i < 2000 && met < 3; i++) {
        char name[32];
        tp_dict d = {NULL, 0, 0};
        tp_npz_writer *w;
        snprintf(name, sizeof name, "x.npy%d", i);
        if ((tp_hash(name, strlen(name)) & 63) != (tp_hash("x", 1) & 63)) continue; /* a table of 64 is the first one */
        met++;
        CHECK_OK(tp_npz_open(&w, path, false));
        CHECK_OK(tp_npz_put(w, name, &t));
        CHECK_OK(tp_npz_put(w, "x", &t));
        CHECK_OK(tp_npz_close(w));
        CHECK_OK(tp_npz_load(path, &d));
        CHECK(d.n == 2 && tp_dict_find(&d, name) && tp_dict_find(&d, "x"));
        for (int k = 0; k < 2; k++) { /* each of them twice */
            CHECK_OK(tp_npz_open(&w, path, false));
            CHECK_OK(tp_npz_put(w, name, &t));
            CHECK_OK(tp_npz_put(w, "x", &t));
            CHECK_ERR(tp_npz_put(w, k ? "x" : name, &t), TP_ERR_NAME, "twice");
            tp_npz_abort(w);
        }
        tp_dict_free(&d);
    }
    CHECK(met == 3);
}

TEST(npz_foreign_writers)
{
    /* zip64 everywhere, sizes of ones in the local header, a data descriptor's flag, no .npy, a comment at
     * the end */
    zip *z = (zip *)calloc(1, sizeof *z);
    lie l = honest();
    tp_dict d = {NULL, 0, 0};
    l.wide = true;
    zip_two(z, "wide.npy", l);
    l = honest();
    l.local_ones = true;
    zip_two(z, "ones.npy", l);
    l.flags = 8;
    zip_two(z, "streamed.npy", l);
    zip_two(z, "plain", honest());
    zip_end(z, true);
    z->file.p[z->file.n - 2] = 4;
    put(&z->file, "PK\5\6", 4);
    CHECK_OK(load_bytes(z->file.p, z->file.n, &d));
    CHECK(d.n == 4);
    for (int i = 0; i < d.n; i++) CHECK(tp_tensor_get(&d.item[i].value, 1) == 2);
    CHECK(tp_dict_find(&d, "wide") && tp_dict_find(&d, "ones") && tp_dict_find(&d, "streamed") &&
          tp_dict_find(&d, "plain"));
    tp_dict_free(&d);
    for (size_t cut = 0; cut < z->file.n; cut++) {
        CHECK_ERR(load_bytes(z->file.p, cut, &d), TP_ERR_FORMAT, "x.npz");
        tp_dict_free(&d);
    }
    free(z);
}

/* What each lie is answered with. */
TEST(npz_lies)
{
    zip *z = (zip *)calloc(1, sizeof *z);
    lie l;
#define LIE(field_, value_, code_, part_) \
    do {                                  \
        memset(z, 0, sizeof *z);          \
        l = honest();                     \
        l.field_ = (value_);              \
        zip_two(z, "a.npy", l);           \
        zip_end(z, false);                \
        expect_bad(z, (code_), (part_));  \
        memset(z, 0, sizeof *z);          \
        l.wide = true;                    \
        zip_two(z, "a.npy", l);           \
        zip_end(z, true);                 \
        expect_bad(z, (code_), (part_));  \
    } while (0)
    LIE(usize, 1, TP_ERR_FORMAT, "its size is impossible");
    LIE(csize, 1, TP_ERR_FORMAT, "outside the file");
    LIE(csize, (uint64_t)-1, TP_ERR_FORMAT, "its size is impossible");
    LIE(csize, 0x7FFFFFF0, TP_ERR_FORMAT, "outside the file");
    LIE(local, 1, TP_ERR_FORMAT, "contradict");
    LIE(local, 0x7FFFFFF0, TP_ERR_FORMAT, "outside the file");
    LIE(crc, 1, TP_ERR_FORMAT, "checksum");
    LIE(local_name, "b.npy", TP_ERR_FORMAT, "contradict");
    LIE(local_name, "a.npyx", TP_ERR_FORMAT, "contradict");
    LIE(flags, 1, TP_ERR_UNSUPPORTED, "encrypted");
    LIE(method, 12, TP_ERR_UNSUPPORTED, "method 12");
    LIE(method, 8, TP_ERR_FORMAT, "damaged");
#undef LIE
    for (int less = 1; less < 24; less++) { /* a zip64 field without room for its numbers */
        memset(z, 0, sizeof *z);
        l = honest();
        l.wide = true;
        l.wide_len = -less;
        zip_two(z, "a.npy", l);
        zip_end(z, false);
        expect_bad(z, TP_ERR_FORMAT, "zip64 field");
    }
    /* sizes near 2^64 */
    for (int shift = 0; shift < 64; shift++) {
        memset(z, 0, sizeof *z);
        l = honest();
        l.wide = true;
        l.usize = (uint64_t)1 << shift;
        zip_two(z, "a.npy", l);
        zip_end(z, true);
        expect_bad(z, TP_ERR_FORMAT, "impossible");
        memset(z, 0, sizeof *z);
        l.usize = 0;
        l.local = (uint64_t)1 << shift;
        zip_two(z, "a.npy", l);
        zip_end(z, true);
        expect_bad(z, TP_ERR_FORMAT, "");
        memset(z, 0, sizeof *z);
        l.local = 0;
        l.csize = (uint64_t)1 << shift;
        zip_two(z, "a.npy", l);
        zip_end(z, true);
        expect_bad(z, TP_ERR_FORMAT, "");
    }
    free(z);
}

/* One field of a good file with two members is changed; null as the sentence: it does not matter. */
TEST(npz_each_field)
{
    enum { END, WIDE, LOCATOR, ENTRY, ENTRY2, LOCAL, LOCAL2 };
    static const struct {
        int where, at, bytes;
        bool relative; /* the value is added */
        int64_t value;
        tp_status code;
        const char *part;
    } row[] = {
        {END, 4, 2, false, 1, TP_ERR_FORMAT, "one part of several"},
        {END, 6, 2, false, 1, TP_ERR_FORMAT, "one part of several"},
        {END, 8, 2, true, -1, TP_ERR_FORMAT, "one part of several"},
        {END, 10, 2, true, 1, TP_ERR_FORMAT, "one part of several"},
        {END, 8, 4, true, 0x10001, TP_ERR_FORMAT, "its directory is too short"},
        {END, 8, 4, true, -0x10001, TP_ERR_FORMAT, "its directory is longer than its members"},
        {END, 12, 4, true, 1, TP_ERR_FORMAT, "its directory lies outside the file"},
        {END, 12, 4, true, -1, TP_ERR_FORMAT, "its directory is wrong"},
        {END, 12, 4, false, 91, TP_ERR_FORMAT, "its directory is too short"},
        {END, 12, 4, false, 92, TP_ERR_FORMAT, "its directory is wrong"},
        {END, 16, 4, true, 1, TP_ERR_FORMAT, "its directory lies outside the file"},
        {END, 16, 4, true, -1, TP_ERR_FORMAT, "its directory is wrong"},
        {END, 16, 4, false, 0x7FFFFFFF, TP_ERR_FORMAT, "its directory lies outside the file"},
        {END, 20, 2, false, 1, TP_ERR_FORMAT, "it has no end record"},
        {END, 0, 4, true, 1, TP_ERR_FORMAT, "it has no end record"},
        {WIDE, 0, 4, true, 1, TP_ERR_FORMAT, "its zip64 end record is wrong"},
        {WIDE, 4, 8, false, 43, TP_ERR_FORMAT, "its zip64 end record is wrong"},
        {WIDE, 4, 8, false, 45, TP_ERR_FORMAT, "its zip64 end record is wrong"},
        {WIDE, 4, 8, false, -1, TP_ERR_FORMAT, "its zip64 end record is wrong"},
        {WIDE, 12, 4, false, 0, TP_OK, NULL},
        {WIDE, 16, 4, false, 1, TP_ERR_FORMAT, "one part of several"},
        {WIDE, 20, 4, false, 1, TP_ERR_FORMAT, "one part of several"},
        {WIDE, 24, 8, true, 1, TP_ERR_FORMAT, "one part of several"},
        {WIDE, 32, 8, true, 1, TP_ERR_FORMAT, "one part of several"},
        {WIDE, 40, 8, true, 1, TP_ERR_FORMAT, "its directory lies outside the file"},
        {WIDE, 40, 8, true, -1, TP_ERR_FORMAT, "its directory is wrong"},
        {WIDE, 40, 8, false, -1, TP_ERR_FORMAT, "its directory lies outside the file"},
        {WIDE, 48, 8, true, 1, TP_ERR_FORMAT, "its directory lies outside the file"},
        {WIDE, 48, 8, false, -1, TP_ERR_FORMAT, "its directory lies outside the file"},
        {LOCATOR, 0, 4, true, 1, TP_ERR_FORMAT, "its directory lies outside the file"},
        {LOCATOR, 8, 8, true, 1, TP_ERR_FORMAT, "its zip64 end record is wrong"},
        {LOCATOR, 8, 8, true, -1, TP_ERR_FORMAT, "its zip64 end record is wrong"},
        {LOCATOR, 8, 8, false, -1, TP_ERR_FORMAT, "its zip64 end record is wrong"},
        {ENTRY, 0, 4, true, 1, TP_ERR_FORMAT, "its directory is wrong"},
        {ENTRY2, 0, 4, true, 1, TP_ERR_FORMAT, "its directory is wrong"},
        {ENTRY, 4, 4, false, 0, TP_OK, NULL},
        {ENTRY, 8, 2, false, 1, TP_ERR_UNSUPPORTED, "member 'a.npy' is encrypted or patched"},
        {ENTRY2, 8, 2, false, 0x20, TP_ERR_UNSUPPORTED, "member 'b.npy' is encrypted or patched"},
        {ENTRY, 8, 2, false, 0x40, TP_ERR_UNSUPPORTED, "member 'a.npy' is encrypted or patched"},
        {ENTRY, 8, 2, false, 0x2000, TP_ERR_UNSUPPORTED, "member 'a.npy' is encrypted or patched"},
        {ENTRY, 8, 2, false, 0xDF9E, TP_OK, NULL},
        {ENTRY, 10, 2, false, 8, TP_ERR_FORMAT, "member 'a.npy': the two headers contradict each other"},
        {ENTRY, 10, 2, false, 9, TP_ERR_UNSUPPORTED, "member 'a.npy' is compressed by method 9"},
        {ENTRY, 12, 4, false, 0x12345678, TP_OK, NULL},
        {ENTRY2, 16, 4, true, 1, TP_ERR_FORMAT, "array 'b': the checksum does not match"},
        {ENTRY2, 28, 2, true, 1, TP_ERR_FORMAT, "its directory is wrong"},
        {ENTRY, 28, 2, true, -1, TP_ERR_FORMAT, "member 'a.np': the two headers contradict each other"},
        {ENTRY2, 30, 2, true, 1, TP_ERR_FORMAT, "its directory is wrong"},
        {ENTRY2, 32, 2, true, 1, TP_ERR_FORMAT, "its directory is wrong"},
        {ENTRY, 34, 8, false, -1, TP_OK, NULL},
        {ENTRY2, 42, 4, true, 1, TP_ERR_FORMAT, "contradict"},
        {LOCAL, 0, 4, true, 1, TP_ERR_FORMAT, "member 'a.npy': the two headers contradict each other"},
        {LOCAL, 4, 2, false, 77, TP_OK, NULL},
        {LOCAL, 6, 2, false, 1, TP_ERR_FORMAT, "contradict"},
        {LOCAL, 6, 2, false, 0xFFFE, TP_OK, NULL},
        {LOCAL, 8, 2, false, 8, TP_ERR_FORMAT, "contradict"},
        {LOCAL, 10, 8, false, -1, TP_OK, NULL}, /* time and checksum */
        {LOCAL, 18, 8, false, 0, TP_OK, NULL},  /* sizes */
        {LOCAL, 26, 2, true, 1, TP_ERR_FORMAT, "contradict"},
        {LOCAL, 26, 2, true, -1, TP_ERR_FORMAT, "contradict"},
        {LOCAL, 28, 2, false, 1, TP_ERR_FORMAT, "members overlap"},
        {LOCAL2, 28, 2, false, 1, TP_ERR_FORMAT, "a member lies outside the file"},
        {LOCAL2, 28, 2, false, 0xFFFF, TP_ERR_FORMAT, "contradict"},
        {LOCAL, 30, 1, true, 1, TP_ERR_FORMAT, "contradict"},
        {LOCAL2, 34, 1, true, 1, TP_ERR_FORMAT, "contradict"},
    };
    zip *z = (zip *)malloc(sizeof *z);
    for (int wide = 0; wide < 2; wide++)
        for (int i = 0; i < TP_COUNT(row); i++) {
            size_t place[7];
            if (row[i].where == END ? wide : row[i].where <= LOCATOR && !wide) continue;
            memset(z, 0, sizeof *z);
            place[LOCAL] = 0;
            zip_two(z, "a.npy", honest());
            place[LOCAL2] = z->file.n;
            zip_two(z, "b.npy", honest());
            place[ENTRY] = z->file.n;
            place[ENTRY2] = z->file.n + z->directory.n / 2;
            zip_end(z, wide != 0);
            place[END] = z->file.n - 22;
            place[LOCATOR] = place[END] - 20;
            place[WIDE] = place[LOCATOR] - 56;
            uint8_t *p = z->file.p + place[row[i].where] + row[i].at;
            uint64_t v = 0;
            for (int k = row[i].bytes; k-- > 0;) v = v << 8 | p[k];
            v = (row[i].relative ? v : 0) + (uint64_t)row[i].value;
            for (int k = 0; k < row[i].bytes; k++) p[k] = (uint8_t)(v >> 8 * k);
            tp_dict d = {NULL, 0, 0};
            const tp_status s = load_bytes(z->file.p, z->file.n, &d);
            CHECK_MSG(s == row[i].code && (s == TP_OK ? d.n == 2 && tp_tensor_get(&d.item[1].value, 1) == 2
                                                      : strstr(tp_last_error(), row[i].part) != NULL),
                      "row %d: %s: %s", i, tp_status_name(s), tp_last_error());
            tp_dict_free(&d);
        }
    free(z);
}

/* Other fields and padding stand behind a name, comments behind an entry and the end; an end record within the comment is none. */
TEST(npz_extra_fields_and_comments)
{
    static const struct {
        const char *hex;
        bool good;
    } row[] = {{"", true},
               {"00", true},
               {"0000", true},
               {"000000", true},
               {"00000000", true},
               {"0100ff", true},
               {"555401007f", true},
               {"55540200 7f", false},
               {"5554 0000 0100 0000", true},
               {"5554 0000 0100 0100", false},
               {"0100 0000", true},
               {"0100 0800 ffffffffffffffff", true}, /* nothing asks for it */
               {"0100 0900 ffffffffffffffff", false},
               {"0200 0400 01000800 00", true},
               {"5554 ffff 00", false}};
    zip *z = (zip *)malloc(sizeof *z);
    for (int i = 0; i < TP_COUNT(row); i++)
        for (int comment = 0; comment < 3; comment++) {
            uint8_t extra[64];
            const size_t n = unhex(row[i].hex, extra);
            memset(z, 0, sizeof *z);
            zip_two(z, "a.npy", honest());
            z->directory.p[30] = (uint8_t)n; /* of the extra fields */
            z->directory.p[32] = (uint8_t)comment;
            put(&z->directory, extra, n);
            put(&z->directory, "cc", (size_t)comment);
            zip_two(z, "b.npy", honest());
            zip_end(z, false);
            tp_dict d = {NULL, 0, 0};
            const tp_status s = load_bytes(z->file.p, z->file.n, &d);
            CHECK_MSG(row[i].good ? s == TP_OK && d.n == 2 && tp_tensor_get(&d.item[1].value, 1) == 2
                                  : s == TP_ERR_FORMAT && strstr(tp_last_error(), "a zip64 field is wrong") != NULL,
                      "row %d: %s: %s", i, tp_status_name(s), tp_last_error());
            tp_dict_free(&d);
        }
    static uint8_t file[70000 + sizeof z->file.p];
    static const size_t comment[] = {0, 1, 21, 22, 23, 100, 65534, 65535, 65536};
    for (int i = 0; i < TP_COUNT(comment); i++)
        for (int fake = 0; fake < 2; fake++) {
            memset(z, 0, sizeof *z);
            zip_two(z, "a.npy", honest());
            zip_end(z, false);
            memset(file, 'c', sizeof file);
            memcpy(file, z->file.p, z->file.n);
            file[z->file.n - 2] = (uint8_t)comment[i], file[z->file.n - 1] = (uint8_t)(comment[i] >> 8);
            if (fake && comment[i] > 22) memcpy(file + z->file.n + comment[i] - 22, "PK\5\6", 4); /* its length: 'cc' */
            tp_dict d = {NULL, 0, 0};
            const tp_status s = load_bytes(file, z->file.n + comment[i], &d);
            if (comment[i] < 65536) CHECK_MSG(s == TP_OK && d.n == 1, "a comment of %d", (int)comment[i]);
            else CHECK_ERR(s, TP_ERR_FORMAT, "it has no end record");
            tp_dict_free(&d);
        }
    free(z);
    tp_dict d = {NULL, 0, 0};
    for (size_t n = 0; n < 22; n++) CHECK_ERR(load_bytes(file, n, &d), TP_ERR_FORMAT, "it is too short");
}

/* Members that may be a thousand times as large as the file, all of them, before memory is asked for: 16 GiB is too much. */
TEST(npz_of_too_many_bytes)
{
    enum { MEMBERS = 20, PACKED = 1 << 20 };
    const size_t usize = 1032u * PACKED + 64, size = 30 + 5 + PACKED + MEMBERS * (46 + 5) + 22;
    if (sizeof(size_t) < 8) TEST_SKIP("the limit is lower here");
    uint8_t *p = (uint8_t *)calloc(1, size);
    if (!p) return;
    for (int n = MEMBERS - 5; n <= MEMBERS; n++)
        for (int more = 0; more < 2; more++) {
            bytes
                b; /* all members are the one at the beginning, under its name: what comes first is how large they are */
            b.n = 0;
            put_le(&b, 0x04034b50, 4);
            put_le(&b, 20, 4);
            put_le(&b, 8, 2);
            put_le(&b, 0, 8);
            put_le(&b, 0, 8);
            put_le(&b, 5, 4);
            put(&b, "a.npy", 5);
            memcpy(p, b.p, b.n);
            const size_t begin = b.n + PACKED;
            b.n = 0;
            for (int i = 0; i < n; i++) {
                put_le(&b, 0x02014b50, 4);
                put_le(&b, 20 + (20 << 16), 4);
                put_le(&b, 8u << 16, 8);
                put_le(&b, 0, 4);
                put_le(&b, PACKED, 4);
                put_le(&b, usize + (size_t)(more && i == n - 1), 4);
                put_le(&b, 5, 6);
                put_le(&b, 0, 8);
                put_le(&b, 0, 4);
                put(&b, "a.npy", 5);
            }
            const size_t directory = b.n;
            put_le(&b, 0x06054b50, 8);
            put_le(&b, (uint64_t)n, 2);
            put_le(&b, (uint64_t)n, 2);
            put_le(&b, directory, 4);
            put_le(&b, begin, 6);
            memcpy(p + begin, b.p, b.n);
            tp_dict d = {NULL, 0, 0};
            CHECK_ERR(load_bytes(p, begin + b.n, &d), TP_ERR_FORMAT,
                      more ? "member 'a.npy': its size is impossible"
                      : (uint64_t)n * usize > (uint64_t)16 << 30
                          ? "its arrays are larger than the 17179869184 bytes allowed"
                          : "there are two arrays 'a'");
            tp_dict_free(&d);
        }
    free(p);
}

TEST(npz_bombs_overlaps_duplicates)
{
    zip *z = (zip *)calloc(1, sizeof *z);
    lie l = honest();
    tp_dict d = {NULL, 0, 0};
    zip_two(z, "a.npy", l);
    zip_two(z, "a.npy", l);
    zip_end(z, false);
    expect_bad(z, TP_ERR_FORMAT, "two arrays 'a'");

    memset(z, 0, sizeof *z);
    zip_two(z, "a.npy", l);
    zip_two(z, "a", l);
    zip_end(z, false);
    expect_bad(z, TP_ERR_FORMAT, "two arrays 'a'");

    /* the second entry points at the first member, under the same name or into its bytes */
    memset(z, 0, sizeof *z);
    zip_two(z, "a.npy", l);
    size_t size = z->file.n;
    l.local_name = "a.npy";
    zip_two(z, "b.npy", l);
    memcpy(z->directory.p + z->directory.n - 5, "a.npy", 5);
    zip_end(z, false);
    expect_bad(z, TP_ERR_FORMAT, "two arrays");

    /* a member whose bytes hold another member whole */
    memset(z, 0, sizeof *z);
    zip_two(z, "inner.npy", honest());
    bytes *inner = (bytes *)malloc(sizeof *inner);
    *inner = z->file;
    memset(z, 0, sizeof *z);
    zip_add(z, "outer.npy", inner->p, inner->n, inner->p, inner->n, honest());
    size_t at = z->file.n - inner->n;
    bytes keep = z->file;
    zip_two(z, "inner.npy", honest());
    z->file = keep; /* only its entry stays, and points into outer.npy */
    bytes entry;
    entry.n = 0;
    put_le(&entry, at, 4);
    memcpy(z->directory.p + z->directory.n - strlen("inner.npy") - 4, entry.p, 4);
    zip_end(z, false);
    expect_bad(z, TP_ERR_FORMAT, "overlap");
    free(inner);
    (void)size;

    /* deflate bombs: a promise beyond 1032 to 1, and more bytes than promised */
    static uint8_t zeros[1 << 20];
    tp_buf packed = {NULL, 0, 0, false};
    CHECK_OK(tp_deflate(zeros, sizeof zeros, &packed));
    l = honest();
    l.method = 8;
    memset(z, 0, sizeof *z);
    l.usize = (uint64_t)2000 * packed.len;
    zip_add(z, "bomb.npy", packed.data, packed.len < 7000 ? packed.len : 7000, zeros, 0, l);
    zip_end(z, false);
    expect_bad(z, TP_ERR_FORMAT, "its size is impossible");
    memset(z, 0, sizeof *z);
    l.usize = 1000;
    zip_add(z, "bomb.npy", packed.data, packed.len < 7000 ? packed.len : 7000, zeros, 0, l);
    zip_end(z, false);
    expect_bad(z, TP_ERR_FORMAT, "more bytes than allowed");
    tp_buf_free(&packed);

    /* bytes behind the elements, and something that is no array */
    static const uint8_t data[9] = {0};
    bytes npy;
    npy.n = 0;
    put_npy(&npy, two_dict, data, 9);
    memset(z, 0, sizeof *z);
    zip_add(z, "a.npy", npy.p, npy.n, npy.p, npy.n, honest());
    zip_end(z, false);
    expect_bad(z, TP_ERR_FORMAT, "there is too much");
    memset(z, 0, sizeof *z);
    zip_add(z, "a\x1b[31m.txt", "hello", 5, "hello", 5, honest());
    zip_end(z, false);
    CHECK_ERR(load_bytes(z->file.p, z->file.n, &d), TP_ERR_FORMAT, "array 'a?[31m.txt': this is no npy array");
    tp_dict_free(&d);
    memset(z, 0, sizeof *z);
    zip_two(z, "", honest());
    zip_end(z, false);
    expect_bad(z, TP_ERR_FORMAT, "impossible name");
    free(z);
}

TEST(npz_deflated_damage)
{
    const char *path = tp_test_path(tp_test_tmpdir(), "x.npz");
    tp_dict d = {NULL, 0, 0};
    tp_tensor *t = tp_dict_add(&d, "a");
    if (t) *t = ramp(TP_F32, 2, 4, 5, 0);
    t = tp_dict_add(&d, "b");
    if (t) *t = ramp(TP_U8, 1, 30, 0, 0);
    CHECK_OK(tp_npz_save(path, &d, true));
    tp_dict_free(&d);
    char *p;
    size_t n;
    if (!CHECK_OK(tp_file_read(path, false, 0, &p, &n))) return;
    CHECK_OK(load_bytes(p, n, &d));
    tp_dict_free(&d);
    for (size_t cut = 0; cut < n; cut++) {
        CHECK_ERR(load_bytes(p, cut, &d), TP_ERR_FORMAT, "x.npz");
        tp_dict_free(&d);
    }
    for (size_t i = 0; i < 8 * n; i++) {
        p[i / 8] = (char)(p[i / 8] ^ (1 << i % 8));
        tp_status s = load_bytes(p, n, &d);
        CHECK_MSG(s <= TP_OK, "bit %zu: %s", i, tp_status_name(s));
        tp_dict_free(&d);
        p[i / 8] = (char)(p[i / 8] ^ (1 << i % 8));
    }
    tp_free(p);
}

/* In the end record, a number that does not fit is all ones, the others are true: the zip64 record has all of them. */
TEST(npz_numbers_that_do_not_fit_each_alone)
{
    static const struct {
        size_t at, bytes;
    } field[3] = {{8, 4}, {12, 4}, {16, 4}}; /* number of members (twice), size of the directory, its place */
    for (int alone = 0; alone < 3; alone++) {
        static zip z;
        tp_dict d = {NULL, 0, 0};
        memset(&z, 0, sizeof z);
        zip_two(&z, "a.npy", honest());
        zip_two(&z, "b.npy", honest());
        const uint64_t truth[3] = {2 + (2 << 16), z.directory.n, z.file.n};
        zip_end(&z, true);
        for (int i = 0; i < 3; i++)
            for (size_t k = 0; k < field[i].bytes && i != alone; k++)
                z.file.p[z.file.n - 22 + field[i].at + k] = (uint8_t)(truth[i] >> 8 * k);
        CHECK_OK(load_bytes(z.file.p, z.file.n, &d));
        CHECK(d.n == 2 && tp_dict_find(&d, "b") && tp_tensor_get(tp_dict_find(&d, "b"), 1) == 2);
        tp_dict_free(&d);
    }
}

TEST(npz_70000_members)
{
    /* more than 65535: the zip64 end record, and nothing quadratic that hurts */
    const char *path = tp_test_path(tp_test_tmpdir(), "x.npz");
    tp_npz_writer *w;
    tp_dict d = {NULL, 0, 0};
    float x = 0;
    tp_tensor t = tp_scalar_view(&x);
    if (!CHECK_OK(tp_npz_open(&w, path, false))) return;
    for (int i = 0; i < 70000; i++) {
        char name[32];
        snprintf(name, sizeof name, "v%d", i);
        x = (float)i;
        if (!CHECK_OK(tp_npz_put(w, name, &t))) break;
    }
    CHECK_OK(tp_npz_close(w));
    CHECK_OK(tp_npz_load(path, &d));
    CHECK(d.n == 70000);
    for (int i = 0; i < d.n; i += 9999) CHECK(tp_tensor_get(&d.item[i].value, 0) == i);
    tp_dict_free(&d);
}

/* ==== >>memory ======================================================================================== */

TEST(dict)
{
    tp_dict d = {NULL, 0, 0};
    CHECK(tp_dict_find(&d, "a") == NULL);
    for (int i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof name, "v%d", i);
        CHECK(tp_dict_add(&d, name) != NULL);
    }
    CHECK(d.n == 100);
    tp_tensor *t = tp_dict_find(&d, "v7");
    CHECK(t == tp_dict_add(&d, "v7") && t == &d.item[7].value && d.n == 100);
    tp_dict_free(&d);
    CHECK(d.n == 0 && d.item == NULL);
    tp_dict_free(&d);
    tp_dict_free(NULL);
}

/* Each allocation of each operation fails in turn: TP_ERR_NOMEM, nothing lost, nothing left behind. */
TEST(allocation_failure)
{
    const char *dir = tp_test_tmpdir();
    const char *npz = tp_test_path(dir, "a.npz"), *npy = tp_test_path(dir, "a.npy"), *gz = tp_test_path(dir, "a.gz");
    tp_dict d = {NULL, 0, 0};
    for (int i = 0; i < 70; i++) {
        char name[16];
        snprintf(name, sizeof name, "v%d", i);
        tp_tensor *t = tp_dict_add(&d, name);
        if (CHECK(t != NULL)) *t = ramp(i % 2 ? TP_F32 : TP_BF16, 2, 3, 50, 0);
    }
    CHECK_OK(tp_npz_save(npz, &d, true));
    CHECK_OK(tp_npy_save(npy, &d.item[0].value));
    bytes b;
    b.n = 0;
    uint8_t *zeros = (uint8_t *)calloc(1, 100000);
    put_gzip(&b, 0, zeros, 100000);
    put_gzip(&b, 0, zeros, 10); /* so that the guess from the last four bytes is wrong */
    tp_test_write(gz, b.p, b.n);
    for (int what = 0; what < 9; what++) {
        bool failed = true;
        for (long n = 1; failed && n < 100000; n++) {
            tp_status s = TP_OK;
            tp_tensor t;
            tp_dict in = {NULL, 0, 0};
            tp_buf out = {NULL, 0, 0, false};
            char *p = NULL;
            size_t size, used;
            memset(&t, 0, sizeof t);
            tp_test_fail_after(n);
            if (what == 0) s = tp_npz_load(npz, &in);
            if (what == 1) s = tp_npz_save(npz, &d, true);
            if (what == 2) s = tp_npz_save(npz, &d, false);
            if (what == 3) s = tp_npy_load(npy, &t);
            if (what == 4) s = tp_npy_save(npy, &d.item[0].value);
            if (what == 5) s = tp_file_read(gz, true, 0, &p, &size);
            if (what == 6) s = tp_make_dirs(tp_test_path(dir, "x"));
            if (what == 7) s = tp_deflate(zeros, 100000, &out);
            if (what == 8) s = tp_inflate_alloc(b.p + 10, b.n - 10, 0, &p, &size, &used);
            failed = tp_test_alloc_failed();
            CHECK_MSG(s == (failed ? TP_ERR_NOMEM : TP_OK), "operation %d, allocation %ld: %s: %s", what, n,
                      tp_status_name(s), tp_last_error());
            tp_dict_free(&in);
            tp_tensor_free(&t);
            tp_buf_free(&out);
            tp_free(p);
            CHECK_MSG(tp_test_live_blocks() == 0, "operation %d, allocation %ld: %ld blocks leak", what, n,
                      tp_test_live_blocks());
        }
        CHECK(!failed);
    }
    tp_test_alloc_reset();
    free(zeros);
    tp_dict_free(&d);
    CHECK(tp_test_files_in(dir) == 4);
}

/* ==== >>numpy ========================================================================================= */

static const char write_by_numpy[] =
    "import numpy as np, sys, zipfile\n"
    "d = sys.argv[1]\n"
    "a = {}\n"
    "for t in 'f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 ?'.split():\n"
    "    for o in '<>':\n"
    "        for f in 'CF':\n"
    "            for s in [(), (0, 3), (4,), (3, 4), (2, 3, 4)]:\n"
    "                n = int(np.prod(s))\n"
    "                v = (np.arange(n) % 100).reshape(s).astype(np.dtype(o + t))\n"
    "                a['%s%s%s/%s' % (t.replace('?', 'b'), 'LB'[o == '>'], f, '_'.join(map(str, s)))] = "
    "np.asarray(v, order=f)\n"
    "np.savez(d + '/stored.npz', **a)\n"
    "np.savez_compressed(d + '/packed.npz', **a)\n"
    "big = np.random.RandomState(1).randn(300, 1000).astype('f4')\n"
    "big[:100] = np.round(big[:100])\n"
    "np.savez_compressed(d + '/big.npz', **{'conv0/W:0': big, 'sum': np.asarray(big.astype('f8').sum())})\n"
    "np.save(d + '/o.npy', np.array([{}], dtype=object), allow_pickle=True)\n";

static const char read_by_numpy[] =
    "import numpy as np, sys, zipfile\n"
    "for name in sys.argv[1:]:\n"
    "    assert zipfile.ZipFile(name).testzip() is None\n"
    "    z = np.load(name)\n"
    "    assert len(z.files) == 31, z.files\n"
    "    for k in z.files:\n"
    "        v = z[k].astype(z[k].dtype.newbyteorder('='))\n" /* a file is in the byte order of the machine that wrote it */
    "        if k.startswith('tower0/'):\n"
    "            t, n = k[7:].split(':')\n"
    "            assert v.dtype == np.dtype(t) and v.flags['C_CONTIGUOUS'], k\n"
    "            assert v.shape == ((), (7,), (0, 4), (7, 4, 5))[int(n)], (k, v.shape)\n"
    "            i = np.arange(v.size)\n"
    "            w = i % 3 == 0 if t == 'bool' else i % 251 if t == 'uint8' else i - 2\n"
    "            assert (v.reshape(-1) == w.astype(t)).all(), k\n"
    "        elif k == '\\u00e9t\\u00e9': assert v.shape == (300, 200) and v[0, 5] == 3\n"
    "        elif k == '../../evil.npy': assert v.size == 3000000 and (v == np.arange(3000000) % 251).all()\n"
    "        else: assert k == 'noise' and v.dtype == np.int32 and len(v) == 100000, k\n"
    "    assert all(i.date_time == (1980, 1, 1, 0, 0, 0) for i in zipfile.ZipFile(name).infolist())\n";

static int run_python(const char *code, const char *arguments)
{
    const char *python = getenv("TP_TEST_PYTHON"), *path = tp_test_path(tp_test_tmpdir(), "t.py");
    char command[4096];
    tp_test_write(path, code, strlen(code));
    snprintf(command, sizeof command, "%s %s %s", python && python[0] ? python : "python3", path, arguments);
    fflush(stdout);
    return system(command);
}

TEST(numpy_reads_ours)
{
    if (run_python("import numpy", "2>/dev/null") != 0) TEST_SKIP("no python with numpy; set TP_TEST_PYTHON");
    const char *dir = tp_test_tmpdir();
    char arguments[2100];
    const char *stored = tp_test_path(dir, "stored.npz"), *packed = tp_test_path(dir, "packed.npz");
    tp_dict d = {NULL, 0, 0};
    fill_dict(&d);
    CHECK_OK(tp_npz_save(stored, &d, false));
    CHECK_OK(tp_npz_save(packed, &d, true));
    snprintf(arguments, sizeof arguments, "%s %s", stored, packed);
    CHECK(run_python(read_by_numpy, arguments) == 0);
    if (system("unzip -v >/dev/null 2>&1") == 0) {
        char command[2200];
        snprintf(command, sizeof command, "unzip -tq %s >/dev/null && unzip -tq %s >/dev/null", stored, packed);
        CHECK(system(command) == 0);
    }
    tp_dict_free(&d);
}

TEST(we_read_numpys)
{
    if (run_python("import numpy", "2>/dev/null") != 0) TEST_SKIP("no python with numpy; set TP_TEST_PYTHON");
    const char *dir = tp_test_tmpdir();
    static const char *const file[] = {"stored.npz", "packed.npz"};
    if (!CHECK(run_python(write_by_numpy, dir) == 0)) return;
    tp_dict d = {NULL, 0, 0};
    for (int k = 0; k < 2; k++) {
        if (!CHECK_OK(tp_npz_load(tp_test_path(dir, file[k]), &d))) return;
        CHECK(d.n == 12 * 2 * 2 * 5);
        for (int i = 0; i < d.n; i++) {
            const tp_tensor *t = &d.item[i].value;
            char want[64] = "", *w = want;
            for (int k2 = 0; k2 < t->shape.ndim; k2++)
                w += snprintf(w, 20, "%s%lld", k2 ? "_" : "", (long long)t->shape.dim[k2]);
            const char *slash = strchr(d.item[i].name, '/');
            CHECK_STR(slash ? slash + 1 : NULL, want);
            for (int64_t j = 0; j < tp_tensor_size(t); j++)
                CHECK_MSG(tp_tensor_get(t, j) == (t->dtype == TP_BOOL ? j % 100 != 0 : (double)(j % 100)),
                          "%s[%d] is %g", d.item[i].name, (int)j, tp_tensor_get(t, j));
        }
    }
    CHECK_OK(tp_npz_load(tp_test_path(dir, "big.npz"), &d));
    const tp_tensor *t = tp_dict_find(&d, "conv0/W:0"), *sum = tp_dict_find(&d, "sum");
    if (CHECK(t && sum)) {
        double s = 0;
        for (int64_t i = 0; i < tp_tensor_size(t); i++) s += tp_tensor_get(t, i);
        CHECK_NEAR(s, tp_tensor_get(sum, 0), 1e-6, 1e-9);
    }
    tp_tensor o;
    memset(&o, 0, sizeof o);
    CHECK_ERR(tp_npy_load(tp_test_path(dir, "o.npy"), &o), TP_ERR_UNSUPPORTED, "pickle");
    tp_tensor_free(&o);
    tp_dict_free(&d);
}

/* ==== >>varints ======================================================================================== */

/* Seven bits a byte, the lowest first; what is cut off, longer than ten bytes or larger than 64 bits is bad, whatever stands
 * behind the end. */
TEST(varints)
{
    static const uint64_t value[] = {0,
                                     1,
                                     127,
                                     128,
                                     129,
                                     16383,
                                     16384,
                                     0x7FFFFFFF,
                                     0x80000000u,
                                     0xFFFFFFFFu,
                                     (uint64_t)1 << 62,
                                     (uint64_t)1 << 63,
                                     UINT64_MAX};
    for (int i = 0; i < TP_COUNT(value); i++) {
        uint8_t text[12];
        int n = 0;
        uint64_t rest = value[i];
        for (; rest > 127; rest >>= 7) text[n++] = (uint8_t)(rest | 128);
        text[n++] = (uint8_t)rest;
        memset(text + n, 1, sizeof text - (size_t)n);
        for (int cut = 0; cut <= n + 1; cut++) {
            tp__pb p;
            memset(&p, 0, sizeof p);
            p.at = text, p.end = text + cut;
            const uint64_t v = tp__pb_get_varint(&p);
            CHECK_MSG(p.bad == (cut < n) && v == (cut < n ? 0 : value[i]), "%llu of %d bytes",
                      (unsigned long long)value[i], cut);
            CHECK(p.at <= p.end && (cut < n || p.at == text + n));
        }
    }
    static const struct {
        uint8_t last;
        int n;
        bool good;
    } longest[] = {{0, 10, true}, {1, 10, true}, {2, 10, false}, {127, 10, false}, {1, 11, false}, {0, 9, true}};
    for (int i = 0; i < TP_COUNT(longest); i++) {
        uint8_t text[12];
        memset(text, 0x80, sizeof text);
        text[longest[i].n - 1] = longest[i].last;
        tp__pb p;
        memset(&p, 0, sizeof p);
        p.at = text, p.end = text + longest[i].n;
        const uint64_t v = tp__pb_get_varint(&p);
        CHECK_MSG(p.bad == !longest[i].good, "%d bytes that end in %d", longest[i].n, longest[i].last);
        CHECK(p.bad || v == (uint64_t)longest[i].last << 7 * (longest[i].n - 1));
    }
}

/* The order in which arrays are read: by shard, then by beginning, then by end; the same from both sides. */
TEST(arrays_by_their_place)
{
    enum { N = 6 };
    static const uint8_t place[N][3] = {{0, 0, 0}, {0, 0, 8}, {0, 8, 8},
                                        {0, 8, 9}, {1, 0, 0}, {1, 4, 5}}; /* in order */
    tp__entry e[N];
    memset(e, 0, sizeof e);
    for (int i = 0; i < N; i++) e[i].shard = place[i][0], e[i].begin = place[i][1], e[i].end = place[i][2];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            const int got = tp__entry_by_place(&e[i], &e[j]);
            CHECK_MSG((got > 0) - (got < 0) == (i > j) - (i < j), "%d and %d: %d", i, j, got);
        }
}

/* ==== >>damage ======================================================================================== */

/* A file in memory: npz, safetensors, index, or the data of this index. */
static tp_status parse_as(int f, const char *p, size_t n, const char *index, size_t n_index, tp_dict *d)
{
    const uint8_t *q = (const uint8_t *)p;
    tp__tf t;
    if (f == 0) return tp__npz_parse(q, n, "x.npz", d);
    if (f == 1) return tp_safetensors_parse(q, n, "x.safetensors", d);
    tp_status s = tp__tf_index(&t, f == 2 ? q : (const uint8_t *)index, f == 2 ? n : n_index, "x.index");
    if (!s && f == 3) s = tp__tf_shard(&t, 0, t.list.n, q, n, "x.data", d);
    tp__entries_free(&t.list);
    return s;
}

/* Each small file cut at every byte, and with every byte changed: a sentence, or the right answer, never more. */
TEST(cut_and_changed_at_every_byte)
{
    const char *dir = tp_test_tmpdir();
    tp_dict d = {NULL, 0, 0}, back = {NULL, 0, 0};
    static const char *const variables[3] = {"conv0/W", "conv0/b", "global_step"};
    const tp_tensor values[3] = {ramp(TP_F32, 2, 2, 3, 0), ramp(TP_F16, 1, 3, 0, 0), ramp(TP_I64, 0, 0, 0, 0)};
    for (int i = 0; i < 3; i++) {
        tp_tensor *t = tp_dict_add(&d, variables[i]);
        if (CHECK(t != NULL)) *t = values[i];
    }
    char *index = NULL;
    size_t n_index = 0;
    for (int f = 0; f < 4; f++) { /* 3: the data file of a TensorFlow checkpoint, whose index is 2 */
        const int format = f < 3 ? f : 2;
        const char *path = file_of(dir, "x", format);
        if (f == 3) CHECK(unlink(path) == 0);
        CHECK_OK(save_as(format, path, &d));
        const char *file = f < 3 ? path : tp_test_path(dir, "x.data-00000-of-00001");
        char *p;
        size_t n;
        if (!CHECK_OK(tp_file_read(file, false, 0, &p, &n))) return;
        for (size_t cut = 0; cut < n; cut++) {
            tp_test_write(file, p, cut);
            tp_fail(TP_ERR, "%s", "");
            const tp_status s = load_as(format, path, &back);
            CHECK_MSG(s < 0 && strlen(tp_last_error()) > 20 && back.n == 0, "file %d cut at %d: %s: %s", f, (int)cut,
                      tp_status_name(s), tp_last_error());
        }
        for (size_t at = 0; at < n; at++)
            for (int bit = 0; bit < 9; bit++) {
                const char before = p[at];
                p[at] = (char)(bit < 8 ? before ^ (1 << bit) : ~before);
                tp_fail(TP_ERR, "%s", "");
                const tp_status s = parse_as(f, p, n, index, n_index, &back);
                CHECK_MSG(s == TP_OK ? f < 2 : strlen(tp_last_error()) > 20, "file %d, byte %d, change %d: %s: %s", f,
                          (int)at, bit, tp_status_name(s), tp_last_error());
                tp_dict_free(&back);
                p[at] = before;
            }
        CHECK_OK(parse_as(f, p, n, index, n_index, &back));
        tp_dict_free(&back);
        if (f == 2) index = p, n_index = n, p = NULL;
        tp_free(p);
        CHECK_OK(save_as(format, path, &d));
        CHECK_OK(load_as(format, path, &back));
        CHECK(back.n == 3);
        for (int i = 0; i < 3; i++) CHECK(same(&values[i], tp_dict_find(&back, variables[i])));
        tp_dict_free(&back);
    }
    CHECK(tp_test_files_in(dir) == 4);
    tp_free(index);
    tp_dict_free(&d);
}

TEST_MAIN()
