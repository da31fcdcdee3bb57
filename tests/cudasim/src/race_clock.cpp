// race_clock.cpp -- joining vector clocks.
//
// SPDX-License-Identifier: MIT
#include "tests/cudasim/src/race_clock.h"

namespace cudasim
{

namespace
{

void join_steps(Steps *a, const Steps &b)
{
    if (a->size() < b.size()) a->resize(b.size(), 0);
    for (size_t i = 0; i < b.size(); ++i) {
        if (b[i] > (*a)[i]) (*a)[i] = b[i];
    }
}

void join_other(Clock *a, uint64_t cluster, const Known &b)
{
    if (cluster == a->cluster) {
        join(&a->own, b);
        return;
    }
    auto &slot = a->others[cluster];
    auto sum = std::make_shared<Known>(slot != nullptr ? *slot : Known());
    join(sum.get(), b);
    slot = std::move(sum);
}

void fence_known(Known *k, bool global)
{
    join_steps(&k->fenced_shared, k->seen);
    if (global) join_steps(&k->fenced_global, k->seen);
}

} // namespace

void join(Known *a, const Known &b)
{
    join_steps(&a->seen, b.seen);
    join_steps(&a->fenced_shared, b.fenced_shared);
    join_steps(&a->fenced_global, b.fenced_global);
}

void join(Clock *a, const Clock &b)
{
    join_other(a, b.cluster, b.own);
    for (const auto &x : b.others) {
        const auto it = a->others.find(x.first);
        if (it != a->others.end() && it->second == x.second) continue;
        if (it == a->others.end() && x.first != a->cluster)
            a->others[x.first] = x.second;
        else
            join_other(a, x.first, *x.second);
    }
}

void proxy_fence(Clock *c, bool global)
{
    fence_known(&c->own, global);
    for (auto &x : c->others) {
        auto k = std::make_shared<Known>(*x.second);
        fence_known(k.get(), global);
        x.second = std::move(k);
    }
}

const Known *known_of(const Clock &c, uint64_t cluster)
{
    if (cluster == c.cluster) return &c.own;
    const auto it = c.others.find(cluster);
    return it == c.others.end() ? nullptr : it->second.get();
}

} // namespace cudasim
