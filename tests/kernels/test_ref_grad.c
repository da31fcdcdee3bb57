// test_ref_grad.c -- backward references against finite differences of the forward references.
//
// A loss is <r, output> in double with random r; each input element is moved by +-h and +-2h and
// (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h is its slope to O(h^4). Outputs are f32, which leaves
// about 1e-6 of noise: tolerance 2e-4 against gradients of order 1.
//
// SPDX-License-Identifier: MIT
#include "engine/base/rng.h"
#include "kernels/ref/ref.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

typedef double (*Loss)(void *ctx);

static void check(const char *what, float *x, const float *dx, int n, Loss loss, void *ctx)
{
    double largest = 0;
    for (int i = 0; i < n; i++) {
        static const double move[4] = {1, -1, 2, -2};
        const float         keep    = x[i];
        double              f[4];
        for (int k = 0; k < 4; k++) {
            x[i] = keep + (float)(move[k] / 64);
            f[k] = loss(ctx);
        }
        x[i]              = keep;
        const double want = (8 * (f[0] - f[1]) - (f[2] - f[3])) * 64 / 12;
        largest           = fmax(largest, fabs(want));
        if (fabs((double)dx[i] - want) <= 2e-4 * fmax(1, fabs(want))) continue;
        fail_msg("%s[%d]: got %.7g, finite difference %.7g", what, i, (double)dx[i], want);
    }
    assert_true(largest > 1e-3); // a gradient of nothing would prove nothing
}

static double inner(const float *a, const float *b, int n)
{
    double s = 0;
    for (int i = 0; i < n; i++) s += (double)a[i] * (double)b[i];
    return s;
}

static void fill(float *x, int n, uint32_t tensor, double scale)
{
    rng_fill_normal(x, n, 42, tensor, scale);
}

#define MUST(call) assert_int_equal((call), ERR_NONE)

// ---- embedding --------------------------------------------------------------------------------

enum { EN = 6, ET = 3, EC = 5, EV = 4, ES = 2 };

typedef struct Embedding {
    float            wte[EV * EC], wpe[ET * EC], wtt[ES * EC], out[EN * EC], r[EN * EC];
    EmbeddingFwdArgs a;
} Embedding;

static double embedding_loss(void *ctx)
{
    Embedding *e = ctx;
    MUST(embedding_fwd_ref(&e->a, NULL, NULL));
    return inner(e->r, e->out, EN * EC);
}

static void embedding_bwd_is_the_slope(void **state)
{
    (void)state;
    static const int32_t token[EN] = {0, 3, 3, 1, 0, 3}, type[EN] = {0, 1, 0, 1, 1, 0};
    Embedding            e;
    fill(e.wte, EV * EC, 1, 1);
    fill(e.wpe, ET * EC, 2, 1);
    fill(e.wtt, ES * EC, 3, 1);
    fill(e.r, EN * EC, 4, 1);
    e.a       = (EmbeddingFwdArgs){.out = e.out, .wte = e.wte, .wpe = e.wpe, .wtt = e.wtt};
    e.a.token = token;
    e.a.type  = type;
    e.a.N     = EN;
    e.a.T     = ET;
    e.a.C     = EC;
    e.a.V     = EV;
    e.a.P     = ET;
    e.a.S     = ES;
    float            dwte[EV * EC] = {0}, dwpe[ET * EC] = {0}, dwtt[ES * EC] = {0};
    EmbeddingBwdArgs b = {.dwte = dwte, .dwpe = dwpe, .dwtt = dwtt, .dout = e.r};
    b.token            = token;
    b.type             = type;
    b.N                = EN;
    b.T                = ET;
    b.C                = EC;
    b.V                = EV;
    b.P                = ET;
    b.S                = ES;
    MUST(embedding_bwd_ref(&b, NULL, NULL));
    check("dwte", e.wte, dwte, EV * EC, embedding_loss, &e);
    check("dwpe", e.wpe, dwpe, ET * EC, embedding_loss, &e);
    check("dwtt", e.wtt, dwtt, ES * EC, embedding_loss, &e);
}

// ---- layernorm --------------------------------------------------------------------------------

enum { LN = 4, LNT = 2, LC = 7 };

typedef struct Norm {
    float x[LN * LC], add[LN * LC], weight[LC], bias[LC], out[LN * LC], resid[LN * LC];
    float mean[LN], rstd[LN], r_out[LN * LC], r_resid[LN * LC];
    LayernormFwdArgs a;
} Norm;

static double norm_loss(void *ctx)
{
    Norm *s = ctx;
    MUST(layernorm_fwd_ref(&s->a, NULL, NULL));
    return inner(s->r_out, s->out, LN * LC) + inner(s->r_resid, s->resid, LN * LC);
}

static void layernorm_bwd_is_the_slope_with_residual_and_dropout(void **state)
{
    (void)state;
    static const int64_t sample[LN / LNT] = {12, 7};
    static const float   rates[]          = {0, 0.4f};
    for (int i = 0; i < (int)LT_COUNT(rates); i++) {
        Norm s;
        fill(s.x, LN * LC, 1, 1);
        fill(s.add, LN * LC, 2, 1);
        fill(s.weight, LC, 3, 1);
        fill(s.bias, LC, 4, 1);
        fill(s.r_out, LN * LC, 5, 1);
        fill(s.r_resid, LN * LC, 6, 1);
        s.a =
            (LayernormFwdArgs){.out = s.out, .resid_out = s.resid, .mean = s.mean, .rstd = s.rstd};
        s.a.x      = s.x;
        s.a.add    = s.add;
        s.a.weight = s.weight;
        s.a.bias   = s.bias;
        s.a.N      = LN;
        s.a.T      = LNT;
        s.a.C      = LC;
        s.a.eps    = 1e-5f;
        s.a.drop   = (DropoutSpec){
              .p = rates[i], .seed = 5, .sample = sample, .layer = 1, .site = RNG_DROP_MLP};
        (void)norm_loss(&s);
        float dx[LN * LC], dadd[LN * LC], dweight[LC], dbias[LC];
        memcpy(dx, s.r_resid, sizeof dx); // dresid_in may be dresid
        LayernormBwdArgs b = {.dresid = dx, .dadd = dadd, .dweight = dweight, .dbias = dbias};
        b.dresid_in        = dx;
        b.dy               = s.r_out;
        b.x                = s.resid;
        b.mean             = s.mean;
        b.rstd             = s.rstd;
        b.weight           = s.weight;
        b.N                = LN;
        b.T                = LNT;
        b.C                = LC;
        b.drop             = s.a.drop;
        MUST(layernorm_bwd_ref(&b, NULL, NULL));
        check("dx", s.x, dx, LN * LC, norm_loss, &s);
        check("dadd", s.add, dadd, LN * LC, norm_loss, &s);
        check("dweight", s.weight, dweight, LC, norm_loss, &s);
        check("dbias", s.bias, dbias, LC, norm_loss, &s);
    }
}

// ---- an MLP of two products -------------------------------------------------------------------

enum { MR = 3, MI = 4, MF = 6, MO = 5 }; // rows, in, feed-forward, out

typedef struct Mlp {
    float      x[MR * MI], w1[MF * MI], b1[MF], w2[MO * MF], h[MR * MF], aux[MR * MF], y[MR * MO];
    float      r[MR * MO];
    Activation act;
} Mlp;

static MatmulArgs product(void *C, const void *A, const void *B, int64_t M, int64_t N, int64_t K,
                          bool ta, bool tb)
{
    MatmulArgs a = {.C = C, .A = A, .B = B, .M = M, .N = N, .K = K, .trans_a = ta, .trans_b = tb};
    a.lda        = ta ? M : K;
    a.ldb        = tb ? K : N;
    a.ldc        = N;
    return a;
}

static double mlp_loss(void *ctx)
{
    Mlp       *m = ctx;
    MatmulArgs a = product(m->h, m->x, m->w1, MR, MF, MI, false, true);
    a.bias       = m->b1;
    a.aux        = m->aux;
    a.epilogue   = MATMUL_GELU;
    a.act        = m->act;
    MUST(matmul_ref(&a, NULL, NULL));
    a = product(m->y, m->h, m->w2, MR, MO, MF, false, true);
    MUST(matmul_ref(&a, NULL, NULL));
    return inner(m->r, m->y, MR * MO);
}

static void matmul_epilogues_give_the_slopes_of_an_mlp(void **state)
{
    (void)state;
    static const Activation acts[] = {ACT_GELU_TANH, ACT_GELU_ERF, ACT_TANH};
    for (int i = 0; i < (int)LT_COUNT(acts); i++) {
        Mlp m;
        m.act = acts[i];
        fill(m.x, MR * MI, 1, 1);
        fill(m.w1, MF * MI, 2, 0.7);
        fill(m.b1, MF, 3, 0.5);
        fill(m.w2, MO * MF, 4, 0.7);
        fill(m.r, MR * MO, 5, 1);
        (void)mlp_loss(&m);
        float      dpre[MR * MF], dx[MR * MI], dw1[MF * MI], db1[MF], dw2[MO * MF] = {0};
        MatmulArgs a = product(dpre, m.r, m.w2, MR, MF, MO, false, false);
        a.epilogue   = MATMUL_DGELU;
        a.act        = m.act;
        a.aux        = m.aux;
        MUST(matmul_ref(&a, NULL, NULL));
        a = product(dx, dpre, m.w1, MR, MI, MF, false, false);
        MUST(matmul_ref(&a, NULL, NULL));
        a = product(dw1, dpre, m.x, MF, MI, MR, true, false);
        MUST(matmul_ref(&a, NULL, NULL));
        a            = product(dw2, m.r, m.h, MO, MF, MR, true, false);
        a.accumulate = true;
        MUST(matmul_ref(&a, NULL, NULL));
        const BiasBwdArgs b = {.db = db1, .dy = dpre, .N = MR, .C = MF};
        MUST(bias_bwd_ref(&b, NULL, NULL));
        check("dx", m.x, dx, MR * MI, mlp_loss, &m);
        check("dw1", m.w1, dw1, MF * MI, mlp_loss, &m);
        check("db1", m.b1, db1, MF, mlp_loss, &m);
        check("dw2", m.w2, dw2, MO * MF, mlp_loss, &m);
    }
}

// ---- attention --------------------------------------------------------------------------------

enum { AB = 2, AH = 2, AT = 5, AD = 3, AC = AH * AD, ANQ = AB * AT * 3 * AC, ANO = AB * AT * AC };

typedef struct Attention {
    float            qkv[ANQ], out[ANO], lse[AB * AH * AT], r[ANO];
    AttentionFwdArgs a;
} Attention;

static double attention_loss(void *ctx)
{
    Attention *s = ctx;
    MUST(attention_fwd_ref(&s->a, NULL, NULL));
    return inner(s->r, s->out, ANO);
}

static void attention_bwd_is_the_slope(void **state)
{
    (void)state;
    static const int64_t sample[AB] = {3, 1000};
    // Two documents, 0..2 and 3..4; in the second sample query 1 sees nothing.
    static const int32_t lo[AB * AT] = {0, 0, 0, 3, 3, 0, 0, 0, 3, 3};
    static const int32_t hi[AB * AT] = {3, 3, 3, 5, 5, 3, 0, 3, 5, 5};
    static const struct {
        bool    causal, segments;
        int64_t window;
        float   p;
    } cases[] = {{false, false, 0, 0},  {true, false, 0, 0},    {true, false, 2, 0},
                 {false, true, 0, 0},   {true, true, 0, 0},     {true, false, 0, 0.3f},
                 {true, true, 2, 0.3f}, {false, false, 3, 0.5f}};
    for (int i = 0; i < (int)LT_COUNT(cases); i++) {
        Attention s;
        fill(s.qkv, ANQ, 1, 1);
        fill(s.r, ANO, 2, 1);
        AttentionFwdArgs *f = &s.a;
        *f   = (AttentionFwdArgs){.out = s.out, .lse = s.lse, .q = s.qkv, .k = s.qkv + AC};
        f->v = s.qkv + 2 * AC;
        f->B = AB;
        f->H = AH;
        f->Tq = f->Tk = AT;
        f->D          = AD;
        f->q_row = f->kv_row = 3 * AC;
        f->q_batch = f->kv_batch = AT * 3 * AC;
        f->out_row               = AC;
        f->out_batch             = AT * AC;
        f->scale                 = 0.6f;
        f->mask.causal           = cases[i].causal;
        f->mask.window           = cases[i].window;
        if (cases[i].segments) f->mask.seg_lo = lo;
        if (cases[i].segments) f->mask.seg_hi = hi;
        f->drop =
            (DropoutSpec){.p = cases[i].p, .seed = 9, .sample = sample, .site = RNG_DROP_ATTENTION};
        (void)attention_loss(&s);
        float d[ANQ];
        for (int k = 0; k < ANQ; k++) d[k] = NAN;
        AttentionBwdArgs b = {.dq = d, .dk = d + AC, .dv = d + 2 * AC, .dout = s.r, .out = s.out};
        b.lse              = s.lse;
        b.q                = f->q;
        b.k                = f->k;
        b.v                = f->v;
        b.B                = AB;
        b.H                = AH;
        b.T                = AT;
        b.D                = AD;
        b.qkv_row          = f->q_row;
        b.qkv_batch        = f->q_batch;
        b.out_row          = f->out_row;
        b.out_batch        = f->out_batch;
        b.scale            = f->scale;
        b.mask             = f->mask;
        b.drop             = f->drop;
        MUST(attention_bwd_ref(&b, NULL, NULL));
        check("dqkv", s.qkv, d, ANQ, attention_loss, &s);
    }
}

// ---- cross entropy ----------------------------------------------------------------------------

enum { CN = 4, CV = 6, CVP = 8 };

typedef struct Ce {
    float   x[CN * CVP], work[CN * CVP], loss[CN];
    int32_t target[CN];
} Ce;

static double ce_run(Ce *s, bool grad)
{
    const CrossEntropyArgs a = {.loss       = s->loss,
                                .logits     = s->work,
                                .target     = s->target,
                                .N          = CN,
                                .V          = CV,
                                .Vp         = CVP,
                                .grad_scale = 0.25f,
                                .want_grad  = grad};
    memcpy(s->work, s->x, sizeof s->work);
    MUST(cross_entropy_ref(&a, NULL, NULL));
    double sum = 0;
    for (int n = 0; n < CN; n++) sum += (double)s->loss[n];
    return 0.25 * sum;
}

static double ce_loss(void *ctx) { return ce_run(ctx, false); }

static void cross_entropy_gradient_is_the_slope(void **state)
{
    (void)state;
    Ce s = {.target = {2, TOKEN_IGNORE, 0, 5}};
    fill(s.x, CN * CVP, 1, 1.5);
    (void)ce_run(&s, true);
    float d[CN * CVP];
    memcpy(d, s.work, sizeof d);
    check("dlogits", s.x, d, CN * CVP, ce_loss, &s); // padding included: slope 0
}

// ---- dropout ----------------------------------------------------------------------------------

typedef struct Drop {
    float       x[12], y[12], r[12];
    DropoutArgs a;
} Drop;

static double drop_loss(void *ctx)
{
    Drop *s = ctx;
    MUST(dropout_ref(&s->a, NULL, NULL));
    return inner(s->r, s->y, 12);
}

static void dropout_is_its_own_backward(void **state)
{
    (void)state;
    static const int64_t sample[] = {4, 5};
    Drop                 s;
    float                dx[12];
    fill(s.x, 12, 1, 1);
    fill(s.r, 12, 2, 1);
    s.a      = (DropoutArgs){.y = s.y, .x = s.x, .B = 2, .T = 2, .C = 3};
    s.a.drop = (DropoutSpec){.p = 0.5f, .seed = 3, .sample = sample, .site = RNG_DROP_EMBED};
    DropoutArgs b = s.a;
    b.x           = s.r;
    b.y           = dx;
    MUST(dropout_ref(&b, NULL, NULL));
    check("dx", s.x, dx, 12, drop_loss, &s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embedding_bwd_is_the_slope),
        cmocka_unit_test(layernorm_bwd_is_the_slope_with_residual_and_dropout),
        cmocka_unit_test(matmul_epilogues_give_the_slopes_of_an_mlp),
        cmocka_unit_test(attention_bwd_is_the_slope),
        cmocka_unit_test(cross_entropy_gradient_is_the_slope),
        cmocka_unit_test(dropout_is_its_own_backward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
