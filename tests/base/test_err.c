// test_err.c -- engine/base/err.h
//
// SPDX-License-Identifier: MIT
#include "engine/base/err.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static Status inner(int n, Err *err)
{
    if (n < 0) return err_set(err, ERR_FORMAT, "n = %d", n);
    return ERR_NONE;
}

static Status outer(int n, Err *err)
{
    TRY_CTX(inner(n, err), err, "reading %s", "a");
    TRY(inner(n - 1, err));
    return ERR_NONE;
}

static void text_has_cause_first_and_context_behind(void **state)
{
    (void)state;
    Err err;
    assert_int_equal(outer(5, &err), ERR_NONE);
    assert_int_equal(outer(-1, &err), ERR_FORMAT);
    assert_int_equal(err.code, ERR_FORMAT);
    assert_string_equal(err.text, "n = -1\n  while reading a");
    assert_string_equal(err.hint, "");
    assert_int_equal(outer(0, &err), ERR_FORMAT); // TRY adds nothing; the old text is gone
    assert_string_equal(err.text, "n = -1");
}

static void code_travels_without_an_err(void **state)
{
    (void)state;
    assert_int_equal(outer(-1, NULL), ERR_FORMAT);
    assert_int_equal(err_errno(NULL, ENOENT, "open x"), ERR_IO);
    err_hint(NULL, "nothing happens");
}

static void no_control_character_reaches_the_terminal(void **state)
{
    (void)state;
    Err err;
    assert_int_equal(err_set(&err, ERR_IO, "open %s", "a\x1b[2J\r\x7f\nb"), ERR_IO);
    assert_string_equal(err.text, "open a?[2J??\nb");
}

static void errno_text_follows_the_message(void **state)
{
    (void)state;
    Err err;
    assert_int_equal(err_errno(&err, ENOENT, "open %s", "x/y"), ERR_IO);
    assert_string_equal(err.text, "open x/y: No such file or directory");
}

static void long_texts_are_cut_not_overrun(void **state)
{
    (void)state;
    char word[4000];
    memset(word, 'w', sizeof word);
    word[sizeof word - 1] = 0;
    struct {
        Err  err;
        char guard[16];
    } box;
    memset(box.guard, 7, sizeof box.guard);
    Status s = err_set(&box.err, ERR_IO, "%s", word);
    for (int i = 0; i < 3; i++) s = err_add(&box.err, s, "%s", word);
    err_hint(&box.err, "%s", word);
    s = err_errno(&box.err, ENOENT, "%s", word);
    assert_int_equal(s, ERR_IO);
    assert_in_range(strlen(box.err.text), 1000, sizeof box.err.text - 1);
    // The middle of a long path goes, never the reason.
    assert_non_null(strstr(box.err.text, "w ... w"));
    assert_non_null(strstr(box.err.text, "w: No such file or directory"));
    s = err_set(&box.err, ERR_IO, "%s: no such folder", word);
    assert_int_equal(s, ERR_IO);
    assert_non_null(strstr(box.err.text, "w: no such folder"));
    assert_string_equal(box.err.hint, ""); // a new cause has no hint yet
    for (size_t i = 0; i < sizeof box.guard; i++) assert_int_equal(box.guard[i], 7);
}

static void hint_replaces_the_hint_before(void **state)
{
    (void)state;
    Err err;
    err_clear(&err);
    err_hint(&err, "try %d", 1);
    err_hint(&err, "try %d", 2);
    assert_string_equal(err.hint, "try 2");
}

static void exit_codes_are_those_of_the_manual(void **state)
{
    (void)state;
    static const struct {
        Status      code;
        int         exit_code;
        const char *name;
    } cases[] = {{ERR_NONE, 0, "none"},     {ERR_USAGE, 2, "usage"},
                 {ERR_IO, 1, "io"},         {ERR_FORMAT, 3, "format"},
                 {ERR_NOMEM, 1, "nomem"},   {ERR_DEVICE, 1, "device"},
                 {ERR_UNSUPPORTED, 2, "unsupported"}, {ERR_DIVERGED, 4, "diverged"},
                 {ERR_STOPPED, 5, "stopped"}};
    for (size_t i = 0; i < LT_COUNT(cases); i++) {
        assert_int_equal(err_exit_code(cases[i].code), cases[i].exit_code);
        assert_string_equal(err_name(cases[i].code), cases[i].name);
    }
    assert_string_equal(err_name((Status)99), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_has_cause_first_and_context_behind),
        cmocka_unit_test(code_travels_without_an_err),
        cmocka_unit_test(no_control_character_reaches_the_terminal),
        cmocka_unit_test(errno_text_follows_the_message),
        cmocka_unit_test(long_texts_are_cut_not_overrun),
        cmocka_unit_test(hint_replaces_the_hint_before),
        cmocka_unit_test(exit_codes_are_those_of_the_manual),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
