// mlm_mask.c -- see mlm_mask.h.
//
// A chosen token is marked by its complement (ids are not negative), so that one pass over the
// sequence afterwards finds the chosen ones in order.
//
// SPDX-License-Identifier: MIT
#include "engine/data/mlm_mask.h"
#include "engine/base/rng.h"

#include <math.h>

typedef struct Draws { // the random numbers of one sequence
    RngCoord at;
    uint32_t epoch;
    uint32_t n; // drawn so far
    uint32_t word[4];
} Draws;

static uint32_t draw(Draws *d)
{
    if (d->n % 4 == 0) rng_block(d->word, &d->at, d->epoch, d->n / 4);
    return d->word[d->n++ % 4];
}

static int64_t draw_below(Draws *d, int64_t n)
{
    return (int64_t)(((uint64_t)draw(d) * (uint64_t)n) >> 32);
}

int64_t mlm_predictions(const MlmMask *m, int64_t n)
{
    if (m->prob <= 0) return 0;
    const int64_t share = (int64_t)floor((double)n * m->prob + 0.5);
    return LT_MIN(LT_MAX(share, (int64_t)1), m->most);
}

static bool is_special(const MlmMask *m, int32_t id)
{
    return id == m->cls || id == m->sep || id == m->pad || id == m->mask;
}

// Does the token at i go on with the word in front of it?
static bool goes_on(const MlmMask *m, const int32_t *id, int64_t i)
{
    return m->goes_on && i > 0 && m->goes_on[id[i]] && !is_special(m, id[i - 1]);
}

// The first tokens of what can be chosen.
static int64_t find_words(const MlmMask *m, const int32_t *id, int64_t n, int32_t *word)
{
    int64_t words = 0;
    for (int64_t i = 0; i < n; i++)
        if (!is_special(m, id[i]) && !goes_on(m, id, i)) word[words++] = (int32_t)i;
    return words;
}

static int64_t word_end(const MlmMask *m, const int32_t *id, int64_t n, int64_t i)
{
    // A negative one is marked: the beginning of another word.
    for (i++; i < n && id[i] >= 0 && !is_special(m, id[i]) && goes_on(m, id, i);) i++;
    return i;
}

static int32_t replacement(const MlmMask *m, Draws *d, int32_t id)
{
    const uint32_t u = draw(d);
    if (u < rng_threshold(0.8)) return m->mask;
    if (u < rng_threshold(0.9)) return id;
    return (int32_t)draw_below(d, m->vocab_size);
}

int64_t mlm_mask(const MlmMask *m, const MaskKey *key, int32_t *id, int64_t n, int32_t *row,
                 int32_t *target, int32_t *work)
{
    Draws d = {.at = {.seed = key->seed,
                      .sample = (uint64_t)key->document,
                      .layer = (uint32_t)key->source,
                      .site = RNG_MASK},
               .epoch = (uint32_t)key->epoch};
    const int64_t want = mlm_predictions(m, n), words = find_words(m, id, n, work);
    int64_t have = 0;
    // Words in random order: the next one is drawn from those that are left, in work[k, words).
    // A marked token is negative, and so no part of a later word: words do not overlap.
    for (int64_t k = 0; k < words && have < want; k++) {
        const int64_t other = k + draw_below(&d, words - k), at = work[other];
        work[other] = work[k];
        const int64_t end = word_end(m, id, n, at);
        if (have + end - at > want) continue;
        for (int64_t i = at; i < end; i++) id[i] = ~id[i];
        have += end - at;
    }
    int64_t out = 0;
    for (int64_t i = 0; i < n && out < have; i++) {
        if (id[i] >= 0) continue;
        row[out] = (int32_t)i;
        target[out] = ~id[i];
        id[i] = replacement(m, &d, target[out]);
        out++;
    }
    return have;
}
