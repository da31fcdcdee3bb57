// thread.h -- POSIX threads behind four words, with a Status instead of an errno.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include "engine/base/err.h"

typedef struct Thread {
    pthread_t id;
    bool running;
} Thread;

typedef struct Mutex {
    pthread_mutex_t m;
} Mutex;

typedef struct Cond {
    pthread_cond_t c;
} Cond;

LT_C_BEGIN
// `body` gets `arg`; it reports through what arg points to. Zero-initialise *t.
LT_MUST_CHECK Status thread_start(Thread *t, void *(*body)(void *), void *arg, Err *err);
void thread_join(Thread *t); // of one that never started: nothing happens
void mutex_init(Mutex *m);
void mutex_destroy(Mutex *m);
void mutex_lock(Mutex *m);
void mutex_unlock(Mutex *m);
void cond_init(Cond *c);
void cond_destroy(Cond *c);
void cond_wait(Cond *c, Mutex *m);
void cond_broadcast(Cond *c);
int thread_cpus(void); // CPUs this process may run on, at least 1
// Keep the calling thread on the i-th of the CPUs that it may run on. Where that cannot be done
// nothing happens.
void thread_pin(int i);
LT_C_END
