// fp8_run.c -- see fp8_run.h.
//
// SPDX-License-Identifier: MIT
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "engine/base/rng.h"
#include "tests/model/fp8_run.h"

void must(Status st, const Err *err)
{
    if (st != ERR_NONE) fail_msg("%s", err->text);
}

void make_data(Data *d, int64_t step)
{
    d->b = (StreamBatch){.samples = S,
                         .input = d->input,
                         .target = d->target,
                         .sample = d->sample,
                         .counted = S * T};
    for (int64_t i = 0; i < S * T; i++) {
        d->input[i] = (int32_t)rng_below(1, (uint64_t)step, (uint64_t)i, V);
        d->target[i] = (d->input[i] * 7 + 3) % V;
    }
    for (int64_t s = 0; s < S; s++) d->sample[s] = step * S + s;
}

TrainSetup setup(const char *precision, int64_t width)
{
    TrainSetup s = {.model = model_config_gpt2(LAYERS, 2, width, T, V),
                    .fp8 = {.history = HISTORY},
                    .block_size = T,
                    .batch_size = S,
                    .samples = S,
                    .head_rows = 1000,
                    .beta1 = 0.9,
                    .beta2 = 0.95,
                    .eps = 1e-8,
                    .weight_decay = 0.1,
                    .grad_clip = 1.0,
                    .seed = 5};
    Err err;
    must(precision_from_name(&s.prec, precision, "f32", &err), &err);
    must(schedule_init(&s.schedule, "constant", 3e-3, 0, 0, 1000, 0, &err), &err);
    return s;
}

bool open_isa(Run *r, const TrainSetup *s, const char *isa, int threads)
{
    Err err;
    if (backend_open(&r->b, "cpu", isa, threads, &err) != ERR_NONE) return false;
    must(trainer_open(&r->t, s, &r->b.ops, &r->b.device, &err), &err);
    must(trainer_init_weights(&r->t, &err), &err);
    return true;
}

void open_threads(Run *r, const TrainSetup *s, int threads)
{
    if (!open_isa(r, s, "auto", threads)) fail_msg("no kernels");
}

void open_run(Run *r, const TrainSetup *s)
{
    open_threads(r, s, 2);
}

void close_run(Run *r)
{
    trainer_close(&r->t);
    backend_close(&r->b);
}

double step(Run *r, int64_t number)
{
    Data d;
    TrainStep out;
    Err err;
    make_data(&d, number);
    must(trainer_step(&r->t, &d.b, &out, &err), &err);
    return out.loss;
}

void steps(Run *r, int64_t from, int64_t end)
{
    for (int64_t i = from; i < end; i++) step(r, i);
}

void gradients(Run *r, int64_t sample, int64_t B, float scale, bool first)
{
    static Data d; // the model borrows it
    Err err;
    make_data(&d, 0);
    const ModelBatch m = {.B = B,
                          .T = T,
                          .input = d.input + sample * T,
                          .target = d.target + sample * T,
                          .sample = d.sample + sample};
    const ModelLossScale by = {.row = scale};
    must(model_gradients(&r->t.model, &r->t.cx, &m, by, first, &err), &err);
}

size_t weights_bytes(const Run *r)
{
    return (size_t)r->t.params.total * sizeof(float);
}

void cast_weights(Run *r)
{
    Err err;
    must(fp8_cast_weights(&r->t.fp8, &r->t.cx, &r->t.model.weights, &err), &err);
}

void expect_same_state(const Run *a, const Run *b, const char *what)
{
    const Fp8State *x = &a->t.fp8, *y = &b->t.fp8;
    if (memcmp(a->t.opt.w, b->t.opt.w, weights_bytes(a)) != 0) fail_msg("%s: weights differ", what);
    if (memcmp(x->scale, y->scale, SLOTS * sizeof *x->scale) != 0)
        fail_msg("%s: scales differ", what);
    if (memcmp(x->amax, y->amax, SLOTS * sizeof *x->amax) != 0) fail_msg("%s: amax differ", what);
    if (x->history && memcmp(x->history, y->history, SLOTS * HISTORY * sizeof(float)) != 0)
        fail_msg("%s: histories differ", what);
    if (x->at && memcmp(x->at, y->at, SLOTS * sizeof *x->at) != 0)
        fail_msg("%s: places differ", what);
    if (!x->cast || !y->cast || x->first == x->end) return;
    const Fp8Weight from = fp8_weight(x, x->first, LINEAR_QKV);
    const char *const end = (const char *)fp8_weight(x, x->end - 1, LINEAR_MLP).qt + x->C * x->F;
    const size_t bytes = (size_t)(end - (const char *)from.q);
    if (memcmp(from.q, fp8_weight(y, y->first, LINEAR_QKV).q, bytes) != 0)
        fail_msg("%s: FP8 weights differ", what);
}

void expect_same_counts(const Run *a, const Run *b, const char *what)
{
    for (int i = 0; i < SLOTS; i++) {
        const Fp8Count *x = &a->t.fp8.count[i], *y = &b->t.fp8.count[i];
        if (x->nonfinite != y->nonfinite || x->saturated != y->saturated ||
            x->flushed != y->flushed)
            fail_msg("%s: slot %d counts %u %u %u and %u %u %u", what, i, x->nonfinite,
                     x->saturated, x->flushed, y->nonfinite, y->saturated, y->flushed);
    }
}

const Param *param(const Run *r, const char *name)
{
    for (int i = 0; i < r->t.params.n; i++)
        if (strcmp(r->t.params.param[i].name, name) == 0) return &r->t.params.param[i];
    fail_msg("no parameter %s", name);
    return NULL;
}
