// attention_fwd.h -- op contract: softmax attention in blocks (Dao et al. 2022), no T x T matrix.
//
// Math, for sample b, head h, query i at key position a = q_pos0 + i:
//     visible(j)  = lo <= j < hi,  lo = seg_lo[b,i] (0 when NULL),  hi = seg_hi[b,i] (Tk when NULL)
//                   and j <= a when causal  and  a - j < window when window > 0
//     s[j]        = scale * sum_d q[b,i,h,d] k[b,j,h,d]          over visible j
//     lse[b,h,i]  = log(sum_j exp(s[j]))
//     p[j]        = exp(s[j] - lse)
//     out[b,i,h,d]= sum_j drop(p[j]) v[b,j,h,d]
//   drop(): keep/(1-p), keyed (seed, sample[b], layer, site, head h, row a, column j).
//
// Layout: element (b, t, h, d) of q lies at q + b*q_batch + t*q_row + h*D + d (elements); k, v, out
//   likewise with their own strides. A packed qkv tensor [B,T,3,H,D] has q_row = 3*H*D.
// Edges:   no visible key: out 0, lse -infinity. Masked scores never enter, whatever k and v hold
//          (NaN included) at fully masked positions beyond every query's range.
// Legal:   D >= 1; H <= 65535; window >= 0; rows of H*D elements do not overlap.
// Repeat:  bitwise, whatever the threads.
// Cost:    4 B H Tq Tk D FLOP without a mask, half of it when causal (masked blocks are skipped).
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/dtype.h"
#include "engine/base/err.h"
#include "kernels/ops/dropout.h"

typedef struct AttentionMask {
    const int32_t *seg_lo; // [B,Tq] first visible key, or NULL
    const int32_t *seg_hi; // [B,Tq] one past the last visible key, or NULL
    bool           causal;
    int64_t        window; // 0: unlimited
} AttentionMask;

typedef struct AttentionFwdArgs {
    void         *out; // [B,Tq,H,D] out_batch, out_row   assign
    float        *lse; // [B,H,Tq]   assign, or NULL
    const void   *q;   // [B,Tq,H,D] q_batch, q_row
    const void   *k;   // [B,Tk,H,D] kv_batch, kv_row
    const void   *v;   // [B,Tk,H,D] kv_batch, kv_row
    int64_t       B, H, Tq, Tk, D;
    int64_t       q_batch, q_row, kv_batch, kv_row, out_batch, out_row; // strides, elements
    int64_t       q_pos0; // key position of query 0 (0 in training)
    float         scale;
    AttentionMask mask;
    DropoutSpec   drop;
    DType         dtype; // of q, k, v, out
} AttentionFwdArgs;

LT_C_BEGIN
LT_MUST_CHECK Status attention_fwd_check(const AttentionFwdArgs *a, Err *err);
// (query, key) pairs that are visible in one head; segments are not looked at.
double attention_fwd_pairs(const AttentionMask *m, int64_t Tq, int64_t Tk, int64_t q_pos0);
LT_C_END
