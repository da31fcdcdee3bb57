// wgmma_modes.cu -- wgmma for every swizzle mode and operand layout.
//
// SPDX-License-Identifier: MIT
// one 64x64x64 product per launch, for every swizzle mode and operand major-ness; D stored as f32
#include "ptx.cuh"
namespace
{
struct Smem {
    alignas(1024) uint8_t a[64 * 128], b[64 * 128];
    alignas(8) uint64_t bar;
};
} // namespace
// SW: descriptor swizzle code 0 none, 1 128B, 2 64B, 3 32B. AM/BMN: operand is MN-major ([K,M] /
// [K,N] in memory).
// KIND: 0 bf16 SS, 1 bf16 RS (A from registers), 2 e4m3 SS
template <int SW, int AM, int BMN, int KIND>
__global__ void __launch_bounds__(128)
    wgmma_modes_kernel(float *D, const __grid_constant__ CUtensorMap ta,
                       const __grid_constant__ CUtensorMap tb, const void *A)
{
    extern __shared__ __align__(1024) uint8_t raw[];
    Smem &s = *reinterpret_cast<Smem *>(raw);
    constexpr int ROW = SW == 0   ? 16
                        : SW == 1 ? 128
                        : SW == 2 ? 64
                                  : 32; // bytes of one swizzle row
    constexpr int ES = KIND == 2 ? 1 : 2, E = ROW / ES, KK = 32 / ES,
                  L = 64; // elements per row, K per instruction
    constexpr int KT = 128 / ES, NBOX = 128 / ROW,
                  BOX = L * ROW; // K extent (64 bf16, 128 fp8), boxes per operand, bytes per box
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    if (t == 0) {
        ptx::mbar_init(&s.bar, 1);
        ptx::mbar_init_fence();
    }
    __syncthreads();
    if (t == 0) {
        ptx::mbar_arrive_expect_tx(&s.bar, 2 * NBOX * BOX);
        for (int i = 0; i < NBOX; ++i) {
            ptx::tma_load_2d(s.a + i * BOX, &ta, &s.bar, i * E, 0);
            ptx::tma_load_2d(s.b + i * BOX, &tb, &s.bar, i * E, 0);
        }
    }
    ptx::mbar_wait(&s.bar, 0);
    float d[32];
#pragma unroll
    for (int i = 0; i < 32; ++i) d[i] = 7.f; // must be ignored: first scale_d is 0
    ptx::wgmma_fence_regs(d);
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < KT; k += KK) {
        auto desc = [&](const uint8_t *base, bool mn) {
            uint32_t p = ptx::smem_u32(base);
            if (!mn) { // K-major: boxes run along K
                p += k * ES / ROW * BOX + k * ES % ROW;
                return SW == 0 ? ptx::make_desc(p, BOX, 128, 0)
                               : ptx::make_desc(p, 16, 8 * ROW, SW);
            }
            p += k * ROW; // MN-major: boxes run along MN, rows are K
            return SW == 0 ? ptx::make_desc(p, 128, BOX, 0) : ptx::make_desc(p, BOX, 8 * ROW, SW);
        };
        if constexpr (KIND == 0)
            ptx::wgmma_bf16_ss<64, AM, BMN>(d, desc(s.a, AM), desc(s.b, BMN), k != 0);
        if constexpr (KIND == 2)
            ptx::wgmma_m64n64k32_e4m3_ss(d, desc(s.a, false), desc(s.b, false), k != 0);
        if constexpr (KIND == 1) {
            uint32_t a[4];
#pragma unroll
            for (int q = 0; q < 4; ++q)
                a[q] = *(const uint32_t *)((const uint16_t *)A +
                                           (warp * 16 + lane / 4 + q % 2 * 8) * 64 + k + q / 2 * 8 +
                                           lane % 4 * 2);
            ptx::wgmma_fence();
            ptx::wgmma_m64n64k16_bf16_rs<BMN>(d, a, desc(s.b, BMN), k != 0);
            ptx::wgmma_commit();
            ptx::wgmma_wait<0>();
            ptx::wgmma_fence_regs(d);
        }
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    ptx::wgmma_fence_regs(d);
#pragma unroll
    for (int i = 0; i < 32; ++i)
        D[(warp * 16 + lane / 4 + i / 2 % 2 * 8) * 64 + i / 4 * 8 + lane % 4 * 2 + i % 2] = d[i];
}
extern "C" int k_wgmma_modes(int sw, int am, int bmn, int kind, float *D, const void *A,
                             const void *B, cudaStream_t st)
{
    static void *fn = 0;
    cudaDriverEntryPointQueryResult q;
    if (!fn && (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &fn, 12000,
                                                 cudaEnableDefault, &q) != cudaSuccess ||
                !fn))
        return -1;
    const unsigned row = sw == 0 ? 16 : sw == 1 ? 128 : sw == 2 ? 64 : 32, es = kind == 2 ? 1 : 2;
    CUtensorMap m[2];
    for (int i = 0; i < 2; ++i) {
        cuuint64_t dim[2] = {128 / es, 64}, str[1] = {128};
        cuuint32_t box[2] = {row / es, 64}, one[2] = {1, 1};
        int e = (int)((decltype(&cuTensorMapEncodeTiled))fn)(
            &m[i], es == 2 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_UINT8, 2,
            (void *)(i ? B : A), dim, str, box, one, CU_TENSOR_MAP_INTERLEAVE_NONE,
            (CUtensorMapSwizzle)(sw == 0 ? 0 : 4 - sw), CU_TENSOR_MAP_L2_PROMOTION_NONE,
            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
        if (e) return e;
    }
    const LaunchShape c{dim3(1), dim3(128), sizeof(Smem), st};
#define CASE(S, X, Y, K)                                                                           \
    if (sw == S && am == X && bmn == Y && kind == K)                                               \
        return (int)launch(c, wgmma_modes_kernel<S, X, Y, K>, D, m[0], m[1], A);
#define CASES(S)                                                                                   \
    CASE(S, 0, 0, 0)                                                                               \
    CASE(S, 1, 0, 0) CASE(S, 0, 1, 0) CASE(S, 1, 1, 0) CASE(S, 0, 0, 1) CASE(S, 0, 1, 1)           \
        CASE(S, 0, 0, 2)
    CASES(0) CASES(1) CASES(2) CASES(3) return -2;
}
