// matmul_hopper_nt.cu -- C = A B^T: forward. See matmul_hopper.cuh.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/matmul_hopper_kernel.cuh"

namespace matmul_hopper
{
MATMUL_HOPPER_NT(MATMUL_HOPPER_INSTANCE)
}
