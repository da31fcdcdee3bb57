// fp8_update_ref.c -- see kernels/ops/fp8_update.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ops/fp8_scale.h"
#include "kernels/ref/ref.h"

#include <math.h>

// The slot's amax enters its history. Returns the number that the scale is made from.
static float roll(const Fp8UpdateArgs *a, int64_t i)
{
    float *history = a->history + i * a->length;
    history[a->at[i]] = a->amax[i];
    a->at[i] = (int32_t)((a->at[i] + 1) % a->length);
    float most = a->amax[i];
    for (int64_t k = 0; k < a->length && a->algorithm == FP8_AMAX_MAX; k++)
        most = fmaxf(most, history[k]);
    return most;
}

Status fp8_update_ref(const Fp8UpdateArgs *a, OpCtx *cx, Err *err)
{
    (void)cx;
    (void)err;
    const bool skip = a->skip && *a->skip != 0;
    for (int64_t i = 0; i < a->n; i++) {
        if (!skip && a->length > 0 && a->amax[i] >= 0 && isfinite(a->amax[i])) {
            const float most = roll(a, i);
            if (most > 0) a->scale[i] = fp8_scale_of(a->scale[i].max, most, a->margin);
        }
        if (!(skip && a->held && a->held[i])) a->amax[i] = -1;
    }
    return ERR_NONE;
}
