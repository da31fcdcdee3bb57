// gemm_f32.c -- matrix product in f32, for any vector width; operands may be bf16, f16 or FP8 in
// memory.
// Contracts: kernels/ops/matmul.h, matmul_fp8.h    Driver: gemm_driver.c
// Built once an instruction set (isa.h)
//
// WHAT    The inner loop keeps a tile of C, MR rows x NV vectors, in registers. A step of K loads
//         NV vectors of B and broadcasts MR values of A against them:
//
//                     B panel, one k:  [ b0 | b1 | b2 ]      NV vectors
//             A panel,  a0             [ .. | .. | .. ]
//             one k:    a1             [ .. | .. | .. ]      MR x NV accumulators
//                       ...                                  += a_i * b_j
//
//         gemm_tile.h has the tile's shape, its store and the walk over a block. Where a product
//         takes one factor from a lane of a register (NEON: fmla v, v, v.s[i]) the MR values of A
//         are loaded as vectors instead: 5 loads for the 24 products of an 8 x 12 tile, which with
//         its operands has 29 of the 32 registers. (Compiled by gcc 12 and clang 14 the loop is
//         these 24 fmla, their loads and prefetches, and no access to the stack.)
//
// COST    MR*NV multiply-adds for NV loads and MR broadcasts: arithmetic bound from L2. A block of
//         A (256 rows x kc) stays in L2, B's panel streams through L1 (prefetched 8 steps ahead),
//         and the tile of C (and of aux) is prefetched while the loop runs. A long chunk of K pays:
//         each one stores C, and adds to it from the second on.
//
// ROUND   Sums in f32; products are fused into them where the instruction set can.
// SHAPES  everything the contract allows.
//
// SPDX-License-Identifier: MIT
#include "kernels/cpu/gemm_fp8.h"
#include "kernels/cpu/gemm_tile.h"
#include "kernels/cpu/fp8_f32.h"

// ---- packing ----

LT_INLINE VecF load(const void *src, DType t, int64_t i)
{
    return dtype_is_fp8(t) ? vec_load_fp8(src, t, i) : vec_load_as(src, t, i);
}

// Panel of w rows whose k lie side by side: VL rows of VL are turned at a time.
LT_INLINE void pack_rows(float *dst, const void *src, int64_t ld, DType t, int w, int64_t n,
                         int64_t k)
{
    int64_t p = 0;
    for (; p + VL <= k; p += VL) {
#pragma GCC unroll 4
        for (int i0 = 0; i0 < w; i0 += VL) {
            VecF r[VL];
#pragma GCC unroll 16
            for (int i = 0; i < VL; i++)
                r[i] = i0 + i < n ? load(src, t, (i0 + i) * ld + p) : (VecF){0};
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
LT_INLINE void pack_cols(float *dst, const void *src, int64_t ld, DType t, int w, int64_t n,
                         int64_t k)
{
    if (n == w) {
        for (int64_t p = 0; p < k; p++) {
            int i = 0;
#pragma GCC unroll 4
            for (; i + VL <= w; i += VL)
                vec_store(dst + p * w + i, vec_load_as(src, t, p * ld + i));
            if (t == DTYPE_F16 && i < w) { // a scalar conversion is a call
                const VecF v = vec_load_as_n(src, t, p * ld + i, w - i, 0);
                memcpy(dst + p * w + i, &v, (size_t)(w - i) * 4);
                continue;
            }
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
    if (x->k_rows && !dtype_is_fp8(t)) // FP8 has k side by side
        pack_cols(dst, src, x->ld, t, w, n, k);
    else
        pack_rows(dst, src, x->ld, t, w, n, k);
}

LT_INLINE void pack_side(float *dst, const GemmOperand *x, const void *src, int64_t n, int64_t k,
                         DType t)
{
    if (x->is_b)
        pack_typed(dst, x, src, NR, n, k, t);
    else
        pack_typed(dst, x, src, MR, n, k, t);
}

static void pack_f32(void *dst, const GemmOperand *x, int64_t i0, int64_t n, int64_t k0, int64_t k)
{
    const int64_t at = x->k_rows ? k0 * x->ld + i0 : i0 * x->ld + k0;
    const void *src = (const char *)x->p + at * (int64_t)dtype_bytes(x->dtype);
    switch (x->dtype) {
    case DTYPE_F32: pack_side(dst, x, src, n, k, DTYPE_F32); break;
    case DTYPE_BF16: pack_side(dst, x, src, n, k, DTYPE_BF16); break;
    case DTYPE_F16: pack_side(dst, x, src, n, k, DTYPE_F16); break;
    case DTYPE_E4M3: pack_side(dst, x, src, n, k, DTYPE_E4M3); break;
    default: pack_side(dst, x, src, n, k, DTYPE_E5M2); break;
    }
}

// ---- the tile ----

enum { A_BY_LANE = VL == 4 && LATHE_REGS == 32, A_VECTORS = (MR + VL - 1) / VL };

static __attribute__((noinline)) void tile_f32(int64_t k, const void *panel_a, const void *panel_b,
                                               float *part, int64_t ld, const GemmBlock *b,
                                               int64_t r, int64_t c)
{
    const float *restrict A = panel_a, *restrict B = panel_b;
    VecF acc[MR][NV];
    gemm_tile_begin(acc, part, ld, b, r, c);
    for (int64_t p = 0; p < k; p++, A += MR, B += NR) {
#pragma GCC unroll 4
        for (int j = 0; j < NV; j++) __builtin_prefetch(B + 8 * NR + j * VL);
        VecF av[A_VECTORS], bv[NV];
#pragma GCC unroll 4
        for (int j = 0; j < NV; j++) bv[j] = vec_load(B + j * VL);
#pragma GCC unroll 4
        for (int i = 0; A_BY_LANE && i < A_VECTORS; i++) av[i] = vec_load(A + i * VL);
#pragma GCC unroll 16
        for (int i = 0; i < MR; i++) {
            const VecF ai = vec_set(A_BY_LANE ? av[i / VL][i % VL] : A[i]);
#pragma GCC unroll 4
            for (int j = 0; j < NV; j++) acc[i][j] += ai * bv[j];
        }
    }
    gemm_tile_end(acc, part, ld, b, r, c);
}

static void block_f32(GemmThread *th, const GemmPlan *p, const GemmBlock *b)
{
    (void)p;
    gemm_walk(th, b, b->kp, tile_f32);
}

static const GemmKernel kernel = {.mr = MR,
                                  .nr = NR,
                                  .k_step = 1,
                                  .elem_bytes = 4,
                                  .kc = GEMM_KC,
                                  .shared_block = GEMM_SHARED_BLOCK,
                                  .priv_block = NC,
                                  .tasks = 4,
                                  .part_bytes = gemm_part_bytes,
                                  .pack = pack_f32,
                                  .block = block_f32};

static size_t scratch(const MatmulArgs *a, const OpCtx *cx)
{
    return gemm_scratch(&kernel, a, cx);
}

static Status run(const MatmulArgs *a, OpCtx *cx, Err *err)
{
    (void)err;
    gemm_run(&kernel, a, cx);
    return ERR_NONE;
}

static size_t scratch_fp8(const MatmulFp8Args *a, const OpCtx *cx)
{
    return gemm_fp8_scratch(&kernel, a, cx);
}

static Status run_fp8(const MatmulFp8Args *a, OpCtx *cx, Err *err)
{
    return gemm_fp8_run(&kernel, a, cx, err);
}

void ISA_NAME(cpu_matmul_register)(Ops *ops)
{
    ops_add_matmul(ops, (Impl_matmul){.impl = ISA_STRING, .scratch = scratch, .run = run});
    ops_add_matmul_fp8(ops, (Impl_matmul_fp8){.impl = ISA_STRING,
                                              .supports = gemm_fp8_supports,
                                              .scratch = scratch_fp8,
                                              .run = run_fp8});
}
