// tile.cuh -- products of tiles in shared memory: what the plain matmul and attention are made of.
//
// A block of 256 threads multiplies two tiles X and Y that lie in shared memory; the sums stay in
// its registers. Three steps, the same for every element type:
//
//     global --tile_load--> shared X, Y --tile_product--> registers --tile_store--> shared f32
//
//     sum[r][c] += sum over k of X(r,k) Y(c,k)        r, c < 64 S
//
// f32: thread (ty, tx) of 16 x 16 owns rows 4S ty .. and columns tx, tx + 16, ... For four k it
//   reads 4S x 4 and 4S x 4 numbers into registers and does 64 S^2 FMAs with them: each number from
//   shared memory is used 4S times. That is register blocking; it is what makes a product fast.
//
//               columns   0 1 2 ... 15 | 16 ...        x: owned by tx = 1
//     rows 0..3  ty = 0     x          |    x
//     rows 4..7  ty = 1     x          |    x
//
// bf16, f16: eight warps, 4 down and 2 across, each 16S x 32S, by mma.sync: a warp multiplies
//   16 x 16 by 16 x 8 in one instruction, with f32 sums. ldmatrix brings the operands from shared
//   memory into the registers where mma.sync wants them, transposed when asked.
//
// Neither type cares how an operand lies: [r][k] as in memory, or [k][r] (XT, YT).
//
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <cuda_runtime.h>
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/types.cuh"

enum { TILE_THREADS = 256, TILE_SIDE = 64 };

// Elements from row to row of a shared tile: 16 bytes more than a row holds, so that neither the
// rows nor the columns that threads read together meet in one bank.
template <typename T> __host__ __device__ constexpr int tile_ld(int columns)
{
    return columns + 16 / (int)sizeof(T);
}

struct TileRange {
    int begin, end; // begin <= row (column) < end
};

// Copies ROWS x COLUMNS elements from `src` (row 0, column 0) to shared memory. What lies outside
// the rows and columns given becomes 0 and is not read. vec: src and ld are multiples of 16 bytes;
// 16 bytes then go at once and past the registers (cp.async). The tile is there after tile_wait().
template <int ROWS, int COLUMNS, typename T>
__device__ __forceinline__ void tile_load(T *dst, const T *src, int64_t ld, TileRange rows,
                                          int columns, bool vec)
{
    constexpr int N = 16 / (int)sizeof(T), LD = tile_ld<T>(COLUMNS);
    if (vec) {
#pragma unroll(ROWS == TILE_SIDE ? 1 : 2) // attention has no registers to spare
        for (int i = threadIdx.x; i < ROWS * COLUMNS / N; i += TILE_THREADS) {
            const int r = i / (COLUMNS / N), c = i % (COLUMNS / N) * N;
            const int n = r >= rows.begin && r < rows.end ? min(max(columns - c, 0), N) : 0;
            ptx::cp_async_16(ptx::smem_addr(dst + r * LD + c), n > 0 ? src + r * ld + c : src,
                             n * (int)sizeof(T));
        }
    } else {
#pragma unroll 1
        for (int i = threadIdx.x; i < ROWS * COLUMNS; i += TILE_THREADS) {
            const int r = i / COLUMNS, c = i % COLUMNS;
            const bool inside = r >= rows.begin && r < rows.end && c < columns;
            dst[r * LD + c] = inside ? src[r * ld + c] : from_f32<T>(0.0f);
        }
    }
    ptx::cp_async_commit();
}

// Waits for all loads but those of the last N tile_load, of every thread.
template <int N> __device__ __forceinline__ void tile_wait()
{
    ptx::cp_async_wait<N>();
    __syncthreads();
}

// The sums of one thread. Register n of them belongs to one row and one column of the tile:
template <int S> using TileSums = float[4 * S * S][4];

template <int S, typename T> __device__ __forceinline__ int tile_row(int n)
{
    if (sizeof(T) == 4) return threadIdx.x / 16 * 4 * S + n / (4 * S);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    return (warp % 4 * S + n / (16 * S)) * 16 + lane / 4 + n % 4 / 2 * 8;
}

template <int S, typename T> __device__ __forceinline__ int tile_column(int n)
{
    if (sizeof(T) == 4) return threadIdx.x % 16 + n % (4 * S) * 16;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    return (warp / 4 * 4 * S + n / 4 % (4 * S)) * 8 + lane % 4 * 2 + n % 2;
}

template <int S> __device__ __forceinline__ void tile_zero(TileSums<S> &sum)
{
#pragma unroll
    for (int n = 0; n < 16 * S * S; n++) sum[n / 4][n % 4] = 0;
}

template <int S, typename T>
__device__ __forceinline__ void tile_store(float *dst, int ld, const TileSums<S> &sum)
{
#pragma unroll
    for (int n = 0; n < 16 * S * S; n++)
        dst[tile_row<S, T>(n) * ld + tile_column<S, T>(n)] = sum[n / 4][n % 4];
}

// f32 on the CUDA cores. ldx, ldy: elements from row to row; depth: a multiple of 4.
template <int S, bool XT, bool YT>
__device__ __forceinline__ void tile_product(TileSums<S> &sum, const float *X, int ldx,
                                             const float *Y, int ldy, int depth)
{
    const int row = threadIdx.x / 16 * 4 * S, column = threadIdx.x % 16;
#pragma unroll 1
    for (int k = 0; k < depth; k += 4) {
        float y[4 * S][4]; // [column][k]
#pragma unroll
        for (int j = 0; j < 4 * S; j++) {
            if (YT) {
#pragma unroll
                for (int e = 0; e < 4; e++) y[j][e] = Y[(k + e) * ldy + column + 16 * j];
            } else {
                const float4 v = *reinterpret_cast<const float4 *>(Y + (column + 16 * j) * ldy + k);
                y[j][0] = v.x, y[j][1] = v.y, y[j][2] = v.z, y[j][3] = v.w;
            }
        }
#pragma unroll
        for (int i = 0; i < 4 * S; i += 4) { // four rows at a time
            float x[4][4];                   // [row][k]; as it is read: [k][row] when XT
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const float4 v = *reinterpret_cast<const float4 *>(
                    XT ? X + (k + e) * ldx + row + i : X + (row + i + e) * ldx + k);
                x[e][0] = v.x, x[e][1] = v.y, x[e][2] = v.z, x[e][3] = v.w;
            }
#pragma unroll
            for (int n = 0; n < 16 * S; n++) {
                const int r = n / (4 * S), j = n % (4 * S);
                float s = sum[(i + r) * S + j / 4][j % 4];
#pragma unroll
                for (int e = 0; e < 4; e++) s = fmaf(XT ? x[e][r] : x[r][e], y[j][e], s);
                sum[(i + r) * S + j / 4][j % 4] = s;
            }
        }
    }
}

__device__ __forceinline__ void tile_mma(float (&d)[4], const uint32_t (&a)[4],
                                         const uint32_t (&b)[2], const __nv_bfloat16 *)
{
    ptx::mma_bf16(d, a, b);
}
__device__ __forceinline__ void tile_mma(float (&d)[4], const uint32_t (&a)[4],
                                         const uint32_t (&b)[2], const __half *)
{
    ptx::mma_f16(d, a, b);
}

// 16 x 16 elements from row r, k on, or from row k, r on when they lie transposed: four 8 x 8
// matrices, of which lane i names row i % 8 of matrix i / 8. mma.sync wants its A as (r, k), (r+8,
// k), (r, k+8), (r+8, k+8), and two of its B (the columns from c = r on) as (r, k), (r, k+8),
// (r+8, k), (r+8, k+8).
template <bool IS_B, bool TRANSPOSED, typename T>
__device__ __forceinline__ void tile_fragment(uint32_t (&f)[4], const T *tile, int ld, int r, int k)
{
    const int lane = threadIdx.x % 32, second = lane / 8 % 2 * 8, third = lane / 16 * 8;
    const int row = r + (IS_B ? third : second), column = k + (IS_B ? second : third);
    if (TRANSPOSED)
        ptx::ldmatrix_x4_trans(f, ptx::smem_addr(tile + (column + lane % 8) * ld + row));
    else
        ptx::ldmatrix_x4(f, ptx::smem_addr(tile + (row + lane % 8) * ld + column));
}

// bf16 and f16 on the tensor cores; depth: a multiple of 16.
template <int S, bool XT, bool YT, typename T>
__device__ __forceinline__ void tile_product(TileSums<S> &sum, const T *X, int ldx, const T *Y,
                                             int ldy, int depth)
{
    const int warp = threadIdx.x / 32, row = warp % 4 * 16 * S, column = warp / 4 * 32 * S;
#pragma unroll(S == 1 ? 2 : 1) // of 128 x 128 the operands of one step are all that fits
    for (int k = 0; k < depth; k += 16) {
        uint32_t x[S][4], y[2 * S][4];
#pragma unroll
        for (int i = 0; i < S; i++) tile_fragment<false, XT>(x[i], X, ldx, row + 16 * i, k);
#pragma unroll
        for (int j = 0; j < 2 * S; j++) tile_fragment<true, YT>(y[j], Y, ldy, column + 16 * j, k);
#pragma unroll
        for (int n = 0; n < 4 * S * S; n++) {
            const int i = n / (4 * S), j = n % (4 * S);
            const uint32_t b[2] = {y[j / 2][j % 2 * 2], y[j / 2][j % 2 * 2 + 1]};
            tile_mma(sum[n], x[i], b, X);
        }
    }
}
