// gemm_amx.c -- matrix product of bf16 operands on AMX tiles, f32 sums, f32 or bf16 result.
// Contracts: kernels/ops/matmul.h, matmul_fp8.h    Driver: gemm_driver.c    Tiles: amx_tile.h
//
// WHAT    A block of C is done strip by strip. A strip is 32 rows of A (one panel, in L1) against
//         all panels of B of the block (from L2):
//
//                      B panels 32 wide:   |  c0  |  c1  |  c2  | ...
//             A panel, 32 rows  [======]   | 32x32| 32x32| 32x32|     -> strip buffer, f32
//
//         A 32x32 block comes out of the tiles at once, but a row of C is many blocks. So a strip
//         is gathered in a buffer and stored row by row, whole lines of C, between the tile
//         products of the next strip: bias, activation, rounding and the store cost little there.
//
// COST    8 tile instructions for 65,536 FLOP a step, bound by the tile unit when B comes from L2.
//         Storing C takes up to a third of a call when K is small; results larger than STREAM_BYTES
//         go around the caches. When all of the shared side is one block, the private operand that
//         this thread will pack next is prefetched meanwhile: worth 20-30 % where it comes from
//         memory (few rows), and a loss where it is reused (many rows), hence PREFETCH_ROWS.
//
// ROUND   Products of bf16 are exact; sums are f32, K in chunks of at most 384. The tile unit takes
//         subnormal operands for zero.
// SHAPES  bf16 operands, or FP8 as bf16 (fp8_bf16.h); f32 or bf16 C. Anything else: supports()
//         says no.
//
// SPDX-License-Identifier: MIT
#include "kernels/cpu/amx_tile.h"
#include "engine/base/clock.h"
#include "kernels/cpu/amx.h"
#include "kernels/cpu/cpu_peak.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/gemm_fp8.h"

enum {
    KC = 384,
    SHARED_BLOCK = 512,
    PRIV_BLOCK = 256,
    PREFETCH_ROWS = 512,
    STREAM_BYTES = 1 << 20,
};

// A strip of C that waits to be stored, and how far that has come.
typedef struct Pending {
    const float *S; // block b at S + b*AMX_BLOCK
    const MatmulArgs *args;
    float alpha;
    int64_t r, c; // first row and column in C
    int64_t rows, cols;
    int64_t row, col; // next piece: one row of one block
    int64_t per;      // pieces a step
    bool stream;      // around the caches
} Pending;

typedef struct State { // of a thread, in GemmThread.state
    Pending out;
    GemmNext next;    // operand block being prefetched
    int64_t row, off; // how far
    int64_t lines;    // cache lines a step
    int64_t strip;    // strips begun
} State;

// ---- store ----

// 32 columns of C: f32 values to memory of C's type. `mask` has a bit a column.
LT_INLINE void put(void *to, DType t, int64_t at, uint32_t mask, VecF lo, VecF hi, bool stream)
{
    if (t == DTYPE_BF16) {
        uint16_t *c = (uint16_t *)to + at;
        if (stream && mask == ~0u)
            _mm512_stream_si512((__m512i *)(void *)c, amx_bf16(lo, hi));
        else
            _mm512_mask_storeu_epi16(c, mask, amx_bf16(lo, hi));
        return;
    }
    float *c = (float *)to + at;
    if (stream && mask == ~0u) {
        _mm512_stream_ps(c, (__m512)lo);
        _mm512_stream_ps(c + 16, (__m512)hi);
    } else {
        _mm512_mask_storeu_ps(c, (__mmask16)mask, (__m512)lo);
        _mm512_mask_storeu_ps(c + 16, (__mmask16)(mask >> 16), (__m512)hi);
    }
}

// 32 bf16 as two vectors of floats.
LT_INLINE void widen(__m512i v, VecF *lo, VecF *hi)
{
    *lo = (VecF)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(v)), 16);
    *hi = (VecF)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(v, 1)), 16);
}

LT_INLINE void get(const void *from, DType t, int64_t at, uint32_t mask, VecF *lo, VecF *hi)
{
    if (t == DTYPE_BF16) {
        const __m512i v = amx_load((const uint16_t *)from + at, mask);
        widen(v, lo, hi);
        return;
    }
    const float *p = (const float *)from + at;
    *lo = (VecF)_mm512_maskz_loadu_ps((__mmask16)mask, p);
    *hi = (VecF)_mm512_maskz_loadu_ps((__mmask16)(mask >> 16), p + 16);
}

// GELU (tanh form) for bf16 results: x / (1 + 2^z), z = x (K1 + K3 x^2), to about 1e-5, a hundredth
// of what rounding to bf16 costs, in half the instructions of vmath.h. Beyond +-9 the gate is 0 or
// 1.
typedef struct Gate {
    __m512 x, e, s; // clamped x; 2^z; 1 / (1 + 2^z)
} Gate;

LT_INLINE Gate gate(VecF at)
{
    const __m512 one = _mm512_set1_ps(1.0f);
    // A NaN is the second operand and stays.
    const __m512 x =
        _mm512_min_ps(_mm512_set1_ps(9.0f), _mm512_max_ps(_mm512_set1_ps(-9.0f), (__m512)at));
    const __m512 cubic = _mm512_fmadd_ps(_mm512_mul_ps(x, x), _mm512_set1_ps(-0.102943240f),
                                         _mm512_set1_ps(-2.30220820f));
    const __m512 z = _mm512_mul_ps(x, cubic);
    const __m512 n = _mm512_roundscale_ps(z, 0), r = _mm512_sub_ps(z, n);
    __m512 p = _mm512_set1_ps(0.009666368f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.05592198f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.24022349f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.69312105f));
    p = _mm512_fmadd_ps(p, r, one);
    const __m512 e = _mm512_scalef_ps(p, n), d = _mm512_add_ps(e, one);
    const __m512 y = _mm512_rcp14_ps(d); // one Newton step makes it exact enough
    const __m512 s = _mm512_mul_ps(y, _mm512_fnmadd_ps(d, y, _mm512_set1_ps(2.0f)));
    return (Gate){x, e, s};
}

LT_INLINE VecF act(VecF x, const MatmulArgs *a)
{
    if (a->act != ACT_GELU_TANH || a->c_dtype != DTYPE_BF16) return gemm_act(x, a->act);
    return (VecF)_mm512_max_ps(_mm512_set1_ps(-9.0f), (__m512)x) * (VecF)gate(x).s;
}

LT_INLINE VecF act_slope(VecF x, const MatmulArgs *a)
{
    if (a->act != ACT_GELU_TANH || a->c_dtype != DTYPE_BF16) return gemm_act_slope(x, a->act);
    const Gate g = gate(x);
    const VecF c = (VecF)g.x, s = (VecF)g.s;
    return s + c * ((VecF)g.e * s * s) * (1.59576912f + 0.214064449f * c * c);
}

// The epilogues with an activation; apart, so that the plain store stays small.
static __attribute__((noinline)) void put_activation(const Pending *o, int64_t at, uint32_t mask,
                                                     VecF lo, VecF hi)
{
    const MatmulArgs *a = o->args;
    if (a->epilogue == MATMUL_GELU) {
        if (a->c_dtype == DTYPE_BF16) widen(amx_bf16(lo, hi), &lo, &hi); // rounded
        if (a->aux) put(a->aux, a->c_dtype, at, mask, lo, hi, o->stream);
        lo = act(lo, a);
        hi = act(hi, a);
    } else {
        VecF x, y;
        get(a->aux, a->c_dtype, at, mask, &x, &y);
        lo *= act_slope(x, a);
        hi *= act_slope(y, a);
    }
    put(a->C, a->c_dtype, at, mask, lo, hi, o->stream);
}

// Finish and store one row of one block.
LT_INLINE void store_piece(Pending *o)
{
    const MatmulArgs *a = o->args;
    const float *S = o->S + o->col * AMX_W + o->row * AMX_W;
    const uint32_t mask = amx_mask(o->cols - o->col);
    const int64_t c = o->c + o->col, at = (o->r + o->row) * a->ldc + c;
    VecF lo = vec_load(S) * o->alpha, hi = vec_load(S + 16) * o->alpha, x, y;
    if (a->bias) {
        if (a->bias_dtype == DTYPE_F16) {
            const int64_t n = LT_MIN((int64_t)AMX_W, o->cols - o->col);
            x = vec_load_as_n(a->bias, DTYPE_F16, c, LT_MIN(n, (int64_t)16), 0);
            y = n > 16 ? vec_load_as_n(a->bias, DTYPE_F16, c + 16, n - 16, 0) : (VecF){0};
        } else {
            get(a->bias, a->bias_dtype, c, mask, &x, &y);
        }
        lo += x;
        hi += y;
    }
    if (a->epilogue != MATMUL_PLAIN) {
        if (a->epilogue == MATMUL_DGELU) // two rows ahead: more than a step
            _mm_prefetch((const char *)a->aux +
                             (at + 2 * a->ldc) * (int64_t)dtype_bytes(a->c_dtype),
                         _MM_HINT_T0);
        put_activation(o, at, mask, lo, hi);
    } else {
        if (a->accumulate) {
            get(a->C, a->c_dtype, at, mask, &x, &y);
            lo += x;
            hi += y;
        }
        put(a->C, a->c_dtype, at, mask, lo, hi, o->stream);
    }
    o->col += AMX_W;
    if (o->col >= o->cols) {
        o->col = 0;
        o->row++;
    }
}

static void flush(Pending *o)
{
    while (o->row < o->rows) store_piece(o);
}

LT_INLINE void side_work(void *arg)
{
    State *s = arg;
    Pending *o = &s->out;
    for (int64_t i = 0; i < o->per && o->row < o->rows; i++) store_piece(o);
    for (int64_t i = 0; i < s->lines && s->row < s->next.rows; i++) {
        _mm_prefetch(s->next.p + s->row * s->next.ld + s->off, _MM_HINT_T1);
        s->off += 64;
        if (s->off >= s->next.bytes) {
            s->off = 0;
            s->row++;
        }
    }
}

// Rows that start on cache lines and are not read again soon.
static bool streams(const GemmBlock *b)
{
    const MatmulArgs *a = b->args;
    const size_t e = dtype_bytes(a->c_dtype);
    uintptr_t bits = (uintptr_t)a->C | (uintptr_t)a->ldc * e;
    if (a->epilogue == MATMUL_GELU && a->aux) bits |= (uintptr_t)a->aux;
    return !b->extra->read_back && !a->accumulate && bits % 64 == 0 &&
           (double)a->M * (double)a->N * (double)e >= STREAM_BYTES;
}

// ---- kernel ----

LT_INLINE void pack_rows(void *dst, const GemmOperand *x, const char *p, int64_t n, int64_t k,
                         DType t)
{
    if (x->is_b)
        amx_pack_b_rows_as(dst, p, t, x->ld, n, k);
    else
        amx_pack_a_rows_as(dst, p, t, x->ld, n, k);
}

static void pack_amx(void *dst, const GemmOperand *x, int64_t i0, int64_t n, int64_t k0, int64_t k)
{
    const int64_t at = x->k_rows ? k0 * x->ld + i0 : i0 * x->ld + k0;
    const char *p = (const char *)x->p + at * (int64_t)dtype_bytes(x->dtype);
    if (x->k_rows && x->is_b)
        amx_pack_cols(dst, (const uint16_t *)(const void *)p, x->ld, n, k, false);
    else if (x->k_rows)
        amx_pack_cols(dst, (const uint16_t *)(const void *)p, x->ld, n, k, true);
    else if (x->dtype == DTYPE_E4M3)
        pack_rows(dst, x, p, n, k, DTYPE_E4M3);
    else if (x->dtype == DTYPE_E5M2)
        pack_rows(dst, x, p, n, k, DTYPE_E5M2);
    else
        pack_rows(dst, x, p, n, k, DTYPE_BF16);
}

static void begin_amx(GemmThread *th)
{
    (void)th;
    amx_begin();
}

static void end_amx(GemmThread *th)
{
    State *s = (State *)th->state;
    flush(&s->out);
    amx_end();
    _mm_sfence();
}

static void aim_prefetch(State *s, const GemmPlan *p, const GemmBlock *b, int64_t steps)
{
    s->next = b->next;
    s->row = s->off = s->lines = 0;
    if (p->sn > p->sb || p->sn > PREFETCH_ROWS || steps == 0) return;
    const int64_t lines = b->next.rows * ((b->next.bytes + 63) / 64);
    s->lines = (lines + steps - 1) / steps;
}

static void block_amx(GemmThread *th, const GemmPlan *p, const GemmBlock *b)
{
    State *s = (State *)th->state;
    const int64_t steps = b->kp / 32, cols = b->c1 - b->c0;
    const int64_t width = (p->priv_a ? p->sb : p->pb) * AMX_W; // floats of a strip
    const int64_t calls = ((b->r1 - b->r0 + 31) / 32) * ((cols + 31) / 32);
    if (b->first && !b->last) flush(&s->out); // its strip is about to be reused
    aim_prefetch(s, p, b, calls * steps);
    const bool stream = streams(b);
    for (int64_t r = b->r0; r < b->r1; r += AMX_W) {
        // With one chunk of K two strips take turns; else every strip of the block is kept.
        const int64_t slot = p->nk == 1 ? s->strip++ & 1 : (r - b->r0) / AMX_W;
        float *S = th->part + slot * width;
        const char *a = b->a + (r - b->r0) * b->kp * 2;
        for (int64_t c = 0; c < cols; c += AMX_W) {
            if (steps == 0)
                memset(S + c * AMX_W, 0, AMX_BLOCK * sizeof(float));
            else
                amx_mul(steps, a, b->b + c * b->kp * 2, S + c * AMX_W, b->first, side_work, s);
        }
        if (!b->last) continue;
        flush(&s->out);
        s->out = (Pending){.S = S,
                           .args = b->args,
                           .alpha = b->extra->alpha,
                           .r = r,
                           .c = b->c0,
                           .rows = LT_MIN((int64_t)AMX_W, b->r1 - r),
                           .cols = cols,
                           .per = steps ? (AMX_W + steps - 1) / steps : 0,
                           .stream = stream};
    }
}

static size_t part_bytes(const MatmulArgs *a, const GemmPlan *p)
{
    (void)a;
    const int64_t all = p->pb * p->sb, two = 2 * AMX_W * LT_MAX(p->pb, p->sb);
    return (size_t)(p->nk == 1 ? two : LT_MAX(all, two)) * sizeof(float);
}

static const GemmKernel kernel = {.mr = AMX_W,
                                  .nr = AMX_W,
                                  .k_step = 32,
                                  .elem_bytes = 2,
                                  .kc = KC,
                                  .shared_block = SHARED_BLOCK,
                                  .priv_block = PRIV_BLOCK,
                                  .tasks = 2,
                                  .state_bytes = sizeof(State),
                                  .part_bytes = part_bytes,
                                  .pack = pack_amx,
                                  .begin = begin_amx,
                                  .block = block_amx,
                                  .end = end_amx};

static bool supports(const MatmulArgs *a, const OpCtx *cx, const char **why)
{
    (void)cx;
    if (a->ab_dtype != DTYPE_BF16) {
        *why = "bf16 operands only";
        return false;
    }
    if (a->c_dtype != DTYPE_BF16 && a->c_dtype != DTYPE_F32) {
        *why = "f32 or bf16 results only";
        return false;
    }
    return true;
}

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

static bool supports_fp8(const MatmulFp8Args *a, const OpCtx *cx, const char **why)
{
    *why = "f32 or bf16 results only";
    if (a->c_dtype != DTYPE_BF16 && a->c_dtype != DTYPE_F32) return false;
    return gemm_fp8_supports(a, cx, why);
}

static size_t scratch_fp8(const MatmulFp8Args *a, const OpCtx *cx)
{
    return gemm_fp8_scratch(&kernel, a, cx);
}

static Status run_fp8(const MatmulFp8Args *a, OpCtx *cx, Err *err)
{
    return gemm_fp8_run(&kernel, a, cx, err);
}

void cpu_matmul_register_amx(Ops *ops)
{
    ops_add_matmul(
        ops, (Impl_matmul){.impl = "amx", .supports = supports, .scratch = scratch, .run = run});
    ops_add_matmul_fp8(
        ops, (Impl_matmul_fp8){
                 .impl = "amx", .supports = supports_fp8, .scratch = scratch_fp8, .run = run_fp8});
}

// Four accumulators, the operands stay in their tiles.
double cpu_peak_amx(double seconds)
{
    enum { STEPS = 1000 };
    static const char zero[AMX_STEP] = {0};
    float S[AMX_BLOCK];
    const double start = clock_seconds();
    double done = 0, now = start;
    amx_begin();
    _tile_loadd(4, zero, 64);
    _tile_loadd(5, zero, 64);
    _tile_loadd(6, zero, 64);
    _tile_loadd(7, zero, 64);
    while (now - start < seconds) {
        for (int i = 0; i < STEPS; i++) {
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 4, 7);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
        _tile_stored(0, S, 64);
        done += 4.0 * 2 * 16 * 16 * 32 * STEPS;
        now = clock_seconds();
    }
    amx_end();
    return done / (now - start);
}
