// fiber_plain.cpp -- the notes for AddressSanitizer in a build without it: none.
//
// SPDX-License-Identifier: MIT
#include "tests/cudasim/src/fiber.h"

namespace cudasim
{

void fiber_note_leave(Stack *, const Stack *, bool) {}

void fiber_note_arrive(Stack *) {}

void fiber_note_main(Stack *) {}

void fiber_note_reuse(Stack *) {}

} // namespace cudasim
