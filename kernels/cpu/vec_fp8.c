// vec_fp8.c -- FP8 quantisation.
// Contract: kernels/ops/fp8_quantize.h    Built once an instruction set (isa.h)
//
// WHAT    One sweep over x writes q, q^T and sums of columns, and counts. Current scaling sweeps
//         once more, before, for the largest |x|. Work is cut into chunks of rows and strips of
//         columns; a task goes down its part in tiles that stay in L1 (vec_fp8.h):
//
//                     strip 0          strip 1
//             +-----------------+-----------------+
//             | tile tile tile  |                 |   64 rows    chunk 0 -> line 0 of sums
//             | tile ...        |                 |
//             +-----------------+-----------------+
//             |                 |                 |              chunk 1 -> line 1
//
//         The lines of sums are then added in order.
//
// COST    memory bound: bf16 in both layouts moves 4 bytes an element. About 25 vector instructions
//         for VL elements, and 1/4 shuffle an element for the transpose.
// ROUND   x * scale in f32, then as dtype.h has it. Sums in f32.
// SHAPES  everything the contract allows; chunks and strips depend on R and C alone.
//
// SPDX-License-Identifier: MIT
#include "kernels/cpu/vec_fp8.h"
#include "kernels/cpu/vec_ops.h"
#include "kernels/ops/fp8_scale.h"

enum { CHUNKS = 64, STRIP = 4 * FP8_COLS };

typedef struct Parts {
    int64_t rows, chunks, strips; // rows of a chunk
} Parts;

static Parts parts_of(const Fp8QuantizeArgs *a)
{
    const int64_t tiles = (a->R + FP8_ROWS - 1) / FP8_ROWS;
    Parts p = {.rows = (tiles + CHUNKS - 1) / CHUNKS * FP8_ROWS};
    if (a->R > 0) p.chunks = (a->R + p.rows - 1) / p.rows;
    p.strips = (a->C + STRIP - 1) / STRIP;
    return p;
}

static int64_t line_floats(const Fp8QuantizeArgs *a)
{
    return LT_ROUND_UP(a->C, STRIP);
}

// Rows r0 .. and columns c0 .. of x into the tile; column sums are added to `sums`.
LT_INLINE void convert(const Fp8QuantizeArgs *a, VecFp8 *s, Fp8Tile *tile, float *sums, int64_t r0,
                       int64_t rows, int64_t c0, int64_t cols, DType src, DType fp8)
{
    const size_t bytes = FP8_COLS * dtype_bytes(src);
    VecF sum[FP8_COLS / VL] = {{0}};
    for (int64_t r = 0; r < rows; r++) {
        const int64_t at = (r0 + r) * a->ld + c0;
        const char *next = (const char *)a->src + (size_t)at * dtype_bytes(src) + bytes;
        for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(next + i); // of the next tile
        for (int64_t c = 0; c < cols; c += VL) {
            const VecF x = vec_load_as_n(a->src, src, at + c, cols - c, 0);
            vec_store_bytes(&tile->byte[r][c], vec_fp8_put(s, x, fp8));
            if (sums) sum[c / VL] += x;
        }
    }
    for (int64_t c = 0; c < cols && sums; c += VL)
        vec_store(sums + c, vec_load(sums + c) + sum[c / VL]);
}

static void convert_any(const Fp8QuantizeArgs *a, VecFp8 *s, Fp8Tile *tile, float *sums, int64_t r0,
                        int64_t rows, int64_t c0, int64_t cols)
{
    const bool e4 = a->out.dtype == DTYPE_E4M3, bf16 = a->src_dtype == DTYPE_BF16;
    if (e4 && bf16)
        convert(a, s, tile, sums, r0, rows, c0, cols, DTYPE_BF16, DTYPE_E4M3);
    else if (e4)
        convert(a, s, tile, sums, r0, rows, c0, cols, a->src_dtype, DTYPE_E4M3);
    else if (bf16)
        convert(a, s, tile, sums, r0, rows, c0, cols, DTYPE_BF16, DTYPE_E5M2);
    else
        convert(a, s, tile, sums, r0, rows, c0, cols, a->src_dtype, DTYPE_E5M2);
}

static Fp8Seen quantize_part(const Fp8QuantizeArgs *a, const Parts *p, int64_t task, float *lines)
{
    const int64_t chunk = task / p->strips, strip = task % p->strips;
    const int64_t end = LT_MIN((chunk + 1) * p->rows, a->R);
    const int64_t c0 = strip * STRIP, c1 = LT_MIN(c0 + STRIP, a->C);
    float *sums = lines ? lines + chunk * line_floats(a) : NULL;
    VecFp8 seen = vec_fp8_begin(&a->out);
    Fp8Tile tile;
    if (sums) memset(sums + c0, 0, STRIP * sizeof *sums);
    for (int64_t r = chunk * p->rows; r < end; r += FP8_ROWS) {
        for (int64_t c = c0; c < c1; c += FP8_COLS) {
            const int64_t rows = LT_MIN(end - r, FP8_ROWS), cols = LT_MIN(c1 - c, FP8_COLS);
            convert_any(a, &seen, &tile, sums ? sums + c : NULL, r, rows, c, cols);
            fp8_tile_store(&a->out, &tile, r, rows, c, cols, a->R);
        }
    }
    return vec_fp8_end(&seen);
}

static float largest_of_rows(const Fp8QuantizeArgs *a, int64_t r0, int64_t r1)
{
    VecF most = vec_set(0);
    float amax = 0;
    for (int64_t r = r0; r < r1; r++) {
        for (int64_t c = 0; c < a->C; c += VL) {
            const VecF x = vec_load_as_n(a->src, a->src_dtype, r * a->ld + c, a->C - c, 0);
            const VecF size = vec_abs(x);
            most = vec_max((VecF)((size <= FLT_MAX) & (VecI)size), most);
        }
    }
    for (int i = 0; i < VL; i++) amax = LT_MAX(amax, most[i]);
    return amax;
}

static Fp8Scale current_scale(const Fp8QuantizeArgs *a, const Parts *p, int threads, Fp8Seen *seen)
{
    const float max = fp8_max(a->out.dtype);
    float amax = 0;
#pragma omp parallel for num_threads(threads) schedule(static) if (p->chunks > 1)
    for (int64_t k = 0; k < p->chunks; k++)
        seen[k].amax = largest_of_rows(a, k * p->rows, LT_MIN((k + 1) * p->rows, a->R));
    for (int64_t k = 0; k < p->chunks; k++) amax = LT_MAX(amax, seen[k].amax);
    if (amax > 0) return fp8_scale_of(max, amax, a->margin);
    return (Fp8Scale){.inv = 1, .scale = 1, .max = max};
}

static void add_lines(const Fp8QuantizeArgs *a, const float *lines, int64_t chunks, int64_t c)
{
    const int64_t n = a->C - c;
    VecF sum = a->accumulate ? vec_load_as_n(a->dbias, DTYPE_F32, c, n, 0) : vec_set(0);
    for (int64_t k = 0; k < chunks; k++) sum += vec_load(lines + k * line_floats(a) + c);
    vec_store_as_n(a->dbias, DTYPE_F32, c, n, sum);
}

// What each task saw, then the lines of sums.
static size_t seen_bytes(const Parts *p)
{
    return (size_t)LT_MAX(p->chunks * p->strips, p->chunks) * sizeof(Fp8Seen);
}

size_t ISA_NAME(vec_fp8_quantize_scratch)(const Fp8QuantizeArgs *a, const OpCtx *cx)
{
    (void)cx;
    const Parts p = parts_of(a);
    return seen_bytes(&p) + (a->dbias ? (size_t)(p.chunks * line_floats(a)) * sizeof(float) : 0);
}

Status ISA_NAME(vec_fp8_quantize)(const Fp8QuantizeArgs *a, OpCtx *cx, Err *err)
{
    (void)err;
    const Parts p = parts_of(a);
    const int threads = cx->device->threads;
    const int64_t tasks = p.chunks * p.strips;
    Fp8Seen *seen = cx->scratch;
    float *lines = a->dbias ? (float *)(void *)((char *)cx->scratch + seen_bytes(&p)) : NULL;
    if (a->current) *a->out.scale = current_scale(a, &p, threads, seen);
#pragma omp parallel for num_threads(threads) schedule(static) if (tasks > 1)
    for (int64_t i = 0; i < tasks; i++) seen[i] = quantize_part(a, &p, i, lines);
    fp8_publish(&a->out, seen, tasks);
    if (!a->dbias) return ERR_NONE;
#pragma omp parallel for num_threads(threads) schedule(static) if (p.chunks > 1)
    for (int64_t c = 0; c < a->C; c += VL) add_lines(a, lines, p.chunks, c);
    return ERR_NONE;
}
