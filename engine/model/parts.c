// parts.c -- see parts.h.
//
// SPDX-License-Identifier: MIT
#include "engine/model/parts.h"

Block part_take(const Model *m, int block)
{
    return (Block){.w = weights_take(&m->weights, block),
                   .g = m->grads ? m->grads + m->params->block[block].offset : NULL,
                   .esize = dtype_bytes(m->prec.param)};
}

DropoutSpec part_drop(const Model *m, const ModelBatch *b, double p, int64_t layer, RngSite site,
                      bool train)
{
    return (DropoutSpec){.p = train ? (float)p : 0.0f,
                         .seed = m->o.seed,
                         .sample = b->sample,
                         .layer = (uint32_t)layer,
                         .site = site};
}

DropoutSpec part_drop_proj(const Model *m, const ModelBatch *b, int64_t l, bool train)
{
    return part_drop(m, b, m->c.dropout_residual, l, RNG_DROP_PROJ, train);
}

DropoutSpec part_drop_mlp(const Model *m, const ModelBatch *b, int64_t l, bool train)
{
    return part_drop(m, b, m->c.dropout_residual, l, RNG_DROP_MLP, train);
}

Linear part_linear(const Linear *how, const Block *w, LinearId id)
{
    const LayerOffsets *o = &how->m->params->layer;
    const int64_t C = how->m->c.n_embd, F = how->m->c.n_inner;
    const struct {
        int64_t b, in, out;
    } is[] = {[LINEAR_QKV] = {o->qkv_b, C, 3 * C},
              [LINEAR_PROJ] = {o->proj_b, C, C},
              [LINEAR_FC] = {o->fc_b, C, F},
              [LINEAR_MLP] = {o->mlp_b, F, C}};
    const int64_t at = layer_matrix(o, id);
    Linear l = *how;
    l.id = id;
    l.w = block_weight(w, at);
    l.bias = block_weight(w, is[id].b);
    l.dw = block_grad(w, at);
    l.db = block_grad(w, is[id].b);
    l.in = is[id].in;
    l.out = is[id].out;
    l.act = how->m->c.activation;
    return l;
}

// ---- norms ------------------------------------------------------------------------------------

LayernormFwdArgs part_norm(const Model *m, const Block *w, const Norm *n, const Linear *next,
                           void *out, int64_t N, int64_t T)
{
    const Fp8Out q = next ? linear_x_out(next) : (Fp8Out){0};
    return (LayernormFwdArgs){.out = q.scale ? NULL : out,
                              .q = q,
                              .mean = n->mean,
                              .rstd = n->rstd,
                              .x = n->x,
                              .weight = block_weight(w, n->w),
                              .bias = block_weight(w, n->b),
                              .N = N,
                              .T = T,
                              .C = m->c.n_embd,
                              .eps = (float)m->c.norm_eps,
                              .x_dtype = m->prec.resid,
                              .add_dtype = m->prec.act,
                              .out_dtype = m->prec.act,
                              .w_dtype = m->prec.param};
}

LayernormBwdArgs part_norm_backward(const Model *m, const Block *w, const Norm *n, void *dx,
                                    const void *dy, int64_t N, int64_t T, bool first)
{
    return (LayernormBwdArgs){.dresid = dx,
                              .dweight = block_grad(w, n->w),
                              .dbias = block_grad(w, n->b),
                              .dy = dy,
                              .x = n->x,
                              .mean = n->mean,
                              .rstd = n->rstd,
                              .weight = block_weight(w, n->w),
                              .N = N,
                              .T = T,
                              .C = m->c.n_embd,
                              .accumulate = !first,
                              .dresid_dtype = m->prec.resid,
                              .dadd_dtype = m->prec.act,
                              .dy_dtype = m->prec.act,
                              .x_dtype = m->prec.resid,
                              .w_dtype = m->prec.param};
}

// ---- embeddings -------------------------------------------------------------------------------

Status part_embed(const Model *m, OpCtx *cx, const ModelBatch *b, void *x, Err *err)
{
    const ModelConfig *c = &m->c;
    const Block w = part_take(m, 0);
    TRY(op_embedding_fwd(cx,
                         &(EmbeddingFwdArgs){.out = x,
                                             .wte = block_weight(&w, m->params->wte),
                                             .wpe = block_weight(&w, m->params->wpe),
                                             .wtt = block_weight(&w, m->params->wtt),
                                             .token = b->input,
                                             .position = b->position,
                                             .type = b->type,
                                             .N = b->B * b->T,
                                             .T = b->T,
                                             .C = c->n_embd,
                                             .V = c->vocab_size,
                                             .P = c->n_positions,
                                             .S = c->n_types,
                                             .w_dtype = m->prec.param,
                                             .out_dtype = m->prec.resid},
                         err));
    weights_give(&m->weights, 0);
    return ERR_NONE;
}

Status part_embed_backward(const Model *m, OpCtx *cx, const ModelBatch *b, const void *dx,
                           bool first, Err *err)
{
    const ModelConfig *c = &m->c;
    const ParamSet *p = m->params;
    const Block w = part_take(m, 0);
    float *const wte = block_grad(&w, p->wte), *const wpe = block_grad(&w, p->wpe);
    float *const wtt = block_grad(&w, p->wtt);
    if (first) {
        const size_t row = (size_t)c->n_embd * sizeof(float);
        TRY(part_zero(cx, wpe, (size_t)c->n_positions * row, err));
        if (wtt) TRY(part_zero(cx, wtt, (size_t)c->n_types * row, err));
        if (!part_head_tied(m))
            TRY(part_zero(cx, wte, (size_t)model_config_vocab_padded(c) * row, err));
    }
    TRY(op_embedding_bwd(cx,
                         &(EmbeddingBwdArgs){.dwte = wte,
                                             .dwpe = wpe,
                                             .dwtt = wtt,
                                             .dout = dx,
                                             .token = b->input,
                                             .position = b->position,
                                             .type = b->type,
                                             .N = b->B * b->T,
                                             .T = b->T,
                                             .C = c->n_embd,
                                             .V = c->vocab_size,
                                             .P = c->n_positions,
                                             .S = c->n_types,
                                             .dout_dtype = m->prec.resid},
                         err));
    weights_give(&m->weights, 0);
    return ERR_NONE;
}

Status part_embed_dropout(const Model *m, OpCtx *cx, const ModelBatch *b, void *x, DType dtype,
                          Err *err)
{
    const double p = m->c.dropout_embed;
    if (p == 0) return ERR_NONE;
    return op_dropout(cx,
                      &(DropoutArgs){.y = x,
                                     .x = x,
                                     .B = b->B,
                                     .T = b->T,
                                     .C = m->c.n_embd,
                                     .drop = part_drop(m, b, p, 0, RNG_DROP_EMBED, true),
                                     .dtype = dtype},
                      err);
}

// ---- attention --------------------------------------------------------------------------------

static AttentionMask mask_of(const Model *m, const ModelBatch *b, int64_t layer)
{
    return (AttentionMask){.seg_lo = b->seg_lo,
                           .seg_hi = b->seg_hi,
                           .causal = m->c.causal,
                           .window = model_config_window(&m->c, layer)};
}

Status part_attention(const Model *m, OpCtx *cx, const ModelBatch *b, int64_t l, bool train,
                      Err *err)
{
    const ModelConfig *c = &m->c;
    const LayerActs *a = &m->layer[l];
    const int64_t C = c->n_embd, T = b->T;
    const size_t es = dtype_bytes(m->prec.act);
    return op_attention_fwd(cx,
                            &(AttentionFwdArgs){.out = a->att,
                                                .lse = a->lse,
                                                .q = a->qkv,
                                                .k = (const char *)a->qkv + (size_t)C * es,
                                                .v = (const char *)a->qkv + (size_t)(2 * C) * es,
                                                .B = b->B,
                                                .H = c->n_head,
                                                .Tq = T,
                                                .Tk = T,
                                                .D = model_config_head_size(c),
                                                .q_batch = T * 3 * C,
                                                .q_row = 3 * C,
                                                .kv_batch = T * 3 * C,
                                                .kv_row = 3 * C,
                                                .out_batch = T * C,
                                                .out_row = C,
                                                .scale = model_config_scale(c),
                                                .mask = mask_of(m, b, l),
                                                .drop = part_drop(m, b, c->dropout_attention, l,
                                                                  RNG_DROP_ATTENTION, train),
                                                .dtype = m->prec.act},
                            err);
}

Status part_attention_backward(const Model *m, OpCtx *cx, const ModelBatch *b, int64_t l,
                               void *dqkv, const void *datt, Err *err)
{
    const ModelConfig *c = &m->c;
    const LayerActs *a = &m->layer[l];
    const int64_t C = c->n_embd, T = b->T;
    const size_t es = dtype_bytes(m->prec.act);
    return op_attention_bwd(cx,
                            &(AttentionBwdArgs){.dq = dqkv,
                                                .dk = (char *)dqkv + (size_t)C * es,
                                                .dv = (char *)dqkv + (size_t)(2 * C) * es,
                                                .dout = datt,
                                                .out = a->att,
                                                .lse = a->lse,
                                                .q = a->qkv,
                                                .k = (const char *)a->qkv + (size_t)C * es,
                                                .v = (const char *)a->qkv + (size_t)(2 * C) * es,
                                                .B = b->B,
                                                .H = c->n_head,
                                                .T = T,
                                                .D = model_config_head_size(c),
                                                .qkv_batch = T * 3 * C,
                                                .qkv_row = 3 * C,
                                                .out_batch = T * C,
                                                .out_row = C,
                                                .scale = model_config_scale(c),
                                                .mask = mask_of(m, b, l),
                                                .drop = part_drop(m, b, c->dropout_attention, l,
                                                                  RNG_DROP_ATTENTION, true),
                                                .dtype = m->prec.act},
                            err);
}

// ---- the output matrix ------------------------------------------------------------------------

bool part_head_tied(const Model *m)
{
    return m->params->head < 0 && (m->c.head == HEAD_LM || model_config_has_mlm(&m->c));
}

int part_head_block(const Model *m)
{
    return part_head_tied(m) ? 0 : m->params->n_block - 1;
}

Linear part_head(const Model *m, const Block *w, int64_t rows, bool first)
{
    const int64_t at = part_head_tied(m) ? m->params->wte : m->params->head;
    return (Linear){.m = m,
                    .w = block_weight(w, at),
                    .dw = block_grad(w, at),
                    .rows = rows,
                    .in = m->c.n_embd,
                    .out = model_config_vocab_padded(&m->c),
                    .act = m->c.activation,
                    .accumulate = !first};
}

Status part_zero(OpCtx *cx, void *p, size_t bytes, Err *err)
{
    return cx->plan ? ERR_NONE : device_zero(cx->device, p, bytes, err);
}
