// race.h -- hooks of the happens-before checker (race.cpp says how it works).
//
// The checker is on when a kernel compiled with -fsanitize=thread is linked in: such an object
// calls __tsan_init before main, and every plain load and store of the kernel calls
// __tsan_readN or __tsan_writeN; all of them are ours (tsan_hooks.cpp), libtsan is not linked.
// Callers test race_on first, so that a plain run pays one branch.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>
#include "tests/cudasim/src/device.h"

namespace cudasim
{

struct Block;
struct Clock;
struct Fiber;
using ClockRef = std::shared_ptr<Clock>;

// An asynchronous operation: the clock of the thread that issued it and a component of its own.
struct RaceTag {
    ClockRef clock;
    unsigned agent = 0;
    uint32_t stamp = 0;
    uint64_t cluster = 0;
    bool generic = false; // cp.async: not of the async proxy
    const void *pc = nullptr;
};

// A thread's part of the checker's state.
struct RaceThread {
    ClockRef clock;
    ClockRef fence_block, fence_gpu; // at the last fence of that scope
    ClockRef unacquired;             // what relaxed reads have seen, until a fence takes it
};

extern bool race_on;

void race_launch_begin();
void race_launch_end(); // ends the program (88) when anything was reported
void race_block_begin(Block *b);
void race_block_end(Block *b);

// Threads of a block that have met: each is ordered after all the others.
void race_meet(Block *b, unsigned warp, uint32_t mask);
void race_meet_threads(Block *b, const std::vector<unsigned> &threads);
// What one thread (or copy) has done is handed to an object; a thread takes it from there.
void race_release(Fiber *f, const void *object);
void race_acquire(Fiber *f, const void *object);
void race_drop(const void *object);
// An mbarrier: arrivals gather, a completed phase is what waiting threads take.
void race_mbar_init(Fiber *f, const void *bar);
void race_mbar_touch(Fiber *f, const void *bar); // arrives or waits: the init must be ordered
void race_mbar_phase(const void *bar);
void race_mbar_acquire(Fiber *f, const void *bar);
void race_mbar_used_by_copy(const void *bar);

// Accesses of the running thread that the compiler's hooks do not see.
void race_access(Fiber *f, const void *p, size_t n, bool write);
// Atomics and the fences that give them an order between blocks.
void race_atomic(Fiber *f, const void *p, size_t n, bool read, bool write, Sem sem, Scope scope);
void race_fence(Fiber *f, Scope scope);
void race_proxy_fence(Fiber *f, bool global);
void race_mbar_init_fence(Fiber *f);

// Asynchronous operations: begin when issued, access when done, then published.
RaceTag race_async_begin(Fiber *f, const void *agent);
// The same for an operation that several threads issue together: it is ordered after what all of
// them are ordered after. race_gather collects the clocks of one warp.
void race_gather(Fiber *f, ClockRef *sum);
RaceTag race_async_begin_met(Block *b, const ClockRef *clocks, int n, const void *agent,
                             const void *pc);
void race_async_access(const RaceTag &t, const void *p, size_t n, bool write, bool atomic = false);
void race_async_release(const RaceTag &t, const void *bar); // complete_tx
void race_async_join(Fiber *f, const RaceTag &t);           // wait_group

// Memory that the checker watches.
void race_memory(const void *p, size_t n, bool initialised);
void race_memory_gone(const void *p);
void race_written_by_host(const void *p, size_t n);

} // namespace cudasim
