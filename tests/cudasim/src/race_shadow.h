// race_shadow.h -- who last wrote and read each byte, and the check of a new access against it.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include "tests/cudasim/src/race_clock.h"

namespace cudasim
{

enum class Proxy : uint8_t { NONE, GENERIC, ATOMIC, ASYNC };

// One access by component `who` of a cluster, at a step, with the line it came from.
struct Access {
    uint32_t cluster = 0, stamp = 0;
    int32_t pc = 0; // distance from a fixed address of the program
    uint16_t who = 0;
    Proxy proxy = Proxy::NONE;
};

void shadow_launch_begin();
void shadow_add(const void *p, size_t n, bool initialised);
void shadow_remove(const void *p);
void shadow_reset(const void *p, size_t n, bool initialised); // all accesses forgotten
// Checks an access of n bytes at p against what came before, reports, and remembers it.
void shadow_access(const Clock &c, Access a, const void *p, size_t n, bool write);

int32_t pack_pc(const void *pc);
const void *unpack_pc(int32_t pc);
// race.cpp: prints one report; `other` may be nullptr.
void race_report(const char *what, const void *p, const Access &a, const Access *other);

} // namespace cudasim
