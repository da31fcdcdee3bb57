// matmul_hopper_gelu.cu -- C = act(A B^T + bias): forward, the first half of an MLP.
// See matmul_hopper.cuh.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/matmul_hopper_kernel.cuh"

namespace matmul_hopper
{
MATMUL_HOPPER_GELU(MATMUL_HOPPER_INSTANCE)
}
