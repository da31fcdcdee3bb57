// embedding_fwd.cu -- the sum of a token's, a position's and a type's embedding.
// Contract: kernels/ops/embedding_fwd.h
//
// WHAT    out[n] = wte[token[n]] + wpe[position] + wtt[type], in f32, in this order.
// TILING  panels (grid.cuh): a warp takes 256 columns of one row; the three loads of a thread are
//         on their way together.
// COST    (tables + 1) elements read or written an element of out; position and type rows come
//         from L2, so that memory sees 2: 4 bytes in bf16.
// RULES   The tables' rows are gathered: ids were checked when the data were read.
// SHAPES  any C and alignment; vectors when C is a multiple of 8.
// REGISTERS (sm_90, no spills)  40, 48 unaligned
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
__global__ void __launch_bounds__(GRID_THREADS) embedding_fwd_kernel(EmbeddingFwdArgs a)
{
    const PanelStart at = panel_start();
    const int64_t C = a.C;
    for (int64_t n = at.row; n < a.N; n += at.row_step) {
        const int64_t token = a.token[n];
        int64_t position = 0, type = 0;
        if (a.wpe) position = a.position ? a.position[n] : a.position0 + n % a.T;
        if (a.wtt && a.type) type = a.type[n];
        for (int64_t c = at.column; c < C; c += at.column_step) {
            const int64_t left = ALIGNED ? W : C - c;
            const Raw<W> x = load_raw<W>(a.wte, a.w_dtype, token * C + c, left, ALIGNED);
            Raw<W> p = {}, s = {};
            if (a.wpe) p = load_raw<W>(a.wpe, a.w_dtype, position * C + c, left, ALIGNED);
            if (a.wtt) s = load_raw<W>(a.wtt, a.w_dtype, type * C + c, left, ALIGNED);
            float v[W], more[W];
            unpack(v, x, a.w_dtype);
            if (a.wpe) {
                unpack(more, p, a.w_dtype);
#pragma unroll
                for (int k = 0; k < W; k++) v[k] += more[k];
            }
            if (a.wtt) {
                unpack(more, s, a.w_dtype);
#pragma unroll
                for (int k = 0; k < W; k++) v[k] += more[k];
            }
            store(a.out, a.out_dtype, n * C + c, left, ALIGNED, v);
        }
    }
}

} // namespace

bool cuda_embedding_fwd_supports(const CudaDevice *, const EmbeddingFwdArgs *, const char **)
{
    return true;
}

size_t cuda_embedding_fwd_scratch(const CudaDevice *, const EmbeddingFwdArgs *)
{
    return 0;
}

int cuda_embedding_fwd(const CudaDevice *d, const EmbeddingFwdArgs *a, void *)
{
    const bool aligned = a->C % W == 0 && is_aligned(a->out) && is_aligned(a->wte) &&
                         is_aligned(a->wpe) && is_aligned(a->wtt);
    return launch({.grid = panel_grid(a->N, a->C), .block = panel_block()}, d->stream,
                  aligned ? embedding_fwd_kernel<true> : embedding_fwd_kernel<false>, *a);
}
