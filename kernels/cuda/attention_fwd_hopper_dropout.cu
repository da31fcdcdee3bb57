// attention_fwd_hopper_dropout.cu -- attention, forward, for Hopper: probabilities are dropped.
// The kernel and its page: attention_fwd_hopper.cuh
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/attention_fwd_hopper.cuh"

cudaError_t fwd_dropout(const FwdCall &f, cudaStream_t stream)
{
    return fwd_mask<FWD_DROPOUT>(f, stream);
}
