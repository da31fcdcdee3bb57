// op_cases_attention.c -- the cases of the op matrix for attention, forward and backward.
//
// SPDX-License-Identifier: MIT
#include "kernels/ref/ref.h"
#include "tests/kernels/op_cases.h"

#include <math.h>

const AttentionCase attention_fwd_cases[28] = {
    {1, 1, 1, 1, 1, true, true, 0, 0, 0, 0},     {2, 2, 7, 7, 8, true, true, 0, 0, 0, 0},
    {1, 3, 33, 33, 16, false, false, 0, 0, 0, 0}, {2, 2, 64, 64, 32, true, true, 0, 0, 0, 0},
    {1, 2, 65, 65, 64, true, true, 0, 0, 1, 0},  {1, 2, 63, 63, 20, true, true, 9, 0, 0, 0.1},
    {2, 1, 40, 40, 32, true, true, 0, 0, 2, 0.5}, {2, 2, 1, 37, 64, false, true, 0, 35, 0, 0},
    {1, 2, 5, 70, 33, false, true, 16, 65, 0, 0}, {1, 1, 4, 0, 8, false, false, 0, 0, 0, 0},
    {0, 1, 4, 4, 8, true, true, 0, 0, 0, 0},     {1, 1, 130, 130, 64, true, true, 0, 0, 0, 0},
    {1, 1, 17, 17, 130, true, true, 0, 0, 0, 0}, {1, 2, 48, 48, 64, true, false, 0, 0, 1, 0.2},
    {1, 1, 20, 20, 16, true, false, 5, 0, 0, 0}, {1, 1, 300, 300, 16, true, true, 64, 0, 0, 0},
    {1, 2, 70, 70, 64, true, true, 20, 0, 0, 0}, {2, 1, 100, 100, 96, true, true, 0, 0, 2, 0},
    {1, 2, 33, 90, 64, false, true, 0, 55, 0, 0}, {1, 1, 47, 47, 32, true, false, 7, 0, 1, 0},
    {2, 1, 70, 70, 128, true, true, 0, 0, 2, 0.3}, {1, 1, 66, 66, 192, true, true, 0, 0, 0, 0},
    {1, 1, 65, 65, 256, true, false, 0, 0, 1, 0.1}, {1, 2, 33, 33, 300, true, true, 16, 0, 0, 0},
    {2, 1, 128, 128, 64, true, false, 0, 0, 3, 0.1}, {1, 1, 128, 128, 32, true, false, 0, 0, 4, 0},
    {1, 1, 127, 127, 64, true, false, 0, 0, 4, 0}, {1, 1, 100, 100, 32, true, false, 0, 0, 3, 0.1},
};
const AttentionCase attention_bwd_cases[24] = {
    {1, 1, 1, 1, 1, true, true, 0, 0, 0, 0},     {2, 2, 7, 7, 8, true, true, 0, 0, 0, 0},
    {1, 3, 33, 33, 16, false, false, 0, 0, 0, 0}, {2, 2, 64, 64, 32, true, true, 0, 0, 0, 0},
    {1, 2, 65, 65, 64, true, true, 0, 0, 1, 0},  {1, 2, 63, 63, 20, true, true, 9, 0, 0, 0.1},
    {2, 1, 40, 40, 32, true, true, 0, 0, 2, 0.5}, {0, 1, 4, 4, 8, true, true, 0, 0, 0, 0},
    {1, 1, 130, 130, 64, true, true, 0, 0, 0, 0}, {1, 1, 17, 17, 130, true, true, 0, 0, 0, 0},
    {1, 2, 48, 48, 64, true, false, 0, 0, 1, 0.2}, {1, 1, 20, 20, 16, true, false, 5, 0, 0, 0},
    {1, 1, 200, 200, 16, true, true, 50, 0, 0, 0}, {1, 2, 70, 70, 64, true, true, 20, 0, 0, 0},
    {2, 1, 100, 100, 96, true, true, 0, 0, 2, 0}, {1, 1, 47, 47, 32, true, false, 7, 0, 1, 0},
    {2, 1, 70, 70, 128, true, true, 0, 0, 2, 0.3}, {1, 1, 66, 66, 192, true, true, 0, 0, 0, 0},
    {1, 1, 65, 65, 256, true, false, 0, 0, 1, 0.1}, {1, 2, 33, 33, 300, true, true, 16, 0, 0, 0},
    {2, 1, 128, 128, 64, true, false, 0, 0, 3, 0.1}, {1, 1, 128, 128, 32, true, false, 0, 0, 4, 0},
    {1, 1, 127, 127, 64, true, false, 0, 0, 4, 0}, {1, 1, 100, 100, 32, true, false, 0, 0, 3, 0.1},
};

// What query i of an encoder's row b sees: one of three sequences, or of one; none in padding.
static void bounds_in_row(const AttentionCase *k, int64_t b, int64_t i, int32_t *lo, int32_t *hi)
{
    const int64_t T = k->Tk, pack[5] = {0, T / 2 + b, T / 2 + b + 2, T - T / 8, T};
    const int64_t one[3] = {0, T - T / 3 * b - 5, T};
    const int64_t *const end = k->segments == 4 ? pack : one;
    int64_t n = 0;
    while (i >= end[n + 1]) n++;
    *lo = (int32_t)end[n];
    *hi = (int32_t)(end[n + 1] == T ? end[n] : end[n + 1]); // padding is last
}

static AttentionMask mask_of(Case *c, const AttentionCase *k, const int32_t *host[2])
{
    AttentionMask m = {.causal = k->causal, .window = k->window};
    host[0] = host[1] = NULL;
    if (!k->segments) return m;
    Tensor  *lo = case_ints(c, "seg_lo", k->B * k->Tq, 1);
    Tensor  *hi = case_ints(c, "seg_hi", k->B * k->Tq, 1);
    int32_t *l = tensor_host(lo), *h = tensor_host(hi);
    for (int64_t b = 0; b < k->B; b++) {
        for (int64_t i = 0; i < k->Tq; i++) {
            const int64_t at = b * k->Tq + i;
            if (k->segments > 2) {
                bounds_in_row(k, b, i, &l[at], &h[at]);
                continue;
            }
            const int64_t cut = k->Tk / 3 + b; // two documents
            l[at] = (int32_t)(i < cut ? 0 : cut);
            h[at] = (int32_t)(i < cut ? cut : k->Tk);
            if (k->segments == 2 && i % 5 == 2) h[at] = l[at]; // sees nothing
        }
    }
    m.seg_lo = tensor_dev(lo);
    m.seg_hi = tensor_dev(hi);
    host[0]  = l;
    host[1]  = h;
    return m;
}

typedef struct Qkv {
    void   *q, *k, *v; // on the device
    void   *host_q, *host_k, *host_v;
    int64_t row;
} Qkv;

// Three tensors or one packed [B*T, 3, H*D].
static Qkv qkv_of(Case *c, TensorRole role, const char *const name[4], const AttentionCase *k,
                  DType t, double floor_)
{
    const int64_t C = k->H * k->D;
    if (!k->packed) {
        Tensor *q = case_tensor(c, role, name[0], t, k->B * k->Tq, C, C + 3, 1);
        Tensor *x = case_tensor(c, role, name[1], t, k->B * k->Tk, C, C + 3, 1);
        Tensor *v = case_tensor(c, role, name[2], t, k->B * k->Tk, C, C + 3, 1);
        q->floor = x->floor = v->floor = floor_;
        if (k->causal && k->Tk > k->q_pos0 + k->Tq) { // a key that no query sees holds NaN
            case_nan(x, 1, k->Tk - 1, 0);
            case_nan(v, 1, k->Tk - 1, C - 1);
        }
        return (Qkv){tensor_dev(q),  tensor_dev(x),  tensor_dev(v), tensor_host(q),
                     tensor_host(x), tensor_host(v), C + 3};
    }
    Tensor *x = case_tensor(c, role, name[3], t, k->B * k->Tq, 3 * C, 3 * C, 1);
    x->floor  = floor_;
    char *d = tensor_dev(x), *h = tensor_host(x);
    const size_t step = (size_t)C * dtype_bytes(t);
    return (Qkv){d, d + step, d + 2 * step, h, h + step, h + 2 * step, 3 * C};
}

void build_attention_fwd(Case *c, int variant, const Mix *m)
{
    static const char *const names[4] = {"q", "k", "v", "qkv"};
    const AttentionCase     *k        = &attention_fwd_cases[variant];
    AttentionFwdArgs        *a        = &c->args.attention_fwd;
    const int32_t           *host_mask[2];
    const Qkv                x   = qkv_of(c, TENSOR_IN, names, k, m->act, 0);
    const int64_t            row = k->H * k->D + (k->packed ? 0 : 2);
    *a          = (AttentionFwdArgs){.B = k->B, .H = k->H, .Tq = k->Tq, .Tk = k->Tk, .D = k->D};
    a->q        = x.q;
    a->k        = x.k;
    a->v        = x.v;
    a->q_row    = x.row;
    a->q_batch  = x.row * k->Tq;
    a->kv_row   = x.row;
    a->kv_batch = x.row * k->Tk;
    a->out_row  = row;
    a->out_batch = row * k->Tq;
    a->q_pos0    = k->q_pos0;
    a->scale     = (float)(1 / sqrt((double)k->D));
    a->dtype     = m->act;
    a->mask      = mask_of(c, k, host_mask);
    if (k->p > 0) a->drop = case_drop(c, k->p, k->B, RNG_DROP_ATTENTION);
    Tensor *out = case_tensor(c, TENSOR_OUT, "out", m->act, k->B * k->Tq, k->H * k->D, row, 1);
    out->floor  = case_loose(m->act); // probabilities may be rounded before the second product
    a->out      = tensor_dev(out);
    if (variant == 2) return; // without lse
    a->lse = tensor_dev(case_tensor(c, TENSOR_OUT, "lse", DTYPE_F32, k->B * k->H, k->Tq, k->Tq, 1));
}

// out and lse that belong to q, k, v: the reference forward, run on the images.
static void forward_on_host(const AttentionBwdArgs *a, const Qkv *x, const int32_t *const mask[2],
                            void *out, float *lse, Case *c)
{
    AttentionFwdArgs f = {.out = out, .lse = lse, .q = x->host_q, .k = x->host_k, .v = x->host_v};
    f.B                = a->B;
    f.H                = a->H;
    f.Tq = f.Tk = a->T;
    f.D         = a->D;
    f.q_row = f.kv_row = a->qkv_row;
    f.q_batch = f.kv_batch = a->qkv_batch;
    f.out_row              = a->out_row;
    f.out_batch            = a->out_batch;
    f.scale                = a->scale;
    f.mask                 = a->mask;
    f.mask.seg_lo          = mask[0];
    f.mask.seg_hi          = mask[1];
    f.dtype                = a->dtype;
    f.drop                 = a->drop;
    for (int i = 0; i < c->n; i++)
        if (strcmp(c->t[i].name, "sample") == 0) f.drop.sample = tensor_host(&c->t[i]);
    if (attention_fwd_ref(&f, NULL, NULL) != ERR_NONE) c->n = 0;
}

void build_attention_bwd(Case *c, int variant, const Mix *m)
{
    static const char *const names[4]   = {"q", "k", "v", "qkv"};
    static const char *const d_names[4] = {"dq", "dk", "dv", "dqkv"};
    const AttentionCase     *k = &attention_bwd_cases[variant];
    AttentionBwdArgs        *a = &c->args.attention_bwd;
    const int32_t           *host_mask[2];
    const int64_t            C  = k->H * k->D, row = C + (k->packed ? 0 : 2), rows = k->B * k->Tq;
    const Qkv                x  = qkv_of(c, TENSOR_IN, names, k, m->act, 0);
    const Qkv                dx = qkv_of(c, TENSOR_OUT, d_names, k, m->act, 2 * case_loose(m->act));
    *a           = (AttentionBwdArgs){.B = k->B, .H = k->H, .T = k->Tq, .D = k->D, .dtype = m->act};
    a->q         = x.q;
    a->k         = x.k;
    a->v         = x.v;
    a->dq        = dx.q;
    a->dk        = dx.k;
    a->dv        = dx.v;
    a->qkv_row   = x.row;
    a->qkv_batch = x.row * k->Tq;
    a->out_row   = row;
    a->out_batch = row * k->Tq;
    a->scale     = (float)(1 / sqrt((double)k->D));
    a->mask      = mask_of(c, k, host_mask);
    if (k->p > 0) a->drop = case_drop(c, k->p, k->B, RNG_DROP_ATTENTION);
    Tensor *out = case_tensor(c, TENSOR_IN, "out", m->act, rows, C, row, 1);
    Tensor *lse = case_tensor(c, TENSOR_IN, "lse", DTYPE_F32, k->B * k->H, k->Tq, k->Tq, 1);
    a->dout     = tensor_dev(case_tensor(c, TENSOR_IN, "dout", m->act, rows, C, row, 1));
    a->out      = tensor_dev(out);
    a->lse      = tensor_dev(lse);
    forward_on_host(a, &x, host_mask, tensor_host(out), tensor_host(lse), c);
}
