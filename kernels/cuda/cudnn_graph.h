// cudnn_graph.h -- a computation put together for cuDNN's backend: tensors, operations, a plan.
//
//     cudnn_graph_tensor, _matmul, _pointwise, ...   one descriptor each
//     cudnn_graph_close                              the operations become a graph
//     cudnn_graph_plan                               the first engine that can do it repeatably
//
// cuDNN's own C interface needs some ten calls for a tensor and as many for an operation, and each
// may fail. Here a failure stays in the graph (status, where) and everything after it does nothing,
// so that what is built reads like the formula; it is asked for once, at the end.
//
// Tensors have four dimensions: batch, head, row, column. Three kinds:
//   CUDNN_GRAPH_REAL     in GPU memory; its uid is given an address when the plan runs
//   CUDNN_GRAPH_VIRTUAL  an intermediate result that need not exist; uid 0
//   CUDNN_GRAPH_SCALAR   one f32 of the host's; its uid is given the address of the value
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include "kernels/cuda/cudnn_api.h"

enum { CUDNN_GRAPH_DESCRIPTORS = 160, CUDNN_GRAPH_OPS = 32, CUDNN_GRAPH_ENGINES = 8 };

typedef enum CudnnKind { CUDNN_GRAPH_REAL, CUDNN_GRAPH_VIRTUAL, CUDNN_GRAPH_SCALAR } CudnnKind;

typedef cudnnBackendDescriptor_t CudnnTensor;

typedef struct CudnnGraph {
    const CudnnApi *api;
    cudnnHandle_t handle; // NULL: no GPU; a graph can be built, but has no plan
    int64_t next_uid;     // of virtual tensors
    cudnnBackendDescriptor_t made[CUDNN_GRAPH_DESCRIPTORS]; // all of them, to be destroyed
    int n_made;
    cudnnBackendDescriptor_t ops[CUDNN_GRAPH_OPS];
    int n_ops;
    cudnnBackendDescriptor_t graph, plan;
    int engines;          // that the heuristics proposed
    int64_t workspace;    // bytes that the plan needs
    cudnnStatus_t status; // of the first call that failed
    const char *where;    // "finalize", "dimensions of a tensor", ...
} CudnnGraph;

typedef struct CudnnShape {
    int64_t dim[4], stride[4]; // elements
} CudnnShape;

LT_C_BEGIN
void cudnn_graph_open(CudnnGraph *g, const CudnnApi *api, cudnnHandle_t handle);
void cudnn_graph_free(CudnnGraph *g); // a zeroed one is fine

CudnnTensor cudnn_graph_tensor(CudnnGraph *g, CudnnKind kind, int64_t uid, const CudnnShape *shape,
                               cudnnDataType_t type);
// C = A B, with f32 sums.
CudnnTensor cudnn_graph_matmul(CudnnGraph *g, CudnnTensor A, CudnnTensor B, CudnnTensor C);
// y = mode(x) or mode(x, b) or, for BINARY_SELECT, t ? x : b. b and t may be NULL.
CudnnTensor cudnn_graph_pointwise(CudnnGraph *g, cudnnPointwiseMode_t mode, CudnnTensor x,
                                  CudnnTensor b, CudnnTensor t, CudnnTensor y);
// y = index of the element along `axis`; x gives the shape.
CudnnTensor cudnn_graph_index(CudnnGraph *g, int64_t axis, CudnnTensor x, CudnnTensor y);
// y = max or sum of x over the dimensions that are 1 in y.
CudnnTensor cudnn_graph_reduce(CudnnGraph *g, cudnnReduceTensorOp_t op, CudnnTensor x,
                               CudnnTensor y);
CudnnTensor cudnn_graph_reshape(CudnnGraph *g, CudnnTensor x, CudnnTensor y);

// No more operations. false: see status, where.
bool cudnn_graph_close(CudnnGraph *g);
// Asks which engines could do it, best first; without a handle, on the GPU that device_properties
// (a descriptor) is about. Stores the configurations of those that are repeatable.
int cudnn_graph_engines(CudnnGraph *g, cudnnBackendDescriptor_t device_properties,
                        cudnnBackendDescriptor_t found[CUDNN_GRAPH_ENGINES]);
// The plan of the first engine that accepts. false: see status, where.
bool cudnn_graph_plan(CudnnGraph *g);
// Queues the plan on the handle's stream.
cudnnStatus_t cudnn_graph_run(CudnnGraph *g, int n, const int64_t *uids, void *const *pointers,
                              void *workspace);
LT_C_END
