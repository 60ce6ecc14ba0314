/* mpi_train.c - one training on several processes: the ranks of an MPI job
 *
 *     mpicc -O2 -DTP_MPI -I.. mpi_train.c -o mpi_train -lm -lpthread
 *     mpirun -np 4 ./mpi_train                        on one machine
 *     mpirun -np 8 --hostfile hosts ./mpi_train       on several; hosts: "node1 slots=4", "node2 slots=4"
 *     mpirun -np 4 ./mpi_train servers                the last rank keeps the variables, three train (DistributedTrainerParameterServer)
 *
 * (Open MPI's mpirun wants --oversubscribe for more ranks than processors; MPICH's has -f for --hostfile, with "node1:4".) Without
 * TP_MPI it is the same program for one process. It learns which of three rings a point of the plane lies in; each rank
 * sees points of its own. What differs from a program for one process is marked with (mpi). */
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include "tp_layers.h"
#include "options.h"

#include <stdio.h>
#include <string.h>

enum { BATCH = 32, STEPS = 100 };

/* Batch i of this rank: (mpi) of all ranks together it is number i * tp_size() + tp_rank(). */
static tp_status point(void *user, int64_t pass, int64_t i, tp_datapoint *dp)
{
    const bool validation = user != NULL;
    tp_status st = tp_datapoint_resize(dp, 2);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_F32, tp_make_shape(BATCH, 2));
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[1], TP_I32, tp_make_shape(BATCH));
    if (st != TP_OK) return st;
    uint64_t x = validation ? 1 : (uint64_t)((pass * STEPS + i) * tp_size() + tp_rank()) * 2654435761u + 2;
    if (validation) x += (uint64_t)i * 97; /* the same points each time, on every rank */
    for (int k = 0; k < BATCH; k++) {
        float p[2];
        for (int c = 0; c < 2; c++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            p[c] = ((float *)dp->c[0].data)[k * 2 + c] = (float)(x >> 40) / 8388608.0f - 1.0f;
        }
        const float r = p[0] * p[0] + p[1] * p[1];
        ((int32_t *)dp->c[1].data)[k] = r < 0.3f ? 0 : r < 0.7f ? 1 : 2;
    }
    return TP_OK;
}

static tp_node *build(tp_graph *g, tp_node *const *in, void *user)
{
    (void)g, (void)user;
    tp_node *h = tp_fully_connected(in[0], "hidden", .units = 64, .activation = tp_relu);
    tp_node *logits = tp_fully_connected(h, "logits", .units = 3);
    tp_named(tp_mean(tp_cast(tp_in_top_k(logits, in[1], 1), TP_F32)), "accuracy");
    return tp_named(tp_mean(tp_sparse_softmax_cross_entropy(logits, in[1])), "cost");
}
static tp_optimizer *optimizer(tp_graph *g, void *user)
{
    (void)user;
    return tp_adam(tp_get_scalar_variable(g, "learning_rate", 3e-3f));
}

int main(int argc, char **argv)
{
    static const tp_spec inputs[] = {TP_SPEC("xy", TP_F32, TP_ANY, 2), TP_SPEC("ring", TP_I32, TP_ANY)};
    static int validation;
    const char *keeper = NULL;
    const option list[] = {option_text("[servers]", &keeper)};
    read_options(argc, argv, list, TP_COUNT(list));
    if (keeper && strcmp(keeper, "servers") != 0)
        return fprintf(stderr, "mpi_train: '%s' is not known; the only argument is: servers\n", keeper), 2;
    tp_logger_set_rank_dir("train_log/mpi_train", 'd'); /* (mpi) a directory for each rank */
    const tp_status st = tp_launch_train_with_config(
        TP_OPTIONS(tp_train_config,
                   .model = {.inputs = inputs, .n_inputs = 2, .build_graph = build, .optimizer = optimizer},
                   .dataflow = tp_df_from_generator(point, .size = STEPS, .indexed = TP_YES),
                   TP_CALLBACKS(tp_cb_model_saver(), /* the chief alone saves and validates */
                                tp_cb_inference_runner(
                                    tp_df_from_generator(point, .user = &validation, .size = 20, .indexed = TP_YES),
                                    .inferencers = {tp_inf_scalar_stats(TP_NAMES("accuracy"))})),
                   .steps_per_epoch = STEPS, .max_epoch = 5),
        keeper ? tp_distributed_trainer_parameter_server() : tp_horovod_trainer()); /* (mpi) */
    return st == TP_OK ? 0 : 1;
}
