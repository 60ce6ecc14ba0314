/* tp_input.h - v0.1 - data flows (datasets, batching, mapping, shuffling) and input sources that feed a graph
 *
 * Do this:
 *     #define TP_IMPLEMENTATION        // in ONE .c file, before any other include
 *     #include "tp_input.h"            // pulls in tp_graph.h and tp_tensor.h
 *
 * WHAT THIS IS       a tp_dataflow yields datapoints, a few tensors each; a flow can be built on top of another. A
 *                    tp_input_source carries the datapoints of a flow into the runs of a graph, from the
 *                    training thread (FeedInput) or from a thread that reads ahead (QueueInput).
 * WHAT THIS IS NOT   training loops (tp_train.h), callbacks (tp_callbacks.h).
 *
 * A COMPLETE PROGRAM
 *     #define TP_IMPLEMENTATION
 *     #include "tp_input.h"
 *     int main(void)
 *     {
 *         tp_dataflow *df = tp_df_batch(tp_df_digits("train", .size = 1000), 100);
 *         tp_datapoint dp = {0};
 *         tp_status st;
 *         while ((st = tp_df_next(df, &dp)) == TP_OK) {
 *             char shape[TP_SHAPE_TEXT];
 *             printf("images %s, ", tp_shape_text(&dp.c[0].shape, shape));
 *             printf("first label %g\n", tp_tensor_get(&dp.c[1], 0));
 *         }
 *         if (st != TP_END) puts(tp_last_error());
 *         tp_datapoint_free(&dp);
 *         tp_df_free(df);
 *         return st == TP_END ? 0 : 1;
 *     }
 *
 * CONTENTS   >>datapoint >>dataflow >>sources of data >>transformations >>parallel >>readers >>augmentors >>idx
 *            >>input source >>more input sources >>zmq
 *
 * HOW IT WORKS
 *     A flow is read in passes. restart(pass) goes to the start of pass number `pass`; next() fills a datapoint or returns TP_END.
 *     All random numbers are functions of (seed, pass, index). So pass 7 has the same data whether passes 0 to 6 were read or not,
 *     and seek(n) leaves a flow as if n datapoints had been taken. Therefore a resumed training continues with the datapoint at
 *     which it was killed: an input source counts how many datapoints the training steps have consumed (not what was read ahead),
 *     the checkpoint stores that number, and tp_input_seek returns to it. Memory is recycled. next() writes into the datapoint's
 *     own buffers, or points it at memory of the flow (a view, valid until the next call on that flow), so nothing is allocated
 *     after the first few datapoints.
 *
 * SEEDS      flows of one kind (tp_df_map, tp_df_from_list, ...) with one seed draw the same numbers: given one .seed, two flows are
 *            shuffled alike. A flow that is given none has a seed of its own: 42 for the first flow of its kind in the tree of flows, 43
 *            for the second, and so on; those with a given seed are counted too. A flow's inputs come before it, of several inputs the
 *            first one's tree before the second one's. tp_df_parallel_map is of the kind of tp_df_map, tp_df_load_image of that of
 *            tp_df_augment_image. What a flow of your own reads is a tree apart. The flows of tp_df_multi_thread do not count each
 *            other, but what is above or behind tp_df_multi_thread counts all of them.
 * OWNERSHIP  a flow owns the flows it was made from, a source owns its flow: free the outermost only. This also holds on failure.
 * THREADS    a flow belongs to one thread at a time; QueueInput hands its flow to its thread from
 *            tp_input_reset_state until tp_input_free, and the flows of >>parallel hand the flow below them to their threads.
 *            Functions given to tp_df_map and tp_df_from_generator run on that thread. On every thread, flows run with the
 *            floating-point mode of the numeric kernels (denormals are zero).
 * ERRORS     constructors check their arguments. After a mistake they return a poison flow: it keeps the error sentence, the
 * constructors around it pass it on, and it fails at the first use. They return NULL only when out of memory (and for a NULL
 * child). tp_df_status gives the error. NOTATION   B batch, H W height and width, n components of a datapoint.
 */
#ifndef TP_INPUT_H
#define TP_INPUT_H

#include "tp_graph.h"
#if TP_VERSION_MAJOR != 0 || TP_VERSION_MINOR != 1
#error "tp_input.h 0.1 needs tp_graph.h 0.1: copy all tp headers from the same version"
#endif
#if defined(TP_NO_STDIO) || defined(TP_NO_SENTENCES) || defined(TP_ONLY_F32)
#error \
    "TP_NO_STDIO, TP_NO_SENTENCES, TP_ONLY_F32 and TP_TINY are for programs of tp_tensor.h, tp_graph.h, tp_layers.h and tp_optim.h alone"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ==== >>datapoint ===================================================================================== */

/* A few tensors that belong together: an image and its label, or a batch of them. Zero-initialise. Components keep their buffers
 * when n changes, so reuse a datapoint where you can. */
typedef struct tp_datapoint {
    int n;
    tp_tensor *c;
    int cap_;
} tp_datapoint;
TP_DEF tp_status tp_datapoint_resize(tp_datapoint *dp, int n);
/* dp gets views of all components of `of` */
TP_DEF tp_status tp_datapoint_view(tp_datapoint *dp, const tp_datapoint *of);
TP_DEF tp_status tp_datapoint_copy(tp_datapoint *dp, const tp_datapoint *of); /* dp gets copies of them */
TP_DEF void tp_datapoint_free(tp_datapoint *dp);
/* Components can also hold bytes or text: uint8 (N), N bytes. These functions copy bytes, or a text without its final NUL, into
 * component `index`; the datapoint grows if it has fewer components. */
TP_DEF tp_status tp_datapoint_set_bytes(tp_datapoint *dp, int index, const void *data, size_t n);
TP_DEF tp_status tp_datapoint_set_text(tp_datapoint *dp, int index, const char *text);
/* A component of bytes as a text that ends with a NUL, which is not counted; a view becomes a copy, to have room for the NUL. The
 * text is valid until the component changes. NULL and a sentence: there is no such component, it is not uint8 (N), or out of
 * memory. */
TP_DEF const char *tp_datapoint_text(tp_datapoint *dp, int index);

/* ==== >>dataflow ====================================================================================== */

/* The protocol. To write your own flow, make one with tp_df_new, give it `next` and the other functions that it supports. Call
 * flows through the functions below: they restart a flow before its first datapoint, return TP_END until the next restart, and have
 * a general method for each function that a flow does not define. The sentence of a failure ends with the flow and the datapoint
 * that it was making, [tp_df_map: pass 2, datapoint 17], counted from 0. [dataflow: DataFlow] */
typedef struct tp_dataflow tp_dataflow;
struct tp_dataflow {
    const char *name; /* name of the flow's kind for error sentences: "tp_df_batch" */
    /* Fill dp and return TP_OK, TP_END at the end of the pass, or an error. A datapoint that failed is left behind: the next call
     * is for the one after it. After the first datapoints it should allocate nothing. */
    tp_status (*next)(tp_dataflow *df, tp_datapoint *dp);
    /* goes to the start of pass 0, 1, ...; NULL: the flow has only one pass */
    tp_status (*restart)(tp_dataflow *df, int64_t pass);
    /* returns the datapoints per pass, advisory; NULL or -1: unknown */
    int64_t (*size)(tp_dataflow *df);
    /* Skip n datapoints of this pass; *skipped is less than n if the pass ended. NULL: skip by calling next. A flow whose
     * datapoints cannot come again, such as a game's, only says so: *skipped = n; else a resume plays all of them once more. */
    tp_status (*seek)(tp_dataflow *df, int64_t n, int64_t *skipped);
    void (*close)(tp_dataflow *df); /* releases resources that user points to; tp_df_free frees the struct itself */
    void *user;
    /* for the random numbers; read it in `restart`, because flows that are made around this one may change it: see SEEDS */
    uint64_t seed;
    tp_owner owner_;
    int state_;            /* the fields from here on are private to the wrappers */
    bool reading_is_told_; /* the log has said that seeking reads this flow */
    int64_t pass_, index_; /* the current pass, and how many of its datapoints were given or skipped */
    /* The advice of the error where a second pass is wanted and `restart` is NULL; NULL: "give it the function `restart`". */
    const char *advice_;
    /* The advice of the log line for a flow that has to read datapoints to skip them; NULL: "give it the function `seek`". */
    const char *seek_advice_;
    tp_datapoint skip_;
    bool endless_; /* its passes have no end, and its size is how much a trainer takes for an epoch */
    /* the flow at or below this one that collects datapoints for batches of later passes; or NULL. Its counts are looked at where a
     * pass has ended, so that no thread of a flow between reads it then */
    tp_dataflow *collects_;
    const char *kind_; /* flows of one kind and one seed draw the same numbers */
    bool seed_given_;
    tp_dataflow *input_;      /* the first flow that this one reads */
    tp_dataflow *next_input_; /* the next flow that the reader of this one reads */
    bool unordered_;          /* the order of its datapoints is not fixed */
    bool in_worker_;          /* in a process of tp_df_multi_process, which makes every n-th datapoint */
};

TP_DEF tp_status tp_df_next(tp_dataflow *df, tp_datapoint *dp); /* begins pass 0 if nothing was read yet */
TP_DEF tp_status tp_df_restart(tp_dataflow *df, int64_t pass);
/* number of datapoints per pass; -1: unknown */
TP_DEF int64_t tp_df_size(tp_dataflow *df);
TP_DEF tp_status tp_df_seek(tp_dataflow *df, int64_t n, int64_t *skipped); /* skipped may be NULL */
/* also frees what the flow owns; df may be NULL */
TP_DEF void tp_df_free(tp_dataflow *df);
TP_DEF tp_status tp_df_status(const tp_dataflow *df); /* the error that made df a poison flow, with its sentence */
/* Makes a poison flow with this sentence, for constructors of your own. at may be NULL. */
TP_DEF tp_dataflow *tp_df_fail(const tp_at *at, tp_status status, const char *fmt, ...) TP_PRINTF(3, 4);
/* Makes a flow whose `user` is `bytes` of zeroed memory, freed with the flow. seed: 0 means one of its own; (uint64_t)TP_NONE for 0.
 * NULL: out of memory. */
TP_DEF tp_dataflow *tp_df_new(const char *name, size_t bytes, uint64_t seed);

/* For flows of your own, and functions of tp_df_from_generator and tp_df_map, that wait for something: true when the input source or
 * the parallel flow whose thread reads this flow is being freed or reset. Check it at least ten times a second while you wait, and
 * return TP_STOP when it is true: tp_input_free and tp_df_free wait until you return. Always false in other threads. It is also false
 * in a process of tp_df_multi_process; such a process need not check it, because it is ended from outside. */
TP_DEF bool tp_df_stopping(void);

/* Measures speed: reads n datapoints (passes are repeated as needed) after `warmup` others, logs how many there were in a second, and
 * writes it to *per_second, which may be NULL. [dataflow: TestDataSpeed] */
TP_DEF tp_status tp_df_test_speed(tp_dataflow *df, int64_t n, int64_t warmup, double *per_second);

/* ==== >>sources of data =============================================================================== */
/* Constructors take keyword arguments, tp_df_batch(df, 32, .remainder = true): arguments without a name come first, in the order of
 * the fields. See OPTIONS in tp_tensor.h. A flow that is given no seed has one of its own: see SEEDS.
 *
 * Examples:
 *     df = tp_df_mnist("train");
 *     df = tp_df_digits("test", .size = 500, .shuffle = TP_NO);
 *     df = tp_df_from_arrays(images_and_labels, 2);
 *     df = tp_df_fake(specs, 2, .size = 100);
 *     df = tp_df_from_generator(my_generator, &my_state, .size = 1000);
 */

/* Gives copies of the datapoints of an array. [dataflow: DataFromList] */
typedef struct tp_df_from_list_desc {
    tp_at at_;
    const tp_datapoint *points;
    int64_t n;
    tp_tri shuffle; /* each pass has a new order; default TP_YES */
    uint64_t seed;
} tp_df_from_list_desc;
TP_DEF tp_dataflow *tp_df_from_list_(const tp_df_from_list_desc *d);

/* Gives the rows of n arrays along their first axis, all of the same length: component j of datapoint i is row i of
 * arrays[j]. The arrays are copied. */
typedef struct tp_df_from_arrays_desc {
    tp_at at_;
    const tp_tensor *arrays;
    int n;
    tp_tri shuffle; /* whether each pass has another, random order; default TP_YES */
    uint64_t seed;
} tp_df_from_arrays_desc;
TP_DEF tp_dataflow *tp_df_from_arrays_(const tp_df_from_arrays_desc *d);

/* Gives the datapoints that your function makes: fill dp and return TP_OK, or return TP_END or an error (set its sentence
 * with tp_fail); the call after an error is for the next index. A function that waits for something, such as experience in
 * a replay memory, looks at tp_df_stopping while it waits, and returns TP_STOP when that is true: else the training never ends.
 * [dataflow: DataFromGenerator] */
typedef tp_status (*tp_generator_fn)(void *user, int64_t pass, int64_t index, tp_datapoint *dp);
typedef struct tp_df_from_generator_desc {
    tp_at at_;
    tp_generator_fn fn;
    void *user;
    /* datapoints per pass, as tp_df_size reports it; 0: unknown. Only with .indexed does a pass end there: else fn ends it, by
     * TP_END, and more datapoints than that are given, too */
    int64_t size;
    int indexed; /* TP_YES: the datapoint that fn makes depends on (pass, index) alone, so that seeking need not call
                    fn; needs .size. Default TP_NO */
    void (*release)(void *user); /* called once, when the flow is freed */
} tp_df_from_generator_desc;
TP_DEF tp_dataflow *tp_df_from_generator_(const tp_df_from_generator_desc *d);

/* Gives uniform random numbers: float32 in [low, high), cast to the given dtypes. A cast to an integer cuts off the fraction; one to
 * half precision rounds, and may give high. [dataflow: FakeData] */
typedef struct tp_df_fake_desc {
    tp_at at_;
    const tp_spec *specs; /* names may be NULL; shapes must be known */
    int n;
    int64_t size;    /* datapoints per pass; default 1000; TP_NONE: none */
    tp_tri random;   /* TP_NO: each pass repeats one datapoint; default TP_YES */
    float low, high; /* the range of the numbers, high not below low; both 0 mean [0,1); TP_ZERO for a bound of 0 */
    uint64_t seed;
} tp_df_fake_desc;
TP_DEF tp_dataflow *tp_df_fake_(const tp_df_fake_desc *d);

/* MNIST and datasets of the same format (Fashion-MNIST): image float32 (H,W) in [0,1] (byte/255), label int32 scalar (in tensorpack
 * uint8). Files train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-...; each with or without .gz. In memory images are kept as
 * bytes. The default folder is $TP_DATA/mnist, or else $TENSORPACK_DATASET/mnist_data, or else ~/tensorpack_data/mnist_data.
 * [dataflow: Mnist, FashionMnist] */
typedef struct tp_df_mnist_desc {
    tp_at at_;
    const char *which; /* which images: "train" or "test" */
    const char *dir;   /* folder of the files; NULL: the default folder, see above */
    tp_tri shuffle;    /* whether each pass has another, random order; default TP_YES */
    uint64_t seed;
} tp_df_mnist_desc;
TP_DEF tp_dataflow *tp_df_mnist_(const tp_df_mnist_desc *d);

/* Generated handwritten digits in MNIST's format, for programs that must run without files: image float32 (28,28) in [0,1], label
 * int32. Strokes of ten digits in several styles, randomly bent, slanted, rotated, scaled, shifted and of random thickness. Image i
 * is a function of (seed, which, i) alone, the same bits on every machine; without a seed all flows have the images of seed 42, each in
 * an order of its own. */
typedef struct tp_df_digits_desc {
    tp_at at_;
    const char *which; /* "train" or "test": the two have different images */
    int64_t size;      /* number of images; default 12000 for train, 2000 for test; TP_NONE: none */
    tp_tri shuffle;    /* whether each pass has another, random order; default TP_YES */
    uint64_t seed;
} tp_df_digits_desc;
TP_DEF tp_dataflow *tp_df_digits_(const tp_df_digits_desc *d);

/* Gives the rows of IDX files of equal length, in the files' own dtypes (int8 and int16 become int32). */
typedef struct tp_df_idx_desc {
    tp_at at_;
    const char *const *paths;
    int n;
    tp_tri shuffle; /* whether each pass has another, random order; default TP_YES */
    uint64_t seed;
} tp_df_idx_desc;
TP_DEF tp_dataflow *tp_df_idx_(const tp_df_idx_desc *d);

/* ==== >>transformations =============================================================================== */
/* Flows that are built on other flows and own them.
 *
 * Examples:
 *     df = tp_df_cast(df, 0, TP_F32, 1 / 255.0);
 *     df = tp_df_map_component(df, my_component_fn, 0, .keeps_all = TP_YES);
 *     df = tp_df_filter(df, my_filter);
 *     df = tp_df_random_mix((tp_dataflow *const[]){df, other}, 2);
 *     df = tp_df_cache(df, .shuffle = TP_YES);
 *     df = tp_df_locally_shuffle(df, 1000);
 *     df = tp_df_batch(tp_df_repeated(df, -1), 32);
 */

/* Stacks batch_size datapoints along a new first axis. Without remainder an incomplete last batch is dropped. bool
 * stays bool (tensorpack converts it to int32). With pad, datapoints of a batch may have different shapes, but as many axes:
 * pad_value fills each up at the end of each axis, to the largest of the batch. To know their sizes later, add them as a component
 * before (tp_df_map). It stands for tensorpack's use_list. [dataflow: BatchData] */
typedef struct tp_df_batch_desc {
    tp_at at_;
    tp_dataflow *df;
    int64_t batch_size;
    tp_tri remainder; /* whether an incomplete last batch is given; default TP_NO */
    tp_tri pad;       /* whether shapes may differ; default TP_NO: that is an error */
    double pad_value; /* value behind the end of a smaller datapoint, converted to the type of the component */
} tp_df_batch_desc;
TP_DEF tp_dataflow *tp_df_batch_(const tp_df_batch_desc *d);

/* The arguments of a mapping function beside its datapoint. */
typedef struct tp_map_call {
    void *user;
    uint64_t key;        /* random key for augmentation, a function of (seed, pass): tp_random_uniform(key, index, i) */
    int64_t pass, index; /* number of the pass, and of the datapoint in the flow below */
    bool drop;           /* set it to true to drop this datapoint */
    int thread;          /* number of the tp_df_parallel_map thread that calls, from 0: for scratch memory per thread */
} tp_map_call;
/* A mapping function. out begins as a view of in. To change component i, tp_tensor_resize(&out->c[i], ...) and fill it
 * from in->c[i]; never write into in. */
typedef tp_status (*tp_map_fn)(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call);
typedef struct tp_df_map_desc {
    tp_at at_;
    tp_dataflow *df;
    tp_map_fn fn;
    void *user;
    tp_tri keeps_all; /* TP_YES: fn never drops, so that seeking need not call it; default TP_NO */
    uint64_t seed;
    void (*release)(void *user);
} tp_df_map_desc;
TP_DEF tp_dataflow *tp_df_map_(const tp_df_map_desc *d); /* Maps each datapoint with a function. [dataflow: MapData] */

/* A mapping function for one component: resize out and fill it from in, or leave out as it is, a view of in. */
typedef tp_status (*tp_map_component_fn)(const tp_tensor *in, tp_tensor *out, tp_map_call *call);
typedef struct tp_df_map_component_desc {
    tp_at at_;
    tp_dataflow *df;
    tp_map_component_fn fn;
    int index; /* index of the component, from 0 */
    void *user;
    tp_tri keeps_all; /* whether fn keeps each datapoint; default TP_NO */
    uint64_t seed;
    void (*release)(void *user);
} tp_df_map_component_desc;
/* Maps one component of each datapoint. [dataflow: MapDataComponent] */
TP_DEF tp_dataflow *tp_df_map_component_(const tp_df_map_component_desc *d);

/* Casts one component to another dtype and multiplies it by scale (0: no multiplication). tp_df_cast(df, 0, TP_F32, 1 / 255.0) */
TP_DEF tp_dataflow *tp_df_cast(tp_dataflow *df, int index, tp_dtype dtype, double scale);
/* Repeats df num times in one pass; -1: for ever. Pass p consists of passes p*num to p*num+num-1 of df. [dataflow: RepeatedData] */
TP_DEF tp_dataflow *tp_df_repeated(tp_dataflow *df, int64_t num);
/* Gives the first n datapoints of each pass; all of them if there are fewer. */
TP_DEF tp_dataflow *tp_df_take(tp_dataflow *df, int64_t n);
/* Gives datapoints rank, rank + n_ranks, rank + 2 n_ranks, ... of each pass: the part of one of n_ranks processes (MPI). Those that
 * fail are counted. In each of them df must give the same datapoints in the same order, as the same tree of flows does in each
 * process. Parts that stand in one tree need it too: give df a seed there. The parts' sizes differ by one at most: where all
 * processes must make as many steps, give .steps_per_epoch. Seeks where df does. Owns df. A rank that is not 0 to n_ranks - 1 is
 * an error. [beyond: one rank's part of a flow] */
TP_DEF tp_dataflow *tp_df_shard(tp_dataflow *df, int rank, int n_ranks);
/* Gives exactly `size` datapoints per pass, restarting df as needed. keep_state: the next pass continues at the
 * datapoint of df where this one ended. [dataflow: FixedSizeData] */
typedef struct tp_df_fixed_size_desc {
    tp_at at_;
    tp_dataflow *df;
    int64_t size;
    tp_tri keep_state; /* whether the next pass continues where this one ended; default TP_YES */
} tp_df_fixed_size_desc;
TP_DEF tp_dataflow *tp_df_fixed_size_(const tp_df_fixed_size_desc *d);
/* Shuffles within a buffer of buffer_size datapoints. A pass of this flow never ends: df is restarted at the end of each pass of
 * df. Its size, which a trainer takes for an epoch, is num_reuse times that of df. Each datapoint of df goes into the buffer
 * num_reuse times. Once the buffer is full, each datapoint that is put in pushes the front one out, which is given. The buffer
 * is shuffled after every shuffle_interval datapoints of df; shuffle k is a function of (seed, k). A seek finds out by counting
 * which datapoints are in the buffer, and reads only those; df is asked to seek to each of them. [dataflow: LocallyShuffleData] */
typedef struct tp_df_locally_shuffle_desc {
    tp_at at_;
    tp_dataflow *df;
    int buffer_size;
    int num_reuse;        /* how often each datapoint is given; default 1 */
    int shuffle_interval; /* datapoints between two shuffles; default: buffer_size/3, at least 1 */
    uint64_t seed;
} tp_df_locally_shuffle_desc;
TP_DEF tp_dataflow *tp_df_locally_shuffle_(const tp_df_locally_shuffle_desc *d);
/* Selects, reorders or repeats components. [dataflow: SelectComponent] */
TP_DEF tp_dataflow *tp_df_select(tp_dataflow *df, const int *indices, int n);
/* Gives the datapoints of dfs[0], then those of dfs[1], and so on. [dataflow: ConcatData] */
TP_DEF tp_dataflow *tp_df_concat(tp_dataflow *const *dfs, int n);
/* Joins one datapoint of each flow, components side by side; ends with the shortest flow, and behind a failure of one of them, since
 * what follows would not belong together. Flows that shuffle have orders of their own, so that each pass makes other pairs. For the
 * same rows of both, shuffle above, or give both flows one seed (two readers of one kind and length). [dataflow: JoinData, ZipData] */
TP_DEF tp_dataflow *tp_df_join(tp_dataflow *const *dfs, int n);
TP_DEF tp_dataflow *tp_df_zip(tp_dataflow *const *dfs, int n); /* the same as tp_df_join */
/* Logs dtype, shape and range of the first num datapoints. name may be NULL. [dataflow: PrintData] */
TP_DEF tp_dataflow *tp_df_print(tp_dataflow *df, int num, const char *name);

/* Gives the datapoints for which keep returns true. Without keep: the datapoints that have components, so that a flow
 * of your own can drop a datapoint by giving one without components. The size is that of df, as if none were dropped, unless you
 * give it: InferenceRunner reads as many datapoints as the size says. call->index is the datapoint's number in its pass. If df
 * shuffles, as the readers do by default, each pass gives that number to another datapoint: to hold back the same ones always, filter
 * a df that does not shuffle. [dataflow: FilterNULL] */
typedef bool (*tp_filter_fn)(const tp_datapoint *dp, const tp_map_call *call);
typedef struct tp_df_filter_desc {
    tp_at at_;
    tp_dataflow *df;
    tp_filter_fn keep;
    void *user;
    uint64_t seed; /* seed of the random key that `keep` gets in call->key */
    void (*release)(void *user);
    int64_t size; /* datapoints kept per pass, as tp_df_size reports; 0: unknown, it reports the size of df */
} tp_df_filter_desc;
TP_DEF tp_dataflow *tp_df_filter_(const tp_df_filter_desc *d);
/* Gives each datapoint num times in a row. [dataflow: RepeatedDataPoint] */
TP_DEF tp_dataflow *tp_df_repeated_point(tp_dataflow *df, int64_t num);
/* For each datapoint a flow is chosen at random; the pass ends when the chosen flow is at its end. Choice i of pass p is a function
 * of (seed, p, i). The size is unknown. [dataflow: RandomChooseData] */
typedef struct tp_df_random_choose_desc {
    tp_at at_;
    tp_dataflow *const *dfs;
    int n;
    const double *probabilities; /* one probability for each flow; their sum must be 1 (to 1e-6). NULL: all equal */
    uint64_t seed;
} tp_df_random_choose_desc;
TP_DEF tp_dataflow *tp_df_random_choose_(const tp_df_random_choose_desc *d);
/* Gives all datapoints of all flows, mixed at random; those of one flow stay in order. Every mixture is as likely as
 * any other. The flows must know their sizes when the mixture is made: a flow that ends before its size gives fewer
 * datapoints, and datapoints beyond its size are left out. The mixture of pass p is a function of (seed, p). [dataflow: RandomMixData] */
typedef struct tp_df_random_mix_desc {
    tp_at at_;
    tp_dataflow *const *dfs;
    int n;
    uint64_t seed;
} tp_df_random_mix_desc;
TP_DEF tp_dataflow *tp_df_random_mix_(const tp_df_random_mix_desc *d);
/* Keeps pass 0 of df in memory and gives it in every pass. df is read as datapoints are requested, and completely before pass 1
 * begins: a flow without an end, such as tp_df_repeated(df, -1), is refused. A restart before that, but after a failure, reads df
 * from its beginning again, so that what failed can come. shuffle: pass 0 keeps the order of df, pass p has an
 * order that is a function of (seed, p). [dataflow: CacheData] */
typedef struct tp_df_cache_desc {
    tp_at at_;
    tp_dataflow *df;
    tp_tri shuffle; /* whether each pass has another, random order; default TP_NO */
    uint64_t seed;
} tp_df_cache_desc;
TP_DEF tp_dataflow *tp_df_cache_(const tp_df_cache_desc *d);
/* Makes batches of datapoints whose component idx has the same shape: datapoints are collected by shape, and a batch is
 * given as soon as batch_size of one shape are collected. The other components must have equal shapes within a batch.
 * [dataflow: BatchDataByShape] With keep_state, as in tensorpack, datapoints left over at the end of a pass go into the
 * batches of the next one. Then pass p depends on passes 0 to p-1: restarting at pass p reads those first, so that a
 * resumed program gets the same batches. A pass that completes no batch gives none; an input source, tp_df_repeated and
 * tp_df_fixed_size go on with the next one, but through tp_df_multi_process and flows that are made of several (tp_df_concat,
 * tp_df_join, tp_df_zip, tp_df_random_choose, tp_df_random_mix) they fail: "a whole pass gave no datapoint".
 * Without keep_state, and where the passes of df have no end, as those of tp_df_repeated(df, -1), each pass begins with empty
 * collections and drops its incomplete batches; a batch_size above the size of df is an error then. Seeking reads the datapoints. */
typedef struct tp_df_batch_by_shape_desc {
    tp_at at_;
    tp_dataflow *df;
    int64_t batch_size;
    int idx;           /* number of the component whose shape is compared */
    tp_tri keep_state; /* whether leftover datapoints go into the next pass; default TP_YES */
} tp_df_batch_by_shape_desc;
TP_DEF tp_dataflow *tp_df_batch_by_shape_(const tp_df_batch_by_shape_desc *d);

/* Constructors without options have the place of their call, too: as builders of a graph, see >>places of tp_graph.h. */
TP_DEF tp_dataflow *tp__df_at(tp_dataflow *df, const char *file, int line);
TP_DEF const tp__zero_option *tp__input_zeros(void);
/* clang-format off */
#define tp_df_cast(...) TP__PLACED(tp__df_at, tp_df_cast(__VA_ARGS__))
#define tp_df_repeated(...) TP__PLACED(tp__df_at, tp_df_repeated(__VA_ARGS__))
#define tp_df_take(...) TP__PLACED(tp__df_at, tp_df_take(__VA_ARGS__))
#define tp_df_shard(...) TP__PLACED(tp__df_at, tp_df_shard(__VA_ARGS__))
#define tp_df_select(...) TP__PLACED(tp__df_at, tp_df_select(__VA_ARGS__))
#define tp_df_concat(...) TP__PLACED(tp__df_at, tp_df_concat(__VA_ARGS__))
#define tp_df_join(...) TP__PLACED(tp__df_at, tp_df_join(__VA_ARGS__))
#define tp_df_zip(...) TP__PLACED(tp__df_at, tp_df_zip(__VA_ARGS__))
#define tp_df_print(...) TP__PLACED(tp__df_at, tp_df_print(__VA_ARGS__))
#define tp_df_repeated_point(...) TP__PLACED(tp__df_at, tp_df_repeated_point(__VA_ARGS__))
#ifndef __cplusplus
#define tp_df_from_list(...) TP__CALL(input, tp_df_from_list, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_from_arrays(...) TP__CALL(input, tp_df_from_arrays, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_from_generator(...) TP__CALL(input, tp_df_from_generator, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_fake(...) TP__CALL(input, tp_df_fake, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_mnist(...) TP__CALL(input, tp_df_mnist, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_digits(...) TP__CALL(input, tp_df_digits, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_idx(...) TP__CALL(input, tp_df_idx, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_batch(...) TP__CALL(input, tp_df_batch, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_map(...) TP__CALL(input, tp_df_map, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_map_component(...) TP__CALL(input, tp_df_map_component, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_fixed_size(...) TP__CALL(input, tp_df_fixed_size, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_locally_shuffle(...) TP__CALL(input, tp_df_locally_shuffle, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_filter(...) TP__CALL(input, tp_df_filter, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_random_choose(...) TP__CALL(input, tp_df_random_choose, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_random_mix(...) TP__CALL(input, tp_df_random_mix, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_cache(...) TP__CALL(input, tp_df_cache, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_batch_by_shape(...) TP__CALL(input, tp_df_batch_by_shape, #__VA_ARGS__, __VA_ARGS__)
#elif __cplusplus >= 202002L
#define tp_df_from_list(points_, n_, ...) TP__CALL2(input, tp_df_from_list, points, points_, n, n_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_from_arrays(arrays_, n_, ...) TP__CALL2(input, tp_df_from_arrays, arrays, arrays_, n, n_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_from_generator(fn_, ...) TP__CALL1(input, tp_df_from_generator, fn, fn_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_fake(specs_, n_, ...) TP__CALL2(input, tp_df_fake, specs, specs_, n, n_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_mnist(which_, ...) TP__CALL1(input, tp_df_mnist, which, which_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_digits(which_, ...) TP__CALL1(input, tp_df_digits, which, which_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_idx(paths_, n_, ...) TP__CALL2(input, tp_df_idx, paths, paths_, n, n_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_batch(df_, batch_size_, ...) TP__CALL2(input, tp_df_batch, df, df_, batch_size, batch_size_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_map(df_, fn_, ...) TP__CALL2(input, tp_df_map, df, df_, fn, fn_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_map_component(df_, fn_, ...) TP__CALL2(input, tp_df_map_component, df, df_, fn, fn_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_fixed_size(df_, size_, ...) TP__CALL2(input, tp_df_fixed_size, df, df_, size, size_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_locally_shuffle(df_, buffer_size_, ...) TP__CALL2(input, tp_df_locally_shuffle, df, df_, buffer_size, buffer_size_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_filter(df_, ...) TP__CALL1(input, tp_df_filter, df, df_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_random_choose(dfs_, n_, ...) TP__CALL2(input, tp_df_random_choose, dfs, dfs_, n, n_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_random_mix(dfs_, n_, ...) TP__CALL2(input, tp_df_random_mix, dfs, dfs_, n, n_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_cache(df_, ...) TP__CALL1(input, tp_df_cache, df, df_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_batch_by_shape(df_, batch_size_, ...) TP__CALL2(input, tp_df_batch_by_shape, df, df_, batch_size, batch_size_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#endif
/* clang-format on */

/* ==== >>parallel ======================================================================================= */
/* Flows that read ahead on threads of their own. The threads start at the first tp_df_next, pause from tp_df_restart or tp_df_seek
 * until the next tp_df_next, and end with tp_df_free, which waits until the functions that they call have returned. The flow below,
 * and the functions, run on these threads. Except with .ordered = TP_NO, datapoints and failures come in the same order, and with
 * the same bits, as without threads, for any number of threads of a map and of processes; so seeking and resuming are exact.
 * (tp_df_multi_thread has as many flows as threads, which take turns.) Built with TP_NO_THREADS these flows give the same
 * datapoints on the caller's thread.
 *
 * Examples:
 *     df = tp_df_image_folder("train", .decode = TP_NO);
 *     df = tp_df_parallel_map(df, tp_map_image, .num_thread = 4, .keeps_all = TP_YES);
 *     df = tp_df_prefetch(tp_df_batch(df, 64), .num_prefetch = 4);
 *
 *     df = tp_df_multi_thread(my_get_df, 4);
 *
 *     df = tp_df_multi_process(tp_df_map(df, my_map, .keeps_all = TP_YES), 4);
 */

/* A thread reads df ahead; the datapoints are those of df. [dataflow: PrefetchData with one worker] */
typedef struct tp_df_prefetch_desc {
    tp_at at_;
    tp_dataflow *df;
    int num_prefetch; /* maximum number of waiting datapoints; default 8 */
} tp_df_prefetch_desc;
TP_DEF tp_dataflow *tp_df_prefetch_(const tp_df_prefetch_desc *d);

/* tp_df_map on num_thread threads: fn is called by several threads at a time, so the data behind `user` must allow that (see
 * tp_map_call.thread). df is read by one thread at a time. With the same seed the datapoints are those of tp_df_map. fn may drop
 * datapoints. [dataflow: MultiThreadMapData] With .ordered = TP_NO datapoints come as soon as they are ready: each pass has the
 * same datapoints as with TP_YES, but their order is not deterministic. That is tensorpack's strict=True; for its endless
 * strict=False put tp_df_repeated(df, -1) below. A resumed program cannot know which of them were given first, so seeking is not
 * exact and logs a warning; tp_df_multi_process and tp_df_shard refuse such a flow. */
typedef struct tp_df_parallel_map_desc {
    tp_at at_;
    tp_dataflow *df;
    tp_map_fn fn;
    void *user;
    int num_thread;   /* number of threads; 0: one per processor */
    int buffer_size;  /* maximum number of datapoints that are being mapped or wait; default 200 */
    tp_tri ordered;   /* whether the order of the flow below is kept; default TP_YES */
    tp_tri keeps_all; /* TP_YES: fn never drops, so that seeking need not call it; default TP_NO */
    uint64_t seed;
    void (*release)(void *user);
} tp_df_parallel_map_desc;
TP_DEF tp_dataflow *tp_df_parallel_map_(const tp_df_parallel_map_desc *d);

/* Several flows, each on a thread of its own: get_df(user, i) makes flow i of num_thread; all are made in this constructor. Each
 * flow is repeated for ever, and they give datapoints in turn: datapoint k is the next one of flow k mod num_thread. The size of
 * flow 0 is the length of a pass. The next pass continues where the last one ended. If the size of flow 0 is unknown, a pass
 * does not end. The default seeds of one flow do not depend on the other ones, so that all threads draw the same numbers: parts of
 * one shuffled flow (tp_df_shard) fit together. Give each thread its part of the data, or each flow that draws numbers (an order,
 * an augmentation) a seed chosen by i. A datapoint that failed counts. [dataflow: MultiThreadRunner, MultiThreadPrefetchData] */
typedef tp_dataflow *(*tp_get_df_fn)(void *user, int i);
typedef struct tp_df_multi_thread_desc {
    tp_at at_;
    tp_get_df_fn get_df;
    int num_thread;
    void *user;       /* argument of get_df, which must copy what it keeps of it */
    int num_prefetch; /* maximum number of waiting datapoints of each flow; default 8 */
} tp_df_multi_thread_desc;
TP_DEF tp_dataflow *tp_df_multi_thread_(const tp_df_multi_thread_desc *d);

/* df in num_proc processes, which are forked at the first tp_df_restart or tp_df_next: each has a copy of df and makes every
 * num_proc-th datapoint, seeking past the others. So the datapoints are those of df, bit for bit, for any number of processes, and
 * resuming is exact. The cheaper df can seek, the larger is the gain: a map should set .keeps_all = TP_YES. Datapoints come through
 * unnamed shared memory. If a process crashes or is killed, tp_df_next fails with a sentence; tp_df_restart starts new processes.
 * The processes end with the flow, and with this program however it ends. They are copies of this program: changes that functions
 * of df make to its memory are not visible here, and they must not use its threads or its GPU. On systems without fork, df is read
 * by the caller. [dataflow: MultiProcessRunner, MultiProcessRunnerZMQ, MultiProcessMapData] */
typedef struct tp_df_multi_process_desc {
    tp_at at_;
    tp_dataflow *df;
    int num_proc;
    int num_prefetch; /* maximum number of waiting datapoints of each process; default 8 */
} tp_df_multi_process_desc;
TP_DEF tp_dataflow *tp_df_multi_process_(const tp_df_multi_process_desc *d);

/* clang-format off */
#ifndef __cplusplus
#define tp_df_prefetch(...) TP__CALL(input, tp_df_prefetch, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_parallel_map(...) TP__CALL(input, tp_df_parallel_map, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_multi_thread(...) TP__CALL(input, tp_df_multi_thread, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_multi_process(...) TP__CALL(input, tp_df_multi_process, #__VA_ARGS__, __VA_ARGS__)
#elif __cplusplus >= 202002L
#define tp_df_prefetch(df_, ...) TP__CALL1(input, tp_df_prefetch, df, df_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_parallel_map(df_, fn_, ...) TP__CALL2(input, tp_df_parallel_map, df, df_, fn, fn_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_multi_thread(get_df_, num_thread_, ...) TP__CALL2(input, tp_df_multi_thread, get_df, get_df_, num_thread, num_thread_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_multi_process(df_, num_proc_, ...) TP__CALL2(input, tp_df_multi_process, df, df_, num_proc, num_proc_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#endif
/* clang-format on */

/* ==== >>readers ======================================================================================== */
/* Datasets and file formats. The contents of files are not trusted: a file that is damaged, cut short or of another kind gives an
 * error sentence with its name and the position in it (line and column, record and byte).
 *
 * Examples:
 *     df = tp_df_cifar10("train", .dir = "data/cifar10");
 *
 *     df = tp_df_svhn_digit("train", .dir = "data/svhn");
 *
 *     df = tp_df_npz("faces.npz", .names = {"X", "y"});
 *
 *     static const tp_spec features[] = {TP_SPEC("image", TP_U8, 32, 32, 3), TP_SPEC("label", TP_I64)};
 *     static const char *const records[] = {"train-0.tfrecord", "train-1.tfrecord"};
 *     df = tp_df_tfrecord(records, 2, .features = features, .n_features = 2, .shuffle = TP_YES);
 *
 *     static const tp_csv_column columns[] = {{.name = "petal length", .count = 2}, {.name = "species", .dtype = TP_I32}};
 *     df = tp_df_csv("iris.csv", columns, 2);
 *
 *     df = tp_df_image_folder("train", .on_error = TP_SKIP);
 *     df = tp_df_image_list("train.txt", .dir = "images");
 *
 *     df = tp_df_text_chars("shakespeare.txt", .sequence_length = 100);
 *
 *     df = tp_df_lmdb("train.mdb");
 */

#define TP_MAX_COMPONENTS 16 /* maximum number of components that a reader selects by name */

/* CIFAR-10 in its binary version: image uint8 (32,32,3) RGB, label int32 scalar. Files data_batch_1.bin to data_batch_5.bin, or
 * test_batch.bin; each with or without .gz. They are in .dir, or in its subfolder cifar-10-batches-bin, as the archive unpacks. The
 * default .dir is $TP_DATA/cifar10, or else $TENSORPACK_DATASET/cifar10_data, or else ~/tensorpack_data/cifar10_data. A file may
 * have fewer images than the original. [dataflow: Cifar10] */
typedef struct tp_df_cifar10_desc {
    tp_at at_;
    const char *which; /* which images: "train" or "test" */
    const char *dir;   /* folder of the files; NULL: the default folder */
    tp_tri shuffle;    /* whether each pass has another, random order; default TP_YES for "train", TP_NO for "test" */
    uint64_t seed;
} tp_df_cifar10_desc;
TP_DEF tp_dataflow *tp_df_cifar10_(const tp_df_cifar10_desc *d);

/* CIFAR-100: as CIFAR-10, but with the names train.bin, test.bin, cifar-100-binary and cifar100. [dataflow: Cifar100] */
typedef struct tp_df_cifar100_desc {
    tp_at at_;
    const char *which; /* which images: "train" or "test" */
    const char *dir;   /* folder of the files; NULL: the default folder */
    tp_tri coarse;     /* TP_YES: one of the 20 coarse labels, TP_NO: one of the 100 fine ones; default TP_NO */
    tp_tri shuffle;    /* whether each pass has another, random order; default TP_YES for "train", TP_NO for "test" */
    uint64_t seed;
} tp_df_cifar100_desc;
TP_DEF tp_dataflow *tp_df_cifar100_(const tp_df_cifar100_desc *d);

/* The cropped digits of Street View House Numbers (SVHN): image uint8 (32,32,3) RGB, label int32 scalar, 0 to 9 (in the file the
 * digit 0 has the label 10). Files train_32x32.mat, test_32x32.mat and extra_32x32.mat, as MATLAB writes them up to version 7
 * (not 7.3), compressed or not. The default folder is $TP_DATA/svhn, or else $TENSORPACK_DATASET/svhn_data, or else
 * ~/tensorpack_data/svhn_data. A file may have fewer images than the original. The memory is that of the images.
 * [dataflow: SVHNDigit] */
typedef struct tp_df_svhn_digit_desc {
    tp_at at_;
    const char *which; /* which images: "train", "test" or "extra" */
    const char *dir;   /* folder of the files; NULL: the default folder */
    tp_tri shuffle;    /* whether each pass has another, random order; default TP_YES */
    uint64_t seed;
} tp_df_svhn_digit_desc;
TP_DEF tp_dataflow *tp_df_svhn_digit_(const tp_df_svhn_digit_desc *d);

/* The mean of component `index` over pass 0 of any flow whose datapoints have one shape, as float32. Per pixel: the mean of each
 * element, in the component's shape. Per channel: the mean of each entry of its last axis. Sums are accumulated in double. The
 * caller keeps the flow, which is left at the start of pass 0. [Cifar10.get_per_pixel_mean, get_per_channel_mean] */
TP_DEF tp_status tp_df_per_pixel_mean(tp_dataflow *df, int index, tp_tensor *mean);
TP_DEF tp_status tp_df_per_channel_mean(tp_dataflow *df, int index, tp_tensor *mean);

/* Gives the rows of the arrays of an .npz file, all of the same length: component j of datapoint i is row i of the
 * array called names[j]. tp_df_npz("faces.npz", .names = {"X", "y"}) */
typedef struct tp_df_npz_desc {
    tp_at at_;
    const char *path;
    /* names of the arrays, the only ones that are read; none given: all arrays, in the order of the file */
    const char *names[TP_MAX_COMPONENTS + 1];
    tp_tri shuffle; /* whether each pass has another, random order; default TP_YES */
    uint64_t seed;
} tp_df_npz_desc;
TP_DEF tp_dataflow *tp_df_npz_(const tp_df_npz_desc *d);

/* -- TFRecord: a sequence of byte strings, each with a checksum of its length and of its bytes. */

/* Appends a TFRecord record to `out` (an error is kept in .failed), or to a file opened by tp_writer_open. */
TP_DEF void tp_tfrecord_append(tp_buf *out, const void *data, size_t size);
TP_DEF tp_status tp_tfrecord_put(tp_writer *w, const void *data, size_t size);
/* Reads the records of a TFRecord file in order. Errors name the file, the number of the record (from 0) and the byte
 * where it begins. */
typedef struct tp_tfrecord_reader tp_tfrecord_reader;
TP_DEF tp_status tp_tfrecord_open(tp_tfrecord_reader **r, const char *path);
/* returns TP_OK, TP_END after the last record, or an error. *data is valid until the next call. */
TP_DEF tp_status tp_tfrecord_next(tp_tfrecord_reader *r, const void **data, size_t *size);
TP_DEF void tp_tfrecord_close(tp_tfrecord_reader *r); /* r may be NULL */

/* Writes a tf.train.Example. Component i is the feature names[i]; float32 and other floats become a float list, int32,
 * int64 and bool an int64 list, uint8 a bytes list with one value. The message is appended to `out`. One of more than 2 GiB, which
 * protobuf cannot parse, is an error. */
TP_DEF tp_status tp_example_write(const tp_datapoint *dp, const char *const *names, tp_buf *out);
/* Parses a tf.train.Example: component i is the feature features[i].name in that dtype and shape. A dimension of TP_ANY
 * (one per shape) is computed from the number of values; a missing feature has no values, which is an error unless its
 * shape allows it. An int64 list can be read as any dtype that can hold its values, a float list as any float. A bytes
 * list must have one value: uint8 gives its bytes, another dtype takes its bytes as little-endian elements. what: a
 * name for error sentences. */
TP_DEF tp_status tp_example_parse(const void *data, size_t size, const char *what, const tp_spec *features, int n,
                                  tp_datapoint *dp);

/* Gives the records of TFRecord files, one file after the other. The constructor scans the files once for the positions
 * of the records, so that the size is known, and seeking and shuffling are fast. [dataflow: TFRecordSerializer.load] */
typedef struct tp_df_tfrecord_desc {
    tp_at at_;
    const char *const *paths;
    int n;
    /* features of a tf.train.Example, see tp_example_parse; NULL: the record itself, uint8 (bytes) */
    const tp_spec *features;
    int n_features;
    tp_tri shuffle; /* shuffles the records of all files together; default TP_NO */
    uint64_t seed;
} tp_df_tfrecord_desc;
TP_DEF tp_dataflow *tp_df_tfrecord_(const tp_df_tfrecord_desc *d);
/* Writes pass 0 of a flow as a TFRecord file of tf.train.Example messages, component i as the feature names[i]; n is the number of
 * components. n = 0: datapoints have one component, whose bytes are the record. The caller keeps the flow.
 * [dataflow: TFRecordSerializer.save] */
TP_DEF tp_status tp_df_save_tfrecord(tp_dataflow *df, const char *path, const char *const *names, int n);

/* -- CSV: fields between separators, quoted if they contain separators, quotes (doubled) or line ends; lines end with LF or CRLF.
 * Numbers are read without the locale. Empty lines are skipped. An empty field is a text of no bytes, and no number: see `missing`. */

typedef struct tp_csv_column {
    const char *name; /* the column's name in the first line; NULL: use `index` */
    int index;        /* the number of the column, from 0 */
    int count;        /* 0: the column is a scalar; else a vector (count) of this column and the next ones */
    tp_dtype dtype;   /* default TP_F32; TP_F64, TP_I32, TP_I64; TP_U8: text, as bytes (length) */
} tp_csv_column;
/* Gives the lines of a CSV file (.gz too), held in memory: component j is described by columns[j]. Errors name the line
 * and the column. */
typedef struct tp_df_csv_desc {
    tp_at at_;
    const char *path;
    const tp_csv_column *columns;
    int n;
    tp_tri header;  /* the first line has the names of the columns; default TP_YES */
    char separator; /* the character between fields; default ',' */
    tp_tri shuffle; /* whether each pass has another, random order; default TP_YES */
    uint64_t seed;
    /* what empty fields and NA, N/A, NULL, None and ? (in either case) are in columns of TP_F32 and TP_F64. TP_YES: NaN, which
     * "nan" is always; TP_NO, the default: an error. In integer columns, which have no NaN, they are an error, and text stays
     * as it is. */
    tp_tri missing;
} tp_df_csv_desc;
TP_DEF tp_dataflow *tp_df_csv_(const tp_df_csv_desc *d);

/* -- text */

/* The distinct words or characters of a text, numbered by frequency. Zero-initialise. */
typedef struct tp_vocabulary {
    int n;
    const char **word; /* the words by id, UTF-8 */
    int64_t *count;    /* how often each word occurs in the text */
    int unk;           /* id of "<unk>", which replaces unknown words; -1: there is none */
    tp_arena mem_;
    int32_t *slot_;
    size_t n_slot_;
} tp_vocabulary;
/* Collects the characters of a UTF-8 text (each invalid byte is one character); of equally frequent characters, the one
 * that comes first in the text has the lower id, as in tensorpack's char-rnn. */
TP_DEF tp_status tp_vocabulary_chars(tp_vocabulary *v, const char *path);
/* Collects the words of a text, separated by blanks, as for the Penn Treebank: a line end is the word "<eos>", and
 * equally frequent words are in byte order. Words that occur less than min_count times, and those beyond the max_words
 * most frequent (0: no limit), become "<unk>", which counts as one of the max_words. */
TP_DEF tp_status tp_vocabulary_words(tp_vocabulary *v, const char *path, int64_t min_count, int max_words);
/* Makes a vocabulary of a list: the id of a word is its place there; counts are 0. v is zeroed, or has a vocabulary, which is freed; v
 * copies the words. NULL, no words, an empty word and the same word twice are errors, after which v is empty. [beyond: a list] */
TP_DEF tp_status tp_vocabulary_from_list(tp_vocabulary *v, const char *const *words, int n);
/* Writes the words to a text file, the word of id i as line i, completely or not at all; an old file is replaced. A backslash, a line
 * feed and a carriage return in a word are written as \\, \n and \r. tp_vocabulary_load reads such a file, as by
 * tp_vocabulary_from_list. A missing file, an empty or repeated line, and a last line without an end are errors. v is empty after an
 * error. [beyond: a vocabulary in a file] */
TP_DEF tp_status tp_vocabulary_save(const tp_vocabulary *v, const char *path);
TP_DEF tp_status tp_vocabulary_load(tp_vocabulary *v, const char *path);
/* Returns the id of a word; if the word is unknown, the id of "<unk>", or -1 if there is none. */
TP_DEF int tp_vocabulary_find(const tp_vocabulary *v, const char *word, size_t size);
TP_DEF void tp_vocabulary_free(tp_vocabulary *v); /* v may be NULL */

/* Gives pieces of a text for a character model: two components, int32 (sequence_length): the ids, and the ids that follow them
 * (the same piece shifted by one character). The position of a piece is random, a function of (seed, pass, index). begin and end
 * choose a part of the text, as fractions of its length: .end = 0.9 gives the first nine tenths, for training, .begin = 0.9 the
 * last tenth, for validation. Without a vocabulary of yours the ids are those of a vocabulary of the whole text. [char-rnn's
 * CharRNNData] */
typedef struct tp_df_text_chars_desc {
    tp_at at_;
    const char *path;
    /* the vocabulary; needed during the call only; NULL: tp_vocabulary_chars of the file */
    const tp_vocabulary *vocabulary;
    int sequence_length; /* length of a sequence; default 50 */
    int64_t size;        /* datapoints per pass; default the number of pieces that fit into the text */
    tp_tri shuffle;      /* TP_NO: pieces side by side, from the beginning; default TP_YES */
    uint64_t seed;
    double begin, end; /* 0 <= begin < end <= 1; end: default 1 */
} tp_df_text_chars_desc;
TP_DEF tp_dataflow *tp_df_text_chars_(const tp_df_text_chars_desc *d);

/* Gives batches of a text for a word model that keeps its state: two components, int32 (batch_size, sequence_length).
 * The text is cut into batch_size equal pieces (the rest is dropped); row b of datapoint i continues where row b of
 * datapoint i - 1 ended. The second component is the first one shifted by one word. begin and end
 * choose a part of the text, as for tp_df_text_chars. [PTB-LSTM's ptb_producer] */
typedef struct tp_df_text_words_desc {
    tp_at at_;
    const char *path;
    /* the vocabulary; needed during the call only; NULL: tp_vocabulary_words(path, 1, 0) */
    const tp_vocabulary *vocabulary;
    int batch_size;      /* sequences in a batch; default 20 */
    int sequence_length; /* length of a sequence; default 35 */
    double begin, end;   /* 0 <= begin < end <= 1; end: default 1 */
} tp_df_text_words_desc;
TP_DEF tp_dataflow *tp_df_text_words_(const tp_df_text_words_desc *d);

/* -- image files: JPEG, PNG and BMP, decoded by stb_image.h, which is included as <stb/stb_image.h>, or from the path in
 * TP_STB_IMAGE, "a path"; TP_NO_STB_IMAGE leaves it out. A program that includes stb_image.h itself does so before the headers of
 * tp, which then use that copy, or in another translation unit. Without it images give TP_ERR_UNSUPPORTED. A JPEG without its end
 * marker and a PNG whose checksums do not match are errors.
 * JPEG files are decoded by libjpeg-turbo instead if TP_JPEG is defined before the implementation (jpeglib.h, -ljpeg; Debian package
 * libjpeg62-turbo-dev): faster for photographs, and it reads arithmetic coding, too. Pixels of the two decoders differ by a few
 * levels, most where colour is stored at half the resolution (there one column at the right edge may differ by a hundred); libjpeg's
 * memory does not come from tp's allocator.
 * An image whose EXIF data (of a JPEG or PNG) note an orientation, as those of cameras do, is turned upright, as by cv2.imread. */

/* Reads and decodes an image: uint8 (H,W,channels), 3: RGB, 1: grey. At most 64 Mi pixels, else TP_ERR_FORMAT. May be
 * called from any thread. */
TP_DEF tp_status tp_image_decode(const void *data, size_t size, int channels, tp_tensor *image);
/* Writes an image as a PNG file, completely or not at all; replaces a file of that name. image: (H,W), grey, or (H,W,C) with C of 1
 * (grey), 3 (RGB) or 4 (RGBA), any element type, values from 0, black, to 255; what is outside is limited, fractions are dropped.
 * For values 0..1 multiply by 255 first. The image stays yours. Needs no stb_image.h. */
TP_DEF tp_status tp_save_png(const char *path, const tp_tensor *image);

/* What to do with a file that cannot be read or decoded. With TP_SKIP a pass is shorter than its size, which counts all files:
 * InferenceRunner refuses that. Validate without such files, or put tp_df_fixed_size(df, <number of good files>) below the batches. */
typedef enum { TP_REFUSE, TP_SKIP } tp_on_error;

/* Gives image files: image uint8 (H,W,channel), each of its own size, or of that in `resize`, as by tp_aug_resize; the width 0 means
 * the height. TP_SKIP leaves a bad file out of every pass and logs one warning with its name; seeking then decodes each file that
 * was not decoded before, to know whether it is bad. [dataflow: ImageFromFile] */
typedef struct tp_df_image_from_file_desc {
    tp_at at_;
    const char *const *files; /* paths of the files, copied */
    int64_t n;
    int channel;          /* 3: RGB, 1: grey; default 3 */
    int64_t max_pixels;   /* a larger image is an error; default 64 Mi */
    tp_on_error on_error; /* what to do with a bad file; TP_REFUSE (default): the flow fails */
    int resize[2];        /* height and width that images get; default: their own */
    tp_tri shuffle;       /* whether each pass has another, random order; default TP_NO */
    uint64_t seed;
} tp_df_image_from_file_desc;
TP_DEF tp_dataflow *tp_df_image_from_file_(const tp_df_image_from_file_desc *d);

/* Gives the images of a folder with one subfolder per class: two components, the image as for tp_df_image_from_file and the
 * label, int32 scalar. Classes are numbered in byte order of their names, also folders without images, so that training and
 * validation data need the same folders (tp_df_image_classes). The files of a class (all whose names do not begin
 * with a dot, also in subfolders) are in byte order of their names; a subfolder's are where its name is. */
typedef struct tp_df_image_folder_desc {
    tp_at at_;
    const char *dir;
    int channel;          /* 3: RGB, 1: grey; default 3 */
    int64_t max_pixels;   /* largest number of pixels of an image; default 64 Mi */
    tp_on_error on_error; /* what to do with a bad file; TP_REFUSE (default): the flow fails */
    tp_tri decode;        /* TP_NO: the first component is the path, uint8 (length), for tp_map_image; default TP_YES */
    tp_tri shuffle;       /* whether each pass has another, random order; default TP_YES */
    uint64_t seed;
} tp_df_image_folder_desc;
TP_DEF tp_dataflow *tp_df_image_folder_(const tp_df_image_folder_desc *d);
/* The names of the classes of a tp_df_image_folder, in the order of their labels; valid until the flow is freed. */
TP_DEF const char *const *tp_df_image_classes(const tp_dataflow *df, int *n);

/* Gives the images of a list: a text file with a path, a blank and a label in each line, as in ILSVRC12's train.txt.
 * Components as for tp_df_image_folder. [dataflow: ILSVRC12Files] */
typedef struct tp_df_image_list_desc {
    tp_at at_;
    const char *list;
    const char *dir;      /* folder for relative paths; NULL: the current folder */
    int channel;          /* 3: RGB, 1: grey; default 3 */
    int64_t max_pixels;   /* largest number of pixels of an image; default 64 Mi */
    tp_on_error on_error; /* what to do with a bad file; TP_REFUSE (default): the flow fails */
    tp_tri decode;        /* TP_NO: the first component is the path, uint8 (length), for tp_map_image; default TP_YES */
    tp_tri shuffle;       /* whether each pass has another, random order; default TP_YES */
    uint64_t seed;
} tp_df_image_list_desc;
TP_DEF tp_dataflow *tp_df_image_list_(const tp_df_image_list_desc *d);

/* A function for tp_df_map and its parallel forms: replaces component 0, a path, by the image. The map's `user` points to a
 * tp_image_options; NULL: the default options. With TP_SKIP a bad file is dropped with a warning (tp_log_once: once per file,
 * for the first 256 files). */
typedef struct tp_image_options {
    int channel;          /* 3: RGB, 1: grey; default 3 */
    int64_t max_pixels;   /* largest number of pixels of an image; default 64 Mi */
    tp_on_error on_error; /* what to do with a bad file; TP_REFUSE (default): the flow fails */
} tp_image_options;
TP_DEF tp_status tp_map_image(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call);
/* The same, but component 0 becomes the contents of the image file, uint8 (length), for tp_df_load_image with .encoded. So a data set
 * whose files fit into memory is read only once:
 *     df = tp_df_map(tp_df_image_folder("train", .decode = TP_NO), tp_map_image_file);
 *     df = tp_df_load_image(tp_df_cache(df, .shuffle = TP_YES), aug, .encoded = TP_YES, .num_thread = 4);
 * A file that cannot be read, is cut short or has too many pixels is bad; damage inside is found when it is decoded. */
TP_DEF tp_status tp_map_image_file(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call);

/* -- LMDB, with TP_LMDB defined, <lmdb.h> and -llmdb; otherwise TP_ERR_UNSUPPORTED. liblmdb does not check the pages of a file:
 * read only files from people you trust. It maps the file: one that becomes shorter while it is read ends the program by SIGBUS. */

/* Gives the datapoints of an LMDB file or folder in the order of its keys, values in the encoding of tp_datapoint_pack.
 * The entry "__keys__" is skipped. [dataflow: LMDBSerializer.load, LMDBData] */
typedef struct tp_df_lmdb_desc {
    tp_at at_;
    const char *path;
    tp_tri raw;     /* TP_YES: two components, the key and the undecoded value, uint8 (length); default TP_NO */
    tp_tri shuffle; /* whether each pass has another, random order; default TP_YES */
    uint64_t seed;
} tp_df_lmdb_desc;
TP_DEF tp_dataflow *tp_df_lmdb_(const tp_df_lmdb_desc *d);
/* Writes pass 0 of a flow as a new LMDB file, with keys "00000000", "00000001", ... and "__keys__", the list of keys in Python's
 * pickle format. The file is written completely or not at all; an existing file is an error and stays, also if another
 * process makes it meanwhile. What a killed process leaves, <path>.tmp.* (a long name is cut), the next call removes. The caller keeps the flow.
 * [dataflow: LMDBSerializer.save] */
TP_DEF tp_status tp_lmdb_save(tp_dataflow *df, const char *path);

/* clang-format off */
#ifndef __cplusplus
#define tp_df_cifar10(...) TP__CALL(input, tp_df_cifar10, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_cifar100(...) TP__CALL(input, tp_df_cifar100, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_svhn_digit(...) TP__CALL(input, tp_df_svhn_digit, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_npz(...) TP__CALL(input, tp_df_npz, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_tfrecord(...) TP__CALL(input, tp_df_tfrecord, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_csv(...) TP__CALL(input, tp_df_csv, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_text_chars(...) TP__CALL(input, tp_df_text_chars, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_text_words(...) TP__CALL(input, tp_df_text_words, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_image_from_file(...) TP__CALL(input, tp_df_image_from_file, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_image_folder(...) TP__CALL(input, tp_df_image_folder, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_image_list(...) TP__CALL(input, tp_df_image_list, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_lmdb(...) TP__CALL(input, tp_df_lmdb, #__VA_ARGS__, __VA_ARGS__)
#elif __cplusplus >= 202002L
#define tp_df_cifar10(which_, ...) TP__CALL1(input, tp_df_cifar10, which, which_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_cifar100(which_, ...) TP__CALL1(input, tp_df_cifar100, which, which_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_svhn_digit(which_, ...) TP__CALL1(input, tp_df_svhn_digit, which, which_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_npz(path_, ...) TP__CALL1(input, tp_df_npz, path, path_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_tfrecord(paths_, n_, ...) TP__CALL2(input, tp_df_tfrecord, paths, paths_, n, n_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_csv(path_, ...) TP__CALL1(input, tp_df_csv, path, path_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_text_chars(path_, ...) TP__CALL1(input, tp_df_text_chars, path, path_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_text_words(path_, ...) TP__CALL1(input, tp_df_text_words, path, path_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_image_from_file(files_, n_, ...) TP__CALL2(input, tp_df_image_from_file, files, files_, n, n_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_image_folder(dir_, ...) TP__CALL1(input, tp_df_image_folder, dir, dir_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_image_list(list_, ...) TP__CALL1(input, tp_df_image_list, list, list_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_lmdb(path_, ...) TP__CALL1(input, tp_df_lmdb, path, path_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#endif
/* clang-format on */

/* ==== >>augmentors ===================================================================================== */
/* Image augmentations, mostly random, like those of tensorpack's imgaug. [dataflow: imgaug]
 *
 *     tp_augmentor *aug = tp_aug_list(TP_AUGS(tp_aug_pad(.pad = 4), tp_aug_random_crop(32, 32), tp_aug_flip(.horiz = TP_YES),
 *                                             tp_aug_brightness(.delta = 63), tp_aug_contrast(.factor_range = {0.2f, 1.8f})));
 *     df = tp_df_augment_image(df, aug);
 *
 * An augmentor is made by a constructor and owned by the list or the flow that takes it. It has no state between images.
 * tp_aug_draw makes a tp_transform from it: the steps for one image, with all random numbers drawn. A transform can be applied to
 * the image, to a second image, to a mask, to points and to boxes, as often as you like, always with the same numbers.
 *
 * IMAGES   uint8 or float32 tensors (H,W) or (H,W,C) in host memory, RGB. float32 images have values in [0,255] or [0,1], but
 *          Gamma, JpegNoise, SaltPepperNoise, ToUint8, and Brightness and Lighting by more than 1 mean [0,255]: a warning tells where
 *          no value is above 1. Where an option `clip` is on, values are limited to [0,255]. Brightness, BrightnessScale, Contrast, Saturation,
 *          Lighting, GaussianNoise, Gamma and ToUint8 drop the fraction when they write uint8, as numpy's astype does; the others
 *          round to the nearest. Colour augmentors need C = 3.
 * RANDOM   random number j of the augmentor at place p is tp_random_uniform(tp_random_key(key, p), index, j), or tp_random_u32 or
 *          tp_random_normal with the same arguments. The places of a tree of augmentors are counted depth first from 0, so the list
 *          itself is 0 and its first augmentor is 1. A flow takes `key` from its seed and the pass; index is the datapoint's number
 *          in the pass. uniform(a,b) below is a + (b-a)*u; randint(a,b), b not included, is a + (u32*(b-a) >> 32).
 * POINTS   are (x, y) in a plane in which pixel (i,j) covers [j,j+1) x [i,i+1); its centre is (j+0.5, i+0.5). Points and
 *          boxes that leave the image are kept as they are.
 * SIZES    heights and widths are at most 2^24.
 * NOT LIKE TENSORPACK   NEAREST takes the input pixel that contains the mapped centre (OpenCV's INTER_NEAREST_EXACT), or
 *          the right or lower one if that is on the border of two; points are rotated about the same centre as the image (tensorpack is
 *          off by half a pixel there); Hue on uint8 does not round hue and saturation to bytes in between; warping uses
 *          exact weights (OpenCV's are multiples of 1/32). Left out: GaussianDeform, and the wrappers of other Python
 *          libraries (IAAugmentor, Albumentations). */
typedef struct tp_augmentor tp_augmentor;
/* The status of an augmentor: TP_OK, or the error of a constructor with wrong arguments, with its sentence. NULL: out of memory. */
TP_DEF tp_status tp_aug_status(const tp_augmentor *a);
/* also frees what the augmentor owns; aug may be NULL. Do not call it if a list or a flow owns aug */
TP_DEF void tp_aug_free(tp_augmentor *a);

typedef struct tp__aug_taps { /* a struct that is private to the library */
    int64_t in, out;
    int kind, taps;
    double size;
    tp_tensor start, weight;
} tp__aug_taps;
/* The steps for one image. Zero-initialise it, reuse it for the next image, free it in the end: its buffers are kept, so that
 * nothing is allocated after the largest image was processed. Its steps point into the augmentor, which must outlive them. For one
 * thread at a time; several transforms may be drawn from one augmentor at once. */
typedef struct tp_transform {
    int n;                      /* number of steps of the transform */
    int64_t h, w;               /* size of the image for which the transform was drawn */
    int64_t out_h, out_w;       /* size of the result image */
    struct tp__aug_step *step_; /* the fields from here on are private */
    int cap_;
    tp_tensor image_[2], work_, row_[2];
    tp__aug_taps taps_[2];
} tp_transform;
/* Draw the steps for image number `index`, of h rows and w columns. TP_ERR_SHAPE: for example, the image is too small for a
 * crop. */
TP_DEF tp_status tp_aug_draw(const tp_augmentor *a, int64_t h, int64_t w, uint64_t key, int64_t index, tp_transform *t);
/* Apply all steps to an image of the size given to tp_aug_draw; out owns the result. out may be the image itself. Noise depends on
 * the element's position alone, so a second image of the same shape gets the same noise. */
TP_DEF tp_status tp_aug_apply_image(tp_transform *t, const tp_tensor *image, tp_tensor *out);
/* Apply only the steps that move pixels to a mask: (H,W) or (H,W,C) of any dtype. Pixels are moved, never interpolated (nearest).
 * Borders and backgrounds are filled with `fill`. */
TP_DEF tp_status tp_aug_apply_mask(tp_transform *t, const tp_tensor *mask, double fill, tp_tensor *out);
/* Apply the steps to points or boxes. Points: float32 (N,2). Boxes: float32 (N,4) as x0, y0, x1, y1; the result is the
 * smallest upright box around the four transformed corners. out may be the input tensor. */
TP_DEF tp_status tp_aug_apply_coords(const tp_transform *t, const tp_tensor *points, tp_tensor *out);
TP_DEF tp_status tp_aug_apply_boxes(const tp_transform *t, const tp_tensor *boxes, tp_tensor *out);
/* Describe the steps: "Crop(y0=3, x0=4, h=32, w=32), Flip(horiz=1)" into the caller's buffer, truncated if it is full;
 * returns buf. */
TP_DEF const char *tp_transform_text(const tp_transform *t, char *buf, size_t size);
TP_DEF void tp_transform_free(tp_transform *t); /* t may be NULL */

/* -- lists and choices. They own the augmentors that they are given, also when they fail. TP_AUGS(a, b, ...) gives a list and its
 * length, for tp_aug_list, tp_aug_random_choose and tp_aug_random_order. */

/* applies all augmentors in order [imgaug: AugmentorList] */
TP_DEF tp_augmentor *tp_aug_list(tp_augmentor *const *augs, int n);
TP_DEF tp_augmentor *tp_aug_identity(void); /* leaves the image unchanged [imgaug: Identity] */
/* Applies aug with probability prob: when a random number in [0,1) is below prob. [imgaug: RandomApplyAug] */
TP_DEF tp_augmentor *tp_aug_random_apply(tp_augmentor *aug, double prob);
/* Applies one augmentor: the first augs[k] for which random number 0, in [0,1), is below prob[0] + ... + prob[k]. prob is
 * copied; its sum is 1. NULL: all equal. [imgaug: RandomChooseAug] */
TP_DEF tp_augmentor *tp_aug_random_choose(tp_augmentor *const *augs, int n, const double *prob);
/* Applies all augmentors in a random order: tp_random_permutation of tp_random_key(tp_random_key(key, place), index). At most 64
 * augmentors. [imgaug: RandomOrderAug] */
TP_DEF tp_augmentor *tp_aug_random_order(tp_augmentor *const *augs, int n);

/* An augmentor made of your own functions. out begins as a view of in: tp_tensor_resize it and fill it, never write into in.
 * call->key and call->index are those of RANDOM above, and the same each time this transform is applied. [imgaug: MapImage] */
typedef struct tp_aug_call {
    void *user;
    uint64_t key;
    int64_t index;
} tp_aug_call;
typedef tp_status (*tp_aug_image_fn)(const tp_tensor *in, tp_tensor *out, const tp_aug_call *call);
typedef void (*tp_aug_point_fn)(float *x, float *y, const tp_aug_call *call);
typedef void (*tp_aug_size_fn)(int64_t *h, int64_t *w, const tp_aug_call *call);
typedef struct tp_aug_map_image_desc {
    tp_at at_;
    tp_aug_image_fn fn;
    tp_aug_image_fn mask_fn;   /* applied to masks; NULL: applying the augmentor to a mask is an error */
    tp_aug_point_fn coords_fn; /* maps one point; NULL: applying it to points is an error */
    tp_aug_size_fn size_fn;    /* computes the size of the result from that of the image; NULL: it does not change */
    void *user;
    void (*release)(void *user); /* called once, when the augmentor is freed, also after a mistake */
} tp_aug_map_image_desc;
TP_DEF tp_augmentor *tp_aug_map_image_(const tp_aug_map_image_desc *d);

/* -- sizes */

/* How a resize computes the value of an output pixel. Its centre is mapped to the position (x+0.5)*in/out of the input; x and y
 * are interpolated one after the other, in the same way. A pixel at distance d from the position has the weight given below; the
 * weights are divided by their sum. Without `antialias` the kernel has its natural width at any scale, and beyond the edge the
 * last pixel is repeated, as in OpenCV:
 *     NEAREST  the input pixel that contains the mapped centre
 *     LINEAR   the 2 nearest, 1-|d|
 *     CUBIC    the 4 nearest, Keys' cubic with a = -0.75
 *     LANCZOS  the 8 nearest, sinc(d)*sinc(d/4)
 *     AREA     the mean over the part of the input that the output pixel covers
 * With antialias the kernel widens by the factor by which the image shrinks, and pixels beyond the edge are left out, as in PIL:
 * a = -0.5 for CUBIC, sinc(d)*sinc(d/3) for LANCZOS. antialias does not change AREA and NEAREST. Warping (shift, rotation,
 * affine) supports NEAREST, LINEAR and CUBIC (a = -0.75). */
typedef enum tp_inter {
    TP_INTER_DEFAULT = 0, /* the default, LINEAR */
    TP_INTER_NEAREST,
    TP_INTER_LINEAR,
    TP_INTER_CUBIC,
    TP_INTER_AREA,
    TP_INTER_LANCZOS
} tp_inter;
/* How a row abcd is extended beyond its edges: CONSTANT border_value, REPLICATE aaa|abcd|ddd, REFLECT cba|abcd|dcb, REFLECT_101
 * dcb|abcd|cba, WRAP bcd|abcd|abc. */
typedef enum tp_edge {
    TP_EDGE_DEFAULT = 0, /* the default: see each constructor */
    TP_EDGE_CONSTANT,
    TP_EDGE_REPLICATE,
    TP_EDGE_REFLECT,
    TP_EDGE_REFLECT_101,
    TP_EDGE_WRAP
} tp_edge;

/* Resizes to h by w. [imgaug: Resize] */
typedef struct tp_aug_resize_desc {
    tp_at at_;
    int h, w;         /* height and width; w = 0 means h */
    int interp;       /* interpolation; tp_inter; default LINEAR */
    tp_tri antialias; /* whether to smooth when shrinking; default TP_NO */
} tp_aug_resize_desc;
TP_DEF tp_augmentor *tp_aug_resize_(const tp_aug_resize_desc *d);
/* Resizes so that the shortest edge is `size`; the other edge keeps the proportion (rounded). [imgaug: ResizeShortestEdge] */
typedef struct tp_aug_resize_shortest_edge_desc {
    tp_at at_;
    int size;
    int interp;       /* interpolation; tp_inter; default LINEAR */
    tp_tri antialias; /* whether to smooth when shrinking; default TP_NO */
} tp_aug_resize_shortest_edge_desc;
TP_DEF tp_augmentor *tp_aug_resize_shortest_edge_(const tp_aug_resize_shortest_edge_desc *d);
/* Resizes the width by uniform(xrange), then the height by uniform(yrange), drawn in this order, rounded; with `pixels` the
 * ranges are sizes in pixels. Both factors are drawn again, up to 50 times, while the aspect ratio changes by more than the
 * threshold; after that the size is not changed. [imgaug: RandomResize] */
typedef struct tp_aug_random_resize_desc {
    tp_at at_;
    float xrange[2], yrange[2]; /* xrange is used for both if yrange is not given */
    tp_tri pixels;              /* whether the range is in pixels; default TP_NO */
    int minimum[2];             /* least width and height in pixels */
    /* largest relative change of the aspect ratio; default 0.15; TP_ZERO: the aspect ratio is kept, only xrange is drawn */
    float aspect_ratio_thres;
    int interp;       /* interpolation; tp_inter; default LINEAR */
    tp_tri antialias; /* whether to smooth when shrinking; default TP_NO */
} tp_aug_random_resize_desc;
TP_DEF tp_augmentor *tp_aug_random_resize_(const tp_aug_random_resize_desc *d);

/* -- crops, borders, backgrounds */

/* Cuts out a part of h by w at y0 = randint(0, H-h+1), then x0 = randint(0, W-w+1); a part larger than the image is
 * TP_ERR_SHAPE. [imgaug: RandomCrop] */
TP_DEF tp_augmentor *tp_aug_random_crop(int h, int w);
/* cuts out the middle, from ((H-h)/2, (W-w)/2), rounded down [imgaug: CenterCrop] */
TP_DEF tp_augmentor *tp_aug_center_crop(int h, int w);
/* Cuts out a part of random size: h = randint(hmin, hmax+1), w = randint(wmin, wmax+1), then y0 = randint(0, H-h) (0 if
 * H = h) and x0 in the same way. [imgaug: RandomCropRandomShape] */
typedef struct tp_aug_random_crop_random_shape_desc {
    tp_at at_;
    int wmin, hmin;
    int wmax, hmax; /* largest height and width; default: the size of the image */
} tp_aug_random_crop_random_shape_desc;
TP_DEF tp_augmentor *tp_aug_random_crop_random_shape_(const tp_aug_random_crop_random_shape_desc *d);
/* Cuts out a part of random area and aspect ratio and resizes it: ImageNet's usual augmentation. Up to 10 times it
 * draws the area, the aspect ratio, and a number that exchanges the sides if it is < 0.5; if the part fits, x0 and y0.
 * If none fits, the shortest edge is resized and the middle is cropped. [imgaug: GoogleNetRandomCropAndResize] */
typedef struct tp_aug_google_net_random_crop_and_resize_desc {
    tp_at at_;
    float crop_area_fraction[2]; /* range of the cropped part of the area; default 0.08 to 1 */
    float aspect_ratio_range[2]; /* range of the aspect ratio; default 0.75 to 1.333 */
    int target_shape;            /* height and width of the result; default 224 */
    int interp;                  /* interpolation; tp_inter; default LINEAR */
    tp_tri antialias;            /* whether to smooth when shrinking; default TP_NO */
} tp_aug_google_net_random_crop_and_resize_desc;
TP_DEF tp_augmentor *tp_aug_google_net_random_crop_and_resize_(const tp_aug_google_net_random_crop_and_resize_desc *d);
/* Fills a rectangle. Its sides are randint(range[0], range[1]), or range[0] if range[1] is 0; h, w, x0, y0 are drawn in this order.
 * Masks and points do not change. [imgaug: RandomCutout] */
typedef struct tp_aug_random_cutout_desc {
    tp_at at_;
    int h_range[2], w_range[2];
    float fill;
} tp_aug_random_cutout_desc;
TP_DEF tp_augmentor *tp_aug_random_cutout_(const tp_aug_random_cutout_desc *d);
/* Adds a border of `pad` pixels on each side, plus the widths given for single sides. */
typedef struct tp_aug_pad_desc {
    tp_at at_;
    int pad;
    int top, bottom, left, right;
    int border; /* what is outside of the image; tp_edge; default CONSTANT */
    float border_value;
} tp_aug_pad_desc;
TP_DEF tp_augmentor *tp_aug_pad_(const tp_aug_pad_desc *d);
/* Pastes the image at the middle, or at a random position, of a background of h by w (background_shape) filled with `fill`
 * (ConstantBackgroundFiller). RandomPaste: y0 = uniform(0, h-H) without fraction, then x0. [imgaug: CenterPaste, RandomPaste] */
typedef struct tp_aug_paste_desc {
    tp_at at_;
    int h, w; /* height and width of the background; w = 0 means h */
    float fill;
} tp_aug_paste_desc;
typedef tp_aug_paste_desc tp_aug_center_paste_desc;
typedef tp_aug_paste_desc tp_aug_random_paste_desc;
TP_DEF tp_augmentor *tp_aug_center_paste_(const tp_aug_paste_desc *d);
TP_DEF tp_augmentor *tp_aug_random_paste_(const tp_aug_paste_desc *d);

/* -- geometry */

/* Mirrors the image with probability prob: horiz exchanges left and right, vert top and bottom; set one of them. [imgaug: Flip] */
typedef struct tp_aug_flip_desc {
    tp_at at_;
    tp_tri horiz, vert; /* which sides are exchanged; default TP_NO */
    float prob;         /* probability of the change; default 0.5; TP_ZERO: never */
} tp_aug_flip_desc;
TP_DEF tp_augmentor *tp_aug_flip_(const tp_aug_flip_desc *d);
/* Exchanges rows and columns with probability prob. [imgaug: Transpose] */
typedef struct tp_aug_transpose_desc {
    tp_at at_;
    float prob; /* probability of the change; default 0.5; TP_ZERO: never */
} tp_aug_transpose_desc;
TP_DEF tp_augmentor *tp_aug_transpose_(const tp_aug_transpose_desc *d);
/* Shifts by round(uniform(-f*W, f*W)) pixels to the right, then by round(uniform(-f*H, f*H)) down; a half is rounded to the even
 * number. [imgaug: Shift] */
typedef struct tp_aug_shift_desc {
    tp_at at_;
    float horiz_frac, vert_frac; /* fractions of W and H, below 1 */
    int border;                  /* what is outside of the image; tp_edge; default REPLICATE */
    float border_value;
} tp_aug_shift_desc;
TP_DEF tp_augmentor *tp_aug_shift_(const tp_aug_shift_desc *d);
/* Rotates counter-clockwise by uniform(-max_deg, max_deg) degrees about the point (W,H)*uniform(center_range); x and y of the
 * centre are drawn first. With step_deg, which must divide 180 and needs max_deg 180, the angle is rounded down to a multiple of
 * step_deg. [imgaug: Rotation] */
typedef struct tp_aug_rotation_desc {
    tp_at at_;
    float max_deg;         /* the largest angle, above 0; required */
    float center_range[2]; /* range of the centre, as fractions of the size; default 0 to 1 */
    int interp;            /* interpolation; tp_inter; default LINEAR */
    int border;            /* what is outside of the image; tp_edge; default REPLICATE */
    float step_deg;        /* the angle is a multiple of this many degrees; 0: any angle */
    float border_value;
} tp_aug_rotation_desc;
TP_DEF tp_augmentor *tp_aug_rotation_(const tp_aug_rotation_desc *d);
/* Rotates about the middle, then crops to the largest upright rectangle without border: results differ in size.
 * [imgaug: RotationAndCropValid] */
typedef struct tp_aug_rotation_and_crop_valid_desc {
    tp_at at_;
    float max_deg;  /* the largest angle, above 0; required */
    int interp;     /* interpolation; tp_inter; default LINEAR */
    float step_deg; /* the angle is a multiple of this many degrees; 0: any angle */
} tp_aug_rotation_and_crop_valid_desc;
TP_DEF tp_augmentor *tp_aug_rotation_and_crop_valid_(const tp_aug_rotation_and_crop_valid_desc *d);
/* Scales, rotates and shears about the middle, then translates. The numbers are drawn in this order, each only if its option is
 * given: scale, dx and dy (rounded, as fractions of W and H), shear in degrees; the angle is always drawn. [imgaug: Affine] */
typedef struct tp_aug_affine_desc {
    tp_at at_;
    float scale[2];          /* range of the scale; default: no scaling */
    float translate_frac[2]; /* fractions of W and H; default: no translation */
    float rotate_max_deg;
    float shear; /* maximum shear in degrees */
    int interp;  /* interpolation; tp_inter; default LINEAR */
    int border;  /* what is outside of the image; tp_edge; default REPLICATE */
    float border_value;
} tp_aug_affine_desc;
TP_DEF tp_augmentor *tp_aug_affine_(const tp_aug_affine_desc *d);

/* -- colours. Unless stated otherwise each draws one number, uniform over its range. */

/* Adds a number uniform(-delta, delta) to all pixels. [imgaug: Brightness] */
typedef struct tp_aug_brightness_desc {
    tp_at at_;
    float delta;
    tp_tri clip; /* whether values are limited to 0..255; default TP_YES */
} tp_aug_brightness_desc;
TP_DEF tp_augmentor *tp_aug_brightness_(const tp_aug_brightness_desc *d);
typedef struct tp_aug_brightness_scale_desc { /* Multiplies all pixels by a random factor. */
    tp_at at_;
    float range[2];
    tp_tri clip; /* whether values are limited to 0..255; default TP_YES */
} tp_aug_brightness_scale_desc;
/* Multiplies all pixels by a random factor. [imgaug: BrightnessScale] */
TP_DEF tp_augmentor *tp_aug_brightness_scale_(const tp_aug_brightness_scale_desc *d);
/* Changes the contrast: (x - mean)*r + mean. Without `rgb` each channel has its own mean; with `rgb` (TP_YES: RGB, TP_NO: BGR)
 * the mean is that of the grey image. [imgaug: Contrast] */
typedef struct tp_aug_contrast_desc {
    tp_at at_;
    float factor_range[2];
    tp_tri rgb;  /* the order of colours; default: each channel has its own mean */
    tp_tri clip; /* whether values are limited to 0..255; default TP_YES */
} tp_aug_contrast_desc;
TP_DEF tp_augmentor *tp_aug_contrast_(const tp_aug_contrast_desc *d);
/* Changes the saturation: x*v + grey*(1-v) with v = 1 + uniform(-alpha, alpha). [imgaug: Saturation] */
typedef struct tp_aug_saturation_desc {
    tp_at at_;
    float alpha; /* largest change of the saturation; default 0.4; TP_ZERO: no change */
    tp_tri rgb;  /* order of the colours: RGB (TP_YES) or BGR; default TP_YES */
    tp_tri clip; /* whether values are limited to 0..255; default TP_YES */
} tp_aug_saturation_desc;
TP_DEF tp_augmentor *tp_aug_saturation_(const tp_aug_saturation_desc *d);
/* Turns the hue by twice the number of degrees drawn from range. [imgaug: Hue] */
typedef struct tp_aug_hue_desc {
    tp_at at_;
    float range[2]; /* range of the degrees; default 0 to 180 */
    tp_tri rgb;     /* order of the colours: RGB (TP_YES) or BGR; default TP_YES */
} tp_aug_hue_desc;
TP_DEF tp_augmentor *tp_aug_hue_(const tp_aug_hue_desc *d);
/* Gamma correction: 255 * (x/255)^(1/(1+g)) for integer x in 0..255; the fraction of float32 pixels is dropped.
 * [imgaug: Gamma] */
typedef struct tp_aug_gamma_desc {
    tp_at at_;
    float range[2]; /* range of g; default -0.5 to 0.5; must be above -1 */
} tp_aug_gamma_desc;
TP_DEF tp_augmentor *tp_aug_gamma_(const tp_aug_gamma_desc *d);
typedef struct tp_aug_clip_desc { /* Limits pixel values to [min, max]. */
    tp_at at_;
    float min;
    float max; /* largest value of the result; default 255; write TP_ZERO for 0 */
} tp_aug_clip_desc;
TP_DEF tp_augmentor *tp_aug_clip_(const tp_aug_clip_desc *d); /* Limits pixel values to [min, max]. [imgaug: Clip] */
/* Adds the eigenvectors of colour times their eigenvalues times 3 normal numbers with standard deviation std: AlexNet's noise.
 * [imgaug: Lighting] */
typedef struct tp_aug_lighting_desc {
    tp_at at_;
    float std;
    float eigval[3]; /* eigenvalues; default: ImageNet's, for RGB in 0..255 */
    float eigvec[9]; /* (3,3), each column an eigenvector; default: ImageNet's */
    tp_tri clip;     /* whether values are limited to 0..255; default TP_YES */
} tp_aug_lighting_desc;
TP_DEF tp_augmentor *tp_aug_lighting_(const tp_aug_lighting_desc *d);
/* Normalises: (x - mean) / max(standard deviation, 1/sqrt(H*W*C)), float32. [imgaug: MeanVarianceNormalize] */
typedef struct tp_aug_mean_variance_normalize_desc {
    tp_at at_;
    tp_tri all_channel; /* TP_NO: each channel separately; default TP_YES */
} tp_aug_mean_variance_normalize_desc;
TP_DEF tp_augmentor *tp_aug_mean_variance_normalize_(const tp_aug_mean_variance_normalize_desc *d);
/* Maps the smallest value to min and the largest to max, float32; an image whose values are all equal becomes min.
 * [imgaug: MinMaxNormalize] */
typedef struct tp_aug_min_max_normalize_desc {
    tp_at at_;
    float min;
    float max;          /* largest value of the result; default 255; write TP_ZERO for 0 */
    tp_tri all_channel; /* TP_NO: each channel separately; default TP_YES */
} tp_aug_min_max_normalize_desc;
TP_DEF tp_augmentor *tp_aug_min_max_normalize_(const tp_aug_min_max_normalize_desc *d);
/* Converts to grey: 0.299 R + 0.587 G + 0.114 B. Give .rgb = TP_YES for images that this library has read, which are RGB.
 * [imgaug: Grayscale] */
typedef struct tp_aug_grayscale_desc {
    tp_at at_;
    tp_tri keepdims;  /* whether the result is (H,W,1) or (H,W); default TP_YES */
    tp_tri rgb;       /* order of the colours: RGB (TP_YES) or BGR; default TP_NO: the image is BGR, as in tensorpack */
    tp_tri keepshape; /* TP_YES: the result has three equal channels; default TP_NO */
} tp_aug_grayscale_desc;
TP_DEF tp_augmentor *tp_aug_grayscale_(const tp_aug_grayscale_desc *d);
/* Converts colours as OpenCV's cvtColor. HSV of uint8: H in half degrees below 180, S and V in 0..255; of float32: H in
 * degrees, S in 0..1, V in the range of the image. */
typedef enum tp_color {
    TP_COLOR_RGB2GRAY = 1,
    TP_COLOR_BGR2GRAY,
    TP_COLOR_GRAY2RGB,
    TP_COLOR_RGB2BGR,
    TP_COLOR_RGB2HSV,
    TP_COLOR_BGR2HSV,
    TP_COLOR_HSV2RGB,
    TP_COLOR_HSV2BGR
} tp_color;
typedef struct tp_aug_color_space_desc {
    tp_at at_;
    int mode;        /* the conversion, a tp_color */
    tp_tri keepdims; /* whether a grey result is (H,W,1), not (H,W); default TP_YES */
} tp_aug_color_space_desc;
TP_DEF tp_augmentor *tp_aug_color_space_(const tp_aug_color_space_desc *d); /* Converts colours. [imgaug: ColorSpace] */
TP_DEF tp_augmentor *tp_aug_to_uint8(void);   /* limits pixels to 0..255 and drops the fraction [imgaug: ToUint8] */
TP_DEF tp_augmentor *tp_aug_to_float32(void); /* casts to float32 [imgaug: ToFloat32, MapToFloat] */

/* -- blur and noise */

/* Blurs with a Gaussian kernel of 2*randint(size_range)+1 pixels; the edge is repeated. Drawn in this order: size in x,
 * in y, then sigma in x, in y. sigma 0 means 0.3*((n-1)/2-1)+0.8 for n pixels, and for up to 7 pixels OpenCV's small
 * kernels (1 2 1)/4, (1 4 6 4 1)/16, (1 3.5 7 9 7 3.5 1)/32. [imgaug: GaussianBlur] */
typedef struct tp_aug_gaussian_blur_desc {
    tp_at at_;
    int size_range[2];    /* range of half the kernel size; default 0 to 3 */
    float sigma_range[2]; /* range of sigma; default 0 to 0 */
    tp_tri symmetric;     /* y uses the numbers drawn for x; default TP_YES */
} tp_aug_gaussian_blur_desc;
TP_DEF tp_augmentor *tp_aug_gaussian_blur_(const tp_aug_gaussian_blur_desc *d);
/* Makes the changes that writing and reading a JPEG of quality randint(range) makes to the pixels: the standard tables
 * scaled as by libjpeg, colour at half resolution (4:2:0) unless subsample is TP_NO (4:4:4), smooth upsampling. Values
 * are limited to 0..255. C is 1 or 3. [imgaug: JpegNoise] */
typedef struct tp_aug_jpeg_noise_desc {
    tp_at at_;
    int quality_range[2]; /* JPEG qualities, from 1 to 100, without the range's end; default 40 to 100 */
    tp_tri subsample;     /* whether colour has half the resolution; default TP_YES */
} tp_aug_jpeg_noise_desc;
TP_DEF tp_augmentor *tp_aug_jpeg_noise_(const tp_aug_jpeg_noise_desc *d);
/* Adds sigma times a random normal number to each element. [imgaug: GaussianNoise] */
typedef struct tp_aug_gaussian_noise_desc {
    tp_at at_;
    float sigma; /* standard deviation of the noise; default 1; TP_ZERO: no noise */
    tp_tri clip; /* whether values are limited to 0..255; default TP_YES */
} tp_aug_gaussian_noise_desc;
TP_DEF tp_augmentor *tp_aug_gaussian_noise_(const tp_aug_gaussian_noise_desc *d);
/* An element becomes 0 if its random number is below black_prob, and 255 if it is above 1 - white_prob. [imgaug:
 * SaltPepperNoise] */
typedef struct tp_aug_salt_pepper_noise_desc {
    tp_at at_;
    float white_prob; /* probability of white; default 0.05; TP_ZERO: no white */
    float black_prob; /* probability of black; default 0.05; TP_ZERO: no black */
} tp_aug_salt_pepper_noise_desc;
TP_DEF tp_augmentor *tp_aug_salt_pepper_noise_(const tp_aug_salt_pepper_noise_desc *d);

/* -- flows. They own the augmentor and the flow below. Images of the flow below are not modified. An error names the datapoint;
 * with catch_exceptions the datapoint is dropped instead, and the log gives the reason for the first 9 and then for each 100th.
 * With num_thread they read ahead on that many threads, as tp_df_parallel_map does, each thread with memory of its own. The
 * datapoints are the same for any number of threads; with 0 threads the caller does the work. Functions given to tp_aug_map_image
 * are then called by several threads at once. */

/* Augments one component, an image. [dataflow: AugmentImageComponent] */
typedef struct tp_df_augment_image_desc {
    tp_at at_;
    tp_dataflow *df;
    tp_augmentor *augmentors; /* one augmentor, or a list */
    int index;                /* the component that holds the image */
    tp_tri catch_exceptions;  /* whether a datapoint with an error is dropped; default TP_NO */
    int num_thread;           /* number of threads; 0: the caller of tp_df_next does the work */
    int buffer_size; /* with num_thread: maximum number of datapoints that are processed or wait; default 200 */
    uint64_t seed;
} tp_df_augment_image_desc;
TP_DEF tp_dataflow *tp_df_augment_image_(const tp_df_augment_image_desc *d);
/* Augments an image and float32 points (N,2). [dataflow: AugmentImageCoordinates] */
typedef struct tp_df_augment_coordinates_desc {
    tp_at at_;
    tp_dataflow *df;
    tp_augmentor *augmentors;
    int img_index;
    int coords_index;        /* component of the points; default 1; TP_NONE: component 0 */
    tp_tri catch_exceptions; /* whether a datapoint with an error is dropped; default TP_NO */
    int num_thread;          /* number of threads; 0: the caller of tp_df_next does the work */
    int buffer_size;         /* with num_thread: maximum number of datapoints that are processed or wait; default 200 */
    uint64_t seed;
} tp_df_augment_coordinates_desc;
TP_DEF tp_dataflow *tp_df_augment_coordinates_(const tp_df_augment_coordinates_desc *d);
/* Augments several images, masks, points and boxes with the same random numbers, drawn for the first image.
 * [dataflow: AugmentImageComponents] */
typedef struct tp_df_augment_images_desc {
    tp_at at_;
    tp_dataflow *df;
    tp_augmentor *augmentors;
    int index[8], n_index;               /* numbers of the components with images; n_index 0: components 0 and 1 */
    int mask_index[8], n_mask_index;     /* numbers of the components with masks: see tp_aug_apply_mask */
    int coords_index[8], n_coords_index; /* numbers of the components with points */
    int box_index[8], n_box_index;       /* numbers of the components with boxes */
    float mask_fill;
    tp_tri catch_exceptions; /* whether a datapoint with an error is dropped; default TP_NO */
    int num_thread;          /* number of threads; 0: the caller of tp_df_next does the work */
    int buffer_size;         /* with num_thread: maximum number of datapoints that are processed or wait; default 200 */
    uint64_t seed;
} tp_df_augment_images_desc;
TP_DEF tp_dataflow *tp_df_augment_images_(const tp_df_augment_images_desc *d);
/* Image files are read, decoded and augmented, all on the same thread: component `index`, a path, becomes the image.
 *     df = tp_df_image_folder("train", .decode = TP_NO);
 *     df = tp_df_batch(tp_df_load_image(df, aug, .num_thread = 4), 128);
 * With the same seed the results are those of tp_df_augment_image on the decoded images, if no image is left out. tp_aug_identity()
 * leaves images unchanged.
 * */
typedef struct tp_df_load_image_desc {
    tp_at at_;
    tp_dataflow *df;
    tp_augmentor *augmentors; /* one augmentor, or a list */
    int index;                /* number of the component that holds the path; uint8 (length) */
    tp_tri encoded;           /* TP_YES: the component holds the contents of an image file, not a path; default TP_NO */
    int channel;              /* 3: RGB, 1: grey; default 3 */
    int64_t max_pixels;       /* a larger image is an error; default 64 Mi */
    /* for files that cannot be read or decoded. TP_REFUSE (default): the flow fails; TP_SKIP: the image is dropped, with one
     * warning */
    tp_on_error on_error;
    tp_tri
        catch_exceptions; /* whether a datapoint with any error is dropped, such as an image too small for its crop; default TP_NO */
    int num_thread;  /* number of threads; 0: the caller of tp_df_next does the work */
    int buffer_size; /* with num_thread: maximum number of datapoints that are processed or wait; default 200 */
    uint64_t seed;
} tp_df_load_image_desc;
TP_DEF tp_dataflow *tp_df_load_image_(const tp_df_load_image_desc *d);

/* clang-format off */
#ifndef __cplusplus
#define TP_AUGS(...) (tp_augmentor *const[]){__VA_ARGS__}, (int)(sizeof((tp_augmentor *const[]){__VA_ARGS__}) / sizeof(tp_augmentor *))
#define tp_aug_map_image(...) TP__CALL(input, tp_aug_map_image, #__VA_ARGS__, __VA_ARGS__)
#define tp_aug_resize(...) TP__CALL(input, tp_aug_resize, #__VA_ARGS__, __VA_ARGS__)
#define tp_aug_resize_shortest_edge(...) TP__CALL(input, tp_aug_resize_shortest_edge, #__VA_ARGS__, __VA_ARGS__)
#define tp_aug_random_resize(...) TP__CALL(input, tp_aug_random_resize, #__VA_ARGS__, __VA_ARGS__)
#define tp_aug_random_crop_random_shape(...) TP__CALL(input, tp_aug_random_crop_random_shape, #__VA_ARGS__, __VA_ARGS__)
#define tp_aug_google_net_random_crop_and_resize(...) TP__CALL(input, tp_aug_google_net_random_crop_and_resize, #__VA_ARGS__, __VA_ARGS__)
#define tp_aug_random_cutout(...) TP__CALL(input, tp_aug_random_cutout, #__VA_ARGS__, __VA_ARGS__)
#define tp_aug_pad(...) TP__CALL(input, tp_aug_pad, #__VA_ARGS__, __VA_ARGS__)
#define tp_aug_center_paste(...) TP__CALL(input, tp_aug_center_paste, #__VA_ARGS__, __VA_ARGS__)
#define tp_aug_random_paste(...) TP__CALL(input, tp_aug_random_paste, #__VA_ARGS__, __VA_ARGS__)
#define tp_aug_flip(...) TP__CALL(input, tp_aug_flip, #__VA_ARGS__, __VA_ARGS__)
#define tp_aug_transpose(...) TP__CALL(input, tp_aug_transpose, #__VA_ARGS__, __VA_ARGS__)
#define tp_aug_shift(...) TP__CALL(input, tp_aug_shift, #__VA_ARGS__, __VA_ARGS__)
#define tp_aug_rotation(...) TP__CALL(input, tp_aug_rotation, #__VA_ARGS__, __VA_ARGS__)
#define tp_aug_rotation_and_crop_valid(...) TP__CALL(input, tp_aug_rotation_and_crop_valid, #__VA_ARGS__, __VA_ARGS__)
#define tp_aug_affine(...) TP__CALL(input, tp_aug_affine, #__VA_ARGS__, __VA_ARGS__)
#define tp_aug_brightness(...) TP__CALL(input, tp_aug_brightness, #__VA_ARGS__, __VA_ARGS__)
#define tp_aug_brightness_scale(...) TP__CALL(input, tp_aug_brightness_scale, #__VA_ARGS__, __VA_ARGS__)
#define tp_aug_contrast(...) TP__CALL(input, tp_aug_contrast, #__VA_ARGS__, __VA_ARGS__)
#define tp_aug_saturation(...) TP__CALL(input, tp_aug_saturation, #__VA_ARGS__, __VA_ARGS__)
#define tp_aug_hue(...) TP__CALL(input, tp_aug_hue, #__VA_ARGS__, __VA_ARGS__)
#define tp_aug_gamma(...) TP__CALL(input, tp_aug_gamma, #__VA_ARGS__, __VA_ARGS__)
#define tp_aug_clip(...) TP__CALL(input, tp_aug_clip, #__VA_ARGS__, __VA_ARGS__)
#define tp_aug_lighting(...) TP__CALL(input, tp_aug_lighting, #__VA_ARGS__, __VA_ARGS__)
#define tp_aug_mean_variance_normalize(...) TP__CALL(input, tp_aug_mean_variance_normalize, #__VA_ARGS__, __VA_ARGS__)
#define tp_aug_min_max_normalize(...) TP__CALL(input, tp_aug_min_max_normalize, #__VA_ARGS__, __VA_ARGS__)
#define tp_aug_grayscale(...) TP__CALL(input, tp_aug_grayscale, #__VA_ARGS__, __VA_ARGS__)
#define tp_aug_color_space(...) TP__CALL(input, tp_aug_color_space, #__VA_ARGS__, __VA_ARGS__)
#define tp_aug_gaussian_blur(...) TP__CALL(input, tp_aug_gaussian_blur, #__VA_ARGS__, __VA_ARGS__)
#define tp_aug_jpeg_noise(...) TP__CALL(input, tp_aug_jpeg_noise, #__VA_ARGS__, __VA_ARGS__)
#define tp_aug_gaussian_noise(...) TP__CALL(input, tp_aug_gaussian_noise, #__VA_ARGS__, __VA_ARGS__)
#define tp_aug_salt_pepper_noise(...) TP__CALL(input, tp_aug_salt_pepper_noise, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_augment_image(...) TP__CALL(input, tp_df_augment_image, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_augment_coordinates(...) TP__CALL(input, tp_df_augment_coordinates, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_augment_images(...) TP__CALL(input, tp_df_augment_images, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_load_image(...) TP__CALL(input, tp_df_load_image, #__VA_ARGS__, __VA_ARGS__)
#elif __cplusplus >= 202002L
#define TP_AUGS(...) TP__LIST(tp_augmentor *, __VA_ARGS__)
#define tp_aug_map_image(...) TP__CALL(input, tp_aug_map_image, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_aug_resize(...) TP__CALL(input, tp_aug_resize, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_aug_resize_shortest_edge(...) TP__CALL(input, tp_aug_resize_shortest_edge, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_aug_random_resize(...) TP__CALL(input, tp_aug_random_resize, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_aug_random_crop_random_shape(...) TP__CALL(input, tp_aug_random_crop_random_shape, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_aug_google_net_random_crop_and_resize(...) TP__CALL(input, tp_aug_google_net_random_crop_and_resize, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_aug_random_cutout(...) TP__CALL(input, tp_aug_random_cutout, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_aug_pad(...) TP__CALL(input, tp_aug_pad, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_aug_center_paste(...) TP__CALL(input, tp_aug_center_paste, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_aug_random_paste(...) TP__CALL(input, tp_aug_random_paste, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_aug_flip(...) TP__CALL(input, tp_aug_flip, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_aug_transpose(...) TP__CALL(input, tp_aug_transpose, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_aug_shift(...) TP__CALL(input, tp_aug_shift, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_aug_rotation(...) TP__CALL(input, tp_aug_rotation, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_aug_rotation_and_crop_valid(...) TP__CALL(input, tp_aug_rotation_and_crop_valid, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_aug_affine(...) TP__CALL(input, tp_aug_affine, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_aug_brightness(...) TP__CALL(input, tp_aug_brightness, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_aug_brightness_scale(...) TP__CALL(input, tp_aug_brightness_scale, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_aug_contrast(...) TP__CALL(input, tp_aug_contrast, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_aug_saturation(...) TP__CALL(input, tp_aug_saturation, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_aug_hue(...) TP__CALL(input, tp_aug_hue, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_aug_gamma(...) TP__CALL(input, tp_aug_gamma, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_aug_clip(...) TP__CALL(input, tp_aug_clip, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_aug_lighting(...) TP__CALL(input, tp_aug_lighting, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_aug_mean_variance_normalize(...) TP__CALL(input, tp_aug_mean_variance_normalize, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_aug_min_max_normalize(...) TP__CALL(input, tp_aug_min_max_normalize, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_aug_grayscale(...) TP__CALL(input, tp_aug_grayscale, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_aug_color_space(...) TP__CALL(input, tp_aug_color_space, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_aug_gaussian_blur(...) TP__CALL(input, tp_aug_gaussian_blur, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_aug_jpeg_noise(...) TP__CALL(input, tp_aug_jpeg_noise, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_aug_gaussian_noise(...) TP__CALL(input, tp_aug_gaussian_noise, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_aug_salt_pepper_noise(...) TP__CALL(input, tp_aug_salt_pepper_noise, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_augment_image(df_, augmentors_, ...) TP__CALL2(input, tp_df_augment_image, df, df_, augmentors, augmentors_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_augment_coordinates(df_, augmentors_, ...) TP__CALL2(input, tp_df_augment_coordinates, df, df_, augmentors, augmentors_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_augment_images(df_, augmentors_, ...) TP__CALL2(input, tp_df_augment_images, df, df_, augmentors, augmentors_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_load_image(df_, augmentors_, ...) TP__CALL2(input, tp_df_load_image, df, df_, augmentors, augmentors_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#endif
/* clang-format on */

/* ==== >>idx =========================================================================================== */

/* Loads a file in MNIST's IDX format, with or without gzip: uint8, int8, int16, int32, float32, float64; int8 and int16
 * become int32. It is an error if the file does not have exactly the number of bytes that its header implies. */
TP_DEF tp_status tp_idx_load(const char *path, tp_tensor *t);
/* Loads the IDX format from memory; what: name of the file in error sentences. */
TP_DEF tp_status tp_idx_parse(const void *data, size_t size, const char *what, tp_tensor *t);

/* ==== >>input source ================================================================================== */

/* An input source brings datapoints into the runs of a graph. The calls in order: a constructor; tp_input_setup with the input signature, once;
 * tp_input_get_tensors for each tower; tp_input_reset_state before training (or before each round of inference); its hooks in every
 * run; tp_input_free, before the graph is freed. A trainer makes all these calls for the source in its config. Fields are
 * read-only; to write your own source, tp_calloc one and fill the functions and user. [input_source: InputSource]
 *
 * Examples:
 *     source = tp_queue_input(df, .capacity = 100);
 *     source = tp_feed_input(df, .infinite = TP_NO);
 */
typedef struct tp_input_source tp_input_source;
struct tp_input_source {
    const char *name; /* name of the source, such as "QueueInput" */
    void *user;
    /* the source makes new tensors for each tower, so that it serves many towers; FeedInput serves one */
    bool feedfree;
    tp_graph *graph; /* set by tp_input_setup */
    const tp_spec *spec;
    int n_spec;
    bool setup_done;
    int64_t consumed; /* datapoints that finished runs have used, counted over all passes */
    tp_status error;  /* the error of the thread that reads ahead, or TP_OK: see tp_input_failure */
    char error_text[2048];
    tp_owner owner_;
    tp_hook *const *hook; /* the hooks, as returned by hooks(), which is called once */
    int n_hook;
    tp_arena mem_;
    tp_input_source *inner_; /* the wrapped source, set by tp_remap_input_source */
    bool was_reset_;         /* tp_input_reset_state was called */
    tp_status (*setup)(tp_input_source *s);
    tp_status (*get_input_tensors)(tp_input_source *s, tp_node **in);
    /* goes to the start of the data; NULL: a reset does nothing */
    tp_status (*reset_state)(tp_input_source *s);
    /* goes to a datapoint; NULL: resuming is not possible */
    tp_status (*seek)(tp_input_source *s, int64_t consumed);
    int64_t (*size)(tp_input_source *s); /* datapoints per epoch; NULL: unknown */
    /* returns the source's hooks; called once; NULL: no hooks */
    tp_status (*hooks)(tp_input_source *s, tp_hook *const **hook, int *n);
    void (*close)(tp_input_source *s);
};

/* Call tp_input_setup once for each source; the specs are copied. */
TP_DEF tp_status tp_input_setup(tp_input_source *s, tp_graph *g, const tp_spec *specs, int n);
TP_DEF bool tp_input_setup_done(const tp_input_source *s);
/* Sets n_spec nodes for the tower that is being built. */
TP_DEF tp_status tp_input_get_tensors(tp_input_source *s, tp_node **in);
/* Start at the position of the last tp_input_seek, 0 without one. Training resets once, after the before_train of all
 * callbacks, so that a thread that reads ahead sees what these set. Inference resets in each round, so that every round uses the
 * same data. (QueueInput restarts too; tensorpack's continues, so that its rounds differ.) */
TP_DEF tp_status tp_input_reset_state(tp_input_source *s);
/* For resuming: the next datapoint is number `consumed`, counted over all passes. If the source is already running, the seek takes
 * place at once. */
TP_DEF tp_status tp_input_seek(tp_input_source *s, int64_t consumed);
TP_DEF int64_t tp_input_size(tp_input_source *s); /* datapoints per epoch, -1: unknown */
/* The hooks that the source needs in each run, computed once. They are for every rank, not only the chief. They use
 * nothing but before_run, after_run and after_create_session. */
TP_DEF tp_hook *const *tp_input_hooks(tp_input_source *s, int *n);
/* When the thread of a queue fails, the datapoints that it had read are delivered first, then runs fail with its error. This
 * function tells whether runs have reached that point. TP_OK: no failure; else the status, and the sentence if `sentence` is not
 * NULL. */
TP_DEF tp_status tp_input_failure(const tp_input_source *s, const char **sentence);
/* For your own get_input_tensors and setup: opens the name scope called after the source, "QueueInput", the same scope each time;
 * close it with tp_name_scope_pop. May be used in setup and later. [InputSource.cached_name_scope] */
TP_DEF void tp_input_cached_name_scope_push(tp_input_source *s);
TP_DEF void tp_input_free(tp_input_source *s); /* also frees the source's flow; s may be NULL */

/* Makes only placeholders, one for each entry of the signature, with its name, in the root scope; an existing placeholder of the
 * same name, dtype and shape is reused. The program feeds them. [input_source: PlaceholderInput] */
TP_DEF tp_input_source *tp_placeholder_input(void);

/* Feeds placeholders (made as by PlaceholderInput, so that training and inference share them) with the next datapoint before each
 * run, read on the thread that runs. One tower only. An error of the flow fails the run. If a run fails, its datapoint is fed
 * again. [input_source: FeedInput] */
typedef struct tp_feed_input_desc {
    tp_at at_;
    tp_dataflow *df;
    /* TP_NO: after one pass, runs fail with TP_ERR_STATE until reset_state, as with Python's StopIteration; default TP_YES */
    tp_tri infinite;
    /* TP_YES, with .infinite = TP_NO: runs after the last datapoint of the pass end with TP_END, which ends a training
     * successfully. Default TP_NO */
    tp_tri quiet_end;
} tp_feed_input_desc;
TP_DEF tp_input_source *tp_feed_input_(const tp_feed_input_desc *d);

/* A queue of datapoints that the program fills, usable by several threads at once. It is freed when you and all sources that use it
 * have freed it; a thread that then still waits in tp_queue_put or tp_queue_get gets TP_END before. A thread must not begin such a
 * call afterwards: close the queue and join your threads first. With TP_NO_THREADS the calls that would wait return TP_ERR_STATE
 * instead. tp_df_from_queue makes a flow of its datapoints. [QueueInput's queue] */
typedef struct tp_queue tp_queue;
TP_DEF tp_queue *tp_queue_new(int capacity); /* capacity 0 = 50; NULL: out of memory, or invalid capacity */
/* Appends a copy of dp, waiting until there is room; TP_END when the queue is closed. The consumer checks the dtypes and shapes. */
TP_DEF tp_status tp_queue_put(tp_queue *q, const tp_datapoint *dp);
/* Takes the front datapoint, waiting until there is one; TP_END when the queue is closed and empty. */
TP_DEF tp_status tp_queue_get(tp_queue *q, tp_datapoint *dp);
TP_DEF int tp_queue_size(tp_queue *q); /* number of datapoints that wait in the queue */
/* after this call no datapoints can be put in; waiting ones can still be taken */
TP_DEF void tp_queue_close(tp_queue *q);
TP_DEF void tp_queue_free(tp_queue *q); /* q may be NULL */
/* A flow that takes the datapoints of a queue. It ends when the queue is closed and empty, and has one pass. The queue stays
 * allocated until the flow is freed too. Datapoints of a queue cannot be repeated: seeking takes nothing and warns that the data
 * differ from those before. [dataflow: DataFromQueue] */
TP_DEF tp_dataflow *tp_df_from_queue(tp_queue *q);
#define tp_df_from_queue(...) TP__PLACED(tp__df_at, tp_df_from_queue(__VA_ARGS__))

/* A thread reads ahead into a queue; each tower of each run gets the next datapoint; tp_hooked_session_set_datapoints can
 * restrict this to the first towers. The data and their order are those of FeedInput. A run that is cancelled or out of time
 * stops waiting for data. If the flow fails, the datapoints read before are delivered, then runs fail with its error. The moving
 * average (decay 0.5) of the number of waiting datapoints is summarised as QueueInput/queue_size. Built with TP_NO_THREADS the
 * source reads each datapoint when a run needs it, with the same results. [input_source: QueueInput]
 *
 * With .queue the source puts the datapoints of its flow into that queue and takes those of its runs from it. Several sources
 * and tp_queue_put may share the queue: each source takes the front datapoint, whoever put it in. Then the order depends on the
 * threads: such a source has no position, a resume starts its data from the beginning (with a warning), and reset_state starts
 * the reading once and clears nothing. A flow that fails closes the queue for all sources, as in the original; a finite flow
 * (.infinite = TP_NO) closes it at its end if no other flow still fills it. Without threads each source takes the datapoints of
 * the queue first, then those of its own flow. */
typedef struct tp_queue_input_desc {
    tp_at at_;
    tp_dataflow *df;
    int capacity; /* in datapoints; default 50; with .queue the capacity of that queue */
    /* TP_NO: one pass, then runs end with TP_END. A flow of tp_df_from_queue has one pass, which ends when its queue is closed;
     * with TP_YES, the default, the run after it fails. */
    tp_tri infinite;
    tp_queue *queue; /* a queue of yours; NULL: the source makes its own */
} tp_queue_input_desc;
TP_DEF tp_input_source *tp_queue_input_(const tp_queue_input_desc *d);
/* Returns the moving average of the number of datapoints that wait in the queue. */
TP_DEF float tp_queue_input_size_ema(const tp_input_source *s);

/* clang-format off */
#ifndef __cplusplus
#define tp_feed_input(...) TP__CALL(input, tp_feed_input, #__VA_ARGS__, __VA_ARGS__)
#define tp_queue_input(...) TP__CALL(input, tp_queue_input, #__VA_ARGS__, __VA_ARGS__)
#elif __cplusplus >= 202002L
#define tp_feed_input(df_, ...) TP__CALL1(input, tp_feed_input, df, df_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_queue_input(df_, ...) TP__CALL1(input, tp_queue_input, df, df_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#endif
/* clang-format on */

/* ==== >>more input sources ============================================================================= */
/* Examples:
 *     source = tp_batch_queue_input(df, 32);
 *     source = tp_dataset_input(tp_dataflow_to_dataset(tp_df_repeated(df, -1), types, 2));
 *     source = tp_staging_input(tp_queue_input(df));
 *     source = tp_tensor_input(my_tensors, .size = 100);
 *     source = tp_dummy_constant_input(shapes, 2);
 *     source = tp_remap_input_source(tp_queue_input(df), names, 2);
 */

/* A base for a source of your own that needs no feeding by the caller: a feed-free source makes new nodes for each tower that asks
 * for them, so that it serves any number of towers and may be used in a StagingInput. Set the functions of tp_input_source that it
 * supports, at least get_input_tensors. The nodes may be computed, or be placeholders that a hook of yours feeds in before_run
 * (tp_request_feed) from memory that stays valid until after_run; a hook that waits for data uses tp_request_wait. Its reset_state
 * is NULL: a reset does nothing, unless you set one. To keep a position in checkpoints, count `consumed` in after_run and set seek;
 * without seek a resumed training starts its data from the beginning, with a warning. user is `bytes` of zeroed memory, freed with
 * the source. name is borrowed. NULL: out of memory. [input_source: FeedfreeInput] */
TP_DEF tp_input_source *tp_feedfree_input(const char *name, size_t bytes);

/* A QueueInput over single samples: each tower of each run gets the next batch_size samples, stacked on a new first axis,
 * (batch_size, ...). The queue holds `capacity` samples. A batch may continue into the next pass; when the data end, an incomplete
 * last batch is dropped. All dimensions of the signature but the first must be known. Its size is that of the flow / batch_size.
 * `consumed` counts samples. Errors, .infinite and .queue (whose datapoints are samples) as for QueueInput; the moving average is
 * summarised as BatchQueueInput/queue_size. It owns df. [input_source: BatchQueueInput] */
typedef struct tp_batch_queue_input_desc {
    tp_at at_;
    tp_dataflow *df;
    int batch_size;
    int capacity;    /* in samples; default 3000; with .queue the capacity of that queue */
    tp_tri infinite; /* TP_NO: one pass, then runs end with TP_END; default TP_YES */
    tp_queue *queue; /* a queue of yours; NULL: the source makes its own */
} tp_batch_queue_input_desc;
TP_DEF tp_input_source *tp_batch_queue_input_(const tp_batch_queue_input_desc *d);

/* For a QueueInput or BatchQueueInput, also inside other sources: drops the datapoints that wait in its queue and reads them again,
 * from the datapoint that the next run is to use. Call it when the flow's behaviour has changed. The position in checkpoints stays
 * exact. (The original begins a new pass instead.) With .queue: all datapoints in that queue are dropped, and this source's own
 * flow starts from the beginning. Call it between runs, on the thread that runs. [QueueInput.refill_queue] */
TP_DEF tp_status tp_queue_input_refill_queue(tp_input_source *s);

/* Makes a data set: a flow whose datapoints have n components of these dtypes. Each datapoint is checked; an error names the
 * component that differs. The data set is finite if df is; tp_df_repeated(df, -1) is endless. It owns df; types are copied.
 * [TFDatasetInput.dataflow_to_dataset] */
TP_DEF tp_dataflow *tp_dataflow_to_dataset(tp_dataflow *df, const tp_dtype *types, int n);

/* Each tower of each run takes the next datapoint of a flow, read when the run needs it, on the thread that runs. (Let the flow
 * read ahead or map on threads of its own.) The source reads one pass and does not repeat it: at the end of the pass runs end with
 * TP_END, which ends a training or a round of inference successfully. For training use tp_df_repeated(df, -1). reset_state begins
 * the pass again. Dtypes and shapes of datapoints are checked against the signature; the dtypes given to tp_dataflow_to_dataset are
 * already checked at setup. Its size is unknown. If a run fails, its datapoint is fed again. It owns df.
 * [input_source: TFDatasetInput] */
TP_DEF tp_input_source *tp_dataset_input(tp_dataflow *df);

/* A function that makes the tensors, called once for each tower, in the tower's scopes. It sets in[0] to in[n-1], the n inputs of
 * the signature, to nodes whose dtypes equal the signature's and whose shapes are compatible with it. tower: 0, 1, ... */
typedef tp_status (*tp_tensor_input_fn)(tp_graph *g, int tower, tp_node **in, int n, void *user);
/* The tensors are computed in each run. If they depend on variables and random numbers alone, a resumed training gets the same
 * values; if a host op makes them, set .seek, otherwise a resume starts the data from the beginning, with a warning. `consumed`
 * counts one for each tower and run. [input_source: TensorInput] */
typedef struct tp_tensor_input_desc {
    tp_at at_;
    tp_tensor_input_fn fn;
    void *user;
    int64_t size;                                    /* datapoints per epoch; 0: unknown */
    tp_status (*seek)(void *user, int64_t consumed); /* makes datapoint number `consumed` the next one */
    void (*release)(void *user);                     /* called once, when the source is freed */
} tp_tensor_input_desc;
TP_DEF tp_input_source *tp_tensor_input_(const tp_tensor_input_desc *d);

/* Zeros of these shapes, one tensor for each input, with the signature's dtypes: to measure how fast a training is without its
 * data. They are constants, "dummy-image-0" for tower 0; values that depend on nothing else are computed once. The shapes are
 * copied. Setup warns: "Using dummy input for debug!" [input_source: DummyConstantInput] */
TP_DEF tp_input_source *tp_dummy_constant_input(const tp_shape *shapes, int n);

/* Copies the next datapoints of a feed-free source to the towers' devices while a run computes. A thread takes them from the source
 * (its hooks' before_run and after_run are called there), and uploads them while kernels run if the device can (tp_device.stage),
 * else copies them in host memory. A run takes staged datapoints, for all towers together. The data and their order are those of
 * the source alone; an error or the end of the data is reported after all datapoints before it were used. Values that the source
 * computes (TensorInput) cannot be staged by the thread: they are computed in an earlier run and kept, as in the original, and the
 * last nr_stage of them are not used when the data end. `consumed` counts the datapoints that runs have used, not the staged ones,
 * so that a resume is exact if the source's resume is; it is not exact for values computed from variables or by host ops (without
 * .seek). Not allowed: a source that is fed, another StagingInput inside, use by InferenceRunner, runs of fewer datapoints than
 * towers. It owns input. [input_source: StagingInput, StagingCallback] */
typedef struct tp_staging_input_desc {
    tp_at at_;
    tp_input_source *input;
    int nr_stage; /* number of staged datapoints for each tower; default 1; at most 64 */
    int device;   /* index of the session's device to copy them to; 0: the tower's device; TP_NONE: device 0 */
} tp_staging_input_desc;
TP_DEF tp_input_source *tp_staging_input_(const tp_staging_input_desc *d);

/* `input` provides the inputs of the signature with these names, in this order; the other inputs of the signature are placeholders,
 * made as by PlaceholderInput, which the program feeds. In all else the source behaves as input and has the same kind: a QueueInput
 * may be refilled, and staged. A name that the signature lacks is an error of setup. It owns input; names are copied.
 * [input_source: remap_input_source] */
TP_DEF tp_input_source *tp_remap_input_source(tp_input_source *input, const char *const *names, int n);

/* The prefetching that a trainer on n_devices adds to its source: on more than one device, a QueueInput or BatchQueueInput,
 * remapped or not, is wrapped in a StagingInput; any other source is returned unchanged. Takes ownership of input.
 * [apply_default_prefetch] */
TP_DEF tp_input_source *tp_input_default_prefetch(tp_input_source *input, int n_devices);

/* clang-format off */
#ifndef __cplusplus
#define tp_batch_queue_input(...) TP__CALL(input, tp_batch_queue_input, #__VA_ARGS__, __VA_ARGS__)
#define tp_tensor_input(...) TP__CALL(input, tp_tensor_input, #__VA_ARGS__, __VA_ARGS__)
#define tp_staging_input(...) TP__CALL(input, tp_staging_input, #__VA_ARGS__, __VA_ARGS__)
#elif __cplusplus >= 202002L
#define tp_batch_queue_input(df_, batch_size_, ...) TP__CALL2(input, tp_batch_queue_input, df, df_, batch_size, batch_size_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_tensor_input(fn_, ...) TP__CALL1(input, tp_tensor_input, fn, fn_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_staging_input(input_, ...) TP__CALL1(input, tp_staging_input, input, input_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#endif
/* clang-format on */

/* ==== >>zmq ============================================================================================ */

/* Encodes a datapoint as the message of tensorpack's zmq_ops, appended to out: the number of components, then for each its dtype,
 * its shape, its bytes. Little-endian on every machine. After a failure out has its old contents; set out->len = 0 to reuse its
 * memory. bfloat16 has TensorFlow's number 14, which the sender of zmq_ops never writes. [dataflow: send_dataflow_zmq] */
TP_DEF tp_status tp_datapoint_pack(const tp_datapoint *dp, tp_buf *out);
/* Decodes the datapoint of one whole message, copied into dp's own memory, which is reused. what: the message's name in error
 * sentences. int8, int16 and uint16 become int32, uint32 and uint64 become int64 (a larger number is an error), a bool is 0 or
 * 1; complex numbers and strings are errors. A size is an error if the message has fewer bytes. After a failure dp has no
 * components. */
TP_DEF tp_status tp_datapoint_unpack(tp_datapoint *dp, const void *data, size_t size, const char *what);

/* Datapoints between processes and machines, by ZeroMQ: define TP_ZMQ before the implementation, have zmq.h (Debian package
 * libzmq3-dev), and link with -lzmq; without TP_ZMQ these functions fail with a sentence. Addresses are ZeroMQ's:
 * "tcp://192.168.1.5:5555", "tcp://" and a star for all interfaces, "ipc:///run/train.sock", "ipc://@name" (Linux, no file).
 * One end binds, the other connects; they may start in any order, and each may be restarted. An end that waits for 5 seconds for
 * its first message to come or to be taken says so in the log, once. There is no encryption and no
 * password: bind in networks that you trust.
 * A datapoint that the receiver has read is never lost. Datapoints on their way are lost when a process is killed: up to hwm wait
 * at each end, and beside them as many as the system's buffers between the two hold, thousands of small ones.
 *
 * Example: one program sends its datapoints, another one trains on them.
 *     status = tp_df_send_zmq(df, "tcp://192.168.1.5:5555");
 *
 *     source = tp_zmq_input("tcp://192.168.1.5:5555");
 *
 *     source = tp_queue_input(tp_df_remote_zmq("ipc://@train", .hwm = 1000)); // see tp_df_send_zmq
 */

/* Each tower of each run takes the next message that arrives, received on the thread that runs. It is tensorpack's ZMQInput, and
 * receives from tensorpack's send_dataflow_zmq(format='zmq_ops') and from tp_df_send_zmq. The socket opens in setup, which also
 * reports wrong arguments. A run waits for data until it is cancelled or out of time, or until Ctrl-C if the training handles it.
 * Data that have arrived are kept: if a run fails, its datapoint is fed again, and reset_state does nothing. A message that does
 * not fit the signature fails its run with a sentence and is dropped. Live data have no position: a resumed training continues with
 * the data that arrive, and logs that. Its size is unknown. [input_source: ZMQInput] */
typedef struct tp_zmq_input_desc {
    tp_at at_;
    const char *end_point; /* the address, copied */
    int hwm;               /* maximum number of messages that wait at this end, for each sender; default 10 */
    tp_tri bind;           /* TP_YES: this end binds, TP_NO: this end connects; default TP_YES */
} tp_zmq_input_desc;
TP_DEF tp_input_source *tp_zmq_input_(const tp_zmq_input_desc *d);
/* A flow of the data that arrive at the end point of a ZMQInput. The caller keeps the source and must not set it up at the same
 * time: two sockets cannot bind to one address. Datapoints have n components of these dtypes and shapes; a datapoint that differs
 * is an error and is dropped. The flow is endless; the original has one datapoint and needs repeat(). specs are copied. In all else
 * as tp_df_remote_zmq. [ZMQInput.to_dataset] */
TP_DEF tp_dataflow *tp_zmq_input_to_dataset(const tp_input_source *s, const tp_spec *specs, int n);

/* A flow of the datapoints that arrive at one address, or at two (for example an ipc:// and a tcp:// address), with any components.
 * It is endless and has no position: restart continues with the next message, and seek skips nothing and logs that once. The
 * sockets open at the first tp_df_next. next waits for a datapoint, at most .timeout_ms (TP_ERR_TIMEOUT), or until the source whose
 * thread reads this flow stops (TP_STOP), or Ctrl-C in a training whose FeedInput reads it (TP_INTR). A damaged message is an
 * error, and the next call takes the next message.
 * [dataflow: RemoteDataZMQ] */
typedef struct tp_df_remote_zmq_desc {
    tp_at at_;
    const char *addr1, *addr2; /* the addresses, copied; addr2 NULL: only one */
    int hwm;                   /* maximum number of messages that wait at this end, for each sender; default 50 */
    tp_tri bind;               /* TP_YES: this end binds, TP_NO: this end connects; default TP_YES */
    int64_t timeout_ms;        /* longest time to wait for a datapoint; 0: no limit */
} tp_df_remote_zmq_desc;
TP_DEF tp_dataflow *tp_df_remote_zmq_(const tp_df_remote_zmq_desc *d);
/* Number of datapoints received so far from address 1 or 2. May be called from any thread. 0 for other flows. [RemoteDataZMQ.cnt1,
 * cnt2] */
TP_DEF int64_t tp_df_remote_zmq_received(const tp_dataflow *df, int address);

/* Sends the datapoints of df to an address, pass after pass, and returns when all n are sent (TP_OK), *stop is not 0 (TP_STOP), or
 * something failed; TP_ERR_TIMEOUT: the last ones found no receiver within .linger_ms. With tcp:// nothing that was sent is lost
 * if the call returns TP_OK and .linger_ms is not 0. With ipc:// a receiver loses the messages that it has not read when the sender
 * returns and the receiver's own queue is full (libzmq drops them): its hwm should be at least n. While .hwm datapoints wait for
 * receivers that are busy or not connected
 * yet, the call waits. Several senders may share a receiver, and several receivers share the messages of one sender. Any dtypes. The
 * caller keeps df and must not use it until the call returns. The log names the address. [dataflow: send_dataflow_zmq] */
typedef struct tp_df_send_zmq_desc {
    tp_at at_;
    tp_dataflow *df;
    const char *addr;
    int hwm;         /* maximum number of messages that wait at this end; default 50 */
    tp_tri bind;     /* TP_YES: this end binds; TP_NO: this end connects; default TP_NO */
    int64_t n;       /* number of datapoints; 0: for ever */
    const int *stop; /* checked continually; set it from another thread or a signal handler. NULL: not used */
    /* After the last datapoint, the longest time to wait until the receivers have all messages; default 10000. 0 (TP_NONE): no wait, and
     * what no receiver has taken yet is dropped */
    int64_t linger_ms;
} tp_df_send_zmq_desc;
TP_DEF tp_status tp_df_send_zmq_(const tp_df_send_zmq_desc *d);

/* clang-format off */
#ifndef __cplusplus
#define tp_zmq_input(...) TP__CALL(input, tp_zmq_input, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_remote_zmq(...) TP__CALL(input, tp_df_remote_zmq, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_send_zmq(...) TP__CALL(input, tp_df_send_zmq, #__VA_ARGS__, __VA_ARGS__)
#elif __cplusplus >= 202002L
#define tp_zmq_input(end_point_, ...) TP__CALL1(input, tp_zmq_input, end_point, end_point_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_remote_zmq(addr1_, ...) TP__CALL1(input, tp_df_remote_zmq, addr1, addr1_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_send_zmq(df_, addr_, ...) TP__CALL2(input, tp_df_send_zmq, df, df_, addr, addr_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#endif
/* clang-format on */

#ifdef __cplusplus
}
#endif
#endif /* TP_INPUT_H */

/* ===== STOP HERE if you only want to use the library. Everything below is implementation. ===== */
#if defined(TP_IMPLEMENTATION) && !defined(TP__INPUT_IMPLEMENTED)
#define TP__INPUT_IMPLEMENTED
#undef TP__PLACED
#define TP__PLACED TP__UNPLACED
TP__EXACT_BEGIN

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#ifdef TP_ZMQ
#include <zmq.h>
#ifndef _WIN32
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#endif
#endif

TP__COLD_BEGIN

/* The options for which zero does not mean the default: see OPTIONS in tp_tensor.h. */
TP_DEF const tp__zero_option *tp__input_zeros(void)
{
    /* clang-format off */
    static const tp__zero_option options[] = {
        TP__ZERO_OPTION(tp_df_from_list_desc, shuffle, NO),
        TP__ZERO_OPTION(tp_df_from_list_desc, seed, NONE),
        TP__ZERO_OPTION(tp_df_from_arrays_desc, shuffle, NO),
        TP__ZERO_OPTION(tp_df_from_arrays_desc, seed, NONE),
        TP__ZERO_OPTION(tp_df_fake_desc, size, NONE),
        TP__ZERO_OPTION(tp_df_fake_desc, random, NO),
        TP__ZERO_OPTION(tp_df_fake_desc, low, ZERO),
        TP__ZERO_OPTION(tp_df_fake_desc, high, ZERO),
        TP__ZERO_OPTION(tp_df_fake_desc, seed, NONE),
        TP__ZERO_OPTION(tp_df_mnist_desc, shuffle, NO),
        TP__ZERO_OPTION(tp_df_mnist_desc, seed, NONE),
        TP__ZERO_OPTION(tp_df_digits_desc, size, NONE),
        TP__ZERO_OPTION(tp_df_digits_desc, shuffle, NO),
        TP__ZERO_OPTION(tp_df_digits_desc, seed, NONE),
        TP__ZERO_OPTION(tp_df_idx_desc, shuffle, NO),
        TP__ZERO_OPTION(tp_df_idx_desc, seed, NONE),
        TP__ZERO_OPTION(tp_df_map_desc, seed, NONE),
        TP__ZERO_OPTION(tp_df_map_component_desc, seed, NONE),
        TP__ZERO_OPTION(tp_df_fixed_size_desc, keep_state, NO),
        TP__ZERO_OPTION(tp_df_locally_shuffle_desc, seed, NONE),
        TP__ZERO_OPTION(tp_df_cifar10_desc, shuffle, NO),
        TP__ZERO_OPTION(tp_df_cifar10_desc, seed, NONE),
        TP__ZERO_OPTION(tp_df_cifar100_desc, shuffle, NO),
        TP__ZERO_OPTION(tp_df_cifar100_desc, seed, NONE),
        TP__ZERO_OPTION(tp_df_svhn_digit_desc, shuffle, NO),
        TP__ZERO_OPTION(tp_df_svhn_digit_desc, seed, NONE),
        TP__ZERO_OPTION(tp_df_npz_desc, shuffle, NO),
        TP__ZERO_OPTION(tp_df_npz_desc, seed, NONE),
        TP__ZERO_OPTION(tp_df_tfrecord_desc, seed, NONE),
        TP__ZERO_OPTION(tp_df_csv_desc, header, NO),
        TP__ZERO_OPTION(tp_df_csv_desc, shuffle, NO),
        TP__ZERO_OPTION(tp_df_csv_desc, seed, NONE),
        TP__ZERO_OPTION(tp_df_text_chars_desc, shuffle, NO),
        TP__ZERO_OPTION(tp_df_text_chars_desc, seed, NONE),
        TP__ZERO_OPTION(tp_df_image_from_file_desc, seed, NONE),
        TP__ZERO_OPTION(tp_df_image_folder_desc, decode, NO),
        TP__ZERO_OPTION(tp_df_image_folder_desc, shuffle, NO),
        TP__ZERO_OPTION(tp_df_image_folder_desc, seed, NONE),
        TP__ZERO_OPTION(tp_df_image_list_desc, decode, NO),
        TP__ZERO_OPTION(tp_df_image_list_desc, shuffle, NO),
        TP__ZERO_OPTION(tp_df_image_list_desc, seed, NONE),
        TP__ZERO_OPTION(tp_df_lmdb_desc, shuffle, NO),
        TP__ZERO_OPTION(tp_df_lmdb_desc, seed, NONE),
        TP__ZERO_OPTION(tp_df_filter_desc, seed, NONE),
        TP__ZERO_OPTION(tp_df_random_choose_desc, seed, NONE),
        TP__ZERO_OPTION(tp_df_random_mix_desc, seed, NONE),
        TP__ZERO_OPTION(tp_df_cache_desc, seed, NONE),
        TP__ZERO_OPTION(tp_df_batch_by_shape_desc, keep_state, NO),
        TP__ZERO_OPTION(tp_aug_random_resize_desc, aspect_ratio_thres, ZERO),
        TP__ZERO_OPTION(tp_aug_flip_desc, prob, ZERO),
        TP__ZERO_OPTION(tp_aug_transpose_desc, prob, ZERO),
        TP__ZERO_OPTION(tp_aug_brightness_desc, clip, NO),
        TP__ZERO_OPTION(tp_aug_brightness_scale_desc, clip, NO),
        TP__ZERO_OPTION(tp_aug_contrast_desc, rgb, NO),
        TP__ZERO_OPTION(tp_aug_contrast_desc, clip, NO),
        TP__ZERO_OPTION(tp_aug_saturation_desc, alpha, ZERO),
        TP__ZERO_OPTION(tp_aug_saturation_desc, rgb, NO),
        TP__ZERO_OPTION(tp_aug_saturation_desc, clip, NO),
        TP__ZERO_OPTION(tp_aug_hue_desc, rgb, NO),
        TP__ZERO_OPTION(tp_aug_clip_desc, max, ZERO),
        TP__ZERO_OPTION(tp_aug_lighting_desc, clip, NO),
        TP__ZERO_OPTION(tp_aug_mean_variance_normalize_desc, all_channel, NO),
        TP__ZERO_OPTION(tp_aug_min_max_normalize_desc, max, ZERO),
        TP__ZERO_OPTION(tp_aug_min_max_normalize_desc, all_channel, NO),
        TP__ZERO_OPTION(tp_aug_grayscale_desc, keepdims, NO),
        TP__ZERO_OPTION(tp_aug_color_space_desc, keepdims, NO),
        TP__ZERO_OPTION(tp_aug_gaussian_blur_desc, symmetric, NO),
        TP__ZERO_OPTION(tp_aug_jpeg_noise_desc, subsample, NO),
        TP__ZERO_OPTION(tp_aug_gaussian_noise_desc, sigma, ZERO),
        TP__ZERO_OPTION(tp_aug_gaussian_noise_desc, clip, NO),
        TP__ZERO_OPTION(tp_aug_salt_pepper_noise_desc, white_prob, ZERO),
        TP__ZERO_OPTION(tp_aug_salt_pepper_noise_desc, black_prob, ZERO),
        TP__ZERO_OPTION(tp_df_augment_image_desc, seed, NONE),
        TP__ZERO_OPTION(tp_df_augment_coordinates_desc, coords_index, NONE),
        TP__ZERO_OPTION(tp_df_augment_coordinates_desc, seed, NONE),
        TP__ZERO_OPTION(tp_df_augment_images_desc, seed, NONE),
        TP__ZERO_OPTION(tp_df_load_image_desc, seed, NONE),
        TP__ZERO_OPTION(tp_df_parallel_map_desc, ordered, NO),
        TP__ZERO_OPTION(tp_df_parallel_map_desc, seed, NONE),
        TP__ZERO_OPTION(tp_feed_input_desc, infinite, NO),
        TP__ZERO_OPTION(tp_queue_input_desc, infinite, NO),
        TP__ZERO_OPTION(tp_batch_queue_input_desc, infinite, NO),
        TP__ZERO_OPTION(tp_staging_input_desc, device, NONE),
        TP__ZERO_OPTION(tp_zmq_input_desc, bind, NO),
        TP__ZERO_OPTION(tp_df_remote_zmq_desc, bind, NO),
        TP__ZERO_OPTION(tp_df_send_zmq_desc, linger_ms, NONE),
        {NULL, NULL, 0, 0, TP__ZERO_NO},
    };
    /* clang-format on */
    return options;
}

/* ==== >>datapoint ===================================================================================== */

TP_DEF tp_status tp_datapoint_resize(tp_datapoint *dp, int n)
{
    TP__REQUIRE(dp && n >= 0, TP_ERR_ARG)

    if (n < 0) return tp_fail(TP_ERR_ARG, "a datapoint of %d components was asked for", n);
    if (n > dp->cap_) {
        size_t bytes;
        if (!tp_mul_size((size_t)n, sizeof(tp_tensor), &bytes))
            return tp_fail(TP_ERR_NOMEM, "a datapoint of %d components does not fit into memory", n);
        tp_tensor *c = (tp_tensor *)tp_realloc(dp->c, bytes);
        if (!c) return TP_ERR_NOMEM;
        memset(c + dp->cap_, 0, (size_t)(n - dp->cap_) * sizeof(tp_tensor));
        dp->c = c;
        dp->cap_ = n;
    }
    dp->n = n;
    return TP_OK;
}

TP__HOT TP_DEF tp_status tp_datapoint_view(tp_datapoint *dp, const tp_datapoint *of)
{
    TP__REQUIRE(dp && of, TP_ERR_ARG)

    tp_status st = tp_datapoint_resize(dp, of->n);
    if (st != TP_OK) return st;
    for (int i = 0; i < of->n; i++) {
        tp_tensor_view(&dp->c[i], of->c[i].dtype, of->c[i].shape, of->c[i].data);
        dp->c[i].device = of->c[i].device;
    }
    return TP_OK;
}

TP_DEF tp_status tp_datapoint_copy(tp_datapoint *dp, const tp_datapoint *of)
{
    TP__REQUIRE(dp && of, TP_ERR_ARG)

    tp_status st = tp_datapoint_resize(dp, of->n);
    for (int i = 0; i < of->n && st == TP_OK; i++) st = tp_tensor_copy(&dp->c[i], &of->c[i]);
    return st;
}

TP_DEF void tp_datapoint_free(tp_datapoint *dp)
{
    if (!dp) return;
    for (int i = 0; i < dp->cap_; i++) tp_tensor_free(&dp->c[i]);
    tp_free(dp->c);
    memset(dp, 0, sizeof *dp);
}

TP_DEF tp_status tp_datapoint_set_bytes(tp_datapoint *dp, int index, const void *data, size_t n)
{
    TP__REQUIRE(dp && index >= 0 && index < INT_MAX && (data || n == 0), TP_ERR_ARG)

    if (n >= PTRDIFF_MAX) return tp_fail(TP_ERR_NOMEM, "a component of %zu bytes does not fit into memory", n);
    tp_status st = index < dp->n ? TP_OK : tp_datapoint_resize(dp, index + 1);
    tp_tensor from, *to = st == TP_OK ? &dp->c[index] : NULL;
    if (!to) return st;
    memset(&from, 0, sizeof from);
    const int64_t with_nul = (int64_t)n + 1, dim = (int64_t)n;
    const bool inside = to->own && data && (uintptr_t)data - (uintptr_t)to->own < to->capacity;
    if (!inside) st = tp_tensor_resize(to, TP_U8, tp_make_shape_n(1, &with_nul)); /* one more byte for the NUL */
    if (st != TP_OK) return st;
    tp_tensor_view(&from, TP_U8, tp_make_shape_n(1, &dim), n ? data : "");
    return tp_tensor_copy(to, &from);
}

TP_DEF tp_status tp_datapoint_set_text(tp_datapoint *dp, int index, const char *text)
{
    TP__REQUIRE(dp && text, TP_ERR_ARG)

    return tp_datapoint_set_bytes(dp, index, text, strlen(text));
}

TP_DEF const char *tp_datapoint_text(tp_datapoint *dp, int index)
{
    TP__REQUIRE(dp && index >= 0 && index < dp->n, NULL)

    tp_tensor *t = &dp->c[index];
    if (t->dtype != TP_U8 || t->shape.ndim != 1 || t->device) {
        char shape[TP_SHAPE_TEXT];
        tp_fail(TP_ERR_DTYPE, "component %d is %s %s%s: a text is uint8 (N) in host memory", index,
                tp_dtype_name(t->dtype), tp_shape_text(&t->shape, shape), t->device ? " on a device" : "");
        return NULL;
    }
    const size_t n = tp_tensor_bytes(t);
    if (t->data != t->own || t->own_device_ || t->capacity < n + 1) {
        const int64_t with_nul = (int64_t)n + 1;
        tp_tensor fresh;
        memset(&fresh, 0, sizeof fresh);
        if (tp_tensor_resize(&fresh, TP_U8, tp_make_shape_n(1, &with_nul)) != TP_OK) return NULL;
        if (n) memcpy(fresh.data, t->data, n);
        fresh.shape = t->shape;
        tp_tensor_free(t);
        *t = fresh;
    }
    ((char *)t->data)[n] = 0;
    return (const char *)t->data;
}

/* Replaces views by copies, so that the datapoint stays valid after the flow's next step. */
static tp_status tp__datapoint_own(tp_datapoint *dp)
{
    tp_status st = TP_OK;
    for (int i = 0; i < dp->n && st == TP_OK; i++)
        if (!dp->c[i].own || dp->c[i].data != dp->c[i].own) st = tp_tensor_copy(&dp->c[i], &dp->c[i]);
    return st;
}

/* ==== >>dataflow ====================================================================================== */

enum { TP__DF_FRESH = 0, TP__DF_RUNNING, TP__DF_ENDED };

static bool tp__tri_is_yes(int tri, bool unset) { return tri == TP_YES || (tri != TP_NO && unset); }

TP_DEF tp_dataflow *tp_df_new(const char *name, size_t bytes, uint64_t seed)
{
    TP__REQUIRE(name, NULL)

    /* `user` begins after the struct, at an aligned address */
    const size_t head = (sizeof(tp_dataflow) + 63) & ~(size_t)63;
    if (bytes > SIZE_MAX - head) {
        tp_fail(TP_ERR_NOMEM, "%s: %zu bytes do not fit into memory", name, bytes);
        return NULL;
    }
    tp_dataflow *df = (tp_dataflow *)tp_calloc(1, head + bytes);
    if (!df) return NULL;
    df->name = name;
    df->kind_ = name;
    df->seed = (uint64_t)tp__int_option((int64_t)seed, 42);
    df->seed_given_ = seed != 0;
    df->user = (char *)df + head;
    return df;
}

static void tp__df_delete(tp_dataflow *df)
{
    if (!df) return;
    if (df->close) df->close(df);
    tp_datapoint_free(&df->skip_);
    tp_free(df);
}

TP_DEF void tp_df_free(tp_dataflow *df)
{
    if (df && tp__may_free(&df->owner_, __func__, df->name)) tp__df_delete(df);
}

TP_DEF tp_status tp_df_restart(tp_dataflow *df, int64_t pass)
{
    TP__REQUIRE(df, TP_ERR_ARG)

    if (pass < 0) return tp_fail(TP_ERR_ARG, "%s: there is no pass %lld", df->name, (long long)pass);
    if (!df->restart && df->state_ != TP__DF_FRESH)
        return tp_fail(TP_ERR_STATE, "%s: this dataflow can be walked only once: %s", df->name,
                       df->advice_ ? df->advice_ : "give it a restart function");
    const unsigned n_errors = tp__n_errors;
    tp_status st = df->restart ? tp__add_missing_sentence(df->name, n_errors, df->restart(df, pass)) : TP_OK;
    df->state_ = st == TP_OK ? TP__DF_RUNNING : TP__DF_FRESH; /* if it failed, the next call begins this pass again */
    df->pass_ = pass;
    df->index_ = 0;
    return st;
}

/* Adds the flow and the number of the failed datapoint to the error sentence. The flow that failed first does this, the flows above
 * pass the sentence on. */
static tp_status tp__df_named(const tp_dataflow *df, int64_t index, tp_status st)
{
    const char *text = tp_last_error(), *end = strrchr(text, '[');
    if (end && strstr(end, ": pass ") && text[strlen(text) - 1] == ']') return st;
    return tp_fail(st, "%s [%s: pass %lld, datapoint %lld]", text, df->name, (long long)df->pass_, (long long)index);
}

TP_DEF tp_status tp_df_next(tp_dataflow *df, tp_datapoint *dp)
{
    TP__REQUIRE(df && dp, TP_ERR_ARG)

    if (df->state_ == TP__DF_FRESH) {
        tp_status st = tp_df_restart(df, df->pass_);
        if (st != TP_OK) return st;
    }
    if (df->state_ == TP__DF_ENDED) return TP_END;
    if (!df->next) return tp_fail(TP_ERR_ARG, "%s: the flow has no function `next`: set df->next", df->name);
    /* set the floating-point mode of the numeric kernels, so that all threads that read flows compute the same numbers */
    const unsigned mode = tp__float_mode_enter();
    const unsigned n_errors = tp__n_errors;
    tp_status st = tp__add_missing_sentence(df->name, n_errors, df->next(df, dp));
    tp__float_mode_leave(mode);
    for (int i = 0; st == TP_OK && i < dp->n; i++)
        if (dp->c[i].dtype == TP_DTYPE_UNSET)
            st = tp_fail(TP_ERR_ARG,
                         "component %d of %d has no type yet: tp_tensor_resize gives it type, shape and memory", i,
                         dp->n);
        else if (!dp->c[i].data && tp_tensor_size(&dp->c[i]) != 0)
            st = tp_fail(TP_ERR_ARG, "the data of component %d of %d are NULL: tp_tensor_resize gives it memory", i,
                         dp->n);
    if (st == TP_OK) df->index_++;
    if (st == TP_END) df->state_ = TP__DF_ENDED;
    return st < TP_OK ? tp__df_named(df, df->index_, st) : st;
}

TP_DEF int64_t tp_df_size(tp_dataflow *df)
{
    TP__REQUIRE(df, -1)

    const int64_t n = df->size ? df->size(df) : -1;
    return n < 0 ? -1 : n;
}

static tp_status tp__df_may_wait(void);

#define TP__SEEK_TOLD 1000 /* a flow that reads more datapoints than this to skip them says so */
static void tp__df_tell_reading(tp_dataflow *df, int64_t n)
{
    if (n <= TP__SEEK_TOLD || df->reading_is_told_) return;
    df->reading_is_told_ = true;
    tp_log(TP_LOG_INFO, "%s: up to %lld datapoints are read to reach the position where it goes on: %s", df->name,
           (long long)n, df->seek_advice_ ? df->seek_advice_ : "give the flow its function seek to skip them");
}

/* For flows that know their datapoints only when they have read those below. */
#define TP__SEEK_NEVER                                                                                                 \
    "only reading shows which ones it gives; if that takes too long, save its datapoints once (tp_df_save_tfrecord), " \
    "and read that file"
/* For maps, whose .keeps_all is as given; TP_NO: they may drop datapoints. */
#define TP__SEEK_MAP(keeps_all_) \
    ((keeps_all_) == TP_NO ? TP__SEEK_NEVER : "set its .keeps_all = TP_YES to skip them, if its function drops none")

TP_DEF tp_status tp_df_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    TP__REQUIRE(df, TP_ERR_ARG)

    int64_t ignored;
    if (!skipped) skipped = &ignored;
    *skipped = 0;
    if (n < 0) return tp_fail(TP_ERR_ARG, "%s: cannot skip %lld datapoints: seek goes forward", df->name, (long long)n);
    if (df->state_ == TP__DF_FRESH) {
        tp_status st = tp_df_restart(df, df->pass_);
        if (st != TP_OK) return st;
    }
    if (df->state_ == TP__DF_ENDED || n == 0) return TP_OK;
    if (df->seek) {
        const unsigned n_errors = tp__n_errors;
        tp_status st = tp__add_missing_sentence(df->name, n_errors, df->seek(df, n, skipped));
        if (*skipped < 0 || *skipped > n) {
            st = tp_fail(TP_ERR_ARG, "%s: its seek says that it skipped %lld of %lld datapoints", df->name,
                         (long long)*skipped, (long long)n);
            *skipped = 0;
        }
        df->index_ += *skipped;
        return st;
    }
    tp__df_tell_reading(df, n);
    while (*skipped < n) { /* a flow without seek: skip by calling next */
        tp_status st =
            n > TP__SEEK_TOLD ? tp__df_may_wait() : TP_OK; /* a step of a training skips few, and is finished */
        if (st == TP_OK) st = tp_df_next(df, &df->skip_);
        if (st == TP_END) return TP_OK;
        if (st != TP_OK) return st;
        ++*skipped;
    }
    return TP_OK;
}

/* The key of all random numbers in one pass of a flow. Flows with the same seed differ by their kinds. */
static uint64_t tp__df_key(const tp_dataflow *df, int64_t pass)
{
    return tp_random_key(tp_random_key(df->seed, tp_hash_name(df->kind_)), (uint64_t)pass);
}

/* Returns how many flows of a kind the tree of df has. Those with a given seed count too, so that giving one changes no other. */
static uint64_t tp__df_count(const tp_dataflow *df, const char *kind)
{
    uint64_t n = strcmp(df->kind_, kind) == 0;
    for (const tp_dataflow *in = df->input_; in; in = in->next_input_) n += tp__df_count(in, kind);
    return n;
}

/* Moves the default seeds in the tree of df behind those in the tree of `before`. */
static void tp__df_move_seeds(tp_dataflow *df, const tp_dataflow *before)
{
    if (!df->seed_given_) df->seed += tp__df_count(before, df->kind_);
    for (tp_dataflow *in = df->input_; in; in = in->next_input_) tp__df_move_seeds(in, before);
}

/* Makes `in` the last input of df. `apart`: its seeds stay, whatever the inputs before it have. */
static void tp__df_add_input(tp_dataflow *df, tp_dataflow *in, bool apart)
{
    tp_dataflow **end = &df->input_;
    for (; *end; end = &(*end)->next_input_)
        if (!apart) tp__df_move_seeds(in, *end);
    *end = in;
    if (!df->seed_given_) df->seed += tp__df_count(in, df->kind_);
}

/* Set by a thread that reads a flow for a source: points to the flag that tells it to stop. */
static TP__THREAD_LOCAL const bool *tp__df_stop;

TP_DEF bool tp_df_stopping(void) { return tp__df_stop && __atomic_load_n(tp__df_stop, __ATOMIC_ACQUIRE); }

/* The hooks of this thread's run read a flow: Ctrl-C in a training ends the waiting. */
static TP__THREAD_LOCAL bool tp__df_in_run;

/* Whether a flow may wait: TP_OK, or the status that it returns instead, TP_STOP or TP_INTR. */
static tp_status tp__df_may_wait(void)
{
    if (tp_df_stopping()) return TP_STOP;
    return tp__df_in_run && tp__os_interrupted() ? TP_INTR : TP_OK;
}

/* The same as tp_cond_wait, for a flow; not TP_OK: see tp__df_may_wait. */
TP__UNUSED static tp_status tp__df_wait(tp_cond *c, tp_mutex *m)
{
    const tp_status st = tp__df_may_wait();
    if (st != TP_OK) return st;
    if (tp__df_stop || tp__df_in_run) tp_cond_wait_for(c, m, TP__WAIT_SLICE);
    else tp_cond_wait(c, m);
    return TP_OK;
}

/* -- poison: a flow that keeps the error sentence of a failed constructor */

typedef struct tp__poison_flow {
    tp_status status;
    bool is_placed; /* the sentence begins with its place, or never will */
    char text[1024];
} tp__poison_flow;

/* Gives the poison flow its sentence. */
static void tp__poison_say(tp__poison_flow *p, const tp_at *at, const char *text)
{
    const char *file = at && at->file ? strrchr(at->file, '/') : NULL;
    file = file ? file + 1 : at ? at->file : NULL;
    p->is_placed = file != NULL;
    if (file) snprintf(p->text, sizeof p->text, "%.60s:%d: %.899s", file, at->line, text);
    else snprintf(p->text, sizeof p->text, "%.899s", text);
    tp_fail(p->status, "%s", p->text);
}

static tp_status tp__poison_restart(tp_dataflow *df, int64_t pass)
{
    const tp__poison_flow *p = (const tp__poison_flow *)df->user;
    (void)pass;
    return tp_fail(p->status, "%s", p->text);
}
static tp_status tp__poison_next(tp_dataflow *df, tp_datapoint *dp)
{
    (void)dp;
    return tp__poison_restart(df, 0);
}

TP_DEF tp_status tp_df_status(const tp_dataflow *df)
{
    if (!df) return tp_fail(TP_ERR_ARG, "the dataflow is NULL: its constructor found no memory");
    if (df->next != tp__poison_next) return TP_OK;
    const tp__poison_flow *p = (const tp__poison_flow *)df->user;
    return tp_fail(p->status, "%s", p->text);
}

TP_DEF tp_dataflow *tp_df_fail(const tp_at *at, tp_status status, const char *fmt, ...)
{
    char text[900];
    va_list ap;
    va_start(ap, fmt);
    tp__vformat(text, sizeof text, fmt ? fmt : " ", ap);
    va_end(ap);
    tp_dataflow *df = status == TP_ERR_NOMEM ? NULL : tp_df_new("poison", sizeof(tp__poison_flow), 0);
    if (!df) {
        tp_fail(TP_ERR_NOMEM, "%s", text);
        return NULL;
    }
    tp__poison_flow *p = (tp__poison_flow *)df->user;
    p->status = status;
    df->next = tp__poison_next;
    df->restart = tp__poison_restart;
    tp__poison_say(p, at, text);
    return df;
}

TP_DEF tp_dataflow *tp__df_at(tp_dataflow *df, const char *file, int line)
{
    if (!df || df->next != tp__poison_next || ((const tp__poison_flow *)df->user)->is_placed) return df;
    tp__poison_flow *p = (tp__poison_flow *)df->user;
    tp_at at;
    char text[900];
    at.file = file;
    at.line = line;
    snprintf(text, sizeof text, "%.899s", p->text);
    tp__poison_say(p, &at, text);
    return df;
}

/* Says the mistake of a flow below, which gets no place of the flow above it. */
static void tp__df_say_again(tp_dataflow *df)
{
    if (tp_df_status(df) != TP_OK && df) ((tp__poison_flow *)df->user)->is_placed = true;
}

/* Ends a constructor that failed with `st` after its arguments were checked: the sentence is already set. */
static tp_dataflow *tp__df_failed(const tp_at *at, tp_status st)
{
    char text[900];
    snprintf(text, sizeof text, "%.899s", tp_last_error());
    return tp_df_fail(at, st, "%s", text);
}

/* Returns a poison flow with the error sentence that tp__set_owner set: a flow was given two owners. */
static tp_dataflow *tp__df_owned_twice(void)
{
    char text[TP__ERROR_TEXT];
    snprintf(text, sizeof text, "%s", tp_last_error());
    return tp_df_fail(NULL, TP_ERR_ARG, "%s", text);
}
static void tp__df_drop(tp_dataflow *df)
{
    if (df && !df->owner_.who) tp__df_delete(df);
}

static tp_dataflow *tp__df_no_options(const char *function)
{
    return tp_df_fail(NULL, TP_ERR_ARG, "%s: the descriptor is NULL", function);
}

/* Makes a new flow of a kind around `child`. If child is missing or poison, returns false and sets *df to the child. */
static bool tp__df_around_of_kind(const tp_at *at, tp_dataflow *child, const char *name, const char *kind, size_t bytes,
                                  uint64_t seed, tp_dataflow **df)
{
    *df = child;
    if (!child || child->next == tp__poison_next) {
        tp__df_say_again(child);
        return false;
    }
    if (!tp__set_owner(&child->owner_, child->name, name, at)) {
        *df = tp__df_owned_twice();
        return false;
    }
    *df = tp_df_new(name, bytes, seed);
    if (*df) {
        (*df)->endless_ = child->endless_;
        (*df)->collects_ = child->collects_;
        (*df)->kind_ = kind;
        tp__df_add_input(*df, child, false);
        return true;
    }
    tp__df_delete(child);
    return false;
}
/* The same; the kind is the name. */
static bool tp__df_around(const tp_at *at, tp_dataflow *child, const char *name, size_t bytes, uint64_t seed,
                          tp_dataflow **df)
{
    return tp__df_around_of_kind(at, child, name, name, bytes, seed, df);
}

/* Frees the child, if no other flow owns it, and returns a poison flow for wrong arguments of its parent. */
#define TP__REFUSE(child_, ...) (tp__df_drop(child_), tp_df_fail(__VA_ARGS__))

/* Refuses a flow in which the order of datapoints is not fixed, for what makes n parts of its order. */
static tp_status tp__df_must_be_ordered(const tp_dataflow *df, int n, const char *caller)
{
    tp_status st = TP_OK;
    if (n > 1 && df->unordered_)
        return tp_fail(TP_ERR_ARG,
                       "%s: %s gives datapoints in an order that is not fixed, so that the parts would share some and "
                       "lack others: set its .ordered = TP_YES, or put it around %s",
                       caller, df->name, caller);
    for (const tp_dataflow *in = df->input_; in && st == TP_OK; in = in->next_input_)
        st = tp__df_must_be_ordered(in, n, caller);
    return st;
}

/* Refuses a flow known to have no end, for what reads a whole pass of it. */
static tp_status tp__df_must_end(const tp_dataflow *df, const char *caller)
{
    if (!df->endless_) return TP_OK;
    return tp_fail(TP_ERR_ARG, "%s: the passes of %s have no end: put tp_df_take or tp_df_fixed_size around it", caller,
                   df->name);
}

/* -- an endless reader: pass after pass, with a position that counts all datapoints. FixedSize, the shuffle buffer and the input
 * sources use it. */

typedef struct tp__endless {
    tp_dataflow *df;
    int64_t pass, position;
    bool one_pass;   /* the flow gives only one pass */
    bool none_given; /* the current pass has given no datapoint yet */
} tp__endless;

/* Whether a pass of df that gave nothing was no empty one: its datapoints were collected for a batch of a later pass. */
static bool tp__df_has_collected(const tp_dataflow *df);

static tp_status tp__endless_next_pass(tp__endless *e)
{
    if (e->none_given && !tp__df_has_collected(e->df))
        return tp_fail(TP_ERR_STATE, "%s: a whole pass gave no datapoint, so it cannot be repeated for ever",
                       e->df->name);
    e->none_given = true;
    return tp_df_restart(e->df, ++e->pass);
}

static tp_status tp__endless_next(tp__endless *e, tp_datapoint *dp)
{
    for (;;) {
        tp_status st = tp_df_next(e->df, dp);
        if (st == TP_OK) {
            e->none_given = false;
            e->position++;
        }
        if (st != TP_END || e->one_pass) return st;
        if ((st = tp__endless_next_pass(e)) != TP_OK) return st;
    }
}

#ifndef TP__SKIP_SILENCE
#define TP__SKIP_SILENCE 2 /* seconds until a skip over many passes says so */
#endif
/* Skips datapoints until n are behind the reader. It restarts each pass, because a pass may give more or fewer datapoints than
 * tp_df_size says. */
static tp_status tp__endless_skip_to(tp__endless *e, int64_t n)
{
    tp_status st = TP_OK;
    const int64_t from = e->position;
    double since = -1; /* < 0: not known yet; 0: it was told */
    for (unsigned passes = 0; st == TP_OK && e->position < n; passes++) {
        int64_t k = 0;
        if (passes % 1024 == 1023 && since < 0) since = tp_time();
        else if (passes % 1024 == 1023 && since > 0 && tp_time() - since > TP__SKIP_SILENCE) {
            since = 0;
            tp_log(TP_LOG_INFO,
                   "%s: the next datapoint is number %lld, and the passes before it are skipped one by one: %lld "
                   "datapoints until now",
                   e->df->name, (long long)n, (long long)(e->position - from));
        }
        if (passes > 1 && (st = tp__df_may_wait()) != TP_OK) break;
        st = tp_df_seek(e->df, n - e->position, &k);
        if (k > 0) e->none_given = false;
        e->position += k;
        if (st != TP_OK || e->position >= n || e->one_pass) break;
        st = tp__endless_next_pass(e);
    }
    return st;
}

/* Begins at pass `pass` and skips n datapoints. */
static tp_status tp__endless_start(tp__endless *e, int64_t pass, int64_t n)
{
    e->pass = pass;
    e->position = 0;
    e->none_given = true;
    const tp_status st = tp_df_restart(e->df, pass);
    return st == TP_OK ? tp__endless_skip_to(e, n) : st;
}

TP_DEF tp_status tp_df_test_speed(tp_dataflow *df, int64_t n, int64_t warmup, double *per_second)
{
    TP__REQUIRE(df, TP_ERR_ARG)

    tp__endless e = {df, 0, 0, false, false};
    tp_datapoint dp = {0, NULL, 0};
    if (n < 1) return tp_fail(TP_ERR_ARG, "tp_df_test_speed: cannot time %lld datapoints", (long long)n);
    if (warmup < 0)
        return tp_fail(TP_ERR_ARG, "tp_df_test_speed: warmup is %lld datapoints: give 0 or more", (long long)warmup);
    tp_status st = tp__endless_start(&e, 0, 0);
    for (int64_t i = 0; i < warmup && st == TP_OK; i++) st = tp__endless_next(&e, &dp);
    const double start = tp_time();
    for (int64_t i = 0; i < n && st == TP_OK; i++) st = tp__endless_next(&e, &dp);
    const double seconds = tp_time() - start;
    tp_datapoint_free(&dp);
    if (st != TP_OK) return st;
    const double speed = (double)n / (seconds > 1e-9 ? seconds : 1e-9);
    tp_log(TP_LOG_INFO, "%s: %lld datapoints in %.3f s, %.1f per second", df->name, (long long)n, seconds, speed);
    if (per_second) *per_second = speed;
    return TP_OK;
}

/* -- the order of one pass: shuffled or not, made at its first use, so that skipping a pass costs nothing */

typedef struct tp__order {
    int64_t *at; /* order in which the datapoints are given; NULL: 0, 1, 2, ... */
    int64_t n, next;
    uint64_t key;
    bool made;
} tp__order;

static tp_status tp__order_init(tp__order *o, int64_t n, bool shuffle)
{
    o->n = n;
    size_t bytes;
    if (!shuffle || n < 2) return TP_OK;
    if (!tp_mul_size((size_t)n, sizeof(int64_t), &bytes))
        return tp_fail(TP_ERR_NOMEM, "an order of %lld datapoints does not fit into memory", (long long)n);
    o->at = (int64_t *)tp_malloc(bytes);
    return o->at ? TP_OK : TP_ERR_NOMEM;
}

static void tp__order_restart(tp__order *o, uint64_t key)
{
    o->next = 0;
    if (key != o->key) o->made = false;
    o->key = key;
}

/* Returns the index of the next datapoint, -1 at the end of the pass. */
static int64_t tp__order_take(tp__order *o)
{
    if (o->next >= o->n) return -1;
    if (o->at && !o->made) {
        tp_random_permutation(o->key, o->at, o->n);
        o->made = true;
    }
    const int64_t i = o->next++;
    return o->at ? o->at[i] : i;
}

static int64_t tp__order_skip(tp__order *o, int64_t n)
{
    const int64_t k = n < o->n - o->next ? n : o->n - o->next;
    o->next += k;
    return k;
}

TP__COLD_END

/* ==== >>sources of data =============================================================================== */

/* -- from_list ---- >>df from_list */

typedef struct tp__list_flow {
    tp__order order; /* must be the first member of every flow that has an order */
    tp_datapoint *point;
    int64_t n;
} tp__list_flow;

static tp_status tp__ordered_restart(tp_dataflow *df, int64_t pass)
{
    tp__order_restart((tp__order *)df->user, tp__df_key(df, pass));
    return TP_OK;
}
static int64_t tp__ordered_size(tp_dataflow *df) { return ((const tp__order *)df->user)->n; }
static tp_status tp__ordered_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    *skipped = tp__order_skip((tp__order *)df->user, n);
    return TP_OK;
}

static tp_status tp__list_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__list_flow *f = (tp__list_flow *)df->user;
    const int64_t i = tp__order_take(&f->order);
    return i < 0 ? TP_END : tp_datapoint_view(dp, &f->point[i]);
}

static void tp__list_close(tp_dataflow *df)
{
    tp__list_flow *f = (tp__list_flow *)df->user;
    for (int64_t i = 0; i < f->n && f->point; i++) tp_datapoint_free(&f->point[i]);
    tp_free(f->point);
    tp_free(f->order.at);
}

TP_DEF tp_dataflow *tp_df_from_list_(const tp_df_from_list_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    if (d->n < 0 || (d->n > 0 && !d->points))
        return tp_df_fail(&d->at_, TP_ERR_ARG, "tp_df_from_list: a list of %lld datapoints%s", (long long)d->n,
                          d->points ? "" : " at NULL");
    tp_dataflow *df = tp_df_new("tp_df_from_list", sizeof(tp__list_flow), d->seed);
    if (!df) return NULL;
    tp__list_flow *f = (tp__list_flow *)df->user;
    df->next = tp__list_next;
    df->restart = tp__ordered_restart;
    df->size = tp__ordered_size;
    df->seek = tp__ordered_seek;
    df->close = tp__list_close;
    tp_status st = tp__order_init(&f->order, d->n, tp__tri_is_yes(d->shuffle, true));
    if (st == TP_OK && d->n > 0) {
        f->point = (tp_datapoint *)tp_calloc((size_t)d->n, sizeof(tp_datapoint));
        f->n = d->n;
        if (!f->point) st = TP_ERR_NOMEM;
    }
    for (int64_t i = 0; i < d->n && st == TP_OK; i++) st = tp_datapoint_copy(&f->point[i], &d->points[i]);
    if (st == TP_OK) return df;
    tp__df_delete(df);
    return tp__df_failed(&d->at_, st);
}

/* -- rows of arrays: from_arrays, idx, mnist ---- >>df rows */

/* How a row is converted to a component: not at all, bytes to [0,1], bytes to int32, (position, length) to that part of
 * the text. */
enum { TP__ROW_AS_IS, TP__ROW_UNIT, TP__ROW_I32, TP__ROW_TEXT };

typedef struct tp__rows_flow {
    tp__order order;
    tp_tensor *array;
    int *kind;
    int n;
    char *text; /* the text that TP__ROW_TEXT rows point into */
} tp__rows_flow;

/* Stores byte/255 as float32 into a component that owns its memory. */
static tp_status tp__bytes_to_unit(tp_tensor *out, tp_shape shape, const unsigned char *byte)
{
    tp_status st = tp_tensor_resize(out, TP_F32, shape);
    if (st != TP_OK) return st;
    float *x = (float *)out->data;
    const int64_t n = tp_tensor_size(out);
    for (int64_t i = 0; i < n; i++) x[i] = (float)byte[i] / 255.0f;
    return TP_OK;
}

static tp_shape tp__row_shape(const tp_shape *s) { return tp_make_shape_n(s->ndim - 1, s->dim + 1); }

static tp_status tp__rows_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__rows_flow *f = (tp__rows_flow *)df->user;
    const int64_t i = tp__order_take(&f->order);
    if (i < 0) return TP_END;
    tp_status st = tp_datapoint_resize(dp, f->n);
    for (int j = 0; j < f->n && st == TP_OK; j++) {
        const tp_tensor *a = &f->array[j];
        const tp_shape shape = tp__row_shape(&a->shape);
        const size_t bytes = (size_t)tp_shape_size(&shape) * tp_dtype_size(a->dtype);
        const unsigned char *row = (const unsigned char *)a->data + (size_t)i * bytes;
        if (f->kind[j] == TP__ROW_UNIT) {
            st = tp__bytes_to_unit(&dp->c[j], shape, row);
        } else if (f->kind[j] == TP__ROW_I32) {
            st = tp_tensor_resize(&dp->c[j], TP_I32, shape);
            if (st == TP_OK) tp_convert(dp->c[j].data, TP_I32, row, a->dtype, tp_shape_size(&shape));
        } else if (f->kind[j] == TP__ROW_TEXT) {
            const int64_t *place = (const int64_t *)(const void *)row;
            tp_tensor_view(&dp->c[j], TP_U8, tp_make_shape_n(1, &place[1]), f->text + place[0]);
        } else {
            tp_tensor_view(&dp->c[j], a->dtype, shape, row);
        }
    }
    return st;
}

static void tp__rows_close(tp_dataflow *df)
{
    tp__rows_flow *f = (tp__rows_flow *)df->user;
    for (int j = 0; j < f->n && f->array; j++) tp_tensor_free(&f->array[j]);
    tp_free(f->array);
    tp_free(f->kind);
    tp_free(f->text);
    tp_free(f->order.at);
}

/* Makes an empty flow of n arrays; the caller fills it, then tp__rows_ready checks the lengths. NULL: out of memory. */
static tp_dataflow *tp__rows_new(const char *name, int n, uint64_t seed)
{
    tp_dataflow *df = tp_df_new(name, sizeof(tp__rows_flow), seed);
    if (!df) return NULL;
    tp__rows_flow *f = (tp__rows_flow *)df->user;
    df->next = tp__rows_next;
    df->restart = tp__ordered_restart;
    df->size = tp__ordered_size;
    df->seek = tp__ordered_seek;
    df->close = tp__rows_close;
    f->n = n;
    f->array = (tp_tensor *)tp_calloc((size_t)n, sizeof(tp_tensor));
    f->kind = (int *)tp_calloc((size_t)n, sizeof(int));
    if (f->array && f->kind) return df;
    tp__df_delete(df);
    return NULL;
}

/* names: what the arrays are called in their files; NULL: they do not come from a file that says how many rows there are. */
static tp_status tp__rows_ready(tp_dataflow *df, const char *const *names, int shuffle)
{
    tp__rows_flow *f = (tp__rows_flow *)df->user;
    char shape[TP_SHAPE_TEXT];
    size_t bytes = 0;
    for (int j = 0; j < f->n; j++) {
        char number[24];
        snprintf(number, sizeof number, "array %d", j);
        const char *name = names ? names[j] : number;
        if (f->array[j].shape.ndim < 1)
            return tp_fail(TP_ERR_SHAPE, "%s: %s is a scalar, it has no rows", df->name, name);
        if (f->array[j].shape.dim[0] != f->array[0].shape.dim[0])
            return tp_fail(TP_ERR_SHAPE, "%s: %s has %lld entries but %s has %lld: they must belong together", df->name,
                           names ? names[0] : "array 0", (long long)f->array[0].shape.dim[0], name,
                           (long long)f->array[j].shape.dim[0]);
        bytes += tp_tensor_bytes(&f->array[j]);
    }
    /* A file of a few bytes can claim any number of rows that have no bytes; their order would fill the memory. */
    if (names && !bytes && f->array[0].shape.dim[0] > 0)
        return tp_fail(TP_ERR_FORMAT, "%s: %s has the shape %s, so its rows have no elements: there is nothing to read",
                       df->name, names[0], tp_shape_text(&f->array[0].shape, shape));
    return tp__order_init(&f->order, f->array[0].shape.dim[0], tp__tri_is_yes(shuffle, true));
}

TP_DEF tp_dataflow *tp_df_from_arrays_(const tp_df_from_arrays_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    if (d->n < 1 || !d->arrays) return tp_df_fail(&d->at_, TP_ERR_ARG, "tp_df_from_arrays: needs at least one array");
    tp_dataflow *df = tp__rows_new("tp_df_from_arrays", d->n, d->seed);
    if (!df) return NULL;
    tp__rows_flow *f = (tp__rows_flow *)df->user;
    tp_status st = TP_OK;
    for (int j = 0; j < d->n && st == TP_OK; j++)
        st = d->arrays[j].dtype ? tp_tensor_copy(&f->array[j], &d->arrays[j])
                                : tp_fail(TP_ERR_ARG,
                                          "tp_df_from_arrays: array %d is a tensor of zeros, with neither type nor "
                                          "shape: tp_tensor_view makes one of an array of yours",
                                          j);
    if (st == TP_OK) st = tp__rows_ready(df, NULL, d->shuffle);
    if (st == TP_OK) return df;
    tp__df_delete(df);
    return tp__df_failed(&d->at_, st);
}

/* Loads path, or path.gz if only that exists. */
static tp_status tp__idx_load_either(const char *path, tp_tensor *t)
{
    if (tp_file_exists(path)) return tp_idx_load(path, t);
    tp_buf b = {NULL, 0, 0, false};
    tp_buf_printf(&b, "%s.gz", path);
    tp_status st;
    if (b.failed) st = tp_fail(TP_ERR_NOMEM, "out of memory for the name of a file");
    else if (!tp_file_exists(b.data)) st = tp_fail(TP_ERR_IO, "there is neither %s nor %s.gz", path, path);
    else st = tp_idx_load(b.data, t);
    tp_buf_free(&b);
    return st;
}

TP_DEF tp_dataflow *tp_df_idx_(const tp_df_idx_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    if (d->n < 1 || !d->paths) return tp_df_fail(&d->at_, TP_ERR_ARG, "tp_df_idx: needs at least one path");
    tp_dataflow *df = tp__rows_new("tp_df_idx", d->n, d->seed);
    if (!df) return NULL;
    tp__rows_flow *f = (tp__rows_flow *)df->user;
    tp_status st = TP_OK;
    for (int j = 0; j < d->n && st == TP_OK; j++) st = tp__idx_load_either(d->paths[j], &f->array[j]);
    if (st == TP_OK) st = tp__rows_ready(df, d->paths, d->shuffle);
    if (st == TP_OK) return df;
    tp__df_delete(df);
    return tp__df_failed(&d->at_, st);
}

/* -- mnist ---- >>df mnist */

/* Sets *train to whether set_name is "train". Returns false if set_name is neither "train" nor "test". */
static bool tp__train_or_test(const char *set_name, bool *train)
{
    *train = set_name && strcmp(set_name, "train") == 0;
    return *train || (set_name && strcmp(set_name, "test") == 0);
}

/* Finds the folder of a data set: dir, or the default, "$TP_DATA/cifar10" or "$TENSORPACK_DATASET/cifar10_data". */
static void tp__data_dir(tp_buf *b, const char *dir, const char *tp_folder, const char *tensorpack_folder)
{
    char place[TP__PATH];
    if (dir) tp_buf_printf(b, "%s", dir);
    else if (tp__os_folder_variable("TP_DATA", place, sizeof place)) tp_buf_printf(b, "%s/%s", place, tp_folder);
    else if (tp__os_folder_variable("TENSORPACK_DATASET", place, sizeof place))
        tp_buf_printf(b, "%s/%s", place, tensorpack_folder);
    else if (tp__os_home(place, sizeof place)) tp_buf_printf(b, "%s/tensorpack_data/%s", place, tensorpack_folder);
    else tp_buf_printf(b, "./tensorpack_data/%s", tensorpack_folder);
}

TP_DEF tp_dataflow *tp_df_mnist_(const tp_df_mnist_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    bool train;
    if (!tp__train_or_test(d->which, &train))
        return tp_df_fail(&d->at_, TP_ERR_ARG, "tp_df_mnist: \"%s\" is neither \"train\" nor \"test\"",
                          d->which ? d->which : "NULL");
    tp_dataflow *df = tp__rows_new("tp_df_mnist", 2, d->seed);
    if (!df) return NULL;
    tp__rows_flow *f = (tp__rows_flow *)df->user;
    const char *const file[2][2] = {{"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"},
                                    {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"}};
    tp_status st = TP_OK;
    for (int j = 0; j < 2 && st == TP_OK; j++) {
        tp_buf path = {NULL, 0, 0, false};
        tp__data_dir(&path, d->dir, "mnist", "mnist_data");
        tp_buf_printf(&path, "/%s", file[train][j]);
        st = path.failed ? tp_fail(TP_ERR_NOMEM, "out of memory for the name of a file")
                         : tp__idx_load_either(path.data, &f->array[j]);
        if (st == TP_ERR_IO && !d->dir)
            st = tp_fail(st, "%s. The folder of the data is .dir, or else $TP_DATA/mnist", tp_last_error());
        if (st == TP_OK && (f->array[j].dtype != TP_U8 || f->array[j].shape.ndim != (j ? 1 : 3))) {
            char t[TP_SHAPE_TEXT];
            st = tp_fail(TP_ERR_FORMAT, "%s holds %s %s, MNIST has %s there", path.data,
                         tp_dtype_name(f->array[j].dtype), tp_shape_text(&f->array[j].shape, t),
                         j ? "uint8 labels (N)" : "uint8 images (N,H,W)");
        }
        tp_buf_free(&path);
    }
    f->kind[0] = TP__ROW_UNIT;
    f->kind[1] = TP__ROW_I32;
    if (st == TP_OK) st = tp__rows_ready(df, file[train], d->shuffle);
    if (st == TP_OK) return df;
    tp__df_delete(df);
    return tp__df_failed(&d->at_, st);
}

/* -- from_generator ---- >>df from_generator */

typedef struct tp__generator_flow {
    tp_df_from_generator_desc d;
    int64_t index;
} tp__generator_flow;

static tp_status tp__generator_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__generator_flow *f = (tp__generator_flow *)df->user;
    if (f->d.indexed == TP_YES && f->index >= f->d.size) return TP_END;
    tp_status st = f->d.fn(f->d.user, df->pass_, f->index, dp);
    if (st <= TP_OK) f->index++; /* as every flow, it goes on behind what failed */
    return st;
}
static tp_status tp__generator_restart(tp_dataflow *df, int64_t pass)
{
    ((tp__generator_flow *)df->user)->index = 0;
    (void)pass;
    return TP_OK;
}
static int64_t tp__generator_size(tp_dataflow *df)
{
    const int64_t n = ((const tp__generator_flow *)df->user)->d.size;
    return n > 0 ? n : -1;
}
static tp_status tp__generator_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    tp__generator_flow *f = (tp__generator_flow *)df->user;
    *skipped = n < f->d.size - f->index ? n : f->d.size - f->index;
    f->index += *skipped;
    return TP_OK;
}
static void tp__generator_close(tp_dataflow *df)
{
    const tp__generator_flow *f = (const tp__generator_flow *)df->user;
    if (f->d.release) f->d.release(f->d.user);
}

TP_DEF tp_dataflow *tp_df_from_generator_(const tp_df_from_generator_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    tp_dataflow *df = NULL;
    if (!d->fn) df = tp_df_fail(&d->at_, TP_ERR_ARG, "tp_df_from_generator: the function is NULL");
    else if (d->indexed == TP_YES && d->size < 1)
        df = tp_df_fail(&d->at_, TP_ERR_ARG,
                        "tp_df_from_generator: .indexed needs .size, the datapoints of a pass, which is %lld",
                        (long long)d->size);
    else if (d->size < -1)
        df = tp_df_fail(&d->at_, TP_ERR_ARG, "tp_df_from_generator: .size is %lld datapoints: 0 or -1 is unknown",
                        (long long)d->size);
    else df = tp_df_new("tp_df_from_generator", sizeof(tp__generator_flow), 0);
    if (!df || df->next) { /* the arguments were wrong: release what the flow would have owned */
        if (d->release) d->release(d->user);
        return df;
    }
    tp__generator_flow *f = (tp__generator_flow *)df->user;
    f->d = *d;
    df->next = tp__generator_next;
    df->restart = tp__generator_restart;
    df->size = tp__generator_size;
    if (d->indexed == TP_YES) df->seek = tp__generator_seek;
    df->seek_advice_ =
        "set its .indexed = TP_YES and .size to skip them, if a datapoint depends on nothing but (pass, index)";
    df->close = tp__generator_close;
    return df;
}

/* -- fake ---- >>df fake */

typedef struct tp__fake_flow {
    tp__order order;
    tp_type *type;
    int n;
    bool random;
    float low, high;
} tp__fake_flow;

/* Element i is lane i%4 of random block i/4, as in all random tensors; each block is computed as a whole. What rounding makes high is
 * the float below it: an integer that is high may be a class too many. */
static void tp__fake_fill(tp_tensor *t, uint64_t key, uint64_t step, float low, float high)
{
    const int64_t n = tp_tensor_size(t);
    const float span = high - low, most = span > 0 ? nextafterf(high, low) : high;
    const size_t width = tp_dtype_size(t->dtype);
    for (int64_t i = 0; i < n; i += 4) {
        uint32_t r[4];
        float v[4];
        tp_philox(key, (uint64_t)i / 4, step, r);
        for (int k = 0; k < 4; k++) {
            v[k] = (float)tp__mul_add((double)(r[k] >> 8) / 16777216.0, span, low);
            if (v[k] > most) v[k] = most;
        }
        tp_convert((char *)t->data + (size_t)i * width, t->dtype, v, TP_F32, n - i < 4 ? n - i : 4);
    }
}

static tp_status tp__fake_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__fake_flow *f = (tp__fake_flow *)df->user;
    const int64_t i = tp__order_take(&f->order);
    if (i < 0) return TP_END;
    tp_status st = tp_datapoint_resize(dp, f->n);
    for (int j = 0; j < f->n && st == TP_OK; j++) {
        st = tp_tensor_resize(&dp->c[j], f->type[j].dtype, f->type[j].shape);
        if (st == TP_OK)
            tp__fake_fill(&dp->c[j], tp_random_key(f->order.key, (uint64_t)j), f->random ? (uint64_t)i : 0, f->low,
                          f->high);
    }
    return st;
}
static void tp__fake_close(tp_dataflow *df) { tp_free(((tp__fake_flow *)df->user)->type); }

TP_DEF tp_dataflow *tp_df_fake_(const tp_df_fake_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    if (d->n < 1 || !d->specs) return tp_df_fail(&d->at_, TP_ERR_ARG, "tp_df_fake: needs at least one component");
    if (d->size < TP_NONE) return tp_df_fail(&d->at_, TP_ERR_ARG, "tp_df_fake: size is %lld", (long long)d->size);
    for (int j = 0; j < d->n; j++) {
        char t[TP_SHAPE_TEXT];
        if (!tp_shape_known(&d->specs[j].shape))
            return tp_df_fail(&d->at_, TP_ERR_SHAPE, "tp_df_fake: component %d has shape %s: give every dimension", j,
                              tp_shape_text(&d->specs[j].shape, t));
    }
    const bool is_unit_range = d->low == 0.0f && d->high == 0.0f;
    const float low = tp__float_option(d->low, 0.0f), high = is_unit_range ? 1.0f : tp__float_option(d->high, 0.0f);
    if (!(low <= high && tp__finite((double)(high - low))))
        return tp_df_fail(&d->at_, TP_ERR_ARG,
                          "tp_df_fake: low is %g and high %g: both must be finite, and high not below low", (double)low,
                          (double)high);
    tp_dataflow *df = tp_df_new("tp_df_fake", sizeof(tp__fake_flow), d->seed);
    if (!df) return NULL;
    tp__fake_flow *f = (tp__fake_flow *)df->user;
    df->next = tp__fake_next;
    df->restart = tp__ordered_restart;
    df->size = tp__ordered_size;
    df->seek = tp__ordered_seek;
    df->close = tp__fake_close;
    f->type = (tp_type *)tp_calloc((size_t)d->n, sizeof(tp_type));
    f->n = d->n;
    if (!f->type) {
        tp__df_delete(df);
        return NULL;
    }
    for (int j = 0; j < d->n; j++) {
        f->type[j].dtype = d->specs[j].dtype == TP_DTYPE_UNSET ? TP_F32 : d->specs[j].dtype;
        f->type[j].shape = d->specs[j].shape;
    }
    f->order.n = tp__int_option(d->size, 1000);
    f->random = tp__tri_is_yes(d->random, true);
    f->low = low;
    f->high = high;
    return df;
}

TP__COLD_BEGIN /* compiled for size, because each image is drawn only once */

/* -- digits ---- >>df digits
 * A glyph is a few strokes; a stroke is a curve (c: Catmull-Rom through its points) or straight lines (l).
 * Points are in a box of 100 by 100, x to the right and y down. All arithmetic on positions is in integers,
 * so that an image has the same bits on every machine: positions in 1/4096 pixel, distances in 1/64. */

#define TP__SIDE   28
#define TP__PIXELS (TP__SIDE * TP__SIDE)
/* 1/100 of the width of the glyph's box (20 pixels), in units of 1/4096 pixel; coordinates of strokes are in this unit */
#define TP__UNIT      819
#define TP__MAX_KNOTS 24 /* maximum number of points of a stroke */
#define TP__SPLIT     4  /* number of segments between two points of a curve */

    typedef struct tp__glyph {
    int digit;
    const char *strokes;
} tp__glyph;
static const tp__glyph tp__glyphs[] = {
    {0, "c 50 5 30 16 20 50 30 84 50 95 70 84 80 50 70 16 50 5"},
    {0, "c 60 8 38 12 24 44 26 80 46 95 68 82 78 48 68 16 44 8"},
    {0, "c 54 6 38 20 33 52 40 86 52 95 66 80 68 48 62 18 50 6"},
    {1, "l 50 4 50 96"},
    {1, "l 34 24 52 5 52 95"},
    {1, "l 32 24 52 5 52 95 l 30 95 74 95"},
    {1, "c 62 4 52 48 42 96"},
    {2, "c 22 28 32 9 54 5 75 18 72 40 50 66 22 94 l 22 94 80 93"},
    {2, "c 24 22 44 5 68 10 72 34 54 64 34 88 22 86 28 74 46 80 62 93 84 86"},
    {2, "c 26 14 60 6 76 22 62 50 40 76 22 94 l 22 94 78 90"},
    {3, "c 24 14 50 4 73 18 68 38 44 47 c 44 47 74 54 77 78 52 96 22 86"},
    {3, "l 22 8 74 8 44 42 c 44 42 73 50 76 76 50 96 22 86"},
    {3, "c 26 10 58 4 70 22 56 42 38 46 c 38 46 66 48 74 70 58 92 24 94"},
    {4, "l 30 8 24 56 80 56 l 64 8 64 95"},
    {4, "l 64 95 64 6 20 64 84 64"},
    {4, "c 27 8 24 38 34 54 54 55 73 46 c 74 6 71 46 64 96"},
    {5, "l 76 8 32 8 28 44 c 28 44 52 36 75 52 73 82 48 96 22 86"},
    {5, "c 32 10 30 28 29 45 50 40 72 54 72 80 48 95 22 86 l 32 10 76 6"},
    {5, "c 76 6 52 8 36 12 30 40 46 42 66 56 64 82 42 95 24 90"},
    {6, "c 68 6 40 24 24 58 32 88 56 94 74 76 64 56 44 54 28 68"},
    {6, "c 46 4 30 36 25 72 40 94 66 90 73 68 56 55 36 62 27 76"},
    {6, "c 74 10 48 12 28 40 24 72 40 93 66 92 76 74 64 58 42 60 28 74"},
    {7, "l 22 10 78 10 44 96"},
    {7, "l 22 12 78 8 46 95 l 34 52 70 50"},
    {7, "c 21 18 40 9 78 10 62 38 50 66 45 96"},
    {7, "l 22 26 24 8 77 9 42 95"},
    {8, "c 50 48 30 34 30 14 50 5 70 14 70 34 50 48 26 66 27 87 50 95 74 87 74 66 50 48"},
    {8, "c 74 16 52 5 30 18 36 40 60 56 72 78 52 95 28 80 36 58 60 42 72 24 66 10"},
    {8, "c 50 5 34 14 34 36 50 46 66 36 66 14 50 5 c 50 46 28 58 28 86 50 95 72 86 72 58 50 46"},
    {9, "c 74 24 58 7 34 11 25 34 38 52 60 48 74 26 c 74 26 71 60 62 96"},
    {9, "c 72 14 48 6 28 22 30 44 50 52 70 38 72 14 l 72 14 72 95"},
    {9, "c 74 26 54 8 32 14 27 36 42 50 64 44 74 26 c 74 26 76 62 66 88 46 95 28 86"}};

/* A source of random numbers for one image, used in order. */
typedef struct tp__dice {
    uint64_t key, index, block;
    uint32_t r[4];
    int left;
} tp__dice;
static uint32_t tp__dice_next(tp__dice *d)
{
    if (d->left == 0) {
        tp_philox(d->key, d->block++, d->index, d->r);
        d->left = 4;
    }
    return d->r[--d->left];
}
/* Returns a uniform number in [-range, range]. */
static int tp__dice_uniform(tp__dice *d, int range)
{
    return (int)((uint64_t)tp__dice_next(d) * (2 * (uint64_t)range + 1) >> 32) - range;
}
/* Returns an approximately normal number with standard deviation 0.29*range, never beyond range: the sum of four bytes. */
static int tp__dice_normal(tp__dice *d, int range)
{
    const uint32_t r = tp__dice_next(d);
    const int sum = (int)((r & 255) + (r >> 8 & 255) + (r >> 16 & 255) + (r >> 24)) - 510;
    return sum * range / 510;
}

/* The deformation of one image: an affine map (12 bits of fraction), a shift, and an elastic displacement, interpolated between the
 * corners of a 4 by 4 grid. */
typedef struct tp__bend {
    int a, b, c, d, dx, dy;
    int grid_dx[4][4], grid_dy[4][4];
} tp__bend;

static void tp__bend_randomize(tp__bend *m, tp__dice *dice)
{
    const int angle = tp__dice_normal(dice, 2400); /* rotation in radians; at most 34 degrees */
    const int slant = tp__dice_normal(dice, 3000);
    const int sx = 4096 + tp__dice_normal(dice, 1260), sy = 4096 + tp__dice_normal(dice, 840);
    const int cosine = 4096 - angle * angle / 8192;
    const int sine = angle - (int)((int64_t)angle * angle * angle / (6 << 24));
    /* the affine map: rotation * (scale, slant) */
    m->a = cosine * sx / 4096;
    m->c = sine * sx / 4096;
    m->b = (-cosine * slant / 4096 - sine) * (sy / 8) / 512;
    m->d = (-sine * slant / 4096 + cosine) * (sy / 8) / 512;
    m->dx = tp__dice_normal(dice, 14000);
    m->dy = tp__dice_normal(dice, 11200);
    for (int y = 0; y < 4; y++)
        for (int x = 0; x < 4; x++) {
            m->grid_dx[y][x] = tp__dice_normal(dice, 15000);
            m->grid_dy[y][x] = tp__dice_normal(dice, 15000);
        }
}

/* Maps a point relative to the glyph's middle to the image; both in 1/4096 pixel. */
static void tp__bend_point(const tp__bend *m, int x, int y, int *ox, int *oy)
{
    const int cell = 32768, half = 3 * cell / 2; /* the grid of the elastic displacement spans 24 pixels, 8 per cell */
    int u = x + half, v = y + half;
    u = u < 0 ? 0 : u > 3 * cell - 1 ? 3 * cell - 1 : u;
    v = v < 0 ? 0 : v > 3 * cell - 1 ? 3 * cell - 1 : v;
    /* fractions within a grid cell, with 9 bits */
    const int i = u / cell, j = v / cell, fu = (u % cell) >> 6, fv = (v % cell) >> 6;
    const int wx = (m->grid_dx[j][i] * (512 - fu) + m->grid_dx[j][i + 1] * fu) / 512 * (512 - fv) +
                   (m->grid_dx[j + 1][i] * (512 - fu) + m->grid_dx[j + 1][i + 1] * fu) / 512 * fv;
    const int wy = (m->grid_dy[j][i] * (512 - fu) + m->grid_dy[j][i + 1] * fu) / 512 * (512 - fv) +
                   (m->grid_dy[j + 1][i] * (512 - fu) + m->grid_dy[j + 1][i + 1] * fu) / 512 * fv;
    const int64_t px = x + wx / 512, py = y + wy / 512;
    *ox = (int)((m->a * px + m->b * py) / 4096) + m->dx + 14 * 4096;
    *oy = (int)((m->c * px + m->d * py) / 4096) + m->dy + 14 * 4096;
}

/* Computes squared distances to the segment, for the pixels within `margin`; all in 1/64 pixel. `near` keeps the minimum for each
 * pixel. */
static void tp__draw_segment(int32_t *near, int ax, int ay, int bx, int by, int margin)
{
    const int x0 = ((ax < bx ? ax : bx) - margin - 32) / 64, x1 = ((ax > bx ? ax : bx) + margin - 32) / 64 + 1;
    const int y0 = ((ay < by ? ay : by) - margin - 32) / 64, y1 = ((ay > by ? ay : by) + margin - 32) / 64 + 1;
    const int ex = bx - ax, ey = by - ay, length2 = ex * ex + ey * ey;
    const int64_t inverse = length2 ? ((int64_t)1 << 32) / length2 : 0;
    for (int y = y0 < 0 ? 0 : y0; y <= y1 && y < TP__SIDE; y++)
        for (int x = x0 < 0 ? 0 : x0; x <= x1 && x < TP__SIDE; x++) {
            const int px = 64 * x + 32 - ax, py = 64 * y + 32 - ay, dot = px * ex + py * ey;
            int64_t d2;
            if (dot <= 0) {
                d2 = px * px + py * py;
            } else if (dot >= length2) {
                d2 = (px - ex) * (px - ex) + (py - ey) * (py - ey);
            } else {
                const int64_t cross = px * ey - py * ex;
                /* the square of `cross` is at most length2 times the squared distance: far below 2^63 */
                d2 = cross * cross * inverse >> 32;
            }
            if (d2 < near[y * TP__SIDE + x]) near[y * TP__SIDE + x] = (int32_t)d2;
        }
}

/* Computes the point k/4 of the way from p1 to p2 on the Catmull-Rom spline, exact in integers. */
static int tp__spline(int p0, int p1, int p2, int p3, int k)
{
    return (128 * p1 + (p2 - p0) * 16 * k + (2 * p0 - 5 * p1 + 4 * p2 - p3) * 4 * k * k +
            (3 * p1 - p0 - 3 * p2 + p3) * k * k * k) /
           128;
}

static const char *tp__number(const char *s, int *v)
{
    while (*s == ' ') s++;
    for (*v = 0; *s >= '0' && *s <= '9'; s++) *v = 10 * *v + (*s - '0');
    return s;
}

/* Draws image `index` of the set with this key: 784 bytes; returns its label. */
static int tp__draw_digit(uint64_t key, uint64_t index, unsigned char *image)
{
    tp__dice dice;
    memset(&dice, 0, sizeof dice);
    dice.key = key;
    dice.index = index;

    /* 1. the digit, its style, its deformation, and the pen */
    const int digit = (int)((uint64_t)tp__dice_next(&dice) * 10 >> 32);
    int first = 0, styles = 0;
    for (int i = 0; i < TP_COUNT(tp__glyphs); i++) {
        if (tp__glyphs[i].digit < digit) first = i + 1;
        if (tp__glyphs[i].digit == digit) styles++;
    }
    const char *s = tp__glyphs[first + (int)((uint64_t)tp__dice_next(&dice) * (uint64_t)styles >> 32)].strokes;
    tp__bend bend;
    tp__bend_randomize(&bend, &dice);
    const int thickness = tp__dice_normal(&dice, 64);
    const int radius = 84 + (thickness < 0 ? thickness / 2 : thickness); /* radius of the pen, 1/64 pixel */
    const int brightness = 235 + tp__dice_uniform(&dice, 20);

    /* 2. the strokes: the distance of each pixel to the nearest stroke */
    int32_t near[TP__PIXELS];
    for (int i = 0; i < TP__PIXELS; i++) near[i] = INT32_MAX;
    while (*s) {
        const bool curve = *s++ == 'c';
        int x[TP__MAX_KNOTS], y[TP__MAX_KNOTS], n = 0;
        while (*s && *s != 'c' && *s != 'l' && n < TP__MAX_KNOTS) {
            s = tp__number(s, &x[n]);
            s = tp__number(s, &y[n]);
            while (*s == ' ') s++;
            /* random shifts of the points, as in handwriting */
            x[n] = (x[n] - 50) * TP__UNIT + tp__dice_normal(&dice, 14000);
            y[n] = (y[n] - 50) * TP__UNIT + tp__dice_normal(&dice, 14000);
            n++;
        }
        int ax = 0, ay = 0;
        for (int i = 0; i < n; i++)
            for (int k = 0; k < TP__SPLIT && (k == 0 || i + 1 < n); k++) {
                const int h = i > 0 ? i - 1 : i, j = i + 1 < n ? i + 1 : i, l = i + 2 < n ? i + 2 : j;
                int bx, by;
                if (curve) {
                    bx = tp__spline(x[h], x[i], x[j], x[l], k);
                    by = tp__spline(y[h], y[i], y[j], y[l], k);
                } else {
                    bx = x[i] + (x[j] - x[i]) / TP__SPLIT * k;
                    by = y[i] + (y[j] - y[i]) / TP__SPLIT * k;
                }
                tp__bend_point(&bend, bx, by, &bx, &by);
                bx /= 64;
                by /= 64;
                if (i > 0 || k > 0) tp__draw_segment(near, ax, ay, bx, by, radius + 40);
                ax = bx;
                ay = by;
            }
    }

    /* 3. ink: full within the pen's radius, fading over one pixel, slightly uneven */
    for (int i = 0; i < TP__PIXELS; i++) {
        image[i] = 0;
        if (near[i] >= (radius + 32) * (radius + 32)) continue;
        int v = (int)(((float)(radius + 32) - sqrtf((float)near[i])) * 4.0f);
        v = (v > 255 ? 255 : v) * brightness / 255 + tp__dice_normal(&dice, 36);
        image[i] = (unsigned char)(v < 0 ? 0 : v > 255 ? 255 : v);
    }
    return digit;
}

typedef struct tp__digits_flow {
    tp__order order;
    uint64_t data_set_key; /* random key of the data set */
    unsigned char *bytes;  /* images drawn so far: label + 1 (0: not drawn yet), then the image; NULL: none are kept */
    unsigned char one[1 + TP__PIXELS];
} tp__digits_flow;

static tp_status tp__digits_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__digits_flow *f = (tp__digits_flow *)df->user;
    const int64_t i = tp__order_take(&f->order), side[2] = {TP__SIDE, TP__SIDE};
    if (i < 0) return TP_END;
    unsigned char *row = f->bytes ? f->bytes + (size_t)i * sizeof f->one : f->one;
    if (!f->bytes || row[0] == 0) row[0] = (unsigned char)(1 + tp__draw_digit(f->data_set_key, (uint64_t)i, row + 1));
    tp_status st = tp_datapoint_resize(dp, 2);
    if (st == TP_OK) st = tp__bytes_to_unit(&dp->c[0], tp_make_shape_n(2, side), row + 1);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[1], TP_I32, tp_make_shape_n(0, NULL));
    if (st == TP_OK) *(int32_t *)dp->c[1].data = row[0] - 1;
    return st;
}

static void tp__digits_close(tp_dataflow *df)
{
    const tp__digits_flow *f = (const tp__digits_flow *)df->user;
    tp_free(f->order.at);
    tp_free(f->bytes);
}

TP_DEF tp_dataflow *tp_df_digits_(const tp_df_digits_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    bool train;
    if (!tp__train_or_test(d->which, &train))
        return tp_df_fail(&d->at_, TP_ERR_ARG, "tp_df_digits: \"%s\" is neither \"train\" nor \"test\"",
                          d->which ? d->which : "NULL");
    if (d->size < TP_NONE) return tp_df_fail(&d->at_, TP_ERR_ARG, "tp_df_digits: size is %lld", (long long)d->size);
    tp_dataflow *df = tp_df_new("tp_df_digits", sizeof(tp__digits_flow), d->seed);
    if (!df) return NULL;
    tp__digits_flow *f = (tp__digits_flow *)df->user;
    df->next = tp__digits_next;
    df->restart = tp__ordered_restart;
    df->size = tp__ordered_size;
    df->seek = tp__ordered_seek;
    df->close = tp__digits_close;
    f->data_set_key = tp_random_key(df->seed, tp_hash_name(train ? "digits/train" : "digits/test"));
    const int64_t usual = train ? 12000 : 2000;
    tp_status st = tp__order_init(&f->order, tp__int_option(d->size, usual), tp__tri_is_yes(d->shuffle, true));
    if (st == TP_OK && f->order.n > 0 &&
        /* 80 MB: in a larger set, drawing an image again is better than keeping all images in memory */
        f->order.n <= 100000) {
        f->bytes = (unsigned char *)tp_calloc((size_t)f->order.n, sizeof f->one);
        if (!f->bytes) st = TP_ERR_NOMEM;
    }
    if (st == TP_OK) return df;
    tp__df_delete(df);
    return tp__df_failed(&d->at_, st);
}

TP__COLD_END

/* ==== >>transformations =============================================================================== */

/* -- batch ---- >>df batch */

typedef struct tp__batch_flow {
    tp_dataflow *df;
    int64_t batch, index; /* batch size; number of batches given in this pass */
    bool remainder;
    tp_datapoint in;
    tp_datapoint *unlike; /* with .pad: the datapoints of a batch before they are padded; else NULL */
    double pad_value;
} tp__batch_flow;

/* Copies `in` to row `row` of the `rows` rows of dp, which is batch number `index` of the flow `name`. */
static tp_status tp__batch_put(const char *name, tp_datapoint *dp, const tp_datapoint *in, int64_t row, int64_t rows,
                               int64_t index)
{
    if (row > 0 && in->n != dp->n)
        return tp_fail(TP_ERR_SHAPE, "%s: datapoint %lld of batch %lld has %d components, the first has %d", name,
                       (long long)row, (long long)index, in->n, dp->n);
    tp_status st = row > 0 ? TP_OK : tp_datapoint_resize(dp, in->n);
    for (int j = 0; j < in->n && st == TP_OK; j++) {
        const tp_tensor *x = &in->c[j];
        tp_tensor *y = &dp->c[j];
        if (row == 0) {
            if (x->shape.ndim >= TP_MAX_DIMS)
                return tp_fail(TP_ERR_SHAPE, "%s: component %d has %d dimensions already, %d is the most", name, j,
                               x->shape.ndim, TP_MAX_DIMS);
            tp_shape s;
            s.ndim = x->shape.ndim + 1;
            s.dim[0] = rows;
            for (int k = 0; k < x->shape.ndim; k++) s.dim[k + 1] = x->shape.dim[k];
            st = tp_tensor_resize(y, x->dtype, s);
            if (st != TP_OK) return st;
        } else {
            const tp_shape expected = tp__row_shape(&y->shape);
            char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
            if (x->dtype != y->dtype || !tp_shape_equal(&x->shape, &expected))
                return tp_fail(x->dtype != y->dtype ? TP_ERR_DTYPE : TP_ERR_SHAPE,
                               "%s: component %d of datapoint %lld of batch %lld is %s %s, in the first it is %s %s: "
                               "make them alike with tp_df_map_component%s",
                               name, j, (long long)row, (long long)index, tp_dtype_name(x->dtype),
                               tp_shape_text(&x->shape, a), tp_dtype_name(y->dtype), tp_shape_text(&expected, b),
                               x->dtype == y->dtype && x->shape.ndim == expected.ndim
                                   ? ", or let .pad = TP_YES of tp_df_batch fill the shorter ones up"
                                   : "");
        }
        const size_t bytes = tp_tensor_bytes(x);
        if (bytes) memcpy((char *)y->data + (size_t)row * bytes, x->data, bytes);
    }
    return st;
}

/* Fills n bytes with copies of a value of `size` bytes, each time as many as there are already. n is a multiple of size. */
static void tp__pad_fill(uint8_t *y, size_t n, const void *value, size_t size)
{
    if (n > 0) memcpy(y, value, size);
    for (size_t done = size; done < n; done *= 2) memcpy(y + done, y, n - done < done ? n - done : done);
}

/* Copies x into the corner of the block y of `bytes`, which is as large along each axis, or larger; the rest becomes copies of the pad
 * value. */
static void tp__copy_corner(uint8_t *y, size_t bytes, const tp_shape *large, const tp_tensor *x, const void *pad)
{
    const size_t size = tp_dtype_size(x->dtype);
    const uint8_t *from = (const uint8_t *)x->data;
    int64_t at[TP_MAX_DIMS] = {0};
    int last = x->shape.ndim - 1;
    size_t inner = size, done = 0; /* inner: bytes of the axes after `last`, where x is as large as y */
    for (; last > 0 && x->shape.dim[last] == large->dim[last]; last--) inner *= (size_t)x->shape.dim[last];
    const size_t run = (last >= 0 ? (size_t)x->shape.dim[last] : 1) * inner;
    for (size_t left = tp_tensor_bytes(x); left > 0; left -= run, from += run) {
        int64_t row = 0;
        for (int k = 0; k <= last; k++) row = row * large->dim[k] + at[k];
        const size_t to = (size_t)row * inner;
        tp__pad_fill(y + done, to - done, pad, size);
        memcpy(y + to, from, run);
        done = to + run;
        for (int k = last - 1; k >= 0 && ++at[k] == x->shape.dim[k]; k--) at[k] = 0;
    }
    tp__pad_fill(y + done, bytes - done, pad, size);
}

/* Makes component j of dp from those of n datapoints of different shapes: rows as large as the largest along each axis. */
static tp_status tp__batch_pad(const tp_dataflow *df, tp_datapoint *dp, int j, int64_t n)
{
    const tp__batch_flow *f = (const tp__batch_flow *)df->user;
    const tp_tensor *first = &f->unlike[0].c[j];
    tp_tensor pad, *y = &dp->c[j];
    tp_shape rows;
    rows.ndim = first->shape.ndim + 1;
    rows.dim[0] = n;
    if (rows.ndim > TP_MAX_DIMS)
        return tp_fail(TP_ERR_SHAPE, "%s: component %d has %d dimensions already, %d is the most", df->name, j,
                       first->shape.ndim, TP_MAX_DIMS);
    for (int k = 1; k < rows.ndim; k++) rows.dim[k] = 0;
    for (int64_t i = 0; i < n; i++) {
        const tp_tensor *x = &f->unlike[i].c[j];
        char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
        if (x->dtype != first->dtype || x->shape.ndim != first->shape.ndim)
            return tp_fail(x->dtype != first->dtype ? TP_ERR_DTYPE : TP_ERR_SHAPE,
                           "%s: component %d of datapoint %lld of batch %lld is %s %s, in the first it is %s %s: .pad "
                           "needs one type and as many axes",
                           df->name, j, (long long)i, (long long)f->index, tp_dtype_name(x->dtype),
                           tp_shape_text(&x->shape, a), tp_dtype_name(first->dtype), tp_shape_text(&first->shape, b));
        for (int k = 1; k < rows.ndim; k++)
            if (x->shape.dim[k - 1] > rows.dim[k]) rows.dim[k] = x->shape.dim[k - 1];
    }
    tp_status st = tp_tensor_resize(y, first->dtype, rows);
    if (st != TP_OK) return st;
    const tp_shape row = tp__row_shape(&rows);
    const size_t bytes = tp_tensor_bytes(y) / (size_t)n;
    uint64_t value[2] = {0, 0}; /* memory for one element */
    tp_tensor_view(&pad, y->dtype, tp_make_shape_n(0, NULL), value);
    tp_tensor_set(&pad, 0, f->pad_value);
    for (int64_t i = 0; i < n; i++) {
        uint8_t *to = (uint8_t *)y->data + (size_t)i * bytes;
        const tp_tensor *x = &f->unlike[i].c[j];
        const bool smaller = tp_tensor_bytes(x) < bytes;
        if (smaller && !tp_dtype_is_float(y->dtype) && tp_tensor_get(&pad, 0) != f->pad_value)
            return tp_fail(TP_ERR_DTYPE, "%s: component %d is %s, which has no value %g (.pad_value)", df->name, j,
                           tp_dtype_name(y->dtype), f->pad_value);
        tp__copy_corner(to, bytes, &row, x, value);
    }
    return TP_OK;
}

static tp_status tp__batch_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__batch_flow *f = (tp__batch_flow *)df->user;
    int64_t row = 0;
    for (; row < f->batch; row++) {
        tp_status st = tp_df_next(f->df, &f->in);
        if (st == TP_END) break;
        if (st == TP_OK && f->unlike) st = tp_datapoint_copy(&f->unlike[row], &f->in);
        else if (st == TP_OK) st = tp__batch_put(df->name, dp, &f->in, row, f->batch, f->index);
        if (st == TP_OK && f->unlike && f->in.n != f->unlike[0].n)
            st = tp_fail(TP_ERR_SHAPE, "%s: datapoint %lld of batch %lld has %d components, the first has %d", df->name,
                         (long long)row, (long long)f->index, f->in.n, f->unlike[0].n);
        if (st != TP_OK) return st;
    }
    if (row == 0 || (row < f->batch && !f->remainder)) return TP_END;
    tp_status st = f->unlike ? tp_datapoint_resize(dp, f->unlike[0].n) : TP_OK;
    for (int j = 0; j < dp->n && st == TP_OK; j++) {
        if (f->unlike) st = tp__batch_pad(df, dp, j, row);
        else dp->c[j].shape.dim[0] = row;
    }
    if (st == TP_OK) f->index++;
    return st;
}
static tp_status tp__batch_restart(tp_dataflow *df, int64_t pass)
{
    tp__batch_flow *f = (tp__batch_flow *)df->user;
    f->index = 0;
    return tp_df_restart(f->df, pass);
}
static int64_t tp__batch_size(tp_dataflow *df)
{
    const tp__batch_flow *f = (const tp__batch_flow *)df->user;
    const int64_t n = tp_df_size(f->df);
    return n < 0 ? -1 : n / f->batch + (f->remainder && n % f->batch);
}
/* Returns how many datapoints at the end of a pass fill no batch and are not given; 0 if df is no tp_df_batch, or of unknown size. */
TP__UNUSED static int64_t tp__batch_dropped(const tp_dataflow *df)
{
    const tp__batch_flow *f = (const tp__batch_flow *)df->user;
    if (df->size != tp__batch_size || f->remainder) return 0;
    const int64_t n = tp_df_size(f->df);
    return n < 0 ? 0 : n % f->batch;
}
static tp_status tp__batch_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    tp__batch_flow *f = (tp__batch_flow *)df->user;
    int64_t k = 0;
    tp_status st = tp_df_seek(f->df, n > INT64_MAX / f->batch ? INT64_MAX : n * f->batch, &k);
    *skipped = k / f->batch + (st == TP_OK && f->remainder && k % f->batch); /* a batch that failed is not skipped */
    f->index += *skipped;
    return st;
}
static void tp__batch_close(tp_dataflow *df)
{
    tp__batch_flow *f = (tp__batch_flow *)df->user;
    tp__df_delete(f->df);
    tp_datapoint_free(&f->in);
    for (int64_t i = 0; f->unlike && i < f->batch; i++) tp_datapoint_free(&f->unlike[i]);
    tp_free(f->unlike);
}

TP_DEF tp_dataflow *tp_df_batch_(const tp_df_batch_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    tp_dataflow *df;
    if (!tp__df_around(&d->at_, d->df, "tp_df_batch", sizeof(tp__batch_flow), 0, &df)) return df;
    tp__batch_flow *f = (tp__batch_flow *)df->user;
    f->df = d->df;
    f->batch = d->batch_size;
    f->remainder = tp__tri_is_yes(d->remainder, false);
    df->next = tp__batch_next;
    df->restart = tp__batch_restart;
    df->size = tp__batch_size;
    df->seek = tp__batch_seek;
    df->close = tp__batch_close;
    const int64_t n = d->df->endless_ ? -1 : tp_df_size(d->df);
    if (d->batch_size < 1)
        return TP__REFUSE(df, &d->at_, TP_ERR_ARG, "tp_df_batch: batch_size is %lld, it must be at least 1",
                          (long long)d->batch_size);
    if (!f->remainder && n >= 0 && n < d->batch_size)
        return TP__REFUSE(df, &d->at_, TP_ERR_ARG,
                          "tp_df_batch: batch_size is %lld but there are only %lld datapoints: make it smaller or set "
                          ".remainder = TP_YES",
                          (long long)d->batch_size, (long long)n);
    if (d->pad_value != 0 && !tp__tri_is_yes(d->pad, false))
        return TP__REFUSE(df, &d->at_, TP_ERR_ARG, "tp_df_batch: .pad_value is %g, but .pad is not TP_YES",
                          d->pad_value);
    f->pad_value = d->pad_value;
    if (!tp__tri_is_yes(d->pad, false)) return df;
    if (!(f->unlike = (tp_datapoint *)tp_calloc((size_t)d->batch_size, sizeof *f->unlike)))
        return TP__REFUSE(df, &d->at_, TP_ERR_NOMEM, "out of memory for a batch of %lld", (long long)d->batch_size);
    return df;
}

/* -- map, map_component, cast ---- >>df map */

typedef struct tp__map_flow {
    tp_dataflow *df;
    tp_map_fn fn;                     /* function that maps the whole datapoint; or NULL */
    tp_map_component_fn component_fn; /* function that maps component number `component` */
    int component;
    tp_map_call call;
    void (*release)(void *user);
    tp_datapoint in;
} tp__map_flow;

/* A checksum of all components. A function that writes into a view changes the data of the flow below, each time that it is called: the
 * flows that map compare the sums before and after the first call of a pass. */
static uint32_t tp__datapoint_sum(const tp_datapoint *dp)
{
    uint32_t sum = 0;
    for (int i = 0; i < dp->n; i++)
        if (dp->c[i].data)
            sum = tp_crc32c(sum, dp->c[i].data, (size_t)tp_tensor_size(&dp->c[i]) * tp_dtype_size(dp->c[i].dtype));
    return sum;
}
static tp_status tp__map_wrote(const tp_dataflow *df)
{
    return tp_fail(TP_ERR_ARG,
                   "%s: the function wrote into the datapoint that it reads: `out` begins as a view of it; call "
                   "tp_tensor_resize for each component of `out` before you fill it",
                   df->name);
}

/* For a datapoint that a function drops although the program said that it keeps all. A worker of tp_df_multi_process seeks past
 * the datapoints of the others, so that its numbers are wrong from there on: it fails. */
static tp_status tp__told_of_drop(const tp_dataflow *df)
{
    if (df->in_worker_)
        return tp_fail(TP_ERR_ARG,
                       "%s: the function drops datapoints, but .keeps_all is TP_YES: tp_df_multi_process would give "
                       "some of them twice; leave .keeps_all out",
                       df->name);
    tp_log_once(
        TP_LOG_WARN,
        "%s: the function drops datapoints, but .keeps_all is TP_YES: a training that resumes continues at another "
        "datapoint",
        df->name);
    return TP_OK;
}

static tp_status tp__map_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    tp__map_flow *f = (tp__map_flow *)df->user;
    tp_status st = tp_df_seek(f->df, n, skipped);
    f->call.index += *skipped;
    return st;
}
static tp_status tp__map_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__map_flow *f = (tp__map_flow *)df->user;
    for (;;) {
        tp_status st = tp_df_next(f->df, &f->in);
        if (st == TP_OK) st = tp_datapoint_view(dp, &f->in);
        if (st != TP_OK) return st;
        f->call.drop = false;
        const unsigned n_errors = tp__n_errors;
        const bool watched = f->call.index == 0;
        const uint32_t before = watched ? tp__datapoint_sum(&f->in) : 0;
        if (f->fn) {
            st = tp__add_missing_sentence(df->name, n_errors, f->fn(&f->in, dp, &f->call));
        } else if (f->component < f->in.n) {
            st = tp__add_missing_sentence(df->name, n_errors,
                                          f->component_fn(&f->in.c[f->component], &dp->c[f->component], &f->call));
        } else {
            st = tp_fail(TP_ERR_ARG, "%s: component %d is to be mapped, but a datapoint has %d components", df->name,
                         f->component, f->in.n);
        }
        if (st == TP_OK && watched && before != tp__datapoint_sum(&f->in)) st = tp__map_wrote(df);
        if (st == TP_OK && f->call.drop && df->seek == tp__map_seek) st = tp__told_of_drop(df);
        /* number of the datapoint in the flow below, which differs if others were dropped */
        if (st < TP_OK) tp__df_named(df, f->call.index, st);
        f->call.index++;
        if (st != TP_OK || !f->call.drop) return st;
    }
}
static tp_status tp__map_restart(tp_dataflow *df, int64_t pass)
{
    tp__map_flow *f = (tp__map_flow *)df->user;
    f->call.key = tp__df_key(df, pass);
    f->call.pass = pass;
    f->call.index = 0;
    return tp_df_restart(f->df, pass);
}
static int64_t tp__map_size(tp_dataflow *df) { return tp_df_size(((const tp__map_flow *)df->user)->df); }
static void tp__map_close(tp_dataflow *df)
{
    tp__map_flow *f = (tp__map_flow *)df->user;
    tp__df_delete(f->df);
    tp_datapoint_free(&f->in);
    if (f->release) f->release(f->call.user);
}

/* Makes a map flow of a kind. If d->fn is NULL, component_fn maps component `index` of each datapoint. */
static tp_dataflow *tp__map_new(const tp_df_map_desc *d, tp_map_component_fn component_fn, int index, const char *name,
                                const char *kind)
{
    tp_dataflow *df;
    if (!tp__df_around_of_kind(&d->at_, d->df, name, kind, sizeof(tp__map_flow), d->seed, &df)) {
        if (d->release) d->release(d->user);
        return df;
    }
    tp__map_flow *f = (tp__map_flow *)df->user;
    f->df = d->df;
    f->fn = d->fn;
    f->component_fn = component_fn;
    f->component = index;
    f->call.user = d->user;
    f->release = d->release;
    df->next = tp__map_next;
    df->restart = tp__map_restart;
    df->size = tp__map_size;
    if (tp__tri_is_yes(d->keeps_all, false)) df->seek = tp__map_seek;
    df->seek_advice_ = TP__SEEK_MAP(d->keeps_all);
    df->close = tp__map_close;
    if (!d->fn && !component_fn) return TP__REFUSE(df, &d->at_, TP_ERR_ARG, "%s: the function is NULL", name);
    if (index < 0) return TP__REFUSE(df, &d->at_, TP_ERR_ARG, "%s: there is no component %d", name, index);
    return df;
}

TP_DEF tp_dataflow *tp_df_map_(const tp_df_map_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    return tp__map_new(d, NULL, 0, "tp_df_map", "tp_df_map");
}

TP_DEF tp_dataflow *tp_df_map_component_(const tp_df_map_component_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    tp_df_map_desc m;
    memset(&m, 0, sizeof m);
    m.at_ = d->at_;
    m.df = d->df;
    m.user = d->user;
    m.keeps_all = d->keeps_all;
    m.seed = d->seed;
    m.release = d->release;
    return tp__map_new(&m, d->fn, d->index, "tp_df_map_component", "tp_df_map_component");
}

typedef struct tp__cast {
    tp_dtype dtype;
    double scale;
} tp__cast;

static tp_status tp__cast_component(const tp_tensor *in, tp_tensor *out, tp_map_call *call)
{
    const tp__cast *c = (const tp__cast *)call->user;
    tp_status st = tp_tensor_resize(out, c->dtype, in->shape);
    if (st != TP_OK) return st;
    const int64_t n = tp_tensor_size(in);
    if (n) tp_convert(out->data, c->dtype, in->data, in->dtype, n);
    if (!(c->scale < 0 || c->scale > 0)) return TP_OK;
    if (c->dtype == TP_F32) {
        float *x = (float *)out->data, scale = (float)c->scale;
        for (int64_t i = 0; i < n; i++) x[i] *= scale;
    } else {
        for (int64_t i = 0; i < n; i += TP__BLOCK) {
            double x[TP__BLOCK];
            tp__wide scaled[TP__BLOCK];
            const int m = tp__tensor_doubles(in, i, x);
            for (int k = 0; k < m; k++) scaled[k] = (tp__wide)(x[k] * c->scale);
            tp_convert((char *)out->data + (size_t)i * tp_dtype_size(c->dtype), c->dtype, scaled, TP__WIDE_DTYPE, m);
        }
    }
    return TP_OK;
}

TP_DEF tp_dataflow *tp_df_cast(tp_dataflow *df, int index, tp_dtype dtype, double scale)
{
    tp_df_map_desc m;
    memset(&m, 0, sizeof m);
    m.df = df;
    if (df && tp_dtype_size(dtype) == 0)
        return TP__REFUSE(df, NULL, TP_ERR_DTYPE, "tp_df_cast: %d is no dtype", (int)dtype);
    if (df && !tp__finite(scale))
        return TP__REFUSE(df, NULL, TP_ERR_ARG, "tp_df_cast: scale is %g: it must be finite; 0 multiplies by nothing",
                          scale);
    tp__cast *c = (tp__cast *)tp_malloc(sizeof *c);
    if (!c) {
        tp__df_drop(df);
        return NULL;
    }
    c->dtype = dtype;
    c->scale = scale;
    m.user = c;
    m.release = tp_free;
    m.keeps_all = TP_YES;
    return tp__map_new(&m, tp__cast_component, index, "tp_df_cast", "tp_df_cast");
}

/* -- repeated ---- >>df repeated */

typedef struct tp__repeated_flow {
    tp_dataflow *df;
    /* num: passes of df in one pass of this flow; done: how many of these are finished; first_pass: number of the first one */
    int64_t num, done, first_pass;
    bool empty; /* the pass of df has given no datapoint yet */
} tp__repeated_flow;

static tp_status tp__repeated_next_pass(tp__repeated_flow *f)
{
    if (f->num < 0 && f->empty && !tp__df_has_collected(f->df))
        return tp_fail(TP_ERR_STATE,
                       "tp_df_repeated: a whole pass of %s gave no datapoint, so it cannot be repeated for ever",
                       f->df->name);
    if (++f->done == f->num) return TP_END;
    f->empty = true;
    return tp_df_restart(f->df, f->first_pass + f->done);
}
static tp_status tp__repeated_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__repeated_flow *f = (tp__repeated_flow *)df->user;
    for (;;) {
        if (f->done == f->num) return TP_END;
        tp_status st = tp_df_next(f->df, dp);
        if (st == TP_OK) f->empty = false;
        if (st != TP_END) return st;
        if ((st = tp__repeated_next_pass(f)) != TP_OK) return st;
    }
}
static tp_status tp__repeated_restart(tp_dataflow *df, int64_t pass)
{
    tp__repeated_flow *f = (tp__repeated_flow *)df->user;
    if (f->num > 0 && pass > INT64_MAX / f->num - 1)
        return tp_fail(TP_ERR_ARG, "tp_df_repeated: there is no pass %lld", (long long)pass);
    f->first_pass = f->num > 0 ? pass * f->num : pass;
    f->done = 0;
    f->empty = true;
    return tp_df_restart(f->df, f->first_pass);
}
static int64_t tp__repeated_size(tp_dataflow *df)
{
    const tp__repeated_flow *f = (const tp__repeated_flow *)df->user;
    const int64_t n = tp_df_size(f->df);
    return f->num < 0 || n < 0 || (n > 0 && f->num > INT64_MAX / n) ? -1 : n * f->num;
}
static tp_status tp__repeated_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    tp__repeated_flow *f = (tp__repeated_flow *)df->user;
    while (*skipped < n && f->done != f->num) {
        int64_t k = 0;
        tp_status st = tp_df_seek(f->df, n - *skipped, &k);
        if (k > 0) f->empty = false;
        *skipped += k;
        if (st == TP_OK && *skipped < n) st = tp__repeated_next_pass(f);
        if (st == TP_END) break;
        if (st != TP_OK) return st;
    }
    return TP_OK;
}
static void tp__repeated_close(tp_dataflow *df) { tp__df_delete(((tp__repeated_flow *)df->user)->df); }

TP_DEF tp_dataflow *tp_df_repeated(tp_dataflow *child, int64_t num)
{
    tp_dataflow *df;
    if (!tp__df_around(NULL, child, "tp_df_repeated", sizeof(tp__repeated_flow), 0, &df)) return df;
    tp__repeated_flow *f = (tp__repeated_flow *)df->user;
    f->df = child;
    f->num = num;
    df->next = tp__repeated_next;
    df->restart = tp__repeated_restart;
    df->size = tp__repeated_size;
    df->seek = tp__repeated_seek;
    df->close = tp__repeated_close;
    if (num == -1) df->endless_ = true;
    if (num == 0 || num < -1)
        return TP__REFUSE(df, NULL, TP_ERR_ARG, "tp_df_repeated: %lld times: give a positive number, or -1 for ever",
                          (long long)num);
    return df;
}

/* -- take ---- >>df take */

typedef struct tp__take_flow {
    tp_dataflow *df;
    int64_t n, given;
} tp__take_flow;

static tp_status tp__take_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__take_flow *f = (tp__take_flow *)df->user;
    if (f->given == f->n) return TP_END;
    const tp_status st = tp_df_next(f->df, dp);
    if (st == TP_OK) f->given++;
    return st;
}
static tp_status tp__take_restart(tp_dataflow *df, int64_t pass)
{
    tp__take_flow *f = (tp__take_flow *)df->user;
    f->given = 0;
    return tp_df_restart(f->df, pass);
}
static int64_t tp__take_size(tp_dataflow *df)
{
    const tp__take_flow *f = (const tp__take_flow *)df->user;
    const int64_t size_below = f->df->endless_ ? INT64_MAX : tp_df_size(f->df);
    return size_below < f->n ? size_below : f->n; /* size of the pass; -1: unknown */
}
static tp_status tp__take_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    tp__take_flow *f = (tp__take_flow *)df->user;
    const int64_t left = f->n - f->given, n_skip = n < left ? n : left;
    if (n_skip == 0) return TP_OK;
    const tp_status st = tp_df_seek(f->df, n_skip, skipped);
    f->given += *skipped;
    return st;
}
static void tp__take_close(tp_dataflow *df) { tp__df_delete(((tp__take_flow *)df->user)->df); }

TP_DEF tp_dataflow *tp_df_take(tp_dataflow *below, int64_t n)
{
    tp_dataflow *df;
    if (!tp__df_around(NULL, below, "tp_df_take", sizeof(tp__take_flow), 0, &df)) return df;
    tp__take_flow *f = (tp__take_flow *)df->user;
    f->df = below;
    f->n = n;
    df->next = tp__take_next;
    df->restart = tp__take_restart;
    df->size = tp__take_size;
    df->seek = tp__take_seek;
    df->close = tp__take_close;
    df->endless_ = false;
    if (n < 1) return TP__REFUSE(df, NULL, TP_ERR_ARG, "tp_df_take: %lld datapoints: take at least 1", (long long)n);
    return df;
}

/* -- shard ---- >>df shard */

typedef struct tp__shard_flow {
    tp_dataflow *df;
    int64_t rank, n_ranks;
    int64_t given, position; /* datapoints of this flow, and of df, that the pass has left behind, also failed ones */
} tp__shard_flow;

/* Leaves n datapoints of df behind, or fewer at the end of its pass. */
static tp_status tp__shard_skip(tp__shard_flow *f, int64_t n)
{
    int64_t k = 0;
    const tp_status st = n > 0 ? tp_df_seek(f->df, n, &k) : TP_OK;
    f->position += k + (st < TP_OK); /* df has left a datapoint that failed behind, too */
    return st == TP_OK && k < n ? TP_END : st;
}
static tp_status tp__shard_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__shard_flow *f = (tp__shard_flow *)df->user;
    tp_status st = tp__shard_skip(f, f->given * f->n_ranks + f->rank - f->position);
    if (st != TP_OK) return st;
    st = tp_df_next(f->df, dp);
    if (st <= TP_OK) f->position++, f->given++;
    return st;
}
static tp_status tp__shard_restart(tp_dataflow *df, int64_t pass)
{
    tp__shard_flow *f = (tp__shard_flow *)df->user;
    f->given = f->position = 0;
    return tp_df_restart(f->df, pass);
}
static int64_t tp__shard_size(tp_dataflow *df)
{
    const tp__shard_flow *f = (const tp__shard_flow *)df->user;
    const int64_t n = tp_df_size(f->df);
    return n < 0 ? -1 : n <= f->rank ? 0 : (n - 1 - f->rank) / f->n_ranks + 1;
}
static tp_status tp__shard_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    tp__shard_flow *f = (tp__shard_flow *)df->user;
    const int64_t most = INT64_MAX / f->n_ranks - f->given - 1, count = n < most ? n : most;
    if (count < 1) return TP_OK;
    /* to just behind the last one */
    const tp_status st = tp__shard_skip(f, (f->given + count - 1) * f->n_ranks + f->rank + 1 - f->position);
    const int64_t before = f->position <= f->rank ? 0 : (f->position - 1 - f->rank) / f->n_ranks + 1;
    const bool own = st < TP_OK && (f->position - 1) % f->n_ranks == f->rank; /* the one that failed is not skipped */
    *skipped = before - f->given - own;
    f->given = before;
    return st == TP_END ? TP_OK : st;
}
static void tp__shard_close(tp_dataflow *df) { tp__df_delete(((tp__shard_flow *)df->user)->df); }

TP_DEF tp_dataflow *tp_df_shard(tp_dataflow *below, int rank, int n_ranks)
{
    tp_dataflow *df;
    if (!tp__df_around(NULL, below, "tp_df_shard", sizeof(tp__shard_flow), 0, &df)) return df;
    tp__shard_flow *f = (tp__shard_flow *)df->user;
    f->df = below;
    f->rank = rank;
    f->n_ranks = n_ranks;
    df->next = tp__shard_next;
    df->restart = tp__shard_restart;
    df->size = tp__shard_size;
    df->seek = tp__shard_seek;
    df->close = tp__shard_close;
    if (rank < 0 || rank >= n_ranks)
        return TP__REFUSE(df, NULL, TP_ERR_ARG, "tp_df_shard: rank %d of %d ranks: ranks are 0 to n_ranks - 1", rank,
                          n_ranks);
    if (tp__df_must_be_ordered(below, n_ranks, "tp_df_shard") != TP_OK)
        return TP__REFUSE(df, NULL, TP_ERR_ARG, "%s", tp_last_error());
    return df;
}

/* -- fixed_size ---- >>df fixed_size */

typedef struct tp__fixed_flow {
    tp__endless endless; /* must be the first member: shared functions find the flow below through it */
    int64_t size, given;
    int64_t passes; /* without keep_state: passes of the flow below that are set apart for each pass */
    bool keep_state, started;
    bool moved; /* the first datapoint of this pass failed: the flow below has moved, `position` has not */
} tp__fixed_flow;

static tp_status tp__fixed_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__fixed_flow *f = (tp__fixed_flow *)df->user;
    if (f->given == f->size) return TP_END;
    tp_status st = tp__endless_next(&f->endless, dp);
    if (st == TP_OK) f->given++;
    if (st <= TP_OK) f->moved = f->given == 0;
    return st;
}
static tp_status tp__fixed_restart(tp_dataflow *df, int64_t pass)
{
    tp__fixed_flow *f = (tp__fixed_flow *)df->user;
    f->given = 0;
    if (!f->keep_state)
        return tp__endless_start(&f->endless, pass > INT64_MAX / f->passes ? pass : pass * f->passes, 0);
    if (pass > INT64_MAX / f->size - 1)
        return tp_fail(TP_ERR_ARG, "%s: there is no pass %lld", df->name, (long long)pass);
    /* the usual case: the next pass continues where this one ended */
    if (f->started && !f->moved && f->endless.position == pass * f->size) return TP_OK;
    tp_status st = tp__endless_start(&f->endless, 0, pass * f->size);
    f->moved = false;
    f->started = st == TP_OK;
    return st;
}
static int64_t tp__fixed_size(tp_dataflow *df) { return ((const tp__fixed_flow *)df->user)->size; }
static tp_status tp__fixed_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    tp__fixed_flow *f = (tp__fixed_flow *)df->user;
    const int64_t n_skip = n < f->size - f->given ? n : f->size - f->given;
    tp_status st = TP_OK;
    while (*skipped < n_skip && st == TP_OK) {
        int64_t k = 0;
        st = tp_df_seek(f->endless.df, n_skip - *skipped, &k);
        if (k > 0) f->endless.none_given = false;
        f->endless.position += k;
        f->given += k;
        *skipped += k;
        if (st == TP_OK && *skipped < n_skip) st = tp__endless_next_pass(&f->endless);
    }
    if (n_skip > 0 && st <= TP_OK) f->moved = f->given == 0;
    return st;
}
static void tp__fixed_close(tp_dataflow *df) { tp__df_delete(((tp__fixed_flow *)df->user)->endless.df); }

TP_DEF tp_dataflow *tp_df_fixed_size_(const tp_df_fixed_size_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    tp_dataflow *df;
    if (!tp__df_around(&d->at_, d->df, "tp_df_fixed_size", sizeof(tp__fixed_flow), 0, &df)) return df;
    tp__fixed_flow *f = (tp__fixed_flow *)df->user;
    f->endless.df = d->df;
    f->size = d->size;
    f->keep_state = tp__tri_is_yes(d->keep_state, true);
    df->next = tp__fixed_next;
    df->restart = tp__fixed_restart;
    df->size = tp__fixed_size;
    df->seek = tp__fixed_seek;
    df->close = tp__fixed_close;
    df->endless_ = false;
    if (d->size < 1)
        return TP__REFUSE(df, &d->at_, TP_ERR_ARG, "tp_df_fixed_size: size is %lld, it must be at least 1",
                          (long long)d->size);
    /* Enough passes that no two passes share one, if df's size is right. It is asked for here, once: the size of tp_df_cache
     * changes while it is read, and the data of a pass must not depend on what was read before. */
    const int64_t n = tp_df_size(d->df);
    f->passes = n > 0 ? (d->size - 1) / n + 1 : 1;
    return df;
}

/* -- locally_shuffle ---- >>df locally_shuffle
 * The buffer is a ring of indices into slot[]. slot[] has one datapoint more than the ring: the datapoint given last, which must
 * not change until the next call. Which slots change places depends on the seed and on counts alone. Therefore a seek moves the
 * indices without data, and then reads only the datapoints that are still in the buffer. */

/* A datapoint that a seek left out and that the buffer needs. */
typedef struct tp__shuffle_due {
    int64_t input; /* its number among the datapoints of the flow below; -1: nothing is due */
    int slot;      /* where it goes; -1: into `in` */
} tp__shuffle_due;

typedef struct tp__shuffle_flow {
    tp__endless endless; /* must be the first member: shared functions find the flow below through it */
    int capacity, reuse, interval;
    tp_datapoint *slot; /* the buffer: capacity + 1 datapoints */
    int *ring;          /* indices into slot, in order; begins at head */
    int *order;         /* scratch memory for a shuffle */
    int head, filled, spare;
    tp_datapoint in; /* the datapoint that goes into the buffer `reuse` times, so far `n_used` times */
    int n_used;
    int64_t inputs;
    uint64_t key;
    tp__shuffle_due *due; /* after a seek: what must be read before the next datapoint, by `input`; NULL: nothing */
    int n_due, n_read;
} tp__shuffle_flow;

static void tp__shuffle_buffer(tp__shuffle_flow *f, int64_t k)
{
    for (int i = 0; i < f->filled; i++) f->order[i] = f->ring[(f->head + i) % f->capacity];
    uint32_t r[4]; /* tp_random_u32(key, k, i) of four i, which are drawn together */
    for (int i = f->filled - 1; i > 0; i--) {
        if (i == f->filled - 1 || i % 4 == 3) tp_philox(f->key, (uint64_t)i / 4, (uint64_t)k, r);
        const int j = (int)((uint64_t)r[i % 4] * ((uint64_t)i + 1) >> 32);
        const int swap = f->order[i];
        f->order[i] = f->order[j];
        f->order[j] = swap;
    }
    f->head = 0;
    for (int i = 0; i < f->filled; i++) f->ring[i] = f->order[i];
}

/* Counts the next datapoint of the flow below; it is the turn of the shuffle that comes before it. */
static void tp__shuffle_count_input(tp__shuffle_flow *f)
{
    if (f->inputs % f->interval == 0) tp__shuffle_buffer(f, f->inputs / f->interval);
    f->inputs++;
    f->n_used = 0;
}

/* The slot into which the next datapoint goes. */
static int tp__shuffle_free_slot(const tp__shuffle_flow *f) { return f->filled == f->capacity ? f->spare : f->filled; }

/* Puts that slot at the end of the ring. True if the ring was full: then the datapoint at its front is given, and its slot becomes
 * the spare one. */
static bool tp__shuffle_push(tp__shuffle_flow *f)
{
    const int slot = tp__shuffle_free_slot(f);
    f->n_used++;
    if (f->filled < f->capacity) {
        f->ring[(f->head + f->filled++) % f->capacity] = slot;
        return false;
    }
    f->spare = f->ring[f->head];
    f->ring[f->head] = slot;
    f->head = (f->head + 1) % f->capacity;
    return true;
}

static void tp__shuffle_forget_due(tp__shuffle_flow *f)
{
    tp_free(f->due);
    f->due = NULL;
    f->n_due = f->n_read = 0;
}

/* Reads the datapoints that a seek left out. After a failure the next call goes on behind what failed. */
static tp_status tp__shuffle_read_due(tp__shuffle_flow *f)
{
    tp_status st = TP_OK;
    for (; f->n_read < f->n_due; f->n_read++) {
        const tp__shuffle_due *due = &f->due[f->n_read], *before = f->n_read ? due - 1 : NULL;
        tp_datapoint *to = due->slot < 0 ? &f->in : &f->slot[due->slot];
        if (before && before->input == due->input) { /* with num_reuse a datapoint is in several slots */
            st = tp_datapoint_copy(to, before->slot < 0 ? &f->in : &f->slot[before->slot]);
        } else {
            st = tp__endless_skip_to(&f->endless, due->input);
            if (st == TP_OK && f->endless.position == due->input) st = tp__endless_next(&f->endless, to);
            if (st == TP_OK) st = tp__datapoint_own(to);
        }
        if (st != TP_OK) return st;
    }
    st = tp__endless_skip_to(&f->endless, f->inputs);
    if (st == TP_OK) tp__shuffle_forget_due(f);
    return st;
}

static int tp__shuffle_by_input(const void *a, const void *b)
{
    const tp__shuffle_due *x = (const tp__shuffle_due *)a, *y = (const tp__shuffle_due *)b;
    if (x->input != y->input) return x->input < y->input ? -1 : 1;
    return x->slot < y->slot ? -1 : x->slot > y->slot;
}

/* Goes on by n datapoints without reading any: the buffer knows then which ones are due. Nothing may be due before, and `in` must
 * be used up. */
static tp_status tp__shuffle_replay(tp__shuffle_flow *f, int64_t n, int64_t *skipped)
{
    tp__shuffle_due *due = (tp__shuffle_due *)tp_calloc((size_t)f->capacity + 2, sizeof *due);
    if (!due) return TP_ERR_NOMEM;
    for (int i = 0; i <= f->capacity; i++) due[i].input = -1;
    f->endless.position = f->inputs; /* they differ where there was no memory to keep a datapoint */
    tp_status st = TP_OK;
    for (const int64_t end = *skipped + n; *skipped < end;) {
        if (f->n_used == f->reuse) {
            if ((st = tp__df_may_wait()) != TP_OK) break; /* it takes seconds for a hundred million datapoints */
            tp__shuffle_count_input(f);
        }
        const int slot = tp__shuffle_free_slot(f);
        due[slot].input = f->inputs - 1;
        *skipped += tp__shuffle_push(f);
    }
    /* The last datapoint that was skipped, in the spare slot, is not needed. */
    due[f->spare].input = -1;
    f->due = due;
    for (int i = 0; i <= f->capacity; i++) {
        if (due[i].input < 0) continue;
        due[f->n_due].input = due[i].input;
        due[f->n_due++].slot = i;
    }
    if (f->n_used < f->reuse) {
        due[f->n_due].input = f->inputs - 1;
        due[f->n_due++].slot = -1;
    }
    qsort(due, (size_t)f->n_due, sizeof *due, tp__shuffle_by_input);
    return st;
}

static tp_status tp__shuffle_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__shuffle_flow *f = (tp__shuffle_flow *)df->user;
    tp_status st = f->due ? tp__shuffle_read_due(f) : TP_OK;
    if (st != TP_OK) return st;
    do {
        if (f->n_used == f->reuse) { /* read the next datapoint */
            if ((st = tp__endless_next(&f->endless, &f->in)) != TP_OK) return st;
            if ((st = tp__datapoint_own(&f->in)) != TP_OK) return st;
            tp__shuffle_count_input(f);
        }
        /* put the datapoint into a free slot; at its last use swap the buffers instead of copying */
        tp_datapoint *to = &f->slot[tp__shuffle_free_slot(f)];
        if (f->n_used + 1 < f->reuse) {
            if ((st = tp_datapoint_copy(to, &f->in)) != TP_OK) return st;
        } else {
            const tp_datapoint swap = *to;
            *to = f->in;
            f->in = swap;
        }
    } while (!tp__shuffle_push(f));
    return tp_datapoint_view(dp, &f->slot[f->spare]);
}

static tp_status tp__shuffle_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    tp__shuffle_flow *f = (tp__shuffle_flow *)df->user;
    tp_status st = TP_OK;
    while (*skipped < n && st == TP_OK) {
        /* On a short way the buffer keeps most of what is read. The last datapoint is read in any case, so that a failure of what is
         * due is told by this seek, and counts as one that a walk meets. */
        if (n - *skipped > f->capacity && !f->due && f->n_used == f->reuse)
            st = tp__shuffle_replay(f, n - *skipped - 1, skipped);
        if (st == TP_OK) st = tp__shuffle_next(df, &df->skip_);
        *skipped += st == TP_OK;
        if (st < TP_OK) tp__df_named(df, df->index_ + *skipped, st);
    }
    return st;
}

static tp_status tp__shuffle_restart(tp_dataflow *df, int64_t pass)
{
    tp__shuffle_flow *f = (tp__shuffle_flow *)df->user;
    tp__shuffle_forget_due(f);
    f->head = f->filled = 0;
    f->spare = f->capacity;
    f->n_used = f->reuse;
    f->inputs = 0;
    f->key = tp__df_key(df, pass);
    return tp__endless_start(&f->endless, pass, 0);
}
static int64_t tp__shuffle_size(tp_dataflow *df)
{
    const tp__shuffle_flow *f = (const tp__shuffle_flow *)df->user;
    const int64_t n = tp_df_size(f->endless.df);
    return n < 0 || n > INT64_MAX / f->reuse ? -1 : n * f->reuse;
}
static void tp__shuffle_close(tp_dataflow *df)
{
    tp__shuffle_flow *f = (tp__shuffle_flow *)df->user;
    tp__df_delete(f->endless.df);
    for (int i = 0; f->slot && i <= f->capacity; i++) tp_datapoint_free(&f->slot[i]);
    tp_free(f->slot);
    tp_free(f->ring);
    tp_free(f->order);
    tp_free(f->due);
    tp_datapoint_free(&f->in);
}

TP_DEF tp_dataflow *tp_df_locally_shuffle_(const tp_df_locally_shuffle_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    tp_dataflow *df;
    if (!tp__df_around(&d->at_, d->df, "tp_df_locally_shuffle", sizeof(tp__shuffle_flow), d->seed, &df)) return df;
    tp__shuffle_flow *f = (tp__shuffle_flow *)df->user;
    f->endless.df = d->df;
    df->next = tp__shuffle_next;
    df->restart = tp__shuffle_restart;
    df->size = tp__shuffle_size;
    df->seek = tp__shuffle_seek;
    df->close = tp__shuffle_close;
    df->endless_ = true;
    if (d->buffer_size < 1 || d->buffer_size == INT_MAX)
        return TP__REFUSE(df, &d->at_, TP_ERR_ARG, "tp_df_locally_shuffle: buffer_size is %d: give 1 to %d",
                          d->buffer_size, INT_MAX - 1);
    if (d->num_reuse < 0 || d->shuffle_interval < 0)
        return TP__REFUSE(
            df, &d->at_, TP_ERR_ARG, "tp_df_locally_shuffle: %s is %d: give 1 or more, or 0 for the default",
            d->num_reuse < 0 ? "num_reuse" : "shuffle_interval", d->num_reuse < 0 ? d->num_reuse : d->shuffle_interval);
    f->capacity = d->buffer_size;
    f->reuse = d->num_reuse ? d->num_reuse : 1;
    f->interval = d->shuffle_interval ? d->shuffle_interval : d->buffer_size < 3 ? 1 : d->buffer_size / 3;
    f->slot = (tp_datapoint *)tp_calloc((size_t)f->capacity + 1, sizeof(tp_datapoint));
    f->ring = (int *)tp_calloc((size_t)f->capacity, sizeof(int));
    f->order = (int *)tp_calloc((size_t)f->capacity, sizeof(int));
    if (f->slot && f->ring && f->order) return df;
    tp__df_delete(df);
    return NULL;
}

/* -- select ---- >>df select */

typedef struct tp__select_flow {
    tp_dataflow *df;
    int *index;
    int n;
    tp_datapoint in;
} tp__select_flow;

static tp_status tp__select_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__select_flow *f = (tp__select_flow *)df->user;
    tp_status st = tp_df_next(f->df, &f->in);
    if (st == TP_OK) st = tp_datapoint_resize(dp, f->n);
    for (int j = 0; j < f->n && st == TP_OK; j++) {
        if (f->index[j] >= f->in.n)
            return tp_fail(TP_ERR_ARG, "%s: component %d is selected, but a datapoint has %d components", df->name,
                           f->index[j], f->in.n);
        const tp_tensor *x = &f->in.c[f->index[j]];
        tp_tensor_view(&dp->c[j], x->dtype, x->shape, x->data);
    }
    return st;
}
static tp_status tp__select_restart(tp_dataflow *df, int64_t pass)
{
    return tp_df_restart(((tp__select_flow *)df->user)->df, pass);
}
static int64_t tp__select_size(tp_dataflow *df) { return tp_df_size(((const tp__select_flow *)df->user)->df); }
static tp_status tp__select_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    return tp_df_seek(((tp__select_flow *)df->user)->df, n, skipped);
}
static void tp__select_close(tp_dataflow *df)
{
    tp__select_flow *f = (tp__select_flow *)df->user;
    tp__df_delete(f->df);
    tp_free(f->index);
    tp_datapoint_free(&f->in);
}

TP_DEF tp_dataflow *tp_df_select(tp_dataflow *child, const int *indices, int n)
{
    tp_dataflow *df;
    if (!tp__df_around(NULL, child, "tp_df_select", sizeof(tp__select_flow), 0, &df)) return df;
    tp__select_flow *f = (tp__select_flow *)df->user;
    f->df = child;
    df->next = tp__select_next;
    df->restart = tp__select_restart;
    df->size = tp__select_size;
    df->seek = tp__select_seek;
    df->close = tp__select_close;
    if (n < 1 || !indices) return TP__REFUSE(df, NULL, TP_ERR_ARG, "tp_df_select: needs at least one component");
    for (int j = 0; j < n; j++)
        if (indices[j] < 0)
            return TP__REFUSE(df, NULL, TP_ERR_ARG, "tp_df_select: there is no component %d", indices[j]);
    f->index = (int *)tp_malloc((size_t)n * sizeof(int));
    if (!f->index) {
        tp__df_delete(df);
        return NULL;
    }
    memcpy(f->index, indices, (size_t)n * sizeof(int));
    f->n = n;
    return df;
}

/* -- concat and join ---- >>df concat >>df join */

typedef struct tp__several_flows {
    tp_dataflow **df;
    tp_datapoint *in;   /* tp_df_join: one datapoint for each flow */
    int n, at;          /* tp_df_concat, tp_df_join: index of the flow that is read next */
    double *cumulative; /* tp_df_random_choose: a number in [0,1) selects the first flow i with number < upto[i] */
    int64_t *left;      /* tp_df_random_mix: number of datapoints that each flow has left in this pass */
    int64_t n_draws;    /* random choose and mix: number of random numbers used in this pass, one per datapoint */
    uint64_t key;       /* random key of this pass */
    /* tp_df_multi_thread: datapoints per pass, -1: no end; n_draws counts the datapoints of all passes */
    int64_t size;
    int64_t given; /* number of datapoints given in this pass */
    bool started;
    /* this pass is over. tp_df_join: a flow failed, or a seek of the flows came to no end; tp_df_multi_thread: a seek failed */
    bool failed;
} tp__several_flows;

static tp_status tp__concat_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__several_flows *f = (tp__several_flows *)df->user;
    for (; f->at < f->n; f->at++) {
        tp_status st = tp_df_next(f->df[f->at], dp);
        if (st != TP_END) return st;
    }
    return TP_END;
}
static tp_status tp__several_restart(tp_dataflow *df, int64_t pass)
{
    tp__several_flows *f = (tp__several_flows *)df->user;
    tp_status st = TP_OK;
    f->at = 0;
    f->failed = false;
    for (int i = 0; i < f->n && st == TP_OK; i++) st = tp_df_restart(f->df[i], pass);
    return st;
}
static int64_t tp__concat_size(tp_dataflow *df)
{
    const tp__several_flows *f = (const tp__several_flows *)df->user;
    int64_t sum = 0;
    for (int i = 0; i < f->n; i++) {
        const int64_t n = tp_df_size(f->df[i]);
        if (n < 0 || n > INT64_MAX - sum) return -1;
        sum += n;
    }
    return sum;
}
static tp_status tp__concat_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    tp__several_flows *f = (tp__several_flows *)df->user;
    for (; f->at < f->n; f->at++) {
        int64_t k = 0;
        tp_status st = tp_df_seek(f->df[f->at], n - *skipped, &k);
        *skipped += k;
        if (st != TP_OK || *skipped == n) return st;
    }
    return TP_OK;
}
static void tp__several_close(tp_dataflow *df)
{
    tp__several_flows *f = (tp__several_flows *)df->user;
    for (int i = 0; i < f->n; i++) {
        if (f->df) tp__df_delete(f->df[i]);
        if (f->in) tp_datapoint_free(&f->in[i]);
    }
    tp_free((void *)f->df);
    tp_free(f->in);
    tp_free(f->cumulative);
    tp_free(f->left);
}

/* Behind a failure the pass ends: the flows before the one that failed have given a datapoint, those behind it have not, so that what
 * follows would not belong together. A flow that stopped is asked again. */
static tp_status tp__join_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__several_flows *f = (tp__several_flows *)df->user;
    int n = 0;
    if (f->failed) return TP_END;
    for (; f->at < f->n; f->at++) {
        const tp_status st = tp_df_next(f->df[f->at], &f->in[f->at]);
        f->failed = st < TP_OK;
        if (st != TP_OK) return st;
    }
    f->at = 0;
    for (int i = 0; i < f->n; i++) {
        if (f->in[i].n > INT_MAX - n) return tp_fail(TP_ERR_NOMEM, "%s: too many components", df->name);
        n += f->in[i].n;
    }
    tp_status st = tp_datapoint_resize(dp, n);
    if (st != TP_OK) return st;
    n = 0;
    for (int i = 0; i < f->n; i++)
        for (int j = 0; j < f->in[i].n; j++, n++)
            tp_tensor_view(&dp->c[n], f->in[i].c[j].dtype, f->in[i].c[j].shape, f->in[i].c[j].data);
    return TP_OK;
}
static int64_t tp__join_size(tp_dataflow *df)
{
    const tp__several_flows *f = (const tp__several_flows *)df->user;
    int64_t smallest = -1;
    for (int i = 0; i < f->n; i++) {
        const int64_t n = tp_df_size(f->df[i]);
        if (n < 0) return -1;
        if (smallest < 0 || n < smallest) smallest = n;
    }
    return smallest;
}
static tp_status tp__join_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    tp__several_flows *f = (tp__several_flows *)df->user;
    if (f->failed) {
        df->state_ = TP__DF_ENDED;
        return TP_OK;
    }
    *skipped = n;
    int shortest = 0; /* it ends the pass, so the others, which may be endless, skip no more than it does */
    for (int64_t i = 0, least = -1; i < f->n; i++) {
        const int64_t size = tp_df_size(f->df[i]);
        if (size >= 0 && (least < 0 || size < least)) least = size, shortest = (int)i;
    }
    for (int i = 0; i < f->n; i++) {
        const int which = i == 0 ? shortest : i <= shortest ? i - 1 : i;
        int64_t k = 0, given = which < f->at; /* before one that stopped, the flows have given a datapoint already */
        const tp_status st = *skipped > given ? tp_df_seek(f->df[which], *skipped - given, &k) : TP_OK;
        f->failed = st != TP_OK;
        if (st != TP_OK) *skipped = 0;
        if (st != TP_OK) return st;
        if (k + given < *skipped) *skipped = k + given;
    }
    f->at = 0;
    if (*skipped < n) df->state_ = TP__DF_ENDED;
    return TP_OK;
}

/* CONCAT: also the base of random choose and mix. THREADS: the seeds of each flow stay as they are. */
typedef enum tp__several_kind { TP__SEVERAL_CONCAT, TP__SEVERAL_JOIN, TP__SEVERAL_THREADS } tp__several_kind;

static tp_dataflow *tp__several_new(tp_dataflow *const *dfs, int n, const char *name, uint64_t seed,
                                    tp__several_kind several)
{
    const bool join = several == TP__SEVERAL_JOIN;
    tp_dataflow *df = NULL;
    int keep = -1;                     /* the child that decides the result: one that is missing or poison */
    for (int i = 0; i < n && dfs; i++) /* a flow that has an owner, or is listed twice, is not freed */
        if (dfs[i] && (tp__listed_before((const void *const *)(const void *)dfs, i) || dfs[i]->owner_.who)) {
            tp_owner owner = dfs[i]->owner_;
            if (!owner.who) owner.who = name;
            tp__set_owner(&owner, dfs[i]->name, name, NULL);
            tp_dataflow *const twice = tp__df_owned_twice();
            for (int k = 0; k < n; k++)
                if (!tp__listed_before((const void *const *)(const void *)dfs, k)) tp__df_drop(dfs[k]);
            return twice;
        }
    for (int i = 0; i < n && dfs && keep < 0; i++)
        if (!dfs[i] || dfs[i]->next == tp__poison_next) keep = i;
    const bool valid = n > 0 && dfs && keep < 0;
    if (valid) df = tp_df_new(name, sizeof(tp__several_flows), seed);
    tp__several_flows *f = df ? (tp__several_flows *)df->user : NULL;
    if (df) {
        f->df = (tp_dataflow **)tp_calloc((size_t)n, sizeof *f->df);
        f->in = join ? (tp_datapoint *)tp_calloc((size_t)n, sizeof *f->in) : NULL;
        if (!f->df || (join && !f->in)) {
            tp_free((void *)f->df);
            tp_free(f->in);
            tp__df_delete(df);
            df = NULL;
        }
    }
    if (!df) {
        for (int i = 0; i < n && dfs; i++)
            if (i != keep) tp__df_delete(dfs[i]);
        if (keep >= 0 && !dfs[keep]) {
            tp_fail(TP_ERR_NOMEM, "%s: dataflow %d of %d is NULL: its constructor found no memory", name, keep, n);
            return NULL;
        }
        if (keep >= 0) {
            tp__df_say_again(dfs[keep]);
            return dfs[keep];
        }
        return valid ? NULL : tp_df_fail(NULL, TP_ERR_ARG, "%s: needs at least one dataflow", name);
    }
    df->endless_ = join; /* a zip ends with the first of its flows, a concatenation has all of them */
    for (int i = 0; i < n; i++) {
        f->df[i] = dfs[i];
        dfs[i]->owner_.who = name;
        tp__df_add_input(df, dfs[i], several == TP__SEVERAL_THREADS);
        df->endless_ = join ? df->endless_ && dfs[i]->endless_ : df->endless_ || dfs[i]->endless_;
    }
    f->n = n;
    df->next = join ? tp__join_next : tp__concat_next;
    df->restart = tp__several_restart;
    df->size = join ? tp__join_size : tp__concat_size;
    df->seek = join ? tp__join_seek : tp__concat_seek;
    df->close = tp__several_close;
    return df;
}

TP_DEF tp_dataflow *tp_df_concat(tp_dataflow *const *dfs, int n)
{
    return tp__several_new(dfs, n, "tp_df_concat", 0, TP__SEVERAL_CONCAT);
}
TP_DEF tp_dataflow *tp_df_join(tp_dataflow *const *dfs, int n)
{
    return tp__several_new(dfs, n, "tp_df_join", 0, TP__SEVERAL_JOIN);
}
TP_DEF tp_dataflow *tp_df_zip(tp_dataflow *const *dfs, int n)
{
    return tp__several_new(dfs, n, "tp_df_zip", 0, TP__SEVERAL_JOIN);
}

/* -- random choose and random mix ---- >>df random_choose >>df random_mix */

static int tp__choose_draw(const tp__several_flows *f)
{
    const double r = (double)tp_random_u32(f->key, (uint64_t)f->n_draws, 0) / 4294967296.0;
    int i = 0;
    while (!(r < f->cumulative[i])) i++; /* the loop ends, because r is below 1 and the last limit is 2 */
    return i;
}
static tp_status tp__choose_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__several_flows *f = (tp__several_flows *)df->user;
    const tp_status st = tp_df_next(f->df[tp__choose_draw(f)], dp);
    if (st == TP_OK) f->n_draws++;
    return st;
}
static tp_status tp__choose_restart(tp_dataflow *df, int64_t pass)
{
    tp__several_flows *f = (tp__several_flows *)df->user;
    f->key = tp__df_key(df, pass);
    f->n_draws = 0;
    return tp__several_restart(df, pass);
}
static tp_status tp__choose_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    tp__several_flows *f = (tp__several_flows *)df->user;
    for (; *skipped < n; ++*skipped, f->n_draws++) {
        int64_t k = 0;
        const tp_status st = tp_df_seek(f->df[tp__choose_draw(f)], 1, &k);
        if (st == TP_OK && k == 0) df->state_ = TP__DF_ENDED;
        if (st != TP_OK || k == 0) return st;
    }
    return TP_OK;
}

/* Fills upto from probabilities; p NULL: all equal. Returns false if p is invalid, and sets *reason to a sentence. */
static bool tp__choose_table(tp__several_flows *f, const double *p, char *reason, size_t size)
{
    double sum = 0;
    int last_flow = 0;
    for (int i = 0; i < f->n; i++) {
        const double probability = p ? p[i] : 1.0 / f->n;
        if (!(probability >= 0 && probability <= 2)) {
            tp__format(reason, size, "probability %d is %g", i, probability);
            return false;
        }
        sum += probability;
        f->cumulative[i] = sum;
        if (probability > 0) last_flow = i;
    }
    f->cumulative[last_flow] = 2; /* the last limit is 2 instead of 1, so that rounding leaves no gap at the end */
    tp__format(reason, size, "the probabilities sum to %.9g", sum);
    return fabs(sum - 1) <= 1e-6;
}

TP_DEF tp_dataflow *tp_df_random_choose_(const tp_df_random_choose_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    tp_dataflow *df = tp__several_new(d->dfs, d->n, "tp_df_random_choose", d->seed, TP__SEVERAL_CONCAT);
    if (!df || df->next != tp__concat_next) return df;
    tp__several_flows *f = (tp__several_flows *)df->user;
    char reason[96];
    df->next = tp__choose_next;
    df->restart = tp__choose_restart;
    df->size = NULL;
    df->seek = tp__choose_seek;
    for (int i = 0; i < f->n; i++) df->endless_ = df->endless_ && f->df[i]->endless_; /* any that ends ends the pass */
    f->cumulative = (double *)tp_calloc((size_t)f->n, sizeof *f->cumulative);
    if (!f->cumulative) {
        tp__df_delete(df);
        return NULL;
    }
    if (!tp__choose_table(f, d->probabilities, reason, sizeof reason))
        return TP__REFUSE(df, &d->at_, TP_ERR_ARG, "tp_df_random_choose: %s: give %d of at least 0 that sum to 1",
                          reason, d->n);
    return df;
}

/* Chooses the flow for the next datapoint with probabilities proportional to the datapoints left; -1: none is left. */
static int tp__mix_draw(tp__several_flows *f)
{
    uint64_t total = 0;
    uint32_t r[4];
    for (int i = 0; i < f->n; i++) total += (uint64_t)f->left[i];
    if (total == 0) return -1;
    tp_philox(f->key, (uint64_t)f->n_draws++, 0, r);
    uint64_t at = ((uint64_t)r[1] << 32 | r[0]) % total;
    for (int i = 0;; i++) {
        if (at < (uint64_t)f->left[i]) return i;
        at -= (uint64_t)f->left[i];
    }
}
static tp_status tp__mix_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__several_flows *f = (tp__several_flows *)df->user;
    for (int i; (i = tp__mix_draw(f)) >= 0;) {
        const tp_status st = tp_df_next(f->df[i], dp);
        if (st == TP_OK) f->left[i]--;
        if (st != TP_OK && st != TP_END) f->n_draws--;
        if (st != TP_END) return st;
        f->left[i] = 0;
    }
    return TP_END;
}
/* Reads the sizes of the flows, once: the size of tp_df_cache changes while it is read, and the mixture of a pass must not depend on
 * what was read before. They lie behind f->left. */
static tp_status tp__mix_sizes(tp__several_flows *f)
{
    int64_t sum = 0, *const size = f->left + f->n;
    for (int i = 0; i < f->n; i++) {
        size[i] = tp_df_size(f->df[i]);
        if (size[i] < 0 || size[i] > INT64_MAX - sum)
            return tp_fail(TP_ERR_ARG,
                           "tp_df_random_mix: the size of flow %d (%s) is unknown: use tp_df_random_choose, or give it "
                           "a size with tp_df_fixed_size",
                           i, f->df[i]->name);
        sum += size[i];
    }
    return TP_OK;
}
static tp_status tp__mix_restart(tp_dataflow *df, int64_t pass)
{
    const tp__several_flows *f = (const tp__several_flows *)df->user;
    memcpy(f->left, f->left + f->n, (size_t)f->n * sizeof *f->left);
    return tp__choose_restart(df, pass);
}
static tp_status tp__mix_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    tp__several_flows *f = (tp__several_flows *)df->user;
    for (int i; *skipped < n && (i = tp__mix_draw(f)) >= 0;) {
        int64_t k = 0;
        const tp_status st = tp_df_seek(f->df[i], 1, &k);
        if (st != TP_OK) {
            f->n_draws--;
            return st;
        }
        f->left[i] = k ? f->left[i] - 1 : 0;
        *skipped += k;
    }
    return TP_OK;
}

TP_DEF tp_dataflow *tp_df_random_mix_(const tp_df_random_mix_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    tp_dataflow *df = tp__several_new(d->dfs, d->n, "tp_df_random_mix", d->seed, TP__SEVERAL_CONCAT);
    if (!df || df->next != tp__concat_next) return df;
    tp__several_flows *f = (tp__several_flows *)df->user;
    df->next = tp__mix_next;
    df->restart = tp__mix_restart;
    df->seek = tp__mix_seek;
    df->endless_ = false; /* a pass takes from each flow as many datapoints as the flow's size says */
    f->left = (int64_t *)tp_calloc(2 * (size_t)f->n, sizeof *f->left);
    if (!f->left) {
        tp__df_delete(df);
        return NULL;
    }
    const tp_status st = tp__mix_sizes(f);
    if (st == TP_OK) return df;
    tp__df_delete(df);
    return tp__df_failed(&d->at_, st);
}

/* -- filter ---- >>df filter */

typedef struct tp__df_filter_flow {
    tp_dataflow *df;
    tp_filter_fn keep;
    tp_map_call call;
    void (*release)(void *user);
    int64_t size;
} tp__df_filter_flow;

static tp_status tp__df_filter_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__df_filter_flow *f = (tp__df_filter_flow *)df->user;
    for (;;) {
        const tp_status st = tp_df_next(f->df, dp);
        if (st != TP_OK) return st;
        const bool is_kept = f->keep ? f->keep(dp, &f->call) : dp->n > 0;
        f->call.index++;
        if (is_kept) return TP_OK;
    }
}
static tp_status tp__df_filter_restart(tp_dataflow *df, int64_t pass)
{
    tp__df_filter_flow *f = (tp__df_filter_flow *)df->user;
    f->call.key = tp__df_key(df, pass);
    f->call.pass = pass;
    f->call.index = 0;
    return tp_df_restart(f->df, pass);
}
static int64_t tp__df_filter_size(tp_dataflow *df)
{
    const tp__df_filter_flow *f = (const tp__df_filter_flow *)df->user;
    return f->size > 0 ? f->size : tp_df_size(f->df);
}
static void tp__df_filter_close(tp_dataflow *df)
{
    tp__df_filter_flow *f = (tp__df_filter_flow *)df->user;
    tp__df_delete(f->df);
    if (f->release) f->release(f->call.user);
}

TP_DEF tp_dataflow *tp_df_filter_(const tp_df_filter_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    tp_dataflow *df;
    if (d->size < 0) {
        if (d->release) d->release(d->user);
        return TP__REFUSE(d->df, &d->at_, TP_ERR_ARG, "tp_df_filter: .size is %lld, it must be at least 0",
                          (long long)d->size);
    }
    if (!tp__df_around(&d->at_, d->df, "tp_df_filter", sizeof(tp__df_filter_flow), d->seed, &df)) {
        if (d->release) d->release(d->user);
        return df;
    }
    tp__df_filter_flow *f = (tp__df_filter_flow *)df->user;
    f->df = d->df;
    f->keep = d->keep;
    f->call.user = d->user;
    f->release = d->release;
    f->size = d->size;
    df->next = tp__df_filter_next;
    df->seek_advice_ = TP__SEEK_NEVER;
    df->restart = tp__df_filter_restart;
    df->size = tp__df_filter_size;
    df->close = tp__df_filter_close;
    return df;
}

/* -- repeated_point ---- >>df repeated_point */

typedef struct tp__repeated_point_flow {
    tp_dataflow *df;
    /* num: repetitions of each datapoint; left: those of the current one that are still to be given */
    int64_t num, left;
    tp_datapoint in;
} tp__repeated_point_flow;

static tp_status tp__repeated_point_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__repeated_point_flow *f = (tp__repeated_point_flow *)df->user;
    tp_status st = TP_OK;
    if (f->left == 0) {
        st = tp_df_next(f->df, &f->in);
        if (st == TP_OK) f->left = f->num;
    }
    if (st == TP_OK) st = tp_datapoint_view(dp, &f->in);
    if (st == TP_OK) f->left--;
    return st;
}
static tp_status tp__repeated_point_restart(tp_dataflow *df, int64_t pass)
{
    tp__repeated_point_flow *f = (tp__repeated_point_flow *)df->user;
    f->left = 0;
    return tp_df_restart(f->df, pass);
}
static int64_t tp__repeated_point_size(tp_dataflow *df)
{
    const tp__repeated_point_flow *f = (const tp__repeated_point_flow *)df->user;
    const int64_t n = tp_df_size(f->df);
    return n < 0 || n > INT64_MAX / f->num ? -1 : n * f->num;
}
static tp_status tp__repeated_point_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    tp__repeated_point_flow *f = (tp__repeated_point_flow *)df->user;
    *skipped = n < f->left ? n : f->left;
    f->left -= *skipped;
    const int64_t to_skip = n - *skipped, whole = to_skip / f->num;
    if (whole > 0) {
        int64_t k = 0;
        const tp_status st = tp_df_seek(f->df, whole, &k);
        *skipped += k * f->num;
        if (st != TP_OK || k < whole) return st;
    }
    if (to_skip % f->num == 0) return TP_OK;
    const tp_status st = tp_df_next(f->df, &f->in); /* only some of its repetitions are skipped, so it must be read */
    if (st == TP_END) return TP_OK;
    if (st != TP_OK) return st;
    f->left = f->num - to_skip % f->num;
    *skipped = n;
    return TP_OK;
}
static void tp__repeated_point_close(tp_dataflow *df)
{
    tp__repeated_point_flow *f = (tp__repeated_point_flow *)df->user;
    tp__df_delete(f->df);
    tp_datapoint_free(&f->in);
}

TP_DEF tp_dataflow *tp_df_repeated_point(tp_dataflow *child, int64_t num)
{
    tp_dataflow *df;
    if (!tp__df_around(NULL, child, "tp_df_repeated_point", sizeof(tp__repeated_point_flow), 0, &df)) return df;
    tp__repeated_point_flow *f = (tp__repeated_point_flow *)df->user;
    f->df = child;
    f->num = num;
    df->next = tp__repeated_point_next;
    df->restart = tp__repeated_point_restart;
    df->size = tp__repeated_point_size;
    df->seek = tp__repeated_point_seek;
    df->close = tp__repeated_point_close;
    if (num < 1)
        return TP__REFUSE(df, NULL, TP_ERR_ARG, "tp_df_repeated_point: %lld times: give a positive number",
                          (long long)num);
    return df;
}

/* -- cache ---- >>df cache */

enum { TP__CACHE_PREFETCH = 1024 }; /* bytes of a component: the processor finds out about the rest by itself */

typedef struct tp__cache_flow {
    tp__order order; /* order of the kept datapoints; used from pass 1 on, when all are kept */
    tp_dataflow *df;
    tp_datapoint *point; /* n kept datapoints in an array with room for cap */
    int64_t n, cap, at;  /* at: index of the next datapoint in pass 0 */
    bool shuffle, begun, complete;
    bool failed; /* a datapoint is missing: a restart before `complete` begins df anew, too */
} tp__cache_flow;

/* Reads and keeps one more datapoint; TP_END when there was none. */
static tp_status tp__cache_read(tp__cache_flow *f)
{
    tp_status st = TP_OK;
    if (f->complete) return TP_END;
    if (!f->begun && (st = tp_df_restart(f->df, 0)) != TP_OK) return st;
    f->begun = true;
    if (f->n == f->cap) {
        const int64_t cap = f->cap ? f->cap * 2 : 64;
        size_t bytes;
        if (!tp_mul_size((size_t)cap, sizeof *f->point, &bytes))
            return tp_fail(TP_ERR_NOMEM, "tp_df_cache: %lld datapoints do not fit into memory", (long long)cap);
        tp_datapoint *p = (tp_datapoint *)tp_realloc(f->point, bytes);
        if (!p) return TP_ERR_NOMEM;
        memset(p + f->cap, 0, (size_t)(cap - f->cap) * sizeof *p);
        f->point = p;
        f->cap = cap;
    }
    st = tp_df_next(f->df, &f->point[f->n]);
    if (st == TP_END) {
        const tp_status order_status = tp__order_init(&f->order, f->n, f->shuffle);
        f->complete = order_status == TP_OK;
        return order_status == TP_OK ? TP_END : order_status;
    }
    if (st == TP_OK) st = tp__datapoint_own(&f->point[f->n]);
    if (st == TP_OK) f->n++;
    if (st < TP_OK) f->failed = true;
    return st;
}
static tp_status tp__cache_complete(tp__cache_flow *f)
{
    tp_status st = TP_OK;
    while (st == TP_OK) st = tp__cache_read(f);
    return st == TP_END ? TP_OK : st;
}

/* In a shuffled pass the next datapoint may lie anywhere in memory. Its bytes, and where those of the one after it lie, are asked
 * for while this datapoint is used: waiting for them takes longer than copying a small datapoint. */
static void tp__cache_prefetch(const tp__cache_flow *f)
{
#if defined(__GNUC__)
    const tp__order *o = &f->order;
    if (!o->at || !o->made || o->n - o->next < 2) return;
    const tp_datapoint *next = &f->point[o->at[o->next]];
    __builtin_prefetch(f->point[o->at[o->next + 1]].c);
    for (int j = 0; j < next->n; j++) {
        const size_t bytes = tp_tensor_bytes(&next->c[j]);
        for (size_t k = 0; k < bytes && k < TP__CACHE_PREFETCH; k += 64)
            __builtin_prefetch((const char *)next->c[j].data + k);
    }
#else
    (void)f;
#endif
}

static tp_status tp__cache_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__cache_flow *f = (tp__cache_flow *)df->user;
    int64_t i = f->at;
    tp_status st = df->pass_ > 0 ? tp__cache_complete(f) : f->at < f->n ? TP_OK : tp__cache_read(f);
    if (st != TP_OK) return st;
    if (df->pass_ > 0) i = tp__order_take(&f->order);
    else f->at++;
    tp__cache_prefetch(f);
    return i < 0 ? TP_END : tp_datapoint_view(dp, &f->point[i]);
}
static tp_status tp__cache_restart(tp_dataflow *df, int64_t pass)
{
    tp__cache_flow *f = (tp__cache_flow *)df->user;
    f->at = 0;
    if (f->failed && !f->complete) f->n = 0, f->begun = f->failed = false;
    tp__order_restart(&f->order, tp__df_key(df, pass));
    return TP_OK;
}
static int64_t tp__cache_size(tp_dataflow *df)
{
    const tp__cache_flow *f = (const tp__cache_flow *)df->user;
    return f->complete ? f->n : tp_df_size(f->df);
}
static tp_status tp__cache_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    tp__cache_flow *f = (tp__cache_flow *)df->user;
    tp_status st = TP_OK;
    if (df->pass_ > 0) {
        st = tp__cache_complete(f);
        if (st == TP_OK) *skipped = tp__order_skip(&f->order, n);
        return st;
    }
    while (*skipped < n && st == TP_OK) {
        if (f->at == f->n) st = tp__cache_read(f);
        if (st != TP_OK) break;
        f->at++;
        ++*skipped;
    }
    return st == TP_END ? TP_OK : st;
}
static void tp__cache_close(tp_dataflow *df)
{
    tp__cache_flow *f = (tp__cache_flow *)df->user;
    tp__df_delete(f->df);
    for (int64_t i = 0; i < f->cap; i++) tp_datapoint_free(&f->point[i]);
    tp_free(f->point);
    tp_free(f->order.at);
}

TP_DEF tp_dataflow *tp_df_cache_(const tp_df_cache_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    tp_dataflow *df;
    if (!tp__df_around(&d->at_, d->df, "tp_df_cache", sizeof(tp__cache_flow), d->seed, &df)) return df;
    tp__cache_flow *f = (tp__cache_flow *)df->user;
    f->df = d->df;
    f->shuffle = tp__tri_is_yes(d->shuffle, false);
    df->next = tp__cache_next;
    df->restart = tp__cache_restart;
    df->size = tp__cache_size;
    df->seek = tp__cache_seek;
    df->close = tp__cache_close;
    df->collects_ = NULL; /* every pass gives what pass 0 gave */
    const char *const below = d->df->name;
    if (d->df->endless_)
        return TP__REFUSE(df, &d->at_, TP_ERR_ARG,
                          "tp_df_cache: the passes of %s have no end, so they cannot be kept in memory: put tp_df_take "
                          "or tp_df_fixed_size below it",
                          below);
    return df;
}

/* -- batch_by_shape ---- >>df batch_by_shape */

typedef struct tp__by_shape {
    tp_shape shape;
    int64_t filled; /* number of rows filled in the batch */
    tp_datapoint batch;
} tp__by_shape;

typedef struct tp__by_shape_flow {
    tp_dataflow *df;
    int64_t batch, index, read; /* of this pass: the batches that were given, the datapoints that were read */
    /* number of passes, from pass 0 on, whose left-over datapoints the collections hold; -1: a pass is being read */
    int64_t done;
    int idx, n, cap;
    bool keep_state;
    tp__by_shape *holder;
    tp_datapoint in;
} tp__by_shape_flow;

static tp__by_shape *tp__by_shape_find(tp__by_shape_flow *f, const tp_shape *shape)
{
    for (int i = 0; i < f->n; i++)
        if (tp_shape_equal(&f->holder[i].shape, shape)) return &f->holder[i];
    if (f->n == f->cap) {
        const int cap = f->cap ? f->cap * 2 : 8;
        tp__by_shape *h = (tp__by_shape *)tp_realloc(f->holder, (size_t)cap * sizeof *h);
        if (!h) return NULL;
        memset(h + f->cap, 0, (size_t)(cap - f->cap) * sizeof *h);
        f->holder = h;
        f->cap = cap;
    }
    f->holder[f->n].shape = *shape;
    return &f->holder[f->n++];
}

/* Reads the next datapoint and adds it to the collection of its shape: *full is that collection if its batch is complete. */
static tp_status tp__by_shape_put(tp_dataflow *df, tp__by_shape **full)
{
    tp__by_shape_flow *f = (tp__by_shape_flow *)df->user;
    *full = NULL;
    tp_status st = tp_df_next(f->df, &f->in);
    if (st != TP_OK) return st;
    f->read++;
    if (f->idx >= f->in.n)
        return tp_fail(TP_ERR_ARG, "%s: the shape of component %d is compared, but a datapoint has %d components",
                       df->name, f->idx, f->in.n);
    tp__by_shape *h = tp__by_shape_find(f, &f->in.c[f->idx].shape);
    if (!h) return TP_ERR_NOMEM;
    st = tp__batch_put(df->name, &h->batch, &f->in, h->filled, f->batch, f->index);
    if (st != TP_OK || ++h->filled < f->batch) return st;
    h->filled = 0;
    f->index++;
    *full = h;
    return TP_OK;
}
static tp_status tp__by_shape_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__by_shape_flow *f = (tp__by_shape_flow *)df->user;
    tp__by_shape *full = NULL;
    tp_status st = TP_OK;
    f->done = -1;
    while (st == TP_OK && !full) st = tp__by_shape_put(df, &full);
    if (st == TP_END) f->done = df->pass_ + 1;
    return st == TP_OK ? tp_datapoint_view(dp, &full->batch) : st;
}
static tp_status tp__by_shape_restart(tp_dataflow *df, int64_t pass)
{
    tp__by_shape_flow *f = (tp__by_shape_flow *)df->user;
    tp_status st = TP_OK;
    f->index = 0;
    if (!f->keep_state || f->done != pass) {
        for (int i = 0; i < f->n; i++) f->holder[i].filled = 0;
        f->done = -1;
        for (int64_t p = 0; f->keep_state && p < pass && st == TP_OK; p++) {
            tp__by_shape *full;
            st = tp_df_restart(f->df, p);
            while (st == TP_OK) st = tp__by_shape_put(df, &full);
            if (st == TP_END) st = TP_OK;
        }
        if (st != TP_OK) return st;
    }
    st = tp_df_restart(f->df, pass);
    f->done = st == TP_OK ? pass : -1;
    f->index = f->read = 0;
    return st;
}
static bool tp__df_has_collected(const tp_dataflow *df)
{
    const tp__by_shape_flow *f = df->collects_ ? (const tp__by_shape_flow *)df->collects_->user : NULL;
    return f && f->read > 0 && f->index == 0;
}
static int64_t tp__by_shape_size(tp_dataflow *df)
{
    const tp__by_shape_flow *f = (const tp__by_shape_flow *)df->user;
    const int64_t n = tp_df_size(f->df);
    return n < 0 ? -1 : n / f->batch;
}
static void tp__by_shape_close(tp_dataflow *df)
{
    tp__by_shape_flow *f = (tp__by_shape_flow *)df->user;
    tp__df_delete(f->df);
    for (int i = 0; i < f->n; i++) tp_datapoint_free(&f->holder[i].batch);
    tp_free(f->holder);
    tp_datapoint_free(&f->in);
}

TP_DEF tp_dataflow *tp_df_batch_by_shape_(const tp_df_batch_by_shape_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    tp_dataflow *df;
    if (!tp__df_around(&d->at_, d->df, "tp_df_batch_by_shape", sizeof(tp__by_shape_flow), 0, &df)) return df;
    tp__by_shape_flow *f = (tp__by_shape_flow *)df->user;
    f->df = d->df;
    f->batch = d->batch_size;
    f->idx = d->idx;
    f->keep_state = tp__tri_is_yes(d->keep_state, true) && !d->df->endless_; /* without an end nothing is left over */
    df->collects_ = f->keep_state ? df : NULL;
    df->next = tp__by_shape_next;
    df->seek_advice_ = TP__SEEK_NEVER;
    df->restart = tp__by_shape_restart;
    df->size = tp__by_shape_size;
    df->close = tp__by_shape_close;
    if (d->batch_size < 1)
        return TP__REFUSE(df, &d->at_, TP_ERR_ARG, "tp_df_batch_by_shape: batch_size is %lld, it must be at least 1",
                          (long long)d->batch_size);
    if (d->idx < 0)
        return TP__REFUSE(df, &d->at_, TP_ERR_ARG, "tp_df_batch_by_shape: there is no component %d", d->idx);
    const int64_t n = d->df->endless_ ? -1 : tp_df_size(d->df);
    if (!f->keep_state && n >= 0 && n < d->batch_size)
        return TP__REFUSE(
            df, &d->at_, TP_ERR_ARG,
            "tp_df_batch_by_shape: batch_size is %lld but a pass has only %lld datapoints: make it smaller "
            "or leave out .keep_state = TP_NO",
            (long long)d->batch_size, (long long)n);
    return df;
}

/* -- print ---- >>df print */

typedef struct tp__print_flow {
    tp_dataflow *df;
    int left;
    char title[64];
} tp__print_flow;

static tp_status tp__print_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__print_flow *f = (tp__print_flow *)df->user;
    tp_status st = tp_df_next(f->df, dp);
    if (st != TP_OK || f->left == 0) return st;
    f->left--;
    tp_log(TP_LOG_INFO, "%s: a datapoint of %d components", f->title, dp->n);
    for (int j = 0; j < dp->n; j++) {
        const int64_t n = tp_tensor_size(&dp->c[j]);
        double low = 0, high = 0;
        char t[TP_SHAPE_TEXT];
        for (int64_t i = 0; i < n; i++) {
            const double v = tp_tensor_get(&dp->c[j], i);
            if (i == 0 || v < low) low = v;
            if (i == 0 || v > high) high = v;
        }
        tp_log(TP_LOG_INFO, "  %d: %s %s, from %.6g to %.6g", j, tp_dtype_name(dp->c[j].dtype),
               tp_shape_text(&dp->c[j].shape, t), low, high);
    }
    return TP_OK;
}
static tp_status tp__print_restart(tp_dataflow *df, int64_t pass)
{
    return tp_df_restart(((tp__print_flow *)df->user)->df, pass);
}
static int64_t tp__print_size(tp_dataflow *df) { return tp_df_size(((const tp__print_flow *)df->user)->df); }
static tp_status tp__print_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    return tp_df_seek(((tp__print_flow *)df->user)->df, n, skipped);
}
static void tp__print_close(tp_dataflow *df) { tp__df_delete(((tp__print_flow *)df->user)->df); }

TP_DEF tp_dataflow *tp_df_print(tp_dataflow *child, int num, const char *name)
{
    tp_dataflow *df;
    if (!tp__df_around(NULL, child, "tp_df_print", sizeof(tp__print_flow), 0, &df)) return df;
    tp__print_flow *f = (tp__print_flow *)df->user;
    f->df = child;
    f->left = num < 0 ? 0 : num;
    snprintf(f->title, sizeof f->title, "%s", name ? name : child->name);
    df->next = tp__print_next;
    df->restart = tp__print_restart;
    df->size = tp__print_size;
    df->seek = tp__print_seek;
    df->close = tp__print_close;
    return df;
}

/* ==== >>parallel ======================================================================================= */

/* -- a crew: threads that read the flow below, one of them at a time, and map the datapoints in parallel ---- >>crew
 *
 * A datapoint has a slot, whose buffers are reused. The queues hold indices of slots. free_slots has the free slots; in_order,
 * the line, has the slots that the caller gets next: a slot enters the line when it has been read (ordered) or when it is ready
 * (not ordered). `unmapped` has slots that were read and wait for a worker to map them: one worker reads for several, so that
 * the workers seldom compete for the flow below. The caller has a view of the slot that it got last, `held`, until its next
 * call. While `paused` is set, no worker takes a new slot; once `busy` is 0, the caller may change the whole crew.
 *
 * Waking a thread takes longer than decoding a small image, so threads are not woken for each datapoint. A waiting caller is
 * woken when `wake_at` datapoints, work for about TP__CREW_NAP seconds, are ready, or when it has waited for TP__CREW_STALL
 * seconds. A worker takes up to `share` unmapped slots at once, work for about a quarter of that time, so that it seldom waits for
 * the mutex. Workers that found no free slot are woken when a quarter of the slots is free. The caller moves up to a quarter of
 * the slots from the line to given_to_caller at once, collects the slots that it has used in used_by_caller, and frees these
 * when it moves the next ones. */

#define TP__CREW_NAP   500e-6
#define TP__CREW_STALL 1e-3
enum { TP__CREW_SHARE = 8 }; /* largest `share` */

typedef struct tp__crew_slot {
    tp_datapoint in, out;
    int64_t index; /* number of the datapoint in the pass of the flow below */
    tp_status status;
    bool unread; /* the flow below failed to make this datapoint */
    bool is_dropped, ready;
    char *text; /* sentence of the error; NULL: there was no memory for it */
} tp__crew_slot;

typedef struct tp__crew_ring {
    int *item; /* a ring of indices of slots */
    int head, n;
} tp__crew_ring;

struct tp__crew;
typedef struct tp__crew_worker {
    struct tp__crew *crew;
    tp_thread *thread;
    int number;
} tp__crew_worker;

typedef struct tp__crew {
    tp_dataflow *self, *df;
    tp_map_fn fn; /* the mapping function; NULL: the workers only read */
    tp_map_call call;
    void (*release)(void *user);
    bool ordered, keeps_all;
    tp__crew_worker *worker;
    /* numbers of workers, of started workers, of slots. Without workers the caller does all the work, in slot 0 */
    int n_worker, n_started, n_slot;
    tp_mutex *mutex;
    tp_cond *work, *done; /* the workers wait for `work`, the caller waits for `done` */
    tp__crew_slot *slot;
    tp__crew_ring in_order, free_slots, unmapped, given_to_caller, used_by_caller;
    int held, busy; /* busy: number of workers that have a slot */
    int n_ready;    /* number of slots in in_order that are ready */
    int wake_at,
        taken; /* wake_at: number of ready datapoints at which the waiting caller is woken; taken: number that it has taken since
                * the time `since`, when it last began to wait */
    int share; /* number of read slots that a worker takes at once at most; 1 until the caller has waited */
    double since;
    bool reading, ended, paused, quit;
    bool stopping; /* atomic: the threads are being restarted or ended, so a flow below that waits must stop waiting */
    int64_t index; /* number of the next datapoint of the flow below */
} tp__crew;

static void tp__crew_push(const tp__crew *f, tp__crew_ring *r, int k) { r->item[(r->head + r->n++) % f->n_slot] = k; }
static int tp__crew_pop(const tp__crew *f, tp__crew_ring *r)
{
    const int k = r->item[r->head];
    r->head = (r->head + 1) % f->n_slot;
    r->n--;
    return k;
}

static void tp__crew_failed(const tp__crew *f, tp__crew_slot *s, tp_status st)
{
    s->status = st;
    if (st >= TP_OK) return; /* TP_STOP: the flow below asks to stop */
    tp__df_named(f->self, s->index, st);
    s->text = tp_strdup(tp_last_error());
}

static void tp__crew_map(const tp__crew *f, tp__crew_slot *s, int thread)
{
    tp_map_call call = f->call;
    call.index = s->index;
    call.thread = thread;
    call.drop = false;
    tp_status st = tp_datapoint_view(&s->out, &s->in);
    const unsigned n_errors = tp__n_errors;
    const bool watched = s->index == 0;
    const uint32_t before = watched ? tp__datapoint_sum(&s->in) : 0;
    if (st == TP_OK) st = tp__add_missing_sentence(f->self->name, n_errors, f->fn(&s->in, &s->out, &call));
    if (st == TP_OK && watched && before != tp__datapoint_sum(&s->in)) st = tp__map_wrote(f->self);
    s->is_dropped = call.drop;
    if (st == TP_OK && call.drop && f->keeps_all) st = tp__told_of_drop(f->self);
    if (st != TP_OK) tp__crew_failed(f, s, st);
}

/* Reads the next datapoint of the flow below into a slot. Called without the mutex; `reading` keeps other workers away. */
static tp_status tp__crew_read(const tp__crew *f, tp__crew_slot *s)
{
    s->status = TP_OK;
    s->is_dropped = s->ready = s->unread = false;
    s->index = f->index;
    tp_status st = tp_df_next(f->df, &s->in);
    if (st == TP_OK) st = tp__datapoint_own(&s->in);
    if (st == TP_OK || st == TP_END || (st == TP_STOP && tp_df_stopping())) return st;
    s->unread = true;
    tp__crew_failed(f, s, st);
    return st;
}

/* Wakes the caller if enough slots are ready or the data have ended: called after a slot became ready or a worker finished. The
 * mutex is locked. */
static void tp__crew_wake_caller(tp__crew *f)
{
    if (f->paused || f->ended || f->n_ready >= f->wake_at) tp_cond_signal(f->done);
}
static void tp__crew_ready(tp__crew *f, int k)
{
    f->slot[k].ready = true;
    if (!f->ordered) tp__crew_push(f, &f->in_order, k);
    f->n_ready++;
}

/* Reads until there are two shares of unmapped slots for each worker; a single worker reads one share. The mutex is locked, except
 * during a read. */
static void tp__crew_refill(tp__crew *f)
{
    const int max_unmapped = f->share * (f->n_worker > 1 ? 2 * f->n_worker : 1);
    tp_status st = TP_OK;
    f->reading = true;
    f->busy++;
    while (st == TP_OK && !f->quit && !f->paused && f->free_slots.n && f->unmapped.n < max_unmapped) {
        const int k = tp__crew_pop(f, &f->free_slots);
        tp_mutex_unlock(f->mutex);
        st = tp__crew_read(f, &f->slot[k]);
        tp_mutex_lock(f->mutex);
        const bool nothing_read =
            st == TP_END || (st == TP_STOP && tp_df_stopping()); /* TP_STOP: reading continues later */
        if (st == TP_OK) f->index++;
        else if (st == TP_END || !nothing_read) f->ended = true;
        if (nothing_read) tp__crew_push(f, &f->free_slots, k);
        else if (f->ordered) tp__crew_push(f, &f->in_order, k);
        if (st == TP_OK && f->fn) {
            tp__crew_push(f, &f->unmapped, k);
            tp_cond_signal(f->work);
        } else if (!nothing_read) {
            tp__crew_ready(f, k);
            tp__crew_wake_caller(f);
        }
    }
    f->reading = false;
    f->busy--;
    tp__crew_wake_caller(f);
}

static void tp__crew_thread(void *user)
{
    const tp__crew_worker *w = (const tp__crew_worker *)user;
    tp__crew *f = w->crew;
    int mine[TP__CREW_SHARE];
    tp__df_stop = &f->stopping;
    tp_mutex_lock(f->mutex);
    while (!f->quit) {
        const bool can_read = !f->ended && !f->reading && f->free_slots.n;
        if (f->paused || (!can_read && f->unmapped.n == 0)) {
            tp_cond_wait(f->work, f->mutex);
            continue;
        }
        if (can_read && f->unmapped.n < f->n_worker * f->share) tp__crew_refill(f);
        if (f->unmapped.n == 0 || f->paused || f->quit) continue;
        const int equal_part = (f->unmapped.n - 1) / f->n_worker + 1, n = equal_part < f->share ? equal_part : f->share;
        for (int i = 0; i < n; i++) mine[i] = tp__crew_pop(f, &f->unmapped);
        if (f->unmapped.n || (can_read && f->free_slots.n)) tp_cond_signal(f->work);
        f->busy++;
        tp_mutex_unlock(f->mutex);
        for (int i = 0; i < n; i++) tp__crew_map(f, &f->slot[mine[i]], w->number);
        tp_mutex_lock(f->mutex);
        for (int i = 0; i < n; i++) tp__crew_ready(f, mine[i]);
        f->busy--;
        tp__crew_wake_caller(f);
    }
    tp_mutex_unlock(f->mutex);
}

/* Frees the slots of a queue; the mutex is locked. */
static void tp__crew_free_slots(tp__crew *f, tp__crew_ring *of)
{
    if (of->n == 0) return;
    while (of->n) {
        const int k = tp__crew_pop(f, of);
        tp_free(f->slot[k].text);
        f->slot[k].text = NULL;
        tp__crew_push(f, &f->free_slots, k);
    }
    if (4 * (int64_t)f->free_slots.n >= f->n_slot) tp_cond_signal(f->work);
}
/* Moves ready slots from the head of in_order to the caller, up to `max_slots`. The mutex is locked. */
static void tp__crew_give_to_caller(tp__crew *f, int max_slots)
{
    for (int n = 0; n < max_slots && f->in_order.n && f->slot[f->in_order.item[f->in_order.head]].ready; n++) {
        tp__crew_push(f, &f->given_to_caller, tp__crew_pop(f, &f->in_order));
        f->n_ready--;
        f->taken++;
    }
}

/* Returns the failure of a slot with its sentence, and lets reading continue after the failed datapoint. */
static tp_status tp__crew_slot_failure(tp__crew *f, int k)
{
    const tp__crew_slot *s = &f->slot[k];
    const tp_status st = s->status;
    if (st < TP_OK) tp_fail(st, "%s", s->text ? s->text : "out of memory, also for the error sentence");
    if (s->unread) {
        tp_mutex_lock(f->mutex);
        f->ended = false;
        tp_cond_signal(f->work);
        tp_mutex_unlock(f->mutex);
    }
    tp__crew_push(f, &f->used_by_caller, k);
    return st;
}

static tp_status tp__crew_start(tp__crew *f)
{
    tp_status st = TP_OK;
    while (f->n_started < f->n_worker && st == TP_OK) {
        tp__crew_worker *w = &f->worker[f->n_started];
        w->crew = f;
        w->number = f->n_started;
        st = tp_thread_start(&w->thread, tp__crew_thread, w);
        if (st == TP_OK) f->n_started++;
    }
    return st;
}

static tp_status tp__crew_next_here(tp__crew *f, tp_datapoint *dp)
{
    tp__crew_slot *s = &f->slot[0];
    for (;;) {
        if (!f->fn) return tp_df_next(f->df, dp);
        const tp_status st = tp_df_next(f->df, &s->in);
        if (st != TP_OK) return st;
        s->status = TP_OK;
        s->index = f->index++;
        tp__crew_map(f, s, 0);
        if (s->status != TP_OK) {
            const tp_status failed = s->status;
            if (failed < TP_OK && s->text) tp_fail(failed, "%s", s->text);
            tp_free(s->text);
            s->text = NULL;
            return failed;
        }
        if (!s->is_dropped) return tp_datapoint_view(dp, &s->out);
    }
}

/* Waits until the first slot of in_order is ready, or in_order is empty and will stay empty. Not TP_OK: the flow must stop waiting.
 * The mutex is locked. */
static tp_status tp__crew_await(tp__crew *f)
{
    tp_status waits = TP_OK;
    for (bool first = true;; first = false) {
        if (f->in_order.n ? f->slot[f->in_order.item[f->in_order.head]].ready
                          : f->ended && f->busy == 0 && f->unmapped.n == 0)
            return TP_OK;
        if (waits != TP_OK) return waits;
        if (first) {
            const double now = tp_time(), seconds_each = (now - f->since) / (f->taken + 1.0),
                         max_wait = 0.5 * f->n_slot - 1;
            const double datapoints_per_nap = seconds_each > 0 ? TP__CREW_NAP / seconds_each : 1;
            f->wake_at = 1 + (int)(datapoints_per_nap < max_wait ? datapoints_per_nap : max_wait);
            f->share = 1 + f->wake_at / (4 * f->n_worker);
            if (f->share > TP__CREW_SHARE) f->share = TP__CREW_SHARE;
            f->since = now;
            f->taken = 0;
        }
        if (tp__df_may_wait() != TP_OK || f->wake_at < 2) waits = tp__df_wait(f->done, f->mutex);
        else if (!tp_cond_wait_for(f->done, f->mutex, TP__CREW_STALL)) f->wake_at = 1;
    }
}

/* Waits until mapped datapoints are ready and moves their slots to given_to_caller. TP_END: the data have ended; TP_STOP,
 * TP_INTR: no waiting any more. */
static tp_status tp__crew_more(tp__crew *f)
{
    tp_mutex_lock(f->mutex);
    tp__crew_free_slots(f, &f->used_by_caller);
    if (f->paused) {
        f->paused = false;
        __atomic_store_n(&f->stopping, false, __ATOMIC_RELEASE);
        tp_cond_signal(f->work); /* wake one worker: the worker that reads wakes the next one */
    }
    const tp_status st = tp__crew_await(f);
    tp__crew_give_to_caller(f, f->n_slot / 4 + 1);
    tp_mutex_unlock(f->mutex);
    return f->given_to_caller.n ? TP_OK : st == TP_OK ? TP_END : st;
}

static tp_status tp__crew_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__crew *f = (tp__crew *)df->user;
    if (f->n_worker == 0) return tp__crew_next_here(f, dp);
    tp_status st = tp__crew_start(f);
    if (f->held >= 0) tp__crew_push(f, &f->used_by_caller, f->held);
    f->held = -1;
    while (st == TP_OK) {
        if (f->given_to_caller.n == 0 && (st = tp__crew_more(f)) != TP_OK) break;
        const int k = tp__crew_pop(f, &f->given_to_caller);
        const tp__crew_slot *s = &f->slot[k];
        if (s->status != TP_OK) return tp__crew_slot_failure(f, k);
        if (!s->is_dropped) {
            f->held = k;
            return tp_datapoint_view(dp, f->fn ? &s->out : &s->in);
        }
        tp__crew_push(f, &f->used_by_caller, k);
    }
    return st;
}

/* Waits until no worker has a slot. The mutex is locked on return. */
static void tp__crew_pause(tp__crew *f)
{
    tp_mutex_lock(f->mutex);
    f->paused = true;
    while (f->busy > 0) tp_cond_wait(f->done, f->mutex);
}

static tp_status tp__crew_restart(tp_dataflow *df, int64_t pass)
{
    tp__crew *f = (tp__crew *)df->user;
    __atomic_store_n(&f->stopping, true, __ATOMIC_RELEASE);
    tp__crew_pause(f);
    if (f->held >= 0) tp__crew_push(f, &f->used_by_caller, f->held);
    f->held = -1;
    tp__crew_free_slots(f, &f->used_by_caller);
    tp__crew_free_slots(f, &f->given_to_caller);
    if (!f->ordered) tp__crew_free_slots(f, &f->unmapped);
    f->unmapped.n = 0; /* with .ordered, the slots that are not mapped yet are also in the list in_order */
    tp__crew_free_slots(f, &f->in_order);
    f->n_ready = 0;
    f->ended = false;
    tp_mutex_unlock(f->mutex);
    f->index = 0;
    f->call.pass = pass;
    f->call.key = tp__df_key(df, pass);
    return tp_df_restart(f->df, pass);
}

static int64_t tp__crew_size(tp_dataflow *df) { return tp_df_size(((const tp__crew *)df->user)->df); }

static tp_status tp__crew_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    tp__crew *f = (tp__crew *)df->user;
    tp_status st = TP_OK;
    if (!f->ordered)
        tp_log_once(TP_LOG_WARN,
                    "%s: the order of the datapoints is not fixed, so those given before are not exactly those that "
                    "are skipped now: set .ordered = TP_YES",
                    df->name);
    if (!f->keeps_all) { /* only fn knows which datapoints it drops */
        tp__df_tell_reading(df, n);
        while (*skipped < n && (st = tp_df_next(df, &df->skip_)) == TP_OK) ++*skipped;
        df->index_ -= *skipped; /* tp_df_next has counted the skipped datapoints, and tp_df_seek counts them again */
        return st == TP_END ? TP_OK : st;
    }
    tp__crew_pause(f);
    tp__crew_give_to_caller(f, f->n_slot);
    tp_mutex_unlock(f->mutex);
    while (*skipped < n && f->given_to_caller.n) {
        const int k = tp__crew_pop(f, &f->given_to_caller);
        if (f->slot[k].unread) return tp__crew_slot_failure(f, k);
        tp__crew_push(f, &f->used_by_caller, k);
        ++*skipped;
    }
    for (; *skipped < n && f->unmapped.n; ++*skipped) {
        tp__crew_push(f, &f->used_by_caller, tp__crew_pop(f, &f->unmapped));
        /* with .ordered this slot is also the first of in_order: all slots before it were ready */
        if (f->ordered) tp__crew_pop(f, &f->in_order);
    }
    if (*skipped < n && f->in_order.n) { /* the datapoint of the next slot of in_order has failed */
        tp_mutex_lock(f->mutex);
        tp__crew_give_to_caller(f, 1);
        tp_mutex_unlock(f->mutex);
        return tp__crew_slot_failure(f, tp__crew_pop(f, &f->given_to_caller));
    }
    if (*skipped < n && !f->ended) {
        int64_t k = 0;
        st = tp_df_seek(f->df, n - *skipped, &k);
        f->index += k;
        *skipped += k;
    }
    return st;
}

static void tp__crew_close(tp_dataflow *df)
{
    tp__crew *f = (tp__crew *)df->user;
    tp_mutex_lock(f->mutex);
    f->quit = true;
    __atomic_store_n(&f->stopping, true, __ATOMIC_RELEASE);
    tp_cond_broadcast(f->work);
    tp_mutex_unlock(f->mutex);
    for (int i = 0; i < f->n_started; i++) tp_thread_join(f->worker[i].thread);
    tp__df_delete(f->df);
    for (int k = 0; k < f->n_slot && f->slot; k++) {
        tp_datapoint_free(&f->slot[k].in);
        tp_datapoint_free(&f->slot[k].out);
        tp_free(f->slot[k].text);
    }
    tp_free(f->slot);
    tp_free(f->in_order.item); /* frees the other four rings too, which are in the same block of memory */
    tp_free(f->worker);
    tp_cond_free(f->work);
    tp_cond_free(f->done);
    tp_mutex_free(f->mutex);
    if (f->release) f->release(f->call.user);
}

/* Makes a flow whose threads read the flow d->df and map its datapoints; d->fn NULL: they only read. kind: that of the flow that
 * gives the same datapoints without threads. */
static tp_dataflow *tp__crew_new(const tp_df_parallel_map_desc *d, const char *name, const char *kind, int threads,
                                 int buffers)
{
    tp_dataflow *df;
    if (!tp__df_around_of_kind(&d->at_, d->df, name, kind, sizeof(tp__crew), d->seed, &df)) {
        if (d->release) d->release(d->user);
        return df;
    }
    tp__crew *f = (tp__crew *)df->user;
    f->self = df;
    f->df = d->df;
    f->fn = d->fn;
    f->call.user = d->user;
    f->release = d->release;
    f->ordered = tp__tri_is_yes(d->ordered, true);
    df->unordered_ = !f->ordered;
    f->keeps_all = !d->fn || tp__tri_is_yes(d->keeps_all, false);
    f->held = -1;
    f->share = 1;
    f->paused = true;
    df->next = tp__crew_next;
    df->restart = tp__crew_restart;
    df->size = tp__crew_size;
    df->seek = tp__crew_seek;
    df->seek_advice_ = TP__SEEK_MAP(d->keeps_all);
    df->close = tp__crew_close;
#ifdef TP_NO_THREADS
    threads = buffers = 0;
#endif
    f->n_worker = threads;
    f->n_slot = buffers + 1; /* one more slot, which the caller holds */
    f->slot = (tp__crew_slot *)tp_calloc((size_t)f->n_slot, sizeof *f->slot);
    f->in_order.item = (int *)tp_calloc((size_t)f->n_slot, 5 * sizeof(int));
    f->worker = (tp__crew_worker *)tp_calloc((size_t)threads + 1, sizeof *f->worker);
    f->mutex = tp_mutex_new();
    f->work = tp_cond_new();
    f->done = tp_cond_new();
    if (f->slot && f->in_order.item && f->worker && f->mutex && f->work && f->done) {
        f->free_slots.item = f->in_order.item + f->n_slot;
        f->given_to_caller.item = f->free_slots.item + f->n_slot;
        f->used_by_caller.item = f->given_to_caller.item + f->n_slot;
        f->unmapped.item = f->used_by_caller.item + f->n_slot;
        for (int k = 0; k < f->n_slot; k++) tp__crew_push(f, &f->free_slots, k);
        return df;
    }
    tp__df_delete(df);
    return NULL;
}

/* -- prefetch, parallel_map, multi_thread ---- >>df prefetch >>df parallel_map >>df multi_thread */

enum { TP__MAX_BUFFERS = 1 << 24, TP__MAX_FLOW_THREADS = 1024 };

TP_DEF tp_dataflow *tp_df_prefetch_(const tp_df_prefetch_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    const bool valid = d->num_prefetch >= 0 && d->num_prefetch <= TP__MAX_BUFFERS;
    tp_df_parallel_map_desc m;
    memset(&m, 0, sizeof m);
    m.at_ = d->at_;
    m.df = d->df;
    tp_dataflow *df =
        tp__crew_new(&m, "tp_df_prefetch", "tp_df_prefetch", 1, valid && d->num_prefetch ? d->num_prefetch : 8);
    if (valid || !df || df->next != tp__crew_next) return df;
    return TP__REFUSE(df, &d->at_, TP_ERR_ARG, "tp_df_prefetch: num_prefetch is %d: give 1 to %d, or 0 for 8",
                      d->num_prefetch, (int)TP__MAX_BUFFERS);
}

/* The same as tp_df_parallel_map, with the name of another flow for error sentences. d->num_thread 0: one per
 * processor. */
static tp_dataflow *tp__parallel_map(const tp_df_parallel_map_desc *d, const char *name, const char *kind)
{
    const bool threads_valid = d->num_thread >= 0 && d->num_thread <= TP__MAX_FLOW_THREADS;
    const bool valid = threads_valid && d->buffer_size >= 0 && d->buffer_size <= TP__MAX_BUFFERS;
    int threads = valid ? d->num_thread : 1;
#ifndef TP_NO_THREADS
    if (threads == 0) threads = tp__os_processors();
    if (threads > TP__MAX_FLOW_THREADS) threads = TP__MAX_FLOW_THREADS;
#endif
    tp_dataflow *df = tp__crew_new(d, name, kind, threads, valid && d->buffer_size ? d->buffer_size : 200);
    if (!df || df->next != tp__crew_next) return df;
    if (!valid)
        return TP__REFUSE(df, &d->at_, TP_ERR_ARG, "%s: %s is %d: give 0 to %d", name,
                          threads_valid ? "buffer_size" : "num_thread", threads_valid ? d->buffer_size : d->num_thread,
                          threads_valid ? (int)TP__MAX_BUFFERS : (int)TP__MAX_FLOW_THREADS);
    if (!d->fn) return TP__REFUSE(df, &d->at_, TP_ERR_ARG, "%s: the function is NULL", name);
    return df;
}

TP_DEF tp_dataflow *tp_df_parallel_map_(const tp_df_parallel_map_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    return tp__parallel_map(d, "tp_df_parallel_map", "tp_df_map");
}

static tp_status tp__round_robin_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__several_flows *f = (tp__several_flows *)df->user;
    if (f->given == f->size || f->failed) return TP_END;
    const tp_status st = tp_df_next(f->df[f->n_draws % f->n], dp);
    if (st > TP_OK) return st;
    f->n_draws++; /* one that failed had its turn */
    if (f->size >= 0) f->given++;
    return st;
}
/* Skips n datapoints, each flow its share of them. */
static tp_status tp__round_robin_skip(tp__several_flows *f, int64_t n)
{
    tp_status st = TP_OK;
    const int first = (int)(f->n_draws % f->n);
    for (int i = 0; i < f->n && st == TP_OK; i++) {
        /* the flows give datapoints in turn: of the next f->n datapoints, flow i gives number `position` */
        const int position = (i - first + f->n) % f->n;
        st = tp_df_seek(f->df[i], n / f->n + (position < n % f->n), NULL);
    }
    f->n_draws += n;
    if (st == TP_OK) return st;
    f->failed = true;   /* the flows before the one that failed are ahead of the others: this pass is over */
    f->started = false; /* the next restart must restart all flows */
    return st;
}
static tp_status tp__round_robin_restart(tp_dataflow *df, int64_t pass)
{
    tp__several_flows *f = (tp__several_flows *)df->user;
    const bool endless = f->size < 0;
    if (f->size > 0 && pass > INT64_MAX / f->size - 1)
        return tp_fail(TP_ERR_ARG, "%s: there is no pass %lld", df->name, (long long)pass);
    const int64_t start = endless ? 0 : pass * f->size;
    f->given = 0;
    /* the usual case: continue where the last pass ended */
    if (!endless && f->started && f->n_draws == start) return TP_OK;
    const tp_status st = tp__several_restart(df, endless ? pass : 0);
    f->n_draws = 0;
    f->started = st == TP_OK;
    return st == TP_OK ? tp__round_robin_skip(f, start) : st;
}
static int64_t tp__round_robin_size(tp_dataflow *df) { return ((const tp__several_flows *)df->user)->size; }
static tp_status tp__round_robin_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    tp__several_flows *f = (tp__several_flows *)df->user;
    const int64_t m = f->failed ? 0 : f->size < 0 || n < f->size - f->given ? n : f->size - f->given;
    const tp_status st = tp__round_robin_skip(f, m);
    if (st != TP_OK) return st;
    if (f->size >= 0) f->given += m;
    *skipped = m;
    return TP_OK;
}

TP_DEF tp_dataflow *tp_df_multi_thread_(const tp_df_multi_thread_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    if (!d->get_df) return tp_df_fail(&d->at_, TP_ERR_ARG, "tp_df_multi_thread: the function get_df is NULL");
    if (d->num_thread < 1 || d->num_thread > TP__MAX_FLOW_THREADS)
        return tp_df_fail(&d->at_, TP_ERR_ARG, "tp_df_multi_thread: num_thread is %d: give 1 to %d", d->num_thread,
                          (int)TP__MAX_FLOW_THREADS);
    tp_dataflow **list = (tp_dataflow **)tp_calloc((size_t)d->num_thread, sizeof *list);
    if (!list) return NULL;
    int64_t size = -1;
    int missing = -1; /* the thread that get_df gave no flow */
    for (int i = 0; i < d->num_thread; i++) {
        tp_df_prefetch_desc p;
        memset(&p, 0, sizeof p);
        p.at_ = d->at_;
        p.df = d->get_df(d->user, i);
        p.num_prefetch = d->num_prefetch;
        if (!p.df) missing = i;
        if (i == 0 && p.df) size = tp_df_size(p.df);
        p.df = tp_df_repeated(p.df, -1);
        list[i] = p.df ? tp_df_prefetch_(&p) : NULL;
        if (!list[i]) break; /* if a flow could not be made, the flows after it are NULL too */
    }
    tp_dataflow *df = tp__several_new(list, d->num_thread, "tp_df_multi_thread", 0, TP__SEVERAL_THREADS);
    tp_free((void *)list);
    if (!df && missing >= 0)
        tp_fail(TP_ERR_NOMEM, "tp_df_multi_thread: get_df returned NULL for thread %d of %d (or found no memory)",
                missing, d->num_thread);
    if (!df || df->next != tp__concat_next) return df;
    ((tp__several_flows *)df->user)->size = size;
    df->endless_ = size < 0;
    df->next = tp__round_robin_next;
    df->restart = tp__round_robin_restart;
    df->size = tp__round_robin_size;
    df->seek = tp__round_robin_seek;
    return df;
}

/* -- multi_process ---- >>df multi_process
 *
 * The parent and each worker communicate through a socket. The parent sends orders. The worker reports each of its datapoints with
 * the slot of the shared memory that holds it; it may write to the slot again when an order says that the slot is free. Each
 * restart or seek starts a new generation, and reports of older generations are ignored. When one side ends, the other one sees
 * that its socket is closed. */

#ifdef TP__OS_FORK
enum { TP__PROCS_BEGIN = -1, TP__PROCS_PROBE = -2 };
typedef struct tp__procs_order {
    int64_t generation, pass, skip;
    /* index of a free slot; or TP__PROCS_BEGIN: start at datapoint `skip`; or TP__PROCS_PROBE: report how many of the first
     * `skip` datapoints exist */
    int64_t slot;
    int64_t goes_on; /* 1: df goes on from where TP__PROCS_PROBE left it, without a restart */
    int64_t told;    /* failures of datapoints before this one were told already */
} tp__procs_order;
typedef struct tp__procs_report_message {
    int64_t generation, slot, status;
    /* offset and size of the datapoint in the shared memory; for a failure: size of its sentence, which follows; for
     * TP__PROCS_PROBE: `at` is the answer, or the datapoint that failed; -1: the pass could not be begun */
    int64_t at, bytes;
} tp__procs_report_message;
typedef struct tp__procs_component_head { /* the head of one component of a datapoint in the shared memory */
    int64_t dtype, ndim, dim[TP_MAX_DIMS];
    int64_t at, parts; /* at: bytes from the head of component 0 to the data; parts: number of components */
} tp__procs_component_head;

/* -- multi_process: the worker */

typedef struct tp__procs_slot {
    int64_t at, capacity;
    bool taken;
} tp__procs_slot;
typedef struct tp__procs_self {
    tp_dataflow *df;
    int number, n_workers, slots, fd, file;
    tp__procs_slot *slot;
    char *map;
    int64_t size; /* size of the shared file, which is mapped completely */
    /* df_position: position of df within its pass; next: number of the next datapoint of this worker */
    int64_t generation, pass, df_position, next;
    bool running, needs_restart; /* df must be restarted before it is read */
    tp_datapoint dp;
} tp__procs_self;

static void tp__procs_report(const tp__procs_self *me, int slot, tp_status st, int64_t at, int64_t bytes)
{
    tp__procs_report_message message;
    const char *text = tp_last_error();
    message.generation = me->generation;
    message.slot = slot;
    message.status = st;
    message.at = at;
    message.bytes = st < TP_OK ? (int64_t)strlen(text) : bytes;
    if (tp__os_send(me->fd, &message, sizeof message) != 0) _exit(0);
    if (st < TP_OK && tp__os_send(me->fd, text, (size_t)message.bytes) != 0) _exit(0);
}

/* Returns the number of bytes of the datapoint with its heads; sets the offset of the data in each part. -1: too large. */
static int64_t tp__procs_layout(const tp_datapoint *dp, tp__procs_component_head *head)
{
    size_t at;
    if (!tp_mul_size((size_t)dp->n, sizeof *head, &at)) return -1;
    for (int i = 0; i < dp->n; i++) {
        const size_t bytes = tp_tensor_bytes(&dp->c[i]);
        at = (at + 63) & ~(size_t)63;
        if (head) head[i].at = (int64_t)at;
        if (bytes > PTRDIFF_MAX - at - 64) return -1;
        at += bytes;
    }
    return at ? (int64_t)at : 1;
}

static tp_status tp__procs_reserve(tp__procs_self *me, tp__procs_slot *s, int64_t bytes)
{
    if (bytes >= 0 && bytes <= s->capacity) return TP_OK;
    const bool possible = bytes >= 0 && bytes <= INT64_MAX / 4; /* -1: too large to be laid out */
    const int64_t new_capacity = possible ? (bytes + bytes / 4 + 4095) & ~(int64_t)4095 : 0;
    if (!possible || new_capacity > INT64_MAX - me->size)
        return tp_fail(TP_ERR_NOMEM, "the datapoint does not fit into memory");
    const int error = tp__os_grow_file(me->file, (uint64_t)(me->size + new_capacity));
    if (error)
        return tp_fail(TP_ERR_NOMEM, "there is no shared memory for %lld bytes: %s", (long long)bytes, strerror(error));
    tp__os_unmap_file(me->map, (uint64_t)me->size);
    me->map = tp__os_map_file(me->file, (uint64_t)(me->size + new_capacity));
    if (!me->map) { /* the old mapping is gone: this process cannot continue */
        tp__procs_report(
            me, 0,
            tp_fail(TP_ERR_NOMEM, "%lld bytes of shared memory cannot be mapped", (long long)(me->size + new_capacity)),
            0, 0);
        _exit(1);
    }
    s->at = me->size;
    s->capacity = new_capacity;
    me->size += new_capacity;
    return TP_OK;
}

static tp_status tp__procs_pack(tp__procs_self *me, tp__procs_slot *s, int64_t *bytes)
{
    const tp_datapoint *dp = &me->dp;
    for (int i = 0; i < dp->n; i++)
        if (dp->c[i].device)
            return tp_fail(TP_ERR_ARG, "component %d is in the memory of a device, which processes do not share", i);
    *bytes = tp__procs_layout(dp, NULL);
    const tp_status st = tp__procs_reserve(me, s, *bytes);
    if (st != TP_OK) return st;
    tp__procs_component_head *head = (tp__procs_component_head *)(void *)(me->map + s->at);
    for (int i = 0; i < dp->n; i++) {
        memset(&head[i], 0, sizeof head[i]);
        head[i].parts = dp->n;
        head[i].dtype = dp->c[i].dtype;
        head[i].ndim = dp->c[i].shape.ndim;
        for (int k = 0; k < dp->c[i].shape.ndim; k++) head[i].dim[k] = dp->c[i].shape.dim[k];
    }
    tp__procs_layout(dp, head);
    for (int i = 0; i < dp->n; i++)
        if (tp_tensor_bytes(&dp->c[i])) memcpy((char *)head + head[i].at, dp->c[i].data, tp_tensor_bytes(&dp->c[i]));
    if (dp->n == 0) *bytes = 0;
    return TP_OK;
}

/* Makes the next datapoint of this worker. A failed datapoint keeps its number. A failure while seeking past another worker's
 * datapoint is reported by that worker. */
static tp_status tp__procs_make(tp__procs_self *me)
{
    tp_status st = me->needs_restart ? tp_df_restart(me->df, me->pass) : TP_OK;
    if (st != TP_OK) return st;
    me->needs_restart = false;
    while (me->df_position < me->next) {
        int64_t k = 0;
        st = tp_df_seek(me->df, me->next - me->df_position, &k);
        me->df_position += k + (st < TP_OK);
        if (st == TP_OK && me->df_position < me->next) return TP_END;
        if (st > TP_OK) return st;
    }
    st = tp_df_next(me->df, &me->dp);
    if (st == TP_END) return st;
    me->df_position++;
    me->next += me->n_workers;
    return st;
}

static void tp__procs_do_order(tp__procs_self *me, const tp__procs_order *o)
{
    if (o->slot >= 0) {
        if (o->generation == me->generation && o->slot < me->slots) me->slot[o->slot].taken = false;
        return;
    }
    for (int k = 0; k < me->slots; k++) me->slot[k].taken = false;
    me->generation = o->generation;
    if (!o->goes_on) me->df_position = 0;
    me->next = o->skip + (me->number - o->skip % me->n_workers + me->n_workers) % me->n_workers;
    me->pass = o->pass;
    me->needs_restart = !o->goes_on;
    me->running = o->slot == TP__PROCS_BEGIN;
    if (me->running) return;
    tp_status st = me->needs_restart ? tp_df_restart(me->df, o->pass) : TP_OK;
    bool more = st == TP_OK;
    if (!more) me->df_position = -1;
    while (more && me->df_position < o->skip) {
        int64_t k = 0;
        st = tp_df_seek(me->df, o->skip - me->df_position, &k);
        me->df_position += k;
        more = st < TP_OK && me->df_position < o->told;
        if (more) me->df_position++, st = TP_OK;
    }
    tp__procs_report(me, 0, st, me->df_position, 0);
    if (st < TP_OK) me->df_position++; /* df goes on behind what failed */
}

#ifndef TP_NO_THREADS
static void tp__procs_watch(void *user)
{
    tp__os_wait_hang_up(*(const int *)user);
    _exit(0);
}
#endif

static void tp__df_set_in_worker(tp_dataflow *df)
{
    df->in_worker_ = true;
    for (tp_dataflow *in = df->input_; in; in = in->next_input_) tp__df_set_in_worker(in);
}

static void tp__procs_main(tp__procs_self *me)
{
    /* the pointer to the stop flag belongs to the parent's thread; nothing sets that flag in this process */
    tp__df_stop = NULL;
    tp__df_in_run = false;
    tp__df_set_in_worker(me->df);
    tp__log_disclaim();
#ifndef TP_NO_THREADS
    tp_thread *watch; /* ends this process when the parent ends, even during a long call of a function */
    (void)tp_thread_start(&watch, tp__procs_watch, &me->fd);
#endif
    signal(SIGINT, SIG_IGN); /* Ctrl-C is handled by the parent, and this process ends with it */
    me->slot = (tp__procs_slot *)tp_calloc((size_t)me->slots, sizeof *me->slot);
    if (!me->slot) _exit(1);
    for (;;) {
        int k = 0;
        while (k < me->slots && me->slot[k].taken) k++;
        if (!me->running || k == me->slots || tp__os_readable(me->fd, 0)) {
            tp__procs_order order;
            if (tp__os_read(me->fd, &order, sizeof order) != (int64_t)sizeof order) _exit(0);
            tp__procs_do_order(me, &order);
            continue;
        }
        int64_t bytes = 0;
        tp_status st = tp__procs_make(me);
        if (st == TP_OK) st = tp__procs_pack(me, &me->slot[k], &bytes);
        me->slot[k].taken = true;
        if (st > TP_OK) me->running = false;
        tp__procs_report(me, k, st, me->slot[k].at, bytes);
    }
}

/* -- multi_process: the parent */

typedef struct tp__procs_worker {
    long pid;
    int fd, file;
    char *map;
    uint64_t mapped;
    bool ended; /* the worker has reported the end of this pass */
} tp__procs_worker;
typedef struct tp__procs_flow {
    tp_dataflow *df;
    tp__procs_worker *worker;
    int n_workers, slots, started; /* started: number of running workers */
    int64_t generation, position;
    bool orders_sent; /* the worker processes were told where to start after the last restart or seek */
    bool probed;      /* process 0 has skipped what the last seek skipped, and read nothing since */
    int held_worker;  /* the worker whose slot the caller views, or -1 */
    int64_t held_slot;
    char broken[256]; /* the reason why the flow fails until its next restart; "": it works */
} tp__procs_flow;

static void tp__procs_stop(tp__procs_flow *f)
{
    for (int i = 0; i < f->started; i++) tp__os_hang_up(f->worker[i].fd); /* a worker ends when its socket is closed */
    for (int i = 0; i < f->started; i++) {
        tp__procs_worker *w = &f->worker[i];
        char reason[64];
        const double end = tp_time() + 2;
        bool ended = w->pid == 0 || tp__os_child_ended(w->pid, false, reason, sizeof reason);
        while (!ended && tp_time() < end) {
            tp__os_readable(-1, 0.001);
            ended = tp__os_child_ended(w->pid, false, reason, sizeof reason);
        }
        if (!ended) {
            kill((pid_t)w->pid, SIGKILL);
            tp__os_child_ended(w->pid, true, reason, sizeof reason);
        }
        tp__os_unmap_file(w->map, w->mapped);
        tp__os_close(w->file);
        memset(w, 0, sizeof *w);
    }
    f->started = 0;
    f->held_worker = -1;
}

static tp_status tp__procs_start_one(tp__procs_flow *f, int i)
{
    tp__procs_worker *w = &f->worker[i];
    int fd[2];
    const int file = tp__os_nameless_file();
    if (file < 0) return tp_fail(TP_ERR, "tp_df_multi_process: no shared memory can be made: %s", strerror(errno));
    if (tp__os_socket_pair(fd) != 0) {
        tp__os_close(file);
        return tp_fail(TP_ERR, "tp_df_multi_process: no socket can be made: %s", strerror(errno));
    }
    tp__log_lock(); /* from its first call on, a copy of the process finds the log's mutex free */
    tp__os_unlock(&tp__log_mutex);
    const pid_t pid = fork();
    if (pid == 0) {
        tp__procs_self me;
        for (int k = 0; k < i; k++) tp__os_close(f->worker[k].fd), tp__os_close(f->worker[k].file);
        tp__os_close(fd[0]);
        memset(&me, 0, sizeof me);
        me.df = f->df;
        me.number = i;
        me.n_workers = f->n_workers;
        me.slots = f->slots;
        me.fd = fd[1];
        me.file = file;
        tp__procs_main(&me);
    }
    tp__os_close(fd[1]);
    if (pid < 0) {
        tp__os_close(fd[0]);
        tp__os_close(file);
        return tp_fail(TP_ERR, "tp_df_multi_process: process %d of %d cannot be started: %s", i + 1, f->n_workers,
                       strerror(errno));
    }
    memset(w, 0, sizeof *w);
    w->pid = (long)pid;
    w->fd = fd[0];
    w->file = file;
    f->started++;
    return TP_OK;
}

/* A worker has ended; reason: NULL if it is not known. The flow cannot continue without it. */
static tp_status tp__procs_lost(tp_dataflow *df, int i, const char *reason)
{
    tp__procs_flow *f = (tp__procs_flow *)df->user;
    char exit_text[64];
    const long pid = f->worker[i].pid;
    if (!reason && pid && !tp__os_child_ended(pid, false, exit_text, sizeof exit_text)) {
        tp__os_readable(-1, 0.05); /* wait, because a process closes its socket shortly before it ends */
        if (!tp__os_child_ended(pid, false, exit_text, sizeof exit_text)) {
            kill((pid_t)pid, SIGKILL); /* the process has closed its socket, but runs on */
            tp__os_child_ended(pid, true, exit_text, sizeof exit_text);
        }
    }
    if (!reason) reason = pid ? exit_text : "is gone";
    f->worker[i].pid = 0;
    snprintf(f->broken, sizeof f->broken,
             "%s: process %d of %d (%ld) %s while it made a datapoint: see what its function does; tp_df_restart "
             "starts it again",
             df->name, i + 1, f->n_workers, pid, reason);
    return tp_fail(TP_ERR, "%s", f->broken);
}

/* A process that has ended gets no order. Datapoints that it made before can still be read; tp__procs_listen sees its end behind
 * them. */
static tp_status tp__procs_order_to(tp_dataflow *df, int i, int64_t slot, int64_t skip)
{
    const tp__procs_flow *f = (const tp__procs_flow *)df->user;
    tp__procs_order o;
    o.generation = f->generation;
    o.pass = df->pass_;
    o.skip = skip;
    o.slot = slot;
    o.goes_on = f->probed && i == 0 && slot < 0;
    o.told = f->position;
    const bool is_told = tp__os_send(f->worker[i].fd, &o, sizeof o) == 0 || errno == EPIPE || errno == ECONNRESET;
    return is_told ? TP_OK : tp__procs_lost(df, i, NULL);
}

/* Reads the next report of worker process i that was sent after the last restart or seek. If the report says that a datapoint failed,
 * sets the error sentence. TP_STOP, TP_INTR: the flow must stop waiting; the report can be read later. */
static tp_status tp__procs_listen(tp_dataflow *df, int i, tp__procs_report_message *message)
{
    tp__procs_flow *f = (tp__procs_flow *)df->user;
    const tp__procs_worker *w = &f->worker[i];
    for (;;) {
        char text[TP__ERROR_TEXT], reason[64];
        while (!tp__os_readable(w->fd, tp__df_stop || tp__df_in_run ? TP__WAIT_SLICE : 1.0)) {
            const tp_status st = tp__df_may_wait();
            if (st != TP_OK) return st;
            /* the socket may stay open in another copy of this process */
            if (tp__os_child_ended(w->pid, false, reason, sizeof reason)) return tp__procs_lost(df, i, reason);
        }
        if (tp__os_read(w->fd, message, sizeof *message) != (int64_t)sizeof *message)
            return tp__procs_lost(df, i, NULL);
        if (message->status < TP_OK) {
            if (message->bytes < 0 || message->bytes >= (int64_t)sizeof text ||
                tp__os_read(w->fd, text, (size_t)message->bytes) != message->bytes)
                return tp__procs_lost(df, i, NULL);
            text[message->bytes] = 0;
        }
        if (message->generation != f->generation) continue;
        if (message->status < TP_OK) tp_fail((tp_status)message->status, "%s", text);
        return TP_OK;
    }
}

/* Makes dp the datapoint of worker i, as views of its memory. The heads are checked, because a copy of this program
 * that may have crashed wrote them. */
static tp_status tp__procs_unpack(tp__procs_worker *w, const tp__procs_report_message *message, tp_datapoint *dp)
{
    const char *const wrong = "tp_df_multi_process: a process reported a datapoint that is not in its shared memory";
    if (message->bytes == 0) return tp_datapoint_resize(dp, 0);
    if (message->at < 0 || message->bytes < (int64_t)sizeof(tp__procs_component_head) ||
        message->bytes > INT64_MAX - message->at)
        return tp_fail(TP_ERR_FORMAT, "%s", wrong);
    if ((uint64_t)(message->at + message->bytes) > w->mapped) {
        tp__os_unmap_file(w->map, w->mapped);
        w->mapped = (uint64_t)(message->at + message->bytes);
        w->map = tp__os_map_file(w->file, w->mapped);
        if (!w->map) w->mapped = 0;
        if (!w->map)
            return tp_fail(TP_ERR_NOMEM, "tp_df_multi_process: %lld bytes of shared memory cannot be mapped",
                           (long long)(message->at + message->bytes));
    }
    const tp__procs_component_head *head = (const tp__procs_component_head *)(const void *)(w->map + message->at);
    const int64_t n = head->parts;
    if (n < 1 || n > INT_MAX || n > message->bytes / (int64_t)sizeof *head) return tp_fail(TP_ERR_FORMAT, "%s", wrong);
    tp_status st = tp_datapoint_resize(dp, (int)n);
    for (int i = 0; i < (int)n && st == TP_OK; i++) {
        tp_shape shape;
        size_t bytes = 0;
        memset(&shape, 0, sizeof shape);
        if (head[i].ndim < 0 || head[i].ndim > TP_MAX_DIMS || head[i].dtype < 0 || head[i].dtype >= TP_DTYPE_COUNT)
            return tp_fail(TP_ERR_FORMAT, "%s", wrong);
        shape.ndim = (int)head[i].ndim;
        for (int k = 0; k < shape.ndim; k++) shape.dim[k] = head[i].dim[k];
        st = tp__type_bytes((tp_dtype)head[i].dtype, &shape, &bytes);
        if (st == TP_OK &&
            (head[i].at < 0 || head[i].at > message->bytes || (uint64_t)(message->bytes - head[i].at) < bytes))
            st = tp_fail(TP_ERR_FORMAT, "%s", wrong);
        if (st == TP_OK) tp_tensor_view(&dp->c[i], (tp_dtype)head[i].dtype, shape, (const char *)head + head[i].at);
    }
    return st;
}

static tp_status tp__procs_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__procs_flow *f = (tp__procs_flow *)df->user;
    tp_status st = TP_OK;
    tp__procs_report_message message;
    if (f->broken[0]) return tp_fail(TP_ERR, "%s", f->broken);
    for (int i = 0; i < f->n_workers && !f->orders_sent && st == TP_OK; i++)
        st = tp__procs_order_to(df, i, TP__PROCS_BEGIN, f->position);
    if (st == TP_OK && f->orders_sent && f->held_worker >= 0)
        st = tp__procs_order_to(df, f->held_worker, f->held_slot, 0);
    f->held_worker = -1;
    if (st != TP_OK) return st;
    f->orders_sent = true;
    f->probed = false;
    const int i = (int)(f->position % f->n_workers);
    if (f->worker[i].ended) return TP_END;
    st = tp__procs_listen(df, i, &message);
    if (st != TP_OK) return st;
    st = (tp_status)message.status;
    if (st > TP_OK) f->worker[i].ended = st == TP_END;
    else f->position++;
    f->held_worker = i;
    f->held_slot = message.slot;
    return st == TP_OK ? tp__procs_unpack(&f->worker[i], &message, dp) : st;
}

/* Drops the datapoints read ahead; the next call of next tells the workers where to continue. */
static void tp__procs_drop_ahead(tp__procs_flow *f, int64_t position)
{
    f->generation++;
    f->position = position;
    f->orders_sent = false;
    f->held_worker = -1;
    for (int i = 0; i < f->n_workers; i++) f->worker[i].ended = false;
}

static tp_status tp__procs_restart(tp_dataflow *df, int64_t pass)
{
    tp__procs_flow *f = (tp__procs_flow *)df->user;
    tp_status st = TP_OK;
    (void)pass; /* tp_df_restart has stored the pass in df->pass_ */
    if (f->broken[0]) tp__procs_stop(f);
    f->broken[0] = 0;
    while (f->started < f->n_workers && st == TP_OK) st = tp__procs_start_one(f, f->started);
    if (st != TP_OK) {
        char text[TP__ERROR_TEXT];
        snprintf(text, sizeof text, "%s", tp_last_error());
        tp__procs_stop(f);
        return tp_fail(st, "%s", text);
    }
    f->probed = false;
    tp__procs_drop_ahead(f, 0);
    return TP_OK;
}

static tp_status tp__procs_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    tp__procs_flow *f = (tp__procs_flow *)df->user;
    tp__procs_report_message message;
    if (f->broken[0]) return tp_fail(TP_ERR, "%s", f->broken);
    const int64_t target = n > INT64_MAX - f->position ? INT64_MAX : f->position + n;
    tp__procs_drop_ahead(f, f->position);
    tp_status st = tp__procs_order_to(df, 0, TP__PROCS_PROBE, target); /* worker 0 can seek df; the parent cannot */
    f->probed = false;
    if (st == TP_OK) st = tp__procs_listen(df, 0, &message);
    if (st != TP_OK) return st;
    st = (tp_status)message.status;
    if (st > TP_OK || message.at < 0) return st;
    f->probed = true;
    *skipped = message.at > f->position ? message.at - f->position : 0;
    tp__procs_drop_ahead(f, f->position + *skipped + (st < TP_OK)); /* behind a datapoint that failed */
    return st;
}

static void tp__procs_close(tp_dataflow *df)
{
    tp__procs_flow *f = (tp__procs_flow *)df->user;
    tp__procs_stop(f);
    tp_free(f->worker);
    tp__df_delete(f->df);
}
#else
typedef struct tp__procs_flow {
    tp_dataflow *df;
    void *worker;
    int n_workers, slots, held_worker;
} tp__procs_flow;
typedef char tp__procs_worker;
static tp_status tp__procs_next(tp_dataflow *df, tp_datapoint *dp)
{
    return tp_df_next(((tp__procs_flow *)df->user)->df, dp);
}
static tp_status tp__procs_restart(tp_dataflow *df, int64_t pass)
{
    return tp_df_restart(((tp__procs_flow *)df->user)->df, pass);
}
static tp_status tp__procs_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    return tp_df_seek(((tp__procs_flow *)df->user)->df, n, skipped);
}
static void tp__procs_close(tp_dataflow *df)
{
    tp__df_delete(((tp__procs_flow *)df->user)->df);
    tp_free(((tp__procs_flow *)df->user)->worker);
}
#endif

static int64_t tp__procs_size(tp_dataflow *df) { return tp_df_size(((const tp__procs_flow *)df->user)->df); }

TP_DEF tp_dataflow *tp_df_multi_process_(const tp_df_multi_process_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    tp_dataflow *df;
    if (!tp__df_around(&d->at_, d->df, "tp_df_multi_process", sizeof(tp__procs_flow), 0, &df)) return df;
    tp__procs_flow *f = (tp__procs_flow *)df->user;
    f->df = d->df;
    f->held_worker = -1;
    df->collects_ = NULL; /* it is read by other processes */
    df->next = tp__procs_next;
    df->restart = tp__procs_restart;
    df->size = tp__procs_size;
    df->seek = tp__procs_seek;
    df->close = tp__procs_close;
    if (d->num_proc < 1 || d->num_proc > TP__MAX_FLOW_THREADS)
        return TP__REFUSE(df, &d->at_, TP_ERR_ARG, "tp_df_multi_process: num_proc is %d: give 1 to %d", d->num_proc,
                          (int)TP__MAX_FLOW_THREADS);
    if (d->num_prefetch < 0 || d->num_prefetch > TP__MAX_BUFFERS)
        return TP__REFUSE(df, &d->at_, TP_ERR_ARG, "tp_df_multi_process: num_prefetch is %d: give 1 to %d, or 0 for 8",
                          d->num_prefetch, (int)TP__MAX_BUFFERS);
    if (tp__df_must_be_ordered(d->df, d->num_proc, "tp_df_multi_process") != TP_OK)
        return TP__REFUSE(df, &d->at_, TP_ERR_ARG, "%s", tp_last_error());
    f->n_workers = d->num_proc;
    f->slots = d->num_prefetch ? d->num_prefetch : 8;
    f->worker = (tp__procs_worker *)tp_calloc((size_t)f->n_workers, sizeof(tp__procs_worker));
    if (f->worker) return df;
    tp__df_delete(df);
    return NULL;
}

/* ==== >>readers ======================================================================================== */
TP__COLD_BEGIN

/* Read big-endian numbers at any address. */
static uint32_t tp__be16(const uint8_t *p) { return (uint32_t)p[0] << 8 | p[1]; }
static uint32_t tp__be32(const uint8_t *p) { return tp__be16(p) << 16 | tp__be16(p + 2); }

/* The Adler-32 with which a zlib stream ends, of its uncompressed data. */
static uint32_t tp__adler32(const void *data, size_t n)
{
    const uint8_t *p = (const uint8_t *)data;
    uint32_t a = 1, b = 0;
    while (n > 0) {
        size_t k = n < 5552 ? n : 5552; /* b stays below 2^32 for as many bytes */
        for (n -= k; k > 0; k--) b += a += *p++;
        a %= 65521u;
        b %= 65521u;
    }
    return b << 16 | a;
}

/* -- files that are read in parts */

/* A file that is open. */
typedef struct tp__data_file {
    const char *path;
    int fd;
    uint64_t size;
} tp__data_file;

static tp_status tp__data_file_open(tp__data_file *f, const char *path)
{
    tp__os_info is;
    f->path = path;
    f->fd = tp__os_open(path, TP__OS_READ_NOW);
    if (f->fd < 0) return tp_fail(TP_ERR_IO, "%s cannot be opened: %s", path, tp__os_error());
    tp_status st = TP_OK;
    if (tp__os_fstat(f->fd, &is) != 0) st = tp_fail(TP_ERR_IO, "%s cannot be read: %s", path, tp__os_error());
    else if (is.kind != TP__OS_FILE) st = tp_fail(TP_ERR_IO, "%s is not a file", path);
    else f->size = is.size;
    if (st == TP_OK) return TP_OK;
    tp__os_close(f->fd);
    f->fd = -1;
    return st;
}

/* Reads exactly n bytes of a file at offset `at`. */
static tp_status tp__data_file_read(const tp__data_file *f, uint64_t at, void *to, size_t n)
{
    const int64_t got = tp__os_read_at(f->fd, to, n, (int64_t)at);
    if (got < 0) return tp_fail(TP_ERR_IO, "%s cannot be read: %s", f->path, tp__os_error());
    if ((uint64_t)got != n) return tp_fail(TP_ERR_FORMAT, "%s has become shorter while it was read", f->path);
    return TP_OK;
}

/* -- cifar ---- >>df cifar
 * A record is one label byte (CIFAR-100: coarse, fine), then 32x32 bytes of red, of green, of blue. */

enum { TP__CIFAR_SIDE = 32, TP__CIFAR_PIXELS = 32 * 32, TP__CIFAR_IMAGE = 3 * 32 * 32 };

typedef struct tp__cifar_kind {
    const char *name, *folder, *archive,
        *variable; /* the constructor's name; the folders in $TP_DATA, in the archive, and in $TENSORPACK_DATASET ("cifar10_data") */
    const char *train[6], *test[2];
    int labels, classes[2]; /* number of label bytes of an image, and number of classes for each */
} tp__cifar_kind;

/* Appends the records of one file to image (N,32,32,3) and label (N), which are large enough. */
static tp_status tp__cifar_parse(const tp__cifar_kind *kind, int which_label, const void *data, size_t size,
                                 const char *data_name, tp_tensor *image, tp_tensor *label, int64_t *at)
{
    const size_t record = (size_t)kind->labels + TP__CIFAR_IMAGE;
    if (size == 0 || size % record)
        return tp_fail(TP_ERR_FORMAT, "%s has %zu bytes, which is not a multiple of the record size, %zu bytes",
                       data_name, size, record);
    const uint8_t *p = (const uint8_t *)data;
    for (size_t i = 0; i < size / record; i++, p += record, ++*at) {
        for (int k = 0; k < kind->labels; k++)
            if (p[k] >= kind->classes[k])
                return tp_fail(TP_ERR_FORMAT, "%s: record %zu at byte %zu has label %d, there are %d classes",
                               data_name, i, i * record, p[k], kind->classes[k]);
        ((int32_t *)label->data)[*at] = p[which_label];
        const uint8_t *plane = p + kind->labels;
        uint8_t *to = (uint8_t *)image->data + (size_t)*at * TP__CIFAR_IMAGE;
        for (int j = 0; j < TP__CIFAR_PIXELS; j++)
            for (int c = 0; c < 3; c++) *to++ = plane[c * TP__CIFAR_PIXELS + j];
    }
    return TP_OK;
}

/* Enlarges t to `rows` rows and keeps its contents. */
static tp_status tp__rows_grow(tp_tensor *t, int64_t rows)
{
    tp_tensor enlarged;
    memset(&enlarged, 0, sizeof enlarged);
    tp_shape shape = t->shape;
    shape.dim[0] = rows;
    const tp_status st = tp_tensor_resize(&enlarged, t->dtype, shape);
    if (st != TP_OK) return st;
    if (tp_tensor_bytes(t)) memcpy(enlarged.data, t->data, tp_tensor_bytes(t));
    tp_tensor_free(t);
    *t = enlarged;
    return TP_OK;
}

/* Reads dir/file, dir/file.gz, or the same files in the folder that the archive makes. */
static tp_status tp__cifar_read(const tp__cifar_kind *kind, const char *dir, const char *file, tp_buf *path,
                                char **data, size_t *size)
{
    for (int i = 0; i < 4; i++) {
        path->len = 0;
        tp_buf_printf(path, "%s/%s%s%s%s", dir, i & 2 ? kind->archive : "", i & 2 ? "/" : "", file, i & 1 ? ".gz" : "");
        if (path->failed) return tp_fail(TP_ERR_NOMEM, "out of memory for the name of a file");
        if (tp_file_exists(path->data)) return tp_file_read(path->data, true, 0, data, size);
    }
    return tp_fail(TP_ERR_IO, "%s: there is no %s in %s or in %s/%s: unpack the binary version of the data there",
                   kind->name, file, dir, dir, kind->archive);
}

static tp_status tp__cifar_load(const tp__cifar_kind *kind, int which_label, const char *dir, bool train,
                                tp_tensor *image, tp_tensor *label)
{
    tp_buf place = {NULL, 0, 0, false}, path = {NULL, 0, 0, false};
    tp__data_dir(&place, dir, kind->folder, kind->variable);
    tp_status st = place.failed ? tp_fail(TP_ERR_NOMEM, "out of memory for the name of a folder") : TP_OK;
    const char *const *file = train ? kind->train : kind->test;
    const int64_t empty_shape[4] = {0, TP__CIFAR_SIDE, TP__CIFAR_SIDE, 3};
    int64_t rows = 0;
    image->dtype = TP_U8;
    image->shape = tp_make_shape_n(4, empty_shape);
    label->dtype = TP_I32;
    label->shape = tp_make_shape_n(1, empty_shape);
    for (int i = 0; file[i] && st == TP_OK; i++) {
        char *data = NULL;
        size_t size = 0;
        st = tp__cifar_read(kind, place.data, file[i], &path, &data, &size);
        const int64_t n_images = (int64_t)(size / ((size_t)kind->labels + TP__CIFAR_IMAGE));
        if (st == TP_OK) st = tp__rows_grow(image, rows + n_images);
        if (st == TP_OK) st = tp__rows_grow(label, rows + n_images);
        if (st == TP_OK) st = tp__cifar_parse(kind, which_label, data, size, path.data, image, label, &rows);
        tp_free(data);
    }
    tp_buf_free(&place);
    tp_buf_free(&path);
    return st;
}

static const tp__cifar_kind tp__cifar10 = {
    "tp_df_cifar10",
    "cifar10",
    "cifar-10-batches-bin",
    "cifar10_data",
    {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin", NULL},
    {"test_batch.bin", NULL},
    1,
    {10, 0}};
static const tp__cifar_kind tp__cifar100 = {
    "tp_df_cifar100",   "cifar100", "cifar-100-binary", "cifar100_data", {"train.bin", NULL, NULL, NULL, NULL, NULL},
    {"test.bin", NULL}, 2,          {20, 100}};

static tp_dataflow *tp__df_cifar(const tp__cifar_kind *kind, int which_label, const tp_df_cifar10_desc *d)
{
    bool train;
    if (!tp__train_or_test(d->which, &train))
        return tp_df_fail(&d->at_, TP_ERR_ARG, "%s: \"%s\" is neither \"train\" nor \"test\"", kind->name,
                          d->which ? d->which : "NULL");
    tp_dataflow *df = tp__rows_new(kind->name, 2, d->seed);
    if (!df) return NULL;
    tp__rows_flow *f = (tp__rows_flow *)df->user;
    tp_status st = tp__cifar_load(kind, which_label, d->dir, train, &f->array[0], &f->array[1]);
    if (st == TP_OK) st = tp__rows_ready(df, NULL, tp__tri_is_yes(d->shuffle, train) ? TP_YES : TP_NO);
    if (st == TP_OK) return df;
    tp__df_delete(df);
    return tp__df_failed(&d->at_, st);
}

TP_DEF tp_dataflow *tp_df_cifar10_(const tp_df_cifar10_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    return tp__df_cifar(&tp__cifar10, 0, d);
}

TP_DEF tp_dataflow *tp_df_cifar100_(const tp_df_cifar100_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    tp_df_cifar10_desc options;
    memset(&options, 0, sizeof options);
    options.at_ = d->at_;
    options.which = d->which;
    options.dir = d->dir;
    options.shuffle = d->shuffle;
    options.seed = d->seed;
    return tp__df_cifar(&tp__cifar100, tp__tri_is_yes(d->coarse, false) ? 0 : 1, &options);
}

/* -- svhn ---- >>df svhn_digit
 * A MATLAB 5 MAT-file: a header of 128 bytes, then elements. An element has a tag, which is its type and its number of bytes, and its
 * bytes. An array is an element made of elements: flags, dimensions, name, values. A compressed element is a zlib stream that
 * holds the element of an array. */

enum {
    TP__MAT_HEADER = 128,
    TP__MAT_PIECE = 65536, /* bytes of a compressed element that are read at a time */
    /* A stored block of deflate has at most 65535 bytes and comes out whole or not at all. In twice that there is always room for the
     * first 65535 bytes, and the flags, dimensions and name are in them. */
    TP__MAT_START = 131072,
    TP__MAT_ARRAY = 14,
    TP__MAT_COMPRESSED = 15,
    TP__SVHN_SIDE = 32,
    TP__SVHN_IMAGE = 3 * 32 * 32
};

typedef struct tp__mat_file {
    tp__data_file file;
    bool big;             /* the highest byte of a number comes first */
    uint64_t at, next;    /* where this element and the next one begin in the file */
    uint64_t unread, end; /* the part of a compressed element that is still to be read */
    uint32_t type;
    tp_status status; /* of the reads for inflate */
    size_t start_size;
    uint8_t start[TP__MAT_START]; /* the beginning of this element, inflated */
    uint8_t piece[8 + TP__MAT_PIECE];
    tp__inflate inflate;
} tp__mat_file;

/* An array of numbers in a MAT-file. Places are counted from the beginning of its element, which has `size` bytes. */
typedef struct tp__mat_array {
    const char *name; /* not ended by a NUL */
    size_t name_length;
    tp_shape shape;
    unsigned kind; /* MATLAB's class of the array: 6 double, 9 uint8, ... */
    bool is_complex;
    uint32_t type; /* the type of the values in the file, which may be narrower than the class */
    size_t values, values_size, size;
} tp__mat_array;

typedef struct tp__mat_part {
    uint32_t type;
    size_t at, size, next;
} tp__mat_part;

static uint32_t tp__mat_u32(const tp__mat_file *m, const uint8_t *p) { return m->big ? tp__be32(p) : tp__le32(p); }

/* Reads the tag at `at` of the element's start. Up to 4 bytes may be in the tag itself. False: the tag is not there, or wrong. */
static bool tp__mat_tag(const tp__mat_file *m, size_t at, tp__mat_part *part)
{
    if (at > m->start_size || m->start_size - at < 8) return false;
    const uint32_t first = tp__mat_u32(m, m->start + at), small_size = first >> 16;
    part->type = small_size ? first & 0xFFFF : first;
    part->at = at + (small_size ? 4 : 8);
    part->size = small_size ? small_size : tp__mat_u32(m, m->start + at + 4);
    if (small_size > 4 || part->size > SIZE_MAX / 4) return false;
    part->next = small_size ? at + 8 : part->at + (part->size + 7) / 8 * 8;
    return true;
}

/* Reads what the start says of an array. Returns NULL, or what is wrong. An array of other things than numbers has no name. */
static const char *tp__mat_parse(const tp__mat_file *m, tp__mat_array *a)
{
    static const char damaged[] = "its flags, dimensions and name are damaged";
    tp__mat_part array, part;
    memset(a, 0, sizeof *a);
    if (!tp__mat_tag(m, 0, &array) || array.type != TP__MAT_ARRAY || array.at != 8) return "it holds no array";
    a->size = 8 + array.size;
    if (!tp__mat_tag(m, array.at, &part) || part.type != 6 || part.size != 8 || part.next > m->start_size)
        return array.size ? damaged : NULL; /* an array of no bytes is what MATLAB writes for [] in a cell */
    const uint32_t flags = tp__mat_u32(m, m->start + part.at);
    a->kind = flags & 255;
    a->is_complex = flags >> 11 & 1;
    if (a->kind < 6 || a->kind > 15) return NULL;
    if (!tp__mat_tag(m, part.next, &part) || part.type != 5 || part.size % 4 || part.next > m->start_size)
        return damaged;
    if (part.size / 4 > TP_MAX_DIMS) return NULL;
    a->shape.ndim = (int)(part.size / 4);
    for (int i = 0; i < a->shape.ndim; i++) a->shape.dim[i] = tp__mat_u32(m, m->start + part.at + 4 * (size_t)i);
    if (!tp__mat_tag(m, part.next, &part) || part.type != 1 || part.next > m->start_size) return damaged;
    a->name = (const char *)m->start + part.at;
    a->name_length = part.size;
    if (!tp__mat_tag(m, part.next, &part)) return damaged;
    a->type = part.type;
    a->values = part.at;
    a->values_size = part.size;
    return NULL;
}

/* Gives inflate the next piece of a compressed element. */
static bool tp__mat_more(tp__inflate *s)
{
    tp__mat_file *m = (tp__mat_file *)s->source;
    const uint64_t left = m->end - m->unread;
    const size_t n = left < TP__MAT_PIECE ? (size_t)left : (size_t)TP__MAT_PIECE;
    if (n == 0 || m->status != TP_OK) return false;
    memmove(m->piece, s->end - 8, 8);
    m->status = tp__data_file_read(&m->file, m->unread, m->piece + 8, n);
    if (m->status != TP_OK) return false;
    m->unread += n;
    s->in = m->piece + 8;
    s->end = s->in + n;
    return true;
}

/* Inflates the first bytes of a compressed element, at most `size`, which are *got. Returns NULL, or what is wrong. */
static const char *tp__mat_inflate(tp__mat_file *m, uint8_t *out, size_t size, size_t *got)
{
    uint8_t head[2] = {0, 0};
    tp__inflate *s = &m->inflate;
    *got = 0;
    m->status = TP_OK;
    if (m->next - m->at < 8 + 6) return tp__inflate_short;
    m->unread = m->at + 8 + 2;
    m->end = m->next - 4;
    m->status = tp__data_file_read(&m->file, m->at + 8, head, 2);
    if (m->status != TP_OK) return NULL;
    if ((head[0] & 15) != 8 || head[1] & 32 || tp__be16(head) % 31) return "it does not begin as a zlib stream does";
    s->in = s->end = m->piece + 8;
    s->out = out;
    s->len = 0;
    s->cap = s->limit = size;
    s->fixed = s->oom = false;
    s->more = tp__mat_more;
    s->source = m;
    const char *reason = tp__inflate_run(s);
    *got = s->len;
    return reason;
}

/* Reads a whole array into `out`, which has a->size bytes. */
static tp_status tp__mat_load(tp__mat_file *m, const tp__mat_array *a, uint8_t *out)
{
    if (m->type == TP__MAT_ARRAY) return tp__data_file_read(&m->file, m->at, out, a->size);
    uint8_t sum[4];
    size_t got;
    const char *reason = tp__mat_inflate(m, out, a->size, &got);
    if (m->status != TP_OK) return m->status;
    if (!reason && got != a->size) reason = "it holds fewer bytes than declared";
    if (!reason && (m->inflate.in != m->inflate.end || m->unread != m->end)) reason = "other bytes follow its end";
    if (!reason) {
        const tp_status st = tp__data_file_read(&m->file, m->end, sum, 4);
        if (st != TP_OK) return st;
        if (tp__be32(sum) != tp__adler32(out, a->size)) reason = "its checksum does not match";
    }
    if (!reason) return TP_OK;
    return tp_fail(TP_ERR_FORMAT, "%s: the compressed array at byte %llu is damaged: %s", m->file.path,
                   (unsigned long long)m->at, reason);
}

static tp_status tp__mat_open(tp__mat_file *m, const char *path)
{
    uint8_t head[TP__MAT_HEADER];
    tp_status st = tp__data_file_open(&m->file, path);
    if (st != TP_OK) return st;
    m->next = TP__MAT_HEADER;
    if (m->file.size < TP__MAT_HEADER)
        return tp_fail(TP_ERR_FORMAT, "%s has %llu bytes, a MAT-file has at least %d", path,
                       (unsigned long long)m->file.size, (int)TP__MAT_HEADER);
    st = tp__data_file_read(&m->file, 0, head, sizeof head);
    if (st != TP_OK) return st;
    m->big = head[126] == 'M' && head[127] == 'I';
    if (!m->big && !(head[126] == 'I' && head[127] == 'M'))
        return tp_fail(TP_ERR_FORMAT, "%s is no MAT-file of MATLAB 5 or later", path);
    const int version = head[m->big ? 124 : 125];
    if (version == 1) return TP_OK;
    return tp_fail(TP_ERR_FORMAT, "%s is a MAT-file of version %d (2: MATLAB 7.3, HDF5): save it with -v7", path,
                   version);
}

/* Goes to the next element and reads its start; TP_END after the last one. An element that holds no array has start_size 0. */
static tp_status tp__mat_next(tp__mat_file *m)
{
    uint8_t tag[8];
    m->at = m->next;
    m->start_size = 0;
    const uint64_t left = m->file.size - m->at;
    if (left == 0) return TP_END;
    if (left < 8)
        return tp_fail(TP_ERR_FORMAT, "%s: the element at byte %llu is cut short", m->file.path,
                       (unsigned long long)m->at);
    const tp_status st = tp__data_file_read(&m->file, m->at, tag, 8);
    if (st != TP_OK) return st;
    m->type = tp__mat_u32(m, tag);
    const uint64_t size = tp__mat_u32(m, tag + 4);
    if (size > left - 8)
        return tp_fail(TP_ERR_FORMAT, "%s: the element at byte %llu is cut short: it has %llu bytes, %llu are left",
                       m->file.path, (unsigned long long)m->at, (unsigned long long)size,
                       (unsigned long long)(left - 8));
    m->next = m->at + 8 + size;
    if (m->type == TP__MAT_ARRAY) {
        m->start_size = 8 + size < TP__MAT_START ? (size_t)(8 + size) : (size_t)TP__MAT_START;
        return tp__data_file_read(&m->file, m->at, m->start, m->start_size);
    }
    if (m->type != TP__MAT_COMPRESSED) return TP_OK;
    const char *reason = tp__mat_inflate(m, m->start, TP__MAT_START, &m->start_size);
    if (m->status != TP_OK || !reason || reason == tp__inflate_full) return m->status;
    return tp_fail(TP_ERR_FORMAT, "%s: the compressed array at byte %llu is damaged: %s", m->file.path,
                   (unsigned long long)m->at, reason);
}

/* Checks that the values of an array with `n` of them, of `width` bytes each, are all that follows the name. */
static tp_status tp__mat_complete(const tp__mat_file *m, const tp__mat_array *a, uint64_t n, size_t width)
{
    const uint64_t end = (uint64_t)a->values + a->values_size, stored = m->next - m->at;
    /* deflate makes at most 1032 bytes of one */
    const bool possible = m->type == TP__MAT_ARRAY ? a->size == stored : a->size / 1032 <= stored;
    if (possible && n == a->values_size / width && a->values_size % width == 0 && end <= a->size && a->size - end < 8)
        return TP_OK;
    return tp_fail(TP_ERR_FORMAT, "%s: the array at byte %llu is damaged: it has %llu values, and %llu bytes for them",
                   m->file.path, (unsigned long long)m->at, (unsigned long long)n, (unsigned long long)a->values_size);
}

/* Refuses an array that is not what SVHN has there. */
static tp_status tp__svhn_other(const tp__mat_file *m, const tp__mat_array *a, const char *wanted)
{
    static const char *const kind[] = {"double", "single", "int8",   "uint8", "int16",
                                       "uint16", "int32",  "uint32", "int64", "uint64"};
    char text[TP_SHAPE_TEXT];
    for (int i = 0; i < a->shape.ndim; i++)
        if (a->shape.dim[i] == 0)
            return tp_fail(TP_ERR_SHAPE, "%s: %c is empty, of shape %s: SVHN has %s there", m->file.path, a->name[0],
                           tp_shape_text(&a->shape, text), a->name[0] == 'X' ? "images" : "a label for each image");
    return tp_fail(TP_ERR_SHAPE, "%s: %c is %s%s %s, SVHN has %s there", m->file.path, a->name[0],
                   a->is_complex ? "complex " : "", kind[a->kind - 6], tp_shape_text(&a->shape, text), wanted);
}

/* Reads X, which MATLAB writes by columns: the row of a pixel varies fastest, then its column, its colour, the image. The array is
 * read into the memory of the images, and each of them is then turned to rows in its place. `image` gets room for one image more,
 * since there are up to 88 bytes before the first and 7 behind the last. */
static tp_status tp__svhn_images(tp__mat_file *m, const tp__mat_array *a, tp_tensor *image)
{
    const int64_t *dim = a->shape.dim, n = a->shape.ndim == 4 ? dim[3] : 1; /* MATLAB drops a last dimension of 1 */
    if (a->kind != 9 || a->type != 2 || a->is_complex || a->shape.ndim < 3 || a->shape.ndim > 4 ||
        dim[0] != TP__SVHN_SIDE || dim[1] != TP__SVHN_SIDE || dim[2] != 3 || n < 1)
        return tp__svhn_other(m, a, "uint8 (32,32,3,N)");
    tp_status st = tp__mat_complete(m, a, (uint64_t)n * TP__SVHN_IMAGE, 1);
    if (st == TP_OK) st = tp_tensor_resize(image, TP_U8, tp_make_shape(n + 1, TP__SVHN_SIDE, TP__SVHN_SIDE, 3));
    if (st == TP_OK) st = tp__mat_load(m, a, (uint8_t *)image->data);
    if (st != TP_OK) return st;
    uint8_t *to = (uint8_t *)image->data, column_major[TP__SVHN_IMAGE];
    const uint8_t *from = to + a->values;
    for (int64_t i = 0; i < n; i++, from += TP__SVHN_IMAGE) {
        memcpy(column_major, from, sizeof column_major);
        for (int y = 0; y < TP__SVHN_SIDE; y++)
            for (int x = 0; x < TP__SVHN_SIDE; x++)
                for (int c = 0; c < 3; c++) *to++ = column_major[(c * TP__SVHN_SIDE + x) * TP__SVHN_SIDE + y];
    }
    image->shape.dim[0] = n;
    return TP_OK;
}

/* The number of `width` bytes at p, of one of the types of a MAT-file. */
static double tp__mat_number(const tp__mat_file *m, uint32_t type, size_t width, const uint8_t *p)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < width; i++) bits = bits << 8 | p[m->big ? i : width - 1 - i];
    if (type == 9) {
        double d;
        memcpy(&d, &bits, sizeof d);
        return d;
    }
    if (type == 7) {
        const uint32_t low = (uint32_t)bits;
        float f;
        memcpy(&f, &low, sizeof f);
        return (double)f;
    }
    return (double)bits; /* a negative number becomes one that is too large for a label */
}

/* Reads y, of any class of numbers, which stand in the file in any type that can hold them. */
static tp_status tp__svhn_labels(tp__mat_file *m, const tp__mat_array *a, tp_tensor *label)
{
    static const uint8_t widths[14] = {0, 1, 1, 2, 2, 4, 4, 4, 0, 8, 0, 0, 8, 8};
    const size_t width = a->type < sizeof widths ? widths[a->type] : 0;
    const int64_t *dim = a->shape.dim, n = dim[0] == 1 ? dim[1] : dim[0];
    if (a->is_complex || !width || a->shape.ndim != 2 || n < 1 || (dim[0] != 1 && dim[1] != 1))
        return tp__svhn_other(m, a, "numbers (N,1)");
    tp_status st = tp__mat_complete(m, a, (uint64_t)n, width);
    if (st == TP_OK) st = tp_tensor_resize(label, TP_I32, tp_make_shape_n(1, &n));
    if (st != TP_OK) return st;
    uint8_t *bytes = (uint8_t *)tp_malloc(a->size);
    if (!bytes) return TP_ERR_NOMEM;
    st = tp__mat_load(m, a, bytes);
    for (int64_t i = 0; i < n && st == TP_OK; i++) {
        const double v = tp__mat_number(m, a->type, width, bytes + a->values + (size_t)i * width);
        if (v >= 0 && v <= 10 && (double)(int)v >= v) ((int32_t *)label->data)[i] = (int)v % 10;
        else
            st = tp_fail(TP_ERR_FORMAT, "%s: image %lld has label %g, SVHN has 1 to 10, and 10 is the digit 0",
                         m->file.path, (long long)i, v);
    }
    tp_free(bytes);
    return st;
}

/* Reads X and y, which stand in any order and among other arrays. */
static tp_status tp__svhn_read(tp__mat_file *m, tp_tensor *image, tp_tensor *label)
{
    tp_status st = TP_OK;
    while (!image->data || !label->data) {
        tp__mat_array a;
        st = tp__mat_next(m);
        if (st == TP_END)
            return tp_fail(TP_ERR_FORMAT, "%s has no array %s: SVHN's files have X, the images, and y, the labels",
                           m->file.path, image->data ? "y" : "X");
        if (st != TP_OK) return st;
        if (!m->start_size) continue;
        const char *wrong = tp__mat_parse(m, &a);
        if (wrong)
            return tp_fail(TP_ERR_FORMAT, "%s: the element at byte %llu is damaged: %s", m->file.path,
                           (unsigned long long)m->at, wrong);
        if (a.name_length != 1) continue;
        if (a.name[0] == 'X') st = tp__svhn_images(m, &a, image);
        else if (a.name[0] == 'y') st = tp__svhn_labels(m, &a, label);
        if (st != TP_OK) return st;
    }
    if (image->shape.dim[0] != label->shape.dim[0])
        return tp_fail(TP_ERR_SHAPE, "%s: X has %lld images but y has %lld labels: each image needs one", m->file.path,
                       (long long)image->shape.dim[0], (long long)label->shape.dim[0]);
    return TP_OK;
}

static tp_status tp__svhn_load(const char *dir, const char *which, tp_tensor *image, tp_tensor *label)
{
    tp_buf folder = {NULL, 0, 0, false}, path = {NULL, 0, 0, false};
    tp__mat_file *m = (tp__mat_file *)tp_malloc(sizeof *m);
    tp_status st = m ? TP_OK : TP_ERR_NOMEM;
    tp__data_dir(&folder, dir, "svhn", "svhn_data");
    if (!folder.failed) tp_buf_printf(&path, "%s/%s_32x32.mat", folder.data, which);
    if (folder.failed || path.failed) st = tp_fail(TP_ERR_NOMEM, "out of memory for the name of a file");
    else if (st == TP_OK && !tp_file_exists(path.data))
        st = tp_fail(TP_ERR_IO,
                     "tp_df_svhn_digit: there is no %s_32x32.mat in %s: get it from http://ufldl.stanford.edu/"
                     "housenumbers, where it is called format 2",
                     which, folder.data);
    if (st == TP_OK) {
        memset(m, 0, sizeof *m);
        st = tp__mat_open(m, path.data);
        if (st == TP_OK) st = tp__svhn_read(m, image, label);
        if (m->file.fd >= 0) tp__os_close(m->file.fd);
    }
    tp_free(m);
    tp_buf_free(&folder);
    tp_buf_free(&path);
    return st;
}

TP_DEF tp_dataflow *tp_df_svhn_digit_(const tp_df_svhn_digit_desc *d)
{
    static const char *const names[2] = {"X", "y"};
    if (!d) return tp__df_no_options(__func__);
    bool train;
    if (!tp__train_or_test(d->which, &train) && (!d->which || strcmp(d->which, "extra") != 0))
        return tp_df_fail(&d->at_, TP_ERR_ARG, "tp_df_svhn_digit: \"%s\" is neither \"train\", \"test\" nor \"extra\"",
                          d->which ? d->which : "NULL");
    tp_dataflow *df = tp__rows_new("tp_df_svhn_digit", 2, d->seed);
    if (!df) return NULL;
    tp__rows_flow *f = (tp__rows_flow *)df->user;
    tp_status st = tp__svhn_load(d->dir, d->which, &f->array[0], &f->array[1]);
    if (st == TP_OK) st = tp__rows_ready(df, names, d->shuffle);
    if (st == TP_OK) return df;
    tp__df_delete(df);
    return tp__df_failed(&d->at_, st);
}

/* -- means */

static tp_status tp__df_mean(tp_dataflow *df, int index, bool channels, tp_tensor *mean)
{
    const tp_status ends = tp__df_must_end(df, channels ? "tp_df_per_channel_mean" : "tp_df_per_pixel_mean");
    if (ends != TP_OK) return ends;
    tp_datapoint dp = {0, NULL, 0};
    tp_shape shape = {0, {0}};
    double *sum = NULL;
    int64_t n = 0, count = 0;
    tp_status st = tp_df_restart(df, 0);
    for (; st == TP_OK && (st = tp_df_next(df, &dp)) == TP_OK; n++) {
        char text[2][TP_SHAPE_TEXT];
        if (index < 0 || index >= dp.n) {
            st = tp_fail(TP_ERR_ARG, "the mean of component %d was asked for, datapoint %lld of %s has %d", index,
                         (long long)n, df->name, dp.n);
            break;
        }
        const tp_tensor *t = &dp.c[index];
        if (n == 0) {
            shape = t->shape;
            count = channels ? shape.ndim ? shape.dim[shape.ndim - 1] : 1 : tp_tensor_size(t);
            sum = (double *)tp_calloc(count ? (size_t)count : 1, sizeof *sum);
            if (!sum) st = TP_ERR_NOMEM;
        } else if (!tp_shape_equal(&shape, &t->shape)) {
            st = tp_fail(TP_ERR_SHAPE,
                         "component %d of datapoint %lld of %s is %s, in the first it is %s: there is no mean", index,
                         (long long)n, df->name, tp_shape_text(&t->shape, text[0]), tp_shape_text(&shape, text[1]));
        }
        if (st != TP_OK) break;
        const int64_t size = tp_tensor_size(t);
        for (int64_t i = 0, at = 0; i < size; i += TP__BLOCK) {
            double x[TP__BLOCK];
            const int m = tp__tensor_doubles(t, i, x);
            for (int k = 0; k < m; k++) {
                sum[at] += x[k];
                if (++at == count) at = 0;
            }
        }
    }
    if (st == TP_END) st = n ? TP_OK : tp_fail(TP_ERR_STATE, "%s gave no datapoint to take a mean of", df->name);
    tp_datapoint_free(&dp);
    if (st == TP_OK) st = tp_tensor_resize(mean, TP_F32, channels ? tp_make_shape_n(1, &count) : shape);
    if (st == TP_OK) st = tp_df_restart(df, 0);
    const double terms_per_mean = st == TP_OK && count ? (double)n * (double)(tp_shape_size(&shape) / count) : 1;
    for (int64_t i = 0; i < count && st == TP_OK; i++) ((float *)mean->data)[i] = (float)(sum[i] / terms_per_mean);
    tp_free(sum);
    return st;
}

TP_DEF tp_status tp_df_per_pixel_mean(tp_dataflow *df, int index, tp_tensor *mean)
{
    TP__REQUIRE(df && mean, TP_ERR_ARG)

    return tp__df_mean(df, index, false, mean);
}

TP_DEF tp_status tp_df_per_channel_mean(tp_dataflow *df, int index, tp_tensor *mean)
{
    TP__REQUIRE(df && mean, TP_ERR_ARG)

    return tp__df_mean(df, index, true, mean);
}

/* -- npz ---- >>df npz */

static tp_status tp__npz_rows(tp_dataflow *df, tp_dict *dict, const tp_df_npz_desc *d, int n)
{
    tp__rows_flow *f = (tp__rows_flow *)df->user;
    const char *name[TP_MAX_COMPONENTS];
    for (int j = 0; j < n; j++) {
        name[j] = d->names[0] ? d->names[j] : dict->item[j].name;
        tp_tensor *t = tp__dict_get(dict, name[j]); /* it is there: tp__npz_load_named has seen to that */
        if (!t->data && tp_tensor_size(t))
            return tp_fail(TP_ERR_ARG, "%s: \"%s\" is asked for twice", d->path, name[j]);
        f->array[j] = *t; /* f->array owns the memory of *t from now on */
        const tp_type type = {t->dtype, t->shape};
        memset(t, 0, sizeof *t);
        t->dtype = type.dtype;
        t->shape = type.shape;
    }
    const tp_status st = tp__rows_ready(df, name, d->shuffle);
    return st == TP_ERR_FORMAT ? tp_fail(st, "%s: %s", d->path, tp_last_error()) : st;
}

TP_DEF tp_dataflow *tp_df_npz_(const tp_df_npz_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    if (!d->path) return tp_df_fail(&d->at_, TP_ERR_ARG, "tp_df_npz: the path is NULL");
    int n = 0;
    while (n < TP_MAX_COMPONENTS && d->names[n]) n++;
    if (d->names[n]) return tp_df_fail(&d->at_, TP_ERR_ARG, "tp_df_npz: at most %d names", TP_MAX_COMPONENTS);
    tp_dict dict = {NULL, 0, 0};
    tp_status st = tp__npz_load_named(d->path, d->names, n, &dict);
    if (st == TP_OK && n == 0) n = dict.n;
    if (st == TP_OK && dict.n < 1) st = tp_fail(TP_ERR_FORMAT, "%s has no arrays: there is nothing to read", d->path);
    if (st == TP_OK && n > TP_MAX_COMPONENTS)
        st = tp_fail(TP_ERR_FORMAT, "%s has %d arrays: name 1 to %d of them", d->path, n, TP_MAX_COMPONENTS);
    tp_dataflow *df = st == TP_OK ? tp__rows_new("tp_df_npz", n, d->seed) : NULL;
    if (st == TP_OK) st = df ? tp__npz_rows(df, &dict, d, n) : TP_ERR_NOMEM;
    tp_dict_free(&dict);
    if (st == TP_OK) return df;
    tp__df_delete(df);
    return tp__df_failed(&d->at_, st);
}

/* -- tfrecord ---- >>tfrecord
 * length (8 bytes, little-endian), its masked CRC-32C, the bytes, their masked CRC-32C. */

enum { TP__TFRECORD_HEAD = 12, TP__TFRECORD_FRAME = 16 };

static void tp__tfrecord_head(uint8_t head[TP__TFRECORD_HEAD], size_t size)
{
    tp__put_le(head, size, 8);
    tp__put_le(head + 8, tp__crc_mask(tp_crc32c(0, head, 8)), 4);
}
static void tp__tfrecord_tail(uint8_t tail[4], const void *data, size_t size)
{
    tp__put_le(tail, tp__crc_mask(tp_crc32c(0, data, size)), 4);
}

/* tp__tfrecord_begin and tp__tfrecord_end write a TFRecord record around bytes that the caller appends to `out` between the two calls,
 * without a copy. `at`: the position that tp__tfrecord_begin returned. */
TP__UNUSED static size_t tp__tfrecord_begin(tp_buf *out)
{
    static const char head[TP__TFRECORD_HEAD] = "";
    tp_buf_put(out, head, sizeof head);
    return out->len;
}
TP__UNUSED static void tp__tfrecord_end(tp_buf *out, size_t at)
{
    uint8_t tail[4];
    if (out->failed) return;
    tp__tfrecord_head((uint8_t *)out->data + at - TP__TFRECORD_HEAD, out->len - at);
    tp__tfrecord_tail(tail, out->data + at, out->len - at);
    tp_buf_put(out, tail, sizeof tail);
}

TP_DEF void tp_tfrecord_append(tp_buf *out, const void *data, size_t size)
{
    TP__REQUIRE(out && (data || size == 0), )

    uint8_t head[TP__TFRECORD_HEAD], tail[4];
    tp__tfrecord_head(head, size);
    tp__tfrecord_tail(tail, data, size);
    tp_buf_put(out, head, sizeof head);
    tp_buf_put(out, data, size);
    tp_buf_put(out, tail, sizeof tail);
}

TP_DEF tp_status tp_tfrecord_put(tp_writer *w, const void *data, size_t size)
{
    TP__REQUIRE(w && (data || size == 0), TP_ERR_ARG)

    uint8_t head[TP__TFRECORD_HEAD], tail[4];
    tp__tfrecord_head(head, size);
    tp__tfrecord_tail(tail, data, size);
    tp_status st = tp_writer_put(w, head, sizeof head);
    if (st == TP_OK && size) st = tp_writer_put(w, data, size);
    return st == TP_OK ? tp_writer_put(w, tail, sizeof tail) : st;
}

/* Reads the size of the record at offset `at`, which is not the end of the file. */
static tp_status tp__tfrecord_size(const tp__data_file *f, int64_t record, uint64_t at, uint64_t *size)
{
    uint8_t head[TP__TFRECORD_HEAD];
    const uint64_t left = f->size - at;
    if (left < TP__TFRECORD_FRAME)
        return tp_fail(TP_ERR_FORMAT, "%s: record %lld at byte %llu is cut short: %llu bytes are left", f->path,
                       (long long)record, (unsigned long long)at, (unsigned long long)left);
    const tp_status st = tp__data_file_read(f, at, head, sizeof head);
    if (st != TP_OK) return st;
    if (tp__le32(head + 8) != tp__crc_mask(tp_crc32c(0, head, 8))) {
        if (at == 0 && head[0] == 0x1f && head[1] == 0x8b)
            return tp_fail(TP_ERR_FORMAT, "%s is compressed by gzip: unpack it first", f->path);
        return tp_fail(TP_ERR_FORMAT, "%s: record %lld at byte %llu: the checksum of its length does not match: %s",
                       f->path, (long long)record, (unsigned long long)at,
                       at ? "the file is damaged" : "this is no TFRecord file, or a damaged one");
    }
    *size = tp__le64(head);
    if (*size > left - TP__TFRECORD_FRAME || *size > tp__file_limit(0))
        return tp_fail(TP_ERR_FORMAT, "%s: record %lld at byte %llu is cut short: it has %llu bytes, %llu are left",
                       f->path, (long long)record, (unsigned long long)at, (unsigned long long)*size,
                       (unsigned long long)(left - TP__TFRECORD_FRAME));
    return TP_OK;
}

/* Makes room for n bytes in b; its contents are lost. */
static bool tp__bytes_reserve(tp_buf *b, size_t n)
{
    if (n <= b->cap) return true;
    char *p = (char *)tp_malloc(n);
    if (!p) return false;
    tp_free(b->data);
    b->data = p;
    b->cap = n;
    return true;
}

/* Reads the bytes of the record, whose size is known, into b. */
static tp_status tp__tfrecord_data(const tp__data_file *f, int64_t record, uint64_t at, uint64_t size, tp_buf *b)
{
    if (!tp__bytes_reserve(b, (size_t)size + 4)) return TP_ERR_NOMEM;
    const tp_status st = tp__data_file_read(f, at + TP__TFRECORD_HEAD, b->data, (size_t)size + 4);
    if (st != TP_OK) return st;
    if (tp__le32((const uint8_t *)b->data + size) != tp__crc_mask(tp_crc32c(0, b->data, (size_t)size)))
        return tp_fail(TP_ERR_FORMAT,
                       "%s: record %lld at byte %llu: the checksum of its data does not match: the file "
                       "is damaged",
                       f->path, (long long)record, (unsigned long long)at);
    return TP_OK;
}

struct tp_tfrecord_reader {
    tp__data_file file;
    int64_t record;
    uint64_t at;
    tp_buf data;
};

TP_DEF tp_status tp_tfrecord_open(tp_tfrecord_reader **out, const char *path)
{
    if (out) *out = NULL;
    TP__REQUIRE(out && path, TP_ERR_ARG)

    const size_t length = strlen(path) + 1;
    tp_tfrecord_reader *r = (tp_tfrecord_reader *)tp_calloc(1, sizeof *r + length);
    if (!r) return TP_ERR_NOMEM;
    memcpy(r + 1, path, length);
    const tp_status st = tp__data_file_open(&r->file, (const char *)(r + 1));
    if (st == TP_OK) *out = r;
    else tp_free(r);
    return st;
}

TP_DEF tp_status tp_tfrecord_next(tp_tfrecord_reader *r, const void **data, size_t *size)
{
    TP__REQUIRE(r && data && size, TP_ERR_ARG)

    uint64_t n = 0;
    if (r->at == r->file.size) return TP_END;
    tp_status st = tp__tfrecord_size(&r->file, r->record, r->at, &n);
    if (st == TP_OK) st = tp__tfrecord_data(&r->file, r->record, r->at, n, &r->data);
    if (st != TP_OK) return st;
    r->at += n + TP__TFRECORD_FRAME;
    r->record++;
    *data = r->data.data;
    *size = (size_t)n;
    return TP_OK;
}

TP_DEF void tp_tfrecord_close(tp_tfrecord_reader *r)
{
    if (!r) return;
    tp__os_close(r->file.fd);
    tp_free(r->data.data);
    tp_free(r);
}

TP__COLD_END

/* -- tf.train.Example, as protobuf messages ---- >>example
 * Example { features = 1: Features { feature = 1, many: { key = 1, value = 2: Feature } } }
 * Feature { bytes_list = 1, float_list = 2 or int64_list = 3: { value = 1, many } } */

enum { TP__EXAMPLE_NOTHING, TP__EXAMPLE_BYTES, TP__EXAMPLE_FLOATS, TP__EXAMPLE_INTS };

static void tp__example_list(const tp_tensor *t, tp_buf *list)
{
    const int64_t n = tp_tensor_size(t);
    if (t->dtype == TP_U8) {
        tp__pb_bytes(list, 1, t->data, (size_t)n);
        return;
    }
    tp_buf packed = {NULL, 0, 0, false};
    for (int64_t i = 0; i < n && !packed.failed; i++) {
        if (tp_dtype_is_float(t->dtype)) {
            const float v = (float)tp_tensor_get(t, i);
            uint32_t bits;
            memcpy(&bits, &v, sizeof bits);
            tp__pb_fixed(&packed, bits, 4);
        } else {
            int64_t v = 0;
            tp_convert(&v, TP_I64, (const char *)t->data + (size_t)i * tp_dtype_size(t->dtype), t->dtype, 1);
            tp__pb_varint(&packed, (uint64_t)v);
        }
    }
    if (n) tp__pb_message(list, 1, &packed);
    else tp_buf_free(&packed);
}

#ifndef TP__EXAMPLE_MOST
#define TP__EXAMPLE_MOST INT32_MAX /* the bytes of a message that protobuf parses */
#endif

/* Fails if the features and n more bytes are too many for an Example, which begins with up to 6 bytes of its own. */
static tp_status tp__example_fits(const tp_buf *features, uint64_t n, int component, const char *name)
{
    if (features->failed || n + features->len + 6 <= (uint64_t)TP__EXAMPLE_MOST) return TP_OK;
    return tp_fail(
        TP_ERR_SHAPE,
        "tp_example_write: with component %d, '%s', the tf.train.Example is larger than 2 GiB, which protobuf "
        "cannot parse: make several datapoints of it, or save it by tp_npz_save",
        component, name);
}

TP_DEF tp_status tp_example_write(const tp_datapoint *dp, const char *const *names, tp_buf *out)
{
    TP__REQUIRE(dp && names && out, TP_ERR_ARG)

    tp_buf features = {NULL, 0, 0, false};
    for (int i = 0; i < dp->n; i++) {
        const tp_tensor *t = &dp->c[i];
        tp_buf list = {NULL, 0, 0, false}, feature = {NULL, 0, 0, false}, entry = {NULL, 0, 0, false};
        if (!names[i] || t->device || tp_dtype_size(t->dtype) == 0) {
            tp_buf_free(&features);
            return tp_fail(TP_ERR_ARG, "tp_example_write: component %d has no %s", i,
                           !names[i]   ? "name"
                           : t->device ? "data in host memory"
                                       : "dtype");
        }
        /* a value has 4 bytes or, as an integer, one or more: what is too large is not written first */
        const uint64_t least = (uint64_t)tp_tensor_size(t) * (tp_dtype_is_float(t->dtype) ? 4 : 1);
        tp_status st = tp__example_fits(&features, least, i, names[i]);
        if (st == TP_OK) tp__example_list(t, &list);
        tp__pb_message(&feature,
                       t->dtype == TP_U8             ? TP__EXAMPLE_BYTES
                       : tp_dtype_is_float(t->dtype) ? TP__EXAMPLE_FLOATS
                                                     : TP__EXAMPLE_INTS,
                       &list);
        tp__pb_text(&entry, 1, names[i]);
        tp__pb_message(&entry, 2, &feature);
        tp__pb_message(&features, 1, &entry);
        if (st == TP_OK) st = tp__example_fits(&features, 0, i, names[i]);
        if (st != TP_OK) {
            tp_buf_free(&features);
            return st;
        }
    }
    tp__pb_message(out, 1, &features);
    return out->failed ? tp_fail(TP_ERR_NOMEM, "out of memory for a tf.train.Example") : TP_OK;
}

/* A Feature of a tf.train.Example: the kind of list, and the bytes of its message. */
typedef struct tp__example_value {
    int kind;
    tp__pb list;
    int64_t n;     /* number of values; in a bytes list, number of strings */
    tp__pb string; /* the last string of a bytes list */
} tp__example_value;

/* Counts the values of a list; false: the message is damaged. */
static bool tp__example_count(tp__example_value *v)
{
    tp__pb p = v->list;
    tp__pb_field f;
    v->n = 0;
    while (tp__pb_next(&p, &f)) {
        const int64_t bytes = f.wire == 2 ? (int64_t)(f.sub.end - f.sub.at) : 0;
        if (f.number != 1) continue;
        if (v->kind == TP__EXAMPLE_BYTES) {
            if (f.wire != 2) return false;
            v->string = f.sub;
            v->n++;
        } else if (v->kind == TP__EXAMPLE_FLOATS) {
            if (f.wire == 5) v->n++;
            else if (f.wire != 2 || bytes % 4) return false;
            else v->n += bytes / 4;
        } else if (f.wire == 0) {
            v->n++;
        } else if (f.wire == 2) { /* count varints: the last byte of each has its high bit clear */
            for (const uint8_t *b = f.sub.at; b < f.sub.end; b++) v->n += *b < 128;
            if (bytes && f.sub.end[-1] >= 128) return false;
        } else {
            return false;
        }
    }
    return !p.bad;
}

/* Finds the feature; if a name occurs twice the last one counts, as in protobuf. false: the message is damaged. */
static bool tp__example_find(const void *data, size_t size, const char *name, tp__example_value *v)
{
    const size_t length = strlen(name);
    tp__pb example = {(const uint8_t *)data, (const uint8_t *)data + size, false};
    tp__pb_field f, e, k;
    memset(v, 0, sizeof *v);
    while (tp__pb_next(&example, &f)) {
        if (f.number != 1 || f.wire != 2) continue;
        while (tp__pb_next(&f.sub, &e)) {
            if (e.number != 1 || e.wire != 2) continue;
            tp__pb key = {NULL, NULL, false}, value = {NULL, NULL, false};
            while (tp__pb_next(&e.sub, &k)) {
                if (k.number == 1 && k.wire == 2) key = k.sub;
                if (k.number == 2 && k.wire == 2) value = k.sub;
            }
            if (e.sub.bad) return false;
            if ((size_t)(key.end - key.at) != length || (length && memcmp(key.at, name, length) != 0)) continue;
            memset(v, 0, sizeof *v);
            while (tp__pb_next(&value, &k))
                if (k.number >= 1 && k.number <= 3 && k.wire == 2) {
                    v->kind = k.number;
                    v->list = k.sub;
                }
            if (value.bad) return false;
        }
        if (f.sub.bad) return false;
    }
    return !example.bad && tp__example_count(v);
}

/* Stores one number of an int64 list; false: it does not fit into dtype. */
static bool tp__example_int(tp_dtype dtype, void *to, int64_t v)
{
    if (dtype == TP_I32 && (v < INT32_MIN || v > INT32_MAX)) return false;
    if (dtype == TP_U8 && (v < 0 || v > 255)) return false;
    if (dtype == TP_BOOL && (v < 0 || v > 1)) return false;
    tp_convert(to, dtype, &v, TP_I64, 1);
    if (!tp_dtype_is_float(dtype)) return true;
    double back; /* a float is the number, or was rounded to another one */
    tp_convert(&back, TP_F64, to, dtype, 1);
    return back >= -9223372036854775808.0 && back < 9223372036854775808.0 && (int64_t)back == v;
}

/* Converts n packed floats, little-endian and not aligned, to dtype. */
static void tp__example_floats(char *to, tp_dtype dtype, const uint8_t *at, int64_t n)
{
    float x[TP__BLOCK];
    for (int64_t i = 0; i < n; i += TP__BLOCK) {
        const int m = n - i < TP__BLOCK ? (int)(n - i) : TP__BLOCK;
        for (int k = 0; k < m; k++) {
            const uint32_t bits = tp__le32(at + 4 * (i + k));
            memcpy(&x[k], &bits, sizeof bits);
        }
        tp_convert(to + (size_t)i * tp_dtype_size(dtype), dtype, x, TP_F32, m);
    }
}

/* Copies the values of a float or an int64 list to t, which has the right size. */
static bool tp__example_numbers(const tp__example_value *v, tp_tensor *t)
{
    tp__pb p = v->list, packed_numbers;
    tp__pb_field f;
    char *to = (char *)t->data;
    const size_t width = tp_dtype_size(t->dtype);
    while (tp__pb_next(&p, &f)) {
        if (f.number != 1) continue;
        packed_numbers = f.sub;
        const bool packed = f.wire == 2;
        if (packed && v->kind == TP__EXAMPLE_FLOATS) { /* a whole number of them: tp__example_count has seen to that */
            const int64_t n = (packed_numbers.end - packed_numbers.at) / 4;
            tp__example_floats(to, t->dtype, packed_numbers.at, n);
            to += (size_t)n * width;
            continue;
        }
        for (bool first = true; packed ? packed_numbers.at < packed_numbers.end && !packed_numbers.bad : first;
             first = false, to += width) {
            const uint64_t bits = packed ? tp__pb_get_varint(&packed_numbers) : f.value;
            if (packed_numbers.bad) return false;
            if (v->kind == TP__EXAMPLE_FLOATS) {
                const uint32_t low = (uint32_t)bits;
                float x;
                memcpy(&x, &low, sizeof x);
                tp_convert(to, t->dtype, &x, TP_F32, 1);
            } else {
                int64_t x;
                memcpy(&x, &bits, sizeof x);
                if (!tp__example_int(t->dtype, to, x)) return false;
            }
        }
    }
    return true;
}

/* Computes the open dimension of the shape from the number of values; false: the shape does not fit. */
static bool tp__example_shape(tp_shape *shape, int64_t count)
{
    int64_t known = 1;
    int open_axis = -1;
    for (int i = 0; i < shape->ndim; i++) {
        const int64_t d = shape->dim[i];
        if (d < 0 && open_axis >= 0) return false;
        if (d < 0) open_axis = i;
        else if (d && known > INT64_MAX / d) return false;
        else known *= d;
    }
    if (open_axis < 0) return known == count;
    if (known == 0 || count % known) return false;
    shape->dim[open_axis] = count / known;
    return true;
}

static tp_status tp__example_feature(const tp__example_value *v, const char *record_name, const tp_spec *spec,
                                     tp_tensor *t)
{
    static const char *const list[] = {"nothing", "a bytes list", "a float list", "an int64 list"};
    const tp_dtype dtype = spec->dtype == TP_DTYPE_UNSET ? TP_F32 : spec->dtype;
    const size_t width = tp_dtype_size(dtype);
    tp_shape shape = spec->shape;
    char text[TP_SHAPE_TEXT];
    if (v->kind == TP__EXAMPLE_FLOATS && !tp_dtype_is_float(dtype))
        return tp_fail(TP_ERR_DTYPE, "%s: feature \"%s\" is a float list, it cannot be read as %s", record_name,
                       spec->name, tp_dtype_name(dtype));
    int64_t count = v->n;
    if (v->kind == TP__EXAMPLE_BYTES && v->n > 1)
        return tp_fail(TP_ERR_FORMAT, "%s: feature \"%s\" has %lld strings, only one can be read", record_name,
                       spec->name, (long long)v->n);
    const size_t bytes = v->kind == TP__EXAMPLE_BYTES ? (size_t)(v->string.end - v->string.at) : 0;
    if (bytes % width)
        return tp_fail(TP_ERR_FORMAT, "%s: feature \"%s\" has %zu bytes, which is not a multiple of the size of %s",
                       record_name, spec->name, bytes, tp_dtype_name(dtype));
    if (v->kind == TP__EXAMPLE_BYTES) count = (int64_t)(bytes / width);
    if (!tp__example_shape(&shape, count))
        return tp_fail(TP_ERR_SHAPE, "%s: feature \"%s\" is %s with %lld elements, which do not have the shape %s",
                       record_name, spec->name, list[v->kind], (long long)count, tp_shape_text(&spec->shape, text));
    tp_status st = tp_tensor_resize(t, dtype, shape);
    if (st != TP_OK || count == 0) return st;
    if (v->kind == TP__EXAMPLE_BYTES) {
        memcpy(t->data, v->string.at, bytes);
        char *p = (char *)t->data;
        for (size_t i = 0; i < bytes && !tp__little_endian(); i += width)
            for (size_t k = 0; k < width / 2; k++) {
                const char swap = p[i + k];
                p[i + k] = p[i + width - 1 - k];
                p[i + width - 1 - k] = swap;
            }
    } else if (!tp__example_numbers(v, t)) {
        return tp_fail(TP_ERR_FORMAT, "%s: feature \"%s\" holds a number that is damaged or does not fit into %s",
                       record_name, spec->name, tp_dtype_name(dtype));
    }
    return TP_OK;
}

TP_DEF tp_status tp_example_parse(const void *data, size_t size, const char *what, const tp_spec *features, int n,
                                  tp_datapoint *dp)
{
    TP__REQUIRE((data || size == 0) && what && features && n >= 0 && dp, TP_ERR_ARG)

    tp_status st = tp_datapoint_resize(dp, n);
    for (int i = 0; i < n && st == TP_OK; i++) {
        tp__example_value v;
        if (!features[i].name || (features[i].dtype != TP_DTYPE_UNSET && tp_dtype_size(features[i].dtype) == 0))
            st = tp_fail(TP_ERR_ARG, "%s: feature %d has no name or no dtype", what, i);
        else if (!tp__example_find(data, size, features[i].name, &v))
            st = tp_fail(TP_ERR_FORMAT, "%s is no tf.train.Example, or a damaged one", what);
        else if (v.kind == TP__EXAMPLE_NOTHING && tp_shape_known(&features[i].shape) &&
                 tp_shape_size(&features[i].shape) != 0)
            st = tp_fail(TP_ERR_NAME, "%s has no feature \"%s\"", what, features[i].name);
        else st = tp__example_feature(&v, what, &features[i], &dp->c[i]);
    }
    return st;
}

TP__COLD_BEGIN

/* -- a flow of records ---- >>df tfrecord */

typedef struct tp__tfrecord_place {
    uint64_t at, size;
    int64_t number; /* number of the record in its TFRecord file */
    int file;
} tp__tfrecord_place;

enum { TP__TFRECORD_OPEN = 32 }; /* largest number of open files */

typedef struct tp__tfrecord_flow {
    tp__order order;
    tp__tfrecord_place *record;
    int64_t capacity;
    char **path;
    tp__data_file open[TP__TFRECORD_OPEN]; /* open files: file i is at index i % 32; path NULL: none */
    tp_spec *feature;
    int n_feature;
    tp_arena mem;
    tp_buf data, record_name;
} tp__tfrecord_flow;

/* Opens the TFRecord file if necessary and returns it. */
static tp_status tp__tfrecord_at(tp__tfrecord_flow *f, int file, tp__data_file **out)
{
    tp__data_file *o = &f->open[file % TP__TFRECORD_OPEN];
    *out = o;
    if (o->path == f->path[file]) return TP_OK;
    if (o->path) tp__os_close(o->fd);
    o->path = NULL;
    const tp_status st = tp__data_file_open(o, f->path[file]);
    if (st != TP_OK) o->path = NULL;
    return st;
}

/* Finds the positions of the records of a file. */
static tp_status tp__tfrecord_scan(tp__tfrecord_flow *f, int file)
{
    tp__data_file *o;
    tp_status st = tp__tfrecord_at(f, file, &o);
    uint64_t at = 0;
    for (int64_t number = 0; st == TP_OK && at < o->size; number++) {
        uint64_t size = 0;
        if ((st = tp__tfrecord_size(o, number, at, &size)) != TP_OK) break;
        if (f->order.n == f->capacity) {
            size_t bytes;
            const int64_t new_capacity = f->capacity ? 2 * f->capacity : 64;
            if (!tp_mul_size((size_t)new_capacity, sizeof(tp__tfrecord_place), &bytes))
                return tp_fail(TP_ERR_NOMEM, "too many records");
            tp__tfrecord_place *grown = (tp__tfrecord_place *)tp_realloc(f->record, bytes);
            if (!grown) return TP_ERR_NOMEM;
            f->record = grown;
            f->capacity = new_capacity;
        }
        const tp__tfrecord_place r = {at, size, number, file};
        f->record[f->order.n++] = r;
        at += size + TP__TFRECORD_FRAME;
    }
    return st;
}

static tp_status tp__tfrecord_flow_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__tfrecord_flow *f = (tp__tfrecord_flow *)df->user;
    const int64_t i = tp__order_take(&f->order);
    if (i < 0) return TP_END;
    const tp__tfrecord_place *r = &f->record[i];
    tp__data_file *o;
    tp_status st = tp__tfrecord_at(f, r->file, &o);
    if (st == TP_OK && o->size < r->at + r->size + TP__TFRECORD_FRAME)
        st = tp_fail(TP_ERR_FORMAT, "%s has become shorter since the flow was made", o->path);
    if (st == TP_OK) st = tp__tfrecord_data(o, r->number, r->at, r->size, &f->data);
    if (st != TP_OK) return st;
    if (f->feature) {
        st = tp_example_parse(f->data.data, (size_t)r->size, o->path, f->feature, f->n_feature, dp);
        if (st == TP_OK || st == TP_ERR_NOMEM) return st;
        /* parse again for an error sentence that names the record; naming every record beforehand would take time */
        f->record_name.len = 0;
        tp_buf_printf(&f->record_name, "%s: record %lld at byte %llu", o->path, (long long)r->number,
                      (unsigned long long)r->at);
        if (f->record_name.failed) return tp_fail(TP_ERR_NOMEM, "out of memory for the name of a record");
        return tp_example_parse(f->data.data, (size_t)r->size, f->record_name.data, f->feature, f->n_feature, dp);
    }
    if ((st = tp_datapoint_resize(dp, 1)) != TP_OK) return st;
    const int64_t size = (int64_t)r->size;
    tp_tensor_view(&dp->c[0], TP_U8, tp_make_shape_n(1, &size), f->data.data);
    return TP_OK;
}

static void tp__tfrecord_flow_close(tp_dataflow *df)
{
    tp__tfrecord_flow *f = (tp__tfrecord_flow *)df->user;
    for (int i = 0; i < TP__TFRECORD_OPEN; i++)
        if (f->open[i].path) tp__os_close(f->open[i].fd);
    tp_free(f->record);
    tp_free(f->order.at);
    tp_free(f->data.data);
    tp_buf_free(&f->record_name);
    tp_arena_free(&f->mem);
}

/* Copies the paths and the features. */
static tp_status tp__tfrecord_take(tp__tfrecord_flow *f, const tp_df_tfrecord_desc *d)
{
    f->path = (char **)tp_arena_alloc(&f->mem, (size_t)d->n * sizeof *f->path);
    if (!f->path) return TP_ERR_NOMEM;
    for (int i = 0; i < d->n; i++) {
        if (!d->paths[i]) return tp_fail(TP_ERR_ARG, "tp_df_tfrecord: path %d is NULL", i);
        if (!(f->path[i] = tp_arena_strdup(&f->mem, d->paths[i]))) return TP_ERR_NOMEM;
    }
    if (!d->features) return TP_OK;
    f->feature = (tp_spec *)tp_arena_alloc(&f->mem, (size_t)d->n_features * sizeof *f->feature);
    if (!f->feature) return TP_ERR_NOMEM;
    f->n_feature = d->n_features;
    for (int i = 0; i < d->n_features; i++) {
        f->feature[i] = d->features[i];
        if (!d->features[i].name) return tp_fail(TP_ERR_NAME, "tp_df_tfrecord: feature %d has no name", i);
        if (!(f->feature[i].name = tp_arena_strdup(&f->mem, d->features[i].name))) return TP_ERR_NOMEM;
    }
    return TP_OK;
}

TP_DEF tp_dataflow *tp_df_tfrecord_(const tp_df_tfrecord_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    if (d->n < 1 || !d->paths) return tp_df_fail(&d->at_, TP_ERR_ARG, "tp_df_tfrecord: needs at least one path");
    if (d->features ? d->n_features < 1 : d->n_features != 0)
        return tp_df_fail(&d->at_, TP_ERR_ARG, "tp_df_tfrecord: %d features%s", d->n_features,
                          d->features ? "" : " at NULL");
    tp_dataflow *df = tp_df_new("tp_df_tfrecord", sizeof(tp__tfrecord_flow), d->seed);
    if (!df) return NULL;
    tp__tfrecord_flow *f = (tp__tfrecord_flow *)df->user;
    df->next = tp__tfrecord_flow_next;
    df->restart = tp__ordered_restart;
    df->size = tp__ordered_size;
    df->seek = tp__ordered_seek;
    df->close = tp__tfrecord_flow_close;
    tp_status st = tp__tfrecord_take(f, d);
    for (int i = 0; i < d->n && st == TP_OK; i++) st = tp__tfrecord_scan(f, i);
    if (st == TP_OK) st = tp__order_init(&f->order, f->order.n, tp__tri_is_yes(d->shuffle, false));
    if (st == TP_OK) return df;
    tp__df_delete(df);
    return tp__df_failed(&d->at_, st);
}

TP_DEF tp_status tp_df_save_tfrecord(tp_dataflow *df, const char *path, const char *const *names, int n)
{
    TP__REQUIRE(df && path && n >= 0 && (names || n == 0), TP_ERR_ARG)

    tp_writer *w = NULL;
    tp_datapoint dp = {0, NULL, 0};
    tp_buf b = {NULL, 0, 0, false};
    tp_status st = tp__df_must_end(df, "tp_df_save_tfrecord");
    if (st == TP_OK) st = tp_df_restart(df, 0);
    if (st == TP_OK) st = tp_writer_open(&w, path);
    for (int64_t i = 0; st == TP_OK && (st = tp_df_next(df, &dp)) == TP_OK; i++) {
        b.len = 0;
        if (dp.n != (n ? n : 1))
            st = tp_fail(TP_ERR_ARG, "datapoint %lld of %s has %d components, %d were to be saved to %s", (long long)i,
                         df->name, dp.n, n ? n : 1, path);
        else if (n) st = tp_example_write(&dp, names, &b);
        if (st == TP_OK)
            st = n ? tp_tfrecord_put(w, b.data, b.len) : tp_tfrecord_put(w, dp.c[0].data, tp_tensor_bytes(&dp.c[0]));
    }
    tp_datapoint_free(&dp);
    tp_buf_free(&b);
    if (st == TP_END) return tp_writer_commit(w);
    tp_writer_abort(w);
    return st;
}

TP__COLD_END

TP__COLD_BEGIN

/* -- csv ---- >>df csv
 * The text is parsed in place: quoted fields are unquoted where they are, and a 0 is written after each field. */

typedef struct tp__csv {
    char *at, *end; /* the text of a CSV file, from `at` to `end`; *end is 0 */
    const char *data_name;
    int64_t line; /* number, from 1, of the current line */
    char separator;
} tp__csv;

/* what follows a field in its row: another field; no field; an error */
enum { TP__CSV_MORE, TP__CSV_LAST, TP__CSV_BAD };

/* Reads the next field of the row; returns TP__CSV_MORE, TP__CSV_LAST or TP__CSV_BAD. */
static int tp__csv_field(tp__csv *c, char **field, size_t *length)
{
    char *p = c->at, *to = c->at;
    *field = p;
    if (p < c->end && *p == '"') {
        const int64_t start_line = c->line;
        for (p++;; p++) {
            if (p == c->end) {
                tp_fail(TP_ERR_FORMAT, "%s:%lld: a quote is opened here and never closed", c->data_name,
                        (long long)start_line);
                return TP__CSV_BAD;
            }
            if (*p == '"' && p + 1 < c->end && p[1] == '"') p++;
            else if (*p == '"') break;
            if (*p == '\n') c->line++;
            *to++ = *p;
        }
        p++;
        if (p < c->end && *p != c->separator && *p != '\n' && !(*p == '\r' && p + 1 < c->end && p[1] == '\n')) {
            tp_fail(TP_ERR_FORMAT,
                    "%s:%lld: text follows after a closing quote: put the whole field in quotes, and a quote "
                    "in it twice",
                    c->data_name, (long long)c->line);
            return TP__CSV_BAD;
        }
    } else {
        while (p < c->end && *p != c->separator && *p != '\n') p++;
        to = p;
        if (p < c->end && *p == '\n' && to > c->at && to[-1] == '\r') to--;
    }
    if (p < c->end && *p == '\r') p++;
    const char after = p < c->end ? *p : '\n';
    *length = (size_t)(to - *field);
    *to = 0;
    c->at = p < c->end ? p + 1 : p;
    if (after == '\n') c->line++;
    return after == '\n' ? TP__CSV_LAST : TP__CSV_MORE;
}

/* Skips empty lines of a CSV file; false at its end. */
static bool tp__csv_row(tp__csv *c)
{
    for (;; c->line++) {
        if (c->at < c->end && *c->at == '\n') c->at++;
        else if (c->end - c->at > 1 && c->at[0] == '\r' && c->at[1] == '\n') c->at += 2;
        else return c->at < c->end;
    }
}

static bool tp__csv_blank(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t')) p++;
    return p == end;
}

/* Parses a decimal integer with blanks around it. */
static bool tp__csv_int(const char *p, const char *end, int64_t *out)
{
    while (p < end && (*p == ' ' || *p == '\t')) p++;
    const bool minus = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+')) p++;
    const char *digits = p;
    uint64_t v = 0;
    for (; p < end && *p >= '0' && *p <= '9'; p++) {
        const uint64_t digit = (uint64_t)(*p - '0');
        if (v > ((uint64_t)INT64_MAX + 1 - digit) / 10) return false;
        v = 10 * v + digit;
    }
    if (p == digits || !tp__csv_blank(p, end) || (!minus && v > INT64_MAX)) return false;
    *out = minus ? (v ? -(int64_t)(v - 1) - 1 : 0) : (int64_t)v;
    return true;
}

/* Returns the number of bytes of a text's byte order mark, which are skipped; 0: it has none. */
static size_t tp__byte_order_mark(const char *text, size_t size)
{
    return size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
}

/* Whether a field says that its value is missing. */
static bool tp__csv_missing(const char *field, const char *end)
{
    static const char *const words[] = {"na", "n/a", "null", "none", "?"};
    while (field < end && (*field == ' ' || *field == '\t')) field++;
    for (int i = 0; i < TP_COUNT(words); i++)
        if (tp__same_word(field, words[i]) && tp__csv_blank(field + strlen(words[i]), end)) return true;
    return field == end;
}

/* Stores a field as element i of t; false: it is not a valid number, or, written in digits, too large for t's type.
 * missing: in a column of floats a missing value is NaN. */
static bool tp__csv_number(tp_tensor *t, int64_t i, const char *field, size_t length, bool missing)
{
    static const char nan_text[] = "nan";
    if (missing && tp_dtype_is_float(t->dtype) && tp__csv_missing(field, field + length)) {
        field = nan_text;
        length = strlen(nan_text);
    }
    const char *end = field + length, *after = field;
    if (tp__csv_blank(field, end)) return false;
    if (tp_dtype_is_float(t->dtype)) {
        if (t->dtype == TP_F32) ((float *)t->data)[i] = tp_parse_float(field, &after);
        else ((double *)t->data)[i] = tp_parse_double(field, &after);
        const bool digits = memchr(field, 'n', length) == NULL && memchr(field, 'N', length) == NULL; /* not inf, nan */
        return after > field && tp__csv_blank(after, end) && (!digits || tp__finite(tp_tensor_get(t, i)));
    }
    int64_t v;
    if (!tp__csv_int(field, end, &v)) return false;
    if (t->dtype == TP_I64) ((int64_t *)t->data)[i] = v;
    else if (v < INT32_MIN || v > INT32_MAX) return false;
    else ((int32_t *)t->data)[i] = (int32_t)v;
    return true;
}

/* The mapping from the fields of a row to the components. */
typedef struct tp__csv_take {
    const tp_csv_column *column; /* an array of n columns */
    int n;
    int64_t *first; /* first field of each component, -1: not found in the header yet */
    bool missing;   /* a missing value is NaN in a column of floats */
} tp__csv_take;

static int64_t tp__csv_count(const tp_csv_column *c) { return c->count ? c->count : 1; }

/* Reads the header, if there is one, and finds the numbers of the columns that are given by name. */
static tp_status tp__csv_header(tp__csv *c, tp__csv_take *t, bool header, int64_t *fields)
{
    char *field;
    size_t length;
    const int64_t line = c->line;
    for (int j = 0; j < t->n; j++) t->first[j] = t->column[j].name ? -1 : t->column[j].index;
    if (!header) return TP_OK;
    if (!tp__csv_row(c))
        return tp_fail(TP_ERR_FORMAT, "%s is empty: a line with the names of the columns was expected", c->data_name);
    int field_end = TP__CSV_MORE;
    char names[300];
    size_t listed = 0;
    int64_t n_numbers = 0;
    for (*fields = 0; field_end == TP__CSV_MORE; ++*fields) {
        if ((field_end = tp__csv_field(c, &field, &length)) == TP__CSV_BAD) return TP_ERR_FORMAT;
        if (listed < sizeof names) /* cut where it is full */
            listed += (size_t)snprintf(names + listed, sizeof names - listed, "%s\"%.*s\"", *fields ? ", " : "",
                                       length < 60 ? (int)length : 60, field);
        const char *number_end;
        tp_parse_double(field, &number_end);
        n_numbers += length > 0 && number_end == field + length;
        for (int j = 0; j < t->n; j++) {
            const char *name = t->column[j].name;
            if (!name || strlen(name) != length || memcmp(name, field, length) != 0) continue;
            if (t->first[j] >= 0)
                return tp_fail(TP_ERR_FORMAT, "%s:%lld: columns %lld and %lld are both called \"%s\": give the number",
                               c->data_name, (long long)line, (long long)t->first[j], (long long)*fields, name);
            t->first[j] = *fields;
        }
    }
    for (int j = 0; j < t->n; j++)
        if (t->first[j] < 0)
            return tp_fail(TP_ERR_NAME, "%s:%lld: there is no column called \"%s\"; the columns are %s%s", c->data_name,
                           (long long)line, t->column[j].name, names,
                           n_numbers == *fields ? ": if the first line has no names, give .header = TP_NO, and .index "
                                                  "instead of .name"
                           : *fields == 1       ? ": is .separator another one?"
                                                : "");
    return TP_OK;
}

/* Says that a field is no number of its column's type. `part` counts the fields of the component from 0. */
static tp_status tp__csv_no_number(const tp__csv *c, int64_t line, int64_t k, const tp_csv_column *column, int64_t part,
                                   const char *field, size_t length, tp_dtype dtype)
{
    tp__printable value;
    char which[120] = "";
    if (column->name && part == 0) snprintf(which, sizeof which, " (%.80s)", column->name);
    else if (column->name) snprintf(which, sizeof which, " (%lld after %.80s)", (long long)part, column->name);
    const char *remedy = !tp__csv_missing(field, field + length) ? ""
                         : tp_dtype_is_float(dtype)
                             ? ": .missing = TP_YES makes it NaN"
                             : ": only a column of TP_F32 or TP_F64 can have missing values, which "
                               ".missing = TP_YES makes NaN";
    return tp_fail(TP_ERR_FORMAT, "%s:%lld: column %lld%s: \"%s\" is no %s%s", c->data_name, (long long)line,
                   (long long)k, which, tp__make_printable(&value, field, length), tp_dtype_name(dtype), remedy);
}

/* Stores one row as element `row` of the arrays. fields: number of fields in a row, 0: not known yet. */
static tp_status tp__csv_read_row(tp__csv *c, const tp__csv_take *t, tp__rows_flow *f, int64_t row, int64_t *fields)
{
    const int64_t line = c->line;
    char *field;
    size_t length;
    int field_end = TP__CSV_MORE;
    int64_t k = 0;
    for (; field_end == TP__CSV_MORE; k++) {
        const int64_t line_number = c->line;
        if ((field_end = tp__csv_field(c, &field, &length)) == TP__CSV_BAD) return TP_ERR_FORMAT;
        for (int j = 0; j < t->n; j++) {
            const int64_t count = tp__csv_count(&t->column[j]), part = k - t->first[j];
            if (part < 0 || part >= count) continue;
            if (f->kind[j] == TP__ROW_TEXT) {
                int64_t *place = (int64_t *)f->array[j].data + 2 * row;
                place[0] = (int64_t)(field - f->text);
                place[1] = (int64_t)length;
            } else if (!tp__csv_number(&f->array[j], row * count + part, field, length, t->missing)) {
                return tp__csv_no_number(c, line_number, k, &t->column[j], part, field, length, f->array[j].dtype);
            }
        }
    }
    if (*fields && k != *fields)
        return tp_fail(TP_ERR_FORMAT, "%s:%lld: this line has %lld fields, those before it have %lld", c->data_name,
                       (long long)line, (long long)k, (long long)*fields);
    *fields = k;
    for (int j = 0; j < t->n; j++) {
        const int64_t count = tp__csv_count(&t->column[j]), last = t->first[j] + count - 1;
        char why[60] = "";
        if (last < k) continue;
        if (count > 1)
            snprintf(why, sizeof why, " (.count is %lld, from column %lld on)", (long long)count,
                     (long long)t->first[j]);
        return tp_fail(TP_ERR_ARG, "%s:%lld: column %lld was asked for%s, there are %lld, numbered from 0",
                       c->data_name, (long long)line, (long long)last, why, (long long)k);
    }
    return TP_OK;
}

/* Parses f->text, `size` bytes and a 0, into f's arrays. */
static tp_status tp__csv_parse(tp__rows_flow *f, size_t size, const char *data_name, const tp_csv_column *columns,
                               bool header, bool missing, char separator, int64_t *first)
{
    tp__csv c = {f->text, f->text + size, data_name, 1, separator};
    const tp__csv_take take = {columns, f->n, first, missing};
    int64_t max_rows = 1, rows = 0, fields = 0;
    c.at += tp__byte_order_mark(c.at, size);
    for (const char *p = c.at; (p = (const char *)memchr(p, '\n', (size_t)(c.end - p))) != NULL; p++) max_rows++;
    tp__csv_take names = take;
    tp_status st = tp__csv_header(&c, &names, header, &fields);
    for (int j = 0; j < f->n && st == TP_OK; j++) {
        const tp_csv_column *column = &columns[j];
        const int64_t dim[2] = {max_rows, column->dtype == TP_U8 ? 2 : tp__csv_count(column)};
        f->kind[j] = column->dtype == TP_U8 ? TP__ROW_TEXT : TP__ROW_AS_IS;
        const tp_dtype dtype = column->dtype == TP_U8            ? TP_I64
                               : column->dtype == TP_DTYPE_UNSET ? TP_F32
                                                                 : column->dtype;
        st = tp_tensor_resize(&f->array[j], dtype,
                              tp_make_shape_n(column->count || column->dtype == TP_U8 ? 2 : 1, dim));
    }
    while (st == TP_OK && tp__csv_row(&c)) st = tp__csv_read_row(&c, &take, f, rows++, &fields);
    for (int j = 0; j < f->n && st == TP_OK; j++) f->array[j].shape.dim[0] = rows;
    return st;
}

TP_DEF tp_dataflow *tp_df_csv_(const tp_df_csv_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    const char separator = d->separator ? d->separator : ',';
    if (!d->path || d->n < 1 || !d->columns)
        return tp_df_fail(&d->at_, TP_ERR_ARG, "tp_df_csv: needs a path and at least one column");
    if (separator == '"' || separator == '\n' || separator == '\r')
        return tp_df_fail(&d->at_, TP_ERR_ARG, "tp_df_csv: quotes and line ends cannot be the separator");
    for (int j = 0; j < d->n; j++) {
        const tp_csv_column *c = &d->columns[j];
        const bool number = c->dtype == TP_DTYPE_UNSET || c->dtype == TP_F32 || c->dtype == TP_F64 ||
                            c->dtype == TP_I32 || c->dtype == TP_I64;
        if (c->index < 0 || c->count < 0 || (!number && c->dtype != TP_U8) || (!number && c->count))
            return tp_df_fail(
                &d->at_, TP_ERR_ARG,
                "tp_df_csv: component %d: columns have a number from 0 and are float32, float64, int32, int64 or, "
                "one at a time, text (TP_U8)",
                j);
        if (c->name && !tp__tri_is_yes(d->header, true))
            return tp_df_fail(&d->at_, TP_ERR_ARG,
                              "tp_df_csv: column \"%s\" is asked for by name, but there is no header", c->name);
    }
    tp_dataflow *df = tp__rows_new("tp_df_csv", d->n, d->seed);
    if (!df) return NULL;
    tp__rows_flow *f = (tp__rows_flow *)df->user;
    size_t size = 0;
    int64_t *first = (int64_t *)tp_calloc((size_t)d->n, sizeof *first);
    tp_status st = first ? tp_file_read(d->path, true, 0, &f->text, &size) : TP_ERR_NOMEM;
    if (st == TP_OK)
        st = tp__csv_parse(f, size, d->path, d->columns, tp__tri_is_yes(d->header, true),
                           tp__tri_is_yes(d->missing, false), separator, first);
    tp_free(first);
    if (st == TP_OK) st = tp__rows_ready(df, NULL, d->shuffle);
    if (st == TP_OK) return df;
    tp__df_delete(df);
    return tp__df_failed(&d->at_, st);
}

/* -- text ---- >>vocabulary */

/* Where the text of a file begins: behind the byte order mark, if there is one. */
static const char *tp__text_begin(const char *text, size_t size)
{
    return size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? text + 3 : text;
}

static bool tp__text_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; }

/* Gives the next character or word at *p and moves *p after it; NULL at the end. */
static const char *tp__text_next(const char **p, const char *end, bool words, size_t *length)
{
    while (words && *p < end && tp__text_blank(**p)) ++*p;
    const char *token = *p;
    if (token == end) return NULL;
    if (!words) *p += *length = tp__utf8_length(token, end);
    else if (*token == '\n') {
        ++*p;
        *length = 5;
        return "<eos>";
    } else {
        while (*p < end && !tp__text_blank(**p) && **p != '\n') ++*p;
        *length = (size_t)(*p - token);
    }
    return token;
}

typedef struct tp__token { /* A distinct word or character of a text. */
    const char *at;
    size_t length;
    int64_t count, order;
} tp__token;

/* The words found so far, in a hash table: slot[] has the number of a token + 1, or 0. */
typedef struct tp__tokens {
    tp__token *token;
    int32_t n, capacity;
    int32_t *slot;
    size_t n_slot; /* size of the hash table, a power of two */
} tp__tokens;

static size_t tp__slot_of(uint64_t hash, size_t n_slot) { return (size_t)hash & (n_slot - 1); }

/* Doubles the room for tokens and rebuilds the table. */
static tp_status tp__tokens_grow(tp__tokens *t)
{
    if (t->capacity > INT32_MAX / 4)
        return tp_fail(TP_ERR_FORMAT, "a text with more than %d different words", t->capacity);
    const int32_t new_capacity = t->capacity ? 2 * t->capacity : 256;
    tp__token *grown = (tp__token *)tp_realloc(t->token, (size_t)new_capacity * sizeof *grown);
    if (!grown) return TP_ERR_NOMEM;
    t->token = grown;
    const size_t n_slot = 2 * (size_t)new_capacity;
    int32_t *slot = (int32_t *)tp_calloc(n_slot, sizeof *slot);
    if (!slot) return TP_ERR_NOMEM;
    for (int32_t i = 0; i < t->n; i++) {
        size_t s = tp__slot_of(tp_hash(t->token[i].at, t->token[i].length), n_slot);
        while (slot[s]) s = (s + 1) & (n_slot - 1);
        slot[s] = i + 1;
    }
    tp_free(t->slot);
    t->slot = slot;
    t->n_slot = n_slot;
    t->capacity = new_capacity;
    return TP_OK;
}

/* Gives the number of a word, and adds it if it is new; -1: out of memory. */
static int32_t tp__tokens_add(tp__tokens *t, const char *at, size_t length)
{
    if (t->n == t->capacity && tp__tokens_grow(t) != TP_OK) return -1;
    size_t s = tp__slot_of(tp_hash(at, length), t->n_slot);
    for (; t->slot[s]; s = (s + 1) & (t->n_slot - 1)) {
        const tp__token *is = &t->token[t->slot[s] - 1];
        if (is->length == length && memcmp(is->at, at, length) == 0) return t->slot[s] - 1;
    }
    const tp__token fresh = {at, length, 0, t->n};
    t->token[t->n++] = fresh;
    t->slot[s] = t->n;
    return t->n - 1;
}

static int tp__token_by_order(const void *a, const void *b) /* order: by count, then by first occurrence in the text */
{
    const tp__token *x = (const tp__token *)a, *y = (const tp__token *)b;
    if (x->count != y->count) return x->count > y->count ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}
static int tp__token_by_bytes(const void *a, const void *b) /* compares tokens by count, then by bytes */
{
    const tp__token *x = (const tp__token *)a, *y = (const tp__token *)b;
    if (x->count != y->count) return x->count > y->count ? -1 : 1;
    const int c = memcmp(x->at, y->at, x->length < y->length ? x->length : y->length);
    return c ? c : x->length < y->length ? -1 : x->length > y->length;
}

/* Replaces rare words by "<unk>", which is token 0: removes them and adds their counts to it. */
static void tp__tokens_drop_rare(tp__tokens *t, int64_t min_count, int max_words)
{
    int32_t kept = 1;
    for (int32_t i = 1; i < t->n; i++) {
        if (t->token[i].count < min_count) t->token[0].count += t->token[i].count;
        else t->token[kept++] = t->token[i];
    }
    t->n = kept;
    qsort(t->token + 1, (size_t)t->n - 1, sizeof *t->token, tp__token_by_bytes);
    for (; max_words > 0 && t->n > max_words; t->n--) t->token[0].count += t->token[t->n - 1].count;
    qsort(t->token, (size_t)t->n, sizeof *t->token, tp__token_by_bytes);
}

TP_DEF void tp_vocabulary_free(tp_vocabulary *v)
{
    if (!v) return;
    tp_arena_free(&v->mem_);
    memset(v, 0, sizeof *v);
}

static size_t tp__vocabulary_slot(const tp_vocabulary *v, const char *word, size_t size)
{
    size_t s = tp__slot_of(tp_hash(word, size), v->n_slot_);
    for (; v->slot_[s]; s = (s + 1) & (v->n_slot_ - 1)) {
        const char *is = v->word[v->slot_[s] - 1];
        if (strlen(is) == size && memcmp(is, word, size) == 0) break;
    }
    return s;
}

TP_DEF int tp_vocabulary_find(const tp_vocabulary *v, const char *word, size_t size)
{
    TP__REQUIRE(v && (word || size == 0), -1)

    if (v->n < 1 || !v->slot_) return -1;
    const int32_t is = v->slot_[tp__vocabulary_slot(v, word, size)];
    return is ? is - 1 : v->unk;
}

/* Copies the tokens into the vocabulary. A 0 byte would be a character of length 0 to strlen; texts that contain one
 * were refused before. */
static tp_status tp__vocabulary_take(tp_vocabulary *v, const tp__tokens *t, bool words)
{
    v->n_slot_ = 4;
    while (v->n_slot_ < 2 * (size_t)t->n) v->n_slot_ *= 2;
    v->word = (const char **)tp_arena_alloc(&v->mem_, ((size_t)t->n + 1) * sizeof *v->word);
    v->count = (int64_t *)tp_arena_alloc(&v->mem_, ((size_t)t->n + 1) * sizeof *v->count);
    v->slot_ = (int32_t *)tp_arena_alloc(&v->mem_, v->n_slot_ * sizeof *v->slot_);
    if (!v->word || !v->count || !v->slot_) return TP_ERR_NOMEM;
    for (int i = 0; i < t->n; i++) {
        char *word = (char *)tp_arena_alloc(&v->mem_, t->token[i].length + 1);
        if (!word) return TP_ERR_NOMEM;
        memcpy(word, t->token[i].at, t->token[i].length);
        v->word[i] = word;
        v->count[i] = t->token[i].count;
        v->slot_[tp__vocabulary_slot(v, word, t->token[i].length)] = i + 1;
        v->n = i + 1;
        if (words && strcmp(word, "<unk>") == 0) v->unk = i;
    }
    return TP_OK;
}

static tp_status tp__vocabulary_parse(tp_vocabulary *v, const char *text, size_t size, const char *data_name,
                                      bool words, int64_t min_count, int max_words)
{
    tp__tokens t;
    memset(&t, 0, sizeof t);
    const char *p = tp__text_begin(text, size), *token;
    size_t length;
    tp_status st = TP_OK;
    if (size && memchr(text, 0, size))
        st = tp_fail(TP_ERR_FORMAT, "%s is no text: it contains bytes with the value 0", data_name);
    if (st == TP_OK && words && tp__tokens_add(&t, "<unk>", 5) < 0) st = TP_ERR_NOMEM;
    while (st == TP_OK && (token = tp__text_next(&p, text + size, words, &length)) != NULL) {
        const int32_t i = tp__tokens_add(&t, token, length);
        if (i < 0) st = TP_ERR_NOMEM;
        else t.token[i].count++;
    }
    if (st == TP_OK && t.n == (words ? 1 : 0) && size == 0) st = tp_fail(TP_ERR_FORMAT, "%s is empty", data_name);
    if (st == TP_OK && words) tp__tokens_drop_rare(&t, min_count, max_words);
    else if (st == TP_OK && t.n) qsort(t.token, (size_t)t.n, sizeof *t.token, tp__token_by_order);
    tp_vocabulary_free(v);
    v->unk = -1;
    if (st == TP_OK) st = tp__vocabulary_take(v, &t, words);
    if (st != TP_OK) tp_vocabulary_free(v);
    tp_free(t.token);
    tp_free(t.slot);
    return st;
}

static tp_status tp__vocabulary_of_text(tp_vocabulary *v, const char *path, bool words, int64_t min_count,
                                        int max_words)
{
    char *text = NULL;
    size_t size = 0;
    tp_status st = tp_file_read(path, true, 0, &text, &size);
    if (st == TP_OK) st = tp__vocabulary_parse(v, text, size, path, words, min_count, max_words);
    tp_free(text);
    return st;
}

TP_DEF tp_status tp_vocabulary_chars(tp_vocabulary *v, const char *path)
{
    TP__REQUIRE(v && path, TP_ERR_ARG)

    return tp__vocabulary_of_text(v, path, false, 0, 0);
}

TP_DEF tp_status tp_vocabulary_words(tp_vocabulary *v, const char *path, int64_t min_count, int max_words)
{
    TP__REQUIRE(v && path, TP_ERR_ARG)

    if (max_words < 0 || min_count < 0)
        return tp_fail(TP_ERR_ARG, "tp_vocabulary_words: min_count is %lld and max_words %d: they are 0 (all) or more",
                       (long long)min_count, max_words);
    return tp__vocabulary_of_text(v, path, true, min_count, max_words);
}

/* Replaces what v has by the tokens, which may lie in it. */
static tp_status tp__vocabulary_listed(tp_vocabulary *v, tp__tokens *t, tp_status st)
{
    tp_vocabulary made;
    memset(&made, 0, sizeof made);
    made.unk = -1;
    if (st == TP_OK) st = tp__vocabulary_take(&made, t, true);
    if (st != TP_OK) tp_vocabulary_free(&made);
    tp_vocabulary_free(v);
    *v = made;
    tp_free(t->token);
    tp_free(t->slot);
    return st;
}

TP_DEF tp_status tp_vocabulary_from_list(tp_vocabulary *v, const char *const *words, int n)
{
    TP__REQUIRE(v, TP_ERR_ARG)

    tp__tokens t;
    tp_status st = TP_OK;
    memset(&t, 0, sizeof t);
    if (!words || n < 1) st = tp_fail(TP_ERR_ARG, "tp_vocabulary_from_list: there are no words");
    for (int i = 0; i < n && st == TP_OK; i++) {
        if (!words[i] || !*words[i]) {
            st = tp_fail(TP_ERR_ARG, "tp_vocabulary_from_list: word %d is %s", i, words[i] ? "empty" : "NULL");
            break;
        }
        const int32_t at = tp__tokens_add(&t, words[i], strlen(words[i]));
        if (at < 0) st = TP_ERR_NOMEM;
        else if (at != i)
            st =
                tp_fail(TP_ERR_NAME, "tp_vocabulary_from_list: word %d, \"%s\", is word %d, too", i, words[i], (int)at);
    }
    return tp__vocabulary_listed(v, &t, st);
}

TP_DEF tp_status tp_vocabulary_save(const tp_vocabulary *v, const char *path)
{
    TP__REQUIRE(v && path, TP_ERR_ARG)

    if (v->n < 1) return tp_fail(TP_ERR_ARG, "tp_vocabulary_save: %s: the vocabulary is empty", path);
    tp_writer *w;
    tp_status st = tp_writer_open(&w, path);
    if (st != TP_OK) return st;
    for (int i = 0; i < v->n && st == TP_OK; i++) {
        for (const char *c = v->word[i]; *c && st == TP_OK; c++) {
            const char *as = *c == '\\' ? "\\\\" : *c == '\n' ? "\\n" : *c == '\r' ? "\\r" : NULL;
            st = as ? tp_writer_put(w, as, 2) : tp_writer_put(w, c, 1);
        }
        if (st == TP_OK) st = tp_writer_put(w, "\n", 1);
    }
    if (st == TP_OK) return tp_writer_commit(w);
    tp_writer_abort(w);
    return st;
}

/* Decodes the line [p, end) where it lies. Returns its length, 0 if it is no word. */
static size_t tp__vocabulary_line(char *p, const char *end)
{
    char *out = p;
    for (const char *c = p; c < end; c++, out++) {
        *out = *c;
        if (*c != '\\') continue;
        if (++c == end || !strchr("\\nr", *c)) return 0;
        *out = *c == 'n' ? '\n' : *c == 'r' ? '\r' : '\\';
    }
    return (size_t)(out - p);
}

TP_DEF tp_status tp_vocabulary_load(tp_vocabulary *v, const char *path)
{
    TP__REQUIRE(v && path, TP_ERR_ARG)

    tp__tokens t;
    char *text = NULL;
    size_t size = 0;
    memset(&t, 0, sizeof t);
    tp_status st = tp_file_read(path, true, 0, &text, &size);
    if (st == TP_OK && (size == 0 || text[size - 1] != '\n' || memchr(text, 0, size)))
        st = tp_fail(TP_ERR_FORMAT, "%s is no vocabulary, or was cut: it should be lines of text that each have an end",
                     path);
    char *p = text;
    for (int32_t i = 0; st == TP_OK && p < text + size; i++) {
        char *const next = (char *)memchr(p, '\n', (size_t)(text + size - p)) + 1;
        const size_t length = tp__vocabulary_line(p, next - 1 > p && next[-2] == '\r' ? next - 2 : next - 1);
        const int32_t at = length ? tp__tokens_add(&t, p, length) : i;
        if (length == 0)
            st = tp_fail(TP_ERR_FORMAT, "%s: line %d is empty, or a backslash in it is not \\\\, \\n or \\r", path,
                         i + 1);
        else if (at < 0) st = TP_ERR_NOMEM;
        else if (at != i) st = tp_fail(TP_ERR_FORMAT, "%s: line %d is the word of line %d again", path, i + 1, at + 1);
        p = next;
    }
    st = tp__vocabulary_listed(v, &t, st);
    tp_free(text);
    return st;
}

/* -- flows of text ---- >>df text */

typedef struct tp__text_flow {
    tp__order order; /* order.next is the index of the next piece of the text; order.at is not used */
    int32_t *id;
    int64_t n; /* number of ids in the text */
    int64_t sequence, batch;
    bool random;
} tp__text_flow;

/* Computes the ids of a text; *out is tp_malloc'ed. */
static tp_status tp__text_ids(const tp_vocabulary *v, const char *text, size_t size, const char *data_name, bool words,
                              int32_t **out, int64_t *n)
{
    const char *p = tp__text_begin(text, size), *token;
    size_t length, bytes;
    int64_t n_tokens = 0;
    while (tp__text_next(&p, text + size, words, &length)) n_tokens++;
    if (!tp_mul_size((size_t)n_tokens + 1, sizeof **out, &bytes))
        return tp_fail(TP_ERR_NOMEM, "%s is too long", data_name);
    int32_t *id = (int32_t *)tp_malloc(bytes);
    if (!id) return TP_ERR_NOMEM;
    p = tp__text_begin(text, size);
    *n = 0;
    while ((token = tp__text_next(&p, text + size, words, &length)) != NULL) {
        const int is = tp_vocabulary_find(v, token, length);
        if (is < 0) {
            tp__printable name;
            tp_free(id);
            return tp_fail(TP_ERR_NAME, "%s: \"%s\" before byte %zu is not in the vocabulary, and there is no <unk>",
                           data_name, tp__make_printable(&name, token, length), (size_t)(p - text));
        }
        id[(*n)++] = is;
    }
    *out = id;
    return TP_OK;
}

/* "the part [0.9, 1) of x.txt", or the path alone for the whole text. */
static const char *tp__text_part(char text[256], const char *path, double begin, double end)
{
    if (end == 0) end = 1;
    if (begin == 0 && end == 1) return path;
    tp__format(text, 256, "the part [%g, %g) of %s", begin, end, path);
    return text;
}

/* Reads the file, and stores the ids of the part [begin, end) of its text in f, in the given vocabulary. Without one a
 * vocabulary of the whole text is made. */
static tp_status tp__text_read(tp__text_flow *f, const char *path, const tp_vocabulary *vocabulary, bool words,
                               double begin, double end)
{
    tp_vocabulary new_vocabulary;
    if (end == 0) end = 1;
    if (!(begin >= 0 && begin < end && end <= 1))
        return tp_fail(TP_ERR_ARG, "%s: begin %g and end %g of the text: fractions, 0 <= begin < end <= 1", path, begin,
                       end);
    if (vocabulary && vocabulary->n < 1)
        return tp_fail(TP_ERR_ARG,
                       "%s: the vocabulary is empty: make it with tp_vocabulary_%s, or leave .vocabulary out", path,
                       words ? "words" : "chars");
    for (int i = 0; !words && vocabulary && i < vocabulary->n; i++) {
        const char *w = vocabulary->word[i];
        const size_t length = strlen(w);
        tp__printable name;
        if (*w != '<' && tp__utf8_length(w, w + length) != length)
            return tp_fail(
                TP_ERR_ARG,
                "%s is read as characters, but \"%s\" of the vocabulary is a word: tp_vocabulary_chars makes "
                "one of characters",
                path, tp__make_printable(&name, w, length));
    }
    memset(&new_vocabulary, 0, sizeof new_vocabulary);
    char *text = NULL;
    size_t size = 0;
    tp_status st = tp_file_read(path, true, 0, &text, &size);
    if (st == TP_OK && !vocabulary) st = tp__vocabulary_parse(&new_vocabulary, text, size, path, words, 1, 0);
    if (st == TP_OK)
        st = tp__text_ids(vocabulary ? vocabulary : &new_vocabulary, text, size, path, words, &f->id, &f->n);
    if (st == TP_OK) {
        const int64_t from = (int64_t)(begin * (double)f->n), to = (int64_t)(end * (double)f->n);
        f->n = to - from;
        memmove(f->id, f->id + from, (size_t)f->n * sizeof *f->id);
    }
    tp_vocabulary_free(&new_vocabulary);
    tp_free(text);
    return st;
}

static tp_status tp__text_chars_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__text_flow *f = (tp__text_flow *)df->user;
    const int64_t i = tp__order_take(&f->order);
    if (i < 0) return TP_END;
    int64_t start = i * f->sequence;
    if (f->random) {
        uint32_t r[4];
        tp_philox(f->order.key, (uint64_t)i, 0, r);
        start = (int64_t)(((uint64_t)r[0] << 32 | r[1]) % (uint64_t)(f->n - f->sequence));
    }
    const tp_status st = tp_datapoint_resize(dp, 2);
    for (int j = 0; j < 2 && st == TP_OK; j++)
        tp_tensor_view(&dp->c[j], TP_I32, tp_make_shape_n(1, &f->sequence), f->id + start + j);
    return st;
}

static tp_status tp__text_words_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__text_flow *f = (tp__text_flow *)df->user;
    const int64_t i = tp__order_take(&f->order), row = f->n / f->batch, dim[2] = {f->batch, f->sequence};
    if (i < 0) return TP_END;
    tp_status st = tp_datapoint_resize(dp, 2);
    for (int j = 0; j < 2 && st == TP_OK; j++) {
        if ((st = tp_tensor_resize(&dp->c[j], TP_I32, tp_make_shape_n(2, dim))) != TP_OK) break;
        for (int64_t b = 0; b < f->batch; b++)
            memcpy((int32_t *)dp->c[j].data + b * f->sequence, f->id + b * row + i * f->sequence + j,
                   (size_t)f->sequence * sizeof(int32_t));
    }
    return st;
}

static void tp__text_close(tp_dataflow *df) { tp_free(((tp__text_flow *)df->user)->id); }

static tp_dataflow *tp__text_new(const char *name, uint64_t seed, int64_t sequence, int64_t batch)
{
    tp_dataflow *df = tp_df_new(name, sizeof(tp__text_flow), seed);
    if (!df) return NULL;
    tp__text_flow *f = (tp__text_flow *)df->user;
    f->sequence = sequence;
    f->batch = batch;
    df->restart = tp__ordered_restart;
    df->size = tp__ordered_size;
    df->seek = tp__ordered_seek;
    df->close = tp__text_close;
    return df;
}

TP_DEF tp_dataflow *tp_df_text_chars_(const tp_df_text_chars_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    const int64_t sequence = d->sequence_length ? d->sequence_length : 50;
    if (!d->path || sequence < 1 || d->size < 0)
        return tp_df_fail(
            &d->at_, TP_ERR_ARG,
            "tp_df_text_chars: path %s, sequence_length %lld, size %lld: give a path, a positive length, and a size "
            "that is not negative",
            d->path ? d->path : "NULL", (long long)sequence, (long long)d->size);
    tp_dataflow *df = tp__text_new("tp_df_text_chars", d->seed, sequence, 1);
    if (!df) return NULL;
    tp__text_flow *f = (tp__text_flow *)df->user;
    df->next = tp__text_chars_next;
    tp_status st = tp__text_read(f, d->path, d->vocabulary, false, d->begin, d->end);
    const int64_t max_sequences = (f->n - 1) / sequence;
    char part[256];
    const char *which = tp__text_part(part, d->path, d->begin, d->end);
    f->random = tp__tri_is_yes(d->shuffle, true);
    f->order.n = d->size ? d->size : max_sequences;
    if (st == TP_OK && f->n <= sequence)
        st = tp_fail(TP_ERR_FORMAT, "%s has %lld characters, a sequence of %lld needs one more than that", which,
                     (long long)f->n, (long long)sequence);
    if (st == TP_OK && !f->random && f->order.n > max_sequences)
        st = tp_fail(TP_ERR_ARG, "%s has %lld sequences of %lld characters side by side, .size asks for %lld", which,
                     (long long)max_sequences, (long long)sequence, (long long)d->size);
    if (st == TP_OK) return df;
    tp__df_delete(df);
    return tp__df_failed(&d->at_, st);
}

TP_DEF tp_dataflow *tp_df_text_words_(const tp_df_text_words_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    const int64_t sequence = d->sequence_length ? d->sequence_length : 35, batch = d->batch_size ? d->batch_size : 20;
    if (!d->path || sequence < 1 || batch < 1)
        return tp_df_fail(
            &d->at_, TP_ERR_ARG,
            "tp_df_text_words: path %s, sequence_length %lld, batch_size %lld: a path and positive numbers",
            d->path ? d->path : "NULL", (long long)sequence, (long long)batch);
    tp_dataflow *df = tp__text_new("tp_df_text_words", 0, sequence, batch);
    if (!df) return NULL;
    tp__text_flow *f = (tp__text_flow *)df->user;
    df->next = tp__text_words_next;
    tp_status st = tp__text_read(f, d->path, d->vocabulary, true, d->begin, d->end);
    f->order.n = (f->n / batch - 1) / sequence;
    char part[256];
    if (st == TP_OK && f->order.n < 1)
        st = tp_fail(TP_ERR_FORMAT, "%s has %lld words: a batch of %lld sequences of %lld needs at least %lld",
                     tp__text_part(part, d->path, d->begin, d->end), (long long)f->n, (long long)batch,
                     (long long)sequence, (long long)(batch * (sequence + 1)));
    if (st == TP_OK) return df;
    tp__df_delete(df);
    return tp__df_failed(&d->at_, st);
}

TP__COLD_END

/* -- stb_image ---- >>stb
 * Compiled as static functions, for JPEG, PNG and BMP in memory. It allocates from a block that is kept between images, and from
 * tp_malloc when the block is full; the memory for one image is limited by its size in pixels. */

struct tp__jpeg;

typedef struct tp__stb {
    char *block;
    size_t cap, used, need, limit; /* bytes; need: that the image needed; limit: largest allocation allowed */
    bool nomem, too_large;
    struct tp__jpeg *jpeg; /* the decoder of libjpeg; NULL: not needed yet */
} tp__stb;

#if !defined(TP_NO_STB_IMAGE) && !defined(STBI_INCLUDE_STB_IMAGE_H) && !defined(TP_STB_IMAGE) && defined(__has_include)
#if __has_include(<stb/stb_image.h>)
#define TP_STB_IMAGE <stb/stb_image.h>
#endif
#endif
#if defined(TP_NO_STB_IMAGE)
#undef TP_STB_IMAGE
#elif defined(STBI_INCLUDE_STB_IMAGE_H)
#define TP__STB
#elif defined(TP_STB_IMAGE)
#define TP__STB
#define TP__STB_OURS

static TP__THREAD_LOCAL tp__stb *tp__stb_now; /* the memory that stb_image uses while an image is decoded */

static void *tp__stb_malloc(size_t size)
{
    tp__stb *s = tp__stb_now;
    const size_t bytes = (size + 63) & ~(size_t)63;
    if (bytes < size || bytes > s->limit) {
        s->too_large = true;
        return NULL;
    }
    s->need += bytes;
    void *p;
    if (s->cap - s->used >= bytes) {
        p = s->block + s->used;
        s->used += bytes;
    } else {
        p = tp_malloc(size);
    }
    if (p) memset(p, 0, size); /* zeroed, because parts of a damaged JPEG are never written */
    else s->nomem = true;
    return p;
}
static void tp__stb_free(void *p)
{
    const tp__stb *s = tp__stb_now;
    const uintptr_t at = (uintptr_t)p, block = (uintptr_t)s->block;
    if (!s->block || at < block || at >= block + s->cap) tp_free(p);
}
static void *tp__stb_realloc(void *p, size_t before, size_t size)
{
    void *q = tp__stb_malloc(size);
    if (!q || !p) return q;
    memcpy(q, p, before < size ? before : size);
    tp__stb_free(p);
    return q;
}

#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#define STBI_NO_STDIO
#define STBI_NO_HDR
#define STBI_NO_LINEAR
#define STBI_NO_GIF
#define STBI_NO_PIC
#define STBI_NO_PNM
#define STBI_NO_PSD
#define STBI_NO_TGA
#define STBI_ASSERT(x)                         ((void)0) /* damaged files must give an error, not a failed assertion */
#define STBI_MALLOC(size_)                     tp__stb_malloc(size_)
#define STBI_REALLOC_SIZED(p_, before_, size_) tp__stb_realloc(p_, before_, size_)
#define STBI_FREE(p_)                          tp__stb_free(p_)
#ifdef TP_NO_THREADS
#define STBI_NO_THREAD_LOCALS
#endif
#ifdef __GNUC__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wcast-qual"
#pragma GCC diagnostic ignored "-Wcast-align"
#pragma GCC diagnostic ignored "-Wdouble-promotion"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wimplicit-fallthrough"
#pragma GCC diagnostic ignored "-Wpedantic"
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" /* gcc gives false warnings with -Ofast */
#endif
#endif
/* The stb_image.h of 2022 has a bug: it declares the first of these names, but defines the second. */
#define stbi_set_unpremultiply_on_load_thread stbi__unpremultiply_on_load_thread
#include TP_STB_IMAGE
#ifdef TP_NO_THREADS /* stb_image still declares these functions, but does not define them */
static void stbi_set_unpremultiply_on_load_thread(int flag) { (void)flag; }
static void stbi_convert_iphone_png_to_rgb_thread(int flag) { (void)flag; }
static void stbi_set_flip_vertically_on_load_thread(int flag) { (void)flag; }
#endif
#undef stbi_set_unpremultiply_on_load_thread
#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif
#undef STB_IMAGE_IMPLEMENTATION /* for a program that includes stb_image.h after tp in one translation unit */
#undef STB_IMAGE_STATIC
#endif
#ifdef TP_JPEG
#include <setjmp.h>
#include <stdio.h> /* jpeglib.h needs FILE */
#include <jpeglib.h>
#include <jerror.h>
#endif

TP__COLD_BEGIN

/* -- the headers of image files ---- >>image header */

#define TP__MAX_PIXELS ((int64_t)64 << 20)

typedef struct tp__image_header {
    const char *kind; /* the format, "jpeg", "png" or "bmp"; NULL: another one */
    uint64_t w, h;
    const char *damage; /* what is damaged; NULL: nothing that is visible without decoding */
    /* A palette with fewer entries than the pixel values can index: stb_image would use uninitialised stack memory. `pad` zero
     * bytes (black) are inserted at pad_at, and the header's number at patch_at is replaced by patch. */
    size_t pad, pad_at, patch_at;
    uint8_t patch[4];
    int orientation; /* that EXIF data note, 1 (upright) to 8; 0: there are none */
} tp__image_header;

/* A segment of Huffman tables: for each a byte of class and number, 16 counts of codes of each length, and a byte for each code. A table has
 * at most 256 codes; the stb_image of 2022 writes past its arrays if there are more. */
static bool tp__huffman_tables_fit(const uint8_t *p, size_t n)
{
    while (n >= 17) {
        size_t codes = 0;
        for (int i = 1; i <= 16; i++) codes += p[i];
        if (codes > 256 || codes > n - 17) return false;
        p += 17 + codes;
        n -= 17 + codes;
    }
    return n == 0;
}

/* EXIF data are a TIFF file: "II*\0" if the integers are little-endian, "MM\0*" if they are big-endian, the offset of a table, and in
 * the table the number of entries and the entries, 12 bytes each. Returns the orientation; 1 if there is none or no valid one. */
static int tp__exif_orientation(const uint8_t *p, size_t n)
{
    const bool little = n >= 8 && memcmp(p, "II*\0", 4) == 0;
    if (!little && (n < 8 || memcmp(p, "MM\0*", 4) != 0)) return 1;
    const size_t table = little ? tp__le32(p + 4) : tp__be32(p + 4);
    if (table > n - 2) return 1;
    const size_t entries = little ? tp__le16(p + table) : tp__be16(p + table);
    for (size_t i = 0; i < entries && 12 * (i + 1) <= n - 2 - table; i++) {
        const uint8_t *entry = p + table + 2 + 12 * i;
        if ((little ? tp__le16(entry) : tp__be16(entry)) != 0x0112) continue;
        const uint32_t orientation = little ? tp__le16(entry + 8) : tp__be16(entry + 8);
        return orientation >= 1 && orientation <= 8 ? (int)orientation : 1;
    }
    return 1;
}

/* A JPEG file consists of segments: ff, a kind, a length, contents; after "start of scan" the coded image, in which ff
 * is followed by 0 or by a restart marker. The file ends with an end marker. */
static void tp__look_at_jpeg(const uint8_t *p, size_t n, tp__image_header *look)
{
    look->kind = "JPEG";
    look->damage = "it is cut short";
    for (size_t at = 2; at < n;) {
        const uint8_t *ff = (const uint8_t *)memchr(p + at, 0xff, n - at);
        if (!ff) return;
        at = (size_t)(ff - p);
        while (at < n && p[at] == 0xff) at++;
        if (at == n) return;
        const int kind = p[at++];
        if (kind == 0 || kind == 1 || (kind >= 0xd0 && kind <= 0xd8)) continue;
        if (kind == 0xd9) {
            look->damage = NULL;
            return;
        }
        if (n - at < 2) return;
        const size_t length = tp__be16(p + at);
        if (length < 2 || length > n - at) return;
        if (kind >= 0xc0 && kind <= 0xcf && kind != 0xc4 && kind != 0xc8 && kind != 0xcc && length >= 7 && !look->w) {
            look->h = tp__be16(p + at + 3);
            look->w = tp__be16(p + at + 5);
        }
        if (kind == 0xe1 && length >= 8 && memcmp(p + at + 2, "Exif\0", 6) == 0 && !look->orientation)
            look->orientation = tp__exif_orientation(p + at + 8, length - 8);
        if (kind == 0xc4 && !tp__huffman_tables_fit(p + at + 2, length - 2)) {
            look->damage = "a Huffman table has too many codes, or its segment another length";
            return;
        }
        at += length;
    }
}

/* A PNG file has 8 bytes, then chunks: length, kind, data, CRC. */
static void tp__look_at_png(const uint8_t *p, size_t n, tp__image_header *look)
{
    size_t palette = 0; /* bytes that a complete palette needs, 3 for each colour */
    look->kind = "PNG";
    look->damage = "it is cut short";
    for (size_t at = 8; n - at >= 12;) {
        const size_t length = tp__be32(p + at);
        if (length > n - at - 12) return;
        if (tp_crc32(0, p + at + 4, length + 4) != tp__be32(p + at + 8 + length)) {
            look->damage = "a checksum does not match";
            return;
        }
        if (memcmp(p + at + 4, "IHDR", 4) == 0 && length >= 10 && !look->w) {
            look->w = tp__be32(p + at + 8);
            look->h = tp__be32(p + at + 12);
            if (p[at + 17] == 3 && p[at + 16] <= 8) palette = (size_t)3 << p[at + 16];
        }
        if (memcmp(p + at + 4, "eXIf", 4) == 0) look->orientation = tp__exif_orientation(p + at + 8, length);
        if (memcmp(p + at + 4, "PLTE", 4) == 0 && length < palette) {
            look->pad = palette - length;
            look->pad_at = at + 8 + length;
            look->patch_at = at;
            for (int i = 0; i < 4; i++) look->patch[i] = (uint8_t)(palette >> (24 - 8 * i));
            palette = 0;
        }
        if (memcmp(p + at + 4, "IEND", 4) == 0) {
            look->damage = NULL;
            return;
        }
        at += length + 12;
    }
}

static void tp__look_at_bmp(const uint8_t *p, size_t n, tp__image_header *look)
{
    look->kind = "BMP";
    look->damage = "it is cut short";
    if (n < 26) return;
    const bool old = tp__le32(p + 14) == 12;
    const uint32_t h = tp__le32(p + 22);
    look->w = old ? tp__le16(p + 18) : tp__le32(p + 18);
    look->h = old ? tp__le16(p + 20) : h >> 31 ? 0u - h : h; /* a negative height means that the top row comes first */
    const uint64_t bits = old ? tp__le16(p + 24) : n < 30 ? 0 : tp__le16(p + 28), offset = tp__le32(p + 10);
    const uint64_t row = (look->w * bits + 31) / 32 * 4; /* rows are padded to multiples of four bytes */
    if (offset > n || (look->h && row > (n - offset) / look->h)) return;
    look->damage = NULL;
    const uint64_t head = 14 + (uint64_t)tp__le32(p + 14), entry = old ? 3 : 4;
    if (offset < head) look->damage = "its pixels begin inside its header";
    /* stb_image computes the number of palette entries from the end of the header; in the old format, from 12 bytes later */
    const uint64_t whole = head + (old ? 12 : 0) + (entry << (bits & 15));
    if (look->damage || bits < 1 || bits > 8 || offset >= whole) return;
    look->pad = (size_t)(whole - offset);
    look->pad_at = (size_t)offset;
    look->patch_at = 10;
    tp__put_le(look->patch, offset + look->pad, 4);
}

static tp__image_header tp__look_at_image(const uint8_t *p, size_t n)
{
    tp__image_header look;
    memset(&look, 0, sizeof look);
    if (n >= 3 && p[0] == 0xff && p[1] == 0xd8 && p[2] == 0xff) tp__look_at_jpeg(p, n, &look);
    else if (n >= 8 && memcmp(p, "\x89PNG\r\n\x1a\n", 8) == 0) tp__look_at_png(p, n, &look);
    else if (n >= 2 && p[0] == 'B' && p[1] == 'M') tp__look_at_bmp(p, n, &look);
    return look;
}

static tp_status tp__image_check(const tp__image_header *look, size_t size, const char *data_name, int64_t max_pixels)
{
    if (size == 0) return tp_fail(TP_ERR_FORMAT, "%s is empty", data_name);
    if (!look->kind)
        return tp_fail(TP_ERR_FORMAT, "%s is no image: it begins as neither JPEG nor PNG nor BMP does", data_name);
    if (look->w && look->h > (uint64_t)max_pixels / look->w)
        return tp_fail(TP_ERR_FORMAT, "%s is a %s of %llu x %llu pixels, more than the %lld allowed (.max_pixels)",
                       data_name, look->kind, (unsigned long long)look->w, (unsigned long long)look->h,
                       (long long)max_pixels);
    if (look->damage) return tp_fail(TP_ERR_FORMAT, "%s is a damaged %s: %s", data_name, look->kind, look->damage);
    if (!look->w || !look->h)
        return tp_fail(TP_ERR_FORMAT, "%s is a damaged %s: its header has no size", data_name, look->kind);
    return TP_OK;
}

#ifdef TP__STB
/* Called after an image was decoded. If `keep`, enlarges the decoder's block of memory so that a similar image fits into it. */
static void tp__stb_resize_block(tp__stb *s, bool keep)
{
    const size_t needed = s->need;
    s->used = s->need = 0;
    if (!keep || needed <= s->cap || needed > (size_t)256 << 20) return;
    char *grown = (char *)tp_malloc(needed);
    if (!grown) return; /* on failure the block stays as it is */
    tp_free(s->block);
    s->block = grown;
    s->cap = needed;
}

/* For a JPEG that is damaged after its header, stb_image may return the part that it decoded, without an error. Its failure reason
 * still shows the damage: PNG is tried first, so a good JPEG leaves the reason "bad png sig". */
static bool tp__stb_is_damaged(const tp__image_header *look)
{
#ifdef TP__STB_OURS
    const char *reason = look->kind[0] == 'J' ? stbi_failure_reason() : NULL;
    return reason && strcmp(reason, "bad png sig") != 0;
#else
    return (void)look, false; /* another copy of stb_image may lack PNG or the failure reasons */
#endif
}

static tp_status tp__image_unpack(tp__stb *s, const uint8_t *data, size_t size, const tp__image_header *look,
                                  const char *data_name, int channels, tp_tensor *image)
{
    int w = 0, h = 0, file_channels = 0;
    const uint64_t max_bytes = (look->w + 64) * (look->h + 64) * 16 + ((uint64_t)1 << 20) + size;
    s->limit = max_bytes < SIZE_MAX / 2 ? (size_t)max_bytes : SIZE_MAX / 2;
    s->nomem = s->too_large = false;
#ifdef TP__STB_OURS
    tp__stb_now = s;
    if (look->pad) {
        uint8_t *padded = (uint8_t *)tp__stb_malloc(size + look->pad); /* the memory is filled with zeros */
        if (!padded) return TP_ERR_NOMEM;
        memcpy(padded, data, look->pad_at);
        memcpy(padded + look->pad_at + look->pad, data + look->pad_at, size - look->pad_at);
        memcpy(padded + look->patch_at, look->patch, 4);
        const tp__image_header whole = {look->kind, look->w, look->h, NULL, 0, 0, 0, {0, 0, 0, 0}, 0};
        const tp_status st = tp__image_unpack(s, padded, size + look->pad, &whole, data_name, channels, image);
        tp__stb_now = s;
        tp__stb_free(padded);
        tp__stb_now = NULL;
        return st;
    }
#endif
    uint8_t *pixels = stbi_load_from_memory(data, (int)size, &w, &h, &file_channels, channels);
    tp_status st = TP_OK;
    if (!pixels && s->nomem) st = TP_ERR_NOMEM;
    else if (!pixels)
        st = tp_fail(TP_ERR_FORMAT, "%s is a damaged %s: %s", data_name, look->kind,
                     s->too_large ? "it unpacks to more than its pixels" : stbi_failure_reason());
    else if (w < 1 || h < 1 || (uint64_t)w * (uint64_t)h > look->w * look->h)
        st = tp_fail(TP_ERR_FORMAT, "%s is a damaged %s: it has %d x %d pixels, its header says %llu x %llu", data_name,
                     look->kind, w, h, (unsigned long long)look->w, (unsigned long long)look->h);
    else if (tp__stb_is_damaged(look))
        st = tp_fail(TP_ERR_FORMAT, "%s is a damaged JPEG: %s", data_name, stbi_failure_reason());
    const int64_t dim[3] = {h, w, channels};
    if (st == TP_OK) st = tp_tensor_resize(image, TP_U8, tp_make_shape_n(3, dim));
    if (st == TP_OK) memcpy(image->data, pixels, tp_tensor_bytes(image));
    if (pixels) stbi_image_free(pixels);
#ifdef TP__STB_OURS
    tp__stb_now = NULL;
#endif
    return st;
}
#endif

/* -- libjpeg ---- >>jpeg
 * Its decoder is made once and reused. Errors leave it by longjmp to tp__jpeg_unpack, in which nothing else must be freed. */

#ifdef TP_JPEG
enum { TP__JPEG_ROWS = 4, TP__JPEG_SHORT = 1024 }; /* rows that are read at once; bytes of a row that is short */
typedef struct tp__jpeg {
    struct jpeg_decompress_struct c;
    struct jpeg_error_mgr error;
    struct jpeg_progress_mgr progress;
    jmp_buf failed;
    bool nomem;
    char reason[JMSG_LENGTH_MAX];
    uint8_t rows[TP__JPEG_ROWS * TP__JPEG_SHORT + 64];
} tp__jpeg;

static void tp__jpeg_exit(j_common_ptr c)
{
    tp__jpeg *j = (tp__jpeg *)c->client_data;
    j->nomem = c->err->msg_code == JERR_OUT_OF_MEMORY;
    c->err->format_message(c, j->reason);
    longjmp(j->failed, 1);
}

/* libjpeg fills in the missing parts of a damaged image and warns; here such an image is an error. Its other warnings concern
 * only headers. */
static void tp__jpeg_warn(j_common_ptr c, int level)
{
    const int code = c->err->msg_code;
    if (level < 0 && (code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE || code == JWRN_ARITH_BAD_CODE ||
                      code == JWRN_JPEG_EOF || code == JWRN_MUST_RESYNC))
        tp__jpeg_exit(c);
}
static void tp__jpeg_print(j_common_ptr c) { (void)c; }

/* A progressive JPEG of a few bytes may have thousands of scans, each of which passes through the whole image. */
static void tp__jpeg_scan(j_common_ptr c)
{
    tp__jpeg *j = (tp__jpeg *)c->client_data;
    if (j->c.input_scan_number <= 500) return;
    j->nomem = false;
    snprintf(j->reason, sizeof j->reason, "it has more than 500 scans");
    longjmp(j->failed, 1);
}

static tp_status tp__jpeg_begin(tp__jpeg *j, const uint8_t *data, size_t size)
{
    j->c.err = jpeg_std_error(&j->error);
    j->c.client_data = j;
    j->error.error_exit = tp__jpeg_exit;
    j->error.emit_message = tp__jpeg_warn;
    j->error.output_message = tp__jpeg_print;
    j->progress.progress_monitor = tp__jpeg_scan;
    if (!j->c.mem) jpeg_create_decompress(&j->c);
    j->c.progress = &j->progress;
    jpeg_mem_src(&j->c, data, (unsigned long)size);
    jpeg_read_header(&j->c, TRUE);
    return TP_OK;
}

/* Converts a row of CMYK to RGB or grey, as stb_image does. Adobe's programs store CMYK inverted. */
static void tp__jpeg_row_of_cmyk(const tp__jpeg *j, const uint8_t *cmyk, int channels, uint8_t *out)
{
    const int flip = j->c.saw_Adobe_marker ? 0 : 255;
    for (JDIMENSION x = 0; x < j->c.output_width; x++, cmyk += 4, out += channels) {
        int rgb[3];
        for (int i = 0; i < 3; i++) {
            const int t = (cmyk[i] ^ flip) * (cmyk[3] ^ flip) + 128; /* the product / 255, rounded */
            rgb[i] = (t + (t >> 8)) >> 8;
        }
        if (channels == 1) out[0] = (uint8_t)((77 * rgb[0] + 150 * rgb[1] + 29 * rgb[2]) >> 8);
        else
            for (int i = 0; i < 3; i++) out[i] = (uint8_t)rgb[i];
    }
}

/* libjpeg-turbo writes rows that begin at a multiple of 32 around the cache, which takes a third of the time of a small image.
 * So short rows go through j->rows, at other addresses. */
static void tp__jpeg_rows(tp__jpeg *j, int channels, uint8_t *out)
{
    JSAMPROW row[TP__JPEG_ROWS];
    const size_t step = (size_t)j->c.output_width * (size_t)channels;
    const bool cmyk = j->c.out_color_space == JCS_CMYK, is_short = step <= TP__JPEG_SHORT;
    JSAMPARRAY one = cmyk ? j->c.mem->alloc_sarray((j_common_ptr)&j->c, JPOOL_IMAGE, j->c.output_width * 4, 1) : NULL;
    uint8_t *const uneven = j->rows + (48 - (uintptr_t)j->rows % 32);
    while (j->c.output_scanline < j->c.output_height) {
        uint8_t *at = out + j->c.output_scanline * step;
        if (one) {
            if (jpeg_read_scanlines(&j->c, one, 1)) tp__jpeg_row_of_cmyk(j, one[0], channels, at);
            continue;
        }
        const JDIMENSION left = j->c.output_height - j->c.output_scanline;
        const JDIMENSION n = left < TP__JPEG_ROWS ? left : (JDIMENSION)TP__JPEG_ROWS;
        for (JDIMENSION i = 0; i < n; i++) row[i] = is_short ? uneven + i * TP__JPEG_SHORT : at + i * step;
        const JDIMENSION n_read = jpeg_read_scanlines(&j->c, row, n);
        for (JDIMENSION i = 0; i < n_read && is_short; i++) memcpy(at + i * step, row[i], step);
    }
}

static tp_status tp__jpeg_unpack(tp__jpeg *j, const uint8_t *data, size_t size, const tp__image_header *look,
                                 const char *data_name, int channels, tp_tensor *image)
{
    if (setjmp(j->failed))
        return j->nomem ? tp_fail(TP_ERR_NOMEM, "%s: out of memory in libjpeg", data_name)
                        : tp_fail(TP_ERR_FORMAT, "%s is a damaged JPEG: %s", data_name, j->reason);
    tp_status st = tp__jpeg_begin(j, data, size);
    if (j->c.image_width != look->w || j->c.image_height != look->h)
        return tp_fail(TP_ERR_FORMAT, "%s is a damaged JPEG: it has %u x %u pixels, its header says %llu x %llu",
                       data_name, (unsigned)j->c.image_width, (unsigned)j->c.image_height, (unsigned long long)look->w,
                       (unsigned long long)look->h);
    const bool cmyk = j->c.jpeg_color_space == JCS_CMYK || j->c.jpeg_color_space == JCS_YCCK;
    j->c.out_color_space = cmyk ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    const int64_t dim[3] = {(int64_t)look->h, (int64_t)look->w, channels};
    st = tp_tensor_resize(image, TP_U8, tp_make_shape_n(3, dim));
    if (st != TP_OK) return st;
    jpeg_start_decompress(&j->c);
    tp__jpeg_rows(j, channels, (uint8_t *)image->data);
    jpeg_finish_decompress(&j->c);
    return TP_OK;
}

static tp_status tp__jpeg_decode(tp__stb *s, const uint8_t *data, size_t size, const tp__image_header *look,
                                 const char *data_name, int channels, tp_tensor *image)
{
    if (!s->jpeg && !(s->jpeg = (tp__jpeg *)tp_calloc(1, sizeof *s->jpeg))) return TP_ERR_NOMEM;
    const tp_status st = tp__jpeg_unpack(s->jpeg, data, size, look, data_name, channels, image);
    if (st != TP_OK && s->jpeg->c.mem) jpeg_abort_decompress(&s->jpeg->c);
    return st;
}
#endif

static void tp__stb_free_all(tp__stb *s)
{
    tp_free(s->block);
#ifdef TP_JPEG
    if (s->jpeg) jpeg_destroy_decompress(&s->jpeg->c);
    tp_free(s->jpeg);
#endif
}

/* Turns an image upright: orientations from 5 on exchange rows and columns, then columns, rows or both are reversed. */
TP__UNUSED static tp_status tp__image_turn(int orientation, tp_tensor *image)
{
    if (orientation <= 1) return TP_OK;
    const int64_t h = image->shape.dim[0], w = image->shape.dim[1], c = image->shape.dim[2];
    const size_t bytes = tp_tensor_bytes(image);
    const bool exchange = orientation >= 5, reverse_columns = orientation & 2, reverse_rows = (orientation - 1) & 2;
    const int64_t dim[3] = {exchange ? w : h, exchange ? h : w, c};
    const int64_t row = exchange ? c : w * c, column = exchange ? w * c : c; /* steps in the image as it is stored */
    uint8_t *stored = (uint8_t *)tp_malloc(bytes);
    if (!stored) return TP_ERR_NOMEM;
    memcpy(stored, image->data, bytes);
    const tp_status st = tp_tensor_resize(image, TP_U8, tp_make_shape_n(3, dim));
    uint8_t *to = (uint8_t *)image->data;
    for (int64_t y = 0; y < dim[0] && st == TP_OK; y++) {
        const uint8_t *from = stored + (reverse_rows ? dim[0] - 1 - y : y) * row;
        for (int64_t x = 0; x < dim[1]; x++, to += c)
            memcpy(to, from + (reverse_columns ? dim[1] - 1 - x : x) * column, (size_t)c);
    }
    tp_free(stored);
    return st;
}

/* Decodes an image in memory. s keeps the decoder's memory for the next image; if s is NULL, the memory is freed. */
static tp_status tp__image_decode(tp__stb *s, const void *data, size_t size, const char *data_name, int channels,
                                  int64_t max_pixels, tp_tensor *image)
{
    if (channels != 1 && channels != 3)
        return tp_fail(TP_ERR_ARG, "%s: an image with %d channels was asked for: 3 (RGB) or 1 (grey)", data_name,
                       channels);
    const tp__image_header look = tp__look_at_image((const uint8_t *)data, size);
    const tp_status st = tp__image_check(&look, size, data_name, max_pixels);
    if (st != TP_OK) return st;
    if (size > INT_MAX)
        return tp_fail(TP_ERR_FORMAT, "%s has %zu bytes, more than an image file may have", data_name, size);
#if defined(TP__STB) || defined(TP_JPEG)
    tp__stb own_memory;
    memset(&own_memory, 0, sizeof own_memory);
    tp__stb *decoder = s ? s : &own_memory;
#endif
#ifdef TP_JPEG
    if (look.kind[0] == 'J') {
        tp_status done = tp__jpeg_decode(decoder, (const uint8_t *)data, size, &look, data_name, channels, image);
        if (done == TP_OK) done = tp__image_turn(look.orientation, image);
        if (!s) tp__stb_free_all(&own_memory);
        return done;
    }
#endif
#ifdef TP__STB
    tp_status done = tp__image_unpack(decoder, (const uint8_t *)data, size, &look, data_name, channels, image);
    if (done == TP_OK) done = tp__image_turn(look.orientation, image);
    tp__stb_resize_block(decoder, s != NULL && done == TP_OK); /* resizing may change the last error */
    return done;
#else
    (void)s, (void)image;
    return tp_fail(
        TP_ERR_UNSUPPORTED,
        "%s is a %s, but this program was built without stb_image.h: install it (Debian: libstb-dev) or define "
        "TP_STB_IMAGE as its path",
        data_name, look.kind);
#endif
}

TP_DEF tp_status tp_image_decode(const void *data, size_t size, int channels, tp_tensor *image)
{
    TP__REQUIRE((data || size == 0) && image, TP_ERR_ARG)

    return tp__image_decode(NULL, data, size, "the image", channels, TP__MAX_PIXELS, image);
}

/* -- PNG: 8 bits per channel, channels 1 (grey), 3 (RGB) or 4 (RGBA); rows are deflated without a filter (filter 0) */

#ifndef TP__PNG_CHUNK
#define TP__PNG_CHUNK 0x7fffffff /* bytes of a chunk at most; longer data have several */
#endif
static void tp__png_chunk(tp_buf *out, const char *type, const void *data, size_t n)
{
    unsigned char w[4];
    const uint32_t size = (uint32_t)n;
    for (int i = 0; i < 4; i++) w[i] = (unsigned char)(size >> (24 - 8 * i));
    tp_buf_put(out, w, 4);
    tp_buf_put(out, type, 4);
    if (n) tp_buf_put(out, data, n);
    uint32_t crc = tp_crc32(0, type, 4);
    if (n) crc = tp_crc32(crc, data, n);
    for (int i = 0; i < 4; i++) w[i] = (unsigned char)(crc >> (24 - 8 * i));
    tp_buf_put(out, w, 4);
}

static void tp__png(tp_buf *out, const unsigned char *pixels, int64_t height, int64_t width, int64_t channels)
{
    static const unsigned char signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    unsigned char head[13] = {0};
    tp_buf raw, zlib;
    memset(&raw, 0, sizeof raw);
    memset(&zlib, 0, sizeof zlib);
    for (int i = 0; i < 4; i++) {
        head[i] = (unsigned char)((uint64_t)width >> (24 - 8 * i));
        head[4 + i] = (unsigned char)((uint64_t)height >> (24 - 8 * i));
    }
    head[8] = 8;
    head[9] = channels == 4 ? 6 : channels == 3 ? 2 : 0;
    for (int64_t y = 0; y < height; y++) {
        tp_buf_put(&raw, "", 1);
        tp_buf_put(&raw, pixels + y * width * channels, (size_t)(width * channels));
    }
    tp_buf_put(&zlib, "\x78\x01", 2);
    if (raw.failed || tp_deflate(raw.data, raw.len, &zlib) != TP_OK) zlib.failed = true;
    const uint32_t adler = tp__adler32(raw.data, raw.len);
    for (int i = 0; i < 4; i++) {
        const unsigned char c = (unsigned char)(adler >> (24 - 8 * i));
        tp_buf_put(&zlib, &c, 1);
    }
    tp_buf_put(out, signature, 8);
    tp__png_chunk(out, "IHDR", head, 13);
    if (zlib.failed) out->failed = true;
    for (size_t at = 0, n; at < zlib.len && !out->failed; at += n) {
        n = zlib.len - at < TP__PNG_CHUNK ? zlib.len - at : TP__PNG_CHUNK;
        tp__png_chunk(out, "IDAT", zlib.data + at, n);
    }
    tp__png_chunk(out, "IEND", NULL, 0);
    tp_buf_free(&raw);
    tp_buf_free(&zlib);
}

static tp_status tp__png_file(const char *path, const unsigned char *pixels, int64_t height, int64_t width,
                              int64_t channels)
{
    tp_buf png;
    tp_writer *w = NULL;
    memset(&png, 0, sizeof png);
    tp__png(&png, pixels, height, width, channels);
    tp_status st = png.failed ? tp_fail(TP_ERR_NOMEM, "out of memory for '%s'", path) : tp_writer_open(&w, path);
    if (st == TP_OK) st = tp_writer_put(w, png.data, png.len);
    if (st == TP_OK) st = tp_writer_commit(w);
    else tp_writer_abort(w);
    tp_buf_free(&png);
    return st;
}

TP_DEF tp_status tp_save_png(const char *path, const tp_tensor *image)
{
    TP__REQUIRE(path && image, TP_ERR_ARG)

    const tp_shape *s = &image->shape;
    const int64_t channels = s->ndim == 3 ? s->dim[2] : 1;
    char text[TP_SHAPE_TEXT];
    if ((s->ndim != 2 && s->ndim != 3) || (channels != 1 && channels != 3 && channels != 4) || s->dim[0] < 1 ||
        s->dim[1] < 1)
        return tp_fail(TP_ERR_SHAPE,
                       "tp_save_png: the image is %s: it needs to be (H,W), or (H,W,C) with C of 1, 3 or 4",
                       tp_shape_text(s, text));
    if (s->dim[0] > INT32_MAX || s->dim[1] > INT32_MAX)
        return tp_fail(TP_ERR_SHAPE, "tp_save_png: the image is %s: a side of a PNG has at most 2147483647 pixels",
                       tp_shape_text(s, text));
    if (!image->data || image->device)
        return tp_fail(TP_ERR_ARG, "tp_save_png: the image has %s",
                       image->data ? "its values on a device: tp_tensor_copy it first" : "no values");
    const int64_t n = tp_tensor_size(image);
    unsigned char *pixels = (unsigned char *)tp_malloc((size_t)n);
    if (!pixels) return TP_ERR_NOMEM;
    double largest = 0;
    for (int64_t i = 0; i < n; i += TP__BLOCK) {
        double v[TP__BLOCK];
        const int m = tp__tensor_doubles(image, i, v);
        for (int k = 0; k < m; k++) {
            if (v[k] > largest) largest = v[k];
            pixels[i + k] = (unsigned char)(v[k] >= 255 ? 255 : v[k] > 0 ? v[k] : 0);
        }
    }
    if (largest > 0 && largest <= 1 && tp_dtype_is_float(image->dtype))
        tp_log(TP_LOG_WARN, "tp_save_png: %s is black, because no value is above 1: white is 255", path);
    const tp_status st = tp__png_file(path, pixels, s->dim[0], s->dim[1], channels);
    tp_free(pixels);
    return st;
}

/* Reads the bytes of a file into b, whose memory is reused. Only regular files are read: reading a pipe would block. */
static tp_status tp__file_into(const char *path, uint64_t limit, tp_buf *b)
{
    tp__os_info is;
    const int fd = tp__os_open(path, TP__OS_READ_NOW);
    if (fd < 0) return tp_fail(TP_ERR_IO, "%s cannot be opened: %s", path, tp__os_error());
    tp_status st = TP_OK;
    int64_t got = 0;
    if (tp__os_fstat(fd, &is) != 0) st = tp_fail(TP_ERR_IO, "%s cannot be read: %s", path, tp__os_error());
    else if (is.kind != TP__OS_FILE) st = tp_fail(TP_ERR_IO, "%s is not a file", path);
    else if (is.size > limit)
        st = tp_fail(TP_ERR_FORMAT, "%s has %llu bytes, more than the %llu allowed for .max_pixels", path,
                     (unsigned long long)is.size, (unsigned long long)limit);
    else if (!tp__bytes_reserve(b, (size_t)is.size + 1)) st = TP_ERR_NOMEM;
    else if ((got = tp__os_read(fd, b->data, (size_t)is.size)) < 0)
        st = tp_fail(TP_ERR_IO, "%s cannot be read: %s", path, tp__os_error());
    tp__os_close(fd);
    b->len = got > 0 ? (size_t)got : 0;
    return st;
}

/* Reads and decodes a file. channels 0: only reads it and looks at its header. */
static tp_status tp__image_read(tp__stb *s, const char *path, int channels, int64_t max_pixels, tp_buf *file,
                                tp_tensor *image)
{
    const uint64_t limit =
        (uint64_t)max_pixels > (UINT64_MAX >> 4) ? UINT64_MAX : (uint64_t)max_pixels * 8 + (1u << 20);
    const tp_status st = tp__file_into(path, limit < SIZE_MAX / 2 ? limit : SIZE_MAX / 2, file);
    if (st != TP_OK) return st;
    if (channels) return tp__image_decode(s, file->data, file->len, path, channels, max_pixels, image);
    const tp__image_header look = tp__look_at_image((const uint8_t *)file->data, file->len);
    return tp__image_check(&look, file->len, path, max_pixels);
}

/* Whether TP_SKIP skips a failure: true for errors of the file, false for errors of the program. */
static bool tp__image_skips(tp_status st) { return st == TP_ERR_IO || st == TP_ERR_FORMAT; }

/* tp_map_image, and without `decode` tp_map_image_file. */
static tp_status tp__map_image(const char *name, const tp_datapoint *in, tp_datapoint *out, tp_map_call *call,
                               bool decode)
{
    const tp_image_options *o = (const tp_image_options *)call->user;
    const int channel = !decode ? 0 : o && o->channel ? o->channel : 3;
    if (in->n < 1 || in->c[0].dtype != TP_U8 || in->c[0].shape.ndim != 1)
        return tp_fail(
            TP_ERR_ARG,
            "%s: component 0 must be a path: uint8 (length); .decode = TP_NO of tp_df_image_folder gives paths", name);
    if (o && (o->max_pixels < 0 || (o->channel && o->channel != 1 && o->channel != 3)))
        return tp_fail(TP_ERR_ARG, "%s: channel is %d and max_pixels %lld", name, o->channel, (long long)o->max_pixels);
    tp_buf path = {NULL, 0, 0, false}, file = {NULL, 0, 0, false};
    tp_buf_put(&path, in->c[0].data, (size_t)tp_tensor_size(&in->c[0]));
    tp_buf_put(&path, "", 1);
    tp_status st = path.failed ? tp_fail(TP_ERR_NOMEM, "out of memory for the name of a file") : TP_OK;
    if (st == TP_OK && out->n < 1) st = tp_fail(TP_ERR_ARG, "%s: the datapoint has no components", name);
    if (st == TP_OK)
        st = tp__image_read(NULL, path.data, channel, o && o->max_pixels ? o->max_pixels : TP__MAX_PIXELS, &file,
                            &out->c[0]);
    if (st == TP_OK && !decode) st = tp_datapoint_set_bytes(out, 0, file.data, file.len);
    tp_buf_free(&path);
    tp_buf_free(&file);
    if (!o || o->on_error != TP_SKIP || !tp__image_skips(st)) return st;
    tp_log_once(TP_LOG_WARN, "skipped: %s", tp_last_error());
    call->drop = true;
    return TP_OK;
}
TP_DEF tp_status tp_map_image(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    TP__REQUIRE(in && out && call, TP_ERR_ARG)
    return tp__map_image("tp_map_image", in, out, call, true);
}
TP_DEF tp_status tp_map_image_file(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    TP__REQUIRE(in && out && call, TP_ERR_ARG)
    return tp__map_image("tp_map_image_file", in, out, call, false);
}

/* -- flows of images ---- >>df image */

enum { TP__IMAGE_NEW, TP__IMAGE_GOOD, TP__IMAGE_BAD }; /* flags of a file: what is known about it */

typedef struct tp__image_flow {
    tp__order order;
    char **path;
    int32_t *label; /* labels of the files; NULL: no labels */
    int64_t capacity;
    uint8_t *known;
    const char **class_name;
    int n_class, channel;
    int64_t max_pixels;
    bool skip, decode;
    tp_arena mem;
    tp_buf file;
    tp__stb stb;
    tp_tensor passed;     /* scratch tensor for images that seek decodes */
    tp_augmentor *resize; /* NULL: images keep their size */
    tp_transform resized;
} tp__image_flow;

/* Decodes file i, and resizes it where that is asked for; *decoded is false if it is skipped. */
static tp_status tp__image_take(tp__image_flow *f, int64_t i, tp_tensor *image, bool *decoded)
{
    tp_status st = tp__image_read(&f->stb, f->path[i], f->channel, f->max_pixels, &f->file, image);
    if (st == TP_OK && f->resize) {
        st = tp_aug_draw(f->resize, image->shape.dim[0], image->shape.dim[1], 0, 0, &f->resized);
        if (st == TP_OK) st = tp_aug_apply_image(&f->resized, image, image);
    }
    *decoded = st == TP_OK;
    if (*decoded) f->known[i] = TP__IMAGE_GOOD;
    if (*decoded || !tp__image_skips(st)) return st;
    f->known[i] = TP__IMAGE_BAD;
    if (!f->skip) return st;
    tp_log(TP_LOG_WARN, "skipped: %s", tp_last_error());
    return TP_OK;
}

static tp_status tp__image_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__image_flow *f = (tp__image_flow *)df->user;
    tp_status st = tp_datapoint_resize(dp, f->label ? 2 : 1);
    for (bool decoded = false; !decoded && st == TP_OK;) {
        const int64_t i = tp__order_take(&f->order);
        if (i < 0) return TP_END;
        if (f->label) tp_tensor_view(&dp->c[1], TP_I32, tp_make_shape_n(0, NULL), &f->label[i]);
        if (!f->decode) {
            const int64_t length = (int64_t)strlen(f->path[i]);
            tp_tensor_view(&dp->c[0], TP_U8, tp_make_shape_n(1, &length), f->path[i]);
            return TP_OK;
        }
        if (!f->skip || f->known[i] != TP__IMAGE_BAD) st = tp__image_take(f, i, &dp->c[0], &decoded);
    }
    return st;
}

static tp_status tp__image_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    tp__image_flow *f = (tp__image_flow *)df->user;
    if (!f->skip || !f->decode) return tp__ordered_seek(df, n, skipped);
    tp_status st = TP_OK;
    while (*skipped < n && st == TP_OK) {
        const int64_t i = tp__order_take(&f->order);
        if (i < 0) break;
        bool decoded = f->known[i] == TP__IMAGE_GOOD;
        if (f->known[i] == TP__IMAGE_NEW) st = tp__image_take(f, i, &f->passed, &decoded);
        *skipped += decoded;
    }
    return st;
}

static void tp__image_close(tp_dataflow *df)
{
    tp__image_flow *f = (tp__image_flow *)df->user;
    tp_free(f->order.at);
    tp_free(f->path);
    tp_free(f->label);
    tp_free(f->known);
    tp_free(f->class_name);
    tp_arena_free(&f->mem);
    tp_free(f->file.data);
    tp__stb_free_all(&f->stb);
    tp_tensor_free(&f->passed);
    tp_aug_free(f->resize);
    tp_transform_free(&f->resized);
}

typedef struct tp__image_options { /* options that the three descriptors have in common */
    tp_at at;
    const char *name;
    int channel;
    int64_t max_pixels;
    tp_on_error on_error;
    bool decode, shuffle;
    uint64_t seed;
} tp__image_options;

static tp_dataflow *tp__image_new(const tp__image_options *d)
{
    if (d->channel != 0 && d->channel != 1 && d->channel != 3)
        return tp_df_fail(&d->at, TP_ERR_ARG, "%s: channel is %d: 3 (RGB) or 1 (grey)", d->name, d->channel);
    if (d->max_pixels < 0 || (d->on_error != TP_REFUSE && d->on_error != TP_SKIP))
        return tp_df_fail(&d->at, TP_ERR_ARG, "%s: max_pixels is %lld and on_error %d", d->name,
                          (long long)d->max_pixels, (int)d->on_error);
    tp_dataflow *df = tp_df_new(d->name, sizeof(tp__image_flow), d->seed);
    if (!df) return NULL;
    tp__image_flow *f = (tp__image_flow *)df->user;
    f->channel = d->channel ? d->channel : 3;
    f->max_pixels = d->max_pixels ? d->max_pixels : TP__MAX_PIXELS;
    f->skip = d->on_error == TP_SKIP;
    f->decode = d->decode;
    df->next = tp__image_next;
    df->restart = tp__ordered_restart;
    df->size = tp__ordered_size;
    df->seek = tp__image_seek;
    df->close = tp__image_close;
    return df;
}

/* Adds a file; dir NULL: path is used as it is. label -1: no label. */
static tp_status tp__image_add(tp__image_flow *f, const char *dir, const char *path, size_t length, int32_t label)
{
    if (f->order.n == f->capacity) {
        const int64_t new_capacity = f->capacity ? 2 * f->capacity : 64;
        size_t bytes;
        if (!tp_mul_size((size_t)new_capacity, sizeof(char *), &bytes)) return tp_fail(TP_ERR_NOMEM, "too many images");
        char **paths = (char **)tp_realloc(f->path, bytes);
        if (!paths) return TP_ERR_NOMEM;
        f->path = paths;
        int32_t *labels = label < 0 ? NULL : (int32_t *)tp_realloc(f->label, (size_t)new_capacity * sizeof *labels);
        if (label >= 0 && !labels) return TP_ERR_NOMEM;
        f->label = labels;
        f->capacity = new_capacity;
    }
    char *p = dir ? tp_arena_printf(&f->mem, "%s/%.*s", dir, (int)length, path)
                  : tp_arena_printf(&f->mem, "%.*s", (int)length, path);
    if (!p) return TP_ERR_NOMEM;
    f->path[f->order.n] = p;
    if (f->label) f->label[f->order.n] = label;
    f->order.n++;
    return TP_OK;
}

/* The last step of the three constructors: returns df if st is TP_OK, else a poison flow for the error. */
static tp_dataflow *tp__image_finish(tp_dataflow *df, const tp__image_options *d, tp_status st)
{
    tp__image_flow *f = (tp__image_flow *)df->user;
    if (st == TP_OK) st = tp__order_init(&f->order, f->order.n, d->shuffle);
    if (st == TP_OK && !(f->known = (uint8_t *)tp_calloc((size_t)f->order.n + 1, 1))) st = TP_ERR_NOMEM;
    if (st == TP_OK) return df;
    tp__df_delete(df);
    return tp__df_failed(&d->at, st);
}

/* Makes images get the size of .resize. */
static tp_status tp__image_resize(tp__image_flow *f, const tp_df_image_from_file_desc *d)
{
    tp_aug_resize_desc size;
    if (!d->resize[0] && !d->resize[1]) return TP_OK;
    memset(&size, 0, sizeof size);
    size.h = d->resize[0];
    size.w = d->resize[1];
    f->resize = tp_aug_resize_(&size);
    const tp_status st = f->resize ? tp_aug_status(f->resize) : TP_ERR_NOMEM;
    return st == TP_ERR_ARG ? tp_fail(st, "tp_df_image_from_file: .resize: %s", tp_last_error()) : st;
}

TP_DEF tp_dataflow *tp_df_image_from_file_(const tp_df_image_from_file_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    if (d->n < 1 || !d->files) return tp_df_fail(&d->at_, TP_ERR_ARG, "tp_df_image_from_file: needs at least one file");
    const tp__image_options choice = {d->at_, "tp_df_image_from_file",           d->channel, d->max_pixels, d->on_error,
                                      true,   tp__tri_is_yes(d->shuffle, false), d->seed};
    tp_dataflow *df = tp__image_new(&choice);
    if (!df || df->next != tp__image_next) return df;
    tp_status st = tp__image_resize((tp__image_flow *)df->user, d);
    for (int64_t i = 0; i < d->n && st == TP_OK; i++)
        st = d->files[i] ? tp__image_add((tp__image_flow *)df->user, NULL, d->files[i], strlen(d->files[i]), -1)
                         : tp_fail(TP_ERR_ARG, "tp_df_image_from_file: file %lld is NULL", (long long)i);
    return tp__image_finish(df, &choice, st);
}

/* The names in a folder in byte order, without those that begin with a dot. */
typedef struct tp__listing {
    char **name;
    int64_t n, capacity;
    tp_arena mem;
    bool nomem;
} tp__listing;

static bool tp__listing_add(void *user, const char *name)
{
    tp__listing *l = (tp__listing *)user;
    if (name[0] == '.') return false;
    if (l->n == l->capacity) {
        const int64_t new_capacity = l->capacity ? 2 * l->capacity : 64;
        char **grown = (char **)tp_realloc(l->name, (size_t)new_capacity * sizeof *grown);
        l->nomem = !grown;
        if (!grown) return true;
        l->name = grown;
        l->capacity = new_capacity;
    }
    l->name[l->n] = tp_arena_strdup(&l->mem, name);
    l->nomem = !l->name[l->n];
    l->n += !l->nomem;
    return l->nomem;
}
static int tp__name_order(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }
static void tp__listing_free(tp__listing *l)
{
    tp_free(l->name);
    tp_arena_free(&l->mem);
}
static tp_status tp__listing_of(tp__listing *l, const char *dir)
{
    memset(l, 0, sizeof *l);
    if (tp__os_list(dir, tp__listing_add, l) != 0)
        return tp_fail(TP_ERR_IO, "folder %s cannot be read: %s", dir, tp__os_error());
    if (l->nomem) return TP_ERR_NOMEM;
    if (l->n) qsort(l->name, (size_t)l->n, sizeof *l->name, tp__name_order);
    return TP_OK;
}

enum { TP__IMAGE_DEPTH = 16 }; /* maximum depth of nested folders; a link may form a cycle */

/* What was found of one class. */
typedef struct tp__image_walk {
    tp__image_flow *flow;
    int32_t label;
    tp__map folders; /* "device number" of each folder; &is_open: the walk is inside it, &is_done: it was read */
    char is_open, is_done;
    int64_t again; /* how often a link led to a folder that was read already */
} tp__image_walk;

/* Notes that the walk enters a folder. *key: what to note at its end; NULL: the folder is not read again, else links between a few
 * folders could give 2^16 times their images. */
static tp_status tp__image_enter(tp__image_walk *w, const char *dir, const tp__os_info *is, const char **key)
{
    *key = tp_arena_printf(&w->flow->mem, "%llx %llx", (unsigned long long)is->device, (unsigned long long)is->number);
    if (!*key) return TP_ERR_NOMEM;
    const void *state = is->number ? tp__map_get(&w->folders, *key) : NULL; /* 0: this system has no numbers of files */
    if (state == &w->is_open)
        return tp_fail(TP_ERR_FORMAT,
                       "%s is a link to a folder that it lies in: remove it, its images would have no end", dir);
    if (!state) return tp__map_put(&w->folders, *key, &w->is_open) ? TP_OK : TP_ERR_NOMEM;
    w->again++;
    *key = NULL;
    return TP_OK;
}

static tp_status tp__image_add_folder(tp__image_walk *w, const char *dir, const tp__os_info *folder, int depth)
{
    tp__listing l;
    const char *key;
    tp_status st = tp__image_enter(w, dir, folder, &key);
    if (st != TP_OK || !key) return st;
    st = tp__listing_of(&l, dir);
    for (int64_t i = 0; i < l.n && st == TP_OK; i++) {
        tp_buf path = {NULL, 0, 0, false};
        tp__os_info is;
        tp_buf_printf(&path, "%s/%s", dir, l.name[i]);
        if (path.failed) st = tp_fail(TP_ERR_NOMEM, "out of memory for the name of a file");
        else if (tp__os_stat(path.data, true, &is) != 0 || is.kind != TP__OS_DIR)
            /* an entry that is not a file gives an error when it is read */
            st = tp__image_add(w->flow, NULL, path.data, path.len, w->label);
        else if (depth == TP__IMAGE_DEPTH)
            st = tp_fail(TP_ERR_FORMAT, "%s lies %d folders deep: is it a link to a folder above?", path.data, depth);
        else st = tp__image_add_folder(w, path.data, &is, depth + 1);
        tp_buf_free(&path);
    }
    tp__listing_free(&l);
    if (st == TP_OK && !tp__map_put(&w->folders, key, &w->is_done)) st = TP_ERR_NOMEM;
    return st;
}

/* Adds the images of a class, which lie in the folder `path` of the folder `root`. */
static tp_status tp__image_add_class(tp__image_flow *f, const tp__os_info *root, const char *path,
                                     const tp__os_info *is)
{
    tp__image_walk w;
    tp__printable name;
    const char *key;
    memset(&w, 0, sizeof w);
    w.flow = f;
    w.label = f->n_class++;
    tp_status st = tp__image_enter(&w, path, root, &key);
    if (st == TP_OK) st = tp__image_add_folder(&w, path, is, 1);
    if (st == TP_OK && w.again > 0)
        tp_log(TP_LOG_WARN,
               "class '%s': %lld links lead to folders whose images were taken already: each is taken once",
               tp__make_printable(&name, f->class_name[w.label], strlen(f->class_name[w.label])), (long long)w.again);
    tp__map_free(&w.folders);
    return st;
}

static tp_status tp__image_add_classes(tp__image_flow *f, const char *dir)
{
    tp__listing l;
    tp__os_info root;
    tp__printable first, last;
    tp_status st = tp__listing_of(&l, dir);
    tp__os_stat(dir, true, &root);
    if (st == TP_OK && !(f->class_name = (const char **)tp_calloc((size_t)l.n + 1, sizeof(char *)))) st = TP_ERR_NOMEM;
    for (int64_t i = 0; i < l.n && st == TP_OK; i++) {
        tp__os_info is;
        const char *name = tp_arena_strdup(&f->mem, l.name[i]),
                   *path = tp_arena_printf(&f->mem, "%s/%s", dir, l.name[i]);
        if (!name || !path) st = TP_ERR_NOMEM;
        else if (tp__os_stat(path, true, &is) == 0 && is.kind == TP__OS_DIR) {
            f->class_name[f->n_class] = name;
            const int64_t before = f->order.n;
            st = tp__image_add_class(f, &root, path, &is);
            if (st == TP_OK && f->order.n == before)
                tp_log(
                    TP_LOG_WARN,
                    "%s: the folder '%s' has no images, and counts as class %d all the same: where it is missing, the "
                    "classes behind it have other numbers",
                    dir, tp__make_printable(&first, name, strlen(name)), f->n_class - 1);
        }
    }
    tp__listing_free(&l);
    if (st == TP_OK && f->order.n > 0)
        tp_log(TP_LOG_INFO, "%s: %lld images of %d classes: %s%s%s", dir, (long long)f->order.n, f->n_class,
               tp__make_printable(&first, f->class_name[0], strlen(f->class_name[0])),
               f->n_class > 2   ? " .. "
               : f->n_class > 1 ? ", "
                                : "",
               f->n_class > 1
                   ? tp__make_printable(&last, f->class_name[f->n_class - 1], strlen(f->class_name[f->n_class - 1]))
                   : "");
    if (st == TP_OK && f->order.n == 0)
        st = tp_fail(TP_ERR_FORMAT, "folder %s has no %s: it must have a folder for each class, with its images", dir,
                     f->n_class ? "images" : "folders");
    return st;
}

TP_DEF tp_dataflow *tp_df_image_folder_(const tp_df_image_folder_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    if (!d->dir) return tp_df_fail(&d->at_, TP_ERR_ARG, "tp_df_image_folder: the folder is NULL");
    const tp__image_options choice = {d->at_,
                                      "tp_df_image_folder",
                                      d->channel,
                                      d->max_pixels,
                                      d->on_error,
                                      tp__tri_is_yes(d->decode, true),
                                      tp__tri_is_yes(d->shuffle, true),
                                      d->seed};
    tp_dataflow *df = tp__image_new(&choice);
    if (!df || df->next != tp__image_next) return df;
    return tp__image_finish(df, &choice, tp__image_add_classes((tp__image_flow *)df->user, d->dir));
}

TP_DEF const char *const *tp_df_image_classes(const tp_dataflow *df, int *n)
{
    if (n) *n = 0;
    TP__REQUIRE(df && n, NULL)

    if (df->next != tp__image_next || !((const tp__image_flow *)df->user)->class_name) {
        tp_fail(TP_ERR_ARG, "tp_df_image_classes: %s has no classes: give the flow made by tp_df_image_folder",
                df->name);
        return NULL;
    }
    const tp__image_flow *f = (const tp__image_flow *)df->user;
    *n = f->n_class;
    return f->class_name;
}

static bool tp__list_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static tp_status tp__image_list_parse(tp__image_flow *f, const char *text, size_t size, const char *list_name,
                                      const char *dir)
{
    const char *p = text + tp__byte_order_mark(text, size), *const end = text + size;
    for (int64_t number = 1; p < end; number++) {
        const char *line = p, *stop = (const char *)memchr(p, '\n', (size_t)(end - p));
        if (!stop) stop = end;
        p = stop + 1;
        while (line < stop && tp__list_blank(*line)) line++;
        while (stop > line && tp__list_blank(stop[-1])) stop--;
        if (line == stop) continue;
        const char *label = stop;
        while (label > line && !tp__list_blank(label[-1])) label--;
        int64_t v = -1;
        const bool number_there = tp__csv_int(label, stop, &v) && v >= 0 && v <= INT32_MAX;
        const char *path_end = label;
        while (path_end > line && tp__list_blank(path_end[-1])) path_end--;
        if (!number_there || path_end == line || path_end - line > 32767)
            return tp_fail(TP_ERR_FORMAT, "%s:%lld: a line has a path, a blank and a label, which is a number from 0",
                           list_name, (long long)number);
        if (memchr(line, 0, (size_t)(path_end - line)))
            return tp_fail(TP_ERR_FORMAT, "%s:%lld: a path contains a byte with the value 0", list_name,
                           (long long)number);
        const size_t length = (size_t)(path_end - line);
        char first[4] = {0, 0, 0, 0};
        memcpy(first, line, length < 3 ? length : 3);
        const tp_status st = tp__image_add(f, tp__os_is_absolute(first) ? NULL : dir, line, length, (int32_t)v);
        if (st != TP_OK) return st;
    }
    return f->order.n ? TP_OK : tp_fail(TP_ERR_FORMAT, "%s lists no image", list_name);
}

TP_DEF tp_dataflow *tp_df_image_list_(const tp_df_image_list_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    if (!d->list) return tp_df_fail(&d->at_, TP_ERR_ARG, "tp_df_image_list: the list is NULL");
    const tp__image_options choice = {d->at_,
                                      "tp_df_image_list",
                                      d->channel,
                                      d->max_pixels,
                                      d->on_error,
                                      tp__tri_is_yes(d->decode, true),
                                      tp__tri_is_yes(d->shuffle, true),
                                      d->seed};
    tp_dataflow *df = tp__image_new(&choice);
    if (!df || df->next != tp__image_next) return df;
    char *text = NULL;
    size_t size = 0;
    tp_status st = tp_file_read(d->list, true, 0, &text, &size);
    if (st == TP_OK) st = tp__image_list_parse((tp__image_flow *)df->user, text, size, d->list, d->dir);
    tp_free(text);
    return tp__image_finish(df, &choice, st);
}

/* -- lmdb ---- >>df lmdb */

#ifdef TP_LMDB
#include <lmdb.h>

typedef struct tp__lmdb_flow {
    tp__order order;
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
    MDB_cursor *cursor;
    tp_buf keys;   /* all keys of the LMDB file, concatenated */
    uint64_t *key; /* n + 1 offsets: where each key begins in `keys` */
    int64_t capacity;
    bool raw;
    tp_buf key_name;
    char *path;
} tp__lmdb_flow;

static tp_status tp__lmdb_fail(const char *path, const char *action, int error)
{
    if (error == ENOMEM) return tp_fail(TP_ERR_NOMEM, "%s: out of memory in liblmdb", path);
    /* where the system writes only a part of a page, liblmdb reports EIO without asking why */
    const bool is_short = error == EIO && strcmp(action, "written") == 0;
    return tp_fail(
        error == MDB_INVALID || error == MDB_CORRUPTED || error == MDB_PAGE_NOTFOUND || error == MDB_VERSION_MISMATCH
            ? TP_ERR_FORMAT
            : TP_ERR_IO,
        "%s cannot be %s: %s%s", path, action, mdb_strerror(error),
        is_short ? " (is the disk full, or the file too large for the limit of the process, ulimit -f?)" : "");
}

/* The file, or the folder's, needs more addresses than the process has. */
static tp_status tp__lmdb_too_large(const char *path, bool folder)
{
    tp__os_info is;
    tp_buf file = {NULL, 0, 0, false};
    memset(&is, 0, sizeof is);
    tp_buf_printf(&file, "%s%s", path, folder ? "/data.mdb" : "");
    if (!file.failed) tp__os_stat(file.data, true, &is);
    tp_buf_free(&file);
    return tp_fail(
        TP_ERR_IO,
        "%s: liblmdb cannot map its %lld bytes: there are too few addresses; raise the limit (ulimit -v), or "
        "use a 64-bit program",
        path, (long long)is.size);
}

/* Checks that the file is complete: liblmdb maps it, and reading a page beyond its end would crash the program. */
static tp_status tp__lmdb_whole(tp__lmdb_flow *f, bool folder)
{
    MDB_envinfo info;
    MDB_stat stat;
    tp__os_info is;
    tp_buf file = {NULL, 0, 0, false};
    tp_buf_printf(&file, "%s%s", f->path, folder ? "/data.mdb" : "");
    tp_status st = TP_OK;
    if (file.failed) st = tp_fail(TP_ERR_NOMEM, "out of memory for the name of a file");
    else if (mdb_env_info(f->env, &info) != 0 || mdb_env_stat(f->env, &stat) != 0 ||
             tp__os_stat(file.data, true, &is) != 0)
        st = tp_fail(TP_ERR_IO, "%s cannot be read", file.data);
    else if (is.size / stat.ms_psize <= info.me_last_pgno)
        st = tp_fail(TP_ERR_FORMAT, "%s is cut short: it has %llu pages, its header says %llu", file.data,
                     (unsigned long long)(is.size / stat.ms_psize), (unsigned long long)info.me_last_pgno + 1);
    tp_buf_free(&file);
    return st;
}

static tp_status tp__lmdb_add_key(tp__lmdb_flow *f, const MDB_val *k)
{
    if (f->order.n + 1 >= f->capacity) {
        const int64_t new_capacity = f->capacity ? 2 * f->capacity : 256;
        size_t bytes;
        if (!tp_mul_size((size_t)new_capacity, sizeof *f->key, &bytes)) return tp_fail(TP_ERR_NOMEM, "too many keys");
        uint64_t *grown = (uint64_t *)tp_realloc(f->key, bytes);
        if (!grown) return TP_ERR_NOMEM;
        f->key = grown;
        f->capacity = new_capacity;
        if (f->order.n == 0) grown[0] = 0;
    }
    tp_buf_put(&f->keys, k->mv_data, k->mv_size);
    if (f->keys.failed) return tp_fail(TP_ERR_NOMEM, "out of memory for the keys of %s", f->path);
    f->key[++f->order.n] = f->keys.len;
    return TP_OK;
}

static tp_status tp__lmdb_open(tp__lmdb_flow *f)
{
    tp__os_info is;
    const bool folder = tp__os_stat(f->path, true, &is) == 0 && is.kind == TP__OS_DIR;
    int error = mdb_env_create(&f->env);
    if (error) {
        f->env = NULL;
        return tp__lmdb_fail(f->path, "opened", error);
    }
    /* liblmdb makes the map as large as the data; without a size it would be as large as the writer's */
    error = mdb_env_set_mapsize(f->env, 1 << 20);
    if (!error)
        error = mdb_env_open(f->env, f->path, MDB_RDONLY | MDB_NOLOCK | MDB_NOTLS | (folder ? 0u : MDB_NOSUBDIR), 0644);
    if (error == ENOENT && folder)
        return tp_fail(TP_ERR_IO, "%s is a folder without data.mdb, so it is no LMDB", f->path);
    if (error && !folder && tp__os_stat(f->path, true, &is) == 0 && is.size == 0)
        return tp_fail(TP_ERR_FORMAT, "%s is empty, so it is no LMDB", f->path);
    if (error == ENOMEM) return tp__lmdb_too_large(f->path, folder);
    if (error) return tp__lmdb_fail(f->path, "opened", error);
    tp_status st = tp__lmdb_whole(f, folder);
    if (st != TP_OK) return st;
    if ((error = mdb_txn_begin(f->env, NULL, MDB_RDONLY, &f->txn)) != 0) {
        f->txn = NULL;
        return tp__lmdb_fail(f->path, "read", error);
    }
    if ((error = mdb_dbi_open(f->txn, NULL, 0, &f->dbi)) != 0) return tp__lmdb_fail(f->path, "read", error);
    if ((error = mdb_cursor_open(f->txn, f->dbi, &f->cursor)) != 0) {
        f->cursor = NULL;
        return tp__lmdb_fail(f->path, "read", error);
    }
    MDB_val k, v;
    while (st == TP_OK && (error = mdb_cursor_get(f->cursor, &k, &v, MDB_NEXT)) == 0)
        if (k.mv_size != 8 || memcmp(k.mv_data, "__keys__", 8) != 0) st = tp__lmdb_add_key(f, &k);
    return st != TP_OK || error == MDB_NOTFOUND ? st : tp__lmdb_fail(f->path, "read", error);
}

static tp_status tp__lmdb_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__lmdb_flow *f = (tp__lmdb_flow *)df->user;
    const int64_t i = tp__order_take(&f->order);
    if (i < 0) return TP_END;
    MDB_val k, v;
    k.mv_data = f->keys.data + f->key[i];
    k.mv_size = (size_t)(f->key[i + 1] - f->key[i]);
    const int error = mdb_get(f->txn, f->dbi, &k, &v);
    if (error) return tp__lmdb_fail(f->path, "read", error);
    if (!f->raw) {
        tp__printable name;
        f->key_name.len = 0;
        tp_buf_printf(&f->key_name, "%s: key \"%s\"", f->path,
                      tp__make_printable(&name, (const char *)k.mv_data, k.mv_size));
        if (f->key_name.failed) return tp_fail(TP_ERR_NOMEM, "out of memory for the name of a key");
        return tp_datapoint_unpack(dp, v.mv_data, v.mv_size, f->key_name.data);
    }
    const int64_t size[2] = {(int64_t)k.mv_size, (int64_t)v.mv_size};
    const tp_status st = tp_datapoint_resize(dp, 2);
    if (st != TP_OK) return st;
    tp_tensor_view(&dp->c[0], TP_U8, tp_make_shape_n(1, &size[0]), k.mv_data);
    tp_tensor_view(&dp->c[1], TP_U8, tp_make_shape_n(1, &size[1]), v.mv_data);
    return TP_OK;
}

static void tp__lmdb_close(tp_dataflow *df)
{
    tp__lmdb_flow *f = (tp__lmdb_flow *)df->user;
    if (f->cursor) mdb_cursor_close(f->cursor);
    if (f->txn) mdb_txn_abort(f->txn);
    if (f->env) mdb_env_close(f->env);
    tp_buf_free(&f->keys);
    tp_buf_free(&f->key_name);
    tp_free(f->key);
    tp_free(f->order.at);
    tp_free(f->path);
}

TP_DEF tp_dataflow *tp_df_lmdb_(const tp_df_lmdb_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    if (!d->path) return tp_df_fail(&d->at_, TP_ERR_ARG, "tp_df_lmdb: the path is NULL");
    tp_dataflow *df = tp_df_new("tp_df_lmdb", sizeof(tp__lmdb_flow), d->seed);
    if (!df) return NULL;
    tp__lmdb_flow *f = (tp__lmdb_flow *)df->user;
    df->next = tp__lmdb_next;
    df->restart = tp__ordered_restart;
    df->size = tp__ordered_size;
    df->seek = tp__ordered_seek;
    df->close = tp__lmdb_close;
    f->raw = tp__tri_is_yes(d->raw, false);
    f->path = tp_strdup(d->path);
    tp_status st = f->path ? tp__lmdb_open(f) : TP_ERR_NOMEM;
    if (st == TP_OK) st = tp__order_init(&f->order, f->order.n, tp__tri_is_yes(d->shuffle, true));
    if (st == TP_OK) return df;
    tp__df_delete(df);
    return tp__df_failed(&d->at_, st);
}

/* Writes the list of the keys in pickle protocol 3: a list, its items after a mark, each a short byte string. */
static tp_status tp__lmdb_put_keys(MDB_txn *txn, MDB_dbi dbi, int64_t n, const char *path)
{
    tp_buf b = {NULL, 0, 0, false};
    tp_buf_put(&b, "\x80\x03](", 4);
    for (int64_t i = 0; i < n; i++) tp_buf_printf(&b, "C%c%08lld", i > 99999999 ? 9 : 8, (long long)i);
    tp_buf_put(&b, "e.", 2);
    char name[] = "__keys__";
    MDB_val k, v;
    k.mv_size = 8;
    k.mv_data = name;
    v.mv_size = b.len;
    v.mv_data = b.data;
    const int error = b.failed ? ENOMEM : mdb_put(txn, dbi, &k, &v, 0);
    tp_buf_free(&b);
    return error ? tp__lmdb_fail(path, "written", error) : TP_OK;
}

static tp_status tp__lmdb_put_all(tp_dataflow *df, MDB_txn **txn, MDB_env *env, MDB_dbi dbi, const char *path)
{
    tp_datapoint dp = {0, NULL, 0};
    tp_buf b = {NULL, 0, 0, false};
    tp_status st = tp_df_restart(df, 0);
    int64_t n = 0;
    int error = 0;
    for (; st == TP_OK && (st = tp_df_next(df, &dp)) == TP_OK; n++) {
        char key[24];
        MDB_val k, v;
        b.len = 0;
        if ((st = tp_datapoint_pack(&dp, &b)) != TP_OK) break;
        k.mv_size = (size_t)snprintf(key, sizeof key, "%08lld", (long long)n);
        k.mv_data = key;
        v.mv_size = b.len;
        v.mv_data = b.data;
        error = mdb_put(*txn, dbi, &k, &v, n > 99999999 ? 0 : MDB_APPEND);
        if (!error && n % 1024 == 1023) { /* commit now and then: a transaction keeps its changes in memory */
            error = mdb_txn_commit(*txn);
            *txn = NULL;
            if (!error) error = mdb_txn_begin(env, NULL, 0, txn);
        }
        if (error) st = tp__lmdb_fail(path, "written", error);
    }
    tp_datapoint_free(&dp);
    tp_buf_free(&b);
    return st == TP_END ? tp__lmdb_put_keys(*txn, dbi, n, path) : st;
}

static tp_status tp__lmdb_write(tp_dataflow *df, const char *path)
{
    MDB_env *env = NULL;
    MDB_txn *txn = NULL;
    MDB_dbi dbi = 0;
    int error = ENOMEM;
    /* the map's size reserves addresses, not memory or disk space; where so many are not to be had (ulimit -v), fewer will do */
    for (int bits = sizeof(size_t) > 4 ? 40 : 30; error == ENOMEM && bits >= 24; bits -= 2) {
        if (env) mdb_env_close(env);
        env = NULL;
        error = mdb_env_create(&env);
        if (!error) error = mdb_env_set_mapsize(env, (size_t)1 << bits);
        if (!error) error = mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOLOCK, 0666);
    }
    if (!error) error = mdb_txn_begin(env, NULL, 0, &txn);
    if (!error) error = mdb_dbi_open(txn, NULL, 0, &dbi);
    tp_status st = error ? tp__lmdb_fail(path, "written", error) : tp__lmdb_put_all(df, &txn, env, dbi, path);
    if (st == TP_OK) {
        error = mdb_txn_commit(txn);
        txn = NULL;
        if (!error) error = mdb_env_sync(env, 1);
        if (error) st = tp__lmdb_fail(path, "written", error);
    }
    if (txn) mdb_txn_abort(txn);
    if (env) mdb_env_close(env);
    return st;
}

TP_DEF tp_status tp_lmdb_save(tp_dataflow *df, const char *path)
{
    TP__REQUIRE(df && path, TP_ERR_ARG)

    const tp_status ends = tp__df_must_end(df, "tp_lmdb_save");
    if (ends != TP_OK) return ends;
    if (tp_file_exists(path)) return tp_fail(TP_ERR_IO, "%s exists: remove it first, or choose another name", path);
    char *temp = NULL, *dir = tp__folder_of(path);
    int fd = -1;
    if (dir) tp__remove_leftovers(dir); /* of killed processes */
    for (int k = 0; dir && fd < 0 && k < 10000; k++) {
        tp_free(temp);
        if (!(temp = tp__temp_name(path, k))) break;
        fd = tp__os_open(temp, TP__OS_NEW); /* liblmdb begins in an empty file */
        if (fd < 0 && errno != EEXIST) break;
    }
    tp_status st = TP_ERR_NOMEM;
    if (fd >= 0) tp__os_close(fd), st = tp__lmdb_write(df, temp);
    else if (dir && temp) st = tp_fail(TP_ERR_IO, "%s cannot be written: %s", path, tp__os_error());
    if (st == TP_OK && tp__os_rename_new(temp, path) != 0)
        st = errno == EEXIST ? tp_fail(TP_ERR_IO, "%s was made by another process meanwhile, and stays as it is", path)
                             : tp_fail(TP_ERR_IO, "%s cannot be written: %s", path, tp__os_error());
    if (st != TP_OK && fd >= 0) tp__os_remove(temp);
    tp_free(temp);
    tp_free(dir);
    return st;
}

#else
static const char tp__no_lmdb[] =
    "this program was built without LMDB: define TP_LMDB before tp_input.h and link with -llmdb";

TP_DEF tp_dataflow *tp_df_lmdb_(const tp_df_lmdb_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    return tp_df_fail(&d->at_, TP_ERR_UNSUPPORTED, "tp_df_lmdb: %s", tp__no_lmdb);
}

TP_DEF tp_status tp_lmdb_save(tp_dataflow *df, const char *path)
{
    TP__REQUIRE(df && path, TP_ERR_ARG)

    return tp_fail(TP_ERR_UNSUPPORTED, "tp_lmdb_save: %s", tp__no_lmdb);
}
#endif

TP__COLD_END

/* ==== >>augmentors ===================================================================================== */
/* An augmentor holds its options with defaults filled in. Drawing writes steps and random numbers, no pixels; applying executes the
 * steps. Steps that only crop (Crop) change the view; the others write into one of the transform's two buffers, or in place if the
 * image is already in one. At the end the buffer is swapped with the caller's tensor. */

#define TP__AUG_SIDE ((int64_t)1 << 24)

typedef struct tp__aug_step tp__aug_step;
typedef struct tp__aug_draw tp__aug_draw;

struct tp_augmentor {
    tp_owner owner_;
    const char *name; /* name of the constructor, for sentences */
    tp_status (*draw)(tp__aug_draw *d, const tp_augmentor *a);
    const void *desc; /* the options, with defaults filled in */
    tp_augmentor **child;
    double *prob; /* cumulative probabilities of the children */
    int n_child;
    int places; /* number of augmentors in the tree that begins at this one, itself included */
    void (*release)(void *user);
    void *user;
    const struct tp__isa *isa; /* vector kernels for noise; NULL: naive loops */
    bool wide;                 /* whether the processor has AVX2, for the kernels of >>aug kernels */
    tp_status poison;          /* status of a poison augmentor; TP_OK: not poison */
    char text[512];
};

/* The image that is being augmented, while the steps are applied. */
typedef struct tp__pixels {
    char *data;
    tp_dtype dtype;
    int64_t h, w, c;
    int64_t stride; /* bytes from one row to the next */
    int ndim;
} tp__pixels;

typedef struct tp__aug_run {
    tp_transform *t;
    tp__pixels x, y; /* the input and the output of a step */
    int buffer;      /* index of the transform's buffer that holds x; -1: x is in the caller's memory */
    bool mask, wide;
    double fill;
} tp__aug_run;

typedef struct tp__aug_kind {
    const char *name;
    const char *numbers; /* names of the step's numbers, such as "y0 x0 h w"; "rgb?": below 0 it was not given */
    bool moves_pixels;   /* the step moves pixels, so it applies to masks and points too */
    tp_status (*image)(tp__aug_run *r, const tp__aug_step *s);
    void (*point)(const tp__aug_step *s, float *x, float *y);
} tp__aug_kind;

struct tp__aug_step {
    const tp__aug_kind *kind;
    const tp_augmentor *augmentor;
    double number[12];
    int64_t h, w; /* size of the step's input image */
    uint64_t key;
    int64_t index;
};

struct tp__aug_draw {
    tp_transform *t;
    const tp_augmentor *a;
    uint64_t root, key;
    int64_t index;
    uint64_t drawn; /* number of random numbers that this augmentor has drawn so far */
    int place;
    int64_t h, w; /* size of the image after the steps drawn so far */
};

/* -- kernels ---- >>aug kernels */
/* Loops over many pixels are compiled twice: for the compiler's own target, and for AVX2, which a new augmentor looks for. Both
 * give the same bits, because AVX2 without FMA has no fused operation. The loop is in <name>_body; TP__AUG_KERNEL(<name>, ...)
 * makes of it <name>(wide, ...). */
#if defined(__GNUC__)
#define TP__AUG_BODY TP__LOOPS static inline __attribute__((always_inline))
#else
#define TP__AUG_BODY static inline
#endif
#if defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 12) /* __builtin_shufflevector */
#define TP__AUG_SHUFFLES 1
#else
#define TP__AUG_SHUFFLES 0
#endif
#if TP__FAST
#define TP__AUG_AVX2 TP__ISA_X86
#else
#define TP__AUG_AVX2 0
#endif
#if TP__AUG_AVX2
#define TP__AUG_KERNEL(name_, arguments_, ...)                                                                   \
    TP__LOOPS static void name_##_plain(__VA_ARGS__) { name_##_body arguments_; }                                \
    TP__LOOPS __attribute__((target("avx2"))) static void name_##_avx2(__VA_ARGS__) { name_##_body arguments_; } \
    static void name_(bool wide, __VA_ARGS__)                                                                    \
    {                                                                                                            \
        if (wide) name_##_avx2 arguments_;                                                                       \
        else name_##_plain arguments_;                                                                           \
    }
static bool tp__aug_wide(void)
{
#ifndef TP__NO_SYSTEM
    const char *isa = getenv("TP_ISA");
    if (isa && (strcmp(isa, "naive") == 0 || strcmp(isa, "sse2") == 0)) return false;
#endif
    return tp__x86_level() >= 1;
}
#else
#define TP__AUG_KERNEL(name_, arguments_, ...)          \
    TP__LOOPS static void name_(bool wide, __VA_ARGS__) \
    {                                                   \
        (void)wide;                                     \
        name_##_body arguments_;                        \
    }
static bool tp__aug_wide(void) { return false; }
#endif

TP__COLD_BEGIN

/* -- making and freeing ---- >>aug new */

static void tp__aug_delete(tp_augmentor *a)
{
    if (!a) return;
    for (int i = 0; i < a->n_child; i++) tp__aug_delete(a->child[i]);
    if (a->release) a->release(a->user);
    tp_free(a->child);
    tp_free(a->prob);
    tp_free(a);
}

TP_DEF void tp_aug_free(tp_augmentor *a)
{
    if (a && tp__may_free(&a->owner_, __func__, a->name)) tp__aug_delete(a);
}

TP_DEF tp_status tp_aug_status(const tp_augmentor *a)
{
    if (!a) return tp_fail(TP_ERR_ARG, "the augmentor is NULL: give one (or its constructor found no memory)");
    return a->poison == TP_OK ? TP_OK : tp_fail(a->poison, "%s", a->text);
}

/* Makes a new augmentor with a copy of its options in the same block. NULL: out of memory. */
static tp_augmentor *tp__aug_new(const char *name, tp_status (*draw)(tp__aug_draw *, const tp_augmentor *),
                                 const void *desc, size_t bytes)
{
    const size_t head = (sizeof(tp_augmentor) + 15) & ~(size_t)15;
    tp_augmentor *a = (tp_augmentor *)tp_calloc(1, head + bytes);
    if (!a) return NULL;
    a->name = name;
    a->draw = draw;
    a->wide = tp__aug_wide();
    a->places = 1;
    a->desc = (char *)a + head;
    if (bytes) memcpy((char *)a + head, desc, bytes);
    return a;
}

/* Makes a new augmentor for noise, with vector kernels. */
static tp_augmentor *tp__aug_noise_new(const char *name, tp_status (*draw)(tp__aug_draw *, const tp_augmentor *),
                                       const void *desc, size_t bytes)
{
    tp_status st;
    bool amx;
    tp_augmentor *a = tp__aug_new(name, draw, desc, bytes);
    if (a) a->isa = tp__isa_choose(NULL, &st, &amx);
    return a;
}

static tp_augmentor *tp__aug_fail(const tp_at *at, tp_status status, const char *fmt, ...) TP_PRINTF(3, 4);
static tp_augmentor *tp__aug_fail(const tp_at *at, tp_status status, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    tp__vformat(text, sizeof text, fmt, ap);
    va_end(ap);
    tp_augmentor *a = tp__aug_new("poison", NULL, NULL, 0);
    if (!a) return NULL;
    a->poison = status;
    const char *file = at && at->file ? strrchr(at->file, '/') : NULL;
    file = file ? file + 1 : at ? at->file : NULL;
    if (file) snprintf(a->text, sizeof a->text, "%.60s:%d: %s", file, at->line, text);
    else snprintf(a->text, sizeof a->text, "%s", text);
    tp_fail(status, "%s", a->text);
    return a;
}
static tp_augmentor *tp__aug_no_options(const char *function)
{
    return tp__aug_fail(NULL, TP_ERR_ARG, "%s: the descriptor is NULL", function);
}

/* -- drawing ---- >>aug draw */

static double tp__aug_uniform(tp__aug_draw *d, double low, double high)
{
    return low + (high - low) * (double)tp_random_uniform(d->key, (uint64_t)d->index, d->drawn++);
}
/* Draws an integer below high; returns low if high <= low. */
static int64_t tp__aug_randint(tp__aug_draw *d, int64_t low, int64_t high)
{
    const uint64_t r = tp_random_u32(d->key, (uint64_t)d->index, d->drawn++);
    return high > low ? low + (int64_t)(r * (uint64_t)(high - low) >> 32) : low;
}

/* Adds a new step whose result has size h, w; NULL: out of memory, or the size is out of range. */
static tp__aug_step *tp__aug_step_new(tp__aug_draw *d, const tp_augmentor *a, const tp__aug_kind *kind, int64_t h,
                                      int64_t w)
{
    tp_transform *t = d->t;
    if (h < 1 || w < 1 || h > TP__AUG_SIDE || w > TP__AUG_SIDE) {
        tp_fail(TP_ERR_SHAPE, "%s: the result would have %lld rows and %lld columns", a->name, (long long)h,
                (long long)w);
        return NULL;
    }
    if (t->n == t->cap_) {
        const int cap = t->cap_ ? 2 * t->cap_ : 8;
        tp__aug_step *grown = (tp__aug_step *)tp_realloc(t->step_, (size_t)cap * sizeof *grown);
        if (!grown) return NULL;
        t->step_ = grown;
        t->cap_ = cap;
    }
    tp__aug_step *s = &t->step_[t->n++];
    memset(s, 0, sizeof *s);
    s->kind = kind;
    s->augmentor = a;
    s->h = d->h;
    s->w = d->w;
    s->key = d->key;
    s->index = d->index;
    d->h = h;
    d->w = w;
    return s;
}
/* Returns the status of the failure for which tp__aug_step_new returned NULL. */
static tp_status tp__aug_step_status(int64_t h, int64_t w)
{
    return h < 1 || w < 1 || h > TP__AUG_SIDE || w > TP__AUG_SIDE ? TP_ERR_SHAPE : TP_ERR_NOMEM;
}

/* Adds a step with up to four numbers that keeps the size. */
static tp_status tp__aug_add_step(tp__aug_draw *d, const tp_augmentor *a, const tp__aug_kind *kind, double p, double q)
{
    tp__aug_step *s = tp__aug_step_new(d, a, kind, d->h, d->w);
    if (!s) return TP_ERR_NOMEM;
    s->number[0] = p;
    s->number[1] = q;
    return TP_OK;
}

static tp_status tp__aug_draw_one(tp__aug_draw *d, const tp_augmentor *a)
{
    const int place = d->place;
    d->key = tp_random_key(d->root, (uint64_t)place);
    d->drawn = 0;
    d->place = place + 1;
    const tp_status st = a->draw(d, a);
    d->place = place + a->places;
    return st;
}

TP_DEF tp_status tp_aug_draw(const tp_augmentor *a, int64_t h, int64_t w, uint64_t key, int64_t index, tp_transform *t)
{
    TP__REQUIRE(a && t, TP_ERR_ARG)

    t->n = 0;
    t->h = t->w = t->out_h = t->out_w = 0;
    tp_status st = tp_aug_status(a);
    if (st != TP_OK) return st;
    if (h < 1 || w < 1 || h > TP__AUG_SIDE || w > TP__AUG_SIDE)
        return tp_fail(TP_ERR_SHAPE, "an image of %lld rows and %lld columns cannot be augmented", (long long)h,
                       (long long)w);
    tp__aug_draw d;
    memset(&d, 0, sizeof d);
    d.t = t;
    d.root = key;
    d.index = index;
    d.h = h;
    d.w = w;
    st = tp__aug_draw_one(&d, a);
    if (st != TP_OK) {
        t->n = 0;
        return st;
    }
    t->h = h;
    t->w = w;
    t->out_h = d.h;
    t->out_w = d.w;
    return TP_OK;
}

TP_DEF const char *tp_transform_text(const tp_transform *t, char *buf, size_t size)
{
    TP__REQUIRE(t && buf && size, buf)

    tp_buf b;
    memset(&b, 0, sizeof b);
    for (int i = 0; i < t->n; i++) {
        const tp__aug_step *s = &t->step_[i];
        const char *name = s->kind->numbers;
        tp_buf_printf(&b, "%s%s(", i ? ", " : "", s->kind->name);
        for (int k = 0; *name; k++) {
            const size_t n = strcspn(name, " ?");
            const bool is_optional = name[n] == '?';
            if (!is_optional || s->number[k] >= 0)
                tp_buf_printf(&b, "%s%.*s=%.6g", k ? ", " : "", (int)n, name, s->number[k]);
            name += n + is_optional;
            name += *name == ' ';
        }
        tp_buf_printf(&b, ")");
    }
    snprintf(buf, size, "%s", b.len && !b.failed ? b.data : "");
    tp_buf_free(&b);
    return buf;
}

TP_DEF void tp_transform_free(tp_transform *t)
{
    if (!t) return;
    tp_free(t->step_);
    for (int i = 0; i < 2; i++) {
        tp_tensor_free(&t->image_[i]);
        tp_tensor_free(&t->row_[i]);
        tp_tensor_free(&t->taps_[i].start);
        tp_tensor_free(&t->taps_[i].weight);
    }
    tp_tensor_free(&t->work_);
    memset(t, 0, sizeof *t);
}

/* -- applying ---- >>aug apply */

/* Makes room for a result in the buffer that does not hold the image. */
static tp_status tp__aug_reserve(tp__aug_run *r, tp_dtype dtype, int64_t h, int64_t w, int64_t c, int ndim)
{
    tp_tensor *to = &r->t->image_[r->buffer == 0];
    const int64_t dim[3] = {h, w, c};
    const tp_status st = tp_tensor_resize(to, dtype, tp_make_shape_n(3, dim));
    if (st != TP_OK) return st;
    r->y.data = (char *)to->data;
    r->y.dtype = dtype;
    r->y.h = h;
    r->y.w = w;
    r->y.c = c;
    r->y.ndim = ndim;
    r->y.stride = w * c * (int64_t)tp_dtype_size(dtype);
    return TP_OK;
}
/* Makes room for a result of h by w with the image's dtype. */
static tp_status tp__aug_reserve_like(tp__aug_run *r, int64_t h, int64_t w)
{
    return tp__aug_reserve(r, r->x.dtype, h, w, r->x.c, r->x.ndim);
}
TP__HOT static void tp__aug_use_result(tp__aug_run *r) /* y, the result of the step, becomes the current image */
{
    r->buffer = r->buffer == 0;
    r->x = r->y;
}
static size_t tp__aug_row_bytes(const tp__pixels *x) { return (size_t)(x->w * x->c) * tp_dtype_size(x->dtype); }

/* Returns scratch memory for n floats: `buffer` 0 and 1 are two rows, 2 is the large buffer. NULL: out of memory. */
static float *tp__aug_work(tp__aug_run *r, int buffer, int64_t n)
{
    tp_tensor *t = buffer < 2 ? &r->t->row_[buffer] : &r->t->work_;
    return tp_tensor_resize(t, TP_F32, tp_make_shape_n(1, &n)) == TP_OK ? (float *)t->data : NULL;
}

/* Makes the image writable and its rows contiguous. */
static tp_status tp__aug_make_writable(tp__aug_run *r)
{
    const size_t bytes = tp__aug_row_bytes(&r->x);
    if (r->buffer >= 0 && r->x.stride == (int64_t)bytes && r->x.data == (char *)r->t->image_[r->buffer].data)
        return TP_OK;
    const tp_status st = tp__aug_reserve_like(r, r->x.h, r->x.w);
    if (st != TP_OK) return st;
    for (int64_t i = 0; i < r->x.h; i++) memcpy(r->y.data + i * r->y.stride, r->x.data + i * r->x.stride, bytes);
    tp__aug_use_result(r);
    return TP_OK;
}

static tp_status tp__aug_start(tp__aug_run *r, tp_transform *t, const tp_tensor *in, bool mask, double fill)
{
    const int n = in->shape.ndim;
    char text[TP_SHAPE_TEXT];
    memset(r, 0, sizeof *r);
    if (in->device && !in->device->host)
        return tp_fail(TP_ERR_ARG, "an image on a device cannot be augmented: bring it to the host first");
    if (!mask && in->dtype != TP_U8 && in->dtype != TP_F32)
        return tp_fail(TP_ERR_DTYPE, "an image to be augmented is uint8 or float32, this one is %s",
                       tp_dtype_name(in->dtype));
    if (n < 2 || n > 3 || tp_shape_size(&in->shape) < 1 || !in->data || tp_dtype_size(in->dtype) == 0)
        return tp_fail(TP_ERR_SHAPE, "an image to be augmented has shape (H,W) or (H,W,C), this one has %s",
                       tp_shape_text(&in->shape, text));
    if (t->h < 1) return tp_fail(TP_ERR_STATE, "the transform has no steps: tp_aug_draw comes first");
    if (in->shape.dim[0] != t->h || in->shape.dim[1] != t->w)
        return tp_fail(TP_ERR_SHAPE, "the transform was drawn for an image of %lldx%lld, this one has shape %s",
                       (long long)t->h, (long long)t->w, tp_shape_text(&in->shape, text));
    r->t = t;
    r->mask = mask;
    r->fill = fill;
    r->buffer = -1;
    r->x.data = (char *)in->data;
    r->x.dtype = in->dtype;
    r->x.h = t->h;
    r->x.w = t->w;
    r->x.c = n == 3 ? in->shape.dim[2] : 1;
    r->x.ndim = n;
    r->x.stride = (int64_t)tp__aug_row_bytes(&r->x);
    return TP_OK;
}

/* Swaps the result with the caller's tensor. */
static tp_status tp__aug_finish(tp__aug_run *r, tp_tensor *out)
{
    const tp_status st = tp__aug_make_writable(r);
    if (st != TP_OK) return st;
    const int64_t dim[3] = {r->x.h, r->x.w, r->x.c};
    tp_tensor *from = &r->t->image_[r->buffer], keep = *out;
    *out = *from;
    out->shape = tp_make_shape_n(r->x.ndim, dim);
    *from = keep;
    return TP_OK;
}

static tp_status tp__aug_apply(tp_transform *t, const tp_tensor *in, bool mask, double fill, tp_tensor *out)
{
    tp__aug_run r;
    tp_status st = tp__aug_start(&r, t, in, mask, fill);
    for (int i = 0; i < t->n && st == TP_OK; i++) {
        r.wide = t->step_[i].augmentor->wide;
        if (!mask || t->step_[i].kind->moves_pixels) st = t->step_[i].kind->image(&r, &t->step_[i]);
    }
    return st == TP_OK ? tp__aug_finish(&r, out) : st;
}

TP_DEF tp_status tp_aug_apply_image(tp_transform *t, const tp_tensor *image, tp_tensor *out)
{
    TP__REQUIRE(t && image && out, TP_ERR_ARG)
    return tp__aug_apply(t, image, false, 0, out);
}
TP_DEF tp_status tp_aug_apply_mask(tp_transform *t, const tp_tensor *mask, double fill, tp_tensor *out)
{
    TP__REQUIRE(t && mask && out, TP_ERR_ARG)
    return tp__aug_apply(t, mask, true, fill, out);
}

/* Transforms n points, `step` floats apart. */
static tp_status tp__aug_points(const tp_transform *t, float *p, int64_t n, int64_t step)
{
    for (int i = 0; i < t->n; i++) {
        const tp__aug_step *s = &t->step_[i];
        if (!s->kind->moves_pixels) continue;
        if (!s->kind->point)
            return tp_fail(TP_ERR_UNSUPPORTED, "%s: without coords_fn it cannot be applied to points",
                           s->augmentor->name);
        for (int64_t k = 0; k < n; k++) s->kind->point(s, p + k * step, p + k * step + 1);
    }
    return TP_OK;
}

/* Copies `in` to out, if it is a float32 tensor with that many columns. */
static tp_status tp__aug_points_start(const tp_transform *t, const tp_tensor *in, int64_t columns,
                                      const char *points_name, tp_tensor *out)
{
    char text[TP_SHAPE_TEXT];
    if (in->device && !in->device->host) return tp_fail(TP_ERR_ARG, "%s must be in host memory", points_name);
    if (in->dtype != TP_F32)
        return tp_fail(TP_ERR_DTYPE, "%s must be float32, these are %s", points_name, tp_dtype_name(in->dtype));
    if (in->shape.ndim != 2 || in->shape.dim[1] != columns || in->shape.dim[0] < 0 || (!in->data && in->shape.dim[0]))
        return tp_fail(TP_ERR_SHAPE, "%s must have shape (N,%lld), these have %s", points_name, (long long)columns,
                       tp_shape_text(&in->shape, text));
    if (t->h < 1) return tp_fail(TP_ERR_STATE, "the transform has no steps: tp_aug_draw comes first");
    return tp_tensor_copy(out, in);
}

TP_DEF tp_status tp_aug_apply_coords(const tp_transform *t, const tp_tensor *points, tp_tensor *out)
{
    TP__REQUIRE(t && points && out, TP_ERR_ARG)
    const tp_status st = tp__aug_points_start(t, points, 2, "points", out);
    return st == TP_OK ? tp__aug_points(t, (float *)out->data, out->shape.dim[0], 2) : st;
}

TP_DEF tp_status tp_aug_apply_boxes(const tp_transform *t, const tp_tensor *boxes, tp_tensor *out)
{
    TP__REQUIRE(t && boxes && out, TP_ERR_ARG)
    tp_status st = tp__aug_points_start(t, boxes, 4, "boxes", out);
    if (st != TP_OK) return st;
    float *box = (float *)out->data;
    for (int64_t i = 0; i < out->shape.dim[0] && st == TP_OK; i++, box += 4) {
        float corner[8] = {box[0], box[1], box[2], box[1], box[2], box[3], box[0], box[3]};
        st = tp__aug_points(t, corner, 4, 2);
        for (int k = 0; k < 2; k++) {
            box[k] = box[k + 2] = corner[k];
            for (int j = 1; j < 4; j++) {
                if (corner[2 * j + k] < box[k]) box[k] = corner[2 * j + k];
                if (corner[2 * j + k] > box[k + 2]) box[k + 2] = corner[2 * j + k];
            }
        }
    }
    return st;
}

TP__COLD_END

/* -- moving pixels: crop, flip, transpose, pad, paste ---- >>aug move */

/* Returns the number of bytes of a pixel. */
static int64_t tp__aug_pixel(const tp__pixels *x) { return x->c * (int64_t)tp_dtype_size(x->dtype); }

static tp_status tp__aug_crop_image(tp__aug_run *r, const tp__aug_step *s)
{
    r->x.data += (int64_t)s->number[0] * r->x.stride + (int64_t)s->number[1] * tp__aug_pixel(&r->x);
    r->x.h = (int64_t)s->number[2];
    r->x.w = (int64_t)s->number[3];
    return TP_OK;
}
static void tp__aug_crop_point(const tp__aug_step *s, float *x, float *y)
{
    *x -= (float)s->number[1];
    *y -= (float)s->number[0];
}
static const tp__aug_kind tp__aug_crop = {"Crop", "y0 x0 h w", true, tp__aug_crop_image, tp__aug_crop_point};

static void tp__aug_reverse1(char *to, const char *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] = from[n - 1 - i];
}
/* Five pixels of three bytes are a vector of 16 bytes, with one byte of a sixth pixel, which is written, too, and overwritten by
 * the next vector. Both functions return the number of pixels done; the last ones are left. */
#if TP__AUG_AVX2 && TP__AUG_SHUFFLES
typedef char tp__aug_sixteen __attribute__((vector_size(16)));
TP__LOOPS __attribute__((target("avx2"))) static int64_t tp__aug_reverse3_avx2(char *to, const char *from, int64_t n)
{
    int64_t i = 0;
    for (; i + 6 <= n; i += 5) {
        tp__aug_sixteen v;
        memcpy(&v, from + 3 * (n - 5 - i) - 1, sizeof v);
        v = __builtin_shufflevector(v, v, 13, 14, 15, 10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3, 0);
        memcpy(to + 3 * i, &v, sizeof v);
    }
    return i;
}
TP__LOOPS __attribute__((target("avx2"))) static int64_t tp__aug_swap3_avx2(char *to, const char *from, int64_t n)
{
    int64_t i = 0;
    for (; i + 6 <= n; i += 5) {
        tp__aug_sixteen v;
        memcpy(&v, from + 3 * i, sizeof v);
        v = __builtin_shufflevector(v, v, 2, 1, 0, 5, 4, 3, 8, 7, 6, 11, 10, 9, 14, 13, 12, 15);
        memcpy(to + 3 * i, &v, sizeof v);
    }
    return i;
}
#else
static int64_t tp__aug_reverse3_avx2(char *to, const char *from, int64_t n) { return (void)to, (void)from, (void)n, 0; }
static int64_t tp__aug_swap3_avx2(char *to, const char *from, int64_t n) { return (void)to, (void)from, (void)n, 0; }
#endif
/* Copies pixels of three bytes by writing four: the next pixel overwrites the fourth byte. */
static void tp__aug_reverse3(bool wide, char *to, const char *from, int64_t n)
{
    int64_t i = wide ? tp__aug_reverse3_avx2(to, from, n) : 0;
    to += 3 * i;
    n -= i;
    const char *p = from + 3 * (n - 1);
    if (n > 0) memcpy(to, p, 3); /* the byte after the last pixel must not be read */
    for (i = 1; i + 1 < n; i++) {
        uint32_t four_bytes;
        memcpy(&four_bytes, p - 3 * i, 4);
        memcpy(to + 3 * i, &four_bytes, 4);
    }
    if (n > 1) memcpy(to + 3 * (n - 1), from, 3);
}
static void tp__aug_reverse4(char *to, const char *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) memcpy(to + 4 * i, from + 4 * (n - 1 - i), 4);
}
static void tp__aug_reverse12(char *to, const char *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) memcpy(to + 12 * i, from + 12 * (n - 1 - i), 12);
}

static tp_status tp__aug_flip_image(tp__aug_run *r, const tp__aug_step *s)
{
    const tp_status st = tp__aug_reserve_like(r, r->x.h, r->x.w);
    if (st != TP_OK) return st;
    const int64_t size = tp__aug_pixel(&r->x), w = r->x.w;
    for (int64_t i = 0; i < r->x.h; i++) {
        char *to = r->y.data + i * r->y.stride;
        const char *from = r->x.data + (s->number[0] > 0 ? i : r->x.h - 1 - i) * r->x.stride;
        if (!(s->number[0] > 0)) memcpy(to, from, (size_t)(w * size));
        else if (size == 1) tp__aug_reverse1(to, from, w);
        else if (size == 3) tp__aug_reverse3(r->wide, to, from, w);
        else if (size == 4) tp__aug_reverse4(to, from, w);
        else if (size == 12) tp__aug_reverse12(to, from, w);
        else
            for (int64_t j = 0; j < w; j++) memcpy(to + j * size, from + (w - 1 - j) * size, (size_t)size);
    }
    tp__aug_use_result(r);
    return TP_OK;
}
static void tp__aug_flip_point(const tp__aug_step *s, float *x, float *y)
{
    if (s->number[0] > 0) *x = (float)s->w - *x;
    else *y = (float)s->h - *y;
}
static const tp__aug_kind tp__aug_flip = {"Flip", "horiz", true, tp__aug_flip_image, tp__aug_flip_point};

/* Writes a row of pixels, each taken from the column that a table gives. */
TP__HOT static void tp__aug_gather_row(char *to, const char *from, const int32_t *column, int64_t n, size_t size)
{
    if (size == 1)
        for (int64_t j = 0; j < n; j++) to[j] = from[column[j]];
    else if (size == 3)
        for (int64_t j = 0; j < n; j++) memcpy(to + 3 * j, from + 3 * (int64_t)column[j], 3);
    else if (size == 4)
        for (int64_t j = 0; j < n; j++) memcpy(to + 4 * j, from + 4 * (int64_t)column[j], 4);
    else if (size == 12)
        for (int64_t j = 0; j < n; j++) memcpy(to + 12 * j, from + 12 * (int64_t)column[j], 12);
    else
        for (int64_t j = 0; j < n; j++) memcpy(to + j * (int64_t)size, from + column[j] * (int64_t)size, size);
}

/* Transposes tiles, so that the lines of memory which a tile reads and writes stay in the cache. Of three bytes, four are
 * copied: the next pixel overwrites the fourth. */
TP__AUG_BODY void tp__aug_transpose_of(const tp__pixels *to, const tp__pixels *from, int64_t size)
{
    const int64_t side = 16;
    for (int64_t i0 = 0; i0 < to->h; i0 += side)
        for (int64_t j0 = 0; j0 < to->w; j0 += side) {
            const int64_t i1 = to->h < i0 + side ? to->h : i0 + side, j1 = to->w < j0 + side ? to->w : j0 + side;
            for (int64_t i = i0; i < i1; i++) {
                char *at = to->data + i * to->stride;
                const char *pixel = from->data + i * size;
                int64_t j = j0;
                for (; j < j1 - 1; j++) memcpy(at + j * size, pixel + j * from->stride, size == 3 ? 4 : (size_t)size);
                memcpy(at + j * size, pixel + j * from->stride, (size_t)size);
            }
        }
}
TP__HOT static void tp__aug_transpose_pixels(const tp__pixels *to, const tp__pixels *from, int64_t size)
{
    if (size == 1) tp__aug_transpose_of(to, from, 1);
    else if (size == 3) tp__aug_transpose_of(to, from, 3);
    else if (size == 4) tp__aug_transpose_of(to, from, 4);
    else if (size == 12) tp__aug_transpose_of(to, from, 12);
    else tp__aug_transpose_of(to, from, size);
}
static tp_status tp__aug_transpose_image(tp__aug_run *r, const tp__aug_step *s)
{
    (void)s;
    const tp_status st = tp__aug_reserve_like(r, r->x.w, r->x.h);
    if (st != TP_OK) return st;
    tp__aug_transpose_pixels(&r->y, &r->x, tp__aug_pixel(&r->x));
    tp__aug_use_result(r);
    return TP_OK;
}
static void tp__aug_transpose_point(const tp__aug_step *s, float *x, float *y)
{
    const float swap = *x;
    (void)s;
    *x = *y;
    *y = swap;
}
static const tp__aug_kind tp__aug_transpose = {"Transpose", "", true, tp__aug_transpose_image, tp__aug_transpose_point};

/* Returns the index of the pixel at position i of a row of n pixels, where i may be outside the row. -1: use the border
 * value. */
static int64_t tp__aug_edge(int64_t i, int64_t n, int edge)
{
    if (i >= 0 && i < n) return i;
    if (edge == TP_EDGE_CONSTANT) return -1;
    if (edge == TP_EDGE_REPLICATE) return i < 0 ? 0 : n - 1;
    const int64_t period = edge == TP_EDGE_WRAP ? n : edge == TP_EDGE_REFLECT ? 2 * n : n > 1 ? 2 * n - 2 : 1;
    i %= period;
    if (i < 0) i += period;
    if (i < n) return i;
    return edge == TP_EDGE_REFLECT ? 2 * n - 1 - i : 2 * n - 2 - i;
}

/* Stores one element in the image's dtype; values for bytes are limited and rounded. */
static size_t tp__aug_element(char out[8], tp_dtype dtype, double value)
{
    if (dtype == TP_U8) {
        out[0] = (char)(unsigned char)(value >= 255 ? 255 : value > 0 ? value + 0.5 : 0);
        return 1;
    }
    tp_convert(out, dtype, &value, TP_F64, 1);
    return tp_dtype_size(dtype);
}
TP__HOT static void tp__aug_fill(char *to, int64_t n, const char *element, size_t size)
{
    if (size == 1) memset(to, *element, (size_t)n);
    else if (size == 4) {
        uint32_t four_bytes;
        memcpy(&four_bytes, element, 4);
        for (int64_t i = 0; i < n; i++) memcpy(to + 4 * i, &four_bytes, 4);
    } else
        for (int64_t i = 0; i < n; i++) memcpy(to + i * (int64_t)size, element, size);
}

static tp_status tp__aug_pad_image(tp__aug_run *r, const tp__aug_step *s)
{
    const int64_t top = (int64_t)s->number[0], left = (int64_t)s->number[1], h = (int64_t)s->number[2],
                  w = (int64_t)s->number[3];
    const int edge = (int)s->number[4];
    const tp_status st = tp__aug_reserve_like(r, h, w);
    if (st != TP_OK) return st;
    char element[8];
    const size_t width = tp__aug_element(element, r->x.dtype, r->mask ? r->fill : s->number[5]);
    const int64_t size = tp__aug_pixel(&r->x), end = left + r->x.w;
    if (edge == TP_EDGE_CONSTANT) { /* the right border of a row and the left one of the next are filled at once */
        int64_t done = 0;           /* pixels */
        for (int64_t i = 0; i < r->x.h; i++) {
            const int64_t at = (top + i) * w + left;
            tp__aug_fill(r->y.data + done * size, (at - done) * r->x.c, element, width);
            memcpy(r->y.data + at * size, r->x.data + i * r->x.stride, (size_t)(r->x.w * size));
            done = at + r->x.w;
        }
        tp__aug_fill(r->y.data + done * size, (h * w - done) * r->x.c, element, width);
    }
    if (edge != TP_EDGE_CONSTANT && tp_tensor_resize(&r->t->row_[0], TP_I32, tp_make_shape_n(1, &w)) != TP_OK)
        return TP_ERR_NOMEM;
    int32_t *column = (int32_t *)r->t->row_[0].data;
    for (int64_t j = 0; j < w && edge != TP_EDGE_CONSTANT; j++)
        column[j] = (int32_t)tp__aug_edge(j - left, r->x.w, edge);
    for (int64_t i = 0; i < h && edge != TP_EDGE_CONSTANT; i++) {
        char *to = r->y.data + i * r->y.stride;
        const char *from = r->x.data + tp__aug_edge(i - top, r->x.h, edge) * r->x.stride;
        tp__aug_gather_row(to, from, column, left, (size_t)size);
        memcpy(to + left * size, from, (size_t)(r->x.w * size));
        tp__aug_gather_row(to + end * size, from, column + end, w - end, (size_t)size);
    }
    tp__aug_use_result(r);
    return TP_OK;
}
static void tp__aug_pad_point(const tp__aug_step *s, float *x, float *y)
{
    *x += (float)s->number[1];
    *y += (float)s->number[0];
}
static const tp__aug_kind tp__aug_pad = {"Pad", "top left h w border value", true, tp__aug_pad_image,
                                         tp__aug_pad_point};

/* -- rows as float ---- >>aug rows */

TP__AUG_BODY void tp__aug_floats_body(float *to, const unsigned char *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] = (float)from[i];
}
TP__AUG_KERNEL(tp__aug_floats, (to, from, n), float *to, const unsigned char *from, int64_t n)

/* Limits a number to 0..255 and drops the fraction. NaN becomes 0. */
TP__AUG_BODY unsigned char tp__aug_to_byte(float v)
{
    v = v > 0.0f ? v : 0.0f;
    v = v < 255.0f ? v : 255.0f;
    return (unsigned char)(int)v;
}
TP__AUG_BODY void tp__aug_bytes_body(unsigned char *to, const float *from, float plus, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] = tp__aug_to_byte(from[i] + plus);
}
TP__AUG_KERNEL(tp__aug_bytes, (to, from, plus, n), unsigned char *to, const float *from, float plus, int64_t n)

TP__AUG_BODY void tp__aug_limit_body(float *x, float low, float high, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float v = x[i] > low ? x[i] : low;
        x[i] = v < high ? v : high;
    }
}
TP__AUG_KERNEL(tp__aug_limit, (x, low, high, n), float *x, float low, float high, int64_t n)

static void tp__aug_get_row(bool wide, float *to, const tp__pixels *x, int64_t i)
{
    const int64_t n = x->w * x->c;
    if (x->dtype == TP_U8) tp__aug_floats(wide, to, (const unsigned char *)x->data + i * x->stride, n);
    else memcpy(to, x->data + i * x->stride, (size_t)n * sizeof(float));
}
/* Stores floats as a row of pixels. plus: 0.5 rounds bytes to the nearest, 0 drops the fraction. */
static void tp__aug_put_row(bool wide, const float *from, const tp__pixels *x, int64_t i, float plus)
{
    const int64_t n = x->w * x->c;
    if (x->dtype == TP_U8) tp__aug_bytes(wide, (unsigned char *)x->data + i * x->stride, from, plus, n);
    else memcpy(x->data + i * x->stride, from, (size_t)n * sizeof(float));
}

/* Splits n pixels of three channels into three rows of floats, and joins them again. */
TP__AUG_BODY void tp__aug_split_bytes_body(float *a, float *b, float *c, const unsigned char *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        a[i] = (float)from[3 * i];
        b[i] = (float)from[3 * i + 1];
        c[i] = (float)from[3 * i + 2];
    }
}
TP__AUG_KERNEL(tp__aug_split_bytes, (a, b, c, from, n), float *a, float *b, float *c, const unsigned char *from,
               int64_t n)
TP__AUG_BODY void tp__aug_split_floats_body(float *a, float *b, float *c, const float *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        a[i] = from[3 * i];
        b[i] = from[3 * i + 1];
        c[i] = from[3 * i + 2];
    }
}
TP__AUG_KERNEL(tp__aug_split_floats, (a, b, c, from, n), float *a, float *b, float *c, const float *from, int64_t n)
TP__AUG_BODY void tp__aug_join_bytes_body(unsigned char *to, const float *a, const float *b, const float *c, float plus,
                                          int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        to[3 * i] = tp__aug_to_byte(a[i] + plus);
        to[3 * i + 1] = tp__aug_to_byte(b[i] + plus);
        to[3 * i + 2] = tp__aug_to_byte(c[i] + plus);
    }
}
TP__AUG_KERNEL(tp__aug_join_bytes, (to, a, b, c, plus, n), unsigned char *to, const float *a, const float *b,
               const float *c, float plus, int64_t n)
TP__AUG_BODY void tp__aug_join_floats_body(float *to, const float *a, const float *b, const float *c, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        to[3 * i] = a[i];
        to[3 * i + 1] = b[i];
        to[3 * i + 2] = c[i];
    }
}
TP__AUG_KERNEL(tp__aug_join_floats, (to, a, b, c, n), float *to, const float *a, const float *b, const float *c,
               int64_t n)

static void tp__aug_split_row(bool wide, float *const *to, const tp__pixels *x, int64_t i)
{
    const void *from = x->data + i * x->stride;
    if (x->dtype == TP_U8) tp__aug_split_bytes(wide, to[0], to[1], to[2], (const unsigned char *)from, x->w);
    else tp__aug_split_floats(wide, to[0], to[1], to[2], (const float *)from, x->w);
}
static void tp__aug_join_row(bool wide, float *const *from, const tp__pixels *x, int64_t i, float plus)
{
    void *to = x->data + i * x->stride;
    if (x->dtype == TP_U8) tp__aug_join_bytes(wide, (unsigned char *)to, from[0], from[1], from[2], plus, x->w);
    else tp__aug_join_floats(wide, (float *)to, from[0], from[1], from[2], x->w);
}

/* A function that changes n pixels. x: a row for each of the three channels, which may change places; p: the numbers that the
 * augmentation step stores. */
typedef void (*tp__aug_row_fn)(bool wide, float **x, int64_t n, const float *p);

/* Changes an image of three channels row by row, as floats, into y; which may be x. clip: float32 images are limited to 0..255,
 * too. */
static tp_status tp__aug_rows(tp__aug_run *r, const tp__pixels *y, tp__aug_row_fn fn, const float *p, float plus,
                              bool clip)
{
    const int64_t w = r->x.w;
    float *row = tp__aug_work(r, 0, 3 * w);
    if (!row) return TP_ERR_NOMEM;
    for (int64_t i = 0; i < r->x.h; i++) {
        float *channels[3] = {row, row + w, row + 2 * w};
        tp__aug_split_row(r->wide, channels, &r->x, i);
        fn(r->wide, channels, w, p);
        if (clip && y->dtype == TP_F32) tp__aug_limit(r->wide, row, 0.0f, 255.0f, 3 * w);
        tp__aug_join_row(r->wide, channels, y, i, plus);
    }
    return TP_OK;
}

/* Tells of a float image in [0,1] that a step takes for one in [0,255]. A dark one in [0,255] looks the same: no error. */
static void tp__aug_want_bytes(const tp__aug_run *r, const tp__aug_step *s)
{
    bool any = false;
    for (int64_t i = 0; i < r->x.h && r->x.dtype == TP_F32; i++) {
        const float *row = (const float *)(const void *)(r->x.data + i * r->x.stride);
        for (int64_t k = 0; k < r->x.w * r->x.c; k++) {
            if (row[k] > 1 || row[k] < 0) return;
            any = any || row[k] > 0;
        }
    }
    if (any)
        tp_log_once(TP_LOG_WARN,
                    "%s takes pixels for values of 0 to 255, and none of a float32 image is above 1: if its values are "
                    "0 to 1, multiply them by 255 before, and divide them afterwards",
                    s->kind->name);
}
static tp_status tp__aug_need_rgb(const tp__aug_run *r, const tp__aug_step *s)
{
    if (r->x.c == 3) return TP_OK;
    return tp_fail(TP_ERR_SHAPE, "%s: the image has %lld channels, it must have 3", s->augmentor->name,
                   (long long)r->x.c);
}

/* -- resampling: resize and blur ---- >>aug resample */

enum { TP__AUG_BLUR = 100, TP__AUG_ANTIALIAS = 16 };

static double tp__aug_sinc(double x)
{
    if (x > -1e-9 && x < 1e-9) return 1;
    return sin(3.14159265358979323846 * x) / (3.14159265358979323846 * x);
}
static double tp__aug_cubic(double x, double a)
{
    x = x < 0 ? -x : x;
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}
static double tp__aug_kernel(int inter, bool antialias, double x)
{
    const double d = x < 0 ? -x : x, lobes = antialias ? 3 : 4;
    if (inter == TP_INTER_LINEAR) return d < 1 ? 1 - d : 0;
    if (inter == TP_INTER_CUBIC) return tp__aug_cubic(x, antialias ? -0.5 : -0.75);
    return d < lobes ? tp__aug_sinc(x) * tp__aug_sinc(x / lobes) : 0;
}

/* The input pixels that output pixel i depends on: the first, their number, and the weight of pixel k. */
typedef struct tp__aug_window {
    int64_t first, n;
    double center, scale, width;
    int inter;
    bool antialias;
} tp__aug_window;

static int64_t tp__aug_support(int inter, bool antialias) /* half the number of pixels of the kernel */
{
    return inter == TP_INTER_LINEAR ? 1 : inter == TP_INTER_CUBIC ? 2 : antialias ? 3 : 4;
}
static void tp__aug_window_at(tp__aug_window *v, int64_t i, int64_t in)
{
    const int64_t support = v->inter == TP_INTER_AREA ? 0 : tp__aug_support(v->inter, v->antialias);
    v->center = ((double)i + 0.5) * v->scale;
    if (v->inter == TP_INTER_AREA) {
        v->first = (int64_t)floor((double)i * v->scale);
        v->n = (int64_t)ceil((double)(i + 1) * v->scale - 1e-9) - v->first;
    } else if (v->antialias) {
        const double radius = (double)support * v->width;
        const int64_t low = (int64_t)floor(v->center - radius + 0.5), high = (int64_t)floor(v->center + radius + 0.5);
        v->first = low < 0 ? 0 : low;
        v->n = (high > in ? in : high) - v->first;
    } else {
        v->first = (int64_t)floor(v->center - 0.5) - support + 1;
        v->n = 2 * support;
    }
}
static double tp__aug_weight(const tp__aug_window *v, int64_t k)
{
    if (v->inter != TP_INTER_AREA)
        return tp__aug_kernel(v->inter, v->antialias, ((double)k + 0.5 - v->center) / v->width);
    const double low = v->center - 0.5 * v->scale, high = low + v->scale;
    const double from = (double)k > low ? (double)k : low, to = (double)(k + 1) < high ? (double)(k + 1) : high;
    return to > from ? to - from : 0;
}

/* Makes room for `out` windows of at most n pixels each over `in` pixels. */
static tp_status tp__aug_taps_reserve(tp__aug_taps *t, int64_t in, int64_t out, int64_t n)
{
    const int64_t taps = n < in ? n : in, dim[2] = {out, taps};
    t->in = 0; /* 0 means that the windows are not filled yet */
    tp_status st = tp_tensor_resize(&t->start, TP_I32, tp_make_shape_n(1, &out));
    if (st == TP_OK) st = tp_tensor_resize(&t->weight, TP_F32, tp_make_shape_n(2, dim));
    t->taps = (int)taps;
    return st;
}
/* Fills the window of output pixel i, which begins at pixel `first`; weights of pixels beyond the edge are added to the
 * last pixel inside. */
static void tp__aug_taps_put(tp__aug_taps *t, int64_t in, int64_t i, int64_t first, const double *weight, int64_t n)
{
    int64_t start = first < 0 ? 0 : first;
    if (start > in - t->taps) start = in - t->taps;
    float *w = (float *)t->weight.data + i * t->taps;
    double sum = 0;
    for (int64_t k = 0; k < n; k++) sum += weight[k];
    for (int64_t k = 0; k < t->taps; k++) w[k] = 0;
    for (int64_t k = 0; k < n; k++) {
        const int64_t at = first + k < 0 ? 0 : first + k >= in ? in - 1 : first + k;
        if (at - start >= 0 && at - start < t->taps) w[at - start] += (float)(weight[k] / sum);
    }
    ((int32_t *)t->start.data)[i] = (int32_t)start;
}

/* Computes the windows of a resize from `in` to `out`. kind: a tp_inter, plus TP__AUG_ANTIALIAS with antialias. */
static tp_status tp__aug_taps_resize(tp__aug_taps *t, int64_t in, int64_t out, int kind, tp_tensor *work)
{
    if (t->in == in && t->out == out && t->kind == kind) return TP_OK;
    tp__aug_window v;
    memset(&v, 0, sizeof v);
    v.inter = kind & (TP__AUG_ANTIALIAS - 1);
    v.antialias = kind >= TP__AUG_ANTIALIAS && v.inter != TP_INTER_AREA;
    v.scale = (double)in / (double)out;
    v.width = v.antialias && v.scale > 1 ? v.scale : 1;
    const int64_t max_taps = v.inter == TP_INTER_AREA
                                 ? (int64_t)ceil(v.scale) + 1
                                 : 2 * (int64_t)ceil((double)tp__aug_support(v.inter, v.antialias) * v.width) + 1;
    const int64_t n = v.antialias || v.inter == TP_INTER_AREA ? max_taps : max_taps - 1;
    tp_status st = tp__aug_taps_reserve(t, in, out, n);
    if (st == TP_OK) st = tp_tensor_resize(work, TP_F64, tp_make_shape_n(1, &max_taps));
    if (st != TP_OK) return st;
    double *weight = (double *)work->data;
    for (int64_t i = 0; i < out; i++) {
        tp__aug_window_at(&v, i, in);
        for (int64_t k = 0; k < v.n && k < max_taps; k++) weight[k] = tp__aug_weight(&v, v.first + k);
        tp__aug_taps_put(t, in, i, v.first, weight, v.n < max_taps ? v.n : max_taps);
    }
    t->in = in;
    t->out = out;
    t->kind = kind;
    return TP_OK;
}

/* Computes the windows of a Gaussian of n pixels (odd). */
static tp_status tp__aug_taps_blur(tp__aug_taps *t, int64_t in, int64_t n, double sigma, tp_tensor *work)
{
    /* OpenCV's small kernels; their sums are 1, 4, 16, 32 */
    static const double fixed_weights[4][7] = {{1}, {1, 2, 1}, {1, 4, 6, 4, 1}, {1, 3.5, 7, 9, 7, 3.5, 1}};
    const int kind = TP__AUG_BLUR + (int)n;
    if (t->in == in && t->out == in && t->kind == kind && !(t->size < sigma || t->size > sigma)) return TP_OK;
    tp_status st = tp__aug_taps_reserve(t, in, in, n);
    if (st == TP_OK) st = tp_tensor_resize(work, TP_F64, tp_make_shape_n(1, &n));
    if (st != TP_OK) return st;
    double *weight = (double *)work->data;
    const double deviation = sigma > 0 ? sigma : 0.3 * ((double)(n - 1) * 0.5 - 1) + 0.8;
    for (int64_t k = 0; k < n; k++) {
        const double d = ((double)k - (double)(n - 1) * 0.5) / deviation;
        weight[k] = sigma > 0 || n > 7 ? exp(-0.5 * d * d) : fixed_weights[n / 2][k];
    }
    for (int64_t i = 0; i < in; i++) tp__aug_taps_put(t, in, i, i - n / 2, weight, n);
    t->in = t->out = in;
    t->kind = kind;
    t->size = sigma;
    return TP_OK;
}

/* Computes to = w[0] row 0 + ... of m rows, at most 5, or adds that to `to`. */
TP__AUG_BODY void tp__aug_mix_some_bytes(float *to, const unsigned char *from, int64_t stride, const float *w, int m,
                                         bool add, int64_t n)
{
    float u[5] = {0, 0, 0, 0, 0};
    for (int k = 0; k < m; k++) u[k] = w[k];
    for (int64_t j = 0; j < n; j++) {
        float sum = u[0] * (float)from[j];
        if (add) sum = to[j] + sum;
        for (int k = 1; k < m; k++) sum += u[k] * (float)from[k * stride + j];
        to[j] = sum;
    }
}
TP__AUG_BODY void tp__aug_mix_some_floats(float *to, const float *from, int64_t stride, const float *w, int m, bool add,
                                          int64_t n)
{
    float u[5] = {0, 0, 0, 0, 0};
    for (int k = 0; k < m; k++) u[k] = w[k];
    for (int64_t j = 0; j < n; j++) {
        float sum = u[0] * from[j];
        if (add) sum = to[j] + sum;
        for (int k = 1; k < m; k++) sum += u[k] * from[k * stride + j];
        to[j] = sum;
    }
}
/* Computes a weighted sum of rows: 1 to 5 of them, then four at a time. */
TP__AUG_BODY void tp__aug_mix_bytes_body(float *to, const unsigned char *from, int64_t stride, const float *w, int taps,
                                         int64_t n)
{
    int k = taps < 2 ? taps : 2 + (taps - 2) % 4;
    if (k == 1) tp__aug_mix_some_bytes(to, from, stride, w, 1, false, n);
    else if (k == 2) tp__aug_mix_some_bytes(to, from, stride, w, 2, false, n);
    else if (k == 3) tp__aug_mix_some_bytes(to, from, stride, w, 3, false, n);
    else if (k == 4) tp__aug_mix_some_bytes(to, from, stride, w, 4, false, n);
    else tp__aug_mix_some_bytes(to, from, stride, w, 5, false, n);
    for (; k < taps; k += 4) tp__aug_mix_some_bytes(to, from + k * stride, stride, w + k, 4, true, n);
}
TP__AUG_KERNEL(tp__aug_mix_bytes, (to, from, stride, w, taps, n), float *to, const unsigned char *from, int64_t stride,
               const float *w, int taps, int64_t n)
TP__AUG_BODY void tp__aug_mix_floats_body(float *to, const float *from, int64_t stride, const float *w, int taps,
                                          int64_t n)
{
    int k = taps < 2 ? taps : 2 + (taps - 2) % 4;
    if (k == 1) tp__aug_mix_some_floats(to, from, stride, w, 1, false, n);
    else if (k == 2) tp__aug_mix_some_floats(to, from, stride, w, 2, false, n);
    else if (k == 3) tp__aug_mix_some_floats(to, from, stride, w, 3, false, n);
    else if (k == 4) tp__aug_mix_some_floats(to, from, stride, w, 4, false, n);
    else tp__aug_mix_some_floats(to, from, stride, w, 5, false, n);
    for (; k < taps; k += 4) tp__aug_mix_some_floats(to, from + k * stride, stride, w + k, 4, true, n);
}
TP__AUG_KERNEL(tp__aug_mix_floats, (to, from, stride, w, taps, n), float *to, const float *from, int64_t stride,
               const float *w, int taps, int64_t n)

/* A pixel of three floats, with the float behind it: four are one vector. */
#if defined(__GNUC__)
typedef float tp__aug_four __attribute__((vector_size(16)));
#else
typedef struct tp__aug_four {
    float x[4];
} tp__aug_four;
#endif
TP__AUG_BODY tp__aug_four tp__aug_times_four(float w, const float *pixel)
{
    tp__aug_four x;
    memcpy(&x, pixel, sizeof x);
#if defined(__GNUC__)
    return w * x;
#else
    for (int i = 0; i < 4; i++) x.x[i] *= w;
    return x;
#endif
}
/* Returns sum + w pixel. */
TP__AUG_BODY tp__aug_four tp__aug_add_four(tp__aug_four sum, float w, const float *pixel)
{
    tp__aug_four x;
    memcpy(&x, pixel, sizeof x);
#if defined(__GNUC__)
    return sum + w * x;
#else
    for (int i = 0; i < 4; i++) sum.x[i] += w * x.x[i];
    return sum;
#endif
}
/* Computes a weighted sum of input pixels for each of n output pixels of three channels. It reads a float behind the last input
 * pixel and writes one behind the last output pixel. */
TP__AUG_BODY void tp__aug_mix_three_of(float *to, const float *from, const int32_t *start, const float *w, int taps,
                                       int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        const float *a = from + 3 * (int64_t)start[j], *v = w + j * taps;
        tp__aug_four sum = tp__aug_times_four(v[0], a);
        for (int k = 1; k < taps; k++) sum = tp__aug_add_four(sum, v[k], a + 3 * k);
        memcpy(to + 3 * j, &sum, sizeof sum);
    }
}
TP__AUG_BODY void tp__aug_mix_three_body(float *to, const float *from, const int32_t *start, const float *w, int taps,
                                         int64_t n)
{
    if (taps == 2) tp__aug_mix_three_of(to, from, start, w, 2, n);
    else if (taps == 4) tp__aug_mix_three_of(to, from, start, w, 4, n);
    else tp__aug_mix_three_of(to, from, start, w, taps, n);
}
TP__AUG_KERNEL(tp__aug_mix_three, (to, from, start, w, taps, n), float *to, const float *from, const int32_t *start,
               const float *w, int taps, int64_t n)
/* The same for c channels. */
TP__HOT static void tp__aug_mix_channels(float *to, const float *from, const int32_t *start, const float *w, int taps,
                                         int64_t n, int64_t c)
{
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < c; i++) {
            const float *a = from + c * (int64_t)start[j] + i;
            float sum = 0;
            for (int k = 0; k < taps; k++) sum += w[j * taps + k] * a[k * c];
            to[j * c + i] = sum;
        }
}
/* Mixes the pixels of a row. Those of a blur that are far from the edges all have the same weights: there the rows that are
 * mixed are the row itself, moved by one pixel, two, ... */
static void tp__aug_mix_pixels(bool wide, float *to, const float *from, const tp__aug_taps *t, int64_t c)
{
    const int32_t *start = (const int32_t *)t->start.data;
    const float *w = (const float *)t->weight.data;
    const bool same_weights = t->kind == TP__AUG_BLUR + t->taps;
    int64_t i = 0, n = same_weights ? t->taps / 2 : t->out;
    for (;;) {
        if (c == 3) tp__aug_mix_three(wide, to + i * c, from, start + i, w + i * t->taps, t->taps, n);
        else tp__aug_mix_channels(to + i * c, from, start + i, w + i * t->taps, t->taps, n, c);
        i += n;
        if (i == t->out) return;
        const int64_t inner = t->out - 2 * i;
        tp__aug_mix_floats(wide, to + i * c, from, c, w + i * t->taps, t->taps, inner * c);
        i += inner;
    }
}

/* Resizes to the size of the two tables: mixes whole rows first, then the pixels within a row, so that only the second pass goes
 * pixel by pixel. */
static tp_status tp__aug_resample(tp__aug_run *r, const tp__aug_taps *tx, const tp__aug_taps *ty)
{
    const int64_t n = r->x.w * r->x.c;
    const tp_status st = tp__aug_reserve_like(r, ty->out, tx->out);
    if (st != TP_OK) return st;
    float *mixed_row = tp__aug_work(r, 0, n + 1), *row = mixed_row ? tp__aug_work(r, 1, tx->out * r->x.c + 1) : NULL;
    if (!row) return TP_ERR_NOMEM;
    mixed_row[n] = 0; /* is read, but changes no result */
    for (int64_t i = 0; i < ty->out; i++) {
        const char *from = r->x.data + ((const int32_t *)ty->start.data)[i] * r->x.stride;
        const float *w = (const float *)ty->weight.data + i * ty->taps;
        if (r->x.dtype == TP_U8) {
            tp__aug_mix_bytes(r->wide, mixed_row, (const unsigned char *)from, r->x.stride, w, ty->taps, n);
        } else {
            const float *floats = (const float *)(const void *)from;
            tp__aug_mix_floats(r->wide, mixed_row, floats, r->x.stride / (int64_t)sizeof(float), w, ty->taps, n);
        }
        tp__aug_mix_pixels(r->wide, row, mixed_row, tx, r->x.c);
        tp__aug_put_row(r->wide, row, &r->y, i, 0.5f);
    }
    tp__aug_use_result(r);
    return TP_OK;
}

static tp_status tp__aug_resize_nearest(tp__aug_run *r, int64_t h, int64_t w)
{
    tp_status st = tp__aug_reserve_like(r, h, w);
    if (st == TP_OK) st = tp_tensor_resize(&r->t->row_[0], TP_I32, tp_make_shape_n(1, &w));
    if (st != TP_OK) return st;
    int32_t *column = (int32_t *)r->t->row_[0].data;
    for (int64_t j = 0; j < w; j++) column[j] = (int32_t)((2 * j + 1) * r->x.w / (2 * w));
    for (int64_t i = 0; i < h; i++)
        tp__aug_gather_row(r->y.data + i * r->y.stride, r->x.data + (2 * i + 1) * r->x.h / (2 * h) * r->x.stride,
                           column, w, (size_t)tp__aug_pixel(&r->x));
    tp__aug_use_result(r);
    return TP_OK;
}

static tp_status tp__aug_resize_image(tp__aug_run *r, const tp__aug_step *s)
{
    const int64_t h = (int64_t)s->number[0], w = (int64_t)s->number[1];
    const int inter = (int)s->number[2], kind = inter + (s->number[3] > 0 ? TP__AUG_ANTIALIAS : 0);
    tp__aug_taps *taps = r->t->taps_;
    /* no resize is needed: every kernel is 1 at 0 and 0 at the other integers */
    if (h == r->x.h && w == r->x.w) return TP_OK;
    if (r->mask || inter == TP_INTER_NEAREST) return tp__aug_resize_nearest(r, h, w);
    tp_status st = tp__aug_taps_resize(&taps[0], r->x.w, w, kind, &r->t->work_);
    if (st == TP_OK) st = tp__aug_taps_resize(&taps[1], r->x.h, h, kind, &r->t->work_);
    return st == TP_OK ? tp__aug_resample(r, &taps[0], &taps[1]) : st;
}
static void tp__aug_resize_point(const tp__aug_step *s, float *x, float *y)
{
    *x *= (float)(s->number[1] / (double)s->w);
    *y *= (float)(s->number[0] / (double)s->h);
}
static const tp__aug_kind tp__aug_resize = {"Resize", "h w interp antialias", true, tp__aug_resize_image,
                                            tp__aug_resize_point};

/* The small kernels of blurs are fractions of 4 or 16: bytes are blurred exactly in 16 bits. First rows are mixed, ... */
TP__AUG_BODY void tp__aug_blur_rows_of(uint16_t *to, const unsigned char *from, int64_t stride, const uint16_t *w,
                                       int taps, int64_t n)
{
    uint16_t u[5] = {0, 0, 0, 0, 0};
    for (int k = 0; k < taps; k++) u[k] = w[k];
    for (int64_t j = 0; j < n; j++) {
        uint16_t sum = (uint16_t)(u[0] * from[j]);
        for (int k = 1; k < taps; k++) sum = (uint16_t)(sum + u[k] * from[k * stride + j]);
        to[j] = sum;
    }
}
TP__AUG_BODY void tp__aug_blur_rows_body(uint16_t *to, const unsigned char *from, int64_t stride, const uint16_t *w,
                                         int taps, int64_t n)
{
    if (taps == 1) tp__aug_blur_rows_of(to, from, stride, w, 1, n);
    else if (taps == 3) tp__aug_blur_rows_of(to, from, stride, w, 3, n);
    else tp__aug_blur_rows_of(to, from, stride, w, 5, n);
}
TP__AUG_KERNEL(tp__aug_blur_rows, (to, from, stride, w, taps, n), uint16_t *to, const unsigned char *from,
               int64_t stride, const uint16_t *w, int taps, int64_t n)
/* ... then the elements of a row, whose neighbours are c elements apart. */
TP__AUG_BODY void tp__aug_blur_row_of(unsigned char *to, const uint16_t *from, int64_t c, const uint16_t *w, int taps,
                                      int shift, int64_t n)
{
    uint16_t u[5] = {0, 0, 0, 0, 0};
    for (int k = 0; k < taps; k++) u[k] = w[k];
    const uint16_t half = (uint16_t)((1 << shift) / 2);
    for (int64_t j = 0; j < n; j++) {
        uint16_t sum = half;
        for (int k = 0; k < taps; k++) sum = (uint16_t)(sum + u[k] * from[k * c + j]);
        to[j] = (unsigned char)(sum >> shift);
    }
}
TP__AUG_BODY void tp__aug_blur_row_body(unsigned char *to, const uint16_t *from, int64_t c, const uint16_t *w, int taps,
                                        int shift, int64_t n)
{
    if (taps == 3 && shift == 4) tp__aug_blur_row_of(to, from, c, w, 3, 4, n);
    else if (taps == 5 && shift == 8) tp__aug_blur_row_of(to, from, c, w, 5, 8, n);
    else if (taps < 5) tp__aug_blur_row_of(to, from, c, w, taps, shift, n);
    else tp__aug_blur_row_of(to, from, c, w, 5, shift, n);
}
TP__AUG_KERNEL(tp__aug_blur_row, (to, from, c, w, taps, shift, n), unsigned char *to, const uint16_t *from, int64_t c,
               const uint16_t *w, int taps, int shift, int64_t n)
static const uint16_t *tp__aug_small_weights(uint16_t *w, const tp__aug_taps *t, int64_t i, int shift)
{
    for (int k = 0; k < t->taps; k++)
        w[k] = (uint16_t)(((const float *)t->weight.data)[i * t->taps + k] * (float)(1 << shift));
    return w;
}
static tp_status tp__aug_blur_bytes(tp__aug_run *r, const tp__aug_taps *tx, const tp__aug_taps *ty)
{
    const int64_t c = r->x.c, w = r->x.w, edge = tx->taps / 2;
    const int shift_x = tx->taps - 1, shift_y = ty->taps - 1; /* a quarter: 3 taps, a sixteenth: 5 */
    const tp_status st = tp__aug_reserve_like(r, r->x.h, w);
    if (st != TP_OK) return st;
    uint16_t *row = (uint16_t *)(void *)tp__aug_work(r, 0, w * c), u[5];
    if (!row) return TP_ERR_NOMEM;
    for (int64_t i = 0; i < r->x.h; i++) {
        const char *from = r->x.data + ((const int32_t *)ty->start.data)[i] * r->x.stride;
        unsigned char *to = (unsigned char *)r->y.data + i * r->y.stride;
        tp__aug_small_weights(u, ty, i, shift_y);
        tp__aug_blur_rows(r->wide, row, (const unsigned char *)from, r->x.stride, u, ty->taps, w * c);
        for (int64_t j = 0; j < w; j++) {
            const bool inner = j == edge;
            const int64_t n = inner ? w - 2 * edge : 1;
            tp__aug_small_weights(u, tx, j, shift_x);
            tp__aug_blur_row(r->wide, to + j * c, row + ((const int32_t *)tx->start.data)[j] * c, c, u, tx->taps,
                             shift_x + shift_y, n * c);
            j += n - 1;
        }
    }
    tp__aug_use_result(r);
    return TP_OK;
}

static tp_status tp__aug_blur_image(tp__aug_run *r, const tp__aug_step *s)
{
    tp__aug_taps *taps = r->t->taps_;
    const bool is_small = s->number[0] <= 5 && s->number[1] <= 5 && !(s->number[2] > 0) && !(s->number[3] > 0) &&
                          r->x.w >= 5 && r->x.h >= 5;
    tp_status st = tp__aug_taps_blur(&taps[0], r->x.w, (int64_t)s->number[0], s->number[2], &r->t->work_);
    if (st == TP_OK) st = tp__aug_taps_blur(&taps[1], r->x.h, (int64_t)s->number[1], s->number[3], &r->t->work_);
    if (st == TP_OK && is_small && r->x.dtype == TP_U8) return tp__aug_blur_bytes(r, &taps[0], &taps[1]);
    return st == TP_OK ? tp__aug_resample(r, &taps[0], &taps[1]) : st;
}
static const tp__aug_kind tp__aug_blur = {"GaussianBlur", "size_x size_y sigma_x sigma_y", false, tp__aug_blur_image,
                                          NULL};

/* -- warping ---- >>aug warp */
/* The six numbers of the step map a pixel's index: x' = a x + b y + c, y' = d x + e y + f. */

/* Computes the inverse map. */
static void tp__aug_invert(const double *m, double *v)
{
    const double det = m[0] * m[4] - m[1] * m[3];
    v[0] = m[4] / det;
    v[1] = -m[1] / det;
    v[3] = -m[3] / det;
    v[4] = m[0] / det;
    v[2] = -(v[0] * m[2] + v[1] * m[5]);
    v[5] = -(v[3] * m[2] + v[4] * m[5]);
}

/* Where up to TP__AUG_PIECE pixels of a row come from. */
enum { TP__AUG_PIECE = 128 };
typedef struct tp__aug_places {
    int32_t x[TP__AUG_PIECE], y[TP__AUG_PIECE]; /* the pixel, rounded down */
    float tx[TP__AUG_PIECE], ty[TP__AUG_PIECE]; /* what was rounded off */
    float wx[4][TP__AUG_PIECE],
        wy[4][TP__AUG_PIECE]; /* CUBIC: weights of columns and rows; LINEAR: of 2x2 pixels, in wx */
} tp__aug_places;

/* Rounds v0 j + b + c + plus down, for n columns j from j0 on; rest may be NULL. No image reaches to the limits; `near` says
 * that no place does. */
#define TP__AUG_LIMIT 1073741824.0
TP__AUG_BODY void tp__aug_place(int32_t *whole, float *rest, double v0, double b, double c, double plus, int j0, int n,
                                bool near)
{
    for (int k = 0; k < n; k++) {
        double x = v0 * (double)(j0 + k) + b + c + plus;
        if (!near) {
            x = x > -TP__AUG_LIMIT ? x : -TP__AUG_LIMIT;
            x = x < TP__AUG_LIMIT ? x : TP__AUG_LIMIT;
        }
        const double towards_0 = (double)(int32_t)x, low = towards_0 > x ? towards_0 - 1.0 : towards_0;
        whole[k] = (int32_t)low;
        if (rest) rest[k] = (float)(x - low);
    }
}
TP__AUG_BODY void tp__aug_find_places_body(tp__aug_places *p, const double *v, double i, bool nearest, int j0, int n,
                                           bool near)
{
    if (near && nearest) {
        tp__aug_place(p->x, NULL, v[0], v[1] * i, v[2], 0.5, j0, n, true);
        tp__aug_place(p->y, NULL, v[3], v[4] * i, v[5], 0.5, j0, n, true);
    } else if (near) {
        tp__aug_place(p->x, p->tx, v[0], v[1] * i, v[2], 0, j0, n, true);
        tp__aug_place(p->y, p->ty, v[3], v[4] * i, v[5], 0, j0, n, true);
    } else {
        tp__aug_place(p->x, p->tx, v[0], v[1] * i, v[2], nearest ? 0.5 : 0, j0, n, false);
        tp__aug_place(p->y, p->ty, v[3], v[4] * i, v[5], nearest ? 0.5 : 0, j0, n, false);
    }
}
TP__AUG_KERNEL(tp__aug_find_places, (p, v, i, nearest, j0, n, near), tp__aug_places *p, const double *v, double i,
               bool nearest, int j0, int n, bool near)
/* Whether the places of all pixels are within half the limits: those of the four corners are. */
static bool tp__aug_is_near(const tp__pixels *x, const double *v)
{
    for (int corner = 0; corner < 4; corner++) {
        const double j = corner & 1 ? (double)x->w : 0, i = corner & 2 ? (double)x->h : 0;
        const double sx = v[0] * j + v[1] * i + v[2], sy = v[3] * j + v[4] * i + v[5];
        if (!(fabs(sx) < 0.5 * TP__AUG_LIMIT && fabs(sy) < 0.5 * TP__AUG_LIMIT)) return false;
    }
    return true;
}

TP__AUG_BODY void tp__aug_linear_weights(tp__aug_places *p, int n)
{
    for (int k = 0; k < n; k++) {
        const float tx = p->tx[k], ty = p->ty[k], w11 = tx * ty, w10 = ty - w11;
        p->wx[0][k] = 1 - tx - w10;
        p->wx[1][k] = tx - w11;
        p->wx[2][k] = w10;
        p->wx[3][k] = w11;
    }
}
/* Computes tp__aug_cubic(t + 1 - k, -0.75) for the four k; its cases do not depend on t. */
TP__AUG_BODY void tp__aug_cubic_weights(float (*w)[TP__AUG_PIECE], const float *t, int n)
{
    const double a = -0.75;
    for (int k = 0; k < n; k++) {
        const double x0 = (double)t[k] + 1, x1 = x0 - 1, x2 = 2 - x0, x3 = 3 - x0;
        w[0][k] = (float)(((a * x0 - 5 * a) * x0 + 8 * a) * x0 - 4 * a);
        w[1][k] = (float)(((a + 2) * x1 - (a + 3)) * x1 * x1 + 1);
        w[2][k] = (float)(((a + 2) * x2 - (a + 3)) * x2 * x2 + 1);
        w[3][k] = (float)(((a * x3 - 5 * a) * x3 + 8 * a) * x3 - 4 * a);
    }
}
TP__AUG_BODY void tp__aug_warp_weights_body(tp__aug_places *p, bool cubic, int n)
{
    if (cubic) {
        tp__aug_cubic_weights(p->wx, p->tx, n);
        tp__aug_cubic_weights(p->wy, p->ty, n);
    } else tp__aug_linear_weights(p, n);
}
TP__AUG_KERNEL(tp__aug_warp_weights, (p, cubic, n), tp__aug_places *p, bool cubic, int n)

/* Interpolates pixels k0 to k1, which lie inside of the image, from 2x2 pixels. Three channels: reads and writes a float more. */
TP__AUG_BODY void tp__aug_warp_linear(float *to, const float *image, int64_t w, int64_t c, const tp__aug_places *p,
                                      int k0, int k1)
{
    for (int k = k0; k < k1; k++) {
        const float *a = image + (p->y[k] * w + p->x[k]) * c, *b = a + w * c;
        const float w00 = p->wx[0][k], w01 = p->wx[1][k], w10 = p->wx[2][k], w11 = p->wx[3][k];
        if (c == 3) {
            tp__aug_four sum = tp__aug_times_four(w00, a);
            sum = tp__aug_add_four(sum, w01, a + 3);
            sum = tp__aug_add_four(tp__aug_add_four(sum, w10, b), w11, b + 3);
            memcpy(to + k * 3, &sum, sizeof sum);
        } else
            for (int64_t i = 0; i < c; i++) to[k * c + i] = w00 * a[i] + w01 * a[i + c] + w10 * b[i] + w11 * b[i + c];
    }
}
/* The same from 4x4 pixels. */
TP__AUG_BODY void tp__aug_warp_cubic(float *to, const float *image, int64_t w, int64_t c, const tp__aug_places *p,
                                     int k0, int k1)
{
    for (int k = k0; k < k1; k++) {
        const float *a = image + ((p->y[k] - 1) * w + p->x[k] - 1) * c;
        if (c == 3) {
            tp__aug_four sum = {0, 0, 0, 0};
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++) sum = tp__aug_add_four(sum, p->wy[i][k] * p->wx[j][k], a + (i * w + j) * 3);
            memcpy(to + k * 3, &sum, sizeof sum);
            continue;
        }
        for (int64_t channel = 0; channel < c; channel++) {
            float sum = 0;
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++) sum += p->wy[i][k] * p->wx[j][k] * a[(i * w + j) * c + channel];
            to[k * c + channel] = sum;
        }
    }
}
TP__AUG_BODY void tp__aug_warp_inside_body(float *to, const float *image, int64_t w, int64_t c, const tp__aug_places *p,
                                           bool cubic, int k0, int k1)
{
    if (cubic && c == 3) tp__aug_warp_cubic(to, image, w, 3, p, k0, k1);
    else if (cubic) tp__aug_warp_cubic(to, image, w, c, p, k0, k1);
    else if (c == 3) tp__aug_warp_linear(to, image, w, 3, p, k0, k1);
    else tp__aug_warp_linear(to, image, w, c, p, k0, k1);
}
TP__AUG_KERNEL(tp__aug_warp_inside, (to, image, w, c, p, cubic, k0, k1), float *to, const float *image, int64_t w,
               int64_t c, const tp__aug_places *p, bool cubic, int k0, int k1)

/* Interpolates one pixel from the n by n pixels that begin at (x0,y0), n = 2 or 4; wx and wy are their weights. border: the pixel
 * beyond a constant edge. */
TP__AUG_BODY void tp__aug_sample(float *to, const float *image, const tp__pixels *x, int64_t c, int64_t x0, int64_t y0,
                                 const float *wx, const float *wy, int n, int edge, const float *border)
{
    int64_t column[4] = {0, 0, 0, 0};
    for (int j = 0; j < n; j++) column[j] = tp__aug_edge(x0 + j, x->w, edge);
    for (int64_t k = 0; k < c; k++) to[k] = 0;
    for (int i = 0; i < n; i++) {
        const int64_t row = tp__aug_edge(y0 + i, x->h, edge);
        for (int j = 0; j < n; j++) {
            const float w = wy[i] * wx[j];
            const float *pixel = row < 0 || column[j] < 0 ? border : image + (row * x->w + column[j]) * c;
            for (int64_t k = 0; k < c; k++) to[k] += w * pixel[k];
        }
    }
}
TP__HOT static void tp__aug_warp_beyond(float *to, const float *image, const tp__pixels *x, const tp__aug_places *p,
                                        int k, bool cubic, int edge, const float *border)
{
    const int n = cubic ? 4 : 2;
    const int64_t x0 = p->x[k] - (cubic ? 1 : 0), y0 = p->y[k] - (cubic ? 1 : 0);
    float wx[4] = {1 - p->tx[k], p->tx[k], 0, 0}, wy[4] = {1 - p->ty[k], p->ty[k], 0, 0};
    for (int i = 0; i < 4 && cubic; i++) wx[i] = p->wx[i][k], wy[i] = p->wy[i][k];
    if (edge == TP_EDGE_CONSTANT && (x0 + n <= 0 || y0 + n <= 0 || x0 >= x->w || y0 >= x->h)) { /* none inside */
        float sum = 0;
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) sum += wy[i] * wx[j] * border[0];
        for (int64_t i = 0; i < x->c; i++) to[i] = sum;
        return;
    }
    if (x->c == 3) tp__aug_sample(to, image, x, 3, x0, y0, wx, wy, n, edge, border);
    else tp__aug_sample(to, image, x, x->c, x0, y0, wx, wy, n, edge, border);
}

/* Finds the pixels of a piece whose place is at least `before` from the first row and column and `behind` from the last: as
 * places go along a line, they are all from *k0 to *k1. */
TP__HOT static void tp__aug_inside(const tp__aug_places *p, const tp__pixels *x, int before, int behind, int n, int *k0,
                                   int *k1)
{
    int first = 0, end = n;
#define TP__AUG_IS_INSIDE(k_) \
    (p->x[k_] >= before && p->y[k_] >= before && p->x[k_] + behind < x->w && p->y[k_] + behind < x->h)
    while (first < end && !TP__AUG_IS_INSIDE(first)) first++;
    while (first < end && !TP__AUG_IS_INSIDE(end - 1)) end--;
#undef TP__AUG_IS_INSIDE
    *k0 = first;
    *k1 = end;
}

static void tp__aug_warp_row(const tp__aug_run *r, float *to, const float *image, const double *v, int64_t i,
                             bool cubic, int edge, const float *border)
{
    const tp__pixels *x = &r->x;
    tp__aug_places p;
    for (int64_t j = 0; j < x->w; j += TP__AUG_PIECE) {
        int k0, k1;
        const int n = x->w - j < TP__AUG_PIECE ? (int)(x->w - j) : (int)TP__AUG_PIECE;
        float *piece = to + j * x->c;
        tp__aug_find_places(r->wide, &p, v, (double)i, false, (int)j, n, tp__aug_is_near(x, v));
        tp__aug_warp_weights(r->wide, &p, cubic, n);
        tp__aug_inside(&p, x, cubic ? 1 : 0, cubic ? 2 : 1, n, &k0, &k1);
        tp__aug_warp_inside(r->wide, piece, image, x->w, x->c, &p, cubic, k0, k1); /* writes into pixel k1, too */
        for (int k = 0; k < n; k++)
            if (k < k0 || k >= k1) tp__aug_warp_beyond(piece + k * x->c, image, x, &p, k, cubic, edge, border);
    }
}

TP__AUG_BODY void tp__aug_pick_of(char *to, const tp__pixels *x, const tp__aug_places *p, int64_t size, int k0, int k1)
{
    for (int k = k0; k < k1; k++) memcpy(to + k * size, x->data + p->y[k] * x->stride + p->x[k] * size, (size_t)size);
}
/* Copies the pixels k0 to k1, which lie inside of the image, from their places. */
TP__HOT static void tp__aug_pick(char *to, const tp__pixels *x, const tp__aug_places *p, int64_t size, int k0, int k1)
{
    if (size == 1) tp__aug_pick_of(to, x, p, 1, k0, k1);
    else if (size == 3) tp__aug_pick_of(to, x, p, 3, k0, k1);
    else if (size == 4) tp__aug_pick_of(to, x, p, 4, k0, k1);
    else if (size == 12) tp__aug_pick_of(to, x, p, 12, k0, k1);
    else tp__aug_pick_of(to, x, p, size, k0, k1);
}
static tp_status tp__aug_warp_nearest(tp__aug_run *r, const double *v, int edge, double value)
{
    const int64_t size = tp__aug_pixel(&r->x);
    const tp_status st = tp__aug_reserve_like(r, r->x.h, r->x.w);
    if (st != TP_OK) return st;
    char element[8];
    const size_t width = tp__aug_element(element, r->x.dtype, value);
    const bool near = tp__aug_is_near(&r->x, v);
    const bool is_shift = v[0] >= 1 && v[0] <= 1 && v[3] >= 0 && v[3] <= 0; /* a row comes from one row */
    tp__aug_places p;
    for (int64_t i = 0; i < r->x.h; i++)
        for (int64_t j = 0; j < r->x.w; j += TP__AUG_PIECE) {
            int k0, k1;
            const int n = r->x.w - j < TP__AUG_PIECE ? (int)(r->x.w - j) : (int)TP__AUG_PIECE;
            char *to = r->y.data + i * r->y.stride + j * size;
            tp__aug_find_places(r->wide, &p, v, (double)i, true, (int)j, n, near);
            tp__aug_inside(&p, &r->x, 0, 0, n, &k0, &k1);
            if (edge == TP_EDGE_CONSTANT) {
                tp__aug_fill(to, k0 * r->x.c, element, width);
                tp__aug_fill(to + k1 * size, (n - k1) * r->x.c, element, width);
            } else {
                for (int k = 0; k < n; k++) {
                    if (k == k0) k = k1;
                    if (k == n) break;
                    p.x[k] = (int32_t)tp__aug_edge(p.x[k], r->x.w, edge);
                    p.y[k] = (int32_t)tp__aug_edge(p.y[k], r->x.h, edge);
                }
                tp__aug_pick(to, &r->x, &p, size, 0, k0);
                tp__aug_pick(to, &r->x, &p, size, k1, n);
            }
            if (is_shift && k0 < k1 && p.x[k1 - 1] - p.x[k0] == k1 - 1 - k0)
                memcpy(to + k0 * size, r->x.data + p.y[k0] * r->x.stride + p.x[k0] * size, (size_t)((k1 - k0) * size));
            else tp__aug_pick(to, &r->x, &p, size, k0, k1);
        }
    tp__aug_use_result(r);
    return TP_OK;
}

static tp_status tp__aug_warp_image(tp__aug_run *r, const tp__aug_step *s)
{
    double v[6];
    const int inter = (int)s->number[6], edge = (int)s->number[7];
    tp__aug_invert(s->number, v);
    if (r->mask || inter == TP_INTER_NEAREST) return tp__aug_warp_nearest(r, v, edge, r->mask ? r->fill : s->number[8]);
    const int64_t n = r->x.w * r->x.c, size = n * r->x.h;
    const tp_status st = tp__aug_reserve_like(r, r->x.h, r->x.w);
    if (st != TP_OK) return st;
    /* the image, a pixel of the border, and the float that three channels read and write more */
    float *image = tp__aug_work(r, 2, size + r->x.c + 1), *row = image ? tp__aug_work(r, 0, n + 1) : NULL;
    if (!row) return TP_ERR_NOMEM;
    for (int64_t i = 0; i < r->x.h; i++) tp__aug_get_row(r->wide, image + i * n, &r->x, i);
    for (int64_t k = 0; k <= r->x.c; k++) image[size + k] = (float)s->number[8];
    for (int64_t i = 0; i < r->x.h; i++) {
        tp__aug_warp_row(r, row, image, v, i, inter == TP_INTER_CUBIC, edge, image + size);
        tp__aug_put_row(r->wide, row, &r->y, i, 0.5f);
    }
    tp__aug_use_result(r);
    return TP_OK;
}
static void tp__aug_warp_point(const tp__aug_step *s, float *x, float *y)
{
    const double *m = s->number, px = (double)*x - 0.5, py = (double)*y - 0.5;
    *x = (float)(m[0] * px + m[1] * py + m[2] + 0.5);
    *y = (float)(m[3] * px + m[4] * py + m[5] + 0.5);
}
static const tp__aug_kind tp__aug_warp = {"WarpAffine", "a b c d e f interp border value", true, tp__aug_warp_image,
                                          tp__aug_warp_point};

/* -- colours ---- >>aug colours */

/* Computes x = a x + b with b per channel, over n elements of contiguous rows; bytes are limited and their fraction is
 * dropped. The offsets repeat after 48 elements, a multiple of 1, 2, 3 and 4 channels, which suits vectors of any
 * length. */
enum { TP__AUG_PATTERN = 48 };
TP__HOT static void tp__aug_scale_add_tail(unsigned char *x, float a, const float *offset, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float v = a * (float)x[i] + offset[i];
        v = v > 0.0f ? v : 0.0f;
        v = v < 255.0f ? v : 255.0f;
        x[i] = (unsigned char)(int)v;
    }
}
static void tp__aug_scale_add_bytes(unsigned char *x, float a, const float *b, int64_t n)
{
    int64_t i = TP__IF_FAST(tp__fast_scale_add_bytes(x, a, b, TP__AUG_PATTERN, n), 0);
    for (; i < n; i += TP__AUG_PATTERN)
        tp__aug_scale_add_tail(x + i, a, b, n - i < TP__AUG_PATTERN ? n - i : (int64_t)TP__AUG_PATTERN);
}
/* Adds an integer to n bytes and limits the results to 0..255. */
TP__HOT static void tp__aug_add_bytes(unsigned char *x, int plus, int64_t n)
{
    const unsigned char by = (unsigned char)(plus > 255 || plus < -255 ? 255 : plus < 0 ? -plus : plus);
    const unsigned char top = (unsigned char)(255 - by);
    if (plus > 0)
        for (int64_t i = 0; i < n; i++) x[i] = (unsigned char)((x[i] < top ? x[i] : top) + by);
    else
        for (int64_t i = 0; i < n; i++) x[i] = (unsigned char)((x[i] > by ? x[i] : by) - by);
}
/* Does the same to floats; the offsets repeat after c elements. */
TP__AUG_BODY void tp__aug_scale_add_period(float *x, float a, const float *b, int64_t c, int64_t n)
{
    for (int64_t i = 0; i < n; i += c)
        for (int64_t k = 0; k < c; k++) x[i + k] = a * x[i + k] + b[k];
}
TP__AUG_BODY void tp__aug_scale_add_floats_body(float *x, float a, const float *b, int64_t c, int64_t n)
{
    if (c == 1)
        for (int64_t i = 0; i < n; i++) x[i] = a * x[i] + b[0];
    else if (c == 3) {
        float offset[24];
        const int64_t whole = n / 24 * 24;
        for (int k = 0; k < 24; k++) offset[k] = b[k % 3];
        tp__aug_scale_add_period(x, a, offset, 24, whole);
        tp__aug_scale_add_period(x + whole, a, b, 3, n - whole);
    } else tp__aug_scale_add_period(x, a, b, c, n);
}
TP__AUG_KERNEL(tp__aug_scale_add_floats, (x, a, b, c, n), float *x, float a, const float *b, int64_t c, int64_t n)

/* Applies a x + b to the elements x of the image. b: one offset for each channel. */
static tp_status tp__aug_scale_add(tp__aug_run *r, double a, const double *b, bool one_offset, bool clip)
{
    const tp_status st = tp__aug_make_writable(r);
    if (st != TP_OK) return st;
    const int64_t c = r->x.c, row = r->x.w * c, n = r->x.h * row;
    if (r->x.dtype == TP_U8 && one_offset && a >= 1 && a <= 1) {
        const double whole = floor(b[0] > 1000 ? 1000 : b[0] < -1000 ? -1000 : b[0]);
        tp__aug_add_bytes((unsigned char *)r->x.data, (int)whole, n);
    } else if (r->x.dtype == TP_U8 && (one_offset || TP__AUG_PATTERN % c == 0)) {
        float pattern[TP__AUG_PATTERN];
        const int period = one_offset ? 1 : (int)c;
        for (int k = 0; k < TP__AUG_PATTERN; k++) pattern[k] = k < period ? (float)b[k] : pattern[k - period];
        tp__aug_scale_add_bytes((unsigned char *)r->x.data, (float)a, pattern, n);
    } else {
        float *offsets = tp__aug_work(r, 1, c), *x = offsets ? tp__aug_work(r, 0, row) : NULL;
        if (!x) return TP_ERR_NOMEM;
        for (int64_t k = 0; k < c; k++) offsets[k] = (float)b[one_offset ? 0 : k];
        for (int64_t i = 0; i < r->x.h; i++) {
            float *at = r->x.dtype == TP_U8 ? x : (float *)(void *)(r->x.data + i * r->x.stride);
            if (at == x) tp__aug_get_row(r->wide, at, &r->x, i);
            tp__aug_scale_add_floats(r->wide, at, (float)a, offsets, one_offset ? 1 : c, row);
            if (at == x) tp__aug_put_row(r->wide, at, &r->x, i, 0.0f);
            else if (clip) tp__aug_limit(r->wide, at, 0.0f, 255.0f, row);
        }
    }
    return TP_OK;
}

/* what the augmentation step stores: factor, offset, clip */
static tp_status tp__aug_brightness_image(tp__aug_run *r, const tp__aug_step *s)
{
    if (fabs(s->number[1]) > 1) tp__aug_want_bytes(r, s);
    return tp__aug_scale_add(r, s->number[0], &s->number[1], true, s->number[2] > 0);
}
static const tp__aug_kind tp__aug_brightness = {"Brightness", "factor plus clip", false, tp__aug_brightness_image,
                                                NULL};

/* what the augmentation step stores: three offsets, clip */
static tp_status tp__aug_lighting_image(tp__aug_run *r, const tp__aug_step *s)
{
    const tp_status st = tp__aug_need_rgb(r, s);
    for (int i = 0; i < 3; i++)
        if (fabs(s->number[i]) > 1) tp__aug_want_bytes(r, s);
    return st == TP_OK ? tp__aug_scale_add(r, 1, s->number, false, s->number[3] > 0) : st;
}
static const tp__aug_kind tp__aug_lighting = {"Lighting", "plus0 plus1 plus2 clip", false, tp__aug_lighting_image,
                                              NULL};

/* Computes sums for each position of a pattern of 48 bytes. 16 bits can hold the sum of 257 bytes. */
TP__HOT static void tp__aug_sum_bytes(const unsigned char *x, int64_t n, double *sum)
{
    for (int64_t from = 0; from < n; from += 257 * TP__AUG_PATTERN) {
        const int64_t to = n - from < 257 * TP__AUG_PATTERN ? n : from + 257 * TP__AUG_PATTERN;
        uint16_t s[TP__AUG_PATTERN];
        int64_t i = from;
        for (int k = 0; k < TP__AUG_PATTERN; k++) s[k] = 0;
        for (; i + TP__AUG_PATTERN <= to; i += TP__AUG_PATTERN)
            for (int k = 0; k < TP__AUG_PATTERN; k++) s[k] = (uint16_t)(s[k] + x[i + k]);
        for (int k = 0; i < to; i++, k++) s[k] = (uint16_t)(s[k] + x[i]);
        for (int k = 0; k < TP__AUG_PATTERN; k++) sum[k] += s[k];
    }
}

/* Statistics of floats are computed in 12 lanes, a multiple of 1, 2, 3 and 4 channels. n is a multiple of 12. */
enum { TP__AUG_LANES = 12 };
TP__AUG_BODY void tp__aug_lane_sums_of(const float *x, int64_t n, const double *minus, bool square, double *sum)
{
    double s[TP__AUG_LANES], m[TP__AUG_LANES];
    for (int k = 0; k < TP__AUG_LANES; k++) s[k] = 0, m[k] = minus[k];
    for (int64_t i = 0; i < n; i += TP__AUG_LANES)
        for (int k = 0; k < TP__AUG_LANES; k++) {
            const double d = (double)x[i + k] - m[k];
            s[k] += square ? d * d : d;
        }
    for (int k = 0; k < TP__AUG_LANES; k++) sum[k] = s[k];
}
TP__AUG_BODY void tp__aug_lane_sums_body(const float *x, int64_t n, const double *minus, bool square, double *sum)
{
    if (square) tp__aug_lane_sums_of(x, n, minus, true, sum);
    else tp__aug_lane_sums_of(x, n, minus, false, sum);
}
TP__AUG_KERNEL(tp__aug_lane_sums, (x, n, minus, square, sum), const float *x, int64_t n, const double *minus,
               bool square, double *sum)
/* Sums x - minus of each of c channels, or its square. minus NULL: 0 */
static void tp__aug_channel_sums(bool wide, const float *x, int64_t n, int64_t c, const double *minus, bool square,
                                 double *sum)
{
    int64_t i = 0;
    for (int64_t k = 0; k < c; k++) sum[k] = 0;
    if (TP__AUG_LANES % c == 0) {
        double lane[TP__AUG_LANES], m[TP__AUG_LANES];
        for (int k = 0; k < TP__AUG_LANES; k++) m[k] = minus ? minus[k % c] : 0;
        i = n / TP__AUG_LANES * TP__AUG_LANES;
        tp__aug_lane_sums(wide, x, i, m, square, lane);
        for (int k = 0; k < TP__AUG_LANES; k++) sum[k % c] += lane[k];
    }
    for (; i < n; i += c)
        for (int64_t k = 0; k < c; k++) {
            const double d = (double)x[i + k] - (minus ? minus[k] : 0);
            sum[k] += square ? d * d : d;
        }
}

/* Computes the mean of each channel, for an image with contiguous rows. */
static void tp__aug_means(bool wide, const tp__pixels *x, double *mean)
{
    const int64_t n = x->h * x->w * x->c, c = x->c;
    for (int64_t k = 0; k < c; k++) mean[k] = 0;
    if (x->dtype == TP_U8 && TP__AUG_PATTERN % c == 0) {
        double sum[TP__AUG_PATTERN] = {0};
        tp__aug_sum_bytes((const unsigned char *)x->data, n, sum);
        for (int64_t k = 0; k < TP__AUG_PATTERN; k += c)
            for (int64_t j = 0; j < c; j++) mean[j] += sum[k + j];
    } else if (x->dtype == TP_U8) {
        for (int64_t i = 0; i < n; i++) mean[i % c] += (double)((const unsigned char *)x->data)[i];
    } else {
        tp__aug_channel_sums(wide, (const float *)(const void *)x->data, n, c, NULL, false, mean);
    }
    for (int64_t k = 0; k < c; k++) mean[k] /= (double)(x->h * x->w);
}

static const double tp__aug_grey[3] = {0.299, 0.587, 0.114};

/* what the augmentation step stores: factor, clip, and the order of colours: 1 RGB, 0 BGR, -1 each channel separately */
static tp_status tp__aug_contrast_image(tp__aug_run *r, const tp__aug_step *s)
{
    const int rgb = (int)s->number[2];
    const double factor = s->number[0];
    tp_status st = rgb >= 0 && r->x.c > 1 ? tp__aug_need_rgb(r, s) : TP_OK;
    if (st == TP_OK) st = tp__aug_make_writable(r);
    if (st == TP_OK) st = tp_tensor_resize(&r->t->work_, TP_F64, tp_make_shape_n(1, &r->x.c));
    if (st != TP_OK) return st;
    double *b = (double *)r->t->work_.data;
    tp__aug_means(r->wide, &r->x, b);
    if (rgb >= 0 && r->x.c == 3) {
        const double grey =
            tp__aug_grey[0] * b[rgb ? 0 : 2] + tp__aug_grey[1] * b[1] + tp__aug_grey[2] * b[rgb ? 2 : 0];
        b[0] = b[1] = b[2] = grey;
    }
    for (int64_t k = 0; k < r->x.c; k++) b[k] *= 1 - factor;
    return tp__aug_scale_add(r, factor, b, r->x.c == 1, s->number[1] > 0);
}
static const tp__aug_kind tp__aug_contrast = {"Contrast", "factor clip rgb?", false, tp__aug_contrast_image, NULL};

/* Changes the saturation of a row. p: the factor, and the weights of the three channels in the grey value, which for
 * byte images is rounded to a byte. */
TP__AUG_BODY void tp__aug_saturate_body(float *a, float *b, float *c, int64_t n, const float *p)
{
    const float factor = p[0], weight_a = p[1], weight_b = p[2], weight_c = p[3];
    const bool round_grey = p[4] > 0.0f;
    for (int64_t i = 0; i < n; i++) {
        const float sum = weight_a * a[i] + weight_b * b[i] + weight_c * c[i];
        const float grey = round_grey ? (float)(int)(sum + 0.5f) : sum;
        a[i] = grey + (a[i] - grey) * factor; /* the formula does not change a grey pixel */
        b[i] = grey + (b[i] - grey) * factor;
        c[i] = grey + (c[i] - grey) * factor;
    }
}
TP__AUG_KERNEL(tp__aug_saturate, (a, b, c, n, p), float *a, float *b, float *c, int64_t n, const float *p)
static void tp__aug_saturation_row(bool wide, float **x, int64_t n, const float *p)
{
    tp__aug_saturate(wide, x[0], x[1], x[2], n, p);
}
static tp_status tp__aug_saturation_image(tp__aug_run *r, const tp__aug_step *s)
{
    tp_status st = tp__aug_need_rgb(r, s);
    const bool rgb = s->number[2] > 0;
    const float p[5] = {(float)s->number[0], (float)tp__aug_grey[rgb ? 0 : 2], (float)tp__aug_grey[1],
                        (float)tp__aug_grey[rgb ? 2 : 0], r->x.dtype == TP_U8 ? 1.0f : 0.0f};
    if (st == TP_OK) st = tp__aug_make_writable(r);
    return st == TP_OK ? tp__aug_rows(r, &r->x, tp__aug_saturation_row, p, 0.0f, s->number[1] > 0) : st;
}
static const tp__aug_kind tp__aug_saturation = {"Saturation", "factor clip rgb", false, tp__aug_saturation_image, NULL};

/* Returns the hue in sixths of the circle, [0,6); 0 for grey. max and range are those of the three values. */
TP__AUG_BODY float tp__aug_hue_of(float red, float green, float blue, float max, float range)
{
    const float other = green >= max ? blue - red : red - green, from = green >= max ? 2.0f : 4.0f;
    const float part = red >= max ? green - blue : other, start = red >= max ? 0.0f : from;
    const float h = start + part / (range > 0.0f ? range : 1.0f), turned = h < 0.0f ? h + 6.0f : h;
    return range > 0.0f ? turned : 0.0f;
}
TP__AUG_BODY void tp__aug_extent(float a, float b, float c, float *max, float *range)
{
    const float high = a > b ? a : b, low = a < b ? a : b;
    *max = high > c ? high : c;
    *range = *max - (low < c ? low : c);
}
/* Returns the value of one colour of a hue: max minus a part of range. at: position of the colour on the circle of
 * hues, red 5, green 3, blue 1. */
TP__AUG_BODY float tp__aug_colour(float hue, float at, float max, float range)
{
    float k = hue + at;
    k = k >= 6.0f ? k - 6.0f : k;
    const float falling = 4.0f - k, smaller = k < falling ? k : falling, part = smaller > 1.0f ? 1.0f : smaller;
    return max - range * (smaller < 0.0f ? 0.0f : part);
}
/* Turns the hue of a row by a number of sixths of the circle. */
TP__AUG_BODY void tp__aug_turn_body(float *red, float *green, float *blue, int64_t n, float sixths)
{
    for (int64_t i = 0; i < n; i++) {
        float max, range;
        tp__aug_extent(red[i], green[i], blue[i], &max, &range);
        float hue = tp__aug_hue_of(red[i], green[i], blue[i], max, range) + sixths;
        hue = hue >= 6.0f ? hue - 6.0f : hue;
        red[i] = tp__aug_colour(hue, 5, max, range);
        green[i] = tp__aug_colour(hue, 3, max, range);
        blue[i] = tp__aug_colour(hue, 1, max, range);
    }
}
TP__AUG_KERNEL(tp__aug_turn, (red, green, blue, n, sixths), float *red, float *green, float *blue, int64_t n,
               float sixths)
/* p: sixths of the circle to add; whether the order is BGR. */
static void tp__aug_hue_row(bool wide, float **x, int64_t n, const float *p)
{
    const int red = p[1] > 0.0f ? 2 : 0;
    tp__aug_turn(wide, x[red], x[1], x[2 - red], n, p[0]);
}
static tp_status tp__aug_hue_image(tp__aug_run *r, const tp__aug_step *s)
{
    tp_status st = tp__aug_need_rgb(r, s);
    double shift = s->number[0] / 30.0;
    shift -= 6.0 * floor(shift / 6.0);
    const float p[2] = {shift < 6.0 ? (float)shift : 0.0f, s->number[1] > 0 ? 0.0f : 1.0f};
    if (st == TP_OK) st = tp__aug_make_writable(r);
    return st == TP_OK ? tp__aug_rows(r, &r->x, tp__aug_hue_row, p, 0.5f, false) : st;
}
static const tp__aug_kind tp__aug_hue = {"Hue", "hue rgb", false, tp__aug_hue_image, NULL};

static tp_status tp__aug_gamma_image(tp__aug_run *r, const tp__aug_step *s)
{
    unsigned char table[256];
    tp__aug_want_bytes(r, s);
    const tp_status st = tp__aug_make_writable(r);
    if (st != TP_OK) return st;
    for (int i = 0; i < 256; i++) {
        /* computed in float32, as in tensorpack, so that dropping the fraction gives the same integers; 255 stays 255 */
        const float v = powf((float)i / 255.0f, (float)(1.0 / (1.0 + s->number[0]))) * 255.0f;
        table[i] = (unsigned char)(v < 255.0f ? (int)v : 255);
    }
    const int64_t n = r->x.h * r->x.w * r->x.c;
    if (r->x.dtype == TP_U8) {
        unsigned char *x = (unsigned char *)r->x.data;
        for (int64_t i = 0; i < n; i++) x[i] = table[x[i]];
    } else {
        float *x = (float *)(void *)r->x.data;
        for (int64_t i = 0; i < n; i++) x[i] = (float)table[(int)(x[i] > 0 ? x[i] < 255 ? x[i] : 255.0f : 0.0f)];
    }
    return TP_OK;
}
static const tp__aug_kind tp__aug_gamma = {"Gamma", "gamma", false, tp__aug_gamma_image, NULL};

TP__HOT static void tp__aug_limit_bytes(unsigned char *x, unsigned char low, unsigned char high, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const unsigned char v = x[i] > low ? x[i] : low;
        x[i] = v < high ? v : high;
    }
}
/* what the augmentation step stores: min, max */
static tp_status tp__aug_clip_image(tp__aug_run *r, const tp__aug_step *s)
{
    const tp_status st = tp__aug_make_writable(r);
    const int64_t n = r->x.h * r->x.w * r->x.c;
    if (st != TP_OK) return st;
    if (r->x.dtype == TP_F32) {
        tp__aug_limit(r->wide, (float *)(void *)r->x.data, (float)s->number[0], (float)s->number[1], n);
        return TP_OK;
    }
    char low[8], high[8];
    tp__aug_element(low, TP_U8, s->number[0]);
    tp__aug_element(high, TP_U8, s->number[1]);
    tp__aug_limit_bytes((unsigned char *)r->x.data, (unsigned char)low[0], (unsigned char)high[0], n);
    return TP_OK;
}
static const tp__aug_kind tp__aug_clip = {"Clip", "min max", false, tp__aug_clip_image, NULL};

/* Casts to another dtype; float32 to bytes is limited and drops the fraction. The step stores 1 for float32, 0 for bytes. */
static tp_status tp__aug_cast_image(tp__aug_run *r, const tp__aug_step *s)
{
    const tp_dtype dtype = s->number[0] > 0 ? TP_F32 : TP_U8;
    const int64_t n = r->x.w * r->x.c;
    if (r->x.dtype == dtype) return TP_OK;
    tp__aug_want_bytes(r, s); /* floats, which become bytes */
    const tp_status st = tp__aug_reserve(r, dtype, r->x.h, r->x.w, r->x.c, r->x.ndim);
    if (st != TP_OK) return st;
    for (int64_t i = 0; i < r->x.h; i++) {
        char *to = r->y.data + i * r->y.stride;
        if (dtype == TP_F32) tp__aug_get_row(r->wide, (float *)(void *)to, &r->x, i);
        else
            tp__aug_bytes(r->wide, (unsigned char *)to, (const float *)(const void *)(r->x.data + i * r->x.stride),
                          0.0f, n);
    }
    tp__aug_use_result(r);
    return TP_OK;
}
static const tp__aug_kind tp__aug_cast = {"Cast", "float32", false, tp__aug_cast_image, NULL};

static tp_status tp__aug_to_floats(tp__aug_run *r)
{
    tp__aug_step s;
    memset(&s, 0, sizeof s);
    s.number[0] = 1;
    const tp_status st = tp__aug_cast_image(r, &s);
    return st == TP_OK ? tp__aug_make_writable(r) : st;
}

/* A function that computes the value to subtract and the divisor for each of c channels. */
typedef void (*tp__aug_measure_fn)(bool wide, const float *x, int64_t n, int64_t c, double *a, double *b);

static void tp__aug_deviation(bool wide, const float *x, int64_t n, int64_t c, double *mean, double *deviation)
{
    const double min_deviation = 1.0 / sqrt((double)n), count = (double)(n / c);
    tp__aug_channel_sums(wide, x, n, c, NULL, false, mean);
    for (int64_t k = 0; k < c; k++) mean[k] /= count;
    tp__aug_channel_sums(wide, x, n, c, mean, true, deviation);
    for (int64_t k = 0; k < c; k++) {
        const double d = sqrt(deviation[k] / count);
        deviation[k] = d > min_deviation ? d : min_deviation;
    }
}

/* The smallest and the largest of each of 24 lanes, beginning with those given. */
TP__AUG_BODY void tp__aug_lane_extents_body(const float *x, int64_t n, float *low, float *high)
{
    const int lanes = 2 * TP__AUG_LANES;
    float l[2 * TP__AUG_LANES], h[2 * TP__AUG_LANES];
    for (int k = 0; k < lanes; k++) l[k] = low[k], h[k] = high[k];
    for (int64_t i = 0; i < n; i += lanes)
        for (int k = 0; k < lanes; k++) {
            l[k] = x[i + k] < l[k] ? x[i + k] : l[k];
            h[k] = x[i + k] > h[k] ? x[i + k] : h[k];
        }
    for (int k = 0; k < lanes; k++) low[k] = l[k], high[k] = h[k];
}
TP__AUG_KERNEL(tp__aug_lane_extents, (x, n, low, high), const float *x, int64_t n, float *low, float *high)
static void tp__aug_range(bool wide, const float *x, int64_t n, int64_t c, double *low, double *range)
{
    float l[2 * TP__AUG_LANES], h[2 * TP__AUG_LANES];
    const int64_t whole = TP__AUG_LANES % c == 0 ? n / (2 * TP__AUG_LANES) * (2 * TP__AUG_LANES) : 0;
    for (int k = 0; k < 2 * TP__AUG_LANES; k++) l[k] = h[k] = x[k % c];
    tp__aug_lane_extents(wide, x, whole, l, h);
    for (int64_t k = 0; k < c; k++) {
        float lowest = x[k], highest = lowest;
        for (int64_t i = k; i < 2 * TP__AUG_LANES && whole; i += c) {
            lowest = l[i] < lowest ? l[i] : lowest;
            highest = h[i] > highest ? h[i] : highest;
        }
        for (int64_t i = whole + k; i < n; i += c) {
            lowest = x[i] < lowest ? x[i] : lowest;
            highest = x[i] > highest ? x[i] : highest;
        }
        low[k] = (double)lowest;
        range[k] = highest > lowest ? (double)highest - (double)lowest : 1;
    }
}

/* x = (x - a) / b * scale + plus for n floats; a and b repeat after c. */
TP__AUG_BODY void tp__aug_rescale_of(float *x, int64_t n, int64_t c, const double *a, const double *b, double scale,
                                     double plus)
{
    for (int64_t i = 0; i < n; i += c)
        for (int64_t k = 0; k < c; k++) x[i + k] = (float)(((double)x[i + k] - a[k]) / b[k] * scale + plus);
}
TP__AUG_BODY void tp__aug_rescale_body(float *x, int64_t n, int64_t c, const double *a, const double *b, double scale,
                                       double plus)
{
    int64_t i = 0;
    if (TP__AUG_LANES % c == 0) {
        double a_of[TP__AUG_LANES], b_of[TP__AUG_LANES];
        for (int k = 0; k < TP__AUG_LANES; k++) a_of[k] = a[k % c], b_of[k] = b[k % c];
        i = n / TP__AUG_LANES * TP__AUG_LANES;
        tp__aug_rescale_of(x, i, TP__AUG_LANES, a_of, b_of, scale, plus);
    }
    tp__aug_rescale_of(x + i, n - i, c, a, b, scale, plus);
}
TP__AUG_KERNEL(tp__aug_rescale, (x, n, c, a, b, scale, plus), float *x, int64_t n, int64_t c, const double *a,
               const double *b, double scale, double plus)

/* what the augmentation step stores: all_channel, scale, plus: (x - a)/b * scale + plus, where a and b are computed from the image */
static tp_status tp__aug_normalize(tp__aug_run *r, const tp__aug_step *s, tp__aug_measure_fn measure)
{
    const int64_t n = r->x.h * r->x.w * r->x.c, c = s->number[0] > 0 ? 1 : r->x.c, both = 2 * c;
    tp_status st = tp__aug_to_floats(r);
    if (st == TP_OK) st = tp_tensor_resize(&r->t->work_, TP_F64, tp_make_shape_n(1, &both));
    if (st != TP_OK) return st;
    float *x = (float *)(void *)r->x.data;
    double *a = (double *)r->t->work_.data, *b = a + c;
    measure(r->wide, x, n, c, a, b);
    tp__aug_rescale(r->wide, x, n, c, a, b, s->number[1], s->number[2]);
    return TP_OK;
}
static tp_status tp__aug_mean_variance_image(tp__aug_run *r, const tp__aug_step *s)
{
    return tp__aug_normalize(r, s, tp__aug_deviation);
}
static tp_status tp__aug_min_max_image(tp__aug_run *r, const tp__aug_step *s)
{
    return tp__aug_normalize(r, s, tp__aug_range);
}
static const tp__aug_kind tp__aug_mean_variance = {"MeanVarianceNormalize", "all_channel", false,
                                                   tp__aug_mean_variance_image, NULL};
static const tp__aug_kind tp__aug_min_max = {"MinMaxNormalize", "all_channel scale plus", false, tp__aug_min_max_image,
                                             NULL};

/* -- colour spaces ---- >>aug color_space */

/* HSV takes the place of red, green and blue. In bytes, hues are half degrees, and the largest saturation is 255. */
TP__AUG_BODY void tp__aug_to_hsv_body(float *red, float *green, float *blue, int64_t n, bool bytes)
{
    const float degrees = bytes ? 30.0f : 60.0f, full = bytes ? 255.0f : 1.0f;
    const float end = bytes ? 179.5f : 1e9f; /* 180 half degrees are the same hue as 0 */
    for (int64_t i = 0; i < n; i++) {
        float max, range;
        tp__aug_extent(red[i], green[i], blue[i], &max, &range);
        const float hue = degrees * tp__aug_hue_of(red[i], green[i], blue[i], max, range);
        const float saturation = full * range / (max > 0.0f ? max : 1.0f);
        red[i] = hue >= end ? 0.0f : hue;
        green[i] = max > 0.0f ? saturation : 0.0f;
        blue[i] = max;
    }
}
TP__AUG_KERNEL(tp__aug_to_hsv, (red, green, blue, n, bytes), float *red, float *green, float *blue, int64_t n,
               bool bytes)
/* Returns x, sixths of the circle, less its whole turns. */
TP__AUG_BODY float tp__aug_in_circle(float x)
{
    const float whole = 8388608.0f; /* from 2^23 on, floats are integers */
    const float turns = x / 6.0f, below = turns < whole ? turns : 0.0f, small = below > -whole ? below : 0.0f;
    const float towards_0 = (float)(int32_t)small, low = towards_0 > small ? towards_0 - 1.0f : towards_0;
    const float up = turns < whole ? low : turns;
    return x - 6.0f * (turns > -whole ? up : turns);
}
TP__AUG_BODY void tp__aug_from_hsv_of(float *h, float *s, float *v, int64_t n, bool bytes)
{
    for (int64_t i = 0; i < n; i++) {
        const float max = v[i], product = max * s[i], range = bytes ? product / 255.0f : product;
        const float sixths = h[i] / (bytes ? 30.0f : 60.0f);
        const float less = sixths >= 6.0f ? 6.0f : 0.0f; /* bytes are below two turns */
        const float hue = bytes ? sixths - less : tp__aug_in_circle(sixths);
        h[i] = tp__aug_colour(hue, 5, max, range);
        s[i] = tp__aug_colour(hue, 3, max, range);
        v[i] = tp__aug_colour(hue, 1, max, range);
    }
}
TP__AUG_BODY void tp__aug_from_hsv_body(float *h, float *s, float *v, int64_t n, bool bytes)
{
    if (bytes) tp__aug_from_hsv_of(h, s, v, n, true);
    else tp__aug_from_hsv_of(h, s, v, n, false);
}
TP__AUG_KERNEL(tp__aug_from_hsv, (h, s, v, n, bytes), float *h, float *s, float *v, int64_t n, bool bytes)

static void tp__aug_swap_ends(float **x)
{
    float *first = x[0];
    x[0] = x[2];
    x[2] = first;
}
/* p: the mode, whether the image has bytes */
static void tp__aug_hsv_row(bool wide, float **x, int64_t n, const float *p)
{
    const int mode = (int)p[0];
    const bool bytes = p[1] > 0.0f;
    if (mode == TP_COLOR_BGR2HSV) tp__aug_swap_ends(x);
    if (mode == TP_COLOR_RGB2HSV || mode == TP_COLOR_BGR2HSV) tp__aug_to_hsv(wide, x[0], x[1], x[2], n, bytes);
    else tp__aug_from_hsv(wide, x[0], x[1], x[2], n, bytes);
    if (mode == TP_COLOR_HSV2BGR) tp__aug_swap_ends(x);
}

/* Grey values of bytes, from weights of the three channels. Sums are multiples of 1/1000, so that floats are exact enough to
 * round them, if a half is raised above their error. */
TP__AUG_BODY void tp__aug_grey_bytes_body(unsigned char *to, const unsigned char *from, const float *weight, int64_t n)
{
    const float u = weight[0], v = weight[1], w = weight[2];
    for (int64_t j = 0; j < n; j++) {
        const float grey = u * (float)from[3 * j] + v * (float)from[3 * j + 1] + w * (float)from[3 * j + 2];
        to[j] = (unsigned char)(int)(grey + 0.5002f);
    }
}
TP__AUG_KERNEL(tp__aug_grey_bytes, (to, from, weight, n), unsigned char *to, const unsigned char *from,
               const float *weight, int64_t n)
/* Grey values of floats, in double. */
TP__AUG_BODY void tp__aug_grey_floats_body(float *to, const float *from, const double *weight, int64_t n)
{
    const double u = weight[0], v = weight[1], w = weight[2];
    for (int64_t j = 0; j < n; j++)
        to[j] = (float)(u * (double)from[3 * j] + v * (double)from[3 * j + 1] + w * (double)from[3 * j + 2]);
}
TP__AUG_KERNEL(tp__aug_grey_floats, (to, from, weight, n), float *to, const float *from, const double *weight,
               int64_t n)
static void tp__aug_grey_row(bool wide, char *to, const char *from, tp_dtype dtype, bool rgb, int64_t n)
{
    double weight[3];
    float weight_f[3];
    for (int k = 0; k < 3; k++) weight[k] = tp__aug_grey[rgb ? k : 2 - k], weight_f[k] = (float)weight[k];
    if (dtype == TP_U8) tp__aug_grey_bytes(wide, (unsigned char *)to, (const unsigned char *)from, weight_f, n);
    else tp__aug_grey_floats(wide, (float *)(void *)to, (const float *)(const void *)from, weight, n);
}

/* Writes each of n elements three times. */
TP__AUG_BODY void tp__aug_triple_of(char *to, const char *from, int64_t size, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        for (int k = 0; k < 3; k++) memcpy(to + (3 * j + k) * size, from + j * size, (size_t)size);
}
TP__AUG_BODY void tp__aug_triple_body(char *to, const char *from, size_t size, int64_t n)
{
    if (size == 1) tp__aug_triple_of(to, from, 1, n);
    else tp__aug_triple_of(to, from, sizeof(float), n);
}
TP__AUG_KERNEL(tp__aug_triple, (to, from, size, n), char *to, const char *from, size_t size, int64_t n)
/* Copies n pixels of three elements from the last to the first element. */
TP__AUG_BODY void tp__aug_swap_bytes(char *to, const char *from, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        to[3 * j] = from[3 * j + 2];
        to[3 * j + 1] = from[3 * j + 1];
        to[3 * j + 2] = from[3 * j];
    }
}
TP__AUG_BODY void tp__aug_swap_floats(float *to, const float *from, int64_t n)
{
    int64_t j = 0;
#if TP__AUG_SHUFFLES
    for (; j < n - 1; j++) { /* the next pixel overwrites the fourth float */
        tp__aug_four v;
        memcpy(&v, from + 3 * j, sizeof v);
        v = __builtin_shufflevector(v, v, 2, 1, 0, 3);
        memcpy(to + 3 * j, &v, sizeof v);
    }
#endif
    for (; j < n; j++) {
        to[3 * j] = from[3 * j + 2];
        to[3 * j + 1] = from[3 * j + 1];
        to[3 * j + 2] = from[3 * j];
    }
}
TP__AUG_BODY void tp__aug_swap_body(char *to, const char *from, size_t size, int64_t n)
{
    if (size == 1) tp__aug_swap_bytes(to, from, n);
    else tp__aug_swap_floats((float *)(void *)to, (const float *)(const void *)from, n);
}
TP__AUG_KERNEL(tp__aug_swap, (to, from, size, n), char *to, const char *from, size_t size, int64_t n)

/* what the augmentation step stores: mode, keepdims, keepshape */
static tp_status tp__aug_color_image(tp__aug_run *r, const tp__aug_step *s)
{
    const int mode = (int)s->number[0];
    const bool grey = mode == TP_COLOR_RGB2GRAY || mode == TP_COLOR_BGR2GRAY, from_grey = mode == TP_COLOR_GRAY2RGB;
    const bool three_channels = grey && s->number[2] > 0;
    const int64_t in = from_grey ? 1 : 3, out = grey && !three_channels ? 1 : 3, w = r->x.w;
    if (r->x.c != in)
        return tp_fail(TP_ERR_SHAPE, "%s: the image has %lld channels, it must have %lld", s->augmentor->name,
                       (long long)r->x.c, (long long)in);
    tp_status st = tp__aug_reserve(r, r->x.dtype, r->x.h, w, out, out == 1 && !(s->number[1] > 0) ? 2 : 3);
    if (st != TP_OK) return st;
    const float p[2] = {(float)mode, r->x.dtype == TP_U8 ? 1.0f : 0.0f};
    if (mode >= TP_COLOR_RGB2HSV) {
        st = tp__aug_rows(r, &r->y, tp__aug_hsv_row, p, 0.5f, false);
        if (st == TP_OK) tp__aug_use_result(r);
        return st;
    }
    char *row = (char *)tp__aug_work(r, 0, w);
    if (!row) return TP_ERR_NOMEM;
    const size_t size = tp_dtype_size(r->x.dtype);
    for (int64_t i = 0; i < r->x.h; i++) {
        char *to = r->y.data + i * r->y.stride, *grey_row = three_channels ? row : to;
        const char *from = r->x.data + i * r->x.stride;
        if (grey) tp__aug_grey_row(r->wide, grey_row, from, r->x.dtype, mode == TP_COLOR_RGB2GRAY, w);
        if (three_channels) tp__aug_triple(r->wide, to, row, size, w);
        else if (from_grey) tp__aug_triple(r->wide, to, from, size, w);
        else if (!grey) {
            const int64_t done = r->wide && size == 1 ? tp__aug_swap3_avx2(to, from, w) : 0;
            tp__aug_swap(r->wide, to + 3 * done, from + 3 * done, size, w - done);
        }
    }
    tp__aug_use_result(r);
    return TP_OK;
}
static const tp__aug_kind tp__aug_color = {"ColorSpace", "mode keepdims keepshape", false, tp__aug_color_image, NULL};

/* -- cutout and noise ---- >>aug noise */

/* what the augmentation step stores: y0 x0 h w fill */
static tp_status tp__aug_cutout_image(tp__aug_run *r, const tp__aug_step *s)
{
    const tp_status st = tp__aug_make_writable(r);
    if (st != TP_OK) return st;
    char element[8];
    const size_t size = tp__aug_element(element, r->x.dtype, s->number[4]);
    const int64_t y0 = (int64_t)s->number[0], h = (int64_t)s->number[2], w = (int64_t)s->number[3];
    for (int64_t i = y0; i < y0 + h; i++)
        tp__aug_fill(r->x.data + i * r->x.stride + (int64_t)s->number[1] * tp__aug_pixel(&r->x), w * r->x.c, element,
                     size);
    return TP_OK;
}
static const tp__aug_kind tp__aug_cutout = {"RandomCutout", "y0 x0 h w fill", false, tp__aug_cutout_image, NULL};

/* Noise is computed for this many elements at a time, by the vector kernels of the augmentor's `isa`. All kernels give the same
 * bits. */
enum { TP__AUG_NOISE = 512 };

/* Computes x + noise * sigma in double. In one loop a compiler could fuse the multiplication and the addition, which
 * gives other bits. */
TP__AUG_BODY void tp__aug_add_noise_body(float *x, double *noise, double sigma, int64_t n)
{
    for (int64_t i = 0; i < n; i++) noise[i] *= sigma;
    for (int64_t i = 0; i < n; i++) x[i] = (float)((double)x[i] + noise[i]);
}
TP__AUG_KERNEL(tp__aug_add_noise, (x, noise, sigma, n), float *x, double *noise, double sigma, int64_t n)

/* what the augmentation step stores: sigma, clip */
static tp_status tp__aug_gaussian_noise_image(tp__aug_run *r, const tp__aug_step *s)
{
    uint32_t words[2 * TP__AUG_NOISE];
    double noise[TP__AUG_NOISE];
    float x[TP__AUG_NOISE];
    const tp_status st = tp__aug_make_writable(r);
    if (st != TP_OK) return st;
    const int64_t n = r->x.h * r->x.w * r->x.c;
    for (int64_t i = 0; i < n; i += TP__AUG_NOISE) {
        const int64_t m = n - i < TP__AUG_NOISE ? n - i : (int64_t)TP__AUG_NOISE;
        unsigned char *bytes = (unsigned char *)r->x.data + i;
        float *to = r->x.dtype == TP_U8 ? x : (float *)(void *)r->x.data + i;
        tp__random_words(s->augmentor->isa, s->key, (uint64_t)s->index, (uint64_t)i / 2, (m + 1) / 2, words);
        tp__random_normals(s->augmentor->isa, (m + 1) / 2, words, noise);
        if (to == x) tp__aug_floats(r->wide, x, bytes, m);
        tp__aug_add_noise(r->wide, to, noise, s->number[0], m);
        if (to == x) tp__aug_bytes(r->wide, bytes, x, 0.0f, m);
        else if (s->number[1] > 0) tp__aug_limit(r->wide, to, 0.0f, 255.0f, m);
    }
    return TP_OK;
}
static const tp__aug_kind tp__aug_gaussian_noise = {"GaussianNoise", "sigma clip", false, tp__aug_gaussian_noise_image,
                                                    NULL};

/* Makes elements 0 or 255. words: a random word for each. */
TP__AUG_BODY void tp__aug_salt_bytes_body(unsigned char *x, const uint32_t *words, float white, float black, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const float u = (float)(int32_t)(words[i] >> 8) * (1.0f / 16777216.0f);
        const unsigned char v = u > white ? 255 : x[i];
        x[i] = u < black ? 0 : v;
    }
}
TP__AUG_KERNEL(tp__aug_salt_bytes, (x, words, white, black, n), unsigned char *x, const uint32_t *words, float white,
               float black, int64_t n)
TP__AUG_BODY void tp__aug_salt_floats_body(float *x, const uint32_t *words, float white, float black, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const float u = (float)(int32_t)(words[i] >> 8) * (1.0f / 16777216.0f), v = u > white ? 255.0f : x[i];
        x[i] = u < black ? 0.0f : v;
    }
}
TP__AUG_KERNEL(tp__aug_salt_floats, (x, words, white, black, n), float *x, const uint32_t *words, float white,
               float black, int64_t n)

/* what the augmentation step stores: white_prob, black_prob */
static tp_status tp__aug_salt_pepper_image(tp__aug_run *r, const tp__aug_step *s)
{
    tp__aug_want_bytes(r, s);
    const tp_status st = tp__aug_make_writable(r);
    if (st != TP_OK) return st;
    const float white = (float)(1.0 - s->number[0]), black = (float)s->number[1];
    const int64_t n = r->x.h * r->x.w * r->x.c;
    uint32_t words[TP__AUG_NOISE];
    for (int64_t i = 0; i < n; i += TP__AUG_NOISE) {
        const int64_t m = n - i < TP__AUG_NOISE ? n - i : (int64_t)TP__AUG_NOISE;
        tp__random_words(s->augmentor->isa, s->key, (uint64_t)s->index, (uint64_t)i / 4, (m + 3) / 4, words);
        if (r->x.dtype == TP_U8) tp__aug_salt_bytes(r->wide, (unsigned char *)r->x.data + i, words, white, black, m);
        else tp__aug_salt_floats(r->wide, (float *)(void *)r->x.data + i, words, white, black, m);
    }
    return TP_OK;
}
static const tp__aug_kind tp__aug_salt_pepper = {"SaltPepperNoise", "white_prob black_prob", false,
                                                 tp__aug_salt_pepper_image, NULL};

/* -- JPEG noise ---- >>aug jpeg */
/* JPEG noise converts to YCbCr, halves the colour planes, applies 8x8 cosine transforms, quantises and converts back.
 * Entropy coding is lossless and is left out. */

/* Tables K.1 and K.2 of the JPEG standard, for luminance and chrominance at quality 50. */
static const unsigned char tp__aug_jpeg_table[2][64] = {
    {16, 11,  10,  16, 24, 40, 51, 61, 12,  12,  14,  19,  26, 58, 60, 55,  14,  13,  16,  24, 40, 57,
     69, 56,  14,  17, 22, 29, 51, 87, 80,  62,  18,  22,  37, 56, 68, 109, 103, 77,  24,  35, 55, 64,
     81, 104, 113, 92, 49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98,  112, 100, 103, 99},
    {17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99,
     99, 99, 47, 66, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
     99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99}};

/* A plane of integers stored as floats, padded to whole blocks. */
typedef struct tp__aug_plane {
    float *at;
    int64_t h, w, stride, rows;
} tp__aug_plane;

/* Rounds to the nearest integer, for |x| < 1024. */
TP__AUG_BODY float tp__aug_round_small(float x) { return (float)((int)(x + 1024.5f) - 1024); }
TP__AUG_BODY float tp__aug_round_byte(float x)
{
    x += 0.5f;
    x = x > 0.0f ? x : 0.0f;
    return (float)((int)(x < 255.0f ? x : 255.0f) & 255);
}

/* Computes the product of two 8x8 matrices. */
TP__AUG_BODY void tp__aug_product8(float *to, const float *a, const float *b)
{
#if defined(__GNUC__) && !defined(_WIN32) /* there gcc does not align the stack for wide vectors */
    typedef float eight __attribute__((vector_size(32)));
    eight row[8];
    memcpy(row, b, sizeof row);
    for (int i = 0; i < 8; i++) {
        eight sum = {0, 0, 0, 0, 0, 0, 0, 0};
        for (int k = 0; k < 8; k++) sum += a[8 * i + k] * row[k];
        memcpy(to + 8 * i, &sum, sizeof sum);
    }
#else
    for (int i = 0; i < 8; i++) {
        float sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        for (int k = 0; k < 8; k++)
            for (int j = 0; j < 8; j++) sum[j] += a[8 * i + k] * b[8 * k + j];
        memcpy(to + 8 * i, sum, sizeof sum);
    }
#endif
}
/* Processes a block: transform, divide by the table q, round, and transform back. c: the cosines, t: their transpose. */
TP__AUG_BODY void tp__aug_jpeg_block(float *block, int64_t stride, const float *c, const float *t, const float *q)
{
    float x[64], y[64];
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) x[8 * i + j] = block[i * stride + j] - 128.0f;
    tp__aug_product8(y, c, x);
    tp__aug_product8(x, y, t);
    for (int k = 0; k < 64; k++) {
        const float v = x[k] / q[k];
        x[k] = q[k] * (float)(int)(v + (v < 0.0f ? -0.5f : 0.5f));
    }
    tp__aug_product8(y, t, x);
    tp__aug_product8(x, y, c);
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) block[i * stride + j] = tp__aug_round_byte(x[8 * i + j] + 128.0f);
}
TP__AUG_BODY void tp__aug_jpeg_blocks_body(float *row, int64_t stride, const float *c, const float *t, const float *q)
{
    for (int64_t j = 0; j < stride; j += 8) tp__aug_jpeg_block(row + j, stride, c, t, q);
}
TP__AUG_KERNEL(tp__aug_jpeg_blocks, (row, stride, c, t, q), float *row, int64_t stride, const float *c, const float *t,
               const float *q)
/* Processes all blocks of a plane. */
static void tp__aug_jpeg_plane(bool wide, const tp__aug_plane *p, const float *c, const float *t,
                               const unsigned char *table, int quality)
{
    float q[64];
    const int scale = quality < 50 ? 5000 / quality : 200 - 2 * quality;
    for (int i = 0; i < 64; i++) {
        const int v = (table[i] * scale + 50) / 100;
        q[i] = (float)(v < 1 ? 1 : v > 255 ? 255 : v);
    }
    for (int64_t i = 0; i < p->rows; i += 8) tp__aug_jpeg_blocks(wide, p->at + i * p->stride, p->stride, c, t, q);
}

/* Repeats the last column and row to fill the blocks. */
static void tp__aug_plane_extend(const tp__aug_plane *p)
{
    for (int64_t i = 0; i < p->rows; i++) {
        float *row = p->at + i * p->stride;
        if (i >= p->h) memcpy(row, row - p->stride, (size_t)p->stride * sizeof(float));
        else
            for (int64_t j = p->w; j < p->stride; j++) row[j] = row[j - 1];
    }
}

/* Halves two rows: means of 2x2 pixels, rounded down and up alternately, as in libjpeg. n is even. */
TP__AUG_BODY void tp__aug_halve_rows_body(float *to, const float *a, const float *b, int64_t n)
{
    for (int64_t j = 0; j < n; j += 2) {
        const float *c = a + 2 * j, *d = b + 2 * j;
        to[j] = (float)(int)((c[0] + c[1] + d[0] + d[1] + 1.0f) * 0.25f);
        to[j + 1] = (float)(int)((c[2] + c[3] + d[2] + d[3] + 2.0f) * 0.25f);
    }
}
TP__AUG_KERNEL(tp__aug_halve_rows, (to, a, b, n), float *to, const float *a, const float *b, int64_t n)
/* Computes a row of twice the size from the nearer row a and the farther one b: 3/4 of the nearer and 1/4 of the farther pixel,
 * in both directions. work: scratch memory for n + 2 floats, to: n pairs. */
TP__AUG_BODY void tp__aug_double_row_body(float *to, const float *a, const float *b, float *work, int64_t n)
{
    float *mixed = work + 1;
    for (int64_t k = 0; k < n; k++) mixed[k] = 3.0f * a[k] + b[k];
    mixed[-1] = mixed[0];
    mixed[n] = mixed[n - 1];
    for (int64_t k = 0; k < n; k++) {
        to[2 * k] = (float)(int)((3.0f * mixed[k] + mixed[k - 1] + 8.0f) * 0.0625f);
        to[2 * k + 1] = (float)(int)((3.0f * mixed[k] + mixed[k + 1] + 7.0f) * 0.0625f);
    }
}
TP__AUG_KERNEL(tp__aug_double_row, (to, a, b, work, n), float *to, const float *a, const float *b, float *work,
               int64_t n)
/* Computes row i of the plane at twice the size. */
static void tp__aug_plane_double_row(bool wide, float *to, const tp__aug_plane *p, int64_t i, float *work)
{
    const int64_t near = i / 2, next = i & 1 ? near + 1 : near - 1;
    const int64_t far = next < 0 ? 0 : next >= p->h ? p->h - 1 : next;
    tp__aug_double_row(wide, to, p->at + near * p->stride, p->at + far * p->stride, work, p->w);
}

TP__AUG_BODY void tp__aug_round_bytes_body(float *x, int64_t n)
{
    for (int64_t j = 0; j < n; j++) x[j] = tp__aug_round_byte(x[j]);
}
TP__AUG_KERNEL(tp__aug_round_bytes, (x, n), float *x, int64_t n)
/* Y, Cb and Cr take the place of red, green and blue. */
TP__AUG_BODY void tp__aug_to_ycc_body(float *a, float *b, float *c, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        const float red = a[j], green = b[j], blue = c[j];
        a[j] = tp__aug_round_byte(0.299f * red + 0.587f * green + 0.114f * blue);
        b[j] = tp__aug_round_byte(-0.168735892f * red - 0.331264108f * green + 0.5f * blue + 128.0f);
        c[j] = tp__aug_round_byte(0.5f * red - 0.418687589f * green - 0.081312411f * blue + 128.0f);
    }
}
TP__AUG_KERNEL(tp__aug_to_ycc, (a, b, c, n), float *a, float *b, float *c, int64_t n)
TP__AUG_BODY float tp__aug_limit_byte(float x)
{
    x = x > 0.0f ? x : 0.0f;
    return x < 255.0f ? x : 255.0f;
}
/* The reverse; all values are integers. */
TP__AUG_BODY void tp__aug_from_ycc_body(float *a, float *b, float *c, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        const float y = a[j], blue = b[j] - 128.0f, red = c[j] - 128.0f;
        a[j] = tp__aug_limit_byte(y + tp__aug_round_small(1.402f * red));
        b[j] = tp__aug_limit_byte(y + tp__aug_round_small(-0.344136286f * blue - 0.714136286f * red));
        c[j] = tp__aug_limit_byte(y + tp__aug_round_small(1.772f * blue));
    }
}
TP__AUG_KERNEL(tp__aug_from_ycc, (a, b, c, n), float *a, float *b, float *c, int64_t n)

/* Splits an RGB image into three planes, or copies a grey image to one. */
static void tp__aug_jpeg_planes(tp__aug_run *r, const tp__aug_plane *p)
{
    for (int64_t i = 0; i < r->x.h; i++) {
        float *row[3] = {p[0].at + i * p[0].stride, NULL, NULL};
        if (r->x.c == 3) {
            for (int k = 1; k < 3; k++) row[k] = p[k].at + i * p[k].stride;
            tp__aug_split_row(r->wide, row, &r->x, i);
            for (int k = 0; k < 3 && r->x.dtype == TP_F32; k++) tp__aug_round_bytes(r->wide, row[k], r->x.w);
            tp__aug_to_ycc(r->wide, row[0], row[1], row[2], r->x.w);
        } else {
            tp__aug_get_row(r->wide, row[0], &r->x, i);
            tp__aug_round_bytes(r->wide, row[0], r->x.w);
        }
    }
    for (int k = 0; k < r->x.c; k++) tp__aug_plane_extend(&p[k]);
}

/* what the augmentation step stores: quality, subsample */
static tp_status tp__aug_jpeg_image(tp__aug_run *r, const tp__aug_step *s)
{
    if (r->x.c != 1 && r->x.c != 3)
        return tp_fail(TP_ERR_SHAPE, "%s: the image has %lld channels, it must have 1 or 3", s->augmentor->name,
                       (long long)r->x.c);
    tp__aug_want_bytes(r, s);
    const tp_status st = tp__aug_make_writable(r);
    if (st != TP_OK) return st;
    const bool colour = r->x.c == 3, half_resolution = colour && s->number[1] > 0;
    const int64_t h = r->x.h, w = r->x.w, side = half_resolution ? 16 : 8;
    const int64_t rows = (h + side - 1) / side * side, stride = (w + side - 1) / side * side, n = rows * stride;
    float *at = tp__aug_work(r, 2, (colour ? 3 : 1) * n + (half_resolution ? n / 2 : 0) + 3 * stride);
    if (!at) return TP_ERR_NOMEM;
    tp__aug_plane p[3], small[2];
    for (int k = 0; k < 3; k++) {
        const tp__aug_plane plane = {at + (colour ? k : 0) * n, h, w, stride, rows};
        p[k] = plane;
    }
    float c[64], t[64], *more = at + (colour ? 3 : 1) * n;
    for (int i = 0; i < 64; i++) {
        double cosine, sine;
        tp__cos_sin_of_turn((double)((2 * (i & 7) + 1) * (i >> 3) % 32) / 32.0, &cosine, &sine);
        c[i] = (float)(cosine * (i < 8 ? 0.35355339059327376 : 0.5));
        t[(i & 7) * 8 + (i >> 3)] = c[i];
    }
    const int quality = (int)s->number[0];
    tp__aug_jpeg_planes(r, p);
    tp__aug_jpeg_plane(r->wide, &p[0], c, t, tp__aug_jpeg_table[0], quality);
    for (int k = 0; k < 2 && colour; k++) {
        if (half_resolution) {
            const tp__aug_plane plane = {more + k * (n / 4), (h + 1) / 2, (w + 1) / 2, stride / 2, rows / 2};
            small[k] = plane;
            for (int64_t i = 0; i < plane.h; i++) { /* columns beyond the edge come from the extended large plane */
                const float *from = p[1 + k].at + 2 * i * stride;
                tp__aug_halve_rows(r->wide, plane.at + i * plane.stride, from, from + stride, plane.stride);
            }
            small[k].w = plane.stride;
            tp__aug_plane_extend(&small[k]);
            small[k].w = plane.w;
        }
        tp__aug_jpeg_plane(r->wide, half_resolution ? &small[k] : &p[1 + k], c, t, tp__aug_jpeg_table[1], quality);
    }
    more += half_resolution ? n / 2 : 0;
    for (int64_t i = 0; i < h; i++) {
        float *row[3] = {p[0].at + i * stride, p[1].at + i * stride, p[2].at + i * stride};
        for (int k = 0; k < 2 && half_resolution; k++) {
            row[1 + k] = more + k * stride;
            tp__aug_plane_double_row(r->wide, row[1 + k], &small[k], i, more + 2 * stride);
        }
        if (colour) {
            tp__aug_from_ycc(r->wide, row[0], row[1], row[2], w);
            tp__aug_join_row(r->wide, row, &r->x, i, 0.5f);
        } else tp__aug_put_row(r->wide, row[0], &r->x, i, 0.5f);
    }
    return TP_OK;
}
static const tp__aug_kind tp__aug_jpeg = {"JpegNoise", "quality subsample", false, tp__aug_jpeg_image, NULL};

TP__COLD_BEGIN

/* -- functions of the program's own ---- >>aug map_image */

static tp_aug_call tp__aug_map_call(const tp__aug_step *s)
{
    tp_aug_call call;
    call.user = s->augmentor->user;
    call.key = s->key;
    call.index = s->index;
    return call;
}
/* what the augmentation step stores: rows and columns of the result */
static tp_status tp__aug_map_apply(tp__aug_run *r, const tp__aug_step *s)
{
    const tp_aug_map_image_desc *d = (const tp_aug_map_image_desc *)s->augmentor->desc;
    const tp_aug_image_fn fn = r->mask ? d->mask_fn : d->fn;
    if (!fn)
        return tp_fail(TP_ERR_UNSUPPORTED, "%s: without mask_fn it cannot be applied to a mask", s->augmentor->name);
    tp_status st = tp__aug_make_writable(r);
    if (st != TP_OK) return st;
    tp_tensor *to = &r->t->image_[r->buffer == 0], in;
    const int64_t dim[3] = {r->x.h, r->x.w, r->x.c};
    const tp_aug_call call = tp__aug_map_call(s);
    memset(&in, 0, sizeof in);
    tp_tensor_view(&in, r->x.dtype, tp_make_shape_n(r->x.ndim, dim), r->x.data);
    tp_tensor_view(to, in.dtype, in.shape, in.data);
    st = fn(&in, to, &call);
    if (st == TP_END) st = TP_ERR; /* a map function must not return TP_END */
    if (st != TP_OK) return st;
    char text[TP_SHAPE_TEXT];
    const int n = to->shape.ndim;
    if (n < 2 || n > 3 || to->shape.dim[0] != (int64_t)s->number[0] || to->shape.dim[1] != (int64_t)s->number[1] ||
        tp_shape_size(&to->shape) < 1 || !to->data || (!r->mask && to->dtype != TP_U8 && to->dtype != TP_F32))
        return tp_fail(TP_ERR_SHAPE, "%s: the function made %s %s of an image, it must be uint8 or float32 of %gx%g",
                       s->augmentor->name, tp_dtype_name(to->dtype), tp_shape_text(&to->shape, text), s->number[0],
                       s->number[1]);
    r->y.data = (char *)to->data;
    r->y.dtype = to->dtype;
    r->y.h = to->shape.dim[0];
    r->y.w = to->shape.dim[1];
    r->y.c = n == 3 ? to->shape.dim[2] : 1;
    r->y.ndim = n;
    r->y.stride = (int64_t)tp__aug_row_bytes(&r->y);
    r->x = r->y;
    r->buffer = -1;
    for (int i = 0; i < 2; i++) { /* out has memory of its own, or is a view of the input image or of a part of it */
        const tp_tensor *b = &r->t->image_[i];
        if ((uintptr_t)to->data - (uintptr_t)b->own < b->capacity) r->buffer = i;
    }
    return TP_OK;
}
static void tp__aug_map_point(const tp__aug_step *s, float *x, float *y)
{
    const tp_aug_map_image_desc *d = (const tp_aug_map_image_desc *)s->augmentor->desc;
    const tp_aug_call call = tp__aug_map_call(s);
    d->coords_fn(x, y, &call);
}
static const tp__aug_kind tp__aug_map = {"MapImage", "h w", true, tp__aug_map_apply, tp__aug_map_point};
static const tp__aug_kind tp__aug_map_no_points = {"MapImage", "h w", true, tp__aug_map_apply, NULL};

static tp_status tp__aug_map_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const tp_aug_map_image_desc *o = (const tp_aug_map_image_desc *)a->desc;
    int64_t h = d->h, w = d->w;
    tp_aug_call call;
    call.user = a->user;
    call.key = d->key;
    call.index = d->index;
    if (o->size_fn) o->size_fn(&h, &w, &call);
    tp__aug_step *s = tp__aug_step_new(d, a, o->coords_fn ? &tp__aug_map : &tp__aug_map_no_points, h, w);
    if (!s) return tp__aug_step_status(h, w);
    s->number[0] = (double)h;
    s->number[1] = (double)w;
    return TP_OK;
}

TP_DEF tp_augmentor *tp_aug_map_image_(const tp_aug_map_image_desc *d)
{
    if (!d) return tp__aug_no_options(__func__);
    tp_augmentor *a = d->fn ? tp__aug_new("tp_aug_map_image", tp__aug_map_draw, d, sizeof *d)
                            : tp__aug_fail(&d->at_, TP_ERR_ARG, "tp_aug_map_image: the function is NULL");
    if (a) {
        a->user = d->user;
        a->release = d->release;
    } else if (d->release) {
        d->release(d->user);
    }
    return a;
}

/* -- lists and choices ---- >>aug list */

static tp_status tp__aug_identity_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    (void)d;
    (void)a;
    return TP_OK;
}
TP_DEF tp_augmentor *tp_aug_identity(void) { return tp__aug_new("tp_aug_identity", tp__aug_identity_draw, NULL, 0); }

/* Returns the depth-first number (place) of child k in the tree of augmentors; `first` is that of child 0. */
static int tp__aug_place_of(const tp_augmentor *a, int first, int k)
{
    for (int i = 0; i < k; i++) first += a->child[i]->places;
    return first;
}

static tp_status tp__aug_list_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    tp_status st = TP_OK;
    for (int i = 0; i < a->n_child && st == TP_OK; i++) st = tp__aug_draw_one(d, a->child[i]);
    return st;
}
static tp_status tp__aug_apply_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    return tp__aug_uniform(d, 0, 1) < a->prob[0] ? tp__aug_draw_one(d, a->child[0]) : TP_OK;
}
static tp_status tp__aug_choose_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const double u = tp__aug_uniform(d, 0, 1);
    int k = 0;
    while (k + 1 < a->n_child && !(u < a->prob[k])) k++;
    d->place = tp__aug_place_of(a, d->place, k);
    return tp__aug_draw_one(d, a->child[k]);
}
#define TP__AUG_ORDERED 64
static tp_status tp__aug_order_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    int64_t order[TP__AUG_ORDERED];
    const int first = d->place;
    tp_random_permutation(tp_random_key(d->key, (uint64_t)d->index), order, a->n_child);
    tp_status st = TP_OK;
    for (int i = 0; i < a->n_child && st == TP_OK; i++) {
        d->place = tp__aug_place_of(a, first, (int)order[i]);
        st = tp__aug_draw_one(d, a->child[order[i]]);
    }
    return st;
}

static void tp__aug_drop(tp_augmentor *a)
{
    if (a && !a->owner_.who) tp__aug_delete(a);
}

/* Makes an augmentor that owns n children. If it cannot be made, its children are freed and the first poison child is
 * returned. */
static tp_augmentor *tp__aug_parent(const char *name, tp_status (*draw)(tp__aug_draw *, const tp_augmentor *),
                                    tp_augmentor *const *augs, int n)
{
    tp_augmentor *a = NULL, *poison = NULL;
    bool missing = false;
    for (int i = 0; i < n; i++) {
        if (!augs[i]) missing = true;
        else if (augs[i]->poison != TP_OK && !augs[i]->owner_.who && !poison) poison = augs[i];
    }
    if (!missing && !poison && n > 0) {
        a = tp__aug_new(name, draw, NULL, 0);
        if (a) a->child = (tp_augmentor **)tp_calloc((size_t)n, sizeof *a->child);
        if (a) a->prob = (double *)tp_calloc((size_t)n, sizeof *a->prob);
        if (a && (!a->child || !a->prob)) {
            tp__aug_delete(a);
            a = NULL;
        }
    } else if (missing) {
        tp_fail(TP_ERR_ARG, "%s: an augmentor is NULL: its constructor found no memory", name);
    } else if (poison) {
        tp_aug_status(poison);
    } else {
        return tp__aug_fail(NULL, TP_ERR_ARG, "%s: needs at least one augmentor", name);
    }
    for (int i = 0; i < n && a; i++) {
        if (!tp__set_owner(&augs[i]->owner_, augs[i]->name, name, NULL)) {
            char text[TP__ERROR_TEXT];
            snprintf(text, sizeof text, "%s", tp_last_error());
            for (int k = i + 1; k < n; k++)
                if (!tp__listed_before((const void *const *)augs, k)) tp__aug_drop(augs[k]);
            tp__aug_delete(a);
            return tp__aug_fail(NULL, TP_ERR_ARG, "%.380s", text);
        }
        a->child[a->n_child++] = augs[i];
        a->places += augs[i]->places;
    }
    for (int i = 0; i < n && !a; i++)
        if (augs[i] != poison && !tp__listed_before((const void *const *)augs, i)) tp__aug_drop(augs[i]);
    return a ? a : poison;
}

TP_DEF tp_augmentor *tp_aug_list(tp_augmentor *const *augs, int n)
{
    TP__REQUIRE(augs || n == 0, NULL)
    return tp__aug_parent("tp_aug_list", tp__aug_list_draw, augs, n);
}

TP_DEF tp_augmentor *tp_aug_random_apply(tp_augmentor *aug, double prob)
{
    tp_augmentor *a = tp__aug_parent("tp_aug_random_apply", tp__aug_apply_draw, &aug, 1);
    if (!a || a->poison != TP_OK) return a;
    a->prob[0] = prob;
    if (prob >= 0 && prob <= 1) return a;
    tp__aug_delete(a);
    return tp__aug_fail(NULL, TP_ERR_ARG, "tp_aug_random_apply: the probability is %g, it must lie in 0 to 1", prob);
}

TP_DEF tp_augmentor *tp_aug_random_choose(tp_augmentor *const *augs, int n, const double *prob)
{
    TP__REQUIRE(augs || n == 0, NULL)
    tp_augmentor *a = tp__aug_parent("tp_aug_random_choose", tp__aug_choose_draw, augs, n);
    if (!a || a->poison != TP_OK) return a;
    double sum = 0;
    bool are_valid = true;
    int last = 0;
    for (int i = 0; i < n; i++) {
        are_valid = are_valid && (!prob || prob[i] >= 0);
        sum += prob ? prob[i] : 1.0 / n;
        a->prob[i] = sum;
        if (!prob || prob[i] > 0) last = i;
    }
    a->prob[last] = 2; /* instead of 1, so that rounding leaves no gap at the end */
    if (are_valid && sum > 0.999999 && sum < 1.000001) return a;
    tp__aug_delete(a);
    return tp__aug_fail(NULL, TP_ERR_ARG,
                        "tp_aug_random_choose: the probabilities must not be negative and sum to 1, their sum is %g",
                        sum);
}

TP_DEF tp_augmentor *tp_aug_random_order(tp_augmentor *const *augs, int n)
{
    TP__REQUIRE(augs || n == 0, NULL)
    tp_augmentor *a = tp__aug_parent("tp_aug_random_order", tp__aug_order_draw, augs, n);
    if (!a || a->poison != TP_OK || n <= TP__AUG_ORDERED) return a;
    tp__aug_delete(a);
    return tp__aug_fail(NULL, TP_ERR_ARG, "tp_aug_random_order: %d augmentors, at most %d can be ordered", n,
                        TP__AUG_ORDERED);
}

/* -- sizes ---- >>aug resize */

static bool tp__aug_inter_valid(int inter, bool warp)
{
    return inter >= TP_INTER_DEFAULT && inter <= (warp ? TP_INTER_CUBIC : TP_INTER_LANCZOS);
}
static tp_augmentor *tp__aug_bad_inter(const tp_at *at, const char *name, int inter)
{
    return tp__aug_fail(at, TP_ERR_ARG, "%s: interp %d is no tp_inter, or not one for this augmentor", name, inter);
}
static tp_augmentor *tp__aug_bad_size(const tp_at *at, const char *name, int h, int w)
{
    return tp__aug_fail(at, TP_ERR_ARG, "%s: the size is %dx%d, it must be positive, at most 2^24 per side", name, h,
                        w);
}
static bool tp__aug_size_valid(int n) { return n >= 1 && n <= TP__AUG_SIDE; }
/* Whether a range was given, with low <= high; both 0: not given. */
static bool tp__aug_range_given(const float *range)
{
    return !(range[0] >= 0 && range[0] <= 0 && range[1] >= 0 && range[1] <= 0);
}
static bool tp__aug_range_valid(const float *range, double lower, double upper)
{
    return (double)range[0] >= lower && range[1] >= range[0] && (double)range[1] <= upper;
}
static void tp__aug_range_default(float *range, float low, float high)
{
    if (tp__aug_range_given(range)) return;
    range[0] = low;
    range[1] = high;
}
static tp_augmentor *tp__aug_bad_range(const tp_at *at, const char *name, const char *option, const float *range)
{
    return tp__aug_fail(
        at, TP_ERR_ARG,
        "%s: %s is {%g, %g}: give two numbers within the option's limits, the second not below the first", name, option,
        (double)range[0], (double)range[1]);
}

static tp_status tp__aug_resize_step(tp__aug_draw *d, const tp_augmentor *a, int64_t h, int64_t w, int inter,
                                     bool antialias)
{
    tp__aug_step *s = tp__aug_step_new(d, a, &tp__aug_resize, h, w);
    if (!s) return tp__aug_step_status(h, w);
    s->number[0] = (double)h;
    s->number[1] = (double)w;
    s->number[2] = inter == TP_INTER_DEFAULT ? TP_INTER_LINEAR : inter;
    s->number[3] = antialias;
    return TP_OK;
}

static tp_status tp__aug_resize_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const tp_aug_resize_desc *o = (const tp_aug_resize_desc *)a->desc;
    return tp__aug_resize_step(d, a, o->h, o->w, o->interp, tp__tri_is_yes(o->antialias, false));
}
TP_DEF tp_augmentor *tp_aug_resize_(const tp_aug_resize_desc *d)
{
    if (!d) return tp__aug_no_options(__func__);
    tp_aug_resize_desc o = *d;
    if (!o.w) o.w = o.h;
    if (!tp__aug_size_valid(o.h) || !tp__aug_size_valid(o.w))
        return tp__aug_bad_size(&d->at_, "tp_aug_resize", o.h, o.w);
    if (!tp__aug_inter_valid(o.interp, false)) return tp__aug_bad_inter(&d->at_, "tp_aug_resize", o.interp);
    return tp__aug_new("tp_aug_resize", tp__aug_resize_draw, &o, sizeof o);
}

static tp_status tp__aug_shortest_step(tp__aug_draw *d, const tp_augmentor *a, int size, int inter, bool antialias)
{
    const double scale = (double)size / (double)(d->h < d->w ? d->h : d->w);
    const int64_t h = d->h < d->w ? size : (int64_t)(scale * (double)d->h + 0.5),
                  w = d->h < d->w ? (int64_t)(scale * (double)d->w + 0.5) : size;
    return tp__aug_resize_step(d, a, h, w, inter, antialias);
}
static tp_status tp__aug_shortest_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const tp_aug_resize_shortest_edge_desc *o = (const tp_aug_resize_shortest_edge_desc *)a->desc;
    return tp__aug_shortest_step(d, a, o->size, o->interp, tp__tri_is_yes(o->antialias, false));
}
TP_DEF tp_augmentor *tp_aug_resize_shortest_edge_(const tp_aug_resize_shortest_edge_desc *d)
{
    static const char name[] = "tp_aug_resize_shortest_edge";
    if (!d) return tp__aug_no_options(__func__);
    if (!tp__aug_size_valid(d->size)) return tp__aug_bad_size(&d->at_, name, d->size, d->size);
    if (!tp__aug_inter_valid(d->interp, false)) return tp__aug_bad_inter(&d->at_, name, d->interp);
    return tp__aug_new(name, tp__aug_shortest_draw, d, sizeof *d);
}

static int64_t tp__aug_rounded(double size, int minimum)
{
    const double limit = (double)TP__AUG_SIDE + 1;
    size = size > (double)minimum ? size : (double)minimum;
    return (int64_t)((size < limit ? size : limit) + 0.5);
}
static tp_status tp__aug_random_resize_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const tp_aug_random_resize_desc *o = (const tp_aug_random_resize_desc *)a->desc;
    const double h = (double)d->h, w = (double)d->w, threshold = (double)o->aspect_ratio_thres;
    const bool pixels = tp__tri_is_yes(o->pixels, false), keep = !(threshold > 0),
               antialias = tp__tri_is_yes(o->antialias, false);
    for (int i = 0; i <= 50; i++) {
        double x = tp__aug_uniform(d, (double)o->xrange[0], (double)o->xrange[1]);
        double y = keep ? pixels ? x / w * h : x : tp__aug_uniform(d, (double)o->yrange[0], (double)o->yrange[1]);
        if (!pixels) x *= w, y *= h;
        const int64_t to_w = tp__aug_rounded(x, o->minimum[0]), to_h = tp__aug_rounded(y, o->minimum[1]);
        const double aspect_change = (double)to_w / (double)(to_h > 0 ? to_h : 1) / (w / h) - 1;
        if (keep || (aspect_change < 0 ? -aspect_change : aspect_change) < threshold + 1e-5)
            return tp__aug_resize_step(d, a, to_h, to_w, o->interp, antialias);
    }
    return tp__aug_resize_step(d, a, d->h, d->w, o->interp, antialias);
}
TP_DEF tp_augmentor *tp_aug_random_resize_(const tp_aug_random_resize_desc *d)
{
    static const char name[] = "tp_aug_random_resize";
    if (!d) return tp__aug_no_options(__func__);
    tp_aug_random_resize_desc o = *d;
    if (!tp__aug_range_given(o.yrange)) memcpy(o.yrange, o.xrange, sizeof o.yrange);
    o.aspect_ratio_thres = tp__float_option(d->aspect_ratio_thres, 0.15f);
    if (!tp__aug_range_given(o.xrange) || !tp__aug_range_valid(o.xrange, 0, 1e6))
        return tp__aug_bad_range(&d->at_, name, "xrange", o.xrange);
    if (!tp__aug_range_valid(o.yrange, 0, 1e6)) return tp__aug_bad_range(&d->at_, name, "yrange", o.yrange);
    if (!(o.aspect_ratio_thres >= 0) || o.minimum[0] < 0 || o.minimum[1] < 0)
        return tp__aug_fail(&d->at_, TP_ERR_ARG,
                            "%s: aspect_ratio_thres is %g and minimum {%d, %d}: none may be negative", name,
                            (double)o.aspect_ratio_thres, o.minimum[0], o.minimum[1]);
    if (!tp__aug_inter_valid(o.interp, false)) return tp__aug_bad_inter(&d->at_, name, o.interp);
    return tp__aug_new(name, tp__aug_random_resize_draw, &o, sizeof o);
}

/* -- crops, borders, backgrounds ---- >>aug crop */

static tp_status tp__aug_crop_step(tp__aug_draw *d, const tp_augmentor *a, int64_t y0, int64_t x0, int64_t h, int64_t w)
{
    tp__aug_step *s = tp__aug_step_new(d, a, &tp__aug_crop, h, w);
    if (!s) return tp__aug_step_status(h, w);
    s->number[0] = (double)y0;
    s->number[1] = (double)x0;
    s->number[2] = (double)h;
    s->number[3] = (double)w;
    return TP_OK;
}
static tp_status tp__aug_too_small(const tp__aug_draw *d, const tp_augmentor *a, int64_t h, int64_t w)
{
    return tp_fail(TP_ERR_SHAPE, "%s: a part of %lldx%lld was asked for, the image is %lldx%lld", a->name, (long long)h,
                   (long long)w, (long long)d->h, (long long)d->w);
}
static tp_status tp__aug_random_crop_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const int *o = (const int *)a->desc;
    if (o[0] > d->h || o[1] > d->w) return tp__aug_too_small(d, a, o[0], o[1]);
    const int64_t y0 = tp__aug_randint(d, 0, d->h - o[0] + 1), x0 = tp__aug_randint(d, 0, d->w - o[1] + 1);
    return tp__aug_crop_step(d, a, y0, x0, o[0], o[1]);
}
static tp_status tp__aug_center_crop_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const int *o = (const int *)a->desc;
    if (o[0] > d->h || o[1] > d->w) return tp__aug_too_small(d, a, o[0], o[1]);
    return tp__aug_crop_step(d, a, (d->h - o[0]) / 2, (d->w - o[1]) / 2, o[0], o[1]);
}
static tp_augmentor *tp__aug_crop_new(const char *name, tp_status (*draw)(tp__aug_draw *, const tp_augmentor *), int h,
                                      int w)
{
    const int o[2] = {h, w};
    if (!tp__aug_size_valid(h) || !tp__aug_size_valid(w)) return tp__aug_bad_size(NULL, name, h, w);
    return tp__aug_new(name, draw, o, sizeof o);
}
TP_DEF tp_augmentor *tp_aug_random_crop(int h, int w)
{
    return tp__aug_crop_new("tp_aug_random_crop", tp__aug_random_crop_draw, h, w);
}
TP_DEF tp_augmentor *tp_aug_center_crop(int h, int w)
{
    return tp__aug_crop_new("tp_aug_center_crop", tp__aug_center_crop_draw, h, w);
}

static tp_status tp__aug_random_shape_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const tp_aug_random_crop_random_shape_desc *o = (const tp_aug_random_crop_random_shape_desc *)a->desc;
    const int64_t hmax = o->hmax ? o->hmax : d->h, wmax = o->wmax ? o->wmax : d->w;
    const int64_t h = tp__aug_randint(d, o->hmin, hmax + 1), w = tp__aug_randint(d, o->wmin, wmax + 1);
    if (h > d->h || w > d->w) return tp__aug_too_small(d, a, h, w);
    const int64_t y0 = h == d->h ? 0 : tp__aug_randint(d, 0, d->h - h),
                  x0 = w == d->w ? 0 : tp__aug_randint(d, 0, d->w - w);
    return tp__aug_crop_step(d, a, y0, x0, h, w);
}
TP_DEF tp_augmentor *tp_aug_random_crop_random_shape_(const tp_aug_random_crop_random_shape_desc *d)
{
    static const char name[] = "tp_aug_random_crop_random_shape";
    if (!d) return tp__aug_no_options(__func__);
    if (!tp__aug_size_valid(d->hmin) || !tp__aug_size_valid(d->wmin))
        return tp__aug_bad_size(&d->at_, name, d->hmin, d->wmin);
    if ((d->hmax && d->hmax < d->hmin) || (d->wmax && d->wmax < d->wmin))
        return tp__aug_fail(&d->at_, TP_ERR_ARG, "%s: the maximum, %dx%d, is less than the minimum, %dx%d", name,
                            d->hmax, d->wmax, d->hmin, d->wmin);
    return tp__aug_new(name, tp__aug_random_shape_draw, d, sizeof *d);
}

static tp_status tp__aug_google_net_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    typedef tp_aug_google_net_random_crop_and_resize_desc desc;
    const desc *o = (const desc *)a->desc;
    const double area = (double)d->h * (double)d->w;
    const bool antialias = tp__tri_is_yes(o->antialias, false);
    tp_status st = TP_OK;
    for (int i = 0; i < 10; i++) {
        const double target =
            tp__aug_uniform(d, (double)o->crop_area_fraction[0], (double)o->crop_area_fraction[1]) * area;
        const double aspect = tp__aug_uniform(d, (double)o->aspect_ratio_range[0], (double)o->aspect_ratio_range[1]);
        int64_t w = (int64_t)(sqrt(target * aspect) + 0.5), h = (int64_t)(sqrt(target / aspect) + 0.5);
        if (tp__aug_uniform(d, 0, 1) < 0.5) {
            const int64_t swap = w;
            w = h;
            h = swap;
        }
        if (h > d->h || w > d->w || h < 1 || w < 1) continue;
        const int64_t x0 = tp__aug_randint(d, 0, d->w - w + 1), y0 = tp__aug_randint(d, 0, d->h - h + 1);
        st = tp__aug_crop_step(d, a, y0, x0, h, w);
        return st == TP_OK ? tp__aug_resize_step(d, a, o->target_shape, o->target_shape, o->interp, antialias) : st;
    }
    st = tp__aug_shortest_step(d, a, o->target_shape, o->interp, antialias);
    if (st != TP_OK) return st;
    const int64_t n = o->target_shape;
    return tp__aug_crop_step(d, a, (d->h - n) / 2, (d->w - n) / 2, n, n);
}
TP_DEF tp_augmentor *tp_aug_google_net_random_crop_and_resize_(const tp_aug_google_net_random_crop_and_resize_desc *d)
{
    static const char name[] = "tp_aug_google_net_random_crop_and_resize";
    if (!d) return tp__aug_no_options(__func__);
    tp_aug_google_net_random_crop_and_resize_desc o = *d;
    tp__aug_range_default(o.crop_area_fraction, 0.08f, 1.0f);
    tp__aug_range_default(o.aspect_ratio_range, 0.75f, 1.333f);
    if (!o.target_shape) o.target_shape = 224;
    if (!tp__aug_range_valid(o.crop_area_fraction, 1e-9, 1))
        return tp__aug_bad_range(&d->at_, name, "crop_area_fraction", o.crop_area_fraction);
    if (!tp__aug_range_valid(o.aspect_ratio_range, 1e-3, 1e3))
        return tp__aug_bad_range(&d->at_, name, "aspect_ratio_range", o.aspect_ratio_range);
    if (!tp__aug_size_valid(o.target_shape)) return tp__aug_bad_size(&d->at_, name, o.target_shape, o.target_shape);
    if (!tp__aug_inter_valid(o.interp, false)) return tp__aug_bad_inter(&d->at_, name, o.interp);
    return tp__aug_new(name, tp__aug_google_net_draw, &o, sizeof o);
}

static tp_status tp__aug_cutout_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const tp_aug_random_cutout_desc *o = (const tp_aug_random_cutout_desc *)a->desc;
    const int64_t h = o->h_range[1] ? tp__aug_randint(d, o->h_range[0], o->h_range[1]) : o->h_range[0];
    const int64_t w = o->w_range[1] ? tp__aug_randint(d, o->w_range[0], o->w_range[1]) : o->w_range[0];
    if (h > d->h || w > d->w) return tp__aug_too_small(d, a, h, w);
    const int64_t x0 = tp__aug_randint(d, 0, d->w + 1 - w), y0 = tp__aug_randint(d, 0, d->h + 1 - h);
    tp__aug_step *s = tp__aug_step_new(d, a, &tp__aug_cutout, d->h, d->w);
    if (!s) return TP_ERR_NOMEM;
    s->number[0] = (double)y0;
    s->number[1] = (double)x0;
    s->number[2] = (double)h;
    s->number[3] = (double)w;
    s->number[4] = (double)o->fill;
    return TP_OK;
}
TP_DEF tp_augmentor *tp_aug_random_cutout_(const tp_aug_random_cutout_desc *d)
{
    static const char name[] = "tp_aug_random_cutout";
    if (!d) return tp__aug_no_options(__func__);
    const int *h = d->h_range, *w = d->w_range;
    if (!tp__aug_size_valid(h[0]) || !tp__aug_size_valid(w[0])) return tp__aug_bad_size(&d->at_, name, h[0], w[0]);
    if ((h[1] && h[1] <= h[0]) || (w[1] && w[1] <= w[0]))
        return tp__aug_fail(&d->at_, TP_ERR_ARG,
                            "%s: h_range is {%d, %d} and w_range {%d, %d}: the second number must be above the first",
                            name, h[0], h[1], w[0], w[1]);
    return tp__aug_new(name, tp__aug_cutout_draw, d, sizeof *d);
}

static bool tp__aug_edge_valid(int edge) { return edge >= TP_EDGE_DEFAULT && edge <= TP_EDGE_WRAP; }

static tp_status tp__aug_pad_step(tp__aug_draw *d, const tp_augmentor *a, int64_t top, int64_t left, int64_t h,
                                  int64_t w, int edge, float value)
{
    tp__aug_step *s = tp__aug_step_new(d, a, &tp__aug_pad, h, w);
    if (!s) return tp__aug_step_status(h, w);
    s->number[0] = (double)top;
    s->number[1] = (double)left;
    s->number[2] = (double)h;
    s->number[3] = (double)w;
    s->number[4] = edge == TP_EDGE_DEFAULT ? TP_EDGE_CONSTANT : edge;
    s->number[5] = (double)value;
    return TP_OK;
}
static tp_status tp__aug_pad_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const tp_aug_pad_desc *o = (const tp_aug_pad_desc *)a->desc;
    const int64_t p = o->pad, h = d->h + 2 * p + o->top + o->bottom, w = d->w + 2 * p + o->left + o->right;
    return tp__aug_pad_step(d, a, p + o->top, p + o->left, h, w, o->border, o->border_value);
}
TP_DEF tp_augmentor *tp_aug_pad_(const tp_aug_pad_desc *d)
{
    if (!d) return tp__aug_no_options(__func__);
    const int n[5] = {d->pad, d->top, d->bottom, d->left, d->right};
    for (int i = 0; i < 5; i++)
        if (n[i] < 0 || n[i] > TP__AUG_SIDE)
            return tp__aug_fail(&d->at_, TP_ERR_ARG, "tp_aug_pad: a border of %d pixels: it must be 0 to 2^24", n[i]);
    if (!tp__aug_edge_valid(d->border))
        return tp__aug_fail(&d->at_, TP_ERR_ARG, "tp_aug_pad: border %d is no tp_edge", d->border);
    return tp__aug_new("tp_aug_pad", tp__aug_pad_draw, d, sizeof *d);
}

static tp_status tp__aug_paste_fits(const tp__aug_draw *d, const tp_augmentor *a, const tp_aug_paste_desc *o)
{
    if (o->h >= d->h && o->w >= d->w) return TP_OK;
    return tp_fail(TP_ERR_SHAPE, "%s: the background is %dx%d, the image, %lldx%lld, does not fit into it", a->name,
                   o->h, o->w, (long long)d->h, (long long)d->w);
}
static tp_status tp__aug_center_paste_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const tp_aug_paste_desc *o = (const tp_aug_paste_desc *)a->desc;
    const tp_status st = tp__aug_paste_fits(d, a, o);
    return st != TP_OK
               ? st
               : tp__aug_pad_step(d, a, (o->h - d->h) / 2, (o->w - d->w) / 2, o->h, o->w, TP_EDGE_CONSTANT, o->fill);
}
static tp_status tp__aug_random_paste_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const tp_aug_paste_desc *o = (const tp_aug_paste_desc *)a->desc;
    const tp_status st = tp__aug_paste_fits(d, a, o);
    if (st != TP_OK) return st;
    const int64_t top = (int64_t)tp__aug_uniform(d, 0, (double)(o->h - d->h)),
                  left = (int64_t)tp__aug_uniform(d, 0, (double)(o->w - d->w));
    return tp__aug_pad_step(d, a, top, left, o->h, o->w, TP_EDGE_CONSTANT, o->fill);
}
static tp_augmentor *tp__aug_paste_new(const char *name, tp_status (*draw)(tp__aug_draw *, const tp_augmentor *),
                                       const tp_aug_paste_desc *d)
{
    tp_aug_paste_desc o = *d;
    if (!o.w) o.w = o.h;
    if (!tp__aug_size_valid(o.h) || !tp__aug_size_valid(o.w)) return tp__aug_bad_size(&d->at_, name, o.h, o.w);
    return tp__aug_new(name, draw, &o, sizeof o);
}
TP_DEF tp_augmentor *tp_aug_center_paste_(const tp_aug_paste_desc *d)
{
    return d ? tp__aug_paste_new("tp_aug_center_paste", tp__aug_center_paste_draw, d) : tp__aug_no_options(__func__);
}
TP_DEF tp_augmentor *tp_aug_random_paste_(const tp_aug_paste_desc *d)
{
    return d ? tp__aug_paste_new("tp_aug_random_paste", tp__aug_random_paste_draw, d) : tp__aug_no_options(__func__);
}

/* -- geometry ---- >>aug geometry */

static bool tp__aug_prob_valid(float p) { return p >= 0 && p <= 1; }
static tp_augmentor *tp__aug_bad_prob(const tp_at *at, const char *name, float p)
{
    return tp__aug_fail(at, TP_ERR_ARG, "%s: a probability is %g, it must lie in 0 to 1", name, (double)p);
}

static tp_status tp__aug_flip_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const tp_aug_flip_desc *o = (const tp_aug_flip_desc *)a->desc;
    if (!(tp__aug_uniform(d, 0, 1) < (double)o->prob)) return TP_OK;
    return tp__aug_add_step(d, a, &tp__aug_flip, tp__tri_is_yes(o->horiz, false), 0);
}
TP_DEF tp_augmentor *tp_aug_flip_(const tp_aug_flip_desc *d)
{
    if (!d) return tp__aug_no_options(__func__);
    tp_aug_flip_desc o = *d;
    o.prob = tp__float_option(d->prob, 0.5f);
    if (tp__tri_is_yes(o.horiz, false) == tp__tri_is_yes(o.vert, false))
        return tp__aug_fail(
            &d->at_, TP_ERR_ARG,
            "tp_aug_flip: set one of .horiz and .vert to true; for both use two flips, for no flip .prob = 0");
    if (!tp__aug_prob_valid(o.prob)) return tp__aug_bad_prob(&d->at_, "tp_aug_flip", o.prob);
    return tp__aug_new("tp_aug_flip", tp__aug_flip_draw, &o, sizeof o);
}

static tp_status tp__aug_transpose_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const tp_aug_transpose_desc *o = (const tp_aug_transpose_desc *)a->desc;
    if (!(tp__aug_uniform(d, 0, 1) < (double)o->prob)) return TP_OK;
    return tp__aug_step_new(d, a, &tp__aug_transpose, d->w, d->h) ? TP_OK : TP_ERR_NOMEM;
}
TP_DEF tp_augmentor *tp_aug_transpose_(const tp_aug_transpose_desc *d)
{
    if (!d) return tp__aug_no_options(__func__);
    tp_aug_transpose_desc o = *d;
    o.prob = tp__float_option(d->prob, 0.5f);
    if (!tp__aug_prob_valid(o.prob)) return tp__aug_bad_prob(&d->at_, "tp_aug_transpose", o.prob);
    return tp__aug_new("tp_aug_transpose", tp__aug_transpose_draw, &o, sizeof o);
}

static tp_status tp__aug_warp_step(tp__aug_draw *d, const tp_augmentor *a, const double *m, int inter, int edge,
                                   float value)
{
    tp__aug_step *s = tp__aug_step_new(d, a, &tp__aug_warp, d->h, d->w);
    if (!s) return TP_ERR_NOMEM;
    memcpy(s->number, m, 6 * sizeof *m);
    s->number[6] = inter == TP_INTER_DEFAULT ? TP_INTER_LINEAR : inter;
    s->number[7] = edge == TP_EDGE_DEFAULT ? TP_EDGE_REPLICATE : edge;
    s->number[8] = (double)value;
    return TP_OK;
}
/* Computes the cosine and sine of an angle in degrees, with the same bits on every machine. */
static void tp__aug_angle(double degrees, double *cosine, double *sine)
{
    double turns = degrees / 360.0;
    turns -= floor(turns);
    tp__cos_sin_of_turn(turns < 1.0 ? turns : 0.0, cosine, sine);
}
/* Computes the matrix of a counter-clockwise rotation and a scaling about a point, OpenCV's getRotationMatrix2D. */
static void tp__aug_rotation_matrix(double *m, double x, double y, double degrees, double scale)
{
    double cosine, sine;
    tp__aug_angle(degrees, &cosine, &sine);
    m[0] = m[4] = scale * cosine;
    m[1] = scale * sine;
    m[3] = -m[1];
    m[2] = (1 - m[0]) * x - m[1] * y;
    m[5] = m[1] * x + (1 - m[0]) * y;
}
/* Rounds half to even, as numpy's round. */
static double tp__aug_round_even(double x)
{
    const double low = floor(x), rest = x - low;
    const double up = rest > 0.5 ? 1 : rest < 0.5 ? 0 : floor(low / 2) * 2 < low ? 1 : 0;
    return low + up;
}

/* Warns of an augmentor that leaves each image as it is. That is no error, as these options have no effect by default in tensorpack. */
static void tp__aug_does_nothing(const tp_at *at, const char *name, const char *options)
{
    char place[TP__PLACE_TEXT];
    tp_log(TP_LOG_WARN, "%s%s changes no image: give %s", tp__place_text(at, place), name, options);
}

static tp_status tp__aug_shift_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const tp_aug_shift_desc *o = (const tp_aug_shift_desc *)a->desc;
    const double x = (double)o->horiz_frac * (double)d->w, y = (double)o->vert_frac * (double)d->h;
    double m[6] = {1, 0, 0, 0, 1, 0};
    m[2] = tp__aug_round_even(tp__aug_uniform(d, -x, x));
    m[5] = tp__aug_round_even(tp__aug_uniform(d, -y, y));
    return tp__aug_warp_step(d, a, m, TP_INTER_NEAREST, o->border, o->border_value);
}
TP_DEF tp_augmentor *tp_aug_shift_(const tp_aug_shift_desc *d)
{
    if (!d) return tp__aug_no_options(__func__);
    if (!(d->horiz_frac >= 0 && d->horiz_frac < 1 && d->vert_frac >= 0 && d->vert_frac < 1))
        return tp__aug_fail(&d->at_, TP_ERR_ARG,
                            "tp_aug_shift: the fractions are %g and %g, they must be at least 0 and below 1",
                            (double)d->horiz_frac, (double)d->vert_frac);
    if (!tp__aug_edge_valid(d->border))
        return tp__aug_fail(&d->at_, TP_ERR_ARG, "tp_aug_shift: border %d is no tp_edge", d->border);
    if (!(d->horiz_frac > 0 || d->vert_frac > 0))
        tp__aug_does_nothing(&d->at_, "tp_aug_shift", ".horiz_frac or .vert_frac");
    return tp__aug_new("tp_aug_shift", tp__aug_shift_draw, d, sizeof *d);
}

static double tp__aug_degrees(tp__aug_draw *d, float max_degrees, float step)
{
    const double degrees = tp__aug_uniform(d, -(double)max_degrees, (double)max_degrees);
    return step > 0 ? floor(degrees / (double)step) * (double)step : degrees;
}
static bool tp__aug_step_valid(float max_degrees, float step)
{
    if (!(max_degrees > 0 && max_degrees <= 1e6f && step >= 0)) return false;
    if (!(step > 0)) return true;
    const double parts = 180.0 / (double)step;
    return max_degrees >= 180 && max_degrees <= 180 && !(parts > floor(parts));
}

static tp_status tp__aug_rotation_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const tp_aug_rotation_desc *o = (const tp_aug_rotation_desc *)a->desc;
    const double x = tp__aug_uniform(d, (double)o->center_range[0], (double)o->center_range[1]) * (double)d->w - 0.5;
    const double y = tp__aug_uniform(d, (double)o->center_range[0], (double)o->center_range[1]) * (double)d->h - 0.5;
    double m[6];
    tp__aug_rotation_matrix(m, x, y, tp__aug_degrees(d, o->max_deg, o->step_deg), 1);
    return tp__aug_warp_step(d, a, m, o->interp, o->border, o->border_value);
}
TP_DEF tp_augmentor *tp_aug_rotation_(const tp_aug_rotation_desc *d)
{
    static const char name[] = "tp_aug_rotation";
    if (!d) return tp__aug_no_options(__func__);
    tp_aug_rotation_desc o = *d;
    tp__aug_range_default(o.center_range, 0, 1);
    if (!tp__aug_step_valid(o.max_deg, o.step_deg))
        return tp__aug_fail(&d->at_, TP_ERR_ARG,
                            "%s: max_deg is %g and step_deg %g: max_deg must be positive; step_deg must divide 180 and "
                            "needs max_deg 180",
                            name, (double)o.max_deg, (double)o.step_deg);
    if (!tp__aug_range_valid(o.center_range, -1e6, 1e6))
        return tp__aug_bad_range(&d->at_, name, "center_range", o.center_range);
    if (!tp__aug_inter_valid(o.interp, true)) return tp__aug_bad_inter(&d->at_, name, o.interp);
    if (!tp__aug_edge_valid(o.border))
        return tp__aug_fail(&d->at_, TP_ERR_ARG, "%s: border %d is no tp_edge", name, o.border);
    return tp__aug_new(name, tp__aug_rotation_draw, &o, sizeof o);
}

/* Computes the largest upright rectangle within a rotated rectangle of w by h. It touches either the two longer sides
 * or all four. */
static void tp__aug_largest_rectangle(double w, double h, double degrees, int64_t *width, int64_t *height)
{
    double c, s, x, y;
    tp__aug_angle(degrees, &c, &s);
    c = c < 0 ? -c : c;
    s = s < 0 ? -s : s;
    const double long_side = w > h ? w : h, short_side = w > h ? h : w;
    if (short_side <= 2 * s * c * long_side) {
        x = 0.5 * short_side / (w >= h ? s : c);
        y = 0.5 * short_side / (w >= h ? c : s);
    } else {
        x = (w * c - h * s) / (c * c - s * s);
        y = (h * c - w * s) / (c * c - s * s);
    }
    x = tp__aug_round_even(x < w ? x : w);
    y = tp__aug_round_even(y < h ? y : h);
    *width = x < 1 ? 1 : (int64_t)x;
    *height = y < 1 ? 1 : (int64_t)y;
}
static tp_status tp__aug_rotation_and_crop_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const tp_aug_rotation_and_crop_valid_desc *o = (const tp_aug_rotation_and_crop_valid_desc *)a->desc;
    const double degrees = tp__aug_degrees(d, o->max_deg, o->step_deg), x = (double)d->w * 0.5, y = (double)d->h * 0.5;
    double m[6];
    int64_t w, h;
    tp__aug_rotation_matrix(m, x - 0.5, y - 0.5, degrees, 1);
    tp__aug_largest_rectangle((double)d->w, (double)d->h, degrees, &w, &h);
    const tp_status st = tp__aug_warp_step(d, a, m, o->interp, TP_EDGE_CONSTANT, 0);
    return st != TP_OK ? st
                       : tp__aug_crop_step(d, a, (int64_t)(y - (double)h * 0.5), (int64_t)(x - (double)w * 0.5), h, w);
}
TP_DEF tp_augmentor *tp_aug_rotation_and_crop_valid_(const tp_aug_rotation_and_crop_valid_desc *d)
{
    static const char name[] = "tp_aug_rotation_and_crop_valid";
    if (!d) return tp__aug_no_options(__func__);
    if (!tp__aug_step_valid(d->max_deg, d->step_deg))
        return tp__aug_fail(&d->at_, TP_ERR_ARG,
                            "%s: max_deg is %g and step_deg %g: max_deg must be positive; step_deg must divide 180 and "
                            "needs max_deg 180",
                            name, (double)d->max_deg, (double)d->step_deg);
    if (!tp__aug_inter_valid(d->interp, true)) return tp__aug_bad_inter(&d->at_, name, d->interp);
    return tp__aug_new(name, tp__aug_rotation_and_crop_draw, d, sizeof *d);
}

static tp_status tp__aug_affine_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const tp_aug_affine_desc *o = (const tp_aug_affine_desc *)a->desc;
    const double x = (double)d->w * 0.5 - 0.5, y = (double)d->h * 0.5 - 0.5;
    double m[6], dx = 0, dy = 0, shear = 0, c, s;
    const double scale =
        tp__aug_range_given(o->scale) ? tp__aug_uniform(d, (double)o->scale[0], (double)o->scale[1]) : 1;
    if (tp__aug_range_given(o->translate_frac)) {
        const double max_shift_x = (double)o->translate_frac[0] * (double)d->w,
                     most_y = (double)o->translate_frac[1] * (double)d->h;
        dx = tp__aug_round_even(tp__aug_uniform(d, -max_shift_x, max_shift_x));
        dy = tp__aug_round_even(tp__aug_uniform(d, -most_y, most_y));
    }
    if (o->shear > 0) shear = tp__aug_uniform(d, -(double)o->shear, (double)o->shear);
    tp__aug_rotation_matrix(m, x, y, tp__aug_degrees(d, o->rotate_max_deg, 0), scale);
    if (o->shear > 0) {
        tp__aug_angle(shear, &c, &s);
        m[1] = m[1] * c + m[0] * s;
        m[4] = m[4] * c + m[3] * s;
        m[2] = x * (1 - m[0]) - y * m[1];
        m[5] = -x * m[3] + y * (1 - m[4]);
    }
    m[2] += dx;
    m[5] += dy;
    return tp__aug_warp_step(d, a, m, o->interp, o->border, o->border_value);
}
TP_DEF tp_augmentor *tp_aug_affine_(const tp_aug_affine_desc *d)
{
    static const char name[] = "tp_aug_affine";
    if (!d) return tp__aug_no_options(__func__);
    const float *t = d->translate_frac;
    if (tp__aug_range_given(d->scale) && !tp__aug_range_valid(d->scale, 1e-3, 1e3))
        return tp__aug_bad_range(&d->at_, name, "scale", d->scale);
    if (!(t[0] >= 0 && t[0] <= 100 && t[1] >= 0 && t[1] <= 100))
        return tp__aug_fail(&d->at_, TP_ERR_ARG, "%s: translate_frac is {%g, %g}, each must lie in 0 to 100", name,
                            (double)t[0], (double)t[1]);
    if (!(d->rotate_max_deg >= 0 && d->rotate_max_deg <= 1e6f && d->shear >= 0 && d->shear < 90))
        return tp__aug_fail(&d->at_, TP_ERR_ARG,
                            "%s: rotate_max_deg is %g and shear %g: neither may be negative, shear is below 90", name,
                            (double)d->rotate_max_deg, (double)d->shear);
    if (!tp__aug_inter_valid(d->interp, true)) return tp__aug_bad_inter(&d->at_, name, d->interp);
    if (!tp__aug_edge_valid(d->border))
        return tp__aug_fail(&d->at_, TP_ERR_ARG, "%s: border %d is no tp_edge", name, d->border);
    if (!tp__aug_range_given(d->scale) && !tp__aug_range_given(t) && !(d->rotate_max_deg > 0 || d->shear > 0))
        tp__aug_does_nothing(&d->at_, name, ".scale, .translate_frac, .rotate_max_deg or .shear");
    return tp__aug_new(name, tp__aug_affine_draw, d, sizeof *d);
}

/* -- colours and noise ---- >>aug colour options */

static tp_status tp__aug_brightness_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const tp_aug_brightness_desc *o = (const tp_aug_brightness_desc *)a->desc;
    tp__aug_step *s = tp__aug_step_new(d, a, &tp__aug_brightness, d->h, d->w);
    if (!s) return TP_ERR_NOMEM;
    s->number[0] = 1;
    s->number[1] = tp__aug_uniform(d, -(double)o->delta, (double)o->delta);
    s->number[2] = tp__tri_is_yes(o->clip, true);
    return TP_OK;
}
TP_DEF tp_augmentor *tp_aug_brightness_(const tp_aug_brightness_desc *d)
{
    if (!d) return tp__aug_no_options(__func__);
    if (!(d->delta > 0 && d->delta <= 1e6f))
        return tp__aug_fail(&d->at_, TP_ERR_ARG, "tp_aug_brightness: delta is %g, it must be positive",
                            (double)d->delta);
    return tp__aug_new("tp_aug_brightness", tp__aug_brightness_draw, d, sizeof *d);
}

static tp_status tp__aug_brightness_scale_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const tp_aug_brightness_scale_desc *o = (const tp_aug_brightness_scale_desc *)a->desc;
    tp__aug_step *s = tp__aug_step_new(d, a, &tp__aug_brightness, d->h, d->w);
    if (!s) return TP_ERR_NOMEM;
    s->number[0] = tp__aug_uniform(d, (double)o->range[0], (double)o->range[1]);
    s->number[2] = tp__tri_is_yes(o->clip, true);
    return TP_OK;
}
TP_DEF tp_augmentor *tp_aug_brightness_scale_(const tp_aug_brightness_scale_desc *d)
{
    static const char name[] = "tp_aug_brightness_scale";
    if (!d) return tp__aug_no_options(__func__);
    if (!tp__aug_range_given(d->range) || !tp__aug_range_valid(d->range, -1e6, 1e6))
        return tp__aug_bad_range(&d->at_, name, "range", d->range);
    return tp__aug_new(name, tp__aug_brightness_scale_draw, d, sizeof *d);
}

/* Adds a step with a factor, clip, and the order of colours: 1 RGB, 0 BGR, -1 not given */
static tp_status tp__aug_factor_step(tp__aug_draw *d, const tp_augmentor *a, const tp__aug_kind *kind, double factor,
                                     tp_tri clip, int rgb)
{
    tp__aug_step *s = tp__aug_step_new(d, a, kind, d->h, d->w);
    if (!s) return TP_ERR_NOMEM;
    s->number[0] = factor;
    s->number[1] = tp__tri_is_yes(clip, true);
    s->number[2] = rgb;
    return TP_OK;
}
static tp_status tp__aug_contrast_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const tp_aug_contrast_desc *o = (const tp_aug_contrast_desc *)a->desc;
    const double factor = tp__aug_uniform(d, (double)o->factor_range[0], (double)o->factor_range[1]);
    const int rgb = o->rgb == TP_YES ? 1 : o->rgb == TP_NO ? 0 : -1;
    return tp__aug_factor_step(d, a, &tp__aug_contrast, factor, o->clip, rgb);
}
TP_DEF tp_augmentor *tp_aug_contrast_(const tp_aug_contrast_desc *d)
{
    if (!d) return tp__aug_no_options(__func__);
    if (!tp__aug_range_given(d->factor_range) || !tp__aug_range_valid(d->factor_range, -1e6, 1e6))
        return tp__aug_bad_range(&d->at_, "tp_aug_contrast", "factor_range", d->factor_range);
    return tp__aug_new("tp_aug_contrast", tp__aug_contrast_draw, d, sizeof *d);
}

static tp_status tp__aug_saturation_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const tp_aug_saturation_desc *o = (const tp_aug_saturation_desc *)a->desc;
    const double factor = 1 + tp__aug_uniform(d, -(double)o->alpha, (double)o->alpha);
    return tp__aug_factor_step(d, a, &tp__aug_saturation, factor, o->clip, tp__tri_is_yes(o->rgb, true));
}
TP_DEF tp_augmentor *tp_aug_saturation_(const tp_aug_saturation_desc *d)
{
    if (!d) return tp__aug_no_options(__func__);
    tp_aug_saturation_desc o = *d;
    o.alpha = tp__float_option(d->alpha, 0.4f);
    if (!(o.alpha >= 0 && o.alpha < 1))
        return tp__aug_fail(&d->at_, TP_ERR_ARG, "tp_aug_saturation: alpha is %g, it must be at least 0 and below 1",
                            (double)o.alpha);
    return tp__aug_new("tp_aug_saturation", tp__aug_saturation_draw, &o, sizeof o);
}

static tp_status tp__aug_hue_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const tp_aug_hue_desc *o = (const tp_aug_hue_desc *)a->desc;
    const double hue = tp__aug_uniform(d, (double)o->range[0], (double)o->range[1]);
    return tp__aug_add_step(d, a, &tp__aug_hue, hue, tp__tri_is_yes(o->rgb, true));
}
TP_DEF tp_augmentor *tp_aug_hue_(const tp_aug_hue_desc *d)
{
    if (!d) return tp__aug_no_options(__func__);
    tp_aug_hue_desc o = *d;
    tp__aug_range_default(o.range, 0, 180);
    if (!tp__aug_range_valid(o.range, -1e6, 1e6)) return tp__aug_bad_range(&d->at_, "tp_aug_hue", "range", o.range);
    return tp__aug_new("tp_aug_hue", tp__aug_hue_draw, &o, sizeof o);
}

static tp_status tp__aug_gamma_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const tp_aug_gamma_desc *o = (const tp_aug_gamma_desc *)a->desc;
    return tp__aug_add_step(d, a, &tp__aug_gamma, tp__aug_uniform(d, (double)o->range[0], (double)o->range[1]), 0);
}
TP_DEF tp_augmentor *tp_aug_gamma_(const tp_aug_gamma_desc *d)
{
    if (!d) return tp__aug_no_options(__func__);
    tp_aug_gamma_desc o = *d;
    tp__aug_range_default(o.range, -0.5f, 0.5f);
    if (!tp__aug_range_valid(o.range, -0.999, 1e6)) return tp__aug_bad_range(&d->at_, "tp_aug_gamma", "range", o.range);
    return tp__aug_new("tp_aug_gamma", tp__aug_gamma_draw, &o, sizeof o);
}

static tp_status tp__aug_clip_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const tp_aug_clip_desc *o = (const tp_aug_clip_desc *)a->desc;
    return tp__aug_add_step(d, a, &tp__aug_clip, (double)o->min, (double)o->max);
}
TP_DEF tp_augmentor *tp_aug_clip_(const tp_aug_clip_desc *d)
{
    if (!d) return tp__aug_no_options(__func__);
    tp_aug_clip_desc o = *d;
    o.max = tp__float_option(d->max, 255.0f);
    if (!(o.min <= o.max))
        return tp__aug_fail(&d->at_, TP_ERR_ARG, "tp_aug_clip: min is %g and max %g", (double)o.min, (double)o.max);
    return tp__aug_new("tp_aug_clip", tp__aug_clip_draw, &o, sizeof o);
}

static tp_status tp__aug_lighting_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const tp_aug_lighting_desc *o = (const tp_aug_lighting_desc *)a->desc;
    tp__aug_step *s = tp__aug_step_new(d, a, &tp__aug_lighting, d->h, d->w);
    if (!s) return TP_ERR_NOMEM;
    for (int k = 0; k < 3; k++) {
        const double v =
            tp_random_normal(d->key, (uint64_t)d->index, d->drawn++) * (double)o->std * (double)o->eigval[k];
        for (int i = 0; i < 3; i++) s->number[i] += (double)o->eigvec[3 * i + k] * v;
    }
    s->number[3] = tp__tri_is_yes(o->clip, true);
    return TP_OK;
}
TP_DEF tp_augmentor *tp_aug_lighting_(const tp_aug_lighting_desc *d)
{
    /* the principal components of ImageNet's colours, RGB (fb.resnet.torch) */
    static const float value[3] = {0.2175f * 255, 0.0188f * 255, 0.0045f * 255};
    static const float vector[9] = {-0.5675f, 0.7192f,  0.4009f,  -0.5808f, -0.0045f,
                                    -0.8140f, -0.5836f, -0.6948f, 0.4203f};
    if (!d) return tp__aug_no_options(__func__);
    tp_aug_lighting_desc o = *d;
    bool values = false, vectors = false;
    for (int i = 0; i < 3; i++) values = values || o.eigval[i] > 0 || o.eigval[i] < 0;
    for (int i = 0; i < 9; i++) vectors = vectors || o.eigvec[i] > 0 || o.eigvec[i] < 0;
    if (!values) memcpy(o.eigval, value, sizeof value);
    if (!vectors) memcpy(o.eigvec, vector, sizeof vector);
    if (!(o.std > 0 && o.std <= 1e6f))
        return tp__aug_fail(&d->at_, TP_ERR_ARG, "tp_aug_lighting: std is %g, it must be positive", (double)o.std);
    return tp__aug_new("tp_aug_lighting", tp__aug_lighting_draw, &o, sizeof o);
}

static tp_status tp__aug_normalize_step(tp__aug_draw *d, const tp_augmentor *a, const tp__aug_kind *kind, bool all,
                                        double scale, double plus)
{
    tp__aug_step *s = tp__aug_step_new(d, a, kind, d->h, d->w);
    if (!s) return TP_ERR_NOMEM;
    s->number[0] = all;
    s->number[1] = scale;
    s->number[2] = plus;
    return TP_OK;
}
static tp_status tp__aug_mean_variance_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const tp_aug_mean_variance_normalize_desc *o = (const tp_aug_mean_variance_normalize_desc *)a->desc;
    return tp__aug_normalize_step(d, a, &tp__aug_mean_variance, tp__tri_is_yes(o->all_channel, true), 1, 0);
}
TP_DEF tp_augmentor *tp_aug_mean_variance_normalize_(const tp_aug_mean_variance_normalize_desc *d)
{
    if (!d) return tp__aug_no_options(__func__);
    return tp__aug_new("tp_aug_mean_variance_normalize", tp__aug_mean_variance_draw, d, sizeof *d);
}
static tp_status tp__aug_min_max_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const tp_aug_min_max_normalize_desc *o = (const tp_aug_min_max_normalize_desc *)a->desc;
    const double low = (double)o->min, high = (double)o->max;
    return tp__aug_normalize_step(d, a, &tp__aug_min_max, tp__tri_is_yes(o->all_channel, true), high - low, low);
}
TP_DEF tp_augmentor *tp_aug_min_max_normalize_(const tp_aug_min_max_normalize_desc *d)
{
    if (!d) return tp__aug_no_options(__func__);
    tp_aug_min_max_normalize_desc o = *d;
    o.max = tp__float_option(d->max, 255.0f);
    return tp__aug_new("tp_aug_min_max_normalize", tp__aug_min_max_draw, &o, sizeof o);
}

static tp_status tp__aug_color_step(tp__aug_draw *d, const tp_augmentor *a, int mode, bool keepdims, bool keepshape)
{
    tp__aug_step *s = tp__aug_step_new(d, a, &tp__aug_color, d->h, d->w);
    if (!s) return TP_ERR_NOMEM;
    s->number[0] = mode;
    s->number[1] = keepdims;
    s->number[2] = keepshape;
    return TP_OK;
}
static tp_status tp__aug_grayscale_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const tp_aug_grayscale_desc *o = (const tp_aug_grayscale_desc *)a->desc;
    const int mode = tp__tri_is_yes(o->rgb, false) ? TP_COLOR_RGB2GRAY : TP_COLOR_BGR2GRAY;
    return tp__aug_color_step(d, a, mode, tp__tri_is_yes(o->keepdims, true), tp__tri_is_yes(o->keepshape, false));
}
TP_DEF tp_augmentor *tp_aug_grayscale_(const tp_aug_grayscale_desc *d)
{
    if (!d) return tp__aug_no_options(__func__);
    if (tp__tri_is_yes(d->keepshape, false) && !tp__tri_is_yes(d->keepdims, true))
        return tp__aug_fail(&d->at_, TP_ERR_ARG, "tp_aug_grayscale: .keepshape needs .keepdims");
    return tp__aug_new("tp_aug_grayscale", tp__aug_grayscale_draw, d, sizeof *d);
}
static tp_status tp__aug_color_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const tp_aug_color_space_desc *o = (const tp_aug_color_space_desc *)a->desc;
    return tp__aug_color_step(d, a, o->mode, tp__tri_is_yes(o->keepdims, true), false);
}
TP_DEF tp_augmentor *tp_aug_color_space_(const tp_aug_color_space_desc *d)
{
    if (!d) return tp__aug_no_options(__func__);
    if (d->mode < TP_COLOR_RGB2GRAY || d->mode > TP_COLOR_HSV2BGR)
        return tp__aug_fail(&d->at_, TP_ERR_ARG, "tp_aug_color_space: mode %d is no tp_color", (int)d->mode);
    return tp__aug_new("tp_aug_color_space", tp__aug_color_draw, d, sizeof *d);
}

static tp_status tp__aug_to_uint8_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    return tp__aug_add_step(d, a, &tp__aug_cast, 0, 0);
}
static tp_status tp__aug_to_float32_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    return tp__aug_add_step(d, a, &tp__aug_cast, 1, 0);
}
TP_DEF tp_augmentor *tp_aug_to_uint8(void) { return tp__aug_new("tp_aug_to_uint8", tp__aug_to_uint8_draw, NULL, 0); }
TP_DEF tp_augmentor *tp_aug_to_float32(void)
{
    return tp__aug_new("tp_aug_to_float32", tp__aug_to_float32_draw, NULL, 0);
}

static tp_status tp__aug_blur_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const tp_aug_gaussian_blur_desc *o = (const tp_aug_gaussian_blur_desc *)a->desc;
    const bool is_symmetric = tp__tri_is_yes(o->symmetric, true);
    tp__aug_step *s = tp__aug_step_new(d, a, &tp__aug_blur, d->h, d->w);
    if (!s) return TP_ERR_NOMEM;
    for (int k = 0; k < 2; k++) s->number[k] = (double)(2 * tp__aug_randint(d, o->size_range[0], o->size_range[1]) + 1);
    for (int k = 2; k < 4; k++) s->number[k] = tp__aug_uniform(d, (double)o->sigma_range[0], (double)o->sigma_range[1]);
    if (is_symmetric) s->number[1] = s->number[0];
    if (is_symmetric) s->number[3] = s->number[2];
    return TP_OK;
}
TP_DEF tp_augmentor *tp_aug_gaussian_blur_(const tp_aug_gaussian_blur_desc *d)
{
    static const char name[] = "tp_aug_gaussian_blur";
    if (!d) return tp__aug_no_options(__func__);
    tp_aug_gaussian_blur_desc o = *d;
    if (!o.size_range[0] && !o.size_range[1]) o.size_range[1] = 3;
    if (o.size_range[0] < 0 || o.size_range[1] <= o.size_range[0] || o.size_range[1] > 10000)
        return tp__aug_fail(&d->at_, TP_ERR_ARG,
                            "%s: size_range is {%d, %d}: the second number must be above the first, at most 10000",
                            name, o.size_range[0], o.size_range[1]);
    if (!tp__aug_range_valid(o.sigma_range, 0, 1e6))
        return tp__aug_bad_range(&d->at_, name, "sigma_range", o.sigma_range);
    return tp__aug_new(name, tp__aug_blur_draw, &o, sizeof o);
}

static tp_status tp__aug_jpeg_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const tp_aug_jpeg_noise_desc *o = (const tp_aug_jpeg_noise_desc *)a->desc;
    const int64_t quality = tp__aug_randint(d, o->quality_range[0], o->quality_range[1]);
    return tp__aug_add_step(d, a, &tp__aug_jpeg, (double)quality, tp__tri_is_yes(o->subsample, true));
}
TP_DEF tp_augmentor *tp_aug_jpeg_noise_(const tp_aug_jpeg_noise_desc *d)
{
    if (!d) return tp__aug_no_options(__func__);
    tp_aug_jpeg_noise_desc o = *d;
    if (!o.quality_range[0] && !o.quality_range[1]) o.quality_range[0] = 40, o.quality_range[1] = 100;
    if (o.quality_range[0] < 1 || o.quality_range[1] <= o.quality_range[0] || o.quality_range[1] > 101)
        return tp__aug_fail(&d->at_, TP_ERR_ARG,
                            "tp_aug_jpeg_noise: quality_range is {%d, %d}: the second number must be above the first, "
                            "both within 1 to 100",
                            o.quality_range[0], o.quality_range[1]);
    return tp__aug_new("tp_aug_jpeg_noise", tp__aug_jpeg_draw, &o, sizeof o);
}

static tp_status tp__aug_gaussian_noise_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const tp_aug_gaussian_noise_desc *o = (const tp_aug_gaussian_noise_desc *)a->desc;
    return tp__aug_add_step(d, a, &tp__aug_gaussian_noise, (double)o->sigma, tp__tri_is_yes(o->clip, true));
}
TP_DEF tp_augmentor *tp_aug_gaussian_noise_(const tp_aug_gaussian_noise_desc *d)
{
    if (!d) return tp__aug_no_options(__func__);
    tp_aug_gaussian_noise_desc o = *d;
    o.sigma = tp__float_option(d->sigma, 1.0f);
    if (!(o.sigma >= 0 && o.sigma <= 1e6f))
        return tp__aug_fail(&d->at_, TP_ERR_ARG, "tp_aug_gaussian_noise: sigma is %g, it must not be negative",
                            (double)o.sigma);
    return tp__aug_noise_new("tp_aug_gaussian_noise", tp__aug_gaussian_noise_draw, &o, sizeof o);
}

static tp_status tp__aug_salt_pepper_draw(tp__aug_draw *d, const tp_augmentor *a)
{
    const tp_aug_salt_pepper_noise_desc *o = (const tp_aug_salt_pepper_noise_desc *)a->desc;
    return tp__aug_add_step(d, a, &tp__aug_salt_pepper, (double)o->white_prob, (double)o->black_prob);
}
TP_DEF tp_augmentor *tp_aug_salt_pepper_noise_(const tp_aug_salt_pepper_noise_desc *d)
{
    static const char name[] = "tp_aug_salt_pepper_noise";
    if (!d) return tp__aug_no_options(__func__);
    tp_aug_salt_pepper_noise_desc o = *d;
    o.white_prob = tp__float_option(d->white_prob, 0.05f);
    o.black_prob = tp__float_option(d->black_prob, 0.05f);
    if (!tp__aug_prob_valid(o.white_prob) || !tp__aug_prob_valid(o.black_prob) || !(o.white_prob + o.black_prob <= 1))
        return tp__aug_fail(&d->at_, TP_ERR_ARG,
                            "%s: white_prob is %g and black_prob %g: they and their sum must lie in 0 to 1", name,
                            (double)o.white_prob, (double)o.black_prob);
    return tp__aug_noise_new(name, tp__aug_salt_pepper_draw, &o, sizeof o);
}

/* -- flows ---- >>df augment */

typedef struct tp__augment_memory { /* The scratch memory of one thread. */
    tp_transform t;
    tp__stb stb;
    tp_buf path, file;
    tp_tensor image; /* the image loaded from the file */
} tp__augment_memory;

typedef struct tp__augment {
    tp_augmentor *a;
    tp__augment_memory **thread_memory;
    int n_thread_memory;
    int n[4], index[4][8]; /* for images, masks, points and boxes: number of components, and their indices */
    double mask_fill;
    bool catch_errors;
    int64_t n_caught; /* atomic; number of datapoints that were dropped after errors */
    const char *name;
    bool load, encoded, skip; /* tp_df_load_image: the first component is a file */
    int channel;
    int64_t max_pixels;
} tp__augment;

static void tp__augment_release(void *user)
{
    tp__augment *f = (tp__augment *)user;
    for (int i = 0; i < f->n_thread_memory && f->thread_memory; i++) {
        tp__augment_memory *m = f->thread_memory[i];
        if (!m) continue;
        tp_transform_free(&m->t);
        tp__stb_free_all(&m->stb);
        tp_buf_free(&m->path);
        tp_buf_free(&m->file);
        tp_tensor_free(&m->image);
        tp_free(m);
    }
    tp_free(f->thread_memory);
    tp__aug_delete(f->a);
    tp_free(f);
}

static tp_status tp__augment_component(const tp__augment *f, tp_transform *t, int kind, const tp_tensor *in,
                                       tp_tensor *out)
{
    if (kind == 0) return tp_aug_apply_image(t, in, out);
    if (kind == 1) return tp_aug_apply_mask(t, in, f->mask_fill, out);
    return kind == 2 ? tp_aug_apply_coords(t, in, out) : tp_aug_apply_boxes(t, in, out);
}

/* Says which component an error of an augmented datapoint is about. option: the option that chose it. */
static tp_status tp__augment_named(tp_status st, int component, const char *option)
{
    char text[TP__ERROR_TEXT];
    snprintf(text, sizeof text, "%.1800s", tp_last_error());
    return tp_fail(st, "component %d (%s): %s", component, option, text);
}

static tp_status tp__augment_load(const tp__augment *f, tp__augment_memory *m, const tp_tensor *x)
{
    if (x->dtype != TP_U8 || x->shape.ndim != 1)
        return tp_fail(TP_ERR_ARG, "component %d is to be loaded, so it must be %s: uint8 (length)", f->index[0][0],
                       f->encoded ? "the contents of an image file" : "a path");
    const size_t size = (size_t)tp_tensor_size(x);
    if (f->encoded) return tp__image_decode(&m->stb, x->data, size, "the image", f->channel, f->max_pixels, &m->image);
    m->path.len = 0;
    tp_buf_put(&m->path, x->data, size);
    tp_buf_put(&m->path, "", 1);
    if (m->path.failed) {
        m->path.failed = false;
        return tp_fail(TP_ERR_NOMEM, "out of memory for the name of a file");
    }
    return tp__image_read(&m->stb, m->path.data, f->channel, f->max_pixels, &m->file, &m->image);
}

static tp_status tp__augment_all(const tp__augment *f, tp__augment_memory *m, const tp_datapoint *in, tp_datapoint *out,
                                 const tp_map_call *call)
{
    static const char *const option[] = {".index", ".mask_index", ".coords_index", ".box_index"};
    const tp_tensor *first = f->load ? &m->image : &in->c[f->index[0][0]];
    char text[TP_SHAPE_TEXT];
    if (first->shape.ndim < 2 || first->shape.ndim > 3)
        return tp_fail(TP_ERR_SHAPE, "an image to be augmented has shape (H,W) or (H,W,C), this one has %s%s",
                       tp_shape_text(&first->shape, text),
                       first->shape.ndim > 3 ? ": tp_df_batch comes after the augmentation" : "");
    if (first->shape.ndim == 3 && first->shape.dim[2] > 4)
        tp_log_once(TP_LOG_WARN,
                    "%s: images have shape %s: are %lld channels meant? A batch of grey images is not augmented: "
                    "tp_df_batch comes after the augmentation",
                    f->name, tp_shape_text(&first->shape, text), (long long)first->shape.dim[2]);
    tp_status st = tp_aug_draw(f->a, first->shape.dim[0], first->shape.dim[1], call->key, call->index, &m->t);
    for (int kind = 0; kind < 4; kind++)
        for (int i = 0; i < f->n[kind] && st == TP_OK; i++) {
            const int k = f->index[kind][i];
            st = tp__augment_component(f, &m->t, kind, kind == 0 && i == 0 ? first : &in->c[k], &out->c[k]);
            if (kind > 0 && (st == TP_ERR_DTYPE || st == TP_ERR_SHAPE)) st = tp__augment_named(st, k, option[kind]);
        }
    return st;
}

static tp_status tp__augment_map(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    tp__augment *f = (tp__augment *)call->user;
    tp__augment_memory *m = f->thread_memory[call->thread];
    tp_status st = TP_OK;
    for (int kind = 0; kind < 4; kind++)
        for (int i = 0; i < f->n[kind] && st == TP_OK; i++)
            if (f->index[kind][i] >= in->n)
                st = tp_fail(TP_ERR_ARG, "component %d is to be augmented, the datapoint has %d components",
                             f->index[kind][i], in->n);
    if (st == TP_OK && f->load) st = tp__augment_load(f, m, &in->c[f->index[0][0]]);
    if (f->skip && tp__image_skips(st)) {
        tp_log_once(TP_LOG_WARN, "skipped: %s", tp_last_error());
        call->drop = true;
        return TP_OK;
    }
    if (st == TP_OK) st = tp__augment_all(f, m, in, out, call);
    if (st >= TP_OK || st == TP_ERR_NOMEM || !f->catch_errors) return st;
    call->drop = true;
    const int64_t caught = TP__WIDE_ADD(&f->n_caught, 1);
    if (caught < 10 || caught % 100 == 0)
        tp_log(TP_LOG_WARN, "%s [%s: pass %lld, datapoint %lld] was left out, %lld until now", tp_last_error(), f->name,
               (long long)call->pass, (long long)call->index, (long long)caught);
    return TP_OK;
}

/* Copies the options and component lists in `lists`, and adds scratch memory for each thread. NULL: out of memory. */
static tp__augment *tp__augment_ready(const tp__augment *lists, int threads)
{
    tp__augment *f = (tp__augment *)tp_malloc(sizeof *f);
    if (!f) return NULL;
    *f = *lists;
    f->a = NULL;
    f->n_thread_memory = threads;
    f->thread_memory = (tp__augment_memory **)tp_calloc((size_t)threads, sizeof *f->thread_memory);
    bool allocated = f->thread_memory != NULL;
    for (int i = 0; i < threads && allocated; i++)
        allocated = (f->thread_memory[i] = (tp__augment_memory *)tp_calloc(1, sizeof **f->thread_memory));
    if (allocated) return f;
    tp__augment_release(f);
    return NULL;
}

/* The common part of the four constructors: the component lists are already filled in; the new flow owns the flow below and the
 * augmentor. Without threads it is a tp_df_map, else a tp_df_parallel_map. */
static tp_dataflow *tp__augment_new(const tp_df_parallel_map_desc *d, const char *name, tp_augmentor *a,
                                    const tp__augment *lists)
{
    tp_df_parallel_map_desc m = *d;
    tp_dataflow *df = d->df;
    const int threads = d->num_thread > 0 && d->num_thread <= TP__MAX_FLOW_THREADS ? d->num_thread : 1;
    m.fn = tp__augment_map;
    m.release = tp__augment_release;
    m.keeps_all = lists->catch_errors || lists->skip ? TP_NO : TP_YES;
    tp_status st = tp_aug_status(a);
    const bool owns_augmentor = st == TP_OK && tp__set_owner(&a->owner_, a->name, name, &d->at_);
    if (st == TP_OK && !owns_augmentor) st = TP_ERR_ARG;
    for (int kind = 0; kind < 4 && st == TP_OK; kind++) {
        if (lists->n[kind] < 0 || lists->n[kind] > 8)
            st = tp_fail(TP_ERR_ARG, "a list of %d components", lists->n[kind]);
        for (int i = 0; i < lists->n[kind] && st == TP_OK; i++)
            if (lists->index[kind][i] < 0) st = tp_fail(TP_ERR_ARG, "there is no component %d", lists->index[kind][i]);
    }
    if (st == TP_OK && (lists->max_pixels < 0 || (lists->channel && lists->channel != 1 && lists->channel != 3)))
        st = tp_fail(TP_ERR_ARG, "channel is %d (3 is RGB, 1 grey) and max_pixels %lld", lists->channel,
                     (long long)lists->max_pixels);
    tp__augment *f = st == TP_OK ? tp__augment_ready(lists, threads) : NULL;
    if (f) {
        f->a = a;
        f->name = name;
        m.user = f;
        /* tp_df_load_image is of the kind of tp_df_augment_image, so that both give the same images */
        const char *kind = lists->load ? "tp_df_augment_image" : name;
        if (d->num_thread != 0 || d->buffer_size < 0) return tp__parallel_map(&m, name, kind);
        tp_df_map_desc map_desc;
        memset(&map_desc, 0, sizeof map_desc);
        map_desc.at_ = m.at_;
        map_desc.df = df;
        map_desc.fn = m.fn;
        map_desc.user = f;
        map_desc.keeps_all = m.keeps_all;
        map_desc.seed = m.seed;
        map_desc.release = m.release;
        return tp__map_new(&map_desc, NULL, 0, name, kind);
    }
    char text[900];
    snprintf(text, sizeof text, "%.880s", tp_last_error());
    const bool missing = !a || st == TP_OK;
    if (owns_augmentor) tp__aug_delete(a);
    else tp__aug_drop(a);
    tp__df_drop(df);
    tp_fail(TP_ERR_NOMEM, "%s: %s", name, text);
    return missing ? NULL : tp_df_fail(&d->at_, st, "%s: %s", name, text);
}

/* The options that the four descriptors have in common. */
static tp_df_parallel_map_desc tp__augment_desc(tp_at at, tp_dataflow *df, int num_thread, int buffer_size,
                                                uint64_t seed)
{
    tp_df_parallel_map_desc m;
    memset(&m, 0, sizeof m);
    m.at_ = at;
    m.df = df;
    m.num_thread = num_thread;
    m.buffer_size = buffer_size;
    m.seed = seed;
    return m;
}

TP_DEF tp_dataflow *tp_df_augment_image_(const tp_df_augment_image_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    tp__augment lists;
    memset(&lists, 0, sizeof lists);
    lists.n[0] = 1;
    lists.index[0][0] = d->index;
    lists.catch_errors = tp__tri_is_yes(d->catch_exceptions, false);
    const tp_df_parallel_map_desc m = tp__augment_desc(d->at_, d->df, d->num_thread, d->buffer_size, d->seed);
    return tp__augment_new(&m, "tp_df_augment_image", d->augmentors, &lists);
}

TP_DEF tp_dataflow *tp_df_augment_coordinates_(const tp_df_augment_coordinates_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    tp__augment lists;
    memset(&lists, 0, sizeof lists);
    lists.n[0] = lists.n[2] = 1;
    lists.index[0][0] = d->img_index;
    lists.index[2][0] = (int)tp__int_option(d->coords_index, 1);
    lists.catch_errors = tp__tri_is_yes(d->catch_exceptions, false);
    const tp_df_parallel_map_desc m = tp__augment_desc(d->at_, d->df, d->num_thread, d->buffer_size, d->seed);
    return tp__augment_new(&m, "tp_df_augment_coordinates", d->augmentors, &lists);
}

TP_DEF tp_dataflow *tp_df_augment_images_(const tp_df_augment_images_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    tp__augment lists;
    memset(&lists, 0, sizeof lists);
    lists.n[0] = d->n_index ? d->n_index : 2;
    lists.n[1] = d->n_mask_index;
    lists.n[2] = d->n_coords_index;
    lists.n[3] = d->n_box_index;
    memcpy(lists.index[0], d->index, sizeof lists.index[0]);
    memcpy(lists.index[1], d->mask_index, sizeof lists.index[0]);
    memcpy(lists.index[2], d->coords_index, sizeof lists.index[0]);
    memcpy(lists.index[3], d->box_index, sizeof lists.index[0]);
    if (!d->n_index) lists.index[0][0] = 0, lists.index[0][1] = 1;
    lists.mask_fill = (double)d->mask_fill;
    lists.catch_errors = tp__tri_is_yes(d->catch_exceptions, false);
    const tp_df_parallel_map_desc m = tp__augment_desc(d->at_, d->df, d->num_thread, d->buffer_size, d->seed);
    return tp__augment_new(&m, "tp_df_augment_images", d->augmentors, &lists);
}

TP_DEF tp_dataflow *tp_df_load_image_(const tp_df_load_image_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    tp__augment lists;
    memset(&lists, 0, sizeof lists);
    lists.n[0] = 1;
    lists.index[0][0] = d->index;
    lists.load = true;
    lists.encoded = tp__tri_is_yes(d->encoded, false);
    lists.skip = d->on_error == TP_SKIP;
    lists.catch_errors = tp__tri_is_yes(d->catch_exceptions, false);
    lists.channel = d->channel ? d->channel : 3;
    lists.max_pixels = d->max_pixels ? d->max_pixels : TP__MAX_PIXELS;
    const tp_df_parallel_map_desc m = tp__augment_desc(d->at_, d->df, d->num_thread, d->buffer_size, d->seed);
    return tp__augment_new(&m, "tp_df_load_image", d->augmentors, &lists);
}

TP__COLD_END

/* ==== >>idx =========================================================================================== */
/* The IDX format: 00 00 type rank, then `rank` big-endian 32-bit sizes, then the elements, big-endian, row-major. */

TP_DEF tp_status tp_idx_parse(const void *data, size_t size, const char *what, tp_tensor *t)
{
    TP__REQUIRE((data || size == 0) && what && t, TP_ERR_ARG)

    const unsigned char *p = (const unsigned char *)data;
    if (size < 4 || p[0] || p[1])
        return tp_fail(TP_ERR_FORMAT, "%s is no IDX file: it must begin with two zero bytes, a type and a rank", what);
    tp_dtype dtype = TP_DTYPE_UNSET;
    size_t width = 0;
    switch (p[2]) {
    case 0x08: dtype = TP_U8, width = 1; break;
    case 0x09: dtype = TP_I32, width = 1; break;
    case 0x0b: dtype = TP_I32, width = 2; break;
    case 0x0c: dtype = TP_I32, width = 4; break;
    case 0x0d: dtype = TP_F32, width = 4; break;
    case 0x0e: dtype = TP_F64, width = 8; break;
    default: return tp_fail(TP_ERR_FORMAT, "%s: element type 0x%02x is none of IDX's (08 09 0b 0c 0d 0e)", what, p[2]);
    }
    tp_shape shape;
    shape.ndim = p[3];
    if (shape.ndim < 1 || shape.ndim > TP_MAX_DIMS)
        return tp_fail(TP_ERR_FORMAT, "%s: its header says %d dimensions, 1 to %d are supported", what, shape.ndim,
                       TP_MAX_DIMS);
    const size_t head = 4 + 4 * (size_t)shape.ndim;
    if (size < head)
        return tp_fail(TP_ERR_FORMAT, "%s is truncated: %zu bytes, its header alone has %zu", what, size, head);
    size_t count = 1, bytes = 0, file_size;
    bool is_possible = true;
    for (int i = 0; i < shape.ndim; i++) {
        const unsigned char *d = p + 4 + 4 * i;
        shape.dim[i] = (int64_t)((uint32_t)d[0] << 24 | (uint32_t)d[1] << 16 | (uint32_t)d[2] << 8 | d[3]);
        is_possible = is_possible && tp_mul_size(count, (size_t)shape.dim[i], &count);
    }
    char text[TP_SHAPE_TEXT];
    is_possible = is_possible && tp_mul_size(count, width, &bytes) && bytes <= SIZE_MAX / 8 - head;
    file_size = head + bytes;
    if (!is_possible || file_size > size)
        return tp_fail(TP_ERR_FORMAT,
                       "%s is truncated, or its header is wrong: the shape %s needs %s%zu bytes, it has %zu", what,
                       tp_shape_text(&shape, text), is_possible ? "" : "more than ",
                       is_possible ? file_size : (size_t)SIZE_MAX / 8, size);
    if (file_size < size)
        return tp_fail(TP_ERR_FORMAT, "%s: %zu bytes follow after the %zu that its shape %s needs", what,
                       size - file_size, file_size, tp_shape_text(&shape, text));
    tp_status st = tp_tensor_resize(t, dtype, shape);
    if (st != TP_OK) return st;
    p += head;
    if (dtype == TP_U8) {
        if (bytes) memcpy(t->data, p, bytes);
        return TP_OK;
    }
    for (size_t i = 0; i < count; i++, p += width) {
        uint64_t v = 0;
        for (size_t k = 0; k < width; k++) v = v << 8 | p[k];
        if (dtype == TP_F64) {
            memcpy((char *)t->data + 8 * i, &v, 8);
        } else { /* sign extension by a left and a right shift */
            uint32_t w = (uint32_t)v << (32 - 8 * width);
            int32_t x;
            memcpy(&x, &w, 4);
            if (dtype == TP_I32) x = width == 1 ? x / (1 << 24) : width == 2 ? x / (1 << 16) : x;
            memcpy((char *)t->data + 4 * i, &x, 4);
        }
    }
    return TP_OK;
}

TP_DEF tp_status tp_idx_load(const char *path, tp_tensor *t)
{
    TP__REQUIRE(path && t, TP_ERR_ARG)

    char *data = NULL;
    size_t size = 0;
    tp_status st = tp_file_read(path, true, 0, &data, &size);
    if (st == TP_OK) st = tp_idx_parse(data, size, path, t);
    tp_free(data);
    return st;
}

TP__COLD_BEGIN

/* ==== >>input source ================================================================================== */

TP_DEF tp_status tp_input_setup(tp_input_source *s, tp_graph *g, const tp_spec *specs, int n)
{
    if (!s) return tp_fail(TP_ERR_ARG, "tp_input_setup: the input source is NULL: its constructor found no memory");
    if (!g || n < 1 || !specs) return tp_fail(TP_ERR_ARG, "%s: setup needs a graph and at least one input", s->name);
    if (s->setup_done)
        return tp_fail(TP_ERR_STATE, "%s was set up before: each use needs a source of its own", s->name);
    tp_spec *copy = (tp_spec *)tp_arena_alloc(&s->mem_, (size_t)n * sizeof *copy);
    if (!copy) return TP_ERR_NOMEM;
    for (int i = 0; i < n; i++) {
        if (!specs[i].name || !*specs[i].name)
            return tp_fail(TP_ERR_NAME, "%s: input %d of the signature has no name", s->name, i);
        copy[i] = specs[i];
        if (copy[i].dtype == TP_DTYPE_UNSET) copy[i].dtype = TP_F32;
        copy[i].name = tp_arena_strdup(&s->mem_, specs[i].name);
        if (!copy[i].name) return TP_ERR_NOMEM;
    }
    s->graph = g;
    s->spec = copy;
    s->n_spec = n;
    tp_status st = s->setup ? s->setup(s) : TP_OK;
    if (st == TP_OK && tp_graph_status(g) != TP_OK) st = tp_fail(tp_graph_status(g), "%s", tp_graph_error(g));
    s->setup_done = st == TP_OK;
    return st;
}

TP_DEF bool tp_input_setup_done(const tp_input_source *s)
{
    TP__REQUIRE(s, false)
    return s->setup_done;
}

static tp_status tp__input_ready(const tp_input_source *s, const char *action)
{
    return s->setup_done ? TP_OK : tp_fail(TP_ERR_STATE, "%s: %s comes after tp_input_setup", s->name, action);
}

TP_DEF tp_status tp_input_get_tensors(tp_input_source *s, tp_node **in)
{
    TP__REQUIRE(s && in, TP_ERR_ARG)

    tp_status st = tp__input_ready(s, "tp_input_get_tensors");
    if (st == TP_OK && !s->get_input_tensors)
        st = tp_fail(TP_ERR_STATE, "%s: this source has no get_input_tensors: set it", s->name);
    if (st == TP_OK) st = s->get_input_tensors(s, in);
    if (st == TP_OK && tp_graph_status(s->graph) != TP_OK)
        st = tp_fail(tp_graph_status(s->graph), "%s", tp_graph_error(s->graph));
    return st;
}

TP_DEF tp_status tp_input_reset_state(tp_input_source *s)
{
    TP__REQUIRE(s, TP_ERR_ARG)

    tp_status st = tp__input_ready(s, "tp_input_reset_state");
    if (st != TP_OK) return st;
    for (tp_input_source *in = s; in; in = in->inner_) in->was_reset_ = true;
    return s->reset_state ? s->reset_state(s) : TP_OK;
}

TP_DEF tp_status tp_input_seek(tp_input_source *s, int64_t consumed)
{
    TP__REQUIRE(s && consumed >= 0, TP_ERR_ARG)

    if (s->seek) return s->seek(s, consumed);
    if (consumed == 0) return TP_OK;
    return tp_fail(TP_ERR_UNSUPPORTED, "%s cannot go back to datapoint %lld: its data are not repeatable", s->name,
                   (long long)consumed);
}

TP_DEF int64_t tp_input_size(tp_input_source *s)
{
    TP__REQUIRE(s, -1)

    const int64_t n = s->size ? s->size(s) : -1;
    return n < 0 ? -1 : n;
}

TP_DEF tp_hook *const *tp_input_hooks(tp_input_source *s, int *n)
{
    if (n) *n = 0;
    TP__REQUIRE(s && n, NULL)

    if (!s->hook && s->hooks && s->hooks(s, &s->hook, &s->n_hook) != TP_OK) return NULL;
    *n = s->n_hook;
    return s->hook;
}

TP_DEF tp_status tp_input_failure(const tp_input_source *s, const char **sentence)
{
    TP__REQUIRE(s, TP_ERR_ARG)

    while (s->inner_) s = s->inner_;
    if (sentence) *sentence = s->error_text;
    return s->error;
}

TP_DEF void tp_input_cached_name_scope_push(tp_input_source *s)
{
    TP__REQUIRE(s, )
    if (!s->graph) {
        tp_fail(TP_ERR_STATE, "%s: it has no name scope before tp_input_setup", s->name);
        return;
    }
    tp_cached_name_scope_push(s->graph, s->name ? s->name : "InputSource", true);
}

static void tp__input_delete(tp_input_source *s)
{
    if (!s) return;
    if (s->close) s->close(s);
    tp_arena_free(&s->mem_);
    tp_free(s);
}

TP_DEF void tp_input_free(tp_input_source *s)
{
    if (s && tp__may_free(&s->owner_, __func__, s->name)) tp__input_delete(s);
}

/* -- placeholders */

/* Finds or makes a placeholder of this name in the root scope: reuses the existing node if it is a placeholder with
 * this dtype and shape. may_rename: a node of the model that has the name keeps it, and the placeholder gets a number. */
static tp_node *tp__placeholder_or_reuse(tp_graph *g, const tp_spec *spec, bool may_rename)
{
    tp_node *n = tp__node_named(g, spec->name);
    const bool is_placeholder = n && strcmp(n->op->row->name, "placeholder") == 0;
    if (is_placeholder && n->dtype == spec->dtype && tp_shape_equal(&n->shape, &spec->shape)) return n;
    if (n && (is_placeholder || !may_rename)) {
        char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
        return tp_graph_fail(g, &n->op->at, TP_ERR_NAME,
                             "input '%s' %s %s cannot be made: a node of that name is there, made by %s, %s %s: give "
                             "it another name",
                             spec->name, tp_dtype_name(spec->dtype), tp_shape_text(&spec->shape, a), n->op->row->name,
                             tp_dtype_name(n->dtype), tp_shape_text(&n->shape, b));
    }
    tp_name_scope_push(g, "");
    n = tp_placeholder(g, spec->name, spec->dtype, spec->shape);
    tp_name_scope_pop(g);
    return n;
}

static tp_status tp__placeholder_tensors(tp_input_source *s, tp_node **in)
{
    for (int i = 0; i < s->n_spec; i++) in[i] = tp__placeholder_or_reuse(s->graph, &s->spec[i], false);
    return TP_OK;
}

static tp_status tp__placeholder_setup(tp_input_source *s)
{
    for (int i = 0; i < s->n_spec; i++) tp__placeholder_or_reuse(s->graph, &s->spec[i], false);
    return TP_OK;
}

TP_DEF tp_input_source *tp_placeholder_input(void)
{
    tp_input_source *s = (tp_input_source *)tp_calloc(1, sizeof *s);
    if (!s) return NULL;
    s->name = "PlaceholderInput";
    s->setup = tp__placeholder_setup;
    s->get_input_tensors = tp__placeholder_tensors;
    return s;
}

/* -- a queue of the program's: a ring of datapoints, whose buffers are swapped with those of the caller */

struct tp_queue {
    tp_mutex *mutex;
    /* always signalled to all waiting threads: a thread that stops waiting must not consume the signal meant for another one */
    tp_cond *not_full, *data;
    tp_datapoint *slot;
    int capacity, head, filled;
    bool closed;
    int users, producers; /* number of owners of the queue; number of flows that still fill it */
    int calls;            /* number of threads in tp_queue_put or tp_queue_get; the last owner waits for them */
    tp_status error;      /* error of the flow that closed the queue */
    char error_text[2048];
};

TP_DEF tp_queue *tp_queue_new(int capacity)
{
    if (capacity < 0 || capacity > TP__MAX_BUFFERS) {
        tp_fail(TP_ERR_ARG, "tp_queue_new: capacity is %d: give 1 to %d, or 0 for 50", capacity, (int)TP__MAX_BUFFERS);
        return NULL;
    }
    tp_queue *q = (tp_queue *)tp_calloc(1, sizeof *q);
    if (!q) return NULL;
    q->capacity = capacity ? capacity : 50;
    q->users = 1;
    q->slot = (tp_datapoint *)tp_calloc((size_t)q->capacity, sizeof *q->slot);
    q->mutex = tp_mutex_new();
    q->not_full = tp_cond_new();
    q->data = tp_cond_new();
    if (q->slot && q->mutex && q->not_full && q->data) return q;
    tp_queue_free(q);
    return NULL;
}

static void tp__queue_retain(tp_queue *q)
{
    tp_mutex_lock(q->mutex);
    q->users++;
    tp_mutex_unlock(q->mutex);
}

/* Closes the queue, whose mutex is locked. */
static void tp__queue_shut(tp_queue *q)
{
    q->closed = true;
    tp_cond_broadcast(q->not_full);
    tp_cond_broadcast(q->data);
}
/* Called where a thread leaves tp_queue_put or tp_queue_get, with the mutex locked: unlocks it. */
static void tp__queue_leave(tp_queue *q)
{
    if (--q->calls == 0 && q->users == 0) tp_cond_broadcast(q->data);
    tp_mutex_unlock(q->mutex);
}

TP_DEF void tp_queue_free(tp_queue *q)
{
    if (!q) return;
    tp_mutex_lock(q->mutex);
    const bool is_last_user = --q->users == 0;
    if (is_last_user) tp__queue_shut(q);
#ifndef TP_NO_THREADS
    while (is_last_user && q->calls > 0) tp_cond_wait(q->data, q->mutex);
#endif
    tp_mutex_unlock(q->mutex);
    if (!is_last_user) return;
    for (int i = 0; i < q->capacity && q->slot; i++) tp_datapoint_free(&q->slot[i]);
    tp_free(q->slot);
    tp_cond_free(q->not_full);
    tp_cond_free(q->data);
    tp_mutex_free(q->mutex);
    tp_free(q);
}

TP_DEF void tp_queue_close(tp_queue *q)
{
    TP__REQUIRE(q, )
    tp_mutex_lock(q->mutex);
    tp__queue_shut(q);
    tp_mutex_unlock(q->mutex);
}

TP_DEF int tp_queue_size(tp_queue *q)
{
    TP__REQUIRE(q, 0)
    tp_mutex_lock(q->mutex);
    const int n = q->filled;
    tp_mutex_unlock(q->mutex);
    return n;
}

static void tp__datapoint_swap(tp_datapoint *a, tp_datapoint *b)
{
    const tp_datapoint t = *a;
    *a = *b;
    *b = t;
}

/* Waits, with the mutex locked, until there is room, the queue is closed, or *stop. */
static void tp__queue_wait_not_full(tp_queue *q, const bool *stop)
{
#ifdef TP_NO_THREADS
    (void)q, (void)stop;
#else
    while (q->filled == q->capacity && !q->closed && !(stop && *stop)) tp_cond_wait(q->not_full, q->mutex);
#endif
}

static tp_datapoint *tp__queue_place(tp_queue *q) { return &q->slot[(q->head + q->filled) % q->capacity]; }

static void tp__queue_filled(tp_queue *q)
{
    q->filled++;
    tp_cond_broadcast(q->data);
}

/* Swaps the front datapoint with dp, buffers included. The mutex is locked. */
static void tp__queue_take(tp_queue *q, tp_datapoint *dp)
{
    tp__datapoint_swap(&q->slot[q->head], dp);
    q->head = (q->head + 1) % q->capacity;
    q->filled--;
    tp_cond_broadcast(q->not_full);
}

TP_DEF tp_status tp_queue_put(tp_queue *q, const tp_datapoint *dp)
{
    TP__REQUIRE(q && dp, TP_ERR_ARG)

    tp_mutex_lock(q->mutex);
    q->calls++;
    tp__queue_wait_not_full(q, NULL);
    tp_status st = TP_END;
    if (!q->closed && q->filled == q->capacity)
        st = tp_fail(TP_ERR_STATE, "tp_queue_put: the queue is full, and there are no threads to wait for");
    else if (!q->closed) st = tp_datapoint_copy(tp__queue_place(q), dp);
    if (st == TP_OK) tp__queue_filled(q);
    tp__queue_leave(q);
    return st;
}

TP_DEF tp_status tp_queue_get(tp_queue *q, tp_datapoint *dp)
{
    TP__REQUIRE(q && dp, TP_ERR_ARG)

    tp_status st = TP_OK;
    tp_mutex_lock(q->mutex);
    q->calls++;
#ifndef TP_NO_THREADS
    while (!q->filled && !q->closed && st == TP_OK) st = tp__df_wait(q->data, q->mutex);
#endif
    if (q->filled) tp__queue_take(q, dp), st = TP_OK;
    else if (st == TP_OK && q->error != TP_OK) st = tp_fail(q->error, "%s", q->error_text);
    else if (st == TP_OK && q->closed) st = TP_END;
    else if (st == TP_OK)
        st = tp_fail(TP_ERR_STATE, "tp_queue_get: the queue is empty, and there are no threads to wait for");
    tp__queue_leave(q);
    return st;
}

typedef struct tp__queue_flow {
    tp_queue *q;
} tp__queue_flow;

static tp_status tp__from_queue_next(tp_dataflow *df, tp_datapoint *dp)
{
    return tp_queue_get(((tp__queue_flow *)df->user)->q, dp);
}
static tp_status tp__from_queue_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    tp_log_once(TP_LOG_WARN,
                "%s: datapoints taken from the queue before cannot be repeated: the flow continues with the next ones, "
                "not exactly where it was",
                df->name);
    *skipped = n;
    return TP_OK;
}
static void tp__from_queue_close(tp_dataflow *df) { tp_queue_free(((tp__queue_flow *)df->user)->q); }

TP_DEF tp_dataflow *tp_df_from_queue(tp_queue *q)
{
    if (!q) return tp_df_fail(NULL, TP_ERR_ARG, "tp_df_from_queue: the queue is NULL");
    tp_dataflow *df = tp_df_new("tp_df_from_queue", sizeof(tp__queue_flow), 0);
    if (!df) return NULL;
    ((tp__queue_flow *)df->user)->q = q;
    tp__queue_retain(q);
    df->next = tp__from_queue_next;
    df->seek = tp__from_queue_seek;
    df->close = tp__from_queue_close;
    df->advice_ = "its queue was closed. An input source reads a flow again and again; with .infinite = TP_NO (and "
                  ".quiet_end = TP_YES for tp_feed_input) the training ends there";
    return df;
}

/* Called when a flow that fills the queue has ended. st: its status, if it ended by itself; TP_OK, if it was stopped. */
static void tp__queue_producer_ends(tp_queue *q, tp_status st)
{
    tp_mutex_lock(q->mutex);
    q->producers--;
    if (st < TP_OK && q->error == TP_OK) {
        q->error = st;
        snprintf(q->error_text, sizeof q->error_text, "%.2047s", tp_last_error());
    }
    if (st < TP_OK || (st > TP_OK && q->producers == 0)) q->closed = true;
    tp_cond_broadcast(q->not_full);
    tp_cond_broadcast(q->data);
    tp_mutex_unlock(q->mutex);
}

/* -- the feeder, which implements FeedInput, QueueInput, BatchQueueInput and TFDatasetInput. A ring of datapoints connects the
 * reader and the runs. A run holds the front datapoints, one for each tower, from before_run until after_run, so that the feeds can
 * be views of them; if the run fails, they are kept and fed again. A thread fills the ring of a queue. Any other ring has room for
 * one run only and is filled in before_run; the same holds without threads. BatchQueueInput's ring is one tensor for each
 * component, with one sample per row, and its number of rows is a multiple of the batch size: a batch is contiguous rows. */

typedef struct tp__feeder {
    tp__endless endless;
    int64_t start; /* the position to which reset_state goes */
    bool queue, threaded, quiet_end;
    /* the caller's queue, used instead of the ring; slots then hold only the datapoints of the current run */
    tp_queue *shared;
    tp_datapoint fresh;
    int capacity;
    int batch;           /* BatchQueueInput: samples per batch; otherwise 0 */
    tp_tensor *row;      /* ring of BatchQueueInput: n_spec tensors (n_slot, shape of a sample) */
    tp_datapoint sample; /* the sample that is being copied into the ring */
    tp_node **node;      /* nodes of all towers: n_tower * n_spec */
    int n_tower, cap_tower;
    bool running;

    tp_datapoint *slot; /* the ring: `filled` datapoints from `head` on, of which a run holds the first `held` */
    int n_slot, head, filled, held;
    int n_taken;        /* number of held datapoints that this run uses */
    double waits_since; /* when this run began to wait for datapoints; 0: it has not */
    bool wait_is_told;  /* the log has said that a run waits */
    bool closed, stop, prepared;
    bool left;       /* the reader's thread has returned from the flow for the last time */
    tp_status error; /* error of the reader; runs fail with it after the data before it are used */
    char error_text[2048];
    tp_thread *thread;
    tp_mutex *mutex;
    tp_cond *not_full, *data;

    tp_hook hook, *hooks[1];
    tp_session *session;
    tp_node *size_node; /* node of the local variable QueueInput/queue_size */
    float biased, weight, ema;
    const char *scope; /* the name scope "QueueInput/", to be entered again */
} tp__feeder;

/* Computes the zero-debiased moving average of the number of waiting datapoints, with decay 0.5. */
static void tp__feeder_size_ema(tp__feeder *f, float waiting)
{
    f->biased = 0.5f * (f->biased + waiting);
    f->weight = 0.5f * (f->weight + 1.0f);
    f->ema = f->biased / f->weight;
}

/* Reads a datapoint. It is a copy where the flow is read again before the datapoint is used. */
static tp_status tp__feeder_read(tp__feeder *f, tp_datapoint *dp)
{
    tp_status st = tp__endless_next(&f->endless, dp);
    return st == TP_OK && (f->threaded || f->n_tower > 1) ? tp__datapoint_own(dp) : st;
}

/* Returns the number of datapoints that a run takes for each tower. */
static int tp__feeder_per_tower(const tp__feeder *f) { return f->batch ? f->batch : 1; }

/* Copies a sample into its row of the ring. number: number of the datapoint, for the error sentence; -1: from a queue that others
 * fill. */
static tp_status tp__feeder_row(const tp_input_source *s, int at, const tp_datapoint *dp, int64_t number)
{
    const tp__feeder *f = (const tp__feeder *)s->user;
    char datapoint_text[40] = "", a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
    if (number >= 0) snprintf(datapoint_text, sizeof datapoint_text, " of datapoint %lld", (long long)number);
    if (dp->n != s->n_spec)
        return tp_fail(TP_ERR_SHAPE, "%s: a sample%s has %d components, the input signature has %d: %s", s->name,
                       datapoint_text, dp->n, s->n_spec,
                       dp->n > s->n_spec ? "choose with tp_df_select"
                                         : "what makes the datapoints must give all of them");
    for (int i = 0; i < dp->n; i++) {
        const tp_tensor *x = &dp->c[i], *row = &f->row[i];
        tp_shape row_shape = row->shape; /* shape of one row of the ring */
        row_shape.ndim--;
        memmove(row_shape.dim, row_shape.dim + 1, (size_t)row_shape.ndim * sizeof *row_shape.dim);
        if (x->dtype != row->dtype || !tp_shape_equal(&x->shape, &row_shape))
            return tp_fail(x->dtype != row->dtype ? TP_ERR_DTYPE : TP_ERR_SHAPE,
                           "%s: component %d ('%s')%s is %s %s, a sample of the input signature is %s %s%s", s->name, i,
                           s->spec[i].name, datapoint_text, tp_dtype_name(x->dtype), tp_shape_text(&x->shape, a),
                           tp_dtype_name(row->dtype), tp_shape_text(&row_shape, b),
                           x->shape.ndim == row_shape.ndim + 1 ? ": it takes single samples, not batches" : "");
        const size_t bytes = tp_tensor_bytes(x);
        if (bytes) memcpy((char *)row->data + (size_t)at * bytes, x->data, bytes);
    }
    return TP_OK;
}

/* Reads the next datapoint into slot `at` of the ring. */
static tp_status tp__feeder_fill(tp_input_source *s, int at)
{
    tp__feeder *f = (tp__feeder *)s->user;
    if (!f->batch) return tp__feeder_read(f, &f->slot[at]);
    const tp_status st = tp__endless_next(&f->endless, &f->sample);
    return st == TP_OK ? tp__feeder_row(s, at, &f->sample, f->endless.position - 1) : st;
}

/* Makes room for n slots in the ring. */
static tp_status tp__feeder_reserve(tp_input_source *s, int64_t n)
{
    tp__feeder *f = (tp__feeder *)s->user;
    if (f->batch) n = (n + f->batch - 1) / f->batch * f->batch;
    if (n <= f->n_slot) return TP_OK;
    if (n > 1 << 28) return tp_fail(TP_ERR_ARG, "%s: there cannot be %lld datapoints in it", s->name, (long long)n);
    tp_status st = TP_OK;
    if (f->batch && !f->row) {
        f->row = (tp_tensor *)tp_calloc((size_t)s->n_spec, sizeof *f->row);
        if (!f->row) return TP_ERR_NOMEM;
    }
    for (int i = 0; i < s->n_spec && f->batch && st == TP_OK; i++) {
        tp_shape shape = s->spec[i].shape;
        shape.dim[0] = n;
        st = tp_tensor_resize(&f->row[i], s->spec[i].dtype, shape);
    }
    if (st != TP_OK) f->n_slot = 0; /* on failure the tensors differ in size, so none of their rows may be used */
    if (f->batch) {
        if (st == TP_OK) f->n_slot = (int)n;
        return st;
    }
    tp_datapoint *slot = (tp_datapoint *)tp_realloc(f->slot, (size_t)n * sizeof *slot);
    if (!slot) return TP_ERR_NOMEM;
    memset(slot + f->n_slot, 0, (size_t)(n - f->n_slot) * sizeof *slot);
    f->slot = slot;
    f->n_slot = (int)n;
    f->prepared = false;
    return TP_OK;
}

/* Called when the reader has ended, for any reason. */
static void tp__feeder_end(tp__feeder *f, tp_status st)
{
    f->closed = true;
    if (st >= TP_OK) return; /* the reader ended at the end of a finite pass, or by TP_STOP */
    f->error = st;
    snprintf(f->error_text, sizeof f->error_text, "%.2047s", tp_last_error());
}

/* Allocates every slot of the ring like the first datapoint, so that reading ahead allocates nothing later. */
static tp_status tp__feeder_prepare(tp__feeder *f, int at)
{
    const tp_datapoint *first = f->batch ? NULL : &f->slot[at];
    tp_status st = TP_OK;
    for (int i = 0; i < f->n_slot && first && st == TP_OK; i++) {
        if (i == at) continue;
        st = tp_datapoint_resize(&f->slot[i], first->n);
        for (int c = 0; c < first->n && st == TP_OK; c++)
            st = tp_tensor_resize(&f->slot[i].c[c], first->c[c].dtype, first->c[c].shape);
    }
    return st;
}

static void tp__feeder_thread(void *user)
{
    tp_input_source *s = (tp_input_source *)user;
    tp__feeder *f = (tp__feeder *)s->user;
    tp__df_stop = &f->stop;
    tp_mutex_lock(f->mutex);
    while (!f->stop && !f->closed) {
        if (f->filled - f->held >= f->capacity || f->filled == f->n_slot) {
            tp_cond_wait(f->not_full, f->mutex);
            continue;
        }
        const int at = (f->head + f->filled) % f->n_slot; /* this index does not change while runs release datapoints */
        tp_mutex_unlock(f->mutex);
        tp_status st = tp__feeder_fill(s, at);
        if (st == TP_OK && !f->prepared) {
            /* prepare the ring before the first datapoint is counted, because no run uses the ring yet */
            f->prepared = true;
            st = tp__feeder_prepare(f, at);
        }
        tp_mutex_lock(f->mutex);
        if (st == TP_OK) f->filled++;
        else tp__feeder_end(f, st);
        tp_cond_signal(f->data);
    }
    f->left = true;
    tp_cond_signal(f->data);
    tp_mutex_unlock(f->mutex);
}

#ifndef TP__STOP_SILENCE
#define TP__STOP_SILENCE 5 /* seconds until an input says that it waits for its flow to return */
#endif

/* Writes "tp_df_batch of tp_df_from_queue": a flow, and the first one that it reads, and so on. */
static const char *tp__df_chain(const tp_dataflow *df, char *text, size_t size)
{
    size_t n = (size_t)snprintf(text, size, "%s", df->name);
    while ((df = df->input_) && n < size) n += (size_t)snprintf(text + n, size - n, " of %s", df->name);
    return text;
}

static void tp__feeder_stop(const tp_input_source *s)
{
    tp__feeder *f = (tp__feeder *)s->user;
    if (f->thread) {
        char flow[256];
        tp_mutex *m = f->shared ? f->shared->mutex : f->mutex;
        const double until = tp_time() + TP__STOP_SILENCE;
        tp_mutex_lock(m);
        __atomic_store_n(&f->stop, true, __ATOMIC_RELEASE); /* read by tp_df_stopping without the lock */
        tp_cond_broadcast(f->shared ? f->shared->not_full : f->not_full);
        for (double left = TP__STOP_SILENCE; !f->left && left > 0; left = until - tp_time())
            tp_cond_wait_for(f->shared ? f->shared->data : f->data, m, left);
        const bool left = f->left;
        tp_mutex_unlock(m);
        if (!left)
            tp_log(
                TP_LOG_WARN,
                "%s waits for its flow %s, which was told to stop and does not return: a function of yours that waits "
                "for something must look at tp_df_stopping, and return TP_STOP.",
                s->name, tp__df_chain(f->endless.df, flow, sizeof flow));
        tp_thread_join(f->thread);
        f->thread = NULL;
    }
    f->stop = f->left = false;
    f->running = false;
}

/* Reads the source's flow into the caller's queue. */
static void tp__shared_thread(void *user)
{
    tp__feeder *f = (tp__feeder *)user;
    tp_queue *q = f->shared;
    tp_status st = TP_OK;
    tp__df_stop = &f->stop;
    for (bool goes_on = true; goes_on;) {
        st = tp__feeder_read(f, &f->fresh);
        if (st != TP_OK) break;
        tp_mutex_lock(q->mutex);
        tp__queue_wait_not_full(q, &f->stop);
        goes_on = !q->closed && !f->stop;
        if (goes_on) {
            tp__datapoint_swap(tp__queue_place(q), &f->fresh);
            tp__queue_filled(q);
        }
        tp_mutex_unlock(q->mutex);
    }
    tp__queue_producer_ends(q, tp_df_stopping() ? TP_OK : st);
    tp_mutex_lock(q->mutex);
    f->left = true;
    tp_cond_broadcast(q->data);
    tp_mutex_unlock(q->mutex);
}

/* With the caller's queue: reading starts only once, because others use the queue too. */
static tp_status tp__shared_reset(tp_input_source *s)
{
    tp__feeder *f = (tp__feeder *)s->user;
    if (f->running) return TP_OK;
    tp_status st = tp__feeder_reserve(s, (int64_t)(f->n_tower > 0 ? f->n_tower : 1) * tp__feeder_per_tower(f));
    if (st == TP_OK) st = tp__endless_start(&f->endless, 0, 0);
    if (st != TP_OK) return st;
    tp_mutex_lock(f->shared->mutex);
    f->shared->producers++;
    tp_mutex_unlock(f->shared->mutex);
    if (f->threaded) st = tp_thread_start(&f->thread, tp__shared_thread, f);
    if (st != TP_OK) tp__queue_producer_ends(f->shared, TP_OK);
    f->running = st == TP_OK;
    return st;
}

/* Waits for a thread that reads data. Ctrl-C in a training ends that: the data may never come. */
static tp_status tp__source_wait(tp_run_request *r, tp_cond *c, tp_mutex *m, const char *what)
{
    const tp_status st = tp_request_wait(r, c, m, what);
    return st == TP_OK && !r->ignores_interrupt && tp__os_interrupted() ? TP_INTR : st;
}
#ifndef TP__INPUT_SILENCE
#define TP__INPUT_SILENCE 10 /* seconds until a run that waits for a datapoint says so */
#endif
static tp_status tp__feeder_wait(const tp_input_source *s, tp_run_request *r, tp_cond *c, tp_mutex *m)
{
    tp__feeder *f = (tp__feeder *)s->user;
    const double now = tp_time();
    if (f->waits_since <= 0) f->waits_since = now;
    if (!f->wait_is_told && now - f->waits_since >= TP__INPUT_SILENCE) {
        char flow[256] = "the queue";
        f->wait_is_told = true;
        if (!f->shared) tp__df_chain(f->endless.df, flow, sizeof flow);
        tp_mutex_unlock(m); /* the log may be a function of the program's that uses the queue */
        tp_log(TP_LOG_WARN, "%s has waited some seconds for a datapoint of %s. Does what makes its data still run?",
               s->name, flow);
        tp_mutex_lock(m);
        return TP_OK; /* the caller looks whether one has come meanwhile */
    }
    return tp__source_wait(r, c, m, f->batch ? "BatchQueueInput waited for data" : "QueueInput waited for data");
}

/* Takes the datapoints of a run from the caller's queue. */
static tp_status tp__shared_take(tp_input_source *s, tp_run_request *r)
{
    tp__feeder *f = (tp__feeder *)s->user;
    tp_queue *q = f->shared;
    tp_status st = TP_OK;
    tp_mutex_lock(q->mutex);
    while (f->held < f->n_taken && st == TP_OK) {
        const int at = (f->head + f->held) % f->n_slot;
        if (q->filled) {
            tp__queue_take(q, f->batch ? &f->sample : &f->slot[at]);
            if (f->batch) st = tp__feeder_row(s, at, &f->sample, -1);
            if (st == TP_OK) f->held++;
        } else if (q->closed) {
            st = q->error != TP_OK ? tp_fail(q->error, "%s", q->error_text) : TP_END;
            if (q->error != TP_OK) {
                s->error = st;
                memcpy(s->error_text, q->error_text, sizeof s->error_text);
            }
        } else if (f->threaded) {
            st = tp__feeder_wait(s, r, q->data, q->mutex);
        } else {
            tp_mutex_unlock(q->mutex); /* built without threads: read the source's own flow now */
            st = tp__feeder_fill(s, at);
            if (st == TP_OK) f->held++;
            if (st < TP_OK) tp__queue_producer_ends(q, st);
            /* the queue is closed now, and q->error is returned in the next iteration of the loop */
            if (st < TP_OK) st = TP_OK;
            tp_mutex_lock(q->mutex);
        }
    }
    f->filled = f->held;
    const float waiting = (float)q->filled;
    tp_mutex_unlock(q->mutex);
    tp_mutex_lock(f->mutex);
    if (st == TP_OK) tp__feeder_size_ema(f, waiting);
    tp_mutex_unlock(f->mutex);
    return st;
}

/* Clears the ring, goes to `start`, and reads from there. */
static tp_status tp__feeder_reset(tp_input_source *s)
{
    tp__feeder *f = (tp__feeder *)s->user;
    tp__feeder_stop(s);
    f->head = f->filled = f->held = 0;
    f->closed = false;
    f->error = s->error = TP_OK;
    f->error_text[0] = s->error_text[0] = 0;
    s->consumed = f->start;
    const int64_t towers = f->n_tower > 0 ? f->n_tower : 1;
    tp_status st = tp__feeder_reserve(s, (f->threaded ? f->capacity : 0) + towers * tp__feeder_per_tower(f));
    tp__df_in_run = f->start > 0; /* Ctrl-C ends a long skip */
    if (st == TP_OK) st = tp__endless_start(&f->endless, 0, f->start);
    tp__df_in_run = false;
    if (st == TP_OK && f->threaded) st = tp_thread_start(&f->thread, tp__feeder_thread, s);
    f->running = st == TP_OK;
    return st;
}

static tp_status tp__feeder_seek(tp_input_source *s, int64_t consumed)
{
    tp__feeder *f = (tp__feeder *)s->user;
    f->start = s->consumed = consumed;
    return f->running ? tp__feeder_reset(s) : TP_OK;
}

static int64_t tp__feeder_size(tp_input_source *s)
{
    const tp__feeder *f = (const tp__feeder *)s->user;
    const int64_t n = tp_df_size(f->endless.df);
    return n < 0 ? n : n / tp__feeder_per_tower(f);
}

/* Waits for the datapoints that a run needs and takes them. TP_END: the data end before. */
static tp_status tp__feeder_take(tp_input_source *s, tp_run_request *r)
{
    tp__feeder *f = (tp__feeder *)s->user;
    tp_status st = TP_OK;
    tp_mutex_lock(f->mutex);
    while (f->held < f->n_taken) {
        if (f->filled > f->held) {
            f->held++;
            if (f->threaded) tp_cond_signal(f->not_full);
        } else if (f->closed) {
            st = f->error != TP_OK ? f->error : TP_END;
            break;
        } else if (f->threaded) {
            if ((st = tp__feeder_wait(s, r, f->data, f->mutex)) != TP_OK) break;
        } else if ((st = tp__feeder_fill(s, (f->head + f->filled) % f->n_slot)) == TP_OK) {
            f->filled++;
        } else if (f->queue || st == TP_END) {
            tp__feeder_end(f, st);
        } else {
            break; /* without a queue: the next run reads the flow again */
        }
    }
    if (st < TP_OK && st == f->error) { /* the error is the reader's: copy its sentence to this thread */
        s->error = tp_fail(st, "%s", f->error_text);
        memcpy(s->error_text, f->error_text, sizeof s->error_text);
    }
    if (st == TP_OK && f->queue) tp__feeder_size_ema(f, (float)(f->filled - f->held));
    tp_mutex_unlock(f->mutex);
    return st;
}

/* Checks a datapoint against the input signature. from: the flow or the address that it is from. */
static tp_status tp__feeder_check(const tp_input_source *s, const char *from, const tp_datapoint *dp, int64_t number)
{
    if (dp->n != s->n_spec)
        return tp_fail(TP_ERR_SHAPE, "%s: datapoint %lld of %s has %d components, the input signature has %d: %s",
                       s->name, (long long)number, from, dp->n, s->n_spec,
                       dp->n > s->n_spec ? "choose with tp_df_select"
                                         : "what makes the datapoints must give all of them");
    for (int i = 0; i < dp->n; i++) {
        const tp_tensor *x = &dp->c[i];
        const tp_spec *expected = &s->spec[i];
        const bool dtype = x->dtype == expected->dtype;
        char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
        if (dtype && tp_shape_compatible(&x->shape, &expected->shape)) continue;
        if (dtype)
            return tp_fail(TP_ERR_SHAPE,
                           "%s: component %d ('%s') of datapoint %lld of %s has shape %s, the input signature "
                           "wants %s: %s",
                           s->name, i, expected->name, (long long)number, from, tp_shape_text(&x->shape, a),
                           tp_shape_text(&expected->shape, b),
                           tp__lacks_batch(&expected->shape, &x->shape)
                               ? "is tp_df_batch missing?"
                               : "change the signature, or the component with tp_df_map_component");
        return tp_fail(TP_ERR_DTYPE,
                       "%s: component %d ('%s') of datapoint %lld of %s is %s %s, the input signature wants %s "
                       "%s: convert it with tp_df_cast or tp_df_map_component",
                       s->name, i, expected->name, (long long)number, from, tp_dtype_name(x->dtype),
                       tp_shape_text(&x->shape, a), tp_dtype_name(expected->dtype), tp_shape_text(&expected->shape, b));
    }
    return TP_OK;
}

static tp_status tp__feeder_created(tp_hook *h, tp_session *session)
{
    tp_input_source *s = (tp_input_source *)h->user;
    ((tp__feeder *)s->user)->session = session;
    return TP_OK;
}

/* Makes the batch of a tower: a view of consecutive samples in the ring of BatchQueueInput. */
static tp_status tp__feeder_batch(const tp_input_source *s, tp_run_request *r, int tower)
{
    const tp__feeder *f = (const tp__feeder *)s->user;
    const int at = (f->head + tower * f->batch) % f->n_slot;
    tp_status st = TP_OK;
    for (int i = 0; i < s->n_spec && st == TP_OK; i++) {
        const tp_tensor *row = &f->row[i];
        tp_tensor view;
        memset(&view, 0, sizeof view);
        tp_shape shape = row->shape;
        shape.dim[0] = f->batch;
        tp_tensor_view(&view, row->dtype, shape,
                       (const char *)row->data + tp_tensor_bytes(row) / (size_t)f->n_slot * (size_t)at);
        st = tp_request_feed(r, f->node[tower * s->n_spec + i], &view);
    }
    return st;
}

static tp_status tp__feeder_before(tp_hook *h, tp_run_request *r)
{
    tp_input_source *s = (tp_input_source *)h->user;
    tp__feeder *f = (tp__feeder *)s->user;
    const int n = tp_request_datapoints(r);
    const int towers = n > 0 && n < f->n_tower ? n : f->n_tower;
    f->n_taken = towers * tp__feeder_per_tower(f);
    f->waits_since = 0;
    tp_status st = f->running ? TP_OK : tp_input_reset_state(s);
    tp__df_in_run = !f->threaded && !r->ignores_interrupt;
    if (st == TP_OK) st = f->shared ? tp__shared_take(s, r) : tp__feeder_take(s, r);
    tp__df_in_run = false;
    if (st == TP_OK && !f->threaded) { /* the flow was read here: what it took counts as waiting, not the first op */
        char text[96];
        snprintf(text, sizeof text, "%.40s waited for the data of its dataflow", s->name);
        st = tp__running_check(&r->run, text, NULL);
    }
    if (st == TP_END && !f->queue && !f->quiet_end)
        st = tp_fail(
            TP_ERR_STATE,
            "FeedInput: the data ended after %lld datapoints, and .infinite is TP_NO: run fewer steps, or end there "
            "with .quiet_end = TP_YES",
            (long long)s->consumed);
    if (st == TP_END && s->consumed == 0) /* a training or a pass of no runs would look like a success */
        st = tp_fail(TP_ERR_STATE,
                     "%s: the data ended before the first run: give it more data, a smaller batch, or .remainder = "
                     "true of tp_df_batch",
                     s->name);
    for (int t = 0; t < towers && f->batch && st == TP_OK; t++) st = tp__feeder_batch(s, r, t);
    for (int t = 0; t < towers && !f->batch && st == TP_OK; t++) {
        tp_datapoint *dp = &f->slot[(f->head + t) % f->n_slot];
        st = tp__feeder_check(s, f->shared ? "the queue" : f->endless.df->name, dp, s->consumed + t);
        for (int i = 0; i < s->n_spec && st == TP_OK; i++)
            st = tp_request_feed(r, f->node[t * s->n_spec + i], &dp->c[i]);
    }
    if (st == TP_OK && f->session && f->size_node) {
        const tp_tensor ema = tp_scalar_view(&f->ema);
        st = tp_session_load(f->session, tp_node_variable(f->size_node), &ema);
    }
    return st;
}

static tp_status tp__feeder_after(tp_hook *h, const tp_run_values *v)
{
    tp_input_source *s = (tp_input_source *)h->user;
    tp__feeder *f = (tp__feeder *)s->user;
    (void)v;
    tp_mutex_lock(f->mutex);
    f->head = f->n_slot ? (f->head + f->n_taken) % f->n_slot : 0;
    f->filled -= f->n_taken;
    s->consumed += f->n_taken;
    f->held -= f->n_taken;
    if (f->threaded) tp_cond_signal(f->not_full);
    tp_mutex_unlock(f->mutex);
    return TP_OK;
}

static tp_status tp__feeder_hooks(tp_input_source *s, tp_hook *const **hook, int *n)
{
    tp__feeder *f = (tp__feeder *)s->user;
    f->hook.name = s->name;
    f->hook.user = s;
    f->hook.after_create_session = tp__feeder_created;
    f->hook.before_run = tp__feeder_before;
    f->hook.after_run = tp__feeder_after;
    f->hooks[0] = &f->hook;
    *hook = f->hooks;
    *n = 1;
    return TP_OK;
}

/* Makes room for the input nodes of one more tower, and returns the address for them; NULL: out of memory. */
static tp_node **tp__feeder_tower(tp_input_source *s)
{
    tp__feeder *f = (tp__feeder *)s->user;
    tp_node **node =
        (tp_node **)tp_realloc((void *)f->node, (size_t)(f->n_tower + 1) * (size_t)s->n_spec * sizeof *node);
    if (!node) return NULL;
    f->node = node;
    return node + f->n_tower++ * s->n_spec;
}

static tp_status tp__feed_setup(tp_input_source *s)
{
    tp__feeder *f = (tp__feeder *)s->user;
    tp_status st = tp_df_status(f->endless.df);
    if (st != TP_OK) return st;
    f->n_tower = 0;
    tp_node **node = tp__feeder_tower(s);
    for (int i = 0; i < s->n_spec && node; i++) node[i] = tp__placeholder_or_reuse(s->graph, &s->spec[i], true);
    return node ? TP_OK : TP_ERR_NOMEM;
}

static tp_status tp__feed_tensors(tp_input_source *s, tp_node **in)
{
    memcpy((void *)in, (const void *)((tp__feeder *)s->user)->node, (size_t)s->n_spec * sizeof *in);
    return TP_OK;
}

/* Chooses the name scope of the source's placeholders. */
static tp_status tp__feeder_scope(tp_input_source *s)
{
    tp__feeder *f = (tp__feeder *)s->user;
    tp_graph *g = s->graph;
    tp_name_scope_push(g, "");
    tp_name_scope_push(g, s->name); /* the scope of a second queue is QueueInput_1 */
    f->scope = tp_arena_printf(&s->mem_, "%s/", tp_name_scope(g));
    tp_name_scope_pop(g);
    tp_name_scope_pop(g);
    return f->scope ? TP_OK : TP_ERR_NOMEM;
}

static tp_status tp__queue_setup(tp_input_source *s)
{
    tp__feeder *f = (tp__feeder *)s->user;
    tp_graph *g = s->graph;
    tp_status st = tp_df_status(f->endless.df);
    if (st == TP_OK) st = tp__feeder_scope(s);
    if (st != TP_OK) return st;
    const char *name = tp_arena_printf(&s->mem_, "%squeue_size", f->scope);
    if (!name) return TP_ERR_NOMEM;
    tp_variable_desc d;
    memset(&d, 0, sizeof d);
    d.name = name;
    d.init = tp_init_zeros();
    d.trainable = TP_NO;
    d.local = true;
    f->size_node = tp_get_variable(g, &d);
    tp_name_scope_push(g, ""); /* the name already contains the scope */
    if (tp_node_variable(f->size_node)) (tp_add_tensor_summary)(f->size_node, TP_SUMMARY_SCALAR, name, NULL);
    else f->size_node = NULL;
    tp_name_scope_pop(g);
    return TP_OK;
}

static tp_status tp__queue_tensors(tp_input_source *s, tp_node **in)
{
    tp__feeder *f = (tp__feeder *)s->user;
    if (f->running)
        return tp_fail(TP_ERR_STATE, "%s is running: all towers must ask for their tensors before", s->name);
    tp_node **node = tp__feeder_tower(s);
    if (!node) return TP_ERR_NOMEM;
    tp_name_scope_push(s->graph, f->scope);
    for (int i = 0; i < s->n_spec; i++)
        node[i] = in[i] = tp_placeholder(s->graph, s->spec[i].name, s->spec[i].dtype, s->spec[i].shape);
    tp_name_scope_pop(s->graph);
    return TP_OK;
}

static void tp__feeder_close(tp_input_source *s)
{
    tp__feeder *f = (tp__feeder *)s->user;
    if (!f) return;
    tp__feeder_stop(s);
    tp__df_delete(f->endless.df);
    for (int i = 0; i < f->n_slot && f->slot; i++) tp_datapoint_free(&f->slot[i]);
    for (int i = 0; i < s->n_spec && f->row; i++) tp_tensor_free(&f->row[i]);
    tp_free(f->row);
    tp_datapoint_free(&f->sample);
    tp_datapoint_free(&f->fresh);
    tp_queue_free(f->shared);
    tp_free(f->slot);
    tp_free((void *)f->node);
    tp_cond_free(f->not_full);
    tp_cond_free(f->data);
    tp_mutex_free(f->mutex);
    tp_free(f);
}

/* Takes ownership of df also on failure; a poison flow is reported at setup. */
static tp_input_source *tp__feeder_new(const char *name, const tp_at *at, tp_dataflow *df, int infinite, int capacity,
                                       bool queue, tp_queue *shared)
{
    if (!df) {
        tp_df_status(df);
        return NULL;
    }
    if (!tp__set_owner(&df->owner_, df->name, name, at)) df = tp__df_owned_twice();
    if (!df) return NULL;
    tp_input_source *s = (tp_input_source *)tp_calloc(1, sizeof *s);
    tp__feeder *f = s ? (tp__feeder *)tp_calloc(1, sizeof *f) : NULL;
    if (!f) {
        tp__df_delete(df);
        tp_free(s);
        return NULL;
    }
    s->user = f;
    s->name = name;
    s->feedfree = queue;
    s->setup = queue ? tp__queue_setup : tp__feed_setup;
    s->get_input_tensors = queue ? tp__queue_tensors : tp__feed_tensors;
    s->reset_state = tp__feeder_reset;
    s->seek = tp__feeder_seek;
    s->size = tp__feeder_size;
    s->hooks = tp__feeder_hooks;
    s->close = tp__feeder_close;
    f->endless.df = df;
    f->endless.one_pass = !tp__tri_is_yes(infinite, true);
    f->queue = queue;
#ifndef TP_NO_THREADS
    f->threaded = queue;
#endif
    f->capacity = capacity;
    if (shared) {
        tp__queue_retain(shared);
        f->shared = shared;
        s->reset_state = tp__shared_reset;
        s->seek = NULL; /* data from a queue of the caller have no position to seek to */
    }
    f->mutex = tp_mutex_new();
    f->not_full = tp_cond_new();
    f->data = tp_cond_new();
    if (f->mutex && f->not_full && f->data) return s;
    tp__input_delete(s);
    return NULL;
}

TP_DEF tp_input_source *tp_feed_input_(const tp_feed_input_desc *d)
{
    TP__REQUIRE(d, NULL)
    tp_input_source *s = tp__feeder_new("FeedInput", &d->at_, d->df, d->infinite, 1, false, NULL);
    if (s) ((tp__feeder *)s->user)->quiet_end = tp__tri_is_yes(d->quiet_end, false);
    return s;
}

TP_DEF tp_input_source *tp_queue_input_(const tp_queue_input_desc *d)
{
    TP__REQUIRE(d, NULL)
    tp_dataflow *df = d->df;
    if (df && !df->owner_.who && (d->capacity < 0 || d->capacity > 1 << 24))
        df = TP__REFUSE(df, &d->at_, TP_ERR_ARG, "tp_queue_input: a capacity of %d datapoints", d->capacity);
    return tp__feeder_new("QueueInput", &d->at_, df, d->infinite, d->capacity ? d->capacity : 50, true, d->queue);
}

/* ==== >>more input sources ============================================================================= */

TP_DEF tp_input_source *tp_feedfree_input(const char *name, size_t bytes)
{
    TP__REQUIRE(name, NULL)

    /* `user` begins after the struct, at an aligned address */
    const size_t head = (sizeof(tp_input_source) + 63) & ~(size_t)63;
    if (bytes > SIZE_MAX - head) {
        tp_fail(TP_ERR_NOMEM, "%s: %zu bytes do not fit into memory", name, bytes);
        return NULL;
    }
    tp_input_source *s = (tp_input_source *)tp_calloc(1, head + bytes);
    if (!s) return NULL;
    s->name = name;
    s->feedfree = true;
    s->user = (char *)s + head;
    return s;
}

/* -- poison: a source that keeps the error sentence of a failed constructor, and reports it at setup */

static tp_status tp__poison_input_setup(tp_input_source *s) { return tp_fail(s->error, "%s", s->error_text); }
static tp_status tp__poison_input_tensors(tp_input_source *s, tp_node **in)
{
    (void)in;
    return tp__poison_input_setup(s);
}

static tp_input_source *tp__input_fail(const char *name, const tp_at *at, tp_status status, const char *fmt, ...)
    TP_PRINTF(4, 5);
static tp_input_source *tp__input_fail(const char *name, const tp_at *at, tp_status status, const char *fmt, ...)
{
    char text[900];
    va_list ap;
    va_start(ap, fmt);
    tp__vformat(text, sizeof text, fmt, ap);
    va_end(ap);
    tp_input_source *s = tp_feedfree_input(name, 0);
    if (!s) return NULL;
    const char *file = at && at->file ? strrchr(at->file, '/') : NULL;
    file = file ? file + 1 : at ? at->file : NULL;
    if (file) snprintf(s->error_text, sizeof s->error_text, "%.60s:%d: %s", file, at->line, text);
    else snprintf(s->error_text, sizeof s->error_text, "%s", text);
    s->error = status;
    s->setup = tp__poison_input_setup;
    s->get_input_tensors = tp__poison_input_tensors;
    tp_fail(status, "%s", s->error_text);
    return s;
}
static bool tp__input_is_poison(const tp_input_source *s) { return s->setup == tp__poison_input_setup; }

/* Checks that `caller` may own this source. If not, *s becomes the value for its constructor to return, and a source
 * without an owner is freed. */
static bool tp__input_around(const tp_at *at, tp_input_source **s, const char *caller)
{
    tp_input_source *const input = *s;
    if (!input) {
        tp_fail(TP_ERR_ARG, "%s: the input source is NULL: none was given, or there was no memory for it", caller);
        return false;
    }
    if (tp__input_is_poison(input) && !input->owner_.who) return false;
    if (tp__set_owner(&input->owner_, input->name, caller, at)) return true;
    char text[TP__ERROR_TEXT];
    snprintf(text, sizeof text, "%s", tp_last_error());
    *s = tp__input_fail(caller, NULL, TP_ERR_ARG, "%s", text);
    return false;
}

/* Gets the hooks of a source, or the status of the failure to get them. */
static tp_status tp__input_hooks_of(tp_input_source *s, tp_hook *const **hook, int *n)
{
    const tp_status st = s->hook || !s->hooks ? TP_OK : s->hooks(s, &s->hook, &s->n_hook);
    *hook = s->hook;
    *n = s->n_hook;
    return st;
}

static const tp_input_source *tp__input_kind(const tp_input_source *s)
{
    while (s->inner_) s = s->inner_;
    return s;
}

/* -- BatchQueueInput */

static tp_status tp__batch_queue_setup(tp_input_source *s)
{
    const tp__feeder *f = (const tp__feeder *)s->user;
    for (int i = 0; i < s->n_spec; i++) {
        char a[TP_SHAPE_TEXT];
        tp_shape shape = s->spec[i].shape;
        if (shape.ndim < 1)
            return tp_fail(TP_ERR_SHAPE, "%s: input '%s' is a scalar, and a batch has a first axis", s->name,
                           s->spec[i].name);
        if (shape.dim[0] >= 0 && shape.dim[0] != f->batch)
            return tp_fail(TP_ERR_SHAPE, "%s: input '%s' has shape %s, and the batch size is %d", s->name,
                           s->spec[i].name, tp_shape_text(&shape, a), f->batch);
        shape.dim[0] = f->batch;
        if (!tp_shape_known(&shape))
            return tp_fail(TP_ERR_SHAPE, "%s: input '%s' has shape %s: all dimensions but the first must be known",
                           s->name, s->spec[i].name, tp_shape_text(&s->spec[i].shape, a));
    }
    return tp__queue_setup(s);
}

TP_DEF tp_input_source *tp_batch_queue_input_(const tp_batch_queue_input_desc *d)
{
    TP__REQUIRE(d, NULL)
    tp_dataflow *df = d->df;
    const bool without_owner = df && !df->owner_.who;
    if (without_owner && (d->capacity < 0 || d->capacity > 1 << 24))
        df = TP__REFUSE(df, &d->at_, TP_ERR_ARG, "tp_batch_queue_input: a capacity of %d samples", d->capacity);
    else if (without_owner && (d->batch_size < 1 || d->batch_size > 1 << 24))
        df = TP__REFUSE(df, &d->at_, TP_ERR_ARG, "tp_batch_queue_input: batch_size is %d, it must be at least 1",
                        d->batch_size);
    tp_input_source *s =
        tp__feeder_new("BatchQueueInput", &d->at_, df, d->infinite, d->capacity ? d->capacity : 3000, true, d->queue);
    if (!s) return NULL;
    s->setup = tp__batch_queue_setup;
    ((tp__feeder *)s->user)->batch = d->batch_size < 1 ? 1 : d->batch_size;
    return s;
}

/* -- TFDatasetInput */

typedef struct tp__typed {
    tp_dataflow *df;
    int n;
    tp_dtype *type; /* the array is stored after this struct */
} tp__typed;

static tp_status tp__typed_next(tp_dataflow *df, tp_datapoint *dp)
{
    const tp__typed *t = (const tp__typed *)df->user;
    const tp_status st = tp_df_next(t->df, dp);
    if (st != TP_OK) return st;
    if (dp->n != t->n)
        return tp_fail(TP_ERR_SHAPE, "%s: a datapoint has %d components, the data set has %d", df->name, dp->n, t->n);
    for (int i = 0; i < dp->n; i++)
        if (dp->c[i].dtype != t->type[i])
            return tp_fail(TP_ERR_DTYPE, "%s: component %d is %s, in the data set it is %s: convert it with tp_df_cast",
                           df->name, i, tp_dtype_name(dp->c[i].dtype), tp_dtype_name(t->type[i]));
    return TP_OK;
}
static tp_status tp__typed_restart(tp_dataflow *df, int64_t pass)
{
    return tp_df_restart(((tp__typed *)df->user)->df, pass);
}
static tp_status tp__typed_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    return tp_df_seek(((tp__typed *)df->user)->df, n, skipped);
}
static int64_t tp__typed_size(tp_dataflow *df) { return tp_df_size(((tp__typed *)df->user)->df); }
static void tp__typed_close(tp_dataflow *df) { tp__df_delete(((tp__typed *)df->user)->df); }

TP_DEF tp_dataflow *tp_dataflow_to_dataset(tp_dataflow *df, const tp_dtype *types, int n)
{
    const char *const name = "tp_dataflow_to_dataset";
    tp_dataflow *out;
    if (df && !df->owner_.who && df->next != tp__poison_next) {
        if (n < 1 || !types)
            return TP__REFUSE(df, NULL, TP_ERR_ARG, "%s: it needs the dtype of at least one component", name);
        for (int i = 0; i < n; i++)
            if (tp_dtype_size(types[i]) == 0)
                return TP__REFUSE(df, NULL, TP_ERR_DTYPE, "%s: type %d (%d) is not a dtype", name, i, (int)types[i]);
    }
    const size_t bytes = sizeof(tp__typed) + (n > 0 ? (size_t)n : 0) * sizeof(tp_dtype);
    if (!tp__df_around(NULL, df, name, bytes, 0, &out)) return out;
    tp__typed *t = (tp__typed *)out->user;
    t->df = df;
    t->n = n;
    t->type = (tp_dtype *)(void *)(t + 1);
    memcpy(t->type, types, (size_t)n * sizeof *types);
    out->next = tp__typed_next;
    out->restart = df->restart ? tp__typed_restart : NULL;
    out->seek = tp__typed_seek;
    out->size = tp__typed_size;
    out->close = tp__typed_close;
    return out;
}

static tp_status tp__dataset_setup(tp_input_source *s)
{
    tp__feeder *f = (tp__feeder *)s->user;
    const tp_dataflow *df = f->endless.df;
    const tp_status st = tp_df_status(df);
    if (st != TP_OK) return st;
    const tp__typed *t = df->next == tp__typed_next ? (const tp__typed *)df->user : NULL;
    if (t && t->n != s->n_spec)
        return tp_fail(TP_ERR_SHAPE, "%s: the data set has %d components, the input signature has %d", s->name, t->n,
                       s->n_spec);
    for (int i = 0; t && i < t->n; i++)
        if (t->type[i] != s->spec[i].dtype)
            return tp_fail(TP_ERR_DTYPE, "%s: component %d ('%s') of the data set is %s, the input signature wants %s",
                           s->name, i, s->spec[i].name, tp_dtype_name(t->type[i]), tp_dtype_name(s->spec[i].dtype));
    return tp__feeder_scope(s);
}

TP_DEF tp_input_source *tp_dataset_input(tp_dataflow *df)
{
    tp_input_source *s = tp__feeder_new("TFDatasetInput", NULL, df, TP_NO, 1, false, NULL);
    if (!s) return NULL;
    ((tp__feeder *)s->user)->quiet_end = true;
    s->feedfree = true;
    s->setup = tp__dataset_setup;
    s->get_input_tensors = tp__queue_tensors;
    s->size = NULL;
    return s;
}

/* -- TensorInput, DummyConstantInput */

typedef struct tp__tensor_source {
    tp_tensor_input_fn fn;
    void *user;
    int64_t size;
    tp_status (*seek)(void *user, int64_t consumed);
    void (*release)(void *user);
    int n_tower, taken;
    unsigned effects; /* flags of all ops that the source's tensors depend on */
    tp_shape *shape;  /* for DummyConstantInput: n_shape shapes, stored after this struct */
    int n_shape;
    tp_hook hook, *hooks[1];
} tp__tensor_source;

/* Collects the flags of all ops that the nodes depend on. */
static tp_status tp__ancestor_flags(const tp_graph *g, tp_node *const *node, int n, unsigned *flags)
{
    const int n_op = tp_graph_n_operations(g);
    size_t stack_bytes = 0;
    if (!tp_mul_size((size_t)n_op + 1, sizeof(tp_operation *), &stack_bytes)) return TP_ERR_NOMEM;
    bool *seen = (bool *)tp_calloc((size_t)n_op + 1, 1);
    const tp_operation **pending = (const tp_operation **)tp_malloc(stack_bytes);
    int k = 0;
    for (int i = 0; i < n && seen && pending; i++)
        if (node[i] && !seen[node[i]->op->id]) {
            seen[node[i]->op->id] = true;
            pending[k++] = node[i]->op;
        }
    while (k > 0) {
        const tp_operation *o = pending[--k];
        *flags |= o->row->flags;
        for (int i = 0; i < o->n_in + o->n_ctrl; i++) {
            const tp_operation *p = i < o->n_in ? o->in[i]->op : o->ctrl[i - o->n_in];
            if (seen[p->id]) continue;
            seen[p->id] = true;
            pending[k++] = p;
        }
    }
    const bool ok = seen && pending;
    tp_free(seen);
    tp_free((void *)pending);
    return ok ? TP_OK : TP_ERR_NOMEM;
}

static tp_status tp__tensor_tensors(tp_input_source *s, tp_node **in)
{
    tp__tensor_source *t = (tp__tensor_source *)s->user;
    char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
    for (int i = 0; i < s->n_spec; i++) in[i] = NULL;
    const tp_status st = t->fn(s->graph, t->n_tower, in, s->n_spec, t->user);
    if (st != TP_OK || tp_graph_status(s->graph) != TP_OK) return st;
    for (int i = 0; i < s->n_spec; i++) {
        const tp_spec *expected = &s->spec[i];
        if (!in[i])
            return tp_fail(TP_ERR_ARG, "%s: the function gave no tensor for input %d ('%s')", s->name, i,
                           expected->name);
        if (in[i]->op->graph != s->graph)
            return tp_fail(TP_ERR_ARG, "%s: the tensor for input %d ('%s') is of another graph", s->name, i,
                           expected->name);
        if (in[i]->dtype != expected->dtype)
            return tp_fail(TP_ERR_DTYPE, "%s: the tensor for input %d ('%s') is %s, the input signature wants %s",
                           s->name, i, expected->name, tp_dtype_name(in[i]->dtype), tp_dtype_name(expected->dtype));
        if (!tp_shape_compatible(&in[i]->shape, &expected->shape))
            return tp_fail(TP_ERR_SHAPE,
                           "%s: the tensor for input %d ('%s') has shape %s, the input signature wants %s", s->name, i,
                           expected->name, tp_shape_text(&in[i]->shape, a), tp_shape_text(&expected->shape, b));
    }
    t->n_tower++;
    return tp__ancestor_flags(s->graph, in, s->n_spec, &t->effects);
}

static tp_status tp__tensor_before(tp_hook *h, tp_run_request *r)
{
    tp__tensor_source *t = (tp__tensor_source *)((tp_input_source *)h->user)->user;
    const int n = tp_request_datapoints(r);
    t->taken = n > 0 && n < t->n_tower ? n : t->n_tower;
    return TP_OK;
}
static tp_status tp__tensor_after(tp_hook *h, const tp_run_values *v)
{
    tp_input_source *s = (tp_input_source *)h->user;
    (void)v;
    s->consumed += ((tp__tensor_source *)s->user)->taken;
    return TP_OK;
}
static tp_status tp__tensor_hooks(tp_input_source *s, tp_hook *const **hook, int *n)
{
    tp__tensor_source *t = (tp__tensor_source *)s->user;
    t->hook.name = s->name;
    t->hook.user = s;
    t->hook.before_run = tp__tensor_before;
    t->hook.after_run = tp__tensor_after;
    t->hooks[0] = &t->hook;
    *hook = t->hooks;
    *n = 1;
    return TP_OK;
}

static tp_status tp__tensor_seek(tp_input_source *s, int64_t consumed)
{
    const tp__tensor_source *t = (const tp__tensor_source *)s->user;
    const tp_status st = t->seek ? t->seek(t->user, consumed) : TP_OK;
    s->consumed = consumed; /* the count of used datapoints continues from this number */
    if (t->seek || consumed == 0 || !(t->effects & TP_OP_HOST)) return st;
    return tp_fail(TP_ERR_UNSUPPORTED,
                   "%s cannot go back to datapoint %lld: its tensors come from an op of the host, and it has no .seek",
                   s->name, (long long)consumed);
}
static int64_t tp__tensor_size(tp_input_source *s)
{
    const int64_t n = ((const tp__tensor_source *)s->user)->size;
    return n > 0 ? n : -1;
}
static void tp__tensor_close(tp_input_source *s)
{
    const tp__tensor_source *t = (const tp__tensor_source *)s->user;
    if (t->release) t->release(t->user);
}

static tp_input_source *tp__tensor_new(const char *name, size_t extra_bytes)
{
    tp_input_source *s = tp_feedfree_input(name, sizeof(tp__tensor_source) + extra_bytes);
    if (!s) return NULL;
    s->get_input_tensors = tp__tensor_tensors;
    s->hooks = tp__tensor_hooks;
    s->seek = tp__tensor_seek;
    s->size = tp__tensor_size;
    s->close = tp__tensor_close;
    return s;
}

TP_DEF tp_input_source *tp_tensor_input_(const tp_tensor_input_desc *d)
{
    TP__REQUIRE(d, NULL)
    const char *const name = "TensorInput";
    tp_input_source *s = NULL;
    if (!d->fn)
        s = tp__input_fail(name, &d->at_, TP_ERR_ARG, "tp_tensor_input: it needs a function that gives tensors");
    else if (d->size < 0)
        s = tp__input_fail(name, &d->at_, TP_ERR_ARG, "tp_tensor_input: size is %lld, it must be at least 1",
                           (long long)d->size);
    else if ((s = tp__tensor_new(name, 0)) != NULL) {
        tp__tensor_source *t = (tp__tensor_source *)s->user;
        t->fn = d->fn;
        t->user = d->user;
        t->size = d->size;
        t->seek = d->seek;
        t->release = d->release;
        return s;
    }
    if (d->release) d->release(d->user);
    return s;
}

static tp_status tp__dummy_tensors(tp_graph *g, int tower, tp_node **in, int n, void *user)
{
    tp_input_source *s = (tp_input_source *)user;
    const tp__tensor_source *t = (const tp__tensor_source *)s->user;
    for (int i = 0; i < n; i++) {
        tp_tensor zeros;
        memset(&zeros, 0, sizeof zeros);
        const tp_status st = tp_tensor_resize(&zeros, s->spec[i].dtype, t->shape[i]);
        if (st != TP_OK) return st;
        memset(zeros.data, 0, tp_tensor_bytes(&zeros));
        in[i] = tp_constant(g, &zeros);
        tp_tensor_free(&zeros);
        const char *name = tp_arena_printf(&s->mem_, "dummy-%s-%d", s->spec[i].name, tower);
        if (name) in[i] = tp_named(in[i], name);
    }
    return TP_OK;
}
static tp_status tp__dummy_setup(tp_input_source *s)
{
    const tp__tensor_source *t = (const tp__tensor_source *)s->user;
    if (t->n_shape != s->n_spec)
        return tp_fail(TP_ERR_SHAPE, "%s: it has %d shapes, the input signature has %d inputs", s->name, t->n_shape,
                       s->n_spec);
    tp_log(TP_LOG_WARN, "Using dummy input for debug!");
    return TP_OK;
}

TP_DEF tp_input_source *tp_dummy_constant_input(const tp_shape *shapes, int n)
{
    const char *const name = "DummyConstantInput";
    char text[TP_SHAPE_TEXT];
    if (!shapes || n < 1 || n > 1 << 20)
        return tp__input_fail(name, NULL, TP_ERR_ARG, "tp_dummy_constant_input: it needs at least one shape");
    for (int i = 0; i < n; i++)
        if (!tp_shape_known(&shapes[i]))
            return tp__input_fail(name, NULL, TP_ERR_SHAPE,
                                  "tp_dummy_constant_input: shape %d, %s, must be known in all dimensions", i,
                                  tp_shape_text(&shapes[i], text));
    tp_input_source *s = tp__tensor_new(name, (size_t)n * sizeof *shapes);
    if (!s) return NULL;
    tp__tensor_source *t = (tp__tensor_source *)s->user;
    t->fn = tp__dummy_tensors;
    t->user = s;
    t->n_shape = n;
    t->shape = (tp_shape *)(void *)(t + 1);
    memcpy(t->shape, shapes, (size_t)n * sizeof *shapes);
    s->setup = tp__dummy_setup;
    return s;
}

/* -- remap_input_source */

typedef struct tp__renamed {
    const char **name;
    int *index; /* index of each name in the signature */
    int n;
    tp_hook hook, **hooks;
} tp__renamed;

/* Returns the index in the names of input i of the signature. -1: not among them. */
static int tp__remap_find(const tp_input_source *s, int i)
{
    const tp__renamed *m = (const tp__renamed *)s->user;
    int k = m->n - 1;
    while (k >= 0 && m->index[k] != i) k--;
    return k;
}

/* Whether the source itself provides input i. Valid after setup. */
static bool tp__input_provides(const tp_input_source *s, int i)
{
    for (; s->inner_ && i >= 0; s = s->inner_) i = tp__remap_find(s, i);
    return i >= 0;
}

static tp_status tp__remap_setup(tp_input_source *s)
{
    tp__renamed *m = (tp__renamed *)s->user;
    tp_spec *spec = (tp_spec *)tp_arena_alloc(&s->mem_, (size_t)m->n * sizeof *spec);
    m->index = (int *)tp_arena_alloc(&s->mem_, (size_t)m->n * sizeof *m->index);
    if (!spec || !m->index) return TP_ERR_NOMEM;
    for (int k = 0; k < m->n; k++) {
        int i = 0;
        while (i < s->n_spec && strcmp(s->spec[i].name, m->name[k]) != 0) i++;
        if (i == s->n_spec)
            return tp_fail(TP_ERR_NAME, "tp_remap_input_source: the model has no input '%s'", m->name[k]);
        m->index[k] = i;
        spec[k] = s->spec[i];
    }
    for (int i = 0; i < s->n_spec; i++) /* placeholders are made now, as by PlaceholderInput */
        if (tp__remap_find(s, i) < 0) tp__placeholder_or_reuse(s->graph, &s->spec[i], false);
    return tp_input_setup(s->inner_, s->graph, spec, m->n);
}

static tp_status tp__remap_tensors(tp_input_source *s, tp_node **in)
{
    const tp__renamed *m = (const tp__renamed *)s->user;
    tp_node **inner = (tp_node **)tp_arena_alloc(&s->mem_, (size_t)m->n * sizeof *inner);
    if (!inner) return TP_ERR_NOMEM;
    const tp_status st = tp_input_get_tensors(s->inner_, inner);
    if (st != TP_OK) return st;
    for (int i = 0; i < s->n_spec; i++) in[i] = NULL;
    for (int k = 0; k < m->n; k++) in[m->index[k]] = inner[k];
    for (int i = 0; i < s->n_spec; i++)
        if (!in[i]) in[i] = tp__placeholder_or_reuse(s->graph, &s->spec[i], false);
    return TP_OK;
}

static tp_status tp__remap_copy_consumed(tp_input_source *s, tp_status st)
{
    s->consumed = s->inner_->consumed;
    return st;
}
static tp_status tp__remap_reset(tp_input_source *s)
{
    return tp__remap_copy_consumed(s, tp_input_reset_state(s->inner_));
}
static tp_status tp__remap_seek(tp_input_source *s, int64_t n)
{
    return tp__remap_copy_consumed(s, tp_input_seek(s->inner_, n));
}
static int64_t tp__remap_size(tp_input_source *s) { return tp_input_size(s->inner_); }
static tp_status tp__remap_after(tp_hook *h, const tp_run_values *v)
{
    (void)v;
    return tp__remap_copy_consumed((tp_input_source *)h->user, TP_OK);
}

static tp_status tp__remap_hooks(tp_input_source *s, tp_hook *const **hook, int *n)
{
    tp__renamed *m = (tp__renamed *)s->user;
    tp_hook *const *inner = NULL;
    int n_inner = 0;
    const tp_status st = tp__input_hooks_of(s->inner_, &inner, &n_inner);
    if (st != TP_OK) return st;
    m->hooks = (tp_hook **)tp_arena_alloc(&s->mem_, ((size_t)n_inner + 1) * sizeof *m->hooks);
    if (!m->hooks) return TP_ERR_NOMEM;
    for (int i = 0; i < n_inner; i++) m->hooks[i] = inner[i];
    m->hook.name = s->name;
    m->hook.user = s;
    m->hook.after_run = tp__remap_after;
    m->hooks[n_inner] = &m->hook;
    *hook = m->hooks;
    *n = n_inner + 1;
    return TP_OK;
}
static void tp__remap_close(tp_input_source *s) { tp__input_delete(s->inner_); }

TP_DEF tp_input_source *tp_remap_input_source(tp_input_source *input, const char *const *names, int n)
{
    const char *const caller = "tp_remap_input_source";
    if (!tp__input_around(NULL, &input, caller)) return input;
    const char *wrong = !names || n < 1 || n > 1 << 20 ? "it needs the name of at least one input" : NULL;
    for (int i = 0; i < n && !wrong; i++) {
        if (!names[i]) wrong = "a name is NULL";
        for (int k = 0; k < i && !wrong; k++)
            if (strcmp(names[k], names[i]) == 0) wrong = "a name is there twice";
    }
    tp_input_source *s = wrong ? tp__input_fail(caller, NULL, TP_ERR_ARG, "%s: %s", caller, wrong)
                               : tp_feedfree_input(input->name, sizeof(tp__renamed));
    tp__renamed *m = s && !wrong ? (tp__renamed *)s->user : NULL;
    bool ok = m != NULL;
    if (ok) ok = (m->name = (const char **)tp_arena_alloc(&s->mem_, (size_t)n * sizeof *m->name)) != NULL;
    for (int i = 0; i < n && ok; i++) ok = (m->name[i] = tp_arena_strdup(&s->mem_, names[i])) != NULL;
    if (!ok) {
        tp__input_delete(input);
        if (wrong) return s;
        tp__input_delete(s);
        return NULL;
    }
    m->n = n;
    s->inner_ = input;
    s->feedfree = input->feedfree;
    s->setup = tp__remap_setup;
    s->get_input_tensors = tp__remap_tensors;
    s->reset_state = tp__remap_reset;
    s->seek = tp__remap_seek;
    s->size = tp__remap_size;
    s->hooks = tp__remap_hooks;
    s->close = tp__remap_close;
    return s;
}

/* -- StagingInput: a ring of rounds; a round has the datapoints of all towers for one run. A thread calls the hooks of the source
 * with a request of its own, keeps the values that they feed, and calls their after_run. If the source computes its tensors, its
 * hooks take part in the runs instead: each run computes a later round, and nr_stage runs of these tensors precede the first one.
 * */

typedef struct tp__staging {
    tp_input_source *input;
    int nr_stage, device;
    int n_tower;
    bool computed;
    /* n_tower * n_spec nodes. from: nodes of the source; node: nodes that are fed, NULL if the source lacks the
     * input */
    tp_node **from, **node;
    int *tower_device;       /* the device of each tower */
    tp_device **copy_device; /* the devices of the towers, kept open; NULL: host memory */
    tp_session *session;
    tp_hook *const *inner;
    int n_inner;
    tp_hook hook, prime, **hooks;

    tp_tensor *value;        /* the staged values: n_round * n_tower * n_spec */
    int64_t *position_after; /* for each of the n_round rounds, the position of the source after it */
    int n_round, head, filled;
    bool held; /* the first staged round is in use by a run, so its memory must not change */
    bool running, primed, closed, stop;
    tp_status error; /* error of the staging thread */
    char error_text[2048];
    tp_thread *thread;
    tp_mutex *mutex;
    tp_cond *not_full, *data;
    tp_run_request ahead; /* the thread's own run request */
    tp_session token;     /* cancels the waits of the thread's request */
} tp__staging;

static void tp__staging_close(tp_input_source *s);

static tp__staging *tp__input_staging(const tp_input_source *s)
{
    s = tp__input_kind(s);
    return s->close == tp__staging_close ? (tp__staging *)s->user : NULL;
}

TP__UNUSED static bool tp__input_is_staging(const tp_input_source *s) { return tp__input_staging(s) != NULL; }

/* Finds the innermost source, which may be a queue. */
static tp_input_source *tp__input_innermost(const tp_input_source *s)
{
    for (;;) {
        s = tp__input_kind(s);
        const tp__staging *g = tp__input_staging(s);
        if (!g) return (tp_input_source *)(uintptr_t)s;
        s = g->input;
    }
}
static tp__feeder *tp__input_feeder(const tp_input_source *s)
{
    const tp_input_source *in = tp__input_innermost(s);
    return in->close == tp__feeder_close ? (tp__feeder *)in->user : NULL;
}

/* Whether a pass of the source is known to have no end. */
TP__UNUSED static bool tp__input_is_endless(const tp_input_source *s)
{
    const tp__feeder *f = tp__input_feeder(s);
    return f && !f->shared && (!f->endless.one_pass || f->endless.df->endless_);
}

/* -- ring of StagingInput */

/* Copies a value to the device or host memory where a run reads it. */
static tp_status tp__staging_copy_value(const tp_input_source *s, tp_tensor *to, tp_device *d, const tp_tensor *value)
{
    if (value->device && !value->device->host)
        return tp_fail(TP_ERR_ARG, "%s: %s feeds a tensor that is already on %s", s->name,
                       ((const tp__staging *)s->user)->input->name, value->device->name);
    tp_tensor host = *value;
    host.device = NULL;
    return d && tp_tensor_bytes(value) ? tp_tensor_stage(to, d, &host) : tp_tensor_copy(to, &host);
}

/* Makes the next round, on the staging thread: the values that the hooks of the source feed. */
static tp_status tp__staging_compute_round(tp_input_source *s, int round)
{
    tp__staging *g = (tp__staging *)s->user;
    tp_run_request *r = &g->ahead;
    tp_status st = TP_OK;
    r->n_fetch = r->n_feed = r->first = 0;
    r->status = TP_OK;
    for (int i = 0; i < g->n_inner && st == TP_OK; i++) {
        if (g->inner[i]->before_run) st = g->inner[i]->before_run(g->inner[i], r);
        if (st == TP_OK) st = r->status;
    }
    if (st == TP_OK && r->n_fetch)
        st = tp_fail(TP_ERR_UNSUPPORTED, "%s: the hooks of %s fetch, but they are called ahead of the run", s->name,
                     g->input->name);
    const int n = g->n_tower * s->n_spec;
    int taken = 0;
    for (int k = 0; k < n && st == TP_OK; k++) {
        int i = 0;
        if (!g->node[k]) continue;
        while (i < r->n_feed && r->feed[i].node != g->node[k]) i++;
        if (i == r->n_feed)
            st = tp_fail(TP_ERR_STATE, "%s: the hooks of %s do not feed its tensor '%s'", s->name, g->input->name,
                         g->node[k]->op->name);
        else st = tp__staging_copy_value(s, &g->value[round * n + k], g->copy_device[k / s->n_spec], &r->feed[i].value);
        taken++;
    }
    if (st == TP_OK && taken != r->n_feed)
        st = tp_fail(TP_ERR_UNSUPPORTED, "%s: the hooks of %s feed a node that is not one of its tensors", s->name,
                     g->input->name);
    const tp_run_values no_values = {NULL, 0};
    for (int i = 0; i < g->n_inner && st == TP_OK; i++)
        if (g->inner[i]->after_run) st = g->inner[i]->after_run(g->inner[i], &no_values);
    if (st == TP_OK) g->position_after[round] = g->input->consumed;
    return st;
}

static void tp__staging_end(tp__staging *g, tp_status st)
{
    g->closed = true;
    g->error = st;
    snprintf(g->error_text, sizeof g->error_text, "%.2047s", st < TP_OK ? tp_last_error() : "");
}

#ifndef TP_NO_THREADS
static void tp__staging_thread(void *user)
{
    tp_input_source *s = (tp_input_source *)user;
    tp__staging *g = (tp__staging *)s->user;
    tp__df_stop = &g->stop;
    tp_mutex_lock(g->mutex);
    while (!g->stop && !g->closed) {
        if (g->filled - g->held >= g->nr_stage) {
            tp_cond_wait(g->not_full, g->mutex);
            continue;
        }
        const int round = (g->head + g->filled) % g->n_round;
        tp_mutex_unlock(g->mutex);
        const tp_status st = tp__staging_compute_round(s, round);
        tp_mutex_lock(g->mutex);
        if (st == TP_OK) g->filled++;
        else tp__staging_end(g, st);
        tp_cond_signal(g->data);
    }
    tp_mutex_unlock(g->mutex);
}
#endif

/* Stops the staging thread and drops all staged values. */
static void tp__staging_stop(tp_input_source *s)
{
    tp__staging *g = (tp__staging *)s->user;
    if (g->thread) {
        tp_mutex_lock(g->mutex);
        __atomic_store_n(&g->stop, true, __ATOMIC_RELEASE); /* read by tp_df_stopping without the lock */
        tp_cond_broadcast(g->not_full);
        tp_mutex_unlock(g->mutex);
        tp_session_cancel(&g->token);
        tp_thread_join(g->thread);
        g->thread = NULL;
    }
    for (int i = 0; i < g->n_round * g->n_tower * s->n_spec && g->value; i++)
        if (g->value[i].staged_) tp_tensor_free(&g->value[i]);
    g->stop = g->running = g->primed = g->held = g->closed = false;
    g->head = g->filled = 0;
    g->error = s->error = TP_OK;
    g->error_text[0] = s->error_text[0] = 0;
}

static tp_status tp__staging_start(tp_input_source *s)
{
    tp__staging *g = (tp__staging *)s->user;
    const int n = g->n_tower * s->n_spec;
    g->n_round = g->nr_stage + 1; /* one more round than nr_stage, for the round that a run holds */
    if (!g->value) g->value = (tp_tensor *)tp_calloc((size_t)g->n_round * (size_t)n + 1, sizeof *g->value);
    if (!g->position_after) g->position_after = (int64_t *)tp_calloc((size_t)g->n_round, sizeof *g->position_after);
    if (!g->value || !g->position_after) return TP_ERR_NOMEM;
    s->consumed = g->input->consumed;
    tp_status st = TP_OK;
#ifndef TP_NO_THREADS
    tp__running_begin(&g->ahead.run, &g->token, 0);
    g->ahead.ignores_interrupt = true; /* the run that takes the round ends by Ctrl-C */
    if (!g->computed) st = tp_thread_start(&g->thread, tp__staging_thread, s);
#endif
    g->running = st == TP_OK;
    return st;
}

static tp_status tp__staging_reset(tp_input_source *s)
{
    tp__staging *g = (tp__staging *)s->user;
    /* if a reset of the source continues its data, a reset continues the staging too */
    if (g->running && !tp__input_kind(g->input)->reset_state) return TP_OK;
    if (!g->n_tower || !s->n_hook)
        return tp_fail(TP_ERR_STATE, "%s: the towers ask for their tensors before, and then its hooks are asked for",
                       s->name);
    tp__staging_stop(s);
    const tp_status st = tp_input_reset_state(g->input);
    return st == TP_OK ? tp__staging_start(s) : st;
}

static tp_status tp__staging_seek(tp_input_source *s, int64_t consumed)
{
    tp__staging *g = (tp__staging *)s->user;
    const tp_input_source *in = tp__input_kind(g->input);
    const bool running = g->running;
    tp__staging_stop(s);
    tp_status st = tp_input_seek(g->input, consumed);
    s->consumed = g->input->consumed;
    char reason[TP__ERROR_TEXT] = "";
    if (st == TP_OK && consumed > 0 && in->close == tp__tensor_close) {
        const tp__tensor_source *t = (const tp__tensor_source *)in->user;
        if (!t->seek && t->effects & (TP_OP_READS_VAR | TP_OP_WRITES_VAR))
            st =
                tp_fail(TP_ERR_UNSUPPORTED,
                        "%s cannot go back to datapoint %lld: %s computes its data from variables, and it has no .seek",
                        s->name, (long long)consumed, in->name);
    }
    if (st != TP_OK) snprintf(reason, sizeof reason, "%s", tp_last_error());
    const tp_status begun = running && (st == TP_OK || st == TP_ERR_UNSUPPORTED) ? tp__staging_start(s) : TP_OK;
    if (begun != TP_OK) return begun;
    return st == TP_OK ? TP_OK : tp_fail(st, "%s", reason);
}

/* -- hooks of StagingInput */

static tp_status tp__staging_created(tp_hook *h, tp_session *session)
{
    tp_input_source *s = (tp_input_source *)h->user;
    tp__staging *g = (tp__staging *)s->user;
    tp_status st = TP_OK;
    tp__staging_stop(s);
    g->session = session;
    for (int t = 0; t < g->n_tower; t++) {
        const int k = g->device == TP_NONE ? 0 : g->device > 0 ? g->device : g->tower_device[t];
        if (g->copy_device[t]) tp__device_use(g->copy_device[t], -1);
        g->copy_device[t] = NULL;
        if (k < 0 || k >= session->n_device)
            return tp_fail(TP_ERR_ARG, "%s: there is no device %d to stage on: the session has %d", s->name, k,
                           session->n_device);
        tp_device *d = session->device[k];
        if (d->host || !d->stage || !d->unstage) continue;
        tp__device_use(d, 1); /* keeps the device open, since the session may be freed before the source */
        g->copy_device[t] = d;
    }
    for (int i = 0; i < g->n_inner && !g->computed && st == TP_OK; i++)
        if (g->inner[i]->after_create_session) st = g->inner[i]->after_create_session(g->inner[i], session);
    tp__feeder *f = tp__input_feeder(g->input);
    if (f && !g->computed) f->session = NULL; /* the staging thread must not write to the session */
    return st;
}

/* If the source computes its tensors: before the first run, computes nr_stage rounds, with the random steps that precede that
 * run's. */
static tp_status tp__staging_prime(tp_hook *h, tp_run_request *r)
{
    tp_input_source *s = (tp_input_source *)h->user;
    tp__staging *g = (tp__staging *)s->user;
    tp_status st = g->running ? TP_OK : tp_input_reset_state(s);
    if (st != TP_OK || g->primed) return st;
    if (!g->session) return tp_fail(TP_ERR_STATE, "%s: its hooks were not called with a new session", s->name);
    const int n = g->n_tower * s->n_spec;
    tp_node **fetch = (tp_node **)tp_malloc((size_t)n * sizeof *fetch);
    const tp_tensor **value = (const tp_tensor **)tp_malloc((size_t)n * sizeof *value);
    tp_hooked_session *run = tp_hooked_session_new(g->session, g->inner, g->n_inner);
    if (!fetch || !value || !run) st = TP_ERR_NOMEM;
    int n_fetch = 0;
    for (int k = 0; k < n && st == TP_OK; k++)
        if (g->node[k]) fetch[n_fetch++] = g->from[k];
    for (int i = 0; i < g->nr_stage && st == TP_OK; i++) {
        tp_exec *e = tp_hooked_session_exec(run);
        tp_exec_set_random_step(e, tp_exec_random_step(r->exec) - (uint64_t)(g->nr_stage - i));
        st = tp_hooked_run(run, fetch, n_fetch, value);
        for (int k = 0, j = 0; k < n && st == TP_OK; k++)
            if (g->node[k])
                st = tp__staging_copy_value(s, &g->value[i * n + k], g->copy_device[k / s->n_spec], value[j++]);
        if (st == TP_OK) g->position_after[i] = g->input->consumed;
        if (st == TP_OK) g->filled = i + 1;
    }
    g->primed = st == TP_OK;
    if (st != TP_OK) g->filled = 0;
    tp_hooked_session_free(run);
    tp_free((void *)fetch);
    tp_free((void *)value);
    return st;
}

/* Takes a staged round for this run. */
static tp_status tp__staging_take(tp_input_source *s, tp_run_request *r)
{
    tp__staging *g = (tp__staging *)s->user;
    tp_status st = TP_OK;
    tp_mutex_lock(g->mutex);
    while (!g->held) {
        if (g->filled > 0) {
            g->held = true;
            tp_cond_signal(g->not_full);
        } else if (g->closed) {
            st = g->error < TP_OK ? tp_fail(g->error, "%s", g->error_text) : g->error;
            if (st < TP_OK) {
                s->error = st;
                memcpy(s->error_text, g->error_text, sizeof s->error_text);
            }
            break;
        } else if (g->thread) {
            if ((st = tp__source_wait(r, g->data, g->mutex, "StagingInput waited for data")) != TP_OK) break;
        } else {
            tp_mutex_unlock(g->mutex); /* built without threads: make the round now */
            g->ahead.run = r->run;
            g->ahead.run.trace = NULL;
            st = tp__staging_compute_round(s, g->head);
            tp_mutex_lock(g->mutex);
            if (st == TP_OK) g->filled++;
            else if (st == TP_ERR_CANCELLED || st == TP_ERR_TIMEOUT) break;
            else tp__staging_end(g, st);
        }
    }
    tp_mutex_unlock(g->mutex);
    return st;
}

/* Writes the size of an inner queue to its summary variable, on the thread that runs. */
static tp_status tp__staging_queue_size(const tp__staging *g)
{
    const tp__feeder *f = tp__input_feeder(g->input);
    if (!f || g->computed || !f->size_node || !g->session) return TP_OK;
    const float now = tp_queue_input_size_ema(g->input);
    const tp_tensor ema = tp_scalar_view(&now);
    return tp_session_load(g->session, tp_node_variable(f->size_node), &ema);
}

static tp_status tp__staging_before(tp_hook *h, tp_run_request *r)
{
    tp_input_source *s = (tp_input_source *)h->user;
    tp__staging *g = (tp__staging *)s->user;
    const int n_requested = tp_request_datapoints(r), n = g->n_tower * s->n_spec;
    if (n_requested > 0 && n_requested < g->n_tower)
        return tp_fail(TP_ERR_UNSUPPORTED, "%s: all %d towers take their datapoints together, but a run takes %d",
                       s->name, g->n_tower, n_requested);
    tp_status st = g->running ? TP_OK : tp_input_reset_state(s);
    if (st == TP_OK) st = tp__staging_take(s, r);
    for (int k = 0; k < n && st == TP_OK; k++) {
        tp_tensor *value = &g->value[g->head * n + k];
        if (!g->node[k]) continue;
        st = tp_tensor_unstage(value);
        if (st == TP_OK) st = tp_request_feed(r, g->node[k], value);
        if (st == TP_OK && g->computed && tp_request_fetch(r, g->from[k]) < 0) st = r->status;
    }
    return st == TP_OK ? tp__staging_queue_size(g) : st;
}

static tp_status tp__staging_after(tp_hook *h, const tp_run_values *v)
{
    tp_input_source *s = (tp_input_source *)h->user;
    tp__staging *g = (tp__staging *)s->user;
    const int n = g->n_tower * s->n_spec;
    tp_status st = TP_OK;
    if (g->computed) {
        const int round = (g->head + g->filled) % g->n_round;
        for (int k = 0, j = 0; k < n && st == TP_OK; k++)
            if (g->node[k])
                st = tp__staging_copy_value(s, &g->value[round * n + k], g->copy_device[k / s->n_spec], v->value[j++]);
        g->position_after[round] = g->input->consumed;
        if (st != TP_OK) return st;
        g->filled++;
    }
    tp_mutex_lock(g->mutex);
    s->consumed = g->position_after[g->head];
    g->head = (g->head + 1) % g->n_round;
    g->filled--;
    g->held = false;
    tp_cond_signal(g->not_full);
    tp_mutex_unlock(g->mutex);
    return TP_OK;
}

static tp_status tp__staging_hooks(tp_input_source *s, tp_hook *const **hook, int *n)
{
    tp__staging *g = (tp__staging *)s->user;
    if (!g->n_tower)
        return tp_fail(TP_ERR_STATE, "%s: its hooks are asked for after all towers have asked for their tensors",
                       s->name);
    tp_status st = tp__input_hooks_of(g->input, &g->inner, &g->n_inner);
    if (st != TP_OK) return st;
    g->hooks = (tp_hook **)tp_arena_alloc(&s->mem_, ((size_t)g->n_inner + 2) * sizeof *g->hooks);
    g->copy_device = (tp_device **)tp_arena_alloc(&s->mem_, (size_t)g->n_tower * sizeof *g->copy_device);
    if (!g->hooks || !g->copy_device) return TP_ERR_NOMEM;
    int m = 0;
    g->prime.name = g->hook.name = s->name;
    g->prime.user = g->hook.user = s;
    g->prime.before_run = tp__staging_prime;
    if (g->computed) g->hooks[m++] = &g->prime;
    for (int i = 0; i < g->n_inner && g->computed; i++) g->hooks[m++] = g->inner[i];
    g->hook.after_create_session = tp__staging_created;
    g->hook.before_run = tp__staging_before;
    g->hook.after_run = tp__staging_after;
    g->hooks[m++] = &g->hook;
    *hook = g->hooks;
    *n = m;
    return TP_OK;
}

/* -- tensors of StagingInput */

static tp_status tp__staging_setup(tp_input_source *s)
{
    return tp_input_setup(((tp__staging *)s->user)->input, s->graph, s->spec, s->n_spec);
}

/* Makes room for one more tower. */
static bool tp__staging_tower(tp_input_source *s)
{
    tp__staging *g = (tp__staging *)s->user;
    const size_t n = ((size_t)g->n_tower + 1) * (size_t)s->n_spec;
    tp_node **from = (tp_node **)tp_realloc((void *)g->from, n * sizeof *from);
    if (from) g->from = from;
    tp_node **node = (tp_node **)tp_realloc((void *)g->node, n * sizeof *node);
    if (node) g->node = node;
    int *on = (int *)tp_realloc(g->tower_device, ((size_t)g->n_tower + 1) * sizeof *on);
    if (on) g->tower_device = on;
    return from && node && on;
}

static tp_status tp__staging_tensors(tp_input_source *s, tp_node **in)
{
    tp__staging *g = (tp__staging *)s->user;
    if (s->n_hook || g->n_tower >= 1 << 12)
        return tp_fail(TP_ERR_STATE, "%s: all towers must ask for their tensors before its hooks are asked for",
                       s->name);
    if (!tp__staging_tower(s)) return TP_ERR_NOMEM;
    tp_node **from = g->from + g->n_tower * s->n_spec, **node = g->node + g->n_tower * s->n_spec;
    tp_status st = tp_input_get_tensors(g->input, from);
    if (st != TP_OK) return st;
    bool computed = false;
    for (int i = 0; i < s->n_spec; i++) {
        node[i] = tp__input_provides(g->input, i) ? from[i] : NULL;
        if (node[i] && strcmp(from[i]->op->row->name, "placeholder") != 0) computed = true;
        for (int k = 0; k < g->n_tower * s->n_spec && node[i]; k++)
            if (g->node[k] == node[i])
                return tp_fail(TP_ERR_STATE, "%s: %s gave '%s' to two towers: a feed-free source makes new tensors",
                               s->name, g->input->name, node[i]->op->name);
    }
    if (g->n_tower > 0 && computed != g->computed)
        return tp_fail(TP_ERR_STATE, "%s: %s feeds the tensors of one tower and computes the tensors of another",
                       s->name, g->input->name);
    g->computed = computed;
    if (computed) { /* for computed values, placeholders that get the values of an earlier run replace the tensors */
        tp_input_cached_name_scope_push(s);
        for (int i = 0; i < s->n_spec; i++)
            if (node[i]) node[i] = tp_placeholder(s->graph, s->spec[i].name, from[i]->dtype, from[i]->shape);
        tp_name_scope_pop(s->graph);
    }
    for (int i = 0; i < s->n_spec; i++) in[i] = node[i] ? node[i] : from[i];
    g->tower_device[g->n_tower++] = tp_current_device(s->graph);
    return TP_OK;
}

static int64_t tp__staging_size(tp_input_source *s) { return tp_input_size(((tp__staging *)s->user)->input); }

static void tp__staging_close(tp_input_source *s)
{
    tp__staging *g = (tp__staging *)s->user;
    tp__staging_stop(s);
    tp__input_delete(g->input);
    for (int i = 0; i < g->n_round * g->n_tower * s->n_spec && g->value; i++) tp_tensor_free(&g->value[i]);
    for (int t = 0; t < g->n_tower && g->copy_device; t++)
        if (g->copy_device[t]) tp__device_use(g->copy_device[t], -1);
    tp_free(g->value);
    tp_free(g->position_after);
    tp_free((void *)g->from);
    tp_free((void *)g->node);
    tp_free(g->tower_device);
    tp_free((void *)g->ahead.fetch);
    tp_free(g->ahead.feed);
    tp_cond_free(g->not_full);
    tp_cond_free(g->data);
    tp_mutex_free(g->mutex);
}

TP_DEF tp_input_source *tp_staging_input_(const tp_staging_input_desc *d)
{
    TP__REQUIRE(d, NULL)
    const char *const name = "StagingInput";
    tp_input_source *input = d->input, *s = NULL;
    if (!tp__input_around(&d->at_, &input, name)) return input;
    if (!input->feedfree)
        s = tp__input_fail(name, &d->at_, TP_ERR_ARG,
                           "StagingInput: %s is fed by the program: it takes a feed-free source", input->name);
    else if (tp__input_is_staging(input))
        s = tp__input_fail(name, &d->at_, TP_ERR_ARG, "StagingInput: it holds a StagingInput already");
    else if (d->nr_stage < 0 || d->nr_stage > 64)
        s = tp__input_fail(name, &d->at_, TP_ERR_ARG, "StagingInput: nr_stage is %d, it must be 1 to 64", d->nr_stage);
    else if (d->device < 0 && d->device != TP_NONE)
        s = tp__input_fail(name, &d->at_, TP_ERR_ARG, "StagingInput: there is no device %d", d->device);
    else s = tp_feedfree_input(name, sizeof(tp__staging));
    if (!s || tp__input_is_poison(s)) {
        tp__input_delete(input);
        return s;
    }
    tp__staging *g = (tp__staging *)s->user;
    g->input = input;
    g->nr_stage = d->nr_stage ? d->nr_stage : 1;
    g->device = d->device;
    g->mutex = tp_mutex_new();
    g->not_full = tp_cond_new();
    g->data = tp_cond_new();
    s->setup = tp__staging_setup;
    s->get_input_tensors = tp__staging_tensors;
    s->reset_state = tp__staging_reset;
    s->seek = tp__staging_seek;
    s->size = tp__staging_size;
    s->hooks = tp__staging_hooks;
    s->close = tp__staging_close;
    if (g->mutex && g->not_full && g->data) return s;
    tp__input_delete(s);
    return NULL;
}

/* -- functions that look inside other sources */

TP_DEF float tp_queue_input_size_ema(const tp_input_source *s)
{
    TP__REQUIRE(s, 0)

    const tp__feeder *f = tp__input_feeder(s);
    if (!f) return 0.0f;
    tp_mutex_lock(f->mutex);
    const float ema = f->ema;
    tp_mutex_unlock(f->mutex);
    return ema;
}

TP_DEF tp_status tp_queue_input_refill_queue(tp_input_source *s)
{
    TP__REQUIRE(s, TP_ERR_ARG)

    tp_input_source *in = tp__input_innermost(s), *staging = NULL;
    tp__feeder *f = tp__input_feeder(s);
    if (!f || !f->queue)
        return tp_fail(TP_ERR_ARG, "tp_queue_input_refill_queue: %s has no queue", s->name ? s->name : "the source");
    if (!f->running) return TP_OK; /* the inner queue is empty */
    const int64_t start = f->start, at = s->consumed;
    for (tp_input_source *p = s; p != in; p = p->inner_ ? p->inner_ : tp__input_staging(p)->input)
        if (!p->inner_) staging = p;
    const bool staged = staging && ((tp__staging *)staging->user)->running;
    if (staged) tp__staging_stop(staging);
    if (f->shared) {
        tp__feeder_stop(in);
        tp_mutex_lock(f->shared->mutex);
        f->shared->filled = 0;
        tp_cond_broadcast(f->shared->not_full);
        tp_mutex_unlock(f->shared->mutex);
        f->head = f->filled = f->held = 0;
    }
    f->start = at;
    tp_status st = tp_input_reset_state(in);
    f->start = start;
    if (st == TP_OK && staged) st = tp__staging_start(staging);
    return st;
}

TP_DEF tp_input_source *tp_input_default_prefetch(tp_input_source *input, int n_devices)
{
    TP__REQUIRE(input, NULL)

    const tp_input_source *kind = tp__input_kind(input);
    if (n_devices < 2 || kind->close != tp__feeder_close || !((const tp__feeder *)kind->user)->queue) return input;
    tp_log(TP_LOG_INFO, "Automatically applying StagingInput on the %s.", kind->name);
    tp_staging_input_desc d;
    memset(&d, 0, sizeof d);
    d.input = input;
    return tp_staging_input_(&d);
}

/* ==== >>zmq ============================================================================================ */

/* -- the message: int32 n, then n times { int32 dtype, int32 ndim, int32 dim[ndim], int64 nbytes, data } ---- >>zmq message
 * Little-endian, nothing aligned. The dtypes are numbered as in TensorFlow. */

typedef struct tp__wire_type {
    uint32_t code;
    char kind; /* type letter as in .npy files, see tp__npy */
    int size;
    tp_dtype dtype; /* dtype after decoding; unset: it cannot be decoded */
    const char *name;
} tp__wire_type;
static const tp__wire_type tp__wire_types[] = {
    {1, 'f', 4, TP_F32, "float32"},
    {2, 'f', 8, TP_F64, "float64"},
    {3, 'i', 4, TP_I32, "int32"},
    {4, 'u', 1, TP_U8, "uint8"},
    {9, 'i', 8, TP_I64, "int64"},
    {10, 'b', 1, TP_BOOL, "bool"},
    {14, 'f', 2, TP_BF16, "bfloat16"},
    {19, 'f', 2, TP_F16, "float16"}, /* types up to this row can also be written */
    {5, 'i', 2, TP_I32, "int16"},
    {6, 'i', 1, TP_I32, "int8"},
    {17, 'u', 2, TP_I32, "uint16"},
    {22, 'u', 4, TP_I64, "uint32"},
    {23, 'u', 8, TP_I64, "uint64"},
    {7, 'S', 0, TP_DTYPE_UNSET, "string"},
    {8, 'c', 8, TP_DTYPE_UNSET, "complex64"},
    {18, 'c', 16, TP_DTYPE_UNSET, "complex128"},
};

/* Returns the number of bytes of dp's message. */
static tp_status tp__wire_size(const tp_datapoint *dp, size_t *size)
{
    size_t message_size = 4;
    for (int i = 0; i < dp->n; i++) {
        const tp_tensor *t = &dp->c[i];
        char component_name[64], text[TP_SHAPE_TEXT];
        size_t bytes;
        snprintf(component_name, sizeof component_name, "tp_datapoint_pack: component %d", i);
        if (t->device)
            return tp_fail(TP_ERR_ARG, "%s is in the memory of %s: bring it to the host with tp_tensor_copy",
                           component_name, t->device->name);
        const tp_status st = tp__npy_check(t, component_name, &bytes);
        if (st != TP_OK) return st;
        for (int k = 0; k < t->shape.ndim; k++)
            if (t->shape.dim[k] > INT32_MAX)
                return tp_fail(TP_ERR_SHAPE, "%s has the shape %s: a message can hold sizes up to %d", component_name,
                               tp_shape_text(&t->shape, text), INT32_MAX);
        const size_t head = 16 + 4 * (size_t)t->shape.ndim;
        bytes = tp_tensor_bytes(t);
        if (bytes > PTRDIFF_MAX - head - message_size)
            return tp_fail(TP_ERR_NOMEM, "%s: the message is larger than memory can be", component_name);
        message_size += head + bytes;
    }
    *size = message_size;
    return TP_OK;
}

/* Writes the message of dp, whose size tp__wire_size gives. */
static void tp__wire_write(const tp_datapoint *dp, void *to)
{
    uint8_t *p = tp__put_le((uint8_t *)to, (uint64_t)dp->n, 4);
    for (int i = 0; i < dp->n; i++) {
        const tp_tensor *t = &dp->c[i];
        const tp__wire_type *type = tp__wire_types;
        const size_t bytes = tp_tensor_bytes(t), size = tp_dtype_size(t->dtype);
        while (type->dtype != t->dtype) type++;
        p = tp__put_le(p, type->code, 4);
        p = tp__put_le(p, (uint64_t)t->shape.ndim, 4);
        for (int k = 0; k < t->shape.ndim; k++) p = tp__put_le(p, (uint64_t)t->shape.dim[k], 4);
        p = tp__put_le(p, bytes, 8);
        if (bytes) memcpy(p, t->data, bytes);
        for (size_t k = 0; k < bytes && size > 1 && !tp__little_endian(); k++)
            p[k] = ((const uint8_t *)t->data)[k - k % size + size - 1 - k % size];
        p += bytes;
    }
}

TP_DEF tp_status tp_datapoint_pack(const tp_datapoint *dp, tp_buf *out)
{
    TP__REQUIRE(dp && out && dp->n >= 0 && (dp->c || dp->n == 0), TP_ERR_ARG)

    size_t size = 0;
    const tp_status st = tp__wire_size(dp, &size);
    if (st != TP_OK) return st;
    if (!tp__buf_reserve(out, size))
        return tp_fail(TP_ERR_NOMEM, "out of memory for a message of %zu bytes behind %zu", size, out->len);
    tp__wire_write(dp, out->data + out->len);
    out->len += size;
    out->data[out->len] = 0;
    return TP_OK;
}

/* Reads the head of a component, and moves *at after it. data_name: name of the message, i: index of the component. */
static tp_status tp__wire_head(tp__npy *h, const uint8_t *data, size_t size, size_t *at, const char *data_name, int i)
{
    if (size - *at < 8) return tp_fail(TP_ERR_FORMAT, "%s is truncated: it ends before its component %d", data_name, i);
    const uint32_t code = tp__le32(data + *at), ndim = tp__le32(data + *at + 4);
    const tp__wire_type *type = tp__wire_types, *end = type + TP_COUNT(tp__wire_types);
    while (type < end && type->code != code) type++;
    if (type == end)
        return tp_fail(TP_ERR_FORMAT, "%s: its component %d has the dtype %u, which the format does not have",
                       data_name, i, (unsigned)code);
    if (type->dtype == TP_DTYPE_UNSET)
        return tp_fail(TP_ERR_UNSUPPORTED, "%s: its component %d is %s: send numbers, complex ones as two floats",
                       data_name, i, type->name);
    if (ndim > TP_MAX_DIMS)
        return tp_fail(TP_ERR_FORMAT, "%s: its component %d says %u dimensions, there may be %d", data_name, i,
                       (unsigned)ndim, TP_MAX_DIMS);
    *at += 8;
    if (size - *at < 4 * (size_t)ndim + 8)
        return tp_fail(TP_ERR_FORMAT, "%s is truncated: it ends in the shape of its component %d", data_name, i);
    memset(h, 0, sizeof *h);
    h->kind = type->kind;
    h->size = type->size;
    h->dtype = type->dtype;
    h->swap = !tp__little_endian();
    h->shape.ndim = (int)ndim;
    for (uint32_t k = 0; k < ndim; k++, *at += 4) {
        const uint32_t dim = tp__le32(data + *at);
        if (dim > INT32_MAX)
            return tp_fail(TP_ERR_FORMAT, "%s: a dimension of its component %d is negative", data_name, i);
        h->shape.dim[k] = dim;
    }
    return TP_OK;
}

static tp_status tp__wire_component(tp_tensor *t, const uint8_t *data, size_t size, size_t *at, const char *data_name,
                                    int i)
{
    char text[TP_SHAPE_TEXT];
    tp__npy h;
    size_t n = 0;
    tp_status st = tp__wire_head(&h, data, size, at, data_name, i);
    if (st != TP_OK) return st;
    const uint64_t bytes = tp__le64(data + *at);
    *at += 8;
    if (!tp__npy_count(&h, &n))
        return tp_fail(TP_ERR_FORMAT, "%s: its component %d says the shape %s, which is larger than memory can be",
                       data_name, i, tp_shape_text(&h.shape, text));
    if (bytes != (uint64_t)n * (uint64_t)h.size)
        return tp_fail(TP_ERR_FORMAT, "%s: its component %d says %llu bytes, its shape %s of %d-byte elements has %llu",
                       data_name, i, (unsigned long long)bytes, tp_shape_text(&h.shape, text), h.size,
                       (unsigned long long)n * (unsigned)h.size);
    if (bytes > size - *at)
        return tp_fail(TP_ERR_FORMAT, "%s is truncated: its component %d has %llu bytes, %zu are there", data_name, i,
                       (unsigned long long)bytes, size - *at);
    st = tp_tensor_resize(t, h.dtype, h.shape);
    if (st != TP_OK) return st;
    if (!tp__npy_elements(&h, t->data, data + *at, n))
        return tp_fail(TP_ERR_FORMAT, "%s: its component %d has a uint64 that int64 does not hold", data_name, i);
    *at += (size_t)bytes;
    return TP_OK;
}

TP_DEF tp_status tp_datapoint_unpack(tp_datapoint *dp, const void *data, size_t size, const char *what)
{
    TP__REQUIRE(dp && (data || size == 0) && what, TP_ERR_ARG)

    dp->n = 0;
    if (size < 4)
        return tp_fail(TP_ERR_FORMAT, "%s is truncated: it has %zu bytes, the number of its components alone takes 4",
                       what, size);
    const uint8_t *const bytes = (const uint8_t *)data;
    const uint32_t n = tp__le32(bytes);
    const bool fits = n <= INT_MAX && n <= (size - 4) / 16;
    if (!fits && bytes[0] == 0x80 && bytes[1] >= 2 && bytes[1] <= 5) /* as Python's pickles begin */
        return tp_fail(TP_ERR_FORMAT, "%s is pickled: its sender must use format='zmq_ops' of send_dataflow_zmq", what);
    if (!fits)
        return tp_fail(TP_ERR_FORMAT, "%s says %u components, for which its %zu bytes are too few", what, (unsigned)n,
                       size);
    size_t at = 4;
    tp_status st = tp_datapoint_resize(dp, (int)n);
    for (int i = 0; i < (int)n && st == TP_OK; i++)
        st = tp__wire_component(&dp->c[i], (const uint8_t *)data, size, &at, what, i);
    if (st == TP_OK && at != size)
        st = tp_fail(TP_ERR_FORMAT, "%s: %zu bytes follow after its %u components", what, size - at, (unsigned)n);
    if (st != TP_OK) dp->n = 0;
    return st;
}

/* -- sockets ---- >>zmq sockets
 * A ZMQInput is a feeder (see >>input source) without a thread; it reads the flow that tp_df_remote_zmq makes. That flow waits in
 * short polls, and checks between them whether it must stop. */

#ifndef TP_ZMQ

static tp_dataflow *tp__zmq_missing(const tp_at *at, const char *caller)
{
    return tp_df_fail(
        at, TP_ERR_UNSUPPORTED,
        "%s: this program was built without ZeroMQ: define TP_ZMQ before the implementation of tp_input.h "
        "and link with -lzmq (Debian package libzmq3-dev)",
        caller);
}
TP_DEF tp_input_source *tp_zmq_input_(const tp_zmq_input_desc *d)
{
    TP__REQUIRE(d, NULL)
    return tp__feeder_new("ZMQInput", NULL, tp__zmq_missing(&d->at_, "tp_zmq_input"), TP_UNSET, 1, false, NULL);
}
TP_DEF tp_dataflow *tp_zmq_input_to_dataset(const tp_input_source *s, const tp_spec *specs, int n)
{
    (void)s, (void)specs, (void)n;
    return tp__zmq_missing(NULL, "tp_zmq_input_to_dataset");
}
TP_DEF tp_dataflow *tp_df_remote_zmq_(const tp_df_remote_zmq_desc *d)
{
    return tp__zmq_missing(d ? &d->at_ : NULL, "tp_df_remote_zmq");
}
TP_DEF int64_t tp_df_remote_zmq_received(const tp_dataflow *df, int address)
{
    (void)df, (void)address;
    return 0;
}
TP_DEF tp_status tp_df_send_zmq_(const tp_df_send_zmq_desc *d)
{
    TP__REQUIRE(d && d->df, TP_ERR_ARG)
    tp_dataflow *df = tp__zmq_missing(&d->at_, "tp_df_send_zmq");
    const tp_status st = tp_df_status(df);
    tp__df_delete(df);
    return st;
}

#else

/* An end that waits for longer than this, in seconds, without a message ever having gone from end to end, says so in the log. */
#ifndef TP__ZMQ_SILENCE
#define TP__ZMQ_SILENCE 5
#endif

/* One or two open or closed sockets, with their addresses. */
typedef struct tp__zmq_end {
    const char *caller; /* name for error sentences: "ZMQInput" */
    char *addr[2];
    int n, hwm;
    bool bind;
    int64_t messages;          /* number of messages sent, or received, bad ones included */
    double silent_since;       /* when this end began to wait; 0: it has not yet */
    bool has_said;             /* the log has said that this end waits */
    void *context, *socket[2]; /* NULL: the socket is closed */
} tp__zmq_end;

/* Closes the sockets. linger_ms: how long sent messages may wait for their receivers. libzmq rounds the time to milliseconds and may
 * give up before it is over; with TP__ZMQ_EARLY_MS more it takes at least linger_ms. */
enum { TP__ZMQ_EARLY_MS = 2 };
static void tp__zmq_close(tp__zmq_end *z, int linger_ms)
{
    if (linger_ms > 0 && linger_ms <= INT_MAX - TP__ZMQ_EARLY_MS) linger_ms += TP__ZMQ_EARLY_MS;
    for (int i = 0; i < z->n; i++) {
        if (!z->socket[i]) continue;
        zmq_setsockopt(z->socket[i], ZMQ_LINGER, &linger_ms, sizeof linger_ms);
        zmq_close(z->socket[i]);
        z->socket[i] = NULL;
    }
    while (z->context && zmq_ctx_term(z->context) != 0 && zmq_errno() == EINTR) {}
    z->context = NULL;
}

static tp_status tp__zmq_fail(const tp__zmq_end *z, int i, const char *action)
{
    const int error = zmq_errno();
    const bool elsewhere = z->bind && (error == EADDRNOTAVAIL || error == ENODEV);
    return tp_fail(error == ENOMEM ? TP_ERR_NOMEM : TP_ERR_IO, "%s: cannot %s %s: %s%s", z->caller, action, z->addr[i],
                   zmq_strerror(error),
                   elsewhere ? ". An end that binds has an address of this machine, such as tcp://*:5555; to connect "
                               "to another machine set .bind = TP_NO"
                             : "");
}

/* Whether somebody receives at an ipc:// address that is a file. ZeroMQ would delete that file and make its own, so that the other one
 * would wait for ever. */
static bool tp__zmq_is_taken(const char *addr)
{
#ifdef _WIN32
    return (void)addr, false;
#else
    struct sockaddr_un file;
    memset(&file, 0, sizeof file);
    file.sun_family = AF_UNIX;
    if (strncmp(addr, "ipc://", 6) != 0 || addr[6] == '@' || strlen(addr + 6) >= sizeof file.sun_path) return false;
    memcpy(file.sun_path, addr + 6, strlen(addr + 6));
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0) return false;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    const bool is_taken = connect(fd, (const struct sockaddr *)(const void *)&file, sizeof file) == 0 ||
                          errno == EAGAIN; /* more connections wait there than the system queues */
    close(fd);
    return is_taken;
#endif
}

/* Say once that this end has been waiting for a while, and for whom: if the other end never comes, it would wait in silence for ever. */
static void tp__zmq_say_silent(tp__zmq_end *z, const char *sentence)
{
    const double now = tp_time();
    if (z->silent_since <= 0) z->silent_since = now;
    if (z->has_said || now - z->silent_since < TP__ZMQ_SILENCE) return;
    z->has_said = true;
    tp_log(TP_LOG_INFO, "%s: %s %s%s%s. Does the other end run, and does it have this address?", z->caller, sentence,
           z->addr[0], z->n > 1 ? " or " : "", z->n > 1 ? z->addr[1] : "");
}

static tp_status tp__zmq_open(tp__zmq_end *z, int type)
{
    const int linger = 0, option = type == ZMQ_PUSH ? ZMQ_SNDHWM : ZMQ_RCVHWM;
    z->context = zmq_ctx_new();
    tp_status st = z->context ? TP_OK : tp__zmq_fail(z, 0, "begin with");
    for (int i = 0; i < z->n && st == TP_OK; i++) {
        z->socket[i] = zmq_socket(z->context, type);
        if (!z->socket[i]) st = tp__zmq_fail(z, i, "make a socket for");
        else if (zmq_setsockopt(z->socket[i], ZMQ_LINGER, &linger, sizeof linger) != 0 ||
                 zmq_setsockopt(z->socket[i], option, &z->hwm, sizeof z->hwm) != 0)
            st = tp__zmq_fail(z, i, "set the options of the socket for");
        else if (z->bind && tp__zmq_is_taken(z->addr[i]))
            st = tp_fail(TP_ERR_IO, "%s: cannot bind to %s: another end is bound to it: give an address of its own",
                         z->caller, z->addr[i]);
        while (st == TP_OK && (z->bind ? zmq_bind : zmq_connect)(z->socket[i], z->addr[i]) != 0)
            if (zmq_errno() != EINTR) st = tp__zmq_fail(z, i, z->bind ? "bind to" : "connect to");
    }
    if (st != TP_OK) tp__zmq_close(z, 0);
    return st;
}

/* Returns the mistake in an address or a high-water mark; NULL: none. */
static const char *tp__zmq_mistake(const char *addr, int hwm)
{
    if (!addr || !*addr) return "an address is missing: \"tcp://127.0.0.1:5555\", \"ipc:///run/train.sock\"";
    if (strncmp(addr, "inproc:", 7) == 0)
        return "an inproc: address has no other end: ZeroMQ's own threads alone see it. Give tcp:// or ipc://";
    if (!strstr(addr, "://")) return "an address has a protocol: \"tcp://127.0.0.1:5555\", \"ipc:///run/train.sock\"";
    if (strncmp(addr, "tcp://", 6) == 0) {
        const char *port = strrchr(addr, ':') + 1;
        char *end;
        const long number = strtol(port, &end, 10);
        const bool is_number = isdigit((unsigned char)*port) && !*end && number >= 1 && number <= 65535;
        if (!is_number && strcmp(port, "*") != 0)
            return "a tcp:// address ends with a port, a number from 1 to 65535: \"tcp://127.0.0.1:5555\"";
    }
    return hwm < 0 ? ".hwm is negative: it is the number of messages that may wait" : NULL;
}

/* -- receiving */

typedef struct tp__zmq_flow {
    tp__zmq_end end; /* must be the first member */
    int next_socket,
        message_socket; /* the socket to poll first, so that both get served; the socket of the last message */
    bool unpack_again;  /* the message could not be unpacked for lack of memory: the next call unpacks it again */
    zmq_msg_t message;
    bool has_logged; /* the log has said that the flow has no position */
    int64_t timeout_ms;
    int64_t received[2];         /* atomic: good messages from each address */
    tp_run_request *run;         /* for ZMQInput: the run that waits for a message */
    const tp_input_source *like; /* source whose signature the messages must have; NULL: any */
    /* for tp_zmq_input_to_dataset: a source with only a name and the wanted signature; `like` then points to it */
    tp_input_source own;
} tp__zmq_flow;

/* Whether to wait longer for a message: TP_OK: wait; else the status to return. */
static tp_status tp__zmq_may_wait(const tp__zmq_flow *f, double until)
{
    if (f->run) {
        const tp_status st = tp__running_check(&f->run->run, "ZMQInput waited for data", NULL);
        return st == TP_OK && tp__os_interrupted() ? TP_INTR : st;
    }
    const tp_status st = tp__df_may_wait();
    if (st != TP_OK) return st;
    if (until > 0 && tp_time() >= until)
        return tp_fail(TP_ERR_TIMEOUT, "%s: no datapoint came to %s%s%s within %lld ms", f->end.caller, f->end.addr[0],
                       f->end.n > 1 ? " or " : "", f->end.n > 1 ? f->end.addr[1] : "", (long long)f->timeout_ms);
    return TP_OK;
}

/* Waits for a message; *which: the socket that has it. */
static tp_status tp__zmq_wait(tp__zmq_flow *f, int *socket)
{
    double until = f->timeout_ms > 0 ? tp_time() + 1e-3 * (double)f->timeout_ms : 0;
    if (f->run && f->run->run.deadline > 0) until = f->run->run.deadline;
    for (;;) {
        zmq_pollitem_t item[2];
        memset(item, 0, sizeof item);
        for (int i = 0; i < f->end.n; i++) item[i].socket = f->end.socket[i], item[i].events = ZMQ_POLLIN;
        double left = until > 0 ? until - tp_time() : TP__WAIT_SLICE;
        left = left < 0 ? 0 : left > TP__WAIT_SLICE ? TP__WAIT_SLICE : left;
        const int n = zmq_poll(item, f->end.n, (long)ceil(1e3 * left));
        if (n < 0 && zmq_errno() != EINTR) return tp__zmq_fail(&f->end, 0, "wait for data at");
        for (int i = 0; i < f->end.n && n > 0; i++) {
            *socket = (f->next_socket + i) % f->end.n;
            if (item[*socket].revents & ZMQ_POLLIN) return TP_OK;
        }
        const tp_status st = tp__zmq_may_wait(f, until);
        if (st != TP_OK) return st;
        if (f->end.messages == 0) tp__zmq_say_silent(&f->end, "no message has come yet to");
    }
}

static int tp__zmq_recv(zmq_msg_t *m, void *socket)
{
    int rc;
    do rc = zmq_msg_recv(m, socket, ZMQ_DONTWAIT);
    while (rc < 0 && zmq_errno() == EINTR);
    return rc;
}

/* Receives a message from a socket, without waiting. TP_STOP: no message has arrived. */
static tp_status tp__zmq_receive(tp__zmq_flow *f, int socket, zmq_msg_t *m)
{
    int rc = tp__zmq_recv(m, f->end.socket[socket]);
    if (rc < 0 && zmq_errno() == EAGAIN) return TP_STOP;
    if (rc < 0) return tp__zmq_fail(&f->end, socket, "receive from");
    f->end.messages++;
    if (!zmq_msg_more(m)) return TP_OK;
    /* receive the message's other parts */
    while (rc >= 0 && zmq_msg_more(m)) rc = tp__zmq_recv(m, f->end.socket[socket]);
    return tp_fail(TP_ERR_FORMAT, "%s: message %lld from %s has several parts: a datapoint has one", f->end.caller,
                   (long long)f->end.messages, f->end.addr[socket]);
}

static tp_status tp__zmq_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__zmq_flow *f = (tp__zmq_flow *)df->user;
    char message_name[400];
    tp_status st = f->end.context ? TP_OK : tp__zmq_open(&f->end, ZMQ_PULL);
    if (st != TP_OK) return st;
    if (!f->unpack_again) {
        zmq_msg_init(&f->message);
        do {
            st = tp__zmq_wait(f, &f->message_socket);
            if (st != TP_OK) break;
            st = tp__zmq_receive(f, f->message_socket, &f->message);
        } while (st == TP_STOP);
        f->next_socket = f->message_socket + 1;
    }
    if (st == TP_OK) {
        snprintf(message_name, sizeof message_name, "%s: message %lld from %.300s", f->end.caller,
                 (long long)f->end.messages, f->end.addr[f->message_socket]);
        st = tp_datapoint_unpack(dp, zmq_msg_data(&f->message), zmq_msg_size(&f->message), message_name);
        f->unpack_again = st == TP_ERR_NOMEM; /* keep the message, so that it is not lost */
        if (st == TP_OK && f->like)
            st = tp__feeder_check(f->like, f->end.addr[f->message_socket], dp, f->end.messages - 1);
        if (st == TP_OK) (void)TP__WIDE_ADD(&f->received[f->message_socket], 1);
    }
    if (!f->unpack_again) zmq_msg_close(&f->message);
    return st;
}

static tp_status tp__zmq_restart(tp_dataflow *df, int64_t pass)
{
    (void)df, (void)pass; /* a restart continues with the next message */
    return TP_OK;
}

static tp_status tp__zmq_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    tp__zmq_flow *f = (tp__zmq_flow *)df->user;
    if (!f->has_logged)
        tp_log(
            TP_LOG_WARN,
            "%s: the stream at %s has no position: the flow continues with the next datapoint, not with datapoint %lld",
            f->end.caller, f->end.addr[0], (long long)n);
    f->has_logged = true;
    *skipped = n;
    return TP_OK;
}

static void tp__zmq_flow_close(tp_dataflow *df)
{
    tp__zmq_flow *f = (tp__zmq_flow *)df->user;
    if (f->unpack_again) zmq_msg_close(&f->message);
    tp__zmq_close(&f->end, 0);
    for (int i = 0; i < 2; i++) tp_free(f->end.addr[i]);
    tp_arena_free(&f->own.mem_);
}

static tp_dataflow *tp__zmq_flow_new(const tp_at *at, const char *caller, const char *addr1, const char *addr2, int hwm,
                                     bool bind, int64_t timeout_ms)
{
    const char *mistake = tp__zmq_mistake(addr1, hwm);
    if (!mistake && addr2) mistake = tp__zmq_mistake(addr2, hwm);
    if (!mistake && timeout_ms < 0) mistake = ".timeout_ms is negative";
    if (mistake) return tp_df_fail(at, TP_ERR_ARG, "%s: %s", caller, mistake);
    tp_dataflow *df = tp_df_new("tp_df_remote_zmq", sizeof(tp__zmq_flow), 0);
    if (!df) return NULL;
    tp__zmq_flow *f = (tp__zmq_flow *)df->user;
    df->next = tp__zmq_next;
    df->restart = tp__zmq_restart;
    df->seek = tp__zmq_seek;
    df->close = tp__zmq_flow_close;
    df->endless_ = true;
    f->end.caller = caller;
    f->end.n = addr2 ? 2 : 1;
    f->end.hwm = hwm;
    f->end.bind = bind;
    f->timeout_ms = timeout_ms;
    f->end.addr[0] = tp_strdup(addr1);
    if (addr2) f->end.addr[1] = tp_strdup(addr2);
    if (f->end.addr[0] && (!addr2 || f->end.addr[1])) return df;
    tp__df_delete(df);
    return NULL;
}

TP_DEF tp_dataflow *tp_df_remote_zmq_(const tp_df_remote_zmq_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    return tp__zmq_flow_new(&d->at_, "tp_df_remote_zmq", d->addr1, d->addr2, d->hwm ? d->hwm : 50,
                            tp__tri_is_yes(d->bind, true), d->timeout_ms);
}

TP_DEF int64_t tp_df_remote_zmq_received(const tp_dataflow *df, int address)
{
    TP__REQUIRE(df, 0)
    if (df->next != tp__zmq_next || address < 1 || address > 2) return 0;
    return TP__WIDE_LOAD(&((const tp__zmq_flow *)df->user)->received[address - 1]);
}

/* -- ZMQInput */

static tp__zmq_flow *tp__zmq_of(const tp_input_source *s)
{
    const tp_dataflow *df = ((const tp__feeder *)s->user)->endless.df;
    return df->next == tp__zmq_next ? (tp__zmq_flow *)df->user : NULL; /* NULL if the flow is a poison flow */
}

static tp_status tp__zmq_before(tp_hook *h, tp_run_request *r)
{
    tp_input_source *s = (tp_input_source *)h->user;
    tp__feeder *f = (tp__feeder *)s->user;
    tp__zmq_flow *z = tp__zmq_of(s);
    tp_status st = f->running ? TP_OK : tp__feeder_reserve(s, f->n_tower);
    if (st != TP_OK) return st;
    f->running = true;
    z->run = r;
    st = tp__feeder_before(h, r);
    z->run = NULL;
    return st;
}

static tp_status tp__zmq_hooks(tp_input_source *s, tp_hook *const **hook, int *n)
{
    const tp_status st = tp__feeder_hooks(s, hook, n);
    ((tp__feeder *)s->user)->hook.before_run = tp__zmq_before;
    return st;
}

static tp_status tp__zmq_setup(tp_input_source *s)
{
    tp__feeder *f = (tp__feeder *)s->user;
    tp__zmq_flow *z = tp__zmq_of(s);
    tp_status st = tp_df_status(f->endless.df);
    if (st == TP_OK) st = tp__feeder_scope(s);
    if (st != TP_OK) return st;
    z->like = s;
    return z->end.context ? TP_OK : tp__zmq_open(&z->end, ZMQ_PULL);
}

TP_DEF tp_input_source *tp_zmq_input_(const tp_zmq_input_desc *d)
{
    TP__REQUIRE(d, NULL)
    tp_dataflow *df = tp__zmq_flow_new(&d->at_, "ZMQInput", d->end_point, NULL, d->hwm ? d->hwm : 10,
                                       tp__tri_is_yes(d->bind, true), 0);
    tp_input_source *s = tp__feeder_new("ZMQInput", &d->at_, df, TP_YES, 1, false, NULL);
    if (!s) return NULL;
    s->feedfree = true;
    s->setup = tp__zmq_setup;
    s->get_input_tensors = tp__queue_tensors;
    s->hooks = tp__zmq_hooks;
    s->reset_state = NULL; /* reset_state has no effect on this source */
    s->seek = NULL;
    s->size = NULL;
    return s;
}

TP_DEF tp_dataflow *tp_zmq_input_to_dataset(const tp_input_source *s, const tp_spec *specs, int n)
{
    if (!s || s->setup != tp__zmq_setup)
        return tp_df_fail(NULL, TP_ERR_ARG, "tp_zmq_input_to_dataset: %s is no ZMQInput", s ? s->name : "NULL");
    if (!specs || n < 1) return tp_df_fail(NULL, TP_ERR_ARG, "tp_zmq_input_to_dataset: it needs a signature");
    const tp__zmq_flow *z = tp__zmq_of(s);
    const tp_status wrong = tp_df_status(((const tp__feeder *)s->user)->endless.df);
    if (wrong != TP_OK) return tp__df_failed(NULL, wrong);
    if (z->end.context)
        return tp_df_fail(NULL, TP_ERR_STATE,
                          "tp_zmq_input_to_dataset: %s is set up and receives the data of %s itself", s->name,
                          z->end.addr[0]);
    tp_dataflow *df = tp__zmq_flow_new(NULL, "ZMQInput", z->end.addr[0], NULL, z->end.hwm, z->end.bind, 0);
    if (!df) return NULL;
    tp__zmq_flow *f = (tp__zmq_flow *)df->user;
    tp_spec *copy = (tp_spec *)tp_arena_alloc(&f->own.mem_, (size_t)n * sizeof *copy);
    for (int i = 0; i < n && copy; i++) {
        copy[i] = specs[i];
        if (copy[i].dtype == TP_DTYPE_UNSET) copy[i].dtype = TP_F32;
        copy[i].name = tp_arena_strdup(&f->own.mem_, specs[i].name ? specs[i].name : "");
        if (!copy[i].name) copy = NULL;
    }
    if (!copy) {
        tp__df_delete(df);
        return NULL;
    }
    f->own.name = "ZMQInput";
    f->own.spec = copy;
    f->own.n_spec = n;
    f->like = &f->own;
    return df;
}

/* -- sending */

static bool tp__zmq_is_cancelled(const int *stop)
{
    return (stop && __atomic_load_n(stop, __ATOMIC_ACQUIRE) != 0) || tp_df_stopping();
}

static tp_status tp__zmq_send(tp__zmq_end *z, const tp_datapoint *dp, const int *stop)
{
    size_t size = 0;
    zmq_msg_t m;
    tp_status st = tp__wire_size(dp, &size);
    if (st != TP_OK) return st;
    if (zmq_msg_init_size(&m, size) != 0)
        return tp_fail(TP_ERR_NOMEM, "%s: out of memory for a message of %zu bytes", z->caller, size);
    tp__wire_write(dp, zmq_msg_data(&m));
    while (st == TP_OK) {
        if (zmq_msg_send(&m, z->socket[0], ZMQ_DONTWAIT) >= 0) return z->messages++, TP_OK; /* ZeroMQ owns it now */
        zmq_pollitem_t item;
        memset(&item, 0, sizeof item);
        item.socket = z->socket[0];
        item.events = ZMQ_POLLOUT;
        if (tp__zmq_is_cancelled(stop)) st = TP_STOP;
        else if (zmq_errno() == EAGAIN) {
            /* a socket takes hwm messages before a receiver has come, and more of them when it takes the first ones */
            if (z->messages <= z->hwm) tp__zmq_say_silent(z, "no receiver has taken a message yet from");
            (void)zmq_poll(&item, 1, (long)(1e3 * TP__WAIT_SLICE));
        } else if (zmq_errno() != EINTR) st = tp__zmq_fail(z, 0, "send to");
    }
    zmq_msg_close(&m);
    return st;
}

TP_DEF tp_status tp_df_send_zmq_(const tp_df_send_zmq_desc *d)
{
    TP__REQUIRE(d && d->df, TP_ERR_ARG)

    const char *mistake = tp__zmq_mistake(d->addr, d->hwm);
    if (!mistake && d->n < 0) mistake = "a negative number of datapoints";
    if (!mistake && (d->linger_ms < TP_NONE || d->linger_ms > INT_MAX)) mistake = ".linger_ms is out of range";
    if (mistake) return tp_fail(TP_ERR_ARG, "tp_df_send_zmq: %s", mistake);
    tp_status st = tp_df_status(d->df);
    if (st != TP_OK) return st;
    tp__zmq_end z;
    memset(&z, 0, sizeof z);
    z.caller = "tp_df_send_zmq";
    z.n = 1;
    z.hwm = d->hwm ? d->hwm : 50;
    z.bind = tp__tri_is_yes(d->bind, false);
    z.addr[0] = tp_strdup(d->addr);
    if (!z.addr[0]) return TP_ERR_NOMEM;
    tp__endless e = {d->df, 0, 0, false, false};
    tp_datapoint dp = {0, NULL, 0};
    st = tp__zmq_open(&z, ZMQ_PUSH);
    if (st == TP_OK) tp_log(TP_LOG_INFO, "Serving data to %s with zmq_ops format ...", d->addr);
    if (st == TP_OK) st = tp__endless_start(&e, 0, 0);
    for (int64_t i = 0; st == TP_OK && (d->n == 0 || i < d->n); i++) {
        st = tp__zmq_is_cancelled(d->stop) ? TP_STOP : tp__endless_next(&e, &dp);
        if (st == TP_OK) st = tp__zmq_send(&z, &dp, d->stop);
    }
    const int linger_ms = st == TP_STOP ? 0 : (int)tp__int_option(d->linger_ms, 10000);
    const double began = tp_time();
    tp__zmq_close(&z, linger_ms);
    if (st == TP_OK && linger_ms > 0 && tp_time() - began >= 0.001 * linger_ms)
        st = tp_fail(
            TP_ERR_TIMEOUT,
            "tp_df_send_zmq: no receiver took the last datapoints from %s within %d ms (.linger_ms), so they may be "
            "lost: is the address right?",
            d->addr, linger_ms);
    tp_free(z.addr[0]);
    tp_datapoint_free(&dp);
    return st;
}

#endif

TP__COLD_END
TP__EXACT_END
#undef TP__PLACED
#define TP__PLACED TP__PLACE
#endif
