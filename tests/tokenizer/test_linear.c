// test_linear.c -- long pieces and long texts: merged window by window, trained on in stretches,
// encoded range by range. The ids and merges are those of the plain way, and the work, counted in
// steps and not in seconds, grows with the length alone.
//
// SPDX-License-Identifier: MIT
#include "support.h"
#include "tokenizer/tokenizer_impl.h"

typedef enum Kind { LETTERS, SPACES, ONE_LETTER, EMOJI, TWO_LETTERS, HIGH_BYTES, KINDS } Kind;

static Buf make_piece(Kind kind, size_t bytes)
{
    Buf out = {0};
    Err err = {0};
    uint64_t seed = 7;
    must(buf_reserve(&out, bytes + 4, &err), &err);
    while (out.len < bytes) {
        char c[5] = "a";
        if (kind == LETTERS) c[0] = (char)('a' + draw(&seed, 26));
        if (kind == SPACES) c[0] = ' ';
        if (kind == TWO_LETTERS) c[0] = draw(&seed, 5) ? 'a' : 'b';
        if (kind == HIGH_BYTES) c[0] = (char)(0xF8 + draw(&seed, 8));
        if (kind == EMOJI) memcpy(c, "\xF0\x9F\x98\x80", 5);
        if (kind == EMOJI) c[3] = (char)(0x80 + draw(&seed, 60));
        must(buf_puts(&out, c, &err), &err);
    }
    return out;
}

// A vocabulary with tokens for the kinds first ... last: trained on pieces of `bytes`.
static Tokenizer *trained(int64_t vocab_size, size_t bytes, Kind first, Kind last)
{
    Err err = {0};
    Tokenizer *t = NULL;
    TokenizerTrainer *r = NULL;
    must(tokenizer_trainer_open(&r, &(TokenizerTrain){"bpe", vocab_size, 1, NULL}, &err), &err);
    for (Kind kind = first; kind <= last; kind++) {
        Buf text = make_piece(kind, bytes);
        must(tokenizer_trainer_add(r, text.data, text.len, false, &err), &err);
        buf_free(&text);
    }
    must(tokenizer_trainer_finish(r, NULL, &t, &err), &err);
    tokenizer_trainer_close(r);
    return t;
}

// The definition: the pair of smallest priority, the leftmost of equals, until none can merge.
static TokenIds plain_merge(const Tokenizer *t, const Buf *piece)
{
    TokenIds ids = {0};
    Err err = {0};
    for (size_t i = 0; i < piece->len; i++)
        must(token_ids_push(&ids, t->byte_id[(uint8_t)piece->data[i]], &err), &err);
    for (;;) {
        const MergeSlot *best = NULL;
        for (int64_t i = 0; i + 1 < ids.n; i++) {
            const MergeSlot *m = merge_find(t, ids.id[i], ids.id[i + 1]);
            if (m && (!best || m->priority < best->priority)) best = m;
        }
        if (!best) return ids;
        // Merging all of one priority from left to right is the same: a merge makes new pairs, but
        // none of this priority further left.
        int64_t n = 0;
        for (int64_t i = 0; i < ids.n; i++) {
            const MergeSlot *m = i + 1 < ids.n ? merge_find(t, ids.id[i], ids.id[i + 1]) : NULL;
            const bool now = m && m->priority == best->priority;
            ids.id[n++] = now ? m->result : ids.id[i];
            if (now) i++;
        }
        ids.n = n;
    }
}

static void expect_same_ids(const TokenIds *a, const TokenIds *b)
{
    assert_int_equal(a->n, b->n);
    for (int64_t i = 0; i < a->n; i++) assert_int_equal(a->id[i], b->id[i]);
}

static void long_pieces_merge_as_the_definition_says(void **state)
{
    (void)state;
    // Tokens of some bytes; and tokens of thousands, longer than a window.
    Tokenizer *t[2] = {trained(900, 2000, LETTERS, HIGH_BYTES),
                       trained(400, 60000, SPACES, ONE_LETTER)};
    size_t longest = 0;
    for (int64_t id = 0; id < t[1]->n; id++)
        longest = LT_MAX(longest, (size_t)t[1]->token[id].bytes);
    assert_true(longest > 8192);
    Err err = {0};
    for (int v = 0; v < 2; v++)
        for (int kind = 0; kind < KINDS; kind++)
            for (size_t n = 40; n < 20000; n = n * 3 + 1) {
                Buf piece = make_piece((Kind)kind, n);
                BpeScratch scratch = {0};
                TokenIds got = {0}, want = plain_merge(t[v], &piece);
                must(bpe_merge(t[v], (const uint8_t *)piece.data, (int64_t)piece.len, &scratch,
                               &got, &err),
                     &err);
                expect_same_ids(&got, &want);
                token_ids_free(&got);
                token_ids_free(&want);
                bpe_scratch_free(&scratch);
                buf_free(&piece);
            }
    tokenizer_close(t[0]);
    tokenizer_close(t[1]);
}

static void steps_of_encoding_grow_with_the_length_alone(void **state)
{
    (void)state;
    Tokenizer *t = trained(900, 2000, LETTERS, HIGH_BYTES);
    Err err = {0};
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t n = 50000; n <= 200000; n *= 2) {
            Buf piece = make_piece((Kind)kind, n);
            BpeScratch scratch = {0};
            TokenIds ids = {0};
            must(
                bpe_merge(t, (const uint8_t *)piece.data, (int64_t)piece.len, &scratch, &ids, &err),
                &err);
            assert_true(scratch.node_cap <= 1 << 14); // it went by windows
            assert_true(scratch.steps > 0 || ids.n == (int64_t)piece.len);
            assert_true(scratch.steps <= 3 * (int64_t)piece.len);
            token_ids_free(&ids);
            bpe_scratch_free(&scratch);
            buf_free(&piece);
        }
    tokenizer_close(t);
}

static void steps_of_training_grow_with_the_length_alone(void **state)
{
    (void)state;
    Err err = {0};
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t n = 50000; n <= 200000; n *= 2) {
            Buf text = make_piece((Kind)kind, n);
            WordCount words = {0};
            const uint8_t *p = (const uint8_t *)text.data;
            must(word_count_pieces(&words, PRETOKEN_GPT2, p, p + text.len, &err), &err);
            int64_t steps = 0;
            Tokenizer *t = NULL;
            must(bpe_train(&t, PRETOKEN_GPT2, 1500, &words, NULL, &steps, &err), &err);
            assert_true(steps > 0);
            assert_true(steps <= 6 * (int64_t)text.len);
            tokenizer_close(t);
            word_count_free(&words);
            buf_free(&text);
        }
}

// Text of words, numbers and marks, with documents that end anywhere.
static Buf make_text(uint64_t seed, size_t bytes)
{
    static const char *const parts[] = {"the",
                                        "whale",
                                        " ",
                                        " ",
                                        "\n",
                                        "  ",
                                        "1851",
                                        "'s",
                                        "\xC3\xA9",
                                        "\xE4\xB8\xAD",
                                        "\xF0\x9F\x98\x80",
                                        "...",
                                        "x",
                                        "\xFF",
                                        "in"};
    Buf out = {0};
    Err err = {0};
    while (out.len < bytes)
        must(buf_puts(&out, parts[draw(&seed, sizeof parts / sizeof *parts)], &err), &err);
    return out;
}

static uint64_t train_in(const TokenizerTrain *how, const Buf *text, uint64_t seed, size_t longest)
{
    Err err = {0};
    Tokenizer *t = NULL;
    TokenizerTrainer *r = NULL;
    must(tokenizer_trainer_open(&r, how, &err), &err);
    const size_t half = text->len / 2; // two documents
    for (size_t at = 0; at < text->len;) {
        size_t n = longest ? 1 + draw(&seed, (uint32_t)longest) : text->len;
        n = LT_MIN(n, (at < half ? half : text->len) - at);
        at += n;
        must(tokenizer_trainer_add(r, text->data + at - n, n, at != half && at != text->len, &err),
             &err);
    }
    must(tokenizer_trainer_finish(r, NULL, &t, &err), &err);
    tokenizer_trainer_close(r);
    const uint64_t print = tokenizer_fingerprint(t);
    tokenizer_close(t);
    return print;
}

static void training_does_not_depend_on_how_the_text_is_handed_over(void **state)
{
    (void)state;
    // More than one batch; the second text has no place to cut it.
    Buf text[2] = {make_text(1, 9 << 20), make_piece(EMOJI, 9 << 20)};
    static const struct {
        int text;
        const char *type, *pattern;
        size_t longest; // of a stretch
    } cases[] = {
        {0, "bpe", "gpt2", 1},    {0, "bpe", "gpt2", 1000},   {0, "bpe", "gpt2", 3000000},
        {0, "bpe", "cl100k", 10}, {0, "char", "gpt2", 1},     {0, "char", "gpt2", 300000},
        {1, "char", "gpt2", 10},  {1, "bpe", "gpt2", 300000},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const Buf *from = &text[cases[c].text];
        TokenizerTrain how = {cases[c].type, 300, 1, cases[c].pattern};
        const uint64_t want = train_in(&how, from, 1, 0);
        how.threads = 1 + (int)c % 3;
        assert_true(train_in(&how, from, c, cases[c].longest) == want);
    }
    buf_free(&text[0]);
    buf_free(&text[1]);
}

static void a_word_does_not_go_across_documents(void **state)
{
    (void)state;
    Err err = {0};
    Tokenizer *t = NULL;
    TokenizerTrainer *r = NULL;
    must(tokenizer_trainer_open(&r, &(TokenizerTrain){"bpe", 400, 2, NULL}, &err), &err);
    for (int i = 0; i < 5; i++) {
        must(tokenizer_trainer_add(r, "x", 1, false, &err), &err);
        must(tokenizer_trainer_add(r, "y", 1, true, &err), &err);
        must(tokenizer_trainer_add(r, "z", 1, false, &err), &err);
    }
    must(tokenizer_trainer_finish(r, NULL, &t, &err), &err);
    assert_int_equal(tokenizer_vocab_size(t), 258);
    assert_string_equal(tokenizer_token(t, 256, NULL), "yz");
    tokenizer_trainer_close(r);
    tokenizer_close(t);
}

// Plain training, from the paper's page: count the pairs of all words, merge the best everywhere.
static void expect_plain_training(const Buf *text, int merges)
{
    Tokenizer *t = NULL;
    Err err = {0};
    must(tokenizer_train(&t, &(TokenizerTrain){"bpe", 257 + merges, 1, NULL}, text->data, text->len,
                         &err),
         &err);
    // The text as byte ids, -1 between two pieces.
    const uint8_t *at = (const uint8_t *)text->data, *piece = at, *ends[1];
    const uint8_t *const end = at + text->len;
    TokenIds ids = {0};
    while (pretoken_scan(PRETOKEN_GPT2, &at, end, ends, 1) > 0) {
        for (; piece < ends[0]; piece++) must(token_ids_push(&ids, t->byte_id[*piece], &err), &err);
        must(token_ids_push(&ids, -1, &err), &err);
    }
    int32_t *count = calloc(512 * 512, sizeof *count);
    assert_non_null(count);
    for (int64_t m = 0; m < merges; m++) {
        memset(count, 0, 512 * 512 * sizeof *count);
        int best = -1;
        for (int64_t i = 0; i + 1 < ids.n; i++)
            if (ids.id[i] >= 0 && ids.id[i + 1] >= 0) count[ids.id[i] * 512 + ids.id[i + 1]]++;
        for (int k = 0; k < 512 * 512; k++)
            if (count[k] >= 2 && (best < 0 || count[k] > count[best])) best = k;
        if (best < 0) {
            assert_int_equal(t->merge_n, m);
            break;
        }
        assert_int_equal(t->merge[m].left, best / 512);
        assert_int_equal(t->merge[m].right, best % 512);
        int64_t n = 0;
        for (int64_t i = 0; i < ids.n; i++) {
            const bool now =
                i + 1 < ids.n && ids.id[i] == best / 512 && ids.id[i + 1] == best % 512;
            ids.id[n++] = now ? t->merge[m].result : ids.id[i];
            if (now) i++;
        }
        ids.n = n;
    }
    free(count);
    token_ids_free(&ids);
    tokenizer_close(t);
}

static void training_equals_plain_training(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        Buf text = make_text(seed, 200 * seed);
        expect_plain_training(&text, 200);
        buf_free(&text);
    }
    // Pairs are counted at all places, overlapping ones too; they merge from the left.
    for (int kind = 0; kind < KINDS; kind++) {
        Buf text = make_piece((Kind)kind, 3001);
        expect_plain_training(&text, 150);
        buf_free(&text);
    }
}

static void ranges_have_the_ids_of_the_whole(void **state)
{
    (void)state;
    Path dir = scratch_new();
    Tokenizer *t[3] = {load(golden_path("tiny.json").s, NULL),
                       load(golden_path("tiny.tiktoken").s, "cl100k"), NULL};
    Buf text = make_text(3, 60000);
    Err err = {0};
    must(buf_puts(&text, " a b<|endoftext|>c d <|endoftext|>", &err), &err);
    must(tokenizer_train(&t[2], &(TokenizerTrain){"char", 0, 1, NULL}, text.data, text.len, &err),
         &err);
    for (int v = 0; v < 3; v++)
        for (int allow = 0; allow < 2; allow++)
            for (size_t step = 1; step < text.len; step = step * 5 + 2) {
                TokenIds whole = {0}, got = {0};
                must(tokenizer_encode(t[v], text.data, text.len, allow, 1, &whole, &err), &err);
                for (size_t at = 0, to; at < text.len; at = to) {
                    to = tokenizer_cut(t[v], text.data, text.len, at + step, allow);
                    assert_true(to > at);
                    must(tokenizer_encode_range(t[v], text.data, at, to, allow, 2, &got, &err),
                         &err);
                }
                expect_same_ids(&got, &whole);
                token_ids_free(&whole);
                token_ids_free(&got);
            }
    for (int v = 0; v < 3; v++) tokenizer_close(t[v]);
    buf_free(&text);
    scratch_remove(&dir);
}

// "a b" as an added token: the place between its words is none to cut at.
static void a_cut_is_not_inside_an_added_token(void **state)
{
    (void)state;
    Tokenizer *t = NULL;
    Err err = {0};
    must(tokenizer_new(&t, KIND_BPE, PRETOKEN_GPT2, &err), &err);
    for (int b = 0; b < 256; b++)
        must(vocab_add(t, b, &(uint8_t){(uint8_t)b}, 1, TOKEN_PLAIN, &err), &err);
    must(vocab_add(t, 256, "a b", 3, TOKEN_ALWAYS, &err), &err);
    must(vocab_add(t, 257, "c d", 3, TOKEN_SPECIAL, &err), &err);
    must(tokenizer_finish(t, &err), &err);
    static const char text[] = "xa bc d e";
    assert_int_equal(tokenizer_cut(t, text, 9, 1, false), 5);
    assert_int_equal(tokenizer_cut(t, text, 9, 1, true), 7);
    assert_int_equal(tokenizer_cut(t, text, 9, 8, true), 9);
    tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_pieces_merge_as_the_definition_says),
        cmocka_unit_test(steps_of_encoding_grow_with_the_length_alone),
        cmocka_unit_test(steps_of_training_grow_with_the_length_alone),
        cmocka_unit_test(training_does_not_depend_on_how_the_text_is_handed_over),
        cmocka_unit_test(a_word_does_not_go_across_documents),
        cmocka_unit_test(training_equals_plain_training),
        cmocka_unit_test(ranges_have_the_ids_of_the_whole),
        cmocka_unit_test(a_cut_is_not_inside_an_added_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
