// op_cases.h -- cases of the op matrix that have a file of their own; op_cases.c has the others.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "tests/support/op_harness.h"

typedef struct MatmulFp8Case {
    int64_t        M, N, K;
    int            flags; // of op_cases_matmul_fp8.c
    MatmulEpilogue epilogue;
    Activation     act;
} MatmulFp8Case;

LT_C_BEGIN
extern const MatmulFp8Case matmul_fp8_cases[36];
void build_matmul_fp8(Case *c, int variant, const Mix *m);
LT_C_END
