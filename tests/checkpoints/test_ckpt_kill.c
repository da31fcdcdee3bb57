// test_ckpt_kill.c -- kill -9 while a child saves in a loop: what it had announced as saved is
// there and whole, what it had not finished does not look finished, and the next child goes on
// from it.
//
// The child announces a step through a pipe only after ckpt_save returned. Half of the children
// prune.
//
// SPDX-License-Identifier: MIT
#include "tests/checkpoints/ckpt_fixture.h"

#include "checkpoints/steps.h"
#include "engine/base/rng.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 60 };

static void child(const char *run_dir, int64_t from, bool prune, int pipe_end)
{
    HfConfig c;
    Fixture  f;
    fixture_config(&c);
    for (int64_t step = from;; step++) {
        fixture_model(&f, &c, (uint64_t)step);
        CkptSave s = {.step = step,
                      .config = c,
                      .model_dtype = DTYPE_F32,
                      .model = f.t,
                      .n_model = f.n,
                      .trainer = f.t,
                      .n_trainer = f.n,
                      .trainer_json = "{}",
                      .keep = prune ? 2 : 4,
                      .best = step % 5 == 0};
        snprintf(s.run_dir, sizeof s.run_dir, "%s", run_dir);
        if (ckpt_save(&s, NULL) != ERR_NONE) _exit(1);
        if (write(pipe_end, &step, sizeof step) != sizeof step) _exit(2);
        fixture_free(&f);
    }
}

// The last step the dead child announced, or `before`.
static int64_t last_announced(int pipe_end, int64_t before)
{
    int64_t step;
    while (read(pipe_end, &step, sizeof step) == sizeof step) before = step;
    return before;
}

// Every step folder is whole: a damaged one would be a lie about completeness.
static void assert_all_whole(const char *run_dir)
{
    Steps all;
    Err   err;
    fixture_must(steps_list(&all, run_dir, &err), &err);
    for (int i = 0; i < all.n; i++) {
        char dir[PATH_CAP];
        fixture_must(steps_path(dir, run_dir, all.step[i], &err), &err);
        fixture_must(ckpt_verify(dir, true, &err), &err);
    }
    steps_free(&all);
}

static void assert_content(const char *dir, int64_t step)
{
    HfConfig c;
    Fixture  have, want;
    Err      err;
    fixture_must(hf_config_read(&c, dir, &err), &err);
    fixture_model(&have, &c, 0);
    fixture_model(&want, &c, (uint64_t)step);
    fixture_must(hf_load(dir, &c, have.t, have.n, &err), &err);
    assert_true(fixture_equal(&have, &want));
    fixture_free(&have);
    fixture_free(&want);
}

static void nothing_announced_is_lost_by_kill_9(void **state)
{
    (void)state;
    char    run[PATH_CAP], dir[PATH_CAP];
    int64_t done = 0, step = 0, best = -1;
    fixture_mkdir(run);
    for (int round = 0; round < ROUNDS; round++) {
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        fflush(NULL);
        const pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            close(ends[0]);
            child(run, done + 1, round % 2 == 0, ends[1]);
        }
        close(ends[1]);
        const struct timespec wait = {.tv_nsec = 1000000 *
                                                 (long)(1 + rng_below(1, 0, (uint64_t)round, 160))};
        nanosleep(&wait, NULL);
        assert_int_equal(kill(pid, SIGKILL), 0);
        int status = 0;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status)); // it did not fail by itself
        const int64_t announced = last_announced(ends[0], done);
        close(ends[0]);

        bool found = false;
        Err  err;
        fixture_must(ckpt_newest(run, dir, &step, &found, &err), &err);
        if (announced && !found) fail_msg("round %d: step %d is lost", round, (int)announced);
        if (found) {
            if (step != announced && step != announced + 1)
                fail_msg("round %d: announced %d, found %d", round, (int)announced, (int)step);
            assert_content(dir, step);
            done = step;
        }
        assert_all_whole(run);
        fixture_must(steps_best(run, &best, &err), &err);
        if (best >= 0) { // never pruned, never ahead of its step
            fixture_must(steps_path(dir, run, best, &err), &err);
            fixture_must(ckpt_verify(dir, true, &err), &err);
        }
        if (round % 3 == 0) fixture_must(ckpt_clean(run, &err), &err);
    }
    assert_true(done > 0); // the loop did some work
    print_message("%d kills, %d steps saved\n", (int)ROUNDS, (int)done);
    fixture_rmdir(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_announced_is_lost_by_kill_9)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
