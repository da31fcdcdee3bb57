// attention_vec.h -- what attention forward and backward share: tiles, packing, visible ranges.
//
// One (sample, head) is one task of one thread. Its keys and values are copied once into packed f32
// rows; queries come in blocks of ATT_Q. Scores are kept transposed, as S^T[key][query]:
//
//     S^T = K Q^T    rows are keys (one broadcast value each), vector lanes are queries, so that a
//                    query's maximum and sum, and masks, are plain vector arithmetic
//     O   = P V      reads S^T by columns: the values of four queries lie side by side
//
// Every mask is a range of keys for each query, lo <= key < hi (attention_fwd.h): a group of four
// keys is computed for the lane vectors with a range that touches it, and nothing else is.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/gemm_vec.h"
#include "kernels/cpu/vec_ops.h"
#include "kernels/cpu/vec_rng.h"
#include "kernels/cpu/vmath.h"

enum {
    ATT_Q = 64,         // queries in a block
    ATT_K = 64,         // keys in a block
    ATT_V = ATT_Q / VL, // lane vectors in a block of queries
    ATT_M = 4,          // rows of a tile
    ATT_N = LATHE_REGS == 32 ? 4 : 2, // vectors of a tile: what the registers hold
    ATT_AHEAD = 12,     // rows fetched ahead while packing
};

// ---- the tile: ATT_M x nv vectors of C from A[i*ai + k*ak] and rows of B ------------------------

typedef enum AttMode { ATT_SET, ATT_ADD, ATT_KEEP } AttMode; // C = S, C += S, C = keep[row] C + S

LT_INLINE void att_tile(int nv, AttMode mode, int64_t K, const float *A, int64_t ai, int64_t ak,
                        const float *B, int64_t bk, float *C, int64_t ldc, const float *keep)
{
    VecF acc[ATT_M][ATT_N];
#pragma GCC unroll 4
    for (int i = 0; i < ATT_M; i++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++) acc[i][j] = vec_set(0);
    for (int64_t k = 0; k < K; k++) {
        VecF b[ATT_N];
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++) b[j] = vec_load(B + k * bk + j * VL);
#pragma GCC unroll 4
        for (int i = 0; i < ATT_M; i++) {
            const VecF a = vec_set(A[i * ai + k * ak]);
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++) acc[i][j] += a * b[j];
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < ATT_M; i++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++) {
            float *c = C + i * ldc + j * VL;
            if (mode == ATT_ADD) acc[i][j] += vec_load(c);
            if (mode == ATT_KEEP) acc[i][j] += vec_load(c) * keep[i];
            vec_store(c, acc[i][j]);
        }
}

// Four rows of C, `vectors` wide.
LT_INLINE void att_rows(int64_t vectors, AttMode mode, int64_t K, const float *A, int64_t ai,
                        int64_t ak, const float *B, int64_t bk, float *C, int64_t ldc,
                        const float *keep)
{
    for (int64_t v = 0; v < vectors; v += ATT_N, B += ATT_N * VL, C += ATT_N * VL) {
        switch (LT_MIN(vectors - v, ATT_N)) {
        case 1: att_tile(1, mode, K, A, ai, ak, B, bk, C, ldc, keep); break;
        case 2: att_tile(2, mode, K, A, ai, ak, B, bk, C, ldc, keep); break;
        case 3: att_tile(LT_MIN(3, ATT_N), mode, K, A, ai, ak, B, bk, C, ldc, keep); break;
        default: att_tile(ATT_N, mode, K, A, ai, ak, B, bk, C, ldc, keep); break;
        }
    }
}

// ---- packing ------------------------------------------------------------------------------------

// n rows of D elements of type t, from element `at` of src on (row stride ld), as f32 rows of
// Dp = LT_ROUND_UP(D, VL), times scale; zero padding in the columns and in rows n .. np-1.
LT_INLINE void att_pack(float *dst, int64_t np, const void *src, DType t, int64_t at, int64_t ld,
                        int64_t n, int64_t D, float scale)
{
    const int64_t Dp = LT_ROUND_UP(D, VL), es = t == DTYPE_F32 ? 4 : 2;
    for (int64_t r = 0; r < n; r++) {
        // Rows lie pages apart, where the hardware does not look ahead.
        const char *ahead = (const char *)src + (at + LT_MIN(r + ATT_AHEAD, n - 1) * ld) * es;
        for (int64_t byte = 0; byte < D * es; byte += 64) __builtin_prefetch(ahead + byte);
        for (int64_t d = 0; d < D; d += VL)
            vec_store(dst + r * Dp + d, vec_load_as_n(src, t, at + r * ld + d, D - d, 0) * scale);
    }
    memset(dst + n * Dp, 0, (size_t)((np - n) * Dp) * sizeof *dst);
}
// dst[Dp][ATT_Q] = the transpose of src[ATT_Q][Dp].
LT_INLINE void att_turn(float *dst, const float *src, int64_t Dp)
{
    for (int64_t q = 0; q < ATT_Q; q += VL)
        for (int64_t d = 0; d < Dp; d += VL) {
            VecF r[VL];
#pragma GCC unroll 16
            for (int i = 0; i < VL; i++) r[i] = vec_load(src + (q + i) * Dp + d);
            gemm_transpose(r);
#pragma GCC unroll 16
            for (int i = 0; i < VL; i++) vec_store(dst + (d + i) * ATT_Q + q, r[i]);
        }
}
LT_INLINE void att_unpack(void *dst, DType t, int64_t at, const float *src, int64_t D, VecF scale)
{
    for (int64_t d = 0; d < D; d += VL)
        vec_store_as_n(dst, t, at + d, D - d, vec_load(src + d) * scale);
}

// ---- visible ranges -----------------------------------------------------------------------------

typedef struct AttRange {
    int32_t lo, hi; // empty: INT32_MAX, 0
} AttRange;

LT_INLINE AttRange att_range(const AttentionMask *m, int64_t b, int64_t i, int64_t at, int64_t Tq,
                             int64_t Tk)
{
    int64_t lo = m->seg_lo ? LT_MAX(m->seg_lo[b * Tq + i], 0) : 0;
    int64_t hi = m->seg_hi ? LT_MIN(m->seg_hi[b * Tq + i], Tk) : Tk;
    if (m->causal) hi = LT_MIN(hi, at + 1);
    if (m->window > 0) lo = LT_MAX(lo, at - m->window + 1);
    if (lo >= hi) return (AttRange){INT32_MAX, 0};
    return (AttRange){(int32_t)lo, (int32_t)hi};
}

typedef struct AttBlock { // the ranges of a block of queries
    int32_t  lo[ATT_Q], hi[ATT_Q];
    AttRange row[ATT_Q / ATT_M]; // of four queries together
    AttRange any[ATT_V];         // keys that some query of a lane vector sees
    AttRange all[ATT_V];         // keys that all of them see
    AttRange whole;
} AttBlock;

LT_INLINE void att_join(AttRange *into, AttRange r)
{
    into->lo = LT_MIN(into->lo, r.lo);
    into->hi = LT_MAX(into->hi, r.hi);
}

LT_INLINE void att_block(AttBlock *s, const AttentionMask *m, int64_t b, int64_t q0, int64_t pos0,
                         int64_t Tq, int64_t Tk)
{
    const AttRange none = {INT32_MAX, 0};
    s->whole            = none;
    for (int g = 0; g < ATT_Q / ATT_M; g++) s->row[g] = none;
    for (int v = 0; v < ATT_V; v++) {
        s->any[v] = none;
        s->all[v] = (AttRange){0, INT32_MAX};
    }
    for (int l = 0; l < ATT_Q; l++) {
        const int64_t  i = q0 + l;
        const AttRange r = i < Tq ? att_range(m, b, i, pos0 + i, Tq, Tk) : none;
        s->lo[l]         = r.lo;
        s->hi[l]         = r.hi;
        att_join(&s->row[l / ATT_M], r);
        att_join(&s->any[l / VL], r);
        att_join(&s->whole, r);
        s->all[l / VL].lo = LT_MAX(s->all[l / VL].lo, r.lo);
        s->all[l / VL].hi = LT_MIN(s->all[l / VL].hi, r.hi);
    }
}

// Which lane vectors need the four keys from j on: first .. first + count - 1 (some may not).
typedef struct AttLanes {
    int first, count;
} AttLanes;

LT_INLINE AttLanes att_lanes(const AttBlock *s, int64_t j)
{
    int first = ATT_V, last = -1;
    for (int v = 0; v < ATT_V; v++) {
        if (s->any[v].lo >= j + ATT_M || s->any[v].hi <= j) continue;
        if (first == ATT_V) first = v;
        last = v;
    }
    return (AttLanes){first, last < 0 ? 0 : last - first + 1};
}

// All ones in the lanes whose query sees key j.
LT_INLINE VecI att_sees(const AttBlock *s, int v, int64_t j)
{
    VecI lo, hi;
    memcpy(&lo, s->lo + v * VL, sizeof lo);
    memcpy(&hi, s->hi + v * VL, sizeof hi);
    return (lo <= (int32_t)j) & (hi > (int32_t)j);
}

// Zero the packed rows of keys that no query sees: whatever they hold, it must not enter a product.
// count: room for Tk + 1.
LT_INLINE void att_hide(float *k, float *v, int32_t *count, const AttentionMask *m, int64_t b,
                        int64_t pos0, int64_t Tq, int64_t Tk, int64_t Dp)
{
    memset(count, 0, (size_t)(Tk + 1) * sizeof *count);
    for (int64_t i = 0; i < Tq; i++) {
        const AttRange r = att_range(m, b, i, pos0 + i, Tq, Tk);
        if (r.hi == 0) continue;
        count[r.lo]++;
        count[r.hi]--;
    }
    int32_t open = 0;
    for (int64_t j = 0; j < Tk; j++) {
        open += count[j];
        if (open) continue;
        memset(k + j * Dp, 0, (size_t)Dp * sizeof *k);
        memset(v + j * Dp, 0, (size_t)Dp * sizeof *v);
    }
}

// ---- scratch ------------------------------------------------------------------------------------

// Hands out pieces of `base`; with base NULL it only measures.
typedef struct AttCarve {
    char  *base;
    size_t used;
} AttCarve;

LT_INLINE void *att_take(AttCarve *c, int64_t words) // 4 bytes each
{
    void *p = c->base ? c->base + c->used : NULL;
    c->used += (size_t)LT_ROUND_UP(words, 16) * 4;
    return p;
}
