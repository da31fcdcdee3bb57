// act_bwd_ref.c -- see kernels/ops/act_bwd.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ref/act.h"
#include "kernels/ref/ref.h"

Status act_bwd_ref(const ActBwdArgs *a, OpCtx *cx, Err *err)
{
    (void)cx;
    (void)err;
    for (int64_t i = 0; i < a->n; i++) {
        const double slope = act_slope(a->act, (double)dtype_load(a->h, a->dtype, i));
        const double dy = (double)dtype_load(a->dy, a->dtype, i);
        dtype_store(a->dh, a->dtype, i, (float)(dy * slope));
    }
    return ERR_NONE;
}
