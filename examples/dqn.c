/* dqn.c - tensorpack's DeepQNetwork on a built-in game: a network learns to play from nothing but its score
 *
 *   gcc -std=c11 -O2 -I.. dqn.c -lm -lpthread -o dqn && ./dqn
 *
 * The game: a ball falls through a field of 10x8, sideways by up to one column in each row, and bounces off the walls. A bat of
 * two columns moves left, right, or stays. When the ball arrives, the score is 1 if the bat is under it, else -1. The network
 * sees the field and predicts, for each action, the score to come (Q); the player takes the best action, and sometimes a random one.
 * New here, compared with mnist_convnet.c: data that the trained model makes itself (a predictor of the trainer inside a data flow),
 * a second set of variables that follows the first, a number of the program that a schedule changes, a training that ends when
 * its goal is reached. Original: tensorpack's examples/DeepQNetwork, which plays Atari.
 * The goal, a mean score of 0.98, was reached after 5500 steps, in 2 seconds.
 *   --epochs n (30, at most)   --steps n (of an epoch: 500)   --seed n   --threads n */
#define TP_IMPLEMENTATION
#define TP_STATIC
#define TP_NO_SEQUENCE_LAYERS
#include "tp_train.h"
#include "tp_layers.h"
#include "options.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS           10
#define COLUMNS        8
#define FIELD          (ROWS * COLUMNS)
#define BAT            2
#define ACTIONS        3
#define BATCH          32
#define PLAYS_PER_STEP 4
#define AT_FIRST       1000  /* moves that are played at random before the first step */
#define MEMORY         20000 /* moves */
#define GAMMA          0.95f /* a score of n moves later counts GAMMA^n */

/* -- the game */

typedef struct game {
    int row, column, drift, bat;
    uint64_t key, drawn; /* of its random numbers, and how many there were */
} game;
static float draw(game *m) { return tp_random_uniform(m->key, 0, m->drawn++); }
static void begin(game *m)
{
    m->row = 0;
    m->column = (int)(draw(m) * COLUMNS);
    m->drift = (int)(draw(m) * 3) - 1;
    m->bat = (int)(draw(m) * (COLUMNS - BAT + 1));
}
static void look(const game *m, float *field) /* the ball, a trace of where it came from, the bat */
{
    memset(field, 0, FIELD * sizeof *field);
    for (int i = 0; i < BAT; i++) field[(ROWS - 1) * COLUMNS + m->bat + i] = 1;
    if (m->row > 0 && m->column - m->drift >= 0 && m->column - m->drift < COLUMNS)
        field[(m->row - 1) * COLUMNS + m->column - m->drift] = 0.5f;
    field[m->row * COLUMNS + m->column] = 1;
}
/* Moves the bat and the ball. True: the ball has arrived, and *score is 1 or -1. */
static bool move(game *m, int action, float *score)
{
    const int bat = m->bat + action - 1;
    if (bat >= 0 && bat <= COLUMNS - BAT) m->bat = bat;
    if (m->column + m->drift < 0 || m->column + m->drift >= COLUMNS) m->drift = -m->drift;
    m->column += m->drift;
    m->row++;
    *score = 0;
    if (m->row < ROWS - 1) return false;
    *score = m->column >= m->bat && m->column < m->bat + BAT ? 1.0f : -1.0f;
    return true;
}

/* -- the player: it remembers moves and what followed, and trains on a random choice of them */

typedef struct memory {
    float before[FIELD], after[FIELD], score, over;
    int32_t action;
} memory;
typedef struct player {
    game now;
    memory *memories;
    int64_t n_memories; /* so far; the newest MEMORY of them are kept */
    double epsilon;     /* how many of its actions are random */
    double mean_score;  /* of its last examination */
    tp_predictor *q;    /* field (1,ROWS,COLUMNS) -> Q (1,ACTIONS), with the variables as they are now */
} player;

static tp_status choose(player *p, const float *field, int *action)
{
    tp_tensor in;
    const tp_tensor *q;
    memset(&in, 0, sizeof in);
    tp_tensor_view(&in, TP_F32, tp_make_shape(1, ROWS, COLUMNS), field);
    const tp_status st = tp_predict(p->q, &in, &q);
    if (st != TP_OK) return st;
    *action = 0;
    for (int a = 1; a < ACTIONS; a++)
        if (tp_tensor_get(q, a) > tp_tensor_get(q, *action)) *action = a;
    return TP_OK;
}

static tp_status play(player *p, double epsilon)
{
    memory *m = &p->memories[p->n_memories++ % MEMORY];
    int action = (int)(draw(&p->now) * ACTIONS);
    look(&p->now, m->before);
    if (draw(&p->now) >= epsilon) {
        const tp_status st = choose(p, m->before, &action);
        if (st != TP_OK) return st;
    }
    const bool over = move(&p->now, action, &m->score);
    m->action = action;
    m->over = over ? 1.0f : 0.0f;
    look(&p->now, m->after);
    if (over) begin(&p->now);
    return TP_OK;
}

/* The data flow: one batch. It plays a few moves with the model as it is now, then draws from its memory. */
static tp_status batch(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    player *p = (player *)user;
    (void)pass, (void)index;
    tp_status st = TP_OK;
    while (p->n_memories < AT_FIRST && st == TP_OK) st = play(p, 1);
    for (int i = 0; i < PLAYS_PER_STEP && st == TP_OK; i++) st = play(p, p->epsilon);
    if (st == TP_OK) st = tp_datapoint_resize(dp, 5);
    for (int i = 0; i < 5 && st == TP_OK; i++)
        st = tp_tensor_resize(&dp->c[i], i == 1 ? TP_I32 : TP_F32,
                              i == 0 || i == 3 ? tp_make_shape(BATCH, ROWS, COLUMNS) : tp_make_shape(BATCH));
    const int64_t n = p->n_memories < MEMORY ? p->n_memories : MEMORY;
    for (int b = 0; b < BATCH && st == TP_OK; b++) {
        const memory *m = &p->memories[(int64_t)(draw(&p->now) * (float)n) % n];
        memcpy((float *)dp->c[0].data + b * FIELD, m->before, sizeof m->before);
        memcpy((float *)dp->c[3].data + b * FIELD, m->after, sizeof m->after);
        ((int32_t *)dp->c[1].data)[b] = m->action;
        ((float *)dp->c[2].data)[b] = m->score;
        ((float *)dp->c[4].data)[b] = m->over;
    }
    return st;
}

/* -- the model */

static const tp_spec inputs[] = {TP_SPEC("field", TP_F32, TP_ANY, ROWS, COLUMNS), TP_SPEC("action", TP_I32, TP_ANY),
                                 TP_SPEC("score", TP_F32, TP_ANY), TP_SPEC("after", TP_F32, TP_ANY, ROWS, COLUMNS),
                                 TP_SPEC("over", TP_F32, TP_ANY)};

static tp_node *network(tp_node *field) /* (B,ROWS,COLUMNS) -> Q (B,ACTIONS) */
{
    return tp_linear(field, TP_FULLY_CONNECTED("fc0", .units = 128, .activation = tp_relu),
                     TP_FULLY_CONNECTED("fc1", .units = 64, .activation = tp_relu),
                     TP_FULLY_CONNECTED("q", .units = ACTIONS));
}

static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    tp_node *field = in[0], *action = in[1], *score = in[2], *after = in[3], *over = in[4], *next = NULL;
    (void)user;
    tp_node *q = tp_named(network(field), "Q");
    /* The goal is computed with older variables, target/..., which the optimizer does not train. */
    TP_FREEZE_VARIABLES(g, .stop_gradient = true, .skip_collection = true)
    TP_VARIABLE_SCOPE(g, "target") { next = tp_stop_gradient(tp_max_over(network(after), 1)); }
    tp_node *to_come = tp_mul(tp_affine(over, -GAMMA, GAMMA), next); /* nothing, when the game is over */
    tp_node *of_action = tp_sum_over(tp_mul(q, tp_one_hot(action, ACTIONS, 1, 0)), 1);
    tp_node *cost = tp_mean(tp_sym_huber_loss(tp_sub(of_action, tp_add(score, to_come)), 1, NULL));
    tp_add_moving_summary(tp_named(tp_mean(tp_max_over(q, 1)), "predicted_score"));
    return tp_named(cost, "cost");
}

static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_adam(tp_get_scalar_variable(g, "learning_rate", 1e-3f));
}

/* A node that copies the trained variables to target/... */
static tp_node *copy_to_target(tp_graph *g, void *user)
{
    tp_node *copies[16];
    int n = 0;
    (void)user;
    for (int i = 0; i < tp_graph_n_variables(g) && n < 16; i++) {
        const tp_variable *v = tp_graph_variable(g, i);
        if (strncmp(v->name, "target/", 7) != 0) continue;
        const tp_variable *of = tp_find_variable(g, v->name + 7);
        copies[n++] = tp_assign(v->node, of ? of->node : NULL, NULL);
    }
    return tp_group(g, copies, n, "copy_to_target");
}

/* -- a callback: the predictor for the player, and an examination after each epoch */

static tp_status make_predictor(tp_callback *cb)
{
    static const char *const in[] = {"field"}, *const out[] = {"Q"};
    player *p = (player *)tp_lambda_user(cb);
    p->q = tp_trainer_get_predictor(cb->train->trainer, in, 1, out, 1, 0);
    return p->q ? TP_OK : TP_ERR;
}

static tp_status examine(tp_callback *cb)
{
    player *p = (player *)tp_lambda_user(cb);
    game m;
    memset(&m, 0, sizeof m);
    m.key = 12345; /* the same 200 games each time */
    double sum = 0;
    tp_status st = TP_OK;
    for (int i = 0; i < 200 && st == TP_OK; i++) {
        float field[FIELD], score = 0;
        int action = 0;
        begin(&m);
        do {
            look(&m, field);
            st = choose(p, field, &action);
        } while (st == TP_OK && !move(&m, action, &score));
        sum += (double)score;
    }
    p->mean_score = sum / 200;
    if (st == TP_OK) st = tp_monitors_put_scalar(cb->train->monitors, "mean_score", p->mean_score);
    if (st == TP_OK && p->mean_score >= 0.98)
        st = tp_stop(cb->train, "the mean score of 200 games is %.2f", p->mean_score);
    return st;
}

int main(int argc, char **argv)
{
    int epochs = 30, steps = 500;
    static player p;
    p.epsilon = 1;
    p.now.key = 1;
    tp_session_config session = tp_default_session_config();
    const option list[] = {option_int("--epochs n", &epochs, 1), option_int("--steps n", &steps, 0),
                           option_seed("--seed n", &p.now.key), option_int("--threads n", &session.threads, 0)};
    read_options(argc, argv, list, TP_COUNT(list));
    p.memories = (memory *)calloc(MEMORY, sizeof *p.memories);
    if (!p.memories || tp_logger_set_dir("train_log/dqn", 'd') != TP_OK) return 1;
    begin(&p.now);
    const tp_schedule_point all = {0, 1}, few = {4, 0.1};
    const tp_status st = tp_launch_train_with_config(
        TP_OPTIONS(
            tp_train_config,
            .model = {.inputs = inputs, .n_inputs = 5, .build_graph = build_graph, .optimizer = optimizer},
            .dataflow = tp_df_from_generator(batch, .user = &p, .size = steps),
            TP_CALLBACKS(tp_cb_lambda(.setup_graph = make_predictor, .trigger = examine, .user = &p),
                         tp_cb_periodic_trigger(tp_cb_run_op(NULL, .fn = copy_to_target), .every_k_steps = 200),
                         tp_cb_scheduled_hyper_param_setter(NULL, .schedule = {all, few}, .interp = TP_INTERP_LINEAR,
                                                            .param = tp_param_field("epsilon", &p.epsilon, TP_F64)),
                         tp_cb_model_saver(.max_to_keep = 1)),
            .session_config = &session, .max_epoch = epochs, .seed = p.now.key),
        tp_simple_trainer());
    printf("mean score of 200 games: %.2f (1: every ball is caught, -1: none)\n", p.mean_score);
    free(p.memories);
    return st == TP_OK && p.mean_score > 0 ? 0 : 1;
}
