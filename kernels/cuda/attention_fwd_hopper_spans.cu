// attention_fwd_hopper_spans.cu -- attention, forward, for Hopper: a query sees a span of keys.
// The kernel and its page: attention_fwd_hopper.cuh
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/attention_fwd_hopper.cuh"

cudaError_t fwd_spans(const FwdCall &f, cudaStream_t stream)
{
    return fwd_mask<FWD_SPANS>(f, stream);
}
