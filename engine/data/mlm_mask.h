// mlm_mask.h -- which tokens of a sequence BERT has to predict, and what stands in their place.
//
// Of a sequence of n tokens, its [CLS] and [SEP] among them, max(1, round(n x prob)) are chosen, at
// most `most`; special tokens never. Of the chosen ones 80 % become [MASK], 10 % a token drawn from
// the whole vocabulary, 10 % stay. (Devlin et al. 2019, section 3.1 and appendix A.1.)
//
// With whole words the choice is among words: a token that does not go on with a word ("##...")
// and those behind it that do. A word that would make it more tokens than wanted is passed over.
//
// A choice depends on MaskKey alone: not on the row the sequence lies in, nor on its neighbours.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/compiler.h"

typedef struct MlmMask {
    double prob;
    int64_t most; // tokens to predict in a sequence
    int64_t vocab_size;
    int32_t cls, sep, mask, pad;
    const uint8_t *goes_on; // [vocab_size] 1: goes on with the word before; NULL: single tokens
} MlmMask;

typedef struct MaskKey {
    uint64_t seed;
    int64_t epoch;
    int source;       // of a mixture
    int64_t document; // of the source
} MaskKey;

LT_C_BEGIN
// How many tokens of a sequence of n may be chosen.
int64_t mlm_predictions(const MlmMask *m, int64_t n);
// Mask id[n] in place. row[], target[]: the chosen rows, rising from 0, and what stood there; room
// for mlm_predictions. Returns how many: 0 when nothing can be chosen. work: [n].
int64_t mlm_mask(const MlmMask *m, const MaskKey *key, int32_t *id, int64_t n, int32_t *row,
                 int32_t *target, int32_t *work);
LT_C_END
