/* tp_shim.h - what a test asks of the CUDA shim; readable by C and C++. cuda_runtime.h says how to build with it. */
#ifndef TP_SHIM_H
#define TP_SHIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

long tp_shim_launches(void);       /* kernels launched by the host outside graphs, since the start */
long tp_shim_graph_launches(void); /* cudaGraphLaunch */
/* the last graph that was instantiated: its nodes, and those on its longest path */
void tp_shim_graph_shape(long *nodes, long *longest);
long tp_shim_allocations(void); /* cudaMalloc, those from a pool and cudaHostAlloc that succeeded */
long tp_shim_calls(void);       /* calls that tp_shim_fail_call_after counts */
/* Device and pinned allocations, pools, streams, events, graphs, executable graphs, library handles and descriptors that
 * nobody has freed. text (may be NULL) gets them one by one: "2 device allocations, 1 stream". */
long tp_shim_live(char *text, size_t size);
size_t tp_shim_live_bytes(int device); /* what pools hold included */

/* The n-th allocation (device or pinned) from here fails as if memory were full, n = 1 the next; 0: none. */
void tp_shim_fail_alloc_after(long n);
/* The n-th call from here that may fail (CUDA runtime, cuBLASLt, cuDNN, NCCL; never a free, a destroy or a question
 * about errors) fails without doing anything. */
void tp_shim_fail_call_after(long n);
int tp_shim_failed(void); /* 1: one of the two struck since it was set */

void tp_shim_set_memory(size_t bytes); /* of each device; the default is 8 GB */
void tp_shim_set_pools(int supported); /* 0: a driver that knows no memory pools */
void tp_shim_set_processors(int n);    /* multiprocessors of each device opened from here on; the default is 132 */
void tp_shim_refuse_products(int on);  /* cuBLASLt's heuristics find no algorithm */
void tp_shim_refuse_convolutions(int which); /* cuDNN makes none, 1: of NHWC, 2: at all */
void tp_shim_set_seed(uint64_t seed);        /* in place of $TP_SHIM_SEED */
const char *tp_shim_sentence(void);          /* why the last call of this thread that failed did */

#ifdef __cplusplus
}
#endif
#endif /* TP_SHIM_H */
