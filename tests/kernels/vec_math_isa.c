// vec_math_isa.c -- see vec_math_isa.h. Built once an instruction set.
//
// SPDX-License-Identifier: MIT
#include "tests/kernels/vec_math_isa.h"
#include "kernels/cpu/vec_fp8.h"
#include "kernels/cpu/vec_rng.h"
#include "kernels/cpu/vmath.h"

static void apply(VecFn f, float *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += VL) {
        const VecF v = vec_load(x + i);
        VecF       r = v;
        switch (f) {
        case VEC_EXP2: r = vec_exp2(v); break;
        case VEC_TANH: r = vm_tanh(v); break;
        case VEC_GELU_TANH: r = vm_gelu_tanh(v); break;
        case VEC_GELU_ERF: r = vm_gelu_erf(v); break;
        case VEC_DGELU_TANH: r = vm_dgelu_tanh(v); break;
        case VEC_DGELU_ERF: r = vm_dgelu_erf(v); break;
        case VEC_FN_COUNT: break;
        }
        vec_store(y + i, r);
    }
}

static void to_half(uint16_t *bf16, uint16_t *f16, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += VL) {
        vec_store_as(bf16, DTYPE_BF16, i, vec_load(x + i));
        vec_store_as(f16, DTYPE_F16, i, vec_load(x + i));
    }
}

static void from_half(float *bf16, float *f16, const uint16_t *h, int64_t n)
{
    for (int64_t i = 0; i < n; i += VL) {
        vec_store(bf16 + i, vec_load_as(h, DTYPE_BF16, i));
        vec_store(f16 + i, vec_load_as(h, DTYPE_F16, i));
    }
}

static void to_fp8(uint8_t *e4m3, uint8_t *e5m2, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += VL) {
        vec_store_bytes(e4m3 + i, vec_to_fp8(vec_load(x + i), DTYPE_E4M3));
        vec_store_bytes(e5m2 + i, vec_to_fp8(vec_load(x + i), DTYPE_E5M2));
    }
}

static void philox(uint32_t *columns, uint32_t *rows, const DropoutSpec *d, uint32_t head,
                   uint32_t row, uint32_t col4)
{
    const VecDrop drop = vec_drop(d, 0, head);
    for (uint32_t i = 0; i < 16; i += VL) {
        VecU w[4];
        vec_rng_columns(columns + 4 * i, &drop, row, col4 + i);
        vec_rng_rows(w, &drop, row + i, col4);
        for (int k = 0; k < 4; k++) memcpy(rows + 16 * k + i, &w[k], sizeof w[k]);
    }
}

const VecMathIsa ISA_NAME(vec_math) = {ISA_STRING, apply, to_half, from_half, to_fp8, philox};
