// vec_rng.h -- Philox4x32-10 in vectors, and dropout by it: the numbers of engine/base/rng.h.
//
// A counter lane is one call of rng_philox. Two arrangements:
//     along columns   lane l holds columns 4l .. 4l+3 of one row: vec_rng_columns, words in order
//     along rows      lane l is another row, all of the same four columns: vec_rng_rows
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/rng.h"
#include "kernels/cpu/vec_simd.h"
#include "kernels/ops/dropout.h"

typedef uint32_t VecUMem __attribute__((vector_size(LATHE_VB), aligned(4), may_alias));

typedef struct VecDrop { // a DropoutSpec for one sample and head
    uint32_t key0, key1, ctr2, ctr3;
    uint32_t threshold;
    float scale; // 1 / (1 - p)
} VecDrop;

LT_INLINE VecDrop vec_drop(const DropoutSpec *d, int64_t b, uint32_t head)
{
    const uint64_t sample = (uint64_t)d->sample[b];
    return (VecDrop){.key0 = (uint32_t)d->seed,
                     .key1 = (uint32_t)(d->seed >> 32) ^ (uint32_t)(sample >> 32),
                     .ctr2 = d->layer << 20 | (uint32_t)d->site << 16 | head,
                     .ctr3 = (uint32_t)sample,
                     .threshold = rng_threshold((double)d->p),
                     .scale = (float)(1.0 / (1.0 - (double)d->p))};
}

LT_INLINE void vec_philox(VecU c[4], uint32_t k0, uint32_t k1)
{
    for (int round = 0; round < 10; round++) {
        VecU h0, l0, h1, l1;
        vec_mul_wide(&h0, &l0, c[0], 0xD2511F53u);
        vec_mul_wide(&h1, &l1, c[2], 0xCD9E8D57u);
        c[0] = h1 ^ c[1] ^ k0;
        c[1] = l1;
        c[2] = h0 ^ c[3] ^ k1;
        c[3] = l0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

// The words of VL counters, so far c[word][counter], one counter after the other.
LT_INLINE void vec_rng_in_order(VecU c[4])
{
    const VecU low02 = __builtin_shufflevector(c[0], c[2], VEC_LO);
    const VecU high02 = __builtin_shufflevector(c[0], c[2], VEC_HI);
    const VecU low13 = __builtin_shufflevector(c[1], c[3], VEC_LO);
    const VecU high13 = __builtin_shufflevector(c[1], c[3], VEC_HI);
    c[0] = __builtin_shufflevector(low02, low13, VEC_LO);
    c[1] = __builtin_shufflevector(low02, low13, VEC_HI);
    c[2] = __builtin_shufflevector(high02, high13, VEC_LO);
    c[3] = __builtin_shufflevector(high02, high13, VEC_HI);
}
// Words of columns 4*col4 .. 4*col4 + 4*VL - 1 of `row`.
LT_INLINE void vec_rng_columns(uint32_t w[4 * VL], const VecDrop *d, uint32_t row, uint32_t col4)
{
    VecU c[4] = {vec_iota() + col4, (VecU){0} + row, (VecU){0} + d->ctr2, (VecU){0} + d->ctr3};
    vec_philox(c, d->key0, d->key1);
    vec_rng_in_order(c);
    memcpy(w, c, sizeof c);
}
// Words of columns 4*col4 .. 4*col4 + 2*VL - 1: w[0], w[1] of `row`, w[2], w[3] of row + 1.
LT_INLINE void vec_rng_two_rows(VecU w[4], const VecDrop *d, uint32_t row, uint32_t col4)
{
    w[0] = vec_iota() % (VL / 2) + col4;
    w[1] = vec_iota() / (VL / 2) + row;
    w[2] = (VecU){0} + d->ctr2;
    w[3] = (VecU){0} + d->ctr3;
    vec_philox(w, d->key0, d->key1);
    vec_rng_in_order(w);
}
// w[k]: column 4*col4 + k of rows row .. row + VL - 1.
LT_INLINE void vec_rng_rows(VecU w[4], const VecDrop *d, uint32_t row, uint32_t col4)
{
    w[0] = (VecU){0} + col4;
    w[1] = vec_iota() + row;
    w[2] = (VecU){0} + d->ctr2;
    w[3] = (VecU){0} + d->ctr3;
    vec_philox(w, d->key0, d->key1);
}

LT_INLINE VecF vec_drop_apply(const VecDrop *d, VecU words, VecF x)
{
    return (VecF)((VecU)(x * d->scale) & (VecU)(words >= d->threshold));
}

// Elements along one row that come VL at a time: the words of 4*VL columns are made when needed.
typedef struct VecDropRow {
    const VecDrop *d; // NULL: nothing is dropped
    uint32_t row;
    uint32_t w[4 * VL];
} VecDropRow;

LT_INLINE VecF vec_drop_next(VecDropRow *r, int64_t col, VecF x) // col: 0, VL, 2 VL, ...
{
    if (!r->d) return x;
    const int64_t at = col % (4 * VL);
    if (at == 0) vec_rng_columns(r->w, r->d, r->row, (uint32_t)(col / 4));
    return vec_drop_apply(r->d, *(const VecUMem *)(r->w + at), x);
}
