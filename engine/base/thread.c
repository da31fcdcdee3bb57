// thread.c -- see thread.h.
//
// SPDX-License-Identifier: MIT
#include "engine/base/thread.h"
#include "engine/base/assert.h"

#include <sched.h>
#include <signal.h>
#include <string.h>

Status thread_start(Thread *t, void *(*body)(void *), void *arg, Err *err)
{
    ASSERT(!t->running, "thread is running");
    // Workers take no signals: the main thread's handler decides what SIGTERM means.
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    const int e = pthread_create(&t->id, NULL, body, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (e) return err_errno(err, e, "start a thread");
    t->running = true;
    return ERR_NONE;
}

void thread_join(Thread *t)
{
    if (!t->running) return;
    pthread_join(t->id, NULL);
    t->running = false;
}

static void must(int e, const char *what)
{
    ASSERT(e == 0, "%s: %s", what, strerror(e));
}

void mutex_init(Mutex *m)
{
    must(pthread_mutex_init(&m->m, NULL), "mutex_init");
}
void mutex_destroy(Mutex *m)
{
    must(pthread_mutex_destroy(&m->m), "mutex_destroy");
}
void mutex_lock(Mutex *m)
{
    must(pthread_mutex_lock(&m->m), "mutex_lock");
}
void mutex_unlock(Mutex *m)
{
    must(pthread_mutex_unlock(&m->m), "mutex_unlock");
}
void cond_init(Cond *c)
{
    must(pthread_cond_init(&c->c, NULL), "cond_init");
}
void cond_destroy(Cond *c)
{
    must(pthread_cond_destroy(&c->c), "cond_destroy");
}
void cond_wait(Cond *c, Mutex *m)
{
    must(pthread_cond_wait(&c->c, &m->m), "cond_wait");
}
void cond_broadcast(Cond *c)
{
    must(pthread_cond_broadcast(&c->c), "cond_broadcast");
}

void thread_pin(int i)
{
    cpu_set_t all, one;
    CPU_ZERO(&all);
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof all, &all) != 0 || i < 0) return;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all) || i-- > 0) continue;
        CPU_SET(cpu, &one);
        (void)sched_setaffinity(0, sizeof one, &one);
        return;
    }
}

int thread_cpus(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    const int n = CPU_COUNT(&set);
    return n > 0 ? n : 1;
}
