// core_warp_test.cpp -- warp instructions, named and cluster barriers, against plain loops.
//
// SPDX-License-Identifier: MIT
#include "tests/cudasim/tests/core.h"

namespace
{

// The pseudo-code of the PTX ISA, spelled for whole warps.
int shfl_source(Shfl mode, int lane, int by, int c)
{
    const int clamp = c & 31, segment = c >> 8 & 31;
    const int hi = (lane & segment) | (clamp & ~segment), lo = lane & segment;
    switch (mode) {
    case Shfl::IDX: return (lo | (by & ~segment)) <= hi ? (lo | (by & ~segment)) : -1;
    case Shfl::UP: return lane - by >= hi ? lane - by : -1;
    case Shfl::DOWN: return lane + by <= hi ? lane + by : -1;
    case Shfl::BFLY: return (lane ^ by) <= hi ? lane ^ by : -1;
    }
    return -1;
}

} // namespace

TEST(shuffles_of_every_mode_width_and_distance)
{
    const Shfl modes[] = {Shfl::IDX, Shfl::UP, Shfl::DOWN, Shfl::BFLY};
    uint32_t got[32];
    bool in[32];
    for (const Shfl mode : modes) {
        for (int width = 1; width <= 32; width *= 2) {
            const uint32_t c =
                static_cast<uint32_t>((32 - width) << 8 | (mode == Shfl::UP ? 0 : 31));
            for (unsigned by = 0; by < 32; by += 3) {
                kernel(32, 0, [&] {
                    got[cur->lane] = shfl(mode, cur->lane * 7 + 1, by, c, ~0u, &in[cur->lane]);
                });
                for (int l = 0; l < 32; ++l) {
                    const int s = shfl_source(mode, l, static_cast<int>(by), static_cast<int>(c));
                    CHECK_EQ(in[l], s >= 0);
                    CHECK_EQ(got[l], (s >= 0 ? s : l) * 7 + 1);
                }
            }
        }
    }
}

TEST(votes_matches_and_reductions)
{
    uint32_t vote[32], any[32], all[32], sum[32], least[32], most[32];
    bool same[32];
    kernel(32, 0, [&] {
        const unsigned l = cur->lane;
        vote[l] = ballot(~0u, l % 3 == 0);
        any[l] = match_any(~0u, l / 8);
        all[l] = match_all(~0u, 5, &same[l]);
        sum[l] = redux(~0u, Redux::ADD, false, l);
        least[l] = redux(~0u, Redux::MIN, true, l - 4);
        most[l] = redux(~0u, Redux::MAX, false, l - 4);
    });
    for (unsigned l = 0; l < 32; ++l) {
        CHECK_EQ(vote[l], 0x49249249u);
        CHECK_EQ(any[l], 0xffu << l / 8 * 8);
        CHECK_EQ(all[l], ~0u);
        CHECK(same[l]);
        CHECK_EQ(sum[l], 31 * 32 / 2);
        CHECK_EQ(least[l], static_cast<uint32_t>(-4));
        CHECK_EQ(most[l], static_cast<uint32_t>(-1));
    }
}

TEST(groups_of_a_diverged_warp_work_apart)
{
    uint32_t got[32], active[32];
    kernel(32, 0, [&] {
        const unsigned l = cur->lane;
        const uint32_t mask = l < 10 ? 0x3ffu : ~0x3ffu;
        got[l] = l < 10 ? ballot(mask, true) : redux(mask, Redux::ADD, false, 1);
        syncwarp(~0u);
        active[l] = 0;
        if (l % 2 == 0) active[l] = activemask();
    });
    for (unsigned l = 0; l < 32; ++l) {
        CHECK_EQ(got[l], l < 10 ? 0x3ff : 22);
        CHECK((active[l] & ~0x55555555u) == 0);
        CHECK(l % 2 != 0 || (active[l] >> l & 1) != 0);
    }
}

TEST(elect_names_one_lane)
{
    bool leads[64];
    kernel(64, 0, [&] { elect(~0u, &leads[cur->lin]); });
    for (int w = 0; w < 2; ++w) {
        int n = 0;
        for (int l = 0; l < 32; ++l) n += leads[w * 32 + l];
        CHECK_EQ(n, 1);
    }
}

TEST(a_short_last_warp_takes_part_with_the_lanes_it_has)
{
    uint32_t got[40];
    kernel(40, 0, [&] { got[cur->lin] = ballot(~0u, true); });
    CHECK_EQ(got[0], ~0u);
    CHECK_EQ(got[39], 0xff);
}

TEST(block_barrier_orders_writes_and_reads)
{
    int sum[256];
    kernel(256, 1024, [&] {
        for (unsigned round = 0; round < 5; ++round) {
            shared<unsigned>(SMEM + cur->lin * 4) = cur->lin * round;
            block_sync();
            sum[cur->lin] = static_cast<int>(shared<unsigned>(SMEM + (255 - cur->lin) * 4));
            block_sync();
            if (static_cast<unsigned>(sum[cur->lin]) != (255 - cur->lin) * round) device_trap();
        }
    });
}

TEST(named_barriers_join_producers_and_consumers)
{
    unsigned seen[64];
    kernel(96, 64, [&] {
        for (unsigned i = 0; i < 20; ++i) {
            if (cur->warp == 0) {
                if (cur->lane == 0) shared<unsigned>(SMEM) = i;
                bar_sync(1, 96);
                bar_sync(2, 96);
            } else {
                bar_sync(1, 96);
                seen[cur->lin - 32] = shared<unsigned>(SMEM);
                if (seen[cur->lin - 32] != i) device_trap();
                bar_arrive(2, 96);
            }
        }
    });
}

TEST(barrier_reductions)
{
    uint32_t count[128], all[128], any[128];
    kernel(128, 0, [&] {
        count[cur->lin] = bar_red(BarRed::POPC, 0, 0, cur->lin % 5 == 0);
        all[cur->lin] = bar_red(BarRed::AND, 0, 0, cur->lin != 77);
        any[cur->lin] = bar_red(BarRed::OR, 0, 0, cur->lin == 77);
    });
    for (int i = 0; i < 128; ++i) {
        CHECK_EQ(count[i], 26);
        CHECK_EQ(all[i], 0);
        CHECK_EQ(any[i], 1);
    }
}

TEST(threads_that_have_ended_do_not_hold_up_the_block)
{
    int passed = 0;
    kernel(64, 0, [&] {
        if (cur->lin >= 32) return;
        block_sync();
        ++passed;
    });
    CHECK_EQ(passed, 32);
}

TEST(blocks_of_a_cluster_read_each_other)
{
    unsigned got[4 * 32];
    kernel(
        Dim3{4, 1, 1}, 32, 128,
        [&] {
            shared<unsigned>(SMEM + cur->lane * 4) = cur->crank * 100 + cur->lane;
            cluster_arrive(true);
            cluster_wait();
            const uint32_t other = cluster_addr(SMEM + cur->lane * 4, (cur->crank + 1) % 4);
            got[cur->crank * 32 + cur->lane] = shared<unsigned>(other);
            cluster_arrive(true);
            cluster_wait();
        },
        Dim3{4, 1, 1});
    for (unsigned i = 0; i < 4 * 32; ++i) CHECK_EQ(got[i], (i / 32 + 1) % 4 * 100 + i % 32);
}

TEST(grid_and_cluster_numbers)
{
    unsigned char seen[6][4][2] = {};
    kernel(
        Dim3{6, 4, 2}, 1, 0,
        [&] {
            CHECK_EQ(cur->bid.x % 2, cur->cid.x);
            CHECK_EQ(cur->bid.y % 2, cur->cid.y);
            CHECK_EQ(cur->crank, cur->cid.y * 2 + cur->cid.x);
            ++seen[cur->bid.x][cur->bid.y][cur->bid.z];
        },
        Dim3{2, 2, 1});
    for (const auto &x : seen) {
        for (const auto &y : x) {
            for (const unsigned char z : y) CHECK_EQ(z, 1);
        }
    }
}

TEST(blocks_that_wait_for_later_blocks_are_brought_in)
{
    Device<unsigned> counter(std::vector<unsigned>{0});
    kernel(Dim3{9, 1, 1}, 32, 0, [&] {
        if (cur->lane == 0) {
            atomic(&counter[0], Atom::ADD, Ty::U32, 1, 0, Sem::RELEASE, Scope::GPU);
            while (strong_load(&counter[0], 4, Sem::ACQUIRE, Scope::GPU) < 9) {}
        }
        syncwarp(~0u);
    });
    CHECK_EQ(counter[0], 9);
}

TEST(wrong_uses_are_reported)
{
    DIES(86, "has diverged", kernel(32, 0, [] {
             if (cur->lane < 16)
                 ballot(~0u, true);
             else
                 syncwarp(~0u);
         }));
    DIES(86, "does not name it", kernel(32, 0, [] { syncwarp(1); }));
    DIES(86, "which is not in mask", kernel(32, 0, [] {
             if (cur->lane < 8) shfl(Shfl::IDX, 0, 20, 31, 0xff, nullptr);
         }));
    DIES(86, "disagree on the count",
         kernel(128, 0, [] { bar_sync(3, cur->warp == 0 ? 64 : 128); }));
    DIES(86, "not a multiple of 32", kernel(128, 0, [] { bar_sync(3, 33); }));
    DIES(86, "setmaxnreg", kernel(128, 0, [] { setmaxnreg(true, 33); }));
    DIES(86, "outside the block's allocation", kernel(32, 64, [] { shared<int>(SMEM + 64) = 1; }));
    DIES(86, "illegal address", kernel(1, 0, [] { *reinterpret_cast<int *>(64) = 1; }));
    DIES(86, "past the end of an allocation", {
        Device<int> d(64);
        kernel(1, 0, [&] { d[64 * 1024] = 1; });
        kernel(1, 0, [&] { d[64] = 1; });
    });
    DIES(86, "was overwritten", {
        Device<char> d(100);
        kernel(1, 0, [&] { d[100] = 1; });
        mem_check();
    });
}

TEST(a_deadlock_names_who_waits_where)
{
    DIES(87, "bar.sync 4 (32 of 64 threads have come)", kernel(64, 0, [] {
             if (cur->warp == 0) bar_sync(4, 64);
         }));
    DIES(87, "core_warp_test.cpp", kernel(64, 0, [] {
             if (cur->warp == 0) bar_sync(4, 64);
         }));
    DIES(87, "32 threads have ended", kernel(64, 0, [] {
             if (cur->warp == 0) bar_sync(4, 64);
         }));
    DIES(87, "barrier.cluster.wait",
         kernel(
             Dim3{2, 1, 1}, 1, 0,
             [] {
                 if (cur->crank == 1) return;
                 cluster_arrive(true);
                 cluster_wait();
             },
             Dim3{2, 1, 1}));
}

int main(int argc, char **argv)
{
    return core_main(argc, argv);
}
