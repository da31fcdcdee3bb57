// race_shadow.cpp -- the shadow of memory: one cell a byte.
//
// A cell has the last write and the last read, and a second read that is not ordered with it; when
// there are more, all of them are kept in a side table, because a later write has to be ordered
// after each. Cells of global memory are forgotten lazily when a kernel starts (kernels are
// ordered); whether a byte was ever written is kept.
//
// SPDX-License-Identifier: MIT
#include "tests/cudasim/src/race_shadow.h"
#include <cstring>
#include <map>
#include <sys/mman.h>
#include <unordered_map>
#include "tests/cudasim/src/machine.h"

namespace cudasim
{

namespace
{

struct Cell {
    Access write, read, read2; // read2: a second reader that is not ordered with the first
    uint32_t launch;
    bool initialised, many_reads, told;
};

struct Region {
    uintptr_t start;
    size_t bytes;
    Cell *cells;
};

uint32_t launch_number = 1;
std::unordered_map<uintptr_t, std::vector<Access>> many_reads;

Region *last_region;

std::map<uintptr_t, Region> &regions()
{
    static std::map<uintptr_t, Region> all;
    return all;
}

Region *find_region(uintptr_t at)
{
    if (last_region != nullptr && at - last_region->start < last_region->bytes) return last_region;
    auto it = regions().upper_bound(at);
    if (it == regions().begin()) return nullptr;
    --it;
    if (at - it->first >= it->second.bytes) return nullptr;
    return last_region = &it->second;
}

// The guard bytes behind an allocation.
bool just_past_a_region(uintptr_t at)
{
    auto it = regions().upper_bound(at);
    if (it == regions().begin()) return false;
    --it;
    return at - it->first < it->second.bytes + 256;
}

Cell *cells_for(size_t n)
{
    void *const p = mmap(nullptr, n * sizeof(Cell), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) die("no memory for the race checker's shadow of %zu bytes", n);
    return static_cast<Cell *>(p);
}

bool before(const Clock &c, const Access &old)
{
    const Known *const k = known_of(c, old.cluster);
    return k != nullptr && step(k->seen, old.who) >= old.stamp;
}

bool fenced(const Clock &c, const Access &old, bool shared)
{
    const Known *const k = known_of(c, old.cluster);
    if (k == nullptr) return false;
    return step(shared ? k->fenced_shared : k->fenced_global, old.who) >= old.stamp;
}

bool same_actor(const Access &a, const Access &b)
{
    if (a.cluster != b.cluster || a.who != b.who) return false;
    return a.proxy != Proxy::ASYNC || a.stamp == b.stamp; // two copies of one agent are two actors
}

// May the two stand without an order? The same actor, or two atomics.
bool exempt(const Access &a, const Access &b)
{
    return same_actor(a, b) || (a.proxy == Proxy::ATOMIC && b.proxy == Proxy::ATOMIC);
}

struct Check {
    const Clock &clock;
    const Access &a;
    bool write, shared;
};

void against_write(const Check &k, Cell *c, const void *p)
{
    const Access &w = c->write;
    if (w.proxy == Proxy::NONE) return;
    if (!exempt(k.a, w) && !before(k.clock, w)) {
        race_report(k.write ? "write after an unordered write" : "read after an unordered write", p,
                    k.a, &w);
    } else if (k.a.proxy == Proxy::ASYNC && w.proxy == Proxy::GENERIC &&
               !fenced(k.clock, w, k.shared)) {
        race_report(k.write ? "asynchronous write over a generic write without fence.proxy.async"
                            : "asynchronous read of a generic write without fence.proxy.async",
                    p, k.a, &w);
    } else {
        return;
    }
    c->write.proxy = Proxy::NONE; // said once
}

void against_reads(const Check &k, Cell *c, const void *p)
{
    if (c->read.proxy == Proxy::NONE) return;
    const auto test = [&](const Access &r) {
        if (exempt(k.a, r) || before(k.clock, r)) return false;
        race_report("write after an unordered read", p, k.a, &r);
        return true;
    };
    if (!c->many_reads) {
        if (!test(c->read) && c->read2.proxy != Proxy::NONE) test(c->read2);
    } else {
        const auto it = many_reads.find(reinterpret_cast<uintptr_t>(p));
        for (const Access &r : it->second) {
            if (test(r)) break;
        }
        many_reads.erase(it);
        c->many_reads = false;
    }
    c->read.proxy = c->read2.proxy = Proxy::NONE;
}

void remember_read(const Check &k, Cell *c, const void *p)
{
    if (!c->many_reads &&
        (c->read.proxy == Proxy::NONE || same_actor(k.a, c->read) || before(k.clock, c->read))) {
        c->read = k.a;
        return;
    }
    if (!c->many_reads &&
        (c->read2.proxy == Proxy::NONE || same_actor(k.a, c->read2) || before(k.clock, c->read2))) {
        c->read2 = k.a;
        return;
    }
    auto &all = many_reads[reinterpret_cast<uintptr_t>(p)];
    if (!c->many_reads) all = {c->read, c->read2};
    c->many_reads = true;
    for (Access &r : all) {
        if (same_actor(k.a, r)) {
            r = k.a;
            return;
        }
    }
    all.push_back(k.a);
}

void check_byte(const Check &k, Cell *c, const void *p)
{
    if (c->launch != launch_number) {
        c->launch = launch_number;
        c->write.proxy = c->read.proxy = c->read2.proxy = Proxy::NONE;
        c->many_reads = c->told = false;
    }
    if (!k.write && !c->initialised && !c->told && (k.shared || k.a.proxy != Proxy::ASYNC)) {
        race_report(k.shared ? "read of shared memory that nobody has written"
                             : "read of global memory that nobody has written",
                    p, k.a, nullptr);
        c->told = true;
    }
    against_write(k, c, p);
    if (!k.write) {
        remember_read(k, c, p);
        return;
    }
    against_reads(k, c, p);
    c->write = k.a;
    c->initialised = true;
}

} // namespace

int32_t pack_pc(const void *pc)
{
    if (pc == nullptr) return 0;
    return static_cast<int32_t>(reinterpret_cast<intptr_t>(pc) -
                                reinterpret_cast<intptr_t>(&pack_pc));
}

const void *unpack_pc(int32_t pc)
{
    if (pc == 0) return nullptr;
    return reinterpret_cast<const void *>(reinterpret_cast<intptr_t>(&pack_pc) + pc);
}

void shadow_launch_begin()
{
    ++launch_number;
    many_reads.clear();
}

void shadow_add(const void *p, size_t n, bool initialised)
{
    if (n == 0) return;
    const auto at = reinterpret_cast<uintptr_t>(p);
    regions()[at] = Region{at, n, cells_for(n)};
    if (initialised) shadow_reset(p, n, true);
}

void shadow_remove(const void *p)
{
    const auto it = regions().find(reinterpret_cast<uintptr_t>(p));
    if (it == regions().end()) return;
    munmap(it->second.cells, it->second.bytes * sizeof(Cell));
    last_region = nullptr;
    regions().erase(it);
}

void shadow_reset(const void *p, size_t n, bool initialised)
{
    const auto at = reinterpret_cast<uintptr_t>(p);
    Region *const r = find_region(at);
    if (r == nullptr) return;
    Cell *const c = r->cells + (at - r->start);
    for (size_t i = 0; i < n && at - r->start + i < r->bytes; ++i) {
        c[i] = Cell{};
        c[i].initialised = initialised;
    }
}

void shadow_access(const Clock &clock, Access a, const void *p, size_t n, bool write)
{
    const auto at = reinterpret_cast<uintptr_t>(p);
    Region *const r = find_region(at);
    if (r == nullptr) { // the thread's stack, parameters
        if (just_past_a_region(at)) {
            race_report("access past the end of an allocation", p, a, nullptr);
        }
        return;
    }
    const bool shared = is_shared_window(p);
    if (at - r->start + n > r->bytes) {
        race_report("access past the end of an allocation", p, a, nullptr);
        return;
    }
    const Check k = {clock, a, write, shared};
    Cell *c = r->cells + (at - r->start);
    Cell before = *c, after = before;
    for (size_t i = 0; i < n; ++i, ++c) {
        // The bytes of an access mostly have one history: what held for the last holds for this.
        if (i != 0 && !before.many_reads && !after.many_reads &&
            memcmp(c, &before, sizeof before) == 0) {
            memcpy(c, &after, sizeof after);
            continue;
        }
        memcpy(&before, c, sizeof before);
        check_byte(k, c, static_cast<const char *>(p) + i);
        memcpy(&after, c, sizeof after);
    }
}

} // namespace cudasim
