// backends_cuda.c -- one backend: the first GPU, or the simulated one of tests/cudasim.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cuda_open.h"
#include "tests/kernels/backends.h"

#include <stdio.h>

int op_backend_count(void)
{
    return 1;
}

bool op_backend_open(int i, OpBackend *out, char why[512])
{
    Err err;
    CudaFound found;
    (void)i;
    cuda_find(&found);
    *out = (OpBackend){.name = "cuda"};
    device_cpu_init(&out->device, 1);
    const int index = found.first < 0 ? 0 : found.first;
    if (cuda_open(&out->device, &out->ops, &found, index, &err) == ERR_NONE) return true;
    snprintf(why, 512, "%.500s", err.text);
    return false;
}
