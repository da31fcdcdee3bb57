// gather_rows_ref.c -- see kernels/ops/gather_rows.h.
//
// SPDX-License-Identifier: MIT
#include "engine/base/assert.h"
#include "kernels/ref/ref.h"

#include <string.h>

Status gather_rows_ref(const GatherRowsArgs *a, OpCtx *cx, Err *err)
{
    (void)cx;
    (void)err;
    const size_t bytes = (size_t)a->C * dtype_bytes(a->dtype);
    for (int64_t i = 0; i < a->n; i++) {
        const int64_t row = a->row[i];
        ASSERT(row >= -1 && row < a->N, "gather_rows: row %lld of %lld", (long long)row,
               (long long)a->N);
        char *out = (char *)a->out + (size_t)i * bytes;
        if (row < 0)
            memset(out, 0, bytes);
        else
            memcpy(out, (const char *)a->x + (size_t)row * bytes, bytes);
    }
    return ERR_NONE;
}
