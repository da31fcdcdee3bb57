// gemm_driver.c -- cuts a matrix product into blocks and shares them among threads; see gemm.h.
//
//     for each slab of K                                   (one, unless K is long)
//         all threads: pack the shared side's panels       --- barrier ---
//         tasks from a queue, each a block of C, sb x pb:
//             for each chunk of the slab
//                 pack the private block's chunk           (stays in this core's L2)
//                 kernel->block: multiply, and store at the last chunk
//
//                    private side ->
//                 +------+------+------+---
//     shared side | task | task | task |       M <= N: shared = rows (A), private = columns (B)
//         |       +------+------+------+---    M >  N: the other way round
//         v       | task | ...
//
// A product too small to pay for waking threads runs on the caller's alone.
//
// SPDX-License-Identifier: MIT
#include "kernels/cpu/gemm.h"
#include "engine/base/assert.h"

#include <omp.h>
#include <string.h>

enum { GEMM_ALIGN = 64 };
static const double GEMM_SLAB_BYTES = 16 << 20;  // wished size of a packed shared side
static const double GEMM_PARTS_BYTES = 64 << 20; // largest partial sums kept between slabs
static const double GEMM_ALONE_FLOP = 1e6;       // below this one thread is as fast

static int64_t div_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

// n in equal blocks of at most `most`, each a multiple of w.
static int64_t even_block(int64_t n, int64_t most, int64_t w)
{
    most = LT_MAX(most, w);
    return LT_ROUND_UP(div_up(n, div_up(n, most)), w);
}

static GemmPlan gemm_plan(const GemmKernel *k, const MatmulArgs *a, int threads)
{
    GemmPlan p = {.priv_a = a->M > a->N, .threads = threads};
    const double flop = 2.0 * (double)a->M * (double)a->N * (double)a->K;
    if (flop < GEMM_ALONE_FLOP) p.threads = 1;
    p.sn = p.priv_a ? a->N : a->M;
    p.pn = p.priv_a ? a->M : a->N;
    p.sw = p.priv_a ? k->nr : k->mr;
    p.pw = p.priv_a ? k->mr : k->nr;
    p.kc = LT_MAX(even_block(LT_MAX(a->K, 1), k->kc, 32), 32);
    p.nk = LT_MAX(div_up(a->K, p.kc), 1);

    // One block, if it is not much larger than wished; else equal blocks.
    p.sb = p.sn <= k->shared_block * 3 / 2 ? LT_ROUND_UP(p.sn, p.sw)
                                           : even_block(p.sn, k->shared_block, p.sw);
    const int64_t fair = div_up(p.pn, (int64_t)k->tasks * p.threads);
    p.pb = LT_ROUND_UP(LT_MIN(fair, k->priv_block), p.pw);
    p.tasks = div_up(p.sn, p.sb) * div_up(p.pn, p.pb);
    p.priv_bytes = (size_t)(p.pb * p.kc * k->elem_bytes);
    p.part_bytes = (size_t)LT_ROUND_UP((int64_t)k->part_bytes(a, &p), GEMM_ALIGN);

    const int64_t chunk = LT_ROUND_UP(p.sn, p.sw) * LT_ROUND_UP(p.kc, k->k_step) * k->elem_bytes;
    const int64_t fit = LT_MAX((int64_t)(GEMM_SLAB_BYTES / (double)chunk), 1);
    const bool keep = (double)p.part_bytes * (double)p.tasks <= GEMM_PARTS_BYTES;
    p.slab = keep ? even_block(p.nk, fit, 1) : p.nk;
    p.shared_bytes = (size_t)(p.slab * chunk);
    p.part_rooms = p.slab < p.nk ? p.tasks : p.threads;
    p.priv_bytes = (size_t)LT_ROUND_UP((int64_t)p.priv_bytes, GEMM_ALIGN);
    p.shared_bytes = (size_t)LT_ROUND_UP((int64_t)p.shared_bytes, GEMM_ALIGN);
    p.state_bytes = (size_t)LT_ROUND_UP((int64_t)k->state_bytes, GEMM_ALIGN);
    return p;
}

size_t gemm_scratch(const GemmKernel *k, const MatmulArgs *a, const OpCtx *cx)
{
    if (a->M == 0 || a->N == 0) return 0;
    const GemmPlan p = gemm_plan(k, a, cx->device->threads);
    const size_t per_thread = p.priv_bytes + p.state_bytes;
    return p.shared_bytes + p.part_bytes * (size_t)p.part_rooms + per_thread * (size_t)p.threads +
           GEMM_ALIGN;
}

// What the product's threads share.
typedef struct GemmJob {
    const GemmKernel *k;
    const MatmulArgs *a;
    const GemmExtra *extra;
    GemmPlan p;
    GemmOperand shared_op, priv_op;
    char *shared, *parts;
    int64_t chunk0, chunk1; // of the slab
    int64_t next;           // task to be drawn
} GemmJob;

// Panel i0 of chunk c in the shared scratch: chunks one after the other.
static char *shared_panel(const GemmJob *j, int64_t i0, int64_t c, int64_t kp)
{
    const int64_t width = LT_ROUND_UP(j->p.sn, j->p.sw);
    return j->shared + ((c - j->chunk0) * j->p.kc * width + i0 * kp) * j->k->elem_bytes;
}

static void pack_shared(const GemmJob *j, int64_t t)
{
    const GemmPlan *p = &j->p;
    const int64_t panels = div_up(p->sn, p->sw);
    const int64_t c = j->chunk0 + t / panels, k0 = c * p->kc, i0 = t % panels * p->sw;
    const int64_t k = LT_MIN(p->kc, j->a->K - k0), kp = LT_ROUND_UP(k, j->k->k_step);
    j->k->pack(shared_panel(j, i0, c, kp), &j->shared_op, i0, LT_MIN(p->sw, p->sn - i0), k0, k);
}

static void pack_private(const GemmJob *j, char *dst, int64_t i0, int64_t i1, int64_t k0, int64_t k)
{
    const int64_t w = j->p.pw, panel = w * LT_ROUND_UP(k, j->k->k_step) * j->k->elem_bytes;
    for (int64_t i = i0; i < i1; i += w, dst += panel)
        j->k->pack(dst, &j->priv_op, i, LT_MIN(w, i1 - i), k0, k);
}

// Where the operand block lies that this thread will pack after chunk c of private block i0.
static GemmNext next_block(const GemmJob *j, int64_t i0, int64_t c, int64_t guess)
{
    const GemmPlan *p = &j->p;
    int64_t q = i0, kn = (c + 1) * p->kc;
    if (c + 1 == j->chunk1) {
        if (guess >= p->tasks) return (GemmNext){0};
        q = guess % div_up(p->pn, p->pb) * p->pb;
        kn = j->chunk0 * p->kc;
    }
    const int64_t n = LT_MIN(p->pb, p->pn - q), k = LT_MIN(p->kc, j->a->K - kn);
    const int64_t e = (int64_t)dtype_bytes(j->priv_op.dtype), ld = j->priv_op.ld;
    const bool kr = j->priv_op.k_rows;
    return (GemmNext){.p = (const char *)j->priv_op.p + (kr ? kn * ld + q : q * ld + kn) * e,
                      .ld = ld * e,
                      .rows = kr ? k : n,
                      .bytes = (kr ? n : k) * e};
}

// One block of C: all chunks of the slab.
static void run_task(const GemmJob *j, GemmThread *th, int64_t t, int64_t guess)
{
    const GemmPlan *p = &j->p;
    const int64_t np = div_up(p->pn, p->pb);
    const int64_t s0 = t / np * p->sb, s1 = LT_MIN(p->sn, s0 + p->sb);
    const int64_t p0 = t % np * p->pb, p1 = LT_MIN(p->pn, p0 + p->pb);
    const int64_t room = p->slab < p->nk ? t : omp_get_thread_num();
    th->part = (float *)(void *)(j->parts + (size_t)room * p->part_bytes);
    for (int64_t c = j->chunk0; c < j->chunk1; c++) {
        const int64_t k0 = c * p->kc, k = LT_MIN(p->kc, j->a->K - k0);
        const int64_t kp = LT_ROUND_UP(k, j->k->k_step);
        if (k > 0) pack_private(j, th->priv, p0, p1, k0, k);
        const char *shared = shared_panel(j, s0, c, kp);
        const GemmBlock b = {.args = j->a,
                             .extra = j->extra,
                             .a = p->priv_a ? th->priv : shared,
                             .b = p->priv_a ? shared : th->priv,
                             .kp = kp,
                             .r0 = p->priv_a ? p0 : s0,
                             .r1 = p->priv_a ? p1 : s1,
                             .c0 = p->priv_a ? s0 : p0,
                             .c1 = p->priv_a ? s1 : p1,
                             .first = c == 0,
                             .last = c + 1 == p->nk,
                             .next = next_block(j, p0, c, guess)};
        j->k->block(th, p, &b);
    }
}

static void run_thread(GemmJob *j, char *scratch)
{
    const GemmPlan *p = &j->p;
    GemmThread th = {.priv = scratch, .state = scratch + p->priv_bytes};
    memset(th.state, 0, p->state_bytes);
    if (j->k->begin) j->k->begin(&th);
    for (int64_t c = 0; c < p->nk; c += p->slab) {
        if (c > 0) {
#pragma omp barrier
#pragma omp single
            {
                j->chunk0 = c;
                j->chunk1 = LT_MIN(p->nk, c + p->slab);
                j->next = 0;
            }
        }
        const int64_t chunks = j->a->K > 0 ? j->chunk1 - j->chunk0 : 0;
#pragma omp for schedule(static)
        for (int64_t t = 0; t < chunks * div_up(p->sn, p->sw); t++) pack_shared(j, t);
        for (;;) {
            int64_t t, ahead;
#pragma omp atomic capture
            t = j->next++;
            if (t >= p->tasks) break;
#pragma omp atomic read
            ahead = j->next;
            run_task(j, &th, t, ahead + p->threads - 1);
        }
    }
    if (j->k->end) j->k->end(&th);
}

void gemm_run(const GemmKernel *k, const MatmulArgs *a, OpCtx *cx)
{
    const GemmExtra none = {.a_dtype = a->ab_dtype, .b_dtype = a->ab_dtype, .alpha = 1};
    gemm_run_extra(k, a, &none, cx);
}

void gemm_run_extra(const GemmKernel *k, const MatmulArgs *a, const GemmExtra *extra, OpCtx *cx)
{
    if (a->M == 0 || a->N == 0) return;
    GemmJob j = {.k = k, .a = a, .extra = extra, .p = gemm_plan(k, a, cx->device->threads)};
    const GemmOperand A = {a->A, a->lda, a->trans_a, false, extra->a_dtype};
    const GemmOperand B = {a->B, a->ldb, !a->trans_b, true, extra->b_dtype};
    j.shared_op = j.p.priv_a ? B : A;
    j.priv_op = j.p.priv_a ? A : B;
    j.chunk1 = j.p.slab;
    const uintptr_t base = (uintptr_t)cx->scratch + GEMM_ALIGN - 1;
    j.shared = (char *)cx->scratch + (base / GEMM_ALIGN * GEMM_ALIGN - (uintptr_t)cx->scratch);
    j.parts = j.shared + j.p.shared_bytes;
    char *scratch = j.parts + j.p.part_bytes * (size_t)j.p.part_rooms;
    const size_t per_thread = j.p.priv_bytes + j.p.state_bytes;
#pragma omp parallel num_threads(j.p.threads) if (j.p.threads > 1)
    run_thread(&j, scratch + per_thread * (size_t)omp_get_thread_num());
}
