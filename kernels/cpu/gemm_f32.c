// gemm_f32.c -- matrix product in f32, for any vector width; operands may be bf16 or f16 in memory.
// Contract: kernels/ops/matmul.h    Driver: gemm_driver.c    Built once an instruction set (isa.h)
//
// WHAT    The inner loop keeps a tile of C, MR rows x NV vectors, in registers. A step of K loads NV
//         vectors of B and broadcasts MR values of A against them:
//
//                     B panel, one k:  [ b0 | b1 | b2 ]      NV vectors
//             A panel,  a0             [ .. | .. | .. ]
//             one k:    a1             [ .. | .. | .. ]      MR x NV accumulators
//                       ...                                  += a_i * b_j
//
//         Tiles: 8 x 48 on 32 registers of 16 lanes (divides GPT-2's widths and powers of two),
//         6 x 16 on 16 of 8 lanes, 6 x 8 on 16 of 4 lanes.
//
// COST    MR*NV multiply-adds for NV loads and MR broadcasts: arithmetic bound from L2. A block of A
//         (256 rows x kc) stays in L2, B's panel streams through L1 (prefetched 8 steps ahead), and
//         the tile of C is prefetched while the loop runs.
//
// ROUND   A chunk of K is summed in f32 from zero, chunks are added in order. f32 C holds the
//         partial sums itself; for bf16 and f16 C they are f32 in scratch and C is rounded once.
// SHAPES  everything the contract allows.
//
// SPDX-License-Identifier: MIT
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/gemm_vec.h"

enum {
    MR = LATHE_VB == 64 ? 8 : 6,
    NV = LATHE_VB == 64 ? 3 : 2,
    NR = NV * VL,
    KC = 384,
    MC = LATHE_VB == 64 ? 32 * MR : 40 * MR, // rows of A that stay in L2
    NC = LATHE_VB == 64 ? 8 * NR : 24 * NR,  // columns of a task
    SHARED_BLOCK = 1 << 10,
};

// ---- packing ----

// Panel of w rows whose k lie side by side: VL rows of VL are turned at a time.
LT_INLINE void pack_rows(float *dst, const void *src, int64_t ld, DType t, int w, int64_t n, int64_t k)
{
    int64_t p = 0;
    for (; p + VL <= k; p += VL) {
#pragma GCC unroll 4
        for (int i0 = 0; i0 < w; i0 += VL) {
            VecF r[VL];
#pragma GCC unroll 16
            for (int i = 0; i < VL; i++)
                r[i] = i0 + i < n ? vec_load_as(src, t, (i0 + i) * ld + p) : (VecF){0};
            gemm_transpose(r);
            const int lanes = w - i0 < VL ? w - i0 : VL;
#pragma GCC unroll 16
            for (int i = 0; i < VL; i++) memcpy(dst + (p + i) * w + i0, &r[i], (size_t)lanes * 4);
        }
    }
    for (; p < k; p++)
        for (int i = 0; i < w; i++) dst[p * w + i] = i < n ? dtype_load(src, t, i * ld + p) : 0.0f;
}

// Panel of w columns that lie side by side for each k.
LT_INLINE void pack_cols(float *dst, const void *src, int64_t ld, DType t, int w, int64_t n, int64_t k)
{
    if (n == w) {
        for (int64_t p = 0; p < k; p++) {
            int i = 0;
#pragma GCC unroll 4
            for (; i + VL <= w; i += VL) vec_store(dst + p * w + i, vec_load_as(src, t, p * ld + i));
#pragma GCC unroll 8
            for (; i < w; i++) dst[p * w + i] = dtype_load(src, t, p * ld + i);
        }
        return;
    }
    for (int64_t p = 0; p < k; p++)
        for (int i = 0; i < w; i++) dst[p * w + i] = i < n ? dtype_load(src, t, p * ld + i) : 0.0f;
}

// One function a layout, width and type, so that each loop knows its constants.
LT_INLINE void pack_typed(float *dst, const GemmOperand *x, const void *src, int w, int64_t n,
                         int64_t k, DType t)
{
    if (x->k_rows)
        pack_cols(dst, src, x->ld, t, w, n, k);
    else
        pack_rows(dst, src, x->ld, t, w, n, k);
}

static void pack_f32(void *dst, const GemmOperand *x, int64_t i0, int64_t n, int64_t k0, int64_t k)
{
    const int64_t at  = x->k_rows ? k0 * x->ld + i0 : i0 * x->ld + k0;
    const void   *src = (const char *)x->p + at * (int64_t)dtype_bytes(x->dtype);
    if (x->dtype == DTYPE_F32) {
        if (x->is_b)
            pack_typed(dst, x, src, NR, n, k, DTYPE_F32);
        else
            pack_typed(dst, x, src, MR, n, k, DTYPE_F32);
    } else if (x->dtype == DTYPE_BF16) {
        if (x->is_b)
            pack_typed(dst, x, src, NR, n, k, DTYPE_BF16);
        else
            pack_typed(dst, x, src, MR, n, k, DTYPE_BF16);
    } else {
        pack_typed(dst, x, src, x->is_b ? NR : MR, n, k, DTYPE_F16);
    }
}

// ---- epilogue and store ----

// Finish n <= VL columns of row r from column c and store them.
LT_INLINE void finish(const MatmulArgs *a, VecF s, int64_t r, int64_t c, int64_t n)
{
    const int64_t at = r * a->ldc + c;
    if (a->accumulate && a->c_dtype != DTYPE_F32) s += vec_load_as_n(a->C, a->c_dtype, at, n, 0);
    if (a->bias) s += vec_load_as_n(a->bias, a->bias_dtype, c, n, 0);
    if (a->epilogue == MATMUL_GELU) {
        s = vec_round_as(s, a->c_dtype);
        if (a->aux) vec_store_as_n(a->aux, a->c_dtype, at, n, s);
        s = gemm_act(s, a->act);
    } else if (a->epilogue == MATMUL_DGELU) {
        s *= gemm_act_slope(vec_load_as_n(a->aux, a->c_dtype, at, n, 0), a->act);
    }
    vec_store_as_n(a->C, a->c_dtype, at, n, s);
}

// Is there something to add to? An f32 C holds its own partial sums, so accumulating is adding to
// one that is already there.
LT_INLINE bool adds(const GemmBlock *b)
{
    return !b->first || (b->args->accumulate && b->args->c_dtype == DTYPE_F32);
}

// A tile that is cut by the edge of C, is in its last chunk, or goes through an epilogue.
static __attribute__((noinline)) void store_slow(const float *t, const GemmBlock *b, float *part,
                                                 int64_t ld, int64_t r, int64_t c, int64_t mr,
                                                 int64_t nr)
{
    for (int64_t i = 0; i < mr; i++, part += ld)
        for (int64_t j = 0; j < nr; j += VL) {
            const int64_t n = LT_MIN((int64_t)VL, nr - j);
            VecF            s = vec_load(t + i * NR + j);
            if (adds(b)) s = vec_load_n(part + j, n, 0) + s;
            if (b->last)
                finish(b->args, s, r + i, c + j, n);
            else
                vec_store_n(part + j, s, n);
        }
}

// ---- the tile ----

// C[r.., c..] from one chunk of K. `part` is where this tile's partial sums are, `ld` apart.
static __attribute__((noinline)) void tile(int64_t k, const float *restrict A,
                                           const float *restrict B, float *part, int64_t ld,
                                           const GemmBlock *b, int64_t r, int64_t c)
{
    const int64_t mr = LT_MIN(MR, b->r1 - r), nr = LT_MIN(NR, b->c1 - c);
    for (int64_t i = 0; i < mr; i++)
#pragma GCC unroll 4
        for (int j = 0; j < NV; j++) __builtin_prefetch(part + i * ld + j * VL, 1);
    VecF acc[MR][NV];
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
        for (int j = 0; j < NV; j++) acc[i][j] = (VecF){0};
    for (int64_t p = 0; p < k; p++, A += MR, B += NR) {
#pragma GCC unroll 4
        for (int j = 0; j < NV; j++) __builtin_prefetch(B + 8 * NR + j * VL);
        VecF bv[NV];
#pragma GCC unroll 4
        for (int j = 0; j < NV; j++) bv[j] = vec_load(B + j * VL);
#pragma GCC unroll 16
        for (int i = 0; i < MR; i++) {
            const VecF av = vec_set(A[i]);
#pragma GCC unroll 4
            for (int j = 0; j < NV; j++) acc[i][j] += av * bv[j];
        }
    }
    const MatmulArgs *a     = b->args;
    const bool        add   = adds(b);
    const bool        plain = a->c_dtype == DTYPE_F32 && a->epilogue == MATMUL_PLAIN && !a->bias;
    if (mr == MR && nr == NR && (plain || !b->last)) {
#pragma GCC unroll 16
        for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
            for (int j = 0; j < NV; j++) {
                float *to = part + i * ld + j * VL;
                if (add)
                    vec_store(to, vec_load(to) + acc[i][j]);
                else
                    vec_store(to, acc[i][j]);
            }
        return;
    }
    float t[MR * NR];
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
        for (int j = 0; j < NV; j++) vec_store(t + i * NR + j * VL, acc[i][j]);
    store_slow(t, b, part, ld, r, c, mr, nr);
}

static void block_f32(GemmThread *th, const GemmPlan *p, const GemmBlock *b)
{
    (void)p;
    const MatmulArgs *a      = b->args;
    const bool        in_c   = a->c_dtype == DTYPE_F32;
    float            *part   = in_c ? (float *)a->C + b->r0 * a->ldc + b->c0 : th->part;
    const int64_t     ld     = in_c ? a->ldc : b->c1 - b->c0;
    const float      *A      = (const float *)(const void *)b->a, *B = (const float *)(const void *)b->b;
    for (int64_t rc = b->r0; rc < b->r1; rc += MC)
        for (int64_t c = b->c0; c < b->c1; c += NR)
            for (int64_t r = rc; r < LT_MIN(b->r1, rc + MC); r += MR)
                tile(b->kp, A + (r - b->r0) * b->kp, B + (c - b->c0) * b->kp,
                     part + (r - b->r0) * ld + (c - b->c0), ld, b, r, c);
}

static size_t part_bytes(const MatmulArgs *a, const GemmPlan *p)
{
    return a->c_dtype == DTYPE_F32 || p->nk == 1 ? 0 : (size_t)(p->sb * p->pb) * 4;
}

static const GemmKernel kernel = {.mr           = MR,
                                  .nr           = NR,
                                  .k_step       = 1,
                                  .elem_bytes   = 4,
                                  .kc           = KC,
                                  .shared_block = SHARED_BLOCK,
                                  .priv_block   = NC,
                                  .tasks        = 4,
                                  .part_bytes   = part_bytes,
                                  .pack         = pack_f32,
                                  .block        = block_f32};

static size_t scratch(const MatmulArgs *a, const OpCtx *cx) { return gemm_scratch(&kernel, a, cx); }

static Status run(const MatmulArgs *a, OpCtx *cx, Err *err)
{
    (void)err;
    gemm_run(&kernel, a, cx);
    return ERR_NONE;
}

void ISA_NAME(cpu_matmul_register)(Ops *ops)
{
    ops_add_matmul(ops, (Impl_matmul){.impl = ISA_STRING, .scratch = scratch, .run = run});
}
