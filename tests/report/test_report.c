// test_report.c -- engine/report/: metrics.jsonl and the progress line.
//
// SPDX-License-Identifier: MIT
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/report/metrics.h"
#include "engine/report/progress.h"

static char folder[64];
static char path[128];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/lathe-report-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return file_remove_tree(folder, NULL) == ERR_NONE ? 0 : -1;
}

static MetricsRow row_of(int64_t step)
{
    return (MetricsRow){.step = step,
                        .loss = (double)(float)(1.0 / (double)(step + 2)),
                        .lr = 1e-3,
                        .grad_norm = 0.5,
                        .seconds = 0.25,
                        .tokens_per_second = 1000,
                        .mfu = -1,
                        .tokens = 250,
                        .targets = 250};
}

// A checkpoint of that step, after its evaluation.
static MetricsPoint point(int64_t step)
{
    return (MetricsPoint){.step = step, .last_eval = step};
}

// Write steps from+1 .. to, an evaluation at each even one.
static void write_steps(int64_t from, int64_t to)
{
    Metrics m;
    assert_int_equal(metrics_open(&m, path, point(from), NULL), ERR_NONE);
    for (int64_t i = from + 1; i <= to; i++) {
        const MetricsRow row = row_of(i);
        const MetricsEval ev = {
            .step = i, .split = "val", .loss = 1.0 / (double)i, .targets = 8, .best = true};
        metrics_step(&m, &row);
        if (i % 2 == 0) metrics_eval(&m, &ev);
    }
    metrics_close(&m);
    metrics_close(&m);
}

static Buf read_all(void)
{
    Buf b = {0};
    assert_int_equal(file_read(path, &b, NULL), ERR_NONE);
    return b;
}

static json_t *last_line(void)
{
    Buf b = read_all();
    char *s = b.data + b.len - 1;
    assert_int_equal(*s, '\n');
    *s = 0;
    char *start = strrchr(b.data, '\n');
    json_t *j = json_loads(start ? start + 1 : b.data, JSON_REJECT_DUPLICATES, NULL);
    if (!j) fail_msg("no JSON: %s", start ? start + 1 : b.data);
    buf_free(&b);
    return j;
}

static void a_resumed_file_reads_as_if_never_interrupted(void **state)
{
    (void)state;
    write_steps(0, 10);
    Buf straight = read_all();
    for (int64_t checkpoint = 0; checkpoint <= 10; checkpoint++) {
        write_steps(0, 7);
        // A crash in the middle of a line.
        FILE *f = fopen(path, "a");
        assert_non_null(f);
        assert_true(fputs("{\"kind\":\"step\",\"st", f) >= 0);
        fclose(f);
        const int64_t from = checkpoint < 7 ? checkpoint : 7;
        write_steps(from, 10);
        Buf resumed = read_all();
        assert_int_equal(resumed.len, straight.len);
        assert_memory_equal(resumed.data, straight.data, straight.len);
        buf_free(&resumed);
    }
    buf_free(&straight);
}

static void numbers_read_back_to_the_same_f32(void **state)
{
    (void)state;
    static const float values[] = {0, 1, 0.1f, 3.4028235e38f, 1.1754944e-38f, 1e-45f, 10.8249f, -7};
    for (size_t i = 0; i < LT_COUNT(values); i++) {
        Metrics m;
        MetricsRow row = row_of(1);
        row.loss = (double)values[i];
        assert_int_equal(metrics_open(&m, path, point(0), NULL), ERR_NONE);
        metrics_step(&m, &row);
        metrics_close(&m);
        json_t *j = last_line();
        assert_true((float)json_number_value(json_object_get(j, "loss")) == values[i]);
        assert_null(json_object_get(j, "nonfinite"));
        assert_null(json_object_get(j, "mfu"));
        json_decref(j);
    }
}

static void what_is_not_finite_is_null_and_named(void **state)
{
    (void)state;
    Metrics m;
    MetricsRow row = row_of(3);
    row.loss = NAN;
    row.grad_norm = INFINITY;
    row.skip = true;
    row.skipped = 4;
    assert_int_equal(metrics_open(&m, path, point(0), NULL), ERR_NONE);
    metrics_step(&m, &row);
    metrics_close(&m);
    json_t *j = last_line();
    assert_true(json_is_null(json_object_get(j, "loss")));
    assert_true(json_is_true(json_object_get(j, "skip")));
    json_t *bad = json_object_get(j, "nonfinite");
    assert_int_equal(json_array_size(bad), 2);
    assert_string_equal(json_string_value(json_array_get(bad, 0)), "loss");
    assert_string_equal(json_string_value(json_array_get(bad, 1)), "grad_norm");
    json_decref(j);
}

static void notes_are_escaped_and_bounded(void **state)
{
    (void)state;
    char text[4000] = "a \"quoted\" \\ line\nand \x01 more ";
    Metrics m;
    memset(text + strlen(text), 'x', sizeof text - strlen(text) - 1);
    text[sizeof text - 1] = 0;
    assert_int_equal(metrics_open(&m, path, point(0), NULL), ERR_NONE);
    metrics_note(&m, 5, text);
    metrics_close(&m);
    json_t *j = last_line();
    const char *got = json_string_value(json_object_get(j, "text"));
    assert_int_equal(strncmp(got, text, 200), 0);
    json_decref(j);
}

static void a_missing_folder_or_a_device_is_an_error(void **state)
{
    (void)state;
    Metrics m;
    Err err;
    assert_int_equal(metrics_open(&m, "/nonexistent/m.jsonl", point(0), &err), ERR_IO);
    assert_non_null(strstr(err.text, "/nonexistent/m.jsonl"));
    metrics_close(&m);
    if (access("/dev/full", W_OK) != 0) skip();
    assert_int_equal(file_remove(path, NULL), ERR_NONE);
    assert_int_equal(symlink("/dev/full", path), 0);
    assert_int_equal(metrics_open(&m, path, point(0), &err), ERR_IO);
    metrics_close(&m);
    assert_int_equal(file_remove(path, NULL), ERR_NONE);
}

static void limit_file_size(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void lines_wait_while_there_is_no_room_and_keep_their_order(void **state)
{
    (void)state;
    write_steps(0, 100);
    Buf straight = read_all();
    Metrics m;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(metrics_open(&m, path, point(0), NULL), ERR_NONE);
    limit_file_size(1000); // in the middle of a line
    for (int64_t i = 1; i <= 100; i++) {
        const MetricsRow row = row_of(i);
        const MetricsEval ev = {
            .step = i, .split = "val", .loss = 1.0 / (double)i, .targets = 8, .best = true};
        if (i == 80) limit_file_size(RLIM_INFINITY);
        metrics_step(&m, &row);
        if (i % 2 == 0) metrics_eval(&m, &ev);
    }
    metrics_close(&m);
    Buf late = read_all();
    assert_int_equal(late.len, straight.len);
    assert_memory_equal(late.data, straight.data, straight.len);
    buf_free(&late);
    buf_free(&straight);
}

static void what_waits_is_bounded(void **state)
{
    (void)state;
    Metrics m;
    assert_int_equal(metrics_open(&m, path, point(0), NULL), ERR_NONE);
    limit_file_size(0);
    for (int64_t i = 1; i <= 20000; i++) {
        const MetricsRow row = row_of(i);
        metrics_step(&m, &row);
    }
    assert_in_range(m.wait_bytes, 1000000, 1 << 20);
    assert_true(m.dropped > 0);
    limit_file_size(RLIM_INFINITY);
    metrics_close(&m);
    Buf b = read_all();
    assert_true(b.len > 1000000 && b.data[b.len - 1] == '\n'); // whole lines
    buf_free(&b);
}

static void an_evaluation_that_is_made_again_stands_once(void **state)
{
    (void)state;
    write_steps(0, 6); // its last line is the evaluation of step 6
    Buf straight = read_all();
    Metrics m;
    // The checkpoint of step 6 was saved before that evaluation.
    assert_int_equal(metrics_open(&m, path, (MetricsPoint){.step = 6, .last_eval = 4}, NULL),
                     ERR_NONE);
    const MetricsEval ev = {.step = 6, .split = "val", .loss = 1.0 / 6, .targets = 8, .best = true};
    metrics_eval(&m, &ev);
    metrics_close(&m);
    Buf again = read_all();
    assert_int_equal(again.len, straight.len);
    assert_memory_equal(again.data, straight.data, straight.len);
    buf_free(&again);
    buf_free(&straight);
}

static void skipped_steps_of_the_checkpoint_stay(void **state)
{
    (void)state;
    write_steps(0, 3);
    Metrics m;
    assert_int_equal(metrics_open(&m, path, point(3), NULL), ERR_NONE);
    MetricsRow row = row_of(4); // tried twice, not done
    row.skip = true;
    for (row.skipped = 1; row.skipped <= 2; row.skipped++) metrics_step(&m, &row);
    metrics_close(&m);
    const MetricsPoint at = {.step = 3, .last_eval = 2, .skipped = 1};
    assert_int_equal(metrics_open(&m, path, at, NULL), ERR_NONE);
    metrics_close(&m);
    json_t *j = last_line();
    assert_int_equal(json_integer_value(json_object_get(j, "step")), 4);
    assert_int_equal(json_integer_value(json_object_get(j, "skipped")), 1);
    json_decref(j);
}

static void progress_line_text(void **state)
{
    (void)state;
    char text[256];
    ProgressRow row = {.step = 120,
                       .max_steps = 2000,
                       .loss = 2.41274,
                       .lr = 1e-3,
                       .grad_norm = 0.834,
                       .seconds = 0.0124,
                       .tokens_per_second = 61935,
                       .mfu = 0.312,
                       .eta = 23.4,
                       .skipped = 0};
    progress_text(&row, text, sizeof text);
    assert_string_equal(text, "step 120/2000 | loss 2.4127 | lr 1.00e-03 | norm 0.834 | 12.4 ms | "
                              "61.9k tok/s | mfu 31.2% | eta 0:23");
    row.skipped = 2;
    row.mfu = -1;
    row.eta = -1;
    row.loss = NAN;
    row.seconds = 1.5;
    progress_text(&row, text, sizeof text);
    assert_string_equal(text, "step 120/2000 | loss nan | lr 1.00e-03 | norm 0.834 | 1500 ms | "
                              "61.9k tok/s | skipped 2");
    row.loss = copysign(NAN, -1.0);
    row.grad_norm = copysign(NAN, -1.0);
    progress_text(&row, text, sizeof text);
    assert_string_equal(text, "step 120/2000 | loss nan | lr 1.00e-03 | norm nan | 1500 ms | "
                              "61.9k tok/s | skipped 2");
    row.loss = INFINITY;
    row.grad_norm = INFINITY;
    progress_text(&row, text, sizeof text);
    assert_string_equal(text, "step 120/2000 | loss inf | lr 1.00e-03 | norm inf | 1500 ms | "
                              "61.9k tok/s | skipped 2");
    progress_text(&row, text, 20);
    assert_int_equal(strlen(text), 19);
}

static void numbers_for_people(void **state)
{
    (void)state;
    static const struct {
        void (*f)(double, char[32]);
        double v;
        const char *want;
    } cases[] = {
        {progress_duration, 0, "0:00"},        {progress_duration, 59.6, "1:00"},
        {progress_duration, 3661, "1:01:01"},  {progress_duration, 183845, "2d 03:04"},
        {progress_duration, NAN, "?"},         {progress_count, 0, "0"},
        {progress_count, 999, "999"},          {progress_count, 1234, "1.23k"},
        {progress_count, 124439808, "124.4M"}, {progress_count, 1.557611e9, "1.56B"},
        {progress_count, 999999, "1.00M"},     {progress_count, 3.14e14, "314.0T"},
        {progress_bytes, 512, "512 B"},        {progress_bytes, 2040109466, "1.9 GiB"},
    };
    for (size_t i = 0; i < LT_COUNT(cases); i++) {
        char got[32];
        cases[i].f(cases[i].v, got);
        assert_string_equal(got, cases[i].want);
    }
}

static void text_of_other_work(void **state)
{
    (void)state;
    static const struct {
        const char *unit;
        double done, total, seconds;
        const char *want;
    } cases[] = {
        {NULL, 432327884.8, 2040109466, 11.7,
         "work 412.3 MiB/1.9 GiB | 21% | 35.2 MiB/s | 0:44 left"},
        {"tok", 500, 0, 2, "work 500 tok | 250 tok/s"},
        {"steps", 0, 100, 5, "work 0/100 steps | 0%"},
        {"steps", 100, 100, 5, "work 100/100 steps | 100% | 20 steps/s | 0:00 left"},
        {"steps", 130, 100, 5, "work 130/100 steps | 100% | 26 steps/s | 0:00 left"},
        {"steps", 3, 100, 0, "work 3/100 steps | 3%"},
        {NULL, 0, 0, 0, "work 0 B"},
    };
    for (size_t i = 0; i < LT_COUNT(cases); i++) {
        const Progress p = {.label = "work", .unit = cases[i].unit};
        char text[256];
        progress_work_text(&p, cases[i].done, cases[i].total, cases[i].seconds, text, sizeof text);
        assert_string_equal(text, cases[i].want);
    }
}

// stderr becomes a terminal of `columns` columns, or a pipe (0).
typedef struct Screen {
    int saved, end; // the old stderr; where what is written comes out
} Screen;

static void screen_open(Screen *s, int columns)
{
    int in;
    if (columns) {
        s->end = posix_openpt(O_RDWR | O_NOCTTY);
        if (s->end < 0 || grantpt(s->end) != 0 || unlockpt(s->end) != 0) skip();
        in = open(ptsname(s->end), O_RDWR | O_NOCTTY);
        const struct winsize w = {.ws_row = 24, .ws_col = (unsigned short)columns};
        assert_int_equal(ioctl(s->end, TIOCSWINSZ, &w), 0);
    } else {
        int both[2];
        assert_int_equal(pipe(both), 0);
        s->end = both[0];
        in = both[1];
    }
    s->saved = dup(STDERR_FILENO);
    assert_true(in >= 0 && s->saved >= 0 && dup2(in, STDERR_FILENO) >= 0);
    close(in);
}

static void screen_read(const Screen *s, char *out, size_t cap)
{
    struct pollfd p = {.fd = s->end, .events = POLLIN};
    ssize_t n = 0;
    if (poll(&p, 1, 0) == 1) n = read(s->end, out, cap - 1);
    out[n > 0 ? n : 0] = 0;
}

static void screen_close(Screen *s)
{
    dup2(s->saved, STDERR_FILENO);
    close(s->saved);
    close(s->end);
}

// One Progress that is told once; what was written, before and after its end.
static void told_once(int columns, double after, char before[1024], char behind[1024])
{
    Screen s;
    Progress p;
    screen_open(&s, columns);
    progress_begin(&p, "reading a file of some length", NULL, after);
    const OnProgress on = progress_listener(&p);
    on_progress(&on, 1 << 20, 4 << 20);
    screen_read(&s, before, 1024);
    progress_end(&p);
    progress_end(&p);
    screen_read(&s, behind, 1024);
    screen_close(&s);
}

static void other_work_is_shown_on_a_terminal_and_cleared(void **state)
{
    (void)state;
    char before[1024], behind[1024];
    told_once(100, 0, before, behind);
    static const char want[] = "\r\033[Kreading a file of some length 1.0 MiB/4.0 MiB | 25%";
    assert_int_equal(strncmp(before, want, strlen(want)), 0);
    assert_null(strchr(before, '\n'));
    assert_string_equal(behind, "\r\033[K");
}

static void other_work_never_wraps(void **state)
{
    (void)state;
    char before[1024], behind[1024];
    told_once(20, 0, before, behind);
    assert_string_equal(before, "\r\033[Kreading a file of s");
}

static void short_work_and_pipes_show_nothing(void **state)
{
    (void)state;
    char before[1024], behind[1024];
    told_once(100, 1e6, before, behind);
    assert_string_equal(before, "");
    assert_string_equal(behind, "");
    told_once(0, 0, before, behind);
    assert_string_equal(before, "");
    assert_string_equal(behind, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resumed_file_reads_as_if_never_interrupted),
        cmocka_unit_test(numbers_read_back_to_the_same_f32),
        cmocka_unit_test(what_is_not_finite_is_null_and_named),
        cmocka_unit_test(notes_are_escaped_and_bounded),
        cmocka_unit_test(a_missing_folder_or_a_device_is_an_error),
        cmocka_unit_test(lines_wait_while_there_is_no_room_and_keep_their_order),
        cmocka_unit_test(what_waits_is_bounded),
        cmocka_unit_test(an_evaluation_that_is_made_again_stands_once),
        cmocka_unit_test(skipped_steps_of_the_checkpoint_stay),
        cmocka_unit_test(progress_line_text),
        cmocka_unit_test(numbers_for_people),
        cmocka_unit_test(text_of_other_work),
        cmocka_unit_test(other_work_is_shown_on_a_terminal_and_cleared),
        cmocka_unit_test(other_work_never_wraps),
        cmocka_unit_test(short_work_and_pipes_show_nothing),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
