// scatter_rows.cu -- adds rows to chosen rows of a matrix.
// Contract: kernels/ops/scatter_rows.h
//
// WHAT    out[row[i]] += x[i], in f32, rounded once.
// TILING  panels (grid.cuh): a warp takes 256 columns of one row; the two loads of a thread are on
//         their way together.
// COST    reads two elements and writes one for each of x: 6 bytes in bf16, 16 at a time.
// RULES   The rows of a call are distinct, so nobody adds to what another thread adds to.
// SHAPES  any C and alignment; vectors when C is a multiple of 8.
// REGISTERS (sm_90, no spills)  34, 39 unaligned
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/types.cuh"

namespace
{

enum { W = GRID_VECTOR };

template <bool ALIGNED>
__global__ void __launch_bounds__(GRID_THREADS) scatter_rows_kernel(ScatterRowsArgs a)
{
    const PanelStart at = panel_start();
    const int64_t C = a.C;
    for (int64_t i = at.row; i < a.n; i += at.row_step) {
        const int64_t row = a.row[i];
        if (row < 0) continue;
        for (int64_t c = at.column; c < C; c += at.column_step) {
            const int64_t left = ALIGNED ? W : C - c;
            const Raw<W> x = load_raw<W>(a.x, a.dtype, i * C + c, left, ALIGNED);
            const Raw<W> y = load_raw<W>(a.out, a.dtype, row * C + c, left, ALIGNED);
            float v[W], more[W];
            unpack(v, y, a.dtype);
            unpack(more, x, a.dtype);
#pragma unroll
            for (int k = 0; k < W; k++) v[k] += more[k];
            store(a.out, a.dtype, row * C + c, left, ALIGNED, v);
        }
    }
}

} // namespace

bool cuda_scatter_rows_supports(const CudaDevice *, const ScatterRowsArgs *, const char **)
{
    return true;
}

size_t cuda_scatter_rows_scratch(const CudaDevice *, const ScatterRowsArgs *)
{
    return 0;
}

int cuda_scatter_rows(const CudaDevice *d, const ScatterRowsArgs *a, void *)
{
    const bool aligned = a->C % W == 0 && is_aligned(a->out) && is_aligned(a->x);
    return launch({.grid = panel_grid(a->n, a->C), .block = panel_block()}, d->stream,
                  aligned ? scatter_rows_kernel<true> : scatter_rows_kernel<false>, *a);
}
