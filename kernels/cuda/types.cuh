// types.cuh -- f32, bf16 and f16 elements as float, one by one and in vectors.
//
// Two ways to write a kernel for three element types:
//
//   with_type(dtype, f)        one instance a type: for kernels that compute with the elements as
//                              they lie in memory (products of tiles)
//   load<W>(v, p, dtype, ...)  one instance for all, which looks at the type when it loads: for
//                              kernels that stream. Every thread takes the same branch, and one
//                              costs nothing beside a load from memory.
//
// A streaming kernel moves W = 8 neighbouring elements a thread: 16 bytes of bf16, 32 of f32. The
// work of a thread has two halves, so that all loads are on their way before the first is needed:
//
//     Raw<8> x = load_raw<8>(p, ...)   asks for the bytes, waits for nothing
//     unpack(v, x, dtype)              waits, and makes floats of them
//
// Pointers may be aligned to their element only (`aligned` false) and rows may end anywhere: then
// the same thread moves the same elements one by one. Bits of results do not depend on alignment.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "engine/base/dtype.h"

// ---- one element --------------------------------------------------------------------------------
// bf16 and f16 round to nearest, ties to even. The GPU makes one NaN of all NaNs.

__device__ __forceinline__ float to_f32(float x)
{
    return x;
}
__device__ __forceinline__ float to_f32(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}
__device__ __forceinline__ float to_f32(__half x)
{
    return __half2float(x);
}

template <typename T> __device__ __forceinline__ T from_f32(float x);
template <> __device__ __forceinline__ float from_f32<float>(float x)
{
    return x;
}
template <> __device__ __forceinline__ __nv_bfloat16 from_f32<__nv_bfloat16>(float x)
{
    return __float2bfloat16_rn(x);
}
template <> __device__ __forceinline__ __half from_f32<__half>(float x)
{
    return __float2half_rn(x);
}

// Element i of p, whose type is known at run time; and what x is once it is stored there.
__device__ __forceinline__ float load_one(const void *p, DType t, int64_t i)
{
    if (t == DTYPE_F32) return static_cast<const float *>(p)[i];
    if (t == DTYPE_BF16) return to_f32(static_cast<const __nv_bfloat16 *>(p)[i]);
    return to_f32(static_cast<const __half *>(p)[i]);
}

__device__ __forceinline__ void store_one(void *p, DType t, int64_t i, float x)
{
    if (t == DTYPE_F32)
        static_cast<float *>(p)[i] = x;
    else if (t == DTYPE_BF16)
        static_cast<__nv_bfloat16 *>(p)[i] = from_f32<__nv_bfloat16>(x);
    else
        static_cast<__half *>(p)[i] = from_f32<__half>(x);
}

__device__ __forceinline__ float round_to(DType t, float x)
{
    if (t == DTYPE_BF16) return to_f32(from_f32<__nv_bfloat16>(x));
    return t == DTYPE_F16 ? to_f32(from_f32<__half>(x)) : x;
}

// Calls f with a value of the type that `t` names: with_type(t, [&](auto zero) { ... }) where
// decltype(zero) is float, __nv_bfloat16 or __half.
template <typename F> auto with_type(DType t, F f)
{
    switch (t) {
    case DTYPE_BF16: return f(__nv_bfloat16{});
    case DTYPE_F16: return f(__half{});
    default: return f(float{});
    }
}

// ---- W neighbouring elements --------------------------------------------------------------------

// As they lie in memory: W words of f32, or W/2 words of bf16 or f16.
template <int W> struct Raw {
    uint32_t word[W];
};

// May 16 bytes at a time be moved to and from p? NULL: nobody will.
inline bool is_aligned(const void *p)
{
    return reinterpret_cast<uintptr_t>(p) % 16 == 0;
}

template <int WORDS> __device__ __forceinline__ void load_words(uint32_t *w, const void *p)
{
    if (WORDS % 4 == 0) {
#pragma unroll
        for (int i = 0; i < WORDS / 4; i++) {
            const uint4 x = static_cast<const uint4 *>(p)[i];
            w[4 * i] = x.x, w[4 * i + 1] = x.y, w[4 * i + 2] = x.z, w[4 * i + 3] = x.w;
        }
    } else {
        const uint2 x = *static_cast<const uint2 *>(p);
        w[0] = x.x, w[1] = x.y;
    }
}

template <int WORDS> __device__ __forceinline__ void store_words(void *p, const uint32_t *w)
{
    if (WORDS % 4 == 0) {
#pragma unroll
        for (int i = 0; i < WORDS / 4; i++)
            static_cast<uint4 *>(p)[i] =
                make_uint4(w[4 * i], w[4 * i + 1], w[4 * i + 2], w[4 * i + 3]);
    } else {
        *static_cast<uint2 *>(p) = make_uint2(w[0], w[1]);
    }
}

// Elements i .. i+W-1 of p. Those from the `left`-th on are not read and become 0.
template <int W>
__device__ __forceinline__ Raw<W> load_raw(const void *p, DType t, int64_t i, int64_t left,
                                           bool aligned)
{
    Raw<W> r = {};
    if (t == DTYPE_F32) {
        const uint32_t *x = static_cast<const uint32_t *>(p) + i;
        if (aligned && left >= W)
            load_words<W>(r.word, x);
        else {
#pragma unroll
            for (int k = 0; k < W; k++)
                if (k < left) r.word[k] = x[k];
        }
    } else {
        const uint16_t *x = static_cast<const uint16_t *>(p) + i;
        if (aligned && left >= W)
            load_words<W / 2>(r.word, x);
        else {
#pragma unroll
            for (int k = 0; k < W; k++)
                if (k < left) r.word[k / 2] |= static_cast<uint32_t>(x[k]) << 16 * (k % 2);
        }
    }
    return r;
}

template <int W>
__device__ __forceinline__ void store_raw(void *p, DType t, int64_t i, int64_t left, bool aligned,
                                          const Raw<W> &r)
{
    if (t == DTYPE_F32) {
        uint32_t *x = static_cast<uint32_t *>(p) + i;
        if (aligned && left >= W)
            store_words<W>(x, r.word);
        else {
#pragma unroll
            for (int k = 0; k < W; k++)
                if (k < left) x[k] = r.word[k];
        }
    } else {
        uint16_t *x = static_cast<uint16_t *>(p) + i;
        if (aligned && left >= W)
            store_words<W / 2>(x, r.word);
        else {
#pragma unroll
            for (int k = 0; k < W; k++)
                if (k < left) x[k] = static_cast<uint16_t>(r.word[k / 2] >> 16 * (k % 2));
        }
    }
}

template <int W> __device__ __forceinline__ void unpack(float (&v)[W], const Raw<W> &r, DType t)
{
#pragma unroll
    for (int k = 0; k < W; k += 2) {
        const uint32_t two = r.word[k / 2];
        if (t == DTYPE_F32) {
            v[k] = __uint_as_float(r.word[k]);
            v[k + 1] = __uint_as_float(r.word[k + 1]);
        } else if (t == DTYPE_BF16) { // the upper half of an f32
            v[k] = __uint_as_float(two << 16);
            v[k + 1] = __uint_as_float(two & 0xffff0000u);
        } else {
            v[k] = __half2float(__ushort_as_half(static_cast<unsigned short>(two)));
            v[k + 1] = __half2float(__ushort_as_half(static_cast<unsigned short>(two >> 16)));
        }
    }
}

template <int W> __device__ __forceinline__ Raw<W> pack(const float (&v)[W], DType t)
{
    Raw<W> r = {};
#pragma unroll
    for (int k = 0; k < W; k += 2) {
        if (t == DTYPE_F32) {
            r.word[k] = __float_as_uint(v[k]);
            r.word[k + 1] = __float_as_uint(v[k + 1]);
        } else if (t == DTYPE_BF16) {
            const __nv_bfloat162 two = __floats2bfloat162_rn(v[k], v[k + 1]);
            r.word[k / 2] = __bfloat16_as_ushort(two.x) | __bfloat16_as_ushort(two.y) << 16;
        } else {
            const __half2 two = __floats2half2_rn(v[k], v[k + 1]);
            r.word[k / 2] = __half_as_ushort(two.x) | __half_as_ushort(two.y) << 16;
        }
    }
    return r;
}

template <int W>
__device__ __forceinline__ void load(float (&v)[W], const void *p, DType t, int64_t i, int64_t left,
                                     bool aligned)
{
    unpack(v, load_raw<W>(p, t, i, left, aligned), t);
}

template <int W>
__device__ __forceinline__ void store(void *p, DType t, int64_t i, int64_t left, bool aligned,
                                      const float (&v)[W])
{
    store_raw(p, t, i, left, aligned, pack(v, t));
}
