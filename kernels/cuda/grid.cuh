// grid.cuh -- how kernels that stream share their elements among threads. Three shapes:
//
//   flat     a vector: thread i moves elements W i .. W i + W-1
//   panels   a matrix, elements one by one: a warp moves 256 columns of a row, a block 8 rows
//   groups   a matrix, a row as a whole: `group` threads (whole warps) share a row, a block has
//            as many groups as make 256 threads
//
//        group of 32, row of 600:   units of 8 columns   0 .. 31 | 32 .. 63 | 64 .. 74
//                                   thread               0 .. 31 |  0 .. 31 |  0 .. 10
//
// All of them loop when a grid is at its limit, so sizes may pass 2^31.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <cuda_runtime.h>

enum { GRID_THREADS = 256, GRID_VECTOR = 8 }; // of a block; elements a thread moves at once
enum { PANEL_COLUMNS = 32 * GRID_VECTOR, PANEL_ROWS = GRID_THREADS / 32 };

inline unsigned grid_blocks(int64_t work, int64_t of_block, int64_t most)
{
    const int64_t blocks = work / of_block + (work % of_block != 0);
    return static_cast<unsigned>(blocks < most ? blocks : most);
}

inline dim3 flat_grid(int64_t n, int64_t width)
{
    return dim3(grid_blocks(n, width * GRID_THREADS, INT32_MAX));
}

// Panels come first: blocks that run at the same time work on whole rows.
inline dim3 panel_grid(int64_t rows, int64_t columns)
{
    return dim3(grid_blocks(columns, PANEL_COLUMNS, INT32_MAX),
                grid_blocks(rows, PANEL_ROWS, UINT16_MAX));
}
inline dim3 panel_block()
{
    return dim3(32, PANEL_ROWS);
}

struct PanelStart { // where a thread of panel_grid begins, and its steps
    int64_t row, column, row_step, column_step;
};

__device__ __forceinline__ PanelStart panel_start()
{
    return {static_cast<int64_t>(blockIdx.y) * PANEL_ROWS + threadIdx.y,
            static_cast<int64_t>(blockIdx.x) * PANEL_COLUMNS + threadIdx.x * GRID_VECTOR,
            static_cast<int64_t>(gridDim.y) * PANEL_ROWS,
            static_cast<int64_t>(gridDim.x) * PANEL_COLUMNS};
}

// A block of groups for rows of C elements: as few warps a row as hold it with `units` units a
// thread, at most `most` threads.
inline dim3 group_block(int64_t C, int units, int most)
{
    const int64_t warps = (C + 32 * GRID_VECTOR * units - 1) / (32 * GRID_VECTOR * units);
    const int group = 32 * warps < most ? static_cast<int>(32 * warps) : most;
    return dim3(group, group < GRID_THREADS ? GRID_THREADS / group : 1);
}
