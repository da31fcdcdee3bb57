// matmul_ref.c -- see kernels/ops/matmul.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ref/act.h"
#include "kernels/ref/ref.h"

static double dot(const MatmulArgs *a, int64_t m, int64_t n)
{
    double s = 0;
    for (int64_t k = 0; k < a->K; k++) {
        const int64_t i = a->trans_a ? k * a->lda + m : m * a->lda + k;
        const int64_t j = a->trans_b ? n * a->ldb + k : k * a->ldb + n;
        s += (double)dtype_load(a->A, a->ab_dtype, i) * (double)dtype_load(a->B, a->ab_dtype, j);
    }
    return s;
}

static float rounded(DType t, double x)
{
    float r;
    dtype_store(&r, t, 0, (float)x); // the low half of r for a 16-bit type
    return dtype_load(&r, t, 0);
}

Status matmul_ref(const MatmulArgs *a, OpCtx *cx, Err *err)
{
    (void)cx;
    (void)err;
    for (int64_t m = 0; m < a->M; m++) {
        for (int64_t n = 0; n < a->N; n++) {
            const int64_t at = m * a->ldc + n;
            double        s  = dot(a, m, n);
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
            case MATMUL_DGELU:
                s *= act_slope(a->act, (double)dtype_load(a->aux, a->c_dtype, at));
                break;
            }
            dtype_store(a->C, a->c_dtype, at, (float)s);
        }
    }
    return ERR_NONE;
}
