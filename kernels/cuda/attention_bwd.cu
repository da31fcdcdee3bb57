// attention_bwd.cu -- attention backward in three kernels, any GPU from sm_80 on.
// Contract: kernels/ops/attention_bwd.h    Tiles: tile.cuh, attention_tile.cuh
//
// WHAT    1. delta[i] = dout[i] . out[i], a warp a row
//         2. dK, dV: a block owns 64 keys and walks over the queries that see them
//         3. dQ:     a block owns 64 queries and walks over the keys that they see
//         Every sum belongs to one block and has one order: no atomics, the same bits every time,
//         for the price of computing S and dP twice.
// MATH    of a tile of 64 queries x 64 keys, probabilities again from the lse of the forward:
//             S = Q K^T     P = e^(scale S - lse)     dP = drop(dO V^T)    dS = P (dP - delta)
//             dV += drop(P)^T dO      dK += scale dS^T Q      dQ += scale dS K
// TILING
//          dK, dV        keys (block)             dQ           keys ->
//                       +--------+                            +--------+--------+--
//         queries  |    | P, dS  |            queries (block) | P, dS  |   ->   |
//                  v    +--------+                            +--------+--------+--
//                       | P, dS  |
//                       +--------+          tiles in which no query sees a key are skipped
//
//         Shared memory: two operand tiles X, Y and the tile pair | S -> P | dP -> dS | in f32,
//         where P and dS of the element type take the place of S and dP.
// COST    14 T T D FLOP a head (half when causal) where the contract counts 10; more when D > WIDTH
// ROUND   f32 scores and sums; P and dS are rounded to the element type for the last products.
// SHAPES  everything the contract allows below 2^31 rows.
// REGISTERS  (sm_80; no spills) dK, dV: f32 154, bf16 and f16 125, bf16 with D > 64 121;
//         dQ: 146, 119, 113; delta 30. Shared memory 67 KB (f32), 51 KB, 67 KB. For sm_90, which
//         has kernels of its own, dQ with D > 64 has 128 registers and spills 8 bytes.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/attention_tile.cuh"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"

namespace
{

enum {
    LDS = 2 * ATT_SIDE + 4, // of | S | dP |, f32
    DELTA_WARPS = 8,
};

// A warp a row of the head (b, h); rows are counted as lse is, [B,H,T].
template <typename T>
__global__ void __launch_bounds__(DELTA_WARPS * 32)
    attention_bwd_delta_kernel(float *delta, const AttentionBwdArgs a)
{
    const int64_t n = (int64_t)blockIdx.x * DELTA_WARPS + threadIdx.x / 32;
    if (n >= a.B * a.H * a.T) return;
    const int64_t b = n / a.T / a.H, h = n / a.T % a.H, t = n % a.T;
    const int64_t at = b * a.out_batch + t * a.out_row + h * a.D;
    const T *dout = static_cast<const T *>(a.dout) + at, *out = static_cast<const T *>(a.out) + at;
    float sum = 0.0f;
    for (int64_t d = threadIdx.x % 32; d < a.D; d += 32)
        sum = fmaf(to_f32(dout[d]), to_f32(out[d]), sum);
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) delta[n] = sum;
}

template <typename T> struct Tiles { // of a block, in shared memory
    T *X, *Y;                        // operands
    float *S;                        // | S | dP |
    T *P, *dS;                       // in their place
};

template <int WIDTH, typename T> __device__ __forceinline__ Tiles<T> tiles_in(char4 *smem)
{
    Tiles<T> s;
    s.X = reinterpret_cast<T *>(smem);
    s.Y = s.X + ATT_SIDE * tile_ld<T>(WIDTH);
    s.S = reinterpret_cast<float *>(s.Y + ATT_SIDE * tile_ld<T>(WIDTH));
    s.P = reinterpret_cast<T *>(s.S);
    s.dS = reinterpret_cast<T *>(s.S + ATT_SIDE);
    return s;
}

// What the kernels are given beside the arguments.
struct Context {
    AttentionMaskParams mask;
    Dropout drop;
    const float *delta; // [B,H,T]
    bool vec;
};

template <typename T> struct Heads {
    AttHead<const T> q, k, v, dout;
    const float *lse, *delta; // [T]
    DropKey key;
};

template <typename T>
__device__ __forceinline__ Heads<T> heads_of(const AttentionBwdArgs &a, const Context &c,
                                             const AttBlock &at)
{
    const int64_t offset = at.h * a.D, line = (at.b * a.H + at.h) * a.T;
    Heads<T> x;
    x.q = att_head<T>(a.q, a.qkv_batch, a.qkv_row, at.b, offset);
    x.k = att_head<T>(a.k, a.qkv_batch, a.qkv_row, at.b, offset);
    x.v = att_head<T>(a.v, a.qkv_batch, a.qkv_row, at.b, offset);
    x.dout = att_head<T>(a.dout, a.out_batch, a.out_row, at.b, offset);
    x.lse = a.lse + line;
    x.delta = c.delta + line;
    x.key = c.drop.on ? drop_key(c.drop, at.b, (uint32_t)at.h) : DropKey{};
    return x;
}

// dP = dO V^T, then S = Q K^T of queries q0.. and keys k0.., which leaves Q in X and K in Y.
template <int WIDTH, typename T>
__device__ __forceinline__ void two_scores(const Tiles<T> &tiles, const Heads<T> &x, int q0,
                                           TileRange queries, int k0, TileRange keys, int D,
                                           bool vec)
{
#pragma unroll 1
    for (int second = 0; second < 2; second++) {
        TileSums<1> s;
        att_scores<WIDTH>(s, tiles.X, tiles.Y, second ? x.q : x.dout, q0, queries, false,
                          second ? x.k : x.v, k0, keys, D, vec);
        tile_store<1, T>(tiles.S + (second ? 0 : ATT_SIDE), LDS, s);
    }
}

// S and dP of queries q0.. and keys k0.. become P (behind the dropout) and dS.
template <typename T>
__device__ __forceinline__ void gradients(const Tiles<T> &tiles, const Heads<T> &x,
                                          const Context &c, int b, int q0, int k0, float scale)
{
    constexpr int LDP = LDS * 4 / (int)sizeof(T);
    const int row = threadIdx.x / 4, i = q0 + row;
    const bool there = i < c.mask.Tq;
    const KeySpan span = there ? key_span(c.mask, b, i) : KeySpan{0, 0};
    const float lse = there ? x.lse[i] : 0.0f, delta = there ? x.delta[i] : 0.0f;
#pragma unroll 1
    for (int g = 0; g < ATT_GROUPS; g++) {
        const int column = att_column(g), k = k0 + column;
        float p[4], ds[4];
        uint32_t word[4];
        att_load4(p, tiles.S + row * LDS + column);
        att_load4(ds, tiles.S + row * LDS + ATT_SIDE + column);
        __syncwarp();
        if (c.drop.on) drop_words(word, x.key, (uint32_t)i, (uint32_t)k / 4);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const bool visible = k + e >= span.lo && k + e < span.hi;
            p[e] = visible ? expf(fmaf(p[e], scale, -lse)) : 0.0f;
            if (c.drop.on) ds[e] = drop_apply(c.drop, word[e], ds[e]);
            ds[e] = visible ? p[e] * (ds[e] - delta) : 0.0f;
            if (c.drop.on) p[e] = drop_apply(c.drop, word[e], p[e]);
        }
        att_store4(tiles.P + row * LDP + column, p);
        att_store4(tiles.dS + row * LDP + column, ds);
    }
}

template <typename T, int CHUNKS>
__global__ void __launch_bounds__(TILE_THREADS, sizeof(T) == 4 ? 1 : 2)
    attention_bwd_kv_kernel(const AttentionBwdArgs a, const Context c)
{
    constexpr int WIDTH = CHUNKS * ATT_SIDE, LD = tile_ld<T>(WIDTH);
    constexpr int LDP = LDS * 4 / (int)sizeof(T);
    extern __shared__ char4 smem[];
    const Tiles<T> tiles = tiles_in<WIDTH, T>(smem);
    const AttBlock at = att_block(a.H, a.T, a.D, WIDTH);
    const Heads<T> x = heads_of<T>(a, c, at);
    const int D = (int)a.D, end = (int)a.T, k0 = at.t0;
    const TileRange all = {0, end};

    TileSums<1> dk[CHUNKS], dv[CHUNKS];
#pragma unroll
    for (int n = 0; n < CHUNKS; n++) {
        tile_zero<1>(dk[n]);
        tile_zero<1>(dv[n]);
    }
    const bool near = c.mask.window > 0 && c.mask.window < end;
    const int last = near ? (int)min(k0 + ATT_SIDE + c.mask.window, a.T) : end;
    for (int q0 = c.mask.causal ? k0 : 0; q0 < last; q0 += ATT_SIDE) {
        const TileRange hull = att_hull(c.mask, at.b, q0);
        if (hull.begin >= k0 + ATT_SIDE || hull.end <= k0) continue;
        two_scores<WIDTH>(tiles, x, q0, all, k0, all, D, c.vec);
        att_load<WIDTH>(tiles.Y, x.dout, q0, all, at.d0, D, c.vec);
        if (D > WIDTH) att_load<WIDTH>(tiles.X, x.q, q0, all, at.d0, D, c.vec);
        __syncthreads();
        gradients(tiles, x, c, at.b, q0, k0, a.scale);
        tile_wait<0>();
#pragma unroll
        for (int n = 0; n < CHUNKS; n++) {
            const int column = n * ATT_SIDE;
            tile_product<1, true, true>(dk[n], tiles.dS, LDP, tiles.X + column, LD, ATT_SIDE);
            tile_product<1, true, true>(dv[n], tiles.P, LDP, tiles.Y + column, LD, ATT_SIDE);
        }
        __syncthreads();
    }
    const AttHead<T> to_k = att_head<T>(a.dk, a.qkv_batch, a.qkv_row, at.b, at.h * a.D);
    const AttHead<T> to_v = att_head<T>(a.dv, a.qkv_batch, a.qkv_row, at.b, at.h * a.D);
#pragma unroll
    for (int n = 0; n < CHUNKS; n++) {
        const int d = at.d0 + n * ATT_SIDE;
#pragma unroll
        for (int e = 0; e < ATT_SUMS; e++) dk[n][e / 4][e % 4] *= a.scale;
        att_write<T>(to_k, k0, end, d, D, dk[n], tiles.S, LDS);
        att_write<T>(to_v, k0, end, d, D, dv[n], tiles.S, LDS);
    }
}

template <typename T, int CHUNKS>
__global__ void __launch_bounds__(TILE_THREADS, sizeof(T) == 4 ? 1 : 2)
    attention_bwd_q_kernel(const AttentionBwdArgs a, const Context c)
{
    constexpr int WIDTH = CHUNKS * ATT_SIDE, LD = tile_ld<T>(WIDTH);
    constexpr int LDP = LDS * 4 / (int)sizeof(T);
    extern __shared__ char4 smem[];
    const Tiles<T> tiles = tiles_in<WIDTH, T>(smem);
    const AttBlock at = att_block(a.H, a.T, a.D, WIDTH);
    const Heads<T> x = heads_of<T>(a, c, at);
    const int D = (int)a.D, end = (int)a.T, q0 = at.t0;
    const TileRange all = {0, end}, hull = att_hull(c.mask, at.b, q0);

    TileSums<1> dq[CHUNKS];
#pragma unroll
    for (int n = 0; n < CHUNKS; n++) tile_zero<1>(dq[n]);
    for (int k0 = hull.begin / ATT_SIDE * ATT_SIDE; k0 < hull.end; k0 += ATT_SIDE) {
        two_scores<WIDTH>(tiles, x, q0, all, k0, hull, D, c.vec);
        if (D > WIDTH) att_load<WIDTH>(tiles.Y, x.k, k0, hull, at.d0, D, c.vec);
        __syncthreads();
        gradients(tiles, x, c, at.b, q0, k0, a.scale);
        tile_wait<0>();
#pragma unroll
        for (int n = 0; n < CHUNKS; n++)
            tile_product<1, false, true>(dq[n], tiles.dS, LDP, tiles.Y + n * ATT_SIDE, LD,
                                         ATT_SIDE);
        __syncthreads();
    }
    const AttHead<T> to_q = att_head<T>(a.dq, a.qkv_batch, a.qkv_row, at.b, at.h * a.D);
#pragma unroll
    for (int n = 0; n < CHUNKS; n++) {
#pragma unroll
        for (int e = 0; e < ATT_SUMS; e++) dq[n][e / 4][e % 4] *= a.scale;
        att_write<T>(to_q, q0, end, at.d0 + n * ATT_SIDE, D, dq[n], tiles.S, LDS);
    }
}

template <typename T, int CHUNKS>
cudaError_t run(const CudaDevice &d, const AttentionBwdArgs &a, float *delta)
{
    constexpr int WIDTH = CHUNKS * ATT_SIDE;
    const int64_t bytes = sizeof(T), rows = a.B * a.H * a.T;
    Context c;
    c.mask = attention_mask_params(a.mask, a.T, a.T, 0);
    c.drop = dropout_of(a.drop);
    c.delta = delta;
    c.vec = att_aligned(a.q, a.qkv_batch, a.qkv_row, a.D, bytes) &&
            att_aligned(a.k, a.qkv_batch, a.qkv_row, a.D, bytes) &&
            att_aligned(a.v, a.qkv_batch, a.qkv_row, a.D, bytes) &&
            att_aligned(a.dout, a.out_batch, a.out_row, a.D, bytes);
    const dim3 delta_blocks((unsigned)((rows + DELTA_WARPS - 1) / DELTA_WARPS));
    cudaError_t e = launch({delta_blocks, dim3(DELTA_WARPS * 32)}, d.stream,
                           attention_bwd_delta_kernel<T>, delta, a);
    const dim3 blocks((unsigned)att_blocks(a.B, a.H, a.T, a.D, WIDTH));
    const size_t smem =
        (size_t)ATT_SIDE * (2 * tile_ld<T>(WIDTH) * sizeof(T) + LDS * sizeof(float));
    if (e == cudaSuccess)
        e = launch({blocks, dim3(TILE_THREADS), smem}, d.stream, attention_bwd_kv_kernel<T, CHUNKS>,
                   a, c);
    if (e == cudaSuccess)
        e = launch({blocks, dim3(TILE_THREADS), smem}, d.stream, attention_bwd_q_kernel<T, CHUNKS>,
                   a, c);
    return e;
}

} // namespace

bool cuda_attention_bwd_supports(const CudaDevice *d, const AttentionBwdArgs *a, const char **why)
{
    (void)d;
    const bool ok = a->T < INT32_MAX - ATT_SIDE && a->D < INT32_MAX - ATT_SIDE &&
                    a->B * a->H * a->T / DELTA_WARPS < INT32_MAX &&
                    att_blocks(a->B, a->H, a->T, a->D, ATT_SIDE) <= INT32_MAX;
    if (!ok) *why = "2^31 rows or tiles";
    return ok;
}

size_t cuda_attention_bwd_scratch(const CudaDevice *d, const AttentionBwdArgs *a)
{
    (void)d;
    return (size_t)(a->B * a->H * a->T) * sizeof(float);
}

int cuda_attention_bwd(const CudaDevice *d, const AttentionBwdArgs *a, void *scratch)
{
    float *delta = static_cast<float *>(scratch);
    if (a->dtype == DTYPE_F32) return run<float, 1>(*d, *a, delta);
    if (a->dtype == DTYPE_BF16)
        return a->D <= ATT_SIDE ? run<__nv_bfloat16, 1>(*d, *a, delta)
                                : run<__nv_bfloat16, 2>(*d, *a, delta);
    return run<__half, 1>(*d, *a, delta);
}
