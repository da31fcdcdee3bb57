// dropout.h -- op contract: dropout as a function of coordinates.
//
// Math:    keep(b,t,c) = philox(seed; sample[b], layer, site, head 0, row t, column c) >= 2^32 p
//          y[b,t,c]    = keep ? x[b,t,c] / (1 - p) : 0
//          (rng.h says which word belongs to which column.) The same call on dy is the backward.
// Edges:   p = 0: y = x. A dropped element is 0 even where x is NaN.
// Legal:   0 <= p < 1; N = B*T rows; y may be x.
// Repeat:  does not depend on the batch split, ranks or threads.
// Cost:    reads and writes N*C elements; about 10 integer operations an element.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include "engine/base/dtype.h"
#include "engine/base/err.h"
#include "engine/base/rng.h"

// Where in the run a dropout sits. Part of other ops' arguments, too.
typedef struct DropoutSpec {
    float          p; // 0: no dropout, the rest is not read
    uint64_t       seed;
    const int64_t *sample; // [B] global sample index of each row of the batch
    uint32_t       layer;
    RngSite        site;
} DropoutSpec;

typedef struct DropoutArgs {
    void       *y; // [B,T,C]  assign
    const void *x; // [B,T,C]  in
    int64_t     B, T, C;
    int64_t     row0; // rng row of t = 0 (0 in training)
    DropoutSpec drop;
    DType       dtype; // of x and y
} DropoutArgs;

LT_C_BEGIN
LT_MUST_CHECK Status dropout_check(const DropoutArgs *a, Err *err);
LT_C_END
