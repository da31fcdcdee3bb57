// matmul_fp8_finish.h -- what happens to the sums of matmul_fp8: scale, bias, epilogue, outputs.
//
// Of the reference, and of any other way to add that is to be compared with it.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/ops/matmul_fp8.h"
#include "kernels/ref/epilogue.h"
#include "kernels/ref/fp8_put.h"

typedef double MatmulFp8Sum(const MatmulFp8Args *a, int64_t m, int64_t n, const void *from);

LT_INLINE void matmul_fp8_finish(const MatmulFp8Args *a, MatmulFp8Sum *sum_of, const void *from)
{
    if (a->M == 0 || a->N == 0) return;
    const double unit = (double)*a->a_inv * (double)*a->b_inv;
    const Epilogue e = {.C = a->C,
                        .bias = a->bias,
                        .aux = a->aux,
                        .accumulate = a->accumulate,
                        .kind = a->epilogue,
                        .act = a->act,
                        .c_dtype = a->c_dtype,
                        .bias_dtype = a->bias_dtype};
    fp8_put_begin(&a->out, a->M, a->N);
    for (int64_t n = 0; n < a->N; n++) {
        double column = 0;
        for (int64_t m = 0; m < a->M; m++) {
            const int64_t at = m * a->ldc + n;
            const double s = sum_of(a, m, n, from) * unit;
            const float x = epilogue_rounded(a->c_dtype, epilogue_result(&e, at, n, s));
            if (a->C) dtype_store(a->C, a->c_dtype, at, x);
            fp8_put(&a->out, m, n, x);
            column += (double)x;
        }
        if (a->dbias)
            a->dbias[n] = (float)(column + (a->dbias_accumulate ? (double)a->dbias[n] : 0));
    }
}
