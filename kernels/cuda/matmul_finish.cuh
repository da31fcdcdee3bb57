// matmul_finish.cuh -- what becomes of one sum of a plain product: bias, epilogue, C.
// Of matmul.cu and matmul_fp8.cu; the contracts say it in the same words.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cuda/act.cuh"
#include "kernels/cuda/types.cuh"

// Element (m, n), whose product is s: the result as C's type holds it. C may be NULL.
template <class Args> __device__ float finish(const Args &a, int64_t m, int64_t n, float s)
{
    const int64_t at = m * a.ldc + n;
    if (a.bias) s += load_one(a.bias, a.bias_dtype, n);
    if (a.epilogue == MATMUL_GELU) {
        const float x = round_to(a.c_dtype, s);
        if (a.aux) store_one(a.aux, a.c_dtype, at, x);
        s = act_value_f32(a.act, x);
    } else if (a.epilogue == MATMUL_DGELU) {
        s *= act_slope_f32(a.act, load_one(a.aux, a.c_dtype, at));
    } else if (a.accumulate) {
        s += load_one(a.C, a.c_dtype, at);
    }
    if (a.C) store_one(a.C, a.c_dtype, at, s);
    return round_to(a.c_dtype, s);
}
