// ref.h -- the reference implementations: what each op means.
//
// Plain loops, one thread, sums in double, no scratch; a result is rounded once, when it is stored.
// Slow on purpose: everything else is tested against these.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/ops.h"

LT_C_BEGIN
void ref_register(Ops *ops); // called by ops_init
#define OP(name, Args, summary) Status name##_ref(const Args *a, OpCtx *cx, Err *err);
#include "kernels/ops.def"
#undef OP
LT_C_END
