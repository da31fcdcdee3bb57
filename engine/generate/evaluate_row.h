// evaluate_row.h -- internal to the evaluate_*.c files: one sample through the model.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/generate/evaluate.h"

LT_C_BEGIN
// Sum of the counted losses of one sample of T <= e->block tokens; the losses are left in e->loss.
LT_MUST_CHECK Status evaluate_row(Evaluator *e, int64_t T, const int32_t *input,
                                  const int32_t *target, double *nats, Err *err);
LT_C_END
