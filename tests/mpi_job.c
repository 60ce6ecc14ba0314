/* mpi_job.c - a training that tests/check_mpi.sh starts on several ranks, and in which something goes wrong
 *
 *     mpirun -np 4 mpi_job <trainer> <what> <folder> [rank [seconds or number [patience]]]
 *
 * trainer: "horovod", "synced" (the same, and the model has a batch norm with the statistics of all ranks), "replicated" or "server",
 * whose server is the last rank.
 *
 * what: "train": 3 epochs, with checkpoints in the folder; it goes on from those that are there. "half": the first epoch alone. "kill":
 * as "train", slower and longer, and the given rank kills itself by SIGKILL after that many seconds, when it
 * makes the file <folder>.killed. "resume": 30 steps from there. "graph", "parameters",
 * "steps": the rank's model or configuration is another. "build": its graph has a mistake. "cluster": it believes in two servers.
 * "average", "compression", "deterministic", "bucket", "broadcast": this option of the rank's trainer is another. "none": there is no
 * server. "memory": its allocation of this number fails. "leave": it ends its training early, as a success.
 * "exit": it leaves the program in mid-epoch. "absent": it does so before it has a trainer. "stop": the chief ends the training.
 * "busy": rank 1 fails in mid-epoch, and after_train of the given rank takes so many seconds. "late": the program of that rank takes so
 * many seconds after a training that succeeded. "empty": the rank has no data. "nan": its data become NaN. "abort": they do, and its program
 * aborts after that training. "saved": the chief is killed as it gives a checkpoint its name. "saves": the chief takes the given seconds
 * for that, and meanwhile the rank is killed. "again": "stop", where the chief is slow, and then a second training in the same job; after each
 * of its epochs each rank prints a sum of the trained variables. "thrice": three trainings of one epoch each, each from the checkpoint of
 * the one before; then each rank prints how many of the library's communicators are open. "norm": the rank's batch norm has the
 * statistics of its own batch. "interrupt": the rank is interrupted while it sends gradients (with servers). "twins": two trainers
 * are made, then both train, and the chief ends the training of the first. "patient": as "busy", after a trainer with another
 * patience. "alone": the rank computes the batch norm in a run of its own, outside a step.
 * The last line of a rank is "rank <k>: <status>, <seconds>: <sentence>", on stdout or appended to the file TP_TEST_MPI_SAID. */
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include "tp_layers.h"

#include <fcntl.h>
#include <math.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const char *what;
static bool different; /* this is the rank that does it */
static double began;
static bool synced; /* the model has a batch norm with the statistics of all ranks */
static int steps;
static double seconds;

static tp_status point(void *user, int64_t pass, int64_t i, tp_datapoint *dp)
{
    const bool is_nan = strcmp(what, "nan") == 0 || strcmp(what, "abort") == 0;
    (void)user, (void)pass;
    if (different && strcmp(what, "empty") == 0) return TP_END;
    tp_status st = tp_datapoint_resize(dp, 2);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_F32, tp_make_shape(8, 20));
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[1], TP_F32, tp_make_shape(8, 1));
    if (st != TP_OK) return st;
    for (int k = 0; k < 160; k++) ((float *)dp->c[0].data)[k] = (float)((i * 7 + k * 13 + tp_rank() * 5) % 11) / 11;
    for (int k = 0; k < 8; k++) ((float *)dp->c[1].data)[k] = ((float *)dp->c[0].data)[k * 20] - 0.5f;
    if (different && is_nan && i == 23) ((float *)dp->c[1].data)[0] = NAN;
    return TP_OK;
}
static tp_node *build(tp_graph *g, tp_node *const *in, void *user)
{
    (void)user;
    const int wide = different && strcmp(what, "parameters") == 0 ? 40 : 32;
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(20, wide), tp_init_glorot_uniform());
    tp_node *v = tp_get_variable_as(g, "v", TP_F32, tp_make_shape(wide, 1), tp_init_glorot_uniform());
    tp_node *h = tp_matmul(in[0], w);
    if (synced)
        h = tp_batch_norm(h, "bn",
                          .sync_statistics = different && strcmp(what, "norm") == 0 ? TP_SYNC_NONE : TP_SYNC_RANKS);
    h = different && strcmp(what, "graph") == 0 ? tp_tanh(h) : tp_relu(h);
    if (different && strcmp(what, "build") == 0) h = tp_matmul(h, in[0]);
    return tp_named(tp_mean(tp_square(tp_sub(tp_matmul(h, v), in[1]))), "cost");
}
static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_adam(tp_get_scalar_variable(g, "learning_rate", 1e-3f));
}

static bool is_second; /* the second training of the job */
static tp_trainer *twin[2];
static int n_training;

/* MPI's functions that make and free communicators, by its profiling interface: counted. */
static int n_open;
int MPI_Comm_dup(MPI_Comm c, MPI_Comm *made) { return n_open++, PMPI_Comm_dup(c, made); }
int MPI_Comm_idup(MPI_Comm c, MPI_Comm *made, MPI_Request *q) { return n_open++, PMPI_Comm_idup(c, made, q); }
int MPI_Comm_split_type(MPI_Comm c, int type, int key, MPI_Info info, MPI_Comm *made)
{
    return n_open++, PMPI_Comm_split_type(c, type, key, info, made);
}
int MPI_Comm_free(MPI_Comm *c) { return n_open--, PMPI_Comm_free(c); }

/* Interrupts the rank while it sends its gradients to a server. */
static bool interrupts;
int MPI_Isend(const void *data, int n, MPI_Datatype type, int to, int tag, MPI_Comm c, MPI_Request *q)
{
    if (tag > 0 && interrupts) interrupts = !tp_interrupt();
    return PMPI_Isend(data, n, type, to, tag, c, q);
}

/* Computes the batch norm of a batch of zeros in a run that the other ranks do not make. */
static tp_status run_alone(tp_train_state *train)
{
    tp_node *const y = tp_graph_find(train->graph, "bn/output:0");
    const tp_tower_handle *tower = tp_tower_handles_at(tp_trainer_towers(train->trainer), 0);
    const tp_tensor *value;
    tp_tensor x = TP_EMPTY;
    tp_status st = tp_tensor_resize(&x, TP_F32, tp_make_shape(8, 20));
    if (st == TP_OK) memset(x.data, 0, tp_tensor_bytes(&x));
    const tp_feed feed = {tower->in[0], x};
    if (st == TP_OK) st = tp_session_run(train->session, &feed, 1, &y, 1, &value);
    tp_tensor_free(&x);
    return st;
}

static tp_status each_step(tp_callback *cb)
{
    const int64_t step = cb->train->global_step;
    if (strcmp(what, "again") == 0 && tp_rank() == 0 && step == 17 && !is_second) {
        const struct timespec pause = {0, 500 * 1000 * 1000}; /* the others wait for the chief's gradients */
        nanosleep(&pause, NULL);
        return tp_stop(cb->train, "enough");
    }
    if (strcmp(what, "kill") == 0 || strcmp(what, "interrupt") == 0) {
        const struct timespec pause = {0, 10 * 1000 * 1000};
        nanosleep(&pause, NULL);
    }
    if (different && strcmp(what, "exit") == 0 && step == 17) exit(3);
    if (tp_rank() == 1 && (strcmp(what, "busy") == 0 || strcmp(what, "patient") == 0) && step == 17)
        return tp_fail(TP_ERR_ARG, "it cannot go on");
    if (different && strcmp(what, "leave") == 0 && step == 17) return tp_stop(cb->train, "it has seen enough");
    if (strcmp(what, "resume") == 0 && tp_rank() == 0 && steps++ == 30) return tp_stop(cb->train, "it goes on");
    if (different && strcmp(what, "alone") == 0 && step == 17) return run_alone(cb->train);
    if (strcmp(what, "stop") == 0 && tp_rank() == 0 && step == 17) return tp_stop(cb->train, "enough");
    if (strcmp(what, "twins") == 0 && tp_rank() == 0 && step == 17 && !is_second) return tp_stop(cb->train, "enough");
    return TP_OK;
}

static tp_status each_run(tp_callback *cb, tp_run_request *r)
{
    (void)r;
    interrupts = different && strcmp(what, "interrupt") == 0 && cb->train->global_step == 17;
    return TP_OK;
}

/* The system's rename, where a checkpoint gets its name. */
static void pass_seconds(void);
int rename(const char *from, const char *to)
{
    if (tp_rank() == 0 && what && strstr(to, "model-40")) {
        if (strcmp(what, "saved") == 0) kill(getpid(), SIGKILL);
        if (strcmp(what, "saves") == 0) pass_seconds();
    }
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

static void pass_seconds(void)
{
    const double end = tp_time() + seconds;
    const struct timespec pause = {0, 10 * 1000 * 1000};
    while (tp_time() < end) nanosleep(&pause, NULL);
}
static tp_status after_train(tp_callback *cb)
{
    (void)cb;
    if (different && (strcmp(what, "busy") == 0 || strcmp(what, "patient") == 0)) pass_seconds();
    return TP_OK;
}

static tp_status trigger_epoch(tp_callback *cb)
{
    if (different && strcmp(what, "saves") == 0 && cb->train->epoch_num == 2) kill(getpid(), SIGKILL);
    return TP_OK;
}
/* Prints a sum of all trained variables, which are the same on all ranks. */
static tp_status print_sum(tp_callback *cb)
{
    int n = 0;
    tp_node *const *var = tp_collection(cb->train->graph, TP_KEY_TRAINABLE_VARIABLES, &n);
    tp_tensor value = TP_EMPTY;
    double sum = 0;
    for (int i = 0; i < n; i++) {
        if (tp_session_read(cb->train->session, tp_node_variable(var[i]), &value) != TP_OK) return TP_ERR;
        for (int64_t k = 0; k < tp_tensor_size(&value); k++) sum += tp_tensor_get(&value, k) * (double)(k % 7 + 1);
    }
    tp_tensor_free(&value);
    fprintf(stderr, "rank %d: the sum is %.17g\n", tp_rank(), sum);
    return TP_OK;
}

/* A server makes no steps: it ends itself by a timer. */
static char killed[4096]; /* a file made at that moment, so that a check knows when it was */
static void die(int signal)
{
    (void)signal;
    const int file = open(killed, O_CREAT | O_WRONLY | O_TRUNC, 0644);
    if (file >= 0) close(file);
    kill(getpid(), SIGKILL);
}
static void die_in(double seconds)
{
    const struct itimerval t = {{0, 0},
                                {(time_t)seconds, (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6) + 1}};
    signal(SIGALRM, die);
    setitimer(ITIMER_REAL, &t, NULL);
}

/* Allocation number fail_at of this rank, counted from the trainer on, fails. */
static long fail_at, n_allocation;
static bool strikes(void) { return __atomic_add_fetch(&n_allocation, 1, __ATOMIC_RELAXED) == fail_at; }
static void *scarce_malloc(size_t size, void *user) { return (void)user, strikes() ? NULL : malloc(size); }
static void *scarce_realloc(void *p, size_t size, void *user)
{
    return (void)user, strikes() ? NULL : realloc(p, size);
}
static void scarce_free(void *p, void *user) { (void)user, free(p); }

static tp_trainer *trainer(const char *name, double patience)
{
    static tp_cluster cluster;
    cluster.n_ps = strcmp(what, "none") == 0 ? 0 : different && strcmp(what, "cluster") == 0 ? 2 : 1;
    if (strcmp(name, "replicated") == 0)
        return tp_distributed_trainer_replicated(.cluster = &cluster, .patience = patience);
    if (strcmp(name, "server") == 0)
        return tp_distributed_trainer_parameter_server(.cluster = &cluster, .patience = patience);
    return tp_horovod_trainer(.average = different && strcmp(what, "average") == 0 ? TP_NO : TP_YES,
                              .compression = different && strcmp(what, "compression") == 0 ? TP_COMPRESSION_FP16
                                                                                           : TP_COMPRESSION_NONE,
                              .deterministic = different && strcmp(what, "deterministic") == 0,
                              .bucket_bytes = different && strcmp(what, "bucket") == 0 ? 2048 : 1024,
                              .broadcast_every_epoch = different && strcmp(what, "broadcast") == 0 ? TP_NO : TP_YES,
                              .patience = patience);
}

static tp_status train(int argc, char **argv)
{
    static const tp_spec inputs[] = {TP_SPEC("x", TP_F32, 8, 20), TP_SPEC("y", TP_F32, 8, 1)};
    n_training++;
    tp_callback *cb = tp_callback_new("EachStep", 0);
    if (cb) {
        cb->chief_only = false;
        cb->before_run = each_run;
        cb->trigger_step = each_step;
        cb->after_train = after_train;
        cb->trigger_epoch = trigger_epoch;
        if (is_second) cb->after_epoch = print_sum;
    }
    tp_trainer *t = strcmp(what, "twins") == 0 ? twin[is_second] : trainer(argv[1], argc > 6 ? atof(argv[6]) : 0);
#ifdef TP_CUDA_SHIM /* a GPU for each rank */
    static tp_device *gpu;
    static tp_session_config session;
    gpu = tp_cuda_open(0);
    session.devices = &gpu, session.n_devices = 1;
#endif
    tp_train_config c = {
        .model = {.inputs = inputs, .n_inputs = 2, .build_graph = build, .optimizer = optimizer},
        .dataflow = tp_df_from_generator(point, .size = 100000, .indexed = TP_YES),
        .steps_per_epoch = different && strcmp(what, "steps") == 0 ? 30 : 20,
        .max_epoch = strcmp(what, "kill") == 0 || strcmp(what, "resume") == 0 ? 10000
                     : strcmp(what, "half") == 0                              ? 1
                     : strcmp(what, "thrice") == 0                            ? n_training
                                                                              : 3,
        .auto_resume = TP_YES,
#ifdef TP_CUDA_SHIM
        .session_config = &session,
#endif
        TP_CALLBACKS(cb, tp_cb_model_saver(.max_to_keep = 2)),
    };
    return tp_launch_train_with_config(&c, t);
}

int main(int argc, char **argv)
{
    if (argc < 4) return 2;
    what = argv[2];
    synced = strcmp(argv[1], "synced") == 0;
    different = argc > 4 && atoi(argv[4]) == tp_rank();
    began = tp_time();
    seconds = argc > 5 ? atof(argv[5]) : 0;
    snprintf(killed, sizeof killed, "%s.killed", argv[3]);
    if (different && strcmp(what, "kill") == 0) die_in(seconds);
    if (tp_rank() == 0 && tp_logger_set_dir(argv[3], 'k') != TP_OK) return 2;
    if (different && strcmp(what, "absent") == 0) return 2;
    if (different && strcmp(what, "memory") == 0) {
        const tp_allocator a = {scarce_malloc, scarce_realloc, scarce_free, NULL};
        fail_at = atol(argv[5]);
        tp_set_allocator(&a);
    }
    if (strcmp(what, "patient") == 0) tp_trainer_free(trainer(argv[1], 50));
    for (int i = 0; i < 2 && strcmp(what, "twins") == 0; i++) twin[i] = trainer(argv[1], 0);
    tp_status st = train(argc, argv);
    if (st == TP_OK && (strcmp(what, "again") == 0 || strcmp(what, "twins") == 0)) {
        is_second = true;
        st = train(argc, argv);
    }
    while (st == TP_OK && strcmp(what, "thrice") == 0 && n_training < 3) st = train(argc, argv);
    if (st != TP_OK && different && strcmp(what, "abort") == 0) abort();
    if (different && strcmp(what, "late") == 0) pass_seconds();
    if (fail_at) fprintf(stderr, "rank %d has made %ld allocations\n", tp_rank(), n_allocation);
    /* a launcher that ends a job which was aborted may drop what the ranks have written to their output */
    const char *said = getenv("TP_TEST_MPI_SAID");
    FILE *file = said ? fopen(said, "a") : stdout;
    fprintf(file ? file : stdout, "rank %d: %s, %.1f s: %s\n", tp_rank(), tp_status_name(st), tp_time() - began,
            st == TP_OK ? "" : tp_last_error());
    if (strcmp(what, "thrice") == 0)
        fprintf(file ? file : stdout, "rank %d: %d communicators are open\n", tp_rank(), n_open);
    if (said && file) fclose(file);
    return st == TP_OK ? 0 : 1;
}
