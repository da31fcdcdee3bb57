// infer.h -- one text at a time through the model, token by token, with a key/value cache.
//
// Keys and values of earlier tokens are kept ([T,C] a layer, act), so a new token costs one row
// through every layer instead of the whole text: the products read each weight once a token and are
// bound by memory.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/arena.h"
#include "engine/generate/loaded.h"

typedef struct Infer {
    const Loaded *m; // borrowed
    OpCtx cx;
    int64_t max_tokens; // rows of the cache: n_positions
    int64_t chunk;      // tokens that go through at one time at most
    int64_t pos;        // tokens in the cache
    void *mem;
    size_t mem_bytes;
    char *keys, *values;                          // [L,max_tokens,C]
    void *x, *ln, *q, *att, *tmp, *wide, *logits; // [chunk,C] ... [1,Vp]
    float *lse;                                   // [H,chunk]
    int32_t *ids;                                 // [chunk]
    float *host_logits;                           // [V] host
} Infer;

LT_C_BEGIN
LT_MUST_CHECK Status infer_open(Infer *f, const Loaded *m, Backend *backend, Err *err);
void infer_close(Infer *f); // also of a zeroed one
// Forget everything behind the first `pos` tokens.
void infer_rewind(Infer *f, int64_t pos);
// Append n tokens (pos + n <= max_tokens). *logits: [V] f32 of the last one, valid until the next
// call.
LT_MUST_CHECK Status infer_append(Infer *f, const int32_t *ids, int64_t n, const float **logits,
                                  Err *err);
LT_C_END
