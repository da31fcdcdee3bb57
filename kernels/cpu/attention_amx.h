// attention_amx.h -- what attention forward and backward on AMX share: visible ranges, legality.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/amx_tile.h"
#include "kernels/cpu/vec_rng.h"
#include "kernels/ops.h"

typedef struct KeySpan {
    int64_t lo, hi; // keys lo <= j < hi; empty when lo >= hi
} KeySpan;

// The keys that query i of sample b, at key position `at`, sees.
LT_INLINE KeySpan amx_visible(const AttentionMask *m, int64_t b, int64_t i, int64_t at, int64_t Tq,
                              int64_t Tk)
{
    KeySpan s = {m->seg_lo ? LT_MAX((int64_t)m->seg_lo[b * Tq + i], 0) : 0,
                 m->seg_hi ? LT_MIN((int64_t)m->seg_hi[b * Tq + i], Tk) : Tk};
    if (m->causal) s.hi = LT_MIN(s.hi, at + 1);
    if (m->window > 0) s.lo = LT_MAX(s.lo, at - m->window + 1);
    if (s.lo >= s.hi) return (KeySpan){0};
    return s;
}

LT_INLINE KeySpan amx_span_join(KeySpan a, KeySpan b)
{
    if (a.lo >= a.hi) return b;
    if (b.lo >= b.hi) return a;
    return (KeySpan){LT_MIN(a.lo, b.lo), LT_MAX(a.hi, b.hi)};
}

// The smallest span that holds every key some query of sample b sees. Nothing outside it is read.
LT_INLINE KeySpan amx_hull(const AttentionMask *m, int64_t b, int64_t q_pos0, int64_t Tq,
                           int64_t Tk)
{
    KeySpan all = {0};
    for (int64_t i = 0; i < Tq; i++)
        all = amx_span_join(all, amx_visible(m, b, i, q_pos0 + i, Tq, Tk));
    return all;
}

LT_INLINE int64_t amx_blocks(int64_t n)
{
    return (n + AMX_W - 1) / AMX_W;
}

// Random words come four keys at a time, so with dropout the first packed key has to be key 0.
LT_INLINE bool amx_attention_supports(DType t, int64_t D, float drop, const AttentionMask *m,
                                      const char **why)
{
    const bool from_0 = !m->seg_lo && m->window == 0;
    *why = t != DTYPE_BF16       ? "bf16 only"
           : D % 32 != 0         ? "head sizes that are multiples of 32 only"
           : drop > 0 && !from_0 ? "no dropout with a window or documents"
                                 : NULL;
    return *why == NULL;
}

// 64-byte aligned pieces of a thread's scratch, measured (base NULL) or handed out.
typedef struct AmxRoom {
    char *base;
    size_t used;
} AmxRoom;
LT_INLINE void *amx_take(AmxRoom *r, int64_t bytes)
{
    char *p = r->base ? r->base + r->used : NULL;
    r->used += ((size_t)bytes + 63) / 64 * 64;
    return p;
}
LT_INLINE char *amx_align(void *p)
{
    return (char *)p + (64 - (uintptr_t)p % 64) % 64;
}
