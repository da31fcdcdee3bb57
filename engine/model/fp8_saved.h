// fp8_saved.h -- what a run's FP8 state is in a checkpoint: tensors of trainer.safetensors.
//
//     fp8.scale    f32 [slots,4]        inv, scale, max, 0: as they were, to the bit
//     fp8.history  f32 [slots,history]  delayed scaling only
//     fp8.at       i32 [slots]          delayed scaling only
//
// and an object of trainer.json that says their sizes (engine/train/run_state.h). FP8 weights are
// not in it: the next step makes them from the weights, and their amax with them. Counts of
// elements are not: they are of the time since the last report.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "checkpoints/tensor.h"
#include "engine/model/fp8.h"

enum { FP8_SAVED_TENSORS = 3 };

typedef struct Fp8Saved { // host memory, owned
    int64_t n, length;    // slots, steps of history
    Fp8Scale *scale;      // [n]
    float *history;       // [n,length]; NULL when length == 0
    int32_t *at;          // [n]; NULL when length == 0
} Fp8Saved;

LT_C_BEGIN
// Room for the state of `s`.
LT_MUST_CHECK Status fp8_saved_open(Fp8Saved *v, const Fp8State *s, Err *err);
void fp8_saved_close(Fp8Saved *v);                     // also of a zeroed one
int fp8_saved_tensors(const Fp8Saved *v, Tensor *out); // how many; views
LT_MUST_CHECK Status fp8_saved_take(Fp8Saved *v, const Fp8State *s, Device *d, Err *err);
// Back into `s`. ERR_FORMAT when a number is none that a run could have; `path` is for the message.
LT_MUST_CHECK Status fp8_saved_put(const Fp8Saved *v, Fp8State *s, Device *d, const char *path,
                                   Err *err);
LT_C_END
