// test_build.c -- engine/data/build.h: from text to a folder, and back from the folder to the text.
//
// SPDX-License-Identifier: MIT
#include "support.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/data/build.h"
#include "engine/data/corpus.h"
#include "engine/data/stream.h"

typedef struct Kit {
    Tokenizer *bpe, *chars;
} Kit;

static const char sample_text[] =
    "the quick brown fox jumps over the lazy dog; the dog sleeps, the fox does not. "
    "THE QUICK BROWN FOX {}[]\":,\\\n\r\t0123456789 end of the sample text, the end!";

static int make_tokenizers(void **state)
{
    static Kit           kit;
    Err                  err   = {0};
    const TokenizerTrain bpe   = {.type = "bpe", .vocab_size = 300, .threads = 1};
    const TokenizerTrain chars = {.type = "char", .threads = 1};
    must(tokenizer_train(&kit.bpe, &bpe, sample_text, sizeof sample_text - 1, &err), &err);
    must(tokenizer_train(&kit.chars, &chars, sample_text, sizeof sample_text - 1, &err), &err);
    *state = &kit;
    return 0;
}

static int free_tokenizers(void **state)
{
    Kit *kit = *state;
    tokenizer_close(kit->bpe);
    tokenizer_close(kit->chars);
    return 0;
}

static DataBuild plan(const char *input, const char *out)
{
    return (DataBuild){.input        = input,
                       .out          = out,
                       .separator    = "",
                       .val_fraction = 0.1,
                       .shard_tokens = 1000,
                       .threads      = 2};
}

static DataMeta build(const DataBuild *how, const Tokenizer *t)
{
    DataBuilt built;
    Err       err = {0};
    must(data_build(how, t, &built, &err), &err);
    return built.meta;
}

// The text of a split, with end tokens as '|'.
static void text_of(const char *dir, int split, const Tokenizer *t, Buf *out)
{
    Corpus c;
    Err    err = {0};
    must(corpus_open(&c, dir, split, &err), &err);
    for (int64_t i = 0; i < c.tokens; i++) {
        int32_t id;
        must(corpus_read(&c, i, 1, tokenizer_vocab_size(t), &id, &err), &err);
        if (id == tokenizer_end_token(t))
            must(buf_puts(out, "|", &err), &err);
        else
            must(tokenizer_decode(t, &id, 1, out, &err), &err);
    }
    corpus_close(&c);
}

// n jsonl documents "doc 0000 ..." of varying length; longer than one batch when n is large.
static TestPath documents(const TestDir *d, const char *name, int n)
{
    Buf b   = {0};
    Err err = {0};
    for (int i = 0; i < n; i++) {
        must(buf_printf(&b, &err, "{\"text\":\"d%05d", i), &err);
        for (int k = 0; k < i % 7; k++) must(buf_puts(&b, " the fox", &err), &err);
        must(buf_puts(&b, "\"}\n", &err), &err);
    }
    const TestPath p = test_file(d, name, b.data, b.len);
    buf_free(&b);
    return p;
}

static void few_documents_are_split_at_the_end_of_the_stream(void **state)
{
    const Kit *kit = *state;
    static const char text[] = "the quick brown fox";
    for (int chars = 0; chars < 2; chars++) {
        const Tokenizer *t   = chars ? kit->chars : kit->bpe;
        TestDir          d   = test_dir();
        const TestPath   in  = test_file(&d, "in.txt", text, sizeof text - 1);
        const TestPath   out = test_path(&d, "out");
        DataBuild        how = plan(in.s, out.s);
        DataBuilt        built;
        Err              err = {0};
        how.val_fraction     = 0.25;
        must(data_build(&how, t, &built, &err), &err);
        const MetaSplit *train = &built.meta.split[0], *val = &built.meta.split[1];
        assert_true(built.split_by_stream);
        const int64_t all = train->tokens + val->tokens;
        assert_int_equal(train->tokens, (int64_t)((double)all * 0.75));
        assert_int_equal(train->documents, 1);
        assert_int_equal(val->documents, 1);
        assert_int_equal(train->text_bytes + val->text_bytes, sizeof text - 1);
        Buf got = {0};
        text_of(out.s, 0, t, &got);
        assert_int_equal(got.len, train->text_bytes);
        text_of(out.s, 1, t, &got);
        assert_string_equal(got.data, chars ? "the quick brown fox" : "the quick brown fox|");
        assert_int_equal(built.meta.end_token, chars ? -1 : tokenizer_end_token(t));
        buf_free(&got);
        data_meta_free(&built.meta);
        test_dir_remove(&d);
    }
}

static void twenty_documents_are_split_by_document(void **state)
{
    const Kit *kit = *state;
    static const struct {
        int    n;
        double fraction;
        int    val_min, val_max; // documents
    } cases[] = {{20, 0.05, 1, 1},   {20, 0.001, 1, 1}, {99, 0.01, 1, 1},  {100, 0.01, 1, 1},
                 {1000, 0.1, 100, 100}, {50, 0.5, 25, 25}, {50, 0.9, 44, 45}, {25, 0, 0, 0},
                 {9000, 0.05, 450, 450}, {19, 0, 0, 0}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        TestDir        d   = test_dir();
        const TestPath in  = documents(&d, "in.jsonl", cases[k].n);
        const TestPath out = test_path(&d, "out");
        DataBuild      how = plan(in.s, out.s);
        how.val_fraction   = cases[k].fraction;
        how.shard_tokens   = 100000;
        DataMeta m         = build(&how, kit->bpe);
        assert_int_equal(m.split[0].documents + m.split[1].documents, cases[k].n);
        assert_in_range(m.split[1].documents, cases[k].val_min, cases[k].val_max);
        // Every document is whole, in one split, in its order.
        char *seen = calloc((size_t)cases[k].n, 1);
        for (int s = 0; s < 2; s++) {
            Buf got = {0};
            int n = 0, last = -1;
            if (m.split[s].tokens == 0) continue;
            text_of(out.s, s, kit->bpe, &got);
            for (char *p = got.data; *p; n++) {
                const int    i   = atoi(p + 1);
                const size_t len = strcspn(p, "|");
                assert_int_equal(len, 6 + 8 * (i % 7));
                assert_true(i > last && i < cases[k].n);
                assert_int_equal(seen[i]++, 0);
                last = i;
                p += len + 1;
            }
            assert_int_equal(n, m.split[s].documents);
            buf_free(&got);
        }
        free(seen);
        data_meta_free(&m);
        test_dir_remove(&d);
    }
}

// A corpus that repeats with the stretch must not put always the same kind into validation.
static void validation_documents_are_not_always_the_same_in_their_stretch(void **state)
{
    const Kit     *kit = *state;
    TestDir        d   = test_dir();
    const TestPath in  = documents(&d, "in.jsonl", 400);
    const TestPath out = test_path(&d, "out");
    DataBuild      how = plan(in.s, out.s); // val_fraction 0.1: stretches of ten
    DataMeta       m   = build(&how, kit->bpe);
    Buf            got = {0};
    bool           place[10] = {false};
    int            places    = 0, stretch = 0;
    text_of(out.s, 1, kit->bpe, &got);
    for (const char *p = got.data; *p; p += strcspn(p, "|") + 1) {
        const int i = atoi(p + 1);
        assert_int_equal(i / 10, stretch++);
        places += !place[i % 10];
        place[i % 10] = true;
    }
    assert_int_equal(stretch, 40);
    assert_true(places >= 7);
    buf_free(&got);
    data_meta_free(&m);
    test_dir_remove(&d);
}

// shard_tokens and threads change files, never tokens; and the same input makes the same bytes.
static void result_does_not_depend_on_shards_or_threads(void **state)
{
    const Kit *kit = *state;
    static const struct {
        int64_t shard;
        int     threads;
    } cases[] = {{1 << 20, 1}, {1 << 20, 4}, {3001, 2}, {20000, 8}};
    TestDir        d        = test_dir();
    const TestPath in       = documents(&d, "in.jsonl", 5000);
    Buf            want[2]  = {{0}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char name[16];
        snprintf(name, sizeof name, "out%zu", k);
        const TestPath out = test_path(&d, name);
        DataBuild      how = plan(in.s, out.s);
        how.shard_tokens   = cases[k].shard;
        how.threads        = cases[k].threads;
        DataMeta m         = build(&how, kit->bpe);
        for (int s = 0; s < 2; s++) {
            Buf got = {0};
            text_of(out.s, s, kit->bpe, k ? &got : &want[s]);
            if (k) assert_int_equal(got.len, want[s].len);
            if (k) assert_memory_equal(got.data, want[s].data, got.len);
            assert_int_equal(m.split[s].shards,
                             (m.split[s].tokens + cases[k].shard - 1) / cases[k].shard);
            buf_free(&got);
        }
        data_meta_free(&m);
    }
    buf_free(&want[0]);
    buf_free(&want[1]);
    test_dir_remove(&d);
}

static void prompts_are_masked_and_text_is_not(void **state)
{
    const Kit        *kit    = *state;
    static const char text[] = "{\"text\":\"the dog\"}\n"
                               "{\"prompt\":\"the fox\",\"completion\":\" sleeps\"}\n"
                               "{\"prompt\":\"\",\"completion\":\"over\"}\n"
                               "{\"prompt\":\"lazy\",\"completion\":\"\"}\n";
    TestDir        d   = test_dir();
    const TestPath in  = test_file(&d, "in.jsonl", text, sizeof text - 1);
    const TestPath out = test_path(&d, "out");
    DataBuild      how = plan(in.s, out.s);
    how.val_fraction   = 0;
    how.shard_tokens   = 3;
    DataMeta m         = build(&how, kit->bpe);
    Corpus   c;
    Err      err = {0};
    Buf      got = {0};
    must(corpus_open(&c, out.s, 0, &err), &err);
    int64_t counted = 0;
    for (int64_t i = 0; i < c.tokens; i++) {
        int32_t id;
        must(corpus_read(&c, i, 1, 0, &id, &err), &err);
        counted += corpus_counts(&c, i);
        if (!corpus_counts(&c, i))
            must(tokenizer_decode(kit->bpe, &id, 1, &got, &err), &err);
        else
            must(buf_puts(&got, id == tokenizer_end_token(kit->bpe) ? "|" : ".", &err), &err);
    }
    // Prompts are readable, counted tokens are dots, each document ends with a counted |.
    const char *p = got.data + strspn(got.data, ".");
    assert_memory_equal(p, "|the fox.", 9);
    p += 8 + strspn(p + 8, ".");
    assert_int_equal(*p++, '|');
    p += strspn(p, ".");
    assert_string_equal(p, "|lazy|");
    assert_int_equal(counted, m.split[0].counted_tokens);
    assert_int_equal(m.split[0].documents, 4);
    assert_int_equal(m.split[0].text_bytes, 7 + 14 + 4 + 4);
    buf_free(&got);
    corpus_close(&c);
    data_meta_free(&m);
    test_dir_remove(&d);
}

// Staged prompts keep their marks through both kinds of split.
static void prompts_are_masked_in_both_splits(void **state)
{
    const Kit *kit = *state;
    for (int n = 5; n <= 45; n += 40) {
        TestDir d   = test_dir();
        Buf     b   = {0};
        Err     err = {0};
        for (int i = 0; i < n; i++)
            must(buf_puts(&b, "{\"prompt\":\"ppp\",\"completion\":\"ccc\"}\n", &err), &err);
        const TestPath in  = test_file(&d, "in.jsonl", b.data, b.len);
        const TestPath out = test_path(&d, "out");
        DataBuild      how = plan(in.s, out.s);
        how.val_fraction   = 0.3;
        DataMeta m         = build(&how, kit->bpe);
        int64_t  prompts = 0, completions = 0;
        for (int s = 0; s < 2; s++) {
            Corpus c;
            must(corpus_open(&c, out.s, s, &err), &err);
            assert_non_null(c.mask);
            for (int64_t i = 0; i < c.tokens; i++) {
                int32_t id;
                size_t  bytes;
                must(corpus_read(&c, i, 1, 0, &id, &err), &err);
                const char *token = tokenizer_token(kit->bpe, id, &bytes);
                const bool  end   = id == tokenizer_end_token(kit->bpe);
                assert_int_equal(corpus_counts(&c, i), end || token[0] == 'c');
                prompts += !end && token[0] == 'p';
                completions += end;
            }
            corpus_close(&c);
        }
        assert_true(prompts >= n);
        assert_int_equal(completions, n);
        buf_free(&b);
        data_meta_free(&m);
        test_dir_remove(&d);
    }
}

static void bytes_survive_and_empty_documents_are_counted(void **state)
{
    const Kit        *kit    = *state;
    static const char text[] = "\xef\xbb\xbf\xff\xfe\0a\r\nb\x80##\xc3(##\0##";
    TestDir           d      = test_dir();
    const TestPath    in     = test_file(&d, "in.txt", text, sizeof text - 1);
    const TestPath    out    = test_path(&d, "out");
    DataBuild         how    = plan(in.s, out.s);
    DataBuilt         built;
    Err               err = {0};
    Buf               got = {0};
    how.separator         = "##";
    how.val_fraction      = 0;
    test_file(&d, "in.txt", text, sizeof text - 1);
    must(data_build(&how, kit->bpe, &built, &err), &err);
    text_of(out.s, 0, kit->bpe, &got);
    assert_int_equal(got.len, 14);
    assert_memory_equal(got.data, "\xff\xfe\0a\r\nb\x80|\xc3(|\0|", 14);
    assert_int_equal(built.marks, 1);
    assert_int_equal(built.meta.empty_documents, 0);
    data_meta_free(&built.meta);
    must(file_remove_tree(out.s, &err), &err);
    test_file(&d, "in.txt", "##a####b##", 10);
    must(data_build(&how, kit->bpe, &built, &err), &err);
    assert_int_equal(built.meta.empty_documents, 2);
    assert_int_equal(built.meta.split[0].documents, 2);
    data_meta_free(&built.meta);
    buf_free(&got);
    test_dir_remove(&d);
}

static void special_tokens_are_plain_text_unless_asked(void **state)
{
    const Kit        *kit    = *state;
    static const char text[] = "the<|endoftext|>dog";
    const int32_t     end    = tokenizer_end_token(kit->bpe);
    for (int allow = 0; allow < 2; allow++) {
        TestDir        d   = test_dir();
        const TestPath in  = test_file(&d, "in.txt", text, sizeof text - 1);
        const TestPath out = test_path(&d, "out");
        DataBuild      how = plan(in.s, out.s);
        how.val_fraction   = 0;
        how.allow_special  = allow;
        DataMeta m         = build(&how, kit->bpe);
        Corpus   c;
        Err      err  = {0};
        int      ends = 0;
        must(corpus_open(&c, out.s, 0, &err), &err);
        for (int64_t i = 0; i < c.tokens; i++) {
            int32_t id;
            must(corpus_read(&c, i, 1, 0, &id, &err), &err);
            ends += id == end;
        }
        assert_int_equal(ends, 1 + allow);
        corpus_close(&c);
        data_meta_free(&m);
        test_dir_remove(&d);
    }
}

static void folder_serves_a_stream_and_its_tokenizer(void **state)
{
    const Kit     *kit = *state;
    TestDir        d   = test_dir();
    const TestPath in  = documents(&d, "in.jsonl", 500);
    const TestPath out = test_path(&d, "out");
    DataBuild      how = plan(in.s, out.s);
    DataMeta       m   = build(&how, kit->bpe);
    StreamOptions  o   = {.data = out.s, .block_size = 16, .batch = 2, .ranks = 1, .shuffle = true,
                          .document_mask = true, .vocab_size = tokenizer_vocab_size(kit->bpe)};
    Stream    *s;
    StreamInfo info;
    Err        err = {0};
    must(stream_open(&s, &o, &err), &err);
    stream_info(s, &info);
    assert_int_equal(info.tokens, m.split[0].tokens);
    assert_true(info.tokenizer == tokenizer_fingerprint(kit->bpe));
    Tokenizer *again;
    must(tokenizer_load(&again, info.tokenizer_dir, NULL, &err), &err);
    assert_true(tokenizer_fingerprint(again) == info.tokenizer);
    tokenizer_close(again);
    stream_close(s);
    data_meta_free(&m);
    test_dir_remove(&d);
}

static int entries(const char *dir)
{
    FileList l;
    if (file_list(dir, &l, NULL) != ERR_NONE) return -1;
    const int n = l.n;
    file_list_free(&l);
    return n;
}

static void failures_are_clear_and_leave_nothing(void **state)
{
    const Kit *kit = *state;
    static const struct {
        const char *name, *text;
        int         chars; // the tokenizer
        int64_t     shard;
        Status      code;
        const char *part;
    } cases[] = {
        {"a.txt", "", 0, 10, ERR_USAGE, "no text in it (1 file, 1 empty document)"},
        {"a.jsonl", "{\"text\":\"a\"}\n{\"text\":\"b\"}\nbad\n", 0, 10, ERR_FORMAT,
         "a.jsonl:3: not JSON"},
        {"a.txt", "the fox \xc3\xa9", 1, 10, ERR_FORMAT, "a.txt"},
        {"a.txt", "the fox", 0, INT64_C(1) << 31, ERR_USAGE,
         "a shard holds 1 to 2147483647 tokens"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int there = 0; there < 2; there++) {
            TestDir        d   = test_dir();
            const TestPath in  = test_file(&d, cases[k].name, cases[k].text, strlen(cases[k].text));
            const TestPath out = there ? test_folder(&d, "out") : test_path(&d, "out");
            DataBuild      how = plan(in.s, out.s);
            DataBuilt      built;
            Err            err = {0};
            how.shard_tokens   = cases[k].shard;
            const Tokenizer *t = cases[k].chars ? kit->chars : kit->bpe;
            expect_error(data_build(&how, t, &built, &err), &err, cases[k].code, cases[k].part);
            assert_int_equal(entries(out.s), there ? 0 : -1);
            test_dir_remove(&d);
        }
}

static void folder_that_cannot_be_made_is_an_error(void **state)
{
    const Kit     *kit = *state;
    TestDir        d   = test_dir();
    const TestPath in  = test_file(&d, "a.txt", "the fox", 7);
    const TestPath out = test_path(&d, "a.txt/out");
    DataBuild      how = plan(in.s, out.s);
    DataBuilt      built;
    Err            err = {0};
    expect_error(data_build(&how, kit->bpe, &built, &err), &err, ERR_IO, "a.txt");
    how.out = in.s; // a file, not a folder
    expect_error(data_build(&how, kit->bpe, &built, &err), &err, ERR_IO, "Not a directory");
    assert_true(file_exists(in.s));
    test_dir_remove(&d);
}

static void folder_with_content_is_left_alone(void **state)
{
    const Kit *kit = *state;
    static const struct {
        const char *file, *part;
    } cases[] = {{"meta.json", "it holds data already"},
                 {META_MARKER, "left by an interrupted lathe data"},
                 {"thesis.doc", "not data of lathe"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        TestDir        d   = test_dir();
        const TestPath in  = test_file(&d, "a.txt", "the fox", 7);
        const TestPath out = test_folder(&d, "out");
        char           name[64];
        snprintf(name, sizeof name, "out/%s", cases[k].file);
        test_file(&d, name, "precious", 8);
        DataBuild how = plan(in.s, out.s);
        DataBuilt built;
        Err       err = {0};
        expect_error(data_build(&how, kit->bpe, &built, &err), &err, ERR_USAGE, cases[k].part);
        expect_error(ERR_USAGE, &err, ERR_USAGE, "name another folder");
        assert_int_equal(entries(out.s), 1);
        test_dir_remove(&d);
    }
}

static void large_document_is_one_document(void **state)
{
    const Kit *kit = *state;
    TestDir    d   = test_dir();
    Buf        b   = {0};
    Err        err = {0};
    for (int i = 0; i < 70000; i++) // 5 MB and more: beyond a batch
        must(buf_printf(&b, &err,
                        "%d the quick brown fox jumps over the lazy dog; the dog sleeps, ", i),
             &err);
    const TestPath in  = test_file(&d, "a.txt", b.data, b.len);
    const TestPath out = test_path(&d, "out");
    DataBuild      how = plan(in.s, out.s);
    how.shard_tokens   = 1 << 20;
    DataMeta m         = build(&how, kit->bpe);
    Buf      got       = {0};
    text_of(out.s, 0, kit->bpe, &got);
    text_of(out.s, 1, kit->bpe, &got);
    assert_int_equal(got.len, b.len + 1);
    assert_memory_equal(got.data, b.data, b.len);
    assert_int_equal(m.split[0].text_bytes + m.split[1].text_bytes, b.len);
    data_meta_free(&m);
    buf_free(&b);
    buf_free(&got);
    test_dir_remove(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_documents_are_split_at_the_end_of_the_stream),
        cmocka_unit_test(twenty_documents_are_split_by_document),
        cmocka_unit_test(validation_documents_are_not_always_the_same_in_their_stretch),
        cmocka_unit_test(result_does_not_depend_on_shards_or_threads),
        cmocka_unit_test(prompts_are_masked_and_text_is_not),
        cmocka_unit_test(prompts_are_masked_in_both_splits),
        cmocka_unit_test(bytes_survive_and_empty_documents_are_counted),
        cmocka_unit_test(special_tokens_are_plain_text_unless_asked),
        cmocka_unit_test(folder_serves_a_stream_and_its_tokenizer),
        cmocka_unit_test(failures_are_clear_and_leave_nothing),
        cmocka_unit_test(folder_that_cannot_be_made_is_an_error),
        cmocka_unit_test(folder_with_content_is_left_alone),
        cmocka_unit_test(large_document_is_one_document),
    };
    return cmocka_run_group_tests(tests, make_tokenizers, free_tokenizers);
}
