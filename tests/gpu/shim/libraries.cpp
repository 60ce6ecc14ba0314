/* libraries.cpp - cuBLASLt, cuDNN and NCCL of the shim: naive loops in double precision, queued like kernels
 *
 * CONTENTS   >>numbers >>cublaslt >>cudnn >>nccl
 *
 * Operands are looked up in the table of allocations when the call is made; the workspace is overwritten when it runs,
 * so that whoever keeps data there loses it. */
#include "cublasLt.h"
#include "cudnn.h"
#include "internal.h"
#include "nccl.h"
#include "tp_shim.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <unistd.h>
#include <vector>

/* These loops run over ranges that were checked as a whole; without instrumentation they are ten times as fast. */
#define FAST __attribute__((no_sanitize("address", "undefined", "thread")))

using tp_shim::check_device;
using tp_shim::injected;
using tp_shim::say;

/* ==== >>numbers ======================================================================================= */

namespace
{
enum Number { F32, F64, F16, BF16, NO_NUMBER };
FAST size_t number_size(Number t) { return t == F64 ? 8 : t == F32 ? 4 : 2; }

FAST float half_to_float(uint16_t h)
{
    int e = h >> 10 & 31, m = h & 1023;
    double v = e == 31 ? (m ? (double)NAN : (double)INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return (float)(h >> 15 ? -v : v);
}
FAST uint16_t float_to_half(float f)
{
    uint32_t b = tp_shim_bits<uint32_t>(f), sign = b >> 16 & 0x8000u;
    if (f != f) return (uint16_t)(sign | 0x7e00u);
    double a = fabs((double)f);
    if (a >= 65520.0) return (uint16_t)(sign | 0x7c00u);
    int e = 0;
    (void)frexp(a, &e);
    if (a < ldexp(1, -14)) e = -13; /* subnormal */
    double units = nearbyint(ldexp(a, 11 - e));
    if (units == 0) return (uint16_t)sign;
    if (units >= 2048) units /= 2, e++;
    return (uint16_t)(sign | (units < 1024 ? (uint32_t)units : (uint32_t)(e + 14) << 10 | ((uint32_t)units - 1024)));
}
FAST double load(Number t, const void *p, size_t i)
{
    switch (t) {
    case F32: return (double)((const float *)p)[i];
    case F64: return ((const double *)p)[i];
    case F16: return (double)half_to_float(((const uint16_t *)p)[i]);
    default: return (double)tp_shim_bits<float>((uint32_t)((const uint16_t *)p)[i] << 16);
    }
}
FAST void store(Number t, void *p, size_t i, double v)
{
    switch (t) {
    case F32: ((float *)p)[i] = (float)v; break;
    case F64: ((double *)p)[i] = v; break;
    case F16: ((uint16_t *)p)[i] = float_to_half((float)v); break;
    default: {
        uint32_t b = tp_shim_bits<uint32_t>((float)v);
        bool nan = (b & 0x7fffffffu) > 0x7f800000u;
        ((uint16_t *)p)[i] = (uint16_t)(nan ? 0x7fc0u : (b + 0x7fffu + (b >> 16 & 1u)) >> 16);
    }
    }
}
Number number_of(cudaDataType_t t)
{
    return t == CUDA_R_32F ? F32 : t == CUDA_R_64F ? F64 : t == CUDA_R_16F ? F16 : t == CUDA_R_16BF ? BF16 : NO_NUMBER;
}
Number number_of(cudnnDataType_t t)
{
    return t == CUDNN_DATA_FLOAT      ? F32
           : t == CUDNN_DATA_DOUBLE   ? F64
           : t == CUDNN_DATA_HALF     ? F16
           : t == CUDNN_DATA_BFLOAT16 ? BF16
                                      : NO_NUMBER;
}
double scalar(Number compute, const void *p) { return compute == F64 ? *(const double *)p : (double)*(const float *)p; }

template <class T, class Handle> void make(Handle *out, const char *what)
{
    *out = new T();
    tp_shim::count_live(what, 1);
}
template <class Handle> void unmake(Handle h, const char *what)
{
    if (!h) return;
    tp_shim::count_live(what, -1);
    delete h;
}
void use_workspace(void *p, size_t bytes)
{
    if (bytes) tp_shim::scribble(p, bytes);
}
} // namespace

/* ==== >>cublaslt ====================================================================================== */

struct tp_shim_blas {
    int device = tp_shim::current_device();
};
struct tp_shim_matmul_desc {
    cublasComputeType_t compute;
    cudaDataType_t scale;
    bool ta = false, tb = false;
    int epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    const void *bias = nullptr;
    int bias_type = -1;
    int64_t bias_batch = 0;
};
struct tp_shim_matrix_layout {
    cudaDataType_t type;
    uint64_t rows, cols;
    int64_t ld;
    int order = CUBLASLT_ORDER_COL;
    int batch = 1;
    int64_t batch_stride = 0;
    FAST size_t at(size_t row, size_t col) const
    {
        return order == CUBLASLT_ORDER_COL ? row + col * (size_t)ld : row * (size_t)ld + col;
    }
};
struct tp_shim_matmul_preference {
    uint64_t workspace = 0;
    uint32_t align[4] = {256, 256, 256, 256};
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
};

namespace
{
constexpr uint64_t BLAS_MAGIC = 0x746d6c7473616c62u;
std::atomic<int> refuse_products{0};
std::atomic<uint64_t> loose_products{0};

template <class T> bool take(T *to, const void *from, size_t size)
{
    if (size != sizeof(T) || !from) return false;
    memcpy(to, from, sizeof(T));
    return true;
}
/* what an algorithm was chosen for: it may not be used for another product */
uint64_t product_key(const tp_shim_matmul_desc *d, const tp_shim_matrix_layout *l[4])
{
    uint64_t h = 1469598103934665603u;
    auto mix = [&h](uint64_t v) { h = (h ^ v) * 1099511628211u, h ^= h >> 29; };
    mix((uint64_t)d->compute), mix((uint64_t)d->ta), mix((uint64_t)d->tb), mix((uint64_t)d->epilogue);
    for (int i = 0; i < 4; i++) {
        mix((uint64_t)l[i]->type), mix(l[i]->rows), mix(l[i]->cols), mix((uint64_t)l[i]->ld);
        mix((uint64_t)l[i]->order), mix((uint64_t)l[i]->batch), mix((uint64_t)l[i]->batch_stride);
    }
    return h;
}

cublasStatus_t product_check(const tp_shim_matmul_desc *d, const tp_shim_matrix_layout *l[4])
{
    const tp_shim_matrix_layout &a = *l[0], &b = *l[1], &c = *l[2], &out = *l[3];
    uint64_t m = d->ta ? a.cols : a.rows, k = d->ta ? a.rows : a.cols, n = d->tb ? b.rows : b.cols;
    if ((d->tb ? b.cols : b.rows) != k || out.rows != m || out.cols != n || c.rows != m || c.cols != n) {
        say("cublasLtMatmul: op(A) is %llux%llu, op(B) %llux%llu, C %llux%llu, D %llux%llu", (unsigned long long)m,
            (unsigned long long)k, (unsigned long long)(d->tb ? b.cols : b.rows), (unsigned long long)n,
            (unsigned long long)c.rows, (unsigned long long)c.cols, (unsigned long long)out.rows,
            (unsigned long long)out.cols);
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    for (int i = 0; i < 4; i++) {
        uint64_t least = l[i]->order == CUBLASLT_ORDER_COL ? l[i]->rows : l[i]->cols;
        if (!l[i]->rows || !l[i]->cols || l[i]->ld < (int64_t)least || l[i]->batch != a.batch) {
            say("cublasLtMatmul: matrix %c is %llux%llu with leading dimension %lld, in %d batches (A: %d)", "ABCD"[i],
                (unsigned long long)l[i] -> rows, (unsigned long long)l[i] -> cols, (long long)l[i] -> ld,
                l[i] -> batch, a.batch);
            return CUBLAS_STATUS_INVALID_VALUE;
        }
    }
    Number ab = number_of(a.type), cd = number_of(out.type), scale = number_of(d->scale);
    bool doubles = d->compute == CUBLAS_COMPUTE_64F || d->compute == CUBLAS_COMPUTE_64F_PEDANTIC;
    bool types = doubles ? ab == F64 && cd == F64 && scale == F64
                         : d->compute >= CUBLAS_COMPUTE_32F && scale == F32 && ab != F64 && ab != NO_NUMBER &&
                               (cd == ab || cd == F32);
    int e = d->epilogue;
    bool epilogue = e == CUBLASLT_EPILOGUE_DEFAULT || e == CUBLASLT_EPILOGUE_RELU || e == CUBLASLT_EPILOGUE_BIAS ||
                    e == CUBLASLT_EPILOGUE_RELU_BIAS || e == CUBLASLT_EPILOGUE_GELU || e == CUBLASLT_EPILOGUE_GELU_BIAS;
    const bool bias = e != CUBLASLT_EPILOGUE_DEFAULT && (e & CUBLASLT_EPILOGUE_BIAS);
    if (bias && d->bias_type >= 0 && d->bias_type != (int)out.type) {
        say("cublasLtMatmul: a bias of type %d, the result has type %d", d->bias_type, (int)out.type);
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (!types || b.type != a.type || c.type != out.type || !epilogue) {
        say("cublasLtMatmul: types %d x %d -> %d computed as %d, epilogue %d: not in the shim", (int)a.type,
            (int)b.type, (int)out.type, (int)d->compute, e);
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    return CUBLAS_STATUS_SUCCESS;
}

void check_matrix(const tp_shim_matrix_layout &l, const void *p, const char *what)
{
    size_t size = number_size(number_of(l.type)), span = (l.at(l.rows - 1, l.cols - 1) + 1) * size;
    for (int i = 0; i < l.batch; i++)
        check_device((const char *)p + (int64_t)i * l.batch_stride * (int64_t)size, span, what);
}
FAST void add_row(double *c, const double *b, double a, size_t n)
{
    for (size_t j = 0; j < n; j++) c[j] += a * b[j];
}
struct Product {
    tp_shim_matmul_desc d;
    tp_shim_matrix_layout a, b, c, out;
    const void *A, *B, *C;
    void *D;
    double alpha, beta;
    bool loose; /* its partial sums may be rounded to the output's type: not the same twice */
    FAST void run() const
    {
        const double off = loose ? 1 + 1e-7 * (double)(loose_products++ % 7) : 1;
        size_t m = out.rows, n = out.cols, k = d.ta ? a.rows : a.cols;
        Number in = number_of(a.type), to = number_of(out.type);
        Number bias_type = d.bias_type < 0 ? to : number_of((cudaDataType_t)d.bias_type);
        std::vector<double> sum(m * n), right(k * n);
        double *s = sum.data(), *r = right.data();
        bool with_bias = d.epilogue != CUBLASLT_EPILOGUE_DEFAULT && (d.epilogue & CUBLASLT_EPILOGUE_BIAS);
        for (int batch = 0; batch < out.batch; batch++) {
            auto start = [batch](const tp_shim_matrix_layout &l) { return (size_t)(batch * l.batch_stride); };
            std::fill(sum.begin(), sum.end(), 0.0);
            for (size_t i = 0; i < k; i++)
                for (size_t j = 0; j < n; j++) r[i * n + j] = load(in, B, start(b) + (d.tb ? b.at(j, i) : b.at(i, j)));
            for (size_t i = 0; i < m; i++)
                for (size_t l = 0; l < k; l++)
                    add_row(s + i * n, r + l * n, load(in, A, start(a) + (d.ta ? a.at(l, i) : a.at(i, l))), n);
            for (size_t i = 0; i < m; i++)
                for (size_t j = 0; j < n; j++) {
                    double v = alpha * s[i * n + j] * off;
                    if (beta != 0) v += beta * load(to, C, start(c) + c.at(i, j));
                    if (with_bias) v += load(bias_type, d.bias, (size_t)(batch * d.bias_batch) + i);
                    if (d.epilogue == CUBLASLT_EPILOGUE_RELU || d.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS)
                        v = v > 0 || v != v ? v : 0;
                    if (d.epilogue & CUBLASLT_EPILOGUE_GELU)
                        v = 0.5 * v * (1 + tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
                    store(to, D, start(out) + out.at(i, j), v);
                }
        }
    }
};
} // namespace

extern "C" {
cublasStatus_t cublasLtCreate(cublasLtHandle_t *h)
{
    *h = nullptr;
    if (injected("cublasLtCreate")) return CUBLAS_STATUS_NOT_INITIALIZED;
    make<tp_shim_blas>(h, "cuBLASLt handle");
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t h)
{
    unmake(h, "cuBLASLt handle");
    return CUBLAS_STATUS_SUCCESS;
}
size_t cublasLtGetVersion(void) { return 130100; }
const char *cublasLtGetStatusName(cublasStatus_t s)
{
    switch (s) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH: return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR: return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    }
    return "unknown cuBLAS status";
}
const char *cublasLtGetStatusString(cublasStatus_t s) { return cublasLtGetStatusName(s); }
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *d, cublasComputeType_t compute, cudaDataType_t scale)
{
    *d = nullptr;
    if (injected("cublasLtMatmulDescCreate")) return CUBLAS_STATUS_ALLOC_FAILED;
    make<tp_shim_matmul_desc>(d, "cuBLASLt descriptor");
    (*d)->compute = compute;
    (*d)->scale = scale;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
    unmake(d, "cuBLASLt descriptor");
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t attr,
                                              const void *value, size_t size)
{
    if (injected("cublasLtMatmulDescSetAttribute")) return CUBLAS_STATUS_INVALID_VALUE;
    int32_t v = 0;
    bool ok = d != nullptr;
    switch (ok ? (int)attr : -1) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        ok = take(&v, value, size) && v >= 0 && v <= 2;
        d->ta = v != 0;
        break;
    case CUBLASLT_MATMUL_DESC_TRANSB:
        ok = take(&v, value, size) && v >= 0 && v <= 2;
        d->tb = v != 0;
        break;
    case CUBLASLT_MATMUL_DESC_POINTER_MODE: ok = take(&v, value, size) && v == CUBLASLT_POINTER_MODE_HOST; break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE: ok = take(&d->epilogue, value, size); break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: ok = take(&d->bias, value, size); break;
    case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE: ok = take(&d->bias_batch, value, size); break;
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: ok = take(&d->bias_type, value, size); break;
    default: ok = false;
    }
    if (!ok) say("cublasLtMatmulDescSetAttribute: attribute %d of %zu bytes is not in the shim", (int)attr, size);
    return ok ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *l, cudaDataType_t type, uint64_t rows, uint64_t cols,
                                          int64_t ld)
{
    *l = nullptr;
    if (injected("cublasLtMatrixLayoutCreate")) return CUBLAS_STATUS_ALLOC_FAILED;
    make<tp_shim_matrix_layout>(l, "cuBLASLt layout");
    (*l)->type = type;
    (*l)->rows = rows;
    (*l)->cols = cols;
    (*l)->ld = ld;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    unmake(l, "cuBLASLt layout");
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l, cublasLtMatrixLayoutAttribute_t attr,
                                                const void *value, size_t size)
{
    if (injected("cublasLtMatrixLayoutSetAttribute")) return CUBLAS_STATUS_INVALID_VALUE;
    bool ok = l != nullptr;
    switch (ok ? (int)attr : -1) {
    case CUBLASLT_MATRIX_LAYOUT_ORDER: ok = take(&l->order, value, size) && (l->order == 0 || l->order == 1); break;
    case CUBLASLT_MATRIX_LAYOUT_ROWS: ok = take(&l->rows, value, size); break;
    case CUBLASLT_MATRIX_LAYOUT_COLS: ok = take(&l->cols, value, size); break;
    case CUBLASLT_MATRIX_LAYOUT_LD: ok = take(&l->ld, value, size); break;
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: ok = take(&l->batch, value, size) && l->batch > 0; break;
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: ok = take(&l->batch_stride, value, size); break;
    default: ok = false;
    }
    if (!ok) say("cublasLtMatrixLayoutSetAttribute: attribute %d of %zu bytes is not in the shim", (int)attr, size);
    return ok ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p)
{
    *p = nullptr;
    if (injected("cublasLtMatmulPreferenceCreate")) return CUBLAS_STATUS_ALLOC_FAILED;
    make<tp_shim_matmul_preference>(p, "cuBLASLt preference");
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    unmake(p, "cuBLASLt preference");
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t attr, const void *value,
                                                    size_t size)
{
    if (injected("cublasLtMatmulPreferenceSetAttribute")) return CUBLAS_STATUS_INVALID_VALUE;
    bool ok = p != nullptr;
    switch (ok ? (int)attr : -1) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: ok = take(&p->workspace, value, size); break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        ok = take(&p->align[attr - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, size);
        break;
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: ok = take(&p->schemes, value, size); break;
    case CUBLASLT_MATMUL_PREF_SEARCH_MODE:
    case CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT: ok = size == 4; break;
    default: ok = false;
    }
    if (!ok) say("cublasLtMatmulPreferenceSetAttribute: attribute %d of %zu bytes is not in the shim", (int)attr, size);
    return ok ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
void tp_shim_refuse_products(int on) { refuse_products = on; }
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t h, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t out, cublasLtMatmulPreference_t p, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int *returned)
{
    *returned = 0;
    if (injected("cublasLtMatmulAlgoGetHeuristic")) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!h || !d || !a || !b || !c || !out || !p || wanted < 1) return CUBLAS_STATUS_INVALID_VALUE;
    const tp_shim_matrix_layout *l[4] = {a, b, c, out};
    cublasStatus_t s = product_check(d, l);
    if (s != CUBLAS_STATUS_SUCCESS) return s;
    if (refuse_products) return CUBLAS_STATUS_NOT_SUPPORTED;
    memset(&results[0], 0, sizeof results[0]);
    results[0].state = CUBLAS_STATUS_SUCCESS;
    results[0].workspaceSize = p->workspace >= 65536 ? 65536 : 0;
    results[0].wavesCount = 1;
    results[0].algo.data[0] = BLAS_MAGIC;
    results[0].algo.data[1] = product_key(d, l);
    results[0].algo.data[2] = results[0].workspaceSize;
    for (int i = 0; i < 4; i++) results[0].algo.data[3 + i] = p->align[i];
    results[0].algo.data[7] = p->schemes & ~(uint32_t)CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    *returned = 1;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t d, const void *alpha, const void *A,
                              cublasLtMatrixLayout_t a, const void *B, cublasLtMatrixLayout_t b, const void *beta,
                              const void *C, cublasLtMatrixLayout_t c, void *D, cublasLtMatrixLayout_t out,
                              const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes,
                              cudaStream_t stream)
{
    if (injected("cublasLtMatmul")) return CUBLAS_STATUS_EXECUTION_FAILED;
    if (!h || !d || !a || !b || !c || !out || !alpha || !beta) return CUBLAS_STATUS_INVALID_VALUE;
    if (!tp_shim::stream_ok(stream)) return CUBLAS_STATUS_INVALID_VALUE;
    const tp_shim_matrix_layout *l[4] = {a, b, c, out};
    cublasStatus_t s = product_check(d, l);
    if (s != CUBLAS_STATUS_SUCCESS) return s;
    Product p = {*d, *a, *b, *c, *out, A, B, C, D, 0, 0, algo && algo->data[7] != 0};
    p.alpha = scalar(number_of(d->scale), alpha);
    p.beta = scalar(number_of(d->scale), beta);
    const void *ptr[4] = {A, B, C, D};
    size_t scratch = 0;
    if (algo) {
        if (algo->data[0] != BLAS_MAGIC || algo->data[1] != product_key(d, l)) {
            say("cublasLtMatmul: the algorithm was chosen for another product");
            return CUBLAS_STATUS_INVALID_VALUE;
        }
        scratch = (size_t)algo->data[2];
        for (int i = 0; i < 4; i++)
            if ((i != 2 || p.beta != 0) && (uintptr_t)ptr[i] % std::max<uint64_t>(algo->data[3 + i], 1) != 0) {
                say("cublasLtMatmul: matrix %c is not aligned to %llu bytes, as the heuristic was told", "ABCD"[i],
                    (unsigned long long)algo -> data[3 + i]);
                return CUBLAS_STATUS_INVALID_VALUE;
            }
    }
    if (scratch > workspace_bytes || (uintptr_t)workspace % 16) {
        say("cublasLtMatmul: the algorithm wants %zu bytes of workspace, %zu are given", scratch, workspace_bytes);
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (workspace_bytes) check_device(workspace, workspace_bytes, "cublasLtMatmul, workspace");
    check_matrix(*a, A, "cublasLtMatmul, A");
    check_matrix(*b, B, "cublasLtMatmul, B");
    if (p.beta != 0) check_matrix(*c, C, "cublasLtMatmul, C");
    check_matrix(*out, D, "cublasLtMatmul, D");
    if (d->epilogue != CUBLASLT_EPILOGUE_DEFAULT && (d->epilogue & CUBLASLT_EPILOGUE_BIAS)) {
        Number t = d->bias_type < 0 ? number_of(out->type) : number_of((cudaDataType_t)d->bias_type);
        check_device(d->bias, out->rows * number_size(t), "cublasLtMatmul, bias");
    }
    cudaError_t e = tp_shim::queue(stream, "cublasLtMatmul", [p, workspace, scratch] {
        use_workspace(workspace, scratch);
        p.run();
    });
    return e == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
} /* extern "C" */

/* ==== >>cudnn ========================================================================================= */

struct tp_shim_dnn {
    cudaStream_t stream = nullptr;
};
struct tp_shim_dnn_tensor {
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    int n = 0, dim[CUDNN_DIM_MAX] = {}, stride[CUDNN_DIM_MAX] = {};
};
struct tp_shim_dnn_filter : tp_shim_dnn_tensor {
    cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
};
struct tp_shim_dnn_conv {
    int n = 0, pad[6] = {}, stride[6] = {}, dilation[6] = {}, groups = 1;
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    cudnnDataType_t compute = CUDNN_DATA_FLOAT;
};

namespace
{
std::atomic<int> refuse_convolutions{0};
cudnnStatus_t bad(const char *why)
{
    say("cuDNN: %s", why);
    return CUDNN_STATUS_BAD_PARAM;
}
cudnnStatus_t unsupported(const char *why)
{
    say("cuDNN: %s", why);
    return CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t set_tensor(tp_shim_dnn_tensor *d, cudnnDataType_t type, cudnnTensorFormat_t format, int n, const int *dim)
{
    if (injected("cudnnSet...Descriptor")) return CUDNN_STATUS_INTERNAL_ERROR;
    if (!d || n < 3 || n > 5) return bad("a descriptor needs 3 to 5 axes");
    if (format == CUDNN_TENSOR_NCHW_VECT_C) return unsupported("NCHW_VECT_C");
    for (int i = 0; i < n; i++)
        if (dim[i] < 1) return bad("an axis of a descriptor is empty");
    d->type = type;
    d->n = n;
    int s = 1;
    if (format == CUDNN_TENSOR_NHWC) d->stride[1] = 1, s = dim[1];
    for (int i = n - 1; i >= 0; i--) {
        d->dim[i] = dim[i];
        if (i == 1 && format == CUDNN_TENSOR_NHWC) continue;
        d->stride[i] = s;
        s *= dim[i];
    }
    return CUDNN_STATUS_SUCCESS;
}

/* One convolution with three spatial axes, the absent ones of size 1. y and x are channels last, w is [K][taps][C/g]. */
enum Direction { FORWARD, INPUT_GRADIENT, FILTER_GRADIENT };
struct Convolution {
    Number type;
    int B, C, K, groups, in[3], out[3], taps[3], pad[3], stride[3], dilation[3];
    bool flip;
    tp_shim_dnn_tensor x, w, y;
};

FAST int axis(const tp_shim_dnn_tensor &t, int a) /* of the three spatial ones */
{
    int i = a - (5 - t.n);
    return i < 0 ? 1 : t.dim[2 + i];
}
FAST size_t axis_stride(const tp_shim_dnn_tensor &t, int a)
{
    int i = a - (5 - t.n);
    return i < 0 ? 0 : (size_t)t.stride[2 + i];
}

cudnnStatus_t plan(Convolution *c, const tp_shim_dnn_tensor *x, const tp_shim_dnn_filter *w,
                   const tp_shim_dnn_conv *conv, const tp_shim_dnn_tensor *y)
{
    if (!x || !w || !conv || !y || !x->n || !w->n || !conv->n || !y->n) return bad("a descriptor was not set");
    if (x->n != w->n || x->n != y->n || conv->n != x->n - 2)
        return bad("the descriptors differ in their number of axes");
    Number t = number_of(x->type);
    if (t == NO_NUMBER || w->type != x->type || y->type != x->type) return unsupported("the operands' types differ");
    if (conv->compute != (t == F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT))
        return unsupported("the compute type must be f32, or f64 for f64 operands");
    const int refused = refuse_convolutions;
    if (refused == 2 || (refused == 1 && w->format == CUDNN_TENSOR_NHWC)) return unsupported("it was told to refuse");
    bool x_last = x->stride[1] == 1 && x->dim[1] > 1, w_last = w->format == CUDNN_TENSOR_NHWC;
    if (x_last && !w_last && x->stride[x->n - 1] != 1) return unsupported("an NHWC tensor with an NCHW filter");
    if (x->dim[1] != w->dim[1] * conv->groups || w->dim[0] % conv->groups || y->dim[1] != w->dim[0] ||
        y->dim[0] != x->dim[0])
        return bad("channels, groups or batches do not agree");
    *c = Convolution();
    c->type = t;
    c->B = x->dim[0];
    c->C = x->dim[1];
    c->K = w->dim[0];
    c->groups = conv->groups;
    c->flip = conv->mode == CUDNN_CONVOLUTION;
    c->x = *x;
    c->w = *w;
    c->y = *y;
    for (int a = 0; a < 3; a++) {
        int i = a - (3 - conv->n);
        c->in[a] = axis(*x, a);
        c->out[a] = axis(*y, a);
        c->taps[a] = axis(*w, a);
        c->pad[a] = i < 0 ? 0 : conv->pad[i];
        c->stride[a] = i < 0 ? 1 : conv->stride[i];
        c->dilation[a] = i < 0 ? 1 : conv->dilation[i];
        int span = c->in[a] + 2 * c->pad[a] - ((c->taps[a] - 1) * c->dilation[a] + 1);
        if (span < 0 || c->out[a] != span / c->stride[a] + 1) return bad("the size of the output is not what follows");
    }
    return CUDNN_STATUS_SUCCESS;
}

size_t span_of(const tp_shim_dnn_tensor &t)
{
    size_t last = 0;
    for (int i = 0; i < t.n; i++) last += (size_t)(t.dim[i] - 1) * (size_t)t.stride[i];
    return (last + 1) * number_size(number_of(t.type));
}
/* fn(place in memory, place in the dense array): batch or filter, three axes, channel */
template <class F> FAST void each_element(const tp_shim_dnn_tensor &t, F fn)
{
    size_t i = 0;
    for (int n = 0; n < t.dim[0]; n++)
        for (int d = 0; d < axis(t, 0); d++)
            for (int h = 0; h < axis(t, 1); h++)
                for (int w = 0; w < axis(t, 2); w++)
                    for (int c = 0; c < t.dim[1]; c++)
                        fn((size_t)n * (size_t)t.stride[0] + (size_t)c * (size_t)t.stride[1] +
                               (size_t)d * axis_stride(t, 0) + (size_t)h * axis_stride(t, 1) +
                               (size_t)w * axis_stride(t, 2),
                           i++);
}
size_t count_of(const tp_shim_dnn_tensor &t)
{
    size_t n = 1;
    for (int i = 0; i < t.n; i++) n *= (size_t)t.dim[i];
    return n;
}
FAST std::vector<double> dense(const tp_shim_dnn_tensor &t, const void *p)
{
    std::vector<double> v(count_of(t));
    double *to = v.data();
    Number type = number_of(t.type);
    each_element(t, [to, type, p](size_t at, size_t i) FAST { to[i] = load(type, p, at); });
    return v;
}
FAST double dot(const double *a, const double *b, size_t n)
{
    double s = 0;
    for (size_t i = 0; i < n; i++) s += a[i] * b[i];
    return s;
}

FAST void convolve(const Convolution &c, Direction what, double *x, double *w, double *y)
{
    size_t cg = (size_t)(c.C / c.groups), kg = (size_t)(c.K / c.groups);
    size_t n_taps = (size_t)c.taps[0] * (size_t)c.taps[1] * (size_t)c.taps[2], o = 0;
    for (int b = 0; b < c.B; b++)
        for (int od = 0; od < c.out[0]; od++)
            for (int oh = 0; oh < c.out[1]; oh++)
                for (int ow = 0; ow < c.out[2]; ow++, o++) {
                    double *yo = y + o * (size_t)c.K;
                    for (size_t tap = 0; tap < n_taps; tap++) {
                        int t[3] = {(int)tap / c.taps[2] / c.taps[1], (int)tap / c.taps[2] % c.taps[1],
                                    (int)tap % c.taps[2]};
                        int at[3] = {od, oh, ow};
                        bool inside = true;
                        size_t place = (size_t)b;
                        for (int a = 0; a < 3; a++) {
                            int i = at[a] * c.stride[a] - c.pad[a] + t[a] * c.dilation[a];
                            inside = inside && i >= 0 && i < c.in[a];
                            place = place * (size_t)c.in[a] + (size_t)i;
                        }
                        if (!inside) continue;
                        size_t stored = c.flip ? n_taps - 1 - tap : tap;
                        for (size_t k = 0; k < (size_t)c.K; k++) {
                            double *xi = x + place * (size_t)c.C + k / kg * cg, *wi = w + (k * n_taps + stored) * cg;
                            if (what == FORWARD) yo[k] += dot(xi, wi, cg);
                            else if (what == INPUT_GRADIENT) add_row(xi, wi, yo[k], cg);
                            else add_row(wi, xi, yo[k], cg);
                        }
                    }
                }
}

size_t workspace_of(const Convolution &c, int algo) { return 1024 + 16 * (size_t)(c.C + c.K) + 256 * (size_t)algo; }

cudnnStatus_t run_convolution(const char *name, cudnnHandle_t h, const Convolution &c, Direction what, int algo,
                              bool deterministic, const void *alpha, const void *beta, const void *x, const void *w,
                              const void *y, void *workspace, size_t workspace_bytes)
{
    if (injected(name)) return CUDNN_STATUS_EXECUTION_FAILED;
    if (!h || !alpha || !beta) return bad("a NULL argument");
    if (!tp_shim::stream_ok(h->stream)) return bad("the handle's stream does not exist (any more)");
    size_t wanted = workspace_of(c, algo);
    if (workspace_bytes < wanted) {
        say("%s: algorithm %d wants %zu bytes of workspace, %zu are given", name, algo, wanted, workspace_bytes);
        return CUDNN_STATUS_BAD_PARAM;
    }
    std::string words = name;
    check_device(workspace, workspace_bytes, (words + ", workspace").c_str());
    check_device(x, span_of(c.x), (words + ", x").c_str());
    check_device(w, span_of(c.w), (words + ", w").c_str());
    check_device(y, span_of(c.y), (words + ", y").c_str());
    double va = scalar(c.type, alpha), vb = scalar(c.type, beta);
    cudaError_t e = tp_shim::queue(h->stream, name, [=] {
        tp_shim::scribble(workspace, wanted);
        const tp_shim_dnn_tensor &to = what == FORWARD ? c.y : what == INPUT_GRADIENT ? c.x : c.w;
        void *result = const_cast<void *>(what == FORWARD ? y : what == INPUT_GRADIENT ? x : w);
        std::vector<double> dx = what == INPUT_GRADIENT ? std::vector<double>(count_of(c.x)) : dense(c.x, x);
        std::vector<double> dw = what == FILTER_GRADIENT ? std::vector<double>(count_of(c.w)) : dense(c.w, w);
        std::vector<double> dy = what == FORWARD ? std::vector<double>(count_of(c.y)) : dense(c.y, y);
        convolve(c, what, dx.data(), dw.data(), dy.data());
        const double *from = what == FORWARD ? dy.data() : what == INPUT_GRADIENT ? dx.data() : dw.data();
        static int turn = 0; /* an algorithm that says so does not give the same bits twice */
        double wobble = deterministic ? 1 : 1 + 2e-7 * (turn++ % 3);
        Number type = c.type;
        each_element(to, [=](size_t at, size_t i) {
            double v = va * from[i] * wobble;
            if (vb != 0) v += vb * load(type, result, at);
            store(type, result, at, v);
        });
    });
    return e == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

/* Two algorithms, the faster one not deterministic where cuDNN has such. */
template <class Perf, class Algo>
cudnnStatus_t heuristic(const Convolution &c, int wanted, int *returned, Perf *results, Algo first, bool first_exact,
                        Algo second)
{
    if (!returned || !results || wanted < 1) return bad("a NULL argument");
    Algo algo[2] = {first, second};
    *returned = std::min(wanted, 2);
    for (int i = 0; i < *returned; i++) {
        memset((void *)&results[i], 0, sizeof results[i]);
        results[i].algo = algo[i];
        results[i].status = CUDNN_STATUS_SUCCESS;
        results[i].time = -1;
        results[i].memory = workspace_of(c, (int)algo[i]);
        results[i].determinism = i || first_exact ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
        results[i].mathType = CUDNN_DEFAULT_MATH;
    }
    return CUDNN_STATUS_SUCCESS;
}
} // namespace

extern "C" {
cudnnStatus_t cudnnCreate(cudnnHandle_t *h)
{
    *h = nullptr;
    if (injected("cudnnCreate")) return CUDNN_STATUS_NOT_INITIALIZED;
    make<tp_shim_dnn>(h, "cuDNN handle");
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t h)
{
    unmake(h, "cuDNN handle");
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t stream)
{
    if (injected("cudnnSetStream")) return CUDNN_STATUS_BAD_PARAM;
    if (!h || !tp_shim::stream_ok(stream)) return bad("cudnnSetStream: no such handle or stream");
    h->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetStream(cudnnHandle_t h, cudaStream_t *stream)
{
    *stream = h->stream;
    return CUDNN_STATUS_SUCCESS;
}
size_t cudnnGetVersion(void) { return CUDNN_VERSION; }
const char *cudnnGetErrorString(cudnnStatus_t s)
{
    switch (s) {
    case CUDNN_STATUS_SUCCESS: return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_INITIALIZED: return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_INTERNAL_ERROR: return "CUDNN_STATUS_INTERNAL_ERROR";
    case CUDNN_STATUS_EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
    }
    return "CUDNN_UNKNOWN_STATUS";
}
void cudnnGetLastErrorString(char *text, size_t size)
{
    if (!size) return;
    strncpy(text, tp_shim_sentence(), size - 1);
    text[size - 1] = 0;
}
#define TP_SHIM_DESCRIPTOR(Name_, type_)                                                     \
    cudnnStatus_t cudnnCreate##Name_##Descriptor(cudnn##Name_##Descriptor_t *d)              \
    {                                                                                        \
        *d = nullptr;                                                                        \
        if (injected("cudnnCreate" #Name_ "Descriptor")) return CUDNN_STATUS_INTERNAL_ERROR; \
        make<type_>(d, "cuDNN descriptor");                                                  \
        return CUDNN_STATUS_SUCCESS;                                                         \
    }                                                                                        \
    cudnnStatus_t cudnnDestroy##Name_##Descriptor(cudnn##Name_##Descriptor_t d)              \
    {                                                                                        \
        unmake(d, "cuDNN descriptor");                                                       \
        return CUDNN_STATUS_SUCCESS;                                                         \
    }
TP_SHIM_DESCRIPTOR(Tensor, tp_shim_dnn_tensor)
TP_SHIM_DESCRIPTOR(Filter, tp_shim_dnn_filter)
TP_SHIM_DESCRIPTOR(Convolution, tp_shim_dnn_conv)
#undef TP_SHIM_DESCRIPTOR
void tp_shim_refuse_convolutions(int which) { refuse_convolutions = which; }
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t d, cudnnTensorFormat_t format, cudnnDataType_t type,
                                         int n, int c, int h, int w)
{
    int dim[4] = {n, c, h, w};
    return set_tensor(d, type, format, 4, dim);
}
cudnnStatus_t cudnnSetTensorNdDescriptorEx(cudnnTensorDescriptor_t d, cudnnTensorFormat_t format, cudnnDataType_t type,
                                           int n, const int dim[])
{
    return set_tensor(d, type, format, n, dim);
}
cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t d, cudnnDataType_t type, int n, const int dim[],
                                         const int stride[])
{
    cudnnStatus_t s = set_tensor(d, type, CUDNN_TENSOR_NCHW, n, dim);
    for (int i = 0; s == CUDNN_STATUS_SUCCESS && i < n; i++) {
        if (stride[i] < 1) return bad("a stride below 1");
        d->stride[i] = stride[i];
    }
    return s;
}
cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t d, cudnnDataType_t type, int n, int c, int h, int w,
                                           int n_stride, int c_stride, int h_stride, int w_stride)
{
    int dim[4] = {n, c, h, w}, stride[4] = {n_stride, c_stride, h_stride, w_stride};
    return cudnnSetTensorNdDescriptor(d, type, 4, dim, stride);
}
cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t d, cudnnDataType_t type, cudnnTensorFormat_t format,
                                         int n, const int dim[])
{
    cudnnStatus_t s = set_tensor(d, type, format, n, dim);
    if (s == CUDNN_STATUS_SUCCESS) d->format = format;
    return s;
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t d, cudnnDataType_t type, cudnnTensorFormat_t format,
                                         int k, int c, int h, int w)
{
    int dim[4] = {k, c, h, w};
    return cudnnSetFilterNdDescriptor(d, type, format, 4, dim);
}
cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t d, int n, const int pad[],
                                              const int stride[], const int dilation[], cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute)
{
    if (injected("cudnnSetConvolutionNdDescriptor")) return CUDNN_STATUS_INTERNAL_ERROR;
    if (!d || n < 1 || n > 3) return bad("a convolution has 1 to 3 spatial axes");
    for (int i = 0; i < n; i++) {
        if (pad[i] < 0 || stride[i] < 1 || dilation[i] < 1) return bad("padding, stride or dilation is out of range");
        d->pad[i] = pad[i];
        d->stride[i] = stride[i];
        d->dilation[i] = dilation[i];
    }
    d->n = n;
    d->mode = mode;
    d->compute = compute;
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t d, int pad_h, int pad_w, int stride_h,
                                              int stride_w, int dilation_h, int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute)
{
    int pad[2] = {pad_h, pad_w}, stride[2] = {stride_h, stride_w}, dilation[2] = {dilation_h, dilation_w};
    return cudnnSetConvolutionNdDescriptor(d, 2, pad, stride, dilation, mode, compute);
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t d, int groups)
{
    if (injected("cudnnSetConvolutionGroupCount")) return CUDNN_STATUS_INTERNAL_ERROR;
    if (!d || groups < 1) return bad("groups below 1");
    d->groups = groups;
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t d, cudnnMathType_t)
{
    if (injected("cudnnSetConvolutionMathType")) return CUDNN_STATUS_INTERNAL_ERROR;
    return d ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}
cudnnStatus_t cudnnSetConvolutionReorderType(cudnnConvolutionDescriptor_t d, cudnnReorderType_t)
{
    return d ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}
cudnnStatus_t cudnnGetConvolutionNdForwardOutputDim(cudnnConvolutionDescriptor_t d, cudnnTensorDescriptor_t x,
                                                    cudnnFilterDescriptor_t w, int n, int dim[])
{
    if (!d || !x || !w || n != x->n || n != w->n || n != d->n + 2) return bad("the number of axes");
    dim[0] = x->dim[0];
    dim[1] = w->dim[0];
    for (int i = 0; i < d->n; i++)
        dim[2 + i] = (x->dim[2 + i] + 2 * d->pad[i] - ((w->dim[2 + i] - 1) * d->dilation[i] + 1)) / d->stride[i] + 1;
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolution2dForwardOutputDim(cudnnConvolutionDescriptor_t d, cudnnTensorDescriptor_t x,
                                                    cudnnFilterDescriptor_t w, int *n, int *c, int *height, int *width)
{
    int dim[4] = {};
    cudnnStatus_t s = cudnnGetConvolutionNdForwardOutputDim(d, x, w, 4, dim);
    *n = dim[0];
    *c = dim[1];
    *height = dim[2];
    *width = dim[3];
    return s;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                     cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t conv,
                                                     cudnnTensorDescriptor_t y, int wanted, int *returned,
                                                     cudnnConvolutionFwdAlgoPerf_t *results)
{
    if (injected("cudnnGetConvolutionForwardAlgorithm_v7")) return CUDNN_STATUS_INTERNAL_ERROR;
    Convolution c;
    cudnnStatus_t s = plan(&c, x, w, conv, y);
    if (s != CUDNN_STATUS_SUCCESS) return s;
    return heuristic(c, wanted, returned, results, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, true,
                     CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t, cudnnFilterDescriptor_t w,
                                                          cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t conv,
                                                          cudnnTensorDescriptor_t dx, int wanted, int *returned,
                                                          cudnnConvolutionBwdDataAlgoPerf_t *results)
{
    if (injected("cudnnGetConvolutionBackwardDataAlgorithm_v7")) return CUDNN_STATUS_INTERNAL_ERROR;
    Convolution c;
    cudnnStatus_t s = plan(&c, dx, w, conv, dy);
    if (s != CUDNN_STATUS_SUCCESS) return s;
    return heuristic(c, wanted, returned, results, CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, false,
                     CUDNN_CONVOLUTION_BWD_DATA_ALGO_1);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                            cudnnTensorDescriptor_t dy,
                                                            cudnnConvolutionDescriptor_t conv,
                                                            cudnnFilterDescriptor_t dw, int wanted, int *returned,
                                                            cudnnConvolutionBwdFilterAlgoPerf_t *results)
{
    if (injected("cudnnGetConvolutionBackwardFilterAlgorithm_v7")) return CUDNN_STATUS_INTERNAL_ERROR;
    Convolution c;
    cudnnStatus_t s = plan(&c, x, dw, conv, dy);
    if (s != CUDNN_STATUS_SUCCESS) return s;
    return heuristic(c, wanted, returned, results, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, false,
                     CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1);
}
cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                      cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t conv,
                                                      cudnnTensorDescriptor_t y, cudnnConvolutionFwdAlgo_t algo,
                                                      size_t *bytes)
{
    if (injected("cudnnGetConvolutionForwardWorkspaceSize")) return CUDNN_STATUS_INTERNAL_ERROR;
    Convolution c;
    cudnnStatus_t s = plan(&c, x, w, conv, y);
    if (s == CUDNN_STATUS_SUCCESS) *bytes = workspace_of(c, (int)algo);
    return s;
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t, cudnnFilterDescriptor_t w,
                                                           cudnnTensorDescriptor_t dy,
                                                           cudnnConvolutionDescriptor_t conv,
                                                           cudnnTensorDescriptor_t dx,
                                                           cudnnConvolutionBwdDataAlgo_t algo, size_t *bytes)
{
    if (injected("cudnnGetConvolutionBackwardDataWorkspaceSize")) return CUDNN_STATUS_INTERNAL_ERROR;
    Convolution c;
    cudnnStatus_t s = plan(&c, dx, w, conv, dy);
    if (s == CUDNN_STATUS_SUCCESS) *bytes = workspace_of(c, (int)algo);
    return s;
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                             cudnnTensorDescriptor_t dy,
                                                             cudnnConvolutionDescriptor_t conv,
                                                             cudnnFilterDescriptor_t dw,
                                                             cudnnConvolutionBwdFilterAlgo_t algo, size_t *bytes)
{
    if (injected("cudnnGetConvolutionBackwardFilterWorkspaceSize")) return CUDNN_STATUS_INTERNAL_ERROR;
    Convolution c;
    cudnnStatus_t s = plan(&c, x, dw, conv, dy);
    if (s == CUDNN_STATUS_SUCCESS) *bytes = workspace_of(c, (int)algo);
    return s;
}
cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t h, const void *alpha, cudnnTensorDescriptor_t x_desc, const void *x,
                                      cudnnFilterDescriptor_t w_desc, const void *w, cudnnConvolutionDescriptor_t conv,
                                      cudnnConvolutionFwdAlgo_t algo, void *workspace, size_t workspace_bytes,
                                      const void *beta, cudnnTensorDescriptor_t y_desc, void *y)
{
    Convolution c;
    cudnnStatus_t s = plan(&c, x_desc, w_desc, conv, y_desc);
    if (s != CUDNN_STATUS_SUCCESS) return s;
    return run_convolution("cudnnConvolutionForward", h, c, FORWARD, (int)algo, true, alpha, beta, x, w, y, workspace,
                           workspace_bytes);
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t h, const void *alpha, cudnnFilterDescriptor_t w_desc,
                                           const void *w, cudnnTensorDescriptor_t dy_desc, const void *dy,
                                           cudnnConvolutionDescriptor_t conv, cudnnConvolutionBwdDataAlgo_t algo,
                                           void *workspace, size_t workspace_bytes, const void *beta,
                                           cudnnTensorDescriptor_t dx_desc, void *dx)
{
    Convolution c;
    cudnnStatus_t s = plan(&c, dx_desc, w_desc, conv, dy_desc);
    if (s != CUDNN_STATUS_SUCCESS) return s;
    return run_convolution("cudnnConvolutionBackwardData", h, c, INPUT_GRADIENT, (int)algo,
                           algo != CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, alpha, beta, dx, w, dy, workspace,
                           workspace_bytes);
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t h, const void *alpha, cudnnTensorDescriptor_t x_desc,
                                             const void *x, cudnnTensorDescriptor_t dy_desc, const void *dy,
                                             cudnnConvolutionDescriptor_t conv, cudnnConvolutionBwdFilterAlgo_t algo,
                                             void *workspace, size_t workspace_bytes, const void *beta,
                                             cudnnFilterDescriptor_t dw_desc, void *dw)
{
    Convolution c;
    cudnnStatus_t s = plan(&c, x_desc, dw_desc, conv, dy_desc);
    if (s != CUDNN_STATUS_SUCCESS) return s;
    return run_convolution("cudnnConvolutionBackwardFilter", h, c, FILTER_GRADIENT, (int)algo,
                           algo != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 && algo != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3,
                           alpha, beta, x, dw, dy, workspace, workspace_bytes);
}
} /* extern "C" */

/* ==== >>nccl ========================================================================================== */

namespace
{
enum Collective { ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER };
const char *const collective_names[] = {"ncclAllReduce", "ncclReduce", "ncclBroadcast", "ncclAllGather",
                                        "ncclReduceScatter"};
struct Clique;
/* One collective, from its first rank's call to its last one's. */
struct Gathering {
    Collective what;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
    int root;
    std::vector<const void *> send;
    std::vector<void *> recv;
    std::vector<bool> come;
    std::shared_ptr<tp_shim::Meeting> meeting;
};
struct Clique {
    int n = 0;
    std::vector<bool> joined;
    std::vector<size_t> turn; /* of each rank: how many collectives it has called */
    size_t finished = 0;      /* how many all have called */
    std::string path;         /* of files by which ranks in other processes meet; empty: all are in this one */
    bool lost = false;        /* somebody did not come */
    std::vector<std::shared_ptr<Gathering>> open;
};
/* Called by one thread at a time, as all of the shim's NCCL. */
std::map<std::string, std::shared_ptr<Clique>> &cliques = *new std::map<std::string, std::shared_ptr<Clique>>;
int group_depth, next_id;
std::vector<std::function<ncclResult_t()>> group; /* what it will do at its end, unless one of its calls has failed */
bool group_failed, in_group_end;

size_t nccl_size(ncclDataType_t t)
{
    switch (t) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    default: return 8;
    }
}
/* long double holds every element exactly */
FAST long double nccl_load(ncclDataType_t t, const void *p, size_t i)
{
    switch (t) {
    case ncclInt8: return ((const int8_t *)p)[i];
    case ncclUint8: return ((const uint8_t *)p)[i];
    case ncclInt32: return ((const int32_t *)p)[i];
    case ncclUint32: return ((const uint32_t *)p)[i];
    case ncclInt64: return (long double)((const int64_t *)p)[i];
    case ncclUint64: return (long double)((const uint64_t *)p)[i];
    case ncclFloat16: return (long double)load(F16, p, i);
    case ncclBfloat16: return (long double)load(BF16, p, i);
    case ncclFloat32: return (long double)load(F32, p, i);
    default: return (long double)load(F64, p, i);
    }
}
FAST void nccl_store(ncclDataType_t t, void *p, size_t i, long double v)
{
    switch (t) {
    case ncclInt8: ((int8_t *)p)[i] = (int8_t)(int64_t)v; break;
    case ncclUint8: ((uint8_t *)p)[i] = (uint8_t)(uint64_t)v; break;
    case ncclInt32: ((int32_t *)p)[i] = (int32_t)(int64_t)v; break;
    case ncclUint32: ((uint32_t *)p)[i] = (uint32_t)(uint64_t)v; break;
    case ncclInt64: ((int64_t *)p)[i] = (int64_t)v; break;
    case ncclUint64: ((uint64_t *)p)[i] = (uint64_t)v; break;
    case ncclFloat16: store(F16, p, i, (double)v); break;
    case ncclBfloat16: store(BF16, p, i, (double)v); break;
    case ncclFloat32: store(F32, p, i, (double)v); break;
    default: store(F64, p, i, (double)v);
    }
}

FAST void collect(const Gathering &g)
{
    size_t n = g.send.size(), total = g.what == ALL_GATHER || g.what == REDUCE_SCATTER ? g.count * n : g.count;
    std::vector<long double> v(total);
    for (size_t i = 0; i < total; i++) {
        if (g.what == BROADCAST) v[i] = nccl_load(g.type, g.send[(size_t)g.root], i);
        else if (g.what == ALL_GATHER) v[i] = nccl_load(g.type, g.send[i / g.count], i % g.count);
        else {
            long double s = nccl_load(g.type, g.send[0], i);
            for (size_t r = 1; r < n; r++) {
                long double x = nccl_load(g.type, g.send[r], i);
                if (g.op == ncclProd) s *= x;
                else if (g.op == ncclMax) s = x > s ? x : s;
                else if (g.op == ncclMin) s = x < s ? x : s;
                else s += x;
            }
            v[i] = g.op == ncclAvg ? s / (long double)n : s;
        }
    }
    for (size_t r = 0; r < n; r++) {
        if (g.what == REDUCE && (int)r != g.root) continue;
        size_t from = g.what == REDUCE_SCATTER ? r * g.count : 0;
        size_t many = g.what == REDUCE_SCATTER ? g.count : total;
        for (size_t i = 0; i < many; i++) nccl_store(g.type, g.recv[r], i, v[from + i]);
    }
}
} // namespace

/* Ranks in several processes, where $TP_SHIM_NCCL says in which folder: each writes what it sends into a file whose name has
 * the number of the collective and of the rank, and reads those of the others. Who does not come within seconds is dead: then
 * what was to be received is undefined, as after ncclCommAbort. A file goes when all have come one collective further. */
namespace
{
std::string part_of(const Clique &c, size_t turn, size_t rank)
{
    return c.path + "." + std::to_string(turn) + "." + std::to_string(rank);
}
bool part_put(const std::string &path, const void *data, size_t bytes)
{
    const std::string before = path + ".part";
    FILE *f = fopen(before.c_str(), "wb");
    bool ok = f && fwrite(data, 1, bytes, f) == bytes;
    if (f) ok = fclose(f) == 0 && ok;
    return ok && rename(before.c_str(), path.c_str()) == 0;
}
bool part_get(const std::string &path, void *data, size_t bytes)
{
    for (int i = 0; i < 6000; i++) {
        FILE *f = fopen(path.c_str(), "rb");
        if (f) {
            const bool ok = fread(data, 1, bytes, f) == bytes && fgetc(f) == EOF;
            fclose(f);
            if (!ok) tp_shim::fault("a rank sends another number of bytes than this one: %s", path.c_str());
            return true;
        }
        usleep(1000);
    }
    return false;
}
/* Number `turn` of the clique; g has this rank's addresses. */
void exchange(Clique &c, size_t turn, size_t rank, const Gathering &g, size_t sent, size_t received)
{
    std::vector<std::vector<char>> in((size_t)c.n, std::vector<char>(sent)),
        out((size_t)c.n, std::vector<char>(received));
    Gathering all = g;
    memcpy(in[rank].data(), g.send[rank], sent);
    bool come = !c.lost && part_put(part_of(c, turn, rank), in[rank].data(), sent);
    for (size_t r = 0; r < (size_t)c.n; r++) {
        if (r != rank) come = come && part_get(part_of(c, turn, r), in[r].data(), sent);
        all.send[r] = in[r].data();
        all.recv[r] = out[r].data();
    }
    if (turn > 0) remove(part_of(c, turn - 1, rank).c_str());
    c.lost = !come;
    if (come) collect(all);
    if (come) memcpy(g.recv[rank], out[rank].data(), received);
    else tp_shim::scribble(g.recv[rank], received);
}
} // namespace

struct tp_shim_comm {
    std::shared_ptr<Clique> clique;
    int rank = 0, device = 0;
};

namespace
{
ncclResult_t launch(Collective what, const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                    int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t collective(Collective what, const void *send, void *recv, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
    if (injected(collective_names[what])) {
        group_failed = true;
        return ncclUnhandledCudaError;
    }
    if (!group_depth) return launch(what, send, recv, count, type, op, root, comm, stream);
    group.push_back([=] { return launch(what, send, recv, count, type, op, root, comm, stream); });
    return ncclSuccess;
}
ncclResult_t launch(Collective what, const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                    int root, ncclComm_t comm, cudaStream_t stream)
{
    const char *name = collective_names[what];
    if (!comm || root < 0 || root >= comm->clique->n) {
        say("%s: no communicator, or a root outside it", name);
        return ncclInvalidArgument;
    }
    if (!tp_shim::stream_ok(stream)) return ncclInvalidArgument;
    Clique &c = *comm->clique;
    if (c.n > 1 && !in_group_end && c.path.empty())
        tp_shim::fault("%s among %d ranks outside ncclGroupStart and ncclGroupEnd: the first would wait for ever", name,
                       c.n);
    size_t n = (size_t)c.n, rank = (size_t)comm->rank, bytes = count * nccl_size(type);
    bool sends = what != BROADCAST || comm->rank == root, receives = what != REDUCE || comm->rank == root;
    std::string words = name;
    if (sends) check_device(send, what == REDUCE_SCATTER ? bytes * n : bytes, (words + ", send").c_str());
    if (receives) check_device(recv, what == ALL_GATHER ? bytes * n : bytes, (words + ", receive").c_str());
    if (!c.path.empty()) {
        auto g = std::make_shared<Gathering>();
        g->what = what, g->count = count, g->type = type, g->op = op, g->root = root;
        g->send.resize(n), g->recv.resize(n);
        g->send[rank] = send, g->recv[rank] = recv;
        const size_t turn = c.turn[rank]++, received = what == ALL_GATHER ? bytes * n : bytes;
        const cudaError_t e =
            tp_shim::queue(stream, name, [g, clique = comm->clique, turn, rank, bytes, received, n, what] {
                exchange(*clique, turn, rank, *g, what == REDUCE_SCATTER ? bytes * n : bytes, received);
            });
        return e == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
    }
    size_t turn = c.turn[rank]++ - c.finished;
    if (turn == c.open.size()) {
        auto g = std::make_shared<Gathering>();
        g->what = what, g->count = count, g->type = type, g->op = op, g->root = root;
        g->send.resize(n), g->recv.resize(n), g->come.resize(n);
        g->meeting = tp_shim::meeting(c.n, name, [p = g.get()] { collect(*p); });
        c.open.push_back(g);
    }
    std::shared_ptr<Gathering> g = c.open[turn];
    if (g->what != what || g->count != count || g->type != type || g->op != op || g->root != root)
        tp_shim::fault("rank %zu calls %s of %zu elements where another called %s of %zu, or their types differ", rank,
                       name, count, collective_names[g->what], g->count);
    g->send[rank] = send;
    g->recv[rank] = recv;
    g->come[rank] = true;
    cudaError_t e = n == 1 ? tp_shim::queue(stream, name, [g] { collect(*g); }) : tp_shim::join(g->meeting, stream);
    if (std::find(g->come.begin(), g->come.end(), false) == g->come.end()) {
        /* NCCL gives GPUs access to memory of cudaMalloc, not to that of pools, and may read and write buffers in place */
        for (size_t i = 0; i < n * n; i++) {
            if (g->send[i / n]) tp_shim::check_reach(g->send[i / n], g->recv[i % n], name);
            if (g->recv[i / n]) tp_shim::check_reach(g->recv[i / n], g->recv[i % n], name);
        }
        /* the queue, or the graph, keeps it */
        if (n > 1) e = e == cudaSuccess ? tp_shim::queue(stream, name, [g] {}) : e;
        c.open.erase(c.open.begin());
        c.finished++;
    }
    return e == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
} // namespace

extern "C" {
ncclResult_t ncclGetVersion(int *version)
{
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    if (injected("ncclGetUniqueId")) return ncclSystemError;
    memset(id, 0, sizeof *id);
    const char *folder = getenv("TP_SHIM_NCCL");
    if (folder) snprintf(id->internal, sizeof id->internal, "%s/%ld-%d", folder, (long)getpid(), ++next_id);
    else snprintf(id->internal, sizeof id->internal, "shim %d", ++next_id);
    return ncclSuccess;
}
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
    *comm = nullptr;
    if (injected("ncclCommInitRank")) return ncclSystemError;
    if (ranks < 1 || rank < 0 || rank >= ranks) return ncclInvalidArgument;
    auto &c = cliques[std::string(id.internal, sizeof id.internal)];
    if (!c) {
        c = std::make_shared<Clique>();
        c->n = ranks;
        c->joined.resize((size_t)ranks);
        c->turn.resize((size_t)ranks);
    }
    if (c->n != ranks || c->joined[(size_t)rank]) {
        say("ncclCommInitRank: rank %d of %d is there already, or another number of ranks was said", rank, ranks);
        return ncclInvalidUsage;
    }
    c->joined[(size_t)rank] = true;
    if (id.internal[0] == '/' && c->path.empty()) { /* they meet */
        char byte = 0;
        c->path = id.internal;
        bool come = part_put(c->path + ".join." + std::to_string(rank), &byte, 1);
        for (int r = 0; r < ranks; r++) come = come && part_get(c->path + ".join." + std::to_string(r), &byte, 1);
        if (!come) return ncclSystemError;
    }
    make<tp_shim_comm>(comm, "NCCL communicator");
    (*comm)->clique = c;
    (*comm)->rank = rank;
    (*comm)->device = tp_shim::current_device();
    return ncclSuccess;
}
ncclResult_t ncclCommInitAll(ncclComm_t *comm, int n, const int *devices)
{
    ncclUniqueId id;
    ncclResult_t r = ncclGetUniqueId(&id);
    for (int i = 0; i < n; i++) comm[i] = nullptr;
    for (int i = 0; i < n && r == ncclSuccess; i++) {
        r = ncclCommInitRank(&comm[i], n, id, i);
        if (r == ncclSuccess) comm[i]->device = devices ? devices[i] : i;
    }
    for (int i = 0; i < n && r != ncclSuccess; i++) {
        ncclCommDestroy(comm[i]);
        comm[i] = nullptr;
    }
    return r;
}
ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    unmake(comm, "NCCL communicator");
    return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) { return ncclCommDestroy(comm); }
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t *error)
{
    *error = ncclSuccess;
    return ncclSuccess;
}
ncclResult_t ncclCommCount(ncclComm_t comm, int *count)
{
    *count = comm->clique->n;
    return ncclSuccess;
}
ncclResult_t ncclCommUserRank(ncclComm_t comm, int *rank)
{
    *rank = comm->rank;
    return ncclSuccess;
}
ncclResult_t ncclCommCuDevice(ncclComm_t comm, int *device)
{
    *device = comm->device;
    return ncclSuccess;
}
const char *ncclGetErrorString(ncclResult_t r)
{
    switch (r) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "operation in progress";
    }
    return "unknown result code";
}
const char *ncclGetLastError(ncclComm_t) { return tp_shim_sentence(); }
ncclResult_t ncclGroupStart(void)
{
    if (!group_depth++) group_failed = false;
    return ncclSuccess;
}
ncclResult_t ncclGroupEnd(void)
{
    if (group_depth < 1) return ncclInvalidUsage;
    if (--group_depth) return ncclSuccess;
    std::vector<std::function<ncclResult_t()>> all;
    all.swap(group);
    if (group_failed) return ncclInvalidUsage; /* none of it is done */
    ncclResult_t r = ncclSuccess;
    in_group_end = true;
    for (auto &one : all)
        if (r == ncclSuccess) r = one();
    in_group_end = false;
    return r;
}
ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream)
{
    return collective(ALL_REDUCE, send, recv, count, type, op, 0, comm, stream);
}
ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream)
{
    return collective(REDUCE, send, recv, count, type, op, root, comm, stream);
}
ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream)
{
    return collective(BROADCAST, send, recv, count, type, ncclSum, root, comm, stream);
}
ncclResult_t ncclAllGather(const void *send, void *recv, size_t send_count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream)
{
    return collective(ALL_GATHER, send, recv, send_count, type, ncclSum, 0, comm, stream);
}
ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t recv_count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream)
{
    return collective(REDUCE_SCATTER, send, recv, recv_count, type, op, 0, comm, stream);
}
} /* extern "C" */
