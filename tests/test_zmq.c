/* test_zmq.c - datapoints as messages of zmq_ops, and what sends and receives them (tp_input.h, >>zmq)
 *
 * With -DTP_ZMQ and -lzmq, as tests/run.sh has it where zmq.h is installed, sockets too. tests/zmq_vectors.h comes from
 * numpy (tests/gen_zmq.py). tests/zmq_peer.py speaks ZeroMQ's protocol without its library: it is the other end.
 * TP_TEST_ZMQ_SECONDS=300: so long runs the test whose sender is killed; 1 by default. */
#define TP_IMPLEMENTATION
#define TP_STATIC
#include "../tp_input.h"
#include "tp_test.h"
#include "zmq_vectors.h"

/* ==== >>messages ====================================================================================== */

static tp_datapoint none(void)
{
    tp_datapoint dp = {0, NULL, 0};
    return dp;
}
static tp_buf no_bytes(void)
{
    tp_buf b = {NULL, 0, 0, false};
    return b;
}

static void check_equals(const tp_datapoint *dp, const zmq_vector *v)
{
    if (!CHECK_MSG(dp->n == v->n, "%s: %d components, expected %d", v->name, dp->n, v->n)) return;
    for (int i = 0; i < v->n; i++) {
        const tp_tensor *t = &dp->c[i];
        const zmq_component *c = &v->c[i];
        bool same = t->dtype == c->dtype && t->shape.ndim == c->ndim && tp_tensor_bytes(t) == c->size;
        for (int k = 0; k < c->ndim && same; k++) same = t->shape.dim[k] == c->dim[k];
        CHECK_MSG(same && (c->size == 0 || memcmp(t->data, c->data, c->size) == 0), "%s: component %d", v->name, i);
    }
}

/* A copy that ends where the message does, so that a sanitizer sees a byte read behind it. */
static unsigned char *exact_copy(const unsigned char *bytes, size_t size)
{
    unsigned char *p = (unsigned char *)malloc(size ? size : 1);
    if (!p) abort();
    if (size) memcpy(p, bytes, size);
    return p;
}

TEST(messages_of_numpy_are_read_and_written)
{
    tp_datapoint dp = none();
    tp_buf out = no_bytes();
    int written = 0;
    for (int i = 0; i < TP_COUNT(zmq_vectors); i++) {
        const zmq_vector *v = &zmq_vectors[i];
        unsigned char *p = exact_copy(v->bytes, v->size);
        if (CHECK_OK(tp_datapoint_unpack(&dp, p, v->size, v->name))) check_equals(&dp, v);
        free(p);
        out.len = 0;
        if (v->writes && CHECK_OK(tp_datapoint_pack(&dp, &out))) {
            written++;
            CHECK_MSG(out.len == v->size && memcmp(out.data, v->bytes, v->size) == 0, "%s is written otherwise",
                      v->name);
        }
    }
    CHECK(written >= 15);
    tp_buf_free(&out);
    tp_datapoint_free(&dp);
}

/* The examples of the specification, byte for byte. */
TEST(golden_messages)
{
    static const unsigned char first[] =
        "\2\0\0\0\1\0\0\0\2\0\0\0\2\0\0\0\2\0\0\0\x10\0\0\0\0\0\0\0\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40"
        "\4\0\0\0\1\0\0\0\3\0\0\0\3\0\0\0\0\0\0\0\7\x08\x09";
    static const unsigned char five[] = "\1\0\0\0\3\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0\5\0\0\0";
    static const unsigned char empty[] = "\1\0\0\0\1\0\0\0\2\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    float f[4] = {1, 2, 3, 4};
    unsigned char u[3] = {7, 8, 9};
    int32_t i = 5;
    tp_tensor c[2];
    tp_datapoint dp = {2, c, 2};
    tp_buf out = no_bytes();
    memset(c, 0, sizeof c);
    tp_tensor_view(&c[0], TP_F32, tp_make_shape(2, 2), f);
    tp_tensor_view(&c[1], TP_U8, tp_make_shape(3), u);
    CHECK_OK(tp_datapoint_pack(&dp, &out));
    CHECK(out.len == 67 && memcmp(out.data, first, 67) == 0);
    dp.n = 1;
    tp_tensor_view(&c[0], TP_I32, tp_make_shape_n(0, NULL), &i);
    CHECK_OK(tp_datapoint_pack(&dp, &out)); /* it is appended */
    CHECK(out.len == 91 && memcmp(out.data, first, 67) == 0 && memcmp(out.data + 67, five, 24) == 0);
    tp_tensor_view(&c[0], TP_F32, tp_make_shape(2, 0), NULL);
    out.len = 0;
    CHECK_OK(tp_datapoint_pack(&dp, &out));
    CHECK(out.len == 28 && memcmp(out.data, empty, 28) == 0);
    tp_buf_free(&out);
}

TEST(damaged_messages_are_refused)
{
    tp_datapoint dp = none();
    for (int i = 0; i < TP_COUNT(zmq_refusals); i++) {
        const zmq_refused *r = &zmq_refusals[i];
        unsigned char *p = exact_copy(r->bytes, r->size);
        const tp_status st = tp_datapoint_unpack(&dp, p, r->size, "letter.msg");
        CHECK_MSG(st == TP_ERR_FORMAT || st == TP_ERR_UNSUPPORTED, "%s: %s", r->name, tp_status_name(st));
        CHECK_MSG(strstr(tp_last_error(), r->sentence) && strncmp(tp_last_error(), "letter.msg", 10) == 0, "%s: \"%s\"",
                  r->name, tp_last_error());
        CHECK(dp.n == 0);
        free(p);
    }
    CHECK_OK(tp_datapoint_unpack(&dp, zmq_vectors[0].bytes, zmq_vectors[0].size, "a good one"));
    check_equals(&dp, &zmq_vectors[0]);
    tp_datapoint_free(&dp);
}

/* Each message cut short at each byte is refused; with any byte changed it is refused or read, without harm. */
TEST(hostile_messages)
{
    tp_datapoint dp = none();
    uint64_t key = 1;
    for (int i = 0; i < TP_COUNT(zmq_vectors); i++) {
        const zmq_vector *v = &zmq_vectors[i];
        if (v->size > 200) continue;
        for (size_t n = 0; n < v->size; n++) {
            unsigned char *p = exact_copy(v->bytes, n);
            CHECK_MSG(tp_datapoint_unpack(&dp, p, n, "m") == TP_ERR_FORMAT, "%s: %zu bytes of it", v->name, n);
            free(p);
        }
        for (size_t at = 0; at < v->size; at++)
            for (int k = 0; k < 4; k++) {
                unsigned char *p = exact_copy(v->bytes, v->size);
                p[at] = k == 0 ? 0xff : k == 1 ? 0x7f : (unsigned char)tp_random_u32(7, key++, 0);
                const tp_status st = tp_datapoint_unpack(&dp, p, v->size, "m");
                CHECK(st == TP_OK || st == TP_ERR_FORMAT || st == TP_ERR_UNSUPPORTED);
                free(p);
            }
    }
    tp_datapoint_free(&dp);
}

TEST(what_a_message_cannot_hold)
{
    tp_buf out = no_bytes();
    tp_tensor c[1];
    tp_datapoint dp = {1, c, 1};
    memset(c, 0, sizeof c);
    CHECK_ERR(tp_datapoint_pack(&dp, &out), TP_ERR_ARG, "component 0 cannot be saved: the tensor has no element type");
    c[0].dtype = TP_F32;
    c[0].shape = tp_make_shape(3);
    CHECK_ERR(tp_datapoint_pack(&dp, &out), TP_ERR_ARG, "no data");
    c[0].shape.dim[0] = TP_ANY;
    CHECK_ERR(tp_datapoint_pack(&dp, &out), TP_ERR_SHAPE, "component 0");
    c[0].shape = tp_make_shape(0, (int64_t)INT32_MAX + 1);
    CHECK_ERR(tp_datapoint_pack(&dp, &out), TP_ERR_SHAPE, "(0,2147483648)");
    c[0].shape = tp_make_shape(0, INT32_MAX);
    CHECK_OK(tp_datapoint_pack(&dp, &out));
    CHECK(out.len == 28);
    dp.n = -1;
    CHECK(tp_datapoint_pack(&dp, &out) == TP_ERR_ARG);
    CHECK(out.len == 28);
    CHECK(tp_datapoint_pack(NULL, &out) == TP_ERR_ARG && tp_datapoint_pack(&dp, NULL) == TP_ERR_ARG);
    CHECK(tp_datapoint_unpack(NULL, "", 0, "m") == TP_ERR_ARG && tp_datapoint_unpack(&dp, NULL, 9, "m") == TP_ERR_ARG);
    CHECK(tp_datapoint_unpack(&dp, "", 0, NULL) == TP_ERR_ARG);
    dp = none();
    CHECK_ERR(tp_datapoint_unpack(&dp, NULL, 0, "m"), TP_ERR_FORMAT, "truncated");
    tp_buf_free(&out);
}

TEST(messages_without_memory)
{
    const zmq_vector *v = &zmq_vectors[20];
    for (long n = 1, failed = 1; failed; n++) {
        tp_datapoint dp = none();
        tp_buf out = no_bytes();
        tp_test_fail_after(n);
        tp_status st = tp_datapoint_unpack(&dp, v->bytes, v->size, "m");
        if (st == TP_OK) st = tp_datapoint_pack(&dp, &out);
        failed = tp_test_alloc_failed();
        CHECK(failed ? st == TP_ERR_NOMEM && dp.n == (out.failed ? v->n : 0) : st == TP_OK);
        tp_buf_free(&out);
        tp_datapoint_free(&dp);
        CHECK(tp_test_live_blocks() == 0);
    }
    tp_test_alloc_reset();
    tp_datapoint dp = none(); /* what is there is used again */
    tp_buf out = no_bytes();
    for (int i = 0; i < 3; i++) {
        if (i == 1) tp_test_fail_after(0);
        out.len = 0;
        CHECK_OK(tp_datapoint_unpack(&dp, v->bytes, v->size, "m"));
        CHECK_OK(tp_datapoint_pack(&dp, &out));
    }
    CHECK(tp_test_alloc_count() == 0);
    tp_test_alloc_reset();
    tp_buf_free(&out);
    tp_datapoint_free(&dp);
}

TEST_MAIN()
