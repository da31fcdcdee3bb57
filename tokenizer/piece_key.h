// piece_key.h -- a short piece of text as three machine words, for tables that compare and hash it
// without touching memory twice.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include <string.h>
#include "engine/base/compiler.h"

enum { PIECE_MAX = 24 }; // bytes in a piece that has a key

typedef struct PieceKey {
    uint64_t word[PIECE_MAX / 8]; // the bytes, zeros behind them
} PieceKey;

// PIECE_MAX ones, then as many zeros: the mask for n bytes starts at PIECE_MAX - n.
static const uint8_t piece_mask[2 * PIECE_MAX] = {
    255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
    255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
};

// 1 <= n <= PIECE_MAX; `left` bytes may be read at p, n of them at least.
LT_INLINE PieceKey piece_key(const uint8_t *p, int64_t n, int64_t left)
{
    PieceKey k = {{0}}, mask;
    if (left >= PIECE_MAX)
        memcpy(&k, p, PIECE_MAX);
    else
        memcpy(&k, p, (size_t)n);
    memcpy(&mask, piece_mask + PIECE_MAX - n, PIECE_MAX);
    for (int i = 0; i < PIECE_MAX / 8; i++) k.word[i] &= mask.word[i];
    return k;
}

LT_INLINE int piece_key_equal(const PieceKey *a, const PieceKey *b)
{
    return ((a->word[0] ^ b->word[0]) | (a->word[1] ^ b->word[1]) | (a->word[2] ^ b->word[2])) == 0;
}

LT_INLINE uint64_t piece_key_hash(const PieceKey *k, int64_t n)
{
    uint64_t h = (k->word[0] ^ (uint64_t)n << 56) * 0x9E3779B97F4A7C15u;
    h = (h ^ h >> 32 ^ k->word[1]) * 0xD6E8FEB86659FD93u;
    h = (h ^ h >> 32 ^ k->word[2]) * 0xD6E8FEB86659FD93u;
    return h ^ h >> 32;
}
