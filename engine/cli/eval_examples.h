// eval_examples.h -- `lathe eval --data.val=FILE`: a fine-tuned model on labelled examples.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/config/options.h"
#include "engine/generate/loaded.h"

LT_C_BEGIN
// One line on stdout: loss, accuracy (exact match of answers), F1.
LT_MUST_CHECK Status eval_examples(const Options *o, const Loaded *m, Backend *b, Err *err);
LT_C_END
