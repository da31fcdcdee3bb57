// op_cases_fp8.c -- cases of fp8_quantize and fp8_update: shapes, which outputs are asked for, and
// the numbers that FP8 has edges for. All but the column sums is compared bit for bit. And what
// cases of FP8 have in common.
//
// SPDX-License-Identifier: MIT
#include "engine/base/rng.h"
#include "tests/kernels/op_cases.h"

#include <float.h>
#include <math.h>
#include <string.h>

// ---- what cases of FP8 have in common -----------------------------------------------------------

int64_t case_row16(int64_t n, bool pad)
{
    return (n + 15) / 16 * 16 + (pad ? 16 : 0);
}

Tensor *case_operand(Case *c, TensorRole role, const char *name, DType t, int64_t rows,
                     int64_t cols, int64_t ld, bool exact)
{
    static const float of[8] = {0, 0.5f, -0.5f, 1, -1, 2, -2, 1};
    Tensor *x = case_tensor(c, role, name, t, rows, cols, ld, 1);
    x->exact = exact;
    if (!exact || role == TENSOR_OUT) return x;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < cols; k++)
            dtype_store(tensor_host(x), t, r * ld + k,
                        of[rng_below(c->seed + 1, (uint64_t)c->n, (uint64_t)(r * cols + k), 8)]);
    return x;
}

// Words that are compared bit for bit. `value`: n of them; NULL: normal numbers.
static Tensor *exact_words(Case *c, TensorRole role, const char *name, int64_t n, const void *value)
{
    Tensor *t = case_tensor(c, role, name, DTYPE_F32, 1, n, n, 1);
    t->exact = true;
    if (value) memcpy(tensor_host(t), value, (size_t)n * 4);
    return t;
}

// Scales lie at multiples of 16 bytes whatever the variant.
static Fp8Scale *scales(Case *c, TensorRole role, const char *name, int64_t n,
                        const Fp8Scale *value)
{
    const int skew = c->skew;
    c->skew = 0;
    Tensor *t = exact_words(c, role, name, 4 * n, value);
    c->skew = skew;
    return tensor_dev(t);
}

const float *case_inv(Case *c, const char *name, float inv, DType t)
{
    const Fp8Scale s = {.inv = inv, .scale = 1 / inv, .max = fp8_max(t)};
    return &scales(c, TENSOR_IN, name, 1, &s)->inv;
}

static Tensor *compared(Tensor *t, const Fp8OutCase *k)
{
    t->exact = k->exact;
    t->floor = k->floor;
    return t;
}

void case_fp8_out(Case *c, Fp8Out *o, int64_t R, int64_t C, const Fp8OutCase *k)
{
    static const Fp8Count before = {.nonfinite = 3, .flushed = 70};
    const Fp8Scale s = {.inv = 1 / k->scale, .scale = k->scale, .max = fp8_max(o->dtype)};
    const TensorRole role = k->kept ? TENSOR_INOUT : TENSOR_OUT;
    o->scale = scales(c, k->writes_scale ? TENSOR_INOUT : TENSOR_IN, "scale", 1, &s);
    if (k->q) {
        o->ld_q = k->ld_q;
        Tensor *q = case_tensor(c, role, "q", o->dtype, R, C, o->ld_q, 1);
        o->q = tensor_dev(compared(q, k));
    }
    if (k->qt) { // its padding is written
        o->ld_qt = k->ld_qt;
        Tensor *qt = case_tensor(c, role, "qt", o->dtype, C, o->ld_qt, o->ld_qt, 1);
        o->qt = tensor_dev(compared(qt, k));
    }
    if (k->amax)
        o->amax = tensor_dev(compared(exact_words(c, TENSOR_INOUT, "amax", 1, &k->seen), k));
    if (k->count) o->count = tensor_dev(exact_words(c, TENSOR_INOUT, "count", 4, &before));
}

// ---- fp8_quantize -------------------------------------------------------------------------------

enum {
    PAD = 1, // rows of all tensors are longer than they must be
    NO_Q = 2,
    NO_QT = 4,
    NO_AMAX = 8,
    NO_COUNT = 16,
    CURRENT = 32,
    DBIAS = 64,
    ADD = 128, // dbias accumulates
    KEPT = 256,
};

typedef enum Numbers {
    NORMAL,    // the scale clamps some and flushes others
    ZEROS,     // of both signs
    NONFINITE, // some of them
    NO_FINITE, // NaN and infinity alone
    LARGE,     // near the largest of the type
    TINY,      // subnormal in f32 and f16
    MIDDLES,   // numbers of FP8, the middles between them, and their neighbours
} Numbers;

const Fp8QuantizeCase fp8_quantize_cases[24] = {
    {1, 1, 0, NORMAL, 1, 0},
    {7, 13, PAD | DBIAS, NORMAL, 100, 0},
    {64, 64, DBIAS | ADD, NORMAL, 300, 0},
    {63, 65, PAD | DBIAS, NORMAL, 37.3f, 0},
    {65, 63, CURRENT | DBIAS, NORMAL, 5, 0},
    {0, 5, DBIAS, NORMAL, 1, 0},
    {0, 5, CURRENT | DBIAS | ADD, NORMAL, 7, 0},
    {5, 0, CURRENT | DBIAS, NORMAL, 7, 0},
    {1, 300, NO_QT | DBIAS, NORMAL, 0.01f, 0},
    {300, 1, NO_Q | DBIAS, NORMAL, 0.0003f, 0},
    {130, 257, PAD | NO_AMAX | NO_COUNT, NORMAL, 100, 0},
    {129, 127, NO_QT | NO_COUNT | CURRENT, NORMAL, 0, 3},
    {31, 33, NO_Q | NO_AMAX | CURRENT, NORMAL, 0, -2},
    {33, 17, DBIAS, ZEROS, 3, 0},
    {16, 32, CURRENT, ZEROS, 3, 5},
    {48, 80, PAD, NONFINITE, 20, 0},
    {37, 41, CURRENT, NONFINITE, 20, 0},
    {9, 17, CURRENT | DBIAS, NO_FINITE, 20, 0},
    {20, 70, 0, LARGE, 0x1p-120f, 0},
    {40, 24, CURRENT, LARGE, 1, 64},
    {24, 40, CURRENT | PAD, TINY, 1, 0},
    {17, 19, 0, TINY, FLT_MAX, 0},
    {64, 96, PAD, MIDDLES, 0.25f, 0},
    {512, 96, DBIAS | ADD, NORMAL, 1000, 0},
};

// The largest finite number of a type.
static float largest(DType t)
{
    return t == DTYPE_F32 ? FLT_MAX : t == DTYPE_BF16 ? bf16_to_f32(0x7f7f) : 65504;
}

static float number(const Fp8QuantizeCase *k, DType t, DType fp8, int64_t i, float normal)
{
    switch (k->numbers) {
    case NORMAL: return normal;
    case ZEROS: return i % 3 ? 0.0f : -0.0f;
    case NONFINITE:
        return i % 61 == 7 ? NAN : i % 67 == 9 ? INFINITY : i % 71 == 5 ? -INFINITY : normal;
    case NO_FINITE: return i % 3 == 0 ? -INFINITY : i % 3 == 1 ? NAN : -NAN;
    case LARGE: return largest(t) * (i % 5 == 0 ? 1.0f : 0.25f * (float)sin((double)i));
    case TINY: return normal * (t == DTYPE_F16 ? 0x1p-23f : 0x1p-128f);
    case MIDDLES: break;
    }
    // Number i / 6 and the middle above it, each with the neighbours in f32.
    const uint8_t q = (uint8_t)(i / 6 % 256);
    const float lo = fp8_to_f32(q, fp8), hi = fp8_to_f32((uint8_t)(q + 1), fp8);
    const uint32_t near = dtype_bits(i / 3 % 2 ? (lo + hi) / 2 : lo);
    return dtype_float(near + (uint32_t)(i % 3) - (near & 0x7fffffffu ? 1 : 0)) / k->scale;
}

// floor: of the tolerance of what the numbers are; 0: exact.
static void build_out(Case *c, Fp8Out *o, int64_t R, int64_t C, int flags, float scale,
                      double floor)
{
    static const float seen[] = {-1, 0, 1e30f};
    const Fp8OutCase k = {.kept = flags & KEPT,
                          .q = !(flags & NO_Q),
                          .qt = !(flags & NO_QT),
                          .amax = !(flags & NO_AMAX),
                          .count = !(flags & NO_COUNT),
                          .writes_scale = flags & CURRENT,
                          .exact = floor <= 0,
                          .floor = floor,
                          .ld_q = case_row16(C, flags & PAD),
                          .ld_qt = case_row16(R, flags & PAD),
                          .scale = scale,
                          .seen = seen[c->seed % 3]};
    case_fp8_out(c, o, R, C, &k);
}

void build_fp8_quantize(Case *c, int variant, const Mix *m)
{
    const Fp8QuantizeCase *k = &fp8_quantize_cases[variant];
    Fp8QuantizeArgs *a = &c->args.fp8_quantize;
    *a = (Fp8QuantizeArgs){.R = k->R, .C = k->C, .margin = k->margin};
    a->ld = k->C + (k->flags & PAD ? 3 : 0);
    a->current = k->flags & CURRENT;
    a->accumulate = k->flags & ADD;
    a->src_dtype = m->act;
    // The two policies that have bf16 here take one format each.
    a->out.dtype = (variant + (m->resid == DTYPE_BF16)) % 2 ? DTYPE_E5M2 : DTYPE_E4M3;
    Tensor *src = case_tensor(c, TENSOR_IN, "src", m->act, k->R, k->C, a->ld, 1);
    for (int64_t i = 0; i < k->R * k->C; i++) {
        const int64_t at = i / k->C * a->ld + i % k->C;
        const float x = dtype_load(tensor_host(src), m->act, at);
        dtype_store(tensor_host(src), m->act, at, number(k, m->act, a->out.dtype, i, x));
    }
    a->src = tensor_dev(src);
    build_out(c, &a->out, k->R, k->C, k->flags, k->scale, 0);
    if (!(k->flags & DBIAS)) return;
    const TensorRole role = a->accumulate ? TENSOR_INOUT : TENSOR_OUT;
    a->dbias = tensor_dev(case_tensor(c, role, "dbias", DTYPE_F32, 1, k->C, k->C, 1));
}

// A row's numbers differ in their last bits, and so may FP8 numbers by a step; what is clamped or
// flushed does not, with this scale.
void case_layernorm_fp8(Case *c, LayernormFwdArgs *a, int sort, double floor)
{
    static const int flags[] = {0, NO_QT | NO_COUNT, NO_Q | PAD, PAD};
    a->q.dtype = sort == 2 ? DTYPE_E5M2 : DTYPE_E4M3;
    build_out(c, &a->q, a->N, a->C, flags[sort], 8, fmax(floor, 2e-6));
}

void case_adamw_fp8(Case *c, AdamwArgs *a, int64_t R, int sort, bool skip)
{
    static const int flags[] = {0, NO_QT | NO_COUNT, NO_Q | PAD, PAD};
    a->R = R;
    a->q.dtype = sort == 2 ? DTYPE_E5M2 : DTYPE_E4M3;
    build_out(c, &a->q, R, a->n / R, flags[sort] | (skip ? KEPT : 0), 8, skip ? 0 : 2e-6);
}

// ---- fp8_update ---------------------------------------------------------------------------------

const Fp8UpdateCase fp8_update_cases[12] = {
    {1, 1, 0, FP8_AMAX_MAX, -1, false},        {5, 7, 0, FP8_AMAX_MAX, 0, false},
    {144, 16, 2, FP8_AMAX_MAX, -1, true},      {13, 31, -3, FP8_AMAX_MAX, 0, true},
    {3, 1024, 0, FP8_AMAX_MAX, 1, false},      {6, 1025, 64, FP8_AMAX_MAX, -1, false},
    {9, 0, 0, FP8_AMAX_MAX, -1, false},        {0, 8, 0, FP8_AMAX_MAX, -1, false},
    {130, 3, 0, FP8_AMAX_MAX, 1, true},        {17, 5, -64, FP8_AMAX_MOST_RECENT, -1, false},
    {2, 1, 0, FP8_AMAX_MOST_RECENT, 1, false}, {33, 129, 7, FP8_AMAX_MOST_RECENT, 0, false},
};

// What a slot may have seen: nothing, zeros, the smallest and the largest numbers, and what no
// producer gives.
static float amax_of(uint64_t seed, int64_t i)
{
    static const float edges[] = {-1, 0, 0x1p-149f, FLT_MIN, FLT_MAX, INFINITY, NAN};
    const int64_t k = (int64_t)rng_below(seed, 77, (uint64_t)i, 2 * LT_COUNT(edges));
    return k < (int64_t)LT_COUNT(edges) ? edges[k] : ldexpf(1.0f + (float)i / 512, (int)k - 10);
}

void build_fp8_update(Case *c, int variant, const Mix *m)
{
    const Fp8UpdateCase *k = &fp8_update_cases[variant];
    Fp8UpdateArgs *a = &c->args.fp8_update;
    Fp8Scale before[144];
    float amax[144];
    (void)m; // it has no types
    *a = (Fp8UpdateArgs){
        .n = k->n, .length = k->length, .margin = k->margin, .algorithm = k->algorithm};
    for (int64_t i = 0; i < k->n; i++) {
        const float s = ldexpf(1, (int)(i % 9)) * 1.1f;
        amax[i] = amax_of(c->seed, i);
        before[i] = (Fp8Scale){.inv = 1 / s, .scale = s, .max = i % 3 == 2 ? 57344.0f : 448.0f};
    }
    a->scale = scales(c, TENSOR_INOUT, "scale", k->n, before);
    a->amax = tensor_dev(exact_words(c, TENSOR_INOUT, "amax", k->n, amax));
    if (k->skip >= 0) {
        Tensor *skip = case_ints(c, "skip", 1, 1);
        *(int32_t *)tensor_host(skip) = k->skip;
        a->skip = tensor_dev(skip);
    }
    if (k->held) {
        Tensor *held = case_ints(c, "held", k->n, 2);
        for (int64_t i = 0; i < k->n; i++) ((int32_t *)tensor_host(held))[i] = i % 3 == 1;
        a->held = tensor_dev(held);
    }
    if (k->length == 0) return;
    Tensor *history = exact_words(c, TENSOR_INOUT, "history", k->n * k->length, NULL);
    float *h = tensor_host(history);
    for (int64_t i = 0; i < k->n * k->length; i++) h[i] = i / k->length % 4 ? fabsf(h[i]) : 0;
    a->history = tensor_dev(history);
    Tensor *at = exact_words(c, TENSOR_INOUT, "at", k->n, NULL);
    int32_t *to = tensor_host(at);
    for (int64_t i = 0; i < k->n; i++)
        to[i] = (int32_t)rng_below(c->seed, 78, (uint64_t)i, (uint64_t)k->length);
    a->at = tensor_dev(at);
}
