// amx_tile.h -- the AMX part of the AMX kernels: tile configuration, packing, the 32x32 product.
//
// A tile is a register of 16 rows x 64 bytes. One instruction multiplies two of them,
//     C[16 x 16 f32] += A[16 x 32 bf16] * B[32 x 16 bf16]
// where a row of A's tile is a row of A (32 k), and a row of B's tile is a pair of k for 16
// columns:
//
//     A tile     k0 k1 k2 ... k31         B tile     (k0,k1) of n0 | (k0,k1) of n1 | ... n15
//       m0       .. .. ..     ..            pair 0   ..              ..
//       m1       .. .. ..     ..            pair 1   (k2,k3) of n0 | ...
//
// Panels are 32 wide; a step of 32 k is two tiles (2 KiB). The product keeps a 32 x 32 block of C
// in tiles 0-3 and reloads each operand tile right after its last use, for the next step: 1.1 to
// 1.2 times the rate of four loads followed by four products. B streams from L2 with the
// non-temporal tile load, so that it does not push A's strip out of L1.
//
// Only files compiled with the AMX flags include this. They are an instruction set of their own.
//
// SPDX-License-Identifier: MIT
#pragma once
#define LATHE_ISA  amx
#define LATHE_VB   64
#define LATHE_REGS 32
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "kernels/cpu/fp8_bf16.h"
#include "kernels/cpu/gemm_vec.h"

enum {
    AMX_W = 32,                // a panel's width, and K of a step
    AMX_STEP = 2 * 1024,       // bytes of a panel's step
    AMX_BLOCK = AMX_W * AMX_W, // floats of a block of C
};

// Eight tiles of 16 rows x 64 bytes. Static, because the compiler takes the load of a configuration
// for one of its first eight bytes only and would drop the making of the others.
typedef struct AmxConfig {
    uint8_t palette, start, reserved[14];
    uint16_t column_bytes[16];
    uint8_t rows[16];
} AmxConfig;

// Per thread, before the first tile instruction and after the last.
LT_INLINE void amx_begin(void)
{
    static const AmxConfig config = {.palette = 1,
                                     .column_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
                                     .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&config);
}
LT_INLINE void amx_end(void)
{
    _tile_release();
}

LT_INLINE uint32_t amx_mask(int64_t n)
{
    return n >= 32 ? ~0u : (1u << n) - 1;
}
LT_INLINE __m512i amx_load(const uint16_t *p, uint32_t mask)
{
    return _mm512_maskz_loadu_epi16(mask, p);
}
// 32 floats to bf16, lo first.
LT_INLINE __m512i amx_bf16(VecF lo, VecF hi)
{
    return (__m512i)_mm512_cvtne2ps_pbh((__m512)hi, (__m512)lo);
}
// Two rows of 32 bf16 as pairs: columns 0-15 and 16-31.
LT_INLINE void amx_pair(__m512i a, __m512i b, VecF *lo, VecF *hi)
{
    const __m512i first =
        _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6,
                         37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    *lo = (VecF)_mm512_permutex2var_epi16(a, first, b);
    *hi = (VecF)_mm512_permutex2var_epi16(a, _mm512_add_epi16(first, _mm512_set1_epi16(16)), b);
}

// ---- packing one panel: n <= 32 of the panel's side, k of K; the rest is zero ----
// `rows`: element (i, k) lies at p[i*ld + k]; `cols`: at p[k*ld + i]. `_as`: of a type of
// fp8_bf16.h.

// A from rows: as it lies.
LT_INLINE void amx_pack_a_rows_as(char *dst, const void *p, DType t, int64_t ld, int64_t n,
                                  int64_t k)
{
    for (int64_t k0 = 0; k0 < k; k0 += 32, dst += AMX_STEP) {
        const uint32_t mask = amx_mask(k - k0);
        for (int i = 0; i < 32; i++)
            _mm512_store_si512(dst + i * 64,
                               i < n ? bf16_row(p, t, i * ld + k0, mask) : _mm512_setzero_si512());
    }
}
LT_INLINE void amx_pack_a_rows(char *dst, const uint16_t *p, int64_t ld, int64_t n, int64_t k)
{
    amx_pack_a_rows_as(dst, p, DTYPE_BF16, ld, n, k);
}
// B from rows: pairs of k lie side by side, 16 columns are turned at a time.
LT_INLINE void amx_pack_b_rows_as(char *dst, const void *p, DType t, int64_t ld, int64_t n,
                                  int64_t k)
{
    for (int64_t k0 = 0; k0 < k; k0 += 32, dst += AMX_STEP) {
        const uint32_t mask = amx_mask(k - k0);
        for (int half = 0; half < 2; half++) {
            VecF r[16];
#pragma GCC unroll 16
            for (int i = 0; i < 16; i++) {
                const int c = half * 16 + i;
                r[i] = c < n ? (VecF)bf16_row(p, t, c * ld + k0, mask) : (VecF){0};
            }
            gemm_transpose(r);
#pragma GCC unroll 16
            for (int i = 0; i < 16; i++) _mm512_store_ps(dst + half * 1024 + i * 64, (__m512)r[i]);
        }
    }
}
LT_INLINE void amx_pack_b_rows(char *dst, const uint16_t *p, int64_t ld, int64_t n, int64_t k)
{
    amx_pack_b_rows_as(dst, p, DTYPE_BF16, ld, n, k);
}
// Both from columns: two k are interleaved; that is B's layout, and A's after a transpose.
LT_INLINE void amx_pack_cols(char *dst, const uint16_t *p, int64_t ld, int64_t n, int64_t k,
                             bool is_a)
{
    const uint32_t mask = amx_mask(n);
    for (int64_t k0 = 0; k0 < k; k0 += 32, dst += AMX_STEP) {
        const int64_t kn = k - k0;
        VecF lo[16], hi[16];
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            const uint16_t *at = p + (k0 + 2 * i) * ld;
            const __m512i a = 2 * i < kn ? amx_load(at, mask) : _mm512_setzero_si512();
            const __m512i b = 2 * i + 1 < kn ? amx_load(at + ld, mask) : _mm512_setzero_si512();
            amx_pair(a, b, &lo[i], &hi[i]);
        }
        if (is_a) {
            gemm_transpose(lo);
            gemm_transpose(hi);
        }
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            _mm512_store_ps(dst + i * 64, (__m512)lo[i]);
            _mm512_store_ps(dst + 1024 + i * 64, (__m512)hi[i]);
        }
    }
}

// ---- the product ----

typedef void (*AmxSideWork)(void *); // done once a step, in the shadow of the tile products

// S[32,32] (+)= a panel x b panel over `steps` > 0 of 32 k. S: rows of 32 floats.
LT_INLINE void amx_mul(int64_t steps, const char *a, const char *b, float *S, bool first,
                       AmxSideWork side, void *arg)
{
    __asm__ volatile("" ::: "memory"); // tile loads do not tell the compiler that they read memory
    if (first) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    } else {
        _tile_loadd(0, S, 128);
        _tile_loadd(1, S + 16, 128);
        _tile_loadd(2, S + 512, 128);
        _tile_loadd(3, S + 528, 128);
    }
    _tile_loadd(4, a, 64);
    _tile_stream_loadd(6, b, 64);
    _tile_stream_loadd(7, b + 1024, 64);
    _tile_loadd(5, a + 1024, 64);
    for (int64_t i = 1; i < steps; i++) {
        a += AMX_STEP;
        b += AMX_STEP;
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(4, a, 64);
        _tile_dpbf16ps(2, 5, 6);
        _tile_stream_loadd(6, b, 64);
        _tile_dpbf16ps(3, 5, 7);
        _tile_stream_loadd(7, b + 1024, 64);
        _tile_loadd(5, a + 1024, 64);
        if (side) side(arg);
    }
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    if (side) side(arg);
    _tile_stored(0, S, 128);
    _tile_stored(1, S + 16, 128);
    _tile_stored(2, S + 512, 128);
    _tile_stored(3, S + 528, 128);
}
