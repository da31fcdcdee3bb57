// matmul_ref.c -- see kernels/ops/matmul.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ref/epilogue.h"
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

Status matmul_ref(const MatmulArgs *a, OpCtx *cx, Err *err)
{
    (void)cx;
    (void)err;
    const Epilogue e = {.C = a->C,
                        .bias = a->bias,
                        .aux = a->aux,
                        .accumulate = a->accumulate,
                        .kind = a->epilogue,
                        .act = a->act,
                        .c_dtype = a->c_dtype,
                        .bias_dtype = a->bias_dtype};
    for (int64_t m = 0; m < a->M; m++) {
        for (int64_t n = 0; n < a->N; n++) {
            const int64_t at = m * a->ldc + n;
            dtype_store(a->C, a->c_dtype, at, (float)epilogue_result(&e, at, n, dot(a, m, n)));
        }
    }
    return ERR_NONE;
}
