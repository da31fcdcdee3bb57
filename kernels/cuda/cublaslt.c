// cublaslt.c -- op matmul by cuBLASLt; see cublaslt.h.
//
// WHAT    C = epilogue(op(A) op(B)) by cuBLASLt, in f32 (never TF32), bf16, f16, sums in f32.
// MATH    cuBLASLt thinks in columns. A row-major matrix [R,C] is, byte for byte, the column-major
//         matrix [C,R]; so the row-major C = A B is asked for as the column-major C^T = B^T A^T:
//
//             cuBLASLt's    A  m      B  n      D  m x n, bias along m
//             is our        B  N      A  M      C  M x N, bias along N
//
// ROUTES  fused   the product with its epilogue in one call, where cuBLASLt has such an algorithm:
//                 bias of C's type; the tanh GELU (its only one), aux in rows of 8 elements
//         split   the product in f32 to scratch memory, then our epilogue (cublaslt_kernels.cu):
//                 everything else, and whatever the heuristic has no fused algorithm for
// ROUND   fused GELU takes the activation of the f32 sum, the split one of the rounded value that
//         aux holds: C may differ by what rounding aux moves it, which the contract's tests allow.
// SCRATCH workspace | sums (split) or a copy of C (fused accumulate, while timing) | fingerprint
//         The plan asks the same questions as the run, at addresses that are aligned alike, so both
//         get the same answer.
// RULES   Repeatable bits: cublaslt_choice.h.
// SHAPES  everything the contract allows, if cuBLASLt has an algorithm for the plain product.
//
// Never executed: no GPU was at hand. What is tested: all of this with a stand-in for the library
// in the simulator (tests/kernels/fake_cublaslt.c); that cuBLASLt 13.1 accepts every descriptor.
// Not tested: the real heuristic and its algorithms, the gain of choosing, capture of a graph.
//
// SPDX-License-Identifier: MIT
#include "engine/base/mem.h"
#include "kernels/cuda/cublaslt_kernels.h"
#include "kernels/cuda/cublaslt_library.h"
#include "kernels/cuda/device_cuda.h"

// ---- which product to ask for -----------------------------------------------------------------

static CublasltProduct product_of(const MatmulArgs *a)
{
    return (CublasltProduct){.m = a->N,
                             .n = a->M,
                             .k = a->K,
                             .lda = a->ldb,
                             .ldb = a->lda,
                             .ldd = a->ldc,
                             .trans_a = a->trans_b,
                             .trans_b = a->trans_a,
                             .add = a->accumulate,
                             .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
                             .a_dtype = (int32_t)a->ab_dtype,
                             .b_dtype = (int32_t)a->ab_dtype,
                             .d_dtype = (int32_t)a->c_dtype,
                             .align_a = cublaslt_alignment(a->B),
                             .align_b = cublaslt_alignment(a->A),
                             .align_d = cublaslt_alignment(a->C)};
}

// The product with its epilogue; false: cuBLASLt has no words for it.
static bool fused_product(const MatmulArgs *a, CublasltProduct *p)
{
    *p = product_of(a);
    const bool aux_fits = a->ldc % 8 == 0 && cublaslt_alignment(a->aux) == 16;
    if (a->bias) {
        if (a->bias_dtype != a->c_dtype) return false;
        p->align_bias = cublaslt_alignment(a->bias);
    }
    switch (a->epilogue) {
    case MATMUL_PLAIN:
        if (a->bias) p->epilogue = CUBLASLT_EPILOGUE_BIAS;
        return true;
    case MATMUL_GELU:
        if (a->act != ACT_GELU_TANH || (a->aux && !aux_fits)) return false;
        p->has_aux = a->aux != NULL;
        if (a->aux)
            p->epilogue = a->bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
        else
            p->epilogue = a->bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
        return true;
    case MATMUL_DGELU:
        if (a->act != ACT_GELU_TANH || !aux_fits || a->bias) return false;
        p->has_aux = 1;
        p->epilogue = CUBLASLT_EPILOGUE_DGELU;
        return true;
    }
    return false;
}

// The product alone, in f32 in rows of whole 16 bytes.
static CublasltProduct split_product(const MatmulArgs *a)
{
    CublasltProduct p = product_of(a);
    p.ldd = (a->N + 3) / 4 * 4;
    p.add = 0;
    p.d_dtype = DTYPE_F32;
    p.align_d = 16;
    return p;
}

typedef struct Route {
    CublasltChoice *choice; // NULL: the product is 0 (K == 0), or there is nothing to do
    bool split;
} Route;

// Neither an empty C nor an empty sum is for cuBLASLt.
static bool find_route(Cublaslt *lt, const MatmulArgs *a, Route *r)
{
    const CublasltPointers at = {.bias = a->bias, .aux = a->aux}, none = {0};
    CublasltProduct p;
    *r = (Route){.split = true};
    if (a->M == 0 || a->N == 0 || a->K == 0) return true;
    if (fused_product(a, &p)) {
        r->choice = cublaslt_choose(&lt->choices, &p, &at);
        r->split = !r->choice || r->choice->n == 0;
        if (!r->split) return true;
    }
    p = split_product(a);
    r->choice = cublaslt_choose(&lt->choices, &p, &none);
    return r->choice && r->choice->n > 0;
}

// ---- scratch ----------------------------------------------------------------------------------

// Bytes of the sums, or of the copy of C.
static size_t matrix_bytes(const Route *r)
{
    return r->split ? cublaslt_matrix(r->choice) : cublaslt_copy(r->choice);
}

// ---- the row of the op table ------------------------------------------------------------------

static bool row_supports(const MatmulArgs *a, const OpCtx *cx, const char **why)
{
    Cublaslt *lt = cublaslt_of(cx);
    Route r;
    if (!cublaslt_ready(lt, why)) return false;
    if (find_route(lt, a, &r)) return true;
    *why = cublaslt_refusal(lt, r.choice);
    return false;
}

static size_t row_scratch(const MatmulArgs *a, const OpCtx *cx)
{
    Route r;
    if (!find_route(cublaslt_of(cx), a, &r) || !r.choice) return 0;
    return cublaslt_scratch(r.choice, matrix_bytes(&r));
}

static Status run_product(Cublaslt *lt, const MatmulArgs *a, OpCtx *cx, const Route *r, Err *err)
{
    const CudaDevice *dev = device_cuda_of(cx->device);
    CublasltOperands o = {.A = a->B, .B = a->A, .D = a->C, .at = {.bias = a->bias, .aux = a->aux}};
    cublaslt_place(&o, r->choice, matrix_bytes(r), cx);
    if (r->split) o.D = o.copy;
    TRY(cublaslt_run(&lt->choices, r->choice, dev, &o, err));
    if (!r->split) return device_cuda_queued(cx->device, "matmul", "cublaslt", 0, err);
    const int code = cublaslt_finish(dev, a, o.D, r->choice->product.ldd);
    return device_cuda_queued(cx->device, "matmul", "cublaslt", code, err);
}

static Status row_run(const MatmulArgs *a, OpCtx *cx, Err *err)
{
    Cublaslt *lt = cublaslt_of(cx);
    Route r;
    if (!find_route(lt, a, &r)) return mem_err(err, sizeof *r.choice, "a choice of algorithm");
    if (r.choice) return run_product(lt, a, cx, &r, err);
    const int code = cublaslt_finish(device_cuda_of(cx->device), a, NULL, 0);
    return device_cuda_queued(cx->device, "matmul", "cublaslt", code, err);
}

void cublaslt_matmul_register(Ops *ops)
{
    ops_add_matmul(ops, (Impl_matmul){.impl = "cublaslt",
                                      .supports = row_supports,
                                      .scratch = row_scratch,
                                      .run = row_run});
}
