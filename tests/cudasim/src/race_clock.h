// race_clock.h -- vector clocks: what a thread knows to have happened before it.
//
// Every CUDA thread of a cluster, and every asynchronous agent of it (the copies that tell one
// mbarrier, the wgmmas of one warpgroup, the stores of one thread), has a component. `seen[i]` is
// the last step of component i that happened before; an access is stamped with the step it was
// made in, seen[self] + 1. What is known of other clusters hangs below, by cluster number.
//
// Beside `seen` run two more vectors, for the accesses that a fence.proxy.async lies behind:
// only those are visible to TMA and wgmma. They grow at a fence and travel with the clock, so a
// fence counts wherever on the path it was made.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace cudasim
{

using Steps = std::vector<uint32_t>;

struct Known {
    Steps seen;
    Steps fenced_shared, fenced_global;
};

struct Clock {
    uint64_t cluster = 0;
    Known own;
    std::map<uint64_t, std::shared_ptr<const Known>> others;
};

inline uint32_t step(const Steps &s, size_t i)
{
    return i < s.size() ? s[i] : 0;
}

inline void raise(Steps *s, size_t i, uint32_t to)
{
    if (i >= s->size()) s->resize(i + 1, 0);
    if ((*s)[i] < to) (*s)[i] = to;
}

void join(Known *a, const Known &b);
void join(Clock *a, const Clock &b);
// Everything known is now behind a proxy fence.
void proxy_fence(Clock *c, bool global);
// What `c` knows of a cluster; nullptr: nothing.
const Known *known_of(const Clock &c, uint64_t cluster);

} // namespace cudasim
