// attention_mask.h -- which keys a query sees, for the references.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/ops/attention_fwd.h"

typedef struct KeyRange {
    int64_t lo, hi; // visible: lo <= j < hi
} KeyRange;

// Of query i of sample b at key position `at`.
LT_INLINE KeyRange attention_mask_range(const AttentionMask *m, int64_t b, int64_t i, int64_t at,
                                        int64_t Tq, int64_t Tk)
{
    KeyRange r = {m->seg_lo ? LT_MAX(m->seg_lo[b * Tq + i], 0) : 0,
                  m->seg_hi ? LT_MIN(m->seg_hi[b * Tq + i], Tk) : Tk};
    if (m->causal) r.hi = LT_MIN(r.hi, at + 1);
    if (m->window > 0) r.lo = LT_MAX(r.lo, at - m->window + 1);
    return r;
}
