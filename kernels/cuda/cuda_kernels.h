// cuda_kernels.h -- the launchers of the CUDA kernels, one row for each op and implementation.
//
//     cuda_NAME     plain CUDA, any GPU from sm_80 on; NAME.cu
//     hopper_NAME   sm_90a: TMA, mbarriers, wgmma;     NAME_hopper.cu
//
// A row declares three functions:
//   *_supports   can it do this call on this GPU? *why gets the reason when it says no
//   *_scratch    bytes of scratch memory that the call needs; 0 is fine
//   *            queues the kernels on d->stream and returns a cudaError_t, 0 when all are queued
// The arguments have passed the op's check (kernels/ops/NAME.h): a launcher repeats none of it, and
// it never waits for the device. Rows become part of the op table in cuda_register.c.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include "engine/base/compiler.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/ops/act_bwd.h"
#include "kernels/ops/adamw.h"
#include "kernels/ops/attention_bwd.h"
#include "kernels/ops/attention_fwd.h"
#include "kernels/ops/bias_bwd.h"
#include "kernels/ops/cast.h"
#include "kernels/ops/cross_entropy.h"
#include "kernels/ops/dropout.h"
#include "kernels/ops/embedding_bwd.h"
#include "kernels/ops/embedding_fwd.h"
#include "kernels/ops/fp8_quantize.h"
#include "kernels/ops/fp8_update.h"
#include "kernels/ops/gather_rows.h"
#include "kernels/ops/lamb.h"
#include "kernels/ops/layernorm_bwd.h"
#include "kernels/ops/layernorm_fwd.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/matmul_fp8.h"
#include "kernels/ops/scatter_rows.h"
#include "kernels/ops/step_gate.h"
#include "kernels/ops/sum.h"
#include "kernels/ops/sum_squares.h"

#define CUDA_KERNEL(name, Args)                                                                    \
    bool name##_supports(const CudaDevice *d, const Args *a, const char **why);                    \
    size_t name##_scratch(const CudaDevice *d, const Args *a);                                     \
    int name(const CudaDevice *d, const Args *a, void *scratch)

LT_C_BEGIN
CUDA_KERNEL(cuda_embedding_fwd, EmbeddingFwdArgs);
CUDA_KERNEL(cuda_embedding_bwd, EmbeddingBwdArgs);
CUDA_KERNEL(cuda_act_bwd, ActBwdArgs);
CUDA_KERNEL(cuda_gather_rows, GatherRowsArgs);
CUDA_KERNEL(cuda_scatter_rows, ScatterRowsArgs);
CUDA_KERNEL(cuda_dropout, DropoutArgs);
CUDA_KERNEL(cuda_layernorm_fwd, LayernormFwdArgs);
CUDA_KERNEL(cuda_layernorm_bwd, LayernormBwdArgs);
CUDA_KERNEL(cuda_matmul, MatmulArgs);
CUDA_KERNEL(cuda_matmul_fp8, MatmulFp8Args);
CUDA_KERNEL(cuda_bias_bwd, BiasBwdArgs);
CUDA_KERNEL(cuda_attention_fwd, AttentionFwdArgs);
CUDA_KERNEL(cuda_attention_bwd, AttentionBwdArgs);
CUDA_KERNEL(cuda_cross_entropy, CrossEntropyArgs);
CUDA_KERNEL(cuda_sum_squares, SumSquaresArgs);
CUDA_KERNEL(cuda_sum, SumArgs);
CUDA_KERNEL(cuda_step_gate, StepGateArgs);
CUDA_KERNEL(cuda_adamw, AdamwArgs);
CUDA_KERNEL(cuda_lamb, LambArgs);
CUDA_KERNEL(cuda_cast, CastArgs);
CUDA_KERNEL(cuda_fp8_quantize, Fp8QuantizeArgs);
CUDA_KERNEL(cuda_fp8_update, Fp8UpdateArgs);

CUDA_KERNEL(hopper_matmul, MatmulArgs);
CUDA_KERNEL(hopper_matmul_fp8, MatmulFp8Args);
CUDA_KERNEL(hopper_attention_fwd, AttentionFwdArgs);
CUDA_KERNEL(hopper_attention_bwd, AttentionBwdArgs);
LT_C_END
