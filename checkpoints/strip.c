// strip.c -- see strip.h.
//
// SPDX-License-Identifier: MIT
#include "checkpoints/strip.h"

#include "engine/base/mem.h"

enum { STRIP_ELEMENTS = 1 << 18, STRIP_BYTES = STRIP_ELEMENTS * 8, TILE = 32 };

Status strip_init(Strip *s, Err *err)
{
    s->a = mem_alloc(STRIP_BYTES);
    s->b = mem_alloc(STRIP_BYTES);
    if (s->a && s->b) return ERR_NONE;
    strip_free(s);
    return mem_err(err, 2 * (size_t)STRIP_BYTES, "copying tensors");
}

void strip_free(Strip *s)
{
    mem_free(s->a);
    mem_free(s->b);
    *s = (Strip){0};
}

// dst[i * dst_step + j] = src[j * src_step + i] for i < n, j < m, in tiles that stay in cache.
#define TRANSPOSE(NAME, TYPE)                                                                      \
    static void NAME(void *dst_, int64_t dst_step, const void *src_, int64_t src_step, int64_t n,  \
                     int64_t m)                                                                    \
    {                                                                                              \
        unsigned char *dst = dst_;                                                                 \
        const unsigned char *src = src_;                                                           \
        for (int64_t i0 = 0; i0 < n; i0 += TILE)                                                   \
            for (int64_t j0 = 0; j0 < m; j0 += TILE)                                               \
                for (int64_t i = i0; i < LT_MIN(i0 + TILE, n); i++)                                \
                    for (int64_t j = j0; j < LT_MIN(j0 + TILE, m); j++) {                          \
                        TYPE v;                                                                    \
                        memcpy(&v, src + (size_t)(j * src_step + i) * sizeof v, sizeof v);         \
                        memcpy(dst + (size_t)(i * dst_step + j) * sizeof v, &v, sizeof v);         \
                    }                                                                              \
    }
TRANSPOSE(transpose_1, uint8_t)
TRANSPOSE(transpose_2, uint16_t)
TRANSPOSE(transpose_4, uint32_t)
TRANSPOSE(transpose_8, uint64_t)
#undef TRANSPOSE

static void transpose(DType t, void *dst, int64_t dst_step, const void *src, int64_t src_step,
                      int64_t n, int64_t m)
{
    switch (dtype_bytes(t)) {
    case 1: transpose_1(dst, dst_step, src, src_step, n, m); break;
    case 2: transpose_2(dst, dst_step, src, src_step, n, m); break;
    case 4: transpose_4(dst, dst_step, src, src_step, n, m); break;
    default: transpose_8(dst, dst_step, src, src_step, n, m); break;
    }
}

static Status write_flat(Strip *s, FileWriter *w, const uint8_t *src, DType from, DType to,
                         int64_t n, Err *err)
{
    if (from == to) return file_write(w, src, (size_t)n * dtype_bytes(to), err);
    for (int64_t i = 0; i < n; i += STRIP_ELEMENTS) {
        const int64_t k = LT_MIN(n - i, STRIP_ELEMENTS);
        memcpy(s->a, src + (size_t)i * dtype_bytes(from), (size_t)k * dtype_bytes(from));
        dtype_convert(s->b, to, s->a, from, k);
        TRY(file_write(w, s->b, (size_t)k * dtype_bytes(to), err));
    }
    return ERR_NONE;
}

Status strip_write(Strip *s, FileWriter *w, const void *src, DType from, DType to, int64_t rows,
                   int64_t cols, bool transposed, Err *err)
{
    if (rows == 0 || cols == 0) return ERR_NONE;
    if (!transposed) return write_flat(s, w, src, from, to, rows * cols, err);
    // One row of the file is a column of src; a strip is several of them, or a piece of one.
    const int64_t piece = LT_MIN(rows, STRIP_ELEMENTS), tall = LT_MAX(STRIP_ELEMENTS / rows, 1);
    for (int64_t j = 0; j < cols; j += tall) {
        const int64_t m = LT_MIN(cols - j, tall);
        for (int64_t i = 0; i < rows; i += piece) {
            const int64_t n = LT_MIN(rows - i, piece);
            const uint8_t *at = (const uint8_t *)src + (size_t)(i * cols + j) * dtype_bytes(from);
            transpose(from, s->a, n, at, cols, m, n);
            void *out = s->a;
            if (from != to) {
                dtype_convert(s->b, to, s->a, from, m * n);
                out = s->b;
            }
            TRY(file_write(w, out, (size_t)(m * n) * dtype_bytes(to), err));
        }
    }
    return ERR_NONE;
}

Status strip_write_zeros(Strip *s, FileWriter *w, uint64_t bytes, Err *err)
{
    memset(s->a, 0, (size_t)LT_MIN(bytes, (uint64_t)STRIP_BYTES));
    while (bytes) {
        const size_t k = (size_t)LT_MIN(bytes, (uint64_t)STRIP_BYTES);
        TRY(file_write(w, s->a, k, err));
        bytes -= k;
    }
    return ERR_NONE;
}

// n elements of a file, aligned and as `to`, n <= STRIP_ELEMENTS; `into` or `spare` holds them.
static const void *fetch(void *into, void *spare, const uint8_t *src, DType from, DType to,
                         int64_t n)
{
    memcpy(into, src, (size_t)n * dtype_bytes(from));
    if (from == to) return into;
    dtype_convert(spare, to, into, from, n);
    return spare;
}

void strip_read(Strip *s, void *dst, DType to, const uint8_t *src, DType from, int64_t rows,
                int64_t cols, bool transposed)
{
    if (rows == 0 || cols == 0) return;
    const size_t bytes = dtype_bytes(to);
    if (!transposed) {
        const int64_t n = rows * cols;
        for (int64_t i = 0; i < n; i += STRIP_ELEMENTS) {
            const int64_t k = LT_MIN(n - i, STRIP_ELEMENTS);
            const void *in = fetch(s->a, s->b, src + (size_t)i * dtype_bytes(from), from, to, k);
            memcpy((uint8_t *)dst + (size_t)i * bytes, in, (size_t)k * bytes);
        }
        return;
    }
    const int64_t piece = LT_MIN(rows, STRIP_ELEMENTS), tall = LT_MAX(STRIP_ELEMENTS / rows, 1);
    for (int64_t j = 0; j < cols; j += tall) {
        const int64_t m = LT_MIN(cols - j, tall);
        for (int64_t i = 0; i < rows; i += piece) {
            const int64_t n = LT_MIN(rows - i, piece);
            const void *in = fetch(s->a, s->b, src + (size_t)(j * rows + i) * dtype_bytes(from),
                                   from, to, m * n);
            transpose(to, (uint8_t *)dst + (size_t)(i * cols + j) * bytes, cols, in, n, n, m);
        }
    }
}

static const float *fetch_f32(void *block, const uint8_t *src, DType t, int64_t n)
{
    // The elements in the upper half of the block, their values in the lower half.
    void *const upper = (uint8_t *)block + STRIP_BYTES / 2;
    return fetch(upper, block, src, t, DTYPE_F32, n);
}

bool strip_equal(Strip *s, const uint8_t *x, DType xt, const uint8_t *y, DType yt, int64_t n)
{
    if (xt == yt) return memcmp(x, y, (size_t)n * dtype_bytes(xt)) == 0;
    for (int64_t i = 0; i < n; i += STRIP_ELEMENTS) {
        const int64_t k = LT_MIN(n - i, STRIP_ELEMENTS);
        const float *p = fetch_f32(s->a, x + (size_t)i * dtype_bytes(xt), xt, k);
        const float *q = fetch_f32(s->b, y + (size_t)i * dtype_bytes(yt), yt, k);
        if (memcmp(p, q, (size_t)k * sizeof *p) != 0) return false;
    }
    return true;
}

bool strip_is_zero(Strip *s, const uint8_t *x, DType t, int64_t n)
{
    for (int64_t i = 0; i < n; i += STRIP_ELEMENTS) {
        const int64_t k = LT_MIN(n - i, STRIP_ELEMENTS);
        const float *p = fetch_f32(s->a, x + (size_t)i * dtype_bytes(t), t, k);
        for (int64_t j = 0; j < k; j++)
            if (p[j] != 0) return false;
    }
    return true;
}
