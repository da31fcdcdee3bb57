// matmul_hopper_dgelu.cu -- C = A B act'(aux): gradients of inputs, through an activation.
// See matmul_hopper.cuh.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/matmul_hopper_kernel.cuh"

namespace matmul_hopper
{
MATMUL_HOPPER_DGELU(MATMUL_HOPPER_INSTANCE)
}
