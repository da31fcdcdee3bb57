// cublaslt_choice.c -- see cublaslt_choice.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cublaslt_choice.h"
#include "engine/base/mem.h"
#include "kernels/cuda/cublaslt_kernels.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

enum { TIMED_RUNS = 4, DETERMINISTIC_SPLIT = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE };

void cublaslt_name(const CublasltProduct *p, char *out, size_t size)
{
    static const struct {
        int32_t epilogue;
        const char *text;
    } names[] = {{CUBLASLT_EPILOGUE_DEFAULT, ""},
                 {CUBLASLT_EPILOGUE_BIAS, ", bias"},
                 {CUBLASLT_EPILOGUE_GELU, ", gelu"},
                 {CUBLASLT_EPILOGUE_GELU_BIAS, ", bias, gelu"},
                 {CUBLASLT_EPILOGUE_GELU_AUX, ", gelu, aux"},
                 {CUBLASLT_EPILOGUE_GELU_AUX_BIAS, ", bias, gelu, aux"},
                 {CUBLASLT_EPILOGUE_DGELU, ", dgelu"}};
    const char *epilogue = "";
    for (int i = 0; i < (int)LT_COUNT(names); i++)
        if (names[i].epilogue == p->epilogue) epilogue = names[i].text;
    // In the words of the op: row-major C[M,N], whose M is cuBLASLt's n.
    const bool two = p->a_dtype != p->b_dtype;
    snprintf(out, size,
             "C[%lld,%lld] %s A%s B%s, K = %lld, lda %lld, ldb %lld, ldc %lld, %s%s%s to %s%s%s",
             (long long)p->n, (long long)p->m, p->add ? "+=" : "=", p->trans_b ? "^T" : "",
             p->trans_a ? "^T" : "", (long long)p->k, (long long)p->ldb, (long long)p->lda,
             (long long)p->ldd, dtype_name((DType)p->b_dtype), two ? " x " : "",
             two ? dtype_name((DType)p->a_dtype) : "", dtype_name((DType)p->d_dtype), epilogue,
             p->fast ? ", fast" : "");
}

// ---- descriptors ------------------------------------------------------------------------------

static cudaDataType_t type_of(int32_t dtype)
{
    switch (dtype) {
    case DTYPE_BF16: return CUDA_R_16BF;
    case DTYPE_F16: return CUDA_R_16F;
    case DTYPE_E4M3: return CUDA_R_8F_E4M3;
    case DTYPE_E5M2: return CUDA_R_8F_E5M2;
    default: return CUDA_R_32F;
    }
}

static cublasStatus_t set(const CublasltApi *api, CublasltChoice *c,
                          cublasLtMatmulDescAttributes_t name, const void *value, size_t size)
{
    return api->MatmulDescSetAttribute(c->op, name, value, size);
}

static cublasStatus_t set_pointers(const CublasltApi *api, CublasltChoice *c,
                                   const CublasltPointers *at)
{
    const struct {
        bool wanted;
        cublasLtMatmulDescAttributes_t name;
        const void *const *value;
    } pointers[] = {
        {c->product.align_bias, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &at->bias},
        {c->product.has_aux, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &at->aux},
        {c->product.scaled, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &at->a_scale},
        {c->product.scaled, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &at->b_scale},
    };
    cublasStatus_t s = CUBLAS_STATUS_SUCCESS;
    for (int i = 0; i < (int)LT_COUNT(pointers) && !s; i++)
        if (pointers[i].wanted)
            s = set(api, c, pointers[i].name, pointers[i].value, sizeof *pointers[i].value);
    return s;
}

static cublasStatus_t describe_op(const CublasltApi *api, CublasltChoice *c)
{
    const CublasltProduct *p = &c->product;
    const cublasOperation_t ta = p->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t tb = p->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasLtEpilogue_t epilogue = (cublasLtEpilogue_t)p->epilogue;
    cublasStatus_t s = api->MatmulDescCreate(&c->op, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (s) return s;
    if ((s = set(api, c, CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof ta))) return s;
    if ((s = set(api, c, CUBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof tb))) return s;
    if ((s = set(api, c, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue))) return s;
    const int8_t fast = p->fast != 0;
    if (p->scaled && (s = set(api, c, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast)))
        return s;
    if (!p->has_aux) return s; // bias and aux have D's type if nothing is said
    return set(api, c, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &p->ldd, sizeof p->ldd);
}

static cublasStatus_t describe_layouts(const CublasltApi *api, CublasltChoice *c)
{
    const CublasltProduct *p = &c->product;
    const cudaDataType_t at = type_of(p->a_dtype), bt = type_of(p->b_dtype);
    const uint64_t m = (uint64_t)p->m, n = (uint64_t)p->n, k = (uint64_t)p->k;
    cublasStatus_t s = p->trans_a ? api->MatrixLayoutCreate(&c->a, at, k, m, p->lda)
                                  : api->MatrixLayoutCreate(&c->a, at, m, k, p->lda);
    if (s) return s;
    s = p->trans_b ? api->MatrixLayoutCreate(&c->b, bt, n, k, p->ldb)
                   : api->MatrixLayoutCreate(&c->b, bt, k, n, p->ldb);
    if (s) return s;
    return api->MatrixLayoutCreate(&c->d, type_of(p->d_dtype), m, n, p->ldd);
}

// ---- what could do it -------------------------------------------------------------------------

static cublasStatus_t prefer(const CublasltApi *api, cublasLtMatmulPreference_t pref,
                             const CublasltProduct *p)
{
    const uint64_t workspace = CUBLASLT_WORKSPACE;
    const uint32_t schemes = DETERMINISTIC_SPLIT;
    const struct {
        cublasLtMatmulPreferenceAttributes_t name;
        uint32_t bytes;
    } aligned[] = {{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, (uint32_t)p->align_a},
                   {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, (uint32_t)p->align_b},
                   {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, (uint32_t)p->align_d},
                   {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, (uint32_t)p->align_d}};
    cublasStatus_t s = api->MatmulPreferenceSetAttribute(
        pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    if (!s)
        s = api->MatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                              &schemes, sizeof schemes);
    for (int i = 0; i < (int)LT_COUNT(aligned) && !s; i++)
        s = api->MatmulPreferenceSetAttribute(pref, aligned[i].name, &aligned[i].bytes,
                                              sizeof aligned[i].bytes);
    return s;
}

// Are the parts of K, if it is cut, added in a fixed order?
static bool repeatable(const CublasltApi *api, const cublasLtMatmulAlgo_t *algo)
{
    uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_NONE;
    size_t written = 0;
    const cublasStatus_t s = api->MatmulAlgoConfigGetAttribute(
        algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme, sizeof scheme, &written);
    return s != CUBLAS_STATUS_SUCCESS || scheme == CUBLASLT_REDUCTION_SCHEME_NONE ||
           scheme == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
}

static cublasStatus_t ask(const CublasltChoices *cs, CublasltChoice *c)
{
    cublasLtMatmulHeuristicResult_t found[CUBLASLT_CANDIDATES];
    cublasLtMatmulPreference_t pref = NULL;
    int n = 0;
    cublasStatus_t s = cs->api->MatmulPreferenceCreate(&pref);
    if (s) return s;
    s = prefer(cs->api, pref, &c->product);
    if (!s)
        s = cs->api->MatmulAlgoGetHeuristic(cs->handle, c->op, c->a, c->b, c->d, c->d, pref,
                                            CUBLASLT_CANDIDATES, found, &n);
    (void)cs->api->MatmulPreferenceDestroy(pref);
    if (s) return s;
    for (int i = 0; i < n; i++) {
        if (found[i].state || found[i].workspaceSize > CUBLASLT_WORKSPACE) continue;
        if (!repeatable(cs->api, &found[i].algo)) continue;
        c->algo[c->n++] = found[i].algo;
        c->workspace = LT_MAX(c->workspace, found[i].workspaceSize);
    }
    return c->n ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

static void drop(const CublasltApi *api, CublasltChoice *c)
{
    if (!c) return;
    if (c->op) (void)api->MatmulDescDestroy(c->op);
    if (c->a) (void)api->MatrixLayoutDestroy(c->a);
    if (c->b) (void)api->MatrixLayoutDestroy(c->b);
    if (c->d) (void)api->MatrixLayoutDestroy(c->d);
    mem_free(c);
}

// FNV-1a.
static uint64_t hash_of(const CublasltProduct *p)
{
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < sizeof *p; i++) h = (h ^ ((const uint8_t *)p)[i]) * 1099511628211u;
    return h;
}

CublasltChoice *cublaslt_choose(CublasltChoices *cs, const CublasltProduct *p,
                                const CublasltPointers *at)
{
    const uint64_t hash = hash_of(p);
    for (int i = 0; i < CUBLASLT_SHAPES && cs->choice[i]; i++)
        if (cs->hash[i] == hash && memcmp(&cs->choice[i]->product, p, sizeof *p) == 0)
            return cs->choice[i];
    CublasltChoice *c = mem_calloc(1, sizeof *c);
    if (!c) return NULL;
    c->product = *p;
    c->status = describe_op(cs->api, c);
    if (!c->status) c->status = set_pointers(cs->api, c, at);
    if (!c->status) c->status = describe_layouts(cs->api, c);
    if (!c->status) c->status = ask(cs, c);
    drop(cs->api, cs->choice[cs->next]);
    cs->choice[cs->next] = c;
    cs->hash[cs->next] = hash;
    cs->next = (cs->next + 1) % CUBLASLT_SHAPES;
    return c;
}

void cublaslt_forget(CublasltChoices *cs)
{
    for (int i = 0; i < CUBLASLT_SHAPES; i++) drop(cs->api, cs->choice[i]);
    *cs = (CublasltChoices){.api = cs->api, .handle = cs->handle};
}

// ---- running it -------------------------------------------------------------------------------

// D = A B (+ C) by algorithm i.
static cublasStatus_t start(const CublasltChoices *cs, const CublasltChoice *c, int i,
                            const CudaDevice *dev, const CublasltOperands *o, void *D)
{
    const float one = 1, beta = c->product.add ? 1 : 0;
    return cs->api->Matmul(cs->handle, c->op, &one, o->A, c->a, o->B, c->b, &beta, o->D, c->d, D,
                           c->d, &c->algo[i], o->workspace, c->workspace, dev->stream);
}

typedef struct Timing {
    cudaEvent_t from, to;
    uint64_t first; // fingerprint of the first algorithm that worked
    bool any;
    float best_ms;
} Timing;

// One algorithm: its bits, then its time. One that the library refuses after all is skipped.
static cudaError_t time_one(const CublasltChoices *cs, CublasltChoice *c, int i,
                            const CudaDevice *dev, const CublasltOperands *o, Timing *t)
{
    const CublasltProduct *p = &c->product;
    void *D = p->add ? o->copy : o->D; // what is added to must be added to once
    c->status = start(cs, c, i, dev, o, D);
    if (c->status) return cudaSuccess;
    uint64_t bits = 0;
    cudaError_t e = (cudaError_t)cublaslt_fingerprint(dev, D, (DType)p->d_dtype, p->n, p->m, p->ldd,
                                                      o->fingerprint);
    if (!e)
        e = cudaMemcpyAsync(&bits, o->fingerprint, sizeof bits, cudaMemcpyDeviceToHost,
                            dev->stream);
    if (!e) e = cudaStreamSynchronize(dev->stream);
    if (e || (t->any && bits != t->first)) return e;
    e = cudaEventRecord(t->from, dev->stream);
    for (int run = 0; run < TIMED_RUNS && !e; run++)
        if (start(cs, c, i, dev, o, D)) return cudaSuccess;
    float ms = 0;
    if (!e) e = cudaEventRecord(t->to, dev->stream);
    if (!e) e = cudaEventSynchronize(t->to);
    if (!e) e = cudaEventElapsedTime(&ms, t->from, t->to);
    if (e || (t->any && ms >= t->best_ms)) return e;
    if (!t->any) t->first = bits;
    t->any = true;
    t->best_ms = ms;
    c->best = i;
    return e;
}

static cudaError_t time_all(const CublasltChoices *cs, CublasltChoice *c, const CudaDevice *dev,
                            const CublasltOperands *o)
{
    Timing t = {0};
    cudaError_t e = cudaEventCreate(&t.from);
    if (!e) e = cudaEventCreate(&t.to);
    for (int i = 0; i < c->n && !e; i++) e = time_one(cs, c, i, dev, o, &t);
    if (t.from) (void)cudaEventDestroy(t.from);
    if (t.to) (void)cudaEventDestroy(t.to);
    c->timed = !e && t.any;
    return e;
}

static bool is_capturing(const CudaDevice *dev)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    return cudaStreamIsCapturing(dev->stream, &status) == cudaSuccess &&
           status != cudaStreamCaptureStatusNone;
}

static Status refused(const CublasltChoices *cs, const CublasltChoice *c, Err *err)
{
    char name[256];
    cublaslt_name(&c->product, name, sizeof name);
    return err_set(err, ERR_DEVICE, "cuBLASLt refuses %s: %s", name,
                   cs->api->GetStatusString(c->status));
}

Status cublaslt_run(CublasltChoices *cs, CublasltChoice *c, const CudaDevice *dev,
                    const CublasltOperands *o, Err *err)
{
    c->status = set_pointers(cs->api, c, &o->at);
    if (c->status) return refused(cs, c, err);
    if (c->n > 1 && !c->timed && !is_capturing(dev)) {
        const cudaError_t e = time_all(cs, c, dev, o);
        if (e) {
            char name[256];
            cublaslt_name(&c->product, name, sizeof name);
            return err_set(err, ERR_DEVICE, "%s (%s) while choosing an algorithm for %s",
                           cudaGetErrorString(e), cudaGetErrorName(e), name);
        }
        if (!c->timed) return refused(cs, c, err);
    }
    c->status = start(cs, c, c->best, dev, o, o->D);
    return c->status ? refused(cs, c, err) : ERR_NONE;
}
