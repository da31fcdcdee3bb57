// dist.h -- ranks: sums over all of them, and who I am.
//
// Norms, counts, losses and gradients go through these calls even with one rank, so that more ranks
// are another file (chosen by CMake), not another trainer. With one rank every call returns at
// once.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include "engine/base/err.h"
#include "kernels/ops.h"

typedef struct Dist {
    int rank, ranks;
} Dist;

LT_C_BEGIN
LT_MUST_CHECK Status dist_open(Dist *d, Err *err);
void dist_close(Dist *d);
// Sums over all ranks, in rank order, in place; the same bits on every rank.
LT_MUST_CHECK Status dist_sum_f64(const Dist *d, double *x, int n, Err *err);
LT_MUST_CHECK Status dist_sum_i64(const Dist *d, int64_t *x, int n, Err *err);
// The same for n numbers in device memory, queued.
LT_MUST_CHECK Status dist_sum_device(const Dist *d, OpCtx *cx, double *x, int n, Err *err);
// The same for n gradients in device memory.
LT_MUST_CHECK Status dist_sum_grads(const Dist *d, OpCtx *cx, float *grads, int64_t n, Err *err);
LT_C_END
