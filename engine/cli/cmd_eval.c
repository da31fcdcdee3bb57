// cmd_eval.c -- `lathe eval`: loss, perplexity and bits per byte on data or a text; multiple
// choice; last words; losses and accuracies of BERT in pretraining. The result is one line on
// stdout.
//
// SPDX-License-Identifier: MIT
#include "engine/cli/cli.h"
#include "engine/cli/eval_examples.h"
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

// Of one of BERT's two losses.
static void print_part(const Options *o, const char *name, double loss, double accuracy)
{
    char key[32];
    if (!o->json) {
        printf(" | %s loss %.6f accuracy %.4f", name, loss, accuracy);
        return;
    }
    snprintf(key, sizeof key, ",\"loss_%s\":", name);
    json_number(key, loss);
    snprintf(key, sizeof key, ",\"accuracy_%s\":", name);
    json_number(key, accuracy);
}

static Status print_pretraining(const Options *o, const EvalLoss *l, Err *err)
{
    if (l->counted == 0)
        return err_set(err, ERR_USAGE, "nothing was counted: no masked token in this split");
    const double n = (double)l->counted, n_seqs = (double)l->counted_seqs;
    const double mlm = l->nats / n, nsp = l->counted_seqs ? l->nats_seqs / n_seqs : 0;
    const double loss = mlm + nsp;
    if (o->json)
        json_number("{\"loss\":", loss);
    else
        printf("loss %.6f", loss);
    print_part(o, "mlm", mlm, l->hits / n);
    if (l->counted_seqs) print_part(o, "nsp", nsp, l->hits_seqs / n_seqs);
    if (o->json)
        printf(",\"tokens\":%" PRId64 ",\"sequences\":%" PRId64 "}\n", l->counted, l->sequences);
    else
        printf("\n");
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

static StreamOptions stream_options(const Options *o, const ModelConfig *c, int64_t block)
{
    return (StreamOptions){.data = o->data,
                           .content = c->head == HEAD_LM ? STREAM_TOKENS : STREAM_PAIRS,
                           .split = strcmp(o->split, "train") == 0 ? STREAM_TRAIN : STREAM_VAL,
                           .block_size = block,
                           .batch = o->batch_size,
                           .ranks = 1,
                           .document_mask = o->data_document_mask,
                           .completion_only = strcmp(o->loss_mask, "completion") == 0,
                           .vocab_size = c->vocab_size,
                           .pack = o->data_pack,
                           .mask_prob = o->mask_prob,
                           .max_predictions = o->max_predictions,
                           .whole_word = o->whole_word_mask};
}

static Status eval_data(const Options *o, Evaluator *e, Progress *p, Err *err)
{
    const StreamOptions so = stream_options(o, &e->m->c, e->block);
    Stream *s;
    TRY(stream_open(&s, &so, err));
    EvalLoss l = {0};
    const int64_t batches = options_given(o, OPT_eval_batches) ? o->eval_batches : 0;
    Status st = same_tokenizer(o, e, s, err);
    if (st == ERR_NONE) st = evaluate_stream(e, s, batches, &l, err);
    stream_close(s);
    progress_end(p);
    TRY(st);
    return so.content == STREAM_PAIRS ? print_pretraining(o, &l, err) : print_loss(o, &l, err);
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

static Status can_eval(const Options *o, const Loaded *m, Err *err)
{
    const ModelHead h = m->c.head;
    if (h == HEAD_LM) return ERR_NONE;
    if (!o->data[0])
        return err_set(err, ERR_USAGE,
                       "the model in %s is a BERT: it does not write texts and cannot score one; "
                       "give --data",
                       m->dir);
    if (h == HEAD_PRETRAIN || h == HEAD_MLM) return ERR_NONE;
    return err_set(err, ERR_USAGE, "the model in %s predicts no masked tokens", m->dir);
}

// As given; else all that the model can take, but for BERT no more than the data has in a sequence.
static Status choose_block(const Options *o, const Loaded *m, int64_t *block, Err *err)
{
    StreamInfo info;
    *block = options_given(o, OPT_block_size) ? o->block_size : m->c.n_positions;
    if (m->c.head == HEAD_LM) return ERR_NONE;
    const StreamOptions so = stream_options(o, &m->c, 1);
    TRY(stream_facts(&info, &so, err));
    if (info.max_seq_length > m->c.n_positions)
        return err_set(err, ERR_USAGE,
                       "%s has sequences of %" PRId64 " tokens, the model in %s has %" PRId64
                       " positions",
                       o->data, info.max_seq_length, m->dir, m->c.n_positions);
    if (options_given(o, OPT_block_size) || o->data_pack > 1) return ERR_NONE;
    if (info.max_seq_length) *block = LT_MIN(*block, info.max_seq_length);
    return ERR_NONE;
}

static Status run(const Options *o, const Loaded *m, Backend *b, Err *err)
{
    int64_t block = 0;
    TRY(can_eval(o, m, err));
    TRY(choose_block(o, m, &block, err));
    const StreamOptions so = stream_options(o, &m->c, block);
    const int64_t seqs = so.content == STREAM_PAIRS ? o->data_pack : 0;
    const bool packed = so.content == STREAM_PAIRS && o->data_pack > 1; // each has its positions
    if (block > m->c.n_positions && !packed)
        return err_set(err, ERR_USAGE,
                       "block_size = %" PRId64 ", but the model in %s has %" PRId64 " positions",
                       block, m->dir, m->c.n_positions);
    const bool tasks = o->choices[0] || o->lastword[0]; // one question at a time
    Tokenizer *t = NULL;
    Evaluator e = {0};
    Status st = o->data[0] ? ERR_NONE : model_tokenizer(&t, o, m, err);
    if (st == ERR_NONE)
        st = evaluator_open(&e, m, b, tasks ? 1 : o->batch_size, block, stream_picks(&so), seqs,
                            err);
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
    if (st == ERR_NONE) st = (o->data_val[0] ? eval_examples : run)(o, &m, &b, err);
    loaded_close(&m);
    backend_close(&b);
    return st;
}
