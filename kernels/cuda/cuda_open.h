// cuda_open.h -- the GPUs of this machine, and one of them as a Device with its kernels.
//
// This header needs no CUDA. cuda_open.c implements it; in a build without CUDA cuda_none.c does,
// and finds nothing.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include "engine/base/err.h"
#include "kernels/device.h"
#include "kernels/ops.h"

enum { CUDA_GPUS_MAX = 16, CUDA_CC_MIN = 80 };

typedef struct CudaGpu {
    char name[96];
    int cc; // compute capability: 80, 90, ...
    int sm_count;
    size_t bytes;   // of memory
    bool supported; // cc >= CUDA_CC_MIN
} CudaGpu;

typedef struct CudaFound {
    int n; // GPUs, supported or not; index i is cuda:i
    CudaGpu gpu[CUDA_GPUS_MAX];
    int first;        // the first supported one, or -1
    bool built;       // does this build have CUDA kernels at all?
    char toolkit[16]; // "13.0": of the CUDA it was built with, or ""
    bool surprise;    // first < 0 although there is a driver or a GPU: worth a warning
    char why[256];    // first < 0: why, one line
    char hint[256];   // what the user can do about it, or ""
} CudaFound;

LT_C_BEGIN
// Looks for GPUs; touches none of them. Never fails: `why` says what is missing.
void cuda_find(CudaFound *out);
// Opens cuda:index of what cuda_find found. The op table gets its kernels and nothing else:
// others cannot reach its memory.
LT_MUST_CHECK Status cuda_open(Device *d, Ops *ops, const CudaFound *f, int index, Err *err);
// "cuBLASLt 13.1.0, cuDNN 9.19.0", or why one is not there; "" in a build without CUDA. They are
// opened when the program runs, if they are there, and never needed.
void cuda_libraries(char *out, size_t size);
void cuda_close(Device *d); // not a CUDA device: nothing happens
LT_C_END
