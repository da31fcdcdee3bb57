// op_cases.c -- the cases of the op matrix: for each op a table of shapes and a builder.
//
// Shapes include 1, primes, tile sizes and their neighbours, and 0. Odd variants lie one element
// off alignment (op_harness.h). Everything is small: the reference is slow on purpose.
//
// SPDX-License-Identifier: MIT
#include "kernels/ref/ref.h"
#include "tests/kernels/op_cases.h"
#include "tests/kernels/op_cases_lamb.h"
#include "tests/kernels/op_cases_step.h"

#include <math.h>
#include <string.h>

static const Mix mixes[] = {
    {"f32", DTYPE_F32, DTYPE_F32, DTYPE_F32},
    {"bf16", DTYPE_BF16, DTYPE_BF16, DTYPE_F32}, // residual stream in f32
    {"bf16r", DTYPE_BF16, DTYPE_BF16, DTYPE_BF16},
    {"f16", DTYPE_F16, DTYPE_F16, DTYPE_F32},
};

const Mix *case_mix(int i) { return i < (int)LT_COUNT(mixes) ? &mixes[i] : NULL; }

double case_loose(DType t)
{
    return t == DTYPE_F32 ? 0 : t == DTYPE_BF16 ? 0x1p-7 : 0x1p-10;
}

DropoutSpec case_drop(Case *c, double p, int64_t B, RngSite site)
{
    DropoutSpec d = {
        .p = (float)p, .seed = 0x123456789abcdefull + c->seed, .layer = 3, .site = site};
    Tensor  *t = case_tensor(c, TENSOR_OUT, "sample", DTYPE_I64, 1, B, B, 0);
    t->role    = TENSOR_IN;
    int64_t *x = tensor_host(t);
    for (int64_t b = 0; b < B; b++) x[b] = 17 + b * 3 + (b % 2 ? (int64_t)5 << 32 : 0);
    d.sample = tensor_dev(t);
    return d;
}

void case_nan(Tensor *t, int variant, int64_t row, int64_t col)
{
    if (variant % 2 == 0 || row >= t->rows || col >= t->cols) return;
    dtype_store(tensor_host(t), t->dtype, row * t->ld + col, NAN);
}

// ---- embedding --------------------------------------------------------------------------------

typedef struct EmbeddingCase {
    int64_t N, T, C, V;
    int     tables;    // 1: tokens, 2: and positions, 3: and types; backward also 0: positions only
    int     given;     // positions and types are given as arrays
    int64_t position0; // forward
} EmbeddingCase;

static const EmbeddingCase embedding_fwd_cases[] = {
    {1, 1, 1, 1, 1, 0, 0},   {12, 4, 16, 11, 2, 0, 0},  {15, 5, 33, 7, 3, 0, 0},
    {14, 7, 128, 50, 3, 1, 0}, {0, 4, 8, 5, 2, 0, 0},    {64, 64, 65, 257, 2, 0, 0},
    {3, 3, 31, 5, 2, 0, 9},  {128, 32, 768, 997, 2, 0, 0},
};
static const EmbeddingCase embedding_bwd_cases[] = {
    {1, 1, 1, 1, 1, 0, 0},   {12, 4, 16, 11, 2, 0, 0},  {15, 5, 33, 7, 3, 0, 0},
    {140, 7, 128, 3, 3, 1, 0}, {0, 4, 8, 5, 2, 0, 0},    {256, 64, 65, 257, 2, 0, 0},
    {300, 50, 127, 2, 3, 1, 0},  {512, 32, 768, 13, 2, 0, 0}, {30, 6, 40, 5, 0, 0, 0},
    {200, 50, 24, 3001, 3, 1, 0},
};

static void build_embedding_fwd(Case *c, int variant, const Mix *m)
{
    const EmbeddingCase e = embedding_fwd_cases[variant];
    const int64_t       P = e.position0 + e.T + 2, S = 2;
    EmbeddingFwdArgs   *a = &c->args.embedding_fwd;
    *a = (EmbeddingFwdArgs){.N = e.N, .T = e.T, .C = e.C, .V = e.V, .P = P, .S = S};
    a->position0 = e.position0;
    a->w_dtype   = m->weight;
    a->out_dtype = m->resid;
    Tensor *out  = case_tensor(c, TENSOR_OUT, "out", m->resid, e.N, e.C, e.C, 1);
    out->exact   = true;
    a->out       = tensor_dev(out);
    a->wte       = tensor_dev(case_tensor(c, TENSOR_IN, "wte", m->weight, e.V, e.C, e.C, 1));
    a->token     = tensor_dev(case_ints(c, "token", e.N, e.V));
    if (e.tables > 1)
        a->wpe = tensor_dev(case_tensor(c, TENSOR_IN, "wpe", m->weight, P, e.C, e.C, 1));
    if (e.tables > 2)
        a->wtt = tensor_dev(case_tensor(c, TENSOR_IN, "wtt", m->weight, S, e.C, e.C, 1));
    if (e.given) a->position = tensor_dev(case_ints(c, "position", e.N, P));
    if (e.given) a->type = tensor_dev(case_ints(c, "type", e.N, S));
}

static void build_embedding_bwd(Case *c, int variant, const Mix *m)
{
    const EmbeddingCase e = embedding_bwd_cases[variant];
    const int64_t       P = e.T + 2, S = 2;
    EmbeddingBwdArgs   *a = &c->args.embedding_bwd;
    *a = (EmbeddingBwdArgs){.N = e.N, .T = e.T, .C = e.C, .V = e.V, .P = P, .S = S};
    a->dout_dtype = m->resid;
    a->dout       = tensor_dev(case_tensor(c, TENSOR_IN, "dout", m->resid, e.N, e.C, e.C, 1));
    Tensor *t; // exact: the contract fixes the order of the sums
    if (e.tables > 0) {
        a->token = tensor_dev(case_ints(c, "token", e.N, e.V));
        t        = case_tensor(c, TENSOR_INOUT, "dwte", DTYPE_F32, e.V, e.C, e.C, 1);
        t->exact = true;
        a->dwte  = tensor_dev(t);
    }
    if (e.tables != 1) {
        t        = case_tensor(c, TENSOR_INOUT, "dwpe", DTYPE_F32, P, e.C, e.C, 1);
        t->exact = true;
        a->dwpe  = tensor_dev(t);
    }
    if (e.tables > 2) {
        t        = case_tensor(c, TENSOR_INOUT, "dwtt", DTYPE_F32, S, e.C, e.C, 1);
        t->exact = true;
        a->dwtt  = tensor_dev(t);
    }
    if (e.given) a->position = tensor_dev(case_ints(c, "position", e.N, P));
    if (e.given) a->type = tensor_dev(case_ints(c, "type", e.N, S));
}

// ---- chosen rows ------------------------------------------------------------------------------

static const struct {
    int64_t n, N, C;
} gather_rows_cases[] = {{1, 1, 1},    {5, 3, 7},       {0, 4, 8},   {8, 64, 64},  {33, 20, 65},
                         {9, 17, 768}, {300, 400, 33}, {7, 7, 128}, {70, 200, 257}, {3, 0, 8}};
#define scatter_rows_cases gather_rows_cases

// Rows of a table of N, every third one absent; distinct: no row twice.
static const int32_t *rows_of_case(Case *c, int64_t n, int64_t N, bool distinct)
{
    Tensor  *t   = case_ints(c, "row", n, LT_MAX(N, 1));
    int32_t *row = tensor_host(t);
    for (int64_t i = 0; i < n; i++) {
        if (distinct) row[i] = (int32_t)(i < N ? (N - 1 - i) : -1);
        if (i % 3 == 1 || N == 0) row[i] = -1;
    }
    return tensor_dev(t);
}

static void build_gather_rows(Case *c, int variant, const Mix *m)
{
    const int64_t n = gather_rows_cases[variant].n, N = gather_rows_cases[variant].N;
    const int64_t C = gather_rows_cases[variant].C;
    Tensor       *x = case_tensor(c, TENSOR_IN, "x", m->act, N, C, C, 1);
    Tensor       *out = case_tensor(c, TENSOR_OUT, "out", m->act, n, C, C, 1);
    case_nan(x, variant, N / 2, C / 2);
    out->exact = true;
    c->args.gather_rows = (GatherRowsArgs){.out   = tensor_dev(out),
                                           .x     = tensor_dev(x),
                                           .row   = rows_of_case(c, n, N, false),
                                           .n     = n,
                                           .N     = N,
                                           .C     = C,
                                           .dtype = m->act};
}

static void build_scatter_rows(Case *c, int variant, const Mix *m)
{
    const int64_t n = gather_rows_cases[variant].n, N = gather_rows_cases[variant].N;
    const int64_t C = gather_rows_cases[variant].C;
    Tensor       *x = case_tensor(c, TENSOR_IN, "x", m->act, n, C, C, 1);
    Tensor       *out = case_tensor(c, TENSOR_INOUT, "out", m->act, N, C, C, 1);
    case_nan(x, variant, n / 2, C / 2);
    out->exact = variant % 2 == 0; // one sum an element; but NaNs differ in their bits
    c->args.scatter_rows = (ScatterRowsArgs){.out   = tensor_dev(out),
                                             .x     = tensor_dev(x),
                                             .row   = rows_of_case(c, n, N, true),
                                             .n     = n,
                                             .N     = N,
                                             .C     = C,
                                             .dtype = m->act};
}

// ---- act_bwd ----------------------------------------------------------------------------------

static const struct {
    int64_t    n;
    Activation act;
    int        in_place; // 1: dh is dy, 2: dh is h
} act_bwd_cases[] = {
    {1, ACT_GELU_ERF, 0},    {0, ACT_GELU_TANH, 0},    {67, ACT_TANH, 0},
    {4099, ACT_GELU_ERF, 1}, {1000, ACT_GELU_TANH, 2}, {33000, ACT_RELU, 0},
    {257, ACT_GELU_ERF, 0},  {64, ACT_TANH, 1},
};

static void build_act_bwd(Case *c, int variant, const Mix *m)
{
    const int64_t n = act_bwd_cases[variant].n;
    const int     in_place = act_bwd_cases[variant].in_place;
    Tensor *dy = case_tensor(c, in_place == 1 ? TENSOR_INOUT : TENSOR_IN, "dy", m->act, 1, n, n, 1);
    Tensor *h = case_tensor(c, in_place == 2 ? TENSOR_INOUT : TENSOR_IN, "h", m->act, 1, n, n, 2);
    if (in_place != 1) case_nan(dy, variant, 0, n / 2);
    c->args.act_bwd = (ActBwdArgs){.dy    = tensor_dev(dy),
                                   .h     = tensor_dev(h),
                                   .n     = n,
                                   .act   = act_bwd_cases[variant].act,
                                   .dtype = m->act};
    Tensor *dh = in_place == 1 ? dy : h;
    if (!in_place) dh = case_tensor(c, TENSOR_OUT, "dh", m->act, 1, n, n, 1);
    c->args.act_bwd.dh = tensor_dev(dh);
    if (n == 1) dh->floor = 1e-4; // alone it may be near 0: what is left of numbers near dy / 2
}

// ---- dropout ----------------------------------------------------------------------------------

static const struct {
    int64_t B, T, C, row0;
    double  p;
    bool    in_place;
} dropout_cases[] = {
    {1, 1, 1, 0, 0.5, false},     {2, 3, 64, 0, 0.1, false},  {3, 5, 67, 0, 0.5, true},
    {2, 1, 129, 7, 0.9, false},   {2, 2, 31, 0, 0, false},    {0, 3, 8, 0, 0.1, false},
    {1, 300, 5, 0, 0.25, false},  {2, 64, 768, 0, 0.1, true}, {4, 7, 3, 1, 0.999, false},
    {2, 2, 40, 0, 0, true},
};

static void build_dropout(Case *c, int variant, const Mix *m)
{
    const int64_t B = dropout_cases[variant].B, T = dropout_cases[variant].T;
    const int64_t C = dropout_cases[variant].C;
    DropoutArgs  *a = &c->args.dropout;
    *a              = (DropoutArgs){.B = B, .T = T, .C = C, .dtype = m->act};
    a->row0         = dropout_cases[variant].row0;
    a->drop         = case_drop(c, dropout_cases[variant].p, B, RNG_DROP_EMBED);
    if (dropout_cases[variant].in_place) {
        a->y = tensor_dev(case_tensor(c, TENSOR_INOUT, "y", m->act, B * T, C, C, 1));
        a->x = a->y;
        return;
    }
    a->y      = tensor_dev(case_tensor(c, TENSOR_OUT, "y", m->act, B * T, C, C, 1));
    Tensor *x = case_tensor(c, TENSOR_IN, "x", m->act, B * T, C, C, 1);
    case_nan(x, variant, B * T / 2, C / 2);
    a->x = tensor_dev(x);
}

// ---- layernorm --------------------------------------------------------------------------------

typedef struct LayernormCase {
    int64_t N, T, C;
    int     resid;  // forward: 0 x only, 1 resid_out, 2 resid_out and add;
                    // backward: 0 dresid only, 1 and dresid_in, 2 and dadd
    double  p;      // dropout on add
    int     bias;
    int     extras; // forward: mean and rstd wanted; backward: accumulate
    double  offset; // added to every x: statistics must not cancel
} LayernormCase;

static const LayernormCase layernorm_cases[] = {
    {1, 1, 1, 0, 0, 1, 1, 0},     {3, 1, 2, 2, 0, 1, 1, 0},      {5, 5, 31, 2, 0.1, 1, 1, 0},
    {6, 3, 64, 2, 0.5, 0, 1, 0},  {4, 2, 65, 1, 0, 1, 0, 0},     {0, 4, 16, 2, 0.1, 1, 1, 0},
    {7, 7, 768, 2, 0.1, 1, 1, 0}, {2, 1, 1601, 2, 0, 1, 1, 100}, {130, 13, 127, 2, 0, 1, 0, 0},
    {9, 3, 128, 0, 0, 0, 1, 30},  {600, 60, 48, 2, 0.1, 1, 1, 0},
    {2, 1, 16403, 2, 0, 1, 1, 30}, {1, 1, 16640, 2, 0.1, 1, 1, 100},
    {33, 11, 40, 2, 0.1, 1, 1, 0}, {17, 17, 129, 0, 0, 1, 1, 0},  {64, 8, 64, 1, 0, 1, 0, 0},
    {130, 13, 96, 2, 0, 1, 1, 0},
};
enum { LAYERNORM_PLAIN = 13 }; // the forward cases before this one write no FP8

static void add_offset(Tensor *t, double offset)
{
    for (int64_t i = 0; i < t->rows * t->cols && offset != 0; i++) {
        const double x = (double)dtype_load(tensor_host(t), t->dtype, i);
        dtype_store(tensor_host(t), t->dtype, i, (float)(x + offset));
    }
}

static void build_layernorm_fwd(Case *c, int variant, const Mix *m)
{
    const LayernormCase l  = layernorm_cases[variant];
    const DType         wt = variant % 3 ? m->weight : DTYPE_F32;
    LayernormFwdArgs   *a  = &c->args.layernorm_fwd;
    *a                     = (LayernormFwdArgs){.N = l.N, .T = l.T, .C = l.C, .eps = 1e-5f};
    a->x_dtype             = m->resid;
    a->add_dtype           = m->act;
    a->out_dtype           = m->act;
    a->w_dtype             = wt;
    // Where the rounded residual flips, everything behind it follows.
    const double slack = l.resid == 2 ? case_loose(m->resid) * (1 + l.offset) : 0;
    Tensor      *x     = case_tensor(c, TENSOR_IN, "x", m->resid, l.N, l.C, l.C, 1);
    add_offset(x, l.offset);
    case_nan(x, variant, l.N / 2, l.C / 2);
    a->x        = tensor_dev(x);
    if (variant >= LAYERNORM_PLAIN)
        case_layernorm_fp8(c, a, variant - LAYERNORM_PLAIN, slack);
    if (variant <= LAYERNORM_PLAIN) {
        Tensor *out = case_tensor(c, TENSOR_OUT, "out", m->act, l.N, l.C, l.C, 1);
        out->floor  = slack;
        a->out      = tensor_dev(out);
    }
    a->weight   = tensor_dev(case_tensor(c, TENSOR_IN, "weight", wt, 1, l.C, l.C, 1));
    if (l.bias) a->bias = tensor_dev(case_tensor(c, TENSOR_IN, "bias", wt, 1, l.C, l.C, 1));
    if (l.resid && variant % 4 == 2) { // in place
        x->role      = TENSOR_INOUT;
        a->resid_out = tensor_dev(x);
    } else if (l.resid)
        a->resid_out =
            tensor_dev(case_tensor(c, TENSOR_OUT, "resid_out", m->resid, l.N, l.C, l.C, 1));
    if (l.resid == 2) {
        a->add  = tensor_dev(case_tensor(c, TENSOR_IN, "add", m->act, l.N, l.C, l.C, 1));
        a->drop = case_drop(c, l.p, l.N / l.T, RNG_DROP_PROJ);
    }
    if (!l.extras) return;
    Tensor *mean = case_tensor(c, TENSOR_OUT, "mean", DTYPE_F32, 1, l.N, l.N, 1);
    Tensor *rstd = case_tensor(c, TENSOR_OUT, "rstd", DTYPE_F32, 1, l.N, l.N, 1);
    mean->floor = rstd->floor = slack;
    a->mean                   = tensor_dev(mean);
    a->rstd                   = tensor_dev(rstd);
}

static void build_layernorm_bwd(Case *c, int variant, const Mix *m)
{
    const LayernormCase l  = layernorm_cases[variant];
    const DType         wt = variant % 3 ? m->weight : DTYPE_F32;
    LayernormBwdArgs   *a  = &c->args.layernorm_bwd;
    *a              = (LayernormBwdArgs){.N = l.N, .T = l.T, .C = l.C, .accumulate = l.extras};
    a->dresid_dtype = m->resid;
    a->x_dtype      = m->resid;
    a->dadd_dtype   = m->act;
    a->dy_dtype     = m->act;
    a->w_dtype      = wt;
    Tensor *x       = case_tensor(c, TENSOR_IN, "x", m->resid, l.N, l.C, l.C, 1);
    add_offset(x, l.offset);
    a->x         = tensor_dev(x);
    a->dy        = tensor_dev(case_tensor(c, TENSOR_IN, "dy", m->act, l.N, l.C, l.C, 1));
    a->weight    = tensor_dev(case_tensor(c, TENSOR_IN, "weight", wt, 1, l.C, l.C, 1));
    Tensor *mean = case_tensor(c, TENSOR_IN, "mean", DTYPE_F32, 1, l.N, l.N, 0.1);
    Tensor *rstd = case_tensor(c, TENSOR_IN, "rstd", DTYPE_F32, 1, l.N, l.N, 0.1);
    add_offset(mean, l.offset);
    add_offset(rstd, 1);
    a->mean    = tensor_dev(mean);
    a->rstd    = tensor_dev(rstd);
    case_nan(x, variant, l.N / 2, l.C / 2);
    a->dweight = tensor_dev(
        case_tensor(c, l.extras ? TENSOR_INOUT : TENSOR_OUT, "dweight", DTYPE_F32, 1, l.C, l.C, 1));
    if (l.bias)
        a->dbias = tensor_dev(case_tensor(c, l.extras ? TENSOR_INOUT : TENSOR_OUT, "dbias",
                                          DTYPE_F32, 1, l.C, l.C, 1));
    const bool    in_place = l.resid >= 1 && variant % 4 == 2;
    const int64_t N = l.N, C = l.C;
    a->dresid = tensor_dev(case_tensor(c, in_place ? TENSOR_INOUT : TENSOR_OUT, "dresid", m->resid,
                                       N, C, C, 1));
    if (in_place)
        a->dresid_in = a->dresid;
    else if (l.resid >= 1)
        a->dresid_in = tensor_dev(case_tensor(c, TENSOR_IN, "dresid_in", m->resid, N, C, C, 1));
    if (l.resid < 2) return;
    a->dadd = tensor_dev(case_tensor(c, TENSOR_OUT, "dadd", m->act, l.N, l.C, l.C, 1));
    a->drop = case_drop(c, l.p, l.N / l.T, RNG_DROP_PROJ);
}

// ---- matmul -----------------------------------------------------------------------------------

enum { LD_PAD = 1, F32_C = 2, NO_BIAS = 4, NO_AUX = 8, ACCUMULATE = 16 };

static const struct {
    int64_t        M, N, K;
    int            ta, tb, flags;
    MatmulEpilogue epilogue;
    Activation     act;
} matmul_cases[] = {
    {1, 1, 1, 0, 0, 0, MATMUL_PLAIN, 0},
    {7, 13, 5, 0, 1, LD_PAD, MATMUL_PLAIN, 0},
    {64, 64, 64, 0, 1, 0, MATMUL_PLAIN, 0},
    {65, 63, 33, 0, 1, LD_PAD | NO_BIAS, MATMUL_PLAIN, 0},
    {31, 129, 257, 0, 0, NO_BIAS, MATMUL_PLAIN, 0},
    {33, 47, 130, 0, 0, LD_PAD | NO_BIAS | F32_C, MATMUL_PLAIN, 0},
    {96, 80, 61, 1, 0, NO_BIAS | F32_C | ACCUMULATE, MATMUL_PLAIN, 0},
    {17, 200, 64, 1, 0, LD_PAD | NO_BIAS | F32_C, MATMUL_PLAIN, 0},
    {19, 23, 29, 1, 1, LD_PAD, MATMUL_PLAIN, 0},
    {32, 48, 64, 1, 1, NO_BIAS | ACCUMULATE, MATMUL_PLAIN, 0},
    {3, 768, 40, 0, 1, 0, MATMUL_GELU, ACT_GELU_TANH},
    {66, 70, 34, 0, 1, LD_PAD, MATMUL_GELU, ACT_GELU_TANH},
    {40, 31, 64, 0, 1, NO_AUX, MATMUL_GELU, ACT_GELU_ERF},
    {16, 32, 16, 0, 1, NO_BIAS, MATMUL_GELU, ACT_RELU},
    {66, 70, 34, 0, 0, LD_PAD | NO_BIAS, MATMUL_DGELU, ACT_GELU_TANH},
    {32, 65, 17, 0, 0, NO_BIAS, MATMUL_DGELU, ACT_GELU_ERF},
    {9, 10, 11, 0, 0, NO_BIAS, MATMUL_DGELU, ACT_RELU},
    {40, 72, 64, 0, 1, 0, MATMUL_GELU, ACT_TANH},
    {40, 64, 72, 0, 0, NO_BIAS, MATMUL_DGELU, ACT_TANH},
    {2, 37, 64, 0, 1, NO_AUX, MATMUL_GELU, ACT_TANH},
    {3, 65, 33, 0, 0, LD_PAD | NO_BIAS, MATMUL_DGELU, ACT_TANH},
    {33, 65, 130, 0, 0, LD_PAD | NO_BIAS | ACCUMULATE, MATMUL_PLAIN, 0},
    {70, 72, 64, 0, 0, NO_BIAS | ACCUMULATE, MATMUL_PLAIN, 0}, // dx onto a gradient
    {40, 40, 40, 0, 1, NO_BIAS | ACCUMULATE, MATMUL_PLAIN, 0},
    {136, 264, 72, 0, 1, NO_BIAS | ACCUMULATE, MATMUL_PLAIN, 0},
    {5, 7, 0, 0, 1, 0, MATMUL_PLAIN, 0},
    {5, 7, 0, 0, 1, NO_BIAS | ACCUMULATE, MATMUL_PLAIN, 0},
    {0, 5, 3, 0, 1, 0, MATMUL_PLAIN, 0},
    {5, 0, 3, 0, 1, 0, MATMUL_PLAIN, 0},
    {1, 300, 700, 0, 1, LD_PAD, MATMUL_PLAIN, 0},
    {2, 50, 1100, 0, 0, NO_BIAS | ACCUMULATE, MATMUL_PLAIN, 0},
    {300, 1, 70, 0, 1, 0, MATMUL_PLAIN, 0},
    {1, 37, 129, 0, 1, NO_BIAS | ACCUMULATE, MATMUL_PLAIN, 0},
    {2, 33, 64, 0, 1, LD_PAD | NO_BIAS | F32_C | ACCUMULATE, MATMUL_PLAIN, 0},
    {4, 66, 31, 0, 1, NO_BIAS, MATMUL_DGELU, ACT_GELU_TANH},
    {4, 3, 0, 0, 1, 0, MATMUL_PLAIN, 0},
    {66, 72, 1600, 1, 0, NO_BIAS | F32_C | ACCUMULATE, MATMUL_PLAIN, 0}, // few tiles, long k
    {8, 300, 520, 0, 1, 0, MATMUL_PLAIN, 0},
    {6, 513, 260, 0, 1, LD_PAD, MATMUL_GELU, ACT_GELU_TANH},
};

static void build_matmul(Case *c, int variant, const Mix *m)
{
    const int64_t M = matmul_cases[variant].M, N = matmul_cases[variant].N;
    const int64_t K = matmul_cases[variant].K;
    const int     flags = matmul_cases[variant].flags, pad = flags & LD_PAD ? 5 : 0;
    const DType   ct    = flags & F32_C ? DTYPE_F32 : m->act;
    const bool    ta = matmul_cases[variant].ta, tb = matmul_cases[variant].tb;
    MatmulArgs   *a = &c->args.matmul;
    *a              = (MatmulArgs){.M = M, .N = N, .K = K, .trans_a = ta, .trans_b = tb};
    a->lda          = (ta ? M : K) + pad;
    a->ldb          = (tb ? K : N) + pad;
    a->ldc          = N + pad;
    a->accumulate   = (flags & ACCUMULATE) != 0;
    a->epilogue     = matmul_cases[variant].epilogue;
    a->act          = matmul_cases[variant].act;
    a->ab_dtype     = m->act;
    a->c_dtype      = ct;
    a->bias_dtype   = variant % 3 ? m->weight : DTYPE_F32;
    const double s  = 1.0 / sqrt((double)K + 1);
    a->A = tensor_dev(case_tensor(c, TENSOR_IN, "A", m->act, ta ? K : M, ta ? M : K, a->lda, 1));
    a->B = tensor_dev(case_tensor(c, TENSOR_IN, "B", m->act, tb ? N : K, tb ? K : N, a->ldb, s));
    if (!(flags & NO_BIAS))
        a->bias = tensor_dev(case_tensor(c, TENSOR_IN, "bias", a->bias_dtype, 1, N, N, 1));
    Tensor *C = case_tensor(c, a->accumulate ? TENSOR_INOUT : TENSOR_OUT, "C", ct, M, N, a->ldc, 1);
    if (a->epilogue == MATMUL_GELU) C->floor = case_loose(ct); // where aux flips, C follows
    a->C = tensor_dev(C);
    if (a->epilogue == MATMUL_PLAIN || flags & NO_AUX) return;
    const TensorRole role = a->epilogue == MATMUL_GELU ? TENSOR_OUT : TENSOR_IN;
    a->aux                = tensor_dev(case_tensor(c, role, "aux", ct, M, N, a->ldc, 2));
}

// ---- bias_bwd ---------------------------------------------------------------------------------

static const struct {
    int64_t N, C;
    bool    accumulate;
} bias_bwd_cases[] = {{1, 1, false},   {5, 7, true},    {64, 64, false},
                      {65, 129, true}, {0, 9, false},   {0, 9, true},
                      {300, 31, false}, {1025, 3, true}, {40, 768, false}};

static void build_bias_bwd(Case *c, int variant, const Mix *m)
{
    const int64_t N = bias_bwd_cases[variant].N, C = bias_bwd_cases[variant].C;
    const bool    acc = bias_bwd_cases[variant].accumulate;
    BiasBwdArgs  *a   = &c->args.bias_bwd;
    *a                = (BiasBwdArgs){.N = N, .C = C, .accumulate = acc, .dtype = m->act};
    const TensorRole role = acc ? TENSOR_INOUT : TENSOR_OUT;
    a->db                 = tensor_dev(case_tensor(c, role, "db", DTYPE_F32, 1, C, C, 1));
    a->dy = tensor_dev(case_tensor(c, TENSOR_IN, "dy", m->act, N, C, C, 1));
}

// ---- cross entropy ----------------------------------------------------------------------------

static const struct {
    int64_t N, V, Vp;
    bool    grad;
    double  scale;  // of the logits
    int     ignore; // every k-th row, 0: none
} cross_entropy_cases[] = {
    {1, 1, 1, true, 1, 0},     {3, 65, 72, true, 3, 2},      {8, 7, 8, true, 1, 3},
    {5, 64, 64, false, 2, 0},  {0, 10, 16, true, 1, 0},      {17, 257, 320, true, 20, 4},
    {4, 1000, 1001, true, 1, 0}, {2, 5003, 5056, true, 5, 0}, {6, 31, 40, false, 50, 1},
    {5, 1500, 1504, true, 1, 2}, {40, 300, 304, false, 9, 5},
    {21, 65, 67, true, 3, 4},  {14, 5003, 5056, true, 1, 0}, {7, 1, 1, false, 1, 3},
    {15, 8, 8, true, 1, 0},
};
enum { CROSS_ENTROPY_HIT = 10 }; // the cases before this one ask for no hit

// The target of a row is, in turn: as it was; the largest; beside one as large in front of it, or
// behind it; the largest but for a NaN, or an infinity; the largest and infinite. x may have ties.
static void make_some_hits(const CrossEntropyArgs *a, Tensor *x, const int32_t *target)
{
    for (int64_t n = 0; n < a->N; n++) {
        const int64_t t = target[n], row = n * a->Vp, kind = n % 7;
        if (t < 0 || kind == 0) continue;
        const int64_t other = kind == 2 ? t / 2 : kind == 3 ? (t + a->V) / 2 : (t + 1) % a->V;
        static const float others[] = {0, 1, 200, 200, NAN, INFINITY, 1};
        if (other != t) dtype_store(tensor_host(x), a->dtype, row + other, others[kind]);
        dtype_store(tensor_host(x), a->dtype, row + t, kind == 6 ? INFINITY : 200);
    }
}

static void build_cross_entropy(Case *c, int variant, const Mix *m)
{
    const int64_t     N = cross_entropy_cases[variant].N, V = cross_entropy_cases[variant].V;
    const int64_t     Vp   = cross_entropy_cases[variant].Vp;
    const int         skip = cross_entropy_cases[variant].ignore;
    CrossEntropyArgs *a    = &c->args.cross_entropy;
    *a                     = (CrossEntropyArgs){.N = N, .V = V, .Vp = Vp, .dtype = m->act};
    a->want_grad           = cross_entropy_cases[variant].grad;
    a->grad_scale          = 0.37f;
    if (variant % 3 == 1) { // of a loss scale
        Tensor *s = case_tensor(c, TENSOR_IN, "scale", DTYPE_F32, 1, 1, 1, 1);
        *(float *)tensor_host(s) = 24;
        a->scale = tensor_dev(s);
    }
    Tensor *x = case_tensor(c, a->want_grad ? TENSOR_INOUT : TENSOR_IN, "logits", m->act, N, Vp, Vp,
                            cross_entropy_cases[variant].scale);
    case_nan(x, variant, N / 2, V / 2);
    for (int64_t n = 0; n < N; n++) // the padding holds NaN
        for (int64_t v = V; v < Vp; v++) dtype_store(tensor_host(x), m->act, n * Vp + v, NAN);
    Tensor  *target = case_ints(c, "target", N, V);
    int32_t *t      = tensor_host(target);
    for (int64_t n = 0; n < N && skip; n++)
        if (n % skip == 0) t[n] = TOKEN_IGNORE;
    a->loss   = tensor_dev(case_tensor(c, TENSOR_OUT, "loss", DTYPE_F32, 1, N, N, 1));
    if (variant >= CROSS_ENTROPY_HIT) {
        make_some_hits(a, x, t);
        a->hit = tensor_dev(case_tensor(c, TENSOR_OUT, "hit", DTYPE_F32, 1, N, N, 1));
    }
    a->logits = tensor_dev(x);
    a->target = tensor_dev(target);
}

// ---- flat vectors -----------------------------------------------------------------------------

static const struct {
    int64_t n;
    bool    accumulate;
} sum_squares_cases[] = {{0, false}, {0, true}, {1, false}, {63, true}, {64, false}, {65, false},
                         {4099, true}, {70001, false}};

static void build_sum_squares(Case *c, int variant, const Mix *m)
{
    const int64_t   n = sum_squares_cases[variant].n;
    SumSquaresArgs *a = &c->args.sum_squares;
    *a            = (SumSquaresArgs){.n = n, .dtype = m->act};
    a->accumulate = sum_squares_cases[variant].accumulate;
    a->x        = tensor_dev(case_tensor(c, TENSOR_IN, "x", m->act, 1, n, n, 1));
    Tensor *out = case_tensor(c, TENSOR_OUT, "out", DTYPE_I64, 1, 1, 1, 1);
    out->f64    = true;
    out->floor  = 1e-12; // f32 and narrower are exact in double
    if (a->accumulate) {
        const double start = 0.5;
        memcpy(tensor_host(out), &start, sizeof start);
    }
    a->out = tensor_dev(out);
}

static const struct {
    int64_t n;
    DType   to;
} cast_cases[] = {{0, DTYPE_F32},   {1, DTYPE_BF16},  {65, DTYPE_F32},  {63, DTYPE_BF16},
                  {64, DTYPE_F16},  {5003, DTYPE_F32}, {5003, DTYPE_BF16}, {777, DTYPE_F16}};

static void build_cast(Case *c, int variant, const Mix *m)
{
    const int64_t n = cast_cases[variant].n;
    CastArgs     *a = &c->args.cast;
    *a              = (CastArgs){.n = n, .dst_dtype = cast_cases[variant].to, .src_dtype = m->act};
    Tensor *src     = case_tensor(c, TENSOR_IN, "src", m->act, 1, n, n, 3);
    static const float edges[] = {0.0f,      -0.0f,     INFINITY,  -INFINITY, NAN,        65504,
                                  65520,     1e30f,     1e-30f,    0x1p-24f,  0x1p-25f,   -7,
                                  0x1.8p-25f, 0x1p-149f, 0x1.01p0f, 0x1.03p0f};
    for (int64_t i = 0; i < n && i < (int64_t)LT_COUNT(edges); i++)
        dtype_store(tensor_host(src), m->act, i, edges[i]);
    Tensor *dst = case_tensor(c, TENSOR_OUT, "dst", a->dst_dtype, 1, n, n, 1);
    dst->exact  = true;
    a->src      = tensor_dev(src);
    a->dst      = tensor_dev(dst);
}

#define layernorm_fwd_cases layernorm_cases
#define layernorm_bwd_cases layernorm_cases

const CaseTable *case_table(OpId op)
{
    static const CaseTable tables[OP_COUNT] = {
#define OP(name, Args, summary) [OP_##name] = {(int)LT_COUNT(name##_cases), build_##name},
#include "kernels/ops.def"
#undef OP
    };
    return &tables[op];
}
