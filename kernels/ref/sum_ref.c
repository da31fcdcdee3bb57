// sum_ref.c -- see kernels/ops/sum.h. It serves as the CPU's implementation, too: what is summed
// are losses, one a token.
//
// SPDX-License-Identifier: MIT
#include "kernels/ref/ref.h"

Status sum_ref(const SumArgs *a, OpCtx *cx, Err *err)
{
    (void)cx;
    (void)err;
    double s = 0;
    for (int64_t i = 0; i < a->n; i++) s += (double)dtype_load(a->x, a->dtype, i);
    *a->out = a->accumulate ? *a->out + s : s;
    return ERR_NONE;
}
