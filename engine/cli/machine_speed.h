// machine_speed.h -- what this machine allows: the yardsticks of `lathe bench`, measured.
//
// Arithmetic: register loops of each instruction set (cpu_peak). Memory: an array of twice the
// last level cache, all threads together: read, changed in place, or x = y + s z. What only reads
// is held against reading, the rest against the fastest of the three: a change in place moves
// twice the bytes of a read in about the same time where a core waits for its misses. Cache sizes
// are what the kernel tells (Linux: /sys); where it tells nothing, 1 MB a core and 64 MB for all
// are assumed. A virtual machine may be told the whole host's last level cache.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stddef.h>
#include "engine/base/err.h"

enum { MACHINE_ISAS = 8 };

typedef struct MachineSpeed {
    int isas;
    const char *isa[MACHINE_ISAS];
    double flops[MACHINE_ISAS]; // a second, of all threads
    double read, memory;        // bytes a second, of all threads: reading, fastest of the three
    size_t l2;                  // bytes, of all threads
    size_t llc;                 // bytes of the last level cache, which threads share
} MachineSpeed;

LT_C_BEGIN
// `running`: the instruction set in use; amx counts only then (it must have been opened).
void machine_speed_arithmetic(MachineSpeed *m, const char *running, int threads);
void machine_speed_caches(MachineSpeed *m, int threads);
size_t machine_speed_array(const MachineSpeed *m); // bytes that the memory test wants
// `array` of that size with numbers in it, which are changed.
void machine_speed_memory(MachineSpeed *m, float *array, size_t bytes, int threads);
// The arithmetic peak an implementation is held against: its own, else that of `running`.
double machine_speed_peak(const MachineSpeed *m, const char *impl, const char *running);
LT_C_END
