// matmul.h -- op contract: matrix product with epilogue.
//
// Math:    S = op(A) op(B)                 op(A) is [M,K], op(B) is [K,N], sums in f32 or better
//          S = S + bias                    over columns, when bias is not NULL
//   epilogue MATMUL_PLAIN  C (+)= S
//            MATMUL_GELU   aux = S (rounded to c_dtype), C = act(aux)
//            MATMUL_DGELU  C = S * act'(aux)
//   act is the tanh or the erf GELU (Hendrycks, Gimpel 2016), as `act` says; ReLU
//   and tanh (of a pooler) too.
//   A linear layer with weight W [out,in]:
//     forward  y  = x W^T   M=rows N=out K=in    A=x  B=W trans_b
//     dx       dx = dy W    M=rows N=in  K=out   A=dy B=W
//     dW       dW = dy^T x  M=out  N=in  K=rows  A=dy trans_a, B=x
// Edges:   M or N == 0: nothing happens. K == 0: S is 0. With accumulate off, C is never read.
//          aux NULL with MATMUL_GELU: not stored (inference); the value is still rounded.
// Legal:   leading dimensions >= the row length; accumulate only with MATMUL_PLAIN; C overlaps
//          nothing but, in MATMUL_DGELU, nothing at all. A and B have the same dtype.
// Repeat:  bitwise, whatever the threads (K is split the same way for any number of them).
// Cost:    2 M N K FLOP; bound by arithmetic except when one of M, N, K is small.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/dtype.h"
#include "engine/base/err.h"

typedef enum MatmulEpilogue { MATMUL_PLAIN = 0, MATMUL_GELU, MATMUL_DGELU } MatmulEpilogue;

typedef enum Activation { ACT_GELU_TANH = 0, ACT_GELU_ERF, ACT_RELU, ACT_TANH } Activation;

typedef struct MatmulArgs {
    void          *C;    // [M,N] ldc   assign or accumulate, c_dtype
    const void    *A;    // [M,K] lda, or [K,M] lda when trans_a; ab_dtype
    const void    *B;    // [K,N] ldb, or [N,K] ldb when trans_b; ab_dtype
    const void    *bias; // [N] bias_dtype, or NULL
    void          *aux;  // [M,N] ldc, c_dtype: out for MATMUL_GELU, in for MATMUL_DGELU
    int64_t        M, N, K, lda, ldb, ldc;
    bool           trans_a, trans_b, accumulate;
    MatmulEpilogue epilogue;
    Activation     act;
    DType          ab_dtype, c_dtype, bias_dtype;
} MatmulArgs;

LT_C_BEGIN
LT_MUST_CHECK Status matmul_check(const MatmulArgs *a, Err *err);
LT_C_END
