// test_attention_fwd_hopper.c -- kernels/cuda/attention_fwd_hopper*.cu against double precision.
//
// Runs on the simulator (tests/cudasim) or on a GPU. The mask of the reference is explicit: for
// each pair of query and key, the contract's own words. Gaps between rows, and keys that nobody in
// the sample sees, hold NaN; what must not be written holds a pattern.
//
// Tolerance: out may be off by twice the error of the naive bf16 computation (scores, probabilities
// and out each rounded to bf16), lse by a few units of f32 at the size of the scores.
//
// SPDX-License-Identifier: MIT
#include "engine/base/mem.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/device_cuda.h"
#include "kernels/ref/drop.h"

#include <math.h>
#include <stdio.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { NOTHING = 0x7fc1, UNWRITTEN = 0x7fa5, GUARD = 4096 };

typedef enum Segments {
    NONE,
    DOCUMENTS, // of random length; now and then a query that sees nothing
    LENGTHS,   // every sample has its own number of keys, the last one none
} Segments;

typedef struct Shape {
    int64_t B, H, Tq, Tk, D, q_pos0, window;
    bool causal, packed; // packed: q, k, v are slices of [B,T,3,H,D]
    Segments segments;
    double p, gain; // gain 0 means 1
    bool ramp;      // keys grow towards the start: the largest score jumps from tile to tile
} Shape;

typedef struct Problem {
    Shape s;
    AttentionFwdArgs a; // pointers into the host arrays
    size_t in_bytes, out_bytes, lse_bytes;
    uint16_t *in, *out; // q, k, v and their gaps; out and a guard
    float *lse;         // and a guard
    int32_t *seg;       // lo, then hi
    int64_t *sample;
    bool *sees; // [B,Tq,Tk]
} Problem;

static Device gpu;

static uint32_t rnd_state = 1;
static uint32_t rnd(uint32_t n)
{
    rnd_state = rnd_state * 1664525u + 1013904223u;
    return (rnd_state >> 8) % n;
}
static float rnd_float(void) // [-1, 1)
{
    return (float)rnd(1 << 24) / (1 << 23) - 1.0f;
}
static void *need(size_t bytes)
{
    void *p = mem_alloc(bytes + 1);
    assert_non_null(p);
    return p;
}

static void describe(char to[200], const Shape *s)
{
    snprintf(to, 200, "B%d H%d Tq%d Tk%d D%d pos%d window%d%s segments%d p%g gain%g", (int)s->B,
             (int)s->H, (int)s->Tq, (int)s->Tk, (int)s->D, (int)s->q_pos0, (int)s->window,
             s->causal ? " causal" : "", (int)s->segments, s->p, s->gain);
}

// ---- the problem --------------------------------------------------------------------------------

static void make_segments(Problem *p)
{
    const Shape *s = &p->s;
    const int64_t n = s->B * s->Tq;
    p->seg = need((size_t)n * 8 + 8);
    for (int64_t b = 0; b < s->B; b++) {
        int32_t at = 0, end = 0;
        for (int64_t i = 0; i < s->Tq; i++) {
            int32_t *lo = &p->seg[b * s->Tq + i], *hi = lo + n;
            if (s->segments == LENGTHS) {
                *lo = 0;
                *hi = b + 1 == s->B ? 0 : (int32_t)((b + 1) * s->Tk / s->B);
                continue;
            }
            if (i >= end) {
                at = LT_MIN(end, (int32_t)s->Tk);
                end = at + 1 + (int32_t)rnd(rnd(4) ? 60 : 400);
            }
            *lo = at;
            *hi = rnd(20) == 0 ? at : LT_MIN(end, (int32_t)s->Tk + 3); // may pass the end of k
        }
    }
    p->a.mask.seg_lo = p->seg;
    p->a.mask.seg_hi = p->seg + n;
}

// The contract's words, one pair at a time.
static bool visible(const AttentionFwdArgs *a, int64_t b, int64_t i, int64_t j)
{
    const int64_t at = a->q_pos0 + i;
    if (a->mask.seg_lo && j < a->mask.seg_lo[b * a->Tq + i]) return false;
    if (a->mask.seg_hi && j >= a->mask.seg_hi[b * a->Tq + i]) return false;
    if (a->mask.causal && j > at) return false;
    return a->mask.window == 0 || at - j < a->mask.window;
}

static uint16_t *at_row(const Problem *p, const void *tensor, int64_t b, int64_t t)
{
    const bool q = tensor == p->a.q;
    return (uint16_t *)tensor + b * (q ? p->a.q_batch : p->a.kv_batch) +
           t * (q ? p->a.q_row : p->a.kv_row);
}

static void make_values(Problem *p)
{
    const Shape *s = &p->s;
    const void *const tensor[3] = {p->a.q, p->a.k, p->a.v};
    const double gain = s->gain > 0 ? s->gain : 1;
    for (size_t i = 0; i < p->in_bytes / 2; i++) p->in[i] = NOTHING;
    for (int x = 0; x < 3; x++) {
        for (int64_t b = 0; b < s->B; b++) {
            int64_t first = 0, last = s->Tk - 1; // keys that some query of the sample sees
            for (bool seen = false; x > 0 && !seen && last >= 0; last -= !seen)
                for (int64_t i = 0; i < s->Tq && !seen; i++)
                    seen = p->sees[(b * s->Tq + i) * s->Tk + last];
            for (bool seen = false; x > 0 && !seen && first <= last; first += !seen)
                for (int64_t i = 0; i < s->Tq && !seen; i++)
                    seen = p->sees[(b * s->Tq + i) * s->Tk + first];
            for (int64_t t = x ? first : 0; t < (x ? last + 1 : s->Tq); t++) {
                const double f = x == 1 && s->ramp ? 1 + (double)(s->Tk - t) / 64 : 1;
                uint16_t *row = at_row(p, tensor[x], b, t);
                for (int64_t i = 0; i < s->H * s->D; i++)
                    row[i] = bf16_from_f32(rnd_float() * (float)(gain * f));
            }
        }
    }
}

static Problem *problem(const Shape *s)
{
    Problem *p = mem_calloc(1, sizeof *p);
    const int64_t C = s->H * s->D;
    assert_non_null(p);
    p->s = *s;
    AttentionFwdArgs *a = &p->a;
    *a = (AttentionFwdArgs){.B = s->B, .H = s->H, .Tq = s->Tq, .Tk = s->Tk, .D = s->D};
    a->q_pos0 = s->q_pos0;
    a->scale = (float)(1 / sqrt((double)s->D));
    a->dtype = DTYPE_BF16;
    a->mask.causal = s->causal;
    a->mask.window = s->window;
    a->q_row = a->kv_row = s->packed ? 3 * C : (C + 15) / 8 * 8; // a gap where not packed
    a->q_batch = s->Tq * a->q_row;
    a->kv_batch = s->Tk * a->kv_row;
    a->out_row = (C + 23) / 8 * 8;
    a->out_batch = s->Tq * a->out_row;
    const int64_t q = s->B * a->q_batch, kv = s->B * a->kv_batch;
    p->in_bytes = (size_t)(s->packed ? q : q + 2 * kv) * 2;
    p->in = need(p->in_bytes);
    a->q = p->in;
    a->k = p->in + (s->packed ? C : q);
    a->v = p->in + (s->packed ? 2 * C : q + kv);
    p->out_bytes = (size_t)(s->B * a->out_batch + GUARD) * 2;
    p->lse_bytes = (size_t)(s->B * s->H * s->Tq + GUARD) * 4;
    p->out = need(p->out_bytes);
    p->lse = need(p->lse_bytes);
    p->sample = need((size_t)s->B * 8);
    p->sees = need((size_t)(s->B * s->Tq * s->Tk));
    if (s->segments != NONE) make_segments(p);
    for (int64_t b = 0; b < s->B; b++) p->sample[b] = 17 + b * 3 + ((b + 1) % 2 << 33);
    for (int64_t i = 0; i < s->B * s->Tq * s->Tk; i++)
        p->sees[i] = visible(a, i / (s->Tq * s->Tk), i / s->Tk % s->Tq, i % s->Tk);
    a->drop = (DropoutSpec){.p = (float)s->p, .seed = 0x123456789abcdefull, .layer = 3};
    a->drop.site = RNG_DROP_ATTENTION;
    a->drop.sample = p->sample;
    make_values(p);
    return p;
}

static void problem_free(Problem *p)
{
    mem_free(p->in);
    mem_free(p->out);
    mem_free(p->lse);
    mem_free(p->seg);
    mem_free(p->sample);
    mem_free(p->sees);
    mem_free(p);
}

// ---- running it ---------------------------------------------------------------------------------

static void *on_device(const void *host, size_t bytes)
{
    void *p = NULL;
    Err err;
    if (bytes == 0) return NULL;
    assert_int_equal(device_alloc(&gpu, bytes, &p, &err), ERR_NONE);
    assert_int_equal(device_upload(&gpu, p, host, bytes, &err), ERR_NONE);
    return p;
}

static const void *moved(const void *p, const void *from, const void *to)
{
    return (const char *)to + ((const char *)p - (const char *)from);
}

// Fills p->out and p->lse.
static void run(Problem *p, const char *text)
{
    const size_t seg_bytes = p->seg ? (size_t)(p->s.B * p->s.Tq) * 8 : 0;
    const size_t sample_bytes = (size_t)p->s.B * 8;
    AttentionFwdArgs a = p->a;
    Err err;
    const char *why = NULL;
    for (size_t i = 0; i < p->out_bytes / 2; i++) p->out[i] = UNWRITTEN;
    for (size_t i = 0; i < p->lse_bytes / 4; i++) p->lse[i] = dtype_float(0x7fa5a5a5u);
    void *in = on_device(p->in, p->in_bytes), *out = on_device(p->out, p->out_bytes);
    void *lse = on_device(p->lse, p->lse_bytes), *seg = on_device(p->seg, seg_bytes);
    void *sample = on_device(p->sample, sample_bytes);
    a.q = in;
    a.k = moved(a.k, p->in, in);
    a.v = moved(a.v, p->in, in);
    a.out = out;
    a.lse = lse;
    if (p->seg) a.mask.seg_lo = seg;
    if (p->seg) a.mask.seg_hi = (int32_t *)seg + p->s.B * p->s.Tq;
    a.drop.sample = sample;
    if (!hopper_attention_fwd_supports(device_cuda_of(&gpu), &a, &why))
        fail_msg("%s: not supported: %s", text, why);
    assert_int_equal(hopper_attention_fwd_scratch(device_cuda_of(&gpu), &a), 0);
    const int code = hopper_attention_fwd(device_cuda_of(&gpu), &a, NULL);
    if (code != 0) fail_msg("%s: error %d", text, code);
    if (device_download(&gpu, p->out, out, p->out_bytes, &err) != ERR_NONE ||
        device_download(&gpu, p->lse, lse, p->lse_bytes, &err) != ERR_NONE)
        fail_msg("%s: %s", text, err.text);
    device_free(&gpu, in, p->in_bytes);
    device_free(&gpu, out, p->out_bytes);
    device_free(&gpu, lse, p->lse_bytes);
    device_free(&gpu, sample, sample_bytes);
    if (seg) device_free(&gpu, seg, seg_bytes);
}

// ---- references ---------------------------------------------------------------------------------

typedef struct Query {
    double *s, *p; // scores, probabilities
    bool *keep;
} Query;

// out of one query by its scores; `round`: as naive bf16 does. Returns lse.
static double attend(const Problem *p, const Query *w, const bool *sees, int64_t b, int64_t h,
                     bool round, double *out)
{
    const AttentionFwdArgs *a = &p->a;
    double top = (double)-INFINITY, sum = 0;
#define ROUNDED(x) (round ? (double)bf16_to_f32(bf16_from_f32((float)(x))) : (x))
    for (int64_t j = 0; j < a->Tk; j++)
        if (sees[j]) top = fmax(top, ROUNDED(w->s[j]));
    for (int64_t j = 0; j < a->Tk; j++) {
        w->p[j] = sees[j] ? exp(ROUNDED(w->s[j]) - top) : 0;
        sum += w->p[j];
    }
    for (int64_t d = 0; d < a->D; d++) out[d] = 0;
    for (int64_t j = 0; j < a->Tk; j++) {
        if (!sees[j]) continue;
        const double x = w->keep[j] ? w->p[j] / sum / (1 - (double)a->drop.p) : 0;
        const double r = ROUNDED(x);
        const uint16_t *v = at_row(p, a->v, b, j) + h * a->D;
        for (int64_t d = 0; d < a->D; d++) out[d] += r * (double)bf16_to_f32(v[d]);
    }
    for (int64_t d = 0; d < a->D; d++) out[d] = ROUNDED(out[d]);
    return sum > 0 ? top + log(sum) : (double)-INFINITY;
#undef ROUNDED
}

typedef struct Errors {
    double out, naive, lse, scores; // largest; scores: largest absolute value
} Errors;

static void one_query(const Problem *p, const Query *w, int64_t b, int64_t h, int64_t i, Errors *e)
{
    const AttentionFwdArgs *a = &p->a;
    const bool *sees = p->sees + (b * a->Tq + i) * a->Tk;
    const uint16_t *q = at_row(p, a->q, b, i) + h * a->D;
    double want[128], naive[128];
    for (int64_t j = 0; j < a->Tk; j++) {
        const uint16_t *k = at_row(p, a->k, b, j) + h * a->D;
        double x = 0;
        for (int64_t d = 0; d < a->D && sees[j]; d++)
            x += (double)(bf16_to_f32(q[d]) * bf16_to_f32(k[d]));
        w->s[j] = x * (double)a->scale;
        w->keep[j] =
            a->drop.p == 0 || !sees[j] || drop_keeps(&a->drop, b, (uint32_t)h, a->q_pos0 + i, j);
        e->scores = fmax(e->scores, fabs(w->s[j]));
    }
    attend(p, w, sees, b, h, true, naive);
    const double lse = attend(p, w, sees, b, h, false, want);
    const double got = (double)p->lse[(b * a->H + h) * a->Tq + i];
    const uint16_t *out = p->out + b * a->out_batch + i * a->out_row + h * a->D;
    const bool blind = isinf(lse);
    for (int64_t d = 0; d < a->D; d++) {
        const double x = fabs((double)bf16_to_f32(out[d]) - (blind ? 0 : want[d]));
        if (!(x <= e->out)) e->out = x;
        if (!blind) e->naive = fmax(e->naive, fabs(naive[d] - want[d]));
        if (blind && out[d] != 0) e->out = (double)INFINITY;
    }
    const double off = blind ? (got == lse ? 0 : (double)INFINITY) : fabs(got - lse);
    if (!(off <= e->lse)) e->lse = off;
}

static void gaps_are_untouched(const Problem *p, const char *text)
{
    const AttentionFwdArgs *a = &p->a;
    for (int64_t i = 0; i < (int64_t)p->out_bytes / 2; i++) {
        const bool gap = i >= a->B * a->out_batch || i % a->out_row >= a->H * a->D;
        if (gap && p->out[i] != UNWRITTEN) fail_msg("%s: gap of out written at %d", text, (int)i);
    }
    for (int64_t i = a->B * a->H * a->Tq; i < (int64_t)p->lse_bytes / 4; i++)
        if (dtype_bits(p->lse[i]) != 0x7fa5a5a5u) fail_msg("%s: lse written too far", text);
}

static double worst_ratio;

static void check(const Shape *s)
{
    char text[200];
    describe(text, s);
    Problem *p = problem(s);
    run(p, text);
    gaps_are_untouched(p, text);
    const size_t n = (size_t)s->Tk;
    const Query w = {need(n * 8), need(n * 8), need(n)};
    Errors e = {0, 0, 0, 0};
    for (int64_t b = 0; b < s->B; b++)
        for (int64_t h = 0; h < s->H; h++)
            for (int64_t i = 0; i < s->Tq; i++) one_query(p, &w, b, h, i, &e);
    if (!(e.out <= 2 * e.naive)) fail_msg("%s: out off by %g, naive by %g", text, e.out, e.naive);
    if (!(e.lse <= 1e-6 * (e.scores + 2))) fail_msg("%s: lse is off by %g", text, e.lse);
    if (e.naive > 0) worst_ratio = fmax(worst_ratio, e.out / e.naive);

    uint16_t *first = need(p->out_bytes); // again, bit for bit
    memcpy(first, p->out, p->out_bytes);
    run(p, text);
    if (memcmp(first, p->out, p->out_bytes) != 0) fail_msg("%s: other bits when repeated", text);
    mem_free(first);
    mem_free(w.s);
    mem_free(w.p);
    mem_free(w.keep);
    problem_free(p);
}

// ---- tests --------------------------------------------------------------------------------------

static Shape square(int64_t B, int64_t H, int64_t T, int64_t D)
{
    return (Shape){.B = B, .H = H, .Tq = T, .Tk = T, .D = D, .packed = true};
}

static Shape behind(int64_t B, int64_t H, int64_t Tq, int64_t Tk, int64_t D, int64_t q_pos0)
{
    return (Shape){.B = B, .H = H, .Tq = Tq, .Tk = Tk, .D = D, .q_pos0 = q_pos0};
}

static void equal_lengths(void **state)
{
    (void)state;
    static const int lengths[] = {1, 63, 64, 127, 128, 129, 176, 200, 256, 300, 352, 384, 520};
    for (int i = 0; i < 4; i++) {
        const int64_t D = i / 2 ? 64 : 128;
        for (size_t k = 0; k < LT_COUNT(lengths) + 2; k++) {
            const bool ramp = k == LT_COUNT(lengths), large = k > LT_COUNT(lengths);
            Shape s = large ? square(2, 2, 130, D) : square(1, 1, ramp ? 520 : lengths[k], D);
            s.causal = i % 2;
            s.ramp = ramp;
            s.gain = ramp ? 3 : large ? 4 : 1;
            check(&s);
        }
    }
}

static void a_thousand_keys(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        Shape s = square(1, 1, 1000, i / 2 ? 64 : 128);
        s.causal = i % 2;
        check(&s);
    }
}

static void unequal_lengths(void **state)
{
    (void)state;
    static const int pairs[][2] = {{64, 128},  {128, 192}, {239, 1},   {799, 3},   {113, 203},
                                   {113, 128}, {128, 217}, {113, 211}, {108, 256}, {256, 512},
                                   {384, 256}, {640, 128}, {512, 256}, {1, 239},   {1, 3},
                                   {2, 1},     {511, 1},   {3, 513}};
    for (size_t i = 0; i < LT_COUNT(pairs) * 6; i++) {
        Shape s = {.B = 1, .H = 1, .Tq = pairs[i / 6][0], .Tk = pairs[i / 6][1]};
        s.D = i % 2 ? 64 : 128;
        s.causal = i % 6 > 1;
        if (i % 6 > 3) s.q_pos0 = LT_MAX(s.Tk - s.Tq, 5); // the last query sees the last key
        check(&s);
    }
}

static void head_sizes_in_between(void **state)
{
    (void)state;
    static const int sizes[] = {8, 16, 24, 32, 40, 48, 56, 72, 80, 88, 96, 104, 112, 120};
    for (size_t i = 0; i < LT_COUNT(sizes); i++) {
        Shape s = square(2, 2, 137, sizes[i]);
        s.packed = i % 2;
        s.causal = i % 3 > 0;
        check(&s);
    }
    static const int odd[] = {1, 5, 33, 63, 65, 127}; // one head: no step from head to head
    for (size_t i = 0; i < LT_COUNT(odd); i++) {
        Shape s = square(2, 1, 70, odd[i]);
        s.packed = false;
        s.causal = i % 2;
        check(&s);
    }
}

static void windows(void **state)
{
    (void)state;
    static const int sizes[] = {1, 9, 64, 127, 128, 129, 200, 256, 299};
    for (size_t i = 0; i < LT_COUNT(sizes) * 4; i++) {
        Shape s = square(1, 1, 300, i % 2 ? 64 : 128);
        s.window = sizes[i / 4];
        s.causal = i % 4 < 2;
        check(&s);
    }
    for (int i = 0; i < 4; i++) { // behind a context; one query; beyond all keys
        const int64_t D = i % 2 ? 64 : 128;
        Shape s[3] = {behind(2, 1, 70, 390, D, 320), behind(2, 2, 1, 390, D, 333),
                      behind(1, 1, 70, 39, D, 30)};
        for (int k = 0; k < 3; k++) {
            s[k].window = k < 2 ? 150 : 20;
            s[k].causal = i < 2;
            check(&s[k]);
        }
    }
}

static void documents(void **state)
{
    (void)state;
    for (int i = 0; i < 32; i++) {
        const bool lengths = i / 4 % 2;
        Shape s = square(lengths ? 3 : 2, 1, i < 8 ? 129 : i < 16 ? 400 : 520, i % 2 ? 64 : 128);
        s.segments = lengths ? LENGTHS : DOCUMENTS;
        s.causal = i / 2 % 2;
        if (i % 8 > 5 && i >= 16) s.window = 70;
        check(&s);
    }
}

static void dropped_probabilities(void **state)
{
    (void)state;
    for (int i = 0; i < 16; i++) {
        Shape s = square(2, 2, 140, i % 2 ? 64 : 128);
        s.causal = i / 2 % 2;
        s.p = i / 4 % 2 ? 0.5 : 0.1;
        s.segments = i >= 8 ? DOCUMENTS : NONE;
        if (i % 4 == 3) s.window = 50;
        check(&s);
    }
    // Groups of four columns that do not begin at a tile; a context; one query.
    Shape s[3] = {behind(1, 2, 130, 413, 64, 283), behind(1, 2, 130, 413, 128, 283),
                  behind(1, 3, 1, 77, 40, 76)};
    for (int i = 0; i < 3; i++) {
        s[i].causal = i < 2;
        s[i].window = i < 2 ? 201 : 0;
        s[i].p = 0.3;
        check(&s[i]);
    }
}

// A NaN in a query stays in its row; in a key it reaches the queries that see the key, no others.
static void nan_stays(void **state)
{
    (void)state;
    enum { T = 130, ROW = 7, KEY = 25 };
    for (int i = 0; i < 12; i++) {
        Shape s = square(1, 1, T, i % 2 ? 64 : 128);
        s.causal = i / 2 % 2;
        s.window = i >= 8 ? 40 : 0;
        for (int which = 0; which < 2; which++) {
            Problem *p = problem(&s);
            char text[200];
            describe(text, &s);
            at_row(p, which ? p->a.k : p->a.q, 0, which ? KEY : ROW)[3] = 0x7fc0;
            run(p, text);
            for (int64_t t = 0; t < T; t++) {
                const bool want = which ? p->sees[t * T + KEY] : t == ROW;
                if (isnan(p->lse[t]) != want) fail_msg("%s: lse of row %d", text, (int)t);
                for (int64_t d = 0; d < s.D; d++)
                    if (isnan(bf16_to_f32(p->out[t * p->a.out_row + d])) != want)
                        fail_msg("%s: row %d", text, (int)t);
            }
            problem_free(p);
        }
    }
}

static void lse_may_be_left_out(void **state)
{
    (void)state;
    Shape s = square(1, 2, 20, 64);
    s.causal = true;
    Problem *p = problem(&s);
    void *in = on_device(p->in, p->in_bytes), *out = on_device(p->out, p->out_bytes);
    AttentionFwdArgs a = p->a;
    Err err;
    a.q = in;
    a.k = moved(a.k, p->in, in);
    a.v = moved(a.v, p->in, in);
    a.out = out;
    assert_int_equal(hopper_attention_fwd(device_cuda_of(&gpu), &a, NULL), 0);
    for (a.B = 0; a.B < 2; a.B++) { // nothing to do
        a.Tq = 0;
        assert_int_equal(hopper_attention_fwd(device_cuda_of(&gpu), &a, NULL), 0);
    }
    assert_int_equal(device_sync(&gpu, &err), ERR_NONE);
    device_free(&gpu, in, p->in_bytes);
    device_free(&gpu, out, p->out_bytes);
    problem_free(p);
}

// Each kernel and each way through it once, for the race checker.
static void few_shapes(void **state)
{
    (void)state;
    for (int64_t D = 64; D <= 128; D += 64) {
        Shape s[5] = {square(1, 1, 520, D), square(1, 1, 520, D - 8), square(1, 1, 300, D),
                      behind(2, 1, 40, 410, D, 300), behind(1, 1, 30, 270, D, 0)};
        s[1].causal = s[2].causal = s[3].causal = true;
        s[2].window = 100;
        s[3].segments = DOCUMENTS;
        s[4].p = 0.3;
        for (int i = 0; i < 5; i++) check(&s[i]);
    }
}

static void refuses(const AttentionFwdArgs *a, const char *reason)
{
    const char *why = NULL;
    assert_false(hopper_attention_fwd_supports(device_cuda_of(&gpu), a, &why));
    if (!why || !strstr(why, reason)) fail_msg("\"%s\" instead of \"%s\"", why, reason);
}

static void says_what_it_does_not_serve(void **state)
{
    (void)state;
    const Shape s = square(2, 2, 20, 64);
    Problem *p = problem(&s);
    p->a.q = p->a.k = p->a.v = (void *)4096;
    p->a.out = (void *)8192;
#define REFUSES(change, reason)                                                                    \
    do {                                                                                           \
        AttentionFwdArgs a = p->a;                                                                 \
        change;                                                                                    \
        refuses(&a, reason);                                                                       \
    } while (0)
    const char *why = NULL;
    assert_true(hopper_attention_fwd_supports(device_cuda_of(&gpu), &p->a, &why));
    REFUSES(a.dtype = DTYPE_F32, "bf16");
    REFUSES(a.D = 130, "128");
    REFUSES(a.D = 60, "multiple of 8");
    REFUSES(a.Tk = 0, "no keys");
    REFUSES(a.scale = -1, "scale");
    REFUSES(a.scale = 0, "scale");
    REFUSES(a.q_row += 1, "rows");
    REFUSES(a.kv_row += 4, "rows");
    REFUSES(a.out_batch += 4, "samples");
    REFUSES(a.q_batch = 0, "same");
    REFUSES(a.v = (const char *)a.v + 2, "16 bytes");
    REFUSES(a.B = 65536, "65535");
    problem_free(p);
}

int main(int argc, char **argv) // the name of a test, or none: all
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_lengths),
        cmocka_unit_test(unequal_lengths),
        cmocka_unit_test(head_sizes_in_between),
        cmocka_unit_test(windows),
        cmocka_unit_test(documents),
        cmocka_unit_test(dropped_probabilities),
        cmocka_unit_test(nan_stays),
        cmocka_unit_test(lse_may_be_left_out),
        cmocka_unit_test(a_thousand_keys),
        cmocka_unit_test(says_what_it_does_not_serve),
        cmocka_unit_test(few_shapes),
    };
    Err err;
    if (device_cuda_open(&gpu, 0, &err) != ERR_NONE) {
        printf("SKIP: %s\n", err.text);
        return 77;
    }
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    printf("largest error of out, in errors of naive bf16: %.2f\n", worst_ratio);
    device_cuda_close(&gpu);
    return failed;
}
