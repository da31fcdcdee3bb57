// adamw.c -- legality and cost of adamw.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ops/legal.h"
#include "kernels/ops.h"

Status adamw_check(const AdamwArgs *a, Err *err)
{
    if (!legal_size(a->n, 1) || (!a->gate && a->step < 1))
        return err_set(err, ERR_USAGE, "n = %lld, step = %lld", (long long)a->n,
                       (long long)a->step);
    if (!(a->eps > 0)) return err_set(err, ERR_USAGE, "eps = %g; it must be positive", a->eps);
    if (!(a->beta1 >= 0 && a->beta1 < 1 && a->beta2 >= 0 && a->beta2 < 1))
        return err_set(err, ERR_USAGE, "beta1 = %g, beta2 = %g; [0, 1) is legal", a->beta1,
                       a->beta2);
    if (a->param || a->q.scale) TRY(legal_type("param", a->param_dtype, err));
    if (a->q.scale && (a->R < 1 || a->n % a->R != 0))
        return err_set(err, ERR_USAGE, "n = %lld, of R = %lld rows", (long long)a->n,
                       (long long)a->R);
    if (a->q.scale) TRY(legal_fp8_out(&a->q, a->R, a->n / a->R, err));
    if (a->n > 0 && (!a->w || !a->m || !a->v || !a->grad))
        return err_set(err, ERR_USAGE, "w, m, v or grad is NULL");
    return ERR_NONE;
}

double adamw_flops(const AdamwArgs *a) { return 16.0 * (double)a->n; }

double adamw_bytes(const AdamwArgs *a)
{
    const int layouts = a->q.scale ? (a->q.q ? 1 : 0) + (a->q.qt ? 1 : 0) : 0;
    return (28.0 + (a->param ? (double)dtype_bytes(a->param_dtype) : 0) + layouts) * (double)a->n;
}
