// core_race_test.cpp -- every kind of race, injected; and the right version of it, which is quiet.
//
// This file is compiled with the compiler's hooks (-fsanitize=thread), as kernels of a race build
// are, so the lambdas below are watched. Each wrong kernel stands beside the right one, and both
// run under whatever schedule the environment asks for: the checker does not need the run to
// go wrong.
//
// SPDX-License-Identifier: MIT
#include "tests/cudasim/tests/core.h"

namespace
{

enum : uint32_t { BAR = SMEM, DATA = SMEM + 1024, DATA2 = SMEM + 2048, BYTES = 4096 };

void wait(uint32_t bar, uint32_t parity)
{
    while (!mbar_try_wait(bar, parity)) {}
}

int &word(uint32_t i)
{
    return shared<int>(DATA + i * 4);
}

void init_barrier(bool fence, unsigned count = 1)
{
    if (cur->lin == 0) {
        mbar_init(BAR, count);
        if (fence) fence_mbarrier_init();
    }
    block_sync();
}

std::vector<int> numbers(size_t n)
{
    std::vector<int> v(n);
    for (size_t i = 0; i < n; ++i) v[i] = static_cast<int>(i);
    return v;
}

} // namespace

TEST(a_block_barrier_between_write_and_read)
{
    for (const bool right : {true, false}) {
        const auto run = [&] {
            kernel(64, BYTES, [&] {
                word(cur->lin) = 1;
                if (right) block_sync();
                volatile int x = 0;
                x = word(63 - cur->lin);
                (void)x;
            });
        };
        if (right)
            LIVES(run());
        else
            DIES(88, "core_race_test.cpp", run());
    }
}

TEST(a_second_barrier_before_the_next_write)
{
    const auto run = [](bool right) {
        kernel(64, BYTES, [&] {
            for (int i = 0; i < 2; ++i) {
                word(cur->lin) = i;
                block_sync();
                volatile int x = word(63 - cur->lin);
                (void)x;
                if (right) block_sync();
            }
        });
    };
    LIVES(run(true));
    DIES(88, "unordered", run(false));
}

TEST(lanes_of_a_warp_need_a_syncwarp)
{
    const auto run = [](bool right) {
        kernel(32, BYTES, [&] {
            word(cur->lane) = 1;
            if (right) syncwarp(~0u);
            volatile int x = word(cur->lane ^ 1);
            (void)x;
        });
    };
    LIVES(run(true));
    DIES(88, "unordered", run(false));
}

TEST(a_barrier_of_one_warpgroup_does_not_order_another)
{
    const auto run = [](unsigned threads) {
        kernel(128, BYTES, [&] {
            if (cur->warp == 0) word(cur->lane) = 1;
            if (threads == 128 || cur->warp < 2) bar_sync(1, threads);
            if (cur->warp == 3) {
                volatile int x = word(cur->lane);
                (void)x;
            }
        });
    };
    LIVES(run(128));
    DIES(88, "unordered", run(64));
}

TEST(memory_that_nobody_has_written)
{
    DIES(88, "read of shared memory that nobody has written", kernel(1, BYTES, [] {
             volatile int x = word(0);
             (void)x;
         }));
    DIES(88, "read of global memory that nobody has written", {
        Device<int> d(4);
        kernel(1, 0, [&] {
            volatile int x = d[3];
            (void)x;
        });
    });
    DIES(88, "access past the end of an allocation", {
        Device<int> d(numbers(5));
        kernel(1, 0, [&] {
            volatile int x = d[5];
            (void)x;
        });
    });
}

TEST(an_mbarrier_orders_producer_and_consumer)
{
    const auto run = [](bool right) {
        kernel(64, BYTES, [&] {
            init_barrier(true, 32);
            if (cur->warp == 0) {
                word(cur->lane) = 7;
                mbar_arrive(BAR, 1);
            } else {
                if (right) wait(BAR, 0);
                volatile int x = word(cur->lane);
                (void)x;
            }
        });
    };
    LIVES(run(true));
    DIES(88, "by", run(false)); // unordered, or not yet written
}

TEST(an_mbarrier_must_be_initialised_before_others_use_it)
{
    std::string said;
    const int code = exit_code_of(
        [] {
            kernel(64, BYTES, [] {
                if (cur->lin == 0) mbar_init(BAR, 64);
                for (int i = 0; i < 200; ++i) yield(); // late enough mostly, but not ordered
                mbar_arrive(BAR, 1);
            });
        },
        &said);
    CHECK(code == 88 || code == 86); // 86: it was not even there yet
    Device<int> d(numbers(64));
    const auto run = [&](bool fence) {
        kernel(32, BYTES, [&] {
            init_barrier(fence);
            if (cur->lin == 0) {
                mbar_arrive_expect_tx(BAR, 256);
                bulk_load(DATA, d.p, 256, BAR, 0);
            }
            wait(BAR, 0);
        });
    };
    LIVES(run(true));
    DIES(88, "no fence.mbarrier_init", run(false));
}

TEST(a_bulk_load_is_seen_after_the_wait_only)
{
    Device<int> d(numbers(64));
    const auto run = [&](bool right) {
        kernel(32, BYTES, [&] {
            init_barrier(true);
            if (cur->lin == 0) {
                mbar_arrive_expect_tx(BAR, 256);
                bulk_load(DATA, d.p, 256, BAR, 0);
            }
            if (right) wait(BAR, 0);
            syncwarp(~0u);
            volatile int x = word(cur->lane);
            (void)x;
            wait(BAR, 0);
        });
    };
    LIVES(run(true));
    DIES(88, "an asynchronous operation", run(false));
}

TEST(a_stage_may_be_refilled_after_its_release_only)
{
    Device<int> d(numbers(64));
    const auto run = [&](bool right) {
        kernel(64, BYTES, [&] {
            if (cur->lin == 0) {
                mbar_init(BAR, 1);
                mbar_init(BAR + 8, 32);
                fence_mbarrier_init();
            }
            block_sync();
            for (unsigned i = 0; i < 3; ++i) {
                if (cur->lin == 0) {
                    if (i > 0 && right) wait(BAR + 8, (i - 1) & 1);
                    if (i > 0 && !right) wait(BAR, (i - 1) & 1); // its own load, not the readers
                    mbar_arrive_expect_tx(BAR, 128);
                    bulk_load(DATA, d.p, 128, BAR, 0);
                } else if (cur->warp == 1) {
                    wait(BAR, i & 1);
                    volatile int x = word(cur->lane);
                    (void)x;
                    mbar_arrive(BAR + 8, 1);
                }
            }
        });
    };
    LIVES(run(true));
    std::string said;
    const int code = exit_code_of([&] { run(false); }, &said);
    CHECK(code == 88 || code == 87); // the run itself may come to a stop
}

TEST(generic_writes_reach_a_bulk_store_behind_a_proxy_fence_only)
{
    Device<int> d(32);
    enum Where { NOWHERE, WRITER, ISSUER };
    const auto run = [&](Where fence) {
        kernel(32, BYTES, [&] {
            word(cur->lane) = 5;
            if (fence == WRITER) fence_proxy_async(false);
            syncwarp(~0u);
            if (cur->lane == 0) {
                if (fence == ISSUER) fence_proxy_async(false);
                bulk_store(d.p, DATA, 128);
                bulk_commit();
                bulk_wait(0, false);
            }
        });
    };
    LIVES(run(WRITER));
    LIVES(run(ISSUER));
    DIES(88, "without fence.proxy.async", run(NOWHERE));
}

TEST(a_store_has_to_be_read_before_its_source_is_reused)
{
    Device<int> d(64);
    const auto run = [&](bool right) {
        kernel(32, BYTES, [&] {
            for (int i = 0; i < 2; ++i) {
                word(cur->lane) = i;
                fence_proxy_async(false);
                syncwarp(~0u);
                if (cur->lane == 0) {
                    bulk_store(d.p + 32 * i, DATA, 128);
                    bulk_commit();
                    if (right || i == 1) bulk_wait(0, true);
                }
                syncwarp(~0u);
            }
        });
    };
    LIVES(run(true));
    DIES(88, "unordered", run(false));
}

TEST(cp_async_is_seen_after_wait_and_barrier)
{
    Device<int> d(numbers(128));
    const auto run = [&](bool do_wait, bool sync) {
        kernel(32, BYTES, [&] {
            cp_async(DATA + cur->lane * 16, &d[cur->lane * 4], 16, 16);
            cp_async_commit();
            if (do_wait) cp_async_wait(0);
            if (sync) block_sync();
            volatile int x = word((31 - cur->lane) * 4);
            (void)x;
            cp_async_wait(0);
        });
    };
    LIVES(run(true, true));
    DIES(88, "race", run(false, true));
    DIES(88, "race", run(true, false));
}

TEST(blocks_have_no_order)
{
    Device<int> d(numbers(4));
    DIES(88, "write after an unordered write", kernel(Dim3{2, 1, 1}, 1, 0, [&] { d[0] = 1; }));
    LIVES(kernel(Dim3{4, 1, 1}, 1, 0, [&] { d[cur->bid.x] = 1; }));
    LIVES({ // two kernels have
        kernel(1, 0, [&] { d[0] = 1; });
        kernel(1, 0, [&] { d[0] = 2; });
    });
}

TEST(a_counter_with_fences_orders_split_k)
{
    // Each block writes its part, the last to come adds them up.
    enum Kind { FENCED, ACQ_REL, NO_FENCE, NO_FENCE_IN_LAST, BLOCK_FENCE, NO_BARRIER };
    const auto run = [](Kind kind) {
        Device<int> part(4 * 64);
        Device<int> sum(64);
        Device<int> counter(std::vector<int>{0});
        kernel(Dim3{4, 1, 1}, 64, BYTES, [&] {
            const unsigned t = cur->lin;
            const Scope scope = kind == BLOCK_FENCE ? Scope::CTA : Scope::GPU;
            part[cur->bid.x * 64 + t] = 1;
            if (kind != NO_BARRIER) block_sync();
            if (t == 0) {
                if (kind != ACQ_REL && kind != NO_FENCE) fence(scope);
                const Sem sem = kind == ACQ_REL ? Sem::ACQ_REL : Sem::RELAXED;
                const uint64_t n = atomic(counter.p, Atom::ADD, Ty::S32, 1, 0, sem, Scope::GPU);
                if (kind != ACQ_REL && kind != NO_FENCE_IN_LAST) fence(scope);
                shared<int>(DATA) = n == 3;
            }
            block_sync();
            if (shared<int>(DATA) == 0) return;
            int s = 0;
            for (unsigned b = 0; b < 4; ++b) s += part[b * 64 + t];
            sum[t] = s;
        });
        if (sum[5] != 4) _exit(1);
    };
    LIVES(run(FENCED));
    LIVES(run(ACQ_REL));
    DIES(88, "read after an unordered write", run(NO_FENCE));
    DIES(88, "read after an unordered write", run(NO_FENCE_IN_LAST));
    DIES(88, "read after an unordered write", run(BLOCK_FENCE));
    DIES(88, "read after an unordered write", run(NO_BARRIER));
}

TEST(a_turn_by_release_and_acquire_orders_blocks)
{
    const auto run = [](bool right) {
        Device<int> sum(numbers(32));
        Device<int> turn(std::vector<int>{0});
        kernel(Dim3{5, 1, 1}, 32, 0, [&] {
            if (cur->lane == 0) {
                while (strong_load(turn.p, 4, right ? Sem::ACQUIRE : Sem::RELAXED, Scope::GPU) !=
                       cur->bid.x) {}
            }
            syncwarp(~0u);
            sum[cur->lane] += 1;
            syncwarp(~0u);
            if (cur->lane == 0) {
                strong_store(turn.p, 4, cur->bid.x + 1, right ? Sem::RELEASE : Sem::RELAXED,
                             Scope::GPU);
            }
        });
        if (sum[31] != 36) _exit(1);
    };
    LIVES(run(true));
    DIES(88, "unordered write", run(false));
}

TEST(a_plain_access_races_with_an_atomic)
{
    Device<int> d(numbers(4));
    LIVES(kernel(Dim3{4, 1, 1}, 32, 0,
                 [&] { atomic(d.p, Atom::ADD, Ty::S32, 1, 0, Sem::RELAXED, Scope::GPU); }));
    DIES(88, "unordered", kernel(Dim3{2, 1, 1}, 1, 0, [&] {
             if (cur->bid.x == 0)
                 atomic(d.p, Atom::ADD, Ty::S32, 1, 0, Sem::RELAXED, Scope::GPU);
             else
                 d[0] = 3;
         }));
}

TEST(a_cluster_barrier_orders_remote_shared_memory)
{
    const auto run = [](bool release, bool right) {
        kernel(
            Dim3{2, 1, 1}, 32, BYTES,
            [&] {
                word(cur->lane) = 1;
                if (right) {
                    cluster_arrive(release);
                    cluster_wait();
                }
                volatile int x = shared<int>(cluster_addr(DATA, 1 - cur->crank));
                (void)x;
                cluster_arrive(true);
                cluster_wait();
            },
            Dim3{2, 1, 1});
    };
    LIVES(run(true, true));
    DIES(88, "race", run(false, true)); // barrier.cluster.arrive.relaxed orders nothing
    DIES(88, "race", run(true, false));
}

TEST(wgmma_operands_follow_the_rules_of_the_async_proxy)
{
    enum Bug { NONE, NO_FENCE, NO_BARRIER, EARLY_OVERWRITE };
    const auto run = [](Bug bug) {
        kernel(128, 3 * 4096, [&] {
            for (uint32_t i = cur->lin; i < 2048; i += 128) shared<int>(DATA + i * 4) = 0;
            if (bug != NO_FENCE) fence_proxy_async(false);
            if (bug != NO_BARRIER) block_sync();
            uint32_t d[4] = {};
            Wgmma w = {};
            w.n = 8;
            w.ta = w.tb = Num::BF16;
            w.desc_a = w.desc_b = (DATA >> 4) | 128ull / 16 << 16 | 256ull / 16 << 32;
            wgmma_fence();
            wgmma(d, w);
            wgmma_commit();
            if (bug == EARLY_OVERWRITE) {
                shared<int>(DATA) = 1;
                wgmma_wait(0);
            } else {
                wgmma_wait(0);
                block_sync();
                if (cur->lin == 0) shared<int>(DATA) = 1;
            }
        });
    };
    LIVES(run(NONE));
    DIES(88, "without fence.proxy.async", run(NO_FENCE));
    DIES(88, "unordered", run(NO_BARRIER));
    DIES(88, "unordered", run(EARLY_OVERWRITE));
}

TEST(a_report_names_both_lines_and_threads)
{
    DIES(88, "before: thread 1 of block 0", kernel(2, BYTES, [] {
             if (cur->lin == 1) word(0) = 1;
             for (int i = 0; i < 300; ++i) yield();
             if (cur->lin == 0) word(0) = 2;
         }));
}

int main(int argc, char **argv)
{
    return core_main(argc, argv);
}
