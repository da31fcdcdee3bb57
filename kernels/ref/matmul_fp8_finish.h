// matmul_fp8_finish.h -- what happens to the sums of matmul_fp8: scale, bias, epilogue, outputs.
//
// Of the reference, and of any other way to add that is to be compared with it.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/ops/matmul_fp8.h"
#include "kernels/ref/act.h"
#include "kernels/ref/fp8_put.h"

LT_INLINE float fp8_rounded(DType t, double x)
{
    float r;
    dtype_store(&r, t, 0, (float)x); // the low half of r for a 16-bit type
    return dtype_load(&r, t, 0);
}

// S of the contract from its sum, through the epilogue: not yet rounded.
LT_INLINE double fp8_finished(const MatmulFp8Args *a, int64_t m, int64_t n, double sum)
{
    const int64_t at = m * a->ldc + n;
    double s = sum * ((double)*a->a_inv * (double)*a->b_inv);
    if (a->bias) s += (double)dtype_load(a->bias, a->bias_dtype, n);
    switch (a->epilogue) {
    case MATMUL_PLAIN:
        if (a->accumulate) s += (double)dtype_load(a->C, a->c_dtype, at);
        break;
    case MATMUL_GELU: {
        const float x = fp8_rounded(a->c_dtype, s);
        if (a->aux) dtype_store(a->aux, a->c_dtype, at, x);
        s = act_value(a->act, (double)x);
        break;
    }
    case MATMUL_DGELU: s *= act_slope(a->act, (double)dtype_load(a->aux, a->c_dtype, at)); break;
    }
    return s;
}

typedef double MatmulFp8Sum(const MatmulFp8Args *a, int64_t m, int64_t n, const void *from);

LT_INLINE void matmul_fp8_finish(const MatmulFp8Args *a, MatmulFp8Sum *sum_of, const void *from)
{
    if (a->M == 0) return;
    if (a->N > 0) fp8_put_begin(&a->out, a->M, a->N);
    for (int64_t n = 0; n < a->N; n++) {
        double column = 0;
        for (int64_t m = 0; m < a->M; m++) {
            const float x = fp8_rounded(a->c_dtype, fp8_finished(a, m, n, sum_of(a, m, n, from)));
            if (a->C) dtype_store(a->C, a->c_dtype, m * a->ldc + n, x);
            fp8_put(&a->out, m, n, x);
            column += (double)x;
        }
        if (a->dbias)
            a->dbias[n] = (float)(column + (a->dbias_accumulate ? (double)a->dbias[n] : 0));
    }
}
