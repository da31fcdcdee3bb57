// adamw.h -- op contract: AdamW (Loshchilov, Hutter 2019) over a flat range of parameters.
//
// Math, for each element, t = step (1 for the first update):
//     g  = grad * grad_scale
//     m  = beta1 m + (1 - beta1) g
//     v  = beta2 v + (1 - beta2) g^2
//     w  = w - lr * weight_decay * w - lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)
//     param = w rounded to param_dtype        when param is not NULL
//     q     = FP8 of w rounded to param_dtype, a matrix [R, n / R], when q.scale is not NULL (see
//             fp8.h): the bits that fp8_quantize of param gives
//   With a gate (step_gate.h) step, lr and grad_scale are the gate's, which are known on the device
//   only: the fields here are not read. gate->skip: nothing changes, nor is anything counted.
//   as torch.optim.AdamW computes it: the decay uses the old w; the two bias corrections are
//   computed in double once a call.
// Edges:   n == 0: nothing happens. NaN gradients spread: the caller checks the norm first.
// Legal:   step >= 1 without a gate; eps > 0. With q: R >= 1 and n a multiple of it; q's layouts as
//          in fp8_quantize.h; param may still be NULL.
// Repeat:  bitwise.
// Cost:    28 bytes an element with f32 states, 2 for a bf16 copy, 1 a layout of q: memory bound.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include "engine/base/dtype.h"
#include "engine/base/err.h"
#include "kernels/ops/fp8.h"
#include "kernels/ops/step_gate.h"

typedef struct AdamwArgs {
    float       *w;     // [n]  in and out: master weights
    void        *param; // [n]  assign, param_dtype: the copy the model reads, or NULL
    Fp8Out       q;     // [R,n/R] FP8 copies, or none
    float       *m, *v; // [n]  in and out
    const float *grad;  // [n]
    const StepGate *gate; // one, on the device, or NULL
    int64_t      n, step, R; // R: only with q
    double       lr, beta1, beta2, eps, weight_decay;
    float        grad_scale; // clipping and loss scale together
    DType        param_dtype;
} AdamwArgs;

LT_C_BEGIN
LT_MUST_CHECK Status adamw_check(const AdamwArgs *a, Err *err);
LT_C_END
