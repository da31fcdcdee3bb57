// gemm_fp8.h -- product of two FP8 tensors by any packed product: what all of them share.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/gemm.h"

LT_C_BEGIN
bool gemm_fp8_supports(const MatmulFp8Args *a, const OpCtx *cx, const char **why);
size_t gemm_fp8_scratch(const GemmKernel *k, const MatmulFp8Args *a, const OpCtx *cx);
LT_MUST_CHECK Status gemm_fp8_run(const GemmKernel *k, const MatmulFp8Args *a, OpCtx *cx, Err *err);
// fp8_hopper_sums.c
void cpu_matmul_fp8_register_hopper_sums(Ops *ops);
LT_C_END
