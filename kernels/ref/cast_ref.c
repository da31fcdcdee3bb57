// cast_ref.c -- see kernels/ops/cast.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ref/ref.h"

Status cast_ref(const CastArgs *a, OpCtx *cx, Err *err)
{
    (void)cx;
    (void)err;
    for (int64_t i = 0; i < a->n; i++)
        dtype_store(a->dst, a->dst_dtype, i, dtype_load(a->src, a->src_dtype, i));
    return ERR_NONE;
}
