// cudnn_sdpa.h -- attention in the words of cuDNN's backend: the operations whose pattern its fused
// engines recognise. The meaning is that of kernels/ops/attention_fwd.h and attention_bwd.h.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cuda/cudnn_graph.h"

// Names of the tensors that a run gives addresses to.
typedef enum CudnnSdpaUid {
    CUDNN_SDPA_Q = 1,
    CUDNN_SDPA_K, // seen as its transpose; the same memory
    CUDNN_SDPA_V, // backward: likewise
    CUDNN_SDPA_OUT,
    CUDNN_SDPA_LSE,
    CUDNN_SDPA_DOUT,
    CUDNN_SDPA_DQ,
    CUDNN_SDPA_DK,
    CUDNN_SDPA_DV,
    CUDNN_SDPA_DELTA,  // [B,H,T] f32, room for the row sums of dout * out
    CUDNN_SDPA_SCALE,  // f32 of the host
    CUDNN_SDPA_HIDDEN, // f32 of the host: what a masked score becomes
    CUDNN_SDPA_ONE,    // f32 of the host: 1
} CudnnSdpaUid;

// Two calls with equal shapes share a plan. Compared byte by byte.
typedef struct CudnnSdpaShape {
    int64_t B, H, Tq, Tk, D;
    int64_t q_batch, q_row, kv_batch, kv_row, out_batch, out_row; // elements
    int32_t backward, causal;
    int32_t dtype; // DType: bf16 or f16
    int32_t unused;
} CudnnSdpaShape;

LT_C_BEGIN
// Puts the operations into an open graph and closes it. false: see g->status, g->where.
bool cudnn_sdpa_build(CudnnGraph *g, const CudnnSdpaShape *s);
LT_C_END
