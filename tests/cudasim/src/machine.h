// machine.h -- the state of the simulated GPU; for the files of this folder only.
//
//   Machine ---- resident clusters, at most a few at a time
//     Cluster -- the blocks that run together and can reach each other's shared memory
//       Block -- one shared window, named barriers, mbarriers, pending asynchronous copies
//         Fiber  one CUDA thread
//
// One OS thread runs everything. A fiber runs until it waits (wait_here), yields or ends; then
// the scheduler picks the next one, in order, or at random when CUDASIM_SEED is set.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>
#include "tests/cudasim/src/device.h"
#include "tests/cudasim/src/fiber.h"
#include "tests/cudasim/src/host.h"
#include "tests/cudasim/src/race.h"

namespace cudasim
{

enum : size_t { WINDOW = 256 * 1024 };
enum { MAX_WARPS = 32, MAX_CLUSTER = 16 };

struct Block;
struct Cluster;

// One copy that an engine does on its own: what it reads, where it writes, whom it tells.
struct Copy {
    enum Kind { CP_ASYNC, CP_ARRIVE, TMA_LOAD, TMA_STORE, BULK_LOAD, BULK_STORE, BULK_CLUSTER };
    Kind kind = CP_ASYNC;
    Block *block = nullptr; // whose shared memory `smem` is in
    Block *bar_block = nullptr;
    uint32_t smem = 0, bar = 0;
    const void *map = nullptr;
    int c[5] = {}, rank = 0;
    char *global = nullptr;
    uint32_t bytes = 0, src_bytes = 0;
    Reduce op = Reduce::NONE;
    Ty type = Ty::B32;
    bool last_resort = false; // only when nothing else can run
    bool was_read = false;    // a store whose source has been read into `data`
    bool waited = false;      // a store whose reading the thread has waited for
    bool done = false;
    std::vector<char> data;
    std::vector<Copy> batch; // CP_ARRIVE: the copies that must be done before
    RaceTag tag, read_tag;   // of a store: its write and its reading
    const void *pc = nullptr;
    Fiber *owner = nullptr;
};
using CopyGroup = std::vector<Copy>;

struct Fiber : Ctx {
    enum State { READY, WAITING, DONE };
    Stack stack;
    State state = DONE;
    Block *home = nullptr;
    const char *where = ""; // what it waits for ...
    uint32_t wait_addr = 0; // ... at which address (0: none) and with which parity or id
    uint32_t wait_arg = 0;
    const void *pc = nullptr; // return address of the last call into the simulator
    int maxnreg = 0;
    unsigned cluster_phase = 0;
    unsigned spins = 0;
    const void *gather_pc = nullptr; // activemask: the instruction it stands at ...
    uint32_t gathered = 0;           // ... and the answer
    RaceThread race;
    CopyGroup cp_open;
    std::deque<CopyGroup> cp_groups;
    CopyGroup bulk_open;
    std::deque<CopyGroup> bulk_groups;
};

// Lanes that have reached one warp (or warpgroup) instruction and wait for the others.
struct Meeting {
    uint32_t mask = 0, arrived = 0;
    int have = 0; // 0: not in use
    const char *what = "";
    void *args[32]; // of the lanes that have arrived
};
enum { MEETINGS = 8 }; // groups of lanes of one warp that wait at a time

struct NamedBarrier {
    unsigned need = 0, have = 0;
    bool all = false; // the whole block: threads that have ended do not count
    bool pred_or = false, pred_and = true;
    unsigned pred_count = 0;
    uint32_t waiting[MAX_WARPS] = {};
    std::vector<unsigned> members; // who arrived, for the race checker
    struct {
        unsigned popc;
        bool any, all;
    } result = {};
};

struct MBar {
    uint32_t phase = 0, pending = 0, expected = 0;
    int64_t tx = 0;
    std::vector<unsigned> waiters; // threads of the block
};

struct WgGroup;

struct Block {
    Cluster *cluster = nullptr;
    unsigned rank = 0; // in the cluster
    Dim3 bid = {};
    unsigned threads = 0, warps = 0, alive = 0;
    std::vector<Fiber> fiber;
    char *window = nullptr;
    uint32_t smem_end = 0;          // first address past the allocation
    uint32_t ready[MAX_WARPS] = {}; // lanes that can run
    uint32_t ready_warps = 0;
    unsigned cursor = 0; // the fiber that ran last
    unsigned prio[MAX_WARPS] = {};
    std::vector<Meeting> meeting; // MEETINGS a warp
    NamedBarrier bar[16];
    std::unordered_map<uint32_t, MBar> mbar;
    std::deque<Copy> pending; // loads that have been issued and not done
    std::shared_ptr<WgGroup> wg[MAX_WARPS / 4];
};

struct Cluster {
    uint64_t number = 0; // position in the grid
    unsigned size = 0;
    std::vector<std::unique_ptr<Block>> block;
    unsigned arrived = 0, phase = 0, expected = 0;
    std::vector<Fiber *> waiters;
    unsigned alive = 0; // threads
    unsigned slot = 0;  // which windows and stacks it uses
};

struct Options {
    unsigned seed = 0;  // 0: fixed order
    int lazy = 0;       // 1: asynchronous work as late as legal; 2: at random
    bool times = false; // print the time of each kernel at the end
};

struct Machine {
    Options opt;
    Launch launch = {};
    std::vector<std::unique_ptr<Cluster>> resident;
    Block *block = nullptr; // of the running fiber
    Fiber *fiber = nullptr;
    Stack main; // of the scheduler's loop
    uint64_t next_cluster = 0, clusters = 0;
    Stats stats = {};
    unsigned rng = 0;
    const void *copy_pc = nullptr; // issuer's line of the pending copy that runs
    unsigned turn = 0;             // which block starts; moves on when threads only spin
    unsigned idle_yields = 0;      // yields since something else happened
    bool in_kernel = false;
    bool prioritised = false; // random schedules: by warp priorities or uniform
};
extern Machine m;

// Notes the caller's line for reports.
#define NOTE_CALLER() (cur_fiber()->pc = __builtin_return_address(0))
inline Fiber *cur_fiber()
{
    return m.fiber;
}

// ---- scheduler.cpp ----
void wait_here(const char *where, uint32_t addr, uint32_t arg); // until wake()
void yield_here();
void wake(Fiber *f);
void wake_lanes(Block *b, unsigned warp, uint32_t mask);
unsigned rnd(unsigned n);      // 0..n-1; always 0 in fixed order
inline bool chance(unsigned n) // one in n, never in fixed order
{
    return m.opt.seed != 0 && rnd(n) == 0;
}
// Shall asynchronous work issued now be done later?
inline bool later()
{
    return m.opt.lazy == 1 || (m.opt.lazy == 2 && chance(2));
}

// ---- meeting.cpp: warp instructions; the last lane to come computes for all ----
using Combine = void (*)(void **args, uint32_t mask, void *user);
void meet(uint32_t mask, const char *what, void *arg, Combine fn, void *user = nullptr);

// ---- barrier.cpp ----
void barrier_thread_ends(Block *b);

// ---- memory.cpp ----
char *memory_window(); // a new shared window
bool is_shared_window(const void *p);
void memory_poison(char *window, uint32_t end); // a block starts: NaN in what it may use
void *smem_in(Block *b, uint32_t addr, size_t bytes, const char *what);
Block *block_of(uint32_t addr); // the block that a cluster address names
inline uint32_t local_addr(uint32_t addr)
{
    return addr & 0xffffff;
}

// ---- mbarrier.cpp ----
void mbar_complete(Block *b, uint32_t bar, uint32_t bytes, const RaceTag &tag);
void mbar_arrive_by_copy(Block *b, uint32_t bar, Fiber *f);
void mbar_check(Block *b, uint32_t bar, const char *what); // is one there?
void mbar_pending_inc(Block *b, uint32_t bar);

// ---- async_copy.cpp, tma.cpp ----
void async_load_issue(Copy k);
void async_store_issue(Copy k);
void bulk_store_any(void *dst, uint32_t src, uint32_t bytes, Reduce op, Ty type);
void store_read(Copy &k);
void copy_done_by_exit(Fiber *f);          // checks what a thread leaves behind
void copy_run_pending(Block *b, size_t i); // does one pending load
bool copy_pending_may_run(const Copy &c, bool nothing_else);
void tma_run(Copy &c); // load or store of one box
void tma_read_source(Copy &c);
uint32_t tma_bytes(const void *map);

// ---- report.cpp ----
[[noreturn]] void report_deadlock(const char *what);
void report_init();
std::string where_in_source(const void *pc); // "file.cu:12", or "" when unknown

} // namespace cudasim
