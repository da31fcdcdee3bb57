// attention_bwd.c -- legality and cost of attention_bwd.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ops/legal.h"
#include "kernels/ops.h"

Status attention_bwd_check(const AttentionBwdArgs *a, Err *err)
{
    TRY(legal_type("q, k, v and out", a->dtype, err));
    if (a->D < 1 || a->H < 0 || a->H > 65535 || !legal_size(a->H, a->D) ||
        !legal_size(a->B, a->T) || !legal_size(a->B * a->T, a->H) ||
        !legal_size(a->B * a->T, a->H * a->D))
        return err_set(err, ERR_USAGE, "B = %lld, H = %lld, T = %lld, D = %lld", (long long)a->B,
                       (long long)a->H, (long long)a->T, (long long)a->D);
    const int64_t row = a->H * a->D;
    if (a->qkv_row < row || a->out_row < row || a->qkv_batch < 0 || a->out_batch < 0 ||
        !legal_size(a->T, a->qkv_row) || !legal_size(a->T, a->out_row) ||
        !legal_size(a->B, a->qkv_batch) || !legal_size(a->B, a->out_batch))
        return err_set(err, ERR_USAGE, "rows of %lld elements, strides qkv %lld, out %lld",
                       (long long)row, (long long)a->qkv_row, (long long)a->out_row);
    if (a->mask.window < 0)
        return err_set(err, ERR_USAGE, "window = %lld", (long long)a->mask.window);
    if (a->B == 0 || a->H == 0 || a->T == 0) return ERR_NONE;
    if (!a->dq || !a->dk || !a->dv) return err_set(err, ERR_USAGE, "dq, dk or dv is NULL");
    if (!a->dout || !a->out || !a->lse || !a->q || !a->k || !a->v)
        return err_set(err, ERR_USAGE, "dout, out, lse, q, k or v is NULL");
    return legal_drop(&a->drop, a->B * a->T, a->T, err);
}

double attention_bwd_flops(const AttentionBwdArgs *a)
{
    return 10.0 * (double)a->B * (double)a->H * (double)a->D *
           attention_fwd_pairs(&a->mask, a->T, a->T, 0);
}

double attention_bwd_bytes(const AttentionBwdArgs *a)
{
    return (double)a->B * (double)a->H * (double)a->T *
           (8 * (double)dtype_bytes(a->dtype) * (double)a->D + sizeof(float));
}
