// fiber_ucontext.cpp -- the switch for other processors, by swapcontext: slower (it saves the
// signal mask with a system call), the same meaning.
//
// SPDX-License-Identifier: MIT
#include "tests/cudasim/src/fiber.h"
#include <ucontext.h>

namespace cudasim
{

// The context lies at the upper end of the fiber's own stack.
void fiber_prepare(Stack *s, void (*entry)())
{
    fiber_note_reuse(s);
    const size_t used = (sizeof(ucontext_t) + 63) / 64 * 64;
    auto *const c = reinterpret_cast<ucontext_t *>(s->low + s->size - used);
    getcontext(c);
    c->uc_stack.ss_sp = s->low;
    c->uc_stack.ss_size = s->size - used;
    c->uc_link = nullptr;
    makecontext(c, entry, 0);
    s->sp = c;
}

void fiber_switch(Stack *from, Stack *to, bool last)
{
    static ucontext_t main_context; // the only stack that fiber_prepare has not seen
    if (from->sp == nullptr) from->sp = &main_context;
    fiber_note_leave(from, to, last);
    swapcontext(static_cast<ucontext_t *>(from->sp), static_cast<ucontext_t *>(to->sp));
    fiber_note_arrive(from);
}

const void *fault_pc(void *)
{
    return nullptr;
}

} // namespace cudasim
