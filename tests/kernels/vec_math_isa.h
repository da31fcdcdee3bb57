// vec_math_isa.h -- functions of vmath.h, vec_simd.h, vec_rng.h of one instruction set, on arrays.
// Lengths n are multiples of 16.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include "kernels/ops/dropout.h"

typedef enum VecFn {
    VEC_EXP2,
    VEC_TANH,
    VEC_GELU_TANH,
    VEC_GELU_ERF,
    VEC_DGELU_TANH,
    VEC_DGELU_ERF,
    VEC_FN_COUNT
} VecFn;

typedef struct VecMathIsa {
    const char *isa;
    void (*apply)(VecFn f, float *y, const float *x, int64_t n);
    void (*to_half)(uint16_t *bf16, uint16_t *f16, const float *x, int64_t n);
    void (*from_half)(float *bf16, float *f16, const uint16_t *h, int64_t n);
    void (*to_fp8)(uint8_t *e4m3, uint8_t *e5m2, const float *x, int64_t n);
    // 64 words each: 16 blocks of columns of one row; 4 columns of 16 rows as [column][row].
    void (*philox)(uint32_t *columns, uint32_t *rows, const DropoutSpec *d, uint32_t head,
                   uint32_t row, uint32_t col4);
} VecMathIsa;

extern const VecMathIsa vec_math_baseline, vec_math_avx2, vec_math_avx512, vec_math_neon;
