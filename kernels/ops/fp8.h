// fp8.h -- FP8 tensors: their scales, what is counted of them, and where an op leaves them.
//
// A tensor x is held as q = fp8(x * scale), and read as q * inv with inv = 1 / scale. The scale is
// one number for the whole tensor (Micikevicius et al. 2022, section 3), chosen so that the largest
// |x| comes near the largest number of the format: E4M3 448 (weights, activations), E5M2 57344
// (gradients). Scales live in device memory: no op waits for the host to know one.
//
// A slot is one quantised tensor of the model (layer 3's MLP input, say). Slots have
//     Fp8Scale scale[n]    in force now
//     float    amax[n]     largest |x| seen since the last update; -1: the tensor did not occur.
//                          One flat array, so that ranks can agree on it by one all-reduce.
//     Fp8Count count[n]    elements that were not finite, were clamped, or became 0
//
// What is quantised is always x as it would have been stored without FP8, that is rounded to the
// activation type first. So a kernel that writes FP8 itself and one that leaves x for fp8_quantize
// give the same bits, on every backend.
//
//     q = e4m3/e5m2 of (x * scale), the product in f32; nearest, ties to even; clamped to the
//     largest number (infinity, too); NaN stays NaN.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include "engine/base/dtype.h"

typedef struct Fp8Scale { // 16 bytes: cuBLASLt takes inv at multiples of 16 only
    float inv;            // 1 / scale
    float scale;
    float max; // of the slot's format: 448 or 57344
    float unused;
} Fp8Scale;

typedef struct Fp8Count { // elements since it was last set to 0 (by who reports it)
    uint32_t nonfinite;   // x was NaN or infinite; it never enters amax
    uint32_t saturated;   // x is finite and |x * scale| is beyond the largest number
    uint32_t flushed;     // x is not 0, q is
    uint32_t unused;
} Fp8Count;

// An FP8 copy of a tensor x [R,C], and its transpose, that an op writes beside or instead of x.
// None when scale is NULL.
typedef struct Fp8Out {
    void     *q;         // [R,C] ld_q                                      assign, or NULL
    void     *qt;        // [C,R] ld_qt; elements R..ld_qt-1 of a row are 0 assign, or NULL
    int64_t   ld_q;      // >= C
    int64_t   ld_qt;     // >= R
    Fp8Scale *scale;     // one; read (fp8_quantize with current scaling also writes it)
    float    *amax;      // one: max(*amax, largest finite |x|), or NULL. A tensor without finite
                         // elements counts as 0
    Fp8Count *count;     // one: added to, or NULL
    DType     dtype;     // E4M3 or E5M2
} Fp8Out;
