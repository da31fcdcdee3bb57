// cudnn_sdpa.c -- see cudnn_sdpa.h.
//
// Forward, one line an operation; [..] are virtual, so that a fused engine never stores them:
//
//     [S]   = Q K^T                      K^T: the memory of K with swapped strides
//     [S]   = S * scale
//     [S]   = row >= column ? S : hidden         (causal only; two indices and a comparison)
//     [m]   = max over columns of S
//     [E]   = exp(S - m)
//     [l]   = sum over columns of E
//     LSE   = m + log(l)
//     [P]   = E / l                      rounded to 16 bits
//     OUT   = P V
//
// Backward. delta is real: cuDNN wants memory for it.
//
//     delta = 1 * sum over d of dOUT * OUT
//     [S]   = Q K^T;  [S] = S * scale - LSE;  masked as above;  [P] = exp(S)
//     dV    = P^T dOUT                   P^T: rounded and reshaped
//     [G]   = dOUT V^T;  [G] = (G - delta) * P * scale
//     dK    = G^T Q
//     dQ    = G K                        K^T reshaped to K
//
// dQ directly, and not by a sum in f32 memory: this is the form whose engines repeat their bits. It
// costs a workspace of B H T T 16-bit numbers.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cudnn_sdpa.h"
#include "engine/base/dtype.h"

typedef struct Sdpa {
    CudnnGraph *g;
    const CudnnSdpaShape *s;
    cudnnDataType_t type;
} Sdpa;

// ---- tensors ----------------------------------------------------------------------------------

// [B,H,T,D] in memory, rows `row` apart.
static CudnnShape rows(const Sdpa *a, int64_t T, int64_t batch, int64_t row)
{
    const CudnnSdpaShape *s = a->s;
    return (CudnnShape){{s->B, s->H, T, s->D}, {batch, s->D, row, 1}};
}

static CudnnShape transposed(CudnnShape s)
{
    return (CudnnShape){{s.dim[0], s.dim[1], s.dim[3], s.dim[2]},
                        {s.stride[0], s.stride[1], s.stride[3], s.stride[2]}};
}

static CudnnTensor real(const Sdpa *a, CudnnSdpaUid uid, CudnnShape shape)
{
    return cudnn_graph_tensor(a->g, CUDNN_GRAPH_REAL, uid, &shape, a->type);
}

static CudnnTensor scalar(const Sdpa *a, CudnnSdpaUid uid)
{
    const CudnnShape one = {{1, 1, 1, 1}, {1, 1, 1, 1}};
    return cudnn_graph_tensor(a->g, CUDNN_GRAPH_SCALAR, uid, &one, CUDNN_DATA_FLOAT);
}

// One number for each query: real with a uid, virtual without.
static CudnnTensor of_row(const Sdpa *a, int64_t uid)
{
    const CudnnSdpaShape *s = a->s;
    const CudnnShape shape = {{s->B, s->H, s->Tq, 1}, {s->H * s->Tq, s->Tq, 1, 1}};
    return cudnn_graph_tensor(a->g, uid ? CUDNN_GRAPH_REAL : CUDNN_GRAPH_VIRTUAL, uid, &shape,
                              CUDNN_DATA_FLOAT);
}

static CudnnShape square(const Sdpa *a)
{
    const CudnnSdpaShape *s = a->s;
    return (CudnnShape){{s->B, s->H, s->Tq, s->Tk},
                        {s->H * s->Tq * s->Tk, s->Tq * s->Tk, s->Tk, 1}};
}

static CudnnTensor scores(const Sdpa *a, cudnnDataType_t type)
{
    const CudnnShape shape = square(a);
    return cudnn_graph_tensor(a->g, CUDNN_GRAPH_VIRTUAL, 0, &shape, type);
}

// ---- operations -------------------------------------------------------------------------------

static CudnnTensor apply(const Sdpa *a, cudnnPointwiseMode_t mode, CudnnTensor x, CudnnTensor b)
{
    return cudnn_graph_pointwise(a->g, mode, x, b, NULL, scores(a, CUDNN_DATA_FLOAT));
}

static CudnnTensor hide_later_keys(const Sdpa *a, CudnnTensor x)
{
    CudnnTensor row = cudnn_graph_index(a->g, 2, x, scores(a, CUDNN_DATA_FLOAT));
    CudnnTensor column = cudnn_graph_index(a->g, 3, x, scores(a, CUDNN_DATA_FLOAT));
    CudnnTensor visible = cudnn_graph_pointwise(a->g, CUDNN_POINTWISE_CMP_GE, row, column, NULL,
                                                scores(a, CUDNN_DATA_BOOLEAN));
    return cudnn_graph_pointwise(a->g, CUDNN_POINTWISE_BINARY_SELECT, x,
                                 scalar(a, CUDNN_SDPA_HIDDEN), visible,
                                 scores(a, CUDNN_DATA_FLOAT));
}

// x^T in 16 bits: the same memory, would it exist, read along the other dimension.
static CudnnTensor turned(const Sdpa *a, CudnnTensor x)
{
    const CudnnShape shape = transposed(square(a));
    return cudnn_graph_reshape(a->g, x,
                               cudnn_graph_tensor(a->g, CUDNN_GRAPH_VIRTUAL, 0, &shape, a->type));
}

static void forward(const Sdpa *a)
{
    CudnnGraph *g = a->g;
    const CudnnSdpaShape *s = a->s;
    CudnnTensor Q = real(a, CUDNN_SDPA_Q, rows(a, s->Tq, s->q_batch, s->q_row));
    CudnnTensor KT = real(a, CUDNN_SDPA_K, transposed(rows(a, s->Tk, s->kv_batch, s->kv_row)));
    CudnnTensor V = real(a, CUDNN_SDPA_V, rows(a, s->Tk, s->kv_batch, s->kv_row));
    CudnnTensor out = real(a, CUDNN_SDPA_OUT, rows(a, s->Tq, s->out_batch, s->out_row));
    CudnnTensor x = cudnn_graph_matmul(g, Q, KT, scores(a, CUDNN_DATA_FLOAT));
    x = apply(a, CUDNN_POINTWISE_MUL, x, scalar(a, CUDNN_SDPA_SCALE));
    if (s->causal) x = hide_later_keys(a, x);
    CudnnTensor m = cudnn_graph_reduce(g, CUDNN_REDUCE_TENSOR_MAX, x, of_row(a, 0));
    CudnnTensor e = apply(a, CUDNN_POINTWISE_SUB, x, m);
    e = apply(a, CUDNN_POINTWISE_EXP, e, NULL);
    CudnnTensor l = cudnn_graph_reduce(g, CUDNN_REDUCE_TENSOR_ADD, e, of_row(a, 0));
    CudnnTensor log_l = cudnn_graph_pointwise(g, CUDNN_POINTWISE_LOG, l, NULL, NULL, of_row(a, 0));
    cudnn_graph_pointwise(g, CUDNN_POINTWISE_ADD, m, log_l, NULL, of_row(a, CUDNN_SDPA_LSE));
    CudnnTensor p = cudnn_graph_pointwise(g, CUDNN_POINTWISE_DIV, e, l, NULL, scores(a, a->type));
    cudnn_graph_matmul(g, p, V, out);
}

// delta = sum over d of dout * out.
static CudnnTensor row_sums(const Sdpa *a, CudnnTensor dout, CudnnTensor out)
{
    const CudnnSdpaShape *s = a->s;
    const CudnnShape shape = rows(a, s->Tq, s->Tq * s->H * s->D, s->H * s->D);
    CudnnTensor t = cudnn_graph_tensor(a->g, CUDNN_GRAPH_VIRTUAL, 0, &shape, CUDNN_DATA_FLOAT);
    t = cudnn_graph_pointwise(a->g, CUDNN_POINTWISE_MUL, dout, out, NULL, t);
    t = cudnn_graph_reduce(a->g, CUDNN_REDUCE_TENSOR_ADD, t, of_row(a, 0));
    return cudnn_graph_pointwise(a->g, CUDNN_POINTWISE_MUL, t, scalar(a, CUDNN_SDPA_ONE), NULL,
                                 of_row(a, CUDNN_SDPA_DELTA));
}

static void backward(const Sdpa *a)
{
    CudnnGraph *g = a->g;
    const CudnnSdpaShape *s = a->s;
    const CudnnShape q = rows(a, s->Tq, s->q_batch, s->q_row);
    const CudnnShape kv = rows(a, s->Tk, s->kv_batch, s->kv_row);
    const CudnnShape o = rows(a, s->Tq, s->out_batch, s->out_row);
    CudnnTensor Q = real(a, CUDNN_SDPA_Q, q), KT = real(a, CUDNN_SDPA_K, transposed(kv));
    CudnnTensor VT = real(a, CUDNN_SDPA_V, transposed(kv)), out = real(a, CUDNN_SDPA_OUT, o);
    CudnnTensor dout = real(a, CUDNN_SDPA_DOUT, o), lse = of_row(a, CUDNN_SDPA_LSE);
    CudnnTensor scale = scalar(a, CUDNN_SDPA_SCALE), delta = row_sums(a, dout, out);

    CudnnTensor x = cudnn_graph_matmul(g, Q, KT, scores(a, CUDNN_DATA_FLOAT));
    x = apply(a, CUDNN_POINTWISE_MUL, x, scale);
    x = apply(a, CUDNN_POINTWISE_SUB, x, lse);
    if (s->causal) x = hide_later_keys(a, x);
    CudnnTensor p = apply(a, CUDNN_POINTWISE_EXP, x, NULL);
    cudnn_graph_matmul(g, turned(a, p), dout, real(a, CUDNN_SDPA_DV, kv));

    CudnnTensor y = cudnn_graph_matmul(g, dout, VT, scores(a, CUDNN_DATA_FLOAT));
    y = apply(a, CUDNN_POINTWISE_SUB, y, delta);
    y = apply(a, CUDNN_POINTWISE_MUL, y, p);
    y = apply(a, CUDNN_POINTWISE_MUL, y, scale);
    cudnn_graph_matmul(g, turned(a, y), Q, real(a, CUDNN_SDPA_DK, kv));
    CudnnTensor K = cudnn_graph_tensor(g, CUDNN_GRAPH_VIRTUAL, 0, &kv, a->type);
    cudnn_graph_matmul(g, y, cudnn_graph_reshape(g, KT, K), real(a, CUDNN_SDPA_DQ, q));
}

bool cudnn_sdpa_build(CudnnGraph *g, const CudnnSdpaShape *s)
{
    const Sdpa a = {g, s, s->dtype == DTYPE_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16};
    if (s->backward)
        backward(&a);
    else
        forward(&a);
    return cudnn_graph_close(g);
}
