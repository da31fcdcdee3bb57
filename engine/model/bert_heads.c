// bert_heads.c -- what an encoder learns, and from which of its rows.
//
//   head            reads             computes
//   PRETRAIN, MLM   picked rows       hid = row W^T + b, act = gelu(hid), ln = norm(act),
//                                     logits = ln Wtoken^T + b, in chunks of head_rows rows
//   PRETRAIN        first rows        pooled = tanh(seq W^T + b), logits of the next sentence
//   CLASSIFY        first rows        pooled, drop, logits of the labels
//   TAG             picked rows       drop, logits of the labels
//   QA              every row         logits[e,b,t]: is row t of sample b the answer's end e?
//
// Only the rows that are read go through a head: about 15 in 100 for masked tokens. Backward, their
// gradients are added to dlnf, which is 0 elsewhere.
//
// QA's softmax goes over the T rows of a sample, whatever they are, as Hugging Face's does. The
// bias is the same number for all of them: it changes no loss, has no gradient, and is in the
// scores only.
//
// SPDX-License-Identifier: MIT
#include "engine/model/bert_heads.h"
#include "engine/base/assert.h"
#include "engine/model/parts.h"

static bool has_seqs(const ModelConfig *c) // is something predicted of a sequence?
{
    return c->head == HEAD_PRETRAIN || c->head == HEAD_CLASSIFY;
}

static bool has_picks(const ModelConfig *c)
{
    return model_config_has_mlm(c) || c->head == HEAD_TAG;
}

static int last_block(const Model *m)
{
    return m->params->n_block - 1;
}

// ---- memory -----------------------------------------------------------------------------------

static void build_picks(Model *m, Arena *step)
{
    HeadActs *h = &m->heads;
    const int64_t P = m->o.picks, C = m->c.n_embd;
    const DType act = m->prec.act;
    h->row = part_tensor(step, P, C, act);
    if (m->o.train) h->drow = part_tensor(step, P, C, act);
    if (!model_config_has_mlm(&m->c)) return;
    h->hid = m->o.train ? part_tensor(step, P, C, act) : NULL;
    h->act = part_tensor(step, P, C, act);
    h->ln = part_tensor(step, P, C, act);
    h->mean = part_tensor(step, P, 1, DTYPE_F32);
    h->rstd = part_tensor(step, P, 1, DTYPE_F32);
    if (m->o.train) h->dmid = part_tensor(step, P, C, act);
}

static void build_pooler(Model *m, Arena *step)
{
    HeadActs *h = &m->heads;
    const int64_t Q = m->o.seqs, C = m->c.n_embd;
    const DType act = m->prec.act;
    h->seq = part_tensor(step, Q, C, act);
    h->pool = m->o.train ? part_tensor(step, Q, C, act) : NULL;
    h->pooled = part_tensor(step, Q, C, act);
    if (!m->o.train) return;
    h->dseq = part_tensor(step, Q, C, act);
    h->dpool = part_tensor(step, Q, C, act);
}

void bert_heads_build(Model *m, Arena *step)
{
    const ModelConfig *c = &m->c;
    const int64_t P = m->o.picks, Q = m->o.seqs, N = m->o.batch * m->o.block;
    const int64_t n_out = model_config_outputs(c), spans = 2 * m->o.batch;
    const int64_t losses = c->head == HEAD_QA ? spans : P;
    if (has_picks(c)) build_picks(m, step);
    if (c->pooler) build_pooler(m, step);
    if (has_picks(c) || c->head == HEAD_QA) {
        m->loss = part_tensor(step, losses, 1, DTYPE_F32);
        m->hit = part_tensor(step, losses, 1, DTYPE_F32);
    }
    if (has_seqs(c)) {
        m->loss_seq = part_tensor(step, Q, 1, DTYPE_F32);
        m->hit_seq = part_tensor(step, Q, 1, DTYPE_F32);
        m->heads.logits_seq = part_tensor(step, Q, n_out, m->prec.act);
    }
    arena_part(step, "logits");
    m->o.head_rows = LT_MAX(1, LT_MIN(m->o.head_rows, P));
    if (model_config_has_mlm(c))
        m->logits = part_tensor(step, m->o.head_rows, model_config_vocab_padded(c), m->prec.act);
    else if (c->head == HEAD_TAG || c->head == HEAD_QA)
        m->logits = part_tensor(step, c->head == HEAD_TAG ? P : N, n_out, m->prec.act);
}

// ---- pieces of the call list ------------------------------------------------------------------

static Status gather(const Model *m, OpCtx *cx, const ModelBatch *b, void *out, const int32_t *row,
                     int64_t n, Err *err)
{
    return op_gather_rows(cx,
                          &(GatherRowsArgs){.out = out,
                                            .x = m->lnf,
                                            .row = row,
                                            .n = n,
                                            .N = b->B * b->T,
                                            .C = m->c.n_embd,
                                            .dtype = m->prec.act},
                          err);
}

static Status add_to_dlnf(const Model *m, OpCtx *cx, const ModelBatch *b, const void *dx,
                          const int32_t *row, int64_t n, Err *err)
{
    return op_scatter_rows(cx,
                           &(ScatterRowsArgs){.out = m->dlnf,
                                              .x = dx,
                                              .row = row,
                                              .n = n,
                                              .N = b->B * b->T,
                                              .C = m->c.n_embd,
                                              .dtype = m->prec.act},
                           err);
}

// A linear layer of the heads.
static Linear linear_of(const Model *m, const Block *w, int64_t at_w, int64_t at_b, int64_t rows,
                        int64_t out, Activation act, bool first)
{
    return (Linear){.m = m,
                    .w = block_weight(w, at_w),
                    .bias = block_weight(w, at_b),
                    .dw = block_grad(w, at_w),
                    .db = block_grad(w, at_b),
                    .rows = rows,
                    .in = m->c.n_embd,
                    .out = out,
                    .act = act,
                    .accumulate = !first};
}

// The small output layer: next sentence, labels, ends of an answer.
static Linear out_of(const Model *m, const Block *w, int64_t rows, bool first)
{
    return linear_of(m, w, m->params->out_w, m->params->out_b, rows, model_config_outputs(&m->c),
                     m->c.activation, first);
}

static Linear pooler_of(const Model *m, const Block *w, int64_t rows, bool first)
{
    return linear_of(m, w, m->params->pooler_w, m->params->pooler_b, rows, m->c.n_embd, ACT_TANH,
                     first);
}

static Linear mlm_dense_of(const Model *m, const Block *w, int64_t rows, bool first)
{
    return linear_of(m, w, m->params->mlm_w, m->params->mlm_b, rows, m->c.n_embd, m->c.activation,
                     first);
}

static Norm mlm_norm_of(const Model *m)
{
    const ParamSet *p = m->params;
    const HeadActs *h = &m->heads;
    return (Norm){
        .w = p->mlm_norm_w, .b = p->mlm_norm_b, .x = h->act, .mean = h->mean, .rstd = h->rstd};
}

// Loss and hits of n rows of V logits each, Vp apart; or, with `grad`, loss and gradient in place.
static CrossEntropyArgs cross_entropy(const Model *m, void *logits, const int32_t *target,
                                      float *loss, float *hit, int64_t n, int64_t V, int64_t Vp,
                                      bool grad, float grad_scale)
{
    return (CrossEntropyArgs){.loss = loss,
                              .hit = grad ? NULL : hit,
                              .logits = logits,
                              .target = target,
                              .N = n,
                              .V = V,
                              .Vp = Vp,
                              .scale = grad ? m->loss_scale : NULL,
                              .grad_scale = grad_scale,
                              .want_grad = grad,
                              .dtype = m->prec.act};
}

// Dropout in front of a classifier, on the n rows that were read of the batch, in place; its own
// backward. Row i is the (i mod n/B)-th of its sample.
static Status dropout(const Model *m, OpCtx *cx, const ModelBatch *b, void *x, int64_t n, Err *err)
{
    const double p = m->c.dropout_residual;
    if (p == 0) return ERR_NONE;
    ASSERT(n % b->B == 0, "%lld rows of %lld samples", (long long)n, (long long)b->B);
    return op_dropout(cx,
                      &(DropoutArgs){.y = x,
                                     .x = x,
                                     .B = b->B,
                                     .T = n / b->B,
                                     .C = m->c.n_embd,
                                     .drop = part_drop(m, b, p, 0, RNG_DROP_HEAD, true),
                                     .dtype = m->prec.act},
                      err);
}

// ---- masked tokens ----------------------------------------------------------------------------

// m->heads.ln of all picked rows.
static Status mlm_forward(Model *m, OpCtx *cx, const ModelBatch *b, Err *err)
{
    const HeadActs *h = &m->heads;
    const Block w = part_take(m, last_block(m));
    const Linear dense = mlm_dense_of(m, &w, b->picks, false);
    const Norm norm = mlm_norm_of(m);
    TRY(gather(m, cx, b, h->row, b->pick_row, b->picks, err));
    TRY(linear_forward_act(&dense, cx, h->act, h->hid, h->row, NULL, err));
    const LayernormFwdArgs n = part_norm(m, &w, &norm, NULL, h->ln, b->picks, 1);
    TRY(op_layernorm_fwd(cx, &n, err));
    weights_give(&m->weights, last_block(m));
    return ERR_NONE;
}

// The output matrix with its bias, on n of the picked rows.
static Linear mlm_output_of(const Model *m, const Block *w, const Block *last, int64_t n,
                            bool first)
{
    Linear l = part_head(m, w, n, first);
    l.bias = block_weight(last, m->params->mlm_bias);
    l.db = block_grad(last, m->params->mlm_bias);
    return l;
}

// From m->heads.ln to losses, in chunks of rows; with hits, or with the gradients of ln
// (m->heads.dmid) and of the output matrix.
static Status mlm_loss(Model *m, OpCtx *cx, const ModelBatch *b, bool grad, float scale, bool first,
                       Err *err)
{
    const int64_t V = m->c.vocab_size, Vp = model_config_vocab_padded(&m->c);
    const Block w = part_take(m, part_head_block(m)), last = part_take(m, last_block(m));
    for (int64_t row = 0; row == 0 || row < b->picks; row += m->o.head_rows) {
        const int64_t n = LT_MIN(m->o.head_rows, b->picks - row);
        const size_t at = (size_t)(row * m->c.n_embd) * dtype_bytes(m->prec.act);
        const Linear out = mlm_output_of(m, &w, &last, n, first && row == 0);
        const char *ln = (const char *)m->heads.ln + at;
        TRY(linear_forward(&out, cx, m->logits, ln, err));
        const CrossEntropyArgs a = cross_entropy(m, m->logits, b->pick_target + row, m->loss + row,
                                                 m->hit + row, n, V, Vp, grad, scale);
        TRY(op_cross_entropy(cx, &a, err));
        if (grad) TRY(linear_backward(&out, cx, (char *)m->heads.dmid + at, m->logits, ln, err));
    }
    weights_give(&m->weights, last_block(m));
    weights_give(&m->weights, part_head_block(m));
    return ERR_NONE;
}

// m->heads.dmid [picks,C]: dln -> dact -> dhid; then drow, which is added to m->dlnf.
static Status mlm_backward(Model *m, OpCtx *cx, const ModelBatch *b, bool first, Err *err)
{
    const HeadActs *h = &m->heads;
    const Block w = part_take(m, last_block(m));
    const Norm norm = mlm_norm_of(m);
    const Linear dense = mlm_dense_of(m, &w, b->picks, first);
    const LayernormBwdArgs n =
        part_norm_backward(m, &w, &norm, h->drow, h->dmid, b->picks, 1, first);
    TRY(op_layernorm_bwd(cx, &n, err));
    TRY(op_act_bwd(cx,
                   &(ActBwdArgs){.dh = h->dmid,
                                 .dy = h->drow,
                                 .h = h->hid,
                                 .n = b->picks * m->c.n_embd,
                                 .act = m->c.activation,
                                 .dtype = m->prec.act},
                   err));
    TRY(linear_backward(&dense, cx, h->drow, h->dmid, h->row, err));
    weights_give(&m->weights, last_block(m));
    return add_to_dlnf(m, cx, b, h->drow, b->pick_row, b->picks, err);
}

// ---- sequences --------------------------------------------------------------------------------

Status bert_pool(Model *m, OpCtx *cx, const ModelBatch *b, Err *err)
{
    const HeadActs *h = &m->heads;
    const Block w = part_take(m, last_block(m));
    const Linear pooler = pooler_of(m, &w, b->seqs, false);
    TRY(gather(m, cx, b, h->seq, b->seq_row, b->seqs, err));
    TRY(linear_forward_act(&pooler, cx, h->pooled, h->pool, h->seq, NULL, err));
    weights_give(&m->weights, last_block(m));
    return ERR_NONE;
}

// m->heads.logits_seq
static Status seq_logits(Model *m, OpCtx *cx, const ModelBatch *b, bool train, Err *err)
{
    TRY(bert_pool(m, cx, b, err));
    if (train && m->c.head == HEAD_CLASSIFY) TRY(dropout(m, cx, b, m->heads.pooled, b->seqs, err));
    const Block w = part_take(m, last_block(m));
    const Linear out = out_of(m, &w, b->seqs, false);
    TRY(linear_forward(&out, cx, m->heads.logits_seq, m->heads.pooled, err));
    weights_give(&m->weights, last_block(m));
    return ERR_NONE;
}

static Status seq_loss(Model *m, OpCtx *cx, const ModelBatch *b, bool grad, float scale, Err *err)
{
    const int64_t n_out = model_config_outputs(&m->c);
    TRY(seq_logits(m, cx, b, grad, err));
    const CrossEntropyArgs a = cross_entropy(m, m->heads.logits_seq, b->seq_target, m->loss_seq,
                                             m->hit_seq, b->seqs, n_out, n_out, grad, scale);
    return op_cross_entropy(cx, &a, err);
}

static Status seq_backward(Model *m, OpCtx *cx, const ModelBatch *b, bool first, Err *err)
{
    const HeadActs *h = &m->heads;
    const Block w = part_take(m, last_block(m));
    const Linear out = out_of(m, &w, b->seqs, first), pooler = pooler_of(m, &w, b->seqs, first);
    TRY(linear_backward_act(&out, cx, h->dpool, h->logits_seq, h->pooled, h->pool, &pooler, err));
    if (m->c.head == HEAD_CLASSIFY) TRY(dropout(m, cx, b, h->dpool, b->seqs, err));
    TRY(linear_backward(&pooler, cx, h->dseq, h->dpool, h->seq, err));
    weights_give(&m->weights, last_block(m));
    return add_to_dlnf(m, cx, b, h->dseq, b->seq_row, b->seqs, err);
}

// ---- tags -------------------------------------------------------------------------------------

// m->logits [picks,n_labels]
static Status tag_logits(Model *m, OpCtx *cx, const ModelBatch *b, bool train, Err *err)
{
    TRY(gather(m, cx, b, m->heads.row, b->pick_row, b->picks, err));
    if (train) TRY(dropout(m, cx, b, m->heads.row, b->picks, err));
    const Block w = part_take(m, last_block(m));
    const Linear out = out_of(m, &w, b->picks, false);
    TRY(linear_forward(&out, cx, m->logits, m->heads.row, err));
    weights_give(&m->weights, last_block(m));
    return ERR_NONE;
}

static Status tag_loss(Model *m, OpCtx *cx, const ModelBatch *b, bool grad, float scale, Err *err)
{
    TRY(tag_logits(m, cx, b, grad, err));
    const CrossEntropyArgs a = cross_entropy(m, m->logits, b->pick_target, m->loss, m->hit,
                                             b->picks, m->c.n_labels, m->c.n_labels, grad, scale);
    return op_cross_entropy(cx, &a, err);
}

static Status tag_backward(Model *m, OpCtx *cx, const ModelBatch *b, bool first, Err *err)
{
    const HeadActs *h = &m->heads;
    const Block w = part_take(m, last_block(m));
    const Linear out = out_of(m, &w, b->picks, first);
    TRY(linear_backward(&out, cx, h->drow, m->logits, h->row, err));
    weights_give(&m->weights, last_block(m));
    TRY(dropout(m, cx, b, h->drow, b->picks, err));
    return add_to_dlnf(m, cx, b, h->drow, b->pick_row, b->picks, err);
}

// ---- ends of an answer ------------------------------------------------------------------------

// Three products with the logits [2,N], so that the rows of a sample are side by side:
// logits = W lnf^T, dlnf = dlogits^T W, dW = dlogits lnf.
static MatmulArgs qa_product(const Model *m, void *C, const void *A, const void *B, int64_t M,
                             int64_t N, int64_t K)
{
    return (MatmulArgs){.C = C,
                        .A = A,
                        .B = B,
                        .M = M,
                        .N = N,
                        .K = K,
                        .lda = K,
                        .ldb = N,
                        .ldc = N,
                        .ab_dtype = m->prec.act,
                        .c_dtype = m->prec.act};
}

static Status qa_loss(Model *m, OpCtx *cx, const ModelBatch *b, bool grad, float scale, Err *err)
{
    const int64_t N = b->B * b->T, C = m->c.n_embd;
    const Block w = part_take(m, last_block(m));
    MatmulArgs a = qa_product(m, m->logits, block_weight(&w, m->params->out_w), m->lnf, 2, N, C);
    a.trans_b = true;
    a.ldb = C;
    TRY(op_matmul(cx, &a, err));
    weights_give(&m->weights, last_block(m));
    const CrossEntropyArgs ce = cross_entropy(m, m->logits, b->span_target, m->loss, m->hit,
                                              2 * b->B, b->T, b->T, grad, scale);
    return op_cross_entropy(cx, &ce, err);
}

static Status qa_backward(Model *m, OpCtx *cx, const ModelBatch *b, bool first, Err *err)
{
    const int64_t N = b->B * b->T, C = m->c.n_embd;
    const ParamSet *p = m->params;
    const Block w = part_take(m, last_block(m));
    MatmulArgs a = qa_product(m, block_grad(&w, p->out_w), m->logits, m->lnf, 2, C, N);
    a.accumulate = !first;
    a.c_dtype = DTYPE_F32;
    TRY(op_matmul(cx, &a, err));
    if (first) TRY(part_zero(cx, block_grad(&w, p->out_b), 2 * sizeof(float), err));
    a = qa_product(m, m->dlnf, m->logits, block_weight(&w, p->out_w), N, C, 2);
    a.trans_a = true;
    a.lda = N;
    TRY(op_matmul(cx, &a, err));
    weights_give(&m->weights, last_block(m));
    return ERR_NONE;
}

// With the bias, [N,2].
static Status qa_scores(Model *m, OpCtx *cx, const ModelBatch *b, Err *err)
{
    const Block w = part_take(m, last_block(m));
    const Linear out = out_of(m, &w, b->B * b->T, false);
    TRY(linear_forward(&out, cx, m->logits, m->lnf, err));
    weights_give(&m->weights, last_block(m));
    return ERR_NONE;
}

// ---- all of them ------------------------------------------------------------------------------

// scale NULL: losses and hits, no gradients.
static Status losses(Model *m, OpCtx *cx, const ModelBatch *b, const ModelLossScale *scale,
                     bool first, Err *err)
{
    const bool grad = scale != NULL;
    const ModelLossScale s = scale ? *scale : (ModelLossScale){0};
    switch (m->c.head) {
    case HEAD_PRETRAIN:
        TRY(seq_loss(m, cx, b, grad, s.seq, err));
        TRY(mlm_forward(m, cx, b, err));
        return mlm_loss(m, cx, b, grad, s.row, first, err);
    case HEAD_MLM:
        TRY(mlm_forward(m, cx, b, err));
        return mlm_loss(m, cx, b, grad, s.row, first, err);
    case HEAD_CLASSIFY: return seq_loss(m, cx, b, grad, s.seq, err);
    case HEAD_TAG: return tag_loss(m, cx, b, grad, s.row, err);
    case HEAD_QA: return qa_loss(m, cx, b, grad, s.row, err);
    case HEAD_LM:
    case HEAD_NONE: break;
    }
    ASSERT(false, "head %d has no loss", (int)m->c.head);
    return ERR_NONE;
}

Status bert_heads_loss(Model *m, OpCtx *cx, const ModelBatch *b, Err *err)
{
    return losses(m, cx, b, NULL, false, err);
}

Status bert_heads_gradients(Model *m, OpCtx *cx, const ModelBatch *b, ModelLossScale scale,
                            bool first, Err *err)
{
    const size_t bytes = (size_t)(b->B * b->T * m->c.n_embd) * dtype_bytes(m->prec.act);
    const ModelHead head = m->c.head;
    TRY(losses(m, cx, b, &scale, first, err));
    if (head == HEAD_QA) return qa_backward(m, cx, b, first, err);
    TRY(part_zero(cx, m->dlnf, bytes, err));
    if (has_seqs(&m->c)) TRY(seq_backward(m, cx, b, first, err));
    if (model_config_has_mlm(&m->c)) TRY(mlm_backward(m, cx, b, first, err));
    if (head == HEAD_TAG) TRY(tag_backward(m, cx, b, first, err));
    return ERR_NONE;
}

static Status mlm_scores(Model *m, OpCtx *cx, const ModelBatch *b, Err *err)
{
    ASSERT(b->picks <= m->o.head_rows, "%lld rows of logits, room for %lld", (long long)b->picks,
           (long long)m->o.head_rows);
    TRY(mlm_forward(m, cx, b, err));
    const Block w = part_take(m, part_head_block(m)), last = part_take(m, last_block(m));
    const Linear out = mlm_output_of(m, &w, &last, b->picks, false);
    TRY(linear_forward(&out, cx, m->logits, m->heads.ln, err));
    weights_give(&m->weights, last_block(m));
    weights_give(&m->weights, part_head_block(m));
    return ERR_NONE;
}

Status bert_heads_scores(Model *m, OpCtx *cx, const ModelBatch *b, const void **rows,
                         const void **seqs, Err *err)
{
    *rows = m->logits; // NULL where a head has none
    *seqs = m->heads.logits_seq;
    if (has_seqs(&m->c)) TRY(seq_logits(m, cx, b, false, err));
    if (model_config_has_mlm(&m->c)) TRY(mlm_scores(m, cx, b, err));
    if (m->c.head == HEAD_TAG) TRY(tag_logits(m, cx, b, false, err));
    if (m->c.head == HEAD_QA) TRY(qa_scores(m, cx, b, err));
    return ERR_NONE;
}
