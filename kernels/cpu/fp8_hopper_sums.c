// fp8_hopper_sums.c -- matmul_fp8 with sums as Hopper's tensor cores make them, to study what that
// does to a training: --ops.matmul_fp8=hopper_sums.
// Contract: kernels/ops/matmul_fp8.h
//
// WHAT    The model is the one that DeepSeek-AI measured (DeepSeek-V3, 2024, section 3.5.2). One
//         instruction adds 32 products to an accumulator:
//
//             the largest exponent of the 33 addends decides where the last of 14 bits lies
//             each addend is cut there (towards zero), they are added, the sum is cut to 14 bits
//
//                 1.01101010111011        largest
//                 0.00000001101011|101    what falls off here is lost
//
//         With `fast` one accumulator goes through all of K. Without, it is added to an f32
//         register every 128 of k and starts again from 0.
//
// COST    About a hundred times that of the real product; threads share rows.
// ROUND   As above; scale and epilogue are the reference's.
// SHAPES  everything the contract allows, when it is asked for by name.
//
// SPDX-License-Identifier: MIT
#include "kernels/cpu/gemm_fp8.h"
#include "kernels/ref/matmul_fp8_finish.h"

#include <math.h>

enum {
    BITS = 14,         // of an addend
    AT_ONCE = 32,      // products of an instruction
    PROMOTE = 128,     // of k, between two visits to the f32 register
    LANES = 16,        // columns side by side
    F32_MANTISSA = 23, // bits of one
};

// The largest |addend| decides the weight of the last bit that is kept.
static float last_bit(float largest)
{
    const uint32_t exponent = dtype_bits(fmaxf(largest, 0x1p-60f)) >> F32_MANTISSA;
    return dtype_float((exponent - (BITS - 1)) << F32_MANTISSA);
}

// x in units of the last bit, without its fraction; what is not finite stays so.
static float cut(float x, float per_unit)
{
    const float q = x * per_unit;
    return fabsf(q) < (float)(2 << BITS) ? (float)(int32_t)q : q;
}

// acc[LANES] += a[AT_ONCE] b[AT_ONCE][LANES]
static void add_products(float *acc, const float *a, const float *b)
{
    for (int l = 0; l < LANES; l++) {
        float largest = fabsf(acc[l]);
        for (int i = 0; i < AT_ONCE; i++) largest = fmaxf(largest, fabsf(a[i] * b[i * LANES + l]));
        const float unit = last_bit(largest), per_unit = 1 / unit;
        float sum = cut(acc[l], per_unit); // at most 33 numbers of 14 bits: exact
        for (int i = 0; i < AT_ONCE; i++) sum += cut(a[i] * b[i * LANES + l], per_unit);
        const uint32_t keep = ~0u << (F32_MANTISSA + 1 - BITS);
        acc[l] = dtype_float(dtype_bits(sum * unit) & keep);
    }
}

// One row of A with LANES columns.
static void add_row(float *sum, const float *a, const float *b, int64_t K, bool fast)
{
    float acc[LANES] = {0};
    for (int64_t k = 0; k < K; k += AT_ONCE) {
        add_products(acc, a + k, b + k * LANES);
        if (fast || ((k + AT_ONCE) % PROMOTE != 0 && k + AT_ONCE < K)) continue;
        for (int l = 0; l < LANES; l++) {
            sum[l] += acc[l];
            acc[l] = 0;
        }
    }
    for (int l = 0; l < LANES; l++) sum[l] += acc[l];
}

typedef struct Room { // pieces of scratch, in f32
    float *a;         // [M][Kp]
    float *b;         // [Np / LANES][Kp][LANES]
    float *sum;       // [M][Np]
    int64_t Kp, Np;
} Room;

static Room room_of(const MatmulFp8Args *a, void *scratch)
{
    Room r = {.Kp = LT_ROUND_UP(a->K, AT_ONCE), .Np = LT_ROUND_UP(a->N, LANES)};
    r.a = scratch;
    r.b = r.a + a->M * r.Kp;
    r.sum = r.b + r.Np * r.Kp;
    return r;
}

static bool supports(const MatmulFp8Args *a, const OpCtx *cx, const char **why)
{
    (void)a;
    *why = "only when it is asked for by name";
    return cx->ops->info[OP_matmul_fp8].forced;
}

static size_t scratch(const MatmulFp8Args *a, const OpCtx *cx)
{
    (void)cx;
    const int64_t Kp = LT_ROUND_UP(a->K, AT_ONCE), Np = LT_ROUND_UP(a->N, LANES);
    return (size_t)(a->M * Kp + Np * Kp + a->M * Np) * sizeof(float);
}

static double sum_of(const MatmulFp8Args *a, int64_t m, int64_t n, const void *from)
{
    (void)a;
    const Room *r = from;
    return (double)r->sum[m * r->Np + n];
}

static void widen(const MatmulFp8Args *a, const Room *r)
{
    for (int64_t m = 0; m < a->M; m++)
        for (int64_t k = 0; k < r->Kp; k++)
            r->a[m * r->Kp + k] =
                k < a->K ? fp8_to_f32(((const uint8_t *)a->A)[m * a->lda + k], a->a_dtype) : 0;
    for (int64_t n = 0; n < r->Np; n++) {
        float *to = r->b + n / LANES * LANES * r->Kp + n % LANES;
        for (int64_t k = 0; k < r->Kp; k++)
            to[k * LANES] = n < a->N && k < a->K
                                ? fp8_to_f32(((const uint8_t *)a->B)[n * a->ldb + k], a->b_dtype)
                                : 0;
    }
}

static Status run(const MatmulFp8Args *a, OpCtx *cx, Err *err)
{
    (void)err;
    const Room r = room_of(a, cx->scratch);
    if (a->M == 0 || a->N == 0) return ERR_NONE;
    widen(a, &r);
#pragma omp parallel for num_threads(cx->device->threads) schedule(static)
    for (int64_t m = 0; m < a->M; m++) {
        for (int64_t n = 0; n < r.Np; n += LANES) {
            float *sum = r.sum + m * r.Np + n;
            for (int l = 0; l < LANES; l++) sum[l] = 0;
            add_row(sum, r.a + m * r.Kp, r.b + n * r.Kp, r.Kp, a->fast);
        }
    }
    matmul_fp8_finish(a, sum_of, &r);
    return ERR_NONE;
}

void cpu_matmul_fp8_register_hopper_sums(Ops *ops)
{
    ops_add_matmul_fp8(
        ops, (Impl_matmul_fp8){
                 .impl = "hopper_sums", .supports = supports, .scratch = scratch, .run = run});
}
