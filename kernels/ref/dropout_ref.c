// dropout_ref.c -- see kernels/ops/dropout.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ref/drop.h"
#include "kernels/ref/ref.h"

Status dropout_ref(const DropoutArgs *a, OpCtx *cx, Err *err)
{
    (void)cx;
    (void)err;
    for (int64_t b = 0; b < a->B; b++) {
        for (int64_t t = 0; t < a->T; t++) {
            for (int64_t c = 0; c < a->C; c++) {
                const int64_t i = (b * a->T + t) * a->C + c;
                const double  x = (double)dtype_load(a->x, a->dtype, i);
                dtype_store(a->y, a->dtype, i,
                            (float)drop_apply(x, &a->drop, b, 0, a->row0 + t, c));
            }
        }
    }
    return ERR_NONE;
}
