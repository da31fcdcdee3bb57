// test_train.c -- tokenizer_train and tokenizer_save.
//
// SPDX-License-Identifier: MIT
#include "support.h"

static Tokenizer *train(const char *type, int64_t vocab_size, int threads, const void *text,
                        size_t n)
{
    Tokenizer *t = NULL;
    Err err = {0};
    must(tokenizer_train(&t, &(TokenizerTrain){type, vocab_size, threads, NULL}, text, n, &err),
         &err);
    return t;
}

static void expect_token(const Tokenizer *t, int32_t id, const char *want)
{
    size_t n = 0;
    const char *got = tokenizer_token(t, id, &n);
    assert_non_null(got);
    assert_string_equal(got, want);
    assert_int_equal(n, strlen(want));
}

// Words of a made-up language: frequent pairs at every length.
static void make_text(Buf *out, size_t bytes)
{
    static const char *const parts[] = {"ka",       "to", "ri", "sen", "mu",
                                        "\xC3\xA9", "lo", "x",  "ing", "th"};
    uint64_t seed = 12345;
    Err err = {0};
    while (out->len < bytes) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint32_t r = (uint32_t)(seed >> 33);
        int many = 1 + (int)(r % 4);
        while (many-- > 0) {
            must(buf_puts(out, parts[(r % 97) % 10], &err), &err);
            r = r * 1103515245u + 12345u;
        }
        must(buf_puts(out, r % 11 ? " " : ".\n", &err), &err);
    }
}

static void the_most_frequent_pair_is_merged_first_and_ties_go_to_the_smaller_ids(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *tokens[4]; // ids 256 ...
    } cases[] = {
        // (a,b) occurs three times; of those that occur twice, ids decide: a space has the id 220.
        {"ab ab ab cd cd", {"ab", "cd", " ab", " cd"}},
        {"zz zz yy yy", {"yy", "zz", " yy"}},
        // Overlapping pairs: from the left.
        {"aaaa aaaa", {"aa", "aaaa"}},
        {"aaa.aaa", {"aa", "aaa"}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        Tokenizer *t = train("bpe", 1000, 1, cases[c].text, strlen(cases[c].text));
        for (int32_t k = 0; k < 4 && cases[c].tokens[k]; k++)
            expect_token(t, 256 + k, cases[c].tokens[k]);
        expect_round_trip(t, cases[c].text, strlen(cases[c].text));
        tokenizer_close(t);
    }
}

static void base_ids_are_in_gpt2s_order_and_the_end_token_is_last(void **state)
{
    (void)state;
    Tokenizer *t = train("bpe", 257, 1, "hello hello", 11);
    assert_int_equal(tokenizer_vocab_size(t), 257);
    assert_int_equal(tokenizer_end_token(t), 256);
    assert_string_equal(tokenizer_kind(t), "bpe");
    expect_token(t, 0, "!");
    expect_token(t, 93, "~");
    expect_token(t, 94, "\xA1");
    expect_token(t, 220, " ");
    expect_token(t, 256, "<|endoftext|>");
    tokenizer_close(t);
}

static void merges_do_not_depend_on_threads(void **state)
{
    (void)state;
    Buf text = {0};
    make_text(&text, 400000);
    Tokenizer *one = train("bpe", 1500, 1, text.data, text.len);
    assert_int_equal(tokenizer_vocab_size(one), 1500);
    for (int threads = 2; threads <= 9; threads += 7) {
        Tokenizer *many = train("bpe", 1500, threads, text.data, text.len);
        assert_true(tokenizer_fingerprint(one) == tokenizer_fingerprint(many));
        for (int32_t id = 0; id < 1500; id++)
            assert_string_equal(tokenizer_token(one, id, NULL), tokenizer_token(many, id, NULL));
        tokenizer_close(many);
    }
    // The same on every machine: this value was written down on one.
    assert_int_equal(tokenizer_fingerprint(one), 0xBE39D50EBC7AA8CBu);
    tokenizer_close(one);
    buf_free(&text);
}

static void a_trained_tokenizer_saves_and_loads_in_every_form(void **state)
{
    (void)state;
    Buf text = {0};
    make_text(&text, 50000);
    Tokenizer *t = train("bpe", 600, 1, text.data, text.len);
    Path dir = scratch_new();
    Err err = {0};
    must(tokenizer_save(t, dir.s, &err), &err);
    static const char *const names[] = {"", "tokenizer.json", "vocab.json", "merges.txt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        Tokenizer *u = load(path_in(dir.s, names[i]).s, NULL);
        assert_true(tokenizer_fingerprint(t) == tokenizer_fingerprint(u));
        TokenIds a = encode(t, text.data, text.len, 1), b = encode(u, text.data, text.len, 1);
        assert_int_equal(a.n, b.n);
        assert_memory_equal(a.id, b.id, (size_t)a.n * sizeof *a.id);
        token_ids_free(&a);
        token_ids_free(&b);
        tokenizer_close(u);
    }
    // A character tokenizer in the same folder leaves nothing of the other behind.
    Tokenizer *c = train("char", 0, 1, text.data, text.len);
    must(tokenizer_save(c, dir.s, &err), &err);
    assert_false(file_exists(path_in(dir.s, "vocab.json").s));
    assert_false(file_exists(path_in(dir.s, "merges.txt").s));
    tokenizer_close(c);
    tokenizer_close(t);
    buf_free(&text);
    scratch_remove(&dir);
}

static void what_an_added_token_takes_around_it_survives_saving(void **state)
{
    (void)state;
    static const char *const fields[] = {"lstrip", "rstrip", "single_word"};
    Path dir = scratch_new();
    Err err = {0};
    Buf json = {0};
    must(file_read(golden_path("tiny.json").s, &json, &err), &err);
    static const char list[] = "\"added_tokens\": [";
    const char *at = strstr(json.data, list);
    assert_non_null(at);
    for (int set = 0; set < 8; set++) {
        Buf text = {0};
        must(buf_append(&text, json.data, (size_t)(at - json.data), &err), &err);
        must(buf_printf(&text, &err, "%s{\"id\": 400, \"content\": \"<x>\", \"special\": true",
                        list),
             &err);
        for (int f = 0; f < 3; f++)
            must(
                buf_printf(&text, &err, ", \"%s\": %s", fields[f], set >> f & 1 ? "true" : "false"),
                &err);
        must(buf_printf(&text, &err, "},%s", at + strlen(list)), &err);
        Tokenizer *t = load(scratch_file(&dir, "in.json", text.data, text.len).s, NULL);
        must(tokenizer_save(t, dir.s, &err), &err);
        Buf saved = {0};
        must(file_read(path_in(dir.s, "tokenizer.json").s, &saved, &err), &err);
        const char *token = strstr(saved.data, "\"<x>\"");
        assert_non_null(token);
        const size_t length = strcspn(token, "}");
        for (int f = 0; f < 3; f++) {
            char want[32];
            snprintf(want, sizeof want, "\"%s\": %s", fields[f], set >> f & 1 ? "true" : "false");
            const char *found = strstr(token, want);
            assert_true(found && found < token + length);
        }
        Tokenizer *u = load(dir.s, NULL);
        assert_true(tokenizer_fingerprint(t) == tokenizer_fingerprint(u));
        tokenizer_close(t);
        tokenizer_close(u);
        buf_free(&text);
        buf_free(&saved);
    }
    buf_free(&json);
    scratch_remove(&dir);
}

static void different_tokenizers_have_different_fingerprints(void **state)
{
    (void)state;
    Tokenizer *t[5] = {
        train("bpe", 259, 1, "ab ab cd cd", 11),        train("bpe", 258, 1, "ab ab cd cd", 11),
        train("bpe", 259, 1, "ab ab ce ce", 11),        train("char", 0, 1, "ab", 2),
        load(golden_path("tiny.tiktoken").s, "cl100k"),
    };
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < i; k++)
            assert_true(tokenizer_fingerprint(t[i]) != tokenizer_fingerprint(t[k]));
    for (int i = 0; i < 5; i++) tokenizer_close(t[i]);
    Tokenizer *a = load(golden_path("tiny.json").s, NULL);
    Tokenizer *b = load(golden_path("tiny.tiktoken").s, "gpt2");
    assert_true(tokenizer_fingerprint(a) == tokenizer_fingerprint(b));
    tokenizer_close(a);
    tokenizer_close(b);
}

static void characters_are_numbered_in_order_and_survive_saving(void **state)
{
    (void)state;
    // NUL, control characters, quotes, two to four bytes, and bytes that are no UTF-8.
    static const char text[] =
        "ba\n\"\\\x7F\x01\0\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80\xFF\x80<0xFF>";
    const size_t n = sizeof text - 1;
    Tokenizer *t = train("char", 0, 1, text, n);
    static const char *const want[] = {"",
                                       "\x01",
                                       "\n",
                                       "\"",
                                       "0",
                                       "<",
                                       ">",
                                       "F",
                                       "\\",
                                       "a",
                                       "b",
                                       "x",
                                       "\x7F",
                                       "\xC3\xA9",
                                       "\xE4\xB8\xAD",
                                       "\xF0\x9F\x98\x80",
                                       "\x80",
                                       "\xFF"};
    assert_int_equal(tokenizer_vocab_size(t), sizeof want / sizeof *want);
    for (int32_t id = 1; id < 18; id++) expect_token(t, id, want[id]);
    assert_int_equal(tokenizer_end_token(t), -1);
    expect_round_trip(t, text, n);
    Path dir = scratch_new();
    Err err = {0};
    must(tokenizer_save(t, dir.s, &err), &err);
    Tokenizer *u = load(dir.s, NULL);
    assert_string_equal(tokenizer_kind(u), "char");
    assert_true(tokenizer_fingerprint(t) == tokenizer_fingerprint(u));
    expect_round_trip(u, text, n);
    tokenizer_close(t);
    tokenizer_close(u);
    scratch_remove(&dir);
}

static void an_unknown_character_is_named_with_its_offset(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"abc", "character 'c' (U+0063) at offset 2 is not in the vocabulary"},
        {"a\xC3\xA9", "character '\xC3\xA9' (U+00E9) at offset 1 is not in the vocabulary"},
        {"ab\n", "character U+000A at offset 2 is not in the vocabulary"},
        {"\xFF", "byte 0xFF at offset 0 is not in the vocabulary"},
    };
    Tokenizer *t = train("char", 0, 1, "ab", 2);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        Err err = {0};
        TokenIds ids = {0};
        assert_int_equal(
            tokenizer_encode(t, cases[c].text, strlen(cases[c].text), false, 1, &ids, &err),
            ERR_FORMAT);
        assert_string_equal(err.text, cases[c].message);
        assert_int_equal(ids.n, 0);
        token_ids_free(&ids);
    }
    // With threads, the first one in the text is reported.
    Buf text = {0};
    Err err = {0};
    while (text.len < 3000000) must(buf_puts(&text, "ab", &err), &err);
    text.data[1000000] = 'x';
    text.data[2000000] = 'y';
    TokenIds ids = {0};
    assert_int_equal(tokenizer_encode(t, text.data, text.len, false, 4, &ids, &err), ERR_FORMAT);
    assert_string_equal(err.text,
                        "character 'x' (U+0078) at offset 1000000 is not in the vocabulary");
    token_ids_free(&ids);
    buf_free(&text);
    tokenizer_close(t);
}

static void what_cannot_be_trained_is_refused(void **state)
{
    (void)state;
    static const struct {
        TokenizerTrain how;
        const char *text, *message;
        Status status;
    } cases[] = {
        {{"bpe", 300, 1, NULL}, "", "no text", ERR_FORMAT},
        {{"char", 0, 1, NULL}, "", "no text", ERR_FORMAT},
        {{"bpe", 256, 1, NULL}, "a", "not between 257 and", ERR_USAGE},
        {{"bpe", -1, 1, NULL}, "a", "not between 257 and", ERR_USAGE},
        {{"bpe", INT64_MAX, 1, NULL}, "a", "not between 257 and", ERR_USAGE},
        {{"bpe", 300, 1, "o200k"}, "a", "no pattern is called \"o200k\"", ERR_USAGE},
        {{"morse", 300, 1, NULL}, "a", "no tokenizer of type \"morse\"", ERR_USAGE},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        Err err = {0};
        Tokenizer *t = NULL;
        assert_int_equal(
            tokenizer_train(&t, &cases[c].how, cases[c].text, strlen(cases[c].text), &err),
            cases[c].status);
        assert_null(t);
        assert_non_null(strstr(err.text, cases[c].message));
    }
}

static void training_on_one_long_piece_takes_no_quadratic_time(void **state)
{
    (void)state;
    Buf text = {0};
    Err err = {0};
    while (text.len < 2000000) must(buf_puts(&text, "abcab", &err), &err);
    Tokenizer *t = train("bpe", 1000, 1, text.data, text.len);
    expect_round_trip(t, text.data, text.len);
    tokenizer_close(t);
    buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_most_frequent_pair_is_merged_first_and_ties_go_to_the_smaller_ids),
        cmocka_unit_test(base_ids_are_in_gpt2s_order_and_the_end_token_is_last),
        cmocka_unit_test(merges_do_not_depend_on_threads),
        cmocka_unit_test(a_trained_tokenizer_saves_and_loads_in_every_form),
        cmocka_unit_test(what_an_added_token_takes_around_it_survives_saving),
        cmocka_unit_test(different_tokenizers_have_different_fingerprints),
        cmocka_unit_test(characters_are_numbered_in_order_and_survive_saving),
        cmocka_unit_test(an_unknown_character_is_named_with_its_offset),
        cmocka_unit_test(what_cannot_be_trained_is_refused),
        cmocka_unit_test(training_on_one_long_piece_takes_no_quadratic_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
