// attention_tile.cuh -- what the plain attention kernels share: heads, tiles of scores, dropout.
//
// All of them look at 64 queries x 64 keys at a time, in a block of 256 threads (tile.cuh). The
// head size is cut twice:
//   chunks  a product over d (scores) walks along d in chunks of WIDTH columns, which is what the
//           tiles in shared memory hold;
//   slices  a result with columns d (out, dq, dk, dv) is made WIDTH columns a block. A head of more
//           than WIDTH columns is several blocks, and each computes the scores again.
// So D may be anything; up to WIDTH there is one chunk and one slice.
//
//     scores in shared memory, f32           probabilities in their place, element type T
//     row r of 64:  |s0 s1 ...... s63|pad|   |p0 p1 .. p63|            |pad|
//
// Four neighbouring threads own a row of scores: thread q of them columns 16g + 4q .. 16g + 4q + 3,
// g = 0..3. Four neighbouring columns, because one call of the random numbers serves four. They go
// through the groups in order, and a probability is no wider than its score: what is written for
// group g lies where groups up to g were read (a __syncwarp between reading and writing).
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cuda/attention_mask.cuh"
#include "kernels/cuda/rng.cuh"
#include "kernels/cuda/tile.cuh"

enum {
    ATT_SIDE = TILE_SIDE,
    ATT_GROUPS = 4, // of 4 neighbours: the scores of a thread
    ATT_SUMS = 16,  // of a thread, in a 64 x 64 product
};
static_assert(ATT_SIDE * ATT_SIDE == 4 * ATT_GROUPS * TILE_THREADS, "every score has its thread");

// One head of a tensor [B,T,H,D]: element (t, d) lies at p + t * row + d.
template <typename T> struct AttHead {
    T *p;
    int64_t row;
};

template <typename T>
__device__ __forceinline__ AttHead<T> att_head(void *x, int64_t batch, int64_t row, int b,
                                               int64_t offset)
{
    return {static_cast<T *>(x) + b * batch + offset, row};
}
template <typename T>
__device__ __forceinline__ AttHead<const T> att_head(const void *x, int64_t batch, int64_t row,
                                                     int b, int64_t offset)
{
    return {static_cast<const T *>(x) + b * batch + offset, row};
}

struct AttBlock {
    int b, h; // sample, head
    int t0;   // first row of the block's tile
    int d0;   // first column of its slice
};

// The tiles of a head go from the last to the first: causal queries at the end have most to do.
__device__ __forceinline__ AttBlock att_block(int64_t H, int64_t T, int64_t D, int width)
{
    const int tiles = (int)((T + ATT_SIDE - 1) / ATT_SIDE), slices = (int)((D + width - 1) / width);
    const int slice = blockIdx.x % slices, tile = blockIdx.x / slices % tiles;
    const int head = blockIdx.x / slices / tiles;
    return {(int)(head / H), (int)(head % H), (tiles - 1 - tile) * ATT_SIDE, slice * width};
}

inline int64_t att_blocks(int64_t B, int64_t H, int64_t T, int64_t D, int width)
{
    return B * H * ((T + ATT_SIDE - 1) / ATT_SIDE) * ((D + width - 1) / width);
}

// Which keys do the queries q0 .. q0 + 63 see, all together? Every warp finds out by itself.
__device__ __forceinline__ TileRange att_hull(const AttentionMaskParams &mask, int b, int q0)
{
    TileSpan all = tile_span_none();
#pragma unroll 1
    for (int i = q0 + threadIdx.x % 32; i < min(q0 + ATT_SIDE, mask.Tq); i += 32) {
        const TileSpan s = tile_span_of(key_span(mask, b, i));
        all.lo = min(all.lo, s.lo);
        all.hi = max(all.hi, s.hi);
    }
    all = tile_span_warp(all);
    return {all.lo, all.hi};
}

// Rows t0 .. t0 + 63 and columns d .. d + WIDTH - 1 to shared memory; 0 outside `rows` and D.
template <int WIDTH, typename T>
__device__ __forceinline__ void att_load(T *dst, AttHead<const T> x, int t0, TileRange rows, int d,
                                         int D, bool vec)
{
    tile_load<ATT_SIDE, WIDTH>(dst, x.p + t0 * x.row + d, x.row,
                               TileRange{rows.begin - t0, rows.end - t0}, D - d, vec);
}

// sum[i][j] = row x0 + i of x times row y0 + j of y. Leaves the last chunk of both in X and Y; when
// there is only one chunk and X holds it already, `x_loaded` saves the way.
template <int WIDTH, typename T>
__device__ __forceinline__ void att_scores(TileSums<1> &sum, T *X, T *Y, AttHead<const T> x, int x0,
                                           TileRange x_rows, bool x_loaded, AttHead<const T> y,
                                           int y0, TileRange y_rows, int D, bool vec)
{
    constexpr int LD = tile_ld<T>(WIDTH);
    tile_zero<1>(sum);
    for (int d = 0; d < D; d += WIDTH) {
        if (!x_loaded) att_load<WIDTH>(X, x, x0, x_rows, d, D, vec);
        att_load<WIDTH>(Y, y, y0, y_rows, d, D, vec);
        tile_wait<0>();
        tile_product<1, false, false>(sum, X, LD, Y, LD, min((D - d + 15) / 16 * 16, WIDTH));
        __syncthreads();
    }
}

// The first column of group g of this thread.
__device__ __forceinline__ int att_column(int g)
{
    return g * 16 + threadIdx.x % 4 * 4;
}

// Four neighbours from and to shared memory.
__device__ __forceinline__ void att_load4(float (&v)[4], const float *src)
{
    const float4 x = *reinterpret_cast<const float4 *>(src);
    v[0] = x.x, v[1] = x.y, v[2] = x.z, v[3] = x.w;
}
__device__ __forceinline__ void att_store4(float *dst, const float (&v)[4])
{
    *reinterpret_cast<float4 *>(dst) = make_float4(v[0], v[1], v[2], v[3]);
}
__device__ __forceinline__ void att_store4(__nv_bfloat16 *dst, const float (&v)[4])
{
    reinterpret_cast<__nv_bfloat162 *>(dst)[0] = __floats2bfloat162_rn(v[0], v[1]);
    reinterpret_cast<__nv_bfloat162 *>(dst)[1] = __floats2bfloat162_rn(v[2], v[3]);
}
__device__ __forceinline__ void att_store4(__half *dst, const float (&v)[4])
{
    reinterpret_cast<__half2 *>(dst)[0] = __floats2half2_rn(v[0], v[1]);
    reinterpret_cast<__half2 *>(dst)[1] = __floats2half2_rn(v[2], v[3]);
}

// A finished tile to memory, by way of shared memory (`S`, rows of ld): neighbours to neighbours.
template <typename T>
__device__ __forceinline__ void att_write(AttHead<T> x, int t0, int t_end, int d, int D,
                                          const TileSums<1> &sum, float *S, int ld)
{
    __syncthreads();
    tile_store<1, T>(S, ld, sum);
    __syncthreads();
#pragma unroll 1
    for (int i = threadIdx.x; i < ATT_SIDE * ATT_SIDE; i += TILE_THREADS) {
        const int t = t0 + i / ATT_SIDE, c = i % ATT_SIDE;
        if (t < t_end && d + c < D) x.p[t * x.row + d + c] = from_f32<T>(S[i / ATT_SIDE * ld + c]);
    }
}

// May rows of this tensor be copied 16 bytes at a time, whatever the batch and head?
inline bool att_aligned(const void *p, int64_t batch, int64_t row, int64_t D, int64_t element_bytes)
{
    return is_aligned(p) && batch * element_bytes % 16 == 0 && row * element_bytes % 16 == 0 &&
           D * element_bytes % 16 == 0;
}
