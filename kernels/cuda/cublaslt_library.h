// cublaslt_library.h -- the library as a device has it, and what its two rows (matmul, matmul_fp8)
// do alike: the choices of all shapes, the parts of scratch memory, a product from there to the
// queue.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/cublaslt_choice.h"

struct Cublaslt {
    CublasltApi api;
    CublasltChoices choices; // handle NULL: there is none, and `why` says why
    char why[512];
};

LT_C_BEGIN
// The device's, opened when first asked for; NULL: no memory.
Cublaslt *cublaslt_of(const OpCtx *cx);
// Is it there? *why says why not.
bool cublaslt_ready(const Cublaslt *lt, const char **why);
// Why nothing serves the product of a choice without algorithms (NULL: no memory).
const char *cublaslt_refusal(Cublaslt *lt, const CublasltChoice *choice);

int32_t cublaslt_alignment(const void *p); // bytes, at most 16: no algorithm needs more

// Scratch memory: workspace | a matrix | fingerprint. Bytes of a matrix of the product's size.
size_t cublaslt_matrix(const CublasltChoice *choice);
// The same where a sum into C is timed, on a copy of C; else 0.
size_t cublaslt_copy(const CublasltChoice *choice);
size_t cublaslt_scratch(const CublasltChoice *choice, size_t matrix);
// The parts in cx->scratch: workspace, copy (the matrix) and fingerprint of o.
void cublaslt_place(CublasltOperands *o, const CublasltChoice *choice, size_t matrix,
                    const OpCtx *cx);

// The rows: cublaslt.c and cublaslt_fp8.c.
void cublaslt_matmul_register(Ops *ops);
void cublaslt_fp8_register(Ops *ops);
LT_C_END
