// lamb.cu -- LAMB: moments and directions, lengths of tensors, the step.
// Contract: kernels/ops/lamb.h
//
// WHAT    Three kernels. How far a tensor moves depends on the lengths of all of w and all of u, so
//         u is kept, in place of the gradient, and the lengths never leave the GPU:
//
//             lamb_direction   a block a chunk     grad -> m, v -> u     part[chunk] = |w|^2, |u|^2
//             lamb_ratio       a block a tensor    its parts             -> ratio[tensor]
//             lamb_step        a block a chunk     w - lr * ratio * u    -> w -> param
//
//         All tensors in one launch: a block finds its chunk's tensor by bisection in the table of
//         segments, ten steps in a table that is in the cache.
//
// MATH    As adamw.cu: rates and 1 - beta in double, then floats. Squares and their sums in double.
// COST    28 bytes an element, then 12, and the copy. A square root and two divisions, exact; two
//         conversions to double and two FMAs in double, a tenth of what a data-centre GPU does
//         beside its memory.
// RULES   Which thread adds what depends on the segments alone: same bits on every GPU.
// SHAPES  any segments, any alignment; vectors of 16 bytes when pointers and the segment's first
//         element are aligned.
// REGISTERS (sm_90, no spills)  54, 32, 32
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/types.cuh"

namespace
{

enum { W = 4, TILE = GRID_THREADS * W };

struct Constants {
    float b1, c1, b2, c2; // betas and 1 - betas
    float decay, eps;
};

struct Squares { // |w|^2 and |u|^2
    double w, u;
};

struct Scratch {
    Squares *part; // [n_chunk]
    float *ratio;  // [n_segment]
};

struct Chunk {
    int64_t segment, from, to;
    bool decayed, aligned;
};

// The last segment that begins with chunk c or before has it: empty ones begin where the next does.
__device__ Chunk find_chunk(const LambArgs &a, int64_t c, bool aligned)
{
    int64_t lo = 0, hi = a.n_segment;
    while (hi - lo > 1) {
        const int64_t mid = lo + (hi - lo) / 2;
        if (a.segment[mid].chunk <= c)
            lo = mid;
        else
            hi = mid;
    }
    const LambSegment s = a.segment[lo];
    const int64_t at = (c - s.chunk) * LAMB_CHUNK, end = at + LAMB_CHUNK;
    return {lo, s.from + at, s.from + (end < s.n ? end : s.n), s.decayed != 0,
            aligned && s.from % W == 0};
}

__global__ void __launch_bounds__(GRID_THREADS)
    lamb_direction_kernel(LambArgs a, Constants k, Squares *part, bool aligned)
{
    __shared__ GroupScratch<double> s[2];
    if (a.gate->skip) return;
    const float scale = a.gate->grad_scale;
    const float fix1 = static_cast<float>(1 / a.gate->rates.correct1);
    const float fix2 = static_cast<float>(1 / a.gate->rates.correct2);
    for (int64_t c = blockIdx.x; c < a.n_chunk; c += gridDim.x) {
        const Chunk at = find_chunk(a, c, aligned);
        const float decay = at.decayed ? k.decay : 0;
        double sum[2] = {0, 0};
        for (int64_t i = at.from + threadIdx.x * W; i < at.to; i += TILE) {
            const int64_t left = at.to - i;
            float g[W], m[W], v[W], w[W];
            load(g, a.grad, DTYPE_F32, i, left, at.aligned);
            load(m, a.m, DTYPE_F32, i, left, at.aligned);
            load(v, a.v, DTYPE_F32, i, left, at.aligned);
            load(w, a.w, DTYPE_F32, i, left, at.aligned);
#pragma unroll
            for (int j = 0; j < W; j++) {
                g[j] *= scale;
                m[j] = k.b1 * m[j] + k.c1 * g[j];
                v[j] = k.b2 * v[j] + k.c2 * g[j] * g[j];
                const float u = fix1 * m[j] / (sqrtf(v[j] * fix2) + k.eps) + decay * w[j];
                const double dw = static_cast<double>(w[j]), du = static_cast<double>(u);
                sum[0] = fma(dw, dw, sum[0]); // what lies behind the end is 0
                sum[1] = fma(du, du, sum[1]);
                g[j] = u;
            }
            store(a.m, DTYPE_F32, i, left, at.aligned, m);
            store(a.v, DTYPE_F32, i, left, at.aligned, v);
            store(a.grad, DTYPE_F32, i, left, at.aligned, g);
        }
        group_sum(sum, s);
        if (threadIdx.x == 0) part[c] = {sum[0], sum[1]};
    }
}

__global__ void __launch_bounds__(GRID_THREADS) lamb_ratio_kernel(LambArgs a, Scratch x)
{
    __shared__ GroupScratch<double> s[2];
    if (a.gate->skip) return;
    for (int64_t i = blockIdx.x; i < a.n_segment; i += gridDim.x) {
        const LambSegment t = a.segment[i];
        double sum[2] = {0, 0};
        for (int64_t c = threadIdx.x; c < t.chunks; c += GRID_THREADS) {
            sum[0] += x.part[t.chunk + c].w;
            sum[1] += x.part[t.chunk + c].u;
        }
        group_sum(sum, s);
        const bool trusted = t.decayed && sum[0] > 0 && sum[1] > 0;
        if (threadIdx.x == 0)
            x.ratio[i] = trusted ? static_cast<float>(sqrt(sum[0]) / sqrt(sum[1])) : 1.0f;
    }
}

__global__ void __launch_bounds__(GRID_THREADS)
    lamb_step_kernel(LambArgs a, const float *ratio, bool aligned)
{
    if (a.gate->skip) return;
    const double lr = a.gate->rates.lr;
    for (int64_t c = blockIdx.x; c < a.n_chunk; c += gridDim.x) {
        const Chunk at = find_chunk(a, c, aligned);
        const float rate = static_cast<float>(lr * static_cast<double>(ratio[at.segment]));
        for (int64_t i = at.from + threadIdx.x * W; i < at.to; i += TILE) {
            const int64_t left = at.to - i;
            float u[W], w[W];
            load(u, a.grad, DTYPE_F32, i, left, at.aligned);
            load(w, a.w, DTYPE_F32, i, left, at.aligned);
#pragma unroll
            for (int j = 0; j < W; j++) w[j] -= rate * u[j];
            store(a.w, DTYPE_F32, i, left, at.aligned, w);
            if (a.param) store(a.param, a.param_dtype, i, left, at.aligned, w);
        }
    }
}

} // namespace

bool cuda_lamb_supports(const CudaDevice *, const LambArgs *, const char **)
{
    return true;
}

size_t cuda_lamb_scratch(const CudaDevice *, const LambArgs *a)
{
    return static_cast<size_t>(a->n_chunk) * sizeof(Squares) +
           static_cast<size_t>(a->n_segment) * sizeof(float);
}

int cuda_lamb(const CudaDevice *d, const LambArgs *a, void *scratch)
{
    Constants k = {};
    k.b1 = static_cast<float>(a->beta1);
    k.c1 = static_cast<float>(1 - a->beta1);
    k.b2 = static_cast<float>(a->beta2);
    k.c2 = static_cast<float>(1 - a->beta2);
    k.decay = static_cast<float>(a->weight_decay);
    k.eps = static_cast<float>(a->eps);
    Scratch x = {};
    x.part = static_cast<Squares *>(scratch);
    x.ratio = reinterpret_cast<float *>(x.part + a->n_chunk);
    const bool aligned = is_aligned(a->w) && is_aligned(a->m) && is_aligned(a->v) &&
                         is_aligned(a->grad) && is_aligned(a->param);
    const dim3 chunks(grid_blocks(a->n_chunk, 1, INT32_MAX)), block(GRID_THREADS);
    const dim3 segments(grid_blocks(a->n_segment, 1, INT32_MAX));
    cudaError_t e = launch({.grid = chunks, .block = block}, d->stream, lamb_direction_kernel, *a,
                           k, x.part, aligned);
    if (e == cudaSuccess)
        e = launch({.grid = segments, .block = block}, d->stream, lamb_ratio_kernel, *a, x);
    if (e == cudaSuccess)
        e = launch({.grid = chunks, .block = block}, d->stream, lamb_step_kernel, *a, x.ratio,
                   aligned);
    return e;
}
