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
// COST    memory bound when rows come from memory: forward reads 1-2 and writes 1-2 rows a row,
//         backward 3 and 1-2.
// ROUND   f32; the variance is taken around the mean, not from the sum of squares.
// SHAPES  everything the contracts allow; chunks depend on N alone.
//
// SPDX-License-Identifier: MIT
#include "kernels/cpu/vec_ops.h"
#include "kernels/cpu/vec_rng.h"

#include <math.h>

enum { LN_CHUNKS = 64, LN_MIN_ROWS = 16 };

static void forward_row(const LayernormFwdArgs *a, int64_t n)
{
    const int64_t C = a->C, row = n * C, full = C / VL * VL, left = C - full;
    const bool    drop = a->add && a->drop.p > 0;
    const VecDrop d    = drop ? vec_drop(&a->drop, n / a->T, 0) : (VecDrop){0};
    VecDropRow    dr   = {.d = drop ? &d : NULL, .row = drop ? (uint32_t)(a->row0 + n % a->T) : 0};
    const void   *in   = a->x; // what the statistics and the result read
    VecF          sum  = vec_set(0);
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
    VecF        sq   = vec_set(0);
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
    for (int64_t c = 0; c < C; c += VL) {
        const VecF x = vec_load_as_n(in, a->x_dtype, row + c, C - c, 0);
        const VecF w = vec_load_as_n(a->weight, a->w_dtype, c, C - c, 0);
        const VecF b = a->bias ? vec_load_as_n(a->bias, a->w_dtype, c, C - c, 0) : vec_set(0);
        vec_store_as_n(a->out, a->out_dtype, row + c, C - c, (x - mean) * rstd * w + b);
    }
}

Status ISA_NAME(vec_layernorm_fwd)(const LayernormFwdArgs *a, OpCtx *cx, Err *err)
{
    (void)err;
#pragma omp parallel for num_threads(cx->device->threads) schedule(static) if (a->N > 1)
    for (int64_t n = 0; n < a->N; n++) forward_row(a, n);
    return ERR_NONE;
}

// ---- backward -----------------------------------------------------------------------------------

static int64_t rows_per_chunk(int64_t N)
{
    return LT_MAX(LN_MIN_ROWS, (N + LN_CHUNKS - 1) / LN_CHUNKS);
}
static int64_t padded(int64_t C) { return (C + VL - 1) / VL * VL; }

static void backward_row(const LayernormBwdArgs *a, int64_t n, float *dw, float *db)
{
    const int64_t C = a->C, row = n * C;
    const float   mean = a->mean[n], rstd = a->rstd[n];
    VecF          sum_g = vec_set(0), sum_gx = vec_set(0);
    for (int64_t c = 0; c < C; c += VL) {
        const int64_t left = C - c;
        const VecF    dy   = vec_load_as_n(a->dy, a->dy_dtype, row + c, left, 0);
        const VecF    xh   = (vec_load_as_n(a->x, a->x_dtype, row + c, left, mean) - mean) * rstd;
        const VecF    g    = dy * vec_load_as_n(a->weight, a->w_dtype, c, left, 0);
        vec_store(dw + c, vec_load(dw + c) + dy * xh);
        vec_store(db + c, vec_load(db + c) + dy);
        sum_g += g;
        sum_gx += g * xh;
    }
    const float   avg_g = vec_sum(sum_g) / (float)C, avg_gx = vec_sum(sum_gx) / (float)C;
    const bool    drop = a->dadd && a->drop.p > 0;
    const VecDrop d    = drop ? vec_drop(&a->drop, n / a->T, 0) : (VecDrop){0};
    VecDropRow    dr   = {.d = drop ? &d : NULL, .row = drop ? (uint32_t)(n % a->T) : 0};
    for (int64_t c = 0; c < C; c += VL) {
        const int64_t left = C - c;
        const VecF    dy   = vec_load_as_n(a->dy, a->dy_dtype, row + c, left, 0);
        const VecF    xh   = (vec_load_as_n(a->x, a->x_dtype, row + c, left, 0) - mean) * rstd;
        const VecF    g    = dy * vec_load_as_n(a->weight, a->w_dtype, c, left, 0);
        VecF          dx   = (g - avg_g - xh * avg_gx) * rstd;
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
    float        *part = cx->scratch;
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
