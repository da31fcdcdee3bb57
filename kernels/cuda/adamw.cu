// adamw.cu -- AdamW over a flat range of parameters.
// Contract: kernels/ops/adamw.h
//
// WHAT    m and v are updated, and w from them while they are in registers; the copy that the model
//         reads is w, rounded. A thread takes 4 elements: 16 bytes of each f32 vector.
//
//             grad -> [g] --+--> m --+
//                           +--> v --+--> w --> param
//                                           --> q, q^T      with q: w is a matrix
//
// FP8     With q a block has a tile of 128 x 64 of the matrix (fp8_tile.cuh), a thread 4 rows of 8
//         columns, row after row: 32 bytes of each f32 vector. q leaves from the registers, q^T
//         through shared memory.
// MATH    Rates and 1 - beta are made in double, then floats: on the host, or with a gate, in which
//         the learning rate and bias corrections are, by every thread for its 4 elements;
//         the step is subtracted from w in one operation, so that a small decay is not lost. What
//         is fused into one operation is written out: both kernels give the same bits.
// COST    28 bytes an element, 30 with a copy of 16 bits, 32 with FP8 in both layouts, where a pass
//         of fp8_quantize would take 4 instead of these 2. A square root and a division, exact.
// RULES   No state but the vectors'. The caller has looked at the gradients' norm.
// SHAPES  any n, any alignment; vectors of 16 bytes when all are aligned.
// REGISTERS (sm_90, no spills)  40: six blocks a processor; 76 with FP8, three
//
// SPDX-License-Identifier: MIT
#include <cmath>
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/fp8_tile.cuh"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/types.cuh"

namespace
{

enum { W = 4 };

struct Rates {
    float b1, c1, b2, c2; // betas and 1 - betas
    float fix1, fix2;     // lr / (1 - beta1^t),  1 / (1 - beta2^t)
    float decay, eps;     // lr * weight_decay
    float grad_scale;
};

__host__ __device__ void set_step(Rates &r, double lr, double correct1, double correct2,
                                  double weight_decay)
{
    r.fix1 = static_cast<float>(lr / correct1);
    r.fix2 = static_cast<float>(1 / correct2);
    r.decay = static_cast<float>(lr * weight_decay);
}

// What the gate says. false: the step is skipped.
__device__ __forceinline__ bool pass_gate(const AdamwArgs &a, Rates &r)
{
    if (!a.gate) return true;
    const StepRates s = a.gate->rates;
    if (a.gate->skip) return false;
    set_step(r, s.lr, s.correct1, s.correct2, a.weight_decay);
    r.grad_scale = a.gate->grad_scale;
    return true;
}

// N elements from element i on, of which `left` are there. Returns w.
template <int N>
__device__ __forceinline__ void update(float (&w)[N], const AdamwArgs &a, const Rates &r, int64_t i,
                                       int64_t left, bool aligned)
{
    float g[N], m[N], v[N];
    load(g, a.grad, DTYPE_F32, i, left, aligned);
    load(m, a.m, DTYPE_F32, i, left, aligned);
    load(v, a.v, DTYPE_F32, i, left, aligned);
    load(w, a.w, DTYPE_F32, i, left, aligned);
#pragma unroll
    for (int k = 0; k < N; k++) {
        g[k] *= r.grad_scale;
        m[k] = fmaf(r.b1, m[k], r.c1 * g[k]);
        v[k] = fmaf(r.b2, v[k], r.c2 * g[k] * g[k]);
        w[k] -= fmaf(r.decay, w[k], r.fix1 * m[k] / (sqrtf(v[k] * r.fix2) + r.eps));
    }
    store(a.m, DTYPE_F32, i, left, aligned, m);
    store(a.v, DTYPE_F32, i, left, aligned, v);
    store(a.w, DTYPE_F32, i, left, aligned, w);
}

__global__ void __launch_bounds__(GRID_THREADS, 6) adamw_kernel(AdamwArgs a, Rates r, bool aligned)
{
    if (!pass_gate(a, r)) return;
    const int64_t step = static_cast<int64_t>(gridDim.x) * GRID_THREADS * W;
    int64_t i = (static_cast<int64_t>(blockIdx.x) * GRID_THREADS + threadIdx.x) * W;
    for (; i < a.n; i += step) {
        const int64_t left = a.n - i;
        float w[W];
        update(w, a, r, i, left, aligned);
        if (a.param) store(a.param, a.param_dtype, i, left, aligned, w);
    }
}

// ---- with FP8 copies ----------------------------------------------------------------------------

// Row r of the matrix, columns c to c+7; they become FP8.
template <DType FORMAT>
__device__ __forceinline__ void update_row(uint32_t &low, uint32_t &high, const AdamwArgs &a,
                                           const Rates &rates, int64_t r, int64_t c, int64_t C,
                                           float scale, bool aligned, Fp8Seen &seen)
{
    const int64_t i = r * C + c, left = C - c;
    float w[GRID_VECTOR];
    update(w, a, rates, i, left, aligned);
    const Raw<GRID_VECTOR> rounded = pack(w, a.param_dtype);
    if (a.param) store_raw(a.param, a.param_dtype, i, left, aligned, rounded);
    unpack(w, rounded, a.param_dtype);
    if (left < GRID_VECTOR) { // what is not there counts as 0
#pragma unroll
        for (int k = 0; k < GRID_VECTOR; k++)
            if (k >= left) w[k] = 0;
    }
    low = fp8_four<FORMAT>(seen, w, scale);
    high = fp8_four<FORMAT>(seen, w + 4, scale);
    if (a.q.q) fp8_store_eight(a.q, r, c, left, low, high);
}

// A block has one tile of the matrix or, where its rows are longer, of q^T.
template <DType FORMAT>
__global__ void __launch_bounds__(GRID_THREADS, 3)
    adamw_fp8_kernel(AdamwArgs a, Rates rates, int64_t C, bool aligned)
{
    __shared__ Fp8Tile tile;
    __shared__ Fp8Seen of_warp[GROUP_WARPS_MAX];
    if (!pass_gate(a, rates)) return;
    const Fp8Place at = fp8_place();
    const unsigned panels = fp8_tile_panels(C);
    const int64_t column0 = static_cast<int64_t>(blockIdx.x % panels) * FP8_TILE_COLUMNS;
    const int64_t row0 = static_cast<int64_t>(blockIdx.x / panels) * FP8_TILE_ROWS;
    const int64_t c = column0 + fp8_column(at);
    const float scale = a.q.scale->scale;
    uint32_t low[FP8_THREAD_ROWS] = {}, high[FP8_THREAD_ROWS] = {};
    Fp8Seen seen = {};
#pragma unroll
    for (int k = 0; k < FP8_THREAD_ROWS; k++) {
        const int64_t r = row0 + fp8_row(at) + k;
        if (r < a.R && c < C)
            update_row<FORMAT>(low[k], high[k], a, rates, r, c, C, scale, aligned, seen);
    }
    if (a.q.qt) {
        fp8_tile_put(tile, at, low, high);
        __syncthreads();
        fp8_tile_store(a.q, tile, row0, column0, C);
    }
    fp8_publish(a.q, seen, of_warp);
}

cudaError_t start_fp8(const CudaDevice *d, const AdamwArgs *a, const Rates &r, bool aligned)
{
    if (a->n == 0) return cudaSuccess;
    const int64_t C = a->n / a->R, rows = fp8_tile_rows(a->q, a->R);
    const unsigned tiles = fp8_tile_panels(C) * grid_blocks(rows, FP8_TILE_ROWS, INT32_MAX);
    return launch({.grid = dim3(tiles), .block = dim3(GRID_THREADS)}, d->stream,
                  a->q.dtype == DTYPE_E4M3 ? adamw_fp8_kernel<DTYPE_E4M3>
                                           : adamw_fp8_kernel<DTYPE_E5M2>,
                  *a, r, C, aligned && C % GRID_VECTOR == 0);
}

} // namespace

bool cuda_adamw_supports(const CudaDevice *, const AdamwArgs *, const char **)
{
    return true;
}

size_t cuda_adamw_scratch(const CudaDevice *, const AdamwArgs *)
{
    return 0;
}

int cuda_adamw(const CudaDevice *d, const AdamwArgs *a, void *)
{
    Rates r = {};
    r.b1 = static_cast<float>(a->beta1);
    r.c1 = static_cast<float>(1 - a->beta1);
    r.b2 = static_cast<float>(a->beta2);
    r.c2 = static_cast<float>(1 - a->beta2);
    const double t = static_cast<double>(a->step);
    r.grad_scale = a->grad_scale;
    set_step(r, a->lr, 1 - std::pow(a->beta1, t), 1 - std::pow(a->beta2, t), a->weight_decay);
    r.eps = static_cast<float>(a->eps);
    const bool aligned = is_aligned(a->w) && is_aligned(a->m) && is_aligned(a->v) &&
                         is_aligned(a->grad) && is_aligned(a->param);
    if (a->q.scale) return start_fp8(d, a, r, aligned);
    return launch({.grid = flat_grid(a->n, W), .block = dim3(GRID_THREADS)}, d->stream,
                  adamw_kernel, *a, r, aligned);
}
