// core_copy_test.cpp -- TMA, bulk copies and cp.async against plain loops over coordinates.
//
// SPDX-License-Identifier: MIT
#include "tests/cudasim/tests/core.h"

namespace
{

enum : uint32_t { BAR = SMEM, BOX = SMEM + 1024 };
enum { U8 = 0, S32 = 3, F16 = 6, F32 = 7, BF16 = 9 }; // CUtensorMapDataType

struct alignas(64) Map {
    char bytes[128];
};

struct Shape {
    int type, elem; // CUtensorMapDataType and its bytes
    std::vector<uint64_t> dims, strides;
    std::vector<uint32_t> box;
    int swizzle = 0, oob = 0;
};

int encode(Map *map, void *address, const Shape &s)
{
    const std::vector<uint32_t> ones(5, 1);
    TensorMapArgs a = {};
    a.data_type = s.type;
    a.rank = static_cast<uint32_t>(s.dims.size());
    a.address = address;
    a.dims = s.dims.data();
    a.strides = s.strides.data();
    a.box = s.box.data();
    a.element_strides = ones.data();
    a.swizzle = s.swizzle;
    a.oob_fill = s.oob;
    return tensor_map_encode(map, a);
}

uint32_t box_elements(const Shape &s)
{
    uint32_t n = 1;
    for (const uint32_t b : s.box) n *= b;
    return n;
}

uint64_t tensor_bytes(const Shape &s)
{
    uint64_t last = s.dims[0] * static_cast<uint64_t>(s.elem);
    for (size_t i = 1; i < s.dims.size(); ++i) last += (s.dims[i] - 1) * s.strides[i - 1];
    return last;
}

void wait(uint32_t bar, uint32_t parity)
{
    while (!mbar_try_wait(bar, parity)) {}
}

// Where element `e` of the box lies in global memory; -1: outside the tensor.
int64_t global_offset(const Shape &s, const std::vector<int> &c, uint32_t e)
{
    int64_t off = 0;
    for (size_t i = 0; i < s.dims.size(); ++i) {
        const int64_t x = c[i] + static_cast<int64_t>(e % s.box[i]);
        e /= s.box[i];
        if (x < 0 || x >= static_cast<int64_t>(s.dims[i])) return -1;
        off += i == 0 ? x * s.elem : x * static_cast<int64_t>(s.strides[i - 1]);
    }
    return off;
}

// Where it lies in shared memory, by the pattern of the PTX ISA: 16-byte chunk number XOR line.
uint32_t shared_offset(const Shape &s, uint32_t e)
{
    const uint32_t at = BOX + e * static_cast<uint32_t>(s.elem);
    const uint32_t line = at / 128, chunk = at / 16 % 8, in = at % 16;
    static const uint32_t mask[] = {0, 1, 3, 7};
    return line * 128 + (chunk ^ (line & mask[s.swizzle])) * 16 + in;
}

const std::vector<Shape> &shapes()
{
    static const std::vector<Shape> all = {
        {F32, 4, {100}, {}, {64}},
        {U8, 1, {48, 9}, {64}, {32, 4}},
        {BF16, 2, {72, 20}, {160}, {64, 8}, 3},
        {BF16, 2, {40, 20}, {80}, {32, 8}, 2},
        {F16, 2, {40, 20}, {80}, {16, 8}, 1},
        {BF16, 2, {40, 20}, {80}, {32, 8}, 3}, // rows narrower than the swizzle's line
        {F32, 4, {36, 7, 5}, {144, 1008}, {32, 3, 2}, 3},
        {BF16, 2, {24, 5, 4, 3}, {48, 240, 960}, {16, 2, 3, 2}, 1},
        {F32, 4, {12, 3, 4, 3, 2}, {48, 144, 576, 1728}, {8, 2, 2, 2, 2}},
        {BF16, 2, {72, 20}, {160}, {64, 8}, 0, 1}, // NaN outside
    };
    return all;
}

} // namespace

TEST(tma_loads_of_every_rank_swizzle_and_border)
{
    for (const Shape &s : shapes()) {
        std::vector<unsigned char> host(tensor_bytes(s));
        for (auto &b : host) b = static_cast<unsigned char>(random_bits());
        Device<unsigned char> d(host);
        Map map;
        CHECK_EQ(encode(&map, d.p, s), 0);
        const uint32_t n = box_elements(s), bytes = n * static_cast<uint32_t>(s.elem);
        for (int round = 0; round < 6; ++round) {
            std::vector<int> c;
            for (const uint64_t dim : s.dims) {
                c.push_back(static_cast<int>(random_bits() % (dim + 12)) - 6);
            }
            std::vector<unsigned char> got(bytes + 2048);
            kernel(32, bytes + 2048, [&] {
                if (cur->lane == 0) {
                    mbar_init(BAR, 1);
                    fence_mbarrier_init();
                    mbar_arrive_expect_tx(BAR, bytes);
                    tma_load(BOX, &map, BAR, c.data(), static_cast<int>(c.size()), 0);
                }
                syncwarp(~0u);
                wait(BAR, 0);
                if (cur->lane == 0) memcpy(got.data(), smem_ptr(BOX, bytes, "test"), bytes);
            });
            for (uint32_t e = 0; e < n; ++e) {
                const int64_t from = global_offset(s, c, e);
                const unsigned char *const p = &got[shared_offset(s, e) - BOX];
                for (int k = 0; k < s.elem; ++k) {
                    const int want = from >= 0    ? host[static_cast<size_t>(from + k)]
                                     : s.oob != 0 ? 0xff
                                                  : 0;
                    if (p[k] != want) {
                        CHECK_EQ(p[k], want);
                        return;
                    }
                }
            }
        }
    }
}

TEST(tma_stores_write_what_lies_inside_and_nothing_else)
{
    for (const Shape &s : shapes()) {
        if (s.oob != 0) continue;
        const std::vector<unsigned char> before(tensor_bytes(s), 0x77);
        Map map;
        const uint32_t n = box_elements(s), bytes = n * static_cast<uint32_t>(s.elem);
        for (int round = 0; round < 4; ++round) {
            Device<unsigned char> d(before);
            CHECK_EQ(encode(&map, d.p, s), 0);
            std::vector<int> c;
            for (const uint64_t dim : s.dims) {
                c.push_back(static_cast<int>(random_bits() % (dim + 8)) - 4);
            }
            std::vector<unsigned char> box(bytes);
            for (auto &b : box) b = static_cast<unsigned char>(random_bits());
            kernel(1, bytes + 1024, [&] {
                for (uint32_t e = 0; e < n; ++e) {
                    memcpy(smem_ptr(shared_offset(s, e), static_cast<size_t>(s.elem), "test"),
                           &box[e * static_cast<uint32_t>(s.elem)], static_cast<size_t>(s.elem));
                }
                fence_proxy_async(false);
                tma_store(&map, BOX, c.data(), static_cast<int>(c.size()), Reduce::NONE);
                bulk_commit();
                bulk_wait(0, true);
                memset(smem_ptr(BOX, bytes, "test"), 0, bytes); // read already
                bulk_wait(0, false);
            });
            std::vector<unsigned char> want = before;
            for (uint32_t e = 0; e < n; ++e) {
                const int64_t to = global_offset(s, c, e);
                if (to < 0) continue;
                memcpy(&want[static_cast<size_t>(to)], &box[e * static_cast<uint32_t>(s.elem)],
                       static_cast<size_t>(s.elem));
            }
            CHECK(memcmp(d.p, want.data(), want.size()) == 0);
        }
    }
}

TEST(tma_reductions_add_and_take_extremes)
{
    const Shape s = {S32, 4, {8}, {}, {8}};
    for (const Reduce op : {Reduce::ADD, Reduce::MIN, Reduce::MAX, Reduce::XOR}) {
        Device<int> d(std::vector<int>{-5, 1, 2, 3, 100, 5, 6, 7});
        Map map;
        CHECK_EQ(encode(&map, d.p, s), 0);
        const int c[] = {0};
        kernel(1, 2048, [&] {
            for (int i = 0; i < 8; ++i) shared<int>(BOX + static_cast<uint32_t>(i) * 4) = 4 - i;
            fence_proxy_async(false);
            tma_store(&map, BOX, c, 1, op);
            bulk_commit();
            bulk_wait(0, false);
        });
        const int first = op == Reduce::ADD   ? -1
                          : op == Reduce::MIN ? -5
                          : op == Reduce::MAX ? 4
                                              : -5 ^ 4;
        CHECK_EQ(d[0], first);
        const int fifth = op == Reduce::ADD ? 100 : op == Reduce::MIN ? 0 : 100;
        CHECK_EQ(d[4], fifth);
    }
}

TEST(multicast_reaches_the_blocks_of_the_mask)
{
    const Shape s = {S32, 4, {16}, {}, {16}};
    std::vector<int> v(16);
    for (int i = 0; i < 16; ++i) v[static_cast<size_t>(i)] = i + 1;
    Device<int> d(v);
    Map map;
    CHECK_EQ(encode(&map, d.p, s), 0);
    int got[4] = {};
    kernel(
        Dim3{4, 1, 1}, 1, 2048,
        [&] {
            const int c[] = {0};
            mbar_init(BAR, 1);
            fence_mbarrier_init();
            shared<int>(BOX + 60) = -1;
            cluster_arrive(true);
            cluster_wait();
            if (cur->crank != 1) mbar_arrive_expect_tx(BAR, 64);
            fence_proxy_async(false);
            cluster_arrive(true);
            cluster_wait();
            if (cur->crank == 0) tma_load(BOX, &map, BAR, c, 1, 0xd);
            if (cur->crank != 1) wait(BAR, 0);
            got[cur->crank] = shared<int>(BOX + 60);
            cluster_arrive(true);
            cluster_wait();
        },
        Dim3{4, 1, 1});
    CHECK_EQ(got[0], 16);
    CHECK_EQ(got[1], -1);
    CHECK_EQ(got[2], 16);
    CHECK_EQ(got[3], 16);
}

TEST(bulk_copies_both_ways_and_between_blocks)
{
    std::vector<int> v(64);
    for (int i = 0; i < 64; ++i) v[static_cast<size_t>(i)] = i;
    Device<int> in(v), out(64);
    kernel(
        Dim3{2, 1, 1}, 1, 4096,
        [&] {
            mbar_init(BAR, 1);
            mbar_init(BAR + 8, 1);
            fence_mbarrier_init();
            cluster_arrive(true);
            cluster_wait();
            if (cur->crank == 0) {
                mbar_arrive_expect_tx(BAR, 256);
                bulk_load(BOX, in.p, 256, BAR, 0);
                wait(BAR, 0);
                bulk_copy_cluster(cluster_addr(BOX, 1), BOX, 256, cluster_addr(BAR + 8, 1));
            } else {
                mbar_arrive_expect_tx(BAR + 8, 256);
                wait(BAR + 8, 0);
                bulk_store(out.p, BOX, 256);
                bulk_commit();
                bulk_wait(0, false);
            }
            cluster_arrive(true);
            cluster_wait();
        },
        Dim3{2, 1, 1});
    for (int i = 0; i < 64; ++i) CHECK_EQ(out[static_cast<size_t>(i)], i);
}

TEST(cp_async_fills_with_zeros)
{
    Device<unsigned char> d(std::vector<unsigned char>(64, 9));
    for (const int n : {4, 8, 16}) {
        for (int src = 0; src <= n; src += 2) {
            kernel(1, 256, [&] {
                cp_async(SMEM, d.p, n, src);
                cp_async_commit();
                cp_async_wait(0);
                for (int i = 0; i < n; ++i) {
                    CHECK_EQ(shared<unsigned char>(SMEM + static_cast<uint32_t>(i)),
                             i < src ? 9 : 0);
                }
            });
        }
    }
}

TEST(tensor_maps_that_the_driver_refuses)
{
    Device<char> d(4096);
    Map map;
    const Shape good = {BF16, 2, {64, 8}, {128}, {64, 8}, 3};
    CHECK_EQ(encode(&map, d.p, good), 0);
    Shape s = good;
    s.box = {64, 257};
    CHECK_EQ(encode(&map, d.p, s), 1);
    s = good;
    s.strides = {120}; // no multiple of 16
    CHECK_EQ(encode(&map, d.p, s), 1);
    s = good;
    s.box = {72, 8}; // wider than the swizzle
    CHECK_EQ(encode(&map, d.p, s), 1);
    s = good;
    s.box = {4, 8}; // 8 bytes a row
    CHECK_EQ(encode(&map, d.p, s), 1);
    s = good;
    s.dims = {64, 0};
    CHECK_EQ(encode(&map, d.p, s), 1);
    CHECK_EQ(encode(&map, d.p + 8, good), 1);
}

TEST(wrong_uses_of_copies_are_reported)
{
    Device<int> d(std::vector<int>(64, 1));
    Map map;
    CHECK_EQ(encode(&map, d.p, Shape{S32, 4, {16}, {}, {16}}), 0);
    const int c[] = {0, 0};
    const auto load = [&](uint32_t to, const void *m, int rank, size_t smem) {
        kernel(1, smem, [&] {
            mbar_init(BAR, 1);
            fence_mbarrier_init();
            mbar_arrive_expect_tx(BAR, 64);
            tma_load(to, m, BAR, c, rank, 0);
            wait(BAR, 0);
        });
    };
    LIVES(load(BOX, &map, 1, 2048));
    DIES(86, "not 128-byte aligned", load(BOX + 16, &map, 1, 2048));
    DIES(86, "a 2-dimensional instruction", load(BOX, &map, 2, 2048));
    DIES(86, "outside the block's allocation", load(BOX, &map, 1, 1024));
    Map zero = {};
    DIES(86, "not an encoded tensor map", load(BOX, &zero, 1, 2048));
    DIES(86, "no mbarrier", kernel(1, 2048, [&] { tma_load(BOX, &map, BAR, c, 1, 0); }));
    DIES(86, "multiples of 16", kernel(1, 2048, [&] {
             mbar_init(BAR, 1);
             bulk_load(BOX, d.p + 1, 16, BAR, 0);
         }));
    DIES(86, "may still read shared memory", kernel(1, 2048, [&] {
             bulk_store(d.p, BOX, 64);
             bulk_commit();
         }));
    DIES(86, "never committed", kernel(1, 2048, [&] { bulk_store(d.p, BOX, 64); }));
    DIES(86, "misaligned", kernel(1, 2048, [&] { cp_async(BOX, d.p + 1, 16, 16); }));
}

int main(int argc, char **argv)
{
    return core_main(argc, argv);
}
