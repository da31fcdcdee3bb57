// gemm_fp8.c -- product of two FP8 tensors on the CPU.
// Contract: kernels/ops/matmul_fp8.h    Driver: gemm_driver.c
//
// WHAT    No CPU here multiplies FP8. But every FP8 number is a bf16 number, and an f32 one: the
//         packed product of this instruction set (AMX, vdpbf16ps, f32) widens its operands while it
//         packs them and then runs as ever. The scale enters once, where sums are finished.
//
//             A, B  FP8 --pack--> bf16 or f32 panels --> sums * a_inv b_inv + bias, epilogue --> C
//                                                                    C --fp8_quantize--> q, qt
//
//         The FP8 result is what fp8_quantize makes of C, with its amax, counts and column sums; a
//         C that nobody wants lies in scratch.
//
// COST    The product's, half the bytes of A and B, and for `out` one pass of fp8_quantize.
// ROUND   Products exact, sums f32 as the kernel adds them; `fast` changes nothing.
// SHAPES  everything the contract allows but dbias without `out`, which no model asks for.
//
// SPDX-License-Identifier: MIT
#include "kernels/cpu/gemm_fp8.h"

enum { ALIGN = 64 };

// Of a C in scratch; its rows are as long as aux's.
static size_t c_bytes(const MatmulFp8Args *a)
{
    return a->C ? 0 : LT_ROUND_UP((size_t)(a->M * a->ldc) * dtype_bytes(a->c_dtype), ALIGN);
}

static MatmulArgs plain(const MatmulFp8Args *a, void *C)
{
    return (MatmulArgs){.C = C,
                        .A = a->A,
                        .B = a->B,
                        .bias = a->bias,
                        .aux = a->aux,
                        .M = a->M,
                        .N = a->N,
                        .K = a->K,
                        .lda = a->lda,
                        .ldb = a->ldb,
                        .ldc = a->ldc,
                        .trans_b = true,
                        .accumulate = a->accumulate,
                        .epilogue = a->epilogue,
                        .act = a->act,
                        .ab_dtype = DTYPE_BF16,
                        .c_dtype = a->c_dtype,
                        .bias_dtype = a->bias_dtype};
}

static Fp8QuantizeArgs quantize(const MatmulFp8Args *a, const void *C)
{
    return (Fp8QuantizeArgs){.out = a->out,
                             .dbias = a->dbias,
                             .src = C,
                             .R = a->M,
                             .C = a->N,
                             .ld = a->ldc,
                             .accumulate = a->dbias_accumulate,
                             .src_dtype = a->c_dtype};
}

bool gemm_fp8_supports(const MatmulFp8Args *a, const OpCtx *cx, const char **why)
{
    (void)cx;
    *why = "sums of columns only of an FP8 result";
    return !a->dbias || a->out.scale;
}

size_t gemm_fp8_scratch(const GemmKernel *k, const MatmulFp8Args *a, const OpCtx *cx)
{
    if (a->M == 0 || a->N == 0) return 0;
    const MatmulArgs m = plain(a, a->C);
    size_t rest = gemm_scratch(k, &m, cx);
    if (a->out.scale) {
        OpPlan plan = {0};
        OpCtx measure = {.ops = cx->ops, .device = cx->device, .plan = &plan};
        const Fp8QuantizeArgs q = quantize(a, a->C ? a->C : a->a_inv); // an address nobody follows
        if (op_fp8_quantize(&measure, &q, NULL) == ERR_NONE)
            rest = LT_MAX(rest, plan.scratch_bytes);
    }
    return ALIGN + c_bytes(a) + rest;
}

Status gemm_fp8_run(const GemmKernel *k, const MatmulFp8Args *a, OpCtx *cx, Err *err)
{
    if (a->M == 0 || a->N == 0) return ERR_NONE;
    char *room = (char *)cx->scratch + (-(uintptr_t)cx->scratch & (ALIGN - 1));
    void *C = a->C ? a->C : room;
    OpCtx inner = *cx;
    inner.scratch = room + c_bytes(a);
    inner.scratch_bytes = cx->scratch_bytes - (size_t)((char *)inner.scratch - (char *)cx->scratch);
    const MatmulArgs m = plain(a, C);
    const GemmExtra extra = {.a_dtype = a->a_dtype,
                             .b_dtype = a->b_dtype,
                             .alpha = *a->a_inv * *a->b_inv,
                             .read_back = a->out.scale != NULL};
    gemm_run_extra(k, &m, &extra, &inner);
    if (!a->out.scale) return ERR_NONE;
    const Fp8QuantizeArgs q = quantize(a, C);
    return op_fp8_quantize(&inner, &q, err);
}
