// race.cpp -- the happens-before checker: from events to clocks.
//
// Two accesses to a byte, one of them a write, by different threads race unless a chain of
// synchronisation leads from one to the other: a barrier, an mbarrier's phase, a warp instruction
// that both lanes took part in, a group that was waited for, or an atomic with release and
// acquire (or with the fences that make it so). The checker follows these chains with vector
// clocks (race_clock.h) and remembers the accesses in a shadow of memory (race_shadow.cpp), so it
// finds a missing synchronisation whether or not this run went wrong by it.
//
// Particulars. The order of two kernels of a stream is total. Copies and wgmmas are actors of
// their own: their accesses are ordered after what the issuing thread (all four warps, for wgmma)
// knew, and before those who wait for the mbarrier or the group. What a thread wrote itself is
// visible to them only behind a fence.proxy.async somewhere on the path. cp.async belongs to the
// generic proxy. Blocks on different clusters have no order but by atomics of gpu scope.
//
// SPDX-License-Identifier: MIT
#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <unistd.h>
#include <unordered_map>
#include "tests/cudasim/src/machine.h"
#include "tests/cudasim/src/race_shadow.h"

namespace cudasim
{

bool race_on;

namespace
{

enum { MAX_PRINTED = 40 };
enum : uint64_t { EVERYWHERE = ~0ull };

struct ClusterState {
    unsigned components = 0; // threads first, then agents
    std::map<const void *, unsigned> agents;
    std::vector<uint32_t> ticks; // of the agents
    unsigned threads = 0;
};

struct InitMark {
    Fiber *by;
    bool fenced;
};

std::unordered_map<const Cluster *, ClusterState> clusters;
std::unordered_map<const void *, Clock> objects; // what was released into them
std::unordered_map<const void *, Clock> phases;  // of mbarriers: the last completed phase
using Location = std::pair<const void *, uint64_t>;
std::map<Location, Clock> locations; // of atomics, by block or EVERYWHERE
std::unordered_map<const void *, InitMark> mbar_inits;
unsigned errors;

unsigned component(const Fiber *f)
{
    return f->home->rank * f->home->threads + f->lin;
}

Clock &own(Fiber *f)
{
    if (f->race.clock.use_count() > 1) f->race.clock = std::make_shared<Clock>(*f->race.clock);
    return *f->race.clock;
}

// Ends the thread's step: what it has done so far can now be published.
Clock &tick(Fiber *f)
{
    Clock &c = own(f);
    const unsigned i = component(f);
    raise(&c.own.seen, i, step(c.own.seen, i) + 1);
    return c;
}

void publish(std::unordered_map<const void *, Clock> *where, const void *key, const Clock &c)
{
    const auto it = where->find(key);
    if (it == where->end())
        (*where)[key] = c;
    else
        join(&it->second, c);
}

void take(Fiber *f, const std::unordered_map<const void *, Clock> &where, const void *key)
{
    const auto it = where.find(key);
    if (it != where.end()) join(&own(f), it->second);
}

Access access_of(const Fiber *f, Proxy proxy)
{
    Access a;
    const unsigned i = component(f);
    a.cluster = static_cast<uint32_t>(f->home->cluster->number);
    a.who = static_cast<uint16_t>(i);
    a.stamp = step(f->race.clock->own.seen, i) + 1;
    a.pc = pack_pc(f->pc);
    a.proxy = proxy;
    return a;
}

void meet_all(const std::vector<Fiber *> &threads)
{
    if (threads.empty()) return;
    auto sum = std::make_shared<Clock>(*threads[0]->race.clock);
    const Clock *last = threads[0]->race.clock.get();
    for (const Fiber *f : threads) {
        if (f->race.clock.get() == last) continue;
        last = f->race.clock.get();
        join(sum.get(), *last);
    }
    for (const Fiber *f : threads) {
        const unsigned i = component(f);
        raise(&sum->own.seen, i, step(f->race.clock->own.seen, i) + 1);
    }
    for (Fiber *f : threads) f->race.clock = sum;
}

unsigned agent_of(Cluster *c, const void *key)
{
    ClusterState &s = clusters[c];
    const auto it = s.agents.find(key);
    if (it != s.agents.end()) return it->second;
    const unsigned i = s.components++;
    if (i > 0xffff) die("race checker: more than 65535 threads and agents in a cluster");
    s.agents[key] = i;
    s.ticks.resize(i - s.threads + 1, 0);
    return i;
}

void describe(const char *role, const Access &a)
{
    const std::string at = where_in_source(unpack_pc(a.pc));
    const unsigned n = m.launch.block.x * m.launch.block.y * m.launch.block.z;
    const unsigned csize = m.launch.cluster.x * m.launch.cluster.y * m.launch.cluster.z;
    fprintf(stderr, "    %s: ", role);
    if (a.proxy == Proxy::ASYNC || a.who >= n * csize) {
        fprintf(stderr, "an asynchronous operation of ");
    } else {
        fprintf(stderr, "thread %u of ", a.who % n);
    }
    if (csize > 1)
        fprintf(stderr, "block %u of cluster %u", a.who / n, a.cluster);
    else
        fprintf(stderr, "block %u", a.cluster);
    fprintf(stderr, ", %s\n", at.empty() ? "line unknown" : at.c_str());
}

} // namespace

void race_report(const char *what, const void *p, const Access &a, const Access *other)
{
    static std::set<std::pair<std::string, std::pair<int32_t, int32_t>>> seen;
    ++errors;
    if (!seen.insert({what, {a.pc, other != nullptr ? other->pc : 0}}).second) return;
    if (seen.size() > MAX_PRINTED) return;
    fflush(stdout);
    if (is_shared_window(p)) {
        fprintf(stderr, "cudasim race: %s: shared 0x%zx, kernel %s\n", what,
                static_cast<size_t>(reinterpret_cast<uintptr_t>(p) % WINDOW), m.launch.name);
    } else {
        void *base = nullptr;
        size_t bytes = 0;
        const bool known = mem_find(p, &base, &bytes);
        fprintf(stderr, "cudasim race: %s: global %p", what, p);
        if (known) {
            fprintf(stderr, " (byte %zu of %zu)",
                    static_cast<size_t>(static_cast<const char *>(p) - static_cast<char *>(base)),
                    bytes);
        }
        fprintf(stderr, ", kernel %s\n", m.launch.name);
    }
    describe("by", a);
    if (other != nullptr) describe("before", *other);
}

void race_launch_begin()
{
    shadow_launch_begin();
    objects.clear();
    phases.clear();
    locations.clear();
    mbar_inits.clear();
    clusters.clear();
}

void race_launch_end()
{
    if (errors == 0) return;
    fprintf(stderr, "cudasim race: %u reports in kernel %s", errors, m.launch.name);
    if (m.opt.seed != 0) fprintf(stderr, " with CUDASIM_SEED=%u", m.opt.seed);
    fprintf(stderr, "\n");
    fflush(stderr);
    _exit(88);
}

void race_block_begin(Block *b)
{
    ClusterState &s = clusters[b->cluster];
    s.threads = s.components = b->threads * b->cluster->size;
    shadow_reset(b->window, WINDOW, false);
    for (const NamedBarrier &n : b->bar) objects.erase(&n); // of a block that lay there before
    objects.erase(b->cluster);
    phases.erase(b->cluster);
    for (Fiber &f : b->fiber) {
        f.race = RaceThread();
        f.race.clock = std::make_shared<Clock>();
        f.race.clock->cluster = b->cluster->number;
    }
}

void race_block_end(Block *b)
{
    if (b->rank + 1 == b->cluster->size) clusters.erase(b->cluster);
}

void race_meet(Block *b, unsigned warp, uint32_t mask)
{
    std::vector<Fiber *> all;
    for (uint32_t s = mask; s != 0; s &= s - 1) {
        all.push_back(&b->fiber[warp * 32 + static_cast<unsigned>(__builtin_ctz(s))]);
    }
    meet_all(all);
}

void race_meet_threads(Block *b, const std::vector<unsigned> &threads)
{
    std::vector<Fiber *> all;
    for (const unsigned t : threads) all.push_back(&b->fiber[t]);
    meet_all(all);
}

void race_release(Fiber *f, const void *object)
{
    publish(&objects, object, tick(f));
}

void race_acquire(Fiber *f, const void *object)
{
    take(f, objects, object);
}

void race_drop(const void *object)
{
    objects.erase(object);
}

// ---- mbarriers ----

void race_mbar_init(Fiber *f, const void *bar)
{
    objects.erase(bar);
    phases.erase(bar);
    mbar_inits[bar] = {f, false};
    race_access(f, bar, 8, true);
}

void race_mbar_touch(Fiber *f, const void *bar)
{
    shadow_access(*f->race.clock, access_of(f, Proxy::ATOMIC), bar, 8, false);
}

void race_mbar_phase(const void *bar)
{
    const auto it = objects.find(bar);
    if (it != objects.end()) phases[bar] = it->second;
}

void race_mbar_acquire(Fiber *f, const void *bar)
{
    take(f, phases, bar);
}

void race_mbar_init_fence(Fiber *f)
{
    for (auto &x : mbar_inits) {
        if (x.second.by == f) x.second.fenced = true;
    }
}

void race_mbar_used_by_copy(const void *bar)
{
    const auto it = mbar_inits.find(bar);
    if (it == mbar_inits.end() || it->second.fenced) return;
    it->second.fenced = true;
    race_report("an asynchronous copy tells an mbarrier that no fence.mbarrier_init or "
                "fence.proxy.async has published",
                bar, access_of(m.fiber, Proxy::GENERIC), nullptr);
}

// ---- accesses of threads ----

void race_access(Fiber *f, const void *p, size_t n, bool write)
{
    shadow_access(*f->race.clock, access_of(f, Proxy::GENERIC), p, n, write);
}

void race_proxy_fence(Fiber *f, bool global)
{
    proxy_fence(&tick(f), global);
    race_mbar_init_fence(f);
}

// Fences and atomics as in the C++ memory model: a release fence remembers the clock for later
// relaxed writes, an acquire fence takes what earlier relaxed reads have seen.
void race_fence(Fiber *f, Scope scope)
{
    if (f->race.unacquired != nullptr) {
        join(&own(f), *f->race.unacquired);
        f->race.unacquired = nullptr;
    }
    tick(f);
    f->race.fence_block = f->race.clock;
    if (scope != Scope::CTA) f->race.fence_gpu = f->race.clock;
}

void race_atomic(Fiber *f, const void *p, size_t n, bool read, bool write, Sem sem, Scope scope)
{
    shadow_access(*f->race.clock, access_of(f, Proxy::ATOMIC), p, n, write);
    const uint64_t block = f->home->cluster->number * MAX_CLUSTER + f->home->rank;
    const Location everywhere = {p, EVERYWHERE}, here = {p, block};
    const bool wide = scope != Scope::CTA;
    if (read) {
        for (const auto &key : {everywhere, here}) {
            const auto it = locations.find(key);
            if (it == locations.end() || (!wide && key.second == EVERYWHERE)) continue;
            if (sem == Sem::ACQUIRE || sem == Sem::ACQ_REL) {
                join(&own(f), it->second);
            } else {
                if (f->race.unacquired == nullptr) {
                    f->race.unacquired = std::make_shared<Clock>();
                    f->race.unacquired->cluster = f->home->cluster->number;
                }
                join(f->race.unacquired.get(), it->second);
            }
        }
    }
    if (!write) return;
    if (!read) { // a plain store starts anew
        locations.erase(everywhere);
        locations.erase(here);
    }
    const auto put = [](const Location &key, const Clock &c) {
        const auto it = locations.find(key);
        if (it == locations.end())
            locations[key] = c;
        else
            join(&it->second, c);
    };
    if (sem == Sem::RELEASE || sem == Sem::ACQ_REL) {
        const Clock &c = tick(f);
        put(here, c);
        if (wide) put(everywhere, c);
        return;
    }
    if (f->race.fence_block != nullptr) put(here, *f->race.fence_block);
    if (wide && f->race.fence_gpu != nullptr) put(everywhere, *f->race.fence_gpu);
}

// ---- asynchronous operations ----

RaceTag race_async_begin(Fiber *f, const void *agent)
{
    RaceTag t;
    tick(f);
    t.clock = f->race.clock;
    t.agent = agent_of(f->home->cluster, agent);
    ClusterState &s = clusters[f->home->cluster];
    t.stamp = ++s.ticks[t.agent - s.threads];
    t.cluster = f->home->cluster->number;
    t.pc = f->pc;
    return t;
}

void race_gather(Fiber *f, ClockRef *sum)
{
    tick(f);
    if (*sum == nullptr)
        *sum = std::make_shared<Clock>(*f->race.clock);
    else
        join(sum->get(), *f->race.clock);
}

RaceTag race_async_begin_met(Block *b, const ClockRef *clocks, int n, const void *agent,
                             const void *pc)
{
    auto all = std::make_shared<Clock>(*clocks[0]); // what every one of them knows
    const auto lower = [](Steps *a, const Steps &x) {
        for (size_t i = 0; i < a->size(); ++i) (*a)[i] = std::min((*a)[i], step(x, i));
    };
    for (int i = 1; i < n; ++i) {
        lower(&all->own.seen, clocks[i]->own.seen);
        lower(&all->own.fenced_shared, clocks[i]->own.fenced_shared);
        lower(&all->own.fenced_global, clocks[i]->own.fenced_global);
    }
    RaceTag t;
    t.clock = std::move(all);
    t.agent = agent_of(b->cluster, agent);
    ClusterState &s = clusters[b->cluster];
    t.stamp = ++s.ticks[t.agent - s.threads];
    t.cluster = b->cluster->number;
    t.pc = pc;
    return t;
}

void race_async_access(const RaceTag &t, const void *p, size_t n, bool write, bool atomic)
{
    Access a;
    a.cluster = static_cast<uint32_t>(t.cluster);
    a.who = static_cast<uint16_t>(t.agent);
    a.stamp = t.stamp;
    a.pc = pack_pc(t.pc);
    a.proxy = atomic ? Proxy::ATOMIC : t.generic ? Proxy::GENERIC : Proxy::ASYNC;
    shadow_access(*t.clock, a, p, n, write);
}

void race_async_release(const RaceTag &t, const void *bar)
{
    if (t.clock == nullptr) return;
    publish(&objects, bar, *t.clock);
    raise(&objects[bar].own.seen, t.agent, t.stamp);
}

void race_async_join(Fiber *f, const RaceTag &t)
{
    if (t.clock != nullptr) raise(&own(f).own.seen, t.agent, t.stamp);
}

// ---- memory ----

void race_memory(const void *p, size_t n, bool initialised)
{
    if (race_on) shadow_add(p, n, initialised);
}

void race_memory_gone(const void *p)
{
    if (race_on) shadow_remove(p);
}

void race_written_by_host(const void *p, size_t n)
{
    shadow_reset(p, n, true);
}

} // namespace cudasim
