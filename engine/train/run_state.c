// run_state.c -- see run_state.h.
//
// SPDX-License-Identifier: MIT
#include "engine/train/run_state.h"
#include "checkpoints/json_read.h"
#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/model/model_hf.h"

#include <float.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FORMAT_VERSION = 1, FP8_VERSION = 1 };
static const int64_t COUNT_MAX = INT64_MAX / 1024; // of steps, samples, tokens

RunState run_state_new(void)
{
    return (RunState){.last_eval = -1,
                      .best_step = -1,
                      .best_loss = INFINITY,
                      .best_score = NAN,
                      .accuracy = NAN,
                      .scale = {.scale = 1}};
}

static size_t tensors_max(const Trainer *t)
{
    return 3 * (size_t)t->params.n + FP8_SAVED_TENSORS;
}

// Tensors of the moments (and of the master weights, when the model file is rounded) at these
// places.
static int moment_tensors(const Trainer *t, float *w, float *m, float *v, Tensor *out)
{
    int n = 0;
    params_tensors(&t->params, m, DTYPE_F32, "m.", out);
    n += t->params.n;
    params_tensors(&t->params, v, DTYPE_F32, "v.", out + n);
    n += t->params.n;
    if (t->setup.prec.param != DTYPE_F32) {
        params_tensors(&t->params, w, DTYPE_F32, "w.", out + n);
        n += t->params.n;
    }
    return n;
}

Status run_saver_open(RunSaver *s, Trainer *t, const char *run_dir, const char *tokenizer_dir,
                      int64_t end_token, int64_t keep, int64_t keep_every, Err *err)
{
    *s = (RunSaver){.trainer = t, .last_step = -1};
    const size_t n = (size_t)t->params.n;
    s->model = mem_calloc(n, sizeof *s->model);
    s->moments = mem_calloc(tensors_max(t), sizeof *s->moments);
    if (!s->model || !s->moments) {
        run_saver_close(s);
        return mem_err(err, 4 * n * sizeof *s->model, "the tensor tables of checkpoints");
    }
    const Status fp8 = t->setup.prec.fp8 ? fp8_saved_open(&s->fp8, &t->fp8, err) : ERR_NONE;
    if (fp8 != ERR_NONE) {
        run_saver_close(s);
        return fp8;
    }
    const bool snap = t->snap_w != NULL;
    float *w = snap ? t->snap_w : t->opt.w;
    params_tensors(&t->params, w, DTYPE_F32, "", s->model);
    s->n_moments =
        moment_tensors(t, w, snap ? t->snap_m : t->opt.m, snap ? t->snap_v : t->opt.v, s->moments);
    if (s->fp8.n) s->n_moments += fp8_saved_tensors(&s->fp8, s->moments + s->n_moments);
    s->job = (CkptSave){.model_dtype = t->setup.prec.param,
                        .model = s->model,
                        .n_model = t->params.n,
                        .trainer = s->moments,
                        .n_trainer = s->n_moments,
                        .keep = keep,
                        .keep_every = keep_every};
    snprintf(s->job.run_dir, sizeof s->job.run_dir, "%s", run_dir);
    snprintf(s->job.tokenizer_dir, sizeof s->job.tokenizer_dir, "%s", tokenizer_dir);
    model_to_hf(&s->job.config, &t->setup.model, end_token, t->setup.prec.param);
    if (!snap) return ERR_NONE;
    const Status st = ckpt_writer_open(&s->writer, err);
    if (st != ERR_NONE) run_saver_close(s);
    return st;
}

Status run_state_text(const RunState *st, uint64_t seed, const char *precision, Buf *out, Err *err)
{
    buf_clear(out);
    TRY(buf_printf(out, err,
                   "{\n  \"lathe_trainer\": %d,\n  \"step\": %" PRId64 ",\n  \"samples\": %" PRId64
                   ",\n  \"skipped\": %" PRId64 ",\n  \"tokens\": %" PRId64
                   ",\n  \"last_eval\": %" PRId64 ",\n  \"best_step\": %" PRId64
                   ",\n  \"data_tokens\": %" PRId64 ",\n",
                   FORMAT_VERSION, st->step, st->samples, st->skipped, st->tokens, st->last_eval,
                   st->best_step, st->data_tokens));
    if (isfinite(st->best_loss))
        TRY(buf_printf(out, err, "  \"best_loss\": %.17g,\n", st->best_loss));
    if (isfinite(st->best_score))
        TRY(buf_printf(out, err, "  \"best_score\": %.17g,\n", st->best_score));
    if (st->sequences)
        TRY(buf_printf(out, err,
                       "  \"sequences\": %" PRId64 ",\n  \"eval_sequences\": %" PRId64 ",\n",
                       st->sequences, st->eval_sequences));
    if (isfinite(st->accuracy)) TRY(buf_printf(out, err, "  \"accuracy\": %.17g,\n", st->accuracy));
    if (st->fp8.slots)
        TRY(buf_printf(out, err,
                       "  \"fp8\": {\"version\": %d, \"slots\": %" PRId64 ", \"history\": %" PRId64
                       ", \"started\": %s},\n",
                       FP8_VERSION, st->fp8.slots, st->fp8.history,
                       st->fp8.started ? "true" : "false"));
    if (strcmp(precision, "fp16") == 0)
        TRY(buf_printf(out, err,
                       "  \"loss_scale\": %.9g,\n  \"loss_scale_good_steps\": %d,\n"
                       "  \"loss_scale_overflows_left\": %d,\n",
                       (double)st->scale.scale, st->scale.good, st->scale.left));
    return buf_printf(
        out, err, "  \"seconds\": %.3f,\n  \"seed\": %" PRIu64 ",\n  \"precision\": \"%s\"\n}\n",
        st->seconds, seed, precision);
}

static Status snapshot(Trainer *t, Err *err)
{
    const size_t bytes = (size_t)t->params.total * sizeof(float);
    TRY(device_download(t->device, t->snap_w, t->opt.w, bytes, err));
    TRY(device_download(t->device, t->snap_m, t->opt.m, bytes, err));
    TRY(device_download(t->device, t->snap_v, t->opt.v, bytes, err));
    return device_sync(t->device, err);
}

Status run_saver_save(RunSaver *s, const RunState *state, bool best, Err *err)
{
    if (s->writer) TRY(ckpt_writer_wait(s->writer, err));
    s->job.step = state->step;
    s->job.best = best;
    Trainer *t = s->trainer;
    const TrainSetup *setup = &t->setup;
    RunState now = *state;
    if (s->fp8.n) {
        TRY(fp8_saved_take(&s->fp8, &t->fp8, t->device, err));
        now.fp8 = (RunFp8){.slots = s->fp8.n, .history = s->fp8.length, .started = t->fp8.started};
    }
    TRY(run_state_text(&now, setup->seed, setup->prec.name, &s->json, err));
    s->job.trainer_json = s->json.data;
    if (s->writer) {
        TRY(snapshot(s->trainer, err));
        TRY(ckpt_writer_start(s->writer, &s->job, err));
    } else {
        TRY(ckpt_save(&s->job, err));
    }
    s->last_step = state->step;
    return ERR_NONE;
}

Status run_saver_wait(RunSaver *s, Err *err)
{
    return s->writer ? ckpt_writer_wait(s->writer, err) : ERR_NONE;
}

void run_saver_close(RunSaver *s)
{
    ckpt_writer_close(s->writer);
    fp8_saved_close(&s->fp8);
    mem_free(s->model);
    mem_free(s->moments);
    buf_free(&s->json);
    *s = (RunSaver){0};
}

// ---- loading ----------------------------------------------------------------------------------

// A whole number from `min` on, small enough to count further from it.
static Status need_int(const json_t *o, const char *key, int64_t min, const char *path,
                       int64_t *out, Err *err)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_integer(v))
        return err_set(err, ERR_FORMAT, "%s: no whole number \"%s\"", path, key);
    *out = json_integer_value(v);
    if (*out >= min && *out <= COUNT_MAX) return ERR_NONE;
    return err_set(err, ERR_FORMAT, "%s: \"%s\" is %" PRId64 ", expected %" PRId64 " to %" PRId64,
                   path, key, *out, min, COUNT_MAX);
}

static Status parse_fp8(RunFp8 *f, const json_t *o, const char *path, Err *err)
{
    int64_t version = 0;
    TRY(need_int(o, "version", 0, path, &version, err));
    if (version != FP8_VERSION)
        return err_set(err, ERR_FORMAT, "%s: FP8 state of version %" PRId64 ", this lathe reads %d",
                       path, version, FP8_VERSION);
    TRY(need_int(o, "slots", 1, path, &f->slots, err));
    TRY(need_int(o, "history", 0, path, &f->history, err));
    f->started = json_is_true(json_object_get(o, "started"));
    return ERR_NONE;
}

static Status parse_loss_scale(LossScale *s, const json_t *o, const char *path, Err *err)
{
    int64_t good = 0, left = 0;
    const double scale = json_number_value(json_object_get(o, "loss_scale"));
    if (!(scale >= 1 && scale <= (double)FLT_MAX))
        return err_set(err, ERR_FORMAT, "%s: \"loss_scale\" is %g", path, scale);
    TRY(need_int(o, "loss_scale_good_steps", 0, path, &good, err));
    TRY(need_int(o, "loss_scale_overflows_left", INT32_MIN, path, &left, err));
    if (good > INT32_MAX || left > INT32_MAX)
        return err_set(err, ERR_FORMAT, "%s: %" PRId64 " steps since the loss scale changed", path,
                       LT_MAX(good, left));
    *s = (LossScale){.scale = (float)scale, .good = (int32_t)good, .left = (int32_t)left};
    return ERR_NONE;
}

static Status parse_state(RunState *st, const json_t *o, const char *precision, const char *path,
                          Err *err)
{
    int64_t version = 0;
    *st = run_state_new();
    TRY(need_int(o, "lathe_trainer", 0, path, &version, err));
    if (version != FORMAT_VERSION)
        return err_set(err, ERR_FORMAT, "%s: version %" PRId64 ", this lathe reads %d", path,
                       version, FORMAT_VERSION);
    const struct {
        const char *key;
        int64_t min;
        int64_t *to;
    } rows[] = {{"step", 0, &st->step},
                {"samples", 0, &st->samples},
                {"skipped", 0, &st->skipped},
                {"tokens", 0, &st->tokens},
                {"last_eval", -1, &st->last_eval},
                {"best_step", -1, &st->best_step},
                {"data_tokens", 0, &st->data_tokens}};
    for (size_t i = 0; i < LT_COUNT(rows); i++)
        TRY(need_int(o, rows[i].key, rows[i].min, path, rows[i].to, err));
    const json_t *best = json_object_get(o, "best_loss");
    if (json_is_number(best)) st->best_loss = json_number_value(best);
    const json_t *score = json_object_get(o, "best_score");
    if (json_is_number(score)) st->best_score = json_number_value(score);
    st->seconds = json_number_value(json_object_get(o, "seconds"));
    if (json_object_get(o, "sequences")) { // BERT
        TRY(need_int(o, "sequences", 0, path, &st->sequences, err));
        TRY(need_int(o, "eval_sequences", 0, path, &st->eval_sequences, err));
    }
    const json_t *accuracy = json_object_get(o, "accuracy");
    if (json_is_number(accuracy)) st->accuracy = json_number_value(accuracy);
    const json_t *fp8 = json_object_get(o, "fp8");
    if (fp8) TRY(parse_fp8(&st->fp8, fp8, path, err));
    const char *saved = json_string_value(json_object_get(o, "precision"));
    if (!saved || strcmp(saved, precision) != 0)
        return err_set(err, ERR_USAGE, "%s was saved with precision %.20s, this run has %s", path,
                       saved ? saved : "?", precision);
    if (strcmp(precision, "fp16") == 0) TRY(parse_loss_scale(&st->scale, o, path, err));
    return ERR_NONE;
}

Status run_state_parse(RunState *st, const char *text, size_t bytes, const char *precision,
                       const char *path, Err *err)
{
    json_t *o = NULL;
    TRY(json_read_text(&o, path, text, bytes, err));
    const Status s = parse_state(st, o, precision, path, err);
    json_decref(o);
    return s;
}

// The three flat state buffers as host memory: themselves, or staging for a device.
typedef struct HostState {
    float *w, *m, *v;
    bool staged;
} HostState;

static Status host_state(HostState *h, Trainer *t, Err *err)
{
    *h = (HostState){.w = t->opt.w, .m = t->opt.m, .v = t->opt.v};
    if (t->device->is_host) return ERR_NONE;
    const size_t bytes = (size_t)t->params.total * sizeof(float);
    *h = (HostState){.w = mem_map(bytes), .m = mem_map(bytes), .v = mem_map(bytes), .staged = true};
    if (h->w && h->m && h->v) return ERR_NONE;
    mem_unmap(h->w, bytes);
    mem_unmap(h->m, bytes);
    mem_unmap(h->v, bytes);
    return mem_err(err, 3 * bytes, "a checkpoint on its way to the device");
}

static Status put_state(HostState *h, Trainer *t, Status so_far, Err *err)
{
    const size_t bytes = (size_t)t->params.total * sizeof(float);
    Status st = so_far;
    if (h->staged) {
        if (st == ERR_NONE) st = device_upload(t->device, t->opt.w, h->w, bytes, err);
        if (st == ERR_NONE) st = device_upload(t->device, t->opt.m, h->m, bytes, err);
        if (st == ERR_NONE) st = device_upload(t->device, t->opt.v, h->v, bytes, err);
        mem_unmap(h->w, bytes);
        mem_unmap(h->m, bytes);
        mem_unmap(h->v, bytes);
    }
    if (st == ERR_NONE) st = optimizer_refresh(&t->opt, &t->cx, err);
    return st;
}

// The state of FP8 must be of a run like this one.
static Status check_fp8(const RunState *state, const Trainer *t, const char *path, Err *err)
{
    const int64_t slots = t->setup.prec.fp8 ? t->fp8.n : 0;
    const int64_t history = t->setup.prec.fp8 ? t->fp8.recipe.history : 0;
    if (state->fp8.slots == slots && state->fp8.history == history) return ERR_NONE;
    return err_set(err, ERR_FORMAT,
                   "%s: %" PRId64 " FP8 scales with %" PRId64
                   " steps of history, this run has %" PRId64 " with %" PRId64,
                   path, state->fp8.slots, state->fp8.history, slots, history);
}

static Status load_tensors(RunState *state, Trainer *t, const HostState *h, Fp8Saved *fp8,
                           const char *dir, Tensor *tensors, Err *err)
{
    if (t->setup.prec.param == DTYPE_F32) { // the model file is the master
        HfConfig hf;
        params_tensors(&t->params, h->w, DTYPE_F32, "", tensors);
        TRY(hf_config_read(&hf, dir, err));
        TRY(hf_load(dir, &hf, tensors, t->params.n, err));
    }
    Buf json = {0};
    int n = moment_tensors(t, h->w, h->m, h->v, tensors);
    if (fp8->n) n += fp8_saved_tensors(fp8, tensors + n);
    Status st = ckpt_load_trainer(dir, &json, tensors, n, err);
    char path[PATH_CAP];
    if (st == ERR_NONE) st = path_join(path, dir, "trainer.json", err);
    if (st == ERR_NONE)
        st = run_state_parse(state, json.data, json.len, t->setup.prec.name, path, err);
    if (st == ERR_NONE) st = check_fp8(state, t, path, err);
    if (st == ERR_NONE && fp8->n) st = fp8_saved_put(fp8, &t->fp8, t->device, dir, err);
    buf_free(&json);
    return st;
}

Status run_state_load(RunState *state, Trainer *t, const char *step_dir, Err *err)
{
    HostState h;
    Fp8Saved fp8 = {0};
    TRY(host_state(&h, t, err));
    Tensor *tensors = mem_calloc(tensors_max(t), sizeof *tensors);
    Status st =
        tensors ? ERR_NONE : mem_err(err, tensors_max(t) * sizeof *tensors, "tensor tables");
    if (st == ERR_NONE && t->setup.prec.fp8) st = fp8_saved_open(&fp8, &t->fp8, err);
    if (st == ERR_NONE) st = load_tensors(state, t, &h, &fp8, step_dir, tensors, err);
    mem_free(tensors);
    fp8_saved_close(&fp8);
    TRY(put_state(&h, t, st, err));
    t->fp8.started = state->fp8.started;
    return trainer_set_state(t, state->step, state->skipped, state->scale, err);
}
