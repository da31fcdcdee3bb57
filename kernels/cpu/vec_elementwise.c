// vec_elementwise.c -- embeddings, chosen rows, dropout, column sums, sum of squares, casts.
// Contracts: kernels/ops/embedding_fwd.h, embedding_bwd.h, gather_rows.h, scatter_rows.h,
// dropout.h, bias_bwd.h, sum_squares.h, cast.h    Built once an instruction set (isa.h)
//
// WHAT    One pass, vectors of f32 in registers. How each is shared among threads:
//
//             embedding_fwd, dropout   rows
//             gather_rows              rows
//             scatter_rows             rows: those of a call are distinct
//             embedding_bwd            columns: a table row may be hit by any n, in the order of n
//             bias_bwd                 columns, SUM_COLS vectors wide; rows in runs of SUM_ROWS
//             sum_squares              chunks of SQ_CHUNK, a double each in scratch, added in order
//             cast                     chunks of CAST_CHUNK
//
// COST    memory bound, all of them, but for dropout: Philox takes ten rounds for four elements.
// ROUND   f32; sum_squares in double.
// SHAPES  everything the contracts allow. Pieces of work have a fixed size or do not share a sum.
//
// SPDX-License-Identifier: MIT
#include "engine/base/assert.h"
#include "kernels/cpu/vec_ops.h"
#include "kernels/cpu/vec_rng.h"

// ---- embedding ----------------------------------------------------------------------------------

// A token outside the table would be read, and worse, written, somewhere else.
LT_INLINE int64_t row_at(int64_t id, int64_t rows)
{
    ASSERT(id >= 0 && id < rows, "embedding: token %lld of %lld", (long long)id, (long long)rows);
    return id;
}

Status ISA_NAME(vec_embedding_fwd)(const EmbeddingFwdArgs *a, OpCtx *cx, Err *err)
{
    (void)err;
    const DType wt = a->w_dtype;
#pragma omp parallel for num_threads(cx->device->threads) schedule(static) if (a->N > 1)
    for (int64_t n = 0; n < a->N; n++) {
        const int64_t pos  = a->position ? a->position[n] : a->position0 + n % a->T;
        const int64_t te   = row_at(a->token[n], a->V) * a->C, pe = pos * a->C;
        const int64_t type = a->type ? a->type[n] * a->C : 0;
        for (int64_t c = 0; c < a->C; c += VL) {
            const int64_t left = a->C - c;
            VecF          x    = vec_load_as_n(a->wte, wt, te + c, left, 0);
            if (a->wpe) x += vec_load_as_n(a->wpe, wt, pe + c, left, 0);
            if (a->wtt) x += vec_load_as_n(a->wtt, wt, type + c, left, 0);
            vec_store_as_n(a->out, a->out_dtype, n * a->C + c, left, x);
        }
    }
    return ERR_NONE;
}

LT_INLINE void add_row(float *dst, const EmbeddingBwdArgs *a, int64_t n, int64_t c0, int64_t c1)
{
    for (int64_t c = c0; c < c1; c += VL) {
        const VecF x = vec_load_as_n(a->dout, a->dout_dtype, n * a->C + c, c1 - c, 0);
        if (c1 - c >= VL)
            vec_store(dst + c, vec_load(dst + c) + x);
        else
            vec_store_n(dst + c, vec_load_n(dst + c, c1 - c, 0) + x, c1 - c);
    }
}

// A thread owns columns, so each element is summed in the order of n.
Status ISA_NAME(vec_embedding_bwd)(const EmbeddingBwdArgs *a, OpCtx *cx, Err *err)
{
    (void)err;
    const int64_t vecs = (a->C + VL - 1) / VL, parts = LT_MIN(cx->device->threads, vecs);
#pragma omp parallel for num_threads(cx->device->threads) schedule(static)
    for (int64_t p = 0; p < parts; p++) {
        const int64_t c0 = vecs * p / parts * VL, c1 = LT_MIN(vecs * (p + 1) / parts * VL, a->C);
        for (int64_t n = 0; n < a->N; n++) {
            const int64_t pos = a->position ? a->position[n] : n % a->T;
            if (a->dwte) add_row(a->dwte + row_at(a->token[n], a->V) * a->C, a, n, c0, c1);
            if (a->dwpe) add_row(a->dwpe + pos * a->C, a, n, c0, c1);
            if (a->dwtt) add_row(a->dwtt + (a->type ? a->type[n] * a->C : 0), a, n, c0, c1);
        }
    }
    return ERR_NONE;
}

// ---- chosen rows --------------------------------------------------------------------------------

LT_INLINE int64_t chosen_row(const int32_t *row, int64_t i, int64_t N)
{
    ASSERT(row[i] >= -1 && row[i] < N, "row %lld of %lld", (long long)row[i], (long long)N);
    return row[i];
}

Status ISA_NAME(vec_gather_rows)(const GatherRowsArgs *a, OpCtx *cx, Err *err)
{
    (void)err;
    const size_t bytes = (size_t)a->C * dtype_bytes(a->dtype);
#pragma omp parallel for num_threads(cx->device->threads) schedule(static) if (a->n > 1)
    for (int64_t i = 0; i < a->n; i++) {
        const int64_t row = chosen_row(a->row, i, a->N);
        char         *out = (char *)a->out + (size_t)i * bytes;
        if (row < 0)
            memset(out, 0, bytes);
        else
            memcpy(out, (const char *)a->x + (size_t)row * bytes, bytes);
    }
    return ERR_NONE;
}

Status ISA_NAME(vec_scatter_rows)(const ScatterRowsArgs *a, OpCtx *cx, Err *err)
{
    (void)err;
#pragma omp parallel for num_threads(cx->device->threads) schedule(static) if (a->n > 1)
    for (int64_t i = 0; i < a->n; i++) {
        const int64_t row = chosen_row(a->row, i, a->N) * a->C, C = a->C;
        for (int64_t c = 0; row >= 0 && c < C; c += VL) {
            const VecF x = vec_load_as_n(a->x, a->dtype, i * C + c, C - c, 0);
            const VecF y = vec_load_as_n(a->out, a->dtype, row + c, C - c, 0);
            vec_store_as_n(a->out, a->dtype, row + c, C - c, y + x);
        }
    }
    return ERR_NONE;
}

// ---- dropout ------------------------------------------------------------------------------------

Status ISA_NAME(vec_dropout)(const DropoutArgs *a, OpCtx *cx, Err *err)
{
    (void)err;
#pragma omp parallel for num_threads(cx->device->threads) schedule(static) if (a->B * a->T > 1)
    for (int64_t n = 0; n < a->B * a->T; n++) {
        const bool    on = a->drop.p > 0;
        const VecDrop d  = on ? vec_drop(&a->drop, n / a->T, 0) : (VecDrop){0};
        VecDropRow    r  = {.d = on ? &d : NULL, .row = (uint32_t)(a->row0 + n % a->T)};
        for (int64_t c = 0; c < a->C; c += VL) {
            const VecF x = vec_load_as_n(a->x, a->dtype, n * a->C + c, a->C - c, 0);
            vec_store_as_n(a->y, a->dtype, n * a->C + c, a->C - c, vec_drop_next(&r, c, x));
        }
    }
    return ERR_NONE;
}

// ---- column sums --------------------------------------------------------------------------------

enum { SUM_COLS = 8, SUM_ROWS = 128 }; // vectors of columns a task owns; rows summed in one go

static void sum_columns(const BiasBwdArgs *a, int64_t c0)
{
    const int64_t full = LT_MIN((a->C - c0) / VL, SUM_COLS);
    const int64_t tail = LT_MIN(a->C - c0 - full * VL, VL);
    VecF          total[SUM_COLS] = {{0}};
    for (int64_t n0 = 0; n0 < a->N; n0 += SUM_ROWS) {
        VecF s[SUM_COLS] = {{0}};
        for (int64_t n = n0; n < LT_MIN(n0 + SUM_ROWS, a->N); n++) {
            const int64_t at = n * a->C + c0;
            if (full == SUM_COLS) {
                for (int k = 0; k < SUM_COLS; k++)
                    s[k] += vec_load_as(a->dy, a->dtype, at + k * VL);
                continue;
            }
            for (int64_t k = 0; k < full; k++) s[k] += vec_load_as(a->dy, a->dtype, at + k * VL);
            if (tail > 0) s[full] += vec_load_as_n(a->dy, a->dtype, at + full * VL, tail, 0);
        }
        for (int k = 0; k < SUM_COLS; k++) total[k] += s[k];
    }
    for (int64_t k = 0; k < SUM_COLS && c0 + k * VL < a->C; k++) {
        const int64_t n   = LT_MIN(a->C - c0 - k * VL, VL);
        float        *db  = a->db + c0 + k * VL;
        const VecF    old = a->accumulate ? vec_load_as_n(db, DTYPE_F32, 0, n, 0) : vec_set(0);
        vec_store_as_n(db, DTYPE_F32, 0, n, old + total[k]);
    }
}

Status ISA_NAME(vec_bias_bwd)(const BiasBwdArgs *a, OpCtx *cx, Err *err)
{
    (void)err;
#pragma omp parallel for num_threads(cx->device->threads) schedule(static)
    for (int64_t c0 = 0; c0 < a->C; c0 += SUM_COLS * VL) sum_columns(a, c0);
    return ERR_NONE;
}

// ---- sum of squares -----------------------------------------------------------------------------

enum { SQ_CHUNK = 1 << 16, SQ_LANES = LATHE_VB / 8, SQ_ACC = 4 };

typedef double VecD __attribute__((vector_size(LATHE_VB)));
typedef float  VecFHalfMem __attribute__((vector_size(LATHE_VB / 2), aligned(4), may_alias));

static double squares(const SumSquaresArgs *a, int64_t i0, int64_t i1)
{
    enum { STEP = SQ_ACC * SQ_LANES };
    VecD    acc[SQ_ACC] = {{0}};
    int64_t i           = i0;
    for (; i + STEP <= i1; i += STEP) {
        float        wide[STEP];
        const float *x = (const float *)a->x + i;
        if (a->dtype != DTYPE_F32) {
            for (int k = 0; k < STEP; k += VL)
                vec_store(wide + k, vec_load_as(a->x, a->dtype, i + k));
            x = wide;
        }
        for (int k = 0; k < SQ_ACC; k++) {
            const VecD d = __builtin_convertvector(*(const VecFHalfMem *)(x + k * SQ_LANES), VecD);
            acc[k] += d * d;
        }
    }
    const VecD all = (acc[0] + acc[1]) + (acc[2] + acc[3]);
    double     sum = 0;
    for (int k = 0; k < SQ_LANES; k++) sum += all[k];
    for (; i < i1; i++) {
        const double d = (double)dtype_load(a->x, a->dtype, i);
        sum += d * d;
    }
    return sum;
}

size_t ISA_NAME(vec_sum_squares_scratch)(const SumSquaresArgs *a, const OpCtx *cx)
{
    (void)cx;
    return (size_t)((a->n + SQ_CHUNK - 1) / SQ_CHUNK) * sizeof(double);
}

Status ISA_NAME(vec_sum_squares)(const SumSquaresArgs *a, OpCtx *cx, Err *err)
{
    (void)err;
    const int64_t chunks = (a->n + SQ_CHUNK - 1) / SQ_CHUNK;
    double       *part   = cx->scratch;
#pragma omp parallel for num_threads(cx->device->threads) schedule(static) if (chunks > 1)
    for (int64_t k = 0; k < chunks; k++)
        part[k] = squares(a, k * SQ_CHUNK, LT_MIN((k + 1) * SQ_CHUNK, a->n));
    double sum = a->accumulate ? *a->out : 0;
    for (int64_t k = 0; k < chunks; k++) sum += part[k];
    *a->out = sum;
    return ERR_NONE;
}

// ---- cast ---------------------------------------------------------------------------------------

enum { CAST_CHUNK = 1 << 15 };

LT_INLINE void cast_run(const CastArgs *a, DType to, DType from, int64_t i0, int64_t i1)
{
    int64_t i = i0;
    for (; i + VL <= i1; i += VL) vec_store_as(a->dst, to, i, vec_load_as(a->src, from, i));
    if (i < i1) vec_store_as_n(a->dst, to, i, i1 - i, vec_load_as_n(a->src, from, i, i1 - i, 0));
}

Status ISA_NAME(vec_cast)(const CastArgs *a, OpCtx *cx, Err *err)
{
    (void)err;
    const size_t bytes = dtype_bytes(a->src_dtype);
#pragma omp parallel for num_threads(cx->device->threads) schedule(static) if (a->n > CAST_CHUNK)
    for (int64_t i0 = 0; i0 < a->n; i0 += CAST_CHUNK) {
        const int64_t i1 = LT_MIN(i0 + CAST_CHUNK, a->n);
        if (a->dst_dtype == a->src_dtype)
            memcpy((char *)a->dst + (size_t)i0 * bytes, (const char *)a->src + (size_t)i0 * bytes,
                   (size_t)(i1 - i0) * bytes);
        else if (a->dst_dtype == DTYPE_BF16 && a->src_dtype == DTYPE_F32)
            cast_run(a, DTYPE_BF16, DTYPE_F32, i0, i1);
        else if (a->dst_dtype == DTYPE_F32 && a->src_dtype == DTYPE_BF16)
            cast_run(a, DTYPE_F32, DTYPE_BF16, i0, i1);
        else if (a->dst_dtype == DTYPE_F16 && a->src_dtype == DTYPE_F32)
            cast_run(a, DTYPE_F16, DTYPE_F32, i0, i1);
        else if (a->dst_dtype == DTYPE_F32 && a->src_dtype == DTYPE_F16)
            cast_run(a, DTYPE_F32, DTYPE_F16, i0, i1);
        else
            cast_run(a, a->dst_dtype, a->src_dtype, i0, i1);
    }
    return ERR_NONE;
}
