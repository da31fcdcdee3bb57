// cast.cu -- conversion of element types.
// Contract: kernels/ops/cast.h
//
// WHAT    dst[i] = src[i] in another type. A thread converts 8 elements.
// COST    reads and writes each element once: 2 to 8 bytes; about 30 instructions for 8 elements.
// RULES   Same bits as engine/base/dtype.h, NaNs included: the conversion instructions know one NaN
//         only, so a NaN goes through integer arithmetic.
// SHAPES  any n, any alignment.
// REGISTERS (sm_90, no spills)  32
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/types.cuh"

namespace
{

__device__ __forceinline__ bool is_nan(uint32_t f32)
{
    return (f32 & 0x7fffffffu) > 0x7f800000u;
}

// The bits of an f32 equal to x, an element of type t.
__device__ __forceinline__ uint32_t widen(uint32_t x, DType t)
{
    if (t == DTYPE_F32) return x;
    if (t == DTYPE_BF16) return x << 16;
    if ((x & 0x7fffu) > 0x7c00u) return (x & 0x8000u) << 16 | 0x7fc00000u | (x & 0x3ffu) << 13;
    return __float_as_uint(__half2float(__ushort_as_half(static_cast<unsigned short>(x))));
}

__device__ __forceinline__ uint32_t narrow(uint32_t f, DType t)
{
    if (t == DTYPE_F32) return f;
    if (t == DTYPE_BF16)
        return is_nan(f) ? f >> 16 | 0x40u
                         : __bfloat16_as_ushort(__float2bfloat16_rn(__uint_as_float(f)));
    return is_nan(f) ? (f >> 16 & 0x8000u) | 0x7e00u | (f >> 13 & 0x3ffu)
                     : __half_as_ushort(__float2half_rn(__uint_as_float(f)));
}

__global__ void __launch_bounds__(GRID_THREADS) cast_kernel(CastArgs a, bool aligned)
{
    constexpr int W = GRID_VECTOR;
    const int64_t step = static_cast<int64_t>(gridDim.x) * GRID_THREADS * W;
    int64_t i = (static_cast<int64_t>(blockIdx.x) * GRID_THREADS + threadIdx.x) * W;
    for (; i < a.n; i += step) {
        const Raw<W> x = load_raw<W>(a.src, a.src_dtype, i, a.n - i, aligned);
        Raw<W> y = {};
#pragma unroll
        for (int k = 0; k < W; k++) {
            const uint32_t in =
                a.src_dtype == DTYPE_F32 ? x.word[k] : x.word[k / 2] >> 16 * (k % 2) & 0xffffu;
            const uint32_t out = narrow(widen(in, a.src_dtype), a.dst_dtype);
            if (a.dst_dtype == DTYPE_F32)
                y.word[k] = out;
            else
                y.word[k / 2] |= out << 16 * (k % 2);
        }
        store_raw(a.dst, a.dst_dtype, i, a.n - i, aligned, y);
    }
}

} // namespace

bool cuda_cast_supports(const CudaDevice *, const CastArgs *, const char **)
{
    return true;
}

size_t cuda_cast_scratch(const CudaDevice *, const CastArgs *)
{
    return 0;
}

int cuda_cast(const CudaDevice *d, const CastArgs *a, void *)
{
    const bool aligned = is_aligned(a->src) && is_aligned(a->dst);
    return launch({.grid = flat_grid(a->n, GRID_VECTOR), .block = dim3(GRID_THREADS)}, d->stream,
                  cast_kernel, *a, aligned);
}
