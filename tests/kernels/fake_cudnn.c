// fake_cudnn.c -- a stand-in for libcudnn.so.9 in the simulator, where the memory of the GPU is
// memory of the host: descriptors as lists of attributes, and an interpreter of graphs.
//
// A graph runs as the documentation of its operations says, one after the other, every tensor an
// array [d0,d1,d2,d3] of f32 that is rounded to its type when it is stored. Nothing is known here
// of attention: if a graph gives attention's results, it says what attention is.
//
// A wrong call ends the program. The heuristics propose two engines, of which the first says that
// its bits vary. A plan wants a workspace and spoils all of it when it runs.
//
// SPDX-License-Identifier: MIT
#include "tests/kernels/fake_cudnn.h"
#include "engine/base/dtype.h"

#include <stdbool.h>
#include <cudnn.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ATTRIBUTES = 16, BYTES = 256, OPS = 32, TENSORS = 64, WORKSPACE = 4096 };

typedef struct Attribute {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t n;
    char bytes[BYTES];
} Attribute;

typedef struct Desc {
    cudnnBackendDescriptorType_t type;
    bool final;
    int n;
    Attribute a[ATTRIBUTES];
    int engine; // of a configuration or an engine
    struct Desc *graph;
} Desc;

struct cudnnContext {
    cudaStream_t stream;
};

static FakeCudnnCounts counts;

FakeCudnnCounts *fake_cudnn_counts(void)
{
    return &counts;
}

static cudnnStatus_t misuse(const char *what)
{
    fprintf(stderr, "cuDNN (fake): %s\n", what);
    abort();
}

// ---- handles ----------------------------------------------------------------------------------

cudnnStatus_t cudnnCreate(cudnnHandle_t *out)
{
    *out = calloc(1, sizeof **out);
    return *out ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_ALLOC_FAILED;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t h)
{
    free(h);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t stream)
{
    h->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

size_t cudnnGetVersion(void)
{
    return 91900;
}

const char *cudnnGetErrorString(cudnnStatus_t s)
{
    return s ? "refused (fake)" : "fine (fake)";
}

// ---- descriptors ------------------------------------------------------------------------------

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *out)
{
    Desc *d = calloc(1, sizeof *d);
    if (!d) return CUDNN_STATUS_ALLOC_FAILED;
    d->type = type;
    *out = d;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d)
{
    free(d);
    return CUDNN_STATUS_SUCCESS;
}

static size_t size_of(cudnnBackendAttributeType_t type)
{
    switch (type) {
    case CUDNN_TYPE_BOOLEAN: return 1;
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return 8;
    case CUDNN_TYPE_DATA_TYPE:
    case CUDNN_TYPE_POINTWISE_MODE:
    case CUDNN_TYPE_REDUCTION_OPERATOR_TYPE:
    case CUDNN_TYPE_HEUR_MODE: return 4;
    default: return 0;
    }
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t desc,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t n,
                                       const void *values)
{
    Desc *d = desc;
    const size_t size = size_of(type);
    if (!d || d->final || !values || n < 1) return misuse("SetAttribute: finalized, or no values");
    if (size == 0 || (size_t)n * size > BYTES) return misuse("SetAttribute: type or count");
    if (d->n == ATTRIBUTES) return misuse("SetAttribute: too many");
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
        for (int64_t i = 0; i < n; i++)
            if (!((Desc *const *)values)[i] || !((Desc *const *)values)[i]->final)
                return misuse("SetAttribute: a part that is not finalized");
    Attribute *a = &d->a[d->n++];
    *a = (Attribute){.name = name, .type = type, .n = n};
    memcpy(a->bytes, values, (size_t)n * size);
    return CUDNN_STATUS_SUCCESS;
}

static const Attribute *find(const Desc *d, cudnnBackendAttributeName_t name)
{
    for (int i = 0; i < d->n; i++)
        if (d->a[i].name == name) return &d->a[i];
    return NULL;
}

static Desc *part(const Desc *d, cudnnBackendAttributeName_t name, int64_t i)
{
    const Attribute *a = find(d, name);
    return a ? ((Desc *const *)(const void *)a->bytes)[i] : NULL;
}

static int32_t number(const Desc *d, cudnnBackendAttributeName_t name)
{
    const Attribute *a = find(d, name);
    int32_t x = -1;
    if (a) memcpy(&x, a->bytes, size_of(a->type));
    return x;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t desc)
{
    Desc *d = desc;
    if (!d || d->final) return misuse("Finalize: nothing, or twice");
    d->final = true;
    if (d->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
        d->graph = part(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 0);
    if (d->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) return CUDNN_STATUS_SUCCESS;
    const Desc *config = part(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 0);
    if (!config || config->engine != 2) return misuse("a plan of an engine that varies its bits");
    d->graph = config->graph;
    counts.plans++;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t desc,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t wanted, int64_t *n,
                                       void *out)
{
    const Desc *d = desc;
    (void)type;
    *n = 1;
    switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS: {
        if (wanted < 2) return misuse("GetAttribute: room for two engines");
        *n = 2;
        for (int i = 0; i < 2; i++) {
            Desc *config = ((Desc **)out)[i];
            config->engine = i + 1;
            config->graph = d->graph;
            config->final = true;
        }
        return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_ENGINECFG_ENGINE:
        (*(Desc **)out)->engine = d->engine;
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE: {
        const cudnnBackendNumericalNote_t notes[] = {CUDNN_NUMERICAL_NOTE_TENSOR_CORE,
                                                     CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC};
        *n = d->engine == 1 ? 2 : 1;
        memcpy(out, notes, (size_t)*n * sizeof *notes);
        return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
        *(int64_t *)out = WORKSPACE;
        return CUDNN_STATUS_SUCCESS;
    default: return misuse("GetAttribute: unknown");
    }
}

// ---- tensors ----------------------------------------------------------------------------------

typedef struct Value {
    const Desc *desc;
    int64_t dim[4], stride[4], uid;
    cudnnDataType_t type;
    bool is_virtual, by_value;
    float *x; // [d0,d1,d2,d3]
} Value;

typedef struct Run {
    const Desc *graph;
    int64_t uid[TENSORS];
    char *pointer[TENSORS];
    bool used[TENSORS];
    int n_pointers;
    char scalar[TENSORS][4]; // the host's values, as they were when the plan was queued
    char *workspace;
    Value value[TENSORS];
    int n_values;
} Run;

static int64_t count(const Value *v)
{
    return v->dim[0] * v->dim[1] * v->dim[2] * v->dim[3];
}

static int64_t offset(const Value *v, int64_t i)
{
    int64_t at = 0;
    for (int k = 3; k >= 0; k--) {
        at += i % v->dim[k] * v->stride[k];
        i /= v->dim[k];
    }
    return at;
}

static DType dtype_of(cudnnDataType_t t)
{
    return t == CUDNN_DATA_BFLOAT16 ? DTYPE_BF16 : t == CUDNN_DATA_HALF ? DTYPE_F16 : DTYPE_F32;
}

static char *address(Run *r, int64_t uid)
{
    for (int i = 0; i < r->n_pointers; i++) {
        if (r->uid[i] != uid) continue;
        r->used[i] = true;
        return r->pointer[i];
    }
    misuse("Execute: a tensor without an address");
    return NULL;
}

// The value of a tensor; one that exists already is read from memory, if it is real.
static Value *value_of(Run *r, const Desc *d)
{
    for (int i = 0; i < r->n_values; i++)
        if (r->value[i].desc == d) return &r->value[i];
    Value *v = &r->value[r->n_values++];
    *v = (Value){.desc = d, .type = (cudnnDataType_t)number(d, CUDNN_ATTR_TENSOR_DATA_TYPE)};
    memcpy(v->dim, find(d, CUDNN_ATTR_TENSOR_DIMENSIONS)->bytes, sizeof v->dim);
    memcpy(v->stride, find(d, CUDNN_ATTR_TENSOR_STRIDES)->bytes, sizeof v->stride);
    memcpy(&v->uid, find(d, CUDNN_ATTR_TENSOR_UNIQUE_ID)->bytes, sizeof v->uid);
    v->is_virtual = find(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL)->bytes[0];
    v->by_value = find(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE)->bytes[0];
    v->x = malloc((size_t)count(v) * sizeof *v->x);
    for (int64_t i = 0; i < count(v); i++) v->x[i] = NAN;
    if (v->is_virtual) return v;
    const char *p = address(r, v->uid);
    for (int64_t i = 0; i < count(v) && p; i++)
        v->x[i] = dtype_load(p, dtype_of(v->type), v->by_value ? 0 : offset(v, i));
    return v;
}

static Value *operand(Run *r, const Desc *op, cudnnBackendAttributeName_t name)
{
    const Desc *d = part(op, name, 0);
    return d ? value_of(r, d) : NULL;
}

// Rounds what was computed, and stores it if it is real.
static void store(Run *r, Value *v)
{
    char *p = v->is_virtual ? NULL : address(r, v->uid);
    for (int64_t i = 0; i < count(v); i++) {
        float rounded = v->x[i];
        if (v->type != CUDNN_DATA_BOOLEAN) dtype_store(&rounded, dtype_of(v->type), 0, v->x[i]);
        if (v->type != CUDNN_DATA_BOOLEAN) v->x[i] = dtype_load(&rounded, dtype_of(v->type), 0);
        if (p) dtype_store(p, dtype_of(v->type), offset(v, i), v->x[i]);
    }
}

// Element i of y's shape, in a tensor that may have 1 where y has more.
static float broadcast(const Value *v, const Value *y, int64_t i)
{
    int64_t at = 0, step = 1;
    for (int k = 3; k >= 0; k--) {
        const int64_t index = i % y->dim[k];
        i /= y->dim[k];
        if (v->dim[k] != 1) at += index * step;
        step *= v->dim[k];
    }
    return v->x[at];
}

// ---- operations -------------------------------------------------------------------------------

static void run_matmul(Run *r, const Desc *op)
{
    const Value *A = operand(r, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
    const Value *B = operand(r, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
    Value *C = operand(r, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    const int64_t M = C->dim[2], N = C->dim[3], K = A->dim[3];
    if (A->dim[2] != M || B->dim[2] != K || B->dim[3] != N || A->dim[0] != B->dim[0] ||
        A->dim[1] != B->dim[1])
        misuse("a product of matrices that do not fit");
    for (int64_t i = 0; i < count(C); i++) {
        const int64_t n = i % N, m = i / N % M, batch = i / (M * N);
        float s = 0;
        for (int64_t k = 0; k < K; k++)
            s += A->x[(batch * M + m) * K + k] * B->x[(batch * K + k) * N + n];
        C->x[i] = s;
    }
    store(r, C);
}

static float apply(int32_t mode, float x, float b, float t)
{
    switch (mode) {
    case CUDNN_POINTWISE_ADD: return x + b;
    case CUDNN_POINTWISE_SUB: return x - b;
    case CUDNN_POINTWISE_MUL: return x * b;
    case CUDNN_POINTWISE_DIV: return x / b;
    case CUDNN_POINTWISE_EXP: return expf(x);
    case CUDNN_POINTWISE_LOG: return logf(x);
    case CUDNN_POINTWISE_CMP_GE: return x >= b ? 1 : 0;
    case CUDNN_POINTWISE_BINARY_SELECT: return t != 0 ? x : b;
    default: misuse("a pointwise mode that is not known here"); return NAN;
    }
}

static void run_pointwise(Run *r, const Desc *op)
{
    const Desc *kind = part(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 0);
    const Value *x = operand(r, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    const Value *b = operand(r, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    const Value *t = operand(r, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
    Value *y = operand(r, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    const int32_t mode = number(kind, CUDNN_ATTR_POINTWISE_MODE);
    int64_t axis = -1;
    if (find(kind, CUDNN_ATTR_POINTWISE_AXIS))
        memcpy(&axis, find(kind, CUDNN_ATTR_POINTWISE_AXIS)->bytes, sizeof axis);
    for (int64_t i = 0; i < count(y); i++) {
        if (mode == CUDNN_POINTWISE_GEN_INDEX) {
            int64_t rest = i;
            for (int k = 3; k > axis; k--) rest /= y->dim[k];
            y->x[i] = (float)(rest % y->dim[axis]);
        } else
            y->x[i] = apply(mode, broadcast(x, y, i), b ? broadcast(b, y, i) : 0,
                            t ? broadcast(t, y, i) : 0);
    }
    store(r, y);
}

// Over the last dimension: the only one that is reduced here.
static void run_reduction(Run *r, const Desc *op)
{
    const Desc *kind = part(op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, 0);
    const Value *x = operand(r, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
    Value *y = operand(r, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    const bool is_max = number(kind, CUDNN_ATTR_REDUCTION_OPERATOR) == CUDNN_REDUCE_TENSOR_MAX;
    const int64_t n = x->dim[3];
    if (y->dim[3] != 1 || count(y) * n != count(x)) misuse("a reduction that is not of rows");
    for (int64_t i = 0; i < count(y); i++) {
        float s = is_max ? -INFINITY : 0;
        for (int64_t k = 0; k < n; k++)
            s = is_max ? fmaxf(s, x->x[i * n + k]) : s + x->x[i * n + k];
        y->x[i] = s;
    }
    store(r, y);
}

// The same places of memory, by other strides.
static void run_reshape(Run *r, const Desc *op)
{
    const Value *x = operand(r, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
    Value *y = operand(r, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
    int64_t end = 0;
    for (int64_t i = 0; i < count(x); i++) end = offset(x, i) >= end ? offset(x, i) + 1 : end;
    float *memory = malloc((size_t)end * sizeof *memory);
    for (int64_t i = 0; i < count(x); i++) memory[offset(x, i)] = x->x[i];
    for (int64_t i = 0; i < count(y); i++) {
        if (offset(y, i) >= end) misuse("a reshape beyond its memory");
        y->x[i] = offset(y, i) < end ? memory[offset(y, i)] : NAN;
    }
    free(memory);
    store(r, y);
}

static void work(void *job)
{
    Run *r = job;
    const Attribute *ops = find(r->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    memset(r->workspace, 0xff, WORKSPACE); // NaN
    for (int64_t i = 0; i < ops->n; i++) {
        const Desc *op = ((Desc *const *)(const void *)ops->bytes)[i];
        switch (op->type) {
        case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: run_matmul(r, op); break;
        case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: run_pointwise(r, op); break;
        case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: run_reduction(r, op); break;
        case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR: run_reshape(r, op); break;
        default: misuse("an operation that is not known here");
        }
    }
    for (int i = 0; i < r->n_pointers; i++)
        if (!r->used[i]) misuse("Execute: an address of no tensor");
    for (int i = 0; i < r->n_values; i++) free(r->value[i].x);
    free(r);
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t h, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack)
{
    const Desc *p = plan, *v = pack;
    if (!h || !p || !p->final || !v || !v->final) return misuse("Execute: not finalized");
    const Attribute *uids = find(v, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const Attribute *pointers = find(v, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    const Attribute *workspace = find(v, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    if (!uids || !pointers || !workspace || uids->n != pointers->n)
        return misuse("Execute: ids and addresses");
    Run *r = calloc(1, sizeof *r);
    if (!r) return CUDNN_STATUS_ALLOC_FAILED;
    r->graph = p->graph;
    r->n_pointers = (int)uids->n;
    memcpy(r->uid, uids->bytes, (size_t)uids->n * sizeof *r->uid);
    memcpy(r->pointer, pointers->bytes, (size_t)pointers->n * sizeof *r->pointer);
    memcpy(&r->workspace, workspace->bytes, sizeof r->workspace);
    for (int i = 0; i < r->n_pointers; i++) {
        if (r->pointer[i] >= r->workspace && r->pointer[i] < r->workspace + WORKSPACE)
            misuse("Execute: a tensor in the workspace");
        struct cudaPointerAttributes at;
        if (cudaPointerGetAttributes(&at, r->pointer[i]) == cudaSuccess &&
            at.type == cudaMemoryTypeDevice)
            continue;
        memcpy(r->scalar[i], r->pointer[i], sizeof r->scalar[i]); // the host may take it back
        r->pointer[i] = r->scalar[i];
    }
    counts.runs++;
    return cudaLaunchHostFunc(h->stream, work, r) == cudaSuccess ? CUDNN_STATUS_SUCCESS
                                                                 : CUDNN_STATUS_EXECUTION_FAILED;
}
