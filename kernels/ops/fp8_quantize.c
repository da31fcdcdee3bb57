// fp8_quantize.c -- legality and cost of fp8_quantize.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ops/fp8_scale.h"
#include "kernels/ops/legal.h"
#include "kernels/ops.h"

Status fp8_quantize_check(const Fp8QuantizeArgs *a, Err *err)
{
    TRY(legal_type("src", a->src_dtype, err));
    if (a->R < 0 || a->C < 0 || a->ld < a->C || !legal_size(a->R, a->ld))
        return err_set(err, ERR_USAGE, "R = %lld, C = %lld, ld = %lld", (long long)a->R,
                       (long long)a->C, (long long)a->ld);
    if (!a->out.scale) return err_set(err, ERR_USAGE, "out.scale is NULL");
    TRY(legal_fp8_out(&a->out, a->R, a->C, err));
    if (a->current && (a->margin < -FP8_MARGIN_MAX || a->margin > FP8_MARGIN_MAX))
        return err_set(err, ERR_USAGE, "margin = %d; -64 to 64 is legal", a->margin);
    if (a->R > 0 && a->C > 0 && !a->src) return err_set(err, ERR_USAGE, "src is NULL");
    return ERR_NONE;
}

double fp8_quantize_flops(const Fp8QuantizeArgs *a)
{
    return (a->dbias ? 2.0 : 1.0) * (double)a->R * (double)a->C;
}

double fp8_quantize_bytes(const Fp8QuantizeArgs *a)
{
    const double src = (double)dtype_bytes(a->src_dtype) * (a->current ? 2 : 1);
    const int layouts = (a->out.q ? 1 : 0) + (a->out.qt ? 1 : 0);
    return (src + layouts) * (double)a->R * (double)a->C;
}
