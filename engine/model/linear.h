// linear.h -- a linear layer, y = x W^T + b, and its gradients: three matrix products.
//
//     forward    y  = x W^T + b
//     backward   dW = dy^T x     db = column sums of dy     dx = dy W
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/model/model.h"

typedef enum LinearId { LINEAR_QKV = 0, LINEAR_PROJ, LINEAR_FC, LINEAR_MLP, LINEAR_COUNT } LinearId;

typedef struct Linear {   // one layer's part of one micro-batch
    const Model *m;       // borrowed
    const void *w, *bias; // [out,in]; [out] or NULL
    float *dw, *db;       // [out,in]; [out] or NULL. Not read by the forward pass
    int64_t rows, in, out;
    bool accumulate; // dw, db: += instead of =
} Linear;

LT_C_BEGIN
// y [rows,out]
LT_MUST_CHECK Status linear_forward(const Linear *l, OpCtx *cx, void *y, const void *x, Err *err);
// h = x W^T + b (kept for the backward pass; NULL: not wanted), g = act(h).
LT_MUST_CHECK Status linear_forward_act(const Linear *l, OpCtx *cx, void *g, void *h, const void *x,
                                        Err *err);
// l->dw, l->db and dx [rows,in].
LT_MUST_CHECK Status linear_backward(const Linear *l, OpCtx *cx, void *dx, const void *dy,
                                     const void *x, Err *err);
// The same for a layer whose input is x = act(h): the gradient of h instead of x.
LT_MUST_CHECK Status linear_backward_act(const Linear *l, OpCtx *cx, void *dh, const void *dy,
                                         const void *x, const void *h, Err *err);
LT_C_END
