// cross_entropy_ref.c -- see kernels/ops/cross_entropy.h.
//
// SPDX-License-Identifier: MIT
#include "engine/base/assert.h"
#include "kernels/ref/ref.h"

#include <math.h>

static void ignored_row(const CrossEntropyArgs *a, int64_t n)
{
    a->loss[n] = 0;
    if (a->hit) a->hit[n] = 0;
    for (int64_t v = 0; a->want_grad && v < a->Vp; v++)
        dtype_store(a->logits, a->dtype, n * a->Vp + v, 0);
}

static bool is_first_of_largest(const CrossEntropyArgs *a, int64_t row, int64_t t)
{
    const float xt = dtype_load(a->logits, a->dtype, row + t);
    if (!isfinite(xt)) return false;
    for (int64_t v = 0; v < a->V; v++) {
        const float x = dtype_load(a->logits, a->dtype, row + v);
        if (!(v < t ? x < xt : x <= xt)) return false;
    }
    return true;
}

static void counted_row(const CrossEntropyArgs *a, int64_t n)
{
    const int64_t t = a->target[n], row = n * a->Vp;
    ASSERT(t >= 0 && t < a->V, "cross_entropy: target %lld of %lld", (long long)t, (long long)a->V);
    double top = -INFINITY, sum = 0;
    for (int64_t v = 0; v < a->V; v++)
        top = fmax(top, (double)dtype_load(a->logits, a->dtype, row + v));
    for (int64_t v = 0; v < a->V; v++)
        sum += exp((double)dtype_load(a->logits, a->dtype, row + v) - top);
    if (a->hit) a->hit[n] = is_first_of_largest(a, row, t);
    const double scale = (double)a->grad_scale * (a->scale ? (double)*a->scale : 1.0);
    a->loss[n] = (float)(log(sum) + top - (double)dtype_load(a->logits, a->dtype, row + t));
    for (int64_t v = 0; a->want_grad && v < a->Vp; v++) {
        double d = 0;
        if (v < a->V) {
            const double p = exp((double)dtype_load(a->logits, a->dtype, row + v) - top) / sum;
            d              = (p - (v == t)) * scale;
        }
        dtype_store(a->logits, a->dtype, row + v, (float)d);
    }
}

Status cross_entropy_ref(const CrossEntropyArgs *a, OpCtx *cx, Err *err)
{
    (void)cx;
    (void)err;
    for (int64_t n = 0; n < a->N; n++) {
        if (a->target[n] == TOKEN_IGNORE)
            ignored_row(a, n);
        else
            counted_row(a, n);
    }
    return ERR_NONE;
}
