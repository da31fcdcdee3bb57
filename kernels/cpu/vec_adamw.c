// vec_adamw.c -- AdamW in one pass over w, m, v and the gradient.
// Contract: kernels/ops/adamw.h    Built once an instruction set (isa.h)
//
// WHAT    m and v are updated, and w from them while they are in registers:
//
//             grad -> [g] --+--> m --+
//                           +--> v --+--> w --> param, rounded
//
//         Bias corrections, learning rate and decay are folded into five floats before the loop.
//         Ordinary stores: the lines of m, v and w were just read; storing past the cache only
//         costs.
//
// COST    28 bytes an element and 2-4 for the copy; a square root and two divisions, hidden behind
//         the memory.
// ROUND   f32 throughout, the five constants from double.
// SHAPES  everything the contract allows; threads take chunks of ADAMW_CHUNK elements.
//
// SPDX-License-Identifier: MIT
#include "kernels/cpu/vec_ops.h"
#include "kernels/cpu/vec_simd.h"

#include <math.h>

enum { ADAMW_CHUNK = 1 << 14 };

typedef struct Rates {
    float g, b1, c1, b2, c2; // gradient scale, betas and 1 - betas
    float fix1, fix2;        // lr / (1 - beta1^t),  1 / (1 - beta2^t)
    float decay, eps;        // lr * weight_decay
} Rates;

LT_INLINE VecF vec_sqrt(VecF x)
{
    VecF r;
    for (int i = 0; i < VL; i++) r[i] = __builtin_sqrtf(x[i]);
    return r;
}

LT_INLINE void update(const AdamwArgs *a, const Rates *r, DType param, int64_t i, int64_t n)
{
    const VecF g = vec_load_as_n(a->grad, DTYPE_F32, i, n, 0) * r->g;
    const VecF m = vec_load_as_n(a->m, DTYPE_F32, i, n, 0) * r->b1 + g * r->c1;
    const VecF v = vec_load_as_n(a->v, DTYPE_F32, i, n, 0) * r->b2 + g * r->c2 * g;
    const VecF w = vec_load_as_n(a->w, DTYPE_F32, i, n, 0);
    const VecF y = (w - w * r->decay) - m * r->fix1 / (vec_sqrt(v * r->fix2) + r->eps);
    vec_store_as_n(a->m, DTYPE_F32, i, n, m);
    vec_store_as_n(a->v, DTYPE_F32, i, n, v);
    vec_store_as_n(a->w, DTYPE_F32, i, n, y);
    if (a->param) vec_store_as_n(a->param, param, i, n, y);
}

LT_INLINE void run(const AdamwArgs *a, const Rates *r, DType param, int64_t i0, int64_t i1)
{
    int64_t i = i0;
    for (; i + VL <= i1; i += VL) update(a, r, param, i, VL);
    if (i < i1) update(a, r, param, i, i1 - i);
}

Status ISA_NAME(vec_adamw)(const AdamwArgs *a, OpCtx *cx, Err *err)
{
    (void)err;
    const double fix1 = 1.0 - pow(a->beta1, (double)a->step);
    const double fix2 = 1.0 - pow(a->beta2, (double)a->step);
    const Rates  r = {.g     = a->grad_scale,
                      .b1    = (float)a->beta1,
                      .c1    = (float)(1.0 - a->beta1),
                      .b2    = (float)a->beta2,
                      .c2    = (float)(1.0 - a->beta2),
                      .fix1  = (float)(a->lr / fix1),
                      .fix2  = (float)(1.0 / fix2),
                      .decay = (float)(a->lr * a->weight_decay),
                      .eps   = (float)a->eps};
#pragma omp parallel for num_threads(cx->device->threads) schedule(static) if (a->n > ADAMW_CHUNK)
    for (int64_t i0 = 0; i0 < a->n; i0 += ADAMW_CHUNK) {
        const int64_t i1 = LT_MIN(i0 + ADAMW_CHUNK, a->n);
        if (a->param_dtype == DTYPE_BF16)
            run(a, &r, DTYPE_BF16, i0, i1);
        else
            run(a, &r, a->param_dtype, i0, i1);
    }
    return ERR_NONE;
}
