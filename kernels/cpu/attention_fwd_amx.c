// attention_fwd_amx.c -- softmax attention of bf16 tensors on AMX tiles.
// Contract: kernels/ops/attention_fwd.h    Tiles: amx_tile.h
//
// WHAT    One task is one head of one sample. Its keys and values are packed once; then 32 queries
//         at a time:
//
//              keys ->   block 0 | block 1 | ... | block n      blocks of 32 keys; only those that
//         32 queries     S = q k^T, f32, in a strip             some query of the strip sees
//             |          row maximum, P = exp(S - max), row sum
//             v          O = P v,  out = O / sum,  lse = max + log(sum)
//
//         A 32x32 block of P in bf16 is, row by row, just what the tile unit wants as left operand,
//         so the probabilities are written once and never rearranged.
//
// MASK    A query sees one span of keys: causal, window and document bounds only narrow it. Blocks
//         outside the strip's span are skipped; the first and last block of a row are masked by
//         bits. Keys that no query of the sample sees are not even packed: they may hold NaN.
//
// COST    4 T T D FLOP a head (half when causal), bound by exp for small D: about 15 vector
//         operations for 16 scores. Scratch a thread: packed keys and values and one strip of T x
//         32 scores.
// RULES   A head is computed by one thread, in one order: bitwise repeatable.
// SHAPES  bf16, D a multiple of 32, at least 8 queries (fewer do not pay for packing); dropout
//         where no window or document hides key 0.
//
// SPDX-License-Identifier: MIT
#include "kernels/cpu/attention_amx.h"
#include "kernels/cpu/amx.h"

#include <math.h>
#include <omp.h>

enum { MIN_QUERIES = 8 };

typedef struct Room {
    char *k, *v, *q, *p; // packed
    float *S, *O;        // strip of scores; a 32x32 block of the output
} Room;

static Room room(const AttentionFwdArgs *a, char *base, size_t *bytes)
{
    AmxRoom r = {.base = base};
    const int64_t nb = amx_blocks(a->Tk), kv = nb * AMX_W * a->D * 2;
    const Room x = {.k = amx_take(&r, kv),
                    .v = amx_take(&r, kv),
                    .q = amx_take(&r, AMX_W * a->D * 2),
                    .p = amx_take(&r, nb * AMX_STEP),
                    .S = amx_take(&r, nb * AMX_BLOCK * 4),
                    .O = amx_take(&r, AMX_BLOCK * 4)};
    *bytes = r.used;
    return x;
}

// Bits of the keys of block `j` that lie in the span.
LT_INLINE uint32_t span_bits(KeySpan s, int64_t j)
{
    const int64_t lo = s.lo - j * AMX_W, hi = s.hi - j * AMX_W;
    return hi <= 0 ? 0 : amx_mask(hi) & (lo >= 32 ? 0 : ~0u << LT_MAX(lo, 0));
}

// Of a strip: for each query the lanes' maxima and sums over the keys so far, and once the maxima
// are final, minus the maximum. All in units of log 2.
typedef struct Rows {
    VecF top[AMX_W], sum[AMX_W];
    float minus[AMX_W];
} Rows;

// Both sweeps go block by block, so that scores are read in the order in which they lie. `seen`:
// bits of the keys that each query sees, NULL: all.
static void block_top(Rows *r, const float *S, const uint32_t *seen, float by)
{
    const __m512 none = _mm512_set1_ps(-INFINITY), scale = _mm512_set1_ps(by);
    for (int i = 0; i < AMX_W; i++) {
        const uint32_t m = seen ? seen[i] : ~0u;
        const __m512 x0 = _mm512_load_ps(S + i * AMX_W), x1 = _mm512_load_ps(S + i * AMX_W + 16);
        const __m512 a = _mm512_mask_mul_ps(none, (__mmask16)m, x0, scale);
        const __m512 b = _mm512_mask_mul_ps(none, (__mmask16)(m >> 16), x1, scale);
        r->top[i] = vec_max(r->top[i], vec_max((VecF)a, (VecF)b));
    }
}
// Scores to probabilities times the row's sum, as a left operand. With dropout the sum is the one
// before it; the block's first query is `row`, its first key `key`.
static void block_exp(Rows *r, char *P, const float *S, const uint32_t *seen, float by,
                      const VecDrop *drop, int64_t row, int64_t key)
{
    VecU w[4];
    for (int i = 0; i < AMX_W; i++) {
        const VecF minus = vec_set(r->minus[i]);
        VecF p0 = vec_exp2(vec_load(S + i * AMX_W) * by + minus);
        VecF p1 = vec_exp2(vec_load(S + i * AMX_W + 16) * by + minus);
        if (seen) {
            p0 = (VecF)_mm512_maskz_mov_ps((__mmask16)seen[i], (__m512)p0);
            p1 = (VecF)_mm512_maskz_mov_ps((__mmask16)(seen[i] >> 16), (__m512)p1);
        }
        r->sum[i] += p0 + p1;
        if (drop) {
            if (i % 2 == 0) vec_rng_two_rows(w, drop, (uint32_t)(row + i), (uint32_t)(key / 4));
            p0 = vec_drop_apply(drop, w[i % 2 * 2], p0);
            p1 = vec_drop_apply(drop, w[i % 2 * 2 + 1], p1);
        }
        _mm512_store_si512(P + i * 64, amx_bf16(p0, p1));
    }
}

// NULL when each of the n queries sees all keys of block j, otherwise `bits`, filled.
static const uint32_t *block_seen(const KeySpan *see, int64_t n, int64_t j, uint32_t bits[AMX_W])
{
    uint32_t all = ~0u;
    for (int64_t i = 0; i < AMX_W; i++) {
        bits[i] = i < n ? span_bits(see[i], j) : ~0u;
        all &= bits[i];
    }
    return all == ~0u ? NULL : bits;
}

// Queries i0 .. i0+n-1 of a head; `hull` is where the packed keys begin and end.
static void strip(const AttentionFwdArgs *a, const Room *x, KeySpan hull, int64_t b, int64_t h,
                  int64_t i0, int64_t n, const VecDrop *drop)
{
    const int64_t kh = a->D / AMX_W, packed = amx_blocks(hull.hi - hull.lo);
    KeySpan see[AMX_W], all = {0};
    for (int64_t i = 0; i < n; i++) {
        see[i] = amx_visible(&a->mask, b, i0 + i, a->q_pos0 + i0 + i, a->Tq, a->Tk);
        all = amx_span_join(all, see[i]);
        see[i].lo -= hull.lo;
        see[i].hi -= hull.lo;
    }
    const int64_t first = all.lo < all.hi ? (all.lo - hull.lo) / AMX_W : 0;
    const int64_t end = all.lo < all.hi ? amx_blocks(all.hi - hull.lo) : 0;
    const uint16_t *q = (const uint16_t *)a->q + b * a->q_batch + i0 * a->q_row + h * a->D;
    uint16_t *out = (uint16_t *)a->out + b * a->out_batch + i0 * a->out_row + h * a->D;
    const float by = a->scale * VM_LOG2E;
    float weight[AMX_W];
    uint32_t bits[AMX_W];
    Rows r;

    amx_pack_a_rows(x->q, q, a->q_row, n, a->D);
    for (int i = 0; i < AMX_W; i++) {
        r.top[i] = vec_set(-INFINITY);
        r.sum[i] = vec_set(0);
    }
    for (int64_t j = first; j < end; j++) {
        amx_mul(kh, x->q, x->k + j * kh * AMX_STEP, x->S + j * AMX_BLOCK, true, NULL, NULL);
        block_top(&r, x->S + j * AMX_BLOCK, block_seen(see, n, j, bits), by);
    }
    for (int i = 0; i < AMX_W; i++) r.minus[i] = -_mm512_reduce_max_ps((__m512)r.top[i]);
    for (int64_t j = first; j < end; j++)
        block_exp(&r, x->p + j * AMX_STEP, x->S + j * AMX_BLOCK, block_seen(see, n, j, bits), by,
                  drop, a->q_pos0 + i0, j * AMX_W);
    for (int64_t i = 0; i < n; i++) {
        const bool seen = see[i].lo < see[i].hi;
        const float sum = _mm512_reduce_add_ps((__m512)r.sum[i]);
        weight[i] = seen ? 1.0f / sum : 0;
        if (a->lse)
            a->lse[(b * a->H + h) * a->Tq + i0 + i] =
                seen ? logf(sum) - r.minus[i] * VM_LN2 : -INFINITY;
    }
    for (int64_t c = 0; c < kh; c++) {
        if (first < end)
            amx_mul(end - first, x->p + first * AMX_STEP, x->v + (c * packed + first) * AMX_STEP,
                    x->O, true, NULL, NULL);
        for (int64_t i = 0; i < n; i++) {
            const VecF w = vec_set(weight[i]);
            __m512i y = _mm512_setzero_si512();
            if (see[i].lo < see[i].hi)
                y = amx_bf16(w * vec_load(x->O + i * AMX_W), w * vec_load(x->O + i * AMX_W + 16));
            _mm512_storeu_si512(out + i * a->out_row + c * AMX_W, y);
        }
    }
}

static void head(const AttentionFwdArgs *a, const Room *x, int64_t b, int64_t h)
{
    const KeySpan hull = amx_hull(&a->mask, b, a->q_pos0, a->Tq, a->Tk);
    const int64_t keys = hull.hi - hull.lo, nb = amx_blocks(keys), kh = a->D / AMX_W;
    const int64_t at = b * a->kv_batch + hull.lo * a->kv_row + h * a->D;
    const uint16_t *k = (const uint16_t *)a->k + at, *v = (const uint16_t *)a->v + at;
    for (int64_t j = 0; j < nb; j++)
        amx_pack_b_rows(x->k + j * kh * AMX_STEP, k + j * AMX_W * a->kv_row, a->kv_row,
                        LT_MIN((int64_t)AMX_W, keys - j * AMX_W), a->D);
    for (int64_t c = 0; c < kh; c++)
        amx_pack_cols(x->v + c * nb * AMX_STEP, v + c * AMX_W, a->kv_row, AMX_W, keys, false);
    const bool on = a->drop.p > 0;
    const VecDrop drop = on ? vec_drop(&a->drop, b, (uint32_t)h) : (VecDrop){0};
    for (int64_t i = 0; i < a->Tq; i += AMX_W)
        strip(a, x, hull, b, h, i, LT_MIN((int64_t)AMX_W, a->Tq - i), on ? &drop : NULL);
}

static bool supports(const AttentionFwdArgs *a, const OpCtx *cx, const char **why)
{
    (void)cx;
    if (!amx_attention_supports(a->dtype, a->D, a->drop.p, &a->mask, why)) return false;
    if (a->Tq >= MIN_QUERIES && a->Tk > 0) return true;
    *why = "too few queries or keys to pay for packing";
    return false;
}

static size_t scratch(const AttentionFwdArgs *a, const OpCtx *cx)
{
    size_t bytes;
    (void)room(a, NULL, &bytes);
    return bytes * (size_t)cx->device->threads + 64;
}

static Status run(const AttentionFwdArgs *a, OpCtx *cx, Err *err)
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

void cpu_attention_fwd_register_amx(Ops *ops)
{
    ops_add_attention_fwd(
        ops,
        (Impl_attention_fwd){.impl = "amx", .supports = supports, .scratch = scratch, .run = run});
}
