// precision.h -- which element type everything has.
//
//   policy  parameters            activations, their gradients   residual stream   weight gradients
//   fp32    f32                   f32                            f32               f32
//   bf16    bf16 + f32 master     bf16                           an option         f32
//
// Optimizer states are f32 in both. Norm statistics, softmax and loss arithmetic are f32 inside
// ops.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/dtype.h"
#include "engine/base/err.h"

typedef struct Precision {
    const char *name; // "fp32", "bf16"
    DType param, act, resid;
} Precision;

LT_C_BEGIN
// residual: "f32", or with bf16 also "bf16".
LT_MUST_CHECK Status precision_from_name(Precision *p, const char *name, const char *residual,
                                         Err *err);
LT_C_END
