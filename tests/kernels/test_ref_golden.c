// test_ref_golden.c -- the references against values from PyTorch (golden_ops.h).
//
// SPDX-License-Identifier: MIT
#include "kernels/ref/ref.h"
#include "tests/kernels/golden_ops.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void close_to(const char *what, const float *got, const float *want, int n, double tolerance)
{
    for (int i = 0; i < n; i++) {
        const double e = fabs((double)got[i] - (double)want[i]);
        if (e <= tolerance * fmax(1, fabs((double)want[i]))) continue;
        fail_msg("%s[%d]: got %.9g, want %.9g", what, i, (double)got[i], (double)want[i]);
    }
}

static void layernorm_equals_pytorch(void **state)
{
    (void)state;
    enum { N = 3, C = 9 };
    float            out[N * C], mean[N], rstd[N], dx[N * C], dweight[C], dbias[C];
    LayernormFwdArgs f = {.out = out, .mean = mean, .rstd = rstd, .x = golden_ln_x};
    f.weight           = golden_ln_weight;
    f.bias             = golden_ln_bias;
    f.N                = N;
    f.T                = N;
    f.C                = C;
    f.eps              = 1e-5f;
    assert_int_equal(layernorm_fwd_ref(&f, NULL, NULL), ERR_NONE);
    close_to("out", out, golden_ln_out, N * C, 2e-7);
    LayernormBwdArgs b = {.dresid = dx, .dweight = dweight, .dbias = dbias, .dy = golden_ln_dy};
    b.x                = golden_ln_x;
    b.mean             = mean;
    b.rstd             = rstd;
    b.weight           = golden_ln_weight;
    b.N                = N;
    b.T                = N;
    b.C                = C;
    assert_int_equal(layernorm_bwd_ref(&b, NULL, NULL), ERR_NONE);
    close_to("dx", dx, golden_ln_dx, N * C, 1e-6); // mean and rstd were rounded to f32 between
    close_to("dweight", dweight, golden_ln_dweight, C, 1e-6);
    close_to("dbias", dbias, golden_ln_dbias, C, 2e-7);
}

static void gelu_equals_pytorch(void **state)
{
    (void)state;
    enum { N = LT_COUNT(golden_gelu_x) };
    const float one = 1;
    const struct {
        Activation   act;
        const float *value, *slope;
    } cases[] = {{ACT_GELU_TANH, golden_gelu_tanh, golden_gelu_tanh_slope},
                 {ACT_GELU_ERF, golden_gelu_erf, golden_gelu_erf_slope}};
    for (int i = 0; i < (int)LT_COUNT(cases); i++) {
        float      y[N], aux[N], slope[N], ones[N];
        MatmulArgs a = {.C = y, .A = golden_gelu_x, .B = &one, .aux = aux, .M = N, .N = 1, .K = 1};
        a.lda = a.ldb = a.ldc = 1;
        a.epilogue            = MATMUL_GELU;
        a.act                 = cases[i].act;
        assert_int_equal(matmul_ref(&a, NULL, NULL), ERR_NONE);
        assert_memory_equal(aux, golden_gelu_x, sizeof aux);
        close_to("gelu", y, cases[i].value, N, 1.2e-7);
        for (int k = 0; k < N; k++) ones[k] = 1;
        a.A        = ones;
        a.C        = slope;
        a.epilogue = MATMUL_DGELU;
        assert_int_equal(matmul_ref(&a, NULL, NULL), ERR_NONE);
        close_to("slope", slope, cases[i].slope, N, 1.2e-7);
    }
}

static void attention_equals_pytorch(void **state)
{
    (void)state;
    enum { T = 5, H = 2, D = 4, C = H * D };
    float            out[T * C], lse[H * T], dq[T * C], dk[T * C], dv[T * C];
    AttentionFwdArgs f = {.out = out, .lse = lse, .q = golden_att_q, .k = golden_att_k};
    f.v                = golden_att_v;
    f.B                = 1;
    f.H                = H;
    f.Tq = f.Tk = T;
    f.D         = D;
    f.q_batch = f.kv_batch = f.out_batch = T * C;
    f.q_row = f.kv_row = f.out_row = C;
    f.scale                        = 0.5f;
    f.mask.causal                  = true;
    assert_int_equal(attention_fwd_ref(&f, NULL, NULL), ERR_NONE);
    close_to("out", out, golden_att_out, T * C, 2e-7);
    close_to("lse", lse, golden_att_lse, H * T, 2e-7);
    AttentionBwdArgs b = {
        .dq = dq, .dk = dk, .dv = dv, .dout = golden_att_dout, .out = out, .lse = lse};
    b.q                = golden_att_q;
    b.k                = golden_att_k;
    b.v                = golden_att_v;
    b.B                = 1;
    b.H                = H;
    b.T                = T;
    b.D                = D;
    b.qkv_batch = b.out_batch = T * C;
    b.qkv_row = b.out_row = C;
    b.scale               = 0.5f;
    b.mask.causal         = true;
    assert_int_equal(attention_bwd_ref(&b, NULL, NULL), ERR_NONE);
    close_to("dq", dq, golden_att_dq, T * C, 1e-6);
    close_to("dk", dk, golden_att_dk, T * C, 1e-6);
    close_to("dv", dv, golden_att_dv, T * C, 1e-6);
}

static void cross_entropy_equals_pytorch_with_ignored_targets(void **state)
{
    (void)state;
    enum { N = 6, V = 11, VP = 16, COUNTED = 4 };
    float x[N * VP], loss[N], dx[N * V];
    for (int n = 0; n < N; n++)
        for (int v = 0; v < VP; v++) x[n * VP + v] = v < V ? golden_ce_logits[n * V + v] : NAN;
    const CrossEntropyArgs a = {.loss       = loss,
                                .logits     = x,
                                .target     = golden_ce_target,
                                .N          = N,
                                .V          = V,
                                .Vp         = VP,
                                .grad_scale = 1.0f / COUNTED,
                                .want_grad  = true};
    assert_int_equal(cross_entropy_ref(&a, NULL, NULL), ERR_NONE);
    close_to("loss", loss, golden_ce_loss, N, 2e-7);
    for (int n = 0; n < N; n++) {
        memcpy(dx + n * V, x + n * VP, V * sizeof *x);
        for (int v = V; v < VP; v++) assert_true(x[n * VP + v] == 0);
    }
    close_to("dlogits", dx, golden_ce_dlogits, N * V, 2e-7);
}

static void adamw_with_clipping_equals_pytorch(void **state)
{
    (void)state;
    enum { N = 10, STEPS = 3 };
    float w[N], m[N] = {0}, v[N] = {0};
    memcpy(w, golden_adamw_w0, sizeof w);
    for (int step = 1; step <= STEPS; step++) {
        const float         *grad = golden_adamw_grad + (step - 1) * N;
        double               sum  = 0;
        const SumSquaresArgs s    = {.out = &sum, .x = grad, .n = N};
        assert_int_equal(sum_squares_ref(&s, NULL, NULL), ERR_NONE);
        AdamwArgs a    = {.w = w, .m = m, .v = v, .grad = grad, .n = N, .step = step, .lr = 1e-2};
        a.beta1        = 0.9;
        a.beta2        = 0.95;
        a.eps          = 1e-8;
        a.weight_decay = 0.1;
        a.grad_scale   = (float)fmin(1, 1.0 / (sqrt(sum) + 1e-6)); // as clip_grad_norm_ has it
        assert_true(a.grad_scale < 1);                             // the case does clip
        assert_int_equal(adamw_ref(&a, NULL, NULL), ERR_NONE);
        close_to("w", w, golden_adamw_w + (step - 1) * N, N, 3e-7);
    }
    close_to("m", m, golden_adamw_m, N, 2e-7);
    close_to("v", v, golden_adamw_v, N, 2e-7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layernorm_equals_pytorch),
        cmocka_unit_test(gelu_equals_pytorch),
        cmocka_unit_test(attention_equals_pytorch),
        cmocka_unit_test(cross_entropy_equals_pytorch_with_ignored_targets),
        cmocka_unit_test(adamw_with_clipping_equals_pytorch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
