// attention_fwd_vec.c -- attention forward in blocks with a running maximum, any vector width.
// Contract: kernels/ops/attention_fwd.h    Tiles: attention_vec.h    Built once an instruction set
//
// WHAT    For each block of queries, over the blocks of keys that some of them see:
//
//                 keys ->      k0      k1      k2
//             queries       [ S=qk ][ S=qk ][  --  ]      masked blocks are skipped
//                              |       |
//                 new maximum m of each query, p = e^(S - m)
//                 out = e^(m_old - m) out + p V,  sum likewise;  at the end out / sum
//
//         Scores are in units of log 2: queries are packed times scale log2(e), e^x is one 2^x.
//         Few queries (generation) take another way: plain dot products over the cache as it is,
//         since packing it would cost more than reading it once.
//
// COST    4 Tq Tk D FLOP a head (half when causal). Scratch a thread: the head's keys and values in
//         f32 and some blocks, no T x T matrix.
// ROUND   f32 sums, also of bf16 tensors; the output is rounded once.
// SHAPES  everything the contract allows; a head (a query, when they are few) is one thread's.
//
// SPDX-License-Identifier: MIT
#include "kernels/cpu/attention_vec.h"

#include <float.h>
#include <math.h>
#include <omp.h>

enum { FEW = 8 }; // queries below which nothing is packed

typedef struct FwdBuf {
    float *k, *v;     // [Tkp][Dp]
    float *q, *qt;    // [ATT_Q][Dp], [Dp][ATT_Q]
    float *s;         // [ATT_K][ATT_Q] scores, then probabilities
    float *out;       // [ATT_Q][Dp]
    float *keep;      // [ATT_Q]
    float *top, *sum; // [ATT_Q]
    int32_t *count;   // [Tk + 1]
} FwdBuf;

static size_t carve(FwdBuf *f, const AttentionFwdArgs *a, char *base)
{
    const int64_t Dp = LT_ROUND_UP(a->D, VL), Tkp = LT_ROUND_UP(a->Tk, ATT_M);
    AttCarve c = {base, 0};
    if (a->Tq < FEW) {
        f->s = att_take(&c, a->Tk);
        f->q = att_take(&c, Dp);
        return c.used;
    }
    f->k = att_take(&c, Tkp * Dp);
    f->v = att_take(&c, Tkp * Dp);
    f->q = att_take(&c, ATT_Q * Dp);
    f->qt = att_take(&c, ATT_Q * Dp);
    f->s = att_take(&c, ATT_K * ATT_Q);
    f->out = att_take(&c, ATT_Q * Dp);
    f->keep = att_take(&c, ATT_Q);
    f->top = att_take(&c, ATT_Q);
    f->sum = att_take(&c, ATT_Q);
    f->count = att_take(&c, a->Tk + 1);
    return c.used;
}

// S^T of keys k0 .. k1-1, where a query may see them.
static void scores(const FwdBuf *f, const AttBlock *blk, int64_t k0, int64_t k1, int64_t D)
{
    const int64_t Dp = LT_ROUND_UP(D, VL);
    for (int64_t j = k0; j < k1; j += ATT_M) {
        const AttLanes l = att_lanes(blk, j);
        att_rows(l.count, ATT_SET, D, f->k + j * Dp, Dp, 1, f->qt + l.first * VL, ATT_Q,
                 f->s + (j - k0) * ATT_Q + l.first * VL, ATT_Q, NULL);
    }
}

// Lane vector v of block k0 .. k1-1: scores become probabilities against the new maximum.
static void softmax(const FwdBuf *f, const AttBlock *blk, int v, int64_t k0, int64_t k1,
                    const VecDrop *drop, uint32_t row)
{
    const AttRange any = blk->any[v], all = blk->all[v];
    const int64_t j0 = LT_MAX(k0, any.lo / ATT_M * ATT_M);
    const int64_t j1 = LT_MIN(k1, LT_ROUND_UP(any.hi, ATT_M));
    float *s = f->s + (j0 - k0) * ATT_Q + v * VL;
    const VecF old = vec_load(f->top + v * VL);
    VecF top = old, sum = vec_set(0);
    for (int64_t j = j0; j < j1; j++) {
        float *at = s + (j - j0) * ATT_Q;
        VecF x = vec_load(at);
        if (j < all.lo || j >= all.hi) {
            x = vec_select(att_sees(blk, v, j), x, vec_set(-INFINITY));
            vec_store(at, x);
        }
        top = vec_max(top, x);
    }
    for (int64_t j = j0; j < j1; j += ATT_M, s += ATT_M * ATT_Q) {
        VecU w[4];
        if (drop) vec_rng_rows(w, drop, row, (uint32_t)(j / 4));
#pragma GCC unroll 4
        for (int i = 0; i < ATT_M; i++) {
            const VecF p = vec_exp2(vec_load(s + i * ATT_Q) - top);
            sum += p;
            vec_store(s + i * ATT_Q, drop ? vec_drop_apply(drop, w[i], p) : p);
        }
    }
    const VecF keep = vec_exp2(old - top);
    vec_store(f->keep + v * VL, keep);
    vec_store(f->top + v * VL, top);
    vec_store(f->sum + v * VL, vec_load(f->sum + v * VL) * keep + sum);
}

// out = keep out + P V
static void values(const FwdBuf *f, const AttBlock *blk, int64_t k0, int64_t k1, int64_t D)
{
    const int64_t Dp = LT_ROUND_UP(D, VL);
    for (int g = 0; g < ATT_Q / ATT_M; g++) {
        const int64_t j0 = LT_MAX(k0, blk->row[g].lo), j1 = LT_MIN(k1, blk->row[g].hi);
        if (j0 >= j1) continue;
        att_rows(Dp / VL, ATT_KEEP, j1 - j0, f->s + (j0 - k0) * ATT_Q + g * ATT_M, 1, ATT_Q,
                 f->v + j0 * Dp, Dp, f->out + g * ATT_M * Dp, Dp, f->keep + g * ATT_M);
    }
}

static void query_block(const AttentionFwdArgs *a, const FwdBuf *f, int64_t b, int64_t h,
                        int64_t q0, const VecDrop *drop)
{
    const int64_t Dp = LT_ROUND_UP(a->D, VL), n = LT_MIN(a->Tq - q0, ATT_Q);
    const int64_t at = b * a->q_batch + q0 * a->q_row + h * a->D;
    AttBlock blk;
    att_block(&blk, &a->mask, b, q0, a->q_pos0, a->Tq, a->Tk);
    att_pack(f->q, ATT_Q, a->q, a->dtype, at, a->q_row, n, a->D, a->scale * VM_LOG2E);
    att_turn(f->qt, f->q, Dp);
    memset(f->out, 0, (size_t)(ATT_Q * Dp) * sizeof *f->out);
    for (int l = 0; l < ATT_Q; l++) {
        f->top[l] = -FLT_MAX; // no key yet; -infinity minus itself would be NaN
        f->sum[l] = 0;
    }
    for (int64_t k0 = blk.whole.lo / ATT_K * ATT_K; k0 < blk.whole.hi; k0 += ATT_K) {
        const int64_t k1 = LT_MIN(k0 + ATT_K, LT_ROUND_UP(a->Tk, ATT_M));
        scores(f, &blk, k0, k1, a->D);
        for (int v = 0; v < ATT_V; v++)
            if (blk.any[v].lo < k1 && blk.any[v].hi > k0)
                softmax(f, &blk, v, k0, k1, drop, (uint32_t)(a->q_pos0 + q0 + v * VL));
        values(f, &blk, k0, k1, a->D);
    }
    for (int64_t i = 0; i < n; i++) {
        const float sum = f->sum[i], top = f->top[i];
        const bool seen = blk.hi[i] > 0;
        att_unpack(a->out, a->dtype, b * a->out_batch + (q0 + i) * a->out_row + h * a->D,
                   f->out + i * Dp, a->D, vec_set(seen ? 1.0f / sum : 0));
        if (a->lse)
            a->lse[(b * a->H + h) * a->Tq + q0 + i] = seen ? top * VM_LN2 + logf(sum) : -INFINITY;
    }
}

static void head(const AttentionFwdArgs *a, const FwdBuf *f, int64_t b, int64_t h)
{
    const int64_t Dp = LT_ROUND_UP(a->D, VL), Tkp = LT_ROUND_UP(a->Tk, ATT_M);
    const int64_t at = b * a->kv_batch + h * a->D;
    att_pack(f->k, Tkp, a->k, a->dtype, at, a->kv_row, a->Tk, a->D, 1);
    att_pack(f->v, Tkp, a->v, a->dtype, at, a->kv_row, a->Tk, a->D, 1);
    att_hide(f->k, f->v, f->count, &a->mask, b, a->q_pos0, a->Tq, a->Tk, Dp);
    const bool on = a->drop.p > 0;
    const VecDrop drop = on ? vec_drop(&a->drop, b, (uint32_t)h) : (VecDrop){0};
    for (int64_t q0 = 0; q0 < a->Tq; q0 += ATT_Q) query_block(a, f, b, h, q0, on ? &drop : NULL);
}

// ---- few queries --------------------------------------------------------------------------------

// p of keys lo .. hi-1 of one query in f->s; returns 1 / sum, and the logarithm of the sum in *lse.
static float one_softmax(const FwdBuf *f, int64_t lo, int64_t hi, float *lse)
{
    float top = -FLT_MAX;
    for (int64_t j = lo; j < hi; j++) top = f->s[j] > top ? f->s[j] : top;
    VecF sum = vec_set(0);
    for (int64_t j = lo; j < hi; j += VL) {
        const VecF p = vec_exp2(vec_load_as_n(f->s, DTYPE_F32, j, hi - j, -INFINITY) - top);
        vec_store_as_n(f->s, DTYPE_F32, j, hi - j, p);
        sum += p;
    }
    const float total = vec_sum(sum);
    *lse = top * VM_LN2 + logf(total);
    return 1.0f / total;
}

static void one_query(const AttentionFwdArgs *a, const FwdBuf *f, int64_t b, int64_t h, int64_t i)
{
    const int64_t D = a->D, at = b * a->kv_batch + h * D, pos = a->q_pos0 + i;
    const AttRange r = att_range(&a->mask, b, i, pos, a->Tq, a->Tk);
    const int64_t lo = r.hi ? r.lo : 0, hi = r.hi;
    float lse = -INFINITY, inv = 0;
    att_pack(f->q, 1, a->q, a->dtype, b * a->q_batch + i * a->q_row + h * D, 0, 1, D,
             a->scale * VM_LOG2E);
    for (int64_t j = lo; j < hi; j++) {
        const int64_t k = at + j * a->kv_row;
        VecF s = vec_set(0);
        for (int64_t d = 0; d < D; d += VL)
            s += vec_load(f->q + d) * vec_load_as_n(a->k, a->dtype, k + d, D - d, 0);
        f->s[j] = vec_sum(s);
    }
    if (hi > 0) inv = one_softmax(f, lo, hi, &lse);
    if (a->lse) a->lse[(b * a->H + h) * a->Tq + i] = lse;
    if (a->drop.p > 0 && hi > 0) {
        const VecDrop d = vec_drop(&a->drop, b, (uint32_t)h);
        uint32_t w[4 * VL];
        for (int64_t j = lo / (4 * VL) * (4 * VL); j < hi; j++) {
            if (j % (4 * VL) == 0) vec_rng_columns(w, &d, (uint32_t)pos, (uint32_t)(j / 4));
            if (j >= lo) f->s[j] = w[j % (4 * VL)] >= d.threshold ? f->s[j] * d.scale : 0;
        }
    }
    for (int64_t d0 = 0; d0 < D; d0 += 4 * VL) { // four vectors of the output in registers
        VecF o[4] = {vec_set(0), vec_set(0), vec_set(0), vec_set(0)};
        const int64_t left = D - d0;
        for (int64_t j = lo; j < hi; j++) {
            const int64_t v = at + j * a->kv_row + d0;
            for (int k = 0; k < 4 && k * VL < left; k++)
                o[k] += f->s[j] * vec_load_as_n(a->v, a->dtype, v + k * VL, left - k * VL, 0);
        }
        const int64_t out = b * a->out_batch + i * a->out_row + h * D + d0;
        for (int k = 0; k < 4 && k * VL < left; k++)
            vec_store_as_n(a->out, a->dtype, out + k * VL, left - k * VL, o[k] * inv);
    }
}

// ---- entry --------------------------------------------------------------------------------------

size_t ISA_NAME(vec_attention_fwd_scratch)(const AttentionFwdArgs *a, const OpCtx *cx)
{
    FwdBuf f;
    return carve(&f, a, NULL) * (size_t)cx->device->threads;
}

Status ISA_NAME(vec_attention_fwd)(const AttentionFwdArgs *a, OpCtx *cx, Err *err)
{
    (void)err;
    const int64_t each = a->Tq < FEW ? a->Tq : 1, tasks = a->B * a->H * each;
#pragma omp parallel num_threads(cx->device->threads)
    {
        FwdBuf f;
        const size_t bytes = carve(&f, a, NULL);
        carve(&f, a, (char *)cx->scratch + bytes * (size_t)omp_get_thread_num());
#pragma omp for schedule(dynamic)
        for (int64_t t = 0; t < tasks; t++) {
            const int64_t bh = t / each;
            if (a->Tq < FEW)
                one_query(a, &f, bh / a->H, bh % a->H, t % each);
            else
                head(a, &f, bh / a->H, bh % a->H);
        }
    }
    return ERR_NONE;
}
