// precision.h -- which element type everything has.
//
//   policy  parameters            activations, their gradients   residual stream   weight gradients
//   fp32    f32                   f32                            f32               f32
//   bf16    bf16 + f32 master     bf16                           an option         f32
//   fp16    f16 + f32 master      f16                            f32               f32
//   fp8     as bf16; linear layers of a training step compute with FP8 operands (fp8.h)
//
// f16 ends at 65504 and at 6e-8: in training the loss is multiplied by a loss scale before it is
// derived (step_gate.h), and the residual stream, which grows layer by layer, stays in f32.
//
// Optimizer states are f32 in both. Norm statistics, softmax and loss arithmetic are f32 inside
// ops.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include "engine/base/dtype.h"
#include "engine/base/err.h"

typedef struct Precision {
    const char *name; // "fp32", "bf16", "fp16", "fp8"
    DType param, act, resid;
    bool fp8;
} Precision;

LT_C_BEGIN
// residual: "f32", or with bf16 and fp8 also "bf16".
LT_MUST_CHECK Status precision_from_name(Precision *p, const char *name, const char *residual,
                                         Err *err);
LT_C_END
