// fp8_update.cu -- the scales of the next step.
// Contract: kernels/ops/fp8_update.h
//
// WHAT    One block a slot: its amax enters the history, whose largest number makes the scale.
// MATH    The maximum has the same bits in any order.
// TILING  128 threads read a history of 1,024 in 8 loads each, coalesced.
// COST    4 n length bytes: the 144 slots of 12 layers with a history of 1,024 are 0.6 MB, less
//         than the launch costs. One launch for the whole model.
// RULES   Thread 0 writes what all threads have read: behind a barrier.
// SHAPES  any n, any length; length 0 keeps no history.
// REGISTERS (sm_90, no spills)  32
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/fp8.cuh"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.cuh"

namespace
{

enum { THREADS = 128 };

// The history's next place gets the slot's amax. All threads return the number for the scale.
__device__ float roll(const Fp8UpdateArgs &a, int64_t slot, float amax, GroupScratch<float> &s)
{
    float *history = a.history + slot * a.length;
    const int64_t at = a.at[slot];
    float most = amax;
    for (int64_t i = threadIdx.x; i < a.length && a.algorithm == FP8_AMAX_MAX; i += THREADS)
        if (i != at) most = fmaxf(most, history[i]);
    most = group_max(most, s); // has barriers: all threads have read
    if (threadIdx.x == 0) {
        history[at] = amax;
        a.at[slot] = static_cast<int32_t>((at + 1) % a.length);
    }
    return most;
}

__global__ void __launch_bounds__(THREADS) fp8_update_kernel(Fp8UpdateArgs a)
{
    __shared__ GroupScratch<float> scratch;
    const bool skip = a.skip && *a.skip != 0;
    for (int64_t slot = blockIdx.x; slot < a.n; slot += gridDim.x) {
        const float amax = a.amax[slot];
        if (!skip && a.length > 0 && amax >= 0 && amax <= FLT_MAX) {
            const float most = roll(a, slot, amax, scratch);
            if (threadIdx.x == 0 && most > 0)
                a.scale[slot] = fp8_scale_for(a.scale[slot].max, most, a.margin);
        }
        __syncthreads(); // amax has been read by all
        if (threadIdx.x == 0) a.amax[slot] = -1.0f;
    }
}

} // namespace

bool cuda_fp8_update_supports(const CudaDevice *, const Fp8UpdateArgs *, const char **)
{
    return true;
}

size_t cuda_fp8_update_scratch(const CudaDevice *, const Fp8UpdateArgs *)
{
    return 0;
}

int cuda_fp8_update(const CudaDevice *d, const Fp8UpdateArgs *a, void *)
{
    return launch({.grid = dim3(grid_blocks(a->n, 1, INT32_MAX)), .block = dim3(THREADS)},
                  d->stream, fp8_update_kernel, *a);
}
