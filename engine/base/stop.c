// stop.c -- see stop.h. A signal handler can only reach file-scope state: the one exception to
// "no mutable globals".
//
// SPDX-License-Identifier: MIT
#include "engine/base/stop.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

static volatile sig_atomic_t requested;
static atomic_llong first_ms; // when `requested` was set

static long long now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void on_signal(int number)
{
    enum { SAME_KEY_MS = 500 };
    if (!requested) {
        atomic_store(&first_ms, now_ms());
        requested = number;
    } else if (number == SIGINT && now_ms() - atomic_load(&first_ms) > SAME_KEY_MS) {
        signal(SIGINT, SIG_DFL);
        raise(SIGINT);
    }
}

static void ignore(int number)
{
    struct sigaction a;
    memset(&a, 0, sizeof a);
    a.sa_handler = SIG_IGN;
    sigaction(number, &a, NULL);
}

void stop_ignore_file_limit(void)
{
    ignore(SIGXFSZ);
}

void stop_ignore_pipe(void)
{
    ignore(SIGPIPE);
}

void stop_install(void)
{
    static const int number[] = {SIGINT, SIGTERM, SIGHUP, SIGXCPU};
    struct sigaction a, before;
    memset(&a, 0, sizeof a);
    a.sa_handler = on_signal;
    a.sa_flags = SA_RESTART;
    for (size_t i = 0; i < LT_COUNT(number); i++)
        if (sigaction(number[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(number[i], &a, NULL);
}

int stop_requested(void)
{
    return requested;
}

const char *stop_name(int number)
{
    return number == SIGINT    ? "SIGINT"
           : number == SIGTERM ? "SIGTERM"
           : number == SIGHUP  ? "SIGHUP"
           : number == SIGXCPU ? "SIGXCPU"
                               : "a signal";
}
