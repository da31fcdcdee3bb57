// cublaslt.c -- see cublaslt.h.
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
#include "kernels/cuda/cublaslt.h"
#include "engine/base/mem.h"
#include "kernels/cuda/cublaslt_choice.h"
#include "kernels/cuda/cublaslt_kernels.h"
#include "kernels/cuda/device_cuda.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

struct Cublaslt {
    CublasltApi api;
    CublasltChoices choices; // handle NULL: there is none, and `why` says why
    char why[512];
};

// ---- the library ------------------------------------------------------------------------------

static void version_text(size_t v, char out[32])
{
    snprintf(out, 32, "%d.%d.%d", (int)(v / 10000), (int)(v / 100 % 100), (int)(v % 100));
}

void cublaslt_describe(char *out, size_t size)
{
    CublasltApi api;
    char why[256], version[32];
    if (!cublaslt_api_open(&api, why, sizeof why)) {
        snprintf(out, size, "no cuBLASLt: %s", why);
        return;
    }
    version_text(api.GetVersion(), version);
    snprintf(out, size, "cuBLASLt %s", version);
}

static Cublaslt *cublaslt_open(void)
{
    Cublaslt *lt = mem_calloc(1, sizeof *lt);
    if (!lt) return NULL;
    char why[256];
    lt->choices.api = &lt->api;
    if (!cublaslt_api_open(&lt->api, why, sizeof why)) {
        snprintf(lt->why, sizeof lt->why, "no cuBLASLt: %s", why);
        return lt;
    }
    const cublasStatus_t s = lt->api.Create(&lt->choices.handle);
    if (s == CUBLAS_STATUS_SUCCESS) return lt;
    lt->choices.handle = NULL;
    snprintf(lt->why, sizeof lt->why, "cuBLASLt does not start on this GPU: %s",
             lt->api.GetStatusString(s));
    return lt;
}

void cublaslt_close(Cublaslt *lt)
{
    if (!lt) return;
    if (lt->choices.handle) {
        cublaslt_forget(&lt->choices);
        (void)lt->api.Destroy(lt->choices.handle);
    }
    mem_free(lt);
}

// The device's, opened when first asked for; NULL: no memory.
static Cublaslt *cublaslt_of(const OpCtx *cx)
{
    Cublaslt **at = &device_cuda_libraries(cx->device)->cublaslt;
    if (!*at) *at = cublaslt_open();
    return *at;
}

// ---- which product to ask for -----------------------------------------------------------------

static int32_t alignment(const void *p)
{
    int32_t bytes = 16; // no algorithm needs more
    while ((uintptr_t)p % (uintptr_t)bytes) bytes /= 2;
    return bytes;
}

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
                             .ab_dtype = (int32_t)a->ab_dtype,
                             .d_dtype = (int32_t)a->c_dtype,
                             .align_a = alignment(a->B),
                             .align_b = alignment(a->A),
                             .align_d = alignment(a->C)};
}

// The product with its epilogue; false: cuBLASLt has no words for it.
static bool fused_product(const MatmulArgs *a, CublasltProduct *p)
{
    *p = product_of(a);
    const bool aux_fits = a->ldc % 8 == 0 && alignment(a->aux) == 16;
    if (a->bias) {
        if (a->bias_dtype != a->c_dtype) return false;
        p->align_bias = alignment(a->bias);
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
    CublasltProduct p;
    *r = (Route){.split = true};
    if (a->M == 0 || a->N == 0 || a->K == 0) return true;
    if (fused_product(a, &p)) {
        r->choice = cublaslt_choose(&lt->choices, &p, a->bias, a->aux);
        r->split = !r->choice || r->choice->n == 0;
        if (!r->split) return true;
    }
    p = split_product(a);
    r->choice = cublaslt_choose(&lt->choices, &p, NULL, NULL);
    return r->choice && r->choice->n > 0;
}

// ---- scratch ----------------------------------------------------------------------------------

static size_t rounded_up(size_t bytes)
{
    return (bytes + CUBLASLT_ALIGN - 1) / CUBLASLT_ALIGN * CUBLASLT_ALIGN;
}

// Bytes of the sums, or of the copy of C.
static size_t matrix_bytes(const Route *r)
{
    const CublasltProduct *p = &r->choice->product;
    const size_t bytes = (size_t)p->n * (size_t)p->ldd * dtype_bytes((DType)p->d_dtype);
    return r->split || (p->add && r->choice->n > 1) ? rounded_up(bytes) : 0;
}

static size_t scratch_bytes(const Route *r)
{
    if (!r->choice) return 0;
    return CUBLASLT_ALIGN + rounded_up(r->choice->workspace) + matrix_bytes(r) + CUBLASLT_ALIGN;
}

// ---- the row of the op table ------------------------------------------------------------------

static bool row_supports(const MatmulArgs *a, const OpCtx *cx, const char **why)
{
    Cublaslt *lt = cublaslt_of(cx);
    Route r;
    *why = "no memory to open cuBLASLt";
    if (!lt) return false;
    *why = lt->why;
    if (!lt->choices.handle) return false;
    if (find_route(lt, a, &r)) return true;
    char name[256];
    *why = "no memory for a choice of algorithm";
    if (!r.choice) return false;
    cublaslt_name(&r.choice->product, name, sizeof name);
    snprintf(lt->why, sizeof lt->why, "cuBLASLt has no algorithm for %s: %s", name,
             lt->api.GetStatusString(r.choice->status));
    *why = lt->why;
    return false;
}

static size_t row_scratch(const MatmulArgs *a, const OpCtx *cx)
{
    Route r;
    return find_route(cublaslt_of(cx), a, &r) ? scratch_bytes(&r) : 0;
}

static Status run_product(Cublaslt *lt, const MatmulArgs *a, OpCtx *cx, const Route *r, Err *err)
{
    const CudaDevice *dev = device_cuda_of(cx->device);
    const size_t workspace = rounded_up(r->choice->workspace), matrix = matrix_bytes(r);
    char *at = (char *)rounded_up((uintptr_t)cx->scratch);
    CublasltOperands o = {.A = a->B,
                          .B = a->A,
                          .bias = a->bias,
                          .D = a->C,
                          .aux = a->aux,
                          .workspace = at,
                          .copy = at + workspace,
                          .fingerprint = (uint64_t *)(at + workspace + matrix)};
    if (r->split) o.D = at + workspace;
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

void cublaslt_register(Ops *ops)
{
    ops_add_matmul(ops, (Impl_matmul){.impl = "cublaslt",
                                      .supports = row_supports,
                                      .scratch = row_scratch,
                                      .run = row_run});
}
