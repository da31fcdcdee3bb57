// optimizer.h -- AdamW over the flat parameter buffers, and the global gradient norm.
//
// State is f32: master weights w, first moment m, second moment v. With an f32 policy the model
// computes with w itself; otherwise the update also writes the model's rounded copy.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/arena.h"
#include "engine/dist/dist.h"
#include "engine/model/params.h"
#include "engine/model/precision.h"
#include "kernels/ops.h"

typedef struct Optimizer {
    const ParamSet *params;
    float *w, *m, *v; // [total] each, run arena
    void *copy;       // [total] the model's weights in `copy_dtype`; NULL when they are w
    DType copy_dtype;
    double *norm2; // one value on the device
    double beta1, beta2, eps, weight_decay;
} Optimizer;

LT_C_BEGIN
// Lay w, m, v (and the rounded weights) into `run`. The four hyperparameters are set by the caller.
void optimizer_build(Optimizer *o, const ParamSet *params, const Precision *p, Arena *run);
// What the model computes with: the copy, or w.
void *optimizer_weights(const Optimizer *o);
// Make the rounded copy from w (after initialisation or loading).
LT_MUST_CHECK Status optimizer_refresh(const Optimizer *o, OpCtx *cx, Err *err);
// Sum of squares of all gradients, over all ranks' sum (already reduced): the square of their norm.
// It is at *norm2, which device_host_alloc gave, after the next device_sync.
LT_MUST_CHECK Status optimizer_norm2_later(const Optimizer *o, OpCtx *cx, const float *grads,
                                           double *norm2, Err *err);
// Update number t (1 for the first). Gradients are multiplied by grad_scale first.
LT_MUST_CHECK Status optimizer_step(const Optimizer *o, OpCtx *cx, const float *grads, int64_t t,
                                    double lr, double grad_scale, Err *err);
// Name of the first parameter with a gradient that is not finite; NULL: none.
LT_MUST_CHECK Status optimizer_first_bad(const Optimizer *o, OpCtx *cx, const float *grads,
                                         const char **name, Err *err);
LT_C_END
