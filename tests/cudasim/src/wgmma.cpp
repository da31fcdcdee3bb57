// wgmma.cpp -- the matrix instructions of a warpgroup, asynchronous as on the hardware.
//
// Each of the 128 threads issues an instruction and goes on; none waits for the others. The
// instruction stands in the group's queue until all have issued it and one of them waits for it
// (with random schedules also earlier), and then reads its operands from shared memory. So an
// operand that is overwritten too early, or an accumulator that is read too early, shows.
//
// Accumulators live here, not in the threads' registers: those hold tags (device.h), which a
// thread exchanges for values when it reads them after its wait. A chain of instructions on one
// accumulator therefore moves no data. A thread that has changed its registers in between brings
// values again. (What this cannot follow is a copy of an accumulator's registers that is read
// after the chain has gone on: the copy shows the new values.)
//
// Operand layouts are the canonical ones of the PTX ISA for no, 32-, 64- and 128-byte swizzle.
//
// SPDX-License-Identifier: MIT
#include "tests/cudasim/src/wgmma.h"
#include <cstring>
#include "tests/cudasim/src/matmul.h"
#include "tests/cudasim/src/numbers.h"
#include "tests/cudasim/src/tensor_map.h"

namespace cudasim
{

namespace
{

enum { MAX_SLOTS = 32000, MAX_N = 256, MAX_K = 32 };

int registers(const Wgmma &op)
{
    return op.f16_acc ? op.n / 4 : op.n / 2;
}

// ---- tags ----

uint32_t tag_of(uint32_t slot, int i)
{
    return 0xff800000u | (slot + 1) << 7 | static_cast<uint32_t>(i);
}

uint32_t slot_of(uint32_t tag)
{
    return ((tag & 0x3fffff) >> 7) - 1;
}

int place_of(uint32_t tag)
{
    return static_cast<int>(tag & 127);
}

// ---- the group of the running thread ----

WgGroup &group(unsigned *thread)
{
    Block *const b = m.block;
    const unsigned g = m.fiber->warp / 4;
    if ((g + 1) * GROUP_THREADS > b->threads)
        die("wgmma: warp %u is not in a full warpgroup", m.fiber->warp);
    if (b->wg[g] == nullptr) {
        b->wg[g] = std::make_shared<WgGroup>();
        b->wg[g]->first_thread = g * GROUP_THREADS;
    }
    *thread = m.fiber->lin - b->wg[g]->first_thread;
    return *b->wg[g];
}

// Where register i of thread t lies in the 64 x n accumulator; halves come in pairs.
float *place(Accumulator &a, unsigned t, int i)
{
    const unsigned row = t / 32 * 16 + t % 32 / 4 + static_cast<unsigned>(i / 2 % 2 * 8);
    const int column = i / 4 * 8 + static_cast<int>(t % 4) * 2 + i % 2;
    return &a.c[row * static_cast<unsigned>(a.ld) + static_cast<unsigned>(column)];
}

uint32_t read_register(Accumulator &a, unsigned t, int i)
{
    if (!a.f16) return bits_of_float(*place(a, t, i));
    return f16_of_float(*place(a, t, 2 * i)) |
           static_cast<uint32_t>(f16_of_float(*place(a, t, 2 * i + 1))) << 16;
}

void write_register(Accumulator &a, unsigned t, int i, uint32_t v)
{
    if (!a.f16) {
        *place(a, t, i) = float_of_bits(v);
        return;
    }
    *place(a, t, 2 * i) = float_of_f16(static_cast<uint16_t>(v));
    *place(a, t, 2 * i + 1) = float_of_f16(static_cast<uint16_t>(v >> 16));
}

uint32_t new_accumulator(WgGroup &g, const Wgmma &op)
{
    const auto slot = static_cast<uint32_t>(g.acc.size());
    if (slot >= MAX_SLOTS) die("wgmma: more than %d accumulators in one block", MAX_SLOTS);
    g.acc.push_back(std::make_unique<Accumulator>());
    Accumulator &a = *g.acc.back();
    a.n = op.n;
    a.ld = (op.n + 15) / 16 * 16;
    a.f16 = op.f16_acc;
    a.c.resize(static_cast<size_t>(64 * a.ld));
    return slot;
}

// ---- operands in shared memory ----

struct Desc {
    uint32_t start, leading, stride, base;
    int mode;      // as in tensor_map.h: 0 none, 1 32 bytes, 2 64, 3 128
    uint32_t line; // bytes of a row of the pattern
};

Desc decode_desc(uint64_t d)
{
    static const int modes[] = {0, 3, 2, 1};
    Desc r;
    r.start = static_cast<uint32_t>(d & 0x3fff) << 4;
    r.leading = static_cast<uint32_t>(d >> 16 & 0x3fff) << 4;
    r.stride = static_cast<uint32_t>(d >> 32 & 0x3fff) << 4;
    r.base = static_cast<uint32_t>(d >> 49 & 7);
    r.mode = modes[d >> 62];
    r.line = 16u << r.mode;
    return r;
}

// The address of the 16-byte chunk at offset `off` of the pattern. base_offset is the row phase
// of a pattern that does not start at a multiple of its size.
uint32_t chunk_addr(const Desc &d, uint32_t off)
{
    const uint32_t a = (d.start + off) & 0x3ffff;
    if (d.base == 0) return swizzle_addr(a, d.mode);
    const uint32_t bits = (1u << d.mode) - 1;
    return a ^ (((a >> 7) - d.base) & bits) << 4;
}

// Reads an operand of `rows` x k as out[k][row] (`by_k`) or out[row][k].
void fetch(float *out, int ld, bool by_k, uint64_t desc, int rows, int k, Num type, bool mn_major,
           const WgOp &w, const char *what)
{
    const Desc d = decode_desc(desc);
    const int size = num_bytes(type), per = 16 / size;
    const uint32_t line = d.line;
    const int chunks = mn_major ? rows / per : 2; // chunks along the contiguous dimension
    const int lines = mn_major ? k : rows;
    const int in_line = static_cast<int>(line / 16);
    for (int r = 0; r < lines; ++r) {
        for (int ch = 0; ch < chunks; ++ch) {
            const auto r8 = static_cast<uint32_t>(r / 8), r1 = static_cast<uint32_t>(r % 8);
            const auto c = static_cast<uint32_t>(ch);
            uint32_t off;
            if (d.mode == 0) {
                // 8 x 16-byte blocks; `leading` and `stride` swap their roles with the major-ness
                off = mn_major ? c * d.stride + r8 * d.leading + r1 * 16
                               : c * d.leading + r8 * d.stride + r1 * 16;
            } else if (mn_major) {
                const auto n = static_cast<uint32_t>(in_line);
                off = c % n * 16 + c / n * d.leading + r8 * d.stride + r1 * line;
            } else {
                off = c * 16 + r8 * d.stride + r1 * line;
            }
            const uint32_t a = chunk_addr(d, off);
            const void *const p = smem_in(m.block, a, 16, what);
            if (race_on) race_async_access(w.tag, p, 16, false);
            // The chunk runs along k (K-major) or along the rows (MN-major).
            float *const o = mn_major ? (by_k ? out + r * ld + ch * per : out + ch * per * ld + r)
                                      : (by_k ? out + ch * per * ld + r : out + r * ld + ch * per);
            decode(o, mn_major == by_k ? 1 : ld, p, per, type);
        }
    }
}

// A from registers: each thread has four, in the layout of mma.sync.
void gather_a(float *out, int k, const WgOp &w)
{
    const int per = 4 / num_bytes(w.op.ta);
    for (int t = 0; t < GROUP_THREADS; ++t) {
        for (int q = 0; q < 4; ++q) {
            const int row = t / 32 * 16 + t % 32 / 4 + q % 2 * 8;
            const int column = t % 4 * per + q / 2 * 4 * per;
            decode(out + row * k + column, 1, &w.a[static_cast<size_t>(t * 4 + q)], per, w.op.ta);
        }
    }
}

void negate(float *p, int n)
{
    for (int i = 0; i < n; ++i) p[i] = -p[i];
}

void execute(WgGroup &g, WgOp &w)
{
    alignas(64) static float a[64 * MAX_K];
    alignas(64) static float b[MAX_K * MAX_N];
    const Wgmma &op = w.op;
    const int k = 32 / num_bytes(op.ta);
    Accumulator &acc = *g.acc[w.acc];
    if (race_on) w.tag = race_async_begin_met(m.block, w.warp_clock, 4, &g, w.pc);
    if (w.a.empty())
        fetch(a, k, false, op.desc_a, 64, k, op.ta, op.trans_a, w, "wgmma A");
    else
        gather_a(a, k, w);
    fetch(b, acc.ld, true, op.desc_b, op.n, k, op.tb, op.trans_b, w, "wgmma B");
    if (op.neg_a) negate(a, 64 * k);
    if (op.neg_b) negate(b, acc.ld * k);
    multiply(acc.c.data(), acc.ld, a, k, b, acc.ld, 64, op.n, k, !op.scale_d);
    if (acc.f16) {
        for (float &x : acc.c) x = float_of_f16(f16_of_float(x));
    }
    m.stats.mma_flops += static_cast<uint64_t>(2 * 64 * op.n * k);
}

// Runs instructions up to number `target`, as far as all threads have issued them, and wakes who
// waited for that.
void run_until(WgGroup &g, uint64_t target)
{
    const uint64_t before = g.done;
    while (g.done < target && !g.queue.empty() && g.queue.front().have == GROUP_THREADS) {
        const void *const pc = m.fiber->pc;
        m.fiber->pc = g.queue.front().pc;
        execute(g, g.queue.front());
        m.fiber->pc = pc;
        if (race_on) g.tags.push_back(g.queue.front().tag);
        g.queue.pop_front();
        ++g.done;
    }
    if (g.done == before) return;
    for (unsigned t = 0; t < GROUP_THREADS; ++t) {
        if (g.blocked_on[t] != 0 && g.blocked_on[t] <= g.done) {
            g.blocked_on[t] = 0;
            wake(&m.block->fiber[g.first_thread + t]);
        }
    }
}

bool same(const Wgmma &x, const Wgmma &y)
{
    return x.n == y.n && x.ta == y.ta && x.tb == y.tb && x.f16_acc == y.f16_acc &&
           x.scale_d == y.scale_d && x.neg_a == y.neg_a && x.neg_b == y.neg_b &&
           x.trans_a == y.trans_a && x.trans_b == y.trans_b && x.desc_a == y.desc_a &&
           x.desc_b == y.desc_b && (x.a == nullptr) == (y.a == nullptr);
}

void check(const Wgmma &op)
{
    if (op.n % 8 != 0 || op.n < 8 || op.n > MAX_N) die("wgmma: n = %d", op.n);
    if (num_bytes(op.ta) != 2 && (op.trans_a || op.trans_b)) {
        die("wgmma: operands of this type must be K-major");
    }
}

// The queue's entry of the running thread's next instruction; nullptr: it is the first to come.
WgOp *next_entry(WgGroup &g, unsigned t)
{
    const uint64_t i = g.issued[t] - g.done;
    return i < g.queue.size() ? &g.queue[i] : nullptr;
}

void issue(WgGroup &g, unsigned t, const Wgmma &op, uint32_t slot)
{
    WgOp *w = next_entry(g, t);
    if (w == nullptr) {
        g.queue.emplace_back();
        w = &g.queue.back();
        w->op = op;
        w->acc = slot;
        w->pc = m.fiber->pc;
        if (op.a != nullptr) w->a.resize(GROUP_THREADS * 4);
    } else if (!same(w->op, op)) {
        die("wgmma: threads of a warpgroup issue different instructions (descriptors, scale-d or "
            "shape differ)");
    }
    if (op.a != nullptr) memcpy(&w->a[t * 4], op.a, 16);
    if (race_on) race_gather(m.fiber, &w->warp_clock[t / 32]);
    ++w->have;
    ++g.issued[t];
    g.acc[slot]->last[t] = g.issued[t];
    if (w->have < GROUP_THREADS) return;
    uint64_t wanted = 0;
    for (unsigned i = 0; i < GROUP_THREADS; ++i) wanted = std::max(wanted, g.blocked_on[i]);
    if (m.opt.seed != 0 && !later()) wanted = g.issued[t];
    run_until(g, wanted);
}

bool in_flight(uint32_t tag)
{
    unsigned t = 0;
    WgGroup &g = group(&t);
    return slot_of(tag) < g.acc.size() && g.acc[slot_of(tag)]->last[t] > g.waited[t];
}

} // namespace

bool wgmma_chained(const Wgmma &op, uint32_t first, uint32_t last)
{
    NOTE_CALLER();
    if (!op.scale_d || !wgmma_is_tag(first) || !wgmma_is_tag(last)) return false;
    const uint32_t slot = slot_of(first);
    if (slot_of(last) != slot || place_of(first) != 0 || place_of(last) != registers(op) - 1) {
        return false;
    }
    unsigned t = 0;
    WgGroup &g = group(&t);
    if (slot >= g.acc.size() || g.acc[slot]->n != op.n || g.acc[slot]->f16 != op.f16_acc) {
        return false;
    }
    const WgOp *const w = next_entry(g, t);
    if (w != nullptr && w->acc != slot) return false; // others brought new values
    if (op.a != nullptr && !g.fenced[t]) die("wgmma: A in registers and no wgmma.fence before it");
    check(op);
    issue(g, t, op, slot);
    return true;
}

void wgmma(uint32_t *d, const Wgmma &op)
{
    NOTE_CALLER();
    check(op);
    unsigned t = 0;
    WgGroup &g = group(&t);
    if (!g.fenced[t]) die("wgmma: no wgmma.fence since the registers may have been written");
    const WgOp *const w = next_entry(g, t);
    const uint32_t slot = w != nullptr ? w->acc : new_accumulator(g, op);
    Accumulator &a = *g.acc[slot];
    const int n = registers(op);
    if (a.n != op.n || a.f16 != op.f16_acc) die("wgmma: threads of a warpgroup disagree on n");
    if (op.scale_d) {
        if (a.last[t] > g.done)
            die("wgmma: accumulator registers were written while a wgmma on "
                "them is in flight");
        for (int i = 0; i < n; ++i) {
            if (wgmma_is_tag(d[i]) && in_flight(d[i])) {
                die("wgmma: register %d of d belongs to an accumulator that is in flight, and not "
                    "all of d does",
                    i);
            }
            write_register(a, t, i, wgmma_result(d[i]));
        }
    }
    for (int i = 0; i < n; ++i) d[i] = tag_of(slot, i);
    issue(g, t, op, slot);
}

uint32_t wgmma_use_slow(uint32_t v)
{
    const uint32_t r = wgmma_result_slow(v);
    if (r == v && in_flight(v)) {
        NOTE_CALLER();
        die("register %d of an accumulator is used while its wgmma is in flight", place_of(v));
    }
    return r;
}

uint32_t wgmma_result_slow(uint32_t v)
{
    const unsigned first = m.fiber->warp / 4 * GROUP_THREADS;
    if (first + GROUP_THREADS > m.block->threads) return v;
    unsigned t = 0;
    WgGroup &g = group(&t);
    const uint32_t slot = slot_of(v);
    if (slot >= g.acc.size()) return v; // a signalling NaN of the kernel's own
    Accumulator &a = *g.acc[slot];
    return a.last[t] > g.waited[t] ? v : read_register(a, t, place_of(v));
}

void wgmma_fence()
{
    NOTE_CALLER();
    unsigned t = 0;
    group(&t).fenced[t] = true;
}

void wgmma_commit()
{
    NOTE_CALLER();
    unsigned t = 0;
    WgGroup &g = group(&t);
    g.commits[t].push_back(g.issued[t]);
}

void wgmma_wait(int groups)
{
    NOTE_CALLER();
    unsigned t = 0;
    WgGroup &g = group(&t);
    uint64_t target = g.waited[t];
    while (g.commits[t].size() > static_cast<size_t>(groups)) {
        target = g.commits[t].front();
        g.commits[t].pop_front();
    }
    run_until(g, target);
    if (g.done < target) {
        g.blocked_on[t] = target;
        wait_here("wgmma.wait_group (other warps have not issued)", 0,
                  static_cast<uint32_t>(groups));
    }
    if (race_on) {
        for (uint64_t i = g.waited[t]; i < target; ++i) race_async_join(m.fiber, g.tags[i]);
    }
    g.waited[t] = target;
    g.fenced[t] = false;
}

// setmaxnreg only has to be legal: a multiple of 8 between 24 and 256.
void setmaxnreg(bool inc, int n)
{
    NOTE_CALLER();
    if (n % 8 != 0 || n < 24 || n > 256) die("setmaxnreg %d", n);
    Fiber *const f = m.fiber;
    if (f->maxnreg != 0 && inc == (n < f->maxnreg)) {
        die("setmaxnreg.%s to %d from %d", inc ? "inc" : "dec", n, f->maxnreg);
    }
    f->maxnreg = n;
}

void wgmma_block_end(Block *b)
{
    for (const auto &g : b->wg) {
        if (g == nullptr) continue;
        for (unsigned t = 0; t < GROUP_THREADS; ++t) {
            if (g->waited[t] == g->issued[t]) continue;
            die("block (%u,%u,%u) ends with a wgmma that thread %u has not waited for", b->bid.x,
                b->bid.y, b->bid.z, g->first_thread + t);
        }
    }
}

} // namespace cudasim
