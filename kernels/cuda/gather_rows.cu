// gather_rows.cu -- chosen rows of a matrix, one after the other.
// Contract: kernels/ops/gather_rows.h
//
// WHAT    out[i] = x[row[i]], or zeros. Bits are moved, not numbers.
// TILING  panels (grid.cuh): a warp takes 256 columns of one row.
// COST    reads and writes each element once: 4 bytes in bf16, 16 at a time.
// RULES   Rows are gathered: their numbers were checked when the data were read.
// SHAPES  any C and alignment; vectors when C is a multiple of 8.
// REGISTERS (sm_90, no spills)  30, 32 unaligned
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
__global__ void __launch_bounds__(GRID_THREADS) gather_rows_kernel(GatherRowsArgs a)
{
    const PanelStart at = panel_start();
    const int64_t C = a.C;
    for (int64_t i = at.row; i < a.n; i += at.row_step) {
        const int64_t row = a.row[i];
        for (int64_t c = at.column; c < C; c += at.column_step) {
            const int64_t left = ALIGNED ? W : C - c;
            Raw<W> r = {};
            if (row >= 0) r = load_raw<W>(a.x, a.dtype, row * C + c, left, ALIGNED);
            store_raw(a.out, a.dtype, i * C + c, left, ALIGNED, r);
        }
    }
}

} // namespace

bool cuda_gather_rows_supports(const CudaDevice *, const GatherRowsArgs *, const char **)
{
    return true;
}

size_t cuda_gather_rows_scratch(const CudaDevice *, const GatherRowsArgs *)
{
    return 0;
}

int cuda_gather_rows(const CudaDevice *d, const GatherRowsArgs *a, void *)
{
    const bool aligned = a->C % W == 0 && is_aligned(a->out) && is_aligned(a->x);
    return launch({.grid = panel_grid(a->n, a->C), .block = panel_block()}, d->stream,
                  aligned ? gather_rows_kernel<true> : gather_rows_kernel<false>, *a);
}
