// cross_entropy.c -- legality and cost of cross_entropy.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ops/legal.h"
#include "kernels/ops.h"

Status cross_entropy_check(const CrossEntropyArgs *a, Err *err)
{
    TRY(legal_type("logits", a->dtype, err));
    if (a->V < 1 || a->V > a->Vp || !legal_size(a->N, a->Vp))
        return err_set(err, ERR_USAGE, "N = %lld, V = %lld, Vp = %lld; 1 <= V <= Vp is legal",
                       (long long)a->N, (long long)a->V, (long long)a->Vp);
    if (a->N > 0 && (!a->loss || !a->logits || !a->target))
        return err_set(err, ERR_USAGE, "loss, logits or target is NULL");
    return ERR_NONE;
}

double cross_entropy_flops(const CrossEntropyArgs *a)
{
    return (a->want_grad ? 8.0 : 4.0) * (double)a->N * (double)a->V;
}

double cross_entropy_bytes(const CrossEntropyArgs *a)
{
    return (a->want_grad ? 2.0 : 1.0) * (double)dtype_bytes(a->dtype) * (double)a->N *
           (double)a->Vp;
}
