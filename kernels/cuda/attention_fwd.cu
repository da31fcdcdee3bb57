// attention_fwd.cu -- attention forward with an online softmax, any GPU from sm_80 on.
// Contract: kernels/ops/attention_fwd.h    Tiles: tile.cuh, attention_tile.cuh
//
// WHAT    FlashAttention (Dao et al. 2022; 2023) in its plain form: no T x T matrix in memory.
// MATH    A block keeps for each of its 64 queries the maximum m and the sum l of the scores so
//         far, and the output o so far. With the scores s of 64 more keys, in units of log 2:
//             m' = max(m, s)    p = 2^(s - m')    f = 2^(m - m')
//             l  = f l + sum p  o = f o + drop(p) V
//         and at the end out = o / l, lse = log(l) + m.
// TILING
//                      keys  k0       k0+64    k0+128
//         queries q0 ..    +--------+--------+----        S = Q K^T      registers -> shared f32
//                          | S -> P |   ->   | ...        softmax        four threads a row
//                 q0+63    +--------+--------+----        O = f O + P V  P lies where S lay
//
//         Key tiles that no query of the block sees are skipped, and rows of K and V that none sees
//         are not read. V is on its way while the softmax runs.
// COST    4 Tq Tk D FLOP a head (half when causal), (1 + slices) / 2 of it again when D > WIDTH. A
//         block reads K and V once: 64 queries times 4 FLOP for every element of them.
// ROUND   f32 scores, sums and output; p is rounded to the element type for the second product.
// SHAPES  everything the contract allows below 2^31 queries and keys.
// REGISTERS  (sm_80; no spills) f32 96; bf16 and f16 119, bf16 with D > 64 112. Shared memory 51 KB
//         (f32), 35 KB, 51 KB: two blocks on an SM.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/attention_tile.cuh"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/launch.cuh"

namespace
{

enum { LDS = ATT_SIDE + 4 }; // of the scores, f32
const float LOG2E = 1.44269504088896341f, LN2 = 0.69314718055994531f;

// Sum and maximum over the four threads of a row.
__device__ __forceinline__ float row_sum(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
__device__ __forceinline__ float row_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

struct RowState {
    float top, sum; // maximum; this thread's part of the sum
};

// Scores of keys k0 .. k0 + 63 become probabilities against the new maximum, in place. Returns the
// factor of what was summed so far.
template <typename T>
__device__ __forceinline__ float softmax(float *S, RowState &state, KeySpan span, int k0,
                                         float scale, const Dropout &drop, const DropKey &key,
                                         uint32_t position)
{
    float *line = S + threadIdx.x / 4 * LDS, top = state.top;
#pragma unroll
    for (int g = 0; g < ATT_GROUPS; g++) {
        const int k = k0 + att_column(g);
        float x[4];
        att_load4(x, line + att_column(g));
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (k + e >= span.lo && k + e < span.hi) top = fmaxf(top, x[e] * scale);
    }
    top = row_max(top);
    const float base = top == -INFINITY ? 0.0f : top; // no key yet: 2^(-infinity) is 0
    const float factor = exp2f(state.top - base);
    state.top = top;
    state.sum *= factor;
#pragma unroll 1
    for (int g = 0; g < ATT_GROUPS; g++) {
        const int k = k0 + att_column(g);
        float p[4];
        att_load4(p, line + att_column(g));
        __syncwarp();
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const bool visible = k + e >= span.lo && k + e < span.hi;
            p[e] = visible ? exp2f(p[e] * scale - base) : 0.0f;
            state.sum += p[e];
        }
        if (drop.on) { // the factor 1 / (1 - p) comes at the end
            uint32_t word[4];
            drop_words(word, key, position, (uint32_t)k / 4);
#pragma unroll
            for (int e = 0; e < 4; e++) p[e] = word[e] >= drop.threshold ? p[e] : 0.0f;
        }
        att_store4(reinterpret_cast<T *>(line) + att_column(g), p);
    }
    return factor;
}

template <typename T, int CHUNKS>
__global__ void __launch_bounds__(TILE_THREADS, 2)
    attention_fwd_kernel(const AttentionFwdArgs a, const AttentionMaskParams mask,
                         const Dropout drop, bool vec)
{
    constexpr int WIDTH = CHUNKS * ATT_SIDE, LD = tile_ld<T>(WIDTH);
    constexpr int LDP = LDS * 4 / (int)sizeof(T); // of the probabilities, which lie in S
    extern __shared__ char4 smem[];
    T *X = reinterpret_cast<T *>(smem), *Y = X + ATT_SIDE * LD;
    float *S = reinterpret_cast<float *>(Y + ATT_SIDE * LD), *row_factor = S + ATT_SIDE * LDS;
    T *P = reinterpret_cast<T *>(S);

    const AttBlock at = att_block(a.H, a.Tq, a.D, WIDTH);
    const int D = (int)a.D, Tq = mask.Tq, row = threadIdx.x / 4, i = at.t0 + row;
    const int64_t offset = at.h * a.D;
    const AttHead<const T> q = att_head<T>(a.q, a.q_batch, a.q_row, at.b, offset);
    const AttHead<const T> k = att_head<T>(a.k, a.kv_batch, a.kv_row, at.b, offset);
    const AttHead<const T> v = att_head<T>(a.v, a.kv_batch, a.kv_row, at.b, offset);
    const KeySpan span = i < Tq ? key_span(mask, at.b, i) : KeySpan{0, 0};
    const TileRange hull = att_hull(mask, at.b, at.t0);
    const DropKey key = drop.on ? drop_key(drop, at.b, (uint32_t)at.h) : DropKey{};

    RowState state = {-INFINITY, 0.0f};
    TileSums<1> o[CHUNKS];
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) tile_zero<1>(o[c]);
    bool q_loaded = false;
    for (int k0 = hull.begin / ATT_SIDE * ATT_SIDE; k0 < hull.end; k0 += ATT_SIDE) {
        TileSums<1> s;
        att_scores<WIDTH>(s, X, Y, q, at.t0, {0, Tq}, q_loaded, k, k0, hull, D, vec);
        q_loaded = D <= WIDTH;
        att_load<WIDTH>(Y, v, k0, hull, at.d0, D, vec);
        tile_store<1, T>(S, LDS, s);
        __syncthreads();
        const float factor =
            softmax<T>(S, state, span, k0, a.scale * LOG2E, drop, key, (uint32_t)(a.q_pos0 + i));
        if (threadIdx.x % 4 == 0) row_factor[row] = factor;
        tile_wait<0>(); // V, the probabilities and the factors are here
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
#pragma unroll
            for (int n = 0; n < ATT_SUMS; n++) o[c][n / 4][n % 4] *= row_factor[tile_row<1, T>(n)];
            tile_product<1, false, true>(o[c], P, LDP, Y + c * ATT_SIDE, LD, ATT_SIDE);
        }
        __syncthreads();
    }

    const float sum = row_sum(state.sum);
    if (threadIdx.x % 4 == 0) {
        row_factor[row] = span.lo < span.hi ? (drop.on ? drop.scale : 1.0f) / sum : 0.0f;
        if (a.lse && i < Tq && at.d0 == 0)
            a.lse[(at.b * a.H + at.h) * a.Tq + i] =
                span.lo < span.hi ? state.top * LN2 + logf(sum) : -INFINITY;
    }
    __syncthreads();
    const AttHead<T> out = att_head<T>(a.out, a.out_batch, a.out_row, at.b, offset);
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
#pragma unroll
        for (int n = 0; n < ATT_SUMS; n++) { // no key: 0, whatever the keys of the others held
            const float f = row_factor[tile_row<1, T>(n)];
            o[c][n / 4][n % 4] = f == 0.0f ? 0.0f : o[c][n / 4][n % 4] * f;
        }
        att_write<T>(out, at.t0, Tq, at.d0 + c * ATT_SIDE, D, o[c], S, LDS);
    }
}

template <typename T, int CHUNKS> cudaError_t run(const CudaDevice &d, const AttentionFwdArgs &a)
{
    constexpr int WIDTH = CHUNKS * ATT_SIDE;
    const int64_t blocks = att_blocks(a.B, a.H, a.Tq, a.D, WIDTH), bytes = sizeof(T);
    const bool vec = att_aligned(a.q, a.q_batch, a.q_row, a.D, bytes) &&
                     att_aligned(a.k, a.kv_batch, a.kv_row, a.D, bytes) &&
                     att_aligned(a.v, a.kv_batch, a.kv_row, a.D, bytes);
    const size_t smem =
        (size_t)ATT_SIDE * (2 * tile_ld<T>(WIDTH) * sizeof(T) + (LDS + 1) * sizeof(float));
    return launch({dim3((unsigned)blocks), dim3(TILE_THREADS), smem}, d.stream,
                  attention_fwd_kernel<T, CHUNKS>, a,
                  attention_mask_params(a.mask, a.Tq, a.Tk, a.q_pos0), dropout_of(a.drop), vec);
}

} // namespace

bool cuda_attention_fwd_supports(const CudaDevice *d, const AttentionFwdArgs *a, const char **why)
{
    (void)d;
    const bool ok = a->Tq < INT32_MAX - ATT_SIDE && a->Tk < INT32_MAX - ATT_SIDE &&
                    a->D < INT32_MAX - ATT_SIDE &&
                    att_blocks(a->B, a->H, a->Tq, a->D, ATT_SIDE) <= INT32_MAX;
    if (!ok) *why = "2^31 queries, keys or tiles";
    return ok;
}

size_t cuda_attention_fwd_scratch(const CudaDevice *d, const AttentionFwdArgs *a)
{
    (void)d;
    (void)a;
    return 0;
}

int cuda_attention_fwd(const CudaDevice *d, const AttentionFwdArgs *a, void *scratch)
{
    (void)scratch;
    if (a->dtype == DTYPE_F32) return run<float, 1>(*d, *a);
    if (a->dtype == DTYPE_BF16)
        return a->D <= ATT_SIDE ? run<__nv_bfloat16, 1>(*d, *a) : run<__nv_bfloat16, 2>(*d, *a);
    return run<__half, 1>(*d, *a);
}
