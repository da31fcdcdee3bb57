// test_json_text.c -- engine/base/json_text.h
//
// What happens when memory is out is walked through by tests/faults.
//
// SPDX-License-Identifier: MIT
#include "engine/base/json_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void values_outlive_the_parse(void **state)
{
    (void)state;
    json_error_t why;
    json_t *o;
    Err err;
    const char *text = "{\"a\": [1, 2.5, \"\\u00e9\"], \"b\": {}}";
    json_text_init();
    assert_int_equal(json_text_parse(&o, text, strlen(text), 0, &why, &err), ERR_NONE);
    assert_string_equal(json_string_value(json_array_get(json_object_get(o, "a"), 2)), "\xc3\xa9");
    json_decref(o);
}

static void long_texts_come_in_pieces(void **state)
{
    (void)state;
    enum { N = 5000 };
    static char text[N + 3];
    json_error_t why;
    json_t *o;
    Err err;
    memset(text, 'x', sizeof text);
    text[0] = text[N + 1] = '"';
    assert_int_equal(json_text_parse(&o, text, N + 2, JSON_DECODE_ANY, &why, &err), ERR_NONE);
    assert_int_equal(json_string_length(o), N);
    json_decref(o);
}

static void what_is_no_json_is_told_with_its_place(void **state)
{
    (void)state;
    json_error_t why;
    json_t *o;
    Err err;
    const struct {
        const char *text;
        int line;
    } cases[] = {{"", 1}, {"{\"a\":\n", 2}, {"{} x", 1}, {"[1,\n\n]", 3}, {"[\"\xff\"]", 1}};
    for (size_t i = 0; i < LT_COUNT(cases); i++) {
        const char *text = cases[i].text;
        assert_int_equal(json_text_parse(&o, text, strlen(text), 0, &why, &err), ERR_FORMAT);
        assert_null(o);
        assert_int_equal(why.line, cases[i].line);
        assert_non_null(strstr(err.text, "not JSON: "));
        assert_true(why.text[0] != 0);
    }
}

static void a_text_is_appended(void **state)
{
    (void)state;
    json_error_t why;
    json_t *o;
    Err err;
    Buf b = {0};
    const char *text = "{\"b\": [1, true], \"a\": \"\\n\"}";
    assert_int_equal(json_text_parse(&o, text, strlen(text), 0, &why, &err), ERR_NONE);
    assert_int_equal(buf_puts(&b, "> ", &err), ERR_NONE);
    assert_int_equal(json_text_append(&b, o, JSON_PRESERVE_ORDER, &err), ERR_NONE);
    assert_memory_equal(b.data, "> ", 2);
    assert_string_equal(b.data + 2, text);
    buf_free(&b);
    json_decref(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_outlive_the_parse),
        cmocka_unit_test(long_texts_come_in_pieces),
        cmocka_unit_test(what_is_no_json_is_told_with_its_place),
        cmocka_unit_test(a_text_is_appended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
