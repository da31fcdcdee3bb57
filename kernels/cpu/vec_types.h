// vec_types.h -- the types of vec_simd.h and what needs no more than C: set, load, store, select.
//
// A VecF is VL floats, LATHE_VB bytes wide (isa.h).
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include <string.h>
#include "engine/base/compiler.h"
#include "engine/base/dtype.h"
#include "kernels/cpu/isa.h"

enum { VL = LATHE_VB / 4 }; // floats in a vector

typedef float VecF __attribute__((vector_size(LATHE_VB)));
typedef int32_t VecI __attribute__((vector_size(LATHE_VB)));
typedef uint32_t VecU __attribute__((vector_size(LATHE_VB)));
typedef uint64_t VecU64 __attribute__((vector_size(LATHE_VB)));
typedef uint16_t VecH __attribute__((vector_size(LATHE_VB / 2))); // VL bf16 or f16 bit patterns

// The same in memory, at any address.
typedef float VecFMem __attribute__((vector_size(LATHE_VB), aligned(4), may_alias));
typedef uint16_t VecHMem __attribute__((vector_size(LATHE_VB / 2), aligned(2), may_alias));

LT_INLINE VecF vec_set(float x)
{
    return x - (VecF){0}; // keeps the sign of zero
}
LT_INLINE VecF vec_load(const float *p)
{
    return *(const VecFMem *)p;
}
LT_INLINE void vec_store(float *p, VecF v)
{
    *(VecFMem *)p = v;
}

LT_INLINE VecU vec_iota(void) // 0, 1, 2, ...
{
    uint32_t a[VL];
    VecU v;
    for (int i = 0; i < VL; i++) a[i] = (uint32_t)i;
    memcpy(&v, a, sizeof v);
    return v;
}

LT_INLINE VecF vec_select(VecI mask, VecF yes, VecF no)
{
    return (VecF)((mask & (VecI)yes) | (~mask & (VecI)no));
}
LT_INLINE VecF vec_abs(VecF x)
{
    return (VecF)((VecI)x & 0x7fffffff);
}
