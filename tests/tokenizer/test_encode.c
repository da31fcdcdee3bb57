// test_encode.c -- tokenizer.h: threads, special tokens, streaming, long pieces, errors.
//
// SPDX-License-Identifier: MIT
#include "support.h"

#include <time.h>

static Tokenizer *tiny(void)
{
    return load(golden_path("tiny.json").s, NULL);
}

static void expect_ids(const TokenIds *got, const int32_t *want, int64_t n)
{
    assert_int_equal(got->n, n);
    for (int64_t i = 0; i < n; i++) assert_int_equal(got->id[i], want[i]);
}

static void threads_do_not_change_ids(void **state)
{
    (void)state;
    static const struct {
        const char *file, *pattern, *unit;
    } cases[] = {
        {"tiny.json", NULL, "It's what we're after: 1851 whales, \n\n and  more!  "},
        {"tiny.tiktoken", "cl100k", "It's what we're after: 1851 whales, \n\n and  more!  "},
        {"tiny.json", NULL, "no_place_to_cut_at_all"},
        {"tiny.json", NULL, "\xE4\xBD\xA0\xE5\xA5\xBD "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Tokenizer *t = load(golden_path(cases[i].file).s, cases[i].pattern);
        Buf text = {0};
        Err err = {0};
        for (int k = 0; text.len < 3000000; k++)
            must(buf_printf(&text, &err, "%s%d", cases[i].unit, k % 1000 * 7 % 1000), &err);
        TokenIds one = encode(t, text.data, text.len, 1);
        for (int threads = 2; threads <= 7; threads += 5) {
            TokenIds many = encode(t, text.data, text.len, threads);
            assert_int_equal(one.n, many.n);
            assert_memory_equal(one.id, many.id, (size_t)one.n * sizeof *one.id);
            token_ids_free(&many);
        }
        token_ids_free(&one);
        buf_free(&text);
        tokenizer_close(t);
    }
}

static void ids_are_appended(void **state)
{
    (void)state;
    Tokenizer *t = tiny();
    TokenIds ids = {0};
    Err err = {0};
    must(token_ids_push(&ids, 7, &err), &err);
    must(tokenizer_encode(t, "!", 1, false, 1, &ids, &err), &err);
    must(tokenizer_encode(t, NULL, 0, false, 1, &ids, &err), &err);
    expect_ids(&ids, (const int32_t[]){7, 0}, 2);
    token_ids_free(&ids);
    tokenizer_close(t);
}

static void special_tokens_are_text_unless_allowed(void **state)
{
    (void)state;
    static const char text[] = "a<|endoftext|>\n<|endoftext|><|endoftext";
    Tokenizer *t = tiny();
    Err err = {0};
    for (int allow = 0; allow < 2; allow++) {
        TokenIds ids = {0};
        Buf back = {0};
        int ends = 0;
        must(tokenizer_encode(t, text, sizeof text - 1, allow, 1, &ids, &err), &err);
        for (int64_t i = 0; i < ids.n; i++) ends += ids.id[i] == tokenizer_end_token(t);
        assert_int_equal(ends, allow ? 2 : 0);
        must(tokenizer_decode(t, ids.id, ids.n, &back, &err), &err);
        assert_string_equal(back.data, text);
        buf_free(&back);
        token_ids_free(&ids);
    }
    tokenizer_close(t);
}

static void added_tokens_that_are_not_special_always_match_and_the_longest_wins(void **state)
{
    (void)state;
    Path dir = scratch_new();
    Err err = {0};
    Buf json = {0};
    must(file_read(golden_path("tiny.json").s, &json, &err), &err);
    static const char list[] = "\"added_tokens\": [";
    char *at = strstr(json.data, list);
    assert_non_null(at);
    Buf text = {0};
    must(buf_append(&text, json.data, (size_t)(at - json.data), &err), &err);
    must(buf_printf(&text, &err,
                    "%s{\"id\": 400, \"content\": \"<x>\", \"special\": false},"
                    "{\"id\": 402, \"content\": \"<x><x>\", \"special\": false},%s",
                    list, at + strlen(list)),
         &err);
    Path file = scratch_file(&dir, "more.json", text.data, text.len);
    Tokenizer *t = load(file.s, NULL);
    TokenIds ids = encode(t, "<x><x><x>!", 10, 1);
    expect_ids(&ids, (const int32_t[]){402, 400, 0}, 3);
    assert_int_equal(tokenizer_vocab_size(t), 403);
    assert_null(tokenizer_token(t, 401, NULL)); // a hole
    Buf out = {0};
    assert_int_equal(tokenizer_decode(t, &(int32_t){401}, 1, &out, &err), ERR_FORMAT);
    token_ids_free(&ids);
    tokenizer_close(t);
    buf_free(&text);
    buf_free(&json);
    scratch_remove(&dir);
}

static void streaming_holds_back_incomplete_characters_only(void **state)
{
    (void)state;
    // Bytes in (one token each, for bytes are tokens), what comes out after each.
    static const struct {
        const char *bytes;
        const char *out[5];
    } cases[] = {
        {"ab", {"a", "b"}},
        {"\xC3\xA9!", {"", "\xC3\xA9", "!"}},
        {"\xE4\xB8\xAD", {"", "", "\xE4\xB8\xAD"}},
        {"\xF0\x9F\x98\x80", {"", "", "", "\xF0\x9F\x98\x80"}},
        {"\xFFz", {"\xFF", "z"}},
        {"\x80\xBF", {"\x80", "\xBF"}},
        {"\xC3z", {"", "\xC3z"}},
        {"\xE4\xB8z", {"", "", "\xE4\xB8z"}},
        {"\xED\xA0z", {"", "\xED\xA0", "z"}},       // would be a surrogate
        {"\xE0\x80z", {"", "\xE0\x80", "z"}},       // would be overlong
        {"\xF4\x90z", {"", "\xF4\x90", "z"}},       // would be above U+10FFFF
        {"\xC3\xC3\xA9", {"", "\xC3", "\xC3\xA9"}}, // one cut short, then a whole one
        {"\xF0\x9F\xE4\xB8\xAD", {"", "", "\xF0\x9F", "", "\xE4\xB8\xAD"}},
    };
    Tokenizer *t = tiny();
    Err err = {0};
    int32_t id_of[256];
    for (int32_t id = 0; id < 256; id++) {
        size_t n = 0;
        const char *bytes = tokenizer_token(t, id, &n);
        assert_int_equal(n, 1);
        id_of[(uint8_t)*bytes] = id;
    }
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        Buf pending = {0};
        for (size_t i = 0; cases[c].bytes[i]; i++) {
            Buf out = {0};
            must(
                tokenizer_decode_stream(t, id_of[(uint8_t)cases[c].bytes[i]], &pending, &out, &err),
                &err);
            if (strcmp(out.data, cases[c].out[i]) != 0) fail_msg("case %zu, byte %zu", c, i);
            buf_free(&out);
        }
        assert_int_equal(pending.len, 0);
        buf_free(&pending);
    }
    tokenizer_close(t);
}

// A quadratic loop would take hours on these; the bound is for a slow machine with sanitizers.
static void long_pieces_take_no_quadratic_time(void **state)
{
    (void)state;
    static const char *const units[] = {"a", " ", "ab", "\xF0\x9F\x98\x80", "\xFF"};
    enum { BYTES = 1000000, SECONDS = 60 };
    Tokenizer *t[2] = {tiny(), load(golden_path("tiny.tiktoken").s, "cl100k")};
    Err err = {0};
    for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
        Buf text = {0};
        while (text.len < BYTES) must(buf_puts(&text, units[u], &err), &err);
        const clock_t start = clock();
        for (int k = 0; k < 2; k++) expect_round_trip(t[k], text.data, text.len);
        assert_true((double)(clock() - start) / CLOCKS_PER_SEC < SECONDS);
        buf_free(&text);
    }
    tokenizer_close(t[0]);
    tokenizer_close(t[1]);
}

// The two ways to merge a piece must agree where one takes over from the other.
static void long_and_short_pieces_merge_alike(void **state)
{
    (void)state;
    Tokenizer *t = tiny();
    size_t longest = 0;
    // In a run of one character whose tokens are powers of two, merging from the left leaves the
    // tokens in falling order of length, each length but the largest at most once.
    for (int n = 1; n <= 200; n++) {
        char text[256];
        memset(text, '=', (size_t)n);
        TokenIds ids = encode(t, text, (size_t)n, 1);
        int64_t total = 0;
        for (int64_t i = 0; i < ids.n; i++) {
            size_t bytes = 0;
            (void)tokenizer_token(t, ids.id[i], &bytes);
            longest = bytes > longest ? bytes : longest;
            if (i > 0) {
                size_t before = 0;
                (void)tokenizer_token(t, ids.id[i - 1], &before);
                assert_true(before > bytes || (before == bytes && before == longest));
            }
            total += (int64_t)bytes;
        }
        assert_int_equal(total, n);
        token_ids_free(&ids);
    }
    tokenizer_close(t);
}

static void ids_outside_the_vocabulary_are_an_error(void **state)
{
    (void)state;
    static const int32_t bad[] = {-1, 400, INT32_MAX, INT32_MIN};
    Tokenizer *t = tiny();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        Err err = {0};
        Buf out = {0}, pending = {0};
        const int32_t id[2] = {1, bad[i]};
        assert_int_equal(tokenizer_decode(t, id, 2, &out, &err), ERR_FORMAT);
        assert_non_null(strstr(err.text, "is not in the vocabulary of 400 ids"));
        assert_int_equal(out.len, 0);
        assert_int_equal(tokenizer_decode_stream(t, bad[i], &pending, &out, &err), ERR_FORMAT);
        assert_null(tokenizer_token(t, bad[i], NULL));
    }
    tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_do_not_change_ids),
        cmocka_unit_test(ids_are_appended),
        cmocka_unit_test(special_tokens_are_text_unless_allowed),
        cmocka_unit_test(added_tokens_that_are_not_special_always_match_and_the_longest_wins),
        cmocka_unit_test(streaming_holds_back_incomplete_characters_only),
        cmocka_unit_test(long_pieces_take_no_quadratic_time),
        cmocka_unit_test(long_and_short_pieces_merge_alike),
        cmocka_unit_test(ids_outside_the_vocabulary_are_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
