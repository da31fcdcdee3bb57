// matmul_hopper.cuh -- matrix product on Hopper's tensor cores: the page, tiles, parameters.
// Contract: kernels/ops/matmul.h   Oracle: kernels/ref/matmul_ref.c   Plain version: matmul.cu
//     FP8:  kernels/ops/matmul_fp8.h       kernels/ref/matmul_fp8_ref.c            matmul_fp8.cu
// Read on:  matmul_hopper_loop.cuh (ring and main loop), matmul_hopper_epilogue.cuh (what becomes
//           of the sums), matmul_hopper_fp8.cuh (results in FP8), matmul_hopper_kernel.cuh (who
//           does what), matmul_hopper.cu (which tile), matmul_fp8_hopper.cu (which FP8 calls).
//
// WHAT    One CTA per SM walks over output tiles. Warpgroup 0 is the producer: one thread of it
//         copies A and B tiles by TMA into a ring of stages. Warpgroups 1 and 2 are consumers: they
//         multiply with wgmma, each 64 rows of the tile. The producer runs ahead into the next tile
//         while the consumers are in their epilogue.
//
// MATH    128 bytes of k are 4 wgmma of 32 bytes. A k-block, which is a stage of the ring and a
//         turn of the main loop, is 128 bytes of k, SMALL: twice that. The tensor core's own
//         accumulator keeps the whole sum of a tile in f32.
//         ping-pong  each consumer has a tile of its own: one multiplies while the other is in its
//                    epilogue. For short K.
//         split-K    a work item is (tile, part of K). Every part leaves its sum in scratch
//                    memory; the one that finishes last adds all parts in the order of k and runs
//                    the epilogue. How many parts is a function of the shape alone: the bits of C
//                    do not depend on the number of SMs.
//
// TILING                     N ->  BN = 256; SMALL, PROMOTED: 128
//                  +------------------------------+
//           64 rows|  consumer 0: 64 x BN f32     |     a stage: [ A BM x 128 B | B BN x 128 B ]
//                  +------------------------------+     C on its way out: 2 x 2 chunks, 64 x 128 B
//           64 rows|  consumer 1: 64 x BN f32     |     bias: 2 x BN f32
//                  +------------------------------+
//                       BM x BN     stages       cluster  bytes from L2 for a tensor cycle
//         BIG           128 x 256   4 x 48 KB    2        32
//         PINGPONG       64 x 256   4 x 40 KB    2        48
//         SMALL         128 x 128   3 x 64 KB    1        64
//         PROMOTED      128 x 128   6 x 32 KB    2        48
//         An operand whose k is contiguous in memory is one TMA box of 128-byte rows. One stored
//         the other way (NN: B; TN: A and B) is a row of boxes, each 64 (m or n) x 64 (k); wgmma
//         transposes as it reads. 128-byte swizzle everywhere.
//         Cluster of 2: two CTAs, one above the other, share the B tile. Each loads half of it and
//         multicasts it to both, so a stage is free when the consumers of both have released it.
//         grid min(work, SMs), block 384 threads, 168 registers moved to 40 / 232 / 232.
//         Order of tiles: groups of 2048 rows, down the rows first, so that the tiles of one wave
//         are about square together and their A and B panels stay in L2.
//
// COST    2 M N K FLOP; reads (M K ceil(N / BN) + N K ceil(M / (BM x cluster))) elements from L2.
//         128 x 256: 1024 tensor cycles a k-block. Shared memory, of 128 bytes a cycle: wgmma reads
//         0.63 (SMALL 0.75), TMA writes 0.38 (0.5).
//         The epilogue is exposed, except with ping-pong: 4 chunks (f32: 8), two barriers each.
//
// RULES   C: assign, or accumulate (f32: added in L2, once an element; 16 bits: read, added in f32,
//         rounded once). Bitwise repeatable. Ragged edges: TMA fills loads with zero, clips stores.
//         full[s]: 1 arrival and the bytes of a stage. empty[s]: one arrival from each consumer
//         warp that reads the stage (8; ping-pong 4; twice that in a cluster), for stage k-1 once
//         wait_group 1 says that its wgmmas are done. CTAs of a cluster leave together.
//         Split-K counts in a variable of the module: launches on one GPU must follow each other.
//
// SHAPES  A, B, C, aux and their rows at multiples of 16 bytes; any M, N, K from 1 to 2^31 - 256.
//
// REGISTERS  ptxas -v counts 168 a thread in each instance, which setmaxnreg deals out anew: the
//         producer 40, consumers 232. No stack, no spill, no C75xx notice. Of the main loop, for a
//         tensor cycle of a warp: instructions issued, bytes / 128 of shared memory; and how many
//         of the instructions run under a wgmma of the own warpgroup (scripts/check_sass):
//         BIG .080-.082  .625  100 %    PINGPONG .084  .625  100 %    SMALL .115  .75  100 %
//
// FP8     The same kernel with elements of one byte: 128 of k in a row of 128 bytes, twice the
//         FLOP in the same cycles. elem_bytes(), multiply() and the epilogue are where it differs.
//
//         operands   wgmma transposes operands of 16 bits as it reads them, of 8 bits not: k must
//                    be contiguous. So a linear layer needs each of its tensors in two layouts,
//                        y  = x W^T    x   W      e4m3 e4m3   BIG       k = in
//                        dx = dy W     dy  W^T    e5m2 e4m3   PROMOTED  k = out
//                        dW = dy^T x   dy^T x^T   e5m2 e4m3   PROMOTED  k = rows; f32, split-K
//                    and who makes a tensor writes both, this kernel's epilogue among others: then
//                    the second layout costs a byte an element and no read.
//         promoted   The tensor cores add FP8 products with about 14 bits of mantissa. For a
//                    gradient with its long k that is not enough: each k-block starts a fresh
//                    accumulator, which is added to f32 registers while the next one runs.
//
//                        tensor core   | even: k | odd: k+1 | even: k+2 | odd: k+3 | ...
//                        FADD                    | += even  | += odd    | += even  |
//
//                    Two of these and the sum are 3 x 64 registers for 128 x 128, and would be
//                    3 x 128 for 128 x 256, of 232.
//         scales     sums are in units of a_inv b_inv, which is read and multiplied in once.
//         results    gelu and dgelu: rounded to bf16, then q = fp8(x scale), its transpose, amax
//                    and counts; dgelu: sums of columns, a line of partial sums for 64 rows, and
//                    chunk_sums.cuh adds the lines in order. C is optional. A chunk of 64 x 64
//                    leaves as a box of q and one of qt, in the buffer of one of C.
//         cost       2 M N bytes for both layouts, as many as C in bf16. A pass of its own over C
//                    (fp8_quantize.cu) reads 2 and writes 2 M N more, and is a launch.
//         rules      amax and counts by atomics on integers, once a warp and tile: the order does
//                    not matter.
//                    Zeros behind row M of qt: as far as the last box reaches, else cudaMemset2D.
//         registers  BIG .082  .625  100 %    PROMOTED .398  .75  100 %: 64 FADD for the 256
//                    cycles of 4 wgmma. DeepGEMM's 128 x 128 takes .428, CUTLASS's .492.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cuda/matmul_hopper.h"
#include "kernels/cuda/ptx.cuh"
#include "kernels/ops/fp8.h"

namespace matmul_hopper // not anonymous: a kernel is found by its name
{

enum class Layout { NT, NN, TN }; // is A, is B transposed: forward, dx, dW
enum class Kind {
    PLAIN,     // C has the operands' type: bias, accumulate
    PLAIN_F32, // C is f32: bias, accumulate
    GELU,      // bias, aux out, any activation
    DGELU,     // aux in
};
enum class Tile { BIG, PINGPONG, SMALL, PROMOTED };

// What is compiled: X(layout, element type, kind, tile); one file for each list.
#define MATMUL_HOPPER_NT(X)                                                                        \
    X(NT, BF16, PLAIN, BIG)                                                                        \
    X(NT, BF16, PLAIN, PINGPONG)                                                                   \
    X(NT, BF16, PLAIN, SMALL)                                                                      \
    X(NT, BF16, PLAIN_F32, SMALL)
#define MATMUL_HOPPER_GELU(X)                                                                      \
    X(NT, BF16, GELU, BIG)                                                                         \
    X(NT, BF16, GELU, PINGPONG)                                                                    \
    X(NT, BF16, GELU, SMALL)
#define MATMUL_HOPPER_NN(X)                                                                        \
    X(NN, BF16, PLAIN, BIG)                                                                        \
    X(NN, BF16, PLAIN, PINGPONG)                                                                   \
    X(NN, BF16, PLAIN, SMALL)
#define MATMUL_HOPPER_DGELU(X)                                                                     \
    X(NN, BF16, DGELU, BIG)                                                                        \
    X(NN, BF16, DGELU, PINGPONG)                                                                   \
    X(NN, BF16, DGELU, SMALL)
#define MATMUL_HOPPER_TN(X)                                                                        \
    X(TN, BF16, PLAIN_F32, BIG)                                                                    \
    X(TN, BF16, PLAIN_F32, SMALL)
#define MATMUL_HOPPER_F16(X)                                                                       \
    X(NT, F16, PLAIN, SMALL)                                                                       \
    X(NT, F16, GELU, SMALL)                                                                        \
    X(NN, F16, PLAIN, SMALL)                                                                       \
    X(NN, F16, DGELU, SMALL)                                                                       \
    X(TN, F16, PLAIN_F32, SMALL)
#define MATMUL_HOPPER_FP8_FAST(X)                                                                  \
    X(NT, E4M3, PLAIN, BIG)                                                                        \
    X(NT, E4M3, GELU, BIG)
#define MATMUL_HOPPER_FP8_PROMOTED(X)                                                              \
    X(NT, E5M2, PLAIN, PROMOTED)                                                                   \
    X(NT, E5M2, PLAIN_F32, PROMOTED)                                                               \
    X(NT, E5M2, DGELU, PROMOTED)
#define MATMUL_HOPPER_ALL(X)                                                                       \
    MATMUL_HOPPER_NT(X)                                                                            \
    MATMUL_HOPPER_GELU(X)                                                                          \
    MATMUL_HOPPER_NN(X)                                                                            \
    MATMUL_HOPPER_DGELU(X)                                                                         \
    MATMUL_HOPPER_TN(X)                                                                            \
    MATMUL_HOPPER_F16(X)                                                                           \
    MATMUL_HOPPER_FP8_FAST(X)                                                                      \
    MATMUL_HOPPER_FP8_PROMOTED(X)

constexpr int ROW = 128;                             // bytes: a row of the swizzle
constexpr int CONSUMERS = 2;                         // warpgroups
constexpr int WARPGROUP = 128;                       // threads
constexpr int BOX_BYTES = 64 * ROW;                  // 64 rows of 128 bytes
constexpr int CHUNK_BYTES = 64 * ROW;                // C on its way out
constexpr int GROUP_ROWS = 2048;                     // rows of C in a group of the tile order
constexpr int SPLIT_TILES = 132;                     // tiles that may be split, at most
enum { BAR_CONSUMER = 1, BAR_TURN = 1 + CONSUMERS }; // named barriers, one for each consumer

constexpr int elem_bytes(DType e)
{
    return e == DTYPE_BF16 || e == DTYPE_F16 ? 2 : 1;
}
constexpr int tile_m(Tile t)
{
    return t == Tile::PINGPONG ? 64 : 128;
}
constexpr int tile_n(Tile t)
{
    return t == Tile::SMALL || t == Tile::PROMOTED ? 128 : 256;
}
constexpr int tile_cluster(Tile t)
{
    return t == Tile::SMALL ? 1 : 2;
}
constexpr int tile_parts(Tile t)
{
    return t == Tile::SMALL ? 2 : 1;
} // of a k-block

// One instance: everything that is known when it is compiled.
template <Layout L, DType E, Kind K, Tile T> struct Config {
    static constexpr DType ELEM = E;
    static constexpr bool FP8 = elem_bytes(E) == 1;
    static constexpr DType SIDE = FP8 ? DTYPE_BF16 : E; // of C and aux, when C is not f32
    static constexpr Kind KIND = K;
    static constexpr bool PINGPONG = T == Tile::PINGPONG, PROMOTED = T == Tile::PROMOTED;
    static constexpr bool USES_BIAS = !(FP8 && K == Kind::DGELU);
    static constexpr bool SPLIT = T == Tile::SMALL || PROMOTED;           // K may be
    static constexpr bool A_MN = L == Layout::TN, B_MN = L != Layout::NT; // k is not contiguous
    static constexpr int BM = tile_m(T), BN = tile_n(T), BK = ROW / elem_bytes(E); // BK: of a row
    static constexpr int CLUSTER = tile_cluster(T), GROUP_M = GROUP_ROWS / (BM * CLUSTER);
    static constexpr int REGS = BN / 2; // accumulators of a thread
    static constexpr int STAGES = T == Tile::SMALL ? 3 : PROMOTED ? 6 : 4;
    static constexpr int PARTS = tile_parts(T);
    static constexpr int A_BYTES = BM * ROW, PART_BYTES = A_BYTES + BN * ROW;
    static constexpr int STAGE_BYTES = PARTS * PART_BYTES;
    static constexpr int READERS = (PINGPONG ? 4 : 4 * CONSUMERS) * CLUSTER; // warps of a stage
    // Where things lie in shared memory.
    static constexpr int C_AT = STAGES * STAGE_BYTES;
    static constexpr int BIAS_AT = C_AT + CONSUMERS * 2 * CHUNK_BYTES;
    // f32 of a consumer: the bias; FP8 dgelu, which takes none: column sums of each of its warps
    static constexpr int BIAS_BYTES = USES_BIAS ? BN * 4 : 4 * 64 * 4;
    static constexpr int BAR_AT = BIAS_AT + CONSUMERS * BIAS_BYTES; // full, then empty
    static constexpr int WORD_AT = BAR_AT + 16 * STAGES;            // a word for each consumer
    static constexpr int SMEM_BYTES = WORD_AT + 4 * CONSUMERS;
    static_assert(SMEM_BYTES <= 227 * 1024, "more than an SM has");
};

struct Params {
    int M, N, tiles_m, tiles_n, k_blocks, splits, work; // tiles and work are counted a cluster
    int64_t ldc;
    const void *side; // [M,N] ldc, read by the epilogue: old C, or aux of DGELU; NULL: nothing
    const void *bias; // [N] bias_dtype, or NULL
    float *partial;   // split-K: [tile][consumer][part][REGS/4][128] float4
    DType bias_dtype;
    Activation act;
    bool store_c, store_aux, add_f32; // all but PLAIN_F32 and FP8: true; GELU; PLAIN_F32
    // FP8 only
    const float *a_inv, *b_inv;
    Fp8Out out;
    float *column_sums; // [ceil(M / 64), N], or NULL
};

// What leaves by TMA.
struct Maps {
    const CUtensorMap *c, *aux, *q, *qt;
};

// matmul_hopper.cu: what of a call is the same for all element types. An FP8 call is asked about,
// too: as the MatmulArgs with its shapes.
Params params_of(const MatmulArgs *a, HopperPlan plan, void *scratch);
int start_planned(const CudaDevice *d, const MatmulArgs *a, HopperPlan plan, const Params &p);

// Queue the kernel of one instance. p: all but tiles and work is set. Returns a cudaError_t.
template <Layout L, DType E, Kind K, Tile T>
int start(const CudaDevice *d, const MatmulArgs &a, Params p);

} // namespace matmul_hopper
