// fiber_asan.cpp -- tells AddressSanitizer about every change of stacks.
//
// SPDX-License-Identifier: MIT
#include "tests/cudasim/src/fiber.h"
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <pthread.h>

namespace cudasim
{

void fiber_note_leave(Stack *from, const Stack *to, bool last)
{
    __sanitizer_start_switch_fiber(last ? nullptr : &from->fake, to->low, to->size);
}

void fiber_note_arrive(Stack *me)
{
    __sanitizer_finish_switch_fiber(me->fake, nullptr, nullptr);
}

// The main stack's bounds are asked from the system once.
void fiber_note_main(Stack *main)
{
    pthread_attr_t attr;
    void *low = nullptr;
    pthread_getattr_np(pthread_self(), &attr);
    pthread_attr_getstack(&attr, &low, &main->size);
    pthread_attr_destroy(&attr);
    main->low = static_cast<char *>(low);
}

// Frames of the fiber's former life left poison behind.
void fiber_note_reuse(Stack *s)
{
    ASAN_UNPOISON_MEMORY_REGION(s->low, s->size);
    s->fake = nullptr;
}

} // namespace cudasim
