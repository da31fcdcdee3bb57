// vec_adamw.c -- AdamW in one pass over w, m, v and the gradient.
// Contract: kernels/ops/adamw.h    Built once an instruction set (isa.h)
//
// WHAT    m and v are updated, and w from them while they are in registers:
//
//             grad -> [g] --+--> m --+
//                           +--> v --+--> w --> param, rounded
//
//         Bias corrections, learning rate and decay are folded into five floats before the loop.
//         Ordinary stores: the lines of m, v and w were just read; storing past the cache only
//         costs. The 16-bit copy is not read, and a large one is stored past the cache.
//
//         With FP8 copies w is a matrix. A task has 64 rows of a strip of columns: it updates them
//         row by row, as they lie in memory, then turns their copy, which is still in L2, into FP8
//         tile by tile (vec_fp8.h), for the transpose takes many rows at once:
//
//             strip 0: tile tile ..  | strip 1 ..      64 rows
//             strip 0: tile tile ..  | strip 1 ..      64 rows
//
// COST    28 bytes an element and 2-4 for the copy, 2 for FP8 in both layouts; a square root and
//         two divisions, hidden behind the memory.
// ROUND   f32 throughout, the five constants from double.
// SHAPES  everything the contract allows; threads take chunks of ADAMW_CHUNK elements, or strips.
//
// SPDX-License-Identifier: MIT
#include "kernels/cpu/vec_fp8.h"
#include "kernels/cpu/vec_ops.h"

#include <math.h>

enum {
    ADAMW_CHUNK = 1 << 14,
    ADAMW_AHEAD = 128,           // elements fetched ahead in each of the four streams
    ADAMW_STREAM = 1 << 22,      // elements from which a 16-bit copy is more than caches keep
    ADAMW_STRIP = 16 * FP8_COLS, // columns, whose 64 rows of the copy stay in L2
};

typedef struct Rates {
    float g, b1, c1, b2, c2; // gradient scale, betas and 1 - betas
    float fix1, fix2;        // lr / (1 - beta1^t),  1 / (1 - beta2^t)
    float decay, eps;        // lr * weight_decay
} Rates;

// Elements i .. i+n-1, n <= VL, but for the copy, which is returned.
LT_INLINE VecF update(const AdamwArgs *a, const Rates *r, int64_t i, int64_t n)
{
    const VecF g = vec_load_as_n(a->grad, DTYPE_F32, i, n, 0) * r->g;
    const VecF m = vec_load_as_n(a->m, DTYPE_F32, i, n, 0) * r->b1 + g * r->c1;
    const VecF v = vec_load_as_n(a->v, DTYPE_F32, i, n, 0) * r->b2 + g * r->c2 * g;
    const VecF w = vec_load_as_n(a->w, DTYPE_F32, i, n, 0);
    const VecF y = (w - w * r->decay) - m * r->fix1 / (vec_sqrt(v * r->fix2) + r->eps);
    vec_store_as_n(a->m, DTYPE_F32, i, n, m);
    vec_store_as_n(a->v, DTYPE_F32, i, n, v);
    vec_store_as_n(a->w, DTYPE_F32, i, n, y);
    return y;
}

LT_INLINE void update_copy(const AdamwArgs *a, const Rates *r, DType param, int64_t i, int64_t n)
{
    const VecF y = update(a, r, i, n);
    if (a->param) vec_store_as_n(a->param, param, i, n, y);
}

LT_INLINE void fetch(const AdamwArgs *a, int64_t i)
{
    __builtin_prefetch(a->grad + i);
    __builtin_prefetch(a->m + i, 1);
    __builtin_prefetch(a->v + i, 1);
    __builtin_prefetch(a->w + i, 1);
}

LT_INLINE void run(const AdamwArgs *a, const Rates *r, DType param, bool stream, int64_t i0,
                   int64_t i1)
{
    int64_t i = i0;
    if (stream) {
        uint16_t *const copy = a->param;
        for (; i < i1 && (uintptr_t)(copy + i) % LATHE_VB != 0; i++) update_copy(a, r, param, i, 1);
        for (; i + 2 * VL <= i1; i += 2 * VL) {
            fetch(a, i + ADAMW_AHEAD);
            fetch(a, i + ADAMW_AHEAD + VL);
            const VecF lo = update(a, r, i, VL), hi = update(a, r, i + VL, VL);
            if (param == DTYPE_BF16)
                vec_stream_halves(copy + i, vec_to_bf16(lo), vec_to_bf16(hi));
            else
                vec_stream_halves(copy + i, vec_to_f16(lo), vec_to_f16(hi));
        }
        vec_stream_end();
    }
    for (; i + VL <= i1; i += VL) {
        fetch(a, i + ADAMW_AHEAD);
        update_copy(a, r, param, i, VL);
    }
    if (i < i1) update_copy(a, r, param, i, i1 - i);
}

// ---- with FP8 copies ----------------------------------------------------------------------------

// `cols` elements from element i, one row of a tile, from the copy that is in the cache.
LT_INLINE void copy_as_fp8(const AdamwArgs *a, int64_t i, int64_t cols, VecFp8 *seen,
                           uint8_t *bytes, DType param, DType fp8)
{
    for (int64_t c = 0; c < cols; c += VL) {
        const int64_t left = cols - c;
        const VecF y = a->param
                           ? vec_load_as_n(a->param, param, i + c, left, 0)
                           : vec_round_as(vec_load_as_n(a->w, DTYPE_F32, i + c, left, 0), param);
        vec_store_bytes(bytes + c, vec_fp8_put(seen, y, fp8));
    }
}

static int64_t strips(const AdamwArgs *a)
{
    return (a->n / a->R + ADAMW_STRIP - 1) / ADAMW_STRIP;
}

static Fp8Seen update_strip(const AdamwArgs *a, const Rates *r, int64_t task)
{
    const int64_t C = a->n / a->R, r0 = task / strips(a) * FP8_ROWS;
    const int64_t c0 = task % strips(a) * ADAMW_STRIP, c1 = LT_MIN(c0 + ADAMW_STRIP, C);
    const int64_t rows = LT_MIN(a->R - r0, FP8_ROWS);
    const bool usual = a->param_dtype == DTYPE_BF16 && a->q.dtype == DTYPE_E4M3;
    VecFp8 seen = vec_fp8_begin(&a->q);
    Fp8Tile tile;
    for (int64_t k = r0; k < r0 + rows; k++) {
        if (a->param_dtype == DTYPE_BF16)
            run(a, r, DTYPE_BF16, false, k * C + c0, k * C + c1);
        else
            run(a, r, a->param_dtype, false, k * C + c0, k * C + c1);
    }
    for (int64_t c = c0; c < c1; c += FP8_COLS) {
        const int64_t cols = LT_MIN(c1 - c, FP8_COLS);
        for (int64_t k = 0; k < rows; k++) {
            const int64_t i = (r0 + k) * C + c;
            if (usual)
                copy_as_fp8(a, i, cols, &seen, tile.byte[k], DTYPE_BF16, DTYPE_E4M3);
            else
                copy_as_fp8(a, i, cols, &seen, tile.byte[k], a->param_dtype, a->q.dtype);
        }
        fp8_tile_store(&a->q, &tile, r0, rows, c, cols, a->R);
    }
    return vec_fp8_end(&seen);
}

static int64_t tasks(const AdamwArgs *a)
{
    return a->n > 0 && a->q.scale ? (a->R + FP8_ROWS - 1) / FP8_ROWS * strips(a) : 0;
}

// ---- both ---------------------------------------------------------------------------------------

size_t ISA_NAME(vec_adamw_scratch)(const AdamwArgs *a, const OpCtx *cx)
{
    (void)cx;
    return (size_t)tasks(a) * sizeof(Fp8Seen); // what each task saw
}

Status ISA_NAME(vec_adamw)(const AdamwArgs *a, OpCtx *cx, Err *err)
{
    (void)err;
    const StepGate *const gate = a->gate;
    if (gate && gate->skip) return ERR_NONE;
    const double lr = gate ? gate->rates.lr : a->lr;
    const double fix1 = gate ? gate->rates.correct1 : 1.0 - pow(a->beta1, (double)a->step);
    const double fix2 = gate ? gate->rates.correct2 : 1.0 - pow(a->beta2, (double)a->step);
    const Rates r = {.g = gate ? gate->grad_scale : a->grad_scale,
                     .b1 = (float)a->beta1,
                     .c1 = (float)(1.0 - a->beta1),
                     .b2 = (float)a->beta2,
                     .c2 = (float)(1.0 - a->beta2),
                     .fix1 = (float)(lr / fix1),
                     .fix2 = (float)(1.0 / fix2),
                     .decay = (float)(lr * a->weight_decay),
                     .eps = (float)a->eps};
    if (a->q.scale) {
        const int64_t n = tasks(a);
        Fp8Seen *seen = cx->scratch;
#pragma omp parallel for num_threads(cx->device->threads) schedule(static) if (n > 1)
        for (int64_t i = 0; i < n; i++) seen[i] = update_strip(a, &r, i);
        if (n > 0) fp8_publish(&a->q, seen, n);
        return ERR_NONE;
    }
#pragma omp parallel for num_threads(cx->device->threads) schedule(static) if (a->n > ADAMW_CHUNK)
    for (int64_t i0 = 0; i0 < a->n; i0 += ADAMW_CHUNK) {
        const int64_t i1 = LT_MIN(i0 + ADAMW_CHUNK, a->n);
        if (a->param && a->param_dtype == DTYPE_BF16)
            run(a, &r, DTYPE_BF16, a->n >= ADAMW_STREAM, i0, i1);
        else if (a->param && a->param_dtype == DTYPE_F16)
            run(a, &r, DTYPE_F16, a->n >= ADAMW_STREAM, i0, i1);
        else
            run(a, &r, a->param_dtype, false, i0, i1);
    }
    return ERR_NONE;
}
