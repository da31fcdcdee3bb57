// memory.cpp -- the two memories of the simulated GPU.
//
// Shared: every block has a window of 256 KiB on the host; addresses below 1024 and past the
// block's allocation are errors. The windows of a cluster are told apart by bits 24..31 of an
// address. Global: host memory, each allocation mapped on its own with a protected page on both
// sides and up to 255 guard bytes behind the last byte; the pages catch a wild access at once,
// the guard bytes are looked at when the memory is freed and by mem_check(). Both memories start
// as 0xff bytes, a NaN in every format.
//
// SPDX-License-Identifier: MIT
#include <cstring>
#include <map>
#include <sys/mman.h>
#include "tests/cudasim/src/machine.h"

namespace cudasim
{

namespace
{

enum : size_t { PAGE = 4096, ALIGN = 256 };
enum : unsigned char { GUARD_BYTE = 0xa5 };

struct Allocation {
    size_t bytes, mapped;
    char *map;
};

std::map<uintptr_t, Allocation> &allocations()
{
    static std::map<uintptr_t, Allocation> all;
    return all;
}

std::vector<char *> &all_windows()
{
    static std::vector<char *> all;
    return all;
}

size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

void check_guard(uintptr_t at, const Allocation &a)
{
    const auto *const p = reinterpret_cast<const unsigned char *>(at);
    for (size_t i = a.bytes; i < round_up(a.bytes, ALIGN); ++i) {
        if (p[i] != GUARD_BYTE) {
            die("byte %zu past the end of the allocation %p (%zu bytes) was overwritten",
                i - a.bytes, reinterpret_cast<void *>(at), a.bytes);
        }
    }
}

} // namespace

// ---- shared ----

char *memory_window()
{
    // Aligned to its size, so that a swizzle by host address and by shared address agree.
    auto *const p = static_cast<char *>(mmap(nullptr, 2 * WINDOW, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (p == MAP_FAILED) die("no memory for a shared window");
    char *const w = reinterpret_cast<char *>(round_up(reinterpret_cast<uintptr_t>(p), WINDOW));
    all_windows().push_back(w);
    race_memory(w, WINDOW, false);
    return w;
}

bool is_shared_window(const void *p)
{
    const auto start = reinterpret_cast<uintptr_t>(p) / WINDOW * WINDOW;
    for (const char *w : all_windows()) {
        if (reinterpret_cast<uintptr_t>(w) == start) return true;
    }
    return false;
}

void memory_poison(char *window, uint32_t end)
{
    memset(window + SMEM_START, 0xff, end - SMEM_START);
}

Block *block_of(uint32_t addr)
{
    const uint32_t r = addr >> 24;
    if (r == 0) return m.block;
    Cluster *const c = m.block->cluster;
    if (r > c->size)
        die("shared address 0x%x names block %u of a cluster of %u", addr, r - 1, c->size);
    Block *const b = c->block[r - 1].get();
    if (b->alive == 0)
        die("access to the shared memory of block %u of the cluster, which has ended", r - 1);
    return b;
}

void *smem_in(Block *b, uint32_t addr, size_t bytes, const char *what)
{
    if (addr < SMEM_START || addr + bytes > b->smem_end) {
        die("%s: shared address 0x%x, %zu bytes: outside the block's allocation (0x%x to 0x%x)",
            what, addr, bytes, SMEM_START, b->smem_end);
    }
    return b->window + addr;
}

void *smem_ptr(uint32_t addr, size_t bytes, const char *what)
{
    if (addr >= SMEM_START && addr + bytes <= m.block->smem_end) return m.block->window + addr;
    NOTE_CALLER();
    return smem_in(block_of(addr), local_addr(addr), bytes, what);
}

uint64_t smem_of_generic(uint64_t generic)
{
    const uint64_t off = generic - reinterpret_cast<uint64_t>(m.block->window);
    if (off < WINDOW) return off;
    for (const auto &b : m.block->cluster->block) {
        const uint64_t o = generic - reinterpret_cast<uint64_t>(b->window);
        if (o < WINDOW) return (static_cast<uint64_t>(b->rank) + 1) << 24 | o;
    }
    NOTE_CALLER();
    die("address 0x%llx is not shared memory", static_cast<unsigned long long>(generic));
}

uint32_t smem_addr(const void *generic)
{
    return static_cast<uint32_t>(smem_of_generic(reinterpret_cast<uint64_t>(generic)));
}

uint64_t smem_generic(uint32_t addr)
{
    Block *const b = addr >> 24 == 0 ? m.block : block_of(addr);
    return reinterpret_cast<uint64_t>(b->window) + local_addr(addr);
}

bool is_shared(const void *generic)
{
    for (const auto &b : m.block->cluster->block) {
        if (reinterpret_cast<uint64_t>(generic) - reinterpret_cast<uint64_t>(b->window) < WINDOW) {
            return true;
        }
    }
    return false;
}

uint32_t cluster_addr(uint32_t addr, uint32_t rank)
{
    NOTE_CALLER();
    if (rank >= m.fiber->csize) die("mapa: block %u of a cluster of %u", rank, m.fiber->csize);
    return (rank + 1) << 24 | local_addr(addr);
}

uint64_t cluster_generic(uint64_t generic, uint32_t rank)
{
    return smem_generic(cluster_addr(static_cast<uint32_t>(smem_of_generic(generic)), rank));
}

uint32_t cluster_rank(uint32_t addr)
{
    return addr >> 24 == 0 ? m.fiber->crank : (addr >> 24) - 1;
}

// ---- global ----

void *mem_alloc(size_t bytes)
{
    const size_t body = round_up(bytes == 0 ? 1 : bytes, ALIGN);
    const size_t mapped = round_up(body, PAGE) + 2 * PAGE;
    auto *const map = static_cast<char *>(
        mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (map == MAP_FAILED) return nullptr;
    mprotect(map, PAGE, PROT_NONE);
    mprotect(map + mapped - PAGE, PAGE, PROT_NONE);
    char *const p = map + mapped - PAGE - body; // ends at the protected page
    memset(map + PAGE, 0xff, mapped - 2 * PAGE);
    memset(p + bytes, GUARD_BYTE, body - bytes);
    allocations()[reinterpret_cast<uintptr_t>(p)] = {bytes, mapped, map};
    race_memory(p, bytes, false);
    return p;
}

bool mem_free(void *p)
{
    const auto it = allocations().find(reinterpret_cast<uintptr_t>(p));
    if (it == allocations().end()) return false;
    check_guard(it->first, it->second);
    race_memory_gone(p);
    munmap(it->second.map, it->second.mapped);
    allocations().erase(it);
    return true;
}

bool mem_find(const void *p, void **base, size_t *bytes)
{
    const auto at = reinterpret_cast<uintptr_t>(p);
    auto it = allocations().upper_bound(at);
    if (it == allocations().begin()) return false;
    --it;
    if (at - it->first >= (it->second.bytes == 0 ? 1 : it->second.bytes)) return false;
    *base = reinterpret_cast<void *>(it->first);
    *bytes = it->second.bytes;
    return true;
}

void mem_check()
{
    for (const auto &a : allocations()) check_guard(a.first, a.second);
}

void mem_register(void *p, size_t bytes)
{
    race_memory(p, bytes, true);
}

void mem_host_write(const void *p, size_t bytes)
{
    if (race_on) race_written_by_host(p, bytes);
}

} // namespace cudasim
