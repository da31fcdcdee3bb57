// naive.h -- turns the reference implementations into their single-precision twins.
//
// kernels/ref/*.c is compiled a second time with this file in front (-include): every `double` in
// it becomes `float`, every name_ref becomes name_naive. What comes out is the plainest computation
// in the precision the fast kernels have; its error is the yardstick for theirs (op_harness.h).
//
// SPDX-License-Identifier: MIT
#pragma once
#include <math.h>
#include "engine/base/assert.h"
#include "kernels/ref/ref.h"

#define double                float
#define ref_register          naive_register
#define act_bwd_ref           act_bwd_naive
#define adamw_ref             adamw_naive
#define attention_bwd_ref     attention_bwd_naive
#define attention_fwd_ref     attention_fwd_naive
#define bias_bwd_ref          bias_bwd_naive
#define cast_ref              cast_naive
#define cross_entropy_ref     cross_entropy_naive
#define dropout_ref           dropout_naive
#define embedding_bwd_ref     embedding_bwd_naive
#define embedding_fwd_ref     embedding_fwd_naive
#define fp8_quantize_ref      fp8_quantize_naive
#define fp8_update_ref        fp8_update_naive
#define gather_rows_ref       gather_rows_naive
#define lamb_ref              lamb_naive
#define layernorm_bwd_ref     layernorm_bwd_naive
#define layernorm_fwd_ref     layernorm_fwd_naive
#define matmul_fp8_ref        matmul_fp8_naive
#define matmul_ref            matmul_naive
#define scatter_rows_ref      scatter_rows_naive
#define step_gate_ref         step_gate_naive
#define sum_ref               sum_naive
#define sum_squares_ref       sum_squares_naive

#define OP(name, Args, summary) Status name##_ref(const Args *a, OpCtx *cx, Err *err);
#include "kernels/ops.def"
#undef OP
