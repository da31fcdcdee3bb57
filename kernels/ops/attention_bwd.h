// attention_bwd.h -- op contract: gradient of attention_fwd, probabilities recomputed from lse.
//
// Math, with s, p, drop as in attention_fwd and q_pos0 = 0, Tq = Tk = T:
//     delta[i] = sum_d dout[i,d] * out[i,d]
//     dp[j]    = drop(sum_d dout[i,d] v[j,d])
//     ds[j]    = p[j] * (dp[j] - delta[i])
//     dq[i]    = scale * sum_j ds[j] k[j]
//     dk[j]    = scale * sum_i ds[i,j] q[i]
//     dv[j]    = sum_i drop(p[i,j]) dout[i]
// Edges:   a query with no visible key gives zero gradients; a key nobody sees gets 0.
// Repeat:  bitwise, whatever the threads: every sum has a fixed order.
// Cost:    10 B H T T D FLOP, half of it when causal.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include "engine/base/dtype.h"
#include "engine/base/err.h"
#include "kernels/ops/attention_fwd.h"

typedef struct AttentionBwdArgs {
    void         *dq, *dk, *dv; // [B,T,H,D] strides as q, k, v   assign
    const void   *dout, *out;   // [B,T,H,D] out_batch, out_row
    const float  *lse;          // [B,H,T]
    const void   *q, *k, *v;    // [B,T,H,D] qkv_batch, qkv_row
    int64_t       B, H, T, D;
    int64_t       qkv_batch, qkv_row, out_batch, out_row; // dq, dk, dv use qkv_batch, qkv_row
    float         scale;
    AttentionMask mask;
    DropoutSpec   drop;
    DType         dtype; // of everything but lse
} AttentionBwdArgs;

LT_C_BEGIN
LT_MUST_CHECK Status attention_bwd_check(const AttentionBwdArgs *a, Err *err);
LT_C_END
