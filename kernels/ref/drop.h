// drop.h -- one element of dropout, as kernels/ops/dropout.h defines it, for the references.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include "engine/base/rng.h"
#include "kernels/ops/dropout.h"

// Is element (batch row b, head, row, column) kept? d->p > 0.
LT_INLINE bool drop_keeps(const DropoutSpec *d, int64_t b, uint32_t head, int64_t row, int64_t col)
{
    const RngCoord at = {.seed   = d->seed,
                         .sample = (uint64_t)d->sample[b],
                         .layer  = d->layer,
                         .site   = (uint32_t)d->site,
                         .head   = head};
    uint32_t       w[4];
    rng_block(w, &at, (uint32_t)row, (uint32_t)(col / 4));
    return w[col % 4] >= rng_threshold((double)d->p);
}

// drop(x) at those coordinates. A dropped element is 0 even where x is NaN.
LT_INLINE double drop_apply(double x, const DropoutSpec *d, int64_t b, uint32_t head, int64_t row,
                            int64_t col)
{
    if (d->p == 0) return x;
    return drop_keeps(d, b, head, row, col) ? x / (1.0 - (double)d->p) : 0.0;
}
