/* char_rnn.c - tensorpack's char-rnn: an LSTM that learns to write, one character at a time
 *
 *   gcc -std=c11 -O2 -I.. char_rnn.c -lm -lpthread -o char_rnn && ./char_rnn --data tinyshakespeare.txt
 *
 * The network reads a text and predicts each next character; its score is the cross entropy in nats a character on the last tenth
 * of the text, on which it is not trained. To write, it draws a character from its prediction and reads that as the next input.
 * New here, compared with mnist_convnet.c: text as data, LSTMs over many time steps, clipped gradients, the state of a recurrent
 * network that is carried from call to call, a score that main() gets. Original: tensorpack's examples/Char-RNN.
 * Without --data it learns a text of simple sentences that it writes itself.
 * On tinyshakespeare.txt: 1.813 nats a character after 3 epochs, 1.562 after 10.
 *   --epochs n (12)   --steps n (of an epoch)   --units n (256)   --sample n (write n characters with the trained model, no training)
 *   --temperature t (of sampling: below 1 is more careful, above 1 is bolder)   --threads n
 *   --resume (go on from train_log/char_rnn, with the other options as they were) */
#define TP_IMPLEMENTATION
#define TP_STATIC
#include "tp_train.h"
#include "tp_layers.h"
#include "options.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define BATCH    64
#define SEQUENCE 100 /* characters in a piece of text; gradients flow back that far */
#define LAYERS   2

typedef struct options {
    int n_chars, units;
    float temperature;
    double score; /* nats a character */
} options;

/* 1. The network: ids of characters (B,T) -> logits of the character after each (B*T,n_chars). state: NULL, or the state of the
 * LSTMs before the first character; it is replaced by the state after the last one. */
static tp_node *network(tp_node *ids, tp_rnn_state *state, const options *o)
{
    tp_node *x = tp_embedding(ids, "embedding", .vocab = o->n_chars, .units = o->units);
    x = tp_lstm(x, "lstm0", .units = o->units, .state = state ? &state[0] : NULL);
    x = tp_lstm(x, "lstm1", .units = o->units, .state = state ? &state[1] : NULL);
    return tp_fully_connected(tp_reshape(x, TP_ANY, o->units), "fc", .units = o->n_chars);
}

/* 2. To train it: pieces of text, and the same pieces shifted by one character. */
static const tp_spec inputs[] = {TP_SPEC("input", TP_I32, TP_ANY, SEQUENCE), TP_SPEC("next", TP_I32, TP_ANY, SEQUENCE)};

static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    (void)g;
    tp_node *logits = network(in[0], NULL, (const options *)user);
    tp_node *cost = tp_named(tp_mean(tp_sparse_softmax_cross_entropy(logits, tp_flatten(in[1]))), "cost");
    tp_add_moving_summary(cost);
    return cost;
}

static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    tp_optimizer *adam = tp_adam(tp_get_scalar_variable(g, "learning_rate", 2e-3f));
    return tp_apply_grad_processors(adam, TP_GRADPROCS(tp_gradproc_global_norm_clip(5)));
}

/* 3. To write with it: one character and the state go in, probabilities and the state come out. */
static tp_node *build_writer(tp_graph *g, tp_node *const *in, void *user)
{
    const options *o = (const options *)user;
    (void)g;
    tp_rnn_state state[LAYERS] = {{in[1], in[2]}, {in[3], in[4]}};
    tp_node *logits = network(in[0], state, o);
    tp_named(state[0].h, "h0_out"), tp_named(state[0].c, "c0_out");
    tp_named(state[1].h, "h1_out"), tp_named(state[1].c, "c1_out");
    return tp_named(tp_softmax(tp_affine(logits, 1 / o->temperature, 0)), "prob");
}

static int draw(const tp_tensor *prob, float u) /* an index, with these probabilities; u is uniform in [0,1) */
{
    int id = 0;
    for (; id + 1 < tp_tensor_size(prob); id++)
        if ((u -= (float)tp_tensor_get(prob, id)) < 0) break;
    return id;
}

static tp_status write_text(const tp_vocabulary *v, options *o, int length)
{
    const int units = o->units;
    const tp_spec specs[] = {TP_SPEC("char", TP_I32, 1, 1), TP_SPEC("h0", TP_F32, 1, units),
                             TP_SPEC("c0", TP_F32, 1, units), TP_SPEC("h1", TP_F32, 1, units),
                             TP_SPEC("c1", TP_F32, 1, units)};
    static const char *const outputs[] = {"prob", "h0_out", "c0_out", "h1_out", "c1_out"};
    tp_predict_config c = {.inputs = specs,
                           .n_inputs = 5,
                           .build_graph = build_writer,
                           .user = o,
                           .output_names = outputs,
                           .n_output_names = 5,
                           .checkpoint = "train_log/char_rnn/checkpoint",
                           .log_layers = TP_NO};
    tp_predictor *p = tp_offline_predictor(&c);
    tp_status st = p ? TP_OK : TP_ERR;
    for (int k = 1; k <= 2 * LAYERS && st == TP_OK; k++)
        st = tp_predictor_carry(p, k, k); /* output k is the next input k */
    tp_tensor in;
    memset(&in, 0, sizeof in);
    int32_t id = tp_vocabulary_find(v, "\n", 1) >= 0 ? tp_vocabulary_find(v, "\n", 1) : 0;
    for (int i = 0; i < length && st == TP_OK; i++) {
        const tp_tensor *out[5];
        tp_tensor_view(&in, TP_I32, tp_make_shape(1, 1), &id);
        if ((st = tp_predict_n(p, &in, 1, out, 5)) != TP_OK) break;
        id = draw(out[0], tp_random_uniform(1, 0, (uint64_t)i));
        fputs(v->word[id], stdout);
    }
    putchar('\n');
    tp_predictor_free(p);
    return st;
}

/* Sentences like "a small dog sees the old house." */
static bool generate(const char *path)
{
    static const char *const words[5][6] = {
        {"a ", "the ", "my ", "your ", "this ", "one "},
        {"small ", "old ", "red ", "quiet ", "", ""},
        {"dog ", "bird ", "child ", "house ", "river ", "friend "},
        {"sees ", "likes ", "follows ", "finds ", "hears ", "forgets "},
        {"music.\n", "the sun.\n", "a road.\n", "old trees.\n", "rain.\n", "her.\n"}};
    FILE *f = fopen(path, "wb");
    if (!f) return false;
    for (uint64_t i = 0; i < 4000; i++)
        for (uint64_t k = 0; k < 5; k++) fputs(words[k][(int)(tp_random_uniform(7, i, k) * 6)], f);
    return fclose(f) == 0;
}

int main(int argc, char **argv)
{
    const char *data = NULL;
    int epochs = 12, steps = 0, sample = 0, resume = 0;
    options o = {.units = 256, .temperature = 1};
    tp_session_config session = tp_default_session_config();
    const option list[] = {option_text("--data file", &data),
                           option_int("--epochs n", &epochs, 1),
                           option_int("--steps n", &steps, 0),
                           option_int("--units n", &o.units, 1),
                           option_int("--sample n", &sample, 0),
                           option_float("--temperature t", &o.temperature, 1e-3),
                           option_int("--threads n", &session.threads, 0),
                           option_flag("--resume", &resume)};
    read_options(argc, argv, list, TP_COUNT(list));
    if (sample && !tp_file_exists("train_log/char_rnn/checkpoint"))
        return fprintf(stderr, "there is no trained model in train_log/char_rnn: run %s without --sample first\n",
                       argv[0]),
               2;
    tp_vocabulary v;
    memset(&v, 0, sizeof v);
    /* a text that cannot be read is noticed before the files of an earlier run are deleted */
    tp_status st = data ? tp_vocabulary_chars(&v, data) : TP_OK;
    if (st == TP_OK) st = tp_logger_set_dir("train_log/char_rnn", sample || resume ? 'k' : 'd');
    if (st == TP_OK && !data) {
        if (generate("train_log/char_rnn/text.txt")) data = "train_log/char_rnn/text.txt";
        st = tp_vocabulary_chars(&v, data);
    }
    if (st != TP_OK) return fprintf(stderr, "%s\n", tp_last_error()), 1;
    o.n_chars = v.n;

    /* What a model gets that knows only how frequent each character is: training must be better than that. */
    double total = 0, entropy = 0;
    for (int i = 0; i < v.n; i++) total += (double)v.count[i];
    for (int i = 0; i < v.n; i++) entropy -= (double)v.count[i] / total * log((double)v.count[i] / total);

    if (!sample) {
        tp_dataflow *train = tp_df_batch(tp_df_text_chars(data, .sequence_length = SEQUENCE, .end = 0.9), BATCH);
        tp_dataflow *test =
            tp_df_batch(tp_df_text_chars(data, .sequence_length = SEQUENCE, .shuffle = false, .begin = 0.9), BATCH);
        const tp_schedule_point later = {(3 * epochs + 3) / 4,
                                         5e-4}; /* the last quarter with a smaller learning rate */
        st = tp_launch_train_with_config(
            TP_OPTIONS(
                tp_train_config,
                .model =
                    {.inputs = inputs, .n_inputs = 2, .build_graph = build_graph, .optimizer = optimizer, .user = &o},
                .dataflow = train,
                TP_CALLBACKS(tp_cb_model_saver(.max_to_keep = 1),
                             tp_cb_inference_runner(test, .inferencers = {tp_inf_scalar_stats(TP_NAMES("cost"))}),
                             tp_cb_get_latest("validation_cost", &o.score),
                             tp_cb_scheduled_hyper_param_setter("learning_rate", .schedule = {later}),
                             tp_cb_estimated_time_left()),
                .session_config = &session, .steps_per_epoch = steps ? steps : (int)tp_df_size(train),
                .max_epoch = epochs, .auto_resume = resume),
            tp_simple_trainer());
    }
    if (st == TP_OK) st = write_text(&v, &o, sample ? sample : 300);
    if (st != TP_OK)
        fprintf(stderr, "%s%s\n", tp_last_error(), sample ? "\n--units and --data must be those of the training" : "");
    else if (!sample) printf("%.3f nats a character, %.3f by the frequencies of characters alone\n", o.score, entropy);
    tp_vocabulary_free(&v);
    return st == TP_OK && o.score < entropy ? 0 : 1;
}
