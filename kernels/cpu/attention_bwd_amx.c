// attention_bwd_amx.c -- gradient of softmax attention of bf16 tensors on AMX tiles.
// Contract: kernels/ops/attention_bwd.h    Tiles: amx_tile.h
//
// WHAT    One task is one head of one sample, in blocks of 128 queries x 128 keys, each of 32x32
//         pieces. Everything is computed *transposed*, rows are keys and columns queries:
//
//                          queries ->
//              keys    S^T = k q^T        P^T  = exp(scale S^T - lse)
//                |     dP^T = v dout^T    dS^T = scale P^T (drop(dP^T) - delta)
//                v
//              dv += drop(P^T) dout  P^T in bf16 is a left operand as it is written
//              dk += dS^T q          so is dS^T
//              dq^T += k^T dS^T      rows of dS^T taken in pairs are a right operand
//
//         so that lse and delta are plain vectors along a row and nothing but dq is ever turned,
//         once a block of queries.
//
// MASK    As in attention_fwd_amx.c: a query sees one span of keys; blocks and pieces outside are
//         skipped, the others masked lane by lane. Keys that no query sees are not read.
//
// COST    10 T T D FLOP a head (half when causal). Scratch a thread: k three times and v once
//         packed in bf16, dk and dv in f32, and blocks.
// ROUND   Sums over queries and keys in f32; P and dS are rounded to bf16 before they are
//         multiplied.
// RULES   A head is one thread's, in one order: bitwise repeatable.
// SHAPES  bf16, D a multiple of 32; dropout where no window or document hides key 0.
//
// SPDX-License-Identifier: MIT
#include "kernels/cpu/attention_amx.h"
#include "kernels/cpu/amx.h"

#include <omp.h>

enum {
    BLOCK = 128,            // queries and keys of a block
    PIECES = BLOCK / AMX_W, // 32x32 pieces on a side
};

typedef struct Room {
    char *k, *v, *kt;         // packed keys and values as left operands; keys transposed
    char *q, *dout, *qt, *dt; // a block of queries: right operands for S^T, dP^T; for dk, dv
    char *P, *dS, *dSr;       // a block: left operands; dS^T as right operand
    float *dk, *dv;           // 32x32 pieces [key block][column of D], all keys
    float *dq;                // 32x32 pieces [query piece][column of D], transposed
    float *S, *dP;            // one piece
} Room;

static Room room(const AttentionBwdArgs *a, char *base, size_t *bytes)
{
    AmxRoom r = {.base = base};
    const int64_t block = BLOCK * a->D * 2, keys = (a->T + BLOCK - 1) / BLOCK * block;
    const int64_t square = (int64_t)BLOCK * BLOCK * 2;
    const Room x = {.k = amx_take(&r, keys),
                    .v = amx_take(&r, keys),
                    .kt = amx_take(&r, keys),
                    .q = amx_take(&r, block),
                    .dout = amx_take(&r, block),
                    .qt = amx_take(&r, block),
                    .dt = amx_take(&r, block),
                    .P = amx_take(&r, square),
                    .dS = amx_take(&r, square),
                    .dSr = amx_take(&r, square),
                    .dk = amx_take(&r, keys * 2),
                    .dv = amx_take(&r, keys * 2),
                    .dq = amx_take(&r, block * 2),
                    .S = amx_take(&r, AMX_BLOCK * 4),
                    .dP = amx_take(&r, AMX_BLOCK * 4)};
    *bytes = r.used;
    return x;
}

// One head: where its tensors are, and the keys that are looked at.
typedef struct Head {
    const AttentionBwdArgs *a;
    const Room *x;
    int64_t b, h, kh;    // kh: 32-wide columns of D
    const VecDrop *drop; // NULL: none
    KeySpan hull;
    const uint16_t *q, *k, *v, *dout, *out; // k and v from the hull on
} Head;

// A block of queries: spans relative to the hull, lse / ln 2, and scale * delta, a lane a query.
typedef struct Queries {
    int64_t i0, n, pieces;
    KeySpan piece[PIECES], all;
    int32_t lo[BLOCK], hi[BLOCK];
    float lse[BLOCK], delta[BLOCK];
} Queries;

static void pack_keys(const Head *hd)
{
    const AttentionBwdArgs *a = hd->a;
    const int64_t keys = hd->hull.hi - hd->hull.lo, kh = hd->kh;
    for (int64_t j = 0; j < keys; j += AMX_W) {
        const int64_t n = LT_MIN((int64_t)AMX_W, keys - j), at = j * a->D * 2;
        amx_pack_a_rows(hd->x->k + at, hd->k + j * a->qkv_row, a->qkv_row, n, a->D);
        amx_pack_a_rows(hd->x->v + at, hd->v + j * a->qkv_row, a->qkv_row, n, a->D);
    }
    for (int64_t j = 0; j < keys; j += BLOCK) {
        const int64_t n = LT_MIN((int64_t)BLOCK, keys - j), panel = amx_blocks(n) * AMX_STEP;
        for (int64_t c = 0; c < kh; c++)
            amx_pack_cols(hd->x->kt + j * a->D * 2 + c * panel, hd->k + j * a->qkv_row + c * AMX_W,
                          a->qkv_row, AMX_W, n, true);
    }
}

static void pack_queries(const Head *hd, const Queries *qs)
{
    const AttentionBwdArgs *a = hd->a;
    const uint16_t *q = hd->q + qs->i0 * a->qkv_row, *d = hd->dout + qs->i0 * a->out_row;
    for (int64_t i = 0; i < qs->n; i += AMX_W) {
        const int64_t n = LT_MIN((int64_t)AMX_W, qs->n - i), at = i * a->D * 2;
        amx_pack_b_rows(hd->x->q + at, q + i * a->qkv_row, a->qkv_row, n, a->D);
        amx_pack_b_rows(hd->x->dout + at, d + i * a->out_row, a->out_row, n, a->D);
    }
    for (int64_t c = 0; c < hd->kh; c++) {
        const int64_t at = c * qs->pieces * AMX_STEP;
        amx_pack_cols(hd->x->qt + at, q + c * AMX_W, a->qkv_row, AMX_W, qs->n, false);
        amx_pack_cols(hd->x->dt + at, d + c * AMX_W, a->out_row, AMX_W, qs->n, false);
    }
}

static float dot(const uint16_t *x, const uint16_t *y, int64_t n) // n a multiple of 32
{
    VecF s = {0}, t = {0};
    for (int64_t i = 0; i < n; i += 32) {
        s += vec_load_as(x, DTYPE_BF16, i) * vec_load_as(y, DTYPE_BF16, i);
        t += vec_load_as(x, DTYPE_BF16, i + 16) * vec_load_as(y, DTYPE_BF16, i + 16);
    }
    return vec_sum(s + t);
}

static void describe_queries(const Head *hd, Queries *qs)
{
    const AttentionBwdArgs *a = hd->a;
    const float *lse = a->lse + (hd->b * a->H + hd->h) * a->T;
    qs->all = (KeySpan){0};
    for (int64_t p = 0; p < PIECES; p++) qs->piece[p] = (KeySpan){0};
    for (int64_t i = 0; i < BLOCK; i++) {
        KeySpan s = {0};
        if (i < qs->n) s = amx_visible(&a->mask, hd->b, qs->i0 + i, qs->i0 + i, a->T, a->T);
        const bool sees = s.lo < s.hi;
        qs->lo[i] = sees ? (int32_t)(s.lo - hd->hull.lo) : 0;
        qs->hi[i] = sees ? (int32_t)(s.hi - hd->hull.lo) : 0;
        qs->lse[i] = sees ? lse[qs->i0 + i] * VM_LOG2E : 0;
        qs->delta[i] = 0;
        if (!sees) continue;
        const int64_t at = (qs->i0 + i) * a->out_row;
        qs->delta[i] = a->scale * dot(hd->dout + at, hd->out + at, a->D);
        const KeySpan from = {qs->lo[i], qs->hi[i]};
        qs->piece[i / AMX_W] = amx_span_join(qs->piece[i / AMX_W], from);
        qs->all = amx_span_join(qs->all, from);
    }
}

static bool apart(KeySpan s, int64_t j, int64_t n)
{
    return s.hi <= j || s.lo >= j + n;
}

// P^T and dS^T of 32 keys from j (relative to the hull) and 32 queries from piece ib.
static void piece(const Head *hd, const Queries *qs, int64_t j, int64_t ib, char *P, char *dS,
                  char *dSr)
{
    const Room *x = hd->x;
    amx_mul(hd->kh, x->k + j * hd->a->D * 2, x->q + ib * hd->kh * AMX_STEP, x->S, true, NULL, NULL);
    amx_mul(hd->kh, x->v + j * hd->a->D * 2, x->dout + ib * hd->kh * AMX_STEP, x->dP, true, NULL,
            NULL);
    const int64_t i = ib * AMX_W;
    const VecF scale = vec_set(hd->a->scale), scale2 = vec_set(hd->a->scale * VM_LOG2E);
    const VecF lse[2] = {vec_load(qs->lse + i), vec_load(qs->lse + i + 16)};
    const VecF delta[2] = {vec_load(qs->delta + i), vec_load(qs->delta + i + 16)};
    const __m512i lo[2] = {_mm512_loadu_si512(qs->lo + i), _mm512_loadu_si512(qs->lo + i + 16)};
    const __m512i hi[2] = {_mm512_loadu_si512(qs->hi + i), _mm512_loadu_si512(qs->hi + i + 16)};
    const uint32_t query = (uint32_t)(qs->i0 + i);
    VecU w[2][4];
    __m512i above = _mm512_setzero_si512(); // the row before, for the pairs
    for (int r = 0; r < AMX_W; r++) {
        const __m512i key = _mm512_set1_epi32((int32_t)(j + r));
        VecF p[2], d[2];
        if (hd->drop && r % 4 == 0) {
            vec_rng_rows(w[0], hd->drop, query, (uint32_t)((j + r) / 4));
            vec_rng_rows(w[1], hd->drop, query + 16, (uint32_t)((j + r) / 4));
        }
#pragma GCC unroll 2
        for (int t = 0; t < 2; t++) {
            const __mmask16 m =
                _mm512_cmple_epi32_mask(lo[t], key) & _mm512_cmpgt_epi32_mask(hi[t], key);
            const VecF e = vec_exp2(vec_load(x->S + r * AMX_W + t * 16) * scale2 - lse[t]);
            VecF dp = vec_load(x->dP + r * AMX_W + t * 16), kept = e;
            if (hd->drop) {
                dp = vec_drop_apply(hd->drop, w[t][r % 4], dp);
                kept = vec_drop_apply(hd->drop, w[t][r % 4], e);
            }
            const VecF g = dp * scale - delta[t];
            p[t] = (VecF)_mm512_maskz_mov_ps(m, (__m512)kept);
            d[t] = (VecF)_mm512_maskz_mul_ps(m, (__m512)e, (__m512)g);
        }
        const __m512i row = amx_bf16(d[0], d[1]);
        _mm512_store_si512(P + r * 64, amx_bf16(p[0], p[1]));
        _mm512_store_si512(dS + r * 64, row);
        if (r & 1) {
            VecF left, right;
            amx_pair(above, row, &left, &right);
            _mm512_store_ps(dSr + r / 2 * 64, (__m512)left);
            _mm512_store_ps(dSr + 1024 + r / 2 * 64, (__m512)right);
        }
        above = row;
    }
}

// All that a block of queries and the keys j0 .. j0+n-1 give each other.
static void block(const Head *hd, const Queries *qs, int64_t j0, int64_t n)
{
    const Room *x = hd->x;
    const int64_t nk = amx_blocks(n), nq = qs->pieces, kh = hd->kh;
    for (int64_t jb = 0; jb < nk; jb++)
        for (int64_t ib = 0; ib < nq; ib++) {
            char *P = x->P + (jb * nq + ib) * AMX_STEP, *dS = x->dS + (jb * nq + ib) * AMX_STEP;
            char *dSr = x->dSr + (ib * nk + jb) * AMX_STEP;
            if (apart(qs->piece[ib], j0 + jb * AMX_W, AMX_W)) {
                memset(P, 0, AMX_STEP);
                memset(dS, 0, AMX_STEP);
                memset(dSr, 0, AMX_STEP);
            } else {
                piece(hd, qs, j0 + jb * AMX_W, ib, P, dS, dSr);
            }
        }
    for (int64_t c = 0; c < kh; c++) {
        for (int64_t jb = 0; jb < nk; jb++) {
            const int64_t to = ((j0 / AMX_W + jb) * kh + c) * AMX_BLOCK, from = jb * nq * AMX_STEP;
            amx_mul(nq, x->P + from, x->dt + c * nq * AMX_STEP, x->dv + to, false, NULL, NULL);
            amx_mul(nq, x->dS + from, x->qt + c * nq * AMX_STEP, x->dk + to, false, NULL, NULL);
        }
        const char *kt = x->kt + j0 * hd->a->D * 2 + c * nk * AMX_STEP;
        for (int64_t ib = 0; ib < nq; ib++)
            amx_mul(nk, kt, x->dSr + ib * nk * AMX_STEP, x->dq + (ib * kh + c) * AMX_BLOCK, false,
                    NULL, NULL);
    }
}

// dq^T of a block of queries, turned, to memory.
static void store_dq(const Head *hd, const Queries *qs, uint16_t *dq)
{
    const AttentionBwdArgs *a = hd->a;
    for (int64_t i = 0; i < qs->n; i += 16)
        for (int64_t c = 0; c < hd->kh; c++) {
            const float *from = hd->x->dq + (i / AMX_W * hd->kh + c) * AMX_BLOCK + i % AMX_W;
            VecF lo[16], hi[16];
#pragma GCC unroll 16
            for (int r = 0; r < 16; r++) {
                lo[r] = vec_load(from + r * AMX_W);
                hi[r] = vec_load(from + (r + 16) * AMX_W);
            }
            gemm_transpose(lo);
            gemm_transpose(hi);
            const int64_t n = LT_MIN((int64_t)16, qs->n - i);
            for (int64_t r = 0; r < n; r++)
                _mm512_storeu_si512(dq + (qs->i0 + i + r) * a->qkv_row + c * AMX_W,
                                    amx_bf16(lo[r], hi[r]));
        }
}

// dk or dv of a head: the keys of the hull from the sums, the others 0.
static void store_keys(const Head *hd, const float *sums, uint16_t *to)
{
    for (int64_t j = 0; j < hd->a->T; j++)
        for (int64_t c = 0; c < hd->kh; c++) {
            const int64_t r = j - hd->hull.lo;
            __m512i y = _mm512_setzero_si512();
            if (r >= 0 && j < hd->hull.hi) {
                const float *x = sums + (r / AMX_W * hd->kh + c) * AMX_BLOCK + r % AMX_W * AMX_W;
                y = amx_bf16(vec_load(x), vec_load(x + 16));
            }
            _mm512_storeu_si512(to + j * hd->a->qkv_row + c * AMX_W, y);
        }
}

static void head(const AttentionBwdArgs *a, const Room *x, int64_t b, int64_t h)
{
    const KeySpan hull = amx_hull(&a->mask, b, 0, a->T, a->T);
    const int64_t keys = hull.hi - hull.lo;
    const int64_t at = b * a->qkv_batch + h * a->D, ot = b * a->out_batch + h * a->D;
    const int64_t kt = at + hull.lo * a->qkv_row;
    const bool on = a->drop.p > 0;
    const VecDrop drop = on ? vec_drop(&a->drop, b, (uint32_t)h) : (VecDrop){0};
    const Head hd = {.a = a,
                     .x = x,
                     .b = b,
                     .h = h,
                     .kh = a->D / AMX_W,
                     .drop = on ? &drop : NULL,
                     .hull = hull,
                     .q = (const uint16_t *)a->q + at,
                     .k = (const uint16_t *)a->k + kt,
                     .v = (const uint16_t *)a->v + kt,
                     .dout = (const uint16_t *)a->dout + ot,
                     .out = (const uint16_t *)a->out + ot};
    const size_t sums = (size_t)(amx_blocks(keys) * AMX_W * a->D) * sizeof(float);
    memset(x->dk, 0, sums);
    memset(x->dv, 0, sums);
    pack_keys(&hd);
    Queries qs;
    for (int64_t i0 = 0; i0 < a->T; i0 += BLOCK) {
        qs.i0 = i0;
        qs.n = LT_MIN((int64_t)BLOCK, a->T - i0);
        qs.pieces = amx_blocks(qs.n);
        describe_queries(&hd, &qs);
        pack_queries(&hd, &qs);
        memset(x->dq, 0, (size_t)(qs.pieces * AMX_W * a->D) * sizeof(float));
        for (int64_t j0 = 0; j0 < keys; j0 += BLOCK)
            if (!apart(qs.all, j0, BLOCK)) block(&hd, &qs, j0, LT_MIN((int64_t)BLOCK, keys - j0));
        store_dq(&hd, &qs, (uint16_t *)a->dq + at);
    }
    store_keys(&hd, x->dk, (uint16_t *)a->dk + at);
    store_keys(&hd, x->dv, (uint16_t *)a->dv + at);
}

static bool supports(const AttentionBwdArgs *a, const OpCtx *cx, const char **why)
{
    (void)cx;
    if (!amx_attention_supports(a->dtype, a->D, a->drop.p, &a->mask, why)) return false;
    if (a->T <= INT32_MAX - BLOCK) return true;
    *why = "more keys than an int32 counts";
    return false;
}

static size_t scratch(const AttentionBwdArgs *a, const OpCtx *cx)
{
    size_t bytes;
    (void)room(a, NULL, &bytes);
    return bytes * (size_t)cx->device->threads + 64;
}

static Status run(const AttentionBwdArgs *a, OpCtx *cx, Err *err)
{
    (void)err;
    char *base = amx_align(cx->scratch);
    const int64_t heads = a->B * a->H;
#pragma omp parallel num_threads(cx->device->threads)
    {
        size_t bytes;
        (void)room(a, NULL, &bytes);
        const Room x = room(a, base + bytes * (size_t)omp_get_thread_num(), &bytes);
        amx_begin();
#pragma omp for schedule(dynamic, 1)
        for (int64_t t = 0; t < heads; t++) head(a, &x, t / a->H, t % a->H);
        amx_end();
    }
    return ERR_NONE;
}

void cpu_attention_bwd_register_amx(Ops *ops)
{
    ops_add_attention_bwd(
        ops,
        (Impl_attention_bwd){.impl = "amx", .supports = supports, .scratch = scratch, .run = run});
}
