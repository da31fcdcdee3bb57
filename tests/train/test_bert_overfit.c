// test_bert_overfit.c -- a bert-tiny learns 30 sentences by heart: no dropout, the same masks again
// and again. What is masked comes back in 98 of 100 places.
//
// SPDX-License-Identifier: MIT
#include <string.h>

#include "engine/base/rng.h"
#include "engine/data/mlm_mask.h"
#include "tests/train/trainer_fixture.h"

// A word is an id; sentences of 5 to 10 words, in pairs.
enum { SENTENCES = 30, LONGEST = 10, WORDS = 200, FIRST_WORD = 5, T = 2 * LONGEST + 3, PICKS = 6 };
enum { PAD = 0, CLS = 1, SEP = 2, MASKED = 3 };

typedef struct Data {
    int32_t input[SENTENCES * T], type[SENTENCES * T], position[SENTENCES * T];
    int32_t seg_lo[SENTENCES * T], seg_hi[SENTENCES * T];
    int32_t pick_row[SENTENCES * PICKS], pick_target[SENTENCES * PICKS];
    int32_t seq_row[SENTENCES], seq_target[SENTENCES];
    int64_t sample[SENTENCES];
    StreamBatch b;
} Data;

static int64_t put_sentence(int32_t *to, int64_t number)
{
    const int64_t n = 5 + (int64_t)rng_below(1, 0, (uint64_t)number, LONGEST - 4);
    for (int64_t i = 0; i < n; i++)
        to[i] = FIRST_WORD + (int32_t)rng_below(2, (uint64_t)number, (uint64_t)i, WORDS);
    return n;
}

// [CLS] A [SEP] B [SEP], masked; every other B is the sentence behind A.
static void put_pair(Data *d, int64_t a)
{
    static const MlmMask mask = {.prob = 0.15,
                                 .most = PICKS,
                                 .vocab_size = FIRST_WORD + WORDS,
                                 .cls = CLS,
                                 .sep = SEP,
                                 .mask = MASKED,
                                 .pad = PAD};
    int32_t row[PICKS], target[PICKS], work[T], *id = d->input + a * T;
    const bool next = a % 2 == 0;
    int64_t n = 1;
    id[0] = CLS;
    n += put_sentence(id + n, a);
    id[n++] = SEP;
    const int64_t second = n;
    n += put_sentence(id + n, next ? (a + 1) % SENTENCES : (a + 7) % SENTENCES);
    id[n++] = SEP;
    d->b.tokens += n;
    for (int64_t i = 0; i < T; i++) {
        d->type[a * T + i] = i >= second && i < n;
        d->position[a * T + i] = (int32_t)i;
        d->seg_hi[a * T + i] = i < n ? (int32_t)n : 0;
    }
    const MaskKey key = {.seed = 1, .document = a};
    const int64_t picks = mlm_mask(&mask, &key, id, n, row, target, work);
    for (int64_t p = 0; p < PICKS; p++) {
        d->pick_row[a * PICKS + p] = p < picks ? row[p] : -1;
        d->pick_target[a * PICKS + p] = p < picks ? target[p] : TOKEN_IGNORE;
    }
    d->b.counted += picks;
    d->seq_target[a] = !next;
    d->b.counted_seqs++;
    d->b.sequences++;
    d->sample[a] = a;
}

static void make_data(Data *d)
{
    memset(d, 0, sizeof *d);
    d->b = (StreamBatch){.samples = SENTENCES,
                         .input = d->input,
                         .position = d->position,
                         .seg_lo = d->seg_lo,
                         .sample = d->sample,
                         .type = d->type,
                         .seg_hi = d->seg_hi,
                         .picks = PICKS,
                         .pick_row = d->pick_row,
                         .pick_target = d->pick_target,
                         .seqs = 1,
                         .seq_row = d->seq_row,
                         .seq_target = d->seq_target};
    for (int64_t a = 0; a < SENTENCES; a++) put_pair(d, a);
}

// Of the last model_loss.
static double share(const Trainer *t, const float *hit, int64_t n, int64_t counted)
{
    float host[SENTENCES * PICKS];
    double sum = 0;
    Err err;
    must(device_download(t->device, host, hit, (size_t)n * sizeof(float), &err), &err);
    for (int64_t i = 0; i < n; i++) sum += (double)host[i];
    return sum / (double)counted;
}

static void thirty_sentences_are_learnt_by_heart(void **state)
{
    (void)state;
    Trainer t;
    Backend b;
    Err err;
    Data d;
    TrainStep r;
    TrainSetup s = {.model = model_config_bert(2, 2, 128, T, FIRST_WORD + WORDS),
                    .block_size = T,
                    .batch_size = 10,
                    .samples = SENTENCES,
                    .picks = PICKS,
                    .seqs = 1,
                    .head_rows = 64,
                    .beta1 = 0.9,
                    .beta2 = 0.98,
                    .eps = 1e-6,
                    .weight_decay = 0.01,
                    .grad_clip = 1.0,
                    .seed = 5};
    must(precision_from_name(&s.prec, "fp32", "f32", &err), &err);
    must(schedule_init(&s.schedule, "linear", 2e-3, 0, 20, 200, 0, &err), &err);
    open_trainer(&t, &b, &s);
    make_data(&d);
    for (int i = 0; i < 200; i++) {
        must(trainer_step(&t, &d.b, &r, &err), &err);
        assert_false(r.skipped);
    }
    double rows = 0, seqs = 0;
    for (int64_t i = 0; i < SENTENCES; i += s.batch_size) {
        const ModelBatch m = batch_part(&t.batch, i, s.batch_size);
        must(model_loss(&t.model, &t.cx, &m, &err), &err);
        rows += share(&t, t.model.hit, m.picks, d.b.counted);
        seqs += share(&t, t.model.hit_seq, m.seqs, d.b.counted_seqs);
    }
    print_message("masked tokens %.4f, next sentence %.4f, loss %.4f\n", rows, seqs, r.loss);
    if (!(rows >= 0.98 && seqs >= 0.98))
        fail_msg("accuracy %.4f of masked tokens, %.4f of the next sentence", rows, seqs);
    trainer_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(thirty_sentences_are_learnt_by_heart)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
