// model.c -- see model.h: memory, and which of the two models it is.
//
// SPDX-License-Identifier: MIT
#include "engine/model/model.h"
#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/model/bert.h"
#include "engine/model/bert_heads.h"
#include "engine/model/gpt.h"
#include "engine/model/parts.h"

// ---- memory -----------------------------------------------------------------------------------

// Activations of a layer with the inputs of its linear layers in the activation type (`full`), in
// FP8, or both, when several layers share them.
static void layer_acts(LayerActs *l, const Model *m, int64_t N, bool full, bool fp8, Arena *step)
{
    const ModelConfig *c = &m->c;
    const DType act = m->prec.act;
    const int64_t C = c->n_embd, F = c->n_inner;
    l->qkv = part_tensor(step, N, 3 * C, act);
    l->att = part_tensor(step, N, C, act);
    l->lse = part_tensor(step, N, c->n_head, DTYPE_F32);
    l->y = part_tensor(step, N, C, m->prec.resid);
    l->fch = m->o.train ? part_tensor(step, N, F, act) : NULL;
    l->mean1 = part_tensor(step, N, 1, DTYPE_F32);
    l->rstd1 = part_tensor(step, N, 1, DTYPE_F32);
    l->mean2 = part_tensor(step, N, 1, DTYPE_F32);
    l->rstd2 = part_tensor(step, N, 1, DTYPE_F32);
    if (full) {
        l->ln1 = part_tensor(step, N, C, act);
        l->ln2 = part_tensor(step, N, C, act);
        l->fcg = part_tensor(step, N, F, act);
    }
    for (int i = 0; fp8 && i < LINEAR_COUNT; i++)
        l->xt[i] = part_tensor(step, i == LINEAR_MLP ? F : C, fp8_ld(N), DTYPE_E4M3);
}

// A layer in FP8 needs ln1, ln2 and fcg for a moment only, when at all: on their way to FP8, to a
// residual add, or in an evaluation. The buffers of two gradients are free whenever a layer's
// forward pass runs, and so is lnf.
static void share_buffers(Model *m)
{
    for (int64_t l = 0; l < m->c.n_layer; l++) {
        if (!fp8_runs(m->fp8, l)) continue;
        m->layer[l].ln1 = m->lnf;
        m->layer[l].ln2 = m->dlnf;
        m->layer[l].fcg = m->dwide;
    }
}

Status model_build(Model *m, const ModelConfig *c, const Precision *p, const ModelOptions *o,
                   const ParamSet *params, void *weights, float *grads, Arena *step, Err *err)
{
    const bool bert = c->norm_position == NORM_POST;
    ASSERT(bert || o->block <= c->n_positions, "block of %lld tokens, %lld positions",
           (long long)o->block, (long long)c->n_positions);
    ASSERT(!o->train || grads, "training needs gradients");
    *m = (Model){.c = *c, .prec = *p, .o = *o, .params = params, .fp8 = o->train ? o->fp8 : NULL};
    m->weights = (Weights){.flat = weights, .dtype = p->param, .params = params};
    if (bert) m->prec.resid = p->act;
    m->grads = o->train ? grads : NULL;
    m->layer = mem_calloc((size_t)c->n_layer, sizeof *m->layer);
    if (!m->layer) return mem_err(err, (size_t)c->n_layer * sizeof *m->layer, "the layer table");

    const int64_t N = o->batch * o->block, C = c->n_embd, wide = LT_MAX(c->n_inner, 3 * C);
    const int64_t n_fp8 = m->fp8 ? m->fp8->end - m->fp8->first : 0;
    const bool each = o->train && !o->recompute; // every layer keeps its own activations
    arena_part(step, "activations");
    LayerActs shared = {0};
    if (!each) layer_acts(&shared, m, N, n_fp8<c->n_layer, n_fp8> 0, step);
    void *stream = o->train
                       ? NULL
                       : part_tensor(step, N, C, m->prec.resid); // forward only: one for all layers
    for (int64_t l = 0; l < c->n_layer; l++) {
        if (each)
            layer_acts(&m->layer[l], m, N, !fp8_runs(m->fp8, l), fp8_runs(m->fp8, l), step);
        else
            m->layer[l] = shared;
        m->layer[l].x = o->train ? part_tensor(step, N, C, m->prec.resid) : stream;
    }
    m->xf = o->train ? part_tensor(step, N, C, m->prec.resid) : stream;
    m->lnf = part_tensor(step, N, C, p->act);
    m->meanf = part_tensor(step, N, 1, DTYPE_F32);
    m->rstdf = part_tensor(step, N, 1, DTYPE_F32);
    m->tmp = part_tensor(step, N, C, p->act);
    if (bert) {
        bert_heads_build(m, step);
    } else {
        m->loss = part_tensor(step, N, 1, DTYPE_F32);
        arena_part(step, "logits");
        m->o.head_rows = LT_MIN(o->head_rows, N);
        m->logits = part_tensor(step, m->o.head_rows, model_config_vocab_padded(c), p->act);
    }
    if (o->train) {
        arena_part(step, "activation gradients");
        m->dresid = part_tensor(step, N, C, m->prec.resid);
        m->dtmp = part_tensor(step, N, C, p->act);
        m->dwide = part_tensor(step, N, wide, p->act);
        m->dlnf = part_tensor(step, N, C, p->act);
    }
    if (n_fp8) {
        arena_part(step, "FP8 operands");
        m->q = part_tensor(step, N, C, DTYPE_E4M3);
        m->q_wide = part_tensor(step, N, wide, DTYPE_E4M3);
        m->dyt = part_tensor(step, wide, fp8_ld(N), DTYPE_E5M2);
    }
    share_buffers(m);
    return ERR_NONE;
}

void model_free(Model *m)
{
    mem_free(m->layer);
    m->layer = NULL;
}

// ---- calls ------------------------------------------------------------------------------------

static bool is_bert(const Model *m)
{
    return m->c.norm_position == NORM_POST;
}

static void check_batch(const Model *m, const ModelBatch *b)
{
    ASSERT(b->T <= m->o.block && b->B * b->T <= m->o.batch * m->o.block, "batch %lld x %lld",
           (long long)b->B, (long long)b->T);
    ASSERT(b->position || b->T <= m->c.n_positions, "%lld tokens, %lld positions", (long long)b->T,
           (long long)m->c.n_positions);
    ASSERT(b->picks <= m->o.picks && b->seqs <= m->o.seqs, "%lld picks, %lld sequences",
           (long long)b->picks, (long long)b->seqs);
}

Status model_loss(Model *m, OpCtx *cx, const ModelBatch *b, Err *err)
{
    check_batch(m, b);
    return is_bert(m) ? bert_loss(m, cx, b, err) : gpt_loss(m, cx, b, err);
}

Status model_gradients(Model *m, OpCtx *cx, const ModelBatch *b, ModelLossScale scale, bool first,
                       Err *err)
{
    check_batch(m, b);
    ASSERT(m->o.train, "this model was built for the forward pass only");
    if (m->fp8 && first) TRY(fp8_cast_weights(m->fp8, cx, &m->weights, err));
    return is_bert(m) ? bert_gradients(m, cx, b, scale, first, err)
                      : gpt_gradients(m, cx, b, scale.row, first, err);
}

Status model_logits(Model *m, OpCtx *cx, const ModelBatch *b, const void **logits, Err *err)
{
    check_batch(m, b);
    ASSERT(!is_bert(m), "an encoder has no logits of every row");
    return gpt_logits(m, cx, b, logits, err);
}

Status model_embed(Model *m, OpCtx *cx, const ModelBatch *b, const void **rows, const void **pooled,
                   Err *err)
{
    check_batch(m, b);
    ASSERT(is_bert(m), "embeddings are an encoder's");
    return bert_embed(m, cx, b, rows, pooled, err);
}

Status model_scores(Model *m, OpCtx *cx, const ModelBatch *b, const void **rows, const void **seqs,
                    Err *err)
{
    check_batch(m, b);
    ASSERT(is_bert(m), "scores are an encoder's");
    return bert_scores(m, cx, b, rows, seqs, err);
}
