/* tp_input.h - v0.1 - data flows (datasets, batching, mapping, shuffling) and input sources that feed a graph
 *
 * Do this:
 *     #define TP_IMPLEMENTATION        // in ONE .c file, before any other include
 *     #include "tp_input.h"            // pulls in tp_graph.h and tp_tensor.h
 *
 * WHAT THIS IS       a tp_dataflow yields datapoints, a few tensors each; flows are stacked on each other. A
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
 *     A flow is walked in passes. restart(pass) goes to the start of pass number `pass`; next() fills a
 *     datapoint or says TP_END. Everything random is a function of (seed, pass, index), so pass 7 is the same
 *     data whether passes 0 to 6 were walked or not, and seek(n) leaves a flow as if n datapoints had been
 *     taken. That is what makes a resumed training continue with the very datapoint at which it was killed:
 *     an input source counts how many datapoints the training steps have consumed (not what was read ahead),
 *     the checkpoint stores that number, and tp_input_seek returns to it.
 *     Memory is recycled. next() writes into the datapoint's own buffers, or points it at memory of the flow
 *     (a view, valid until the next call on that flow), so that after the first few datapoints nothing is
 *     allocated.
 *
 * OWNERSHIP  a flow owns the flows it was made from, a source owns its flow: free the outermost only. That
 *            holds on failure too.
 * THREADS    a flow belongs to one thread at a time; QueueInput hands its flow to its thread from
 *            tp_input_reset_state until tp_input_free. Functions given to tp_df_map and tp_df_from_generator
 *            run on that thread.
 * ERRORS     constructors check their arguments. After a mistake they return a poison flow, which keeps the
 *            sentence, is passed on by the constructors around it and fails at the first use; NULL only
 *            without memory (and for a NULL child). tp_df_status asks.
 * NOTATION   B batch, H W height and width, n components of a datapoint.
 */
#ifndef TP_INPUT_H
#define TP_INPUT_H

#include "tp_graph.h"
#if TP_VERSION_MAJOR != 0 || TP_VERSION_MINOR != 1
#error "tp_input.h 0.1 needs tp_graph.h 0.1: copy all tp headers from the same version"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ==== >>datapoint ===================================================================================== */

/* A few tensors that belong together: an image and its label, or a batch of them. Zero-initialise. Components
 * keep their buffers when n changes, so a datapoint is best reused. */
typedef struct tp_datapoint {
    int n;
    tp_tensor *c;
    int cap_;
} tp_datapoint;
TP_DEF tp_status tp_datapoint_resize(tp_datapoint *dp, int n);
TP_DEF tp_status tp_datapoint_view(tp_datapoint *dp, const tp_datapoint *of); /* all components as views */
TP_DEF tp_status tp_datapoint_copy(tp_datapoint *dp, const tp_datapoint *of); /* all components owned */
TP_DEF void tp_datapoint_free(tp_datapoint *dp);
/* Bytes and text are components too: uint8 (N), N bytes. These make component `index` (the datapoint grows to have it) such a
 * one, with a copy of the data. A text counts its letters, not the NUL behind them. */
TP_DEF tp_status tp_datapoint_set_bytes(tp_datapoint *dp, int index, const void *data, size_t n);
TP_DEF tp_status tp_datapoint_set_text(tp_datapoint *dp, int index, const char *text);
/* A component of bytes as a text with a NUL behind it, which is not counted; a view becomes a copy, to have room for the NUL.
 * It lives as long as the component stays as it is. NULL and a sentence: no such component, it is not uint8 (N), no memory. */
TP_DEF const char *tp_datapoint_text(tp_datapoint *dp, int index);

/* ==== >>dataflow ====================================================================================== */

/* The protocol. To write your own flow, make one with tp_df_new, give it `next` and whatever else it has.
 * Call flows through the functions below, which see to order (restart first, TP_END until the next restart)
 * and to what a flow leaves out. The sentence of a failure ends with the flow and the datapoint that it would have given,
 * [tp_df_map: pass 2, datapoint 17], counted from 0. [dataflow: DataFlow] */
typedef struct tp_dataflow tp_dataflow;
struct tp_dataflow {
    const char *name; /* for sentences: "tp_df_batch" */
    /* Fill dp: TP_OK, TP_END at the end of the pass, or an error. In the long run it allocates nothing. */
    tp_status (*next)(tp_dataflow *df, tp_datapoint *dp);
    tp_status (*restart)(tp_dataflow *df, int64_t pass); /* to the start of pass 0, 1, ...; NULL: one only */
    int64_t (*size)(tp_dataflow *df);                    /* datapoints of a pass, advisory; NULL or -1: unknown */
    /* Skip n datapoints of this pass; *skipped is less than n where the pass ended. NULL: by calling next. */
    tp_status (*seek)(tp_dataflow *df, int64_t n, int64_t *skipped);
    void (*close)(tp_dataflow *df); /* release what user holds; tp_df_free frees the struct itself */
    void *user;
    uint64_t seed;
    tp_owner owner_;
    int state_;            /* from here on: the wrappers' own */
    int64_t pass_, index_; /* the pass, and how many of its datapoints were given or skipped */
    tp_datapoint skip_;
};

TP_DEF tp_status tp_df_next(tp_dataflow *df, tp_datapoint *dp); /* starts with pass 0 by itself */
TP_DEF tp_status tp_df_restart(tp_dataflow *df, int64_t pass);
TP_DEF int64_t tp_df_size(tp_dataflow *df);                                /* -1: unknown */
TP_DEF tp_status tp_df_seek(tp_dataflow *df, int64_t n, int64_t *skipped); /* skipped may be NULL */
TP_DEF void tp_df_free(tp_dataflow *df);                                   /* and all it owns; NULL is fine */
TP_DEF tp_status tp_df_status(const tp_dataflow *df); /* what made it a poison flow, with its sentence */
/* A poison flow with this sentence, for constructors of your own. at may be NULL. */
TP_DEF tp_dataflow *tp_df_fail(const tp_at *at, tp_status status, const char *fmt, ...) TP_PRINTF(3, 4);
/* A flow with `bytes` of zeroed memory as its user, freed with it. NULL: out of memory. */
TP_DEF tp_dataflow *tp_df_new(const char *name, size_t bytes, uint64_t seed);

/* Measure: walk n datapoints (endlessly repeated) after `warmup` others, log and return datapoints a second.
 * [dataflow: TestDataSpeed] */
TP_DEF tp_status tp_df_test_speed(tp_dataflow *df, int64_t n, int64_t warmup, double *per_second); /* may be NULL */

/* ==== >>sources of data =============================================================================== */
/* Constructors take keyword arguments, tp_df_batch(df, 32, .remainder = true): what has no name comes first and in the order of the
 * fields. See OPTIONS in tp_tensor.h. A seed that is not given is 42. */

/* The datapoints of an array, copied. [dataflow: DataFromList] */
typedef struct tp_df_from_list_desc {
    tp_at at_;
    const tp_datapoint *points;
    int64_t n;
    tp_tri shuffle; /* another order each pass; default TP_YES */
    uint64_t seed;
} tp_df_from_list_desc;
TP_DEF tp_dataflow *tp_df_from_list_(const tp_df_from_list_desc *d);

/* The rows of n arrays along their first axis, which must be of one length: component j of datapoint i is row
 * i of arrays[j]. The arrays are copied. */
typedef struct tp_df_from_arrays_desc {
    tp_at at_;
    const tp_tensor *arrays;
    int n;
    tp_tri shuffle; /* default TP_YES */
    uint64_t seed;
} tp_df_from_arrays_desc;
TP_DEF tp_dataflow *tp_df_from_arrays_(const tp_df_from_arrays_desc *d);

/* What a function of yours yields: fill dp and return TP_OK, or TP_END, or an error (set its sentence with
 * tp_fail). [dataflow: DataFromGenerator] */
typedef tp_status (*tp_generator_fn)(void *user, int64_t pass, int64_t index, tp_datapoint *dp);
typedef struct tp_df_from_generator_desc {
    tp_at at_;
    tp_generator_fn fn;
    void *user;
    int64_t size;                /* 0: unknown */
    int indexed;                 /* TP_YES: fn looks at (pass, index) alone: seeking skips it; needs .size */
    void (*release)(void *user); /* called once, when the flow is freed */
} tp_df_from_generator_desc;
TP_DEF tp_dataflow *tp_df_from_generator_(const tp_df_from_generator_desc *d);

/* Random numbers of given types, uniform in [low, high) and then cast. [dataflow: FakeData] */
typedef struct tp_df_fake_desc {
    tp_at at_;
    const tp_spec *specs; /* names may be NULL; shapes must be known */
    int n;
    int64_t size;    /* 0 = 1000; TP_NONE: no datapoint */
    tp_tri random;   /* TP_NO: one datapoint per pass, repeated; default TP_YES */
    float low, high; /* both 0: [0,1); TP_ZERO for 0 */
    uint64_t seed;
} tp_df_fake_desc;
TP_DEF tp_dataflow *tp_df_fake_(const tp_df_fake_desc *d);

/* MNIST and what has its form (Fashion-MNIST): image float32 (H,W) in [0,1] (byte/255), label int32 scalar
 * (in tensorpack uint8). Files train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-...; each with or
 * without .gz. Images stay bytes in memory. The default place is $TP_DATA/mnist, or else
 * $TENSORPACK_DATASET/mnist_data, or else ~/tensorpack_data/mnist_data. [dataflow: Mnist, FashionMnist] */
typedef struct tp_df_mnist_desc {
    tp_at at_;
    const char *which; /* "train" or "test" */
    const char *dir;   /* NULL: the default place, see above */
    tp_tri shuffle;    /* default TP_YES */
    uint64_t seed;
} tp_df_mnist_desc;
TP_DEF tp_dataflow *tp_df_mnist_(const tp_df_mnist_desc *d);

/* Generated handwriting in MNIST's form, for programs that must run without files: image float32 (28,28) in
 * [0,1], label int32. Strokes of ten digits in several styles, bent, slanted, turned, scaled, shifted, thick
 * or thin. Image i is a function of (seed, which, i) alone, the same bits on every machine. */
typedef struct tp_df_digits_desc {
    tp_at at_;
    const char *which; /* "train" or "test": different digits */
    int64_t size;      /* 0 = 12000 for train, 2000 for test; TP_NONE: no datapoint */
    tp_tri shuffle;    /* default TP_YES */
    uint64_t seed;
} tp_df_digits_desc;
TP_DEF tp_dataflow *tp_df_digits_(const tp_df_digits_desc *d);

/* The rows of IDX files of equal length, in the files' own dtypes (int8 and int16 become int32). */
typedef struct tp_df_idx_desc {
    tp_at at_;
    const char *const *paths;
    int n;
    tp_tri shuffle; /* default TP_YES */
    uint64_t seed;
} tp_df_idx_desc;
TP_DEF tp_dataflow *tp_df_idx_(const tp_df_idx_desc *d);

/* ==== >>transformations =============================================================================== */

/* batch_size datapoints stacked along a new first axis. Without remainder an incomplete last batch is
 * dropped. bool stays bool (tensorpack makes it int32). [dataflow: BatchData] */
typedef struct tp_df_batch_desc {
    tp_at at_;
    tp_dataflow *df;
    int64_t batch_size;
    tp_tri remainder; /* default TP_NO */
} tp_df_batch_desc;
TP_DEF tp_dataflow *tp_df_batch_(const tp_df_batch_desc *d);

/* What a mapping function gets beside its datapoint. */
typedef struct tp_map_call {
    void *user;
    uint64_t key;        /* for augmentation: tp_random_uniform(key, index, i); a function of (seed, pass) */
    int64_t pass, index; /* which datapoint of the flow below this is */
    bool drop;           /* set it to leave this datapoint out */
} tp_map_call;
/* out begins as a view of in. To change component i, tp_tensor_resize(&out->c[i], ...) and fill it from
 * in->c[i]; never write into in. */
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
TP_DEF tp_dataflow *tp_df_map_(const tp_df_map_desc *d); /* [dataflow: MapData] */

/* The same for one component: resize out and fill it from in, or leave it as the view of in that it is. */
typedef tp_status (*tp_map_component_fn)(const tp_tensor *in, tp_tensor *out, tp_map_call *call);
typedef struct tp_df_map_component_desc {
    tp_at at_;
    tp_dataflow *df;
    tp_map_component_fn fn;
    int index;
    void *user;
    tp_tri keeps_all; /* default TP_NO */
    uint64_t seed;
    void (*release)(void *user);
} tp_df_map_component_desc;
/* [dataflow: MapDataComponent] */
TP_DEF tp_dataflow *tp_df_map_component_(const tp_df_map_component_desc *d);

/* One component in another dtype, multiplied by scale (0: not). tp_df_cast(df, 0, TP_F32, 1 / 255.0) */
TP_DEF tp_dataflow *tp_df_cast(tp_dataflow *df, int index, tp_dtype dtype, double scale);
/* Whole passes, num times; -1: for ever. Pass p is the passes p*num to p*num+num-1 below. [dataflow:
 * RepeatedData] */
TP_DEF tp_dataflow *tp_df_repeated(tp_dataflow *df, int64_t num);
/* The first n datapoints of each pass; all of them where there are fewer. */
TP_DEF tp_dataflow *tp_df_take(tp_dataflow *df, int64_t n);
/* Exactly `size` datapoints a pass, restarting df as needed. keep_state: the next pass goes on where this one
 * ended. [dataflow: FixedSizeData] */
typedef struct tp_df_fixed_size_desc {
    tp_at at_;
    tp_dataflow *df;
    int64_t size;
    tp_tri keep_state; /* default TP_YES */
} tp_df_fixed_size_desc;
TP_DEF tp_dataflow *tp_df_fixed_size_(const tp_df_fixed_size_desc *d);
/* Shuffles within a buffer; endless. Every shuffle_interval inputs the buffer is shuffled; each input goes in
 * num_reuse times; once full, the front leaves for each that comes. Shuffle k is a function of (seed, k).
 * [dataflow: LocallyShuffleData] */
typedef struct tp_df_locally_shuffle_desc {
    tp_at at_;
    tp_dataflow *df;
    int buffer_size;
    int num_reuse;        /* 0 = 1 */
    int shuffle_interval; /* 0 = buffer_size/3, at least 1 */
    uint64_t seed;
} tp_df_locally_shuffle_desc;
TP_DEF tp_dataflow *tp_df_locally_shuffle_(const tp_df_locally_shuffle_desc *d);
/* Pick, reorder, repeat components. [dataflow: SelectComponent] */
TP_DEF tp_dataflow *tp_df_select(tp_dataflow *df, const int *indices, int n);
/* One after the other. [dataflow: ConcatData] */
TP_DEF tp_dataflow *tp_df_concat(tp_dataflow *const *dfs, int n);
/* A datapoint of each, components side by side; ends with the shortest. [dataflow: JoinData, ZipData] */
TP_DEF tp_dataflow *tp_df_join(tp_dataflow *const *dfs, int n);
TP_DEF tp_dataflow *tp_df_zip(tp_dataflow *const *dfs, int n); /* the same by its other name */
/* Logs dtype, shape and range of the first num datapoints. name may be NULL. [dataflow: PrintData] */
TP_DEF tp_dataflow *tp_df_print(tp_dataflow *df, int num, const char *name);

/* The datapoints for which keep says true. Without keep: those that have components, so that a flow of your own can say by a
 * datapoint of none that there is nothing. The size is that of df, as if none were dropped. [dataflow: FilterNULL] */
typedef bool (*tp_filter_fn)(const tp_datapoint *dp, const tp_map_call *call);
typedef struct tp_df_filter_desc {
    tp_at at_;
    tp_dataflow *df;
    tp_filter_fn keep;
    void *user;
    uint64_t seed; /* of call->key */
    void (*release)(void *user);
} tp_df_filter_desc;
TP_DEF tp_dataflow *tp_df_filter_(const tp_df_filter_desc *d);
/* Each datapoint num times, one after the other. [dataflow: RepeatedDataPoint] */
TP_DEF tp_dataflow *tp_df_repeated_point(tp_dataflow *df, int64_t num);
/* A flow is chosen for each datapoint; the pass ends when a flow is chosen that is at its end. Choice i of pass p is a function
 * of (seed, p, i). The size is not known. [dataflow: RandomChooseData] */
typedef struct tp_df_random_choose_desc {
    tp_at at_;
    tp_dataflow *const *dfs;
    int n;
    const double *probabilities; /* one for each flow; their sum must be 1 (to 1e-6). NULL: all alike */
    uint64_t seed;
} tp_df_random_choose_desc;
TP_DEF tp_dataflow *tp_df_random_choose_(const tp_df_random_choose_desc *d);
/* All datapoints of all flows, mixed at random; those of one flow stay in order. Every mixture is as likely as any other. The
 * flows must know their sizes: one that ends earlier gives less, what one has beyond its size is left out. The mixture of pass p is
 * a function of (seed, p). [dataflow: RandomMixData] */
typedef struct tp_df_random_mix_desc {
    tp_at at_;
    tp_dataflow *const *dfs;
    int n;
    uint64_t seed;
} tp_df_random_mix_desc;
TP_DEF tp_dataflow *tp_df_random_mix_(const tp_df_random_mix_desc *d);
/* Keeps pass 0 of df in memory and gives it in every pass. It is read as it is asked for, whole before pass 1 begins. shuffle:
 * pass 0 in the order in which it came, pass p in an order that is a function of (seed, p). [dataflow: CacheData] */
typedef struct tp_df_cache_desc {
    tp_at at_;
    tp_dataflow *df;
    tp_tri shuffle; /* default TP_NO */
    uint64_t seed;
} tp_df_cache_desc;
TP_DEF tp_dataflow *tp_df_cache_(const tp_df_cache_desc *d);
/* Batches of datapoints whose component idx has one shape: datapoints of each shape are collected, and a batch comes out as soon
 * as batch_size of one shape are there. The other components must be alike within a batch. [dataflow: BatchDataByShape]
 * With keep_state, as in tensorpack, what is left over at the end of a pass goes into the batches of the next one. Then pass p is
 * what comes after passes 0 to p-1: going there directly reads those first, which makes a resumed program get the same
 * batches. Without it each pass begins with nothing and its rest is dropped. Seeking reads the datapoints. */
typedef struct tp_df_batch_by_shape_desc {
    tp_at at_;
    tp_dataflow *df;
    int64_t batch_size;
    int idx;           /* which component decides */
    tp_tri keep_state; /* default TP_YES */
} tp_df_batch_by_shape_desc;
TP_DEF tp_dataflow *tp_df_batch_by_shape_(const tp_df_batch_by_shape_desc *d);

TP_DEF const tp__zero_option *tp__input_zeros(void);
/* clang-format off */
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
#define tp_df_locally_shuffle(df_, ...) TP__CALL1(input, tp_df_locally_shuffle, df, df_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_filter(df_, ...) TP__CALL1(input, tp_df_filter, df, df_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_random_choose(dfs_, n_, ...) TP__CALL2(input, tp_df_random_choose, dfs, dfs_, n, n_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_random_mix(dfs_, n_, ...) TP__CALL2(input, tp_df_random_mix, dfs, dfs_, n, n_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_cache(df_, ...) TP__CALL1(input, tp_df_cache, df, df_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define tp_df_batch_by_shape(df_, batch_size_, ...) TP__CALL2(input, tp_df_batch_by_shape, df, df_, batch_size, batch_size_, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#endif
/* clang-format on */

/* ==== >>parallel ======================================================================================= */

/* ==== >>readers ======================================================================================== */
/* Datasets and file formats. What is read is not trusted: a file that is damaged, cut short or of another kind gives a
 * sentence with its name and the place in it (line and column, record and byte). */

#define TP_MAX_COMPONENTS 16 /* components of a datapoint that a reader takes by name */

/* CIFAR-10 in its binary version: image uint8 (32,32,3) RGB, label int32 scalar. Files data_batch_1.bin to data_batch_5.bin, or
 * test_batch.bin; each with or without .gz. They lie in .dir, or in its folder cifar-10-batches-bin, which the archive makes.
 * The default .dir is $TP_DATA/cifar10, or else $TENSORPACK_DATASET/cifar10_data, or else ~/tensorpack_data/cifar10_data. A
 * file may have fewer images than the original. [dataflow: Cifar10] */
typedef struct tp_df_cifar10_desc {
    tp_at at_;
    const char *which; /* "train" or "test" */
    const char *dir;   /* NULL: the default place, see above */
    tp_tri shuffle;    /* default TP_YES for "train", TP_NO for "test" */
    uint64_t seed;
} tp_df_cifar10_desc;
TP_DEF tp_dataflow *tp_df_cifar10_(const tp_df_cifar10_desc *d);

/* CIFAR-100: the same with train.bin, test.bin, cifar-100-binary and cifar100. [dataflow: Cifar100] */
typedef struct tp_df_cifar100_desc {
    tp_at at_;
    const char *which; /* "train" or "test" */
    const char *dir;   /* NULL: the default place */
    tp_tri coarse;     /* TP_YES: the label is one of the 20 coarse ones, TP_NO: of the 100 fine ones; default TP_NO */
    tp_tri shuffle;    /* default TP_YES for "train", TP_NO for "test" */
    uint64_t seed;
} tp_df_cifar100_desc;
TP_DEF tp_dataflow *tp_df_cifar100_(const tp_df_cifar100_desc *d);

/* The mean of component `index` over pass 0 of any flow whose datapoints have one shape, as float32: of each element, in the
 * component's shape (per pixel), or of each entry of its last axis (per channel). Sums are made in double. The flow stays yours
 * and is left at the start of pass 0. [Cifar10.get_per_pixel_mean, get_per_channel_mean] */
TP_DEF tp_status tp_df_per_pixel_mean(tp_dataflow *df, int index, tp_tensor *mean);
TP_DEF tp_status tp_df_per_channel_mean(tp_dataflow *df, int index, tp_tensor *mean);

/* The rows of arrays of an .npz file, which must be of one length: component j of datapoint i is row i of the array called
 * names[j]. tp_df_npz("svhn.npz", .names = {"X", "y"}) */
typedef struct tp_df_npz_desc {
    tp_at at_;
    const char *path;
    const char *names[TP_MAX_COMPONENTS + 1]; /* none: all arrays, in the order of the file */
    tp_tri shuffle;                           /* default TP_YES */
    uint64_t seed;
} tp_df_npz_desc;
TP_DEF tp_dataflow *tp_df_npz_(const tp_df_npz_desc *d);

/* -- TFRecord: a row of byte strings, each with the checksums of its length and of its bytes. */

/* One more record at the end of `out` (an error sticks to it as .failed), or of a file that tp_writer_open has begun. */
TP_DEF void tp_tfrecord_append(tp_buf *out, const void *data, size_t size);
TP_DEF tp_status tp_tfrecord_put(tp_writer *w, const void *data, size_t size);
/* Reads one record after the other. Errors name the file, the number of the record (from 0) and the byte where it begins. */
typedef struct tp_tfrecord_reader tp_tfrecord_reader;
TP_DEF tp_status tp_tfrecord_open(tp_tfrecord_reader **r, const char *path);
/* TP_OK, TP_END after the last one, or an error. *data is valid until the next call. */
TP_DEF tp_status tp_tfrecord_next(tp_tfrecord_reader *r, const void **data, size_t *size);
TP_DEF void tp_tfrecord_close(tp_tfrecord_reader *r); /* NULL is fine */

/* tf.train.Example. Writing: component i is the feature names[i]; float32 and other floats become a float list, int32, int64 and
 * bool an int64 list, uint8 a bytes list with one value. The message is put at the end of `out`. */
TP_DEF tp_status tp_example_write(const tp_datapoint *dp, const char *const *names, tp_buf *out);
/* Parsing: component i is the feature features[i].name in that dtype and shape. A dimension of TP_ANY (one a shape) is given by
 * the number of values; a feature that is missing has none, an error unless its shape allows it. An int64 list can be read as any
 * dtype that holds its values, a float list as any float. A bytes list must have one value: uint8 is its bytes, another dtype
 * its bytes as little-endian elements. what: a name for sentences. */
TP_DEF tp_status tp_example_parse(const void *data, size_t size, const char *what, const tp_spec *features, int n,
                                  tp_datapoint *dp);

/* The records of TFRecord files, one file after the other. The constructor passes over the files once, to find where records
 * begin, so that the size is known and seeking and shuffling cost nothing. [dataflow: TFRecordSerializer.load] */
typedef struct tp_df_tfrecord_desc {
    tp_at at_;
    const char *const *paths;
    int n;
    const tp_spec *features; /* of a tf.train.Example, see tp_example_parse; NULL: the record itself, uint8 (bytes) */
    int n_features;
    tp_tri shuffle; /* the records of all files together; default TP_NO */
    uint64_t seed;
} tp_df_tfrecord_desc;
TP_DEF tp_dataflow *tp_df_tfrecord_(const tp_df_tfrecord_desc *d);
/* Pass 0 of a flow as a TFRecord file of tf.train.Example messages, component i the feature names[i]; n is the number of
 * components, 0: of each datapoint the bytes of its one component are the record. The flow stays yours. [dataflow:
 * TFRecordSerializer.save] */
TP_DEF tp_status tp_df_save_tfrecord(tp_dataflow *df, const char *path, const char *const *names, int n);

/* -- CSV: fields between separators, in quotes where they hold separators, quotes (doubled) or line ends; lines that end with LF
 *    or CRLF. Numbers are read alike under every locale. Empty lines are passed over. */

typedef struct tp_csv_column {
    const char *name; /* in the first line; NULL: by number */
    int index;        /* the number, from 0 */
    int count;        /* 0: a scalar; else this column and those after it, a vector (count) */
    tp_dtype dtype;   /* TP_F32 (unset), TP_F64, TP_I32, TP_I64; TP_U8: text, its bytes (length) */
} tp_csv_column;
/* The lines of a CSV file (.gz too), held in memory: component j is what columns[j] says. Errors name the line and the column. */
typedef struct tp_df_csv_desc {
    tp_at at_;
    const char *path;
    const tp_csv_column *columns;
    int n;
    tp_tri header;  /* the first line has the names of the columns; default TP_YES */
    char separator; /* 0 = ',' */
    tp_tri shuffle; /* default TP_YES */
    uint64_t seed;
} tp_df_csv_desc;
TP_DEF tp_dataflow *tp_df_csv_(const tp_df_csv_desc *d);

/* -- text */

/* The different words or characters of a text, numbered by frequency. Zero-initialise. */
typedef struct tp_vocabulary {
    int n;
    const char **word; /* word[id], UTF-8 */
    int64_t *count;    /* how often it is in the text */
    int unk;           /* id of "<unk>", which stands for what is in no other; -1: there is none */
    tp_arena mem_;
    int32_t *slot_;
    size_t n_slot_;
} tp_vocabulary;
/* The characters of a UTF-8 text (a byte that is no UTF-8 is one of its own); among equals, the one that comes first in the text
 * has the lower id, as in tensorpack's char-rnn. */
TP_DEF tp_status tp_vocabulary_chars(tp_vocabulary *v, const char *path);
/* The words between blanks, as for the Penn Treebank: a line end is the word "<eos>", equals are in the order of their bytes. What
 * comes less often than min_count, and all beyond the max_words most frequent (0: no limit), is "<unk>". */
TP_DEF tp_status tp_vocabulary_words(tp_vocabulary *v, const char *path, int64_t min_count, int max_words);
/* The id of a word, or that of "<unk>", or -1. */
TP_DEF int tp_vocabulary_find(const tp_vocabulary *v, const char *word, size_t size);
TP_DEF void tp_vocabulary_free(tp_vocabulary *v); /* NULL is fine */

/* Pieces of a text for a character model: two components, int32 (sequence_length): ids, and the ids that follow them (the same
 * piece one character later). Where a piece begins is random, a function of (seed, pass, index). [char-rnn's CharRNNData] */
typedef struct tp_df_text_chars_desc {
    tp_at at_;
    const char *path;
    const tp_vocabulary *vocabulary; /* needed during the call only; NULL: tp_vocabulary_chars of the file */
    int sequence_length;             /* 0 = 50 */
    int64_t size;                    /* datapoints of a pass; 0 = so many as lie side by side in the text */
    tp_tri shuffle;                  /* TP_NO: side by side, from the beginning; default TP_YES */
    uint64_t seed;
} tp_df_text_chars_desc;
TP_DEF tp_dataflow *tp_df_text_chars_(const tp_df_text_chars_desc *d);

/* Batches of a text for a word model that keeps its state: two components, int32 (batch_size, sequence_length). The text is cut
 * into batch_size equal pieces (what is left over is dropped); row b of datapoint i goes on where row b of datapoint i - 1
 * ended. The second component is the first one word later. [PTB-LSTM's ptb_producer] */
typedef struct tp_df_text_words_desc {
    tp_at at_;
    const char *path;
    const tp_vocabulary *vocabulary; /* needed during the call only; NULL: tp_vocabulary_words(path, 1, 0) */
    int batch_size;                  /* 0 = 20 */
    int sequence_length;             /* 0 = 35 */
} tp_df_text_words_desc;
TP_DEF tp_dataflow *tp_df_text_words_(const tp_df_text_words_desc *d);

/* -- image files: JPEG, PNG and BMP, decoded by stb_image.h, which is taken from where it is installed (<stb/stb_image.h>), or from
 *    TP_STB_IMAGE, "a path"; TP_NO_STB_IMAGE leaves it out. A program that includes it itself does so before the headers of tp,
 *    which then use that copy, or in another unit. Without it images give TP_ERR_UNSUPPORTED. A JPEG without its end and a PNG
 *    whose checksums do not match count as damaged. */

/* A decoded image: uint8 (H,W,channels), 3: RGB, 1: grey. At most 64 Mi pixels, else TP_ERR_FORMAT. Any thread. */
TP_DEF tp_status tp_image_decode(const void *data, size_t size, int channels, tp_tensor *image);

typedef enum { TP_REFUSE, TP_SKIP } tp_on_error; /* what to do with a file that cannot be read or decoded */

/* Image files: image uint8 (H,W,channel). TP_SKIP leaves a bad file out of every pass and names it once in the log, as a warning;
 * then seek has to decode what it passes over for the first time. [dataflow: ImageFromFile] */
typedef struct tp_df_image_from_file_desc {
    tp_at at_;
    const char *const *files; /* copied */
    int64_t n;
    int channel;          /* 3 (0): RGB, 1: grey */
    int64_t max_pixels;   /* a larger image is an error; 0 = 64 Mi */
    tp_on_error on_error; /* TP_REFUSE (default): the flow fails */
    tp_tri shuffle;       /* default TP_NO */
    uint64_t seed;
} tp_df_image_from_file_desc;
TP_DEF tp_dataflow *tp_df_image_from_file_(const tp_df_image_from_file_desc *d);

/* A folder with one folder per class: image as above, label int32 scalar. Classes are numbered in the order of their names' bytes,
 * their files (all that do not begin with a dot, in deeper folders too) come in the order of their paths. */
typedef struct tp_df_image_folder_desc {
    tp_at at_;
    const char *dir;
    int channel;          /* 3 (0): RGB, 1: grey */
    int64_t max_pixels;   /* 0 = 64 Mi */
    tp_on_error on_error; /* TP_REFUSE (default): the flow fails */
    tp_tri decode;        /* TP_NO: the first component is the path, uint8 (length), for tp_map_image; default TP_YES */
    tp_tri shuffle;       /* default TP_YES */
    uint64_t seed;
} tp_df_image_folder_desc;
TP_DEF tp_dataflow *tp_df_image_folder_(const tp_df_image_folder_desc *d);
/* The names of the classes of a tp_df_image_folder, in the order of their labels; they live as long as it. */
TP_DEF const char *const *tp_df_image_classes(const tp_dataflow *df, int *n);

/* A list of images: a text file with a path, a blank and a label in each line, as in ILSVRC12's train.txt. The same components.
 * [dataflow: ILSVRC12Files] */
typedef struct tp_df_image_list_desc {
    tp_at at_;
    const char *list;
    const char *dir;      /* where paths begin that are not absolute; NULL: the current folder */
    int channel;          /* 3 (0): RGB, 1: grey */
    int64_t max_pixels;   /* 0 = 64 Mi */
    tp_on_error on_error; /* TP_REFUSE (default): the flow fails */
    tp_tri decode;        /* TP_NO: the first component is the path, uint8 (length), for tp_map_image; default TP_YES */
    tp_tri shuffle;       /* default TP_YES */
    uint64_t seed;
} tp_df_image_list_desc;
TP_DEF tp_dataflow *tp_df_image_list_(const tp_df_image_list_desc *d);

/* A function for tp_df_map and its parallel forms: component 0, a path, becomes the image. The user of the map is a
 * tp_image_options, or NULL. With TP_SKIP a bad file is dropped, with a warning once. */
typedef struct tp_image_options {
    int channel;          /* 3 (0): RGB, 1: grey */
    int64_t max_pixels;   /* 0 = 64 Mi */
    tp_on_error on_error; /* TP_REFUSE (default): the flow fails */
} tp_image_options;
TP_DEF tp_status tp_map_image(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call);

/* -- LMDB, with TP_LMDB defined, <lmdb.h> and -llmdb; without it TP_ERR_UNSUPPORTED. liblmdb itself trusts the pages of a file:
 *    read files of people you trust. */

/* The datapoints of an LMDB file or folder in the order of its keys, values in the encoding of tp_datapoint_pack. The entry
 * "__keys__" is passed over. [dataflow: LMDBSerializer.load, LMDBData] */
typedef struct tp_df_lmdb_desc {
    tp_at at_;
    const char *path;
    tp_tri raw;     /* TP_YES: two components, the key and the value as they are, uint8 (length); default TP_NO */
    tp_tri shuffle; /* default TP_YES */
    uint64_t seed;
} tp_df_lmdb_desc;
TP_DEF tp_dataflow *tp_df_lmdb_(const tp_df_lmdb_desc *d);
/* Pass 0 of a flow as a new LMDB file, with keys "00000000", "00000001", ... and "__keys__", the list of them as Python pickles
 * it. The file appears whole or not at all; one that exists is refused. The flow stays yours. [dataflow: LMDBSerializer.save] */
TP_DEF tp_status tp_lmdb_save(tp_dataflow *df, const char *path);

/* clang-format off */
#ifndef __cplusplus
#define tp_df_cifar10(...) TP__CALL(input, tp_df_cifar10, #__VA_ARGS__, __VA_ARGS__)
#define tp_df_cifar100(...) TP__CALL(input, tp_df_cifar100, #__VA_ARGS__, __VA_ARGS__)
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

/* ==== >>idx =========================================================================================== */

/* The IDX format of MNIST, gzip'd or not: uint8, int8, int16, int32, float32, float64; int8 and int16 become
 * int32. The header is believed only if the file has exactly the bytes it promises. */
TP_DEF tp_status tp_idx_load(const char *path, tp_tensor *t);
/* The same from memory; what: its name in error sentences. */
TP_DEF tp_status tp_idx_parse(const void *data, size_t size, const char *what, tp_tensor *t);

/* ==== >>input source ================================================================================== */

/* Brings datapoints into the runs of a graph. Life of one: made; tp_input_setup with the input signature,
 * once; tp_input_get_tensors for each tower; tp_input_reset_state before training (or before each round of
 * inference); its hooks take part in every run; freed, before the graph. Fields are for reading; to write
 * your own source, tp_calloc one and fill the functions and user. [input_source: InputSource] */
typedef struct tp_input_source tp_input_source;
struct tp_input_source {
    const char *name; /* "QueueInput" */
    void *user;
    bool feedfree;   /* new tensors for each tower, so that it serves many; FeedInput serves one */
    tp_graph *graph; /* from setup on */
    const tp_spec *spec;
    int n_spec;
    bool setup_done;
    int64_t consumed; /* datapoints that finished runs have used, from the start of the endless repetition */
    tp_status error;  /* why reading ahead failed, TP_OK if it did not: see tp_input_failure */
    char error_text[2048];
    tp_owner owner_;
    tp_hook *const *hook; /* memoised */
    int n_hook;
    tp_arena mem_;
    tp_input_source *inner_; /* of tp_remap_input_source: whose kind it is of */
    tp_status (*setup)(tp_input_source *s);
    tp_status (*get_input_tensors)(tp_input_source *s, tp_node **in);
    tp_status (*reset_state)(tp_input_source *s);                          /* NULL: nothing to do */
    tp_status (*seek)(tp_input_source *s, int64_t consumed);               /* NULL: cannot be resumed */
    int64_t (*size)(tp_input_source *s);                                   /* NULL: unknown */
    tp_status (*hooks)(tp_input_source *s, tp_hook *const **hook, int *n); /* asked once; NULL: none */
    void (*close)(tp_input_source *s);
};

/* The specs are copied. */
TP_DEF tp_status tp_input_setup(tp_input_source *s, tp_graph *g, const tp_spec *specs, int n);
TP_DEF bool tp_input_setup_done(const tp_input_source *s);
/* n_spec nodes for the tower that is being built. */
TP_DEF tp_status tp_input_get_tensors(tp_input_source *s, tp_node **in);
/* Start at the position of the last tp_input_seek, 0 without one. Training: once, in before_train. Inference:
 * each round, so that every round sees the same data. (QueueInput restarts too; in tensorpack it goes on, and
 * drifts.) */
TP_DEF tp_status tp_input_reset_state(tp_input_source *s);
/* Resume: the next datapoint is number `consumed` of the endless repetition. At once if it is running
 * already. */
TP_DEF tp_status tp_input_seek(tp_input_source *s, int64_t consumed);
TP_DEF int64_t tp_input_size(tp_input_source *s); /* datapoints an epoch, -1: unknown */
/* What it needs to do in each run; memoised. For every rank, not the chief alone. They use nothing but
 * before_run, after_run and after_create_session. */
TP_DEF tp_hook *const *tp_input_hooks(tp_input_source *s, int *n);
/* When the thread of a queue fails, what it had read is delivered first, then runs fail with its error. This says that it has
 * come to that. TP_OK: no failure; else the status, and the sentence if `sentence` is not NULL. */
TP_DEF tp_status tp_input_failure(const tp_input_source *s, const char **sentence);
/* For get_input_tensors and setup of your own: the name scope called after the source, "QueueInput", the same one at each
 * entry; ends with tp_name_scope_pop. From setup on. [InputSource.cached_name_scope] */
TP_DEF void tp_input_cached_name_scope_push(tp_input_source *s);
TP_DEF void tp_input_free(tp_input_source *s); /* and its flow; NULL is fine */

/* Only placeholders, one for each entry of the signature and of its name, at the root; one of the same name,
 * dtype and shape that exists is used again. Somebody else feeds them. [input_source: PlaceholderInput] */
TP_DEF tp_input_source *tp_placeholder_input(void);

/* Feeds placeholders (as PlaceholderInput makes them, so that training and inference share them) with the
 * next datapoint before each run, read in the running thread. One tower only. An error of the flow fails the
 * run. A datapoint whose run failed is fed again. [input_source: FeedInput] */
typedef struct tp_feed_input_desc {
    tp_at at_;
    tp_dataflow *df;
    /* TP_NO: one pass, then runs fail with TP_ERR_STATE until reset_state, as StopIteration does; default TP_YES */
    tp_tri infinite;
    tp_tri quiet_end; /* TP_YES: they end with TP_END instead, which ends a training as success. Default TP_NO */
} tp_feed_input_desc;
TP_DEF tp_input_source *tp_feed_input_(const tp_feed_input_desc *d);

/* A queue of datapoints of the program's own, for several threads at once. It lives until you and all sources that use it have
 * freed it. Waiting is not for a program with TP_NO_THREADS, which gets TP_ERR_STATE instead. A flow
 * that yields what others put in is tp_df_from_queue. [QueueInput's queue] */
typedef struct tp_queue tp_queue;
TP_DEF tp_queue *tp_queue_new(int capacity); /* 0 = 50; NULL: out of memory, or no capacity */
/* A copy of dp at the end, when there is room; TP_END when the queue is closed. Its types are checked by who takes it. */
TP_DEF tp_status tp_queue_put(tp_queue *q, const tp_datapoint *dp);
/* The front, when there is one; TP_END when the queue is closed and empty. */
TP_DEF tp_status tp_queue_get(tp_queue *q, tp_datapoint *dp);
TP_DEF int tp_queue_size(tp_queue *q);   /* datapoints that wait in it */
TP_DEF void tp_queue_close(tp_queue *q); /* nothing goes in any more; what is in comes out */
TP_DEF void tp_queue_free(tp_queue *q);  /* NULL is fine */
/* A flow that takes what is in a queue; it ends when the queue is closed and empty, and is walked once. The queue lives until the
 * flow is freed too. Nobody can repeat what others put in: seeking takes nothing and warns that the data are not those of before.
 * [dataflow: DataFromQueue] */
TP_DEF tp_dataflow *tp_df_from_queue(tp_queue *q);

/* A thread reads ahead into a queue; each tower of each run gets the next datapoint, or, as tp_hooked_session_set_datapoints
 * says, the first towers alone. The same data in the same order as FeedInput. A run that is cancelled or out of time waits for
 * data no longer. If the flow fails, what was read before is delivered, then runs fail with its error. The moving average (decay
 * 0.5) of the number of waiting datapoints is summarised as QueueInput/queue_size. Built with TP_NO_THREADS it reads when asked,
 * with the same results. [input_source:
 * QueueInput]
 *
 * With .queue it reads into and takes from that one, which several sources and tp_queue_put may share: each takes what is at
 * the front, whoever brought it. Then the order depends on the threads: such a source has no position, a resume begins its data
 * anew (with a warning), and reset_state starts the reading once and clears nothing. A flow that fails closes the queue for all, as in the
 * original; the end of a finite one (.infinite = TP_NO) when it is the last. Without threads each source takes what was put, then
 * what its own flow gives. */
typedef struct tp_queue_input_desc {
    tp_at at_;
    tp_dataflow *df;
    int capacity;    /* datapoints; 0 = 50; that of .queue counts where there is one */
    tp_tri infinite; /* TP_NO: one pass, then runs end with TP_END, as a closed queue does; default TP_YES */
    tp_queue *queue;
} tp_queue_input_desc;
TP_DEF tp_input_source *tp_queue_input_(const tp_queue_input_desc *d);
TP_DEF float tp_queue_input_size_ema(const tp_input_source *s); /* the average of the queue's size */

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

/* A base for a source of your own that needs no feeding by the caller: a feed-free source makes new nodes for each tower that
 * asks, so that it serves any number of them, and may stand in a StagingInput. Set the functions of tp_input_source that it
 * has: get_input_tensors at least. Nodes may be computed, or be placeholders that a hook of yours feeds in before_run
 * (tp_request_feed) from memory that stays until after_run; a hook that waits for data waits by tp_request_wait. Its
 * reset_state is NULL: a reset does nothing, unless you set one. For a position in checkpoints, count `consumed` in after_run
 * and set seek; without seek a resumed training begins its data anew, with a warning. user is `bytes` of zeroed memory, freed
 * with the source. name is borrowed. NULL: out of memory. [input_source: FeedfreeInput] */
TP_DEF tp_input_source *tp_feedfree_input(const char *name, size_t bytes);

/* A QueueInput over single samples: each tower of each run gets the next batch_size of them, stacked on a new first axis,
 * (batch_size, ...). The queue holds `capacity` samples. A batch may reach over the end of a pass; when the data end, an
 * incomplete last batch is dropped. All dimensions of the signature but the first must be known. Size: that of the flow /
 * batch_size. `consumed` counts samples. Errors, .infinite and .queue (whose datapoints are samples) as for QueueInput; its
 * average is summarised as BatchQueueInput/queue_size. Takes df over. [input_source: BatchQueueInput] */
typedef struct tp_batch_queue_input_desc {
    tp_at at_;
    tp_dataflow *df;
    int batch_size;
    int capacity;    /* samples; 0 = 3000; that of .queue counts where there is one */
    tp_tri infinite; /* TP_NO: one pass, then runs end with TP_END; default TP_YES */
    tp_queue *queue;
} tp_batch_queue_input_desc;
TP_DEF tp_input_source *tp_batch_queue_input_(const tp_batch_queue_input_desc *d);

/* Of a QueueInput or BatchQueueInput, also inside others: drop what waits in its queue and read it again, from the datapoint
 * that the next run is to use. For flows that behave differently from now on. The position in checkpoints stays exact. (The
 * original begins a new pass instead.) With a queue of the program's: all that waits there is dropped, and this source's own
 * flow begins anew. Between runs, by the thread that runs. [QueueInput.refill_queue] */
TP_DEF tp_status tp_queue_input_refill_queue(tp_input_source *s);

/* A data set is a flow whose datapoints have n components of these dtypes: each is checked, and one that differs is an error
 * that names it. Finite if df is: tp_df_repeated(df, -1) is not. Takes df over; types are copied.
 * [TFDatasetInput.dataflow_to_dataset] */
TP_DEF tp_dataflow *tp_dataflow_to_dataset(tp_dataflow *df, const tp_dtype *types, int n);

/* Each tower of each run takes the next datapoint of a flow, read when it is asked for, in the running thread. (Let the flow
 * read ahead or map on threads of its own.) It walks one pass and is not repeated: at its end runs end with TP_END, which ends
 * a training as success and a round of inference as it should; train on tp_df_repeated(df, -1). reset_state begins the pass
 * again. Dtypes and shapes are checked against the signature; those of tp_dataflow_to_dataset at setup. Its size is unknown. A
 * datapoint whose run failed is fed again. Takes df over. [input_source: TFDatasetInput] */
TP_DEF tp_input_source *tp_dataset_input(tp_dataflow *df);

/* The tensors are what a function makes, once for each tower, in its scopes: fill in[0] to in[n-1], n inputs of the signature,
 * with nodes of these dtypes and of shapes that may be these. tower: 0, 1, ... */
typedef tp_status (*tp_tensor_input_fn)(tp_graph *g, int tower, tp_node **in, int n, void *user);
/* They are computed in each run. What comes from variables and random numbers alone is the same in a resumed training; where a
 * host op makes it, give .seek, or a resume begins the data anew, with a warning. `consumed` counts one for each tower and run.
 * [input_source: TensorInput] */
typedef struct tp_tensor_input_desc {
    tp_at at_;
    tp_tensor_input_fn fn;
    void *user;
    int64_t size;                                    /* datapoints an epoch; 0: unknown */
    tp_status (*seek)(void *user, int64_t consumed); /* the next datapoint is that one */
    void (*release)(void *user);                     /* called once, when the source is freed */
} tp_tensor_input_desc;
TP_DEF tp_input_source *tp_tensor_input_(const tp_tensor_input_desc *d);

/* Zeros of these shapes, one for each input, with the signature's dtypes: to see how fast a training is without its data. They
 * are constants, "dummy-image-0" of tower 0; what depends on nothing else is computed once. Copies the shapes. Setup warns:
 * "Using dummy input for debug!" [input_source: DummyConstantInput] */
TP_DEF tp_input_source *tp_dummy_constant_input(const tp_shape *shapes, int n);

/* Brings the next datapoints of a feed-free source to the towers' devices while a run works. A thread takes them from the
 * source (its hooks' before_run and after_run are called there), and uploads them beside the kernels where the device can
 * (tp_device.stage), else copies them in host memory. A run takes what lies ready, for all towers together. The same data in
 * the same order as the source alone; errors and the end come when all before them is used up. What the source computes
 * (TensorInput) cannot be taken so: it is computed in an earlier run and kept, as in the original, and the last nr_stage are
 * not used when its data end. `consumed` counts what runs have used, not what lies ready, so that a resume is exact where the
 * source's is; what is computed from variables or by host ops (without .seek) is not.
 * Refused: a source that is fed, another StagingInput inside, use by InferenceRunner, runs of fewer datapoints than towers.
 * Takes input over. [input_source: StagingInput, StagingCallback] */
typedef struct tp_staging_input_desc {
    tp_at at_;
    tp_input_source *input;
    int nr_stage; /* how many lie ready for each tower; 0 = 1; at most 64 */
    int device;   /* the session's device to bring them to; 0: that of each tower; TP_NONE for number 0 */
} tp_staging_input_desc;
TP_DEF tp_input_source *tp_staging_input_(const tp_staging_input_desc *d);

/* `input` provides the inputs of these names, in its order, whatever the signature's; the other inputs of the signature are
 * placeholders, as PlaceholderInput makes them, for somebody else to feed. All else is as with input, whose kind it keeps: a
 * QueueInput may be refilled, and staged. A name that the signature lacks is an error of setup. Takes input over; names are
 * copied. [input_source: remap_input_source] */
TP_DEF tp_input_source *tp_remap_input_source(tp_input_source *input, const char *const *names, int n);

/* What a trainer on n_devices does with its source: on more than one, a QueueInput or BatchQueueInput, remapped or not, goes into
 * a StagingInput; any other is returned as it is. Takes input over. [apply_default_prefetch] */
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

/* A datapoint as the message of tensorpack's zmq_ops, appended to out: the number of components, then for each its dtype, its
 * shape, its bytes. Little-endian on every machine. out grows at its end and is as before after a failure; set out->len = 0 to use
 * its memory again. bfloat16 has TensorFlow's number 14, which zmq_ops' own sender never writes. [dataflow: send_dataflow_zmq] */
TP_DEF tp_status tp_datapoint_pack(const tp_datapoint *dp, tp_buf *out);
/* The datapoint of one whole message, copied into dp's own memory, which is used again. what: the message's name in error
 * sentences. int8, int16 and uint16 become int32, uint32 and uint64 int64 (a larger number is refused), a bool is 0 or 1; complex
 * numbers and strings are refused. A size is believed only if the bytes are there. After a failure dp has no components. */
TP_DEF tp_status tp_datapoint_unpack(tp_datapoint *dp, const void *data, size_t size, const char *what);

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

TP__COLD_BEGIN

/* The options whose zero is not their default: see OPTIONS in tp_tensor.h. */
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
        TP__ZERO_OPTION(tp_feed_input_desc, infinite, NO),
        TP__ZERO_OPTION(tp_queue_input_desc, infinite, NO),
        TP__ZERO_OPTION(tp_batch_queue_input_desc, infinite, NO),
        TP__ZERO_OPTION(tp_staging_input_desc, device, NONE),
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

TP_DEF tp_status tp_datapoint_view(tp_datapoint *dp, const tp_datapoint *of)
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
    if (!inside) st = tp_tensor_resize(to, TP_U8, tp_make_shape_n(1, &with_nul)); /* room for tp_datapoint_text */
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

/* Views become copies, so that the datapoint outlives the flow's next step. */
static tp_status tp__datapoint_own(tp_datapoint *dp)
{
    tp_status st = TP_OK;
    for (int i = 0; i < dp->n && st == TP_OK; i++)
        if (!dp->c[i].own || dp->c[i].data != dp->c[i].own) st = tp_tensor_copy(&dp->c[i], &dp->c[i]);
    return st;
}

/* ==== >>dataflow ====================================================================================== */

enum { TP__DF_FRESH = 0, TP__DF_RUNNING, TP__DF_ENDED };

static bool tp__yes(int tri, bool unset) { return tri == TP_YES || (tri != TP_NO && unset); }

TP_DEF tp_dataflow *tp_df_new(const char *name, size_t bytes, uint64_t seed)
{
    TP__REQUIRE(name, NULL)

    const size_t head = (sizeof(tp_dataflow) + 63) & ~(size_t)63; /* user begins behind it, well aligned */
    if (bytes > SIZE_MAX - head) {
        tp_fail(TP_ERR_NOMEM, "%s: %zu bytes do not fit into memory", name, bytes);
        return NULL;
    }
    tp_dataflow *df = (tp_dataflow *)tp_calloc(1, head + bytes);
    if (!df) return NULL;
    df->name = name;
    df->seed = (uint64_t)tp__int_option((int64_t)seed, 42);
    df->user = (char *)df + head;
    return df;
}

TP_DEF void tp_df_free(tp_dataflow *df)
{
    if (!df) return;
    if (df->close) df->close(df);
    tp_datapoint_free(&df->skip_);
    tp_free(df);
}

TP_DEF tp_status tp_df_restart(tp_dataflow *df, int64_t pass)
{
    TP__REQUIRE(df, TP_ERR_ARG)

    if (pass < 0) return tp_fail(TP_ERR_ARG, "%s: there is no pass %lld", df->name, (long long)pass);
    if (!df->restart && df->state_ != TP__DF_FRESH)
        return tp_fail(TP_ERR_STATE, "%s: this dataflow can be walked only once: give it a restart function", df->name);
    tp_status st = df->restart ? df->restart(df, pass) : TP_OK;
    if (st != TP_OK) {
        df->state_ = TP__DF_FRESH;
        return st;
    }
    df->state_ = TP__DF_RUNNING;
    df->pass_ = pass;
    df->index_ = 0;
    return TP_OK;
}

/* A failure says which datapoint it would have been. The flow that failed first says it, the flows above pass it on. */
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
        tp_status st = tp_df_restart(df, 0);
        if (st != TP_OK) return st;
    }
    if (df->state_ == TP__DF_ENDED) return TP_END;
    const unsigned mode = tp__float_mode_enter(); /* the same numbers by this thread and by one that reads ahead */
    tp_status st = df->next(df, dp);
    tp__float_mode_leave(mode);
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

TP_DEF tp_status tp_df_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    TP__REQUIRE(df, TP_ERR_ARG)

    int64_t ignored;
    if (!skipped) skipped = &ignored;
    *skipped = 0;
    if (n < 0) return tp_fail(TP_ERR_ARG, "%s: cannot skip %lld datapoints: seek goes forward", df->name, (long long)n);
    if (df->state_ == TP__DF_FRESH) {
        tp_status st = tp_df_restart(df, 0);
        if (st != TP_OK) return st;
    }
    if (df->state_ == TP__DF_ENDED || n == 0) return TP_OK;
    if (df->seek) {
        const tp_status st = df->seek(df, n, skipped);
        df->index_ += *skipped;
        return st;
    }
    while (*skipped < n) { /* replay */
        tp_status st = tp_df_next(df, &df->skip_);
        if (st == TP_END) return TP_OK;
        if (st != TP_OK) return st;
        ++*skipped;
    }
    return TP_OK;
}

/* The key of everything random in one pass of a flow. Flows of one seed differ by their names. */
static uint64_t tp__df_key(const tp_dataflow *df, int64_t pass)
{
    return tp_random_key(tp_random_key(df->seed, tp_hash_name(df->name)), (uint64_t)pass);
}

/* -- poison: a flow that keeps the sentence of a failed constructor */

typedef struct tp__poison_flow {
    tp_status status;
    char text[1024];
} tp__poison_flow;

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
    const char *file = at && at->file ? strrchr(at->file, '/') : NULL;
    file = file ? file + 1 : at ? at->file : NULL;
    if (file) snprintf(p->text, sizeof p->text, "%.60s:%d: %s", file, at->line, text);
    else snprintf(p->text, sizeof p->text, "%s", text);
    df->next = tp__poison_next;
    df->restart = tp__poison_restart;
    tp_fail(status, "%s", p->text);
    return df;
}

/* The end of a constructor that failed with `st` after its arguments were fine: the sentence is set already.
 * */
static tp_dataflow *tp__df_failed(const tp_at *at, tp_status st)
{
    char text[900];
    snprintf(text, sizeof text, "%.899s", tp_last_error());
    return tp_df_fail(at, st, "%s", text);
}

/* A flow that fails with the sentence that tp__own left. */
static tp_dataflow *tp__df_twice(void)
{
    char text[TP__ERROR_TEXT];
    snprintf(text, sizeof text, "%s", tp_last_error());
    return tp_df_fail(NULL, TP_ERR_ARG, "%s", text);
}
TP__UNUSED static void tp__df_drop(tp_dataflow *df)
{
    if (df && !df->owner_.who) tp_df_free(df);
}

static tp_dataflow *tp__df_no_options(const char *function)
{
    return tp_df_fail(NULL, TP_ERR_ARG, "%s: the descriptor is NULL", function);
}

/* A new flow around `child`. A child that is missing or poison is passed on, by false and *df. */
static bool tp__df_around(const tp_at *at, tp_dataflow *child, const char *name, size_t bytes, uint64_t seed,
                          tp_dataflow **df)
{
    *df = child;
    if (!child || child->next == tp__poison_next) {
        tp_df_status(child);
        return false;
    }
    if (!tp__own(&child->owner_, child->name, name, at)) {
        *df = tp__df_twice();
        return false;
    }
    *df = tp_df_new(name, bytes, seed);
    if (*df) return true;
    tp_df_free(child);
    return false;
}

/* Refuse a child together with its parent's arguments. */
#define TP__REFUSE(child_, ...) (tp_df_free(child_), tp_df_fail(__VA_ARGS__))

/* -- an endless walk: pass after pass, with a position that counts all datapoints. FixedSize, the shuffle
 * buffer and the input sources stand on it. */

typedef struct tp__endless {
    tp_dataflow *df;
    int64_t pass, position;
    bool once;  /* end after one pass instead */
    bool empty; /* this pass has given nothing yet */
} tp__endless;

static tp_status tp__endless_turn(tp__endless *e)
{
    if (e->empty)
        return tp_fail(TP_ERR_STATE, "%s: a whole pass gave no datapoint, so it cannot be repeated for ever",
                       e->df->name);
    e->empty = true;
    return tp_df_restart(e->df, ++e->pass);
}

static tp_status tp__endless_next(tp__endless *e, tp_datapoint *dp)
{
    for (;;) {
        tp_status st = tp_df_next(e->df, dp);
        if (st == TP_OK) {
            e->empty = false;
            e->position++;
        }
        if (st != TP_END || e->once) return st;
        if ((st = tp__endless_turn(e)) != TP_OK) return st;
    }
}

/* Begin at pass `pass` and go n datapoints on. */
static tp_status tp__endless_start(tp__endless *e, int64_t pass, int64_t n)
{
    e->pass = pass;
    e->position = 0;
    e->empty = true;
    tp_status st = tp_df_restart(e->df, pass);
    while (st == TP_OK && e->position < n) {
        int64_t k = 0;
        st = tp_df_seek(e->df, n - e->position, &k);
        if (k > 0) e->empty = false;
        e->position += k;
        if (st != TP_OK || e->position >= n || e->once) break;
        st = tp__endless_turn(e);
    }
    return st;
}

TP_DEF tp_status tp_df_test_speed(tp_dataflow *df, int64_t n, int64_t warmup, double *per_second)
{
    TP__REQUIRE(df, TP_ERR_ARG)

    tp__endless e = {df, 0, 0, false, false};
    tp_datapoint dp = {0, NULL, 0};
    if (n < 1) return tp_fail(TP_ERR_ARG, "tp_df_test_speed: cannot time %lld datapoints", (long long)n);
    tp_status st = tp__endless_start(&e, 0, 0);
    for (int64_t i = 0; i < warmup && st == TP_OK; i++) st = tp__endless_next(&e, &dp);
    const double start = tp_time();
    for (int64_t i = 0; i < n && st == TP_OK; i++) st = tp__endless_next(&e, &dp);
    const double seconds = tp_time() - start;
    tp_datapoint_free(&dp);
    if (st != TP_OK) return st;
    const double speed = (double)n / (seconds > 1e-9 ? seconds : 1e-9);
    tp_log(TP_LOG_INFO, "%s: %lld datapoints in %.3f s, %.1f a second", df->name, (long long)n, seconds, speed);
    if (per_second) *per_second = speed;
    return TP_OK;
}

/* -- the order of one pass: shuffled or not, made when it is first asked for, so that passing over a pass is
 * free */

typedef struct tp__order {
    int64_t *at; /* NULL: 0, 1, 2, ... */
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

/* Index of the next datapoint, -1 at the end of the pass. */
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
    tp__order order; /* first in every flow that has one */
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
    tp_status st = tp__order_init(&f->order, d->n, tp__yes(d->shuffle, true));
    if (st == TP_OK && d->n > 0) {
        f->point = (tp_datapoint *)tp_calloc((size_t)d->n, sizeof(tp_datapoint));
        f->n = d->n;
        if (!f->point) st = TP_ERR_NOMEM;
    }
    for (int64_t i = 0; i < d->n && st == TP_OK; i++) st = tp_datapoint_copy(&f->point[i], &d->points[i]);
    if (st == TP_OK) return df;
    tp_df_free(df);
    return tp__df_failed(&d->at_, st);
}

/* -- rows of arrays: from_arrays, idx, mnist ---- >>df rows */

/* What becomes of a row: itself, bytes to [0,1], bytes to int32; (where, how long) to that part of the text. */
enum { TP__ROW_AS_IS, TP__ROW_UNIT, TP__ROW_I32, TP__ROW_TEXT };

typedef struct tp__rows_flow {
    tp__order order;
    tp_tensor *array;
    int *kind;
    int n;
    char *text; /* of TP__ROW_TEXT */
} tp__rows_flow;

/* byte/255 as float32, into a component of its own. */
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

/* An empty flow of n arrays, to be filled; tp__rows_ready then checks the lengths. NULL: out of memory. */
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
    tp_df_free(df);
    return NULL;
}

static tp_status tp__rows_ready(tp_dataflow *df, const char *const *names, int shuffle)
{
    tp__rows_flow *f = (tp__rows_flow *)df->user;
    for (int j = 0; j < f->n; j++) {
        char number[24];
        snprintf(number, sizeof number, "array %d", j);
        const char *name = names ? names[j] : number;
        if (f->array[j].shape.ndim < 1)
            return tp_fail(TP_ERR_SHAPE, "%s: %s is a scalar, it has no rows to walk", df->name, name);
        if (f->array[j].shape.dim[0] != f->array[0].shape.dim[0])
            return tp_fail(TP_ERR_SHAPE, "%s: %s has %lld entries but %s has %lld: they must belong together", df->name,
                           names ? names[0] : "array 0", (long long)f->array[0].shape.dim[0], name,
                           (long long)f->array[j].shape.dim[0]);
    }
    return tp__order_init(&f->order, f->array[0].shape.dim[0], tp__yes(shuffle, true));
}

TP_DEF tp_dataflow *tp_df_from_arrays_(const tp_df_from_arrays_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    if (d->n < 1 || !d->arrays) return tp_df_fail(&d->at_, TP_ERR_ARG, "tp_df_from_arrays: needs at least one array");
    tp_dataflow *df = tp__rows_new("tp_df_from_arrays", d->n, d->seed);
    if (!df) return NULL;
    tp__rows_flow *f = (tp__rows_flow *)df->user;
    tp_status st = TP_OK;
    for (int j = 0; j < d->n && st == TP_OK; j++) st = tp_tensor_copy(&f->array[j], &d->arrays[j]);
    if (st == TP_OK) st = tp__rows_ready(df, NULL, d->shuffle);
    if (st == TP_OK) return df;
    tp_df_free(df);
    return tp__df_failed(&d->at_, st);
}

/* path, or path.gz where only that exists. */
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
    tp_df_free(df);
    return tp__df_failed(&d->at_, st);
}

/* -- mnist ---- >>df mnist */

/* false: `which` is neither. */
static bool tp__train_or_test(const char *which, bool *train)
{
    *train = which && strcmp(which, "train") == 0;
    return *train || (which && strcmp(which, "test") == 0);
}

static void tp__mnist_path(tp_buf *b, const char *dir, const char *file)
{
    const char *data = getenv("TP_DATA"), *sets = getenv("TENSORPACK_DATASET"), *home = getenv("HOME");
    if (dir) tp_buf_printf(b, "%s/%s", dir, file);
    else if (data && *data) tp_buf_printf(b, "%s/mnist/%s", data, file);
    else if (sets && *sets) tp_buf_printf(b, "%s/mnist_data/%s", sets, file);
    else tp_buf_printf(b, "%s/tensorpack_data/mnist_data/%s", home ? home : ".", file);
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
        tp__mnist_path(&path, d->dir, file[train][j]);
        st = path.failed ? tp_fail(TP_ERR_NOMEM, "out of memory for the name of a file")
                         : tp__idx_load_either(path.data, &f->array[j]);
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
    tp_df_free(df);
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
    if (st == TP_OK) f->index++;
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
        df = tp_df_fail(&d->at_, TP_ERR_ARG, "tp_df_from_generator: .indexed needs .size, the datapoints of a pass");
    else df = tp_df_new("tp_df_from_generator", sizeof(tp__generator_flow), 0);
    if (!df || df->next) { /* no flow of this kind: let go of what it would have owned */
        if (d->release) d->release(d->user);
        return df;
    }
    tp__generator_flow *f = (tp__generator_flow *)df->user;
    f->d = *d;
    df->next = tp__generator_next;
    df->restart = tp__generator_restart;
    df->size = tp__generator_size;
    if (d->indexed == TP_YES) df->seek = tp__generator_seek;
    df->close = tp__generator_close;
    return df;
}

/* -- fake ---- >>df fake */

typedef struct tp__fake_flow {
    tp__order order;
    tp_type *type;
    int n;
    bool random;
    float low, span;
} tp__fake_flow;

/* Element i is lane i%4 of block i/4, as everywhere; a whole block is made at once. */
static void tp__fake_fill(tp_tensor *t, uint64_t key, uint64_t step, float low, float span)
{
    const int64_t n = tp_tensor_size(t);
    const size_t width = tp_dtype_size(t->dtype);
    for (int64_t i = 0; i < n; i += 4) {
        uint32_t r[4];
        float v[4];
        tp_philox(key, (uint64_t)i / 4, step, r);
        for (int k = 0; k < 4; k++) v[k] = (float)tp__mul_add((double)(r[k] >> 8) / 16777216.0, span, low);
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
                          f->span);
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
        tp_df_free(df);
        return NULL;
    }
    for (int j = 0; j < d->n; j++) {
        f->type[j].dtype = d->specs[j].dtype == TP_DTYPE_UNSET ? TP_F32 : d->specs[j].dtype;
        f->type[j].shape = d->specs[j].shape;
    }
    f->order.n = tp__int_option(d->size, 1000);
    f->random = tp__yes(d->random, true);
    const bool unit = !(d->low < 0 || d->low > 0) && !(d->high < 0 || d->high > 0);
    f->low = tp__float_option(d->low, 0.0f);
    f->span = unit ? 1.0f : tp__float_option(d->high, 0.0f) - f->low;
    return df;
}

TP__COLD_BEGIN /* each is drawn once */

/* -- digits ---- >>df digits
 * A glyph is a few strokes; a stroke is a curve (c: Catmull-Rom through its points) or straight lines (l).
 * Points lie in a box of 100 by 100, x to the right and y down. All arithmetic on positions is in integers,
 * so that an image has the same bits on every machine: positions in 1/4096 pixel, distances in 1/64. */

#define TP__SIDE      28
#define TP__PIXELS    (TP__SIDE * TP__SIDE)
#define TP__UNIT      819 /* 1/100 of the glyph's box, which is 20 pixels wide, in 1/4096 pixel */
#define TP__MAX_KNOTS 24  /* points of a stroke */
#define TP__SPLIT     4   /* pieces between two points */

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

/* The numbers of one image, in order. */
typedef struct tp__dice {
    uint64_t key, index, block;
    uint32_t r[4];
    int left;
} tp__dice;
static uint32_t tp__roll(tp__dice *d)
{
    if (d->left == 0) {
        tp_philox(d->key, d->block++, d->index, d->r);
        d->left = 4;
    }
    return d->r[--d->left];
}
/* Uniform in [-range, range]. */
static int tp__roll_even(tp__dice *d, int range)
{
    return (int)((uint64_t)tp__roll(d) * (2 * (uint64_t)range + 1) >> 32) - range;
}
/* Like a normal with deviation 0.29*range, but never beyond range: four bytes summed. */
static int tp__roll_bell(tp__dice *d, int range)
{
    const uint32_t r = tp__roll(d);
    const int sum = (int)((r & 255) + (r >> 8 & 255) + (r >> 16 & 255) + (r >> 24)) - 510;
    return sum * range / 510;
}

/* How one image bends the plane: an affine map (12 bits of fraction), a shift, and a displacement between the
 * corners of a 4 by 4 grid (the elastic part). */
typedef struct tp__bend {
    int a, b, c, d, dx, dy;
    int gx[4][4], gy[4][4];
} tp__bend;

static void tp__bend_roll(tp__bend *m, tp__dice *dice)
{
    const int turn = tp__roll_bell(dice, 2400); /* radians; at most 34 degrees */
    const int slant = tp__roll_bell(dice, 3000);
    const int sx = 4096 + tp__roll_bell(dice, 1260), sy = 4096 + tp__roll_bell(dice, 840);
    const int cosine = 4096 - turn * turn / 8192;
    const int sine = turn - (int)((int64_t)turn * turn * turn / (6 << 24));
    /* turn * (scale, slanted) */
    m->a = cosine * sx / 4096;
    m->c = sine * sx / 4096;
    m->b = (-cosine * slant / 4096 - sine) * (sy / 8) / 512;
    m->d = (-sine * slant / 4096 + cosine) * (sy / 8) / 512;
    m->dx = tp__roll_bell(dice, 14000);
    m->dy = tp__roll_bell(dice, 11200);
    for (int y = 0; y < 4; y++)
        for (int x = 0; x < 4; x++) {
            m->gx[y][x] = tp__roll_bell(dice, 15000);
            m->gy[y][x] = tp__roll_bell(dice, 15000);
        }
}

/* A point relative to the glyph's middle, to the image; both in 1/4096 pixel. */
static void tp__bend_point(const tp__bend *m, int x, int y, int *ox, int *oy)
{
    const int cell = 32768, half = 3 * cell / 2; /* the grid spans 24 pixels, 8 a cell */
    int u = x + half, v = y + half;
    u = u < 0 ? 0 : u > 3 * cell - 1 ? 3 * cell - 1 : u;
    v = v < 0 ? 0 : v > 3 * cell - 1 ? 3 * cell - 1 : v;
    const int i = u / cell, j = v / cell, fu = (u % cell) >> 6, fv = (v % cell) >> 6; /* 9 bits of fraction */
    const int wx = (m->gx[j][i] * (512 - fu) + m->gx[j][i + 1] * fu) / 512 * (512 - fv) +
                   (m->gx[j + 1][i] * (512 - fu) + m->gx[j + 1][i + 1] * fu) / 512 * fv;
    const int wy = (m->gy[j][i] * (512 - fu) + m->gy[j][i + 1] * fu) / 512 * (512 - fv) +
                   (m->gy[j + 1][i] * (512 - fu) + m->gy[j + 1][i + 1] * fu) / 512 * fv;
    const int64_t px = x + wx / 512, py = y + wy / 512;
    *ox = (int)((m->a * px + m->b * py) / 4096) + m->dx + 14 * 4096;
    *oy = (int)((m->c * px + m->d * py) / 4096) + m->dy + 14 * 4096;
}

/* The squared distance to the segment, for the pixels within `reach`; all in 1/64 pixel. near[] keeps the
 * least. */
static void tp__draw_segment(int32_t *near, int ax, int ay, int bx, int by, int reach)
{
    const int x0 = ((ax < bx ? ax : bx) - reach - 32) / 64, x1 = ((ax > bx ? ax : bx) + reach - 32) / 64 + 1;
    const int y0 = ((ay < by ? ay : by) - reach - 32) / 64, y1 = ((ay > by ? ay : by) + reach - 32) / 64 + 1;
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
                d2 = cross * cross * inverse >> 32; /* cross^2 <= length2 * d2: far below 2^63 */
            }
            if (d2 < near[y * TP__SIDE + x]) near[y * TP__SIDE + x] = (int32_t)d2;
        }
}

/* Point k/4 of the way from p1 to p2 on the Catmull-Rom spline, exact in integers. */
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

/* Image `index` of the set with this key: 784 bytes; returns its label. */
static int tp__draw_digit(uint64_t key, uint64_t index, unsigned char *image)
{
    tp__dice dice;
    memset(&dice, 0, sizeof dice);
    dice.key = key;
    dice.index = index;

    /* 1. which digit, which style, how it is bent, and with what pen */
    const int digit = (int)((uint64_t)tp__roll(&dice) * 10 >> 32);
    int first = 0, styles = 0;
    for (int i = 0; i < TP_COUNT(tp__glyphs); i++) {
        if (tp__glyphs[i].digit < digit) first = i + 1;
        if (tp__glyphs[i].digit == digit) styles++;
    }
    const char *s = tp__glyphs[first + (int)((uint64_t)tp__roll(&dice) * (uint64_t)styles >> 32)].strokes;
    tp__bend bend;
    tp__bend_roll(&bend, &dice);
    const int thick = tp__roll_bell(&dice, 64);
    const int radius = 84 + (thick < 0 ? thick / 2 : thick); /* of the pen, 1/64 pixel */
    const int ink = 235 + tp__roll_even(&dice, 20);

    /* 2. its strokes, drawn as the distance of each pixel to the nearest */
    int32_t near[TP__PIXELS];
    for (int i = 0; i < TP__PIXELS; i++) near[i] = INT32_MAX;
    while (*s) {
        const bool curve = *s++ == 'c';
        int x[TP__MAX_KNOTS], y[TP__MAX_KNOTS], n = 0;
        while (*s && *s != 'c' && *s != 'l' && n < TP__MAX_KNOTS) {
            s = tp__number(s, &x[n]);
            s = tp__number(s, &y[n]);
            while (*s == ' ') s++;
            /* a hand never hits the same point */
            x[n] = (x[n] - 50) * TP__UNIT + tp__roll_bell(&dice, 14000);
            y[n] = (y[n] - 50) * TP__UNIT + tp__roll_bell(&dice, 14000);
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

    /* 3. ink: full inside the pen's radius, fading over one pixel, a little uneven */
    for (int i = 0; i < TP__PIXELS; i++) {
        image[i] = 0;
        if (near[i] >= (radius + 32) * (radius + 32)) continue;
        int v = (int)(((float)(radius + 32) - sqrtf((float)near[i])) * 4.0f);
        v = (v > 255 ? 255 : v) * ink / 255 + tp__roll_bell(&dice, 36);
        image[i] = (unsigned char)(v < 0 ? 0 : v > 255 ? 255 : v);
    }
    return digit;
}

typedef struct tp__digits_flow {
    tp__order order;
    uint64_t set;         /* key of the set */
    unsigned char *bytes; /* what was drawn: label + 1 (0: not yet), then the image; NULL: draw each time */
    unsigned char one[1 + TP__PIXELS];
} tp__digits_flow;

static tp_status tp__digits_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__digits_flow *f = (tp__digits_flow *)df->user;
    const int64_t i = tp__order_take(&f->order), side[2] = {TP__SIDE, TP__SIDE};
    if (i < 0) return TP_END;
    unsigned char *row = f->bytes ? f->bytes + (size_t)i * sizeof f->one : f->one;
    if (!f->bytes || row[0] == 0) row[0] = (unsigned char)(1 + tp__draw_digit(f->set, (uint64_t)i, row + 1));
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
    f->set = tp_random_key(df->seed, tp_hash_name(train ? "digits/train" : "digits/test"));
    const int64_t usual = train ? 12000 : 2000;
    tp_status st = tp__order_init(&f->order, tp__int_option(d->size, usual), tp__yes(d->shuffle, true));
    if (st == TP_OK && f->order.n > 0 &&
        f->order.n <= 100000) { /* 80 MB: beyond that, memory is dearer than drawing again */
        f->bytes = (unsigned char *)tp_calloc((size_t)f->order.n, sizeof f->one);
        if (!f->bytes) st = TP_ERR_NOMEM;
    }
    if (st == TP_OK) return df;
    tp_df_free(df);
    return tp__df_failed(&d->at_, st);
}

TP__COLD_END

/* ==== >>transformations =============================================================================== */

/* -- batch ---- >>df batch */

typedef struct tp__batch_flow {
    tp_dataflow *df;
    int64_t batch, index; /* datapoints a batch; batches given in this pass */
    bool remainder;
    tp_datapoint in;
} tp__batch_flow;

/* `in` becomes row `row` of the `rows` of dp, which is batch number `index` of the flow `name`. */
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
            const tp_shape want = tp__row_shape(&y->shape);
            char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
            if (x->dtype != y->dtype || !tp_shape_equal(&x->shape, &want))
                return tp_fail(x->dtype != y->dtype ? TP_ERR_DTYPE : TP_ERR_SHAPE,
                               "%s: component %d of datapoint %lld of batch %lld is %s %s, in the first it is %s %s: "
                               "make them alike with tp_df_map_component",
                               name, j, (long long)row, (long long)index, tp_dtype_name(x->dtype),
                               tp_shape_text(&x->shape, a), tp_dtype_name(y->dtype), tp_shape_text(&want, b));
        }
        const size_t bytes = tp_tensor_bytes(x);
        if (bytes) memcpy((char *)y->data + (size_t)row * bytes, x->data, bytes);
    }
    return st;
}

static tp_status tp__batch_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__batch_flow *f = (tp__batch_flow *)df->user;
    int64_t row = 0;
    for (; row < f->batch; row++) {
        tp_status st = tp_df_next(f->df, &f->in);
        if (st == TP_END) break;
        if (st == TP_OK) st = tp__batch_put(df->name, dp, &f->in, row, f->batch, f->index);
        if (st != TP_OK) return st;
    }
    if (row == 0 || (row < f->batch && !f->remainder)) return TP_END;
    for (int j = 0; j < dp->n; j++) dp->c[j].shape.dim[0] = row;
    f->index++;
    return TP_OK;
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
static tp_status tp__batch_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    tp__batch_flow *f = (tp__batch_flow *)df->user;
    int64_t k = 0;
    tp_status st = tp_df_seek(f->df, n > INT64_MAX / f->batch ? INT64_MAX : n * f->batch, &k);
    *skipped = k / f->batch + (f->remainder && k % f->batch);
    f->index += *skipped;
    return st;
}
static void tp__batch_close(tp_dataflow *df)
{
    tp__batch_flow *f = (tp__batch_flow *)df->user;
    tp_df_free(f->df);
    tp_datapoint_free(&f->in);
}

TP_DEF tp_dataflow *tp_df_batch_(const tp_df_batch_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    tp_dataflow *df;
    if (!tp__df_around(&d->at_, d->df, "tp_df_batch", sizeof(tp__batch_flow), 0, &df)) return df;
    tp__batch_flow *f = (tp__batch_flow *)df->user;
    f->df = d->df;
    f->batch = d->batch_size;
    f->remainder = tp__yes(d->remainder, false);
    df->next = tp__batch_next;
    df->restart = tp__batch_restart;
    df->size = tp__batch_size;
    df->seek = tp__batch_seek;
    df->close = tp__batch_close;
    const int64_t n = tp_df_size(d->df);
    if (d->batch_size < 1)
        return TP__REFUSE(df, &d->at_, TP_ERR_ARG, "tp_df_batch: batch_size is %lld, it must be at least 1",
                          (long long)d->batch_size);
    if (!f->remainder && n >= 0 && n < d->batch_size)
        return TP__REFUSE(df, &d->at_, TP_ERR_ARG,
                          "tp_df_batch: batch_size is %lld but there are only %lld datapoints: make it smaller or say "
                          ".remainder = TP_YES",
                          (long long)d->batch_size, (long long)n);
    return df;
}

/* -- map, map_component, cast ---- >>df map */

typedef struct tp__map_flow {
    tp_dataflow *df;
    tp_map_fn fn;                     /* the whole datapoint, or */
    tp_map_component_fn component_fn; /* one component: `component` */
    int component;
    tp_map_call call;
    void (*release)(void *user);
    tp_datapoint in;
} tp__map_flow;

static tp_status tp__map_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__map_flow *f = (tp__map_flow *)df->user;
    for (;;) {
        tp_status st = tp_df_next(f->df, &f->in);
        if (st == TP_OK) st = tp_datapoint_view(dp, &f->in);
        if (st != TP_OK) return st;
        f->call.drop = false;
        if (f->fn) {
            st = f->fn(&f->in, dp, &f->call);
        } else if (f->component < f->in.n) {
            st = f->component_fn(&f->in.c[f->component], &dp->c[f->component], &f->call);
        } else {
            st = tp_fail(TP_ERR_ARG, "%s: component %d is to be mapped, but a datapoint has %d components", df->name,
                         f->component, f->in.n);
        }
        if (st < TP_OK) tp__df_named(df, f->call.index, st); /* by its place in the flow below: others may be dropped */
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
static tp_status tp__map_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    tp__map_flow *f = (tp__map_flow *)df->user;
    tp_status st = tp_df_seek(f->df, n, skipped);
    f->call.index += *skipped;
    return st;
}
static void tp__map_close(tp_dataflow *df)
{
    tp__map_flow *f = (tp__map_flow *)df->user;
    tp_df_free(f->df);
    tp_datapoint_free(&f->in);
    if (f->release) f->release(f->call.user);
}

/* d with fn NULL and component_fn, index instead: a component. */
static tp_dataflow *tp__map_new(const tp_df_map_desc *d, tp_map_component_fn component_fn, int index, const char *name)
{
    tp_dataflow *df;
    if (!tp__df_around(&d->at_, d->df, name, sizeof(tp__map_flow), d->seed, &df)) {
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
    if (tp__yes(d->keeps_all, false)) df->seek = tp__map_seek;
    df->close = tp__map_close;
    if (!d->fn && !component_fn) return TP__REFUSE(df, &d->at_, TP_ERR_ARG, "%s: the function is NULL", name);
    if (index < 0) return TP__REFUSE(df, &d->at_, TP_ERR_ARG, "%s: there is no component %d", name, index);
    return df;
}

TP_DEF tp_dataflow *tp_df_map_(const tp_df_map_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    return tp__map_new(d, NULL, 0, "tp_df_map");
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
    return tp__map_new(&m, d->fn, d->index, "tp_df_map_component");
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
        for (int64_t i = 0; i < n; i++) tp_tensor_set(out, i, tp_tensor_get(in, i) * c->scale);
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
    tp__cast *c = (tp__cast *)tp_malloc(sizeof *c);
    if (!c) {
        tp_df_free(df);
        return NULL;
    }
    c->dtype = dtype;
    c->scale = scale;
    m.user = c;
    m.release = tp_free;
    m.keeps_all = TP_YES;
    return tp__map_new(&m, tp__cast_component, index, "tp_df_cast");
}

/* -- repeated ---- >>df repeated */

typedef struct tp__repeated_flow {
    tp_dataflow *df;
    int64_t num, done, base; /* passes below done in this pass, and the number of the first */
    bool empty;              /* the pass below has given nothing yet */
} tp__repeated_flow;

static tp_status tp__repeated_turn(tp__repeated_flow *f)
{
    if (f->num < 0 && f->empty)
        return tp_fail(TP_ERR_STATE,
                       "tp_df_repeated: a whole pass of %s gave no datapoint, so it cannot be repeated for ever",
                       f->df->name);
    if (++f->done == f->num) return TP_END;
    f->empty = true;
    return tp_df_restart(f->df, f->base + f->done);
}
static tp_status tp__repeated_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__repeated_flow *f = (tp__repeated_flow *)df->user;
    for (;;) {
        if (f->done == f->num) return TP_END;
        tp_status st = tp_df_next(f->df, dp);
        if (st == TP_OK) f->empty = false;
        if (st != TP_END) return st;
        if ((st = tp__repeated_turn(f)) != TP_OK) return st;
    }
}
static tp_status tp__repeated_restart(tp_dataflow *df, int64_t pass)
{
    tp__repeated_flow *f = (tp__repeated_flow *)df->user;
    if (f->num > 0 && pass > INT64_MAX / f->num - 1)
        return tp_fail(TP_ERR_ARG, "tp_df_repeated: there is no pass %lld", (long long)pass);
    f->base = f->num > 0 ? pass * f->num : pass;
    f->done = 0;
    f->empty = true;
    return tp_df_restart(f->df, f->base);
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
        if (st == TP_OK && *skipped < n) st = tp__repeated_turn(f);
        if (st == TP_END) break;
        if (st != TP_OK) return st;
    }
    return TP_OK;
}
static void tp__repeated_close(tp_dataflow *df) { tp_df_free(((tp__repeated_flow *)df->user)->df); }

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
    const int64_t all = tp_df_size(f->df);
    return all < f->n ? all : f->n; /* -1: unknown */
}
static tp_status tp__take_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    tp__take_flow *f = (tp__take_flow *)df->user;
    const int64_t left = f->n - f->given, want = n < left ? n : left;
    if (want == 0) return TP_OK;
    const tp_status st = tp_df_seek(f->df, want, skipped);
    f->given += *skipped;
    return st;
}
static void tp__take_close(tp_dataflow *df) { tp_df_free(((tp__take_flow *)df->user)->df); }

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
    if (n < 1) return TP__REFUSE(df, NULL, TP_ERR_ARG, "tp_df_take: %lld datapoints: take at least 1", (long long)n);
    return df;
}

/* -- fixed_size ---- >>df fixed_size */

typedef struct tp__fixed_flow {
    tp__endless e; /* first: the flow below */
    int64_t size, given;
    bool keep_state, started;
} tp__fixed_flow;

static tp_status tp__fixed_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__fixed_flow *f = (tp__fixed_flow *)df->user;
    if (f->given == f->size) return TP_END;
    tp_status st = tp__endless_next(&f->e, dp);
    if (st == TP_OK) f->given++;
    return st;
}
static tp_status tp__fixed_restart(tp_dataflow *df, int64_t pass)
{
    tp__fixed_flow *f = (tp__fixed_flow *)df->user;
    f->given = 0;
    if (!f->keep_state) { /* each pass begins with a pass below that no other uses, as far as is known */
        const int64_t n = tp_df_size(f->e.df), used = n > 0 ? (f->size - 1) / n + 1 : 1;
        return tp__endless_start(&f->e, pass > INT64_MAX / used ? pass : pass * used, 0);
    }
    if (pass > INT64_MAX / f->size - 1)
        return tp_fail(TP_ERR_ARG, "%s: there is no pass %lld", df->name, (long long)pass);
    if (f->started && f->e.position == pass * f->size) return TP_OK; /* the usual case: just go on */
    tp_status st = tp__endless_start(&f->e, 0, pass * f->size);
    f->started = st == TP_OK;
    return st;
}
static int64_t tp__fixed_size(tp_dataflow *df) { return ((const tp__fixed_flow *)df->user)->size; }
static tp_status tp__fixed_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    tp__fixed_flow *f = (tp__fixed_flow *)df->user;
    const int64_t want = n < f->size - f->given ? n : f->size - f->given;
    tp_status st = TP_OK;
    while (*skipped < want && st == TP_OK) {
        int64_t k = 0;
        st = tp_df_seek(f->e.df, want - *skipped, &k);
        if (k > 0) f->e.empty = false;
        f->e.position += k;
        f->given += k;
        *skipped += k;
        if (st == TP_OK && *skipped < want) st = tp__endless_turn(&f->e);
    }
    return st;
}
static void tp__fixed_close(tp_dataflow *df) { tp_df_free(((tp__fixed_flow *)df->user)->e.df); }

TP_DEF tp_dataflow *tp_df_fixed_size_(const tp_df_fixed_size_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    tp_dataflow *df;
    if (!tp__df_around(&d->at_, d->df, "tp_df_fixed_size", sizeof(tp__fixed_flow), 0, &df)) return df;
    tp__fixed_flow *f = (tp__fixed_flow *)df->user;
    f->e.df = d->df;
    f->size = d->size;
    f->keep_state = tp__yes(d->keep_state, true);
    df->next = tp__fixed_next;
    df->restart = tp__fixed_restart;
    df->size = tp__fixed_size;
    df->seek = tp__fixed_seek;
    df->close = tp__fixed_close;
    if (d->size < 1)
        return TP__REFUSE(df, &d->at_, TP_ERR_ARG, "tp_df_fixed_size: size is %lld, it must be at least 1",
                          (long long)d->size);
    return df;
}

/* -- locally_shuffle ---- >>df locally_shuffle
 * The buffer is a ring of places; slot[] has one datapoint more than the buffer holds: the one given out
 * last, which stays untouched until the next call. */

typedef struct tp__shuffle_flow {
    tp__endless e; /* first: the flow below */
    int capacity, reuse, interval;
    tp_datapoint *slot; /* capacity + 1 */
    int *ring;          /* which slot, in order; begins at head */
    int *order;         /* room for a shuffle */
    int head, filled, spare;
    tp_datapoint in; /* the input that is going in, `used` of `reuse` times so far */
    int used;
    int64_t inputs;
    uint64_t key;
} tp__shuffle_flow;

static void tp__shuffle_buffer(tp__shuffle_flow *f, int64_t k)
{
    for (int i = 0; i < f->filled; i++) f->order[i] = f->ring[(f->head + i) % f->capacity];
    for (int i = f->filled - 1; i > 0; i--) {
        const int j = (int)((uint64_t)tp_random_u32(f->key, (uint64_t)k, (uint64_t)i) * ((uint64_t)i + 1) >> 32);
        const int swap = f->order[i];
        f->order[i] = f->order[j];
        f->order[j] = swap;
    }
    f->head = 0;
    for (int i = 0; i < f->filled; i++) f->ring[i] = f->order[i];
}

static tp_status tp__shuffle_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__shuffle_flow *f = (tp__shuffle_flow *)df->user;
    for (;;) {
        tp_status st;
        if (f->used == f->reuse) { /* the next input */
            if ((st = tp__endless_next(&f->e, &f->in)) != TP_OK) return st;
            if ((st = tp__datapoint_own(&f->in)) != TP_OK) return st;
            if (f->inputs % f->interval == 0) tp__shuffle_buffer(f, f->inputs / f->interval);
            f->inputs++;
            f->used = 0;
        }
        /* It goes into a free slot, by a swap of buffers when it is needed no more. */
        const bool full = f->filled == f->capacity;
        const int slot = full ? f->spare : f->filled;
        if (f->used + 1 < f->reuse) {
            if ((st = tp_datapoint_copy(&f->slot[slot], &f->in)) != TP_OK) return st;
        } else {
            const tp_datapoint swap = f->slot[slot];
            f->slot[slot] = f->in;
            f->in = swap;
        }
        f->used++;
        if (!full) {
            f->ring[(f->head + f->filled++) % f->capacity] = slot;
            continue;
        }
        f->spare = f->ring[f->head]; /* the front leaves; its place is the new end */
        f->ring[f->head] = slot;
        f->head = (f->head + 1) % f->capacity;
        return tp_datapoint_view(dp, &f->slot[f->spare]);
    }
}

static tp_status tp__shuffle_restart(tp_dataflow *df, int64_t pass)
{
    tp__shuffle_flow *f = (tp__shuffle_flow *)df->user;
    f->head = f->filled = 0;
    f->spare = f->capacity;
    f->used = f->reuse;
    f->inputs = 0;
    f->key = tp__df_key(df, pass);
    return tp__endless_start(&f->e, pass, 0);
}
static int64_t tp__shuffle_size(tp_dataflow *df)
{
    const tp__shuffle_flow *f = (const tp__shuffle_flow *)df->user;
    const int64_t n = tp_df_size(f->e.df);
    return n < 0 || n > INT64_MAX / f->reuse ? -1 : n * f->reuse;
}
static void tp__shuffle_close(tp_dataflow *df)
{
    tp__shuffle_flow *f = (tp__shuffle_flow *)df->user;
    tp_df_free(f->e.df);
    for (int i = 0; f->slot && i <= f->capacity; i++) tp_datapoint_free(&f->slot[i]);
    tp_free(f->slot);
    tp_free(f->ring);
    tp_free(f->order);
    tp_datapoint_free(&f->in);
}

TP_DEF tp_dataflow *tp_df_locally_shuffle_(const tp_df_locally_shuffle_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    tp_dataflow *df;
    if (!tp__df_around(&d->at_, d->df, "tp_df_locally_shuffle", sizeof(tp__shuffle_flow), d->seed, &df)) return df;
    tp__shuffle_flow *f = (tp__shuffle_flow *)df->user;
    f->e.df = d->df;
    df->next = tp__shuffle_next;
    df->restart = tp__shuffle_restart;
    df->size = tp__shuffle_size;
    df->close = tp__shuffle_close;
    if (d->buffer_size < 1 || d->buffer_size == INT_MAX || d->num_reuse < 0 || d->shuffle_interval < 0)
        return TP__REFUSE(
            df, &d->at_, TP_ERR_ARG,
            "tp_df_locally_shuffle: buffer_size %d, num_reuse %d, shuffle_interval %d: they must be positive",
            d->buffer_size, d->num_reuse, d->shuffle_interval);
    f->capacity = d->buffer_size;
    f->reuse = d->num_reuse ? d->num_reuse : 1;
    f->interval = d->shuffle_interval ? d->shuffle_interval : d->buffer_size < 3 ? 1 : d->buffer_size / 3;
    f->slot = (tp_datapoint *)tp_calloc((size_t)f->capacity + 1, sizeof(tp_datapoint));
    f->ring = (int *)tp_calloc((size_t)f->capacity, sizeof(int));
    f->order = (int *)tp_calloc((size_t)f->capacity, sizeof(int));
    if (f->slot && f->ring && f->order) return df;
    tp_df_free(df);
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
            return tp_fail(TP_ERR_ARG, "%s: component %d is wanted, but a datapoint has %d components", df->name,
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
    tp_df_free(f->df);
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
        tp_df_free(df);
        return NULL;
    }
    memcpy(f->index, indices, (size_t)n * sizeof(int));
    f->n = n;
    return df;
}

/* -- concat and join ---- >>df concat >>df join */

typedef struct tp__many_flow {
    tp_dataflow **df;
    tp_datapoint *in; /* join: one for each */
    int n, at;        /* concat: which one it is at */
    double *upto;     /* choose: a number in [0,1) below this chooses flow i, if no flow before it */
    int64_t *left;    /* mix: how many datapoints each has yet to give in this pass */
    int64_t draws;    /* choose and mix: random numbers taken in this pass, the datapoints */
    uint64_t key;     /* of this pass */
} tp__many_flow;

static tp_status tp__concat_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__many_flow *f = (tp__many_flow *)df->user;
    for (; f->at < f->n; f->at++) {
        tp_status st = tp_df_next(f->df[f->at], dp);
        if (st != TP_END) return st;
    }
    return TP_END;
}
static tp_status tp__many_restart(tp_dataflow *df, int64_t pass)
{
    tp__many_flow *f = (tp__many_flow *)df->user;
    tp_status st = TP_OK;
    f->at = 0;
    for (int i = 0; i < f->n && st == TP_OK; i++) st = tp_df_restart(f->df[i], pass);
    return st;
}
static int64_t tp__concat_size(tp_dataflow *df)
{
    const tp__many_flow *f = (const tp__many_flow *)df->user;
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
    tp__many_flow *f = (tp__many_flow *)df->user;
    for (; f->at < f->n; f->at++) {
        int64_t k = 0;
        tp_status st = tp_df_seek(f->df[f->at], n - *skipped, &k);
        *skipped += k;
        if (st != TP_OK || *skipped == n) return st;
    }
    return TP_OK;
}
static void tp__many_close(tp_dataflow *df)
{
    tp__many_flow *f = (tp__many_flow *)df->user;
    for (int i = 0; i < f->n; i++) {
        if (f->df) tp_df_free(f->df[i]);
        if (f->in) tp_datapoint_free(&f->in[i]);
    }
    tp_free((void *)f->df);
    tp_free(f->in);
    tp_free(f->upto);
    tp_free(f->left);
}

static tp_status tp__join_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__many_flow *f = (tp__many_flow *)df->user;
    int n = 0;
    for (int i = 0; i < f->n; i++) {
        tp_status st = tp_df_next(f->df[i], &f->in[i]);
        if (st != TP_OK) return st;
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
    const tp__many_flow *f = (const tp__many_flow *)df->user;
    int64_t least = -1;
    for (int i = 0; i < f->n; i++) {
        const int64_t n = tp_df_size(f->df[i]);
        if (n < 0) return -1;
        if (least < 0 || n < least) least = n;
    }
    return least;
}
static tp_status tp__join_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    tp__many_flow *f = (tp__many_flow *)df->user;
    *skipped = n;
    for (int i = 0; i < f->n; i++) { /* if one ends earlier, the others stand too far, and the pass is over */
        int64_t k = 0;
        tp_status st = tp_df_seek(f->df[i], n, &k);
        if (k < *skipped) *skipped = k;
        if (st != TP_OK) return st;
    }
    if (*skipped < n) df->state_ = TP__DF_ENDED;
    return TP_OK;
}

static tp_dataflow *tp__many_new(tp_dataflow *const *dfs, int n, const char *name, bool join)
{
    tp_dataflow *df = NULL;
    int keep = -1;                     /* the child that decides the result: missing or poison */
    for (int i = 0; i < n && dfs; i++) /* one that has an owner, or stands here twice, is left alone */
        if (dfs[i] && (tp__listed((const void *const *)(const void *)dfs, i) || dfs[i]->owner_.who)) {
            tp_owner there = dfs[i]->owner_;
            if (!there.who) there.who = name;
            tp__own(&there, dfs[i]->name, name, NULL);
            tp_dataflow *const twice = tp__df_twice();
            for (int k = 0; k < n; k++)
                if (!tp__listed((const void *const *)(const void *)dfs, k)) tp__df_drop(dfs[k]);
            return twice;
        }
    for (int i = 0; i < n && dfs && keep < 0; i++)
        if (!dfs[i] || dfs[i]->next == tp__poison_next) keep = i;
    const bool good = n > 0 && dfs && keep < 0;
    if (good) df = tp_df_new(name, sizeof(tp__many_flow), 0);
    tp__many_flow *f = df ? (tp__many_flow *)df->user : NULL;
    if (df) {
        f->df = (tp_dataflow **)tp_calloc((size_t)n, sizeof *f->df);
        f->in = join ? (tp_datapoint *)tp_calloc((size_t)n, sizeof *f->in) : NULL;
        if (!f->df || (join && !f->in)) {
            tp_free((void *)f->df);
            tp_free(f->in);
            tp_df_free(df);
            df = NULL;
        }
    }
    if (!df) {
        for (int i = 0; i < n && dfs; i++)
            if (i != keep) tp_df_free(dfs[i]);
        if (keep >= 0 && !dfs[keep]) {
            tp_fail(TP_ERR_NOMEM, "%s: dataflow %d of %d is NULL: its constructor found no memory", name, keep, n);
            return NULL;
        }
        if (keep >= 0) {
            tp_df_status(dfs[keep]);
            return dfs[keep];
        }
        return good ? NULL : tp_df_fail(NULL, TP_ERR_ARG, "%s: needs at least one dataflow", name);
    }
    for (int i = 0; i < n; i++) {
        f->df[i] = dfs[i];
        dfs[i]->owner_.who = name;
    }
    f->n = n;
    df->next = join ? tp__join_next : tp__concat_next;
    df->restart = tp__many_restart;
    df->size = join ? tp__join_size : tp__concat_size;
    df->seek = join ? tp__join_seek : tp__concat_seek;
    df->close = tp__many_close;
    return df;
}

TP_DEF tp_dataflow *tp_df_concat(tp_dataflow *const *dfs, int n) { return tp__many_new(dfs, n, "tp_df_concat", false); }
TP_DEF tp_dataflow *tp_df_join(tp_dataflow *const *dfs, int n) { return tp__many_new(dfs, n, "tp_df_join", true); }
TP_DEF tp_dataflow *tp_df_zip(tp_dataflow *const *dfs, int n) { return tp__many_new(dfs, n, "tp_df_zip", true); }

/* -- random choose and random mix ---- >>df random_choose >>df random_mix */

static int tp__choose_draw(const tp__many_flow *f)
{
    const double r = (double)tp_random_u32(f->key, (uint64_t)f->draws, 0) / 4294967296.0;
    int i = 0;
    while (!(r < f->upto[i])) i++; /* the last that can be chosen has 2 */
    return i;
}
static tp_status tp__choose_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__many_flow *f = (tp__many_flow *)df->user;
    const tp_status st = tp_df_next(f->df[tp__choose_draw(f)], dp);
    if (st == TP_OK) f->draws++;
    return st;
}
static tp_status tp__choose_restart(tp_dataflow *df, int64_t pass)
{
    tp__many_flow *f = (tp__many_flow *)df->user;
    f->key = tp__df_key(df, pass);
    f->draws = 0;
    return tp__many_restart(df, pass);
}
static tp_status tp__choose_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    tp__many_flow *f = (tp__many_flow *)df->user;
    for (; *skipped < n; ++*skipped, f->draws++) {
        int64_t k = 0;
        const tp_status st = tp_df_seek(f->df[tp__choose_draw(f)], 1, &k);
        if (st == TP_OK && k == 0) df->state_ = TP__DF_ENDED;
        if (st != TP_OK || k == 0) return st;
    }
    return TP_OK;
}

/* p NULL: all alike. False: it is refused, why. */
static bool tp__choose_table(tp__many_flow *f, const double *p, char *why, size_t size)
{
    double sum = 0;
    int last = 0;
    for (int i = 0; i < f->n; i++) {
        const double one = p ? p[i] : 1.0 / f->n;
        if (!(one >= 0 && one <= 2)) {
            snprintf(why, size, "probability %d is %g", i, one);
            return false;
        }
        sum += one;
        f->upto[i] = sum;
        if (one > 0) last = i;
    }
    f->upto[last] = 2; /* rounding leaves no gap at the end */
    snprintf(why, size, "the probabilities sum to %.9g", sum);
    return fabs(sum - 1) <= 1e-6;
}

TP_DEF tp_dataflow *tp_df_random_choose_(const tp_df_random_choose_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    tp_dataflow *df = tp__many_new(d->dfs, d->n, "tp_df_random_choose", false);
    if (!df || df->next != tp__concat_next) return df;
    tp__many_flow *f = (tp__many_flow *)df->user;
    char why[96];
    df->seed = (uint64_t)tp__int_option((int64_t)d->seed, 42);
    df->next = tp__choose_next;
    df->restart = tp__choose_restart;
    df->size = NULL;
    df->seek = tp__choose_seek;
    f->upto = (double *)tp_calloc((size_t)f->n, sizeof *f->upto);
    if (!f->upto) {
        tp_df_free(df);
        return NULL;
    }
    if (!tp__choose_table(f, d->probabilities, why, sizeof why))
        return TP__REFUSE(df, &d->at_, TP_ERR_ARG, "tp_df_random_choose: %s: give %d of at least 0 that sum to 1", why,
                          d->n);
    return df;
}

/* Which flow is next, each with the chance that it has of what is left; -1: nothing is left. */
static int tp__mix_draw(tp__many_flow *f)
{
    uint64_t total = 0;
    uint32_t r[4];
    for (int i = 0; i < f->n; i++) total += (uint64_t)f->left[i];
    if (total == 0) return -1;
    tp_philox(f->key, (uint64_t)f->draws++, 0, r);
    uint64_t at = ((uint64_t)r[1] << 32 | r[0]) % total;
    for (int i = 0;; i++) {
        if (at < (uint64_t)f->left[i]) return i;
        at -= (uint64_t)f->left[i];
    }
}
static tp_status tp__mix_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__many_flow *f = (tp__many_flow *)df->user;
    for (int i; (i = tp__mix_draw(f)) >= 0;) {
        const tp_status st = tp_df_next(f->df[i], dp);
        if (st == TP_OK) f->left[i]--;
        if (st != TP_OK && st != TP_END) f->draws--;
        if (st != TP_END) return st;
        f->left[i] = 0;
    }
    return TP_END;
}
/* The sizes, for restart. */
static tp_status tp__mix_sizes(tp__many_flow *f)
{
    int64_t sum = 0;
    for (int i = 0; i < f->n; i++) {
        f->left[i] = tp_df_size(f->df[i]);
        if (f->left[i] < 0 || f->left[i] > INT64_MAX - sum)
            return tp_fail(TP_ERR_ARG,
                           "tp_df_random_mix: it is not known how many datapoints flow %d (%s) has: use "
                           "tp_df_random_choose, or give it a size with tp_df_fixed_size",
                           i, f->df[i]->name);
        sum += f->left[i];
    }
    return TP_OK;
}
static tp_status tp__mix_restart(tp_dataflow *df, int64_t pass)
{
    const tp_status st = tp__mix_sizes((tp__many_flow *)df->user);
    return st == TP_OK ? tp__choose_restart(df, pass) : st;
}
static tp_status tp__mix_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    tp__many_flow *f = (tp__many_flow *)df->user;
    for (int i; *skipped < n && (i = tp__mix_draw(f)) >= 0;) {
        int64_t k = 0;
        const tp_status st = tp_df_seek(f->df[i], 1, &k);
        if (st != TP_OK) {
            f->draws--;
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
    tp_dataflow *df = tp__many_new(d->dfs, d->n, "tp_df_random_mix", false);
    if (!df || df->next != tp__concat_next) return df;
    tp__many_flow *f = (tp__many_flow *)df->user;
    df->seed = (uint64_t)tp__int_option((int64_t)d->seed, 42);
    df->next = tp__mix_next;
    df->restart = tp__mix_restart;
    df->seek = tp__mix_seek;
    f->left = (int64_t *)tp_calloc((size_t)f->n, sizeof *f->left);
    if (!f->left) {
        tp_df_free(df);
        return NULL;
    }
    const tp_status st = tp__mix_sizes(f);
    if (st == TP_OK) return df;
    tp_df_free(df);
    return tp__df_failed(&d->at_, st);
}

/* -- filter ---- >>df filter */

typedef struct tp__keep_flow {
    tp_dataflow *df;
    tp_filter_fn keep;
    tp_map_call call;
    void (*release)(void *user);
} tp__keep_flow;

static tp_status tp__keep_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__keep_flow *f = (tp__keep_flow *)df->user;
    for (;;) {
        const tp_status st = tp_df_next(f->df, dp);
        if (st != TP_OK) return st;
        const bool stays = f->keep ? f->keep(dp, &f->call) : dp->n > 0;
        f->call.index++;
        if (stays) return TP_OK;
    }
}
static tp_status tp__keep_restart(tp_dataflow *df, int64_t pass)
{
    tp__keep_flow *f = (tp__keep_flow *)df->user;
    f->call.key = tp__df_key(df, pass);
    f->call.pass = pass;
    f->call.index = 0;
    return tp_df_restart(f->df, pass);
}
static int64_t tp__keep_size(tp_dataflow *df) { return tp_df_size(((const tp__keep_flow *)df->user)->df); }
static void tp__keep_close(tp_dataflow *df)
{
    tp__keep_flow *f = (tp__keep_flow *)df->user;
    tp_df_free(f->df);
    if (f->release) f->release(f->call.user);
}

TP_DEF tp_dataflow *tp_df_filter_(const tp_df_filter_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    tp_dataflow *df;
    if (!tp__df_around(&d->at_, d->df, "tp_df_filter", sizeof(tp__keep_flow), d->seed, &df)) {
        if (d->release) d->release(d->user);
        return df;
    }
    tp__keep_flow *f = (tp__keep_flow *)df->user;
    f->df = d->df;
    f->keep = d->keep;
    f->call.user = d->user;
    f->release = d->release;
    df->next = tp__keep_next;
    df->restart = tp__keep_restart;
    df->size = tp__keep_size;
    df->close = tp__keep_close;
    return df;
}

/* -- repeated_point ---- >>df repeated_point */

typedef struct tp__again_flow {
    tp_dataflow *df;
    int64_t num, left; /* how often the one in `in` is yet to be given */
    tp_datapoint in;
} tp__again_flow;

static tp_status tp__again_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__again_flow *f = (tp__again_flow *)df->user;
    tp_status st = TP_OK;
    if (f->left == 0) {
        st = tp_df_next(f->df, &f->in);
        if (st == TP_OK) f->left = f->num;
    }
    if (st == TP_OK) st = tp_datapoint_view(dp, &f->in);
    if (st == TP_OK) f->left--;
    return st;
}
static tp_status tp__again_restart(tp_dataflow *df, int64_t pass)
{
    tp__again_flow *f = (tp__again_flow *)df->user;
    f->left = 0;
    return tp_df_restart(f->df, pass);
}
static int64_t tp__again_size(tp_dataflow *df)
{
    const tp__again_flow *f = (const tp__again_flow *)df->user;
    const int64_t n = tp_df_size(f->df);
    return n < 0 || n > INT64_MAX / f->num ? -1 : n * f->num;
}
static tp_status tp__again_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    tp__again_flow *f = (tp__again_flow *)df->user;
    *skipped = n < f->left ? n : f->left;
    f->left -= *skipped;
    const int64_t rest = n - *skipped, whole = rest / f->num;
    if (whole > 0) {
        int64_t k = 0;
        const tp_status st = tp_df_seek(f->df, whole, &k);
        *skipped += k * f->num;
        if (st != TP_OK || k < whole) return st;
    }
    if (rest % f->num == 0) return TP_OK;
    const tp_status st = tp_df_next(f->df, &f->in); /* some of it: it is needed */
    if (st == TP_END) return TP_OK;
    if (st != TP_OK) return st;
    f->left = f->num - rest % f->num;
    *skipped = n;
    return TP_OK;
}
static void tp__again_close(tp_dataflow *df)
{
    tp__again_flow *f = (tp__again_flow *)df->user;
    tp_df_free(f->df);
    tp_datapoint_free(&f->in);
}

TP_DEF tp_dataflow *tp_df_repeated_point(tp_dataflow *child, int64_t num)
{
    tp_dataflow *df;
    if (!tp__df_around(NULL, child, "tp_df_repeated_point", sizeof(tp__again_flow), 0, &df)) return df;
    tp__again_flow *f = (tp__again_flow *)df->user;
    f->df = child;
    f->num = num;
    df->next = tp__again_next;
    df->restart = tp__again_restart;
    df->size = tp__again_size;
    df->seek = tp__again_seek;
    df->close = tp__again_close;
    if (num < 1)
        return TP__REFUSE(df, NULL, TP_ERR_ARG, "tp_df_repeated_point: %lld times: give a positive number",
                          (long long)num);
    return df;
}

/* -- cache ---- >>df cache */

typedef struct tp__cache_flow {
    tp__order order; /* from pass 1 on, when all is there */
    tp_dataflow *df;
    tp_datapoint *point; /* n of them, and room */
    int64_t n, cap, at;  /* at: the next of pass 0 */
    bool shuffle, begun, complete;
} tp__cache_flow;

/* One more, TP_END when there was none. */
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
        const tp_status made = tp__order_init(&f->order, f->n, f->shuffle);
        f->complete = made == TP_OK;
        return made == TP_OK ? TP_END : made;
    }
    if (st == TP_OK) st = tp__datapoint_own(&f->point[f->n]);
    if (st == TP_OK) f->n++;
    return st;
}
static tp_status tp__cache_complete(tp__cache_flow *f)
{
    tp_status st = TP_OK;
    while (st == TP_OK) st = tp__cache_read(f);
    return st == TP_END ? TP_OK : st;
}

static tp_status tp__cache_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__cache_flow *f = (tp__cache_flow *)df->user;
    int64_t i = f->at;
    tp_status st = df->pass_ > 0 ? tp__cache_complete(f) : f->at < f->n ? TP_OK : tp__cache_read(f);
    if (st != TP_OK) return st;
    if (df->pass_ > 0) i = tp__order_take(&f->order);
    else f->at++;
    return i < 0 ? TP_END : tp_datapoint_view(dp, &f->point[i]);
}
static tp_status tp__cache_restart(tp_dataflow *df, int64_t pass)
{
    tp__cache_flow *f = (tp__cache_flow *)df->user;
    f->at = 0;
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
    tp_df_free(f->df);
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
    f->shuffle = tp__yes(d->shuffle, false);
    df->next = tp__cache_next;
    df->restart = tp__cache_restart;
    df->size = tp__cache_size;
    df->seek = tp__cache_seek;
    df->close = tp__cache_close;
    return df;
}

/* -- batch_by_shape ---- >>df batch_by_shape */

typedef struct tp__by_shape {
    tp_shape shape;
    int64_t filled; /* rows of the batch */
    tp_datapoint batch;
} tp__by_shape;

typedef struct tp__by_shape_flow {
    tp_dataflow *df;
    int64_t batch, index;
    int64_t done; /* the holders have what passes 0 to done-1 left over; -1: they are in the midst of a pass */
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

/* The next datapoint goes where it belongs: *full is that holder if it has a batch now. */
static tp_status tp__by_shape_put(tp_dataflow *df, tp__by_shape **full)
{
    tp__by_shape_flow *f = (tp__by_shape_flow *)df->user;
    *full = NULL;
    tp_status st = tp_df_next(f->df, &f->in);
    if (st != TP_OK) return st;
    if (f->idx >= f->in.n)
        return tp_fail(TP_ERR_ARG, "%s: component %d decides, but a datapoint has %d components", df->name, f->idx,
                       f->in.n);
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
    f->index = 0;
    return st;
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
    tp_df_free(f->df);
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
    f->keep_state = tp__yes(d->keep_state, true);
    df->next = tp__by_shape_next;
    df->restart = tp__by_shape_restart;
    df->size = tp__by_shape_size;
    df->close = tp__by_shape_close;
    if (d->batch_size < 1)
        return TP__REFUSE(df, &d->at_, TP_ERR_ARG, "tp_df_batch_by_shape: batch_size is %lld, it must be at least 1",
                          (long long)d->batch_size);
    if (d->idx < 0)
        return TP__REFUSE(df, &d->at_, TP_ERR_ARG, "tp_df_batch_by_shape: there is no component %d", d->idx);
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
static void tp__print_close(tp_dataflow *df) { tp_df_free(((tp__print_flow *)df->user)->df); }

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

/* ==== >>readers ======================================================================================== */
TP__COLD_BEGIN

/* -- cifar ---- >>df cifar
 * A record is one label byte (CIFAR-100: coarse, fine), then 32x32 bytes of red, of green, of blue. */

enum { TP__CIFAR_SIDE = 32, TP__CIFAR_PIXELS = 32 * 32, TP__CIFAR_IMAGE = 3 * 32 * 32 };

typedef struct tp__cifar_kind {
    const char *name, *folder, *archive,
        *variable; /* "tp_df_cifar10", "cifar10", its folder in the archive, "cifar10_data" */
    const char *train[6], *test[2];
    int labels, classes[2]; /* label bytes, and how many classes each has */
} tp__cifar_kind;

/* Append the records of one file to image (N,32,32,3) and label (N), which have room. */
static tp_status tp__cifar_parse(const tp__cifar_kind *kind, int which_label, const void *data, size_t size,
                                 const char *what, tp_tensor *image, tp_tensor *label, int64_t *at)
{
    const size_t record = (size_t)kind->labels + TP__CIFAR_IMAGE;
    if (size == 0 || size % record)
        return tp_fail(TP_ERR_FORMAT, "%s has %zu bytes, which is no number of records of %zu bytes", what, size,
                       record);
    const uint8_t *p = (const uint8_t *)data;
    for (size_t i = 0; i < size / record; i++, p += record, ++*at) {
        for (int k = 0; k < kind->labels; k++)
            if (p[k] >= kind->classes[k])
                return tp_fail(TP_ERR_FORMAT, "%s: record %zu at byte %zu has label %d, there are %d classes", what, i,
                               i * record, p[k], kind->classes[k]);
        ((int32_t *)label->data)[*at] = p[which_label];
        const uint8_t *plane = p + kind->labels;
        uint8_t *to = (uint8_t *)image->data + (size_t)*at * TP__CIFAR_IMAGE;
        for (int j = 0; j < TP__CIFAR_PIXELS; j++)
            for (int c = 0; c < 3; c++) *to++ = plane[c * TP__CIFAR_PIXELS + j];
    }
    return TP_OK;
}

/* Give t `rows` rows, and keep those it has. */
static tp_status tp__rows_grow(tp_tensor *t, int64_t rows)
{
    tp_tensor more;
    memset(&more, 0, sizeof more);
    tp_shape shape = t->shape;
    shape.dim[0] = rows;
    const tp_status st = tp_tensor_resize(&more, t->dtype, shape);
    if (st != TP_OK) return st;
    if (tp_tensor_bytes(t)) memcpy(more.data, t->data, tp_tensor_bytes(t));
    tp_tensor_free(t);
    *t = more;
    return TP_OK;
}

/* The default place of a data set, or dir: "$TP_DATA/cifar10", "$TENSORPACK_DATASET/cifar10_data". */
static void tp__data_dir(tp_buf *b, const char *dir, const char *ours, const char *theirs)
{
    const char *data = getenv("TP_DATA"), *sets = getenv("TENSORPACK_DATASET"), *home = getenv("HOME");
    if (dir) tp_buf_printf(b, "%s", dir);
    else if (data && *data) tp_buf_printf(b, "%s/%s", data, ours);
    else if (sets && *sets) tp_buf_printf(b, "%s/%s", sets, theirs);
    else tp_buf_printf(b, "%s/tensorpack_data/%s", home ? home : ".", theirs);
}

/* dir/file, dir/file.gz, or the same in the folder that the archive makes. */
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
    const int64_t none[4] = {0, TP__CIFAR_SIDE, TP__CIFAR_SIDE, 3};
    int64_t rows = 0;
    image->dtype = TP_U8;
    image->shape = tp_make_shape_n(4, none);
    label->dtype = TP_I32;
    label->shape = tp_make_shape_n(1, none);
    for (int i = 0; file[i] && st == TP_OK; i++) {
        char *data = NULL;
        size_t size = 0;
        st = tp__cifar_read(kind, place.data, file[i], &path, &data, &size);
        const int64_t more = (int64_t)(size / ((size_t)kind->labels + TP__CIFAR_IMAGE));
        if (st == TP_OK) st = tp__rows_grow(image, rows + more);
        if (st == TP_OK) st = tp__rows_grow(label, rows + more);
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
    if (st == TP_OK) st = tp__rows_ready(df, NULL, tp__yes(d->shuffle, train) ? TP_YES : TP_NO);
    if (st == TP_OK) return df;
    tp_df_free(df);
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
    tp_df_cifar10_desc same;
    memset(&same, 0, sizeof same);
    same.at_ = d->at_;
    same.which = d->which;
    same.dir = d->dir;
    same.shuffle = d->shuffle;
    same.seed = d->seed;
    return tp__df_cifar(&tp__cifar100, tp__yes(d->coarse, false) ? 0 : 1, &same);
}

/* -- means */

static tp_status tp__df_mean(tp_dataflow *df, int index, bool channels, tp_tensor *mean)
{
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
        for (int64_t i = 0; i < size; i++) sum[i % count] += tp_tensor_get(t, i);
    }
    if (st == TP_END) st = n ? TP_OK : tp_fail(TP_ERR_STATE, "%s gave no datapoint to take a mean of", df->name);
    tp_datapoint_free(&dp);
    if (st == TP_OK) st = tp_tensor_resize(mean, TP_F32, channels ? tp_make_shape_n(1, &count) : shape);
    if (st == TP_OK) st = tp_df_restart(df, 0);
    const double per = st == TP_OK && count ? (double)n * (double)(tp_shape_size(&shape) / count) : 1;
    for (int64_t i = 0; i < count && st == TP_OK; i++) ((float *)mean->data)[i] = (float)(sum[i] / per);
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
        tp_tensor *t = tp_dict_find(dict, name[j]);
        if (!t)
            return tp_fail(TP_ERR_NAME, "%s has no array \"%s\"; its first is \"%s\"", d->path, name[j],
                           dict->n ? dict->item[0].name : "none");
        if (!t->data && tp_tensor_size(t))
            return tp_fail(TP_ERR_ARG, "%s: \"%s\" is asked for twice", d->path, name[j]);
        f->array[j] = *t; /* moved */
        const tp_type type = {t->dtype, t->shape};
        memset(t, 0, sizeof *t);
        t->dtype = type.dtype;
        t->shape = type.shape;
    }
    return tp__rows_ready(df, name, d->shuffle);
}

TP_DEF tp_dataflow *tp_df_npz_(const tp_df_npz_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    if (!d->path) return tp_df_fail(&d->at_, TP_ERR_ARG, "tp_df_npz: the path is NULL");
    int n = 0;
    while (n < TP_MAX_COMPONENTS && d->names[n]) n++;
    if (d->names[n]) return tp_df_fail(&d->at_, TP_ERR_ARG, "tp_df_npz: at most %d names", TP_MAX_COMPONENTS);
    tp_dict dict = {NULL, 0, 0};
    tp_status st = tp_npz_load(d->path, &dict);
    if (st == TP_OK && n == 0) n = dict.n;
    if (st == TP_OK && (n < 1 || n > TP_MAX_COMPONENTS))
        st = tp_fail(TP_ERR_FORMAT, "%s has %d arrays: name 1 to %d of them", d->path, n, TP_MAX_COMPONENTS);
    tp_dataflow *df = st == TP_OK ? tp__rows_new("tp_df_npz", n, d->seed) : NULL;
    if (st == TP_OK) st = df ? tp__npz_rows(df, &dict, d, n) : TP_ERR_NOMEM;
    tp_dict_free(&dict);
    if (st == TP_OK) return df;
    tp_df_free(df);
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

/* A file that is read from. */
typedef struct tp__tfrecord_file {
    const char *path;
    int fd;
    uint64_t size;
} tp__tfrecord_file;

static tp_status tp__tfrecord_open_file(tp__tfrecord_file *f, const char *path)
{
    tp__os_info is;
    f->path = path;
    f->fd = tp__os_open(path, TP__OS_READ);
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

/* Exactly n bytes at `at`. */
static tp_status tp__tfrecord_bytes(const tp__tfrecord_file *f, uint64_t at, void *to, size_t n)
{
    if (tp__os_seek(f->fd, (int64_t)at) != 0)
        return tp_fail(TP_ERR_IO, "%s cannot be read: %s", f->path, tp__os_error());
    const int64_t got = tp__os_read(f->fd, to, n);
    if (got < 0) return tp_fail(TP_ERR_IO, "%s cannot be read: %s", f->path, tp__os_error());
    if ((uint64_t)got != n) return tp_fail(TP_ERR_FORMAT, "%s has become shorter while it was read", f->path);
    return TP_OK;
}

/* The size of the record that begins at `at`, which is not the end of the file. */
static tp_status tp__tfrecord_size(const tp__tfrecord_file *f, int64_t record, uint64_t at, uint64_t *size)
{
    uint8_t head[TP__TFRECORD_HEAD];
    const uint64_t left = f->size - at;
    if (left < TP__TFRECORD_FRAME)
        return tp_fail(TP_ERR_FORMAT, "%s: record %lld at byte %llu is cut short: %llu bytes are left", f->path,
                       (long long)record, (unsigned long long)at, (unsigned long long)left);
    const tp_status st = tp__tfrecord_bytes(f, at, head, sizeof head);
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

/* Room for n bytes in b, whose contents go. */
static bool tp__bytes_room(tp_buf *b, size_t n)
{
    if (n <= b->cap) return true;
    char *p = (char *)tp_malloc(n);
    if (!p) return false;
    tp_free(b->data);
    b->data = p;
    b->cap = n;
    return true;
}

/* The bytes of the record, whose size is known, into b. */
static tp_status tp__tfrecord_data(const tp__tfrecord_file *f, int64_t record, uint64_t at, uint64_t size, tp_buf *b)
{
    if (!tp__bytes_room(b, (size_t)size + 4)) return TP_ERR_NOMEM;
    const tp_status st = tp__tfrecord_bytes(f, at + TP__TFRECORD_HEAD, b->data, (size_t)size + 4);
    if (st != TP_OK) return st;
    if (tp__le32((const uint8_t *)b->data + size) != tp__crc_mask(tp_crc32c(0, b->data, (size_t)size)))
        return tp_fail(TP_ERR_FORMAT,
                       "%s: record %lld at byte %llu: the checksum of its data does not match: the file "
                       "is damaged",
                       f->path, (long long)record, (unsigned long long)at);
    return TP_OK;
}

struct tp_tfrecord_reader {
    tp__tfrecord_file file;
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
    const tp_status st = tp__tfrecord_open_file(&r->file, (const char *)(r + 1));
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

/* -- tf.train.Example ---- >>example
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
        tp__example_list(t, &list);
        tp__pb_message(&feature,
                       t->dtype == TP_U8             ? TP__EXAMPLE_BYTES
                       : tp_dtype_is_float(t->dtype) ? TP__EXAMPLE_FLOATS
                                                     : TP__EXAMPLE_INTS,
                       &list);
        tp__pb_text(&entry, 1, names[i]);
        tp__pb_message(&entry, 2, &feature);
        tp__pb_message(&features, 1, &entry);
    }
    tp__pb_message(out, 1, &features);
    return out->failed ? tp_fail(TP_ERR_NOMEM, "out of memory for a tf.train.Example") : TP_OK;
}

/* What stands in a Feature: which list, and the bytes of its message. */
typedef struct tp__example_value {
    int kind;
    tp__pb list;
    int64_t n;     /* values; of a bytes list, the strings */
    tp__pb string; /* the last string */
} tp__example_value;

/* Count the values of a list; false: damaged. */
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
        } else if (f.wire == 2) { /* the last byte of each varint has its high bit clear */
            for (const uint8_t *b = f.sub.at; b < f.sub.end; b++) v->n += *b < 128;
            if (bytes && f.sub.end[-1] >= 128) return false;
        } else {
            return false;
        }
    }
    return !p.bad;
}

/* Find the feature; the last one of a name counts, as in protobuf. false: the message is damaged. */
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

/* One number of an int64 list; false: it does not fit into dtype. */
static bool tp__example_int(tp_dtype dtype, void *to, int64_t v)
{
    if (dtype == TP_I32 && (v < INT32_MIN || v > INT32_MAX)) return false;
    if (dtype == TP_U8 && (v < 0 || v > 255)) return false;
    if (dtype == TP_BOOL && (v < 0 || v > 1)) return false;
    tp_convert(to, dtype, &v, TP_I64, 1);
    return true;
}

/* The values of a float or an int64 list; t has room for them. */
static bool tp__example_numbers(const tp__example_value *v, tp_tensor *t)
{
    tp__pb p = v->list, many;
    tp__pb_field f;
    char *to = (char *)t->data;
    const size_t width = tp_dtype_size(t->dtype);
    while (tp__pb_next(&p, &f)) {
        if (f.number != 1) continue;
        many = f.sub;
        const bool packed = f.wire == 2;
        for (bool first = true; packed ? many.at < many.end && !many.bad : first; first = false, to += width) {
            const uint64_t bits = !packed                         ? f.value
                                  : v->kind == TP__EXAMPLE_FLOATS ? tp__pb_get_fixed(&many, 4)
                                                                  : tp__pb_get_varint(&many);
            if (many.bad) return false;
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

/* The shape with its open dimension given by the number of values. */
static bool tp__example_shape(tp_shape *shape, int64_t count)
{
    int64_t known = 1;
    int open = -1;
    for (int i = 0; i < shape->ndim; i++) {
        const int64_t d = shape->dim[i];
        if (d < 0 && open >= 0) return false;
        if (d < 0) open = i;
        else if (d && known > INT64_MAX / d) return false;
        else known *= d;
    }
    if (open < 0) return known == count;
    if (known == 0 || count % known) return false;
    shape->dim[open] = count / known;
    return true;
}

static tp_status tp__example_feature(const tp__example_value *v, const char *what, const tp_spec *spec, tp_tensor *t)
{
    static const char *const list[] = {"nothing", "a bytes list", "a float list", "an int64 list"};
    const tp_dtype dtype = spec->dtype == TP_DTYPE_UNSET ? TP_F32 : spec->dtype;
    const size_t width = tp_dtype_size(dtype);
    tp_shape shape = spec->shape;
    char text[TP_SHAPE_TEXT];
    if (v->kind == TP__EXAMPLE_FLOATS && !tp_dtype_is_float(dtype))
        return tp_fail(TP_ERR_DTYPE, "%s: feature \"%s\" is a float list, it cannot be read as %s", what, spec->name,
                       tp_dtype_name(dtype));
    int64_t count = v->n;
    if (v->kind == TP__EXAMPLE_BYTES && v->n > 1)
        return tp_fail(TP_ERR_FORMAT, "%s: feature \"%s\" has %lld strings, only one can be read", what, spec->name,
                       (long long)v->n);
    const size_t bytes = v->kind == TP__EXAMPLE_BYTES ? (size_t)(v->string.end - v->string.at) : 0;
    if (bytes % width)
        return tp_fail(TP_ERR_FORMAT, "%s: feature \"%s\" has %zu bytes, which is no number of %s elements", what,
                       spec->name, bytes, tp_dtype_name(dtype));
    if (v->kind == TP__EXAMPLE_BYTES) count = (int64_t)(bytes / width);
    if (!tp__example_shape(&shape, count))
        return tp_fail(TP_ERR_SHAPE, "%s: feature \"%s\" is %s, %lld elements, which are no %s", what, spec->name,
                       list[v->kind], (long long)count, tp_shape_text(&spec->shape, text));
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
        return tp_fail(TP_ERR_FORMAT, "%s: feature \"%s\" holds a number that is damaged or does not fit into %s", what,
                       spec->name, tp_dtype_name(dtype));
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
    int64_t number; /* in its file */
    int file;
} tp__tfrecord_place;

enum { TP__TFRECORD_OPEN = 32 }; /* files that are kept open */

typedef struct tp__tfrecord_flow {
    tp__order order;
    tp__tfrecord_place *record;
    int64_t room;
    char **path;
    tp__tfrecord_file open[TP__TFRECORD_OPEN]; /* file i in place i % 32; path NULL: none */
    tp_spec *feature;
    int n_feature;
    tp_arena mem;
    tp_buf data, what;
} tp__tfrecord_flow;

/* The file, opened if it is not. */
static tp_status tp__tfrecord_at(tp__tfrecord_flow *f, int file, tp__tfrecord_file **out)
{
    tp__tfrecord_file *o = &f->open[file % TP__TFRECORD_OPEN];
    *out = o;
    if (o->path == f->path[file]) return TP_OK;
    if (o->path) tp__os_close(o->fd);
    o->path = NULL;
    const tp_status st = tp__tfrecord_open_file(o, f->path[file]);
    if (st != TP_OK) o->path = NULL;
    return st;
}

/* Where the records of a file begin. */
static tp_status tp__tfrecord_scan(tp__tfrecord_flow *f, int file)
{
    tp__tfrecord_file *o;
    tp_status st = tp__tfrecord_at(f, file, &o);
    uint64_t at = 0;
    for (int64_t number = 0; st == TP_OK && at < o->size; number++) {
        uint64_t size = 0;
        if ((st = tp__tfrecord_size(o, number, at, &size)) != TP_OK) break;
        if (f->order.n == f->room) {
            size_t bytes;
            const int64_t room = f->room ? 2 * f->room : 64;
            if (!tp_mul_size((size_t)room, sizeof(tp__tfrecord_place), &bytes))
                return tp_fail(TP_ERR_NOMEM, "too many records");
            tp__tfrecord_place *more = (tp__tfrecord_place *)tp_realloc(f->record, bytes);
            if (!more) return TP_ERR_NOMEM;
            f->record = more;
            f->room = room;
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
    tp__tfrecord_file *o;
    tp_status st = tp__tfrecord_at(f, r->file, &o);
    if (st == TP_OK && o->size < r->at + r->size + TP__TFRECORD_FRAME)
        st = tp_fail(TP_ERR_FORMAT, "%s has become shorter since the flow was made", o->path);
    if (st == TP_OK) st = tp__tfrecord_data(o, r->number, r->at, r->size, &f->data);
    if (st != TP_OK) return st;
    if (f->feature) {
        f->what.len = 0;
        tp_buf_printf(&f->what, "%s: record %lld at byte %llu", o->path, (long long)r->number,
                      (unsigned long long)r->at);
        if (f->what.failed) return tp_fail(TP_ERR_NOMEM, "out of memory for the name of a record");
        return tp_example_parse(f->data.data, (size_t)r->size, f->what.data, f->feature, f->n_feature, dp);
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
    tp_buf_free(&f->what);
    tp_arena_free(&f->mem);
}

/* Copies of the paths and the features. */
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
    if (st == TP_OK) st = tp__order_init(&f->order, f->order.n, tp__yes(d->shuffle, false));
    if (st == TP_OK) return df;
    tp_df_free(df);
    return tp__df_failed(&d->at_, st);
}

TP_DEF tp_status tp_df_save_tfrecord(tp_dataflow *df, const char *path, const char *const *names, int n)
{
    TP__REQUIRE(df && path && n >= 0 && (names || n == 0), TP_ERR_ARG)

    tp_writer *w = NULL;
    tp_datapoint dp = {0, NULL, 0};
    tp_buf b = {NULL, 0, 0, false};
    tp_status st = tp_df_restart(df, 0);
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
 * The text is read in place: a field in quotes moves to the front of where it stood, and a 0 is put behind each. */

typedef struct tp__csv {
    char *at, *end; /* *end is 0 */
    const char *what;
    int64_t line; /* from 1, of what is at `at` */
    char separator;
} tp__csv;

enum { TP__CSV_MORE, TP__CSV_LAST, TP__CSV_BAD }; /* another field follows in the row, none does, see the error */

/* The next field of the row, and what follows it. */
static int tp__csv_field(tp__csv *c, char **field, size_t *length)
{
    char *p = c->at, *to = c->at;
    *field = p;
    if (p < c->end && *p == '"') {
        const int64_t began = c->line;
        for (p++;; p++) {
            if (p == c->end) {
                tp_fail(TP_ERR_FORMAT, "%s:%lld: a quote is opened here and never closed", c->what, (long long)began);
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
                    c->what, (long long)c->line);
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

/* Pass over empty lines; false at the end. */
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

/* A whole number in decimal digits, with blanks around it. */
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

/* A field as element i of t; false: it is no such number. */
static bool tp__csv_number(tp_tensor *t, int64_t i, const char *field, size_t length)
{
    const char *end = field + length, *after = field;
    if (tp__csv_blank(field, end)) return false;
    if (t->dtype == TP_F32) {
        ((float *)t->data)[i] = tp_parse_float(field, &after);
        return after > field && tp__csv_blank(after, end);
    }
    if (t->dtype == TP_F64) {
        ((double *)t->data)[i] = tp_parse_double(field, &after);
        return after > field && tp__csv_blank(after, end);
    }
    int64_t v;
    if (!tp__csv_int(field, end, &v)) return false;
    if (t->dtype == TP_I64) ((int64_t *)t->data)[i] = v;
    else if (v < INT32_MIN || v > INT32_MAX) return false;
    else ((int32_t *)t->data)[i] = (int32_t)v;
    return true;
}

/* One that is to be read: which fields of a row become which component. */
typedef struct tp__csv_take {
    const tp_csv_column *column; /* n of them */
    int n;
    int64_t *first; /* field where each begins, -1: the header has not told yet */
} tp__csv_take;

static int64_t tp__csv_count(const tp_csv_column *c) { return c->count ? c->count : 1; }

/* The first line, if there is a header: the numbers of the columns that have names. */
static tp_status tp__csv_header(tp__csv *c, tp__csv_take *t, bool header, int64_t *fields)
{
    char *field;
    size_t length;
    const int64_t line = c->line;
    for (int j = 0; j < t->n; j++) t->first[j] = t->column[j].name ? -1 : t->column[j].index;
    if (!header) return TP_OK;
    if (!tp__csv_row(c))
        return tp_fail(TP_ERR_FORMAT, "%s is empty: a line with the names of the columns was to come", c->what);
    int more = TP__CSV_MORE;
    for (*fields = 0; more == TP__CSV_MORE; ++*fields) {
        if ((more = tp__csv_field(c, &field, &length)) == TP__CSV_BAD) return TP_ERR_FORMAT;
        for (int j = 0; j < t->n; j++) {
            const char *name = t->column[j].name;
            if (!name || strlen(name) != length || memcmp(name, field, length) != 0) continue;
            if (t->first[j] >= 0)
                return tp_fail(TP_ERR_FORMAT, "%s:%lld: columns %lld and %lld are both called \"%s\": give the number",
                               c->what, (long long)line, (long long)t->first[j], (long long)*fields, name);
            t->first[j] = *fields;
        }
    }
    for (int j = 0; j < t->n; j++)
        if (t->first[j] < 0)
            return tp_fail(TP_ERR_NAME, "%s:%lld: there is no column called \"%s\"", c->what, (long long)line,
                           t->column[j].name);
    return TP_OK;
}

/* One row into element `row` of the arrays. fields: how many a row has, 0: not known yet. */
static tp_status tp__csv_read_row(tp__csv *c, const tp__csv_take *t, tp__rows_flow *f, int64_t row, int64_t *fields)
{
    const int64_t line = c->line;
    char *field;
    size_t length;
    int more = TP__CSV_MORE;
    int64_t k = 0;
    for (; more == TP__CSV_MORE; k++) {
        const int64_t here = c->line;
        if ((more = tp__csv_field(c, &field, &length)) == TP__CSV_BAD) return TP_ERR_FORMAT;
        for (int j = 0; j < t->n; j++) {
            const int64_t count = tp__csv_count(&t->column[j]), part = k - t->first[j];
            if (part < 0 || part >= count) continue;
            if (f->kind[j] == TP__ROW_TEXT) {
                int64_t *place = (int64_t *)f->array[j].data + 2 * row;
                place[0] = (int64_t)(field - f->text);
                place[1] = (int64_t)length;
            } else if (!tp__csv_number(&f->array[j], row * count + part, field, length)) {
                tp__printable name;
                return tp_fail(TP_ERR_FORMAT, "%s:%lld: column %lld%s%s%s: \"%s\" is no %s", c->what, (long long)here,
                               (long long)k, t->column[j].name ? " (" : "", t->column[j].name ? t->column[j].name : "",
                               t->column[j].name ? ")" : "", tp__make_printable(&name, field, length),
                               tp_dtype_name(f->array[j].dtype));
            }
        }
    }
    if (*fields && k != *fields)
        return tp_fail(TP_ERR_FORMAT, "%s:%lld: this line has %lld fields, those before it have %lld", c->what,
                       (long long)line, (long long)k, (long long)*fields);
    *fields = k;
    for (int j = 0; j < t->n; j++)
        if (t->first[j] + tp__csv_count(&t->column[j]) > k)
            return tp_fail(TP_ERR_ARG, "%s:%lld: column %lld was asked for, there are %lld, numbered from 0", c->what,
                           (long long)line, (long long)(t->first[j] + tp__csv_count(&t->column[j]) - 1), (long long)k);
    return TP_OK;
}

/* f->text, `size` bytes and a 0, into f's arrays. */
static tp_status tp__csv_parse(tp__rows_flow *f, size_t size, const char *what, const tp_csv_column *columns,
                               bool header, char separator, int64_t *first)
{
    tp__csv c = {f->text, f->text + size, what, 1, separator};
    const tp__csv_take take = {columns, f->n, first};
    int64_t most = 1, rows = 0, fields = 0;
    if (size >= 3 && memcmp(c.at, "\xEF\xBB\xBF", 3) == 0) c.at += 3; /* a byte order mark */
    for (const char *p = c.at; (p = (const char *)memchr(p, '\n', (size_t)(c.end - p))) != NULL; p++) most++;
    tp__csv_take names = take;
    tp_status st = tp__csv_header(&c, &names, header, &fields);
    for (int j = 0; j < f->n && st == TP_OK; j++) {
        const tp_csv_column *column = &columns[j];
        const int64_t dim[2] = {most, column->dtype == TP_U8 ? 2 : tp__csv_count(column)};
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
        if (c->name && !tp__yes(d->header, true))
            return tp_df_fail(&d->at_, TP_ERR_ARG,
                              "tp_df_csv: column \"%s\" is asked for by name, but there is no header", c->name);
    }
    tp_dataflow *df = tp__rows_new("tp_df_csv", d->n, d->seed);
    if (!df) return NULL;
    tp__rows_flow *f = (tp__rows_flow *)df->user;
    size_t size = 0;
    int64_t *first = (int64_t *)tp_calloc((size_t)d->n, sizeof *first);
    tp_status st = first ? tp_file_read(d->path, true, 0, &f->text, &size) : TP_ERR_NOMEM;
    if (st == TP_OK) st = tp__csv_parse(f, size, d->path, d->columns, tp__yes(d->header, true), separator, first);
    tp_free(first);
    if (st == TP_OK) st = tp__rows_ready(df, NULL, d->shuffle);
    if (st == TP_OK) return df;
    tp_df_free(df);
    return tp__df_failed(&d->at_, st);
}

/* -- text ---- >>vocabulary */

/* The bytes of the character at p: one, where it is no UTF-8. */
static size_t tp__utf8_length(const char *p, const char *end)
{
    const unsigned char c = (unsigned char)*p;
    const size_t n = c >= 0xf0 && c < 0xf8 ? 4 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xc2 && c < 0xe0 ? 2 : 1;
    if ((size_t)(end - p) < n) return 1;
    for (size_t i = 1; i < n; i++)
        if (((unsigned char)p[i] & 0xc0) != 0x80) return 1;
    return n;
}

static bool tp__text_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; }

/* The next character or word from *p on, which moves behind it; NULL at the end. */
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

typedef struct tp__token { /* a different word of a text */
    const char *at;
    size_t length;
    int64_t count, order;
} tp__token;

/* The words that are found so far, by their hashes: slot[] has the number of a token + 1, or 0. */
typedef struct tp__tokens {
    tp__token *token;
    int32_t n, room;
    int32_t *slot;
    size_t n_slot; /* a power of two */
} tp__tokens;

static size_t tp__slot_of(uint64_t hash, size_t n_slot) { return (size_t)hash & (n_slot - 1); }

/* Twice the room, and a table that fits it. */
static tp_status tp__tokens_grow(tp__tokens *t)
{
    if (t->room > INT32_MAX / 4) return tp_fail(TP_ERR_FORMAT, "a text with more than %d different words", t->room);
    const int32_t room = t->room ? 2 * t->room : 256;
    tp__token *more = (tp__token *)tp_realloc(t->token, (size_t)room * sizeof *more);
    if (!more) return TP_ERR_NOMEM;
    t->token = more;
    const size_t n_slot = 2 * (size_t)room;
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
    t->room = room;
    return TP_OK;
}

/* The number of a word, added if it is new; -1: out of memory. */
static int32_t tp__tokens_add(tp__tokens *t, const char *at, size_t length)
{
    if (t->n == t->room && tp__tokens_grow(t) != TP_OK) return -1;
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

static int tp__token_by_order(const void *a, const void *b) /* by count, then by where it came first */
{
    const tp__token *x = (const tp__token *)a, *y = (const tp__token *)b;
    if (x->count != y->count) return x->count > y->count ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}
static int tp__token_by_bytes(const void *a, const void *b) /* by count, then by bytes */
{
    const tp__token *x = (const tp__token *)a, *y = (const tp__token *)b;
    if (x->count != y->count) return x->count > y->count ? -1 : 1;
    const int c = memcmp(x->at, y->at, x->length < y->length ? x->length : y->length);
    return c ? c : x->length < y->length ? -1 : x->length > y->length;
}

/* "<unk>" is first among the tokens: the rare words go, and what they counted is its. */
static void tp__tokens_cut(tp__tokens *t, int64_t min_count, int max_words)
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

/* Copies of the tokens. A 0 in a text is a character of no bytes to strlen; it is refused before. */
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

static tp_status tp__vocabulary_parse(tp_vocabulary *v, const char *text, size_t size, const char *what, bool words,
                                      int64_t min_count, int max_words)
{
    tp__tokens t;
    memset(&t, 0, sizeof t);
    const char *p = text, *token;
    size_t length;
    tp_status st = TP_OK;
    if (size && memchr(text, 0, size)) st = tp_fail(TP_ERR_FORMAT, "%s is no text: it has bytes of 0", what);
    if (st == TP_OK && words && tp__tokens_add(&t, "<unk>", 5) < 0) st = TP_ERR_NOMEM;
    while (st == TP_OK && (token = tp__text_next(&p, text + size, words, &length)) != NULL) {
        const int32_t i = tp__tokens_add(&t, token, length);
        if (i < 0) st = TP_ERR_NOMEM;
        else t.token[i].count++;
    }
    if (st == TP_OK && t.n == (words ? 1 : 0) && size == 0) st = tp_fail(TP_ERR_FORMAT, "%s is empty", what);
    if (st == TP_OK && words) tp__tokens_cut(&t, min_count, max_words);
    else if (st == TP_OK && t.n) qsort(t.token, (size_t)t.n, sizeof *t.token, tp__token_by_order);
    tp_vocabulary_free(v);
    v->unk = -1;
    if (st == TP_OK) st = tp__vocabulary_take(v, &t, words);
    if (st != TP_OK) tp_vocabulary_free(v);
    tp_free(t.token);
    tp_free(t.slot);
    return st;
}

static tp_status tp__vocabulary_load(tp_vocabulary *v, const char *path, bool words, int64_t min_count, int max_words)
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

    return tp__vocabulary_load(v, path, false, 0, 0);
}

TP_DEF tp_status tp_vocabulary_words(tp_vocabulary *v, const char *path, int64_t min_count, int max_words)
{
    TP__REQUIRE(v && path, TP_ERR_ARG)

    if (max_words < 0) return tp_fail(TP_ERR_ARG, "tp_vocabulary_words: max_words is %d", max_words);
    return tp__vocabulary_load(v, path, true, min_count, max_words);
}

/* -- flows of text ---- >>df text */

typedef struct tp__text_flow {
    tp__order order; /* next is the index; never at */
    int32_t *id;
    int64_t n; /* of them */
    int64_t sequence, batch;
    bool random;
} tp__text_flow;

/* The ids of a text; *out is tp_malloc'ed. */
static tp_status tp__text_ids(const tp_vocabulary *v, const char *text, size_t size, const char *what, bool words,
                              int32_t **out, int64_t *n)
{
    const char *p = text, *token;
    size_t length, bytes;
    int64_t many = 0;
    while (tp__text_next(&p, text + size, words, &length)) many++;
    if (!tp_mul_size((size_t)many + 1, sizeof **out, &bytes)) return tp_fail(TP_ERR_NOMEM, "%s is too long", what);
    int32_t *id = (int32_t *)tp_malloc(bytes);
    if (!id) return TP_ERR_NOMEM;
    p = text;
    *n = 0;
    while ((token = tp__text_next(&p, text + size, words, &length)) != NULL) {
        const int is = tp_vocabulary_find(v, token, length);
        if (is < 0) {
            tp__printable name;
            tp_free(id);
            return tp_fail(TP_ERR_NAME, "%s: \"%s\" before byte %zu is not in the vocabulary, and there is no <unk>",
                           what, tp__make_printable(&name, token, length), (size_t)(p - text));
        }
        id[(*n)++] = is;
    }
    *out = id;
    return TP_OK;
}

/* Read the file, and give f the ids of its text by the vocabulary, or by its own where that is NULL. */
static tp_status tp__text_read(tp__text_flow *f, const char *path, const tp_vocabulary *vocabulary, bool words)
{
    tp_vocabulary own;
    memset(&own, 0, sizeof own);
    char *text = NULL;
    size_t size = 0;
    tp_status st = tp_file_read(path, true, 0, &text, &size);
    if (st == TP_OK && !vocabulary) st = tp__vocabulary_parse(&own, text, size, path, words, 1, 0);
    if (st == TP_OK) st = tp__text_ids(vocabulary ? vocabulary : &own, text, size, path, words, &f->id, &f->n);
    tp_vocabulary_free(&own);
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
        return tp_df_fail(&d->at_, TP_ERR_ARG,
                          "tp_df_text_chars: path %s, sequence_length %lld, size %lld: a path and positive numbers",
                          d->path ? d->path : "NULL", (long long)sequence, (long long)d->size);
    tp_dataflow *df = tp__text_new("tp_df_text_chars", d->seed, sequence, 1);
    if (!df) return NULL;
    tp__text_flow *f = (tp__text_flow *)df->user;
    df->next = tp__text_chars_next;
    tp_status st = tp__text_read(f, d->path, d->vocabulary, false);
    const int64_t most = (f->n - 1) / sequence;
    f->random = tp__yes(d->shuffle, true);
    f->order.n = d->size ? d->size : most;
    if (st == TP_OK && f->n <= sequence)
        st = tp_fail(TP_ERR_FORMAT, "%s has %lld characters, a sequence of %lld needs one more than that", d->path,
                     (long long)f->n, (long long)sequence);
    if (st == TP_OK && !f->random && f->order.n > most)
        st = tp_fail(TP_ERR_ARG, "%s has %lld sequences of %lld characters side by side, .size asks for %lld", d->path,
                     (long long)most, (long long)sequence, (long long)d->size);
    if (st == TP_OK) return df;
    tp_df_free(df);
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
    tp_status st = tp__text_read(f, d->path, d->vocabulary, true);
    f->order.n = (f->n / batch - 1) / sequence;
    if (st == TP_OK && f->order.n < 1)
        st = tp_fail(TP_ERR_FORMAT, "%s has %lld words: a batch of %lld sequences of %lld needs at least %lld", d->path,
                     (long long)f->n, (long long)batch, (long long)sequence, (long long)(batch * (sequence + 1)));
    if (st == TP_OK) return df;
    tp_df_free(df);
    return tp__df_failed(&d->at_, st);
}

TP__COLD_END

/* -- stb_image ---- >>stb
 * Compiled for JPEG, PNG and BMP from memory alone, as static functions. Its memory comes from a block that is kept between images,
 * as far as that reaches, then from tp_malloc; what one image may take is limited by its size in pixels. */

typedef struct tp__stb {
    char *block;
    size_t cap, used, need, most; /* need: what would have been enough; most: what one allocation may have */
    bool nomem, over;
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

static TP__THREAD_LOCAL tp__stb *tp__stb_now; /* while an image is decoded */

static void *tp__stb_malloc(size_t size)
{
    tp__stb *s = tp__stb_now;
    const size_t bytes = (size + 63) & ~(size_t)63;
    if (bytes < size || bytes > s->most) {
        s->over = true;
        return NULL;
    }
    s->need += bytes;
    if (s->cap - s->used >= bytes) {
        void *p = s->block + s->used;
        s->used += bytes;
        return p;
    }
    void *p = tp_malloc(size);
    if (!p) s->nomem = true;
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
#define STBI_ASSERT(x)                         ((void)0) /* what is damaged is told, not asserted */
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
#endif
#include TP_STB_IMAGE
#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif
#undef STB_IMAGE_IMPLEMENTATION /* for who includes it after us, in a program of one unit */
#undef STB_IMAGE_STATIC
#endif

TP__COLD_BEGIN

/* -- what an image file says of itself ---- >>image header */

#define TP__MOST_PIXELS ((int64_t)64 << 20)

typedef struct tp__image_look {
    const char *kind; /* NULL: none of the three */
    uint64_t w, h;
    const char *damage; /* NULL: none that is seen without decoding */
} tp__image_look;

static uint32_t tp__be16(const uint8_t *p) { return (uint32_t)p[0] << 8 | p[1]; }
static uint32_t tp__be32(const uint8_t *p) { return tp__be16(p) << 16 | tp__be16(p + 2); }

/* Segments: ff, a kind, a length, what it holds; behind "start of scan" the coded image, in which ff is followed by 0 or by a
 * restart marker. The end has a marker of its own. */
static void tp__look_at_jpeg(const uint8_t *p, size_t n, tp__image_look *look)
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
        at += length;
    }
}

/* 8 bytes, then chunks: length, kind, data, CRC. */
static void tp__look_at_png(const uint8_t *p, size_t n, tp__image_look *look)
{
    look->kind = "PNG";
    look->damage = "it is cut short";
    for (size_t at = 8; n - at >= 12;) {
        const size_t length = tp__be32(p + at);
        if (length > n - at - 12) return;
        if (tp_crc32(0, p + at + 4, length + 4) != tp__be32(p + at + 8 + length)) {
            look->damage = "a checksum does not match";
            return;
        }
        if (memcmp(p + at + 4, "IHDR", 4) == 0 && length >= 8 && !look->w) {
            look->w = tp__be32(p + at + 8);
            look->h = tp__be32(p + at + 12);
        }
        if (memcmp(p + at + 4, "IEND", 4) == 0) {
            look->damage = NULL;
            return;
        }
        at += length + 12;
    }
}

static void tp__look_at_bmp(const uint8_t *p, size_t n, tp__image_look *look)
{
    look->kind = "BMP";
    look->damage = "it is cut short";
    if (n < 26) return;
    look->damage = NULL;
    const bool old = tp__le32(p + 14) == 12;
    const uint32_t h = tp__le32(p + 22);
    look->w = old ? tp__le16(p + 18) : tp__le32(p + 18);
    look->h = old ? tp__le16(p + 20) : h >> 31 ? 0u - h : h; /* from the top, if negative */
}

static tp__image_look tp__look_at_image(const uint8_t *p, size_t n)
{
    tp__image_look look = {NULL, 0, 0, NULL};
    if (n >= 3 && p[0] == 0xff && p[1] == 0xd8 && p[2] == 0xff) tp__look_at_jpeg(p, n, &look);
    else if (n >= 8 && memcmp(p, "\x89PNG\r\n\x1a\n", 8) == 0) tp__look_at_png(p, n, &look);
    else if (n >= 2 && p[0] == 'B' && p[1] == 'M') tp__look_at_bmp(p, n, &look);
    return look;
}

static tp_status tp__image_refuse(const tp__image_look *look, size_t size, const char *what, int64_t max_pixels)
{
    if (size == 0) return tp_fail(TP_ERR_FORMAT, "%s is empty", what);
    if (!look->kind)
        return tp_fail(TP_ERR_FORMAT, "%s is no image: it begins as neither JPEG nor PNG nor BMP does", what);
    if (look->w && look->h > (uint64_t)max_pixels / look->w)
        return tp_fail(TP_ERR_FORMAT, "%s is a %s of %llu x %llu pixels, more than the %lld allowed (.max_pixels)",
                       what, look->kind, (unsigned long long)look->w, (unsigned long long)look->h,
                       (long long)max_pixels);
    if (look->damage) return tp_fail(TP_ERR_FORMAT, "%s is a damaged %s: %s", what, look->kind, look->damage);
    if (!look->w || !look->h)
        return tp_fail(TP_ERR_FORMAT, "%s is a damaged %s: it says nothing of its size", what, look->kind);
    return TP_OK;
}

#ifdef TP__STB
/* After an image: the next one like it finds room in the block. */
static void tp__stb_settle(tp__stb *s, bool keep)
{
    const size_t want = s->need;
    s->used = s->need = 0;
    if (!keep || want <= s->cap || want > (size_t)256 << 20) return;
    char *more = (char *)tp_malloc(want);
    if (!more) return; /* it goes without */
    tp_free(s->block);
    s->block = more;
    s->cap = want;
}

static tp_status tp__image_unpack(tp__stb *s, const uint8_t *data, size_t size, const tp__image_look *look,
                                  const char *what, int channels, tp_tensor *image)
{
    int w = 0, h = 0, have = 0;
    const uint64_t most = (look->w + 64) * (look->h + 64) * 16 + ((uint64_t)1 << 20) + size;
    s->most = most < SIZE_MAX / 2 ? (size_t)most : SIZE_MAX / 2;
    s->nomem = s->over = false;
#ifdef TP__STB_OURS
    tp__stb_now = s;
#endif
    uint8_t *pixels = stbi_load_from_memory(data, (int)size, &w, &h, &have, channels);
    tp_status st = TP_OK;
    if (!pixels && s->nomem) st = TP_ERR_NOMEM;
    else if (!pixels)
        st = tp_fail(TP_ERR_FORMAT, "%s is a damaged %s: %s", what, look->kind,
                     s->over ? "it unpacks to more than its pixels" : stbi_failure_reason());
    else if (w < 1 || h < 1 || (uint64_t)w * (uint64_t)h > look->w * look->h)
        st = tp_fail(TP_ERR_FORMAT, "%s is a damaged %s: it has %d x %d pixels, its header says %llu x %llu", what,
                     look->kind, w, h, (unsigned long long)look->w, (unsigned long long)look->h);
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

/* s keeps the memory; NULL: it is given back. */
static tp_status tp__image_decode(tp__stb *s, const void *data, size_t size, const char *what, int channels,
                                  int64_t max_pixels, tp_tensor *image)
{
    if (channels != 1 && channels != 3)
        return tp_fail(TP_ERR_ARG, "%s: an image with %d channels was asked for: 3 (RGB) or 1 (grey)", what, channels);
    const tp__image_look look = tp__look_at_image((const uint8_t *)data, size);
    const tp_status st = tp__image_refuse(&look, size, what, max_pixels);
    if (st != TP_OK) return st;
    if (size > INT_MAX) return tp_fail(TP_ERR_FORMAT, "%s has %zu bytes, more than an image file can", what, size);
#ifdef TP__STB
    tp__stb mine;
    memset(&mine, 0, sizeof mine);
    tp__stb *use = s ? s : &mine;
    const tp_status done = tp__image_unpack(use, (const uint8_t *)data, size, &look, what, channels, image);
    tp__stb_settle(use, s != NULL);
    return done;
#else
    (void)s, (void)image;
    return tp_fail(
        TP_ERR_UNSUPPORTED,
        "%s is a %s, but this program was built without stb_image.h: install it (Debian: libstb-dev) or define "
        "TP_STB_IMAGE as its path",
        what, look.kind);
#endif
}

TP_DEF tp_status tp_image_decode(const void *data, size_t size, int channels, tp_tensor *image)
{
    TP__REQUIRE((data || size == 0) && image, TP_ERR_ARG)

    return tp__image_decode(NULL, data, size, "the image", channels, TP__MOST_PIXELS, image);
}

/* The bytes of a file into b, whose memory is used again. Nothing but a file is opened: a pipe would be waited for. */
static tp_status tp__file_into(const char *path, uint64_t limit, tp_buf *b)
{
    tp__os_info is;
    if (tp__os_stat(path, true, &is) != 0) return tp_fail(TP_ERR_IO, "%s cannot be opened: %s", path, tp__os_error());
    if (is.kind != TP__OS_FILE) return tp_fail(TP_ERR_IO, "%s is not a file", path);
    if (is.size > limit)
        return tp_fail(TP_ERR_FORMAT, "%s has %llu bytes, more than the %llu that its pixels may have", path,
                       (unsigned long long)is.size, (unsigned long long)limit);
    const int fd = tp__os_open(path, TP__OS_READ);
    if (fd < 0) return tp_fail(TP_ERR_IO, "%s cannot be opened: %s", path, tp__os_error());
    tp_status st = tp__bytes_room(b, (size_t)is.size + 1) ? TP_OK : TP_ERR_NOMEM;
    const int64_t got = st == TP_OK ? tp__os_read(fd, b->data, (size_t)is.size) : 0;
    if (got < 0) st = tp_fail(TP_ERR_IO, "%s cannot be read: %s", path, tp__os_error());
    tp__os_close(fd);
    b->len = got > 0 ? (size_t)got : 0;
    return st;
}

static tp_status tp__image_read(tp__stb *s, const char *path, int channels, int64_t max_pixels, tp_buf *file,
                                tp_tensor *image)
{
    const uint64_t limit =
        (uint64_t)max_pixels > (UINT64_MAX >> 4) ? UINT64_MAX : (uint64_t)max_pixels * 8 + (1u << 20);
    const tp_status st = tp__file_into(path, limit < SIZE_MAX / 2 ? limit : SIZE_MAX / 2, file);
    return st == TP_OK ? tp__image_decode(s, file->data, file->len, path, channels, max_pixels, image) : st;
}

/* Whether a failure is one that TP_SKIP passes over: one of the file, not of the program. */
static bool tp__image_skips(tp_status st) { return st == TP_ERR_IO || st == TP_ERR_FORMAT; }

TP_DEF tp_status tp_map_image(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    TP__REQUIRE(in && out && call, TP_ERR_ARG)

    const tp_image_options *o = (const tp_image_options *)call->user;
    if (in->n < 1 || in->c[0].dtype != TP_U8 || in->c[0].shape.ndim != 1)
        return tp_fail(TP_ERR_ARG, "tp_map_image: component 0 must be a path: uint8 (length)");
    if (o && (o->max_pixels < 0 || (o->channel && o->channel != 1 && o->channel != 3)))
        return tp_fail(TP_ERR_ARG, "tp_map_image: channel is %d and max_pixels %lld", o->channel,
                       (long long)o->max_pixels);
    tp_buf path = {NULL, 0, 0, false}, file = {NULL, 0, 0, false};
    tp_buf_put(&path, in->c[0].data, (size_t)tp_tensor_size(&in->c[0]));
    tp_buf_put(&path, "", 1);
    tp_status st = path.failed ? tp_fail(TP_ERR_NOMEM, "out of memory for the name of a file") : TP_OK;
    if (st == TP_OK && out->n < 1) st = tp_fail(TP_ERR_ARG, "tp_map_image: the datapoint has no components");
    if (st == TP_OK)
        st = tp__image_read(NULL, path.data, o && o->channel ? o->channel : 3,
                            o && o->max_pixels ? o->max_pixels : TP__MOST_PIXELS, &file, &out->c[0]);
    tp_buf_free(&path);
    tp_buf_free(&file);
    if (!o || o->on_error != TP_SKIP || !tp__image_skips(st)) return st;
    tp_log_once(TP_LOG_WARN, "skipped: %s", tp_last_error());
    call->drop = true;
    return TP_OK;
}

/* -- flows of images ---- >>df image */

enum { TP__IMAGE_NEW, TP__IMAGE_GOOD, TP__IMAGE_BAD }; /* what is known of a file */

typedef struct tp__image_flow {
    tp__order order;
    char **path;
    int32_t *label; /* NULL: there are none */
    int64_t room;
    uint8_t *known;
    const char **class_name;
    int n_class, channel;
    int64_t max_pixels;
    bool skip, decode;
    tp_arena mem;
    tp_buf file;
    tp__stb stb;
    tp_tensor passed; /* what seek decodes */
} tp__image_flow;

/* File i decoded; *good false: it is skipped. */
static tp_status tp__image_take(tp__image_flow *f, int64_t i, tp_tensor *image, bool *good)
{
    const tp_status st = tp__image_read(&f->stb, f->path[i], f->channel, f->max_pixels, &f->file, image);
    *good = st == TP_OK;
    f->known[i] = *good ? TP__IMAGE_GOOD : TP__IMAGE_BAD;
    if (*good || !f->skip || !tp__image_skips(st)) return st;
    tp_log(TP_LOG_WARN, "skipped: %s", tp_last_error());
    return TP_OK;
}

static tp_status tp__image_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__image_flow *f = (tp__image_flow *)df->user;
    tp_status st = tp_datapoint_resize(dp, f->label ? 2 : 1);
    for (bool good = false; !good && st == TP_OK;) {
        const int64_t i = tp__order_take(&f->order);
        if (i < 0) return TP_END;
        if (f->label) tp_tensor_view(&dp->c[1], TP_I32, tp_make_shape_n(0, NULL), &f->label[i]);
        if (!f->decode) {
            const int64_t length = (int64_t)strlen(f->path[i]);
            tp_tensor_view(&dp->c[0], TP_U8, tp_make_shape_n(1, &length), f->path[i]);
            return TP_OK;
        }
        if (!f->skip || f->known[i] != TP__IMAGE_BAD) st = tp__image_take(f, i, &dp->c[0], &good);
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
        bool good = f->known[i] == TP__IMAGE_GOOD;
        if (f->known[i] == TP__IMAGE_NEW) st = tp__image_take(f, i, &f->passed, &good);
        *skipped += good;
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
    tp_free(f->stb.block);
    tp_tensor_free(&f->passed);
}

typedef struct tp__image_choice { /* what the three descriptors have in common */
    tp_at at;
    const char *name;
    int channel;
    int64_t max_pixels;
    tp_on_error on_error;
    bool decode, shuffle;
    uint64_t seed;
} tp__image_choice;

static tp_dataflow *tp__image_new(const tp__image_choice *d)
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
    f->max_pixels = d->max_pixels ? d->max_pixels : TP__MOST_PIXELS;
    f->skip = d->on_error == TP_SKIP;
    f->decode = d->decode;
    df->next = tp__image_next;
    df->restart = tp__ordered_restart;
    df->size = tp__ordered_size;
    df->seek = tp__image_seek;
    df->close = tp__image_close;
    return df;
}

/* One more file; dir NULL: path as it is. label -1: it has none. */
static tp_status tp__image_add(tp__image_flow *f, const char *dir, const char *path, size_t length, int32_t label)
{
    if (f->order.n == f->room) {
        const int64_t room = f->room ? 2 * f->room : 64;
        size_t bytes;
        if (!tp_mul_size((size_t)room, sizeof(char *), &bytes)) return tp_fail(TP_ERR_NOMEM, "too many images");
        char **paths = (char **)tp_realloc(f->path, bytes);
        if (!paths) return TP_ERR_NOMEM;
        f->path = paths;
        int32_t *labels = label < 0 ? NULL : (int32_t *)tp_realloc(f->label, (size_t)room * sizeof *labels);
        if (label >= 0 && !labels) return TP_ERR_NOMEM;
        f->label = labels;
        f->room = room;
    }
    char *p = dir ? tp_arena_printf(&f->mem, "%s/%.*s", dir, (int)length, path)
                  : tp_arena_printf(&f->mem, "%.*s", (int)length, path);
    if (!p) return TP_ERR_NOMEM;
    f->path[f->order.n] = p;
    if (f->label) f->label[f->order.n] = label;
    f->order.n++;
    return TP_OK;
}

/* The end of the constructors: everything is added, or st says why not. */
static tp_dataflow *tp__image_made(tp_dataflow *df, const tp__image_choice *d, tp_status st)
{
    tp__image_flow *f = (tp__image_flow *)df->user;
    if (st == TP_OK) st = tp__order_init(&f->order, f->order.n, d->shuffle);
    if (st == TP_OK && !(f->known = (uint8_t *)tp_calloc((size_t)f->order.n + 1, 1))) st = TP_ERR_NOMEM;
    if (st == TP_OK) return df;
    tp_df_free(df);
    return tp__df_failed(&d->at, st);
}

TP_DEF tp_dataflow *tp_df_image_from_file_(const tp_df_image_from_file_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    if (d->n < 1 || !d->files) return tp_df_fail(&d->at_, TP_ERR_ARG, "tp_df_image_from_file: needs at least one file");
    const tp__image_choice choice = {d->at_, "tp_df_image_from_file",    d->channel, d->max_pixels, d->on_error,
                                     true,   tp__yes(d->shuffle, false), d->seed};
    tp_dataflow *df = tp__image_new(&choice);
    if (!df || df->next != tp__image_next) return df;
    tp_status st = TP_OK;
    for (int64_t i = 0; i < d->n && st == TP_OK; i++)
        st = d->files[i] ? tp__image_add((tp__image_flow *)df->user, NULL, d->files[i], strlen(d->files[i]), -1)
                         : tp_fail(TP_ERR_ARG, "tp_df_image_from_file: file %lld is NULL", (long long)i);
    return tp__image_made(df, &choice, st);
}

/* The names in a folder, without those that begin with a dot, in the order of their bytes. */
typedef struct tp__listing {
    char **name;
    int64_t n, room;
    tp_arena mem;
    bool nomem;
} tp__listing;

static bool tp__listing_add(void *user, const char *name)
{
    tp__listing *l = (tp__listing *)user;
    if (name[0] == '.') return false;
    if (l->n == l->room) {
        const int64_t room = l->room ? 2 * l->room : 64;
        char **more = (char **)tp_realloc(l->name, (size_t)room * sizeof *more);
        l->nomem = !more;
        if (!more) return true;
        l->name = more;
        l->room = room;
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

enum { TP__IMAGE_DEPTH = 16 }; /* folders in folders; a link can lead in a circle */

static tp_status tp__image_add_folder(tp__image_flow *f, const char *dir, int32_t label, int depth)
{
    tp__listing l;
    tp_status st = tp__listing_of(&l, dir);
    for (int64_t i = 0; i < l.n && st == TP_OK; i++) {
        tp_buf path = {NULL, 0, 0, false};
        tp__os_info is;
        tp_buf_printf(&path, "%s/%s", dir, l.name[i]);
        if (path.failed) st = tp_fail(TP_ERR_NOMEM, "out of memory for the name of a file");
        else if (tp__os_stat(path.data, true, &is) != 0 || is.kind != TP__OS_DIR)
            st = tp__image_add(f, NULL, path.data, path.len, label); /* what is no file is told when it is read */
        else if (depth == TP__IMAGE_DEPTH)
            st = tp_fail(TP_ERR_FORMAT, "%s lies %d folders deep: is it a link to a folder above?", path.data, depth);
        else st = tp__image_add_folder(f, path.data, label, depth + 1);
        tp_buf_free(&path);
    }
    tp__listing_free(&l);
    return st;
}

static tp_status tp__image_add_classes(tp__image_flow *f, const char *dir)
{
    tp__listing l;
    tp_status st = tp__listing_of(&l, dir);
    if (st == TP_OK && !(f->class_name = (const char **)tp_calloc((size_t)l.n + 1, sizeof(char *)))) st = TP_ERR_NOMEM;
    for (int64_t i = 0; i < l.n && st == TP_OK; i++) {
        tp__os_info is;
        const char *name = tp_arena_strdup(&f->mem, l.name[i]),
                   *path = tp_arena_printf(&f->mem, "%s/%s", dir, l.name[i]);
        if (!name || !path) st = TP_ERR_NOMEM;
        else if (tp__os_stat(path, true, &is) == 0 && is.kind == TP__OS_DIR) {
            f->class_name[f->n_class] = name;
            st = tp__image_add_folder(f, path, f->n_class++, 1);
        }
    }
    tp__listing_free(&l);
    if (st == TP_OK && f->order.n == 0)
        st = tp_fail(TP_ERR_FORMAT, "folder %s has no %s: each class is a folder in it, with its images", dir,
                     f->n_class ? "images" : "folders");
    return st;
}

TP_DEF tp_dataflow *tp_df_image_folder_(const tp_df_image_folder_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    if (!d->dir) return tp_df_fail(&d->at_, TP_ERR_ARG, "tp_df_image_folder: the folder is NULL");
    const tp__image_choice choice = {d->at_,
                                     "tp_df_image_folder",
                                     d->channel,
                                     d->max_pixels,
                                     d->on_error,
                                     tp__yes(d->decode, true),
                                     tp__yes(d->shuffle, true),
                                     d->seed};
    tp_dataflow *df = tp__image_new(&choice);
    if (!df || df->next != tp__image_next) return df;
    return tp__image_made(df, &choice, tp__image_add_classes((tp__image_flow *)df->user, d->dir));
}

TP_DEF const char *const *tp_df_image_classes(const tp_dataflow *df, int *n)
{
    if (n) *n = 0;
    TP__REQUIRE(df && n, NULL)

    if (df->next != tp__image_next || !((const tp__image_flow *)df->user)->class_name) {
        tp_fail(TP_ERR_ARG, "tp_df_image_classes: %s has no classes: ask the tp_df_image_folder itself", df->name);
        return NULL;
    }
    const tp__image_flow *f = (const tp__image_flow *)df->user;
    *n = f->n_class;
    return f->class_name;
}

static bool tp__list_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static tp_status tp__image_list_parse(tp__image_flow *f, const char *text, size_t size, const char *what,
                                      const char *dir)
{
    const char *p = text, *const end = text + size;
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
                           what, (long long)number);
        if (memchr(line, 0, (size_t)(path_end - line)))
            return tp_fail(TP_ERR_FORMAT, "%s:%lld: a byte of 0 in a path", what, (long long)number);
        const size_t length = (size_t)(path_end - line);
        char first[4] = {0, 0, 0, 0};
        memcpy(first, line, length < 3 ? length : 3);
        const tp_status st = tp__image_add(f, tp__os_is_absolute(first) ? NULL : dir, line, length, (int32_t)v);
        if (st != TP_OK) return st;
    }
    return f->order.n ? TP_OK : tp_fail(TP_ERR_FORMAT, "%s lists no image", what);
}

TP_DEF tp_dataflow *tp_df_image_list_(const tp_df_image_list_desc *d)
{
    if (!d) return tp__df_no_options(__func__);
    if (!d->list) return tp_df_fail(&d->at_, TP_ERR_ARG, "tp_df_image_list: the list is NULL");
    const tp__image_choice choice = {d->at_,
                                     "tp_df_image_list",
                                     d->channel,
                                     d->max_pixels,
                                     d->on_error,
                                     tp__yes(d->decode, true),
                                     tp__yes(d->shuffle, true),
                                     d->seed};
    tp_dataflow *df = tp__image_new(&choice);
    if (!df || df->next != tp__image_next) return df;
    char *text = NULL;
    size_t size = 0;
    tp_status st = tp_file_read(d->list, true, 0, &text, &size);
    if (st == TP_OK) st = tp__image_list_parse((tp__image_flow *)df->user, text, size, d->list, d->dir);
    tp_free(text);
    return tp__image_made(df, &choice, st);
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
    tp_buf keys;   /* one after the other */
    uint64_t *key; /* where each begins; n + 1 */
    int64_t room;
    bool raw;
    tp_buf what;
    char *path;
} tp__lmdb_flow;

static tp_status tp__lmdb_fail(const char *path, const char *doing, int error)
{
    if (error == ENOMEM) return tp_fail(TP_ERR_NOMEM, "%s: out of memory in liblmdb", path);
    return tp_fail(error == MDB_INVALID || error == MDB_CORRUPTED || error == MDB_PAGE_NOTFOUND ||
                           error == MDB_VERSION_MISMATCH
                       ? TP_ERR_FORMAT
                       : TP_ERR_IO,
                   "%s cannot be %s: %s", path, doing, mdb_strerror(error));
}

/* liblmdb maps the file, and a page behind its end would end the program. */
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
    if (f->order.n + 1 >= f->room) {
        const int64_t room = f->room ? 2 * f->room : 256;
        size_t bytes;
        if (!tp_mul_size((size_t)room, sizeof *f->key, &bytes)) return tp_fail(TP_ERR_NOMEM, "too many keys");
        uint64_t *more = (uint64_t *)tp_realloc(f->key, bytes);
        if (!more) return TP_ERR_NOMEM;
        f->key = more;
        f->room = room;
        if (f->order.n == 0) more[0] = 0;
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
    error = mdb_env_open(f->env, f->path, MDB_RDONLY | MDB_NOLOCK | MDB_NOTLS | (folder ? 0u : MDB_NOSUBDIR), 0644);
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
        f->what.len = 0;
        tp_buf_printf(&f->what, "%s: key \"%s\"", f->path,
                      tp__make_printable(&name, (const char *)k.mv_data, k.mv_size));
        if (f->what.failed) return tp_fail(TP_ERR_NOMEM, "out of memory for the name of a key");
        return tp_datapoint_unpack(dp, v.mv_data, v.mv_size, f->what.data);
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
    tp_buf_free(&f->what);
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
    f->raw = tp__yes(d->raw, false);
    f->path = tp_strdup(d->path);
    tp_status st = f->path ? tp__lmdb_open(f) : TP_ERR_NOMEM;
    if (st == TP_OK) st = tp__order_init(&f->order, f->order.n, tp__yes(d->shuffle, true));
    if (st == TP_OK) return df;
    tp_df_free(df);
    return tp__df_failed(&d->at_, st);
}

/* The list of the keys as pickle protocol 3 has it: a list, the marked items, each a short byte string. */
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
        if (!error && n % 1024 == 1023) { /* a transaction keeps what it changed in memory */
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
    int error = mdb_env_create(&env);
    /* room is an address range, not memory or disk */
    if (!error)
        error = mdb_env_set_mapsize(env,
                                    sizeof(size_t) > 4 ? (size_t)1 << (sizeof(size_t) > 4 ? 40 : 30) : (size_t)1 << 30);
    if (!error) error = mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOLOCK, 0666);
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

    if (tp_file_exists(path)) return tp_fail(TP_ERR_IO, "%s exists: remove it first, or choose another name", path);
    tp_buf temp = {NULL, 0, 0, false};
    tp_buf_printf(&temp, "%s.tmp-%lld", path, (long long)tp__os_pid());
    if (temp.failed) return tp_fail(TP_ERR_NOMEM, "out of memory for the name of a file");
    tp__os_remove(temp.data); /* of a process that was killed */
    tp_status st = tp__lmdb_write(df, temp.data);
    if (st == TP_OK && tp__os_rename(temp.data, path) != 0)
        st = tp_fail(TP_ERR_IO, "%s cannot be written: %s", path, tp__os_error());
    if (st != TP_OK) tp__os_remove(temp.data);
    tp_buf_free(&temp);
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

/* ==== >>idx =========================================================================================== */
/* 00 00 type rank, then `rank` big-endian 32-bit sizes, then the elements, big-endian, row-major. */

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
    size_t count = 1, bytes = 0, all;
    bool fits = true;
    for (int i = 0; i < shape.ndim; i++) {
        const unsigned char *d = p + 4 + 4 * i;
        shape.dim[i] = (int64_t)((uint32_t)d[0] << 24 | (uint32_t)d[1] << 16 | (uint32_t)d[2] << 8 | d[3]);
        fits = fits && tp_mul_size(count, (size_t)shape.dim[i], &count);
    }
    char text[TP_SHAPE_TEXT];
    fits = fits && tp_mul_size(count, width, &bytes) && bytes <= SIZE_MAX / 8 - head;
    all = head + bytes;
    if (!fits || all > size)
        return tp_fail(TP_ERR_FORMAT, "%s is truncated, or its header lies: the shape %s needs %s%zu bytes, it has %zu",
                       what, tp_shape_text(&shape, text), fits ? "" : "more than ", fits ? all : (size_t)SIZE_MAX / 8,
                       size);
    if (all < size)
        return tp_fail(TP_ERR_FORMAT, "%s: %zu bytes follow after the %zu that its shape %s needs", what, size - all,
                       all, tp_shape_text(&shape, text));
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
        } else { /* shift the sign into place and back down */
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

static tp_status tp__input_ready(const tp_input_source *s, const char *what)
{
    return s->setup_done ? TP_OK : tp_fail(TP_ERR_STATE, "%s: %s comes after tp_input_setup", s->name, what);
}

TP_DEF tp_status tp_input_get_tensors(tp_input_source *s, tp_node **in)
{
    TP__REQUIRE(s && in, TP_ERR_ARG)

    tp_status st = tp__input_ready(s, "tp_input_get_tensors");
    if (st == TP_OK) st = s->get_input_tensors(s, in);
    if (st == TP_OK && tp_graph_status(s->graph) != TP_OK)
        st = tp_fail(tp_graph_status(s->graph), "%s", tp_graph_error(s->graph));
    return st;
}

TP_DEF tp_status tp_input_reset_state(tp_input_source *s)
{
    TP__REQUIRE(s, TP_ERR_ARG)

    tp_status st = tp__input_ready(s, "tp_input_reset_state");
    return st == TP_OK && s->reset_state ? s->reset_state(s) : st;
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
        tp_fail(TP_ERR_STATE, "%s: it has a name scope once tp_input_setup told its graph", s->name);
        return;
    }
    tp_cached_name_scope_push(s->graph, s->name ? s->name : "InputSource", true);
}

TP_DEF void tp_input_free(tp_input_source *s)
{
    if (!s) return;
    if (s->close) s->close(s);
    tp_arena_free(&s->mem_);
    tp_free(s);
}

/* -- placeholders */

/* A placeholder of this name at the root: the one that exists, if it is one and fits. */
static tp_node *tp__placeholder_or_reuse(tp_graph *g, const tp_spec *spec)
{
    tp_node *n = tp__node_named(g, spec->name);
    if (n && strcmp(n->op->row->name, "placeholder") == 0 && n->dtype == spec->dtype &&
        tp_shape_equal(&n->shape, &spec->shape))
        return n;
    if (n) {
        char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
        return tp_graph_fail(g, NULL, TP_ERR_NAME,
                             "input '%s' %s %s cannot be made: the graph has a %s of that name, %s %s", spec->name,
                             tp_dtype_name(spec->dtype), tp_shape_text(&spec->shape, a), n->op->row->name,
                             tp_dtype_name(n->dtype), tp_shape_text(&n->shape, b));
    }
    tp_name_scope_push(g, "");
    n = tp_placeholder(g, spec->name, spec->dtype, spec->shape);
    tp_name_scope_pop(g);
    return n;
}

static tp_status tp__placeholder_tensors(tp_input_source *s, tp_node **in)
{
    for (int i = 0; i < s->n_spec; i++) in[i] = tp__placeholder_or_reuse(s->graph, &s->spec[i]);
    return TP_OK;
}

static tp_status tp__placeholder_setup(tp_input_source *s)
{
    for (int i = 0; i < s->n_spec; i++) tp__placeholder_or_reuse(s->graph, &s->spec[i]);
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

/* -- a queue of the program's: a ring of datapoints, whose buffers go round with them */

struct tp_queue {
    tp_mutex *mutex;
    tp_cond *room, *data; /* all are woken: one that gives up must not take a signal with it */
    tp_datapoint *slot;
    int capacity, head, filled;
    bool closed;
    int users, producers; /* who keeps it alive; flows that are not at their end */
    tp_status error;      /* of the flow that closed it */
    char error_text[2048];
};

TP_DEF tp_queue *tp_queue_new(int capacity)
{
    TP__REQUIRE(capacity >= 0 && capacity <= 1 << 24, NULL)

    tp_queue *q = (tp_queue *)tp_calloc(1, sizeof *q);
    if (!q) return NULL;
    q->capacity = capacity ? capacity : 50;
    q->users = 1;
    q->slot = (tp_datapoint *)tp_calloc((size_t)q->capacity, sizeof *q->slot);
    q->mutex = tp_mutex_new();
    q->room = tp_cond_new();
    q->data = tp_cond_new();
    if (q->slot && q->mutex && q->room && q->data) return q;
    tp_queue_free(q);
    return NULL;
}

static void tp__queue_retain(tp_queue *q)
{
    tp_mutex_lock(q->mutex);
    q->users++;
    tp_mutex_unlock(q->mutex);
}

TP_DEF void tp_queue_free(tp_queue *q)
{
    if (!q) return;
    tp_mutex_lock(q->mutex);
    const bool last = --q->users == 0;
    tp_mutex_unlock(q->mutex);
    if (!last) return;
    for (int i = 0; i < q->capacity && q->slot; i++) tp_datapoint_free(&q->slot[i]);
    tp_free(q->slot);
    tp_cond_free(q->room);
    tp_cond_free(q->data);
    tp_mutex_free(q->mutex);
    tp_free(q);
}

TP_DEF void tp_queue_close(tp_queue *q)
{
    TP__REQUIRE(q, )
    tp_mutex_lock(q->mutex);
    q->closed = true;
    tp_cond_broadcast(q->room);
    tp_cond_broadcast(q->data);
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
static void tp__queue_wait_room(tp_queue *q, const bool *stop)
{
#ifdef TP_NO_THREADS
    (void)q, (void)stop;
#else
    while (q->filled == q->capacity && !q->closed && !(stop && *stop)) tp_cond_wait(q->room, q->mutex);
#endif
}

static tp_datapoint *tp__queue_place(tp_queue *q) { return &q->slot[(q->head + q->filled) % q->capacity]; }

static void tp__queue_filled(tp_queue *q)
{
    q->filled++;
    tp_cond_broadcast(q->data);
}

/* The front goes to dp, whose buffers take its place. The mutex is locked. */
static void tp__queue_take(tp_queue *q, tp_datapoint *dp)
{
    tp__datapoint_swap(&q->slot[q->head], dp);
    q->head = (q->head + 1) % q->capacity;
    q->filled--;
    tp_cond_broadcast(q->room);
}

TP_DEF tp_status tp_queue_put(tp_queue *q, const tp_datapoint *dp)
{
    TP__REQUIRE(q && dp, TP_ERR_ARG)

    tp_mutex_lock(q->mutex);
    tp__queue_wait_room(q, NULL);
    tp_status st = TP_END;
    if (!q->closed && q->filled == q->capacity)
        st = tp_fail(TP_ERR_STATE, "tp_queue_put: the queue is full, and there are no threads to wait for");
    else if (!q->closed) st = tp_datapoint_copy(tp__queue_place(q), dp);
    if (st == TP_OK) tp__queue_filled(q);
    tp_mutex_unlock(q->mutex);
    return st;
}

TP_DEF tp_status tp_queue_get(tp_queue *q, tp_datapoint *dp)
{
    TP__REQUIRE(q && dp, TP_ERR_ARG)

    tp_mutex_lock(q->mutex);
#ifndef TP_NO_THREADS
    while (!q->filled && !q->closed) tp_cond_wait(q->data, q->mutex);
#endif
    tp_status st = TP_OK;
    if (q->filled) tp__queue_take(q, dp);
    else if (q->error != TP_OK) st = tp_fail(q->error, "%s", q->error_text);
    else if (q->closed) st = TP_END;
    else st = tp_fail(TP_ERR_STATE, "tp_queue_get: the queue is empty, and there are no threads to wait for");
    tp_mutex_unlock(q->mutex);
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
                "%s: what was taken before cannot be had again: it goes on with what comes, not exactly where it "
                "was",
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
    return df;
}

/* A flow that fills the queue is at its end: by itself (st), or because it is to stop (TP_OK). */
static void tp__queue_producer_ends(tp_queue *q, tp_status st)
{
    tp_mutex_lock(q->mutex);
    q->producers--;
    if (st < TP_OK && q->error == TP_OK) {
        q->error = st;
        snprintf(q->error_text, sizeof q->error_text, "%.2047s", tp_last_error());
    }
    if (st < TP_OK || (st > TP_OK && q->producers == 0)) q->closed = true;
    tp_cond_broadcast(q->room);
    tp_cond_broadcast(q->data);
    tp_mutex_unlock(q->mutex);
}

/* -- FeedInput, QueueInput, BatchQueueInput and TFDatasetInput: one machine. A ring of datapoints lies between the reader
 * and the runs. A run holds as many of its front as there are towers, from before_run until after_run, so that the feeds can
 * be views of them; if the run fails, they are still held and are fed again. A queue's ring is filled by a thread; the others'
 * (and any without threads) has room for one run only and is filled when asked. BatchQueueInput's ring is one tensor for each
 * component, a sample a row, and its number of rows is a multiple of the batch size: a batch is rows that follow each other. */

typedef struct tp__feeder {
    tp__endless e;
    int64_t start; /* where reset_state goes */
    bool queue, threaded, quiet_end;
    tp_queue *shared; /* the caller's, instead of a ring of its own: then the slots are those that a run holds */
    tp_datapoint fresh;
    int capacity;
    int batch;           /* BatchQueueInput: samples of a batch; else 0 */
    tp_tensor *row;      /* its ring: n_spec tensors (n_slot, shape of a sample) */
    tp_datapoint sample; /* on its way into the ring */
    tp_node **node;      /* n_tower * n_spec */
    int n_tower, cap_tower;
    bool running;

    tp_datapoint *slot; /* the ring: `filled` ones from `head` on, the first `held` of them held by a run */
    int n_slot, head, filled, held;
    int taken; /* of the held ones, by this run */
    bool closed, stop, prepared;
    tp_status error; /* the reader's; runs have it when the data before it are used up */
    char error_text[2048];
    tp_thread *thread;
    tp_mutex *mutex;
    tp_cond *room, *data;

    tp_hook hook, *hooks[1];
    tp_session *session;
    tp_node *size_node; /* local variable QueueInput/queue_size */
    float biased, weight, ema;
    const char *scope; /* "QueueInput/", to enter it again */
} tp__feeder;

/* Zero-debiased average of what waits, decay 0.5. */
static void tp__feeder_size_ema(tp__feeder *f, float waiting)
{
    f->biased = 0.5f * (f->biased + waiting);
    f->weight = 0.5f * (f->weight + 1.0f);
    f->ema = f->biased / f->weight;
}

static tp_status tp__feeder_read(tp__feeder *f, tp_datapoint *dp)
{
    tp_status st = tp__endless_next(&f->e, dp);
    return st == TP_OK && f->threaded ? tp__datapoint_own(dp) : st;
}

/* Datapoints that a run takes for each tower. */
static int tp__feeder_each(const tp__feeder *f) { return f->batch ? f->batch : 1; }

/* A sample into its row of the ring. number: which datapoint it is, for the sentence; -1: of a queue that others fill. */
static tp_status tp__feeder_row(const tp_input_source *s, int at, const tp_datapoint *dp, int64_t number)
{
    const tp__feeder *f = (const tp__feeder *)s->user;
    char which[40] = "", a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
    if (number >= 0) snprintf(which, sizeof which, " of datapoint %lld", (long long)number);
    if (dp->n != s->n_spec)
        return tp_fail(TP_ERR_SHAPE,
                       "%s: a sample%s has %d components, the input signature has %d: choose with tp_df_select",
                       s->name, which, dp->n, s->n_spec);
    for (int i = 0; i < dp->n; i++) {
        const tp_tensor *x = &dp->c[i], *row = &f->row[i];
        tp_shape want = row->shape; /* of one row */
        want.ndim--;
        memmove(want.dim, want.dim + 1, (size_t)want.ndim * sizeof *want.dim);
        if (x->dtype != row->dtype || !tp_shape_equal(&x->shape, &want))
            return tp_fail(x->dtype != row->dtype ? TP_ERR_DTYPE : TP_ERR_SHAPE,
                           "%s: component %d ('%s')%s is %s %s, a sample of the input signature is %s %s%s", s->name, i,
                           s->spec[i].name, which, tp_dtype_name(x->dtype), tp_shape_text(&x->shape, a),
                           tp_dtype_name(row->dtype), tp_shape_text(&want, b),
                           x->shape.ndim == want.ndim + 1 ? ": it takes single samples, not batches" : "");
        const size_t bytes = tp_tensor_bytes(x);
        if (bytes) memcpy((char *)row->data + (size_t)at * bytes, x->data, bytes);
    }
    return TP_OK;
}

/* The next datapoint into place `at` of the ring. */
static tp_status tp__feeder_fill(tp_input_source *s, int at)
{
    tp__feeder *f = (tp__feeder *)s->user;
    if (!f->batch) return tp__feeder_read(f, &f->slot[at]);
    const tp_status st = tp__endless_next(&f->e, &f->sample);
    return st == TP_OK ? tp__feeder_row(s, at, &f->sample, f->e.position - 1) : st;
}

/* Room for n places in the ring. */
static tp_status tp__feeder_room(tp_input_source *s, int64_t n)
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
    if (st != TP_OK) f->n_slot = 0; /* some have grown, some not */
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

/* The reader is at its end, of whatever kind. */
static void tp__feeder_end(tp__feeder *f, tp_status st)
{
    f->closed = true;
    if (st >= TP_OK) return; /* the end of a finite pass, or a flow that asks to stop */
    f->error = st;
    snprintf(f->error_text, sizeof f->error_text, "%.2047s", tp_last_error());
}

/* Give every place of the ring the memory that the first datapoint took, so that reading ahead allocates nothing later. */
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
    tp_mutex_lock(f->mutex);
    while (!f->stop && !f->closed) {
        if (f->filled - f->held >= f->capacity || f->filled == f->n_slot) {
            tp_cond_wait(f->room, f->mutex);
            continue;
        }
        const int at = (f->head + f->filled) % f->n_slot; /* the same place, whatever runs release */
        tp_mutex_unlock(f->mutex);
        tp_status st = tp__feeder_fill(s, at);
        if (st == TP_OK && !f->prepared) {
            f->prepared = true; /* no run has seen the ring yet */
            st = tp__feeder_prepare(f, at);
        }
        tp_mutex_lock(f->mutex);
        if (st == TP_OK) f->filled++;
        else tp__feeder_end(f, st);
        tp_cond_signal(f->data);
    }
    tp_mutex_unlock(f->mutex);
}

static void tp__feeder_stop(tp__feeder *f)
{
    if (f->thread) {
        tp_mutex *m = f->shared ? f->shared->mutex : f->mutex;
        tp_mutex_lock(m);
        f->stop = true;
        tp_cond_broadcast(f->shared ? f->shared->room : f->room);
        tp_mutex_unlock(m);
        tp_thread_join(f->thread);
        f->thread = NULL;
    }
    f->stop = false;
    f->running = false;
}

/* Reads into the caller's queue. */
static void tp__shared_thread(void *user)
{
    tp__feeder *f = (tp__feeder *)user;
    tp_queue *q = f->shared;
    tp_status st = TP_OK;
    for (bool more = true; more;) {
        st = tp__feeder_read(f, &f->fresh);
        if (st != TP_OK) break;
        tp_mutex_lock(q->mutex);
        tp__queue_wait_room(q, &f->stop);
        more = !q->closed && !f->stop;
        if (more) {
            tp__datapoint_swap(tp__queue_place(q), &f->fresh);
            tp__queue_filled(q);
        }
        tp_mutex_unlock(q->mutex);
    }
    tp__queue_producer_ends(q, st);
}

/* The caller's queue: starts once, for others use it too. */
static tp_status tp__shared_reset(tp_input_source *s)
{
    tp__feeder *f = (tp__feeder *)s->user;
    if (f->running) return TP_OK;
    tp_status st = tp__feeder_room(s, (int64_t)(f->n_tower > 0 ? f->n_tower : 1) * tp__feeder_each(f));
    if (st == TP_OK) st = tp__endless_start(&f->e, 0, 0);
    if (st != TP_OK) return st;
    tp_mutex_lock(f->shared->mutex);
    f->shared->producers++;
    tp_mutex_unlock(f->shared->mutex);
    if (f->threaded) st = tp_thread_start(&f->thread, tp__shared_thread, f);
    if (st != TP_OK) tp__queue_producer_ends(f->shared, TP_OK);
    f->running = st == TP_OK;
    return st;
}

static const char *tp__feeder_waits(const tp__feeder *f)
{
    return f->batch ? "BatchQueueInput waited for data" : "QueueInput waited for data";
}

/* The datapoints of a run from the caller's queue. */
static tp_status tp__shared_take(tp_input_source *s, tp_run_request *r)
{
    tp__feeder *f = (tp__feeder *)s->user;
    tp_queue *q = f->shared;
    tp_status st = TP_OK;
    tp_mutex_lock(q->mutex);
    while (f->held < f->taken && st == TP_OK) {
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
            st = tp_request_wait(r, q->data, q->mutex, tp__feeder_waits(f));
        } else {
            tp_mutex_unlock(q->mutex); /* without threads: what there is to read is read now */
            st = tp__feeder_fill(s, at);
            if (st == TP_OK) f->held++;
            if (st < TP_OK) tp__queue_producer_ends(q, st);
            if (st < TP_OK) st = TP_OK; /* the queue is closed now, and tells why */
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

/* Clear the ring, go to `start`, and read from there. */
static tp_status tp__feeder_reset(tp_input_source *s)
{
    tp__feeder *f = (tp__feeder *)s->user;
    tp__feeder_stop(f);
    f->head = f->filled = f->held = 0;
    f->closed = false;
    f->error = s->error = TP_OK;
    f->error_text[0] = s->error_text[0] = 0;
    s->consumed = f->start;
    const int64_t towers = f->n_tower > 0 ? f->n_tower : 1;
    tp_status st = tp__feeder_room(s, (f->threaded ? f->capacity : 0) + towers * tp__feeder_each(f));
    if (st == TP_OK) st = tp__endless_start(&f->e, 0, f->start);
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
    const int64_t n = tp_df_size(f->e.df);
    return n < 0 ? n : n / tp__feeder_each(f);
}

/* Take the datapoints of a run. TP_END: there are too few. */
static tp_status tp__feeder_take(tp_input_source *s, tp_run_request *r)
{
    tp__feeder *f = (tp__feeder *)s->user;
    tp_status st = TP_OK;
    tp_mutex_lock(f->mutex);
    while (f->held < f->taken) {
        if (f->filled > f->held) {
            f->held++;
            if (f->threaded) tp_cond_signal(f->room);
        } else if (f->closed) {
            st = f->error != TP_OK ? f->error : TP_END;
            break;
        } else if (f->threaded) {
            if ((st = tp_request_wait(r, f->data, f->mutex, tp__feeder_waits(f))) != TP_OK) break;
        } else if ((st = tp__feeder_fill(s, (f->head + f->filled) % f->n_slot)) == TP_OK) {
            f->filled++;
        } else if (f->queue || st == TP_END) {
            tp__feeder_end(f, st);
        } else {
            break; /* no queue: the next run reads again */
        }
    }
    if (st < TP_OK && st == f->error) { /* of the other thread, whose sentence is not ours */
        s->error = tp_fail(st, "%s", f->error_text);
        memcpy(s->error_text, f->error_text, sizeof s->error_text);
    }
    if (st == TP_OK && f->queue) tp__feeder_size_ema(f, (float)(f->filled - f->held));
    tp_mutex_unlock(f->mutex);
    return st;
}

static tp_status tp__feeder_check(const tp_input_source *s, const tp_datapoint *dp, int64_t number)
{
    if (dp->n != s->n_spec)
        return tp_fail(TP_ERR_SHAPE,
                       "%s: datapoint %lld has %d components, the input signature has %d: choose with "
                       "tp_df_select",
                       s->name, (long long)number, dp->n, s->n_spec);
    for (int i = 0; i < dp->n; i++) {
        const tp_tensor *x = &dp->c[i];
        const tp_spec *want = &s->spec[i];
        const bool dtype = x->dtype == want->dtype;
        char a[TP_SHAPE_TEXT], b[TP_SHAPE_TEXT];
        if (dtype && tp_shape_compatible(&x->shape, &want->shape)) continue;
        if (dtype)
            return tp_fail(TP_ERR_SHAPE,
                           "%s: component %d ('%s') of datapoint %lld has shape %s, the input signature "
                           "wants %s%s",
                           s->name, i, want->name, (long long)number, tp_shape_text(&x->shape, a),
                           tp_shape_text(&want->shape, b),
                           tp__lacks_batch(&want->shape, &x->shape) ? ": is tp_df_batch missing?" : "");
        return tp_fail(TP_ERR_DTYPE,
                       "%s: component %d ('%s') of datapoint %lld is %s %s, the input signature wants %s "
                       "%s: convert it with tp_df_cast or tp_df_map_component",
                       s->name, i, want->name, (long long)number, tp_dtype_name(x->dtype), tp_shape_text(&x->shape, a),
                       tp_dtype_name(want->dtype), tp_shape_text(&want->shape, b));
    }
    return TP_OK;
}

static tp_status tp__feeder_created(tp_hook *h, tp_session *session)
{
    tp_input_source *s = (tp_input_source *)h->user;
    ((tp__feeder *)s->user)->session = session;
    return TP_OK;
}

/* The batch of a tower: rows of the ring. */
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
    f->taken = towers * tp__feeder_each(f);
    tp_status st = f->running ? TP_OK : tp_input_reset_state(s);
    if (st == TP_OK) st = f->shared ? tp__shared_take(s, r) : tp__feeder_take(s, r);
    if (st == TP_END && !f->queue && !f->quiet_end)
        st = tp_fail(
            TP_ERR_STATE,
            "FeedInput: the data ended after %lld datapoints, and .infinite is TP_NO: run fewer steps, or end there "
            "with .quiet_end = TP_YES",
            (long long)s->consumed);
    for (int t = 0; t < towers && f->batch && st == TP_OK; t++) st = tp__feeder_batch(s, r, t);
    for (int t = 0; t < towers && !f->batch && st == TP_OK; t++) {
        tp_datapoint *dp = &f->slot[(f->head + t) % f->n_slot];
        st = tp__feeder_check(s, dp, s->consumed + t);
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
    f->head = f->n_slot ? (f->head + f->taken) % f->n_slot : 0;
    f->filled -= f->taken;
    s->consumed += f->taken;
    f->held -= f->taken;
    f->taken = 0;
    if (f->threaded) tp_cond_signal(f->room);
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

/* Room for one more tower's nodes, its inputs at the returned place; NULL: out of memory. */
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
    tp_status st = tp_df_status(f->e.df);
    if (st != TP_OK) return st;
    f->n_tower = 0;
    tp_node **node = tp__feeder_tower(s);
    return node ? tp__placeholder_tensors(s, node) : TP_ERR_NOMEM;
}

static tp_status tp__feed_tensors(tp_input_source *s, tp_node **in)
{
    memcpy((void *)in, (const void *)((tp__feeder *)s->user)->node, (size_t)s->n_spec * sizeof *in);
    return TP_OK;
}

/* The name scope of its placeholders. */
static tp_status tp__feeder_scope(tp_input_source *s)
{
    tp__feeder *f = (tp__feeder *)s->user;
    tp_graph *g = s->graph;
    tp_name_scope_push(g, "");
    tp_name_scope_push(g, s->name); /* a second queue's becomes QueueInput_1 */
    f->scope = tp_arena_printf(&s->mem_, "%s/", tp_name_scope(g));
    tp_name_scope_pop(g);
    tp_name_scope_pop(g);
    return f->scope ? TP_OK : TP_ERR_NOMEM;
}

static tp_status tp__queue_setup(tp_input_source *s)
{
    tp__feeder *f = (tp__feeder *)s->user;
    tp_graph *g = s->graph;
    tp_status st = tp_df_status(f->e.df);
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
    tp_name_scope_push(g, ""); /* the name has its scope */
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
    tp__feeder_stop(f);
    tp_df_free(f->e.df);
    for (int i = 0; i < f->n_slot && f->slot; i++) tp_datapoint_free(&f->slot[i]);
    for (int i = 0; i < s->n_spec && f->row; i++) tp_tensor_free(&f->row[i]);
    tp_free(f->row);
    tp_datapoint_free(&f->sample);
    tp_datapoint_free(&f->fresh);
    tp_queue_free(f->shared);
    tp_free(f->slot);
    tp_free((void *)f->node);
    tp_cond_free(f->room);
    tp_cond_free(f->data);
    tp_mutex_free(f->mutex);
    tp_free(f);
}

/* The source takes over df also when it cannot be made; a poison flow is found out at setup. */
static tp_input_source *tp__feeder_new(const char *name, const tp_at *at, tp_dataflow *df, int infinite, int capacity,
                                       bool queue, tp_queue *shared)
{
    if (!df) {
        tp_df_status(df);
        return NULL;
    }
    if (!tp__own(&df->owner_, df->name, name, at)) df = tp__df_twice();
    if (!df) return NULL;
    tp_input_source *s = (tp_input_source *)tp_calloc(1, sizeof *s);
    tp__feeder *f = s ? (tp__feeder *)tp_calloc(1, sizeof *f) : NULL;
    if (!f) {
        tp_df_free(df);
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
    f->e.df = df;
    f->e.once = !tp__yes(infinite, true);
    f->queue = queue;
#ifndef TP_NO_THREADS
    f->threaded = queue;
#endif
    f->capacity = capacity;
    if (shared) {
        tp__queue_retain(shared);
        f->shared = shared;
        s->reset_state = tp__shared_reset;
        s->seek = NULL; /* it has no position of its own */
    }
    f->mutex = tp_mutex_new();
    f->room = tp_cond_new();
    f->data = tp_cond_new();
    if (f->mutex && f->room && f->data) return s;
    tp_input_free(s);
    return NULL;
}

TP_DEF tp_input_source *tp_feed_input_(const tp_feed_input_desc *d)
{
    TP__REQUIRE(d, NULL)
    tp_input_source *s = tp__feeder_new("FeedInput", &d->at_, d->df, d->infinite, 1, false, NULL);
    if (s) ((tp__feeder *)s->user)->quiet_end = tp__yes(d->quiet_end, false);
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

    const size_t head = (sizeof(tp_input_source) + 63) & ~(size_t)63; /* user begins behind it, well aligned */
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

/* -- poison: a source that keeps the sentence of a failed constructor, and tells it at setup */

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

/* May `who` take this source over? If not, *s is what its constructor returns, and what is nobody's is freed. */
static bool tp__input_around(const tp_at *at, tp_input_source **s, const char *who)
{
    tp_input_source *const input = *s;
    if (!input) {
        tp_fail(TP_ERR_ARG, "%s: the input source is NULL: none was given, or there was no memory for it", who);
        return false;
    }
    if (tp__input_is_poison(input) && !input->owner_.who) return false;
    if (tp__own(&input->owner_, input->name, who, at)) return true;
    char text[TP__ERROR_TEXT];
    snprintf(text, sizeof text, "%s", tp_last_error());
    *s = tp__input_fail(who, NULL, TP_ERR_ARG, "%s", text);
    return false;
}

/* The hooks of a source, or why there are none. */
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
    const bool ours = df && !df->owner_.who;
    if (ours && (d->capacity < 0 || d->capacity > 1 << 24))
        df = TP__REFUSE(df, &d->at_, TP_ERR_ARG, "tp_batch_queue_input: a capacity of %d samples", d->capacity);
    else if (ours && (d->batch_size < 1 || d->batch_size > 1 << 24))
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
    int64_t pass, index;
    int n;
    tp_dtype *type; /* behind this struct */
} tp__typed;

static tp_status tp__typed_next(tp_dataflow *df, tp_datapoint *dp)
{
    tp__typed *t = (tp__typed *)df->user;
    const tp_status st = tp_df_next(t->df, dp);
    if (st != TP_OK) return st;
    if (dp->n != t->n)
        return tp_fail(TP_ERR_SHAPE, "%s: datapoint %lld of pass %lld has %d components, the data set has %d", df->name,
                       (long long)t->index, (long long)t->pass, dp->n, t->n);
    for (int i = 0; i < dp->n; i++)
        if (dp->c[i].dtype != t->type[i])
            return tp_fail(
                TP_ERR_DTYPE,
                "%s: component %d of datapoint %lld of pass %lld is %s, in the data set it is %s: convert it "
                "with tp_df_cast",
                df->name, i, (long long)t->index, (long long)t->pass, tp_dtype_name(dp->c[i].dtype),
                tp_dtype_name(t->type[i]));
    t->index++;
    return TP_OK;
}
static tp_status tp__typed_restart(tp_dataflow *df, int64_t pass)
{
    tp__typed *t = (tp__typed *)df->user;
    t->pass = pass;
    t->index = 0;
    return tp_df_restart(t->df, pass);
}
static tp_status tp__typed_seek(tp_dataflow *df, int64_t n, int64_t *skipped)
{
    tp__typed *t = (tp__typed *)df->user;
    const tp_status st = tp_df_seek(t->df, n, skipped);
    t->index += *skipped;
    return st;
}
static int64_t tp__typed_size(tp_dataflow *df) { return tp_df_size(((tp__typed *)df->user)->df); }
static void tp__typed_close(tp_dataflow *df) { tp_df_free(((tp__typed *)df->user)->df); }

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
    const tp_dataflow *df = f->e.df;
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
    unsigned effects; /* flags of all ops that its tensors come from */
    tp_shape *shape;  /* DummyConstantInput: behind this struct, n_shape of them */
    int n_shape;
    tp_hook hook, *hooks[1];
} tp__tensor_source;

/* The flags of everything that nodes come from. */
static tp_status tp__ancestor_flags(const tp_graph *g, tp_node *const *node, int n, unsigned *flags)
{
    const int n_op = tp_graph_n_operations(g);
    size_t room = 0;
    if (!tp_mul_size((size_t)n_op + 1, sizeof(tp_operation *), &room)) return TP_ERR_NOMEM;
    bool *seen = (bool *)tp_calloc((size_t)n_op + 1, 1);
    const tp_operation **todo = (const tp_operation **)tp_malloc(room);
    int k = 0;
    for (int i = 0; i < n && seen && todo; i++)
        if (node[i] && !seen[node[i]->op->id]) {
            seen[node[i]->op->id] = true;
            todo[k++] = node[i]->op;
        }
    while (k > 0) {
        const tp_operation *o = todo[--k];
        *flags |= o->row->flags;
        for (int i = 0; i < o->n_in + o->n_ctrl; i++) {
            const tp_operation *p = i < o->n_in ? o->in[i]->op : o->ctrl[i - o->n_in];
            if (seen[p->id]) continue;
            seen[p->id] = true;
            todo[k++] = p;
        }
    }
    const bool ok = seen && todo;
    tp_free(seen);
    tp_free((void *)todo);
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
        const tp_spec *want = &s->spec[i];
        if (!in[i])
            return tp_fail(TP_ERR_ARG, "%s: the function gave no tensor for input %d ('%s')", s->name, i, want->name);
        if (in[i]->op->graph != s->graph)
            return tp_fail(TP_ERR_ARG, "%s: the tensor for input %d ('%s') is of another graph", s->name, i,
                           want->name);
        if (in[i]->dtype != want->dtype)
            return tp_fail(TP_ERR_DTYPE, "%s: the tensor for input %d ('%s') is %s, the input signature wants %s",
                           s->name, i, want->name, tp_dtype_name(in[i]->dtype), tp_dtype_name(want->dtype));
        if (!tp_shape_compatible(&in[i]->shape, &want->shape))
            return tp_fail(TP_ERR_SHAPE,
                           "%s: the tensor for input %d ('%s') has shape %s, the input signature wants %s", s->name, i,
                           want->name, tp_shape_text(&in[i]->shape, a), tp_shape_text(&want->shape, b));
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
    s->consumed = consumed; /* the count goes on */
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

static tp_input_source *tp__tensor_new(const char *name, size_t more)
{
    tp_input_source *s = tp_feedfree_input(name, sizeof(tp__tensor_source) + more);
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
    int *index; /* in the signature */
    int n;
    tp_hook hook, **hooks;
} tp__renamed;

/* Does the source itself give input i? */
static bool tp__input_provides(const tp_input_source *s, int i);

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
    for (int i = 0; i < s->n_spec; i++) /* as PlaceholderInput, at once */
        if (!tp__input_provides(s, i)) tp__placeholder_or_reuse(s->graph, &s->spec[i]);
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
        if (!in[i]) in[i] = tp__placeholder_or_reuse(s->graph, &s->spec[i]);
    return TP_OK;
}

static tp_status tp__remap_did(tp_input_source *s, tp_status st)
{
    s->consumed = s->inner_->consumed;
    return st;
}
static tp_status tp__remap_reset(tp_input_source *s) { return tp__remap_did(s, tp_input_reset_state(s->inner_)); }
static tp_status tp__remap_seek(tp_input_source *s, int64_t n) { return tp__remap_did(s, tp_input_seek(s->inner_, n)); }
static int64_t tp__remap_size(tp_input_source *s) { return tp_input_size(s->inner_); }
static tp_status tp__remap_after(tp_hook *h, const tp_run_values *v)
{
    (void)v;
    return tp__remap_did((tp_input_source *)h->user, TP_OK);
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
static void tp__remap_close(tp_input_source *s) { tp_input_free(s->inner_); }

static bool tp__input_provides(const tp_input_source *s, int i)
{
    if (!s->inner_) return true;
    const tp__renamed *m = (const tp__renamed *)s->user;
    for (int k = 0; k < m->n; k++)
        if (m->index[k] == i) return tp__input_provides(s->inner_, k);
    return false;
}

TP_DEF tp_input_source *tp_remap_input_source(tp_input_source *input, const char *const *names, int n)
{
    const char *const who = "tp_remap_input_source";
    if (!tp__input_around(NULL, &input, who)) return input;
    const char *wrong = !names || n < 1 || n > 1 << 20 ? "it needs the name of at least one input" : NULL;
    for (int i = 0; i < n && !wrong; i++) {
        if (!names[i]) wrong = "a name is NULL";
        for (int k = 0; k < i && !wrong; k++)
            if (strcmp(names[k], names[i]) == 0) wrong = "a name is there twice";
    }
    tp_input_source *s = wrong ? tp__input_fail(who, NULL, TP_ERR_ARG, "%s: %s", who, wrong)
                               : tp_feedfree_input(input->name, sizeof(tp__renamed));
    tp__renamed *m = s && !wrong ? (tp__renamed *)s->user : NULL;
    bool ok = m != NULL;
    if (ok) ok = (m->name = (const char **)tp_arena_alloc(&s->mem_, (size_t)n * sizeof *m->name)) != NULL;
    for (int i = 0; i < n && ok; i++) ok = (m->name[i] = tp_arena_strdup(&s->mem_, names[i])) != NULL;
    if (!ok) {
        tp_input_free(input);
        if (wrong) return s;
        tp_input_free(s);
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

/* -- StagingInput: a ring of rounds; a round is what all towers take in one run. A thread calls the hooks of the source with a
 * request of its own, keeps what they would have fed, and calls their after_run. Where the source's tensors are computed, its
 * hooks take part in the runs, each of which computes a round, and the first is preceded by nr_stage runs of these tensors. */

typedef struct tp__staging {
    tp_input_source *input;
    int nr_stage, device;
    int n_tower;
    bool computed;
    tp_node **from, **node; /* n_tower * n_spec: the source's; what runs are fed, NULL where that is not ours */
    int *on;                /* the device of each tower */
    tp_device **to;         /* the same of the session, used; NULL: it stays in host memory */
    tp_session *session;
    tp_hook *const *inner;
    int n_inner;
    tp_hook hook, prime, **hooks;

    tp_tensor *value; /* n_round * n_tower * n_spec */
    int64_t *after;   /* n_round: where the source is behind this round */
    int n_round, head, filled;
    bool held; /* the first, by a run */
    bool running, primed, closed, stop;
    tp_status error; /* the thread's */
    char error_text[2048];
    tp_thread *thread;
    tp_mutex *mutex;
    tp_cond *room, *data;
    tp_run_request ahead; /* the thread's */
    tp_session token;     /* what its waits are cancelled by */
} tp__staging;

static void tp__staging_close(tp_input_source *s);

static tp__staging *tp__input_staging(const tp_input_source *s)
{
    s = tp__input_kind(s);
    return s->close == tp__staging_close ? (tp__staging *)s->user : NULL;
}

TP__UNUSED static bool tp__input_is_staging(const tp_input_source *s) { return tp__input_staging(s) != NULL; }

/* The queue inside, if there is one, and its source. */
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

/* -- its ring */

/* A value, to where a run will read it. */
static tp_status tp__staging_bring(const tp_input_source *s, tp_tensor *to, tp_device *d, const tp_tensor *value)
{
    if (value->device && !value->device->host)
        return tp_fail(TP_ERR_ARG, "%s: %s feeds what lies on %s already", s->name,
                       ((const tp__staging *)s->user)->input->name, value->device->name);
    tp_tensor host = *value;
    host.device = NULL;
    return d && tp_tensor_bytes(value) ? tp_tensor_stage(to, d, &host) : tp_tensor_copy(to, &host);
}

/* The next round, by the thread: what the hooks of the source would feed. */
static tp_status tp__staging_ahead(tp_input_source *s, int round)
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
        st = tp_fail(TP_ERR_UNSUPPORTED, "%s: the hooks of %s fetch, and there is no run yet to fetch from", s->name,
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
        else st = tp__staging_bring(s, &g->value[round * n + k], g->to[k / s->n_spec], &r->feed[i].value);
        taken++;
    }
    if (st == TP_OK && taken != r->n_feed)
        st = tp_fail(TP_ERR_UNSUPPORTED, "%s: the hooks of %s feed what is none of its tensors", s->name,
                     g->input->name);
    const tp_run_values none = {NULL, 0};
    for (int i = 0; i < g->n_inner && st == TP_OK; i++)
        if (g->inner[i]->after_run) st = g->inner[i]->after_run(g->inner[i], &none);
    if (st == TP_OK) g->after[round] = g->input->consumed;
    return st;
}

static void tp__staging_end(tp__staging *g, tp_status st)
{
    g->closed = true;
    g->error = st;
    snprintf(g->error_text, sizeof g->error_text, "%.2047s", st < TP_OK ? tp_last_error() : "");
}

static void tp__staging_thread(void *user)
{
    tp_input_source *s = (tp_input_source *)user;
    tp__staging *g = (tp__staging *)s->user;
    tp_mutex_lock(g->mutex);
    while (!g->stop && !g->closed) {
        if (g->filled - g->held >= g->nr_stage) {
            tp_cond_wait(g->room, g->mutex);
            continue;
        }
        const int round = (g->head + g->filled) % g->n_round;
        tp_mutex_unlock(g->mutex);
        const tp_status st = tp__staging_ahead(s, round);
        tp_mutex_lock(g->mutex);
        if (st == TP_OK) g->filled++;
        else tp__staging_end(g, st);
        tp_cond_signal(g->data);
    }
    tp_mutex_unlock(g->mutex);
}

/* Nothing is under way and nothing lies ready. */
static void tp__staging_stop(tp_input_source *s)
{
    tp__staging *g = (tp__staging *)s->user;
    if (g->thread) {
        tp_mutex_lock(g->mutex);
        g->stop = true;
        tp_cond_broadcast(g->room);
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
    g->n_round = g->nr_stage + 1; /* one is the run's */
    if (!g->value) g->value = (tp_tensor *)tp_calloc((size_t)g->n_round * (size_t)n + 1, sizeof *g->value);
    if (!g->after) g->after = (int64_t *)tp_calloc((size_t)g->n_round, sizeof *g->after);
    if (!g->value || !g->after) return TP_ERR_NOMEM;
    s->consumed = g->input->consumed;
    tp_status st = TP_OK;
#ifndef TP_NO_THREADS
    tp__running_begin(&g->ahead.run, &g->token, 0);
    if (!g->computed) st = tp_thread_start(&g->thread, tp__staging_thread, s);
#endif
    g->running = st == TP_OK;
    return st;
}

static tp_status tp__staging_reset(tp_input_source *s)
{
    tp__staging *g = (tp__staging *)s->user;
    if (g->running && !tp__input_kind(g->input)->reset_state) return TP_OK; /* it goes on */
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
    char why[TP__ERROR_TEXT] = "";
    if (st == TP_OK && consumed > 0 && in->close == tp__tensor_close) {
        const tp__tensor_source *t = (const tp__tensor_source *)in->user;
        if (!t->seek && t->effects & (TP_OP_READS_VAR | TP_OP_WRITES_VAR))
            st = tp_fail(TP_ERR_UNSUPPORTED,
                         "%s cannot go back to datapoint %lld: what %s computes comes from variables, and it has no "
                         ".seek",
                         s->name, (long long)consumed, in->name);
    }
    if (st != TP_OK) snprintf(why, sizeof why, "%s", tp_last_error());
    const tp_status begun = running && (st == TP_OK || st == TP_ERR_UNSUPPORTED) ? tp__staging_start(s) : TP_OK;
    if (begun != TP_OK) return begun;
    return st == TP_OK ? TP_OK : tp_fail(st, "%s", why);
}

/* -- its hooks */

static tp_status tp__staging_created(tp_hook *h, tp_session *session)
{
    tp_input_source *s = (tp_input_source *)h->user;
    tp__staging *g = (tp__staging *)s->user;
    tp_status st = TP_OK;
    tp__staging_stop(s);
    g->session = session;
    for (int t = 0; t < g->n_tower; t++) {
        const int k = g->device == TP_NONE ? 0 : g->device > 0 ? g->device : g->on[t];
        if (g->to[t]) tp__device_use(g->to[t], -1);
        g->to[t] = NULL;
        if (k < 0 || k >= session->n_device)
            return tp_fail(TP_ERR_ARG, "%s: there is no device %d to stage on: the session has %d", s->name, k,
                           session->n_device);
        tp_device *d = session->device[k];
        if (d->host || !d->stage || !d->unstage) continue;
        tp__device_use(d, 1); /* the session may be freed before */
        g->to[t] = d;
    }
    for (int i = 0; i < g->n_inner && !g->computed && st == TP_OK; i++)
        if (g->inner[i]->after_create_session) st = g->inner[i]->after_create_session(g->inner[i], session);
    tp__feeder *f = tp__input_feeder(g->input);
    if (f && !g->computed) f->session = NULL; /* its thread has no business there */
    return st;
}

/* Before the first run of a source that computes: nr_stage rounds, with the random steps before that of the run. */
static tp_status tp__staging_prime(tp_hook *h, tp_run_request *r)
{
    tp_input_source *s = (tp_input_source *)h->user;
    tp__staging *g = (tp__staging *)s->user;
    tp_status st = g->running ? TP_OK : tp_input_reset_state(s);
    if (st != TP_OK || g->primed) return st;
    if (!g->session) return tp_fail(TP_ERR_STATE, "%s: its hooks have not seen the session", s->name);
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
            if (g->node[k]) st = tp__staging_bring(s, &g->value[i * n + k], g->to[k / s->n_spec], value[j++]);
        if (st == TP_OK) g->after[i] = g->input->consumed;
        if (st == TP_OK) g->filled = i + 1;
    }
    g->primed = st == TP_OK;
    if (st != TP_OK) g->filled = 0;
    tp_hooked_session_free(run);
    tp_free((void *)fetch);
    tp_free((void *)value);
    return st;
}

/* A round for this run. */
static tp_status tp__staging_take(tp_input_source *s, tp_run_request *r)
{
    tp__staging *g = (tp__staging *)s->user;
    tp_status st = TP_OK;
    tp_mutex_lock(g->mutex);
    while (!g->held) {
        if (g->filled > 0) {
            g->held = true;
            tp_cond_signal(g->room);
        } else if (g->closed) {
            st = g->error < TP_OK ? tp_fail(g->error, "%s", g->error_text) : g->error;
            if (st < TP_OK) {
                s->error = st;
                memcpy(s->error_text, g->error_text, sizeof s->error_text);
            }
            break;
        } else if (g->thread) {
            if ((st = tp_request_wait(r, g->data, g->mutex, "StagingInput waited for data")) != TP_OK) break;
        } else {
            tp_mutex_unlock(g->mutex); /* without threads: now */
            g->ahead.run = r->run;
            g->ahead.run.trace = NULL;
            st = tp__staging_ahead(s, g->head);
            tp_mutex_lock(g->mutex);
            if (st == TP_OK) g->filled++;
            else if (st == TP_ERR_CANCELLED || st == TP_ERR_TIMEOUT) break;
            else tp__staging_end(g, st);
        }
    }
    tp_mutex_unlock(g->mutex);
    return st;
}

/* The summary of a queue inside, which is not for the thread to write. */
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
    const int asked = tp_request_datapoints(r), n = g->n_tower * s->n_spec;
    if (asked > 0 && asked < g->n_tower)
        return tp_fail(TP_ERR_UNSUPPORTED, "%s: all %d towers take their datapoints together, and a run wants %d",
                       s->name, g->n_tower, asked);
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
            if (g->node[k]) st = tp__staging_bring(s, &g->value[round * n + k], g->to[k / s->n_spec], v->value[j++]);
        g->after[round] = g->input->consumed;
        if (st != TP_OK) return st;
        g->filled++;
    }
    tp_mutex_lock(g->mutex);
    s->consumed = g->after[g->head];
    g->head = (g->head + 1) % g->n_round;
    g->filled--;
    g->held = false;
    tp_cond_signal(g->room);
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
    g->to = (tp_device **)tp_arena_alloc(&s->mem_, (size_t)g->n_tower * sizeof *g->to);
    if (!g->hooks || !g->to) return TP_ERR_NOMEM;
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

/* -- its tensors */

static tp_status tp__staging_setup(tp_input_source *s)
{
    return tp_input_setup(((tp__staging *)s->user)->input, s->graph, s->spec, s->n_spec);
}

/* Room for one more tower. */
static bool tp__staging_tower(tp_input_source *s)
{
    tp__staging *g = (tp__staging *)s->user;
    const size_t n = ((size_t)g->n_tower + 1) * (size_t)s->n_spec;
    tp_node **from = (tp_node **)tp_realloc((void *)g->from, n * sizeof *from);
    if (from) g->from = from;
    tp_node **node = (tp_node **)tp_realloc((void *)g->node, n * sizeof *node);
    if (node) g->node = node;
    int *on = (int *)tp_realloc(g->on, ((size_t)g->n_tower + 1) * sizeof *on);
    if (on) g->on = on;
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
        return tp_fail(TP_ERR_STATE, "%s: %s feeds the tensors of one tower and computes those of another", s->name,
                       g->input->name);
    g->computed = computed;
    if (computed) { /* the value of an earlier run comes in their place */
        tp_input_cached_name_scope_push(s);
        for (int i = 0; i < s->n_spec; i++)
            if (node[i]) node[i] = tp_placeholder(s->graph, s->spec[i].name, from[i]->dtype, from[i]->shape);
        tp_name_scope_pop(s->graph);
    }
    for (int i = 0; i < s->n_spec; i++) in[i] = node[i] ? node[i] : from[i];
    g->on[g->n_tower++] = tp_current_device(s->graph);
    return TP_OK;
}

static int64_t tp__staging_size(tp_input_source *s) { return tp_input_size(((tp__staging *)s->user)->input); }

static void tp__staging_close(tp_input_source *s)
{
    tp__staging *g = (tp__staging *)s->user;
    tp__staging_stop(s);
    tp_input_free(g->input);
    for (int i = 0; i < g->n_round * g->n_tower * s->n_spec && g->value; i++) tp_tensor_free(&g->value[i]);
    for (int t = 0; t < g->n_tower && g->to; t++)
        if (g->to[t]) tp__device_use(g->to[t], -1);
    tp_free(g->value);
    tp_free(g->after);
    tp_free((void *)g->from);
    tp_free((void *)g->node);
    tp_free(g->on);
    tp_free((void *)g->ahead.fetch);
    tp_free(g->ahead.feed);
    tp_cond_free(g->room);
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
        tp_input_free(input);
        return s;
    }
    tp__staging *g = (tp__staging *)s->user;
    g->input = input;
    g->nr_stage = d->nr_stage ? d->nr_stage : 1;
    g->device = d->device;
    g->mutex = tp_mutex_new();
    g->room = tp_cond_new();
    g->data = tp_cond_new();
    s->setup = tp__staging_setup;
    s->get_input_tensors = tp__staging_tensors;
    s->reset_state = tp__staging_reset;
    s->seek = tp__staging_seek;
    s->size = tp__staging_size;
    s->hooks = tp__staging_hooks;
    s->close = tp__staging_close;
    if (g->mutex && g->room && g->data) return s;
    tp_input_free(s);
    return NULL;
}

/* -- what looks inside */

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
    if (!f->running) return TP_OK; /* there is nothing in it */
    const int64_t start = f->start, at = s->consumed;
    for (tp_input_source *p = s; p != in; p = p->inner_ ? p->inner_ : tp__input_staging(p)->input)
        if (!p->inner_) staging = p;
    const bool staged = staging && ((tp__staging *)staging->user)->running;
    if (staged) tp__staging_stop(staging);
    if (f->shared) {
        tp__feeder_stop(f);
        tp_mutex_lock(f->shared->mutex);
        f->shared->filled = 0;
        tp_cond_broadcast(f->shared->room);
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
    char kind; /* as in tp__npy */
    int size;
    tp_dtype dtype; /* what it becomes; unset: refused */
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
    {19, 'f', 2, TP_F16, "float16"}, /* up to here: written too */
    {5, 'i', 2, TP_I32, "int16"},
    {6, 'i', 1, TP_I32, "int8"},
    {17, 'u', 2, TP_I32, "uint16"},
    {22, 'u', 4, TP_I64, "uint32"},
    {23, 'u', 8, TP_I64, "uint64"},
    {7, 'S', 0, TP_DTYPE_UNSET, "string"},
    {8, 'c', 8, TP_DTYPE_UNSET, "complex64"},
    {18, 'c', 16, TP_DTYPE_UNSET, "complex128"},
};

/* How many bytes dp's message has. */
static tp_status tp__wire_size(const tp_datapoint *dp, size_t *size)
{
    size_t all = 4;
    for (int i = 0; i < dp->n; i++) {
        const tp_tensor *t = &dp->c[i];
        char what[64], text[TP_SHAPE_TEXT];
        size_t bytes;
        snprintf(what, sizeof what, "tp_datapoint_pack: component %d", i);
        if (t->device)
            return tp_fail(TP_ERR_ARG, "%s is in the memory of %s: bring it to the host with tp_tensor_copy", what,
                           t->device->name);
        const tp_status st = tp__npy_check(t, what, &bytes);
        if (st != TP_OK) return st;
        for (int k = 0; k < t->shape.ndim; k++)
            if (t->shape.dim[k] > INT32_MAX)
                return tp_fail(TP_ERR_SHAPE, "%s has the shape %s: a message can say sizes up to %d", what,
                               tp_shape_text(&t->shape, text), INT32_MAX);
        const size_t head = 16 + 4 * (size_t)t->shape.ndim;
        bytes = tp_tensor_bytes(t);
        if (bytes > PTRDIFF_MAX - head - all)
            return tp_fail(TP_ERR_NOMEM, "%s: the message is larger than memory can be", what);
        all += head + bytes;
    }
    *size = all;
    return TP_OK;
}

/* The bytes that tp__wire_size counted. */
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
    if (!tp__buf_room(out, size))
        return tp_fail(TP_ERR_NOMEM, "out of memory for a message of %zu bytes behind %zu", size, out->len);
    tp__wire_write(dp, out->data + out->len);
    out->len += size;
    out->data[out->len] = 0;
    return TP_OK;
}

/* What a component's head says, and *at behind it. what: the message, i: which component. */
static tp_status tp__wire_head(tp__npy *h, const uint8_t *data, size_t size, size_t *at, const char *what, int i)
{
    if (size - *at < 8) return tp_fail(TP_ERR_FORMAT, "%s is truncated: it ends before its component %d", what, i);
    const uint32_t code = tp__le32(data + *at), ndim = tp__le32(data + *at + 4);
    const tp__wire_type *type = tp__wire_types, *end = type + TP_COUNT(tp__wire_types);
    while (type < end && type->code != code) type++;
    if (type == end)
        return tp_fail(TP_ERR_FORMAT, "%s: its component %d has the dtype %u, which is none of the format's", what, i,
                       (unsigned)code);
    if (type->dtype == TP_DTYPE_UNSET)
        return tp_fail(TP_ERR_UNSUPPORTED, "%s: its component %d is %s: send numbers, complex ones as two floats", what,
                       i, type->name);
    if (ndim > TP_MAX_DIMS)
        return tp_fail(TP_ERR_FORMAT, "%s: its component %d says %u dimensions, there may be %d", what, i,
                       (unsigned)ndim, TP_MAX_DIMS);
    *at += 8;
    if (size - *at < 4 * (size_t)ndim + 8)
        return tp_fail(TP_ERR_FORMAT, "%s is truncated: it ends in the shape of its component %d", what, i);
    memset(h, 0, sizeof *h);
    h->kind = type->kind;
    h->size = type->size;
    h->dtype = type->dtype;
    h->swap = !tp__little_endian();
    h->shape.ndim = (int)ndim;
    for (uint32_t k = 0; k < ndim; k++, *at += 4) {
        const uint32_t dim = tp__le32(data + *at);
        if (dim > INT32_MAX) return tp_fail(TP_ERR_FORMAT, "%s: a dimension of its component %d is negative", what, i);
        h->shape.dim[k] = dim;
    }
    return TP_OK;
}

static tp_status tp__wire_component(tp_tensor *t, const uint8_t *data, size_t size, size_t *at, const char *what, int i)
{
    char text[TP_SHAPE_TEXT];
    tp__npy h;
    size_t n = 0;
    tp_status st = tp__wire_head(&h, data, size, at, what, i);
    if (st != TP_OK) return st;
    const uint64_t bytes = tp__le64(data + *at);
    *at += 8;
    if (!tp__npy_count(&h, &n))
        return tp_fail(TP_ERR_FORMAT, "%s: its component %d says the shape %s, which is larger than memory can be",
                       what, i, tp_shape_text(&h.shape, text));
    if (bytes != (uint64_t)n * (uint64_t)h.size)
        return tp_fail(TP_ERR_FORMAT, "%s: its component %d says %llu bytes, its shape %s of %d-byte elements has %llu",
                       what, i, (unsigned long long)bytes, tp_shape_text(&h.shape, text), h.size,
                       (unsigned long long)n * (unsigned)h.size);
    if (bytes > size - *at)
        return tp_fail(TP_ERR_FORMAT, "%s is truncated: its component %d has %llu bytes, %zu are there", what, i,
                       (unsigned long long)bytes, size - *at);
    st = tp_tensor_resize(t, h.dtype, h.shape);
    if (st != TP_OK) return st;
    if (!tp__npy_elements(&h, t->data, data + *at, n))
        return tp_fail(TP_ERR_FORMAT, "%s: its component %d has a uint64 that int64 does not hold", what, i);
    *at += (size_t)bytes;
    return TP_OK;
}

TP_DEF tp_status tp_datapoint_unpack(tp_datapoint *dp, const void *data, size_t size, const char *what)
{
    TP__REQUIRE(dp && (data || size == 0) && what, TP_ERR_ARG)

    dp->n = 0;
    if (size < 4)
        return tp_fail(TP_ERR_FORMAT, "%s is truncated: it has %zu bytes, the number of its components alone 4", what,
                       size);
    const uint32_t n = tp__le32((const uint8_t *)data);
    if (n > INT_MAX || n > (size - 4) / 16)
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

TP__COLD_END
TP__EXACT_END
#undef TP__PLACED
#define TP__PLACED TP__PLACE
#endif
