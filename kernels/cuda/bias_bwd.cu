// bias_bwd.cu -- column sums: the gradient of a bias.
// Contract: kernels/ops/bias_bwd.h
//
// WHAT    db[c] (+)= sum over rows of dy[n][c], in two kernels (chunk_sums.cuh).
//
// TILING               256 columns: lane = 8 of them
//                    +---------------------------------+
//           warp 0   | row 0, row 8, row 16, ...       |   eight sums, added in shared memory:
//           warp 1   | row 1, row 9, ...               |   one line of partial sums for each
//           ...      |                                 |   chunk of rows
//           warp 7   | row 7, ...                      |
//                    +---------------------------------+
//
// COST    reads N C elements; the lines add 8 C bytes a chunk, and there are about 1,024 blocks in
//         all: for [16384, 3072] in bf16, 100 MB and 2 MB.
// RULES   Sums are f32 and their order depends on N and C alone.
// SHAPES  any N, C and alignment; vectors when C is a multiple of 8. N = 0: no lines.
// REGISTERS (sm_90, no spills)  70, 63 unaligned; 25 the lines
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/chunk_sums.cuh"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/types.cuh"

namespace
{

enum { W = GRID_VECTOR, ROWS_MIN = 8 * PANEL_ROWS, BLOCKS = 1024, BATCH = 4 };

template <bool ALIGNED>
__global__ void __launch_bounds__(GRID_THREADS)
    bias_bwd_kernel(float *part, BiasBwdArgs a, int64_t chunk_rows)
{
    __shared__ float of_warp[PANEL_ROWS][PANEL_COLUMNS];
    const int64_t c = static_cast<int64_t>(blockIdx.x) * PANEL_COLUMNS + threadIdx.x * W;
    const int64_t begin = blockIdx.y * chunk_rows, end = min(begin + chunk_rows, a.N);
    float sum[W] = {};
    for (int64_t n0 = begin + threadIdx.y; n0 < end && c < a.C; n0 += BATCH * PANEL_ROWS) {
        Raw<W> raw[BATCH] = {};
#pragma unroll
        for (int b = 0; b < BATCH; b++) { // BATCH loads are on their way
            const int64_t n = n0 + b * PANEL_ROWS, left = ALIGNED ? W : a.C - c;
            if (n < end) raw[b] = load_raw<W>(a.dy, a.dtype, n * a.C + c, left, ALIGNED);
        }
#pragma unroll
        for (int b = 0; b < BATCH; b++) { // rows behind the chunk are 0
            float v[W];
            unpack(v, raw[b], a.dtype);
#pragma unroll
            for (int k = 0; k < W; k++) sum[k] += v[k];
        }
    }
#pragma unroll
    for (int k = 0; k < W; k++) of_warp[threadIdx.y][threadIdx.x * W + k] = sum[k];
    __syncthreads();
    const int i = threadIdx.y * 32 + threadIdx.x;
    const int64_t column = static_cast<int64_t>(blockIdx.x) * PANEL_COLUMNS + i;
    if (column >= a.C) return;
    float total = of_warp[0][i];
#pragma unroll
    for (int y = 1; y < PANEL_ROWS; y++) total += of_warp[y][i];
    part[blockIdx.y * a.C + column] = total;
}

unsigned panels_of(const BiasBwdArgs *a)
{
    return grid_blocks(a->C, PANEL_COLUMNS, INT32_MAX);
}

Chunks chunks(const BiasBwdArgs *a)
{
    const unsigned panels = panels_of(a);
    int64_t most = CHUNKS_MAX;
    if (panels > BLOCKS / CHUNKS_MAX) most = panels < BLOCKS ? BLOCKS / panels : 1;
    return chunks_of(a->N, ROWS_MIN, most);
}

} // namespace

bool cuda_bias_bwd_supports(const CudaDevice *, const BiasBwdArgs *, const char **)
{
    return true;
}

size_t cuda_bias_bwd_scratch(const CudaDevice *, const BiasBwdArgs *a)
{
    return static_cast<size_t>(chunks(a).count * a->C) * sizeof(float);
}

int cuda_bias_bwd(const CudaDevice *d, const BiasBwdArgs *a, void *scratch)
{
    float *part = static_cast<float *>(scratch);
    const Chunks k = chunks(a);
    const bool aligned = a->C % W == 0 && is_aligned(a->dy);
    const cudaError_t e = launch(
        {.grid = dim3(panels_of(a), static_cast<unsigned>(k.count)), .block = panel_block()},
        d->stream, aligned ? bias_bwd_kernel<true> : bias_bwd_kernel<false>, part, *a, k.rows);
    if (e != cudaSuccess) return e;
    return chunk_sums(d->stream, a->db, nullptr, part, k.count, a->C, a->accumulate);
}
