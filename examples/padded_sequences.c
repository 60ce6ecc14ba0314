/* padded_sequences.c - sequences of different lengths: batches of similar lengths, padding that changes nothing, an LSTM each way
 *
 *   gcc -std=c11 -O2 -I.. padded_sequences.c -lm -lpthread -o padded_sequences && ./padded_sequences
 *
 * A sequence has 20 to 199 steps. It shows one of six letters for 4 to 12 steps, then another one, all in strong noise; the network
 * says for each step which letter it is. A step alone tells little: an LSTM that reads forward and one that reads backward also
 * know what came before and what comes after.
 * A batch is as long as its longest sequence, so that its number of steps is unknown while the graph is built. What stands behind
 * the end of a sequence changes neither the cost nor what the LSTMs say of its steps: see reading_order and mask.
 * New here, compared with char_rnn.c: .pad of tp_df_batch, batches by ranges of length, an LSTM that reads backward.
 * validation_steps_wrong 0.169 after 4 epochs, in 7 s; 0.285 if both LSTMs read forward.
 *   --epochs n (4)   --steps n (of an epoch)   --units n (32) */
#define TP_IMPLEMENTATION
#define TP_STATIC
#include "tp_train.h"
#include "tp_layers.h"
#include "options.h"

#define LETTERS 6
#define BANDS   8
#define RANGES  3

static const tp_spec inputs[] = {TP_SPEC("x", TP_F32, TP_ANY, TP_ANY, BANDS), TP_SPEC("letter", TP_I32, TP_ANY, TP_ANY),
                                 TP_SPEC("length", TP_I32, TP_ANY)};

/* 1. The data: sequence i of a set. Its length is a component of its own, which a batch keeps beside the padded ones. */
static int64_t length_of(uint64_t set, int64_t i)
{
    return 20 + (int64_t)(180 * tp_random_uniform(set, (uint64_t)i, 0));
}
static tp_status draw(void *user, int64_t pass, int64_t i, tp_datapoint *dp)
{
    const uint64_t set = *(const uint64_t *)user, at = (uint64_t)i;
    const int64_t n = length_of(set, i);
    const tp_shape scalar = {0, {0}};
    (void)pass;
    if (tp_datapoint_resize(dp, 3) != TP_OK || tp_tensor_resize(&dp->c[0], TP_F32, tp_make_shape(n, BANDS)) != TP_OK ||
        tp_tensor_resize(&dp->c[1], TP_I32, tp_make_shape(n)) != TP_OK ||
        tp_tensor_resize(&dp->c[2], TP_I32, scalar) != TP_OK)
        return TP_ERR;
    float *x = (float *)dp->c[0].data;
    int32_t *letter = (int32_t *)dp->c[1].data;
    *(int32_t *)dp->c[2].data = (int32_t)n;
    for (int64_t t = 0, next = 0; t < n; t++) {
        const bool same = t < next;
        if (!same) next = t + 4 + (int64_t)(9 * tp_random_uniform(set + 1, at, (uint64_t)t));
        letter[t] = same ? letter[t - 1] : (int32_t)(LETTERS * tp_random_uniform(set + 2, at, (uint64_t)t));
        for (int k = 0; k < BANDS; k++)
            x[t * BANDS + k] =
                (k == letter[t]) + 3 * (tp_random_uniform(set + 3, at, (uint64_t)(t * BANDS + k)) - 0.5f);
    }
    return TP_OK;
}

/* 2. Batches: sequences of one range of lengths are batched together, so that little is padded; then the batches are mixed. */
static int range_of(int64_t length) { return length < 80 ? 0 : length < 140 ? 1 : 2; }
static bool in_range(const tp_datapoint *dp, const tp_map_call *call)
{
    return range_of(dp->c[0].shape.dim[0]) == *(const int *)call->user;
}
static tp_dataflow *batches(uint64_t *set, int size, int batch)
{
    static int range[RANGES] = {0, 1, 2};
    tp_dataflow *part[RANGES];
    for (int r = 0; r < RANGES; r++) {
        int64_t kept = 0;
        for (int i = 0; i < size; i++) kept += range_of(length_of(*set, i)) == r;
        part[r] = tp_df_from_generator(draw, .user = set, .size = size, .indexed = true);
        part[r] =
            tp_df_cache(tp_df_filter(part[r], .keep = in_range, .user = &range[r], .size = kept), .shuffle = true);
        part[r] = tp_df_batch(part[r], batch, .remainder = true, .pad = true);
    }
    return tp_df_random_mix(part, RANGES);
}

/* 3. The network. x (B,T,C) of unknown B and T; length (B). */
typedef struct order {
    /* (B,T): 1 for a real step, 0 behind the end */
    tp_node *mask;
    /* (B T): for each step the index of the row of x, seen as rows (B T,C), to read there: real steps backward, padding as it is */
    tp_node *rows;
} order;
static order reading_order(tp_node *x, tp_node *length)
{
    const int steps = 1;
    order o;
    tp_node *one = tp_ones_like(tp_sum_over(x, 2)), *n = tp_expand_dims(tp_cast(length, TP_F32), 1);
    tp_node *t = tp_cumsum(one, 1, true, false), *sequence = tp_cumsum(one, 0, true, false); /* 0, 1, .. along T, B */
    tp_node *is_real = tp_less(t, n), *from = tp_select(is_real, tp_sub(tp_affine(n, 1, -1), t), t);
    o.mask = tp_cast(is_real, TP_F32);
    o.rows = tp_add(tp_mul(sequence, tp_reduce_sum(one, &steps, 1, true)), from);
    o.rows = tp_flatten(tp_cast(o.rows, TP_I32));
    return o;
}
static tp_node *reordered(tp_node *x, order o)
{
    return tp_reshape_like(tp_gather(tp_reshape(x, TP_ANY, x->shape.dim[2]), o.rows), x);
}
static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    const int units = *(const int *)user;
    const order o = reading_order(in[0], in[2]);
    tp_node *forward = tp_lstm(in[0], "forward", .units = units);
    tp_node *backward = reordered(tp_lstm(reordered(in[0], o), "backward", .units = units), o);
    tp_node *y = tp_reshape(tp_concat_along(2, forward, backward), TP_ANY, 2 * units);
    tp_node *logits = tp_fully_connected(y, "fc", .units = LETTERS); /* (B T,LETTERS) */
    tp_node *letter = tp_flatten(in[1]), *mask = tp_flatten(o.mask), *real_steps = tp_sum(mask);
    tp_node *cost = tp_sum(tp_mul(tp_sparse_softmax_cross_entropy(logits, letter), mask));
    tp_node *wrong = tp_sum(tp_mul(tp_sym_prediction_incorrect(logits, letter, 1, "wrong"), mask));
    cost = tp_named(tp_div(cost, real_steps), "cost");
    tp_add_moving_summary(cost, tp_named(tp_div(wrong, real_steps), "steps_wrong"));
    return (void)g, cost;
}
static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    return (void)user, tp_adam(tp_get_scalar_variable(g, "learning_rate", 5e-3f));
}

int main(int argc, char **argv)
{
    int epochs = 4, steps = 0, units = 32;
    uint64_t train_set = 10, test_set = 20;
    const option list[] = {option_int("--epochs n", &epochs, 1), option_int("--steps n", &steps, 0),
                           option_int("--units n", &units, 1)};
    read_options(argc, argv, list, TP_COUNT(list));
    tp_dataflow *train = batches(&train_set, 2000, 32);
    if (tp_logger_set_dir("train_log/padded_sequences", 'd') != TP_OK)
        return fprintf(stderr, "%s\n", tp_last_error()), 1;
    return tp_launch_train_with_config(
               TP_OPTIONS(tp_train_config,
                          .model = {.inputs = inputs,
                                    .n_inputs = TP_COUNT(inputs),
                                    .build_graph = build_graph,
                                    .optimizer = optimizer,
                                    .user = &units},
                          .dataflow = train,
                          TP_CALLBACKS(tp_cb_model_saver(.max_to_keep = 1),
                                       tp_cb_inference_runner(
                                           batches(&test_set, 200, 20),
                                           .inferencers = {tp_inf_scalar_stats(TP_NAMES("cost", "steps_wrong"))})),
                          .steps_per_epoch = steps ? steps : (int)tp_df_size(train), .max_epoch = epochs),
               tp_simple_trainer()) != TP_OK;
}
