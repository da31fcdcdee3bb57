// tsan_hooks.cpp -- what the compiler calls for each load and store of an instrumented kernel.
//
// Kernels of a race build are compiled with -fsanitize=thread, whose hooks have these fixed names;
// the library that usually brings them is not linked. Host code is not instrumented.
//
// SPDX-License-Identifier: MIT
#include "tests/cudasim/src/machine.h"

namespace cudasim
{

namespace
{

inline void hook(const void *p, size_t n, bool write, const void *pc)
{
    Fiber *const f = m.fiber;
    if (f == nullptr) return;
    const auto at = reinterpret_cast<uintptr_t>(p);
    if (at - reinterpret_cast<uintptr_t>(f->stack.low) < f->stack.size) return; // its own stack
    f->pc = pc;
    race_access(f, p, n, write);
}

} // namespace

} // namespace cudasim

#define HOOKS(prefix, n)                                                                           \
    extern "C" void __tsan_##prefix##read##n(void *p)                                              \
    {                                                                                              \
        cudasim::hook(p, n, false, __builtin_return_address(0));                                   \
    }                                                                                              \
    extern "C" void __tsan_##prefix##write##n(void *p)                                             \
    {                                                                                              \
        cudasim::hook(p, n, true, __builtin_return_address(0));                                    \
    }
#define HOOKS_OF_SIZE(n)                                                                           \
    HOOKS(, n)                                                                                     \
    HOOKS(unaligned_, n)                                                                           \
    HOOKS(volatile_, n)
HOOKS_OF_SIZE(1)
HOOKS_OF_SIZE(2)
HOOKS_OF_SIZE(4)
HOOKS_OF_SIZE(8)
HOOKS_OF_SIZE(16)

// Called before main by every instrumented object: the checker is wanted.
extern "C" void __tsan_init()
{
    cudasim::race_on = true;
}

extern "C" void __tsan_func_entry(void *) {}

extern "C" void __tsan_func_exit() {}

extern "C" void __tsan_read_range(void *p, unsigned long n)
{
    cudasim::hook(p, n, false, __builtin_return_address(0));
}

extern "C" void __tsan_write_range(void *p, unsigned long n)
{
    cudasim::hook(p, n, true, __builtin_return_address(0));
}

extern "C" void __tsan_vptr_update(void **, void *) {}
