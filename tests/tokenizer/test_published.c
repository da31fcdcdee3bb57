// test_published.c -- ids equal to tiktoken's with the published GPT-2 and cl100k vocabularies,
// which are too large to be committed. They are looked for in $LATHE_SHARED/data; without them:
// skipped.
//
// SPDX-License-Identifier: MIT
#include "support.h"

static Path shared(const char *name)
{
    const char *dir = getenv("LATHE_SHARED");
    return path_in(path_in(dir ? dir : "../shared", "data").s, name);
}

static void ids_are_tiktokens(void **state)
{
    (void)state;
    static const struct {
        const char *file, *encoding;
        int64_t vocab_size;
        int32_t end_token;
    } cases[] = {
        {"gpt2", "gpt2", 50257, 50256},
        {"tokenizer-vectors/cl100k_base.tiktoken", "cl100k", 100277, 100257},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Tokenizer *t = load(shared(cases[i].file).s, NULL);
        assert_true(expect_golden(t, cases[i].encoding, shared("text").s) > 60);
        assert_int_equal(tokenizer_vocab_size(t), cases[i].vocab_size);
        assert_int_equal(tokenizer_end_token(t), cases[i].end_token);
        tokenizer_close(t);
    }
}

static void every_form_has_the_same_fingerprint_and_ids(void **state)
{
    (void)state;
    static const char *const files[] = {"gpt2", "tokenizer-vectors/cl100k_base.tiktoken"};
    Err err = {0};
    Buf text = {0};
    must(file_read(shared("text/moby-dick.txt").s, &text, &err), &err);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        Path dir = scratch_new();
        Tokenizer *t = load(shared(files[i]).s, NULL);
        must(tokenizer_save(t, dir.s, &err), &err);
        Tokenizer *u = load(dir.s, NULL);
        assert_true(tokenizer_fingerprint(t) == tokenizer_fingerprint(u));
        TokenIds a = encode(t, text.data, text.len, 1), b = encode(u, text.data, text.len, 4);
        assert_int_equal(a.n, b.n);
        assert_memory_equal(a.id, b.id, (size_t)a.n * sizeof *a.id);
        token_ids_free(&a);
        token_ids_free(&b);
        tokenizer_close(t);
        tokenizer_close(u);
        scratch_remove(&dir);
    }
    buf_free(&text);
}

int main(void)
{
    if (!file_exists(shared("gpt2").s) || !file_exists(shared("tokenizer-vectors").s)) {
        printf("SKIP: no published vocabularies in %s\n", shared("").s);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_tiktokens),
        cmocka_unit_test(every_form_has_the_same_fingerprint_and_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
