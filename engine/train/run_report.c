// run_report.c -- see run_report.h.
//
// SPDX-License-Identifier: MIT
#include "engine/train/run_report.h"
#include "engine/base/log.h"
#include "engine/model/fp8_report.h"
#include "engine/report/progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// " | accuracy 0.9312 f1 0.9280", and the same for metrics.jsonl. What there is no memory for is
// left out.
static void put_score(const Score *s, Buf *json, char *parts, size_t cap)
{
    Buf text = {0};
    if (score_text(s, &text, NULL) == ERR_NONE) snprintf(parts, cap, " | %s", text.data);
    if (score_json(s, json, NULL) != ERR_NONE) buf_clear(json);
    buf_free(&text);
}

void run_report_eval(Run *r, const TrainEval *e, const Score *score, double took, bool best)
{
    Buf json = {0};
    char parts[160] = "";
    const double loss[2] = {e->loss_rows, e->loss_seqs};
    const double accuracy[2] = {e->accuracy_rows, e->accuracy_seqs};
    MetricsEval row = {.step = r->state.step,
                       .split = "val",
                       .loss = e->loss,
                       .targets = e->counted,
                       .seconds = took,
                       .best = best,
                       .sequences = r->state.sequences};
    for (int i = 0; i < 2; i++) {
        if (!r->part[i]) continue;
        const size_t used = strlen(parts);
        row.part[i] = (MetricsPart){r->part[i], loss[i], accuracy[i]};
        snprintf(parts + used, sizeof parts - used, " | %s loss %.4f accuracy %.4f", r->part[i],
                 loss[i], accuracy[i]);
    }
    if (score) put_score(score, &json, parts, sizeof parts);
    if (json.len) row.fields = json.data;
    if (!parts[0]) snprintf(parts, sizeof parts, " | ppl %.2f", exp(e->loss));
    progress_break();
    log_note("eval %" PRId64 " | loss %.4f%s%s", r->state.step, e->loss, parts,
             best ? " | best so far" : "");
    metrics_eval(&r->metrics, &row);
    buf_free(&json);
}

static void warn_skipped(const Run *r, const TrainStep *s, int64_t step)
{
    progress_break();
    if (s->overflow)
        log_warn("step %" PRId64 " skipped: a gradient overflows with loss scale %.10g, next %.10g",
                 step, s->loss_scale, (double)r->trainer.scale.scale);
    else if (s->bad)
        log_warn("step %" PRId64 " skipped: the gradient of %s is not finite", step, s->bad);
    else
        log_warn("step %" PRId64 " skipped: %s", step,
                 s->counted ? "the loss is not finite" : "no target in it is counted");
}

void run_report_step(Run *r, const TrainStep *s, double took, double average)
{
    const Options *o = r->o;
    const TrainPlan *p = &r->trainer.plan;
    const double tokens = (double)s->n.tokens, slots = (double)p->tokens_a_step;
    // mfu x seconds; work on padding is none
    const double products = r->peak > 0 ? p->matmul_flops_a_step / r->peak * (tokens / slots) : -1;
    const int64_t step = r->state.step + (s->skipped ? 1 : 0); // the step that was tried
    ProgressRow row = {.step = step,
                       .max_steps = o->max_steps,
                       .loss = s->loss,
                       .lr = s->lr,
                       .grad_norm = s->grad_norm,
                       .seconds = average,
                       .tokens_per_second = tokens / average,
                       .mfu = products / average,
                       .eta = average * (double)(o->max_steps - r->state.step),
                       .loss_scale = s->loss_scale,
                       .skipped = r->trainer.skipped};
    MetricsRow line = {.step = step,
                       .loss = s->loss,
                       .lr = s->lr,
                       .grad_norm = s->grad_norm,
                       .seconds = took,
                       .tokens_per_second = tokens / took,
                       .mfu = products / took,
                       .tokens = s->n.tokens,
                       .targets = s->counted,
                       .loss_scale = s->loss_scale,
                       .skipped = r->trainer.skipped,
                       .skip = s->skipped,
                       .sequences = s->n.sequences};
    const double loss[2] = {s->loss_rows, s->loss_seqs};
    for (int i = 0; i < 2; i++) {
        row.part[i].name = line.part[i].name = r->part[i];
        row.part[i].loss = line.part[i].loss = loss[i];
    }
    const bool keep = o->log_interval > 0 && (step % o->log_interval == 0 || step == o->max_steps ||
                                              step == 1 || s->skipped);
    if (o->log_interval > 0) progress_line(&row, !keep);
    if (s->skipped) warn_skipped(r, s, step);
    metrics_step(&r->metrics, &line);
}

bool run_report_fp8_due(const Run *r, int64_t step)
{
    const Options *o = r->o;
    return r->setup.prec.fp8 && strcmp(o->fp8_report, "off") != 0 && o->log_interval > 0 &&
           step > 0 && (step % o->log_interval == 0 || step == o->max_steps);
}

Status run_report_fp8(Run *r, Err *err)
{
    const Options *o = r->o;
    Trainer *t = &r->trainer;
    const int64_t step = r->state.step;
    Fp8Report f;
    Buf text = {0};
    TRY(fp8_report_take(&f, &t->fp8, t->device, err));
    Status st = fp8_report_json(&f, &t->fp8, &text, err);
    if (st == ERR_NONE) metrics_fields(&r->metrics, "fp8", step, text.data);
    if (st == ERR_NONE && strcmp(o->fp8_report, "table") == 0) {
        buf_clear(&text);
        st = fp8_report_table(&f, &t->fp8, &text, err);
        progress_break();
        if (st == ERR_NONE) fputs(text.data, stdout);
    }
    buf_free(&text);
    fp8_report_close(&f);
    return st;
}
