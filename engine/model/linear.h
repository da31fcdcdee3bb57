// linear.h -- a linear layer, y = x W^T + b, and its gradients: three matrix products.
//
//     forward    y  = x W^T + b
//     backward   dW = dy^T x     db = column sums of dy     dx = dy W
//
// In FP8 the operands of the three products are FP8 tensors, with both layouts of x, W and dy (see
// matmul_fp8.h for why): the forward product takes q(x), and what is kept for the backward pass is
// its transpose alone, one byte an element, in place of x. db is made from dy, not from q(dy).
//
// What becomes FP8 is written so by the op that makes it, where that op can: the norm in front of
// qkv and fc, the activation in front of mlp, the gradient of that activation. Otherwise, and
// wherever a scale is current, x or dy exists in the activation type first and fp8_quantize reads
// it; the bits are the same.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/model/model.h"

typedef struct Linear {   // one layer's part of one micro-batch
    const Model *m;       // borrowed
    const void *w, *bias; // [out,in]; [out] or NULL
    float *dw, *db;       // [out,in]; [out] or NULL. Not used by the forward pass
    int64_t rows, in, out;
    Activation act;  // of what linear_forward_act makes of y
    bool accumulate; // dw, db: += instead of =
    bool add_dx;     // dx, too
    // in FP8 only
    bool fp8;
    bool again; // the second forward pass of recompute: scales as they are, nothing is counted
    bool alone; // no op in front of it writes x in FP8
    int64_t layer;
    LinearId id;
} Linear;

LT_C_BEGIN
// Where the op that makes the layer's x leaves it in FP8. None (scale NULL): it leaves x itself.
Fp8Out linear_x_out(const Linear *l);
// y [rows,out]. y NULL: no product; only what the backward pass will need of x is kept.
LT_MUST_CHECK Status linear_forward(const Linear *l, OpCtx *cx, void *y, const void *x, Err *err);
// h = x W^T + b (kept for the backward pass; NULL: not wanted), g = act(h), the input of `next`.
LT_MUST_CHECK Status linear_forward_act(const Linear *l, OpCtx *cx, void *g, void *h, const void *x,
                                        const Linear *next, Err *err);
// l->dw, l->db and dx [rows,in].
LT_MUST_CHECK Status linear_backward(const Linear *l, OpCtx *cx, void *dx, const void *dy,
                                     const void *x, Err *err);
// The same for a layer whose input is x = act(h): dh instead of dx, never added to. h is the
// output of `below`.
LT_MUST_CHECK Status linear_backward_act(const Linear *l, OpCtx *cx, void *dh, const void *dy,
                                         const void *x, const void *h, const Linear *below,
                                         Err *err);
LT_C_END
