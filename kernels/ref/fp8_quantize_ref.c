// fp8_quantize_ref.c -- see kernels/ops/fp8_quantize.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ops/fp8_scale.h"
#include "kernels/ref/fp8_put.h"
#include "kernels/ref/ref.h"

static float element(const Fp8QuantizeArgs *a, int64_t r, int64_t c)
{
    return dtype_load(a->src, a->src_dtype, r * a->ld + c);
}

static Fp8Scale current_scale(const Fp8QuantizeArgs *a)
{
    float amax = 0;
    for (int64_t r = 0; r < a->R; r++) {
        for (int64_t c = 0; c < a->C; c++) {
            const float x = fabsf(element(a, r, c));
            if (isfinite(x)) amax = fmaxf(amax, x);
        }
    }
    const float max = fp8_max(a->out.dtype);
    return amax > 0 ? fp8_scale_of(max, amax, a->margin)
                    : (Fp8Scale){.inv = 1, .scale = 1, .max = max};
}

Status fp8_quantize_ref(const Fp8QuantizeArgs *a, OpCtx *cx, Err *err)
{
    (void)cx;
    (void)err;
    if (a->current) *a->out.scale = current_scale(a);
    Fp8Out out = a->out;
    if (a->R == 0) out.qt = NULL; // a transpose of no columns has no padding either
    fp8_put_begin(&out, a->R, a->C);
    for (int64_t c = 0; c < a->C; c++) {
        double sum = a->accumulate && a->dbias ? (double)a->dbias[c] : 0;
        for (int64_t r = 0; r < a->R; r++) {
            fp8_put(&out, r, c, element(a, r, c));
            sum += (double)element(a, r, c);
        }
        if (a->dbias) a->dbias[c] = (float)sum;
    }
    return ERR_NONE;
}
