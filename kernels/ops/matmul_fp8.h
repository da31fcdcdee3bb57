// matmul_fp8.h -- op contract: matrix product of two FP8 tensors with epilogue.
//
// Math:    S = (sum_k A[m,k] B[n,k]) * (*a_inv * *b_inv)     the sum in f32 or better, scaled once
//          S = S + bias                                      over columns, when bias is not NULL
//   epilogue MATMUL_PLAIN  x = S,                    or C + S with accumulate
//            MATMUL_GELU   aux = S (rounded to c_dtype), x = act(aux)
//            MATMUL_DGELU  x = S * act'(aux)
//          C[m,n] = x rounded to c_dtype, when C is not NULL
//          out    = FP8 of that rounded x, when out.scale is not NULL (fp8.h)
//          dbias[n] (+)= sum_m of that rounded x, when dbias is not NULL
//   Both operands have k contiguous in memory, for Hopper's FP8 wgmma has no transpose. A linear
//   layer with weight W [out,in] is therefore, with ^T for the second layout fp8_quantize gives:
//     forward  y  = x W^T   M=rows N=out K=in    A=x    B=W     e4m3 e4m3  fast
//     dx       dx = dy W    M=rows N=in  K=out   A=dy   B=W^T   e5m2 e4m3
//     dW       dW = dy^T x  M=out  N=in  K=rows  A=dy^T B=x^T   e5m2 e4m3  c f32, accumulate
// Sums:    Hopper's FP8 tensor cores add with about 14 bits of mantissa. fast: the whole K stays
//          there; else partial sums go to f32 registers every 128 of k, as DeepGEMM does. A
//          backend without such a unit takes no notice of it.
// Edges:   M or N == 0: nothing happens. K == 0: S is 0. With accumulate off, C is never read.
//          aux NULL with MATMUL_GELU: not stored; the value is still rounded.
//          The values of A and B beyond K of a row are not read as numbers.
// Legal:   A and B: e4m3 e4m3, e5m2 e4m3 or e4m3 e5m2; 16-byte aligned, lda, ldb multiples of 16;
//          a_inv, b_inv 16-byte aligned; accumulate only with MATMUL_PLAIN, C and no out;
//          dbias only with MATMUL_DGELU; C, out or both.
// Repeat:  bitwise, whatever the threads.
// Cost:    2 M N K FLOP at twice the rate of bf16 where the hardware has FP8.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/dtype.h"
#include "engine/base/err.h"
#include "kernels/ops/fp8.h"
#include "kernels/ops/matmul.h"

typedef struct MatmulFp8Args {
    void           *C;    // [M,N] ldc  assign or accumulate, c_dtype, or NULL
    const void     *A;    // [M,K] lda  a_dtype
    const void     *B;    // [N,K] ldb  b_dtype
    const float    *a_inv, *b_inv; // one each, on the device: Fp8Scale.inv
    const void     *bias; // [N] bias_dtype, or NULL
    void           *aux;  // [M,N] ldc, c_dtype: out for MATMUL_GELU, in for MATMUL_DGELU
    float          *dbias; // [N]       assign or accumulate, or NULL
    Fp8Out          out;
    int64_t         M, N, K, lda, ldb, ldc;
    bool            accumulate, dbias_accumulate, fast;
    MatmulEpilogue  epilogue;
    Activation      act;
    DType           a_dtype, b_dtype, c_dtype, bias_dtype;
} MatmulFp8Args;

LT_C_BEGIN
LT_MUST_CHECK Status matmul_fp8_check(const MatmulFp8Args *a, Err *err);
LT_C_END
