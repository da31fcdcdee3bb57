// matmul_fp8_hopper_fast.cu -- FP8, all of K in the tensor core: forward. See matmul_hopper.cuh.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/matmul_hopper_kernel.cuh"

namespace matmul_hopper
{
MATMUL_HOPPER_FP8_FAST(MATMUL_HOPPER_INSTANCE)
}
