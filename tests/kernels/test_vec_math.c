// test_vec_math.c -- vector 2^x, tanh, GELU against double; conversions, random numbers: exactly.
//
// Every VEC_STEP-th bit pattern of a float is an argument: all binades, subnormals, infinity, NaN.
//
// SPDX-License-Identifier: MIT
#include "engine/base/rng.h"
#include "kernels/cpu/cpu.h"
#include "tests/base/fp8_inputs.h"
#include "tests/kernels/vec_math_isa.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CHUNK = 1 << 14, VEC_STEP = 1999 };

static const VecMathIsa *const all_isas[] = {VEC_MATH_ISAS};
static const VecMathIsa       *isas[8]; // those this machine can run
static int                     isa_count;

static double phi(double x) { return 0.5 * erfc(-x * 0.70710678118654752440); }
static double slope2(double x) { return 1.5957691216057308 * (1 + 3 * 0.044715 * x * x); } // of 2u
static double twice_u(double x) { return 1.5957691216057308 * (x + 0.044715 * x * x * x); }

static double exact_gelu_tanh(double x) { return x < -1e6 ? -0.0 : x / (1 + exp(-twice_u(x))); }
static double exact_gelu_erf(double x) { return x < -1e6 ? -0.0 : x * phi(x); }
static double exact_dgelu_tanh(double x)
{
    if (fabs(x) > 100) return x > 0;
    const double s = 1 / (1 + exp(-twice_u(x))), c = 1 / (1 + exp(twice_u(x)));
    return s + x * s * c * slope2(x);
}
static double exact_dgelu_erf(double x)
{
    if (fabs(x) > 100) return x > 0;
    return phi(x) + x * exp(-x * x / 2) * 0.39894228040143267794;
}

static const struct {
    const char *name;
    VecFn       fn;
    double (*exact)(double);
    float  lo, hi;  // of the arguments
    double against; // ulp of max(|result|, this): a derivative crosses zero
} functions[VEC_FN_COUNT] = {
    {"exp2", VEC_EXP2, exp2, -126, 1, 0}, // a little above 0: a gradient's lse is rounded
    {"tanh", VEC_TANH, tanh, -INFINITY, INFINITY, 0},
    {"gelu_tanh", VEC_GELU_TANH, exact_gelu_tanh, -INFINITY, INFINITY, 0},
    {"gelu_erf", VEC_GELU_ERF, exact_gelu_erf, -INFINITY, INFINITY, 0},
    {"dgelu_tanh", VEC_DGELU_TANH, exact_dgelu_tanh, -INFINITY, INFINITY, 1},
    {"dgelu_erf", VEC_DGELU_ERF, exact_dgelu_erf, -INFINITY, INFINITY, 1},
};

// Spacing of floats at r.
static double ulp_at(double r)
{
    int e;
    if (fabs(r) < 0x1p-126) return 0x1p-149;
    frexp(r, &e);
    return ldexp(1, e - 24);
}

// Fills x from bit pattern *u on; returns how many.
static int arguments(float x[CHUNK], uint64_t *u, float lo, float hi, uint32_t step)
{
    int n = 0;
    for (; n < CHUNK && *u <= UINT32_MAX; *u += step) {
        const float v = dtype_float((uint32_t)*u);
        if (!(v < lo || v > hi)) x[n++] = v; // NaN is taken
    }
    return n;
}

static double worst_of(const VecMathIsa *m, int f, const float *x, const double *want, int n)
{
    float  y[CHUNK];
    double worst = 0;
    m->apply(functions[f].fn, y, x, CHUNK);
    for (int i = 0; i < n; i++) {
        if (isnan(x[i]) && isnan(y[i])) continue;
        if (isnan(x[i]) != isnan(y[i]))
            fail_msg("%s(%a) = %a", functions[f].name, (double)x[i], (double)y[i]);
        const float nearest = (float)want[i];
        if (isinf(nearest) || isinf(y[i])) {
            if (nearest != y[i] && fabs(want[i]) < 0x1.fffff0p127)
                fail_msg("%s(%a) = %a", functions[f].name, (double)x[i], (double)y[i]);
            continue;
        }
        const double size = fmax(fabs(want[i]), functions[f].against);
        worst             = fmax(worst, fabs((double)y[i] - want[i]) / ulp_at(size));
    }
    return worst;
}

static void functions_are_within_four_ulp(void **state)
{
    (void)state;
    static float  x[CHUNK];
    static double want[CHUNK];
    for (int f = 0; f < VEC_FN_COUNT; f++) {
        double   worst[8] = {0};
        uint64_t u        = 0;
        int      n;
        while ((n = arguments(x, &u, functions[f].lo, functions[f].hi, VEC_STEP)) > 0) {
            for (int i = 0; i < n; i++) want[i] = functions[f].exact((double)x[i]);
            for (int k = 0; k < isa_count; k++)
                worst[k] = fmax(worst[k], worst_of(isas[k], f, x, want, n));
        }
        for (int k = 0; k < isa_count; k++) {
            print_message("%-10s %-8s max %.2f ulp\n", functions[f].name, isas[k]->isa, worst[k]);
            assert_true(worst[k] > 0.3 && worst[k] <= 4);
        }
    }
}

static void ends_are_exact(void **state)
{
    (void)state;
    static const struct {
        VecFn fn;
        float x, y;
    } ends[] = {
        {VEC_EXP2, -INFINITY, 0},
        {VEC_EXP2, -FLT_MAX, 0},
        {VEC_EXP2, -160, 0},
        {VEC_EXP2, -1, 0.5f},
        {VEC_EXP2, -0.0f, 1},
        {VEC_EXP2, 0, 1},
        {VEC_EXP2, 1, 2},
        {VEC_TANH, INFINITY, 1},
        {VEC_TANH, -INFINITY, -1},
        {VEC_TANH, 0x1p-149f, 0x1p-149f},
        {VEC_GELU_TANH, -INFINITY, 0},
        {VEC_GELU_TANH, INFINITY, INFINITY},
        {VEC_GELU_TANH, 0, 0},
        {VEC_GELU_TANH, 30, 30},
        {VEC_GELU_ERF, INFINITY, INFINITY},
        {VEC_GELU_ERF, 0, 0},
        {VEC_GELU_ERF, -30, 0},
        {VEC_GELU_ERF, 30, 30},
        {VEC_DGELU_TANH, 0, 0.5f},
        {VEC_DGELU_TANH, INFINITY, 1},
        {VEC_DGELU_ERF, INFINITY, 1},
        {VEC_DGELU_ERF, -INFINITY, 0},
        {VEC_DGELU_ERF, 0, 0.5f},
    };
    for (int k = 0; k < isa_count; k++) {
        for (int i = 0; i < (int)LT_COUNT(ends); i++) {
            float x[16], y[16];
            for (int l = 0; l < 16; l++) x[l] = ends[i].x;
            isas[k]->apply(ends[i].fn, y, x, 16);
            for (int l = 0; l < 16; l++)
                if (y[l] != ends[i].y)
                    fail_msg("%s: row %d: %a, not %a", isas[k]->isa, i, (double)y[l],
                             (double)ends[i].y);
        }
    }
}

static void conversions_equal_the_scalar_ones(void **state)
{
    (void)state;
    static float    x[CHUNK], wide[2][CHUNK];
    static uint16_t h[CHUNK], narrow[2][CHUNK];
    for (int k = 0; k < isa_count; k++) {
        for (int at = 0; at < 65536; at += CHUNK) { // every bf16 and f16
            for (int i = 0; i < CHUNK; i++) h[i] = (uint16_t)(at + i);
            isas[k]->from_half(wide[0], wide[1], h, CHUNK);
            for (int i = 0; i < CHUNK; i++) {
                assert_int_equal(dtype_bits(wide[0][i]), dtype_bits(bf16_to_f32(h[i])));
                assert_int_equal(dtype_bits(wide[1][i]), dtype_bits(f16_to_f32(h[i])));
            }
        }
        // Arguments on a step that is no power of two, then ties of f16 and bf16.
        uint64_t u = 0;
        for (int round = 0; round < 1 << 10; round++) {
            int n = arguments(x, &u, -INFINITY, INFINITY, 977);
            for (int i = n; i < CHUNK; i++) {
                const uint32_t tie = i % 2 ? 0x1000u : 0x8000u;
                x[i]               = dtype_float((uint32_t)(round * CHUNK + i) << 13 | tie);
            }
            isas[k]->to_half(narrow[0], narrow[1], x, CHUNK);
            for (int i = 0; i < CHUNK; i++) {
                if (narrow[0][i] != bf16_from_f32(x[i]) || narrow[1][i] != f16_from_f32(x[i]))
                    fail_msg("%s: %a: %04x, %04x", isas[k]->isa, (double)x[i], narrow[0][i],
                             narrow[1][i]);
            }
        }
    }
}

typedef struct Fp8Inputs {
    float x[1 << 20];
    int   n;
} Fp8Inputs;

static void keep_input(float x, void *arg)
{
    Fp8Inputs *in = arg;
    assert_true(in->n < (int)LT_COUNT(in->x));
    in->x[in->n++] = x;
}

static void fp8_conversions_equal_the_scalar_ones(void **state)
{
    (void)state;
    static Fp8Inputs in;
    static uint8_t   e4m3[LT_COUNT(in.x)], e5m2[LT_COUNT(in.x)];
    visit_fp8_inputs(keep_input, &in);
    const int n = (in.n + 15) / 16 * 16;
    for (int k = 0; k < isa_count; k++) {
        isas[k]->to_fp8(e4m3, e5m2, in.x, n);
        for (int i = 0; i < n; i++) {
            if (e4m3[i] != fp8_from_f32(in.x[i], DTYPE_E4M3) ||
                e5m2[i] != fp8_from_f32(in.x[i], DTYPE_E5M2))
                fail_msg("%s: %a: %02x, %02x", isas[k]->isa, (double)in.x[i], e4m3[i], e5m2[i]);
        }
    }
}

static void random_words_equal_the_scalar_ones(void **state)
{
    (void)state;
    const int64_t     sample = ((int64_t)3 << 32) + 77;
    const DropoutSpec d      = {.p      = 0.25f,
                                .seed   = 0x123456789abcdef1u,
                                .sample = &sample,
                                .layer  = 5,
                                .site   = RNG_DROP_MLP};
    const RngCoord    at     = {.seed   = d.seed,
                                .sample = (uint64_t)sample,
                                .layer  = d.layer,
                                .site   = d.site,
                                .head   = 9};
    for (int k = 0; k < isa_count; k++) {
        for (uint32_t row = 0; row < 50; row++) {
            uint32_t columns[64], rows[64], w[4];
            isas[k]->philox(columns, rows, &d, 9, row, 3 * row);
            for (uint32_t i = 0; i < 16; i++) {
                rng_block(w, &at, row, 3 * row + i);
                assert_memory_equal(w, columns + 4 * i, sizeof w);
                rng_block(w, &at, row + i, 3 * row);
                for (int c = 0; c < 4; c++) assert_int_equal(w[c], rows[16 * c + (int)i]);
            }
        }
    }
}

int main(void)
{
    const char *names[8];
    const int   n = cpu_list(names);
    for (int i = 0; i < (int)LT_COUNT(all_isas); i++)
        for (int k = 0; k < n; k++)
            if (strcmp(names[k], all_isas[i]->isa) == 0) isas[isa_count++] = all_isas[i];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_are_within_four_ulp),
        cmocka_unit_test(ends_are_exact),
        cmocka_unit_test(conversions_equal_the_scalar_ones),
        cmocka_unit_test(fp8_conversions_equal_the_scalar_ones),
        cmocka_unit_test(random_words_equal_the_scalar_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
