// model_tokenizer.h -- the tokenizer a model was trained with: --tokenizer, or the model folder's
// own.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/config/options.h"
#include "engine/generate/loaded.h"
#include "tokenizer/tokenizer.h"

LT_C_BEGIN
// ERR_USAGE when its ids do not fit the model's vocabulary; the caller closes *out.
LT_MUST_CHECK Status model_tokenizer(Tokenizer **out, const Options *o, const Loaded *m, Err *err);
LT_C_END
