// cublaslt_none.c -- cublaslt.h in a build without cublasLt.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cublaslt.h"

#include <stdio.h>

void cublaslt_describe(char *out, size_t size)
{
    snprintf(out, size, "no cuBLASLt: this build was made without cublasLt.h");
}

void cublaslt_register(Ops *ops)
{
    (void)ops;
}

void cublaslt_close(Cublaslt *lt)
{
    (void)lt;
}
