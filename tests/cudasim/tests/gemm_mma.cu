// gemm_mma.cu -- a GEMM by cp.async, ldmatrix and mma.sync.
//
// SPDX-License-Identifier: MIT
// C[M,N] = A[M,K] * B[N,K]^T, bf16 in, f32 out. cp.async double buffering, ldmatrix, mma.sync
// m16n8k16. 64x64x32 tile, 4 warps.
#include "ptx.cuh"
namespace
{
constexpr int BM = 64, BN = 64, BK = 32, PAD = 8;
struct Smem {
    __nv_bfloat16 a[2][BM][BK + PAD], b[2][BN][BK + PAD];
};
} // namespace
__global__ void __launch_bounds__(128)
    gemm_mma_kernel(float *C, const __nv_bfloat16 *A, const __nv_bfloat16 *B, int M, int N, int K)
{
    extern __shared__ __align__(1024) uint8_t raw[];
    Smem &s = *reinterpret_cast<Smem *>(raw);
    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, wm = warp / 2, wn = warp % 2;
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    auto load = [&](int st, int k0) {
        for (int i = tid; i < BM * BK / 8; i += 128) {
            int r = i / (BK / 8), c = i % (BK / 8) * 8;
            bool oka = m0 + r < M, okb = n0 + r < N;
            ptx::cp_async_16(&s.a[st][r][c], A + (size_t)(oka ? m0 + r : 0) * K + k0 + c,
                             oka ? 16 : 0);
            ptx::cp_async_16(&s.b[st][r][c], B + (size_t)(okb ? n0 + r : 0) * K + k0 + c,
                             okb ? 16 : 0);
        }
        ptx::cp_async_commit();
    };
    float acc[2][4][4] = {};
    load(0, 0);
    const int nk = K / BK;
    for (int kt = 0; kt < nk; ++kt) {
        if (kt + 1 < nk) {
            load((kt + 1) & 1, (kt + 1) * BK);
            ptx::cp_async_wait<1>();
        } else
            ptx::cp_async_wait<0>();
        __syncthreads();
        const int st = kt & 1;
#pragma unroll
        for (int kk = 0; kk < BK; kk += 16) {
            uint32_t a[2][4], b[2][4];
#pragma unroll
            for (int i = 0; i < 2; ++i)
                ptx::ldmatrix_x4(a[i], &s.a[st][wm * 32 + i * 16 + lane % 16][kk + lane / 16 * 8]);
#pragma unroll
            for (int j = 0; j < 2; ++j)
                ptx::ldmatrix_x4(
                    b[j],
                    &s.b[st][wn * 32 + j * 16 + lane % 8 + lane / 16 * 8][kk + lane / 8 % 2 * 8]);
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    uint32_t bb[2] = {b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]};
                    ptx::mma_m16n8k16_bf16(acc[i][j], a[i], bb);
                }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                int r = m0 + wm * 32 + i * 16 + h * 8 + lane / 4,
                    c = n0 + wn * 32 + j * 8 + lane % 4 * 2;
                if (r < M && c < N)
                    *reinterpret_cast<float2 *>(&C[(size_t)r * N + c]) =
                        make_float2(acc[i][j][h * 2], acc[i][j][h * 2 + 1]);
            }
}
extern "C" int k_gemm_mma(float *C, const void *A, const void *B, int M, int N, int K,
                          cudaStream_t st)
{
    return (int)launch({dim3((N + BN - 1) / BN, (M + BM - 1) / BM), dim3(128), sizeof(Smem), st},
                       gemm_mma_kernel, C, (const __nv_bfloat16 *)A, (const __nv_bfloat16 *)B, M, N,
                       K);
}
