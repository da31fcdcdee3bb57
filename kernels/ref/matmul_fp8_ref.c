// matmul_fp8_ref.c -- see kernels/ops/matmul_fp8.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ref/act.h"
#include "kernels/ref/fp8_put.h"
#include "kernels/ref/ref.h"

static double dot(const MatmulFp8Args *a, int64_t m, int64_t n)
{
    double s = 0;
    for (int64_t k = 0; k < a->K; k++)
        s += (double)dtype_load(a->A, a->a_dtype, m * a->lda + k) *
             (double)dtype_load(a->B, a->b_dtype, n * a->ldb + k);
    return s;
}

static float rounded(DType t, double x)
{
    float r;
    dtype_store(&r, t, 0, (float)x); // the low half of r for a 16-bit type
    return dtype_load(&r, t, 0);
}

// S of the contract, through the epilogue: not yet rounded.
static double finished(const MatmulFp8Args *a, int64_t m, int64_t n)
{
    const int64_t at = m * a->ldc + n;
    double s = dot(a, m, n) * ((double)*a->a_inv * (double)*a->b_inv);
    if (a->bias) s += (double)dtype_load(a->bias, a->bias_dtype, n);
    switch (a->epilogue) {
    case MATMUL_PLAIN:
        if (a->accumulate) s += (double)dtype_load(a->C, a->c_dtype, at);
        break;
    case MATMUL_GELU: {
        const float x = rounded(a->c_dtype, s);
        if (a->aux) dtype_store(a->aux, a->c_dtype, at, x);
        s = act_value(a->act, (double)x);
        break;
    }
    case MATMUL_DGELU: s *= act_slope(a->act, (double)dtype_load(a->aux, a->c_dtype, at)); break;
    }
    return s;
}

Status matmul_fp8_ref(const MatmulFp8Args *a, OpCtx *cx, Err *err)
{
    (void)cx;
    (void)err;
    if (a->M == 0) return ERR_NONE;
    if (a->N > 0) fp8_put_begin(&a->out, a->M, a->N);
    for (int64_t n = 0; n < a->N; n++) {
        double sum = 0; // of column n
        for (int64_t m = 0; m < a->M; m++) {
            const float x = rounded(a->c_dtype, finished(a, m, n));
            if (a->C) dtype_store(a->C, a->c_dtype, m * a->ldc + n, x);
            fp8_put(&a->out, m, n, x);
            sum += (double)x;
        }
        if (a->dbias) a->dbias[n] = (float)(sum + (a->dbias_accumulate ? (double)a->dbias[n] : 0));
    }
    return ERR_NONE;
}
