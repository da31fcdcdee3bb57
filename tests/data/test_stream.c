// test_stream.c -- engine/data/stream.h
//
// Ids equal their place in the split, so that a sample says where it was cut.
//
// SPDX-License-Identifier: MIT
#include "fake_data.h"
#include "engine/data/stream.h"

enum { MAX_N = 5000 };

static int32_t ramp[MAX_N];

static int fill_ramp(void **state)
{
    (void)state;
    for (int i = 0; i < MAX_N; i++) ramp[i] = i;
    return 0;
}

static FakeData ramp_data(int64_t n, int64_t shard_tokens)
{
    return (FakeData){.id           = ramp,
                      .n            = n,
                      .shard_tokens = shard_tokens,
                      .token_bytes  = 2,
                      .vocab_size   = MAX_N};
}

static StreamOptions options(const char *data, int64_t T, int64_t batch)
{
    return (StreamOptions){
        .data = data, .block_size = T, .batch = batch, .ranks = 1, .seed = 1337, .shuffle = true};
}

static Stream *open_stream(const StreamOptions *o)
{
    Err     err = {0};
    Stream *s   = NULL;
    must(stream_open(&s, o, &err), &err);
    return s;
}

static StreamBatch next(Stream *s)
{
    Err         err = {0};
    StreamBatch b;
    must(stream_next(s, &b, &err), &err);
    return b;
}

// First ids of samples [from, from + n) over all ranks, each rank with a stream of its own.
static void firsts(StreamOptions o, int ranks, int64_t batch, int64_t from, int64_t n, int32_t *out)
{
    for (int r = 0; r < ranks; r++) {
        o.rank    = r;
        o.ranks   = ranks;
        o.batch   = batch;
        Stream *s = open_stream(&o);
        Err     err = {0};
        must(stream_seek(s, from, &err), &err);
        for (int64_t at = from; at < from + n; at += batch * ranks) {
            assert_int_equal(stream_tell(s), at);
            const StreamBatch b = next(s);
            assert_int_equal(b.samples, batch);
            for (int64_t i = 0; i < batch; i++) {
                assert_int_equal(b.sample[i], at + r * batch + i);
                out[b.sample[i] - from] = b.input[i * o.block_size];
            }
        }
        stream_close(s);
    }
}

static void every_token_is_a_target_once_an_epoch(void **state)
{
    (void)state;
    static const struct {
        int64_t n, T, shard;
    } cases[] = {{1000, 7, 64}, {1001, 10, 41}, {9, 8, 1}, {10, 8, 3}, {4097, 64, 1000},
                 {500, 1, 50}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        TestDir        d = test_dir();
        const FakeData f = ramp_data(cases[k].n, cases[k].shard);
        const TestPath p = fake_data(&d, "data", &f, NULL);
        const int64_t  T = cases[k].T, samples = (cases[k].n - 1) / T;
        StreamOptions  o = options(p.s, T, 1);
        Stream        *s = open_stream(&o);
        StreamInfo     info;
        stream_info(s, &info);
        assert_int_equal(info.tokens, cases[k].n);
        assert_int_equal(info.samples_an_epoch, samples);
        assert_int_equal(info.dropped_tokens, cases[k].n - 1 - samples * T);
        for (int epoch = 0; epoch < 3; epoch++) {
            static uint8_t seen[MAX_N];
            memset(seen, 0, sizeof seen);
            for (int64_t i = 0; i < samples; i++) {
                const StreamBatch b = next(s);
                assert_int_equal(b.counted, T);
                for (int64_t t = 0; t < T; t++) {
                    assert_int_equal(b.target[t], b.input[t] + 1);
                    assert_int_equal(seen[b.target[t]]++, 0);
                }
            }
            for (int64_t i = 0; i < cases[k].n; i++)
                assert_int_equal(seen[i], i >= 1 && i <= samples * T);
        }
        stream_close(s);
        test_dir_remove(&d);
    }
}

static void order_does_not_depend_on_ranks_batch_shards_or_seek(void **state)
{
    (void)state;
    enum { N = 240 }; // 2.4 epochs
    static const struct {
        int     ranks;
        int64_t batch, shard;
    } cases[] = {{1, 240, 17}, {2, 4, 1000}, {4, 2, 37}, {8, 1, 600}, {3, 5, 333}, {1, 1, 101}};
    int32_t        straight[N], other[N];
    TestDir        d = test_dir();
    const FakeData f = ramp_data(1000, 1 << 20);
    const TestPath p = fake_data(&d, "data", &f, NULL);
    firsts(options(p.s, 10, 1), 1, 8, 0, N, straight);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char name[16];
        snprintf(name, sizeof name, "data%zu", k);
        const FakeData g = ramp_data(1000, cases[k].shard);
        const TestPath q = fake_data(&d, name, &g, NULL);
        firsts(options(q.s, 10, 1), cases[k].ranks, cases[k].batch, 0, N, other);
        assert_memory_equal(straight, other, sizeof straight);
        firsts(options(q.s, 10, 1), cases[k].ranks, cases[k].batch, 120, N - 120, other);
        if (120 % (cases[k].ranks * cases[k].batch) == 0)
            assert_memory_equal(straight + 120, other, (N - 120) * sizeof *other);
    }
    test_dir_remove(&d);
}

static void order_differs_by_seed_and_epoch(void **state)
{
    (void)state;
    enum { E = 99 };
    int32_t        a[2 * E], b[2 * E];
    TestDir        d = test_dir();
    const FakeData f = ramp_data(1000, 100);
    const TestPath p = fake_data(&d, "data", &f, NULL);
    StreamOptions  o = options(p.s, 10, 1);
    firsts(o, 1, 1, 0, 2 * E, a);
    o.seed = 1338;
    firsts(o, 1, 1, 0, 2 * E, b);
    int seeds = 0, epochs = 0;
    for (int i = 0; i < E; i++) seeds += a[i] == b[i];
    for (int i = 0; i < E; i++) epochs += a[i] == a[E + i];
    assert_true(seeds < 10 && epochs < 10);
    test_dir_remove(&d);
}

static void seek_is_exact_at_any_moment(void **state)
{
    (void)state;
    enum { N = 60 };
    int32_t        want[N];
    TestDir        d = test_dir();
    const FakeData f = ramp_data(300, 77);
    const TestPath p = fake_data(&d, "data", &f, NULL);
    firsts(options(p.s, 10, 1), 1, 1, 0, N, want);
    StreamOptions o   = options(p.s, 10, 1);
    Stream       *s   = open_stream(&o);
    Err           err = {0};
    uint32_t      x   = 1;
    for (int round = 0; round < 300; round++) {
        x = x * 1664525u + 1013904223u;
        const int64_t at = (x >> 8) % (N - 4);
        must(stream_seek(s, at, &err), &err);
        for (int64_t i = 0; i < (x >> 28) % 4; i++) {
            const StreamBatch b = next(s);
            assert_int_equal(b.sample[0], at + i);
            assert_int_equal(b.input[0], want[at + i]);
            assert_int_equal(stream_tell(s), at + i + 1);
        }
    }
    expect_error(stream_seek(s, -1, &err), &err, ERR_USAGE, "negative");
    stream_close(s);
    test_dir_remove(&d);
}

static void batch_stays_valid_until_the_next_call(void **state)
{
    (void)state;
    TestDir        d = test_dir();
    const FakeData f = ramp_data(1000, 100);
    const TestPath p = fake_data(&d, "data", &f, NULL);
    StreamOptions  o = options(p.s, 10, 4);
    Stream        *s = open_stream(&o);
    for (int round = 0; round < 50; round++) {
        const StreamBatch b = next(s);
        int32_t           copy[40];
        Err               err = {0};
        memcpy(copy, b.input, sizeof copy);
        if (round % 3 == 2) must(stream_seek(s, round, &err), &err); // the thread works meanwhile
        Stream *busy = open_stream(&o);
        (void)next(busy);
        stream_close(busy);
        assert_memory_equal(copy, b.input, sizeof copy);
    }
    stream_close(s);
    test_dir_remove(&d);
}

// Documents [0,3) [3,4) [4,9) [9,14); T = 5: samples at 0 and 5.
static void document_mask_as_drawn_by_hand(void **state)
{
    (void)state;
    enum { X = TOKEN_IGNORE };
    static const int64_t document[] = {0, 3, 4, 9};
    static const int32_t target[2][5]   = {{1, 2, X, X, 5}, {6, 7, 8, X, 10}};
    static const int32_t position[2][5] = {{0, 1, 2, 0, 0}, {0, 1, 2, 3, 0}};
    static const int32_t seg_lo[2][5]   = {{0, 0, 0, 3, 4}, {0, 0, 0, 0, 4}};
    TestDir              d              = test_dir();
    FakeData             f              = ramp_data(14, 4);
    f.document                          = document;
    f.documents                         = 4;
    const TestPath p                    = fake_data(&d, "data", &f, NULL);
    StreamOptions  o                    = options(p.s, 5, 2);
    o.shuffle                           = false;
    o.document_mask                     = true;
    Stream           *s                 = open_stream(&o);
    const StreamBatch b                 = next(s);
    assert_int_equal(b.samples, 2);
    assert_memory_equal(b.target, target, sizeof target);
    assert_memory_equal(b.position, position, sizeof position);
    assert_memory_equal(b.seg_lo, seg_lo, sizeof seg_lo);
    assert_int_equal(b.counted, 7);
    stream_close(s);
    o.document_mask = false;
    s               = open_stream(&o);
    const StreamBatch plain = next(s);
    assert_null(plain.position);
    assert_null(plain.seg_lo);
    assert_int_equal(plain.counted, 10);
    stream_close(s);
    test_dir_remove(&d);
}

// Over an epoch: each token but first ones of documents (and of the split) is a target once.
static void document_mask_counts_over_an_epoch(void **state)
{
    (void)state;
    static int64_t document[400];
    int            n = 0;
    uint32_t       x = 7;
    for (int64_t at = 0; at < 1001; at += 1 + (x >> 10) % 12) {
        document[n++] = at;
        x             = x * 1664525u + 1013904223u;
    }
    TestDir  d  = test_dir();
    FakeData f  = ramp_data(1001, 64);
    f.document  = document;
    f.documents = n;
    const TestPath p = fake_data(&d, "data", &f, NULL);
    StreamOptions  o = options(p.s, 20, 1);
    o.document_mask  = true;
    Stream *s        = open_stream(&o);
    static uint8_t seen[1001];
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < 50; i++) {
        const StreamBatch b = next(s);
        for (int t = 0; t < 20; t++) {
            if (b.target[t] != TOKEN_IGNORE) seen[b.target[t]]++;
            assert_int_equal(b.position[t], t - b.seg_lo[t]);
            assert_true(b.seg_lo[t] <= t);
        }
    }
    for (int i = 0, k = 0; i < 1001; i++) {
        const bool first = k < n && document[k] == i;
        k += first;
        assert_int_equal(seen[i], !first);
    }
    stream_close(s);
    test_dir_remove(&d);
}

static void completion_mask_counts_completions_only(void **state)
{
    (void)state;
    enum { X = TOKEN_IGNORE };
    static const uint8_t counts[] = {0, 0, 1, 1, 0, 1, 1, 1, 1, 0, 0};
    static const int32_t want[]   = {X, 2, 3, X, 5, 6, 7, 8, X, X};
    TestDir              d        = test_dir();
    FakeData             f        = ramp_data(11, 3);
    f.counts                      = counts;
    const TestPath p              = fake_data(&d, "data", &f, NULL);
    StreamOptions  o              = options(p.s, 5, 2);
    o.shuffle                     = false;
    o.completion_only             = true;
    Stream           *s           = open_stream(&o);
    const StreamBatch b           = next(s);
    assert_memory_equal(b.target, want, sizeof want);
    assert_int_equal(b.counted, 6);
    stream_close(s);
    o.completion_only = false; // the mask is there, but not asked for
    s                 = open_stream(&o);
    assert_int_equal(next(s).counted, 10);
    stream_close(s);
    test_dir_remove(&d);
}

static void validation_is_in_order_and_ends(void **state)
{
    (void)state;
    static const struct {
        int     ranks;
        int64_t batch;
    } cases[] = {{1, 1}, {1, 4}, {1, 100}, {2, 3}, {4, 2}};
    TestDir        d   = test_dir();
    const FakeData f   = ramp_data(100, 9);
    const FakeData t   = ramp_data(50, 9);
    const TestPath p   = fake_data(&d, "data", &t, &f);
    Err            err = {0};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        int seen[9] = {0}; // 99 / 11
        for (int r = 0; r < cases[k].ranks; r++) {
            StreamOptions o = options(p.s, 11, cases[k].batch);
            o.split         = STREAM_VAL;
            o.shuffle       = false;
            o.rank          = r;
            o.ranks         = cases[k].ranks;
            Stream *s       = open_stream(&o);
            for (int pass = 0; pass < 2; pass++) {
                while (stream_tell(s) < 9) {
                    const StreamBatch b = next(s);
                    for (int64_t i = 0; i < b.samples; i++) {
                        assert_int_equal(b.input[i * 11], b.sample[i] * 11);
                        seen[b.sample[i]]++;
                    }
                }
                assert_int_equal(next(s).samples, 0);
                assert_int_equal(next(s).samples, 0);
                assert_int_equal(stream_tell(s), 9);
                must(stream_seek(s, 0, &err), &err);
            }
            expect_error(stream_seek(s, 10, &err), &err, ERR_USAGE, "behind the last");
            stream_close(s);
        }
        for (int i = 0; i < 9; i++) assert_int_equal(seen[i], 2);
    }
    test_dir_remove(&d);
}

static void mixture_gives_each_source_its_share_and_epochs(void **state)
{
    (void)state;
    enum { N = 1000 };
    TestDir        d = test_dir();
    int32_t        high[500], a[N], b[N];
    const FakeData f = ramp_data(401, 64); // 40 samples
    FakeData       g = ramp_data(301, 64); // 30 samples of ids from 1000
    for (int i = 0; i < 500; i++) high[i] = 1000 + i;
    g.id             = high;
    const TestPath p = fake_data(&d, "a:b", &f, &f), q = fake_data(&d, "B", &g, &g);
    char           data[600];
    snprintf(data, sizeof data, "%s:0.7,%s:0.3", p.s, q.s);
    StreamOptions o = options(data, 10, 1);
    firsts(o, 1, 1, 0, N, a);
    firsts(o, 4, 5, 0, N, b);
    assert_memory_equal(a, b, sizeof a);
    firsts(o, 1, 1, 500, N - 500, b);
    assert_memory_equal(a + 500, b, (N - 500) * sizeof *b);
    int     count[2] = {0}, first_epoch[2][40] = {{0}};
    const int samples[2] = {40, 30};
    for (int i = 0; i < N; i++) {
        const int k = a[i] >= 1000;
        if (count[k] < samples[k]) first_epoch[k][(a[i] - 1000 * k) / 10]++;
        count[k]++;
    }
    assert_in_range(count[0], 698, 702);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < samples[k]; i++) assert_int_equal(first_epoch[k][i], 1);
    Stream    *s = open_stream(&o);
    StreamInfo info;
    stream_info(s, &info);
    assert_int_equal(info.tokens, 702);
    assert_int_equal(info.samples_an_epoch, 70);
    stream_close(s);
    // Validation: each source in order and once, evenly interleaved (40 and 30 samples).
    o.split   = STREAM_VAL;
    o.shuffle = false;
    s         = open_stream(&o);
    int seen[2] = {0, 0};
    for (int i = 0; i < 70; i++) {
        const int32_t first = next(s).input[0];
        const int     k     = first >= 1000;
        assert_int_equal(first, 1000 * k + 10 * seen[k]++);
        assert_true(abs(seen[0] * 30 - seen[1] * 40) <= 40);
    }
    assert_int_equal(next(s).samples, 0);
    stream_close(s);
    // A path with a colon in it is a path when it is there.
    o = options(p.s, 10, 1);
    stream_close(open_stream(&o));
    test_dir_remove(&d);
}

static void info_says_what_meta_says(void **state)
{
    (void)state;
    TestDir  d  = test_dir();
    FakeData f  = ramp_data(100, 64);
    f.tokenizer = UINT64_C(0xfedcba9876543210);
    const TestPath p    = fake_data(&d, "data", &f, NULL);
    StreamOptions  o    = options(p.s, 10, 1);
    o.vocab_size        = MAX_N;
    Stream    *s        = open_stream(&o);
    StreamInfo info;
    stream_info(s, &info);
    assert_true(info.tokenizer == f.tokenizer);
    assert_int_equal(info.vocab_size, MAX_N);
    assert_int_equal(info.documents, 1);
    assert_true(info.bytes_per_token == 4.0);
    assert_string_equal(info.tokenizer_dir, p.s);
    stream_close(s);
    test_dir_remove(&d);
}

static void foreign_files_say_less(void **state)
{
    (void)state;
    TestDir        d = test_dir();
    const TestPath p = test_shard(&d, "x.bin", ramp, 50, false);
    StreamOptions  o = options(p.s, 7, 1);
    Stream        *s = open_stream(&o);
    StreamInfo     info;
    stream_info(s, &info);
    assert_int_equal(info.samples_an_epoch, 7);
    assert_int_equal(info.dropped_tokens, 0);
    assert_int_equal(info.vocab_size, 0);
    assert_int_equal(info.tokenizer, 0);
    assert_true(info.bytes_per_token == 0);
    assert_string_equal(info.tokenizer_dir, "");
    stream_close(s);
    test_dir_remove(&d);
}

static void bad_id_comes_out_at_its_batch(void **state)
{
    (void)state;
    TestDir d = test_dir();
    int32_t id[101];
    memcpy(id, ramp, sizeof id);
    id[57]           = 4000; // sample 5 of 10
    const TestPath p = test_shard(&d, "x.bin", id, 101, false);
    StreamOptions  o = options(p.s, 10, 1);
    o.shuffle        = false;
    o.vocab_size     = 1000;
    Stream     *s    = open_stream(&o);
    Err         err  = {0};
    StreamBatch b;
    for (int i = 0; i < 5; i++) assert_int_equal(next(s).input[0], 10 * i);
    for (int twice = 0; twice < 2; twice++) {
        expect_error(stream_next(s, &b, &err), &err, ERR_FORMAT, "token 57 is id 4000");
        assert_non_null(strstr(err.text, "while reading sample 5"));
        assert_int_equal(stream_tell(s), 5);
    }
    must(stream_seek(s, 6, &err), &err); // behind it all is well
    assert_int_equal(next(s).input[0], 60);
    stream_close(s);
    test_dir_remove(&d);
}

static void wrong_use_of_data_is_told_at_open(void **state)
{
    (void)state;
    TestDir  d = test_dir();
    FakeData f = ramp_data(40, 64), g = ramp_data(40, 64);
    f.tokenizer = 1;
    g.tokenizer = 2;
    const TestPath a     = fake_data(&d, "a", &f, NULL);
    const TestPath b     = fake_data(&d, "b", &g, NULL);
    const TestPath plain = test_shard(&d, "x.bin", ramp, 40, false);
    char           two[600], zero[600], bare[600], infinite[600];
    snprintf(two, sizeof two, "%s:0.5,%s:0.5", a.s, b.s);
    snprintf(zero, sizeof zero, "%s:0.5,%s:0", a.s, b.s);
    snprintf(bare, sizeof bare, "%s:0.5,%s", a.s, b.s);
    snprintf(infinite, sizeof infinite, "%s:inf", a.s);
    const struct {
        const char *data;
        int64_t     T, vocab;
        int         split, mask, completion;
        Status      code;
        const char *part;
    } cases[] = {
        {a.s, 40, 0, 0, 0, 0, ERR_USAGE, "has 40 tokens, but a block_size of 40 needs 41"},
        {a.s, 10, 100, 0, 0, 0, ERR_USAGE, "vocabulary of 5000 ids, but the model has 100"},
        {a.s, 10, 0, 1, 0, 0, ERR_USAGE, "no tokens in its val split"},
        {a.s, 10, 0, 0, 0, 1, ERR_USAGE, "no prompt/completion data"},
        {plain.s, 10, 0, 0, 1, 0, ERR_USAGE, "these files do not say"},
        {two, 10, 0, 0, 0, 0, ERR_USAGE, "different tokenizers"},
        {zero, 10, 0, 0, 0, 0, ERR_USAGE, "not FOLDER:WEIGHT"},
        {bare, 10, 0, 0, 0, 0, ERR_USAGE, "not FOLDER:WEIGHT"},
        {infinite, 10, 0, 0, 0, 0, ERR_USAGE, "not FOLDER:WEIGHT"},
        {"/nowhere", 10, 0, 0, 0, 0, ERR_IO, "/nowhere: No such file"},
        {"", 10, 0, 0, 0, 0, ERR_USAGE, "no data given"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        StreamOptions o   = options(cases[k].data, cases[k].T, 1);
        Stream       *s   = (Stream *)&o;
        Err           err = {0};
        o.vocab_size      = cases[k].vocab;
        o.split           = (StreamSplit)cases[k].split;
        o.document_mask   = cases[k].mask;
        o.completion_only = cases[k].completion;
        expect_error(stream_open(&s, &o, &err), &err, cases[k].code, cases[k].part);
        assert_null(s);
    }
    test_dir_remove(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_token_is_a_target_once_an_epoch),
        cmocka_unit_test(order_does_not_depend_on_ranks_batch_shards_or_seek),
        cmocka_unit_test(order_differs_by_seed_and_epoch),
        cmocka_unit_test(seek_is_exact_at_any_moment),
        cmocka_unit_test(batch_stays_valid_until_the_next_call),
        cmocka_unit_test(document_mask_as_drawn_by_hand),
        cmocka_unit_test(document_mask_counts_over_an_epoch),
        cmocka_unit_test(completion_mask_counts_completions_only),
        cmocka_unit_test(validation_is_in_order_and_ends),
        cmocka_unit_test(mixture_gives_each_source_its_share_and_epochs),
        cmocka_unit_test(info_says_what_meta_says),
        cmocka_unit_test(foreign_files_say_less),
        cmocka_unit_test(bad_id_comes_out_at_its_batch),
        cmocka_unit_test(wrong_use_of_data_is_told_at_open),
    };
    return cmocka_run_group_tests(tests, fill_ramp, NULL);
}
