// scatter_rows_ref.c -- see kernels/ops/scatter_rows.h.
//
// SPDX-License-Identifier: MIT
#include "engine/base/assert.h"
#include "kernels/ref/ref.h"

Status scatter_rows_ref(const ScatterRowsArgs *a, OpCtx *cx, Err *err)
{
    (void)cx;
    (void)err;
    for (int64_t i = 0; i < a->n; i++) {
        const int64_t row = a->row[i];
        ASSERT(row >= -1 && row < a->N, "scatter_rows: row %lld of %lld", (long long)row,
               (long long)a->N);
        for (int64_t c = 0; row >= 0 && c < a->C; c++) {
            const float sum = dtype_load(a->out, a->dtype, row * a->C + c) +
                              dtype_load(a->x, a->dtype, i * a->C + c);
            dtype_store(a->out, a->dtype, row * a->C + c, sum);
        }
    }
    return ERR_NONE;
}
