// fp8_update.cu -- the scales of the next step.
// Contract: kernels/ops/fp8_update.h
//
// WHAT    One warp a slot: its amax enters the history, whose largest number makes the scale.
// MATH    The maximum has the same bits in any order.
// TILING  The lanes read a history of 1,024 in 32 loads each, 128 bytes a load.
// COST    4 n length bytes: the 144 slots of 12 layers with a history of 1,024 are 0.6 MB, less
//         than the launch costs. One launch for the whole model.
// RULES   Lane 0 writes what all lanes have read: behind an exchange of the warp.
// SHAPES  any n, any length; length 0 keeps no history.
// REGISTERS (sm_90, no spills)  31
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/fp8.cuh"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.cuh"

namespace
{

enum { SLOTS = 4 }; // of a block

// The history's next place gets the slot's amax. All lanes return the number for the scale.
__device__ __forceinline__ float roll(const Fp8UpdateArgs &a, int64_t slot, float amax)
{
    float *history = a.history + slot * a.length;
    const int64_t at = a.at[slot];
    float most = amax;
    for (int64_t i = threadIdx.x; i < a.length && a.algorithm == FP8_AMAX_MAX; i += WARP)
        if (i != at) most = fmaxf(most, history[i]);
    most = warp_max(most); // all lanes have read
    if (threadIdx.x == 0) {
        history[at] = amax;
        a.at[slot] = static_cast<int32_t>((at + 1) % a.length);
    }
    return most;
}

__global__ void __launch_bounds__(WARP *SLOTS) fp8_update_kernel(Fp8UpdateArgs a)
{
    const int64_t slot = static_cast<int64_t>(blockIdx.x) * SLOTS + threadIdx.y;
    if (slot >= a.n) return;
    const bool skip = a.skip && *a.skip != 0;
    const float amax = a.amax[slot];
    if (!skip && a.length > 0 && amax >= 0 && amax <= FLT_MAX) {
        const float most = roll(a, slot, amax);
        if (threadIdx.x == 0 && most > 0)
            a.scale[slot] = fp8_scale_for(a.scale[slot].max, most, a.margin);
    }
    __syncwarp(); // all lanes have read amax
    const bool held = skip && a.held && a.held[slot] != 0;
    if (threadIdx.x == 0 && !held) a.amax[slot] = -1.0f;
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
    return launch({.grid = dim3(grid_blocks(a->n, SLOTS, INT32_MAX)), .block = dim3(WARP, SLOTS)},
                  d->stream, fp8_update_kernel, *a);
}
