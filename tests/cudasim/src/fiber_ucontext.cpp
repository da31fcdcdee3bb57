// fiber_ucontext.cpp -- the switch for other processors, by swapcontext: slower (it saves the
// signal mask with a system call), the same meaning.
//
// SPDX-License-Identifier: MIT
#include "tests/cudasim/src/fiber.h"
#include <ucontext.h>

namespace cudasim
{

void fiber_prepare(Stack *s, void (*entry)())
{
    fiber_note_reuse(s);
    auto *c = static_cast<ucontext_t *>(s->sp);
    if (c == nullptr) c = new ucontext_t;
    getcontext(c);
    c->uc_stack.ss_sp = s->low;
    c->uc_stack.ss_size = s->size;
    c->uc_link = nullptr;
    makecontext(c, entry, 0);
    s->sp = c;
}

void fiber_switch(Stack *from, Stack *to, bool last)
{
    if (from->sp == nullptr) from->sp = new ucontext_t;
    fiber_note_leave(from, to, last);
    swapcontext(static_cast<ucontext_t *>(from->sp), static_cast<ucontext_t *>(to->sp));
    fiber_note_arrive(from);
}

const void *fault_pc(void *)
{
    return nullptr;
}

} // namespace cudasim
