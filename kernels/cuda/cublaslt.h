// cublaslt.h -- matrix products by NVIDIA's cuBLASLt, as implementation "cublaslt" of the ops
// matmul and matmul_fp8.
//
// The library is opened when a device first asks for it; without it the rows say why, and another
// implementation serves. cublaslt_library.c implements this header, with cublaslt.c for matmul and
// cublaslt_fp8.c for matmul_fp8; where cublasLt.h was missing when lathe was built, cublaslt_none.c
// does, which knows no such implementation.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stddef.h>
#include "kernels/ops.h"

// Of one device: the library's handle and what was chosen for each shape. Not for several threads.
typedef struct Cublaslt Cublaslt;

LT_C_BEGIN
// "cuBLASLt 13.1.0", or why there is none. Opens the library, but touches no GPU.
void cublaslt_describe(char *out, size_t size);
// Enters "cublaslt" as the preferred implementation of both.
void cublaslt_register(Ops *ops);
void cublaslt_close(Cublaslt *lt); // NULL is fine
LT_C_END
