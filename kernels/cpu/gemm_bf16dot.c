// gemm_bf16dot.c -- matrix product of bf16 operands with vdpbf16ps, f32 sums.
// Contracts: kernels/ops/matmul.h, matmul_fp8.h    Driver: gemm_driver.c
//
// WHAT    gemm_f32.c with another inner loop: an element of a panel is a *pair* of neighbouring k
//         in 32 bits, and one instruction adds two products to each of 16 sums. Tile, store and
//         walk are the same (gemm_tile.h).
//
//             panel, one pair of k:   (k0,k1) of i0 | (k0,k1) of i1 | ...
//
// COST    Twice the rate of f32 where the core has full-width bf16 units, half of it on cores that
//         have AMX for this purpose; cpu_open times it before `auto` uses it.
//
// ROUND   Products exact, sums in f32; subnormals are taken for zero.
// SHAPES  bf16 operands, or FP8 as bf16 (fp8_bf16.h), any C. Anything else: supports() says no.
//
// SPDX-License-Identifier: MIT
#define LATHE_ISA  avx512_bf16
#define LATHE_VB   64
#define LATHE_REGS 32
#include <immintrin.h>
#include "kernels/cpu/gemm_tile.h"
#include "engine/base/clock.h"
#include "kernels/cpu/bf16dot.h"
#include "kernels/cpu/cpu_peak.h"
#include "kernels/cpu/fp8_bf16.h"
#include "kernels/cpu/gemm_fp8.h"

// A pair of rows (k, k+1), or of one row and zero, for w columns of which n exist.
LT_INLINE void pair_rows(uint32_t *dst, const uint16_t *lo, const uint16_t *hi, int w, int64_t n)
{
    for (int i0 = 0; i0 < w; i0 += 16) {
        const int64_t left = n - i0 < 0 ? 0 : n - i0;
        const __mmask16 have = (__mmask16)(left >= 16 ? 0xffffu : (1u << left) - 1);
        const __mmask16 room = (__mmask16)(w - i0 >= 16 ? 0xffffu : (1u << (w - i0)) - 1);
        const __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(have, lo + i0));
        __m512i pairs = low;
        if (hi) {
            const __m512i high = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(have, hi + i0));
            pairs = _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
        }
        _mm512_mask_storeu_epi32(dst + i0, room, pairs);
    }
}

// Rows of 32 k are 16 pairs: turn 16 rows at a time.
LT_INLINE void pack_rows(uint32_t *dst, const void *src, DType t, int64_t at, int64_t ld, int w,
                         int64_t n, int64_t k)
{
    for (int64_t p = 0; p < k; p += 32) {
        const uint32_t mask = k - p >= 32 ? ~0u : (1u << (k - p)) - 1;
        const int64_t pairs = LT_MIN((int64_t)16, (k - p + 1) / 2);
#pragma GCC unroll 4
        for (int i0 = 0; i0 < w; i0 += 16) {
            VecF r[16];
            for (int i = 0; i < 16; i++)
                r[i] =
                    i0 + i < n ? (VecF)bf16_row(src, t, at + (i0 + i) * ld + p, mask) : (VecF){0};
            gemm_transpose(r);
            const __mmask16 room = (__mmask16)(w - i0 >= 16 ? 0xffffu : (1u << (w - i0)) - 1);
            for (int64_t i = 0; i < pairs; i++)
                _mm512_mask_storeu_ps(dst + (p / 2 + i) * w + i0, room, (__m512)r[i]);
        }
    }
}

LT_INLINE void pack_rows_side(uint32_t *dst, const GemmOperand *x, int64_t i0, int64_t n,
                              int64_t k0, int64_t k, DType t)
{
    if (x->is_b)
        pack_rows(dst, x->p, t, i0 * x->ld + k0, x->ld, NR, n, k);
    else
        pack_rows(dst, x->p, t, i0 * x->ld + k0, x->ld, MR, n, k);
}

static void pack_bf16dot(void *dst, const GemmOperand *x, int64_t i0, int64_t n, int64_t k0,
                         int64_t k)
{
    uint32_t *to = dst;
    if (!x->k_rows) {
        switch (x->dtype) {
        case DTYPE_E4M3: pack_rows_side(to, x, i0, n, k0, k, DTYPE_E4M3); break;
        case DTYPE_E5M2: pack_rows_side(to, x, i0, n, k0, k, DTYPE_E5M2); break;
        default: pack_rows_side(to, x, i0, n, k0, k, DTYPE_BF16); break;
        }
        return;
    }
    const uint16_t *src = (const uint16_t *)x->p + k0 * x->ld + i0;
    const int w = x->is_b ? NR : MR;
    for (int64_t p = 0; p < k; p += 2, to += w)
        pair_rows(to, src + p * x->ld, p + 1 < k ? src + (p + 1) * x->ld : NULL, w, n);
}

static __attribute__((noinline)) void tile_bf16dot(int64_t pairs, const void *panel_a,
                                                   const void *panel_b, float *part, int64_t ld,
                                                   const GemmBlock *b, int64_t r, int64_t c)
{
    const uint32_t *restrict A = panel_a, *restrict B = panel_b;
    VecF acc[MR][NV];
    gemm_tile_begin(acc, part, ld, b, r, c);
    for (int64_t p = 0; p < pairs; p++, A += MR, B += NR) {
        __m512i bv[NV];
#pragma GCC unroll 4
        for (int j = 0; j < NV; j++) bv[j] = _mm512_loadu_si512(B + j * VL);
#pragma GCC unroll 16
        for (int i = 0; i < MR; i++) {
            const __m512i av = _mm512_set1_epi32((int)A[i]);
#pragma GCC unroll 4
            for (int j = 0; j < NV; j++)
                acc[i][j] =
                    (VecF)_mm512_dpbf16_ps((__m512)acc[i][j], (__m512bh)av, (__m512bh)bv[j]);
        }
    }
    gemm_tile_end(acc, part, ld, b, r, c);
}

static void block_bf16dot(GemmThread *th, const GemmPlan *p, const GemmBlock *b)
{
    (void)p;
    gemm_walk(th, b, b->kp / 2, tile_bf16dot);
}

static const GemmKernel kernel = {.mr = MR,
                                  .nr = NR,
                                  .k_step = 2,
                                  .elem_bytes = 2,
                                  .kc = 2 * GEMM_KC,
                                  .shared_block = GEMM_SHARED_BLOCK,
                                  .priv_block = NC,
                                  .tasks = 4,
                                  .part_bytes = gemm_part_bytes,
                                  .pack = pack_bf16dot,
                                  .block = block_bf16dot};

static bool supports(const MatmulArgs *a, const OpCtx *cx, const char **why)
{
    (void)cx;
    *why = "bf16 operands only";
    return a->ab_dtype == DTYPE_BF16;
}

static size_t scratch(const MatmulArgs *a, const OpCtx *cx)
{
    return gemm_scratch(&kernel, a, cx);
}

static Status run(const MatmulArgs *a, OpCtx *cx, Err *err)
{
    (void)err;
    gemm_run(&kernel, a, cx);
    return ERR_NONE;
}

static size_t scratch_fp8(const MatmulFp8Args *a, const OpCtx *cx)
{
    return gemm_fp8_scratch(&kernel, a, cx);
}

static Status run_fp8(const MatmulFp8Args *a, OpCtx *cx, Err *err)
{
    return gemm_fp8_run(&kernel, a, cx, err);
}

void cpu_matmul_register_avx512_bf16(Ops *ops)
{
    ops_add_matmul(
        ops,
        (Impl_matmul){.impl = ISA_STRING, .supports = supports, .scratch = scratch, .run = run});
    ops_add_matmul_fp8(ops, (Impl_matmul_fp8){.impl = ISA_STRING,
                                              .supports = gemm_fp8_supports,
                                              .scratch = scratch_fp8,
                                              .run = run_fp8});
}

// Twelve independent chains, as in cpu_peak.c.
double cpu_peak_avx512_bf16(double seconds)
{
    enum { CHAINS = 12, STEPS = 4096 };
    const double start = clock_seconds();
    double done = 0, now = start;
    volatile int ones = 0x3f803f80;
    volatile float keep = 0;
    while (now - start < seconds) {
        const __m512i one = _mm512_set1_epi32(ones);
        __m512 x[CHAINS];
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) x[i] = _mm512_setzero_ps();
        for (int s = 0; s < STEPS; s++)
#pragma GCC unroll 12
            for (int i = 0; i < CHAINS; i++)
                x[i] = _mm512_dpbf16_ps(x[i], (__m512bh)one, (__m512bh)one);
        VecF sum = {0};
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) sum += (VecF)x[i];
        keep = sum[0];
        done += 4.0 * CHAINS * STEPS * 16;
        now = clock_seconds();
    }
    (void)keep;
    return done / (now - start);
}
