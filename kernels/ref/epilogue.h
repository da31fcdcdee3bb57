// epilogue.h -- what becomes of one sum of a product: bias, accumulation, activation.
//
// MatmulArgs and MatmulFp8Args say it in the same words; here it is once for both references.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/ref/act.h"

typedef struct Epilogue {
    const void *C, *bias;
    void *aux;
    bool accumulate;
    MatmulEpilogue kind;
    Activation act;
    DType c_dtype, bias_dtype;
} Epilogue;

// x as an element of type t holds it.
LT_INLINE float epilogue_rounded(DType t, double x)
{
    float r;
    dtype_store(&r, t, 0, (float)x); // the low half of r for a 16-bit type
    return dtype_load(&r, t, 0);
}

// The sum s of column n, which belongs to element `at` of C and aux: the result, not yet rounded.
LT_INLINE double epilogue_result(const Epilogue *e, int64_t at, int64_t n, double s)
{
    if (e->bias) s += (double)dtype_load(e->bias, e->bias_dtype, n);
    switch (e->kind) {
    case MATMUL_PLAIN: return e->accumulate ? s + (double)dtype_load(e->C, e->c_dtype, at) : s;
    case MATMUL_GELU: {
        const float x = epilogue_rounded(e->c_dtype, s);
        if (e->aux) dtype_store(e->aux, e->c_dtype, at, x);
        return act_value(e->act, (double)x);
    }
    case MATMUL_DGELU: break;
    }
    return s * act_slope(e->act, (double)dtype_load(e->aux, e->c_dtype, at));
}
