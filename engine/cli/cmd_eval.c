// cmd_eval.c -- `lathe eval`: loss, perplexity and bits per byte on data or a text; multiple
// choice; last words. The result is one line on stdout.
//
// SPDX-License-Identifier: MIT
#include "engine/cli/cli.h"
#include "engine/cli/model_tokenizer.h"
#include "engine/base/file.h"
#include "engine/generate/evaluate.h"
#include "engine/report/progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// JSON has no NaN and no infinity.
static void json_number(const char *before, double v)
{
    if (isfinite(v))
        printf("%s%.9g", before, v);
    else
        printf("%snull", before);
}

static Status print_loss(const Options *o, const EvalLoss *l, Err *err)
{
    if (l->counted == 0)
        return err_set(err, ERR_USAGE, "nothing was counted: no target in this text or split");
    const double loss = l->nats / (double)l->counted;
    const double bpb = l->bytes > 0 ? l->nats / log(2.0) / l->bytes : (double)NAN;
    if (o->json) {
        json_number("{\"loss\":", loss);
        json_number(",\"ppl\":", exp(loss));
        printf(",\"tokens\":%" PRId64, l->counted);
        if (l->bytes > 0) json_number(",\"bpb\":", bpb);
        printf("}\n");
    } else {
        printf("loss %.6f ppl %.4f bpb %.4f\n", loss, exp(loss), bpb);
    }
    if (!isfinite(loss)) return err_set(err, ERR_DIVERGED, "the loss is not a number");
    return ERR_NONE;
}

// Ids of another tokenizer would give a number without a meaning.
static Status same_tokenizer(const Options *o, const Evaluator *e, const Stream *s, Err *err)
{
    StreamInfo info;
    Tokenizer *t;
    stream_info(s, &info);
    if (!info.tokenizer || tokenizer_load(&t, e->m->dir, NULL, NULL) != ERR_NONE) return ERR_NONE;
    const uint64_t model = tokenizer_fingerprint(t);
    tokenizer_close(t);
    if (model == info.tokenizer) return ERR_NONE;
    const Status st =
        err_set(err, ERR_USAGE, "%s was made with another tokenizer than the model in %s", o->data,
                e->m->dir);
    err_hint(err, "make the data again with `lathe data --tokenizer=%s`", e->m->dir);
    return st;
}

static Status eval_data(const Options *o, Evaluator *e, Progress *p, Err *err)
{
    const StreamOptions so = {.data = o->data,
                              .split = strcmp(o->split, "train") == 0 ? STREAM_TRAIN : STREAM_VAL,
                              .block_size = e->block,
                              .batch = e->batch,
                              .ranks = 1,
                              .document_mask = o->data_document_mask,
                              .completion_only = strcmp(o->loss_mask, "completion") == 0,
                              .vocab_size = e->m->c.vocab_size};
    Stream *s;
    TRY(stream_open(&s, &so, err));
    EvalLoss l = {0};
    const int64_t batches = options_given(o, OPT_eval_batches) ? o->eval_batches : 0;
    Status st = same_tokenizer(o, e, s, err);
    if (st == ERR_NONE) st = evaluate_stream(e, s, batches, &l, err);
    stream_close(s);
    progress_end(p);
    TRY(st);
    return print_loss(o, &l, err);
}

static Status eval_text(const Options *o, Evaluator *e, const Tokenizer *t, Progress *p, Err *err)
{
    Buf text = {0};
    EvalLoss l = {0};
    Status st = file_read(o->text, &text, err);
    if (st == ERR_NONE && text.len > 1 && memcmp(text.data, "\x1f\x8b", 2) == 0)
        st = err_set(err, ERR_USAGE, "%s is compressed; eval reads plain text", o->text);
    if (st == ERR_NONE)
        st = evaluate_text(e, t, text.data ? text.data : "", text.len, e->cx.device->threads, &l,
                           err);
    buf_free(&text);
    progress_end(p);
    TRY_CTX(st, err, "evaluating %s", o->text);
    return print_loss(o, &l, err);
}

static Status eval_choices(const Options *o, Evaluator *e, const Tokenizer *t, Progress *p,
                           Err *err)
{
    EvalChoices c;
    const Status st = evaluate_choices(e, t, o->choices, &c, err);
    progress_end(p);
    TRY(st);
    if (c.n == 0) return err_set(err, ERR_FORMAT, "%s has no questions", o->choices);
    const double n = (double)c.n;
    printf(o->json ? "{\"acc\":%.6f,\"acc_mean\":%.6f,\"n\":%" PRId64 "}\n"
                   : "acc %.4f acc_mean %.4f n %" PRId64 "\n",
           (double)c.right_sum / n, (double)c.right_mean / n, c.n);
    return ERR_NONE;
}

static Status eval_lastword(const Options *o, Evaluator *e, const Tokenizer *t, Progress *p,
                            Err *err)
{
    EvalLastWord w;
    const Status st = evaluate_lastword(e, t, o->lastword, &w, err);
    progress_end(p);
    TRY(st);
    if (w.n == 0) return err_set(err, ERR_FORMAT, "%s has no texts", o->lastword);
    const double n = (double)w.n;
    if (o->json) {
        printf("{\"acc\":%.6f", (double)w.right / n);
        json_number(",\"ppl\":", exp(w.nats / n));
        printf(",\"n\":%" PRId64 "}\n", w.n);
    } else {
        printf("acc %.4f ppl %.4f n %" PRId64 "\n", (double)w.right / n, exp(w.nats / n), w.n);
    }
    return ERR_NONE;
}

static Status run(const Options *o, const Loaded *m, Backend *b, Err *err)
{
    const bool given = options_given(o, OPT_block_size);
    const int64_t block = given ? o->block_size : m->c.n_positions;
    if (block > m->c.n_positions)
        return err_set(err, ERR_USAGE,
                       "block_size = %" PRId64 ", but the model in %s has %" PRId64 " positions",
                       block, m->dir, m->c.n_positions);
    const bool tasks = o->choices[0] || o->lastword[0]; // one question at a time
    Tokenizer *t = NULL;
    Evaluator e = {0};
    Status st = o->data[0] ? ERR_NONE : model_tokenizer(&t, o, m, err);
    if (st == ERR_NONE) st = evaluator_open(&e, m, b, tasks ? 1 : o->batch_size, block, err);
    Progress p; // ended before a result is printed
    progress_begin(&p, "evaluating", tasks ? NULL : "tok", o->progress_after);
    e.on = progress_listener(&p);
    if (st == ERR_NONE) {
        if (o->data[0])
            st = eval_data(o, &e, &p, err);
        else if (o->text[0])
            st = eval_text(o, &e, t, &p, err);
        else if (o->choices[0])
            st = eval_choices(o, &e, t, &p, err);
        else
            st = eval_lastword(o, &e, t, &p, err);
    }
    progress_end(&p);
    evaluator_close(&e);
    tokenizer_close(t);
    return st;
}

Status cmd_eval(const Options *o, Err *err)
{
    Backend b;
    Loaded m;
    TRY(backend_of_options(&b, o, err));
    Status st = loaded_open(&m, o->model, o->which, o->precision, &b.device, err);
    if (st == ERR_NONE) st = run(o, &m, &b, err);
    loaded_close(&m);
    backend_close(&b);
    return st;
}
