/* tp_tensor.h - v0.1 - tensors, random numbers, threads, devices and array files; no dependency but libc
 *
 * Do this:
 *     #define TP_IMPLEMENTATION        // in ONE .c file, before any other include
 *     #include "tp_tensor.h"
 *
 * WHAT THIS IS       the lowest layer of tp: status codes and error sentences, a log, allocator hooks, dtypes,
 *                    shapes, tensors, a counter-based random generator, a thread pool, the device interface with
 *                    the CPU device, vector maths as plain loops, and array files: npy, npz, safetensors, TensorFlow's
 *                    checkpoints.
 * WHAT THIS IS NOT   fast: the fast code is tp_fast.h, which this header includes if it is in the same folder. Graphs, names and
 *                    training are in tp_graph.h and the headers above it.
 *
 * A COMPLETE PROGRAM
 *     #define TP_IMPLEMENTATION
 *     #include "tp_tensor.h"
 *     int main(void)
 *     {
 *         tp_tensor t = {0};
 *         if (tp_tensor_resize(&t, TP_F32, tp_make_shape(2, 3)) != TP_OK) return 1;
 *         for (int i = 0; i < 6; i++) ((float *)t.data)[i] = (float)i;
 *         if (tp_npy_save("t.npy", &t) != TP_OK) puts(tp_last_error());
 *         tp_tensor_free(&t);
 *         return 0;
 *     }
 *
 * HOW IT WORKS
 *     Errors.   A function that fails calls tp_fail, which keeps the sentence for the calling thread, and returns the status
 *         that tp_fail returns. Callers pass the status on. Whoever stops there shows tp_last_error().
 *     Memory.   All memory comes from tp_malloc, which calls the allocator of tp_set_allocator; tests let it fail at each
 *         call in turn. A tp_arena gives out pieces of large blocks, which are freed together: graphs and plans are made of them.
 *     Random numbers.   tp_philox is a function, without state: four numbers from a key and a counter. The key comes from a
 *         seed and a name (tp_random_key), the counter from the number of the run and the element's index. So any number can be
 *         computed by itself: threads need no order, and a resumed training goes on with the same numbers.
 *     Threads.   tp_pool_run(p, n, fn, user) calls fn for chunks 0 to n-1. Threads take the next chunk from an atomic counter until
 *         none is left. Which thread runs a chunk must not matter, so the same numbers come out for any number of threads.
 *     Devices.   A tp_device is a table of functions: allocate, copy, find_kernel, record, replay. The CPU's is made by
 *         tp_cpu_device_new: a pool, and in .isa the fast functions of the best instruction set, which tp_fast.h brings; NULL:
 *         the naive loops. tp_cuda.cu makes another one. Kernels get a tp_call: operands, attributes, scratch, random key.
 *     Files.   tp_writer_open writes to a temporary file beside the target, tp_writer_commit flushes it to the disk and renames it, so
 *         that a reader sees the old file or the new one, never a part. npz is a zip file of npy files; inflate, deflate and the
 *         checksums are here.
 *
 * CONTENTS   what programs use: >>config >>status >>numbers >>log >>alloc >>dtype >>shape >>tensor >>random >>threads >>device
 *            >>engine >>files
 *            behind STOP HERE, for kernels on other devices too: >>conv geometry
 *            the implementation: >>config >>os >>options >>numbers >>status >>log >>alloc >>dtype >>shape >>tensor >>random
 *            >>threads >>device >>engine (naive loops) >>fast (includes tp_fast.h) >>engine (public functions) >>files
 *
 * OPTIONS (define before the include)
 *     TP_STATIC                 every function is static (define it with TP_IMPLEMENTATION)
 *     TP_NO_THREADS             no threads: everything runs on the caller's thread, with the same results
 *     TP_NO_FILES               no files: functions that read or write a file fail with a sentence. Defined by default, like
 *                               TP_NO_THREADS and TP_NO_SIGNALS, if the compiler names no operating system
 *     TP_NO_SIGNALS             a training handles no signals: Ctrl-C ends the program, and so does a file beyond `ulimit -f`.
 *                               tp_interrupt (tp_train.h) ends a training there too
 *     TP_NO_DLOPEN              no library is loaded at run time (NVML, libcurl); functions that need one fail with a sentence
 *     TP_NAIVE                  only the naive loops: tp_fast.h is not included, and no message says that it is missing
 *     TP_TINY                   for microcontrollers: all of the following, and TP_NO_FILES, TP_NO_THREADS, TP_NO_SIGNALS, TP_NO_DLOPEN,
 *                               TP_NAIVE, TP_NO_SAFETENSORS, TP_NO_TF_CHECKPOINT, TP_NO_SEQUENCE_LAYERS. See examples/micro_mlp.c
 *     TP_NO_STDIO               no stdio.h (unless there are files), no assert(). The default log sink is silent; without an operating
 *                               system there is no clock. This macro, TP_NO_SENTENCES, TP_ONLY_F32 and TP_TINY are for programs of
 *                               tp_tensor.h, tp_graph.h, tp_layers.h and tp_optim.h alone
 *     TP_NO_MALLOC              no default allocator: out of memory until tp_set_memory or tp_set_allocator is called
 *     TP_NO_SENTENCES           no texts of errors and of the log: the sentence of an error is the name of its status, with file and
 *                               line for a mistake in a graph. To read the sentence, run the program on a PC without the macro.
 *                               tp_log logs nothing; tp_arena_printf and tp_buf_printf leave out %e, %f and %g
 *     TP_NO_TRACE               no traces of runs, no counts of bytes, FLOPs and seconds in plans, no memory and utilization of devices
 *     TP_NO_DEVICES             a session has one CPU device: no GPU, no all-reduce
 *     TP_NO_FUSION              plans fuse nothing, except that gradient descent subtracts a product without storing it
 *     TP_ONLY_F32               ops compute in float32 alone: no float64, no half precision, no integers (labels and indices may be
 *                               integers). Sums and random numbers are float32 too, so initial values and results differ from those
 *                               of other builds in their last bits. Implies TP_NAIVE
 *     TP_NO_SAFETENSORS         without the safetensors format: its functions fail with a sentence
 *     TP_NO_TF_CHECKPOINT       without TensorFlow's checkpoints: their functions fail with a sentence
 *     TP_UNWIND                 C only: keep this unit's unwind tables in the program (an eighth of its size). backtrace() and
 *                               exceptions that leave a log sink need them; >>config says when they are kept anyway. From other
 *                               functions that tp calls (hooks of callbacks, maps of flows) no exception may come: what lies
 *                               between is neither freed nor restored. Catch it there, and return tp_fail(TP_ERR, ..)
 *     TP_MALLOC TP_REALLOC TP_FREE   define all three or none: the default allocator, which the hooks replace
 *     TP_ASSERT(x)              checks for bugs in tp itself, never for a user's mistake
 *
 * OWNERSHIP  a tp_tensor owns the memory in .own; .data points there or, in a view, to memory that the tensor does not own.
 * THREADS    functions may run at the same time on different objects; only one thread at a time may use an object. Set the log
 *            sink and the allocator once, before any other call.
 * ERRORS     functions return tp_status: 0 is success, >0 is control flow (stop, end of data, interrupt), <0 is an error
 *            whose sentence is in tp_last_error() of the calling thread. No function here exits or aborts.
 * MISUSE     one rule for all tp headers. An argument that is visibly wrong (NULL where the comment does not allow it, an empty
 *            list, a count below 0, a value outside its enum, an object that already has another owner) gives TP_ERR_ARG and a
 *            sentence. Functions that make something return NULL, or the poisoned value that their header describes; functions
 *            that answer a question (how many, which, is it) return 0, false, NULL or ""; functions that return nothing do
 *            nothing. Freeing NULL is always fine. A function that takes ownership of an argument frees the argument on misuse
 *            too. Not detected: pointers to freed or invalid memory, and counts larger than their array.
 * NOTATION   B batch, H W height and width, C input channels, O output channels, K kernel, N elements; NHWC.
 */
#ifndef TP_TENSOR_H
#define TP_TENSOR_H

#ifdef TP_TINY /* see OPTIONS */
#ifndef TP_NO_STDIO
#define TP_NO_STDIO
#endif
#ifndef TP_NO_MALLOC
#define TP_NO_MALLOC
#endif
#ifndef TP_NO_SENTENCES
#define TP_NO_SENTENCES
#endif
#ifndef TP_NO_TRACE
#define TP_NO_TRACE
#endif
#ifndef TP_NO_DEVICES
#define TP_NO_DEVICES
#endif
#ifndef TP_NO_FUSION
#define TP_NO_FUSION
#endif
#ifndef TP_ONLY_F32
#define TP_ONLY_F32
#endif
#ifndef TP_NAIVE
#define TP_NAIVE
#endif
#ifndef TP_NO_FILES
#define TP_NO_FILES
#endif
#ifndef TP_NO_THREADS
#define TP_NO_THREADS
#endif
#ifndef TP_NO_SIGNALS
#define TP_NO_SIGNALS
#endif
#ifndef TP_NO_DLOPEN
#define TP_NO_DLOPEN
#endif
#ifndef TP_NO_SAFETENSORS
#define TP_NO_SAFETENSORS
#endif
#ifndef TP_NO_TF_CHECKPOINT
#define TP_NO_TF_CHECKPOINT
#endif
#ifndef TP_NO_SEQUENCE_LAYERS
#define TP_NO_SEQUENCE_LAYERS
#endif
#endif

#if defined(__CUDACC__) && defined(TP_IMPLEMENTATION)
#error "compile the implementation with a C or C++ compiler; nvcc is for tp_cuda.cu only"
#endif
#if defined(TP_STATIC) && !defined(TP_IMPLEMENTATION)
#error "TP_STATIC makes every function private to its unit, so that unit needs TP_IMPLEMENTATION too"
#endif
#if defined(TP_IMPLEMENTATION) && !defined(_WIN32)
#if !defined(_POSIX_C_SOURCE) && !defined(_GNU_SOURCE) && !defined(__APPLE__)
#if defined(_FEATURES_H) && !defined(__USE_POSIX199309)
#error "the tp implementation needs POSIX: include the tp headers before any system header in this unit"
#endif
#define _POSIX_C_SOURCE 200809L
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64 /* allow files of more than 2 GiB on 32-bit systems */
#endif
#endif
#if defined(__MINGW32__) && defined(TP_IMPLEMENTATION) && !defined(__USE_MINGW_ANSI_STDIO)
#define __USE_MINGW_ANSI_STDIO 1 /* printf understands %zu and %lld, as on other systems */
#endif

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifndef TP_NO_STDIO
#include <stdio.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ==== >>config ======================================================================================== */

#define TP_VERSION_MAJOR 0
#define TP_VERSION_MINOR 1
#define TP_VERSION_PATCH 0
#define TP_ABI           15u /* version of the binary interface: changes with the layout of a public struct */

#ifndef TP_DEF
#if defined(TP_STATIC) && defined(__GNUC__)
#define TP_DEF static __attribute__((unused))
#elif defined(TP_STATIC)
#define TP_DEF static
#else
#define TP_DEF extern
#endif
#endif

#if defined(__MINGW32__) && !defined(__clang__)
#define TP_PRINTF(fmt_, first_) __attribute__((format(gnu_printf, fmt_, first_)))
#elif defined(__GNUC__)
#define TP_PRINTF(fmt_, first_) __attribute__((format(printf, fmt_, first_)))
#else
#define TP_PRINTF(fmt_, first_)
#endif

#if !defined(TP_ASSERT) && defined(TP_NO_STDIO) /* assert() prints */
#define TP_ASSERT(x) ((void)sizeof(x))
#elif !defined(TP_ASSERT)
#include <assert.h>
#define TP_ASSERT(x) assert(x)
#endif

#if defined(TP_ONLY_F32) && !defined(TP_NAIVE)
#define TP_NAIVE /* the fast code computes in other types, too */
#endif
/* tp_fast.h has all the fast CPU code. TP__IF_FAST(yes, no) is `yes` if tp_fast.h is included, else `no`. */
#define TP__FAST 0
#if defined(TP_NAIVE)
#define TP__FAST_LACKS "it was compiled with TP_NAIVE"
#elif !defined(__GNUC__)
#define TP__FAST_LACKS "tp_fast.h, the fast part of tp, needs gcc or clang: compile with one of them"
#else
#define TP__FAST_LACKS "tp_fast.h, the fast part of tp, was not found: copy it beside tp_tensor.h and compile again"
#ifdef __has_include
#if __has_include("tp_fast.h")
#undef TP__FAST
#define TP__FAST 1
#endif
#endif
#endif
#if TP__FAST
#define TP__IF_FAST(yes_, no_) yes_
#else
#define TP__IF_FAST(yes_, no_) no_
#endif

/* Zeros for any struct, in C and C++: tp_tensor t = TP_EMPTY; ({0} is no C++ for a struct that begins with an enum) */
#ifdef __cplusplus
#define TP_EMPTY \
    {            \
    }
#else
#define TP_EMPTY \
    {            \
        0        \
    }
#endif
#define TP_COUNT(a)    ((int)(sizeof(a) / sizeof((a)[0]))) /* number of elements of a fixed array */
#define TP__CAT2(a, b) a##b
#define TP__CAT(a, b)  TP__CAT2(a, b)

/* Booleans in option structs have three values, so that a call can undo what its argscope set. TP_UNSET: as if not given. */
typedef int tp_tri;
enum { TP_YES = 1, TP_NO = 2, TP_UNSET = 3 };
#define TP_TRI(condition_) \
    ((condition_) ? TP_YES : TP_NO) /* d.use_bias = TP_TRI(n > 3): a false condition is TP_NO, not the default */

/* OPTIONS. In a struct that you fill in by hand, zero means "the default". For a 0 write TP_ZERO in a float, TP_NONE in an
 * integer (its comment says if TP_NONE is allowed; (uint64_t)TP_NONE for a seed), TP_NO in a tp_tri.
 * In a macro that takes options by name, 0 means 0: .use_bias = false, .momentum = 0, .max_epoch = 0. (Where none makes no sense,
 * as in a stride or an early stopping's patience, 0 is the default there too.) The macro also passes the
 * text of its options, and each option that is named in this text and is zero becomes TP_NO, TP_ZERO or TP_NONE. (The name must
 * be in the call itself, not inside a macro of yours.) This also holds for a variable that is 0 when the program runs: with
 * .steps_per_epoch = n and n = 0 the epochs have no steps. Where 0 is to mean the default, fill in the struct by hand.
 * tests/zero_options.tsv has a row for each option. */
#define TP_ZERO 1.17549435e-38f
#define TP_NONE (-1)

/* The caller's source file and line, for error sentences. */
typedef struct tp_at {
    const char *file;
    int line;
} tp_at;
#define TP_AT              \
    {                      \
        __FILE__, __LINE__ \
    }

/* An option for which 0 is a value other than the default. Each header has a table of them; its last row has a NULL type. */
typedef enum { TP__ZERO_NO, TP__ZERO_ZERO, TP__ZERO_NONE } tp__zero_spelling;
typedef struct tp__zero_option {
    const char *type, *field; /* names of the struct and the field, for example "tp_dropout_desc" and "rate" */
    uint16_t offset;
    uint8_t size, spelling; /* spelling: a tp__zero_spelling */
} tp__zero_option;
#define TP__ZERO_OPTION(type_, field_, spelling_)                                                  \
    {                                                                                              \
#type_, #field_, (uint16_t)offsetof(type_, field_), (uint8_t)sizeof(((type_ *)0)->field_), \
            TP__ZERO_##spelling_                                                                   \
    }
/* Replaces the zeros of named options in desc, and returns desc. type: the name of desc's struct. text: the options as the
 * caller wrote them. */
TP_DEF void *tp__fill_named_zeros(void *desc, const char *type, const tp__zero_option *options, const char *text);
/* A struct of options, by name: tp_graph_new(TP_OPTIONS(tp_graph_config, .seed = 0)). It is valid until the end of the block, in
 * C++ until the end of the statement.
 * C++20 has the same macros, with three rules of the language: options by name are in the order of the fields, with or without
 * braces (tp_conv2d(x, "conv0", {.filters = 32, .kernel_size = 3})); the options of a call have either all names or none; a list
 * that is the first argument is written TP_NAMES("a", "b"). The arguments that a macro has before `...` may have names or not:
 * tp_cb_run_op(op, .run_step = true), tp_cb_run_op(.fn = make_op). Older C++ calls the functions whose
 * names end in an underscore. */
/* clang-format off */
#if !defined(__cplusplus) || __cplusplus >= 202002L
#define TP_KEYWORDS /* defined if the macros with named options exist */
#endif
#ifndef __cplusplus
#define TP_HERE                                ((tp_at)TP_AT) /* the source file and line where this macro is written, as a tp_at */
#define TP__BRACES(type_)
#define TP_NAMES(...)                          {__VA_ARGS__} /* a list of names as the first argument: tp_inf_scalar_stats(TP_NAMES("cost", "error")) */
#define TP_OPTIONS(type_, ...)                 TP__NAMED(TP__PART_##type_, type_, #__VA_ARGS__, __VA_ARGS__)
#define TP__OPTIONS(part_, type_, text_, ...)  TP__NAMED(part_, type_, text_, .at_ = TP_AT, __VA_ARGS__)
#define TP__NAMED(part_, type_, text_, ...)    ((const type_ *)tp__fill_named_zeros(&(type_){__VA_ARGS__}, #type_, TP__CAT(TP__CAT(tp__, part_), _zeros)(), text_))
/* tp_cb_model_saver(.max_to_keep = 3) calls tp_cb_model_saver_(&(tp_cb_model_saver_desc){..}) */
#define TP__CALL(part_, fn_, text_, ...)       fn_##_(TP__OPTIONS(part_, fn_##_desc, text_, __VA_ARGS__))
#define TP__CALL_X(part_, fn_, x_, text_, ...) fn_##_((x_), TP__OPTIONS(part_, fn_##_desc, text_, __VA_ARGS__))
#elif __cplusplus >= 202002L
#ifdef __GNUC__ /* g++ warns about each option that is not given */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#endif
extern "C++" {
#include <initializer_list>
#include <type_traits>
#include <utility>
template <class T> struct tp__cxx_braced_options { T options; }; /* a call's options that have braces of their own: the macro adds braces around {.filters = 32} */
/* Converts to the type of the field that it is given to. */
template <class A> struct tp__cxx_convert {
    A value;
    template <class M> requires std::is_convertible_v<A, M> operator M() const { return static_cast<M>(value); }
    template <class M> requires(std::is_pointer_v<M> && std::is_same_v<A, decltype(NULL)>) operator M() const { return nullptr; } /* NULL becomes a null pointer of the field's type */
};
/* Options without names, for the fields after at_ and after the macro's own arguments (`skipped` fields). */
template <class T, int skipped> struct tp__cxx_positional {
    T options;
    template <class... A> requires(!(std::is_same_v<A, T> || ...)) tp__cxx_positional(A... value) : options(skip(tp__cxx_convert<A>{value}...)) {}
    template <class... A> static T skip(A... value)
    {
        if constexpr (!requires { T{}.at_; }) return fields(value...);
        else if constexpr (offsetof(T, at_) == 0 && skipped == 0) return fields(tp_at{}, value...);
        else if constexpr (offsetof(T, at_) == 0 && skipped == 1) return T{tp_at{}, {}, value...};
        else if constexpr (offsetof(T, at_) == 0) return T{tp_at{}, {}, {}, value...};
        else return fields(value...);
    }
    template <class... A> static T fields(A... value) { return T{value...}; }
};
/* The value of an argument that stands before the options in a macro call. */
template <class M> struct tp__cxx_value {
    M value;
    tp__cxx_value(M v) : value(v) {}
    template <class V> requires(std::is_convertible_v<V, M> && !std::is_same_v<V, M> && !std::is_pointer_v<M>) tp__cxx_value(V v) : value(static_cast<M>(v)) {}
};
template <class E> struct tp__cxx_list {
    std::initializer_list<E> values;
    tp__cxx_list(std::initializer_list<E> v) : values(v) {}
};
template <class T> struct tp__cxx_call {
    T options;
    template <class M> tp__cxx_call &&with(int, M T::*field, tp__cxx_value<std::type_identity_t<M>> one) &&
    {
        options.*field = one.value;
        return std::move(*this);
    }
    template <class E, size_t N> tp__cxx_call &&with(int, E (T::*list)[N], tp__cxx_list<std::type_identity_t<E>> several) &&
    {
        size_t n = 0;
        for (const E &value : several.values)
            if (n < N) (options.*list)[n++] = value;
        return std::move(*this);
    }
    /* Adds one option that was given by name. `named` is a struct in which only that option's bytes are set, and in `options` these
     * bytes are still zero. */
    template <class F> tp__cxx_call &&with(long, F, T named) &&
    {
        unsigned char *to = (unsigned char *)&options;
        for (size_t i = 0; i < sizeof(T); i++) to[i] = (unsigned char)(to[i] | ((unsigned char *)&named)[i]);
        return std::move(*this);
    }
    const T *named(tp_at at, const char *type, const tp__zero_option *zeros, const char *text) &&
    {
        if constexpr (requires { options.at_; }) options.at_ = at;
        return (const T *)tp__fill_named_zeros(&options, type, zeros, text);
    }
};
struct tp__cxx_last { tp__cxx_last(int) {} }; /* makes an overload the last choice */
template <class T, int skipped> tp__cxx_call<T> tp__cxx_options(int = 0) { return {}; }
/* Compilers print the line of this overload when a call is wrong, so the line explains it. */
template <class T, int skipped> tp__cxx_call<T> tp__cxx_options(int, tp__cxx_positional<T, skipped> list) /* IS AN OPTION MISSPELT, NOT IN THE ORDER OF THE STRUCT T, OR OF ANOTHER TYPE? */
{
    return {list.options};
}
template <class T, int skipped> tp__cxx_call<T> tp__cxx_options(long, T options) { return {options}; }
template <class T, int skipped> tp__cxx_call<T> tp__cxx_options(tp__cxx_last, tp__cxx_braced_options<T> one) { return {one.options}; }
template <class... T> char (&tp__cxx_count(T &&...))[sizeof...(T)];
}
#define TP_HERE                                (tp_at TP_AT)
#define TP__BRACES(type_)                      type_
#define TP_NAMES(...)                          (std::initializer_list<const char *>{__VA_ARGS__})
#define TP_OPTIONS(type_, ...)                 TP__CXX(TP__PART_##type_, type_, 0, , #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define TP__OPTIONS(part_, type_, text_, ...)  TP__CXX(part_, type_, 0, , text_ __VA_OPT__(, ) __VA_ARGS__)
#define TP__WITH(type_, field_, ...)           .with(0, &type_::field_, {__VA_ARGS__})
#define TP__CXX(part_, type_, skipped_, with_, text_, ...) \
    (tp__cxx_options<type_, skipped_>(0 __VA_OPT__(, {__VA_ARGS__})) with_.named(tp_at TP_AT, #type_, TP__CAT(TP__CAT(tp__, part_), _zeros)(), text_))
#define TP__CALL(part_, fn_, text_, ...)       fn_##_(TP__OPTIONS(part_, fn_##_desc, text_ __VA_OPT__(, ) __VA_ARGS__))
#define TP__CALL1(part_, fn_, f_, v_, text_, ...) \
    fn_##_(TP__CXX(part_, fn_##_desc, 1, TP__WITH(fn_##_desc, f_, v_), #v_ ", " text_ __VA_OPT__(, ) __VA_ARGS__))
#define TP__CALL2(part_, fn_, f_, v_, g_, w_, text_, ...) \
    fn_##_(TP__CXX(part_, fn_##_desc, 2, TP__WITH(fn_##_desc, f_, v_) TP__WITH(fn_##_desc, g_, w_), #v_ ", " #w_ ", " text_ __VA_OPT__(, ) __VA_ARGS__))
#define TP__CALL_X(part_, fn_, x_, text_, ...) fn_##_((x_), TP__OPTIONS(part_, fn_##_desc, text_ __VA_OPT__(, ) __VA_ARGS__))
#define TP__CALL_X1(part_, fn_, x_, f_, v_, text_, ...) \
    fn_##_((x_), TP__CXX(part_, fn_##_desc, 1, TP__WITH(fn_##_desc, f_, v_), #v_ ", " text_ __VA_OPT__(, ) __VA_ARGS__))
#else
extern "C++" {
#include <initializer_list>
template <class... T> char (&tp__cxx_count(T &&...))[sizeof...(T)];
}
#endif
#ifdef __cplusplus
#define TP__LIST(type_, ...)                   std::initializer_list<type_>{__VA_ARGS__}.begin(), (int)sizeof(tp__cxx_count(__VA_ARGS__))
#endif
/* clang-format on */

/* The owner of an object that can have only one (a dataflow, an input, a callback, a parameter, a session_init), and the line that
 * gave it the object if known. who is NULL: no owner yet. A second owner is an error that names both; the object is freed once.
 * An attempt to free it beside its owner is an error in the log, and frees nothing. tp sets this; leave it zero in a struct that you
 * make yourself. */
typedef struct tp_owner {
    const char *who;
    tp_at at;
} tp_owner;

/* "0.1.0". A program that was compiled with headers of another version does not link. [tfutils: get_tf_version_tuple] */
TP_DEF const char *tp_version(void);

/* ==== >>status ======================================================================================== */

typedef enum tp_status {
    TP_OK = 0,
    TP_STOP = 1, /* end training, as success (StopTraining) */
    TP_END = 2,  /* the input has no more data */
    TP_INTR = 3, /* the user pressed Ctrl-C, or tp_interrupt was called */
    TP_ERR = -1,
    TP_ERR_ARG = -2,          /* an argument or option makes no sense */
    TP_ERR_SHAPE = -3,        /* shapes do not fit */
    TP_ERR_DTYPE = -4,        /* element types do not fit */
    TP_ERR_NOMEM = -5,        /* out of memory */
    TP_ERR_IO = -6,           /* the operating system refused a file operation */
    TP_ERR_FORMAT = -7,       /* a file is damaged or has another format */
    TP_ERR_NAME = -8,         /* a name that does not exist, or exists already */
    TP_ERR_STATE = -9,        /* called at the wrong time */
    TP_ERR_NUMERIC = -10,     /* a requested check found NaN or infinity */
    TP_ERR_TIMEOUT = -11,     /* the time limit of a run or a wait is over */
    TP_ERR_UNSUPPORTED = -12, /* this build or device cannot do it */
    TP_ERR_CANCELLED = -13    /* another thread cancelled the run */
} tp_status;

/* The sentence of this thread's last error; never NULL, "" if there was none. Valid until the next error. Look at it after a call
 * that has failed: one that succeeds may leave the sentence of an error that it has dealt with. */
TP_DEF const char *tp_last_error(void);
/* Set this thread's error sentence and return `status`: `return tp_fail(TP_ERR_ARG, "...", x);` A sentence says what is wrong,
 * where, and what to do. Any thread. A name in it may come from a file, so control characters become '?' (not tabs), and line feeds
 * become blanks unless fmt has one. */
TP_DEF tp_status tp_fail(tp_status status, const char *fmt, ...) TP_PRINTF(2, 3);
TP_DEF const char *tp_status_name(tp_status status); /* the status's name, "TP_ERR_SHAPE" */
#ifdef TP_NO_SENTENCES
/* With TP_NO_SENTENCES the sentence of an error is the name of its status, for example "TP_ERR_SHAPE" or, for a mistake in a graph,
 * "train.c:35: TP_ERR_SHAPE". The text is an operand of a condition that is never true: compilers check it and leave it out. */
static inline bool tp__not_said(const char *fmt, ...) TP_PRINTF(1, 2);
static inline bool tp__not_said(const char *fmt, ...) { return (void)fmt, false; }
#define TP__NOT_SAID(...)     ((void)(0 && tp__not_said(__VA_ARGS__)))
#define tp_fail(status_, ...) (TP__NOT_SAID(__VA_ARGS__), (tp_fail)((status_), NULL))
#endif

/* ==== >>numbers ======================================================================================= */
/* Floating-point numbers as text, the same in every locale. The library reads and writes all its numbers with these functions. */

#define TP_NUMBER_TEXT 32 /* bytes of the longest text of a number, with the NUL at its end */

/* Write the fewest digits that read back as the same number, like Python's repr(): 1.0, 0.1, 1e-07, -inf, nan. Return the
 * length of the text. */
TP_DEF int tp_format_double(char text[TP_NUMBER_TEXT], double value);
/* Like tp_format_double for a float, with as few digits as a float needs: 0.1, not 0.10000000149011612. */
TP_DEF int tp_format_float(char text[TP_NUMBER_TEXT], float value);

/* The number at the start of `text`, after white space: correctly rounded, ties to even. "inf", "infinity" and "nan" in upper or
 * lower case are numbers, hexadecimal is not. *end (end may be NULL) is the text after the number, or `text` if there is none. */
TP_DEF double tp_parse_double(const char *text, const char **end);
TP_DEF float tp_parse_float(const char *text, const char **end);

/* ==== >>log =========================================================================================== */

typedef enum tp_log_level { TP_LOG_DEBUG, TP_LOG_INFO, TP_LOG_WARN, TP_LOG_ERROR } tp_log_level;
typedef void (*tp_log_fn)(void *user, tp_log_level level, const char *message);

/* Replace the log sink. The default writes "[MMDD HH:MM:SS] message" to stderr, with the marks WRN and ERR, in colour on a
 * terminal, and after tp_logger_set_dir also to <logger dir>/log.log. NULL restores the default.
 *
 * One thread at a time is in fn, and when tp_set_log returns, no other thread is in the earlier fn or will be: its user may be
 * freed. fn may call tp_log (the line goes to the default sink), tp_set_log and tp_logger_set_dir. A thread that stays in fn for longer
 * than 10 seconds is no longer waited for. On a thread of the program fn may be left by a C++ exception or longjmp. On a thread that the
 * library started this ends the program; where it leaves a training, the training's memory is lost, and Ctrl-C stays caught. */
TP_DEF void tp_set_log(tp_log_fn fn, void *user);
TP_DEF void tp_log(tp_log_level level, const char *fmt, ...) TP_PRINTF(2, 3);
/* Log each message text only once per process (for warnings inside loops); at most 256 different texts are remembered. */
TP_DEF void tp_log_once(tp_log_level level, const char *fmt, ...) TP_PRINTF(2, 3);
#ifdef TP_NO_SENTENCES /* no message is logged */
#define tp_log(level_, ...)      ((void)(level_), TP__NOT_SAID(__VA_ARGS__))
#define tp_log_once(level_, ...) ((void)(level_), TP__NOT_SAID(__VA_ARGS__))
#endif

/* Set the directory for all files of a run, of which a process has one. If it exists and is not empty, `action` decides: 'k' keep
 * it, 'd' delete it (only the folder of an earlier run, which has a log.log), 'b' rename it to dir+MMDD-HHMMSS, 'n' use a new
 * directory dir+MMDD-HHMMSS, 0 fail. An old log.log is renamed to log.log.MMDD-HHMMSS, if it has a line. An error is
 * logged too. If another process logs there, 'd' fails, 'k' and 'b' warn; the ranks of a job call tp_logger_set_rank_dir
 * (tp_train.h) instead. dir NULL with action 0: log.log is closed, and the logger has no directory. A relative dir is looked up in
 * the working directory whenever a file is written there: a program that changes its working directory gives an absolute one.
 * Until the directory is set, other threads that log wait. [train: logger.set_logger_dir] */
TP_DEF tp_status tp_logger_set_dir(const char *dir, char action);
/* tp_logger_set_dir with the directory train_log/<base name of program without extension>[:<name>] (Windows: [_<name>]).
 * [logger.auto_set_dir] */
TP_DEF tp_status tp_logger_auto_set_dir(const char *program, const char *name, char action);
TP_DEF const char *tp_logger_dir(void); /* the directory for the files of a run; NULL if none was set */

/* ==== >>alloc ========================================================================================= */

typedef struct tp_allocator {
    void *(*malloc_fn)(size_t size, void *user);
    void *(*realloc_fn)(void *p, size_t size, void *user);
    void (*free_fn)(void *p, void *user);
    void *user;
} tp_allocator;
/* Set the functions that allocate all memory; a NULL: the default allocator. Call tp_set_allocator before any other function. If one of
 * the three functions is NULL, this is an error in the log and in tp_last_error(), and the allocator stays what it was. */
TP_DEF void tp_set_allocator(const tp_allocator *a);

/* Take all memory from the `size` bytes at `memory`, for example a static array: for programs without malloc. Call it before any
 * other function; tp_set_allocator(NULL) ends it. The first free piece that is large enough is used, and free neighbours are
 * joined. TP_ERR_ARG if the memory is too small for anything. */
TP_DEF tp_status tp_set_memory(void *memory, size_t size);
/* How many of these bytes are in use. *most (most may be NULL): an array of so many bytes would have been enough so far. 0 if
 * tp_set_memory was not called. */
TP_DEF size_t tp_memory_in_use(size_t *most);

TP_DEF void *tp_malloc(size_t size);           /* NULL when out of memory, with tp_last_error() set */
TP_DEF void *tp_calloc(size_t n, size_t size); /* zeroed memory; NULL on overflow of n * size too */
TP_DEF void *tp_realloc(void *p, size_t size); /* on failure (NULL) p stays valid and unchanged */
TP_DEF void tp_free(void *p);
TP_DEF void *tp_alloc_aligned(size_t size); /* 64-byte aligned, for tensor data; free with tp_free_aligned */
TP_DEF void tp_free_aligned(void *p);
TP_DEF bool tp_mul_size(size_t a, size_t b, size_t *out); /* *out = a * b; false on overflow */
TP_DEF char *tp_strdup(const char *s);

/* A growing arena: many small allocations that are freed together. Memory is zeroed; NULL when out of memory. */
typedef struct tp_arena {
    struct tp__arena_block *head;
    size_t used; /* bytes allocated so far */
} tp_arena;
TP_DEF void *tp_arena_alloc(tp_arena *a, size_t size);
TP_DEF char *tp_arena_strdup(tp_arena *a, const char *s);
TP_DEF char *tp_arena_printf(tp_arena *a, const char *fmt, ...) TP_PRINTF(2, 3);
TP_DEF void tp_arena_free(tp_arena *a);

/* A growing byte string, for text and messages. `data` ends with a NUL when len > 0. `failed` stays set once memory ran out. */
typedef struct tp_buf {
    char *data;
    size_t len, cap;
    bool failed;
} tp_buf;
TP_DEF void tp_buf_put(tp_buf *b, const void *p, size_t n);
TP_DEF void tp_buf_printf(tp_buf *b, const char *fmt, ...) TP_PRINTF(2, 3);
TP_DEF void tp_buf_free(tp_buf *b);

/* ==== >>dtype ========================================================================================= */

typedef enum tp_dtype {
    TP_DTYPE_UNSET = 0,
    TP_F32,
    TP_F64,
    TP_F16,
    TP_BF16,
    TP_I32,
    TP_I64,
    TP_U8,
    TP_BOOL,
    TP_DTYPE_COUNT
} tp_dtype;
TP_DEF size_t tp_dtype_size(tp_dtype d);      /* bytes of an element; 0 for TP_DTYPE_UNSET */
TP_DEF const char *tp_dtype_name(tp_dtype d); /* the dtype's name, "float32" */
TP_DEF bool tp_dtype_is_float(tp_dtype d);
TP_DEF float tp_f16_to_f32(uint16_t h);
TP_DEF uint16_t tp_f32_to_f16(float f); /* conversions round to nearest even */
TP_DEF float tp_bf16_to_f32(uint16_t h);
TP_DEF uint16_t tp_f32_to_bf16(float f);
/* Convert n elements to another dtype: float to integer truncates toward zero, x to bool is x != 0. */
TP_DEF void tp_convert(void *dst, tp_dtype dst_dtype, const void *src, tp_dtype src_dtype, int64_t n);

/* ==== >>shape ========================================================================================= */

#define TP_MAX_DIMS 8
#define TP_ANY      (-1) /* a dimension that is unknown until there is data (the batch size) */

typedef struct tp_shape {
    int ndim; /* number of dimensions; 0: a scalar */
    int64_t dim[TP_MAX_DIMS];
} tp_shape;

TP_DEF tp_shape tp_make_shape_n(int ndim, const int64_t *dim);
/* number of elements; -1 if a dimension is unknown; INT64_MAX on overflow */
TP_DEF int64_t tp_shape_size(const tp_shape *s);
TP_DEF bool tp_shape_known(const tp_shape *s);
TP_DEF bool tp_shape_equal(const tp_shape *a, const tp_shape *b);
/* whether two shapes are equal, where an unknown dimension equals any */
TP_DEF bool tp_shape_compatible(const tp_shape *a, const tp_shape *b);
/* Write "(?,28,28,1)" to buf, which has at least TP_SHAPE_TEXT bytes; return buf. */
#define TP_SHAPE_TEXT (TP_MAX_DIMS * 21 + 4)
TP_DEF const char *tp_shape_text(const tp_shape *s, char *buf);
/* tp_make_shape(2, 3): a shape with the given dimensions. tp_make_shape(): the shape of a scalar, which has none. */
#ifndef __cplusplus /* an extra 0 precedes the dimensions, because C allows no empty array */
#define tp_make_shape(...)                                                                  \
    tp_make_shape_n((int)(sizeof((const int64_t[]){0, __VA_ARGS__}) / sizeof(int64_t)) - 1, \
                    (const int64_t[]){0, __VA_ARGS__} + 1)
#elif __cplusplus >= 202002L
#define tp_make_shape(...)                                                        \
    tp_make_shape_n((int)sizeof(tp__cxx_count(0 __VA_OPT__(, ) __VA_ARGS__)) - 1, \
                    std::initializer_list<int64_t>{0 __VA_OPT__(, ) __VA_ARGS__}.begin() + 1)
#else
extern "C++" { /* a template cannot have the linkage of C */
template <class... tp__dim> static inline tp_shape tp_make_shape(tp__dim... dims)
{
    const int64_t dim[] = {0, (int64_t)dims...};
    return tp_make_shape_n((int)sizeof...(dims), dim + 1);
}
}
#endif

/* The type of a value: its element type and shape. */
typedef struct tp_type {
    tp_dtype dtype;
    tp_shape shape;
} tp_type;

/* ==== >>tensor ======================================================================================== */

/* A contiguous row-major array, usually in host memory. Zero-initialise it (tp_tensor t = TP_EMPTY); free it with
 * tp_tensor_free. `data` points into `own`
 * or, for a view, to memory that the tensor does not own. Never assign a tensor to another one (out->c[2] = *y): both would free
 * `own`; tp_tensor_copy copies, tp_tensor_view looks. A tensor that becomes a view keeps its own buffer for later use.
 * If `device` is set, `data` is in that device's memory. tp_tensor_to_device and tp_tensor_stage make such tensors, sessions and
 * predictors take them as feeds, and tp_tensor_copy copies them to the host; all other functions need host memory. The device
 * is not freed before its last tensor, even if it is closed earlier. */
typedef struct tp_tensor {
    tp_dtype dtype;
    tp_shape shape;
    void *data;
    void *own;
    size_t capacity;               /* size of the buffer `own` in bytes */
    struct tp_device *device;      /* the device with the memory of `data`; NULL: the host */
    struct tp_device *own_device_; /* the device with the memory of `own`; NULL: the host */
    int staged_;                   /* 1 + the number that tp_device.stage gave the staged data; 0: no data is staged */
} tp_tensor;

/* Give t this type and memory of its own (contents undefined). A large enough buffer is reused. */
TP_DEF tp_status tp_tensor_resize(tp_tensor *t, tp_dtype dtype, tp_shape shape);
/* the tensor borrows data */
TP_DEF void tp_tensor_view(tp_tensor *t, tp_dtype dtype, tp_shape shape, const void *data);
TP_DEF tp_status tp_tensor_copy(tp_tensor *dst, const tp_tensor *src); /* dst owns the copy, in host memory */
TP_DEF void tp_tensor_free(tp_tensor *t);
/* Copy `host` to the memory of d; t owns the copy. Kernels queued on d from now on see the copy, and host may change after the
 * call. Call it on the thread that runs plans on d. A large enough buffer that t has on d is reused. */
TP_DEF tp_status tp_tensor_to_device(tp_tensor *t, struct tp_device *d, const tp_tensor *host);
/* Copy `host` to d as tp_tensor_to_device does, but from any thread and while kernels of d run: the next batch is copied during
 * a step. Before t is fed, the thread that runs plans on d must call tp_tensor_unstage, which orders the copy before later kernels.
 * If d cannot stage, stage copies at once. unstage does nothing if t is not staged. Some devices hold a limited number of staged
 * tensors: see tp_device.stage. */
TP_DEF tp_status tp_tensor_stage(tp_tensor *t, struct tp_device *d, const tp_tensor *host);
TP_DEF tp_status tp_tensor_unstage(tp_tensor *t);
TP_DEF size_t tp_tensor_bytes(const tp_tensor *t);
TP_DEF int64_t tp_tensor_size(const tp_tensor *t);
TP_DEF double tp_tensor_get(const tp_tensor *t, int64_t i);       /* reads element i as a double */
TP_DEF void tp_tensor_set(tp_tensor *t, int64_t i, double value); /* sets element i, converting value to the dtype */
TP_DEF tp_tensor tp_scalar_view(const float *value);              /* a rank-0 tensor that borrows a float */

/* ==== >>random ======================================================================================== */

/* Philox 4x32-10: the four 32-bit numbers of `key` at a counter (128 bits as two words). No state; any thread. */
TP_DEF void tp_philox(uint64_t key, uint64_t counter_lo, uint64_t counter_hi, uint32_t out[4]);
/* A key made from a seed and a stream number (for example the hash of a name). */
TP_DEF uint64_t tp_random_key(uint64_t seed, uint64_t stream);
/* Element `index` of a key's stream at `step`: number index%4 of the four that tp_philox gives for counter (index/4, step). */
TP_DEF uint32_t tp_random_u32(uint64_t key, uint64_t step, uint64_t index);
TP_DEF float tp_random_uniform(uint64_t key, uint64_t step, uint64_t index); /* uniform in [0,1), with 24 random bits */
/* normal with mean 0 and deviation 1, by Box-Muller */
TP_DEF double tp_random_normal(uint64_t key, uint64_t step, uint64_t index);
/* hash of a name: FNV-1a with 64 bits, then mixed */
TP_DEF uint64_t tp_hash(const void *p, size_t n);
TP_DEF uint64_t tp_hash_name(const char *s);
/* Write a permutation of 0..n-1 to `order`. It depends on key and n alone. */
TP_DEF void tp_random_permutation(uint64_t key, int64_t *order, int64_t n);

/* ==== >>threads ======================================================================================= */

typedef struct tp_pool tp_pool;
typedef void (*tp_chunk_fn)(void *user, int64_t chunk); /* called once for each chunk, in any order */

/* A pool of `threads` threads, the caller's included; default: one per processor. With TP_NO_THREADS always 1. A child of fork has
 * none of its parent's threads: there the parent's pool runs all chunks on the caller, and can be freed. */
TP_DEF tp_pool *tp_pool_new(int threads);
TP_DEF void tp_pool_free(tp_pool *p);
TP_DEF int tp_pool_threads(const tp_pool *p);
/* Run fn(user, 0..n-1) and return when all are done. Threads claim chunks dynamically, so a chunk must not depend on
 * which thread runs it. Do not call it from inside a chunk. If several threads call it, one runs and the others wait. */
TP_DEF void tp_pool_run(tp_pool *p, int64_t n, tp_chunk_fn fn, void *user); /* p NULL: runs on the calling thread */

TP_DEF double tp_time(void); /* monotonic time in seconds */

/* Threads for prefetching; every function accepts NULL. With TP_NO_THREADS tp_thread_start fails with TP_ERR_UNSUPPORTED. */
typedef struct tp_thread tp_thread;
typedef struct tp_mutex tp_mutex;
typedef struct tp_cond tp_cond;
TP_DEF tp_status tp_thread_start(tp_thread **t, void (*fn)(void *), void *user);
TP_DEF void tp_thread_join(tp_thread *t);   /* waits until the thread ends, then frees t */
TP_DEF void tp_thread_detach(tp_thread *t); /* does not wait: t is freed when fn returns; do not join t afterwards */
TP_DEF tp_mutex *tp_mutex_new(void);
TP_DEF void tp_mutex_free(tp_mutex *m);
TP_DEF void tp_mutex_lock(tp_mutex *m);
TP_DEF void tp_mutex_unlock(tp_mutex *m);
TP_DEF tp_cond *tp_cond_new(void);
TP_DEF void tp_cond_free(tp_cond *c);
TP_DEF void tp_cond_wait(tp_cond *c, tp_mutex *m);
TP_DEF bool tp_cond_wait_for(tp_cond *c, tp_mutex *m, double seconds); /* returns false when the time is over */
TP_DEF void tp_cond_signal(tp_cond *c);
TP_DEF void tp_cond_broadcast(tp_cond *c);

/* ==== >>device ======================================================================================== */

typedef struct tp_device tp_device;

/* An operand of a kernel: contiguous, row-major, in the device's memory. data is NULL for an output that is not
 * used and for an input of which only the shape is read. */
typedef struct tp_operand {
    void *data;
    tp_dtype dtype;
    tp_shape shape;
} tp_operand;

/* The arithmetic that float32 operations may use. F32: float32 only. TF32: products on tensor cores, which round their operands
 * to 10 bits of mantissa; devices without tensor cores use F32. BF16, F16: matrix products, convolutions, LSTM, GRU and attention
 * with half-precision operands, summed in float32 and rounded once, after a product's bias is added; values between these
 * operations are stored in half precision too. Variables, their updates, sequence states, sums, statistics and fetched values
 * stay float32. */
typedef enum tp_precision { TP_PRECISION_F32 = 0, TP_PRECISION_TF32, TP_PRECISION_BF16, TP_PRECISION_F16 } tp_precision;

/* The ops that the planner fused into a kernel's own op. bias, add, norm, mask and table are indices of additional inputs, which
 * follow the op's own inputs; 0: there is no such input. */
typedef enum { TP_EPILOGUE_NONE = 0, TP_EPILOGUE_RELU = 1 } tp_epilogue_act;
typedef struct tp_fused {
    int bias;       /* bias, of shape (C): output 0 += bias, channel by channel */
    int act;        /* activation after the bias: a tp_epilogue_act */
    float most;     /* of a ReLU there: its results are at most this; 0: they have no bound */
    int add;        /* after the activation, for a batch norm before it: output 0 += an input of the same shape */
    int norm;       /* (3,C) mean, scale and beta: input 0 is read as (input 0 - mean) * scale + beta */
    bool norm_relu; /* input 0 passes through a ReLU after that norm */
    int norm_after; /* gamma, then beta, mean and var, of shape (C): after the activation, output 0 = gamma (output 0 -
                     * mean) / sqrt(var + epsilon) + beta */
    bool norm_after_relu; /* output 0 passes through a ReLU after that */
    float epsilon;        /* of norm_after */
    int mask;    /* batch_norm_grad: beta (C). Where the batch norm's output is not positive, dy is taken as 0 */
    float scale; /* softmax: input 0 is read as input 0 * scale; 0: as it is */
    /* convolutions, max_pool: input 0 is read as if it had so many rows above and below and columns left and right, of zeros or
     * minus infinity */
    uint8_t pad[4];
    int table; /* sequence ops: indices. x is a table, and position i reads x[table[i]] */
    /* batch_norm: output 0 is not written; the first 3 C floats of its memory become mean, scale and beta */
    bool elided;
} tp_fused;
/* The parts of tp_fused that a kernel supports. */
enum {
    TP_FUSES_BIAS = 1,
    TP_FUSES_ACT = 2,
    TP_FUSES_ADD = 4,
    TP_FUSES_NORM = 8,
    TP_FUSES_MASK = 16,
    TP_FUSES_ELIDE = 32,
    TP_FUSES_SCALE = 64,
    TP_FUSES_NORM_AFTER = 256,
    TP_FUSES_PAD = 512,
    TP_FUSES_MOST = 1024,
    TP_FUSES_CHANNELS_LAST = 128 /* the kernel supports all fusions, but some only if channels are the last dimension */
};

/* All arguments of a kernel call. Filled in once, when a plan is bound; a value that changes in each step is behind a pointer
 * (`step`), so that a recorded graph can be replayed. */
typedef struct tp_call {
    tp_device *device;
    const struct tp_op *op; /* the op's row in the op table */
    const void *attrs;      /* the op's attribute struct, NULL if it has none */
    int n_in, n_out, n_var;
    const tp_operand *in;
    const tp_operand *out;
    const tp_operand *var; /* variables that the op reads and writes in place */
    uint64_t key;          /* key of the op's random stream */
    const uint64_t *step;  /* the run's random step, in device memory */
    void *scratch;         /* the bytes that the row's scratch() asked for; contents undefined */
    size_t scratch_bytes;
    void *kept;         /* memory that the kernel finds as it left it in the plan's last run; NULL: none */
    bool kept_is_ready; /* the weights are those of that run, so what the kernel made of them need not be made again */
    void *user;         /* host ops: the pointer given when the op was built */
    const char *name;   /* name of the operation, for error sentences */
    tp_fused fused;
    int64_t *fault; /* two words in device memory, {0,0}: no fault; see tp_kernel_fault */
    int64_t fault_id;
    tp_precision precision;
} tp_call;
/* For a kernel that finds bad data (a label outside the classes): the run fails with the fault sentence of the op's row.
 * The first fault of a run is kept. Any thread. */
TP_DEF void tp_kernel_fault(const tp_call *k, int64_t value);
/* A kernel does not check shapes (the graph builder did), writes all of every output whose data is not NULL, never writes
 * its inputs, and gives the same bits for any number of threads. */
typedef void (*tp_kernel_fn)(const tp_call *k);

/* Bytes of a device's memory; -1: unknown. */
typedef struct tp_memory_use {
    int64_t total;      /* size of the device's memory; on the CPU, of the machine's */
    int64_t available;  /* bytes that any process can still allocate */
    int64_t used, peak; /* bytes allocated by this tp_device: now, and the most since the device was opened */
} tp_memory_use;

/* A device: memory and a stream of kernels that run in order. Functions are required unless their comment says NULL. `host`: the
 * CPU can read its memory. upload and download run in order with the kernels. The host memory may be reused when upload returns;
 * after download it has the data when the next wait returns. Between record_begin and record_end nothing runs: queued work is
 * kept in *recording and runs at each replay, on the same memory. A failed record_end ends the recording too. The four record
 * functions may be NULL (plans then run kernel by kernel). */
struct tp_device {
    unsigned abi;  /* TP_ABI of the C file that made the device */
    char name[32]; /* name such as "cpu:0" */
    bool host;
    /* returns memory aligned to 64 bytes; NULL when the device's memory is full */
    void *(*alloc)(tp_device *d, size_t bytes);
    void (*free)(tp_device *d, void *p);
    /* Limit alloc to this fraction, 0 to 1, of the device's total memory; after several calls the smallest fraction counts.
     * NULL, or a driver that does not report memory: no limit. */
    tp_status (*limit_memory)(tp_device *d, double part);
    tp_status (*upload)(tp_device *d, void *dst, const void *host_src, size_t bytes);
    tp_status (*download)(tp_device *d, void *host_dst, const void *src, size_t bytes);
    tp_status (*copy)(tp_device *d, void *dst, const void *src, size_t bytes);
    /* Copy from the memory of the device `from`, after the work queued there so far and before work queued there later. NULL:
     * copies go through the host. Only if neither device is `host`. */
    tp_status (*copy_from)(tp_device *d, void *dst, tp_device *from, const void *src, size_t bytes);
    /* An upload that runs while kernels run. stage begins to copy into the device's staging memory and gives the copy a number;
     * the host memory may be reused when stage returns. Any thread may call stage. unstage copies the staged data of that number
     * to dst (NULL: drops it), in order with the kernels, so that a recorded step finds the data at the same address. Sessions
     * upload their feeds this way. A StagingInput stages batch n + 1 during step n; the run that is fed this batch only unstages
     * it. If stage returns TP_ERR_NOMEM, a session uploads the feed instead. Both may be NULL. */
    tp_status (*stage)(tp_device *d, const void *host_src, size_t bytes, int *number);
    tp_status (*unstage)(tp_device *d, int number, void *dst);
    /* Work queued on d from now on runs after the work queued on `other` so far. If `other` is recording, d joins its recording
     * until `other` waits for d. NULL: plans that use this device and others are not recorded. */
    tp_status (*after)(tp_device *d, tp_device *other);
    /* out[i] = in[0] + in[1] + ... (mean: divided by n) in the memory of d[i], for each of n different devices. The vendor's
     * library chooses the order of summation. NULL: there is no such library. */
    tp_status (*all_reduce)(tp_device *const *d, int n, const void *const *in, void *const *out, int64_t count,
                            tp_dtype dtype, bool mean);
    /* All-reduce between the n ranks of a job; each rank is one process with one device. ranks_id: rank 0 makes an identity of
     * TP_CUDA_COMM_ID bytes and sends it to the other ranks. ranks_join: all ranks call it at the same time. ranks_sum begins an
     * all-reduce: data becomes the sum (mean: divided by n) of every rank's data. It starts after the work queued on d so far, and
     * runs beside work queued later; all ranks begin the same sums in the same order. ranks_done: *done is true if all begun sums
     * are done; work queued on d after that reads the results. ranks_leave: this rank leaves; abort: other ranks may have ended,
     * so that begun sums never finish. All NULL: there is no such library. */
    tp_status (*ranks_id)(tp_device *d, char *id);
    tp_status (*ranks_join)(tp_device *d, const char *id, int n, int rank);
    tp_status (*ranks_sum)(tp_device *d, void *data, int64_t n, tp_dtype dtype, bool mean);
    tp_status (*ranks_done)(tp_device *d, bool *done);
    void (*ranks_leave)(tp_device *d, bool abort);
    /* the device's kernel for an op; NULL: the device has none (a host device then uses the op's row) */
    tp_kernel_fn (*find_kernel)(tp_device *d, const char *op);
    /* the TP_FUSES_ bits of that op's kernel; NULL: it supports no fusion */
    unsigned (*fuses)(tp_device *d, const char *op);
    /* whether the kernel of a convolution with TP_FUSES_ADD can add a value in this call, whose operands have no data yet; NULL: in
     * every call */
    bool (*can_add)(tp_device *d, const tp_call *k);
    /* bytes of scratch memory that the op's kernel needs; NULL: as the op's row says */
    size_t (*scratch)(tp_device *d, const tp_call *k);
    /* hold(true): other threads wait, in alloc, free, upload, download, copy, unstage, wait, scratch and hold, until this thread has
     * released d as often as it held it. A run holds its session's devices, but not while an op runs on the host. NULL: threads may
     * use d at the same time. */
    void (*hold)(tp_device *d, bool on);
    void (*make_current)(tp_device *d); /* called before d's kernels if another device's ran before; NULL: not needed */
    tp_status (*wait)(tp_device *d);    /* wait until all queued work is done */
    /* Between record_begin and record_end work is recorded instead of done. record_step begins step 0, 1, 2, ... of the recording:
     * what is queued until the next call runs after the steps after[0] to after[n - 1], and may run beside all others. NULL, or
     * never called: the recorded work runs in its order. */
    tp_status (*record_begin)(tp_device *d);
    tp_status (*record_step)(tp_device *d, const int *after, int n);
    tp_status (*record_end)(tp_device *d, void **recording);
    tp_status (*replay)(tp_device *d, void *recording);
    void (*record_free)(tp_device *d, void *recording);
    /* For tp_device_memory and tp_device_utilization. NULL: unknown. */
    tp_status (*memory)(tp_device *d, tp_memory_use *m);
    double (*utilization)(tp_device *d);
    /* End the caller's use of d. d is freed when it is closed and all sessions and tensors on it are freed, in any order. */
    void (*close)(tp_device *d);
    tp_pool *pool;             /* host devices: the threads that run kernels */
    const struct tp__isa *isa; /* host devices: the instruction set of tp_fast.h; NULL: naive loops */
    bool amx;                  /* host devices: large products use bf16 tiles (isa is "amx") */
    void *impl;
    void (*destroy)(tp_device *d); /* frees the device; set by tp_device_ready */
    int users_;                    /* number of users: the caller, the sessions and the tensors on d */
    bool closed_;
};
/* For a device of your own, whose functions are set and whose `close` frees it: from now on this `close` runs when d is closed and
 * no session or tensor uses d any more. The library does this for the devices that it opens. Returns d. */
TP_DEF tp_device *tp_device_ready(tp_device *d);

/* The CPU as a device. threads: 0 = one per processor. isa: NULL = $TP_ISA or the best of this machine, else "naive", "sse2",
 * "avx2", "avx512", "neon"; an ISA that is unknown or that the machine lacks is an error. Equal bits are promised on one ISA only.
 * "amx" is AVX-512 with matrix products and convolutions in bf16 tiles; it is never the default. Products of float32 are as exact
 * as without it; products of values that a session stores as bf16 take a sixth of that work. Linux, gcc >= 11 or clang >= 12.
 * NULL on failure. Close with d->close(d). */
TP_DEF tp_device *tp_cpu_device_new(int threads, const char *isa);
/* n CPU devices, cpu:0 to cpu:n-1, each with its own memory, that share one thread pool: a program with 4 of them behaves like
 * one with 4 GPUs. Close each of them, in any order. On failure all of `out` is NULL. */
TP_DEF tp_status tp_cpu_devices_new(int n, int threads, const char *isa, tp_device **out);
/* The device's ISA: "avx512", or "naive" without vector kernels; for a device that is not the host, the device's name. */
TP_DEF const char *tp_device_isa(const tp_device *d);
/* A device's memory: total, available and used. A number that the device does not know is -1, without an error. Any thread. */
TP_DEF tp_status tp_device_memory(tp_device *d, tp_memory_use *m);
/* The device's utilization in percent; negative: unknown. One thread at a time may call it. CPU: the processor time of this process
 * since the previous call (or since the device was made), divided by elapsed time times the device's threads. Other threads of the
 * program count too, so it may be above 100. GPU: the driver's current figure (NVML, loaded at run time). */
TP_DEF double tp_device_utilization(tp_device *d);
/* An NVIDIA GPU as a device, numbered from 0. Compile tp_cuda.cu with nvcc and link it. NULL on failure. Close with d->close(d). */
typedef tp_status (*tp_fail_fn)(tp_status status, const char *fmt, ...);
typedef void (*tp_say_fn)(tp_log_level level, const char *fmt, ...);
tp_device *tp_cuda_open_(int ordinal, unsigned abi, tp_fail_fn fail, tp_say_fn say);
int tp_cuda_count(void); /* number of GPUs of this machine; 0 without a driver */
#define tp_cuda_open(ordinal_) tp_device_ready(tp_cuda_open_(ordinal_, TP_ABI, tp_fail, tp_log_once))
/* Bytes of the GPU's memory that sessions and the device itself have allocated: now, and the most since the device was opened. */
tp_status tp_cuda_memory(tp_device *gpu, size_t *now, size_t *most);
/* NCCL between processes with one GPU each. Rank 0 makes an identity and sends it to the other ranks (for example by MPI_Bcast);
 * then all n ranks make their communicator at the same time. Data is in the GPU's memory: n values of a float or integer type. A
 * call returns at once, and its work runs in order with the GPU's kernels. All ranks make the same calls in the same order.
 * all_reduce: every rank gets the sum, or the mean, of all ranks' data. all_gather: n values of rank 0, then of rank 1, and so on.
 * Free the communicator before the GPU is closed. */
#define TP_CUDA_COMM_ID 128 /* size of a communicator's identity in bytes */
typedef struct tp_cuda_comm tp_cuda_comm;
tp_status tp_cuda_comm_id_(char *id, tp_fail_fn fail);
/* rank joins the communicator of n ranks; NULL on failure */
tp_cuda_comm *tp_cuda_comm_new_(tp_device *gpu, int n, int rank, const char *id, tp_fail_fn fail);
#define tp_cuda_comm_id(id_)                   tp_cuda_comm_id_(id_, tp_fail)
#define tp_cuda_comm_new(gpu_, n_, rank_, id_) tp_cuda_comm_new_(gpu_, n_, rank_, id_, tp_fail)
void tp_cuda_comm_free(tp_cuda_comm *c);
tp_status tp_cuda_comm_all_reduce(tp_cuda_comm *c, void *data, int64_t n, tp_dtype dtype, bool mean);
tp_status tp_cuda_comm_broadcast(tp_cuda_comm *c, void *data, int64_t n, tp_dtype dtype, int root);
tp_status tp_cuda_comm_all_gather(tp_cuda_comm *c, void *all, const void *mine, int64_t n, tp_dtype dtype);
/* Add or replace the kernel of an op (by name) on this device, for user-written ops. Returns TP_ERR_NOMEM when the device's
 * table is full. */
TP_DEF tp_status tp_device_add_kernel(tp_device *d, const char *op, tp_kernel_fn fn);
/* Run fn over n chunks on the device's threads (in order on the caller's thread if the device has none). */
TP_DEF void tp_device_parallel(tp_device *d, int64_t n, tp_chunk_fn fn, void *user);

/* ==== >>engine ======================================================================================== */
/* Functions over arrays that several ops share. Each has a naive loop, which defines the result, and a fast kernel in tp_fast.h for
 * devices with an instruction set, which differs from the naive loop only by rounding. Every function gives the same bits for any
 * number of threads. Matrix products and convolutions are ops: their naive loops are on their pages in tp_graph.h, the fast ones
 * in tp_fast.h (>>gemm, >>conv). */

/* Vector functions over n floats, from which chains of element-wise ops are built. y may be the same array as an input.
 * exp, log, tanh, erf and the like are tp's own (2 ulp, sigmoid 2.5); equal bits are promised on one ISA, not between ISAs. Each vector function has
 * its own find function, so that a program contains only those that it uses. */
typedef void (*tp_vec_fn)(int64_t n, float *y, const float *const *in);
typedef tp_vec_fn (*tp_vec)(tp_device *d);      /* returns NULL if the device has no fast version of a function */
TP_DEF tp_vec_fn tp_vec_find_add(tp_device *d); /* the functions from here on have two input vectors */
TP_DEF tp_vec_fn tp_vec_find_sub(tp_device *d);
TP_DEF tp_vec_fn tp_vec_find_mul(tp_device *d);
TP_DEF tp_vec_fn tp_vec_find_div(tp_device *d);
TP_DEF tp_vec_fn tp_vec_find_pow(tp_device *d);
TP_DEF tp_vec_fn tp_vec_find_max(tp_device *d);
TP_DEF tp_vec_fn tp_vec_find_min(tp_device *d);
TP_DEF tp_vec_fn tp_vec_find_floordiv(tp_device *d);
TP_DEF tp_vec_fn tp_vec_find_mod(tp_device *d);       /* a - floor(a / b) b, exactly */
TP_DEF tp_vec_fn tp_vec_find_relu_grad(tp_device *d); /* the inputs are dy and y, the result is y > 0 ? dy : 0 */
TP_DEF tp_vec_fn tp_vec_find_elu_grad(tp_device *d);  /* the same with the result y > 0 ? dy : dy (y + 1) */
TP_DEF tp_vec_fn tp_vec_find_neg(tp_device *d);       /* the functions from here on have one input vector */
TP_DEF tp_vec_fn tp_vec_find_abs(tp_device *d);
TP_DEF tp_vec_fn tp_vec_find_square(tp_device *d);
TP_DEF tp_vec_fn tp_vec_find_sqrt(tp_device *d);
TP_DEF tp_vec_fn tp_vec_find_rsqrt(tp_device *d);
TP_DEF tp_vec_fn tp_vec_find_reciprocal(tp_device *d);
TP_DEF tp_vec_fn tp_vec_find_exp(tp_device *d);
TP_DEF tp_vec_fn tp_vec_find_log(tp_device *d);
TP_DEF tp_vec_fn tp_vec_find_tanh(tp_device *d);
TP_DEF tp_vec_fn tp_vec_find_sigmoid(tp_device *d);
TP_DEF tp_vec_fn tp_vec_find_relu(tp_device *d);
TP_DEF tp_vec_fn tp_vec_find_erf(tp_device *d);
TP_DEF tp_vec_fn tp_vec_find_softplus(tp_device *d);
TP_DEF tp_vec_fn tp_vec_find_elu(tp_device *d);
TP_DEF tp_vec_fn tp_vec_find_sin(tp_device *d);
TP_DEF tp_vec_fn tp_vec_find_cos(tp_device *d);
TP_DEF tp_vec_fn tp_vec_find_asin(tp_device *d);
TP_DEF tp_vec_fn tp_vec_find_acos(tp_device *d);
TP_DEF tp_vec_fn tp_vec_find_atan(tp_device *d);
TP_DEF tp_vec_fn tp_vec_find_sign(tp_device *d);
TP_DEF tp_vec_fn tp_vec_find_floor(tp_device *d);
TP_DEF tp_vec_fn tp_vec_find_ceil(tp_device *d);
TP_DEF tp_vec_fn tp_vec_find_round(tp_device *d); /* halves to even */
/* The functions from here on have parameters, which are one more input. in[1] is {scale, offset}, {low, high} or {alpha}. */
TP_DEF tp_vec_fn tp_vec_find_affine(tp_device *d);     /* scale x + offset */
TP_DEF tp_vec_fn tp_vec_find_clip(tp_device *d);       /* x limited to low .. high */
TP_DEF tp_vec_fn tp_vec_find_leaky_relu(tp_device *d); /* x > 0 ? x : alpha x */
TP_DEF tp_vec_fn
tp_vec_find_clip_grad(tp_device *d); /* inputs dy, x, {low, high}: dy where x is in the range, else 0 */
TP_DEF tp_vec_fn tp_vec_find_leaky_relu_grad(tp_device *d); /* inputs dy, x, {alpha}: x > 0 ? dy : alpha dy */

/* Sums in a fixed order (32 lanes, then a fixed tree), which gives the same bits for any number of threads. */
TP_DEF float tp_vec_sum(tp_device *d, int64_t n, const float *x);
TP_DEF float tp_vec_dot(tp_device *d, int64_t n, const float *x, const float *y);
/* maximum of n floats: -inf if n is 0; NaN if x has a NaN */
TP_DEF float tp_vec_max(tp_device *d, int64_t n, const float *x);

/* One pass of Adam over n elements: m += (g-m)(1-b1), v += (g*g-v)(1-b2), w -= lr_t*m/(sqrt(v)+eps). */
TP_DEF void tp_vec_adam(tp_device *d, int64_t n, float *w, float *m, float *v, const float *g, float lr_t, float b1,
                        float b2, float eps);

/* tp's own exp, log, tanh and erf of one float. The naive loops use them, so that results do not depend on the libm. */
TP_DEF float tp_expf(float x);
TP_DEF float tp_logf(float x);
TP_DEF float tp_tanhf(float x);
TP_DEF float tp_erff(float x);

/* ==== >>files ========================================================================================= */
/* On Windows a path is UTF-8, with '/' or '\\'; one that is not UTF-8 is an error. What main() gets is in the system's code page. */

/* Read a whole file. *data is tp_malloc'ed, with a NUL after the data; a size above `limit` (0: 16 GiB) is an error. If `gunzip`,
 * a gzip file is inflated; the magic number decides, not the name. */
TP_DEF tp_status tp_file_read(const char *path, bool gunzip, size_t limit, char **data, size_t *size);
TP_DEF bool tp_file_exists(const char *path);
TP_DEF tp_status tp_make_dirs(const char *path); /* creates the directory and its parents, like mkdir -p */

/* Write a file atomically: to <path>.tmp.<machine>-<process>-<number>, a new name each time (cut before .tmp where it is too long),
 * which commit syncs and renames to <path>. After an error every later call returns that error. Commit and abort always free the
 * writer; on failure no file is left. Temporary files that a killed process left in the folder are removed when the next file is
 * written there; those of another machine, or from before a restart, only when they are a day old. The permissions of a file that is
 * replaced stay. A symbolic link is followed: its target is replaced, and the link stays (neither on Windows). A pipe, a terminal or
 * another device is written directly, not atomically; npz and safetensors need one on which a program can go back. */
typedef struct tp_writer tp_writer;
TP_DEF tp_status tp_writer_open(tp_writer **w, const char *path);
TP_DEF tp_status tp_writer_put(tp_writer *w, const void *data, size_t size);
TP_DEF tp_status tp_writer_commit(tp_writer *w); /* frees w, also on failure */
TP_DEF void tp_writer_abort(tp_writer *w);       /* frees w, which may be NULL */

/* CRC-32 of zip, gzip and PNG; start with crc = 0 */
TP_DEF uint32_t tp_crc32(uint32_t crc, const void *data, size_t n);
/* CRC-32C (Castagnoli) of TFRecord; start with crc = 0 */
TP_DEF uint32_t tp_crc32c(uint32_t crc, const void *data, size_t n);
/* Inflate raw deflate data. The output must have exactly `out_size` bytes and all input must be used, else TP_ERR_FORMAT. */
TP_DEF tp_status tp_inflate(const void *in, size_t in_size, void *out, size_t out_size);
/* Inflate raw deflate data of unknown output size, at most `limit` bytes. *out is tp_malloc'ed; *used: input bytes read. */
TP_DEF tp_status tp_inflate_alloc(const void *in, size_t in_size, size_t limit, char **out, size_t *out_size,
                                  size_t *used);
/* Compress to raw deflate (fixed Huffman codes, LZ77), appended to out. */
TP_DEF tp_status tp_deflate(const void *in, size_t in_size, tp_buf *out);

/* .npy: all numeric dtypes are read (i1 i2 u2 u4 u8 are widened to i32/i64; a value that does not fit is an error; big-endian
 * and Fortran order are converted). Objects and strings are an error. */
TP_DEF tp_status tp_npy_save(const char *path, const tp_tensor *t);
TP_DEF tp_status tp_npy_load(const char *path, tp_tensor *t);
/* what: name of the file in error sentences */
TP_DEF tp_status tp_npy_parse(const void *data, size_t size, const char *what, tp_tensor *t);

/* A set of named arrays: the contents of an npz file in memory. */
typedef struct tp_dict_item {
    char *name;
    tp_tensor value;
} tp_dict_item;
typedef struct tp_dict {
    tp_dict_item *item;
    int n, cap;
} tp_dict;
/* The array of that name; NULL and a sentence if d has none. */
TP_DEF tp_tensor *tp_dict_find(const tp_dict *d, const char *name);
/* The tensor of that name; if there is none, a new empty one. NULL: out of memory. */
TP_DEF tp_tensor *tp_dict_add(tp_dict *d, const char *name);
TP_DEF void tp_dict_free(tp_dict *d);

/* .npz, stored or deflated, with zip64. Sizes, overlaps and CRCs are checked before data is used. */
TP_DEF tp_status tp_npz_load(const char *path, tp_dict *d);
/* writes atomically: the old file or the whole new one, never a part */
TP_DEF tp_status tp_npz_save(const char *path, const tp_dict *d, bool compress);
/* A writer that adds one array at a time, so that saving a checkpoint needs no second copy of the variables. */
typedef struct tp_npz_writer tp_npz_writer;
TP_DEF tp_status tp_npz_open(tp_npz_writer **w, const char *path, bool compress);
TP_DEF tp_status tp_npz_put(tp_npz_writer *w, const char *name, const tp_tensor *t);
TP_DEF tp_status tp_npz_close(tp_npz_writer *w); /* atomic: either the whole file appears or none; frees w */
TP_DEF void tp_npz_abort(tp_npz_writer *w);

/* .safetensors: every rule of the format is checked before memory is allocated. Types that tp lacks are widened as for npy; 8-bit
 * floats and complex numbers are an error. Loading replaces the contents of d; on an error d is unchanged. Saved files have
 * checksums in __metadata__ (tp.crc32c), which other programs ignore. If a file has them, a changed bit is an error that names
 * the tensor. A program that edits such a file must remove that key; programs that write their own metadata do so. */
TP_DEF tp_status tp_safetensors_load(const char *path, tp_dict *d);
TP_DEF tp_status tp_safetensors_parse(const void *data, size_t size, const char *what, tp_dict *d);
TP_DEF tp_status tp_safetensors_save(const char *path, const tp_dict *d); /* writes atomically */

/* TensorFlow's checkpoints (V2, "tensor bundle"): <prefix>.index and <prefix>.data-00000-of-00001; prefix may also be one of these
 * two names. Load: reads all shards, compressed or not, and checks every checksum; strings are skipped, partitioned variables are
 * an error, and "/.ATTRIBUTES/VARIABLE_VALUE" is removed from names. Save: writes the same bytes as tf.train.Saver; the index is
 * written last, and without an index there is no checkpoint. If the checkpoint exists, its old index must name the old data until
 * the new index replaces it, so the new data are data-00000-of-00002, and of-00001 the next time. */
TP_DEF tp_status tp_tf_checkpoint_load(const char *prefix, tp_dict *d);
TP_DEF tp_status tp_tf_checkpoint_save(const char *prefix, const tp_dict *d);

#ifdef __cplusplus
}
#endif
#endif /* TP_TENSOR_H */

/* ===== STOP HERE if you only want to use the library. Everything below is implementation. ===== */
#if ((defined(TP_IMPLEMENTATION) && !defined(TP__TENSOR_IMPLEMENTED)) || defined(TP__KERNELS)) && \
    !defined(TP__CONV_SEEN)
#define TP__CONV_SEEN
/* ==== >>conv geometry ================================================================================= */
/* The geometry of a 2-D convolution, for every loop and kernel of it: on its page in tp_graph.h, in tp_fast.h and in tp_cuda.cu. At
 * position (p,q) of the filter, y(i,j) reads the pixel (i stride_h + p dilation_h - top, j stride_w + q dilation_w - left) of x;
 * pixels outside x are 0. Output channel o belongs to group o / (O/groups), and reads the C/groups input channels of that group.
 * x[b,h,w,c] is element b x_stride_b + h x_stride_h + w x_stride_w + c x_stride_c, in NHWC and in NCHW; y[b,i,j,o] is found with
 * y_stride_b to y_stride_c. The filter is (KH,KW,C/groups,O). tp__conv_geometry in tp_graph.h computes all this. */
typedef struct tp__conv {
    int64_t B, H, W, C, O, KH, KW, OH, OW; /* TP_ANY: unknown while shapes are inferred */
    int64_t stride_h, stride_w, dilation_h, dilation_w, top, left, groups;
    int64_t x_stride_b, x_stride_h, x_stride_w, x_stride_c, y_stride_b, y_stride_h, y_stride_w, y_stride_c;
    /* a fused border (tp_fused.pad): its rows above the image and in all, its columns on the left and in all. They count as pixels
     * where a kernel is chosen, so that the choice is that for an image which was padded before. */
    int64_t border[4];
    bool nchw;
} tp__conv;
typedef enum {
    TP__CONV_FORWARD,
    TP__CONV_INPUT_GRAD,
    TP__CONV_FILTER_GRAD
} tp__conv_pass; /* which of forward pass, input gradient and filter gradient is computed */
#endif

#if defined(TP_IMPLEMENTATION) && !defined(TP__TENSOR_IMPLEMENTED)
#define TP__TENSOR_IMPLEMENTED
#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Arithmetic in this file follows the C standard and gives the same bits, whatever options the rest of the program is built with.
 * Options like -Ofast and -ffast-math are switched off: with older gcc and with clang always; with gcc 12 and later, which define a
 * macro for each part of these options, if such a macro is defined. A product and a sum are two instructions, each of which rounds.
 * Without an option like -std=c11, gcc makes one of them where the target has it (AArch64; x86 with -mfma): that is switched off, too.
 * x87 (32-bit x86 without options, -mfpmath=387) does not round to float and double: gcc uses SSE2 here instead, which every processor
 * since 2003 has. */
#if defined(__GNUC__) && defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0 && __FLT_EVAL_METHOD__ != 16
#if !defined(__clang__) && (defined(__i386__) || defined(__x86_64__))
/* The target stays set until the end of the C file, because gcc cannot call static functions of another target. */
#pragma GCC target("sse2,fpmath=sse")
#else
#error \
    "tp needs arithmetic that rounds to float and double (FLT_EVAL_METHOD 0): on 32-bit x86 compile with -msse2 -mfpmath=sse, on s390x with -std=gnu11"
#endif
#elif defined(__SSE2__)
#define TP__SSE2 1 /* SSE2 intrinsics may be used; undefined for x87 targets, where gcc does not allow them */
#endif
#if defined(__clang__) && __FINITE_MATH_ONLY__
#error \
    "tp needs NaN and infinity, which clang cannot give back to a part of a file: add -fno-finite-math-only after -Ofast or -ffast-math"
#endif
/* If this typedef is an error, compile without -fsingle-precision-constant. */
typedef char tp__constants_are_double[sizeof 1.0 == sizeof(double) ? 1 : -1];
/* clang-format off */
#if defined(__clang__) && (defined(__i386__) || defined(__x86_64__))
#define TP__EXACT_BEGIN _Pragma("float_control(precise, on, push)") _Pragma("STDC FP_CONTRACT OFF")
#define TP__EXACT_END   _Pragma("float_control(pop)")
#elif defined(__clang__) /* on targets other than x86, clang supports only the next two pragmas */
#define TP__EXACT_BEGIN _Pragma("clang fp reassociate(off)") _Pragma("STDC FP_CONTRACT OFF")
#define TP__EXACT_END   _Pragma("STDC FP_CONTRACT DEFAULT")
#elif defined(__GNUC__) && (__GNUC__ < 12 || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || \
    defined(__NO_SIGNED_ZEROS__) || defined(__NO_TRAPPING_MATH__) || __FINITE_MATH_ONLY__)
#define TP__EXACT_BEGIN _Pragma("GCC push_options") \
    _Pragma("GCC optimize(\"no-fast-math,no-unsafe-math-optimizations,no-associative-math,no-reciprocal-math,no-finite-math-only,fp-contract=off,signed-zeros,trapping-math\")")
#define TP__EXACT_END _Pragma("GCC pop_options")
#elif defined(__GNUC__) && (defined(__FP_FAST_FMA) || defined(__FP_FAST_FMAF) || defined(__FMA__) || defined(__FMA4__))
#define TP__EXACT_BEGIN _Pragma("GCC push_options") _Pragma("GCC optimize(\"fp-contract=off\")")
#define TP__EXACT_END   _Pragma("GCC pop_options")
#else
#define TP__EXACT_BEGIN
#define TP__EXACT_END
#endif
/* clang-format on */
TP__EXACT_BEGIN

/* Code that runs once (building a graph, compiling a plan, formatting errors) is most of the code but takes little run time, so it
 * is compiled for size and with fewer passes. The passes that are switched off take long to compile and do not help such code. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__) && !defined(__OPTIMIZE_SIZE__)
#if __GNUC__ >= 12
#define TP__SMALLEST "Oz"
#else
#define TP__SMALLEST "Os"
#endif
#define TP__PRAGMA(...)   _Pragma(#__VA_ARGS__)
#define TP__OPTIMIZE(...) TP__PRAGMA(GCC optimize(__VA_ARGS__))
/* clang-format off */
/* One pragma has the level and the passes: with a second pragma for the passes, gcc runs most of them. */
#define TP__COLD_BEGIN _Pragma("GCC push_options") \
    TP__OPTIMIZE(TP__SMALLEST, "no-tree-pta,no-inline-functions-called-once,no-tree-dominator-opts,no-tree-fre,no-tree-vrp,no-tree-pre,no-ivopts,no-gcse,no-schedule-insns2,no-expensive-optimizations,no-thread-jumps")
/* clang-format on */
#define TP__COLD_END _Pragma("GCC pop_options")
#define TP__HOT      __attribute__((optimize("O3"))) /* compiles a function for speed in a part compiled for size */
/* The same for loops that gcc is to vectorise: `a > b ? c + d : e` where it may compute c + d always, and has made no branches
 * of it before. No value changes. */
#define TP__LOOPS __attribute__((optimize("O3", "no-trapping-math", "no-thread-jumps", "no-tree-pre")))
#else
#define TP__HOT
#define TP__LOOPS
#define TP__COLD_BEGIN
#define TP__COLD_END
#endif

/* ==== >>config ======================================================================================== */

#if defined(__GNUC__)
#define TP__UNUSED __attribute__((unused))
/* marks functions to be compiled for size in a part that is compiled for speed */
#define TP__SMALL __attribute__((cold))
#else
#define TP__UNUSED
#define TP__SMALL
#endif

/* Unwind tables are an eighth of a program, and only exceptions, backtrace() and sanitizers read them at run time. An optimized C
 * unit therefore puts them in .debug_frame, which debuggers and valgrind also read, and which is removed when the program is
 * stripped. gcc has no macro for -fsanitize=undefined; if only that is used, define TP_UNWIND to get its stack traces. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer) || \
    __has_feature(undefined_behavior_sanitizer)
#define TP__SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TP__SANITIZED 1
#endif
#if defined(__GNUC__) && defined(__ELF__) && defined(__OPTIMIZE__) && !defined(TP_UNWIND) && \
    !defined(TP__SANITIZED) && !defined(__EXCEPTIONS) && !defined(__cplusplus)
__asm__(".cfi_sections .debug_frame");
#endif

/* What the TP_NO_ macros leave out. Code that depends on one of these is dropped by the compiler. */
#ifdef TP_NO_SENTENCES
#define TP__HAS_SENTENCES 0
#else
#define TP__HAS_SENTENCES 1
#endif
#ifdef TP_NO_DEVICES
#define TP__HAS_DEVICES 0
#else
#define TP__HAS_DEVICES 1
#endif
#ifdef TP_NO_TRACE
#define TP__HAS_TRACE 0
#else
#define TP__HAS_TRACE 1
#endif
#ifdef TP_NO_FUSION
#define TP__HAS_FUSION 0
#else
#define TP__HAS_FUSION 1
#endif
#if defined(TP_NO_SEQUENCE_LAYERS) || !TP__HAS_FUSION
#define TP__HAS_TABLES 0 /* without tp_embedding, tables are too rare for a kernel of their own */
#else
#define TP__HAS_TABLES 1
#endif
#ifdef TP_ONLY_F32
#define TP__HAS_F64 0
#else
#define TP__HAS_F64 1
#endif

/* The type of sums of many float32 values and of random numbers before they are rounded: double, or float with TP_ONLY_F32, because
 * a processor without double precision computes it by a library of several kilobytes. */
#ifdef TP_ONLY_F32
typedef float tp__wide;
#define TP__WIDE_DTYPE TP_F32
#define TP__WIDE_SQRT  sqrtf
/* v as a float, and the whole part of x, whose size is below 2^63: compilers would do both in double precision. */
static float tp__wide_of(int64_t v)
{
    const uint64_t size = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    const float x = (float)(uint32_t)(size >> 32) * 4294967296.0f + (float)(uint32_t)size;
    return v < 0 ? -x : x;
}
static int64_t tp__whole_of(float x)
{
    const float size = x < 0 ? -x : x;
    const uint32_t high = (uint32_t)(size * (1.0f / 4294967296.0f));
    const int64_t whole = (int64_t)((uint64_t)high << 32 | (uint32_t)(size - (float)high * 4294967296.0f));
    return x < 0 ? -whole : whole;
}
#define tp__float_of tp__wide_of
#else
typedef double tp__wide;
#define TP__WIDE_DTYPE   TP_F64
#define TP__WIDE_SQRT    sqrt
#define tp__wide_of(v_)  ((double)(v_))
#define tp__whole_of(x_) ((int64_t)(x_))
#define tp__float_of(v_) ((float)(v_))
#endif

#define TP__STR2(x) #x
#define TP__STR(x)  TP__STR2(x)

TP_DEF const char *tp_version(void)
{
    return TP__STR(TP_VERSION_MAJOR) "." TP__STR(TP_VERSION_MINOR) "." TP__STR(TP_VERSION_PATCH);
}

static void *tp__hook_malloc(size_t size);
static void tp__hook_free(void *p);
static int tp__format(char *text, size_t capacity, const char *fmt, ...) TP_PRINTF(3, 4);

/* ==== >>os ============================================================================================ */
/* All calls of the operating system: files, threads and locks, time, memory, signals, processes. No other part of these headers
 * calls it. There are three versions: POSIX, Windows, and none, which uses the C library alone (embedded targets). Functions
 * return 0, or -1 with errno set; paths are UTF-8 on Windows. A call that a signal interrupts is repeated, and a short read or
 * write is continued. */

#if !defined(_WIN32) && !defined(__unix__) && !defined(__APPLE__) /* the operating system is unknown */
#define TP__NO_SYSTEM
#ifndef TP_NO_FILES
#define TP_NO_FILES
#endif
#ifndef TP_NO_THREADS
#define TP_NO_THREADS
#endif
#ifndef TP_NO_SIGNALS
#define TP_NO_SIGNALS
#endif
#endif

/* Integers that several threads change, of 64 bits and others. Small processors lack instructions for them, and their compilers call
 * functions that a program without threads need not have; other processors use the instructions without threads, too, because a
 * signal handler may cancel a run. ADD returns the new value; SWAP sets *p_ to new_ if it equals *old_, else *old_ to *p_, and returns
 * whether it did. */
#if defined(TP_NO_THREADS) && !defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_8)
#define TP__WIDE_LOAD(p_)             (*(p_))
#define TP__WIDE_ADD(p_, x_)          (*(p_) += (x_))
#define TP__WIDE_SWAP(p_, old_, new_) (*(p_) == *(old_) ? (*(p_) = (new_), true) : (*(old_) = *(p_), false))
#else
#define TP__WIDE_LOAD(p_)    __atomic_load_n((p_), __ATOMIC_ACQUIRE)
#define TP__WIDE_ADD(p_, x_) __atomic_add_fetch((p_), (x_), __ATOMIC_ACQ_REL)
#define TP__WIDE_SWAP(p_, old_, new_) \
    __atomic_compare_exchange_n((p_), (old_), (new_), false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)
#endif

enum { TP__OS_NOTHING, TP__OS_FILE, TP__OS_DIR, TP__OS_OTHER }; /* kinds of files; NOTHING: there is no such file */
typedef struct tp__os_info {
    int kind;
    uint64_t size; /* size of the file in bytes */
    int64_t time;  /* time of the last change, in nanoseconds since 1970 */
    /* identify the file: two names of the same file give equal numbers; 0 if the system has none */
    uint64_t device, number;
} tp__os_info;
/* Called for each name in a directory except . and ..; returning true ends the listing. */
typedef bool (*tp__os_name_fn)(void *user, const char *name);
/* How to open a file: NEW fails if the name exists, READ_NOW does not wait for the other end of a pipe, CHANGE writes into a file that
 * exists. */
enum { TP__OS_READ, TP__OS_NEW, TP__OS_APPEND, TP__OS_READ_NOW, TP__OS_CHANGE };

TP__COLD_BEGIN
/* -- closed pipes ---------------------------------------------------------------------------------------- */
/* Between tp__os_pipe_begin and tp__os_pipe_end this thread's writes to a pipe or socket whose other end is closed fail with EPIPE, and
 * no SIGPIPE ends the program without a sentence. What the program does with SIGPIPE in its own writes stays as it is. */

#if !defined(TP_NO_FILES) && !defined(_WIN32)
#include <signal.h>
typedef sigset_t tp__os_signals; /* the signals that a thread blocks */
#ifdef TP_NO_THREADS
#define TP__OS_BLOCK sigprocmask
#else
#define TP__OS_BLOCK pthread_sigmask
#endif
static TP__UNUSED void tp__os_pipe_begin(tp__os_signals *before)
{
    sigset_t closed_pipe;
    sigemptyset(&closed_pipe);
    sigaddset(&closed_pipe, SIGPIPE);
    TP__OS_BLOCK(SIG_BLOCK, &closed_pipe, before);
}
static TP__UNUSED void tp__os_pipe_end(const tp__os_signals *before)
{
    sigset_t closed_pipe, pending;
    int number;
    const int reason = errno;
    if (sigismember(before, SIGPIPE) == 1)
        return; /* the program blocks it itself, and finds it pending as without these calls */
    sigemptyset(&closed_pipe);
    sigaddset(&closed_pipe, SIGPIPE);
    if (sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1) sigwait(&closed_pipe, &number);
    TP__OS_BLOCK(SIG_SETMASK, before, NULL);
    errno = reason;
}
#else
typedef int tp__os_signals;
static TP__UNUSED void tp__os_pipe_begin(tp__os_signals *before) { *before = 0; }
static TP__UNUSED void tp__os_pipe_end(const tp__os_signals *before) { (void)before; }
#endif

/* -- files: POSIX ---------------------------------------------------------------------------------------- */

#if !defined(TP_NO_FILES) && !defined(_WIN32)
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h> /* rename() */
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

/* The system calls for files. A test can define these names as functions of its own, to make a call fail. */
#ifndef TP_OS_OPEN
#define TP_OS_OPEN open
#endif
#ifndef TP_OS_READ
#define TP_OS_READ read
#endif
#ifndef TP_OS_WRITE
#define TP_OS_WRITE write
#endif
#ifndef TP_OS_FSYNC
#define TP_OS_FSYNC fsync
#endif
#ifndef TP_OS_CLOSE
#define TP_OS_CLOSE close
#endif
#ifndef TP_OS_RENAME
#define TP_OS_RENAME rename
#endif
#ifndef TP_OS_UNLINK
#define TP_OS_UNLINK unlink
#endif

#define TP__OS_MAX_BYTES ((size_t)1 << 30) /* largest number of bytes to read or write in one call */
#define TP__OS_AGAIN(result_, call_) \
    do (result_) = (call_);          \
    while ((result_) < 0 && errno == EINTR)

/* Never returns descriptor 0, 1 or 2: if a program is started without stdout, its printed output would go into the opened file. */
static int tp__os_not_standard(int fd)
{
    const int low = fd;
    if (fd < 0 || fd > 2) return fd;
    TP__OS_AGAIN(fd, fcntl(low, F_DUPFD_CLOEXEC, 3));
    close(low);
    return fd;
}
static int tp__os_open(const char *path, int mode)
{
    static const int flags[] = {O_RDONLY, O_WRONLY | O_CREAT | O_EXCL, O_WRONLY | O_CREAT | O_APPEND,
                                O_RDONLY | O_NONBLOCK, O_WRONLY};
    int fd;
    TP__OS_AGAIN(fd, TP_OS_OPEN(path, flags[mode] | O_CLOEXEC, 0666));
    return tp__os_not_standard(fd);
}

/* Opens a file to read. The first `folder` bytes of its path are a folder, or none; what follows them is no link, and leads over none: each
 * part is opened in the folder that was opened before it. The path is changed in between. */
static TP__UNUSED int tp__os_open_inside(char *path, size_t folder)
{
    int at = AT_FDCWD;
    for (size_t from = 0, to = folder;; from = to) {
        int fd;
        to += strcspn(path + to, "/");
        const char end = path[to];
        path[to] = 0;
        TP__OS_AGAIN(fd, openat(at, path + from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | (end ? O_DIRECTORY : O_NONBLOCK)));
        path[to] = end;
        const int reason = errno;
        if (at != AT_FDCWD) close(at);
        errno = reason;
        if (fd < 0 || !end) return tp__os_not_standard(fd);
        at = fd;
        to += strspn(path + to, "/");
    }
}

/* Lock a file until its descriptor is closed; a process that ends gives it up. False: another process has locked it. True also where
 * the file system has no locks. */
static bool tp__os_claim(int fd) { return flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; }

/* Gives a forked process an open file of its own in place of the one that it shares with its parent, so that it does not go on locking
 * the file when the parent has ended. Without /proc the child keeps the shared one. */
static TP__UNUSED void tp__os_disclaim(int fd)
{
    char path[40];
    tp__format(path, sizeof path, "/proc/self/fd/%d", fd);
    const int own = tp__os_open(path, TP__OS_APPEND);
    if (own < 0) return;
    (void)dup2(own, fd);
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    close(own);
}

/* If a signal interrupts close(), the file is closed already: on Linux, the BSDs and macOS close() must not be repeated. */
static int tp__os_close(int fd) { return TP_OS_CLOSE(fd) == 0 || errno == EINTR ? 0 : -1; }

/* Read n bytes from byte `at` on, or from where the file is if `at` is negative; fewer only at the end of the file. Return their number. */
static int64_t tp__os_read_at(int fd, void *data, size_t n, int64_t at)
{
    size_t done = 0;
    while (done < n) {
        const size_t most = n - done < TP__OS_MAX_BYTES ? n - done : TP__OS_MAX_BYTES;
        char *to = (char *)data + done;
        const ssize_t got = at < 0 ? TP_OS_READ(fd, to, most) : pread(fd, to, most, (off_t)at + (off_t)done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -1;
        if (got == 0) break;
        done += (size_t)got;
    }
    return (int64_t)done;
}
static int64_t tp__os_read(int fd, void *data, size_t n) { return tp__os_read_at(fd, data, n, -1); }

static int tp__os_write(int fd, const void *data, size_t n)
{
    const char *p = (const char *)data;
    tp__os_signals before;
    tp__os_pipe_begin(&before);
    while (n > 0) {
        const ssize_t put = TP_OS_WRITE(fd, p, n < TP__OS_MAX_BYTES ? n : TP__OS_MAX_BYTES);
        if (put < 0 && errno == EINTR) continue;
        if (put == 0) errno = ENOSPC;
        if (put <= 0) break;
        p += put;
        n -= (size_t)put;
    }
    tp__os_pipe_end(&before);
    return n > 0 ? -1 : 0;
}

static int tp__os_seek(int fd, int64_t at) { return lseek(fd, (off_t)at, SEEK_SET) < 0 ? -1 : 0; }

/* Write the file's data to the disk. EINVAL is no failure: some files, such as pipes, cannot be synced. */
static int tp__os_sync(int fd)
{
    int failed;
    TP__OS_AGAIN(failed, TP_OS_FSYNC(fd));
    return failed && errno != EINVAL ? -1 : 0;
}

/* Sync a directory: a new file's name is on the disk only after that. A directory that cannot be opened is not synced. */
static int tp__os_sync_dir(const char *dir)
{
    const int fd = tp__os_open(dir, TP__OS_READ);
    if (fd < 0) return 0;
    const int failed = tp__os_sync(fd), error = errno;
    tp__os_close(fd);
    errno = error;
    return failed;
}

static int tp__os_rename(const char *from, const char *to)
{
    int failed;
    TP__OS_AGAIN(failed, TP_OS_RENAME(from, to));
    return failed;
}

/* Remove a file or a link. */
static int tp__os_remove(const char *path)
{
    int failed;
    TP__OS_AGAIN(failed, TP_OS_UNLINK(path));
    return failed;
}

/* Rename a file; errno EEXIST if there is a file of the new name. Where a file cannot have two names, another process may make one
 * between the look and the renaming. */
static TP__UNUSED int tp__os_rename_new(const char *from, const char *to)
{
    struct stat st;
    int failed;
    TP__OS_AGAIN(failed, link(from, to));
    if (!failed) return tp__os_remove(from), 0;
    if (errno == EEXIST) return -1;
    if (lstat(to, &st) != 0) return tp__os_rename(from, to);
    errno = EEXIST;
    return -1;
}

static int tp__os_mkdir(const char *path)
{
    int failed;
    TP__OS_AGAIN(failed, mkdir(path, 0777));
    return failed;
}

static int tp__os_rmdir(const char *path)
{
    int failed;
    TP__OS_AGAIN(failed, rmdir(path));
    return failed;
}

static int tp__os_tell(int failed, const struct stat *st, tp__os_info *info)
{
    memset(info, 0, sizeof *info);
    if (failed) return -1;
    info->kind = S_ISREG(st->st_mode) ? TP__OS_FILE : S_ISDIR(st->st_mode) ? TP__OS_DIR : TP__OS_OTHER;
    info->size = st->st_size > 0 ? (uint64_t)st->st_size : 0;
    info->time = (int64_t)st->st_mtime * 1000000000;
#ifdef __APPLE__
    info->time += st->st_mtimespec.tv_nsec;
#else
    info->time += st->st_mtim.tv_nsec;
#endif
    info->device = (uint64_t)st->st_dev;
    info->number = (uint64_t)st->st_ino;
    return 0;
}

/* follow: for a link, describe its target, not the link. */
static int tp__os_stat(const char *path, bool follow, tp__os_info *info)
{
    struct stat st;
    int failed;
    TP__OS_AGAIN(failed, follow ? stat(path, &st) : lstat(path, &st));
    return tp__os_tell(failed, &st, info);
}

static int tp__os_fstat(int fd, tp__os_info *info)
{
    struct stat st;
    int failed;
    TP__OS_AGAIN(failed, fstat(fd, &st));
    return tp__os_tell(failed, &st, info);
}

/* Read where a symbolic link leads, at most `size` bytes without a NUL. Return their number; -1 if path is no link. */
static int64_t tp__os_read_link(const char *path, char *target, size_t size)
{
    ssize_t n;
    TP__OS_AGAIN(n, readlink(path, target, size));
    return n;
}

/* True for a pipe, a terminal or another device: it takes bytes, but no file may take its place. */
static bool tp__os_is_device(const char *path)
{
    tp__os_info is;
    return tp__os_stat(path, true, &is) == 0 && is.kind == TP__OS_OTHER;
}

/* Give the open file the permissions of the file at `path`, if there is one. */
static void tp__os_copy_permissions(int fd, const char *path)
{
    struct stat st;
    int failed;
    TP__OS_AGAIN(failed, stat(path, &st));
    if (!failed && S_ISREG(st.st_mode)) TP__OS_AGAIN(failed, fchmod(fd, st.st_mode & 0777));
}

static int tp__os_list(const char *dir, tp__os_name_fn fn, void *user)
{
    DIR *d;
    do d = opendir(dir);
    while (!d && errno == EINTR);
    if (!d) return -1;
    int error = 0;
    for (bool stop = false; !stop && !error;) {
        errno = 0;
        const struct dirent *e = readdir(d);
        if (e) stop = strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && fn(user, e->d_name);
        else if (errno != EINTR) stop = (error = errno) == 0;
    }
    closedir(d);
    errno = error;
    return error ? -1 : 0;
}

/* Remove everything inside the open directory and close fd. Links are removed, never followed. */
static int tp__os_empty(int fd, const char *keep)
{
    DIR *d = fdopendir(fd);
    if (!d) {
        close(fd);
        return -1;
    }
    int failed = 0, removed = 1;
    while (removed && !failed) { /* list again, because a listing may skip names while others are removed */
        struct dirent *e;
        removed = 0;
        rewinddir(d);
        while (!failed && (e = readdir(d)) != NULL) {
            const char *name = e->d_name;
            if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || (keep && strcmp(name, keep) == 0)) continue;
            if (unlinkat(dirfd(d), name, 0) == 0) {
                removed = 1;
                continue;
            }
            if (errno != EISDIR && errno != EPERM) {
                failed = errno;
                break;
            }
            int inner = openat(dirfd(d), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (inner < 0 || tp__os_empty(inner, NULL) != 0 || unlinkat(dirfd(d), name, AT_REMOVEDIR) != 0)
                failed = errno ? errno : EIO;
            else removed = 1;
        }
    }
    closedir(d);
    errno = failed;
    return failed ? -1 : 0;
}

static int tp__os_empty_dir(const char *dir, const char *keep)
{
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -1 : tp__os_empty(fd, keep);
}

static int tp__os_cwd(char *path, size_t size) { return getcwd(path, size) ? 0 : -1; }
/* Returns the last separator in a path, or NULL. */
static const char *tp__os_last_separator(const char *path) { return strrchr(path, '/'); }
static TP__UNUSED bool tp__os_is_absolute(const char *path) { return path[0] == '/'; }
#endif

/* -- files: Windows -------------------------------------------------------------------------------------- */

#ifdef _WIN32
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
#undef near /* windows.h defines near and far as empty macros */
#undef far
#endif
#if !defined(TP_NO_FILES) && defined(_WIN32)
#include <direct.h>
#include <fcntl.h>
#include <io.h>
#include <sys/stat.h>

/* A path in UTF-16, for Windows; the caller frees it. NULL: errno is ENOMEM, or EILSEQ if the path is not UTF-8. Without
 * MB_ERR_INVALID_CHARS Windows replaces bytes that are not UTF-8, so that different paths become the same. */
static wchar_t *tp__os_utf16_path(const char *path)
{
    const int n = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, NULL, 0);
    wchar_t *wide_path = n < 1 ? NULL : (wchar_t *)tp__hook_malloc((size_t)n * sizeof *wide_path);
    if (!wide_path) errno = n < 1 ? EILSEQ : ENOMEM;
    else MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide_path, n);
    return wide_path;
}

/* Set errno from the last Windows error; return -1. */
static int tp__os_fail(void)
{
    const DWORD e = GetLastError();
    errno = e == ERROR_FILE_NOT_FOUND || e == ERROR_PATH_NOT_FOUND     ? ENOENT
            : e == ERROR_ALREADY_EXISTS || e == ERROR_FILE_EXISTS      ? EEXIST
            : e == ERROR_DISK_FULL || e == ERROR_HANDLE_DISK_FULL      ? ENOSPC
            : e == ERROR_NOT_ENOUGH_MEMORY || e == ERROR_OUTOFMEMORY   ? ENOMEM
            : e == ERROR_ACCESS_DENIED || e == ERROR_SHARING_VIOLATION ? EACCES
                                                                       : EIO;
    return -1;
}

static int tp__os_open(const char *path, int mode)
{
    static const int flags[] = {_O_RDONLY, _O_WRONLY | _O_CREAT | _O_EXCL, _O_WRONLY | _O_CREAT | _O_APPEND, _O_RDONLY,
                                _O_WRONLY};
    wchar_t *wide_path = tp__os_utf16_path(path);
    const int fd = wide_path ? _wopen(wide_path, flags[mode] | _O_BINARY | _O_NOINHERIT, _S_IREAD | _S_IWRITE) : -1;
    tp__hook_free(wide_path);
    return fd;
}

static int tp__os_close(int fd) { return _close(fd); }
static bool tp__os_claim(int fd) { return (void)fd, true; }
static TP__UNUSED void tp__os_disclaim(int fd) { (void)fd; }

static int64_t tp__os_read(int fd, void *data, size_t n)
{
    size_t done = 0;
    while (done < n) {
        const int got = _read(fd, (char *)data + done, n - done < 1u << 30 ? (unsigned)(n - done) : 1u << 30);
        if (got < 0) return -1;
        if (got == 0) break;
        done += (size_t)got;
    }
    return (int64_t)done;
}

static int tp__os_write(int fd, const void *data, size_t n)
{
    const char *p = (const char *)data;
    while (n > 0) {
        const int put = _write(fd, p, n < 1u << 30 ? (unsigned)n : 1u << 30);
        if (put <= 0) return -1;
        p += put;
        n -= (size_t)put;
    }
    return 0;
}

static int tp__os_seek(int fd, int64_t at) { return _lseeki64(fd, at, SEEK_SET) < 0 ? -1 : 0; }
static TP__UNUSED int64_t tp__os_read_at(int fd, void *data, size_t n, int64_t at)
{
    return tp__os_seek(fd, at) == 0 ? tp__os_read(fd, data, n) : -1;
}

static int tp__os_sync(int fd) { return _commit(fd); }
/* Windows need not sync directories, because tp__os_rename writes the change to the disk. */
static int tp__os_sync_dir(const char *dir) { return (void)dir, 0; }

static int tp__os_rename(const char *from, const char *to)
{
    wchar_t *a = tp__os_utf16_path(from), *b = a ? tp__os_utf16_path(to) : NULL;
    int failed = -1;
    if (b) {
        const DWORD is = GetFileAttributesW(a);
        if (is != INVALID_FILE_ATTRIBUTES && is & FILE_ATTRIBUTE_DIRECTORY)
            RemoveDirectoryW(b); /* a directory may then replace an empty directory, as on other systems */
        failed = MoveFileExW(a, b, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH) ? 0 : tp__os_fail();
    }
    tp__hook_free(a);
    tp__hook_free(b);
    return failed;
}

static TP__UNUSED int tp__os_rename_new(const char *from, const char *to)
{
    wchar_t *a = tp__os_utf16_path(from), *b = a ? tp__os_utf16_path(to) : NULL;
    const int failed = !b ? -1 : MoveFileExW(a, b, MOVEFILE_WRITE_THROUGH) ? 0 : tp__os_fail();
    tp__hook_free(a);
    tp__hook_free(b);
    return failed;
}

static int tp__os_remove(const char *path)
{
    wchar_t *wide_path = tp__os_utf16_path(path);
    const int failed = wide_path ? _wunlink(wide_path) : -1;
    tp__hook_free(wide_path);
    return failed;
}

static int tp__os_mkdir(const char *path)
{
    wchar_t *wide_path = tp__os_utf16_path(path);
    const int failed = wide_path ? _wmkdir(wide_path) : -1;
    tp__hook_free(wide_path);
    return failed;
}

static int tp__os_rmdir(const char *path)
{
    wchar_t *wide_path = tp__os_utf16_path(path);
    const int failed = !wide_path ? -1 : RemoveDirectoryW(wide_path) ? 0 : tp__os_fail();
    tp__hook_free(wide_path);
    return failed;
}

static int tp__os_tell(HANDLE file, tp__os_info *info)
{
    BY_HANDLE_FILE_INFORMATION is;
    memset(info, 0, sizeof *info);
    if (file == INVALID_HANDLE_VALUE || !GetFileInformationByHandle(file, &is)) return tp__os_fail();
    info->kind = is.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT ? TP__OS_OTHER
                 : is.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY   ? TP__OS_DIR
                                                                    : TP__OS_FILE;
    info->size = (uint64_t)is.nFileSizeHigh << 32 | is.nFileSizeLow;
    info->time = (int64_t)((uint64_t)is.ftLastWriteTime.dwHighDateTime << 32 | is.ftLastWriteTime.dwLowDateTime);
    info->time = (info->time - 116444736000000000) * 100; /* Windows counts tenths of microseconds since 1601 */
    info->device = is.dwVolumeSerialNumber;
    info->number = (uint64_t)is.nFileIndexHigh << 32 | is.nFileIndexLow;
    return 0;
}

static int tp__os_stat(const char *path, bool follow, tp__os_info *info)
{
    wchar_t *wide_path = tp__os_utf16_path(path);
    memset(info, 0, sizeof *info);
    if (!wide_path) return -1;
    const HANDLE file =
        CreateFileW(wide_path, 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING,
                    FILE_FLAG_BACKUP_SEMANTICS | (follow ? 0 : FILE_FLAG_OPEN_REPARSE_POINT), NULL);
    const int failed = tp__os_tell(file, info), error = errno;
    if (file != INVALID_HANDLE_VALUE) CloseHandle(file);
    tp__hook_free(wide_path);
    errno = error;
    return failed;
}

static int tp__os_fstat(int fd, tp__os_info *info) { return tp__os_tell((HANDLE)_get_osfhandle(fd), info); }

/* See the one for POSIX. The parts are looked at one by one, then the file is opened. */
static TP__UNUSED int tp__os_open_inside(char *path, size_t folder)
{
    for (size_t to = folder;; to += strspn(path + to, "/")) {
        tp__os_info is;
        to += strcspn(path + to, "/");
        const char end = path[to];
        path[to] = 0;
        const bool fits = tp__os_stat(path, false, &is) == 0 && is.kind == (end ? TP__OS_DIR : TP__OS_FILE);
        path[to] = end;
        if (!fits) {
            errno = ENOENT;
            return -1;
        }
        if (!end) return tp__os_open(path, TP__OS_READ);
    }
}

static int tp__os_list(const char *dir, tp__os_name_fn fn, void *user)
{
    const size_t n = strlen(dir);
    char *pattern = (char *)tp__hook_malloc(n + 3), name[3 * MAX_PATH];
    if (pattern) tp__format(pattern, n + 3, "%s/*", dir);
    wchar_t *wide_path = pattern ? tp__os_utf16_path(pattern) : NULL;
    WIN32_FIND_DATAW found;
    HANDLE list = wide_path ? FindFirstFileW(wide_path, &found) : INVALID_HANDLE_VALUE;
    if (wide_path && list == INVALID_HANDLE_VALUE) tp__os_fail();
    tp__hook_free(pattern);
    tp__hook_free(wide_path);
    if (list == INVALID_HANDLE_VALUE) return -1;
    do {
        if (WideCharToMultiByte(CP_UTF8, 0, found.cFileName, -1, name, sizeof name, NULL, NULL) < 1) continue;
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && fn(user, name)) break;
    } while (FindNextFileW(list, &found));
    FindClose(list);
    return 0;
}

typedef struct tp__os_emptying {
    const char *dir, *keep;
    int failed;
} tp__os_emptying;
static int tp__os_empty_dir(const char *dir, const char *keep);

static bool tp__os_empty_one(void *user, const char *name)
{
    tp__os_emptying *in = (tp__os_emptying *)user;
    tp__os_info is;
    if (in->keep && strcmp(name, in->keep) == 0) return false;
    const size_t n = strlen(in->dir) + strlen(name) + 2;
    char *path = (char *)tp__hook_malloc(n);
    in->failed = -1;
    if (!path) return true;
    tp__format(path, n, "%s/%s", in->dir, name);
    if (tp__os_stat(path, false, &is) == 0 && is.kind == TP__OS_DIR) in->failed = tp__os_empty_dir(path, NULL);
    else in->failed = 0;
    /* path is a folder, or a link to one */
    if (!in->failed && tp__os_remove(path) != 0) in->failed = tp__os_rmdir(path);
    tp__hook_free(path);
    return in->failed != 0;
}

/* Remove everything inside dir but `keep`, which may be NULL. Links are removed, never followed. */
static int tp__os_empty_dir(const char *dir, const char *keep)
{
    tp__os_emptying in = {dir, keep, 0};
    return tp__os_list(dir, tp__os_empty_one, &in) != 0 ? -1 : in.failed;
}

static int tp__os_cwd(char *path, size_t size)
{
    wchar_t wide_path[MAX_PATH];
    const DWORD n = GetCurrentDirectoryW(MAX_PATH, wide_path);
    if (n == 0 || n >= MAX_PATH || WideCharToMultiByte(CP_UTF8, 0, wide_path, -1, path, (int)size, NULL, NULL) < 1)
        return tp__os_fail();
    for (; *path; path++)
        if (*path == '\\') *path = '/';
    return 0;
}

static const char *tp__os_last_separator(const char *path) /* Returns the last separator in a path, or NULL. */
{
    const char *last = NULL;
    for (; *path; path++)
        if (*path == '/' || *path == '\\') last = path;
    return last;
}

static TP__UNUSED bool tp__os_is_absolute(const char *path)
{
    return path[0] == '/' || path[0] == '\\' || (path[0] && path[1] == ':');
}
#endif

/* -- files: none ----------------------------------------------------------------------------------------- */

#ifdef TP_NO_FILES
static int tp__os_no_files(void)
{
    errno = ENOSYS;
    return -1;
}
static int tp__os_open(const char *path, int mode) { return (void)path, (void)mode, tp__os_no_files(); }
static TP__UNUSED int tp__os_open_inside(char *path, size_t folder)
{
    return (void)path, (void)folder, tp__os_no_files();
}
static int tp__os_close(int fd) { return (void)fd, tp__os_no_files(); }
static bool tp__os_claim(int fd) { return (void)fd, true; }
static TP__UNUSED void tp__os_disclaim(int fd) { (void)fd; }
static int64_t tp__os_read(int fd, void *data, size_t n) { return (void)fd, (void)data, (void)n, tp__os_no_files(); }
static TP__UNUSED int64_t tp__os_read_at(int fd, void *data, size_t n, int64_t at)
{
    return (void)at, tp__os_read(fd, data, n);
}
static int tp__os_write(int fd, const void *data, size_t n) { return (void)fd, (void)data, (void)n, tp__os_no_files(); }
static int tp__os_seek(int fd, int64_t at) { return (void)fd, (void)at, tp__os_no_files(); }
static int tp__os_sync(int fd) { return (void)fd, tp__os_no_files(); }
static int tp__os_sync_dir(const char *dir) { return (void)dir, tp__os_no_files(); }
static int tp__os_rename(const char *from, const char *to) { return (void)from, (void)to, tp__os_no_files(); }
static TP__UNUSED int tp__os_rename_new(const char *from, const char *to) { return tp__os_rename(from, to); }
static int tp__os_remove(const char *path) { return (void)path, tp__os_no_files(); }
static int tp__os_mkdir(const char *path) { return (void)path, tp__os_no_files(); }
static int tp__os_rmdir(const char *path) { return (void)path, tp__os_no_files(); }
static int tp__os_stat(const char *path, bool follow, tp__os_info *info)
{
    memset(info, 0, sizeof *info);
    return (void)path, (void)follow, tp__os_no_files();
}
static int tp__os_fstat(int fd, tp__os_info *info) { return (void)fd, tp__os_stat("", true, info); }
static int tp__os_list(const char *dir, tp__os_name_fn fn, void *user)
{
    return (void)dir, (void)fn, (void)user, tp__os_no_files();
}
static int tp__os_empty_dir(const char *dir, const char *keep) { return (void)dir, (void)keep, tp__os_no_files(); }
static int tp__os_cwd(char *path, size_t size) { return (void)path, (void)size, tp__os_no_files(); }
static const char *tp__os_last_separator(const char *path) { return strrchr(path, '/'); }
static TP__UNUSED bool tp__os_is_absolute(const char *path) { return path[0] == '/'; }
#endif

#ifdef _WIN32
static bool tp__os_is_separator(char c) { return c == '/' || c == '\\'; }
/* The length of the beginning of a path that is no folder to make: "C:" or "//server/share", with the separator that follows. */
static size_t tp__os_root(const char *path)
{
    size_t n = path[0] && path[1] == ':' ? 2 : 0;
    if (tp__os_is_separator(path[0]) && tp__os_is_separator(path[1])) {
        n = 2 + strcspn(path + 2, "/\\");
        if (path[n]) n += 1 + strcspn(path + n + 1, "/\\");
    }
    return n + tp__os_is_separator(path[n]);
}
#else
static bool tp__os_is_separator(char c) { return c == '/'; }
static size_t tp__os_root(const char *path) { return path[0] == '/' ? 1 : 0; }
#endif

/* The length of the path of a folder without the separators at its end. */
static size_t tp__folder_length(const char *path)
{
    size_t n = strlen(path);
    while (n > tp__os_root(path) && tp__os_is_separator(path[n - 1])) n--;
    return n;
}

/* Copy the path of a folder from an environment variable. False: the variable is not set or empty, or it is too long, which the log
 * says. On Windows getenv gives it in the system's code page, and paths are UTF-8. */
static TP__UNUSED bool tp__os_folder_variable(const char *variable, char *path, size_t size)
{
#ifdef _WIN32
    wchar_t name[32], wide_path[4096];
    if (MultiByteToWideChar(CP_UTF8, 0, variable, -1, name, 32) < 1) return false;
    const DWORD n = GetEnvironmentVariableW(name, wide_path, 4096);
    return n > 0 && n < 4096 && WideCharToMultiByte(CP_UTF8, 0, wide_path, -1, path, (int)size, NULL, NULL) > 0;
#else
    const char *value = getenv(variable);
    const size_t n = value ? strlen(value) : 0;
    if (n >= size)
        tp_log(TP_LOG_WARN, "the environment variable %s is longer than %zu bytes and is not used", variable, size - 1);
    if (n == 0 || n >= size) return false;
    memcpy(path, value, n + 1);
    return true;
#endif
}

/* The user's folder. Windows sets USERPROFILE; HOME is there if the program is started from a shell of another system. */
static TP__UNUSED bool tp__os_home(char *path, size_t size)
{
    if (tp__os_folder_variable("HOME", path, size)) return true;
#ifdef _WIN32
    return tp__os_folder_variable("USERPROFILE", path, size);
#else
    return false;
#endif
}

/* On Windows a link is replaced as a file is, no device is looked for, and a new file has the permissions of its folder. */
#if defined(TP_NO_FILES) || defined(_WIN32)
static int64_t tp__os_read_link(const char *path, char *target, size_t size)
{
    return (void)path, (void)target, (void)size, -1;
}
static bool tp__os_is_device(const char *path) { return (void)path, false; }
static void tp__os_copy_permissions(int fd, const char *path) { (void)fd, (void)path; }
#endif

/* The text of errno, for error sentences. */
static const char *tp__os_error(void)
{
#ifdef TP_NO_FILES
    if (errno == ENOSYS) return "this program was built with TP_NO_FILES";
#elif defined(_WIN32)
    if (errno == EILSEQ)
        return "the path is not UTF-8, as every path must be on Windows. Convert what main() or getenv() gave from the "
               "system's code page, or link the program with a manifest that sets activeCodePage to UTF-8";
#endif
    return strerror(errno);
}

/* Read the beginning of a small file as text, at most size - 1 bytes; "" if it cannot be read. */
static TP__UNUSED void tp__os_peek(const char *path, char *text, size_t size)
{
    const int fd = tp__os_open(path, TP__OS_READ);
    const int64_t n = fd < 0 ? 0 : tp__os_read(fd, text, size - 1);
    if (fd >= 0) tp__os_close(fd);
    text[n < 0 ? 0 : n] = 0;
}

/* -- this process, its terminal, its machine ------------------------------------------------------------- */

#if defined(TP__NO_SYSTEM)
static int64_t tp__os_pid(void) { return 0; }
static bool tp__os_process_exists(int64_t pid) { return (void)pid, true; }
static void tp__os_host(char *name, size_t size) { tp__format(name, size, "localhost"); }
static int tp__os_terminal_width(void) { return 0; }
#elif defined(_WIN32)
#include <io.h>
static int64_t tp__os_pid(void) { return (int64_t)GetCurrentProcessId(); }

static bool tp__os_process_exists(int64_t pid)
{
    DWORD code = STILL_ACTIVE;
    const HANDLE process = OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, FALSE, (DWORD)pid);
    if (!process) return GetLastError() != ERROR_INVALID_PARAMETER;
    GetExitCodeProcess(process, &code);
    CloseHandle(process);
    return code == STILL_ACTIVE;
}

static void tp__os_host(char *name, size_t size)
{
    DWORD n = (DWORD)size;
    if (!GetComputerNameA(name, &n)) tp__format(name, size, "localhost");
}

/* Returns the number of columns of the terminal that stderr writes to; 0 if stderr is not a terminal. */
static int tp__os_terminal_width(void)
{
    CONSOLE_SCREEN_BUFFER_INFO is;
    if (!_isatty(2)) return 0;
    if (!GetConsoleScreenBufferInfo(GetStdHandle(STD_ERROR_HANDLE), &is)) return 80;
    return is.srWindow.Right - is.srWindow.Left + 1;
}

/* Whether a read of stdin need not wait: always true on Windows, where Ctrl-C interrupts a read of the console. */
static TP__UNUSED bool tp__os_stdin_ready(double seconds) { return (void)seconds, true; }
#else
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>
static int64_t tp__os_pid(void) { return (int64_t)getpid(); }

/* Whether the process exists. A process of another user counts. */
static bool tp__os_process_exists(int64_t pid) { return kill((pid_t)pid, 0) == 0 || errno != ESRCH; }

/* Writes the name of this machine. */
static void tp__os_host(char *name, size_t size)
{
    if (gethostname(name, size) != 0) tp__format(name, size, "localhost");
    name[size - 1] = 0;
}

/* Returns the number of columns of the terminal that stderr writes to; 0 if stderr is not a terminal. */
static int tp__os_terminal_width(void)
{
#ifdef TIOCGWINSZ
    struct winsize w;
    if (isatty(STDERR_FILENO) && ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0) return w.ws_col;
#endif
    return isatty(STDERR_FILENO) ? 80 : 0;
}

/* Whether a read of stdin need not wait. If stdin is a terminal: false after `seconds` without a line. */
static TP__UNUSED bool tp__os_stdin_ready(double seconds)
{
    struct pollfd p;
    p.fd = STDIN_FILENO;
    p.events = POLLIN;
    p.revents = 0;
    if (!isatty(STDIN_FILENO)) return true;
    const int n = poll(&p, 1, (int)(1000 * seconds));
    return n > 0 || (n < 0 && errno != EINTR);
}
#endif

/* Run a command in the shell; return its status, 0 for success; -1 with errno ECHILD: it ran, and its status is unknown, because the
 * program ignores SIGCHLD. */
static TP__UNUSED int tp__os_shell(const char *command)
{
#if defined(TP__NO_SYSTEM) || defined(__ENVIRONMENT_IPHONE_OS_VERSION_MIN_REQUIRED__)
    errno = ENOTSUP; /* iOS declares system() as unavailable */
    return (void)command, -1;
#else
    errno = 0;
    const int status = system(command);
#ifdef WEXITSTATUS
    if (status > 0 && WIFEXITED(status)) return WEXITSTATUS(status);
#endif
    return status;
#endif
}

/* Load a library at run time; return its handle, or NULL. `names` are tried in order and end with a NULL. With glibc before 2.34,
 * a program that is linked without -ldl cannot load any. */
#if defined(TP_NO_DLOPEN) || defined(TP__NO_SYSTEM)
static TP__UNUSED void *tp__os_library(const char *const *names) { return (void)names, (void *)NULL; }
static TP__UNUSED void tp__os_library_close(void *library) { (void)library; }
static TP__UNUSED bool tp__os_symbol(void *library, const char *name, void *fn)
{
    return (void)library, (void)name, (void)fn, false;
}
#elif defined(_WIN32)
static TP__UNUSED void *tp__os_library(const char *const *names)
{
    void *library = NULL;
    for (; *names && !library; names++) library = (void *)LoadLibraryA(*names);
    return library;
}
static TP__UNUSED void tp__os_library_close(void *library)
{
    if (library) FreeLibrary((HMODULE)library);
}
static TP__UNUSED bool tp__os_symbol(void *library, const char *name, void *fn)
{
    const FARPROC found = GetProcAddress((HMODULE)library, name);
    memcpy(fn, &found, sizeof found);
    return found != NULL;
}
#else
#include <dlfcn.h>
#if defined(__GNUC__) && !defined(__APPLE__)
#pragma weak dlopen
#pragma weak dlsym
#pragma weak dlclose
#define TP__OS_HAS_DLOPEN (dlopen && dlsym && dlclose)
#else
#define TP__OS_HAS_DLOPEN true
#endif
static TP__UNUSED void *tp__os_library(const char *const *names)
{
    void *library = NULL;
    for (; TP__OS_HAS_DLOPEN && *names && !library; names++) library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    return library;
}
static TP__UNUSED void tp__os_library_close(void *library)
{
    if (library) dlclose(library);
}
/* Store the address of the function `name` in *fn, which is a function pointer. False if the library has no such function. */
static TP__UNUSED bool tp__os_symbol(void *library, const char *name, void *fn)
{
    void *const found = dlsym(library, name);
    memcpy(fn, &found, sizeof found);
    return found != NULL;
}
#endif

/* The machine's total and available memory in bytes; -1: unknown. */
static TP__UNUSED void tp__os_memory(int64_t *total, int64_t *available)
{
    *total = *available = -1;
#ifdef _WIN32
    MEMORYSTATUSEX is;
    is.dwLength = sizeof is;
    if (!GlobalMemoryStatusEx(&is)) return;
    *total = (int64_t)is.ullTotalPhys;
    *available = (int64_t)is.ullAvailPhys;
#elif defined(__linux__)
    char text[1024];
    tp__os_peek("/proc/meminfo", text, sizeof text);
    const char *total_line = strstr(text, "MemTotal:"), *available_line = strstr(text, "MemAvailable:");
    if (total_line) *total = 1024 * strtoll(total_line + 9, NULL, 10);
    if (available_line) *available = 1024 * strtoll(available_line + 13, NULL, 10);
#endif
}
static TP__UNUSED double tp__os_free_memory(void)
{
    int64_t total, available;
    tp__os_memory(&total, &available);
    return (double)available;
}

/* Advise the system to use large pages for a block. Without large pages a big arena causes a page fault per 4 KiB.
 * (_POSIX_C_SOURCE hides the declaration of madvise, so madvise is declared here for C.) */
#if defined(__linux__)
#include <sys/mman.h>
#if !defined(MADV_HUGEPAGE) && !defined(__cplusplus)
#define MADV_HUGEPAGE 14
extern int madvise(void *address, size_t length, int advice);
#endif
#endif
static void tp__os_large_pages(void *p, size_t size)
{
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    const int saved = errno;
    (void)madvise(p, size, MADV_HUGEPAGE);
    errno = saved;
#else
    (void)p, (void)size;
#endif
}

/* -- time ------------------------------------------------------------------------------------------------ */

#if defined(TP__NO_SYSTEM) && defined(TP_NO_STDIO)
#define TP__HAS_CLOCK 0 /* a C library without an operating system has none that can be counted on */
#else
#define TP__HAS_CLOCK 1
#endif

static double tp__os_clock(void) /* monotonic time in seconds since an arbitrary moment */
{
#if !TP__HAS_CLOCK
    return 0;
#elif defined(TP__NO_SYSTEM)
    return (double)clock() / (double)CLOCKS_PER_SEC;
#elif defined(_WIN32)
    LARGE_INTEGER now, rate;
    QueryPerformanceCounter(&now);
    QueryPerformanceFrequency(&rate);
    return (double)now.QuadPart / (double)rate.QuadPart;
#else
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
#endif
}

static double tp__os_cpu_clock(void) /* processor time of this process in seconds, summed over its threads */
{
#if !TP__HAS_CLOCK
    return 0;
#elif defined(TP__NO_SYSTEM)
    return (double)clock() / (double)CLOCKS_PER_SEC;
#elif defined(_WIN32)
    FILETIME made, ended, kernel, user;
    if (!GetProcessTimes(GetCurrentProcess(), &made, &ended, &kernel, &user)) return 0;
    return 1e-7 * ((double)((uint64_t)kernel.dwHighDateTime << 32 | kernel.dwLowDateTime) +
                   (double)((uint64_t)user.dwHighDateTime << 32 | user.dwLowDateTime));
#else
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
#endif
}

static double tp__os_wall(void) /* seconds since 1970 */
{
#if !TP__HAS_CLOCK
    return 0;
#elif defined(TP__NO_SYSTEM)
    return (double)time(NULL);
#elif defined(_WIN32)
    FILETIME now;
    GetSystemTimeAsFileTime(&now);
    return 1e-7 * (double)((uint64_t)now.dwHighDateTime << 32 | now.dwLowDateTime) - 11644473600.0;
#else
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
#endif
}

/* Write the local time in the format `fmt`, in which %Y %m %d %H %M %S are numbers, as in strftime, which takes 3 KB of a small
 * program. Nothing if there is no time, or too little room. */
TP__UNUSED static void tp__os_local_time(char *out, size_t size, const char *fmt)
{
#if !TP__HAS_CLOCK
    (void)fmt;
    if (size) out[0] = 0;
#else
    const time_t now = time(NULL);
    struct tm tm;
#if defined(TP__NO_SYSTEM)
    const struct tm *is = localtime(&now);
    const bool converted = is != NULL;
    if (converted) tm = *is;
#elif defined(_WIN32)
    const bool converted = localtime_s(&tm, &now) == 0;
#else
    const bool converted = localtime_r(&now, &tm) != NULL;
#endif
    size_t n = 0;
    out[0] = 0;
    if (!converted) return;
    for (; *fmt && n + 12 < size; fmt++) {
        const char what = *fmt == '%' ? *++fmt : 0;
        const int number = what == 'Y' ? tm.tm_year + 1900
                           : what == 'm' ? tm.tm_mon + 1
                           : what == 'd' ? tm.tm_mday
                           : what == 'H' ? tm.tm_hour
                           : what == 'M' ? tm.tm_min
                                         : tm.tm_sec;
        if (what) n += (size_t)tp__format(out + n, size - n, "%02d", number);
        else out[n++] = *fmt;
    }
    out[*fmt ? 0 : n] = 0;
#endif
}
TP__COLD_END

/* -- threads: POSIX, Windows, none ----------------------------------------------------------------------- */
/* Initialise a mutex with TP__OS_MUTEX or tp__os_mutex_init. TP__OS_THREAD(name_, user_) begins the definition of a thread's
 * function, TP__OS_THREAD_END ends it. */

#if defined(TP_NO_THREADS)
static TP__UNUSED void tp__os_yield(void) {}
typedef int tp__os_mutex, tp__os_cond; /* there are no other threads: locks do nothing, a wait returns at once */
#define TP__OS_MUTEX                0
#define tp__os_mutex_init(m_)       (*(m_) = 0)
#define tp__os_mutex_free(m_)       ((void)(m_))
#define tp__os_lock(m_)             ((void)(m_))
#define tp__os_unlock(m_)           ((void)(m_))
#define tp__os_cond_init(c_)        (*(c_) = 0)
#define tp__os_cond_free(c_)        ((void)(c_))
#define tp__os_wait(c_, m_)         ((void)(c_), (void)(m_))
#define tp__os_wait_for(c_, m_, s_) ((void)(c_), (void)(m_), (void)(s_), false)
#define tp__os_signal(c_)           ((void)(c_))
#define tp__os_broadcast(c_)        ((void)(c_))
#elif defined(_WIN32)
#include <process.h>
typedef SRWLOCK tp__os_mutex;
typedef CONDITION_VARIABLE tp__os_cond;
typedef HANDLE tp__os_thread;
#define TP__OS_MUTEX                SRWLOCK_INIT
#define TP__OS_THREAD(name_, user_) static unsigned __stdcall name_(void *user_)
#define TP__OS_THREAD_END           return 0
#define tp__os_mutex_free(m_)       ((void)(m_))
#define tp__os_lock(m_)             AcquireSRWLockExclusive(m_)
#define tp__os_unlock(m_)           ReleaseSRWLockExclusive(m_)
#define tp__os_cond_free(c_)        ((void)(c_))
#define tp__os_wait(c_, m_)         ((void)SleepConditionVariableSRW(c_, m_, INFINITE, 0))
#define tp__os_signal(c_)           WakeConditionVariable(c_)
#define tp__os_broadcast(c_)        WakeAllConditionVariable(c_)
#define tp__os_thread_yield()       ((void)SwitchToThread())
#define tp__os_thread_join(t_)      ((void)WaitForSingleObject(t_, INFINITE), (void)CloseHandle(t_))
#define tp__os_thread_detach(t_)    ((void)CloseHandle(t_))

static int tp__os_mutex_init(tp__os_mutex *m) { return InitializeSRWLock(m), 0; }
static int tp__os_cond_init(tp__os_cond *c) { return InitializeConditionVariable(c), 0; }

static bool tp__os_wait_for(tp__os_cond *c, tp__os_mutex *m, double seconds)
{
    return SleepConditionVariableSRW(c, m, seconds < 4e6 ? (DWORD)ceil(1000 * seconds) : INFINITE - 1, 0) != 0;
}

/* Returns 0, or an error number for strerror. */
static int tp__os_thread_start(tp__os_thread *t, unsigned(__stdcall *fn)(void *), void *user)
{
    *t = (HANDLE)_beginthreadex(NULL, 0, fn, user, 0, NULL);
    return *t ? 0 : errno;
}

static int tp__os_processors(void)
{
    const DWORD n = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    return n < 1 ? 1 : (int)n;
}

static int tp__os_processor(void) { return -1; }
static void tp__os_leave_processor(int cpu) { (void)cpu; }
static TP__UNUSED void tp__os_yield(void) { SwitchToThread(); }
#else
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif
typedef pthread_mutex_t tp__os_mutex;
typedef pthread_cond_t tp__os_cond;
typedef pthread_t tp__os_thread;
#define TP__OS_MUTEX                PTHREAD_MUTEX_INITIALIZER
#define TP__OS_THREAD(name_, user_) static void *name_(void *user_)
#define TP__OS_THREAD_END           return NULL
#define tp__os_mutex_init(m_)       pthread_mutex_init(m_, NULL)
#define tp__os_mutex_free(m_)       pthread_mutex_destroy(m_)
#define tp__os_lock(m_)             pthread_mutex_lock(m_)
#define tp__os_unlock(m_)           pthread_mutex_unlock(m_)
#define tp__os_cond_free(c_)        pthread_cond_destroy(c_)
#define tp__os_wait(c_, m_)         pthread_cond_wait(c_, m_)
#define tp__os_signal(c_)           pthread_cond_signal(c_)
#define tp__os_broadcast(c_)        pthread_cond_broadcast(c_)
#define tp__os_thread_yield()       sched_yield()
#define tp__os_thread_join(t_)      pthread_join(t_, NULL)
#define tp__os_thread_detach(t_)    pthread_detach(t_)
#define TP__OS_FORKS                /* the program may call fork() */

TP__COLD_BEGIN
/* Timed waits use the monotonic clock, except on macOS, which cannot. */
#ifdef __APPLE__
#define TP__OS_COND_CLOCK CLOCK_REALTIME
#else
#define TP__OS_COND_CLOCK CLOCK_MONOTONIC
#endif

static int tp__os_cond_init(tp__os_cond *c)
{
    pthread_condattr_t attr;
    int err = pthread_condattr_init(&attr);
    if (err) return err;
#ifndef __APPLE__
    pthread_condattr_setclock(&attr, TP__OS_COND_CLOCK);
#endif
    err = pthread_cond_init(c, &attr);
    pthread_condattr_destroy(&attr);
    return err;
}

/* Returns false when the time is over. */
static bool tp__os_wait_for(tp__os_cond *c, tp__os_mutex *m, double seconds)
{
    struct timespec ts;
    clock_gettime(TP__OS_COND_CLOCK, &ts);
    const double whole = floor(seconds);
    ts.tv_sec += (time_t)whole;
    ts.tv_nsec += (long)((seconds - whole) * 1e9);
    if (ts.tv_nsec >= 1000000000L) {
        ts.tv_nsec -= 1000000000L;
        ts.tv_sec++;
    }
    return pthread_cond_timedwait(c, m, &ts) == 0;
}

/* Returns 0, or an error number for strerror. tp's threads block all signals, so that Ctrl-C interrupts the program's own thread
 * and not a worker. */
static int tp__os_thread_start(tp__os_thread *t, void *(*fn)(void *), void *user)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int err = pthread_create(t, NULL, fn, user);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err;
}

#ifdef __linux__
/* The number of processors, at most n, that a container's quota allows. text: "max 100000" or "QUOTA PERIOD" in microseconds. */
static long tp__os_quota(const char *text, long n)
{
    char *end;
    const long long quota = strtoll(text, &end, 10), period = strtoll(end, NULL, 10);
    return quota > 0 && period > 0 && (quota - 1) / period + 1 < n ? (long)((quota - 1) / period + 1) : n;
}
#endif

/* The number of processors that this process may use: those online, limited by the affinity mask and a container's quota. */
static int tp__os_processors(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    if (n < 1) n = 1;
#ifdef __linux__
    char text[8192];
    tp__os_peek("/proc/self/status", text, sizeof text);
    const char *c = strstr(text, "\nCpus_allowed:");
    long allowed = 0;
    for (c = c ? c + 14 : ""; *c && *c != '\n'; c++) {
        int digit = isdigit((unsigned char)*c) ? *c - '0' : isxdigit((unsigned char)*c) ? (*c | 32) - 'a' + 10 : 0;
        for (; digit; digit &= digit - 1) allowed++;
    }
    if (allowed > 0 && allowed < n) n = allowed;
    tp__os_peek("/sys/fs/cgroup/cpu.max", text, sizeof text);
    n = tp__os_quota(text, n);
#endif
    return n < INT_MAX ? (int)n : INT_MAX;
}
TP__COLD_END

/* tp__os_processor: the processor that the caller runs on, -1 if unknown. tp__os_leave_processor moves the caller to another one:
 * the system sometimes puts a thread on the processor of the thread that started or woke it, and both then share it for as long as
 * they work. The affinity mask is restored afterwards. (The C library's functions need a feature macro that only the program may
 * define, so the system calls are made directly.) */
#if defined(__linux__) && defined(__GNUC__) && defined(SYS_getcpu) && defined(SYS_sched_setaffinity)
#ifdef __cplusplus
extern "C" long tp__syscall(long number, ...) __asm__("syscall");
#else
extern long tp__syscall(long number, ...) __asm__("syscall");
#endif
static int tp__os_processor(void)
{
    unsigned cpu = 0;
    return tp__syscall(SYS_getcpu, &cpu, NULL, NULL) == 0 ? (int)cpu : -1;
}
TP__SMALL static void tp__os_leave_processor(int cpu)
{
    enum { BITS = 8 * sizeof(unsigned long), WORDS = 8192 / BITS };
    unsigned long allowed[WORDS], others = 0;
    memset(allowed, 0, sizeof allowed);
    const long bytes = tp__syscall(SYS_sched_getaffinity, 0, sizeof allowed, allowed);
    if (bytes <= 0 || cpu < 0 || cpu >= BITS * WORDS || tp__os_processor() != cpu) return;
    const unsigned long bit = 1ul << (unsigned)cpu % BITS;
    allowed[cpu / BITS] &= ~bit;
    for (int i = 0; i < WORDS; i++) others |= allowed[i];
    if (!others || tp__syscall(SYS_sched_setaffinity, 0, bytes, allowed) != 0) return;
    allowed[cpu / BITS] |= bit;
    tp__syscall(SYS_sched_setaffinity, 0, bytes, allowed);
}
#else
static int tp__os_processor(void) { return -1; }
static void tp__os_leave_processor(int cpu) { (void)cpu; }
#endif
/* Let other threads and processes that wait for this processor run first. */
static TP__UNUSED void tp__os_yield(void) { sched_yield(); }
#endif

/* -- processes: POSIX ------------------------------------------------------------------------------------ */
/* Child processes, a socket to each, and shared memory: a file without a name, which is deleted when both processes have closed
 * it. TP__OS_FORK is defined if these functions exist. */

#if !defined(TP_NO_FILES) && !defined(_WIN32)
#define TP__OS_FORK 1
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

/* Make a pair of connected sockets, which exec() closes. */
static TP__UNUSED int tp__os_socket_pair(int fd[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd) != 0) return -1;
    for (int i = 0; i < 2; i++) {
        fcntl(fd[i], F_SETFD, FD_CLOEXEC);
#ifdef SO_NOSIGPIPE
        const int on = 1;
        setsockopt(fd[i], SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
    }
    return 0;
}

/* Send all n bytes. Returns -1 if the other end is closed, without a SIGPIPE. */
static TP__UNUSED int tp__os_send(int fd, const void *data, size_t n)
{
#ifdef MSG_NOSIGNAL
    const int flags = MSG_NOSIGNAL;
#else
    const int flags = 0;
#endif
    for (const char *p = (const char *)data; n > 0;) {
        const ssize_t put = send(fd, p, n, flags);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return -1;
        p += put;
        n -= (size_t)put;
    }
    return 0;
}

/* Wait until there is data to read or the other end is closed (returns 1), or until the time is over (0). fd -1 only waits. */
static TP__UNUSED int tp__os_readable(int fd, double seconds)
{
    struct pollfd p;
    p.fd = fd;
    p.events = POLLIN;
    p.revents = 0;
    return poll(&p, 1, (int)(1000 * seconds)) > 0;
}

/* Close this end of a socket pair. The other end sees that at once, even if a forked process has a copy of this end. */
static TP__UNUSED void tp__os_hang_up(int fd)
{
    shutdown(fd, SHUT_RDWR);
    close(fd);
}

/* Wait until the other end of a socket pair is closed. */
static TP__UNUSED void tp__os_wait_hang_up(int fd)
{
    struct pollfd p;
    p.fd = fd;
    p.events = 0;
    do p.revents = 0;
    while (poll(&p, 1, -1) <= 0 || !(p.revents & (POLLHUP | POLLERR | POLLNVAL)));
}

/* Make an empty file without a name; -1 on failure. */
static TP__UNUSED int tp__os_nameless_file(void)
{
#if defined(__linux__) && defined(__GNUC__) && defined(SYS_memfd_create)
#ifdef __cplusplus
    extern long tp__syscall(long number, ...) __asm__("syscall");
#else
    extern long tp__syscall(long number, ...) __asm__("syscall");
#endif
    const int memory = (int)tp__syscall(SYS_memfd_create, "tp", 1u /* the flag MFD_CLOEXEC */);
    if (memory >= 0) return memory;
#endif
    const char *dir = getenv("TMPDIR");
    char path[1024];
    int fd = -1;
    for (int i = 0; i < 100 && fd < 0; i++) {
        if (tp__format(path, sizeof path, "%s/tp-%ld-%d", dir && *dir ? dir : "/tmp", (long)getpid(), i) >=
            (int)sizeof path)
            return -1;
        fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0 && errno != EEXIST) return -1;
    }
    if (fd >= 0) unlink(path);
    return fd;
}

/* Set the size of a file and reserve the space. Returns 0, or an error number for strerror. */
static TP__UNUSED int tp__os_grow_file(int fd, uint64_t size)
{
    int failed;
    TP__OS_AGAIN(failed, ftruncate(fd, (off_t)size));
    if (failed) return errno;
#ifdef __linux__
    do failed = posix_fallocate(fd, 0, (off_t)size);
    while (failed == EINTR);
    if (failed == EOPNOTSUPP || failed == EINVAL) failed = 0;
#endif
    return failed;
}

/* Map the first `size` bytes of a file, shared with other processes. NULL: the file is shorter, or mmap failed. */
static TP__UNUSED char *tp__os_map_file(int fd, uint64_t size)
{
    struct stat st;
    if (size == 0 || size > PTRDIFF_MAX || fstat(fd, &st) != 0 || (uint64_t)st.st_size < size) return NULL;
    void *p = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return p == MAP_FAILED ? NULL : (char *)p;
}
static TP__UNUSED void tp__os_unmap_file(char *p, uint64_t size)
{
    if (p) munmap(p, (size_t)size);
}

/* Start a child program, found in $PATH, that ignores Ctrl-C. Returns its process id, or -1 with errno. argv ends with NULL. */
#ifdef __cplusplus
extern "C" char **environ;
#else
extern char **environ;
#endif
static TP__UNUSED long tp__os_spawn(const char *const *argv)
{
#if defined(__ANDROID_API__) && __ANDROID_API__ < 28 /* it has no posix_spawnp */
    errno = ENOTSUP;
    return (void)argv, -1;
#else
    pid_t pid = -1;
    struct sigaction ignore, before;
    memset(&ignore, 0, sizeof ignore);
    ignore.sa_handler = SIG_IGN;
    sigemptyset(&ignore.sa_mask);
    sigaction(SIGINT, &ignore, &before);
    const int failed = posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv, environ);
    sigaction(SIGINT, &before, NULL);
    if (failed) errno = failed;
    return failed ? -1 : (long)pid;
#endif
}
static TP__UNUSED void tp__os_terminate(long pid, bool kill_now) { kill((pid_t)pid, kill_now ? SIGKILL : SIGTERM); }

/* Whether a child has ended; if `wait`, wait until it has. reason: how it ended, as text. */
static TP__UNUSED bool tp__os_child_ended(long pid, bool wait, char *reason, size_t size)
{
    int status = 0;
    pid_t got;
    TP__OS_AGAIN(got, waitpid((pid_t)pid, &status, wait ? 0 : WNOHANG));
    if (got == 0) return false;
    if (got < 0) tp__format(reason, size, "is gone");
    else if (WIFSIGNALED(status)) tp__format(reason, size, "was killed by signal %d", WTERMSIG(status));
    else tp__format(reason, size, "ended with status %d", WEXITSTATUS(status));
    return true;
}
#endif

TP__COLD_BEGIN
/* -- signals: Ctrl-C, and a file that grows beyond `ulimit -f` -------------------------------------------- */
/* Between listen and ignore the first Ctrl-C sets a flag; a second one ends the program. There may be several listeners: all see
 * the flag, even those that began to listen after it was set. A program that ignores Ctrl-C goes on doing so. The last call of ignore
 * restores the program's handler, unless another one was set meanwhile: by the program, or by another copy of this library in the
 * process. That copy may restore this one's handler when nobody listens any more; the handler then passes a Ctrl-C on to the one
 * before it. A forked process, which has the handler too, passes it on as well: it has none of the listeners. Between listen and ignore
 * SIGXFSZ, which would end the program without a sentence, is ignored unless the program handles it: write() fails with EFBIG. */

#ifndef TP_NO_SIGNALS
#include <signal.h>
#endif
static struct {
    int flag; /* Ctrl-C was pressed, or tp_interrupt called. Set atomically; the signal handler changes nothing else */
    int listeners;
    int process; /* their process */
#ifdef TP_NO_SIGNALS
#elif defined(_WIN32)
    void (*before)(int);
#else
    struct sigaction before;
    bool file_size_ignored;
#endif
} tp__os_interrupt;
static tp__os_mutex tp__os_interrupt_lock = TP__OS_MUTEX;

/* Whether anybody listens in this process. */
static TP__UNUSED bool tp__os_interrupt_listens(void)
{
    return __atomic_load_n(&tp__os_interrupt.listeners, __ATOMIC_RELAXED) > 0 &&
           __atomic_load_n(&tp__os_interrupt.process, __ATOMIC_RELAXED) == (int)tp__os_pid();
}

/* The same as Ctrl-C; false: nobody listens. Signal handlers may call it. */
static TP__UNUSED bool tp__os_interrupt_now(void)
{
    if (!tp__os_interrupt_listens()) return false;
    __atomic_store_n(&tp__os_interrupt.flag, 1, __ATOMIC_RELAXED);
    return true;
}

static TP__UNUSED bool tp__os_interrupted(void)
{
    return __atomic_load_n(&tp__os_interrupt.flag, __ATOMIC_RELAXED) != 0 && tp__os_interrupt_listens();
}

#ifdef TP_NO_SIGNALS
static TP__UNUSED void tp__os_interrupt_take(void) {}
static TP__UNUSED void tp__os_interrupt_give_back(void) {}
#else
static void tp__os_interrupt_restore(void)
{
#ifdef _WIN32
    signal(SIGINT, tp__os_interrupt.before);
#else
    sigaction(SIGINT, &tp__os_interrupt.before, NULL);
#endif
}

static void tp__os_on_interrupt(int number)
{
    const bool again = __atomic_exchange_n(&tp__os_interrupt.flag, 1, __ATOMIC_RELAXED) != 0;
    if (tp__os_interrupt_listens()) {
        if (again) raise(number); /* after tp__os_interrupt_now: the default action ends the program */
        return;
    }
    tp__os_interrupt_restore();
    /* two copies that pass it to each other come to an end: the handler before this one is now SIG_DFL */
#ifdef _WIN32
    tp__os_interrupt.before = SIG_DFL;
#else
    memset(&tp__os_interrupt.before, 0, sizeof tp__os_interrupt.before);
#endif
    raise(number);
}

/* Whether this copy's handler is set, or Ctrl-C has replaced it by the default action. */
static bool tp__os_interrupt_is_ours(void)
{
    const bool pressed = __atomic_load_n(&tp__os_interrupt.flag, __ATOMIC_RELAXED) != 0;
#ifdef _WIN32
    if (tp__os_interrupt.before == SIG_IGN) return false;
    void (*const now)(int) = signal(SIGINT, SIG_IGN); /* there is no other way to ask */
    signal(SIGINT, now);
    return now == tp__os_on_interrupt || (pressed && now == SIG_DFL);
#else
    struct sigaction now;
    return tp__os_interrupt.before.sa_handler != SIG_IGN && sigaction(SIGINT, NULL, &now) == 0 &&
           (now.sa_handler == tp__os_on_interrupt || (pressed && now.sa_handler == SIG_DFL));
#endif
}

/* Set this copy's handlers. */
static void tp__os_interrupt_take(void)
{
#ifdef _WIN32
    /* the C library restores the default action after one Ctrl-C */
    tp__os_interrupt.before = signal(SIGINT, tp__os_on_interrupt);
    if (tp__os_interrupt.before == SIG_IGN) signal(SIGINT, SIG_IGN);
#else
    struct sigaction action;
    sigaction(SIGINT, NULL, &action);
    if (action.sa_handler != tp__os_on_interrupt) /* a forked process has this handler already, and the one before it */
        tp__os_interrupt.before = action;
    memset(&action, 0, sizeof action);
    action.sa_handler = tp__os_on_interrupt;
    action.sa_flags = (int)SA_RESETHAND; /* restore the default action after one Ctrl-C */
    sigemptyset(&action.sa_mask);
    if (tp__os_interrupt.before.sa_handler != SIG_IGN) sigaction(SIGINT, &action, NULL);
    if (sigaction(SIGXFSZ, NULL, &action) == 0 && action.sa_handler == SIG_DFL) {
        action.sa_handler = SIG_IGN;
        tp__os_interrupt.file_size_ignored = sigaction(SIGXFSZ, &action, NULL) == 0;
    }
#endif
}

/* Restore the program's. */
static void tp__os_interrupt_give_back(void)
{
    if (tp__os_interrupt_is_ours()) tp__os_interrupt_restore();
#ifndef _WIN32
    struct sigaction now;
    if (tp__os_interrupt.file_size_ignored && sigaction(SIGXFSZ, NULL, &now) == 0 && now.sa_handler == SIG_IGN) {
        now.sa_handler = SIG_DFL;
        sigaction(SIGXFSZ, &now, NULL);
    }
    tp__os_interrupt.file_size_ignored = false;
#endif
}
#endif

static TP__UNUSED void tp__os_interrupt_listen(void)
{
    tp__os_lock(&tp__os_interrupt_lock);
    const bool is_first = !tp__os_interrupt_listens();
    if (is_first) {
        __atomic_store_n(&tp__os_interrupt.flag, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&tp__os_interrupt.listeners, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&tp__os_interrupt.process, (int)tp__os_pid(), __ATOMIC_RELAXED);
    }
    (void)TP__WIDE_ADD(&tp__os_interrupt.listeners, 1);
    if (is_first) tp__os_interrupt_take();
    tp__os_unlock(&tp__os_interrupt_lock);
}

static TP__UNUSED void tp__os_interrupt_ignore(void)
{
    tp__os_lock(&tp__os_interrupt_lock);
    if (TP__WIDE_ADD(&tp__os_interrupt.listeners, -1) == 0) {
        tp__os_interrupt_give_back();
        __atomic_store_n(&tp__os_interrupt.flag, 0, __ATOMIC_RELAXED); /* runs after the training wait again */
    }
    tp__os_unlock(&tp__os_interrupt_lock);
}

#ifdef TP_NO_THREADS
#define TP__THREAD_LOCAL
#else
#define TP__THREAD_LOCAL __thread
#endif

/* Returns from the function with an error if the caller misused it; see MISUSE at the top of this file. For example
 * TP__REQUIRE(s && path, TP_ERR_ARG); */
#ifdef TP_NO_SENTENCES
#define TP__REQUIRE(cond_, ret_)           \
    if (!(cond_)) {                        \
        (void)(tp_fail)(TP_ERR_ARG, NULL); \
        return ret_;                       \
    }
#else
#define TP__REQUIRE(cond_, ret_)      \
    if (!(cond_)) {                   \
        tp__misuse(__func__, #cond_); \
        return ret_;                  \
    }
/* A text that is being written. What does not fit is left out. */
typedef struct tp__words {
    char text[480];
    size_t n;
} tp__words;
TP__UNUSED TP__SMALL static void tp__words_add(tp__words *w, const char *s, size_t n)
{
    for (size_t i = 0; i < n && w->n + 1 < sizeof w->text; i++) w->text[w->n++] = s[i];
    w->text[w->n] = 0;
}
TP__UNUSED TP__SMALL static void tp__words_put(tp__words *w, const char *s) { tp__words_add(w, s, strlen(s)); }
static bool tp__in_operand(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}
/* The end of the operand of a C condition that begins at s: a name, a number, a field p->x, or a call f(x). */
TP__UNUSED TP__SMALL static const char *tp__operand_end(const char *s)
{
    for (int depth = 0; *s; s++) {
        if (s[0] == '-' && s[1] == '>') s++;
        else if (*s == '(') depth++;
        else if (depth && *s == ')') depth--;
        else if (!depth && !tp__in_operand(*s)) break;
    }
    return s;
}
/* The end of the part of a C condition that begins at s: the next && outside of parentheses. */
TP__UNUSED TP__SMALL static const char *tp__part_end(const char *s)
{
    for (int depth = 0; *s && (depth || *s != '&'); s++) depth += (*s == '(') - (*s == ')');
    return s;
}
/* Writes one part of a C condition in words: "n >= 0" is "n must be at least 0", "(x || n == 0)" is "x must not be NULL, or n must be 0". */
TP__UNUSED TP__SMALL static void tp__part_in_words(tp__words *w, const char *s, const char *end)
{
    static const char *const words[][2] = {{"==", " must be "},          {"!=", " must not be "},
                                           {">=", " must be at least "}, {"<=", " must be at most "},
                                           {">", " must be above "},     {"<", " must be below "}};
    const char *is = " must not be NULL";
    while (s < end) {
        if (*s == '!' && s[1] != '=') is = " must be NULL", s++;
        else if (*s == '*') is = " must not be empty", s++;
        else if (*s == '&') tp__words_put(w, " and "), s += 2;
        else if (*s == '|') tp__words_put(w, ", or "), s += 2;
        else if (!tp__in_operand(*s)) s++;
        else {
            const char *e = tp__operand_end(s);
            tp__words_add(w, s, (size_t)(e - s));
            for (s = e; *s == ' '; s++) {}
            for (int i = 0; i < 6; i++)
                if (strncmp(s, words[i][0], strlen(words[i][0])) == 0) {
                    is = words[i][1], s += strlen(words[i][0]);
                    while (*s == ' ') s++;
                    e = tp__operand_end(s + (*s == '-'));
                    tp__words_put(w, is), tp__words_add(w, s, (size_t)(e - s));
                    is = "", s = e;
                    break;
                }
            tp__words_put(w, is), is = " must not be NULL";
        }
    }
}
/* The sentence about a misused function, whose condition was `needs`: first the arguments that must not be NULL, in one list, then
 * the rest. A private function is named as the public one that calls it. */
TP__UNUSED TP__SMALL static void tp__misuse_in_words(tp__words *w, const char *function, const char *needs)
{
    int n[2] = {0, 0}; /* number of arguments that must not be NULL: all, and those already listed */
    const bool is_private = strncmp(function, "tp__", 4) == 0;
    w->n = 0;
    tp__words_put(w, is_private ? "tp_" : ""), tp__words_put(w, function + (is_private ? 4 : 0)),
        tp__words_put(w, ": ");
    const size_t begin = w->n;
    for (int pass = 0; pass < 3; pass++) {
        for (const char *s = needs, *end; *s; s = *end ? end + 2 : end) {
            while (*s == ' ') s++;
            end = tp__part_end(s);
            const char *e = tp__operand_end(s);
            while (*e == ' ') e++;
            const bool name = e == end && *s != '(';
            if (pass == 0) n[0] += name;
            else if (pass == 1 && name) {
                tp__words_put(w, n[1] == 0 ? "" : n[1] + 1 < n[0] ? ", " : " and ");
                tp__words_add(w, s, (size_t)(tp__operand_end(s) - s)), n[1]++;
            } else if (pass == 2 && !name) {
                if (w->n > begin) tp__words_put(w, "; ");
                tp__part_in_words(w, s, end);
            }
        }
        if (pass == 1 && n[0]) tp__words_put(w, " must not be NULL");
    }
}
TP__UNUSED TP__SMALL static tp_status tp__misuse(const char *function, const char *needs)
{
    tp__words w;
    tp__misuse_in_words(&w, function, needs);
    return tp_fail(TP_ERR_ARG, "%s", w.text);
}
#endif

/* ==== >>options ======================================================================================= */

/* Skip a string or character literal, or a group in parentheses, brackets or braces, that begins at s. */
static const char *tp__skip_group(const char *s)
{
    const char first = *s++;
    if (first == '"' || first == '\'') {
        while (*s && *s != first) s += *s == '\\' && s[1] ? 2 : 1;
        return *s ? s + 1 : s;
    }
    while (*s && !strchr(")]}", *s)) s = strchr("\"'([{", *s) ? tp__skip_group(s) : s + 1;
    return *s ? s + 1 : s;
}

/* Whether the text of a call's options, `"conv0", .filters = 32, .use_bias = x ? a : b`, names the field. In C++ the text may
 * begin with a brace. */
static bool tp__text_names_field(const char *text, const char *field)
{
    const size_t n = strlen(field);
    bool begins = true;
    text += strspn(text, " {");
    while (*text) {
        if (begins && *text == '.') {
            text += 1 + strspn(text + 1, " ");
            if (strncmp(text, field, n) == 0 && text[n + strspn(text + n, " ")] == '=') return true;
        }
        begins = *text == ',' || (begins && *text == ' ');
        text = strchr("\"'([{", *text) ? tp__skip_group(text) : text + 1;
    }
    return false;
}

/* Whether the option's value at `at`, a number or a tp_tri, is zero. Compares values, not bits: -0.0f is zero. */
static bool tp__zero_is_written(const tp__zero_option *o, const char *at)
{
    if (o->spelling == TP__ZERO_ZERO && o->size == sizeof(float)) return *(const float *)at == 0.0f;
    if (o->spelling == TP__ZERO_ZERO) return *(const double *)at == 0.0;
    return o->size == sizeof(int) ? *(const int *)at == 0 : *(const int64_t *)at == 0;
}

TP_DEF void *tp__fill_named_zeros(void *desc, const char *type, const tp__zero_option *o, const char *text)
{
    for (; o->type; o++) {
        if (strcmp(o->type, type) != 0) continue;
        char *at = (char *)desc + o->offset;
        if (o->spelling == TP__ZERO_NO && *(const int *)at == TP_UNSET) *(int *)at = 0;
        else if (!tp__zero_is_written(o, at) || !tp__text_names_field(text, o->field)) continue;
        else if (o->spelling == TP__ZERO_NO) *(int *)at = TP_NO;
        else if (o->spelling == TP__ZERO_NONE && o->size == sizeof(int)) *(int *)at = TP_NONE;
        else if (o->spelling == TP__ZERO_NONE) *(int64_t *)at = TP_NONE;
        else if (o->size == sizeof(float)) *(float *)at = TP_ZERO;
        else *(double *)at = (double)TP_ZERO;
    }
    return desc;
}

/* ==== >>numbers ======================================================================================= */
/* Floating-point numbers as text, exact to the last digit and the same in every locale and rounding mode. The C library's printf
 * and strtod are not used, because they write and read a decimal comma in some locales, which no file format allows. */

static uint32_t tp__float_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float tp__bits_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* Whether x is neither infinite nor NaN. Tests the bits, because gcc drops comparisons with NaN under -ffinite-math-only. */
TP__UNUSED static bool tp__finite(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (bits >> 52 & 0x7ff) != 0x7ff;
}

/* The value of an option: `otherwise` if unset, 0 for TP_ZERO or TP_NONE, else v. */
TP__UNUSED static float tp__float_option(float v, float otherwise)
{
    if (v == 0.0f) return otherwise;
    return v == TP_ZERO ? 0.0f : v;
}
TP__UNUSED static int64_t tp__int_option(int64_t v, int64_t otherwise) { return v == TP_NONE ? 0 : v ? v : otherwise; }

#define TP__EXACT_DIGITS 780 /* a double has at most 767 digits, and no more digits of a text matter for rounding */
#define TP__BIG_WORDS    200

/* A natural number of up to TP__BIG_WORDS words: n words, the lowest first. */
typedef struct tp__big_number {
    int n;
    uint32_t word[TP__BIG_WORDS];
} tp__big_number;

static void tp__big_mul(tp__big_number *a, uint32_t by, uint32_t add)
{
    uint64_t carry = add;
    for (int i = 0; i < a->n; i++) {
        carry += (uint64_t)a->word[i] * by;
        a->word[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry && a->n < TP__BIG_WORDS) a->word[a->n++] = (uint32_t)carry;
}

/* a *= 5^fives 2^twos */
static void tp__big_scale(tp__big_number *a, int fives, int twos)
{
    for (; fives >= 13; fives -= 13) tp__big_mul(a, 1220703125u, 0);
    for (; fives > 0; fives--) tp__big_mul(a, 5, 0);
    for (; twos >= 31; twos -= 31) tp__big_mul(a, 1u << 31, 0);
    if (twos > 0) tp__big_mul(a, 1u << twos, 0);
}

static void tp__big_set(tp__big_number *a, uint64_t value)
{
    a->n = 0;
    for (; value; value >>= 32) a->word[a->n++] = (uint32_t)value;
}

static int tp__big_compare(const tp__big_number *a, const tp__big_number *b)
{
    if (a->n != b->n) return a->n < b->n ? -1 : 1;
    for (int i = a->n - 1; i >= 0; i--)
        if (a->word[i] != b->word[i]) return a->word[i] < b->word[i] ? -1 : 1;
    return 0;
}

/* A binary format, float or double, whose values are significand * 2^exponent. */
typedef struct tp__format_of {
    int fraction; /* number of bits in the fraction: 23 or 52 */
    int lowest;   /* exponent of the last bit of a subnormal number: -149 or -1074 */
    uint64_t infinity;
} tp__format_of;
static const tp__format_of tp__binary32 = {23, -149, 0x7f800000u}, tp__binary64 = {52, -1074, 0x7ff0000000000000u};

static uint64_t tp__significand(const tp__format_of *type, uint64_t bits, int *exponent)
{
    const int biased = (int)(bits >> type->fraction);
    const uint64_t fraction = bits & (((uint64_t)1 << type->fraction) - 1);
    *exponent = type->lowest + (biased ? biased - 1 : 0);
    return biased ? fraction | (uint64_t)1 << type->fraction : fraction;
}

/* Write all digits of a finite number: its magnitude is 0.d0 d1 d2 .. times 10^*point. Returns their count, 0 for zero. */
static int tp__exact_digits(double value, char *digit, int *point)
{
    uint64_t bits;
    int exponent, n = 0;
    memcpy(&bits, &value, sizeof bits);
    uint64_t m = tp__significand(&tp__binary64, bits & ~((uint64_t)1 << 63), &exponent);
    *point = 0;
    if (!m) return 0;
    for (; exponent < 0 && !(m & 1); exponent++) m >>= 1;
    tp__big_number a;
    tp__big_set(&a, m);
    tp__big_scale(&a, exponent < 0 ? -exponent : 0, exponent > 0 ? exponent : 0);
    while (a.n > 0) { /* produces nine digits at a time, the lowest ones first */
        uint64_t remainder = 0;
        for (int i = a.n - 1; i >= 0; i--) {
            remainder = remainder << 32 | a.word[i];
            a.word[i] = (uint32_t)(remainder / 1000000000u);
            remainder %= 1000000000u;
        }
        while (a.n > 0 && !a.word[a.n - 1]) a.n--;
        for (int i = 0; i < 9 && (a.n > 0 || remainder); i++, remainder /= 10)
            digit[n++] = (char)('0' + remainder % 10);
    }
    *point = n + (exponent < 0 ? exponent : 0);
    for (int i = 0; i < n / 2; i++) {
        const char swap = digit[i];
        digit[i] = digit[n - 1 - i];
        digit[n - 1 - i] = swap;
    }
    while (n > 0 && digit[n - 1] == '0') n--;
    return n;
}

/* Round to the nearest number of `keep` digits, ties to even. Returns the number of digits left without zeros at the end. */
static int tp__round_digits(char *digit, int n, int keep, int *point)
{
    if (keep >= n) return n;
    if (keep < 0) return 0;
    const bool up = digit[keep] > '5' || (digit[keep] == '5' && (n > keep + 1 || (keep > 0 && (digit[keep - 1] & 1))));
    n = keep;
    if (up) {
        while (n > 0 && digit[n - 1] == '9') n--;
        if (n > 0) digit[n - 1]++;
        else digit[n++] = '1', ++*point;
    } else {
        while (n > 0 && digit[n - 1] == '0') n--;
    }
    return n;
}

#ifndef TP__NO_SYSTEM /* a small program reads few numbers */
/* tp__nearest_bits for most numbers, in a few divisions: whole * 10^tens, where whole is not 0, and the number is neither subnormal
 * nor infinite. false: a power of ten is too large. Only integers are used, so the result is the nearest number with any options of
 * the compiler and in any rounding mode. */
TP__HOT static bool tp__nearest_small(const tp__format_of *type, uint64_t whole, int tens, uint64_t *bits)
{
    static const uint32_t five[14] = {1,     5,      25,      125,     625,      3125,      15625,
                                      78125, 390625, 1953125, 9765625, 48828125, 244140625, 1220703125};
    uint64_t quotient[2] = {whole, 0}, remainders = 0; /* a number of 128 bits, the high ones first, times 2^exponent */
    int exponent = tens - 64;
    if (tens < -26) return false;
    for (int i = 0; i < tens; i++) {
        if (quotient[0] > UINT64_MAX / 5) return false;
        quotient[0] *= 5;
    }
    for (int pass = 0; pass < 2; pass++) { /* the highest bit becomes 1, before the division and after it */
        for (int by = 32; by > 0; by /= 2)
            if (quotient[0] >> (64 - by) == 0) {
                quotient[0] = quotient[0] << by | quotient[1] >> (64 - by);
                quotient[1] <<= by;
                exponent -= by;
            }
        for (int left = pass ? 0 : -tens; left > 0; left -= 13) {
            const uint32_t by = five[left < 13 ? left : 13];
            uint64_t rest = 0;
            for (int i = 0; i < 4; i++) {
                const int shift = i % 2 ? 0 : 32;
                rest = rest << 32 | (quotient[i / 2] >> shift & 0xffffffffu);
                quotient[i / 2] = (quotient[i / 2] & ~((uint64_t)0xffffffffu << shift)) | rest / by << shift;
                rest %= by;
            }
            remainders |= rest;
        }
    }
    const int n_dropped = 63 - type->fraction;
    const uint64_t half = (uint64_t)1 << (n_dropped - 1), dropped = quotient[0] & (2 * half - 1);
    const uint64_t kept = quotient[0] >> n_dropped;
    const bool up = dropped > half || (dropped == half && (quotient[1] | remainders | (kept & 1)));
    *bits = kept + ((uint64_t)(exponent + 64 + n_dropped - type->lowest) << type->fraction) + up;
    return true;
}
#endif

/* The bits of the number of a type that is nearest to 0.d0 d1 .. times 10^point, ties to even. Starts from a close guess and moves
 * to a neighbour while an exact comparison with the midpoint between the two says that the neighbour is nearer. */
static uint64_t tp__nearest_bits(const tp__format_of *type, const char *digit, int n, int point)
{
    if (n == 0 || point < -400) return 0;
    if (point > 400) return type->infinity;
    uint64_t head = 0;
#ifndef TP__NO_SYSTEM
    uint64_t whole = 0, bits_of_whole;
    for (int i = 0; i < n && n <= 19; i++) whole = whole * 10 + (uint64_t)(digit[i] - '0');
    if (n <= 19 && tp__nearest_small(type, whole, point - n, &bits_of_whole)) return bits_of_whole;
#endif
    for (int i = 0; i < 19; i++) head = head * 10 + (uint64_t)(i < n ? digit[i] - '0' : 0);
    int twos, e = point - 19;
    double guess = frexp((double)head, &twos);
    for (int i = 8; i >= 0; i--) { /* scale the guess to within a few roundings of the number */
        static const double power[9] = {1e1, 1e2, 1e4, 1e8, 1e16, 1e32, 1e64, 1e128, 1e256};
        int frexp_exponent;
        while ((e < 0 ? -e : e) >= 1 << i) {
            guess = frexp(e < 0 ? guess / power[i] : guess * power[i], &frexp_exponent);
            twos += frexp_exponent, e += e < 0 ? 1 << i : -(1 << i);
        }
    }
    int place = twos - type->fraction - 1, n_dropped = 52 - type->fraction;
    if (place < type->lowest) n_dropped += type->lowest - place, place = type->lowest;
    uint64_t bits = n_dropped < 60 ? (uint64_t)(guess * 9007199254740992.0) >> n_dropped : 0;
    bits =
        place - type->lowest > 4000 ? type->infinity - 1 : bits + ((uint64_t)(place - type->lowest) << type->fraction);
    if (bits >= type->infinity) bits = type->infinity - 1;
    tp__big_number text;
    text.n = 0;
    for (int i = 0; i < n; i++) {
        if (text.n == 0) tp__big_set(&text, (uint64_t)(digit[i] - '0'));
        else tp__big_mul(&text, 10, (uint32_t)(digit[i] - '0'));
    }
    const int tens = point - n;
    for (;;) {
        int exponent, order[2];
        for (int above = 0; above < 2;
             above++) { /* compare the text with the midpoint between this number and its neighbour */
            tp__big_number a = text, b;
            if (!above && bits == 0) {
                order[0] = 1;
                continue;
            }
            tp__big_set(&b, 2 * tp__significand(type, above ? bits : bits - 1, &exponent) + 1);
            const int shift = exponent - 1 - tens;
            tp__big_scale(&a, tens > 0 ? tens : 0, shift < 0 ? -shift : 0);
            tp__big_scale(&b, tens < 0 ? -tens : 0, shift > 0 ? shift : 0);
            order[above] = tp__big_compare(&a, &b);
        }
        if (order[0] < 0 || (order[0] == 0 && (bits & 1))) bits--;
        else if ((order[1] > 0 || (order[1] == 0 && (bits & 1))) && bits < type->infinity) bits++;
        else return bits;
        if (bits == type->infinity) return bits;
    }
}

static bool tp__same_word(const char *text, const char *word)
{
    for (; *word; text++, word++)
        if ((*text | 32) != *word) return false;
    return true;
}

/* The bits of the number at the start of text; *end: the text after the number, or `text` if there is no number. */
static uint64_t tp__parse_bits(const tp__format_of *type, const char *text, const char **end)
{
    char digit[TP__EXACT_DIGITS + 1];
    const char *p = text;
    enum {
        MOST = 100000000
    }; /* exponents and zeros are counted up to here; no text is so long that its zeros balance a larger exponent */
    int n = 0, point = 0;
    bool has_digits = false, dot = false;
    *end = text;
    while (*p == ' ' || (*p >= '\t' && *p <= '\r')) p++;
    const uint64_t sign = *p == '-' ? (type->infinity / ((uint64_t)1 << type->fraction) + 1) << type->fraction : 0;
    if (*p == '-' || *p == '+') p++;
    if (tp__same_word(p, "inf")) return *end = p + (tp__same_word(p, "infinity") ? 8 : 3), sign | type->infinity;
    if (tp__same_word(p, "nan")) return *end = p + 3, sign | type->infinity | (uint64_t)1 << (type->fraction - 1);
    for (;; p++) {
        if (*p == '.' && !dot) {
            dot = true;
            continue;
        }
        if (*p < '0' || *p > '9') break;
        has_digits = true;
        if (n > 0 || *p != '0') {
            if (n < TP__EXACT_DIGITS) digit[n++] = *p;
            /* the last digit becomes odd if nonzero digits after it are dropped, so that rounding still sees them */
            else if (*p != '0') digit[n - 1] = (char)(digit[n - 1] | 1);
            if (!dot && point < MOST) point++;
        } else if (dot && point > -MOST) {
            point--;
        }
    }
    if (!has_digits) return 0;
    *end = p;
    if (*p == 'e' || *p == 'E') {
        const char *q = p + 1;
        const bool down = *q == '-';
        int e = 0;
        if (*q == '-' || *q == '+') q++;
        if (*q >= '0' && *q <= '9') {
            for (; *q >= '0' && *q <= '9'; q++) e = e < MOST ? e * 10 + (*q - '0') : e;
            point += down ? -e : e;
            *end = q;
        }
    }
    while (n > 0 && digit[n - 1] == '0') n--;
    return sign | tp__nearest_bits(type, digit, n, point);
}

TP_DEF double tp_parse_double(const char *text, const char **end)
{
    if (end) *end = text;
    TP__REQUIRE(text, 0)
    const char *behind;
    double value;
    const uint64_t bits = tp__parse_bits(&tp__binary64, text, end ? end : &behind);
    memcpy(&value, &bits, sizeof value);
    return value;
}

TP_DEF float tp_parse_float(const char *text, const char **end)
{
    if (end) *end = text;
    TP__REQUIRE(text, 0)
    const char *behind;
    return tp__bits_float((uint32_t)tp__parse_bits(&tp__binary32, text, end ? end : &behind));
}

/* Write the fewest digits that read back as the number with these bits, which is finite and not negative. Returns their count. */
static int tp__shortest_digits(const tp__format_of *type, uint64_t bits, double value, char *digit, int *point)
{
    char exact_digits[TP__EXACT_DIGITS + 1];
    int whole, n = tp__exact_digits(value, exact_digits, &whole);
    for (int keep = 1;; keep++) {
        memcpy(digit, exact_digits, (size_t)n);
        *point = whole;
        int left = tp__round_digits(digit, n, keep, point);
        if (keep >= n || tp__nearest_bits(type, digit, left, *point) == bits) return left;
        if (bits & (((uint64_t)1 << type->fraction) - 1)) continue;
        /* For a power of two the neighbour above is twice as far away as the one below: also try to round upwards. */
        memcpy(digit, exact_digits, (size_t)keep);
        digit[keep] = '9';
        *point = whole;
        left = tp__round_digits(digit, keep + 1, keep, point);
        if (tp__nearest_bits(type, digit, left, *point) == bits) return left;
    }
}

/* An output text of `capacity` bytes. n counts all characters, also those that did not fit. */
typedef struct tp__text_out {
    char *text;
    size_t capacity, n;
} tp__text_out;

static void tp__print_char(tp__text_out *o, char c, int times)
{
    for (; times > 0; times--, o->n++)
        if (o->n + 1 < o->capacity) o->text[o->n] = c;
}
static void tp__print_bytes(tp__text_out *o, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) tp__print_char(o, p[i], 1);
}

/* Print a number as 0.00123 or 12300.0, without an exponent and with `places` digits after the point. */
static void tp__print_fixed(tp__text_out *o, const char *digit, int n, int point, int places, bool dot)
{
    if (point <= 0) tp__print_char(o, '0', 1);
    for (int i = 0; i < point; i++) tp__print_char(o, i < n ? digit[i] : '0', 1);
    if (places > 0 || dot) tp__print_char(o, '.', 1);
    for (int i = point; i < point + places; i++) tp__print_char(o, i >= 0 && i < n ? digit[i] : '0', 1);
}
static void tp__print_power(tp__text_out *o, const char *digit, int n, int point, int places, bool dot, char e)
{
    int power = n ? point - 1 : 0;
    tp__print_fixed(o, digit, n, 1, places, dot);
    tp__print_char(o, e, 1);
    tp__print_char(o, power < 0 ? '-' : '+', 1);
    power = power < 0 ? -power : power;
    if (power >= 100) tp__print_char(o, (char)('0' + power / 100), 1);
    tp__print_char(o, (char)('0' + power / 10 % 10), 1);
    tp__print_char(o, (char)('0' + power % 10), 1);
}

/* Print a finite number without its sign, as printf's %e, %f or %g do. */
static void tp__print_digits(tp__text_out *o, double value, int precision, char conversion, bool alt)
{
    char digit[TP__EXACT_DIGITS + 1];
    int point, n = tp__exact_digits(value, digit, &point), places = precision;
    const char form = (char)(conversion | 32), e = conversion == form ? 'e' : 'E';
    if (form == 'g') {
        if (precision == 0) precision = 1;
        n = tp__round_digits(digit, n, precision, &point);
        const int power = n ? point - 1 : 0;
        const bool fixed = power >= -4 && power < precision;
        places = fixed ? precision - 1 - power : precision - 1;
        if (!alt) { /* %g removes zeros at the end */
            const int digits_after_point = n - (fixed ? point : 1);
            places = n == 0 || digits_after_point < 0 ? 0 : digits_after_point < places ? digits_after_point : places;
        }
        if (fixed) tp__print_fixed(o, digit, n, n ? point : 1, places, alt);
        else tp__print_power(o, digit, n, point, places, alt, e);
    } else if (form == 'e') {
        n = tp__round_digits(digit, n, precision + 1, &point);
        tp__print_power(o, digit, n, point, places, alt, e);
    } else {
        n = tp__round_digits(digit, n, point + precision, &point);
        tp__print_fixed(o, digit, n, n ? point : 1, places, alt);
    }
}

/* A conversion of printf: the flags, width and precision between % and the letter. */
typedef struct tp__spec {
    bool left, plus, space, alt, zero;
    int width, precision; /* 8 and 3 in %8.3f; -1: not given */
} tp__spec;

static void tp__print_number(tp__text_out *o, const tp__spec *s, double value, char conversion)
{
    char body[1200];
    tp__text_out b = {body, sizeof body, 0};
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    const bool finite = tp__finite(value);
    const char sign = bits >> 63 ? '-' : s->plus ? '+' : s->space ? ' ' : 0;
    if (finite)
        tp__print_digits(&b, value, s->precision < 0 ? 6 : s->precision < 760 ? s->precision : 760, conversion, s->alt);
    else tp__print_bytes(&b, bits << 12 ? (conversion & 32 ? "nan" : "NAN") : conversion & 32 ? "inf" : "INF", 3);
    const int pad = s->width - (int)b.n - (sign != 0);
    if (!s->left && !(s->zero && finite)) tp__print_char(o, ' ', pad);
    if (sign) tp__print_char(o, sign, 1);
    if (!s->left && s->zero && finite) tp__print_char(o, '0', pad);
    tp__print_bytes(o, body, b.n);
    if (s->left) tp__print_char(o, ' ', pad);
}

static const char *tp__spec_flags(const char *p, tp__spec *s)
{
    for (;; p++) {
        if (*p == '-') s->left = true;
        else if (*p == '+') s->plus = true;
        else if (*p == ' ') s->space = true;
        else if (*p == '#') s->alt = true;
        else if (*p == '0') s->zero = true;
        else return p;
    }
}

static void tp__print_word(tp__text_out *o, const tp__spec *s, const char *word)
{
    size_t n = 0;
    if (!word) word = "(null)";
    while ((s->precision < 0 || n < (size_t)s->precision) && word[n]) n++;
    const int pad = n < (size_t)s->width ? s->width - (int)n : 0;
    if (!s->left) tp__print_char(o, ' ', pad);
    tp__print_bytes(o, word, n);
    if (s->left) tp__print_char(o, ' ', pad);
}

/* Print an integer as printf's %d, %i, %u, %o, %x and %X do. negative: its sign is a minus. */
static void tp__print_whole(tp__text_out *o, const tp__spec *s, char conversion, uint64_t value, bool negative)
{
    char digit[24];
    int n = 0;
    const unsigned base = conversion == 'o' ? 8 : (conversion | 32) == 'x' ? 16 : 10;
    const char *const digits = conversion == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    const bool is_signed = conversion == 'd' || conversion == 'i', is_zero = value == 0;
    while (value) { /* long division in pieces of 16 bits: small processors have no division of 64 bits */
        uint32_t rest = 0;
        uint64_t quotient = 0;
        for (int piece = 48; piece >= 0; piece -= 16) {
            const uint32_t part = rest << 16 | (uint32_t)(value >> piece & 0xffff);
            quotient |= (uint64_t)(part / base) << piece;
            rest = part % base;
        }
        digit[n++] = digits[rest];
        value = quotient;
    }
    const int least = s->precision < 0 ? 1 : s->precision;
    int zeros = n < least ? least - n : 0;
    if (s->alt && base == 8 && !zeros) zeros = 1;
    const char sign = negative ? '-' : is_signed && s->plus ? '+' : is_signed && s->space ? ' ' : 0;
    const bool hex = s->alt && base == 16 && !is_zero;
    int pad = s->width - n - zeros - (sign != 0) - 2 * hex;
    if (s->zero && !s->left && s->precision < 0 && pad > 0) zeros += pad, pad = 0;
    if (!s->left) tp__print_char(o, ' ', pad);
    if (sign) tp__print_char(o, sign, 1);
    if (hex) tp__print_char(o, '0', 1), tp__print_char(o, conversion, 1);
    tp__print_char(o, '0', zeros);
    while (n > 0) tp__print_char(o, digit[--n], 1);
    if (s->left) tp__print_char(o, ' ', pad);
}

static void tp__print_signed(tp__text_out *o, const tp__spec *s, char conversion, int64_t value)
{
    tp__print_whole(o, s, conversion, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, value < 0);
}

/* The character of %c, and the address of %p as a hexadecimal number. */
static void tp__print_letter(tp__text_out *o, const tp__spec *s, char c)
{
    if (!s->left) tp__print_char(o, ' ', s->width - 1);
    tp__print_char(o, c, 1);
    if (s->left) tp__print_char(o, ' ', s->width - 1);
}
static void tp__print_address(tp__text_out *o, tp__spec s, const void *p)
{
    s.alt = true;
    tp__print_whole(o, &s, 'x', (uint64_t)(uintptr_t)p, false);
}

/* vsnprintf that does not depend on the locale: 0.5, never 0,5. No %n, no long double, no wide characters. */
static int tp__vformat(char *text, size_t capacity, const char *fmt, va_list ap)
{
    tp__text_out o = {text, capacity, 0};
    for (const char *p = fmt; *p; p++) {
        if (*p != '%') {
            tp__print_char(&o, *p, 1);
            continue;
        }
        tp__spec s = {false, false, false, false, false, 0, -1};
        int l_count = 0;
        char size = 0;
        p = tp__spec_flags(p + 1, &s);
        if (*p == '*') {
            s.width = va_arg(ap, int), p++;
            if (s.width < 0) s.left = true, s.width = -s.width;
        }
        for (; *p >= '0' && *p <= '9'; p++) s.width = s.width * 10 + (*p - '0');
        if (*p == '.') {
            s.precision = 0;
            if (*++p == '*') s.precision = va_arg(ap, int), p++;
            for (; *p >= '0' && *p <= '9'; p++) s.precision = s.precision * 10 + (*p - '0');
        }
        for (; *p == 'l' || *p == 'h' || *p == 'z' || *p == 't' || *p == 'j'; p++) size = *p, l_count += *p == 'l';
        const char conversion = *p;
        const bool is_long_long =
            l_count > 1 || size == 'j' || ((size == 'z' || size == 't') && sizeof(size_t) > sizeof(long));
        const bool is_long = l_count || size == 'z' || size == 't', is_signed = conversion == 'd' || conversion == 'i';
        if (!conversion) break; /* the format ends with a lone % */
        if (conversion == '%') tp__print_char(&o, '%', 1);
        else if (conversion == 's') tp__print_word(&o, &s, va_arg(ap, const char *));
        else if (conversion == 'p') tp__print_address(&o, s, va_arg(ap, void *));
        else if (conversion == 'c') tp__print_letter(&o, &s, (char)va_arg(ap, int));
        else if (strchr("eEfFgG", conversion)) {
            const double value = va_arg(ap, double);
            if (TP__HAS_SENTENCES) tp__print_number(&o, &s, value, conversion);
        } else if (is_long_long && is_signed) tp__print_signed(&o, &s, conversion, va_arg(ap, long long));
        else if (is_long_long) tp__print_whole(&o, &s, conversion, va_arg(ap, unsigned long long), false);
        else if (is_long && is_signed) tp__print_signed(&o, &s, conversion, va_arg(ap, long));
        else if (is_long) tp__print_whole(&o, &s, conversion, va_arg(ap, unsigned long), false);
        else if (is_signed) tp__print_signed(&o, &s, conversion, va_arg(ap, int));
        else tp__print_whole(&o, &s, conversion, va_arg(ap, unsigned), false);
    }
    if (capacity) text[o.n < capacity ? o.n : capacity - 1] = 0;
    return o.n > INT_MAX ? -1 : (int)o.n;
}

TP__UNUSED static int tp__format(char *text, size_t capacity, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const int n = tp__vformat(text, capacity, fmt, ap);
    va_end(ap);
    return n;
}

/* Write a number as Python's repr() does: the fewest digits that read back as the same number. */
static int tp__format_shortest(char *text, const tp__format_of *type, uint64_t bits, double value)
{
    char digit[TP__EXACT_DIGITS + 1];
    tp__text_out o = {text, TP_NUMBER_TEXT, 0};
    const uint64_t sign = (type->infinity / ((uint64_t)1 << type->fraction) + 1) << type->fraction;
    const uint64_t size = bits & (sign - 1);
    int point = 0;
    if (bits & sign) tp__print_char(&o, '-', size <= type->infinity);
    if (size >= type->infinity) {
        tp__print_bytes(&o, size > type->infinity ? "nan" : "inf", 3);
    } else {
        const int n = size ? tp__shortest_digits(type, size, value, digit, &point) : 0;
        if (n == 0) point = 1;
        if (point > -4 && point <= 16) tp__print_fixed(&o, digit, n, point, n > point ? n - point : 1, true);
        else tp__print_power(&o, digit, n, point, n - 1, false, 'e');
    }
    text[o.n] = 0;
    return (int)o.n;
}

TP_DEF int tp_format_double(char text[TP_NUMBER_TEXT], double value)
{
    TP__REQUIRE(text, 0)
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return tp__format_shortest(text, &tp__binary64, bits, value);
}

TP_DEF int tp_format_float(char text[TP_NUMBER_TEXT], float value)
{
    TP__REQUIRE(text, 0)
    const uint32_t bits = tp__float_bits(value);
    uint32_t size = bits & 0x7fffffffu;
    double as_double = (double)value;
    /* multiply, because some processors convert a subnormal float to 0 */
    if (size < 0x00800000u) as_double = (double)size * 0x1p-149;
    return tp__format_shortest(text, &tp__binary32, bits, as_double);
}

/* ==== >>status ======================================================================================== */

/* The sentence of an error for which there is none. */
#define TP__NO_TEXT(status_) (TP__HAS_SENTENCES ? " " : tp_status_name(status_))
#ifdef TP_NO_SENTENCES
#define TP__ERROR_TEXT 64
#else
#define TP__ERROR_TEXT 2048
#endif

static TP__THREAD_LOCAL char tp__error[TP__ERROR_TEXT];
static TP__THREAD_LOCAL unsigned tp__n_errors;      /* number of sentences that this thread has set */
static TP__THREAD_LOCAL tp_status tp__error_status; /* the status that belongs to the last of them */

TP_DEF const char *tp_last_error(void) { return tp__error; }

/* Replace control characters, which a name from a file may have: they would change a terminal, or forge a line of the log. text may be
 * NULL. */
static void tp__no_control(char *text, bool keeps_lines)
{
    for (char *c = text; c && *c; c++)
        if (*c == '\n') *c = keeps_lines ? '\n' : ' ';
        else if (((unsigned char)*c < 32 && *c != '\t') || *c == 127) *c = '?';
}

/* The number of bytes of the character at p; 1 if it is not UTF-8. */
TP__UNUSED static size_t tp__utf8_length(const char *p, const char *end)
{
    const unsigned char c = (unsigned char)*p;
    const size_t n = c >= 0xf0 && c < 0xf5 ? 4 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xc2 && c < 0xe0 ? 2 : 1;
    if ((size_t)(end - p) < n) return 1;
    /* the first bytes that have a narrower second one: longer than needed, surrogates, beyond U+10FFFF */
    const unsigned char second = n > 1 ? (unsigned char)p[1] : 0;
    if ((c == 0xe0 && second < 0xa0) || (c == 0xed && second > 0x9f) || (c == 0xf0 && second < 0x90) ||
        (c == 0xf4 && second > 0x8f))
        return 1;
    for (size_t i = 1; i < n; i++)
        if (((unsigned char)p[i] & 0xc0) != 0x80) return 1;
    return n;
}

/* Replaces the bytes of a text that are not UTF-8, which make a JSON or event file unreadable for other programs. */
TP__UNUSED static void tp__mend_utf8(char *text, size_t n)
{
    for (size_t i = 0, length; i < n; i += length) {
        length = tp__utf8_length(text + i, text + n);
        if (length == 1 && (unsigned char)text[i] >= 128) text[i] = '?';
    }
}

TP_DEF tp_status(tp_fail)(tp_status status, const char *fmt, ...)
{
    char text[TP__ERROR_TEXT]; /* a buffer of its own, because an argument may point to tp__error */
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    const int n = tp__vformat(text, sizeof text, fmt ? fmt : TP__NO_TEXT(status), ap);
    if (n < 0) text[0] = 0;
    char *whole = !fmt || n < (int)sizeof text ? NULL : (char *)tp__hook_malloc((size_t)n + 1);
    if (whole) { /* the sentence probably has a long path: keep its end, which says what is wrong */
        const size_t half = sizeof text / 2;
        tp__vformat(whole, (size_t)n + 1, fmt, again);
        memcpy(text + half - 5, " ... ", 5);
        memcpy(text + half, whole + (size_t)n + 1 - half, half);
        tp__hook_free(whole);
    }
    va_end(again);
    va_end(ap);
    if (TP__HAS_SENTENCES && fmt) tp__no_control(text, strchr(fmt, '\n') != NULL);
    memcpy(tp__error, text, strlen(text) + 1);
    tp__n_errors++;
    tp__error_status = status;
    return status;
}

/* Call it after a callback of the user's program returned `st`. If that is an error for which the callback set no sentence, sets one:
 * otherwise the sentence of an earlier error would be shown. before: tp__n_errors before the callback; name: the object that has it. */
TP__UNUSED static tp_status tp__add_missing_sentence(const char *name, unsigned before, tp_status st)
{
    if (st > TP_INTR)
        return tp_fail(TP_ERR, "%s: a function of the program returned %d, which is no tp_status", name, (int)st);
    if (st >= TP_OK || tp__n_errors != before) return st;
    return tp_fail(st, "%s: a function of the program returned %s without a sentence: tp_fail gives one", name,
                   tp_status_name(st));
}

/* Write "train.c:35: tp_df_batch" to buf; return buf. */
static const char *tp__owner_text(const char *owner_name, const tp_at *at, char *buf, size_t size)
{
    const char *file = at && at->file ? strrchr(at->file, '/') : NULL;
    file = file ? file + 1 : at ? at->file : NULL;
    if (file) tp__format(buf, size, "%s:%d: %s", file, at->line, owner_name);
    else tp__format(buf, size, "%s", owner_name);
    return buf;
}

/* Make `owner_name` the owner of an object; returns false with an error sentence if the object has an owner. */
TP__UNUSED TP__SMALL static bool tp__set_owner(tp_owner *o, const char *type_name, const char *owner_name,
                                               const tp_at *at)
{
    char first[160], second[160];
    if (o->who) {
        tp_fail(TP_ERR_ARG, "%s is given away twice: to '%s', then to '%s'. It has one owner: make another one",
                type_name, tp__owner_text(o->who, &o->at, first, sizeof first),
                tp__owner_text(owner_name, at, second, sizeof second));
        return false;
    }
    o->who = owner_name;
    if (at) o->at = *at;
    return true;
}

/* Whether the program may free an object: it has no owner yet. Otherwise logs who frees it. */
TP__UNUSED TP__SMALL static bool tp__may_free(const tp_owner *o, const char *function, const char *name)
{
    char owner[160];
    if (o->who)
        tp_log(TP_LOG_ERROR, "%s: '%s' belongs to '%s', which frees it: it is not freed here", function, name,
               tp__owner_text(o->who, &o->at, owner, sizeof owner));
    return !o->who;
}

/* Whether item i of a list is also an earlier item. */
TP__UNUSED static bool tp__listed_before(const void *const *list, int i)
{
    for (int k = 0; k < i; k++)
        if (list[k] && list[k] == list[i]) return true;
    return false;
}

TP_DEF const char *tp_status_name(tp_status status)
{
    switch (status) {
    case TP_OK: return "TP_OK";
    case TP_STOP: return "TP_STOP";
    case TP_END: return "TP_END";
    case TP_INTR: return "TP_INTR";
    case TP_ERR: return "TP_ERR";
    case TP_ERR_ARG: return "TP_ERR_ARG";
    case TP_ERR_SHAPE: return "TP_ERR_SHAPE";
    case TP_ERR_DTYPE: return "TP_ERR_DTYPE";
    case TP_ERR_NOMEM: return "TP_ERR_NOMEM";
    case TP_ERR_IO: return "TP_ERR_IO";
    case TP_ERR_FORMAT: return "TP_ERR_FORMAT";
    case TP_ERR_NAME: return "TP_ERR_NAME";
    case TP_ERR_STATE: return "TP_ERR_STATE";
    case TP_ERR_NUMERIC: return "TP_ERR_NUMERIC";
    case TP_ERR_TIMEOUT: return "TP_ERR_TIMEOUT";
    case TP_ERR_CANCELLED: return "TP_ERR_CANCELLED";
    case TP_ERR_UNSUPPORTED: return "TP_ERR_UNSUPPORTED";
    }
    return "unknown status";
}

/* ==== >>log =========================================================================================== */

#ifdef TP_NO_FILES
#define TP__PATH 64 /* no path is longer: there are none */
#else
#define TP__PATH 4096
#endif
#define TP__LOG_TEXT 2048 /* bytes on the stack; longer messages are allocated */
#ifdef TP_NO_SENTENCES
#define TP__LOG_ONCES 1
#else
#define TP__LOG_ONCES 256
#endif

/* The log sink: one of the two pieces of global state (the allocator is the other). */
static struct {
    tp_log_fn fn; /* NULL: the default sink */
    void *user;
    int file;           /* 1 + the descriptor of <dir>/log.log; 0: none */
    char dir[TP__PATH]; /* directory of the logger; "" until tp_logger_set_dir */
    bool dir_failed;    /* the last call of tp_logger_set_dir has failed */
    bool dir_deleted;   /* it has deleted the files of an earlier run */
    bool setting_dir;   /* the speaker sets the directory: the others wait, however long it takes */
    uint64_t once[TP__LOG_ONCES];
    int n_once;
    bool open_line;      /* the terminal's last line is a progress bar, which the next message replaces */
    int n_training;      /* trainings of this process that run */
    const char *speaker; /* whose turn it is: the address of that thread's tp__log_self; NULL: nobody's */
    uintptr_t frame;     /* where the speaker's stack was when its turn began */
    bool is_ready;       /* tp__log_lock was called before */
} tp__logger;

static TP__THREAD_LOCAL char tp__log_self;
static tp__os_cond tp__log_turns; /* a turn has ended */
static tp__os_mutex tp__log_mutex = TP__OS_MUTEX;

#ifndef TP__LOG_PATIENCE
#define TP__LOG_PATIENCE 10 /* seconds */
#endif
#define TP__LOG_FRAME ((uintptr_t)__builtin_frame_address(0))

#ifdef TP__OS_FORKS /* a copy of the process has no thread that would release the lock, or end its turn */
static void tp__log_before_fork(void) { tp__os_lock(&tp__log_mutex); }
static void tp__log_after_fork(void) { tp__os_unlock(&tp__log_mutex); }
static void tp__log_in_child(void)
{
    if (tp__logger.speaker != &tp__log_self) tp__logger.speaker = NULL, tp__logger.setting_dir = false;
    tp__os_cond_init(&tp__log_turns);
    tp__os_unlock(&tp__log_mutex);
}
#endif

/* For a forked process that may live a little longer than its parent: only the parent goes on claiming log.log. */
static TP__UNUSED void tp__log_disclaim(void)
{
    if (tp__logger.file) tp__os_disclaim(tp__logger.file - 1);
}

/* The mutex protects the fields of tp__logger. It is not held while a line is written, when functions of the program run. */
static void tp__log_lock(void)
{
    tp__os_lock(&tp__log_mutex);
    if (tp__logger.is_ready) return;
    tp__logger.is_ready = true;
    tp__os_cond_init(&tp__log_turns);
#ifdef TP__OS_FORKS
    pthread_atfork(tp__log_before_fork, tp__log_after_fork, tp__log_in_child);
#endif
}

/* Wait until no other thread writes a line or changes where lines go. false: this thread is doing so already, a sink has called
 * the library. A thread whose stack is no deeper than at the begin of its turn has left the sink by longjmp, and the turn is over.
 * frame: the caller's TP__LOG_FRAME. */
static bool tp__log_begin(uintptr_t frame)
{
    tp__log_lock();
    while (tp__logger.speaker && tp__logger.speaker != &tp__log_self)
        if (!tp__os_wait_for(&tp__log_turns, &tp__log_mutex, TP__LOG_PATIENCE) && tp__logger.fn &&
            !tp__logger.setting_dir)
            break;
    const bool inside = tp__logger.speaker == &tp__log_self && frame < tp__logger.frame;
    if (!inside) tp__logger.speaker = &tp__log_self, tp__logger.frame = frame;
    tp__os_unlock(&tp__log_mutex);
    return !inside;
}

static void tp__log_end(const bool *begun)
{
    if (!*begun) return;
    tp__os_lock(&tp__log_mutex);
    if (tp__logger.speaker == &tp__log_self) tp__logger.speaker = NULL;
    tp__os_broadcast(&tp__log_turns);
    tp__os_unlock(&tp__log_mutex);
}

/* The rest of the block is this thread's turn. It also ends when a C++ exception leaves the block. */
#define TP__LOG_TURN(name_) __attribute__((cleanup(tp__log_end))) const bool name_ = tp__log_begin(TP__LOG_FRAME)

/* Write a line with one call, so that lines of several threads and processes do not mix. file: 1 + descriptor; 0: stderr. */
#ifdef TP_NO_STDIO
static void tp__log_line(int file, bool colour, tp_log_level level, const char *message)
{
    (void)file, (void)colour, (void)level, (void)message;
}
#else
static void tp__log_line(int file, bool colour, tp_log_level level, const char *message)
{
    const char *mark = level == TP_LOG_ERROR ? "ERR"
                       : level == TP_LOG_WARN ? "WRN"
                       : level == TP_LOG_DEBUG ? "DBG"
                                               : "";
    const char *green = colour ? "\033[32m" : "", *plain = colour ? "\033[0m" : "";
    const char *mark_colour = !colour || !*mark ? "" : level == TP_LOG_DEBUG ? "\033[33m" : "\033[31m";
    char when[32], text[TP__LOG_TEXT], *longer = NULL;
    const size_t need = strlen(message) + 64; /* 64 characters: more than the time, marks and colours need */
    if (need > sizeof text) longer = (char *)tp__hook_malloc(need);
    char *line = longer ? longer : text; /* out of memory: cut the line */
    const size_t size = longer ? need : sizeof text;
    tp__os_local_time(when, sizeof when, "%m%d %H:%M:%S");
    const int n = tp__format(line, size, "%s[%s]%s %s%s%s%s%s\n", green, when, plain, mark_colour, mark,
                             *mark ? plain : "", *mark ? " " : "", message);
    if (n >= (int)size) line[size - 2] = '\n';
    if (file) {
        tp__os_write(file - 1, line, strlen(line));
    } else {
        tp__os_signals before;
        tp__os_pipe_begin(&before);
        if (tp__logger.open_line) fputs("\r\033[K", stderr);
        tp__logger.open_line = false;
        fputs(line, stderr);
        fflush(stderr);
        tp__os_pipe_end(&before);
    }
    tp__hook_free(longer);
}
#endif

/* Draw a progress bar over the previous one on stderr's terminal; is_last: end the line. bar NULL: do nothing. */
static TP__UNUSED void tp__log_progress(const char *bar, bool is_last)
{
    if (!bar) return;
    TP__LOG_TURN(turn);
    (void)turn;
#ifndef TP_NO_STDIO
    tp__os_signals before;
    tp__os_pipe_begin(&before);
    fprintf(stderr, "\r%s\033[K%s", bar, is_last ? "\n" : "");
    fflush(stderr);
    tp__os_pipe_end(&before);
#endif
    tp__logger.open_line = !is_last;
}

/* Whether the messages go to a function of the program. */
static TP__UNUSED bool tp__log_has_sink(void)
{
    tp__log_lock();
    const bool has = tp__logger.fn != NULL;
    tp__os_unlock(&tp__log_mutex);
    return has;
}

/* How a message is logged. NOT_IN_FILE: the default sink leaves it out of log.log. */
typedef enum tp__log_how { TP__LOG_ALWAYS, TP__LOG_ONCE, TP__LOG_NOT_IN_FILE } tp__log_how;

static void tp__log_default(tp_log_level level, tp__log_how how, const char *message)
{
    tp__log_line(0, tp__os_terminal_width() > 0, level, message);
    if (tp__logger.file && how != TP__LOG_NOT_IN_FILE) tp__log_line(tp__logger.file, false, level, message);
}

/* Whether a message is logged for the first time. When the table of messages is full, new messages count as known and are not shown,
 * after one notice: they are warnings inside loops, where showing none is better than showing too many. */
static bool tp__log_first_time(const char *message)
{
    uint64_t h = tp_hash_name(message);
    for (int i = 0; i < tp__logger.n_once; i++)
        if (tp__logger.once[i] == h) return false;
    if (tp__logger.n_once == TP__LOG_ONCES) return false;
    tp__logger.once[tp__logger.n_once++] = h;
    return true;
}

static void tp__log_send(tp_log_level level, tp__log_how how, const char *message)
{
    tp__log_lock();
    const tp_log_fn fn = tp__logger.fn;
    void *const user = tp__logger.user;
    tp__os_unlock(&tp__log_mutex);
    if (fn) fn(user, level, message);
    else tp__log_default(level, how, message);
}

static void tp__log_message(tp_log_level level, tp__log_how how, const char *message)
{
    TP__LOG_TURN(turn);
    if (!turn) { /* the sink logs: it must not call itself */
        tp__log_default(level, how, message);
        return;
    }
    const int known = tp__logger.n_once;
    const bool once = how == TP__LOG_ONCE;
    if (once && !tp__log_first_time(message)) return;
    tp__log_send(level, how, message);
    if (once && known < TP__LOG_ONCES && tp__logger.n_once == TP__LOG_ONCES)
        tp__log_send(TP_LOG_WARN, how, "256 different once-only messages were shown; new ones no longer are");
}

static void tp__log_v(tp_log_level level, tp__log_how how, const char *fmt, va_list ap)
{
    char text[TP__LOG_TEXT], *longer = NULL;
    va_list again;
    va_copy(again, ap);
    int n = tp__vformat(text, sizeof text, fmt ? fmt : " ", ap);
    if (n < 0) text[0] = 0;
    /* the message is longer than the buffer: allocate; if that fails, the message stays cut */
    if (n >= (int)sizeof text) {
        longer = (char *)tp__hook_malloc((size_t)n + 1);
        if (longer && fmt) tp__vformat(longer, (size_t)n + 1, fmt, again);
    }
    va_end(again);

    tp__log_message(level, how, longer ? longer : text);
    tp__hook_free(longer);
}

TP_DEF void tp_set_log(tp_log_fn fn, void *user)
{
    TP__LOG_TURN(turn);
    (void)turn;
    tp__log_lock();
    tp__logger.fn = fn;
    tp__logger.user = user;
    tp__os_unlock(&tp__log_mutex);
}

TP_DEF void(tp_log)(tp_log_level level, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    tp__log_v(level, TP__LOG_ALWAYS, fmt, ap);
    va_end(ap);
}

TP_DEF void(tp_log_once)(tp_log_level level, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    tp__log_v(level, TP__LOG_ONCE, fmt, ap);
    va_end(ap);
}

/* -- the directory of a run ----------------------------------------------------------------------------- */

/* Write a path to `out`, which has TP__PATH bytes, the limit of most systems. An error if the path does not fit. */
static tp_status tp__path(char *out, const char *fmt, ...) TP_PRINTF(2, 3);
static TP__UNUSED tp_status tp__path(char *out, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const int n = tp__vformat(out, TP__PATH, fmt, ap);
    va_end(ap);
    if (n >= 0 && n < TP__PATH) return TP_OK;
    return tp_fail(TP_ERR_ARG, "the path '%.60s...' is longer than %d bytes: use a shorter one", out, TP__PATH - 1);
}

static bool tp__dir_visible(void *user, const char *name) { return *(bool *)user = name[0] != '.'; }

/* 1: a directory with visible files; 0: an empty directory, or none; -1: the path exists and is not a directory. */
static int tp__dir_has_files(const char *dir)
{
    tp__os_info is;
    bool filled = false;
    if (tp__os_stat(dir, true, &is) != 0) return 0;
    if (is.kind != TP__OS_DIR) return -1;
    tp__os_list(dir, tp__dir_visible, &filled);
    return filled;
}

/* Whether dir is the working directory or contains it. Such a directory is never emptied. */
static bool tp__holds_working_dir(const char *dir)
{
    tp__os_info wanted, current;
    char path[TP__PATH];
    if (tp__os_stat(dir, true, &wanted) != 0 || tp__os_cwd(path, sizeof path) != 0) return false;
    for (;;) {
        if (tp__os_stat(path, true, &current) == 0 && current.device == wanted.device &&
            current.number == wanted.number)
            return true;
        char *slash = strrchr(path, '/');
        if (!slash || path[1] == 0) return false;
        if (slash == path) slash++; /* the parent of "/usr" is "/" */
        *slash = 0;
    }
}

/* Rename `from` to <path><sep><date and time>, followed by a number if that name exists; the new name is written to `to`. An empty
 * file or directory of that name is made first, so that no other file is replaced. kind: TP__OS_FILE or TP__OS_DIR. from NULL:
 * only make the empty file or directory. */
static tp_status tp__set_aside(const char *from, const char *path, const char *sep, int kind, char *to)
{
    char when[32];
    tp__os_local_time(when, sizeof when, "%m%d-%H%M%S");
    for (int i = 1; i < 100000; i++) {
        const tp_status st =
            i == 1 ? tp__path(to, "%s%s%s", path, sep, when) : tp__path(to, "%s%s%s-%d", path, sep, when, i);
        if (st != TP_OK) return st;
        const int new_fd = kind == TP__OS_DIR ? tp__os_mkdir(to) : tp__os_open(to, TP__OS_NEW);
        if (new_fd < 0 && errno == EEXIST) continue;
        if (new_fd < 0) return tp_fail(TP_ERR_IO, "'%s' cannot be made: %s", to, tp__os_error());
        if (kind == TP__OS_FILE) tp__os_close(new_fd);
        if (!from || tp__os_rename(from, to) == 0) return TP_OK;
        const int error = errno;
        if (kind == TP__OS_DIR) tp__os_rmdir(to);
        else tp__os_remove(to);
        return tp_fail(TP_ERR_IO, "cannot rename '%s' to '%s': %s", from, to, strerror(error));
    }
    return tp_fail(TP_ERR_IO, "there is no free name for '%s'; remove old backups", path);
}

/* What tp_logger_set_dir does. It is logged when it is done: the sink may set the directory too, or not return. */
typedef struct tp__dir_change {
    char dir[TP__PATH];        /* the directory, with action 'n' its new name */
    char dir_backup[TP__PATH]; /* what an old directory was renamed to */
    char log_backup[TP__PATH]; /* what an old log.log was renamed to; "": there was none */
    char done;                 /* the action that was needed; 0: none */
    bool shared;               /* another process writes its log there */
    int file;                  /* 1 + the descriptor of log.log */
} tp__dir_change;

static tp_status tp__logger_set_aside(tp__dir_change *c, char action)
{
    const char *dir = c->dir;
    int filled = tp__dir_has_files(dir);
    if (filled < 0) return tp_fail(TP_ERR_IO, "log directory: '%s' exists and is not a directory", dir);
    if (filled == 0 || action == 'k') return TP_OK;

    tp_status st = TP_OK;
    if (action == 'd') {
        tp__os_info is;
        char log_path[TP__PATH];
        if (tp__holds_working_dir(dir))
            return tp_fail(TP_ERR_ARG, "log directory: '%s' holds the working directory and is not deleted", dir);
        st = tp__path(log_path, "%s/log.log", dir);
        if (st != TP_OK) return st;
        if (tp__os_stat(log_path, false, &is) != 0)
            return tp_fail(TP_ERR_ARG,
                           "log directory: '%s' is not deleted: it has files, but no log.log, so it was not the folder "
                           "of a run. Give another folder, or empty it yourself",
                           dir);
        /* log.log last: if the process is killed here, the next start finds the folder of a run and deletes the rest */
        if (tp__os_empty_dir(dir, "log.log") != 0 || tp__os_remove(log_path) != 0)
            return tp_fail(TP_ERR_IO, "log directory: cannot delete '%s': %s", dir, tp__os_error());
    } else if (action == 'b') {
        st = tp__set_aside(dir, dir, "", TP__OS_DIR, c->dir_backup);
    } else if (action == 'n') {
        st = tp__set_aside(NULL, dir, "", TP__OS_DIR, c->dir_backup);
        if (st == TP_OK) memcpy(c->dir, c->dir_backup, sizeof c->dir);
    } else {
        return tp_fail(TP_ERR_ARG,
                       "log directory '%s' exists and is not empty; pass 'k' to keep it, 'd' to delete it, "
                       "'b' to rename the old one, or 'n' to use a new name",
                       dir);
    }
    if (st == TP_OK) c->done = action;
    return st;
}

/* Whether another process writes its log in `dir`. */
static bool tp__logger_in_use(const char *dir)
{
    char log_path[TP__PATH];
    if (strcmp(dir, tp__logger.dir) == 0 || tp__path(log_path, "%s/log.log", dir) != TP_OK) return false;
    const int fd = tp__os_open(log_path, TP__OS_READ_NOW);
    if (fd < 0) return false;
    const bool in_use = !tp__os_claim(fd);
    tp__os_close(fd);
    return in_use;
}

/* Make `dir` and lock it while its files are set aside: several processes that begin at the same time, the ranks of a job, follow one
 * another, and each sees the log of the one before it. Return the descriptor that holds the lock, or -1: it cannot be opened. A process
 * that holds it for longer than 10 seconds does not end. */
static int tp__logger_lock_dir(const char *dir)
{
    if (tp_make_dirs(dir) != TP_OK) return -1; /* what follows says why */
    const int fd = tp__os_open(dir, TP__OS_READ_NOW);
    const double from = fd < 0 ? 0 : tp_time();
    while (fd >= 0 && !tp__os_claim(fd) && tp_time() - from < 10) tp__os_yield();
    return fd;
}

/* The number of processes that the launcher has started, by its variable, whose name is set in *name; 0: there is none. */
TP__UNUSED static int tp__launcher_size(const char **name)
{
    *name = NULL;
#ifndef TP__NO_SYSTEM
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_SIZE", "MV2_COMM_WORLD_SIZE"};
    for (int i = 0; i < TP_COUNT(names); i++) {
        const char *e = getenv(names[i]);
        *name = names[i];
        if (e && strtol(e, NULL, 10) > 0) return (int)strtol(e, NULL, 10);
    }
#endif
    return 0;
}

/* Where the ranks of a job share a directory, the end of the sentence that says so. */
static const char *tp__logger_rank_hint(void)
{
    const char *name;
    return tp__launcher_size(&name) > 1 ? ". Each rank needs its own folder: tp_logger_set_rank_dir" : "";
}

/* Another process writes its log in the directory: an error where the files would be deleted. */
static tp_status tp__logger_shared(tp__dir_change *c, char action)
{
    c->shared = action != 'd';
    if (c->shared) return TP_OK;
    return tp_fail(TP_ERR_STATE,
                   "log directory: '%s' is not deleted: another process, or another copy of this library "
                   "in this one, writes its log there%s",
                   c->dir, tp__logger_rank_hint());
}

/* Set aside what the directory has, and open its log.log. */
static tp_status tp__logger_begin(tp__dir_change *c, char action)
{
    char log_path[TP__PATH];
    tp__os_info is;
    tp_status st = TP_OK;
    const bool in_use = (action == 'd' || action == 'k' || action == 'b') && tp__logger_in_use(c->dir);
    if (in_use) st = tp__logger_shared(c, action);
    if (st == TP_OK) st = tp__logger_set_aside(c, action);
    if (st == TP_OK) st = tp_make_dirs(c->dir);
    if (st == TP_OK) st = tp__path(log_path, "%s/log.log", c->dir);
    if (st != TP_OK) return st;
    /* an empty log is continued, unless somebody has it open: this process, whose lock is on it, or another one */
    const bool open = in_use || strcmp(c->dir, tp__logger.dir) == 0;
    if (tp__os_stat(log_path, false, &is) == 0 && (is.kind != TP__OS_FILE || is.size > 0 || open)) {
        st = tp__set_aside(log_path, log_path, ".", TP__OS_FILE, c->log_backup);
        if (st != TP_OK) return c->log_backup[0] = 0, st;
    }
    c->file = tp__os_open(log_path, TP__OS_APPEND) + 1;
    if (!c->file) return tp_fail(TP_ERR_IO, "cannot write the log file '%s': %s", log_path, tp__os_error());
    return tp__os_claim(c->file - 1) || in_use ? TP_OK : tp__logger_shared(c, action);
}

static tp_status tp__logger_open(tp__dir_change *c, const char *dir, char action)
{
    if (!dir && action) return tp_fail(TP_ERR_ARG, "log directory: the path is NULL");
    if (dir) { /* with a NULL directory the old one is forgotten and log.log is closed */
        const size_t n = tp__folder_length(dir);
        if (n == 0) return tp_fail(TP_ERR_ARG, "log directory: the path is empty");
        if (n >= sizeof c->dir)
            return tp_fail(TP_ERR_ARG, "log directory: the path is longer than %zu bytes", sizeof c->dir);
        memcpy(c->dir, dir, n);
        const int lock = tp__logger_lock_dir(c->dir);
        const tp_status st = tp__logger_begin(c, action);
        if (lock >= 0) tp__os_close(lock);
        if (st != TP_OK && c->file) tp__os_close(c->file - 1);
        if (st != TP_OK) return st;
    }
    const int old = tp__logger.file;
    tp__logger.file = c->file;
    memcpy(tp__logger.dir, c->dir, sizeof tp__logger.dir);
    if (old) tp__os_close(old - 1);
    return TP_OK;
}

/* Between the two calls this thread has the turn: one thread at a time sets the directory, and nobody writes to the old file. */
static void tp__logger_dir_begin(void)
{
    tp__log_lock();
    tp__logger.setting_dir = true;
    tp__os_unlock(&tp__log_mutex);
}
static void tp__logger_dir_end(tp_status st, char done)
{
    tp__log_lock();
    tp__logger.setting_dir = false;
    tp__logger.dir_failed = st != TP_OK;
    tp__logger.dir_deleted = done == 'd';
    tp__os_unlock(&tp__log_mutex);
}

/* A new log.log stays empty, so that the next start continues it. */
#ifdef TP_NO_SENTENCES
#define tp__logger_say(level_, ...) ((void)(level_), TP__NOT_SAID(__VA_ARGS__))
#else
static void tp__logger_say(tp_log_level level, const char *fmt, ...) TP_PRINTF(2, 3);
static void tp__logger_say(tp_log_level level, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    tp__log_v(level, TP__LOG_NOT_IN_FILE, fmt, ap);
    va_end(ap);
}
#endif

static void tp__logger_tell(const tp__dir_change *c)
{
    if (c->done == 'd') tp__logger_say(TP_LOG_INFO, "The files of an earlier run in '%s' were deleted", c->dir);
    if (c->done == 'b') tp__logger_say(TP_LOG_INFO, "Directory '%s' backed up to '%s'", c->dir, c->dir_backup);
    if (c->done == 'n') tp__logger_say(TP_LOG_INFO, "Use a new log directory %s", c->dir);
    if (c->log_backup[0])
        tp__logger_say(TP_LOG_INFO, "Existing log file '%s/log.log' backed up to '%s'", c->dir, c->log_backup);
    if (c->shared)
        tp__logger_say(TP_LOG_WARN,
                       "log directory: another process, or another copy of this library in this one, writes its log in "
                       "'%s'. Two trainings in one folder replace each other's "
                       "checkpoints: give each its own%s",
                       c->dir, tp__logger_rank_hint());
}

TP_DEF tp_status tp_logger_set_dir(const char *dir, char action)
{
    tp_status st;
    tp__dir_change c;
    memset(&c, 0, sizeof c);
    {
        TP__LOG_TURN(turn);
        (void)turn;
        tp__logger_dir_begin();
        st = tp__logger_open(&c, dir, action);
        tp__logger_dir_end(st, c.done);
    }
    tp__logger_tell(&c);
    if (st != TP_OK) tp_log(TP_LOG_ERROR, "%s", tp_last_error()); /* most programs do not look at the status */
    return st;
}

/* What to do where the logger has no directory, for the end of a sentence: "give .checkpoint_dir, or <this>". */
TP__UNUSED static const char *tp__logger_missing(void)
{
    return tp__logger.dir_failed ? "mend the call of tp_logger_set_dir that has failed (its error is in the log)"
                                 : "call tp_logger_set_dir first";
}

TP_DEF tp_status tp_logger_auto_set_dir(const char *program, const char *name, char action)
{
    if (!program) program = "";
    const char *slash = tp__os_last_separator(program);
    const char *base = slash ? slash + 1 : program;
    const char *dot = strrchr(base, '.');
    size_t n = dot && dot > base ? (size_t)(dot - base) : strlen(base);
    if (n == 0 || n > INT_MAX / 2)
        return tp_fail(TP_ERR_ARG, "log directory: '%s' has no program name in it; pass argv[0] or __FILE__", program);
    char dir[TP__PATH];
#ifdef _WIN32
    const char *colon = "_"; /* Windows uses ':' for drives and streams */
#else
    const char *colon = ":";
#endif
    bool named = name && name[0];
    int len = tp__format(dir, sizeof dir, "train_log/%.*s%s%s", (int)n, base, named ? colon : "", named ? name : "");
    if (len < 0 || (size_t)len >= sizeof dir)
        return tp_fail(TP_ERR_ARG, "log directory: the program's name is too long");
    return tp_logger_set_dir(dir, action);
}

TP_DEF const char *tp_logger_dir(void) { return tp__logger.dir[0] ? tp__logger.dir : NULL; }

/* Counts a training that begins (1) or ends (-1). Warns if the process runs another one: they have the same directory. */
TP__UNUSED static void tp__logger_training(int change)
{
    tp__log_lock();
    tp__logger.n_training += change;
    const bool shared = change > 0 && tp__logger.n_training > 1 && tp__logger.dir[0];
    tp__os_unlock(&tp__log_mutex);
    if (shared)
        tp_log(TP_LOG_WARN,
               "log directory: another training of this process writes into '%s' too, and a process has one directory: "
               "the statistics of one of them are lost. Run each in a process of its own; a .checkpoint_dir for each "
               "separates the checkpoints alone",
               tp__logger.dir);
}

/* ==== >>alloc ========================================================================================= */

#if defined(TP_MALLOC) && defined(TP_REALLOC) && defined(TP_FREE)
#elif !defined(TP_MALLOC) && !defined(TP_REALLOC) && !defined(TP_FREE)
#ifdef TP_NO_MALLOC /* out of memory until the program sets an allocator */
#define TP_MALLOC(size)     ((void)(size), (void *)NULL)
#define TP_REALLOC(p, size) ((void)(p), (void)(size), (void *)NULL)
#define TP_FREE(p)          ((void)(p))
#else
#define TP_MALLOC(size)     malloc(size)
#define TP_REALLOC(p, size) realloc(p, size)
#define TP_FREE(p)          free(p)
#endif
#else
#error "define all three of TP_MALLOC, TP_REALLOC and TP_FREE, or none"
#endif

static void *tp__default_malloc(size_t size, void *user)
{
    (void)user;
    return TP_MALLOC(size);
}
static void *tp__default_realloc(void *p, size_t size, void *user)
{
    (void)user;
    return TP_REALLOC(p, size);
}
static void tp__default_free(void *p, void *user)
{
    (void)user;
    TP_FREE(p);
}

static tp_allocator tp__allocator = {tp__default_malloc, tp__default_realloc, tp__default_free, NULL};

TP_DEF void tp_set_allocator(const tp_allocator *a)
{
    if (a && !(a->malloc_fn && a->realloc_fn && a->free_fn)) {
        tp_fail(TP_ERR_ARG, "tp_set_allocator: .%s is NULL: give all three functions; the allocator stays what it was",
                !a->malloc_fn    ? "malloc_fn"
                : !a->realloc_fn ? "realloc_fn"
                                 : "free_fn");
        tp_log(TP_LOG_ERROR, "%s", tp_last_error()); /* there is no status */
    } else if (a) tp__allocator = *a;
    else {
        tp__allocator.malloc_fn = tp__default_malloc;
        tp__allocator.realloc_fn = tp__default_realloc;
        tp__allocator.free_fn = tp__default_free;
        tp__allocator.user = NULL;
    }
}

/* The hooks are never called with size 0, with an impossible size or with NULL, so that a simple allocator is enough. */
static void *tp__hook_malloc(size_t size)
{
    if (size > PTRDIFF_MAX) return NULL;
    return tp__allocator.malloc_fn(size ? size : 1, tp__allocator.user);
}

static void tp__hook_free(void *p)
{
    if (p) tp__allocator.free_fn(p, tp__allocator.user);
}

TP_DEF bool tp_mul_size(size_t a, size_t b, size_t *out)
{
    TP__REQUIRE(out, false)

    if (a != 0 && b > SIZE_MAX / a) return false;
    *out = a * b;
    return true;
}

/* Sizes of scratch memory: n things of `size` bytes, and the sum of two sizes. What no memory holds becomes SIZE_MAX / 2, which cannot be
 * allocated, so that a size of a machine of 32 bits does not begin again at 0. */
static TP__UNUSED size_t tp__scratch_of(int64_t n, size_t size)
{
    return (uint64_t)n > SIZE_MAX / 2 / size ? SIZE_MAX / 2 : (size_t)n * size;
}
static TP__UNUSED size_t tp__scratch_sum(size_t a, size_t b)
{
    return a > SIZE_MAX / 2 || b > SIZE_MAX / 2 - a ? SIZE_MAX / 2 : a + b;
}

TP_DEF void *tp_malloc(size_t size)
{
    void *p = tp__hook_malloc(size);
    if (!p) tp_fail(TP_ERR_NOMEM, "out of memory: %zu bytes were asked for", size);
    return p;
}

TP_DEF void *tp_calloc(size_t n, size_t size)
{
    size_t bytes;
    if (!tp_mul_size(n, size, &bytes)) {
        tp_fail(TP_ERR_NOMEM, "out of memory: %zu elements of %zu bytes were asked for", n, size);
        return NULL;
    }
    void *p = tp_malloc(bytes);
    if (p) memset(p, 0, bytes);
    return p;
}

TP_DEF void *tp_realloc(void *p, size_t size)
{
    if (!p) return tp_malloc(size);
    void *q = size > PTRDIFF_MAX ? NULL : tp__allocator.realloc_fn(p, size ? size : 1, tp__allocator.user);
    if (!q) tp_fail(TP_ERR_NOMEM, "out of memory: %zu bytes were asked for", size);
    return q;
}

TP_DEF void tp_free(void *p) { tp__hook_free(p); }

TP_DEF char *tp_strdup(const char *s)
{
    TP__REQUIRE(s, NULL)

    size_t n = strlen(s) + 1;
    char *copy = (char *)tp_malloc(n);
    if (copy) memcpy(copy, s, n);
    return copy;
}

/* -- memory of the program's: tp_set_memory ------------------------------------------------------------------ */
/* The memory begins with a tp__memory; pieces follow without a gap, each after its tp__memory_piece. All sizes are multiples of that
 * struct's, so that memory is aligned to two pointers, as malloc's is. */

typedef struct tp__memory_piece {
    size_t size; /* in bytes, with this struct */
    size_t used; /* 0 or 1 */
} tp__memory_piece;
typedef struct tp__memory {
    const char *begin; /* the program's memory */
    tp__memory_piece *end;
    size_t in_use, most; /* bytes: in use; from `begin` to the end of the last piece that was ever used */
} tp__memory;
#define TP__MEMORY_HEAD ((sizeof(tp__memory) + sizeof(tp__memory_piece) - 1) / sizeof(tp__memory_piece))

static tp__os_mutex tp__memory_mutex = TP__OS_MUTEX;

static tp__memory_piece *tp__memory_after(tp__memory_piece *p) { return p + p->size / sizeof *p; }

static void *tp__memory_take(tp__memory *h, size_t size)
{
    tp__memory_piece *const first = (tp__memory_piece *)(void *)h + TP__MEMORY_HEAD;
    const size_t want = (size + 2 * sizeof *first - 1) / sizeof *first * sizeof *first;
    for (tp__memory_piece *p = first; p < h->end; p = tp__memory_after(p)) {
        if (p->used) continue;
        for (tp__memory_piece *next = tp__memory_after(p); next < h->end && !next->used; next = tp__memory_after(p))
            p->size += next->size;
        if (p->size < want) continue;
        if (p->size > want) {
            tp__memory_piece *rest = p + want / sizeof *p;
            rest->size = p->size - want;
            rest->used = 0;
            p->size = want;
        }
        p->used = 1;
        h->in_use += want;
        const size_t reached = (size_t)((const char *)tp__memory_after(p) - h->begin);
        if (reached > h->most) h->most = reached;
        return p + 1;
    }
    return NULL;
}
static void tp__memory_give(tp__memory *h, void *memory)
{
    tp__memory_piece *p = (tp__memory_piece *)memory - 1;
    p->used = 0;
    h->in_use -= p->size;
}

static void *tp__memory_malloc(size_t size, void *user)
{
    tp__os_lock(&tp__memory_mutex);
    void *p = tp__memory_take((tp__memory *)user, size);
    tp__os_unlock(&tp__memory_mutex);
    return p;
}
static void tp__memory_free(void *p, void *user)
{
    tp__os_lock(&tp__memory_mutex);
    tp__memory_give((tp__memory *)user, p);
    tp__os_unlock(&tp__memory_mutex);
}
static void *tp__memory_realloc(void *p, size_t size, void *user)
{
    const size_t had = ((tp__memory_piece *)p - 1)->size - sizeof(tp__memory_piece);
    if (size <= had) return p;
    void *bigger = tp__memory_malloc(size, user);
    if (bigger) memcpy(bigger, p, had), tp__memory_free(p, user);
    return bigger;
}

TP_DEF tp_status tp_set_memory(void *memory, size_t size)
{
    TP__REQUIRE(memory, TP_ERR_ARG)
    const size_t unit = sizeof(tp__memory_piece), skip = (unit - (size_t)((uintptr_t)memory % unit)) % unit;
    if (size > PTRDIFF_MAX || size < skip + (TP__MEMORY_HEAD + 2) * unit)
        return tp_fail(TP_ERR_ARG, "tp_set_memory: %zu bytes are no memory to work with", size);
    tp__memory *h = (tp__memory *)(void *)((char *)memory + skip);
    tp__memory_piece *first = (tp__memory_piece *)(void *)h + TP__MEMORY_HEAD;
    first->size = (size - skip) / unit * unit - TP__MEMORY_HEAD * unit;
    first->used = 0;
    h->end = tp__memory_after(first);
    h->begin = (const char *)memory;
    h->in_use = h->most = skip + TP__MEMORY_HEAD * unit;
    const tp_allocator a = {tp__memory_malloc, tp__memory_realloc, tp__memory_free, h};
    tp_set_allocator(&a);
    return TP_OK;
}

TP_DEF size_t tp_memory_in_use(size_t *most)
{
    const tp__memory *h = tp__allocator.malloc_fn == tp__memory_malloc ? (const tp__memory *)tp__allocator.user : NULL;
    if (most) *most = 0;
    if (!h) return 0;
    tp__os_lock(&tp__memory_mutex);
    const size_t in_use = h->in_use;
    if (most) *most = h->most;
    tp__os_unlock(&tp__memory_mutex);
    return in_use;
}

/* -- aligned blocks ------------------------------------------------------------------------------------- */

#define TP__ALIGN      ((size_t)64)
#define TP__HUGE_PAGE  ((size_t)2 << 20)
#define TP__HUGE_BLOCK TP__HUGE_PAGE /* blocks of at least this size are aligned to huge pages */

/* The header right before an aligned block: the address from malloc, and the block's size. */
typedef struct tp__aligned {
    char *base;
    size_t size;
} tp__aligned;

TP_DEF void *tp_alloc_aligned(size_t size)
{
    size_t align = size >= TP__HUGE_BLOCK ? TP__HUGE_PAGE : TP__ALIGN;
    tp__aligned head;
    size_t extra = align + sizeof head;
    if (size > PTRDIFF_MAX - extra) {
        tp_fail(TP_ERR_NOMEM, "out of memory: %zu bytes were asked for", size);
        return NULL;
    }
    head.base = (char *)tp_malloc(size + extra);
    head.size = size;
    if (!head.base) return NULL;
    char *p = head.base + sizeof head;
    p += (align - (size_t)((uintptr_t)p % align)) % align;
    memcpy(p - sizeof head, &head, sizeof head);
    if (align == TP__HUGE_PAGE) tp__os_large_pages(p, size / TP__HUGE_PAGE * TP__HUGE_PAGE);
    return p;
}

static tp__aligned tp__aligned_head(const void *p)
{
    tp__aligned head;
    memcpy(&head, (const char *)p - sizeof head, sizeof head);
    return head;
}

TP_DEF void tp_free_aligned(void *p)
{
    if (p) tp_free(tp__aligned_head(p).base);
}

/* -- arena ---------------------------------------------------------------------------------------------- */

struct tp__arena_block {
    struct tp__arena_block *next;
    size_t used, cap; /* size in bytes of the data after the header */
};

#define TP__ARENA_ALIGN  ((size_t)16)
#define TP__ARENA_HEADER ((sizeof(struct tp__arena_block) + TP__ARENA_ALIGN - 1) / TP__ARENA_ALIGN * TP__ARENA_ALIGN)
#define TP__ARENA_FIRST  ((size_t)4 << 10)
#ifdef TP__NO_SYSTEM
#define TP__ARENA_LARGE TP__ARENA_FIRST /* embedded targets have little memory: no block is much larger than needed */
#else
#define TP__ARENA_LARGE ((size_t)1 << 20)
#endif

TP_DEF void *tp_arena_alloc(tp_arena *a, size_t size)
{
    TP__REQUIRE(a, NULL)

    if (size > PTRDIFF_MAX - TP__ARENA_HEADER - TP__ARENA_ALIGN) {
        tp_fail(TP_ERR_NOMEM, "out of memory: %zu bytes were asked for", size);
        return NULL;
    }
    size = (size ? size + TP__ARENA_ALIGN - 1 : TP__ARENA_ALIGN) / TP__ARENA_ALIGN * TP__ARENA_ALIGN;
    struct tp__arena_block *b = a->head;
    if (!b || b->cap - b->used < size) {
        /* Block sizes double up to 1 MiB. A large allocation gets a block of its own, which is linked after the head, so that the
         * head's free room is still used. */
        size_t cap = b ? b->cap * 2 : TP__ARENA_FIRST;
        if (cap > TP__ARENA_LARGE) cap = TP__ARENA_LARGE;
        bool alone = size > cap / 2;
        if (alone) cap = size;
        struct tp__arena_block *fresh = (struct tp__arena_block *)tp_calloc(1, TP__ARENA_HEADER + cap);
        if (!fresh) return NULL;
        fresh->cap = cap;
        if (alone && b) {
            fresh->next = b->next;
            b->next = fresh;
        } else {
            fresh->next = b;
            a->head = fresh;
        }
        b = fresh;
    }
    void *p = (char *)b + TP__ARENA_HEADER + b->used;
    b->used += size;
    a->used += size;
    return p;
}

TP_DEF char *tp_arena_strdup(tp_arena *a, const char *s)
{
    TP__REQUIRE(a && s, NULL)

    size_t n = strlen(s) + 1;
    char *copy = (char *)tp_arena_alloc(a, n);
    if (copy) memcpy(copy, s, n);
    return copy;
}

TP_DEF char *tp_arena_printf(tp_arena *a, const char *fmt, ...)
{
    TP__REQUIRE(a && fmt, NULL)

    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = tp__vformat(NULL, 0, fmt, ap);
    char *text = n < 0 ? NULL : (char *)tp_arena_alloc(a, (size_t)n + 1);
    if (text) tp__vformat(text, (size_t)n + 1, fmt, again);
    va_end(again);
    va_end(ap);
    return text;
}

TP_DEF void tp_arena_free(tp_arena *a)
{
    if (!a) return;
    struct tp__arena_block *b = a->head;
    while (b) {
        struct tp__arena_block *next = b->next;
        tp_free(b);
        b = next;
    }
    a->head = NULL;
    a->used = 0;
}

/* -- byte string ---------------------------------------------------------------------------------------- */
/* Files are written from many short pieces, so the functions that append a piece are compiled for speed. */
TP__COLD_END

/* Make room for n more bytes and the NUL; false on failure. */
static bool tp__buf_reserve(tp_buf *b, size_t n)
{
    if (b->failed) return false;
    /* is there room for n bytes and the NUL? not in a buffer of capacity 0 */
    if (n < b->cap - b->len) return true;
    size_t needed = b->len + n + 1, cap = b->cap ? b->cap : 32;
    if (n > PTRDIFF_MAX - b->len - 1) needed = SIZE_MAX; /* impossible size: tp_realloc reports the error */
    while (cap < needed) cap = cap > SIZE_MAX / 2 ? needed : cap * 2;
    char *data = (char *)tp_realloc(b->data, cap);
    if (!data) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->cap = cap;
    return true;
}

TP_DEF void tp_buf_put(tp_buf *b, const void *p, size_t n)
{
    TP__REQUIRE(b && (p || n == 0), )

    if (n == 0 || !tp__buf_reserve(b, n)) return;
    memcpy(b->data + b->len, p, n);
    b->len += n;
    b->data[b->len] = 0;
}
TP__COLD_BEGIN

TP_DEF void tp_buf_printf(tp_buf *b, const char *fmt, ...)
{
    TP__REQUIRE(b && fmt, )

    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = tp__vformat(NULL, 0, fmt, ap);
    if (n < 0) b->failed = true;
    else if (n > 0 && tp__buf_reserve(b, (size_t)n)) {
        tp__vformat(b->data + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
    va_end(ap);
}

TP_DEF void tp_buf_free(tp_buf *b)
{
    if (!b) return;
    tp_free(b->data);
    b->data = NULL;
    b->len = b->cap = 0;
    b->failed = false;
}

/* ==== >>dtype ========================================================================================= */

TP_DEF size_t tp_dtype_size(tp_dtype d)
{
    static const unsigned char size[TP_DTYPE_COUNT] = {0, 4, 8, 2, 2, 4, 8, 1, 1};
    return (unsigned)d < TP_DTYPE_COUNT ? size[d] : 0;
}

TP_DEF const char *tp_dtype_name(tp_dtype d)
{
    static const char *const name[TP_DTYPE_COUNT] = {"unset", "float32", "float64", "float16", "bfloat16",
                                                     "int32", "int64",   "uint8",   "bool"};
    return (unsigned)d < TP_DTYPE_COUNT ? name[d] : "invalid dtype";
}

TP_DEF bool tp_dtype_is_float(tp_dtype d) { return d >= TP_F32 && d <= TP_BF16; }

/* All four conversions use integer operations only, so the processor's denormal and rounding modes do not matter. */

TP_DEF float tp_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 31u, mantissa = h & 0x3ffu;
    if (exponent == 31) return tp__bits_float(sign | 0x7f800000u | mantissa << 13); /* infinity and NaN */
    if (exponent == 0) {
        if (mantissa == 0) return tp__bits_float(sign);
        exponent = 1; /* subnormal: its value is mantissa * 2^-24; shift until the hidden bit shows */
        while (!(mantissa & 0x400u)) {
            mantissa <<= 1;
            exponent--; /* the exponent may wrap below 0; adding 112 below undoes that */
        }
        mantissa &= 0x3ffu;
    }
    return tp__bits_float(sign | (exponent + 112u) << 23 | mantissa << 13);
}

TP_DEF uint16_t tp_f32_to_f16(float f)
{
    uint32_t u = tp__float_bits(f), sign = (u >> 16) & 0x8000u;
    u &= 0x7fffffffu;
    if (u > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((u >> 13) & 0x3ffu)); /* a NaN becomes a quiet NaN */
    /* numbers from 65520 on become infinity */
    if (u >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
    /* normal numbers: add just under half of the last place, or exactly half if the result is odd */
    if (u >= 0x38800000u) {
        u += 0xfffu + ((u >> 13) & 1u);
        return (uint16_t)(sign | (u - 0x38000000u) >> 13);
    }
    if (u <= 0x33000000u) return (uint16_t)sign; /* numbers up to 2^-25 become zero (a tie goes to even) */
    /* the shift for a subnormal result, 14 to 24 */
    uint32_t mantissa = (u & 0x7fffffu) | 0x800000u, shift = 126u - (u >> 23);
    uint32_t h = mantissa >> shift, rest = mantissa & ((1u << shift) - 1u), half = 1u << (shift - 1u);
    if (rest > half || (rest == half && (h & 1u))) h++;
    return (uint16_t)(sign | h);
}

TP_DEF float tp_bf16_to_f32(uint16_t h) { return tp__bits_float((uint32_t)h << 16); }

TP_DEF uint16_t tp_f32_to_bf16(float f)
{
    uint32_t u = tp__float_bits(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

/* Round a double to a float, to odd: if the result is inexact, its last bit is 1. Rounding it again to a shorter type then gives
 * the same as rounding the double once. */
TP__UNUSED static float tp__round_to_odd(double x)
{
    float f = (float)x;
    if (f != f || (double)f == x) return f;
    uint32_t u = tp__float_bits(f);
    /* u - 1 is the next float toward zero; infinity becomes the largest number */
    if ((f < 0 ? -(double)f : (double)f) > (x < 0 ? -x : x)) u--;
    return tp__bits_float(u | 1u);
}

/* Round an integer to a float, to odd; a double cannot hold all integers beyond 2^53. */
TP__UNUSED static float tp__int_to_odd(int64_t v)
{
    uint64_t size = v < 0 ? 0u - (uint64_t)v : (uint64_t)v;
    if (size >> 53) size = (size >> 11 | ((size & 2047u) != 0)) << 11;
    double x = (double)size; /* an integer of at most 53 bits is converted exactly */
    return tp__round_to_odd(v < 0 ? -x : x);
}

/* Truncate toward zero. A value out of range becomes the nearest limit, NaN becomes 0. */
static int64_t tp__float_to_int(tp__wide x, int64_t lo, int64_t hi)
{
    if (x != x) return 0;
    if (x <= tp__wide_of(lo)) return lo;
    if (x >= tp__wide_of(hi)) return hi;
    return tp__whole_of(x);
}

#ifdef TP__NO_SYSTEM
#define TP__BLOCK 16 /* a microcontroller has a small stack */
#else
#define TP__BLOCK 256
#endif

static void tp__load_floats(tp__wide *to, tp_dtype dtype, const void *from, int n)
{
    switch (dtype) {
    case TP_F32:
        for (int i = 0; i < n; i++) to[i] = (tp__wide)((const float *)from)[i];
        break;
#ifndef TP_ONLY_F32
    case TP_F64:
        for (int i = 0; i < n; i++) to[i] = ((const double *)from)[i];
        break;
    case TP_F16:
        for (int i = 0; i < n; i++) to[i] = (double)tp_f16_to_f32(((const uint16_t *)from)[i]);
        break;
    case TP_BF16:
        for (int i = 0; i < n; i++) to[i] = (double)tp_bf16_to_f32(((const uint16_t *)from)[i]);
        break;
#endif
    default: break;
    }
}

static void tp__store_floats(void *to, tp_dtype dtype, const tp__wide *x, int n)
{
    switch (dtype) {
    case TP_F32:
        for (int i = 0; i < n; i++) ((float *)to)[i] = (float)x[i];
        break;
#ifndef TP_ONLY_F32
    case TP_F64:
        for (int i = 0; i < n; i++) ((double *)to)[i] = x[i];
        break;
    case TP_F16:
        for (int i = 0; i < n; i++) ((uint16_t *)to)[i] = tp_f32_to_f16(tp__round_to_odd(x[i]));
        break;
    case TP_BF16:
        for (int i = 0; i < n; i++) ((uint16_t *)to)[i] = tp_f32_to_bf16(tp__round_to_odd(x[i]));
        break;
#endif
    case TP_I32:
        for (int i = 0; i < n; i++) ((int32_t *)to)[i] = (int32_t)tp__float_to_int(x[i], INT32_MIN, INT32_MAX);
        break;
    case TP_I64:
        for (int i = 0; i < n; i++) ((int64_t *)to)[i] = tp__float_to_int(x[i], INT64_MIN, INT64_MAX);
        break;
    case TP_U8:
        for (int i = 0; i < n; i++) ((uint8_t *)to)[i] = (uint8_t)tp__float_to_int(x[i], 0, 255);
        break;
    case TP_BOOL:
        for (int i = 0; i < n; i++) ((uint8_t *)to)[i] = x[i] != 0;
        break;
    default: break;
    }
}

static void tp__load_ints(int64_t *to, tp_dtype dtype, const void *from, int n)
{
    switch (dtype) {
    case TP_I32:
        for (int i = 0; i < n; i++) to[i] = ((const int32_t *)from)[i];
        break;
    case TP_I64:
        for (int i = 0; i < n; i++) to[i] = ((const int64_t *)from)[i];
        break;
    case TP_U8:
        for (int i = 0; i < n; i++) to[i] = ((const uint8_t *)from)[i];
        break;
    default: /* TP_BOOL */
        for (int i = 0; i < n; i++) to[i] = ((const uint8_t *)from)[i] != 0;
    }
}

/* Conversion to a shorter integer type keeps the low bits, as in C and numpy. */
static void tp__store_ints(void *to, tp_dtype dtype, const int64_t *x, int n)
{
    switch (dtype) {
    case TP_F32:
        for (int i = 0; i < n; i++) ((float *)to)[i] = tp__float_of(x[i]);
        break;
#ifndef TP_ONLY_F32
    case TP_F64:
        for (int i = 0; i < n; i++) ((double *)to)[i] = (double)x[i];
        break;
    case TP_F16:
        for (int i = 0; i < n; i++) ((uint16_t *)to)[i] = tp_f32_to_f16(tp__int_to_odd(x[i]));
        break;
    case TP_BF16:
        for (int i = 0; i < n; i++) ((uint16_t *)to)[i] = tp_f32_to_bf16(tp__int_to_odd(x[i]));
        break;
#endif
    case TP_I32:
        for (int i = 0; i < n; i++) ((int32_t *)to)[i] = (int32_t)(uint32_t)(uint64_t)x[i];
        break;
    case TP_I64:
        for (int i = 0; i < n; i++) ((int64_t *)to)[i] = x[i];
        break;
    case TP_U8:
        for (int i = 0; i < n; i++) ((uint8_t *)to)[i] = (uint8_t)(uint64_t)x[i];
        break;
    case TP_BOOL:
        for (int i = 0; i < n; i++) ((uint8_t *)to)[i] = x[i] != 0;
        break;
    default: break;
    }
}

/* Whether TP_ONLY_F32 leaves out the arithmetic and the conversions of a type. */
TP__UNUSED static bool tp__is_left_out(tp_dtype d) { return !TP__HAS_F64 && d >= TP_F64 && d <= TP_BF16; }

/* memcpy for the rows of a tensor: in code that is compiled for size gcc would copy them byte by byte. */
TP__HOT static void tp__copy_bytes(void *dst, const void *src, size_t n) { memcpy(dst, src, n); }

/* Fast loops for the conversions that graphs use most; bytes are common for images, truth values in gradients. */
TP__COLD_END
#define TP__CONVERSION(name_, to_, from_, expr_)                           \
    TP__HOT static void tp__##name_(void *dst, const void *src, int64_t n) \
    {                                                                      \
        to_ *y = (to_ *)dst;                                               \
        const from_ *p = (const from_ *)src;                               \
        for (int64_t i = 0; i < n; i++) {                                  \
            const from_ x = p[i];                                          \
            y[i] = (to_)(expr_);                                           \
        }                                                                  \
    }
TP__CONVERSION(u8_to_f32, float, uint8_t, x)
#ifndef TP__NO_SYSTEM
TP__CONVERSION(bool_to_f32, float, uint8_t, x != 0)
/* tp__float_to_int for a float and int32, without branches, so that compilers make vectors of it. */
static inline int32_t tp__float_to_i32(float x)
{
    const float low = -2147483648.0f, high = 2147483520.0f; /* the floats next to the limits */
    const float at_least = x > low ? x : low, between = at_least < high ? at_least : high;
    const int32_t whole = (int32_t)between, large = x > high ? INT32_MAX : whole;
    return x != x ? 0 : large;
}
TP__CONVERSION(f32_to_i32, int32_t, float, tp__float_to_i32(x))
TP__CONVERSION(f32_to_bool, uint8_t, float, x != 0)
TP__CONVERSION(i32_to_f32, float, int32_t, x)
TP__CONVERSION(i32_to_i64, int64_t, int32_t, x)
TP__CONVERSION(i64_to_f32, float, int64_t, tp__float_of(x))
TP__CONVERSION(i64_to_i32, int32_t, int64_t, (uint32_t)(uint64_t)x)
TP__CONVERSION(bool_to_i32, int32_t, uint8_t, x != 0)
#ifndef TP_ONLY_F32
TP__CONVERSION(f32_to_f64, double, float, x)
TP__CONVERSION(f64_to_f32, float, double, x)
#endif
#endif
#undef TP__CONVERSION
TP__COLD_BEGIN

typedef void (*tp__conversion)(void *dst, const void *src, int64_t n);
/* NULL: there is no fast loop. */
static tp__conversion tp__conversion_of(tp_dtype to, tp_dtype from)
{
    switch ((int)from * TP_DTYPE_COUNT + (int)to) {
#define X(from_, to_, name_) \
    case (int)(from_)*TP_DTYPE_COUNT + (int)(to_): return tp__##name_
        X(TP_U8, TP_F32, u8_to_f32);
#ifndef TP__NO_SYSTEM
        X(TP_BOOL, TP_F32, bool_to_f32);
        X(TP_F32, TP_I32, f32_to_i32);
        X(TP_F32, TP_BOOL, f32_to_bool);
        X(TP_I32, TP_F32, i32_to_f32);
        X(TP_I32, TP_I64, i32_to_i64);
        X(TP_I64, TP_F32, i64_to_f32);
        X(TP_I64, TP_I32, i64_to_i32);
        X(TP_BOOL, TP_I32, bool_to_i32);
#ifndef TP_ONLY_F32
        X(TP_F32, TP_F64, f32_to_f64);
        X(TP_F64, TP_F32, f64_to_f32);
#endif
#endif
#undef X
    default: return NULL;
    }
}

TP_DEF void tp_convert(void *dst, tp_dtype dst_dtype, const void *src, tp_dtype src_dtype, int64_t n)
{
    size_t dst_size = tp_dtype_size(dst_dtype), src_size = tp_dtype_size(src_dtype);
    TP__REQUIRE(tp_dtype_size(dst_dtype) > 0 && tp_dtype_size(src_dtype) > 0 && ((dst && src) || n <= 0), )
    if (n <= 0) return;
    if (dst_dtype == src_dtype) {
        memmove(dst, src, (size_t)n * src_size);
        return;
    }
    const tp__conversion fast = tp__conversion_of(dst_dtype, src_dtype);
    if (fast) {
        fast(dst, src, n);
        return;
    }
    if (!TP__HAS_F64 && (tp__is_left_out(dst_dtype) || tp__is_left_out(src_dtype))) {
        memset(dst, 0, (size_t)n * dst_size);
        return;
    }
    /* Convert in blocks through double or int64, whichever holds every source value exactly. */
    tp__wide x[TP__BLOCK];
    int64_t v[TP__BLOCK];
    for (int64_t i = 0; i < n; i += TP__BLOCK) {
        int m = n - i < TP__BLOCK ? (int)(n - i) : TP__BLOCK;
        const char *from = (const char *)src + (size_t)i * src_size;
        char *to = (char *)dst + (size_t)i * dst_size;
        if (tp_dtype_is_float(src_dtype)) {
            tp__load_floats(x, src_dtype, from, m);
            tp__store_floats(to, dst_dtype, x, m);
        } else {
            tp__load_ints(v, src_dtype, from, m);
            tp__store_ints(to, dst_dtype, v, m);
        }
    }
}

/* ==== >>shape ========================================================================================= */

/* An impossible number of dimensions gives ndim = -1, a shape that no function accepts. */
TP__HOT TP_DEF tp_shape tp_make_shape_n(int ndim, const int64_t *dim)
{
    tp_shape s;
    memset(&s, 0, sizeof s);
    s.ndim = -1;
    TP__REQUIRE(ndim >= 0 && ndim <= TP_MAX_DIMS && (dim || ndim == 0), s)
    s.ndim = ndim < 0 || ndim > TP_MAX_DIMS ? -1 : ndim;
    for (int i = 0; i < s.ndim; i++) s.dim[i] = dim[i];
    return s;
}

TP_DEF int64_t tp_shape_size(const tp_shape *s)
{
    TP__REQUIRE(s, -1)

    if (s->ndim < 0 || s->ndim > TP_MAX_DIMS) return INT64_MAX;
    bool empty = false;
    int64_t n = 1;
    for (int i = 0; i < s->ndim; i++) {
        const int64_t d = s->dim[i];
        if (d < 0) return -1;
        if (d == 0) empty = true;
        else if (n <= INT32_MAX && d <= INT32_MAX)
            n *= d; /* without a division, which takes longer than all the rest */
        else n = n > INT64_MAX / d ? INT64_MAX : n * d;
    }
    return empty ? 0 : n;
}

TP_DEF bool tp_shape_known(const tp_shape *s)
{
    TP__REQUIRE(s, false)

    if (s->ndim < 0 || s->ndim > TP_MAX_DIMS) return false;
    for (int i = 0; i < s->ndim; i++)
        if (s->dim[i] < 0) return false;
    return true;
}

TP_DEF bool tp_shape_equal(const tp_shape *a, const tp_shape *b)
{
    TP__REQUIRE(a && b, false)

    if (a->ndim != b->ndim) return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->dim[i] != b->dim[i]) return false;
    return true;
}

TP_DEF bool tp_shape_compatible(const tp_shape *a, const tp_shape *b)
{
    TP__REQUIRE(a && b, false)

    if (a->ndim != b->ndim) return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->dim[i] >= 0 && b->dim[i] >= 0 && a->dim[i] != b->dim[i]) return false;
    return true;
}

TP_DEF const char *tp_shape_text(const tp_shape *s, char *buf)
{
    TP__REQUIRE(s && buf, "")

    size_t n = 0;
    if (s->ndim < 0 || s->ndim > TP_MAX_DIMS) {
        memcpy(buf, "(invalid)", sizeof "(invalid)");
        return buf;
    }
    buf[n++] = '(';
    for (int i = 0; i < s->ndim; i++) {
        if (i) buf[n++] = ',';
        int k = s->dim[i] < 0 ? tp__format(buf + n, TP_SHAPE_TEXT - n, "?")
                              : tp__format(buf + n, TP_SHAPE_TEXT - n, "%lld", (long long)s->dim[i]);
        n += (size_t)k;
    }
    buf[n++] = ')';
    buf[n] = 0;
    return buf;
}

/* ==== >>tensor ======================================================================================== */

static tp_status tp__type_bytes(tp_dtype dtype, const tp_shape *shape, size_t *bytes)
{
    char text[TP_SHAPE_TEXT];
    size_t size = tp_dtype_size(dtype);
    if (size == 0) return tp_fail(TP_ERR_DTYPE, "tensor: %d is not a dtype", (int)dtype);
    if (!tp_shape_known(shape))
        return tp_fail(TP_ERR_SHAPE, "tensor: the shape %s is not fully known", tp_shape_text(shape, text));
    int64_t n = tp_shape_size(shape);
    if (n == INT64_MAX || (uint64_t)n > SIZE_MAX || !tp_mul_size((size_t)n, size, bytes) || *bytes > PTRDIFF_MAX)
        return tp_fail(TP_ERR_SHAPE, "tensor: %s of shape %s is larger than memory can be", tp_dtype_name(dtype),
                       tp_shape_text(shape, text));
    return TP_OK;
}

static void tp__device_use(tp_device *d, int change);

/* Free the memory that t owns. */
static void tp__tensor_drop(tp_tensor *t)
{
    tp_device *d = t->own_device_;
    if (d && t->staged_) (void)d->unstage(d, t->staged_ - 1, NULL);
    if (!d) tp_free_aligned(t->own);
    else if (t->own) d->free(d, t->own);
    if (d) tp__device_use(d, -1);
    t->own = NULL;
    t->own_device_ = NULL;
    t->capacity = 0;
    t->staged_ = 0;
}

TP__HOT TP_DEF tp_status tp_tensor_resize(tp_tensor *t, tp_dtype dtype, tp_shape shape)
{
    TP__REQUIRE(t, TP_ERR_ARG)

    size_t bytes = 0;
    tp_status st = tp__type_bytes(dtype, &shape, &bytes);
    if (st != TP_OK) return st;
    if (t->own_device_ || !t->own || t->capacity < bytes) { /* on failure t is unchanged */
        size_t capacity = bytes ? bytes : 1;
        void *memory = tp_alloc_aligned(capacity);
        if (!memory) return TP_ERR_NOMEM;
        tp__tensor_drop(t);
        t->own = memory;
        t->capacity = capacity;
    }
    t->dtype = dtype;
    t->shape = shape;
    t->data = t->own;
    t->device = NULL;
    return TP_OK;
}

TP__HOT TP_DEF void tp_tensor_view(tp_tensor *t, tp_dtype dtype, tp_shape shape, const void *data)
{
    TP__REQUIRE(t, )
    if ((unsigned)dtype >= TP_DTYPE_COUNT) {
        tp_fail(TP_ERR_ARG, "tp_tensor_view: there is no dtype %d", (int)dtype);
        return;
    }

    t->dtype = dtype;
    t->shape = shape;
    t->data = (void *)(uintptr_t)data;
    t->device = NULL;
}

/* Copy a device's tensor to the host. dst owns no device memory. */
static tp_status tp__tensor_download(tp_tensor *dst, const tp_tensor *src)
{
    tp_device *d = src->device;
    if (src->staged_) /* the tensor has no data until tp_tensor_unstage */
        return tp_fail(TP_ERR_STATE, "this tensor was staged on %s and not taken: tp_tensor_unstage comes first",
                       d->name);
    tp_status st = tp_tensor_resize(dst, src->dtype, src->shape);
    if (st == TP_OK) st = d->download(d, dst->data, src->data, tp_tensor_bytes(src));
    const tp_status waited = d->wait(d);
    return st == TP_OK ? waited : st;
}

TP__HOT TP_DEF tp_status tp_tensor_copy(tp_tensor *dst, const tp_tensor *src)
{
    TP__REQUIRE(dst && src && (src->data || src->staged_ || tp_tensor_bytes(src) == 0), TP_ERR_ARG)

    tp_tensor from = *src; /* src may be dst, or a view of dst's own memory */
    size_t bytes = 0;
    tp_status st = tp__type_bytes(from.dtype, &from.shape, &bytes);
    if (st != TP_OK) return st;
    if (from.device || dst->own_device_) {
        tp_tensor fresh;
        memset(&fresh, 0, sizeof fresh);
        st = from.device ? tp__tensor_download(&fresh, &from) : tp_tensor_copy(&fresh, &from);
        if (st == TP_OK) {
            tp_tensor_free(dst);
            *dst = fresh;
        } else tp_tensor_free(&fresh);
        return st;
    }
    void *old = NULL;
    if (!dst->own || dst->capacity < bytes) {
        size_t capacity = bytes ? bytes : 1;
        void *memory = tp_alloc_aligned(capacity);
        if (!memory) return TP_ERR_NOMEM;
        old = dst->own;
        dst->own = memory;
        dst->capacity = capacity;
    }
    if (bytes) memmove(dst->own, from.data, bytes);
    tp_free_aligned(old);
    dst->device = NULL;
    dst->dtype = from.dtype;
    dst->shape = from.shape;
    dst->data = dst->own;
    return TP_OK;
}

TP_DEF void tp_tensor_free(tp_tensor *t)
{
    if (!t) return;
    tp__tensor_drop(t);
    memset(t, 0, sizeof *t);
}

/* Give t memory on d for a value of this type. Memory that t owned on another device or on the host is freed. */
static tp_status tp__tensor_reserve(tp_tensor *t, tp_device *d, tp_dtype dtype, const tp_shape *shape)
{
    size_t bytes = 0;
    tp_status st = tp__type_bytes(dtype, shape, &bytes);
    if (st != TP_OK) return st;
    if (t->own_device_ != d || !t->own || t->capacity < bytes) {
        void *memory = d->alloc(d, bytes ? bytes : 1);
        if (!memory) return tp_fail(TP_ERR_NOMEM, "out of memory on %s for a tensor of %zu bytes", d->name, bytes);
        tp__device_use(d, 1);
        tp__tensor_drop(t);
        t->own_device_ = d;
        t->own = memory;
        t->capacity = bytes ? bytes : 1;
    }
    t->dtype = dtype;
    t->shape = *shape;
    t->data = t->own;
    t->device = d;
    return TP_OK;
}

static tp_status tp__tensor_may_leave(const tp_tensor *t, const tp_device *d, const tp_tensor *host)
{
    if (t == host || host->device)
        return tp_fail(TP_ERR_ARG, "a tensor for %s must be copied from another one, in host memory", d->name);
    return TP_OK;
}

TP_DEF tp_status tp_tensor_to_device(tp_tensor *t, tp_device *d, const tp_tensor *host)
{
    TP__REQUIRE(t && d && host && (host->data || tp_tensor_bytes(host) == 0), TP_ERR_ARG)

    tp_status st = tp__tensor_may_leave(t, d, host);
    if (st == TP_OK && t->staged_) tp__tensor_drop(t);
    if (st == TP_OK) st = tp__tensor_reserve(t, d, host->dtype, &host->shape);
    if (st == TP_OK && tp_tensor_bytes(host)) st = d->upload(d, t->data, host->data, tp_tensor_bytes(host));
    return st;
}

TP_DEF tp_status tp_tensor_stage(tp_tensor *t, tp_device *d, const tp_tensor *host)
{
    TP__REQUIRE(t && d && host && (host->data || tp_tensor_bytes(host) == 0), TP_ERR_ARG)

    const size_t bytes = tp_tensor_bytes(host);
    if (!d->stage || !d->unstage || !bytes) return tp_tensor_to_device(t, d, host);
    tp_status st = tp__tensor_may_leave(t, d, host);
    if (st == TP_OK && t->staged_)
        st = tp_fail(TP_ERR_STATE, "this tensor was staged on %s already: tp_tensor_unstage comes first",
                     t->own_device_->name);
    int number = 0;
    if (st == TP_OK) st = d->stage(d, host->data, bytes, &number);
    if (st != TP_OK) return st;
    if (t->own_device_ != d) {
        tp__tensor_drop(t);
        tp__device_use(d, 1);
    }
    t->dtype = host->dtype;
    t->shape = host->shape;
    t->data = NULL;
    t->device = t->own_device_ = d;
    t->staged_ = number + 1;
    return TP_OK;
}

TP_DEF tp_status tp_tensor_unstage(tp_tensor *t)
{
    TP__REQUIRE(t, TP_ERR_ARG)

    if (!t->device || !t->staged_) return TP_OK;
    tp_device *d = t->device;
    const int number = t->staged_ - 1;
    t->staged_ = 0; /* from now on tp__tensor_drop does not drop the staged data, which unstage copies below */
    tp_status st = tp__tensor_reserve(t, d, t->dtype, &t->shape);
    const tp_status taken = d->unstage(d, number, st == TP_OK ? t->data : NULL);
    return st == TP_OK ? taken : st;
}

TP_DEF int64_t tp_tensor_size(const tp_tensor *t)
{
    TP__REQUIRE(t, -1)
    return tp_shape_size(&t->shape);
}

TP_DEF size_t tp_tensor_bytes(const tp_tensor *t)
{
    TP__REQUIRE(t, 0)

    int64_t n = tp_shape_size(&t->shape);
    return n > 0 ? (size_t)n * tp_dtype_size(t->dtype) : 0;
}

/* Whether the host can read and write element i; else a sentence about the call of `function` says why not. It is logged, too, as
 * these functions return no status, but not for each element of a loop. */
static bool tp__has_element(const tp_tensor *t, int64_t i, const char *function)
{
    const char *why = !t                              ? "the tensor is NULL"
                      : t->device && !t->device->host ? "the tensor is on a device; tp_tensor_copy it to the host"
                      : !t->data                      ? "the tensor has no data"
                                                      : NULL;
    char text[TP_SHAPE_TEXT];
    if (!why && i >= 0 && i < tp_tensor_size(t)) return true;
    const bool again = !strncmp(tp_last_error(), function, strlen(function));
    if (why) tp_fail(TP_ERR_ARG, "%s: %s", function, why);
    else
        tp_fail(TP_ERR_ARG, "%s: there is no element %lld in a tensor of shape %s, which has %lld, numbered from 0",
                function, (long long)i, tp_shape_text(&t->shape, text), (long long)tp_tensor_size(t));
    if (!again) tp_log(TP_LOG_WARN, "%s", tp_last_error());
    return false;
}
TP_DEF double tp_tensor_get(const tp_tensor *t, int64_t i)
{
    if (!tp__has_element(t, i, "tp_tensor_get")) return 0;

    tp__wide x = 0;
    tp_convert(&x, TP__WIDE_DTYPE, (const char *)t->data + (size_t)i * tp_dtype_size(t->dtype), t->dtype, 1);
    return (double)x;
}

/* Reads the elements from `first` on, TP__BLOCK of them or those that are left, as tp_tensor_get does each. Returns their number. */
TP__UNUSED static int tp__tensor_doubles(const tp_tensor *t, int64_t first, double x[TP__BLOCK])
{
    const int64_t left = tp_tensor_size(t) - first;
    const int n = left < TP__BLOCK ? (int)left : TP__BLOCK;
    if (tp__has_element(t, first + n - 1, "tp_tensor_get"))
        tp_convert(x, TP_F64, (const char *)t->data + (size_t)first * tp_dtype_size(t->dtype), t->dtype, n);
    else
        for (int k = 0; k < n; k++) x[k] = 0;
    return n;
}

TP_DEF void tp_tensor_set(tp_tensor *t, int64_t i, double value)
{
    if (!tp__has_element(t, i, "tp_tensor_set")) return;

    const tp__wide wide = (tp__wide)value;
    tp_convert((char *)t->data + (size_t)i * tp_dtype_size(t->dtype), t->dtype, &wide, TP__WIDE_DTYPE, 1);
}

TP_DEF tp_tensor tp_scalar_view(const float *value)
{
    tp_tensor t;
    memset(&t, 0, sizeof t);
    TP__REQUIRE(value, t)
    tp_tensor_view(&t, TP_F32, tp_make_shape_n(0, NULL), value);
    return t;
}

TP__COLD_END

/* ==== >>random ======================================================================================== */

/* Philox (Salmon, Moraes, Dror, Shaw 2011): ten rounds. Each round makes two 32x32 multiplications, mixes their high halves with
 * the other words and the key, and adds two Weyl constants to the key. */
TP_DEF void tp_philox(uint64_t key, uint64_t counter_lo, uint64_t counter_hi, uint32_t out[4])
{
    TP__REQUIRE(out, )
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)counter_lo, c1 = (uint32_t)(counter_lo >> 32);
    uint32_t c2 = (uint32_t)counter_hi, c3 = (uint32_t)(counter_hi >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xd2511f53u * c0, b = (uint64_t)0xcd9e8d57u * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9e3779b9u; /* Weyl constant: the golden ratio */
        k1 += 0xbb67ae85u; /* Weyl constant: sqrt(3) - 1 */
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* The key is two of the words that tp_philox gives for a counter whose high half, all ones, is never used as a step. */
TP_DEF uint64_t tp_random_key(uint64_t seed, uint64_t stream)
{
    uint32_t r[4];
    tp_philox(seed, stream, UINT64_MAX, r);
    return (uint64_t)r[1] << 32 | r[0];
}

TP_DEF uint32_t tp_random_u32(uint64_t key, uint64_t step, uint64_t index)
{
    uint32_t r[4];
    tp_philox(key, index / 4, step, r);
    return r[index % 4];
}

TP_DEF float tp_random_uniform(uint64_t key, uint64_t step, uint64_t index)
{
    return (float)(tp_random_u32(key, step, index) >> 8) * (1.0f / 16777216.0f);
}

/* a*b + c with two roundings on every machine. Without the barrier a compiler may fuse the operations, which gives other bits. */
static double tp__mul_add(double a, double b, double c)
{
    double p = a * b;
#if defined(__GNUC__) && defined(__SSE2__)
    __asm__("" : "+x"(p));
#elif defined(__GNUC__) && defined(__aarch64__)
    __asm__("" : "+w"(p));
#else
    volatile double stored = p;
    p = stored;
#endif
    return p + c;
}

#define TP__LN2_HI_DOUBLE 0x1.62e42fefap-1
#define TP__LN2_LO_DOUBLE 0x1.cf79abc9e3b3ap-40
#define TP__ROUND_DOUBLE  6755399441055744.0

#ifdef TP_ONLY_F32
/* As below with float, and 24 random bits for each number. */
static float tp__wide_mul_add(float a, float b, float c)
{
    volatile float p = a * b;
    return p + c;
}
static void tp__normal_pair(const uint32_t r[4], float normal[2])
{
    const float unit = 1.0f / 16777216.0f, turn = (float)(r[3] >> 8) * unit;
    const float radius = sqrtf(-2.0f * tp_logf((float)((r[1] >> 8) + 1) * unit));
    const int quarter = (int)(4.0f * turn + 0.5f);
    const float x = 6.2831853f * (turn - 0.25f * (float)quarter), xx = -(x * x);
    float c = 1, s = 1;
    for (int k = 5; k >= 1; k--) {
        c = tp__wide_mul_add(xx / (float)(2 * k * (2 * k - 1)), c, 1);
        s = tp__wide_mul_add(xx / (float)(2 * k * (2 * k + 1)), s, 1);
    }
    s *= x;
    const float quarter_c = quarter & 1 ? -s : c, quarter_s = quarter & 1 ? c : s, sign = quarter & 2 ? -1.0f : 1.0f;
    normal[0] = radius * sign * quarter_c;
    normal[1] = radius * sign * quarter_s;
}
#else
#define tp__wide_mul_add tp__mul_add

/* ln(u) for u = k/2^53 in (0,1]: u = 2^e m with m in [sqrt(1/2), sqrt(2)), and with f = (m-1)/(m+1)
 *     ln m = 2 (f + f^3/3 + f^5/5 + ...),  |f| < 0.1716, so twelve terms reach 1e-20. */
static double tp__log_unit(double u)
{
    uint64_t bits;
    memcpy(&bits, &u, sizeof bits);
    int e = (int)(bits >> 52) - 1023;
    bits = (bits & 0xfffffffffffffu) | 0x3ff0000000000000u;
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        e++;
    }
    double f = (m - 1.0) / (m + 1.0), s = f * f, sum = 0.0;
    for (int k = 11; k >= 1; k--) sum = tp__mul_add(sum, s, 1.0 / (double)(2 * k + 1));
    double ln_m = tp__mul_add(2.0 * f * s, sum, 2.0 * f);
    /* ln 2 in two parts: e times the first is exact. */
    return tp__mul_add((double)e, TP__LN2_HI_DOUBLE, tp__mul_add((double)e, TP__LN2_LO_DOUBLE, ln_m));
}

/* cos and sin of 2 pi u, u in [0,1). The nearest multiple of a quarter turn is subtracted exactly; the Taylor series takes the
 * remainder, |x| <= pi/4. Adding 1.5 2^52 rounds to an integer, whose bits are then the lowest bits of the sum. */
static void tp__cos_sin_of_turn(double u, double *c, double *s)
{
    double quarters = 4.0 * u + TP__ROUND_DOUBLE;
    uint64_t quarter;
    memcpy(&quarter, &quarters, sizeof quarter);
    double x = 6.283185307179586477 * (u - 0.25 * (quarters - TP__ROUND_DOUBLE)), xx = -(x * x), sum_c = 1.0,
           sum_s = 1.0;
    for (int k = 9; k >= 1; k--) {
        sum_c = tp__mul_add(xx * (1.0 / (double)(2 * k * (2 * k - 1))), sum_c, 1.0);
        sum_s = tp__mul_add(xx * (1.0 / (double)(2 * k * (2 * k + 1))), sum_s, 1.0);
    }
    sum_s *= x;
    switch (quarter & 3) {
    case 0: *c = sum_c, *s = sum_s; break;
    case 1: *c = -sum_s, *s = sum_c; break;
    case 2: *c = -sum_c, *s = -sum_s; break;
    default: *c = sum_s, *s = -sum_c; break;
    }
}

/* Box-Muller: the four words of a block give two uniform numbers of 53 bits, and these two normal ones. Uses only arithmetic and a
 * square root, so that the bits do not depend on the libm; the vector kernels do the same operations in the same order. */
static void tp__normal_pair(const uint32_t r[4], double normal[2])
{
    uint64_t a = ((uint64_t)r[1] << 32 | r[0]) >> 11, b = ((uint64_t)r[3] << 32 | r[2]) >> 11;
    const double unit = 1.0 / 9007199254740992.0;
    double radius = sqrt(-2.0 * tp__log_unit((double)(a + 1) * unit)), c, s;
    tp__cos_sin_of_turn((double)b * unit, &c, &s);
    normal[0] = radius * c;
    normal[1] = radius * s;
}
#endif

/* Elements 2j and 2j+1 are the cosine and the sine result of Box-Muller on the block (j, step). */
static tp__wide tp__random_normal(uint64_t key, uint64_t step, uint64_t index)
{
    uint32_t r[4];
    tp__wide normal[2];
    tp_philox(key, index / 2, step, r);
    tp__normal_pair(r, normal);
    return normal[index % 2];
}
TP_DEF double tp_random_normal(uint64_t key, uint64_t step, uint64_t index)
{
    return (double)tp__random_normal(key, step, index);
}

TP_DEF uint64_t tp_hash(const void *p, size_t n)
{
    const unsigned char *byte = (const unsigned char *)p;
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) h = (h ^ byte[i]) * 0x100000001b3u;
    /* The high bits of FNV are weak for short names: mix all bits. */
    h = (h ^ h >> 33) * 0xff51afd7ed558ccdu;
    h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53u;
    return h ^ h >> 33;
}

TP_DEF uint64_t tp_hash_name(const char *s)
{
    TP__REQUIRE(s, 0)
    return tp_hash(s, strlen(s));
}

/* Fisher-Yates shuffle. The 64-bit remainder favours small numbers by n/2^64, which is too little to observe. */
TP_DEF void tp_random_permutation(uint64_t key, int64_t *order, int64_t n)
{
    TP__REQUIRE((order || n == 0) && n >= 0, )

    for (int64_t i = 0; i < n; i++) order[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        uint32_t r[4];
        tp_philox(key, (uint64_t)i, 0, r);
        int64_t j = (int64_t)(((uint64_t)r[1] << 32 | r[0]) % ((uint64_t)i + 1)), swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
}

/* ==== >>threads ======================================================================================= */

TP_DEF double tp_time(void) { return tp__os_clock(); }

/* The floating-point mode of all numeric work: round to nearest, denormals are zero (a denormal costs a hundred
 * cycles), no traps. enter returns the caller's mode, which leave restores; so results do not depend on the caller's mode.
 * On 32-bit Arm vectors of NEON treat denormals as zero in any mode, so scalars do too. Other processors have no such mode here. */
#if defined(__GNUC__) && defined(__SSE__)
#define TP__FLOAT_MODE 0x9fc0u
static unsigned tp__float_mode_enter(void)
{
    unsigned mode = __builtin_ia32_stmxcsr();
    if (mode != TP__FLOAT_MODE) __builtin_ia32_ldmxcsr(TP__FLOAT_MODE);
    return mode;
}
static void tp__float_mode_leave(unsigned mode)
{
    if (mode != TP__FLOAT_MODE) __builtin_ia32_ldmxcsr(mode);
}
#elif defined(__GNUC__) && \
    (defined(__aarch64__) || (defined(__arm__) && defined(__VFP_FP__) && !defined(__SOFTFP__) && defined(__ARM_FP)))
#define TP__FLOAT_MODE 0x1000000u /* bit 24 of FPCR and of FPSCR: denormals are zero; all others: nearest, no traps */
#ifdef __aarch64__
#define TP__FLOAT_REGISTER_READ(m_)  __asm__ volatile("mrs %0, fpcr" : "=r"(m_))
#define TP__FLOAT_REGISTER_WRITE(m_) __asm__ volatile("msr fpcr, %0" : : "r"(m_))
typedef uint64_t tp__float_register;
#else
#define TP__FLOAT_REGISTER_READ(m_)  __asm__ volatile("vmrs %0, fpscr" : "=r"(m_))
#define TP__FLOAT_REGISTER_WRITE(m_) __asm__ volatile("vmsr fpscr, %0" : : "r"(m_))
typedef uint32_t tp__float_register;
#endif
static unsigned tp__float_mode_enter(void)
{
    tp__float_register mode;
    TP__FLOAT_REGISTER_READ(mode);
    if (mode != TP__FLOAT_MODE) TP__FLOAT_REGISTER_WRITE((tp__float_register)TP__FLOAT_MODE);
    return (unsigned)mode;
}
static void tp__float_mode_leave(unsigned mode)
{
    if (mode != TP__FLOAT_MODE) TP__FLOAT_REGISTER_WRITE((tp__float_register)mode);
}
#else
static unsigned tp__float_mode_enter(void) { return 0; }
static void tp__float_mode_leave(unsigned mode) { (void)mode; }
#endif

static void tp__run_on_caller(int64_t n, tp_chunk_fn fn, void *user)
{
    for (int64_t i = 0; i < n; i++) fn(user, i);
}

TP__UNUSED static int64_t tp__clock_ns(void) { return (int64_t)(tp__os_clock() * 1e9); }

/* A tp__watch records when a pool's workers were busy, for runs of a thread that has the tp__watch in tp__watching. A worker writes
 * to its own list before it reports its chunks as finished; the caller reads the lists after the run. */
typedef struct tp__span {
    int64_t start, end; /* times in nanoseconds */
} tp__span;
typedef struct tp__spans {
    tp__span *item;
    int64_t n, cap, lost; /* lost: number of spans that were not recorded because memory ran out */
} tp__spans;
typedef struct tp__watch {
    const tp_pool *pool;
    tp__spans *worker; /* one list per worker; none for the caller */
    int n_worker;
    struct tp__watch *next; /* the next watch in the list, of another pool */
} tp__watch;
/* the calling thread's list of watches; NULL: do not record */
TP__UNUSED static TP__THREAD_LOCAL tp__watch *tp__watching;

#ifdef TP_NO_THREADS

struct tp_pool {
    int threads;
};

TP__SMALL TP_DEF tp_pool *tp_pool_new(int threads)
{
    if (threads < 0) {
        tp_fail(TP_ERR_ARG, "thread pool: %d threads make no sense; 0 means one a processor", threads);
        return NULL;
    }
    tp_pool *p = (tp_pool *)tp_calloc(1, sizeof(tp_pool));
    if (p) p->threads = 1;
    return p;
}

TP_DEF void tp_pool_free(tp_pool *p) { tp_free(p); }

TP_DEF int tp_pool_threads(const tp_pool *p) { return p ? p->threads : 1; }

TP_DEF void tp_pool_run(tp_pool *p, int64_t n, tp_chunk_fn fn, void *user)
{
    TP__REQUIRE(fn, )
    (void)p;
    unsigned mode = tp__float_mode_enter();
    tp__run_on_caller(n, fn, user);
    tp__float_mode_leave(mode);
}

#else /* threads */

#define TP__MAX_THREADS 1024
#define TP__SPIN        40e-6 /* seconds to look for work before sleeping: about the time of a wake-up */
#define TP__LOOK_AROUND 256   /* number of runs after which a thread checks which processor it is on */

/* -- the pool --------------------------------------------------------------------------------------------
 *
 * `left` is the number of unclaimed chunks of the current run. A thread claims chunks by subtracting their number from `left`; if
 * `left` is 0, there is no work. The caller works too, then waits until `finished` shows that all chunks claimed by workers are
 * done. It does not wait for workers that claimed nothing, so a worker whose processor is busy with another program delays nobody.
 *
 * fn, user and n are written before `left` is published and do not change before the last chunk is finished,
 * so a thread that has claimed a chunk may read them.
 *
 * A waiting thread spins for a moment and then sleeps on a condition. It first counts itself as a sleeper and then checks once
 * more for work; the other side first publishes work and then checks for sleepers. These accesses are sequentially consistent, so
 * at least one side sees the other. The lock prevents a lost wake-up between the check and the sleep. */
struct tp_pool {
    /* Atomic. The fields that describe a run share one cache line, so that a worker fetches all of them at once. */
    int64_t left;
    int64_t n;
    tp_chunk_fn fn;
    void *user;
    char pad1[64 - 2 * sizeof(int64_t) - sizeof(tp_chunk_fn) - sizeof(void *)];
    /* atomic: number of chunks that workers have finished since the pool was made; has a cache line of its own */
    int64_t finished;
    char pad2[64 - sizeof(int64_t)];

    int64_t claimed;      /* value that `finished` will have at the end of the current run; only the caller uses it */
    int sleepers;         /* atomic: number of workers that sleep or are about to sleep */
    int caller_sleeps;    /* atomic: the caller of tp_pool_run sleeps until the workers are done */
    int quit;             /* atomic: tells the workers to end */
    int caller_processor; /* atomic: the caller's processor when it was last checked */
    unsigned runs;        /* number of runs so far; only the caller uses it */
    int64_t process;      /* the process that has the threads: a child of fork has none of them */
    int threads, started;
    int n_indexed;    /* atomic: number of workers that have got their index */
    tp__watch *watch; /* where this run records when threads are busy; NULL: it does not record */
    double spin;
    tp__os_mutex run_lock; /* the caller holds this lock during its run, so that runs follow one another */
    tp__os_mutex lock;     /* protects the two condition variables */
    tp__os_cond wake, done;
    tp__os_thread *id;
};

static void tp__pause(void)
{
#if defined(__GNUC__) && defined(__SSE2__)
    __builtin_ia32_pause();
#elif defined(__GNUC__) && defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* Spin until *value equals `target` (or differs from it, if `equal` is false). False: `seconds` have passed.
 * Yielding costs nothing on a free processor; on a busy one it lets another thread run, possibly the one that this
 * thread waits for. */
static bool tp__spin_until(const int64_t *value, bool equal, int64_t target, double seconds)
{
    if (seconds <= 0) return false;
    double end = tp_time() + seconds;
    do {
        for (int i = 0; i < 64; i++) { /* some microseconds; a system call takes half a microsecond */
            if ((__atomic_load_n(value, __ATOMIC_ACQUIRE) == target) == equal) return true;
            tp__pause();
        }
        tp__os_thread_yield();
    } while (tp_time() < end);
    return false;
}

/* The number of chunks to claim at a time: many at first, because a claim moves a cache line between processors; later fewer, so
 * that all threads end together. */
static int64_t tp__pool_share(const tp_pool *p, int64_t left) { return (left + 4 * p->threads - 1) / (4 * p->threads); }

static void tp__watch_add(tp__spans *s, int64_t start)
{
    if (s->n == s->cap) {
        const int64_t cap = s->cap ? s->cap * 2 : 64;
        tp__span *item = (tp__span *)tp_realloc(s->item, (size_t)cap * sizeof *item);
        if (!item) {
            s->lost++;
            return;
        }
        s->item = item;
        s->cap = cap;
    }
    s->item[s->n].start = start;
    s->item[s->n++].end = tp__clock_ns();
}

/* Claim and run chunks until none is left; return their number. worker: the worker's index; -1: the caller. */
static int64_t tp__pool_work(tp_pool *p, int worker)
{
    int64_t done = 0, begun = 0, left = __atomic_load_n(&p->left, __ATOMIC_ACQUIRE);
    while (left > 0) {
        const int64_t share = tp__pool_share(p, left);
        if (!__atomic_compare_exchange_n(&p->left, &left, left - share, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            continue; /* another thread claimed chunks meanwhile; `left` now has the new count */
        if (p->watch && done == 0) begun = tp__clock_ns();
        for (int64_t i = 0; i < share; i++) p->fn(p->user, p->n - left + i);
        done += share;
        left = __atomic_load_n(&p->left, __ATOMIC_ACQUIRE);
    }
    if (begun && worker >= 0 && worker < p->watch->n_worker) tp__watch_add(&p->watch->worker[worker], begun);
    return done;
}

TP__OS_THREAD(tp__pool_worker, user)
{
    tp_pool *p = (tp_pool *)user;
    tp__float_mode_enter(); /* this floating-point mode stays until the thread ends */
    const int number = __atomic_fetch_add(&p->n_indexed, 1, __ATOMIC_RELAXED);
    unsigned turns = 0;
    while (!__atomic_load_n(&p->quit, __ATOMIC_ACQUIRE)) {
        if (!tp__spin_until(&p->left, false, 0, p->spin)) {
            tp__os_lock(&p->lock);
            __atomic_add_fetch(&p->sleepers, 1, __ATOMIC_SEQ_CST);
            /* The wait is not repeated: a worker that wakes too late for a short run spins, to be in time for the next run. */
            if (__atomic_load_n(&p->left, __ATOMIC_SEQ_CST) == 0 && !__atomic_load_n(&p->quit, __ATOMIC_ACQUIRE))
                tp__os_wait(&p->wake, &p->lock);
            __atomic_sub_fetch(&p->sleepers, 1, __ATOMIC_SEQ_CST);
            tp__os_unlock(&p->lock);
            turns = 0;
        }
        if (p->spin > 0 && turns++ % TP__LOOK_AROUND == 0)
            tp__os_leave_processor(__atomic_load_n(&p->caller_processor, __ATOMIC_RELAXED));
        const int64_t done = tp__pool_work(p, number);
        if (done == 0) continue;
        __atomic_add_fetch(&p->finished, done, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&p->caller_sleeps, __ATOMIC_SEQ_CST)) {
            tp__os_lock(&p->lock);
            tp__os_signal(&p->done);
            tp__os_unlock(&p->lock);
        }
    }
    TP__OS_THREAD_END;
}

#define TP__FEWER_THREADS \
    ": ask for fewer threads, or raise the limit on the user's processes (ulimit -u) or on memory (ulimit -v)"

TP__SMALL TP_DEF tp_pool *tp_pool_new(int threads)
{
    if (threads < 0 || threads > TP__MAX_THREADS) {
        tp_fail(TP_ERR_ARG, "thread pool: %d threads make no sense; use 1 to %d, or 0 for one a processor", threads,
                TP__MAX_THREADS);
        return NULL;
    }
    int processors = tp__os_processors();
    if (processors > TP__MAX_THREADS) processors = TP__MAX_THREADS;
    if (threads == 0) threads = processors;
    tp_pool *p = (tp_pool *)tp_alloc_aligned(sizeof(tp_pool));
    if (!p) return NULL;
    memset(p, 0, sizeof *p);
    p->process = tp__os_pid();
    p->threads = threads;
    p->spin = threads > processors ? 0.0 : TP__SPIN;
    p->caller_processor = tp__os_processor();
    if (threads == 1) return p;

    p->id = (tp__os_thread *)tp_calloc((size_t)threads - 1, sizeof(tp__os_thread));
    if (!p->id) {
        tp_free_aligned(p);
        return NULL;
    }
    tp__os_mutex_init(&p->run_lock);
    tp__os_mutex_init(&p->lock);
    tp__os_cond_init(&p->wake);
    tp__os_cond_init(&p->done);
    for (; p->started < threads - 1; p->started++) {
        int err = tp__os_thread_start(&p->id[p->started], tp__pool_worker, p);
        if (err == 0) continue;
        tp_fail(TP_ERR, "thread pool: cannot start thread %d of %d: %s" TP__FEWER_THREADS, p->started + 2, threads,
                strerror(err));
        tp_pool_free(p);
        return NULL;
    }
    return p;
}

TP__SMALL TP_DEF void tp_pool_free(tp_pool *p)
{
    if (!p) return;
    if (p->threads > 1 && p->process == tp__os_pid()) { /* in a child of fork there is nobody to wait for */
        tp__os_lock(&p->lock);
        __atomic_store_n(&p->quit, 1, __ATOMIC_RELEASE);
        tp__os_broadcast(&p->wake);
        tp__os_unlock(&p->lock);
        for (int i = 0; i < p->started; i++) tp__os_thread_join(p->id[i]);
        tp__os_cond_free(&p->done);
        tp__os_cond_free(&p->wake);
        tp__os_mutex_free(&p->lock);
        tp__os_mutex_free(&p->run_lock);
    }
    tp_free(p->id);
    tp_free_aligned(p);
}

TP_DEF int tp_pool_threads(const tp_pool *p) { return p ? p->threads : 1; }

static void tp__pool_run(tp_pool *p, int64_t n, tp_chunk_fn fn, void *user)
{
    /* 1. Publish all chunks except the first few, which the caller keeps. */
    p->fn = fn;
    p->user = user;
    p->n = n;
    p->watch = tp__watching;
    while (p->watch && p->watch->pool != p) p->watch = p->watch->next;
    const int64_t first = tp__pool_share(p, n);
    __atomic_store_n(&p->left, n - first, __ATOMIC_SEQ_CST);

    /* 2. Wake sleeping workers, at most as many as there are chunks for. */
    int sleepers = __atomic_load_n(&p->sleepers, __ATOMIC_SEQ_CST);
    if (p->spin > 0 && (sleepers > 0 || p->runs++ % TP__LOOK_AROUND == 0))
        __atomic_store_n(&p->caller_processor, tp__os_processor(), __ATOMIC_RELAXED);
    if (sleepers > 0) {
        tp__os_lock(&p->lock);
        tp__os_unlock(&p->lock);
        if (n - 1 >= sleepers) tp__os_broadcast(&p->wake);
        else
            for (int64_t i = 0; i < n - 1; i++) tp__os_signal(&p->wake);
    }

    /* 3. Work, then wait for the chunks that workers have claimed. */
    tp__run_on_caller(first, fn, user);
    p->claimed += n - first - tp__pool_work(p, -1);
    if (__atomic_load_n(&p->finished, __ATOMIC_ACQUIRE) == p->claimed ||
        tp__spin_until(&p->finished, true, p->claimed, p->spin))
        return;
    tp__os_lock(&p->lock);
    /* An exchange, not a store: some Arm emulators move the load below before a store, and then no worker wakes the caller. */
    (void)__atomic_exchange_n(&p->caller_sleeps, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&p->finished, __ATOMIC_SEQ_CST) != p->claimed) tp__os_wait(&p->done, &p->lock);
    __atomic_store_n(&p->caller_sleeps, 0, __ATOMIC_SEQ_CST);
    tp__os_unlock(&p->lock);
}

TP_DEF void tp_pool_run(tp_pool *p, int64_t n, tp_chunk_fn fn, void *user)
{
    TP__REQUIRE(fn, )
    if (n <= 0) return;
    unsigned mode = tp__float_mode_enter();
    if (n == 1 || !p || p->threads == 1 || p->process != tp__os_pid()) {
        tp__run_on_caller(n, fn, user);
    } else {
        tp__os_lock(&p->run_lock);
        tp__pool_run(p, n, fn, user);
        tp__os_unlock(&p->run_lock);
    }
    tp__float_mode_leave(mode);
}

#endif /* threads */

/* -- single threads, locks and conditions --------------------------------------------------------------- */

struct tp_mutex {
    tp__os_mutex m;
};
struct tp_cond {
    tp__os_cond c;
};

#ifdef TP_NO_THREADS
TP_DEF tp_status tp_thread_start(tp_thread **t, void (*fn)(void *), void *user)
{
    if (t) *t = NULL;
    TP__REQUIRE(t && fn, TP_ERR_ARG)
    (void)user;
    return tp_fail(TP_ERR_UNSUPPORTED, "threads: this program was built with TP_NO_THREADS");
}
TP_DEF void tp_thread_join(tp_thread *t) { (void)t; }
TP_DEF void tp_thread_detach(tp_thread *t) { (void)t; }
#else
struct tp_thread {
    tp__os_thread id;
    void (*fn)(void *);
    void *user;
    /* Atomic. 1: the thread has ended, or it was detached. The later of these two events frees the struct. */
    int ended_or_detached;
};

TP__OS_THREAD(tp__thread_main, user)
{
    tp_thread *t = (tp_thread *)user;
    tp__float_mode_enter();
    t->fn(t->user);
    if (__atomic_exchange_n(&t->ended_or_detached, 1, __ATOMIC_ACQ_REL)) tp_free(t);
    TP__OS_THREAD_END;
}

TP_DEF tp_status tp_thread_start(tp_thread **t, void (*fn)(void *), void *user)
{
    if (t) *t = NULL;
    TP__REQUIRE(t && fn, TP_ERR_ARG)

    tp_thread *fresh = (tp_thread *)tp_calloc(1, sizeof(tp_thread));
    if (!fresh) return TP_ERR_NOMEM;
    fresh->fn = fn;
    fresh->user = user;
    int err = tp__os_thread_start(&fresh->id, tp__thread_main, fresh);
    if (err) {
        tp_free(fresh);
        return tp_fail(TP_ERR, "threads: cannot start a thread: %s" TP__FEWER_THREADS, strerror(err));
    }
    *t = fresh;
    return TP_OK;
}

TP_DEF void tp_thread_join(tp_thread *t)
{
    if (!t) return;
    tp__os_thread_join(t->id);
    tp_free(t);
}

TP_DEF void tp_thread_detach(tp_thread *t)
{
    if (!t) return;
    tp__os_thread_detach(t->id);
    if (__atomic_exchange_n(&t->ended_or_detached, 1, __ATOMIC_ACQ_REL)) tp_free(t);
}
#endif

TP__SMALL TP_DEF tp_mutex *tp_mutex_new(void)
{
    tp_mutex *m = (tp_mutex *)tp_calloc(1, sizeof(tp_mutex));
    if (m && tp__os_mutex_init(&m->m) != 0) {
        tp_fail(TP_ERR_NOMEM, "threads: the system has no room for another mutex");
        tp_free(m);
        return NULL;
    }
    return m;
}

TP_DEF void tp_mutex_free(tp_mutex *m)
{
    if (!m) return;
    tp__os_mutex_free(&m->m);
    tp_free(m);
}

TP_DEF void tp_mutex_lock(tp_mutex *m)
{
    if (m) tp__os_lock(&m->m);
}

TP_DEF void tp_mutex_unlock(tp_mutex *m)
{
    if (m) tp__os_unlock(&m->m);
}

TP__SMALL TP_DEF tp_cond *tp_cond_new(void)
{
    tp_cond *c = (tp_cond *)tp_calloc(1, sizeof(tp_cond));
    if (c && tp__os_cond_init(&c->c) != 0) {
        tp_fail(TP_ERR_NOMEM, "threads: the system has no room for another condition");
        tp_free(c);
        return NULL;
    }
    return c;
}

TP_DEF void tp_cond_free(tp_cond *c)
{
    if (!c) return;
    tp__os_cond_free(&c->c);
    tp_free(c);
}

TP_DEF void tp_cond_wait(tp_cond *c, tp_mutex *m)
{
    if (c && m) tp__os_wait(&c->c, &m->m);
}

TP_DEF bool tp_cond_wait_for(tp_cond *c, tp_mutex *m, double seconds)
{
    if (!c || !m) return false;
    if (!(seconds > 0)) seconds = 0; /* a negative time or NaN becomes 0 */
    if (seconds > 1e8) seconds = 1e8;
    return tp__os_wait_for(&c->c, &m->m, seconds);
}

TP_DEF void tp_cond_signal(tp_cond *c)
{
    if (c) tp__os_signal(&c->c);
}

TP_DEF void tp_cond_broadcast(tp_cond *c)
{
    if (c) tp__os_broadcast(&c->c);
}

TP__COLD_BEGIN

/* ==== >>device ======================================================================================== */

/* Finds the vector kernels of an instruction set by name (NULL: the best of this machine). NULL with *st TP_OK: the
 * naive loops. */
static const struct tp__isa *tp__isa_choose(const char *name, tp_status *st, bool *amx);
static const char *tp__isa_name(const struct tp__isa *isa);

#ifdef TP__NO_SYSTEM
#define TP__CPU_KERNELS 16 /* embedded targets have little memory */
#else
#define TP__CPU_KERNELS 256
#endif
#define TP__KERNEL_NAME 64

/* The threads that several CPU devices made by one call of tp_cpu_devices_new share. */
typedef struct tp__cpu_threads {
    tp_pool *pool;
    int users;
} tp__cpu_threads;

typedef struct tp__cpu {
    tp__cpu_threads *threads; /* the pool that was made with the device; d->pool may be set to another pool later */
    int64_t used, peak;       /* atomic: allocated bytes, now and at most */
    double last_query_time,
        last_cpu_time; /* tp_time, and the processor time of the process, at the last query of the utilization */
    int n;
    char name[TP__CPU_KERNELS][TP__KERNEL_NAME];
    tp_kernel_fn fn[TP__CPU_KERNELS];
} tp__cpu;

static void *tp__cpu_alloc(tp_device *d, size_t bytes)
{
    tp__cpu *cpu = (tp__cpu *)d->impl;
    void *p = tp_alloc_aligned(bytes);
    if (!p) return NULL;
    const int64_t used = TP__WIDE_ADD(&cpu->used, (int64_t)bytes);
    int64_t peak = TP__WIDE_LOAD(&cpu->peak);
    while (used > peak && !TP__WIDE_SWAP(&cpu->peak, &peak, used))
        ;
    return p;
}

static void tp__cpu_free(tp_device *d, void *p)
{
    if (!p) return;
    (void)TP__WIDE_ADD(&((tp__cpu *)d->impl)->used, -(int64_t)tp__aligned_head(p).size);
    tp_free_aligned(p);
}

static tp_status tp__cpu_memory(tp_device *d, tp_memory_use *m)
{
    const tp__cpu *cpu = (const tp__cpu *)d->impl;
    tp__os_memory(&m->total, &m->available);
    m->used = TP__WIDE_LOAD(&cpu->used);
    m->peak = TP__WIDE_LOAD(&cpu->peak);
    return TP_OK;
}

static double tp__cpu_utilization(tp_device *d)
{
    tp__cpu *cpu = (tp__cpu *)d->impl;
    const double now = tp_time(), worked = tp__os_cpu_clock();
    const double could = (now - cpu->last_query_time) * tp_pool_threads(d->pool), did = worked - cpu->last_cpu_time;
    cpu->last_query_time = now;
    cpu->last_cpu_time = worked;
    return could > 0 && did > 0 ? 100 * did / could : 0;
}

static tp_status tp__cpu_copy(tp_device *d, void *dst, const void *src, size_t bytes)
{
    (void)d;
    if (bytes) tp__copy_bytes(dst, src, bytes);
    return TP_OK;
}

static int tp__cpu_kernel_index(const tp__cpu *cpu, const char *op)
{
    for (int i = 0; i < cpu->n; i++)
        if (strcmp(cpu->name[i], op) == 0) return i;
    return -1;
}

static tp_kernel_fn tp__cpu_find_kernel(tp_device *d, const char *op)
{
    const tp__cpu *cpu = (const tp__cpu *)d->impl;
    int i = tp__cpu_kernel_index(cpu, op);
    return i < 0 ? NULL : cpu->fn[i];
}

static tp_status tp__cpu_wait(tp_device *d)
{
    (void)d; /* nothing to wait for: on the CPU a kernel is done when it returns */
    return TP_OK;
}

static void tp__cpu_close(tp_device *d)
{
    if (!d) return;
    tp__cpu *cpu = (tp__cpu *)d->impl;
    if (cpu && cpu->threads && TP__WIDE_ADD(&cpu->threads->users, -1) == 0) {
        tp_pool_free(cpu->threads->pool);
        tp_free(cpu->threads);
    }
    tp_free(cpu);
    tp_free(d);
}

/* Add `change` (1 or -1) to the device's users; at 0 the device is freed. No effect without tp_device_ready. */
static void tp__device_use(tp_device *d, int change)
{
    if (d->destroy && TP__WIDE_ADD(&d->users_, change) == 0) d->destroy(d);
}
static void tp__device_close(tp_device *d)
{
    if (!d) return;
    if (d->closed_) {
        tp_fail(TP_ERR_STATE, "%s was closed already; it stays until the sessions and tensors on it are freed",
                d->name);
        return;
    }
    d->closed_ = true;
    tp__device_use(d, -1);
}
TP_DEF tp_device *tp_device_ready(tp_device *d)
{
    /* d is NULL if opening the device failed; then the error is set already */
    if (!d && !tp_last_error()[0]) tp_fail(TP_ERR_ARG, "there is no device");
    if (!d || d->destroy) return d;
    d->destroy = d->close;
    d->close = tp__device_close;
    d->users_ = 1;
    return d;
}

/* CPU device number `index`, which uses the threads of `share` or, if that is NULL, `threads` threads of its own. */
static tp_device *tp__cpu_device_make(int index, const tp_device *share, int threads, const struct tp__isa *isa)
{
    tp_device *d = (tp_device *)tp_calloc(1, sizeof(tp_device));
    if (!d) return NULL;
    d->abi = TP_ABI;
    tp__format(d->name, sizeof d->name, "cpu:%d", index);
    d->host = true;
    d->alloc = tp__cpu_alloc;
    d->free = tp__cpu_free;
    d->upload = tp__cpu_copy;
    d->download = tp__cpu_copy;
    d->copy = tp__cpu_copy;
    d->find_kernel = tp__cpu_find_kernel;
    d->wait = tp__cpu_wait;
    d->memory = TP__HAS_TRACE ? tp__cpu_memory : NULL;
    d->utilization = TP__HAS_TRACE ? tp__cpu_utilization : NULL;
    d->close = tp__cpu_close;
    d->isa = isa;

    tp__cpu *cpu = (tp__cpu *)tp_calloc(1, sizeof(tp__cpu));
    d->impl = cpu;
    if (cpu && share) {
        cpu->threads = ((const tp__cpu *)share->impl)->threads;
        (void)TP__WIDE_ADD(&cpu->threads->users, 1);
    } else if (cpu && (cpu->threads = (tp__cpu_threads *)tp_calloc(1, sizeof(tp__cpu_threads))) != NULL) {
        cpu->threads->users = 1;
        cpu->threads->pool = tp_pool_new(threads);
    }
    if (cpu) cpu->last_query_time = tp_time(), cpu->last_cpu_time = tp__os_cpu_clock();
    if (cpu && cpu->threads) d->pool = cpu->threads->pool;
    if (!d->pool) {
        tp__cpu_close(d);
        return NULL;
    }
    return tp_device_ready(d);
}

TP_DEF tp_status tp_cpu_devices_new(int n, int threads, const char *isa, tp_device **out)
{
    TP__REQUIRE(out, TP_ERR_ARG)

    tp_status st = TP_OK;
    if (n < 1) return tp_fail(TP_ERR_ARG, "%d CPU devices make no sense", n);
    for (int i = 0; i < n; i++) out[i] = NULL;
    if (threads < 0)
        return tp_fail(TP_ERR_ARG, "%d threads for a CPU device: give at least 1, or 0 for one per processor", threads);
#ifndef TP__NO_SYSTEM
    if (!isa) isa = getenv("TP_ISA");
#endif
    if (isa && !isa[0]) isa = NULL;
    bool amx;
    const struct tp__isa *chosen = tp__isa_choose(isa, &st, &amx);
    if (st != TP_OK) return st;
    for (int i = 0; i < n; i++) {
        out[i] = tp__cpu_device_make(i, i ? out[0] : NULL, threads, chosen);
        if (out[i]) {
            out[i]->amx = amx;
            continue;
        }
        while (--i >= 0) {
            tp__cpu_close(out[i]);
            out[i] = NULL;
        }
        return tp__error_status; /* memory, or the system's limit on threads: the sentence says which */
    }
    return TP_OK;
}

TP_DEF tp_device *tp_cpu_device_new(int threads, const char *isa)
{
    tp_device *d = NULL;
    return tp_cpu_devices_new(1, threads, isa, &d) == TP_OK ? d : NULL;
}

TP_DEF const char *tp_device_isa(const tp_device *d)
{
    TP__REQUIRE(d, "")

    return !d->host ? d->name : d->amx ? "amx" : d->isa ? tp__isa_name(d->isa) : "naive";
}

TP_DEF tp_status tp_device_memory(tp_device *d, tp_memory_use *m)
{
    TP__REQUIRE(d && m, TP_ERR_ARG)

    m->total = m->available = m->used = m->peak = -1;
    return d->memory ? d->memory(d, m) : TP_OK;
}

TP_DEF double tp_device_utilization(tp_device *d)
{
    TP__REQUIRE(d, -1)
    return d->utilization ? d->utilization(d) : -1;
}

TP_DEF tp_status tp_device_add_kernel(tp_device *d, const char *op, tp_kernel_fn fn)
{
    TP__REQUIRE(d && op, TP_ERR_ARG)

    if (d->close != tp__cpu_close && d->destroy != tp__cpu_close)
        return tp_fail(TP_ERR_UNSUPPORTED, "device %s: kernels can be added to CPU devices only", d->name);
    if (!op || !op[0] || strlen(op) >= TP__KERNEL_NAME || !fn)
        return tp_fail(TP_ERR_ARG, "device %s: a kernel needs a function and an op's name of 1 to %d bytes", d->name,
                       TP__KERNEL_NAME - 1);
    tp__cpu *cpu = (tp__cpu *)d->impl;
    int i = tp__cpu_kernel_index(cpu, op);
    if (i < 0) {
        if (cpu->n == TP__CPU_KERNELS)
            return tp_fail(TP_ERR_NOMEM, "device %s: no room for a kernel of '%s', %d were added already", d->name, op,
                           TP__CPU_KERNELS);
        i = cpu->n++;
        memcpy(cpu->name[i], op, strlen(op) + 1);
    }
    cpu->fn[i] = fn;
    return TP_OK;
}

/* fault[0] is 0 or the fault_id of the op that had a fault; only the thread that sets fault[0] writes the
 * value to fault[1]. */
TP_DEF void tp_kernel_fault(const tp_call *k, int64_t value)
{
    TP__REQUIRE(k, )

    int64_t none = 0;
    TP_ASSERT(k->fault_id != 0);
    if (k->fault && TP__WIDE_SWAP(&k->fault[0], &none, k->fault_id)) k->fault[1] = value;
}

TP_DEF void tp_device_parallel(tp_device *d, int64_t n, tp_chunk_fn fn, void *user)
{
    TP__REQUIRE(fn, )
    tp_pool_run(d ? d->pool : NULL, n, fn, user); /* runs on the calling thread if d has no pool */
}

TP__COLD_END

/* ==== >>engine: implementation ========================================================================= */
/* Every function has two versions. The naive loop here defines the result and reads like the formula. The version for devices with
 * a vector instruction set (d->isa) is in tp_fast.h. */

#include <float.h>
#include <math.h>
#include <string.h>

/* clang-format off */
#define TP__VECS(X) \
    X(add) X(sub) X(mul) X(div) X(max) X(min) X(neg) X(abs) X(square) X(sqrt) X(rsqrt) X(reciprocal) X(exp) X(log) X(tanh) \
    X(sigmoid) X(relu) X(relu_grad) X(erf) X(softplus) X(elu) X(elu_grad) \
    X(sign) X(affine) X(clip) X(clip_grad) X(leaky_relu) X(leaky_relu_grad) X(sin) X(cos) X(asin) X(acos) X(atan) X(pow) \
    X(floor) X(ceil) X(round) X(floordiv) X(mod)
/* clang-format on */
#define TP__PARTS     32  /* largest number of partial sums of a reduction */
#define TP__WHOLE_SUM 512 /* matrix products with K up to this are not split along K: one sum from k = 0 to K - 1 */

/* Returns c - rate * sum. The product is rounded first, so the result equals that of two separate operations (no fused multiply-add). */
TP__UNUSED static float tp__descend_value(float c, float rate, float sum)
{
    volatile float step = rate * sum;
    return c - step;
}

/* -- scalar maths ------------------------------------------------------------------------------ >>engine_maths */

#define TP__LOG2E   1.44269504f
#define TP__LN2_HI  0.693359375f /* the upper bits of ln 2: few, so that k LN2_HI is exact for |k| < 2^15 */
#define TP__LN2_LO  -2.12194440e-4f
#define TP__ROUNDER 12582912.0f /* 1.5 * 2^23: x + ROUNDER has round(x) in its low bits */

/* Coefficients are Chebyshev fits; TP__EXP_3 is the coefficient of the third power, and so on. */
#define TP__EXP_2 0.5f
#define TP__EXP_3 0.1666666668f
#define TP__EXP_4 0.0416664642f
#define TP__EXP_5 0.008333310845f
#define TP__EXP_6 0.001393373072f
#define TP__EXP_7 0.0001989108046f

#define TP__SQRT_HALF_BITS 0x3f3504f3
#define TP__LOG_3          0.3333333118f
#define TP__LOG_4          -0.2499999696f
#define TP__LOG_5          0.2000071575f
#define TP__LOG_6          -0.1666780232f
#define TP__LOG_7          0.1424905765f
#define TP__LOG_8          -0.1242568733f
#define TP__LOG_9          0.1168541992f
#define TP__LOG_10         -0.1147973385f
#define TP__LOG_11         0.06971611471f

#define TP__TANH_SMALL 0.625f
#define TP__TANH_3     -0.3333332843f
#define TP__TANH_5     0.1333271885f
#define TP__TANH_7     -0.05384326318f
#define TP__TANH_9     0.02096132911f
#define TP__TANH_11    -0.006045165097f

#define TP__ERF_NEAR_0 0.128379166f
#define TP__ERF_NEAR_1 -0.37612626f
#define TP__ERF_NEAR_2 0.112835787f
#define TP__ERF_NEAR_3 -0.0268533472f
#define TP__ERF_NEAR_4 0.0051871622f
#define TP__ERF_NEAR_5 -0.00079978531f
#define TP__ERF_NEAR_6 7.80690316e-05f
#define TP__ERF_FAR_0  -0.000353719486f
#define TP__ERF_FAR_1  -1.12704003f
#define TP__ERF_FAR_2  -0.638225675f
#define TP__ERF_FAR_3  -0.103037417f
#define TP__ERF_FAR_4  0.0218053851f
#define TP__ERF_FAR_5  -0.00293964241f
#define TP__ERF_FAR_6  0.000185580502f

static float tp__pow2(int e) { return tp__bits_float((uint32_t)(e + 127) << 23); } /* -126 <= e <= 127 */

/* exp(x) = 2^k (1 + rest) with k = round(x / ln 2), for |x| <= 104. Returns rest = exp(r) - 1 = r + r^2 q(r), where r = x - k ln 2
 * and |r| <= ln(2)/2. */
static float tp__exp_fraction(float x, int *k)
{
    float n = (x * TP__LOG2E + TP__ROUNDER) - TP__ROUNDER;
    float r = (x - n * TP__LN2_HI) - n * TP__LN2_LO;
    float q = TP__EXP_7 * r + TP__EXP_6;
    q = q * r + TP__EXP_5;
    q = q * r + TP__EXP_4;
    q = q * r + TP__EXP_3;
    q = q * r + TP__EXP_2;
    *k = (int)n;
    return r * r * q + r;
}

/* 2^k is multiplied as two factors, so that a subnormal result is rounded once and overflow gives infinity. */
TP_DEF float tp_expf(float x)
{
    if (x != x) return x;
    if (x > 89.0f) return INFINITY;
    if (x < -104.0f) return 0.0f;
    int k;
    float p = 1.0f + tp__exp_fraction(x, &k);
    int half = (k - (k < 0)) / 2;
    return p * tp__pow2(half) * tp__pow2(k - half);
}

/* exp(x) - 1 = 2^k rest + (2^k - 1) for x <= 0. Below -80 it is -1. */
TP__UNUSED static float tp__expm1f(float x)
{
    if (x == 0.0f || x != x) return x; /* -0 stays -0 */
    int k;
    float fraction = tp__exp_fraction(x < -80.0f ? -80.0f : x, &k), power = tp__pow2(k);
    return fraction * power + (power - 1.0f);
}

/* Returns k ln 2 + log(1+f) with 1+f in [sqrt(1/2), sqrt(2)); log(1+f) = f - f^2/2 + f^3 q(f). */
static float tp__log_sum(float k, float f)
{
    float f2 = f * f, q = TP__LOG_11 * f + TP__LOG_10;
    q = q * f + TP__LOG_9;
    q = q * f + TP__LOG_8;
    q = q * f + TP__LOG_7;
    q = q * f + TP__LOG_6;
    q = q * f + TP__LOG_5;
    q = q * f + TP__LOG_4;
    q = q * f + TP__LOG_3;
    float low = f2 * f * q + k * TP__LN2_LO;
    low = f2 * -0.5f + low;
    return k * TP__LN2_HI + (f + low);
}

/* log(x) = k ln 2 + log(1+f): k is the exponent of x, and 1+f its mantissa. */
TP_DEF float tp_logf(float x)
{
    if (x != x || x == INFINITY) return x;
    if (x < 0.0f) return NAN;
    if (x == 0.0f) return -INFINITY;
    int sub = 0;
    if (x < FLT_MIN) { /* subnormal numbers: scale them up first */
        x *= 8388608.0f;
        sub = 23;
    }
    int32_t bits = (int32_t)tp__float_bits(x), above = bits - TP__SQRT_HALF_BITS;
    int e = (above >= 0 ? above : above - 8388607) / 8388608; /* the division rounds down, also for negative numbers */
    return tp__log_sum((float)(e - sub), tp__bits_float((uint32_t)(bits - e * 8388608)) - 1.0f);
}

/* log(1+e) for 0 <= e <= 1. Where 1+e is above sqrt(2), it is 2 (1+f); f = (e-1)/2 is exact for e >= 1/2. */
#define TP__SQRT_TWO_LESS_ONE 0.414213562f
TP__UNUSED static float tp__log1pf(float e)
{
    return e > TP__SQRT_TWO_LESS_ONE ? tp__log_sum(1.0f, e * 0.5f - 0.5f) : tp__log_sum(0.0f, e);
}

/* tanh(x) = x + x^3 q(x^2) near zero, else 1 - 2/(exp(2|x|)+1) with the sign of x. */
TP_DEF float tp_tanhf(float x)
{
    float a = x < 0.0f ? -x : x, u = x * x;
    if (x == 0.0f) return x; /* tanh(-0) is -0 */
    if (a < TP__TANH_SMALL) {
        float q = (((TP__TANH_11 * u + TP__TANH_9) * u + TP__TANH_7) * u + TP__TANH_5) * u + TP__TANH_3;
        return x + x * u * q;
    }
    float y = 1.0f - 2.0f / (tp_expf(a + a) + 1.0f);
    return x < 0.0f ? -y : y;
}

/* erf(x) = x + x q(x^2) for |x| < 1. Beyond, erf(x) = 1 - exp(p(|x|)), where p fits log(1 - erf); the result is 1 from |x| = 4 on. */
TP_DEF float tp_erff(float x)
{
    float a = x < 0.0f ? -x : x, u = x * x;
    if (x != x) return x;
    if (a < 1.0f) {
        float q = TP__ERF_NEAR_6 * u + TP__ERF_NEAR_5;
        q = q * u + TP__ERF_NEAR_4;
        q = q * u + TP__ERF_NEAR_3;
        q = q * u + TP__ERF_NEAR_2;
        q = q * u + TP__ERF_NEAR_1;
        q = q * u + TP__ERF_NEAR_0;
        return x * q + x;
    }
    if (a > 4.0f) a = 4.0f;
    float p = TP__ERF_FAR_6 * a + TP__ERF_FAR_5;
    p = p * a + TP__ERF_FAR_4;
    p = p * a + TP__ERF_FAR_3;
    p = p * a + TP__ERF_FAR_2;
    p = p * a + TP__ERF_FAR_1;
    p = p * a + TP__ERF_FAR_0;
    float y = 1.0f - tp_expf(p);
    return x < 0.0f ? -y : y;
}

/* Sine, cosine, arc tangent and power are computed in double, so that only the last rounding matters. The vector versions do the same
 * operations and give the same bits. Coefficients are Chebyshev fits, that of the highest power first. */
static uint64_t tp__double_bits(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
static double tp__bits_double(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}
/* A polynomial: c[0] x^(n-1) + ... + c[n-1]. */
static double tp__horner(const double *c, int n, double x)
{
    double y = c[0];
    for (int i = 1; i < n; i++) y = tp__mul_add(y, x, c[i]);
    return y;
}

#define TP__TWO_OVER_PI   0.63661977236758134308
#define TP__HALF_PI_HI    1.57079632673412561417 /* 33 bits of pi/2, so that n HALF_PI_HI is exact for |n| < 2^20 */
#define TP__HALF_PI_LO    6.07710050650619224932e-11
#define TP__MOST_OF_SINES 1e6f /* beyond, where floats are very coarse, libm is used */
static const double tp__sin_series[4] = {2.7183042325467496e-06, -0.00019839334083323023, 0.0083333293835827407,
                                         -0.16666666641606995};
static const double tp__cos_series[4] = {2.4383482768239671e-05, -0.0013886680750505834, 0.041666620328752471,
                                         -0.49999999694224989};

/* Computes sin(x), or cos(x) if `quarter` is 1: x = n pi/2 + r with |r| <= pi/4, then sin(r) = r (1 + r^2 S(r^2)) and
 * cos(r) = 1 + r^2 C(r^2). */
TP__UNUSED static float tp__sinf(float x, uint32_t quarter)
{
    if (!(x > -TP__MOST_OF_SINES && x < TP__MOST_OF_SINES))
        return quarter ? (float)cos((double)x) : (float)sin((double)x);
    /* the sum rounds to a whole number, which is in its low bits */
    const uint32_t n = (uint32_t)tp__double_bits(tp__mul_add((double)x, TP__TWO_OVER_PI, TP__ROUND_DOUBLE));
    double r = tp__mul_add((double)(int32_t)n, -TP__HALF_PI_HI, (double)x);
    r = tp__mul_add((double)(int32_t)n, -TP__HALF_PI_LO, r);
    const double z = r * r;
    const double s = tp__mul_add(tp__horner(tp__sin_series, TP_COUNT(tp__sin_series), z), z, 1.0) * r;
    const double c = tp__mul_add(tp__horner(tp__cos_series, TP_COUNT(tp__cos_series), z), z, 1.0);
    const double y = (n + quarter) & 1 ? c : s;
    return (float)((n + quarter) & 2 ? -y : y);
}
TP__UNUSED static float tp__sine(float x) { return tp__sinf(x, 0); }
TP__UNUSED static float tp__cosine(float x) { return tp__sinf(x, 1); }

#define TP__SQRT_THREE  1.73205080756887729353
#define TP__TAN_TWELFTH 0.26794919243112270647 /* tan(pi/12) */
#define TP__SIXTH_OF_PI 0.52359877559829887308
#define TP__HALF_PI     1.57079632679489661923
/* 1/17, -1/15, ..., -1/3, 1 */
static const double tp__atan_series[9] = {1.0 / 17, -1.0 / 15, 1.0 / 13, -1.0 / 11, 1.0 / 9,
                                          -1.0 / 7, 1.0 / 5,   -1.0 / 3, 1.0};

/* Computes atan(x), much more exact than a float: |x| is reduced below tan(pi/12) by atan(x) = pi/2 - atan(1/x) and by
 * atan(x) = pi/6 + atan((x sqrt 3 - 1) / (x + sqrt 3)); then the series x - x^3/3 + ... is summed. */
static double tp__arctan(double x)
{
    double a = fabs(x), turn = 0;
    const bool inverse = a > 1;
    if (inverse) a = 1 / a;
    if (a > TP__TAN_TWELFTH) {
        a = tp__mul_add(a, TP__SQRT_THREE, -1.0) / (a + TP__SQRT_THREE);
        turn = TP__SIXTH_OF_PI;
    }
    a = tp__mul_add(a, tp__horner(tp__atan_series, TP_COUNT(tp__atan_series), a * a), turn);
    return copysign(inverse ? TP__HALF_PI - a : a, x);
}
TP__UNUSED static float tp__atanf(float x) { return (float)tp__arctan((double)x); }
TP__UNUSED static float tp__asinf(float x)
{
    return (float)tp__arctan((double)x / sqrt((1.0 - (double)x) * (1.0 + (double)x)));
}
TP__UNUSED static float tp__acosf(float x)
{
    return (float)(2 * tp__arctan(sqrt((1.0 - (double)x) / (1.0 + (double)x))));
}

#define TP__SQRT_HALF_DOUBLE_BITS 0x3fe6a09e667f3bcdu
#define TP__MOST_OF_POWERS        160.0 /* 2^160 and 2^-160 are infinity and 0 as floats */
static const double tp__log2_series[6] = {0.2829137313418767,  0.31990474028557903, 0.41220927594450352,
                                          0.57707794213002617, 0.96179669411414515, 2.8853900817778495};
static const double tp__exp2_series[8] = {1.5201900603651451e-05, 0.00015469317296564738, 0.0013333922857301122,
                                          0.0096180271727893327,  0.055504103528310166,   0.2402265119875451,
                                          0.69314718072871628,    0.99999999996162148};

/* a^b = 2^(b log2(a)) for a > 0: a = 2^k m with m in [sqrt(1/2), sqrt(2)); log2(m) = f L(f^2) with f = (m-1)/(m+1). */
static double tp__pow_positive(double a, double b)
{
    const uint64_t bits = tp__double_bits(a);
    const uint64_t k =
        (bits - TP__SQRT_HALF_DOUBLE_BITS + (UINT64_C(1024) << 52)) >> 52; /* the exponent of x, plus 1024 */
    const double m = tp__bits_double(bits - ((k - 1024) << 52)), f = (m - 1) / (m + 1);
    double t =
        tp__mul_add(tp__horner(tp__log2_series, TP_COUNT(tp__log2_series), f * f), f, (double)(int)k - 1024.0) * b;
    if (t > TP__MOST_OF_POWERS) t = TP__MOST_OF_POWERS;
    if (t < -TP__MOST_OF_POWERS) t = -TP__MOST_OF_POWERS;
    const int n = (int32_t)(uint32_t)tp__double_bits(t + TP__ROUND_DOUBLE); /* t to the nearest whole number */
    const double y = tp__horner(tp__exp2_series, TP_COUNT(tp__exp2_series), t - (double)n);
    return y * tp__bits_double((uint64_t)(n + 1023) << 52);
}

/* Computes C's pow for floats: a negative base needs a whole exponent. */
TP__UNUSED static float tp__powf(float a, float b)
{
    if (b == 0.0f || a == 1.0f) return 1.0f;
    if (a != a || b != b) return a + b;
    const bool whole = floorf(b) == b, odd = whole && fabsf(b) < 16777216.0f && fmodf(b, 2.0f) != 0.0f;
    const float size = fabsf(a);
    float y;
    if (a < 0.0f && !whole && !isinf(a)) return NAN;
    if (isinf(b)) y = size == 1.0f ? 1.0f : (size > 1.0f) == (b > 0.0f) ? INFINITY : 0.0f;
    else if (size == 0.0f) y = b > 0.0f ? 0.0f : INFINITY;
    else if (isinf(size)) y = b > 0.0f ? INFINITY : 0.0f;
    else if (b == 1.0f) y = size;
    else if (b == 2.0f) y = size * size;
    else if (b == 0.5f) y = sqrtf(size);
    else if (b == -1.0f) y = 1.0f / size;
    else y = (float)tp__pow_positive((double)size, (double)b);
    return odd && signbit(a) ? -y : y;
}

/* Computes a - floor(a / b) b, exactly: C's remainder, with the sign of b. */
TP__UNUSED static float tp__modf(float a, float b)
{
    const float r = fmodf(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* -- naive sums -------------------------------------------------------------------------------------- >>naive sum */
/* A sum has 32 lanes: element i is added to lane i mod 32, and a tree adds the lanes. This is also the order of the fast path. */

static float tp__add_32_lanes(float *lane)
{
    for (int i = 0; i < 16; i++) lane[i] += lane[i + 16]; /* constant lengths, so that the loops are vectorised */
    for (int i = 0; i < 8; i++) lane[i] += lane[i + 8];
    for (int i = 0; i < 4; i++) lane[i] += lane[i + 4];
    return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

/* The larger of two numbers; NaN if one is NaN. */
static float tp__max2(float a, float b) { return a > b || a != a ? a : b; }

static float tp__sum_naive(int64_t n, const float *x)
{
    float lane[32] = {0};
    for (int64_t i = 0; i < n; i++) lane[i % 32] += x[i];
    return tp__add_32_lanes(lane);
}

static float tp__dot_naive(int64_t n, const float *x, const float *y)
{
    float lane[32] = {0};
    for (int64_t i = 0; i < n; i++) lane[i % 32] += x[i] * y[i];
    return tp__add_32_lanes(lane);
}

static float tp__max_naive(int64_t n, const float *x)
{
    float best = -INFINITY;
    for (int64_t i = 0; i < n; i++) best = tp__max2(best, x[i]);
    return best;
}

static void tp__adam_naive(int64_t n, float *w, float *m, float *v, const float *g, float lr, float c1, float c2,
                           float eps)
{
    for (int64_t i = 0; i < n; i++) {
        m[i] += (g[i] - m[i]) * c1;
        v[i] += (g[i] * g[i] - v[i]) * c2;
        w[i] -= lr * m[i] / (sqrtf(v[i]) + eps);
    }
}

/* ==== >>fast: the engine part of tp_fast.h ============================================================= */

/* How resize makes one row, or one pixel of a row: y = (1 - part) x[low] + part x[high]. */
typedef struct tp__blend {
    int64_t low, high;
    double part;
} tp__blend;

#if TP__FAST
#define TP__FAST_ENGINE
#include "tp_fast.h"
#undef TP__FAST_ENGINE
#else
TP__SMALL static const struct tp__isa *tp__isa_choose(const char *name, tp_status *st, bool *amx)
{
    *amx = false;
    *st = TP_OK;
    if (name && *name && strcmp(name, "naive") != 0)
        *st = tp_fail(
            TP_ERR_UNSUPPORTED,
            "instruction set '%s' is unknown or not available here; this program has only: naive; " TP__FAST_LACKS,
            name);
    return NULL;
}
#endif
static const char *tp__isa_name(const struct tp__isa *isa) { return isa ? TP__IF_FAST(isa->name, "") : "naive"; }

/* Log once per process why the CPU computes slowly, unless TP_NAIVE was defined. */
TP__UNUSED static void tp__log_if_slow(void)
{
#if !TP__FAST && !defined(TP_NAIVE)
    tp_log_once(TP_LOG_INFO, "the CPU computes with plain loops, which are slow: " TP__FAST_LACKS);
#endif
}

/* ==== >>engine: the public functions ==================================================================== */

#define X(name_)                                                                                       \
    TP_DEF tp_vec_fn tp_vec_find_##name_(tp_device *d)                                                 \
    {                                                                                                  \
        return d && d->isa ? TP__IF_FAST(tp__vec_##name_##_of[d->isa->level], (tp_vec_fn)NULL) : NULL; \
    }
TP__VECS(X)
#undef X

/* -- sums over an array: at most TP__PARTS pieces, each summed in 32 lanes; then a tree adds the pieces' sums --------- */

#define TP__SUM_PIECE 16384

enum tp__sum_kind { TP__SUM, TP__DOT, TP__MAX };
typedef struct tp__sum {
    tp_device *d;
    enum tp__sum_kind kind;
    int64_t n, piece;
    const float *x, *y;
    float part[TP__PARTS];
} tp__sum;

static void tp__sum_chunk(void *user, int64_t chunk)
{
    tp__sum *s = (tp__sum *)user;
    int64_t at = chunk * s->piece, n = s->n - at < s->piece ? s->n - at : s->piece;
    const float *x = s->x + at;
    const struct tp__isa *isa = s->d->isa;
    if (s->kind == TP__SUM) s->part[chunk] = isa ? TP__IF_FAST(isa->sum(n, x), 0) : tp__sum_naive(n, x);
    else if (s->kind == TP__DOT)
        s->part[chunk] = isa ? TP__IF_FAST(isa->dot(n, x, s->y + at), 0) : tp__dot_naive(n, x, s->y + at);
    else s->part[chunk] = isa ? TP__IF_FAST(isa->max(n, x), 0) : tp__max_naive(n, x);
}

static float tp__sum_run(tp_device *d, enum tp__sum_kind kind, int64_t n, const float *x, const float *y)
{
    tp__sum s;
    if (n <= 0) return kind == TP__MAX ? -INFINITY : 0.0f;
    s.d = d;
    s.kind = kind;
    s.n = n;
    s.x = x;
    s.y = y;
    int64_t parts = (n + TP__SUM_PIECE - 1) / TP__SUM_PIECE;
    if (parts > TP__PARTS) parts = TP__PARTS;
    s.piece = ((n + parts - 1) / parts + 31) / 32 * 32;
    parts = (n + s.piece - 1) / s.piece;
    if (parts == 1) {
        tp__sum_chunk(&s, 0);
        return s.part[0];
    }
    for (int i = 0; i < TP__PARTS; i++) s.part[i] = kind == TP__MAX ? -INFINITY : 0.0f;
    tp_device_parallel(d, parts, tp__sum_chunk, &s);
    return kind == TP__MAX ? tp__max_naive(parts, s.part) : tp__add_32_lanes(s.part);
}

TP_DEF float tp_vec_sum(tp_device *d, int64_t n, const float *x)
{
    TP__REQUIRE(d && (x || n <= 0), 0)
    return tp__sum_run(d, TP__SUM, n, x, NULL);
}
TP_DEF float tp_vec_dot(tp_device *d, int64_t n, const float *x, const float *y)
{
    TP__REQUIRE(d && ((x && y) || n <= 0), 0)

    return tp__sum_run(d, TP__DOT, n, x, y);
}
TP_DEF float tp_vec_max(tp_device *d, int64_t n, const float *x)
{
    TP__REQUIRE(d && (x || n <= 0), 0)
    return tp__sum_run(d, TP__MAX, n, x, NULL);
}

/* -- random numbers in blocks ------------------------------------------------------------------------------------ */

/* Fills `out` with random words, four for each of `blocks` blocks: out[4 i + w] is word w of tp_philox(key, first + i, step). */
static void tp__random_words(const struct tp__isa *isa, uint64_t key, uint64_t step, uint64_t first, int64_t blocks,
                             uint32_t *out)
{
    if (isa) TP__IF_FAST(tp__philox_of[isa->level](blocks, out, key, first, step), (void)0);
    else
        for (int64_t i = 0; i < blocks; i++) tp_philox(key, first + (uint64_t)i, step, out + 4 * i);
}

/* Two normal random numbers from each block of four words. */
static void tp__random_normals(const struct tp__isa *isa, int64_t blocks, const uint32_t *words, tp__wide *out)
{
    if (isa && TP__IF_FAST(tp__fast_normals(isa, blocks, words, out), false)) return;
    for (int64_t i = 0; i < blocks; i++) tp__normal_pair(words + 4 * i, out + 2 * i);
}

/* Elements i0 .. i0 + n of a distribution: uniform in [a,b), or normal with mean a and deviation b. TP__TRUNCATED redraws a value
 * more than two deviations from the mean; attempt k takes its random numbers at step + k * retry. i0 is a multiple of 4. */
typedef enum { TP__UNIFORM, TP__NORMAL, TP__TRUNCATED } tp__distribution;
#ifdef TP__NO_SYSTEM
#define TP__RANDOM_PIECE 16 /* a microcontroller has a small stack */
#else
#define TP__RANDOM_PIECE 512
#endif
TP__UNUSED static void tp__random_values(const struct tp__isa *isa, tp__distribution kind, tp__wide a, tp__wide b,
                                         uint64_t key, uint64_t step, uint64_t retry, int64_t i0, int64_t n,
                                         tp_dtype dtype, void *out)
{
    uint32_t words[2 * TP__RANDOM_PIECE];
    tp__wide v[TP__RANDOM_PIECE];
    for (int64_t at = 0; at < n; at += TP__RANDOM_PIECE) {
        const int64_t piece = n - at < TP__RANDOM_PIECE ? n - at : TP__RANDOM_PIECE;
        const uint64_t first = (uint64_t)(i0 + at);
        if (kind == TP__UNIFORM) {
            tp__random_words(isa, key, step, first / 4, (piece + 3) / 4, words);
            for (int64_t i = 0; i < piece; i++)
                v[i] = tp__wide_mul_add(b - a, (tp__wide)(words[i] >> 8) * (tp__wide)(1.0 / 16777216.0), a);
        } else {
            tp__random_words(isa, key, step, first / 2, (piece + 1) / 2, words);
            tp__random_normals(isa, (piece + 1) / 2, words, v);
            for (int64_t i = 0; i < piece; i++) {
                for (uint64_t k = 1; kind == TP__TRUNCATED && !(v[i] >= -2 && v[i] <= 2) && k < 1000; k++)
                    v[i] = tp__random_normal(key, step + k * retry, first + (uint64_t)i);
                v[i] = tp__wide_mul_add(b, v[i], a);
            }
        }
        if (dtype == TP_F32) /* the same conversion as tp_convert, but faster */
            for (int64_t i = 0; i < piece; i++) ((float *)out)[at + i] = (float)v[i];
        else tp_convert((char *)out + (size_t)at * tp_dtype_size(dtype), dtype, v, TP__WIDE_DTYPE, piece);
    }
}

/* -- adam: element-wise, so the array may be split anywhere --------------------------------------------------------- */

#define TP__ADAM_PIECE 16384

typedef struct tp__adam {
    tp_device *d;
    int64_t n;
    float *w, *m, *v;
    const float *g;
    float lr, c1, c2, eps;
} tp__adam;

static void tp__adam_chunk(void *user, int64_t chunk)
{
    const tp__adam *a = (const tp__adam *)user;
    int64_t i = chunk * TP__ADAM_PIECE, n = a->n - i < TP__ADAM_PIECE ? a->n - i : TP__ADAM_PIECE;
    float *w = a->w + i, *m = a->m + i, *v = a->v + i;
    if (a->d->isa)
        TP__IF_FAST(tp__adam_of[a->d->isa->level](n, w, m, v, a->g + i, a->lr, a->c1, a->c2, a->eps), (void)0);
    else tp__adam_naive(n, w, m, v, a->g + i, a->lr, a->c1, a->c2, a->eps);
}

TP_DEF void tp_vec_adam(tp_device *d, int64_t n, float *w, float *m, float *v, const float *g, float lr_t, float b1,
                        float b2, float eps)
{
    TP__REQUIRE(d && ((w && m && v && g) || n <= 0), )

    tp__adam a;
    if (n <= 0) return;
    a.d = d;
    a.n = n;
    a.w = w;
    a.m = m;
    a.v = v;
    a.g = g;
    a.lr = lr_t;
    a.c1 = 1.0f - b1;
    a.c2 = 1.0f - b2;
    a.eps = eps;
    tp_device_parallel(d, (n + TP__ADAM_PIECE - 1) / TP__ADAM_PIECE, tp__adam_chunk, &a);
}

/* ==== >>files ========================================================================================= */
/* Reading and writing whole files, checksums, deflate and inflate, and numpy's npy and npz. Every reader treats its
 * input as hostile: a size is used only after a comparison with the number of bytes that the file has. */

/* The largest size of a file or of an array in a file, if the caller gives no limit. */
static size_t tp__file_limit(size_t limit)
{
    uint64_t max_size = (uint64_t)16 << 30;
    if (limit) max_size = limit;
    return max_size < SIZE_MAX / 2 ? (size_t)max_size : SIZE_MAX / 2;
}

/* Read and write little-endian numbers at any address, on machines of any byte order. */
static uint32_t tp__le16(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }
static uint32_t tp__le32(const uint8_t *p) { return tp__le16(p) | tp__le16(p + 2) << 16; }
static uint64_t tp__le64(const uint8_t *p) { return (uint64_t)tp__le32(p) | (uint64_t)tp__le32(p + 4) << 32; }

static uint8_t *tp__put_le(uint8_t *p, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++) p[i] = (uint8_t)(v >> (8 * i));
    return p + bytes;
}

static bool tp__little_endian(void)
{
    uint16_t one = 1;
    uint8_t first;
    memcpy(&first, &one, 1);
    return first == 1;
}

/* A name from a file, for error sentences: without control characters, and shortened if long. */
typedef struct tp__printable {
    char text[128];
} tp__printable;

static const char *tp__make_printable(tp__printable *to, const char *name, size_t n)
{
    size_t max_length = sizeof to->text - 4, len = n < max_length ? n : max_length;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)name[i];
        to->text[i] = c < 32 || c == 127 ? '?' : name[i];
    }
    memcpy(to->text + len, n > max_length ? "..." : "", n > max_length ? 4 : 1);
    return to->text;
}

/* -- protobuf, the encoding of event files, TensorFlow's checkpoints and ONNX. A message is a sequence of fields; a field is a key
 *    (field number and wire type) and a value. A nested message is first written to a buffer of its own, because its length comes
 *    before its bytes. */

TP__UNUSED static uint8_t *tp__put_varint(uint8_t *p, uint64_t v)
{
    for (; v > 127; v >>= 7) *p++ = (uint8_t)(v | 128);
    *p++ = (uint8_t)v;
    return p;
}
TP__UNUSED static void tp__pb_varint(tp_buf *b, uint64_t v)
{
    uint8_t t[10];
    tp_buf_put(b, t, (size_t)(tp__put_varint(t, v) - t));
}
TP__UNUSED static void tp__pb_tag(tp_buf *b, unsigned field, unsigned wire) { tp__pb_varint(b, field << 3 | wire); }
TP__UNUSED static void tp__pb_fixed(tp_buf *b, uint64_t bits, int bytes)
{
    uint8_t t[8];
    tp__put_le(t, bits, bytes);
    tp_buf_put(b, t, (size_t)bytes);
}
TP__UNUSED static void tp__pb_int(tp_buf *b, unsigned field, int64_t v)
{
    tp__pb_tag(b, field, 0);
    tp__pb_varint(b, (uint64_t)v);
}
TP__UNUSED static void tp__pb_raw_double(tp_buf *b, double v)
{
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    tp__pb_fixed(b, u, 8);
}
TP__UNUSED static void tp__pb_double(tp_buf *b, unsigned field, double v)
{
    tp__pb_tag(b, field, 1);
    tp__pb_raw_double(b, v);
}
TP__UNUSED static void tp__pb_float(tp_buf *b, unsigned field, float v)
{
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    tp__pb_tag(b, field, 5);
    tp__pb_fixed(b, u, 4);
}
TP__UNUSED static void tp__pb_bytes(tp_buf *b, unsigned field, const void *p, size_t n)
{
    tp__pb_tag(b, field, 2);
    tp__pb_varint(b, n);
    tp_buf_put(b, p, n);
}
TP__UNUSED static void tp__pb_text(tp_buf *b, unsigned field, const char *s) { tp__pb_bytes(b, field, s, strlen(s)); }
TP__UNUSED static void tp__pb_message(tp_buf *b, unsigned field, tp_buf *message) /* frees `message` too */
{
    if (message->failed) b->failed = true;
    tp__pb_bytes(b, field, message->data, message->len);
    tp_buf_free(message);
}

/* The key, in metadata_props of an ONNX model of tp, of the initializers that are not to be trained: their names, one a line. */
#define TP__ONNX_UNTRAINED "tp.untrained"

/* A protobuf message that is being read: a range of bytes. `bad` is set, and stays set, if the message is damaged. */
typedef struct tp__pb {
    const uint8_t *at, *end;
    bool bad;
} tp__pb;
typedef struct tp__pb_field {
    int number, wire; /* protobuf's wire type: 0 varint, 1 eight bytes, 2 a range of bytes, 5 four bytes */
    uint64_t value;   /* the number, for wire types 0, 1 and 5 */
    tp__pb sub;       /* the bytes, for wire type 2 */
} tp__pb_field;

TP__UNUSED static uint64_t tp__pb_get_varint(tp__pb *p)
{
    uint64_t v = 0;
    for (int shift = 0; shift < 64 && p->at < p->end; shift += 7) {
        const uint8_t b = *p->at++;
        if (shift == 63 && b > 1) break;
        v |= (uint64_t)(b & 127) << shift;
        if (b < 128) return v;
    }
    p->bad = true;
    return 0;
}

TP__UNUSED static uint64_t tp__pb_get_fixed(tp__pb *p, int bytes)
{
    uint64_t v = 0;
    if (p->end - p->at < bytes) p->bad = true;
    else
        for (int i = 0; i < bytes; i++) v |= (uint64_t)*p->at++ << (8 * i);
    return v;
}

/* Reads the next field of a message; returns false at its end or if it is damaged. */
TP__UNUSED static bool tp__pb_next(tp__pb *p, tp__pb_field *f)
{
    memset(f, 0, sizeof *f);
    if (p->bad || p->at == p->end) return false;
    const uint64_t key = tp__pb_get_varint(p);
    f->number = (int)(key >> 3 & 0x1fffffff);
    f->wire = (int)(key & 7);
    if (f->number == 0 || key >> 32) p->bad = true;
    if (f->wire == 0) f->value = tp__pb_get_varint(p);
    else if (f->wire == 1) f->value = tp__pb_get_fixed(p, 8);
    else if (f->wire == 5) f->value = tp__pb_get_fixed(p, 4);
    else if (f->wire == 2) {
        const uint64_t n = tp__pb_get_varint(p);
        if (p->bad || n > (uint64_t)(p->end - p->at)) p->bad = true;
        else {
            f->sub.at = p->at;
            f->sub.end = p->at += (size_t)n;
        }
    } else p->bad = true;
    return !p->bad;
}

/* -- checksums ----------------------------------------------------------------------------- >>crc */
/* A reflected CRC is linear: the table entry of a^b is the xor of the entries of a and b, so only the entries of single bits must
 * be computed. Each call therefore makes its tables on the stack, without global state: sixteen entries for a short input; for a
 * longer one eight tables of 256 entries, which process eight bytes at a time. x86-64 has an instruction for CRC-32C (SSE4.2). */

/* Fill in the other entries up to `size` from table[1], table[2], table[4], ... */
static inline void tp__crc_fill(uint32_t *table, int size)
{
    table[0] = 0;
    for (int half = 1; half < size; half *= 2)
        for (int j = 1; j < half; j++) table[half + j] = table[half] ^ table[j];
}

static inline void tp__crc_table(uint32_t poly, uint32_t *table, int size)
{
    uint32_t c = 1;
    for (int i = size / 2; i > 0; i /= 2) table[i] = c = (c >> 1) ^ (poly & (0u - (c & 1u)));
    tp__crc_fill(table, size);
}

static uint32_t tp__crc_short(uint32_t poly, uint32_t c, const uint8_t *p, size_t n)
{
    uint32_t table[16];
    tp__crc_table(poly, table, 16);
    for (size_t i = 0; i < n; i++) {
        c = table[(c ^ p[i]) & 15] ^ (c >> 4);
        c = table[(c ^ (uint32_t)(p[i] >> 4)) & 15] ^ (c >> 4);
    }
    return c;
}

TP__HOT static uint32_t tp__crc_long(uint32_t poly, uint32_t c, const uint8_t *p, size_t n)
{
    uint32_t t[8][256];
    tp__crc_table(poly, t[0], 256);
    for (int k = 1; k < 8; k++) {
        for (int i = 1; i < 256; i *= 2) t[k][i] = t[0][t[k - 1][i] & 255] ^ (t[k - 1][i] >> 8);
        tp__crc_fill(t[k], 256);
    }
    for (; n >= 8; p += 8, n -= 8) {
        uint32_t a = c ^ tp__le32(p), b = tp__le32(p + 4);
        c = t[7][a & 255] ^ t[6][(a >> 8) & 255] ^ t[5][(a >> 16) & 255] ^ t[4][a >> 24] ^ t[3][b & 255] ^
            t[2][(b >> 8) & 255] ^ t[1][(b >> 16) & 255] ^ t[0][b >> 24];
    }
    for (size_t i = 0; i < n; i++) c = t[0][(c ^ p[i]) & 255] ^ (c >> 8);
    return c;
}

static uint32_t tp__crc(uint32_t poly, uint32_t crc, const void *data, size_t n)
{
    const uint8_t *p = (const uint8_t *)data;
    return ~(n < 64 ? tp__crc_short(poly, ~crc, p, n) : tp__crc_long(poly, ~crc, p, n));
}

TP_DEF uint32_t tp_crc32(uint32_t crc, const void *data, size_t n) { return tp__crc(0xEDB88320u, crc, data, n); }

#if defined(__GNUC__) && defined(__x86_64__) && !defined(TP_NAIVE)
/* Whether the processor has SSE4.2, without a CPUID in each call, which takes microseconds in a virtual machine. glibc has asked for
 * it at the start of the program. So has libgcc, but __builtin_cpu_supports brings 6 KB of other features into the program. */
#if defined(__GLIBC__) && defined(__has_include) && !defined(__cplusplus)
#if __has_include(<sys/platform/x86.h>)
#include <sys/platform/x86.h>
#define TP__HAS_SSE42 CPU_FEATURE_ACTIVE(SSE4_2)
#endif
#endif
#ifndef TP__HAS_SSE42
#define TP__HAS_SSE42 __builtin_cpu_supports("sse4.2")
#endif
__attribute__((target("sse4.2"))) static uint32_t tp__crc32c_sse42(uint32_t crc, const uint8_t *p, size_t n)
{
    uint64_t c = ~crc, x;
    for (; n >= 8; p += 8, n -= 8) {
        memcpy(&x, p, 8);
        c = __builtin_ia32_crc32di(c, x);
    }
    for (size_t i = 0; i < n; i++) c = __builtin_ia32_crc32qi((uint32_t)c, p[i]);
    return ~(uint32_t)c;
}
TP_DEF uint32_t tp_crc32c(uint32_t crc, const void *data, size_t n)
{
    return TP__HAS_SSE42 ? tp__crc32c_sse42(crc, (const uint8_t *)data, n) : tp__crc(0x82F63B78u, crc, data, n);
}
#else
TP_DEF uint32_t tp_crc32c(uint32_t crc, const void *data, size_t n) { return tp__crc(0x82F63B78u, crc, data, n); }
#endif

/* The CRC of data that contains CRCs is weak, so TFRecord files and TensorFlow's checkpoints store masked CRCs. */
TP__UNUSED static uint32_t tp__crc_mask(uint32_t c) { return (c >> 15 | c << 17) + 0xA282EAD8u; }

/* -- inflate ----------------------------------------------------------------------------- >>inflate */
/* Deflate (RFC 1951): blocks of literals and (length, distance) copies in Huffman codes. A code is decoded with
 * one look-up in a table of 2^root entries; the few codes longer than root bits need a second look-up.
 *
 * A table entry:  bits 0-7   length of the whole code in bits
 *                 bits 8-15  kind: number of extra bits (0 to 13) of a length or distance, or one of the flags below
 *                 bits 16-31 the literal, the base of the length or distance, or the index of the second table */
enum {
    TP__HUFF_LIT_ROOT = 10,
    TP__HUFF_LIT_ENTRIES = 1400, /* the table of a complete Huffman code needs at most 1334 entries */
    TP__HUFF_DIST_ROOT = 8,
    TP__HUFF_DIST_ENTRIES = 512, /* the table of a complete Huffman code needs at most 402 entries */
    TP__HUFF_SUB = 0x10,         /* go to the second table; the low 4 bits are the number of its index bits */
    TP__HUFF_LITERAL = 0x20,
    TP__HUFF_END = 0x40,
    TP__HUFF_BAD = 0x80
};

static const uint16_t tp__length_base[29] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                             31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
static const uint8_t tp__length_extra[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                             2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
static const uint16_t tp__dist_base[30] = {1,    2,    3,    4,    5,    7,    9,    13,    17,    25,
                                           33,   49,   65,   97,   129,  193,  257,  385,   513,   769,
                                           1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};

typedef struct tp__inflate {
    const uint8_t *in, *end;
    uint64_t bits; /* input bits that were read ahead; the next one is the lowest */
    unsigned nbits;
    uint8_t *out;
    size_t base, len, cap; /* the stream starts at base, and copies may not begin before it; out has cap bytes */
    size_t limit;          /* the capacity may grow up to this limit */
    bool fixed;            /* the tables now hold deflate's fixed code */
    bool oom;
    /* Sets in and end to the next piece of the input, before which lie the last 8 bytes of the piece before it, since the bit buffer
     * may give them back; false: there is none. NULL: the input is one piece. */
    bool (*more)(struct tp__inflate *s);
    void *source; /* what `more` reads from */
    uint32_t lit[TP__HUFF_LIT_ENTRIES], dist[TP__HUFF_DIST_ENTRIES];
} tp__inflate;

typedef enum { TP__HUFF_OF_LENGTHS, TP__HUFF_OF_LITERALS, TP__HUFF_OF_DISTANCES } tp__huff_kind;

static uint32_t tp__huff_entry(tp__huff_kind kind, int symbol)
{
    uint32_t s = (uint32_t)symbol;
    if (kind == TP__HUFF_OF_DISTANCES) {
        if (symbol >= 30) return (uint32_t)TP__HUFF_BAD << 8;
        return (uint32_t)tp__dist_base[symbol] << 16 | (symbol < 4 ? 0 : (s / 2 - 1) << 8);
    }
    if (kind == TP__HUFF_OF_LENGTHS || symbol < 256) return s << 16 | (uint32_t)TP__HUFF_LITERAL << 8;
    if (symbol == 256) return (uint32_t)TP__HUFF_END << 8;
    if (symbol >= 286) return (uint32_t)TP__HUFF_BAD << 8;
    return (uint32_t)tp__length_base[symbol - 257] << 16 | (uint32_t)tp__length_extra[symbol - 257] << 8;
}

/* Build the decoding table of a canonical code from the lengths of its n (at most 288) codes. False if the lengths do not give
 * a prefix code. An incomplete code is accepted only in the two forms that encoders write: no code at all, or one code of
 * 1 bit. */
TP__SMALL static bool tp__huff_build(uint32_t *table, int capacity, int root, const uint8_t *lengths, int n,
                                     tp__huff_kind kind)
{
    int count[16] = {0}, start[16], sorted[288], max = 0, codes = 0, left = 1;
    for (int i = 0; i < n; i++) count[lengths[i]]++;
    count[0] = 0;
    for (int len = 1; len <= 15; len++) {
        left = 2 * left - count[len];
        if (left < 0) return false;
        if (count[len]) max = len;
        start[len] = codes;
        codes += count[len];
    }
    bool sparse = codes == 0 || (codes == 1 && count[1] == 1);
    if (left > 0 && (kind == TP__HUFF_OF_LENGTHS || !sparse)) return false;
    for (int i = 0; i < n; i++)
        if (lengths[i]) sorted[start[lengths[i]]++] = i;

    int next = 1 << root, sub_at = 0, sub_bits = 0;
    uint32_t code = 0, prefix = UINT32_MAX, root_mask = (1u << root) - 1;
    for (int i = 0; i < next; i++) table[i] = (uint32_t)TP__HUFF_BAD << 8;
    for (int k = 0, len = 1; k < codes; k++) {
        for (; len < lengths[sorted[k]]; len++) code <<= 1;
        uint32_t entry = tp__huff_entry(kind, sorted[k]) | (uint32_t)len, reversed = 0;
        for (int i = 0; i < len; i++) reversed |= ((code >> i) & 1u) << (len - 1 - i);
        if (len <= root) {
            for (int i = (int)reversed; i < 1 << root; i += 1 << len) table[i] = entry;
        } else {
            if ((reversed & root_mask) != prefix) {
                /* a second table, wide enough for the longest code that shares this prefix */
                prefix = reversed & root_mask;
                sub_bits = len - root;
                for (int space = 1 << sub_bits; sub_bits + root < max; sub_bits++, space <<= 1) {
                    space -= count[sub_bits + root];
                    if (space <= 0) break;
                }
                sub_at = next;
                next += 1 << sub_bits;
                if (next > capacity) return false;
                for (int i = sub_at; i < next; i++) table[i] = (uint32_t)TP__HUFF_BAD << 8;
                table[prefix] = (uint32_t)sub_at << 16 | (uint32_t)(TP__HUFF_SUB | sub_bits) << 8 | (uint32_t)root;
            }
            for (int i = (int)(reversed >> root); i < 1 << sub_bits; i += 1 << (len - root)) table[sub_at + i] = entry;
        }
        count[len]--;
        code++;
    }
    return true;
}

static uint32_t tp__huff_look(const uint32_t *table, int root, uint64_t bits)
{
    uint32_t e = table[bits & ((1u << root) - 1)];
    if (e >> 8 & TP__HUFF_SUB) e = table[(e >> 16) + (uint32_t)((bits >> root) & ((1u << (e >> 8 & 15)) - 1))];
    return e;
}

/* Fill the bit buffer; at the end of the input the missing bits are zeros, which nbits does not count. */
static void tp__inflate_refill(tp__inflate *s)
{
    for (; s->nbits < 56 && (s->in < s->end || (s->more && s->more(s))); s->nbits += 8)
        s->bits |= (uint64_t)*s->in++ << s->nbits;
}

/* Read n bits (at most 32) of the input into *v; false at the end of the input. */
static bool tp__inflate_bits(tp__inflate *s, unsigned n, uint32_t *v)
{
    tp__inflate_refill(s);
    if (n > s->nbits) return false;
    *v = (uint32_t)(s->bits & (((uint64_t)1 << n) - 1));
    s->bits >>= n;
    s->nbits -= n;
    return true;
}

static const char *const tp__inflate_short = "it is cut short";
static const char *const tp__inflate_full = "it holds more bytes than allowed";
static const char *const tp__inflate_bad = "it contains an impossible code";
static const char *const tp__inflate_oom = "there is no memory for its contents";
static const char *const tp__inflate_far = "it copies from before its beginning";

/* Make room for n more bytes of output; returns NULL or the error. */
static const char *tp__inflate_reserve(tp__inflate *s, size_t n)
{
    if (s->cap - s->len >= n) return NULL;
    if (n > s->limit - s->len) return tp__inflate_full;
    size_t cap = s->cap > s->limit / 2 ? s->limit : 2 * s->cap;
    if (cap < 4096 && s->limit > 4096) cap = 4096;
    if (cap < s->len + n) cap = s->len + n;
    uint8_t *out = (uint8_t *)tp_realloc(s->out, cap + 1);
    if (!out) {
        s->oom = true;
        return tp__inflate_oom;
    }
    s->out = out;
    s->cap = cap;
    return NULL;
}

/* The fast loop for nearly all of the data. It runs while 8 input bytes are left and the longest copy fits into the output, so
 * that no other bounds checks are needed. True at the end of the block; *why is set on an error. */
static bool tp__inflate_fast(tp__inflate *s, const char **reason)
{
    const uint8_t *in = s->in, *in_last = s->end - 8;
    uint8_t *out = s->out + s->len, *out_last = s->out + s->cap - 274, *base = s->out + s->base;
    uint64_t bits = s->bits;
    unsigned nbits = s->nbits;
    bool ended = false;

    while (in <= in_last && out <= out_last) {
        /* at least 56 bits: enough for three literals, or for a length and a distance (48) */
        bits |= tp__le64(in) << nbits;
        in += (63 - nbits) >> 3;
        nbits |= 56;
        uint32_t e = tp__huff_look(s->lit, TP__HUFF_LIT_ROOT, bits);
        if (e >> 8 & TP__HUFF_LITERAL) {
            for (int i = 0;; i++) {
                bits >>= e & 255;
                nbits -= e & 255;
                *out++ = (uint8_t)(e >> 16);
                if (i == 2) break;
                e = tp__huff_look(s->lit, TP__HUFF_LIT_ROOT, bits);
                if (!(e >> 8 & TP__HUFF_LITERAL)) break;
            }
            continue;
        }
        if (e >> 8 & (TP__HUFF_END | TP__HUFF_BAD)) {
            if (e >> 8 & TP__HUFF_BAD) *reason = tp__inflate_bad;
            bits >>= e & 255;
            nbits -= e & 255;
            ended = true;
            break;
        }
        unsigned extra = e >> 8 & 15;
        bits >>= e & 255;
        nbits -= e & 255;
        size_t length = (e >> 16) + (size_t)(bits & ((1u << extra) - 1));
        bits >>= extra;
        nbits -= extra;
        e = tp__huff_look(s->dist, TP__HUFF_DIST_ROOT, bits);
        if (e >> 8 & TP__HUFF_BAD) {
            *reason = tp__inflate_bad;
            break;
        }
        extra = e >> 8 & 15;
        bits >>= e & 255;
        nbits -= e & 255;
        size_t dist = (e >> 16) + (size_t)(bits & ((1u << extra) - 1));
        bits >>= extra;
        nbits -= extra;
        if (dist > (size_t)(out - base)) {
            *reason = tp__inflate_far;
            break;
        }
        const uint8_t *from = out - dist;
        uint8_t *stop = out + length;
        if (dist >= 8) {
            /* the copy may write up to 7 bytes past stop */
            for (; out < stop; out += 8, from += 8) memcpy(out, from, 8);
        } else if (dist == 1) {
            memset(out, *from, length);
        } else {
            while (out < stop) *out++ = *from++;
        }
        out = stop;
    }
    s->in = in;
    s->len = (size_t)(out - s->out);
    s->bits = bits;
    s->nbits = nbits;
    return ended || *reason;
}

/* Decode one symbol with all bounds checks; used near the end of the input or the output. Returns the same as
 * tp__inflate_fast. */
static bool tp__inflate_careful(tp__inflate *s, const char **reason)
{
    tp__inflate_refill(s);
    uint32_t e = tp__huff_look(s->lit, TP__HUFF_LIT_ROOT, s->bits), more = 0;
    if ((e & 255) > s->nbits || s->nbits == 0) *reason = tp__inflate_short;
    else if (e >> 8 & TP__HUFF_BAD) *reason = tp__inflate_bad;
    if (*reason) return true;
    s->bits >>= e & 255;
    s->nbits -= e & 255;
    if (e >> 8 & TP__HUFF_END) return true;
    if (e >> 8 & TP__HUFF_LITERAL) {
        *reason = tp__inflate_reserve(s, 1);
        if (!*reason) s->out[s->len++] = (uint8_t)(e >> 16);
        return *reason != NULL;
    }
    if (!tp__inflate_bits(s, e >> 8 & 15, &more)) *reason = tp__inflate_short;
    size_t length = (size_t)(e >> 16) + more;
    tp__inflate_refill(s);
    e = tp__huff_look(s->dist, TP__HUFF_DIST_ROOT, s->bits);
    if ((e & 255) > s->nbits || s->nbits == 0) *reason = tp__inflate_short;
    else if (e >> 8 & TP__HUFF_BAD) *reason = tp__inflate_bad;
    if (*reason) return true;
    s->bits >>= e & 255;
    s->nbits -= e & 255;
    if (!tp__inflate_bits(s, e >> 8 & 15, &more)) *reason = tp__inflate_short;
    size_t dist = (size_t)(e >> 16) + more;
    if (!*reason && dist > s->len - s->base) *reason = tp__inflate_far;
    if (!*reason) *reason = tp__inflate_reserve(s, length);
    if (*reason) return true;
    for (size_t i = 0; i < length; i++, s->len++) s->out[s->len] = s->out[s->len - dist];
    return false;
}

static const char *tp__inflate_stored(tp__inflate *s)
{
    uint32_t n, inverse;
    s->bits >>= s->nbits % 8; /* the numbers begin at a byte */
    s->nbits -= s->nbits % 8;
    if (!tp__inflate_bits(s, 16, &n) || !tp__inflate_bits(s, 16, &inverse)) return tp__inflate_short;
    if ((n ^ inverse) != 0xFFFF) return tp__inflate_bad;
    s->in -= s->nbits / 8; /* give back the bytes that the bit buffer read ahead */
    s->bits = 0;
    s->nbits = 0;
    if (!s->more && (size_t)(s->end - s->in) < n) return tp__inflate_short;
    const char *reason = tp__inflate_reserve(s, n);
    while (n > 0 && !reason) {
        const size_t left = (size_t)(s->end - s->in), k = left < n ? left : n;
        if (k == 0) {
            if (!s->more || !s->more(s)) reason = tp__inflate_short;
            continue;
        }
        memcpy(s->out + s->len, s->in, k);
        s->len += k;
        s->in += k;
        n -= (uint32_t)k;
    }
    return reason;
}

TP__SMALL static bool tp__inflate_fixed_tables(tp__inflate *s)
{
    uint8_t lengths[288];
    if (s->fixed) return true;
    s->fixed = true;
    for (int i = 0; i < 288; i++) lengths[i] = (uint8_t)(i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8);
    if (!tp__huff_build(s->lit, TP__HUFF_LIT_ENTRIES, TP__HUFF_LIT_ROOT, lengths, 288, TP__HUFF_OF_LITERALS))
        return false;
    memset(lengths, 5, 32);
    return tp__huff_build(s->dist, TP__HUFF_DIST_ENTRIES, TP__HUFF_DIST_ROOT, lengths, 32, TP__HUFF_OF_DISTANCES);
}

/* Read the code lengths of a dynamic block, which are Huffman-coded with run lengths, and build the tables. */
TP__SMALL static const char *tp__inflate_dynamic_tables(tp__inflate *s)
{
    static const uint8_t order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    uint8_t lengths[288 + 32] = {0}, first[19] = {0};
    uint32_t nlit, ndist, ncode, v, table[128];
    if (!tp__inflate_bits(s, 5, &nlit) || !tp__inflate_bits(s, 5, &ndist) || !tp__inflate_bits(s, 4, &ncode))
        return tp__inflate_short;
    s->fixed = false;
    nlit += 257;
    ndist += 1;
    if (nlit > 286 || ndist > 30) return tp__inflate_bad;
    for (uint32_t i = 0; i < ncode + 4; i++) {
        if (!tp__inflate_bits(s, 3, &v)) return tp__inflate_short;
        first[order[i]] = (uint8_t)v;
    }
    if (!tp__huff_build(table, 128, 7, first, 19, TP__HUFF_OF_LENGTHS)) return tp__inflate_bad;
    for (uint32_t i = 0; i < nlit + ndist;) {
        tp__inflate_refill(s);
        uint32_t e = table[s->bits & 127], code = e >> 16, repeat = 1;
        if (!tp__inflate_bits(s, e & 255, &v)) return tp__inflate_short;
        uint8_t length = 0;
        if (code < 16) {
            length = (uint8_t)code;
        } else {
            if (!tp__inflate_bits(s, code == 16 ? 2 : code == 17 ? 3 : 7, &repeat)) return tp__inflate_short;
            repeat += code == 18 ? 11 : 3;
            if (code == 16 && i == 0) return tp__inflate_bad;
            if (code == 16) length = lengths[i - 1];
        }
        if (repeat > nlit + ndist - i) return tp__inflate_bad;
        memset(lengths + i, length, repeat);
        i += repeat;
    }
    if (lengths[256] == 0) return tp__inflate_bad; /* the block has no code for its end */
    if (!tp__huff_build(s->lit, TP__HUFF_LIT_ENTRIES, TP__HUFF_LIT_ROOT, lengths, (int)nlit, TP__HUFF_OF_LITERALS) ||
        !tp__huff_build(s->dist, TP__HUFF_DIST_ENTRIES, TP__HUFF_DIST_ROOT, lengths + nlit, (int)ndist,
                        TP__HUFF_OF_DISTANCES))
        return tp__inflate_bad;
    return NULL;
}

/* Decode one deflate stream from s->in and append it to s->out. Returns NULL, with s->in after the stream, or the
 * error. */
static const char *tp__inflate_run(tp__inflate *s)
{
    const char *reason = NULL;
    uint32_t is_last_block = 0, type;
    s->bits = 0;
    s->nbits = 0;
    s->base = s->len;
    while (!is_last_block && !reason) {
        if (!tp__inflate_bits(s, 1, &is_last_block) || !tp__inflate_bits(s, 2, &type)) return tp__inflate_short;
        if (type == 3) return tp__inflate_bad;
        if (type == 0) {
            reason = tp__inflate_stored(s);
            continue;
        }
        if (type == 2) reason = tp__inflate_dynamic_tables(s);
        else if (!tp__inflate_fixed_tables(s)) reason = tp__inflate_bad;
        while (!reason) {
            if (s->end - s->in >= 8 && s->cap - s->len >= 274 && tp__inflate_fast(s, &reason)) break;
            if (tp__inflate_careful(s, &reason)) break;
        }
    }
    s->in -= s->nbits / 8;
    return reason;
}

/* Decode a stream of exactly out_size bytes that uses all of its input. Returns NULL or the error. */
static const char *tp__inflate_exact(const void *in, size_t in_size, void *out, size_t out_size)
{
    tp__inflate s;
    uint8_t nothing = 0;
    s.in = in_size ? (const uint8_t *)in : &nothing;
    s.end = s.in + in_size;
    s.out = out_size ? (uint8_t *)out : &nothing;
    s.len = 0;
    s.cap = s.limit = out_size;
    s.fixed = s.oom = false;
    s.more = NULL;
    const char *reason = tp__inflate_run(&s);
    if (!reason && s.len != out_size) reason = "it holds fewer bytes than declared";
    if (!reason && s.in != s.end) reason = "other bytes follow its end";
    return reason;
}

TP_DEF tp_status tp_inflate(const void *in, size_t in_size, void *out, size_t out_size)
{
    TP__REQUIRE((in || in_size == 0) && (out || out_size == 0), TP_ERR_ARG)

    const char *reason = tp__inflate_exact(in, in_size, out, out_size);
    return reason ? tp_fail(TP_ERR_FORMAT, "the deflate data is damaged: %s", reason) : TP_OK;
}

/* Start with room for `guess` bytes, so that the output rarely has to grow. There is always one more byte, for a NUL. */
static const char *tp__inflate_start(tp__inflate *s, const void *in, size_t in_size, size_t limit, size_t guess)
{
    s->in = (const uint8_t *)in;
    s->end = s->in + in_size;
    s->len = 0;
    s->limit = limit;
    s->cap = guess < limit ? guess : limit;
    s->out = (uint8_t *)tp_malloc(s->cap + 1);
    s->fixed = false;
    s->more = NULL;
    s->oom = !s->out;
    return s->oom ? tp__inflate_oom : NULL;
}

TP_DEF tp_status tp_inflate_alloc(const void *in, size_t in_size, size_t limit, char **out, size_t *out_size,
                                  size_t *used)
{
    if (out) *out = NULL;
    if (out_size) *out_size = 0;
    TP__REQUIRE((in || in_size == 0) && out && out_size && used, TP_ERR_ARG)

    tp__inflate s;
    if (used) *used = 0;
    if (in_size == 0) return tp_fail(TP_ERR_FORMAT, "the deflate data is damaged: %s", tp__inflate_short);
    size_t guess = in_size < SIZE_MAX / 4 ? 4 * in_size : in_size;
    const char *reason = tp__inflate_start(&s, in, in_size, tp__file_limit(limit), guess < 4096 ? 4096 : guess);
    if (!reason) reason = tp__inflate_run(&s);
    if (reason) {
        tp_free(s.out);
        return s.oom ? TP_ERR_NOMEM : tp_fail(TP_ERR_FORMAT, "the deflate data is damaged: %s", reason);
    }
    s.out[s.len] = 0;
    *out = (char *)s.out;
    *out_size = s.len;
    if (used) *used = (size_t)(s.in - (const uint8_t *)in);
    return TP_OK;
}

/* -- gzip -------------------------------------------------------------------------------- >>gzip */

/* The size of the gzip header (RFC 1952) at p in bytes; 0 if the header is damaged or cut short. */
static size_t tp__gzip_header(const uint8_t *p, size_t n)
{
    if (n < 18 || p[0] != 0x1f || p[1] != 0x8b || p[2] != 8 || p[3] & 0xe0) return 0;
    size_t at = 10;
    if (p[3] & 4) {
        at += 2 + tp__le16(p + at);
        if (at > n) return 0;
    }
    for (int text = 8; text <= 16; text += 8) { /* skip the file name and the comment */
        if (!(p[3] & text)) continue;
        const void *text_end = memchr(p + at, 0, n - at);
        if (!text_end) return 0;
        at = (size_t)((const uint8_t *)text_end - p) + 1;
    }
    if (p[3] & 2) {
        if (n - at < 2 || tp__le16(p + at) != (tp_crc32(0, p, at) & 0xFFFF)) return 0;
        at += 2;
    }
    return at;
}

/* Inflate all members of a gzip file, one after another. data_name: the file's name, for error sentences. */
TP__SMALL static tp_status tp__gunzip(const char *data_name, const uint8_t *p, size_t n, size_t limit, char **data,
                                      size_t *size)
{
    tp__inflate s;
    const uint8_t *end = p + n;
    if (n < 18) return tp_fail(TP_ERR_FORMAT, "%s: the gzip data is damaged: %s", data_name, tp__inflate_short);
    /* The last four bytes are the output size of the last member (modulo 4 GiB): a good guess unless it is impossibly large. */
    size_t guess = tp__le32(end - 4);
    if (guess / 1032 > n) guess = n;
    const char *reason = tp__inflate_start(&s, p, n, limit, guess);
    while (!reason && s.in < end) {
        if (*s.in == 0) { /* zeros after the last member, which fill up the last block of a tape or disk */
            while (s.in < end && *s.in == 0) s.in++;
            if (s.in < end) reason = "other data follows it";
            break;
        }
        size_t header = tp__gzip_header(s.in, (size_t)(end - s.in)), before = s.len;
        if (!header) {
            reason = "a gzip header is damaged or cut short";
            break;
        }
        s.in += header;
        reason = tp__inflate_run(&s);
        if (reason) break;
        size_t output_size = s.len - before;
        if (end - s.in < 8) reason = tp__inflate_short;
        else if (tp__le32(s.in) != tp_crc32(0, output_size ? s.out + before : p, output_size))
            reason = "the checksum does not match";
        else if (tp__le32(s.in + 4) != (uint32_t)(output_size & 0xFFFFFFFFu)) reason = "the size does not match";
        else s.in += 8;
    }
    if (reason) {
        tp_free(s.out);
        return s.oom ? TP_ERR_NOMEM : tp_fail(TP_ERR_FORMAT, "%s: the gzip data is damaged: %s", data_name, reason);
    }
    s.out[s.len] = 0;
    *data = (char *)s.out;
    *size = s.len;
    return TP_OK;
}

/* -- deflate ----------------------------------------------------------------------------- >>deflate */
/* Compression: hash chains find earlier copies within 32 KiB. Each block of 32 KiB is written with the fixed Huffman code, or
 * stored if that is shorter (as for weights, which are nearly noise). */
enum {
    TP__DEFLATE_WINDOW = 32768,
    TP__DEFLATE_HASH = 15, /* number of bits of a hash */
    TP__DEFLATE_TRIES = 32,
    TP__DEFLATE_ENOUGH = 64 /* a copy of at least this length is used without searching a longer one */
};

typedef struct tp__deflate {
    tp_buf *out;
    uint64_t bits;
    unsigned nbits;
    size_t fill;
    uint8_t bytes[4096];
    uint32_t head[1 << TP__DEFLATE_HASH]; /* for each hash: 1 + the last position whose bytes have this hash */
    uint32_t prev[TP__DEFLATE_WINDOW];    /* for each position: 1 + the previous position with the same hash */
    uint32_t token[TP__DEFLATE_WINDOW];   /* a token: a literal, or 1<<31 | (length-3)<<16 | distance-1 */
} tp__deflate;

static void tp__deflate_flush(tp__deflate *d)
{
    if (d->fill) tp_buf_put(d->out, d->bytes, d->fill);
    d->fill = 0;
}

static void tp__deflate_bits(tp__deflate *d, uint32_t value, unsigned n)
{
    d->bits |= (uint64_t)value << d->nbits;
    for (d->nbits += n; d->nbits >= 8; d->nbits -= 8, d->bits >>= 8) {
        if (d->fill == sizeof d->bytes) tp__deflate_flush(d);
        d->bytes[d->fill++] = (uint8_t)d->bits;
    }
}

/* Write a Huffman code; the highest bit comes first. */
static void tp__deflate_code(tp__deflate *d, uint32_t code, unsigned n)
{
    uint32_t reversed = 0;
    for (unsigned i = 0; i < n; i++) reversed |= ((code >> i) & 1u) << (n - 1 - i);
    tp__deflate_bits(d, reversed, n);
}

static unsigned tp__log2(uint32_t v)
{
    unsigned k = 0;
    while (v >>= 1) k++;
    return k;
}

static unsigned tp__length_symbol(unsigned length) /* deflate's number, 0 to 28, of a copy's length */
{
    unsigned v = length - 3;
    if (length == 258) return 28;
    if (v < 4) return v;
    return 4 * (tp__log2(v) - 1) + ((v >> (tp__log2(v) - 2)) & 3);
}

static unsigned tp__dist_symbol(unsigned dist)
{
    unsigned v = dist - 1;
    if (v < 4) return v;
    return 2 * tp__log2(v) + ((v >> (tp__log2(v) - 1)) & 1);
}

static unsigned tp__dist_extra(unsigned symbol) { return symbol < 4 ? 0 : symbol / 2 - 1; }

/* The number of bits that a token takes in deflate's fixed Huffman code. */
static unsigned tp__deflate_cost(uint32_t token)
{
    if (!(token >> 31)) return token < 144 ? 8 : 9;
    unsigned ls = tp__length_symbol((token >> 16 & 255) + 3), ds = tp__dist_symbol((token & 0x7FFF) + 1);
    return (ls < 23 ? 7u : 8u) + tp__length_extra[ls] + 5 + tp__dist_extra(ds);
}

static void tp__deflate_token(tp__deflate *d, uint32_t token)
{
    if (!(token >> 31)) {
        if (token < 144) tp__deflate_code(d, 0x30 + token, 8);
        else tp__deflate_code(d, 0x190 + token - 144, 9);
        return;
    }
    unsigned length = (token >> 16 & 255) + 3, dist = (token & 0x7FFF) + 1;
    unsigned ls = tp__length_symbol(length), ds = tp__dist_symbol(dist);
    if (ls < 23) tp__deflate_code(d, 1 + ls, 7);
    else tp__deflate_code(d, 0xC0 + ls - 23, 8);
    tp__deflate_bits(d, length - tp__length_base[ls], tp__length_extra[ls]);
    tp__deflate_code(d, ds, 5);
    tp__deflate_bits(d, dist - tp__dist_base[ds], tp__dist_extra(ds));
}

static uint32_t tp__deflate_hash(const uint8_t *p)
{
    uint32_t v = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
    return (v * 2654435761u) >> (32 - TP__DEFLATE_HASH);
}

static void tp__deflate_insert(tp__deflate *d, const uint8_t *in, size_t n, size_t pos)
{
    if (n - pos < 3) return;
    uint32_t h = tp__deflate_hash(in + pos);
    d->prev[pos % TP__DEFLATE_WINDOW] = d->head[h];
    d->head[h] = (uint32_t)(pos + 1);
}

/* The longest earlier copy of the bytes at pos, at most `max_length` bytes, as a token; 0 if no copy saves space.
 * Positions are stored modulo 2^32: an outdated one gives a distance that is too large, or bytes that do not
 * match. */
static uint32_t tp__deflate_find(const tp__deflate *d, const uint8_t *in, size_t pos, size_t max_length)
{
    uint32_t best_dist = 0, last_dist = 0;
    size_t best = 2;
    if (max_length > 258) max_length = 258;
    if (max_length < 3) return 0;
    uint32_t place = d->head[tp__deflate_hash(in + pos)];
    for (int tries = 0; place && tries < TP__DEFLATE_TRIES && best < max_length; tries++) {
        uint32_t dist = (uint32_t)pos - (place - 1);
        if (dist <= last_dist || dist > TP__DEFLATE_WINDOW || dist > pos) break;
        last_dist = dist;
        const uint8_t *a = in + pos, *b = a - dist;
        if (a[best] == b[best]) {
            size_t match_length = 0;
            while (match_length < max_length && a[match_length] == b[match_length]) match_length++;
            if (match_length > best && (match_length > 3 || dist <= 4096)) {
                best = match_length;
                best_dist = dist;
            }
        }
        place = d->prev[(place - 1) % TP__DEFLATE_WINDOW];
    }
    return best_dist ? 1u << 31 | (uint32_t)(best - 3) << 16 | (best_dist - 1) : 0;
}

static void tp__deflate_store(tp__deflate *d, const uint8_t *in, size_t n, bool is_last)
{
    tp__deflate_bits(d, is_last, 3);
    if (d->nbits) tp__deflate_bits(d, 0, 8 - d->nbits);
    tp__deflate_bits(d, (uint32_t)n, 16);
    tp__deflate_bits(d, (uint32_t)n ^ 0xFFFF, 16);
    tp__deflate_flush(d);
    tp_buf_put(d->out, in, n);
}

/* Compress one piece of a stream. Pieces are independent of each other, so that a large array need not be copied. */
static void tp__deflate_piece(tp__deflate *d, const uint8_t *in, size_t n, bool is_last)
{
    memset(d->head, 0, sizeof d->head);
    for (size_t start = 0; start < n && !d->out->failed;) {
        size_t window = TP__DEFLATE_WINDOW, size = n - start < window ? n - start : window;
        size_t end = start + size, pos = start, tokens = 0;
        uint64_t cost = 3 + 7;
        uint32_t found = tp__deflate_find(d, in, pos, end - pos);
        while (pos < end) {
            uint32_t token = found, next = 0;
            size_t length = found ? (found >> 16 & 255) + 3 : 1;
            tp__deflate_insert(d, in, n, pos);
            /* If a longer copy begins one byte later, write a literal first. */
            if (length < TP__DEFLATE_ENOUGH && pos + 1 < end) {
                next = tp__deflate_find(d, in, pos + 1, end - pos - 1);
                if (next && found && (next >> 16 & 255) + 3 > length) length = 1;
            }
            if (length == 1) token = in[pos];
            d->token[tokens++] = token;
            cost += tp__deflate_cost(token);
            for (size_t i = 1; i < length; i++) tp__deflate_insert(d, in, n, pos + i);
            pos += length;
            if (pos < end) found = length == 1 ? next : tp__deflate_find(d, in, pos, end - pos);
        }
        bool final = is_last && end == n;
        if (cost > 8 * (uint64_t)size + 42) {
            tp__deflate_store(d, in + start, size, final);
        } else {
            tp__deflate_bits(d, 2u | (final ? 1u : 0u), 3);
            for (size_t i = 0; i < tokens; i++) tp__deflate_token(d, d->token[i]);
            tp__deflate_code(d, 0, 7);
        }
        start = end;
    }
    if (is_last && n == 0) tp__deflate_bits(d, 3, 10); /* write an empty final block */
    if (is_last && d->nbits) tp__deflate_bits(d, 0, 8 - d->nbits);
    tp__deflate_flush(d);
}

static tp__deflate *tp__deflate_new(tp_buf *out)
{
    tp__deflate *d = (tp__deflate *)tp_malloc(sizeof *d);
    if (!d) return NULL;
    d->out = out;
    d->bits = 0;
    d->nbits = 0;
    d->fill = 0;
    return d;
}

TP_DEF tp_status tp_deflate(const void *in, size_t in_size, tp_buf *out)
{
    TP__REQUIRE((in || in_size == 0) && out, TP_ERR_ARG)

    tp__deflate *d = tp__deflate_new(out);
    if (!d) return TP_ERR_NOMEM;
    tp__deflate_piece(d, (const uint8_t *)in, in_size, true);
    tp_free(d);
    if (out->failed) return tp_fail(TP_ERR_NOMEM, "out of memory for compressed data");
    return TP_OK;
}

TP__COLD_BEGIN
/* -- whole files ------------------------------------------------------------------------- >>file */

TP_DEF bool tp_file_exists(const char *path)
{
    tp__os_info is;
    return path && tp__os_stat(path, true, &is) == 0;
}

/* Read all of fd into *data, followed by a NUL. expect: the expected size in bytes. */
static tp_status tp__read_all(const char *path, int fd, size_t expect, size_t limit, char **data, size_t *size)
{
    size_t cap = expect + 1, len = 0;
    char *p = (char *)tp_malloc(cap + 1);
    if (!p) return TP_ERR_NOMEM;
    for (;;) {
        if (len == cap) {
            cap = cap < 65536 ? 65536 : cap > limit / 2 ? limit + 1 : 2 * cap;
            char *q = (char *)tp_realloc(p, cap + 1);
            if (!q) {
                tp_free(p);
                return TP_ERR_NOMEM;
            }
            p = q;
        }
        const size_t requested = cap - len;
        const int64_t got = tp__os_read(fd, p + len, requested);
        if (got < 0) {
            tp_status s = tp_fail(TP_ERR_IO, "%s cannot be read: %s", path, tp__os_error());
            tp_free(p);
            return s;
        }
        len += (size_t)got;
        if (len > limit) {
            tp_free(p);
            return tp_fail(TP_ERR_FORMAT, "%s is larger than the %llu bytes allowed", path, (unsigned long long)limit);
        }
        if ((size_t)got < requested) break;
    }
    p[len] = 0;
    *data = p;
    *size = len;
    return TP_OK;
}

TP_DEF tp_status tp_file_read(const char *path, bool gunzip, size_t limit, char **data, size_t *size)
{
    if (data) *data = NULL;
    if (size) *size = 0;
    TP__REQUIRE(path && data && size, TP_ERR_ARG)

    limit = tp__file_limit(limit);
    const int fd = tp__os_open(path, TP__OS_READ);
    if (fd < 0) return tp_fail(TP_ERR_IO, "%s cannot be opened: %s", path, tp__os_error());
    tp__os_info is;
    tp_status s = TP_OK;
    if (tp__os_fstat(fd, &is) != 0) s = tp_fail(TP_ERR_IO, "%s cannot be read: %s", path, tp__os_error());
    else if (is.kind == TP__OS_DIR) s = tp_fail(TP_ERR_IO, "%s is a directory, not a file", path);
    else if (is.size > limit)
        s = tp_fail(TP_ERR_FORMAT, "%s has %llu bytes, more than the %llu allowed", path, (unsigned long long)is.size,
                    (unsigned long long)limit);
    if (!s) s = tp__read_all(path, fd, (size_t)is.size, limit, data, size);
    tp__os_close(fd);
    if (s || !gunzip) return s;

    /* A file is a gzip file if it begins with gzip's magic number. A file named *.gz that is empty or is the byte 0x1f alone counts as a
     * gzip file that is cut short. */
    const uint8_t *p = (const uint8_t *)*data;
    size_t n = strlen(path);
    bool named = n > 3 && strcmp(path + n - 3, ".gz") == 0 && *size < 2 && (*size == 0 || p[0] == 0x1f);
    if (!named && (*size < 2 || p[0] != 0x1f || p[1] != 0x8b)) return TP_OK;
    char *zipped = *data;
    n = *size;
    *data = NULL;
    *size = 0;
    s = tp__gunzip(path, p, n, limit, data, size);
    tp_free(zipped);
    return s;
}

TP_DEF tp_status tp_make_dirs(const char *path)
{
    if (!path || !path[0]) return tp_fail(TP_ERR_ARG, "tp_make_dirs: the path is empty");
    char *p = tp_strdup(path);
    if (!p) return TP_ERR_NOMEM;
    tp_status s = TP_OK;
    for (size_t i = tp__os_root(p); !s; i++) {
        const char c = p[i];
        if (!tp__os_is_separator(c) && c != 0) continue;
        p[i] = 0;
        tp__os_info is;
        if (tp__os_mkdir(p) != 0) {
            const char *reason = errno == EEXIST
                                     ? "it is a symbolic link to what does not exist; make that, or remove the link"
                                     : tp__os_error();
            if (tp__os_stat(p, true, &is) != 0) s = tp_fail(TP_ERR_IO, "directory %s cannot be made: %s", p, reason);
            else if (is.kind != TP__OS_DIR) s = tp_fail(TP_ERR_IO, "%s is in the way: it is not a directory", p);
        }
        p[i] = c;
        if (c == 0) break;
    }
    tp_free(p);
    return s;
}

/* -- the writer -------------------------------------------------------------------------- >>writer */

struct tp_writer {
    int fd;
    char *path;
    char *temp;       /* the file that is renamed to path; NULL: path is a device, which is written directly */
    tp_status failed; /* the first error of the writer, and its sentence */
    char sentence[512];
    uint64_t at; /* number of bytes written so far */
    size_t fill;
    uint8_t buffer[65536];
};

/* Keep an error and its sentence, tp_last_error(), unless the writer has an earlier one. */
static tp_status tp__writer_fail(tp_writer *w, tp_status s)
{
    if (w->failed || s == TP_OK) return w->failed;
    const char *text = tp_last_error();
    size_t n = strlen(text) < sizeof w->sentence - 1 ? strlen(text) : sizeof w->sentence - 1;
    memcpy(w->sentence, text, n);
    w->sentence[n] = 0;
    w->failed = s;
    return s;
}

static tp_status tp__writer_earlier_error(const tp_writer *w)
{
    return w->failed ? tp_fail(w->failed, "%s", w->sentence) : TP_OK;
}

/* Fail with errno's sentence: the file cannot be `done` ("written"). */
static tp_status tp__writer_cannot(const tp_writer *w, const char *done)
{
    return tp_fail(TP_ERR_IO, "%s cannot be %s: %s%s", w->path, done, tp__os_error(),
                   w->temp ? "; an old file of this name is untouched" : "");
}

static tp_status tp__writer_write(tp_writer *w, const void *data, size_t n)
{
    return tp__os_write(w->fd, data, n) == 0 ? TP_OK : tp__writer_fail(w, tp__writer_cannot(w, "written"));
}

static tp_status tp__writer_flush(tp_writer *w)
{
    size_t n = w->fill;
    w->fill = 0;
    return w->failed ? tp__writer_earlier_error(w) : tp__writer_write(w, w->buffer, n);
}

/* Overwrite n bytes at position `at` that were written before: for sizes in a header, which are known only later. */
static tp_status tp__writer_patch(tp_writer *w, uint64_t at, const void *data, size_t n)
{
    tp_status s = tp__writer_flush(w);
    if (s) return s;
    if (tp__os_seek(w->fd, (int64_t)at) != 0)
        return tp__writer_fail(w, tp_fail(TP_ERR_IO,
                                          "%s cannot be written: sizes or checksums stand before the data in this "
                                          "format, and one cannot go back there (%s); write a file instead",
                                          w->path, tp__os_error()));
    s = tp__writer_write(w, data, n);
    if (!s && tp__os_seek(w->fd, (int64_t)w->at) != 0) s = tp__writer_fail(w, tp__writer_cannot(w, "written"));
    return s;
}

/* The folder of a file; the caller frees it. */
static char *tp__folder_of(const char *path)
{
    const char *slash = tp__os_last_separator(path);
    char *dir = tp_strdup(slash ? path : ".");
    if (dir && slash) dir[slash == path ? 1 : slash - path] = 0;
    return dir;
}

/* -- temporary names
 *
 * <path>.tmp.<machine>-<process>-<number>, cut before .tmp where it is too long. Each write uses a new name. Temporary files of ended processes are removed when a file
 * is written to the same folder: at once if the process ran on this machine; else, as tp cannot know whether it still runs, after a
 * day without a change. <machine> is a hash of the host name, the boot id (two machines with the same name may share a folder) and
 * the process id namespace. */

static uint32_t tp__temp_machine(void)
{
    char host[256], boot_id[64];
    tp__os_info is;
    tp__os_host(host, sizeof host);
    tp__os_peek("/proc/sys/kernel/random/boot_id", boot_id, sizeof boot_id);
    if (tp__os_stat("/proc/self/ns/pid", true, &is) != 0) is.number = 0;
    const uint64_t h = tp_hash_name(host) ^ 3 * tp_hash_name(boot_id) ^ is.number;
    return (uint32_t)(h ^ h >> 32);
}

/* A file system takes names of 255 bytes. If the name with its ending is longer, it is cut before the ending, and the temporary name
 * is as long as the file's, or a little shorter: no UTF-8 character is cut. Files with the same cut name get different numbers. */
static char *tp__temp_name(const char *path, int number)
{
    char ending[64];
    const int extra = tp__format(ending, sizeof ending, ".tmp.%08lx-%lld-%d", (unsigned long)tp__temp_machine(),
                                 (long long)tp__os_pid(), number);
    const char *slash = tp__os_last_separator(path);
    const size_t n = strlen(path), name = slash ? strlen(slash + 1) : n;
    size_t kept = n;
    if (name + (size_t)extra > 255) {
        kept -= (size_t)extra;
        while (kept > n - name && ((unsigned char)path[kept] & 0xc0) == 0x80) kept--;
    }
    char *temp = (char *)tp_malloc(n + sizeof ending);
    if (temp) tp__format(temp, n + sizeof ending, "%.*s%s", (int)kept, path, ending);
    return temp;
}

typedef struct tp__leftovers {
    const char *dir;
    uint32_t machine;
} tp__leftovers;

static bool tp__leftover(void *user, const char *name)
{
    const tp__leftovers *in = (const tp__leftovers *)user;
    const char *p = strrchr(name, '.');
    char *end, *pid_end;
    tp__os_info is;
    if (!p || p - name < 4 || memcmp(p - 4, ".tmp", 4) != 0) return false;
    const uint32_t machine = (uint32_t)strtoul(p + 1, &end, 16);
    if (end != p + 9 || *end != '-') return false;
    const int64_t pid = strtoll(end + 1, &end, 10);
    if (*end != '-' || pid <= 0) return false;
    (void)strtol(end + 1, &pid_end, 10);
    if (pid_end == end + 1 || *pid_end || (machine == in->machine && tp__os_process_exists(pid))) return false;
    const size_t n = strlen(in->dir) + strlen(name) + 2;
    char *path = (char *)tp_malloc(n);
    if (!path) return true;
    tp__format(path, n, "%s/%s", in->dir, name);
    if (tp__os_stat(path, false, &is) == 0 &&
        (machine == in->machine || tp__os_wall() - 1e-9 * (double)is.time > 86400)) {
        if (is.kind == TP__OS_FILE) tp__os_remove(path);
        else if (is.kind == TP__OS_DIR && tp__os_empty_dir(path, NULL) == 0) tp__os_rmdir(path);
    }
    tp_free(path);
    return false;
}

static void tp__remove_leftovers(const char *dir)
{
    tp__leftovers in = {dir, tp__temp_machine()};
    tp__os_list(dir, tp__leftover, &in);
}

/* Replace *path by the path that it leads to if it is a symbolic link: else the renamed file would take the place of the link, and the
 * target would keep its old bytes. There need not be a file at the end. *path is tp_malloc'ed. */
static tp_status tp__follow_links(char **path)
{
    char target[4096];
    for (int links = 0; links < 40; links++) {
        const int64_t n = tp__os_read_link(*path, target, sizeof target);
        if (n < 0) return TP_OK;
        const char *slash = n > 0 && target[0] != '/' ? tp__os_last_separator(*path) : NULL;
        const int folder = slash ? (int)(slash - *path) + 1 : 0;
        const size_t size = (size_t)folder + (size_t)n + 1;
        char *next = (char *)tp_malloc(size);
        if (!next) return TP_ERR_NOMEM;
        tp__format(next, size, "%.*s%.*s", folder, *path, (int)n, target);
        tp_free(*path);
        *path = next;
    }
    return tp_fail(TP_ERR_IO, "%s cannot be created: its symbolic links lead in a circle; remove one of them", *path);
}

/* Why the file at `path` could not be created, if its folder is missing. A relative path is looked up in the working directory, which
 * the program may have changed. Keeps errno. */
static const char *tp__missing_folder(const char *path, char *text, size_t size)
{
    const int cause = errno;
    char here[512];
    const bool relative = path[0] != '/' && path[0] != '\\' && !(path[0] && path[1] == ':');
    text[0] = '\0';
    if (cause == ENOENT && relative && tp__os_cwd(here, sizeof here) == 0)
        tp__format(text, size, ", its folder is missing in the working directory %s (tp_make_dirs)", here);
    else if (cause == ENOENT) tp__format(text, size, ", its folder is missing (tp_make_dirs)");
    errno = cause;
    return text;
}

/* Open a file under a new name beside path. */
static tp_status tp__writer_open_temp(tp_writer *w)
{
    char *dir = tp__folder_of(w->path);
    if (!dir) return TP_ERR_NOMEM;
    tp__remove_leftovers(dir);
    tp_free(dir);
    for (int number = 0; w->fd < 0; number++) {
        tp_free(w->temp);
        if (!(w->temp = tp__temp_name(w->path, number))) return TP_ERR_NOMEM;
        w->fd = tp__os_open(w->temp, TP__OS_NEW);
        char missing[600];
        if (w->fd < 0 && (errno != EEXIST || number >= 10000))
            return tp_fail(TP_ERR_IO, "%s cannot be created%s: %s", w->path,
                           tp__missing_folder(w->path, missing, sizeof missing), tp__os_error());
    }
    tp__os_copy_permissions(w->fd, w->path);
    return TP_OK;
}

/* A device is opened itself, and a file by a temporary one beside it. */
static tp_status tp__writer_begin(tp_writer *w)
{
    if (!tp__os_is_device(w->path)) return tp__writer_open_temp(w);
    w->fd = tp__os_open(w->path, TP__OS_CHANGE);
    return w->fd >= 0 ? TP_OK : tp_fail(TP_ERR_IO, "%s cannot be opened: %s", w->path, tp__os_error());
}

static void tp__writer_free(tp_writer *w)
{
    tp_free(w->path);
    tp_free(w->temp);
    tp_free(w);
}

/* follow: if path is a symbolic link, write to where it leads; else replace the link. */
static tp_status tp__writer_new(tp_writer **out, const char *path, bool follow)
{
    *out = NULL;
    if (!path[0]) return tp_fail(TP_ERR_ARG, "tp_writer_open: the path is empty");
    const char *slash = tp__os_last_separator(path);
    if (slash && !slash[1])
        return tp_fail(TP_ERR_ARG, "%s cannot be written: it ends in '%c' as a folder does; add the name of a file",
                       path, *slash);
    tp_writer *w = (tp_writer *)tp_malloc(sizeof *w);
    if (!w) return TP_ERR_NOMEM;
    memset(w, 0, offsetof(tp_writer, buffer));
    w->fd = -1;
    w->path = tp_strdup(path);
    tp_status s = w->path ? TP_OK : TP_ERR_NOMEM;
    if (!s && follow && !tp__os_is_device(path)) s = tp__follow_links(&w->path);
    if (!s) s = tp__writer_begin(w);
    if (s) tp__writer_free(w);
    else *out = w;
    return s;
}

TP_DEF tp_status tp_writer_open(tp_writer **out, const char *path)
{
    if (out) *out = NULL;
    TP__REQUIRE(out && path, TP_ERR_ARG)

    return tp__writer_new(out, path, true);
}

TP_DEF tp_status tp_writer_put(tp_writer *w, const void *data, size_t size)
{
    TP__REQUIRE(w && (data || size == 0), TP_ERR_ARG)

    if (w->failed) return tp__writer_earlier_error(w);
    w->at += size;
    if (size > sizeof w->buffer - w->fill) {
        tp_status s = tp__writer_flush(w);
        if (s) return s;
        if (size >= sizeof w->buffer) return tp__writer_write(w, data, size);
    }
    if (size) memcpy(w->buffer + w->fill, data, size);
    w->fill += size;
    return TP_OK;
}

TP_DEF void tp_writer_abort(tp_writer *w)
{
    if (!w) return;
    if (w->fd >= 0) tp__os_close(w->fd);
    if (w->temp) tp__os_remove(w->temp);
    tp__writer_free(w);
}

TP_DEF tp_status tp_writer_commit(tp_writer *w)
{
    if (!w) return tp_fail(TP_ERR_ARG, "tp_writer_commit: the writer is NULL");
    char *dir = tp__folder_of(w->path);
    tp_status s = dir ? tp__writer_flush(w) : TP_ERR_NOMEM;
    if (!s && tp__os_sync(w->fd) != 0) s = tp__writer_cannot(w, "synced to the disk");
    if (!s) { /* close before the rename, because some file systems report a full disk only at close */
        if (tp__os_close(w->fd) != 0) s = tp__writer_cannot(w, "closed");
        w->fd = -1;
    }
    if (!s && w->temp && tp__os_rename(w->temp, w->path) != 0)
        s = tp_fail(TP_ERR_IO, "%s cannot be renamed to %s: %s", w->temp, w->path, tp__os_error());
    if (s) {
        tp_writer_abort(w);
    } else {
        if (w->temp && tp__os_sync_dir(dir) != 0)
            s = tp_fail(TP_ERR_IO, "%s is written, but its directory cannot be synced: %s", w->path, tp__os_error());
        tp__writer_free(w);
    }
    tp_free(dir);
    return s;
}

/* Append the bytes of another file. */
static tp_status tp__writer_put_file(tp_writer *w, const char *from)
{
    const int fd = tp__os_open(from, TP__OS_READ);
    if (fd < 0) return tp_fail(TP_ERR_IO, "%s cannot be opened: %s", from, tp__os_error());
    tp_status s = TP_OK;
    for (int64_t n = 1; !s && n > 0;) {
        if (w->fill == sizeof w->buffer) s = tp__writer_flush(w);
        n = s ? 0 : tp__os_read(fd, w->buffer + w->fill, sizeof w->buffer - w->fill);
        if (n < 0) s = tp_fail(TP_ERR_IO, "%s cannot be read: %s", from, tp__os_error());
        if (n > 0) w->fill += (size_t)n;
        if (n > 0) w->at += (uint64_t)n;
    }
    tp__os_close(fd);
    return s;
}

static TP__UNUSED tp_status tp__copy_file(const char *from, const char *to)
{
    tp_writer *w = NULL;
    tp_status s = tp_writer_open(&w, to);
    if (s) return s;
    s = tp__writer_put_file(w, from);
    if (!s) return tp_writer_commit(w);
    tp_writer_abort(w);
    return s;
}

/* -- npy --------------------------------------------------------------------------------- >>npy */
/* An npy file has a magic number, the text of a Python dict (type, order, shape), which is padded to a multiple of 64
 * bytes, and the elements. */

enum { TP__NPY_HEADER = 320, TP__PIECE = 1 << 20 };

/* Receives the next n bytes of a file. */
typedef tp_status (*tp__sink_fn)(void *user, const void *data, size_t n);

/* Check that t can be written, and compute the bytes of its elements. npy has no bfloat16, which is written as
 * float32. */
static tp_status tp__npy_check_type(const tp_tensor *t, const char *tensor_name, size_t *bytes)
{
    char text[TP_SHAPE_TEXT];
    if (!t || t->dtype <= TP_DTYPE_UNSET || t->dtype >= TP_DTYPE_COUNT)
        return tp_fail(TP_ERR_ARG, "%s cannot be saved: the tensor has no element type", tensor_name);
    if (t->shape.ndim < 0 || t->shape.ndim > TP_MAX_DIMS)
        return tp_fail(TP_ERR_SHAPE, "%s cannot be saved: it has %d dimensions", tensor_name, t->shape.ndim);
    int64_t n = tp_shape_size(&t->shape);
    if (n < 0 || n == INT64_MAX || (uint64_t)n > SIZE_MAX ||
        !tp_mul_size((size_t)n, t->dtype == TP_BF16 ? 4 : tp_dtype_size(t->dtype), bytes))
        return tp_fail(TP_ERR_SHAPE, "%s cannot be saved: its shape is %s", tensor_name,
                       tp_shape_text(&t->shape, text));
    return TP_OK;
}

static tp_status tp__npy_check(const tp_tensor *t, const char *tensor_name, size_t *bytes)
{
    *bytes = 0;
    tp_status s = tp__npy_check_type(t, tensor_name, bytes);
    if (!s && *bytes > 0 && !t->data)
        s = tp_fail(TP_ERR_ARG, "%s cannot be saved: the tensor has no data", tensor_name);
    return s;
}

static size_t tp__npy_header(const tp_tensor *t, char out[TP__NPY_HEADER])
{
    static const char *const kind[TP_DTYPE_COUNT] = {"", "f4", "f8", "f2", "f4", "i4", "i8", "|u1", "|b1"};
    const char *k = kind[t->dtype], *order = k[0] == '|' ? "" : tp__little_endian() ? "<" : ">";
    int n = 10 +
            tp__format(out + 10, TP__NPY_HEADER - 10, "{'descr': '%s%s', 'fortran_order': False, 'shape': (", order, k);
    for (int i = 0; i < t->shape.ndim; i++)
        n += tp__format(out + n, (size_t)(TP__NPY_HEADER - n), "%s%lld", i ? ", " : "", (long long)t->shape.dim[i]);
    n += tp__format(out + n, (size_t)(TP__NPY_HEADER - n), "%s), }", t->shape.ndim == 1 ? "," : "");
    int total = (n + 1 + 63) / 64 * 64;
    memset(out + n, ' ', (size_t)(total - n - 1));
    out[total - 1] = '\n';
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    tp__put_le((uint8_t *)out + 8, (uint64_t)(total - 10), 2);
    return (size_t)total;
}

/* Pass tensor t in npy format to the function `sink`, in pieces. tp__npy_check must have accepted t. */
static tp_status tp__npy_emit(const tp_tensor *t, tp__sink_fn sink, void *user)
{
    char header[TP__NPY_HEADER];
    tp_status s = sink(user, header, tp__npy_header(t, header));
    size_t n = (size_t)tp_shape_size(&t->shape), size = tp_dtype_size(t->dtype);
    const uint8_t *p = (const uint8_t *)t->data;
    if (t->dtype == TP_BF16) {
        float block[1024];
        for (size_t i = 0; i < n && !s; i += 1024) {
            size_t m = n - i < 1024 ? n - i : 1024;
            tp_convert(block, TP_F32, p + 2 * i, TP_BF16, (int64_t)m);
            s = sink(user, block, 4 * m);
        }
        return s;
    }
    for (size_t at = 0, bytes = n * size, piece = TP__PIECE; at < bytes && !s; at += piece)
        s = sink(user, p + at, bytes - at < piece ? bytes - at : piece);
    return s;
}

static tp_status tp__npy_to_writer(void *user, const void *data, size_t n)
{
    return tp_writer_put((tp_writer *)user, data, n);
}

TP_DEF tp_status tp_npy_save(const char *path, const tp_tensor *t)
{
    TP__REQUIRE(path && t, TP_ERR_ARG)

    size_t bytes = 0;
    tp_writer *w = NULL;
    tp_status s = tp__npy_check(t, path ? path : "the tensor", &bytes);
    if (!s) s = tp_writer_open(&w, path);
    if (s) return s;
    s = tp__npy_emit(t, tp__npy_to_writer, w);
    if (!s) return tp_writer_commit(w);
    tp_writer_abort(w);
    return s;
}

/* The contents of an npy header. */
typedef struct tp__npy {
    char kind; /* b i u f */
    int size;  /* bytes of an element in the npy file */
    bool swap, fortran;
    tp_dtype dtype; /* dtype of the tensor that is read */
    tp_shape shape;
} tp__npy;

/* A position in the header's text; the parser skips white space. */
typedef struct tp__scan {
    const char *at, *end;
    const char *data_name; /* name of the file, for error sentences */
} tp__scan;

static char tp__scan_peek(tp__scan *p)
{
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r')) p->at++;
    return p->at < p->end ? *p->at : (char)0;
}

static bool tp__scan_eat(tp__scan *p, char c)
{
    if (tp__scan_peek(p) != c || p->at == p->end) return false;
    p->at++;
    return true;
}

static bool tp__scan_word(tp__scan *p, const char *word)
{
    size_t n = strlen(word);
    tp__scan_peek(p);
    if ((size_t)(p->end - p->at) < n || memcmp(p->at, word, n) != 0) return false;
    p->at += n;
    return true;
}

/* Read a quoted string without escapes; *text points into the header. */
static bool tp__npy_quoted(tp__scan *p, const char **text, size_t *n)
{
    char quote = tp__scan_peek(p);
    if (quote != '\'' && quote != '"') return false;
    p->at++;
    const char *close = (const char *)memchr(p->at, quote, (size_t)(p->end - p->at));
    if (!close) return false;
    *text = p->at;
    *n = (size_t)(close - p->at);
    p->at = close + 1;
    return memchr(*text, '\\', *n) == NULL;
}

static tp_status tp__npy_descr(tp__scan *p, tp__npy *h)
{
    const char *text;
    size_t n;
    if (tp__scan_peek(p) == '[' || tp__scan_peek(p) == '(')
        return tp_fail(TP_ERR_UNSUPPORTED, "%s: a structured array; only plain numbers are read", p->data_name);
    if (!tp__npy_quoted(p, &text, &n)) return tp_fail(TP_ERR_FORMAT, "%s: the npy header is damaged", p->data_name);
    tp__printable printable;
    tp__make_printable(&printable, text, n);
    char order = '=';
    if (n > 0 && strchr("<>=|", text[0]) && text[0]) order = *text++, n--;
    if (n > 0 && text[0] == 'O')
        return tp_fail(TP_ERR_UNSUPPORTED,
                       "%s: it holds pickled Python objects, which are never read; save plain arrays in an npz instead",
                       p->data_name);
    static const struct {
        char name[3];
        tp_dtype dtype;
    } known[] = {{"b1", TP_BOOL}, {"i1", TP_I32}, {"i2", TP_I32}, {"i4", TP_I32}, {"i8", TP_I64}, {"u1", TP_U8},
                 {"u2", TP_I32},  {"u4", TP_I64}, {"u8", TP_I64}, {"f2", TP_F16}, {"f4", TP_F32}, {"f8", TP_F64}};
    for (int i = 0; i < TP_COUNT(known); i++) {
        if (n != 2 || memcmp(text, known[i].name, 2) != 0) continue;
        h->kind = text[0];
        h->size = text[1] - '0';
        h->swap = (order == '<' && !tp__little_endian()) || (order == '>' && tp__little_endian());
        h->dtype = known[i].dtype;
        return TP_OK;
    }
    return tp_fail(TP_ERR_UNSUPPORTED, "%s: elements of type '%s' are not read; convert them to float32 or int64 first",
                   p->data_name, printable.text);
}

static tp_status tp__npy_shape(tp__scan *p, tp__npy *h)
{
    bool comma = true;
    h->shape.ndim = 0;
    if (!tp__scan_eat(p, '('))
        return tp_fail(TP_ERR_FORMAT, "%s: the shape in the npy header is damaged", p->data_name);
    while (!tp__scan_eat(p, ')')) {
        char c = tp__scan_peek(p);
        if (!comma || c < '0' || c > '9')
            return tp_fail(TP_ERR_FORMAT, "%s: the shape in the npy header is damaged", p->data_name);
        if (h->shape.ndim == TP_MAX_DIMS)
            return tp_fail(TP_ERR_UNSUPPORTED, "%s: it has more than %d dimensions", p->data_name, TP_MAX_DIMS);
        int64_t v = 0;
        for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++) {
            if (v > (INT64_MAX - 9) / 10)
                return tp_fail(TP_ERR_FORMAT, "%s: a dimension in the npy header is too large", p->data_name);
            v = 10 * v + (*p->at - '0');
        }
        if (p->at < p->end && *p->at == 'L') p->at++; /* Python 2 writes an L after numbers: 3L */
        h->shape.dim[h->shape.ndim++] = v;
        comma = tp__scan_eat(p, ',');
    }
    if (h->shape.ndim == 1 && !comma) /* in Python (3) is a number and (3,) a tuple */
        return tp_fail(TP_ERR_FORMAT, "%s: the shape in the npy header is damaged", p->data_name);
    return TP_OK;
}

static tp_status tp__npy_dict(tp__scan *p, tp__npy *h)
{
    unsigned seen = 0;
    tp_status s = TP_OK;
    if (!tp__scan_eat(p, '{')) return tp_fail(TP_ERR_FORMAT, "%s: the npy header is damaged", p->data_name);
    for (bool comma = true; !s && !tp__scan_eat(p, '}');) {
        static const char *const keys[3] = {"descr", "fortran_order", "shape"};
        const char *text;
        size_t n;
        int key = 0;
        if (!comma || !tp__npy_quoted(p, &text, &n) || !tp__scan_eat(p, ':'))
            return tp_fail(TP_ERR_FORMAT, "%s: the npy header is damaged", p->data_name);
        while (key < 3 && (strlen(keys[key]) != n || memcmp(keys[key], text, n) != 0)) key++;
        if (key == 3 || seen & 1u << key)
            return tp_fail(TP_ERR_FORMAT, "%s: the npy header has an unknown or repeated key", p->data_name);
        seen |= 1u << key;
        if (key == 0) s = tp__npy_descr(p, h);
        else if (key == 2) s = tp__npy_shape(p, h);
        else if (tp__scan_word(p, "True")) h->fortran = true;
        else if (tp__scan_word(p, "False")) h->fortran = false;
        else s = tp_fail(TP_ERR_FORMAT, "%s: fortran_order in the npy header is neither True nor False", p->data_name);
        comma = tp__scan_eat(p, ',');
    }
    if (s) return s;
    tp__scan_peek(p);
    if (seen != 7 || p->at != p->end) return tp_fail(TP_ERR_FORMAT, "%s: the npy header is damaged", p->data_name);
    return TP_OK;
}

/* Convert the bytes at p to element k of dst. False if an unsigned number does not fit. */
static bool tp__npy_element(const tp__npy *h, void *dst, size_t k, const uint8_t *p)
{
    uint8_t raw[8];
    bool is_little_endian = tp__little_endian() != h->swap;
    uint64_t v = 0;
    for (int i = 0; i < h->size; i++) v |= (uint64_t)p[is_little_endian ? i : h->size - 1 - i] << (8 * i);
    if (h->kind == 'i' && h->size < 8 && v >> (8 * h->size - 1) & 1) v |= ~(uint64_t)0 << (8 * h->size);
    if (h->kind == 'u' && v > (uint64_t)INT64_MAX) return false;
    if (h->kind == 'b') v = v != 0;
    /* keeps the low bytes, in the byte order of this machine */
    size_t size = tp_dtype_size(h->dtype);
    for (size_t i = 0; i < size; i++) raw[tp__little_endian() ? i : size - 1 - i] = (uint8_t)(v >> (8 * i));
    memcpy((uint8_t *)dst + k * size, raw, size);
    return true;
}

/* Convert all elements to dst, in row-major order. False if an unsigned number does not fit. */
static bool tp__npy_elements(const tp__npy *h, void *dst, const uint8_t *src, size_t n)
{
    size_t size = (size_t)h->size;
    bool order = !h->fortran || h->shape.ndim < 2;
    bool is_unchanged = !h->swap && size == tp_dtype_size(h->dtype) && h->kind != 'b' && (h->kind != 'u' || size == 1);
    if (order && is_unchanged) {
        if (n) memcpy(dst, src, n * size);
        return true;
    }
    if (order) {
        for (size_t k = 0; k < n; k++)
            if (!tp__npy_element(h, dst, k, src + k * size)) return false;
        return true;
    }
    /* Fortran order: step through the indices of dst in row-major order; `at` is the position in src, by column-major strides. */
    size_t stride[TP_MAX_DIMS], at = 0;
    int64_t index[TP_MAX_DIMS] = {0};
    stride[0] = 1;
    for (int d = 1; d < h->shape.ndim; d++) stride[d] = stride[d - 1] * (size_t)h->shape.dim[d - 1];
    for (size_t k = 0; k < n; k++) {
        if (is_unchanged) memcpy((uint8_t *)dst + k * size, src + at * size, size);
        else if (!tp__npy_element(h, dst, k, src + at * size)) return false;
        for (int d = h->shape.ndim - 1; d >= 0; d--) {
            at += stride[d];
            if (++index[d] < h->shape.dim[d]) break;
            at -= stride[d] * (size_t)h->shape.dim[d];
            index[d] = 0;
        }
    }
    return true;
}

/* Compute the number of elements. False if a product of dimensions overflows in elements or in bytes of the wider type, even if
 * another dimension is 0. */
static bool tp__npy_count(const tp__npy *h, size_t *n)
{
    size_t whole = 1, room = h->dtype == TP_I32 || h->dtype == TP_I64 ? 8 : (size_t)h->size;
    *n = 1;
    for (int i = 0; i < h->shape.ndim; i++) {
        uint64_t d = (uint64_t)h->shape.dim[i];
        if (d > SIZE_MAX || !tp_mul_size(whole, d ? (size_t)d : 1, &whole) || whole > (size_t)PTRDIFF_MAX / room)
            return false;
        *n *= (size_t)d; /* cannot overflow: *n stays at most `whole` */
    }
    return true;
}

/* Reads an npy file of `size` bytes at p into t. exact: bytes after the elements are an error. */
static tp_status tp__npy_read(const uint8_t *p, size_t size, const char *data_name, bool exact, tp_tensor *t)
{
    if (size < 6 || memcmp(p, "\x93NUMPY", 6) != 0)
        return tp_fail(TP_ERR_FORMAT, "%s: this is no npy array (it does not begin with \\x93NUMPY)%s", data_name,
                       strstr(data_name, ".pkl") ? "; is it a file of torch.save? Save the state_dict as safetensors"
                                                 : "");
    if (size < 12) return tp_fail(TP_ERR_FORMAT, "%s: the npy header is cut short", data_name);
    if (p[6] < 1 || p[6] > 3 || p[7] != 0)
        return tp_fail(TP_ERR_UNSUPPORTED, "%s: npy version %d.%d is not known here", data_name, p[6], p[7]);
    size_t begin = p[6] == 1 ? 10 : 12, length = p[6] == 1 ? tp__le16(p + 8) : tp__le32(p + 8);
    if (length > (size_t)1 << 20) return tp_fail(TP_ERR_FORMAT, "%s: the npy header is too long", data_name);
    if (length > size - begin) return tp_fail(TP_ERR_FORMAT, "%s: the npy header is cut short", data_name);

    tp__npy h;
    tp__scan text;
    memset(&h, 0, sizeof h);
    text.at = (const char *)p + begin;
    text.end = text.at + length;
    text.data_name = data_name;
    tp_status s = tp__npy_dict(&text, &h);
    if (s) return s;

    size_t n = 0;
    if (!tp__npy_count(&h, &n))
        return tp_fail(TP_ERR_FORMAT, "%s: the shape in the npy header is impossibly large", data_name);
    size_t bytes_left = size - begin - length, bytes = n * (size_t)h.size;
    if (bytes_left < bytes || (exact && bytes_left != bytes))
        return tp_fail(TP_ERR_FORMAT, "%s: %s: the npy header promises %llu bytes of elements, there are %llu",
                       data_name, bytes_left < bytes ? "it is cut short" : "there is too much",
                       (unsigned long long)bytes, (unsigned long long)bytes_left);
    s = tp_tensor_resize(t, h.dtype, h.shape);
    if (s) return s;
    if (!tp__npy_elements(&h, t->data, p + begin + length, n))
        return tp_fail(TP_ERR_UNSUPPORTED, "%s: an unsigned 64-bit number does not fit int64", data_name);
    return TP_OK;
}

TP_DEF tp_status tp_npy_parse(const void *data, size_t size, const char *what, tp_tensor *t)
{
    TP__REQUIRE((data || size == 0) && t, TP_ERR_ARG)
    return tp__npy_read((const uint8_t *)data, size, what ? what : "npy data", false, t);
}

TP_DEF tp_status tp_npy_load(const char *path, tp_tensor *t)
{
    TP__REQUIRE(path && t, TP_ERR_ARG)

    char *data;
    size_t size;
    tp_status s = tp_file_read(path, false, 0, &data, &size);
    if (s) return s;
    s = tp_npy_parse(data, size, path, t);
    tp_free(data);
    return s;
}

/* -- dictionaries of arrays -------------------------------------------------------------- >>dict */

static tp_tensor *tp__dict_get(const tp_dict *d, const char *name)
{
    for (int i = 0; i < d->n; i++)
        if (strcmp(d->item[i].name, name) == 0) return &d->item[i].value;
    return NULL;
}

TP_DEF tp_tensor *tp_dict_find(const tp_dict *d, const char *name)
{
    TP__REQUIRE(d && name, NULL)

    tp_tensor *t = tp__dict_get(d, name);
    if (!t && d->n == 0) tp_fail(TP_ERR_NAME, "there is no array '%s': there are none", name);
    else if (!t) tp_fail(TP_ERR_NAME, "there is no array '%s'; the first of %d is '%s'", name, d->n, d->item[0].name);
    return t;
}

/* Append an item without a search for the name. Takes ownership of `name`, also on failure. */
static tp_tensor *tp__dict_append(tp_dict *d, char *name)
{
    if (d->n == d->cap) {
        int cap = d->cap < 16 ? 16 : d->cap > INT_MAX / 2 ? INT_MAX : 2 * d->cap;
        size_t bytes;
        tp_dict_item *item = NULL;
        if (d->n < cap && tp_mul_size((size_t)cap, sizeof *item, &bytes))
            item = (tp_dict_item *)tp_realloc(d->item, bytes);
        if (!item) {
            tp_free(name);
            return NULL;
        }
        d->item = item;
        d->cap = cap;
    }
    tp_dict_item *it = &d->item[d->n++];
    memset(it, 0, sizeof *it);
    it->name = name;
    return &it->value;
}

TP_DEF tp_tensor *tp_dict_add(tp_dict *d, const char *name)
{
    TP__REQUIRE(d && name, NULL)

    tp_tensor *old = tp__dict_get(d, name);
    if (old) return old;
    char *copy = tp_strdup(name);
    return copy ? tp__dict_append(d, copy) : NULL;
}

TP_DEF void tp_dict_free(tp_dict *d)
{
    if (!d) return;
    for (int i = 0; i < d->n; i++) {
        tp_free(d->item[i].name);
        tp_tensor_free(&d->item[i].value);
    }
    tp_free(d->item);
    memset(d, 0, sizeof *d);
}

/* -- reading npz ------------------------------------------------------------------------- >>npz */
/* An npz is a zip archive of npy files. Sizes are read from the central directory only: in the local headers they may be zero,
 * 0xFFFFFFFF or correct, depending on the program that wrote the file. Everything is checked before the first array is
 * allocated. */

enum { TP__ZIP_LOCAL = 30, TP__ZIP_CENTRAL = 46, TP__ZIP_END = 22, TP__ZIP_END64 = 56, TP__ZIP_LOCATOR = 20 };

typedef struct tp__zip_member {
    const char *name; /* points into the central directory; not terminated */
    size_t name_length;
    uint32_t method, crc;
    uint64_t compressed_size, uncompressed_size;
    uint64_t local_header; /* offset of the member's local header */
    uint64_t data;         /* offset of the member's bytes */
} tp__zip_member;

static tp_status tp__zip_bad(const char *data_name, const char *reason)
{
    return tp_fail(TP_ERR_FORMAT, "%s: the npz (zip) file is damaged: %s", data_name, reason);
}

/* A zip file: in memory, or open and read in parts. */
typedef struct tp__zip_file {
    const char *name;     /* for error sentences */
    const uint8_t *bytes; /* the whole file; NULL: its parts are read from fd */
    int fd;
    uint64_t size;
} tp__zip_file;

/* Finds n bytes at offset `at`, which are within the size of the file. They may be in `room`, and then stay until it is used again. */
static tp_status tp__zip_part(const tp__zip_file *z, uint64_t at, uint64_t n, tp_buf *room, const uint8_t **p)
{
    if (z->bytes) {
        *p = z->bytes + at;
        return TP_OK;
    }
    if (n >= room->cap) {
        tp_buf_free(room);
        room->data = n <= tp__file_limit(0) ? (char *)tp_malloc((size_t)n + 1) : NULL;
        if (!room->data)
            return tp_fail(TP_ERR_NOMEM, "%s: out of memory for %llu bytes of it", z->name, (unsigned long long)n);
        room->cap = (size_t)n + 1;
    }
    const int64_t got = tp__os_read_at(z->fd, room->data, (size_t)n, (int64_t)at);
    if (got < 0) return tp_fail(TP_ERR_IO, "%s cannot be read: %s", z->name, tp__os_error());
    if ((uint64_t)got != n) return tp_fail(TP_ERR_FORMAT, "%s has become shorter while it was read", z->name);
    *p = (const uint8_t *)room->data;
    return TP_OK;
}

/* Find the central directory: n members in [*begin, *end). */
static tp_status tp__zip_directory(const tp__zip_file *z, tp_buf *room, uint64_t *n, uint64_t *begin, uint64_t *end)
{
    const char *const data_name = z->name;
    const uint64_t size = z->size, tail = TP__ZIP_LOCATOR + TP__ZIP_END + 65535u, low = size > tail ? size - tail : 0;
    uint64_t at = size, lowest = size > TP__ZIP_END + 65535u ? size - TP__ZIP_END - 65535u : 0;
    if (size < TP__ZIP_END) return tp__zip_bad(data_name, "it is too short");
    const uint8_t *p, *e; /* p: the end of the file; e: its end record */
    tp_status s = tp__zip_part(z, low, size - low, room, &p);
    if (s) return s;
    for (at = size - TP__ZIP_END;; at--) {
        e = p + (at - low);
        if (tp__le32(e) == 0x06054b50u && at + TP__ZIP_END + tp__le16(e + 20) == size) break;
        if (at == lowest) return tp__zip_bad(data_name, "it has no end record (is it cut short, or no npz file?)");
    }
    uint64_t disk = tp__le16(e + 4), cd_disk = tp__le16(e + 6), here = tp__le16(e + 8), bytes = tp__le32(e + 12);
    *n = tp__le16(e + 10);
    *begin = tp__le32(e + 16);
    bool zip64 = *n == 0xFFFF || bytes == 0xFFFFFFFFu || *begin == 0xFFFFFFFFu;
    bool has_locator = at >= TP__ZIP_LOCATOR + TP__ZIP_END64 && tp__le32(e - TP__ZIP_LOCATOR) == 0x07064b50u;
    if (zip64 && has_locator) {
        uint64_t locator = at - TP__ZIP_LOCATOR;
        at = tp__le64(e - TP__ZIP_LOCATOR + 8);
        if (at > locator - TP__ZIP_END64) return tp__zip_bad(data_name, "its zip64 end record is wrong");
        s = tp__zip_part(z, at, TP__ZIP_END64, room, &e);
        if (s) return s;
        if (tp__le32(e) != 0x06064b50u || tp__le64(e + 4) < 44 || tp__le64(e + 4) > locator - at - 12)
            return tp__zip_bad(data_name, "its zip64 end record is wrong");
        disk = tp__le32(e + 16);
        cd_disk = tp__le32(e + 20);
        here = tp__le64(e + 24);
        *n = tp__le64(e + 32);
        bytes = tp__le64(e + 40);
        *begin = tp__le64(e + 48);
    }
    if (disk || cd_disk || here != *n) return tp__zip_bad(data_name, "it is one part of several");
    if (*begin > at || bytes > at - *begin) return tp__zip_bad(data_name, "its directory lies outside the file");
    if (*n > bytes / TP__ZIP_CENTRAL || *n > INT_MAX) return tp__zip_bad(data_name, "its directory is too short");
    *end = *begin + bytes;
    return TP_OK;
}

/* Read the zip64 field of a central directory entry: it has the sizes and the offset that are 0xFFFFFFFF in the entry. */
static bool tp__zip_extra(const uint8_t *p, size_t n, tp__zip_member *m)
{
    while (n >= 4) {
        size_t id = tp__le16(p), len = tp__le16(p + 2);
        p += 4;
        n -= 4;
        if (len > n) return false;
        if (id == 1) {
            uint64_t *field[3] = {&m->uncompressed_size, &m->compressed_size, &m->local_header};
            const uint8_t *q = p;
            for (int i = 0; i < 3; i++) {
                if (*field[i] != 0xFFFFFFFFu) continue;
                if (len - (size_t)(q - p) < 8) return false;
                *field[i] = tp__le64(q);
                q += 8;
            }
            return true;
        }
        p += len;
        n -= len;
    }
    return true; /* do not require the whole field: some files have up to three bytes of padding here */
}

/* Reads the entry at *at of the central directory, which ends at `end`, and moves *at behind it. */
static tp_status tp__zip_entry(const uint8_t **at, const uint8_t *end, const char *data_name, tp__zip_member *m,
                               uint32_t *flags)
{
    const uint8_t *c = *at;
    if (end - c < TP__ZIP_CENTRAL || tp__le32(c) != 0x02014b50u)
        return tp__zip_bad(data_name, "its directory is wrong");
    uint32_t nlen = tp__le16(c + 28), xlen = tp__le16(c + 30), clen = tp__le16(c + 32);
    if ((uint64_t)(end - c) - TP__ZIP_CENTRAL < (uint64_t)nlen + xlen + clen)
        return tp__zip_bad(data_name, "its directory is wrong");
    *flags = tp__le16(c + 8);
    m->name = (const char *)c + TP__ZIP_CENTRAL;
    m->name_length = nlen;
    m->method = tp__le16(c + 10);
    m->crc = tp__le32(c + 16);
    m->compressed_size = tp__le32(c + 20);
    m->uncompressed_size = tp__le32(c + 24);
    m->local_header = tp__le32(c + 42);
    *at += (size_t)TP__ZIP_CENTRAL + nlen + xlen + clen;
    if (!tp__zip_extra(c + TP__ZIP_CENTRAL + nlen, xlen, m)) return tp__zip_bad(data_name, "a zip64 field is wrong");
    return TP_OK;
}

/* Checks a member of the zip file and finds where its bytes are. The name still ends in .npy. `begin`: where the directory begins, behind
 * all members. */
static tp_status tp__zip_place(const tp__zip_file *z, uint64_t begin, uint32_t flags, tp__zip_member *m, tp_buf *room)
{
    const char *const data_name = z->name;
    const size_t nlen = m->name_length;
    tp__printable printable;
    tp__make_printable(&printable, m->name, nlen);
    if (nlen == 0 || memchr(m->name, 0, nlen)) return tp__zip_bad(data_name, "a member has an impossible name");
    if (flags & (0x1 | 0x20 | 0x40 | 0x2000))
        return tp_fail(TP_ERR_UNSUPPORTED, "%s: member '%s' is encrypted or patched", data_name, printable.text);
    if (m->method != 0 && m->method != 8)
        return tp_fail(TP_ERR_UNSUPPORTED,
                       "%s: member '%s' is compressed by method %u; only stored and deflated are read", data_name,
                       printable.text, (unsigned)m->method);

    /* The local header is used only to find the member's bytes. */
    if (m->local_header > begin || begin - m->local_header < TP__ZIP_LOCAL)
        return tp__zip_bad(data_name, "a member lies outside the file");
    const uint64_t left = begin - m->local_header - TP__ZIP_LOCAL;
    const uint8_t *l;
    const tp_status s = tp__zip_part(z, m->local_header, TP__ZIP_LOCAL + (left < nlen ? left : nlen), room, &l);
    if (s) return s;
    if (tp__le32(l) != 0x04034b50u || tp__le16(l + 8) != m->method || (tp__le16(l + 6) & 1) ||
        tp__le16(l + 26) != nlen || left < (uint64_t)nlen + tp__le16(l + 28) ||
        memcmp(l + TP__ZIP_LOCAL, m->name, nlen) != 0)
        return tp_fail(TP_ERR_FORMAT, "%s: member '%s': the two headers contradict each other", data_name,
                       printable.text);
    m->data = m->local_header + TP__ZIP_LOCAL + nlen + tp__le16(l + 28);
    if (m->compressed_size > begin - m->data) return tp__zip_bad(data_name, "a member lies outside the file");
    /* more is impossible: deflate compresses at most 1032 to 1 */
    if (m->method == 0 ? m->uncompressed_size != m->compressed_size
                       : m->uncompressed_size > 1032 * m->compressed_size + 64)
        return tp_fail(TP_ERR_FORMAT, "%s: member '%s': its size is impossible", data_name, printable.text);
    return TP_OK;
}

/* The length of a member's name without .npy. */
static size_t tp__zip_array_name(const tp__zip_member *m)
{
    const bool npy = m->name_length > 4 && memcmp(m->name + m->name_length - 4, ".npy", 4) == 0;
    return npy ? m->name_length - 4 : m->name_length;
}

static int tp__zip_by_name(const void *a, const void *b)
{
    const tp__zip_member *x = *(tp__zip_member *const *)a, *y = *(tp__zip_member *const *)b;
    int order = memcmp(x->name, y->name, x->name_length < y->name_length ? x->name_length : y->name_length);
    return order ? order : x->name_length < y->name_length ? -1 : x->name_length > y->name_length;
}

static int tp__zip_by_place(const void *a, const void *b)
{
    const tp__zip_member *x = *(tp__zip_member *const *)a, *y = *(tp__zip_member *const *)b;
    return x->local_header < y->local_header ? -1 : x->local_header > y->local_header;
}

/* Check that all names differ, that members do not overlap, and that their total size is allowed. */
static tp_status tp__zip_check(tp__zip_member **sorted, size_t n, const char *data_name)
{
    uint64_t total = 0, limit = tp__file_limit(0);
    for (size_t i = 0; i < n; i++) {
        if (sorted[i]->uncompressed_size > limit - total)
            return tp_fail(TP_ERR_FORMAT, "%s: its arrays are larger than the %llu bytes allowed", data_name,
                           (unsigned long long)limit);
        total += sorted[i]->uncompressed_size;
    }
    qsort(sorted, n, sizeof *sorted, tp__zip_by_name);
    for (size_t i = 1; i < n; i++) {
        tp__printable printable;
        if (tp__zip_by_name(&sorted[i - 1], &sorted[i]) == 0)
            return tp_fail(TP_ERR_FORMAT, "%s: there are two arrays '%s'", data_name,
                           tp__make_printable(&printable, sorted[i]->name, sorted[i]->name_length));
    }
    qsort(sorted, n, sizeof *sorted, tp__zip_by_place);
    for (size_t i = 1; i < n; i++)
        if (sorted[i - 1]->data + sorted[i - 1]->compressed_size > sorted[i]->local_header)
            return tp__zip_bad(data_name, "members overlap");
    return TP_OK;
}

static tp_status tp__npz_member(const tp__zip_file *z, const tp__zip_member *m, tp_dict *d)
{
    const char *const data_name = z->name;
    tp__printable printable;
    tp_buf label = {NULL, 0, 0, false}, room = {NULL, 0, 0, false};
    uint8_t *inflated = NULL;
    const uint8_t *bytes = NULL;
    tp_tensor *t = NULL;
    tp_status s = TP_OK;

    char *name = (char *)tp_malloc(m->name_length + 1);
    if (name) {
        memcpy(name, m->name, m->name_length);
        name[m->name_length] = 0;
        t = tp__dict_append(d, name);
    }
    if (t) tp_buf_printf(&label, "%s: array '%s'", data_name, tp__make_printable(&printable, m->name, m->name_length));
    if (t && !label.failed && m->method == 8) inflated = (uint8_t *)tp_malloc((size_t)m->uncompressed_size + 1);
    if (!t || label.failed || (m->method == 8 && !inflated)) {
        tp_buf_free(&label);
        return tp_fail(TP_ERR_NOMEM, "%s: out of memory for array '%s' of %llu bytes", data_name,
                       tp__make_printable(&printable, m->name, m->name_length),
                       (unsigned long long)m->uncompressed_size);
    }
    s = tp__zip_part(z, m->data, m->compressed_size, &room, &bytes);
    if (!s && inflated) {
        const char *reason =
            tp__inflate_exact(bytes, (size_t)m->compressed_size, inflated, (size_t)m->uncompressed_size);
        if (reason) s = tp_fail(TP_ERR_FORMAT, "%s: its compressed data is damaged: %s", label.data, reason);
        bytes = inflated;
        tp_buf_free(&room);
    }
    if (!s && tp_crc32(0, bytes, (size_t)m->uncompressed_size) != m->crc)
        s = tp_fail(TP_ERR_FORMAT, "%s: the checksum does not match, the file is damaged", label.data);
    if (!s) s = tp__npy_read(bytes, (size_t)m->uncompressed_size, label.data, true, t);
    tp_free(inflated);
    tp_buf_free(&room);
    tp_buf_free(&label);
    return s;
}

/* The names of the arrays that are wanted. */
typedef struct tp__npz_names {
    const char *const *name;
    int n; /* 0: all arrays */
} tp__npz_names;

static bool tp__npz_is_wanted(const tp__npz_names *names, const tp__zip_member *m)
{
    const size_t length = tp__zip_array_name(m);
    for (int i = 0; i < names->n; i++)
        if (strlen(names->name[i]) == length && memcmp(names->name[i], m->name, length) == 0) return true;
    return names->n == 0;
}

/* Fails for the first name that no member has. first: the first member of the file. */
static tp_status tp__npz_has_all(const tp__npz_names *names, const tp__zip_member *member, size_t n,
                                 const tp__zip_member *first, const char *data_name)
{
    for (int i = 0; i < names->n; i++) {
        const tp__npz_names one = {&names->name[i], 1};
        size_t k = 0;
        while (k < n && !tp__npz_is_wanted(&one, &member[k])) k++;
        tp__printable printable;
        if (k == n)
            return tp_fail(TP_ERR_NAME, "%s has no array \"%s\"; its first is \"%s\"", data_name, names->name[i],
                           tp__make_printable(&printable, first->name, tp__zip_array_name(first)));
    }
    return TP_OK;
}

/* Reads the wanted arrays of the n in the directory into the empty dict d. The others are neither read nor checked. */
static tp_status tp__npz_arrays(const tp__zip_file *z, const uint8_t *directory, uint64_t begin, uint64_t end, size_t n,
                                const tp__npz_names *names, tp_dict *d)
{
    const char *const data_name = z->name;
    const uint8_t *at = directory, *const last = directory + (end - begin);
    size_t bytes, wanted = 0;
    tp_buf room = {NULL, 0, 0, false};
    tp_status s = TP_OK;
    tp__zip_member first, *member = NULL, **sorted = NULL;
    memset(&first, 0, sizeof first);
    if (tp_mul_size(n, sizeof *member, &bytes)) member = (tp__zip_member *)tp_malloc(bytes);
    if (tp_mul_size(n, sizeof *sorted, &bytes)) sorted = (tp__zip_member **)tp_malloc(bytes);
    if (!member || !sorted) s = tp_fail(TP_ERR_NOMEM, "%s: out of memory for its directory", data_name);
    for (size_t i = 0; i < n && !s; i++) {
        tp__zip_member *m = &member[wanted];
        uint32_t flags = 0;
        s = tp__zip_entry(&at, last, data_name, m, &flags);
        if (s) break;
        if (i == 0) first = *m;
        if (!tp__npz_is_wanted(names, m)) continue;
        s = tp__zip_place(z, begin, flags, m, &room);
        sorted[wanted++] = m;
    }
    tp_buf_free(&room);
    if (!s && at != last) s = tp__zip_bad(data_name, "its directory is longer than its members");
    if (!s) s = tp__npz_has_all(names, member, wanted, &first, data_name);
    for (size_t i = 0; i < wanted && !s; i++) member[i].name_length = tp__zip_array_name(&member[i]);
    if (!s) s = tp__zip_check(sorted, wanted, data_name);
    for (size_t i = 0; i < wanted && !s; i++) s = tp__npz_member(z, &member[i], d);
    tp_free(member);
    tp_free(sorted);
    return s;
}

/* Read an npz into the empty dict d. */
static tp_status tp__npz_read(const tp__zip_file *z, const tp__npz_names *names, tp_dict *d)
{
    uint64_t n = 0, begin = 0, end = 0;
    tp_buf room = {NULL, 0, 0, false};
    tp_status s = tp__zip_directory(z, &room, &n, &begin, &end);
    if (!s && n > 0) {
        const uint8_t *directory = NULL;
        s = tp__zip_part(z, begin, end - begin, &room, &directory);
        if (!s) s = tp__npz_arrays(z, directory, begin, end, (size_t)n, names, d);
    }
    tp_buf_free(&room);
    return s;
}

/* Read an npz in memory into the empty dict d. */
static tp_status tp__npz_parse(const uint8_t *p, size_t size, const char *data_name, tp_dict *d)
{
    const tp__zip_file z = {data_name, p, -1, size};
    const tp__npz_names all = {NULL, 0};
    return tp__npz_read(&z, &all, d);
}

TP_DEF tp_status tp_npz_load(const char *path, tp_dict *d)
{
    TP__REQUIRE(path && d, TP_ERR_ARG)

    char *data;
    size_t size;
    tp_dict fresh = {NULL, 0, 0};
    tp_status s = tp_file_read(path, false, 0, &data, &size);
    if (s) return s;
    s = tp__npz_parse((const uint8_t *)data, size, path, &fresh);
    tp_free(data);
    if (s) {
        tp_dict_free(&fresh);
        return s;
    }
    tp_dict_free(d); /* replaces d only now, so that an error leaves d unchanged */
    *d = fresh;
    return TP_OK;
}

/* The same for n arrays, or all if n is 0, into the empty dict d. Of a file only the arrays with these names are read, one after the
 * other; a pipe, which has no places, is read as a whole. */
TP__UNUSED static tp_status tp__npz_load_named(const char *path, const char *const *name, int n, tp_dict *d)
{
    const tp__npz_names names = {name, n};
    tp__os_info is;
    tp__zip_file z = {path, NULL, -1, 0};
    char *data = NULL;
    size_t size = 0;
    tp_status s = TP_OK;
    if (tp__os_stat(path, true, &is) != 0 || is.kind != TP__OS_FILE) {
        s = tp_file_read(path, false, 0, &data, &size);
        z.bytes = (const uint8_t *)data;
        z.size = size;
    } else {
        z.fd = tp__os_open(path, TP__OS_READ);
        if (z.fd < 0 || tp__os_fstat(z.fd, &is) != 0)
            s = tp_fail(TP_ERR_IO, "%s cannot be opened: %s", path, tp__os_error());
        z.size = is.size;
    }
    if (!s) s = tp__npz_read(&z, &names, d);
    if (z.fd >= 0) tp__os_close(z.fd);
    tp_free(data);
    if (s) tp_dict_free(d);
    return s;
}

/* -- writing npz ------------------------------------------------------------------------- >>npz_writer */

/* A size or offset of at least this is written to a 64-bit field, and its 32-bit field is all ones. Tests define a lower
 * value, to test zip64 without files of 4 GiB. */
#ifndef TP__ZIP64_FROM
#define TP__ZIP64_FROM 0xFFFFFFFFu
#endif

static uint64_t tp__zip_field32(uint64_t v) { return v < TP__ZIP64_FROM ? v : 0xFFFFFFFFu; }

typedef struct tp__npz_name {
    uint64_t hash;
    size_t directory_at; /* position of the name in `directory`; 0: this slot of the table is free */
} tp__npz_name;

struct tp_npz_writer {
    tp_writer *file;
    tp__deflate *deflate; /* NULL: members are stored without compression */
    tp_buf packed;        /* buffer for compressed bytes */
    tp_buf directory;     /* the central directory: entries of the members so far */
    tp__npz_name *name;   /* hash table of names, at most half full */
    size_t n, cap;        /* number of names and of slots; the latter is a power of two */
    uint32_t crc;         /* CRC-32 of the member being written */
    uint64_t uncompressed_size, compressed_size;
};

TP_DEF tp_status tp_npz_open(tp_npz_writer **out, const char *path, bool compress)
{
    if (out) *out = NULL;
    TP__REQUIRE(out && path, TP_ERR_ARG)

    tp_npz_writer *w = (tp_npz_writer *)tp_calloc(1, sizeof *w);
    if (!w) return TP_ERR_NOMEM;
    tp_status s = TP_OK;
    if (compress) {
        w->deflate = tp__deflate_new(&w->packed);
        if (!w->deflate) s = TP_ERR_NOMEM;
    }
    if (!s) s = tp_writer_open(&w->file, path);
    if (s) {
        tp_npz_abort(w);
        return s;
    }
    *out = w;
    return TP_OK;
}

TP_DEF void tp_npz_abort(tp_npz_writer *w)
{
    if (!w) return;
    tp_writer_abort(w->file);
    tp_free(w->deflate);
    tp_buf_free(&w->packed);
    tp_buf_free(&w->directory);
    tp_free(w->name);
    tp_free(w);
}

/* Add a part of a member to the checksum, compress it and write it to the file. n = 0 ends the compressed stream. */
static tp_status tp__npz_sink(void *user, const void *data, size_t n)
{
    tp_npz_writer *w = (tp_npz_writer *)user;
    w->crc = tp_crc32(w->crc, data, n);
    w->uncompressed_size += n;
    if (!w->deflate) {
        w->compressed_size += n;
        return tp_writer_put(w->file, data, n);
    }
    tp__deflate_piece(w->deflate, (const uint8_t *)data, n, n == 0);
    if (w->packed.failed) return tp_fail(TP_ERR_NOMEM, "out of memory for compressed data");
    tp_status s = tp_writer_put(w->file, w->packed.data, w->packed.len);
    w->compressed_size += w->packed.len;
    w->packed.len = 0;
    return s;
}

/* Returns 0 for ASCII, 1 for other UTF-8, -1 for invalid UTF-8. */
static int tp__utf8(const char *name)
{
    const unsigned char *p = (const unsigned char *)name;
    int has_multibyte = 0;
    while (*p) {
        int n_following = *p < 0x80 ? 0 : *p < 0xC2 ? -1 : *p < 0xE0 ? 1 : *p < 0xF0 ? 2 : *p < 0xF5 ? 3 : -1;
        if (n_following < 0) return -1;
        if (n_following) has_multibyte = 1;
        if ((*p == 0xE0 && p[1] < 0xA0) || (*p == 0xED && p[1] > 0x9F) || (*p == 0xF0 && p[1] < 0x90) ||
            (*p == 0xF4 && p[1] > 0x8F))
            return -1;
        for (p++; n_following > 0; n_following--, p++)
            if ((*p & 0xC0) != 0x80) return -1;
    }
    return has_multibyte;
}

/* The slot of a name in the hash table, or the free slot for it; NULL: out of memory. */
static tp__npz_name *tp__npz_slot(tp_npz_writer *w, const char *name, size_t name_length)
{
    if (2 * (w->n + 1) > w->cap) {
        size_t cap = w->cap ? 2 * w->cap : 64;
        tp__npz_name *table = (tp__npz_name *)tp_calloc(cap, sizeof *table);
        if (!table) return NULL;
        for (size_t i = 0; i < w->cap; i++) {
            if (!w->name[i].directory_at) continue;
            size_t k = (size_t)w->name[i].hash & (cap - 1);
            while (table[k].directory_at) k = (k + 1) & (cap - 1);
            table[k] = w->name[i];
        }
        tp_free(w->name);
        w->name = table;
        w->cap = cap;
    }
    uint64_t hash = tp_hash(name, name_length);
    size_t k = (size_t)hash & (w->cap - 1);
    for (; w->name[k].directory_at; k = (k + 1) & (w->cap - 1)) {
        const char *old = w->directory.data + w->name[k].directory_at;
        if (w->name[k].hash != hash || w->directory.len - w->name[k].directory_at < name_length + 4) continue;
        if (memcmp(old, name, name_length) == 0 && memcmp(old + name_length, ".npy", 4) == 0) break;
    }
    w->name[k].hash = hash;
    return &w->name[k];
}

/* Write the fields that a zip file's local and central headers share, from "version needed" to "extra length". */
static uint8_t *tp__zip_fields(uint8_t *h, bool zip64, uint32_t flags, bool deflated, uint32_t crc,
                               uint64_t compressed_size, uint64_t uncompressed_size, size_t name_length,
                               size_t extra_length)
{
    h = tp__put_le(h, zip64 ? 45 : 20, 2);
    h = tp__put_le(h, flags, 2);
    h = tp__put_le(h, deflated ? 8 : 0, 2);
    h = tp__put_le(h, 0, 2);      /* 00:00:00 */
    h = tp__put_le(h, 0x0021, 2); /* the date is always 1980-01-01, so that the same arrays give the same file */
    h = tp__put_le(h, crc, 4);
    h = tp__put_le(h, compressed_size, 4);
    h = tp__put_le(h, uncompressed_size, 4);
    h = tp__put_le(h, name_length, 2);
    return tp__put_le(h, extra_length, 2);
}

static tp_status tp__npz_put(tp_npz_writer *w, const char *name, const tp_tensor *t)
{
    size_t bytes = 0, nlen = name ? strlen(name) : 0, full = nlen + 4;
    tp__printable printable;
    if (nlen == 0 || full > 0xFFFF) return tp_fail(TP_ERR_NAME, "an array in an npz needs a name of 1 to 65531 bytes");
    tp__make_printable(&printable, name, nlen);
    tp_status s = tp__npy_check(t, printable.text, &bytes);
    if (s) return s;
    tp__npz_name *slot = tp__npz_slot(w, name, nlen);
    if (!slot) return tp_fail(TP_ERR_NOMEM, "out of memory for the names of an npz");
    if (slot->directory_at) return tp_fail(TP_ERR_NAME, "array '%s' is put into the npz twice", printable.text);

    /* First a local header of zeros: its checksum and sizes are known only after the data. */
    uint8_t h[TP__ZIP_CENTRAL + 32], *e;
    uint32_t flags = tp__utf8(name) > 0 ? 0x0800u : 0; /* flag: the name is UTF-8 */
    uint64_t max_bytes = (uint64_t)bytes + TP__NPY_HEADER, local = w->file->at;
    bool zip64 =
        max_bytes + max_bytes / 1024 + 1024 >= TP__ZIP64_FROM; /* an upper limit: stored blocks add 5 bytes in 32 KiB */
    w->crc = 0;
    w->uncompressed_size = w->compressed_size = 0;
    memset(h, 0, sizeof h);
    s = tp_writer_put(w->file, h, TP__ZIP_LOCAL);
    if (!s) s = tp_writer_put(w->file, name, nlen);
    if (!s) s = tp_writer_put(w->file, ".npy", 4);
    if (!s && zip64) s = tp_writer_put(w->file, h, 20);
    if (!s) s = tp__npy_emit(t, tp__npz_sink, w);
    if (!s && w->deflate) s = tp__npz_sink(w, "", 0); /* end the compressed stream */
    if (s) return s;

    e = tp__put_le(h, 0x04034b50u, 4);
    tp__zip_fields(e, zip64, flags, w->deflate != NULL, w->crc, zip64 ? 0xFFFFFFFFu : w->compressed_size,
                   zip64 ? 0xFFFFFFFFu : w->uncompressed_size, full, zip64 ? 20 : 0);
    s = tp__writer_patch(w->file, local, h, TP__ZIP_LOCAL);
    if (!s && zip64) {
        e = tp__put_le(h, 1, 2);
        e = tp__put_le(e, 16, 2);
        e = tp__put_le(e, w->uncompressed_size, 8);
        tp__put_le(e, w->compressed_size, 8);
        s = tp__writer_patch(w->file, local + TP__ZIP_LOCAL + full, h, 20);
    }
    if (s) return s;

    /* Write the member's entry in the central directory; zip64 only for the fields that need it. */
    uint8_t extra[28], *x = extra + 4;
    if (w->uncompressed_size >= TP__ZIP64_FROM) x = tp__put_le(x, w->uncompressed_size, 8);
    if (w->compressed_size >= TP__ZIP64_FROM) x = tp__put_le(x, w->compressed_size, 8);
    if (local >= TP__ZIP64_FROM) x = tp__put_le(x, local, 8);
    size_t extra_length = x > extra + 4 ? (size_t)(x - extra) : 0;
    tp__put_le(tp__put_le(extra, 1, 2), extra_length ? extra_length - 4 : 0, 2);
    e = tp__put_le(h, 0x02014b50u, 4);
    e = tp__put_le(e, 0x0314, 2); /* "version made by": Unix, zip 2.0 */
    e = tp__zip_fields(e, zip64 || extra_length, flags, w->deflate != NULL, w->crc, tp__zip_field32(w->compressed_size),
                       tp__zip_field32(w->uncompressed_size), full, extra_length);
    e = tp__put_le(e, 0, 2 + 2 + 2);   /* comment length 0, disk number 0, internal attributes 0 (binary data) */
    e = tp__put_le(e, 0x81800000u, 4); /* Unix mode: a plain file, rw------- */
    tp__put_le(e, tp__zip_field32(local), 4);
    slot->directory_at = w->directory.len + TP__ZIP_CENTRAL;
    tp_buf_put(&w->directory, h, TP__ZIP_CENTRAL);
    tp_buf_put(&w->directory, name, nlen);
    tp_buf_put(&w->directory, ".npy", 4);
    if (extra_length) tp_buf_put(&w->directory, extra, extra_length);
    if (w->directory.failed) return tp_fail(TP_ERR_NOMEM, "out of memory for the directory of an npz");
    w->n++;
    return TP_OK;
}

TP_DEF tp_status tp_npz_put(tp_npz_writer *w, const char *name, const tp_tensor *t)
{
    TP__REQUIRE(w && name && t, TP_ERR_ARG)

    if (w->file->failed) return tp__writer_earlier_error(w->file);
    /* An npz that lacks an array is useless, so after an error every later call fails. */
    return tp__writer_fail(w->file, tp__npz_put(w, name, t));
}

TP_DEF tp_status tp_npz_close(tp_npz_writer *w)
{
    if (!w) return tp_fail(TP_ERR_ARG, "tp_npz_close: the writer is NULL");
    uint64_t begin = w->file->at, size = w->directory.len, n = w->n;
    uint8_t h[TP__ZIP_END64 + TP__ZIP_LOCATOR + TP__ZIP_END], *e = h;
    if (n >= 0xFFFF || begin >= TP__ZIP64_FROM || size >= TP__ZIP64_FROM) {
        e = tp__put_le(e, 0x06064b50u, 4);
        e = tp__put_le(e, TP__ZIP_END64 - 12, 8);
        e = tp__put_le(e, 45, 2);
        e = tp__put_le(e, 45, 2);
        e = tp__put_le(e, 0, 4 + 4);
        e = tp__put_le(e, n, 8);
        e = tp__put_le(e, n, 8);
        e = tp__put_le(e, size, 8);
        e = tp__put_le(e, begin, 8);
        e = tp__put_le(e, 0x07064b50u, 4);
        e = tp__put_le(e, 0, 4);
        e = tp__put_le(e, begin + size, 8);
        e = tp__put_le(e, 1, 4);
    }
    e = tp__put_le(e, 0x06054b50u, 4);
    e = tp__put_le(e, 0, 2 + 2);
    e = tp__put_le(e, n < 0xFFFF ? n : 0xFFFF, 2);
    e = tp__put_le(e, n < 0xFFFF ? n : 0xFFFF, 2);
    e = tp__put_le(e, tp__zip_field32(size), 4);
    e = tp__put_le(e, tp__zip_field32(begin), 4);
    e = tp__put_le(e, 0, 2);
    tp_status s = tp_writer_put(w->file, w->directory.data, w->directory.len);
    if (!s) s = tp_writer_put(w->file, h, (size_t)(e - h));
    if (!s) {
        s = tp_writer_commit(w->file);
        w->file = NULL;
    }
    tp_npz_abort(w);
    return s;
}

/* -- formats of others ------------------------------------------------------------------- >>foreign */
/* Shared code for safetensors and TensorFlow's checkpoints. A reader lists the arrays that a header declares, checks
 * the list, and only then allocates the arrays. A writer gets its arrays one by one from a function, so that saving a
 * checkpoint needs no second copy of the variables; it gets their types beforehand. */

/* Fetch the value of item i of a dict that has only types: `fetched` becomes a view of the value or owns a copy. */
typedef tp_status (*tp__fetch_fn)(void *user, int i, tp_tensor *room);

/* Whether a path ends in `end`. */
TP__UNUSED static bool tp__ends_with(const char *path, const char *end)
{
    size_t n = strlen(path), m = strlen(end);
    return n > m && strcmp(path + n - m, end) == 0;
}

/* The length of <prefix> in "<prefix>.index" or "<prefix>.data-00000-of-00001"; 0 for any other path. */
TP__UNUSED static size_t tp__tf_suffix(const char *path)
{
    static const char like[] = ".data-ddddd-of-ddddd";
    size_t n = strlen(path), m = sizeof like - 1;
    if (tp__ends_with(path, ".index")) return n - 6;
    if (n <= m) return 0;
    for (size_t i = 0; i < m; i++) {
        char c = path[n - m + i];
        if (like[i] == 'd' && i > 5 ? c < '0' || c > '9' : c != like[i]) return 0;
    }
    return n - m;
}

#if !defined(TP_NO_SAFETENSORS) || !defined(TP_NO_TF_CHECKPOINT)

/* The types that can be written come first, in the order in which the safetensors library sorts arrays by type. */
static const struct tp__foreign {
    char name[5]; /* the type's name in safetensors */
    char kind;    /* the type's letter in npy */
    uint8_t size, tf;
    tp_dtype dtype;
} tp__foreign[] = {{"I64", 'i', 8, 9, TP_I64}, {"F64", 'f', 8, 2, TP_F64},    {"F32", 'f', 4, 1, TP_F32},
                   {"I32", 'i', 4, 3, TP_I32}, {"BF16", 'f', 2, 14, TP_BF16}, {"F16", 'f', 2, 19, TP_F16},
                   {"U8", 'u', 1, 4, TP_U8},   {"BOOL", 'b', 1, 10, TP_BOOL}, {"I8", 'i', 1, 6, TP_I32},
                   {"I16", 'i', 2, 5, TP_I32}, {"U16", 'u', 2, 17, TP_I32},   {"U32", 'u', 4, 22, TP_I64},
                   {"U64", 'u', 8, 23, TP_I64}};

/* Find the row of a dtype in the table of types. */
static int tp__file_type_row(tp_dtype dtype)
{
    int i = 0;
    while (tp__foreign[i].dtype != dtype) i++;
    return i;
}

/* An array that a header declares. */
typedef struct tp__entry {
    char *name;
    tp__npy h;
    uint64_t begin, end; /* offsets of the tensor's bytes in shard number `shard` */
    uint32_t shard, crc;
} tp__entry;

typedef struct tp__entries {
    tp__entry *item;
    size_t n, cap;
} tp__entries;

static void tp__entries_free(tp__entries *list)
{
    for (size_t i = 0; i < list->n; i++) tp_free(list->item[i].name);
    tp_free(list->item);
}

/* Add an entry with little-endian data. Takes ownership of name, also on failure. */
static tp__entry *tp__entries_add(tp__entries *list, char *name)
{
    if (list->n == list->cap) {
        size_t cap = list->cap ? 2 * list->cap : 64, bytes;
        tp__entry *item = tp_mul_size(cap, sizeof *item, &bytes) ? (tp__entry *)tp_realloc(list->item, bytes) : NULL;
        if (!item) {
            tp_free(name);
            return NULL;
        }
        list->item = item;
        list->cap = cap;
    }
    tp__entry *e = &list->item[list->n++];
    memset(e, 0, sizeof *e);
    e->name = name;
    e->h.swap = !tp__little_endian();
    return e;
}

static void tp__entry_type(tp__entry *e, int row)
{
    e->h.kind = tp__foreign[row].kind;
    e->h.size = tp__foreign[row].size;
    e->h.dtype = tp__foreign[row].dtype;
}

static int tp__entry_by_name(const void *a, const void *b)
{
    return strcmp(((const tp__entry *)a)->name, ((const tp__entry *)b)->name);
}

static int tp__entry_by_place(const void *a, const void *b)
{
    const tp__entry *x = (const tp__entry *)a, *y = (const tp__entry *)b;
    if (x->shard != y->shard) return x->shard < y->shard ? -1 : 1;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static tp_status tp__entry_bad(const char *data_name, const tp__entry *e, const char *reason)
{
    tp__printable printable;
    return tp_fail(TP_ERR_FORMAT, "%s: tensor '%s': %s", data_name,
                   tp__make_printable(&printable, e->name, strlen(e->name)), reason);
}

/* Check that each shape matches the number of bytes and that all names differ; sort by position; check that no bytes belong to
 * two tensors, as a small file would become large in memory. */
static tp_status tp__entries_check(tp__entries *list, const char *data_name)
{
    uint64_t total = 0, limit = tp__file_limit(0), taken = 0;
    if (list->n) qsort(list->item, list->n, sizeof *list->item, tp__entry_by_name);
    for (size_t i = 0; i < list->n; i++) {
        const tp__entry *e = &list->item[i];
        size_t n;
        if (i && tp__entry_by_name(e - 1, e) == 0) return tp__entry_bad(data_name, e, "there are two of this name");
        if (!tp__npy_count(&e->h, &n)) return tp__entry_bad(data_name, e, "its shape is impossibly large");
        if (e->end < e->begin || e->end - e->begin != (uint64_t)n * (uint64_t)e->h.size)
            return tp__entry_bad(data_name, e, "its shape and type do not make the bytes that are set aside for it");
        if (e->end - e->begin > limit - total)
            return tp_fail(TP_ERR_FORMAT, "%s: its tensors are larger than the %llu bytes allowed", data_name,
                           (unsigned long long)limit);
        total += e->end - e->begin;
    }
    if (list->n) qsort(list->item, list->n, sizeof *list->item, tp__entry_by_place);
    for (size_t i = 0; i < list->n; i++) {
        const tp__entry *e = &list->item[i];
        if (i && e->shard != e[-1].shard) taken = 0;
        if (e->begin == e->end) continue;
        if (e->begin < taken) return tp__entry_bad(data_name, e, "it overlaps another");
        taken = e->end;
    }
    return TP_OK;
}

/* Add the entry's array to d, from the bytes of its shard. Moves the entry's name to d. */
static tp_status tp__entry_read(tp__entry *e, const uint8_t *shard, const char *data_name, tp_dict *d)
{
    size_t n = (size_t)(e->end - e->begin) / (size_t)e->h.size;
    char *name = e->name;
    e->name = NULL;
    tp_tensor *t = tp__dict_append(d, name);
    tp_status s = t ? tp_tensor_resize(t, e->h.dtype, e->h.shape) : TP_ERR_NOMEM;
    if (s) return s;
    if (tp__npy_elements(&e->h, t->data, shard + e->begin, n)) return TP_OK;
    return tp_fail(TP_ERR_UNSUPPORTED, "%s: tensor '%s': an unsigned 64-bit number does not fit int64", data_name,
                   name);
}

/* An array to be written. */
typedef struct tp__out {
    const tp_dict_item *item;
    uint64_t at;
    uint32_t crc;
} tp__out;

static int tp__out_by_name(const void *a, const void *b)
{
    return strcmp(((const tp__out *)a)->item->name, ((const tp__out *)b)->item->name);
}

/* List the items of d sorted by name, if all can be written. The caller frees *list. */
static tp_status tp__out_list(const tp_dict *d, const char *path, tp__out **list)
{
    tp_status s = TP_OK;
    tp__out *o = *list = (tp__out *)tp_calloc((size_t)d->n + 1, sizeof **list);
    if (!o) return TP_ERR_NOMEM;
    for (int i = 0; i < d->n && !s; i++) {
        size_t bytes;
        o[i].item = &d->item[i];
        s = tp__npy_check_type(&d->item[i].value, d->item[i].name, &bytes);
    }
    if (!s && d->n) qsort(o, (size_t)d->n, sizeof *o, tp__out_by_name);
    for (int i = 0; i < d->n && !s; i++) {
        if (!o[i].item->name[0]) s = tp_fail(TP_ERR_NAME, "%s: a tensor needs a name", path);
        else if (i && tp__out_by_name(o + i - 1, o + i) == 0)
            s = tp_fail(TP_ERR_NAME, "%s: there are two tensors '%s'", path, o[i].item->name);
    }
    if (!s) return TP_OK;
    tp_free(o);
    *list = NULL;
    return s;
}

/* Write an item's elements to w, little-endian. *crc (crc may be NULL) becomes their CRC-32C. */
static tp_status tp__out_put(tp_writer *w, const tp_dict *d, const tp_dict_item *item, tp__fetch_fn fetch, void *user,
                             tp_tensor *fetched, uint32_t *crc)
{
    const tp_tensor *t = &item->value, *type = t;
    size_t bytes;
    tp_status s = TP_OK;
    if (fetch) {
        s = fetch(user, (int)(item - d->item), fetched);
        t = fetched;
        if (!s && (t->dtype != type->dtype || !tp_shape_equal(&t->shape, &type->shape)))
            s = tp_fail(TP_ERR_STATE, "tensor '%s' changed its type while it was saved", item->name);
    }
    if (!s) s = tp__npy_check(t, item->name, &bytes);
    if (s) return s;
    bytes = tp_tensor_bytes(t);
    size_t piece = TP__PIECE, size = tp_dtype_size(t->dtype);
    uint8_t swapped[4096];
    if (crc) *crc = 0;
    if (!tp__little_endian()) piece = sizeof swapped;
    for (size_t at = 0; at < bytes && !s; at += piece) {
        const uint8_t *p = (const uint8_t *)t->data + at;
        size_t n = bytes - at < piece ? bytes - at : piece;
        if (!tp__little_endian()) {
            for (size_t i = 0; i < n; i++) swapped[i] = p[i - i % size + size - 1 - i % size];
            p = swapped;
        }
        if (crc) *crc = tp_crc32c(*crc, p, n);
        s = tp_writer_put(w, p, n);
    }
    return s;
}
#endif

static tp_status tp__npz_write(const char *path, const tp_dict *d, bool compress, tp__fetch_fn fetch, void *user)
{
    tp_npz_writer *w = NULL;
    tp_tensor fetched;
    memset(&fetched, 0, sizeof fetched);
    tp_status s = tp_npz_open(&w, path, compress);
    for (int i = 0; i < d->n && !s; i++) {
        if (fetch) s = fetch(user, i, &fetched);
        if (!s) s = tp_npz_put(w, d->item[i].name, fetch ? &fetched : &d->item[i].value);
    }
    tp_tensor_free(&fetched);
    if (!s) return tp_npz_close(w);
    tp_npz_abort(w);
    return s;
}

TP_DEF tp_status tp_npz_save(const char *path, const tp_dict *d, bool compress)
{
    TP__REQUIRE(path && d, TP_ERR_ARG)

    return tp__npz_write(path, d, compress, NULL, NULL);
}

/* -- safetensors --------------------------------------------------------------------- >>safetensors */
/* A safetensors file has the length of the JSON header (8 bytes), the header, and the bytes of all arrays without gaps. */
#ifndef TP_NO_SAFETENSORS

enum { TP__SAFETENSORS_HEADER = 100000000 }; /* limit of the header in bytes, as in the safetensors library */

static tp_status tp__safetensors_bad(const char *data_name, const char *reason)
{
    return tp_fail(TP_ERR_FORMAT, "%s: the safetensors header is damaged: %s", data_name, reason);
}

static bool tp__safetensors_hex4(tp__scan *p, uint32_t *v)
{
    *v = 0;
    for (int i = 0; i < 4; i++, p->at++) {
        char c = p->at < p->end ? *p->at : ' ';
        if (!isxdigit((unsigned char)c)) return false;
        *v = *v << 4 | (uint32_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    return true;
}

/* Read and decode a JSON string into *text, which is tp_malloc'ed. False: it is not well formed, or out of memory (*oom). */
static bool tp__safetensors_text(tp__scan *p, char **text, bool *oom)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    *text = NULL;
    *oom = false;
    if (!tp__scan_eat(p, '"')) return false;
    const char *close = p->at;
    while (close < p->end && *close != '"') close += *close == '\\' ? 2 : 1;
    if (close >= p->end) return false;
    char *s = (char *)tp_malloc((size_t)(close - p->at) + 1), *o = s;
    *oom = !s;
    bool ok = s != NULL;
    while (ok && p->at < close) {
        uint32_t v, low;
        char c = *p->at++;
        ok = (unsigned char)c >= 32;
        if (c != '\\') {
            *o++ = c;
            continue;
        }
        c = *p->at++;
        const char *known = c ? strchr(from, c) : NULL;
        if (known) {
            *o++ = to[known - from];
            continue;
        }
        ok = c == 'u' && tp__safetensors_hex4(p, &v) && v != 0 && (v < 0xDC00 || v > 0xDFFF);
        if (ok && v >= 0xD800 && v <= 0xDBFF) { /* the first half of a surrogate pair */
            ok = close - p->at >= 6 && p->at[0] == '\\' && p->at[1] == 'u';
            p->at += 2;
            ok = ok && tp__safetensors_hex4(p, &low) && low >= 0xDC00 && low <= 0xDFFF;
            if (ok) v = 0x10000 + ((v - 0xD800) << 10) + (low - 0xDC00);
        }
        if (!ok) break;
        int n_continuation = v < 0x80 ? 0 : v < 0x800 ? 1 : v < 0x10000 ? 2 : 3;
        *o++ = (char)(n_continuation ? (0xF0u << (3 - n_continuation) & 0xFFu) | v >> (6 * n_continuation) : v);
        while (n_continuation-- > 0) *o++ = (char)(0x80 | (v >> (6 * n_continuation) & 63));
    }
    if (ok) {
        *o = 0;
        p->at = close + 1;
        ok = tp__utf8(s) >= 0;
    }
    if (ok) *text = s;
    else tp_free(s);
    return ok;
}

/* Read a list of at most `max_numbers` natural numbers. Returns their count, or -1 on an error. */
static int tp__safetensors_numbers(tp__scan *p, uint64_t *v, int max_numbers)
{
    int n = 0;
    if (!tp__scan_eat(p, '[')) return -1;
    if (tp__scan_eat(p, ']')) return 0;
    do {
        tp__scan_peek(p);
        const char *first = p->at;
        if (n == max_numbers) return -1;
        for (v[n] = 0; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++) {
            uint64_t digit = (uint64_t)(*p->at - '0');
            if (v[n] > (UINT64_MAX - digit) / 10) return -1;
            v[n] = 10 * v[n] + digit;
        }
        if (p->at == first || (*first == '0' && p->at - first > 1)) return -1; /* JSON allows no leading zeros */
        n++;
    } while (tp__scan_eat(p, ','));
    return tp__scan_eat(p, ']') ? n : -1;
}

/* Read {"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}, with the keys in any order. */
static tp_status tp__safetensors_entry(tp__scan *p, tp__entry *e)
{
    static const char *const keys[3] = {"\"dtype\"", "\"shape\"", "\"data_offsets\""};
    uint64_t v[TP_MAX_DIMS + 1];
    unsigned seen = 0;
    if (!tp__scan_eat(p, '{')) return tp__entry_bad(p->data_name, e, "an object should follow its name");
    do {
        int key = 0, n;
        while (key < 3 && !tp__scan_word(p, keys[key])) key++;
        if (key == 3 || seen & 1u << key || !tp__scan_eat(p, ':'))
            return tp__entry_bad(p->data_name, e, "it should have dtype, shape and data_offsets, each once");
        seen |= 1u << key;
        if (key == 0) {
            char *type;
            bool oom;
            if (!tp__safetensors_text(p, &type, &oom))
                return oom ? TP_ERR_NOMEM : tp__entry_bad(p->data_name, e, "its dtype is no text");
            int row = 0;
            while (row < TP_COUNT(tp__foreign) && strcmp(tp__foreign[row].name, type) != 0) row++;
            tp__printable name, printable;
            tp__make_printable(&printable, type, strlen(type));
            tp_free(type);
            if (row == TP_COUNT(tp__foreign))
                return tp_fail(TP_ERR_UNSUPPORTED,
                               "%s: tensor '%s' has elements of type %s, which are not read; convert it to F32 or "
                               "BF16 first",
                               p->data_name, tp__make_printable(&name, e->name, strlen(e->name)), printable.text);
            tp__entry_type(e, row);
        } else if (key == 1) {
            n = tp__safetensors_numbers(p, v, TP_MAX_DIMS + 1);
            if (n < 0 || n > TP_MAX_DIMS)
                return tp__entry_bad(p->data_name, e, "its shape is no list of at most 8 natural numbers");
            e->h.shape.ndim = n;
            for (int i = 0; i < n; i++) {
                if (v[i] > (uint64_t)INT64_MAX) return tp__entry_bad(p->data_name, e, "its shape is impossibly large");
                e->h.shape.dim[i] = (int64_t)v[i];
            }
        } else {
            n = tp__safetensors_numbers(p, v, 2);
            if (n != 2) return tp__entry_bad(p->data_name, e, "its data_offsets are not two natural numbers");
            e->begin = v[0];
            e->end = v[1];
        }
    } while (tp__scan_eat(p, ','));
    if (!tp__scan_eat(p, '}') || seen != 7)
        return tp__entry_bad(p->data_name, e, "it should have dtype, shape and data_offsets, each once");
    return TP_OK;
}

/* The checksums (CRC-32C) in files that tp writes: "__metadata__":{"format":"tp2","tp.crc32c":"<header><tensor>.."}. Each has eight
 * hexadecimal digits; tensors are in the order of their bytes. The header's checksum covers the header and the 8 bytes of its
 * length, with zeros in place of the checksum itself. Other programs ignore the checksums, and their files have none. */
typedef struct tp__sums {
    const char *digit; /* the digits of the checksums; NULL: the file has none */
    size_t n;
    bool by_tp;
} tp__sums;

static void tp__sum_text(char text[8], uint32_t sum)
{
    for (int i = 7; i >= 0; i--, sum >>= 4) text[i] = "0123456789abcdef"[sum & 15];
}

/* Read {"name":"text", ...}; only the checksums are kept. */
static tp_status tp__safetensors_metadata(tp__scan *p, tp__sums *sums)
{
    bool ok = tp__scan_eat(p, '{'), oom = false;
    if (ok && tp__scan_eat(p, '}')) return TP_OK;
    while (ok) {
        char *text[2] = {NULL, NULL};
        const char *from = NULL;
        for (int i = 0; i < 2 && ok; i++) {
            ok = i == 0 || tp__scan_eat(p, ':');
            tp__scan_peek(p);
            from = p->at + 1;
            ok = ok && tp__safetensors_text(p, &text[i], &oom);
        }
        if (ok && strcmp(text[0], "format") == 0) sums->by_tp = strcmp(text[1], "tp2") == 0;
        if (ok && strcmp(text[0], "tp.crc32c") == 0) sums->digit = from, sums->n = (size_t)(p->at - 1 - from);
        tp_free(text[0]);
        tp_free(text[1]);
        if (!ok || !tp__scan_eat(p, ',')) break;
    }
    if (ok && tp__scan_eat(p, '}')) return TP_OK;
    return oom ? TP_ERR_NOMEM : tp__safetensors_bad(p->data_name, "__metadata__ is no object of texts");
}

/* Verify the checksums. p: the file; n: the size of the header in bytes. */
static tp_status tp__safetensors_sums(const uint8_t *p, size_t n, const tp__sums *sums, const tp__entries *list,
                                      const char *data_name)
{
    char text[8];
    if (!sums->digit && !sums->by_tp) return TP_OK;
    if (!sums->digit || sums->n != 8 * (list->n + 1))
        return tp__safetensors_bad(data_name, "it has not one checksum for each tensor");
    const size_t at = (size_t)((const uint8_t *)sums->digit - p);
    uint32_t sum = tp_crc32c(tp_crc32c(tp_crc32c(0, p, at), "00000000", 8), p + at + 8, n + 8 - at - 8);
    tp__sum_text(text, sum);
    if (memcmp(text, sums->digit, 8) != 0)
        return tp__safetensors_bad(data_name, "its checksum does not match: use another copy, or remove tp.crc32c from "
                                              "__metadata__ if another program changed the file");
    for (size_t i = 0; i < list->n; i++) {
        const tp__entry *e = &list->item[i];
        tp__sum_text(text, tp_crc32c(0, p + 8 + n + e->begin, (size_t)(e->end - e->begin)));
        if (memcmp(text, sums->digit + 8 * (i + 1), 8) != 0)
            return tp__entry_bad(data_name, e,
                                 "its bytes do not match its checksum: use another copy, or remove tp.crc32c from "
                                 "__metadata__ if another program changed the file");
    }
    return TP_OK;
}

static tp_status tp__safetensors_header(tp__scan *p, tp__entries *list, tp__sums *sums)
{
    bool metadata = false;
    tp_status s = TP_OK;
    if (!tp__scan_eat(p, '{')) return tp__safetensors_bad(p->data_name, "it does not begin with {");
    if (!tp__scan_eat(p, '}')) {
        do {
            char *name;
            bool oom;
            if (!tp__safetensors_text(p, &name, &oom))
                return oom ? TP_ERR_NOMEM : tp__safetensors_bad(p->data_name, "a name is no text, or it is cut short");
            if (strcmp(name, "__metadata__") == 0) {
                tp_free(name);
                if (metadata) return tp__safetensors_bad(p->data_name, "there are two __metadata__");
                metadata = true;
                if (!tp__scan_eat(p, ':')) return tp__safetensors_bad(p->data_name, "a : is missing");
                s = tp__safetensors_metadata(p, sums);
            } else {
                tp__entry *e = tp__entries_add(list, name);
                if (!e) return TP_ERR_NOMEM;
                s = tp__scan_eat(p, ':') ? tp__safetensors_entry(p, e)
                                         : tp__entry_bad(p->data_name, e, "a : is missing");
            }
            if (s) return s;
        } while (tp__scan_eat(p, ','));
        if (!tp__scan_eat(p, '}')) return tp__safetensors_bad(p->data_name, "a , or } is missing");
    }
    tp__scan_peek(p);
    return p->at == p->end ? TP_OK : tp__safetensors_bad(p->data_name, "something follows its end");
}

TP_DEF tp_status tp_safetensors_parse(const void *data, size_t size, const char *what, tp_dict *d)
{
    TP__REQUIRE((data || size == 0) && d, TP_ERR_ARG)
    const uint8_t *p = (const uint8_t *)data;
    tp_dict fresh = {NULL, 0, 0};
    tp__entries list = {NULL, 0, 0};
    tp__scan text;
    what = what ? what : "safetensors data";
    if (size < 8) return tp_fail(TP_ERR_FORMAT, "%s: it is too short for a safetensors file", what);
    uint64_t n = tp__le64(p), end = 0;
    if (n > TP__SAFETENSORS_HEADER || n > size - 8)
        return tp_fail(TP_ERR_FORMAT, "%s: the safetensors header of %llu bytes is %s", what, (unsigned long long)n,
                       n > size - 8 ? "longer than the file (is it cut short, or of another kind?)" : "too long");
    if (n == 0 || p[8] != '{') return tp__safetensors_bad(what, "it does not begin with {");
    text.at = (const char *)p + 8;
    text.end = text.at + n;
    text.data_name = what;
    tp__sums sums = {NULL, 0, false};
    tp_status s = tp__safetensors_header(&text, &list, &sums);
    if (!s) s = tp__entries_check(&list, what);
    for (size_t i = 0; i < list.n && !s; i++) {
        if (list.item[i].begin != end)
            s = tp__entry_bad(what, &list.item[i],
                              list.item[i].begin < end ? "it overlaps another" : "there is a hole before it");
        end = list.item[i].end;
    }
    if (!s && end != size - 8 - n)
        s = tp_fail(TP_ERR_FORMAT, "%s: %s: the safetensors header promises %llu bytes of tensors, there are %llu",
                    what, end > size - 8 - n ? "it is cut short" : "there is too much", (unsigned long long)end,
                    (unsigned long long)(size - 8 - n));
    if (!s) s = tp__safetensors_sums(p, (size_t)n, &sums, &list, what);
    for (size_t i = 0; i < list.n && !s; i++) s = tp__entry_read(&list.item[i], p + 8 + n, what, &fresh);
    tp__entries_free(&list);
    tp_dict_free(s ? &fresh : d);
    if (!s) *d = fresh;
    return s;
}

TP_DEF tp_status tp_safetensors_load(const char *path, tp_dict *d)
{
    TP__REQUIRE(path && d, TP_ERR_ARG)

    char *data;
    size_t size;
    tp_status s = tp_file_read(path, false, 0, &data, &size);
    if (s) return s;
    s = tp_safetensors_parse(data, size, path, d);
    tp_free(data);
    return s;
}

static int tp__out_by_type(const void *a, const void *b)
{
    int x = tp__file_type_row(((const tp__out *)a)->item->value.dtype);
    int y = tp__file_type_row(((const tp__out *)b)->item->value.dtype);
    return x != y ? x - y : tp__out_by_name(a, b);
}

static tp_status tp__safetensors_write(const char *path, const tp_dict *d, tp__fetch_fn fetch, void *user)
{
    tp_buf h = {NULL, 0, 0, false};
    tp_writer *w = NULL;
    tp_tensor fetched;
    tp__out *out = NULL;
    uint64_t at = 0;
    uint8_t length[8];
    memset(&fetched, 0, sizeof fetched);
    tp_status s = tp__out_list(d, path, &out);
    if (s) return s;
    if (d->n) qsort(out, (size_t)d->n, sizeof *out, tp__out_by_type);
    tp_buf_printf(&h, "{\"__metadata__\":{\"format\":\"tp2\",\"tp.crc32c\":\"");
    const size_t sums = h.len;
    for (int i = 0; i <= d->n; i++) tp_buf_put(&h, "00000000", 8);
    tp_buf_printf(&h, "\"}");
    for (int i = 0; i < d->n && !s; i++) {
        const char *name = out[i].item->name;
        const tp_tensor *t = &out[i].item->value;
        const uint64_t size = tp_tensor_bytes(t);
        if (strcmp(name, "__metadata__") == 0 || tp__utf8(name) < 0)
            s = tp_fail(TP_ERR_NAME, "%s: a safetensors file cannot hold a tensor named '%s' (%s)", path, name,
                        name[0] == '_' ? "the name is taken" : "it is no UTF-8 text");
        tp_buf_printf(&h, ",\"");
        for (; *name; name++) {
            if ((unsigned char)*name < 32) tp_buf_printf(&h, "\\u%04x", (unsigned)*name);
            else tp_buf_printf(&h, *name == '"' || *name == '\\' ? "\\%c" : "%c", *name);
        }
        tp_buf_printf(&h, "\":{\"dtype\":\"%s\",\"shape\":[", tp__foreign[tp__file_type_row(t->dtype)].name);
        for (int k = 0; k < t->shape.ndim; k++) tp_buf_printf(&h, k ? ",%lld" : "%lld", (long long)t->shape.dim[k]);
        tp_buf_printf(&h, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at, (unsigned long long)(at + size));
        at += size;
    }
    tp_buf_put(&h, "}       ", 1 + (7 - h.len % 8)); /* pads the header, so that the data is aligned to 8 bytes */
    if (!s && h.failed) s = tp_fail(TP_ERR_NOMEM, "%s: out of memory for its header", path);
    if (!s && h.len > TP__SAFETENSORS_HEADER)
        s = tp_fail(TP_ERR_UNSUPPORTED, "%s: so many tensors do not fit a safetensors file", path);
    if (!s) s = tp_writer_open(&w, path);
    tp__put_le(length, h.len, 8);
    if (!s) s = tp_writer_put(w, length, 8);
    if (!s) s = tp_writer_put(w, h.data, h.len);
    uint32_t sum = 0;
    for (int i = 0; i < d->n && !s; i++) {
        s = tp__out_put(w, d, out[i].item, fetch, user, &fetched, &sum);
        tp__sum_text(h.data + sums + 8 * (i + 1), sum);
    }
    if (!s) {
        tp__sum_text(h.data + sums, tp_crc32c(tp_crc32c(0, length, 8), h.data, h.len));
        s = tp__writer_patch(w, 8 + sums, h.data + sums, 8 * ((size_t)d->n + 1));
    }
    tp_buf_free(&h);
    tp_free(out);
    tp_tensor_free(&fetched);
    if (!s) return tp_writer_commit(w);
    tp_writer_abort(w);
    return s;
}
#else
static tp_status tp__safetensors_write(const char *path, const tp_dict *d, tp__fetch_fn fetch, void *user)
{
    (void)d, (void)fetch, (void)user;
    return tp_fail(TP_ERR_UNSUPPORTED, "%s: this program was compiled without safetensors (TP_NO_SAFETENSORS)", path);
}
TP_DEF tp_status tp_safetensors_parse(const void *data, size_t size, const char *what, tp_dict *d)
{
    TP__REQUIRE((data || size == 0) && d, TP_ERR_ARG)
    return tp__safetensors_write(what, d, NULL, NULL);
}
TP_DEF tp_status tp_safetensors_load(const char *path, tp_dict *d)
{
    TP__REQUIRE(path && d, TP_ERR_ARG)
    return tp__safetensors_write(path, d, NULL, NULL);
}
#endif

TP_DEF tp_status tp_safetensors_save(const char *path, const tp_dict *d)
{
    TP__REQUIRE(path && d, TP_ERR_ARG)

    return tp__safetensors_write(path, d, NULL, NULL);
}

/* -- TensorFlow's checkpoints --------------------------------------------------------- >>tf_checkpoint */
/* The index file is a sorted table of (key, value) entries in blocks, in LevelDB's format:
 *
 *     file   data blocks, an empty block, the index block, a footer of 48 bytes
 *     block  entries; the offsets of the entries with a whole key; their count; then 0, or 1 if compressed; a CRC-32C
 *     entry  three lengths: shared with the previous key, rest of the key, value; then the rest of the key and the value
 *     index  an entry per block: (a key not before the block's last key, offset and size of the block)
 *
 * The value of key "" is the header. Every other key is a variable's name, and its value is a protobuf message with type,
 * shape, shard, offset, size and CRC-32C. The data files have only the bytes of the variables. */
#ifndef TP_NO_TF_CHECKPOINT

enum { TP__TF_FOOTER = 48, TP__TF_BLOCK = 262144, TP__TF_RESTART = 16, TP__TF_VALUE = 192 };
#define TP__TF_MAGIC 0xdb4775248b80fb57u

static tp_status tp__tf_bad(const char *data_name, const char *reason)
{
    return tp_fail(TP_ERR_FORMAT, "%s: the checkpoint's index is damaged: %s", data_name, reason);
}

static bool tp__varint(const uint8_t **p, const uint8_t *end, uint64_t *v)
{
    tp__pb m = {*p, end, false};
    uint8_t shortest[10];
    *v = tp__pb_get_varint(&m);
    /* only the shortest encoding of a number is valid */
    const bool ok = !m.bad && tp__put_varint(shortest, *v) - shortest == m.at - *p;
    *p = m.at;
    return ok;
}

/* Decompress Snappy: literals, and copies of earlier output. False unless the output has exactly out_size bytes. */
static bool tp__snappy(const uint8_t *p, const uint8_t *end, uint8_t *out, size_t out_size)
{
    size_t len = 0;
    while (p < end) {
        unsigned tag = *p++, kind = tag & 3, extra = kind == 3 ? 4 : kind;
        size_t n = (tag >> 2) + 1, from = 0;
        if (kind == 0 && n > 60) extra = (unsigned)n - 60;
        if ((size_t)(end - p) < extra) return false;
        for (unsigned i = 0; i < extra; i++) from |= (size_t)p[i] << (8 * i);
        p += extra;
        if (kind == 0) {
            if (n > 60) {
                if (from >= out_size) return false;
                n = from + 1;
            }
            if (n > (size_t)(end - p) || n > out_size - len) return false;
            memcpy(out + len, p, n);
            p += n;
            len += n;
            continue;
        }
        if (kind == 1) {
            n = ((tag >> 2) & 7) + 4;
            from |= (size_t)(tag >> 5) << 8;
        }
        if (from == 0 || from > len || n > out_size - len) return false;
        for (; n > 0; n--, len++) out[len] = out[len - from]; /* byte by byte, as the ranges may overlap */
    }
    return len == out_size;
}

typedef struct tp__tf_block {
    const uint8_t *p, *end; /* the bytes of the block's entries */
    uint8_t *own;
} tp__tf_block;

/* Read a handle: the offset and the size of a block. */
static bool tp__tf_handle(const uint8_t **p, const uint8_t *end, uint64_t handle[2])
{
    return tp__varint(p, end, &handle[0]) && tp__varint(p, end, &handle[1]);
}

/* Read the block of a handle from an index of `size` bytes, and verify its checksum. */
static tp_status tp__tf_block_at(const uint8_t *p, size_t size, const uint64_t handle[2], const char *data_name,
                                 tp__tf_block *b)
{
    uint64_t data_end = size - TP__TF_FOOTER, n = handle[1];
    b->own = NULL;
    if (data_end < 5 || n > data_end - 5 || handle[0] > data_end - 5 - n)
        return tp__tf_bad(data_name, "a block lies outside the file");
    p += handle[0];
    if (tp__le32(p + n + 1) != tp__crc_mask(tp_crc32c(0, p, (size_t)n + 1)))
        return tp__tf_bad(data_name, "the checksum of a block does not match");
    if (p[n] > 1) return tp__tf_bad(data_name, "a block is compressed in an unknown way");
    if (p[n] == 1) {
        const uint8_t *end = p + n;
        uint64_t whole;
        /* Snappy gives at most 64 bytes of output for 3 bytes of input */
        if (!tp__varint(&p, end, &whole) || whole > 22 * n)
            return tp__tf_bad(data_name, "the size of a compressed block is impossible");
        b->own = (uint8_t *)tp_malloc((size_t)whole + 1);
        if (!b->own) return TP_ERR_NOMEM;
        if (!tp__snappy(p, end, b->own, (size_t)whole))
            return tp__tf_bad(data_name, "a block's compressed data is damaged");
        p = b->own;
        n = whole;
    }
    uint64_t restarts = n < 4 ? 0 : tp__le32(p + n - 4);
    if (restarts == 0 || restarts > (n - 4) / 4) return tp__tf_bad(data_name, "a block is cut short");
    b->p = p;
    b->end = p + (n - 4 - 4 * restarts);
    return TP_OK;
}

/* Read the next entry of a block; `key` becomes its key. Unless `first`, the key must come after the previous key. */
static bool tp__tf_next(tp__tf_block *b, tp_buf *key, bool first, const uint8_t **value, const uint8_t **value_end)
{
    uint64_t shared, unshared, n;
    if (!tp__varint(&b->p, b->end, &shared) || !tp__varint(&b->p, b->end, &unshared) || !tp__varint(&b->p, b->end, &n))
        return false;
    uint64_t left = (uint64_t)(b->end - b->p);
    if (shared > key->len || unshared > left || n > left - unshared) return false;
    size_t old = key->len - (size_t)shared, both = old < unshared ? old : (size_t)unshared;
    int order = both ? memcmp(b->p, key->data + shared, both) : 0;
    if (!first && (order < 0 || (order == 0 && unshared <= old))) return false;
    key->len = (size_t)shared;
    tp_buf_put(key, b->p, (size_t)unshared);
    *value = b->p + unshared;
    *value_end = *value + n;
    b->p = *value_end;
    return true;
}

/* The state of a reader of an index file. */
typedef struct tp__tf {
    const char *data_name;
    tp__entries list;
    uint64_t shards;
    bool swap, sliced;
    int strings;          /* number of skipped string tensors */
    tp__printable string; /* the name of the first skipped tensor */
} tp__tf;

static tp_status tp__tf_header(tp__tf *t, tp__pb m)
{
    uint64_t endianness = 0, consumer = 0;
    tp__pb_field f, g;
    t->shards = 0;
    while (tp__pb_next(&m, &f)) {
        if (f.number == 1) t->shards = f.value;
        if (f.number == 2) endianness = f.value;
        while (f.number == 3 && tp__pb_next(&f.sub, &g))
            if (g.number == 2) consumer = g.value;
        m.bad |= f.sub.bad;
    }
    if (m.bad || endianness > 1 || t->shards == 0 || t->shards > 99999)
        return tp__tf_bad(t->data_name, "its header is wrong");
    if (consumer > 1)
        return tp_fail(TP_ERR_UNSUPPORTED, "%s: the checkpoint is of a version (%llu) that is not known here",
                       t->data_name, (unsigned long long)consumer);
    t->swap = (endianness == 1) == tp__little_endian();
    return TP_OK;
}

static bool tp__tf_shape(tp__pb m, tp_shape *shape)
{
    tp__pb_field f, g;
    while (tp__pb_next(&m, &f)) {
        if (f.number == 3 && f.value) return false; /* a shape of unknown rank */
        if (f.number != 2) continue;
        if (f.wire != 2 || shape->ndim == TP_MAX_DIMS) return false;
        shape->dim[shape->ndim] = 0;
        while (tp__pb_next(&f.sub, &g)) {
            if (g.value > (uint64_t)INT64_MAX) return false;
            if (g.number == 1) shape->dim[shape->ndim] = (int64_t)g.value;
        }
        if (f.sub.bad) return false;
        shape->ndim++;
    }
    return !m.bad;
}

static tp_status tp__tf_entry(tp__tf *t, const tp_buf *key, tp__pb m)
{
    static const char suffix[] = "/.ATTRIBUTES/VARIABLE_VALUE";
    uint64_t type = 0, size = 0;
    tp__pb_field f;
    size_t name_length = key->len;
    if (key->data[0] == 0) { /* a slice of a partitioned variable */
        t->sliced = true;
        return TP_OK;
    }
    if (memchr(key->data, 0, name_length)) return tp__tf_bad(t->data_name, "a name is impossible");
    if (name_length > sizeof suffix - 1 &&
        memcmp(key->data + name_length - sizeof suffix + 1, suffix, sizeof suffix - 1) == 0)
        name_length -= sizeof suffix - 1;
    char *name = (char *)tp_malloc(name_length + 1);
    if (!name) return TP_ERR_NOMEM;
    memcpy(name, key->data, name_length);
    name[name_length] = 0;
    tp__entry *e = tp__entries_add(&t->list, name);
    if (!e) return TP_ERR_NOMEM;
    e->h.swap = t->swap;
    for (bool has_more = true; has_more;) {
        has_more = tp__pb_next(&m, &f);
        bool ok = !m.bad;
        const uint64_t v = f.value;
        if (ok && f.number == 1) type = v > 100 ? v - 100 : v; /* types from 100 on are reference types: 100 + type */
        if (ok && f.number == 2) ok = f.wire == 2 && e->h.shape.ndim == 0 && tp__tf_shape(f.sub, &e->h.shape);
        if (ok && f.number == 3) ok = v < t->shards, e->shard = (uint32_t)v;
        if (ok && f.number == 4) e->begin = v;
        if (ok && f.number == 5) size = v;
        if (ok && f.number == 6) e->crc = (uint32_t)v;
        if (!ok)
            return tp__entry_bad(t->data_name, e,
                                 "its entry is wrong (or it has an unknown rank, or more than 8 dimensions)");
        if (f.number == 7)
            return tp_fail(TP_ERR_UNSUPPORTED,
                           "%s: variable '%s' is partitioned, which is not read; save the checkpoint again without a "
                           "partitioner",
                           t->data_name, tp__make_printable(&t->string, name, name_length));
    }
    if (type == 7) { /* string tensors (text, TensorFlow's object graph) are skipped */
        if (t->strings++ == 0) tp__make_printable(&t->string, name, name_length);
        tp_free(name);
        t->list.n--;
        return TP_OK;
    }
    int row = 0;
    while (row < TP_COUNT(tp__foreign) && tp__foreign[row].tf != type) row++;
    if (row == TP_COUNT(tp__foreign))
        return tp_fail(TP_ERR_UNSUPPORTED,
                       "%s: variable '%s' has elements of TensorFlow's type %llu, which are not read; cast it first",
                       t->data_name, tp__make_printable(&t->string, name, name_length), (unsigned long long)type);
    tp__entry_type(e, row);
    if (size > UINT64_MAX - e->begin) return tp__entry_bad(t->data_name, e, "it lies outside its data file");
    e->end = e->begin + size;
    return TP_OK;
}

/* Read all entries of an index into t->list, and check them. */
static tp_status tp__tf_index(tp__tf *t, const uint8_t *p, size_t size, const char *data_name)
{
    uint64_t meta[2], top[2], at[2], names = 0, behind = 0;
    tp__tf_block index = {NULL, NULL, NULL}, block = {NULL, NULL, NULL};
    tp_buf last_key = {NULL, 0, 0, false}, key = {NULL, 0, 0, false};
    const uint8_t *v, *v_end;
    tp_status s = TP_OK;
    memset(t, 0, sizeof *t);
    t->data_name = data_name;
    if (size < TP__TF_FOOTER || tp__le64(p + size - 8) != TP__TF_MAGIC)
        return tp_fail(TP_ERR_FORMAT, "%s: this is no index of a TensorFlow checkpoint (or it is cut short)",
                       data_name);
    v = p + size - TP__TF_FOOTER;
    v_end = p + size - 8;
    bool ok = tp__tf_handle(&v, v_end, meta) && tp__tf_handle(&v, v_end, top);
    for (; ok && v < v_end; v++) ok = *v == 0;
    if (!ok) return tp__tf_bad(data_name, "its footer is wrong");
    s = tp__tf_block_at(p, size, meta, data_name, &block); /* the metadata is not used, but it must not be damaged */
    tp_free(block.own);
    block.own = NULL;
    if (!s) s = tp__tf_block_at(p, size, top, data_name, &index);
    for (bool first_block = true, first = true; !s && index.p < index.end; first_block = false) {
        if (!tp__tf_next(&index, &last_key, first_block, &v, &v_end) || !tp__tf_handle(&v, v_end, at) || v != v_end) {
            s = tp__tf_bad(data_name, "its list of blocks is wrong");
            break;
        }
        /* A block that is named thousands of times would be unpacked as often: a small file could take hours. */
        if (at[0] < behind) s = tp__tf_bad(data_name, "its blocks overlap, or are not in order");
        else s = tp__tf_block_at(p, size, at, data_name, &block);
        behind = at[0] + at[1] + 5;
        for (; !s && block.p < block.end; first = false) {
            if (!tp__tf_next(&block, &key, first, &v, &v_end)) s = tp__tf_bad(data_name, "its names are not in order");
            else if (key.failed) s = TP_ERR_NOMEM;
            /* Keys share prefixes, so without a limit a small file could need any amount of memory. */
            else if ((names += key.len) > 64 * (uint64_t)size + 65536)
                s = tp__tf_bad(data_name, "its names are too long");
            else if (first != (key.len == 0)) s = tp__tf_bad(data_name, "it has no header");
            else {
                tp__pb m = {v, v_end, false};
                s = first ? tp__tf_header(t, m) : tp__tf_entry(t, &key, m);
            }
        }
        tp_free(block.own);
        block.own = NULL;
        if (!s && last_key.failed) s = TP_ERR_NOMEM;
    }
    tp_free(block.own);
    tp_free(index.own);
    tp_buf_free(&last_key);
    tp_buf_free(&key);
    if (!s && t->shards == 0) s = tp__tf_bad(data_name, "it has no header");
    if (!s && t->sliced)
        s = tp_fail(TP_ERR_UNSUPPORTED,
                    "%s: it holds parts of partitioned variables, which are not read; save the checkpoint again "
                    "without a partitioner",
                    data_name);
    return s ? s : tp__entries_check(&t->list, data_name);
}

/* Read entries [from, to), which all belong to the shard with the bytes p. */
static tp_status tp__tf_shard(tp__tf *t, size_t from, size_t to, const uint8_t *p, size_t size, const char *data_name,
                              tp_dict *d)
{
    tp_status s = TP_OK;
    for (size_t i = from; i < to && !s; i++) {
        tp__entry *e = &t->list.item[i];
        if (e->end > size)
            return tp__entry_bad(data_name, e, "it lies behind the end: the file is cut short or another's");
        if (tp__crc_mask(tp_crc32c(0, p + e->begin, (size_t)(e->end - e->begin))) != e->crc)
            return tp__entry_bad(data_name, e, "the checksum does not match, the file is damaged or another's");
        s = tp__entry_read(e, p, data_name, d);
    }
    return s;
}

TP_DEF tp_status tp_tf_checkpoint_load(const char *prefix, tp_dict *d)
{
    TP__REQUIRE(prefix && d, TP_ERR_ARG)

    char *data = NULL;
    size_t size = 0, n = prefix ? tp__tf_suffix(prefix) : 0, room = prefix ? strlen(prefix) + 64 : 0;
    tp_dict fresh = {NULL, 0, 0};
    tp__tf t;
    if (!prefix) return tp_fail(TP_ERR_ARG, "tp_tf_checkpoint_load: the prefix is NULL");
    if (n == 0) n = strlen(prefix);
    char *path = (char *)tp_malloc(room);
    if (!path) return TP_ERR_NOMEM;
    memcpy(path, prefix, n);
    memcpy(path + n, ".index", 7);
    memset(&t, 0, sizeof t);
    tp_status s = tp_file_read(path, false, 0, &data, &size);
    if (!s) s = tp__tf_index(&t, (const uint8_t *)data, size, path);
    tp_free(data);
    if (!s && t.strings)
        tp_log(TP_LOG_INFO, "%s: '%s'%s skipped: strings are not read.", path, t.string.text,
               t.strings > 1 ? " and others are" : " is");
    for (size_t i = 0, end; i < t.list.n && !s; i = end) {
        const uint32_t shard = t.list.item[i].shard;
        for (end = i; end < t.list.n && t.list.item[end].shard == shard;) end++;
        tp__format(path + n, room - n, ".data-%05u-of-%05u", (unsigned)shard, (unsigned)t.shards);
        s = tp_file_read(path, false, 0, &data, &size);
        if (s) break;
        s = tp__tf_shard(&t, i, end, (const uint8_t *)data, size, path, &fresh);
        tp_free(data);
    }
    tp__entries_free(&t.list);
    tp_free(path);
    tp_dict_free(s ? &fresh : d);
    if (!s) *d = fresh;
    return s;
}

/* -- writing a checkpoint */

/* Write a protobuf field with a number; nothing if v is 0. */
static uint8_t *tp__put_field(uint8_t *p, unsigned field, uint64_t v)
{
    if (v == 0) return p;
    *p++ = (uint8_t)(field << 3);
    return tp__put_varint(p, v);
}

/* A block of an index file that is being written. */
typedef struct tp__tf_out {
    tp_buf bytes, restarts, last;
    int n, interval;
} tp__tf_out;

static void tp__tf_add(tp__tf_out *b, const char *key, size_t key_length, const uint8_t *value, size_t value_length)
{
    uint8_t head[30], *h = head;
    size_t shared = 0, max_shared = b->last.len < key_length ? b->last.len : key_length;
    if (b->n++ % b->interval) {
        while (shared < max_shared && key[shared] == b->last.data[shared]) shared++;
    } else {
        tp__put_le(h, b->bytes.len, 4);
        tp_buf_put(&b->restarts, h, 4);
    }
    h = tp__put_varint(h, shared);
    h = tp__put_varint(h, key_length - shared);
    h = tp__put_varint(h, value_length);
    tp_buf_put(&b->bytes, head, (size_t)(h - head));
    if (key_length > shared) tp_buf_put(&b->bytes, key + shared, key_length - shared);
    tp_buf_put(&b->bytes, value, value_length);
    b->last.len = 0;
    tp_buf_put(&b->last, key, key_length);
}

/* Write the block to the file and its handle to `handle`; *n becomes the handle's size. The block is empty afterwards. */
static tp_status tp__tf_flush(tp__tf_out *b, tp_writer *w, uint8_t *handle, size_t *n)
{
    uint8_t tail[5] = {0};
    if (b->restarts.len == 0)
        tp_buf_put(&b->restarts, tail, 4); /* LevelDB's format: an empty block also lists one entry's offset, 0 */
    *n = (size_t)(tp__put_varint(tp__put_varint(handle, w->at), b->bytes.len + b->restarts.len + 4) - handle);
    tp__put_le(tail, b->restarts.len / 4, 4);
    tp_buf_put(&b->bytes, b->restarts.data, b->restarts.len);
    tp_buf_put(&b->bytes, tail, 4);
    tail[0] = 0; /* type 0: not compressed */
    tp_buf_put(&b->bytes, tail, 1);
    if (b->bytes.failed || b->restarts.failed || b->last.failed)
        return tp_fail(TP_ERR_NOMEM, "out of memory for the index of a checkpoint");
    tp__put_le(tail, tp__crc_mask(tp_crc32c(0, b->bytes.data, b->bytes.len)), 4);
    tp_status s = tp_writer_put(w, b->bytes.data, b->bytes.len);
    if (!s) s = tp_writer_put(w, tail, 4);
    b->bytes.len = b->restarts.len = b->last.len = 0;
    b->n = 0;
    return s;
}

/* Write a short key that is not before `key` but before `next` (NULL: no next key), chosen as LevelDB does. */
static void tp__tf_short_key(const char *key, const char *next, tp_buf *out)
{
    size_t n = strlen(key), same = 0;
    if (next)
        while (key[same] && key[same] == next[same]) same++;
    else
        while ((uint8_t)key[same] == 255) same++;
    uint8_t c = (uint8_t)key[same];
    bool shorter = same < n && (next ? next[same] && c < 255 && c + 1 < (uint8_t)next[same] : true);
    out->len = 0;
    tp_buf_put(out, key, shorter ? same + 1 : n);
    if (shorter && !out->failed) out->data[same] = (char)(c + 1);
}

static tp_status tp__tf_write_index(tp_writer *w, const tp__out *out, int n, int shards)
{
    const uint8_t header[] = {0x08, (uint8_t)shards, 0x1a, 2, 0x08,
                              1}; /* the header: number of shards, little-endian, version 1 */
    tp__tf_out data, index;
    tp_buf between = {NULL, 0, 0, false};
    uint8_t value[TP__TF_VALUE], handle[20], footer[TP__TF_FOOTER] = {0}, *f = footer;
    size_t handle_length = 0;
    tp_status s = TP_OK;
    memset(&data, 0, sizeof data);
    memset(&index, 0, sizeof index);
    data.interval = TP__TF_RESTART;
    index.interval = 1;
    tp__tf_add(&data, "", 0, header, sizeof header);
    for (int i = 0; i <= n && !s; i++) {
        const char *name = i < n ? out[i].item->name : NULL, *before = i ? out[i - 1].item->name : "";
        if (i == n || data.bytes.len + data.restarts.len + 4 >= TP__TF_BLOCK) {
            s = tp__tf_flush(&data, w, handle, &handle_length);
            tp__tf_short_key(before, name, &between);
            tp__tf_add(&index, between.data, between.len, handle, handle_length);
        }
        if (i == n || s) break;
        const tp_tensor *t = &out[i].item->value;
        uint8_t *v = tp__put_field(value, 1, tp__foreign[tp__file_type_row(t->dtype)].tf), *shape = v;
        v += 2;
        for (int k = 0; k < t->shape.ndim; k++) {
            uint8_t *dim = v;
            v = tp__put_field(v + 2, 1, (uint64_t)t->shape.dim[k]);
            dim[0] = 0x12;
            dim[1] = (uint8_t)(v - dim - 2);
        }
        shape[0] = 0x12;
        shape[1] = (uint8_t)(v - shape - 2); /* 8 dimensions take at most 104 bytes */
        v = tp__put_field(v, 4, out[i].at);
        v = tp__put_field(v, 5, tp_tensor_bytes(t));
        *v++ = 0x35;
        v = tp__put_le(v, tp__crc_mask(out[i].crc), 4);
        tp__tf_add(&data, name, strlen(name), value, (size_t)(v - value));
    }
    if (!s) s = tp__tf_flush(&data, w, footer, &handle_length); /* the empty block after the data blocks */
    f += handle_length;
    if (!s && between.failed) s = tp_fail(TP_ERR_NOMEM, "out of memory for the index of a checkpoint");
    if (!s) s = tp__tf_flush(&index, w, f, &handle_length);
    tp__put_le(footer + TP__TF_FOOTER - 8, TP__TF_MAGIC, 8);
    if (!s) s = tp_writer_put(w, footer, sizeof footer);
    tp_buf *const bufs[7] = {&data.bytes,     &data.restarts, &data.last, &index.bytes,
                             &index.restarts, &index.last,    &between};
    for (int i = 0; i < 7; i++) tp_buf_free(bufs[i]);
    return s;
}

/* The files of a checkpoint that is being written. The new data file is shard 0 of 1, or shard 0 of 2 if the old index
 * names shard 0 of 1. So the old checkpoint stays valid until one rename replaces the old index with the new one. */
typedef struct tp__tf_files {
    char *dir, *index, *data; /* paths of the folder, the index and the data file */
    size_t n;                 /* length of the prefix in characters */
    int shards;
    tp_writer *index_file, *data_file;
} tp__tf_files;

/* The number of shards that the index at `path` names; 0: there is no file, or it is not an index. */
static tp_status tp__tf_shards(const char *path, uint64_t *shards)
{
    char *data = NULL;
    size_t size = 0;
    tp__tf t;
    *shards = 0;
    if (!tp_file_exists(path)) return TP_OK;
    tp_status s = tp_file_read(path, false, 0, &data, &size);
    if (s) return s;
    s = tp__tf_index(&t, (const uint8_t *)data, size, path);
    *shards = t.shards; /* the number is known even if the rest of the index is damaged or unsupported */
    tp__entries_free(&t.list);
    tp_free(data);
    return s == TP_ERR_NOMEM ? s : TP_OK;
}

static tp_status tp__tf_files_open(tp__tf_files *p, const char *prefix)
{
    uint64_t old = 0;
    memset(p, 0, sizeof *p);
    p->n = tp__tf_suffix(prefix);
    if (p->n == 0) p->n = strlen(prefix);
    p->index = (char *)tp_malloc(p->n + 8);
    p->data = (char *)tp_malloc(p->n + 32);
    p->dir = tp__folder_of(prefix);
    if (!p->dir || !p->index || !p->data) return TP_ERR_NOMEM;
    tp__format(p->index, p->n + 8, "%.*s.index", (int)p->n, prefix);
    tp_status s = tp__tf_shards(p->index, &old);
    p->shards = old == 1 ? 2 : 1;
    tp__format(p->data, p->n + 32, "%.*s.data-00000-of-%05d", (int)p->n, prefix, p->shards);
    /* Links are replaced: a checkpoint that is loaded through links stays whole, as its index does not change without its data. */
    if (!s) s = tp__writer_new(&p->data_file, p->data, false);
    return s ? s : tp__writer_new(&p->index_file, p->index, false);
}

/* The arguments of the function that removes the data files of a prefix. */
typedef struct tp__tf_removal {
    char *path;       /* a buffer that begins with the prefix; the rest of each file's name is written after it */
    size_t folder, n; /* lengths of the folder with its slash, and of the prefix */
    int keep;         /* number of shards of the checkpoint whose shard 0 is kept; 0: keep none */
    tp_status failed;
} tp__tf_removal;

static bool tp__tf_remove_file(void *user, const char *name)
{
    tp__tf_removal *o = (tp__tf_removal *)user;
    const size_t n = o->n - o->folder;
    if (tp__tf_suffix(name) != n || strncmp(name, o->path + o->folder, n) != 0 || tp__ends_with(name, ".index"))
        return false;
    if (o->keep && strncmp(name + n, ".data-00000", 11) == 0 && strtol(name + n + 15, NULL, 10) == o->keep)
        return false;
    memcpy(o->path + o->n, name + n, strlen(name + n) + 1);
    if (tp__os_remove(o->path) != 0 && errno != ENOENT)
        o->failed = tp_fail(TP_ERR_IO, "%s cannot be removed: %s", o->path, tp__os_error());
    return false;
}

/* Remove a checkpoint's data files, except shard 0 of `keep` shards (0: keep none). dir: their folder. path: a buffer that
 * begins with the n bytes of the prefix and has room for 21 more. */
static tp_status tp__tf_remove_data(const char *dir, char *path, size_t n, int keep)
{
    const char *slash = tp__os_last_separator(path);
    tp__tf_removal o = {path, slash ? (size_t)(slash - path) + 1 : 0, n, keep, TP_OK};
    if (tp__os_list(dir, tp__tf_remove_file, &o) != 0 && errno != ENOENT)
        o.failed = tp_fail(TP_ERR_IO, "the files in %s cannot be listed: %s", dir, tp__os_error());
    return o.failed;
}

/* If s is TP_OK, replace the old checkpoint with the written one; else discard the written files. */
static tp_status tp__tf_files_close(tp__tf_files *p, tp_status s)
{
    uint64_t now = 0;
    if (!s) s = tp__writer_flush(p->index_file); /* sync first, so that a full disk is found before a file is renamed */
    if (!s) {
        s = tp_writer_commit(p->data_file);
        p->data_file = NULL;
        if (!s) s = tp_writer_commit(p->index_file);
        else tp_writer_abort(p->index_file);
        p->index_file = NULL;
        /* Remove the data that no index names: the old data, or after an error the new data. */
        if (!s && tp__tf_remove_data(p->dir, p->data, p->n, p->shards) != TP_OK)
            tp_log(TP_LOG_WARN, "Old data of a checkpoint stay: %s", tp_last_error());
        if (s && !tp__tf_shards(p->index, &now) && now != (uint64_t)p->shards) tp__os_remove(p->data);
    }
    tp_writer_abort(p->data_file);
    tp_writer_abort(p->index_file);
    tp_free(p->dir);
    tp_free(p->index);
    tp_free(p->data);
    return s;
}

static tp_status tp__tf_write(const char *prefix, const tp_dict *d, tp__fetch_fn fetch, void *user)
{
    tp__tf_files p;
    tp__out *out = NULL;
    tp_tensor fetched;
    if (!prefix || !prefix[0]) return tp_fail(TP_ERR_ARG, "tp_tf_checkpoint_save: the prefix is empty");
    memset(&fetched, 0, sizeof fetched);
    tp_status s = tp__out_list(d, prefix, &out);
    if (s) return s;
    s = tp__tf_files_open(&p, prefix);
    for (int i = 0; i < d->n && !s; i++) {
        out[i].at = p.data_file->at;
        s = tp__out_put(p.data_file, d, out[i].item, fetch, user, &fetched, &out[i].crc);
    }
    if (!s) s = tp__tf_write_index(p.index_file, out, d->n, p.shards);
    tp_free(out);
    tp_tensor_free(&fetched);
    return tp__tf_files_close(&p, s);
}

/* Set the number of shards in an index that tp wrote: a number in its first block, and that block's checksum. */
static tp_status tp__tf_patch(uint8_t *p, size_t size, int shards, const char *data_name)
{
    /* the beginning of a block that tp wrote: key "", six bytes, field 1 */
    static const uint8_t head[] = {0, 0, 6, 0x08};
    uint64_t top[2] = {0, 0}, at[2] = {0, 0};
    tp__tf_block index = {NULL, NULL, NULL};
    tp_buf key = {NULL, 0, 0, false};
    const uint8_t *v = p + size - TP__TF_FOOTER, *v_end = p + size - 8;
    bool ok = tp__tf_handle(&v, v_end, top) && tp__tf_handle(&v, v_end, top) &&
              tp__tf_block_at(p, size, top, data_name, &index) == TP_OK &&
              tp__tf_next(&index, &key, true, &v, &v_end) && tp__tf_handle(&v, v_end, at) && at[0] == 0 &&
              at[1] > sizeof head && at[1] < size - TP__TF_FOOTER - 4;
    ok = ok && memcmp(p, head, sizeof head) == 0 && p[sizeof head] < 128 && p[at[1]] == 0;
    tp_buf_free(&key);
    tp_free(index.own);
    if (!ok) return tp_fail(TP_ERR_UNSUPPORTED, "%s was not written by tp: load it and save it instead", data_name);
    p[sizeof head] = (uint8_t)shards;
    tp__put_le(p + at[1] + 1, tp__crc_mask(tp_crc32c(0, p, (size_t)at[1] + 1)), 4);
    return TP_OK;
}

/* Copy a checkpoint that tp wrote to another name, without reading its data into memory. */
static TP__UNUSED tp_status tp__tf_copy(const char *from, const char *to)
{
    tp__tf_files p;
    tp__tf t;
    char *index = NULL, *path = (char *)tp_malloc(strlen(from) + 64);
    size_t size = 0, n = tp__tf_suffix(from);
    if (!path) return TP_ERR_NOMEM;
    if (n == 0) n = strlen(from);
    memset(&t, 0, sizeof t);
    tp__format(path, n + 64, "%.*s.index", (int)n, from);
    tp_status s = tp_file_read(path, false, 0, &index, &size);
    if (!s) s = tp__tf_index(&t, (const uint8_t *)index, size, path);
    if (!s && t.list.n && t.list.item[t.list.n - 1].shard != 0)
        s = tp_fail(TP_ERR_UNSUPPORTED, "%s was not written by tp: load it and save it instead", path);
    tp__entries_free(&t.list);
    if (!s) s = tp__tf_files_open(&p, to);
    else memset(&p, 0, sizeof p);
    if (!s) s = tp__tf_patch((uint8_t *)index, size, p.shards, path);
    if (!s) s = tp_writer_put(p.index_file, index, size);
    tp__format(path, n + 64, "%.*s.data-00000-of-%05d", (int)n, from, (int)t.shards);
    if (!s) s = tp__writer_put_file(p.data_file, path);
    tp_free(index);
    tp_free(path);
    return tp__tf_files_close(&p, s);
}
#else
static tp_status tp__tf_write(const char *prefix, const tp_dict *d, tp__fetch_fn fetch, void *user)
{
    (void)d, (void)fetch, (void)user;
    return tp_fail(TP_ERR_UNSUPPORTED,
                   "%s: this program was compiled without TensorFlow's checkpoints (TP_NO_TF_CHECKPOINT)", prefix);
}
static TP__UNUSED tp_status tp__tf_copy(const char *from, const char *to)
{
    return (void)to, tp__tf_write(from, NULL, NULL, NULL);
}
static TP__UNUSED tp_status tp__tf_remove_data(const char *dir, char *path, size_t n, int keep)
{
    return (void)dir, (void)path, (void)n, (void)keep, TP_OK;
}
TP_DEF tp_status tp_tf_checkpoint_load(const char *prefix, tp_dict *d)
{
    TP__REQUIRE(prefix && d, TP_ERR_ARG)
    return tp__tf_write(prefix, d, NULL, NULL);
}
#endif

TP_DEF tp_status tp_tf_checkpoint_save(const char *prefix, const tp_dict *d)
{
    TP__REQUIRE(prefix && d, TP_ERR_ARG)

    return tp__tf_write(prefix, d, NULL, NULL);
}
TP__COLD_END
TP__EXACT_END
#endif
