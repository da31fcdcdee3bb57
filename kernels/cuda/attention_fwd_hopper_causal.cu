// attention_fwd_hopper_causal.cu -- attention, forward, for Hopper: keys up to the query's own.
// The kernel and its page: attention_fwd_hopper.cuh
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/attention_fwd_hopper.cuh"

cudaError_t fwd_causal(const FwdCall &f, cudaStream_t stream)
{
    return fwd_mask<FWD_CAUSAL>(f, stream);
}
