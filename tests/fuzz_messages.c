/* fuzz_messages.c - arbitrary bytes as a message of zmq_ops
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -I. tests/fuzz_messages.c -lm -lpthread -o fuzz_messages
 *     ./fuzz_messages -max_len=300
 *
 * What is read is written again, and read back the same. */
#define TP_IMPLEMENTATION
#define TP_STATIC
#include "tp_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    tp_datapoint dp = {0, NULL, 0}, again = {0, NULL, 0};
    tp_buf b = {NULL, 0, 0, false};
    const tp_status st = tp_datapoint_unpack(&dp, p, n, "m");
    if (st > TP_OK || (st != TP_OK && !*tp_last_error())) abort(); /* an error, with its sentence */
    if (st == TP_OK) {
        if (tp_datapoint_pack(&dp, &b) != TP_OK) abort();
        if (tp_datapoint_unpack(&again, b.data, b.len, "again") != TP_OK || again.n != dp.n) abort();
        for (int i = 0; i < dp.n; i++) {
            const size_t bytes = tp_tensor_bytes(&dp.c[i]);
            if (dp.c[i].dtype != again.c[i].dtype || !tp_shape_equal(&dp.c[i].shape, &again.c[i].shape)) abort();
            if (bytes && memcmp(dp.c[i].data, again.c[i].data, bytes) != 0) abort();
        }
    }
    tp_buf_free(&b);
    tp_datapoint_free(&dp);
    tp_datapoint_free(&again);
    return 0;
}
