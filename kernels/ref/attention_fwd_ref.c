// attention_fwd_ref.c -- see kernels/ops/attention_fwd.h. The scores are computed again for each of
// the three sweeps (maximum, sum, output), so that nothing needs room.
//
// SPDX-License-Identifier: MIT
#include "kernels/ref/attention_mask.h"
#include "kernels/ref/drop.h"
#include "kernels/ref/ref.h"

#include <math.h>

enum { CHUNK = 128 }; // columns of the output that are summed together

// q, k: index of the row's first element
static double score(const AttentionFwdArgs *a, int64_t q, int64_t k)
{
    double s = 0;
    for (int64_t d = 0; d < a->D; d++)
        s += (double)dtype_load(a->q, a->dtype, q + d) * (double)dtype_load(a->k, a->dtype, k + d);
    return s * (double)a->scale;
}

static void one_query(const AttentionFwdArgs *a, int64_t b, int64_t h, int64_t i)
{
    const int64_t  at = a->q_pos0 + i;
    const KeyRange r  = attention_mask_range(&a->mask, b, i, at, a->Tq, a->Tk);
    const int64_t  q = b * a->q_batch + i * a->q_row + h * a->D;
    const int64_t  kv = b * a->kv_batch + h * a->D; // key j lies kv_row * j behind
    const int64_t  out = b * a->out_batch + i * a->out_row + h * a->D;
    double         top = -INFINITY, sum = 0;
    for (int64_t j = r.lo; j < r.hi; j++) top = fmax(top, score(a, q, kv + j * a->kv_row));
    for (int64_t j = r.lo; j < r.hi; j++) sum += exp(score(a, q, kv + j * a->kv_row) - top);
    const double lse = r.lo < r.hi ? top + log(sum) : (double)-INFINITY;
    if (a->lse) a->lse[(b * a->H + h) * a->Tq + i] = (float)lse;
    for (int64_t d0 = 0; d0 < a->D; d0 += CHUNK) {
        const int64_t n          = LT_MIN(a->D - d0, CHUNK);
        double        acc[CHUNK] = {0};
        for (int64_t j = r.lo; j < r.hi; j++) {
            const double p = exp(score(a, q, kv + j * a->kv_row) - lse);
            const double w = drop_apply(p, &a->drop, b, (uint32_t)h, at, j);
            for (int64_t d = 0; d < n; d++)
                acc[d] += w * (double)dtype_load(a->v, a->dtype, kv + j * a->kv_row + d0 + d);
        }
        for (int64_t d = 0; d < n; d++) dtype_store(a->out, a->dtype, out + d0 + d, (float)acc[d]);
    }
}

Status attention_fwd_ref(const AttentionFwdArgs *a, OpCtx *cx, Err *err)
{
    (void)cx;
    (void)err;
    for (int64_t b = 0; b < a->B; b++)
        for (int64_t h = 0; h < a->H; h++)
            for (int64_t i = 0; i < a->Tq; i++) one_query(a, b, h, i);
    return ERR_NONE;
}
