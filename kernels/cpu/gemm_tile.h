// gemm_tile.h -- a register tile of C: its shape, its store, and the walk over a block; for the
// kernels that keep MR x NV vectors of sums in registers (gemm_f32.c, gemm_bf16dot.c).
//
// Tiles: 8 x 48 on 32 registers of 16 lanes (divides GPT-2's widths and powers of two), 8 x 12 on
// 32 of 4 lanes, 6 x 16 on 16 of 8 lanes, 6 x 8 on 16 of 4 lanes.
//
// A chunk of K is summed in f32 from zero and multiplied by alpha, chunks are added in order. f32 C
// holds the partial sums itself; for bf16 and f16 C they are f32 in scratch, and C is rounded once.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/gemm_vec.h"

enum {
    MR = LATHE_REGS == 32 ? 8 : 6,
    NV = LATHE_REGS == 32 ? 3 : 2,
    NR = NV * VL,
    MC = LATHE_REGS == 32 ? 32 * MR : 40 * MR, // rows of A that stay in L2
    NC = LATHE_VB == 64 ? 4 * NR : 24 * NR,    // columns of a task
    GEMM_KC = LATHE_VB == 64 ? 768 : 384,      // most layers' K: C is stored once, not added to
    GEMM_SHARED_BLOCK = LATHE_VB == 64 ? 512 : 1024,
};

// Is there something to add to? An f32 C holds its own partial sums, so accumulating is adding to
// one that is already there.
LT_INLINE bool gemm_adds(const GemmBlock *b)
{
    return !b->first || (b->args->accumulate && b->args->c_dtype == DTYPE_F32);
}

// A tile that is cut by the edge of C, is in its last chunk, or goes through an epilogue.
static __attribute__((noinline, unused)) void
gemm_store_edge(const float *t, const GemmBlock *b, float *part, int64_t ld, int64_t r, int64_t c)
{
    const int64_t mr = LT_MIN(MR, b->r1 - r), nr = LT_MIN(NR, b->c1 - c);
    for (int64_t i = 0; i < mr; i++, part += ld)
        for (int64_t j = 0; j < nr; j += VL) {
            const int64_t n = LT_MIN((int64_t)VL, nr - j);
            VecF s = vec_load(t + i * NR + j);
            if (gemm_adds(b)) s = vec_load_n(part + j, n, 0) + s;
            if (b->last)
                gemm_finish(b->args, s, r + i, c + j, n);
            else
                vec_store_n(part + j, s, n);
        }
}

// The tile of C at r, c, before its products: fetch what the store will touch.
LT_INLINE void gemm_tile_begin(VecF acc[MR][NV], const float *part, int64_t ld, const GemmBlock *b,
                               int64_t r, int64_t c)
{
    const int64_t mr = LT_MIN(MR, b->r1 - r);
    for (int64_t i = 0; i < mr; i++)
#pragma GCC unroll 4
        for (int j = 0; j < NV; j++) __builtin_prefetch(part + i * ld + j * VL, 1);
    if (b->last && b->args->aux) {
        const size_t e = dtype_bytes(b->args->c_dtype);
        for (int64_t i = 0; i < mr; i++) {
            const char *aux = (const char *)b->args->aux + (size_t)((r + i) * b->args->ldc + c) * e;
            for (size_t at = 0; at < NR * e; at += 64) __builtin_prefetch(aux + at);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
        for (int j = 0; j < NV; j++) acc[i][j] = (VecF){0};
}

// The sums of one chunk of K into C or its partial sums (`part`, rows `ld` apart).
LT_INLINE void gemm_tile_end(VecF acc[MR][NV], float *part, int64_t ld, const GemmBlock *b,
                             int64_t r, int64_t c)
{
    const MatmulArgs *a = b->args;
    const bool add = gemm_adds(b);
    const float alpha = b->extra->alpha;
    const float *bias = b->last ? a->bias : NULL;
    const bool plain = a->c_dtype == DTYPE_F32 && a->epilogue == MATMUL_PLAIN &&
                       (!bias || a->bias_dtype == DTYPE_F32);
    if (b->r1 - r >= MR && b->c1 - c >= NR && (plain || !b->last)) {
#pragma GCC unroll 16
        for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
            for (int j = 0; j < NV; j++) {
                float *to = part + i * ld + j * VL;
                VecF s = acc[i][j] * alpha;
                if (add) s = vec_load(to) + s;
                if (bias) s += vec_load(bias + c + j * VL);
                vec_store(to, s);
            }
        return;
    }
    float t[MR * NR];
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
        for (int j = 0; j < NV; j++) vec_store(t + i * NR + j * VL, acc[i][j] * alpha);
    gemm_store_edge(t, b, part, ld, r, c);
}

// A panel of A times a panel of B, `steps` packed elements of 4 bytes long.
typedef void (*GemmTile)(int64_t steps, const void *A, const void *B, float *part, int64_t ld,
                         const GemmBlock *b, int64_t r, int64_t c);

LT_INLINE void gemm_walk(GemmThread *th, const GemmBlock *b, int64_t steps, GemmTile tile)
{
    const MatmulArgs *a = b->args;
    const bool in_c = a->c_dtype == DTYPE_F32;
    float *part = in_c ? (float *)a->C + b->r0 * a->ldc + b->c0 : th->part;
    const int64_t ld = in_c ? a->ldc : b->c1 - b->c0;
    for (int64_t rc = b->r0; rc < b->r1; rc += MC)
        for (int64_t c = b->c0; c < b->c1; c += NR)
            for (int64_t r = rc; r < LT_MIN(b->r1, rc + MC); r += MR)
                tile(steps, b->a + (r - b->r0) * steps * 4, b->b + (c - b->c0) * steps * 4,
                     part + (r - b->r0) * ld + (c - b->c0), ld, b, r, c);
}

static size_t gemm_part_bytes(const MatmulArgs *a, const GemmPlan *p)
{
    return a->c_dtype == DTYPE_F32 || p->nk == 1 ? 0 : (size_t)(p->sb * p->pb) * sizeof(float);
}
