// gemm_driver.c -- cuts a matrix product into blocks and shares them among threads; see gemm.h.
//
//     for each slab of the shared side                     (one, unless K is huge)
//         all threads: pack the slab's panels              --- barrier ---
//         tasks from a queue, each a block of C, sb x pb:
//             for each chunk of K
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
static const int64_t GEMM_SLAB_BYTES = 64 << 20; // largest packed shared side
static const double GEMM_ALONE_FLOP = 1e6;       // below this one thread is as fast

static int64_t div_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}
static int64_t round_up(int64_t a, int64_t b)
{
    return div_up(a, b) * b;
}

// n in equal blocks of at most `most`, each a multiple of w.
static int64_t even_block(int64_t n, int64_t most, int64_t w)
{
    most = LT_MAX(most, w);
    return round_up(div_up(n, div_up(n, most)), w);
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

    const int64_t k_padded = round_up(a->K, k->k_step);
    const int64_t k_bytes = LT_MAX(k_padded * k->elem_bytes, 1);
    p.slab = even_block(p.sn, GEMM_SLAB_BYTES / k_bytes, p.sw);
    p.shared_bytes = (size_t)(p.slab * k_bytes);

    // One block, if it is not much larger than wished; else equal blocks.
    const int64_t side = LT_MIN(p.slab, p.sn);
    p.sb = side <= k->shared_block * 3 / 2 ? round_up(side, p.sw)
                                           : even_block(side, k->shared_block, p.sw);
    const int64_t fair = div_up(p.pn, (int64_t)k->tasks * p.threads);
    p.pb = round_up(LT_MIN(fair, k->priv_block), p.pw);
    p.priv_bytes = (size_t)(p.pb * p.kc * k->elem_bytes);
    p.part_bytes = (size_t)round_up((int64_t)k->part_bytes(a, &p), GEMM_ALIGN);
    p.priv_bytes = (size_t)round_up((int64_t)p.priv_bytes, GEMM_ALIGN);
    p.shared_bytes = (size_t)round_up((int64_t)p.shared_bytes, GEMM_ALIGN);
    p.state_bytes = (size_t)round_up((int64_t)k->state_bytes, GEMM_ALIGN);
    return p;
}

size_t gemm_scratch(const GemmKernel *k, const MatmulArgs *a, const OpCtx *cx)
{
    if (a->M == 0 || a->N == 0) return 0;
    const GemmPlan p = gemm_plan(k, a, cx->device->threads);
    const size_t per_thread = p.priv_bytes + p.part_bytes + p.state_bytes;
    return p.shared_bytes + per_thread * (size_t)p.threads + GEMM_ALIGN;
}

// What the product's threads share.
typedef struct GemmJob {
    const GemmKernel *k;
    const MatmulArgs *a;
    GemmPlan p;
    GemmOperand shared_op, priv_op;
    char *shared;
    int64_t slab0, slab1; // of the shared side, now
    int64_t next;         // task to be drawn
} GemmJob;

// Panel i0 of the K chunk at k0 in the shared scratch: chunks one after the other.
static char *shared_panel(const GemmJob *j, int64_t i0, int64_t k0, int64_t kp)
{
    const int64_t width = round_up(j->slab1 - j->slab0, j->p.sw);
    return j->shared + (k0 * width + (i0 - j->slab0) * kp) * j->k->elem_bytes;
}

static void pack_shared(const GemmJob *j, int64_t t)
{
    const GemmPlan *p = &j->p;
    const int64_t panels = div_up(j->slab1 - j->slab0, p->sw);
    const int64_t k0 = t / panels * p->kc, i0 = j->slab0 + t % panels * p->sw;
    const int64_t k = LT_MIN(p->kc, j->a->K - k0), kp = round_up(k, j->k->k_step);
    j->k->pack(shared_panel(j, i0, k0, kp), &j->shared_op, i0, LT_MIN(p->sw, j->slab1 - i0), k0, k);
}

static void pack_private(const GemmJob *j, char *dst, int64_t i0, int64_t i1, int64_t k0, int64_t k)
{
    const int64_t w = j->p.pw, panel = w * round_up(k, j->k->k_step) * j->k->elem_bytes;
    for (int64_t i = i0; i < i1; i += w, dst += panel)
        j->k->pack(dst, &j->priv_op, i, LT_MIN(w, i1 - i), k0, k);
}

// Where the operand block lies that this thread will pack after the chunk at k0 of private block
// i0.
static GemmNext next_block(const GemmJob *j, int64_t i0, int64_t k0, int64_t tasks, int64_t guess)
{
    const GemmPlan *p = &j->p;
    int64_t q = i0, kn = k0 + p->kc;
    if (kn >= j->a->K) {
        if (guess >= tasks) return (GemmNext){0};
        q = guess % div_up(p->pn, p->pb) * p->pb;
        kn = 0;
    }
    const int64_t n = LT_MIN(p->pb, p->pn - q), k = LT_MIN(p->kc, j->a->K - kn);
    const int64_t e = (int64_t)dtype_bytes(j->priv_op.dtype), ld = j->priv_op.ld;
    const bool kr = j->priv_op.k_rows;
    return (GemmNext){.p = (const char *)j->priv_op.p + (kr ? kn * ld + q : q * ld + kn) * e,
                      .ld = ld * e,
                      .rows = kr ? k : n,
                      .bytes = (kr ? n : k) * e};
}

// One block of C: all of K.
static void run_task(const GemmJob *j, GemmThread *th, int64_t t, int64_t tasks, int64_t guess)
{
    const GemmPlan *p = &j->p;
    const int64_t np = div_up(p->pn, p->pb);
    const int64_t s0 = j->slab0 + t / np * p->sb, s1 = LT_MIN(j->slab1, s0 + p->sb);
    const int64_t p0 = t % np * p->pb, p1 = LT_MIN(p->pn, p0 + p->pb);
    const MatmulArgs *a = j->a;
    for (int64_t c = 0; c < p->nk; c++) {
        const int64_t k0 = c * p->kc, k = LT_MIN(p->kc, a->K - k0);
        const int64_t kp = round_up(k, j->k->k_step);
        if (k > 0) pack_private(j, th->priv, p0, p1, k0, k);
        const char *shared = shared_panel(j, s0, k0, kp);
        const GemmBlock b = {.args = a,
                             .a = p->priv_a ? th->priv : shared,
                             .b = p->priv_a ? shared : th->priv,
                             .kp = kp,
                             .r0 = p->priv_a ? p0 : s0,
                             .r1 = p->priv_a ? p1 : s1,
                             .c0 = p->priv_a ? s0 : p0,
                             .c1 = p->priv_a ? s1 : p1,
                             .first = c == 0,
                             .last = c + 1 == p->nk,
                             .next = next_block(j, p0, k0, tasks, guess)};
        j->k->block(th, p, &b);
    }
}

static void run_thread(GemmJob *j, char *scratch)
{
    const GemmPlan *p = &j->p;
    GemmThread th = {.priv = scratch,
                     .part = (float *)(void *)(scratch + p->priv_bytes),
                     .state = scratch + p->priv_bytes + p->part_bytes};
    memset(th.state, 0, p->state_bytes);
    if (j->k->begin) j->k->begin(&th);
    for (int64_t s = 0; s < p->sn; s += p->slab) {
        if (s > 0) {
#pragma omp barrier
#pragma omp single
            {
                j->slab0 = s;
                j->slab1 = LT_MIN(p->sn, s + p->slab);
                j->next = 0;
            }
        }
        const int64_t panels = j->a->K > 0 ? p->nk * div_up(j->slab1 - j->slab0, p->sw) : 0;
#pragma omp for schedule(static)
        for (int64_t t = 0; t < panels; t++) pack_shared(j, t);
        const int64_t tasks = div_up(j->slab1 - j->slab0, p->sb) * div_up(p->pn, p->pb);
        for (;;) {
            int64_t t, ahead;
#pragma omp atomic capture
            t = j->next++;
            if (t >= tasks) break;
#pragma omp atomic read
            ahead = j->next;
            run_task(j, &th, t, tasks, ahead + p->threads - 1);
        }
    }
    if (j->k->end) j->k->end(&th);
}

void gemm_run(const GemmKernel *k, const MatmulArgs *a, OpCtx *cx)
{
    if (a->M == 0 || a->N == 0) return;
    GemmJob j = {.k = k, .a = a, .p = gemm_plan(k, a, cx->device->threads)};
    const GemmOperand A = {a->A, a->lda, a->trans_a, false, a->ab_dtype};
    const GemmOperand B = {a->B, a->ldb, !a->trans_b, true, a->ab_dtype};
    j.shared_op = j.p.priv_a ? B : A;
    j.priv_op = j.p.priv_a ? A : B;
    j.slab1 = LT_MIN(j.p.slab, j.p.sn);
    const uintptr_t base = (uintptr_t)cx->scratch + GEMM_ALIGN - 1;
    j.shared = (char *)cx->scratch + (base / GEMM_ALIGN * GEMM_ALIGN - (uintptr_t)cx->scratch);
    char *scratch = j.shared + j.p.shared_bytes;
    const size_t per_thread = j.p.priv_bytes + j.p.part_bytes + j.p.state_bytes;
#pragma omp parallel num_threads(j.p.threads) if (j.p.threads > 1)
    run_thread(&j, scratch + per_thread * (size_t)omp_get_thread_num());
}
