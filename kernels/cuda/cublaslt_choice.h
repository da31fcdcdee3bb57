// cublaslt_choice.h -- which of cuBLASLt's algorithms serves a product, decided once a shape.
//
//     product    what cuBLASLt is told: column-major D[m,n] = A^T or A [m,k] x B or B^T [k,n] ...
//     choice     its descriptors, the algorithms that could do it, and the one that does
//
// The heuristic of cuBLASLt proposes algorithms, best guess first. When the product first runs,
// they are timed on the real operands and the fastest is kept. What must not change by that:
//
//   Bits.   An algorithm that adds up in another order gives other bits, and time is different in
//           each run of a program. So only those are timed that give the very bits of the first one
//           (cublaslt_fingerprint): the choice changes time and nothing else.
//   Order.  A cut of K whose parts are added in the order in which they happen to end is not
//           repeatable: such algorithms are not asked for, and are refused if offered.
//
// While a CUDA graph is captured nothing can be timed: the first one runs, and the choice waits.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/err.h"
#include "kernels/cuda/cublaslt_api.h"
#include "kernels/cuda/cuda_device.h"
#include "engine/base/dtype.h"

enum {
    CUBLASLT_SHAPES = 256,         // choices that are kept; of more, the oldest is forgotten
    CUBLASLT_CANDIDATES = 8,       // algorithms to ask for
    CUBLASLT_WORKSPACE = 32 << 20, // bytes that an algorithm may want
    CUBLASLT_ALIGN = 256,          // of workspace
};

// Without pointers: two calls with equal products share a choice. Compared byte by byte.
typedef struct CublasltProduct {
    int64_t m, n, k, lda, ldb, ldd;
    int32_t trans_a, trans_b;
    int32_t add;      // D += instead of D =
    int32_t epilogue; // cublasLtEpilogue_t
    int32_t has_aux;
    int32_t a_dtype, b_dtype, d_dtype;             // DType; bias and aux have d_dtype
    int32_t align_a, align_b, align_d, align_bias; // bytes; at most 16
    int32_t scaled;                                // A and B are FP8 and have scales
    int32_t fast;                                  // FP8: all of k within the tensor core
} CublasltProduct;

// What a descriptor names by address. Two calls that share a choice may differ in these.
typedef struct CublasltPointers {
    const void *bias, *aux;        // aux is written by GELU_AUX
    const void *a_scale, *b_scale; // one f32 each that A, B is multiplied by, at 16 bytes; or NULL
} CublasltPointers;

typedef struct CublasltOperands {
    const void *A, *B;
    void *D;
    CublasltPointers at;
    void *workspace;       // aligned, as much as the choice says
    void *copy;            // when `add`: room for D's m x n, rows ldd apart, while timing
    uint64_t *fingerprint; // one number on the device, while timing
} CublasltOperands;

typedef struct CublasltChoice {
    CublasltProduct product;
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulAlgo_t algo[CUBLASLT_CANDIDATES];
    int n;    // algorithms; 0: nothing serves this product
    int best; // of them
    bool timed;
    size_t workspace;      // bytes, the most that any of them wants
    cublasStatus_t status; // n == 0: what the library said
} CublasltChoice;

typedef struct CublasltChoices {
    const CublasltApi *api;
    cublasLtHandle_t handle;
    uint64_t hash[CUBLASLT_SHAPES];
    CublasltChoice *choice[CUBLASLT_SHAPES]; // NULL behind the last
    int next;                                // the place of the next new one
} CublasltChoices;

LT_C_BEGIN
// The choice for a product, made now if it is new; NULL: no memory. Of `at` only the alignment
// counts. It stays valid until the next call.
CublasltChoice *cublaslt_choose(CublasltChoices *c, const CublasltProduct *p,
                                const CublasltPointers *at);
// Queues the product, having timed the algorithms if this is the first time.
LT_MUST_CHECK Status cublaslt_run(CublasltChoices *c, CublasltChoice *choice, const CudaDevice *d,
                                  const CublasltOperands *o, Err *err);
void cublaslt_forget(CublasltChoices *c);
// "D[768,8192] = A^T B, k 3072, bf16 to f32, epilogue bias".
void cublaslt_name(const CublasltProduct *p, char *out, size_t size);
LT_C_END
