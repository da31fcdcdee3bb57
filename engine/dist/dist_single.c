// dist_single.c -- dist.h for one process: a sum over one rank is the value itself.
//
// SPDX-License-Identifier: MIT
#include "engine/dist/dist.h"
#include "engine/base/assert.h"

Status dist_open(Dist *d, Err *err)
{
    (void)err;
    *d = (Dist){.rank = 0, .ranks = 1};
    return ERR_NONE;
}

void dist_close(Dist *d)
{
    *d = (Dist){0};
}

Status dist_sum_f64(const Dist *d, double *x, int n, Err *err)
{
    ASSERT(d->ranks == 1 && x && n >= 0, "ranks %d, n %d", d->ranks, n);
    (void)err;
    return ERR_NONE;
}

Status dist_sum_i64(const Dist *d, int64_t *x, int n, Err *err)
{
    ASSERT(d->ranks == 1 && x && n >= 0, "ranks %d, n %d", d->ranks, n);
    (void)err;
    return ERR_NONE;
}

Status dist_sum_device(const Dist *d, OpCtx *cx, double *x, int n, Err *err)
{
    ASSERT(d->ranks == 1 && cx && x && n >= 0, "ranks %d", d->ranks);
    (void)err;
    return ERR_NONE;
}

Status dist_sum_grads(const Dist *d, OpCtx *cx, float *grads, int64_t n, Err *err)
{
    ASSERT(d->ranks == 1 && cx && grads && n >= 0, "ranks %d", d->ranks);
    (void)err;
    return ERR_NONE;
}
