// attention_fwd_hopper_full.cu -- attention, forward, for Hopper: every query sees all keys.
// The kernel and its page: attention_fwd_hopper.cuh
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/attention_fwd_hopper.cuh"

cudaError_t fwd_full(const FwdCall &f, cudaStream_t stream)
{
    return fwd_mask<FWD_FULL>(f, stream);
}
