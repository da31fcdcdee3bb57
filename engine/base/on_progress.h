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

// One part of longer work after the other: what a part says of itself is told as said of the whole.
typedef struct OnPart {
    OnProgress on;        // hears of the whole
    double before, total; // parts that are done; all
} OnPart;

static inline void on_part_at(void *arg, double done, double total)
{
    const OnPart *p = arg;
    (void)total; // of the part
    on_progress(&p->on, p->before + done, p->total);
}

// A listener for the next part; `p` stays where it is. NULL: nobody listens.
static inline OnProgress on_part(OnPart *p)
{
    return p ? (OnProgress){.at = on_part_at, .arg = p} : (OnProgress){0};
}

static inline void on_part_done(OnPart *p, double amount)
{
    if (p) p->before += amount;
}
