// reduce.h -- arithmetic of atomics and of reducing copies, on bit patterns.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include "tests/cudasim/src/device.h"

namespace cudasim
{

int type_bytes(Ty type);
// What an atomic leaves in memory: old OP v (CAS: v when old == cmp).
uint64_t atomic_result(Atom op, Ty type, uint64_t old, uint64_t v, uint64_t cmp);
// p[i] = p[i] OP src[i] over n bytes of elements of `type`.
void reduce_bytes(char *p, const char *src, size_t n, Reduce op, Ty type);

} // namespace cudasim
