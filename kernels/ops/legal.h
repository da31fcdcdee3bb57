// legal.h -- what every op's check asks: element types, sizes that do not overflow, dropout, FP8.
//
// A check runs on every op call, also in plan mode, where pointers come from a counting arena: it
// may compare a pointer with NULL, never follow it, and never compare it with another one (two
// counting arenas hand out the same addresses). It costs a few comparisons and looks at no element.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/dtype.h"
#include "engine/base/err.h"
#include "kernels/ops/dropout.h"
#include "kernels/ops/fp8.h"

// FP8 rows: what tensor cores and copy engines take.
LT_INLINE bool legal_fp8_rows(const void *p, int64_t rows, int64_t cols, int64_t ld)
{
    int64_t n;
    return (uintptr_t)p % 16 == 0 && ld >= cols && ld % 16 == 0 &&
           !__builtin_mul_overflow(rows, ld, &n) && n <= INT64_MAX / 8;
}

// A type that kernels compute with.
LT_INLINE bool legal_float(DType t) { return t == DTYPE_F32 || t == DTYPE_BF16 || t == DTYPE_F16; }

// Is the tensor [a,b] addressable? Sizes are not negative and a*b elements of 8 bytes fit in int64.
LT_INLINE bool legal_size(int64_t a, int64_t b)
{
    int64_t n;
    return a >= 0 && b >= 0 && !__builtin_mul_overflow(a, b, &n) && n <= INT64_MAX / 8;
}

LT_C_BEGIN
// N: rows the dropout covers, T: rows of one sample; only read when p is not 0.
LT_MUST_CHECK Status legal_drop(const DropoutSpec *d, int64_t N, int64_t T, Err *err);
// An FP8 copy of a tensor [R,C]; none is legal.
LT_MUST_CHECK Status legal_fp8_out(const Fp8Out *o, int64_t R, int64_t C, Err *err);
LT_MUST_CHECK Status legal_type(const char *what, DType t, Err *err); // not legal_float: says so
LT_C_END
