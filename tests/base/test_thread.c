// test_thread.c -- engine/base: thread.h, stop.h, clock.h
//
// SPDX-License-Identifier: MIT
#include "engine/base/clock.h"
#include "engine/base/stop.h"
#include "engine/base/thread.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct Shared {
    Mutex mutex;
    Cond  changed;
    int   turn, hits;
} Shared;

// Takes every odd turn; main takes the even ones.
static void *odd_turns(void *arg)
{
    Shared *s = arg;
    for (int i = 0; i < 100; i++) {
        mutex_lock(&s->mutex);
        while (s->turn % 2 == 0) cond_wait(&s->changed, &s->mutex);
        s->turn++;
        s->hits++;
        cond_broadcast(&s->changed);
        mutex_unlock(&s->mutex);
    }
    return NULL;
}

static void two_threads_take_turns(void **state)
{
    (void)state;
    Shared s = {.turn = 0};
    Thread t = {.running = false};
    thread_join(&t); // never started
    mutex_init(&s.mutex);
    cond_init(&s.changed);
    assert_int_equal(thread_start(&t, odd_turns, &s, NULL), ERR_NONE);
    for (int i = 0; i < 100; i++) {
        mutex_lock(&s.mutex);
        while (s.turn % 2 == 1) cond_wait(&s.changed, &s.mutex);
        s.turn++;
        cond_broadcast(&s.changed);
        mutex_unlock(&s.mutex);
    }
    thread_join(&t);
    thread_join(&t); // once is enough, twice is fine
    assert_int_equal(s.hits, 100);
    assert_int_equal(s.turn, 200);
    cond_destroy(&s.changed);
    mutex_destroy(&s.mutex);
}

static void *read_mask(void *arg)
{
    pthread_sigmask(SIG_SETMASK, NULL, arg);
    return NULL;
}

static void workers_take_no_signals_and_the_caller_keeps_its_own(void **state)
{
    (void)state;
    sigset_t worker, before, after;
    Thread   t = {.running = false};
    sigemptyset(&worker);
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(thread_start(&t, read_mask, &worker, NULL), ERR_NONE);
    thread_join(&t);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    assert_true(sigismember(&worker, SIGTERM) == 1 && sigismember(&worker, SIGINT) == 1);
    assert_int_equal(sigismember(&before, SIGTERM), sigismember(&after, SIGTERM));
    assert_int_equal(sigismember(&after, SIGTERM), 0);
}

static void at_least_one_cpu(void **state)
{
    (void)state;
    assert_in_range(thread_cpus(), 1, 100000);
}

// In a child: exit code 1 + what stop_requested says, or the signal that ended it.
static int child_with_signals(int first, int pause_ms, int second)
{
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        stop_ignore_file_limit();
        stop_ignore_pipe();
        stop_install();
        if (stop_requested() != 0) _exit(99);
        if (first) raise(first);
        if (pause_ms) usleep((useconds_t)pause_ms * 1000);
        if (second) raise(second);
        _exit(1 + stop_requested());
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void a_signal_asks_and_only_a_later_ctrl_c_ends(void **state)
{
    (void)state;
    static const int all[] = {SIGINT, SIGTERM, SIGHUP, SIGXCPU};
    assert_int_equal(child_with_signals(0, 0, 0), 1);
    for (size_t i = 0; i < LT_COUNT(all); i++) {
        assert_int_equal(child_with_signals(all[i], 0, 0), 1 + all[i]);
        assert_int_equal(child_with_signals(all[i], 0, SIGTERM), 1 + all[i]);
        assert_int_equal(child_with_signals(all[i], 0, SIGINT), 1 + all[i]); // of one key press
        assert_int_equal(child_with_signals(all[i], 600, SIGTERM), 1 + all[i]);
        assert_int_equal(child_with_signals(all[i], 600, SIGINT), -SIGINT);
    }
    assert_int_equal(child_with_signals(SIGPIPE, 0, SIGXFSZ), 1);
}

static void a_signal_that_was_ignored_stays_ignored(void **state)
{
    (void)state;
    void (*const before)(int) = signal(SIGHUP, SIG_IGN);
    assert_int_equal(child_with_signals(SIGHUP, 0, 0), 1);
    signal(SIGHUP, before);
}

static void stop_signals_have_names(void **state)
{
    (void)state;
    assert_string_equal(stop_name(SIGTERM), "SIGTERM");
    assert_string_equal(stop_name(SIGUSR1), "a signal");
}

static void clock_goes_forward(void **state)
{
    (void)state;
    const double a = clock_seconds(), b = clock_seconds();
    assert_true(b >= a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_threads_take_turns),
        cmocka_unit_test(workers_take_no_signals_and_the_caller_keeps_its_own),
        cmocka_unit_test(at_least_one_cpu),
        cmocka_unit_test(a_signal_asks_and_only_a_later_ctrl_c_ends),
        cmocka_unit_test(a_signal_that_was_ignored_stays_ignored),
        cmocka_unit_test(stop_signals_have_names),
        cmocka_unit_test(clock_goes_forward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
