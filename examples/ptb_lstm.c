/* ptb_lstm.c - tensorpack's PTB-LSTM: a word model whose state goes on from batch to batch
 *
 *   gcc -std=c11 -O2 -I.. ptb_lstm.c -lm -lpthread -o ptb_lstm && ./ptb_lstm --data ptb.train.txt
 *
 * The network reads a text word by word and predicts the next word. Its score is the perplexity, e^(nats a word), on the last tenth
 * of the text: a perplexity of 20 means that it is as unsure as if it had to choose between 20 equally likely words. Row b of
 * a batch continues where row b of the batch before ended, so the LSTM's state is kept in variables between the steps and set to
 * zero when an epoch, or the validation, begins.
 * New here, compared with char_rnn.c: a state in variables, a callback that runs an op at each epoch's beginning, a learning rate
 * that a function of the epoch sets, SGD. Original: tensorpack's examples/PennTreebank.
 * --data is any text; words are separated by blanks, and those that occur less than 3 times are "<unk>". Without it, it is a text of
 * simple sentences whose perplexity can at best be 3.5.
 * Six epochs of it, in 56 seconds: 3.6; the frequencies of the words alone give 24.2.
 *   --epochs n (6)   --steps n (of an epoch)   --units n (200)   --threads n
 *   --resume (go on from train_log/ptb_lstm, with the other options as they were) */
#define TP_IMPLEMENTATION
#define TP_STATIC
#include "tp_train.h"
#include "tp_layers.h"
#include "options.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define BATCH    20
#define SEQUENCE 35 /* words; gradients flow back that far, the state goes on */

typedef struct options {
    int n_words, units, epochs;
    double perplexity;
} options;

static const tp_spec inputs[] = {TP_SPEC("input", TP_I32, BATCH, SEQUENCE), TP_SPEC("next", TP_I32, BATCH, SEQUENCE)};

/* A state that is kept from run to run: (BATCH,units), not trained. As it is local, tp_save_checkpoint leaves it out; the trainer's
 * checkpoints have it, so that a resumed epoch goes on from it. Training and validation have one each. */
static tp_node *kept(tp_graph *g, const char *name, int units)
{
    tp_variable_desc d;
    memset(&d, 0, sizeof d);
    d.name = name, d.shape = tp_make_shape(BATCH, units), d.init = tp_init_zeros();
    d.trainable = TP_NO, d.local = true;
    return tp_get_variable(g, &d);
}

static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    const options *o = (const options *)user;
    const bool training = tp_current_tower_context(g)->is_training;
    tp_node *x = tp_embedding(in[0], "embedding", .vocab = o->n_words, .units = o->units), *keep[4];
    x = tp_dropout(x, "dropout", .rate = 0.2f);
    for (int i = 0; i < 2; i++) {
        char name[16];
        tp_node *h = NULL, *c = NULL;
        snprintf(name, sizeof name, "lstm%d", i);
        /* The inference tower reuses variables and makes none: the training tower, which is first, makes those of both. */
        TP_VARIABLE_SCOPE(g, name)
        {
            if (training) h = kept(g, "state/h", o->units), c = kept(g, "state/c", o->units);
            tp_node *other_h = kept(g, "validation_state/h", o->units),
                    *other_c = kept(g, "validation_state/c", o->units);
            if (!training) h = other_h, c = other_c;
        }
        tp_rnn_state state = {h, c};
        x = tp_lstm(x, name, .units = o->units, .state = &state);
        x = tp_dropout(x, NULL, .rate = 0.2f);
        keep[2 * i] = tp_assign(h, state.h, NULL), keep[2 * i + 1] = tp_assign(c, state.c, NULL);
    }
    tp_node *logits = tp_fully_connected(tp_reshape(x, TP_ANY, o->units), "fc", .units = o->n_words);
    tp_node *cost = tp_mean(tp_sparse_softmax_cross_entropy(logits, tp_flatten(in[1])));
    cost = tp_named(tp_with_dependencies(cost, keep, 4), "cost"); /* whoever computes the cost also keeps the state */
    tp_add_moving_summary(tp_named(tp_exp(cost), "perplexity"));
    return cost;
}

static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    tp_optimizer *sgd = tp_sgd(tp_get_scalar_variable(g, "learning_rate", 1));
    return tp_apply_grad_processors(sgd, TP_GRADPROCS(tp_gradproc_global_norm_clip(5)));
}

/* 1 in the first two thirds of the epochs, then half of it, a quarter, ... */
static double learning_rate(int64_t epoch, double old, void *user)
{
    const int64_t late = epoch + 1 - ((const options *)user)->epochs * 2 / 3;
    (void)old;
    return late > 0 ? pow(0.5, (double)late) : 1;
}

/* A callback: when an epoch begins all states are zero again. Nodes are made in setup_graph; then the graph is closed. */
static tp_status make_zeros(tp_callback *cb)
{
    tp_graph *g = cb->train->graph;
    tp_node *zeros[8];
    int n = 0;
    for (int i = 0; i < tp_graph_n_variables(g) && n < 8; i++) {
        const tp_variable *v = tp_graph_variable(g, i);
        if (strstr(v->name, "state/")) zeros[n++] = tp_assign(v->node, tp_zeros_like(v->node), NULL);
    }
    *(tp_node **)cb->user = tp_group(g, zeros, n, "zero_states");
    return tp_graph_status(g);
}
static tp_status run_zeros(tp_callback *cb)
{
    const tp_train_state *t = cb->train;
    const bool begins = t->local_step < 0 || t->local_step == t->steps_per_epoch - 1;
    if (!begins) return TP_OK; /* the epoch is resumed: its states are in the checkpoint */
    return tp_session_run(cb->train->session, NULL, 0, (tp_node *const *)cb->user, 1, NULL);
}
static tp_callback *reset_states(void)
{
    tp_callback *cb = tp_callback_new("ResetStates", sizeof(tp_node *));
    if (cb) cb->setup_graph = make_zeros, cb->before_epoch = run_zeros;
    return cb;
}

/* The validation cost as perplexity. */
static tp_status put_perplexity(tp_callback *cb)
{
    tp_stat stat;
    tp_status st = tp_monitors_get_latest(cb->train->monitors, "validation_cost", &stat);
    if (st == TP_OK) st = tp_monitors_put_scalar(cb->train->monitors, "validation_perplexity", exp(stat.value));
    return st;
}

/* Sentences like "the old dog sees a river": 3, 3, 6, 6, 3 and 6 words to choose from, one after the other. */
static bool generate(const char *path)
{
    static const char *const words[6][6] = {{"the", "a", "my"},
                                            {"old", "small", "red"},
                                            {"dog", "bird", "child", "house", "river", "friend"},
                                            {"sees", "likes", "follows", "finds", "hears", "forgets"},
                                            {"this", "that", "her"},
                                            {"music", "sun", "road", "tree", "rain", "song"}};
    FILE *f = fopen(path, "wb");
    if (!f) return false;
    for (uint64_t i = 0; i < 8000; i++)
        for (uint64_t k = 0; k < 6; k++)
            fprintf(f, "%s%s", words[k][(int)(tp_random_uniform(7, i, k) * (k < 2 || k == 4 ? 3 : 6))],
                    k < 5 ? " " : "\n");
    return fclose(f) == 0;
}

int main(int argc, char **argv)
{
    const char *data = NULL;
    int steps = 0, resume = 0;
    options o = {.units = 200, .epochs = 6};
    tp_session_config session = tp_default_session_config();
    const option list[] = {option_text("--data file", &data),
                           option_int("--epochs n", &o.epochs, 1),
                           option_int("--steps n", &steps, 0),
                           option_int("--units n", &o.units, 1),
                           option_int("--threads n", &session.threads, 0),
                           option_flag("--resume", &resume)};
    read_options(argc, argv, list, TP_COUNT(list));
    tp_vocabulary v;
    memset(&v, 0, sizeof v);
    /* a text that cannot be read is noticed before the files of an earlier run are deleted */
    tp_status st = data ? tp_vocabulary_words(&v, data, 3, 10000) : TP_OK;
    if (st == TP_OK) st = tp_logger_set_dir("train_log/ptb_lstm", resume ? 'k' : 'd');
    if (st == TP_OK && !data) {
        if (generate("train_log/ptb_lstm/text.txt")) data = "train_log/ptb_lstm/text.txt";
        st = tp_vocabulary_words(&v, data, 3, 10000);
    }
    if (st != TP_OK) return fprintf(stderr, "%s\n", tp_last_error()), 1;
    o.n_words = v.n;
    double total = 0, entropy = 0; /* of the words' frequencies: training must be better than that */
    for (int i = 0; i < v.n; i++) total += (double)v.count[i];
    for (int i = 0; i < v.n; i++)
        if (v.count[i] > 0) entropy -= (double)v.count[i] / total * log((double)v.count[i] / total);

    tp_dataflow *train =
        tp_df_text_words(data, .vocabulary = &v, .batch_size = BATCH, .sequence_length = SEQUENCE, .end = 0.9);
    tp_dataflow *test =
        tp_df_text_words(data, .vocabulary = &v, .batch_size = BATCH, .sequence_length = SEQUENCE, .begin = 0.9);
    tp_vocabulary_free(&v);
    st = tp_launch_train_with_config(
        TP_OPTIONS(
            tp_train_config,
            .model = {.inputs = inputs, .n_inputs = 2, .build_graph = build_graph, .optimizer = optimizer, .user = &o},
            .dataflow = train,
            TP_CALLBACKS(tp_cb_model_saver(.max_to_keep = 1),
                         tp_cb_inference_runner(test, .inferencers = {tp_inf_scalar_stats(TP_NAMES("cost"))}),
                         reset_states(), tp_cb_lambda(.trigger = put_perplexity),
                         tp_cb_get_latest("validation_perplexity", &o.perplexity),
                         tp_cb_hyper_param_setter_with_func("learning_rate", .fn = learning_rate, .user = &o)),
            .session_config = &session, .steps_per_epoch = steps ? steps : (int)tp_df_size(train),
            .max_epoch = o.epochs, .auto_resume = resume),
        tp_simple_trainer());
    if (st == TP_OK) printf("perplexity %.1f, %.1f by the frequencies of words alone\n", o.perplexity, exp(entropy));
    return st == TP_OK && o.perplexity < exp(entropy) ? 0 : 1;
}
