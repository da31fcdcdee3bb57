// test_examples.c -- engine/data/examples.h, example_file.h, labels.h
//
// SPDX-License-Identifier: MIT
#include "support.h"
#include "engine/base/token.h"
#include "engine/data/examples.h"
#include "engine/data/stream.h"

// 0 [PAD], 1 [UNK], 2 [CLS], 3 [SEP], then in this order:
static const char vocabulary[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\ndog\nsat\nran\n##"
                                 "s\n.\n,\n?\n19\n##90\nwho\na\nb\n";
enum {
    PAD,
    UNK,
    CLS,
    SEP,
    MASK,
    THE,
    CAT,
    DOG,
    SAT,
    RAN,
    S,
    DOT,
    COMMA,
    WHAT,
    N19,
    N90,
    WHO,
    A,
    B
};

typedef struct Fixture {
    TestDir dir;
    Tokenizer *tokenizer;
} Fixture;

static int open_fixture(void **state)
{
    static Fixture f;
    Err err = {0};
    f.dir = test_dir();
    const TestPath p = test_file(&f.dir, "vocab.txt", vocabulary, strlen(vocabulary));
    must(tokenizer_load(&f.tokenizer, p.s, NULL, &err), &err);
    *state = &f;
    return 0;
}

static int close_fixture(void **state)
{
    Fixture *f = *state;
    tokenizer_close(f->tokenizer);
    test_dir_remove(&f->dir);
    return 0;
}

static ExampleOptions options(const Fixture *f, ExampleTask task, int64_t block)
{
    return (ExampleOptions){
        .task = task, .tokenizer = f->tokenizer, .block = block, .labelled = true};
}

static Status try_read(Examples *e, const Fixture *f, const ExampleOptions *o, const char *name,
                       const char *text, Err *err)
{
    const TestPath p = test_file(&f->dir, name, text, strlen(text));
    must(examples_open(e, o, err), err);
    return examples_read(e, p.s, err);
}

static Examples read_examples(const Fixture *f, const ExampleOptions *o, const char *name,
                              const char *text)
{
    Examples e;
    Err err = {0};
    must(try_read(&e, f, o, name, text, &err), &err);
    return e;
}

static void expect_ids(const Examples *e, int64_t sample, const int32_t *want, int n)
{
    assert_int_equal(e->sample[sample].n, n);
    for (int i = 0; i < n; i++) assert_int_equal(e->ids.id[e->sample[sample].id + i], want[i]);
}
#define EXPECT_IDS(e, sample, ...)                                                                 \
    expect_ids(e, sample, (const int32_t[]){__VA_ARGS__},                                          \
               (int)(sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t)))

// ---------------------------------------------------------------- classify

static void forms_of_classify_mean_the_same(void **state)
{
    static const struct {
        const char *name, *text;
    } cases[] = {
        {"a.tsv", "the cat\tyes\ndog\tno\n"},
        {"b.tsv", "\xef\xbb\xbfthe cat\tyes\r\n\r\ndog\tno"}, // BOM, CR LF, no last LF
        {"c.tsv", "id\tlabel\ttext\n1\tyes\tthe cat\n2\tno\tdog\n"},
        {"d.jsonl", "{\"text\": \"the cat\", \"label\": \"yes\"}\n\n"
                    "{\"label\": \"no\", \"text\": \"dog\", \"text_pair\": null, \"id\": 3}\n"},
        {"e.txt", "{\"text\":\"the cat\",\"label\":\"yes\"}\n{\"text\":\"dog\",\"label\":\"no\"}"},
    };
    const Fixture *f = *state;
    const ExampleOptions o = options(f, EXAMPLE_CLASSIFY, 32);
    for (size_t i = 0; i < LT_COUNT(cases); i++) {
        Examples e = read_examples(f, &o, cases[i].name, cases[i].text);
        assert_int_equal(e.n, 2);
        EXPECT_IDS(&e, 0, CLS, THE, CAT, SEP);
        EXPECT_IDS(&e, 1, CLS, DOG, SEP);
        assert_string_equal(e.labels.name[0], "no"); // sorted
        assert_int_equal(e.example[0].label, 1);
        assert_int_equal(e.example[1].label, 0);
        assert_int_equal(e.longest, 4);
        assert_int_equal(e.cut, 0);
        examples_close(&e);
    }
}

static void pairs_have_two_types_and_padding_is_nobodys(void **state)
{
    const Fixture *f = *state;
    const ExampleOptions o = options(f, EXAMPLE_CLASSIFY, 32);
    Examples e = read_examples(f, &o, "p.tsv", "the cat\tdogs\tyes\n\t\tno\n");
    int32_t input[9], type[9], position[9], lo[9], hi[9], row = 7, target = 7;
    const ExampleRow to = {.input = input,
                           .type = type,
                           .position = position,
                           .seg_lo = lo,
                           .seg_hi = hi,
                           .seq_row = &row,
                           .seq_target = &target};
    examples_put(&e, 0, 9, 0, &to);
    const int32_t ids[] = {CLS, THE, CAT, SEP, DOG, S, SEP, PAD, PAD};
    const int32_t types[] = {0, 0, 0, 0, 1, 1, 1, 0, 0};
    for (int t = 0; t < 9; t++) {
        assert_int_equal(input[t], ids[t]);
        assert_int_equal(type[t], types[t]);
        assert_int_equal(position[t], t < 7 ? t : 0);
        assert_int_equal(lo[t], t < 7 ? 0 : 7);
        assert_int_equal(hi[t], 7);
    }
    assert_int_equal(row, 0);
    assert_int_equal(target, 1);
    EXPECT_IDS(&e, 1, CLS, SEP, SEP); // two empty texts
    examples_close(&e);
}

static void the_longer_text_of_a_pair_is_cut(void **state)
{
    const Fixture *f = *state;
    const ExampleOptions o = options(f, EXAMPLE_CLASSIFY, 8);
    Examples e = read_examples(f, &o, "l.tsv",
                               "the the cat cat dog dog\ta\tyes\n"
                               "a\tthe the cat cat dog dog\tno\n"
                               "the cat dog a\tb a b a\tno\n");
    EXPECT_IDS(&e, 0, CLS, THE, THE, CAT, CAT, SEP, A, SEP);
    EXPECT_IDS(&e, 1, CLS, A, SEP, THE, THE, CAT, CAT, SEP);
    EXPECT_IDS(&e, 2, CLS, THE, CAT, DOG, SEP, B, A, SEP);
    assert_int_equal(e.cut, 3);
    examples_close(&e);
}

static void labels_are_sorted_as_people_count(void **state)
{
    const Fixture *f = *state;
    const ExampleOptions o = options(f, EXAMPLE_CLASSIFY, 8);
    Examples e = read_examples(f, &o, "n.jsonl",
                               "{\"text\":\"a\",\"label\":10}\n{\"text\":\"a\",\"label\":9}\n"
                               "{\"text\":\"a\",\"label\":-1}\n");
    assert_string_equal(e.labels.name[0], "-1");
    assert_string_equal(e.labels.name[1], "9");
    assert_string_equal(e.labels.name[2], "10");
    assert_int_equal(e.example[0].label, 2);
    examples_close(&e);
    e = read_examples(f, &o, "s.tsv", "a\t10\na\t9\na\tx\n");
    assert_string_equal(e.labels.name[0], "10");
    assert_string_equal(e.labels.name[2], "x");
    examples_close(&e);
}

static void wrong_files_are_told_with_their_line(void **state)
{
    static const struct {
        ExampleTask task;
        const char *name, *text;
        Status status;
        const char *says;
    } cases[] = {
        {EXAMPLE_CLASSIFY, "e.tsv", "", ERR_USAGE, "e.tsv: there is no example"},
        {EXAMPLE_CLASSIFY, "f.tsv", "text\tlabel\n", ERR_USAGE, "there is no example"},
        {EXAMPLE_CLASSIFY, "g.tsv", "a\tx\nb\tx\n", ERR_USAGE, "every example in it is labelled"},
        {EXAMPLE_CLASSIFY, "h.tsv", "a\tx\n\nb\n", ERR_FORMAT, "h.tsv:3: 1 column, but"},
        {EXAMPLE_CLASSIFY, "i.tsv", "a\tx\nb\t\n", ERR_USAGE, "i.tsv:2: the label is empty"},
        {EXAMPLE_CLASSIFY, "j.tsv", "sentence\tlabel\n", ERR_FORMAT, "none is called text"},
        {EXAMPLE_CLASSIFY, "k.tsv", "text\tx\n", ERR_FORMAT, "none is called label"},
        {EXAMPLE_CLASSIFY, "l.tsv", "a\nb\n", ERR_FORMAT, "l.tsv:1: 1 column; a text and its"},
        {EXAMPLE_CLASSIFY, "m.jsonl", "{\"text\":\"a\"}", ERR_FORMAT,
         "m.jsonl:1: no field \"label\""},
        {EXAMPLE_CLASSIFY, "n.jsonl", "{\"text\":1}", ERR_FORMAT, "\"text\" is no text"},
        {EXAMPLE_CLASSIFY, "o.jsonl", "\n{\"text\":", ERR_FORMAT, "o.jsonl:2: "},
        {EXAMPLE_CLASSIFY, "p.jsonl", "[1]", ERR_FORMAT, "p.jsonl:1: not a JSON object"},
        {EXAMPLE_CLASSIFY, "q.jsonl", "{\"text\":\"a\",\"label\":0.5}", ERR_FORMAT, "is no label"},
        {EXAMPLE_CLASSIFY, "r.tsv", "a\t\xff\n", ERR_USAGE, "r.tsv:1: a label that is not"},
        {EXAMPLE_CLASSIFY, "u.tsv", "\xff\xfe\x41", ERR_FORMAT, "UTF-16"},
        {EXAMPLE_TAG, "a.conll", "a O\nb\n", ERR_FORMAT, "a.conll:2: a word without a tag"},
        {EXAMPLE_TAG, "b.conll", "\n\n", ERR_USAGE, "there is no example"},
        {EXAMPLE_TAG, "c.conll", "a O\n\nb O\n", ERR_USAGE, "every word in it is labelled \"O\""},
        {EXAMPLE_TAG, "d.jsonl", "{\"tokens\":[\"a\",\"b\"],\"tags\":[\"O\"]}", ERR_FORMAT,
         "2 tokens, but 1 tags"},
        {EXAMPLE_TAG, "e.jsonl", "{\"tokens\":[\"a\"]}", ERR_FORMAT, "no field \"tags\""},
        {EXAMPLE_QA, "a.jsonl", "{\"question\":\"who\"}", ERR_FORMAT, "no field \"context\""},
        {EXAMPLE_QA, "b.jsonl", "{\"question\":\"who\",\"context\":\"a\"}", ERR_FORMAT,
         "\"answers\""},
        {EXAMPLE_QA, "c.jsonl",
         "{\"question\":\"who\",\"context\":\"a "
         "cat\",\"answers\":{\"text\":\"cat\",\"answer_start\":1}}",
         ERR_FORMAT, "c.jsonl:1: the context has not the answer's text at its character 1"},
        {EXAMPLE_QA, "d.jsonl",
         "{\"question\":\"who\",\"context\":\"a "
         "cat\",\"answers\":{\"text\":[\"cat\"],\"answer_start\":[]}}",
         ERR_FORMAT, "no list as long as"},
        {EXAMPLE_QA, "e.jsonl",
         "{\"question\":\"who\",\"context\":\"a "
         "cat\",\"answers\":{\"text\":\"t\",\"answer_start\":99}}",
         ERR_FORMAT, "character 99"},
        {EXAMPLE_QA, "f.tsv", "who\ta cat\n", ERR_FORMAT, "f.tsv:1: "},
    };
    const Fixture *f = *state;
    for (size_t i = 0; i < LT_COUNT(cases); i++) {
        Examples e;
        Err err = {0};
        const ExampleOptions o = options(f, cases[i].task, 32);
        const Status st = try_read(&e, f, &o, cases[i].name, cases[i].text, &err);
        expect_error(st, &err, cases[i].status, cases[i].says);
        examples_close(&e);
    }
}

static void a_label_outside_the_map_is_told_with_the_map(void **state)
{
    static const Labels map = {.n = 2, .name = {"no", "yes"}};
    const Fixture *f = *state;
    ExampleOptions o = options(f, EXAMPLE_CLASSIFY, 32);
    o.labels = &map;
    Examples e;
    Err err = {0};
    const Status st = try_read(&e, f, &o, "x.tsv", "a\tyes\nb\tperhaps\n", &err);
    expect_error(st, &err, ERR_USAGE,
                 "x.tsv:2: the label \"perhaps\" is none of the model's 2: no, yes");
    examples_close(&e);
    err = (Err){0};
    must(try_read(&e, f, &o, "x.tsv", "a\tyes\n", &err), &err); // one label, but the map has two
    assert_int_equal(e.example[0].label, 1);
    examples_close(&e);
}

// ---------------------------------------------------------------- tag

static void forms_of_tag_mean_the_same(void **state)
{
    static const struct {
        const char *name, *text;
    } cases[] = {
        {"a.conll",
         "-DOCSTART- -X- O O\n\ncats NN B-NP I-A\n\xf0\x9f\x98\x80 SYM x O\n\n\ndog NN x I-A\n"},
        {"b.tsv", "cats\tI-A\n\xf0\x9f\x98\x80\tO\n\ndog\tI-A"},
        {"c.jsonl", "{\"tokens\":[\"cats\",\"\\ud83d\\ude00\"],\"tags\":[\"I-A\",\"O\"]}\n"
                    "{\"tokens\":[\"dog\"],\"tags\":[\"I-A\"]}\n"},
    };
    const Fixture *f = *state;
    const ExampleOptions o = options(f, EXAMPLE_TAG, 32);
    for (size_t i = 0; i < LT_COUNT(cases); i++) {
        Examples e = read_examples(f, &o, cases[i].name, cases[i].text);
        assert_int_equal(e.n, 2);
        EXPECT_IDS(&e, 0, CLS, CAT, S, UNK, SEP);
        EXPECT_IDS(&e, 1, CLS, DOG, SEP);
        int32_t in[6], row[3], target[3];
        const ExampleRow to = {.input = in,
                               .type = in,
                               .position = in,
                               .seg_lo = in,
                               .seg_hi = in,
                               .pick_row = row,
                               .pick_target = target};
        examples_put(&e, 0, 6, 3, &to);
        assert_int_equal(row[0], 1);
        assert_int_equal(row[1], 3);
        assert_int_equal(row[2], -1);
        assert_int_equal(target[0], 0); // I-A
        assert_int_equal(target[1], 1); // O
        assert_int_equal(target[2], TOKEN_IGNORE);
        assert_int_equal(e.most_picks, 2);
        examples_close(&e);
    }
}

static void words_behind_the_room_are_not_seen(void **state)
{
    const Fixture *f = *state;
    ExampleOptions o = options(f, EXAMPLE_TAG, 8);
    o.keep_text = true;
    Examples e = read_examples(f, &o, "w.conll", "cats x\ncats x\ncats O\ncats x\n");
    EXPECT_IDS(&e, 0, CLS, CAT, S, CAT, S, CAT, S, SEP);
    assert_int_equal(e.sample[0].picks, 3);
    assert_int_equal(e.example[0].words, 4);
    assert_int_equal(e.tag.n, 4);
    assert_int_equal(e.cut, 1);
    assert_memory_equal(e.text.data + e.example[0].text, "cats\0cats\0cats\0cats", 20);
    examples_close(&e);
}

// ---------------------------------------------------------------- questions

static void answers_are_found_by_character_and_byte(void **state)
{
    static const struct {
        const char *name, *context, *answer;
        int start;
        int32_t span[2];
    } cases[] = {
        // [CLS] who ? [SEP] is 0..3
        {"plain", "the cat sat.", "cat", 4, {5, 5}},
        {"two words", "the cat sat.", "cat sat", 4, {5, 6}},
        {"mark", "the cat, sat.", "cat", 4, {5, 5}},
        {"part of a word", "in the 1990 cats", "90", 9, {7, 7}},         // 19 ##90: by the byte
        {"behind others", "\xc3\xa9\xe2\x82\xac cat", "cat", 3, {5, 5}}, // characters, not bytes
        {"plural", "cats sat", "cat", 0, {4, 4}},
    };
    const Fixture *f = *state;
    const ExampleOptions o = options(f, EXAMPLE_QA, 64);
    for (size_t i = 0; i < LT_COUNT(cases); i++) {
        char line[512];
        snprintf(line, sizeof line,
                 "{\"question\":\"who?\",\"context\":\"%s\",\"answers\":{\"text\":[\"%s\"],"
                 "\"answer_start\":[%d]}}",
                 cases[i].context, cases[i].answer, cases[i].start);
        Examples e = read_examples(f, &o, "q.jsonl", line);
        const ExampleSample *s = &e.sample[0];
        if (memcmp(s->span, cases[i].span, sizeof s->span) != 0)
            fail_msg("%s: tokens %d to %d", cases[i].name, s->span[0], s->span[1]);
        // The text of those tokens is the answer.
        const int64_t lo = e.lo.id[s->id + s->span[0]], hi = e.hi.id[s->id + s->span[1]];
        assert_int_equal(hi - lo, strlen(cases[i].answer));
        assert_memory_equal(e.text.data + e.example[0].text + lo, cases[i].answer,
                            (size_t)(hi - lo));
        examples_close(&e);
    }
}

static void long_contexts_become_windows(void **state)
{
    const Fixture *f = *state;
    const ExampleOptions o = options(f, EXAMPLE_QA, 10); // room for 6: a step of 3
    Examples e = read_examples(
        f, &o, "w.jsonl",
        "{\"question\":\"who\",\"context\":\"the cat sat the dog ran a cat\",\"answers\":"
        "[{\"text\":\"dog ran\",\"answer_start\":16}]}\n"
        "{\"question\":\"who who who who who who\",\"context\":\"\",\"answers\":[]}\n");
    assert_int_equal(e.example[0].samples, 2);
    EXPECT_IDS(&e, 0, CLS, WHO, SEP, THE, CAT, SAT, THE, DOG, RAN, SEP);
    EXPECT_IDS(&e, 1, CLS, WHO, SEP, THE, DOG, RAN, A, CAT, SEP);
    assert_int_equal(e.sample[0].span[0], 7);
    assert_int_equal(e.sample[0].span[1], 8);
    assert_int_equal(e.sample[1].span[0], 4);
    assert_int_equal(e.example[1].samples, 1); // a question of half of the row, no context
    EXPECT_IDS(&e, 2, CLS, WHO, WHO, WHO, SEP, SEP);
    assert_int_equal(e.sample[2].span[0], 0);
    assert_int_equal(e.cut, 1);
    examples_close(&e);
}

// ---------------------------------------------------------------- views

static void a_tenth_is_held_out_and_nothing_is_lost(void **state)
{
    const Fixture *f = *state;
    const ExampleOptions o = options(f, EXAMPLE_CLASSIFY, 8);
    Buf text = {0};
    Err err = {0};
    for (int i = 0; i < 25; i++) must(buf_puts(&text, i % 2 ? "a\tx\n" : "b\ty\n", &err), &err);
    Examples e = read_examples(f, &o, "v.tsv", text.data);
    buf_free(&text);
    ExampleView rest, held, again, other;
    must(example_view_split(&rest, &held, &e, 1, &err), &err);
    assert_int_equal(held.samples, 2);
    assert_int_equal(rest.samples, 23);
    bool seen[25] = {0};
    for (int64_t i = 0; i < held.samples; i++) seen[held.sample[i]] = true;
    for (int64_t i = 0; i < rest.samples; i++) seen[rest.sample[i]] = true;
    for (int i = 0; i < 25; i++) assert_true(seen[i]);
    must(example_view_split(&other, &again, &e, 1, &err), &err);
    assert_memory_equal(held.sample, again.sample, 2 * sizeof(int64_t));
    example_view_close(&rest);
    example_view_close(&held);
    example_view_close(&again);
    example_view_close(&other);
    examples_clear(&e);
    e.n = 1;
    expect_error(example_view_split(&rest, &held, &e, 1, &err), &err, ERR_USAGE, "held out");
    examples_close(&e);
}

// The stream hands out every example once an epoch, in another order each time, and goes on from
// any place with the same batches.
static void a_stream_of_examples_can_be_resumed(void **state)
{
    enum { N = 7, BATCH = 3, BATCHES = 14 };
    const Fixture *f = *state;
    const ExampleOptions o = options(f, EXAMPLE_CLASSIFY, 8);
    Examples e =
        read_examples(f, &o, "r.tsv", "the\t0\ncat\t1\ndog\t2\nsat\t3\nran\t4\na\t5\nb\t6\n");
    ExampleView all;
    Err err = {0};
    must(example_view_all(&all, &e, &err), &err);
    const StreamOptions so = {.content = STREAM_EXAMPLES,
                              .examples = &all,
                              .block_size = 8,
                              .batch = BATCH,
                              .ranks = 1,
                              .seed = 5,
                              .shuffle = true};
    Stream *s;
    StreamBatch b;
    int32_t first[BATCH * BATCHES];
    int seen[N] = {0};
    must(stream_open(&s, &so, &err), &err);
    for (int k = 0; k < BATCHES; k++) {
        must(stream_next(s, &b, &err), &err);
        assert_int_equal(b.counted, 0);
        assert_int_equal(b.counted_seqs, BATCH);
        assert_int_equal(b.sequences, BATCH);
        assert_int_equal(b.tokens, 3 * BATCH);
        for (int i = 0; i < BATCH; i++) {
            first[k * BATCH + i] = b.seq_target[i];
            seen[b.seq_target[i]]++;
            assert_int_equal(b.input[i * 8 + 1], e.ids.id[3 * b.seq_target[i] + 1]);
        }
    }
    for (int i = 0; i < N; i++) assert_int_equal(seen[i], BATCH * BATCHES / N);
    assert_true(memcmp(first, first + N, N * sizeof *first) != 0);
    for (int k = 0; k < BATCHES; k += 5) {
        must(stream_seek(s, (int64_t)k * BATCH, &err), &err);
        must(stream_next(s, &b, &err), &err);
        assert_memory_equal(b.seq_target, first + k * BATCH, BATCH * sizeof *first);
    }
    stream_close(s);
    example_view_close(&all);
    examples_close(&e);
}

static void texts_to_predict_may_be_anything(void **state)
{
    const Fixture *f = *state;
    const char text[] = "the cat\n\na\tb\r\n";
    const TestPath p = test_file(&f->dir, "plain.txt", text, strlen(text));
    ExampleFile *file;
    ExampleRecord r;
    Err err = {0};
    bool more;
    must(example_file_open(&file, p.s, EXAMPLE_CLASSIFY, false, &err), &err);
    static const char *const want[][2] = {{"the cat", NULL}, {"", NULL}, {"a", "b"}};
    for (int i = 0; i < 3; i++) {
        must(example_file_next(file, &r, &more, &err), &err);
        assert_true(more);
        assert_int_equal(r.line, i + 1);
        assert_int_equal(r.text.bytes, strlen(want[i][0]));
        assert_memory_equal(r.text.text, want[i][0], r.text.bytes);
        assert_int_equal(r.pair.text != NULL, want[i][1] != NULL);
        if (want[i][1]) assert_memory_equal(r.pair.text, want[i][1], r.pair.bytes);
    }
    must(example_file_next(file, &r, &more, &err), &err);
    assert_false(more);
    example_file_close(file);
    must(example_file_open(&file, p.s, EXAMPLE_TAG, false, &err), &err);
    must(example_file_next(file, &r, &more, &err), &err);
    assert_int_equal(r.words, 2);
    must(example_file_next(file, &r, &more, &err), &err);
    assert_true(more);
    assert_int_equal(r.words, 0);
    example_file_close(file);
}

static void labels_have_bounds(void **state)
{
    (void)state;
    static Labels l;
    Err err = {0};
    int n;
    char name[80];
    for (int i = 0; i < LABELS_MAX; i++) {
        snprintf(name, sizeof name, "LABEL_%d", i);
        must(labels_add(&l, name, strlen(name), &n, &err), &err);
        assert_int_equal(n, i);
    }
    assert_true(labels_unnamed(&l));
    expect_error(labels_add(&l, "x", 1, &n, &err), &err, ERR_USAGE, "more than 256");
    must(labels_add(&l, "LABEL_7", 7, &n, &err), &err);
    assert_int_equal(n, 7);
    l.n = 1;
    memset(name, 'x', sizeof name);
    must(labels_add(&l, name, 63, &n, &err), &err);
    expect_error(labels_add(&l, name, 64, &n, &err), &err, ERR_USAGE, "at most 63");
    assert_false(labels_unnamed(&l));
    static const char *const bad[] = {
        "a\tb", "\x7f", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xe2\x82"};
    for (size_t i = 0; i < LT_COUNT(bad); i++)
        expect_error(labels_add(&l, bad[i], strlen(bad[i]), &n, &err), &err, ERR_USAGE,
                     "printable");
    must(labels_add(&l, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9, &n, &err), &err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_of_classify_mean_the_same),
        cmocka_unit_test(pairs_have_two_types_and_padding_is_nobodys),
        cmocka_unit_test(the_longer_text_of_a_pair_is_cut),
        cmocka_unit_test(labels_are_sorted_as_people_count),
        cmocka_unit_test(wrong_files_are_told_with_their_line),
        cmocka_unit_test(a_label_outside_the_map_is_told_with_the_map),
        cmocka_unit_test(forms_of_tag_mean_the_same),
        cmocka_unit_test(words_behind_the_room_are_not_seen),
        cmocka_unit_test(answers_are_found_by_character_and_byte),
        cmocka_unit_test(long_contexts_become_windows),
        cmocka_unit_test(a_tenth_is_held_out_and_nothing_is_lost),
        cmocka_unit_test(a_stream_of_examples_can_be_resumed),
        cmocka_unit_test(texts_to_predict_may_be_anything),
        cmocka_unit_test(labels_have_bounds),
    };
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
