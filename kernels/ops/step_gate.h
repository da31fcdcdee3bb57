// step_gate.h -- op contract: does a training step count, and how strongly? Decided on the device.
//
// What a step needs to know of itself (is a number not finite, how long is the gradient) comes out
// of the device's own sums; what it does about it stays there too, in a StepGate that adamw and
// fp8_update read. So the host queues a whole step without waiting for any of it, and reads one
// StepGate a step later.
//
// Math, with s = gate->scale.scale, the number the loss was multiplied with (1: it was not):
//     norm       = sqrt(*norm2) / s
//     skip       = norm or *loss is not finite
//     grad_scale = min(1, clip / (norm + 1e-6)) / s         clip == 0: 1 / s
//                  (as torch.nn.utils.clip_grad_norm_ does it)
//     rates      = the row of `rates` with the step's number: t + 1
//   unless skip:   t = t + 1
//   skip:          bad = index of the first element of grad that is not finite; else, and when all
//                  are, -1
//   The scale of the next step, when rule.interval > 0 (as Megatron-LM's DynamicGradScaler; with
//   hysteresis 1 it is torch.amp.GradScaler):
//     unless skip: good = good + 1; good == interval: good = 0, left = hysteresis, s = s * growth,
//                  if that is finite
//     skip:        good = 0; left = left - 1; left <= 0: s = max(s * backoff, 1)
// Edges:   n == 0: bad is -1.
// Legal:   clip >= 0; interval >= 0 and then growth >= 1, 0 < backoff <= 1, hysteresis >= 1. One of
//          the two rows of `rates` has the step's number.
// Repeat:  bitwise.
// Cost:    nothing; reads n floats when the step is skipped.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include "engine/base/err.h"

typedef struct StepRates { // what depends on the number of an update alone
    int64_t step;          // 1 for the first
    double lr;
    double correct1, correct2; // 1 - beta^step
} StepRates;

typedef struct LossScale {
    float scale;  // a number that is not too small for f16 when the loss times this is derived
    int32_t good; // steps since it was changed, or one was skipped
    int32_t left; // skipped steps that lower it
} LossScale;

typedef struct LossScaleRule {
    float growth, backoff;
    int32_t interval; // good steps after which the scale grows; 0: the scale stays as it is
    int32_t hysteresis;
} LossScaleRule;

typedef struct StepGate {
    StepRates rates;  // of this step
    double loss;      // *loss
    double norm;      // of the gradient, without the loss scale
    int64_t t;        // updates done
    int64_t bad;      // see above
    LossScale scale;  // of the next step
    float grad_scale; // multiplies gradients: clipping, and the loss scale taken out
    int32_t skip;     // 1: nothing is updated
    int32_t unused;
} StepGate;

typedef struct StepGateArgs {
    StepGate        *gate;  // one; in and out: t, scale; the rest: assign
    const double    *norm2; // one: sum of the squares of all gradients
    const double    *loss;  // one: sum of all losses, not scaled
    const StepRates *rates; // [2]
    const float     *grad;  // [n]
    int64_t          n;
    double           clip; // largest norm; 0: any
    LossScaleRule    rule;
} StepGateArgs;

LT_C_BEGIN
LT_MUST_CHECK Status step_gate_check(const StepGateArgs *a, Err *err);
LT_C_END
