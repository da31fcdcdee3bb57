// attention_bwd_vec.c -- attention backward in blocks, any vector width.
// Contract: kernels/ops/attention_bwd.h    Tiles: attention_vec.h    Built once an instruction set
//
// WHAT    Probabilities are computed again from lse. For each block of queries and each block of
//         keys that they see, all transposed as in the forward:
//
//             P^T = e^(S^T - lse)    dP^T = V dO^T    dS^T = P^T (drop(dP^T) - delta)
//             dV += drop(P^T) dO     dK += dS^T Q     dQ += dS K
//
//         Q is packed times scale log2(e): P is one 2^x, and dK gets ln 2 when it is stored. dQ
//         gets `scale` when it is stored.
//
// COST    10 T T D FLOP a head (half when causal). Scratch a thread: keys, values and their
//         gradients of a head in f32, and some blocks.
// ROUND   f32 sums, also of bf16 tensors; gradients are rounded once.
// SHAPES  everything the contract allows. A head is one thread's; the order of every sum is that
//         of the two loops: it depends on the shape alone.
//
// SPDX-License-Identifier: MIT
#include "kernels/cpu/attention_vec.h"

#include <math.h>
#include <omp.h>

typedef struct BwdBuf {
    float *k, *v, *dk, *dv; // [Tp][Dp]
    float *q, *qt;          // [ATT_Q][Dp], [Dp][ATT_Q]; q times scale log2(e)
    float *o, *ot;          // dout, the same
    float *dq;              // [ATT_Q][Dp]
    float *p, *g;           // [ATT_K][ATT_Q]
    float *lse, *delta;     // [ATT_Q]
    int32_t *count;         // [T + 1]
} BwdBuf;

static size_t carve(BwdBuf *f, const AttentionBwdArgs *a, char *base)
{
    const int64_t Dp = LT_ROUND_UP(a->D, VL), Tp = LT_ROUND_UP(a->T, ATT_M);
    AttCarve c = {base, 0};
    f->k = att_take(&c, Tp * Dp);
    f->v = att_take(&c, Tp * Dp);
    f->dk = att_take(&c, Tp * Dp);
    f->dv = att_take(&c, Tp * Dp);
    f->q = att_take(&c, ATT_Q * Dp);
    f->qt = att_take(&c, ATT_Q * Dp);
    f->o = att_take(&c, ATT_Q * Dp);
    f->ot = att_take(&c, ATT_Q * Dp);
    f->dq = att_take(&c, ATT_Q * Dp);
    f->p = att_take(&c, ATT_K * ATT_Q);
    f->g = att_take(&c, ATT_K * ATT_Q);
    f->lse = att_take(&c, ATT_Q);
    f->delta = att_take(&c, ATT_Q);
    f->count = att_take(&c, a->T + 1);
    return c.used;
}

// Scores and dP of four keys become drop(P) and dS. p, g: at the keys' row and lane vector v.
static void gradients(const BwdBuf *f, const AttBlock *blk, int v, int64_t j, float *p, float *g,
                      const VecDrop *drop, uint32_t row)
{
    const VecF lse = vec_load(f->lse + v * VL), delta = vec_load(f->delta + v * VL);
    const bool all = j >= blk->all[v].lo && j + ATT_M <= blk->all[v].hi;
    VecU w[4];
    if (drop) vec_rng_rows(w, drop, row, (uint32_t)(j / 4));
#pragma GCC unroll 4
    for (int i = 0; i < ATT_M; i++) {
        VecF x = vec_exp2(vec_load(p + i * ATT_Q) - lse), dx = vec_load(g + i * ATT_Q), px;
        if (!all) {
            const VecI sees = att_sees(blk, v, j + i);
            x = (VecF)((VecI)x & sees);
            dx = (VecF)((VecI)dx & sees);
        }
        px = drop ? vec_drop_apply(drop, w[i], x) : x;
        dx = drop ? vec_drop_apply(drop, w[i], dx) : dx;
        vec_store(p + i * ATT_Q, px);
        vec_store(g + i * ATT_Q, x * (dx - delta));
    }
}

// One product at a time over all groups of four keys, so that its right side stays in L1.
static void key_block(const BwdBuf *f, const AttBlock *blk, int64_t k0, int64_t k1, int64_t D,
                      const VecDrop *drop, uint32_t row)
{
    const int64_t Dp = LT_ROUND_UP(D, VL), groups = (k1 - k0) / ATT_M;
    const float *k = f->k + k0 * Dp, *v = f->v + k0 * Dp;
    float *dk = f->dk + k0 * Dp, *dv = f->dv + k0 * Dp;
    int64_t q0[ATT_K / ATT_M], n[ATT_K / ATT_M]; // queries that a group needs
    for (int64_t r = 0; r < groups; r++) {
        const AttLanes l = att_lanes(blk, k0 + r * ATT_M);
        q0[r] = l.first * VL;
        n[r] = l.count * VL;
    }
    enum { STEP = ATT_M * ATT_Q };
    for (int64_t r = 0; r < groups; r++)
        att_rows(n[r] / VL, ATT_SET, D, k + r * ATT_M * Dp, Dp, 1, f->qt + q0[r], ATT_Q,
                 f->p + r * STEP + q0[r], ATT_Q, NULL);
    for (int64_t r = 0; r < groups; r++)
        att_rows(n[r] / VL, ATT_SET, D, v + r * ATT_M * Dp, Dp, 1, f->ot + q0[r], ATT_Q,
                 f->g + r * STEP + q0[r], ATT_Q, NULL);
    for (int64_t r = 0; r < groups; r++)
        for (int64_t q = q0[r]; q < q0[r] + n[r]; q += VL)
            gradients(f, blk, (int)(q / VL), k0 + r * ATT_M, f->p + r * STEP + q,
                      f->g + r * STEP + q, drop, row + (uint32_t)q);
    for (int64_t r = 0; r < groups; r++)
        att_rows(n[r] ? Dp / VL : 0, ATT_ADD, n[r], f->p + r * STEP + q0[r], ATT_Q, 1,
                 f->o + q0[r] * Dp, Dp, dv + r * ATT_M * Dp, Dp, NULL);
    for (int64_t r = 0; r < groups; r++)
        att_rows(n[r] ? Dp / VL : 0, ATT_ADD, n[r], f->g + r * STEP + q0[r], ATT_Q, 1,
                 f->q + q0[r] * Dp, Dp, dk + r * ATT_M * Dp, Dp, NULL);
    for (int r = 0; r < ATT_Q / ATT_M; r++) {
        const int64_t j0 = LT_MAX(k0, blk->row[r].lo), j1 = LT_MIN(k1, blk->row[r].hi);
        if (j0 >= j1) continue;
        att_rows(Dp / VL, ATT_ADD, j1 - j0, f->g + (j0 - k0) * ATT_Q + r * ATT_M, 1, ATT_Q,
                 f->k + j0 * Dp, Dp, f->dq + r * ATT_M * Dp, Dp, NULL);
    }
}

static void query_block(const AttentionBwdArgs *a, const BwdBuf *f, int64_t b, int64_t h,
                        int64_t q0, const VecDrop *drop)
{
    const int64_t D = a->D, Dp = LT_ROUND_UP(D, VL), n = LT_MIN(a->T - q0, ATT_Q);
    const int64_t at = b * a->out_batch + q0 * a->out_row + h * D;
    const int64_t qs = b * a->qkv_batch + q0 * a->qkv_row + h * D;
    AttBlock blk;
    att_block(&blk, &a->mask, b, q0, 0, a->T, a->T);
    att_pack(f->q, ATT_Q, a->q, a->dtype, qs, a->qkv_row, n, D, a->scale * VM_LOG2E);
    att_pack(f->o, ATT_Q, a->dout, a->dtype, at, a->out_row, n, D, 1);
    att_turn(f->qt, f->q, Dp);
    att_turn(f->ot, f->o, Dp);
    memset(f->dq, 0, (size_t)(ATT_Q * Dp) * sizeof *f->dq);
    for (int64_t i = 0; i < ATT_Q; i++) {
        VecF s = vec_set(0);
        for (int64_t d = 0; d < D && i < n; d += VL)
            s += vec_load(f->o + i * Dp + d) *
                 vec_load_as_n(a->out, a->dtype, at + i * a->out_row + d, D - d, 0);
        f->delta[i] = vec_sum(s);
        f->lse[i] = i < n ? a->lse[(b * a->H + h) * a->T + q0 + i] * VM_LOG2E : 0;
    }
    for (int64_t k0 = blk.whole.lo / ATT_K * ATT_K; k0 < blk.whole.hi; k0 += ATT_K)
        key_block(f, &blk, k0, LT_MIN(k0 + ATT_K, LT_ROUND_UP(a->T, ATT_M)), D, drop, (uint32_t)q0);
    for (int64_t i = 0; i < n; i++)
        att_unpack(a->dq, a->dtype, qs + i * a->qkv_row, f->dq + i * Dp, D, vec_set(a->scale));
}

static void head(const AttentionBwdArgs *a, const BwdBuf *f, int64_t b, int64_t h)
{
    const int64_t D = a->D, Dp = LT_ROUND_UP(D, VL), Tp = LT_ROUND_UP(a->T, ATT_M);
    const int64_t at = b * a->qkv_batch + h * D;
    att_pack(f->k, Tp, a->k, a->dtype, at, a->qkv_row, a->T, D, 1);
    att_pack(f->v, Tp, a->v, a->dtype, at, a->qkv_row, a->T, D, 1);
    att_hide(f->k, f->v, f->count, &a->mask, b, 0, a->T, a->T, Dp);
    memset(f->dk, 0, (size_t)(Tp * Dp) * sizeof *f->dk);
    memset(f->dv, 0, (size_t)(Tp * Dp) * sizeof *f->dv);
    const bool on = a->drop.p > 0;
    const VecDrop drop = on ? vec_drop(&a->drop, b, (uint32_t)h) : (VecDrop){0};
    for (int64_t q0 = 0; q0 < a->T; q0 += ATT_Q) query_block(a, f, b, h, q0, on ? &drop : NULL);
    for (int64_t j = 0; j < a->T; j++) {
        att_unpack(a->dk, a->dtype, at + j * a->qkv_row, f->dk + j * Dp, D, vec_set(VM_LN2));
        att_unpack(a->dv, a->dtype, at + j * a->qkv_row, f->dv + j * Dp, D, vec_set(1));
    }
}

size_t ISA_NAME(vec_attention_bwd_scratch)(const AttentionBwdArgs *a, const OpCtx *cx)
{
    BwdBuf f;
    return carve(&f, a, NULL) * (size_t)cx->device->threads;
}

Status ISA_NAME(vec_attention_bwd)(const AttentionBwdArgs *a, OpCtx *cx, Err *err)
{
    (void)err;
#pragma omp parallel num_threads(cx->device->threads)
    {
        BwdBuf f;
        const size_t bytes = carve(&f, a, NULL);
        carve(&f, a, (char *)cx->scratch + bytes * (size_t)omp_get_thread_num());
#pragma omp for schedule(dynamic)
        for (int64_t t = 0; t < a->B * a->H; t++) head(a, &f, t / a->H, t % a->H);
    }
    return ERR_NONE;
}
