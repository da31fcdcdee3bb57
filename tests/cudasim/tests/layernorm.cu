// layernorm.cu -- layernorm forward: warp shuffles, static shared memory, 16-byte loads.
//
// SPDX-License-Identifier: MIT
// LayerNorm forward: one block per row, 16-byte loads, warp-shuffle reduction, bf16 in/out, f32
// statistics.
#include "ptx.cuh"

struct alignas(16) bf16x8 {
    __nv_bfloat162 v[4];
};

__device__ __forceinline__ float warp_sum(float x)
{
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) x += __shfl_xor_sync(0xffffffffu, x, o);
    return x;
}

template <int THREADS> __device__ __forceinline__ float block_sum(float x, float *red)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    x = warp_sum(x);
    if (lane == 0) red[warp] = x;
    __syncthreads();
    float y = lane < THREADS / 32 ? red[lane] : 0.f;
    y = warp_sum(y);
    __syncthreads(); // red is reused by the next call
    return y;
}

template <int THREADS>
__global__ void __launch_bounds__(THREADS)
    layernorm_fwd_kernel(__nv_bfloat16 *__restrict__ out, const __nv_bfloat16 *__restrict__ x,
                         const __nv_bfloat16 *__restrict__ gamma,
                         const __nv_bfloat16 *__restrict__ beta, float *__restrict__ mean,
                         float *__restrict__ rstd, int C, float eps)
{
    __shared__ float red[32];
    const int row = blockIdx.x;
    const bf16x8 *xr = reinterpret_cast<const bf16x8 *>(x + (size_t)row * C);
    float s = 0.f;
    for (int i = threadIdx.x; i < C / 8; i += THREADS) {
        bf16x8 p = xr[i];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            float2 f = __bfloat1622float2(p.v[j]);
            s += f.x + f.y;
        }
    }
    const float mu = block_sum<THREADS>(s, red) / C;
    float v = 0.f;
    for (int i = threadIdx.x; i < C / 8; i += THREADS) {
        bf16x8 p = xr[i];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            float2 f = __bfloat1622float2(p.v[j]);
            v += (f.x - mu) * (f.x - mu) + (f.y - mu) * (f.y - mu);
        }
    }
    const float rs = rsqrtf(block_sum<THREADS>(v, red) / C + eps);
    for (int i = threadIdx.x; i < C / 8; i += THREADS) {
        bf16x8 p = xr[i], g = reinterpret_cast<const bf16x8 *>(gamma)[i],
               b = reinterpret_cast<const bf16x8 *>(beta)[i], o;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            float2 f = __bfloat1622float2(p.v[j]), gg = __bfloat1622float2(g.v[j]),
                   bb = __bfloat1622float2(b.v[j]);
            o.v[j] =
                __floats2bfloat162_rn((f.x - mu) * rs * gg.x + bb.x, (f.y - mu) * rs * gg.y + bb.y);
        }
        reinterpret_cast<bf16x8 *>(out + (size_t)row * C)[i] = o;
    }
    if (threadIdx.x == 0) {
        mean[row] = mu;
        rstd[row] = rs;
    }
}

extern "C" int k_layernorm_fwd(void *out, const void *x, const void *g, const void *b, float *mean,
                               float *rstd, int rows, int C, float eps, cudaStream_t st)
{
    typedef __nv_bfloat16 T;
    return (int)launch({dim3(rows), dim3(128), 0, st}, layernorm_fwd_kernel<128>, (T *)out,
                       (const T *)x, (const T *)g, (const T *)b, mean, rstd, C, eps);
}
