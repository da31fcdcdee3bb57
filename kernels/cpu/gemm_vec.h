// gemm_vec.h -- what the matrix kernels need on top of vec_simd.h: a transpose, the activations,
// the store of finished sums.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/vmath.h"
#include "kernels/ops/matmul.h"

// VL x VL transpose: log2(VL) rounds, each of which interleaves row i with row i + VL/2.
LT_INLINE void gemm_transpose(VecF r[VL])
{
    VecF t[VL];
#pragma GCC unroll 4
    for (int round = 1; round < VL; round *= 2) {
#pragma GCC unroll 8
        for (int i = 0; i < VL / 2; i++) {
            t[2 * i] = __builtin_shufflevector(r[i], r[i + VL / 2], VEC_LO);
            t[2 * i + 1] = __builtin_shufflevector(r[i], r[i + VL / 2], VEC_HI);
        }
#pragma GCC unroll 16
        for (int i = 0; i < VL; i++) r[i] = t[i];
    }
}

LT_INLINE VecF gemm_act(VecF x, Activation act)
{
    switch (act) {
    case ACT_GELU_TANH: return vm_gelu_tanh(x);
    case ACT_GELU_ERF: return vm_gelu_erf(x);
    case ACT_TANH: return vm_tanh(x);
    case ACT_RELU: break;
    }
    return vec_max(vec_set(0.0f), x);
}

LT_INLINE VecF gemm_act_slope(VecF x, Activation act)
{
    switch (act) {
    case ACT_GELU_TANH: return vm_dgelu_tanh(x);
    case ACT_GELU_ERF: return vm_dgelu_erf(x);
    case ACT_TANH: return 1.0f - vm_tanh(x) * vm_tanh(x);
    case ACT_RELU: break;
    }
    return vec_select(x == x, vec_select(x > 0.0f, vec_set(1.0f), vec_set(0.0f)), x);
}

// Finish n <= VL columns of row r from column c and store them.
LT_INLINE void gemm_finish(const MatmulArgs *a, VecF s, int64_t r, int64_t c, int64_t n)
{
    const int64_t at = r * a->ldc + c;
    if (a->accumulate && a->c_dtype != DTYPE_F32) s += vec_load_as_n(a->C, a->c_dtype, at, n, 0);
    if (a->bias) s += vec_load_as_n(a->bias, a->bias_dtype, c, n, 0);
    if (a->epilogue == MATMUL_GELU) {
        s = vec_round_as(s, a->c_dtype);
        if (a->aux) vec_store_as_n(a->aux, a->c_dtype, at, n, s);
        s = gemm_act(s, a->act);
    } else if (a->epilogue == MATMUL_DGELU) {
        s *= gemm_act_slope(vec_load_as_n(a->aux, a->c_dtype, at, n, 0), a->act);
    }
    vec_store_as_n(a->C, a->c_dtype, at, n, s);
}
