// cublaslt_kernels.h -- the two kernels that stand beside cuBLASLt (cublaslt_kernels.cu).
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include "engine/base/compiler.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/ops/matmul.h"

LT_C_BEGIN
// C = epilogue(sums): [M,N] in f32, rows `ld` apart, 16-byte aligned, ld % 4 == 0. NULL: all 0.
int cublaslt_finish(const CudaDevice *d, const MatmulArgs *a, const float *sums, int64_t ld);
// *out (on the device) = a number that depends on every bit of x [rows,cols] ld.
int cublaslt_fingerprint(const CudaDevice *d, const void *x, DType t, int64_t rows, int64_t cols,
                         int64_t ld, uint64_t *out);
LT_C_END
