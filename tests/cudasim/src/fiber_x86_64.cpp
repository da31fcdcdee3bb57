// fiber_x86_64.cpp -- the switch for x86-64 (System V calling convention).
//
// SPDX-License-Identifier: MIT
#include "tests/cudasim/src/fiber.h"
#include <cstdint>
#include <ucontext.h>

extern "C" void cudasim_switch(void **save, void *to);
asm(R"(
.text
.globl cudasim_switch
.type cudasim_switch,@function
cudasim_switch:
    pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
    ret
.size cudasim_switch,.-cudasim_switch
)");

namespace cudasim
{

// The first switch pops six registers and "returns" into entry, with the stack aligned as after
// a call; the zero above ends a debugger's walk up the stack.
void fiber_prepare(Stack *s, void (*entry)())
{
    fiber_note_reuse(s);
    auto *sp = reinterpret_cast<uint64_t *>(s->low + s->size);
    *--sp = 0;
    *--sp = reinterpret_cast<uint64_t>(entry);
    for (int i = 0; i < 6; ++i) *--sp = 0;
    s->sp = sp;
}

void fiber_switch(Stack *from, Stack *to, bool last)
{
    fiber_note_leave(from, to, last);
    cudasim_switch(&from->sp, to->sp);
    fiber_note_arrive(from);
}

const void *fault_pc(void *signal_context)
{
    const auto *const c = static_cast<const ucontext_t *>(signal_context);
    return reinterpret_cast<const void *>(c->uc_mcontext.gregs[REG_RIP]);
}

} // namespace cudasim
