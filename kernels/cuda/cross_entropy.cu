// cross_entropy.cu -- softmax cross entropy over a vocabulary and its gradient, in place.
// Contract: kernels/ops/cross_entropy.h
//
// WHAT    One row of logits at a time. Sweep 1, forward through the row: largest logit and sum of
//         exponentials together. Sweep 2, backward: logits become the gradient.
//
// MATH    A thread keeps m, the largest logit it has seen, and s = sum exp(x - m). When a larger
//         one comes, s takes a factor exp(m_old - m_new). At the end the threads' m and s are
//         joined the same way. exp(x) is exp2(x log2(e)), one instruction of the special function
//         unit.
//         hit is a kernel of its own, which evaluation alone starts: training has none of it.
//         Before the gradient takes the logits' place a thread looks for a column of its own that
//         is larger than the target's, or as large and before it. The loss needs no such order.
//
// TILING  groups (grid.cuh): up to 512 threads a row, at least 4 units of 8 columns each.
//
//             columns  0 ............................................ V ... Vp
//             sweep 1  |------------------------------------------------>  0: padding
//             sweep 2  <------------------------------------------------|
//
//         Sweep 2 begins where sweep 1 ended, so that L1 still holds the last columns; the rest
//         comes from L2: a row of 50,304 in bf16 has 98 KB, and the rows in work at one time fit.
//
// COST    memory reads and writes each logit once: 4 bytes an element in bf16; L2 gives it twice.
//         hit reads them once more.
// RULES   Every column belongs to one thread in both sweeps, the target's, too: nobody
//         reads what another one wrote.
//         A row's bits depend on V alone. What columns V .. Vp-1 hold is not used.
// SHAPES  any N, V, Vp and alignment; vectors when Vp is a multiple of 8.
// REGISTERS (sm_90, no spills)  58, 59 unaligned: two blocks of 512 threads a processor;
//         hit 30, 31 unaligned
//
// SPDX-License-Identifier: MIT
#include "engine/base/token.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/types.cuh"

namespace
{

enum { W = GRID_VECTOR, UNITS = 4, BATCH = 2, GROUP_MAX = 512 };

constexpr float LOG2_E = 1.4426950408889634f;

__device__ __forceinline__ float exp_of(float x)
{
    return exp2f(x * LOG2_E);
}

struct Softmax {
    float top, sum; // of the columns seen: the largest, and sum exp(x - top)
};

__device__ __forceinline__ void add_unit(Softmax &s, const float (&x)[W], int64_t valid)
{
    float top = s.top;
#pragma unroll
    for (int k = 0; k < W; k++)
        if (k < valid) top = fmaxf(top, x[k]);
    if (top > s.top) {
        s.sum *= exp_of(s.top - top); // 0 when nothing was seen
        s.top = top;
    }
    const float base = s.top == -INFINITY ? 0 : s.top; // exp(-inf - 0) = 0
#pragma unroll
    for (int k = 0; k < W; k++)
        if (k < valid) s.sum += exp_of(x[k] - base);
}

// Sweep 1: the columns of this thread.
template <bool ALIGNED>
__device__ __forceinline__ Softmax softmax_of(const CrossEntropyArgs &a, int64_t row)
{
    const int64_t step = blockDim.x * W;
    Softmax s = {-INFINITY, 0};
    for (int64_t c0 = threadIdx.x * W; c0 < a.V; c0 += BATCH * step) {
        Raw<W> raw[BATCH];
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            const int64_t c = c0 + b * step, left = ALIGNED ? W : a.V - c;
            if (c < a.V) raw[b] = load_raw<W>(a.logits, a.dtype, row + c, left, ALIGNED);
        }
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            const int64_t c = c0 + b * step;
            float x[W];
            if (c >= a.V) break;
            unpack(x, raw[b], a.dtype);
            add_unit(s, x, a.V - c);
        }
    }
    return s;
}

// Sweep 2, last column first. counted: not a row of zeros.
template <bool ALIGNED>
__device__ __forceinline__ void write_gradient(const CrossEntropyArgs &a, int64_t row,
                                               int64_t target, bool counted, Softmax s)
{
    constexpr int AT_ONCE = ALIGNED ? BATCH : 1; // the registers of two would not suffice
    const int64_t step = blockDim.x * W, begin = threadIdx.x * W;
    const float scale = 1.0f / s.sum, grad_scale = a.grad_scale * (a.scale ? *a.scale : 1.0f);
    if (begin >= a.Vp) return;
    for (int64_t c0 = begin + (a.Vp - 1 - begin) / step * step; c0 >= begin; c0 -= AT_ONCE * step) {
        Raw<W> raw[AT_ONCE] = {};
#pragma unroll
        for (int b = 0; b < AT_ONCE; b++) {
            const int64_t c = c0 - b * step, left = ALIGNED ? W : a.V - c;
            if (counted && c >= begin && c < a.V)
                raw[b] = load_raw<W>(a.logits, a.dtype, row + c, left, ALIGNED);
        }
#pragma unroll
        for (int b = 0; b < AT_ONCE; b++) {
            const int64_t c = c0 - b * step;
            float x[W];
            if (c < begin) break;
            unpack(x, raw[b], a.dtype);
#pragma unroll
            for (int k = 0; k < W; k++) {
                const float p = exp_of(x[k] - s.top) * scale;
                const float d = (c + k == target ? p - 1.0f : p) * grad_scale;
                x[k] = counted && c + k < a.V ? d : 0.0f;
            }
            store(a.logits, a.dtype, row + c, ALIGNED ? W : a.Vp - c, ALIGNED, x);
        }
    }
}

// Is the target's logit, xt, the first of the largest as far as this thread's columns go? A NaN
// compares with nothing.
template <bool ALIGNED>
__device__ __forceinline__ bool none_before(const CrossEntropyArgs &a, int64_t row, int64_t target,
                                            float xt)
{
    bool none = isfinite(xt);
    for (int64_t c = threadIdx.x * W; c < a.V; c += blockDim.x * W) {
        float x[W];
        load(x, a.logits, a.dtype, row + c, ALIGNED ? W : a.V - c, ALIGNED);
#pragma unroll
        for (int k = 0; k < W; k++)
            if (c + k < a.V) none &= c + k < target ? x[k] < xt : x[k] <= xt;
    }
    return none;
}

template <bool ALIGNED> __global__ void __launch_bounds__(GROUP_MAX) hit_kernel(CrossEntropyArgs a)
{
    __shared__ GroupScratch<float> scratch;
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.y;
    for (int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.y; first < a.N;
         first += step) {
        const int64_t n = first + threadIdx.y, row = n * a.Vp;
        const int64_t target = n < a.N ? a.target[n] : TOKEN_IGNORE;
        float miss = 1;
        if (target != TOKEN_IGNORE) {
            const float xt = load_one(a.logits, a.dtype, row + target);
            miss = none_before<ALIGNED>(a, row, target, xt) ? 0.0f : 1.0f;
        }
        miss = group_max(miss, scratch);
        if (n < a.N && threadIdx.x == 0) a.hit[n] = 1 - miss;
    }
}

template <bool ALIGNED>
__global__ void __launch_bounds__(GROUP_MAX) cross_entropy_kernel(CrossEntropyArgs a)
{
    __shared__ GroupScratch<float> scratch[1];
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.y;
    for (int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.y; first < a.N;
         first += step) {
        const int64_t n = first + threadIdx.y, row = n * a.Vp;
        const int64_t target = n < a.N ? a.target[n] : TOKEN_IGNORE;
        const bool counted = target != TOKEN_IGNORE;
        Softmax s = {-INFINITY, 0};
        if (counted) s = softmax_of<ALIGNED>(a, row);
        const float top = group_max(s.top, scratch[0]);
        float sum[1] = {s.top > -INFINITY ? s.sum * exp_of(s.top - top) : s.sum};
        group_sum(sum, scratch);
        if (n >= a.N) continue;
        if (!counted && threadIdx.x == 0) a.loss[n] = 0;
        if (counted && target / W % blockDim.x == threadIdx.x) // this thread's column
            a.loss[n] = logf(sum[0]) + top - load_one(a.logits, a.dtype, row + target);
        if (a.want_grad) write_gradient<ALIGNED>(a, row, target, counted, {top, sum[0]});
    }
}

} // namespace

bool cuda_cross_entropy_supports(const CudaDevice *, const CrossEntropyArgs *, const char **)
{
    return true;
}

size_t cuda_cross_entropy_scratch(const CudaDevice *, const CrossEntropyArgs *)
{
    return 0;
}

int cuda_cross_entropy(const CudaDevice *d, const CrossEntropyArgs *a, void *)
{
    const dim3 block = group_block(a->V, UNITS, GROUP_MAX);
    const LaunchShape shape = {.grid = dim3(grid_blocks(a->N, block.y, INT32_MAX)), .block = block};
    const bool aligned = a->Vp % W == 0 && is_aligned(a->logits);
    if (a->hit) {
        const int e = launch(shape, d->stream, aligned ? hit_kernel<true> : hit_kernel<false>, *a);
        if (e != cudaSuccess) return e;
    }
    return launch(shape, d->stream,
                  aligned ? cross_entropy_kernel<true> : cross_entropy_kernel<false>, *a);
}
