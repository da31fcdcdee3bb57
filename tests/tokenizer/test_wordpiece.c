// test_wordpiece.c -- WordPiece: ids and words equal to Hugging Face's, files, training, refusals.
// See scripts/golden_wordpiece.py; scripts/check_wordpiece.py compares much more.
//
// SPDX-License-Identifier: MIT
#include "support.h"
#include "tokenizer/tokenizer_impl.h"

static void small_vocabulary_gives_the_ids_of_hugging_face(void **state)
{
    (void)state;
    static const char *const patterns[] = {"uncased", "cased", "lower"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        char encoding[32];
        snprintf(encoding, sizeof encoding, "small-%s", patterns[i]);
        Tokenizer *t = load(golden_path("small-vocab.txt").s, patterns[i]);
        assert_string_equal(tokenizer_pattern(t), patterns[i]);
        assert_true(expect_golden_in("wordpiece.txt", t, encoding, NULL) > 90);
        tokenizer_close(t);
    }
}

static void published_vocabulary_gives_the_ids_of_hugging_face(void **state)
{
    (void)state;
    const char *shared = getenv("LATHE_SHARED");
    const Path data = path_in(shared ? shared : "../shared", "data");
    const Path dir = path_in(data.s, "bert-base-uncased");
    if (!file_exists(dir.s)) {
        printf("SKIP: no published vocabulary in %s\n", dir.s);
        skip();
    }
    Tokenizer *t = load(dir.s, NULL);
    assert_int_equal(tokenizer_vocab_size(t), 30522);
    assert_int_equal(tokenizer_special(t, "[MASK]"), 103);
    assert_int_equal(
        expect_golden_in("wordpiece.txt", t, "bert-base-uncased", path_in(data.s, "text").s), 4);
    tokenizer_close(t);
}

// The words of a text with one space between two.
static void join_words(const Buf *text, Buf *out, int64_t *n)
{
    Err err = {0};
    const char *at = text->data, *const end = at + text->len;
    int64_t bytes, chars;
    *n = 0;
    must(buf_reserve(out, text->len, &err), &err);
    for (const char *w; (w = bert_word(&at, end, &bytes, &chars));) {
        if ((*n)++) must(buf_puts(out, " ", &err), &err);
        must(buf_append(out, w, (size_t)bytes, &err), &err);
    }
}

static void put_char(Buf *out, uint32_t cp)
{
    uint8_t utf8[4];
    Err err = {0};
    const int n = utf8_encode(cp, utf8);
    must(buf_append(out, utf8, (size_t)n, &err), &err);
}

// As scripts/golden_wordpiece.py makes it.
static Buf normaliser_text(void)
{
    static const uint32_t marks[] = {0x8D4,   0x1B44,  0x302E, 0x1D165, 0x1D16D,
                                     0x11446, 0x1E94A, 0x301,  0x34F};
    enum { N = sizeof marks / sizeof *marks };
    Buf out = {0};
    every_code_point("a", "b ", &out);
    for (int k = 0; k < N * N * N; k++) {
        if (k) put_char(&out, ' ');
        put_char(&out, 'a');
        put_char(&out, marks[k / (N * N)]);
        put_char(&out, marks[k / N % N]);
        put_char(&out, marks[k % N]);
    }
    return out;
}

static void every_code_point_is_normalised_as_hugging_face_does(void **state)
{
    (void)state;
    Buf golden = {0}, text = normaliser_text();
    Err err = {0};
    int lines = 0;
    must(file_read(golden_path("wordpiece.txt").s, &golden, &err), &err);
    for (const char *line = golden.data; line; line = strchr(line, '\n')) {
        unsigned steps, crc;
        long count;
        if (*line == '\n') line++;
        if (sscanf(line, "normal %u %ld %x", &steps, &count, &crc) != 3) continue;
        Buf normal = {0}, words = {0};
        int64_t n;
        must(bert_normalize(steps, (const uint8_t *)text.data, text.len, &normal, &err), &err);
        join_words(&normal, &words, &n);
        if (n != count ||
            crc32(crc32(0, NULL, 0), (const Bytef *)words.data, (uInt)words.len) != crc)
            fail_msg("steps %u: other words, %lld of %ld", steps, (long long)n, count);
        buf_free(&normal);
        buf_free(&words);
        lines++;
    }
    assert_int_equal(lines, 6);
    buf_free(&golden);
    buf_free(&text);
}

// Files ------------------------------------------------------------------------------------------

static void expect_words(const Tokenizer *t, const char *text, const char *tokens)
{
    Buf got = {0};
    Err err = {0};
    TokenIds ids = encode(t, text, strlen(text), 1);
    for (int64_t i = 0; i < ids.n; i++) {
        if (i) must(buf_puts(&got, " ", &err), &err);
        must(buf_puts(&got, tokenizer_token(t, ids.id[i], NULL), &err), &err);
    }
    assert_string_equal(got.len ? got.data : "", tokens);
    token_ids_free(&ids);
    buf_free(&got);
}

static const char *const lines = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nun\n##aff\n##able\nThe\n"
                                 "\xC3\xA9\ne\n.\n,\n'\n##s\ns\n[\n]\nmask\n";

static void a_bare_vocab_txt_is_lower_case(void **state)
{
    (void)state;
    const Path dir = scratch_new();
    const Path file = scratch_file(&dir, "vocab.txt", lines, strlen(lines));
    Tokenizer *t = load(dir.s, NULL);
    assert_string_equal(tokenizer_kind(t), "wordpiece");
    assert_string_equal(tokenizer_pattern(t), "uncased");
    assert_int_equal(tokenizer_end_token(t), 3);
    expect_words(t, "The UNAFFABLE \xC3\x89!", "the un ##aff ##able e [UNK]");
    expect_words(t, "[MASK]", "[ mask ]");
    tokenizer_close(t);
    t = load(file.s, "cased");
    expect_words(t, "The the \xC3\xA9 \xC3\x89", "The the \xC3\xA9 [UNK]");
    tokenizer_close(t);
    t = load(dir.s, "lower");
    expect_words(t, "The \xC3\x89", "the \xC3\xA9");
    tokenizer_close(t);
    // What the file beside it says holds, with Windows' line ends, too.
    static const char config[] = "{\"do_lower_case\": false}";
    scratch_file(&dir, "tokenizer_config.json", config, sizeof config - 1);
    static const char windows[] = "[UNK]\r\nThe\r\nthe\r\n\r\n";
    scratch_file(&dir, "vocab.txt", windows, sizeof windows - 1);
    t = load(file.s, NULL);
    assert_string_equal(tokenizer_pattern(t), "cased");
    assert_int_equal(tokenizer_vocab_size(t), 3);
    assert_int_equal(tokenizer_end_token(t), -1);
    expect_words(t, "The the x", "The the [UNK]");
    tokenizer_close(t);
    scratch_remove(&dir);
}

static void special_tokens_are_ids_when_allowed(void **state)
{
    (void)state;
    const Path dir = scratch_new();
    scratch_file(&dir, "vocab.txt", lines, strlen(lines));
    Tokenizer *t = load(dir.s, NULL);
    static const char text[] = "the[MASK]The [CLS]";
    static const int32_t want[] = {5, 4, 5, 2};
    TokenIds ids = {0};
    Err err = {0};
    must(tokenizer_encode(t, text, strlen(text), true, 1, &ids, &err), &err);
    assert_int_equal(ids.n, 4);
    assert_memory_equal(ids.id, want, sizeof want);
    int32_t before, after;
    tokenizer_around(t, &before, &after);
    assert_int_equal(before, 2);
    assert_int_equal(after, 3);
    assert_true(tokenizer_goes_on(t, 7));
    assert_false(tokenizer_goes_on(t, 5));
    token_ids_free(&ids);
    tokenizer_close(t);
    scratch_remove(&dir);
}

static void decoding_is_readable_text(void **state)
{
    (void)state;
    const Path dir = scratch_new();
    scratch_file(&dir, "vocab.txt", lines, strlen(lines));
    Tokenizer *t = load(dir.s, NULL);
    static const int32_t ids[] = {2, 5, 6, 7, 8, 14, 16, 13, 5, 15, 12, 3};
    Buf text = {0}, stream = {0}, pending = {0};
    Err err = {0};
    must(tokenizer_decode(t, ids, LT_COUNT(ids), &text, &err), &err);
    assert_string_equal(text.data, "[CLS] the unaffable ' s, thes. [SEP]");
    for (size_t i = 0; i < LT_COUNT(ids); i++)
        must(tokenizer_decode_stream(t, ids[i], &pending, &stream, &err), &err);
    assert_string_equal(stream.data + 1, text.data); // it goes on behind other text
    assert_int_equal(pending.len, 0);
    buf_free(&text);
    buf_free(&stream);
    buf_free(&pending);
    tokenizer_close(t);
    scratch_remove(&dir);
}

#define JSON_HEAD                                                                                  \
    "{\"added_tokens\": [{\"id\": 0, \"content\": \"[UNK]\", \"special\": true, \"normalized\": "  \
    "false}], "
#define JSON_NORMAL "\"normalizer\": {\"type\": \"BertNormalizer\", \"strip_accents\": false}, "
#define JSON_PRE    "\"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"}, "
#define JSON_MODEL                                                                                 \
    "\"model\": {\"type\": \"WordPiece\", \"unk_token\": \"[UNK]\", "                              \
    "\"continuing_subword_prefix\": \"##\", \"max_input_chars_per_word\": 5, "                     \
    "\"vocab\": {\"[UNK]\": 0, \"a\": 1, \"##a\": 2, \"\\u00e9\": 3}}}"

static void a_tokenizer_json_says_how_text_is_normalised(void **state)
{
    (void)state;
    static const char json[] = JSON_HEAD JSON_NORMAL JSON_PRE JSON_MODEL;
    const Path dir = scratch_new(), saved = path_in(dir.s, "saved");
    scratch_file(&dir, "tokenizer.json", json, sizeof json - 1);
    Tokenizer *t = load(dir.s, NULL);
    assert_string_equal(tokenizer_pattern(t), "lower");
    expect_words(t, "A \xC3\x89 AAAAA aaaaaa", "a \xC3\xA9 a ##a ##a ##a ##a [UNK]");
    Err err = {0};
    must(tokenizer_save(t, saved.s, &err), &err);
    Tokenizer *again = load(saved.s, "lower");
    assert_true(tokenizer_fingerprint(t) == tokenizer_fingerprint(again));
    assert_true(file_exists(path_in(saved.s, "vocab.txt").s));
    tokenizer_close(t);
    tokenizer_close(again);
    scratch_remove(&dir);
}

static void wrong_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text, *pattern, *message;
    } cases[] = {
        {"vocab.txt", "the\n[PAD]\n", NULL, "no token for unknown words"},
        {"vocab.txt", "[UNK]\na\nb\na\n", NULL, "the ids 1 and 3 have the same token"},
        {"vocab.txt", "[UNK]\n\na\n", NULL, "it is empty\n  while reading line 2"},
        {"vocab.txt", "[UNK]\n\xFF\n", NULL, "it is not UTF-8\n  while reading line 2"},
        {"vocab.txt", "[UNK]\n[UNK]\n", NULL, "[UNK] is there twice"},
        {"vocab.txt", "[UNK]\na\n", "gpt2", "gpt2 is not one for a vocab.txt"},
        {"ranks", "IQ== 0\n", "cased", "cased is not one for a rank file"},
        {"tokenizer.json", JSON_HEAD JSON_PRE JSON_MODEL, "cased", "the pattern bert, not cased"},
        {"tokenizer.json", JSON_HEAD JSON_NORMAL JSON_MODEL, NULL, "pre-tokenizer is absent"},
        {"tokenizer.json", JSON_HEAD "\"normalizer\": {\"type\": \"NFC\"}, " JSON_PRE JSON_MODEL,
         NULL, "the normalizer is NFC"},
        {"tokenizer.json",
         "{" JSON_PRE "\"model\": {\"type\": \"WordPiece\", \"continuing_subword_prefix\": \"@@\", "
         "\"vocab\": {\"a\": 0}}}",
         NULL, "with the prefix \"@@\""},
        {"tokenizer.json",
         "{" JSON_PRE "\"model\": {\"type\": \"WordPiece\", \"continuing_subword_prefix\": \"##\", "
         "\"vocab\": {\"a\": 0}}}",
         NULL, "no token for unknown words"},
        {"tokenizer.json",
         "{" JSON_PRE "\"model\": {\"type\": \"WordPiece\", \"continuing_subword_prefix\": \"##\", "
         "\"max_input_chars_per_word\": 100000, \"vocab\": {\"a\": 0}}}",
         NULL, "not between 1 and 1024"},
        {"tokenizer.json",
         "{\"added_tokens\": [{\"id\": 4, \"content\": \"x\", \"special\": false, \"normalized\": "
         "true}], " JSON_NORMAL JSON_PRE JSON_MODEL,
         NULL, "the added token \"x\" depends on"},
    };
    for (size_t i = 0; i < LT_COUNT(cases); i++) {
        const Path dir = scratch_new();
        const Path file = scratch_file(&dir, cases[i].name, cases[i].text, strlen(cases[i].text));
        Tokenizer *t = NULL;
        Err err = {0};
        assert_true(tokenizer_load(&t, file.s, cases[i].pattern, &err) != ERR_NONE);
        if (!strstr(err.text, cases[i].message))
            fail_msg("case %zu: \"%s\" does not say \"%s\"", i, err.text, cases[i].message);
        scratch_remove(&dir);
    }
}

// Long texts ------------------------------------------------------------------------------------

static void long_words_and_long_gaps_take_no_longer(void **state)
{
    (void)state;
    Tokenizer *t = load(golden_path("small-vocab.txt").s, NULL);
    static const struct {
        const char *unit;
        int64_t ids; // of 200000 units
    } cases[] = {{"a", 1}, {" ", 0}, {".", 200000}, {"\xE4\xB8\xAD", 200000}, {"\xE3\x80\xAE", 1}};
    for (size_t i = 0; i < LT_COUNT(cases); i++) {
        Buf text = {0};
        Err err = {0};
        for (int k = 0; k < 200000; k++) must(buf_puts(&text, cases[i].unit, &err), &err);
        TokenIds ids = encode(t, text.data, text.len, 1);
        assert_int_equal(ids.n, cases[i].ids);
        token_ids_free(&ids);
        buf_free(&text);
    }
    tokenizer_close(t);
}

static Buf random_text(uint64_t seed, size_t bytes)
{
    static const char *const parts[] = {"The",  "whale",    " ",    "\n",       "  ",
                                        "1851", "\v",       "'s",   "\xC3\xA9", "\xE4\xB8\xAD",
                                        ".",    "\xCC\x81", "\xFF", "a",        "\xE2\x80\x8B"};
    Buf out = {0};
    Err err = {0};
    while (out.len < bytes)
        must(buf_puts(&out, parts[draw(&seed, sizeof parts / sizeof *parts)], &err), &err);
    return out;
}

static void threads_and_ranges_give_the_same_ids(void **state)
{
    (void)state;
    Tokenizer *t = load(golden_path("small-vocab.txt").s, NULL);
    Buf text = random_text(1, 600000);
    Err err = {0};
    TokenIds one = encode(t, text.data, text.len, 1), four = encode(t, text.data, text.len, 4);
    TokenIds ranges = {0};
    for (size_t at = 0, to; at < text.len; at = to) {
        to = tokenizer_cut(t, text.data, text.len, at + 1000, false);
        must(tokenizer_encode_range(t, text.data, at, to, false, 1, &ranges, &err), &err);
    }
    assert_true(one.n > 100000);
    assert_int_equal(four.n, one.n);
    assert_int_equal(ranges.n, one.n);
    assert_memory_equal(four.id, one.id, (size_t)one.n * sizeof *one.id);
    assert_memory_equal(ranges.id, one.id, (size_t)one.n * sizeof *one.id);
    token_ids_free(&one);
    token_ids_free(&four);
    token_ids_free(&ranges);
    buf_free(&text);
    tokenizer_close(t);
}

// Training ---------------------------------------------------------------------------------------

static Tokenizer *train(const char *pattern, int64_t size, int threads, const Buf *text)
{
    Tokenizer *t = NULL;
    Err err = {0};
    must(tokenizer_train(&t, &(TokenizerTrain){"wordpiece", size, threads, pattern}, text->data,
                         text->len, &err),
         &err);
    return t;
}

static void training_merges_the_most_frequent_pairs(void **state)
{
    (void)state;
    // ab 5 times, abc 4, bc 3: (a, ##b) 9, then (ab, ##c) 4, then (b, ##c) 3.
    static const char words[] = "ab ab AB ab ab abc abc abc abc bc bc bc d";
    Buf text = {0};
    Err err = {0};
    must(buf_puts(&text, words, &err), &err);
    Tokenizer *t = train(NULL, 100, 1, &text);
    static const char *const want[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b",
                                       "d",     "##b",   "##c",   "ab",    "abc",    "bc"};
    assert_int_equal(tokenizer_vocab_size(t), LT_COUNT(want));
    for (size_t i = 0; i < LT_COUNT(want); i++)
        assert_string_equal(tokenizer_token(t, (int32_t)i, NULL), want[i]);
    expect_words(t, "ABC bcc x", "abc bc ##c [UNK]");
    tokenizer_close(t);
    // With room for eight characters the rarest, d, has no token, and its word is left out.
    t = train(NULL, 9, 1, &text);
    assert_int_equal(tokenizer_vocab_size(t), 9);
    expect_words(t, "ab d", "a ##b [UNK]");
    tokenizer_close(t);
    buf_free(&text);
}

static void training_does_not_depend_on_threads(void **state)
{
    (void)state;
    Buf text = random_text(5, 3 << 20);
    static const char *const patterns[] = {"uncased", "cased", "lower"};
    for (size_t i = 0; i < LT_COUNT(patterns); i++) {
        Tokenizer *a = train(patterns[i], 300, 1, &text), *b = train(patterns[i], 300, 3, &text);
        assert_true(tokenizer_fingerprint(a) == tokenizer_fingerprint(b));
        assert_string_equal(tokenizer_pattern(a), patterns[i]);
        // No word of the text is unknown.
        TokenIds ids = encode(a, text.data, 5000, 1);
        assert_true(ids.n > 100);
        tokenizer_close(a);
        tokenizer_close(b);
        token_ids_free(&ids);
    }
    buf_free(&text);
}

static void wrong_training_is_refused(void **state)
{
    (void)state;
    static const struct {
        TokenizerTrain how;
        const char *text, *message;
    } cases[] = {
        {{"wordpiece", 5, 1, NULL}, "a", "vocab_size 5 is not between 6"},
        {{"wordpiece", 100, 1, "gpt2"}, "a", "\"gpt2\" is not one for wordpiece"},
        {{"bpe", 300, 1, "cased"}, "a", "\"cased\" is not one for bpe"},
        {{"wordpiece", 100, 1, NULL}, " \t\n \x01", "the text has no words"},
    };
    for (size_t i = 0; i < LT_COUNT(cases); i++) {
        Tokenizer *t = NULL;
        Err err = {0};
        assert_true(tokenizer_train(&t, &cases[i].how, cases[i].text, strlen(cases[i].text),
                                    &err) != ERR_NONE);
        if (!strstr(err.text, cases[i].message)) fail_msg("case %zu: %s", i, err.text);
        assert_null(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_vocabulary_gives_the_ids_of_hugging_face),
        cmocka_unit_test(published_vocabulary_gives_the_ids_of_hugging_face),
        cmocka_unit_test(every_code_point_is_normalised_as_hugging_face_does),
        cmocka_unit_test(a_bare_vocab_txt_is_lower_case),
        cmocka_unit_test(special_tokens_are_ids_when_allowed),
        cmocka_unit_test(decoding_is_readable_text),
        cmocka_unit_test(a_tokenizer_json_says_how_text_is_normalised),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(long_words_and_long_gaps_take_no_longer),
        cmocka_unit_test(threads_and_ranges_give_the_same_ids),
        cmocka_unit_test(training_merges_the_most_frequent_pairs),
        cmocka_unit_test(training_does_not_depend_on_threads),
        cmocka_unit_test(wrong_training_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
