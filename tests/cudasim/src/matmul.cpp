// matmul.cpp -- decoding of operands and the product, the only hot arithmetic of the simulator.
//
// Sums run over k in order, in f32. A real tensor core aligns and truncates the products of one
// instruction and (for fp8) keeps fewer bits, so the last bits differ from the hardware's.
//
// SPDX-License-Identifier: MIT
#include "tests/cudasim/src/matmul.h"
#include "tests/cudasim/src/numbers.h"

namespace cudasim
{

namespace
{

typedef float Vec __attribute__((vector_size(64), aligned(4)));

struct ByteTables {
    float e4m3[256], e5m2[256];
    ByteTables()
    {
        for (int i = 0; i < 256; ++i) {
            e4m3[i] = float_of_e4m3(static_cast<uint8_t>(i));
            e5m2[i] = float_of_e5m2(static_cast<uint8_t>(i));
        }
    }
};

// R rows by V vectors of 16 columns, kept in registers over the whole of k.
template <int R, int V>
inline __attribute__((always_inline)) void tile(float *c, int ldc, const float *a, int lda,
                                                const float *b, int ldb, int k, bool fresh)
{
    Vec acc[R][V];
    for (int r = 0; r < R; ++r) {
        for (int v = 0; v < V; ++v) {
            acc[r][v] = fresh ? Vec{} : *reinterpret_cast<Vec *>(c + r * ldc + v * 16);
        }
    }
    for (int q = 0; q < k; ++q) {
        Vec bv[V];
        for (int v = 0; v < V; ++v) bv[v] = *reinterpret_cast<const Vec *>(b + q * ldb + v * 16);
        for (int r = 0; r < R; ++r) {
            const float x = a[r * lda + q];
            for (int v = 0; v < V; ++v) acc[r][v] += x * bv[v];
        }
    }
    for (int r = 0; r < R; ++r) {
        for (int v = 0; v < V; ++v) *reinterpret_cast<Vec *>(c + r * ldc + v * 16) = acc[r][v];
    }
}

template <int V>
inline __attribute__((always_inline)) void columns(float *c, int ldc, const float *a, int lda,
                                                   const float *b, int ldb, int rows, int k,
                                                   bool fresh)
{
    for (int r = 0; r < rows; r += 4) {
        tile<4, V>(c + r * ldc, ldc, a + r * lda, lda, b, ldb, k, fresh);
    }
}

} // namespace

// CUDASIM_CLONES (CMakeLists.txt): one copy for each generation of x86-64, where the compiler can.
CUDASIM_CLONES void multiply(float *c, int ldc, const float *a, int lda, const float *b, int ldb,
                             int rows, int n, int k, bool fresh)
{
    int j = 0;
    for (; j + 64 <= n; j += 64) columns<4>(c + j, ldc, a, lda, b + j, ldb, rows, k, fresh);
    for (; j < n; j += 16) columns<1>(c + j, ldc, a, lda, b + j, ldb, rows, k, fresh);
}

void decode_any(float *out, int stride, const void *src, int n, Num type)
{
    static const ByteTables tables;
    const auto *const h = static_cast<const uint16_t *>(src);
    const auto *const b = static_cast<const uint8_t *>(src);
    switch (type) {
    case Num::BF16:
        for (int i = 0; i < n; ++i) out[i * stride] = float_of_bf16(h[i]);
        break;
    case Num::F16:
        for (int i = 0; i < n; ++i) out[i * stride] = float_of_f16(h[i]);
        break;
    case Num::TF32:
        for (int i = 0; i < n; ++i) {
            out[i * stride] = float_of_tf32(static_cast<const uint32_t *>(src)[i]);
        }
        break;
    case Num::E4M3:
        for (int i = 0; i < n; ++i) out[i * stride] = tables.e4m3[b[i]];
        break;
    case Num::E5M2:
        for (int i = 0; i < n; ++i) out[i * stride] = tables.e5m2[b[i]];
        break;
    }
}

} // namespace cudasim
