// split_pick.c -- see split_pick.h.
//
// SPDX-License-Identifier: MIT
#include "engine/data/split_pick.h"
#include "engine/base/rng.h"

#include <math.h>

SplitPick split_pick(double val_fraction)
{
    return (SplitPick){.val_fraction = val_fraction, .stretch = -1};
}

static int64_t stretch_begin(const SplitPick *p, int64_t k)
{
    return (int64_t)ceil((double)k / p->val_fraction - 1e-9);
}

// The document of stretch k that validates. `limit`: documents there are.
static int64_t pick(const SplitPick *p, int64_t k, int64_t limit)
{
    const int64_t begin = stretch_begin(p, k), end = LT_MIN(stretch_begin(p, k + 1), limit);
    return begin + (int64_t)rng_below(0, (uint64_t)k, 0, (uint64_t)(end - begin));
}

int split_of(SplitPick *p, int64_t i, int64_t limit)
{
    if (p->val_fraction <= 0) return 0;
    while (i >= p->stretch_end) {
        p->stretch++;
        p->stretch_end = stretch_begin(p, p->stretch + 1);
        p->val_document = pick(p, p->stretch, limit);
    }
    return i == p->val_document;
}
