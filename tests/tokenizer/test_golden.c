// test_golden.c -- ids equal to tiktoken's, with a small vocabulary that is committed and with one
// that shows every boundary. See scripts/golden_tokenizer.py.
//
// SPDX-License-Identifier: MIT
#include "support.h"

static void small_vocabulary_gives_tiktokens_ids(void **state)
{
    (void)state;
    static const struct {
        const char *file, *pattern, *encoding;
    } cases[] = {
        {"tiny.json", NULL, "tiny-gpt2"},
        {"tiny.tiktoken", "gpt2", "tiny-gpt2"},
        {"tiny.tiktoken", "cl100k", "tiny-cl100k"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Tokenizer *t = load(golden_path(cases[i].file).s, cases[i].pattern);
        assert_true(expect_golden(t, cases[i].encoding, NULL) > 60);
        assert_int_equal(tokenizer_vocab_size(t), 400);
        assert_int_equal(tokenizer_end_token(t), 399);
        tokenizer_close(t);
    }
}

// All bytes, and each end of a character with each beginning of a non-ASCII one: whether a
// character stands in the piece of the one before it shows in the ids.
static void every_code_point_has_tiktokens_class(void **state)
{
    (void)state;
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static const char ends[] = "x '1";
    Buf ranks = {0};
    Err err = {0};
    int rank = 0;
    for (; rank < 256; rank++)
        must(buf_printf(&ranks, &err, "%c%c== %d\n", digits[rank >> 2], digits[(rank & 3) << 4],
                        rank),
             &err);
    for (int a = 0; a < 4 + 64; a++)
        for (int b = 0xC2; b < 0xF5; b++) {
            const int byte = a < 4 ? ends[a] : 0x80 + a - 4, bits = byte << 8 | b;
            must(buf_printf(&ranks, &err, "%c%c%c= %d\n", digits[bits >> 10],
                            digits[bits >> 4 & 63], digits[(bits & 15) << 2], rank++),
                 &err);
        }
    Path dir = scratch_new();
    Path file = scratch_file(&dir, "probe.tiktoken", ranks.data, ranks.len);
    static const char *const patterns[2] = {"gpt2", "cl100k"};
    for (int i = 0; i < 2; i++) {
        Tokenizer *t = load(file.s, patterns[i]);
        char encoding[32];
        snprintf(encoding, sizeof encoding, "probe-%s", patterns[i]);
        assert_int_equal(expect_golden(t, encoding, NULL), 5);
        tokenizer_close(t);
    }
    buf_free(&ranks);
    scratch_remove(&dir);
}

static uint32_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

static void any_bytes_come_back(void **state)
{
    (void)state;
    Tokenizer *t[3] = {load(golden_path("tiny.json").s, NULL),
                       load(golden_path("tiny.tiktoken").s, "cl100k"), NULL};
    Err err = {0};
    char all[256];
    for (int b = 0; b < 256; b++) all[b] = (char)b;
    must(tokenizer_train(&t[2], &(TokenizerTrain){.type = "char"}, all, 256, &err), &err);
    uint64_t seed = 1;
    for (int k = 0; k < 100000; k++) {
        uint8_t text[64];
        const int n = (int)(next_random(&seed) % sizeof text);
        // Half of them from few values, so that merges and broken sequences are frequent.
        static const uint8_t few[] = " \n'etaxh01.\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80\xED\xA0\xFF";
        for (int i = 0; i < n; i++)
            text[i] =
                k & 1 ? (uint8_t)next_random(&seed) : few[next_random(&seed) % (sizeof few - 1)];
        expect_round_trip(t[k % 3 == 2 && (k & 1) ? 0 : k % 2], text, (size_t)n);
    }
    // The character tokenizer knows the bytes it saw; each stood alone there.
    expect_round_trip(t[2], all, 256);
    for (int i = 0; i < 3; i++) tokenizer_close(t[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_vocabulary_gives_tiktokens_ids),
        cmocka_unit_test(every_code_point_has_tiktokens_class),
        cmocka_unit_test(any_bytes_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
