// cudnn_attention.c -- see cudnn_attention.h.
//
// WHAT    softmax attention and its gradient by cuDNN's fused engines (flash attention).
// MATH    cudnn_sdpa.c lists the operations.
// ROUTES  One plan a shape, built when the shape is first planned or run, kept by the device. Plans
//         come from cuDNN's heuristics, the first that accepts; engines that say that their bits
//         differ from run to run are left out.
// COST    Building a plan compiles kernels: seconds. Backward takes a workspace of B H T T 16-bit
//         numbers, the price of a repeatable dQ.
// ROUND   probabilities and their gradients are rounded to 16 bits before the second products.
// SCRATCH workspace | forward without lse: [B,H,Tq] f32 | backward: delta [B,H,T] f32
// SHAPES  bf16, f16; D 64 or 128; causal from position 0, or no mask; rows at 16 bytes.
//         No window, segments, or dropout: cuDNN's random numbers are not those of the contract.
//         Versions and lengths at which cuDNN is known to be wrong are refused.
//
// Never executed: no GPU was at hand. What is tested (tests/kernels/test_cudnn_graph.c): against
// cuDNN 9.19 every descriptor, graph and list of engines for an H100; the workspace's size; what is
// refused. Not tested: finalizing a plan, running it, the numbers, speed, older versions.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cudnn_attention.h"
#include "engine/base/mem.h"
#include "kernels/cuda/cudnn_sdpa.h"
#include "kernels/cuda/device_cuda.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

enum { PLANS = 32, SCRATCH_ALIGN = 256 };

typedef struct Plan {
    CudnnSdpaShape shape;
    CudnnGraph graph;
} Plan;

struct Cudnn {
    CudnnApi api;
    cudnnHandle_t handle; // NULL: there is none, and `why` says why
    size_t version;
    Plan *plan[PLANS]; // NULL behind the last
    int next;          // the place of the next new one
    char why[512];
};

// ---- the library ------------------------------------------------------------------------------

static void version_text(size_t v, char out[32])
{
    snprintf(out, 32, "%d.%d.%d", (int)(v / 10000), (int)(v / 100 % 100), (int)(v % 100));
}

void cudnn_attention_describe(char *out, size_t size)
{
    CudnnApi api;
    char why[256], version[32];
    if (!cudnn_api_open(&api, why, sizeof why)) {
        snprintf(out, size, "no cuDNN: %s", why);
        return;
    }
    version_text(api.GetVersion(), version);
    snprintf(out, size, "cuDNN %s", version);
}

static Cudnn *cudnn_open(const CudaDevice *dev)
{
    Cudnn *c = mem_calloc(1, sizeof *c);
    if (!c) return NULL;
    char why[256];
    if (!cudnn_api_open(&c->api, why, sizeof why)) {
        snprintf(c->why, sizeof c->why, "no cuDNN: %s", why);
        return c;
    }
    c->version = c->api.GetVersion();
    cudnnStatus_t s = c->api.Create(&c->handle);
    if (!s) s = c->api.SetStream(c->handle, dev->stream);
    if (!s) return c;
    snprintf(c->why, sizeof c->why, "cuDNN does not start on this GPU: %s",
             c->api.GetErrorString(s));
    if (c->handle) (void)c->api.Destroy(c->handle);
    c->handle = NULL;
    return c;
}

static void plan_free(Plan *p)
{
    if (!p) return;
    cudnn_graph_free(&p->graph);
    mem_free(p);
}

void cudnn_attention_close(Cudnn *c)
{
    if (!c) return;
    for (int i = 0; i < PLANS; i++) plan_free(c->plan[i]);
    if (c->handle) (void)c->api.Destroy(c->handle);
    mem_free(c);
}

// The device's, opened when first asked for; NULL: no memory.
static Cudnn *cudnn_of(const OpCtx *cx)
{
    Cudnn **at = &device_cuda_libraries(cx->device)->cudnn;
    if (!*at) *at = cudnn_open(device_cuda_of(cx->device));
    return *at;
}

// ---- plans ------------------------------------------------------------------------------------

// The plan of a shape, built now if it is new; it may have failed. NULL: no memory.
static Plan *plan_for(Cudnn *c, const CudnnSdpaShape *s)
{
    for (int i = 0; i < PLANS && c->plan[i]; i++)
        if (memcmp(&c->plan[i]->shape, s, sizeof *s) == 0) return c->plan[i];
    Plan *p = mem_calloc(1, sizeof *p);
    if (!p) return NULL;
    p->shape = *s;
    cudnn_graph_open(&p->graph, &c->api, c->handle);
    if (cudnn_sdpa_build(&p->graph, s)) (void)cudnn_graph_plan(&p->graph);
    plan_free(c->plan[c->next]);
    c->plan[c->next] = p;
    c->next = (c->next + 1) % PLANS;
    return p;
}

static CudnnSdpaShape fwd_shape(const AttentionFwdArgs *a)
{
    return (CudnnSdpaShape){.B = a->B,
                            .H = a->H,
                            .Tq = a->Tq,
                            .Tk = a->Tk,
                            .D = a->D,
                            .q_batch = a->q_batch,
                            .q_row = a->q_row,
                            .kv_batch = a->kv_batch,
                            .kv_row = a->kv_row,
                            .out_batch = a->out_batch,
                            .out_row = a->out_row,
                            .causal = a->mask.causal,
                            .dtype = (int32_t)a->dtype};
}

static CudnnSdpaShape bwd_shape(const AttentionBwdArgs *a)
{
    return (CudnnSdpaShape){.B = a->B,
                            .H = a->H,
                            .Tq = a->T,
                            .Tk = a->T,
                            .D = a->D,
                            .q_batch = a->qkv_batch,
                            .q_row = a->qkv_row,
                            .kv_batch = a->qkv_batch,
                            .kv_row = a->qkv_row,
                            .out_batch = a->out_batch,
                            .out_row = a->out_row,
                            .backward = 1,
                            .causal = a->mask.causal,
                            .dtype = (int32_t)a->dtype};
}

// ---- what it serves ---------------------------------------------------------------------------

// Version 9.a.b and its like as cuDNN counts them.
static bool version_is_sound(size_t v)
{
    return v >= 90000 && v != 91000 && v != 91001 && v != 91400;
}

static const char *refuse_shape(const CudnnSdpaShape *s, const AttentionMask *m,
                                const DropoutSpec *drop, size_t version)
{
    if (s->dtype != DTYPE_BF16 && s->dtype != DTYPE_F16) return "serves bf16 and f16";
    if (s->D != 64 && s->D != 128) return "serves heads of 64 and 128 elements";
    if (m->window > 0 || m->seg_lo || m->seg_hi) return "serves causal attention, or without mask";
    if (drop->p > 0) return "its dropout is not the contract's";
    if (s->B == 0 || s->H == 0 || s->Tq == 0 || s->Tk == 0) return "serves no empty tensors";
    if ((s->q_row | s->q_batch | s->kv_row | s->kv_batch | s->out_row | s->out_batch) % 8 != 0)
        return "needs rows at multiples of 16 bytes";
    if (!version_is_sound(version)) return "this version of cuDNN is known to be wrong";
    if (s->backward && version <= 91500 && s->Tk % 128 != 0)
        return "needs cuDNN after 9.15 where the length is no multiple of 128";
    if (s->backward && s->Tq % 128 == 64)
        return "gradients of lengths 64 more than a multiple of 128 have been NaN";
    return NULL;
}

static bool aligned(const void *const *p, int n)
{
    for (int i = 0; i < n; i++)
        if ((uintptr_t)p[i] % 16 != 0) return false;
    return true;
}

// The library, if it is there. NULL: *why says why not.
static Cudnn *usable(const OpCtx *cx, const char **why)
{
    Cudnn *c = cudnn_of(cx);
    *why = c ? c->why : "no memory to open cuDNN";
    return c && c->handle ? c : NULL;
}

// The plan of the shape. NULL: *why says why not.
static Plan *usable_plan(Cudnn *c, const CudnnSdpaShape *s, const AttentionMask *m,
                         const DropoutSpec *drop, const char **why)
{
    *why = refuse_shape(s, m, drop, c->version);
    if (*why) return NULL;
    Plan *p = plan_for(c, s);
    *why = "no memory for a plan";
    if (!p || p->graph.plan) return p;
    snprintf(c->why, sizeof c->why, "cuDNN refuses %s of attention, T = %lld, D = %lld: %s: %s",
             s->backward ? "the gradient" : "a call", (long long)s->Tq, (long long)s->D,
             p->graph.where, c->api.GetErrorString(p->graph.status));
    *why = c->why;
    return NULL;
}

static Plan *fwd_plan(const AttentionFwdArgs *a, const OpCtx *cx, const char **why)
{
    const CudnnSdpaShape s = fwd_shape(a);
    const void *const tensors[] = {a->q, a->k, a->v, a->out, a->lse};
    *why = "used when asked for: --ops.attention_fwd=cudnn";
    if (!cx->ops->info[OP_attention_fwd].forced) return NULL;
    Cudnn *c = usable(cx, why);
    if (!c) return NULL;
    *why = "a causal call must begin at position 0";
    if (a->mask.causal && a->q_pos0 != 0) return NULL;
    *why = "needs tensors at multiples of 16 bytes";
    if (!aligned(tensors, (int)LT_COUNT(tensors))) return NULL;
    return usable_plan(c, &s, &a->mask, &a->drop, why);
}

static Plan *bwd_plan(const AttentionBwdArgs *a, const OpCtx *cx, const char **why)
{
    const CudnnSdpaShape s = bwd_shape(a);
    const void *const tensors[] = {a->q, a->k, a->v, a->out, a->lse, a->dq, a->dk, a->dv, a->dout};
    *why = "used when asked for: --ops.attention_bwd=cudnn";
    if (!cx->ops->info[OP_attention_bwd].forced) return NULL;
    Cudnn *c = usable(cx, why);
    if (!c) return NULL;
    *why = "needs tensors at multiples of 16 bytes";
    if (!aligned(tensors, (int)LT_COUNT(tensors))) return NULL;
    return usable_plan(c, &s, &a->mask, &a->drop, why);
}

// ---- the rows of the op table -----------------------------------------------------------------

static size_t rounded_up(size_t bytes)
{
    return LT_ROUND_UP(bytes, SCRATCH_ALIGN);
}

// Workspace, and one f32 for each query.
static size_t scratch_bytes(const Plan *p)
{
    if (!p) return 0;
    const CudnnSdpaShape *s = &p->shape;
    return SCRATCH_ALIGN + rounded_up((size_t)p->graph.workspace) +
           rounded_up((size_t)(s->B * s->H * s->Tq) * sizeof(float));
}

typedef struct Scratch {
    void *workspace;
    float *rows;
} Scratch;

static Scratch carve(const OpCtx *cx, const Plan *p)
{
    char *at = (char *)rounded_up((uintptr_t)cx->scratch);
    return (Scratch){at, (float *)(at + rounded_up((size_t)p->graph.workspace))};
}

static Status queued(OpCtx *cx, const Plan *p, const char *op, cudnnStatus_t s, Err *err)
{
    if (!s) return device_cuda_queued(cx->device, op, "cudnn", 0, err);
    return err_set(err, ERR_DEVICE, "%s (cudnn), B = %lld, H = %lld, T = %lld, D = %lld: %s", op,
                   (long long)p->shape.B, (long long)p->shape.H, (long long)p->shape.Tq,
                   (long long)p->shape.D, p->graph.api->GetErrorString(s));
}

static bool fwd_supports(const AttentionFwdArgs *a, const OpCtx *cx, const char **why)
{
    return fwd_plan(a, cx, why) != NULL;
}

static size_t fwd_scratch(const AttentionFwdArgs *a, const OpCtx *cx)
{
    const char *why;
    return scratch_bytes(fwd_plan(a, cx, &why));
}

static Status fwd_run(const AttentionFwdArgs *a, OpCtx *cx, Err *err)
{
    const char *why;
    Plan *p = fwd_plan(a, cx, &why);
    if (!p) return err_set(err, ERR_DEVICE, "attention_fwd (cudnn): %s", why);
    const Scratch scratch = carve(cx, p);
    float scale = a->scale, hidden = -FLT_MAX;
    const int64_t uids[] = {CUDNN_SDPA_Q,   CUDNN_SDPA_K,     CUDNN_SDPA_V,     CUDNN_SDPA_OUT,
                            CUDNN_SDPA_LSE, CUDNN_SDPA_SCALE, CUDNN_SDPA_HIDDEN};
    void *const pointers[] = {
        (void *)a->q, (void *)a->k, (void *)a->v, a->out, a->lse ? a->lse : scratch.rows,
        &scale,       &hidden};
    const int n = (int)LT_COUNT(uids) - !a->mask.causal; // HIDDEN is the last
    return queued(cx, p, "attention_fwd",
                  cudnn_graph_run(&p->graph, n, uids, pointers, scratch.workspace), err);
}

static bool bwd_supports(const AttentionBwdArgs *a, const OpCtx *cx, const char **why)
{
    return bwd_plan(a, cx, why) != NULL;
}

static size_t bwd_scratch(const AttentionBwdArgs *a, const OpCtx *cx)
{
    const char *why;
    return scratch_bytes(bwd_plan(a, cx, &why));
}

static Status bwd_run(const AttentionBwdArgs *a, OpCtx *cx, Err *err)
{
    const char *why;
    Plan *p = bwd_plan(a, cx, &why);
    if (!p) return err_set(err, ERR_DEVICE, "attention_bwd (cudnn): %s", why);
    const Scratch scratch = carve(cx, p);
    float scale = a->scale, hidden = -FLT_MAX, one = 1;
    const struct {
        int64_t uid;
        void *pointer;
    } all[] = {{CUDNN_SDPA_Q, (void *)a->q},     {CUDNN_SDPA_K, (void *)a->k},
               {CUDNN_SDPA_V, (void *)a->v},     {CUDNN_SDPA_OUT, (void *)a->out},
               {CUDNN_SDPA_LSE, (void *)a->lse}, {CUDNN_SDPA_DOUT, (void *)a->dout},
               {CUDNN_SDPA_DQ, a->dq},           {CUDNN_SDPA_DK, a->dk},
               {CUDNN_SDPA_DV, a->dv},           {CUDNN_SDPA_DELTA, scratch.rows},
               {CUDNN_SDPA_SCALE, &scale},       {CUDNN_SDPA_ONE, &one},
               {CUDNN_SDPA_HIDDEN, &hidden}};
    int64_t uids[LT_COUNT(all)];
    void *pointers[LT_COUNT(all)];
    for (int i = 0; i < (int)LT_COUNT(all); i++) {
        uids[i] = all[i].uid;
        pointers[i] = all[i].pointer;
    }
    const int n = (int)LT_COUNT(all) - !a->mask.causal; // HIDDEN is the last
    return queued(cx, p, "attention_bwd",
                  cudnn_graph_run(&p->graph, n, uids, pointers, scratch.workspace), err);
}

void cudnn_attention_register(Ops *ops)
{
    ops_add_attention_fwd(ops, (Impl_attention_fwd){.impl = "cudnn",
                                                    .supports = fwd_supports,
                                                    .scratch = fwd_scratch,
                                                    .run = fwd_run});
    ops_add_attention_bwd(ops, (Impl_attention_bwd){.impl = "cudnn",
                                                    .supports = bwd_supports,
                                                    .scratch = bwd_scratch,
                                                    .run = bwd_run});
}
