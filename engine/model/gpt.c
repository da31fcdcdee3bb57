// gpt.c -- the decoder: what is computed, in the order it is computed.
//
// Forward, one layer (pre-norm):
//
//     x   = y_prev + drop(mlp_prev)        fused into the norm that reads it
//     ln1 = norm(x)
//     qkv = ln1 Wqkv^T + b
//     att = attention(qkv)
//     tmp = att Wproj^T + b
//     y   = x + drop(tmp)                  fused into the next norm
//     ln2 = norm(y)
//     fch = ln2 Wfc^T + b,  fcg = gelu(fch)
//     tmp = fcg Wmlp^T + b                 added by the next layer's first norm
//
// Backward is the same list from the bottom up; `dresid` is the gradient of the residual stream and
// `dtmp` that of a branch's output (with its dropout undone). Linear layers: linear.h; arguments of
// the other ops: parts.h.
//
// SPDX-License-Identifier: MIT
#include "engine/model/gpt.h"
#include "engine/base/assert.h"
#include "engine/model/parts.h"

static Norm norm1_of(const Model *m, int64_t l)
{
    const LayerOffsets *o = &m->params->layer;
    const LayerActs *a = &m->layer[l];
    return (Norm){.w = o->norm1_w, .b = o->norm1_b, .x = a->x, .mean = a->mean1, .rstd = a->rstd1};
}

static Norm norm2_of(const Model *m, int64_t l)
{
    const LayerOffsets *o = &m->params->layer;
    const LayerActs *a = &m->layer[l];
    return (Norm){.w = o->norm2_w, .b = o->norm2_b, .x = a->y, .mean = a->mean2, .rstd = a->rstd2};
}

static Norm final_norm_of(const Model *m)
{
    const ParamSet *p = m->params;
    return (Norm){.w = p->final_w, .b = p->final_b, .x = m->xf, .mean = m->meanf, .rstd = m->rstdf};
}

// ---- forward ----------------------------------------------------------------------------------

// One layer. `add` is the previous layer's MLP output, still to be added to x_in (NULL: x_in is the
// stream itself, in m->layer[l].x). Leaves this layer's MLP output in m->tmp, unless it is computed
// `again` for the backward pass, which has no use for it.
static Status layer_forward(Model *m, OpCtx *cx, const ModelBatch *b, int64_t l, const void *x_in,
                            const void *add, bool train, bool again, Err *err)
{
    const LayerActs *a = &m->layer[l];
    const Block w = part_take(m, (int)l + 1);
    const int64_t N = b->B * b->T;
    const Linear how = {
        .m = m, .rows = N, .layer = l, .fp8 = train && fp8_runs(m->fp8, l), .again = again};
    const Linear qkv = part_linear(&how, &w, LINEAR_QKV), proj = part_linear(&how, &w, LINEAR_PROJ);
    const Linear fc = part_linear(&how, &w, LINEAR_FC), mlp = part_linear(&how, &w, LINEAR_MLP);
    const Norm norm1 = norm1_of(m, l), norm2 = norm2_of(m, l);

    LayernormFwdArgs n1 = part_norm(m, &w, &norm1, &qkv, a->ln1, N, b->T);
    if (add) {
        n1.x = x_in;
        n1.resid_out = a->x;
        n1.add = add;
        n1.drop = part_drop_mlp(m, b, l - 1, train);
    }
    TRY(op_layernorm_fwd(cx, &n1, err));
    TRY(linear_forward(&qkv, cx, a->qkv, a->ln1, err));
    TRY(part_attention(m, cx, b, l, train, err));
    TRY(linear_forward(&proj, cx, m->tmp, a->att, err));

    LayernormFwdArgs n2 = part_norm(m, &w, &norm2, &fc, a->ln2, N, b->T);
    n2.x = a->x;
    n2.resid_out = a->y;
    n2.add = m->tmp;
    n2.drop = part_drop_proj(m, b, l, train);
    TRY(op_layernorm_fwd(cx, &n2, err));
    TRY(linear_forward_act(&fc, cx, a->fcg, a->fch, a->ln2, &mlp, err));
    TRY(linear_forward(&mlp, cx, again ? NULL : m->tmp, a->fcg, err));
    weights_give(&m->weights, (int)l + 1);
    return ERR_NONE;
}

// Everything up to the final norm's output m->lnf.
static Status trunk(Model *m, OpCtx *cx, const ModelBatch *b, bool train, Err *err)
{
    const int64_t L = m->c.n_layer;
    TRY(part_embed(m, cx, b, m->layer[0].x, err));
    if (train) TRY(part_embed_dropout(m, cx, b, m->layer[0].x, m->prec.resid, err));
    const void *x = m->layer[0].x, *add = NULL;
    for (int64_t l = 0; l < L; l++) {
        TRY(layer_forward(m, cx, b, l, x, add, train, false, err));
        x = m->layer[l].y;
        add = m->tmp;
    }
    const int last = m->params->n_block - 1;
    const Block w = part_take(m, last);
    const Norm norm = final_norm_of(m);
    LayernormFwdArgs nf = part_norm(m, &w, &norm, NULL, m->lnf, b->B * b->T, b->T);
    nf.x = x;
    nf.resid_out = m->xf;
    nf.add = add;
    nf.drop = part_drop_mlp(m, b, L - 1, train);
    TRY(op_layernorm_fwd(cx, &nf, err));
    weights_give(&m->weights, last);
    return ERR_NONE;
}

// The head: logits of rows [row, row + n) into m->logits.
static Status head_logits(Model *m, OpCtx *cx, int64_t row, int64_t n, Err *err)
{
    const Block w = part_take(m, part_head_block(m));
    const Linear head = part_head(m, &w, n, true);
    const void *x = (const char *)m->lnf + (size_t)(row * head.in) * dtype_bytes(m->prec.act);
    TRY(linear_forward(&head, cx, m->logits, x, err));
    weights_give(&m->weights, part_head_block(m));
    return ERR_NONE;
}

static Status head_loss(Model *m, OpCtx *cx, const ModelBatch *b, int64_t row, int64_t n,
                        float grad_scale, bool want_grad, Err *err)
{
    TRY(head_logits(m, cx, row, n, err));
    return op_cross_entropy(cx,
                            &(CrossEntropyArgs){.loss = m->loss + row,
                                                .logits = m->logits,
                                                .target = b->target + row,
                                                .N = n,
                                                .V = m->c.vocab_size,
                                                .Vp = model_config_vocab_padded(&m->c),
                                                .scale = want_grad ? m->loss_scale : NULL,
                                                .grad_scale = grad_scale,
                                                .want_grad = want_grad,
                                                .dtype = m->prec.act},
                            err);
}

Status gpt_loss(Model *m, OpCtx *cx, const ModelBatch *b, Err *err)
{
    TRY(trunk(m, cx, b, false, err));
    const int64_t N = b->B * b->T;
    for (int64_t row = 0; row < N; row += m->o.head_rows)
        TRY(head_loss(m, cx, b, row, LT_MIN(m->o.head_rows, N - row), 0, false, err));
    return ERR_NONE;
}

Status gpt_logits(Model *m, OpCtx *cx, const ModelBatch *b, const void **logits, Err *err)
{
    const int64_t N = b->B * b->T;
    ASSERT(N <= m->o.head_rows, "%lld rows of logits, room for %lld", (long long)N,
           (long long)m->o.head_rows);
    TRY(trunk(m, cx, b, false, err));
    TRY(head_logits(m, cx, 0, N, err));
    *logits = m->logits;
    return ERR_NONE;
}

// ---- backward ---------------------------------------------------------------------------------

// Loss, gradient of the final norm's output (m->dlnf) and of the output weights, chunk by chunk.
static Status head_backward(Model *m, OpCtx *cx, const ModelBatch *b, float scale, bool first,
                            Err *err)
{
    const int64_t N = b->B * b->T;
    const size_t row_bytes = (size_t)m->c.n_embd * dtype_bytes(m->prec.act);
    for (int64_t row = 0; row < N; row += m->o.head_rows) {
        const int64_t n = LT_MIN(m->o.head_rows, N - row);
        TRY(head_loss(m, cx, b, row, n, scale, true, err));
        const Block w = part_take(m, part_head_block(m));
        const Linear head = part_head(m, &w, n, first && row == 0);
        const size_t at = (size_t)row * row_bytes;
        TRY(linear_backward(&head, cx, (char *)m->dlnf + at, m->logits, (const char *)m->lnf + at,
                            err));
        weights_give(&m->weights, part_head_block(m));
    }
    return ERR_NONE;
}

// Gradient of a norm from m->dlnf. Adds to m->dresid; m->dtmp becomes the gradient of what the
// forward pass added in front of the norm, with dropout `drop`.
static LayernormBwdArgs norm_backward(Model *m, const Block *w, const Norm *n, DropoutSpec drop,
                                      const ModelBatch *b, bool first)
{
    LayernormBwdArgs a = part_norm_backward(m, w, n, m->dresid, m->dlnf, b->B * b->T, b->T, first);
    a.dresid_in = m->dresid;
    a.dadd = m->dtmp;
    a.drop = drop;
    return a;
}

// In: m->dresid, m->dtmp = gradient of this layer's MLP output. Out: the same for the layer below.
static Status layer_backward(Model *m, OpCtx *cx, const ModelBatch *b, int64_t l, bool first,
                             Err *err)
{
    const LayerActs *a = &m->layer[l];
    const Block w = part_take(m, (int)l + 1);
    const Linear how = {
        .m = m, .rows = b->B * b->T, .layer = l, .accumulate = !first, .fp8 = fp8_runs(m->fp8, l)};
    const Linear qkv = part_linear(&how, &w, LINEAR_QKV), proj = part_linear(&how, &w, LINEAR_PROJ);
    const Linear fc = part_linear(&how, &w, LINEAR_FC), mlp = part_linear(&how, &w, LINEAR_MLP);
    const Norm norm1 = norm1_of(m, l), norm2 = norm2_of(m, l);

    // MLP: dtmp [N,C] -> dwide = dfch [N,F] -> dlnf = dln2 [N,C]
    TRY(linear_backward_act(&mlp, cx, m->dwide, m->dtmp, a->fcg, a->fch, &fc, err));
    TRY(linear_backward(&fc, cx, m->dlnf, m->dwide, a->ln2, err));
    const LayernormBwdArgs n2 =
        norm_backward(m, &w, &norm2, part_drop_proj(m, b, l, true), b, first);
    TRY(op_layernorm_bwd(cx, &n2, err));

    // Attention: dtmp [N,C] -> dlnf = datt [N,C] -> dwide = dqkv [N,3C] -> dlnf = dln1 [N,C]
    TRY(linear_backward(&proj, cx, m->dlnf, m->dtmp, a->att, err));
    TRY(part_attention_backward(m, cx, b, l, m->dwide, m->dlnf, err));
    TRY(linear_backward(&qkv, cx, m->dlnf, m->dwide, a->ln1, err));
    LayernormBwdArgs n1 = norm_backward(m, &w, &norm1, part_drop_mlp(m, b, l - 1, true), b, first);
    if (l == 0) { // nothing was added
        n1.dadd = NULL;
        n1.drop = (DropoutSpec){0};
    }
    TRY(op_layernorm_bwd(cx, &n1, err));
    weights_give(&m->weights, (int)l + 1);
    return ERR_NONE;
}

Status gpt_gradients(Model *m, OpCtx *cx, const ModelBatch *b, float scale, bool first, Err *err)
{
    const int64_t L = m->c.n_layer;
    TRY(trunk(m, cx, b, true, err));
    TRY(head_backward(m, cx, b, scale, first, err));

    const int last = m->params->n_block - 1;
    const Block w = part_take(m, last);
    const Norm norm = final_norm_of(m);
    LayernormBwdArgs nf = norm_backward(m, &w, &norm, part_drop_mlp(m, b, L - 1, true), b, first);
    nf.dresid_in = NULL;
    TRY(op_layernorm_bwd(cx, &nf, err));
    weights_give(&m->weights, last);
    for (int64_t l = L - 1; l >= 0; l--) {
        if (m->o.recompute) TRY(layer_forward(m, cx, b, l, m->layer[l].x, NULL, true, true, err));
        TRY(layer_backward(m, cx, b, l, first, err));
    }
    TRY(part_embed_dropout(m, cx, b, m->dresid, m->prec.resid, err));
    return part_embed_backward(m, cx, b, m->dresid, first, err);
}
