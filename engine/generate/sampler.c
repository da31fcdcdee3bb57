// sampler.c -- see sampler.h.
//
// SPDX-License-Identifier: MIT
#include "engine/generate/sampler.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"

#include <math.h>

Status sampler_open(Sampler *s, int64_t V, double temperature, int64_t top_k, double top_p,
                    uint64_t seed, Err *err)
{
    *s = (Sampler){.temperature = temperature,
                   .top_p = top_p,
                   .top_k = top_k > 0 && top_k < V ? top_k : V,
                   .seed = seed,
                   .V = V};
    s->order = mem_calloc((size_t)V, sizeof *s->order);
    s->prob = mem_calloc((size_t)V, sizeof *s->prob);
    if (s->order && s->prob) return ERR_NONE;
    sampler_close(s);
    return mem_err(err, (size_t)V * 12, "sampling");
}

void sampler_close(Sampler *s)
{
    mem_free(s->order);
    mem_free(s->prob);
    *s = (Sampler){0};
}

// Is token a to come before token b? Likelier first, then the smaller id.
static int before(const float *logits, int32_t a, int32_t b)
{
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
}

static void sift(int32_t *heap, int64_t n, int64_t i, const float *logits)
{
    for (;;) {
        int64_t best = i;
        const int64_t kid = 2 * i + 1;
        if (kid < n && before(logits, heap[kid], heap[best])) best = kid;
        if (kid + 1 < n && before(logits, heap[kid + 1], heap[best])) best = kid + 1;
        if (best == i) return;
        const int32_t t = heap[i];
        heap[i] = heap[best];
        heap[best] = t;
        i = best;
    }
}

// Every token may come: walk the cumulative sum in the order of ids.
static int32_t draw_from_all(const Sampler *s, const float *logits, double uniform, float top)
{
    const double scale = 1.0 / s->temperature;
    double total = 0;
    for (int64_t v = 0; v < s->V; v++) {
        s->prob[v] = exp((double)(logits[v] - top) * scale);
        total += s->prob[v];
    }
    double draw = uniform * total;
    int64_t last = 0;
    for (int64_t v = 0; v < s->V; v++) {
        if (s->prob[v] > 0) last = v;
        draw -= s->prob[v];
        if (draw < 0) return (int32_t)v;
    }
    return (int32_t)last; // rounding left a crumb
}

// Top-k and top-p. A heap hands the tokens out likeliest first, so that top-p stops early and the
// whole vocabulary is never sorted.
static int32_t draw_from_likeliest(const Sampler *s, const float *logits, double uniform, float top)
{
    const double scale = 1.0 / s->temperature;
    const int64_t n = s->V;
    const bool whole = s->top_k == n;
    double total = 0, kept = 0;
    for (int64_t v = 0; v < n; v++) s->order[v] = (int32_t)v;
    for (int64_t i = n / 2 - 1; i >= 0; i--) sift(s->order, n, i, logits);
    if (whole)
        for (int64_t v = 0; v < n; v++) total += exp((double)(logits[v] - top) * scale);
    int64_t count = 0;
    for (int64_t left = n; count < s->top_k && left > 0;) {
        const int32_t v = s->order[0];
        s->order[0] = s->order[--left];
        s->order[left] = v; // handed out: token number `count` is at order[n - 1 - count]
        sift(s->order, left, 0, logits);
        s->prob[count] = exp((double)(logits[v] - top) * scale);
        kept += s->prob[count++];
        if (whole && kept >= s->top_p * total) break;
    }
    if (!whole) { // what top-p is measured against is known only now
        total = kept;
        const int64_t some = count;
        kept = 0;
        for (count = 0; count < some && (count == 0 || kept < s->top_p * total); count++)
            kept += s->prob[count];
    }
    double draw = uniform * kept;
    for (int64_t i = 0; i < count; i++) {
        draw -= s->prob[i];
        if (draw < 0) return s->order[n - 1 - i];
    }
    return s->order[n - count];
}

Status sampler_draw(Sampler *s, const float *logits, int64_t text, int64_t position, int32_t *id,
                    Err *err)
{
    int32_t best = 0;
    for (int64_t v = 0; v < s->V; v++) {
        if (isnan(logits[v]))
            return err_set(err, ERR_DIVERGED, "the model's output is not a number (token %lld)",
                           (long long)position);
        if (logits[v] > logits[best]) best = (int32_t)v;
    }
    if (s->temperature == 0 || s->top_k == 1) {
        *id = best;
        return ERR_NONE;
    }
    uint32_t w[4];
    const RngCoord at = {.seed = s->seed, .sample = (uint64_t)text, .site = RNG_SAMPLE};
    rng_block(w, &at, (uint32_t)position, 0);
    const double uniform = rng_uniform53(w[0], w[1]);
    *id = s->top_k == s->V && s->top_p >= 1 ? draw_from_all(s, logits, uniform, logits[best])
                                            : draw_from_likeliest(s, logits, uniform, logits[best]);
    return ERR_NONE;
}
