// attention_fwd_hopper.cuh -- softmax attention, forward, for Hopper: TMA, wgmma, warps with roles.
// Contract: kernels/ops/attention_fwd.h   Launcher: attention_fwd_hopper.cu
//
// WHAT    One block owns BM queries of one head and walks the keys in tiles of BN, last tile first.
//         One thread of the producer warpgroup feeds a ring of two K and two V tiles by TMA; each
//         consumer warpgroup owns 64 queries: it multiplies Q K^T from shared memory, keeps the
//         scores in registers, and multiplies P V with P in registers. No score reaches memory.
//
// MATH    Per row: the reference score m, the sum l of p = 2^(c (s - m)), c = scale log2(e), over
//         the columns that this thread holds, o = sum p v. When m moves, l and o take a factor
//         alpha = 2^(c (m_old - m_new)). At the end out = o / l, lse = scale m + ln(l), l summed
//         over the four threads of a row. c and -m are one FFMA a score.
//         D = 128: m moves only when a score passes it by a factor of 2^LAZY, so o is rarely
//         touched (no approximation: l, o and p share the same m). D = 64: one score in 16 takes
//         its 2^x on the FMA pipe, because MUFU alone (528 cycles a tile) would be slower than the
//         tensor cores (512).
//
// TILING            keys, tiles of BN, right to left    D    mask     BM   BN   consumers   shared
//                .. +--------+--------+--------+        128  full     128  176  2           208 KB
//         wg 1 64   | tile 0 | tile 1 | tile 2 |             others   128  128  2           160 KB
//                   |        |        |  mask  |         64  all      192  128  3            88 KB
//         wg 2 64   |  last  |        |  first |
//                .. +--------+--------+--------+        grid (ceil(Tq / BM), H, B), longest first
//
//         A tile in shared memory is [D / 64][rows][64], 128-byte swizzle (attention_tma.cuh). A
//         head size in between is the next larger one, with columns of zeros.
//
//         One step of a consumer; the other warpgroups' products run during its softmax:
//           wait K[t] | my turn | S = Q K[t]^T | o += P V[t-1] | your turn | S ready: release K[t],
//           max, 2^x, sum | wait V[t] | products done: release V[t-1], P = bf16(S), rescale o
//
// MASKS   FULL      every query sees all keys
//         CAUSAL    key <= query, both from 0; only the first tile (D = 64: two, as 192 rows reach
//                   over two tiles) is masked, by a copy of the step of its own
//         SPANS     any span of keys a query (attention_mask.cuh): windows, documents, q_pos0.
//                   Tiles that no query of the block sees are skipped; a warp whose 16 rows all
//                   see a whole tile skips the mask. V rows that the block does not see are zeroed
//                   in shared memory by a warp of the producer: 0 * NaN is NaN
//         DROPOUT   SPANS, and p is dropped after it was added to l
//
// DROPOUT Philox gives four neighbouring columns of a row, a thread holds two, in two rows. So even
//         threads draw for the first row, odd ones for the second, and neighbours swap. The bits of
//         a tile (64 a thread) are drawn while the products of that tile run.
//
// COST    4 Tq Tk D FLOP a head (causal: half). Per 128 keys and warpgroup 1024 tensor cycles
//         (D = 64: 512), of which wgmma keeps shared memory busy for 60 to 66 %. L2 -> SM per 128
//         keys: 64 KB (D = 64: 32 KB) in 2048 (1536) tensor cycles, 32 (21) bytes a clock. DRAM:
//         q, k, v and out once.
//
// REGISTERS ptxas -v counts 168 a thread (D = 64: 128), which setmaxnreg deals out anew: producer
//         24 (32), consumers 240 (160). No stack, no spill, in any of the kernels. Instructions
//         issued for each tensor cycle of a warp, and how many of them run under a product of the
//         own warpgroup (scripts/check_sass):
//                              D = 128          D = 64
//             full           .411   62 %     .857   79 %
//             causal         .444   59 %     .854   78 %
//             spans          .451            .878           a masked tile .650 and 1.275
//             dropout       1.015           1.785           Philox: about 500 instructions a tile
//
// SHAPES  bf16; any D up to 128, any number of queries and keys, what TMA can address
//         (attention_tma.cuh); scale > 0. f16 is left to attention_fwd.cu: another wgmma and other
//         conversions, hence each kernel twice, for a type that Hopper has no reason to train in.
//
// RULES   out, lse: assign. One block writes a row, sums in a fixed order: bitwise repeatable, no
//         atomics, no scratch. bf16 rounding of P is the only one inside; everything else is f32.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <type_traits>
#include "kernels/cuda/attention_fwd_hopper_tile.cuh"
#include "kernels/cuda/launch.cuh"

namespace
{

constexpr int STAGES = 2; // of K and of V; Ring relies on 2

struct SpansSmem {
    KeySpan row[192];
    TileSpan warp[12];  // of 16 rows each
    uint64_t v_edge[2]; // the first, the last V tile has come, its edges are still to be zeroed
};
struct NoSmem {
};

template <class L> struct Smem {            // every tile: [HALVES][rows][64], 128-byte swizzle
    alignas(1024) uint16_t q[L::BM * L::D]; // later the staging of out
    alignas(1024) uint16_t k[STAGES][L::BN * L::D];
    alignas(1024) uint16_t v[STAGES][L::BN * L::D];
    alignas(8) uint64_t q_full, k_full[STAGES], k_empty[STAGES], v_full[STAGES], v_empty[STAGES];
    std::conditional_t<L::SPANS, SpansSmem, NoSmem> spans;
};

// Named barriers, one of each kind per consumer warpgroup.
enum { BAR_TURN = 1, BAR_EPILOGUE = 4 };

// Where the ring stands: K of tile t, V of tile t - 1. Carried from step to step and flipped by a
// subtraction: computed from t, every step would build it anew (20 more issue slots).
struct Ring {
    uint32_t k, v;         // low descriptor words
    uint32_t k_sum, v_sum; // of both stages together
    uint32_t slot, phase;  // 8 * (t % 2): the barriers of tile t; its phase
};

__device__ __forceinline__ void ring_advance(Ring &r)
{
    r.k = r.k_sum - r.k;
    r.v = r.v_sum - r.v;
    r.phase ^= r.slot / 8;
    r.slot = 8 - r.slot;
}

// s = q k^T, one commit. 16 columns of D are 32 bytes; 64 are the next [rows][64] part. The offset
// is added in 64 bits: the high word is then not moved again for each wgmma.
template <class L> __device__ __forceinline__ void qk(Consumer<L> &c, uint32_t k)
{
#pragma unroll
    for (int kk = 0; kk < L::D / 16; ++kk) {
        const uint64_t a = ptx::desc(c.q) + (kk / 4 * L::BM * 128 + kk % 4 * 32) / 16;
        const uint64_t b = ptx::desc(k) + (kk / 4 * L::BN * 128 + kk % 4 * 32) / 16;
        ptx::wgmma_bf16<0, 0>(c.s, a, b, kk > 0);
    }
    ptx::wgmma_commit();
}

// o += p v, one commit. 16 rows of V are 2048 bytes.
template <class L>
__device__ __forceinline__ void pv(Consumer<L> &c, const uint32_t (&p)[L::BN / 4], uint32_t v)
{
#pragma unroll
    for (int kk = 0; kk < L::BN / 16; ++kk) {
        const uint64_t b = ptx::desc(v) + kk * 2048 / 16;
        ptx::wgmma_bf16_rs<1>(c.o, p[kk * 4], p[kk * 4 + 1], p[kk * 4 + 2], p[kk * 4 + 3], b, 1);
    }
    ptx::wgmma_commit();
}

// ---- a step -------------------------------------------------------------------------------------

// The consumers take turns in issuing products, so that one's softmax runs during the products of
// the others. Each turn barrier counts its owner (128 waiting threads) and the warpgroup before it
// (128 arriving).
template <class L> __device__ __forceinline__ void turn_wait(const Consumer<L> &c)
{
    ptx::bar_sync(BAR_TURN + c.wg, 256);
}
template <class L> __device__ __forceinline__ void turn_pass(const Consumer<L> &c)
{
    ptx::bar_arrive(BAR_TURN + (c.wg + 1 == L::CONSUMERS ? 0 : c.wg + 1), 256);
}

// Tile t: its scores and p; o of tile t - 1. On entry p and V of tile t - 1 are there. The wait for
// V[t] belongs to the next step; it stands before the last wgmma wait because it ends a basic
// block, and ptxas moves 2^x across the wgmma wait but not across blocks: the exponentials stay
// where the product o += P V hides them.
template <bool MASK, class L>
__device__ __forceinline__ void step(Consumer<L> &c, uint32_t (&p)[L::BN / 4], Ring &r, bool signal,
                                     int lim0, int lim1, Spans &w, const Draw &d)
{
    constexpr bool EMPTY = MASK || L::SPANS;
    uint32_t keep[2];
    ptx::mbar_wait(c.k_full + r.slot, r.phase);
    turn_wait(c);
    ptx::pin(c.s);
    ptx::pin(c.o);
    ptx::wgmma_fence();
    qk(c, r.k);
    pv(c, p, r.v);
    turn_pass(c);
    if (L::SPANS) w.n -= L::BN;
    if (L::DROPOUT) draw<L>(keep, d, w.n - w.first);

    ptx::wgmma_wait<1>();
    ptx::pin(c.s);
    if (signal) ptx::mbar_arrive(c.k_empty + r.slot);
    if (MASK) mask_above(c, lim0, lim1);
    if (L::SPANS) mask_spans(c, w);
    const bool rescale = softmax<false, EMPTY>(c);
    ptx::mbar_wait(c.v_full + r.slot, r.phase);

    ptx::wgmma_wait<0>();
    ptx::pin(c.o);
    ptx::pin(c.s);
    if (signal) ptx::mbar_arrive(c.v_empty + 8 - r.slot);
    to_bf16(p, c, keep); // not earlier: p is an operand of the product until here (C7513)
    if (__builtin_expect(rescale, 0)) {
#pragma unroll
        for (int i = 0; i < L::D / 2; ++i) c.o[i] *= c.alpha[i / 2 % 2];
    }
    ring_advance(r);
}

// ---- the producer -------------------------------------------------------------------------------

template <class L, int ROWS>
__device__ __forceinline__ void load_tile(uint32_t dst, const CUtensorMap *map, uint32_t bar,
                                          int row, int head, int batch)
{
#pragma unroll
    for (int i = 0; i < L::HALVES; ++i)
        ptx::tma_load_4d(dst + i * ROWS * 128, map, bar, i * 64, row, head, batch);
}

// The walk of a block over its keys: tile t begins at key n_last - t * BN.
struct Walk {
    int tiles, n_last;
    int lo, hi; // SPANS: keys that some query of the block sees
};

template <class L> __device__ __forceinline__ bool is_edge(const Walk &w, int n)
{
    return L::SPANS && (n < w.lo || n + L::BN > w.hi);
}

template <class L>
__device__ __forceinline__ void produce(Smem<L> &sm, const CUtensorMap *tq, const CUtensorMap *tk,
                                        const CUtensorMap *tv, const Walk &w, int m0, int head,
                                        int batch)
{
    const uint32_t k = ptx::smem_addr(sm.k), v = ptx::smem_addr(sm.v);
    const uint32_t k_full = ptx::smem_addr(sm.k_full), k_empty = ptx::smem_addr(sm.k_empty);
    const uint32_t v_full = ptx::smem_addr(sm.v_full), v_empty = ptx::smem_addr(sm.v_empty);
    const uint32_t q_full = ptx::smem_addr(&sm.q_full);
    ptx::mbar_arrive_expect_tx(q_full, L::BM * L::D * 2);
    load_tile<L, L::BM>(ptx::smem_addr(sm.q), tq, q_full, m0, head, batch);
    for (int t = 0; t <= w.tiles; ++t) { // K runs one tile ahead of V
        if (t < w.tiles) {
            const int s = t % STAGES;
            ptx::mbar_wait(k_empty + s * 8, (t / STAGES & 1) ^ 1);
            ptx::mbar_arrive_expect_tx(k_full + s * 8, L::BYTES);
            load_tile<L, L::BN>(k + s * L::BYTES, tk, k_full + s * 8, w.n_last - t * L::BN, head,
                                batch);
        }
        if (t > 0) {
            const int s = (t - 1) % STAGES, n = w.n_last - (t - 1) * L::BN;
            uint32_t bar = v_full + s * 8;
            if constexpr (L::SPANS)
                if (is_edge<L>(w, n)) bar = ptx::smem_addr(&sm.spans.v_edge[t > 1]);
            ptx::mbar_wait(v_empty + s * 8, ((t - 1) / STAGES & 1) ^ 1);
            ptx::mbar_arrive_expect_tx(bar, L::BYTES);
            load_tile<L, L::BN>(v + s * L::BYTES, tv, bar, n, head, batch);
        }
    }
}

// One warp: zeroes the V rows of the first and last tile that the block does not see.
template <class L> __device__ __forceinline__ void zero_edges(Smem<L> &sm, const Walk &w, int lane)
{
#pragma unroll 1
    for (int t = 0; t < w.tiles; t = t + 1 < w.tiles ? w.tiles - 1 : w.tiles) {
        const int n = w.n_last - t * L::BN;
        if (!is_edge<L>(w, n)) continue;
        ptx::mbar_wait(ptx::smem_addr(&sm.spans.v_edge[t > 0]), 0);
        for (int r = lane / 8; r < L::BN * L::HALVES; r += 4) {
            const int key = n + r % L::BN;
            if (key < w.lo || key >= w.hi)
                ptx::st_shared_v4(ptx::smem_addr(sm.v[t % STAGES]) + r * 128 + lane % 8 * 16, 0.f,
                                  0.f, 0.f, 0.f);
        }
        ptx::fence_async_proxy();
        __syncwarp();
        if (lane == 0) ptx::mbar_arrive(ptx::smem_addr(&sm.v_full[t % STAGES]));
    }
}

// ---- the kernel ---------------------------------------------------------------------------------

// The spans of this block's rows to shared memory. Every thread of the block comes here.
template <class L>
__device__ __forceinline__ void find_spans(Smem<L> &sm, const FwdParams &a, int m0, int batch)
{
    const int i = threadIdx.x;
    if (i / 32 * 32 >= L::BM) return;
    const bool inside = m0 + i < a.mask.Tq;
    const KeySpan s = inside ? key_span(a.mask, batch, m0 + i) : KeySpan{0, 0};
    sm.spans.row[i] = s;
    TileSpan t = inside ? tile_span_of(s) : tile_span_none();
    // 16 rows are one warp of a consumer: halves of this warp
#pragma unroll
    for (int x = 8; x > 0; x /= 2) {
        t.lo = min(t.lo, __shfl_xor_sync(0xffffffffu, t.lo, x));
        t.hi = max(t.hi, __shfl_xor_sync(0xffffffffu, t.hi, x));
        t.all_lo = max(t.all_lo, __shfl_xor_sync(0xffffffffu, t.all_lo, x));
        t.all_hi = min(t.all_hi, __shfl_xor_sync(0xffffffffu, t.all_hi, x));
    }
    if (i % 16 == 0) sm.spans.warp[i / 16] = t;
}

template <class L>
__device__ __forceinline__ Walk walk_of(const Smem<L> &sm, const FwdParams &a, int m0)
{
    Walk w;
    if constexpr (L::SPANS) {
        const int lane = threadIdx.x % 32;
        TileSpan t = tile_span_none();
        if (lane < L::BM / 16) t = sm.spans.warp[lane];
        t = tile_span_warp(t);
        w.lo = t.lo < t.hi ? t.lo : 0;
        w.hi = t.lo < t.hi ? t.hi : 0;
        const int start = w.lo & ~7; // dropout draws for groups of 8 columns
        w.tiles = max(1, (w.hi - start + L::BN - 1) / L::BN);
        w.n_last = start + (w.tiles - 1) * L::BN;
        w.tiles = ptx::opaque(w.tiles);
    } else {
        const int last = L::CAUSAL ? min(a.Tk, m0 + L::BM) : a.Tk;
        w.tiles = (last + L::BN - 1) / L::BN;
        w.n_last = (w.tiles - 1) * L::BN;
        w.lo = 0;
        w.hi = last;
    }
    return w;
}

template <class L>
__device__ __forceinline__ Draw draw_of(const FwdParams &a, int row, int lane, int head, int batch)
{
    Draw d;
    d.key = drop_key(a.drop, batch, head);
    d.row = (uint32_t)a.mask.q_pos0 + row + lane % 2 * 8;
    d.col4 = lane % 4 / 2;
    d.threshold = a.drop.threshold;
    return d;
}

// Where a consumer thread stands.
struct Place {
    int m0, head, batch; // first row of the block
    int warp, lane;      // of the warpgroup
    int row;             // its first row; the other is 8 further
    uint32_t q;          // address of the warpgroup's 64 rows of q
};

// The parts of the spans that a consumer thread needs.
template <class L>
__device__ __forceinline__ Spans spans_of(const Smem<L> &sm, const Place &at, int wg, int base)
{
    Spans w = {};
    if constexpr (L::SPANS) {
        const TileSpan of_warp = sm.spans.warp[wg * 4 + at.warp];
        w.row = ptx::smem_addr(&sm.spans.row[wg * 64 + at.warp * 16 + at.lane / 4]);
        w.all_lo = ptx::opaque(of_warp.all_lo);
        w.all_hi = ptx::opaque(of_warp.all_hi);
        w.n = base;
        w.first = at.lane % 4 * 2;
    }
    return w;
}

// The last tile of the keys, the first of the walk. FULL and CAUSAL: the only one that a mask cuts
// (but for D = 64 causal, whose 192 rows reach over two).
template <class L>
__device__ __forceinline__ void first_step(Consumer<L> &c, uint32_t (&p)[L::BN / 4], uint32_t k,
                                           bool signal, int lim0, int lim1, const Spans &w,
                                           const Draw &d)
{
    uint32_t keep[2];
    ptx::mbar_wait(c.k_full, 0);
    ptx::pin(c.s);
    ptx::wgmma_fence();
    qk(c, k);
    if (L::DROPOUT) draw<L>(keep, d, w.n - w.first);
    ptx::wgmma_wait<0>();
    ptx::pin(c.s);
    if (signal) ptx::mbar_arrive(c.k_empty);
    if (L::SPANS)
        mask_spans(c, w);
    else
        mask_above(c, lim0, lim1);
    softmax<true, L::EMPTY>(c);
    to_bf16(p, c, keep);
    ptx::mbar_wait(c.v_full, 0);
}

// lse and out of this thread's rows: registers, then the warpgroup's rows of q (whose products are
// done), then global memory. TMA clips rows from Tq on and columns from D on.
template <class L>
__device__ __forceinline__ void store_rows(const Consumer<L> &c, const Place &at,
                                           const FwdParams &a, const CUtensorMap *to)
{
    float inv[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        float sum = c.l[i];
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        inv[i] = L::SPANS && sum == 0.f ? 0.f : 1.f / sum; // no key: out is 0
        if (L::DROPOUT) inv[i] *= a.drop.scale;
        const int row = at.row + 8 * i;
        if (at.lane % 4 == 0 && row < a.Tq && a.lse)
            a.lse[((int64_t)at.batch * gridDim.y + at.head) * a.Tq + row] =
                c.m[i] * a.scale + __log2f(sum) * LN2;
    }

    ptx::bar_sync(BAR_EPILOGUE + c.wg, 128);
    const uint32_t in_tile = at.warp * 16 + at.lane % 16, line = at.q + in_tile * 128;
#pragma unroll
    for (int i = 0; i < L::D / 16; ++i) {
        uint32_t x[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float *o = &c.o[i * 8 + j * 2];
            x[j] = ptx::pack_bf16(o[0] * inv[j % 2], o[1] * inv[j % 2]);
        }
        const uint32_t chunk = i * 2 + at.lane / 16; // 16 bytes each
        ptx::stmatrix_x4(line + chunk / 8 * L::BM * 128 + ((chunk % 8) ^ (in_tile % 8)) * 16, x[0],
                         x[1], x[2], x[3]);
    }
    ptx::fence_async_proxy();
    ptx::bar_sync(BAR_EPILOGUE + c.wg, 128);
    const int row = at.m0 + c.wg * 64;
    if (at.warp == 0 && at.lane == 0 && row < a.Tq) {
#pragma unroll
        for (int i = 0; i < L::HALVES; ++i)
            ptx::tma_store_4d(to, at.q + i * L::BM * 128, i * 64, row, at.head, at.batch);
        ptx::bulk_commit();
        ptx::bulk_wait<0>();
    }
}

// A consumer warpgroup, from the first tile to the store of its 64 rows.
template <class L>
__device__ __forceinline__ void consume(Smem<L> &sm, const CUtensorMap *to, const FwdParams &a,
                                        const Walk &walk, int wg, int m0)
{
    const int thread = threadIdx.x % 128, lane = thread % 32;
    const bool signal = lane == 0;
    Place at = {m0, (int)blockIdx.y, (int)blockIdx.z, thread / 32, lane, 0, 0};
    Consumer<L> c;
    c.wg = wg;
    c.scale_log2 = a.scale * LOG2E;
    at.row = m0 + wg * 64 + at.warp * 16 + lane / 4;
    at.q = ptx::smem_addr(sm.q) + wg * 64 * 128;
    c.q = ptx::desc_lo(at.q, 16);
    c.k_full = ptx::smem_addr(sm.k_full), c.k_empty = ptx::smem_addr(sm.k_empty);
    c.v_full = ptx::smem_addr(sm.v_full), c.v_empty = ptx::smem_addr(sm.v_empty);
#pragma unroll
    for (int i = 0; i < L::D / 2; ++i) c.o[i] = 0.f;

    // Row r sees columns up to min(r, Tk - 1); relative to the last tile and the thread's first
    // column:
    const int base = walk.n_last + lane % 4 * 2;
    const int lim0 = (L::CAUSAL ? min(at.row, a.Tk - 1) : a.Tk - 1) - base;
    const int lim1 = (L::CAUSAL ? min(at.row + 8, a.Tk - 1) : a.Tk - 1) - base;
    Spans w = spans_of(sm, at, wg, base);
    Draw d = {};
    if constexpr (L::DROPOUT) d = draw_of<L>(a, at.row, lane, at.head, at.batch);

    // K and V of stage 0: the low descriptor words. V is read MN-major: its 64-column parts are
    // BN * 128 bytes apart.
    constexpr uint32_t STRIDE = L::BYTES / 16; // from stage 0 to stage 1
    const uint32_t k0 = ptx::desc_lo(ptx::smem_addr(sm.k), 16);
    const uint32_t v0 = ptx::desc_lo(ptx::smem_addr(sm.v), L::BN * 128);

    if (wg == L::CONSUMERS - 1) ptx::bar_arrive(BAR_TURN, 256); // warpgroup 0 begins

    uint32_t p[L::BN / 4];
    ptx::mbar_wait(ptx::smem_addr(&sm.q_full), 0);
    first_step(c, p, k0, signal, lim0, lim1, w, d);
    int t = 1;
    Ring r = {k0 + STRIDE, v0, 2 * k0 + STRIDE, 2 * v0 + STRIDE, 8, 0};
    if (L::CAUSAL && L::EMPTY && walk.tiles > 1) {
        step<true>(c, p, r, signal, lim0 + L::BN, lim1 + L::BN, w, d);
        t = 2;
    }
#pragma unroll 1
    for (; t < walk.tiles; ++t) step<false>(c, p, r, signal, 0, 0, w, d);

    // o of the last tile of the walk. No one waits for K or V any more.
    turn_wait(c);
    ptx::pin(c.o);
    ptx::wgmma_fence();
    pv(c, p, r.v);
    if (wg + 1 < L::CONSUMERS) turn_pass(c);
    ptx::wgmma_wait<0>();
    ptx::pin(c.o);
    store_rows(c, at, a, to);
}

template <class L>
__global__ void __launch_bounds__(L::THREADS, 1)
    attention_fwd_kernel(const __grid_constant__ CUtensorMap tq,
                         const __grid_constant__ CUtensorMap tk,
                         const __grid_constant__ CUtensorMap tv,
                         const __grid_constant__ CUtensorMap to,
                         const __grid_constant__ FwdParams a)
{
    extern __shared__ __align__(1024) uint8_t raw[];
    Smem<L> &sm = *reinterpret_cast<Smem<L> *>(raw);
    const int head = blockIdx.y, batch = blockIdx.z;
    const bool reverse = L::CAUSAL || L::SPANS; // the longest rows start first
    const int m0 = (reverse ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * L::BM;
    // Warp-uniform in a way that ptxas can prove: roles must not look divergent to wgmma.
    const int role = __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0);

    if (threadIdx.x == 0) {
        ptx::mbar_init(ptx::smem_addr(&sm.q_full), 1);
        for (int i = 0; i < STAGES; ++i) {
            ptx::mbar_init(ptx::smem_addr(&sm.k_full[i]), 1);
            ptx::mbar_init(ptx::smem_addr(&sm.v_full[i]), 1);
            ptx::mbar_init(ptx::smem_addr(&sm.k_empty[i]), 4 * L::CONSUMERS); // one a warp
            ptx::mbar_init(ptx::smem_addr(&sm.v_empty[i]), 4 * L::CONSUMERS);
            if constexpr (L::SPANS) ptx::mbar_init(ptx::smem_addr(&sm.spans.v_edge[i]), 1);
        }
        ptx::mbar_init_fence();
    }
    if constexpr (L::SPANS) find_spans(sm, a, m0, batch);
    __syncthreads();
    const Walk walk = walk_of(sm, a, m0);

    if (role == 0) {
        ptx::regs_dec<L::REGS_PRODUCER>();
        if (threadIdx.x == 0) produce(sm, &tq, &tk, &tv, walk, m0, head, batch);
        if constexpr (L::SPANS)
            if (threadIdx.x / 32 == 1) zero_edges(sm, walk, threadIdx.x % 32);
        return;
    }
    ptx::regs_inc<L::REGS_CONSUMER>();
    consume(sm, &to, a, walk, role - 1, m0);
}

template <int D, FwdMask MASK> cudaError_t fwd_head(const FwdCall &f, cudaStream_t stream)
{
    using L = Tile<D, MASK>;
    FwdMaps m;
    const cudaError_t e = fwd_maps(&m, f, L::BM, L::BN);
    if (e != cudaSuccess) return e;
    const LaunchShape shape = {
        dim3((unsigned)((f.params.Tq + L::BM - 1) / L::BM), (unsigned)f.H, (unsigned)f.B),
        dim3(L::THREADS), sizeof(Smem<L>)};
    return launch(shape, stream, attention_fwd_kernel<L>, m.q, m.k, m.v, m.out, f.params);
}

template <FwdMask MASK> cudaError_t fwd_mask(const FwdCall &f, cudaStream_t stream)
{
    return f.D <= 64 ? fwd_head<64, MASK>(f, stream) : fwd_head<128, MASK>(f, stream);
}

} // namespace
