// lamb.c -- legality and cost of lamb.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ops/legal.h"
#include "kernels/ops.h"

static int64_t chunks_of(int64_t n)
{
    return n / LAMB_CHUNK + (n % LAMB_CHUNK != 0);
}

int64_t lamb_chunks(LambSegment *segment, int64_t n_segment)
{
    int64_t chunks = 0;
    for (int64_t i = 0; i < n_segment; i++) {
        segment[i].chunk = chunks;
        segment[i].chunks = (int32_t)chunks_of(segment[i].n);
        chunks += segment[i].chunks;
    }
    return chunks;
}

Status lamb_check(const LambArgs *a, Err *err)
{
    if (!legal_size(a->n, 1) || !legal_size(a->n_segment, 1) || !legal_size(a->n_chunk, 1))
        return err_set(err, ERR_USAGE, "n = %lld, %lld segments, %lld chunks", (long long)a->n,
                       (long long)a->n_segment, (long long)a->n_chunk);
    if (a->n_chunk > chunks_of(a->n) + a->n_segment)
        return err_set(err, ERR_USAGE, "%lld chunks of %lld segments in %lld elements",
                       (long long)a->n_chunk, (long long)a->n_segment, (long long)a->n);
    if (!a->gate) return err_set(err, ERR_USAGE, "gate is NULL");
    if (!(a->eps > 0)) return err_set(err, ERR_USAGE, "eps = %g; it must be positive", a->eps);
    if (!(a->beta1 >= 0 && a->beta1 < 1 && a->beta2 >= 0 && a->beta2 < 1))
        return err_set(err, ERR_USAGE, "beta1 = %g, beta2 = %g; [0, 1) is legal", a->beta1,
                       a->beta2);
    if (a->param) TRY(legal_type("param", a->param_dtype, err));
    if (a->n_chunk > 0 && (!a->w || !a->m || !a->v || !a->grad || !a->segment))
        return err_set(err, ERR_USAGE, "w, m, v, grad or segment is NULL");
    return ERR_NONE;
}

double lamb_flops(const LambArgs *a)
{
    return 22.0 * (double)a->n;
}

double lamb_bytes(const LambArgs *a)
{
    return (40.0 + (a->param ? (double)dtype_bytes(a->param_dtype) : 0)) * (double)a->n;
}
