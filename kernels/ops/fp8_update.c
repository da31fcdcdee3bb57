// fp8_update.c -- legality and cost of fp8_update.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ops/fp8_scale.h"
#include "kernels/ops/legal.h"
#include "kernels/ops.h"

Status fp8_update_check(const Fp8UpdateArgs *a, Err *err)
{
    if (!legal_size(a->n, a->length) || a->length > INT32_MAX)
        return err_set(err, ERR_USAGE, "n = %lld, length = %lld", (long long)a->n,
                       (long long)a->length);
    if (a->margin < -FP8_MARGIN_MAX || a->margin > FP8_MARGIN_MAX)
        return err_set(err, ERR_USAGE, "margin = %d; -64 to 64 is legal", a->margin);
    if (a->algorithm != FP8_AMAX_MAX && a->algorithm != FP8_AMAX_MOST_RECENT)
        return err_set(err, ERR_USAGE, "amax algorithm %d", (int)a->algorithm);
    if (a->n > 0 && (!a->scale || !a->amax || (a->length > 0 && (!a->history || !a->at))))
        return err_set(err, ERR_USAGE, "scale, amax, history or at is NULL");
    return ERR_NONE;
}

double fp8_update_flops(const Fp8UpdateArgs *a)
{
    (void)a;
    return 0;
}

double fp8_update_bytes(const Fp8UpdateArgs *a)
{
    const double history = a->algorithm == FP8_AMAX_MAX ? (double)a->length : 1;
    return (double)a->n * (4 * history + 2 * (sizeof(Fp8Scale) + sizeof(float)));
}
