// wgmma.h -- the warpgroup's queue of matrix instructions; for the scheduler.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <deque>
#include <memory>
#include <vector>
#include "tests/cudasim/src/machine.h"

namespace cudasim
{

enum { GROUP_THREADS = 128 };

// An accumulator: 64 rows by n columns. `last` is each thread's last instruction on it.
struct Accumulator {
    int n = 0, ld = 0;
    bool f16 = false;
    std::vector<float> c;
    uint64_t last[GROUP_THREADS] = {};
};

// One instruction; it can run when all 128 threads have issued it.
struct WgOp {
    Wgmma op = {};
    uint32_t acc = 0; // slot of the accumulator
    int have = 0;
    std::vector<uint32_t> a; // 4 registers a thread when A is in registers
    RaceTag tag;
    ClockRef warp_clock[4];
    const void *pc = nullptr;
};

struct WgGroup {
    unsigned first_thread = 0;
    uint64_t done = 0;      // instructions that have run
    std::deque<WgOp> queue; // instructions done, done + 1, ...
    uint64_t issued[GROUP_THREADS] = {};
    uint64_t waited[GROUP_THREADS] = {};     // instructions each thread has waited for
    uint64_t blocked_on[GROUP_THREADS] = {}; // 0: not blocked
    bool fenced[GROUP_THREADS] = {};
    std::deque<uint64_t> commits[GROUP_THREADS]; // instructions issued at each commit
    std::vector<std::unique_ptr<Accumulator>> acc;
    std::vector<RaceTag> tags; // of the instructions that have run, for joins
};

void wgmma_block_end(Block *b);

} // namespace cudasim
