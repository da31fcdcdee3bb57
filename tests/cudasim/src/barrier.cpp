// barrier.cpp -- named barriers of a block, the barrier of a cluster.
//
// SPDX-License-Identifier: MIT
#include <cstring>
#include "tests/cudasim/src/machine.h"

namespace cudasim
{

namespace
{

void complete(Block *b, NamedBarrier *n)
{
    if (race_on) {
        for (const unsigned t : n->members) race_acquire(&b->fiber[t], n);
        race_meet_threads(b, n->members);
        race_drop(n);
    }
    n->result.popc = n->pred_count;
    n->result.any = n->pred_or;
    n->result.all = n->pred_and;
    n->have = 0;
    n->pred_or = false;
    n->pred_and = true;
    n->pred_count = 0;
    n->members.clear();
    for (unsigned w = 0; w < b->warps; ++w) {
        const uint32_t lanes = n->waiting[w];
        n->waiting[w] = 0;
        wake_lanes(b, w, lanes);
    }
}

void reach(unsigned id, unsigned threads, bool wait, bool pred)
{
    Fiber *const f = m.fiber;
    Block *const b = m.block;
    if (id > 15) die("bar.sync: barrier %u; there are 16", id);
    NamedBarrier *const n = &b->bar[id];
    const bool all = threads == 0; // all that have not ended
    if (all) threads = b->threads;
    if (threads % 32 != 0 && threads != b->threads) {
        die("bar.sync %u: the thread count %u is not a multiple of 32", id, threads);
    }
    if (threads > (b->threads + 31) / 32 * 32) {
        die("bar.sync %u: waits for %u threads in a block of %u", id, threads, b->threads);
    }
    if (n->have == 0) n->need = threads, n->all = all;
    if (n->need != threads) {
        die("bar.sync %u: threads disagree on the count (%u and %u)", id, n->need, threads);
    }
    ++n->have;
    n->pred_or |= pred;
    n->pred_and &= pred;
    n->pred_count += pred;
    if (race_on) {
        if (wait)
            n->members.push_back(f->lin);
        else
            race_release(f, n);
    }
    if (n->have < (n->all ? b->alive : n->need)) {
        if (!wait) return;
        n->waiting[f->warp] |= 1u << f->lane;
        wait_here("bar.sync", 0, id);
        return;
    }
    complete(b, n);
    if (wait && chance(2)) yield_here();
}

} // namespace

void barrier_thread_ends(Block *b)
{
    for (NamedBarrier &n : b->bar) {
        if (n.have != 0 && n.all && n.have >= b->alive) complete(b, &n);
    }
}

void bar_sync(uint32_t id, uint32_t threads)
{
    NOTE_CALLER();
    reach(id, threads, true, false);
}

void bar_arrive(uint32_t id, uint32_t threads)
{
    NOTE_CALLER();
    if (threads == 0) die("bar.arrive %u needs a thread count", id);
    reach(id, threads, false, false);
}

uint32_t bar_red(BarRed op, uint32_t id, uint32_t threads, bool p)
{
    NOTE_CALLER();
    reach(id, threads, true, p);
    const auto &r = m.block->bar[id].result;
    switch (op) {
    case BarRed::POPC: return r.popc;
    case BarRed::AND: return r.all;
    case BarRed::OR: return r.any;
    }
    return 0;
}

void cluster_arrive(bool release)
{
    NOTE_CALLER();
    Fiber *const f = m.fiber;
    Cluster *const c = f->home->cluster;
    f->cluster_phase = c->phase;
    if (race_on && release) race_release(f, c);
    if (++c->arrived < c->expected) return;
    c->arrived = 0;
    ++c->phase;
    if (race_on) race_mbar_phase(c);
    for (Fiber *w : c->waiters) wake(w);
    c->waiters.clear();
}

void cluster_wait()
{
    NOTE_CALLER();
    Fiber *const f = m.fiber;
    Cluster *const c = f->home->cluster;
    if (c->phase == f->cluster_phase) {
        c->waiters.push_back(f);
        wait_here("barrier.cluster.wait", 0, c->phase);
    }
    if (race_on) race_mbar_acquire(f, c);
}

} // namespace cudasim
