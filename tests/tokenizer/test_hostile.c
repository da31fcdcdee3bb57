// test_hostile.c -- files that are not what they should be: one clear error each, nothing leaked.
//
// SPDX-License-Identifier: MIT
#include "support.h"

// A small but complete tokenizer.json, made from a byte alphabet and the parts a case replaces.
typedef struct Parts {
    const char *top;    // before "model"
    const char *pre;    // pre_tokenizer
    const char *model;  // members of the model before the vocabulary
    const char *vocab;  // entries behind the 256 bytes
    const char *merges; // the array's content
} Parts;

static void append_bytes(Buf *out, int skip)
{
    Err err = {0};
    for (int i = 0, id = 0, hidden = 0; i < 256; i++) {
        const bool shown = (i >= 33 && i < 127) || (i >= 161 && i < 173) || i >= 174;
        const int cp = shown ? i : 256 + hidden++;
        if (i == skip) continue;
        if (cp < 128)
            must(buf_printf(out, &err, "%s\"%s%c\": %d", id ? "," : "",
                            cp == '"' || cp == '\\' ? "\\" : "", cp, id),
                 &err);
        else
            must(buf_printf(out, &err, "%s\"\\u%04x\": %d", id ? "," : "", (unsigned)cp, id), &err);
        id++;
    }
}

static Buf make_json(const Parts *p, int skip)
{
    Buf out = {0};
    Err err = {0};
    must(buf_printf(&out, &err, "{%s\"pre_tokenizer\": %s, \"model\": {%s\"vocab\": {",
                    p->top ? p->top : "",
                    p->pre ? p->pre : "{\"type\": \"ByteLevel\", \"add_prefix_space\": false}",
                    p->model ? p->model : "\"type\": \"BPE\","),
         &err);
    append_bytes(&out, skip);
    must(buf_printf(&out, &err, "%s}, \"merges\": [%s]}}", p->vocab ? p->vocab : ", \"ab\": 256",
                    p->merges ? p->merges : "\"a b\""),
         &err);
    return out;
}

static void expect_refused(const char *path, const char *pattern, Status status,
                           const char *message)
{
    Tokenizer *t = NULL;
    Err err = {0};
    const Status got = tokenizer_load(&t, path, pattern, &err);
    if (got == ERR_NONE) fail_msg("loaded; \"%s\" expected", message);
    if (got != status || !strstr(err.text, message))
        fail_msg("%s: \"%s\"\n  expected %s: \"%s\"", err_name(got), err.text, err_name(status),
                 message);
    assert_null(t);
    assert_non_null(strstr(err.text, path)); // the file is named
}

static void a_tokenizer_json_that_is_wrong_is_refused(void **state)
{
    (void)state;
#define LEVEL "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}"
    static const struct {
        Parts parts;
        Status status; // ERR_NONE: this one is good
        const char *message;
    } cases[] = {
        {{0}, ERR_NONE, ""},
        {{.merges = "[\"a\", \"b\"]"}, ERR_NONE, ""},
        {{.pre = "{\"type\": \"Sequence\", \"pretokenizers\": [" LEVEL "]}"}, ERR_NONE, ""},
        {{.top = "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": []},"}, ERR_NONE, ""},
        {{.merges = "\"a b\", \"a c\""}, ERR_FORMAT, "merge 2 (\"a\" \"c\") names \"ac\""},
        {{.merges = "\"a zz\""}, ERR_FORMAT, "names \"zz\", which is not in the vocabulary"},
        {{.merges = "\"ab\""},
         ERR_FORMAT,
         "merge 1 (\"ab\") is not two tokens with a space between"},
        {{.merges = "\"a b c\""}, ERR_FORMAT, "is not two tokens"},
        {{.merges = "\" b\""}, ERR_FORMAT, "names \"\""},
        {{.merges = "\"a b\", \"a b\""}, ERR_FORMAT, "the pair \"a\" \"b\" is merged twice"},
        {{.merges = "[\"a\"]"}, ERR_FORMAT, "merge 1 is neither a string nor a pair"},
        {{.merges = "17"}, ERR_FORMAT, "merge 1 is neither a string nor a pair"},
        {{.vocab = ", \"ab\": 257"}, ERR_FORMAT, "a hole: no token has the id 256"},
        {{.vocab = ", \"ab\": 3"}, ERR_FORMAT, "two tokens have the id 3"},
        {{.vocab = ", \"ab\": -1"}, ERR_FORMAT, "the id -1 of the token \"ab\" is out of range"},
        {{.vocab = ", \"ab\": 99999999999"}, ERR_FORMAT, "is out of range"},
        {{.vocab = ", \"ab\": 200000000"}, ERR_FORMAT, "token id 200000000 is far from the others"},
        {{.vocab = ", \"ab\": 1.5"}, ERR_FORMAT, "the id of the token \"ab\" is not an integer"},
        {{.vocab = ", \"ab\": \"x\""}, ERR_FORMAT, "the id of the token \"ab\" is not an integer"},
        {{.vocab = ", \"ab\": 256, \"ab\": 257"}, ERR_FORMAT, "duplicate object key"},
        {{.vocab = ", \"\": 256"}, ERR_FORMAT, "token 256 is empty"},
        {{.top = "\"added_tokens\": 3,"}, ERR_FORMAT, "\"added_tokens\" is not an array"},
        {{.top = "\"added_tokens\": [{\"id\": 300}],"}, ERR_FORMAT, "has no content or no id"},
        {{.top = "\"added_tokens\": [{\"id\": 3, \"content\": \"<s>\"}],"},
         ERR_FORMAT,
         "two tokens have the id 3"},
        {{.top = "\"added_tokens\": [{\"id\": 300, \"content\": \"<s>\", \"rstrip\": true}],"},
         ERR_UNSUPPORTED,
         "the added token \"<s>\" depends on the text around it"},
        {{.top = "\"normalizer\": {\"type\": \"NFC\"},"}, ERR_UNSUPPORTED, "the normalizer NFC"},
        {{.pre = "null"}, ERR_UNSUPPORTED, "there is no pre-tokenizer"},
        {{.pre = "null", .merges = " "}, ERR_UNSUPPORTED, "the token \"ab\" is not one character"},
        {{.pre = "{\"type\": \"Whitespace\"}"}, ERR_UNSUPPORTED, "Whitespace is not supported"},
        {{.pre = "{\"type\": \"ByteLevel\", \"add_prefix_space\": true}"},
         ERR_UNSUPPORTED,
         "add_prefix_space"},
        {{.pre =
              "{\"type\": \"Split\", \"pattern\": {\"Regex\": \".\"}, \"behavior\": \"Isolated\"}"},
         ERR_UNSUPPORTED,
         "splits by an unknown expression: ."},
        {{.pre = "{\"type\": \"Split\", \"pattern\": {\"String\": \" \"}}"},
         ERR_UNSUPPORTED,
         "has no regular expression"},
        {{.pre = "{\"type\": \"Sequence\", \"pretokenizers\": []}"},
         ERR_UNSUPPORTED,
         "no ByteLevel"},
        {{.pre = "{\"type\": \"Sequence\", \"pretokenizers\": [" LEVEL "," LEVEL "]}"},
         ERR_UNSUPPORTED,
         "ByteLevel comes after ByteLevel"},
        {{.model = "\"type\": \"Unigram\","}, ERR_UNSUPPORTED, "the model is Unigram"},
        {{.model = "\"dropout\": 0.1,"}, ERR_UNSUPPORTED, "sets \"dropout\""},
        {{.model = "\"end_of_word_suffix\": \"</w>\","}, ERR_UNSUPPORTED, "end_of_word_suffix"},
        {{.model = "\"byte_fallback\": true,"}, ERR_UNSUPPORTED, "byte_fallback"},
    };
#undef LEVEL
    Path dir = scratch_new();
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        Buf json = make_json(&cases[c].parts, -1);
        const Path file = scratch_file(&dir, "tokenizer.json", json.data, json.len);
        if (cases[c].status == ERR_NONE)
            tokenizer_close(load(file.s, NULL));
        else
            expect_refused(file.s, NULL, cases[c].status, cases[c].message);
        buf_free(&json);
    }
    // A byte without a token.
    Buf json = make_json(&(Parts){.vocab = ",\"ab\": 255"}, 'q');
    const Path file = scratch_file(&dir, "tokenizer.json", json.data, json.len);
    expect_refused(file.s, NULL, ERR_FORMAT, "the vocabulary has no token for the byte 0x71");
    buf_free(&json);
    scratch_remove(&dir);
}

static void a_truncated_or_flipped_tokenizer_json_never_crashes(void **state)
{
    (void)state;
    Path dir = scratch_new();
    Buf json = {0};
    Err err = {0};
    must(file_read(golden_path("tiny.json").s, &json, &err), &err);
    for (size_t n = 0; n + 2 < json.len; n += 1 + n / 50) {
        const Path file = scratch_file(&dir, "short.json", json.data, n);
        expect_refused(file.s, NULL, ERR_FORMAT, n == 0 ? "the file is empty" : "not JSON");
    }
    uint32_t seed = 1;
    for (int k = 0; k < 300; k++) {
        seed = seed * 1664525u + 1013904223u;
        const size_t at = seed % json.len;
        const char was = json.data[at];
        json.data[at] = (char)(seed >> 24);
        const Path file = scratch_file(&dir, "flip.json", json.data, json.len);
        Tokenizer *t = NULL;
        err_clear(&err);
        if (tokenizer_load(&t, file.s, NULL, &err) == ERR_NONE)
            expect_round_trip(t, "hello, world", 12);
        else
            assert_true(strlen(err.text) > 0);
        tokenizer_close(t);
        json.data[at] = was;
    }
    buf_free(&json);
    scratch_remove(&dir);
}

static void other_files_that_are_wrong_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *pattern;
        Status status;
        const char *message;
    } cases[] = {
        {"", NULL, ERR_FORMAT, "the file is empty"},
        {" \n\n", NULL, ERR_FORMAT, "the file is empty"},
        {"{}", NULL, ERR_FORMAT, "it has no \"model\""},
        {"{\"model\": 3}", NULL, ERR_FORMAT, "it has no \"model\""},
        {"{\"model\": {\"vocab\": {}, \"merges\": []}}", NULL, ERR_FORMAT,
         "the vocabulary is empty"},
        {"{\"model\": {\"vocab\": [], \"merges\": []}}", NULL, ERR_FORMAT,
         "vocabulary is not an object"},
        {"{\"model\": {}} trailing", NULL, ERR_FORMAT, "not JSON"},
        {"[[[[[[", NULL, ERR_FORMAT, "line 1 is not a token in base64"},
        {"IQ== 0\nIg== 1\n", NULL, ERR_USAGE, "a rank file of 2 ranks is neither gpt2 nor cl100k"},
        {"IQ== 0\nIg== 1\n", "gpt2", ERR_FORMAT, "no token for the byte 0x00"},
        {"IQ== 0\nIg== 2\n", "gpt2", ERR_FORMAT, "a hole: no token has the id 1"},
        {"IQ== 0\nIg== 0\n", "gpt2", ERR_FORMAT, "two tokens have the id 0"},
        {"IQ== 0\nIQ== 1\n", "gpt2", ERR_FORMAT, "the ids 0 and 1 have the same token \"!\""},
        {"IQ== 999999999\n", "gpt2", ERR_FORMAT, "token id 999999999 is out of range"},
        {"IQ== 99999999999999\n", "gpt2", ERR_FORMAT, "line 1 is not a token"},
        {"IQ== -1\n", "gpt2", ERR_FORMAT, "line 1 is not a token"},
        {"IQ==\n", "gpt2", ERR_FORMAT, "line 1 is not a token"},
        {"IQ= 0\n", "gpt2", ERR_FORMAT, "line 1 is not a token"},
        {"==== 0\n", "gpt2", ERR_FORMAT, "line 1 is not a token"},
        {" 0\n", "gpt2", ERR_FORMAT, "line 1 is not a token"},
        {"IQ== 0\nhello\n", "gpt2", ERR_FORMAT, "line 2 is not a token"},
    };
    Path dir = scratch_new();
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const Path file = scratch_file(&dir, "file", cases[c].text, strlen(cases[c].text));
        expect_refused(file.s, cases[c].pattern, cases[c].status, cases[c].message);
    }
    scratch_remove(&dir);
}

static void missing_and_contradicting_files_are_named(void **state)
{
    (void)state;
    Path dir = scratch_new();
    expect_refused(dir.s, NULL, ERR_USAGE, "no tokenizer in this folder");
    expect_refused(path_in(dir.s, "absent").s, NULL, ERR_IO, "No such file");
    const Path vocab = scratch_file(&dir, "vocab.json", "{}", 2);
    expect_refused(vocab.s, NULL, ERR_USAGE, "vocab.json needs merges.txt beside it");
    expect_refused(dir.s, NULL, ERR_USAGE, "no tokenizer in this folder");
    scratch_file(&dir, "merges.txt", "#version: 0.2\n", 14);
    expect_refused(dir.s, NULL, ERR_FORMAT, "the vocabulary is empty");
    expect_refused(golden_path("tiny.json").s, "cl100k", ERR_USAGE,
                   "has the pattern gpt2, not cl100k");
    expect_refused(golden_path("tiny.tiktoken").s, "o200k", ERR_USAGE,
                   "no pattern is called \"o200k\"");
    scratch_remove(&dir);
}

// All ways to split a token are looked at, so an endless one would take endless time.
static void an_overlong_token_of_a_rank_file_is_refused(void **state)
{
    (void)state;
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    enum { GROUPS = 100000 };
    char *text = malloc(256 * 16 + GROUPS * 4 + 16);
    assert_non_null(text);
    size_t n = 0;
    for (int b = 0; b < 256; b++)
        n += (size_t)sprintf(text + n, "%c%c== %d\n", alphabet[b >> 2], alphabet[(b & 3) << 4], b);
    for (int i = 0; i < GROUPS; i++) n += (size_t)sprintf(text + n, "QUFB");
    n += (size_t)sprintf(text + n, " 256\n");
    Path dir = scratch_new();
    const Path file = scratch_file(&dir, "long.tiktoken", text, n);
    expect_refused(file.s, "gpt2", ERR_UNSUPPORTED, "token 256 has 300000 bytes");
    scratch_remove(&dir);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_overlong_token_of_a_rank_file_is_refused),
        cmocka_unit_test(a_tokenizer_json_that_is_wrong_is_refused),
        cmocka_unit_test(a_truncated_or_flipped_tokenizer_json_never_crashes),
        cmocka_unit_test(other_files_that_are_wrong_are_refused),
        cmocka_unit_test(missing_and_contradicting_files_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
