/* fuzz_files.c - arbitrary bytes into every reader of tp_tensor.h's files
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined tests/fuzz_files.c -lm -lpthread -o fuzz_files
 *     cc -g -DFUZZ_REPLAY tests/fuzz_files.c -lm -lpthread -o replay && ./replay crash-*
 *
 * The first byte chooses the reader, the rest is its input. What it accepts is written again and must read
 * back the same. */
#define TP_IMPLEMENTATION
#include "../tp_tensor.h"

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
    switch (data[0] % 5) {
    case 0: fuzz_npy(p, n); break;
    case 1: fuzz_npz(p, n); break;
    case 2: fuzz_inflate(p, n); break;
    case 3:
        if (fuzz_ok(tp__gunzip("fuzz.gz", p, n, 1 << 20, &out, &out_size), "gunzip")) tp_free(out);
        break;
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
