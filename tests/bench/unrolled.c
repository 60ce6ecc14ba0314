/* unrolled.c - a training step of an LSTM as one sequence op, and as its cell unrolled, in turn; a JSON line
 *
 *     cc -O2 -I. tests/bench/unrolled.c -o unrolled -lm -lpthread && ./unrolled [threads] */
#define TP_IMPLEMENTATION
#include "tp_layers.h"

#include <time.h>

enum { B = 64, T = 35, C = 128, H = 128, ROUNDS = 21 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* What a step fetches: the gradients of the mean square of all outputs. */
static int step_of(tp_graph *g, tp_node *x, bool sequence, tp_node **fetch)
{
    tp_node *steps[T], *in[T], *vars[8], *y;
    tp_rnn_state state;
    int n = 0;
    memset(&state, 0, sizeof state);
    if (sequence) y = tp_lstm(x, "lstm", .units = H);
    else {
        tp_unstack(x, 1, T, in);
        for (int t = 0; t < T; t++) steps[t] = tp_basic_lstm_cell(in[t], "cell", .units = H, .state = &state);
        y = tp_stack(steps, T, 1);
    }
    for (; n < tp_graph_n_variables(g) && n < 8; n++) vars[n] = tp_graph_variable(g, n)->node;
    tp_gradients(tp_mean(tp_square(y)), vars, n, fetch);
    return n;
}

int main(int argc, char **argv)
{
    static float data[B * T * C];
    tp_session_config config = tp_default_session_config();
    tp_session *s[2];
    tp_node *fetch[2][8];
    tp_feed feed[2];
    double ms[2][ROUNDS];
    int n[2];
    config.threads = argc > 1 ? atoi(argv[1]) : 1;
    for (int i = 0; i < B * T * C; i++) data[i] = (float)(i * 37 % 101) / 50 - 1;
    memset(feed, 0, sizeof feed);
    for (int k = 0; k < 2; k++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_tower_desc tower;
        memset(&tower, 0, sizeof tower);
        tower.is_training = true;
        tp_tower_enter(g, &tower);
        feed[k].node = tp_placeholder(g, "x", TP_F32, tp_make_shape(TP_ANY, T, C));
        n[k] = step_of(g, feed[k].node, k == 0, fetch[k]);
        tp_tower_leave(g);
        tp_tensor_view(&feed[k].value, TP_F32, tp_make_shape(B, T, C), data);
        s[k] = tp_session_new(g, &config);
        if (!s[k]) return puts(tp_last_error()), 1;
    }
    for (int r = -2; r < ROUNDS; r++)
        for (int k = 0; k < 2; k++) {
            const double begin = now();
            if (tp_session_run(s[k], &feed[k], 1, fetch[k], n[k], NULL) != TP_OK) return puts(tp_last_error()), 1;
            if (r >= 0) ms[k][r] = 1e3 * (now() - begin);
        }
    for (int k = 0; k < 2; k++) qsort(ms[k], ROUNDS, sizeof(double), by_size);
    printf("{\"workload\": \"lstm, one op against its cell unrolled\", \"threads\": %d, \"op_ms\": %.3f, "
           "\"unrolled_ms\": %.3f, "
           "\"ratio\": %.2f}\n",
           config.threads, ms[0][ROUNDS / 2], ms[1][ROUNDS / 2], ms[1][ROUNDS / 2] / ms[0][ROUNDS / 2]);
    for (int k = 0; k < 2; k++) {
        tp_graph *g = tp_session_graph(s[k]);
        tp_session_free(s[k]);
        tp_graph_free(g);
    }
    return 0;
}
