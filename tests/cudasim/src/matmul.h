// matmul.h -- the arithmetic of the tensor core: small products of floats.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include "tests/cudasim/src/device.h"
#include "tests/cudasim/src/numbers.h"

namespace cudasim
{

// Bytes of an element of an operand.
inline int num_bytes(Num t)
{
    return t == Num::TF32 ? 4 : t == Num::E4M3 || t == Num::E5M2 ? 1 : 2;
}

// `n` consecutive elements at `src` as floats, `stride` floats apart.
void decode_any(float *out, int stride, const void *src, int n, Num type);
inline void decode(float *out, int stride, const void *src, int n, Num type)
{
    if (type != Num::BF16) {
        decode_any(out, stride, src, n, type);
        return;
    }
    for (int i = 0; i < n; ++i) {
        out[i * stride] = float_of_bf16(static_cast<const uint16_t *>(src)[i]);
    }
}

// c[M,N] += a[M,K] * b[K,N], or = with `fresh`. Leading dimensions ldc and ldb are multiples of
// 16, the columns N..ldc of b and c exist; K in ascending order, one rounding a product where the
// processor has a fused multiply-add.
void multiply(float *c, int ldc, const float *a, int lda, const float *b, int ldb, int rows, int n,
              int k, bool fresh);

} // namespace cudasim
