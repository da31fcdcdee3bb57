// matmul_hopper_kernel.cuh -- the kernel of one instance, who does what in it, and its launch.
// The page is matmul_hopper.cuh.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matmul_hopper_epilogue.cuh"
#include "kernels/cuda/tma.cuh"

namespace matmul_hopper
{

enum { THREADS = WARPGROUP * (1 + CONSUMERS), PRODUCER_REGS = 40, CONSUMER_REGS = 232 };

template <class C> PTX_FN void consume(const Params &p, const Maps &maps, uint32_t smem, int cw)
{
    Operands s = operands_at<C>(smem, cw);
    Out out = {smem + C::C_AT + cw * 2 * CHUNK_BYTES, 0, (uint32_t)(BAR_CONSUMER + cw)};
    const uint32_t bias = smem + C::BIAS_AT + cw * C::BIAS_BYTES;
    const int rank = C::CLUSTER > 1 ? (int)cluster_rank() : 0;
    const int step = gridDim.x / C::CLUSTER, first = blockIdx.x / C::CLUSTER;
    const float unit = C::FP8 ? *p.a_inv * *p.b_inv : 1.f;
    bool other = cw == 1; // ping-pong: consumers take work items in turn
    for (int w = first; w < p.work; w += step) {
        Work k = work_at<C>(p, w);
        const bool skip = C::PINGPONG && other;
        other = !other;
        if (skip) {
            ring_skip<C>(s.ring, k.k1 - k.k0);
            continue;
        }
        k.m0 += rank * C::BM + (C::PINGPONG ? 0 : cw * 64);
        // A parity tells a phase of a barrier from the next one only. So a consumer may look at the
        // ring only after the other one has seen all of its own stages full: they take turns.
        uint32_t pass_to = 0;
        if (C::PINGPONG) {
            if (w != first) bar_sync(BAR_TURN + cw, CONSUMERS * WARPGROUP);
            if (w + step < p.work) pass_to = BAR_TURN + (cw ^ 1);
        }
        float acc[C::REGS];
        if constexpr (C::PROMOTED) {
            if (C::USES_BIAS && p.bias) stage_bias<C>(p, k.n0, bias);
            sum_promoted<C>(acc, s, k.k1 - k.k0);
        } else {
            sum_first<C>(acc, s);
            if (p.bias) stage_bias<C>(p, k.n0, bias);
            sum_rest<C>(acc, s, k.k1 - k.k0, pass_to);
        }
        const uint32_t word = smem + C::WORD_AT + 4 * cw;
        if (C::SPLIT && p.splits > 1 && !combine<C>(acc, p, k, rank, cw, word)) continue;
        store_tile<C>(acc, p, maps, k, unit, bias, out);
    }
    if (threadIdx.x % WARPGROUP == 0) bulk_wait<0>(); // shared memory must outlive the stores
}

template <Layout L, DType E, Kind K, Tile T>
__global__ void __launch_bounds__(THREADS, 1)
    matmul_hopper_kernel(const __grid_constant__ CUtensorMap ta,
                         const __grid_constant__ CUtensorMap tb,
                         const __grid_constant__ CUtensorMap tc,
                         const __grid_constant__ CUtensorMap taux,
                         const __grid_constant__ CUtensorMap tq,
                         const __grid_constant__ CUtensorMap tqt, const __grid_constant__ Params p)
{
    using C = Config<L, E, K, T>;
    extern __shared__ __align__(1024) uint8_t shared[];
    const uint32_t smem = smem_addr(shared);
    if (threadIdx.x == 0) {
        const uint32_t full = smem + C::BAR_AT, empty = full + 8 * C::STAGES;
        for (int i = 0; i < C::STAGES; ++i) {
            mbar_init(full + 8 * i, 1);
            mbar_init(empty + 8 * i, C::READERS);
        }
        mbar_init_fence();
    }
    if (C::CLUSTER > 1)
        cluster_sync();
    else
        __syncthreads();
    const int warpgroup = opaque(threadIdx.x / WARPGROUP); // uniform, and known to be
    if (warpgroup == 0) {
        regs_dec<PRODUCER_REGS>();
        if (threadIdx.x == 0) produce<C>(p, &ta, &tb, smem);
    } else {
        regs_inc<CONSUMER_REGS>();
        consume<C>(p, {&tc, &taux, &tq, &tqt}, smem, warpgroup - 1);
    }
    if (C::CLUSTER > 1) { // the other CTA may still write here, or arrive on a barrier
        __syncwarp();
        cluster_sync();
    }
}

// Rows of `inner` elements, boxes of 128 bytes by `rows`.
inline cudaError_t encode(CUtensorMap *map, const void *base, DType dtype, int64_t inner,
                          int64_t outer, int64_t pitch, int rows)
{
    return tma_encode(map, {base,
                            dtype,
                            2,
                            {inner, outer},
                            {1, pitch},
                            {ROW / (int)dtype_bytes(dtype), rows},
                            CU_TENSOR_MAP_SWIZZLE_128B});
}

// The same for FP8 on its way out: boxes of 64 bytes by 64.
inline cudaError_t encode_fp8(CUtensorMap *map, const void *base, DType dtype, int64_t inner,
                              int64_t outer, int64_t pitch)
{
    return tma_encode(
        map, {base, dtype, 2, {inner, outer}, {1, pitch}, {64, 64}, CU_TENSOR_MAP_SWIZZLE_64B});
}

template <Layout L, DType E, Kind K, Tile T>
int start(const CudaDevice *d, const MatmulArgs &a, Params p)
{
    using C = Config<L, E, K, T>;
    const DType c_dtype = K == Kind::PLAIN_F32 ? DTYPE_F32 : C::SIDE;
    const Fp8Out &out = p.out;
    p.tiles_m = (p.M + C::BM * C::CLUSTER - 1) / (C::BM * C::CLUSTER);
    p.tiles_n = (p.N + C::BN - 1) / C::BN;
    p.k_blocks = (int)((a.K + C::BK * C::PARTS - 1) / (C::BK * C::PARTS));
    p.work = p.tiles_m * p.tiles_n * p.splits;
    CUtensorMap ta, tb;
    cudaError_t e = C::A_MN ? encode(&ta, a.A, E, a.M, a.K, a.lda, C::BK)
                            : encode(&ta, a.A, E, a.K, a.M, a.lda, C::BM);
    if (e == cudaSuccess)
        e = C::B_MN ? encode(&tb, a.B, E, a.N, a.K, a.ldb, C::BK)
                    : encode(&tb, a.B, E, a.K, a.N, a.ldb, C::BN / C::CLUSTER);
    CUtensorMap tc = ta, taux = ta, tq = ta, tqt = ta; // one that is not used must still be one
    if (e == cudaSuccess && a.C) e = encode(&tc, a.C, c_dtype, a.N, a.M, a.ldc, 64);
    if (e == cudaSuccess && p.store_aux) e = encode(&taux, a.aux, c_dtype, a.N, a.M, a.ldc, 64);
    if (e == cudaSuccess && out.q) e = encode_fp8(&tq, out.q, E, a.N, a.M, out.ld_q);
    if (e == cudaSuccess && out.qt) { // the last box of a row has zeros behind column M
        const int64_t columns = LT_MIN((a.M + 63) / 64 * 64, out.ld_qt);
        e = encode_fp8(&tqt, out.qt, E, columns, a.N, out.ld_qt);
    }
    if (e != cudaSuccess) return e;
    const int clusters = d->sm_count / C::CLUSTER;
    LaunchShape shape;
    shape.grid = dim3((p.work < clusters ? p.work : clusters) * C::CLUSTER);
    shape.block = dim3(THREADS);
    shape.smem = C::SMEM_BYTES;
    shape.cluster = C::CLUSTER;
    return launch(shape, d->stream, matmul_hopper_kernel<L, E, K, T>, ta, tb, tc, taux, tq, tqt, p);
}

// In the file of an instance.
#define MATMUL_HOPPER_INSTANCE(L, E, K, T)                                                         \
    template int start<Layout::L, DTYPE_##E, Kind::K, Tile::T>(const CudaDevice *,                 \
                                                               const MatmulArgs &, Params);

} // namespace matmul_hopper
