// op_cases_lamb.c -- cases of lamb: tensors of one chunk and of several, side by side, with gaps,
// empty ones, lengths of 0.
//
// SPDX-License-Identifier: MIT
#include "tests/kernels/op_cases_lamb.h"
#include "tests/kernels/op_cases_step.h"

#include <string.h>

enum { K = LAMB_CHUNK };

const LambCase lamb_cases[9] = {
    // segments, weight decay, grad_scale, param, skip, {gap, n, decayed, zero} ...
    {0, 0.01, 1, true, false, {{0, 0, 0, 0}}},
    {1, 0.01, 1, true, false, {{0, 1, 1, 0}}},
    {4, 0.1, 0.3, true, false, {{0, 63, 1, 0}, {0, 64, 1, 0}, {0, 65, 1, 0}, {3, 17, 0, 0}}},
    {4, 0.1, 1, true, false, {{0, 2 * K + 77, 1, 0}, {7, 5, 0, 0}, {0, 40003, 1, 0}, {1, K, 0, 0}}},
    // the last one alone has a ratio
    {4, 0.01, 1, true, false, {{0, 100, 1, 1}, {28, 100, 1, 3}, {28, 100, 0, 0}, {28, 100, 1, 0}}},
    {3, 0, 1, true, false, {{5, 100, 1, 2}, {11, 300, 1, 2}, {0, 9, 0, 2}}}, // u is 0
    // empty ones
    {4, 0.1, 1, true, false, {{0, 0, 1, 0}, {0, 33, 1, 0}, {0, 0, 0, 0}, {0, 31, 1, 0}}},
    {3, 0, 0x1p-16, false, false, {{0, K, 1, 0}, {0, K + 1, 1, 0}, {0, K - 1, 1, 0}}},
    {2, 0.01, 1, true, true, {{0, 4099, 1, 0}, {2, 64, 0, 0}}},
};

static int64_t lay_out(const LambCase *k, LambSegment *s)
{
    int64_t at = 0;
    for (int64_t i = 0; i < k->n_segment; i++) {
        at += k->segment[i].gap;
        s[i] = (LambSegment){.from = at, .n = k->segment[i].n, .decayed = k->segment[i].decayed};
        at += k->segment[i].n;
    }
    return at;
}

static float *vector(Case *c, const LambCase *k, const LambSegment *s, const char *name, int64_t n,
                     double scale, int zero)
{
    Tensor *t = case_tensor(c, TENSOR_INOUT, name, DTYPE_F32, 1, n, n, scale);
    float *x = tensor_host(t);
    for (int64_t i = 0; i < k->n_segment; i++)
        if (k->segment[i].zero & zero) memset(x + s[i].from, 0, (size_t)s[i].n * sizeof *x);
    t->exact = k->skip;
    return x;
}

void build_lamb(Case *c, int variant, const Mix *m)
{
    const LambCase *k = &lamb_cases[variant];
    LambSegment s[LAMB_CASE_SEGMENTS];
    LambArgs *a = &c->args.lamb;
    *a = (LambArgs){.n = lay_out(k, s), .n_segment = k->n_segment};
    a->n_chunk = lamb_chunks(s, k->n_segment);
    a->beta1 = 0.9;
    a->beta2 = 0.95;
    a->eps = 1e-6;
    a->weight_decay = k->weight_decay;
    a->param_dtype = m->weight;
    const int64_t n = a->n;
    vector(c, k, s, "w", n, 1, 1);
    vector(c, k, s, "m", n, 0.1, 2);
    float *v = vector(c, k, s, "v", n, 0.1, 2);
    for (int64_t i = 0; i < n; i++) v[i] = i % 7 ? v[i] * v[i] : 0;
    vector(c, k, s, "grad", n, 1 / k->grad_scale, 2);
    a->w = tensor_dev(&c->t[0]);
    a->m = tensor_dev(&c->t[1]);
    a->v = tensor_dev(&c->t[2]);
    a->grad = tensor_dev(&c->t[3]);
    a->segment =
        tensor_dev(case_bytes(c, TENSOR_IN, "segment", s, (size_t)k->n_segment * sizeof *s));
    const StepGate gate = {.rates = {.step = 12, .lr = 3e-2, .correct1 = 0.7, .correct2 = 0.4},
                           .grad_scale = (float)k->grad_scale,
                           .skip = k->skip};
    a->gate = case_gate(c, TENSOR_IN, &gate);
    if (!k->param) return;
    const TensorRole role = k->skip ? TENSOR_INOUT : TENSOR_OUT; // skipped: as it was
    Tensor *p = case_tensor(c, role, "param", m->weight, 1, n, n, 1);
    p->exact = k->skip;
    a->param = tensor_dev(p);
}
