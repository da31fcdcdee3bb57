// op_cases_matmul_fp8.c -- cases of matmul_fp8: shapes, formats, epilogues, and which of its
// outputs are asked for.
//
// Exact cases have powers of two for data, small sums and a ReLU: any order of summation and any
// number of bits above 12 gives the same result, so everything is compared bit for bit. The others
// have normal data; there a device that adds with 14 bits gets a tolerance of its own.
//
// SPDX-License-Identifier: MIT
#include "tests/kernels/op_cases.h"

#include <math.h>

enum {
    E5_A = 1, // A is e5m2; with neither both are e4m3
    E5_B = 2,
    PAD = 4, // rows of all tensors are longer than they must be
    F32_C = 8,
    BIAS = 16,
    NO_C = 32,
    OUT_Q = 64,
    OUT_QT = 128,
    OUT_BOTH = OUT_Q | OUT_QT,
    OUT_E5 = 256,   // the output is e5m2
    NO_STATS = 512, // neither amax nor count
    NO_AUX = 1024,
    ACCUMULATE = 2048,
    DBIAS = 4096,
    DBIAS_ADD = 8192,
    FAST = 16384,
    EXACT = 32768,
    SMALL = 65536,    // a scale that lets many elements vanish; else one that clamps some
    HAS_NAN = 131072, // a NaN in A
};

const MatmulFp8Case matmul_fp8_cases[49] = {
    {1, 1, 1, EXACT, MATMUL_PLAIN, 0},
    {16, 16, 16, EXACT | FAST | BIAS, MATMUL_PLAIN, 0},
    {129, 33, 17, EXACT | E5_A | PAD, MATMUL_PLAIN, 0},
    {33, 127, 100, EXACT | E5_B | PAD | BIAS | OUT_BOTH, MATMUL_PLAIN, 0},
    {20, 129, 512, EXACT | FAST | NO_C | OUT_BOTH, MATMUL_PLAIN, 0},
    {17, 24, 3072, EXACT | E5_A | F32_C | ACCUMULATE, MATMUL_PLAIN, 0},
    {64, 48, 16, EXACT | BIAS | OUT_BOTH | SMALL, MATMUL_GELU, ACT_RELU},
    {127, 31, 100, EXACT | PAD | BIAS | NO_C | OUT_BOTH, MATMUL_GELU, ACT_RELU},
    {130, 17, 32, EXACT | E5_A | OUT_BOTH | OUT_E5 | DBIAS, MATMUL_DGELU, ACT_RELU},
    {48, 65, 17, EXACT | E5_A | PAD | NO_C | OUT_QT | OUT_E5 | DBIAS | DBIAS_ADD, MATMUL_DGELU,
     ACT_RELU},
    {16, 128, 768, EXACT | E5_A | F32_C | PAD, MATMUL_PLAIN, 0},
    {5, 7, 0, BIAS, MATMUL_PLAIN, 0},
    {5, 7, 0, EXACT | OUT_BOTH | BIAS, MATMUL_PLAIN, 0},
    {5, 7, 0, F32_C | ACCUMULATE, MATMUL_PLAIN, 0},
    {0, 5, 16, OUT_BOTH, MATMUL_PLAIN, 0},
    {5, 0, 16, NO_C | OUT_BOTH | DBIAS, MATMUL_DGELU, ACT_RELU},
    {0, 0, 0, 0, MATMUL_PLAIN, 0},
    {7, 13, 5, PAD | BIAS, MATMUL_PLAIN, 0},
    {65, 63, 33, E5_A | PAD, MATMUL_PLAIN, 0},
    {31, 129, 100, E5_B | BIAS | FAST, MATMUL_PLAIN, 0},
    {1, 300, 512, BIAS | OUT_Q, MATMUL_PLAIN, 0},
    {300, 1, 128, OUT_QT | NO_STATS, MATMUL_PLAIN, 0},
    {9, 16, 3072, FAST | PAD, MATMUL_PLAIN, 0},
    {9, 40, 768, E5_A | F32_C | PAD, MATMUL_PLAIN, 0},
    {96, 80, 61, E5_A | F32_C | ACCUMULATE | PAD, MATMUL_PLAIN, 0},
    {130, 47, 272, E5_B | F32_C | ACCUMULATE, MATMUL_PLAIN, 0},
    {66, 70, 48, FAST | BIAS | OUT_BOTH, MATMUL_GELU, ACT_GELU_TANH},
    {40, 31, 64, BIAS | NO_C | NO_AUX | OUT_BOTH | PAD, MATMUL_GELU, ACT_GELU_ERF},
    {128, 32, 16, NO_AUX | BIAS, MATMUL_GELU, ACT_GELU_TANH},
    {33, 129, 64, NO_C | OUT_BOTH | SMALL, MATMUL_GELU, ACT_GELU_TANH},
    {66, 70, 48, E5_A | NO_C | OUT_BOTH | OUT_E5 | DBIAS, MATMUL_DGELU, ACT_GELU_TANH},
    {127, 33, 100, E5_A | PAD | OUT_BOTH | OUT_E5 | DBIAS | DBIAS_ADD, MATMUL_DGELU, ACT_GELU_ERF},
    {9, 10, 11, E5_A, MATMUL_DGELU, ACT_GELU_TANH},
    {32, 48, 64, E5_A | F32_C | DBIAS | NO_C | OUT_Q | NO_STATS | SMALL, MATMUL_DGELU,
     ACT_GELU_TANH},
    {20, 36, 32, HAS_NAN | BIAS | OUT_BOTH | PAD, MATMUL_GELU, ACT_GELU_TANH},
    {40, 36, 32, HAS_NAN | E5_A | NO_C | OUT_BOTH | OUT_E5 | DBIAS, MATMUL_DGELU, ACT_RELU},
    {48, 32, 64, E5_A | F32_C | ACCUMULATE, MATMUL_PLAIN, 0}, // what a library serves, too
    {16, 64, 128, EXACT | FAST | BIAS, MATMUL_PLAIN, 0},
    {64, 48, 96, FAST | BIAS, MATMUL_PLAIN, 0},
    {33, 20, 32, EXACT | E5_A | PAD | DBIAS, MATMUL_DGELU, ACT_RELU},
    // What Hopper's tensor cores take: rows at multiples of 16 bytes. (In odd cases all tensors but
    // those of FP8 are off their alignment.)
    {72, 136, 144, FAST | BIAS | OUT_BOTH, MATMUL_GELU, ACT_GELU_TANH},
    {37, 72, 528, EXACT | FAST | BIAS | NO_C | NO_AUX | OUT_BOTH, MATMUL_GELU, ACT_RELU},
    {136, 72, 272, E5_A | OUT_BOTH | OUT_E5 | DBIAS, MATMUL_DGELU, ACT_GELU_TANH},
    {129, 33, 300, FAST | BIAS | NO_C | NO_AUX | OUT_QT | PAD, MATMUL_GELU, ACT_GELU_ERF},
    {40, 64, 48, E5_A, MATMUL_PLAIN, 0},
    {150, 16, 16, EXACT | FAST | BIAS | NO_C | NO_AUX | OUT_Q | SMALL, MATMUL_GELU, ACT_RELU},
    // Onto a C of 16 bits: a gradient that is there.
    {40, 72, 272, E5_A | ACCUMULATE, MATMUL_PLAIN, 0},
    {33, 20, 32, EXACT | E5_A | ACCUMULATE | PAD, MATMUL_PLAIN, 0},
    {72, 40, 528, EXACT | E5_A | ACCUMULATE, MATMUL_PLAIN, 0},
};

static void build_out(Case *c, MatmulFp8Args *a, int flags, double slack)
{
    static const float seen[] = {-1, 0, 1000};
    const DType t = flags & OUT_E5 ? DTYPE_E5M2 : DTYPE_E4M3;
    // The largest of a few thousand normal elements is about 4.
    const float part = flags & SMALL ? (t == DTYPE_E4M3 ? 0x1p-17f : 0x1p-31f) : 0.5f;
    const Fp8OutCase k = {.q = flags & OUT_Q,
                          .qt = flags & OUT_QT,
                          .amax = !(flags & NO_STATS),
                          .count = !(flags & NO_STATS),
                          .exact = flags & EXACT,
                          .floor = slack,
                          .ld_q = case_row16(a->N, flags & PAD),
                          .ld_qt = case_row16(a->M, flags & PAD),
                          .scale = fp8_max(t) * part,
                          .seen = seen[c->seed % 3]};
    a->out.dtype = t;
    case_fp8_out(c, &a->out, a->M, a->N, &k);
}

static void build_operands(Case *c, MatmulFp8Args *a, int flags)
{
    const bool exact = flags & EXACT;
    Tensor *A = case_operand(c, TENSOR_IN, "A", a->a_dtype, a->M, a->K, a->lda, exact);
    if (flags & HAS_NAN) dtype_store(tensor_host(A), a->a_dtype, a->M / 2 * a->lda, NAN);
    a->A = tensor_dev(A);
    a->B = tensor_dev(case_operand(c, TENSOR_IN, "B", a->b_dtype, a->N, a->K, a->ldb, exact));
    const float b_inv = exact ? 0.5f : (float)(1 / sqrt((double)a->K + 1));
    a->a_inv = case_inv(c, "a_inv", exact ? 0.25f : 0.77f, a->a_dtype);
    a->b_inv = case_inv(c, "b_inv", b_inv, a->b_dtype);
}

static double unit(DType t)
{
    return t == DTYPE_F32 ? 0 : t == DTYPE_BF16 ? 0x1p-7 : 0x1p-10;
}

void build_matmul_fp8(Case *c, int variant, const Mix *m)
{
    const MatmulFp8Case *v = &matmul_fp8_cases[variant];
    const int flags = v->flags;
    const bool exact = flags & EXACT;
    MatmulFp8Args *a = &c->args.matmul_fp8;
    *a = (MatmulFp8Args){.M = v->M, .N = v->N, .K = v->K};
    a->lda = case_row16(a->K, flags & PAD);
    a->ldb = case_row16(a->K, false);
    a->ldc = a->N + (flags & PAD ? 5 : 0);
    a->accumulate = flags & ACCUMULATE;
    a->fast = flags & FAST;
    a->epilogue = v->epilogue;
    a->act = v->act;
    a->a_dtype = flags & E5_A ? DTYPE_E5M2 : DTYPE_E4M3;
    a->b_dtype = flags & E5_B ? DTYPE_E5M2 : DTYPE_E4M3;
    a->c_dtype = flags & F32_C ? DTYPE_F32 : m->act;
    a->bias_dtype = variant % 3 ? m->weight : DTYPE_F32;
    build_operands(c, a, flags);
    if (flags & BIAS)
        a->bias =
            tensor_dev(case_operand(c, TENSOR_IN, "bias", a->bias_dtype, 1, a->N, a->N, exact));
    // Where aux flips, everything behind it follows; and 14 bits of mantissa, if it is a device.
    const double cut = 0x1p-11 * fmax(1, (double)a->K / 256);
    const double adds = c->device->is_host || exact ? 0 : cut;
    const double slack = fmax(a->epilogue == MATMUL_GELU ? unit(a->c_dtype) : 0, adds);
    if (!(flags & NO_C)) {
        Tensor *C = case_operand(c, a->accumulate ? TENSOR_INOUT : TENSOR_OUT, "C", a->c_dtype,
                                 a->M, a->N, a->ldc, exact);
        C->floor = slack;
        a->C = tensor_dev(C);
    }
    if (a->epilogue != MATMUL_PLAIN && !(flags & NO_AUX)) {
        const TensorRole role = a->epilogue == MATMUL_GELU ? TENSOR_OUT : TENSOR_IN;
        Tensor *x = case_operand(c, role, "aux", a->c_dtype, a->M, a->N, a->ldc, exact);
        x->floor = adds;
        a->aux = tensor_dev(x);
    }
    if (flags & DBIAS) {
        a->dbias_accumulate = flags & DBIAS_ADD;
        Tensor *d = case_operand(c, a->dbias_accumulate ? TENSOR_INOUT : TENSOR_OUT, "dbias",
                                 DTYPE_F32, 1, a->N, a->N, exact);
        d->floor = fmax(unit(a->c_dtype), adds); // roundings of x that flip
        a->dbias = tensor_dev(d);
    }
    if (flags & OUT_BOTH) build_out(c, a, flags, fmax(slack, unit(a->c_dtype)));
}
