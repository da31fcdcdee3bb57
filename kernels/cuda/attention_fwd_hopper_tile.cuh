// attention_fwd_hopper_tile.cuh -- what a consumer thread of attention_fwd_hopper.cuh does to the
// scores of a tile, which it holds in registers: mask, online softmax, dropout, rounding to bf16.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cuda/attention_fwd_hopper_params.cuh"
#include "kernels/cuda/ptx.cuh"

namespace
{

constexpr int FMA_EVERY = 16; // D = 64: every 16th 2^x avoids MUFU
constexpr float LAZY = 8.f;   // D = 128: m moves when the largest score passes it by 2^LAZY
constexpr float LOG2E = 1.4426950408889634f, LN2 = 0.6931471805599453f;

template <int HEAD, FwdMask MASK> struct Tile {
    static constexpr int D = HEAD;
    static constexpr bool CAUSAL = MASK == FWD_CAUSAL;
    static constexpr bool SPANS = MASK == FWD_SPANS || MASK == FWD_DROPOUT;
    static constexpr bool DROPOUT = MASK == FWD_DROPOUT;
    static constexpr int BN = D == 128 && MASK == FWD_FULL ? 176 : 128; // keys in a tile
    static constexpr int CONSUMERS = D == 64 ? 3 : 2;                   // warpgroups
    static constexpr int BM = 64 * CONSUMERS;
    static constexpr int THREADS = 128 * (CONSUMERS + 1);
    static constexpr int HALVES = D / 64; // 128-byte wide parts of a tile
    static constexpr int REGS_PRODUCER = D == 64 ? 32 : 24, REGS_CONSUMER = D == 64 ? 160 : 240;
    // May a row have no column yet after the first tile?
    static constexpr bool EMPTY = SPANS || (CAUSAL && BM > BN);
    static constexpr uint32_t BYTES = BN * D * 2; // of a K or V tile
};

// What a consumer thread keeps. Element i of s and o is row i / 2 % 2 (8 rows apart), column
// i / 4 * 8 + i % 2 behind the thread's first.
template <class L> struct Consumer {
    float s[L::BN / 2], o[L::D / 2]; // scores of a tile, then p; out, not normalised
    float m[2], l[2], alpha[2];      // per row: reference score, sum of p, factor that o waits for
    float scale_log2;                // scale * log2(e)
    uint32_t q;                      // low descriptor word of this warpgroup's 64 rows
    uint32_t k_full, k_empty, v_full, v_empty; // addresses of the barriers of stage 0
    int wg;
};

// ---- masks --------------------------------------------------------------------------------------

// Columns of the tile beyond lim of their row count as -inf. Limits are relative to this thread's
// first column.
template <class L> __device__ __forceinline__ void mask_above(Consumer<L> &c, int lim0, int lim1)
{
#pragma unroll
    for (int i = 0; i < L::BN / 2; ++i) {
        const int col = i / 4 * 8 + i % 2;
        if (col > (i & 2 ? lim1 : lim0)) c.s[i] = -INFINITY;
    }
}

// What a thread of a SPANS kernel needs to know of its rows.
struct Spans {
    uint32_t row;       // address of the span of its first row; the other is 8 further
    int all_lo, all_hi; // keys that every row of the warp sees
    int n;              // first key of the tile, plus this thread's first column
    int first;          // this thread's first column in a tile
};

__device__ __forceinline__ KeySpan load_span(uint32_t address)
{
    return {(int)ptx::ld_shared(address), (int)ptx::ld_shared(address + 4)};
}

// Columns outside the span of their row count as -inf.
template <class L> __device__ __forceinline__ void mask_spans(Consumer<L> &c, const Spans &w)
{
    const int n = w.n - w.first;
    if (n >= w.all_lo && n + L::BN <= w.all_hi) return;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const KeySpan s = load_span(w.row + r * 8 * (uint32_t)sizeof(KeySpan));
        const int lo = s.lo - w.n, hi = s.hi - w.n;
#pragma unroll
        for (int i = 2 * r; i < L::BN / 2; i += i % 2 ? 3 : 1) {
            const int col = i / 4 * 8 + i % 2;
            if (col < lo || col >= hi) c.s[i] = -INFINITY;
        }
    }
}

// ---- dropout ------------------------------------------------------------------------------------

struct Draw { // what a thread draws: columns 4 col4 .. 4 col4 + 3 of each 8, of one row
    DropKey key;
    uint32_t row, col4, threshold;
};

// Which of this thread's scores of the tile at key n stay: bit i % 32 of keep[i / 32] is c.s[i]'s.
template <class L> __device__ __forceinline__ void draw(uint32_t (&keep)[2], const Draw &d, int n)
{
    constexpr int CALLS = L::D == 64 ? 2 : 4; // at a time; more take registers that are not there
    const bool odd = threadIdx.x & 1;
    uint64_t mine = 0; // bit 4 g + j: column 8 g + 4 col4 + j
#pragma unroll 1
    for (int g = 0; g < L::BN / 8; g += CALLS) {
        uint64_t bits = 0;
#pragma unroll
        for (int u = 0; u < CALLS; ++u) {
            uint32_t w[4], four = 0;
            drop_words(w, d.key, d.row, d.col4 + n / 4 + 2 * (g + u));
#pragma unroll
            for (int j = 0; j < 4; ++j) four |= (uint32_t)(w[j] >= d.threshold) << j;
            bits |= (uint64_t)four << (64 - 4 * CALLS + 4 * u);
        }
        mine = mine >> (4 * CALLS) | bits;
    }
    // Even threads drew for the first row, odd ones for the second; an even thread's columns are
    // the first two of the four.
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const uint32_t own = (uint32_t)(mine >> (32 * i));
        const uint32_t other = __shfl_xor_sync(0xffffffffu, own, 1);
        const uint32_t row0 = odd ? other >> 2 : own, row1 = odd ? own >> 2 : other;
        keep[i] = (row0 & 0x33333333u) | (row1 & 0x33333333u) << 2;
    }
}

// ---- softmax ------------------------------------------------------------------------------------

__device__ __forceinline__ float quad_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

// 2^x on the FMA pipe. x = n + f, |f| <= 1/2: 2^f by a minimax polynomial (relative error 3e-6),
// 2^n by its exponent bits. x <= 127; below -127 the answer is 0; NaN stays NaN.
__device__ __forceinline__ float ex2_fma(float x)
{
    x = ptx::max_nan(x, -127.f);
    const float t = x + 12582912.f, f = x - (t - 12582912.f); // the low bits of t are n
    float p = __fmaf_rn(f, 0.0095828551f, 0.0559064347f);
    p = __fmaf_rn(f, p, 0.2402409864f);
    p = __fmaf_rn(f, p, 0.6931241923f);
    p = __fmaf_rn(f, p, 1.f);
    return p * __int_as_float((__float_as_int(t) << 23) + 0x3f800000);
}

// Online softmax over the tile in c.s: leaves 2^(scale_log2 (s - m)) in c.s, adds it up in l.
// Returns whether o needs to be multiplied by alpha. D = 128: m follows the largest score only when
// that ran away by a factor of 2^LAZY; until then p, l and o may be that much larger than usual,
// which costs no precision in floating point. A row decides for itself and has alpha = 1 exactly if
// it stays; the answer is for the warp. EMPTY: a row may have no column yet.
template <bool FIRST, bool EMPTY, class L> __device__ __forceinline__ bool softmax(Consumer<L> &c)
{
    bool moved = L::D == 64;
    float neg[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float x = FIRST ? c.s[2 * r] : c.m[r];
#pragma unroll
        for (int i = FIRST ? 4 : 0; i < L::BN / 2; i += 4) x = fmaxf(x, c.s[i + 2 * r]);
#pragma unroll
        for (int i = 0; i < L::BN / 2; i += 4) x = fmaxf(x, c.s[i + 2 * r + 1]);
        x = quad_max(x);
        if (!FIRST && L::D == 128) {
            const bool move = (x - c.m[r]) * c.scale_log2 > LAZY;
            x = move ? x : c.m[r];
            moved |= move;
        }
        const float finite = EMPTY && x == -INFINITY ? 0.f : x;
        neg[r] = -finite * c.scale_log2;
        if (!FIRST) {
            c.alpha[r] = ptx::ex2((c.m[r] - finite) * c.scale_log2);
            c.l[r] *= c.alpha[r];
        }
        c.m[r] = x;
    }
#pragma unroll
    for (int i = 0; i < L::BN / 2; ++i) {
        const int r = i / 2 % 2;
        const float x = __fmaf_rn(c.s[i], c.scale_log2, neg[r]);
        c.s[i] = L::D == 64 && i % FMA_EVERY == FMA_EVERY - 1 ? ex2_fma(x) : ptx::ex2(x);
        c.l[r] = FIRST && i % 2 == 0 && i < 4 ? c.s[i] : c.l[r] + c.s[i];
    }
    return L::D == 64 || (!FIRST && __any_sync(0xffffffffu, moved));
}

template <class L>
__device__ __forceinline__ void to_bf16(uint32_t (&p)[L::BN / 4], const Consumer<L> &c,
                                        const uint32_t (&keep)[2])
{
#pragma unroll
    for (int i = 0; i < L::BN / 4; ++i) {
        float lo = c.s[2 * i], hi = c.s[2 * i + 1];
        if (L::DROPOUT) { // a dropped element is 0 even where p is NaN
            lo = keep[i / 16] >> (2 * i % 32) & 1 ? lo : 0.f;
            hi = keep[i / 16] >> (2 * i % 32 + 1) & 1 ? hi : 0.f;
        }
        p[i] = ptx::pack_bf16(lo, hi);
    }
}

} // namespace
