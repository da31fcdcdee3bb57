// test_trainer_bert.c -- engine/train/trainer.h: a step in pretraining a BERT: two losses, each
// with its own mean, whatever the step is cut into and however its sequences lie in rows.
//
// SPDX-License-Identifier: MIT
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/rng.h"
#include "tests/train/trainer_fixture.h"

// SEQUENCES of LENGTH tokens at most, each with PICKS masked tokens at most.
enum { SEQUENCES = 8, LENGTH = 16, PICKS = 4, V = 61, MASK = 4, ROWS_MAX = SEQUENCES * LENGTH };

typedef struct Data { // a step's samples, `pack` sequences in each
    int32_t input[ROWS_MAX], type[ROWS_MAX], position[ROWS_MAX], seg_lo[ROWS_MAX], seg_hi[ROWS_MAX];
    int32_t pick_row[SEQUENCES * PICKS], pick_target[SEQUENCES * PICKS];
    int32_t seq_row[SEQUENCES], seq_target[SEQUENCES];
    int64_t sample[SEQUENCES];
    StreamBatch b;
} Data;

static int draw(int64_t step, int64_t what, int64_t i, int below)
{
    return (int)rng_below((uint64_t)(10 * step + what), 7, (uint64_t)i, (uint64_t)below);
}

// Sequence q of the step, into rows `at`, at + 1 ... of its sample. Returns its length.
static int64_t put_sequence(Data *d, int64_t step, int64_t q, int64_t sample, int64_t at, int64_t T)
{
    const int64_t n = 6 + draw(step, 0, q, LENGTH - 5);
    for (int64_t i = 0; i < n; i++) {
        const int64_t r = sample * T + at + i;
        d->input[r] = 5 + draw(step, 1, q * LENGTH + i, V - 5);
        d->type[r] = i >= n / 2;
        d->position[r] = (int32_t)i;
        d->seg_lo[r] = (int32_t)at;
        d->seg_hi[r] = (int32_t)(at + n);
    }
    d->seq_row[q] = (int32_t)at;
    d->seq_target[q] = q % 3 == 2 ? TOKEN_IGNORE : draw(step, 2, q, 2);
    const int64_t picks = draw(step, 3, q, PICKS + 1); // some have none
    for (int64_t p = 0; p < PICKS; p++) {
        const int64_t to = q * PICKS + p, r = sample * T + at + 1 + p;
        d->pick_row[to] = p < picks ? (int32_t)(at + 1 + p) : -1;
        d->pick_target[to] = p < picks ? d->input[r] : TOKEN_IGNORE;
        if (p < picks) d->input[r] = MASK;
        d->b.counted += p < picks;
    }
    d->b.counted_seqs += d->seq_target[q] != TOKEN_IGNORE;
    d->b.sequences++;
    d->b.tokens += n;
    return n;
}

static void make_data(Data *d, int64_t step, int64_t pack)
{
    const int64_t samples = SEQUENCES / pack, T = pack * LENGTH;
    memset(d, 0, sizeof *d);
    d->b = (StreamBatch){.samples = samples,
                         .input = d->input,
                         .position = d->position,
                         .seg_lo = d->seg_lo,
                         .sample = d->sample,
                         .type = d->type,
                         .seg_hi = d->seg_hi,
                         .picks = pack * PICKS,
                         .pick_row = d->pick_row,
                         .pick_target = d->pick_target,
                         .seqs = pack,
                         .seq_row = d->seq_row,
                         .seq_target = d->seq_target};
    for (int64_t s = 0; s < samples; s++) {
        int64_t at = 0;
        for (int64_t k = 0; k < pack; k++) at += put_sequence(d, step, s * pack + k, s, at, T);
        d->sample[s] = step * samples + s;
    }
}

static TrainSetup setup(int64_t pack, int64_t batch_size, const char *precision, double dropout)
{
    const ModelConfig c = model_config_bert(2, 2, 32, LENGTH, V);
    TrainSetup s = trainer_fixture_setup(&c, precision, dropout, 1024);
    s.block_size = pack * LENGTH;
    s.batch_size = batch_size;
    s.samples = SEQUENCES / pack;
    s.picks = pack * PICKS;
    s.seqs = pack;
    s.head_rows = 5;
    return s;
}

enum { STEPS = 4 };

typedef struct Curve {
    TrainStep step[STEPS];
} Curve;

static Curve train(const TrainSetup *s, int64_t pack)
{
    Trainer t;
    Backend b;
    Err err;
    Curve out;
    open_trainer(&t, &b, s);
    for (int i = 0; i < STEPS; i++) {
        Data d;
        make_data(&d, i, pack);
        must(trainer_step(&t, &d.b, &out.step[i], &err), &err);
        assert_false(out.step[i].skipped);
    }
    trainer_close(&t);
    return out;
}

static void assert_close(const Curve *a, const Curve *b, double tolerance, const char *what)
{
    for (int i = 0; i < STEPS; i++) {
        const TrainStep *x = &a->step[i], *y = &b->step[i];
        assert_int_equal(x->n.rows, y->n.rows);
        assert_int_equal(x->n.seqs, y->n.seqs);
        const double pair[][2] = {{x->loss, y->loss},
                                  {x->loss_rows, y->loss_rows},
                                  {x->loss_seqs, y->loss_seqs},
                                  {x->grad_norm, y->grad_norm}};
        for (size_t k = 0; k < LT_COUNT(pair); k++)
            if (!(fabs(pair[k][0] - pair[k][1]) <= tolerance * fabs(pair[k][0])))
                fail_msg("%s, step %d, number %zu: %.9f against %.9f", what, i, k, pair[k][0],
                         pair[k][1]);
    }
}

static void a_step_is_the_same_however_it_is_cut(void **state)
{
    (void)state;
    static const struct {
        const char *precision;
        double dropout, tolerance;
    } cases[] = {{"fp32", 0, 5e-6}, {"fp32", 0.3, 5e-6}, {"bf16", 0, 3e-2}, {"fp16", 0, 5e-3}};
    for (size_t c = 0; c < LT_COUNT(cases); c++) {
        TrainSetup s = setup(1, SEQUENCES, cases[c].precision, cases[c].dropout);
        const Curve whole = train(&s, 1);
        for (s.batch_size = 4; s.batch_size >= 1; s.batch_size /= 2) {
            const Curve cut = train(&s, 1);
            assert_close(&whole, &cut, cases[c].tolerance, cases[c].precision);
        }
    }
}

static void packed_sequences_are_the_same_sequences(void **state)
{
    (void)state;
    const TrainSetup padded = setup(1, 4, "fp32", 0);
    const Curve a = train(&padded, 1);
    for (int64_t pack = 2; pack <= SEQUENCES; pack *= 2) {
        const TrainSetup packed = setup(pack, LT_MAX(1, 4 / pack), "fp32", 0);
        const Curve b = train(&packed, pack);
        assert_close(&a, &b, 1e-5, "packed");
    }
}

static void each_loss_has_its_own_mean(void **state)
{
    (void)state;
    const TrainSetup s = setup(1, 2, "fp32", 0);
    const Curve c = train(&s, 1);
    for (int i = 0; i < STEPS; i++) {
        const TrainStep *r = &c.step[i];
        Data d;
        make_data(&d, i, 1);
        assert_int_equal(r->n.rows, d.b.counted);
        assert_int_equal(r->n.seqs, d.b.counted_seqs);
        assert_int_equal(r->n.tokens, d.b.tokens);
        assert_int_equal(r->n.sequences, SEQUENCES);
        assert_true(fabs(r->loss - (r->loss_rows + r->loss_seqs)) < 1e-12);
        assert_true(fabs(r->loss_rows - log(V)) < 0.3 && fabs(r->loss_seqs - log(2)) < 0.2);
    }
}

static void recomputing_changes_no_loss(void **state)
{
    (void)state;
    TrainSetup s = setup(2, 2, "fp32", 0.2);
    const Curve kept = train(&s, 2);
    s.recompute = true;
    const Curve again = train(&s, 2);
    for (int i = 0; i < STEPS; i++) assert_true(kept.step[i].loss == again.step[i].loss);
}

static void without_masked_tokens_a_step_is_none(void **state)
{
    (void)state;
    Trainer t;
    Backend b;
    Err err;
    TrainStep r;
    Data d;
    const TrainSetup s = setup(1, 4, "fp32", 0);
    open_trainer(&t, &b, &s);
    make_data(&d, 0, 1);
    must(trainer_step(&t, &d.b, &r, &err), &err);
    const size_t bytes = (size_t)t.params.total * sizeof(float);
    float *w = malloc(bytes);
    assert_non_null(w);
    memcpy(w, t.opt.w, bytes);
    for (int i = 0; i < SEQUENCES * PICKS; i++) {
        d.pick_row[i] = -1;
        d.pick_target[i] = TOKEN_IGNORE;
    }
    d.b.counted = 0;
    must(trainer_step(&t, &d.b, &r, &err), &err);
    assert_true(r.skipped && r.counted == 0 && isnan(r.loss));
    assert_memory_equal(w, t.opt.w, bytes);
    assert_int_equal(t.step, 1);
    assert_int_equal(t.skipped, 1);
    // Without labels of sequences the masked tokens alone are learnt.
    make_data(&d, 1, 1);
    for (int i = 0; i < SEQUENCES; i++) d.seq_target[i] = TOKEN_IGNORE;
    d.b.counted_seqs = 0;
    must(trainer_step(&t, &d.b, &r, &err), &err);
    assert_false(r.skipped);
    assert_true(r.loss == r.loss_rows && isnan(r.loss_seqs) && isfinite(r.loss));
    assert_int_equal(t.step, 2);
    free(w);
    trainer_close(&t);
}

static void a_micro_batch_without_masked_tokens_adds_nothing(void **state)
{
    (void)state;
    TrainStep r[2];
    Err err;
    for (int k = 0; k < 2; k++) {
        Trainer t;
        Backend b;
        Data d;
        const TrainSetup s = setup(1, k ? 1 : SEQUENCES, "fp32", 0);
        open_trainer(&t, &b, &s);
        make_data(&d, 0, 1);
        for (int i = 0; i < (SEQUENCES - 1) * PICKS; i++) { // but for the last sequence
            d.b.counted -= d.pick_target[i] != TOKEN_IGNORE;
            d.pick_row[i] = -1;
            d.pick_target[i] = TOKEN_IGNORE;
        }
        if (d.b.counted == 0) {
            d.pick_row[(SEQUENCES - 1) * PICKS] = 1;
            d.pick_target[(SEQUENCES - 1) * PICKS] = 9;
            d.b.counted = 1;
        }
        must(trainer_step(&t, &d.b, &r[k], &err), &err);
        assert_false(r[k].skipped);
        trainer_close(&t);
    }
    assert_true(fabs(r[0].loss - r[1].loss) < 1e-5 && fabs(r[0].grad_norm - r[1].grad_norm) < 1e-4);
}

static void masked_tokens_alone_are_a_task_too(void **state)
{
    (void)state;
    TrainSetup s = setup(1, 2, "fp32", 0);
    s.model.head = HEAD_MLM;
    s.model.pooler = false;
    const Curve c = train(&s, 1);
    for (int i = 0; i < STEPS; i++) {
        assert_int_equal(c.step[i].n.seqs, 0);
        assert_true(c.step[i].loss == c.step[i].loss_rows && isnan(c.step[i].loss_seqs));
    }
}

// The same step again and again is learnt by heart.
static void a_step_is_learnt_by_heart(void **state)
{
    (void)state;
    Trainer t;
    Backend b;
    Err err;
    TrainStep r = {0};
    Data d;
    TrainSetup s = setup(2, 4, "fp32", 0);
    must(schedule_init(&s.schedule, "constant", 3e-3, 0, 0, 10, 0, &err), &err);
    open_trainer(&t, &b, &s);
    make_data(&d, 0, 2);
    for (int i = 0; i < 300 && !(r.loss < 0.02 && i); i++)
        must(trainer_step(&t, &d.b, &r, &err), &err);
    if (!(r.loss_rows < 0.02 && r.loss_seqs < 0.02))
        fail_msg("losses of %.4f and %.4f are left", r.loss_rows, r.loss_seqs);
    trainer_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_the_same_however_it_is_cut),
        cmocka_unit_test(packed_sequences_are_the_same_sequences),
        cmocka_unit_test(each_loss_has_its_own_mean),
        cmocka_unit_test(recomputing_changes_no_loss),
        cmocka_unit_test(without_masked_tokens_a_step_is_none),
        cmocka_unit_test(a_micro_batch_without_masked_tokens_adds_nothing),
        cmocka_unit_test(masked_tokens_alone_are_a_task_too),
        cmocka_unit_test(a_step_is_learnt_by_heart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
