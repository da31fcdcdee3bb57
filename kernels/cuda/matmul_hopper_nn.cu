// matmul_hopper_nn.cu -- C = A B: gradients of inputs. See matmul_hopper.cuh.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/matmul_hopper_kernel.cuh"

namespace matmul_hopper
{
MATMUL_HOPPER_NN(MATMUL_HOPPER_INSTANCE)
}
