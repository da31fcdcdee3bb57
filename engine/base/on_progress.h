// on_progress.h -- how long work says how far it has come, without knowing who listens.
//
// Folders below engine/ take an OnProgress and call on_progress now and then, always from one
// thread at a time and as often as they like: a listener looks at the clock first. What is counted
// (bytes, tokens, merges) is said beside the parameter. Zeroed, or no pointer: nobody listens.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stddef.h>

typedef struct OnProgress {
    void (*at)(void *arg, double done, double total); // total <= 0: not known
    void *arg;
} OnProgress;

static inline void on_progress(const OnProgress *p, double done, double total)
{
    if (p && p->at) p->at(p->arg, done, total);
}
