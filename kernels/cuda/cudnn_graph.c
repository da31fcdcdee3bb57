// cudnn_graph.c -- see cudnn_graph.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cudnn_graph.h"

#include <stdio.h>
#include <string.h>

enum { VIRTUAL_UIDS = 1 << 20, ALIGN = 16 };

void cudnn_graph_open(CudnnGraph *g, const CudnnApi *api, cudnnHandle_t handle)
{
    *g = (CudnnGraph){.api = api, .handle = handle, .next_uid = VIRTUAL_UIDS, .where = ""};
}

void cudnn_graph_free(CudnnGraph *g)
{
    while (g->n_made > 0) (void)g->api->BackendDestroyDescriptor(g->made[--g->n_made]);
    *g = (CudnnGraph){0};
}

// ---- descriptors ------------------------------------------------------------------------------

static void fail(CudnnGraph *g, cudnnStatus_t status, const char *where)
{
    if (g->status || !status) return;
    g->status = status;
    g->where = where;
}

static cudnnBackendDescriptor_t make(CudnnGraph *g, cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t d = NULL;
    if (g->status) return NULL;
    if (g->n_made == CUDNN_GRAPH_DESCRIPTORS)
        fail(g, CUDNN_STATUS_INTERNAL_ERROR, "too many descriptors");
    else
        fail(g, g->api->BackendCreateDescriptor(type, &d), "create");
    if (g->status) return NULL;
    g->made[g->n_made++] = d;
    return d;
}

static void set(CudnnGraph *g, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t n, const void *values, const char *where)
{
    if (!g->status) fail(g, g->api->BackendSetAttribute(d, name, type, n, values), where);
}

static void set_part(CudnnGraph *g, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                     cudnnBackendDescriptor_t part, const char *where)
{
    set(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part, where);
}

static void set_f32(CudnnGraph *g, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                    const char *where)
{
    const cudnnDataType_t f32 = CUDNN_DATA_FLOAT;
    set(g, d, name, CUDNN_TYPE_DATA_TYPE, 1, &f32, where);
}

static void finalize(CudnnGraph *g, cudnnBackendDescriptor_t d, const char *where)
{
    if (!g->status) fail(g, g->api->BackendFinalize(d), where);
}

static void add_op(CudnnGraph *g, cudnnBackendDescriptor_t op, const char *where)
{
    finalize(g, op, where);
    if (!g->status && g->n_ops == CUDNN_GRAPH_OPS)
        fail(g, CUDNN_STATUS_INTERNAL_ERROR, "too many operations");
    if (!g->status) g->ops[g->n_ops++] = op;
}

CudnnTensor cudnn_graph_tensor(CudnnGraph *g, CudnnKind kind, int64_t uid, const CudnnShape *shape,
                               cudnnDataType_t type)
{
    const int64_t align = ALIGN, id = kind == CUDNN_GRAPH_VIRTUAL ? g->next_uid++ : uid;
    const bool is_virtual = kind == CUDNN_GRAPH_VIRTUAL, by_value = kind == CUDNN_GRAPH_SCALAR;
    cudnnBackendDescriptor_t d = make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(g, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type, "a tensor's type");
    set(g, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, shape->dim, "a tensor's sizes");
    set(g, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, shape->stride, "a tensor's strides");
    set(g, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id, "a tensor's uid");
    set(g, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align,
        "a tensor's alignment");
    set(g, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual, "a tensor's kind");
    set(g, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value, "a tensor's kind");
    finalize(g, d, "a tensor");
    return d;
}

CudnnTensor cudnn_graph_matmul(CudnnGraph *g, CudnnTensor A, CudnnTensor B, CudnnTensor C)
{
    cudnnBackendDescriptor_t m = make(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set_f32(g, m, CUDNN_ATTR_MATMUL_COMP_TYPE, "a product's type");
    finalize(g, m, "a product");
    cudnnBackendDescriptor_t op = make(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, A, "a product's A");
    set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, B, "a product's B");
    set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, C, "a product's C");
    set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, m, "a product's kind");
    add_op(g, op, "the operation of a product");
    return C;
}

static CudnnTensor pointwise(CudnnGraph *g, cudnnPointwiseMode_t mode, int64_t axis, CudnnTensor x,
                             CudnnTensor b, CudnnTensor t, CudnnTensor y)
{
    cudnnBackendDescriptor_t p = make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(g, p, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode, "a pointwise mode");
    set_f32(g, p, CUDNN_ATTR_POINTWISE_MATH_PREC, "a pointwise type");
    if (axis >= 0)
        set(g, p, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis, "a pointwise axis");
    finalize(g, p, "a pointwise function");
    cudnnBackendDescriptor_t op = make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, p, "a pointwise kind");
    set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x, "a pointwise x");
    if (b) set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b, "a pointwise b");
    if (t) set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t, "a pointwise t");
    set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y, "a pointwise y");
    add_op(g, op, "a pointwise operation");
    return y;
}

CudnnTensor cudnn_graph_pointwise(CudnnGraph *g, cudnnPointwiseMode_t mode, CudnnTensor x,
                                  CudnnTensor b, CudnnTensor t, CudnnTensor y)
{
    return pointwise(g, mode, -1, x, b, t, y);
}

CudnnTensor cudnn_graph_index(CudnnGraph *g, int64_t axis, CudnnTensor x, CudnnTensor y)
{
    return pointwise(g, CUDNN_POINTWISE_GEN_INDEX, axis, x, NULL, NULL, y);
}

CudnnTensor cudnn_graph_reduce(CudnnGraph *g, cudnnReduceTensorOp_t op, CudnnTensor x,
                               CudnnTensor y)
{
    cudnnBackendDescriptor_t r = make(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set(g, r, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &op,
        "a reduction's operator");
    set_f32(g, r, CUDNN_ATTR_REDUCTION_COMP_TYPE, "a reduction's type");
    finalize(g, r, "a reduction");
    cudnnBackendDescriptor_t o = make(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_part(g, o, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x, "a reduction's x");
    set_part(g, o, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y, "a reduction's y");
    set_part(g, o, CUDNN_ATTR_OPERATION_REDUCTION_DESC, r, "a reduction's kind");
    add_op(g, o, "the operation of a reduction");
    return y;
}

CudnnTensor cudnn_graph_reshape(CudnnGraph *g, CudnnTensor x, CudnnTensor y)
{
    cudnnBackendDescriptor_t op = make(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_part(g, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x, "a reshape's x");
    set_part(g, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y, "a reshape's y");
    add_op(g, op, "a reshape");
    return y;
}

// ---- the graph, its engines, its plan -----------------------------------------------------------

bool cudnn_graph_close(CudnnGraph *g)
{
    g->graph = make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    if (g->handle)
        set(g, g->graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &g->handle,
            "the graph's handle");
    set(g, g->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->n_ops, g->ops,
        "the graph's operations");
    finalize(g, g->graph, "the graph");
    return !g->status;
}

// Are the results of this engine the same bits each time?
static bool repeatable(CudnnGraph *g, cudnnBackendDescriptor_t config)
{
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t n = 0;
    cudnnBackendDescriptor_t engine = make(g, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    if (g->status) return false;
    cudnnStatus_t s = g->api->BackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                                  CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &engine);
    if (!s)
        s = g->api->BackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                        CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
                                        &n, notes);
    for (int64_t i = 0; i < n && !s; i++)
        if (notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) return false;
    return s == CUDNN_STATUS_SUCCESS;
}

int cudnn_graph_engines(CudnnGraph *g, cudnnBackendDescriptor_t device_properties,
                        cudnnBackendDescriptor_t found[CUDNN_GRAPH_ENGINES])
{
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    cudnnBackendDescriptor_t config[CUDNN_GRAPH_ENGINES];
    int64_t n = 0;
    cudnnBackendDescriptor_t h = make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_part(g, h, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, g->graph, "the heuristics' graph");
    set(g, h, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode, "the heuristics' mode");
    if (device_properties)
        set_part(g, h, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device_properties, "the heuristics' GPU");
    finalize(g, h, "the heuristics");
    for (int i = 0; i < CUDNN_GRAPH_ENGINES; i++)
        config[i] = make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (g->status) return 0;
    fail(g,
         g->api->BackendGetAttribute(h, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, CUDNN_GRAPH_ENGINES, &n,
                                     config),
         "the heuristics' answer");
    g->engines = g->status ? 0 : (int)n;
    int kept = 0;
    for (int i = 0; i < g->engines; i++)
        if (repeatable(g, config[i])) found[kept++] = config[i];
    return kept;
}

bool cudnn_graph_plan(CudnnGraph *g)
{
    cudnnBackendDescriptor_t config[CUDNN_GRAPH_ENGINES];
    const int n = cudnn_graph_engines(g, NULL, config);
    if (!g->status && n == 0)
        fail(g, CUDNN_STATUS_NOT_SUPPORTED,
             g->engines ? "every engine for it gives other bits each time" : "no engine for it");
    cudnnStatus_t last = g->status;
    for (int i = 0; i < n && !g->plan && !g->status; i++) {
        cudnnBackendDescriptor_t p = make(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        set(g, p, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &g->handle,
            "a plan's handle");
        set_part(g, p, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config[i], "a plan's engine");
        if (g->status) return false;
        last = g->api->BackendFinalize(p);
        if (!last) g->plan = p;
    }
    if (!g->plan) fail(g, last, "a plan");
    int64_t count = 0;
    if (!g->status)
        fail(g,
             g->api->BackendGetAttribute(g->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                         CUDNN_TYPE_INT64, 1, &count, &g->workspace),
             "a plan's workspace");
    return !g->status;
}

cudnnStatus_t cudnn_graph_run(CudnnGraph *g, int n, const int64_t *uids, void *const *pointers,
                              void *workspace)
{
    const CudnnApi *api = g->api;
    cudnnBackendDescriptor_t pack = NULL;
    cudnnStatus_t s = api->BackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    if (s) return s;
    s = api->BackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n,
                                 uids);
    if (!s)
        s = api->BackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                     CUDNN_TYPE_VOID_PTR, n, pointers);
    if (!s)
        s = api->BackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
                                     1, &workspace);
    if (!s) s = api->BackendFinalize(pack);
    if (!s) s = api->BackendExecute(g->handle, g->plan, pack);
    (void)api->BackendDestroyDescriptor(pack);
    return s;
}
