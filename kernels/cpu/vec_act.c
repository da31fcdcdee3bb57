// vec_act.c -- gradient of an activation.
// Contract: kernels/ops/act_bwd.h    Built once an instruction set (isa.h)
//
// TILING  chunks of ACT_CHUNK elements
// COST    memory bound but for GELU, whose slope is about 25 instructions a vector
//
// SPDX-License-Identifier: MIT
#include "kernels/cpu/gemm_vec.h"
#include "kernels/cpu/vec_ops.h"

enum { ACT_CHUNK = 1 << 14 };

LT_INLINE void act_run(const ActBwdArgs *a, Activation act, DType t, int64_t i0, int64_t i1)
{
    for (int64_t i = i0; i < i1; i += VL) {
        const int64_t n = LT_MIN(VL, i1 - i);
        const VecF dy = vec_load_as_n(a->dy, t, i, n, 0), h = vec_load_as_n(a->h, t, i, n, 0);
        vec_store_as_n(a->dh, t, i, n, dy * gemm_act_slope(h, act));
    }
}

Status ISA_NAME(vec_act_bwd)(const ActBwdArgs *a, OpCtx *cx, Err *err)
{
    (void)err;
#pragma omp parallel for num_threads(cx->device->threads) schedule(static) if (a->n > ACT_CHUNK)
    for (int64_t i0 = 0; i0 < a->n; i0 += ACT_CHUNK)
        act_run(a, a->act, a->dtype, i0, LT_MIN(i0 + ACT_CHUNK, a->n));
    return ERR_NONE;
}
