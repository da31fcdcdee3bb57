// layernorm_fwd.h -- op contract: residual add (with dropout), then layer normalisation
// (Ba, Kiros, Hinton 2016).
//
// Math, for row n:
//     r[c]      = x[n,c] + drop(add[n,c])              (r = x when add is NULL)
//     resid_out[n,c] = r[c]                            rounded to x_dtype; not when NULL
//     mean[n]   = sum_c r[c] / C                       of the rounded r
//     rstd[n]   = 1 / sqrt(sum_c (r[c]-mean)^2 / C + eps)
//     out[n,c]  = (r[c] - mean) * rstd * weight[c] + bias[c]
//     q         = FP8 of out as rounded to out_dtype, when q.scale is not NULL (fp8.h): the bits
//                 that fp8_quantize of out gives
// Edges:   N == 0: nothing happens. A NaN or Inf stays in its row. A constant row gives bias.
// Legal:   C >= 1; add needs resid_out; resid_out may be x. out may be NULL with q; q's layouts as
//          in fp8_quantize.h. Sums are f32 or better.
// Repeat:  bitwise; a row's result does not depend on N or threads.
// Cost:    reads 1-2, writes 1-2 times N*C elements: memory bound.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include "engine/base/dtype.h"
#include "engine/base/err.h"
#include "kernels/ops/dropout.h"
#include "kernels/ops/fp8.h"

typedef struct LayernormFwdArgs {
    void       *out;       // [N,C]  assign, out_dtype, or NULL with q
    Fp8Out      q;         // [N,C]  FP8 copies of out, or none
    void       *resid_out; // [N,C]  assign, x_dtype; NULL: not wanted (then add is NULL, too)
    float      *mean;      // [N]    assign, or NULL
    float      *rstd;      // [N]    assign, or NULL
    const void *x;         // [N,C]  x_dtype
    const void *add;       // [N,C]  add_dtype, or NULL
    const void *weight;    // [C]    w_dtype
    const void *bias;      // [C]    w_dtype, or NULL
    int64_t     N, T, C;   // T: rows of one sample, for the dropout's coordinates
    float       eps;
    DropoutSpec drop; // on add
    int64_t     row0; // rng row of t = 0
    DType       x_dtype, add_dtype, out_dtype, w_dtype;
} LayernormFwdArgs;

LT_C_BEGIN
LT_MUST_CHECK Status layernorm_fwd_check(const LayernormFwdArgs *a, Err *err);
LT_C_END
