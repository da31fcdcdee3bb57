// attention_bwd_ref.c -- see kernels/ops/attention_bwd.h. Two sweeps: over queries for dq, over
// keys for dk and dv; each computes the probabilities it needs again.
//
// SPDX-License-Identifier: MIT
#include "kernels/ref/attention_mask.h"
#include "kernels/ref/drop.h"
#include "kernels/ref/ref.h"

#include <math.h>

enum { CHUNK = 128 }; // columns of the gradients that are summed together

typedef struct Pair { // what query i and key j mean to each other
    double ds;        // gradient of the score, times scale
    double p_drop;    // probability behind the dropout
} Pair;

static int64_t qkv_at(const AttentionBwdArgs *a, int64_t b, int64_t h, int64_t t)
{
    return b * a->qkv_batch + t * a->qkv_row + h * a->D;
}

static int64_t out_at(const AttentionBwdArgs *a, int64_t b, int64_t h, int64_t t)
{
    return b * a->out_batch + t * a->out_row + h * a->D;
}

static double dot(const AttentionBwdArgs *a, const void *x, int64_t i, const void *y, int64_t j)
{
    double s = 0;
    for (int64_t d = 0; d < a->D; d++)
        s += (double)dtype_load(x, a->dtype, i + d) * (double)dtype_load(y, a->dtype, j + d);
    return s;
}

static double delta_of(const AttentionBwdArgs *a, int64_t b, int64_t h, int64_t i)
{
    return dot(a, a->dout, out_at(a, b, h, i), a->out, out_at(a, b, h, i));
}

static Pair pair_of(const AttentionBwdArgs *a, int64_t b, int64_t h, int64_t i, int64_t j,
                    double delta)
{
    const int64_t qi = qkv_at(a, b, h, i), kj = qkv_at(a, b, h, j);
    const double  s = (double)a->scale * dot(a, a->q, qi, a->k, kj);
    const double  p = exp(s - (double)a->lse[(b * a->H + h) * a->T + i]);
    const double  dp = dot(a, a->dout, out_at(a, b, h, i), a->v, kj);
    const uint32_t head = (uint32_t)h;
    return (Pair){(double)a->scale * p * (drop_apply(dp, &a->drop, b, head, i, j) - delta),
                  drop_apply(p, &a->drop, b, head, i, j)};
}

static void query_gradient(const AttentionBwdArgs *a, int64_t b, int64_t h, int64_t i)
{
    const KeyRange r     = attention_mask_range(&a->mask, b, i, i, a->T, a->T);
    const double   delta = delta_of(a, b, h, i);
    for (int64_t d0 = 0; d0 < a->D; d0 += CHUNK) {
        const int64_t n          = LT_MIN(a->D - d0, CHUNK);
        double        acc[CHUNK] = {0};
        for (int64_t j = r.lo; j < r.hi; j++) {
            const double ds = pair_of(a, b, h, i, j, delta).ds;
            for (int64_t d = 0; d < n; d++)
                acc[d] += ds * (double)dtype_load(a->k, a->dtype, qkv_at(a, b, h, j) + d0 + d);
        }
        for (int64_t d = 0; d < n; d++)
            dtype_store(a->dq, a->dtype, qkv_at(a, b, h, i) + d0 + d, (float)acc[d]);
    }
}

static void key_gradient(const AttentionBwdArgs *a, int64_t b, int64_t h, int64_t j)
{
    for (int64_t d0 = 0; d0 < a->D; d0 += CHUNK) {
        const int64_t n         = LT_MIN(a->D - d0, CHUNK);
        double        dk[CHUNK] = {0}, dv[CHUNK] = {0};
        for (int64_t i = 0; i < a->T; i++) {
            const KeyRange r = attention_mask_range(&a->mask, b, i, i, a->T, a->T);
            if (j < r.lo || j >= r.hi) continue;
            const Pair p = pair_of(a, b, h, i, j, delta_of(a, b, h, i));
            for (int64_t d = 0; d < n; d++) {
                dk[d] += p.ds * (double)dtype_load(a->q, a->dtype, qkv_at(a, b, h, i) + d0 + d);
                dv[d] +=
                    p.p_drop * (double)dtype_load(a->dout, a->dtype, out_at(a, b, h, i) + d0 + d);
            }
        }
        for (int64_t d = 0; d < n; d++) {
            dtype_store(a->dk, a->dtype, qkv_at(a, b, h, j) + d0 + d, (float)dk[d]);
            dtype_store(a->dv, a->dtype, qkv_at(a, b, h, j) + d0 + d, (float)dv[d]);
        }
    }
}

Status attention_bwd_ref(const AttentionBwdArgs *a, OpCtx *cx, Err *err)
{
    (void)cx;
    (void)err;
    for (int64_t b = 0; b < a->B; b++) {
        for (int64_t h = 0; h < a->H; h++) {
            for (int64_t i = 0; i < a->T; i++) query_gradient(a, b, h, i);
            for (int64_t j = 0; j < a->T; j++) key_gradient(a, b, h, j);
        }
    }
    return ERR_NONE;
}
