// attention_bwd_hopper_dropout.cu -- attention, backward, for Hopper: the main kernel with dropout
// of the probabilities.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/attention_bwd_hopper.cuh"

cudaError_t attention_bwd_main_dropout(const BwdMaps &maps, const BwdParams &p, int64_t blocks,
                                       cudaStream_t stream)
{
    return p.D <= 64 ? bwd_main<64, true>(maps, p, blocks, stream)
                     : bwd_main<128, true>(maps, p, blocks, stream);
}
