// test_op_edges.c -- what the contracts promise at their edges, what the checks refuse, and the
// table itself: plan mode, forcing, refusals.
//
// SPDX-License-Identifier: MIT
#include "engine/base/arena.h"
#include "engine/base/token.h"
#include "kernels/ops.h"
#include "kernels/ref/ref.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MUST(call) assert_int_equal((call), ERR_NONE)

static void padded_vocabulary_takes_no_part(void **state)
{
    (void)state;
    float            loss[2][1], x[2][8] = {{1, 2, 3, 4, 5}, {1, 2, 3, 4, 5, NAN, INFINITY, 1e30f}};
    const int32_t    target = 3;
    CrossEntropyArgs a = {.target = &target, .N = 1, .V = 5, .want_grad = true, .grad_scale = 1};
    for (int i = 0; i < 2; i++) {
        a.Vp     = i ? 8 : 5;
        a.loss   = loss[i];
        a.logits = x[i];
        MUST(cross_entropy_ref(&a, NULL, NULL));
    }
    assert_memory_equal(loss[0], loss[1], sizeof loss[0]);
    assert_memory_equal(x[0], x[1], 5 * sizeof x[0][0]);
    for (int v = 5; v < 8; v++) assert_true(x[1][v] == 0);
}

static void loss_without_gradient_leaves_logits_alone(void **state)
{
    (void)state;
    float         loss, x[3] = {1, 2, 3};
    const float   before[3] = {1, 2, 3};
    const int32_t target    = 0;
    MUST(cross_entropy_ref(
        &(CrossEntropyArgs){.loss = &loss, .logits = x, .target = &target, .N = 1, .V = 3, .Vp = 3},
        NULL, NULL));
    assert_memory_equal(x, before, sizeof x);
    assert_true(fabs((double)loss - 2.4076059644) < 1e-6);
}

static void loss_of_huge_logits_is_finite(void **state)
{
    (void)state;
    float         loss, x[3] = {30000, -30000, 29999};
    const int32_t target = 2;
    MUST(cross_entropy_ref(
        &(CrossEntropyArgs){.loss = &loss, .logits = x, .target = &target, .N = 1, .V = 3, .Vp = 3},
        NULL, NULL));
    assert_true(fabs((double)loss - 1.3132616875) < 1e-5);
}

static void hit_is_the_first_of_the_largest(void **state)
{
    (void)state;
    enum { V = 3, N = 8 };
    static const struct {
        float   x[V];
        int32_t target;
        float   hit;
    } rows[N] = {{{1, 3, 2}, 1, 1},        {{1, 3, 2}, 2, 0},
                 {{3, 3, 2}, 0, 1},        {{3, 3, 2}, 1, 0}, // as large, but not the first
                 {{NAN, 3, 2}, 1, 0},      {{NAN, 3, 2}, 0, 0},
                 {{1, INFINITY, 2}, 1, 0}, {{1, 3, 2}, TOKEN_IGNORE, 0}};
    float   x[N * V], loss[N], hit[N];
    int32_t target[N];
    for (int n = 0; n < N; n++) {
        memcpy(x + n * V, rows[n].x, sizeof rows[n].x);
        target[n] = rows[n].target;
    }
    CrossEntropyArgs a = {.loss = loss, .hit = hit, .logits = x, .target = target, .N = N};
    a.V = a.Vp = V;
    MUST(cross_entropy_ref(&a, NULL, NULL));
    for (int n = 0; n < N; n++) assert_true(hit[n] == rows[n].hit);
}

static void rows_are_gathered_and_added_back(void **state)
{
    (void)state;
    enum { N = 3, C = 2, n = 4 };
    const float   x[N * C] = {1, 2, 3, 4, 5, 6};
    const int32_t twice[n] = {2, -1, 0, 2}, once[n] = {2, -1, 0, -1};
    float         out[n * C], back[N * C] = {10, 20, 30, 40, 50, 60};
    MUST(gather_rows_ref(
        &(GatherRowsArgs){.out = out, .x = x, .row = twice, .n = n, .N = N, .C = C}, NULL, NULL));
    const float gathered[n * C] = {5, 6, 0, 0, 1, 2, 5, 6};
    assert_memory_equal(out, gathered, sizeof out);
    MUST(scatter_rows_ref(
        &(ScatterRowsArgs){.out = back, .x = out, .row = once, .n = n, .N = N, .C = C}, NULL,
        NULL));
    const float added[N * C] = {11, 22, 30, 40, 55, 66};
    assert_memory_equal(back, added, sizeof back);
}

static void nan_stays_in_its_row(void **state)
{
    (void)state;
    enum { N = 3, C = 4 };
    const float weight[C] = {1, 1, 1, 1}, x[N * C] = {1, 2, 3, 4, 5, NAN, 7, 8, 4, 3, 2, 1};
    float       out[N * C], logits[N * C], loss[N];
    MUST(layernorm_fwd_ref(&(LayernormFwdArgs){.out = out, .x = x, .weight = weight, .N = N, .T = N,
                                               .C = C, .eps = 1e-5f}, NULL, NULL));
    memcpy(logits, x, sizeof logits);
    const int32_t target[N] = {0, 1, 2};
    MUST(cross_entropy_ref(&(CrossEntropyArgs){.loss       = loss,
                                               .logits     = logits,
                                               .target     = target,
                                               .N          = N,
                                               .V          = C,
                                               .Vp         = C,
                                               .want_grad  = true,
                                               .grad_scale = 1},
                           NULL, NULL));
    for (int n = 0; n < N; n++) {
        assert_int_equal(isnan(loss[n]) != 0, n == 1);
        for (int c = 0; c < C; c++) {
            assert_int_equal(isnan(out[n * C + c]) != 0, n == 1);
            assert_int_equal(isnan(logits[n * C + c]) != 0, n == 1);
        }
    }
}

static void constant_row_gives_the_bias(void **state)
{
    (void)state;
    const float weight[3] = {2, 3, 4}, bias[3] = {5, -6, 7}, x[3] = {9, 9, 9};
    float       out[3];
    MUST(layernorm_fwd_ref(&(LayernormFwdArgs){.out = out, .x = x, .weight = weight, .bias = bias,
                                               .N = 1, .T = 1, .C = 3, .eps = 1e-5f}, NULL, NULL));
    assert_memory_equal(out, bias, sizeof out);
}

static void statistics_are_those_of_the_rounded_residual(void **state)
{
    (void)state;
    const uint16_t one = bf16_from_f32(1), x[2] = {one, one};
    const float    add[2] = {0x1p-9f, 0}, weight[2] = {1, 1}; // 1 + 2^-9 rounds back to 1 in bf16
    uint16_t       resid[2];
    float          out[2], mean;
    LayernormFwdArgs a = {
        .out = out, .resid_out = resid, .mean = &mean, .x = x, .add = add, .N = 1};
    a.weight           = weight;
    a.T                = 1;
    a.C                = 2;
    a.eps              = 1e-5f;
    a.x_dtype          = DTYPE_BF16;
    MUST(layernorm_fwd_ref(&a, NULL, NULL));
    assert_int_equal(resid[0], one);
    assert_true(mean == 1 && out[0] == 0 && out[1] == 0);
}

static void gelu_works_on_the_rounded_value(void **state)
{
    (void)state;
    const uint16_t A = bf16_from_f32(1), B = A;
    const float    bias = 0x1p-9f; // 1 + 2^-9 rounds to 1
    uint16_t       C[2], aux;
    for (int i = 0; i < 2; i++) { // with aux stored and without: the same value
        MatmulArgs a = {.C = &C[i], .A = &A, .B = &B, .bias = &bias, .M = 1, .N = 1, .K = 1};
        a.lda = a.ldb = a.ldc = 1;
        a.ab_dtype = a.c_dtype = DTYPE_BF16;
        a.epilogue             = MATMUL_GELU;
        if (i == 0) a.aux = &aux;
        MUST(matmul_ref(&a, NULL, NULL));
    }
    assert_int_equal(aux, A);
    assert_int_equal(C[0], bf16_from_f32(0.8411920f));
    assert_int_equal(C[1], C[0]);
}

static void product_over_nothing_is_the_bias(void **state)
{
    (void)state;
    float       C[2] = {NAN, NAN}, grad[2] = {3, 4};
    const float bias[2] = {7, 8};
    MatmulArgs  a       = {.C = C, .bias = bias, .M = 1, .N = 2, .K = 0, .ldb = 2, .ldc = 2};
    MUST(matmul_check(&a, NULL));
    MUST(matmul_ref(&a, NULL, NULL)); // accumulate off: the NaN in C is never read
    assert_memory_equal(C, bias, sizeof C);
    a.C          = grad;
    a.bias       = NULL;
    a.accumulate = true;
    MUST(matmul_ref(&a, NULL, NULL));
    assert_true(grad[0] == 3 && grad[1] == 4);
}

static void sums_over_no_rows_are_zero_or_kept(void **state)
{
    (void)state;
    float db[2] = {5, 6}, dw[2] = {5, 6}, db2[2] = {5, 6};
    MUST(bias_bwd_ref(&(BiasBwdArgs){.db = db, .N = 0, .C = 2, .accumulate = true}, NULL, NULL));
    assert_true(db[0] == 5 && db[1] == 6);
    MUST(bias_bwd_ref(&(BiasBwdArgs){.db = db, .N = 0, .C = 2}, NULL, NULL));
    assert_true(db[0] == 0 && db[1] == 0);
    MUST(layernorm_bwd_ref(&(LayernormBwdArgs){.dweight = dw, .dbias = db2, .N = 0, .T = 1, .C = 2},
                           NULL, NULL));
    assert_true(dw[0] == 0 && dw[1] == 0 && db2[0] == 0 && db2[1] == 0);
    double sum = 3;
    MUST(sum_squares_ref(&(SumSquaresArgs){.out = &sum, .n = 0, .accumulate = true}, NULL, NULL));
    assert_true(sum == 3);
    MUST(sum_squares_ref(&(SumSquaresArgs){.out = &sum, .n = 0}, NULL, NULL));
    assert_true(sum == 0);
}

static void masked_keys_may_hold_nan(void **state)
{
    (void)state;
    enum { T = 3, D = 2 };
    const float   q[T * D] = {1, 2, 3, 4, 5, 6};
    const float   k[T * D] = {1, 0, 0, 1, NAN, NAN}, v[T * D] = {1, 2, 3, 4, NAN, INFINITY};
    const int32_t hi[T] = {2, 0, 2};
    float         out[T * D], lse[T];
    AttentionFwdArgs a = {.out = out, .lse = lse, .q = q, .k = k, .v = v, .B = 1, .H = 1, .D = D};
    a.Tq = a.Tk = T;
    a.q_row = a.kv_row = a.out_row = D;
    a.scale                        = 1;
    a.mask.seg_hi                  = hi;
    MUST(attention_fwd_check(&a, NULL));
    MUST(attention_fwd_ref(&a, NULL, NULL));
    for (int i = 0; i < T * D; i++) assert_true(isfinite(out[i]));
    assert_true(out[2] == 0 && out[3] == 0 && lse[1] == -INFINITY); // query 1 sees nothing
}

static void cached_generation_equals_the_whole_sequence(void **state)
{
    (void)state;
    enum { T = 6, D = 4, ROW = 3 * D };
    float qkv[T * ROW], whole[T * D], last[D];
    rng_fill_normal(qkv, T * ROW, 8, 1, 1);
    AttentionFwdArgs a = {.out = whole, .q = qkv, .k = qkv + D, .v = qkv + 2 * D, .B = 1, .H = 1};
    a.Tq = a.Tk = T;
    a.D         = D;
    a.q_row = a.kv_row = ROW;
    a.out_row          = D;
    a.scale            = 0.5f;
    a.mask.causal      = true;
    a.mask.window      = 4;
    MUST(attention_fwd_ref(&a, NULL, NULL));
    a.q      = qkv + (T - 1) * ROW;
    a.out    = last;
    a.Tq     = 1;
    a.q_pos0 = T - 1;
    MUST(attention_fwd_ref(&a, NULL, NULL));
    assert_memory_equal(last, whole + (T - 1) * D, sizeof last);
}

static void visible_pairs_are_counted_exactly(void **state)
{
    (void)state;
    for (int64_t Tq = 0; Tq < 7; Tq++) {
        for (int64_t Tk = 0; Tk < 9; Tk++) {
            for (int64_t pos0 = 0; pos0 < 6; pos0++) {
                for (int code = 0; code < 10; code++) {
                    const AttentionMask m    = {.causal = code & 1, .window = code / 2};
                    int64_t             want = 0;
                    for (int64_t i = pos0; i < pos0 + Tq; i++)
                        for (int64_t j = 0; j < Tk; j++)
                            want += (!m.causal || j <= i) && (m.window == 0 || i - j < m.window);
                    assert_true(attention_fwd_pairs(&m, Tq, Tk, pos0) == (double)want);
                }
            }
        }
    }
}

static void dropout_keeps_its_rate_and_its_mean(void **state)
{
    (void)state;
    enum { T = 64, C = 1000 };
    static float         x[T * C], y[T * C];
    static const float   rates[] = {0.1f, 0.5f, 0.9f};
    static const int64_t sample  = 77;
    for (int i = 0; i < T * C; i++) x[i] = 1;
    for (int i = 0; i < (int)LT_COUNT(rates); i++) {
        DropoutArgs a = {.y = y, .x = x, .B = 1, .T = T, .C = C};
        a.drop = (DropoutSpec){.p = rates[i], .seed = 1, .sample = &sample, .site = RNG_DROP_MLP};
        MUST(dropout_ref(&a, NULL, NULL));
        double kept = 0, sum = 0;
        for (int k = 0; k < T * C; k++) {
            kept += y[k] != 0;
            sum += (double)y[k];
        }
        const double p = (double)rates[i], sigma = sqrt(p * (1 - p) / (T * C));
        assert_true(fabs(kept / (T * C) - (1 - p)) < 4 * sigma);
        assert_true(fabs(sum / (T * C) - 1) < 4 * sigma / (1 - p));
    }
}

static void dropout_does_not_depend_on_the_batch_split(void **state)
{
    (void)state;
    enum { B = 4, T = 3, C = 10 };
    static const int64_t sample[B] = {100, 101, 102, (int64_t)7 << 33};
    float                x[B * T * C], whole[B * T * C], part[B * T * C];
    for (int i = 0; i < B * T * C; i++) x[i] = (float)(i + 1);
    DropoutArgs a = {.y = whole, .x = x, .B = B, .T = T, .C = C};
    a.drop =
        (DropoutSpec){.p = 0.5f, .seed = 4, .sample = sample, .layer = 2, .site = RNG_DROP_PROJ};
    MUST(dropout_ref(&a, NULL, NULL));
    for (int b = 0; b < B; b++) { // one sample at a time, and of it one row at a time
        for (int t = 0; t < T; t++) {
            a.B           = 1;
            a.T           = 1;
            a.row0        = t;
            a.drop.sample = sample + b;
            a.x           = x + (b * T + t) * C;
            a.y           = part + (b * T + t) * C;
            MUST(dropout_ref(&a, NULL, NULL));
        }
    }
    assert_memory_equal(whole, part, sizeof whole);
    for (int b = 1; b < B; b++) { // samples have masks of their own
        int same = 0;
        for (int i = 0; i < T * C; i++) same += (whole[i] == 0) == (whole[b * T * C + i] == 0);
        assert_true(same < T * C);
    }
}

static void dropped_nan_is_zero(void **state)
{
    (void)state;
    static const int64_t sample = 1;
    float                x[64], y[64];
    int                  zeros = 0;
    for (int i = 0; i < 64; i++) x[i] = NAN;
    DropoutArgs a = {.y = y, .x = x, .B = 1, .T = 1, .C = 64};
    a.drop        = (DropoutSpec){.p = 0.5f, .sample = &sample, .site = RNG_DROP_MLP};
    MUST(dropout_ref(&a, NULL, NULL));
    for (int i = 0; i < 64; i++) {
        assert_true(isnan(y[i]) || y[i] == 0);
        zeros += y[i] == 0;
    }
    assert_in_range(zeros, 16, 48);
}

static void embedding_rows_repeat_and_ids_count_from_position0(void **state)
{
    (void)state;
    const float   wte[4] = {1, 2, 3, 4}, wpe[3] = {10, 20, 30};
    const int32_t token[2] = {3, 3};
    float         out[2];
    MUST(embedding_fwd_ref(&(EmbeddingFwdArgs){.out       = out,
                                               .wte       = wte,
                                               .wpe       = wpe,
                                               .token     = token,
                                               .N         = 2,
                                               .T         = 2,
                                               .C         = 1,
                                               .V         = 4,
                                               .P         = 3,
                                               .position0 = 1},
                           NULL, NULL));
    assert_true(out[0] == 24 && out[1] == 34);
}

static void adamw_copies_the_rounded_master(void **state)
{
    (void)state;
    float       w = 1, m = 0, v = 0;
    const float g = 0;
    uint16_t    p = 0;
    AdamwArgs   a = {
          .w = &w, .param = &p, .m = &m, .v = &v, .grad = &g, .n = 1, .step = 1, .lr = 0.5};
    a.beta1       = 0.9;
    a.beta2       = 0.95;
    a.eps         = 1e-8;
    a.weight_decay = 0.1;
    a.grad_scale   = 1;
    a.param_dtype  = DTYPE_BF16;
    MUST(adamw_ref(&a, NULL, NULL));
    assert_true(w == 0.95f); // no gradient: decay alone
    assert_int_equal(p, bf16_from_f32(w));
}

static void lamb_moves_a_tensor_by_its_own_length(void **state)
{
    (void)state;
    // Two tensors with the same direction, the second one twice as long; a bias moves by u.
    float          w[6] = {3, 4, 6, 8, 6, 8}, m[6] = {0}, v[6] = {0};
    float          g[6] = {1e-3f, -1e3f, 5, -7, 5, -7};
    LambSegment    s[3] = {{0, 2, 0, 0, 1}, {2, 2, 0, 0, 1}, {4, 2, 0, 0, 0}};
    const StepGate gate = {.rates      = {.step = 1, .lr = 0.1, .correct1 = 0.1, .correct2 = 0.05},
                           .grad_scale = 1};
    LambArgs       a    = {.w = w, .m = m, .v = v, .grad = g, .segment = s, .gate = &gate};
    a.n                 = 6;
    a.n_segment         = 3;
    a.n_chunk           = lamb_chunks(s, 3);
    a.beta1             = 0.9;
    a.beta2             = 0.95;
    a.eps               = 1e-12;
    MUST(lamb_ref(&a, NULL, NULL));
    const double r = 0.1 / sqrt(2.0); // first step: u is the sign
    const double want[6] = {3 - 5 * r, 4 + 5 * r, 6 - 10 * r, 8 + 10 * r, 6 - 0.1, 8 + 0.1};
    for (int i = 0; i < 6; i++)
        if (!(fabs((double)w[i] - want[i]) < 2e-6)) fail_msg("w[%d] = %.9g", i, (double)w[i]);
}

// ---- what the checks refuse -------------------------------------------------------------------

static void refused(Status s, const Err *err, const char *word)
{
    assert_int_equal(s, ERR_USAGE);
    if (!strstr(err->text, word)) fail_msg("\"%s\" does not speak of \"%s\"", err->text, word);
}

static void checks_refuse_and_say_why(void **state)
{
    (void)state;
    Err     err;
    float   x[64];
    int32_t ids[4];
    MatmulArgs m = {.C = x, .A = x, .B = x, .M = 4, .N = 4, .K = 4, .lda = 4, .ldb = 4, .ldc = 4};
    MUST(matmul_check(&m, &err));
    m.lda = 3;
    refused(matmul_check(&m, &err), &err, "lda = 3");
    m.lda     = 4;
    m.trans_a = true;
    m.M       = 5;
    refused(matmul_check(&m, &err), &err, "M = 5");
    m.trans_a    = false;
    m.accumulate = true;
    m.epilogue   = MATMUL_GELU;
    refused(matmul_check(&m, &err), &err, "accumulate");
    m.accumulate = false;
    m.epilogue   = MATMUL_DGELU;
    refused(matmul_check(&m, &err), &err, "aux");
    m.epilogue = MATMUL_PLAIN;
    m.ab_dtype = DTYPE_I32;
    refused(matmul_check(&m, &err), &err, "i32");
    m.ab_dtype = DTYPE_F32;
    m.M        = INT64_MAX / 2; // M*lda would not fit
    refused(matmul_check(&m, &err), &err, "M = ");

    LayernormFwdArgs l = {.out = x, .x = x, .add = x, .weight = x, .N = 2, .T = 2, .C = 2};
    refused(layernorm_fwd_check(&l, &err), &err, "resid_out");
    l.resid_out = x;
    MUST(layernorm_fwd_check(&l, &err));
    l.drop.p = 1;
    refused(layernorm_fwd_check(&l, &err), &err, "p = 1");
    l.drop.p = 0.5f;
    refused(layernorm_fwd_check(&l, &err), &err, "sample");
    l.drop.p = NAN;
    refused(layernorm_fwd_check(&l, &err), &err, "[0, 1)");

    CrossEntropyArgs c = {.loss = x, .logits = x, .target = ids, .N = 1, .V = 5, .Vp = 4};
    refused(cross_entropy_check(&c, &err), &err, "V = 5");
    EmbeddingFwdArgs e = {.out = x, .wte = x, .wpe = x, .token = ids, .N = 4, .T = 4, .C = 1};
    e.V                = 4;
    e.P                = 5;
    MUST(embedding_fwd_check(&e, &err));
    e.position0 = 2;
    refused(embedding_fwd_check(&e, &err), &err, "2 to 5");
    AdamwArgs a = {.w = x, .m = x, .v = x, .grad = x, .n = 1, .step = 0, .eps = 1e-8};
    refused(adamw_check(&a, &err), &err, "step = 0");
    a.step = 1;
    a.eps  = 0;
    refused(adamw_check(&a, &err), &err, "eps");
    const StepGate gate = {.rates = {.step = 1}};
    LambSegment    s    = {.n = 1};
    LambArgs       b    = {.w = x, .m = x, .v = x, .grad = x, .n = 1, .n_segment = 1, .eps = 1e-6};
    b.segment           = &s;
    b.n_chunk           = lamb_chunks(&s, 1);
    refused(lamb_check(&b, &err), &err, "gate");
    b.gate = &gate;
    MUST(lamb_check(&b, &err));
    b.n_chunk = 3; // of one segment and one element there are at most two
    refused(lamb_check(&b, &err), &err, "3 chunks");
    b.n_chunk = 1;
    b.beta2   = 1;
    refused(lamb_check(&b, &err), &err, "beta2 = 1");
    AttentionFwdArgs t = {
        .out = x, .q = x, .k = x, .v = x, .B = 1, .H = 2, .Tq = 1, .Tk = 1, .D = 4};
    t.q_row = t.kv_row = t.out_row = 8;
    MUST(attention_fwd_check(&t, &err));
    t.out_row = 7;
    refused(attention_fwd_check(&t, &err), &err, "out 7");
    t.out_row     = 8;
    t.mask.window = -1;
    refused(attention_fwd_check(&t, &err), &err, "window");
    const CastArgs k = {.dst = x, .src = ids, .n = 1, .src_dtype = DTYPE_I32};
    refused(cast_check(&k, &err), &err, "src is i32");
    const GatherRowsArgs g = {.n = 1, .N = 1, .C = 1};
    refused(gather_rows_check(&g, &err), &err, "NULL");
    const ScatterRowsArgs r = {.n = 1, .N = 1};
    refused(scatter_rows_check(&r, &err), &err, "C = 0");
}

// ---- the table --------------------------------------------------------------------------------

static void plan_mode_measures_and_touches_nothing(void **state)
{
    (void)state;
    static Ops ops;
    Arena      count;
    OpPlan     plan = {0};
    OpCtx      cx   = {.ops = &ops, .plan = &plan};
    ops_init(&ops);
    arena_init_counting(&count, "plan");
    // One linear layer of a 175B model at a batch of 3.2M tokens: addresses of a counting arena.
    const int64_t rows = 3200000, in = 12288, out = 4 * in;
    MatmulArgs    a = {
           .M = rows, .N = out, .K = in, .lda = in, .ldb = in, .ldc = out, .trans_b = true};
    a.ab_dtype = a.c_dtype = DTYPE_BF16;
    a.A                    = arena_alloc(&count, (size_t)(rows * in) * 2);
    a.B                    = arena_alloc(&count, (size_t)(out * in) * 2);
    a.C                    = arena_alloc(&count, (size_t)(rows * out) * 2);
    MUST(op_matmul(&cx, &a, NULL));
    const CastArgs k = {.dst = a.C, .src = a.A, .n = rows, .dst_dtype = DTYPE_BF16};
    MUST(op_cast(&cx, &k, NULL));
    assert_int_equal(plan.calls, 2);
    assert_true(plan.flops == 2.0 * 3200000 * 12288 * 49152);
    assert_true(plan.matmul_flops == plan.flops);
    assert_true(plan.bytes ==
                2.0 * (3200000.0 * 12288 + 49152.0 * 12288 + 3200000.0 * 49152) + 6 * 3200000.0);
}

static bool picky(const CastArgs *a, const OpCtx *cx, const char **why)
{
    (void)cx;
    *why = "one element only";
    return a->n == 1;
}

static Status write_seven(const CastArgs *a, OpCtx *cx, Err *err)
{
    (void)cx;
    (void)err;
    *(float *)a->dst = 7;
    return ERR_NONE;
}

static void last_willing_implementation_runs(void **state)
{
    (void)state;
    static Ops ops;
    Err        err;
    OpCtx      cx = {.ops = &ops};
    ops_init(&ops);
    ops_add_cast(&ops, (Impl_cast){.impl = "picky", .supports = picky, .run = write_seven});
    float       dst[2] = {0, 0};
    const float src[2] = {1, 2};
    CastArgs    a      = {.dst = dst, .src = src, .n = 2};
    assert_string_equal(op_cast_impl(&cx, &a), "ref");
    MUST(op_cast(&cx, &a, &err));
    assert_true(dst[0] == 1 && dst[1] == 2);
    a.n = 1;
    assert_string_equal(op_cast_impl(&cx, &a), "picky");
    MUST(op_cast(&cx, &a, &err));
    assert_true(dst[0] == 7);

    assert_int_equal(ops_force(&ops, "cast", "fast", &err), ERR_USAGE);
    assert_non_null(strstr(err.text, "ref, picky"));
    assert_int_equal(ops_force(&ops, "cats", "ref", &err), ERR_USAGE);
    assert_non_null(strstr(err.text, "cats"));
    MUST(ops_force(&ops, "cast", "picky", &err));
    a.n = 2;
    assert_null(op_cast_impl(&cx, &a));
    assert_int_equal(op_cast(&cx, &a, &err), ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "one element only"));
}

static void both_halves_of_an_op_are_named_at_once(void **state)
{
    (void)state;
    Ops ops;
    Err err;
    ops_init(&ops);
    ops_add_attention_fwd(&ops, (Impl_attention_fwd){.impl = "other"});
    ops_add_attention_bwd(&ops, (Impl_attention_bwd){.impl = "other"});
    ops_add_layernorm_fwd(&ops, (Impl_layernorm_fwd){.impl = "other"});
    MUST(ops_force(&ops, "attention", "other", &err));
    assert_string_equal(ops_impl_name(&ops, OP_attention_fwd, 0), "other");
    assert_string_equal(ops_impl_name(&ops, OP_attention_bwd, 0), "other");
    assert_int_equal(ops.info[OP_layernorm_fwd].n, 2);
    assert_int_equal(ops_force(&ops, "attent", "ref", &err), ERR_USAGE);
    assert_int_equal(ops_force(&ops, "layernorm", "other", &err), ERR_USAGE);
    assert_non_null(strstr(err.text, "layernorm_bwd"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(padded_vocabulary_takes_no_part),
        cmocka_unit_test(loss_without_gradient_leaves_logits_alone),
        cmocka_unit_test(loss_of_huge_logits_is_finite),
        cmocka_unit_test(hit_is_the_first_of_the_largest),
        cmocka_unit_test(rows_are_gathered_and_added_back),
        cmocka_unit_test(nan_stays_in_its_row),
        cmocka_unit_test(constant_row_gives_the_bias),
        cmocka_unit_test(statistics_are_those_of_the_rounded_residual),
        cmocka_unit_test(gelu_works_on_the_rounded_value),
        cmocka_unit_test(product_over_nothing_is_the_bias),
        cmocka_unit_test(sums_over_no_rows_are_zero_or_kept),
        cmocka_unit_test(masked_keys_may_hold_nan),
        cmocka_unit_test(cached_generation_equals_the_whole_sequence),
        cmocka_unit_test(visible_pairs_are_counted_exactly),
        cmocka_unit_test(dropout_keeps_its_rate_and_its_mean),
        cmocka_unit_test(dropout_does_not_depend_on_the_batch_split),
        cmocka_unit_test(dropped_nan_is_zero),
        cmocka_unit_test(embedding_rows_repeat_and_ids_count_from_position0),
        cmocka_unit_test(adamw_copies_the_rounded_master),
        cmocka_unit_test(lamb_moves_a_tensor_by_its_own_length),
        cmocka_unit_test(checks_refuse_and_say_why),
        cmocka_unit_test(plan_mode_measures_and_touches_nothing),
        cmocka_unit_test(last_willing_implementation_runs),
        cmocka_unit_test(both_halves_of_an_op_are_named_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
