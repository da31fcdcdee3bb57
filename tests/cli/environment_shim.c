// environment_shim.c -- LD_PRELOAD library of the environment tests: a wall clock that jumps, and a
// slow disk.
//
//     SHIM_CLOCK=1       time(), gettimeofday(), CLOCK_REALTIME: every call is ten years before or
//                        behind the one before it; the monotonic clock stays as it is
//     SHIM_FSYNC_MS=N    every fsync takes N milliseconds longer, so that a test can hit a save
//
// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static atomic_int calls;

static time_t jumped(time_t now)
{
    static const time_t ten_years = 315360000;
    if (!getenv("SHIM_CLOCK")) return now;
    return atomic_fetch_add(&calls, 1) % 2 ? now - ten_years : now + ten_years;
}

int clock_gettime(clockid_t id, struct timespec *t)
{
    int (*real)(clockid_t, struct timespec *);
    *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    const int r = real(id, t);
    if (r == 0 && id == CLOCK_REALTIME) t->tv_sec = jumped(t->tv_sec);
    return r;
}

time_t time(time_t *out)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (out) *out = t.tv_sec;
    return t.tv_sec;
}

int gettimeofday(struct timeval *t, void *zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *t = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    return 0;
}

int fsync(int fd)
{
    int (*real)(int);
    *(void **)&real = dlsym(RTLD_NEXT, "fsync");
    const char *ms = getenv("SHIM_FSYNC_MS");
    const long n = ms ? strtol(ms, NULL, 10) : 0;
    nanosleep(&(struct timespec){.tv_sec = n / 1000, .tv_nsec = n % 1000 * 1000000}, NULL);
    return real(fd);
}
