// cublaslt_library.c -- see cublaslt_library.h and, for what is about the library, cublaslt.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cublaslt_library.h"
#include "engine/base/mem.h"
#include "kernels/cuda/device_cuda.h"

#include <stdio.h>

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

Cublaslt *cublaslt_of(const OpCtx *cx)
{
    Cublaslt **at = &device_cuda_libraries(cx->device)->cublaslt;
    if (!*at) *at = cublaslt_open();
    return *at;
}

bool cublaslt_ready(const Cublaslt *lt, const char **why)
{
    *why = lt ? lt->why : "no memory to open cuBLASLt";
    return lt && lt->choices.handle;
}

const char *cublaslt_refusal(Cublaslt *lt, const CublasltChoice *choice)
{
    char name[256];
    if (!choice) return "no memory for a choice of algorithm";
    cublaslt_name(&choice->product, name, sizeof name);
    snprintf(lt->why, sizeof lt->why, "cuBLASLt has no algorithm for %s: %s", name,
             lt->api.GetStatusString(choice->status));
    return lt->why;
}

int32_t cublaslt_alignment(const void *p)
{
    int32_t bytes = 16;
    while ((uintptr_t)p % (uintptr_t)bytes) bytes /= 2;
    return bytes;
}

static size_t rounded_up(size_t bytes)
{
    return LT_ROUND_UP(bytes, CUBLASLT_ALIGN);
}

size_t cublaslt_matrix(const CublasltChoice *choice)
{
    const CublasltProduct *p = &choice->product;
    return rounded_up((size_t)p->n * (size_t)p->ldd * dtype_bytes((DType)p->d_dtype));
}

size_t cublaslt_copy(const CublasltChoice *choice)
{
    return choice->product.add && choice->n > 1 ? cublaslt_matrix(choice) : 0;
}

size_t cublaslt_scratch(const CublasltChoice *choice, size_t matrix)
{
    return CUBLASLT_ALIGN + rounded_up(choice->workspace) + matrix + CUBLASLT_ALIGN;
}

void cublaslt_place(CublasltOperands *o, const CublasltChoice *choice, size_t matrix,
                    const OpCtx *cx)
{
    const size_t workspace = rounded_up(choice->workspace);
    char *at = (char *)rounded_up((uintptr_t)cx->scratch);
    o->workspace = at;
    o->copy = at + workspace;
    o->fingerprint = (uint64_t *)(at + workspace + matrix);
}

void cublaslt_register(Ops *ops)
{
    cublaslt_matmul_register(ops);
    cublaslt_fp8_register(ops);
}
