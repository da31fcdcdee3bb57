// bert.c -- the encoder: what is computed, in the order it is computed.
//
// Forward (post-norm). Norm 0 is the embeddings' own; norm l is the second one of block l:
//
//     x   = token + position + type             layer 0
//     x   = ln2_prev + drop(mlp_prev)           later: fused into the norm that reads it
//     ln1 = norm l(x)                           layer 0: then drop(ln1)
//     qkv = ln1 Wqkv^T + b
//     att = attention(qkv)                      of a row to its sequence, both ways
//     tmp = att Wproj^T + b
//     y   = ln1 + drop(tmp)                     fused into the next norm
//     ln2 = norm(y)                             the first one of block l + 1
//     fch = ln2 Wfc^T + b,  fcg = gelu(fch)
//     tmp = fcg Wmlp^T + b                      added by the next layer's norm
//
// So a layer begins with the norm that Devlin et al. 2018 draw as the end of the layer below it. x
// is then all that a layer must keep for its forward pass to be repeated, as in gpt.c, and the same
// buffers have the same meaning in both; here they are of the activation type, for every row that
// goes on has been through a norm. What residual adds carry on is the norm's output, ln1 and ln2.
//
// Backward is the same list from the bottom up. dresid and dlnf take turns: one is the gradient of
// a norm's output, which the matrix product above it adds to, the other that of its input.
//
// Linear layers: linear.h; arguments of the other ops: parts.h; what is learned: bert_heads.c.
//
// SPDX-License-Identifier: MIT
#include "engine/model/bert.h"
#include "engine/base/assert.h"
#include "engine/model/bert_heads.h"
#include "engine/model/parts.h"

// The norm in front of layer l; l == n_layer: the last one.
static Norm in_norm_of(const Model *m, int64_t l)
{
    const ParamSet *p = m->params;
    const bool last = l == m->c.n_layer;
    return (Norm){.w = l == 0 ? p->embed_norm_w : p->layer.norm2_w,
                  .b = l == 0 ? p->embed_norm_b : p->layer.norm2_b,
                  .x = last ? m->xf : m->layer[l].x,
                  .mean = last ? m->meanf : m->layer[l].mean1,
                  .rstd = last ? m->rstdf : m->layer[l].rstd1};
}

// The norm inside of layer l.
static Norm mid_norm_of(const Model *m, int64_t l)
{
    const LayerOffsets *o = &m->params->layer;
    const LayerActs *a = &m->layer[l];
    return (Norm){.w = o->norm1_w, .b = o->norm1_b, .x = a->y, .mean = a->mean2, .rstd = a->rstd2};
}

// What the linear layers of layer l share.
static Linear how_of(const Model *m, const ModelBatch *b, int64_t l, bool train, bool again)
{
    return (Linear){.m = m,
                    .rows = b->B * b->T,
                    .layer = l,
                    .fp8 = train && fp8_runs(m->fp8, l),
                    .again = again};
}

// What the norm in front of layer l must know of the layer's qkv. On layer 0 dropout is between the
// two.
static Linear qkv_input(const Linear *how)
{
    Linear l = *how;
    l.id = LINEAR_QKV;
    l.in = l.m->c.n_embd;
    l.alone = l.layer == 0 && l.m->c.dropout_embed > 0;
    return l;
}

static Linear qkv_of(const Linear *how, const Block *w)
{
    Linear l = part_linear(how, w, LINEAR_QKV);
    l.alone = qkv_input(how).alone;
    return l;
}

// ---- forward ----------------------------------------------------------------------------------

// The norm in front of layer l, or the last one: out = norm(x). `add`: x is still to be made, of
// the layer below's ln2 and MLP output; otherwise it is there.
static Status in_norm(Model *m, OpCtx *cx, const ModelBatch *b, int64_t l, void *out, bool add,
                      bool train, bool again, Err *err)
{
    const Norm norm = in_norm_of(m, l);
    const Block w = part_take(m, (int)l);
    const Linear how = how_of(m, b, l, train, again), qkv = qkv_input(&how);
    LayernormFwdArgs n =
        part_norm(m, &w, &norm, l < m->c.n_layer ? &qkv : NULL, out, how.rows, b->T);
    n.out = out; // in FP8, too: the residual add reads it
    if (add) {
        n.x = m->layer[l - 1].ln2;
        n.resid_out = norm.x;
        n.add = m->tmp;
        n.drop = part_drop_mlp(m, b, l - 1, train);
    }
    TRY(op_layernorm_fwd(cx, &n, err));
    weights_give(&m->weights, (int)l);
    if (l > 0 || !train) return ERR_NONE;
    return part_embed_dropout(m, cx, b, out, m->prec.act, err);
}

// One layer. Leaves its MLP output in m->tmp, unless it is computed `again` for the backward pass,
// which has x and no use for it.
static Status layer_forward(Model *m, OpCtx *cx, const ModelBatch *b, int64_t l, bool train,
                            bool again, Err *err)
{
    const LayerActs *a = &m->layer[l];
    TRY(in_norm(m, cx, b, l, a->ln1, l > 0 && !again, train, again, err));
    const Block w = part_take(m, (int)l + 1);
    const Linear how = how_of(m, b, l, train, again);
    const Linear qkv = qkv_of(&how, &w), proj = part_linear(&how, &w, LINEAR_PROJ);
    const Linear fc = part_linear(&how, &w, LINEAR_FC), mlp = part_linear(&how, &w, LINEAR_MLP);
    TRY(linear_forward(&qkv, cx, a->qkv, a->ln1, err));
    TRY(part_attention(m, cx, b, l, train, err));
    TRY(linear_forward(&proj, cx, m->tmp, a->att, err));

    const Norm mid = mid_norm_of(m, l);
    LayernormFwdArgs n = part_norm(m, &w, &mid, &fc, a->ln2, how.rows, b->T);
    n.out = a->ln2;
    n.x = a->ln1;
    n.resid_out = a->y;
    n.add = m->tmp;
    n.drop = part_drop_proj(m, b, l, train);
    TRY(op_layernorm_fwd(cx, &n, err));
    TRY(linear_forward_act(&fc, cx, a->fcg, a->fch, a->ln2, &mlp, err));
    TRY(linear_forward(&mlp, cx, again ? NULL : m->tmp, a->fcg, err));
    weights_give(&m->weights, (int)l + 1);
    return ERR_NONE;
}

// Everything up to the last norm's output m->lnf.
static Status trunk(Model *m, OpCtx *cx, const ModelBatch *b, bool train, Err *err)
{
    const int64_t L = m->c.n_layer;
    TRY(part_embed(m, cx, b, m->layer[0].x, err));
    for (int64_t l = 0; l < L; l++) TRY(layer_forward(m, cx, b, l, train, false, err));
    return in_norm(m, cx, b, L, m->lnf, true, train, false, err);
}

Status bert_loss(Model *m, OpCtx *cx, const ModelBatch *b, Err *err)
{
    TRY(trunk(m, cx, b, false, err));
    return bert_heads_loss(m, cx, b, err);
}

Status bert_embed(Model *m, OpCtx *cx, const ModelBatch *b, const void **rows, const void **pooled,
                  Err *err)
{
    TRY(trunk(m, cx, b, false, err));
    if (m->c.pooler) TRY(bert_pool(m, cx, b, err));
    *rows = m->lnf;
    *pooled = m->c.pooler ? m->heads.pooled : NULL;
    return ERR_NONE;
}

Status bert_scores(Model *m, OpCtx *cx, const ModelBatch *b, const void **rows, const void **seqs,
                   Err *err)
{
    TRY(trunk(m, cx, b, false, err));
    return bert_heads_scores(m, cx, b, rows, seqs, err);
}

// ---- backward ---------------------------------------------------------------------------------

// Gradient of the norm in front of layer l. In: m->dlnf, of its output. Out: m->dresid, of x, and
// m->dtmp, of the MLP output of the layer below.
static Status in_norm_backward(Model *m, OpCtx *cx, const ModelBatch *b, int64_t l, bool first,
                               Err *err)
{
    const Block w = part_take(m, (int)l);
    const Norm norm = in_norm_of(m, l);
    if (l == 0) TRY(part_embed_dropout(m, cx, b, m->dlnf, m->prec.act, err));
    LayernormBwdArgs n =
        part_norm_backward(m, &w, &norm, m->dresid, m->dlnf, b->B * b->T, b->T, first);
    if (l > 0) {
        n.dadd = m->dtmp;
        n.drop = part_drop_mlp(m, b, l - 1, true);
    }
    TRY(op_layernorm_bwd(cx, &n, err));
    weights_give(&m->weights, (int)l);
    return ERR_NONE;
}

// In: m->dresid = gradient of ln2, but for what comes through the MLP; m->dtmp = that of the MLP's
// output. Out: the same for the layer below.
static Status layer_backward(Model *m, OpCtx *cx, const ModelBatch *b, int64_t l, bool first,
                             Err *err)
{
    const LayerActs *a = &m->layer[l];
    const Block w = part_take(m, (int)l + 1);
    Linear how = how_of(m, b, l, true, false);
    how.accumulate = !first;
    const Linear proj = part_linear(&how, &w, LINEAR_PROJ);
    const Linear mlp = part_linear(&how, &w, LINEAR_MLP);
    how.add_dx = true;
    const Linear qkv = qkv_of(&how, &w), fc = part_linear(&how, &w, LINEAR_FC);
    const Norm mid = mid_norm_of(m, l);

    // MLP: dtmp [N,C] -> dwide = dfch [N,F], added to dresid = dln2 [N,C]
    TRY(linear_backward_act(&mlp, cx, m->dwide, m->dtmp, a->fcg, a->fch, &fc, err));
    TRY(linear_backward(&fc, cx, m->dresid, m->dwide, a->ln2, err));
    LayernormBwdArgs n = part_norm_backward(m, &w, &mid, m->dlnf, m->dresid, how.rows, b->T, first);
    n.dadd = m->dtmp;
    n.drop = part_drop_proj(m, b, l, true);
    TRY(op_layernorm_bwd(cx, &n, err));

    // Attention: dtmp [N,C] -> dresid = datt [N,C] -> dwide = dqkv [N,3C], added to dlnf = dln1
    TRY(linear_backward(&proj, cx, m->dresid, m->dtmp, a->att, err));
    TRY(part_attention_backward(m, cx, b, l, m->dwide, m->dresid, err));
    TRY(linear_backward(&qkv, cx, m->dlnf, m->dwide, a->ln1, err));
    weights_give(&m->weights, (int)l + 1);
    return in_norm_backward(m, cx, b, l, first, err);
}

Status bert_gradients(Model *m, OpCtx *cx, const ModelBatch *b, ModelLossScale scale, bool first,
                      Err *err)
{
    const int64_t L = m->c.n_layer;
    ASSERT(m->c.head != HEAD_NONE, "a trunk alone learns nothing");
    TRY(trunk(m, cx, b, true, err));
    TRY(bert_heads_gradients(m, cx, b, scale, first, err));
    TRY(in_norm_backward(m, cx, b, L, first, err));
    for (int64_t l = L - 1; l >= 0; l--) {
        if (m->o.recompute) TRY(layer_forward(m, cx, b, l, true, true, err));
        TRY(layer_backward(m, cx, b, l, first, err));
    }
    return part_embed_backward(m, cx, b, m->dresid, first, err);
}
