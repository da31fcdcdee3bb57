// fp8_update.h -- op contract: the scales of the next step from what the last one saw (delayed
// scaling, as Transformer Engine does it).
//
// Math, for each slot i with amax[i] >= 0 (it occurred), unless *skip:
//     history[i][at[i]] = amax[i];  at[i] = (at[i] + 1) mod length
//     a       = largest of history[i][0..length-1]      (FP8_AMAX_MAX)
//               amax[i]                                 (FP8_AMAX_MOST_RECENT)
//     scale   = max / a / 2^margin, clamped to FLT_MIN .. FLT_MAX;  a == 0: as before
//     inv     = 1 / scale
//   then amax[i] = -1, but for what is held (held[i] != 0) in a skipped step. count is not touched.
//   Held is the amax of what a void step does not make anew: weights become FP8 when they are
//   updated (adamw.h), so their amax waits for the next step that counts.
//   history starts as zeros, which a maximum does not see.
// Edges:   amax[i] < 0: the slot keeps history and scale: what did not run does not roll.
//          amax[i] NaN or infinite (no producer gives that): as if it had not run.
//          *skip != 0: the step is void, nothing rolls.
//          length == 0: current scaling, amax becomes -1 and nothing else happens.
// Legal:   n, length >= 0; -64 <= margin <= 64.
// Repeat:  bitwise.
// Cost:    n * length floats.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include "engine/base/err.h"
#include "kernels/ops/fp8.h"

typedef enum Fp8Amax { FP8_AMAX_MAX = 0, FP8_AMAX_MOST_RECENT } Fp8Amax;

typedef struct Fp8UpdateArgs {
    Fp8Scale      *scale;   // [n]           in and out
    float         *amax;    // [n]           in, becomes -1 (see held)
    float         *history; // [n,length]    in and out, or NULL when length == 0
    int32_t       *at;      // [n]           in and out, or NULL when length == 0
    const int32_t *held;    // [n]           or NULL: nothing is
    const int32_t *skip;    // one, on the device, or NULL
    int64_t        n, length;
    int            margin;
    Fp8Amax        algorithm;
} Fp8UpdateArgs;

LT_C_BEGIN
LT_MUST_CHECK Status fp8_update_check(const Fp8UpdateArgs *a, Err *err);
LT_C_END
