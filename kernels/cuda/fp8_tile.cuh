// fp8_tile.cuh -- a tile in FP8 on its way from registers to q^T, through shared memory.
//
// 128 rows x 64 columns, for a block of 256 threads; a thread has 4 rows x 8 columns, a warp 16
// rows:
//
//              8 lanes x 8 columns                    shared memory: column, its 128 rows
//            +------------------------+                +--------------------------------+
//    warp 0  | 4 rows of ty 0         |                | 16 bytes of warp 0 | warp 1 .. |  col 0
//            | 4 rows of ty 1 ...     |   turn_bytes   |                                |  col 1
//            +------------------------+  ---------->   |                                |  ...
//    warp 1  |                        |                +--------------------------------+
//    ...     |                        |                   8 lanes copy a column: 128 bytes of q^T
//
// The 16-byte cells of column c lie at cell ^ (c / 8): then neither the writing of words nor the
// reading of cells meets a bank twice. Who fills a tile again needs a barrier between, or a second
// tile.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cuda/fp8.cuh"
#include "kernels/cuda/grid.cuh"

enum { FP8_LANES_X = 8, FP8_LANES_Y = WARP / FP8_LANES_X, FP8_WARPS = GRID_THREADS / WARP };
enum { FP8_THREAD_ROWS = 4, FP8_CELL = 16 }; // rows of a thread, of a warp: a cell of a column
enum { FP8_TILE_COLUMNS = FP8_LANES_X * GRID_VECTOR, FP8_TILE_ROWS = FP8_WARPS * FP8_CELL };
static_assert(FP8_LANES_Y * FP8_THREAD_ROWS == FP8_CELL && FP8_WARPS == FP8_LANES_X,
              "a warp's rows are one cell of a column");

struct Fp8Tile {
    uint4 cell[FP8_TILE_COLUMNS][FP8_WARPS];
};

struct Fp8Place { // of a thread in a tile
    int x, y, warp;
};

__device__ __forceinline__ Fp8Place fp8_place()
{
    const int lane = threadIdx.x % WARP;
    return {lane % FP8_LANES_X, lane / FP8_LANES_X, static_cast<int>(threadIdx.x / WARP)};
}

// First row of a thread in a tile; its first column.
__device__ __forceinline__ int fp8_row(const Fp8Place &at)
{
    return at.warp * FP8_CELL + at.y * FP8_THREAD_ROWS;
}
__device__ __forceinline__ int fp8_column(const Fp8Place &at)
{
    return at.x * GRID_VECTOR;
}

// The thread's four rows: columns 0 to 3 in `low`, 4 to 7 in `high`, which are used up.
__device__ __forceinline__ void fp8_tile_put(Fp8Tile &tile, const Fp8Place &at,
                                             uint32_t (&low)[FP8_THREAD_ROWS],
                                             uint32_t (&high)[FP8_THREAD_ROWS])
{
    turn_bytes(low);
    turn_bytes(high);
#pragma unroll
    for (int k = 0; k < GRID_VECTOR; k++) {
        uint4 *cell = &tile.cell[fp8_column(at) + k][at.warp ^ at.x];
        reinterpret_cast<uint32_t *>(cell)[at.y] = k < 4 ? low[k % 4] : high[k % 4];
    }
}

// The tile of x [.,C] from row0, column0 to q^T, behind a barrier. Rows of q^T have ld_qt elements,
// a multiple of 16: what lies behind x's last row is stored, too.
__device__ __forceinline__ void fp8_tile_store(const Fp8Out &out, const Fp8Tile &tile, int64_t row0,
                                               int64_t column0, int64_t C)
{
#pragma unroll
    for (int k = 0; k < FP8_TILE_COLUMNS * FP8_WARPS / GRID_THREADS; k++) {
        const int i = k * GRID_THREADS + threadIdx.x, c = i / FP8_WARPS, cell = i % FP8_WARPS;
        const int64_t r = row0 + cell * FP8_CELL;
        if (column0 + c >= C || r >= out.ld_qt) continue;
        uint8_t *qt = static_cast<uint8_t *>(out.qt) + (column0 + c) * out.ld_qt + r;
        *reinterpret_cast<uint4 *>(qt) = tile.cell[c][cell ^ (c / GRID_VECTOR)];
    }
}

// How many rows have something to write: of x [R,.], or of q^T where those are longer.
inline int64_t fp8_tile_rows(const Fp8Out &out, int64_t R)
{
    return R > 0 && out.qt && out.ld_qt > R ? out.ld_qt : R;
}

__host__ __device__ inline unsigned fp8_tile_panels(int64_t C)
{
    return static_cast<unsigned>((C + FP8_TILE_COLUMNS - 1) / FP8_TILE_COLUMNS);
}
