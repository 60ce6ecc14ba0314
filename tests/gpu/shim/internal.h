/* internal.h - what the runtime of the shim (shim.cpp) gives its libraries (libraries.cpp) */
#ifndef TP_SHIM_INTERNAL_H
#define TP_SHIM_INTERNAL_H

#include "cuda_runtime.h"

#include <functional>
#include <memory>
#include <string>

namespace tp_shim
{
/* What CUDA leaves undefined: a sentence, and the end. */
[[noreturn]] void fault(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* What CUDA reports: the sentence is kept for tp_shim_sentence. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
bool injected(const char *what); /* counts a call that may fail; true: this one does */
/* Fault unless [p, p + bytes) lies in one live device allocation. */
void check_device(const void *p, size_t bytes, const char *what);
/* Fault if p is memory of a pool that the device which has `other` was given no access to. */
void check_reach(const void *p, const void *other, const char *what);
/* Queue work as a kernel is: on its stream, or into the graph being captured. */
cudaError_t queue(cudaStream_t stream, const std::string &name, std::function<void()> work);
/* Work of several streams together: it runs when all have come, and each goes on when it is done. */
struct Meeting;
std::shared_ptr<Meeting> meeting(int streams, const std::string &name, std::function<void()> work);
cudaError_t join(const std::shared_ptr<Meeting> &m, cudaStream_t stream);
void count_live(const char *what, int by); /* "cuDNN handle": one more, one less */
void scribble(void *p, size_t bytes);      /* as undefined as NaNs are */
int current_device();
bool stream_ok(cudaStream_t stream);
} // namespace tp_shim

#endif
