// gemm_wgmma.cu -- a warp-specialised GEMM: a TMA ring, mbarriers, wgmma, a TMA store.
//
// SPDX-License-Identifier: MIT
// C[M,N] = A[M,K] * op(B), bf16 in, bf16 out through a TMA store.
// Warp-specialised: warpgroup 0 = TMA producer, warpgroups 1,2 = wgmma consumers (64 rows each).
// 128x128x64 tile, STAGES-deep ring.
// TB = 0: B is [N,K] (K-major tile); TB = 1: B is [K,N] (MN-major tile, two 64-column boxes).
#include "ptx.cuh"
namespace
{
constexpr int BM = 128, BN = 128, BK = 64, STAGES = 3;
struct Smem {
    alignas(1024) __nv_bfloat16 a[STAGES][BM * BK];
    alignas(1024) __nv_bfloat16 b[STAGES][BN * BK];
    alignas(1024) __nv_bfloat16 c[2][64 * BN]; // per consumer: two 64-column boxes, 128B swizzle
    alignas(8) uint64_t full[STAGES], empty[STAGES];
};
} // namespace
template <int TB>
__global__ void __launch_bounds__(384, 1)
    gemm_wgmma_kernel(const __grid_constant__ CUtensorMap ta,
                      const __grid_constant__ CUtensorMap tb,
                      const __grid_constant__ CUtensorMap tc, int K)
{
    extern __shared__ __align__(1024) uint8_t raw[];
    Smem &s = *reinterpret_cast<Smem *>(raw);
    const int wg = threadIdx.x / 128, m0 = blockIdx.y * BM, n0 = blockIdx.x * BN, nk = K / BK;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            ptx::mbar_init(&s.full[i], 1);
            ptx::mbar_init(&s.empty[i], 2);
        }
        ptx::mbar_init_fence();
    }
    __syncthreads();
    if (wg == 0) {
        ptx::setmaxnreg_dec<40>();
        if (threadIdx.x == 0) {
            ptx::tma_prefetch(&ta);
            ptx::tma_prefetch(&tb);
            for (int k = 0; k < nk; ++k) {
                const int st = k % STAGES;
                if (k >= STAGES) ptx::mbar_wait(&s.empty[st], (k / STAGES - 1) & 1);
                ptx::mbar_arrive_expect_tx(&s.full[st], (BM + BN) * BK * 2);
                ptx::tma_load_2d(s.a[st], &ta, &s.full[st], k * BK, m0);
                if (TB == 0)
                    ptx::tma_load_2d(s.b[st], &tb, &s.full[st], k * BK, n0);
                else {
                    ptx::tma_load_2d(s.b[st], &tb, &s.full[st], n0, k * BK);
                    ptx::tma_load_2d(s.b[st] + 64 * BK, &tb, &s.full[st], n0 + 64, k * BK);
                }
            }
        }
    } else {
        ptx::setmaxnreg_inc<232>();
        const int cw = wg - 1, t = threadIdx.x % 128, lane = t % 32, warp = t / 32;
        float d[BN / 2];
#pragma unroll
        for (int i = 0; i < BN / 2; ++i) d[i] = 0.f;
        for (int k = 0; k < nk; ++k) {
            const int st = k % STAGES;
            ptx::mbar_wait(&s.full[st], (k / STAGES) & 1);
            ptx::wgmma_fence_regs(d);
            ptx::wgmma_fence();
            const uint32_t a0 = ptx::smem_u32(s.a[st]) + cw * 64 * BK * 2,
                           b0 = ptx::smem_u32(s.b[st]);
#pragma unroll
            for (int kk = 0; kk < BK / 16; ++kk) {
                uint64_t da = ptx::make_desc(a0 + kk * 32, 16, 1024, 1);
                uint64_t db = TB == 0 ? ptx::make_desc(b0 + kk * 32, 16, 1024, 1)
                                      : ptx::make_desc(b0 + kk * 2048, 64 * BK * 2, 1024, 1);
                ptx::wgmma_bf16_ss<BN, 0, TB>(d, da, db, 1);
            }
            ptx::wgmma_commit();
            ptx::wgmma_wait<0>();
            ptx::wgmma_fence_regs(d);
            if (t == 0) ptx::mbar_arrive(&s.empty[st]);
        }
        // epilogue: registers -> swizzled shared memory (stmatrix) -> TMA store
#pragma unroll
        for (int i = 0; i < BN / 16; ++i) {
            uint32_t r[4];
#pragma unroll
            for (int q = 0; q < 4; ++q) {
                __nv_bfloat162 v = __floats2bfloat162_rn(d[i * 8 + q * 2], d[i * 8 + q * 2 + 1]);
                r[q] = *reinterpret_cast<uint32_t *>(&v);
            }
            const int row = warp * 16 + lane % 8 + (lane / 8 % 2) * 8,
                      chunk = i * 2 + lane / 16; // 16-byte chunk in the row
            char *p = (char *)s.c[cw] + (chunk / 8) * 64 * 128 + row * 128 +
                      (((chunk % 8) ^ (row % 8)) * 16);
            ptx::stmatrix_x4(p, r);
        }
        ptx::fence_async_proxy();
        ptx::named_sync(1 + cw, 128);
        if (t == 0) {
            ptx::tma_store_2d(&tc, s.c[cw], n0, m0 + cw * 64);
            ptx::tma_store_2d(&tc, s.c[cw] + 64 * 64, n0 + 64, m0 + cw * 64);
            ptx::bulk_commit();
            ptx::bulk_wait<0>();
        }
    }
}
static int map2d(CUtensorMap *m, const void *p, uint64_t inner, uint64_t outer, uint32_t box_in,
                 uint32_t box_out)
{
    static void *fn = 0;
    if (!fn) {
        cudaDriverEntryPointQueryResult q;
        if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &fn, 12000,
                                             cudaEnableDefault, &q) != cudaSuccess ||
            !fn)
            return -1;
    }
    cuuint64_t dim[2] = {inner, outer}, str[1] = {inner * 2};
    cuuint32_t box[2] = {box_in, box_out}, es[2] = {1, 1};
    return (int)((decltype(&cuTensorMapEncodeTiled))fn)(
        m, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, (void *)p, dim, str, box, es,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}
extern "C" int k_gemm_wgmma(void *C, const void *A, const void *B, int M, int N, int K, int tb,
                            cudaStream_t st)
{
    CUtensorMap ma, mb, mc;
    int e = map2d(&ma, A, K, M, BK, BM);
    if (!e) e = tb ? map2d(&mb, B, N, K, 64, BK) : map2d(&mb, B, K, N, BK, BN);
    if (!e) e = map2d(&mc, C, N, M, 64, 64);
    if (e) return e;
    const LaunchShape cfg{dim3((N + BN - 1) / BN, (M + BM - 1) / BM), dim3(384), sizeof(Smem), st};
    return (int)(tb ? launch(cfg, gemm_wgmma_kernel<1>, ma, mb, mc, K)
                    : launch(cfg, gemm_wgmma_kernel<0>, ma, mb, mc, K));
}
