// fp8_quantize.h -- op contract: a tensor to FP8, in both layouts, with its column sums.
//
// Math:    current: *out.scale = { scale = max / amax(x) / 2^margin, inv = 1 / scale, max } first,
//          clamped as in fp8_update.h; amax 0 or no finite element: scale 1
//          out.q[r,c]  = fp8(x[r,c] * scale)         see fp8.h, which also says what amax and count
//          out.qt[c,r] = the same                    become
//          dbias[c] (+)= sum_r x[r,c]                f32, when not NULL (x, not q)
//   The transposes are what FP8 costs on Hopper: its wgmma takes operands whose k is contiguous
//   only, so x W^T, dy W and dy^T x need x, W and dy in two layouts each.
// Edges:   R or C == 0: no element of q or qt is written; amax, a current scale and dbias (0 unless
//          accumulate) become what they are without elements.
// Legal:   src f32, bf16, f16; ld >= C; q, qt, scale 16-byte aligned, ld_q, ld_qt multiples of 16;
//          -64 <= margin <= 64.
// Repeat:  bitwise; columns are summed in fixed chunks, whatever the threads.
// Cost:    reads R*C elements once (current: twice), writes 1 byte a layout: memory bound.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/dtype.h"
#include "engine/base/err.h"
#include "kernels/ops/fp8.h"

typedef struct Fp8QuantizeArgs {
    Fp8Out      out;
    float      *dbias; // [C]      assign or accumulate, or NULL
    const void *src;   // [R,C] ld src_dtype
    int64_t     R, C, ld;
    bool        accumulate; // dbias
    bool        current;    // current scaling: the scale is made from x itself
    int         margin;     // of current scaling
    DType       src_dtype;
} Fp8QuantizeArgs;

LT_C_BEGIN
LT_MUST_CHECK Status fp8_quantize_check(const Fp8QuantizeArgs *a, Err *err);
LT_C_END
