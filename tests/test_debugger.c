/* The debugger: driven by a script, by what stdin gives, by a terminal (a pseudo-terminal that the test writes to and reads), and by
 * the file of InjectShell. Each training is a process of its own, whose stdout the test reads. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include "tp_layers.h"
#include "tp_test.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* ==== >>net =========================================================================================== */

/* A net that breaks in step 4: x holds a 0 there, whose logarithm is -inf, and -inf times 0 is NaN. */
enum { BATCH = 2, STEPS = 3, EPOCHS = 2, BAD_POINT = 7 };
static const tp_spec inputs[] = {TP_SPEC("x", TP_F32, TP_ANY, 2)};
static int line_of_ln;

static tp_node *build_graph(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(2, 2), tp_init_constant(0.5f));
    tp_node *h = tp_named(tp_matmul(in[0], w), "hidden");
    tp_node *kept = tp_named(tp_dropout(h, .rate = 0.5f), "kept");
    line_of_ln = __LINE__ + 1;
    tp_node *l = tp_ln(in[0]);
    tp_node *nothing = tp_mul(l, tp_sub(in[0], in[0]));
    return tp_named(tp_add(tp_mean(tp_square(kept)), tp_mean(nothing)), "cost");
}

/* The same with a value that has no elements, and with one that several operations read. */
static tp_node *build_with_empty(tp_graph *g, tp_node *const *in, void *user)
{
    static const int64_t begin[2] = {0, 0}, size[2] = {0, 2};
    tp_node *empty = tp_named(tp_slice(in[0], begin, size), "empty");
    tp_node *cost = tp_add(build_graph(g, in, user), tp_sum(empty));
    tp_node *shared = tp_named(tp_neg(in[0]), "shared");
    tp_node *read_twice = tp_named(tp_sum(tp_mul(shared, shared)), "read_twice");
    tp_tensor row;
    memset(&row, 0, sizeof row);
    tp_tensor_view(&row, TP_F32, tp_make_shape(2), (const float[]){1, 2});
    tp_named(tp_gather(tp_constant(g, &row), tp_const_as(g, TP_I32, 9)), "outside"); /* nothing reads it */
    tp_node *wide = tp_get_variable_as(g, "wide", TP_F32, tp_make_shape(2, 40), tp_init_constant(0.5f));
    tp_node *level = tp_named(tp_mean(wide), "level");
    return tp_add(cost, tp_add(level, tp_mul(read_twice, tp_mean(shared))));
}

/* The same beside many operations that no step needs. */
static tp_node *build_large(tp_graph *g, tp_node *const *in, void *user)
{
    tp_node *x = in[0];
    for (int i = 0; i < 3000; i++) x = tp_neg(x);
    return build_graph(g, in, user);
}

static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_sgd(tp_get_scalar_variable(g, "learning_rate", 0.125f));
}

static double x_of(int64_t i, int k) { return i == BAD_POINT && k == 0 ? 0 : 1 + (double)i + 0.5 * k; }
static tp_status point(void *user, int64_t pass, int64_t i, tp_datapoint *dp)
{
    (void)user, (void)pass;
    tp_status st = tp_datapoint_resize(dp, 1);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_F32, tp_make_shape(2));
    if (st != TP_OK) return st;
    for (int k = 0; k < 2; k++) ((float *)dp->c[0].data)[k] = (float)x_of(i, k);
    return TP_OK;
}

/* ==== >>runs ========================================================================================== */

typedef struct run {
    const char *commands; /* of the debugger's options */
    const char *filter;
    const char *input;  /* what stdin gives; NULL: nothing */
    const char *inject; /* the file of InjectShell; NULL: the debugger */
    bool without;       /* no debugger at all */
    int64_t points;     /* before the bad one comes, 6 are good */
    bool own_filter;
    bool empty; /* the net with a value that has no elements and one that is read twice */
    bool large;
    tp_status (*before)(tp_callback *cb);
} run;

static char folder[300];
static char answer[1 << 18];

static bool first_above_1(const tp_node *node, const tp_tensor *value, void *user)
{
    CHECK(user == folder);
    return strcmp(tp_node_name(node), "hidden") == 0 && tp_tensor_get(value, 0) > 1;
}

/* The debugger's word for a value must be the run's: of each step what dropout kept, and what w is at the end. */
static tp_status print_kept(tp_callback *cb, const tp_tensor *const *v, int n, void *user)
{
    (void)cb, (void)user;
    printf("KEPT");
    for (int i = 0; i < 4 && n == 1; i++) printf(" %.6g", tp_tensor_get(v[0], i));
    printf("\n");
    return TP_OK;
}
static tp_status print_w(tp_callback *cb)
{
    tp_tensor t;
    memset(&t, 0, sizeof t);
    const tp_variable *w = cb->train->session ? tp_find_variable(cb->train->graph, "w") : NULL;
    if (w && tp_session_read(cb->train->session, w, &t) == TP_OK)
        printf("W %a %a %a %a\n", tp_tensor_get(&t, 0), tp_tensor_get(&t, 1), tp_tensor_get(&t, 2),
               tp_tensor_get(&t, 3));
    tp_tensor_free(&t);
    return TP_OK;
}

static tp_status train(const run *r)
{
    tp_callback *list[4];
    tp_train_config c;
    int n = 0;
    memset(&c, 0, sizeof c);
    tp_callback *d = r->without  ? tp_callback_new("None", 0)
                     : r->inject ? tp_cb_inject_shell(.file = r->inject)
                                 : tp_cb_debug_cli(.commands = r->commands, .run_filter = r->filter);
    if (r->own_filter) {
        if (tp_debug_cli_add_tensor_filter(d, "above_1", first_above_1, folder) != TP_OK ||
            tp_debug_cli_add_tensor_filter(d, "above_1", first_above_1, folder) != TP_ERR_NAME)
            return TP_ERR;
    }
    list[n++] = d;
    list[n++] = tp_cb_process_tensors(.names = {"kept"}, .fn = print_kept);
    list[n++] = tp_cb_lambda(.trigger = r->before, .after_train = print_w);
    list[n++] = tp_cb_model_saver(.checkpoint_dir = folder);
    c.model.inputs = inputs, c.model.n_inputs = 1;
    c.model.build_graph = r->empty   ? build_with_empty
                          : r->large ? build_large
                                     : build_graph,
    c.model.optimizer = optimizer;
    c.dataflow = tp_df_batch(tp_df_from_generator(point, .size = r->points, .indexed = TP_YES), BATCH);
    c.callbacks = list, c.n_callbacks = n;
    c.n_extra_callbacks = c.n_monitors = TP_NONE;
    c.steps_per_epoch = STEPS, c.max_epoch = EPOCHS;
    return tp_launch_train_with_config(&c, tp_simple_trainer());
}

static void say_log(void *user, tp_log_level level, const char *message)
{
    (void)user, (void)level;
    printf("LOG %s\n", message);
}

static int body(const run *r)
{
    tp_set_log(say_log, NULL);
    tp_test_fail_after(1 << 30); /* none fails; they are counted */
    const tp_status st = train(r);
    printf("STATUS %s %s\n", tp_status_name(st), st == TP_OK ? "" : tp_last_error());
    tp_logger_set_dir(NULL, 0);
    if (tp_test_live_blocks()) printf("LEAK of %ld\n", tp_test_live_blocks());
    fflush(stdout);
    return 0;
}

/* Its answers, in `answer`. */
static const char *answers(const run *r)
{
    char in[400], out[400];
    int status = 0;
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    snprintf(in, sizeof in, "%s/in", folder);
    snprintf(out, sizeof out, "%s/out", folder);
    tp_test_write(in, r->input ? r->input : "", r->input ? strlen(r->input) : 0);
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        const int a = open(in, O_RDONLY), b = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        if (a < 0 || b < 0 || dup2(a, 0) < 0 || dup2(b, 1) < 0) _exit(9);
        TP_TEST_END_CHILD(body(r));
    }
    answer[0] = 0;
    if (!CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0)) return answer;
    FILE *f = fopen(out, "r");
    const size_t n = f ? fread(answer, 1, sizeof answer - 1, f) : 0;
    answer[n] = 0;
    if (f) fclose(f);
    CHECK_MSG(!strstr(answer, "LEAK"), "%s", strstr(answer, "LEAK"));
    return answer;
}

/* Do these stand there in this order? */
static bool in_order(const char *text, const char *const *part, int n)
{
    for (int i = 0; i < n; i++) {
        const char *found = strstr(text, part[i]);
        if (!CHECK_MSG(found != NULL, "%d: '%s' is not in:\n%.3000s", i, part[i], text)) return false;
        text = found + strlen(part[i]);
    }
    return true;
}
#define IN_ORDER(text_, ...) \
    in_order((text_), (const char *const[]){__VA_ARGS__}, TP_COUNT(((const char *const[]){__VA_ARGS__})))

/* ==== >>tests ========================================================================================= */

TEST(a_filter_finds_the_first_bad_value)
{
    TEST_MAY_ERROR("Training failed at global_step=");
    run r = {0};
    char place[100];
    build_graph(NULL, &(tp_node *){NULL}, NULL); /* for the line */
    snprintf(place, sizeof place, "(ln), made at test_debugger.c:%d", line_of_ln);
    r.points = 12;
    r.filter = "has_inf_or_nan";
    r.commands = "print x; list -f has_nan; node cost; run -n";
    answers(&r);
    if (!IN_ORDER(answer, "has_inf_or_nan: ", " operations; the first is 'Log'", place, "Log ", "float32 (2,2)  min ",
                  "inf 1 of 4", "x ", "min 0 mean", "before step 1 of epoch 2 (global_step 3): ", "tp> print x\n",
                  "x  float32 (2,2)  min 0 mean"))
        return;
    /* the fourth batch: points 6 and 7 */
    IN_ORDER(answer, "tp> print x\n", "[0]  7 7.5\n[1]  0 8.5\n", "tp> ", "list -f has_nan\n", "Mul", "nan 1 of 4",
             "cost", "nan 1 of 1", " operations\n", "node cost\n", "cost: operation ", "  makes\n", "  reads\n",
             "  is read by ", "run -n\n",
             "STATUS TP_ERR_NUMERIC StopOnNaN: the cost 'cost' is NaN after step 1 of epoch 2");
    CHECK(!strstr(answer, "hidden  ")); /* what is fine is not listed */
    r.filter = "no_such";
    answers(&r);
    CHECK_HAS(answer,
              "STATUS TP_ERR_NAME TFLocalCLIDebugHook: the debugger has no filter 'no_such', but has_inf_or_nan, "
              "has_nan, has_inf, all_zero; tp_debug_cli_add_tensor_filter adds one");
}

/* Nothing bad, nothing said. */
TEST(a_filter_that_nothing_passes)
{
    run r = {0};
    r.points = 6;
    r.filter = "has_nan";
    answers(&r);
    CHECK_HAS(answer, "STATUS TP_OK");
    CHECK(!strstr(answer, "tp> "));
}

/* hidden = x w, w all 0.5 at first; by steps, to a node, and all at once. */
TEST(values_are_those_of_the_step)
{
    run r = {0};
    r.points = 6;
    r.commands = "step 2; to hidden; print hidden; print hidden[1]; print hidden[:, 0]; print hidden[0:1, 1:2]; "
                 "print hidden[2]; print w; print learning_rate; print kept; run; print kept; run 2; print kept; list "
                 "h.d; run -n";
    answers(&r);
    /* rows: (1 + 1.5) / 2 and (2 + 2.5) / 2 */
    if (!IN_ORDER(answer, "before step 1 of epoch 1 (global_step 0): ", "hidden",
                  "float32 (2,2)  min 1.25 mean 1.75 max 2.25", "print hidden\n", "[0]  1.25 1.25\n[1]  2.25 2.25\n",
                  "print hidden[1]\n", "[1]  2.25 2.25\n", "print hidden[:, 0]\n", "[0]  1.25\n[1]  2.25\n",
                  "print hidden[0:1, 1:2]\n", "[0]  1.25\n", "'[2]' is no slice of this shape", "w  float32 (2,2)",
                  "[0]  0.5 0.5\n", "learning_rate  float32 ()  0.125\n 0.125\n", "1 of "))
        return;
    /* dropout: the run drew the numbers that were shown */
    const char *p = answer;
    int same = 0;
    for (int step = 0; step < 3; step++) {
        double shown[4], kept[4];
        p = strstr(p, "print kept\n");
        const char *rows = p ? strstr(p, "[0] ") : NULL, *second = rows ? strstr(rows, "[1] ") : NULL;
        const char *ran = second ? strstr(second, "KEPT") : NULL;
        if (!CHECK(ran && sscanf(rows + 4, "%lf %lf", &shown[0], &shown[1]) == 2 &&
                   sscanf(second + 4, "%lf %lf", &shown[2], &shown[3]) == 2 &&
                   sscanf(ran + 4, "%lf %lf %lf %lf", &kept[0], &kept[1], &kept[2], &kept[3]) == 4))
            return;
        for (int i = 0; i < 4; i++) same += shown[i] == kept[i];
        p = ran;
    }
    CHECK_MSG(same == 12, "%d of 12", same);
    IN_ORDER(answer, "before step 1 of", "before step 2 of", "before step 1 of epoch 2 (global_step 3)",
             "STATUS TP_OK");
}

/* The same bits with and without it, whatever it looks at. */
TEST(a_training_is_not_changed)
{
    static char plain[1 << 14];
    run r = {0};
    r.points = 6;
    r.without = true;
    snprintf(plain, sizeof plain, "%s", answers(&r));
    r.without = false;
    r.commands = "list;run;step 3;list;run;to cost;print cost;run;list;run;list;run;step 99;run";
    answers(&r);
    static const char *const what[] = {"KEPT", "W "};
    for (int i = 0; i < TP_COUNT(what); i++) {
        const char *a = plain, *b = answer;
        int n = 0;
        for (;; n++) {
            a = strstr(a, what[i]), b = strstr(b, what[i]);
            if (!a || !b) break;
            const size_t line = strcspn(a, "\n");
            if (!CHECK_MSG(strncmp(a, b, line + 1) == 0, "'%.*s' '%.*s'", (int)line, a, (int)line, b)) return;
            a++, b++;
        }
        CHECK(!a && !b && n == (i ? 1 : STEPS * EPOCHS));
    }
    CHECK_HAS(answer, "all that can be looked at before the step runs is computed");
}

TEST(commands_explain_themselves)
{
    run r = {0};
    r.points = 6;
    r.commands =
        "help; frobnicate; run -f none; run 0; step x; to; to nowhere; list -f none; list (; print; print x y; print "
        "hiden; node; "
        "inputs; inputs MatMul; inputs w; outputs hidden; outputs Add; filters; stat; set; set w 1; set cost 1; "
        "set learning_rate 1e; set learning_rate 0.5; print learning_rate; print train_op; node hidden; save; ;stop";
    answers(&r);
    IN_ORDER(answer, "help\n", "run (r) [N | -f FILTER | -n]", "stop (exit)", "there is no command 'frobnicate'",
             "there is no filter 'none'", "run [N | -f FILTER | -n]\n", "step [N]\n", "to NODE\n",
             "Tensor nowhere not found", "there is no filter 'none'", "list (\n", "print NODE[SLICE] [-a]\n",
             "print NODE[SLICE] [-a]\n", "Tensor hiden not found", "node NODE\n", "inputs NODE\n", "x ", "w ",
             "it reads nothing", "outputs hidden\n", "filters\n", "has_inf_or_nan\nhas_nan\nhas_inf\nall_zero\n",
             "nothing of that name was reported", "set VARIABLE VALUE\n", "'w' is no variable of one number",
             "'cost' is no variable of one number", "set VARIABLE VALUE\n", "set learning_rate 0.5\nset\n", " 0.5\n",
             "node hidden\n", "hidden: operation ", "reads\n", "a checkpoint is written when", "STATUS TP_OK");
    CHECK_HAS(answer, "LOG Training was stopped: the debugger was told to.");
}

/* x - x is 0, and so are its product and their mean; some of dropout's values are zeros, not all. */
TEST(values_of_zeros_are_found)
{
    run r = {0};
    r.points = 6;
    r.commands = "list -f all_zero; stop";
    answers(&r);
    IN_ORDER(answer, "list -f all_zero\n", "Sub ", "min 0 mean 0 max 0\n", "Mul ", "min 0 mean 0 max 0\n",
             "reduce_mean    float32 ()  0\n3 of 28 operations\n", "STATUS TP_OK");
}

/* A value without elements has no zeros, and nothing else that a filter finds. */
TEST(a_value_without_elements_passes_no_filter)
{
    run r = {0};
    r.points = 6;
    r.empty = true;
    r.commands = "print empty; list -f all_zero; list -f has_inf_or_nan; stop";
    answers(&r);
    if (!IN_ORDER(answer, "print empty\n", "empty  float32 (0,2)", "list -f all_zero\n", "Sub ", "Mul ",
                  "reduce_mean    float32 ()  0\n", " operations\n", "list -f has_inf_or_nan\n", "0 of ",
                  "STATUS TP_OK"))
        return;
    CHECK(!strstr(strstr(answer, "list -f all_zero\n"), "empty"));
    CHECK_HAS(strstr(answer, "list -f all_zero\n"), "reduce_sum     float32 ()  0\n");
}

/* Two operations read a value that the debugger knows already: the debugger feeds it once. */
TEST(a_known_value_is_read_by_several)
{
    run r = {0};
    r.points = 6;
    r.empty = true;
    r.commands =
        "to shared; print wide[1, 20:40]; print wide[:, 20:31]; to read_twice; step; step 2; list -f all_zero; "
        "stop";
    answers(&r);
    /* the first two points are 1, 1.5 and 2, 2.5 */
    IN_ORDER(answer, "to shared\n", "shared  ", "float32 (2,2)  min -2.5", "print wide[1, 20:40]\n",
             "[1]  0.5 0.5 0.5 0.5 0.5 0.5 0.5 0.5 0.5 0.5 0.5 0.5 ..\ntp>  print wide[:, 20:31]\n",
             "[0]  0.5 0.5 0.5 0.5 0.5 0.5 0.5 0.5 0.5 0.5 0.5\n[1]  0.5", "to read_twice\n", "read_twice",
             "float32 ()  13.5\n", "list -f all_zero\n", " operations\n", "STATUS TP_OK");
    CHECK(!strstr(answer, "is fed twice"));
}

/* A slice has an index or a range for each of the first dimensions, counted from the end where negative, and at least one element. */
TEST(slices_of_a_value)
{
    static const struct {
        const char *slice, *rows; /* NULL: not a slice */
    } list[] = {{"", "[0]  1.25 1.25\n[1]  2.25 2.25\n"},
                {"[]", "[0]  1.25 1.25\n[1]  2.25 2.25\n"},
                {"[:]", "[0]  1.25 1.25\n[1]  2.25 2.25\n"},
                {"[0]", "[0]  1.25 1.25\n"},
                {"[1]", "[1]  2.25 2.25\n"},
                {"[-1]", "[1]  2.25 2.25\n"},
                {"[-2]", "[0]  1.25 1.25\n"},
                {"[1:]", "[1]  2.25 2.25\n"},
                {"[:1]", "[0]  1.25 1.25\n"},
                {"[:-1]", "[0]  1.25 1.25\n"},
                {"[0:9]", "[0]  1.25 1.25\n[1]  2.25 2.25\n"},
                {"[1:2,1]", "[1]  2.25\n"},
                {"[,1:]", "[0]  1.25\n[1]  2.25\n"},
                {"[ -1 , : 1 ]", "[1]  2.25\n"},
                {"[-1:,-1:]", "[1]  2.25\n"},
                {"[2]", NULL},
                {"[-3]", NULL},
                {"[2:]", NULL},
                {"[0:0]", NULL},
                {"[1:1]", NULL},
                {"[1:0]", NULL},
                {"[:-2]", NULL},
                {"[:-3]", NULL},
                {"[0,2]", NULL},
                {"[0,1:1]", NULL},
                {"[0,0,0]", NULL},
                {"[0", NULL},
                {"[0]1", NULL},
                {"[0[1]", NULL},
                {"[x]", NULL},
                {"[0:x]", NULL}};
    static char commands[2000];
    run r = {0};
    size_t n = (size_t)snprintf(commands, sizeof commands, "to hidden; print learning_rate[0]");
    for (int i = 0; i < TP_COUNT(list); i++)
        n += (size_t)snprintf(commands + n, sizeof commands - n, "; print hidden%s", list[i].slice);
    snprintf(commands + n, sizeof commands - n, "; stop");
    r.points = 6;
    r.commands = commands;
    const char *at = strstr(answers(&r), "'[0]' is no slice of this shape"); /* of a number */
    for (int i = 0; i < TP_COUNT(list) && CHECK(at != NULL); i++) {
        char want[200];
        at = strstr(at, "print hidden");
        const char *rows = at ? strstr(at, "max 2.25\n") : NULL;
        if (list[i].rows) snprintf(want, sizeof want, "%stp> ", list[i].rows);
        else snprintf(want, sizeof want, "'%s' is no slice of this shape; one is [0, 2:5, :]\ntp> ", list[i].slice);
        if (CHECK(rows != NULL))
            CHECK_MSG(strncmp(rows + 9, want, strlen(want)) == 0, "%s: %.80s", list[i].slice, rows + 9);
        at = rows;
    }
}

/* The filter and the pattern may be given in either order. Of two patterns the last one is used. A -f at the end of the line is a
 * pattern. */
TEST(lists_by_filter_and_pattern)
{
    run r = {0};
    r.points = 6;
    r.commands =
        "list -f all_zero; list -f all_zero Mul; list Mul -f all_zero; list hidden -f all_zero; list -f has_nan "
        "-f all_zero; list Mul hidden; list hidden; list -f; list Mul -f; stop";
    answers(&r);
    IN_ORDER(answer, "list -f all_zero\n", "3 of 28 operations\n", "list -f all_zero Mul\n", "Mul ",
             "1 of 28 operations\n", "list Mul -f all_zero\n", "Mul ", "1 of 28 operations\n",
             "list hidden -f all_zero\n0 of 28 operations\n", "list -f has_nan -f all_zero\n", "3 of 28 operations\n",
             "list Mul hidden\n", "  hidden  ", "1 of 28 operations\n", "list hidden\n", "  hidden  ",
             "1 of 28 operations\n", "list -f\n0 of 28 operations\n", "list Mul -f\n0 of 28 operations\n",
             "STATUS TP_OK");
}

/* Each operation that reads a value is named, and no other. */
TEST(readers_are_those_that_read)
{
    run r = {0};
    r.points = 6;
    r.commands = "node x; outputs x; node hidden; outputs hidden; node GradientDescent/ApplyGradientDescent; outputs "
                 "GradientDescent/ApplyGradientDescent; stop";
    answers(&r);
    IN_ORDER(answer, "node x\n", "\n  is read by MatMul, Log, Sub, gradients/MatMul_grad/MatMul_1\n", "outputs x\n");
    IN_ORDER(answer, "node hidden\n", "\n  reads\n", " MatMul ", "\n  is read by Dropout\n", "outputs hidden\n");
    IN_ORDER(answer, "node GradientDescent/ApplyGradientDescent\n", "\n  is read by nothing\n",
             "outputs GradientDescent/ApplyGradientDescent\nno operation reads it\n", "STATUS TP_OK");
    static const char *const readers[] = {"  MatMul ", "  Log ", "  Sub ", "  gradients/MatMul_grad/MatMul_1 "};
    const char *line = strstr(answer, "outputs x\n");
    for (int i = 0; i < TP_COUNT(readers) && line; i++) {
        line = strchr(line, '\n');
        const char *name = line ? strstr(line + 1, readers[i]) : NULL;
        CHECK_MSG(name && strcspn(line + 1, "\n") > (size_t)(name - line - 1), "%s is not line %d", readers[i], i);
        line = line ? line + 1 : NULL;
    }
    line = line ? strchr(line, '\n') : NULL;
    CHECK(line && strncmp(line + 1, "tp> ", 4) == 0); /* there is no fifth */
}

/* What changes variables is not run twice, and says so. */
TEST(updates_cannot_be_looked_at)
{
    run r = {0};
    r.points = 6;
    r.commands = "list; run -n";
    answers(&r);
    const char *line = strstr(answer, "cannot be looked at");
    if (!CHECK(line != NULL)) return;
    while (line > answer && line[-1] != '\n') line--;
    char name[200];
    if (!CHECK(sscanf(line, "%*d %199s", name) == 1)) return;
    char commands[600];
    snprintf(commands, sizeof commands, "print %s; node %s; node hidden; run -n", name, name);
    r.commands = commands;
    answers(&r);
    const char closed[] = "cannot be looked at here: ", why[] = "' changes a variable\n";
    IN_ORDER(answer, "print ", closed, why, "node ", "  makes\n", closed, why, "node hidden\n", "STATUS TP_OK");
    line = strstr(answer, "node hidden\n");
    CHECK(line && !strstr(line, closed)); /* this one can */
}

/* A value that could not be computed is none, even after another one that could. */
TEST(what_fails_has_no_value)
{
    run r = {0};
    r.points = 6;
    r.empty = true;
    r.commands = "print hidden; print outside; run -n";
    answers(&r);
    IN_ORDER(answer, "print hidden\n", "hidden  float32", "print outside\n", "index 9 is outside", "STATUS TP_OK");
    CHECK(!strstr(answer, "outside  "));
}

/* A predictor adds to the graph after the debugger has stopped for the first time; all of it is looked at when it stops again. */
static tp_status add_a_predictor(tp_callback *cb)
{
    static const char *const in = "x", *const out = "hidden";
    if (cb->train->epoch_num != 1) return TP_OK;
    return tp_trainer_get_predictor(cb->train->trainer, &in, 1, &out, 1, 0) ? TP_OK : TP_ERR;
}
TEST(the_graph_grows_while_training)
{
    run r = {0};
    r.points = 6;
    r.empty = true;
    r.before = add_a_predictor;
    r.commands = "print hidden; run 3; print tower-pred-0/level; print hidden; node tower-pred-0/hidden; run -n";
    answers(&r);
    IN_ORDER(answer, "hidden  float32 (2,2)  min 1.25", "run 3\n", "tower-pred-0/level\n",
             "tower-pred-0/level  float32 ()", "print hidden\n", "hidden  float32 (2,2)", "node tower-pred-0/hidden\n",
             "it depends on another operation, 'tower-pred-0/x' gets no data here", "STATUS TP_OK");
}

TEST(a_filter_of_ones_own)
{
    run r = {0};
    r.points = 6;
    r.own_filter = true;
    r.commands = "filters; list -f above_1; run; run -n";
    answers(&r);
    /* hidden is 0.5 (1 + 1.5) in the first step, and the filter looks at no other */
    IN_ORDER(answer, "all_zero\nabove_1\n", "list -f above_1\n", "hidden ", "min 1.25 mean", "1 of 28 operations",
             "before step 2 of epoch 1", "STATUS TP_OK");
    tp_callback *cb = tp_cb_debug_cli(.run_filter = "above_1"), *other = tp_cb_host_memory_tracker();
    CHECK_OK(tp_debug_cli_add_tensor_filter(cb, "above_1", first_above_1, folder));
    CHECK_ERR(tp_debug_cli_add_tensor_filter(cb, "has_nan", first_above_1, folder), TP_ERR_NAME,
              "has a filter 'has_nan'");
    CHECK_ERR(tp_debug_cli_add_tensor_filter(other, "a", first_above_1, folder), TP_ERR_ARG, "is no debugger");
    CHECK_ERR(tp_debug_cli_add_tensor_filter(cb, "", first_above_1, folder), TP_ERR_ARG, "name must not be empty");
    for (int i = 5; i <= 32; i++) {
        char name[20];
        snprintf(name, sizeof name, "f%d", i);
        if (i < 32) CHECK_OK(tp_debug_cli_add_tensor_filter(cb, name, first_above_1, folder));
        else CHECK_ERR(tp_debug_cli_add_tensor_filter(cb, name, first_above_1, folder), TP_ERR_ARG, "holds 32 filters");
    }
    tp_callback_free(cb);
    tp_callback_free(other);
}

TEST(commands_come_from_stdin_until_it_ends)
{
    run r = {0};
    r.points = 6;
    r.input = "print x\nrun 2\nprint x\n";
    answers(&r);
    IN_ORDER(answer, "before step 1 of epoch 1", "[0]  1 1.5\n[1]  2 2.5\n", "KEPT", "KEPT", "before step 3 of epoch 1",
             "[0]  5 5.5\n[1]  6 6.5\n", "LOG The debugger's commands are over: training goes on without it.", "KEPT",
             "KEPT", "KEPT", "KEPT", "STATUS TP_OK");
}

/* ==== >>terminal ====================================================================================== */

/* Reads from the terminal until this text comes, behind the last one that was waited for; false: it does not within 10 s. */
static size_t waited;
static bool wait_for(int fd, const char *text)
{
    size_t n = strlen(answer);
    const double until = tp_time() + 10;
    while (!strstr(answer + waited, text) && tp_time() < until && n + 1 < sizeof answer) {
        struct pollfd p = {fd, POLLIN, 0};
        if (poll(&p, 1, 100) <= 0) continue;
        const ssize_t got = read(fd, answer + n, sizeof answer - 1 - n);
        if (got <= 0) break;
        n += (size_t)got;
        answer[n] = 0;
    }
    const char *found = strstr(answer + waited, text);
    if (found) waited = (size_t)(found - answer) + strlen(text);
    return found != NULL;
}

/* A training whose stdin and stdout are a terminal: the side of who types, or -1. */
static int on_terminal(const run *r, pid_t *pid)
{
    const int fd = posix_openpt(O_RDWR | O_NOCTTY);
    answer[0] = 0;
    waited = 0;
    snprintf(folder, sizeof folder, "%s", tp_test_tmpdir());
    if (fd < 0 || grantpt(fd) != 0 || unlockpt(fd) != 0) return -1;
    const char *name = ptsname(fd);
    fflush(NULL);
    *pid = fork();
    if (*pid == 0) {
        setsid(); /* so that Ctrl-C comes */
        const int side = open(name, O_RDWR);
        if (side < 0 || dup2(side, 0) < 0 || dup2(side, 1) < 0) _exit(9);
#ifdef TIOCSCTTY
        ioctl(side, TIOCSCTTY, 0);
#endif
        close(fd);
        TP_TEST_END_CHILD(body(r));
    }
    return fd;
}
static bool type(int fd, const char *text, const char *until)
{
    return write(fd, text, strlen(text)) == (ssize_t)strlen(text) && wait_for(fd, until);
}

TEST(the_first_nan_is_found_on_a_terminal)
{
    run r = {0};
    pid_t pid = 0;
    r.points = 12;
    const int fd = on_terminal(&r, &pid);
    if (fd < 0) TEST_SKIP("there are no pseudo-terminals here");
    bool ok = CHECK(wait_for(fd, "tp> ")) && CHECK(type(fd, "lt -f has_inf_or_nan\n", "0 of ")) &&
              CHECK(wait_for(fd, "tp> ")) && CHECK(type(fd, "run -f has_nan\n", "before step 1 of epoch 2")) &&
              CHECK(wait_for(fd, "tp> ")) && CHECK(type(fd, "pt Log\n", "tp> ")) &&
              CHECK(type(fd, "ni Mul\n", "tp> ")) && CHECK(type(fd, "exit\n", "STATUS TP_OK"));
    /* who multiplies -inf by 0 makes the first NaN; what it reads has none */
    ok = ok &&
         IN_ORDER(answer, "before step 1 of epoch 1", "has_nan: ", "the first is 'Mul' (mul), made at test_debugger.c",
                  "Mul ", "nan 1 of 4", "Log ", "inf 1 of 4", "before step 1 of epoch 2", "pt Log", "[1]  -inf ",
                  "ni Mul", "Mul: operation ", "reads", "Log ", "Sub ");
    if (!ok) kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(fd);
}

TEST(ctrl_c_leaves_the_prompt_and_the_training)
{
    run r = {0};
    pid_t pid = 0;
    r.points = 6;
    const int fd = on_terminal(&r, &pid);
    if (fd < 0) TEST_SKIP("there are no pseudo-terminals here");
    const bool ok = CHECK(wait_for(fd, "tp> ")) && CHECK(type(fd, "\003", "STATUS TP_INTR"));
    if (!ok) kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(fd);
}

/* ==== >>shell ========================================================================================= */

static tp_status touch_in_epoch_1(tp_callback *cb)
{
    char path[400];
    snprintf(path, sizeof path, "%s/pause", folder);
    if (cb->train->epoch_num != 1) return TP_OK;
    printf("TOUCHED %d\n", tp_test_write(path, "", 0));
    if (tp_monitors_put_scalar(cb->train->monitors, "loss", 3) != TP_OK) return TP_ERR;
    return tp_monitors_put_scalar(cb->train->monitors, "score", 0.25);
}

TEST(a_file_opens_the_shell)
{
    run r = {0};
    r.points = 6;
    r.before = touch_in_epoch_1;
    r.input = "stat\nprint learning_rate\nset learning_rate 0.25\nprint learning_rate\nprint cost\nsave\nrun\nstat "
              "score\nstat other\nstat\nrun\n";
    r.inject = "pause";
    char cwd[1000];
    if (!CHECK(getcwd(cwd, sizeof cwd) != NULL && chdir(tp_test_tmpdir()) == 0)) return;
    FILE *f = fopen("pause", "w");
    if (f) fclose(f);
    answers(&r);
    CHECK(!tp_file_exists("pause")); /* deleted after training */
    CHECK(chdir(cwd) == 0);
    IN_ORDER(answer, "KEPT", "KEPT", "KEPT", "LOG 'pause' exists: the debugger opens.", "after epoch 1 (global_step 3)",
             "nothing of that name was reported", "learning_rate  float32 ()  0.125\n", "set\n",
             "learning_rate  float32 ()  0.25\n",
             "'cost' cannot be looked at here: it depends on another operation, 'x' gets no data here",
             "a checkpoint is written when", "TOUCHED 1", "KEPT", "KEPT", "KEPT", "after epoch 2 (global_step 6)",
             "score: 0.25 (global_step 3)\n", "nothing of that name was reported", "loss: 3 (global_step 3)\n",
             "score: 0.25 (global_step 3)\n", "STATUS TP_OK");
}

TEST(no_file_no_shell)
{
    run r = {0};
    r.points = 6;
    r.inject = "no/such/file";
    r.input = "stop\n";
    answers(&r);
    IN_ORDER(answer, "KEPT", "KEPT", "KEPT", "KEPT", "KEPT", "KEPT", "STATUS TP_OK");
    CHECK(!strstr(answer, "tp> "));
}

TEST(debuggers_run_out_of_memory)
{
    for (long n = 1, failed = 1; failed; n++) {
        tp_test_fail_after(n);
        tp_callback *a = tp_cb_debug_cli(.run_filter = "has_nan", .commands = "run"),
                    *b = tp_cb_inject_shell(.file = "somewhere");
        if (a) (void)tp_debug_cli_add_tensor_filter(a, "above_1", first_above_1, folder);
        tp_callback_free(a);
        tp_callback_free(b);
        failed = tp_test_alloc_failed();
        CHECK(tp_test_live_blocks() == 0 && n < 50);
    }
    tp_test_alloc_reset();
}

/* The debugger of a large graph, each time with one allocation less, until all of them succeed. */
static tp_status open_without_memory(tp_callback *cb)
{
    tp_callback *shell = tp_cb_inject_shell(.file = "/dev/null");
    tp_status st = tp_callback_setup_graph(shell, cb->train);
    for (long n = 1, failed = 1; failed && st == TP_OK; n++) {
        tp_test_fail_after(n);
        const tp_status opened = tp_callback_trigger(shell);
        failed = tp_test_alloc_failed();
        printf("\n%s: %s\n", failed ? "FAILED" : "OPENED", tp_status_name(opened));
    }
    tp_test_alloc_reset();
    tp_callback_free(shell);
    return st;
}
TEST(a_debugger_that_finds_no_memory_when_it_opens)
{
    run r = {0};
    r.points = 6;
    r.without = r.large = true;
    r.before = open_without_memory;
    r.input = "stop\n";
    answers(&r);
    IN_ORDER(answer, "FAILED: TP_ERR_NOMEM", "FAILED: TP_ERR_NOMEM", "FAILED: TP_ERR_NOMEM", "OPENED: TP_OK");
}

TEST_MAIN()
