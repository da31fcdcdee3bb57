// matmul_hopper_tn.cu -- C = A^T B: gradients of weights. See matmul_hopper.cuh.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/matmul_hopper_kernel.cuh"

namespace matmul_hopper
{
MATMUL_HOPPER_TN(MATMUL_HOPPER_INSTANCE)
}
