// vec_lamb.c -- LAMB in two sweeps: moments and direction, then the step.
// Contract: kernels/ops/lamb.h    Built once an instruction set (isa.h)
//
// WHAT    How far a tensor moves depends on the lengths of all of w and all of u, so u is kept, in
//         place of the gradient:
//
//             sweep 1   grad -> m, v -> u        part[chunk]    = |w|^2, |u|^2 of the chunk
//             ratios                             ratio[segment] = sqrt(sums of its parts)
//             sweep 2   w - lr * ratio * u -> w -> param, rounded
//
//         Threads take chunks. A chunk finds its segment by bisection, once for all its elements.
//
// COST    28 bytes an element in the first sweep, 12 and the copy in the second.
// ROUND   f32, constants from double. Squares are double: of a block of w and u while it is in L1.
// SHAPES  everything the contract allows; chunks depend on the segments alone.
//
// SPDX-License-Identifier: MIT
#include "kernels/cpu/vec_ops.h"
#include "kernels/cpu/vec_simd.h"

#include <math.h>

enum {
    LAMB_BLOCK = 512, // elements of a block: their directions, then their squares
    LAMB_AHEAD = 128, // elements fetched ahead
};

typedef struct Rates {
    float g, b1, c1, b2, c2; // gradient scale, betas and 1 - betas
    float fix1, fix2;        // 1 / (1 - beta^t)
    float decay, eps;
} Rates;

typedef struct Squares { // |w|^2 and |u|^2
    double w, u;
} Squares;

typedef struct Chunk {
    int64_t segment, from, to;
} Chunk;

// The last segment that begins with chunk c or before has it: empty ones begin where the next does.
static Chunk find_chunk(const LambArgs *a, int64_t c)
{
    int64_t lo = 0, hi = a->n_segment;
    while (hi - lo > 1) {
        const int64_t mid = lo + (hi - lo) / 2;
        if (a->segment[mid].chunk <= c)
            lo = mid;
        else
            hi = mid;
    }
    const LambSegment *s = &a->segment[lo];
    const int64_t at = (c - s->chunk) * LAMB_CHUNK;
    return (Chunk){lo, s->from + at, s->from + LT_MIN(at + LAMB_CHUNK, s->n)};
}

typedef double VecD __attribute__((vector_size(LATHE_VB)));
typedef float VecFHalfMem __attribute__((vector_size(LATHE_VB / 2), aligned(4), may_alias));

static double squares(const float *x, int64_t n)
{
    enum { ACC = 4, LANES = VL / 2 };
    VecD acc[ACC] = {{0}};
    int64_t i = 0;
    for (; i + ACC * LANES <= n; i += ACC * LANES) {
        for (int k = 0; k < ACC; k++) {
            const VecFHalfMem *half = (const VecFHalfMem *)(x + i + k * LANES);
            const VecD d = __builtin_convertvector(*half, VecD);
            acc[k] += d * d;
        }
    }
    const VecD all = (acc[0] + acc[1]) + (acc[2] + acc[3]);
    double sum = 0;
    for (int k = 0; k < LANES; k++) sum += all[k];
    for (; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sum;
}

// Elements i .. i+n-1, n <= VL.
LT_INLINE void direction(const LambArgs *a, const Rates *r, int64_t i, int64_t n)
{
    const VecF g = vec_load_as_n(a->grad, DTYPE_F32, i, n, 0) * r->g;
    const VecF m = vec_load_as_n(a->m, DTYPE_F32, i, n, 0) * r->b1 + g * r->c1;
    const VecF v = vec_load_as_n(a->v, DTYPE_F32, i, n, 0) * r->b2 + g * r->c2 * g;
    const VecF w = vec_load_as_n(a->w, DTYPE_F32, i, n, 0);
    const VecF u = m * r->fix1 / (vec_sqrt(v * r->fix2) + r->eps) + w * r->decay;
    vec_store_as_n(a->m, DTYPE_F32, i, n, m);
    vec_store_as_n(a->v, DTYPE_F32, i, n, v);
    vec_store_as_n(a->grad, DTYPE_F32, i, n, u);
}

LT_INLINE void fetch(const LambArgs *a, int64_t i)
{
    __builtin_prefetch(a->grad + i, 1);
    __builtin_prefetch(a->m + i, 1);
    __builtin_prefetch(a->v + i, 1);
    __builtin_prefetch(a->w + i);
}

static Squares first_sweep(const LambArgs *a, const Rates *r, const Chunk *c)
{
    Squares sum = {0, 0};
    for (int64_t i0 = c->from; i0 < c->to; i0 += LAMB_BLOCK) {
        const int64_t i1 = LT_MIN(i0 + LAMB_BLOCK, c->to);
        int64_t i = i0;
        for (; i + VL <= i1; i += VL) {
            fetch(a, i + LAMB_AHEAD);
            direction(a, r, i, VL);
        }
        if (i < i1) direction(a, r, i, i1 - i);
        sum.w += squares(a->w + i0, i1 - i0);
        sum.u += squares(a->grad + i0, i1 - i0);
    }
    return sum;
}

LT_INLINE void step(const LambArgs *a, float rate, DType param, int64_t i, int64_t n)
{
    const VecF u = vec_load_as_n(a->grad, DTYPE_F32, i, n, 0);
    const VecF w = vec_load_as_n(a->w, DTYPE_F32, i, n, 0) - u * rate;
    vec_store_as_n(a->w, DTYPE_F32, i, n, w);
    if (a->param) vec_store_as_n(a->param, param, i, n, w);
}

LT_INLINE void second_sweep(const LambArgs *a, float rate, DType param, const Chunk *c)
{
    int64_t i = c->from;
    for (; i + VL <= c->to; i += VL) step(a, rate, param, i, VL);
    if (i < c->to) step(a, rate, param, i, c->to - i);
}

static float trust_ratio(const LambSegment *s, const Squares *part)
{
    Squares sum = {0, 0};
    for (int64_t k = 0; k < s->chunks; k++) {
        sum.w += part[s->chunk + k].w;
        sum.u += part[s->chunk + k].u;
    }
    return s->decayed && sum.w > 0 && sum.u > 0 ? (float)(sqrt(sum.w) / sqrt(sum.u)) : 1;
}

size_t ISA_NAME(vec_lamb_scratch)(const LambArgs *a, const OpCtx *cx)
{
    (void)cx;
    return (size_t)a->n_chunk * sizeof(Squares) + (size_t)a->n_segment * sizeof(float);
}

Status ISA_NAME(vec_lamb)(const LambArgs *a, OpCtx *cx, Err *err)
{
    (void)err;
    const StepGate *const gate = a->gate;
    if (gate->skip) return ERR_NONE;
    const Rates r = {.g = gate->grad_scale,
                     .b1 = (float)a->beta1,
                     .c1 = (float)(1.0 - a->beta1),
                     .b2 = (float)a->beta2,
                     .c2 = (float)(1.0 - a->beta2),
                     .fix1 = (float)(1.0 / gate->rates.correct1),
                     .fix2 = (float)(1.0 / gate->rates.correct2),
                     .decay = (float)a->weight_decay,
                     .eps = (float)a->eps};
    Rates plain = r;
    plain.decay = 0;
    Squares *const part = cx->scratch;
    float *const ratio = (float *)(void *)(part + a->n_chunk);
    const int threads = cx->device->threads;
#pragma omp parallel for num_threads(threads) schedule(static) if (a->n_chunk > 1)
    for (int64_t k = 0; k < a->n_chunk; k++) {
        const Chunk c = find_chunk(a, k);
        part[k] = first_sweep(a, a->segment[c.segment].decayed ? &r : &plain, &c);
    }
    for (int64_t s = 0; s < a->n_segment; s++) ratio[s] = trust_ratio(&a->segment[s], part);
#pragma omp parallel for num_threads(threads) schedule(static) if (a->n_chunk > 1)
    for (int64_t k = 0; k < a->n_chunk; k++) {
        const Chunk c = find_chunk(a, k);
        const float rate = (float)(gate->rates.lr * (double)ratio[c.segment]);
        if (a->param_dtype == DTYPE_BF16)
            second_sweep(a, rate, DTYPE_BF16, &c);
        else if (a->param_dtype == DTYPE_F16)
            second_sweep(a, rate, DTYPE_F16, &c);
        else
            second_sweep(a, rate, DTYPE_F32, &c);
    }
    return ERR_NONE;
}
