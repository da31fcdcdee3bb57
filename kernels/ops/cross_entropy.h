// cross_entropy.h -- op contract: softmax cross entropy over a vocabulary, with its gradient.
//
// Math, for row n with target t = target[n], over the real vocabulary v < V:
//     m            = max_v x[v]
//     loss[n]      = log(sum_v exp(x[v] - m)) + m - x[t]
//     dlogits[n,v] = (exp(x[v] - m) / sum - (v == t)) * grad_scale * *scale
//     hit[n]       = 1 if x[t] is finite, x[v] < x[t] for v < t and x[v] <= x[t] for v > t, else 0:
//                    is the target the first of the largest logits?
// Edges:   target == TOKEN_IGNORE: loss 0, hit 0, the whole dlogits row 0.
//          V <= v < Vp is padding: its values do not matter (NaN is fine), gradient written as 0.
//          N == 0: nothing happens. A NaN in a row stays in that row.
//          want_grad off: logits are not changed.
// Legal:   1 <= V <= Vp; N*Vp may pass 2^31.
// Repeat:  bitwise; a row's result does not depend on N or threads.
// Cost:    reads and writes N*Vp elements once or twice, about 8 FLOP each: memory bound.
//          hit may cost one more sweep over them: it is asked for in evaluation.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/dtype.h"
#include "engine/base/err.h"
#include "engine/base/token.h"

typedef struct CrossEntropyArgs {
    float         *loss;   // [N]     assign
    float         *hit;    // [N]     assign, or NULL
    void          *logits; // [N,Vp]  in: x   out: dlogits (in place) when want_grad
    const int32_t *target; // [N]     in
    int64_t        N, V, Vp;
    const float   *scale;      // one, on the device: the loss scale; NULL: 1
    float          grad_scale; // 1 / (counted targets over all ranks and micro-batches)
    bool           want_grad;
    DType          dtype; // of logits
} CrossEntropyArgs;

LT_C_BEGIN
LT_MUST_CHECK Status cross_entropy_check(const CrossEntropyArgs *a, Err *err);
LT_C_END
