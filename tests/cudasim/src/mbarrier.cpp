// mbarrier.cpp -- barriers in shared memory: arrivals, transaction bytes, phases.
//
// The state lives in a table of the block, and the eight bytes in shared memory mirror it; when
// the two differ, the kernel has overwritten its barrier, and when there is no entry, it has not
// been initialised. A phase completes when no arrival and no transaction byte is pending; bytes
// may be completed before they are expected, so the count is signed.
//
// SPDX-License-Identifier: MIT
#include <cstring>
#include "tests/cudasim/src/machine.h"

namespace cudasim
{

namespace
{

enum { MAX_COUNT = (1 << 20) - 1 };

// phase in bit 63, pending arrivals, expected arrivals and transaction bytes below.
uint64_t image(const MBar &x)
{
    return static_cast<uint64_t>(x.phase & 1) << 63 | static_cast<uint64_t>(x.pending) << 42 |
           static_cast<uint64_t>(x.expected) << 22 |
           (static_cast<uint64_t>(x.tx + (1 << 21)) & 0x3fffff);
}

void *bytes_of(Block *b, uint32_t bar, const char *what)
{
    if (bar % 8 != 0) die("%s: mbarrier at 0x%x is not 8-byte aligned", what, bar);
    return smem_in(b, bar, 8, what);
}

MBar &find(Block *b, uint32_t bar, const char *what)
{
    void *const p = bytes_of(b, bar, what);
    const auto it = b->mbar.find(bar);
    if (it == b->mbar.end()) die("%s: no mbarrier has been initialised at 0x%x", what, bar);
    uint64_t now = 0;
    memcpy(&now, p, 8);
    if (now != image(it->second)) die("%s: the mbarrier at 0x%x was overwritten", what, bar);
    return it->second;
}

void store(Block *b, uint32_t bar, const MBar &x)
{
    const uint64_t v = image(x);
    memcpy(b->window + bar, &v, 8);
}

// Ends the phase when everything has come.
void settle(Block *b, uint32_t bar, MBar *x)
{
    if (x->pending == 0 && x->tx == 0) {
        ++x->phase;
        x->pending = x->expected;
        if (race_on) race_mbar_phase(b->window + bar);
        for (const unsigned t : x->waiters) wake(&b->fiber[t]);
        x->waiters.clear();
    }
    store(b, bar, *x);
}

void arrive(Block *b, uint32_t bar, uint32_t count, const char *what)
{
    MBar &x = find(b, bar, what);
    if (count == 0 || x.pending < count) {
        die("%s: %u arrivals at the mbarrier 0x%x, which waits for %u of %u", what, count, bar,
            x.pending, x.expected);
    }
    x.pending -= count;
    settle(b, bar, &x);
}

void expect(Block *b, uint32_t bar, uint32_t bytes, const char *what)
{
    MBar &x = find(b, bar, what);
    x.tx += bytes;
    if (x.tx > MAX_COUNT)
        die("%s: %lld bytes pending at 0x%x, more than 2^20-1", what, static_cast<long long>(x.tx),
            bar);
    store(b, bar, x);
}

bool phase_done(uint32_t bar, uint32_t parity, const char *what)
{
    const MBar &x = find(m.block, bar, what);
    if (race_on) race_mbar_touch(m.fiber, m.block->window + bar);
    if ((x.phase & 1) == (parity & 1)) return false; // the phase of this parity is the current one
    if (race_on) race_mbar_acquire(m.fiber, m.block->window + bar);
    return true;
}

void own_only(uint32_t bar, const char *what)
{
    if (bar >> 24 != 0) die("%s: only the block's own mbarriers can be waited on", what);
}

} // namespace

void mbar_init(uint32_t bar, uint32_t count)
{
    NOTE_CALLER();
    Block *const b = block_of(bar);
    bar = local_addr(bar);
    bytes_of(b, bar, "mbarrier.init");
    if (count == 0 || count > MAX_COUNT) die("mbarrier.init: count %u", count);
    const auto it = b->mbar.find(bar);
    if (it != b->mbar.end() && !it->second.waiters.empty()) {
        die("mbarrier.init at 0x%x while threads wait there", bar);
    }
    MBar x;
    x.pending = x.expected = count;
    b->mbar[bar] = x;
    store(b, bar, x);
    if (race_on) race_mbar_init(m.fiber, b->window + bar);
}

void mbar_inval(uint32_t bar)
{
    NOTE_CALLER();
    find(m.block, bar, "mbarrier.inval");
    m.block->mbar.erase(bar);
}

uint64_t mbar_arrive(uint32_t bar, uint32_t count)
{
    NOTE_CALLER();
    Block *const b = block_of(bar);
    bar = local_addr(bar);
    const uint64_t state = image(find(b, bar, "mbarrier.arrive"));
    if (race_on) {
        race_mbar_touch(m.fiber, b->window + bar);
        race_release(m.fiber, b->window + bar);
    }
    arrive(b, bar, count, "mbarrier.arrive");
    return state;
}

void mbar_expect_tx(uint32_t bar, uint32_t bytes)
{
    NOTE_CALLER();
    expect(block_of(bar), local_addr(bar), bytes, "mbarrier.expect_tx");
}

uint64_t mbar_arrive_expect_tx(uint32_t bar, uint32_t bytes)
{
    NOTE_CALLER();
    Block *const b = block_of(bar);
    bar = local_addr(bar);
    expect(b, bar, bytes, "mbarrier.arrive.expect_tx");
    const uint64_t state = image(find(b, bar, "mbarrier.arrive.expect_tx"));
    if (race_on) {
        race_mbar_touch(m.fiber, b->window + bar);
        race_release(m.fiber, b->window + bar);
    }
    arrive(b, bar, 1, "mbarrier.arrive.expect_tx");
    return state;
}

void mbar_complete_tx(uint32_t bar, uint32_t bytes)
{
    NOTE_CALLER();
    mbar_complete(block_of(bar), local_addr(bar), bytes, RaceTag());
}

void mbar_complete(Block *b, uint32_t bar, uint32_t bytes, const RaceTag &tag)
{
    MBar &x = find(b, bar, "complete_tx");
    if (race_on) race_async_release(tag, b->window + bar);
    x.tx -= bytes;
    if (x.tx < -MAX_COUNT)
        die("complete_tx: %lld bytes too many at the mbarrier 0x%x", static_cast<long long>(-x.tx),
            bar);
    settle(b, bar, &x);
}

void mbar_arrive_by_copy(Block *b, uint32_t bar, Fiber *f)
{
    if (race_on) race_release(f, b->window + bar);
    arrive(b, bar, 1, "cp.async.mbarrier.arrive");
}

void mbar_check(Block *b, uint32_t bar, const char *what)
{
    find(b, bar, what);
}

// cp.async.mbarrier.arrive without .noinc is one arrival more than the barrier was made for.
void mbar_pending_inc(Block *b, uint32_t bar)
{
    MBar &x = find(b, bar, "cp.async.mbarrier.arrive");
    ++x.pending;
    store(b, bar, x);
}

bool mbar_test_wait(uint32_t bar, uint32_t parity)
{
    NOTE_CALLER();
    own_only(bar, "mbarrier.test_wait");
    if (phase_done(bar, parity, "mbarrier.test_wait")) return true;
    yield_here();
    return phase_done(bar, parity, "mbarrier.test_wait");
}

bool mbar_try_wait(uint32_t bar, uint32_t parity)
{
    NOTE_CALLER();
    own_only(bar, "mbarrier.try_wait");
    if (chance(4)) yield_here();
    if (phase_done(bar, parity, "mbarrier.try_wait")) return true;
    if (chance(32)) { // the hardware may give up after a while; a kernel must ask again
        yield_here();
        return phase_done(bar, parity, "mbarrier.try_wait");
    }
    m.block->mbar[bar].waiters.push_back(m.fiber->lin);
    wait_here("mbarrier.try_wait", bar, parity);
    return phase_done(bar, parity, "mbarrier.try_wait");
}

bool mbar_test_wait_state(uint32_t bar, uint64_t state)
{
    return mbar_test_wait(bar, static_cast<uint32_t>(state >> 63));
}

bool mbar_try_wait_state(uint32_t bar, uint64_t state)
{
    return mbar_try_wait(bar, static_cast<uint32_t>(state >> 63));
}

} // namespace cudasim
