// op_cases_adamw.c -- cases of adamw: sizes, gates, and matrices with FP8 copies.
//
// SPDX-License-Identifier: MIT
#include "tests/kernels/op_cases.h"
#include "tests/kernels/op_cases_step.h"

#include <math.h>

const AdamwCase adamw_cases[16] = {
    {0, 1, 0.1, 1, true, 0, 0, 0},
    {1, 1, 0.1, 1, false, 0, 0, 0},
    {63, 1, 0, 0.5, true, 0, 0, 0},
    {64, 10, 0.1, 1, true, 0, 0, 0},
    {65, 1000, 0.1, 0.01, true, 0, 0, 0},
    {5003, 100000, 0.01, 1, false, 0, 0, 0},
    {20011, 3, 0.1, 1, true, 0, 0, 0},
    {5003, 0, 0.1, 0.3, true, 1, 0, 0},
    {4099, 0, 0.1, 1, true, 2, 0, 0},
    // with FP8 copies
    {65 * 127, 3, 0.1, 1, true, 0, 65, 0},
    {144 * 640, 0, 0.1, 0.3, true, 1, 144, 0},
    {130 * 72, 0, 0.1, 0.3, false, 1, 130, 3},
    {40, 1, 0, 1, true, 0, 40, 2}, // one column
    {531, 10, 0.1, 1, true, 0, 1, 1},
    {48 * 32, 0, 0.1, 1, true, 2, 48, 0},
    {0, 1, 0.1, 1, true, 0, 7, 0},
};

void build_adamw(Case *c, int variant, const Mix *m)
{
    const AdamwCase *k = &adamw_cases[variant];
    const int64_t n = k->n;
    const bool skip = k->gate == 2;
    AdamwArgs *a = &c->args.adamw;
    *a = (AdamwArgs){.n = n, .step = k->step, .param_dtype = m->weight};
    a->lr = 3e-3;
    a->beta1 = 0.9;
    a->beta2 = 0.95;
    a->eps = 1e-8;
    a->weight_decay = k->weight_decay;
    a->grad_scale = (float)k->grad_scale;
    a->w = tensor_dev(case_tensor(c, TENSOR_INOUT, "w", DTYPE_F32, 1, n, n, 1));
    a->m = tensor_dev(case_tensor(c, TENSOR_INOUT, "m", DTYPE_F32, 1, n, n, 0.1));
    Tensor *v = case_tensor(c, TENSOR_INOUT, "v", DTYPE_F32, 1, n, n, 0.1);
    float *x = tensor_host(v);
    for (int64_t i = 0; i < n; i++) x[i] = i % 7 ? x[i] * x[i] : 0;
    a->v = tensor_dev(v);
    a->grad = tensor_dev(case_tensor(c, TENSOR_IN, "grad", DTYPE_F32, 1, n, n, 1));
    if (k->gate) {
        const StepGate gate = {.rates = {.step = 12, .lr = 3e-3, .correct1 = 0.7, .correct2 = 0.4},
                               .grad_scale = (float)k->grad_scale,
                               .skip = skip};
        a->gate = case_gate(c, TENSOR_IN, &gate);
        a->lr = (double)NAN; // not read
        a->grad_scale = NAN;
    }
    if (k->R) case_adamw_fp8(c, a, k->R, k->sort, skip);
    if (!k->param) return;
    const TensorRole role = skip ? TENSOR_INOUT : TENSOR_OUT; // skipped: as it was
    Tensor *p = case_tensor(c, role, "param", m->weight, 1, n, n, 1);
    p->exact = skip;
    a->param = tensor_dev(p);
}
