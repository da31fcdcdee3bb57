// fiber.cpp -- the stacks of fibers.
//
// SPDX-License-Identifier: MIT
#include "tests/cudasim/src/fiber.h"
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>

namespace cudasim
{

Stack stack_new()
{
    const size_t page = 4096;
    void *p = mmap(nullptr, FIBER_STACK + page, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        perror("cudasim: stack of a thread");
        exit(1);
    }
    mprotect(p, page, PROT_NONE);
    Stack s;
    s.low = static_cast<char *>(p) + page;
    return s;
}

void fiber_started()
{
    Stack none;
    fiber_note_arrive(&none);
}

} // namespace cudasim
