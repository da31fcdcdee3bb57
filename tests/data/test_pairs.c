// test_pairs.c -- BERT's pairs as samples of the stream: masks, packs, splits over ranks.
//
// A folder of pairs with known ids: pair i is [CLS] a.. [SEP] b.. [SEP], all a and b of a pair
// being FIRST + i, so that a token says which pair it is from.
//
// SPDX-License-Identifier: MIT
#include "fake_data.h"
#include "engine/data/mlm_mask.h"
#include "engine/data/pack.h"
#include "engine/data/sentence.h"
#include "engine/data/stream.h"

enum { CLS = 1, SEP, MASK, FIRST, VOCAB = 3000, PAIRS = 97, T = 64 };

static int64_t length_of(int i)
{
    return 5 + (i * 37) % 28;
} // 5..32

static TestPath pairs_folder(const TestDir *d, const char *name)
{
    const TestPath p = test_folder(d, name);
    Err err = {0};
    SplitWriter *w;
    DataMeta m = {.kind = "wordpiece", .vocab_size = VOCAB, .end_token = SEP, .token_bytes = 2};
    m.pairs = (MetaPairs){32, 0.1, 1, 12345, "cut", CLS, SEP, MASK, 0};
    for (int split = 0; split < 2; split++) {
        must(split_writer_open(&w, p.s, split ? "val" : "train", 2, 301, &err), &err);
        for (int i = 0; i < PAIRS; i++) {
            int32_t id[32];
            const int64_t n = length_of(i);
            for (int64_t t = 0; t < n; t++) id[t] = FIRST + i;
            id[0] = CLS;
            id[n / 2] = id[n - 1] = SEP;
            must(split_writer_document(w, &err), &err);
            must(split_writer_next(w, i % 3 == 0, &err), &err);
            must(split_writer_put(w, id, n, true, &err), &err);
        }
        must(split_writer_finish(w, &m.split[split], &err), &err);
        split_writer_close(w);
    }
    must(data_meta_write(&m, p.s, &err), &err);
    data_meta_free(&m);
    return p;
}

static StreamOptions options(const char *data, int64_t batch, int64_t pack)
{
    return (StreamOptions){.data = data,
                           .content = STREAM_PAIRS,
                           .block_size = T,
                           .batch = batch,
                           .ranks = 1,
                           .seed = 7,
                           .shuffle = true,
                           .vocab_size = VOCAB,
                           .mask_prob = 0.15,
                           .pack = pack};
}

typedef struct Seen { // a pair as it came
    int times;
    int64_t n, picks;
    int32_t id[32], row[32], target[32], next;
} Seen;

// Each sequence of a batch, by the pair it is (what was masked tells by its target).
static void collect(const StreamBatch *b, Seen *seen)
{
    for (int64_t s = 0; s < b->samples; s++)
        for (int64_t q = 0; q < b->seqs && b->seq_row[s * b->seqs + q] >= 0; q++) {
            const int64_t lo = b->seq_row[s * b->seqs + q], at = s * T + lo;
            const int64_t hi = b->seg_hi[at];
            Seen one = {.n = hi - lo, .next = b->seq_target[s * b->seqs + q]};
            memcpy(one.id, b->input + at, (size_t)one.n * sizeof *one.id);
            for (int64_t t = lo; t < hi; t++) {
                assert_int_equal(b->position[s * T + t], t - lo);
                assert_int_equal(b->seg_lo[s * T + t], lo);
                assert_int_equal(b->seg_hi[s * T + t], hi);
                assert_int_equal(b->type[s * T + t], t - lo > one.n / 2);
            }
            for (int64_t p = s * b->picks; p < (s + 1) * b->picks; p++) {
                if (b->pick_row[p] < lo || b->pick_row[p] >= hi) continue;
                one.row[one.picks] = b->pick_row[p] - (int32_t)lo;
                one.target[one.picks++] = b->pick_target[p];
            }
            assert_true(one.picks > 0);
            Seen *to = &seen[one.target[0] - FIRST];
            one.times = to->times + 1;
            *to = one;
        }
}

// An epoch of every rank.
static void epoch(StreamOptions o, int64_t from, Seen *seen)
{
    memset(seen, 0, PAIRS * sizeof *seen);
    for (int r = 0; r < o.ranks; r++) {
        Err err = {0};
        Stream *s;
        StreamBatch b;
        StreamInfo info;
        o.rank = r;
        must(stream_open(&s, &o, &err), &err);
        stream_info(s, &info);
        assert_int_equal(info.sequences, PAIRS);
        must(stream_seek(s, from * info.samples_an_epoch, &err), &err);
        const int64_t end = (from + 1) * info.samples_an_epoch;
        while (stream_tell(s) < end) {
            must(stream_next(s, &b, &err), &err);
            collect(&b, seen);
        }
        stream_close(s);
    }
}

static void a_pair_is_masked_the_same_packed_padded_and_on_any_rank(void **state)
{
    (void)state;
    static Seen padded[PAIRS], other[PAIRS];
    TestDir d = test_dir();
    const TestPath p = pairs_folder(&d, "data");
    epoch(options(p.s, 1, 1), 0, padded);
    for (int i = 0; i < PAIRS; i++) {
        assert_int_equal(padded[i].times, 1);
        assert_int_equal(padded[i].n, length_of(i));
        assert_int_equal(padded[i].next, i % 3 == 0);
        const int64_t want = LT_MAX((int64_t)((double)length_of(i) * 0.15 + 0.5), (int64_t)1);
        assert_int_equal(padded[i].picks, want);
        for (int64_t k = 0; k < want; k++) assert_int_equal(padded[i].target[k], FIRST + i);
    }
    epoch(options(p.s, 1, 3), 0, other);
    assert_memory_equal(padded, other, sizeof padded);
    StreamOptions o = options(p.s, 1, 1);
    epoch(o, 1, other); // another epoch: other masks
    int same = 0;
    for (int i = 0; i < PAIRS; i++)
        same += memcmp(padded[i].row, other[i].row, sizeof other[i].row) == 0;
    assert_true(same < PAIRS / 2);
    test_dir_remove(&d);
}

static void validation_has_one_set_of_masks(void **state)
{
    (void)state;
    static Seen a[PAIRS], b[PAIRS];
    TestDir d = test_dir();
    const TestPath p = pairs_folder(&d, "data");
    StreamOptions o = options(p.s, 4, 1);
    o.split = STREAM_VAL;
    o.shuffle = false;
    epoch(o, 0, a);
    o.seed = 99;
    o.ranks = 2;
    o.batch = 3;
    epoch(o, 0, b);
    assert_memory_equal(a, b, sizeof a);
    test_dir_remove(&d);
}

static void a_mixture_gives_each_folder_its_share(void **state)
{
    (void)state;
    TestDir d = test_dir();
    const TestPath p = pairs_folder(&d, "a"), q = pairs_folder(&d, "b");
    char data[600];
    snprintf(data, sizeof data, "%s:0.75,%s:0.25", p.s, q.s);
    StreamOptions o = options(data, 4, 2);
    Stream *s;
    Err err = {0};
    StreamInfo info;
    StreamBatch b;
    static Seen seen[PAIRS];
    memset(seen, 0, sizeof seen);
    must(stream_open(&s, &o, &err), &err);
    stream_info(s, &info);
    assert_int_equal(info.sequences, 2 * PAIRS);
    assert_int_equal(info.seqs, 2);
    // As many samples as both have: an epoch and a half of the one, half an epoch of the other.
    while (stream_tell(s) + 4 <= info.samples_an_epoch) {
        must(stream_next(s, &b, &err), &err);
        collect(&b, seen);
    }
    int sum = 0;
    for (int i = 0; i < PAIRS; i++) {
        assert_in_range(seen[i].times, 1, 3);
        sum += seen[i].times;
    }
    assert_in_range(sum, 2 * PAIRS - 12, 2 * PAIRS);
    stream_close(s);
    test_dir_remove(&d);
}

static void data_of_the_other_kind_is_refused(void **state)
{
    (void)state;
    TestDir d = test_dir();
    const TestPath p = pairs_folder(&d, "data");
    const int32_t id[100] = {0};
    const FakeData gpt = {
        .id = id, .n = 100, .shard_tokens = 64, .token_bytes = 2, .vocab_size = 9};
    const TestPath q = fake_data(&d, "gpt", &gpt, NULL);
    Stream *s;
    Err err = {0};
    StreamOptions o = options(q.s, 1, 1);
    expect_error(stream_open(&s, &o, &err), &err, ERR_USAGE, "pretraining reads pairs");
    o = options(p.s, 1, 1);
    o.block_size = 31;
    expect_error(stream_open(&s, &o, &err), &err, ERR_USAGE, "block_size is 31");
    o = options(p.s, 1, 1);
    o.content = STREAM_TOKENS;
    expect_error(stream_open(&s, &o, &err), &err, ERR_USAGE, "a GPT reads a run of tokens");
    test_dir_remove(&d);
}

static void packs_hold_every_sequence_once_and_not_too_much(void **state)
{
    (void)state;
    enum { N = 5000, ROW = 100 };
    static uint64_t begin[N];
    static int32_t picks_of[ROW + 1];
    uint32_t x = 3;
    int64_t end = 0;
    for (int i = 0; i < N; i++) {
        begin[i] = (uint64_t)end;
        x = x * 1664525u + 1013904223u;
        end += 1 + (x >> 8) % ROW;
    }
    for (int n = 0; n <= ROW; n++) picks_of[n] = LT_MAX(1, n / 5);
    const PackRule rule = {ROW, 3, 21, picks_of};
    Packs p;
    Err err = {0};
    must(packs_make(&p, &rule, begin, N, end, &err), &err);
    static int seen[N];
    for (int64_t k = 0; k < p.n; k++) {
        int64_t tokens = 0, picks = 0;
        assert_in_range(p.first[k + 1] - p.first[k], 1, 3);
        for (uint32_t i = p.first[k]; i < p.first[k + 1]; i++) {
            const uint32_t j = p.document[i];
            const int64_t n = (j + 1 < N ? (int64_t)begin[j + 1] : end) - (int64_t)begin[j];
            assert_int_equal(seen[j]++, 0);
            tokens += n;
            picks += picks_of[n];
        }
        assert_true(tokens <= ROW && picks <= 21);
        assert_true(k == 0 || p.document[p.first[k]] > p.document[p.first[k - 1]]);
    }
    for (int i = 0; i < N; i++) assert_int_equal(seen[i], 1);
    assert_true((double)end / ((double)p.n * ROW) > 0.95);
    packs_free(&p);
}

static void masks_keep_their_shares_and_leave_special_tokens(void **state)
{
    (void)state;
    enum { N = 40 };
    const MlmMask m = {0.15, 100, VOCAB, CLS, SEP, MASK, 0, NULL};
    int64_t all = 0, masked = 0, kept = 0;
    for (int k = 0; k < 4000; k++) {
        int32_t id[N], row[N], target[N], work[N];
        for (int t = 0; t < N; t++) id[t] = FIRST + t;
        id[0] = CLS;
        id[20] = id[N - 1] = SEP;
        const MaskKey key = {5, 0, 0, k};
        const int64_t n = mlm_mask(&m, &key, id, N, row, target, work);
        assert_int_equal(n, 6);
        for (int64_t i = 0; i < n; i++) {
            assert_true(row[i] != 0 && row[i] != 20 && row[i] != N - 1);
            assert_int_equal(target[i], FIRST + row[i]);
            masked += id[row[i]] == MASK;
            kept += id[row[i]] == target[i];
        }
        all += n;
    }
    assert_in_range(masked * 1000 / all, 790, 810);
    assert_in_range(kept * 1000 / all, 93, 107);
    int32_t bare[3] = {CLS, SEP, SEP}, row[3], target[3], work[3];
    const MaskKey key = {0};
    assert_int_equal(mlm_mask(&m, &key, bare, 3, row, target, work), 0);
}

static void whole_words_are_masked_whole(void **state)
{
    (void)state;
    enum { N = 31 };
    static uint8_t goes_on[VOCAB];
    goes_on[FIRST + 1] = 1;
    const MlmMask m = {0.15, 100, VOCAB, CLS, SEP, MASK, 0, goes_on};
    for (int k = 0; k < 500; k++) {
        int32_t id[N], row[N], target[N], work[N];
        for (int t = 0; t < N; t++) id[t] = FIRST + (t % 3 != 1); // words of three: 1 4 7 ...
        id[0] = CLS;
        const MaskKey key = {5, 0, 0, k};
        const int64_t n = mlm_mask(&m, &key, id, N, row, target, work);
        assert_int_equal(n, 3); // of 5 wanted: a second word would be too much
        assert_true(row[0] % 3 == 1 && row[1] == row[0] + 1 && row[2] == row[0] + 2);
    }
}

static void text_is_cut_into_sentences(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"One. Two! Three?", "One.|Two!|Three?|"},
        {"Mr. Smith went. He ran.", "Mr. Smith went.|He ran.|"},
        {"J. R. Smith ran, e.g. here. Then", "J. R. Smith ran, e.g. here.|Then|"},
        {"\"Stop!\" he cried. \"Why?\" Nobody", "\"Stop!\" he cried.|\"Why?\"|Nobody|"},
        {"3.14 is pi.\nYes\nno", "3.14 is pi.|Yes\nno|"},
        {"no end\n \nnext", "no end|next|"},
        {"\xe4\xbb\x8a\xe3\x80\x82\xe6\x98\x8e\xe3\x80\x82",
         "\xe4\xbb\x8a\xe3\x80\x82|\xe6\x98\x8e\xe3\x80\x82|"},
        {" \n\t ", ""},
        {"", ""},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char got[200] = "";
        const char *text = cases[k].text;
        Sentence s;
        for (size_t at = 0; sentence_next(text, strlen(text), &at, &s);) {
            strncat(got, text + s.from, s.to - s.from);
            strcat(got, "|");
        }
        assert_string_equal(got, cases[k].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pair_is_masked_the_same_packed_padded_and_on_any_rank),
        cmocka_unit_test(validation_has_one_set_of_masks),
        cmocka_unit_test(a_mixture_gives_each_folder_its_share),
        cmocka_unit_test(data_of_the_other_kind_is_refused),
        cmocka_unit_test(packs_hold_every_sequence_once_and_not_too_much),
        cmocka_unit_test(masks_keep_their_shares_and_leave_special_tokens),
        cmocka_unit_test(whole_words_are_masked_whole),
        cmocka_unit_test(text_is_cut_into_sentences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
