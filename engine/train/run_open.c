// run_open.c -- see run_open.h. Nothing is written into the run folder but its lock until every
// option, the data and the model have been checked; config.ini is the first file.
//
// SPDX-License-Identifier: MIT
#include "engine/train/run_open.h"
#include "checkpoints/steps.h"
#include "checkpoints/tokenizer_files.h"
#include "engine/base/assert.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/model/model_hf.h"
#include "engine/report/progress.h"
#include "engine/train/run_mllog.h"
#include "kernels/cuda/cuda_clock.h"
#include "tokenizer/tokenizer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static bool names_step(const Options *o)
{
    return strcmp(o->resume, "auto") != 0 && strcmp(o->resume, "never") != 0;
}

static Status not_of_this_run(const Options *o, Err *err)
{
    const Status st = err_set(err, ERR_USAGE, "resume = %s is not a step folder of the run %s",
                              o->resume, o->run);
    err_hint(err, "--init_from=%s starts a new run from its weights", o->resume);
    return st;
}

// Is there a run in the folder, and may it go on? Takes the run's options over.
static Status find_run(Run *r, const char *config_path, bool *exists, Err *err)
{
    Options *o = r->o;
    *exists = file_exists(config_path);
    if (!*exists) return names_step(o) ? not_of_this_run(o, err) : ERR_NONE;
    if (strcmp(o->resume, "never") == 0) {
        const Status st =
            err_set(err, ERR_USAGE, "%s is a run already, and resume = never", o->run);
        err_hint(err, "name another folder, or leave --resume away to go on with this run");
        return st;
    }
    Buf told = {0};
    Status st = options_resume(o, config_path, &told, err);
    if (st == ERR_NONE && told.len) log_note("%.*s", (int)strcspn(told.data, "\n"), told.data);
    for (char *s = told.data ? strchr(told.data, '\n') : NULL; st == ERR_NONE && s && s[1];
         s = strchr(s + 1, '\n'))
        log_note("%.*s", (int)strcspn(s + 1, "\n"), s + 1);
    buf_free(&told);
    return st;
}

static Status open_kernels(Run *r, Err *err)
{
    Options *o = r->o;
    TRY(backend_of_options(&r->backend, o, err));
    // The choice is the run's from now on: a later timing must not change its bits.
    if (strcmp(o->cpu_isa, r->backend.cpu.isa) != 0)
        TRY(options_set(o, "cpu.isa", r->backend.cpu.isa, o->origin[OPT_cpu_isa], err));
    return ERR_NONE;
}

// BERT's pretraining; else what is read is one run of tokens.
static bool pretrains(const ModelConfig *c)
{
    return c->head == HEAD_PRETRAIN || c->head == HEAD_MLM;
}

static StreamOptions stream_options(const Run *r, StreamSplit split, int64_t vocab, int64_t batch)
{
    const Options *o = r->o;
    return (StreamOptions){.data = o->data,
                           .content = r->finetune.on               ? STREAM_EXAMPLES
                                      : pretrains(&r->setup.model) ? STREAM_PAIRS
                                                                   : STREAM_TOKENS,
                           .examples = split == STREAM_TRAIN ? &r->finetune.train_view
                                                             : &r->finetune.val_view,
                           .pack = o->data_pack,
                           .mask_prob = o->mask_prob,
                           .max_predictions = o->max_predictions,
                           .whole_word = o->whole_word_mask,
                           .split = split,
                           .block_size = r->setup.block_size ? r->setup.block_size : o->block_size,
                           .batch = batch,
                           .rank = 0,
                           .ranks = 1,
                           .seed = (uint64_t)o->seed,
                           .shuffle = split == STREAM_TRAIN,
                           .document_mask = o->data_document_mask,
                           .completion_only = strcmp(o->loss_mask, "completion") == 0,
                           .vocab_size = vocab};
}

// A folder's model learns what it was made for.
static Status check_task(const Options *o, const ModelConfig *c, const HfConfig *hf,
                         const char *dir, Err *err)
{
    const char *can = c->head == HEAD_LM         ? "lm"
                      : c->head == HEAD_PRETRAIN ? "pretrain"
                      : c->head == HEAD_MLM      ? "mlm"
                                                 : "";
    if (can[0] && (!o->task[0] || strcmp(o->task, can) == 0)) return ERR_NONE;
    const Status st = err_set(err, ERR_USAGE, "the model in %s (%s) does not learn %s%s", dir,
                              hf->architecture, o->task[0] ? "task=" : "from text", o->task);
    if (!can[0]) err_hint(err, "--task=classify, tag or qa with --data.train=FILE fine-tunes it");
    return st;
}

// The model: of the checkpoint to go on from, of init_from, or of the options.
static Status choose_model(Run *r, ModelConfig *c, Err *err)
{
    const Options *o = r->o;
    const char *dir = r->resumed_from[0] ? r->resumed_from : r->init_dir;
    if (!dir[0]) {
        const int64_t V = o->vocab_size ? o->vocab_size : r->info.vocab_size;
        if (V == 0) {
            const Status st =
                err_set(err, ERR_USAGE, "%s does not say how large its vocabulary is", o->data);
            err_hint(err, "give --vocab_size=N");
            return st;
        }
        return train_setup_model(c, o, V, err);
    }
    HfConfig hf;
    TRY(hf_config_read(&hf, dir, err));
    TRY_CTX(model_from_hf(c, &hf, err), err, "reading the model in %s", dir);
    if (finetune_asked(o)) {
        TRY(finetune_open(&r->finetune, r->o, &hf, dir, r->resumed_from[0] != 0, err));
        finetune_model(&r->finetune, c);
        finetune_facts(&r->finetune, &r->info);
    } else {
        TRY(check_task(o, c, &hf, dir, err));
    }
    if (r->resumed_from[0]) return ERR_NONE;
    if (options_given(o, OPT_dropout))
        c->dropout_embed = c->dropout_attention = c->dropout_residual = o->dropout;
    return train_setup_agree(c, o, dir, err);
}

// Do the ids of the data mean the same to the model that goes on, or is being fine-tuned?
static Status check_tokenizer(const Run *r, Err *err)
{
    const Options *o = r->o;
    const char *dir = r->resumed_from[0] ? r->resumed_from : r->init_dir;
    if (!dir[0] || !r->info.tokenizer) return ERR_NONE;
    Tokenizer *t;
    if (tokenizer_load(&t, dir, NULL, NULL) != ERR_NONE) return ERR_NONE; // it has none
    const uint64_t theirs = tokenizer_fingerprint(t);
    tokenizer_close(t);
    if (theirs == r->info.tokenizer) return ERR_NONE;
    const Status st = err_set(
        err, ERR_USAGE, "%s was tokenised with another tokenizer than the one in %s", o->data, dir);
    err_hint(err, "make the data again with `lathe data --tokenizer=%s`", dir);
    return st;
}

static Status open_data(Run *r, Err *err)
{
    // What the files say; they are opened again with the vocabulary every id is checked against.
    const StreamOptions so = stream_options(r, STREAM_TRAIN, 0, 1);
    return stream_facts(&r->info, &so, err);
}

static Status open_streams(Run *r, Err *err)
{
    const int64_t V = r->setup.model.vocab_size;
    if (r->info.vocab_size > V)
        return err_set(err, ERR_USAGE,
                       "%s has ids up to %" PRId64 ", the model's vocabulary is %" PRId64,
                       r->o->data, r->info.vocab_size - 1, V);
    if (r->info.max_seq_length > r->setup.model.n_positions)
        return err_set(err, ERR_USAGE,
                       "%s has sequences of %" PRId64 " tokens, the model %" PRId64 " positions",
                       r->o->data, r->info.max_seq_length, r->setup.model.n_positions);
    StreamOptions so = stream_options(r, STREAM_TRAIN, V, r->setup.samples);
    TRY(stream_open(&r->train, &so, err));
    stream_info(r->train, &r->info);
    r->setup.picks = r->info.picks;
    r->setup.seqs = r->info.seqs;
    if (r->finetune.on)
        snprintf(r->info.tokenizer_dir, sizeof r->info.tokenizer_dir, "%s", r->finetune.dir);
    if (r->o->eval_interval == 0 && r->o->eval_samples == 0) return ERR_NONE;
    so = stream_options(r, STREAM_VAL, V, r->setup.batch_size);
    Err no;
    const Status st = stream_open(&r->val, &so, &no);
    if (st == ERR_USAGE) { // there is no validation split, or too little of it
        r->val = NULL;
        log_warn("no evaluation: %s", no.text);
    } else if (st != ERR_NONE) {
        if (err) *err = no;
        return st;
    }
    return ERR_NONE;
}

// MLPerf's rule for BERT: evaluations are further apart when batches are large.
static int64_t mlperf_eval_samples(int64_t batch)
{
    const int64_t each = 25000;
    return (int64_t)floor(0.05 * (230.23 * (double)batch + 3000000) / (double)each) * each;
}

// What is counted in sequences, and what a run of this kind cannot be told.
static Status of_pretraining(Run *r, Err *err)
{
    const Options *o = r->o;
    const bool pretraining = pretrains(&r->setup.model);
    const struct {
        bool said;
        const char *what;
    } of_bert[] = {{o->mllog[0] != 0, "mllog"},
                   {o->target_accuracy > 0, "target_accuracy"},
                   {o->eval_samples != 0, "eval_samples"},
                   {o->data_pack > 1, "data.pack"},
                   {!(o->mask_prob >= 0.15 && o->mask_prob <= 0.15), "mask_prob"},
                   {o->max_predictions != 0, "max_predictions"},
                   {o->whole_word_mask, "whole_word_mask"}};
    for (size_t i = 0; i < LT_COUNT(of_bert) && !pretraining; i++)
        if (of_bert[i].said)
            return err_set(err, ERR_USAGE, "%s has no meaning but for the pretraining of BERT",
                           of_bert[i].what);
    if (o->mllog[0] && strcmp(o->optimizer, "lamb") != 0)
        return err_set(err, ERR_USAGE, "mllog is of runs with optimizer=lamb, this one has %s",
                       o->optimizer);
    if (o->target_accuracy > 0 && !r->val)
        return err_set(err, ERR_USAGE,
                       "target_accuracy is of runs that evaluate, this one never does");
    if (!pretraining) return ERR_NONE;
    r->part[0] = "mlm";
    r->part[1] = r->setup.model.head == HEAD_PRETRAIN ? "nsp" : NULL;
    const double rows = (double)r->info.samples_an_epoch;
    r->step_sequences =
        LT_MAX(1, llround((double)r->setup.samples * (double)r->info.sequences / rows));
    r->eval_sequences =
        o->eval_samples < 0 ? mlperf_eval_samples(r->step_sequences) : o->eval_samples;
    return ERR_NONE;
}

static int64_t end_token_of(const Run *r)
{
    Tokenizer *t;
    if (!r->info.tokenizer_dir[0] ||
        tokenizer_load(&t, r->info.tokenizer_dir, NULL, NULL) != ERR_NONE)
        return -1;
    const int64_t id = tokenizer_end_token(t);
    tokenizer_close(t);
    return id;
}

// What the MFU is measured against. CPU: register loops of the instruction set that does the
// products. GPU: what its units do at its highest clock; 0 when it does not tell.
static const char *measure_peak(Run *r)
{
    enum { LOOP_MS = 20 };
    CudaLimits gpu;
    if (cuda_limits(&r->backend.device, &gpu)) {
        const bool full = r->setup.prec.act == DTYPE_F32;
        r->peak = full ? gpu.flops_f32 : gpu.flops_half;
        return full ? "f32 units" : "tensor cores";
    }
    const char *isa = r->backend.cpu.isa;
    const bool bf16_engine = strcmp(isa, "amx") == 0 || strcmp(isa, "avx512_bf16") == 0;
    if (bf16_engine && r->setup.prec.act == DTYPE_F32) isa = "avx512";
    r->peak = cpu_peak(isa, r->backend.device.threads, LOOP_MS * 1e-3);
    return isa;
}

static void announce_examples(const Finetune *f)
{
    char labels[256];
    log_note("               %" PRId64 " examples to learn from, %" PRId64 " to evaluate on",
             f->train_view.examples, f->val_view.examples);
    if (f->train.labels.n)
        log_note("  labels       %d: %s", f->train.labels.n, labels_show(&f->train.labels, labels));
}

static void announce_data(const Run *r)
{
    char tokens[32];
    const Options *o = r->o;
    progress_count((double)r->info.tokens, tokens);
    log_note(
        "  data         %s tokens, %" PRId64 " samples an epoch (%.2f epochs in %" PRId64 " steps)",
        tokens, r->info.samples_an_epoch,
        (double)(o->max_steps * r->setup.samples) / (double)r->info.samples_an_epoch, o->max_steps);
    if (r->info.sequences)
        log_note("               %" PRId64 " sequences in them, %.1f tokens each, %" PRId64
                 " a step",
                 r->info.sequences, (double)r->info.tokens / (double)r->info.documents,
                 r->step_sequences);
    if (r->eval_sequences && r->val)
        log_note("  evaluation   each %" PRId64 " sequences", r->eval_sequences);
    if (r->finetune.on) announce_examples(&r->finetune);
}

// Of a model that knows nothing; NaN where that is not a number of the vocabulary.
static double first_loss(const ModelConfig *c)
{
    const double token = log((double)c->vocab_size);
    switch (c->head) {
    case HEAD_LM:
    case HEAD_MLM: return token;
    case HEAD_PRETRAIN: return token + log(2.0);
    default: return (double)NAN;
    }
}

static void announce_device(Run *r)
{
    const Backend *b = &r->backend;
    char peak[32];
    const char *units = measure_peak(r);
    train_si(r->peak, peak);
    if (b->device.is_host)
        log_note("  kernels      %s (%d threads): %s%s%s", b->cpu.isa, b->device.threads,
                 b->cpu.why, b->no_gpu[0] ? "; no GPU: " : "", b->no_gpu);
    else
        log_note("  kernels      on %s", b->device.name);
    if (r->peak > 0)
        log_note("  speed        mfu is measured against %sFLOP/s, what %s %s", peak, units,
                 b->device.is_host ? "reaches here in registers" : "do at the highest clock");
}

// The first output: what the run is, what it costs, what to expect.
static Status announce(Run *r, Err *err)
{
    const Options *o = r->o;
    double products = 0; // FLOP/s
    Buf b = {0};
    Status st = train_setup_text(&r->setup, &r->trainer.plan, &b, err);
    if (st == ERR_NONE) st = trainer_probe(&r->trainer, &products, err);
    if (st != ERR_NONE) {
        buf_free(&b);
        return st;
    }
    log_note("%s %s", r->resumed_from[0] ? "going on with" : "run", o->run);
    printf("%s", b.data);
    buf_free(&b);
    announce_data(r);
    announce_device(r);
    char time[32];
    if (r->resumed_from[0])
        log_note("  resumed      from %s, step %" PRId64, path_base(r->resumed_from),
                 r->state.step);
    else if (r->init_dir[0])
        log_note("  weights      from %s%s%s", r->init_dir,
                 r->finetune.heads.lacking[0] ? "; new: " : "", r->finetune.heads.lacking);
    else if (isfinite(first_loss(&r->setup.model)))
        log_note("  expected     first loss about ln V%s = %.4f",
                 r->setup.model.head == HEAD_PRETRAIN ? " + ln 2" : "",
                 first_loss(&r->setup.model));
    const int64_t todo = LT_MAX(0, o->max_steps - r->state.step);
    // The rest of a step takes about a third as long again as its products.
    const double a_step = 1.35 * r->trainer.plan.matmul_flops_a_step / products;
    progress_duration(a_step * (double)todo, time);
    log_note("  expected     about %s for %" PRId64 " steps", time, todo);
    return ERR_NONE;
}

// Going on from an older step gives up what came after it.
static Status set_newer_steps_aside(const Run *r, Err *err)
{
    int n = 0;
    if (!r->resumed_from[0]) return ERR_NONE;
    TRY(ckpt_set_aside(r->o->run, r->state.step, r->o->keep, &n, err));
    TRY(ckpt_restore_best(r->o->run, r->state.best_step, err));
    if (n)
        log_note("%d newer step%s set aside (%s/checkpoints/aside-*)", n, n == 1 ? "" : "s",
                 r->o->run);
    return ERR_NONE;
}

// The position of the data means nothing in other data.
static Status check_same_data(Run *r, Err *err)
{
    const int64_t was = r->state.data_tokens;
    r->state.data_tokens = r->info.tokens;
    if (!r->resumed_from[0] || was == r->info.tokens) return ERR_NONE;
    const Status st =
        err_set(err, ERR_USAGE,
                "%s has %" PRId64 " training tokens, but %" PRId64 " when the run %s was saved",
                r->finetune.on ? r->o->data_train : r->o->data, r->info.tokens, was, r->o->run);
    err_hint(err, "--init_from=%s starts a new run on other data", r->resumed_from);
    return st;
}

static Status load_trunk(Run *r, Err *err)
{
    HfConfig model;
    model_to_hf(&model, &r->setup.model, -1, r->setup.prec.param);
    finetune_config(&r->finetune, &model);
    return trainer_load_trunk(&r->trainer, r->init_dir, &model, &r->finetune.heads, err);
}

static Status load_or_init(Run *r, Err *err)
{
    r->state = run_state_new();
    if (r->resumed_from[0])
        TRY_CTX(run_state_load(&r->state, &r->trainer, r->resumed_from, err), err, "resuming %s",
                r->o->run);
    else if (r->finetune.on)
        TRY_CTX(load_trunk(r, err), err, "loading %s", r->init_dir);
    else if (r->init_dir[0])
        TRY_CTX(trainer_load_model(&r->trainer, r->init_dir, err), err, "loading %s", r->init_dir);
    else
        TRY(trainer_init_weights(&r->trainer, err));
    TRY(check_same_data(r, err));
    return stream_seek(r->train, r->state.samples, err);
}

// Where to go on: a named step, or the newest complete one; "" when the run has none yet.
static Status find_start(Run *r, bool exists, Err *err)
{
    const Options *o = r->o;
    bool found;
    int64_t step;
    if (names_step(o)) {
        char run[PATH_CAP], named[PATH_CAP];
        const bool here = !file_exists(o->resume); // then it is the name of one of this run's steps
        TRY(path_join(run, o->run, "checkpoints", err));
        TRY(path_join(named, run, o->resume, err));
        TRY(ckpt_find(here ? named : o->resume, NULL, r->resumed_from, &step, err));
        TRY(path_join(named, run, path_base(r->resumed_from), err));
        const bool ours =
            step >= 0 && ckpt_has_trainer(r->resumed_from) && file_same(named, r->resumed_from);
        return ours ? ERR_NONE : not_of_this_run(o, err);
    }
    if (exists) {
        TRY(ckpt_newest(o->run, r->resumed_from, &step, &found, err));
        if (found) return ERR_NONE;
    }
    r->resumed_from[0] = 0;
    Steps all;
    TRY(steps_list(&all, o->run, err));
    const int n = all.n;
    steps_free(&all);
    if (n == 0) return ERR_NONE; // a new run, or one that was stopped before its first save
    const Status st =
        exists ? err_set(err, ERR_FORMAT, "none of the %d checkpoints in %s is intact", n, o->run)
               : err_set(err, ERR_FORMAT, "%s has %d checkpoint%s, but no config.ini", o->run, n,
                         n == 1 ? "" : "s");
    err_hint(err, "to start over, name another --run, or remove %s/checkpoints", o->run);
    return st;
}

static Status find_init(Run *r, Err *err)
{
    const Options *o = r->o;
    int64_t step;
    if (!o->init_from[0] || r->resumed_from[0]) return ERR_NONE;
    TRY_CTX(ckpt_find(o->init_from, NULL, r->init_dir, &step, err), err,
            "looking for the weights that init_from names");
    return ERR_NONE;
}

static Status not_past_the_end(const Run *r, Err *err)
{
    const int64_t end = r->o->max_steps, step = r->state.step;
    if (step <= end) return ERR_NONE;
    return err_set(err, ERR_USAGE,
                   "max_steps = %" PRId64 ", but the run %s is at step %" PRId64 " already", end,
                   r->o->run, step);
}

static Status take_folder(Run *r, const char *config_path, bool exists, Err *err)
{
    const Options *o = r->o;
    TRY(run_folder_open(&r->folder, o->run, err));
    if (file_exists(config_path) != exists) { // while we looked
        const Status st = err_set(err, ERR_USAGE, "another process %s the run %s a moment ago",
                                  exists ? "removed" : "made", o->run);
        err_hint(err, "try again");
        return st;
    }
    if (exists) TRY(ckpt_clean(o->run, err));
    return ERR_NONE;
}

// A benchmark run is one process from its first step to its last.
static Status open_mllog(Run *r, Err *err)
{
    const char *path = r->o->mllog;
    if (!path[0]) return ERR_NONE;
    if (!r->resumed_from[0]) return run_mllog_open(r, err);
    const Status st =
        err_set(err, ERR_USAGE, "mllog is the log of a whole run, %s goes on from step %" PRId64,
                r->o->run, r->state.step);
    err_hint(err, "leave --mllog away, or name another --run");
    return st;
}

// The folder that the tokenizer came from may go, if only because it is an old step of this run.
static Status keep_tokenizer(Run *r, Err *err)
{
    char *to = r->saver.job.tokenizer_dir;
    TRY(path_join(to, r->o->run, "tokenizer", err));
    TRY(file_mkdirs(to, err));
    return tokenizer_files_copy(to, r->finetune.dir, false, NULL, err);
}

// From here on it is a run, whatever happens.
static Status make_run(Run *r, Err *err)
{
    TRY(run_folder_config(&r->folder, r->o, err));
    // A run that cannot save is refused now, not after hours of training.
    if (r->o->save_interval > 0)
        TRY_CTX(ckpt_prepare(r->o->run, err), err, "making room for checkpoints");
    r->pending.step = r->lost.step = -1;
    r->saved_step = r->resumed_from[0] ? r->state.step : -1;
    r->kept = (RunSave){
        .step = r->state.best_step, .loss = r->state.best_loss, .score = r->state.best_score};
    if (r->finetune.on) TRY(keep_tokenizer(r, err));
    TRY(run_open_metrics(r, err));
    return open_mllog(r, err);
}

static Status open_all(Run *r, Err *err)
{
    Options *o = r->o;
    char config_path[PATH_CAP];
    bool exists;
    TRY(path_join(config_path, o->run, "config.ini", err));
    TRY(find_run(r, config_path, &exists, err));
    const bool examples = finetune_asked(o);
    if (!examples && !o->data[0]) return err_set(err, ERR_USAGE, "train needs --data=DIR");
    TRY(open_kernels(r, err));
    r->start_ms = mllog_now();
    if (!examples) TRY(open_data(r, err));
    TRY(take_folder(r, config_path, exists, err));
    TRY(find_start(r, exists, err));
    TRY(find_init(r, err));

    ModelConfig c;
    TRY(choose_model(r, &c, err));
    TRY(check_tokenizer(r, err));
    TRY(train_setup(&r->setup, &c, o, &r->backend.device, 1, err));
    if (strcmp(o->precision, "auto") == 0)
        TRY(options_set(o, "precision", r->setup.prec.name, o->origin[OPT_precision], err));
    if (o->init_from[0]) TRY(train_setup_record(&r->setup, o, err));
    TRY(open_streams(r, err));
    TRY(of_pretraining(r, err));
    TRY(trainer_open(&r->trainer, &r->setup, &r->backend.ops, &r->backend.device, err));
    TRY(load_or_init(r, err));
    TRY(not_past_the_end(r, err));
    TRY(set_newer_steps_aside(r, err));
    TRY(run_saver_open(&r->saver, &r->trainer, o->run, r->info.tokenizer_dir, end_token_of(r),
                       o->keep, o->keep_every, err));
    if (examples) finetune_config(&r->finetune, &r->saver.job.config);
    r->saver.job.lock = &r->folder.lock;
    if (r->resumed_from[0]) r->saver.last_step = r->state.step;
    TRY(make_run(r, err));
    return announce(r, err);
}

Status run_open_metrics(Run *r, Err *err)
{
    char path[PATH_CAP];
    Metrics m;
    TRY(path_join(path, r->o->run, "metrics.jsonl", err));
    TRY(metrics_open(&m, path,
                     (MetricsPoint){.step = r->state.step,
                                    .last_eval = r->state.last_eval,
                                    .skipped = r->state.skipped},
                     err));
    metrics_close(&r->metrics);
    r->metrics = m;
    r->metrics_stale = false;
    return ERR_NONE;
}

Status run_open(Run *r, Options *o, Err *err)
{
    *r = (Run){.o = o,
               .folder = {.lock = {.fd = -1}},
               .metrics = {.fd = -1},
               .mllog = {.fd = -1},
               .init_ms = mllog_now(),
               .opened = clock_seconds()};
    if (!o->run[0]) return err_set(err, ERR_USAGE, "train needs --run=DIR");
    const Status st = open_all(r, err);
    if (st != ERR_NONE) run_close(r);
    return st;
}

void run_close(Run *r)
{
    run_saver_close(&r->saver);
    trainer_close(&r->trainer);
    backend_close(&r->backend);
    stream_close(r->train);
    stream_close(r->val);
    metrics_close(&r->metrics);
    mllog_close(&r->mllog);
    run_folder_close(&r->folder);
    finetune_close(&r->finetune);
    r->train = r->val = NULL;
}
