// model_hf.h -- a ModelConfig from a Hugging Face config.json, and back.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "checkpoints/hf.h"
#include "engine/model/model_config.h"

LT_C_BEGIN
// ERR_UNSUPPORTED names what lathe cannot run.
LT_MUST_CHECK Status model_from_hf(ModelConfig *c, const HfConfig *hf, Err *err);
// end_token: the tokenizer's, -1 for none; not of BERT. dtype: of the saved weights. Labels are
// LABEL_0, LABEL_1 ..., the token of padding is 0: the caller puts in what it knows better.
void model_to_hf(HfConfig *hf, const ModelConfig *c, int64_t end_token, DType dtype);
LT_C_END
