// run.c -- the loop. See run.h.
//
// Order of things at step S (S optimizer steps done):
//
//     evaluate if due  ->  save if due  ->  done?  ->  told to stop?  ->  one more step
//
// Done is max_steps, or an evaluation that reached target_accuracy.
//
// A stop saves before an evaluation that is due; the resumed run finds it due and makes it up, so
// that an interrupted run and an uninterrupted one do the same things in the same order.
//
// On a GPU the next step is queued before the result of the one before is read. Whenever something
// else than a step may come next, and while steps are bad, the one in flight is waited for first:
// what is evaluated, saved or told is always of a definite step.
//
// SPDX-License-Identifier: MIT
#include "engine/train/run.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/stop.h"
#include "engine/report/progress.h"
#include "engine/train/run_mllog.h"
#include "engine/train/run_open.h"
#include "engine/train/run_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct Pace { // how fast steps go
    double start;     // of this process's part of the run
    double before;    // seconds the run had already
    double average;   // seconds a step, recent ones count most; 0: none yet
    double last;      // clock at which the last step ended, or the next one was begun after a pause
    int64_t bad;      // steps in a row that were not finite
} Pace;

static double seconds_so_far(const Pace *p)
{
    return p->before + clock_seconds() - p->start;
}

static bool due(int64_t step, int64_t interval, int64_t max_steps)
{
    return interval > 0 && step > 0 && (step % interval == 0 || step == max_steps);
}

static bool eval_due(const Run *r, int64_t step, int64_t sequences)
{
    const Options *o = r->o;
    const int64_t each = r->eval_sequences;
    if (!r->val) return false;
    if (!each) return due(step, o->eval_interval, o->max_steps);
    const bool more = sequences / each > r->state.eval_sequences / each;
    return step > 0 && (more || step == o->max_steps);
}

// A fine-tuning is judged by its score, by the loss where scores are equal.
static bool is_best(const RunState *st, double loss, double score)
{
    if (!isfinite(score) && isfinite(st->best_score)) return false;
    if (isfinite(score) && score != st->best_score)
        return !isfinite(st->best_score) || score > st->best_score;
    return loss < st->best_loss;
}

static Status evaluate(Run *r, bool *best, Err *err)
{
    const double start = clock_seconds();
    const bool fine = r->finetune.on;
    const int64_t most = r->o->eval_batches;
    TrainEval e;
    Score score;
    run_mllog_eval_start(r);
    const Status st = fine ? finetune_eval(&r->finetune, &r->trainer, r->val, most, &e, &score, err)
                           : trainer_eval(&r->trainer, r->val, most, &e, err);
    TRY_CTX(st, err, "evaluating at step %" PRId64, r->state.step);
    run_mllog_eval_stop(r, e.accuracy_rows);
    r->state.last_eval = r->state.step;
    r->state.eval_sequences = r->state.sequences;
    r->state.accuracy = e.accuracy_rows;
    const double judged = fine ? score_main(&score) : (double)NAN;
    *best = is_best(&r->state, e.loss, judged);
    if (*best) {
        r->state.best_loss = e.loss;
        r->state.best_score = judged;
        r->state.best_step = r->state.step;
    }
    run_report_eval(r, &e, fine ? &score : NULL, clock_seconds() - start, *best);
    return ERR_NONE;
}

// The last evaluation, of this process or one before, saw what the run is for.
static bool reached(const Run *r)
{
    return r->o->target_accuracy > 0 && r->state.accuracy >= r->o->target_accuracy;
}

// What became of the save that was started last. The best step is the best one that is saved: when
// its save is lost, the one before it is the best again, and a later one may be.
static void settled(Run *r, Status outcome)
{
    const RunSave p = r->pending;
    r->pending.step = -1;
    if (p.step < 0) return;
    if (outcome == ERR_NONE) {
        r->saved_step = p.step;
        r->retry_at = 0;
        if (p.best) r->kept = p;
    } else if (p.best && r->state.best_step == p.step) {
        r->lost = p;
        r->state.best_step = r->kept.step;
        r->state.best_loss = r->kept.loss;
        r->state.best_score = r->kept.score;
    }
}

static Status settle(Run *r, Err *problem)
{
    const Status st = run_saver_wait(&r->saver, problem);
    settled(r, st);
    return st;
}

static Status start_save(Run *r, bool best, Err *problem)
{
    bool again;
    r->pending = (RunSave){.step = r->state.step,
                           .best = best,
                           .loss = r->state.best_loss,
                           .score = r->state.best_score};
    Status st = run_folder_hold(&r->folder, r->o, &again, problem);
    r->metrics_stale |= st == ERR_NONE && again;
    if (st == ERR_NONE && r->metrics_stale) st = run_open_metrics(r, problem);
    if (st == ERR_NONE) st = run_saver_save(&r->saver, &r->state, best, problem);
    if (st != ERR_NONE) settled(r, st);
    return st;
}

// Training goes on.
static void save_failed(Run *r, const Err *problem)
{
    enum { RETRY_SECONDS = 60 };
    r->retry_at = clock_seconds() + RETRY_SECONDS;
    progress_break();
    log_warn("a checkpoint could not be saved: %s", problem->text);
    log_warn("training goes on; the next save is tried when it is due, or in a minute");
    metrics_note(&r->metrics, r->state.step, "a checkpoint could not be saved");
}

static void save(Run *r, bool best)
{
    Err problem;
    if (settle(r, &problem) != ERR_NONE) save_failed(r, &problem); // of the save before this one
    if (start_save(r, best, &problem) != ERR_NONE) save_failed(r, &problem);
}

// The last save of this process must succeed: it is waited for, and made again if it was lost.
static Status save_last(Run *r, Err *err)
{
    const int64_t step = r->state.step;
    const Status before = settle(r, NULL);
    if (before == ERR_NONE && r->saved_step == step) return ERR_NONE;
    if (r->lost.step == step) { // it was the best, and is again once it is saved
        r->state.best_step = step;
        r->state.best_loss = r->lost.loss;
        r->state.best_score = r->lost.score;
    }
    Status st = start_save(r, r->state.best_step == step, err);
    if (st == ERR_NONE) st = settle(r, err);
    if (st == ERR_NONE) return ERR_NONE;
    if (r->saved_step >= 0)
        err_hint(err,
                 "the newest save is of step %" PRId64 "; once the cause is gone, the same "
                 "command goes on from there",
                 r->saved_step);
    else
        err_hint(err, "no step of this run is saved");
    return st;
}

static bool save_retry_due(const Run *r)
{
    return r->retry_at > 0 && clock_seconds() >= r->retry_at;
}

static Status chores(Run *r, Err *err)
{
    const Options *o = r->o;
    const int64_t step = r->state.step;
    bool best = false;
    if (eval_due(r, step, r->state.sequences) && r->state.last_eval != step)
        TRY(evaluate(r, &best, err));
    if (o->save_interval == 0 || step == 0) return ERR_NONE;
    const bool retry = save_retry_due(r);
    const bool new_step = r->saver.last_step != step;
    if (best || (new_step && (retry || due(step, o->save_interval, o->max_steps)))) save(r, best);
    return ERR_NONE;
}

static Status stopped(Run *r, const char *why, Err *err)
{
    progress_break();
    if (r->o->save_interval == 0) {
        const Status st =
            err_set(err, ERR_STOPPED, "stopped by %s at step %" PRId64 "; nothing was saved", why,
                    r->state.step);
        err_hint(err, "save_interval = 0 turns saving off");
        return st;
    }
    if (r->state.step == 0)
        return err_set(err, ERR_STOPPED, "stopped by %s before the first step", why);
    log_note("%s: saving step %" PRId64 ", then the end", why, r->state.step);
    TRY(save_last(r, err));
    const Status st =
        err_set(err, ERR_STOPPED, "stopped by %s at step %" PRId64 ", saved", why, r->state.step);
    err_hint(err, "the same command goes on from there");
    return st;
}

static Status diverged(Run *r, int64_t in_a_row, const TrainStep *last, Err *err)
{
    char kept[128] = "no checkpoint was saved yet";
    if (settle(r, NULL) != ERR_NONE) log_warn("the newest checkpoint could not be saved");
    if (r->saved_step >= 0)
        snprintf(kept, sizeof kept, "step %" PRId64 " is saved and intact", r->saved_step);
    Status st;
    if (last->counted == 0) {
        st = err_set(err, ERR_DIVERGED, "%" PRId64 " steps in a row had no target that counts; %s",
                     in_a_row, kept);
        err_hint(err, "a larger batch_tokens, or other data for this loss.mask");
        return st;
    }
    st = err_set(err, ERR_DIVERGED,
                 "%" PRId64 " steps in a row were not finite (first bad gradient: %s); %s",
                 in_a_row, last->bad ? last->bad : "none, the loss itself", kept);
    err_hint(err, "a lower learning_rate, a longer warmup_steps or grad_clip often helps");
    return st;
}

static Status begin_step(Run *r, Pace *pace, Err *err)
{
    StreamBatch b;
    if (trainer_in_flight(&r->trainer) == 0) pace->last = clock_seconds();
    TRY(stream_next(r->train, &b, err));
    TRY_CTX(trainer_begin(&r->trainer, &b, err), err, "in step %" PRId64, r->state.step + 1);
    return ERR_NONE;
}

static Status end_step(Run *r, Pace *pace, Err *err)
{
    TrainStep s;
    TRY_CTX(trainer_end(&r->trainer, &s, err), err, "in step %" PRId64, r->state.step + 1);
    r->state.step = r->trainer.step;
    r->state.samples = stream_tell(r->train); // of the newest step: right when none is in flight
    r->state.skipped = r->trainer.skipped;
    r->state.scale = r->trainer.scale;
    if (!s.skipped) {
        r->state.tokens += s.n.tokens;
        r->state.sequences += s.n.sequences;
    }
    r->state.seconds = seconds_so_far(pace);
    const double now = clock_seconds(), took = now - pace->last;
    pace->average = pace->average == 0 ? took : 0.9 * pace->average + 0.1 * took;
    run_report_step(r, &s, took, pace->average);
    pace->last = now;
    if (!s.skipped && run_report_fp8_due(r, r->state.step)) TRY(run_report_fp8(r, err));
    // An overflow is what a loss scale is lowered by, from as far as it may start, in fp16. It ends
    // at 1, and a loss that is not finite is no matter of the scale: those count.
    if (!s.overflow) pace->bad = s.skipped ? pace->bad + 1 : 0;
    if (pace->bad >= r->o->max_bad_steps) return diverged(r, pace->bad, &s, err);
    return ERR_NONE;
}

static bool late(const Run *r)
{
    return r->o->max_seconds > 0 && clock_seconds() - r->opened >= r->o->max_seconds;
}

// May something else than a step come after the one in flight?
static bool must_settle(const Run *r, const Pace *pace)
{
    const Options *o = r->o;
    const int64_t next = r->state.step + 1;
    const int64_t sequences = r->state.sequences + trainer_next(&r->trainer)->sequences;
    return stop_requested() || late(r) || save_retry_due(r) || pace->bad > 0 ||
           next >= o->max_steps || eval_due(r, next, sequences) ||
           due(next, o->save_interval, o->max_steps) || run_report_fp8_due(r, next);
}

static Status advance(Run *r, Pace *pace, Err *err)
{
    // How tensors of FP8 get their scales depends on whether a step has counted yet.
    const bool first = r->setup.prec.fp8 && !r->trainer.fp8.started;
    const int ahead = r->backend.device.is_host || first ? 0 : 1;
    run_mllog_block(r);
    TRY(begin_step(r, pace, err));
    return trainer_in_flight(&r->trainer) > ahead ? end_step(r, pace, err) : ERR_NONE;
}

static Status loop(Run *r, Err *err)
{
    const Options *o = r->o;
    Pace pace = {.start = clock_seconds(), .before = r->state.seconds};
    for (;;) {
        if (trainer_in_flight(&r->trainer) > 0) {
            TRY(must_settle(r, &pace) ? end_step(r, &pace, err) : advance(r, &pace, err));
            continue;
        }
        // Told to stop: save first, whatever else is due comes after the resume.
        const int sig = stop_requested();
        if (sig) return stopped(r, stop_name(sig), err);
        if (late(r) && r->state.step < o->max_steps) return stopped(r, "max_seconds", err);
        const Status st = chores(r, err);
        if (st == ERR_STOPPED) continue; // an evaluation was given up; it is made up on resume
        TRY(st);
        if (r->state.step >= o->max_steps || reached(r)) break;
        TRY(advance(r, &pace, err));
    }
    progress_break();
    TRY_CTX(device_sync(&r->backend.device, err), err, "in the last step");
    if (o->save_interval > 0 && r->state.step > 0) TRY(save_last(r, err));
    if (o->save_interval == 0) log_warn("nothing was saved: save_interval = 0 turns saving off");
    char took[32];
    progress_duration(r->state.seconds, took);
    if (reached(r))
        log_note("reached: accuracy %.4f of masked tokens, %.4f was asked for", r->state.accuracy,
                 o->target_accuracy);
    else if (o->target_accuracy > 0)
        log_warn("target_accuracy = %.4f was not reached", o->target_accuracy);
    const char *s = r->state.step == 1 ? "" : "s";
    if (isfinite(r->state.best_score))
        log_note("done: %" PRId64 " step%s in %s, best %s %.4f at step %" PRId64, r->state.step, s,
                 took, score_name(r->finetune.task), r->state.best_score, r->state.best_step);
    else if (isfinite(r->state.best_loss))
        log_note("done: %" PRId64 " step%s in %s, best validation loss %.4f at step %" PRId64,
                 r->state.step, s, took, r->state.best_loss, r->state.best_step);
    else
        log_note("done: %" PRId64 " step%s in %s", r->state.step, s, took);
    return ERR_NONE;
}

Status train_run(Options *o, Err *err)
{
    Run r;
    TRY(run_open(&r, o, err));
    const Status st = loop(&r, err);
    run_mllog_stop(&r, st == ERR_NONE && (o->target_accuracy == 0 || reached(&r)));
    run_close(&r);
    return st;
}
