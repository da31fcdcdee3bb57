// bias_bwd_ref.c -- see kernels/ops/bias_bwd.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ref/ref.h"

Status bias_bwd_ref(const BiasBwdArgs *a, OpCtx *cx, Err *err)
{
    (void)cx;
    (void)err;
    for (int64_t c = 0; c < a->C; c++) {
        double s = a->accumulate ? (double)a->db[c] : 0;
        for (int64_t n = 0; n < a->N; n++) s += (double)dtype_load(a->dy, a->dtype, n * a->C + c);
        a->db[c] = (float)s;
    }
    return ERR_NONE;
}
