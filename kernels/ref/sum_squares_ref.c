// sum_squares_ref.c -- see kernels/ops/sum_squares.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ref/ref.h"

Status sum_squares_ref(const SumSquaresArgs *a, OpCtx *cx, Err *err)
{
    (void)cx;
    (void)err;
    double s = 0;
    for (int64_t i = 0; i < a->n; i++) {
        const double x = (double)dtype_load(a->x, a->dtype, i);
        s += x * x;
    }
    *a->out = a->accumulate ? *a->out + s : s;
    return ERR_NONE;
}
