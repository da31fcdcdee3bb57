// matrix.cpp -- ldmatrix, stmatrix and mma.sync: matrices spread over the lanes of a warp.
//
// Fragments as the PTX ISA draws them: lane l = 4 g + t. A register of an A or B operand holds
// 4 / size consecutive k: with `per` of them, register q of A is row g + 8 (q % 2) at
// k = t per + 4 per (q / 2), and register q of B is column g at k = t per + 4 per q. C and D:
// register i is row g + 8 (i / 2), column 2 t + i % 2.
//
// SPDX-License-Identifier: MIT
#include <cstring>
#include "tests/cudasim/src/machine.h"
#include "tests/cudasim/src/matmul.h"
#include "tests/cudasim/src/numbers.h"

namespace cudasim
{

namespace
{

struct MatrixArg {
    uint32_t *in;
    const uint32_t *out;
    uint32_t addr;
    int n;
    bool trans;
};

char *row_of(void **args, int lane, const char *what, bool write)
{
    const uint32_t addr = static_cast<MatrixArg *>(args[lane])->addr;
    if (addr % 16 != 0)
        die("%s: lane %d gives the row address 0x%x, not 16-byte aligned", what, lane, addr);
    auto *const p = static_cast<char *>(smem_in(m.block, addr, 16, what));
    if (race_on) {
        race_access(&m.block->fiber[m.fiber->warp * 32 + static_cast<unsigned>(lane)], p, 16,
                    write);
    }
    return p;
}

void ldmatrix_all(void **args, uint32_t, void *)
{
    const auto *const first = static_cast<MatrixArg *>(args[0]);
    for (int q = 0; q < first->n; ++q) {
        uint16_t t[8][8];
        for (int i = 0; i < 8; ++i) memcpy(t[i], row_of(args, q * 8 + i, "ldmatrix", false), 16);
        for (int l = 0; l < 32; ++l) {
            const int x = l / 4, y = l % 4 * 2;
            const uint32_t lo = first->trans ? t[y][x] : t[x][y];
            const uint32_t hi = first->trans ? t[y + 1][x] : t[x][y + 1];
            static_cast<MatrixArg *>(args[l])->in[q] = lo | hi << 16;
        }
    }
}

void stmatrix_all(void **args, uint32_t, void *)
{
    const auto *const first = static_cast<MatrixArg *>(args[0]);
    for (int q = 0; q < first->n; ++q) {
        uint16_t t[8][8];
        for (int l = 0; l < 32; ++l) {
            const int x = l / 4, y = l % 4 * 2;
            const uint32_t v = static_cast<MatrixArg *>(args[l])->out[q];
            (first->trans ? t[y][x] : t[x][y]) = static_cast<uint16_t>(v);
            (first->trans ? t[y + 1][x] : t[x][y + 1]) = static_cast<uint16_t>(v >> 16);
        }
        for (int i = 0; i < 8; ++i) memcpy(row_of(args, q * 8 + i, "stmatrix", true), t[i], 16);
    }
}

struct MmaArg {
    const uint32_t *a, *b;
    float c[4];
    int k;
    Num ta, tb;
};

void mma_all(void **args, uint32_t, void *)
{
    const auto *const first = static_cast<MmaArg *>(args[0]);
    const int k = first->k, per = 4 / num_bytes(first->ta), nb = k / (4 * per);
    float a[16 * 32], b[32 * 16] = {}, c[16 * 16] = {};
    for (int l = 0; l < 32; ++l) {
        const auto *const x = static_cast<MmaArg *>(args[l]);
        const int g = l / 4, t = l % 4;
        for (int q = 0; q < 2 * nb; ++q) {
            decode(a + (g + q % 2 * 8) * k + t * per + q / 2 * 4 * per, 1, &x->a[q], per, x->ta);
        }
        for (int q = 0; q < nb; ++q) {
            decode(b + (t * per + q * 4 * per) * 16 + g, 16, &x->b[q], per, x->tb);
        }
        for (int i = 0; i < 4; ++i) c[(g + i / 2 * 8) * 16 + t * 2 + i % 2] = x->c[i];
    }
    multiply(c, 16, a, k, b, 16, 16, 16, k, false);
    m.stats.mma_flops += static_cast<uint64_t>(2 * 16 * 8 * k);
    for (int l = 0; l < 32; ++l) {
        auto *const x = static_cast<MmaArg *>(args[l]);
        for (int i = 0; i < 4; ++i) x->c[i] = c[(l / 4 + i / 2 * 8) * 16 + l % 4 * 2 + i % 2];
    }
}

void check_shape(int k, Num ta, Num tb)
{
    const int full = 32 / num_bytes(ta);
    if (num_bytes(ta) != num_bytes(tb) || (k != full && k != full / 2)) {
        die("mma.sync: no shape m16n8k%d for these types", k);
    }
}

} // namespace

void ldmatrix(uint32_t *r, int n, uint32_t addr, bool trans)
{
    NOTE_CALLER();
    MatrixArg a = {r, nullptr, addr, n, trans};
    meet(~0u, "ldmatrix", &a, ldmatrix_all);
}

void stmatrix(uint32_t addr, const uint32_t *r, int n, bool trans)
{
    NOTE_CALLER();
    MatrixArg a = {nullptr, r, addr, n, trans};
    meet(~0u, "stmatrix", &a, stmatrix_all);
}

void mma_sync(float *d, const float *c, const uint32_t *a, const uint32_t *b, int k, Num ta, Num tb)
{
    NOTE_CALLER();
    check_shape(k, ta, tb);
    MmaArg x = {a, b, {c[0], c[1], c[2], c[3]}, k, ta, tb};
    meet(~0u, "mma.sync", &x, mma_all);
    memcpy(d, x.c, sizeof x.c);
}

void mma_sync_f16(uint32_t *d, const uint32_t *c, const uint32_t *a, const uint32_t *b, int k,
                  Num ta, Num tb)
{
    NOTE_CALLER();
    check_shape(k, ta, tb);
    MmaArg x = {a, b, {}, k, ta, tb};
    for (int i = 0; i < 4; ++i) {
        x.c[i] = float_of_f16(static_cast<uint16_t>(c[i / 2] >> 16 * (i % 2)));
    }
    meet(~0u, "mma.sync", &x, mma_all);
    for (int i = 0; i < 2; ++i) {
        d[i] = f16_of_float(x.c[2 * i]) | static_cast<uint32_t>(f16_of_float(x.c[2 * i + 1])) << 16;
    }
}

} // namespace cudasim
