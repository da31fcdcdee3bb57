// attention_bwd_hopper_plain.cu -- attention, backward, for Hopper: the main kernel without
// dropout.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/attention_bwd_hopper.cuh"

cudaError_t attention_bwd_main(const BwdMaps &maps, const BwdParams &p, int64_t blocks,
                               cudaStream_t stream)
{
    return p.D <= 64 ? bwd_main<64, false>(maps, p, blocks, stream)
                     : bwd_main<128, false>(maps, p, blocks, stream);
}
