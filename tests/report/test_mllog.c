// test_mllog.c -- engine/report/mllog.c: what a line is, and which files take one.
//
// SPDX-License-Identifier: MIT
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/report/mllog.h"

static char folder[64];
static char path[128];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/lathe-mllog-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/result.txt", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return file_remove_tree(folder, NULL) == ERR_NONE ? 0 : -1;
}

static void expect_file(const char *text)
{
    Buf b = {0};
    assert_int_equal(file_read(path, &b, NULL), ERR_NONE);
    assert_int_equal(buf_append(&b, "", 1, NULL), ERR_NONE);
    assert_string_equal(b.data, text);
    buf_free(&b);
}

static void a_line_is_as_the_checker_reads_it(void **state)
{
    (void)state;
    MlLog l;
    bool empty;
    assert_int_equal(mllog_open(&l, path, &empty, NULL), ERR_NONE);
    assert_true(empty);
    mllog_event(&l, 1682641168353, MLLOG_POINT, "global_batch_size", "768", "");
    mllog_event(&l, 1682641168354, MLLOG_START, "block_start", "null", "\"first_epoch_num\": 0");
    mllog_event(&l, 1682641168355, MLLOG_END, "run_stop", "null", "\"status\": \"success\"");
    mllog_close(&l);
    expect_file(
        ":::MLLOG {\"namespace\": \"\", \"time_ms\": 1682641168353, \"event_type\": "
        "\"POINT_IN_TIME\", \"key\": \"global_batch_size\", \"value\": 768, \"metadata\": {}}\n"
        ":::MLLOG {\"namespace\": \"\", \"time_ms\": 1682641168354, \"event_type\": "
        "\"INTERVAL_START\", \"key\": \"block_start\", \"value\": null, \"metadata\": "
        "{\"first_epoch_num\": 0}}\n"
        ":::MLLOG {\"namespace\": \"\", \"time_ms\": 1682641168355, \"event_type\": "
        "\"INTERVAL_END\", \"key\": \"run_stop\", \"value\": null, \"metadata\": "
        "{\"status\": \"success\"}}\n");
}

// The text behind "value": of the last line.
static void last_value_is(const char *value)
{
    Buf b = {0};
    char want[256];
    assert_int_equal(file_read(path, &b, NULL), ERR_NONE);
    assert_int_equal(buf_append(&b, "", 1, NULL), ERR_NONE);
    const char *last = b.data, *s = b.data;
    while ((s = strstr(s, "\"value\": ")) != NULL) last = s++;
    snprintf(want, sizeof want, "\"value\": %s, \"metadata\": {}}\n", value);
    assert_string_equal(last, want);
    buf_free(&b);
}

static void values_are_json(void **state)
{
    (void)state;
    MlLog l;
    bool empty;
    assert_int_equal(mllog_open(&l, path, &empty, NULL), ERR_NONE);
    mllog_text(&l, "submission_org", "a \"b\" \\ c\n");
    last_value_is("\"a \\\"b\\\" \\\\ c\\u000a\"");
    mllog_int(&l, "seed", INT64_MAX);
    last_value_is("9223372036854775807");
    mllog_number(&l, "opt_base_learning_rate", 0.00096);
    last_value_is("0.00096");
    mllog_number(&l, "opt_lamb_beta_1", 1.0 / 3);
    last_value_is("0.33333333333333331");
    mllog_number(&l, "eval_accuracy", (double)NAN);
    last_value_is("null");
    mllog_close(&l);
    mllog_int(&l, "seed", 1); // of a closed log: nowhere
    last_value_is("null");
}

static void lines_of_others_stay_a_run_s_log_is_refused(void **state)
{
    (void)state;
    MlLog l;
    bool empty;
    Err err;
    const char *const note = ":::MLLOG {\"key\": \"cache_clear\"}\n";
    assert_int_equal(file_replace(path, note, strlen(note), NULL), ERR_NONE);
    assert_int_equal(mllog_open(&l, path, &empty, NULL), ERR_NONE);
    assert_false(empty);
    expect_file(note);
    mllog_event(&l, 1, MLLOG_START, "init_start", "null", "");
    mllog_close(&l);
    assert_int_equal(mllog_open(&l, path, &empty, &err), ERR_USAGE);
    assert_non_null(strstr(err.text, "holds the log of a run already"));
    assert_int_equal(l.fd, -1);
    snprintf(path, sizeof path, "%s/none/result.txt", folder);
    assert_int_equal(mllog_open(&l, path, &empty, &err), ERR_IO);
}

static void a_full_disk_ends_nothing(void **state)
{
    (void)state;
    MlLog l;
    bool empty;
    if (!file_exists("/dev/full")) skip();
    assert_int_equal(mllog_open(&l, "/dev/full", &empty, NULL), ERR_NONE);
    mllog_int(&l, "seed", 1);
    mllog_int(&l, "seed", 2);
    assert_true(l.failing);
    mllog_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_line_is_as_the_checker_reads_it, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(values_are_json, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(lines_of_others_stay_a_run_s_log_is_refused, make_folder,
                                        remove_folder),
        cmocka_unit_test(a_full_disk_ends_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
