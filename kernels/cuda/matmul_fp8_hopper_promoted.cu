// matmul_fp8_hopper_promoted.cu -- FP8 with sums in f32: gradients. See matmul_hopper.cuh.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/matmul_hopper_kernel.cuh"

namespace matmul_hopper
{
MATMUL_HOPPER_FP8_PROMOTED(MATMUL_HOPPER_INSTANCE)
}
