// run_mllog.c -- see run_mllog.h.
//
// SPDX-License-Identifier: MIT
#include "engine/train/run_mllog.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void event(Run *r, MlLogEvent e, const char *key, const char *metadata)
{
    mllog_event(&r->mllog, mllog_now(), e, key, "null", metadata);
}

static void of_optimizer(Run *r)
{
    MlLog *l = &r->mllog;
    const Options *o = r->o;
    mllog_text(l, "opt_name", o->optimizer);
    mllog_number(l, "opt_base_learning_rate", o->learning_rate);
    mllog_number(l, "opt_lamb_epsilon", o->eps);
    mllog_number(l, "opt_lamb_beta_1", o->beta1);
    mllog_number(l, "opt_lamb_beta_2", o->beta2);
    mllog_number(l, "opt_lamb_weight_decay_rate", o->weight_decay);
    mllog_int(l, "opt_learning_rate_training_steps",
              o->decay_steps ? o->decay_steps : o->max_steps);
    mllog_int(l, "opt_learning_rate_warmup_steps", o->warmup_steps);
    mllog_int(l, "num_warmup_steps", o->warmup_steps);
    mllog_int(l, "start_warmup_step", 0);
    if (strcmp(o->schedule, "poly") == 0)
        mllog_number(l, "opt_lamb_learning_rate_decay_poly_power", o->poly_power);
}

// Sequences that an evaluation looks at.
static int64_t of_evaluation(const Run *r)
{
    StreamInfo info;
    if (!r->val) return 0;
    stream_info(r->val, &info);
    const int64_t rows = r->o->eval_batches * r->setup.batch_size;
    if (rows == 0 || rows >= info.samples_an_epoch) return info.sequences;
    return rows * info.sequences / info.samples_an_epoch;
}

static void of_batches(Run *r)
{
    MlLog *l = &r->mllog;
    mllog_int(l, "seed", r->o->seed);
    mllog_int(l, "global_batch_size", r->step_sequences);
    mllog_int(l, "gradient_accumulation_steps", r->setup.samples / r->setup.batch_size);
    mllog_int(l, "max_sequence_length", r->setup.block_size);
    mllog_int(l, "max_predictions_per_seq", r->setup.picks);
    mllog_int(l, "train_samples", r->info.sequences);
    mllog_int(l, "eval_samples", of_evaluation(r));
}

Status run_mllog_open(Run *r, Err *err)
{
    MlLog *l = &r->mllog;
    const Options *o = r->o;
    bool empty;
    if (!r->val) {
        const Status st =
            err_set(err, ERR_USAGE, "mllog is of runs that evaluate, this one never does");
        err_hint(err, "give --eval_samples=-1, and data with a validation split");
        return st;
    }
    TRY(mllog_open(l, o->mllog, &empty, err));
    // Whoever cleared the caches has said so in this file; lathe clears none.
    if (empty) mllog_event(l, r->init_ms, MLLOG_POINT, "cache_clear", "false", "");
    mllog_event(l, r->init_ms, MLLOG_START, "init_start", "null", "");
    mllog_event(l, r->start_ms, MLLOG_END, "init_stop", "null", "");
    mllog_event(l, r->start_ms, MLLOG_START, "run_start", "null", "");
    mllog_text(l, "submission_benchmark", "bert");
    mllog_text(l, "submission_org", o->mllog_org);
    mllog_text(l, "submission_division", o->mllog_division);
    mllog_text(l, "submission_status", "research");
    mllog_text(l, "submission_platform", o->mllog_platform);
    of_batches(r);
    of_optimizer(r);
    return ERR_NONE;
}

// Sequences until the next evaluation, as far as this can be known.
static int64_t to_next(const Run *r)
{
    const Options *o = r->o;
    const int64_t left = o->max_steps - r->state.step;
    int64_t steps = left;
    if (r->eval_sequences) {
        const int64_t more = r->eval_sequences - r->state.sequences % r->eval_sequences;
        steps = (more + r->step_sequences - 1) / r->step_sequences;
    } else if (o->eval_interval) {
        steps = o->eval_interval - r->state.step % o->eval_interval;
    }
    return LT_MAX(1, LT_MIN(steps, left)) * r->step_sequences;
}

void run_mllog_block(Run *r)
{
    char where[96];
    if (r->mllog.fd < 0 || r->in_block) return;
    snprintf(where, sizeof where, "\"first_epoch_num\": %" PRId64 ", \"epoch_count\": %" PRId64,
             r->state.sequences, to_next(r));
    event(r, MLLOG_START, "block_start", where);
    r->in_block = true;
    r->block_sequences = r->state.sequences;
}

static void end_block(Run *r)
{
    char where[96];
    if (!r->in_block) return;
    snprintf(where, sizeof where, "\"first_epoch_num\": %" PRId64, r->block_sequences);
    event(r, MLLOG_END, "block_stop", where);
    r->in_block = false;
}

void run_mllog_eval_start(Run *r)
{
    char where[96];
    if (r->mllog.fd < 0) return;
    end_block(r);
    snprintf(where, sizeof where, "\"epoch_num\": %" PRId64, r->state.sequences);
    event(r, MLLOG_START, "eval_start", where);
}

void run_mllog_eval_stop(Run *r, double accuracy)
{
    char where[96], value[40];
    if (r->mllog.fd < 0) return;
    snprintf(where, sizeof where, "\"epoch_num\": %" PRId64, r->state.sequences);
    snprintf(value, sizeof value, "%.9g", accuracy);
    mllog_event(&r->mllog, mllog_now(), MLLOG_POINT, "eval_accuracy",
                isfinite(accuracy) ? value : "null", where);
    event(r, MLLOG_END, "eval_stop", where);
}

void run_mllog_stop(Run *r, bool success)
{
    if (r->mllog.fd < 0) return;
    end_block(r);
    event(r, MLLOG_END, "run_stop",
          success ? "\"status\": \"success\"" : "\"status\": \"aborted\"");
}
