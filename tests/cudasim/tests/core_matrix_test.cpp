// core_matrix_test.cpp -- ldmatrix, stmatrix, mma.sync, wgmma, atomics, number formats.
//
// SPDX-License-Identifier: MIT
#include "tests/cudasim/tests/core.h"

namespace
{

enum : uint32_t { DATA = SMEM, A_AT = SMEM, B_AT = SMEM + 32 * 1024 };

int size_of(Num t)
{
    return t == Num::TF32 ? 4 : t == Num::E4M3 || t == Num::E5M2 ? 1 : 2;
}

// A random value that the type holds exactly, and its bits.
float random_value(Num t, uint32_t *bits)
{
    switch (t) {
    case Num::BF16:
        *bits = bf16_of_float(random_float());
        return float_of_bf16(static_cast<uint16_t>(*bits));
    case Num::F16:
        *bits = f16_of_float(random_float());
        return float_of_f16(static_cast<uint16_t>(*bits));
    case Num::TF32: *bits = bits_of_float(random_float()) & 0xffffe000; return float_of_bits(*bits);
    case Num::E4M3: *bits = random_bits() & 0xbf; return float_of_e4m3(static_cast<uint8_t>(*bits));
    case Num::E5M2: *bits = random_bits() & 0xbf; return float_of_e5m2(static_cast<uint8_t>(*bits));
    }
    return 0;
}

struct Matrix { // rows x k, values and bits
    int rows, k;
    std::vector<float> v;
    std::vector<uint32_t> bits;
    Matrix(int r, int cols, Num t)
        : rows(r), k(cols), v(static_cast<size_t>(r * cols)), bits(v.size())
    {
        for (size_t i = 0; i < v.size(); ++i) v[i] = random_value(t, &bits[i]);
    }
    size_t at(int r, int c) const { return static_cast<size_t>(r * k + c); }
};

double dot(const Matrix &a, const Matrix &b, int r, int n)
{
    double s = 0;
    for (int k = 0; k < a.k; ++k) {
        s += static_cast<double>(a.v[a.at(r, k)]) * static_cast<double>(b.v[b.at(n, k)]);
    }
    return s;
}

bool close(float got, double want)
{
    return std::fabs(got - want) <= 1e-5 * (1 + std::fabs(want));
}

// Packs `per` consecutive k of a row into one register.
uint32_t pack(const Matrix &x, int row, int k, int per)
{
    uint32_t r = 0;
    for (int i = 0; i < per; ++i) r |= x.bits[x.at(row, k + i)] << (32 / per * i);
    return r;
}

void put(uint32_t addr, uint32_t bits, int size)
{
    memcpy(smem_ptr(addr, static_cast<size_t>(size), "test"), &bits, static_cast<size_t>(size));
}

// Lays an operand out in shared memory for the swizzle `code` of a descriptor (0 none, 1 128,
// 2 64, 3 32 bytes), MN-major or K-major, for one instruction, and gives the descriptor.
uint64_t lay_out(const Matrix &x, Num t, uint32_t at, int code, bool mn_major)
{
    const int size = size_of(t), line = code == 0 ? 16 : 256 >> code, per_line = line / size;
    const int lines = mn_major ? x.k : x.rows; // along the other dimension
    const uint32_t bits = code == 0 ? 0 : code == 1 ? 7 : code == 2 ? 3 : 1;
    for (int r = 0; r < x.rows; ++r) {
        for (int k = 0; k < x.k; ++k) {
            const int along = mn_major ? r : k, across = mn_major ? k : r;
            // Panels of one line's width, each `lines` lines high.
            uint32_t a = at + static_cast<uint32_t>(along / per_line * lines * line +
                                                    across * line + along % per_line * size);
            a ^= (a >> 7 & bits) << 4;
            put(a, x.bits[x.at(r, k)], size);
        }
    }
    const auto panel = static_cast<uint64_t>(lines * line), eight = static_cast<uint64_t>(8 * line);
    uint64_t leading = panel, stride = eight;
    if (code == 0 && mn_major) leading = eight, stride = panel;
    return (at >> 4) | leading / 16 << 16 | stride / 16 << 32 | static_cast<uint64_t>(code) << 62;
}

struct Case {
    int n;
    Num ta, tb;
    int code;
    bool mn_a, mn_b, regs;
};

// Two chained instructions on one accumulator: D = A B, then D += A B.
void wgmma_case(const Case &c)
{
    const int k = 32 / size_of(c.ta), per = 4 / size_of(c.ta);
    const Matrix a(64, k, c.ta), b(c.n, k, c.tb);
    std::vector<float> got(static_cast<size_t>(64 * c.n));
    kernel(128, 96 * 1024, [&] {
        Wgmma w = {};
        w.n = c.n;
        w.ta = c.ta;
        w.tb = c.tb;
        w.trans_a = c.mn_a;
        w.trans_b = c.mn_b;
        if (cur->lin == 0) {
            lay_out(a, c.ta, A_AT, c.code, c.mn_a);
            lay_out(b, c.tb, B_AT, c.code, c.mn_b);
        }
        fence_proxy_async(false);
        block_sync();
        const uint32_t line = c.code == 0 ? 16 : 256u >> c.code;
        const auto desc = [&](uint32_t at, int rows, bool mn) {
            const uint64_t panel =
                (mn ? static_cast<uint64_t>(k) : static_cast<uint64_t>(rows)) * line;
            const uint64_t eight = 8 * line;
            const bool swap = c.code == 0 && mn;
            return (at >> 4) | (swap ? eight : panel) / 16 << 16 |
                   (swap ? panel : eight) / 16 << 32 | static_cast<uint64_t>(c.code) << 62;
        };
        w.desc_a = desc(A_AT, 64, c.mn_a);
        w.desc_b = desc(B_AT, c.n, c.mn_b);
        uint32_t regs[4];
        const int t = static_cast<int>(cur->lin), lane = t % 32;
        for (int q = 0; q < 4; ++q) {
            regs[q] =
                pack(a, t / 32 * 16 + lane / 4 + q % 2 * 8, lane % 4 * per + q / 2 * 4 * per, per);
        }
        if (c.regs) w.a = regs, w.desc_a = 0;
        uint32_t d[128];
        const int count = c.n / 2;
        for (int i = 0; i < count; ++i) d[i] = 0x7fc00000; // NaN: must be ignored
        wgmma_fence();
        wgmma(d, w);
        w.scale_d = true;
        if (!wgmma_chained(w, d[0], d[count - 1])) device_trap();
        wgmma_commit();
        wgmma_wait(0);
        for (int i = 0; i < count; ++i) {
            const int row = t / 32 * 16 + lane / 4 + i / 2 % 2 * 8;
            const int column = i / 4 * 8 + lane % 4 * 2 + i % 2;
            got[static_cast<size_t>(row * c.n + column)] = float_of_bits(wgmma_use(d[i]));
        }
    });
    for (int r = 0; r < 64; ++r) {
        for (int n = 0; n < c.n; ++n) {
            if (close(got[static_cast<size_t>(r * c.n + n)], 2 * dot(a, b, r, n))) continue;
            printf("n %d types %d %d swizzle %d mn %d %d regs %d: row %d column %d\n", c.n,
                   static_cast<int>(c.ta), static_cast<int>(c.tb), c.code, c.mn_a, c.mn_b, c.regs,
                   r, n);
            ++core_failures;
            return;
        }
    }
}

} // namespace

TEST(number_formats_survive_a_round_trip)
{
    for (uint32_t i = 0; i < 65536; ++i) {
        const auto h = static_cast<uint16_t>(i);
        const float b = float_of_bf16(h), f = float_of_f16(h);
        if (!std::isnan(b)) CHECK_EQ(bf16_of_float(b), h);
        if (!std::isnan(f)) CHECK_EQ(f16_of_float(f), h);
        // Half a unit rounds to even.
        const float next = float_of_f16(static_cast<uint16_t>(h + 1));
        if ((h & 0x7fff) < 0x7bff) CHECK_EQ(f16_of_float((f + next) / 2), h + (h & 1));
    }
    CHECK_EQ(float_of_e4m3(0x7e), 448);
    CHECK(std::isnan(float_of_e4m3(0x7f)));
    CHECK(float_of_e4m3(1) == 0x1p-9f);
    CHECK_EQ(float_of_e5m2(0x7b), 57344);
    CHECK(std::isinf(float_of_e5m2(0x7c)));
    CHECK_EQ(f16_of_float(65520.f), 0x7c00);
    CHECK_EQ(f16_of_float(65519.f), 0x7bff);
}

TEST(ldmatrix_and_stmatrix_plain_and_transposed)
{
    for (const int n : {1, 2, 4}) {
        for (const bool trans : {false, true}) {
            std::vector<uint32_t> got(32 * 4), back(static_cast<size_t>(n) * 64);
            kernel(32, 4096, [&] {
                const uint32_t lane = cur->lane;
                for (uint32_t i = lane; i < 64u * static_cast<uint32_t>(n); i += 32) {
                    shared<uint16_t>(DATA + i * 2) = static_cast<uint16_t>(i);
                }
                syncwarp(~0u);
                uint32_t r[4] = {};
                const uint32_t row = DATA + lane % (8u * static_cast<uint32_t>(n)) * 16;
                ldmatrix(r, n, row, trans);
                memcpy(&got[lane * 4], r, 16);
                stmatrix(row + 2048, r, n, trans);
                syncwarp(~0u);
                for (uint32_t i = lane; i < 64u * static_cast<uint32_t>(n); i += 32) {
                    back[i] = shared<uint16_t>(DATA + 2048 + i * 2);
                }
            });
            for (int l = 0; l < 32; ++l) {
                for (int q = 0; q < n; ++q) {
                    const int x = l / 4, y = l % 4 * 2;
                    const int lo = q * 64 + (trans ? y * 8 + x : x * 8 + y);
                    const int hi = q * 64 + (trans ? (y + 1) * 8 + x : x * 8 + y + 1);
                    CHECK_EQ(got[static_cast<size_t>(l * 4 + q)], lo | hi << 16);
                }
            }
            for (size_t i = 0; i < back.size(); ++i) CHECK_EQ(back[i], i);
        }
    }
}

TEST(mma_sync_of_every_type_and_depth)
{
    for (const Num t : {Num::BF16, Num::F16, Num::TF32, Num::E4M3, Num::E5M2}) {
        for (const int half : {1, 2}) {
            const int k = 32 / size_of(t) / half, per = 4 / size_of(t);
            const Matrix a(16, k, t), b(8, k, t);
            float got[16][8];
            kernel(32, 0, [&] {
                const int g = static_cast<int>(cur->lane) / 4, i = static_cast<int>(cur->lane) % 4;
                uint32_t ra[4], rb[2];
                for (int q = 0; q < 4 / half; ++q) {
                    ra[q] = pack(a, g + q % 2 * 8, i * per + q / 2 * 4 * per, per);
                }
                for (int q = 0; q < 2 / half; ++q) rb[q] = pack(b, g, i * per + q * 4 * per, per);
                const float c[4] = {1, 2, 3, 4};
                float d[4];
                mma_sync(d, c, ra, rb, k, t, t);
                for (int x = 0; x < 4; ++x) {
                    got[g + x / 2 * 8][i * 2 + x % 2] = d[x] - c[x];
                }
            });
            for (int r = 0; r < 16; ++r) {
                for (int n = 0; n < 8; ++n) CHECK(close(got[r][n], dot(a, b, r, n)));
            }
        }
    }
}

TEST(wgmma_of_every_width)
{
    for (int n = 8; n <= 256; n += 8) {
        wgmma_case({n, Num::BF16, Num::BF16, 1, false, false, false});
    }
}

TEST(wgmma_of_every_swizzle_layout_and_type)
{
    for (int code = 0; code < 4; ++code) {
        for (const Num t : {Num::BF16, Num::F16}) {
            for (const bool mn_a : {false, true}) {
                for (const bool mn_b : {false, true}) {
                    wgmma_case({64, t, t, code, mn_a, mn_b, false});
                    if (!mn_a) wgmma_case({128, t, t, code, false, mn_b, true});
                }
            }
        }
        for (const bool regs : {false, true}) {
            wgmma_case({64, Num::TF32, Num::TF32, code, false, false, regs});
            for (const Num ta : {Num::E4M3, Num::E5M2}) {
                for (const Num tb : {Num::E4M3, Num::E5M2}) {
                    wgmma_case({96, ta, tb, code, false, false, regs});
                }
            }
        }
    }
}

namespace
{

// D = +-A B with A and B of ones, by one small wgmma; `then` runs between commit and wait.
template <class F> void small_wgmma(uint32_t *d, F then, bool negate = false, bool fence = true)
{
    for (uint32_t i = cur->lin; i < 64 * 8; i += 128) shared<uint32_t>(A_AT + i * 4) = 0x3f803f80;
    for (uint32_t i = cur->lin; i < 8 * 8; i += 128) shared<uint32_t>(B_AT + i * 4) = 0x3f803f80;
    fence_proxy_async(false);
    block_sync();
    Wgmma w = {};
    w.n = 8;
    w.ta = w.tb = Num::BF16;
    w.neg_a = negate;
    w.desc_a = (A_AT >> 4) | 1024ull / 16 << 16 | 128ull / 16 << 32;
    w.desc_b = (B_AT >> 4) | 128ull / 16 << 16 | 128ull / 16 << 32;
    if (fence) wgmma_fence();
    wgmma(d, w);
    wgmma_commit();
    then();
    wgmma_wait(0);
}

} // namespace

TEST(wgmma_takes_effect_at_the_wait)
{
    float plain = 0, negated = 0;
    kernel(128, 64 * 1024, [&] {
        uint32_t d[4];
        small_wgmma(d, [] {});
        if (cur->lin == 5) plain = float_of_bits(wgmma_use(d[3]));
        small_wgmma(
            d, [] {}, true);
        if (cur->lin == 5) negated = float_of_bits(wgmma_use(d[3]));
    });
    CHECK_EQ(plain, 16);
    CHECK_EQ(negated, -16);
    if (getenv("CUDASIM_SEED") != nullptr) return; // it may then run before the wait
    float spoiled = 0;
    kernel(128, 64 * 1024, [&] { // operands overwritten in flight: the product shows it
        uint32_t d[4];
        small_wgmma(d, [] { shared<uint32_t>(A_AT + cur->lin * 4) = 0; });
        if (cur->lin == 0) spoiled = float_of_bits(wgmma_use(d[0]));
    });
    CHECK(spoiled < 16);
}

TEST(wrong_uses_of_wgmma_are_reported)
{
    DIES(86, "used while its wgmma is in flight", kernel(128, 64 * 1024, [] {
             uint32_t d[4];
             small_wgmma(d, [&] { d[1] = wgmma_use(d[1]); });
         }));
    DIES(86, "in flight", kernel(128, 64 * 1024, [] {
             uint32_t d[4];
             small_wgmma(d, [&] {
                 Wgmma w = {};
                 w.n = 8;
                 w.ta = w.tb = Num::BF16;
                 w.scale_d = true;
                 w.desc_a = (A_AT >> 4) | 1024ull / 16 << 16 | 128ull / 16 << 32;
                 w.desc_b = (B_AT >> 4) | 128ull / 16 << 16 | 128ull / 16 << 32;
                 if (cur->lin != 0) {
                     wgmma_chained(w, d[0], d[3]);
                 } else {
                     yield();
                     for (int i = 0; i < 500; ++i) yield();
                     d[3] = 0;
                     wgmma(d, w);
                 }
             });
         }));
    DIES(86, "no wgmma.fence", kernel(128, 64 * 1024, [] {
             uint32_t d[4];
             small_wgmma(
                 d, [] {}, false, false);
         }));
    DIES(86, "has not waited for", kernel(128, 64 * 1024, [] {
             uint32_t d[4] = {};
             Wgmma w = {};
             w.n = 8;
             w.ta = w.tb = Num::BF16;
             w.desc_a = w.desc_b = A_AT >> 4;
             wgmma_fence();
             wgmma(d, w);
             wgmma_commit();
         }));
    DIES(86, "issue different instructions", kernel(128, 64 * 1024, [] {
             uint32_t d[4] = {};
             Wgmma w = {};
             w.n = 8;
             w.ta = w.tb = Num::BF16;
             w.desc_b = cur->lin == 77;
             wgmma_fence();
             wgmma(d, w);
         }));
    DIES(86, "not in a full warpgroup", kernel(64, 64, [] { wgmma_fence(); }));
    DIES(86, "outside the block's allocation", kernel(128, 4096, [] {
             uint32_t d[4] = {};
             Wgmma w = {};
             w.n = 8;
             w.ta = w.tb = Num::BF16;
             w.desc_a = w.desc_b = 0x3000;
             wgmma_fence();
             wgmma(d, w);
             wgmma_commit();
             wgmma_wait(0);
         }));
    DIES(87, "wgmma.wait_group", kernel(128, 64 * 1024, [] {
             if (cur->warp == 3) return;
             uint32_t d[4] = {};
             Wgmma w = {};
             w.n = 8;
             w.ta = w.tb = Num::BF16;
             w.desc_a = w.desc_b = A_AT >> 4;
             wgmma_fence();
             wgmma(d, w);
             wgmma_commit();
             wgmma_wait(0);
         }));
}

TEST(accumulators_of_halves)
{
    float got = 0;
    kernel(128, 64 * 1024, [&] {
        for (uint32_t i = cur->lin; i < 64 * 8; i += 128)
            shared<uint32_t>(A_AT + i * 4) = 0x3c003c00;
        for (uint32_t i = cur->lin; i < 8 * 8; i += 128)
            shared<uint32_t>(B_AT + i * 4) = 0x40004000;
        fence_proxy_async(false);
        block_sync();
        uint32_t d[2] = {0x3c003800, 0}; // 1 and 0.5
        Wgmma w = {};
        w.n = 8;
        w.ta = w.tb = Num::F16;
        w.f16_acc = w.scale_d = true;
        w.desc_a = (A_AT >> 4) | 1024ull / 16 << 16 | 128ull / 16 << 32;
        w.desc_b = (B_AT >> 4) | 128ull / 16 << 16 | 128ull / 16 << 32;
        wgmma_fence();
        wgmma(d, w);
        wgmma_commit();
        wgmma_wait(0);
        if (cur->lin == 9) got = float_of_f16(static_cast<uint16_t>(wgmma_use(d[0]) >> 16));
    });
    CHECK_EQ(got, 33);
}

TEST(atomics_of_every_operation_and_type)
{
    struct Row {
        Atom op;
        Ty type;
        uint64_t old, v, cmp, want;
    };
    const uint64_t f3 = bits_of_float(3.f), f2 = bits_of_float(2.f), f5 = bits_of_float(5.f);
    const Row rows[] = {
        {Atom::ADD, Ty::U32, 0xffffffff, 2, 0, 1},
        {Atom::ADD, Ty::S32, 5, 0xfffffffe, 0, 3},
        {Atom::ADD, Ty::U64, ~0ull, 3, 0, 2},
        {Atom::ADD, Ty::F32, f3, f2, 0, f5},
        {Atom::ADD, Ty::F16, 0x3c00, 0x4000, 0, 0x4200},
        {Atom::ADD, Ty::BF16, 0x3f80, 0x4000, 0, 0x4040},
        {Atom::ADD, Ty::F16X2, 0x3c004000, 0x40003c00, 0, 0x42004200},
        {Atom::ADD, Ty::BF16X2, 0x3f804000, 0x40003f80, 0, 0x40404040},
        {Atom::MIN, Ty::S32, 5, 0xfffffffe, 0, 0xfffffffe},
        {Atom::MIN, Ty::U32, 5, 0xfffffffe, 0, 5},
        {Atom::MAX, Ty::S64, 5, ~0ull, 0, 5},
        {Atom::MAX, Ty::U64, 5, ~0ull, 0, ~0ull},
        {Atom::AND, Ty::B32, 12, 10, 0, 8},
        {Atom::OR, Ty::B32, 12, 10, 0, 14},
        {Atom::XOR, Ty::B64, 12, 10, 0, 6},
        {Atom::EXCH, Ty::B32, 12, 10, 0, 10},
        {Atom::CAS, Ty::B32, 12, 10, 12, 10},
        {Atom::CAS, Ty::B32, 12, 10, 13, 12},
        {Atom::CAS, Ty::B16, 12, 10, 12, 10},
        {Atom::INC, Ty::U32, 7, 7, 0, 0},
        {Atom::INC, Ty::U32, 6, 7, 0, 7},
        {Atom::DEC, Ty::U32, 0, 7, 0, 7},
        {Atom::DEC, Ty::U32, 9, 7, 0, 7},
    };
    Device<uint64_t> d(std::vector<uint64_t>{0});
    for (const Row &r : rows) {
        d[0] = r.old;
        uint64_t old = 0;
        kernel(1, 0,
               [&] { old = atomic(d.p, r.op, r.type, r.v, r.cmp, Sem::RELAXED, Scope::GPU); });
        CHECK_EQ(old, r.old);
        CHECK_EQ(d[0], r.want);
    }
    d[0] = 0;
    kernel(Dim3{7, 1, 1}, 96, 0,
           [&] { atomic(d.p, Atom::ADD, Ty::U32, 1, 0, Sem::RELAXED, Scope::GPU); });
    CHECK_EQ(d[0], 7 * 96);
}

int main(int argc, char **argv)
{
    return core_main(argc, argv);
}
