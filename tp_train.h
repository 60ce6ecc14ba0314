/* tp_train.h - v0.1 - trainers: the loop around the steps, the configuration of a training, resume
 *
 * Do this:
 *     #define TP_IMPLEMENTATION        // in ONE .c file, before any other include
 *     #include "tp_train.h"            // pulls in callbacks, input, optimizers, graph and tensor
 *     #include "tp_layers.h"           // for the model
 *
 * WHAT THIS IS       a trainer builds the towers of a model, makes the session and runs the loop over epochs
 *                    and steps in which callbacks take part.
 * WHAT THIS IS NOT   callbacks (tp_callbacks.h), layers (tp_layers.h), optimizers (tp_optim.h).
 *
 * A COMPLETE PROGRAM
 *     #define TP_IMPLEMENTATION
 *     #include "tp_train.h"
 *     static tp_node *build(tp_graph *g, tp_node *const *in, void *user)
 *     {
 *         (void)user;
 *         tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(2, 1), tp_init_zeros());
 *         return tp_named(tp_mean(tp_square(tp_sub(tp_matmul(in[0], w), in[1]))), "cost");
 *     }
 *     static tp_optimizer *optimizer(tp_graph *g, void *user)
 *     {
 *         (void)user;
 *         return tp_sgd(tp_get_scalar_variable(g, "learning_rate", 0.1f));
 *     }
 *     static tp_status point(void *user, int64_t pass, int64_t i, tp_datapoint *dp)
 *     {
 *         (void)user, (void)pass;
 *         tp_status st = tp_datapoint_resize(dp, 2);
 *         if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_F32, tp_make_shape(1, 2));
 *         if (st == TP_OK) st = tp_tensor_resize(&dp->c[1], TP_F32, tp_make_shape(1, 1));
 *         if (st != TP_OK) return st;
 *         const float a = (float)(i % 5), b = (float)(i % 3);
 *         ((float *)dp->c[0].data)[0] = a, ((float *)dp->c[0].data)[1] = b;
 *         ((float *)dp->c[1].data)[0] = 2 * a - b; // what is to be learnt
 *         return TP_OK;
 *     }
 *     int main(void)
 *     {
 *         static const tp_spec inputs[] = {TP_SPEC("x", TP_F32, TP_ANY, 2), TP_SPEC("y", TP_F32, TP_ANY, 1)};
 *         tp_status st = tp_launch_train_with_config(&(tp_train_config){
 *             .model = {.inputs = inputs, .n_inputs = 2, .build_graph = build, .optimizer = optimizer},
 *             .dataflow = tp_df_from_generator(point, .size = 1000, .indexed = TP_YES),
 *             .steps_per_epoch = 200, .max_epoch = 2,
 *         }, tp_simple_trainer());
 *         return st == TP_OK ? 0 : 1;
 *     }
 *
 * CONTENTS   >>model >>trainer >>devices >>ranks >>config
 *
 * HOW IT WORKS
 *     Four calls, each once for a trainer:
 *
 *         tp_trainer_setup_graph       input, towers, train_op
 *         tp_trainer_setup_callbacks   [input's] [trainer's] MaintainStepCounter StopOnNaN [yours] [extra] [monitors]
 *         tp_trainer_initialize        the session, then session_init; the graph is closed
 *         tp_trainer_main_loop         epochs and steps; see tp_callbacks.h for what is called when
 *
 *     A step is one run of train_op and of the nodes that the callbacks fetch. It has an exec of its own, so that
 *     other runs of the session do not advance its random numbers. global_step is a variable that every
 *     such run increments.
 *
 *     An epoch:
 *
 *         1  before_epoch       of all callbacks, in the order of the list, as in every phase
 *         2  the steps          before_run, the run, after_run, trigger_step; then the checkpoint, if a callback
 *                               requested one in this step
 *         3  after_epoch
 *         4  trigger_epoch      validation, setters, your own; the monitors, which come last, write what was reported
 *         5  checkpoint         of the savers that requested one in 4. First the states of all callbacks and monitors
 *                               are collected, then each saver writes. The saver in the logger's directory, whose
 *                               checkpoint auto-resume loads, writes last
 *         6  after_checkpoint   MinSaver and MaxSaver copy the best model
 *
 *     So a checkpoint is a point between epochs, and the position of the savers in the list does not matter. A
 *     checkpoint holds the saved variables, the number of epochs and steps that are done, random steps, the input's position,
 *     moving averages, copies of other towers that differ from the first one's, the number of ranks, and the states of callbacks
 *     and monitors, by name. The history of the monitors is not in it: JSONWriter reads it from stats.json. A training that was
 *     killed at any moment and starts again with .auto_resume continues from the last checkpoint and ends with the same bits, the
 *     best models and stats.json included: whatever the killed process wrote after that checkpoint is dropped or written again.
 *
 *     Several devices (>>devices):
 *
 *         towers        tp_build_on_towers calls build_graph once for each device; each tower gets its own input tensors
 *         gradients     tp_gradients of the sum of the costs, once, because a layer may read values of all towers. The derivative
 *                       of an op runs on the device of that op. AsyncMultiGPUTrainer differentiates each cost separately
 *         reduction     replicated: tp_all_reduce of each gradient, so that every device has the sum. Parameter server: the
 *                       device that stores the variable computes the sum
 *         updates       tp_apply_gradients: replicated, once for each tower, with that tower's copies; parameter server,
 *                       once; asynchronous, once for each tower, with the shared variables
 *         train_op      a group of the updates: a step is still one run of one plan. Each op of the plan has a device, and the
 *                       plan copies the values that another device needs
 *
 *     List a callback that reports a statistic before a callback whose trigger uses that statistic: InferenceRunner
 *     before StatMonitorParamSetter and SendStat. No other order is needed. See tp_callbacks.h.
 *
 *     Several processes (HorovodTrainer). Each gradient belongs to a bucket. It is computed in the bucket's buffer (TP_OP_PACKS in
 *     tp_graph.h), unless another op reads it later, it is sent as float16, or .deterministic is set: then it is copied there.
 *     When the last gradient of a bucket is there, an op starts a non-blocking all-reduce (MPI_Iallreduce, or NCCL's on its own
 *     stream). The backward pass continues. Just before the update a second op for each bucket waits for the all-reduce and
 *     unpacks the sums, which have a buffer of their own. The buckets are numbered, and each starts after the one before it, so
 *     that all ranks start them in the same order, whatever other ops their plans contain. A step costs
 *
 *         step = compute + max(T / k, T - backward (k - 1) / k) + unpacking
 *         T    = 2 (n - 1) / n * bytes / bandwidth + k * 2 log2(n) * latency
 *
 *     for n ranks, k buckets, `bytes` of gradients: the last bucket can start only when the backward pass is over, the others
 *     are sent during the backward pass. `bandwidth` is that of one rank, in and out; `unpacking` is the copy from the host to a
 *     GPU, or on a CPU the copy out of the buckets. ResNet-50 has 25.6 million parameters: 102 MB in 7 buckets of 16 MiB. Assume
 *     a GPU that computes a step of 64 images in 175 ms, two thirds of it in the backward pass, a latency of 10 us and 12 GB/s
 *     between host and GPU. Then the formula gives this scaling efficiency, the speed of n GPUs in percent of n times the speed of
 *     one GPU:
 *
 *         n                              8    64   256  1024
 *         12.5 GB/s (100 Gbit/s)          94    94    94    94
 *          3.1 GB/s (25 Gbit/s)           91    91    91    91
 *          1.25 GB/s (10 Gbit/s)          77    71    71    70
 *          1.25 GB/s, float16             90    90    90    90
 *
 *     The formula ignores the wait for the slowest rank, and assumes that MPI moves data while the processor computes: a thread
 *     calls MPI for that twice a millisecond. On one machine that has no more processors than ranks communication does not
 *     overlap with computation, so there step = compute + T + unpacking. The table is computed, not measured; a case of
 *     tests/test_mpi.c computes it again. tests/bench/ranks.c measures a step and prints the formula's value beside it, from a bandwidth and a
 *     latency measured in the same job: tests/bench/RESULTS.md has both for 1, 2 and 4 ranks of one machine.
 *
 *     Batch norm with TP_SYNC_RANKS (tp_layers.h). An op averages the statistics over all ranks in the forward pass, and another one
 *     their gradients in the backward pass. Both wait for their message, so a step of l such layers takes about 2 l latencies of an
 *     all-reduce longer, and what the slowest rank is late. These ops have a communicator of their own and run in the order in which
 *     they were made; buckets are received after the last one. Between GPUs their messages travel through the host, and the gradients too.
 *
 *     Parameter servers (DistributedTrainer...). All ranks build the same graph. Two ops of a worker's step communicate with each
 *     server: the first sends the gradients of the server's variables as soon as the last of them is computed; the second, after
 *     the backward pass, receives the new values, which are then assigned. The graph also has, for each server, placeholders for
 *     these gradients and the update of the server's variables. The server runs this update once for each worker, then it sends
 *     the new values. With w workers and s servers, where the servers' links limit the speed, a step takes
 *
 *         step = compute + 2 * w / s * bytes / bandwidth + w * update / s
 *
 *     so that about as many servers as workers are needed for nearly the speed of an all-reduce.
 *
 * OWNERSHIP  a trainer owns the callbacks, monitors, input and session_init that it is given, from the call on,
 *            also when the call fails. tp_launch_train_with_config takes over the trainer too and frees it.
 *            Everything that a model points at is borrowed.
 * THREADS    one training per thread; every running training notices Ctrl-C and tp_interrupt.
 * CTRL-C     the current step is finished (one that waits for its data is left out), and after the last step of an epoch the
 *            callbacks of the epoch's end, too. Then the ModelSaver whose checkpoints auto-resume loads saves the model (without
 *            one, all ModelSavers do), and training ends with TP_INTR. A resumed training continues after that step, with the same
 *            bits. That checkpoint is "interrupted.npz" (or has another format's suffix); it is deleted when the next checkpoint is
 *            written. A second Ctrl-C ends the program at once. tp_interrupt does the same for other signals, such as SIGTERM. A
 *            run_step of several runs may wait for data between two of them: a training cannot be resumed there, so nothing is saved,
 *            and a warning says which steps are lost. A program that was started with Ctrl-C ignored (SIGINT: `trap '' INT`, or a
 *            script's `train &`) trains on. In a job of several ranks it does not matter which of them are interrupted: the chief
 *            saves the model and ends with TP_INTR, then the others end with TP_ERR_IO (or as after training, if this was the
 *            last epoch). Nothing is saved if another rank than the chief is interrupted and has to wait for its data before
 *            the chief has ended.
 * DATA END   a training whose input ends (TP_END) within an epoch is saved as after Ctrl-C, but as "model-<step>.npz"; a resume goes on
 *            after that step if there are more data. A training of several processes only warns of the steps that are lost, and so
 *            does one that ends between two runs of a run_step, or that tp_stop ends within an epoch.
 * ERRORS     tp_status: TP_OK also after TP_STOP or TP_END, the end of the data; TP_INTR after Ctrl-C or tp_interrupt; else the
 *            error, whose sentence was logged and is in tp_last_error. after_train of every callback has run
 *            in each case, unless the training ended before its loop: in setup_graph, setup_callbacks or
 *            initialize. TP_ERR_IO: training was completed, but the last checkpoint, a best model or
 *            stats.json could not be written; the log has one line for each, with the reason.
 */
#ifndef TP_TRAIN_H
#define TP_TRAIN_H

#include "tp_callbacks.h"
#include "tp_optim.h"
#if TP_VERSION_MAJOR != 0 || TP_VERSION_MINOR != 1
#error "tp_train.h 0.1 needs tp_callbacks.h 0.1: copy all tp headers from the same version"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ==== >>model ========================================================================================= */

/* The model to train. build_graph is called in the training tower and again in each inference tower; it returns
 * the scalar cost (inference ignores it). optimizer is called once. The specs are copied. [train: ModelDesc] */
typedef struct tp_model {
    const tp_spec *inputs;
    int n_inputs;
    tp_node *(*build_graph)(tp_graph *g, tp_node *const *in, void *user);
    tp_optimizer *(*optimizer)(tp_graph *g, void *user);
    void *user;
} tp_model;

/* ==== >>trainer ======================================================================================= */

typedef struct tp_trainer tp_trainer;
/* How the gradients from the consumers of one value are added. In TensorFlow the choice changes the memory use. Here it has no
 * effect: the planner adds them in the order in which the consumers were created, in place where that is possible. */
typedef enum tp_aggregation {
    TP_AGGREGATION_DEFAULT = 0,
    TP_AGGREGATION_ADD_N,
    TP_AGGREGATION_EXPERIMENTAL_TREE,
    TP_AGGREGATION_EXPERIMENTAL_ACCUMULATE_N
} tp_aggregation;
/* All fields may be read. Set only the fields whose comments allow it, before the call that uses them. */
struct tp_trainer {
    const char *name;     /* name of the trainer, "SimpleTrainer" */
    tp_train_state state; /* what callbacks see: counters, session, graph, monitors, input */
    /* owned by the trainer; exists from the start, so that it may be built by hand, without setup_graph */
    tp_graph *graph;
    tp_node *train_op; /* the node that each step runs; may be set */
    tp_node *cost;     /* a scalar that is checked after every step, see stop_on_nan; may be set; NULL: none */
    int stop_on_nan;   /* tp_tri: end when cost is NaN or -inf, default TP_YES; may be set before setup_callbacks */
    /* Builds the training towers. May be set before setup_graph, which calls it once, as its last action: state.input is then
     * set up for the graph, and state.tower_func has the model's inputs and build_graph. A function of your own calls, for each
     * tower, tp_tower_enter, tp_input_get_tensors(t->state.input, in), tp_tower_func_call(t->state.tower_func, in), which
     * returns the cost, and tp_tower_leave. Then it adds gradients and updates and sets train_op, which the built-in run_step
     * runs (not needed with a run_step of your own), and cost, if NaN is to end the training. It borrows *m for the call, owns
     * nothing, and returns TP_OK or an error with its sentence; the error status of the graph counts, too. It must not run
     * anything: callbacks may still add nodes after it, and the session is made later. The
     * trainers of >>devices and >>ranks refuse a function that does not call the one that was there before, because only that
     * one averages the gradients or sends them to servers. */
    tp_status (*build)(tp_trainer *t, const tp_model *m);
    /* One step. May be set before main_loop, which calls it steps_per_epoch times per epoch: it checks for Ctrl-C first, and calls
     * trigger_step of all callbacks afterwards. A function of your own calls tp_hooked_run(t->state.hooked_session, ..) once:
     * before_run and after_run of the callbacks belong to that run, which increments global_step. If it calls it several times, as
     * SeparateGANTrainer does, each run takes the next data and increments global_step. For runs without data it uses
     * tp_session_run on state.session, which calls no callback. Returns TP_OK: training continues; TP_STOP and TP_END end the
     * training as success, at once; an error ends it, with the sentence given to tp_fail. A step without a run increments
     * local_step alone. */
    tp_status (*run_step)(tp_trainer *t);
    tp_status (*initialize_hooks)(tp_trainer *t); /* default: tp_trainer_initialize_hooks; may be set */
    tp_session_creator creator;                   /* makes the session; may be set before initialize */
    bool feed_dataflow; /* a DataFlow is fed by the training thread, not through a queue [SimpleTrainer] */
    int n_devices; /* number of towers, also with your own build; 0: one. With more, a QueueInput of a config is staged */
    const int *devices; /* device of each tower: n_devices numbers of the session's devices; NULL: 0, 1, .. */
    /* Options of trainings with one cost; may be set before setup_graph. [SingleCostTrainer] */
    tp_aggregation aggregation_method; /* how gradients of one value are added, see tp_aggregation */
    tp_tri
        colocate_gradients_with_ops; /* TP_YES, the default: gradients run on the devices of their ops; TP_NO does the same */
    tp_tri gate_gradients;   /* TP_YES: updates begin after all gradients are computed; the same bits. Default TP_NO */
    tp_tri xla_compile;      /* TP_NO: each op is a kernel, none are fused; the same bits. Default TP_YES */
    void *user;              /* for your own use */
    tp_callback **callback_; /* the registered callbacks; setup_callbacks moves them into group_ */
    int n_callback_, cap_callback_;
    bool unsaved_is_ok; /* return TP_OK even if the last checkpoint or another file could not be written */
    tp_node *learning_rate_;
    tp_callback *group_;
    tp_hook *hooks_[1];
    tp_input_source *input_;
    tp_owner owner_; /* while it trains */
    bool graph_ready_, callbacks_ready_, initialized_, looped_, owns_session_;
    bool was_infinite_;            /* the warning that the cost is infinite was logged */
    bool has_own_towers_;          /* build was, or has called, the trainer's own function */
    bool in_step_;                 /* run_step is running */
    bool failed_;                  /* setup_callbacks or initialize has begun and failed: there is no training */
    struct tp__multi *multi_;      /* state of trainers with several towers */
    struct tp__rank_state *ranks_; /* state of trainers that train in several processes */
    tp_predictor *predictors_;
    const char *finishing_; /* what Ctrl-C has to wait for, as a text for the log; NULL: nothing */
    bool told_;             /* the message about Ctrl-C was logged */
    bool partly_;           /* the loop ended between two runs of one run_step */
    bool begins_anew_;      /* auto-resume has found no checkpoint: session_init's is of another training */
    int64_t begun_at_;      /* global_step when the loop began */
};

/* Makes a trainer with one device and one tower, whose name is "". [train: SimpleTrainer] NULL: out of memory. */
TP_DEF tp_trainer *tp_simple_trainer(void);
/* Makes a trainer whose steps run only the nodes that callbacks fetch: without such a callback a step computes nothing, but it takes a
 * datapoint of the input. [train: NoOpTrainer] NULL: out of memory. */
TP_DEF tp_trainer *tp_noop_trainer(void);
/* Makes a SimpleTrainer whose DataFlow goes through a queue. [train: QueueInputTrainer] */
TP_DEF tp_trainer *tp_queue_input_trainer(void);
/* Sets the seed of all random ops of the trainer's graph, 0 = 42, (uint64_t)TP_NONE for 0. Call it before anything is built and
 * before a tower function is set: it makes a new graph, so t->graph changes, and the graph that was there is freed. */
TP_DEF tp_status tp_trainer_set_seed(tp_trainer *t, uint64_t seed);
/* Frees the trainer and everything that it took over; NULL is allowed. A trainer in a training is not freed: an error is logged. A
 * reused session, and predictors on the trainer's graph and session, may be freed before or after the trainer. */
TP_DEF void tp_trainer_free(tp_trainer *t);

/* input: owned from then on; NULL is an error. Registers the input's callbacks. [SingleCostTrainer.setup_graph] */
TP_DEF tp_status tp_trainer_setup_graph(tp_trainer *t, const tp_model *m, tp_input_source *input);
/* Adds a callback; call it before setup_callbacks. A chief-only callback on another rank is freed, with a warning.
 * [Trainer.register_callback] */
TP_DEF tp_status tp_trainer_register_callback(tp_trainer *t, tp_callback *cb);
/* The same as tp_trainer_register_callback; sets *registered (may be NULL) to whether the callback was added: false
 * after an error, and for a chief-only callback on another rank, which is TP_OK. */
TP_DEF tp_status tp_trainer_register_callback_ex(tp_trainer *t, tp_callback *cb, bool *registered);
/* Calls setup_graph of all callbacks. Their order is the same in every phase: the input's callbacks, those registered earlier, the
 * step counter, `callbacks`, the monitors. List a callback that reports a value before one that uses the value. A monitor among
 * the callbacks is an error. TP_STOP, without a sentence: a setup_graph has ended the training with tp_stop (tp_train then returns
 * TP_OK). [Trainer.setup_callbacks] */
TP_DEF tp_status tp_trainer_setup_callbacks(tp_trainer *t, tp_callback *const *callbacks, int n_callbacks,
                                            tp_monitor *const *monitors, int n_monitors);
TP_DEF tp_status tp_trainer_initialize(tp_trainer *t,
                                       tp_session_init *init); /* init may be NULL. [Trainer.initialize] */
/* Makes state.hooked_session from state.session and tp_trainer_hooks. tp_trainer_initialize calls it between making the session and
 * running session_init, unless t->initialize_hooks is set. A function of your own may make several hooked sessions, for trainings
 * with more than one op. It sets state.hooked_session to the one whose stop request ends the loop, which the trainer frees; you
 * free the others. A checkpoint has the random step of state.hooked_session only: for a resume with the same bits, set that of the
 * others with tp_exec_set_random_step. Called once. [Trainer.initialize_hooks] */
TP_DEF tp_status tp_trainer_initialize_hooks(tp_trainer *t);
/* Returns the before_run and after_run of all callbacks, as hooks; available after setup_callbacks.
 * [Callbacks.get_hooks] */
TP_DEF tp_hook *const *tp_trainer_hooks(tp_trainer *t, int *n);
/* Runs the epochs starting_epoch to max_epoch of steps_per_epoch steps each (0 is allowed: only the callbacks of epochs run).
 * [Trainer.main_loop] */
TP_DEF tp_status tp_trainer_main_loop(tp_trainer *t, int64_t steps_per_epoch, int64_t starting_epoch,
                                      int64_t max_epoch);
/* Calls t->run_step. Your own run_step must not call it, but the pointer that was there before it. */
TP_DEF tp_status tp_trainer_run_step(tp_trainer *t);
TP_DEF tp_monitors *tp_trainer_monitors(tp_trainer *t);

/* Sets the function that builds the trainer's towers. setup_graph sets it, too. For a graph that is built by hand, set a tower
 * function of that graph, once, before the callbacks are set up. [TowerTrainer.tower_func] */
TP_DEF tp_status tp_trainer_set_tower_func(tp_trainer *t, tp_tower_func *f);
/* Returns the towers built so far, for training and inference; none without a tower function. [TowerTrainer.towers] */
TP_DEF tp_tower_handles tp_trainer_towers(tp_trainer *t);
/* Returns the inputs of the trainer's tower function, *n of them; NULL without a tower function.
 * [TowerTrainer.inputs_desc] */
TP_DEF const tp_spec *tp_trainer_inputs_desc(tp_trainer *t, int *n);
/* Makes a predictor of the trained model. The tower function builds the inference tower tower-pred-<device>, once for
 * each device, with the variables of the training tower of that device if that tower has its own, else with those of
 * the first tower. Inputs are names of the tower function's inputs (NULL: all of them) or of any tensor of that tower,
 * outputs are names without the tower's name. A predictor made between setup_graph and tp_trainer_initialize, in a
 * callback's setup_graph for example, can be called once the trainer is initialized. One made later can be called at
 * once, but nothing else may run in the session while it is made. Each predictor has its own memory, so that several
 * threads may each call their own predictor at the same time. Beside a training step it may read some variables before
 * and some after the update, as any run of the session does (>>session in tp_graph.h). The trainer owns and frees the
 * predictor. NULL after an error. [TowerTrainer.get_predictor] */
TP_DEF tp_predictor *tp_trainer_get_predictor(tp_trainer *t, const char *const *input_names, int n_inputs,
                                              const char *const *output_names, int n_outputs, int device);

/* Options of a training that is set up by hand. */
#define TP_NO_STEPS (-1)
typedef struct tp_train_desc {
    tp_callback *const *callbacks;
    int n_callbacks;
    tp_callback *const
        *extra_callbacks;  /* tp_train_with_defaults: NULL = the default ones, unless n_extra_callbacks is TP_NONE */
    int n_extra_callbacks; /* TP_NONE: no extra callbacks, not even the default ones */
    tp_monitor *const *monitors; /* tp_train_with_defaults: NULL = the default ones, unless n_monitors is TP_NONE */
    int n_monitors;              /* TP_NONE: no monitors, not even the default ones */
    tp_session_init *session_init;
    int64_t steps_per_epoch;        /* number of steps in an epoch; required; TP_NO_STEPS: epochs without steps */
    int64_t starting_epoch;         /* number of the first epoch; default 1; write TP_NONE for 0 */
    int64_t max_epoch;              /* number of the last epoch; default 9999999; TP_NONE: no epoch at all */
    int stop_on_nan, unsaved_is_ok; /* the same as these fields of tp_train_config */
    tp_tri report;                  /* TP_NO: the default monitors write no report.html. Default TP_YES */
} tp_train_desc;
/* Calls setup_callbacks, initialize and main_loop. Takes over everything that d points at, but not t. [Trainer.train,
 * train_with_defaults] */
TP_DEF tp_status tp_train(tp_trainer *t, const tp_train_desc *d);
TP_DEF tp_status tp_train_with_defaults(tp_trainer *t, const tp_train_desc *d);

/* The same as Ctrl-C: each training of this process that runs finishes its step, saves the model and ends with TP_INTR (CTRL-C, above).
 * Returns false, and does nothing, if no training runs. Signal handlers and all threads may call it; with TP_NO_SIGNALS it works too.
 * A Ctrl-C that comes later ends the program at once. systemd, Slurm and Kubernetes end a program by SIGTERM:
 *     static void on_sigterm(int number) { if (!tp_interrupt()) _exit(128 + number); }
 *     signal(SIGTERM, on_sigterm); */
TP_DEF bool tp_interrupt(void);

/* Return the rank of this process, the number of processes, and the rank on this machine: 0, 1, 0 without MPI. */
TP_DEF int tp_rank(void);
TP_DEF int tp_size(void);
TP_DEF int tp_local_rank(void);

/* ==== >>devices ======================================================================================= */
/* Data-parallel training in one process: a tower on each of several devices of the session (tp_device_enter). The devices are GPUs,
 * or CPU devices, which have separate memory and share the threads. Each tower takes its own datapoint in each step, so a
 * step uses n_devices batches; steps_per_epoch is not divided. The input must support several towers (QueueInput, StagingInput;
 * not FeedInput). All towers are in one plan, and a step gives the same bits for any number of threads.
 *
 * devices: numbers of the session's devices, n_devices of them; NULL: 0, 1, .... If the session's config names no
 * devices, the session of any trainer gets as many CPU devices as its graph uses. Values on the host (ps_device TP_ON_CPU, mode
 * TP_ALL_REDUCE_CPU) are on the device with the next number. If a device of the config that is no CPU has that number, they are on
 * the first CPU device behind those of the config. It is added to the session if it is missing.
 *
 * Only the first tower's summaries and moving averages of batch norm are used. Checkpoints hold each variable once, under the
 * name that it has without towers, and load into any number of devices. A training that is resumed with the same number of devices
 * ends with the same bits. (A tower's copies may differ from the first tower's when a checkpoint is made, as batch norm's averages
 * do in the middle of an epoch; these copies are saved with the training's state.) With one device nothing is scaled or reduced. */

/* How the gradients of several towers are summed. The modes differ only in rounding. */
typedef enum tp_all_reduce_mode {
    /* TP_ALL_REDUCE_HIERARCHICAL for 8 devices, else _NCCL; where a GPU was built without NCCL, in the order of the towers */
    TP_ALL_REDUCE_AUTO = 0,
    /* between GPUs NCCL adds, in its own order: all must be built with it; CPU devices add in the order of the towers */
    TP_ALL_REDUCE_NCCL,
    /* for 8 devices: sums of the first four and the last four, then of both. Otherwise the same as AUTO, with a
     * warning */
    TP_ALL_REDUCE_HIERARCHICAL,
    TP_ALL_REDUCE_CPU /* a CPU device sums the gradients, in the order of the towers */
} tp_all_reduce_mode;

/* Each tower has its own variables; the gradients are all-reduced, and every tower makes the same update. The variables of the
 * first tower are the model. Those of the other towers are copies, named tower<k>/...; the copies and their optimizer slots are not
 * saved. The first tower's values are copied to them before training and, with broadcast_every_epoch, at the end of each epoch
 * (batch norm's averages too, which only the first tower computes) and before the first step of the next one (what callbacks have
 * set). One optimizer makes the updates of all towers: optimizer
 * state that belongs to no single variable (Adam's powers) exists once. [train: SyncMultiGPUTrainerReplicated] */
typedef struct tp_sync_multi_gpu_trainer_replicated_desc {
    tp_at at_;
    int n_devices;      /* number of devices; required */
    const int *devices; /* the array is copied */
    tp_tri average;     /* TP_NO: gradients are summed. Default TP_YES */
    tp_all_reduce_mode mode;
    /* whether all towers or ranks get the first one's variables at the end and at the start of each epoch; default TP_YES. TP_NO: what a
     * callback sets of the first one during the training stays there */
    tp_tri broadcast_every_epoch;
} tp_sync_multi_gpu_trainer_replicated_desc;
TP_DEF tp_trainer *tp_sync_multi_gpu_trainer_replicated_(const tp_sync_multi_gpu_trainer_replicated_desc *d);

/* The device that stores the shared variables. */
typedef enum tp_ps_device {
    TP_ON_AUTO = 0, /* the default: TP_ON_GPU for at most 2 devices, else TP_ON_CPU */
    /* the variables are spread over the towers' devices: each goes to the device with the fewest elements so far */
    TP_ON_GPU,
    TP_ON_CPU /* the variables and their updates are on a CPU device */
} tp_ps_device;

/* The towers share one set of variables, which each tower reads once per step. The device that stores a variable computes the mean
 * of the towers' gradients and applies it once. [train: SyncMultiGPUTrainerParameterServer] */
typedef struct tp_sync_multi_gpu_trainer_parameter_server_desc {
    tp_at at_;
    int n_devices;      /* number of devices; required */
    const int *devices; /* the array is copied */
    tp_ps_device ps_device;
} tp_sync_multi_gpu_trainer_parameter_server_desc;
TP_DEF tp_trainer *tp_sync_multi_gpu_trainer_parameter_server_(
    const tp_sync_multi_gpu_trainer_parameter_server_desc *d);

/* The towers share one set of variables (on the host with 4 devices or more, else spread over the devices). Each tower's gradient
 * is applied separately: n_devices updates per step, in the order of the towers, without an average. As in
 * tensorpack a step is one run and ends when all towers have finished. In tensorpack a tower may or may not see the updates that
 * other towers make during the step. Here all towers read the values from the beginning of the step, which is one of the orders
 * possible in tensorpack and makes training deterministic. Counters of the optimizer that belong to no variable advance once per
 * step. [train: AsyncMultiGPUTrainer] */
typedef struct tp_async_multi_gpu_trainer_desc {
    tp_at at_;
    int n_devices;         /* number of devices; required */
    const int *devices;    /* the array is copied */
    tp_tri scale_gradient; /* each gradient is divided by n_devices. Default TP_YES */
} tp_async_multi_gpu_trainer_desc;
TP_DEF tp_trainer *tp_async_multi_gpu_trainer_(const tp_async_multi_gpu_trainer_desc *d);

/* The default multi-GPU trainer: a tp_sync_multi_gpu_trainer_parameter_server with ps_device TP_ON_CPU. devices NULL:
 * 0, 1, .... [train: the default multi-GPU trainer] */
TP_DEF tp_trainer *tp_default_multi_gpu_trainer(int n_devices, const int *devices);

/* for example tp_sync_multi_gpu_trainer_replicated(.n_devices = 4, .average = TP_NO) */
#ifdef TP_KEYWORDS
#define tp_sync_multi_gpu_trainer_replicated(...) \
    TP__CALL(train, tp_sync_multi_gpu_trainer_replicated, #__VA_ARGS__, __VA_ARGS__)
#define tp_sync_multi_gpu_trainer_parameter_server(...) \
    TP__CALL(train, tp_sync_multi_gpu_trainer_parameter_server, #__VA_ARGS__, __VA_ARGS__)
#define tp_async_multi_gpu_trainer(...) TP__CALL(train, tp_async_multi_gpu_trainer, #__VA_ARGS__, __VA_ARGS__)
#endif

/* ==== >>ranks ========================================================================================= */
/* Training in several processes, on one machine or on many: the ranks of an MPI job, which mpirun starts.
 *     cc -DTP_MPI train.c $(mpicc -show flags) ...      or: mpicc -DTP_MPI train.c -lm -lpthread
 *     mpirun -np 4 ./train                              on one machine
 *     mpirun -np 8 --hostfile hosts ./train             on several
 * Without TP_MPI a program is rank 0 of 1, and these trainers train in one process. With TP_MPI the first call of one of these
 * functions starts MPI, unless the program did (MPI_Init_thread with MPI_THREAD_SERIALIZED at least); MPI that was started
 * here ends when the program exits. Make that first call from the main thread, on all ranks.
 *
 * Rank 0 is the chief: it alone loads checkpoints and runs callbacks that are chief_only, such as savers. Callbacks with chief_only
 * false run on all ranks; after a resume all of them begin with the chief's states, but for monitors, whose files are those of
 * their rank. Each rank reads its own data: use tp_rank to shuffle with different seeds or to take a part of the data.
 * All ranks must have the same steps_per_epoch, max_epoch and options of the trainer, but for .patience. Dropout and other random
 * ops draw different numbers on each rank.
 *
 * If one rank fails, the others end within seconds, with one sentence: ranks whose graphs differ, a rank that was killed, a rank
 * that leaves before the others. For this a thread of each rank sends a heartbeat twice a second. The other ranks wait for a rank
 * that is busy for long, with validation for example. When the chief stops the training (tp_stop), all ranks stop. */

/* The logger's directory for this rank: `dir` for the chief, <dir>-rank<k> for the others. See tp_logger_set_dir. */
TP_DEF tp_status tp_logger_set_rank_dir(const char *dir, char action);

typedef enum tp_compression {
    TP_COMPRESSION_NONE = 0,
    /* gradients are sent as float16: half the bytes, 11 bits of precision; values above 65504 become infinity */
    TP_COMPRESSION_FP16
} tp_compression;

/* Each rank computes the gradients of its own batch; every rank applies their mean over all ranks, so that all have the same
 * variables. The gradients are sent in buckets, each as soon as it is full, while the others are still being computed. Before
 * training and, with broadcast_every_epoch, at the end of each epoch all ranks get the chief's variables (batch norm's averages
 * too, which each rank computes from its own batches unless .sync_statistics is TP_SYNC_RANKS), and again before the first step of
 * the next one (what callbacks of the chief have set, such as a learning rate). One device per rank: a program with GPUs opens
 * tp_cuda_open(tp_local_rank()). The session must be made by the default creator. Between GPUs NCCL reduces the gradients, in its
 * own order of addition, if tp_cuda.cu was built with NCCL on every rank. Otherwise, and with .deterministic, .compression or batch
 * norm's TP_SYNC_RANKS, the gradients are copied to the host and MPI reduces them.
 * [train: HorovodTrainer] */
typedef struct tp_horovod_trainer_desc {
    tp_at at_;
    tp_tri average; /* TP_NO: gradients are summed. Default TP_YES */
    tp_compression compression;
    /* gradients are added in the order of the ranks, with the same bits as the same number of devices in one process, unless the
     * model draws random numbers (dropout). Each rank gathers all of them, which takes more memory and time. false: MPI chooses the
     * order */
    bool deterministic;
    /* bytes of gradients per bucket, at most INT_MAX; default a quarter of them, at least 1 MiB, at most 16 MiB */
    int64_t bucket_bytes;
    /* whether all towers or ranks get the first one's variables at the end and at the start of each epoch; default TP_YES. TP_NO: what a
     * callback sets of the first one during the training stays there */
    tp_tri broadcast_every_epoch;
    /* seconds without a heartbeat after which a rank counts as failed, and seconds that the ranks have to end their programs after a
     * failure before the job is aborted; at least 2, default 5 */
    double patience;
} tp_horovod_trainer_desc;
TP_DEF tp_trainer *tp_horovod_trainer_(const tp_horovod_trainer_desc *d);

/* -- parameter servers: some ranks of the job keep the variables, the others train
 *
 *     static const int servers[] = {2, 5};
 *     static const tp_cluster cluster = {.n_ps = 2, .ps = servers};
 *     tp_trainer *t = tp_distributed_trainer_replicated(.cluster = &cluster);     // the same on every rank
 *
 * All ranks run the same program with the same model and configuration; the trainer gives each rank its job from the cluster. A
 * worker trains: it reads its own data, and its callbacks run. Worker 0 is the chief. A server reads no data and calls only the
 * phases setup_graph and after_train of the callbacks. It serves until the chief ends the training, then tp_train returns TP_OK on
 * the server. With one process, and so always without TP_MPI, no rank could be a server: these trainers then fail with a sentence.
 *
 * A step: each worker averages the gradients of its own devices and sends each to the server that stores the variable. The server
 * applies them: one update per worker, without an average over the workers, as in tensorpack. So n workers update a variable n
 * times per step: divide the learning rate for one worker by n. When every worker's gradients are applied, all workers
 * get the new values. No worker begins the next step before that: all workers compute their gradients from the same values. Only
 * the order of the updates within a step may vary:
 *
 *     DistributedTrainerReplicated         the order of the workers: deterministic, the same bits each time. An optimizer without
 *                                          state that belongs to no variable (SGD, Momentum) gives the same bits as an
 *                                          AsyncMultiGPUTrainer with the same number of devices and scale_gradient TP_NO
 *     DistributedTrainerParameterServer    the chief's first, the others as they arrive: different bits each time. With
 *                                          .deterministic: the order of the workers
 *
 * Variables are assigned to servers in order: each goes to the server with the fewest bytes so far. The server also stores the
 * variable's slots (momentum). The chief fetches the slots when a checkpoint is made, so that a checkpoint holds each variable once
 * and loads into any other trainer or number of ranks. Gradient processors, tp_accum_grad and tp_loss_scale run on each worker with
 * separate state; the chief's state is saved (a checkpoint within an accumulation warns of that). The optimizer that they wrap and
 * tp_post_process run on the servers. The chief's learning rate is used. Adam's powers advance with each update, as in tensorpack.
 * Each worker has its own averages of batch norm; the chief's are saved. Each rank needs memory for the whole model. A worker
 * sends all gradients for one server in one message.
 *
 * An error or a killed rank ends the job as with HorovodTrainer, whose other rules hold here too. */
typedef enum tp_job { TP_JOB_WORKER = 0, TP_JOB_PS } tp_job;
/* The jobs of the ranks; must be equal on all ranks. Lists are borrowed until the trainer is made. [tf.train.ClusterSpec] */
typedef struct tp_cluster {
    int n_ps;           /* number of parameter servers: at least 1, fewer than ranks */
    const int *ps;      /* ranks of the servers, n_ps of them; NULL: the last n_ps ranks */
    const int *workers; /* ranks that train, n_workers of them; the first must be 0. NULL: all but the servers */
    int n_workers;      /* number of workers; 0 if workers is NULL */
} tp_cluster;
/* Sets *job to the job of this rank (worker or server) and *task to its index among the ranks with that job, from 0. TP_ERR_ARG,
 * with a sentence: the cluster does not match the number of ranks. [tf.train.Server] */
TP_DEF tp_status tp_cluster_task(const tp_cluster *c, tp_job *job, int *task);

/* Each device of a worker has its own variables, which get the new values after each step. [train: DistributedTrainerReplicated] */
typedef struct tp_distributed_trainer_replicated_desc {
    tp_at at_;
    int n_devices;             /* number of towers per worker; default 1 */
    const int *devices;        /* numbers of the devices, copied; NULL: 0, 1, .. */
    const tp_cluster *cluster; /* the jobs of the ranks; NULL: the last rank is the server, the others train */
    double patience;           /* seconds without a heartbeat until a rank counts as failed; at least 2, default 5 */
} tp_distributed_trainer_replicated_desc;
TP_DEF tp_trainer *tp_distributed_trainer_replicated_(const tp_distributed_trainer_replicated_desc *d);

/* The devices of a worker share one copy of the variables. [train: DistributedTrainerParameterServer] */
typedef struct tp_distributed_trainer_parameter_server_desc {
    tp_at at_;
    int n_devices;             /* number of towers per worker; default 1 */
    const int *devices;        /* numbers of the devices, copied; NULL: 0, 1, .. */
    const tp_cluster *cluster; /* the jobs of the ranks; NULL: the last rank is the server, the others train */
    tp_ps_device
        caching_device; /* device of the worker's copy: TP_ON_CPU, or TP_ON_GPU: spread over the towers' devices, except
                                  * variables of less than 65536 elements. TP_ON_AUTO: TP_ON_CPU */
    bool deterministic; /* true: updates are made in the order of the workers; false: as gradients arrive */
    double patience;    /* seconds without a heartbeat until a rank counts as failed; at least 2, default 5 */
} tp_distributed_trainer_parameter_server_desc;
TP_DEF tp_trainer *tp_distributed_trainer_parameter_server_(const tp_distributed_trainer_parameter_server_desc *d);

/* for example tp_horovod_trainer(.compression = TP_COMPRESSION_FP16) */
#ifdef TP_KEYWORDS
#define tp_horovod_trainer(...) TP__CALL(train, tp_horovod_trainer, #__VA_ARGS__, __VA_ARGS__)
#define tp_distributed_trainer_replicated(...) \
    TP__CALL(train, tp_distributed_trainer_replicated, #__VA_ARGS__, __VA_ARGS__)
#define tp_distributed_trainer_parameter_server(...) \
    TP__CALL(train, tp_distributed_trainer_parameter_server, #__VA_ARGS__, __VA_ARGS__)
#endif

/* ==== >>config ======================================================================================== */

/* The configuration of a training. [train: TrainConfig, AutoResumeTrainConfig] */
typedef struct tp_train_config {
    tp_model model;
    tp_dataflow *dataflow; /* set either dataflow or data */
    tp_input_source *data;
    /* TP_CALLBACKS(...) sets callbacks and n_callbacks. List a callback that reports a statistic before one that uses it, see
     * ORDER OF THE LIST in tp_callbacks.h. The extra callbacks are called after those of this list, the monitors last */
    tp_callback *const *callbacks;
    int n_callbacks;
    /* default: those of tp_default_callbacks, without the progress bar if callbacks has one, unless n_extra_callbacks is TP_NONE */
    tp_callback *const *extra_callbacks;
    int n_extra_callbacks; /* TP_NONE: no extra callbacks, not even the default ones */
    /* set by TP_MONITORS(...); default: those of tp_default_monitors, unless n_monitors is TP_NONE */
    tp_monitor *const *monitors;
    int n_monitors;                            /* TP_NONE: no monitors, not even the default ones */
    const tp_session_creator *session_creator; /* makes the session; NULL: it is made from session_config */
    const tp_session_config *session_config;   /* NULL: the default configuration */
    /* loads the variables. A checkpoint that was made after the epoch before starting_epoch, or within starting_epoch, also gives the
     * states of callbacks and the position in the data, so that training continues there; but with auto_resume and no checkpoint in
     * the folder epoch 1 begins anew. A resume runs it only if its checkpoint lacks weights of the model. To load the weights alone:
     * .weights_only of tp_saver_restore_ex */
    tp_session_init *session_init;
    int64_t starting_epoch; /* number of the first epoch; default 1; write TP_NONE for 0 */
    /* number of steps in an epoch; default: the size of the data; TP_NO_STEPS, and 0 by name: epochs without steps */
    int64_t steps_per_epoch;
    int64_t max_epoch;  /* number of the last epoch; default 99999; TP_NONE: no epoch at all */
    tp_tri auto_resume; /* TP_YES: resume from the logger's directory, if it has a checkpoint; default TP_NO */
    /* TP_NO: session_init (or checkpoint) and starting_epoch take precedence. Give both then, or neither: session_init alone is an
     * error if stats.json in the folder has an epoch, starting_epoch alone is one if the folder has a checkpoint. Default TP_YES */
    tp_tri always_resume;
    uint64_t seed; /* seed of the graph; default 42; write (uint64_t)TP_NONE for 0 */
    int stop_on_nan; /* TP_NO: training continues when the cost is NaN or -inf. Default TP_YES: it ends with TP_ERR_NUMERIC after that
                      * step, and the last checkpoint is an earlier one. A cost is computed before the update of its step: if the
                      * last update of an epoch makes a variable NaN, the next epoch finds it, after the checkpoint was written.
                      * tp_cb_check_numerics fails before the checkpoint is written and so keeps NaN out of checkpoints. A cost of
                      * +inf is only a warning: tp_ctc_loss gives it, with a gradient of 0, for labels that cannot be aligned */
    /* TP_YES: the training returns TP_OK even if the last checkpoint, a best model or stats.json was not written.
     * Default TP_NO */
    int unsaved_is_ok;
    /* argument of tp_smart_init; replaces session_init, and the config can be used more than once */
    const char *checkpoint;
    tp_tri log_layers; /* TP_NO: do not log a line for each layer. Default TP_YES */
    tp_tri report;     /* TP_NO: the default monitors write no report.html. Default TP_YES. See tp_monitor_report */
} tp_train_config;
#ifndef __cplusplus
#define TP_CALLBACKS(...)                             \
    .callbacks = (tp_callback *const[]){__VA_ARGS__}, \
    .n_callbacks = (int)(sizeof((tp_callback *const[]){__VA_ARGS__}) / sizeof(tp_callback *))
#define TP_EXTRA_CALLBACKS(...)                             \
    .extra_callbacks = (tp_callback *const[]){__VA_ARGS__}, \
    .n_extra_callbacks = (int)(sizeof((tp_callback *const[]){__VA_ARGS__}) / sizeof(tp_callback *))
#define TP_MONITORS(...)                            \
    .monitors = (tp_monitor *const[]){__VA_ARGS__}, \
    .n_monitors = (int)(sizeof((tp_monitor *const[]){__VA_ARGS__}) / sizeof(tp_monitor *))
#elif __cplusplus >= 202002L /* use these macros only within a call: the arrays are freed at the end of the statement */
#define TP_CALLBACKS(...)       TP__LIST_FIELDS(callbacks, n_callbacks, tp_callback *, __VA_ARGS__)
#define TP_EXTRA_CALLBACKS(...) TP__LIST_FIELDS(extra_callbacks, n_extra_callbacks, tp_callback *, __VA_ARGS__)
#define TP_MONITORS(...)        TP__LIST_FIELDS(monitors, n_monitors, tp_monitor *, __VA_ARGS__)
#define TP__LIST_FIELDS(list_, n_, type_, ...) \
    .list_ = std::initializer_list<type_>{__VA_ARGS__}.begin(), .n_ = (int)sizeof(tp__cxx_count(__VA_ARGS__))
#endif

/* Sets session_init to the latest checkpoint in the logger's directory, checkpoint to NULL, and starting_epoch to the epoch
 * after the last complete one in that checkpoint (TP_NONE for epoch 0). If the latest checkpoint is damaged or missing, the newest
 * older one that can be read is used, with a warning, because a job may run unattended. (tp_saver_restore and tp_smart_init,
 * which get a file name, fail instead, with a sentence that names the older one.) Checkpoints of other programs do not contain
 * their epoch: then the last epoch in stats.json is used; such a checkpoint without stats.json is an error. Without a checkpoint
 * training starts from the beginning. [train: AutoResumeTrainConfig] */
TP_DEF tp_status tp_auto_resume_train_config(tp_train_config *c);
/* Makes the input source of a trainer: FeedInput for a SimpleTrainer, else QueueInput. Takes over df. For a trainer
 * with n_devices > 1, tp_launch_train_with_config then wraps the input with tp_input_default_prefetch. [train:
 * apply_default_prefetch] */
TP_DEF tp_input_source *tp_apply_default_prefetch(tp_dataflow *df, const tp_trainer *t);
/* Trains as the config says. Takes over and frees the trainer and everything that the config points at.
 * [launch_train_with_config] */
TP_DEF tp_status tp_launch_train_with_config(const tp_train_config *c, tp_trainer *t);

/* For TP_OPTIONS: the descriptor types of this header. */
TP_DEF const tp__zero_option *tp__train_zeros(void);
#define TP__PART_tp_sync_multi_gpu_trainer_replicated_desc       train
#define TP__PART_tp_sync_multi_gpu_trainer_parameter_server_desc train
#define TP__PART_tp_async_multi_gpu_trainer_desc                 train
#define TP__PART_tp_horovod_trainer_desc                         train
#define TP__PART_tp_cluster                                      train
#define TP__PART_tp_distributed_trainer_replicated_desc          train
#define TP__PART_tp_distributed_trainer_parameter_server_desc    train
#define TP__PART_tp_train_desc                                   train
#define TP__PART_tp_train_config                                 train

#ifdef __cplusplus
}
#endif
#endif /* TP_TRAIN_H */

/* ===== STOP HERE if you only want to use the library. Everything below is implementation. ===== */
#if defined(TP_IMPLEMENTATION) && !defined(TP__TRAIN_IMPLEMENTED)
#define TP__TRAIN_IMPLEMENTED
#ifdef TP_MPI
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX /* MPI's C++ classes are not used: C++ programs use its C functions, too */
#endif
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX
#endif
#include <mpi.h>
#endif
#undef TP__PLACED
#define TP__PLACED TP__UNPLACED
TP__EXACT_BEGIN
TP__COLD_BEGIN

/* The options whose zero is not their default: see OPTIONS in tp_tensor.h. */
TP_DEF const tp__zero_option *tp__train_zeros(void)
{
    /* clang-format off */
    static const tp__zero_option options[] = {
        TP__ZERO_OPTION(tp_sync_multi_gpu_trainer_replicated_desc, average, NO),
        TP__ZERO_OPTION(tp_sync_multi_gpu_trainer_replicated_desc, broadcast_every_epoch, NO),
        TP__ZERO_OPTION(tp_async_multi_gpu_trainer_desc, scale_gradient, NO),
        TP__ZERO_OPTION(tp_horovod_trainer_desc, average, NO),
        TP__ZERO_OPTION(tp_horovod_trainer_desc, broadcast_every_epoch, NO),
        TP__ZERO_OPTION(tp_train_desc, n_extra_callbacks, NONE),
        TP__ZERO_OPTION(tp_train_desc, n_monitors, NONE),
        TP__ZERO_OPTION(tp_train_desc, starting_epoch, NONE),
        TP__ZERO_OPTION(tp_train_desc, max_epoch, NONE),
        TP__ZERO_OPTION(tp_train_desc, stop_on_nan, NO),
        TP__ZERO_OPTION(tp_train_desc, report, NO),
        TP__ZERO_OPTION(tp_train_config, n_extra_callbacks, NONE),
        TP__ZERO_OPTION(tp_train_config, n_monitors, NONE),
        TP__ZERO_OPTION(tp_train_config, starting_epoch, NONE),
        TP__ZERO_OPTION(tp_train_config, steps_per_epoch, NONE),
        TP__ZERO_OPTION(tp_train_config, max_epoch, NONE),
        TP__ZERO_OPTION(tp_train_config, always_resume, NO),
        TP__ZERO_OPTION(tp_train_config, seed, NONE),
        TP__ZERO_OPTION(tp_train_config, stop_on_nan, NO),
        TP__ZERO_OPTION(tp_train_config, log_layers, NO),
        TP__ZERO_OPTION(tp_train_config, report, NO),
        {NULL, NULL, 0, 0, TP__ZERO_NO},
    };
    /* clang-format on */
    return options;
}

/* ==== >>trainer ======================================================================================= */

static void tp__ranks_reduce(tp_trainer *t, tp_grad_var *gvs, int n);
static void tp__ranks_offer_means(tp_trainer *t);
static tp_status tp__ranks_after(tp_trainer *t, tp_status st);
static tp_status tp__ranks_poll(tp_trainer *t);
static tp_status tp__ranks_session(tp_trainer *t);
static tp_status tp__ranks_initialize(tp_trainer *t);
static tp_status tp__ranks_agree(tp_trainer *t, int64_t *starting_epoch, int64_t steps, int64_t max_epoch);
static void tp__ranks_random(tp_trainer *t);
static tp_status tp__ranks_leave(tp_trainer *t, tp_status st);
static int64_t tp__saved_ranks(const tp_trainer *t, const tp_dict *d);
static bool tp__ranks_awaited(const tp_trainer *t);
static void tp__ranks_free(tp_trainer *t);
static bool tp__has_other_ranks(const tp_trainer *t);
static bool tp__ranks_interrupted(tp_trainer *t, bool interrupted);
static tp_status tp__ranks_step(tp_trainer *t);
static bool tp__job_reports_error(const tp_trainer *t);
static bool tp__ranks_serve(tp_trainer *t, tp_status *st);
static void tp__ranks_optimizer(tp_trainer *t, tp_optimizer *opt);
static tp_status tp__ranks_collect(tp_trainer *t);
static tp_status tp__ranks_before_steps(tp_trainer *t);

/* Ctrl-C sets a flag, which is tested after every hook. A started step is finished, and so are the callbacks at the end of an
 * epoch: otherwise a resumed training would repeat them. */
static tp_status tp__trainer_poll(tp_train_state *train)
{
    tp_trainer *const t = train->trainer;
    const tp_status st = tp__ranks_poll(t);
    if (!tp__ranks_interrupted(t, tp__os_interrupted())) return st;
    if (!t->finishing_) return TP_INTR;
    if (!t->told_)
        tp_log(TP_LOG_INFO,
               "Ctrl-C or tp_interrupt: %s, then the model is saved and training ends. Another Ctrl-C stops at once.",
               t->finishing_);
    t->told_ = true;
    return st;
}

/* -- the step functions */

static tp_status tp__step_train_op(tp_trainer *t)
{
    if (!t->train_op)
        return tp_fail(TP_ERR_STATE, "%s has no train_op: call tp_trainer_setup_graph, or set train_op or run_step",
                       t->name);
    return tp_hooked_run(t->state.hooked_session, &t->train_op, 1, NULL);
}

static tp_status tp__step_hooks_only(tp_trainer *t) { return tp_hooked_run(t->state.hooked_session, NULL, 0, NULL); }

static tp_status tp__call_run_step(tp_trainer *t)
{
    if (t->in_step_)
        return tp_fail(TP_ERR_STATE,
                       "%s: a step starts another one: a run_step of yours calls the pointer that was there before it "
                       "instead; before_run and after_run of a callback cannot start one",
                       t->name);
    const unsigned n_errors = tp__n_errors;
    t->in_step_ = true;
    const tp_status st = tp__add_missing_sentence(t->name, n_errors, t->run_step(t));
    t->in_step_ = false;
    return st;
}

TP_DEF tp_status tp_trainer_run_step(tp_trainer *t)
{
    TP__REQUIRE(t && t->state.hooked_session && t->run_step, TP_ERR_ARG)
    return tp__call_run_step(t);
}

/* -- one tower ----------------------------------------------------------------------------- >>trainer
 * SimpleTrainer */

static tp_status tp__graph_result(const tp_graph *g)
{
    return tp_graph_status(g) == TP_OK ? TP_OK : tp_fail(tp_graph_status(g), "%s", tp_graph_error(g));
}

/* Returns the checked cost of the current tower; NULL after an error, which the graph's status keeps. */
static tp_node *tp__tower_cost(tp_trainer *t, tp_node *const *in)
{
    tp_graph *g = t->graph;
    char text[TP_SHAPE_TEXT];
    const unsigned n_errors = tp__n_errors;
    tp_node *cost = tp_tower_func_call(t->state.tower_func, in);
    if (tp_graph_status(g) != TP_OK) return NULL;
    if (!tp_current_tower_context(g))
        tp_graph_fail(g, NULL, TP_ERR_STATE,
                      "build_graph has left the tower that it is called in: remove its tp_tower_leave");
    else if (!cost)
        tp_graph_fail(g, NULL, TP_ERR_ARG,
                      "build_graph returned NULL: in a training tower it returns the cost, a scalar node%s%s",
                      tp__n_errors != n_errors ? ": " : "", tp__n_errors != n_errors ? tp_last_error() : "");
    else if (tp_is_poison(cost))
        tp_graph_fail(g, NULL, TP_ERR_ARG, "the cost was not made: %s", tp__poison_reason(cost));
    else if (cost->op->graph != g)
        tp_graph_fail(g, &cost->op->at, TP_ERR_ARG,
                      "build_graph returned the cost '%s', which is a node of another graph: make it of the inputs "
                      "and the graph that build_graph is given",
                      tp_node_name(cost));
    else if (cost->shape.ndim != 0)
        tp_graph_fail(g, &cost->op->at, TP_ERR_SHAPE,
                      "Cost must be a scalar tensor, but '%s' has shape %s: take its mean", tp_node_name(cost),
                      tp_shape_text(&cost->shape, text));
    else if (!tp_dtype_is_float(cost->dtype))
        tp_graph_fail(g, &cost->op->at, TP_ERR_DTYPE,
                      "Cost must be floating, but '%s' is %s: tp_cast what it is made of", tp_node_name(cost),
                      tp_dtype_name(cost->dtype));
    return tp_graph_status(g) == TP_OK ? cost : NULL;
}

static tp_optimizer *tp__model_optimizer(tp_trainer *t, const tp_model *m)
{
    tp__graph_fix_places(t->graph);
    const unsigned n_errors = tp__n_errors;
    tp_optimizer *opt = m->optimizer ? m->optimizer(t->graph, m->user) : NULL;
    if (opt) {
        t->learning_rate_ = opt->learning_rate;
        tp__ranks_optimizer(t, opt);
    } else
        tp_graph_fail(t->graph, NULL, TP_ERR_ARG, "%s%s%s",
                      m->optimizer ? "the model's optimizer function returned NULL"
                                   : "the model has no optimizer: set .model.optimizer",
                      tp__n_errors != n_errors ? ": " : "", tp__n_errors != n_errors ? tp_last_error() : "");
    return opt;
}

/* Makes every update depend on all gradients. */
static void tp__gate_updates(const tp_trainer *t, tp_grad_var *gvs, int n)
{
    tp_graph *g = t->graph;
    tp_node **grads = (tp_node **)tp_graph_alloc(g, ((size_t)n + 1) * sizeof *grads);
    if (!grads || t->gate_gradients != TP_YES) return;
    for (int i = 0; i < n; i++) grads[i] = gvs[i].grad;
    tp_node *gate = tp_group(g, grads, n, "gate_gradients");
    for (int i = 0; i < n; i++) {
        tp_device_enter(g, tp_node_device(gvs[i].grad));
        gvs[i].grad = tp_with_dependencies(gvs[i].grad, &gate, 1);
        tp_device_leave(g);
    }
}

/* Removes pairs without a gradient of the cost, with a warning. It is an error if no pair is left. */
static int tp__filter_gradients(const tp_trainer *t, const tp_node *cost, tp_grad_var *gvs, int n)
{
    tp_graph *g = t->graph;
    const tp_gradproc filter = tp_gradproc_filter_none();
    if (tp_graph_status(g) != TP_OK) return 0;
    n = tp_gradproc_run(&filter, g, gvs, n);
    const tp_operation *end = n == 0 ? tp__gradient_ends_at(g, cost) : NULL;
    if (end)
        tp_graph_fail(
            g, &end->at, TP_ERR_ARG,
            "no gradient of the cost '%s' comes to a variable: it ends at '%s', because the op %s has no gradient%s",
            tp_node_name(cost), end->name, end->row->name, tp__ask_about_freezing(end));
    else if (n == 0)
        tp_graph_fail(g, &cost->op->at, TP_ERR_ARG,
                      "the cost '%s' depends on no trainable variable: there is nothing to train", tp_node_name(cost));
    return tp_graph_status(g) == TP_OK ? n : 0;
}

/* Adds cost, gradients and update inside the tower. Errors are kept in the graph's status. */
static void tp__simple_tower(tp_trainer *t, const tp_model *m, tp_node *const *in)
{
    tp_graph *g = t->graph;
    tp_node *cost = tp__tower_cost(t, in);
    if (!cost) return;
    int n = 0;
    const tp_tower_context *ctx = tp_current_tower_context(g);
    tp_node *const *vars = ctx->has_own_variables ? tp_tower_collection(g, TP_KEY_TRAINABLE_VARIABLES, &n)
                                                  : tp_collection(g, TP_KEY_TRAINABLE_VARIABLES, &n);
    tp_node **var = (tp_node **)tp_graph_alloc(g, ((size_t)n + 1) * sizeof *var);
    tp_grad_var *gv = (tp_grad_var *)tp_graph_alloc(g, ((size_t)n + 1) * sizeof *gv);
    if (!var || !gv) return;                      /* the graph keeps the error */
    for (int i = 0; i < n; i++) var[i] = vars[i]; /* adding nodes may move the array of the collection */
    tp_optimizer *opt = tp__model_optimizer(t, m);
    if (!opt) return;
    tp_optimizer_compute_gradients(opt, cost, var, n, gv);
    n = tp__filter_gradients(t, cost, gv, n);
    if (n == 0) return;
    tp__ranks_reduce(t, gv, n);
    tp__gate_updates(t, gv, n);
    t->train_op = tp_apply_gradients(opt, gv, n);
    t->cost = cost;
}

static tp_status tp__simple_build(tp_trainer *t, const tp_model *m)
{
    tp_graph *g = t->graph;
    tp_tower_desc tower;
    t->has_own_towers_ = true;
    memset(&tower, 0, sizeof tower);
    tower.is_training = true;
    tp_node **in = (tp_node **)tp_graph_alloc(g, (size_t)m->n_inputs * sizeof *in);
    if (!in) return TP_ERR_NOMEM;
    tp_log(TP_LOG_INFO, "Building graph for training tower 0 ...");
    if (!tp_tower_enter(g, &tower)) return tp__graph_result(g);
    const tp_status st = tp__input_tensors(t->input_, in);
    if (st == TP_OK) tp__simple_tower(t, m, in);
    tp_tower_leave(g);
    return st == TP_OK ? tp__graph_result(g) : st;
}

static tp_trainer *tp__trainer_new(const char *name)
{
    tp_trainer *t = (tp_trainer *)tp_calloc(1, sizeof *t);
    if (!t) return NULL;
    t->name = name;
    t->graph = tp_graph_new(NULL);
    if (!t->graph) {
        tp_free(t);
        return NULL;
    }
    t->graph->owner_.who = name;
    t->state.graph = t->graph;
    t->state.trainer = t;
    t->state.local_step = -1;
    t->state.is_chief = true;
    t->state.poll = tp__trainer_poll;
    t->creator = tp_new_session_creator(NULL);
    t->build = tp__simple_build;
    t->run_step = tp__step_train_op;
    t->initialize_hooks = tp_trainer_initialize_hooks;
    return t;
}

TP_DEF tp_trainer *tp_simple_trainer(void)
{
    tp_trainer *t = tp__trainer_new("SimpleTrainer");
    if (t) t->feed_dataflow = true;
    return t;
}

TP_DEF tp_trainer *tp_noop_trainer(void)
{
    tp_trainer *t = tp__trainer_new("NoOpTrainer");
    if (t) t->run_step = tp__step_hooks_only;
    return t;
}

TP_DEF tp_trainer *tp_queue_input_trainer(void) { return tp__trainer_new("QueueInputTrainer"); }

/* -- several towers ------------------------------------------------------------------------ >>devices */

/* Options of a trainer with several towers, and its state during the build. */
typedef struct tp__multi {
    int host; /* number of the CPU device for values on the host; -1: there is none */
    bool average, broadcast, scale_gradient, own_variables, on_host, async;
    bool mode_is_auto; /* the mode was not asked for: without NCCL in all devices, the towers' order adds */
    /* parameter servers compute new values of the variables, which are then assigned to all copies */
    bool served;
    int64_t small_on_host; /* a variable with fewer elements is stored on the host */
    tp_all_reduce_mode mode;
    int64_t *elements; /* if variables are spread: elements of the variables on each tower's device */
    tp_node *sync;     /* copies the first tower's variables to the others; NULL: there are no copies */
    /* the following fields are used only during the build */
    tp_trainer *t;
    const tp_model *model;
    tp_optimizer *opt;
    tp_node **cost; /* the cost of each tower */
    tp_node **var;  /* the n_var trained variables: of the first tower, or shared by all */
    int n_var;
} tp__multi;

static int tp__tower_device(const tp_trainer *t, int tower) { return t->devices ? t->devices[tower] : tower; }

/* Returns the largest device number of a tower, plus one. */
static int tp__tower_devices(const tp_trainer *t)
{
    int n_device = 0;
    for (int i = 0; i < t->n_devices; i++)
        if (tp__tower_device(t, i) >= n_device) n_device = tp__tower_device(t, i) + 1;
    return n_device;
}

/* Puts a shared variable on the host or on the device with the fewest elements. The other towers get the existing variable. */
static tp_node *tp__spread_getter(tp_getter_call *call, tp_variable_desc *d, void *user)
{
    tp__multi *b = (tp__multi *)user;
    tp_graph *g = b->t->graph;
    int smallest = 0;
    for (int i = 1; i < b->t->n_devices; i++)
        if (b->elements[i] < b->elements[smallest]) smallest = i;
    const int before = tp_graph_n_variables(g);
    const bool on_host = b->on_host || tp_shape_size(&d->shape) < b->small_on_host;
    tp_device_enter(g, on_host ? b->host : tp__tower_device(b->t, smallest));
    tp_node *n = tp_getter_next(call, d);
    tp_device_leave(g);
    if (tp_graph_n_variables(g) > before && !on_host) b->elements[smallest] += tp_shape_size(&d->shape);
    return n;
}

/* The function that tp_build_on_towers calls for each tower. */
static tp_node *tp__multi_tower(const tp_tower_context *tower, void *user)
{
    tp__multi *b = (tp__multi *)user;
    tp_trainer *t = b->t;
    tp_node **in = (tp_node **)tp_graph_alloc(t->graph, (size_t)b->model->n_inputs * sizeof *in);
    if (!in) return tp_poison(t->graph);
    tp_log(TP_LOG_INFO, "Building graph for training tower %d ...", tower->index);
    const tp_status st = tp__input_tensors(t->input_, in);
    char text[TP__ERROR_TEXT];
    snprintf(text, sizeof text, "%s", st != TP_OK ? tp_last_error() : "");
    if (st != TP_OK) tp_graph_fail(t->graph, NULL, st, "%s", text); /* an error also ends the other towers' building */
    tp_node *cost = st == TP_OK ? tp__tower_cost(t, in) : NULL;
    if (cost && tower->index == 0) b->opt = tp__model_optimizer(t, b->model);
    return cost ? cost : tp_poison(t->graph);
}

/* Lists the trained variables of the first tower, and checks that other towers have no variable that the first one lacks. */
static bool tp__find_trained(tp__multi *b)
{
    tp_graph *g = b->t->graph;
    int n = 0, n_trained = 0;
    tp_node *const *trainable = tp_collection(g, TP_KEY_TRAINABLE_VARIABLES, &n);
    b->var = (tp_node **)tp_graph_alloc(g, ((size_t)n + 1) * sizeof(tp_node *));
    for (int i = 0; i < n && b->var; i++) {
        const tp_variable *v = tp_node_variable(trainable[i]);
        if (v && !v->local) b->var[n_trained++] = trainable[i];
        else if (v && b->own_variables && !v->copy_of)
            tp_graph_fail(
                g, NULL, TP_ERR_STATE,
                "%s: the trainable variable '%s' has no partner in the first tower: every tower must make the "
                "same variables",
                b->t->name, v->name);
    }
    b->n_var = n_trained;
    return tp_graph_status(g) == TP_OK;
}

/* Finds the variable of tower k that is a copy of `first`. */
static tp_node *tp__copy_in_tower(tp__multi *b, tp_node *first, int tower)
{
    char name[1100];
    if (tower == 0) return first;
    snprintf(name, sizeof name, "tower%d/%s", tower, tp_node_name(first));
    const tp_variable *v = tp__variable_named(b->t->graph, name);
    if (v) return v->node;
    return tp_graph_fail(b->t->graph, NULL, TP_ERR_STATE,
                         "%s: the trainable variable '%s' has no copy in tower%d: every tower must make the same "
                         "variables",
                         b->t->name, tp_node_name(first), tower);
}

/* The sum of the costs is differentiated in one pass, since a layer may read values of all towers. */
static tp_node *tp__sum_of_costs(const tp__multi *b)
{
    return b->t->n_devices == 1 ? b->cost[0] : tp_add_n(b->cost, b->t->n_devices);
}

/* Reports an error for gradients that only some towers have. wrt[k * n_var], ... are the variables of tower k. */
static void tp__different_gradients(const tp__multi *b, tp_node *const *wrt, int n_wrt, int tower)
{
    tp_buf names;
    memset(&names, 0, sizeof names);
    tp_graph *g = b->t->graph;
    bool *has_gradient = (bool *)tp_graph_alloc(g, (size_t)b->n_var * 2 + 1);
    if (!has_gradient) return;
    bool *first = has_gradient + b->n_var;
    tp__has_gradients(b->cost[0], wrt, b->n_var, first);
    tp__has_gradients(b->cost[tower], wrt + tower * n_wrt, b->n_var, has_gradient);
    for (int i = 0; i < b->n_var; i++)
        if (has_gradient[i] != first[i]) tp_buf_printf(&names, "%s%s", names.len ? ", " : "", tp_node_name(b->var[i]));
    if (names.len)
        tp_graph_fail(b->t->graph, NULL, TP_ERR_STATE,
                      "Number of gradients from each tower is different! Tower 0 and tower %d differ in: %s", tower,
                      names.data ? names.data : "");
    tp_buf_free(&names);
}

/* Returns x / n, computed on the device of x. */
static tp_node *tp__divided(tp_node *x, int n)
{
    if (n == 1) return x;
    tp_graph *g = tp_node_graph(x);
    tp_device_enter(g, tp_node_device(x));
    tp_node *y = tp__affine_of(x, 1.0 / (double)n, 0.0);
    tp_device_leave(g);
    return y;
}

/* Replaces grads[k] of each tower k by the sum or mean over all towers. */
static void tp__reduce_gradients(const tp__multi *b, tp_node **grads)
{
    const int n = b->t->n_devices;
    tp_graph *g = b->t->graph;
    if (n == 1) return;
    if (b->mode == TP_ALL_REDUCE_CPU) {
        tp_device_enter(g, b->host);
        tp_node *sum = tp_add_n(grads, n);
        tp_device_leave(g);
        if (b->average) sum = tp__divided(sum, n);
        for (int k = 0; k < n; k++) grads[k] = tp__on_device(sum, tp__tower_device(b->t, k));
    } else if (b->mode == TP_ALL_REDUCE_HIERARCHICAL) {
        tp_all_reduce(grads, 4, b->average, grads);
        tp_all_reduce(grads + 4, 4, b->average, grads + 4);
        for (int k = 0; k < 4; k++) {
            tp_node *pair[2];
            pair[0] = grads[k], pair[1] = grads[k + 4];
            tp_all_reduce(pair, 2, b->average, pair);
            grads[k] = pair[0], grads[k + 4] = pair[1];
        }
    } else {
        tp_all_reduce(grads, n, b->average, grads);
    }
}

/* Updates tower k's copies with the gradients, which are equal in all towers. */
static void tp__replicated_update(tp__multi *b)
{
    tp_trainer *t = b->t;
    tp_graph *g = t->graph;
    const int n = t->n_devices, n_copies = n * b->n_var;
    tp_grad_var *gvs = (tp_grad_var *)tp_graph_alloc(g, ((size_t)n_copies + 1) * sizeof *gvs);
    tp_node **nodes = (tp_node **)tp_graph_alloc(g, ((size_t)n_copies + 2 * (size_t)n) * sizeof *nodes);
    if (!gvs || !nodes) return;
    tp_node **wrt = nodes + 2 * n, **tower_grads = nodes, **update = nodes + n;
    for (int k = 0; k < n; k++)
        for (int i = 0; i < b->n_var; i++) wrt[k * b->n_var + i] = tp__copy_in_tower(b, b->var[i], k);
    if (tp_graph_status(g) != TP_OK) return;
    for (int k = 1; k < n; k++) tp__different_gradients(b, wrt, b->n_var, k);
    tp_optimizer_compute_gradients(b->opt, tp__sum_of_costs(b), wrt, n_copies, gvs);
    /* reduce the gradients of the last layers first, because they are computed first */
    for (int i = b->n_var - 1; i >= 0 && tp_graph_status(g) == TP_OK; i--) {
        if (!gvs[i].grad) continue;
        for (int k = 0; k < n; k++) tower_grads[k] = gvs[k * b->n_var + i].grad;
        tp__reduce_gradients(b, tower_grads);
        for (int k = 0; k < n; k++) gvs[k * b->n_var + i].grad = tower_grads[k];
    }
    const int n_update = b->served ? 1 : n;
    for (int k = 0; k < n_update && tp_graph_status(g) == TP_OK; k++) {
        tp_grad_var *tower_pairs = gvs + k * b->n_var;
        int kept = 0;
        if (k == 0) kept = tp__filter_gradients(t, b->cost[0], tower_pairs, b->n_var);
        for (int i = 0; i < b->n_var && k > 0; i++)
            if (tower_pairs[i].grad) tower_pairs[kept++] = tower_pairs[i];
        if (tp_graph_status(g) != TP_OK) return;
        tp__gate_updates(t, tower_pairs, kept);
        tp_device_enter(g, tp__tower_device(t, k));
        update[k] = tp_apply_gradients(b->opt, tower_pairs, kept);
        tp_device_leave(g);
    }
    if (tp_graph_status(g) == TP_OK)
        t->train_op = n_update == 1 ? update[0] : tp_group(g, update, n_update, "train_op");
}

/* Makes one update of the shared variables by the mean of the towers' gradients. */
static void tp__server_update(tp__multi *b)
{
    tp_trainer *t = b->t;
    tp_graph *g = t->graph;
    tp_grad_var *gvs = (tp_grad_var *)tp_graph_alloc(g, ((size_t)b->n_var + 1) * sizeof *gvs);
    if (!gvs) return;
    for (int k = 1; k < t->n_devices; k++) tp__different_gradients(b, b->var, 0, k);
    tp_optimizer_compute_gradients(b->opt, tp__sum_of_costs(b), b->var, b->n_var, gvs);
    const int n = tp__filter_gradients(t, b->cost[0], gvs, b->n_var);
    for (int i = 0; i < n; i++) {
        tp_device_enter(g, tp_node_device(gvs[i].var));
        gvs[i].grad = tp__divided(gvs[i].grad, t->n_devices);
        tp_device_leave(g);
    }
    if (n == 0) return;
    tp__gate_updates(t, gvs, n);
    t->train_op = tp_apply_gradients(b->opt, gvs, n);
}

/* Makes an update of the shared variables by each tower's gradient, in the order of the towers. */
static void tp__async_update(tp__multi *b)
{
    tp_trainer *t = b->t;
    tp_graph *g = t->graph;
    const int n = t->n_devices;
    tp_grad_var *gvs = (tp_grad_var *)tp_graph_alloc(g, ((size_t)n * (size_t)b->n_var + 1) * sizeof *gvs);
    tp_node **update = (tp_node **)tp_graph_alloc(g, (size_t)n * sizeof *update);
    if (!gvs || !update) return;
    for (int k = 0; k < n && tp_graph_status(g) == TP_OK; k++) {
        if (k > 0) tp__different_gradients(b, b->var, 0, k);
        tp_optimizer_compute_gradients(b->opt, b->cost[k], b->var, b->n_var, gvs + k * b->n_var);
    }
    for (int k = 0; k < n && tp_graph_status(g) == TP_OK; k++) {
        tp_grad_var *tower_pairs = gvs + k * b->n_var;
        int kept = 0;
        if (k == 0) kept = tp__filter_gradients(t, b->cost[0], tower_pairs, b->n_var);
        for (int i = 0; i < b->n_var && k > 0; i++)
            if (tower_pairs[i].grad) tower_pairs[kept++] = tower_pairs[i];
        if (tp_graph_status(g) != TP_OK) return;
        for (int i = 0; i < kept && b->scale_gradient; i++) tower_pairs[i].grad = tp__divided(tower_pairs[i].grad, n);
        tp__gate_updates(t, tower_pairs, kept);
        b->opt->after = k > 0 ? update[k - 1] : NULL;
        b->opt->more = k + 1 < n;
        update[k] = tp_apply_gradients(b->opt, tower_pairs, kept);
    }
    b->opt->after = NULL, b->opt->more = false;
    if (tp_graph_status(g) == TP_OK) t->train_op = n == 1 ? update[0] : tp_group(g, update, n, "train_op");
}

/* Copies the first tower's variables to all copies. [SyncVariables] */
static tp_node *tp__sync_variables(tp_graph *g, void *user)
{
    int n = 0;
    const int n_var = tp_graph_n_variables(g);
    tp_node **ops = (tp_node **)tp_graph_alloc(g, ((size_t)n_var + 1) * sizeof *ops);
    tp__multi *b = (tp__multi *)user;
    for (int i = 0; i < n_var && ops; i++) {
        const tp_variable *v = tp_graph_variable(g, i);
        if (v->copy_of) ops[n++] = tp_assign(v->node, v->copy_of->node, NULL);
        else if (v->local && tp__in_numbered_tower(v->name))
            tp_log(TP_LOG_WARN, "The variable '%s' has no partner in the first tower: it is not made equal to one.",
                   v->name);
    }
    tp_log(TP_LOG_INFO, "SyncVariables: %d variables of other towers are copies of the first one's.", n);
    return b->sync = ops ? tp_group(g, ops, n, "sync_variables_from_main_tower") : tp_poison(g);
}

static tp_status tp__register_sync(tp_trainer *t)
{
    tp_cb_run_op_desc d;
    if (!t->multi_ || !t->multi_->own_variables || t->n_devices == 1) return TP_OK;
    memset(&d, 0, sizeof d);
    d.fn = tp__sync_variables;
    d.user = t->multi_;
    d.run_as_trigger = t->multi_->broadcast ? TP_YES : TP_NO;
    d.verbose = TP_YES;
    tp_callback *cb = tp_cb_run_op_(&d);
    if (cb) cb->name = "SyncVariables";
    return tp_trainer_register_callback(t, cb);
}

/* Copies the first tower's variables to the others before the first step of an epoch: callbacks may have set some of the first
 * tower after SyncVariables. In the middle of an epoch copies may differ, as batch norm's averages do, and stay as they were saved. */
static tp_status tp__sync_before_steps(tp_trainer *t, int64_t first)
{
    const tp__multi *b = t->multi_;
    const tp_train_state *s = &t->state;
    const bool begins = s->epoch_num == s->starting_epoch && !s->resumed;
    if (!b || !b->sync || first > 0 || !(b->broadcast || begins)) return TP_OK;
    return tp_session_run(s->session, NULL, 0, &b->sync, 1, NULL);
}

/* Builds all towers, then gradients and updates. */
static void tp__multi_towers(tp__multi *b)
{
    tp_trainer *t = b->t;
    tp_graph *g = t->graph;
    tp_towers_desc d;
    tp_variable_scope_desc scope;
    memset(&d, 0, sizeof d);
    memset(&scope, 0, sizeof scope);
    d.n = t->n_devices;
    d.devices = t->devices;
    d.own_variables = b->own_variables;
    scope.no_name_scope = true;
    if (!b->own_variables) scope.getter = tp__spread_getter, scope.getter_user = b;
    b->cost = (tp_node **)tp_graph_alloc(g, (size_t)d.n * sizeof(tp_node *));
    b->elements = (int64_t *)tp_graph_alloc(g, (size_t)d.n * sizeof(int64_t));
    if (!b->cost || !b->elements) return;
    tp_variable_scope_push(g, &scope);
    tp_build_on_towers(g, &d, tp__multi_tower, b, b->cost);
    tp_variable_scope_pop(g);
    if (tp_graph_status(g) != TP_OK || !tp__find_trained(b)) return;
    tp_device_enter(g, tp__tower_device(t, 0));
    if (b->own_variables) tp__replicated_update(b);
    else if (b->async) tp__async_update(b);
    else tp__server_update(b);
    if (tp_graph_status(g) == TP_OK) /* fetches the sum of all costs, so that a NaN in any tower's cost is found */
        t->cost = d.n == 1 ? b->cost[0] : tp_named(tp__divided(tp__sum_of_costs(b), d.n), "mean_cost_of_towers");
    tp_device_leave(g);
}

/* Where the config names more devices than the towers use, the one with the number of the host may be a GPU. */
static void tp__choose_host(const tp_trainer *t)
{
    const tp_session_config *c = &t->creator.config;
    tp__multi *b = t->multi_;
    if (b->host < 0 || t->creator.borrowed || !c->devices || b->host >= c->n_devices) return;
    if (c->devices[b->host] && !c->devices[b->host]->host) b->host = c->n_devices;
}

static tp_status tp__multi_build(tp_trainer *t, const tp_model *m)
{
    tp__multi *b = t->multi_;
    t->has_own_towers_ = true;
    tp__choose_host(t);
    if (t->n_devices > 1 && !t->input_->feedfree)
        return tp_fail(TP_ERR_ARG,
                       "%s: '%s' feeds one tower, there are %d: give a QueueInput, or the dataflow itself as .dataflow",
                       t->name, t->input_->name, t->n_devices);
    b->t = t;
    b->model = m;
    tp__multi_towers(b);
    return tp__graph_result(t->graph);
}

/* Returns the number of devices that the graph uses. */
static int tp__graph_devices(const tp_graph *g)
{
    int n = 1;
    for (int i = 0; i < tp_graph_n_operations(g); i++)
        if (tp_graph_operation(g, i)->device >= n) n = tp_graph_operation(g, i)->device + 1;
    return n;
}

/* Adds to the session's config the CPU devices that the graph needs, if the config names no devices, and one for the host. */
static tp_status tp__session_for_towers(tp_trainer *t)
{
    tp_session_config *c = &t->creator.config;
    const tp__multi *b = t->multi_;
    const bool host = b && b->host >= 0;
    if (t->xla_compile == TP_NO) c->no_fusion = true;
    if (t->creator.borrowed) return TP_OK;
    if (c->n_cpu_devices < 0) return tp_fail(TP_ERR_ARG, "a session cannot have %d CPU devices", c->n_cpu_devices);
    const int towers = tp__tower_devices(t), all = towers + host, used = tp__graph_devices(t->graph);
    const int given = c->devices && c->n_devices > 0 ? c->n_devices : 0;
    int n_device = given + c->n_cpu_devices;
    if (!given && n_device < used) n_device = c->n_cpu_devices = used;
    if (host && n_device == b->host) n_device = given + ++c->n_cpu_devices;
    if (b && b->own_variables && b->mode == TP_ALL_REDUCE_NCCL) {
        bool everywhere =
            true; /* built without NCCL, the devices add the towers' gradients in the order of the towers */
        for (int i = 0; i < given; i++)
            everywhere = everywhere && c->devices[i] && (c->devices[i]->host || c->devices[i]->all_reduce);
        if (everywhere || !b->mode_is_auto) c->nccl_all_reduce = true;
    }
    if (!b || n_device >= all) return TP_OK;
    return tp_fail(TP_ERR_ARG, "%s has a tower on device %d, but the session's config has %d device%s, numbered from 0",
                   t->name, towers - 1, n_device, n_device == 1 ? "" : "s");
}

/* The common part of the constructors of the three multi-GPU trainers. The graph's status keeps an error, which
 * setup_graph reports. NULL: out of memory. */
static tp_trainer *tp__multi_new(const char *name, tp_at at, int n, const int *devices)
{
    const bool ok = n >= 1 && n <= TP_MAX_OUTPUTS;
    tp_trainer *t = tp__trainer_new(name);
    tp__multi *b = (tp__multi *)tp_calloc(1, sizeof *b + (size_t)(ok ? n : 1) * sizeof(int));
    if (!t || !b) {
        tp_free(b);
        tp_trainer_free(t);
        return NULL;
    }
    int *copy = (int *)(void *)(b + 1);
    b->host = -1;
    t->multi_ = b;
    t->devices = copy;
    t->n_devices = ok ? n : 1;
    t->build = tp__multi_build;
    if (!ok)
        tp_graph_fail(t->graph, &at, TP_ERR_ARG, "%s: .n_devices is %d: it must be 1 to %d", name, n, TP_MAX_OUTPUTS);
    for (int i = 0; i < n && ok; i++) {
        copy[i] = devices ? devices[i] : i;
        if (copy[i] >= 0) continue;
        tp_graph_fail(t->graph, &at, TP_ERR_ARG, "%s: .devices[%d] is %d: devices are numbered from 0", name, i,
                      copy[i]);
        copy[i] = 0;
    }
    return t;
}

TP_DEF tp_trainer *tp_sync_multi_gpu_trainer_replicated_(const tp_sync_multi_gpu_trainer_replicated_desc *d)
{
    TP__REQUIRE(d, NULL)
    tp_trainer *t = tp__multi_new("SyncMultiGPUTrainerReplicated", d->at_, d->n_devices, d->devices);
    if (!t) return NULL;
    const int n = t->n_devices;
    tp__multi *b = t->multi_;
    b->own_variables = true;
    b->average = d->average != TP_NO;
    b->broadcast = d->broadcast_every_epoch != TP_NO;
    b->mode = d->mode;
    if (b->mode == TP_ALL_REDUCE_HIERARCHICAL && n != 8) {
        tp_log(TP_LOG_WARN, "%s: the mode 'hierarchical' is for 8 devices, not %d: one is chosen.", t->name, n);
        b->mode = TP_ALL_REDUCE_AUTO;
    }
    b->mode_is_auto = b->mode == TP_ALL_REDUCE_AUTO;
    if (b->mode_is_auto) b->mode = n == 8 ? TP_ALL_REDUCE_HIERARCHICAL : TP_ALL_REDUCE_NCCL;
    if (b->mode == TP_ALL_REDUCE_CPU && n > 1) b->host = tp__tower_devices(t);
    return t;
}

TP_DEF tp_trainer *tp_sync_multi_gpu_trainer_parameter_server_(const tp_sync_multi_gpu_trainer_parameter_server_desc *d)
{
    TP__REQUIRE(d, NULL)
    tp_trainer *t = tp__multi_new("SyncMultiGPUTrainerParameterServer", d->at_, d->n_devices, d->devices);
    if (!t) return NULL;
    tp__multi *b = t->multi_;
    b->on_host = d->ps_device == TP_ON_CPU || (d->ps_device == TP_ON_AUTO && d->n_devices > 2);
    if (b->on_host) b->host = tp__tower_devices(t);
    return t;
}

TP_DEF tp_trainer *tp_async_multi_gpu_trainer_(const tp_async_multi_gpu_trainer_desc *d)
{
    TP__REQUIRE(d, NULL)
    tp_trainer *t = tp__multi_new("AsyncMultiGPUTrainer", d->at_, d->n_devices, d->devices);
    if (!t) return NULL;
    tp__multi *b = t->multi_;
    b->async = true;
    b->scale_gradient = d->scale_gradient != TP_NO;
    b->on_host = d->n_devices >= 4;
    if (b->on_host) b->host = tp__tower_devices(t);
    return t;
}

TP_DEF tp_trainer *tp_default_multi_gpu_trainer(int n_devices, const int *devices)
{
    tp_sync_multi_gpu_trainer_parameter_server_desc d;
    memset(&d, 0, sizeof d);
    d.n_devices = n_devices;
    d.devices = devices;
    d.ps_device = TP_ON_CPU;
    return tp_sync_multi_gpu_trainer_parameter_server_(&d);
}

/* -- predictors of a trainer */

TP_DEF tp_status tp_trainer_set_tower_func(tp_trainer *t, tp_tower_func *f)
{
    TP__REQUIRE(t && f, TP_ERR_ARG)
    if (f->graph != t->graph)
        return tp_fail(TP_ERR_ARG, "%s: the tower function is of another graph than the trainer's", t->name);
    if (t->state.tower_func || t->callbacks_ready_)
        return tp_fail(TP_ERR_STATE, "%s: the tower function is set once, before the callbacks", t->name);
    t->state.tower_func = f;
    return TP_OK;
}

TP_DEF tp_tower_handles tp_trainer_towers(tp_trainer *t)
{
    return tp_tower_func_towers(t ? t->state.tower_func : NULL, TP_TOWERS_ALL);
}

TP_DEF const tp_spec *tp_trainer_inputs_desc(tp_trainer *t, int *n)
{
    if (n) *n = 0;
    TP__REQUIRE(t && n, NULL)
    return t->state.tower_func ? tp_tower_func_signature(t->state.tower_func, n) : NULL;
}

/* Builds or finds the inference tower of the predictors on a device; NULL after an error. */
static const tp_tower_handle *tp__predictor_tower(tp_trainer *t, int device)
{
    char name[40];
    int n = 0;
    tp_graph *g = t->graph;
    tp_tower_func *f = t->state.tower_func;
    const tp_spec *spec = tp_tower_func_signature(f, &n);
    snprintf(name, sizeof name, "tower-pred-%d", device);
    const tp_tower_handle *h = tp__tower_named(tp_tower_func_towers(f, TP_TOWERS_ALL), name);
    if (h) return h;
    tp_node **in = (tp_node **)tp_graph_alloc(g, ((size_t)n + 1) * sizeof *in);
    if (!in) return NULL;
    const bool finalized = g->finalized;
    g->finalized = false; /* allowed while training, because the new nodes do not change existing ones */
    if (tp__predict_tower_enter(f, name, device)) {
        for (int i = 0; i < n; i++) in[i] = tp_placeholder(g, spec[i].name, spec[i].dtype, spec[i].shape);
        tp_tower_func_call(f, in);
    }
    tp__predict_tower_leave(f);
    g->finalized = finalized;
    if (tp__graph_result(g) != TP_OK) return NULL;
    return tp_tower_func_find(f, name);
}

/* Finds nodes of the tower by their names. */
static tp_node *tp__predictor_find(const tp_tower_handle *h, const char *name, const char *role)
{
    char near[TP__NEAREST_TEXT];
    tp_node *n = name ? tp__tower_node(h, name) : NULL;
    if (!n && name) n = tp__node_named(h->ctx.graph, name);
    if (!n)
        tp_fail(TP_ERR_NAME, "get_predictor: the tower '%s' has no %s '%s'%s", h->ctx.ns_name, role,
                name ? name : "NULL", name ? tp__node_near(h->ctx.graph, name, near) : "");
    return n;
}

TP_DEF tp_predictor *tp_trainer_get_predictor(tp_trainer *t, const char *const *input_names, int n_inputs,
                                              const char *const *output_names, int n_outputs, int device)
{
    TP__REQUIRE(t && output_names && n_outputs > 0 && n_inputs >= 0 && (input_names || n_inputs == 0), NULL)
    int n_in = 0;
    const tp_spec *spec = tp_trainer_inputs_desc(t, &n_in);
    if (!spec || device < 0) {
        tp_fail(spec ? TP_ERR_ARG : TP_ERR_STATE,
                spec ? "%s: get_predictor: devices are numbered from 0" : "%s: get_predictor comes after setup_graph",
                t->name);
        return NULL;
    }
    if (input_names) n_in = n_inputs;
    const tp_tower_handle *h = tp__predictor_tower(t, device);
    tp_node **node = (tp_node **)tp_calloc((size_t)n_in + (size_t)n_outputs, sizeof *node);
    bool ok = h && node;
    for (int i = 0; i < n_in && ok; i++)
        ok = (node[i] = tp__predictor_find(h, input_names ? input_names[i] : spec[i].name, "input")) != NULL;
    for (int i = 0; i < n_outputs && ok; i++)
        ok = (node[n_in + i] = tp__predictor_find(h, output_names[i], "tensor")) != NULL;
    tp_predictor *p = ok ? tp__predictor_new(t->graph, node, n_in, node + n_in, n_outputs) : NULL;
    tp_free((void *)node);
    if (p && t->state.session && tp__predictor_attach(p, t->state.session) != TP_OK) {
        tp_predictor_free(p);
        p = NULL;
    }
    if (!p) return NULL;
    p->owner_.who = t->name;
    p->next = t->predictors_;
    t->predictors_ = p;
    return p;
}

TP_DEF tp_status tp_trainer_set_seed(tp_trainer *t, uint64_t seed)
{
    TP__REQUIRE(t, TP_ERR_ARG)

    tp_graph_config c;
    memset(&c, 0, sizeof c);
    if (t->graph_ready_ || t->callbacks_ready_ || t->state.tower_func || tp_graph_n_operations(t->graph) > 0)
        return tp_fail(TP_ERR_STATE, "%s: the seed is set before anything is built", t->name);
    /* a constructor has failed: return its error */
    if (tp_graph_status(t->graph) != TP_OK) return tp__graph_result(t->graph);
    c.seed = seed;
    tp_graph *g = tp_graph_new(&c);
    if (!g) return TP_ERR_NOMEM;
    tp__graph_delete(t->graph);
    g->owner_.who = t->name;
    t->graph = t->state.graph = g;
    return TP_OK;
}

/* Frees the objects of a trainer. The input comes first: its threads may use predictors and what callbacks own. What uses the session
 * comes before the session, and what has nodes before the graph. */
static void tp__trainer_delete(tp_trainer *t)
{
    if (!t) return;
    tp__ranks_leave(t, TP_ERR);
    tp__input_delete(t->input_);
    for (int i = 0; i < t->n_callback_; i++) tp__callback_delete(t->callback_[i]);
    tp_free((void *)t->callback_);
    tp__callback_delete(t->group_);
    tp__hooked_session_delete(t->state.hooked_session);
    while (t->predictors_) {
        tp_predictor *next = t->predictors_->next;
        tp__predictor_delete(t->predictors_);
        t->predictors_ = next;
    }
    /* on the host buckets lie in the session's memory */
    if (t->owns_session_ && !tp__ranks_awaited(t)) tp__session_delete(t->state.session);
    tp__ranks_free(t);
    tp__graph_delete(t->graph);
    tp_free(t->multi_);
    tp_free(t);
}
TP_DEF void tp_trainer_free(tp_trainer *t)
{
    if (t && tp__may_free(&t->owner_, __func__, t->name)) tp__trainer_delete(t);
}

TP_DEF tp_monitors *tp_trainer_monitors(tp_trainer *t)
{
    TP__REQUIRE(t, NULL)
    return t->state.monitors;
}

/* -- the four calls: graph */

/* Resets the input if it was reset before, or if it was not. The first reset comes after the before_train of all callbacks, so that a
 * thread that reads ahead sees what they set, or at the first run if one of them runs a step. */
static tp_status tp__input_reset_if(tp_input_source *in, bool was_reset)
{
    if (!in || !tp_input_setup_done(in)) return TP_OK;
    return tp__input_kind(in)->was_reset_ == was_reset ? tp_input_reset_state(in) : TP_OK;
}
static tp_status tp__input_before_train(tp_callback *cb) { return tp__input_reset_if(cb->train->input, true); }

/* The callbacks of the input: its hooks, then one that resets it in before_train if it ran before. The hooks get the session first:
 * a StagingInput that gets its session drops the batches that it has read, and a flow with only one pass cannot give them again. */
static tp_status tp__register_input(tp_trainer *t)
{
    int n = 0;
    tp_hook *const *hooks = NULL;
    tp_status st = tp__input_hooks_of(t->input_, &hooks, &n);
    tp_callback *reset = tp_callback_new("InputReset", 0);
    if (reset) {
        reset->chief_only = false;
        reset->before_train = tp__input_before_train;
    }
    for (int i = 0; i < n && st == TP_OK; i++) st = tp_trainer_register_callback(t, tp_cb_hook(hooks[i]));
    if (st == TP_OK) return tp_trainer_register_callback(t, reset);
    tp__callback_delete(reset);
    return st;
}

static void tp__drop_input(tp_input_source *input)
{
    if (input && !input->owner_.who) tp__input_delete(input);
}

/* Builds the towers. A trainer of several devices or ranks refuses a function that leaves out its own, since nothing would then
 * join the gradients. */
static tp_status tp__build_towers(tp_trainer *t, const tp_model *m)
{
    const unsigned n_errors = tp__n_errors;
    tp__ranks_offer_means(t);
    tp_status st = tp__add_missing_sentence(t->name, n_errors, t->build(t, m));
    if (st == TP_OK) st = tp__graph_result(t->graph);
    if (st == TP_OK && tp_current_tower_context(t->graph))
        st = tp_fail(TP_ERR_STATE, "%s: the tower '%s' is still open after build: tp_tower_leave is missing", t->name,
                     tp_current_tower_context(t->graph)->ns_name);
    if (st == TP_OK && (t->multi_ || t->ranks_) && !t->has_own_towers_)
        st = tp_fail(TP_ERR_UNSUPPORTED,
                     "%s: .build was replaced, but only its own function joins the gradients of its devices or ranks: "
                     "take tp_queue_input_trainer or tp_simple_trainer, whose .n_devices may be set, or call the "
                     "function that was there before from yours",
                     t->name);
    return st;
}

TP_DEF tp_status tp_trainer_setup_graph(tp_trainer *t, const tp_model *m, tp_input_source *input)
{
    if (!t || !m) {
        tp__drop_input(input);
        TP__REQUIRE(t && m, TP_ERR_ARG)
    }
    if (t->graph_ready_ || t->callbacks_ready_) {
        tp__drop_input(input);
        return tp_fail(TP_ERR_STATE, "%s: setup_graph comes once, and before the callbacks", t->name);
    }
    if (input && !tp__set_owner(&input->owner_, input->name, t->name, NULL)) return TP_ERR_ARG;
    t->graph_ready_ = true;
    t->input_ = t->state.input = input;
    if (!input)
        return tp_fail(TP_ERR_ARG, "%s: the input source is NULL: none was given, or there was no memory for it",
                       t->name);
    if (!m->inputs || m->n_inputs < 1 || !m->build_graph)
        return tp_fail(TP_ERR_ARG, "%s: the model needs .inputs, .n_inputs and .build_graph: %s is missing", t->name,
                       !m->inputs        ? ".inputs"
                       : m->n_inputs < 1 ? ".n_inputs"
                                         : ".build_graph");
    if (!t->build) return tp_fail(TP_ERR_ARG, "%s: its function build is NULL, so no tower can be built", t->name);
    if (t->n_devices < 0)
        return tp_fail(TP_ERR_ARG, "%s: .n_devices is %d: give the number of towers, or 0 for one", t->name,
                       t->n_devices);
    t->state.tower_func = tp_tower_func_new(t->graph, m->build_graph, m->user, m->inputs, m->n_inputs);
    tp_status st = tp__graph_result(t->graph);
    if (st == TP_OK) st = tp_input_setup(input, t->graph, m->inputs, m->n_inputs);
    if (st == TP_OK) st = tp__build_towers(t, m);
    if (st == TP_OK) st = tp__register_input(t);
    return st == TP_OK ? tp__register_sync(t) : st;
}

/* -- the four calls: callbacks */

TP_DEF tp_status tp_trainer_register_callback(tp_trainer *t, tp_callback *cb)
{
    return tp_trainer_register_callback_ex(t, cb, NULL);
}

TP_DEF tp_status tp_trainer_register_callback_ex(tp_trainer *t, tp_callback *cb, bool *registered)
{
    if (registered) *registered = false;
    tp_status st = tp_callback_status(cb);
    if (cb && cb->owner_.who)
        return tp__set_owner(&cb->owner_, cb->name, t ? t->name : "a trainer", NULL) ? TP_OK : TP_ERR_ARG;
    if (st == TP_OK && !t) st = tp__misuse(__func__, "t");
    if (st == TP_OK && t->callbacks_ready_)
        st = tp_fail(TP_ERR_STATE, "%s: '%s' comes too late: the callbacks are set up", t->name, cb->name);
    if (st == TP_OK && cb->chief_only && !t->state.is_chief) {
        tp_log(TP_LOG_WARN, "Callback %s is chief-only, skipped.", cb->name);
        tp__callback_delete(cb);
        return TP_OK;
    }
    if (st == TP_OK && t->n_callback_ == t->cap_callback_) {
        const int cap = t->cap_callback_ ? t->cap_callback_ * 2 : 16;
        tp_callback **list = (tp_callback **)tp_realloc((void *)t->callback_, (size_t)cap * sizeof *list);
        if (list) {
            t->callback_ = list;
            t->cap_callback_ = cap;
        } else {
            st = TP_ERR_NOMEM;
        }
    }
    if (st == TP_OK) {
        t->callback_[t->n_callback_++] = cb;
        cb->owner_.who = t->name;
        if (registered) *registered = true;
    } else {
        tp__callback_delete(cb);
    }
    return st;
}

/* Frees item i of a list of callbacks or monitors that no trainer took over, unless the item has an owner or was freed already. */
static void tp__drop_listed(void *const *list, int i)
{
    if (!tp__listed_before((const void *const *)(const void *)list, i)) tp__drop_callback((tp_callback *)list[i]);
}

/* A monitor may by mistake be in both lists, of callbacks and of monitors. It is then freed with the monitors. */
static bool tp__among_monitors(const tp_callback *cb, tp_monitor *const *monitors, int n_monitors)
{
    for (int i = 0; monitors && i < n_monitors; i++)
        if (cb && monitors[i] && cb == &monitors[i]->cb) return true;
    return false;
}

static void tp__free_lists(tp_callback *const *callbacks, int n_callbacks, tp_monitor *const *monitors, int n_monitors)
{
    for (int i = 0; callbacks && i < n_callbacks; i++)
        if (!tp__among_monitors(callbacks[i], monitors, n_monitors))
            tp__drop_listed((void *const *)(const void *)callbacks, i);
    for (int i = 0; monitors && i < n_monitors; i++) tp__drop_listed((void *const *)(const void *)monitors, i);
}

static void tp__log_variables(tp_graph *g)
{
    tp_buf text;
    memset(&text, 0, sizeof text);
    tp_graph_describe_variables(g, &text);
    if (text.len && !text.failed) tp_log(TP_LOG_INFO, "%s", text.data);
    tp_buf_free(&text);
}

static tp_status tp__cost_before_run(tp_callback *cb, tp_run_request *r)
{
    return tp_request_fetch(r, ((const tp_trainer *)cb->user)->cost) < 0 ? r->status : TP_OK;
}

/* The first tensor without an element that the last run was fed; NULL: there was none. */
static const tp_feed *tp__empty_feed(const tp_hooked_session *h)
{
    for (int i = 0; h && i < h->request.n_feed; i++)
        if (tp_shape_size(&h->request.feed[i].value.shape) == 0) return &h->request.feed[i];
    return NULL;
}

static tp_status tp__cost_after_run(tp_callback *cb, const tp_run_values *v)
{
    const tp_train_state *s = cb->train;
    const double cost = tp_tensor_get(v->value[0], 0);
    tp_trainer *t = (tp_trainer *)cb->user;
    char shape[TP_SHAPE_TEXT];
    const bool is_nan = tp__is_not_a_number(cost), is_infinite = !is_nan && !tp__finite(cost);
    if (is_infinite && cost > 0 && !t->was_infinite_) {
        t->was_infinite_ = true;
        tp_log(TP_LOG_WARN, "the cost '%s' is infinite after step %lld of epoch %lld: averages over it do not recover",
               tp_node_name(t->cost), (long long)s->local_step + 1, (long long)s->epoch_num);
    }
    if (!is_nan && !(is_infinite && cost < 0)) return TP_OK; /* no cost is below -inf: nothing is left to learn */
    const tp_feed *empty = is_nan ? tp__empty_feed(s->hooked_session) : NULL;
    if (empty)
        return tp_fail(TP_ERR_NUMERIC,
                       "the cost '%s' is NaN after step %lld of epoch %lld (global_step=%lld): the batch has 0 rows, "
                       "'%s' was fed %s, and a mean over nothing is NaN. Leave empty batches out of the data, with "
                       "tp_df_filter",
                       tp_node_name(t->cost), (long long)s->local_step + 1, (long long)s->epoch_num,
                       (long long)s->global_step, tp_node_name(empty->node), tp_shape_text(&empty->value.shape, shape));
    return tp_fail(
        TP_ERR_NUMERIC,
        "the cost '%s' is %s after step %lld of epoch %lld (global_step=%lld). Lower the learning rate, or look for "
        "what makes it, perhaps the data, with tp_cb_debug_cli(.run_filter = \"has_inf_or_nan\"). "
        ".stop_on_nan = TP_NO goes on all the same",
        tp_node_name(t->cost), is_nan ? "NaN" : "-inf", (long long)s->local_step + 1, (long long)s->epoch_num,
        (long long)s->global_step);
}

/* Registers the callback that ends the training when the cost is NaN or -inf. */
static tp_status tp__register_cost(tp_trainer *t)
{
    /* a NoOpTrainer computes what callbacks fetch, and no more */
    if (!t->cost || t->stop_on_nan == TP_NO || t->run_step == tp__step_hooks_only) return TP_OK;
    tp_callback *cb = tp_callback_new("StopOnNaN", 0);
    if (cb) {
        cb->user = t;
        cb->chief_only = false;
        cb->before_run = tp__cost_before_run;
        cb->after_run = tp__cost_after_run;
    }
    return tp_trainer_register_callback(t, cb);
}

/* Returns TP_ERR_NOMEM if the list contains NULL: constructors return NULL only when memory is exhausted. */
static tp_status tp__check_list(const char *name, const void *const *list, int n)
{
    for (int i = 0; i < n; i++)
        if (!list[i])
            return tp_fail(
                TP_ERR_NOMEM,
                "%s[%d] of %d is NULL: its constructor found no memory, or the list is not there any more (one "
                "written as a literal is gone with the { } that it stands in)",
                name, i, n);
    return TP_OK;
}
/* A list that was given without its number, or a number without its list. */
static tp_status tp__check_count(const char *name, const void *list, int n)
{
    if (n < 0 && n != TP_NONE) return tp_fail(TP_ERR_ARG, ".n_%s is %d: it cannot be negative", name, n);
    if (n > 0 && !list)
        return tp_fail(TP_ERR_ARG,
                       ".n_%s is %d, but .%s is NULL: TP_CALLBACKS, TP_EXTRA_CALLBACKS and TP_MONITORS set both", name,
                       n, name);
    if (list && n == 0)
        tp_log(
            TP_LOG_WARN,
            ".%s is a list, but .n_%s is 0, so nothing of it is used: TP_CALLBACKS, TP_EXTRA_CALLBACKS and TP_MONITORS "
            "set both. For an empty list leave .%s out.",
            name, name, name);
    return TP_OK;
}
static tp_status tp__check_counts(const tp_train_desc *d)
{
    tp_status st = tp__check_count("callbacks", (const void *)d->callbacks, d->n_callbacks);
    if (st == TP_OK) st = tp__check_count("extra_callbacks", (const void *)d->extra_callbacks, d->n_extra_callbacks);
    return st == TP_OK ? tp__check_count("monitors", (const void *)d->monitors, d->n_monitors) : st;
}
static tp_status tp__check_callbacks(const char *name, tp_callback *const *list, int n)
{
    return tp__check_list(name, (const void *const *)(const void *)list, n);
}
static tp_status tp__check_monitors(tp_monitor *const *list, int n)
{
    return tp__check_list("monitors", (const void *const *)(const void *)list, n);
}

/* Appends the callbacks in order, then each accepted monitor, then the dispatcher over the monitors. Takes over all of
 * them. */
static tp_status tp__register_all(tp_trainer *t, tp_callback *const *callbacks, int n_callbacks,
                                  tp_monitor *const *monitors, int n_monitors)
{
    tp_status st = tp_trainer_register_callback(t, tp_cb_maintain_step_counter());
    if (st == TP_OK) st = tp__register_cost(t);
    for (int i = 0; i < n_callbacks; i++) {
        if (st == TP_OK && callbacks[i] && callbacks[i]->is_monitor)
            st = tp_fail(TP_ERR_ARG, "the monitor '%s' is among the callbacks: give it as one of the .monitors",
                         callbacks[i]->name);
        if (st == TP_OK) st = tp_trainer_register_callback(t, callbacks[i]);
        else if (!tp__among_monitors(callbacks[i], monitors, n_monitors))
            tp__drop_listed((void *const *)(const void *)callbacks, i);
    }
    tp_monitor **accepted = (tp_monitor **)tp_calloc((size_t)(n_monitors > 0 ? n_monitors : 0) + 1, sizeof *accepted);
    int n = 0;
    if (!accepted && st == TP_OK) st = TP_ERR_NOMEM;
    for (int i = 0; i < n_monitors; i++) {
        bool is_registered = false;
        if (st == TP_OK) st = tp_trainer_register_callback_ex(t, monitors[i] ? &monitors[i]->cb : NULL, &is_registered);
        else tp__drop_listed((void *const *)(const void *)monitors, i);
        if (!is_registered) continue;
        accepted[n++] = monitors[i];
        monitors[i]->cb.train = &t->state; /* before setup_graph, so that callbacks may report to the monitors there */
    }
    tp_monitors *dispatcher = st == TP_OK ? tp_monitors_new(accepted, n) : NULL;
    tp_free((void *)accepted);
    if (st != TP_OK) return st;
    st = tp_trainer_register_callback(t, dispatcher ? &dispatcher->cb : NULL);
    if (st != TP_OK) return st;
    dispatcher->cb.train = &t->state; /* as those of the monitors */
    t->state.monitors = dispatcher;
    return TP_OK;
}

TP_DEF tp_status tp_trainer_setup_callbacks(tp_trainer *t, tp_callback *const *callbacks, int n_callbacks,
                                            tp_monitor *const *monitors, int n_monitors)
{
    const bool lists = (callbacks || n_callbacks <= 0) && (monitors || n_monitors <= 0);
    if (!t || !lists || t->callbacks_ready_) {
        tp__free_lists(callbacks, n_callbacks, monitors, n_monitors);
        TP__REQUIRE(t && lists, TP_ERR_ARG)
        return tp_fail(TP_ERR_STATE, "%s: the callbacks are set up once", t->name);
    }
    tp_status st = tp__check_callbacks("callbacks", callbacks, n_callbacks);
    if (st == TP_OK) st = tp__check_monitors(monitors, n_monitors);
    if (st != TP_OK) {
        tp__free_lists(callbacks, n_callbacks, monitors, n_monitors);
        return st;
    }
    tp__log_variables(t->graph);
    st = tp__register_all(t, callbacks, n_callbacks, monitors, n_monitors);
    t->callbacks_ready_ = true;
    t->failed_ = true; /* until the end of this function */
    if (st != TP_OK) return st;
    const int n = t->n_callback_;
    t->n_callback_ = 0; /* tp__group_new takes over the callbacks; on failure it frees them */
    t->group_ = tp__group_new(t->callback_, n);
    if (!t->group_) {
        t->state.monitors = NULL;
        return TP_ERR_NOMEM;
    }
    t->state.callbacks = t->callback_;
    t->state.n_callbacks = n;
    if (t->run_step != tp__step_hooks_only) t->state.cost = t->cost; /* a NoOpTrainer computes no cost unasked */
    if (!(t->hooks_[0] = tp_callback_to_hook(t->group_, NULL))) return TP_ERR_NOMEM;
    st = tp_callback_setup_graph(t->group_, &t->state);
    t->failed_ = st != TP_OK;
    return st;
}

/* -- the four calls: session */

/* Reads global_step from its variable, which a checkpoint may have set. */
static tp_status tp__read_global_step(tp_train_state *s)
{
    const tp_variable *v = tp_node_variable(tp_get_global_step_var(s->graph));
    tp_tensor value;
    memset(&value, 0, sizeof value);
    const tp_status st = v ? tp_session_read(s->session, v, &value) : tp__graph_result(s->graph);
    if (v && st == TP_OK) memcpy(&s->global_step, value.data, sizeof s->global_step);
    tp_tensor_free(&value);
    return st;
}

static void tp__drop_init(tp_session_init *init)
{
    if (init && !init->owner_.who) tp__session_init_delete(init);
}

TP_DEF tp_hook *const *tp_trainer_hooks(tp_trainer *t, int *n)
{
    if (n) *n = 0;
    TP__REQUIRE(t && n, NULL)
    *n = t->hooks_[0] ? 1 : 0;
    return t->hooks_;
}

TP_DEF tp_status tp_trainer_initialize_hooks(tp_trainer *t)
{
    TP__REQUIRE(t, TP_ERR_ARG)
    if (!t->state.session || t->state.hooked_session)
        return tp_fail(TP_ERR_STATE, "%s: initialize_hooks comes once, when there is a session", t->name);
    int n = 0;
    tp_hook *const *hooks = tp_trainer_hooks(t, &n);
    t->state.hooked_session = tp_hooked_session_new(t->state.session, hooks, n);
    if (t->state.hooked_session) t->state.hooked_session->owner_.who = t->name;
    return t->state.hooked_session ? TP_OK : TP_ERR_NOMEM;
}

TP_DEF tp_status tp_trainer_initialize(tp_trainer *t, tp_session_init *init)
{
    tp_status st = t ? TP_OK : tp__misuse(__func__, "t");
    if (st != TP_OK) {
        tp__drop_init(init);
        return st;
    }
    if (init && !tp__set_owner(&init->owner_, "a session_init", t->name, NULL)) return TP_ERR_ARG;
    if (t->initialized_ || !t->callbacks_ready_ || t->failed_)
        st = tp_fail(TP_ERR_STATE, "%s: initialize comes once, after setup_callbacks%s", t->name,
                     t->failed_ ? ", which has failed" : "");
    if (st == TP_OK) {
        t->initialized_ = t->failed_ = true;
        st = tp__graph_result(t->graph);
    }
    if (st == TP_OK) st = tp__session_init_setup(init, t->graph);
    if (st == TP_OK) st = tp__session_for_towers(t);
    if (st == TP_OK) st = tp__ranks_session(t);
    if (st == TP_OK) {
        tp_log(TP_LOG_INFO, "Creating the session ...");
        const unsigned n_errors = tp__n_errors;
        t->state.session = t->creator.create(&t->creator, t->graph);
        t->owns_session_ = t->state.session && !t->creator.borrowed;
        if (t->owns_session_) t->state.session->owner_.who = t->name;
        if (!t->state.session)
            st = n_errors != tp__n_errors ? tp__error_status
                                          : tp_fail(TP_ERR,
                                                    "%s: the session creator returned NULL without a sentence: "
                                                    "tp_fail gives one",
                                                    t->name);
    }
    for (tp_predictor *p = t->predictors_; p && st == TP_OK; p = p->next)
        st = tp__predictor_attach(p, t->state.session);
    if (st == TP_OK && t->initialize_hooks) {
        const unsigned n_errors = tp__n_errors;
        st = tp__add_missing_sentence(t->name, n_errors, t->initialize_hooks(t));
    } else if (st == TP_OK) {
        st = tp_trainer_initialize_hooks(t);
    }
    if (st == TP_OK && !t->state.hooked_session)
        st = tp_fail(TP_ERR_STATE, "%s: initialize_hooks set no state.hooked_session", t->name);
    if (st == TP_OK && init) {
        if (t->state.is_chief) st = tp__session_init_load(init, t->state.session);
        else tp_log(TP_LOG_WARN, "This is not the chief worker, 'session_init' was ignored!");
    }
    tp__session_init_delete(init);
    if (st == TP_OK) st = tp__ranks_initialize(t);
    if (st != TP_OK) return st;
    tp_graph_finalize(t->graph);
    st = tp__read_global_step(&t->state);
    t->failed_ = st != TP_OK;
    return st;
}

/* -- the four calls: the loop */

/* Warns if another number of ranks continues a training; the next checkpoint has the new number. */
static tp_status tp__check_saved_ranks(tp_trainer *t)
{
    tp_dict *d = tp_session_state(t->state.session);
    const int64_t now = t->ranks_ ? tp_size() : 1, before = tp__saved_ranks(t, d);
    if (before == now) return TP_OK;
    if (t->state.is_chief && t->state.resumed)
        tp_log(
            TP_LOG_WARN,
            "The checkpoint was made by %lld rank%s, this job has %lld: training goes on, but with other batches, so "
            "not with the bits that it would have had.",
            (long long)before, before == 1 ? "" : "s", (long long)now);
    return tp_state_put_i64(d, "tp:", "ranks", &now, 1);
}

/* State other than variables is used only when a training continues: when it starts at the epoch that follows the checkpoint's.
 * A checkpoint that was made within epoch 1 is known to be another run's only by auto-resume. */
static tp_status tp__resume_state(tp_trainer *t)
{
    tp_train_state *s = &t->state;
    int64_t epoch[2] = {0, 1};
    const bool has_epoch = tp_state_get_i64(tp_session_state(s->session), "tp:", "epoch", epoch, 2);
    if (has_epoch && epoch[0] + 1 != s->starting_epoch) {
        tp_log(TP_LOG_INFO,
               "The checkpoint is of epoch %lld, but training starts at epoch %lld: its variables are used, "
               "the position in the data "
               "is not. global_step begins at %lld.",
               (long long)epoch[0], (long long)s->starting_epoch, (long long)s->global_step);
    } else if (has_epoch && s->starting_epoch <= 1 && t->begins_anew_) {
        tp_log(TP_LOG_INFO,
               "The checkpoint was made within epoch %lld of another training, since this one's folder had none: its "
               "variables are used, the position in the data is not. global_step begins at %lld.",
               (long long)epoch[0] + 1, (long long)s->global_step);
    } else {
        const tp_status st = tp_train_state_load(s);
        if (st != TP_OK) return st;
    }
    return tp__check_saved_ranks(t);
}

static tp_status tp__is_setter(tp_callback *cb, void *user)
{
    (void)user;
    return cb->setup_graph == tp__setter_setup_graph ? TP_STOP : TP_OK;
}

/* Warns of a learning rate with which the variables do not change. A rate of 0 may be intended if a setter or the step
 * changes it later. */
static void tp__check_learning_rate(tp_trainer *t)
{
    tp_train_state *s = &t->state;
    tp_node *lr = t->learning_rate_;
    const tp_tensor *value = NULL;
    const bool plain = lr && lr->op->n_in == 0;
    if (!lr || tp__visit(s->callbacks, s->n_callbacks, tp__is_setter, NULL) == TP_STOP) return;
    /* uses its own exec, so that the random steps of the training do not advance */
    tp_exec *e = tp_exec_new(s->session);
    if (e && tp_exec_run(e, NULL, 0, &lr, 1, &value) == TP_OK && tp_tensor_size(value) == 1) {
        const double v = tp_tensor_get(value, 0);
        const tp_variable *variable = tp_node_variable(lr);
        if (variable && s->resumed && variable->init.kind == TP_INIT_CONSTANT && (float)v != variable->init.a)
            tp_log(TP_LOG_INFO,
                   "The learning rate '%s' is %g, from the checkpoint; the program's %g is not used. A "
                   "tp_cb_scheduled_hyper_param_setter changes it.",
                   tp_node_name(lr), v, (double)variable->init.a);
        if (tp__is_not_a_number(v) || v < 0 || (plain && !(v > 0)))
            tp_log(TP_LOG_WARN, "The learning rate '%s' is %g: %s.", tp_node_name(lr), v,
                   v < 0 ? "the cost will grow, because it must be positive" : "nothing will be learnt");
        else if (!(v > 0) && s->global_step > 0)
            tp_log(
                TP_LOG_WARN,
                "The learning rate '%s' is 0 at global_step %lld: has its schedule ended? A training that begins anew "
                "from a checkpoint's weights ignores its global_step (.ignore of tp_saver_restore_ex).",
                tp_node_name(lr), (long long)s->global_step);
    }
    tp_exec_free(e);
}

/* Returns the completed steps of the current epoch, if the checkpoint was made within an epoch. */
static int64_t tp__steps_done(tp_train_state *s)
{
    const tp_dict *d = tp_session_state(s->session);
    int64_t epoch[2], step = -1;
    if (!s->resumed || !tp_state_get_i64(d, "tp:", "epoch", epoch, 2) || epoch[1]) return 0;
    if (!tp_state_get_i64(d, "tp:", "local_step", &step, 1) || step < 0 || step >= s->steps_per_epoch) {
        tp_log(TP_LOG_WARN, "The checkpoint was made within epoch %lld, which begins anew.",
               (long long)s->starting_epoch);
        return 0;
    }
    tp_log(TP_LOG_INFO, "The checkpoint was made within epoch %lld, after step %lld of %lld.",
           (long long)s->starting_epoch, (long long)step + 1, (long long)s->steps_per_epoch);
    return step + 1;
}

/* Between two steps of an epoch, after Ctrl-C (why: TP_INTR) or at the end of the data (TP_END): requests and writes a checkpoint of
 * the steps that are done. Returns why, or the error of the checkpoint. */
static tp_status tp__save_within_epoch(tp_train_state *s, tp_status why)
{
    tp__ask_savers(s, why == TP_INTR);
    const tp_status st = tp_train_checkpoint(s, false);
    return st < 0 ? st : why;
}

/* Whether a run_step of the program's own runs, which may call tp_hooked_run several times. */
static bool tp__own_run_step(const tp_trainer *t)
{
    return t->run_step != tp__step_train_op && t->run_step != tp__step_hooks_only && t->run_step != tp__ranks_step;
}

/* Runs one step, including its callbacks. */
static tp_status tp__one_step(tp_trainer *t, int64_t i)
{
    tp_train_state *s = &t->state;
    const int64_t before = s->global_step;
    tp_status st = tp__trainer_poll(s);
    if (st != TP_OK) return st;
    t->finishing_ = "this step is finished";
    if (!t->run_step) return tp_fail(TP_ERR_ARG, "%s: its function run_step is NULL", t->name);
    st = tp__call_run_step(t);
    if (st == TP_OK || s->global_step != before) s->done_ = i + 1;
    t->partly_ = st != TP_OK && s->global_step != before && tp__own_run_step(t);
    /* several ranks do not all end at the same step, and the others may have more data: no checkpoint is written here */
    const bool data_ended = st == TP_END && s->global_step == before && !tp__has_other_ranks(t);
    if (st == TP_OK) st = tp_callback_trigger_step(t->group_);
    t->finishing_ = NULL;
    if (data_ended) return tp__save_within_epoch(s, TP_END);
    /* no checkpoint after the epoch's last step: the monitors first write the values of that step, at the end of the epoch */
    return st == TP_OK && i + 1 < s->steps_per_epoch ? tp__trainer_poll(s) : st;
}

/* Runs the callbacks at the end of an epoch, after its steps. */
static tp_status tp__epoch_end(tp_trainer *t, double t0)
{
    tp_train_state *s = &t->state;
    char time[TP_TIME_TEXT];
    t->finishing_ = "the callbacks of this epoch are finished";
    tp_status st = tp_callback_after_epoch(t->group_);
    if (st == TP_OK) {
        tp_log(TP_LOG_INFO, "Epoch %lld (global_step %lld) finished, time:%s.", (long long)s->epoch_num,
               (long long)s->global_step, tp_humanize_time_delta(tp_time() - t0, time));
        st = tp_callback_trigger_epoch(t->group_);
        s->within_ = st < 0 || st == TP_INTR; /* false: all steps and triggers of the epoch have run */
    }
    t->finishing_ = NULL;
    if (s->within_) return st;
    const tp_status interrupted = tp__trainer_poll(s);
    if (interrupted != TP_OK) tp__ask_savers(s, true);
    const tp_status saved = tp_train_checkpoint(s, true);
    return saved != TP_OK ? saved : st != TP_OK ? st : interrupted;
}

/* A run_step of the program's own calls tp_hooked_run once a step. Tells after the first epoch if it never did, or did more often. */
static void tp__check_runs(const tp_trainer *t, int64_t steps, int64_t runs)
{
    if (!tp__own_run_step(t) || steps <= 0) return;
    if (runs == 0)
        tp_log(TP_LOG_WARN, "%s: run_step ran nothing in %lld steps: it should call tp_hooked_run once a step", t->name,
               (long long)steps);
    if (runs > steps)
        tp_log(
            TP_LOG_WARN,
            "%s: run_step called tp_hooked_run %lld times in %lld steps: each call takes new data, runs the hooks of "
            "callbacks and counts in global_step, which .every_k_steps of a callback sees only after the last of them. "
            "One call with all nodes of a step does so once",
            t->name, (long long)runs, (long long)steps);
}

static tp_status tp__epoch(tp_trainer *t, int64_t first, bool *stop)
{
    tp_train_state *s = &t->state;
    tp_log(TP_LOG_INFO, "Start Epoch %lld ...", (long long)s->epoch_num);
    s->within_ = true;
    s->done_ = first;
    if (first > 0) s->local_step = first - 1; /* the epoch is resumed: before_epoch can tell */
    tp_status st = tp_callback_before_epoch(t->group_);
    if (st == TP_OK) st = tp__sync_before_steps(t, first);
    if (st == TP_OK) st = tp__ranks_before_steps(t);
    const double t0 = tp_time();
    const int64_t runs = s->global_step;
    for (int64_t i = first; i < s->steps_per_epoch && st == TP_OK; i++) {
        s->local_step = i;
        if (tp_hooked_session_should_stop(s->hooked_session)) {
            *stop = true;
            return TP_OK;
        }
        st = tp__one_step(t, i);
        if (st == TP_OK && s->due_ && i + 1 < s->steps_per_epoch) st = tp_train_checkpoint(s, false);
    }
    if (st == TP_INTR) return t->partly_ ? st : tp__save_within_epoch(s, TP_INTR);
    if (st == TP_OK && s->epoch_num == s->starting_epoch)
        tp__check_runs(t, s->steps_per_epoch - first, s->global_step - runs);
    return st == TP_OK ? tp__epoch_end(t, t0) : st;
}

static tp_status tp__all_epochs(tp_trainer *t)
{
    tp_train_state *s = &t->state;
    bool stop = false;
    tp_status st = tp__resume_state(t);
    if (st == TP_OK) st = tp_callback_before_train(t->group_);
    if (st == TP_OK) st = tp__input_reset_if(t->input_, false);
    /* read the step again, because a callback may have loaded a checkpoint */
    if (st == TP_OK) st = tp__read_global_step(s);
    t->begun_at_ = s->global_step;
    if (st == TP_OK) tp__check_learning_rate(t);
    if (st == TP_OK && s->steps_per_epoch == 0 && s->starting_epoch <= s->max_epoch)
        tp_log(TP_LOG_WARN,
               "The epochs have no steps: .steps_per_epoch was set to 0. Leave the option out for the size of the "
               "data.");
    /* go back to the saved random steps, so that runs before the training do not count as steps */
    if (st == TP_OK && s->resumed) st = tp__load_random_steps(s);
    tp__ranks_random(t);
    int64_t first = s->done_ = st == TP_OK ? tp__steps_done(s) : 0;
    if (st == TP_OK) st = tp_train_checkpoint(s, false);
    if (st == TP_OK && s->starting_epoch > s->max_epoch)
        tp_log(TP_LOG_INFO, "No epoch is left to train: the next one is %lld, and max_epoch is %lld.",
               (long long)s->starting_epoch, (long long)s->max_epoch);
    for (int64_t e = s->starting_epoch; e <= s->max_epoch && st == TP_OK && !stop; e++) {
        s->epoch_num = e;
        st = tp__epoch(t, first, &stop);
        if (st == TP_OK && tp_graph_status(s->graph) != TP_OK) /* by a callback, after the last step */
            st = tp_fail(tp_graph_status(s->graph), "%s", tp_graph_error(s->graph));
        first = 0;
    }
    if (st == TP_OK && !stop) tp_log(TP_LOG_INFO, "Training has finished!");
    return st;
}

typedef struct tp__unsaved {
    bool any;
    char first[TP__ERROR_TEXT];
} tp__unsaved;

static tp_status tp__report_unsaved(tp_callback *cb, void *user)
{
    tp__unsaved *u = (tp__unsaved *)user;
    if (!cb->unsaved) return TP_OK;
    tp_log(TP_LOG_ERROR, "%s: %s", cb->name, cb->unsaved);
    if (!u->any) snprintf(u->first, sizeof u->first, "%s: %s", cb->name, cb->unsaved);
    u->any = true;
    return TP_OK;
}

/* Warns of the steps that no checkpoint has, if the training ended before its last epoch. */
static void tp__warn_of_lost_steps(const tp_trainer *t, tp_status st)
{
    const tp_train_state *s = &t->state;
    tp__saved last = {-1, 0, false};
    if ((st != TP_STOP && st != TP_END && !(st == TP_INTR && t->partly_)) || !s->is_chief) return;
    tp__visit(s->callbacks, s->n_callbacks, tp__find_saved, &last);
    const bool saved = last.step >= t->begun_at_;
    const int64_t since = saved ? last.step : t->begun_at_, n = s->global_step - since;
    if (last.n == 0 || last.failed || n <= 0) return;
    const char *reason = "a training that is stopped within an epoch, not in trigger_epoch, saves nothing";
    if (t->partly_ && st != TP_STOP)
        reason = "run_step had done only some of the runs of a step, and no training can be resumed there";
    else if (!s->within_) reason = "no ModelSaver was triggered";
    tp_log(TP_LOG_WARN, "Not saved: the %lld step%s since %s (global_step=%lld): %s.", (long long)n, n == 1 ? "" : "s",
           saved        ? "the last checkpoint"
           : s->resumed ? "the training was resumed"
                        : "the training began",
           (long long)since, reason);
}

/* Calls after_train of all callbacks, writes a checkpoint if one was requested there, and logs every file that was not written. */
static tp_status tp__end_training(tp_trainer *t, tp_status st)
{
    tp_train_state *s = &t->state;
    tp__unsaved u;
    u.any = false;
    s->end_ = st;
    if (st < 0 || st == TP_INTR)
        tp__forget_checkpoint(s); /* the checkpoint was requested in a phase that not all callbacks completed */
    tp_callback_after_train(t->group_);
    const tp_status checkpoint_status = tp_train_checkpoint(s, false);
    if (checkpoint_status < 0)
        tp_log(TP_LOG_ERROR, "The checkpoint at the end of the training failed: %s", tp_last_error());
    tp__warn_of_lost_steps(t, st);
    tp__visit(s->callbacks, s->n_callbacks, tp__report_unsaved, &u);
    if (st == TP_STOP || st == TP_END) st = TP_OK;
    if (st == TP_OK && checkpoint_status < 0) st = checkpoint_status;
    return st == TP_OK && u.any && !t->unsaved_is_ok ? tp_fail(TP_ERR_IO, "%s", u.first) : st;
}

/* Logs why a training ended as a success before its last epoch, or was interrupted; false: it was neither. */
static bool tp__log_stop(const tp_trainer *t, tp_status st)
{
    const char *reason = t->state.stop_reason;
    if (st == TP_STOP) tp_log(TP_LOG_INFO, "Training was stopped%s%s.", *reason ? ": " : " by a callback", reason);
    else if (st == TP_END) tp_log(TP_LOG_INFO, "Training was stopped: the input has no more data.");
    else if (st == TP_INTR) tp_log(TP_LOG_INFO, "Detected Ctrl-C or tp_interrupt and exiting main loop.");
    return st == TP_STOP || st == TP_END || st == TP_INTR;
}

TP_DEF bool tp_interrupt(void) { return tp__os_interrupt_now(); }

TP_DEF tp_status tp_trainer_main_loop(tp_trainer *t, int64_t steps_per_epoch, int64_t starting_epoch, int64_t max_epoch)
{
    TP__REQUIRE(t, TP_ERR_ARG)

    tp_train_state *s = &t->state;
    char sentence[TP__ERROR_TEXT];
    if (t->looped_ || !t->initialized_ || t->failed_)
        return tp_fail(TP_ERR_STATE, "%s: main_loop comes once, after a successful initialize", t->name);
    if (steps_per_epoch < 0 || max_epoch < 0)
        return tp_fail(TP_ERR_ARG, "%s: %lld steps per epoch, %lld epochs: neither can be negative", t->name,
                       (long long)steps_per_epoch, (long long)max_epoch);
    if (starting_epoch < 0)
        return tp_fail(TP_ERR_ARG, "%s: starting_epoch is %lld: it cannot be negative", t->name,
                       (long long)starting_epoch);
    t->looped_ = true;
    const bool is_launched = t->owner_.who != NULL;
    if (!is_launched) t->owner_.who = "its training"; /* until it ends: its callbacks must not free it */
    const tp_status agreed = tp__ranks_agree(t, &starting_epoch, steps_per_epoch, max_epoch);
    s->steps_per_epoch = steps_per_epoch;
    s->starting_epoch = starting_epoch;
    s->max_epoch = max_epoch;
    s->epoch_num = starting_epoch - 1;
    s->stop_reason[0] = 0;
    tp__os_interrupt_listen();
    s->due_ = NULL;
    s->within_ = false;
    s->done_ = 0;

    tp_status st = agreed;
    tp__logger_training(1);
    if (st == TP_OK && !tp__ranks_serve(t, &st)) st = tp__all_epochs(t);
    /* the end of the job may have cancelled a callback's run */
    if (st == TP_ERR_CANCELLED) st = tp__ranks_after(t, st);
    tp__logger_training(-1);
    /* fetches the servers' values first, so that after_train saves them */
    if (st == TP_OK || st == TP_STOP || st == TP_END) {
        const tp_status collected = tp__ranks_collect(t);
        if (collected != TP_OK) st = collected;
    }
    tp__ranks_leave(t, st);
    snprintf(
        sentence, sizeof sentence, "%.1700s%s", st < 0 ? tp_last_error() : "",
        st < 0 && strstr(tp_last_error(), "must be fed: what is fetched depends on it")
            ? ". In a training tp_hooked_run feeds the data, for run_step and for what a before_run fetches; "
              "tp_session_run feeds nothing. Of tp_placeholder_input a callback feeds each one, by tp_request_feed in "
              "its before_run"
            : "");
    if (!tp__log_stop(t, st) && st < 0)
        tp_log(tp__job_reports_error(t) ? TP_LOG_DEBUG : TP_LOG_ERROR, "Training failed at global_step=%lld: %s",
               (long long)s->global_step, sentence);
    const tp_status end = tp__end_training(t, st);
    tp__os_interrupt_ignore();
    if (!is_launched) t->owner_.who = NULL;
    if (st == TP_OK || st == TP_STOP || st == TP_END) return end;
    if (st == TP_INTR) return tp_fail(TP_INTR, "training was interrupted by Ctrl-C or tp_interrupt");
    return st < 0 ? tp_fail(st, "%s", sentence) : st;
}

/* -- tp_train: the three calls in one */

static tp_status tp__train_steps(const tp_trainer *t, const tp_train_desc *d, int64_t *steps)
{
    TP__REQUIRE(t, TP_ERR_ARG)
    *steps = d->steps_per_epoch == TP_NO_STEPS ? 0 : d->steps_per_epoch;
    if (d->steps_per_epoch == 0 || *steps < 0)
        return tp_fail(TP_ERR_ARG, "%s: You must set .steps_per_epoch (TP_NO_STEPS for epochs without steps)%s",
                       t->name, *steps < 0 ? ": it is less than 0" : "");
    return TP_OK;
}

/* A training that a callback's setup_graph has stopped, or the chief before this rank began: a success, as in the loop. */
static tp_status tp__stopped_before(tp_trainer *t, tp_status st)
{
    tp_train_state *s = &t->state;
    if (tp__ranks_poll(t) == TP_STOP) snprintf(s->stop_reason, sizeof s->stop_reason, "by the chief");
    tp__ranks_leave(t, st);
    tp__log_stop(t, st);
    return TP_OK;
}

static tp_status tp__train_with(tp_trainer *t, const tp_train_desc *d, tp_callback *const *callbacks, int n_callbacks,
                                tp_monitor *const *monitors, int n_monitors)
{
    int64_t steps = 0;
    tp_session_init *init = d->session_init;
    tp_status st = tp__train_steps(t, d, &steps);
    if (st == TP_OK && d->stop_on_nan) t->stop_on_nan = d->stop_on_nan;
    if (st == TP_OK) st = tp_trainer_setup_callbacks(t, callbacks, n_callbacks, monitors, n_monitors);
    else tp__free_lists(callbacks, n_callbacks, monitors, n_monitors);
    if (st == TP_OK) {
        st = tp_trainer_initialize(t, init);
        init = NULL;
    }
    tp__drop_init(init);
    if (st == TP_STOP || st == TP_END) return tp__stopped_before(t, st);
    if (st != TP_OK) return st;
    if (d->unsaved_is_ok) t->unsaved_is_ok = d->unsaved_is_ok == TP_YES;
    return tp_trainer_main_loop(t, steps, tp__int_option(d->starting_epoch, 1), tp__int_option(d->max_epoch, 9999999));
}

static tp_status tp__is_progress_bar(tp_callback *cb, void *user)
{
    (void)user;
    return cb->before_epoch == tp__progress_before_epoch ? TP_STOP : TP_OK;
}

/* Makes one array of the callbacks, followed by the extra ones. The default callbacks are made here, so that a NULL
 * among them is found. */
static tp_status tp__train_lists(tp_trainer *t, const tp_train_desc *d, bool defaults)
{
    tp_callback *default_cb[TP_N_DEFAULT_CALLBACKS];
    tp_monitor *default_monitor[TP_N_DEFAULT_MONITORS];
    tp_callback *const *extra = d->extra_callbacks;
    tp_monitor *const *monitors = d->monitors;
    int n_extra = extra && d->n_extra_callbacks > 0 ? d->n_extra_callbacks : 0,
        n_monitors = monitors && d->n_monitors > 0 ? d->n_monitors : 0;
    const int n = d->callbacks && d->n_callbacks > 0 ? d->n_callbacks : 0;
    if (defaults && !extra && d->n_extra_callbacks != TP_NONE) {
        tp_default_callbacks(default_cb);
        extra = default_cb;
        n_extra = TP_N_DEFAULT_CALLBACKS;
        /* the program's takes its place, also inside a wrapper */
        if (default_cb[1] && tp__visit(d->callbacks, n, tp__is_progress_bar, NULL) == TP_STOP) {
            tp_callback_free(default_cb[1]);
            default_cb[1] = default_cb[--n_extra];
        }
    }
    if (defaults && !monitors && d->n_monitors != TP_NONE) {
        tp_default_monitors(default_monitor);
        monitors = default_monitor;
        n_monitors = TP_N_DEFAULT_MONITORS;
        /* the last default monitor writes report.html */
        if (d->report == TP_NO) tp_monitor_free(default_monitor[--n_monitors]);
    }
    tp_status st = tp__check_counts(d);
    if (st == TP_OK) st = tp__check_callbacks("callbacks", d->callbacks, n);
    if (st == TP_OK) st = tp__check_callbacks("extra_callbacks", extra, n_extra);
    if (st == TP_OK) st = tp__check_monitors(monitors, n_monitors);
    tp_callback **joined =
        st == TP_OK ? (tp_callback **)tp_malloc(((size_t)n + (size_t)n_extra + 1) * sizeof *joined) : NULL;
    if (!joined) {
        tp__free_lists(d->callbacks, n, monitors, n_monitors);
        tp__free_lists(extra, n_extra, NULL, 0);
        tp__drop_init(d->session_init);
        return st != TP_OK ? st : TP_ERR_NOMEM;
    }
    for (int i = 0; i < n; i++) joined[i] = d->callbacks[i];
    for (int i = 0; i < n_extra; i++) joined[n + i] = extra[i];
    st = tp__train_with(t, d, joined, n + n_extra, monitors, n_monitors);
    tp_free((void *)joined);
    return st;
}

TP_DEF tp_status tp_train(tp_trainer *t, const tp_train_desc *d)
{
    TP__REQUIRE(d, TP_ERR_ARG)
    return tp__train_lists(t, d, false);
}
TP_DEF tp_status tp_train_with_defaults(tp_trainer *t, const tp_train_desc *d)
{
    TP__REQUIRE(d, TP_ERR_ARG)
    return tp__train_lists(t, d, true);
}

/* ==== >>ranks ========================================================================================= */

#define TP__LEAST_PATIENCE 2 /* seconds: four heartbeats */
/* Options and state of a trainer that trains in several ranks. */
typedef struct tp__rank_state {
    bool average, deterministic, broadcast;
    tp_compression compression;
    int64_t bucket_bytes;
    struct tp__bucket *bucket; /* list of all buckets of gradients, and of the messages of means; the newest first */
    int n_bucket;
    int n_mean;          /* number of ops that average over the ranks for layers */
    tp_operation *mean;  /* the last of them */
    bool means_complete; /* the step has all of them: none may be added */
    int n_variable;      /* number of the graph's variables after the towers were built; equal on all ranks */
    tp_device *summing;  /* the device whose library sums the buckets; NULL: buckets are summed through the host */
    int64_t saved_ranks; /* number of ranks that made the checkpoint */
    double patience;     /* the option: 5 if it was 0 */
    int training;        /* serial number of the trainer in this process; equal on all ranks */
    bool left_training;  /* the other ranks were notified that this training has ended */
    bool asked_chief;    /* this rank was interrupted and has told the chief */
    /* the following fields are for parameter servers */
    int n_ps, n_worker, task;         /* number of servers; 0: there are none */
    int *server_ranks, *worker_ranks; /* ranks of the servers, and of the workers */
    /* serves: this rank is server number `task`; ordered: updates are made in the order of the workers */
    bool serves, ordered;
    struct tp__share *share; /* shares of the n_ps servers: each has its own variables */
    tp_optimizer *opt;
    tp_apply_fn *apply; /* the original apply_gradients of opt and of the optimizers that opt wraps */
    void *leaf_user;    /* the innermost optimizer's `user` pointer */
} tp__rank_state;

/* The number of ranks that made the checkpoint; 1 if it does not say, as one process does not. */
static int64_t tp__saved_ranks(const tp_trainer *t, const tp_dict *d)
{
    int64_t ranks = t->ranks_ ? t->ranks_->saved_ranks : 0;
    return ranks > 0 || tp_state_get_i64(d, "tp:", "ranks", &ranks, 1) ? ranks : 1;
}

#ifndef TP_MPI

TP_DEF int tp_rank(void) { return 0; }
TP_DEF int tp_size(void) { return 1; }
TP_DEF int tp_local_rank(void) { return 0; }
static tp_status tp__job_begin(double patience) { return (void)patience, TP_OK; }
static int tp__job_number(void) { return 0; }
static bool tp__job_reports_error(const tp_trainer *t) { return (void)t, false; }
static bool tp__has_other_ranks(const tp_trainer *t) { return (void)t, false; }
static bool tp__ranks_interrupted(tp_trainer *t, bool interrupted) { return (void)t, interrupted; }
static tp_status tp__ranks_poll(tp_trainer *t) { return (void)t, TP_OK; }
static tp_status tp__ranks_session(tp_trainer *t) { return (void)t, TP_OK; }
static tp_status tp__ranks_initialize(tp_trainer *t) { return (void)t, TP_OK; }
static tp_status tp__ranks_agree(tp_trainer *t, int64_t *starting_epoch, int64_t steps, int64_t max_epoch)
{
    return (void)t, (void)starting_epoch, (void)steps, (void)max_epoch, TP_OK;
}
static void tp__ranks_random(tp_trainer *t) { (void)t; }
static tp_status tp__ranks_leave(tp_trainer *t, tp_status st) { return (void)t, st; }
static void tp__ranks_reduce(tp_trainer *t, tp_grad_var *gvs, int n) { (void)t, (void)gvs, (void)n; }
static void tp__ranks_offer_means(tp_trainer *t) { (void)t; }
static tp_status tp__broadcast_variables(tp_trainer *t) { return (void)t, TP_OK; }
static bool tp__ranks_awaited(const tp_trainer *t) { return (void)t, false; }
static void tp__ranks_free(tp_trainer *t)
{
    if (t->ranks_) tp_free(t->ranks_->server_ranks);
    tp_free(t->ranks_);
}
static bool tp__ranks_serve(tp_trainer *t, tp_status *st) { return (void)t, (void)st, false; }
static void tp__ranks_optimizer(tp_trainer *t, tp_optimizer *opt) { (void)t, (void)opt; }
static tp_status tp__ranks_collect(tp_trainer *t) { return (void)t, TP_OK; }

#else

/* -- the job: the state of the other processes */

enum { TP__LETTER_ALIVE = 1, TP__LETTER_LEFT, TP__LETTER_LOST, TP__LETTER_EXIT, TP__LETTER_INTERRUPTED };
/* A control message between ranks. */
typedef struct tp__control_message {
    int32_t kind, rank; /* rank of the sender, or (LOST) of the lost rank */
    /* for LEFT and INTERRUPTED: number of the training; ok 1: it was stopped as a success, 2: it was completed */
    int32_t training, ok;
    char text[496]; /* why the sender ended, as a sentence */
} tp__control_message;
#define TP__MESSAGE_HEAD 16
#define TP__LINE         64 /* messages of parameter servers are padded to multiples of this many bytes */

/* How a peer left a training. */
typedef struct tp__left {
    int training; /* number of that training */
    int ok;       /* see tp__control_message; 3: the peer's program has ended */
    double at;
    char reason[496];
} tp__left;
typedef struct tp__peer {
    double last_heard;
    tp__left left
        [4]; /* the trainings that this peer has left last; a ring, because this rank may still be in an earlier one */
    int n_left;        /* number of trainings that it has left */
    bool finished;     /* the peer is at the end of its program */
    bool lost;         /* the chief has had no heartbeat of the peer */
    MPI_Request alive; /* time when the last heartbeat was sent to this peer */
} tp__peer;

/* Mutable state that outlives the trainers, because MPI belongs to the whole process. All MPI calls are made with the
 * lock held, and none of them blocks. */
typedef struct tp__job_state {
    bool begun, started_here, failed, stop, chief_lost, served, /* parameter servers take part in this training */
        ends,                                                   /* this rank is at the end of its program */
        unfinished; /* this rank has stopped waiting for a collective operation of `data` or `means` */
    int rank, size, local_rank, local_size, in_flight;
    int n_trainer, training,
        n_training;  /* number of trainers made; of the trainer that trains; how many have trained */
    int interrupted; /* number of the training in which another rank was interrupted */
    int64_t pid;
    MPI_Comm data, control, means; /* means: for layers; MPI_COMM_NULL in a training without such layers */
    MPI_Datatype half, line;       /* MPI types of 2 bytes and of TP__LINE bytes */
    MPI_Op half_sum;
    MPI_Request inbox;
    tp__control_message in, alive, sent[8];
    int n_sent;
    tp__peer *peer;
    tp_mutex *lock;
    tp_cond *wake;
    tp_thread *watch;
    double patience, last_poll, last_heartbeat,
        /* times: of the last poll of messages, of the last heartbeat that was sent, of the start of the wait (0:
         * not waiting) */
        wait_start;
    bool completed; /* the chief has ended the training as a success */
    char reason[TP__ERROR_TEXT];
} tp__job_state;
/* The state exists once per process, like MPI: MPI can be started once, and all trainers of a process have the same
 * rank. */
static tp__job_state tp__job;

static void tp__job_fail(const char *fmt, ...) TP_PRINTF(1, 2);
static void tp__job_fail(const char *fmt, ...)
{
    tp__job_state *j = &tp__job;
    if (j->failed) return;
    va_list args;
    va_start(args, fmt);
    tp__vformat(j->reason, sizeof j->reason, fmt, args);
    va_end(args);
    __atomic_store_n(&j->failed, true, __ATOMIC_RELEASE);
}

/* Sends a control message to all other ranks. A copy of it is kept, because nothing waits until it is sent. */
static void tp__job_send_to_all(const tp__control_message *l)
{
    tp__job_state *j = &tp__job;
    tp__control_message *copy = &j->sent[j->n_sent++ % TP_COUNT(j->sent)];
    *copy = *l;
    for (int r = 0; r < j->size; r++) {
        MPI_Request sent = MPI_REQUEST_NULL;
        if (r == j->rank) continue;
        MPI_Isend(copy, (int)sizeof *copy, MPI_BYTE, r, 0, j->control, &sent);
        if (sent != MPI_REQUEST_NULL) MPI_Request_free(&sent);
    }
}

/* How the peer left the training of this number; NULL: it has not, as far as is known here. */
static const tp__left *tp__peer_left(const tp__peer *p, int training)
{
    for (int i = 0; i < p->n_left && i < TP_COUNT(p->left); i++)
        if (p->left[i].training == training) return &p->left[i];
    return NULL;
}

static void tp__job_read(const tp__control_message *l)
{
    tp__job_state *j = &tp__job;
    if (l->rank < 0 || l->rank >= j->size) return;
    tp__peer *p = &j->peer[l->rank];
    if (l->kind == TP__LETTER_LOST) tp__job_fail("%.*s", (int)sizeof l->text, l->text);
    else p->last_heard = tp_time();
    p->lost = l->kind == TP__LETTER_LOST;
    if (l->kind == TP__LETTER_EXIT) {
        p->finished = true;
        /* the sender's training failed, with this reason */
        if (!l->ok) tp__job_fail("%.*s", (int)sizeof l->text, l->text);
    }
    if (l->kind == TP__LETTER_INTERRUPTED) j->interrupted = l->training;
    if (l->kind != TP__LETTER_LEFT && l->kind != TP__LETTER_EXIT) return;
    if (l->kind == TP__LETTER_EXIT && tp__peer_left(p, l->training)) return;
    tp__left *const left = &p->left[p->n_left++ % TP_COUNT(p->left)];
    left->training = l->training;
    left->ok = l->kind == TP__LETTER_EXIT ? 3 : l->ok;
    left->at = tp_time();
    snprintf(left->reason, sizeof left->reason, "%.*s", (int)sizeof l->text, l->text);
}

/* Finds ranks without a recent heartbeat. The chief checks all ranks and notifies them; the other ranks check the chief. */
static void tp__job_look_for_dead(double now)
{
    tp__job_state *j = &tp__job;
    for (int r = 0; r < j->size && !j->failed && j->watch; r++) {
        if (r == j->rank || (j->rank != 0 && r != 0) || now - j->peer[r].last_heard < j->patience ||
            j->peer[r].finished)
            continue;
        tp__control_message l;
        memset(&l, 0, sizeof l);
        snprintf(l.text, sizeof l.text,
                 "rank %d of %d has given no sign of life for %.0f seconds: its process was killed, or its machine is "
                 "out of reach",
                 r, j->size, j->patience);
        j->chief_lost = r == 0;
        tp__job_fail("%s", l.text);
        l.kind = TP__LETTER_LOST;
        l.rank = r;
        j->peer[r].lost = true;
        if (j->rank == 0) tp__job_send_to_all(&l);
    }
}

/* Finds ranks that left the training while this rank waits for a collective operation. */
static void tp__job_look_for_left(double now)
{
    tp__job_state *j = &tp__job;
    if (j->ends) return; /* at the end of the program others may take longer: this rank waits for them */
    for (int r = 0; r < j->size && j->wait_start > 0 && !j->failed && !j->completed; r++) {
        const tp__peer *p = &j->peer[r];
        const tp__left *left = tp__peer_left(p, j->training);
        if (r == j->rank || (!left && !p->finished)) continue;
        const char *reason = left ? left->reason : "its program has ended";
        const int ok = left ? left->ok : 3;
        if (!left)
            left = &p->left[(p->n_left - 1) % TP_COUNT(p->left)]; /* an earlier training, or the message of its end */
        if (r != 0 && ok == 2 && j->served) continue;             /* servers also wait for the chief to end */
        if (now - left->at < 1 || now - j->wait_start < 1)
            continue; /* a message of that rank may still be in transit */
        if (r == 0 && ok && ok != 3) {
            snprintf(j->reason, sizeof j->reason, "%s", reason);
            __atomic_store_n(&j->completed, true, __ATOMIC_RELEASE);
        } else if (ok) {
            tp__job_fail("rank %d of %d has left the training before the others%s%s", r, j->size, *reason ? ": " : "",
                         reason);
        } else {
            tp__job_fail("rank %d of %d has failed: %s", r, j->size, reason);
        }
    }
}

/* Reads control messages, sends the heartbeat and checks the other ranks. The lock must be held. */
static void tp__job_poll(void)
{
    tp__job_state *j = &tp__job;
    const double now = tp_time();
    int has_message = 1;
    for (int i = 0; i < j->size + 16 && has_message; i++) {
        has_message = 0;
        if (MPI_Test(&j->inbox, &has_message, MPI_STATUS_IGNORE) != MPI_SUCCESS || !has_message) break;
        tp__job_read(&j->in);
        MPI_Irecv(&j->in, (int)sizeof j->in, MPI_BYTE, MPI_ANY_SOURCE, 0, j->control, &j->inbox);
    }
    if (now - j->last_poll > 1.5) /* this process itself was stopped for a while */
        for (int r = 0; r < j->size; r++) j->peer[r].last_heard = now;
    j->last_poll = now;
    for (int r = 0; r < j->size && now - j->last_heartbeat >= 0.5; r++) {
        int sent = 1;
        if (r == j->rank || (j->rank != 0 && r != 0)) continue;
        if (j->peer[r].alive != MPI_REQUEST_NULL) MPI_Test(&j->peer[r].alive, &sent, MPI_STATUS_IGNORE);
        if (sent) MPI_Isend(&j->alive, TP__MESSAGE_HEAD, MPI_BYTE, r, 0, j->control, &j->peer[r].alive);
    }
    if (now - j->last_heartbeat >= 0.5) j->last_heartbeat = now;
    tp__job_look_for_dead(now);
    tp__job_look_for_left(now);
}

/* mpirun that is interrupted or told to end sends its ranks SIGTERM and, about a second later, SIGKILL. The handler sets a flag; the
 * thread that watches the job logs it on the chief, then the signal ends the process. A handler of the program is left alone. */
#ifdef TP_NO_SIGNALS
static void tp__job_listen(bool listens) { (void)listens; }
static void tp__job_look_for_signal(void) {}
#else
static volatile sig_atomic_t tp__job_terminated;
static void tp__job_on_terminate(int number)
{
    signal(number, SIG_DFL); /* a second one ends the process at once, even if that thread hangs in MPI */
    tp__job_terminated = 1;
}
static void tp__job_listen(bool listens)
{
    void (*const mine)(int) = tp__job_on_terminate;
    void (*const before)(int) = signal(SIGTERM, listens ? mine : SIG_DFL);
    if (before != (listens ? SIG_DFL : mine)) signal(SIGTERM, before);
}
static void tp__job_look_for_signal(void)
{
    if (!tp__job_terminated) return;
    if (tp__job.rank == 0)
        tp_log(TP_LOG_ERROR,
               "The job is ended from outside, by SIGTERM, which mpirun sends when it is interrupted or told "
               "to end: with .auto_resume it goes on from the last checkpoint.");
    tp__job_listen(false);
    tp__job_terminated = 0;
#ifdef _WIN32
    raise(SIGTERM);
#else
    kill(getpid(), SIGTERM); /* another thread gets the signal, because this one blocks signals */
#endif
}
#endif

/* While buckets are in flight MPI must be called regularly, or it makes no progress. */
static void tp__job_watch(void *user)
{
    tp__job_state *j = (tp__job_state *)user;
    tp_mutex_lock(j->lock);
    while (!j->stop) {
        tp__job_poll();
        tp__job_look_for_signal();
        tp_cond_wait_for(j->wake, j->lock, j->in_flight ? 0.0005 : 0.02);
    }
    tp_mutex_unlock(j->lock);
}

/* Reads without the lock: the reason is written before failed or completed is set. */
static tp_status tp__job_status(void)
{
    const tp__job_state *j = &tp__job;
    if (__atomic_load_n(&j->failed, __ATOMIC_ACQUIRE)) return tp_fail(TP_ERR_IO, "%s", j->reason);
    return __atomic_load_n(&j->completed, __ATOMIC_ACQUIRE) ? TP_STOP : TP_OK;
}

/* Waits until one of n requests is done, *which is its index, or the job is over. It first polls without a pause, since large
 * messages progress only while MPI is called; after some milliseconds it polls at intervals. */
static tp_status tp__job_wait_any(MPI_Request *request, int n, int *completed)
{
    tp__job_state *j = &tp__job;
    tp_status st = TP_OK;
    int done = 0;
    const double from = tp_time();
    tp_mutex_lock(j->lock);
    j->wait_start = from;
    while (st == TP_OK && !done) {
        const int rc = MPI_Testany(n, request, completed, &done, MPI_STATUS_IGNORE);
        if (rc != MPI_SUCCESS) {
            char text[MPI_MAX_ERROR_STRING];
            int length = 0;
            MPI_Error_string(rc, text, &length);
            tp__job_fail("MPI has failed: %s", text);
        }
        if (!j->watch && !done) tp__job_poll();
        if (!done) st = tp__job_status();
        if (done || st != TP_OK) break;
        if (tp_time() - from > 0.05) {
            tp_cond_wait_for(j->wake, j->lock, 0.00005);
        } else {
            tp_mutex_unlock(j->lock);
            tp__os_yield();
            tp_mutex_lock(j->lock);
        }
    }
    j->wait_start = 0;
    tp_mutex_unlock(j->lock);
    return st;
}
static tp_status tp__job_wait(MPI_Request *request)
{
    int completed = 0;
    return tp__job_wait_any(request, 1, &completed);
}

/* Adds float16 values, each addition rounded once. */
static void tp__sum_halves(void *in, void *inout, int *n, MPI_Datatype *type)
{
    float a[256], b[256];
    (void)type;
    for (int i = 0; i < *n; i += 256) {
        const int m = *n - i < 256 ? *n - i : 256;
        tp_convert(a, TP_F32, (uint16_t *)in + i, TP_F16, m);
        tp_convert(b, TP_F32, (uint16_t *)inout + i, TP_F16, m);
        for (int k = 0; k < m; k++) b[k] += a[k];
        tp_convert((uint16_t *)inout + i, TP_F16, b, TP_F32, m);
    }
}

static void tp__job_end(void);
static int tp__job_before_finalize(MPI_Comm c, int key, void *value, void *user)
{
    (void)c, (void)key, (void)value, (void)user;
    tp__job_end();
    return MPI_SUCCESS;
}
static void tp__job_exit(void);

static tp_status tp__job_error(const char *action, int rc)
{
    char text[MPI_MAX_ERROR_STRING];
    int n = 0;
    MPI_Error_string(rc, text, &n);
    return tp_fail(TP_ERR_IO, "%s of MPI has failed: %s", action, text);
}

/* Makes the communicators, counts the ranks on this machine and starts to receive control messages. Called by all ranks. */
static tp_status tp__job_connect(tp__job_state *j, int level)
{
    MPI_Comm machine;
    int key = 0, rc;
    if ((rc = MPI_Comm_dup(MPI_COMM_WORLD, &j->data)) != MPI_SUCCESS) return tp__job_error("MPI_Comm_dup", rc);
    if ((rc = MPI_Comm_dup(MPI_COMM_WORLD, &j->control)) != MPI_SUCCESS) return tp__job_error("MPI_Comm_dup", rc);
    j->means = MPI_COMM_NULL;
    MPI_Comm_set_errhandler(j->data, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(j->control, MPI_ERRORS_RETURN);
    MPI_Comm_rank(j->data, &j->rank);
    MPI_Comm_size(j->data, &j->size);
    rc = MPI_Comm_split_type(j->data, MPI_COMM_TYPE_SHARED, j->rank, MPI_INFO_NULL, &machine);
    if (rc != MPI_SUCCESS) return tp__job_error("MPI_Comm_split_type", rc);
    MPI_Comm_rank(machine, &j->local_rank);
    MPI_Comm_size(machine, &j->local_size);
    MPI_Comm_free(&machine);
    MPI_Type_contiguous(2, MPI_BYTE, &j->half);
    MPI_Type_commit(&j->half);
    MPI_Type_contiguous(TP__LINE, MPI_BYTE, &j->line);
    MPI_Type_commit(&j->line);
    MPI_Op_create(tp__sum_halves, 1, &j->half_sum);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, tp__job_before_finalize, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, j);
    j->peer = (tp__peer *)calloc((size_t)j->size, sizeof *j->peer);
    j->lock = tp_mutex_new();
    j->wake = tp_cond_new();
    if (!j->peer || !j->lock || !j->wake) return tp_fail(TP_ERR_NOMEM, "out of memory for %d ranks", j->size);
    j->last_poll = j->last_heartbeat = tp_time();
    for (int r = 0; r < j->size; r++) {
        j->peer[r].last_heard = j->last_poll;
        j->peer[r].alive = MPI_REQUEST_NULL;
    }
    j->alive.kind = TP__LETTER_ALIVE;
    j->alive.rank = j->rank;
    j->begun = true;
    if (j->size == 1) return TP_OK;
    MPI_Irecv(&j->in, (int)sizeof j->in, MPI_BYTE, MPI_ANY_SOURCE, 0, j->control, &j->inbox);
    if (level < MPI_THREAD_SERIALIZED || tp_thread_start(&j->watch, tp__job_watch, j) != TP_OK)
        tp_log_once(TP_LOG_WARN,
                    "MPI gives thread level %d, not MPI_THREAD_SERIALIZED, or there are no threads: a rank that is "
                    "killed is noticed by mpirun alone.",
                    level);
    if (j->watch) tp__job_listen(true);
    return TP_OK;
}

static tp_status tp__job_begin(double patience)
{
    tp__job_state *j = &tp__job;
    int is = 0, old_state = 0, level = 0, rc = MPI_SUCCESS;
    if (patience > 0 && j->training == 0) j->patience = patience; /* later each training sets its own: tp__job_enter */
    if (j->begun) return TP_OK;
    MPI_Initialized(&is);
    MPI_Finalized(&old_state);
    if (old_state) return tp_fail(TP_ERR_STATE, "MPI has ended in this process: it cannot be started again");
    if (is) MPI_Query_thread(&level);
    else if ((rc = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level)) != MPI_SUCCESS)
        return tp_fail(TP_ERR_IO, "MPI_Init_thread has failed with code %d", rc);
    if (!(j->patience > 0)) j->patience = 5;
    j->started_here = !is;
    j->pid = tp__os_pid();
    if (j->started_here) atexit(tp__job_exit);
    return tp__job_connect(j, level);
}

/* Ends MPI's use: after this call the header makes no more MPI calls. */
static void tp__job_end(void)
{
    tp__job_state *j = &tp__job;
    if (j->watch) {
        tp__job_listen(false);
        tp_mutex_lock(j->lock);
        j->stop = true;
        tp_cond_broadcast(j->wake);
        tp_mutex_unlock(j->lock);
        tp_thread_join(j->watch);
    }
    j->watch = NULL;
    if (!j->begun || j->size == 1) return;
    MPI_Cancel(&j->inbox);
    MPI_Wait(&j->inbox, MPI_STATUS_IGNORE);
    for (int r = 0; r < j->size; r++)
        if (j->peer[r].alive != MPI_REQUEST_NULL) MPI_Request_free(&j->peer[r].alive);
    j->begun = false;
}

/* Waits after a failure until every other rank has ended its program or is dead, so that none is stopped while it reports the error
 * or writes a file. A rank may hang: the first of the ranks that have ended (*reports) waits no longer than `patience`, then aborts
 * the job; the others wait for that twice as long. Returns the first rank that still works, or -1. */
static int tp__job_wait_for_others(bool *reports)
{
    tp__job_state *j = &tp__job;
    const double from = tp_time();
    int works = j->size;
    while (works >= 0 && tp_time() - from < (*reports ? 1 : 2) * j->patience) {
        tp_mutex_lock(j->lock);
        works = -1;
        *reports = true;
        for (int r = j->size - 1; r >= 0; r--) {
            const tp__peer *p = &j->peer[r];
            const bool has_heartbeat = r == 0 || j->rank == 0;
            if (r == j->rank || p->lost || (has_heartbeat && tp_time() - p->last_heard > j->patience)) continue;
            if (!p->finished) works = r;
            else if (r < j->rank) *reports = false;
        }
        if (!j->watch) tp__job_poll();
        if (works >= 0) tp_cond_wait_for(j->wake, j->lock, 0.02);
        tp_mutex_unlock(j->lock);
    }
    return works;
}

/* All ranks end together. After a failure others may hang in MPI_Finalize: then this rank aborts the job. */
static void tp__job_exit(void)
{
    tp__job_state *j = &tp__job;
    tp__control_message l;
    MPI_Request barrier = MPI_REQUEST_NULL;
    int old_state = 0;
    bool reports = false;
    if (!j->begun || j->pid != tp__os_pid()) return; /* a forked child does not end the job */
    MPI_Finalized(&old_state);
    if (old_state) return;
    memset(&l, 0, sizeof l);
    l.kind = TP__LETTER_EXIT;
    l.rank = j->rank;
    l.training = j->training; /* this rank also leaves its current training, unless it has left it already */
    fflush(NULL);             /* a rank that receives the exit message may end the whole job */
    if (j->size > 1) {
        tp_mutex_lock(j->lock); /* the thread that watches the job may find a failure until here, and after it */
        const bool fails = j->failed;
        l.ok = !fails;
        snprintf(l.text, sizeof l.text, "%.*s", (int)sizeof l.text - 1, fails ? j->reason : "its program has ended");
        j->ends = true;
        __atomic_store_n(&j->completed, false, __ATOMIC_RELEASE);
        if (!fails) MPI_Ibarrier(j->control, &barrier);
        tp__job_send_to_all(&l);
        tp_mutex_unlock(j->lock);
        if (!fails) (void)tp__job_wait(&barrier);
    }
    const bool failed = __atomic_load_n(&j->failed, __ATOMIC_ACQUIRE);
    const int works = failed ? tp__job_wait_for_others(&reports) : -1;
    if (works >= 0 && reports)
        tp_log(TP_LOG_ERROR, "The job is aborted while rank %d of %d still works, %.0f seconds after the failure: %s",
               works, j->size, j->patience, j->reason);
    tp__job_end();
    fflush(NULL);
    if (j->failed) MPI_Abort(MPI_COMM_WORLD, 1);
    else MPI_Finalize();
}

TP_DEF int tp_rank(void) { return tp__job_begin(0) == TP_OK ? tp__job.rank : 0; }
TP_DEF int tp_size(void) { return tp__job_begin(0) == TP_OK ? tp__job.size : 1; }
TP_DEF int tp_local_rank(void) { return tp__job_begin(0) == TP_OK ? tp__job.local_rank : 0; }
/* The number of a new trainer. All ranks make their trainers in the same order. */
static int tp__job_number(void) { return ++tp__job.n_trainer; }

/* From now on the job is in the training of t: several trainers may be made before the first of them trains. */
static void tp__job_enter(const tp_trainer *t)
{
    tp__job_state *j = &tp__job;
    if (j->lock) tp_mutex_lock(j->lock);
    if (j->training != t->ranks_->training) {
        j->training = t->ranks_->training;
        __atomic_store_n(&j->completed, false, __ATOMIC_RELEASE);
        j->served = t->ranks_->n_ps > 0;
        j->patience = t->ranks_->patience;
    }
    if (j->lock) tp_mutex_unlock(j->lock);
}

/* -- collectives of the host; the ranks call them in the same order */

static tp_status tp__job_start(tp_status begun, MPI_Request *request)
{
    const tp_status st = begun == TP_OK ? tp__job_wait(request) : begun;
    if (*request != MPI_REQUEST_NULL) tp__job.unfinished = true;
    return st;
}
/* Broadcasts and gathers go through a buffer of their own. When the wait for one fails, MPI may still write into that buffer as soon
 * as a slow rank sends its part: it is then not freed, since the job ends. */
static tp_status tp__job_broadcast(void *data, size_t bytes, int root)
{
    const size_t piece_limit = (size_t)16 << 20;
    const bool sends = tp__job.rank == root;
    MPI_Request q = MPI_REQUEST_NULL;
    tp_status st = tp__job_status();
    char *buffer = st == TP_OK ? (char *)tp_malloc(bytes < piece_limit ? bytes + 1 : piece_limit) : NULL;
    if (st == TP_OK && !buffer) st = TP_ERR_NOMEM;
    for (size_t at = 0; at < bytes && st == TP_OK;) {
        const size_t n = bytes - at < piece_limit ? bytes - at : piece_limit;
        if (sends) memcpy(buffer, (const char *)data + at, n);
        tp_mutex_lock(tp__job.lock);
        const int rc = MPI_Ibcast(buffer, (int)n, MPI_BYTE, root, tp__job.data, &q);
        tp_mutex_unlock(tp__job.lock);
        st = tp__job_start(rc == MPI_SUCCESS ? TP_OK : tp__job_error("MPI_Ibcast", rc), &q);
        if (st == TP_OK && !sends) memcpy((char *)data + at, buffer, n);
        at += n;
    }
    if (q == MPI_REQUEST_NULL) tp_free(buffer);
    return st;
}
static tp_status tp__job_gather(const void *own_data, size_t bytes, void *gathered)
{
    const size_t n = (size_t)tp__job.size * bytes;
    MPI_Request q = MPI_REQUEST_NULL;
    tp_status st = tp__job_status();
    char *buffer = st == TP_OK ? (char *)tp_malloc(n + bytes) : NULL;
    if (st != TP_OK || !buffer) return st != TP_OK ? st : TP_ERR_NOMEM;
    memcpy(buffer + n, own_data, bytes);
    tp_mutex_lock(tp__job.lock);
    const int rc = MPI_Iallgather(buffer + n, (int)bytes, MPI_BYTE, buffer, (int)bytes, MPI_BYTE, tp__job.data, &q);
    tp_mutex_unlock(tp__job.lock);
    st = tp__job_start(rc == MPI_SUCCESS ? TP_OK : tp__job_error("MPI_Iallgather", rc), &q);
    if (st == TP_OK) memcpy(gathered, buffer, n);
    if (q == MPI_REQUEST_NULL) tp_free(buffer);
    return st;
}
static tp_status tp__job_barrier(void)
{
    MPI_Request q = MPI_REQUEST_NULL;
    tp_mutex_lock(tp__job.lock);
    const int rc = MPI_Ibarrier(tp__job.data, &q);
    tp_mutex_unlock(tp__job.lock);
    return tp__job_start(rc == MPI_SUCCESS ? TP_OK : tp__job_error("MPI_Ibarrier", rc), &q);
}

/* Sets *ok to whether *ok is true on all ranks. */
static tp_status tp__all_agree(bool *ok)
{
    const int n = tp__job.size, own_ok = *ok;
    int *answers = (int *)tp_calloc((size_t)n, sizeof *answers);
    const tp_status st = answers ? tp__job_gather(&own_ok, sizeof own_ok, answers) : TP_ERR_NOMEM;
    for (int r = 0; r < n && st == TP_OK; r++) *ok = *ok && answers[r];
    tp_free(answers);
    return st;
}

/* Makes another communicator of all ranks. */
static tp_status tp__job_new_communicator(MPI_Comm *made)
{
    tp__job_state *j = &tp__job;
    MPI_Comm c = MPI_COMM_NULL;
    MPI_Request q = MPI_REQUEST_NULL;
    tp_mutex_lock(j->lock);
    const int rc = MPI_Comm_idup(j->control, &c, &q);
    tp_mutex_unlock(j->lock);
    const tp_status st = tp__job_start(rc == MPI_SUCCESS ? TP_OK : tp__job_error("MPI_Comm_idup", rc), &q);
    if (st != TP_OK) return st;
    tp_mutex_lock(j->lock);
    MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN);
    *made = c;
    tp_mutex_unlock(j->lock);
    return TP_OK;
}

/* Gives the second and each later training of the job communicators of its own: when the chief stopped the training before, the
 * other ranks had started a collective operation that the chief never joins, and the next one of the chief would meet that. The
 * old communicators are freed if no rank has such an operation; else they stay until MPI ends. */
static tp_status tp__job_renew(void)
{
    tp__job_state *j = &tp__job;
    MPI_Comm data = j->data, means = j->means;
    bool is_free;
    int rc;
    if (j->n_training++ == 0) return TP_OK;
    tp_status st = tp__job_new_communicator(&j->data);
    if (st != TP_OK) return st;
    tp_mutex_lock(j->lock);
    is_free = !j->unfinished && j->in_flight == 0;
    j->means = MPI_COMM_NULL;
    j->in_flight = 0;
    j->unfinished = false;
    tp_mutex_unlock(j->lock);
    st = tp__all_agree(&is_free);
    if (st != TP_OK || !is_free) return st;
    tp_mutex_lock(j->lock);
    rc = MPI_Comm_free(&data);
    if (rc == MPI_SUCCESS && means != MPI_COMM_NULL) rc = MPI_Comm_free(&means);
    tp_mutex_unlock(j->lock);
    return rc == MPI_SUCCESS ? TP_OK : tp__job_error("MPI_Comm_free", rc);
}

/* -- buckets of gradients */

typedef struct tp__bucket {
    tp_trainer *trainer;
    MPI_Request request;
    bool in_flight, on_device; /* on_device: the device's library sums this bucket */
    char *host_buffer;         /* buffer in host memory, if the bucket's device has separate memory */
    char *sums;                /* the sums that MPI_Iallreduce returns; NULL: a deterministic bucket */
    struct tp__bucket *next;
} tp__bucket;
typedef struct tp__bucket_attrs {
    int order, ranks, half, deterministic, mean;
} tp__bucket_attrs;
static const tp_attr tp__bucket_schema[] = {
    TP__ATTR(tp__bucket_attrs, INT, order), TP__ATTR(tp__bucket_attrs, INT, ranks),
    TP__ATTR(tp__bucket_attrs, INT, half),  TP__ATTR(tp__bucket_attrs, INT, deterministic),
    TP__ATTR(tp__bucket_attrs, INT, mean),  TP__ATTRS_END};

/* Returns the number of elements of gradient x in a bucket, up to where the next gradient begins: at a multiple of 64 bytes.
 * tp__bucket_elements returns that of all n gradients, tp__bucket_size the bytes per element in a message. */
static int64_t tp__bucket_part(const tp_operand *x)
{
    const size_t size = tp_dtype_size(x->dtype);
    return (int64_t)(tp__align64((size_t)tp_shape_size(&x->shape) * size) / size);
}
static int64_t tp__bucket_elements(const tp_operand *op, int n)
{
    int64_t sum = 0;
    for (int i = 0; i < n; i++) sum += tp__bucket_part(&op[i]);
    return sum;
}
static size_t tp__bucket_size(const tp_call *k, tp_dtype dtype)
{
    return ((const tp__bucket_attrs *)k->attrs)->half ? 2 : tp_dtype_size(dtype);
}

/* Returns the bucket's buffer in host memory: the message, with one part per rank if it is deterministic, followed by
 * space for the float32 values that are converted to float16. NULL: out of memory. */
static char *tp__bucket_host_buffer(tp__bucket *b, const tp_operand *flat, const tp_device *d, int64_t elements)
{
    const int64_t bytes = tp_shape_size(&flat->shape);
    if (d->host) return (char *)flat->data;
    if (!b->host_buffer) b->host_buffer = (char *)tp_malloc((size_t)(bytes + 64 + elements * 4));
    return b->host_buffer;
}

/* Returns the buffer of the sums. MPI does not sum in place: then Open MPI would send all bytes to one rank and back, which took
 * twice as long with two ranks. The buffer has large pages, so that another process reads it faster. NULL: out of memory. */
static char *tp__bucket_sums(tp__bucket *b, size_t bytes)
{
    if (!b->sums) b->sums = (char *)tp_alloc_aligned(bytes);
    return b->sums;
}

/* Scales float32 values and converts them to float16. */
static void tp__to_half(uint16_t *to, const float *from, int64_t n, float scale)
{
    float piece[512];
    for (int64_t i = 0; i < n; i += 512) {
        const int64_t m = n - i < 512 ? n - i : 512;
        for (int64_t j = 0; j < m; j++) piece[j] = from[i + j] * scale;
        tp_convert(to + i, TP_F16, piece, TP_F32, m);
    }
}

/* Packs the gradients into this rank's part. Those that the planner placed there (TP_OP_PACKS) are packed already. What lies between
 * them is summed too, so it must not be a NaN of old memory. */
static tp_status tp__bucket_pack(const tp_call *k, tp__bucket *b, char *rank_part, int64_t elements)
{
    const tp__bucket_attrs *a = (const tp__bucket_attrs *)k->attrs;
    tp_device *d = k->device;
    const size_t size = tp_dtype_size(k->in[0].dtype);
    char *at = a->half && !d->host ? b->host_buffer + tp_shape_size(&k->out[0].shape) : rank_part;
    const float scale = a->mean ? 1.0f / (float)a->ranks : 1.0f;
    tp_status st = TP_OK;
    char *to = at;
    for (int i = 0; i < k->n_in && st == TP_OK; i++) {
        const int64_t n = tp_shape_size(&k->in[i].shape), part = tp__bucket_part(&k->in[i]);
        const size_t packed_size = a->half && d->host ? 2 : size;
        if (a->half && d->host) tp__to_half((uint16_t *)(void *)to, (const float *)k->in[i].data, n, scale);
        else if (n && to != k->in[i].data) st = d->download(d, to, k->in[i].data, (size_t)n * size);
        memset(to + (size_t)n * packed_size, 0, (size_t)(part - n) * packed_size);
        to += (size_t)part * packed_size;
    }
    if (st == TP_OK) st = d->wait(d);
    if (st == TP_OK && at != rank_part)
        tp__to_half((uint16_t *)(void *)rank_part, (const float *)(void *)at, elements, scale);
    return st;
}

/* Packs and sums gradients in device memory, if the device can do it; does not wait for the result. */
static void tp__bucket_send_on_device(const tp_call *k, tp__bucket *b)
{
    const tp__bucket_attrs *a = (const tp__bucket_attrs *)k->attrs;
    tp_device *d = k->device;
    const tp_dtype dtype = k->in[0].dtype;
    char *to = (char *)k->out[0].data;
    tp_status st = TP_OK;
    for (int i = 0; i < k->n_in && st == TP_OK; i++) {
        const size_t bytes = tp__operand_bytes(&k->in[i]);
        if (bytes && to != k->in[i].data) st = d->copy(d, to, k->in[i].data, bytes);
        to += tp__align64(bytes);
    }
    if (st == TP_OK) st = d->ranks_sum(d, k->out[0].data, tp__bucket_elements(k->in, k->n_in), dtype, a->mean);
    b->on_device = true;
    if (st == TP_OK) return;
    tp_mutex_lock(tp__job.lock);
    tp__job_fail("a bucket of gradients cannot be summed: %s", tp_last_error());
    tp_mutex_unlock(tp__job.lock);
}

/* Waits until the sums of this rank's device are done, or the job is over. */
static tp_status tp__job_wait_for_device(tp_device *d)
{
    tp__job_state *j = &tp__job;
    tp_status st = TP_OK;
    bool done = false;
    const double from = tp_time();
    tp_mutex_lock(j->lock);
    j->wait_start = from;
    while (st == TP_OK && !done) {
        tp_mutex_unlock(j->lock);
        if (tp_time() - from < 0.05) tp__os_yield();
        const tp_status status = d->ranks_done(d, &done);
        tp_mutex_lock(j->lock);
        if (status != TP_OK) tp__job_fail("a bucket of gradients cannot be summed: %s", tp_last_error());
        if (!j->watch && !done) tp__job_poll();
        if (!done) st = tp__job_status();
        if (st == TP_OK && !done && tp_time() - from > 0.05) tp_cond_wait_for(j->wake, j->lock, 0.00005);
    }
    j->wait_start = 0;
    tp_mutex_unlock(j->lock);
    return st;
}

/* Unpacks the sums into the gradients; fills them with zeros if the sums did not arrive. */
static tp_status tp__bucket_take_on_device(const tp_call *k, tp_status arrived)
{
    static const char zeros[4096] = {0};
    tp_device *d = k->device;
    const char *from = (const char *)k->in[0].data;
    tp_status st = TP_OK;
    for (int i = 0; i < k->n_out && st == TP_OK; i++) {
        const size_t bytes = tp__operand_bytes(&k->var[i]);
        char *to = (char *)k->out[i].data;
        if (to && bytes && arrived == TP_OK) st = d->copy(d, to, from, bytes);
        for (size_t at = 0; to && at < bytes && arrived != TP_OK && st == TP_OK; at += sizeof zeros)
            st = d->upload(d, to + at, zeros, bytes - at < sizeof zeros ? bytes - at : sizeof zeros);
        from += tp__align64(bytes);
    }
    return st;
}
static void tp__bucket_receive_on_device(const tp_call *k, tp__bucket *b)
{
    tp__rank_state *r = b->trainer->ranks_;
    const tp_status st = r->summing ? tp__job_wait_for_device(k->device) : TP_ERR;
    if (st != TP_OK && r->summing) { /* the device's kernels wait for a rank that has ended */
        k->device->ranks_leave(k->device, true);
        r->summing = NULL;
    }
    const tp_status done = tp__bucket_take_on_device(k, st);
    b->on_device = false;
    if (st == TP_OK && done != TP_OK) {
        tp_mutex_lock(tp__job.lock);
        tp__job_fail("a bucket of gradients cannot be copied: %s", tp_last_error());
        tp_mutex_unlock(tp__job.lock);
    }
    if (st != TP_OK || done != TP_OK) tp_session_cancel(b->trainer->state.session);
}

static void tp__bucket_send(const tp_call *k)
{
    const tp__bucket_attrs *a = (const tp__bucket_attrs *)k->attrs;
    tp__bucket *b = (tp__bucket *)k->user;
    tp__job_state *j = &tp__job;
    if (b->trainer->ranks_->summing == k->device) {
        tp__bucket_send_on_device(k, b);
        return;
    }
    const tp_dtype dtype = k->in[0].dtype;
    const int64_t elements = tp__bucket_elements(k->in, k->n_in);
    const size_t size = tp__bucket_size(k, dtype);
    if (b->in_flight && tp__job_wait(&b->request) != TP_OK) { /* request for the message of a cancelled run */
        j->unfinished = true;
        return;
    }
    char *message = tp__bucket_host_buffer(b, &k->out[0], k->device, elements);
    char *rank_part = message + (a->deterministic ? (size_t)j->rank * (size_t)elements * size : 0);
    const bool has_memory = message && (a->deterministic || tp__bucket_sums(b, (size_t)elements * size));
    tp_status st = has_memory ? tp__bucket_pack(k, b, rank_part, elements) : TP_ERR_NOMEM;
    const MPI_Datatype type = a->half ? j->half : dtype == TP_F64 ? MPI_DOUBLE : MPI_FLOAT;
    int rc = MPI_SUCCESS;
    tp_mutex_lock(j->lock);
    if (st != TP_OK) tp__job_fail("a bucket of gradients cannot be brought to the host: %s", tp_last_error());
    else if (a->deterministic)
        rc = MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, message, (int)elements, type, j->data, &b->request);
    else
        rc = MPI_Iallreduce(message, b->sums, (int)elements, type, a->half ? j->half_sum : MPI_SUM, j->data,
                            &b->request);
    if (rc != MPI_SUCCESS) tp__job_fail("MPI cannot send a bucket of gradients (code %d)", rc);
    b->in_flight = !j->failed;
    j->in_flight += b->in_flight;
    tp_cond_signal(j->wake);
    tp_mutex_unlock(j->lock);
}

/* Adds the parts of all ranks, in the order of the ranks, into the first part. */
static void tp__bucket_add(char *message, int64_t n, int ranks, tp_dtype dtype)
{
    for (int r = 1; r < ranks; r++) {
        if (dtype == TP_F64) {
            double *sum = (double *)(void *)message;
            for (int64_t i = 0; i < n; i++) sum[i] += sum[(int64_t)r * n + i];
        } else {
            float *sum = (float *)(void *)message;
            for (int64_t i = 0; i < n; i++) sum[i] += sum[(int64_t)r * n + i];
        }
    }
}

/* Converts the float16 parts of all ranks (one part: their sum) to gradients, from element `from` on. */
static void tp__bucket_halves(const char *message, int64_t elements, int ranks, int64_t from, int64_t n, float *to)
{
    float piece[512];
    for (int r = 0; r < ranks; r++)
        for (int64_t i = 0; i < n; i += 512) {
            const int64_t m = n - i < 512 ? n - i : 512;
            tp_convert(piece, TP_F32, (const uint16_t *)(const void *)message + (int64_t)r * elements + from + i,
                       TP_F16, m);
            for (int64_t k = 0; k < m; k++) to[i + k] = r == 0 ? piece[k] : to[i + k] + piece[k];
        }
}

/* Unpacks the received values into the gradients of this rank. */
static tp_status tp__bucket_unpack(const tp_call *k, tp__bucket *b, char *message, bool arrived)
{
    const tp__bucket_attrs *a = (const tp__bucket_attrs *)k->attrs;
    tp_device *d = k->device;
    const tp_dtype dtype = k->var[0].dtype;
    const int64_t elements = tp__bucket_elements(k->var, k->n_var);
    const size_t size = tp_dtype_size(dtype);
    const double scale = a->mean && !a->half ? 1.0 / a->ranks : 1.0;
    const float scale32 = a->mean && !a->half ? 1.0f / (float)a->ranks : 1.0f;
    int64_t from = 0;
    tp_status st = TP_OK;
    char *floats = a->half && !d->host ? b->host_buffer + tp_shape_size(&k->in[0].shape) : NULL;
    if (arrived && a->deterministic && !a->half) tp__bucket_add(message, elements, a->ranks, dtype);
    for (int i = 0; i < k->n_out && st == TP_OK; i++) {
        const int64_t n = tp_shape_size(&k->var[i].shape);
        const char *sum = message + (size_t)from * size;
        char *at = a->half ? (d->host ? (char *)k->out[i].data : floats) : message + (size_t)from * size;
        if (!k->out[i].data || n == 0) {
            from += tp__bucket_part(&k->var[i]);
            continue;
        }
        if (d->host) at = (char *)k->out[i].data; /* scaled and copied in one pass */
        if (a->half && arrived)
            tp__bucket_halves(message, elements, a->deterministic ? a->ranks : 1, from, n, (float *)(void *)at);
        else if (!arrived) memset(at, 0, (size_t)n * size);
        else if (dtype == TP_F64)
            for (int64_t j = 0; j < n; j++) ((double *)(void *)at)[j] = ((const double *)(const void *)sum)[j] * scale;
        else
            for (int64_t j = 0; j < n; j++) ((float *)(void *)at)[j] = ((const float *)(const void *)sum)[j] * scale32;
        if (at != k->out[i].data) st = d->upload(d, k->out[i].data, at, (size_t)n * size);
        if (st == TP_OK && floats) st = d->wait(d); /* the next gradient uses the same buffer */
        from += tp__bucket_part(&k->var[i]);
    }
    return st;
}

/* If the job is over, the run is cancelled before it changes a variable, or the gradients are zero. */
static void tp__bucket_receive(const tp_call *k)
{
    tp__bucket *b = (tp__bucket *)k->user;
    if (b->on_device) {
        tp__bucket_receive_on_device(k, b);
        return;
    }
    char *message = b->sums ? b->sums : k->device->host ? (char *)k->in[0].data : b->host_buffer;
    const tp_status st = b->in_flight ? tp__job_wait(&b->request) : tp__job_status();
    tp_mutex_lock(tp__job.lock);
    tp__job.in_flight -= b->in_flight;
    tp__job.unfinished |= b->in_flight && st != TP_OK;
    if (st == TP_OK) b->in_flight = false;
    tp_mutex_unlock(tp__job.lock);
    /* without memory for the message the job has failed */
    const tp_status done =
        message ? tp__bucket_unpack(k, b, message, st == TP_OK) : tp__bucket_take_on_device(k, TP_ERR_NOMEM);
    if (st == TP_OK && done != TP_OK) {
        tp_mutex_lock(tp__job.lock);
        tp__job_fail("a bucket of gradients cannot be brought to the device: %s", tp_last_error());
        tp_mutex_unlock(tp__job.lock);
    }
    if (st != TP_OK || done != TP_OK) tp_session_cancel(b->trainer->state.session);
}

static tp_status tp__bucket_send_infer(tp_infer *s)
{
    const tp__bucket_attrs *a = (const tp__bucket_attrs *)s->attrs;
    int64_t elements = 0;
    for (int i = 0; i < s->n_in; i++) {
        const tp_operand x = tp__operand(&s->in[i]);
        elements += tp__bucket_part(&x);
    }
    s->out[0].dtype = TP_U8;
    s->out[0].shape.ndim = 1;
    s->out[0].shape.dim[0] =
        elements * (a->half ? 2 : (int64_t)tp_dtype_size(s->in[0].dtype)) * (a->deterministic ? a->ranks : 1);
    return TP_OK;
}
static tp_status tp__bucket_receive_infer(tp_infer *s)
{
    s->n_out = s->n_var;
    for (int i = 0; i < s->n_var; i++) s->out[i] = s->var[i];
    return TP_OK;
}
static double tp__bucket_flops(const tp_call *k) { return (void)k, 0; }
/* The flags of an op that communicates with other processes, and the row of one that has no gradient. */
#define TP__RANKS_FLAGS (TP_OP_COLLECTIVE | TP_OP_HOST | TP_OP_ANY_DTYPE | TP_OP_NO_ALIAS | TP_OP_ANY_DEVICE)
#define TP__RANKS_ROW(name_, label_, flags_, max_in_, n_out_, attrs_, infer_, kernel_)                         \
    TP__ROW(name_, label_, (flags_) | TP__RANKS_FLAGS, TP__IO_RANGE(1, max_in_, n_out_), attrs_, infer_, NULL, \
            TP__KERNELS(kernel_, NULL, NULL), TP__FLOPS(tp__bucket_flops), TP__NO_ONNX)
/* The op that starts to send gradients of one type; y: the bytes of the bucket. In the second row the message is the packed gradients
 * themselves: one part, in their own precision. */
static const tp_op tp__op_bucket_send = TP__RANKS_ROW("bucket_send", "BucketSend", TP_OP_EARLY, -1, 1,
                                                      TP__ATTRS(bucket), tp__bucket_send_infer, tp__bucket_send);
static const tp_op tp__op_bucket_send_packed =
    TP__RANKS_ROW("bucket_send", "BucketSend", TP_OP_EARLY | TP_OP_PACKS, -1, 1, TP__ATTRS(bucket),
                  tp__bucket_send_infer, tp__bucket_send);
/* The op that waits for the reduced gradients. Its outputs get their shapes from the gradients' variables. */
static const tp_op tp__op_bucket_receive = TP__RANKS_ROW("bucket_receive", "BucketReceive", 0, 1, -1, TP__ATTRS(bucket),
                                                         tp__bucket_receive_infer, tp__bucket_receive);

/* -- means over the ranks, for layers
 *
 * Unlike a bucket such an op waits for its message at once. So all ranks must run the same ones in the same order, and they do:
 *     - the ranks have compared their graphs (tp__compare_graphs), and none of these ops is added later (means_complete);
 *     - each one runs after the one that was made before it, by a control dependency;
 *     - each bucket is received after the last one. So every step runs all of them, whatever else a callback fetches, and no rank
 *       waits for a bucket which another rank starts after a mean that it waits for;
 *     - they have a communicator of their own, since buckets start at any place between them;
 *     - a run outside a step is refused, because the other ranks do not make it. */

/* Sums this rank's values and those of the other ranks into b->sums. */
static tp_status tp__rank_mean_sum(tp__bucket *b, const tp__bucket_attrs *a, int64_t elements, tp_dtype dtype)
{
    tp__job_state *j = &tp__job;
    const MPI_Datatype type = dtype == TP_F64 ? MPI_DOUBLE : MPI_FLOAT;
    const int n = (int)elements;
    int rc;
    tp_mutex_lock(j->lock);
    if (a->deterministic) rc = MPI_Iallgather(b->host_buffer, n, type, b->sums, n, type, j->means, &b->request);
    else rc = MPI_Iallreduce(b->host_buffer, b->sums, n, type, MPI_SUM, j->means, &b->request);
    if (rc != MPI_SUCCESS) tp__job_fail("MPI cannot send the statistics of a layer (code %d)", rc);
    tp_mutex_unlock(j->lock);
    const tp_status st = tp__job_start(rc == MPI_SUCCESS ? TP_OK : TP_ERR_IO, &b->request);
    if (st == TP_OK && a->deterministic) tp__bucket_add(b->sums, elements, a->ranks, dtype);
    return st;
}

/* Copies the inputs to the message. */
static tp_status tp__rank_mean_send(const tp_call *k, const tp__bucket *b)
{
    char *to = b->host_buffer;
    tp_status st = TP_OK;
    for (int i = 0; i < k->n_in && st == TP_OK; i++) {
        const size_t bytes = tp__operand_bytes(&k->in[i]);
        st = k->device->download(k->device, to, k->in[i].data, bytes);
        to += bytes;
    }
    return st == TP_OK ? k->device->wait(k->device) : st;
}
/* Copies the means to the outputs. If they did not arrive, the outputs are the inputs, which are finite: else the end of the job could
 * be reported as a NaN. */
static tp_status tp__rank_mean_receive(const tp_call *k, const tp__bucket *b, int64_t elements, bool arrived)
{
    tp_device *d = k->device;
    const double scale = 1.0 / ((const tp__bucket_attrs *)k->attrs)->ranks;
    const bool is_f64 = k->in[0].dtype == TP_F64;
    char *from = b->sums;
    tp_status st = TP_OK;
    for (int64_t i = 0; i < elements && arrived && is_f64; i++) ((double *)(void *)from)[i] *= scale;
    for (int64_t i = 0; i < elements && arrived && !is_f64; i++) ((float *)(void *)from)[i] *= (float)scale;
    for (int i = 0; i < k->n_out && st == TP_OK; i++) {
        const size_t bytes = tp__operand_bytes(&k->in[i]);
        if (k->out[i].data && arrived) st = d->upload(d, k->out[i].data, from, bytes);
        else if (k->out[i].data) st = d->copy(d, k->out[i].data, k->in[i].data, bytes);
        if (arrived) from += bytes;
    }
    return st == TP_OK ? d->wait(d) : st; /* the next step uses the same message */
}

/* If the job is over, the run is cancelled, before it changes a variable if none was changed yet. */
static void tp__rank_mean(const tp_call *k)
{
    const tp__bucket_attrs *a = (const tp__bucket_attrs *)k->attrs;
    tp__bucket *b = (tp__bucket *)k->user;
    const tp_dtype dtype = k->in[0].dtype;
    int64_t elements = 0;
    for (int i = 0; i < k->n_in; i++) elements += tp_shape_size(&k->in[i].shape);
    const size_t bytes = (size_t)elements * tp_dtype_size(dtype);
    const char *problem = NULL;
    tp_status st = tp__job_status(); /* after a failure the ops that follow send nothing */
    if (st == TP_OK && !b->trainer->in_step_)
        problem = "a layer's statistics of all ranks are computed outside a step, which the other ranks do not join: "
                  "fetch them in before_run, with the step";
    if (!b->host_buffer) b->host_buffer = (char *)tp_malloc(bytes + 1);
    if (!problem && (!b->host_buffer || !tp__bucket_sums(b, bytes * (size_t)(a->deterministic ? a->ranks : 1) + 1)))
        problem = "out of memory for the statistics of a layer";
    if (!problem && st == TP_OK && tp__rank_mean_send(k, b) != TP_OK)
        problem = "the statistics of a layer cannot be brought to the host";
    if (!problem && st == TP_OK) st = tp__rank_mean_sum(b, a, elements, dtype);
    const bool arrived = !problem && st == TP_OK;
    if (tp__rank_mean_receive(k, b, elements, arrived) != TP_OK && arrived)
        problem = "the statistics of a layer cannot be brought to the device";
    tp_mutex_lock(tp__job.lock);
    if (problem) tp__job_fail("%s", problem);
    tp_mutex_unlock(tp__job.lock);
    if (problem || st != TP_OK) tp_session_cancel(b->trainer->state.session);
}

static tp_status tp__rank_mean_infer(tp_infer *s)
{
    s->n_out = s->n_in;
    for (int i = 0; i < s->n_in; i++) s->out[i] = s->in[i];
    return TP_OK;
}
static void tp__rank_mean_add(void *user, tp_node *const *xs, int n, tp_node **ys);
/* The derivative of the job's cost, which is the mean over the ranks, is the mean of the ranks' derivatives: the same op again. */
static void tp__rank_mean_gradient(tp_grad *g)
{
    const int n = g->op->n_in;
    tp_node **d = (tp_node **)tp_graph_alloc(g->graph, (size_t)n * sizeof *d);
    for (int i = 0; i < n && d; i++) d[i] = g->dout[i] ? g->dout[i] : tp_zeros_like(g->in[i]);
    if (d) tp__rank_mean_add(((const tp__bucket *)g->op->user)->trainer, d, n, g->din);
}
static const tp_op tp__op_rank_mean =
    TP__ROW("rank_mean", "RankMean", TP__RANKS_FLAGS, TP__IO_RANGE(1, TP_MAX_OUTPUTS, -1), TP__ATTRS(bucket),
            tp__rank_mean_infer, tp__rank_mean_gradient, TP__KERNELS(tp__rank_mean, NULL, NULL),
            TP__FLOPS(tp__bucket_flops), TP__NO_ONNX);

/* Adds a message of this trainer to the list of those that are freed with it. NULL: out of memory, which the graph keeps. */
static tp__bucket *tp__bucket_alloc(tp_trainer *t)
{
    tp__bucket *b = (tp__bucket *)tp_calloc(1, sizeof *b);
    if (!b) {
        tp_graph_fail(t->graph, NULL, TP_ERR_NOMEM, "out of memory for a message to the other ranks");
        return NULL;
    }
    b->trainer = t;
    b->request = MPI_REQUEST_NULL;
    b->next = t->ranks_->bucket;
    t->ranks_->bucket = b;
    return b;
}

/* Adds the op that averages xs over the ranks; user: the trainer. */
static void tp__rank_mean_add(void *user, tp_node *const *xs, int n, tp_node **ys)
{
    tp_trainer *t = (tp_trainer *)user;
    tp__rank_state *r = t->ranks_;
    tp__bucket_attrs a;
    tp_apply_desc d;
    tp_node *y = tp_poison(t->graph);
    tp__bucket *b = NULL;
    if (r->means_complete)
        tp_graph_fail(
            t->graph, NULL, TP_ERR_STATE,
            "%s: the step is built already, so a layer's statistics of all ranks cannot enter it: the model's "
            "build_graph and optimizer add what needs them, its gradients too",
            t->name);
    else if (tp_graph_status(t->graph) == TP_OK) b = tp__bucket_alloc(t);
    if (b) {
        memset(&a, 0, sizeof a);
        memset(&d, 0, sizeof d);
        a.order = r->n_mean++;
        a.ranks = tp__job.size;
        a.deterministic = r->deterministic;
        a.mean = 1;
        d.row = &tp__op_rank_mean;
        d.in = xs;
        d.n_in = n;
        d.attrs = &a;
        d.user = b;
        tp_device_enter(t->graph, tp_is_poison(xs[0]) ? 0 : tp_node_device(xs[0]));
        y = tp_apply_ex(t->graph, &d);
        tp_device_leave(t->graph);
    }
    for (int i = 0; i < n; i++) ys[i] = tp_is_poison(y) ? y : &y->op->out[i];
    if (tp_is_poison(y)) return;
    if (r->mean) tp__add_control(y->op, r->mean);
    r->mean = y->op;
}

/* Tells the layers of this trainer's model how to average over the ranks of the job, or why they cannot. */
static void tp__ranks_offer_means(tp_trainer *t)
{
    tp__over_ranks *o = &t->graph->over_ranks;
    if (!tp__job.begun || tp__job.size == 1) return;
    o->n_rank = tp__job.size;
    o->mean = tp__rank_mean_add;
    o->user = t;
    if (t->ranks_ && !t->ranks_->n_ps) return;
    o->refusal = tp_arena_printf(&t->graph->arena,
                                 t->ranks_ ? "the workers of %s exchange values with servers only"
                                           : "%s does not train together with other ranks",
                                 t->name);
    if (!o->refusal) o->refusal = "this trainer averages nothing over ranks";
}

/* -- HorovodTrainer */

/* Makes one bucket of gradients order[0..n) of the list. The new bucket is sent after the bucket `before`; NULL: it is the first
 * one. */
static tp_node *tp__bucket_new(tp_trainer *t, const tp_grad_var *gvs, const int *order, int n, tp_node *before)
{
    tp_graph *g = t->graph;
    tp__rank_state *r = t->ranks_;
    tp_node **in = (tp_node **)tp_graph_alloc(g, (size_t)n * sizeof *in);
    tp__bucket *b = in ? tp__bucket_alloc(t) : NULL;
    tp__bucket_attrs a;
    tp_apply_desc d;
    if (!b) return tp_poison(g);
    memset(&d, 0, sizeof d);
    a.order = r->n_bucket++;
    a.ranks = tp__job.size;
    a.half = r->compression == TP_COMPRESSION_FP16 && gvs[order[0]].grad->dtype == TP_F32;
    a.deterministic = r->deterministic;
    a.mean = r->average;
    for (int i = 0; i < n; i++) in[i] = gvs[order[i]].grad;
    d.row = a.half || a.deterministic ? &tp__op_bucket_send : &tp__op_bucket_send_packed;
    d.in = in;
    d.n_in = n;
    d.attrs = &a;
    d.user = b;
    tp_device_enter(g, tp_node_device(in[0]));
    tp_node *y = tp_apply_ex(g, &d);
    tp_device_leave(g);
    if (before && !tp_is_poison(before) && !tp_is_poison(y)) tp__add_control(y->op, before->op);
    return y;
}

/* Adds the op that returns the reduced gradients of a bucket. */
static void tp__bucket_take(tp_trainer *t, tp_grad_var *gvs, const int *order, int n, tp_node *sent)
{
    tp_graph *g = t->graph;
    tp_node **var = (tp_node **)tp_graph_alloc(g, (size_t)n * sizeof *var);
    tp_apply_desc d;
    if (!var || tp_is_poison(sent)) return;
    memset(&d, 0, sizeof d);
    for (int i = 0; i < n; i++) var[i] = gvs[order[i]].var;
    d.row = &tp__op_bucket_receive;
    d.in = &sent;
    d.n_in = 1;
    d.attrs = sent->op->attrs;
    d.vars = var;
    d.n_var = n;
    d.user = sent->op->user;
    tp_node *y = tp_apply_ex(g, &d);
    for (int i = 0; i < n && !tp_is_poison(y); i++) gvs[order[i]].grad = &y->op->out[i];
    if (t->ranks_->mean && !tp_is_poison(y)) tp__add_control(y->op, t->ranks_->mean);
}

/* Returns how many bytes of gradients a bucket may have. The default is a quarter of all gradients, so that all but the last buckets
 * are sent during the backward pass, but a bucket that is too small costs latency, and one that is too large memory. */
static int64_t tp__bucket_limit(const tp_trainer *t, const tp_grad_var *gvs, int n)
{
    const int64_t least = (int64_t)1 << 20, most = (int64_t)16 << 20;
    int64_t quarter = 0;
    if (t->ranks_->bucket_bytes > 0) return t->ranks_->bucket_bytes;
    for (int i = 0; i < n; i++)
        quarter += tp_shape_size(&gvs[i].grad->shape) * (int64_t)tp_dtype_size(gvs[i].grad->dtype) / 4;
    return quarter < least ? least : quarter < most ? quarter : most;
}

/* Whether gradient x fits into the bucket that begins with `first` and already has n gradients of `bytes` bytes. */
static bool tp__bucket_fits(const tp_grad_var *first, const tp_grad_var *x, int n, int64_t bytes, int64_t limit)
{
    const int64_t added_bytes = tp_shape_size(&x->grad->shape) * (int64_t)tp_dtype_size(x->grad->dtype);
    return n == 0 || (n < TP_MAX_OUTPUTS && first->grad->dtype == x->grad->dtype &&
                      tp_node_device(first->grad) == tp_node_device(x->grad) && bytes + added_bytes <= limit);
}

/* Makes the buckets of gradients, in the order in which their last gradients are computed, which is the same on all
 * ranks. */
static void tp__ranks_reduce(tp_trainer *t, tp_grad_var *gvs, int n)
{
    tp_graph *g = t->graph;
    if (!t->ranks_ || tp__job.size == 1) return;
    int *order = (int *)tp_graph_alloc(g, ((size_t)n + 1) * sizeof *order);
    int *begin = (int *)tp_graph_alloc(g, ((size_t)n + 1) * sizeof *begin);
    tp_node **sent = (tp_node **)tp_graph_alloc(g, ((size_t)n + 1) * sizeof *sent);
    if (!order || !begin || !sent) return;
    for (int i = 0; i < n; i++) { /* sorted by the creation order of the gradients */
        int k = i;
        const tp_node *x = gvs[i].grad;
        if ((x->dtype != TP_F32 && x->dtype != TP_F64) || tp_shape_size(&x->shape) > INT_MAX - 15) {
            tp_graph_fail(g, NULL, TP_ERR_UNSUPPORTED,
                          "%s: the gradient of '%s' is %s of %lld elements: float32 and float64 of at most 2147483632 "
                          "elements can be sent",
                          t->name, tp_node_name(gvs[i].var), tp_dtype_name(x->dtype),
                          (long long)tp_shape_size(&x->shape));
            return;
        }
        for (; k > 0 && gvs[order[k - 1]].grad->op->id > x->op->id; k--) order[k] = order[k - 1];
        order[k] = i;
    }
    const int64_t limit = tp__bucket_limit(t, gvs, n);
    int n_bucket = 0;
    for (int i = 0; i < n;) {
        int k = i;
        int64_t bytes = 0;
        while (k < n && tp__bucket_fits(&gvs[order[i]], &gvs[order[k]], k - i, bytes, limit)) {
            const tp_node *x = gvs[order[k++]].grad;
            bytes += tp_shape_size(&x->shape) * (int64_t)tp_dtype_size(x->dtype);
        }
        begin[n_bucket] = i;
        sent[n_bucket] = tp__bucket_new(t, gvs, order + i, k - i, n_bucket ? sent[n_bucket - 1] : NULL);
        n_bucket++;
        i = k;
    }
    begin[n_bucket] = n;
    t->ranks_->means_complete = true;
    for (int i = 0; i < n_bucket && tp_graph_status(g) == TP_OK; i++)
        tp__bucket_take(t, gvs, order + begin[i], begin[i + 1] - begin[i], sent[i]);
    tp_log(TP_LOG_INFO, "%s: %d gradients are averaged over %d ranks in %d buckets.", t->name, n, tp__job.size,
           n_bucket);
}

static bool tp__has_other_ranks(const tp_trainer *t) { return t->ranks_ && tp__job.begun && tp__job.size > 1; }
/* Whether this rank ends its training because it is interrupted. Only the chief does: it finishes its step, for which it needs the
 * others, and saves the model. Another rank asks the chief to end, and goes on until the chief has ended or its own data are late. */
static bool tp__ranks_interrupted(tp_trainer *t, bool interrupted)
{
    tp__job_state *j = &tp__job;
    tp__rank_state *r = t->ranks_;
    tp__control_message l;
    if (!tp__has_other_ranks(t)) return interrupted;
    if (t->state.is_chief) return interrupted || j->interrupted == r->training;
    if (!interrupted || r->asked_chief) return false;
    r->asked_chief = true;
    memset(&l, 0, sizeof l);
    l.kind = TP__LETTER_INTERRUPTED;
    l.rank = j->rank;
    l.training = r->training;
    tp_mutex_lock(j->lock);
    tp__job_send_to_all(&l);
    tp_mutex_unlock(j->lock);
    return false;
}
static tp_status tp__ranks_poll(tp_trainer *t)
{
    return tp__has_other_ranks(t) && tp__job.training == t->ranks_->training ? tp__job_status() : TP_OK;
}
/* Whether the chief reports the error of the whole job, so that this rank need not. */
static bool tp__job_reports_error(const tp_trainer *t)
{
    return t->ranks_ && __atomic_load_n(&tp__job.failed, __ATOMIC_ACQUIRE) && tp__job.rank != 0 && !tp__job.chief_lost;
}

/* -- check that all ranks train the same graph */

typedef struct tp__graph_facts {
    uint64_t hash;
    int64_t n_trainable, n_parameter, length;
} tp__graph_facts;

static uint64_t tp__attrs_hash(const tp_operation *op)
{
    static const size_t bytes[] = {sizeof(int),     8 * sizeof(int),  8 * sizeof(int64_t), sizeof(float),
                                   sizeof(bool),    sizeof(tp_dtype), sizeof(tp_shape),    0,
                                   sizeof(uint64_t)};
    uint64_t h = 0;
    for (const tp_attr *a = op->row->attr; a && a->name && op->attrs; a++) {
        const char *at = (const char *)op->attrs + a->offset;
        const char *text = a->kind == TP_ATTR_STRING ? *(const char *const *)(const void *)at : NULL;
        if (a->kind != TP_ATTR_STRING) h = h * 31 + tp_hash(at, bytes[a->kind]);
        else if (text) h = h * 31 + tp_hash_name(text);
    }
    return h;
}

/* Writes one line for each option of the trainer that must be equal on all ranks. */
static void tp__describe_options(const tp__rank_state *r, tp_buf *out)
{
    static const char *const words[] = {"TP_NO", "TP_YES"};
    if (r->n_ps) return; /* that trainer has other options */
    tp_buf_printf(out, ".average = %s\n.compression = %s\n.deterministic = %s\n.bucket_bytes = %lld\n",
                  words[r->average], r->compression ? "TP_COMPRESSION_FP16" : "TP_COMPRESSION_NONE",
                  r->deterministic ? "true" : "false", (long long)r->bucket_bytes);
    tp_buf_printf(out, ".broadcast_every_epoch = %s\n", words[r->broadcast]);
}

/* Writes as text what must be equal on all ranks: a line for each option of the trainer, then for each variable and operation of a
 * step's graph. */
static tp_status tp__describe_step(tp_trainer *t, tp_buf *out, tp__graph_facts *f)
{
    tp_graph *g = t->graph;
    const int n = tp_graph_n_operations(g);
    char shape[TP_SHAPE_TEXT];
    memset(f, 0, sizeof *f);
    char *need = (char *)tp_calloc((size_t)n + 1, 1);
    if (!need) return TP_ERR_NOMEM;
    if (t->train_op) need[t->train_op->op->id] = 1;
    for (int id = n - 1; id >= 0; id--) { /* inputs were created earlier; operations behind control edges need not be */
        const tp_operation *op = tp_graph_operation(g, id);
        for (int i = 0; need[id] && i < op->n_in; i++) need[op->in[i]->op->id] = 1;
        for (int i = 0; need[id] && i < op->n_ctrl; i++) need[op->ctrl[i]->id] = 1;
    }
    tp__describe_options(t->ranks_, out);
    for (int i = 0; i < t->ranks_->n_ps; i++) tp_buf_printf(out, "server of rank %d\n", t->ranks_->server_ranks[i]);
    for (int i = 0; i < t->ranks_->n_worker; i++) tp_buf_printf(out, "worker of rank %d\n", t->ranks_->worker_ranks[i]);
    for (int i = 0; i < t->ranks_->n_variable; i++) {
        const tp_variable *v = tp_graph_variable(g, i);
        tp_buf_printf(out, "variable %s, %s %s%s\n", v->name, tp_dtype_name(v->dtype), tp_shape_text(&v->shape, shape),
                      v->trainable ? "" : ", not trained");
        f->n_trainable += v->trainable && !v->local;
        f->n_parameter += v->trainable && !v->local ? tp_shape_size(&v->shape) : 0;
    }
    for (int id = 0; id < n; id++) {
        const tp_operation *op = tp_graph_operation(g, id);
        if (!need[id]) continue;
        tp_buf_printf(out, "operation %s, %s %s, options %08x\n", op->name, op->row->name,
                      tp_shape_text(&op->out[0].shape, shape), (unsigned)tp__attrs_hash(op));
    }
    tp_free(need);
    if (out->failed || !out->data) return TP_ERR_NOMEM;
    f->length = (int64_t)out->len;
    f->hash = tp_hash(out->data, out->len);
    return TP_OK;
}

/* Moves *a and *b to the first lines that differ. */
static void tp__first_difference(const char **a, const char **b)
{
    for (;;) {
        const size_t n = strcspn(*a, "\n"), m = strcspn(*b, "\n");
        if (n != m || memcmp(*a, *b, n) != 0 || !(*a)[n] || !(*b)[n]) return;
        *a += n + 1;
        *b += n + 1;
    }
}

/* Makes the error sentence about rank r, whose graph has the text `theirs`. */
static void tp__report_difference(const tp__graph_facts *facts, int r, const char *own_text, const char *other_text,
                                  char *text, size_t size)
{
    const tp__graph_facts *a = &facts[0], *b = &facts[r];
    tp__first_difference(&own_text, &other_text);
    if (a->n_trainable != b->n_trainable || a->n_parameter != b->n_parameter)
        snprintf(
            text, size,
            "rank %d has %lld trainable variables with %lld parameters, the chief %lld with %lld: all ranks must build "
            "the same model",
            r, (long long)b->n_trainable, (long long)b->n_parameter, (long long)a->n_trainable,
            (long long)a->n_parameter);
    else
        snprintf(text, size, "rank %d has %s the chief: rank %d has '%.*s', the chief has '%.*s'", r,
                 *other_text == '.' && *own_text == '.' ? "another option than" : "built another graph than", r,
                 (int)strcspn(other_text, "\n") > 150 ? 150 : (int)strcspn(other_text, "\n"), other_text,
                 (int)strcspn(own_text, "\n") > 150 ? 150 : (int)strcspn(own_text, "\n"), own_text);
}

static tp_status tp__compare_graphs(tp_trainer *t)
{
    tp__job_state *j = &tp__job;
    tp__graph_facts own_facts;
    tp_buf text;
    char sentence[400];
    int different_rank = 0;
    memset(&text, 0, sizeof text);
    memset(sentence, 0, sizeof sentence);
    tp__graph_facts *facts = (tp__graph_facts *)tp_calloc((size_t)j->size, sizeof *facts);
    tp_status st = facts ? tp__describe_step(t, &text, &own_facts) : TP_ERR_NOMEM;
    if (st == TP_OK) st = tp__job_gather(&own_facts, sizeof own_facts, facts);
    for (int r = 1; r < j->size && st == TP_OK && different_rank == 0; r++)
        if (memcmp(&facts[r], &facts[0], sizeof own_facts) != 0) different_rank = r;
    if (st == TP_OK && different_rank > 0) {
        const size_t n = (size_t)facts[different_rank].length;
        char *other_text = (char *)tp_calloc(n + 1, 1);
        if (other_text && j->rank == different_rank) memcpy(other_text, text.data, n);
        st = other_text ? tp__job_broadcast(other_text, n, different_rank) : TP_ERR_NOMEM;
        if (st == TP_OK) tp__report_difference(facts, different_rank, text.data, other_text, sentence, sizeof sentence);
        if (st == TP_OK) st = tp__job_broadcast(sentence, sizeof sentence, 0);
        tp_free(other_text);
        tp_mutex_lock(j->lock);
        if (st == TP_OK) tp__job_fail("%s", sentence);
        tp_mutex_unlock(j->lock);
        if (st == TP_OK) st = tp_fail(TP_ERR_STATE, "%s: %s", t->name, sentence);
    }
    tp_buf_free(&text);
    tp_free(facts);
    return st;
}

/* -- the chief's values are copied to all ranks */

static tp_status tp__broadcast_variable(tp_trainer *t, const tp_variable *v, tp_tensor *value)
{
    tp_status st = tp_session_read(t->state.session, v, value);
    if (st == TP_OK && tp_tensor_bytes(value)) st = tp__job_broadcast(value->data, tp_tensor_bytes(value), 0);
    return st == TP_OK && tp__job.rank != 0 ? tp_session_load(t->state.session, v, value) : st;
}

/* Broadcasts the saved variables of the towers and the step counter. No rank continues before all ranks have them. */
static tp_status tp__broadcast_variables(tp_trainer *t)
{
    tp_tensor value;
    const tp_variable *step = tp_node_variable(tp_get_global_step_var(t->graph));
    memset(&value, 0, sizeof value);
    if (tp__job.size == 1) return TP_OK;
    tp_status st = step ? tp__broadcast_variable(t, step, &value) : TP_OK;
    for (int i = 0; i < t->ranks_->n_variable && st == TP_OK; i++) {
        const tp_variable *v = tp_graph_variable(t->graph, i);
        if (!v->local && v != step) st = tp__broadcast_variable(t, v, &value);
    }
    tp_tensor_free(&value);
    return st == TP_OK ? tp__job_barrier() : st;
}

/* -- the states of callbacks that run on all ranks, and local variables
 *
 * The chief alone loads the checkpoint. It sends the states of these callbacks, and local variables, which such a callback may have
 * written, in one message, an entry after the other: the name with its NUL, a tp__state_head, the data. */

typedef struct tp__state_head {
    int64_t dtype, ndim, dim[TP_MAX_DIMS];
} tp__state_head;

typedef struct tp__sending {
    tp__loading saved;
    tp_callback **list; /* the callbacks that the other ranks have, too */
    int n;
    tp_arena mem;
    tp_buf known, message; /* known: the new "tp:callbacks" */
} tp__sending;

static void tp__state_pack(tp_buf *b, const char *prefix, const char *name, const tp_tensor *t)
{
    tp__state_head head;
    memset(&head, 0, sizeof head);
    head.dtype = t->dtype;
    head.ndim = t->shape.ndim;
    for (int i = 0; i < t->shape.ndim; i++) head.dim[i] = t->shape.dim[i];
    tp_buf_put(b, prefix, strlen(prefix));
    tp_buf_put(b, name, strlen(name) + 1);
    tp_buf_put(b, &head, sizeof head);
    if (tp_tensor_bytes(t)) tp_buf_put(b, t->data, tp_tensor_bytes(t));
}

/* Adds the state of a callback to the message, under the name that it has among the other ranks' callbacks: chief-only ones of the
 * same name do not count there. A monitor's state is about the files of its own rank: the others only get to know that it is
 * resumed. */
static tp_status tp__send_state(tp_callback *cb, void *user)
{
    tp__sending *s = (tp__sending *)user;
    const size_t n = strlen(cb->state_prefix_);
    if (cb->unnamed_ || !tp__state_known(&s->saved, cb->state_prefix_)) return TP_OK;
    const char *name = tp__state_name(&s->mem, s->list, s->n, cb);
    if (!name) return TP_ERR_NOMEM;
    tp_buf_put(&s->known, name, strlen(name) + 1);
    for (int i = 0; i < s->saved.d->n && !cb->is_monitor; i++) {
        const tp_dict_item *item = &s->saved.d->item[i];
        if (strncmp(item->name, cb->state_prefix_, n) == 0)
            tp__state_pack(&s->message, name, item->name + n, &item->value);
    }
    return TP_OK;
}

/* Adds the local variables to the message, but for the copies of further towers, of which each rank has its own. */
static void tp__send_locals(const tp_graph *g, const tp_dict *d, tp_buf *message)
{
    const size_t n = strlen(TP__LOCAL_STATE);
    for (int i = 0; i < d->n; i++) {
        const char *name = d->item[i].name;
        const tp_variable *v = strncmp(name, TP__LOCAL_STATE, n) == 0 ? tp__variable_named(g, name + n) : NULL;
        if (v && !v->copy_of) tp__state_pack(message, "", name, &d->item[i].value);
    }
}

/* On the chief: makes the message. It is empty if the training is not resumed. */
static tp_status tp__states_collect(tp_trainer *t, tp_buf *message)
{
    tp_train_state *train = &t->state;
    tp_tensor known;
    tp__sending s;
    memset(&s, 0, sizeof s);
    memset(&known, 0, sizeof known);
    tp__find_known(&s.saved, tp_session_state(train->session));
    if (s.saved.n_known == 0) return TP_OK;
    tp_status st = tp__name_states(train);
    s.list = (tp_callback **)tp_malloc(((size_t)train->n_callbacks + 1) * sizeof *s.list);
    if (!s.list) st = TP_ERR_NOMEM;
    for (int i = 0; i < train->n_callbacks && s.list; i++)
        if (!train->callbacks[i]->chief_only) s.list[s.n++] = train->callbacks[i];
    if (st == TP_OK) st = tp__visit(s.list, s.n, tp__send_state, &s);
    const int64_t n = (int64_t)s.known.len;
    tp_tensor_view(&known, TP_U8, tp_make_shape_n(1, &n), s.known.data);
    if (st == TP_OK && n > 0) tp__state_pack(&s.message, "tp:", "callbacks", &known);
    if (st == TP_OK) tp__send_locals(t->graph, s.saved.d, &s.message);
    if (st == TP_OK && (s.known.failed || s.message.failed)) st = TP_ERR_NOMEM;
    *message = s.message;
    tp_buf_free(&s.known);
    tp_arena_free(&s.mem);
    tp_free((void *)s.list);
    return st;
}

/* On the other ranks: adds the entries of the message to the states that a resume loads. */
static tp_status tp__states_unpack(tp_dict *d, const char *data, size_t size)
{
    tp_status st = TP_OK;
    for (size_t at = 0; at < size && st == TP_OK;) {
        tp__state_head head;
        tp_tensor from;
        const char *name = data + at;
        at += strlen(name) + 1;
        memcpy(&head, data + at, sizeof head);
        at += sizeof head;
        memset(&from, 0, sizeof from);
        tp_tensor_view(&from, (tp_dtype)head.dtype, tp_make_shape_n((int)head.ndim, head.dim), data + at);
        at += tp_tensor_bytes(&from);
        tp_tensor *to = tp_dict_add(d, name);
        st = to ? tp_tensor_copy(to, &from) : TP_ERR_NOMEM;
    }
    return st;
}

static tp_status tp__share_states(tp_trainer *t)
{
    const bool sends = tp__job.rank == 0;
    tp_buf message;
    memset(&message, 0, sizeof message);
    tp_status st = sends ? tp__states_collect(t, &message) : TP_OK;
    int64_t size = (int64_t)message.len;
    char *data = message.data;
    if (st == TP_OK) st = tp__job_broadcast(&size, sizeof size, 0);
    if (st == TP_OK && !sends && size > 0 && !(data = (char *)tp_malloc((size_t)size))) st = TP_ERR_NOMEM;
    if (st == TP_OK && size > 0) st = tp__job_broadcast(data, (size_t)size, 0);
    if (st == TP_OK && !sends && size > 0)
        st = tp__states_unpack(tp_session_state(t->state.session), data, (size_t)size);
    if (!sends) tp_free(data);
    tp_buf_free(&message);
    return st;
}

/* The position at which a resumed training continues: numbers from the chief's checkpoint, which of the keys below it has, and
 * whether it is another training's. */
typedef struct tp__position {
    int64_t epoch[2], local_step, random_step, outside, consumed, ranks, has, begins_anew;
} tp__position;
static const struct {
    const char *key;
    size_t offset;
    int n;
} tp__position_keys[] = {
    {"epoch", offsetof(tp__position, epoch), 2},
    {"local_step", offsetof(tp__position, local_step), 1},
    {"random_step", offsetof(tp__position, random_step), 1},
    {"random_step_outside", offsetof(tp__position, outside), 1},
    {"input/consumed", offsetof(tp__position, consumed), 1},
    {"ranks", offsetof(tp__position, ranks), 1},
};
static tp_status tp__share_position(tp_trainer *t)
{
    tp_dict *d = tp_session_state(t->state.session);
    tp__position p;
    const int64_t size = tp__job.size;
    memset(&p, 0, sizeof p);
    for (int i = 0; i < TP_COUNT(tp__position_keys); i++)
        if (tp_state_get_i64(d, "tp:", tp__position_keys[i].key,
                             (int64_t *)(void *)((char *)&p + tp__position_keys[i].offset), tp__position_keys[i].n))
            p.has |= (int64_t)1 << i;
    p.begins_anew = t->begins_anew_;
    tp_status st = tp__job_broadcast(&p, sizeof p, 0);
    for (int i = 0; i < TP_COUNT(tp__position_keys) && st == TP_OK && tp__job.rank != 0; i++) {
        const int64_t *v = (const int64_t *)(const void *)((const char *)&p + tp__position_keys[i].offset);
        if (p.has >> i & 1) st = tp_state_put_i64(d, "tp:", tp__position_keys[i].key, v, tp__position_keys[i].n);
    }
    t->ranks_->saved_ranks = p.ranks > 0 ? p.ranks : 1;
    t->begins_anew_ = p.begins_anew != 0;
    if (st == TP_OK) st = tp__share_states(t);
    return st == TP_OK ? tp_state_put_i64(d, "tp:", "ranks", &size, 1) : st;
}

/* -- parameter servers: the variables of each, and the messages
 *
 * A worker's message to a server has a header of one line (TP__LINE bytes), then the gradients, the learning rate and the condition
 * of the update, each at the beginning of a line. After applying all workers' gradients the server sends the new values. */

enum { TP__MESSAGE_GRADIENTS = 1, TP__PARCEL_COLLECT, TP__PARCEL_END };
enum { TP__TAG_PUSH = 0, TP__TAG_VALUES, TP__TAG_COLLECTED, TP__TAG_COUNT };

/* The share of one server: its variables; the same description on all ranks. */
typedef struct tp__share {
    tp_trainer *trainer;
    int rank;                   /* rank of the server */
    int n_var;                  /* number of trained variables of this server */
    tp_node **var;              /* the first tower's variables that belong to this server */
    tp_node **grad, *lr, *pred; /* placeholders that feed the server's update; lr and pred may be NULL */
    tp_node *update;            /* the server's update; NULL: the server has no variable */
    const tp_variable **owned;  /* the n_owned variables that the server's update writes, including slots */
    int n_owned;
    size_t push_bytes, value_bytes, owned_bytes; /* sizes of messages in bytes */
    /* a worker's messages: gradients to the server, values from the server */
    char *out, *in;
    MPI_Request sent, got;
    bool in_flight; /* the gradients were sent, but the new values have not arrived yet */
} tp__share;
typedef struct tp__take_attrs {
    int first; /* index, among the share's variables, of the first one whose value the op returns */
} tp__take_attrs;
static const tp_attr tp__take_schema[] = {TP__ATTR(tp__take_attrs, INT, first), TP__ATTRS_END};

static size_t tp__lines(size_t bytes) { return (bytes + TP__LINE - 1) / TP__LINE * TP__LINE; }
static size_t tp__node_lines(const tp_node *x)
{
    return x ? tp__lines((size_t)tp_shape_size(&x->shape) * tp_dtype_size(x->dtype)) : 0;
}
static int tp__share_tag(const tp_trainer *t, int tag) { return t->ranks_->training % 8000 * TP__TAG_COUNT + tag; }

/* Start to send or receive a message; do not wait. */
static tp_status tp__message_send(const tp_trainer *t, const char *data, size_t bytes, int to, int tag, MPI_Request *q)
{
    tp__job_state *j = &tp__job;
    tp_mutex_lock(j->lock);
    const int rc = MPI_Isend(data, (int)(bytes / TP__LINE), j->line, to, tp__share_tag(t, tag), j->data, q);
    tp_mutex_unlock(j->lock);
    return rc == MPI_SUCCESS ? TP_OK : tp__job_error("MPI_Isend", rc);
}
static tp_status tp__message_receive(const tp_trainer *t, char *data, size_t bytes, int from, int tag, MPI_Request *q)
{
    tp__job_state *j = &tp__job;
    tp_mutex_lock(j->lock);
    const int rc = MPI_Irecv(data, (int)(bytes / TP__LINE), j->line, from, tp__share_tag(t, tag), j->data, q);
    tp_mutex_unlock(j->lock);
    return rc == MPI_SUCCESS ? TP_OK : tp__job_error("MPI_Irecv", rc);
}
/* Cancels a message. true: its memory may be freed; false: a part of the message is still in transit. */
static bool tp__message_cancel(MPI_Request *q)
{
    int done = 1;
    if (*q == MPI_REQUEST_NULL || !tp__job.begun) return *q == MPI_REQUEST_NULL;
    tp_mutex_lock(tp__job.lock);
    MPI_Test(q, &done, MPI_STATUS_IGNORE);
    if (!done) MPI_Cancel(q);
    if (!done) MPI_Test(q, &done, MPI_STATUS_IGNORE);
    if (!done) MPI_Request_free(q);
    tp_mutex_unlock(tp__job.lock);
    return done != 0;
}

/* -- a worker's step: send gradients, receive values */

/* The inputs of the op that sends: a share's gradients, then the learning rate and the condition, if the share has
 * them. */
static void tp__share_send(const tp_call *k)
{
    tp__share *s = (tp__share *)k->user;
    tp__job_state *j = &tp__job;
    tp_device *d = k->device;
    tp_status st = TP_OK;
    if (s->in_flight) st = tp__job_wait(&s->got); /* request for the message of a cancelled run */
    if (s->in_flight && st == TP_OK) st = tp__job_wait(&s->sent);
    char *to = s->out + TP__LINE;
    if (st == TP_OK) memset(s->out, 0, TP__LINE), *(int32_t *)(void *)s->out = TP__MESSAGE_GRADIENTS;
    for (int i = 0; i < k->n_in && st == TP_OK; i++) {
        const size_t bytes = (size_t)tp_shape_size(&k->in[i].shape) * tp_dtype_size(k->in[i].dtype);
        if (bytes) st = d->download(d, to, k->in[i].data, bytes);
        to += tp__lines(bytes);
    }
    if (st == TP_OK) st = d->wait(d);
    if (st == TP_OK) st = tp__message_receive(s->trainer, s->in, s->value_bytes, s->rank, TP__TAG_VALUES, &s->got);
    if (st == TP_OK) st = tp__message_send(s->trainer, s->out, s->push_bytes, s->rank, TP__TAG_PUSH, &s->sent);
    tp_mutex_lock(j->lock);
    if (st < 0) tp__job_fail("gradients cannot be sent to a parameter server: %s", tp_last_error());
    j->in_flight += st == TP_OK && !s->in_flight;
    s->in_flight = st == TP_OK;
    tp_cond_signal(j->wake);
    tp_mutex_unlock(j->lock);
}

/* The kernel that receives a server's new values of some of its variables, the first of which is number attrs->first. If the job is
 * over, the outputs are the old values, and the run ends before it changes a variable. */
static void tp__share_receive(const tp_call *k)
{
    const tp__take_attrs *a = (const tp__take_attrs *)k->attrs;
    tp__share *s = (tp__share *)k->user;
    tp_device *d = k->device;
    tp_status st = s->in_flight ? tp__job_wait(&s->got) : tp__job_status();
    if (st == TP_OK && s->in_flight) st = tp__job_wait(&s->sent);
    tp_mutex_lock(tp__job.lock);
    tp__job.in_flight -= s->in_flight && st == TP_OK;
    if (st == TP_OK) s->in_flight = false;
    tp_mutex_unlock(tp__job.lock);
    const bool arrived = st == TP_OK;
    size_t at = 0;
    for (int i = 0; i < a->first; i++) at += tp__node_lines(s->var[i]);
    for (int i = 0; i < k->n_out; i++) {
        const size_t bytes = (size_t)tp_shape_size(&k->var[i].shape) * tp_dtype_size(k->var[i].dtype);
        tp_status moved = TP_OK;
        if (!arrived && bytes) moved = d->download(d, s->out + at, k->var[i].data, bytes);
        if (!arrived && bytes && moved == TP_OK) moved = d->wait(d);
        if (bytes && moved == TP_OK) moved = d->upload(d, k->out[i].data, (arrived ? s->in : s->out) + at, bytes);
        if (moved != TP_OK) st = moved;
        at += tp__lines(bytes);
    }
    if (!arrived) d->wait(d);
    if (arrived && st != TP_OK) {
        tp_mutex_lock(tp__job.lock);
        tp__job_fail("values of a parameter server cannot be brought to the device: %s", tp_last_error());
        tp_mutex_unlock(tp__job.lock);
    }
    if (st != TP_OK) tp_session_cancel(s->trainer->state.session);
}

static tp_status tp__share_send_infer(tp_infer *s)
{
    s->out[0].dtype = TP_BOOL;
    s->out[0].shape = tp_make_shape_n(0, NULL);
    return TP_OK;
}
static const tp_op tp__op_share_send =
    TP__RANKS_ROW("server_send", "ServerSend", TP_OP_EARLY, -1, 1, TP__NO_ATTRS, tp__share_send_infer, tp__share_send);
static const tp_op tp__op_share_take =
    TP__RANKS_ROW("server_take", "ServerTake", 0, 1, -1, TP__ATTRS(take), tp__bucket_receive_infer, tp__share_receive);

/* -- the graph with servers */

/* Reduces the optimizer to one of its two halves. Workers keep the wrapping optimizers, and `leaf`, which sends the gradients,
 * replaces the innermost optimizer. Servers keep the innermost optimizer and tp_post_process. */
static void tp__optimizer_half(tp_trainer *t, bool server, tp_apply_fn leaf)
{
    tp__rank_state *r = t->ranks_;
    int i = 0;
    for (tp_optimizer *o = r->opt; o; o = o->inner, i++) {
        const bool updates = !o->inner || r->apply[i] == tp__post_apply;
        if (o->inner) o->apply_gradients = updates == server ? r->apply[i] : tp__proxy_apply;
        else o->apply_gradients = server ? r->apply[i] : leaf;
        if (!o->inner) o->user = server ? r->leaf_user : t;
    }
}

/* Assigns each variable to the server with the fewest bytes so far. */
static bool tp__shares_assign(tp_trainer *t, const tp_grad_var *gvs, int n)
{
    tp__rank_state *r = t->ranks_;
    size_t *bytes = (size_t *)tp_graph_alloc(t->graph, (size_t)r->n_ps * sizeof *bytes);
    r->share = (tp__share *)tp_graph_alloc(t->graph, (size_t)r->n_ps * sizeof *r->share);
    if (!bytes || !r->share) return false;
    for (int k = 0; k < r->n_ps; k++) {
        tp__share *s = &r->share[k];
        s->trainer = t;
        s->rank = r->server_ranks[k];
        s->sent = s->got = MPI_REQUEST_NULL;
        bytes[k] = 0;
        s->var = (tp_node **)tp_graph_alloc(t->graph, (size_t)n * sizeof *s->var);
        s->grad = (tp_node **)tp_graph_alloc(t->graph, ((size_t)n + 2) * sizeof *s->grad);
        if (!s->var || !s->grad) return false;
    }
    for (int i = 0; i < n; i++) {
        int smallest = 0;
        for (int k = 1; k < r->n_ps; k++)
            if (bytes[k] < bytes[smallest]) smallest = k;
        tp__share *s = &r->share[smallest];
        s->var[s->n_var] = gvs[i].var;
        s->grad[s->n_var++] = gvs[i].grad;
        bytes[smallest] += (size_t)tp_shape_size(&gvs[i].var->shape) * tp_dtype_size(gvs[i].var->dtype);
    }
    return true;
}

/* Adds the op with which a worker sends a server the gradients of that server's variables, and the learning rate and condition. */
static tp_node *tp__share_sender(tp__share *s, tp_node *lr, tp_node *pred)
{
    tp_graph *g = s->trainer->graph;
    tp_apply_desc d;
    memset(&d, 0, sizeof d);
    int n = s->n_var;
    if (lr) s->grad[n++] = lr;
    if (pred) s->grad[n++] = pred;
    d.row = &tp__op_share_send;
    d.in = s->grad;
    d.n_in = n;
    d.user = s;
    tp_device_enter(g, tp_node_device(s->var[0]));
    tp_node *y = tp_apply_ex(g, &d);
    tp_device_leave(g);
    return y;
}

/* Assigns the new values of a share to the variables and to their copies in other towers. Returns the number of ops. */
static int tp__share_assigner(tp__share *s, tp_node *sent, tp_node **ops)
{
    tp_graph *g = s->trainer->graph;
    int n_ops = 0;
    for (int i = 0; i < s->n_var && tp_graph_status(g) == TP_OK;) {
        tp_apply_desc d;
        tp__take_attrs a;
        memset(&d, 0, sizeof d);
        a.first = i;
        while (i < s->n_var && i - a.first < TP_MAX_OUTPUTS &&
               tp_node_device(s->var[i]) == tp_node_device(s->var[a.first]))
            i++;
        d.row = &tp__op_share_take;
        d.in = &sent;
        d.n_in = 1;
        d.attrs = &a;
        d.vars = s->var + a.first;
        d.n_var = i - a.first;
        d.user = s;
        tp_device_enter(g, tp_node_device(s->var[a.first]));
        const tp_node *y = tp_apply_ex(g, &d);
        tp_device_leave(g);
        for (int k = a.first; k < i && !tp_is_poison(y); k++) {
            const tp_variable *v = tp_node_variable(s->var[k]);
            ops[n_ops++] = tp_assign(s->var[k], &y->op->out[k - a.first], NULL);
            for (int q = 0; q < tp_graph_n_variables(g); q++) {
                const tp_variable *copy = tp_graph_variable(g, q);
                if (copy->copy_of == v) ops[n_ops++] = tp_assign(copy->node, &y->op->out[k - a.first], NULL);
            }
        }
    }
    return n_ops;
}

/* Builds the server's half of a share: the update, whose gradients are fed through placeholders. */
static void tp__share_update(tp__share *s, tp_node *lr, tp_node *pred)
{
    tp_trainer *t = s->trainer;
    tp_graph *g = t->graph;
    tp_optimizer *leaf = t->ranks_->opt;
    while (leaf->inner) leaf = leaf->inner;
    tp_grad_var *gvs = (tp_grad_var *)tp_graph_alloc(g, (size_t)s->n_var * sizeof *gvs);
    if (!gvs) return;
    for (int i = 0; i < s->n_var; i++) {
        tp_device_enter(g, tp_node_device(s->var[i]));
        s->grad[i] = tp_placeholder(g, "server_gradient", s->grad[i]->dtype, s->var[i]->shape);
        tp_device_leave(g);
        gvs[i].grad = s->grad[i];
        gvs[i].var = s->var[i];
    }
    if (lr) s->lr = tp_placeholder(g, "server_learning_rate", lr->dtype, lr->shape);
    if (pred) s->pred = tp_placeholder(g, "server_condition", pred->dtype, pred->shape);
    tp_apply_fn sender = leaf->apply_gradients;
    tp_node *rate = leaf->learning_rate;
    int n = 0;
    for (const tp_optimizer *o = t->ranks_->opt; o; o = o->inner) n++;
    tp_optimizer *worker = (tp_optimizer *)tp_graph_alloc(g, (size_t)n * sizeof *worker), *caller = g->optimizer;
    if (!worker) return;
    n = 0; /* the same optimizers make the server's update now, in the middle of the worker's */
    for (const tp_optimizer *o = t->ranks_->opt; o; o = o->inner) worker[n++] = *o;
    g->optimizer = NULL;
    tp__optimizer_half(t, true, NULL);
    if (lr) leaf->learning_rate = s->lr;
    s->update = tp_apply_gradients_if(t->ranks_->opt, gvs, s->n_var, s->pred);
    leaf->learning_rate = rate;
    tp__optimizer_half(t, false, sender);
    g->optimizer = caller;
    n = 0;
    for (tp_optimizer *o = t->ranks_->opt; o; o = o->inner, n++)
        o->updates = worker[n].updates, o->n_called_ = worker[n].n_called_;
}

/* Replaces the optimizer's apply_gradients on a worker. */
static tp_node *tp__served_apply(tp_optimizer *o, const tp_grad_var *gvs, int n)
{
    tp_trainer *t = (tp_trainer *)o->user;
    tp__rank_state *r = t->ranks_;
    tp_graph *g = t->graph;
    int n_ops = 0, copies = 1;
    if (r->share)
        return tp_graph_fail(g, NULL, TP_ERR_UNSUPPORTED,
                             "%s: the optimizer applies gradients more than once in a step", t->name);
    copies += t->n_devices;
    tp_node **ops = (tp_node **)tp_graph_alloc(g, (size_t)n * (size_t)copies * sizeof *ops);
    tp_node **sent = (tp_node **)tp_graph_alloc(g, (size_t)r->n_ps * sizeof *sent);
    if (!ops || !sent || !tp__shares_assign(t, gvs, n)) return tp_poison(g);
    tp_node *lr = o->learning_rate, *pred = o->pred;
    for (int k = 0; k < r->n_ps; k++) /* send to all servers before waiting for any of them */
        if (r->share[k].n_var) sent[k] = tp__share_sender(&r->share[k], lr, pred);
    for (int k = 0; k < r->n_ps && tp_graph_status(g) == TP_OK; k++)
        if (r->share[k].n_var) n_ops += tp__share_assigner(&r->share[k], sent[k], ops + n_ops);
    for (int k = 0; k < r->n_ps && tp_graph_status(g) == TP_OK; k++)
        if (r->share[k].n_var) tp__share_update(&r->share[k], lr, pred);
    if (tp_graph_status(g) != TP_OK) return tp_poison(g);
    for (int k = 0; k < r->n_ps; k++)
        tp_log(TP_LOG_INFO, "%s: the server of rank %d keeps %d of %d variables.", t->name, r->share[k].rank,
               r->share[k].n_var, n);
    return tp_group(g, ops, n_ops, "update");
}

static void tp__ranks_optimizer(tp_trainer *t, tp_optimizer *opt)
{
    tp__rank_state *r = t->ranks_;
    int n = 0;
    if (!r || !r->n_ps) return;
    r->opt = opt;
    for (const tp_optimizer *o = opt; o; o = o->inner) n++;
    r->apply = (tp_apply_fn *)tp_graph_alloc(t->graph, (size_t)n * sizeof *r->apply);
    if (!r->apply) return;
    n = 0;
    for (const tp_optimizer *o = opt; o; o = o->inner) {
        if (o->apply_gradients == tp__multi_apply)
            tp_graph_fail(t->graph, NULL, TP_ERR_UNSUPPORTED,
                          "%s: its servers get one learning rate, so one optimizer must update all variables, not "
                          "those of tp_multi_optimizer",
                          t->name);
        r->apply[n++] = o->apply_gradients;
        r->leaf_user = o->user;
    }
    tp__optimizer_half(t, false, tp__served_apply);
}

/* -- before the first step */

/* Finds the variables that an update writes, by a search from its op backwards. */
static tp_status tp__share_find_owned(tp__share *s)
{
    tp_graph *g = s->trainer->graph;
    const int n = tp_graph_n_operations(g), n_var = tp_graph_n_variables(g);
    char *need = (char *)tp_calloc((size_t)n + (size_t)n_var + 1, 1), *written = need + n;
    s->owned = (const tp_variable **)tp_graph_alloc(g, ((size_t)n_var + 1) * sizeof *s->owned);
    if (!need || !s->owned) {
        tp_free(need);
        return tp_fail(TP_ERR_NOMEM, "out of memory for what a parameter server keeps");
    }
    need[s->update->op->id] = 1;
    for (int id = n - 1; id >= 0; id--) {
        const tp_operation *op = tp_graph_operation(g, id);
        for (int i = 0; need[id] && i < op->n_in; i++) need[op->in[i]->op->id] = 1;
        for (int i = 0; need[id] && i < op->n_ctrl; i++) need[op->ctrl[i]->id] = 1;
        for (int i = 0; need[id] && tp__is_writer(op) && i < op->n_var; i++) written[op->var[i]->id] = 1;
    }
    s->n_owned = 0;
    for (int i = 0; i < s->trainer->ranks_->n_variable; i++) {
        const tp_variable *v = tp_graph_variable(g, i);
        if (!written[v->id] || v->local) continue;
        s->owned[s->n_owned++] = v;
        s->owned_bytes += tp__node_lines(v->node);
    }
    tp_free(need);
    return TP_OK;
}

/* Computes the message sizes and allocates a worker's messages. */
static tp_status tp__shares_initialize(tp_trainer *t)
{
    tp__rank_state *r = t->ranks_;
    for (int k = 0; k < r->n_ps; k++) {
        tp__share *s = &r->share[k];
        s->push_bytes = TP__LINE + tp__node_lines(s->lr) + tp__node_lines(s->pred);
        s->value_bytes = 0;
        for (int i = 0; i < s->n_var; i++) {
            s->push_bytes += tp__node_lines(s->grad[i]);
            s->value_bytes += tp__node_lines(s->var[i]);
        }
        const tp_status st = s->update ? tp__share_find_owned(s) : TP_OK;
        if (st != TP_OK) return st;
        const size_t max_bytes = s->push_bytes > s->owned_bytes ? s->push_bytes : s->owned_bytes;
        if (max_bytes / TP__LINE > INT_MAX)
            return tp_fail(
                TP_ERR_UNSUPPORTED,
                "%s: one parameter server would keep %.0f GB, more than fits into a message: use more servers", t->name,
                (double)s->owned_bytes * 1e-9);
        if (r->serves) continue;
        const size_t out = s->push_bytes > s->value_bytes ? s->push_bytes : s->value_bytes;
        s->out = (char *)tp_calloc(1, out);
        s->in = (char *)tp_calloc(1, s->value_bytes + TP__LINE);
        if (!s->out || !s->in)
            return tp_fail(TP_ERR_NOMEM, "%s: out of memory for messages to parameter servers", t->name);
    }
    return TP_OK;
}

/* -- the loop of a server */

typedef struct tp__serving {
    tp_trainer *trainer;
    tp__share *share;
    char **in, *out; /* in: a message from each worker; out: the reply to all */
    MPI_Request *got, *sent;
    bool *has_arrived, *is_applied; /* for each worker: its gradients have arrived; its gradients have been applied */
    int n_done;
    tp_feed *feed;
    char rate_message[16]; /* the learning rate that the chief sent with its gradients of this step */
    tp_tensor value;
} tp__serving;

static tp_status tp__serving_listen(tp__serving *v, int w)
{
    const size_t bytes = v->share->push_bytes;
    return tp__message_receive(v->trainer, v->in[w], bytes, v->trainer->ranks_->worker_ranks[w], TP__TAG_PUSH,
                               &v->got[w]);
}

static tp_status tp__serving_open(tp__serving *v)
{
    tp__rank_state *r = v->trainer->ranks_;
    const size_t n = (size_t)r->n_worker;
    const size_t max_bytes =
        v->share->value_bytes > v->share->owned_bytes ? v->share->value_bytes : v->share->owned_bytes;
    v->in = (char **)tp_calloc(n, sizeof *v->in);
    v->out = (char *)tp_calloc(1, max_bytes + TP__LINE);
    v->got = (MPI_Request *)tp_calloc(2 * n, sizeof *v->got);
    v->has_arrived = (bool *)tp_calloc(2 * n, sizeof *v->has_arrived);
    v->feed = (tp_feed *)tp_calloc((size_t)v->share->n_var + 2, sizeof *v->feed);
    if (v->got) v->sent = v->got + n;
    if (v->has_arrived) v->is_applied = v->has_arrived + n;
    for (size_t w = 0; v->got && w < 2 * n; w++) v->got[w] = MPI_REQUEST_NULL;
    bool ok = v->in && v->out && v->got && v->has_arrived && v->feed;
    for (size_t w = 0; w < n && ok; w++) ok = (v->in[w] = (char *)tp_calloc(1, v->share->push_bytes)) != NULL;
    if (!ok)
        return tp_fail(TP_ERR_NOMEM, "%s: out of memory for the messages of %d workers", v->trainer->name, r->n_worker);
    tp_status st = TP_OK;
    for (int w = 0; w < r->n_worker && st == TP_OK; w++) st = tp__serving_listen(v, w);
    return st;
}
static void tp__serving_close(tp__serving *v)
{
    const int n = v->trainer->ranks_->n_worker;
    bool free_out = true;
    for (int w = 0; w < n && v->got && v->in; w++) {
        if (tp__message_cancel(&v->got[w])) tp_free(v->in[w]);
        free_out = tp__message_cancel(&v->sent[w]) && free_out;
    }
    if (free_out) tp_free(v->out);
    tp_free((void *)v->in);
    tp_free(v->got);
    tp_free(v->has_arrived);
    tp_free(v->feed);
    tp_tensor_free(&v->value);
}

/* Makes one update with the gradients of worker w. */
static tp_status tp__serving_apply(tp__serving *v, int w)
{
    tp__share *s = v->share;
    const char *at = v->in[w] + TP__LINE;
    int n = 0;
    for (int i = 0; i < s->n_var + 2; i++) {
        tp_node *x = i < s->n_var ? s->grad[i] : i == s->n_var ? s->lr : s->pred;
        if (!x) continue;
        v->feed[n].node = x;
        tp_tensor_view(&v->feed[n++].value, x->dtype, x->shape, i == s->n_var ? v->rate_message : at);
        at += tp__node_lines(x);
    }
    return tp_session_run(v->trainer->state.session, v->feed, n, &s->update, 1, NULL);
}

/* Copies the value of variable x to *to and moves *to past the value, to the next multiple of TP__LINE bytes. */
static tp_status tp__serving_pack(tp__serving *v, const tp_variable *x, char **to)
{
    const tp_status st = tp_session_read(v->trainer->state.session, x, &v->value);
    if (st == TP_OK && tp_tensor_bytes(&v->value)) memcpy(*to, v->value.data, tp_tensor_bytes(&v->value));
    *to += tp__node_lines(x->node);
    return st;
}

/* Waits until the message is sent, even if the chief has ended the training meanwhile. */
static tp_status tp__serving_sent(MPI_Request *q)
{
    tp_status st;
    do st = tp__job_wait(q);
    while (st == TP_STOP && *q != MPI_REQUEST_NULL);
    return st == TP_STOP ? TP_OK : st;
}

/* When all workers' gradients are applied: sends the new values to all workers and begins the next step. */
static tp_status tp__serving_answer(tp__serving *v)
{
    const tp__rank_state *r = v->trainer->ranks_;
    char *to = v->out;
    tp_status st = TP_OK;
    for (int i = 0; i < v->share->n_var && st == TP_OK; i++)
        st = tp__serving_pack(v, tp_node_variable(v->share->var[i]), &to);
    for (int w = 0; w < r->n_worker && st == TP_OK; w++) {
        v->has_arrived[w] = v->is_applied[w] = false;
        st = tp__serving_listen(v, w);
        if (st == TP_OK)
            st = tp__message_send(v->trainer, v->out, v->share->value_bytes, r->worker_ranks[w], TP__TAG_VALUES,
                                  &v->sent[w]);
    }
    v->n_done = 0;
    for (int w = 0; w < r->n_worker && st == TP_OK; w++) st = tp__serving_sent(&v->sent[w]);
    return st;
}

/* Sends all variables of this server to the chief, for a checkpoint. */
static tp_status tp__serving_collected(tp__serving *v)
{
    char *to = v->out;
    tp_status st = TP_OK;
    for (int i = 0; i < v->share->n_owned && st == TP_OK; i++) st = tp__serving_pack(v, v->share->owned[i], &to);
    if (st == TP_OK) st = tp__serving_listen(v, 0);
    if (st == TP_OK)
        st = tp__message_send(v->trainer, v->out, v->share->owned_bytes, v->trainer->ranks_->worker_ranks[0],
                              TP__TAG_COLLECTED, &v->sent[0]);
    return st == TP_OK ? tp__serving_sent(&v->sent[0]) : st;
}

/* Handles a message from worker w. Returns TP_END when the training is over. */
static tp_status tp__serving_handle(tp__serving *v, int w)
{
    const tp__rank_state *r = v->trainer->ranks_;
    const int kind = *(const int32_t *)(const void *)v->in[w];
    if (kind == TP__PARCEL_END) return TP_END;
    if (kind == TP__PARCEL_COLLECT) return tp__serving_collected(v);
    v->has_arrived[w] = true;
    if (w == 0 && v->share->lr) {
        const char *rate = v->in[0] + TP__LINE;
        for (int i = 0; i < v->share->n_var; i++) rate += tp__node_lines(v->share->grad[i]);
        memcpy(v->rate_message, rate, tp_dtype_size(v->share->lr->dtype));
    }
    /* Before the chief has begun the step it may still collect the values of the step before, for a checkpoint. */
    if (!v->has_arrived[0]) return TP_OK;
    tp_status st = TP_OK;
    for (int k = 0; k < r->n_worker && st == TP_OK; k++) {
        if (!v->has_arrived[k] && r->ordered) break;
        if (!v->has_arrived[k] || v->is_applied[k]) continue;
        st = tp__serving_apply(v, k);
        v->is_applied[k] = true;
        v->n_done++;
    }
    return st == TP_OK && v->n_done == r->n_worker ? tp__serving_answer(v) : st;
}

/* If this rank is a server, serves until the training is over and returns true. */
static bool tp__ranks_serve(tp_trainer *t, tp_status *st)
{
    tp__rank_state *r = t->ranks_;
    tp__serving v;
    if (!r || !r->serves) return false;
    memset(&v, 0, sizeof v);
    v.trainer = t;
    v.share = &r->share[r->task];
    *st = tp__serving_open(&v);
    while (*st == TP_OK) {
        int w = 0;
        *st = tp__job_wait_any(v.got, r->n_worker, &w);
        if (*st == TP_OK) *st = tp__serving_handle(&v, w);
        (void)tp__ranks_interrupted(t, tp__os_interrupted());
    }
    if (*st == TP_END) *st = TP_OK;
    tp__serving_close(&v);
    return true;
}

/* Sends request `command` from the chief to a server. */
static tp_status tp__share_ask(tp__share *s, int command)
{
    memset(s->out, 0, TP__LINE);
    *(int32_t *)(void *)s->out = command;
    const tp_status st = tp__message_send(s->trainer, s->out, TP__LINE, s->rank, TP__TAG_PUSH, &s->sent);
    return st == TP_OK ? tp__job_wait(&s->sent) : st;
}
static tp_status tp__share_collect(tp__share *s)
{
    tp_session *session = s->trainer->state.session;
    MPI_Request q = MPI_REQUEST_NULL;
    char *in = (char *)tp_calloc(1, s->owned_bytes + TP__LINE);
    if (!in) return tp_fail(TP_ERR_NOMEM, "out of memory for what a parameter server keeps");
    const char *at = in;
    tp_status st = tp__message_receive(s->trainer, in, s->owned_bytes, s->rank, TP__TAG_COLLECTED, &q);
    if (st == TP_OK) st = tp__share_ask(s, TP__PARCEL_COLLECT);
    if (st == TP_OK) st = tp__job_wait(&q);
    for (int i = 0; i < s->n_owned && st == TP_OK; i++) {
        tp_tensor value;
        memset(&value, 0, sizeof value);
        tp_tensor_view(&value, s->owned[i]->dtype, s->owned[i]->shape, at);
        st = tp_session_load(session, s->owned[i], &value);
        at += tp__node_lines(s->owned[i]->node);
    }
    if (tp__message_cancel(&q)) tp_free(in);
    return st;
}

/* Fetches the servers' variables, including slots, to the chief. */
static tp_status tp__ranks_collect(tp_trainer *t)
{
    const tp__rank_state *r = t->ranks_;
    tp_status st = TP_OK;
    if (!r || !r->share || !t->state.is_chief || r->left_training) return TP_OK;
    for (int k = 0; k < r->n_ps && st == TP_OK; k++)
        if (r->share[k].update && r->share[k].out) st = tp__share_collect(&r->share[k]);
    return st;
}
/* Ends the training on the chief and notifies the servers. */
static void tp__shares_end(tp_trainer *t)
{
    const tp__rank_state *r = t->ranks_;
    for (int k = 0; k < r->n_ps && r->share && t->state.is_chief; k++)
        if (r->share[k].out && tp__share_ask(&r->share[k], TP__PARCEL_END) != TP_OK) return;
}
static void tp__shares_free(tp__rank_state *r)
{
    for (int k = 0; k < r->n_ps && r->share; k++) {
        tp__share *s = &r->share[k];
        if (tp__message_cancel(&s->sent)) tp_free(s->out);
        if (tp__message_cancel(&s->got)) tp_free(s->in);
    }
}

/* -- functions that trainers call */

static tp_status tp__ranks_session(tp_trainer *t)
{
    if (!t->ranks_) return TP_OK;
    if (t->creator.create != tp_new_session_creator(NULL).create)
        return tp_fail(TP_ERR_ARG,
                       "%s makes its session by the default creator: give .session_config, no .session_creator",
                       t->name);
    tp_session_config *c = &t->creator.config;
    const int n = tp__os_processors() / (tp__job.local_size > 0 ? tp__job.local_size : 1);
    if (c->threads == 0 && tp__job.local_size > 1) c->threads = n > 1 ? n : 1; /* several ranks share processors */
    return TP_OK;
}

/* Uses the device library's sum over ranks (NCCL) if every rank has such a device, the options allow it and no layer averages over
 * the ranks. (MPI computes such averages. Where they ran between sums of NCCL, a training on the tests' emulation of CUDA had NaN; the
 * cause is not known.) If connecting fails on one rank, all ranks sum through the host. A rank that is killed while the ranks connect is noticed
 * by mpirun only. */
static tp_status tp__ranks_join(tp_trainer *t)
{
    tp__rank_state *r = t->ranks_;
    tp__job_state *j = &tp__job;
    tp_device *d = tp_session_device(t->state.session, 0);
    char id[TP_CUDA_COMM_ID] = {0};
    bool ok = d && !d->host && d->ranks_join && !r->deterministic && r->compression == TP_COMPRESSION_NONE;
    ok = ok && r->n_mean == 0;
    const bool gpu = d && !d->host;
    tp_status st = tp__all_agree(&ok), met = TP_OK;
    if (st != TP_OK) return st;
    if (gpu && !ok)
        tp_log(TP_LOG_INFO, "%s: gradients go from device to device by way of the host: %s", t->name,
               r->n_mean > 0                        ? "so it is with TP_SYNC_RANKS"
               : r->deterministic || r->compression ? "so it is with .deterministic and .compression"
                                                    : "not every rank has a GPU and NCCL");
    if (!ok) return TP_OK;
    if (j->rank == 0) met = d->ranks_id(d, id);
    st = tp__job_broadcast(id, sizeof id, 0);
    ok = met == TP_OK;
    if (st == TP_OK) st = tp__all_agree(&ok);
    if (st == TP_OK && ok) {
        met = d->ranks_join(d, id, j->size, j->rank);
        ok = met == TP_OK;
        st = tp__all_agree(&ok);
        if (met == TP_OK && (st != TP_OK || !ok)) d->ranks_leave(d, true);
    }
    if (st == TP_OK && ok) r->summing = d;
    if (st == TP_OK && !ok)
        tp_log(TP_LOG_WARN, "%s: gradients go by way of the host, NCCL cannot be used%s%s", t->name,
               met != TP_OK ? ": " : " on another rank", met != TP_OK ? tp_last_error() : "");
    if (st == TP_OK && ok) tp_log(TP_LOG_INFO, "%s: gradients go from GPU to GPU, by NCCL.", t->name);
    return st;
}

static tp_status tp__ranks_initialize(tp_trainer *t)
{
    if (!t->ranks_ || tp__job.size == 1) return TP_OK;
    tp__job_enter(t);
    tp_status st = tp__job_renew();
    if (st == TP_OK && t->ranks_->n_ps) st = tp__shares_initialize(t);
    if (st == TP_OK) st = tp__compare_graphs(t);
    if (st == TP_OK && t->ranks_->n_mean) st = tp__job_new_communicator(&tp__job.means);
    if (st == TP_OK && !t->ranks_->n_ps) st = tp__ranks_join(t);
    if (st == TP_OK) st = tp__share_position(t);
    return st == TP_OK ? tp__broadcast_variables(t) : st;
}

static tp_status tp__ranks_agree(tp_trainer *t, int64_t *starting_epoch, int64_t steps, int64_t max_epoch)
{
    int64_t chief[3];
    if (!t->ranks_ || tp__job.size == 1) return TP_OK;
    tp__job_enter(t);
    chief[0] = *starting_epoch;
    chief[1] = steps;
    chief[2] = max_epoch;
    const tp_status st = tp__job_broadcast(chief, sizeof chief, 0);
    if (st != TP_OK) return st;
    *starting_epoch = chief[0];
    if (chief[1] == steps && chief[2] == max_epoch) return TP_OK;
    return tp_fail(TP_ERR_ARG,
                   "it makes %lld steps an epoch up to epoch %lld, the chief %lld up to epoch %lld: all ranks must "
                   "make the same%s",
                   (long long)steps, (long long)max_epoch, (long long)chief[1], (long long)chief[2],
                   chief[1] != steps
                       ? ". Give .steps_per_epoch, the size of all data / tp_size(), where the parts of tp_df_shard "
                         "have different sizes"
                       : "");
}

static void tp__ranks_random(tp_trainer *t)
{
    tp_exec *e = tp_hooked_session_exec(t->state.hooked_session);
    if (t->ranks_ && tp__job.rank > 0)
        tp_exec_set_random_step(e, tp_exec_random_step(e) + ((uint64_t)tp__job.rank << 40));
}

/* Notifies the other ranks that this rank's training is over, since they may wait for this rank. */
static tp_status tp__ranks_leave(tp_trainer *t, tp_status st)
{
    tp__control_message l;
    const char *reason = st == TP_END    ? "its data has ended"
                         : st == TP_INTR ? "it was interrupted"
                                         : t->state.stop_reason;
    if (!t->ranks_ || t->ranks_->left_training || !tp__job.begun || tp__job.size == 1) return st;
    t->ranks_->left_training = true;
    if (t->ranks_->summing) t->ranks_->summing->ranks_leave(t->ranks_->summing, st < 0 || st == TP_INTR);
    t->ranks_->summing = NULL;
    if (st == TP_OK || st == TP_STOP || st == TP_END) tp__shares_end(t);
    memset(&l, 0, sizeof l);
    l.kind = TP__LETTER_LEFT;
    l.rank = tp__job.rank;
    l.training = t->ranks_->training;
    l.ok = st == TP_OK ? 2 : st == TP_STOP || st == TP_END;
    snprintf(l.text, sizeof l.text, "%.*s", (int)sizeof l.text - 1, l.ok || st == TP_INTR ? reason : tp_last_error());
    tp_mutex_lock(tp__job.lock);
    tp__job_send_to_all(&l);
    tp_mutex_unlock(tp__job.lock);
    return st;
}

/* Whether MPI may still write into a bucket, after a failure, as soon as a slow rank sends its part. The memory of that bucket
 * is then not freed, since the job ends. */
static bool tp__bucket_awaited(tp__bucket *b)
{
    int done = 1;
    if (b->request == MPI_REQUEST_NULL) return false;
    if (!tp__job.begun) return true;
    tp_mutex_lock(tp__job.lock);
    MPI_Test(&b->request, &done, MPI_STATUS_IGNORE);
    tp_mutex_unlock(tp__job.lock);
    return !done;
}
static bool tp__ranks_awaited(const tp_trainer *t)
{
    bool awaited = false;
    for (tp__bucket *b = t->ranks_ ? t->ranks_->bucket : NULL; b; b = b->next)
        awaited = tp__bucket_awaited(b) || awaited;
    return awaited;
}

static void tp__ranks_free(tp_trainer *t)
{
    if (!t->ranks_) return;
    for (tp__bucket *b = t->ranks_->bucket, *next; b; b = next) {
        next = b->next;
        const bool awaited = tp__bucket_awaited(b);
        if (!awaited) tp_free(b->host_buffer);
        if (!awaited) tp_free_aligned(b->sums);
        tp_free(b);
    }
    tp__shares_free(t->ranks_);
    tp_free(t->ranks_->server_ranks);
    tp_free(t->ranks_);
}
#endif

/* If the job has ended during an action with the status st, returns the job's error with the reason. */
static tp_status tp__ranks_after(tp_trainer *t, tp_status st)
{
    const tp_status job = tp__ranks_poll(t);
    if (job == TP_STOP) snprintf(t->state.stop_reason, sizeof t->state.stop_reason, "by the chief");
    return job == TP_OK ? st : job;
}
static tp_status tp__ranks_step(tp_trainer *t)
{
    tp_status st = tp__ranks_poll(t);
    if (st == TP_OK) st = tp__step_train_op(t);
    return tp__ranks_after(t, st);
}

static tp_status tp__horovod_broadcast(tp_callback *cb) { return tp__broadcast_variables(cb->train->trainer); }

/* Broadcasts again before the first step of an epoch: callbacks of the chief may have set variables since. */
static tp_status tp__ranks_before_steps(tp_trainer *t)
{
    const tp__rank_state *r = t->ranks_;
    if (!r || r->n_ps || !(r->broadcast || t->state.epoch_num == t->state.starting_epoch)) return TP_OK;
    return tp__ranks_after(t, tp__broadcast_variables(t));
}

static tp_status tp__horovod_build(tp_trainer *t, const tp_model *m)
{
    const tp_status st = tp__simple_build(t, m);
    if (st != TP_OK) return st;
    t->ranks_->n_variable = tp_graph_n_variables(t->graph);
    tp_callback *cb = tp_callback_new("HorovodBroadcast", 0);
    if (cb) {
        cb->chief_only = false;
        cb->before_train = tp__horovod_broadcast;
        if (t->ranks_->broadcast) cb->trigger_epoch = tp__horovod_broadcast;
    }
    return tp_trainer_register_callback(t, cb);
}

/* Starts the job if it is not started yet; the graph's status keeps an error. */
static void tp__ranks_begin(tp_trainer *t, tp_at at, double patience)
{
    const char *name = NULL;
    const int launched = tp__launcher_size(&name);
    const bool enough = patience >= TP__LEAST_PATIENCE;
    t->ranks_->patience = enough ? patience : 5;
    const tp_status st = tp__job_begin(t->ranks_->patience);
    if (!(patience >= 0))
        tp_graph_fail(t->graph, &at, TP_ERR_ARG,
                      "%s: .patience is %g: it must be positive, in seconds, or 0 for the default", t->name, patience);
    else if (!enough && patience > 0)
        tp_graph_fail(
            t->graph, &at, TP_ERR_ARG,
            "%s: .patience is %g: it must be at least %d seconds, or 0 for the default, because a rank sends a "
            "heartbeat twice a second and may be late where processors are busy",
            t->name, patience, TP__LEAST_PATIENCE);
    t->ranks_->training = tp__job_number();
    t->state.is_chief = tp_rank() == 0;
    if (st != TP_OK) tp_graph_fail(t->graph, &at, st, "%s: %s", t->name, tp_last_error());
    else if (launched > 1 && tp_size() == 1)
        tp_graph_fail(t->graph, &at, TP_ERR_UNSUPPORTED, "%s: %s says that this is one of %d processes, but %s",
                      t->name, name, launched,
#ifdef TP_MPI
                      "MPI sees one: the program was linked with another MPI than that of mpirun");
#else
                      "this program was built without MPI: compile it by mpicc with -DTP_MPI");
#endif
}

TP_DEF tp_trainer *tp_horovod_trainer_(const tp_horovod_trainer_desc *d)
{
    TP__REQUIRE(d, NULL)
    tp_trainer *t = tp__trainer_new("HorovodTrainer");
    if (t) t->ranks_ = (tp__rank_state *)tp_calloc(1, sizeof *t->ranks_);
    if (!t || !t->ranks_) {
        tp_trainer_free(t);
        return NULL;
    }
    tp__ranks_begin(t, d->at_, d->patience);
    tp__rank_state *r = t->ranks_;
    r->average = d->average != TP_NO;
    r->compression = d->compression;
    r->deterministic = d->deterministic;
    r->bucket_bytes = d->bucket_bytes;
    r->broadcast = d->broadcast_every_epoch != TP_NO;
    t->build = tp__horovod_build;
    t->run_step = tp__ranks_step;
    if (d->compression != TP_COMPRESSION_NONE && d->compression != TP_COMPRESSION_FP16)
        tp_graph_fail(t->graph, &d->at_, TP_ERR_ARG,
                      "%s: .compression is %d: it must be TP_COMPRESSION_NONE or TP_COMPRESSION_FP16", t->name,
                      (int)d->compression);
    if (d->bucket_bytes < 0)
        tp_graph_fail(t->graph, &d->at_, TP_ERR_ARG,
                      "%s: .bucket_bytes is %lld: it must be positive, or 0 for the default", t->name,
                      (long long)d->bucket_bytes);
    if (d->bucket_bytes > INT_MAX)
        tp_graph_fail(t->graph, &d->at_, TP_ERR_ARG,
                      "%s: .bucket_bytes is %lld: it must be at most %d, because MPI counts what it sends by an int",
                      t->name, (long long)d->bucket_bytes, INT_MAX);
    return t;
}

/* -- trainers with parameter servers */

static int tp__cluster_ps(const tp_cluster *c, int k) { return c->ps ? c->ps[k] : tp_size() - c->n_ps + k; }
static bool tp__among_ranks(const int *list, int n, int rank)
{
    for (int i = 0; i < n; i++)
        if (list[i] == rank) return true;
    return false;
}
/* Checks that the ranks of a list exist and that none is listed twice. */
static tp_status tp__check_ranks(const int *list, int n, const char *field_name)
{
    for (int i = 0; i < n; i++) {
        if (list[i] < 0 || list[i] >= tp_size())
            return tp_fail(TP_ERR_ARG, "the cluster's .%s[%d] is rank %d, but the job has the ranks 0 to %d",
                           field_name, i, list[i], tp_size() - 1);
        if (tp__among_ranks(list, i, list[i]))
            return tp_fail(TP_ERR_ARG, "the cluster's .%s names rank %d twice", field_name, list[i]);
    }
    return TP_OK;
}
static tp_status tp__check_cluster(const tp_cluster *c)
{
    const int size = tp_size();
    if (c->n_ps < 1)
        return tp_fail(TP_ERR_ARG, "the cluster has no parameter server: .n_ps is %d, it is 1 or more", c->n_ps);
    if (size == 1)
        return tp_fail(TP_ERR_UNSUPPORTED,
#ifdef TP_MPI
                       "parameter servers are processes of their own, and this job has one process: start it by "
                       "mpirun, or take another trainer"
#else
                       "parameter servers are processes of their own, and this program was built without MPI, for one "
                       "process: compile it by mpicc with -DTP_MPI and start it by mpirun, or take another trainer"
#endif
        );
    if (c->n_ps >= size)
        return tp_fail(TP_ERR_ARG, "the cluster has %d parameter servers, the job %d ranks: no rank is left to train",
                       c->n_ps, size);
    if (c->workers && c->n_workers < 1)
        return tp_fail(TP_ERR_ARG, "the cluster has no worker: .n_workers is %d, it is 1 or more", c->n_workers);
    tp_status st = c->ps ? tp__check_ranks(c->ps, c->n_ps, "ps") : TP_OK;
    if (st == TP_OK && c->workers) st = tp__check_ranks(c->workers, c->n_workers, "workers");
    for (int r = 0; r < size && st == TP_OK; r++) {
        bool serves = false;
        for (int k = 0; k < c->n_ps; k++) serves = serves || tp__cluster_ps(c, k) == r;
        const bool is_worker = c->workers ? tp__among_ranks(c->workers, c->n_workers, r) : !serves;
        if (serves && is_worker)
            st = tp_fail(TP_ERR_ARG, "the cluster says that rank %d serves and trains: one of both", r);
        else if (!serves && !is_worker)
            st = tp_fail(TP_ERR_ARG, "the cluster says nothing about rank %d: it must be one of .ps or of .workers", r);
        else if (r == 0 && (serves || (c->workers && c->workers[0] != 0)))
            st = tp_fail(TP_ERR_ARG, "the cluster's first worker is the chief, and that is rank 0: rank 0 cannot %s",
                         serves ? "be a server" : "stand later in .workers");
    }
    return st;
}

TP_DEF tp_status tp_cluster_task(const tp_cluster *c, tp_job *job, int *task)
{
    TP__REQUIRE(c && job && task, TP_ERR_ARG)
    const tp_status st = tp__check_cluster(c);
    const int rank = tp_rank();
    *job = TP_JOB_WORKER;
    *task = 0;
    if (st != TP_OK) return st;
    for (int k = 0; k < c->n_ps; k++) {
        if (tp__cluster_ps(c, k) == rank) {
            *job = TP_JOB_PS;
            *task = k;
            return TP_OK;
        }
        *task -= !c->workers && tp__cluster_ps(c, k) < rank; /* workers are numbered in the order of their ranks */
    }
    if (!c->workers) *task += rank;
    for (int k = 0; c->workers && k < c->n_workers; k++)
        if (c->workers[k] == rank) *task = k;
    return TP_OK;
}

/* Copies the lists of the cluster and sets the job of this rank. */
static tp_status tp__copy_cluster(tp_trainer *t, const tp_cluster *given)
{
    tp__rank_state *r = t->ranks_;
    tp_cluster c;
    tp_job job = TP_JOB_WORKER;
    memset(&c, 0, sizeof c);
    c.n_ps = 1;
    if (given) c = *given;
    const int size = tp_size();
    const tp_status st = tp_cluster_task(&c, &job, &r->task);
    if (st != TP_OK) return st;
    r->server_ranks = (int *)tp_calloc(
        /* not allocated by the graph, because tp_trainer_set_seed replaces the graph */
        2 * (size_t)size, sizeof *r->server_ranks);
    if (!r->server_ranks) return TP_ERR_NOMEM;
    r->worker_ranks = r->server_ranks + size;
    r->n_ps = c.n_ps;
    r->serves = job == TP_JOB_PS;
    for (int k = 0; k < r->n_ps; k++) r->server_ranks[k] = tp__cluster_ps(&c, k);
    for (int k = 0; k < size; k++) {
        if (c.workers && k < c.n_workers) r->worker_ranks[r->n_worker++] = c.workers[k];
        if (!c.workers && !tp__among_ranks(r->server_ranks, r->n_ps, k)) r->worker_ranks[r->n_worker++] = k;
    }
    return TP_OK;
}

/* Warns of a checkpoint in the middle of an accumulation: each worker has a sum of its own, and only the chief's is saved. */
static tp_status tp__served_check_accumulated(tp_trainer *t)
{
    const tp__rank_state *r = t->ranks_;
    const tp_variable *counter = tp_find_variable(t->graph, "AccumGrad/counter");
    int niter = 0, i = 0;
    for (const tp_optimizer *o = r->opt; o; o = o->inner, i++)
        if (r->apply[i] == tp__accum_apply) niter = *(const int *)o->user;
    if (r->n_worker == 1 || niter == 0 || !counter) return TP_OK;
    tp_tensor value;
    memset(&value, 0, sizeof value);
    const tp_status st = tp_session_read(t->state.session, counter, &value);
    const int64_t added = st == TP_OK ? *(const int64_t *)value.data % niter : 0;
    tp_tensor_free(&value);
    if (added != 0)
        tp_log_once(
            TP_LOG_WARN,
            "%s: a checkpoint is made when tp_accum_grad has added %lld of %d gradients: only the chief's sum is "
            "saved, so that a resumed training has other bits. Make .steps_per_epoch a multiple of %d",
            t->name, (long long)added, niter, niter);
    return st;
}

static tp_status tp__served_save(tp_callback *cb, tp_dict *d, const char *prefix)
{
    (void)d, (void)prefix;
    const tp_status st = tp__served_check_accumulated(cb->train->trainer);
    return st == TP_OK ? tp__ranks_collect(cb->train->trainer) : st;
}

static tp_status tp__served_build(tp_trainer *t, const tp_model *m)
{
    const tp_status st = tp__multi_build(t, m);
    if (st != TP_OK) return st;
    t->ranks_->n_variable = tp_graph_n_variables(t->graph);
    tp_callback *cb = tp_callback_new("CollectFromServers", 0);
    if (cb) cb->save_state = tp__served_save;
    return tp_trainer_register_callback(t, cb);
}

/* The common part of the constructors of both distributed trainers. NULL: out of memory. */
static tp_trainer *tp__served_new(const char *name, tp_at at, int n, const int *devices, const tp_cluster *cluster,
                                  double patience)
{
    tp_trainer *t = tp__multi_new(name, at, n == 0 ? 1 : n, devices);
    if (t) t->ranks_ = (tp__rank_state *)tp_calloc(1, sizeof *t->ranks_);
    if (!t || !t->ranks_) {
        tp_trainer_free(t);
        return NULL;
    }
    tp__rank_state *r = t->ranks_;
    tp__ranks_begin(t, at, patience);
    const tp_status st = tp_graph_status(t->graph) == TP_OK ? tp__copy_cluster(t, cluster) : TP_OK;
    if (st != TP_OK) tp_graph_fail(t->graph, &at, st, "%s: %s", name, tp_last_error());
    r->ordered = true;
    t->multi_->served = true;
    t->build = tp__served_build;
    t->run_step = tp__ranks_step;
    return t;
}

TP_DEF tp_trainer *tp_distributed_trainer_replicated_(const tp_distributed_trainer_replicated_desc *d)
{
    TP__REQUIRE(d, NULL)
    tp_trainer *t =
        tp__served_new("DistributedTrainerReplicated", d->at_, d->n_devices, d->devices, d->cluster, d->patience);
    if (!t) return NULL;
    tp__multi *b = t->multi_;
    b->own_variables = b->average = b->broadcast = b->mode_is_auto = true;
    b->mode = TP_ALL_REDUCE_NCCL;
    return t;
}

TP_DEF tp_trainer *tp_distributed_trainer_parameter_server_(const tp_distributed_trainer_parameter_server_desc *d)
{
    TP__REQUIRE(d, NULL)
    tp_trainer *t =
        tp__served_new("DistributedTrainerParameterServer", d->at_, d->n_devices, d->devices, d->cluster, d->patience);
    if (!t) return NULL;
    tp__multi *b = t->multi_;
    t->ranks_->ordered = d->deterministic;
    b->on_host = d->caching_device != TP_ON_GPU;
    b->small_on_host = 65536;
    b->host = tp__tower_devices(t);
    return t;
}

TP_DEF tp_status tp_logger_set_rank_dir(const char *dir, char action)
{
    char path[TP__PATH];
    const int rank = tp_rank();
    if (!dir || rank == 0) return tp_logger_set_dir(dir, action);
    const tp_status st = tp__path(path, "%.*s-rank%d", (int)tp__folder_length(dir), dir, rank);
    return st == TP_OK ? tp_logger_set_dir(path, action) : st;
}

/* ==== >>config ======================================================================================== */

/* Sets *epoch to the last complete epoch in a checkpoint of this library; -1: it was made within epoch 0. Returns false if the
 * checkpoint does not contain it. If the checkpoint was made within an epoch, training continues within that epoch. */
static bool tp__checkpoint_epoch(const tp_dict *d, int64_t *epoch)
{
    int64_t saved[2];
    if (!tp_state_get_i64(d, "tp:", "epoch", saved, 2) || !(saved[1] || tp__dict_get(d, "tp:local_step"))) return false;
    *epoch = saved[0];
    return true;
}

/* The global_step of a checkpoint; -1: it has none. */
static double tp__checkpoint_step(const tp_dict *d)
{
    const tp_tensor *step = tp__dict_get(d, "global_step");
    return step && tp_tensor_size(step) == 1 ? tp_tensor_get(step, 0) : -1;
}
/* Replaces the checkpoint `path` with variables d by the one that an interrupted training wrote in this folder, if that can be read
 * and is not older. d may be empty. Returns whether it did. */
static bool tp__take_interrupted(const char *dir, char *path, tp_dict *d)
{
    char with[TP__PATH], file[TP__PATH];
    tp_dict other;
    memset(&other, 0, sizeof other);
    bool taken = tp__path(with, "%s/interrupted", dir) == TP_OK && tp__checkpoint_path(with, file) == TP_OK &&
                 tp_load_checkpoint_vars(file, &other) == TP_OK && tp__check_saved_counts(&other, file) == TP_OK;
    taken = taken && tp__checkpoint_step(&other) >= tp__checkpoint_step(d);
    if (taken) {
        const tp_dict older = *d;
        *d = other;
        other = older;
        memcpy(path, with, strlen(with) + 1);
    }
    tp_dict_free(&other);
    return taken;
}

/* Finds the checkpoint to resume from: the latest, or the newest older one that can be read. *has_epoch: the checkpoint contains
 * its last complete epoch, *epoch. TP_ERR_NAME: there is no checkpoint; TP_ERR_FORMAT or TP_ERR_IO: there are, but none of them
 * can be read. */
static tp_status tp__checkpoint_to_resume(const char *dir, char *path, bool *has_epoch, int64_t *epoch)
{
    char file[TP__PATH], older[TP__PATH], sentence[TP__ERROR_TEXT], tried[TP__ERROR_TEXT];
    tp_dict d;
    memset(&d, 0, sizeof d);
    tp_status st = tp_checkpoint_state_latest(dir, path, TP__PATH);
    const bool listed = st != TP_ERR_NAME; /* the file that names the latest checkpoint is there */
    const bool named = st == TP_OK;        /* and it could be read */
    /* If that file is missing or damaged, the search begins at the largest step number: every checkpoint in the folder is older. */
    if (st != TP_OK && tp__path(path, "%s/model-%lld", dir, (long long)INT64_MAX) != TP_OK) return TP_ERR_ARG;
    if (st == TP_OK) st = tp__checkpoint_path(path, file);
    if (st == TP_OK) st = tp_load_checkpoint_vars(file, &d);
    if (st == TP_OK) st = tp__check_saved_counts(&d, file);
    if (st == TP_ERR_FORMAT || st == TP_ERR_IO || st == TP_ERR_NAME) {
        snprintf(sentence, sizeof sentence, "%s", tp_last_error());
        tp_dict_free(&d);
        st = tp__older_checkpoint(path, older, &d);
        snprintf(tried, sizeof tried, "%s", tp_last_error());
        if (st != TP_OK) tp_dict_free(&d);
        const bool interrupted = !named && st != TP_ERR_NOMEM && tp__take_interrupted(dir, older, &d);
        if (interrupted) st = TP_OK;
        if (st == TP_OK) {
            if (listed && !interrupted)
                tp_log(TP_LOG_WARN,
                       "The latest checkpoint cannot be read: %s. Training goes on from an older one, '%s': what came "
                       "after it is trained again.",
                       sentence, older);
            else
                tp_log(TP_LOG_WARN,
                       "The file '%s/checkpoint' is %s, but there are checkpoints: training goes on from the newest "
                       "that can be read, '%s'.",
                       dir, listed ? "damaged" : "missing", older);
            memcpy(path, older, strlen(older) + 1);
        } else if (st != TP_ERR_NOMEM && listed) {
            st = tp_fail(TP_ERR_FORMAT,
                         "The latest checkpoint cannot be read: %s; and %s. Remove the checkpoints and the file "
                         "'%s/checkpoint' to start from the beginning",
                         sentence, tried, dir);
        } else if (st != TP_ERR_NOMEM && st != TP_ERR_NAME) {
            st = tp_fail(st,
                         "The file '%s/checkpoint' is missing, and %s. Remove the checkpoints to start from the "
                         "beginning",
                         dir, tried);
        }
    }
    *has_epoch = st == TP_OK && tp__checkpoint_epoch(&d, epoch);
    tp_dict_free(&d);
    return st;
}

/* *resumes: a checkpoint was found. */
static tp_status tp__auto_resume(tp_train_config *c, bool *resumes)
{
    const char *dir = tp_logger_dir();
    const bool always = c->always_resume != TP_NO;
    char latest[TP__PATH];
    int64_t epoch = -1;
    bool has_epoch = false;
    if (c->session_init && c->checkpoint)
        return tp_fail(TP_ERR_ARG, "auto_resume: give .session_init or .checkpoint, not both");
    if (!dir)
        return tp_fail(TP_ERR_STATE, "auto_resume needs the logger's directory (tp_logger_set_dir(dir, 'k')): %s",
                       tp__logger_missing());
    const bool has_init = c->session_init || c->checkpoint;
    const bool look_init = always || !has_init, look_epoch = always || !c->starting_epoch;
    tp_status st = look_init ? tp__checkpoint_to_resume(dir, latest, &has_epoch, &epoch) : TP_ERR_NAME;
    if (st != TP_OK && st != TP_ERR_NAME) return st;
    const bool found = st == TP_OK;
    if (look_epoch && !has_epoch) {
        st = tp_load_existing_epoch_number(dir, &epoch);
        if (st != TP_OK && st != TP_ERR_NAME) return st;
        has_epoch = st == TP_OK && epoch >= 0;
    }
    has_epoch = has_epoch && look_epoch;
    if (look_init && !found && has_epoch && !c->starting_epoch) {
        tp_log(TP_LOG_WARN,
               "There is no checkpoint in '%s', though stats.json ends with epoch %lld: training starts from the "
               "beginning.",
               dir, (long long)epoch);
        return TP_OK;
    }
    if (found != has_epoch)
        return tp_fail(TP_ERR_STATE,
                       "Found SessionInit=%s, Found Last Epoch=%s: to resume from '%s', both a checkpoint "
                       "and stats.json are needed",
                       found ? latest : "none", has_epoch ? "yes" : "none", dir);
    if (!found && tp__logger.dir_deleted)
        tp_log(TP_LOG_WARN,
               "auto_resume: there is nothing to resume, tp_logger_set_dir(.., 'd') has deleted the earlier run: "
               "tp_logger_set_dir(\"%s\", 'k') keeps it.",
               dir);
    if (!found) return TP_OK;
    if (has_init) tp_log(TP_LOG_INFO, "Found checkpoint at %s. session_init arguments will be overwritten.", latest);
    else tp_log(TP_LOG_INFO, "Will load checkpoint at %s.", latest);
    tp_session_init *base = c->checkpoint ? tp_smart_init(c->checkpoint, false) : c->session_init;
    const bool lacks_base = c->checkpoint && !base;
    if (base && base->owner_.who) base = NULL; /* it is another's, who may free it */
    c->session_init = lacks_base ? NULL : tp__resume_init(latest, base);
    if (!c->session_init) return TP_ERR_NOMEM;
    c->checkpoint = NULL;
    c->starting_epoch = epoch < 0 ? TP_NONE : epoch + 1;
    *resumes = true;
    tp_log(TP_LOG_INFO, "Found history of epoch %lld: training goes on with epoch %lld.", (long long)epoch,
           (long long)epoch + 1);
    return TP_OK;
}
TP_DEF tp_status tp_auto_resume_train_config(tp_train_config *c)
{
    bool resumes = false;
    TP__REQUIRE(c, TP_ERR_ARG)
    return tp__auto_resume(c, &resumes);
}

TP_DEF tp_input_source *tp_apply_default_prefetch(tp_dataflow *df, const tp_trainer *t)
{
    tp_feed_input_desc feed;
    tp_queue_input_desc queue;
    memset(&feed, 0, sizeof feed);
    memset(&queue, 0, sizeof queue);
    feed.df = queue.df = df;
    if (!t) tp__df_drop(df);
    TP__REQUIRE(t, NULL)
    if (t->feed_dataflow) return tp_feed_input_(&feed);
    tp_log(TP_LOG_INFO, "Automatically applying QueueInput on the DataFlow.");
    return tp_queue_input_(&queue);
}

/* Warns if regularizers were declared but their costs are not used. */
static void tp__warn_unused_regularizers(const tp_graph *g)
{
    int n = 0;
    tp_node *const *loss = tp_collection(g, TP_KEY_REGULARIZATION_LOSSES, &n);
    for (int i = 0; i < n; i++) {
        bool used = false;
        for (int k = 0; k < tp_graph_n_operations(g) && !used; k++) {
            const tp_operation *op = tp_graph_operation(g, k);
            for (int q = 0; q < op->n_in && !used; q++) used = op->in[q] == loss[i];
        }
        if (used) continue;
        tp_log(TP_LOG_WARN,
               "Item '%s' of REGULARIZATION_LOSSES has no consumers. You may have forgotten to add "
               "regularization to total cost.",
               tp_node_name(loss[i]));
    }
}

/* Warns of a training that could be resumed if it saved anything. */
static void tp__warn_without_saver(const tp_train_config *c)
{
    if (tp__visit(c->callbacks, c->callbacks ? c->n_callbacks : 0, tp__is_saver, NULL) != TP_STOP &&
        tp__visit(c->extra_callbacks, c->extra_callbacks ? c->n_extra_callbacks : 0, tp__is_saver, NULL) != TP_STOP)
        tp_log(TP_LOG_WARN, "auto_resume: no ModelSaver is among the callbacks, so there will be nothing to resume.");
}

/* Builds and runs the training of the config; sets pointers that were handed over to NULL in c. */
static tp_status tp__launch(tp_train_config *c, tp_trainer *t)
{
    tp_train_desc d;
    if (!t)
        return tp_fail(
            TP_ERR_ARG,
            "the trainer is NULL: give one, such as tp_simple_trainer() (or its constructor found no memory)");
    if (!c->dataflow == !c->data)
        return tp_fail(
            TP_ERR_ARG, "%s: give .dataflow or .data%s", t->name,
            c->data ? ", not both"
                    : "; a program that feeds its placeholders itself gives .data = tp_placeholder_input(). If one "
                      "was given, it is NULL: its constructor got a NULL, or found no memory");
    if (c->checkpoint && c->session_init)
        return tp_fail(TP_ERR_ARG, "%s: give .session_init or .checkpoint, not both", t->name);
    if (c->checkpoint && !(c->session_init = tp_smart_init(c->checkpoint, false))) return TP_ERR_NOMEM;
    c->checkpoint = NULL;
    if (c->session_creator && c->session_config)
        return tp_fail(TP_ERR_ARG, "%s: give .session_creator or .session_config, not both", t->name);
    int64_t steps = c->steps_per_epoch;
    if (steps == 0) {
        const tp_status flow_status = c->dataflow ? tp_df_status(c->dataflow) : TP_OK;
        if (flow_status != TP_OK) return flow_status;
        steps = c->dataflow ? tp_df_size(c->dataflow) : tp_input_size(c->data);
        if (steps < 0)
            return tp_fail(TP_ERR_ARG, "%s: You must set .steps_per_epoch: the size of the data is unknown", t->name);
        if (steps == 0) /* the program has not asked for epochs without steps, and would save an untrained model */
            return tp_fail(TP_ERR_ARG,
                           "%s: the size of the data is 0, so an epoch would have no steps: give it data, a smaller "
                           "batch, or .remainder = true of tp_df_batch; epochs without steps are "
                           ".steps_per_epoch = TP_NO_STEPS",
                           t->name);
    }
    tp_status st = c->seed ? tp_trainer_set_seed(t, c->seed) : TP_OK;
    if (st == TP_OK && c->auto_resume == TP_YES && t->state.is_chief) {
        tp__warn_without_saver(c);
        bool found = false;
        st = tp__auto_resume(c, &found);
        t->begins_anew_ = !found && c->always_resume != TP_NO;
    }
    if (st != TP_OK) return st;
    if (c->session_creator) t->creator = *c->session_creator;
    else if (c->session_config) t->creator = tp_new_session_creator(c->session_config);
    t->graph->quiet_layers = c->log_layers == TP_NO;
    tp_input_source *input = c->data ? c->data : tp_apply_default_prefetch(c->dataflow, t);
    if (input && t->n_devices > 1) input = tp_input_default_prefetch(input, t->n_devices);
    c->data = NULL;
    c->dataflow = NULL;
    st = tp_trainer_setup_graph(t, &c->model, input);
    if (st != TP_OK) return st;
    tp__warn_unused_regularizers(t->graph);
    memset(&d, 0, sizeof d);
    d.callbacks = c->callbacks;
    d.n_callbacks = c->n_callbacks;
    d.extra_callbacks = c->extra_callbacks;
    d.n_extra_callbacks = c->n_extra_callbacks;
    d.monitors = c->monitors;
    d.n_monitors = c->n_monitors;
    d.session_init = c->session_init;
    d.steps_per_epoch = steps;
    d.starting_epoch = c->starting_epoch;
    d.max_epoch = c->max_epoch ? c->max_epoch : 99999; /* TP_NONE stays TP_NONE: tp_train handles it */
    d.stop_on_nan = c->stop_on_nan;
    d.unsaved_is_ok = c->unsaved_is_ok;
    d.report = c->report;
    c->callbacks = c->extra_callbacks = NULL;
    c->monitors = NULL;
    c->session_init = NULL;
    return tp_train_with_defaults(t, &d);
}

TP_DEF tp_status tp_launch_train_with_config(const tp_train_config *config, tp_trainer *t)
{
    if (!config) tp_trainer_free(t);
    TP__REQUIRE(config, TP_ERR_ARG)
    tp_train_config c = *config;
    char sentence[TP__ERROR_TEXT];
    const bool is_launched = t && t->owner_.who;
    if (t && !is_launched) t->owner_.who = "its training";
    const tp_status st =
        is_launched ? tp_fail(TP_ERR_STATE, "%s: it is in a training already: make a trainer for each", t->name)
                    : tp__launch(&c, t);
    snprintf(sentence, sizeof sentence, "%s", st != TP_OK ? tp_last_error() : "");
    if (st < 0 && !(t && t->looped_))
        tp_log(t && tp__job_reports_error(t) ? TP_LOG_DEBUG : TP_LOG_ERROR, "Training did not start: %s",
               sentence); /* an error within the training loop was already logged there */
    /* frees the objects that were not handed over */
    tp__free_lists(c.callbacks, c.n_callbacks, c.monitors, c.n_monitors);
    tp__free_lists(c.extra_callbacks, c.n_extra_callbacks, NULL, 0);
    tp__drop_init(c.session_init);
    tp__df_drop(c.dataflow);
    tp__drop_input(c.data);
    if (!is_launched) tp__trainer_delete(t);
    if (st != TP_OK) return tp_fail(st, "%s", sentence);
    tp__error[0] = 0; /* of errors that were dealt with */
    return TP_OK;
}

TP__COLD_END
TP__EXACT_END
#undef TP__PLACED
#define TP__PLACED TP__PLACE
#endif
