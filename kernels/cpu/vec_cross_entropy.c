// vec_cross_entropy.c -- softmax cross entropy and its gradient: two sweeps over a row of logits.
// Contract: kernels/ops/cross_entropy.h    Built once an instruction set (isa.h)
//
// WHAT    Sweep 1 keeps for each lane the maximum so far and the sum of exp(x - maximum); a new
//         maximum rescales the sum, once a block of CE_BLOCK vectors. Sweep 2 overwrites x with the
//         gradient and finds the row in the cache.
//
//             x[0..V)  --sweep 1-->  maximum, sum  -->  loss
//             x[0..t)  ------------>  hit: whether the target, if it is the maximum, is the first
//             x[0..V)  --sweep 2-->  exp(x - maximum) * scale / sum, less scale at the target
//             x[V..Vp) ------------> 0
//
// COST    reads a row twice and writes it once, two exp an element: about even between arithmetic
//         and memory. Without the gradient only sweep 1. hit reads a row again up
//         to its target, where that is the maximum.
// ROUND   Lanes in f32, their total and its logarithm in double.
// SHAPES  everything the contract allows; a row is one thread's, so it depends on nothing else.
//
// SPDX-License-Identifier: MIT
#include "engine/base/assert.h"
#include "kernels/cpu/vec_ops.h"
#include "kernels/cpu/vmath.h"

#include <float.h>
#include <math.h>

enum { CE_BLOCK = 16 };

// e^(x - top) for x <= top.
LT_INLINE VecF exp_below(VecF x, VecF top)
{
    return vec_exp2((x - top) * VM_LOG2E);
}

// Fold `n` vectors into (top, sum). -FLT_MAX stands for "none yet": -infinity - -infinity is NaN.
LT_INLINE void fold(VecF *top, VecF *sum, const VecF *x, int n)
{
    VecF m = *top;
#pragma GCC unroll 16
    for (int k = 0; k < n; k++) m = vec_max(m, x[k]);
    VecF s = vec_set(0);
#pragma GCC unroll 16
    for (int k = 0; k < n; k++) s += exp_below(x[k], m);
    *sum = *sum * exp_below(*top, m) + s;
    *top = m;
}

// Is xt among x[0..t)?
static bool occurs_before(const CrossEntropyArgs *a, int64_t row, int64_t t, float xt)
{
    for (int64_t v = 0; v < t; v += VL) {
        const VecF x = vec_load_as_n(a->logits, a->dtype, row + v, t - v, NAN);
        const VecF y = vec_select(x == xt, vec_set(1), vec_set(0));
        if (vec_sum(y) > 0) return true;
    }
    return false;
}

LT_INLINE void row_run(const CrossEntropyArgs *a, DType dt, int64_t n)
{
    enum { STEP = CE_BLOCK * VL };
    const int64_t row = n * a->Vp, t = a->target[n], V = a->V;
    ASSERT(t >= 0 && t < V, "cross_entropy: target %lld of %lld", (long long)t, (long long)V);
    VecF top = vec_set(-FLT_MAX), sum = vec_set(0), x[CE_BLOCK];
    int64_t v = 0;
    for (; v + STEP <= V; v += STEP) {
#pragma GCC unroll 16
        for (int k = 0; k < CE_BLOCK; k++) x[k] = vec_load_as(a->logits, dt, row + v + k * VL);
        fold(&top, &sum, x, CE_BLOCK);
    }
    for (; v < V; v += VL) {
        x[0] = vec_load_as_n(a->logits, dt, row + v, V - v, -INFINITY);
        fold(&top, &sum, x, 1);
    }
    float peak = top[0];
    for (int k = 1; k < VL; k++) peak = top[k] > peak ? top[k] : peak;
    const VecF most = vec_set(peak), scaled = sum * exp_below(top, most);
    double total = 0;
    for (int k = 0; k < VL; k++) total += (double)scaled[k];

    const float xt = dtype_load(a->logits, dt, row + t);
    a->loss[n] = (float)(log(total) + (double)(peak - xt));
    if (a->hit) // the loss is finite if the target's logit is and no other is NaN or +infinity
        a->hit[n] = isfinite(a->loss[n]) && xt == peak && !occurs_before(a, row, t, xt);
    if (!a->want_grad) return;
    const double scale = (double)a->grad_scale * (a->scale ? (double)*a->scale : 1.0);
    const double each = scale / total;
    const double et = (double)exp_below(vec_set(xt), most)[0];
    const float mul = (float)each;
    const float dx_t = (float)(et * each - scale); // of the target
    for (v = 0; v + VL <= V; v += VL) {
        const VecF p = exp_below(vec_load_as(a->logits, dt, row + v), most);
        vec_store_as(a->logits, dt, row + v, p * mul);
    }
    if (v < V) {
        const VecF p = exp_below(vec_load_as_n(a->logits, dt, row + v, V - v, -INFINITY), most);
        vec_store_as_n(a->logits, dt, row + v, V - v, p * mul);
    }
    dtype_store(a->logits, dt, row + t, dx_t);
    for (v = V; v < a->Vp; v++) dtype_store(a->logits, dt, row + v, 0);
}

Status ISA_NAME(vec_cross_entropy)(const CrossEntropyArgs *a, OpCtx *cx, Err *err)
{
    (void)err;
    const size_t bytes = dtype_bytes(a->dtype);
#pragma omp parallel for num_threads(cx->device->threads) schedule(static) if (a->N > 1)
    for (int64_t n = 0; n < a->N; n++) {
        if (a->target[n] == TOKEN_IGNORE) {
            a->loss[n] = 0;
            if (a->hit) a->hit[n] = 0;
            if (a->want_grad)
                memset((char *)a->logits + (size_t)(n * a->Vp) * bytes, 0, (size_t)a->Vp * bytes);
        } else if (a->dtype == DTYPE_F32) {
            row_run(a, DTYPE_F32, n);
        } else if (a->dtype == DTYPE_BF16) {
            row_run(a, DTYPE_BF16, n);
        } else {
            row_run(a, DTYPE_F16, n);
        }
    }
    return ERR_NONE;
}
