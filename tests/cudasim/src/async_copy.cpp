// async_copy.cpp -- copies that go on while the thread does: cp.async, bulk copies, their groups.
//
// When a copy happens is up to the hardware; here it is up to `later()`: at once without a seed,
// at a random moment up to the last legal one with a seed, always at the last with
// CUDASIM_LAZY=1. Loads that tell an mbarrier wait in their block's queue; copies that a thread
// waits for in groups (cp.async, bulk stores) wait in the thread. A store first reads its source
// (wait_group.read) and writes afterwards (wait_group).
//
// SPDX-License-Identifier: MIT
#include <cstring>
#include "tests/cudasim/src/machine.h"
#include "tests/cudasim/src/reduce.h"

namespace cudasim
{

namespace
{

enum : size_t { MAX_GROUPS = 64 }; // older stores of a thread that only waits for reads are done

// ---- cp.async ----

void cp_async_run(Copy *k)
{
    if (k->done) return;
    k->done = true;
    char *const dst = k->block->window + k->smem;
    memcpy(dst, k->global, k->src_bytes);
    memset(dst + k->src_bytes, 0, k->bytes - k->src_bytes);
    if (!race_on) return;
    race_async_access(k->tag, dst, k->bytes, true);
    if (k->src_bytes != 0) race_async_access(k->tag, k->global, k->src_bytes, false);
}

void cp_group_finish(Fiber *f, CopyGroup *g)
{
    for (Copy &k : *g) {
        cp_async_run(&k);
        if (race_on) race_async_join(f, k.tag);
    }
}

// ---- loads that tell an mbarrier ----

void load_run(Copy *k)
{
    switch (k->kind) {
    case Copy::TMA_LOAD: tma_run(*k); break;
    case Copy::BULK_LOAD: {
        char *const dst = k->block->window + k->smem;
        memcpy(dst, k->global, k->bytes);
        if (race_on) {
            race_async_access(k->tag, dst, k->bytes, true);
            race_async_access(k->tag, k->global, k->bytes, false);
        }
        break;
    }
    case Copy::BULK_CLUSTER: {
        char *const dst = k->block->window + k->smem;
        memcpy(dst, k->global, k->bytes); // `global` is the source in another window
        if (race_on) {
            race_async_access(k->tag, dst, k->bytes, true);
            race_async_access(k->tag, k->global, k->bytes, false);
        }
        break;
    }
    default: // CP_ARRIVE: the copies that the arrival waits for
        for (Copy &c : k->batch) cp_async_run(&c);
        if (race_on && !k->batch.empty()) {
            race_async_release(k->batch.back().tag, k->bar_block->window + k->bar);
        }
        mbar_arrive_by_copy(k->bar_block, k->bar, k->owner);
        return;
    }
    mbar_complete(k->bar_block, k->bar, k->bytes, k->tag);
}

void store_write(Copy *k)
{
    if (k->done) return;
    k->done = true;
    if (k->kind == Copy::TMA_STORE) {
        tma_run(*k);
    } else {
        if (!k->was_read) store_read(*k);
        if (k->op == Reduce::NONE)
            memcpy(k->global, k->data.data(), k->bytes);
        else
            reduce_bytes(k->global, k->data.data(), k->bytes, k->op, k->type);
        if (race_on) {
            race_async_access(k->tag, k->global, k->bytes, true, k->op != Reduce::NONE);
        }
    }
    k->data = std::vector<char>();
}

void check_bulk(const void *global, uint32_t smem, uint32_t bytes, const char *what)
{
    if (reinterpret_cast<uintptr_t>(global) % 16 != 0 || smem % 16 != 0 || bytes % 16 != 0) {
        die("%s: addresses and size must be multiples of 16 (global %p, shared 0x%x, %u bytes)",
            what, global, smem, bytes);
    }
}

} // namespace

void store_read(Copy &k)
{
    if (k.was_read) return;
    if (k.kind == Copy::TMA_STORE) {
        tma_read_source(k);
        return;
    }
    const char *const src = k.block->window + k.smem;
    k.data.assign(src, src + k.bytes);
    k.was_read = true;
    if (race_on) race_async_access(k.read_tag, src, k.bytes, false);
}

void async_load_issue(Copy k)
{
    mbar_check(k.bar_block, k.bar, k.kind == Copy::TMA_LOAD ? "TMA load" : "cp.async.bulk");
    k.pc = m.fiber->pc;
    k.owner = m.fiber;
    if (race_on) {
        const void *const bar = k.bar_block->window + k.bar;
        race_mbar_used_by_copy(bar);
        k.tag = race_async_begin(m.fiber, bar);
    }
    if (!later()) {
        load_run(&k);
        return;
    }
    k.last_resort = m.opt.lazy == 1 || chance(2);
    k.block->pending.push_back(std::move(k));
}

bool copy_pending_may_run(const Copy &k, bool nothing_else)
{
    return nothing_else || !k.last_resort;
}

void copy_run_pending(Block *b, size_t i)
{
    Copy k = std::move(b->pending[i]);
    b->pending.erase(b->pending.begin() + static_cast<ptrdiff_t>(i));
    m.copy_pc = k.pc;
    load_run(&k);
    m.copy_pc = nullptr;
}

void async_store_issue(Copy k)
{
    k.pc = m.fiber->pc;
    if (race_on) {
        k.read_tag = race_async_begin(m.fiber, &m.fiber->bulk_open);
        k.tag = race_async_begin(m.fiber, &m.fiber->bulk_groups);
    }
    if (!later()) {
        store_read(k);
        store_write(&k);
    }
    m.fiber->bulk_open.push_back(std::move(k));
}

void copy_done_by_exit(Fiber *f)
{
    for (const CopyGroup &g : f->cp_groups) {
        for (const Copy &k : g) {
            if (!k.done) die("the thread ends with cp.async in flight");
        }
    }
    for (const Copy &k : f->cp_open) {
        if (!k.done) die("the thread ends with cp.async in flight");
    }
    if (!f->bulk_open.empty()) die("the thread ends with bulk stores that were never committed");
    for (CopyGroup &g : f->bulk_groups) {
        for (Copy &k : g) {
            if (!k.waited) {
                die("the thread ends while its bulk stores may still read shared memory "
                    "(no cp.async.bulk.wait_group.read)");
            }
            store_write(&k);
        }
    }
    f->cp_open.clear();
    f->cp_groups.clear();
    f->bulk_groups.clear();
}

// ---- cp.async ----

void cp_async(uint32_t dst, const void *src, int bytes, int src_bytes)
{
    NOTE_CALLER();
    const auto n = static_cast<uint32_t>(bytes);
    if (n != 4 && n != 8 && n != 16) die("cp.async of %d bytes", bytes);
    if (dst % n != 0 || reinterpret_cast<uintptr_t>(src) % n != 0) {
        die("cp.async of %d bytes: misaligned (global %p, shared 0x%x)", bytes, src, dst);
    }
    if (src_bytes < 0 || src_bytes > bytes) die("cp.async of %d bytes reads %d", bytes, src_bytes);
    auto *const to = static_cast<char *>(smem_in(m.block, dst, n, "cp.async"));
    const bool now = !later();
    if (now && !race_on) { // done, and nothing to remember
        memcpy(to, src, static_cast<size_t>(src_bytes));
        memset(to + src_bytes, 0, n - static_cast<uint32_t>(src_bytes));
        return;
    }
    Copy k;
    k.block = m.block;
    k.smem = dst;
    k.global = static_cast<char *>(const_cast<void *>(src));
    k.bytes = n;
    k.src_bytes = static_cast<uint32_t>(src_bytes);
    k.pc = m.fiber->pc;
    if (race_on) {
        k.tag = race_async_begin(m.fiber, &m.fiber->cp_open);
        k.tag.generic = true;
    }
    if (now) cp_async_run(&k);
    m.fiber->cp_open.push_back(std::move(k));
}

void cp_async_commit()
{
    NOTE_CALLER();
    Fiber *const f = m.fiber;
    f->cp_groups.push_back(std::move(f->cp_open));
    f->cp_open.clear();
}

void cp_async_wait(int groups)
{
    NOTE_CALLER();
    Fiber *const f = m.fiber;
    while (f->cp_groups.size() > static_cast<size_t>(groups)) {
        cp_group_finish(f, &f->cp_groups.front());
        f->cp_groups.pop_front();
    }
}

void cp_async_wait_all()
{
    NOTE_CALLER();
    cp_async_wait(0);
    cp_group_finish(m.fiber, &m.fiber->cp_open);
    m.fiber->cp_open.clear();
}

// The barrier gets its arrival when every cp.async that this thread has issued is done.
void cp_async_mbar_arrive(uint32_t bar, bool noinc)
{
    NOTE_CALLER();
    Fiber *const f = m.fiber;
    Copy k;
    k.kind = Copy::CP_ARRIVE;
    k.block = k.bar_block = m.block;
    k.bar = bar;
    k.owner = f;
    k.pc = f->pc;
    if (!noinc)
        mbar_pending_inc(m.block, bar);
    else
        mbar_check(m.block, bar, "cp.async.mbarrier.arrive");
    const auto take = [&k](CopyGroup *g) {
        for (Copy &c : *g) k.batch.push_back(std::move(c));
        g->clear();
    };
    for (CopyGroup &g : f->cp_groups) take(&g);
    take(&f->cp_open);
    if (!later()) {
        load_run(&k);
        return;
    }
    k.last_resort = m.opt.lazy == 1;
    m.block->pending.push_back(std::move(k));
}

// ---- bulk copies without a map ----

void bulk_load(uint32_t dst, const void *src, uint32_t bytes, uint32_t bar, uint32_t cta_mask)
{
    NOTE_CALLER();
    check_bulk(src, dst, bytes, "cp.async.bulk");
    Copy k;
    k.kind = Copy::BULK_LOAD;
    k.smem = local_addr(dst);
    k.bar = local_addr(bar);
    k.global = static_cast<char *>(const_cast<void *>(src));
    k.bytes = bytes;
    Cluster *const c = m.block->cluster;
    for (unsigned r = 0; r < c->size; ++r) {
        Block *const b = cta_mask == 0 ? block_of(dst) : c->block[r].get();
        if (cta_mask != 0 && (cta_mask >> r & 1) == 0) continue;
        k.block = k.bar_block = b;
        smem_in(b, k.smem, bytes, "cp.async.bulk");
        async_load_issue(k);
        if (cta_mask == 0) return;
    }
}

void bulk_copy_cluster(uint32_t dst, uint32_t src, uint32_t bytes, uint32_t bar)
{
    NOTE_CALLER();
    check_bulk(nullptr, dst | src, bytes, "cp.async.bulk");
    Copy k;
    k.kind = Copy::BULK_CLUSTER;
    k.block = block_of(dst);
    k.bar_block = block_of(bar);
    k.smem = local_addr(dst);
    k.bar = local_addr(bar);
    k.bytes = bytes;
    smem_in(k.block, k.smem, bytes, "cp.async.bulk");
    k.global = static_cast<char *>(smem_in(m.block, src, bytes, "cp.async.bulk"));
    async_load_issue(std::move(k));
}

void bulk_store(void *dst, uint32_t src, uint32_t bytes)
{
    NOTE_CALLER();
    bulk_store_any(dst, src, bytes, Reduce::NONE, Ty::B32);
}

void bulk_reduce(void *dst, uint32_t src, uint32_t bytes, Reduce op, Ty type)
{
    NOTE_CALLER();
    bulk_store_any(dst, src, bytes, op, type);
}

void bulk_store_any(void *dst, uint32_t src, uint32_t bytes, Reduce op, Ty type)
{
    check_bulk(dst, src, bytes, "cp.async.bulk");
    smem_in(m.block, src, bytes, "cp.async.bulk");
    Copy k;
    k.kind = Copy::BULK_STORE;
    k.block = m.block;
    k.smem = src;
    k.global = static_cast<char *>(dst);
    k.bytes = bytes;
    k.op = op;
    k.type = type;
    async_store_issue(std::move(k));
}

void bulk_commit()
{
    NOTE_CALLER();
    Fiber *const f = m.fiber;
    f->bulk_groups.push_back(std::move(f->bulk_open));
    f->bulk_open.clear();
    while (f->bulk_groups.size() > MAX_GROUPS) {
        for (Copy &k : f->bulk_groups.front()) store_write(&k);
        f->bulk_groups.pop_front();
    }
}

void bulk_wait(int groups, bool read_only)
{
    NOTE_CALLER();
    Fiber *const f = m.fiber;
    const size_t n = f->bulk_groups.size(), keep = static_cast<size_t>(groups);
    for (size_t i = 0; i + keep < n; ++i) {
        for (Copy &k : f->bulk_groups[i]) {
            store_read(k);
            k.waited = true;
            if (race_on) race_async_join(f, k.read_tag);
            if (read_only) continue;
            store_write(&k);
            if (race_on) race_async_join(f, k.tag);
        }
    }
    while (!read_only && f->bulk_groups.size() > keep) f->bulk_groups.pop_front();
}

} // namespace cudasim
