// cuda_device.h -- what a kernel's launcher needs to know of the GPU it queues work on.
//
// No CUDA header is needed to read this one: it is shared by C files, nvcc's C++ and the tests.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stddef.h>

struct CUstream_st; // cudaStream_t points to it

typedef struct CudaDevice {
    struct CUstream_st *stream; // everything is queued here, in order
    int index;                  // cuda:index
    int cc;                     // compute capability: 80, 90, ...
    int sm_count;
    int smem_per_block; // bytes of shared memory that one block may ask for
    size_t l2_bytes;
} CudaDevice;
