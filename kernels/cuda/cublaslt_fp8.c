// cublaslt_fp8.c -- op matmul_fp8 by cuBLASLt; see cublaslt.h.
//
// WHAT    C = bias + (A B^T) a_inv b_inv for FP8 A and B, C in bf16, f16 or f32; or C += in f32.
// MATH    As in cublaslt.c our B is cuBLASLt's A. Both have k contiguous, in its words "TN": the
//         one layout it takes FP8 in, for the same reason as our kernel. A and B are multiplied by
//         the numbers at their scale pointers, which are the inverse scales.
// SUMS    `fast` is its FAST_ACCUM; without it partial sums are promoted as the contract says.
// SHAPES  Its FP8 algorithms want M, N, K, rows and addresses in multiples of 16: the heuristic
//         knows, and what it refuses another implementation does. Not asked for: activations and
//         FP8 results. It has words for some of them, but neither for a transposed copy nor for
//         what is counted, and to write those would take the pass over memory that our kernel's
//         epilogue saves.
// SCRATCH workspace | a copy of C (accumulate, while timing) | fingerprint
// RULES   Repeatable bits: cublaslt_choice.h.
//
// Never executed: see cublaslt.c.
//
// SPDX-License-Identifier: MIT
#include "engine/base/mem.h"
#include "kernels/cuda/cublaslt_library.h"
#include "kernels/cuda/device_cuda.h"

static const char *not_asked_for(const MatmulFp8Args *a)
{
    if (a->M == 0 || a->N == 0 || a->K == 0) return "an empty product is not for cuBLASLt";
    if (a->epilogue != MATMUL_PLAIN) return "cuBLASLt is not asked for activations of FP8 products";
    if (a->out.scale || !a->C) return "cuBLASLt is not asked for results in FP8";
    if (a->bias && (a->bias_dtype != a->c_dtype || a->c_dtype == DTYPE_F32))
        return "cuBLASLt adds a bias of C's type, which is a 16-bit one, only";
    return NULL;
}

static CublasltProduct product_of(const MatmulFp8Args *a)
{
    return (CublasltProduct){.m = a->N,
                             .n = a->M,
                             .k = a->K,
                             .lda = a->ldb,
                             .ldb = a->lda,
                             .ldd = a->ldc,
                             .trans_a = 1,
                             .add = a->accumulate,
                             .epilogue =
                                 a->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT,
                             .a_dtype = (int32_t)a->b_dtype,
                             .b_dtype = (int32_t)a->a_dtype,
                             .d_dtype = (int32_t)a->c_dtype,
                             .align_a = cublaslt_alignment(a->B),
                             .align_b = cublaslt_alignment(a->A),
                             .align_d = cublaslt_alignment(a->C),
                             .align_bias = a->bias ? cublaslt_alignment(a->bias) : 0,
                             .scaled = 1,
                             .fast = a->fast};
}

static CublasltPointers pointers_of(const MatmulFp8Args *a)
{
    return (CublasltPointers){.bias = a->bias, .a_scale = a->b_inv, .b_scale = a->a_inv};
}

static CublasltChoice *choice_of(Cublaslt *lt, const MatmulFp8Args *a)
{
    const CublasltProduct p = product_of(a);
    const CublasltPointers at = pointers_of(a);
    return cublaslt_choose(&lt->choices, &p, &at);
}

static bool row_supports(const MatmulFp8Args *a, const OpCtx *cx, const char **why)
{
    Cublaslt *lt = cublaslt_of(cx);
    if (!cublaslt_ready(lt, why)) return false;
    *why = not_asked_for(a);
    if (*why) return false;
    const CublasltChoice *choice = choice_of(lt, a);
    if (choice && choice->n > 0) return true;
    *why = cublaslt_refusal(lt, choice);
    return false;
}

static size_t row_scratch(const MatmulFp8Args *a, const OpCtx *cx)
{
    const CublasltChoice *choice = choice_of(cublaslt_of(cx), a);
    return choice ? cublaslt_scratch(choice, cublaslt_copy(choice)) : 0;
}

static Status row_run(const MatmulFp8Args *a, OpCtx *cx, Err *err)
{
    Cublaslt *lt = cublaslt_of(cx);
    CublasltChoice *choice = choice_of(lt, a);
    if (!choice) return mem_err(err, sizeof *choice, "a choice of algorithm");
    CublasltOperands o = {.A = a->B, .B = a->A, .D = a->C, .at = pointers_of(a)};
    cublaslt_place(&o, choice, cublaslt_copy(choice), cx);
    TRY(cublaslt_run(&lt->choices, choice, device_cuda_of(cx->device), &o, err));
    return device_cuda_queued(cx->device, "matmul_fp8", "cublaslt", 0, err);
}

void cublaslt_fp8_register(Ops *ops)
{
    ops_add_matmul_fp8(ops, (Impl_matmul_fp8){.impl = "cublaslt",
                                              .supports = row_supports,
                                              .scratch = row_scratch,
                                              .run = row_run});
}
