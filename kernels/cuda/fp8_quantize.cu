// fp8_quantize.cu -- a tensor to FP8 in both layouts, with its column sums, amax and counts.
// Contract: kernels/ops/fp8_quantize.h
//
// WHAT    One pass over x writes q, q^T and a line of column sums, and counts. With current scaling
//         another pass before it finds the amax.
//
// TILING  The tiles of fp8_tile.cuh, 128 rows x 64 columns. x comes in 16 bytes a thread (bf16),
//         128 a row; q leaves from the registers, 8 bytes a thread; q^T through shared memory. Two
//         tiles of it alternate, so that one barrier a tile is enough.
//         A block goes down a chunk of at least 256 rows (chunk_sums.cuh), its column sums in
//         registers.
//
// COST    bf16: 4 bytes an element (2 read, 1 + 1 written) and 8 / 256 for the sums; current
//         scaling 2 more. About 20 instructions an element, where 132 processors at 3.35 TB/s
//         issue 34 while memory moves its 4 bytes.
// RULES   The order of the sums depends on the shape alone, amax and counts on no order at all.
//         q^T gets zeros behind R: 0 is what rows behind R are loaded as, and fp8(0) is 0.
// SHAPES  any R, C, ld and alignment of x; vectors when ld is a multiple of 8.
// REGISTERS (sm_90, no spills)  68: three blocks a processor; 27 the amax
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/chunk_sums.cuh"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/fp8_tile.cuh"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/types.cuh"

namespace
{

enum { W = GRID_VECTOR, ROWS_MIN = 2 * FP8_TILE_ROWS, BLOCKS = 1024 };

// x becomes FP8: q, and four rows of each of 8 columns as words of the tile.
template <DType FORMAT>
__device__ __forceinline__ void convert(const Fp8QuantizeArgs &a, const Fp8Place &at, int64_t row0,
                                        int64_t c, float scale, bool aligned, Fp8Tile &tile,
                                        float (&sum)[W], Fp8Seen &seen)
{
    const int64_t r0 = row0 + fp8_row(at);
    const int64_t left = a.C - c;
    Raw<W> raw[FP8_THREAD_ROWS] = {};
#pragma unroll
    for (int i = 0; i < FP8_THREAD_ROWS; i++)
        if (r0 + i < a.R && c < a.C)
            raw[i] = load_raw<W>(a.src, a.src_dtype, (r0 + i) * a.ld + c, left, aligned);
    uint32_t low[FP8_THREAD_ROWS], high[FP8_THREAD_ROWS];
#pragma unroll
    for (int i = 0; i < FP8_THREAD_ROWS; i++) {
        float v[W];
        unpack(v, raw[i], a.src_dtype);
#pragma unroll
        for (int k = 0; k < W; k++) sum[k] += v[k];
        low[i] = fp8_four<FORMAT>(seen, v, scale);
        high[i] = fp8_four<FORMAT>(seen, v + 4, scale);
        if (a.out.q && r0 + i < a.R && c < a.C)
            fp8_store_eight(a.out, r0 + i, c, left, low[i], high[i]);
    }
    fp8_tile_put(tile, at, low, high);
}

// Sums of the block's rows: over a warp's lanes, then over its warps.
__device__ __forceinline__ void store_sums(float *line, float (&sum)[W], const Fp8Place &at,
                                           int64_t column0, int64_t C)
{
    __shared__ float of_warp[FP8_WARPS][FP8_TILE_COLUMNS];
#pragma unroll
    for (int k = 0; k < W; k++) {
        for (int step = FP8_LANES_X; step < WARP; step *= 2)
            sum[k] += __shfl_xor_sync(ALL_LANES, sum[k], step);
        if (at.y == 0) of_warp[at.warp][fp8_column(at) + k] = sum[k];
    }
    __syncthreads();
    const int c = threadIdx.x;
    if (c >= FP8_TILE_COLUMNS || column0 + c >= C) return;
    float total = of_warp[0][c];
#pragma unroll
    for (int w = 1; w < FP8_WARPS; w++) total += of_warp[w][c];
    line[column0 + c] = total;
}

// The scale of this call: with current scaling from the amax that the first pass found.
template <DType FORMAT>
__device__ __forceinline__ float scale_of(const Fp8QuantizeArgs &a, const float *found)
{
    if (!a.current) return a.out.scale->scale;
    constexpr float MOST = Fp8Format<FORMAT>::MOST;
    Fp8Scale s = {.inv = 1, .scale = 1, .max = MOST, .unused = 0};
    if (*found > 0) s = fp8_scale_for(MOST, *found, a.margin);
    if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0)
        *a.out.scale = s; // nobody reads it in this kernel
    return s.scale;
}

// Rows of the tensor or, where longer, of q^T.
template <DType FORMAT>
__global__ void __launch_bounds__(GRID_THREADS)
    fp8_quantize_kernel(Fp8QuantizeArgs a, int64_t rows, int64_t chunk_rows, float *part,
                        const float *found, bool aligned)
{
    __shared__ Fp8Tile tiles[2];
    __shared__ Fp8Seen of_warp[GROUP_WARPS_MAX];
    const Fp8Place at = fp8_place();
    const int64_t column0 = static_cast<int64_t>(blockIdx.x) * FP8_TILE_COLUMNS;
    const int64_t c = column0 + fp8_column(at);
    const float scale = scale_of<FORMAT>(a, found);
    const int64_t begin = blockIdx.y * chunk_rows, end = min(begin + chunk_rows, rows);
    float sum[W] = {};
    Fp8Seen seen = {};
    int turn = 0;
    for (int64_t row0 = begin; row0 < end; row0 += FP8_TILE_ROWS, turn ^= 1) {
        convert<FORMAT>(a, at, row0, c, scale, aligned, tiles[turn], sum, seen);
        if (!a.out.qt) continue;
        __syncthreads();
        fp8_tile_store(a.out, tiles[turn], row0, column0, a.C);
    }
    if (part) store_sums(part + blockIdx.y * a.C, sum, at, column0, a.C);
    fp8_publish(a.out, seen, of_warp);
}

// *found = max(*found, largest finite |x|), integers as in fp8_publish.
__global__ void __launch_bounds__(GRID_THREADS)
    fp8_amax_kernel(Fp8QuantizeArgs a, int *found, bool aligned)
{
    __shared__ GroupScratch<float> scratch;
    const PanelStart at = panel_start();
    float most = 0;
    for (int64_t row = at.row; row < a.R; row += at.row_step) {
        for (int64_t column = at.column; column < a.C; column += at.column_step) {
            float v[W];
            load(v, a.src, a.src_dtype, row * a.ld + column, a.C - column, aligned);
#pragma unroll
            for (int k = 0; k < W; k++) {
                const float size = fabsf(v[k]);
                most = fmaxf(most, size <= FLT_MAX ? size : 0.0f);
            }
        }
    }
    most = warp_max(most);
    if (threadIdx.x == 0) scratch.of_warp[threadIdx.y] = most;
    __syncthreads();
    if (threadIdx.x != 0 || threadIdx.y != 0) return;
    for (int w = 1; w < PANEL_ROWS; w++) most = fmaxf(most, scratch.of_warp[w]);
    atomicMax(found, __float_as_int(most));
}

// At least one, which an empty tensor's amax needs.
Chunks chunks(const Fp8QuantizeArgs *a)
{
    const unsigned panels = fp8_tile_panels(a->C);
    int64_t most = CHUNKS_MAX;
    if (panels > BLOCKS / CHUNKS_MAX) most = panels < BLOCKS ? BLOCKS / panels : 1;
    const int64_t rows = fp8_tile_rows(a->out, a->R);
    return chunks_of(rows > 0 ? rows : 1, ROWS_MIN, most);
}

bool rows_aligned(const Fp8QuantizeArgs *a)
{
    return a->ld % W == 0 && is_aligned(a->src);
}

cudaError_t find_amax(const CudaDevice *d, const Fp8QuantizeArgs *a, int *found)
{
    const cudaError_t e = cudaMemsetAsync(found, 0, sizeof *found, d->stream);
    if (e != cudaSuccess) return e;
    dim3 grid = panel_grid(a->R, a->C);
    if (grid.y > BLOCKS) grid.y = BLOCKS;
    return launch({.grid = grid, .block = panel_block()}, d->stream, fp8_amax_kernel, *a, found,
                  rows_aligned(a));
}

} // namespace

bool cuda_fp8_quantize_supports(const CudaDevice *, const Fp8QuantizeArgs *, const char **)
{
    return true;
}

// The amax, in a cell of 16 bytes, then lines of sums.
size_t cuda_fp8_quantize_scratch(const CudaDevice *, const Fp8QuantizeArgs *a)
{
    const size_t lines = a->dbias ? static_cast<size_t>(chunks(a).count * a->C) * sizeof(float) : 0;
    return sizeof(uint4) + lines;
}

int cuda_fp8_quantize(const CudaDevice *d, const Fp8QuantizeArgs *a, void *scratch)
{
    int *found = static_cast<int *>(scratch);
    float *part =
        a->dbias ? static_cast<float *>(scratch) + sizeof(uint4) / sizeof(float) : nullptr;
    const Chunks k = chunks(a);
    cudaError_t e = a->current ? find_amax(d, a, found) : cudaSuccess;
    if (e != cudaSuccess) return e;
    const unsigned panels = fp8_tile_panels(a->C);
    e = launch({.grid = dim3(panels > 0 ? panels : 1, static_cast<unsigned>(k.count)),
                .block = dim3(GRID_THREADS)},
               d->stream,
               a->out.dtype == DTYPE_E4M3 ? fp8_quantize_kernel<DTYPE_E4M3>
                                          : fp8_quantize_kernel<DTYPE_E5M2>,
               *a, fp8_tile_rows(a->out, a->R), k.rows, part,
               reinterpret_cast<const float *>(found), rows_aligned(a));
    if (e != cudaSuccess || !a->dbias) return e;
    return chunk_sums(d->stream, a->dbias, nullptr, part, k.count, a->C, a->accumulate);
}
