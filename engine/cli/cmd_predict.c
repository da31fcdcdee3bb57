// cmd_predict.c -- `lathe predict`: labels, tags, answers or embeddings of texts.
//
// What is read decides how it is written: jsonl gives jsonl, anything else lines of columns with
// tabs between. A line out for a line in, in the same order; of tags a line for each word and a
// blank one behind each text.
//
// SPDX-License-Identifier: MIT
#include "engine/cli/cli.h"
#include "engine/cli/model_tokenizer.h"
#include "engine/base/json_text.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/generate/predict.h"
#include "engine/report/progress.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct Job {
    ExampleFile *file;
    Examples e; // a chunk of the file
    Judge judge;
    Predictor p;
    PredictWhat what;
    Labels labels;
    Buf line;
    int64_t cut; // texts that lost something to their length
} Job;

// ---------------------------------------------------------------- jsonl

static json_t *number(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static json_t *embedding(const float *x, int64_t n)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < n; i++)
        if (json_array_append_new(list, number((double)x[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static const char *word_behind(const char *w)
{
    return w + strlen(w) + 1;
}

static bool put_tags(const Job *j, const Verdict *v, json_t *o)
{
    const Example *x = &j->e.example[v->example];
    json_t *words = json_array(), *tags = json_array(), *p = json_array();
    bool ok = true;
    const char *w = j->e.text.data + x->text;
    for (int64_t i = 0; i < x->words; i++, w = word_behind(w)) {
        ok &= json_array_append_new(words, json_string(w)) == 0;
        ok &= json_array_append_new(tags, json_string(j->labels.name[v->tag[i]])) == 0;
        ok &= json_array_append_new(p, number(v->tag_p[i])) == 0;
    }
    ok &= json_object_set_new(o, "tokens", words) == 0;
    ok &= json_object_set_new(o, "tags", tags) == 0;
    return json_object_set_new(o, "p", p) == 0 && ok;
}

static Status put_object(Job *j, const Verdict *v, const float *x, Err *err)
{
    json_t *o = json_object();
    bool ok = true;
    if (j->what != PREDICT_LOGITS) {
        ok = json_object_set_new(o, "embedding", embedding(x, j->p.m->c.n_embd)) == 0;
    } else if (j->e.o.task == EXAMPLE_TAG) {
        ok = put_tags(j, v, o);
    } else {
        const bool qa = j->e.o.task == EXAMPLE_QA;
        json_t *text = qa ? json_stringn(v->answer.text, v->answer.bytes)
                          : json_string(j->labels.name[v->label]);
        ok = json_object_set_new(o, qa ? "answer" : "label", text) == 0 &&
             json_object_set_new(o, "p", number(v->p)) == 0;
    }
    Status st = ok ? ERR_NONE : mem_err(err, 0, "a prediction");
    const size_t flags = JSON_COMPACT | JSON_REAL_PRECISION(9);
    if (st == ERR_NONE) st = json_text_append(&j->line, o, flags, err);
    json_decref(o);
    TRY(st);
    return buf_puts(&j->line, "\n", err);
}

// ---------------------------------------------------------------- columns

static Status put_columns(Job *j, const Verdict *v, const float *x, Err *err)
{
    if (j->what != PREDICT_LOGITS) {
        for (int64_t i = 0; i < j->p.m->c.n_embd; i++)
            TRY(buf_printf(&j->line, err, "%s%.9g", i ? "\t" : "", (double)x[i]));
        return buf_puts(&j->line, "\n", err);
    }
    if (j->e.o.task == EXAMPLE_CLASSIFY)
        return buf_printf(&j->line, err, "%s\t%.6f\n", j->labels.name[v->label], v->p);
    const Example *of = &j->e.example[v->example];
    const char *w = j->e.text.data + of->text;
    for (int64_t i = 0; i < of->words; i++, w = word_behind(w))
        TRY(buf_printf(&j->line, err, "%s\t%s\t%.6f\n", w, j->labels.name[v->tag[i]], v->tag_p[i]));
    return buf_puts(&j->line, "\n", err);
}

// ---------------------------------------------------------------- a chunk

static Status write_line(Job *j, const Verdict *v, const float *x, Err *err)
{
    buf_clear(&j->line);
    TRY(example_file_is_jsonl(j->file) ? put_object(j, v, x, err) : put_columns(j, v, x, err));
    if (fwrite(j->line.data, 1, j->line.len, stdout) != j->line.len)
        return err_errno(err, errno, "write to standard output");
    return ERR_NONE;
}

static Status read_chunk(Job *j, bool *more, Err *err)
{
    examples_clear(&j->e);
    while (j->e.samples < PREDICT_CHUNK) {
        ExampleRecord r;
        TRY(example_file_next(j->file, &r, more, err));
        if (!*more) return ERR_NONE;
        TRY(examples_add(&j->e, &r, example_file_name(j->file), err));
    }
    return ERR_NONE;
}

static Status predict_chunk(Job *j, Err *err)
{
    j->cut += j->e.cut;
    if (j->e.samples == 0) return ERR_NONE;
    TRY(predictor_run(&j->p, &j->judge, 0, j->e.samples, j->what, err));
    for (int64_t i = 0; i < j->e.samples; i++) {
        const float *x = j->p.out + j->p.at[i];
        Verdict v = {0};
        bool done = true;
        if (j->what == PREDICT_LOGITS) TRY(judge_sample(&j->judge, i, x, &v, &done, err));
        if (done) TRY(write_line(j, &v, x, err));
    }
    if (fflush(stdout) != 0) return err_errno(err, errno, "write to standard output");
    return ERR_NONE;
}

static Status predict_all(Job *j, const OnProgress *on, Err *err)
{
    int64_t texts = 0;
    for (bool more = true; more;) {
        TRY(read_chunk(j, &more, err));
        TRY(predict_chunk(j, err));
        texts += j->e.n;
        on_progress(on, (double)texts, 0);
    }
    return ERR_NONE;
}

// ---------------------------------------------------------------- the command

static Status choose_task(const Options *o, const Loaded *m, Job *j, ExampleTask *task, Err *err)
{
    j->what = PREDICT_LOGITS;
    if (!o->embed[0]) return predict_task(m, task, err);
    j->what = strcmp(o->embed, "mean") == 0 ? PREDICT_MEAN : PREDICT_CLS;
    *task = EXAMPLE_CLASSIFY;
    if (m->c.head != HEAD_LM) return ERR_NONE;
    return err_set(err, ERR_USAGE, "embed is of BERTs, the model in %s is a %s", m->dir,
                   m->hf.architecture);
}

static Status open_job(Job *j, const Options *o, const Loaded *m, Backend *b, const Tokenizer *t,
                       Err *err)
{
    ExampleTask task;
    TRY(choose_task(o, m, j, &task, err));
    predict_labels(m, &j->labels);
    const ExampleOptions eo = {.task = task,
                               .tokenizer = t,
                               .block = m->c.n_positions,
                               .keep_text = true,
                               .labels = &j->labels};
    TRY(examples_open(&j->e, &eo, err));
    judge_open(&j->judge, &j->e, (int)m->c.n_labels);
    TRY(example_file_open(&j->file, o->n_args ? o->args[0] : "-", task, false, err));
    return predictor_open(&j->p, m, b, o->batch_size, m->c.n_positions, err);
}

static Status predict(const Options *o, const Loaded *m, Backend *b, const Tokenizer *t, Err *err)
{
    Job j = {0};
    Progress progress;
    Status st = open_job(&j, o, m, b, t, err);
    progress_begin(&progress, "predicting", "texts", o->progress_after);
    const OnProgress on = progress_listener(&progress);
    if (st == ERR_NONE) st = predict_all(&j, &on, err);
    progress_end(&progress);
    if (st == ERR_NONE && j.cut)
        log_warn("%lld text%s longer than the model's %lld tokens, and cut", (long long)j.cut,
                 j.cut == 1 ? " was" : "s were", (long long)m->c.n_positions);
    predictor_close(&j.p);
    example_file_close(j.file);
    judge_close(&j.judge);
    examples_close(&j.e);
    buf_free(&j.line);
    return st;
}

Status cmd_predict(const Options *o, Err *err)
{
    Backend b;
    Loaded m;
    Tokenizer *t = NULL;
    if (o->n_args > 1) return err_set(err, ERR_USAGE, "predict reads one file, not %d", o->n_args);
    TRY(backend_of_options(&b, o, err));
    Status st = loaded_open(&m, o->model, o->which, o->precision, &b.device, err);
    if (st == ERR_NONE) st = model_tokenizer(&t, o, &m, err);
    if (st == ERR_NONE) st = predict(o, &m, &b, t, err);
    tokenizer_close(t);
    loaded_close(&m);
    backend_close(&b);
    return st;
}
