// sampler.h -- a token from logits: temperature, then top-k, then top-p, then a draw.
//
// temperature 0 is the likeliest token (ties: the smaller id). top_p keeps the likeliest tokens
// until their probabilities, after temperature and top-k, reach it (the one that crosses
// included). The draw is a function of (seed, text, position) alone (rng.h).
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/err.h"

typedef struct Sampler {
    double temperature, top_p;
    int64_t top_k; // 0: all
    uint64_t seed;
    int64_t V;
    int32_t *order; // [V] owned
    double *prob;   // [V] owned
} Sampler;

LT_C_BEGIN
LT_MUST_CHECK Status sampler_open(Sampler *s, int64_t V, double temperature, int64_t top_k,
                                  double top_p, uint64_t seed, Err *err);
void sampler_close(Sampler *s);
// logits [V]; text: index of the sample; position: of the token in it. NaN logits: ERR_DIVERGED.
LT_MUST_CHECK Status sampler_draw(Sampler *s, const float *logits, int64_t text, int64_t position,
                                  int32_t *id, Err *err);
LT_C_END
