// bert.h -- internal to model.c: the encoder's side of model.h.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/model/model.h"

LT_C_BEGIN
LT_MUST_CHECK Status bert_loss(Model *m, OpCtx *cx, const ModelBatch *b, Err *err);
LT_MUST_CHECK Status bert_gradients(Model *m, OpCtx *cx, const ModelBatch *b, ModelLossScale scale,
                                    bool first, Err *err);
LT_MUST_CHECK Status bert_embed(Model *m, OpCtx *cx, const ModelBatch *b, const void **rows,
                                const void **pooled, Err *err);
LT_MUST_CHECK Status bert_scores(Model *m, OpCtx *cx, const ModelBatch *b, const void **rows,
                                 const void **seqs, Err *err);
LT_C_END
