// test_log.c -- engine/base/log.h, with both streams caught in pipes.
//
// SPDX-License-Identifier: MIT
#include "engine/base/log.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void say_everything(void)
{
    log_note("step %d", 1);
    log_live("live");
    log_live_end();
    log_warn("low on %s", "disk");
    log_note("%s", "step\x1b[31m 2");
}

// What `body` writes to stdout and stderr when neither is a terminal.
static void caught(void (*body)(void), char out[512], char err[512])
{
    int o[2], e[2];
    assert_int_equal(pipe(o), 0);
    assert_int_equal(pipe(e), 0);
    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(o[1], STDOUT_FILENO);
        dup2(e[1], STDERR_FILENO);
        body();
        fflush(NULL);
        _exit(0);
    }
    close(o[1]);
    close(e[1]);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid); // the texts fit into the pipes
    assert_int_equal(status, 0);
    const ssize_t no = read(o[0], out, 511), ne = read(e[0], err, 511);
    assert_true(no >= 0 && ne >= 0);
    out[no] = 0;
    err[ne] = 0;
    close(o[0]);
    close(e[0]);
}

static void notes_warnings_and_no_live_line_off_a_terminal(void **state)
{
    (void)state;
    char out[512], err[512];
    caught(say_everything, out, err);
    assert_string_equal(out, "step 1\nstep?[31m 2\n");
    assert_string_equal(err, "lathe: warning: low on disk\n");
}

static void write_to_a_closed_pipe(void)
{
    int p[2];
    signal(SIGPIPE, SIG_IGN);
    if (pipe(p) != 0) _exit(1);
    dup2(p[1], STDOUT_FILENO);
    close(p[0]);
    close(p[1]);
    log_note("lost");
    log_live_end();
}

static void closed_pipe_stops_nothing(void **state)
{
    (void)state;
    char out[512], err[512];
    caught(write_to_a_closed_pipe, out, err);
    const char *told = strstr(err, "standard output cannot be written");
    assert_non_null(told);
    assert_null(strstr(told + 1, "standard output cannot be written")); // once
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notes_warnings_and_no_live_line_off_a_terminal),
        cmocka_unit_test(closed_pipe_stops_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
