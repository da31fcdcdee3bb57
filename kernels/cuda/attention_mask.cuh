// attention_mask.cuh -- which keys a query sees, and what that means for whole tiles.
//
// Causal, window and document bounds only narrow one span of keys, so a query sees lo <= key < hi.
// Of the spans of a tile of queries two things matter:
//
//     keys           0   lo        all_lo         all_hi        hi  Tk
//     some query     ....|#########################################|....   tiles outside: skipped
//     every query    ..............|##############|.................   tiles inside: no mask needed
//
// A query that sees nothing takes part in `every` only: no tile is seen by all of them.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <climits>
#include <cstdint>
#include <cuda_runtime.h>
#include "kernels/ops/attention_fwd.h"

struct AttentionMaskParams {        // AttentionMask and the sizes it refers to, for a kernel
    const int32_t *seg_lo, *seg_hi; // [B,Tq], or nullptr
    int64_t window;                 // 0: unlimited
    int64_t q_pos0;
    int Tq, Tk;
    bool causal;
};

struct KeySpan { // of one query
    int lo, hi;  // visible: lo <= key < hi; nothing when lo >= hi
};

struct TileSpan {       // of many queries
    int lo, hi;         // seen by some: hull of the spans
    int all_lo, all_hi; // seen by every one
};

inline AttentionMaskParams attention_mask_params(const AttentionMask &m, int64_t Tq, int64_t Tk,
                                                 int64_t q_pos0)
{
    AttentionMaskParams p;
    p.seg_lo = m.seg_lo;
    p.seg_hi = m.seg_hi;
    p.window = m.window;
    p.q_pos0 = q_pos0;
    p.Tq = (int)Tq;
    p.Tk = (int)Tk;
    p.causal = m.causal;
    return p;
}

// Of query `row` < Tq of sample `batch`.
__device__ __forceinline__ KeySpan key_span(const AttentionMaskParams &m, int batch, int row)
{
    const int64_t i = (int64_t)batch * m.Tq + row, at = m.q_pos0 + row;
    KeySpan s = {m.seg_lo ? max(m.seg_lo[i], 0) : 0, m.seg_hi ? min(m.seg_hi[i], m.Tk) : m.Tk};
    if (m.causal && at + 1 < s.hi) s.hi = (int)(at + 1);
    if (m.window > 0 && at - m.window + 1 > s.lo) s.lo = (int)min(at - m.window + 1, (int64_t)m.Tk);
    return s;
}

// Of no query at all: what every other span is joined to.
__device__ __forceinline__ TileSpan tile_span_none()
{
    return {INT_MAX, 0, 0, INT_MAX};
}

__device__ __forceinline__ TileSpan tile_span_of(KeySpan s)
{
    return s.lo < s.hi ? TileSpan{s.lo, s.hi, s.lo, s.hi} : TileSpan{INT_MAX, 0, INT_MAX, 0};
}

// Joins the spans of the 32 lanes; every lane gets the answer.
__device__ __forceinline__ TileSpan tile_span_warp(TileSpan s)
{
    s.lo = __reduce_min_sync(0xffffffffu, s.lo);
    s.hi = __reduce_max_sync(0xffffffffu, s.hi);
    s.all_lo = __reduce_max_sync(0xffffffffu, s.all_lo);
    s.all_hi = __reduce_min_sync(0xffffffffu, s.all_hi);
    return s;
}
