// stop.c -- see stop.h. A signal handler can only reach file-scope state: the one exception to
// "no mutable globals".
//
// SPDX-License-Identifier: MIT
#include "engine/base/stop.h"

#include <signal.h>
#include <string.h>

static volatile sig_atomic_t requested;

static void on_signal(int number)
{
    requested = number;
}

void stop_pipe(void)
{
    struct sigaction a;
    memset(&a, 0, sizeof a);
    a.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &a, NULL);
}

void stop_install(void)
{
    struct sigaction a;
    memset(&a, 0, sizeof a);
    a.sa_handler = on_signal;
    a.sa_flags = (int)(SA_RESETHAND | SA_RESTART);
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
}

int stop_requested(void)
{
    return requested;
}
