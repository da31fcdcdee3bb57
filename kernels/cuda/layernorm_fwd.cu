// layernorm_fwd.cu -- residual add with dropout, then layer normalisation, in one pass.
// Contract: kernels/ops/layernorm_fwd.h
//
// WHAT    r = x + drop(add), rounded as it is stored; mean and variance of r; the normalised row.
// MATH    The variance is taken around the mean, from r in registers: no cancellation.
//
// TILING  groups (grid.cuh): a row belongs to one warp up to 1,024 columns, to more warps beyond.
//         A thread keeps 4 units of 8 columns in registers through all three sweeps:
//
//             x, add -> [+] -> r -> resid_out          sweep 1, sum
//                             (r - mean)^2             sweep 2, sum
//                             (r - mean) rstd w + b    sweep 3 -> out
//
//         512 threads hold 16,384 columns, a panel. A longer row has several, and sweeps 2 and 3
//         read resid_out (or x) again, from L2 as a rule.
//
// COST    reads 1-2 and writes 1-2 times N C elements: 8 bytes an element with everything in bf16.
//         weight and bias come from L1. With dropout about 350 instructions for 8 elements, where
//         132 processors at 3.35 TB/s issue 540 while memory moves them.
// RULES   A row's bits depend on C alone. resid_out may be x.
// SHAPES  any C and alignment; vectors when C is a multiple of 8.
// REGISTERS (sm_90, no spills)  118: two blocks of 256 threads a processor
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rng.cuh"
#include "kernels/cuda/types.cuh"

namespace
{

enum { W = GRID_VECTOR, UNITS = 4, GROUP_MAX = 512 };

// First column of unit k of this thread in a panel.
__device__ __forceinline__ int64_t column_of(int64_t panel, int k)
{
    return ((panel * UNITS + k) * blockDim.x + threadIdx.x) * W;
}

// Sweep 1: r of row n in v, and in resid_out. C = 0: there is no row.
template <bool ALIGNED>
__device__ __forceinline__ void residual(float (&v)[UNITS][W], const LayernormFwdArgs &a,
                                         const Dropout &drop, const DropKey &key, uint32_t rng_row,
                                         int64_t n, int64_t C, int64_t panel)
{
    Raw<W> x[UNITS] = {}, add[UNITS] = {};
#pragma unroll
    for (int k = 0; k < UNITS; k++) {
        const int64_t c = column_of(panel, k), left = ALIGNED ? W : C - c;
        if (c >= C) continue;
        x[k] = load_raw<W>(a.x, a.x_dtype, n * C + c, left, ALIGNED);
        if (a.add) add[k] = load_raw<W>(a.add, a.add_dtype, n * C + c, left, ALIGNED);
    }
#pragma unroll
    for (int k = 0; k < UNITS; k++) {
        const int64_t c = column_of(panel, k), left = ALIGNED ? W : C - c;
        unpack(v[k], x[k], a.x_dtype);
        if (c >= C || !a.resid_out) continue;
        if (a.add) {
            float y[W];
            unpack(y, add[k], a.add_dtype);
            if (drop.on) drop_vector(y, drop, key, rng_row, c);
#pragma unroll
            for (int i = 0; i < W; i++) v[k][i] += y[i];
        }
        const Raw<W> r = pack(v[k], a.x_dtype);
        store_raw(a.resid_out, a.x_dtype, n * C + c, left, ALIGNED, r);
        unpack(v[k], r, a.x_dtype);
    }
}

// Sweeps 2 and 3 of a row with several panels.
template <bool ALIGNED>
__device__ __forceinline__ void load_again(float (&v)[UNITS][W], const LayernormFwdArgs &a,
                                           int64_t n, int64_t C, int64_t panel)
{
    const void *r = a.resid_out ? a.resid_out : a.x;
#pragma unroll
    for (int k = 0; k < UNITS; k++) {
        const int64_t c = column_of(panel, k);
        if (c < C) load(v[k], r, a.x_dtype, n * C + c, ALIGNED ? W : C - c, ALIGNED);
    }
}

template <bool ALIGNED>
__device__ __forceinline__ void normalise(const float (&v)[UNITS][W], const LayernormFwdArgs &a,
                                          float mean, float rstd, int64_t n, int64_t C,
                                          int64_t panel)
{
#pragma unroll
    for (int k = 0; k < UNITS; k++) {
        const int64_t c = column_of(panel, k), left = ALIGNED ? W : C - c;
        if (c >= C) continue;
        float w[W], b[W] = {}, y[W];
        load(w, a.weight, a.w_dtype, c, left, ALIGNED);
        if (a.bias) load(b, a.bias, a.w_dtype, c, left, ALIGNED);
#pragma unroll
        for (int i = 0; i < W; i++) y[i] = (v[k][i] - mean) * rstd * w[i] + b[i];
        store(a.out, a.out_dtype, n * C + c, left, ALIGNED, y);
    }
}

template <bool ALIGNED>
__global__ void __launch_bounds__(GROUP_MAX) layernorm_fwd_kernel(LayernormFwdArgs a, Dropout drop)
{
    __shared__ GroupScratch<float> scratch[1];
    const int64_t width = static_cast<int64_t>(blockDim.x) * UNITS * W;
    const int64_t panels = (a.C + width - 1) / width;
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.y;
    for (int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.y; first < a.N;
         first += step) {
        const int64_t n = first + threadIdx.y;
        const int64_t C = n < a.N ? a.C : 0; // a group without a row goes through the barriers
        DropKey key = {};
        uint32_t rng_row = 0;
        if (drop.on && C > 0) {
            const int64_t b = n / a.T;
            key = drop_key(drop, b, 0);
            rng_row = static_cast<uint32_t>(a.row0 + (n - b * a.T));
        }
        float v[UNITS][W], sum[1] = {0}, squares[1] = {0};
        for (int64_t p = 0; p < panels; p++) {
            residual<ALIGNED>(v, a, drop, key, rng_row, n, C, p);
#pragma unroll
            for (int k = 0; k < UNITS; k++)
#pragma unroll
                for (int i = 0; i < W; i++) sum[0] += v[k][i]; // 0 behind the row
        }
        group_sum(sum, scratch);
        const float mean = sum[0] / static_cast<float>(a.C);
        for (int64_t p = 0; p < panels; p++) {
            if (panels > 1) load_again<ALIGNED>(v, a, n, C, p);
#pragma unroll
            for (int k = 0; k < UNITS; k++) {
                const int64_t c = column_of(p, k);
#pragma unroll
                for (int i = 0; i < W; i++) {
                    const float x = v[k][i] - mean;
                    if (ALIGNED ? c < C : c + i < C) squares[0] += x * x;
                }
            }
        }
        group_sum(squares, scratch);
        const float rstd = 1.0f / sqrtf(squares[0] / static_cast<float>(a.C) + a.eps);
        for (int64_t p = 0; p < panels; p++) {
            if (panels > 1) load_again<ALIGNED>(v, a, n, C, p);
            normalise<ALIGNED>(v, a, mean, rstd, n, C, p);
        }
        if (threadIdx.x == 0 && C > 0) {
            if (a.mean) a.mean[n] = mean;
            if (a.rstd) a.rstd[n] = rstd;
        }
    }
}

} // namespace

bool cuda_layernorm_fwd_supports(const CudaDevice *, const LayernormFwdArgs *a, const char **why)
{
    *why = "does not write FP8";
    return !a->q.scale;
}

size_t cuda_layernorm_fwd_scratch(const CudaDevice *, const LayernormFwdArgs *)
{
    return 0;
}

int cuda_layernorm_fwd(const CudaDevice *d, const LayernormFwdArgs *a, void *)
{
    const dim3 block = group_block(a->C, UNITS, GROUP_MAX);
    const bool aligned = a->C % W == 0 && is_aligned(a->out) && is_aligned(a->resid_out) &&
                         is_aligned(a->x) && is_aligned(a->add) && is_aligned(a->weight) &&
                         is_aligned(a->bias);
    Dropout drop = {};
    if (a->add) drop = dropout_of(a->drop);
    return launch({.grid = dim3(grid_blocks(a->N, block.y, INT32_MAX)), .block = block}, d->stream,
                  aligned ? layernorm_fwd_kernel<true> : layernorm_fwd_kernel<false>, *a, drop);
}
