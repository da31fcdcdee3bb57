// attention_fwd.c -- legality and cost of attention_fwd.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ops/legal.h"
#include "kernels/ops.h"

// sum of clamp(t, 0, top) over all t < x
static double ramp(int64_t x, int64_t top)
{
    const double n = (double)LT_MIN(LT_MAX(x, 0), top + 1);
    return n * (n - 1) / 2 + (x > top + 1 ? (double)(x - top - 1) * (double)top : 0);
}

double attention_fwd_pairs(const AttentionMask *m, int64_t Tq, int64_t Tk, int64_t q_pos0)
{
    const int64_t first = q_pos0, end = q_pos0 + Tq; // of the queries' positions
    double        pairs = (double)Tq * (double)Tk;
    if (m->causal) pairs = ramp(end + 1, Tk) - ramp(first + 1, Tk);
    if (m->window > 0) pairs -= ramp(end + 1 - m->window, Tk) - ramp(first + 1 - m->window, Tk);
    return pairs;
}

Status attention_fwd_check(const AttentionFwdArgs *a, Err *err)
{
    TRY(legal_type("q, k, v and out", a->dtype, err));
    if (a->D < 1 || a->H < 0 || a->H > 65535 || a->q_pos0 < 0 || !legal_size(a->H, a->D) ||
        !legal_size(a->B, a->Tq) || !legal_size(a->B, a->Tk) || !legal_size(a->B * a->Tq, a->H) ||
        !legal_size(a->B * a->Tq, a->H * a->D) || !legal_size(a->B * a->Tk, a->H * a->D))
        return err_set(err, ERR_USAGE,
                       "B = %lld, H = %lld, Tq = %lld, Tk = %lld, D = %lld, q_pos0 = %lld",
                       (long long)a->B, (long long)a->H, (long long)a->Tq, (long long)a->Tk,
                       (long long)a->D, (long long)a->q_pos0);
    const int64_t row = a->H * a->D;
    if (a->q_row < row || a->kv_row < row || a->out_row < row || a->q_batch < 0 ||
        a->kv_batch < 0 || a->out_batch < 0 || !legal_size(a->Tq, a->q_row) ||
        !legal_size(a->Tk, a->kv_row) || !legal_size(a->Tq, a->out_row) ||
        !legal_size(a->B, a->q_batch) || !legal_size(a->B, a->kv_batch) ||
        !legal_size(a->B, a->out_batch))
        return err_set(err, ERR_USAGE, "rows of %lld elements, strides q %lld, kv %lld, out %lld",
                       (long long)row, (long long)a->q_row, (long long)a->kv_row,
                       (long long)a->out_row);
    if (a->mask.window < 0)
        return err_set(err, ERR_USAGE, "window = %lld", (long long)a->mask.window);
    if (a->B == 0 || a->H == 0 || a->Tq == 0) return ERR_NONE;
    if (!a->out || !a->q || (a->Tk > 0 && (!a->k || !a->v)))
        return err_set(err, ERR_USAGE, "out, q, k or v is NULL");
    return legal_drop(&a->drop, a->B * a->Tq, a->Tq, err);
}

double attention_fwd_flops(const AttentionFwdArgs *a)
{
    return 4.0 * (double)a->B * (double)a->H * (double)a->D *
           attention_fwd_pairs(&a->mask, a->Tq, a->Tk, a->q_pos0);
}

double attention_fwd_bytes(const AttentionFwdArgs *a)
{
    const double rows = (double)a->B * (double)a->H;
    return rows * ((double)dtype_bytes(a->dtype) * (double)a->D * 2 * (double)(a->Tq + a->Tk) +
                   (a->lse ? sizeof(float) * (double)a->Tq : 0));
}
