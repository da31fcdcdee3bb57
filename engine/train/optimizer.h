// optimizer.h -- AdamW or LAMB over the flat parameter buffers, the global gradient norm, the gate.
//
// State is f32: master weights w, first moment m, second moment v. With an f32 policy the model
// computes with w itself; otherwise the update also writes the model's rounded copy.
//
// Whether a step counts, how far it is clipped and what becomes of the loss scale is decided on the
// device (step_gate.h), where *gate is. So an update is queued without a word from the device:
//
//     *loss, grads -> |grads|^2 -> step_gate -> fp8_update -> adamw, range by range, or lamb, all
//                                                             at once
//
// With FP8 the scales of the next step come first: adamw writes the matrices that are multiplied in
// FP8 in these scales, one call a matrix. After lamb a pass makes them (fp8.h).
//
// The host knows the number of an update only once it has read the gate of the step before. It
// gives the rates of the two that it can be.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/arena.h"
#include "engine/dist/dist.h"
#include "engine/model/fp8.h"
#include "engine/model/params.h"
#include "engine/model/precision.h"
#include "kernels/ops.h"

typedef struct Optimizer {
    const ParamSet *params;
    bool lamb;        // false: AdamW
    float *w, *m, *v; // [total] each, run arena
    void *copy;       // [total] the model's weights in `copy_dtype`; NULL when they are w
    DType copy_dtype;
    Fp8State *fp8;        // borrowed; NULL: nothing is in FP8
    LambSegment *segment; // [n_segment] on the device, lamb only: the tensors of the model
    int64_t n_segment, n_chunk;
    double *norm2, *loss; // one value each on the device: see step_gate.h
    StepGate *gate;       // one, on the device; gate->skip: the newest step is void
    StepRates *rates;     // [2] on the device
    double beta1, beta2, eps, weight_decay;
    double clip;        // largest gradient norm, 0: any
    LossScaleRule rule; // interval 0: the loss scale stays
} Optimizer;

LT_C_BEGIN
// Lay w, m, v (and the rounded weights) into `run`. The hyperparameters are set by the caller.
void optimizer_build(Optimizer *o, const ParamSet *params, const Precision *p, bool lamb,
                     Arena *run);
// What the model computes with: the copy, or w.
void *optimizer_weights(const Optimizer *o);
// Make the rounded copy from w (after initialisation or loading). FP8 weights are stale from then.
LT_MUST_CHECK Status optimizer_refresh(const Optimizer *o, OpCtx *cx, Err *err);
// t updates are done, and the loss is multiplied by `scale`: where the gate starts.
LT_MUST_CHECK Status optimizer_start(const Optimizer *o, Device *d, int64_t t, LossScale scale,
                                     Err *err);
// Rates of the next step, for updates t + 1 and t + 2 with learning rates lr[0] and lr[1].
LT_MUST_CHECK Status optimizer_rates(const Optimizer *o, Device *d, int64_t t, const double lr[2],
                                     Err *err);
// Does an update write the FP8 weights that there are?
bool optimizer_writes_fp8(const Optimizer *o);
// Queue what follows the gradients. grads and *loss are sums over all ranks already; what is in
// grads afterwards is no longer gradients.
LT_MUST_CHECK Status optimizer_step(const Optimizer *o, OpCtx *cx, float *grads, Err *err);
LT_C_END
