// fiber.h -- stacks and the switch between them.
//
// A CUDA thread is a fiber: a stack of its own and a saved stack pointer. fiber_switch saves the
// callee-saved registers of the caller on its stack, stores the stack pointer and continues
// another fiber; nothing else of the machine is involved, so a switch costs a few nanoseconds.
// CMake picks fiber_x86_64.cpp or fiber_ucontext.cpp, and fiber_asan.cpp or fiber_plain.cpp.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

namespace cudasim
{

enum : size_t { FIBER_STACK = 64 * 1024 };

struct Stack {
    void *sp = nullptr;   // saved stack pointer (or context) while the fiber does not run
    char *low = nullptr;  // lowest address of the stack; a guard page lies below
    void *fake = nullptr; // AddressSanitizer's own stack of the fiber
    size_t size = FIBER_STACK;
};

// A stack with a guard page below. Never freed: launches reuse them.
Stack stack_new();
// Makes the fiber start in entry() at its next switch; entry never returns.
void fiber_prepare(Stack *s, void (*entry)());
// Saves `from` and continues `to`. `last`: `from` will never be continued.
void fiber_switch(Stack *from, Stack *to, bool last);
// The first thing that entry() calls.
void fiber_started();

// The instruction that a signal's context stands at; nullptr: unknown.
const void *fault_pc(void *signal_context);

// What AddressSanitizer must be told (fiber_asan.cpp); empty in fiber_plain.cpp.
void fiber_note_leave(Stack *from, const Stack *to, bool last);
void fiber_note_arrive(Stack *me);
void fiber_note_main(Stack *main);
void fiber_note_reuse(Stack *s);

} // namespace cudasim
