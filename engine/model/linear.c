// linear.c -- see linear.h; the products in terms of M, N, K: matmul.h, matmul_fp8.h.
//
// SPDX-License-Identifier: MIT
#include "engine/model/linear.h"

// ---- in the activation type -------------------------------------------------------------------

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
                        .act = l->act,
                        .ab_dtype = l->m->prec.act,
                        .c_dtype = l->m->prec.act,
                        .bias_dtype = l->m->prec.param};
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
                        .accumulate = l->add_dx,
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

// ---- in FP8 -----------------------------------------------------------------------------------

static int64_t slot(const Linear *l, Fp8Kind kind)
{
    return fp8_slot(l->layer, l->id, kind);
}

static const float *inv(const Linear *l, Fp8Kind kind)
{
    return &l->m->fp8->scale[slot(l, kind)].inv;
}

static bool current(const Linear *l)
{
    return fp8_current(l->m->fp8) && !l->again;
}

// Two buffers take turns, for the op that writes a layer's wide tensor reads a narrow one.
static void *q_of(const Linear *l, Fp8Kind kind)
{
    const bool wide =
        kind == FP8_X ? l->id == LINEAR_MLP : l->id == LINEAR_FC || l->id == LINEAR_QKV;
    return wide ? l->m->q_wide : l->m->q;
}

static Fp8Out x_out(const Linear *l)
{
    Fp8Out o = fp8_out(l->m->fp8, slot(l, FP8_X), !l->again);
    const bool kept = l->again || !l->m->o.recompute;
    o.q = q_of(l, FP8_X);
    o.ld_q = l->in;
    o.qt = kept ? l->m->layer[l->layer].xt[l->id] : NULL;
    o.ld_qt = fp8_ld(l->rows);
    return o;
}

static Fp8Out dy_out(const Linear *l)
{
    Fp8Out o = fp8_out(l->m->fp8, slot(l, FP8_DY), true);
    o.q = q_of(l, FP8_DY);
    o.ld_q = l->out;
    o.qt = l->m->dyt;
    o.ld_qt = fp8_ld(l->rows);
    return o;
}

// Does the op that makes x, or dy, write it in FP8?
static bool x_fused(const Linear *l)
{
    return l->fp8 && l->id != LINEAR_PROJ && !l->alone && !current(l) && !l->m->fp8->apart;
}

static bool dy_fused(const Linear *l)
{
    return l->fp8 && l->id == LINEAR_FC && !current(l) && !l->m->fp8->apart;
}

static Status quantize(const Linear *l, OpCtx *cx, Fp8Out out, const void *src, int64_t cols,
                       float *dbias, Err *err)
{
    return op_fp8_quantize(cx,
                           &(Fp8QuantizeArgs){.out = out,
                                              .dbias = dbias,
                                              .src = src,
                                              .R = l->rows,
                                              .C = cols,
                                              .ld = cols,
                                              .accumulate = l->accumulate,
                                              .current = current(l),
                                              .margin = l->m->fp8->recipe.margin,
                                              .src_dtype = l->m->prec.act},
                           err);
}

static Status quantize_x(const Linear *l, OpCtx *cx, const void *x, Err *err)
{
    return x_fused(l) ? ERR_NONE : quantize(l, cx, x_out(l), x, l->in, NULL, err);
}

// Who makes q(dy) makes db, too.
static Status quantize_dy(const Linear *l, OpCtx *cx, const void *dy, Err *err)
{
    return dy_fused(l) ? ERR_NONE : quantize(l, cx, dy_out(l), dy, l->out, l->db, err);
}

static MatmulFp8Args fp8_forward_args(const Linear *l, void *y)
{
    return (MatmulFp8Args){.C = y,
                           .A = q_of(l, FP8_X),
                           .B = fp8_weight(l->m->fp8, l->layer, l->id).q,
                           .a_inv = inv(l, FP8_X),
                           .b_inv = inv(l, FP8_W),
                           .bias = l->bias,
                           .M = l->rows,
                           .N = l->out,
                           .K = l->in,
                           .lda = l->in,
                           .ldb = l->in,
                           .ldc = l->out,
                           .fast = true,
                           .act = l->act,
                           .a_dtype = fp8_dtype(FP8_X),
                           .b_dtype = fp8_dtype(FP8_W),
                           .c_dtype = l->m->prec.act,
                           .bias_dtype = l->m->prec.param};
}

static MatmulFp8Args fp8_dx_args(const Linear *l, void *dx)
{
    return (MatmulFp8Args){.C = dx,
                           .A = q_of(l, FP8_DY),
                           .B = fp8_weight(l->m->fp8, l->layer, l->id).qt,
                           .a_inv = inv(l, FP8_DY),
                           .b_inv = inv(l, FP8_W),
                           .M = l->rows,
                           .N = l->in,
                           .K = l->out,
                           .lda = l->out,
                           .ldb = l->out,
                           .ldc = l->in,
                           .accumulate = l->add_dx,
                           .a_dtype = fp8_dtype(FP8_DY),
                           .b_dtype = fp8_dtype(FP8_W),
                           .c_dtype = l->m->prec.act};
}

static Status fp8_weight_gradient(const Linear *l, OpCtx *cx, Err *err)
{
    return op_matmul_fp8(cx,
                         &(MatmulFp8Args){.C = l->dw,
                                          .A = l->m->dyt,
                                          .B = l->m->layer[l->layer].xt[l->id],
                                          .a_inv = inv(l, FP8_DY),
                                          .b_inv = inv(l, FP8_X),
                                          .M = l->out,
                                          .N = l->in,
                                          .K = l->rows,
                                          .lda = fp8_ld(l->rows),
                                          .ldb = fp8_ld(l->rows),
                                          .ldc = l->in,
                                          .accumulate = l->accumulate,
                                          .a_dtype = fp8_dtype(FP8_DY),
                                          .b_dtype = fp8_dtype(FP8_X),
                                          .c_dtype = DTYPE_F32},
                         err);
}

// dy in FP8, then the weight gradient. It comes before dx, whose product may write the transpose of
// another layer's dy where this one's is.
static Status fp8_backward_begin(const Linear *l, OpCtx *cx, const void *dy, Err *err)
{
    TRY(quantize_dy(l, cx, dy, err));
    return fp8_weight_gradient(l, cx, err);
}

// ---- either -----------------------------------------------------------------------------------

Fp8Out linear_x_out(const Linear *l)
{
    return x_fused(l) ? x_out(l) : (Fp8Out){0};
}

Status linear_forward(const Linear *l, OpCtx *cx, void *y, const void *x, Err *err)
{
    if (!l->fp8) {
        const MatmulArgs a = forward_args(l, y, x);
        return y ? op_matmul(cx, &a, err) : ERR_NONE;
    }
    TRY(quantize_x(l, cx, x, err));
    const MatmulFp8Args a = fp8_forward_args(l, y);
    return y ? op_matmul_fp8(cx, &a, err) : ERR_NONE;
}

Status linear_forward_act(const Linear *l, OpCtx *cx, void *g, void *h, const void *x,
                          const Linear *next, Err *err)
{
    if (!l->fp8) {
        MatmulArgs a = forward_args(l, g, x);
        a.epilogue = MATMUL_GELU;
        a.aux = h;
        return op_matmul(cx, &a, err);
    }
    TRY(quantize_x(l, cx, x, err));
    MatmulFp8Args a = fp8_forward_args(l, x_fused(next) ? NULL : g);
    a.out = linear_x_out(next);
    a.epilogue = MATMUL_GELU;
    a.aux = h;
    return op_matmul_fp8(cx, &a, err);
}

Status linear_backward(const Linear *l, OpCtx *cx, void *dx, const void *dy, const void *x,
                       Err *err)
{
    if (!l->fp8) {
        TRY(weight_gradient(l, cx, dy, x, err));
        const MatmulArgs a = dx_args(l, dx, dy);
        return op_matmul(cx, &a, err);
    }
    TRY(fp8_backward_begin(l, cx, dy, err));
    const MatmulFp8Args a = fp8_dx_args(l, dx);
    return op_matmul_fp8(cx, &a, err);
}

Status linear_backward_act(const Linear *l, OpCtx *cx, void *dh, const void *dy, const void *x,
                           const void *h, const Linear *below, Err *err)
{
    if (!l->fp8) {
        TRY(weight_gradient(l, cx, dy, x, err));
        MatmulArgs a = dx_args(l, dh, dy);
        a.epilogue = MATMUL_DGELU;
        a.act = below->act;
        a.aux = (void *)h; // only read
        return op_matmul(cx, &a, err);
    }
    TRY(fp8_backward_begin(l, cx, dy, err));
    MatmulFp8Args a = fp8_dx_args(l, dy_fused(below) ? NULL : dh);
    a.epilogue = MATMUL_DGELU;
    a.act = below->act;
    a.aux = (void *)h;
    if (dy_fused(below)) {
        a.out = dy_out(below);
        a.dbias = below->db;
        a.dbias_accumulate = below->accumulate;
    }
    return op_matmul_fp8(cx, &a, err);
}
