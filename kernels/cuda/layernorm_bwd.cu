// layernorm_bwd.cu -- gradient of layernorm_fwd, with its residual and dropout.
// Contract: kernels/ops/layernorm_bwd.h
//
// WHAT    Kernel 1: block k takes chunk k of rows; its groups of threads take one row each, then
//         the next. A row gives two sums over columns (for its own gradient) and adds to two
//         vectors over rows (for weight and bias). Kernel 2: chunk_sums.cuh.
//
// TILING  groups (grid.cuh): a row belongs to one warp up to 1,024 columns. A thread owns the same
//         4 units of 8 columns in every row, so dweight and dbias grow in its registers:
//
//                       columns
//             rows    +---------+   x, dy, dresid_in: registers   -> sums -> dresid, dadd
//             warp 0  |         |
//             warp 1  |         |   down the columns: dw, db in registers
//             ...     +---------+   at the end: eight warps, one after the other, in shared memory
//                       dw, db      -> one line [dw | db] of scratch a block
//
//         256 threads hold 8,192 columns, a panel. With several panels a row's tensors are read
//         twice and the line is updated in place, row after row.
//
// COST    reads 3 and writes 1-2 times N C elements: 10 bytes an element in bf16. The lines add
//         16 C bytes a chunk: 256 chunks of 64 rows of 768 in bf16: 126 MB and 3 MB. weight: L1.
// RULES   Chunks depend on N alone, orders on N and C. dresid_in may be dresid: a thread reads what
//         it writes later itself.
// SHAPES  any C and alignment; vectors when C is a multiple of 8.
// REGISTERS (sm_90, no spills)  242, 254 unaligned; 25 the lines. So a processor has one block:
//         eight warps, each with 6 KB of a row on their way.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/chunk_sums.cuh"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rng.cuh"
#include "kernels/cuda/types.cuh"

namespace
{

enum { W = GRID_VECTOR, UNITS = 4, GROUP_MAX = GRID_THREADS, ROWS_MIN = 8 };

struct RowData { // what a thread holds of a row
    Raw<W> x[UNITS], dy[UNITS], in[UNITS];
};

struct RowStats {
    float mean, rstd, avg_g, avg_gx;
};

struct RowDrop {
    DropKey key;
    uint32_t row;
};

using Sums = float[UNITS][W];

__device__ __forceinline__ int64_t column_of(int64_t panel, int k)
{
    return ((panel * UNITS + k) * blockDim.x + threadIdx.x) * W;
}

template <bool ALIGNED>
__device__ __forceinline__ void load_panel(RowData &r, const LayernormBwdArgs &a, int64_t n,
                                           int64_t C, int64_t panel)
{
#pragma unroll
    for (int k = 0; k < UNITS; k++) {
        const int64_t c = column_of(panel, k), left = ALIGNED ? W : C - c, i = n * C + c;
        if (c >= C) continue;
        r.x[k] = load_raw<W>(a.x, a.x_dtype, i, left, ALIGNED);
        r.dy[k] = load_raw<W>(a.dy, a.dy_dtype, i, left, ALIGNED);
        if (a.dresid_in) r.in[k] = load_raw<W>(a.dresid_in, a.dresid_dtype, i, left, ALIGNED);
    }
}

// xh = (x - mean) rstd and dy of unit k; g = dy weight.
template <bool ALIGNED>
__device__ __forceinline__ void unit(float (&xh)[W], float (&dy)[W], float (&g)[W],
                                     const RowData &r, const RowStats &s, const LayernormBwdArgs &a,
                                     int k, int64_t c, int64_t left)
{
    unpack(xh, r.x[k], a.x_dtype);
    unpack(dy, r.dy[k], a.dy_dtype);
    load(g, a.weight, a.w_dtype, c, left, ALIGNED);
#pragma unroll
    for (int i = 0; i < W; i++) {
        xh[i] = (xh[i] - s.mean) * s.rstd;
        g[i] *= dy[i];
    }
}

// The two sums over columns of a row. What lies behind it has dy = 0, but xh may be NaN there.
template <bool ALIGNED>
__device__ __forceinline__ void row_sums(float (&sum)[2], const RowData &r, const RowStats &s,
                                         const LayernormBwdArgs &a, int64_t C, int64_t panel)
{
#pragma unroll
    for (int k = 0; k < UNITS; k++) {
        const int64_t c = column_of(panel, k), left = ALIGNED ? W : C - c;
        if (c >= C) continue;
        float xh[W], dy[W], g[W];
        unit<ALIGNED>(xh, dy, g, r, s, a, k, c, left);
#pragma unroll
        for (int i = 0; i < W; i++) {
            if (!ALIGNED && i >= left) continue;
            sum[0] += g[i];
            sum[1] += g[i] * xh[i];
        }
    }
}

// Gradients of a row, and its part of dweight and dbias: added to dw and db, or written to a line.
template <bool ALIGNED>
__device__ __forceinline__ void
row_gradient(Sums &dw, Sums &db, const RowData &r, const RowStats &s, const LayernormBwdArgs &a,
             const Dropout &drop, const RowDrop &rd, int64_t n, int64_t C, int64_t panel)
{
#pragma unroll
    for (int k = 0; k < UNITS; k++) {
        const int64_t c = column_of(panel, k), left = ALIGNED ? W : C - c;
        if (c >= C) continue;
        float xh[W], dy[W], d[W], in[W] = {};
        unit<ALIGNED>(xh, dy, d, r, s, a, k, c, left); // d is g so far
        if (a.dresid_in) unpack(in, r.in[k], a.dresid_dtype);
#pragma unroll
        for (int i = 0; i < W; i++) {
            dw[k][i] += dy[i] * xh[i];
            db[k][i] += dy[i];
            d[i] = (d[i] - s.avg_g - xh[i] * s.avg_gx) * s.rstd + in[i];
        }
        store(a.dresid, a.dresid_dtype, n * C + c, left, ALIGNED, d);
        if (!a.dadd) continue;
        if (drop.on) drop_vector(d, drop, rd.key, rd.row, c);
        store(a.dadd, a.dadd_dtype, n * C + c, left, ALIGNED, d);
    }
}

// line[c] = sum, or += it, for the columns of this thread.
__device__ __forceinline__ void add_line(float *line, const Sums &sum, int64_t C, int64_t panel,
                                         bool first)
{
#pragma unroll
    for (int k = 0; k < UNITS; k++) {
        const int64_t c = column_of(panel, k);
#pragma unroll
        for (int i = 0; i < W; i++)
            if (c + i < C) line[c + i] = first ? sum[k][i] : line[c + i] + sum[k][i];
    }
}

// The sums of all groups of the block, first group first.
__device__ __forceinline__ void write_line(float *line, float *shared, const Sums &dw,
                                           const Sums &db, const LayernormBwdArgs &a)
{
    const int64_t C = a.C, columns = a.dbias ? 2 * C : C;
    if (blockDim.y == 1) {
        add_line(line, dw, C, 0, true);
        if (a.dbias) add_line(line + C, db, C, 0, true);
        return;
    }
    for (int y = 0; y < static_cast<int>(blockDim.y); y++) {
        if (threadIdx.y == y) {
            add_line(shared, dw, C, 0, y == 0);
            if (a.dbias) add_line(shared + C, db, C, 0, y == 0);
        }
        __syncthreads();
    }
    const int threads = blockDim.x * blockDim.y;
    for (int64_t c = threadIdx.y * blockDim.x + threadIdx.x; c < columns; c += threads)
        line[c] = shared[c];
}

template <bool ALIGNED>
__global__ void __launch_bounds__(GROUP_MAX)
    layernorm_bwd_kernel(float *part, LayernormBwdArgs a, Dropout drop, int64_t chunk_rows)
{
    extern __shared__ float shared[];
    __shared__ GroupScratch<float> scratch[2];
    const int64_t width = static_cast<int64_t>(blockDim.x) * UNITS * W;
    const int64_t panels = (a.C + width - 1) / width;
    const int64_t begin = blockIdx.x * chunk_rows, end = min(begin + chunk_rows, a.N);
    float *line = part + static_cast<int64_t>(blockIdx.x) * (a.dbias ? 2 * a.C : a.C);
    Sums dw = {}, db = {};
    for (int64_t first = begin; first < end; first += blockDim.y) {
        const int64_t n = first + threadIdx.y;
        const int64_t C = n < end ? a.C : 0; // a group without a row goes through the barriers
        RowData r = {};
        RowStats s = {};
        RowDrop rd = {};
        if (C > 0) {
            s.mean = a.mean[n];
            s.rstd = a.rstd[n];
        }
        if (drop.on && C > 0) {
            const int64_t b = n / a.T;
            rd.key = drop_key(drop, b, 0);
            rd.row = static_cast<uint32_t>(n - b * a.T);
        }
        float sum[2] = {0, 0};
        for (int64_t p = 0; p < panels; p++) {
            load_panel<ALIGNED>(r, a, n, C, p);
            row_sums<ALIGNED>(sum, r, s, a, C, p);
        }
        group_sum(sum, scratch);
        s.avg_g = sum[0] / static_cast<float>(a.C);
        s.avg_gx = sum[1] / static_cast<float>(a.C);
        for (int64_t p = 0; p < panels; p++) {
            if (panels > 1) load_panel<ALIGNED>(r, a, n, C, p);
            row_gradient<ALIGNED>(dw, db, r, s, a, drop, rd, n, C, p);
            if (panels == 1) continue;
            add_line(line, dw, C, p, first == begin);
            if (a.dbias) add_line(line + C, db, C, p, first == begin);
#pragma unroll
            for (int k = 0; k < UNITS; k++)
#pragma unroll
                for (int i = 0; i < W; i++) dw[k][i] = db[k][i] = 0;
        }
    }
    if (panels == 1) write_line(line, shared, dw, db, a);
}

} // namespace

bool cuda_layernorm_bwd_supports(const CudaDevice *, const LayernormBwdArgs *, const char **)
{
    return true;
}

size_t cuda_layernorm_bwd_scratch(const CudaDevice *, const LayernormBwdArgs *a)
{
    const int64_t columns = a->dbias ? 2 * a->C : a->C;
    return static_cast<size_t>(chunks_of(a->N, ROWS_MIN, CHUNKS_MAX).count * columns) *
           sizeof(float);
}

int cuda_layernorm_bwd(const CudaDevice *d, const LayernormBwdArgs *a, void *scratch)
{
    float *part = static_cast<float *>(scratch);
    const Chunks k = chunks_of(a->N, ROWS_MIN, CHUNKS_MAX);
    const dim3 block = group_block(a->C, UNITS, GROUP_MAX);
    const bool aligned = a->C % W == 0 && is_aligned(a->dresid) && is_aligned(a->dadd) &&
                         is_aligned(a->dresid_in) && is_aligned(a->dy) && is_aligned(a->x) &&
                         is_aligned(a->weight);
    Dropout drop = {};
    if (a->dadd) drop = dropout_of(a->drop);
    const size_t smem = block.y > 1 ? 2 * static_cast<size_t>(a->C) * sizeof(float) : 0;
    const cudaError_t e = launch(
        {.grid = dim3(static_cast<unsigned>(k.count)), .block = block, .smem = smem}, d->stream,
        aligned ? layernorm_bwd_kernel<true> : layernorm_bwd_kernel<false>, part, *a, drop, k.rows);
    if (e != cudaSuccess) return e;
    return chunk_sums(d->stream, a->dweight, a->dbias, part, k.count, a->C, a->accumulate);
}
