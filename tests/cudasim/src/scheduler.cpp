// scheduler.cpp -- which thread runs next, and the life of a launch.
//
// Order without a seed: a block's threads in turn, a block until none of its threads can run,
// then the next block of the cluster; one cluster after another. With CUDASIM_SEED=n every
// choice is random but repeatable. Three seeds in four give each warp a random priority that
// changes now and then (a uniformly random order hardly ever lets one warp fall far behind, which
// is what most missing waits need); the fourth is uniform. Up to four clusters are then on the
// machine at once, and asynchronous copies finish at random moments.
//
// A kernel whose blocks wait for each other (a grid barrier, an ordered reduction) spins on
// global memory. When the resident threads have only yielded for a while, one more cluster is
// brought in; when there is none left, that is a livelock and reported like a deadlock.
//
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include "tests/cudasim/src/machine.h"
#include "tests/cudasim/src/wgmma.h"

namespace cudasim
{

Machine m;
Ctx *cur;

namespace
{

enum { MAX_RESIDENT = 64, IDLE_ROUNDS = 64, LOOK_AROUND = 64, LIVELOCK_YIELDS = 20 * 1000 * 1000 };

std::vector<Stack> stacks;   // by slot and thread; reused
std::vector<char *> windows; // by slot

unsigned xorshift()
{
    m.rng ^= m.rng << 13;
    m.rng ^= m.rng >> 17;
    m.rng ^= m.rng << 5;
    return m.rng;
}

// The next fiber of block `b` that can run, taken off the ready set; nullptr: none.
Fiber *pick_in_order(Block *b)
{
    const unsigned at = b->cursor + 1; // cyclic order starts after the fiber that ran last
    unsigned w = at / 32;
    uint32_t lanes = w < b->warps ? b->ready[w] & (~0u << at % 32) : 0;
    if (lanes == 0) {
        const uint32_t above = w + 1 < 32 ? b->ready_warps & (~0u << (w + 1)) : 0;
        const uint32_t warps = above != 0 ? above : b->ready_warps;
        if (warps == 0) return nullptr;
        w = static_cast<unsigned>(__builtin_ctz(warps));
        lanes = b->ready[w];
    }
    return &b->fiber[w * 32 + static_cast<unsigned>(__builtin_ctz(lanes))];
}

Fiber *pick_at_random(Block *b)
{
    if (b->ready_warps == 0) return nullptr;
    if (m.prioritised) {
        if (rnd(256) == 1) std::swap(b->prio[rnd(b->warps)], b->prio[rnd(b->warps)]);
        unsigned best = 0, best_prio = 0;
        for (uint32_t s = b->ready_warps; s != 0; s &= s - 1) {
            const auto w = static_cast<unsigned>(__builtin_ctz(s));
            if (b->prio[w] >= best_prio) best = w, best_prio = b->prio[w];
        }
        // Lanes of a warp mostly run together: one random start, then in turn.
        const uint32_t lanes = b->ready[best];
        const unsigned skip = rnd(4) == 0 ? rnd(32) : 0;
        const uint32_t from = lanes & (~0u << skip);
        return &b->fiber[best * 32 + static_cast<unsigned>(__builtin_ctz(from ? from : lanes))];
    }
    uint32_t warps = b->ready_warps;
    for (unsigned k = rnd(static_cast<unsigned>(__builtin_popcount(warps))); k != 0; --k) {
        warps &= warps - 1;
    }
    const auto w = static_cast<unsigned>(__builtin_ctz(warps));
    uint32_t lanes = b->ready[w];
    for (unsigned k = rnd(static_cast<unsigned>(__builtin_popcount(lanes))); k != 0; --k) {
        lanes &= lanes - 1;
    }
    return &b->fiber[w * 32 + static_cast<unsigned>(__builtin_ctz(lanes))];
}

Fiber *take(Block *b)
{
    Fiber *f = m.opt.seed != 0 ? pick_at_random(b) : pick_in_order(b);
    if (f == nullptr) return nullptr;
    b->ready[f->warp] &= ~(1u << f->lane);
    if (b->ready[f->warp] == 0) b->ready_warps &= ~(1u << f->warp);
    b->cursor = f->lin;
    return f;
}

void set_running(Fiber *f)
{
    m.fiber = f;
    cur = f;
    ++m.stats.switches;
}

// Leaves the running fiber: straight to the next of its block, or to the scheduler's loop when
// there is none (or, with random schedules, when it is time to look around).
void leave(bool last)
{
    Fiber *const me = m.fiber;
    const bool spinning = m.idle_yields % LOOK_AROUND == LOOK_AROUND - 1;
    if (spinning) ++m.turn; // others may have to move first: another block's turn
    const bool look = spinning || (m.opt.seed != 0 && rnd(16) == 0);
    Fiber *const next = look ? nullptr : take(m.block);
    if (next == me) return;
    if (next != nullptr) {
        set_running(next);
        fiber_switch(&me->stack, &next->stack, last);
    } else {
        m.fiber = nullptr;
        fiber_switch(&me->stack, &m.main, last);
    }
}

void thread_main()
{
    fiber_started();
    m.launch.body(m.launch.arg);
    Fiber *const me = m.fiber;
    copy_done_by_exit(me);
    me->state = Fiber::DONE;
    --me->home->alive;
    --me->home->cluster->alive;
    barrier_thread_ends(me->home);
    m.idle_yields = 0;
    leave(true);
    abort();
}

void make_ready(Block *b, unsigned warp, uint32_t lanes)
{
    b->ready[warp] |= lanes;
    b->ready_warps |= 1u << warp;
}

void block_begin(Block *b, unsigned slot)
{
    const Launch &l = m.launch;
    b->window = windows[slot];
    b->threads = l.block.x * l.block.y * l.block.z;
    b->warps = (b->threads + 31) / 32;
    b->alive = b->threads;
    const uint32_t dyn = static_cast<uint32_t>(l.dyn_smem);
    const uint32_t fixed = static_cast<uint32_t>(l.static_smem);
    b->smem_end = SMEM_START + (fixed + dyn + 15) / 16 * 16;
    memory_poison(b->window, b->smem_end);
    b->fiber = std::vector<Fiber>(b->threads);
    b->meeting = std::vector<Meeting>(static_cast<size_t>(b->warps) * MEETINGS);
    const Dim3 cid = {b->bid.x % l.cluster.x, b->bid.y % l.cluster.y, b->bid.z % l.cluster.z};
    for (unsigned i = 0; i < b->threads; ++i) {
        Fiber &f = b->fiber[i];
        f.tid = {i % l.block.x, i / l.block.x % l.block.y, i / l.block.x / l.block.y};
        f.bid = b->bid;
        f.bdim = l.block;
        f.gdim = l.grid;
        f.lin = i;
        f.lane = i % 32;
        f.warp = i / 32;
        f.crank = b->rank;
        f.csize = b->cluster->size;
        f.cid = cid;
        f.cdim = l.cluster;
        f.dyn_smem = dyn;
        f.total_smem = dyn + fixed;
        f.window = b->window;
        f.home = b;
        f.stack = stacks[static_cast<size_t>(slot) * b->threads + i];
        fiber_prepare(&f.stack, thread_main);
        f.state = Fiber::READY;
        make_ready(b, f.warp, 1u << f.lane);
    }
    b->cursor = b->threads - 1;
    for (unsigned w = 0; w < MAX_WARPS; ++w) b->prio[w] = w;
    for (unsigned w = b->warps; w > 1; --w) std::swap(b->prio[w - 1], b->prio[rnd(w)]);
    if (race_on) race_block_begin(b);
}

// Brings the grid's next cluster onto the machine.
void cluster_begin()
{
    const Launch &l = m.launch;
    auto c = std::make_unique<Cluster>();
    c->number = m.next_cluster++;
    c->size = l.cluster.x * l.cluster.y * l.cluster.z;
    const unsigned threads = l.block.x * l.block.y * l.block.z;
    c->expected = c->alive = c->size * threads;
    for (const auto &other : m.resident) { // the lowest slot that nobody uses
        if (other->slot == c->slot) ++c->slot;
    }
    const size_t first = static_cast<size_t>(c->slot) * c->size;
    while (windows.size() < first + c->size) windows.push_back(memory_window());
    while (stacks.size() < (first + c->size) * threads) stacks.push_back(stack_new());
    const uint64_t gx = l.grid.x / l.cluster.x, gy = l.grid.y / l.cluster.y;
    const Dim3 at = {static_cast<unsigned>(c->number % gx) * l.cluster.x,
                     static_cast<unsigned>(c->number / gx % gy) * l.cluster.y,
                     static_cast<unsigned>(c->number / gx / gy) * l.cluster.z};
    for (unsigned r = 0; r < c->size; ++r) {
        c->block.push_back(std::make_unique<Block>());
        Block *const b = c->block.back().get();
        b->cluster = c.get();
        b->rank = r;
        b->bid = {at.x + r % l.cluster.x, at.y + r / l.cluster.x % l.cluster.y,
                  at.z + r / l.cluster.x / l.cluster.y};
        block_begin(b, static_cast<unsigned>(first) + r);
    }
    const auto before = [](const auto &p, const auto &q) { return p->slot < q->slot; };
    m.resident.insert(std::upper_bound(m.resident.begin(), m.resident.end(), c, before),
                      std::move(c));
}

void cluster_end(size_t i)
{
    for (auto &b : m.resident[i]->block) {
        m.block = b.get();
        wgmma_block_end(b.get());
        if (race_on) race_block_end(b.get());
    }
    m.block = nullptr;
    m.resident.erase(m.resident.begin() + static_cast<ptrdiff_t>(i));
    m.idle_yields = 0;
}

// Lets block `b` do something: one pending copy, or its threads until none can run. False: it
// could not.
bool block_turn(Block *b, bool nothing_else)
{
    m.block = b;
    if (!b->pending.empty() && (b->ready_warps == 0 || chance(2))) {
        const size_t i = rnd(static_cast<unsigned>(b->pending.size()));
        if (copy_pending_may_run(b->pending[i], nothing_else)) {
            copy_run_pending(b, i);
            m.idle_yields = 0;
            return true;
        }
    }
    Fiber *const f = take(b);
    if (f == nullptr) return false;
    set_running(f);
    fiber_switch(&m.main, &f->stack, false);
    m.fiber = nullptr;
    if (b->alive == 0 && !b->pending.empty()) {
        die("block (%u,%u,%u) ends with an asynchronous load in flight", b->bid.x, b->bid.y,
            b->bid.z);
    }
    return true;
}

bool machine_turn(bool nothing_else)
{
    const size_t n = m.resident.size(), first = rnd(static_cast<unsigned>(n)) + m.turn;
    for (size_t i = 0; i < n; ++i) {
        const size_t k = (first + i) % n;
        Cluster *const c = m.resident[k].get();
        const unsigned start = rnd(c->size) + m.turn;
        for (unsigned j = 0; j < c->size; ++j) {
            Block *const b = c->block[(start + j) % c->size].get();
            if (!block_turn(b, nothing_else)) continue;
            if (c->alive == 0) cluster_end(k);
            return true;
        }
    }
    return false;
}

void run_grid()
{
    const unsigned most = m.opt.seed != 0 ? 1 + rnd(4) : 1;
    unsigned extra = 0; // clusters brought in because the others only spin
    while (m.next_cluster < m.clusters || !m.resident.empty()) {
        while (m.resident.size() < most + extra && m.next_cluster < m.clusters) cluster_begin();
        // Who spins can always run, perhaps for a block whose copies wait until nothing else can.
        const unsigned threads = m.launch.block.x * m.launch.block.y * m.launch.block.z;
        const bool spinning = m.idle_yields > IDLE_ROUNDS * threads;
        if (!machine_turn(spinning) && !machine_turn(true)) report_deadlock("deadlock");
        if (spinning && m.next_cluster < m.clusters && extra < MAX_RESIDENT) {
            ++extra;
            m.idle_yields = 0;
        }
        if (m.idle_yields > LIVELOCK_YIELDS) report_deadlock("livelock (threads only spin)");
    }
}

unsigned env_number(const char *name, unsigned otherwise)
{
    const char *const s = getenv(name);
    return s != nullptr ? static_cast<unsigned>(strtoul(s, nullptr, 10)) : otherwise;
}

struct KernelTime {
    unsigned launches = 0;
    double seconds = 0;
};

std::map<std::string, KernelTime> &kernel_times()
{
    static auto *const all = new std::map<std::string, KernelTime>; // read at exit
    return *all;
}

double now()
{
    const auto t = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(t).count();
}

void print_times()
{
    for (const auto &k : kernel_times()) {
        fprintf(stderr, "cudasim: %8.3f s %6u launches  %s\n", k.second.seconds, k.second.launches,
                k.first.c_str());
    }
}

void start_once()
{
    static bool done;
    if (done) return;
    done = true;
    m.opt.seed = env_number("CUDASIM_SEED", 0);
    m.opt.lazy = static_cast<int>(env_number("CUDASIM_LAZY", m.opt.seed != 0 ? 2 : 0));
    m.opt.times = env_number("CUDASIM_TIMES", 0) != 0;
    if (m.opt.times) atexit(print_times);
    m.rng = m.opt.seed * 2654435761u + 1;
    m.prioritised = m.opt.seed % 4 != 0;
    fiber_note_main(&m.main);
    report_init();
}

} // namespace

unsigned rnd(unsigned n)
{
    return m.opt.seed != 0 && n > 1 ? xorshift() % n : 0;
}

void wait_here(const char *where, uint32_t addr, uint32_t arg)
{
    Fiber *const f = m.fiber;
    f->state = Fiber::WAITING;
    f->where = where;
    f->wait_addr = addr;
    f->wait_arg = arg;
    leave(false);
}

void wake(Fiber *f)
{
    f->state = Fiber::READY;
    m.idle_yields = 0;
    make_ready(f->home, f->warp, 1u << f->lane);
}

void wake_lanes(Block *b, unsigned warp, uint32_t mask)
{
    if (mask == 0) return;
    for (uint32_t s = mask; s != 0; s &= s - 1) {
        b->fiber[warp * 32 + static_cast<unsigned>(__builtin_ctz(s))].state = Fiber::READY;
    }
    m.idle_yields = 0;
    make_ready(b, warp, mask);
}

void yield()
{
    NOTE_CALLER();
    yield_here();
}

void yield_here()
{
    Fiber *const f = m.fiber;
    ++m.idle_yields;
    make_ready(f->home, f->warp, 1u << f->lane);
    leave(false);
}

LaunchError launch(const Launch &l)
{
    start_once();
    const uint64_t threads = static_cast<uint64_t>(l.block.x) * l.block.y * l.block.z;
    const uint64_t csize = static_cast<uint64_t>(l.cluster.x) * l.cluster.y * l.cluster.z;
    if (threads == 0 || threads > 1024 || l.block.z > 64 || l.grid.x == 0 || l.grid.y == 0 ||
        l.grid.z == 0 || l.grid.y > 65535 || l.grid.z > 65535 || l.grid.x > 0x7fffffffu) {
        return LaunchError::CONFIG;
    }
    if (csize == 0 || csize > MAX_CLUSTER || l.grid.x % l.cluster.x != 0 ||
        l.grid.y % l.cluster.y != 0 || l.grid.z % l.cluster.z != 0) {
        return LaunchError::CONFIG;
    }
    if (l.static_smem > SMEM_STATIC_MAX || l.dyn_smem + l.static_smem > SMEM_MAX) {
        return LaunchError::SMEM;
    }
    m.launch = l;
    m.next_cluster = 0;
    m.clusters = static_cast<uint64_t>(l.grid.x) * l.grid.y * l.grid.z / csize;
    m.in_kernel = true;
    ++m.stats.launches;
    if (race_on) race_launch_begin();
    const double start = m.opt.times ? now() : 0;
    run_grid();
    if (m.opt.times) {
        KernelTime &k = kernel_times()[l.name];
        ++k.launches;
        k.seconds += now() - start;
    }
    m.in_kernel = false;
    m.fiber = nullptr;
    cur = nullptr;
    if (race_on) race_launch_end();
    return LaunchError::NONE;
}

Stats stats()
{
    return m.stats;
}

bool race_mode()
{
    return race_on;
}

} // namespace cudasim
