// attention_fwd_hopper_params.cuh -- between the launcher (attention_fwd_hopper.cu) and the files
// that hold the kernels of one kind of mask each.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>
#include "kernels/cuda/attention_mask.cuh"
#include "kernels/cuda/rng.cuh"

enum FwdMask { FWD_FULL, FWD_CAUSAL, FWD_SPANS, FWD_DROPOUT };

struct FwdParams { // of the kernel
    float *lse;    // or nullptr
    int Tq, Tk;
    float scale;
    AttentionMaskParams mask; // SPANS and DROPOUT
    Dropout drop;             // DROPOUT
};

struct FwdCall {
    void *out;
    const void *q, *k, *v;
    int64_t B, H, D;
    int64_t q_batch, q_row, kv_batch, kv_row, out_batch, out_row;
    FwdParams params;
};

struct FwdMaps {
    CUtensorMap q, k, v; // boxes are the tiles of the kernel
    CUtensorMap out;     // 64 rows
};

cudaError_t fwd_maps(FwdMaps *maps, const FwdCall &f, int q_rows, int k_rows);
cudaError_t fwd_causal(const FwdCall &f, cudaStream_t stream);
cudaError_t fwd_spans(const FwdCall &f, cudaStream_t stream);
cudaError_t fwd_dropout(const FwdCall &f, cudaStream_t stream);
