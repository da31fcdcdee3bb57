// sum_squares.cu -- sum of squares of a vector, in double.
// Contract: kernels/ops/sum_squares.h
//
// WHAT    Two kernels. Block b of at most 1,024 adds up tiles b, b + 1024, ... of 2,048 elements
//         and writes one number; then one block adds the numbers.
//
//             tile 0 1 2 ... 1023 | 1024 1025 ...      -> part[0 .. 1023] -> out
//             block 0 1 2 ... 1023 |    0    1 ...
//
// COST    reads each element once; 8 conversions to double and 8 FMAs in double for 8 elements,
//         a quarter of what a data-centre GPU does beside its memory.
// RULES   Which thread adds what depends on n alone: same bits on every GPU. Squares of f32 are
//         exact in double.
// SHAPES  any n, any alignment. n = 0: the second kernel writes 0, or leaves out as it is.
// REGISTERS (sm_90, no spills)  30, 30
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/types.cuh"

namespace
{

enum { W = GRID_VECTOR, TILE = GRID_THREADS * W, PARTS_MAX = 1024 };

__global__ void __launch_bounds__(GRID_THREADS)
    sum_squares_kernel(double *part, const void *x, DType t, int64_t n, bool aligned)
{
    __shared__ GroupScratch<double> s[1];
    double sum[1] = {0};
    const int64_t step = static_cast<int64_t>(gridDim.x) * TILE;
    int64_t i = static_cast<int64_t>(blockIdx.x) * TILE + threadIdx.x * W;
#pragma unroll 2
    for (; i < n; i += step) {
        float v[W];
        load(v, x, t, i, n - i, aligned);
#pragma unroll
        for (int k = 0; k < W; k++) {
            const double y = static_cast<double>(v[k]);
            sum[0] = fma(y, y, sum[0]);
        }
    }
    group_sum(sum, s);
    if (threadIdx.x == 0) part[blockIdx.x] = sum[0];
}

__global__ void __launch_bounds__(GRID_THREADS)
    sum_parts_kernel(double *out, const double *part, int parts, bool accumulate)
{
    __shared__ GroupScratch<double> s[1];
    double sum[1] = {0};
    for (int i = threadIdx.x; i < parts; i += GRID_THREADS) sum[0] += part[i];
    group_sum(sum, s);
    if (threadIdx.x == 0) *out = accumulate ? *out + sum[0] : sum[0];
}

unsigned parts_of(const SumSquaresArgs *a)
{
    return grid_blocks(a->n, TILE, PARTS_MAX);
}

} // namespace

bool cuda_sum_squares_supports(const CudaDevice *, const SumSquaresArgs *, const char **)
{
    return true;
}

size_t cuda_sum_squares_scratch(const CudaDevice *, const SumSquaresArgs *a)
{
    return parts_of(a) * sizeof(double);
}

int cuda_sum_squares(const CudaDevice *d, const SumSquaresArgs *a, void *scratch)
{
    double *part = static_cast<double *>(scratch);
    const unsigned n = parts_of(a);
    const cudaError_t e = launch({.grid = dim3(n), .block = dim3(GRID_THREADS)}, d->stream,
                                 sum_squares_kernel, part, a->x, a->dtype, a->n, is_aligned(a->x));
    if (e != cudaSuccess) return e;
    return launch({.grid = dim3(1), .block = dim3(GRID_THREADS)}, d->stream, sum_parts_kernel,
                  a->out, part, static_cast<int>(n), a->accumulate);
}
