// bert_heads.h -- internal to bert.c and model.c: from the trunk's output m->lnf to losses, and the
// gradient m->dlnf back.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/model/model.h"

LT_C_BEGIN
// Losses, logits and what the heads keep for their backward pass.
void bert_heads_build(Model *m, Arena *step);
// m->loss, m->loss_seq and hits.
LT_MUST_CHECK Status bert_heads_loss(Model *m, OpCtx *cx, const ModelBatch *b, Err *err);
// Losses, m->dlnf, and the gradients of the heads' parameters.
LT_MUST_CHECK Status bert_heads_gradients(Model *m, OpCtx *cx, const ModelBatch *b,
                                          ModelLossScale scale, bool first, Err *err);
// m->heads.pooled
LT_MUST_CHECK Status bert_pool(Model *m, OpCtx *cx, const ModelBatch *b, Err *err);
LT_MUST_CHECK Status bert_heads_scores(Model *m, OpCtx *cx, const ModelBatch *b, const void **rows,
                                       const void **seqs, Err *err);
LT_C_END
