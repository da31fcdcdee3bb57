// matmul_hopper_f16.cu -- f16 operands. See matmul_hopper.cuh.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/matmul_hopper_kernel.cuh"

namespace matmul_hopper
{
MATMUL_HOPPER_F16(MATMUL_HOPPER_INSTANCE)
}
