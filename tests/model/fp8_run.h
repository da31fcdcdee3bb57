// fp8_run.h -- small training runs in FP8, for the tests of engine/model/fp8.h.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/model/backend.h"
#include "engine/train/trainer.h"

enum { S = 8, T = 20, V = 61, LAYERS = 3, C = 32, SLOTS = LAYERS * FP8_SLOTS_A_LAYER, HISTORY = 4 };

typedef struct Data { // a step's samples: the next token is a function of this one
    int32_t input[S * T], target[S * T];
    int64_t sample[S];
    StreamBatch b;
} Data;

typedef struct Run {
    Trainer t;
    Backend b;
} Run;

void must(Status st, const Err *err);
void make_data(Data *d, int64_t step);
TrainSetup setup(const char *precision, int64_t width);
// false: this machine does not have the instruction set.
bool open_isa(Run *r, const TrainSetup *s, const char *isa, int threads);
void open_threads(Run *r, const TrainSetup *s, int threads);
void open_run(Run *r, const TrainSetup *s);
void close_run(Run *r);
double step(Run *r, int64_t number);
void steps(Run *r, int64_t from, int64_t end);
// Gradients of one micro-batch of B samples, of which the first is `sample` of step 0.
void gradients(Run *r, int64_t sample, int64_t B, float scale, bool first);
size_t weights_bytes(const Run *r);
// FP8 weights now, if they are not made: an update makes them, a pass only for the next step.
void cast_weights(Run *r);
// And the same FP8 weights, where both have them.
void expect_same_state(const Run *a, const Run *b, const char *what);
void expect_same_counts(const Run *a, const Run *b, const char *what);
const Param *param(const Run *r, const char *name);
