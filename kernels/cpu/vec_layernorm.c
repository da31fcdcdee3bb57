// vec_layernorm.c -- layer normalisation with the residual add and dropout around it.
// Contracts: kernels/ops/layernorm_fwd.h, layernorm_bwd.h    Built once an instruction set (isa.h)
//
// WHAT    Forward: a row is read, added to, written and summed in one sweep; two more sweeps
//         (variance, result) find it in L1. Backward: one sweep for the two row averages and the
//         sums over rows, one for the results. The sums over rows go into one slot of scratch for
//         each of at most LN_CHUNKS fixed chunks of rows; the slots are then added in order:
//
//             rows 0..15   -> slot 0 [dweight | dbias] --+
//             rows 16..31  -> slot 1 [dweight | dbias] --+--> dweight, dbias
//             ...                                        |
//
//         Forward with FP8: blocks of LN_FP8_ROWS rows, first the statistics of all of them, then
//         the results tile by tile (vec_fp8.h), for the transpose takes many rows at once.
//
// COST    memory bound when rows come from memory: forward reads 1-2 and writes 1-2 rows a row,
//         backward 3 and 1-2.
// ROUND   f32; the variance is taken around the mean, not from the sum of squares.
// SHAPES  everything the contracts allow; chunks depend on N alone.
//
// SPDX-License-Identifier: MIT
#include "kernels/cpu/vec_fp8.h"
#include "kernels/cpu/vec_ops.h"
#include "kernels/cpu/vec_rng.h"

#include <math.h>

enum { LN_CHUNKS = 64, LN_MIN_ROWS = 16, LN_FP8_ROWS = 32 };

// ---- forward ------------------------------------------------------------------------------------

typedef struct Row {
    const void *in; // what the result is made from: x, or resid_out
    int64_t at;     // its first element
    float mean, rstd;
} Row;

// The residual, and the statistics of row n.
static Row statistics(const LayernormFwdArgs *a, int64_t n)
{
    const int64_t C = a->C, row = n * C, full = C / VL * VL, left = C - full;
    const bool drop = a->add && a->drop.p > 0;
    const VecDrop d = drop ? vec_drop(&a->drop, n / a->T, 0) : (VecDrop){0};
    VecDropRow dr = {.d = drop ? &d : NULL, .row = drop ? (uint32_t)(a->row0 + n % a->T) : 0};
    const void *in = a->x;
    VecF sum = vec_set(0);
    if (a->resid_out) {
        for (int64_t c = 0; c < C; c += VL) {
            VecF r = vec_load_as_n(a->x, a->x_dtype, row + c, C - c, 0);
            if (a->add)
                r += vec_drop_next(&dr, c, vec_load_as_n(a->add, a->add_dtype, row + c, C - c, 0));
            vec_store_as_n(a->resid_out, a->x_dtype, row + c, C - c, r);
            sum += vec_round_as(r, a->x_dtype);
        }
        in = a->resid_out;
    } else {
        for (int64_t c = 0; c < C; c += VL) sum += vec_load_as_n(in, a->x_dtype, row + c, C - c, 0);
    }
    const float mean = vec_sum(sum) / (float)C;
    VecF sq = vec_set(0);
    for (int64_t c = 0; c < full; c += VL) {
        const VecF x = vec_load_as(in, a->x_dtype, row + c) - mean;
        sq += x * x;
    }
    if (left) {
        const VecF x = vec_load_as_n(in, a->x_dtype, row + full, left, mean) - mean;
        sq += x * x;
    }
    const float rstd = 1.0f / sqrtf(vec_sum(sq) / (float)C + a->eps);
    if (a->mean) a->mean[n] = mean;
    if (a->rstd) a->rstd[n] = rstd;
    return (Row){in, row, mean, rstd};
}

LT_INLINE VecF result(const LayernormFwdArgs *a, const Row *r, int64_t c)
{
    const int64_t left = a->C - c;
    const VecF x = vec_load_as_n(r->in, a->x_dtype, r->at + c, left, 0);
    const VecF w = vec_load_as_n(a->weight, a->w_dtype, c, left, 0);
    const VecF b = a->bias ? vec_load_as_n(a->bias, a->w_dtype, c, left, 0) : vec_set(0);
    return (x - r->mean) * r->rstd * w + b;
}

static void forward_row(const LayernormFwdArgs *a, int64_t n)
{
    const Row r = statistics(a, n);
    for (int64_t c = 0; c < a->C; c += VL)
        vec_store_as_n(a->out, a->out_dtype, r.at + c, a->C - c, result(a, &r, c));
}

LT_INLINE void results_as_fp8(const LayernormFwdArgs *a, const Row *r, int64_t c0, int64_t cols,
                              VecFp8 *seen, uint8_t *bytes, DType fp8)
{
    for (int64_t c = c0; c < c0 + cols; c += VL) {
        const int64_t left = a->C - c;
        VecF y = result(a, r, c);
        if (a->out) vec_store_as_n(a->out, a->out_dtype, r->at + c, left, y);
        y = vec_round_as(y, a->out_dtype);
        if (left < VL) y = vec_select((VecI)(vec_iota() < (uint32_t)left), y, vec_set(0));
        vec_store_bytes(bytes + (c - c0), vec_fp8_put(seen, y, fp8));
    }
}

// Rows of one block: all statistics, then tile after tile of results.
static Fp8Seen forward_block(const LayernormFwdArgs *a, int64_t n0)
{
    const int64_t rows = LT_MIN(a->N - n0, LN_FP8_ROWS);
    VecFp8 seen = vec_fp8_begin(&a->q);
    Row row[LN_FP8_ROWS];
    Fp8Tile tile;
    for (int64_t i = 0; i < rows; i++) row[i] = statistics(a, n0 + i);
    for (int64_t c = 0; c < a->C; c += FP8_COLS) {
        const int64_t cols = LT_MIN(a->C - c, FP8_COLS);
        for (int64_t i = 0; i < rows; i++) {
            if (a->q.dtype == DTYPE_E4M3)
                results_as_fp8(a, &row[i], c, cols, &seen, tile.byte[i], DTYPE_E4M3);
            else
                results_as_fp8(a, &row[i], c, cols, &seen, tile.byte[i], DTYPE_E5M2);
        }
        fp8_tile_store(&a->q, &tile, n0, rows, c, cols, a->N);
    }
    return vec_fp8_end(&seen);
}

static int64_t fp8_blocks(const LayernormFwdArgs *a)
{
    return a->q.scale ? (a->N + LN_FP8_ROWS - 1) / LN_FP8_ROWS : 0;
}

size_t ISA_NAME(vec_layernorm_fwd_scratch)(const LayernormFwdArgs *a, const OpCtx *cx)
{
    (void)cx;
    return (size_t)fp8_blocks(a) * sizeof(Fp8Seen); // what each block saw
}

Status ISA_NAME(vec_layernorm_fwd)(const LayernormFwdArgs *a, OpCtx *cx, Err *err)
{
    (void)err;
    if (!a->q.scale) {
#pragma omp parallel for num_threads(cx->device->threads) schedule(static) if (a->N > 1)
        for (int64_t n = 0; n < a->N; n++) forward_row(a, n);
        return ERR_NONE;
    }
    const int64_t blocks = fp8_blocks(a);
    Fp8Seen *seen = cx->scratch;
#pragma omp parallel for num_threads(cx->device->threads) schedule(static) if (blocks > 1)
    for (int64_t i = 0; i < blocks; i++) seen[i] = forward_block(a, i * LN_FP8_ROWS);
    if (blocks > 0) fp8_publish(&a->q, seen, blocks);
    return ERR_NONE;
}

// ---- backward -----------------------------------------------------------------------------------

static int64_t rows_per_chunk(int64_t N)
{
    return LT_MAX(LN_MIN_ROWS, (N + LN_CHUNKS - 1) / LN_CHUNKS);
}
static int64_t padded(int64_t C)
{
    return LT_ROUND_UP(C, VL);
}

static void backward_row(const LayernormBwdArgs *a, int64_t n, float *dw, float *db)
{
    const int64_t C = a->C, row = n * C;
    const float mean = a->mean[n], rstd = a->rstd[n];
    VecF sum_g = vec_set(0), sum_gx = vec_set(0);
    for (int64_t c = 0; c < C; c += VL) {
        const int64_t left = C - c;
        const VecF dy = vec_load_as_n(a->dy, a->dy_dtype, row + c, left, 0);
        const VecF xh = (vec_load_as_n(a->x, a->x_dtype, row + c, left, mean) - mean) * rstd;
        const VecF g = dy * vec_load_as_n(a->weight, a->w_dtype, c, left, 0);
        vec_store(dw + c, vec_load(dw + c) + dy * xh);
        vec_store(db + c, vec_load(db + c) + dy);
        sum_g += g;
        sum_gx += g * xh;
    }
    const float avg_g = vec_sum(sum_g) / (float)C, avg_gx = vec_sum(sum_gx) / (float)C;
    const bool drop = a->dadd && a->drop.p > 0;
    const VecDrop d = drop ? vec_drop(&a->drop, n / a->T, 0) : (VecDrop){0};
    VecDropRow dr = {.d = drop ? &d : NULL, .row = drop ? (uint32_t)(n % a->T) : 0};
    for (int64_t c = 0; c < C; c += VL) {
        const int64_t left = C - c;
        const VecF dy = vec_load_as_n(a->dy, a->dy_dtype, row + c, left, 0);
        const VecF xh = (vec_load_as_n(a->x, a->x_dtype, row + c, left, 0) - mean) * rstd;
        const VecF g = dy * vec_load_as_n(a->weight, a->w_dtype, c, left, 0);
        VecF dx = (g - avg_g - xh * avg_gx) * rstd;
        if (a->dresid_in) dx += vec_load_as_n(a->dresid_in, a->dresid_dtype, row + c, left, 0);
        vec_store_as_n(a->dresid, a->dresid_dtype, row + c, left, dx);
        if (a->dadd)
            vec_store_as_n(a->dadd, a->dadd_dtype, row + c, left, vec_drop_next(&dr, c, dx));
    }
}

// dst[c] (+)= sum over chunks of part[chunk][c]
static void add_chunks(float *dst, const float *part, int64_t stride, int64_t chunks, int64_t c,
                       const LayernormBwdArgs *a)
{
    VecF sum = vec_set(0);
    for (int64_t k = 0; k < chunks; k++) sum += vec_load(part + k * stride + c);
    const int64_t left = a->C - c;
    if (a->accumulate) sum += vec_load_as_n(dst, DTYPE_F32, c, left, 0);
    vec_store_as_n(dst, DTYPE_F32, c, left, sum);
}

size_t ISA_NAME(vec_layernorm_bwd_scratch)(const LayernormBwdArgs *a, const OpCtx *cx)
{
    (void)cx;
    const int64_t rows = rows_per_chunk(a->N);
    return (size_t)((a->N + rows - 1) / rows * 2 * padded(a->C)) * sizeof(float);
}

Status ISA_NAME(vec_layernorm_bwd)(const LayernormBwdArgs *a, OpCtx *cx, Err *err)
{
    (void)err;
    const int64_t Cp = padded(a->C), rows = rows_per_chunk(a->N), chunks = (a->N + rows - 1) / rows;
    float *part = cx->scratch;
#pragma omp parallel num_threads(cx->device->threads)
    {
#pragma omp for schedule(static)
        for (int64_t k = 0; k < chunks; k++) {
            float *dw = part + k * 2 * Cp;
            memset(dw, 0, (size_t)(2 * Cp) * sizeof *dw);
            for (int64_t n = k * rows; n < LT_MIN((k + 1) * rows, a->N); n++)
                backward_row(a, n, dw, dw + Cp);
        }
#pragma omp for schedule(static)
        for (int64_t c = 0; c < a->C; c += VL) {
            add_chunks(a->dweight, part, 2 * Cp, chunks, c, a);
            if (a->dbias) add_chunks(a->dbias, part + Cp, 2 * Cp, chunks, c, a);
        }
    }
    return ERR_NONE;
}
