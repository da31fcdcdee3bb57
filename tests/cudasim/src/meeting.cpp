// meeting.cpp -- instructions that the lanes of a warp execute together.
//
// The lanes come one after another; each leaves its argument and waits, and the last one
// computes for all of them and wakes the others. What that finds on the way: lanes that are at
// different instructions, a lane that is not in the mask it gives, masks that overlap.
//
// SPDX-License-Identifier: MIT
#include <cstring>
#include "tests/cudasim/src/machine.h"

namespace cudasim
{

namespace
{

// The lanes that exist: the last warp of a block may be short.
uint32_t lanes_of(const Block *b, unsigned warp)
{
    const unsigned n = b->threads - warp * 32;
    return n >= 32 ? ~0u : (1u << n) - 1;
}

// A lane that waits in one group of lanes for lane `mine`, which now waits for it in another, will
// wait for ever.
Meeting *meeting_for(Block *b, unsigned warp, uint32_t mask, uint32_t mine, const char *what)
{
    Meeting *unused = nullptr;
    for (int i = 0; i < MEETINGS; ++i) {
        Meeting &x = b->meeting[warp * MEETINGS + static_cast<unsigned>(i)];
        if (x.have == 0) {
            unused = &x;
        } else if (x.mask == mask) {
            if (x.what != what && strcmp(x.what, what) != 0) {
                die("warp %u has diverged: some lanes are at %s, others at %s", warp, x.what, what);
            }
            return &x;
        } else if ((x.arrived & mask) != 0 && (x.mask & mine) != 0) {
            die("%s with mask %08x while lanes wait at %s with mask %08x", what, mask, x.what,
                x.mask);
        }
    }
    if (unused == nullptr)
        die("%s: more than %d groups of lanes wait in warp %u", what, MEETINGS, warp);
    unused->mask = mask;
    unused->what = what;
    unused->arrived = 0;
    return unused;
}

} // namespace

void meet(uint32_t mask, const char *what, void *arg, Combine fn, void *user)
{
    Fiber *const f = m.fiber;
    Block *const b = m.block;
    if ((mask >> f->lane & 1) == 0) {
        die("%s: lane %u executes with mask %08x, which does not name it", what, f->lane, mask);
    }
    mask &= lanes_of(b, f->warp);
    Meeting *const x = meeting_for(b, f->warp, mask, 1u << f->lane, what);
    x->args[f->lane] = arg;
    x->arrived |= 1u << f->lane;
    if (++x->have < __builtin_popcount(mask)) {
        wait_here(what, 0, mask);
        return;
    }
    x->have = 0;
    if (race_on) race_meet(b, f->warp, mask);
    fn(x->args, mask, user);
    wake_lanes(b, f->warp, mask & ~(1u << f->lane));
}

void syncwarp(uint32_t mask)
{
    NOTE_CALLER();
    meet(mask, "__syncwarp", nullptr, [](void **, uint32_t, void *) {});
}

// ---- shuffles ----

namespace
{

struct ShflArg {
    uint32_t v, out;
    unsigned source;
};

void shfl_all(void **args, uint32_t mask, void *)
{
    for (uint32_t s = mask; s != 0; s &= s - 1) {
        auto *const a = static_cast<ShflArg *>(args[__builtin_ctz(s)]);
        if ((mask >> a->source & 1) == 0) {
            die("shfl.sync: lane %d reads lane %u, which is not in mask %08x", __builtin_ctz(s),
                a->source, mask);
        }
        a->out = static_cast<ShflArg *>(args[a->source])->v;
    }
}

} // namespace

// The source lane by the pseudo-code of the PTX ISA: `c` packs a clamp value (bits 0..4) and a
// mask that splits the warp into segments (bits 8..12).
uint32_t shfl(Shfl mode, uint32_t v, uint32_t b, uint32_t c, uint32_t mask, bool *in_range)
{
    NOTE_CALLER();
    const int lane = static_cast<int>(m.fiber->lane), clamp = c & 31, segment = c >> 8 & 31;
    const int max_lane = (lane & segment) | (clamp & ~segment), min_lane = lane & segment;
    const int by = b & 31;
    int j = 0;
    bool ok = false;
    switch (mode) {
    case Shfl::IDX:
        j = min_lane | (by & ~segment);
        ok = j <= max_lane;
        break;
    case Shfl::UP:
        j = lane - by;
        ok = j >= max_lane;
        break;
    case Shfl::DOWN:
        j = lane + by;
        ok = j <= max_lane;
        break;
    case Shfl::BFLY:
        j = lane ^ by;
        ok = j <= max_lane;
        break;
    }
    if (!ok) j = lane;
    if (in_range != nullptr) *in_range = ok;
    ShflArg a = {v, 0, static_cast<unsigned>(j)};
    meet(mask, "shfl.sync", &a, shfl_all);
    return a.out;
}

// ---- votes, reductions, matches ----

namespace
{

struct VoteArg {
    bool p;
    uint32_t out;
};

struct MatchArg {
    uint64_t v;
    uint32_t out;
    bool all;
};

struct ReduxArg {
    Redux op;
    bool is_signed;
    uint32_t v, out;
};

uint32_t redux_two(const ReduxArg &a, uint32_t x, uint32_t y)
{
    const bool less = a.is_signed ? static_cast<int32_t>(x) < static_cast<int32_t>(y) : x < y;
    switch (a.op) {
    case Redux::ADD: return x + y;
    case Redux::MIN: return less ? x : y;
    case Redux::MAX: return less ? y : x;
    case Redux::AND: return x & y;
    case Redux::OR: return x | y;
    case Redux::XOR: return x ^ y;
    }
    return 0;
}

void vote_all(void **args, uint32_t mask, void *)
{
    uint32_t out = 0;
    for (uint32_t s = mask; s != 0; s &= s - 1) {
        const int l = __builtin_ctz(s);
        if (static_cast<VoteArg *>(args[l])->p) out |= 1u << l;
    }
    for (uint32_t s = mask; s != 0; s &= s - 1) {
        static_cast<VoteArg *>(args[__builtin_ctz(s)])->out = out;
    }
}

void redux_all(void **args, uint32_t mask, void *)
{
    const auto &first = *static_cast<ReduxArg *>(args[__builtin_ctz(mask)]);
    uint32_t acc = first.v;
    for (uint32_t s = mask & (mask - 1); s != 0; s &= s - 1) {
        acc = redux_two(first, acc, static_cast<ReduxArg *>(args[__builtin_ctz(s)])->v);
    }
    for (uint32_t s = mask; s != 0; s &= s - 1) {
        static_cast<ReduxArg *>(args[__builtin_ctz(s)])->out = acc;
    }
}

void match_all_lanes(void **args, uint32_t mask, void *)
{
    for (uint32_t s = mask; s != 0; s &= s - 1) {
        auto *const a = static_cast<MatchArg *>(args[__builtin_ctz(s)]);
        a->out = 0;
        for (uint32_t t = mask; t != 0; t &= t - 1) {
            const int l = __builtin_ctz(t);
            if (static_cast<MatchArg *>(args[l])->v == a->v) a->out |= 1u << l;
        }
        a->all = a->out == mask;
    }
}

void elect_one(void **args, uint32_t mask, void *)
{
    unsigned k = rnd(static_cast<unsigned>(__builtin_popcount(mask))); // any lane is legal
    uint32_t s = mask;
    for (; k != 0; --k) s &= s - 1;
    const auto leader = static_cast<uint32_t>(__builtin_ctz(s));
    for (s = mask; s != 0; s &= s - 1) *static_cast<uint32_t *>(args[__builtin_ctz(s)]) = leader;
}

} // namespace

uint32_t ballot(uint32_t mask, bool p)
{
    NOTE_CALLER();
    VoteArg a = {p, 0};
    meet(mask, "vote.sync", &a, vote_all);
    return a.out;
}

uint32_t match_any(uint32_t mask, uint64_t v)
{
    NOTE_CALLER();
    MatchArg a = {v, 0, false};
    meet(mask, "match.any.sync", &a, match_all_lanes);
    return a.out;
}

uint32_t match_all(uint32_t mask, uint64_t v, bool *p)
{
    NOTE_CALLER();
    MatchArg a = {v, 0, false};
    meet(mask, "match.all.sync", &a, match_all_lanes);
    if (p != nullptr) *p = a.all;
    return a.all ? a.out : 0;
}

uint32_t redux(uint32_t mask, Redux op, bool is_signed, uint32_t v)
{
    NOTE_CALLER();
    ReduxArg a = {op, is_signed, v, 0};
    meet(mask, "redux.sync", &a, redux_all);
    return a.out;
}

uint32_t elect(uint32_t mask, bool *leader)
{
    NOTE_CALLER();
    uint32_t lane = 0;
    meet(mask, "elect.sync", &lane, elect_one);
    *leader = lane == m.fiber->lane;
    return lane;
}

// The lanes that are at this instruction together. A lane waits a while for those of its warp
// that can still run; the first to give up answers for all that have come. (Any set that contains
// the lane is legal; a converged one is what kernels hope for.)
uint32_t activemask()
{
    NOTE_CALLER();
    enum { ROUNDS = 64 };
    Fiber *const f = m.fiber;
    Fiber *const warp = &m.block->fiber[f->warp * 32];
    const unsigned lanes = static_cast<unsigned>(__builtin_popcount(lanes_of(m.block, f->warp)));
    f->gather_pc = f->pc;
    f->gathered = 0;
    for (int i = 0; i < ROUNDS && f->gathered == 0; ++i) {
        bool others = false;
        for (unsigned l = 0; l < lanes; ++l) {
            others |= warp[l].state == Fiber::READY && warp[l].gather_pc != f->pc;
        }
        if (!others) break;
        yield_here();
    }
    if (f->gathered != 0) return f->gathered;
    uint32_t mask = 0;
    for (unsigned l = 0; l < lanes; ++l) {
        if (warp[l].state == Fiber::READY && warp[l].gather_pc == f->pc) mask |= 1u << l;
    }
    for (unsigned l = 0; l < lanes; ++l) {
        if ((mask >> l & 1) == 0) continue;
        warp[l].gathered = mask;
        warp[l].gather_pc = nullptr;
    }
    return mask;
}

} // namespace cudasim
