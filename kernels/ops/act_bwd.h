// act_bwd.h -- op contract: gradient of an activation, where no matrix product has it on its way.
//
// A product that ends in the gradient of act(h) takes act' with it (MATMUL_DGELU, matmul.h). A norm
// behind the activation, as in BERT's head for masked tokens, leaves it to this op.
//
// Math:    dh[i] = dy[i] * act'(h[i])       in f32, rounded once
// Edges:   n == 0: nothing happens.
// Legal:   dh may be dy or h.
// Repeat:  bitwise.
// Cost:    reads 2, writes 1 times n elements: memory bound.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include "engine/base/dtype.h"
#include "engine/base/err.h"
#include "kernels/ops/matmul.h"

typedef struct ActBwdArgs {
    void *dh;       // [n]  assign, dtype
    const void *dy; // [n]  dtype
    const void *h;  // [n]  dtype: what the activation was applied to
    int64_t n;
    Activation act;
    DType dtype;
} ActBwdArgs;

LT_C_BEGIN
LT_MUST_CHECK Status act_bwd_check(const ActBwdArgs *a, Err *err);
LT_C_END
