// vec_fp8.h -- FP8 outputs in vector code: conversion, what is counted, and both layouts through a
// small tile. What they mean: kernels/ops/fp8.h.
//
//     x  --*scale, round, clamp-->  tile [FP8_ROWS][FP8_COLS]  --copy rows------------> q
//                                                              --turn 16 x 16 bytes---> q^T
//
// The tile stays in L1. A row of it leaves for q as it is; for q^T blocks of 16 x 16 bytes are
// transposed in registers, and 64 rows make whole cache lines.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <float.h>
#include "kernels/cpu/vec_simd.h"
#include "kernels/ops/fp8.h"

enum { FP8_ROWS = 64, FP8_COLS = 128, FP8_TURN = 16 };

typedef uint8_t Bytes16 __attribute__((vector_size(16)));
typedef uint8_t Bytes16Mem __attribute__((vector_size(16), aligned(1), may_alias));

typedef struct Fp8Tile {
    uint8_t byte[FP8_ROWS][FP8_COLS] __attribute__((aligned(64)));
} Fp8Tile;

// ---- conversion ---------------------------------------------------------------------------------

// fp8_from_f32 of dtype.h, a byte in each 32 bits. t is a constant.
LT_INLINE VecU vec_to_fp8(VecF x, DType t)
{
    const bool e4 = t == DTYPE_E4M3;
    const int drop = e4 ? 20 : 21;
    const float magic = e4 ? 0x1p14f : 0x1p7f; // its last bit is worth the smallest number
    const uint32_t bias = (uint32_t)(e4 ? 127 - 7 : 127 - 15) << 23;
    const VecF a = vec_min(vec_abs(x), vec_set(fp8_max(t))); // NaN: the largest, for now
    const VecU u = (VecU)a, tiny = (VecU)(a + magic) - dtype_bits(magic);
    const VecU norm = (u - bias + ((1u << (drop - 1)) - 1) + (u >> drop & 1u)) >> drop;
    const VecI small = a < (e4 ? 0x1p-6f : 0x1p-14f);
    const VecU q = ((VecU)small & tiny) | (~(VecU)small & norm) | ((VecU)x >> 24 & 0x80u);
    const VecU num = (VecU)(x == x);
    return (num & q) | (~num & 0x7fu);
}

// ---- what is counted ----------------------------------------------------------------------------

typedef struct VecFp8 { // of one task
    VecF scale, amax;
    VecU nonfinite, saturated, flushed;
} VecFp8;

typedef struct Fp8Seen { // the same, added up
    float amax;
    uint32_t nonfinite, saturated, flushed;
} Fp8Seen;

LT_INLINE VecFp8 vec_fp8_begin(const Fp8Out *o)
{
    return (VecFp8){.scale = vec_set(o->scale->scale), .amax = vec_set(0)};
}

// Converts and counts. Lanes that are 0 count nothing.
LT_INLINE VecU vec_fp8_put(VecFp8 *s, VecF x, DType t)
{
    const float half = t == DTYPE_E4M3 ? 0x1p-10f : 0x1p-17f; // at most this becomes 0
    const VecF size = vec_abs(x), y = x * s->scale, scaled = vec_abs(y);
    const VecI finite = size <= FLT_MAX;
    s->amax = vec_max((VecF)(finite & (VecI)size), s->amax);
    s->nonfinite -= (VecU)~finite; // a comparison that holds is -1
    s->saturated -= (VecU)(finite & (scaled > fp8_max(t)));
    s->flushed -= (VecU)((size > 0) & (scaled <= half));
    return vec_to_fp8(y, t);
}

LT_INLINE Fp8Seen vec_fp8_end(const VecFp8 *s)
{
    Fp8Seen all = {0};
    for (int i = 0; i < VL; i++) {
        all.amax = s->amax[i] > all.amax ? s->amax[i] : all.amax;
        all.nonfinite += s->nonfinite[i];
        all.saturated += s->saturated[i];
        all.flushed += s->flushed[i];
    }
    return all;
}

// What n tasks saw. Maxima and sums of integers have no order.
LT_INLINE void fp8_publish(const Fp8Out *o, const Fp8Seen *seen, int64_t n)
{
    float amax = o->amax && *o->amax > 0 ? *o->amax : 0;
    for (int64_t i = 0; i < n; i++) {
        amax = LT_MAX(amax, seen[i].amax);
        if (!o->count) continue;
        o->count->nonfinite += seen[i].nonfinite;
        o->count->saturated += seen[i].saturated;
        o->count->flushed += seen[i].flushed;
    }
    if (o->amax) *o->amax = amax;
}

// ---- both layouts -------------------------------------------------------------------------------

// One step: bytes of w[i] and w[i+8] side by side. In the number of a byte, its 4 bits of row and 4
// of column, that is a rotation by one bit; four of them exchange row and column.
LT_INLINE void fp8_turn_step(Bytes16 *v, const Bytes16 *w)
{
#pragma GCC unroll 8
    for (int i = 0; i < FP8_TURN / 2; i++) {
        v[2 * i] = __builtin_shufflevector(w[i], w[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21,
                                           6, 22, 7, 23);
        v[2 * i + 1] = __builtin_shufflevector(w[i], w[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28,
                                               13, 29, 14, 30, 15, 31);
    }
}

// Rows r .. r+15 of column c+k of the tile in w[k].
LT_INLINE void fp8_turn(Bytes16 w[FP8_TURN], const Fp8Tile *tile, int64_t r, int64_t c)
{
    Bytes16 v[FP8_TURN];
#pragma GCC unroll 16
    for (int i = 0; i < FP8_TURN; i++) w[i] = *(const Bytes16Mem *)&tile->byte[r + i][c];
    fp8_turn_step(v, w);
    fp8_turn_step(w, v);
    fp8_turn_step(v, w);
    fp8_turn_step(w, v);
}

// The tile's `rows` x `cols` elements are those from [r0,c0] of x [R,C]. What lies behind the last
// row of x up to ld_qt becomes 0.
LT_INLINE void fp8_tile_store(const Fp8Out *o, Fp8Tile *tile, int64_t r0, int64_t rows, int64_t c0,
                              int64_t cols, int64_t R)
{
    for (int64_t r = 0; r < rows && o->q; r++)
        memcpy((uint8_t *)o->q + (r0 + r) * o->ld_q + c0, tile->byte[r], (size_t)cols);
    if (!o->qt) return;
    const int64_t full = LT_ROUND_UP(rows, FP8_TURN), end = r0 + full;
    for (int64_t r = rows; r < full; r++) memset(tile->byte[r], 0, FP8_COLS);
    uint8_t *const qt = (uint8_t *)o->qt + c0 * o->ld_qt + r0;
    for (int64_t c = 0; c < cols; c += FP8_TURN) {
        for (int64_t r = 0; r < full; r += FP8_TURN) {
            Bytes16 w[FP8_TURN];
            fp8_turn(w, tile, r, c);
            for (int64_t k = 0; k < LT_MIN(cols - c, FP8_TURN); k++)
                *(Bytes16Mem *)(qt + (c + k) * o->ld_qt + r) = w[k];
        }
    }
    if (r0 + rows < R || end >= o->ld_qt) return;
    for (int64_t c = 0; c < cols; c++)
        memset(qt + c * o->ld_qt + full, 0, (size_t)(o->ld_qt - end));
}
