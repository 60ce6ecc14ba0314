/* fuzz_files.c - arbitrary bytes into every reader of tp_tensor.h's files
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -I. tests/fuzz_files.c -lm -lpthread -o fuzz_files
 *     cc -g -DFUZZ_REPLAY -I. tests/fuzz_files.c -lm -lpthread -o replay && ./replay crash-*
 *
 * The first byte chooses the reader, the rest is its input. What it accepts is written again and must read
 * back the same. */
#define TP_IMPLEMENTATION
#include "tp_tensor.h"

static void fuzz_fail(const char *what)
{
    fprintf(stderr, "fuzz_files: %s: %s\n", what, tp_last_error());
    abort();
}

/* An error needs a sentence, and only errors come out of readers. */
static bool fuzz_ok(tp_status s, const char *what)
{
    if (s > TP_OK || (s != TP_OK && !tp_last_error()[0])) fuzz_fail(what);
    return s == TP_OK;
}

static void fuzz_npy(const uint8_t *p, size_t n)
{
    tp_tensor t, back;
    tp_buf out = {NULL, 0, 0, false};
    memset(&t, 0, sizeof t);
    memset(&back, 0, sizeof back);
    if (fuzz_ok(tp_npy_parse(p, n, "fuzz.npy", &t), "npy")) {
        char header[TP__NPY_HEADER];
        tp_buf_put(&out, header, tp__npy_header(&t, header));
        if (tp_tensor_bytes(&t)) tp_buf_put(&out, t.data, tp_tensor_bytes(&t));
        if (tp_npy_parse(out.data, out.len, "again.npy", &back)) fuzz_fail("npy, written again");
        if (back.dtype != t.dtype || !tp_shape_equal(&back.shape, &t.shape)) fuzz_fail("npy, another type");
        if (tp_tensor_bytes(&t) && memcmp(back.data, t.data, tp_tensor_bytes(&t)) != 0) fuzz_fail("npy, other data");
    }
    tp_buf_free(&out);
    tp_tensor_free(&t);
    tp_tensor_free(&back);
}

static void fuzz_npz(const uint8_t *p, size_t n)
{
    tp_dict d = {NULL, 0, 0};
    fuzz_ok(tp__npz_parse(p, n, "fuzz.npz", &d), "npz");
    for (int i = 0; i < d.n; i++)
        if (!d.item[i].name || !tp_dict_find(&d, d.item[i].name)) fuzz_fail("npz, a lost name");
    tp_dict_free(&d);
}

static void fuzz_safetensors(const uint8_t *p, size_t n)
{
    tp_dict d = {NULL, 0, 0};
    if (fuzz_ok(tp_safetensors_parse(p, n, "fuzz.safetensors", &d), "safetensors"))
        for (int i = 0; i < d.n; i++)
            if (!d.item[i].name || tp_dict_find(&d, d.item[i].name) != &d.item[i].value)
                fuzz_fail("safetensors, a lost or doubled name");
    tp_dict_free(&d);
}

/* A header with the right length in front, so that not every change of the length ends it. */
static void fuzz_safetensors_header(const uint8_t *p, size_t n)
{
    tp_buf b = {NULL, 0, 0, false};
    uint8_t length[8];
    if (n < 1) return;
    tp__put_le(length, n - 1, 8);
    tp_buf_put(&b, length, 8);
    tp_buf_put(&b, p + 1, n - 1);
    for (int i = 0; i < p[0]; i++) tp_buf_put(&b, "", 1);
    fuzz_safetensors((const uint8_t *)b.data, b.len);
    tp_buf_free(&b);
}

static void fuzz_tf(const uint8_t *p, size_t n, const uint8_t *data, size_t n_data)
{
    tp__tf t;
    tp_dict d = {NULL, 0, 0};
    if (fuzz_ok(tp__tf_index(&t, p, n, "fuzz.index"), "index")) {
        for (size_t i = 0; i < t.list.n; i++) /* the checksum is not what is tested */
            if (t.list.item[i].end <= n_data)
                t.list.item[i].crc =
                    tp__crc_mask(tp_crc32c(0, data + t.list.item[i].begin, t.list.item[i].end - t.list.item[i].begin));
        fuzz_ok(tp__tf_shard(&t, 0, t.list.n, data, n_data, "fuzz.data", &d), "data");
    }
    tp__entries_free(&t.list);
    tp_dict_free(&d);
}

static void fuzz_block(tp_buf *b, const void *p, size_t n, const uint8_t *type)
{
    uint8_t crc[4];
    size_t at = b->len;
    tp_buf_put(b, p, n);
    tp_buf_put(b, type, 1);
    tp__put_le(crc, tp__crc_mask(tp_crc32c(0, b->data + at, b->len - at)), 4);
    tp_buf_put(b, crc, 4);
}

/* One block of an index, plain or compressed, with right checksums and all that belongs around it. */
static void fuzz_tf_block(const uint8_t *p, size_t n)
{
    static const uint8_t plain = 0, zeros[64] = {0};
    uint8_t type, top[64], foot[48] = {0}, *e = top;
    tp_buf b = {NULL, 0, 0, false};
    if (n < 1) return;
    type = p[0] & 1;
    fuzz_block(&b, p + 1, n - 1, &type);
    size_t meta = b.len;
    fuzz_block(&b, "\0\0\0\0\1\0\0\0", 8, &plain);
    uint8_t handle[20], *h = tp__put_varint(tp__put_varint(handle, 0), n - 1);
    *e++ = 0;
    *e++ = 1;
    *e++ = (uint8_t)(h - handle);
    *e++ = 0xFF;
    memcpy(e, handle, (size_t)(h - handle));
    e = tp__put_le(tp__put_le(e + (h - handle), 0, 4), 1, 4);
    size_t at = b.len;
    fuzz_block(&b, top, (size_t)(e - top), &plain);
    h = tp__put_varint(tp__put_varint(foot, meta), 8);
    tp__put_varint(tp__put_varint(h, at), (uint64_t)(e - top));
    tp__put_le(foot + 40, TP__TF_MAGIC, 8);
    tp_buf_put(&b, foot, 48);
    fuzz_tf((const uint8_t *)b.data, b.len, zeros, sizeof zeros);
    tp_buf_free(&b);
}

static void fuzz_inflate(const uint8_t *p, size_t n)
{
    char *out = NULL, *again = NULL;
    size_t size, used, size2;
    tp_buf packed = {NULL, 0, 0, false};
    if (fuzz_ok(tp_inflate_alloc(p, n, 1 << 20, &out, &size, &used), "inflate")) {
        /* the two decoders agree, and the coder can undo it */
        char *exact = (char *)tp_malloc(size + 1);
        if (!exact) return;
        if (used > n || tp_inflate(p, used, exact, size) || memcmp(exact, out, size) != 0)
            fuzz_fail("inflate, exactly");
        tp_free(exact);
        if (tp_deflate(out, size, &packed)) fuzz_fail("deflate");
        if (tp_inflate_alloc(packed.data, packed.len, 1 << 20, &again, &size2, &used)) fuzz_fail("inflate, again");
        if (size2 != size || memcmp(again, out, size) != 0) fuzz_fail("deflate and inflate");
    }
    tp_buf_free(&packed);
    tp_free(out);
    tp_free(again);
}

static void fuzz_deflate(const uint8_t *p, size_t n)
{
    tp_buf packed = {NULL, 0, 0, false};
    char *out = (char *)tp_malloc(n + 1);
    if (!out) return;
    if (tp_deflate(p, n, &packed)) fuzz_fail("deflate");
    if (tp_inflate(packed.data, packed.len, out, n) || (n && memcmp(out, p, n) != 0)) fuzz_fail("deflate, back");
    tp_buf_free(&packed);
    tp_free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) return 0;
    /* a copy of its own, so that the sanitizer sees a read behind the end */
    size_t n = size - 1;
    uint8_t *p = (uint8_t *)malloc(n ? n : 1);
    if (!p) return 0;
    if (n) memcpy(p, data + 1, n);
    char *out = NULL;
    size_t out_size;
    switch (data[0] % 9) {
    case 0: fuzz_npy(p, n); break;
    case 1: fuzz_npz(p, n); break;
    case 2: fuzz_inflate(p, n); break;
    case 3:
        if (fuzz_ok(tp__gunzip("fuzz.gz", p, n, 1 << 20, &out, &out_size), "gunzip")) tp_free(out);
        break;
    case 4: fuzz_safetensors(p, n); break;
    case 5: fuzz_safetensors_header(p, n); break;
    case 6: fuzz_tf(p, n, p, n); break;
    case 7: fuzz_tf_block(p, n); break;
    default: fuzz_deflate(p, n); break;
    }
    free(p);
    return 0;
}

#ifdef FUZZ_REPLAY
int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        char *data;
        size_t size;
        if (tp_file_read(argv[i], false, 0, &data, &size) != TP_OK) {
            fprintf(stderr, "%s\n", tp_last_error());
            return 1;
        }
        LLVMFuzzerTestOneInput((const uint8_t *)data, size);
        tp_free(data);
    }
    printf("%d inputs replayed\n", argc - 1);
    return 0;
}
#endif
