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
// `dtmp` that of a branch's output (with its dropout undone). Linear layers: linear.h.
//
// SPDX-License-Identifier: MIT
#include "engine/model/model.h"
#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/model/linear.h"

#include <string.h>

typedef struct Layer { // weights and gradients of the block at hand
    const char *w;     // start of the block's weights
    float *g;          // start of its gradients; NULL in a forward-only model
    size_t esize;      // of a weight
} Layer;

static const void *weight(const Layer *l, int64_t offset)
{
    return offset < 0 ? NULL : l->w + (size_t)offset * l->esize;
}

static float *grad(const Layer *l, int64_t offset)
{
    return offset < 0 ? NULL : l->g + offset;
}

static Layer take(const Model *m, int block)
{
    return (Layer){.w = weights_take(&m->weights, block),
                   .g = m->grads ? m->grads + m->params->block[block].offset : NULL,
                   .esize = dtype_bytes(m->prec.param)};
}

// ---- memory -----------------------------------------------------------------------------------

static void *tensor(Arena *a, int64_t rows, int64_t cols, DType t)
{
    return arena_alloc(a, (size_t)rows * (size_t)cols * dtype_bytes(t));
}

// Activations of a layer with the inputs of its linear layers in the activation type (`full`), in
// FP8, or both, when several layers share them.
static void layer_acts(LayerActs *l, const Model *m, int64_t N, bool full, bool fp8, Arena *step)
{
    const ModelConfig *c = &m->c;
    const DType act = m->prec.act;
    const int64_t C = c->n_embd, F = c->n_inner;
    l->qkv = tensor(step, N, 3 * C, act);
    l->att = tensor(step, N, C, act);
    l->lse = tensor(step, N, c->n_head, DTYPE_F32);
    l->y = tensor(step, N, C, m->prec.resid);
    l->fch = m->o.train ? tensor(step, N, F, act) : NULL;
    l->mean1 = tensor(step, N, 1, DTYPE_F32);
    l->rstd1 = tensor(step, N, 1, DTYPE_F32);
    l->mean2 = tensor(step, N, 1, DTYPE_F32);
    l->rstd2 = tensor(step, N, 1, DTYPE_F32);
    if (full) {
        l->ln1 = tensor(step, N, C, act);
        l->ln2 = tensor(step, N, C, act);
        l->fcg = tensor(step, N, F, act);
    }
    for (int i = 0; fp8 && i < LINEAR_COUNT; i++)
        l->xt[i] = tensor(step, i == LINEAR_MLP ? F : C, fp8_ld(N), DTYPE_E4M3);
}

// A layer in FP8 needs ln1, ln2 and fcg for a moment only, when at all: on their way to FP8, or in
// an evaluation. The buffers of two gradients are free whenever a layer's forward pass runs.
static void share_buffers(Model *m)
{
    for (int64_t l = 0; l < m->c.n_layer; l++) {
        if (!fp8_runs(m->fp8, l)) continue;
        m->layer[l].ln1 = m->layer[l].ln2 = m->dlnf;
        m->layer[l].fcg = m->dwide;
    }
}

Status model_build(Model *m, const ModelConfig *c, const Precision *p, const ModelOptions *o,
                   const ParamSet *params, void *weights, float *grads, Arena *step, Err *err)
{
    ASSERT(o->block <= c->n_positions, "block of %lld tokens, %lld positions", (long long)o->block,
           (long long)c->n_positions);
    ASSERT(!o->train || grads, "training needs gradients");
    *m = (Model){.c = *c, .prec = *p, .o = *o, .params = params, .fp8 = o->train ? o->fp8 : NULL};
    m->weights = (Weights){.flat = weights, .dtype = p->param, .params = params};
    m->grads = o->train ? grads : NULL;
    m->layer = mem_calloc((size_t)c->n_layer, sizeof *m->layer);
    if (!m->layer) return mem_err(err, (size_t)c->n_layer * sizeof *m->layer, "the layer table");

    const int64_t N = o->batch * o->block, C = c->n_embd, wide = LT_MAX(c->n_inner, 3 * C);
    const int64_t n_fp8 = m->fp8 ? m->fp8->end - m->fp8->first : 0;
    const bool each = o->train && !o->recompute; // every layer keeps its own activations
    arena_part(step, "activations");
    LayerActs shared = {0};
    if (!each) layer_acts(&shared, m, N, n_fp8<c->n_layer, n_fp8> 0, step);
    void *stream =
        o->train ? NULL : tensor(step, N, C, p->resid); // forward only: one for all layers
    for (int64_t l = 0; l < c->n_layer; l++) {
        if (each)
            layer_acts(&m->layer[l], m, N, !fp8_runs(m->fp8, l), fp8_runs(m->fp8, l), step);
        else
            m->layer[l] = shared;
        m->layer[l].x = o->train ? tensor(step, N, C, p->resid) : stream;
    }
    m->xf = o->train ? tensor(step, N, C, p->resid) : stream;
    m->lnf = tensor(step, N, C, p->act);
    m->meanf = tensor(step, N, 1, DTYPE_F32);
    m->rstdf = tensor(step, N, 1, DTYPE_F32);
    m->tmp = tensor(step, N, C, p->act);
    m->loss = tensor(step, N, 1, DTYPE_F32);
    arena_part(step, "logits");
    const int64_t rows = LT_MIN(o->head_rows, N);
    m->o.head_rows = rows;
    m->logits = tensor(step, rows, model_config_vocab_padded(c), p->act);
    if (o->train) {
        arena_part(step, "activation gradients");
        m->dresid = tensor(step, N, C, p->resid);
        m->dtmp = tensor(step, N, C, p->act);
        m->dwide = tensor(step, N, wide, p->act);
        m->dlnf = tensor(step, N, C, p->act);
    }
    if (n_fp8) {
        arena_part(step, "FP8 operands");
        m->q = tensor(step, N, C, DTYPE_E4M3);
        m->q_wide = tensor(step, N, wide, DTYPE_E4M3);
        m->dyt = tensor(step, wide, fp8_ld(N), DTYPE_E5M2);
    }
    share_buffers(m);
    return ERR_NONE;
}

void model_free(Model *m)
{
    mem_free(m->layer);
    m->layer = NULL;
}

// ---- pieces of the call list ------------------------------------------------------------------

static DropoutSpec drop_spec(const Model *m, const ModelBatch *b, double p, int64_t layer,
                             RngSite site, bool train)
{
    return (DropoutSpec){.p = train ? (float)p : 0.0f,
                         .seed = m->o.seed,
                         .sample = b->sample,
                         .layer = (uint32_t)layer,
                         .site = site};
}

// Linear layer `id` of the block whose weights these are. `how`: what all of the block's share.
static Linear linear_of(const Linear *how, const Layer *w, LinearId id)
{
    const LayerOffsets *o = &how->m->params->layer;
    const int64_t C = how->m->c.n_embd, F = how->m->c.n_inner;
    const struct {
        int64_t w, b, in, out;
    } is[] = {[LINEAR_QKV] = {o->qkv_w, o->qkv_b, C, 3 * C},
              [LINEAR_PROJ] = {o->proj_w, o->proj_b, C, C},
              [LINEAR_FC] = {o->fc_w, o->fc_b, C, F},
              [LINEAR_MLP] = {o->mlp_w, o->mlp_b, F, C}};
    Linear l = *how;
    l.id = id;
    l.w = weight(w, is[id].w);
    l.bias = weight(w, is[id].b);
    l.dw = w->g ? grad(w, is[id].w) : NULL;
    l.db = w->g ? grad(w, is[id].b) : NULL;
    l.in = is[id].in;
    l.out = is[id].out;
    return l;
}

// The output layer, on some of the rows.
static Linear linear_head(const Model *m, const Layer *w, int64_t rows, bool first)
{
    const int64_t at = m->params->head < 0 ? m->params->wte : m->params->head;
    return (Linear){.m = m,
                    .w = weight(w, at),
                    .dw = w->g ? grad(w, at) : NULL,
                    .rows = rows,
                    .in = m->c.n_embd,
                    .out = model_config_vocab_padded(&m->c),
                    .accumulate = !first};
}

// The block that has the output layer's weights.
static int head_block(const Model *m)
{
    return m->params->head < 0 ? 0 : m->params->n_block - 1;
}

// A norm with the residual add in front of it: resid_out = x + drop(add), out = norm(resid_out).
// `next`: the linear layer that reads out, and may want it in FP8; NULL: another op.
static LayernormFwdArgs norm(const Model *m, const Linear *next, void *out, const void *x,
                             const void *w, const void *b, float *mean, float *rstd, int64_t N,
                             int64_t T)
{
    const Fp8Out q = next ? linear_x_out(next) : (Fp8Out){0};
    return (LayernormFwdArgs){.out = q.scale ? NULL : out,
                              .q = q,
                              .mean = mean,
                              .rstd = rstd,
                              .x = x,
                              .weight = w,
                              .bias = b,
                              .N = N,
                              .T = T,
                              .C = m->c.n_embd,
                              .eps = (float)m->c.norm_eps,
                              .x_dtype = m->prec.resid,
                              .add_dtype = m->prec.act,
                              .out_dtype = m->prec.act,
                              .w_dtype = m->prec.param};
}

static AttentionMask mask_of(const Model *m, const ModelBatch *b, int64_t layer)
{
    return (AttentionMask){
        .seg_lo = b->seg_lo, .causal = m->c.causal, .window = model_config_window(&m->c, layer)};
}

// ---- forward ----------------------------------------------------------------------------------

static Status embed(Model *m, OpCtx *cx, const ModelBatch *b, void *x, bool train, Err *err)
{
    const ModelConfig *c = &m->c;
    const Layer l = take(m, 0);
    TRY(op_embedding_fwd(cx,
                         &(EmbeddingFwdArgs){.out = x,
                                             .wte = weight(&l, m->params->wte),
                                             .wpe = weight(&l, m->params->wpe),
                                             .token = b->input,
                                             .position = b->position,
                                             .N = b->B * b->T,
                                             .T = b->T,
                                             .C = c->n_embd,
                                             .V = c->vocab_size,
                                             .P = c->n_positions,
                                             .w_dtype = m->prec.param,
                                             .out_dtype = m->prec.resid},
                         err));
    weights_give(&m->weights, 0);
    if (!train || c->dropout_embed == 0) return ERR_NONE;
    return op_dropout(
        cx,
        &(DropoutArgs){.y = x,
                       .x = x,
                       .B = b->B,
                       .T = b->T,
                       .C = c->n_embd,
                       .drop = drop_spec(m, b, c->dropout_embed, 0, RNG_DROP_EMBED, true),
                       .dtype = m->prec.resid},
        err);
}

// One layer. `add` is the previous layer's MLP output, still to be added to x_in (NULL: x_in is the
// stream itself, in m->layer[l].x). Leaves this layer's MLP output in m->tmp, unless it is computed
// `again` for the backward pass, which has no use for it.
static Status layer_forward(Model *m, OpCtx *cx, const ModelBatch *b, int64_t l, const void *x_in,
                            const void *add, bool train, bool again, Err *err)
{
    const ModelConfig *c = &m->c;
    const LayerOffsets *o = &m->params->layer;
    const LayerActs *a = &m->layer[l];
    const Layer w = take(m, (int)l + 1);
    const int64_t N = b->B * b->T, T = b->T, C = c->n_embd;
    const int64_t D = model_config_head_size(c);
    const Linear how = {
        .m = m, .rows = N, .layer = l, .fp8 = train && fp8_runs(m->fp8, l), .again = again};
    const Linear qkv = linear_of(&how, &w, LINEAR_QKV), proj = linear_of(&how, &w, LINEAR_PROJ);
    const Linear fc = linear_of(&how, &w, LINEAR_FC), mlp = linear_of(&how, &w, LINEAR_MLP);

    LayernormFwdArgs n1 = norm(m, &qkv, a->ln1, x_in, weight(&w, o->norm1_w),
                               weight(&w, o->norm1_b), a->mean1, a->rstd1, N, T);
    if (add) {
        n1.resid_out = a->x;
        n1.add = add;
        n1.drop = drop_spec(m, b, c->dropout_residual, l - 1, RNG_DROP_MLP, train);
    }
    TRY(op_layernorm_fwd(cx, &n1, err));

    TRY(linear_forward(&qkv, cx, a->qkv, a->ln1, err));

    const size_t es = dtype_bytes(m->prec.act);
    TRY(op_attention_fwd(cx,
                         &(AttentionFwdArgs){.out = a->att,
                                             .lse = a->lse,
                                             .q = a->qkv,
                                             .k = (const char *)a->qkv + (size_t)C * es,
                                             .v = (const char *)a->qkv + (size_t)(2 * C) * es,
                                             .B = b->B,
                                             .H = c->n_head,
                                             .Tq = T,
                                             .Tk = T,
                                             .D = D,
                                             .q_batch = T * 3 * C,
                                             .q_row = 3 * C,
                                             .kv_batch = T * 3 * C,
                                             .kv_row = 3 * C,
                                             .out_batch = T * C,
                                             .out_row = C,
                                             .scale = model_config_scale(c),
                                             .mask = mask_of(m, b, l),
                                             .drop = drop_spec(m, b, c->dropout_attention, l,
                                                               RNG_DROP_ATTENTION, train),
                                             .dtype = m->prec.act},
                         err));

    TRY(linear_forward(&proj, cx, m->tmp, a->att, err));

    LayernormFwdArgs n2 = norm(m, &fc, a->ln2, a->x, weight(&w, o->norm2_w), weight(&w, o->norm2_b),
                               a->mean2, a->rstd2, N, T);
    n2.resid_out = a->y;
    n2.add = m->tmp;
    n2.drop = drop_spec(m, b, c->dropout_residual, l, RNG_DROP_PROJ, train);
    TRY(op_layernorm_fwd(cx, &n2, err));

    TRY(linear_forward_act(&fc, cx, a->fcg, a->fch, a->ln2, &mlp, err));
    TRY(linear_forward(&mlp, cx, again ? NULL : m->tmp, a->fcg, err));
    weights_give(&m->weights, (int)l + 1);
    return ERR_NONE;
}

// Everything up to the final norm's output m->lnf.
static Status trunk(Model *m, OpCtx *cx, const ModelBatch *b, bool train, Err *err)
{
    ASSERT(b->T <= m->o.block && b->B * b->T <= m->o.batch * m->o.block, "batch %lld x %lld",
           (long long)b->B, (long long)b->T);
    const ModelConfig *c = &m->c;
    TRY(embed(m, cx, b, m->layer[0].x, train, err));
    const void *x = m->layer[0].x, *add = NULL;
    for (int64_t l = 0; l < c->n_layer; l++) {
        TRY(layer_forward(m, cx, b, l, x, add, train, false, err));
        x = m->layer[l].y;
        add = m->tmp;
    }
    const int last = m->params->n_block - 1;
    const Layer w = take(m, last);
    LayernormFwdArgs nf =
        norm(m, NULL, m->lnf, x, weight(&w, m->params->final_w), weight(&w, m->params->final_b),
             m->meanf, m->rstdf, b->B * b->T, b->T);
    nf.resid_out = m->xf;
    nf.add = add;
    nf.drop = drop_spec(m, b, c->dropout_residual, c->n_layer - 1, RNG_DROP_MLP, train);
    TRY(op_layernorm_fwd(cx, &nf, err));
    weights_give(&m->weights, last);
    return ERR_NONE;
}

// The head: logits of rows [row, row + n) into m->logits.
static Status head_logits(Model *m, OpCtx *cx, int64_t row, int64_t n, Err *err)
{
    const Layer w = take(m, head_block(m));
    const Linear head = linear_head(m, &w, n, true);
    const void *x = (const char *)m->lnf + (size_t)(row * head.in) * dtype_bytes(m->prec.act);
    TRY(linear_forward(&head, cx, m->logits, x, err));
    weights_give(&m->weights, head_block(m));
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

Status model_loss(Model *m, OpCtx *cx, const ModelBatch *b, Err *err)
{
    TRY(trunk(m, cx, b, false, err));
    const int64_t N = b->B * b->T;
    for (int64_t row = 0; row < N; row += m->o.head_rows)
        TRY(head_loss(m, cx, b, row, LT_MIN(m->o.head_rows, N - row), 0, false, err));
    return ERR_NONE;
}

Status model_logits(Model *m, OpCtx *cx, const ModelBatch *b, const void **logits, Err *err)
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
        const Layer w = take(m, head_block(m));
        const Linear head = linear_head(m, &w, n, first && row == 0);
        const size_t at = (size_t)row * row_bytes;
        TRY(linear_backward(&head, cx, (char *)m->dlnf + at, m->logits, (const char *)m->lnf + at,
                            err));
        weights_give(&m->weights, head_block(m));
    }
    return ERR_NONE;
}

// Gradient of a norm. Adds to m->dresid (assigns when `from_nothing`); m->dtmp becomes the gradient
// of what the forward pass added in front of the norm (`drop`: with which dropout); add = false:
// there was nothing to add.
static Status norm_backward(Model *m, OpCtx *cx, const Layer *w, int64_t at_w, int64_t at_b,
                            const void *dy, const void *x, const float *mean, const float *rstd,
                            const ModelBatch *b, bool from_nothing, bool add, DropoutSpec drop,
                            bool first, Err *err)
{
    return op_layernorm_bwd(cx,
                            &(LayernormBwdArgs){.dresid = m->dresid,
                                                .dadd = add ? m->dtmp : NULL,
                                                .dweight = grad(w, at_w),
                                                .dbias = grad(w, at_b),
                                                .dresid_in = from_nothing ? NULL : m->dresid,
                                                .dy = dy,
                                                .x = x,
                                                .mean = mean,
                                                .rstd = rstd,
                                                .weight = weight(w, at_w),
                                                .N = b->B * b->T,
                                                .T = b->T,
                                                .C = m->c.n_embd,
                                                .accumulate = !first,
                                                .drop = drop,
                                                .dresid_dtype = m->prec.resid,
                                                .dadd_dtype = m->prec.act,
                                                .dy_dtype = m->prec.act,
                                                .x_dtype = m->prec.resid,
                                                .w_dtype = m->prec.param},
                            err);
}

static Status attention_backward(Model *m, OpCtx *cx, const ModelBatch *b, int64_t l, void *dqkv,
                                 const void *datt, Err *err)
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
                                                .drop = drop_spec(m, b, c->dropout_attention, l,
                                                                  RNG_DROP_ATTENTION, true),
                                                .dtype = m->prec.act},
                            err);
}

// In: m->dresid, m->dtmp = gradient of this layer's MLP output. Out: the same for the layer below.
static Status layer_backward(Model *m, OpCtx *cx, const ModelBatch *b, int64_t l, bool first,
                             Err *err)
{
    const ModelConfig *c = &m->c;
    const LayerOffsets *o = &m->params->layer;
    const LayerActs *a = &m->layer[l];
    const Layer w = take(m, (int)l + 1);
    const int64_t N = b->B * b->T;
    const DropoutSpec none = {0};
    const Linear how = {
        .m = m, .rows = N, .layer = l, .accumulate = !first, .fp8 = fp8_runs(m->fp8, l)};
    const Linear qkv = linear_of(&how, &w, LINEAR_QKV), proj = linear_of(&how, &w, LINEAR_PROJ);
    const Linear fc = linear_of(&how, &w, LINEAR_FC), mlp = linear_of(&how, &w, LINEAR_MLP);

    // MLP: dtmp [N,C] -> dwide = dfch [N,F] -> dlnf = dln2 [N,C]
    TRY(linear_backward_act(&mlp, cx, m->dwide, m->dtmp, a->fcg, a->fch, &fc, err));
    TRY(linear_backward(&fc, cx, m->dlnf, m->dwide, a->ln2, err));
    TRY(norm_backward(m, cx, &w, o->norm2_w, o->norm2_b, m->dlnf, a->y, a->mean2, a->rstd2, b,
                      false, true, drop_spec(m, b, c->dropout_residual, l, RNG_DROP_PROJ, true),
                      first, err));

    // Attention: dtmp [N,C] -> dlnf = datt [N,C] -> dwide = dqkv [N,3C] -> dlnf = dln1 [N,C]
    TRY(linear_backward(&proj, cx, m->dlnf, m->dtmp, a->att, err));
    TRY(attention_backward(m, cx, b, l, m->dwide, m->dlnf, err));
    TRY(linear_backward(&qkv, cx, m->dlnf, m->dwide, a->ln1, err));
    const bool add = l > 0;
    TRY(norm_backward(
        m, cx, &w, o->norm1_w, o->norm1_b, m->dlnf, a->x, a->mean1, a->rstd1, b, false, add,
        add ? drop_spec(m, b, c->dropout_residual, l - 1, RNG_DROP_MLP, true) : none, first, err));
    weights_give(&m->weights, (int)l + 1);
    return ERR_NONE;
}

static Status zero_grad(OpCtx *cx, float *g, int64_t n, Err *err)
{
    return cx->plan ? ERR_NONE : device_zero(cx->device, g, (size_t)n * sizeof *g, err);
}

static Status embed_backward(Model *m, OpCtx *cx, const ModelBatch *b, bool first, Err *err)
{
    const ModelConfig *c = &m->c;
    const Layer w = take(m, 0);
    if (c->dropout_embed > 0)
        TRY(op_dropout(
            cx,
            &(DropoutArgs){.y = m->dresid,
                           .x = m->dresid,
                           .B = b->B,
                           .T = b->T,
                           .C = c->n_embd,
                           .drop = drop_spec(m, b, c->dropout_embed, 0, RNG_DROP_EMBED, true),
                           .dtype = m->prec.resid},
            err));
    // The tables are added to, row by row. A tied token table already holds the head's gradient.
    if (first) {
        TRY(zero_grad(cx, grad(&w, m->params->wpe), c->n_positions * c->n_embd, err));
        if (m->params->head >= 0)
            TRY(zero_grad(cx, grad(&w, m->params->wte), model_config_vocab_padded(c) * c->n_embd,
                          err));
    }
    TRY(op_embedding_bwd(cx,
                         &(EmbeddingBwdArgs){.dwte = grad(&w, m->params->wte),
                                             .dwpe = grad(&w, m->params->wpe),
                                             .dout = m->dresid,
                                             .token = b->input,
                                             .position = b->position,
                                             .N = b->B * b->T,
                                             .T = b->T,
                                             .C = c->n_embd,
                                             .V = c->vocab_size,
                                             .P = c->n_positions,
                                             .dout_dtype = m->prec.resid},
                         err));
    weights_give(&m->weights, 0);
    return ERR_NONE;
}

Status model_gradients(Model *m, OpCtx *cx, const ModelBatch *b, ModelLossScale scale, bool first,
                       Err *err)
{
    ASSERT(m->o.train, "this model was built for the forward pass only");
    const ModelConfig *c = &m->c;
    if (m->fp8 && first) TRY(fp8_cast_weights(m->fp8, cx, &m->weights, err));
    TRY(trunk(m, cx, b, true, err));
    TRY(head_backward(m, cx, b, scale.row, first, err));

    const int last = m->params->n_block - 1;
    const Layer w = take(m, last);
    TRY(norm_backward(m, cx, &w, m->params->final_w, m->params->final_b, m->dlnf, m->xf, m->meanf,
                      m->rstdf, b, true, true,
                      drop_spec(m, b, c->dropout_residual, c->n_layer - 1, RNG_DROP_MLP, true),
                      first, err));
    weights_give(&m->weights, last);
    for (int64_t l = c->n_layer - 1; l >= 0; l--) {
        if (m->o.recompute) TRY(layer_forward(m, cx, b, l, m->layer[l].x, NULL, true, true, err));
        TRY(layer_backward(m, cx, b, l, first, err));
    }
    return embed_backward(m, cx, b, first, err);
}
