// sum.cu -- sum of a vector, in double: the losses of a step, one a token.
// Contract: kernels/ops/sum.h
//
// WHAT    One block: thread i adds elements i, i + 1024, ..., then the threads are added up.
// COST    bound by how long a read takes: 32,768 losses in 32 reads of each thread. The sum of a
//         long vector is sum_squares.cu's work.
// RULES   Which thread adds what depends on n alone: same bits on every GPU.
// SHAPES  any n, any alignment.
// REGISTERS (sm_90, no spills)  20
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/types.cuh"

namespace
{

enum { SUM_THREADS = 1024 };

__global__ void __launch_bounds__(SUM_THREADS) sum_kernel(SumArgs a)
{
    __shared__ GroupScratch<double> s[1];
    double sum[1] = {0};
#pragma unroll 4
    for (int64_t i = threadIdx.x; i < a.n; i += SUM_THREADS)
        sum[0] += static_cast<double>(load_one(a.x, a.dtype, i));
    group_sum(sum, s);
    if (threadIdx.x == 0) *a.out = a.accumulate ? *a.out + sum[0] : sum[0];
}

} // namespace

bool cuda_sum_supports(const CudaDevice *, const SumArgs *, const char **)
{
    return true;
}

size_t cuda_sum_scratch(const CudaDevice *, const SumArgs *)
{
    return 0;
}

int cuda_sum(const CudaDevice *d, const SumArgs *a, void *)
{
    return launch({.grid = dim3(1), .block = dim3(SUM_THREADS)}, d->stream, sum_kernel, *a);
}
