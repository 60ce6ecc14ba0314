/* char_gpt.c - a small GPT that learns to write, one character at a time
 *
 *   gcc -std=c11 -O2 -I.. char_gpt.c -lm -lpthread -o char_gpt && ./char_gpt --data tinyshakespeare.txt
 *
 * The same task as char_rnn.c with a transformer: each position looks at all earlier ones by attention, so a whole piece of text
 * is predicted at once. The score is the cross entropy in nats a character on the last tenth of the text, on which it is not trained.
 * New here, compared with char_rnn.c: attention, layer norm over the last axis, a variable made by hand, AdamW, a learning rate that
 * is a formula of the step. tensorpack has no such example; the network is that of GPT-2, small.
 * Without --data it learns a text of simple sentences that it writes itself.
 * On tinyshakespeare.txt: 1.8862 nats a character after 5 of the 10 epochs.
 *   --epochs n (10)   --steps n (of an epoch: 200)   --layers n (4)   --sample n (write n characters with the trained model, no
 *   training)   --temperature t (of sampling: below 1 is more careful, above 1 is bolder)   --threads n
 *   --resume (go on from train_log/char_gpt, with the other options as they were) */
#define TP_IMPLEMENTATION
#define TP_STATIC
#include "tp_train.h"
#include "tp_layers.h"
#include "options.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define BATCH    16
#define SEQUENCE 64 /* characters that it sees at once */
#define UNITS    128
#define HEADS    4

typedef struct options {
    int n_chars, layers;
    int64_t steps; /* of the whole training */
    float temperature;
    double score; /* nats a character */
} options;

/* 1. The network. Every value between its layers is (B,SEQUENCE,UNITS). */
static tp_node *norm(tp_node *x, const char *name) /* each position: mean 0, variance 1, then gamma x + beta */
{
    tp_graph *g = tp_node_graph(x);
    tp_node *y = x;
    TP_VARIABLE_SCOPE(g, name)
    {
        tp_node *gamma = tp_get_variable_as(g, "gamma", TP_F32, tp_make_shape(UNITS), tp_init_ones());
        tp_node *beta = tp_get_variable_as(g, "beta", TP_F32, tp_make_shape(UNITS), tp_init_zeros());
        y = tp_nn_layer_norm(x, gamma, beta, 1e-5f);
    }
    return y;
}

static tp_node *mlp(tp_node *x) /* FullyConnected works on rows: (B,SEQUENCE,UNITS) -> (B*SEQUENCE,UNITS), and back */
{
    tp_node *y =
        tp_linear(tp_reshape(x, TP_ANY, UNITS), TP_FULLY_CONNECTED("fc0", .units = 4 * UNITS, .activation = tp_gelu),
                  TP_FULLY_CONNECTED("fc1", .units = UNITS));
    return tp_reshape(y, TP_ANY, SEQUENCE, UNITS);
}

static tp_node *network(tp_graph *g, tp_node *ids, const options *o) /* (B,SEQUENCE) -> logits (B*SEQUENCE,n_chars) */
{
    const tp_init small = tp_init_normal(0, 0.02f);
    tp_node *x = tp_embedding(ids, "embedding", .vocab = o->n_chars, .units = UNITS, .kernel_initializer = small);
    x = tp_add(x, tp_get_variable_as(g, "position", TP_F32, tp_make_shape(SEQUENCE, UNITS), small));
    for (int i = 0; i < o->layers; i++) {
        char name[16];
        snprintf(name, sizeof name, "block%d", i);
        TP_VARIABLE_SCOPE(g, name)
        {
            tp_node *look = tp_multi_head_attention(norm(x, "ln0"), "attention", .heads = HEADS, .causal = true);
            x = tp_add(x, look);
            x = tp_add(x, mlp(norm(x, "ln1")));
        }
    }
    return tp_fully_connected(tp_reshape(norm(x, "ln"), TP_ANY, UNITS), "fc", .units = o->n_chars);
}

/* 2. To train it: pieces of text, and the same pieces shifted by one character. */
static const tp_spec inputs[] = {TP_SPEC("input", TP_I32, TP_ANY, SEQUENCE), TP_SPEC("next", TP_I32, TP_ANY, SEQUENCE)};

static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    tp_node *logits = network(g, in[0], (const options *)user);
    tp_node *cost = tp_named(tp_mean(tp_sparse_softmax_cross_entropy(logits, tp_flatten(in[1]))), "cost");
    tp_named(tp_softmax(tp_affine(logits, 1 / ((const options *)user)->temperature, 0)), "prob");
    tp_add_moving_summary(cost);
    return cost;
}

static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    const int64_t steps = ((const options *)user)->steps;
    tp_node *lr = tp_warm_up(tp_cosine_decay(g, 1e-3f, NULL, steps, 0.1f), NULL, steps / 20 + 1, 0);
    tp_add_tensor_summary(tp_named(lr, "learning_rate"), TP_SUMMARY_SCALAR, "lr", NULL);
    return tp_apply_grad_processors(tp_adamw(lr, .beta2 = 0.99f, .weight_decay = 0.1f),
                                    TP_GRADPROCS(tp_gradproc_global_norm_clip(1)));
}

/* 3. To write with it: the last SEQUENCE characters go in, and the prediction after the last of them is used. What stands after that
 * one does not matter, because no position looks at later ones. */
static int draw(const tp_tensor *prob, int64_t row,
                float u) /* an index, with the probabilities of this row; u in [0,1) */
{
    const int64_t n = prob->shape.dim[1];
    int id = 0;
    for (; id + 1 < n; id++)
        if ((u -= (float)tp_tensor_get(prob, row * n + id)) < 0) break;
    return id;
}

static tp_status write_text(const tp_vocabulary *v, options *o, int length)
{
    static const char *const input[] = {"input"}, *const output[] = {"prob"};
    tp_predict_config c = {.inputs = inputs,
                           .n_inputs = 2,
                           .build_graph = build_graph,
                           .user = o,
                           .input_names = input,
                           .n_input_names = 1,
                           .output_names = output,
                           .n_output_names = 1,
                           .checkpoint = "train_log/char_gpt/checkpoint",
                           .log_layers = TP_NO};
    tp_predictor *p = tp_offline_predictor(&c);
    tp_status st = p ? TP_OK : TP_ERR;
    int32_t ids[SEQUENCE] = {0};
    int n = 1; /* ids so far; the first one is the end of a line */
    if (tp_vocabulary_find(v, "\n", 1) >= 0) ids[0] = tp_vocabulary_find(v, "\n", 1);
    tp_tensor in;
    memset(&in, 0, sizeof in);
    tp_tensor_view(&in, TP_I32, tp_make_shape(1, SEQUENCE), ids);
    for (int i = 0; i < length && st == TP_OK; i++) {
        const tp_tensor *prob;
        if ((st = tp_predict(p, &in, &prob)) != TP_OK) break;
        const int id = draw(prob, n - 1, tp_random_uniform(1, 0, (uint64_t)i));
        if (n == SEQUENCE) memmove(ids, ids + 1, (size_t)--n * sizeof *ids);
        ids[n++] = id;
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
    int epochs = 10, steps = 200, sample = 0, resume = 0;
    options o = {.layers = 4, .temperature = 1};
    tp_session_config session = tp_default_session_config();
    const option list[] = {option_text("--data file", &data),
                           option_int("--epochs n", &epochs, 1),
                           option_int("--steps n", &steps, 0),
                           option_int("--layers n", &o.layers, 1),
                           option_int("--sample n", &sample, 0),
                           option_float("--temperature t", &o.temperature, 1e-3),
                           option_int("--threads n", &session.threads, 0),
                           option_flag("--resume", &resume)};
    read_options(argc, argv, list, TP_COUNT(list));
    if (sample && !tp_file_exists("train_log/char_gpt/checkpoint"))
        return fprintf(stderr, "there is no trained model in train_log/char_gpt: run %s without --sample first\n",
                       argv[0]),
               2;
    tp_vocabulary v;
    memset(&v, 0, sizeof v);
    /* a text that cannot be read is noticed before the files of an earlier run are deleted */
    tp_status st = data ? tp_vocabulary_chars(&v, data) : TP_OK;
    if (st == TP_OK) st = tp_logger_set_dir("train_log/char_gpt", sample || resume ? 'k' : 'd');
    if (st == TP_OK && !data) {
        if (generate("train_log/char_gpt/text.txt")) data = "train_log/char_gpt/text.txt";
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
        o.steps = (int64_t)epochs * steps;
        st = tp_launch_train_with_config(
            TP_OPTIONS(
                tp_train_config,
                .model =
                    {.inputs = inputs, .n_inputs = 2, .build_graph = build_graph, .optimizer = optimizer, .user = &o},
                .dataflow = train,
                TP_CALLBACKS(tp_cb_model_saver(.max_to_keep = 1),
                             tp_cb_inference_runner(test, .inferencers = {tp_inf_scalar_stats(TP_NAMES("cost"))}),
                             tp_cb_get_latest("validation_cost", &o.score), tp_cb_estimated_time_left()),
                .session_config = &session, .steps_per_epoch = steps, .max_epoch = epochs, .auto_resume = resume),
            tp_simple_trainer());
    }
    if (st == TP_OK) st = write_text(&v, &o, sample ? sample : 300);
    if (st != TP_OK)
        fprintf(stderr, "%s%s\n", tp_last_error(), sample ? "\n--layers and --data must be those of the training" : "");
    else if (!sample) printf("%.3f nats a character, %.3f by the frequencies of characters alone\n", o.score, entropy);
    tp_vocabulary_free(&v);
    return st == TP_OK && o.score < entropy ? 0 : 1;
}
