// vec_ops.h -- the vectorised ops of one instruction set, by name.
//
// Each serves f32, bf16 and f16: elements are widened to f32 when loaded and rounded when stored.
// None allocates. Work is cut into pieces that depend on the shapes alone and threads only pick
// pieces, so results are bitwise the same for any number of threads.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa.h"

LT_C_BEGIN
#define VEC_OP(op, Args) Status ISA_NAME(vec_##op)(const Args *a, OpCtx *cx, Err *err)
#define VEC_OP_SCRATCH(op, Args)                                                                   \
    size_t ISA_NAME(vec_##op##_scratch)(const Args *a, const OpCtx *cx);                           \
    VEC_OP(op, Args)

VEC_OP(embedding_fwd, EmbeddingFwdArgs);
VEC_OP(embedding_bwd, EmbeddingBwdArgs);
VEC_OP(gather_rows, GatherRowsArgs);
VEC_OP(scatter_rows, ScatterRowsArgs);
VEC_OP(act_bwd, ActBwdArgs);
VEC_OP(dropout, DropoutArgs);
VEC_OP_SCRATCH(layernorm_fwd, LayernormFwdArgs);
VEC_OP_SCRATCH(layernorm_bwd, LayernormBwdArgs);
VEC_OP(bias_bwd, BiasBwdArgs);
VEC_OP_SCRATCH(attention_fwd, AttentionFwdArgs);
VEC_OP_SCRATCH(attention_bwd, AttentionBwdArgs);
VEC_OP(cross_entropy, CrossEntropyArgs);
VEC_OP_SCRATCH(sum_squares, SumSquaresArgs);
VEC_OP_SCRATCH(fp8_quantize, Fp8QuantizeArgs);
VEC_OP_SCRATCH(adamw, AdamwArgs);
VEC_OP_SCRATCH(lamb, LambArgs);
VEC_OP(cast, CastArgs);
LT_C_END
