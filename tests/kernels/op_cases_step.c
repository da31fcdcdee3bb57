// op_cases_step.c -- cases of the ops that decide a step: the sum of its losses, and the gate.
//
// SPDX-License-Identifier: MIT
#include "tests/kernels/op_cases_step.h"

#include <math.h>
#include <string.h>

const SumCase sum_cases[8] = {{0, false},  {0, true},   {1, false},   {63, true},
                              {64, false}, {1025, true}, {4099, false}, {70001, false}};

void build_sum(Case *c, int variant, const Mix *m)
{
    const int64_t n = sum_cases[variant].n;
    SumArgs      *a = &c->args.sum;
    *a              = (SumArgs){.n = n, .dtype = m->act};
    a->accumulate   = sum_cases[variant].accumulate;
    a->x            = tensor_dev(case_tensor(c, TENSOR_IN, "x", m->act, 1, n, n, 1));
    const TensorRole role = a->accumulate ? TENSOR_INOUT : TENSOR_OUT;
    Tensor          *out  = case_tensor(c, role, "out", DTYPE_I64, 1, 1, 1, 1);
    out->f64   = true;
    out->floor = 1e-10; // the order is the kernel's own, terms of both signs
    if (a->accumulate) {
        const double start = 0.5;
        memcpy(tensor_host(out), &start, sizeof start);
    }
    a->out = tensor_dev(out);
}

Tensor *case_bytes(Case *c, TensorRole role, const char *name, const void *x, size_t bytes)
{
    const int64_t words = (int64_t)(bytes / sizeof(int64_t));
    Tensor       *t     = case_tensor(c, TENSOR_INOUT, name, DTYPE_I64, 1, words, words, 1);
    t->role             = role;
    t->exact            = true;
    memcpy(tensor_host(t), x, bytes);
    return t;
}

const StepGate *case_gate(Case *c, TensorRole role, const StepGate *g)
{
    return tensor_dev(case_bytes(c, role, "gate", g, sizeof *g));
}

const StepGateCase step_gate_cases[16] = {
    // n, bad, t, norm2, loss, clip, scale
    {0, -1, 0, 4.0, 1, 1, {1, 0, 0}, {0, 0, 0, 0}},               // clipped
    {1, -1, 7, 0.25, 1, 1, {1, 0, 0}, {0, 0, 0, 0}},              // not
    {65, -1, 7, 2.0, 3, 0, {1, 0, 0}, {0, 0, 0, 0}},              // never
    {65, -1, 8, 2.0, 3, 0.1, {1, 0, 0}, {0, 0, 0, 0}},            // the other row of rates
    {5003, 4099, 7, (double)NAN, 3, 1, {1, 0, 0}, {0, 0, 0, 0}},
    {5003, 0, 8, (double)INFINITY, 3, 1, {1, 0, 0}, {0, 0, 0, 0}},
    {300000, 299999, 7, (double)NAN, 1, 1, {1, 0, 0}, {0, 0, 0, 0}},
    {64, -1, 7, 1.0, (double)NAN, 1, {1, 0, 0}, {0, 0, 0, 0}},    // the loss alone
    {64, -1, 7, 1e9, 1, 1, {65536, 5, 1}, {2, 0.5f, 2000, 1}},
    {64, -1, 7, 1e9, 1, 1, {65536, 1999, 0}, {2, 0.5f, 2000, 3}}, // grows
    {64, 3, 7, (double)NAN, 1, 1, {65536, 1999, 1}, {2, 0.5f, 2000, 1}}, // halves
    {64, 3, 7, (double)NAN, 1, 1, {65536, 12, 2}, {2, 0.5f, 2000, 2}},   // not yet
    {64, 3, 7, (double)NAN, 1, 1, {1.5f, 12, 0}, {2, 0.5f, 2000, 2}},    // down to 1
    {64, 3, 7, (double)NAN, 1, 1, {1, 0, 0}, {2, 0.5f, 2000, 1}},        // no further
    {64, -1, 7, 1.0, 1, 1, {0x1p127f, 0, 1}, {2, 0.5f, 1, 1}},           // nor beyond f32
    {64, 3, 7, (double)NAN, 1, 1, {48, 0, 1}, {1.5f, 0.25f, 1, 1}},
};

void build_step_gate(Case *c, int variant, const Mix *m)
{
    const StepGateCase *k = &step_gate_cases[variant];
    StepGateArgs       *a = &c->args.step_gate;
    (void)m;
    *a = (StepGateArgs){.n = k->n, .clip = k->clip, .rule = k->rule};
    StepGate g = {.t = k->t, .scale = k->scale, .norm = 3, .grad_scale = 5, .skip = 1, .unused = 7};
    const StepRates rates[2] = {{8, 1e-3, 0.3, 0.2}, {9, 2e-3, 0.35, 0.25}};
    a->gate  = (StepGate *)(void *)tensor_dev(case_bytes(c, TENSOR_INOUT, "gate", &g, sizeof g));
    a->norm2 = tensor_dev(case_bytes(c, TENSOR_IN, "norm2", &k->norm2, sizeof k->norm2));
    a->loss  = tensor_dev(case_bytes(c, TENSOR_IN, "loss", &k->loss, sizeof k->loss));
    if (k->t == 0) {
        const StepRates first[2] = {{1, 1e-3, 0.1, 0.05}, {2, 2e-3, 0.19, 0.0975}};
        a->rates = tensor_dev(case_bytes(c, TENSOR_IN, "rates", first, sizeof first));
    } else {
        a->rates = tensor_dev(case_bytes(c, TENSOR_IN, "rates", rates, sizeof rates));
    }
    Tensor *grad = case_tensor(c, TENSOR_IN, "grad", DTYPE_F32, 1, k->n, k->n, 1);
    float  *x    = tensor_host(grad);
    if (k->bad >= 0) x[k->bad] = variant % 2 ? INFINITY : NAN;
    if (k->bad >= 0 && k->bad + 40 < k->n) x[k->bad + 40] = NAN; // not the first
    a->grad = tensor_dev(grad);
}
