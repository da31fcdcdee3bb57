// test_attention_bwd_hopper.c -- the Hopper backward of attention against plain loops.
//
// Two computations of a head stand beside the kernel's: one in double precision, and one as a
// straightforward bf16 implementation does it, which rounds scores, probabilities and their
// gradients to bf16. The kernel's error against the first may be at most twice that of the second,
// the rule of FlashAttention's own tests. Masks are explicit T x T matrices here, and dropout asks
// for one element at a time.
//
// Tensors have gaps between rows that hold NaN; the kernel may neither use nor touch them.
//
// Runs in the simulator (tests/cudasim) or on a GPU. With the name of a test: that one alone.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/device_cuda.h"
#include "kernels/ref/drop.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GAP = 8, UNTOUCHED = 0x7fff };

// Blind: a query that sees nothing. Lengths: those of FlashAttention's tests of variable lengths,
// behind them a sample is blind.
typedef enum Docs { ONE_DOC, TWO_DOCS, MANY_DOCS, DOCS_AND_BLIND, LENGTHS } Docs;

typedef struct Shape {
    int64_t B, H, T, D;
    bool causal;
    int64_t window;
    Docs docs;
    double p;
    double size;   // of q, k and v
    double offset; // on q, and off k: every score is far below zero
} Shape;

typedef struct Problem {
    Shape s;
    int64_t qkv_row, out_row, qkv_n, out_n;
    uint16_t *qkv, *out, *dout, *dqkv;
    float *lse;
    int32_t *seg_lo, *seg_hi;
    int64_t *sample;
    AttentionBwdArgs a; // on the host
} Problem;

static Device gpu;

typedef struct Grads { // of one head
    double *dq, *dk, *dv;
} Grads;

static uint16_t to_bf16(double x)
{
    uint16_t h;
    dtype_store(&h, DTYPE_BF16, 0, (float)x);
    return h;
}

static double from_bf16(uint16_t h)
{
    return (double)dtype_load(&h, DTYPE_BF16, 0);
}

static double rounded(double x, bool naive)
{
    return naive ? from_bf16(to_bf16(x)) : x;
}

static void *must(size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);
    assert_non_null(p);
    return p;
}

// ---- the plain computation ------------------------------------------------------------------

static bool sees(const Problem *p, int64_t b, int64_t i, int64_t j)
{
    const Shape *s = &p->s;
    if (s->causal && j > i) return false;
    if (s->window > 0 && i - j >= s->window) return false;
    if (s->docs == ONE_DOC) return true;
    return j >= p->seg_lo[b * s->T + i] && j < p->seg_hi[b * s->T + i];
}

static double value(const Problem *p, const uint16_t *x, int part, int64_t b, int64_t h, int64_t t,
                    int64_t d)
{
    const int64_t row = part < 0 ? p->out_row : p->qkv_row;
    const int64_t column = (part < 0 ? 0 : part * p->s.H * p->s.D) + h * p->s.D + d;
    return from_bf16(x[(b * p->s.T + t) * row + column]);
}

// One tensor of a head as [T,D].
static double *head_of(const Problem *p, const uint16_t *x, int part, int64_t b, int64_t h)
{
    const int64_t T = p->s.T, D = p->s.D;
    double *y = must((size_t)(T * D) * sizeof *y);
    for (int64_t t = 0; t < T; t++)
        for (int64_t d = 0; d < D; d++) y[t * D + d] = value(p, x, part, b, h, t, d);
    return y;
}

static double dot(const double *x, const double *y, int64_t n)
{
    double s = 0;
    for (int64_t i = 0; i < n; i++) s += x[i] * y[i];
    return s;
}

static void add_scaled(double *y, const double *x, double f, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] += f * x[i];
}

// Row i: the probabilities, and the log of their sum. No visible key: -infinity.
static double softmax_row(const Problem *p, int64_t b, int64_t i, const double *q, const double *k,
                          double *row, bool naive)
{
    const int64_t T = p->s.T, D = p->s.D;
    double max = -(double)INFINITY, sum = 0;
    for (int64_t j = 0; j < T; j++) {
        const bool seen = sees(p, b, i, j);
        row[j] = seen ? rounded((double)p->a.scale * dot(q + i * D, k + j * D, D), naive)
                      : -(double)INFINITY;
        max = fmax(max, row[j]);
    }
    for (int64_t j = 0; j < T; j++) {
        row[j] = max > -(double)INFINITY ? exp(row[j] - max) : 0;
        sum += row[j];
    }
    for (int64_t j = 0; j < T; j++) row[j] = sum > 0 ? rounded(row[j] / sum, naive) : 0;
    return max + log(sum);
}

static void forward(Problem *p)
{
    const int64_t T = p->s.T, D = p->s.D;
    double *row = must((size_t)T * sizeof *row), *sum = must((size_t)D * sizeof *sum);
    for (int64_t b = 0; b < p->s.B; b++) {
        for (int64_t h = 0; h < p->s.H; h++) {
            double *q = head_of(p, p->qkv, 0, b, h), *k = head_of(p, p->qkv, 1, b, h);
            double *v = head_of(p, p->qkv, 2, b, h);
            for (int64_t i = 0; i < T; i++) {
                p->lse[(b * p->s.H + h) * T + i] = (float)softmax_row(p, b, i, q, k, row, false);
                memset(sum, 0, (size_t)D * sizeof *sum);
                for (int64_t j = 0; j < T; j++)
                    if (row[j] > 0)
                        add_scaled(sum, v + j * D,
                                   drop_apply(row[j], &p->a.drop, b, (uint32_t)h, i, j), D);
                for (int64_t d = 0; d < D; d++)
                    p->out[(b * T + i) * p->out_row + h * D + d] = to_bf16(sum[d]);
            }
            free(q);
            free(k);
            free(v);
        }
    }
    free(row);
    free(sum);
}

static Grads plain_gradients(const Problem *p, int64_t b, int64_t h, bool naive)
{
    const int64_t T = p->s.T, D = p->s.D;
    const size_t bytes = (size_t)(T * D) * sizeof(double);
    Grads g = {must(bytes), must(bytes), must(bytes)};
    double *q = head_of(p, p->qkv, 0, b, h), *k = head_of(p, p->qkv, 1, b, h);
    double *v = head_of(p, p->qkv, 2, b, h), *o = head_of(p, p->out, -1, b, h);
    double *dout = head_of(p, p->dout, -1, b, h), *row = must((size_t)T * sizeof *row);
    for (int64_t i = 0; i < T; i++) {
        const double delta = dot(dout + i * D, o + i * D, D);
        softmax_row(p, b, i, q, k, row, naive);
        for (int64_t j = 0; j < T; j++) {
            if (!sees(p, b, i, j)) continue;
            const double dp = rounded(dot(dout + i * D, v + j * D, D), naive);
            const double kept = drop_apply(1, &p->a.drop, b, (uint32_t)h, i, j);
            const double ds = rounded(row[j] * (kept * dp - delta), naive) * (double)p->a.scale;
            add_scaled(g.dv + j * D, dout + i * D, rounded(row[j] * kept, naive), D);
            add_scaled(g.dq + i * D, k + j * D, ds, D);
            add_scaled(g.dk + j * D, q + i * D, ds, D);
        }
    }
    free(q);
    free(k);
    free(v);
    free(o);
    free(dout);
    free(row);
    return g;
}

// ---- problems -------------------------------------------------------------------------------

// Columns [0,used) of rows of `row`. The first third gets `offset`, the second loses it.
static void fill(uint16_t *x, int64_t rows, int64_t row, int64_t used, uint64_t seed, double size,
                 double offset)
{
    float *line = must((size_t)used * sizeof *line);
    for (int64_t r = 0; r < rows; r++) {
        rng_fill_normal(line, used, seed, (uint32_t)r, size);
        for (int64_t c = 0; c < row; c++) {
            const int64_t third = 3 * c / used;
            const double off = third == 0 ? offset : third == 1 ? -offset : 0;
            x[r * row + c] = c < used ? to_bf16((double)line[c] + off) : UNTOUCHED;
        }
    }
    free(line);
}

// Sample 0: documents of 1, 3, 2, 1 and 511 tokens; 1: one of 513; 2: none.
static void variable_lengths(Problem *p, int64_t b)
{
    static const int lengths[3][5] = {{1, 3, 2, 1, 511}, {513}, {0}};
    const int64_t T = p->s.T;
    int64_t i = 0;
    for (int k = 0; k < 5; k++)
        for (const int64_t begin = i, end = LT_MIN(T, i + lengths[b % 3][k]); i < end; i++) {
            p->seg_lo[b * T + i] = (int32_t)begin;
            p->seg_hi[b * T + i] = (int32_t)end;
        }
    for (; i < T; i++) p->seg_lo[b * T + i] = p->seg_hi[b * T + i] = 0;
}

static void documents(Problem *p)
{
    const Shape *s = &p->s;
    for (int64_t b = 0; b < s->B && s->docs == LENGTHS; b++) variable_lengths(p, b);
    if (s->docs == LENGTHS) return;
    for (int64_t b = 0; b < s->B; b++) {
        for (int64_t i = 0; i < s->T; i++) {
            const int64_t at = b * s->T + i, cut = s->T / 3 + 5 * b, some = 37 + 11 * b;
            p->seg_lo[at] = (int32_t)(s->docs == MANY_DOCS ? i / some * some : i < cut ? 0 : cut);
            p->seg_hi[at] = (int32_t)(s->docs == MANY_DOCS ? i / some * some + some
                                      : i < cut            ? cut
                                                           : s->T);
            if (s->docs == DOCS_AND_BLIND && i % 5 == 2) p->seg_hi[at] = p->seg_lo[at];
        }
    }
}

static Problem make(const Shape *s)
{
    Problem p = {.s = *s};
    const int64_t rows = s->B * s->T, C = s->H * s->D;
    p.qkv_row = 3 * C + GAP;
    p.out_row = C + GAP;
    p.qkv_n = rows * p.qkv_row;
    p.out_n = rows * p.out_row;
    p.qkv = must((size_t)p.qkv_n * 2);
    p.dqkv = must((size_t)p.qkv_n * 2);
    p.out = must((size_t)p.out_n * 2);
    p.dout = must((size_t)p.out_n * 2);
    p.lse = must((size_t)(rows * s->H) * sizeof *p.lse);
    p.seg_lo = must((size_t)rows * sizeof *p.seg_lo);
    p.seg_hi = must((size_t)rows * sizeof *p.seg_hi);
    p.sample = must((size_t)s->B * sizeof *p.sample);
    fill(p.qkv, rows, p.qkv_row, 3 * C, 11, s->size, s->offset);
    fill(p.dout, rows, p.out_row, C, 12, 1, 0);
    fill(p.out, rows, p.out_row, C, 13, 1, 0);
    for (int64_t b = 0; b < s->B; b++) p.sample[b] = ((int64_t)5 << 32) + 77 + 3 * b;
    documents(&p);
    p.a = (AttentionBwdArgs){.B = s->B, .H = s->H, .T = s->T, .D = s->D, .dtype = DTYPE_BF16};
    p.a.qkv_row = p.qkv_row;
    p.a.qkv_batch = p.qkv_row * s->T;
    p.a.out_row = p.out_row;
    p.a.out_batch = p.out_row * s->T;
    p.a.scale = (float)(1 / sqrt((double)s->D));
    p.a.mask.causal = s->causal;
    p.a.mask.window = s->window;
    p.a.drop = (DropoutSpec){.p = (float)s->p,
                             .seed = 0x123456789abcull,
                             .layer = 3,
                             .site = RNG_DROP_ATTENTION,
                             .sample = p.sample};
    forward(&p);
    return p;
}

static void destroy(Problem *p)
{
    void *const all[] = {p->qkv, p->dqkv, p->out, p->dout, p->lse, p->seg_lo, p->seg_hi, p->sample};
    for (size_t i = 0; i < LT_COUNT(all); i++) free(all[i]);
}

// ---- the kernel -----------------------------------------------------------------------------

static void *on_device(const void *host, size_t bytes)
{
    void *d = NULL;
    Err err;
    assert_int_equal(device_alloc(&gpu, bytes, &d, &err), ERR_NONE);
    assert_int_equal(device_upload(&gpu, d, host, bytes, &err), ERR_NONE);
    return d;
}

// Leaves dq, dk and dv in p->dqkv.
static void run_kernel(Problem *p)
{
    const int64_t rows = p->s.B * p->s.T, C = p->s.H * p->s.D;
    const struct {
        const void *host;
        size_t bytes;
    } from[] = {{p->qkv, (size_t)p->qkv_n * 2},
                {p->dqkv, (size_t)p->qkv_n * 2},
                {p->out, (size_t)p->out_n * 2},
                {p->dout, (size_t)p->out_n * 2},
                {p->lse, (size_t)(rows * p->s.H) * sizeof *p->lse},
                {p->seg_lo, (size_t)rows * sizeof *p->seg_lo},
                {p->seg_hi, (size_t)rows * sizeof *p->seg_hi},
                {p->sample, (size_t)p->s.B * sizeof *p->sample}};
    for (int64_t i = 0; i < p->qkv_n; i++) p->dqkv[i] = UNTOUCHED;
    void *d[LT_COUNT(from)];
    AttentionBwdArgs a = p->a;
    for (size_t i = 0; i < LT_COUNT(from); i++) d[i] = on_device(from[i].host, from[i].bytes);
    a.q = d[0];
    a.k = (const uint16_t *)d[0] + C;
    a.v = (const uint16_t *)d[0] + 2 * C;
    a.dq = d[1];
    a.dk = (uint16_t *)d[1] + C;
    a.dv = (uint16_t *)d[1] + 2 * C;
    a.out = d[2];
    a.dout = d[3];
    a.lse = d[4];
    a.drop.sample = d[7];
    if (p->s.docs != ONE_DOC) {
        a.mask.seg_lo = d[5];
        a.mask.seg_hi = d[6];
    }
    Err err;
    const char *why = NULL;
    const CudaDevice *dev = device_cuda_of(&gpu);
    assert_int_equal(attention_bwd_check(&a, &err), ERR_NONE);
    if (!hopper_attention_bwd_supports(dev, &a, &why)) fail_msg("refused: %s", why);
    const size_t bytes = hopper_attention_bwd_scratch(dev, &a);
    uint8_t *junk = must(bytes);
    memset(junk, 0xff, bytes);
    void *scratch = on_device(junk, bytes);
    assert_int_equal(hopper_attention_bwd(dev, &a, scratch), 0);
    assert_int_equal(device_download(&gpu, p->dqkv, d[1], (size_t)p->qkv_n * 2, &err), ERR_NONE);
    for (size_t i = 0; i < LT_COUNT(d); i++) device_free(&gpu, d[i], from[i].bytes);
    device_free(&gpu, scratch, bytes);
    free(junk);
}

// ---- comparing ------------------------------------------------------------------------------

typedef struct Errors {
    double ours, naive, range;
} Errors;

static void compare(Errors *e, const Problem *p, int part, int64_t b, int64_t h, const double *want,
                    const double *naive)
{
    for (int64_t t = 0; t < p->s.T; t++) {
        for (int64_t d = 0; d < p->s.D; d++) {
            const double w = want[t * p->s.D + d], got = value(p, p->dqkv, part, b, h, t, d);
            const double error = fabs(got - w), other = rounded(naive[t * p->s.D + d], true);
            e->ours = isnan(error) ? (double)INFINITY : fmax(e->ours, error);
            e->naive = fmax(e->naive, fabs(other - w));
            e->range = fmax(e->range, fabs(w));
        }
    }
}

static int wrong(const Problem *p, char text[256])
{
    static const char *const names[] = {"dq", "dk", "dv"};
    Errors e[3] = {{0, 0, 0}};
    for (int64_t b = 0; b < p->s.B; b++) {
        for (int64_t h = 0; h < p->s.H; h++) {
            const Grads want = plain_gradients(p, b, h, false),
                        naive = plain_gradients(p, b, h, true);
            compare(&e[0], p, 0, b, h, want.dq, naive.dq);
            compare(&e[1], p, 1, b, h, want.dk, naive.dk);
            compare(&e[2], p, 2, b, h, want.dv, naive.dv);
            double *const all[] = {want.dq, want.dk, want.dv, naive.dq, naive.dk, naive.dv};
            for (size_t i = 0; i < LT_COUNT(all); i++) free(all[i]);
        }
    }
    int bad = 0, used = 0;
    for (int i = 0; i < 3; i++) {
        const bool ok = e[i].ours <= 2 * e[i].naive + 1e-5 * e[i].range;
        used += snprintf(text + used, 256 - (size_t)used, "  %s %.2e (naive %.2e)%s", names[i],
                         e[i].ours, e[i].naive, ok ? "" : " WRONG");
        bad += !ok;
    }
    for (int64_t r = 0; r < p->s.B * p->s.T; r++)
        for (int64_t c = p->qkv_row - GAP; c < p->qkv_row; c++)
            bad += p->dqkv[r * p->qkv_row + c] != UNTOUCHED;
    return bad;
}

static int check(const Shape *s)
{
    static const char *const docs[] = {"", " two documents", " many documents", " blind queries",
                                       " variable lengths"};
    Problem p = make(s);
    char text[256];
    run_kernel(&p);
    const int bad = wrong(&p, text);
    print_message("B %lld H %lld T %4lld D %3lld %s%s p %.1f window %lld:%s%s\n", (long long)s->B,
                  (long long)s->H, (long long)s->T, (long long)s->D,
                  s->causal ? "causal" : "full  ", docs[s->docs], s->p, (long long)s->window, text,
                  bad ? "  FAILED" : "");
    uint16_t *first = must((size_t)p.qkv_n * 2);
    memcpy(first, p.dqkv, (size_t)p.qkv_n * 2);
    run_kernel(&p);
    const int differs = memcmp(first, p.dqkv, (size_t)p.qkv_n * 2) != 0;
    if (differs) print_message("  and not the same bits twice\n");
    free(first);
    destroy(&p);
    return bad + differs;
}

// ---- tests ----------------------------------------------------------------------------------

static const Shape quick[] = {
    {1, 1, 1, 64, true, 0, ONE_DOC, 0, 1, 0},
    {1, 2, 65, 64, true, 0, ONE_DOC, 0, 1, 0},
    {2, 1, 130, 64, false, 0, ONE_DOC, 0, 1, 0},
    {1, 1, 200, 128, true, 0, ONE_DOC, 0, 1, 0},
    {1, 2, 129, 128, false, 0, ONE_DOC, 0, 1, 0},
    {1, 1, 300, 64, true, 100, ONE_DOC, 0, 1, 0},
    {1, 1, 190, 96, true, 33, TWO_DOCS, 0, 1, 0},
    {2, 1, 140, 64, true, 0, DOCS_AND_BLIND, 0, 1, 0},
    {1, 2, 150, 40, false, 0, MANY_DOCS, 0, 1, 0},
    {1, 1, 100, 64, true, 0, ONE_DOC, 0.2, 1, 0},
    {2, 2, 131, 128, true, 0, TWO_DOCS, 0.5, 1, 0},
    {1, 1, 140, 64, false, 20, ONE_DOC, 0.1, 1, 0},
    {1, 1, 150, 64, true, 0, ONE_DOC, 0, 8, 0},
    {1, 1, 150, 128, false, 0, ONE_DOC, 0, 8, 0},
    {1, 1, 192, 64, false, 0, ONE_DOC, 0, 1, 4},
    {1, 1, 192, 128, true, 0, ONE_DOC, 0, 1, 4},
};

static void small_shapes_with_every_mask(void **state)
{
    (void)state;
    int bad = 0;
    for (size_t i = 0; i < LT_COUNT(quick); i++) bad += check(&quick[i]);
    assert_int_equal(bad, 0);
}

static void lengths_of_flash_attention(void **state)
{
    static const int lengths[] = {1,   2,   3,   64,  108, 113, 127, 128, 192, 203,
                                  211, 217, 239, 256, 384, 511, 512, 513, 640};
    (void)state;
    int bad = 0;
    for (size_t i = 0; i < LT_COUNT(lengths); i++)
        for (int causal = 0; causal < 2; causal++)
            for (int64_t D = 64; D <= 128; D += 64)
                bad += check(&(Shape){1, lengths[i] < 200 ? 2 : 1, lengths[i], D, causal, 0,
                                      ONE_DOC, 0, 1, 0});
    assert_int_equal(bad, 0);
}

static void variable_lengths_of_flash_attention(void **state)
{
    (void)state;
    int bad = 0;
    for (int i = 0; i < 4; i++)
        bad += check(
            &(Shape){3, 1, i < 2 ? 600 : 530, i % 2 ? 128 : 64, i % 3 == 0, 0, LENGTHS, 0, 1, 0});
    assert_int_equal(bad, 0);
}

static void long_sequences(void **state)
{
    static const Shape shapes[] = {{1, 1, 1024, 64, true, 0, ONE_DOC, 0, 1, 0},
                                   {1, 1, 1023, 128, false, 0, ONE_DOC, 0, 1, 0},
                                   {1, 1, 1023, 64, true, 256, MANY_DOCS, 0, 1, 0},
                                   {1, 1, 1024, 128, true, 256, ONE_DOC, 0, 1, 0}};
    (void)state;
    int bad = 0;
    for (size_t i = 0; i < LT_COUNT(shapes); i++) bad += check(&shapes[i]);
    assert_int_equal(bad, 0);
}

// By name alone: minutes.
static void four_thousand_tokens(void **state)
{
    static const Shape shapes[] = {{1, 1, 4096, 64, true, 0, ONE_DOC, 0, 1, 0},
                                   {1, 1, 4224, 64, false, 0, ONE_DOC, 0, 1, 0},
                                   {1, 1, 4096, 128, false, 0, ONE_DOC, 0, 1, 0},
                                   {1, 1, 4224, 128, true, 0, ONE_DOC, 0, 1, 0}};
    (void)state;
    int bad = 0;
    for (size_t i = 0; i < LT_COUNT(shapes); i++) bad += check(&shapes[i]);
    assert_int_equal(bad, 0);
}

static void says_what_it_does_not_serve(void **state)
{
    static const Shape shape = {2, 2, 8, 64, true, 0, ONE_DOC, 0, 1, 0};
    (void)state;
    Problem p = make(&shape);
    AttentionBwdArgs a = p.a;
    a.q = a.k = a.v = p.qkv;
    a.dq = a.dk = a.dv = p.dqkv;
    a.out = p.out;
    a.dout = p.dout;
    const CudaDevice *dev = device_cuda_of(&gpu);
    const char *why = NULL;
    const AttentionBwdArgs good = a;
    assert_true(hopper_attention_bwd_supports(dev, &a, &why));
#define REFUSES(change, word)                                                                      \
    do {                                                                                           \
        a = good;                                                                                  \
        why = NULL;                                                                                \
        change;                                                                                    \
        assert_false(hopper_attention_bwd_supports(dev, &a, &why));                                \
        assert_non_null(strstr(why, word));                                                        \
    } while (0)
    REFUSES(a.dtype = DTYPE_F32, "bf16");
    REFUSES(a.D = 130, "128");
    REFUSES(a.D = 60, "multiples of 8");
    REFUSES(a.T = 1 << 20, "list");
    REFUSES(a.B = 65536, "grid");
    REFUSES(a.qkv_row += 1, "rows");
    REFUSES(a.out_row += 4, "rows");
    REFUSES(a.out_batch += 4, "samples");
    REFUSES(a.dk = (char *)a.dk + 2, "16 bytes");
    REFUSES(a.dout = (const char *)a.dout + 8, "16 bytes");
    destroy(&p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(small_shapes_with_every_mask),
                                       cmocka_unit_test(lengths_of_flash_attention),
                                       cmocka_unit_test(variable_lengths_of_flash_attention),
                                       cmocka_unit_test(long_sequences),
                                       cmocka_unit_test(four_thousand_tokens),
                                       cmocka_unit_test(says_what_it_does_not_serve)};
    Err err;
    if (device_cuda_open(&gpu, 0, &err) != ERR_NONE) {
        print_message("SKIP: %s\n", err.text);
        return 77;
    }
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    else
        cmocka_set_skip_filter("four_thousand_tokens");
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_cuda_close(&gpu);
    return failed;
}
