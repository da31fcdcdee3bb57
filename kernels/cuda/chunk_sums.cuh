// chunk_sums.cuh -- sums over rows, in two kernels and always in the same order.
//
// Block k of a kernel adds up its chunk of rows and writes one line of partial sums; then
// chunk_sums() adds the lines:
//
//     rows 0 .. r-1    ->  line 0  --+
//     rows r .. 2r-1   ->  line 1  --+-->  dst
//     ...                            |
//
// How many chunks there are depends on the tensor's shape only, never on the GPU, so that the bits
// of a sum do not either. CHUNKS_MAX blocks fill the GPUs of today (132 processors, two blocks
// each), and their lines are a few percent of the bytes of the rows.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.cuh"

enum { CHUNKS_MAX = 256 };
enum { CHUNK_COLUMNS = 32, CHUNK_SLICES = 32 }; // of a block of the second kernel

struct Chunks {
    int64_t rows, count; // rows of a chunk; the last one may have fewer
};

// N rows in at most `most` chunks of at least `least` rows, a multiple of it.
inline Chunks chunks_of(int64_t N, int64_t least, int64_t most)
{
    const int64_t rows = (N + most - 1) / most;
    Chunks k = {least, 0};
    if (rows > least) k.rows = (rows + least - 1) / least * least;
    k.count = (N + k.rows - 1) / k.rows;
    return k;
}

// Slice y of a block adds lines y, y + 32, ... (fewer slices when there are fewer lines); then the
// slices are added.
static __global__ void __launch_bounds__(CHUNK_COLUMNS *CHUNK_SLICES)
    chunk_sums_kernel(float *dst0, float *dst1, const float *part, int64_t chunks, int64_t C,
                      bool accumulate)
{
    __shared__ float slice[CHUNK_SLICES][CHUNK_COLUMNS];
    const int64_t c = (int64_t)blockIdx.x * CHUNK_COLUMNS + threadIdx.x;
    const int64_t stride = gridDim.y * C;
    float *dst = blockIdx.y == 0 ? dst0 : dst1;
    float sum = 0;
    if (c < C) {
        const float *line = part + blockIdx.y * C + c;
#pragma unroll 8
        for (int64_t k = threadIdx.y; k < chunks; k += blockDim.y) sum += line[k * stride];
    }
    slice[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y != 0 || c >= C) return;
    for (int y = 1; y < static_cast<int>(blockDim.y); y++) sum += slice[y][threadIdx.x];
    dst[c] = accumulate ? dst[c] + sum : sum;
}

// dst0[c] (+)= sum over k of part[k][c], c < C. With dst1 a line has 2 C columns, and the second
// half of them goes there.
inline cudaError_t chunk_sums(cudaStream_t stream, float *dst0, float *dst1, const float *part,
                              int64_t chunks, int64_t C, bool accumulate)
{
    const unsigned slices = grid_blocks(chunks > 0 ? chunks : 1, 1, CHUNK_SLICES);
    const int64_t panels = (C + CHUNK_COLUMNS - 1) / CHUNK_COLUMNS;
    return launch(
        {.grid = dim3((unsigned)panels, dst1 ? 2 : 1), .block = dim3(CHUNK_COLUMNS, slices)},
        stream, chunk_sums_kernel, dst0, dst1, part, chunks, C, accumulate);
}
