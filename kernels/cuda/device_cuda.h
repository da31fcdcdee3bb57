// device_cuda.h -- the CUDA side of a Device: its stream, its staging memory, its memory of ops.
//
// Order. All work of a device goes through one stream. An upload copies the host's bytes into one
// of two pinned buffers and returns; the buffer is used again when an event says that the GPU has
// read it. A download waits: its bytes are there when it returns.
//
// Errors. A kernel that goes wrong is noticed later, at the next download or sync. The message then
// names the ops that were queued since the last one that went well. With LATHE_SYNC=1 in the
// environment every op is waited for, and the message names the one.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/err.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/device.h"

// Libraries of the GPU's maker, opened when an op of this device first asks; NULL until then.
typedef struct CudaLibraries {
    struct Cublaslt *cublaslt;
    struct Cudnn *cudnn;
} CudaLibraries;

LT_C_BEGIN
// Opens GPU `index`, which exists and is supported.
LT_MUST_CHECK Status device_cuda_open(Device *d, int index, Err *err);
void device_cuda_close(Device *d);
const CudaDevice *device_cuda_of(const Device *d);
CudaLibraries *device_cuda_libraries(Device *d);
// A launcher has returned `code`: remembers the op, or says what went wrong with it.
LT_MUST_CHECK Status device_cuda_queued(Device *d, const char *op, const char *impl, int code,
                                        Err *err);
LT_C_END
