// fp8_put.h -- one element of an FP8 output, for the references: both layouts, amax, count.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <math.h>
#include "kernels/ops/fp8.h"

// Before the first element of x [R,C]: nothing seen yet, and the padding of the transpose.
LT_INLINE void fp8_put_begin(const Fp8Out *o, int64_t R, int64_t C)
{
    if (!o->scale) return;
    if (o->amax && !(*o->amax >= 0)) *o->amax = 0;
    for (int64_t c = 0; c < C && o->qt; c++)
        for (int64_t r = R; r < o->ld_qt; r++) dtype_store(o->qt, o->dtype, c * o->ld_qt + r, 0);
}

// x: as it would have been stored without FP8.
LT_INLINE void fp8_put(const Fp8Out *o, int64_t r, int64_t c, float x)
{
    if (!o->scale) return;
    const float y = x * o->scale->scale;
    const uint8_t q = fp8_from_f32(y, o->dtype);
    if (o->q) ((uint8_t *)o->q)[r * o->ld_q + c] = q;
    if (o->qt) ((uint8_t *)o->qt)[c * o->ld_qt + r] = q;
    if (o->amax && isfinite(x)) *o->amax = fmaxf(*o->amax, fabsf(x));
    if (!o->count) return;
    if (!isfinite(x))
        o->count->nonfinite++;
    else if (fabsf(y) > fp8_max(o->dtype))
        o->count->saturated++;
    else if (x != 0 && (q & 0x7f) == 0)
        o->count->flushed++;
}
