// verdict.c -- see verdict.h.
//
// SPDX-License-Identifier: MIT
#include "engine/data/verdict.h"
#include "engine/base/mem.h"

#include <math.h>
#include <string.h>

void judge_open(Judge *j, const Examples *e, int n_labels)
{
    *j = (Judge){.e = e, .n_labels = n_labels};
    j->other = LT_MAX(labels_find(&e->labels, "O", 1), 0);
}

void judge_close(Judge *j)
{
    mem_free(j->tag);
    mem_free(j->tag_p);
    *j = (Judge){0};
}

int64_t judge_logits(const Judge *j, int64_t sample)
{
    const ExampleSample *s = &j->e->sample[sample];
    if (j->e->o.task == EXAMPLE_CLASSIFY) return j->n_labels;
    return j->e->o.task == EXAMPLE_TAG ? (int64_t)s->picks * j->n_labels : (int64_t)s->n * 2;
}

// log of the sum of exp over n logits, `step` apart.
static double log_sum(const float *x, int64_t n, int64_t step)
{
    double top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) top = fmax(top, (double)x[i * step]);
    for (int64_t i = 0; i < n; i++) sum += exp((double)x[i * step] - top);
    return top + log(sum);
}

static int32_t first_largest(const float *x, int n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

static Status judge_words(Judge *j, const ExampleSample *s, const float *x, Verdict *v, Err *err)
{
    const int64_t words = j->e->example[s->example].words;
    if (words > j->cap) {
        const size_t bytes = (size_t)words * sizeof(double);
        int32_t *tag = mem_realloc(j->tag, bytes);
        if (tag) j->tag = tag;
        double *p = tag ? mem_realloc(j->tag_p, bytes) : NULL;
        if (!p) return mem_err(err, bytes, "the tags of a sentence");
        j->tag_p = p;
        j->cap = words;
    }
    for (int64_t w = 0; w < words; w++) {
        const float *of = x + w * j->n_labels;
        const bool seen = w < s->picks;
        j->tag[w] = seen ? first_largest(of, j->n_labels) : j->other;
        j->tag_p[w] = seen ? exp((double)of[j->tag[w]] - log_sum(of, j->n_labels, 1)) : 0;
    }
    v->tag = j->tag;
    v->tag_p = j->tag_p;
    return ERR_NONE;
}

static void add_logit(Judge *j, double logit)
{
    if (logit > j->top) {
        j->sum = j->sum * exp(j->top - logit) + 1;
        j->top = logit;
    } else {
        j->sum += exp(logit - j->top);
    }
}

static void judge_window(Judge *j, int64_t sample, const float *x, bool first)
{
    const ExampleSample *s = &j->e->sample[sample];
    const double none = (double)x[0] + (double)x[1];
    if (first) {
        j->best = j->top = -INFINITY;
        j->none = INFINITY;
        j->sum = 0;
        j->from = j->to = 0;
    }
    j->none = fmin(j->none, none);
    const int32_t end = s->n - 1; // [SEP]
    for (int32_t a = s->second; a < end; a++) {
        for (int32_t b = a; b < LT_MIN(a + QA_ANSWER_MAX, end); b++) {
            const double logit = (double)x[2 * a] + (double)x[2 * b + 1];
            add_logit(j, logit);
            if (logit <= j->best) continue;
            j->best = logit;
            j->from = j->e->lo.id[s->id + a];
            j->to = j->e->hi.id[s->id + b];
        }
    }
}

static void end_answer(Judge *j, const Example *x, Verdict *v)
{
    add_logit(j, j->none);
    const bool none = j->none >= j->best;
    v->p = exp((none ? j->none : j->best) - j->top) / j->sum;
    v->answer = (ExampleText){j->e->text.data + x->text + (none ? 0 : j->from),
                              none ? 0 : (size_t)(j->to - j->from)};
}

Status judge_sample(Judge *j, int64_t sample, const float *logits, Verdict *v, bool *done, Err *err)
{
    const ExampleSample *s = &j->e->sample[sample];
    const Example *x = &j->e->example[s->example];
    *done = sample == x->sample + x->samples - 1;
    *v = (Verdict){.example = s->example, .label = -1};
    if (j->e->o.task == EXAMPLE_TAG) return judge_words(j, s, logits, v, err);
    if (j->e->o.task == EXAMPLE_QA) {
        judge_window(j, sample, logits, sample == x->sample);
        if (*done) end_answer(j, x, v);
        return ERR_NONE;
    }
    v->label = first_largest(logits, j->n_labels);
    v->p = exp((double)logits[v->label] - log_sum(logits, j->n_labels, 1));
    return ERR_NONE;
}

// ---------------------------------------------------------------- scores

void score_init(Score *s, const Examples *e)
{
    *s = (Score){.task = e->o.task};
    if (e->o.task == EXAMPLE_TAG) tag_score_init(&s->tags, e->labels.name, e->labels.n);
}

static void add_loss(Score *s, const float *x, int64_t n, int64_t step, int64_t target)
{
    s->loss += log_sum(x, n, step) - (double)x[target * step];
    s->counted++;
}

void score_loss(Score *s, const Judge *j, int64_t sample, const float *logits)
{
    const Examples *e = j->e;
    const ExampleSample *m = &e->sample[sample];
    const Example *x = &e->example[m->example];
    const int n = j->n_labels;
    if (e->o.task == EXAMPLE_CLASSIFY) add_loss(s, logits, n, 1, x->label);
    for (int32_t p = 0; p < m->picks; p++)
        add_loss(s, logits + (int64_t)p * n, n, 1, e->tag.id[x->tag + p]);
    for (int k = 0; k < 2 && e->o.task == EXAMPLE_QA; k++)
        add_loss(s, logits + k, m->n, 2, m->span[k]);
}

static Status score_answer(Score *s, const Examples *e, const Verdict *v, Err *err)
{
    const Example *x = &e->example[v->example];
    const size_t bytes = (size_t)(x->answers + 1) * sizeof(ScoreText);
    ScoreText *right = mem_alloc(bytes);
    if (!right) return mem_err(err, bytes, "the answers to a question");
    for (int64_t i = 0; i < x->answers; i++) {
        const ExampleAnswer *a = &e->answer[x->answer + i];
        right[i] = (ScoreText){e->text.data + a->at, a->bytes};
    }
    const ScoreText said = {v->answer.text, (int64_t)v->answer.bytes};
    const Status st = answer_score_add(&s->answers, said, right, (int)x->answers, err);
    mem_free(right);
    return st;
}

Status score_verdict(Score *s, const Examples *e, const Verdict *v, Err *err)
{
    const Example *x = &e->example[v->example];
    if (s->task == EXAMPLE_QA) return score_answer(s, e, v, err);
    if (s->task == EXAMPLE_TAG)
        tag_score_add(&s->tags, e->tag.id + x->tag, v->tag, x->words);
    else
        class_score_add(&s->classes, x->label, v->label);
    return ERR_NONE;
}

Status score_sample(Score *s, Judge *j, int64_t sample, const float *logits, Err *err)
{
    Verdict v;
    bool done;
    TRY(judge_sample(j, sample, logits, &v, &done, err));
    score_loss(s, j, sample, logits);
    return done ? score_verdict(s, j->e, &v, err) : ERR_NONE;
}

double score_main(const Score *s)
{
    if (s->task == EXAMPLE_QA) return answer_score_exact(&s->answers);
    return s->task == EXAMPLE_TAG ? tag_score_f1(&s->tags) : class_score_accuracy(&s->classes);
}

const char *score_name(ExampleTask task)
{
    return task == EXAMPLE_QA ? "exact_match" : task == EXAMPLE_TAG ? "f1" : "accuracy";
}

double score_mean_loss(const Score *s)
{
    return s->counted ? s->loss / (double)s->counted : (double)NAN;
}

static double score_first(const Score *s)
{
    if (s->task == EXAMPLE_QA) return answer_score_exact(&s->answers);
    return class_score_accuracy(s->task == EXAMPLE_TAG ? &s->tags.word : &s->classes);
}

static double score_f1(const Score *s)
{
    if (s->task == EXAMPLE_QA) return answer_score_f1(&s->answers);
    return s->task == EXAMPLE_TAG ? tag_score_f1(&s->tags) : class_score_macro_f1(&s->classes);
}

static const char *first_name(const Score *s)
{
    return s->task == EXAMPLE_QA ? "exact_match" : "accuracy";
}

Status score_text(const Score *s, Buf *out, Err *err)
{
    return buf_printf(out, err, "%s %.4f f1 %.4f", first_name(s), score_first(s), score_f1(s));
}

// JSON has no NaN.
static Status number(Buf *out, const char *name, double v, Err *err)
{
    if (isfinite(v)) return buf_printf(out, err, "\"%s\":%.9g", name, v);
    return buf_printf(out, err, "\"%s\":null", name);
}

Status score_json(const Score *s, Buf *out, Err *err)
{
    TRY(number(out, first_name(s), score_first(s), err));
    TRY(buf_puts(out, ",", err));
    return number(out, "f1", score_f1(s), err);
}
