// core_mbarrier_test.cpp -- mbarriers: phases, transaction bytes, remote arrivals, misuse.
//
// SPDX-License-Identifier: MIT
#include "tests/cudasim/tests/core.h"

namespace
{

enum : uint32_t { BAR = SMEM, BAR2 = SMEM + 8, DATA = SMEM + 128 };

void wait(uint32_t bar, uint32_t parity)
{
    while (!mbar_try_wait(bar, parity)) {}
}

} // namespace

TEST(phases_alternate_their_parity_over_many_rounds)
{
    kernel(64, 256, [] {
        if (cur->lin == 0) {
            mbar_init(BAR, 32);
            mbar_init(BAR2, 32);
        }
        block_sync();
        for (unsigned i = 0; i < 50; ++i) {
            if (cur->warp == 0) {
                if (i > 0) wait(BAR2, (i - 1) & 1);
                shared<unsigned>(DATA + cur->lane * 4) = i * 32 + cur->lane;
                mbar_arrive(BAR, 1);
            } else {
                wait(BAR, i & 1);
                if (shared<unsigned>(DATA + (31 - cur->lane) * 4) != i * 32 + 31 - cur->lane) {
                    device_trap();
                }
                mbar_arrive(BAR2, 1);
            }
        }
    });
}

TEST(a_phase_needs_its_bytes_and_its_arrivals)
{
    bool before[4];
    kernel(1, 256, [&] {
        mbar_init(BAR, 2);
        mbar_arrive_expect_tx(BAR, 48);
        before[0] = mbar_test_wait(BAR, 0);
        mbar_complete_tx(BAR, 48);
        before[1] = mbar_test_wait(BAR, 0);
        mbar_arrive(BAR, 1);
        before[2] = mbar_test_wait(BAR, 0);
        mbar_complete_tx(BAR, 16); // bytes may come before they are expected
        mbar_arrive(BAR, 1);
        mbar_arrive_expect_tx(BAR, 16);
        before[3] = mbar_test_wait(BAR, 1);
    });
    CHECK(!before[0]);
    CHECK(!before[1]);
    CHECK(before[2]);
    CHECK(before[3]);
}

TEST(a_state_can_be_waited_for)
{
    bool done[2];
    kernel(1, 256, [&] {
        mbar_init(BAR, 2);
        const uint64_t state = mbar_arrive(BAR, 1);
        done[0] = mbar_test_wait_state(BAR, state);
        mbar_arrive(BAR, 1);
        done[1] = mbar_try_wait_state(BAR, state);
    });
    CHECK(!done[0]);
    CHECK(done[1]);
}

TEST(blocks_of_a_cluster_arrive_at_each_others_barriers)
{
    int passed = 0;
    kernel(
        Dim3{4, 1, 1}, 32, 256,
        [&] {
            if (cur->lin == 0) mbar_init(BAR, 4);
            fence_mbarrier_init();
            cluster_arrive(true);
            cluster_wait();
            for (unsigned i = 0; i < 6; ++i) {
                if (cur->lane < 4) mbar_arrive(cluster_addr(BAR, cur->lane), 1);
                wait(BAR, i & 1);
                cluster_arrive(true); // else a fast block arrives twice before a slow one does once
                cluster_wait();
            }
            if (cur->lane == 0) ++passed;
        },
        Dim3{4, 1, 1});
    CHECK_EQ(passed, 4);
}

TEST(cp_async_arrives_when_its_copies_are_done)
{
    std::vector<unsigned> v(32 * 4);
    for (unsigned i = 0; i < v.size(); ++i) v[i] = i * 3;
    Device<unsigned> d(v);
    for (const bool noinc : {true, false}) {
        kernel(64, 1024, [&] {
            if (cur->lin == 0) mbar_init(BAR, noinc ? 32 : 33);
            block_sync();
            if (cur->warp == 0) {
                cp_async(DATA + cur->lane * 16, &d[cur->lane * 4], 16, 16);
                cp_async_mbar_arrive(BAR, noinc);
                if (!noinc) mbar_arrive(BAR, 1);
                if (!noinc && cur->lane == 0) mbar_arrive(BAR, 1);
            } else {
                wait(BAR, 0);
                for (unsigned k = 0; k < 4; ++k) {
                    const unsigned i = (31 - cur->lane) * 4 + k;
                    if (shared<unsigned>(DATA + i * 4) != i * 3) device_trap();
                }
            }
        });
    }
}

TEST(wrong_uses_of_a_barrier_are_reported)
{
    DIES(86, "no mbarrier has been initialised", kernel(1, 64, [] { mbar_arrive(BAR, 1); }));
    DIES(86, "was overwritten", kernel(1, 64, [] {
             mbar_init(BAR, 1);
             shared<int>(BAR) = 0;
             mbar_arrive(BAR, 1);
         }));
    DIES(86, "2 arrivals at the mbarrier", kernel(1, 64, [] {
             mbar_init(BAR, 1);
             mbar_arrive(BAR, 2);
         }));
    DIES(86, "not 8-byte aligned", kernel(1, 64, [] { mbar_init(BAR + 4, 1); }));
    DIES(86, "no mbarrier has been initialised", kernel(1, 64, [] {
             mbar_init(BAR, 1);
             mbar_inval(BAR);
             mbar_arrive(BAR, 1);
         }));
}

TEST(a_wrong_parity_or_wrong_byte_count_is_a_deadlock_with_the_reason)
{
    DIES(87, "mbarrier.try_wait at 0x400, parity 0", kernel(1, 64, [] {
             mbar_init(BAR, 1);
             wait(BAR, 0);
         }));
    DIES(87, "waits for 1 of 1 arrivals and 0 bytes", kernel(1, 64, [] {
             mbar_init(BAR, 1);
             mbar_arrive(BAR, 1);
             wait(BAR, 1);
         }));
    DIES(87, "waits for 0 of 1 arrivals and 32 bytes", kernel(1, 64, [] {
             mbar_init(BAR, 1);
             mbar_arrive_expect_tx(BAR, 48);
             mbar_complete_tx(BAR, 16);
             wait(BAR, 0);
         }));
}

int main(int argc, char **argv)
{
    return core_main(argc, argv);
}
