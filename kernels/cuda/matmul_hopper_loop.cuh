// matmul_hopper_loop.cuh -- the ring of stages, its producer, and the main loop.
// The page is matmul_hopper.cuh.
//
//     producer                               consumer
//     wait empty[s]                          wait full[s]
//     expect the bytes of a stage            4 or 8 wgmma, commit
//     TMA A, TMA B -> full[s]                wait for the group before: release its stage
//
// One group of wgmma is always in flight. The loop must stay as it is: ptxas serialises all wgmmas
// of a loop in which an accumulator is touched too early, and says so only in a notice.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cuda/matmul_hopper.cuh"

namespace matmul_hopper
{

using namespace ptx;

struct Work {
    int m0, n0, tile, part, k0, k1; // first row and column; k-blocks
};

// Work item w -> tile and range of k-blocks. Parts of a tile are neighbours: they run in one wave.
template <class C> PTX_FN Work work_at(const Params &p, int w)
{
    Work r;
    const int splits = C::SPLIT ? p.splits : 1;
    r.tile = w / splits;
    r.part = w - r.tile * splits;
    const int per_group = C::GROUP_M * p.tiles_n;
    const int g = r.tile / per_group, in = r.tile - g * per_group;
    const int rows = min(C::GROUP_M, p.tiles_m - g * C::GROUP_M);
    r.m0 = (g * C::GROUP_M + in % rows) * C::BM * C::CLUSTER;
    r.n0 = in / rows * C::BN;
    r.k0 = (int)((int64_t)p.k_blocks * r.part / splits);
    r.k1 = (int)((int64_t)p.k_blocks * (r.part + 1) / splits);
    return r;
}

// A position in the ring. The parity of the barriers flips at each turn.
struct Ring {
    uint32_t stage, parity;
};

template <class C> PTX_FN void ring_next(Ring &r)
{
    if (++r.stage == C::STAGES) {
        r.stage = 0;
        r.parity ^= 1;
    }
}

template <class C> PTX_FN void ring_skip(Ring &r, int n)
{
    const uint32_t to = r.stage + n;
    r.parity ^= to / C::STAGES & 1;
    r.stage = to % C::STAGES;
}

// ---- producer -----------------------------------------------------------------------------------

template <class C>
PTX_FN void load_b(uint32_t dst, const CUtensorMap *tb, uint32_t bar, int c0, int c1)
{
    if (C::CLUSTER > 1)
        tma_multicast_2d(dst, tb, bar, c0, c1, (1 << C::CLUSTER) - 1);
    else
        tma_load_2d(dst, tb, bar, c0, c1);
}

// 128 bytes of k of A, at `a`, and of B, behind it.
template <class C>
PTX_FN void load_part(uint32_t a, uint32_t bar, const CUtensorMap *ta, const CUtensorMap *tb,
                      int m0, int n0, int k, int rank)
{
    if (C::A_MN) {
#pragma unroll
        for (int i = 0; i < C::BM / 64; ++i)
            tma_load_2d(a + i * BOX_BYTES, ta, bar, m0 + 64 * i, k);
    } else {
        tma_load_2d(a, ta, bar, k, m0);
    }
    // B: all of it, or this CTA's part for all CTAs of the cluster.
    constexpr int PART = C::BN / C::CLUSTER;
    const int n = rank * PART;
    const uint32_t b = a + C::A_BYTES + n * ROW;
    if (C::B_MN) {
#pragma unroll
        for (int i = 0; i < PART / 64; ++i)
            load_b<C>(b + i * BOX_BYTES, tb, bar, n0 + n + 64 * i, k);
    } else {
        load_b<C>(b, tb, bar, k, n0 + n);
    }
}

// One thread.
template <class C>
PTX_FN void produce(const Params &p, const CUtensorMap *ta, const CUtensorMap *tb, uint32_t smem)
{
    const uint32_t full = smem + C::BAR_AT, empty = full + 8 * C::STAGES;
    const int rank = C::CLUSTER > 1 ? (int)cluster_rank() : 0;
    Ring ring = {0, 0};
    tma_prefetch_map(ta);
    tma_prefetch_map(tb);
    for (int w = blockIdx.x / C::CLUSTER; w < p.work; w += gridDim.x / C::CLUSTER) {
        const Work t = work_at<C>(p, w);
        for (int kb = t.k0; kb < t.k1; ++kb, ring_next<C>(ring)) {
            const uint32_t bar = full + 8 * ring.stage;
            mbar_wait(empty + 8 * ring.stage, ring.parity ^ 1); // new: as if one turn were done
            mbar_arrive_expect_tx(bar, C::STAGE_BYTES);
#pragma unroll
            for (int i = 0; i < C::PARTS; ++i)
                load_part<C>(smem + ring.stage * C::STAGE_BYTES + i * C::PART_BYTES, bar, ta, tb,
                             t.m0 + rank * C::BM, t.n0, (kb * C::PARTS + i) * C::BK, rank);
        }
    }
}

// ---- consumer -----------------------------------------------------------------------------------

// A consumer's view of the ring. The first three are loop constants that ptxas would compute again
// in each iteration, did it know where they come from: see opaque().
struct Operands {
    uint32_t a_lo, b_lo, full; // descriptors of stage 0; barriers
    uint32_t to_empty;         // from full[s] to empty[s] of CTA `lane` of the cluster
    uint32_t last_empty;       // of the stage before
    bool signals;              // lane i of each warp tells CTA i
    Ring ring;
};

template <class C> PTX_FN Operands operands_at(uint32_t smem, int consumer)
{
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t a = smem + (C::PINGPONG ? 0 : consumer * BOX_BYTES), b = smem + C::A_BYTES;
    Operands s;
    s.a_lo = opaque(desc_lo(a, C::A_MN ? BOX_BYTES : 16));
    s.b_lo = opaque(desc_lo(b, C::B_MN ? BOX_BYTES : 16));
    s.full = opaque(smem + C::BAR_AT);
    const uint32_t empty = s.full + 8 * C::STAGES;
    s.to_empty = (C::CLUSTER > 1 ? cluster_addr(empty, lane % C::CLUSTER) : empty) - s.full;
    s.last_empty = empty;
    s.signals = lane < C::CLUSTER;
    s.ring = {0, 0};
    return s;
}

// The wgmma of a k-block; keep = 0 starts a fresh accumulator.
template <class C> PTX_FN void multiply(float (&d)[C::REGS], uint32_t a_lo, uint32_t b_lo, int keep)
{
    constexpr int A_STEP =
        C::A_MN ? 16 * ROW / 16 : 2; // the next 16 rows of 128 bytes, or the next
    constexpr int B_STEP = C::B_MN ? 16 * ROW / 16 : 2; // 32 bytes of a row; in units of 16 bytes
#pragma unroll
    for (int i = 0; i < 4 * C::PARTS; ++i) {
        const int part = i / 4 * (C::PART_BYTES >> 4);
        const uint64_t a = desc(a_lo + part + i % 4 * A_STEP);
        const uint64_t b = desc(b_lo + part + i % 4 * B_STEP);
        if constexpr (C::ELEM == DTYPE_E4M3)
            wgmma_e4m3(d, a, b, i > 0 ? 1 : keep);
        else if constexpr (C::ELEM == DTYPE_E5M2)
            wgmma_e5m2(d, a, b, i > 0 ? 1 : keep);
        else if constexpr (C::ELEM == DTYPE_BF16)
            wgmma_bf16<C::A_MN, C::B_MN>(d, a, b, i > 0 ? 1 : keep);
        else
            wgmma_f16<C::A_MN, C::B_MN>(d, a, b, i > 0 ? 1 : keep);
    }
}

template <class C> PTX_FN void issue(float (&d)[C::REGS], const Operands &s, int keep)
{
    const uint32_t at = s.ring.stage * (C::STAGE_BYTES >> 4);
    mbar_wait(s.full + 8 * s.ring.stage, s.ring.parity);
    pin(d);
    wgmma_fence();
    multiply<C>(d, s.a_lo + at, s.b_lo + at, keep);
    wgmma_commit();
    pin(d);
}

template <class C> PTX_FN void release_last(const Operands &s)
{
    if (!s.signals) return;
    if (C::CLUSTER > 1)
        mbar_arrive_cluster(s.last_empty);
    else
        mbar_arrive(s.last_empty);
}

template <class C> PTX_FN void advance(Operands &s)
{
    s.last_empty = s.to_empty + (s.full + 8 * s.ring.stage);
    ring_next<C>(s.ring);
}

// The first k-block; then there is time for other things. More k-blocks: sum_rest().
template <class C> PTX_FN void sum_first(float (&acc)[C::REGS], Operands &s)
{
    issue<C>(acc, s, 0);
    advance<C>(s);
}

// pass_to: ping-pong, the barrier of the consumer whose turn is next; 0: nobody's.
template <class C>
PTX_FN void sum_rest(float (&acc)[C::REGS], Operands &s, int k_blocks, uint32_t pass_to)
{
    s.a_lo = opaque(s.a_lo);
    s.b_lo = opaque(s.b_lo);
    s.full = opaque(s.full);
    s.ring = {opaque(s.ring.stage), opaque(s.ring.parity)};
#pragma unroll 1
    for (int left = k_blocks - 1; left != 0; --left) {
        issue<C>(acc, s, 1);
        wgmma_wait<1>();
        release_last<C>(s);
        advance<C>(s);
    }
    if (C::PINGPONG && pass_to) bar_arrive(pass_to, CONSUMERS * WARPGROUP);
    wgmma_wait<0>();
    pin(acc);
    release_last<C>(s);
}

// Promoted: each k-block starts a fresh accumulator, which is added to acc while the next one runs.
// Two of them alternate. The loop takes two k-blocks, so that each has registers of its own.
template <class C>
PTX_FN void add_done(float (&acc)[C::REGS], float (&done)[C::REGS], const Operands &s)
{
    pin(done);
    release_last<C>(s);
#pragma unroll
    for (int i = 0; i < C::REGS; ++i) acc[i] += done[i];
}

// Start the next k-block in `next`, then add `done`.
template <class C>
PTX_FN void promote(float (&acc)[C::REGS], float (&done)[C::REGS], float (&next)[C::REGS],
                    Operands &s)
{
    issue<C>(next, s, 0);
    wgmma_wait<1>();
    add_done<C>(acc, done, s);
    advance<C>(s);
}

template <class C> PTX_FN void sum_promoted(float (&acc)[C::REGS], Operands &s, int k_blocks)
{
    float even[C::REGS], odd[C::REGS];
#pragma unroll
    for (int i = 0; i < C::REGS; ++i) acc[i] = 0.f;
    issue<C>(even, s, 0);
    advance<C>(s);
    int left = k_blocks - 1;
#pragma unroll 1
    for (; left > 1; left -= 2) {
        promote<C>(acc, even, odd, s);
        promote<C>(acc, odd, even, s);
    }
    if (left > 0) { // each arm with its own sums: registers are chosen when this is compiled
        promote<C>(acc, even, odd, s);
        wgmma_wait<0>();
        add_done<C>(acc, odd, s);
    } else {
        wgmma_wait<0>();
        add_done<C>(acc, even, s);
    }
}

// ---- split-K ------------------------------------------------------------------------------------

// Parts that have arrived, for each tile and consumer. The last part sets it back to 0.
static __device__ unsigned parts_arrived[SPLIT_TILES * CONSUMERS];

// Leave this part's sum; true for the part that arrives last, which then holds the total.
template <class C>
PTX_FN bool combine(float (&acc)[C::REGS], const Params &p, const Work &w, int rank, int consumer,
                    uint32_t word)
{
    constexpr int QUADS = C::REGS / 4;
    const int t = threadIdx.x % WARPGROUP, tile = w.tile * C::CLUSTER + rank;
    const int slot = tile * CONSUMERS + consumer;
    float4 *base =
        reinterpret_cast<float4 *>(p.partial) + (int64_t)slot * p.splits * QUADS * WARPGROUP + t;
    float4 *mine = base + (int64_t)w.part * QUADS * WARPGROUP;
#pragma unroll
    for (int i = 0; i < QUADS; ++i)
        __stcg(mine + i * WARPGROUP,
               make_float4(acc[4 * i], acc[4 * i + 1], acc[4 * i + 2], acc[4 * i + 3]));
    bar_sync(BAR_CONSUMER + consumer, WARPGROUP);
    if (t == 0) {
        __threadfence(); // publishes the sums of all 128 threads: they came before the barrier
        const unsigned before = atomicAdd(parts_arrived + slot, 1u);
        if (before + 1 == (unsigned)p.splits) parts_arrived[slot] = 0; // for the next launch
        __threadfence();
        st_shared(word, before);
    }
    bar_sync(BAR_CONSUMER + consumer, WARPGROUP);
    if (ld_shared(word) + 1 != (unsigned)p.splits) return false;
#pragma unroll
    for (int i = 0; i < C::REGS; ++i) acc[i] = 0.f;
#pragma unroll 1
    for (int s = 0; s < p.splits; ++s) {
        const float4 *src = base + (int64_t)s * QUADS * WARPGROUP;
#pragma unroll
        for (int i = 0; i < QUADS; ++i) {
            const float4 v = __ldcg(src + i * WARPGROUP);
            acc[4 * i] += v.x;
            acc[4 * i + 1] += v.y;
            acc[4 * i + 2] += v.z;
            acc[4 * i + 3] += v.w;
        }
    }
    return true;
}

} // namespace matmul_hopper
