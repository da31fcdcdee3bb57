// dropout.cu -- dropout as a function of coordinates.
// Contract: kernels/ops/dropout.h    Random numbers: rng.cuh
//
// WHAT    A thread takes 8 neighbouring columns of a row: two calls of Philox make their words.
// TILING  panels (grid.cuh): a warp moves 256 columns of one row.
// COST    reads and writes each element once: 4 bytes in bf16. About 200 integer instructions for
//         8 elements, which hide behind their 32 bytes: a GPU of 132 processors at 3.35 TB/s issues
//         270 in that time.
// RULES   The mask has the bits of the CPU's. x and y may be the same.
// SHAPES  any C and alignment; vectors when C is a multiple of 8.
// REGISTERS (sm_90, no spills)  48, 46 unaligned
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/rng.cuh"
#include "kernels/cuda/types.cuh"

namespace
{

enum { W = GRID_VECTOR };

template <bool ALIGNED>
__global__ void __launch_bounds__(GRID_THREADS) dropout_kernel(DropoutArgs a, Dropout drop)
{
    const PanelStart at = panel_start();
    const int64_t N = a.B * a.T, C = a.C;
    for (int64_t n = at.row; n < N; n += at.row_step) {
        const int64_t b = n / a.T, t = n - b * a.T;
        DropKey key = {};
        if (drop.on) key = drop_key(drop, b, 0);
        for (int64_t c = at.column; c < C; c += at.column_step) {
            const int64_t left = ALIGNED ? W : C - c;
            float v[W];
            load(v, a.x, a.dtype, n * C + c, left, ALIGNED);
            if (drop.on) drop_vector(v, drop, key, static_cast<uint32_t>(a.row0 + t), c);
            store(a.y, a.dtype, n * C + c, left, ALIGNED, v);
        }
    }
}

} // namespace

bool cuda_dropout_supports(const CudaDevice *, const DropoutArgs *, const char **)
{
    return true;
}

size_t cuda_dropout_scratch(const CudaDevice *, const DropoutArgs *)
{
    return 0;
}

int cuda_dropout(const CudaDevice *d, const DropoutArgs *a, void *)
{
    const bool aligned = a->C % W == 0 && is_aligned(a->x) && is_aligned(a->y);
    return launch({.grid = panel_grid(a->B * a->T, a->C), .block = panel_block()}, d->stream,
                  aligned ? dropout_kernel<true> : dropout_kernel<false>, *a, dropout_of(a->drop));
}
