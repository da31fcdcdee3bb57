// linear.c -- see linear.h; the products in terms of M, N, K: matmul.h.
//
// SPDX-License-Identifier: MIT
#include "engine/model/linear.h"

static MatmulArgs forward_args(const Linear *l, void *y, const void *x)
{
    return (MatmulArgs){.C = y,
                        .A = x,
                        .B = l->w,
                        .bias = l->bias,
                        .M = l->rows,
                        .N = l->out,
                        .K = l->in,
                        .lda = l->in,
                        .ldb = l->in,
                        .ldc = l->out,
                        .trans_b = true,
                        .act = l->m->c.activation,
                        .ab_dtype = l->m->prec.act,
                        .c_dtype = l->m->prec.act,
                        .bias_dtype = l->m->prec.param};
}

Status linear_forward(const Linear *l, OpCtx *cx, void *y, const void *x, Err *err)
{
    const MatmulArgs a = forward_args(l, y, x);
    return op_matmul(cx, &a, err);
}

Status linear_forward_act(const Linear *l, OpCtx *cx, void *g, void *h, const void *x, Err *err)
{
    MatmulArgs a = forward_args(l, g, x);
    a.epilogue = MATMUL_GELU;
    a.aux = h;
    return op_matmul(cx, &a, err);
}

static MatmulArgs dx_args(const Linear *l, void *dx, const void *dy)
{
    return (MatmulArgs){.C = dx,
                        .A = dy,
                        .B = l->w,
                        .M = l->rows,
                        .N = l->in,
                        .K = l->out,
                        .lda = l->out,
                        .ldb = l->in,
                        .ldc = l->in,
                        .act = l->m->c.activation,
                        .ab_dtype = l->m->prec.act,
                        .c_dtype = l->m->prec.act};
}

static Status weight_gradient(const Linear *l, OpCtx *cx, const void *dy, const void *x, Err *err)
{
    TRY(op_matmul(cx,
                  &(MatmulArgs){.C = l->dw,
                                .A = dy,
                                .B = x,
                                .M = l->out,
                                .N = l->in,
                                .K = l->rows,
                                .lda = l->out,
                                .ldb = l->in,
                                .ldc = l->in,
                                .trans_a = true,
                                .accumulate = l->accumulate,
                                .ab_dtype = l->m->prec.act,
                                .c_dtype = DTYPE_F32},
                  err));
    if (!l->db) return ERR_NONE;
    return op_bias_bwd(cx,
                       &(BiasBwdArgs){.db = l->db,
                                      .dy = dy,
                                      .N = l->rows,
                                      .C = l->out,
                                      .accumulate = l->accumulate,
                                      .dtype = l->m->prec.act},
                       err);
}

Status linear_backward(const Linear *l, OpCtx *cx, void *dx, const void *dy, const void *x,
                       Err *err)
{
    TRY(weight_gradient(l, cx, dy, x, err));
    const MatmulArgs a = dx_args(l, dx, dy);
    return op_matmul(cx, &a, err);
}

Status linear_backward_act(const Linear *l, OpCtx *cx, void *dh, const void *dy, const void *x,
                           const void *h, Err *err)
{
    TRY(weight_gradient(l, cx, dy, x, err));
    MatmulArgs a = dx_args(l, dh, dy);
    a.epilogue = MATMUL_DGELU;
    a.aux = (void *)h; // only read
    return op_matmul(cx, &a, err);
}
