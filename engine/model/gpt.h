// gpt.h -- internal to model.c: the decoder's side of model.h.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/model/model.h"

LT_C_BEGIN
LT_MUST_CHECK Status gpt_loss(Model *m, OpCtx *cx, const ModelBatch *b, Err *err);
LT_MUST_CHECK Status gpt_logits(Model *m, OpCtx *cx, const ModelBatch *b, const void **logits,
                                Err *err);
LT_MUST_CHECK Status gpt_gradients(Model *m, OpCtx *cx, const ModelBatch *b, float scale,
                                   bool first, Err *err);
LT_C_END
