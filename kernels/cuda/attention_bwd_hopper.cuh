// attention_bwd_hopper.cuh -- attention, backward, for Hopper: the main kernel.
// Contract: kernels/ops/attention_bwd.h   Launcher, two small kernels: attention_bwd_hopper.cu
//
// WHAT    Three kernels. PREPARE: delta[i] = sum(dout * out) of a row, lse to base 2, the span of
//         keys that a row sees and what that means for its tile. MAIN: one block owns 128 keys of a
//         head and walks the queries that see them. FINISH: dq = scale * sum, to bf16.
//
// MATH    Per tile of queries, with P and dS recomputed from lse, transposed (rows are keys):
//             S = K Q^T          P  = 2^(c S - lse log2(e)), c = scale log2(e); 0 where masked
//             dP = V dO^T        dS = P (drop(dP) - delta)
//             dV += drop(P) dO   dK += dS Q    dQ += dS^T K
//         Transposed, because then P and dS leave the accumulators as the A fragments of the next
//         products and need no shared memory. Only dQ needs dS the other way, and of all keys: it
//         goes through shared memory, where wgmma can read either way.
//
// TILING                queries                    D     BM    shared memory
//            +----+----+----+----+----+           64    128   199 KB and 8 bytes a query tile
//     wg 1 64|  0 |  1 |  2 | ...                 128    64   197 KB
//     wg 2 64|    |    |    |                     grid: key tiles x H x B, last keys first
//            +----+----+----+----+----+
//
//         One thread of the producer warpgroup loads Q, dO, lse and delta (two stages each), two
//         others each take a warpgroup's part of dQ (64 x 64) out of shared memory. A tile is
//         [columns / 64][rows][64] with the 128-byte swizzle; 16 KB is Q, dO, and dS of 64 queries,
//         so one descriptor, flipped from stage to stage, names them all. A step of a consumer:
//
//           wait Q | S | wait dO | dP | S ready: P = 2^x, P to bf16 | dV += P dO | dP ready: dS, to
//           bf16 and to shared memory | both warpgroups have come: dQ | dK += dS Q | dQ and dV
//           ready: release dO, dQ to shared memory | dK ready: release Q
//
//         so that the tensor cores have work of this warpgroup all the time but for the first
//         loads. D = 64 and dropout lack the registers for it: there dV comes after dS, and the
//         exponentials alone run under dP. The wait for the dQ buffer then stands before the one
//         for dP, because it ends a basic block, and ptxas moves 2^x across a wgmma wait, but not
//         across blocks.
//
// ORDER   Block n adds its part of a dQ tile after all blocks with later keys that the tile sees: a
//         counter for each tile says how many have added (turns), and a block's turn follows from
//         the span of the tile. So dQ has one order of summation, whatever runs when. Blocks start
//         in the order of their numbers, later keys first, so who is waited for has started.
//         With a causal mask nobody has to wait: block n meets tile m one (D = 64) or two tiles
//         after block n + 1 did. Without one, all blocks of a head start with tile 0, and block n
//         comes into step n tiles late; the blocks that follow on the same SMs keep that distance.
//         The price is (key tiles - 1) steps a launch: T = 512, B H = 384, 3 steps of 47.
//         The alternative, a second pass for dQ by tiles of queries, needs no order and no sums in
//         memory, but S and dP a second time: seven products instead of five, always.
//
// MASKS   A list of the tiles that see the block's keys is made at the start (Visit). A tile that
//         does not see all of them (TileSpan::all_lo, all_hi) takes a copy of the step that asks
//         for each element; its spans come by TMA with lse. Runs of either kind have a loop of
//         their own. Rows from T on have P = 0 (their lse is infinite); keys from T on are masked.
//
// DROPOUT One call of Philox serves four neighbouring keys of a query, here four lanes: each lane
//         draws for one of four elements, and two shuffles transpose the bits.
//
// COST    10 T^2 D FLOP a head (causal: half). A step is 2 x 1280 tensor cycles of an SM. wgmma,
//         the detour of dS and dQ, and lse keep shared memory busy for 1.05 (D = 64: 1.10) of that,
//         TMA for another 0.2: shared memory is the limit. L2: 32 KB of Q and dO and 32 KB of dQ
//         sums a step, 25 bytes a clock. Scratch: 4 D' + 16 bytes a row and head (D' = 64 or 128).
//
// RULES   dq, dk, dv: assign; bitwise repeatable. bf16 rounding of P and dS, everything else f32.
// SHAPES  bf16 (why not f16: attention_fwd_hopper.cuh). D a multiple of 8 up to 128, a size in
//         between is the next larger one with columns of zeros. T up to 229,376 (D = 64: twice
//         that). 16-byte aligned rows.
//
// REGISTERS 240 a consumer, 24 a producer thread (168 at launch), nothing spilled. The loop without
//         mask, a warp and step (scripts/sass_profile.py); the masked copy has 1.1 (D = 64: 1.2)
//         times the instructions:
//             D     dropout   issue   issue/tc   smem/tc   covered   serial
//             128   no         366     .286      1.050     96        74.9
//             64    no         545     .426      1.100     54        65.5
//             128   yes        591     .462      1.059     53        65.7
//             64    yes        937     .732      1.116     44        54.1
//         The draw of the dropout, some 27 instructions for four elements, makes the difference.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cuda/attention_bwd_hopper_params.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ptx.cuh"

namespace
{

constexpr int STAGES = 2; // of Q, of dO and of dS; Ring relies on 2
constexpr int CONSUMERS = 2;
constexpr int THREADS = 128 * (CONSUMERS + 1);
constexpr int REGS_PRODUCER = 24, REGS_CONSUMER = 240;
constexpr int BN = BWD_KEYS;
constexpr uint32_t STAGE_BYTES = 16384;  // of Q, of dO, and of 64 queries of dS
constexpr uint32_t MASKED = 0x80000000u; // in Visit::tile

template <int HEAD> struct Tile {
    static constexpr int D = HEAD;
    static constexpr int BM = BWD_QUERIES<D>;
    static constexpr int WORDS = BM / 64; // of 32 bits: one bit for each score
    static constexpr uint32_t Q_BYTES = BM * D * 2, K_BYTES = BN * D * 2;
    static constexpr uint32_t STATS_BYTES = BM * 8; // and as much for spans
    static_assert(Q_BYTES == STAGE_BYTES && BN * 64 * 2 == STAGE_BYTES, "one descriptor for all");
};

struct Visit {
    uint32_t tile; // of queries; MASKED: some query does not see all keys of the block
    uint32_t turn; // blocks that add to this dQ tile before this one
};

template <class L> struct Smem {         // a tile is [columns / 64][rows][64], 128-byte swizzle
    alignas(1024) uint16_t k[BN * L::D]; // later the staging of dK
    alignas(1024) uint16_t v[BN * L::D]; // and of dV
    alignas(1024) uint16_t q[STAGES][L::BM * L::D];
    alignas(1024) uint16_t dout[STAGES][L::BM * L::D];
    alignas(1024) uint16_t ds[L::BM / 64][STAGES][BN * 64]; // transposed: rows are keys
    alignas(1024) float dq[CONSUMERS][BWD_DQ_TILE];
    alignas(16) float stats[STAGES][4 * L::BM]; // -lse, delta, and the spans of a masked tile
    alignas(8) uint64_t k_full, v_full, q_full[STAGES], q_empty[STAGES];
    uint64_t dout_full[STAGES], dout_empty[STAGES], dq_full[CONSUMERS], dq_empty[CONSUMERS];
    int visits_count;
    alignas(8) Visit visits[1]; // as many as there are query tiles
};

enum { BAR_DS = 1, BAR_EPILOGUE = 2 }; // named barriers; one of the latter for each consumer

// What a consumer thread keeps. Element i of s, dp, dk, dv is row i / 2 % 2 (8 rows apart), column
// i / 4 * 8 + i % 2 behind the thread's first; rows are keys.
template <class L> struct Consumer {
    float dk[L::D / 2], dv[L::D / 2];
    uint32_t k, v;            // low descriptor words of this warpgroup's 64 keys
    uint32_t k_dq;            // of the part of K that makes this warpgroup's part of dQ
    uint32_t ds;              // from Q of a stage to what this warpgroup reads of its dS
    uint32_t ds_store, stats; // addresses of this thread in stage 0
    uint32_t dq;              // address of this thread's first element of dQ
    uint32_t bars;            // address of q_full[0]
    uint32_t dq_full;         // address of dq_full of this warpgroup
    int key;                  // this thread's first
};

// Where the ring stands. Q, dO and dS have the same distance from stage to stage, so one descriptor
// names them all. It is carried and flipped by a subtraction: computed from the number of the step,
// every step would build it anew.
struct Ring {
    uint32_t q, q_sum; // low descriptor word; of both stages together
    uint32_t stage, phase;
};

__device__ __forceinline__ void ring_advance(Ring &r)
{
    r.q = r.q_sum - r.q;
    r.phase ^= r.stage;
    r.stage ^= 1;
}

// ---- the five products, one commit each ---------------------------------------------------------
// 16 columns of a tile are 32 bytes, 64 are the next [rows][64] part; 16 rows are 2048 bytes. The
// offset is added in 64 bits: the high word is then not moved again for each wgmma.

// s = a b^T: S^T = K Q^T, dP^T = V dO^T
template <class L>
__device__ __forceinline__ void product_scores(float (&s)[L::BM / 2], uint32_t a, uint32_t b)
{
#pragma unroll
    for (int kk = 0; kk < L::D / 16; ++kk)
        ptx::wgmma_bf16<0, 0>(s, ptx::desc(a) + (kk / 4 * BN * 128 + kk % 4 * 32) / 16,
                              ptx::desc(b) + (kk / 4 * L::BM * 128 + kk % 4 * 32) / 16, kk > 0);
    ptx::wgmma_commit();
}

// sum += p b: dV += P^T dO, dK += dS^T Q
template <class L>
__device__ __forceinline__ void product_keys(float (&sum)[L::D / 2], uint32_t (&p)[L::BM / 4],
                                             uint32_t b)
{
#pragma unroll
    for (int kk = 0; kk < L::BM / 16; ++kk)
        ptx::wgmma_bf16_rs<1>(sum, p[kk * 4], p[kk * 4 + 1], p[kk * 4 + 2], p[kk * 4 + 3],
                              ptx::desc(b) + kk * 2048 / 16, 1);
    ptx::wgmma_commit();
}

// dq = dS K, 64 x 64
__device__ __forceinline__ void product_queries(float (&dq)[32], uint32_t ds, uint32_t k)
{
#pragma unroll
    for (int kk = 0; kk < BN / 16; ++kk)
        ptx::wgmma_bf16<1, 1>(dq, ptx::desc(ds) + kk * 2048 / 16, ptx::desc(k) + kk * 2048 / 16,
                              kk > 0);
    ptx::wgmma_commit();
}

// ---- masks and dropout: bit i % 32 of bits[i / 32] is for element i -----------------------------

template <class L>
__device__ __forceinline__ void visible(uint32_t (&bits)[L::WORDS], uint32_t spans, int key)
{
#pragma unroll
    for (int w = 0; w < L::WORDS; ++w) {
        uint32_t mine = 0;
#pragma unroll 1
        for (int i = 0; i < 8; ++i) {
            uint32_t x[4], four = 0; // two neighbouring queries: first key, how many
            ptx::ld_shared_v4(x, spans + (8 * w + i) * 64);
#pragma unroll
            for (int j = 0; j < 4; ++j)
                four |= (uint32_t)(key + j / 2 * 8 - x[j % 2 * 2] < x[j % 2 * 2 + 1]) << j;
            mine = mine >> 4 | four << 28;
        }
        bits[w] = mine;
    }
}

__device__ __forceinline__ bool bit(const uint32_t *bits, int i)
{
    return bits[i / 32] >> (i % 32) & 1;
}

// Bit 4 i + j of x goes to bit 4 i + g of the j-th of four lanes, g being the giver: the 4 x 4
// matrices across the four lanes that differ in bits 2 and 3 of the lane number, transposed.
__device__ __forceinline__ uint32_t transpose_bits(uint32_t x)
{
    const uint32_t g = threadIdx.x / 4;
    const uint32_t y = __shfl_xor_sync(0xffffffffu, x, 4);
    x = g & 1 ? (x & 0xaaaaaaaau) | (y & 0xaaaaaaaau) >> 1
              : (x & 0x55555555u) | (y & 0x55555555u) << 1;
    const uint32_t z = __shfl_xor_sync(0xffffffffu, x, 8);
    return g & 2 ? (x & 0xccccccccu) | (z & 0xccccccccu) >> 2
                 : (x & 0x33333333u) | (z & 0x33333333u) << 2;
}

// One call of Philox serves four neighbouring keys, which are four lanes: each lane draws for one
// of the four elements 4 i + g that the lanes have in common, and they exchange the bits.
template <class L>
__device__ __forceinline__ void draw(uint32_t (&keep)[L::WORDS], const DropKey &drop,
                                     uint32_t threshold, int key, int query)
{
    const int g = threadIdx.x / 4 % 4;
    const uint32_t col4 = (uint32_t)(key / 4 + g / 2 * 2), row = (uint32_t)(query + g % 2);
#pragma unroll
    for (int w = 0; w < L::WORDS; ++w) {
        uint32_t mine = 0;
#pragma unroll 1
        for (int i = 0; i < 8; ++i) {
            uint32_t x[4], four = 0;
            drop_words(x, drop, row + 8 * (8 * w + i), col4);
#pragma unroll
            for (int j = 0; j < 4; ++j) four |= (uint32_t)(x[j] >= threshold) << j;
            mine = mine >> 4 | four << 28;
        }
        keep[w] = transpose_bits(mine);
    }
}

// ---- one step -----------------------------------------------------------------------------------

__device__ __forceinline__ void dq_to_smem(const float (&dq)[32], uint32_t address)
{
#pragma unroll
    for (int i = 0; i < 8; ++i)
        ptx::st_shared_v4(address + i * 128 * 16, dq[4 * i], dq[4 * i + 1], dq[4 * i + 2],
                          dq[4 * i + 3]);
}

// p = exp(s - lse), 0 where a key is not visible
template <bool MASK, class L>
__device__ __forceinline__ void probabilities(float (&s)[L::BM / 2], float scale_log2,
                                              uint32_t stats, const uint32_t *seen)
{
#pragma unroll
    for (int i = 0; i < L::BM / 8; ++i) {
        float lse[2];
        ptx::ld_shared_v2(lse[0], lse[1], stats + i * 32);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const float p = ptx::ex2(__fmaf_rn(s[4 * i + e], scale_log2, lse[e % 2]));
            s[4 * i + e] = MASK && !bit(seen, 4 * i + e) ? 0.f : p;
        }
    }
}

// Four registers of 16 columns in bf16: an A fragment of wgmma, and four matrices for stmatrix.
template <bool DROP>
__device__ __forceinline__ void convert(uint32_t *p, const float *s, const uint32_t *keep, int i)
{
#pragma unroll
    for (int j = 0; j < 4; ++j)
        p[j] = ptx::pack_bf16(DROP && !bit(keep, i + 2 * j) ? 0.f : s[2 * j],
                              DROP && !bit(keep, i + 2 * j + 1) ? 0.f : s[2 * j + 1]);
}

// ds = p (dp - delta), dp behind the dropout, of 16 queries: element i of the tile and 7 more.
template <bool DROP>
__device__ __forceinline__ void score_gradients(float *dp, const float *p, uint32_t delta_at,
                                                const uint32_t *keep, int i, float keep_scale)
{
#pragma unroll
    for (int j = 0; j < 8; j += 4) {
        float delta[2];
        ptx::ld_shared_v2(delta[0], delta[1], delta_at + j * 8);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const float d = delta[e % 2], x = dp[j + e];
            if (DROP)
                dp[j + e] = p[j + e] * (bit(keep, i + j + e) ? __fmaf_rn(x, keep_scale, -d) : -d);
            else
                dp[j + e] = p[j + e] * (x - d);
        }
    }
}

// One tile of queries. What belongs to the barriers of the ring: q_full, q_empty, dout_full,
// dout_empty lie behind each other, two words each.
template <bool MASK, bool DROP, class L>
__device__ __forceinline__ void step(Consumer<L> &c, Ring &r, const BwdParams &a,
                                     const DropKey &drop, uint32_t tile)
{
    constexpr bool EARLY_DV = L::D == 128 && !DROP; // registers for P, dP and P in bf16 at once?
    float s[L::BM / 2], dp[L::BM / 2], dq[32];
    uint32_t p[L::BM / 4], ds[L::BM / 4], seen[L::WORDS], keep[L::WORDS];
    const uint32_t bars = c.bars + r.stage * 8, dout = r.q + STAGES * L::Q_BYTES / 16;
    const uint32_t stats = c.stats + r.stage * (2 * L::STATS_BYTES);

    ptx::mbar_wait(bars, r.phase);
    ptx::wgmma_fence();
    product_scores<L>(s, c.k, r.q);
    ptx::mbar_wait(bars + 32, r.phase);
    ptx::wgmma_fence();
    product_scores<L>(dp, c.v, dout);
    if (MASK || DROP) {
        const int pair = (int)threadIdx.x % 4 * 2; // of queries, the first that this thread has
        if (MASK) visible<L>(seen, stats + L::BM * 8 + pair * 4, c.key);
        if (DROP)
            draw<L>(keep, drop, a.drop.threshold, c.key, (int)(tile & ~MASKED) * L::BM + pair);
    }

    ptx::wgmma_wait<1>();
    ptx::pin(s);
    probabilities<MASK, L>(s, a.scale_log2, stats, seen);
    if (EARLY_DV) {
#pragma unroll
        for (int i = 0; i < L::BM / 2; i += 8) convert<DROP>(p + i / 2, s + i, keep, i);
        ptx::pin(c.dv);
        ptx::wgmma_fence();
        product_keys<L>(c.dv, p, dout);
        ptx::wgmma_wait<1>();
    } else {
        ptx::mbar_wait(c.dq_full + 16, r.stage ^ 1);
        ptx::wgmma_wait<0>();
    }
    ptx::pin(dp);
    // dS^T to shared memory: 64 keys of this warpgroup, 64 queries a part. 16 queries at a time: a
    // load is not moved before the store in front of it, which keeps few values alive.
    const uint32_t ds_store = c.ds_store + r.stage * STAGE_BYTES;
#pragma unroll
    for (int i = 0; i < L::BM / 2; i += 8) {
        const int kk = i / 8;
        uint32_t *const x = ds + i / 2;
        score_gradients<DROP>(dp + i, s + i, stats + L::BM * 4 + kk * 64, keep, i, a.drop.scale);
        convert<false>(x, dp + i, keep, i);
        ptx::stmatrix_x4((ds_store ^ kk % 4 * 32) + kk / 4 * STAGES * STAGE_BYTES, x[0], x[1], x[2],
                         x[3]);
        if (!EARLY_DV) convert<DROP>(p + i / 2, s + i, keep, i);
    }
    ptx::fence_async_proxy();
    if (!EARLY_DV) {
        ptx::pin(c.dv);
        ptx::wgmma_fence();
        product_keys<L>(c.dv, p, dout);
    }

    ptx::bar_sync(BAR_DS, 256); // dS of both warpgroups is there
    ptx::pin(c.dk);
    ptx::wgmma_fence();
    product_queries(dq, r.q + c.ds, c.k_dq);
    product_keys<L>(c.dk, ds, r.q);
    ptx::wgmma_wait<1>();
    ptx::pin(dq);
    ptx::pin(c.dv);
    if (ptx::elect_one()) ptx::mbar_arrive(bars + 48);
    if (EARLY_DV) ptx::mbar_wait(c.dq_full + 16, r.stage ^ 1);
    dq_to_smem(dq, c.dq);
    ptx::fence_async_proxy();
    __syncwarp();
    if (ptx::elect_one()) ptx::mbar_arrive(c.dq_full);
    ptx::wgmma_wait<0>();
    ptx::pin(c.dk);
    if (ptx::elect_one()) ptx::mbar_arrive(bars + 16);
    ring_advance(r);
}

// ---- the block ----------------------------------------------------------------------------------

// Which query tiles see keys of the block, in order. One warp.
template <class L>
__device__ __forceinline__ void list_visits(Smem<L> &sm, const TileSpan *tiles, int count, int n)
{
    const int lane = threadIdx.x % 32, first = n * BN, end = first + BN;
    int have = 0;
    for (int base = 0; base < count; base += 32) {
        TileSpan s = tile_span_none();
        if (base + lane < count) s = tiles[base + lane];
        const bool in = s.lo < end && s.hi > first && s.lo < s.hi;
        const bool masked = s.all_lo > first || s.all_hi < end;
        const uint32_t who = __ballot_sync(0xffffffffu, in);
        if (in)
            sm.visits[have + __popc(who & ((1u << lane) - 1))] = {
                (uint32_t)(base + lane) | (masked ? MASKED : 0), (uint32_t)((s.hi - 1) / BN - n)};
        have += __popc(who);
    }
    if (lane == 0) sm.visits_count = have;
}

template <class L>
__device__ __forceinline__ void load_tile(uint32_t dst, const CUtensorMap *map, uint32_t bar,
                                          int rows, int row, int head, int sample)
{
#pragma unroll
    for (int part = 0; part < L::D / 64; ++part)
        ptx::tma_load_4d(dst + part * rows * 128, map, bar, part * 64, row, head, sample);
}

// One thread: the barriers, and the block's keys.
template <class L>
__device__ __forceinline__ void begin(Smem<L> &sm, const BwdMaps &maps, int n, int head, int sample)
{
    const uint32_t k_full = ptx::smem_addr(&sm.k_full), v_full = ptx::smem_addr(&sm.v_full);
    ptx::mbar_init(k_full, 1);
    ptx::mbar_init(v_full, 1);
    for (int i = 0; i < STAGES; ++i) {
        ptx::mbar_init(ptx::smem_addr(&sm.q_full[i]), 1);
        ptx::mbar_init(ptx::smem_addr(&sm.dout_full[i]), 1);
        ptx::mbar_init(ptx::smem_addr(&sm.q_empty[i]), 4 * CONSUMERS); // one for each warp
        ptx::mbar_init(ptx::smem_addr(&sm.dout_empty[i]), 4 * CONSUMERS);
    }
    for (int i = 0; i < CONSUMERS; ++i) {
        ptx::mbar_init(ptx::smem_addr(&sm.dq_full[i]), 4);
        ptx::mbar_init(ptx::smem_addr(&sm.dq_empty[i]), 1);
    }
    ptx::mbar_init_fence();
    ptx::mbar_arrive_expect_tx(k_full, L::K_BYTES);
    load_tile<L>(ptx::smem_addr(sm.k), &maps.k, k_full, BN, n * BN, head, sample);
    ptx::mbar_arrive_expect_tx(v_full, L::K_BYTES);
    load_tile<L>(ptx::smem_addr(sm.v), &maps.v, v_full, BN, n * BN, head, sample);
}

// One thread: Q and dO with what belongs to their rows.
template <class L>
__device__ __forceinline__ void feed(Smem<L> &sm, const BwdMaps &maps, const BwdParams &a, int head,
                                     int sample)
{
    const int64_t first = ((int64_t)sample * a.H + head) * a.q_tiles;
    const int count = sm.visits_count;
    for (int i = 0; i < count; ++i) {
        const int s = i % STAGES, tile = (int)(sm.visits[i].tile & ~MASKED);
        const bool masked = sm.visits[i].tile & MASKED;
        const uint32_t parity = i / STAGES & 1 ^ 1;
        const uint32_t q_full = ptx::smem_addr(&sm.q_full[s]);
        const uint32_t dout_full = ptx::smem_addr(&sm.dout_full[s]);
        ptx::mbar_wait(ptx::smem_addr(&sm.q_empty[s]), parity);
        ptx::mbar_arrive_expect_tx(q_full,
                                   L::Q_BYTES + (masked ? 2 * L::STATS_BYTES : L::STATS_BYTES));
        load_tile<L>(ptx::smem_addr(sm.q[s]), &maps.q, q_full, L::BM, tile * L::BM, head, sample);
        ptx::bulk_load(ptx::smem_addr(sm.stats[s]), a.stats + (first + tile) * (2 * L::BM),
                       L::STATS_BYTES, q_full);
        if (masked)
            ptx::bulk_load(ptx::smem_addr(sm.stats[s]) + L::STATS_BYTES,
                           a.spans + ((int64_t)sample * a.q_tiles + tile) * L::BM, L::STATS_BYTES,
                           q_full);
        ptx::mbar_wait(ptx::smem_addr(&sm.dout_empty[s]), parity);
        ptx::mbar_arrive_expect_tx(dout_full, L::Q_BYTES);
        load_tile<L>(ptx::smem_addr(sm.dout[s]), &maps.dout, dout_full, L::BM, tile * L::BM, head,
                     sample);
    }
}

// One thread for each consumer: adds its part of dQ to global memory when all blocks with later
// keys have done so. The first one stores, so nothing has to be zeroed.
template <class L>
__device__ __forceinline__ void add_dq(Smem<L> &sm, const BwdParams &a, int64_t head, int part)
{
    const uint32_t full = ptx::smem_addr(&sm.dq_full[part]),
                   empty = ptx::smem_addr(&sm.dq_empty[part]);
    const uint32_t src = ptx::smem_addr(sm.dq[part]);
    const int count = sm.visits_count;
    for (int i = 0; i < count; ++i) {
        const Visit v = sm.visits[i];
        const int64_t at = (head * a.q_tiles + (v.tile & ~MASKED)) * 2 + part;
        float *dst = a.dq + at * BWD_DQ_TILE;
        ptx::mbar_wait(full, i & 1);
        if (v.turn == 0) {
            ptx::bulk_store(dst, src, BWD_DQ_TILE * 4);
        } else {
            while (ptx::ld_acquire_gpu(a.turns + at) != v.turn) __nanosleep(64);
            ptx::fence_async_proxy_global();
            ptx::bulk_reduce_add_f32(dst, src, BWD_DQ_TILE * 4);
        }
        ptx::bulk_commit();
        ptx::bulk_wait_read<0>();
        ptx::mbar_arrive(empty);
        ptx::bulk_wait<0>();
        ptx::red_release_gpu_add(a.turns + at, 1);
    }
}

// A sum in registers to this warpgroup's 64 rows of a tile.
template <class L>
__device__ __forceinline__ void sum_to_smem(const float (&x)[L::D / 2], float scale, uint32_t line,
                                            uint32_t row, uint32_t half)
{
#pragma unroll
    for (int i = 0; i < L::D / 16; ++i) {
        uint32_t w[4];
#pragma unroll
        for (int j = 0; j < 4; ++j)
            w[j] = ptx::pack_bf16(x[i * 8 + j * 2] * scale, x[i * 8 + j * 2 + 1] * scale);
        const uint32_t chunk = i * 2 + half; // of 16 bytes
        ptx::stmatrix_x4(line + chunk / 8 * BN * 128 + (chunk % 8 ^ row % 8) * 16, w[0], w[1], w[2],
                         w[3]);
    }
}

template <class L, bool DROP>
__global__ void __launch_bounds__(THREADS, 1)
    attention_bwd_kernel(const __grid_constant__ BwdMaps maps, const __grid_constant__ BwdParams a)
{
    extern __shared__ __align__(1024) unsigned char raw[];
    Smem<L> &sm = *reinterpret_cast<Smem<L> *>(raw);
    // Blocks start in the order of their numbers, and each waits for those with later keys alone.
    const int n = a.k_tiles - 1 - (int)(blockIdx.x % (unsigned)a.k_tiles);
    const int64_t bh = blockIdx.x / (unsigned)a.k_tiles;
    const int head = (int)(bh % a.H), sample = (int)(bh / a.H);
    // Warp-uniform in a way that ptxas can prove: roles must not look divergent to wgmma.
    const int role = __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0);

    if (threadIdx.x == 0) begin<L>(sm, maps, n, head, sample);
    if (threadIdx.x / 32 == 1)
        list_visits<L>(sm, a.tiles + (int64_t)sample * a.q_tiles, a.q_tiles, n);
    __syncthreads();

    if (role == 0) {
        ptx::regs_dec<REGS_PRODUCER>();
        if (threadIdx.x == 0) feed<L>(sm, maps, a, head, sample);
        if (threadIdx.x == 32 || threadIdx.x == 64) add_dq<L>(sm, a, bh, (int)threadIdx.x / 32 - 1);
        return;
    }

    ptx::regs_inc<REGS_CONSUMER>();
    const int wg = role - 1, thread = (int)threadIdx.x % 128, warp = thread / 32,
              lane = thread % 32;
    const uint32_t k = ptx::smem_addr(sm.k), v = ptx::smem_addr(sm.v);
    const uint32_t row = warp * 16 + lane % 16, half = lane / 16; // for stmatrix
    Consumer<L> c;
    c.k = ptx::opaque(ptx::desc_lo(k + wg * 64 * 128, 16));
    c.v = ptx::opaque(ptx::desc_lo(v + wg * 64 * 128, 16));
    c.k_dq = ptx::opaque(ptx::desc_lo(k + (L::D == 128 ? wg * BN * 128 : 0), BN * 128));
    c.dq = ptx::smem_addr(sm.dq[wg]) + thread * 16;
    c.bars = ptx::opaque(ptx::smem_addr(sm.q_full));
    c.dq_full = ptx::opaque(ptx::smem_addr(&sm.dq_full[wg]));
    c.key = n * BN + wg * 64 + warp * 16 + lane / 4;
    c.ds = ptx::opaque((ptx::smem_addr(sm.ds[L::D == 64 ? wg : 0]) - ptx::smem_addr(sm.q)) / 16);
    c.ds_store = ptx::smem_addr(sm.ds) + (wg * 64 + row) * 128 + (half ^ row % 8) * 16;
    c.stats = ptx::smem_addr(sm.stats) + lane % 4 * 8;
#pragma unroll
    for (int i = 0; i < L::D / 2; ++i) c.dk[i] = c.dv[i] = 0.f;

    Ring r;
    r.q = ptx::opaque(ptx::desc_lo(ptx::smem_addr(sm.q), L::BM * 128));
    r.q_sum = 2 * r.q + STAGE_BYTES / 16;
    r.stage = r.phase = ptx::opaque(0);

    DropKey drop = {};
    if (DROP) {
        drop = drop_key(a.drop, sample, (uint32_t)head);
        drop.key1 = ptx::opaque(drop.key1);
        drop.ctr2 = ptx::opaque(drop.ctr2);
        drop.ctr3 = ptx::opaque(drop.ctr3);
    }

    // Runs of masked and of unmasked tiles, each with its own copy of the step.
    ptx::mbar_wait(ptx::smem_addr(&sm.k_full), 0);
    ptx::mbar_wait(ptx::smem_addr(&sm.v_full), 0);
    const int count = (int)ptx::opaque((uint32_t)sm.visits_count);
    for (int i = 0; i < count;) {
#pragma unroll 1
        for (; i < count && sm.visits[i].tile & MASKED; ++i)
            step<true, DROP>(c, r, a, drop, sm.visits[i].tile);
        int end = i;
        while (end < count && !(sm.visits[end].tile & MASKED)) ++end;
#pragma unroll 1
        for (; i < end; ++i) step<false, DROP>(c, r, a, drop, DROP ? sm.visits[i].tile : 0);
    }

    // registers -> this warpgroup's rows of K and V, when nobody reads them any more -> global
    ptx::bar_sync(BAR_DS, 256);
    sum_to_smem<L>(c.dv, DROP ? a.drop.scale : 1.f, v + (wg * 64 + row) * 128, row, half);
    sum_to_smem<L>(c.dk, a.scale, k + (wg * 64 + row) * 128, row, half);
    ptx::fence_async_proxy();
    ptx::bar_sync(BAR_EPILOGUE + wg, 128);
    const int first = n * BN + wg * 64;
    if (thread == 0 && first < a.T) {
#pragma unroll
        for (int part = 0; part < L::D / 64; ++part) {
            const uint32_t at = wg * 64 * 128 + part * BN * 128;
            ptx::tma_store_4d(&maps.dv, v + at, part * 64, first, head, sample);
            ptx::tma_store_4d(&maps.dk, k + at, part * 64, first, head, sample);
        }
        ptx::bulk_commit();
        ptx::bulk_wait<0>();
    }
}

template <int D, bool DROP>
cudaError_t bwd_main(const BwdMaps &maps, const BwdParams &p, int64_t blocks, cudaStream_t stream)
{
    using L = Tile<D>;
    const size_t smem = sizeof(Smem<L>) + (size_t)p.q_tiles * sizeof(Visit);
    return launch({dim3((unsigned)blocks), dim3(THREADS), smem, 1}, stream,
                  attention_bwd_kernel<L, DROP>, maps, p);
}

} // namespace
