// layernorm_bwd.h -- op contract: gradient of layernorm_fwd, residual and dropout included.
//
// Math, for row n, with xh[c] = (x[n,c] - mean[n]) * rstd[n] and g[c] = dy[n,c] * weight[c]:
//     d[c]          = (g[c] - avg_c(g) - xh[c] * avg_c(g * xh)) * rstd[n] + dresid_in[n,c]
//     dresid[n,c]   = d[c]                          rounded to dresid_dtype
//     dadd[n,c]     = keep(n,c) ? d[c] / (1-p) : 0  the gradient of `add`; NULL: not wanted
//     dweight[c] (+)= sum_n dy[n,c] * xh[c]         f32
//     dbias[c]   (+)= sum_n dy[n,c]
//   x is the row that was normalised (resid_out of the forward).
// Edges:   N == 0: dweight and dbias become 0 unless accumulate. dresid_in NULL counts as 0.
// Legal:   dresid_in may be dresid. dbias may be NULL.
// Repeat:  bitwise; sums over rows are taken in fixed chunks of rows, whatever the threads.
// Cost:    reads 3, writes 2 times N*C elements: memory bound.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/dtype.h"
#include "engine/base/err.h"
#include "kernels/ops/dropout.h"

typedef struct LayernormBwdArgs {
    void        *dresid;    // [N,C]  assign, dresid_dtype
    void        *dadd;      // [N,C]  assign, dadd_dtype, or NULL
    float       *dweight;   // [C]    assign or accumulate
    float       *dbias;     // [C]    assign or accumulate, or NULL
    const void  *dresid_in; // [N,C]  dresid_dtype, or NULL
    const void  *dy;        // [N,C]  dy_dtype
    const void  *x;         // [N,C]  x_dtype
    const float *mean;      // [N]
    const float *rstd;      // [N]
    const void  *weight;    // [C]    w_dtype
    int64_t      N, T, C;
    bool         accumulate; // dweight, dbias: += instead of =
    DropoutSpec  drop;       // the one the forward used on add
    DType        dresid_dtype, dadd_dtype, dy_dtype, x_dtype, w_dtype;
} LayernormBwdArgs;

LT_C_BEGIN
LT_MUST_CHECK Status layernorm_bwd_check(const LayernormBwdArgs *a, Err *err);
LT_C_END
