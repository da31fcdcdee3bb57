// trainer.c -- see trainer.h.
//
// SPDX-License-Identifier: MIT
#include "engine/train/trainer.h"
#include "checkpoints/hf.h"
#include "engine/base/assert.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/stop.h"
#include "engine/model/model_hf.h"

#include <math.h>
#include <string.h>

enum { EVAL_SUMS = 4 }; // losses of rows, of sequences; hits of rows, of sequences

static BatchShape batch_shape(const TrainSetup *s)
{
    const bool lm = s->model.head == HEAD_LM;
    return (BatchShape){.samples = s->samples,
                        .block = s->block_size,
                        .micro = s->batch_size,
                        .target = lm,
                        .segments = s->document_mask || !lm,
                        .bert = !lm,
                        .picks = s->picks,
                        .seqs = s->seqs,
                        .spans = s->model.head == HEAD_QA};
}

// Lay everything out. Runs twice: on counting arenas, then on real ones.
static Status carve(Trainer *t, Arena *run, Arena *step, Arena *host, Arena *pinned, Err *err)
{
    const TrainSetup *s = &t->setup;
    const size_t n = (size_t)t->params.total;
    optimizer_build(&t->opt, &t->params, &s->prec, s->lamb, run);
    t->opt.beta1 = s->beta1;
    t->opt.beta2 = s->beta2;
    t->opt.eps = s->eps;
    t->opt.weight_decay = s->weight_decay;
    t->opt.clip = s->grad_clip;
    t->opt.rule = s->loss_scale > 0 ? s->rule : (LossScaleRule){0};
    if (s->prec.fp8) {
        fp8_build(&t->fp8, &s->fp8, &s->model, run);
        t->opt.fp8 = &t->fp8;
    }
    arena_part(run, "gradients");
    t->grads = arena_alloc(run, n * sizeof(float));
    const BatchShape shape = batch_shape(s);
    arena_part(run, "token ids");
    arena_part(host, "row numbers");
    batch_build(&t->batch, &shape, run, host);
    t->sum_seqs = arena_alloc(run, sizeof(double));
    t->sum_eval = arena_alloc(run, EVAL_SUMS * sizeof(double));
    arena_part(pinned, "what became of a step");
    t->gate_host = arena_alloc(pinned, 2 * sizeof *t->gate_host);
    t->seqs_host = arena_alloc(pinned, 2 * sizeof(double));
    if (s->snapshot) {
        arena_part(host, "snapshot for saving");
        t->snap_w = arena_alloc(host, n * sizeof(float));
        t->snap_m = arena_alloc(host, n * sizeof(float));
        t->snap_v = arena_alloc(host, n * sizeof(float));
    }
    const ModelOptions mo = {.batch = s->batch_size,
                             .block = s->block_size,
                             .train = true,
                             .recompute = s->recompute,
                             .head_rows = s->head_rows,
                             .picks = s->batch_size * s->picks,
                             .seqs = s->batch_size * s->seqs,
                             .seed = s->seed,
                             .fp8 = s->prec.fp8 ? &t->fp8 : NULL};
    TRY(model_build(&t->model, &s->model, &s->prec, &mo, &t->params, optimizer_weights(&t->opt),
                    t->grads, step, err));
    t->model.loss_scale = s->loss_scale > 0 ? &t->opt.gate->scale.scale : NULL;
    return ERR_NONE;
}

static bool learns_rows(const Trainer *t)
{
    return t->setup.model.head != HEAD_CLASSIFY && t->setup.model.head != HEAD_NONE;
}

// How many losses a micro-batch has: of rows, and of sequences.
static int64_t losses_of_rows(const Trainer *t, const ModelBatch *b)
{
    if (!learns_rows(t)) return 0;
    switch (t->setup.model.head) {
    case HEAD_LM: return b->B * b->T;
    case HEAD_QA: return 2 * b->B;
    default: return b->picks;
    }
}

static bool learns_sequences(const Trainer *t)
{
    return t->setup.model.head == HEAD_PRETRAIN || t->setup.model.head == HEAD_CLASSIFY;
}

static int64_t losses_of_seqs(const Trainer *t, const ModelBatch *b)
{
    return learns_sequences(t) ? b->seqs : 0;
}

static Status add_up(Trainer *t, double *sum, const float *x, int64_t n, bool first, Err *err)
{
    return op_sum(&t->cx,
                  &(SumArgs){.out = sum, .x = x, .n = n, .accumulate = !first, .dtype = DTYPE_F32},
                  err);
}

// Gradients; losses of rows and of sequences into opt.loss, of sequences alone into sum_seqs.
static Status micro_step(Trainer *t, const ModelBatch *b, ModelLossScale scale, bool first,
                         Err *err)
{
    const Model *m = &t->model;
    TRY(model_gradients(&t->model, &t->cx, b, scale, first, err));
    TRY(add_up(t, t->opt.loss, m->loss, losses_of_rows(t, b), first, err));
    if (!learns_sequences(t)) return ERR_NONE;
    TRY(add_up(t, t->opt.loss, m->loss_seq, b->seqs, false, err));
    return add_up(t, t->sum_seqs, m->loss_seq, b->seqs, first, err);
}

static Status micro_eval(Trainer *t, const ModelBatch *b, bool first, Err *err)
{
    const Model *m = &t->model;
    const int64_t rows = losses_of_rows(t, b), seqs = losses_of_seqs(t, b);
    TRY(model_loss(&t->model, &t->cx, b, err));
    TRY(add_up(t, t->sum_eval, m->loss, rows, first, err));
    if (t->setup.model.head == HEAD_LM) return ERR_NONE;
    TRY(add_up(t, t->sum_eval + 1, m->loss_seq, seqs, first, err));
    TRY(add_up(t, t->sum_eval + 2, m->hit, rows, first, err));
    return add_up(t, t->sum_eval + 3, m->hit_seq, seqs, first, err);
}

// A batch of the right sizes, for plans: nothing of it is read.
static ModelBatch any_batch(const Trainer *t)
{
    const Batch *a = &t->batch;
    const TrainSetup *s = &t->setup;
    return (ModelBatch){.B = s->batch_size,
                        .T = s->block_size,
                        .input = a->input,
                        .target = a->target,
                        .position = a->position,
                        .seg_lo = a->seg_lo,
                        .sample = a->sample,
                        .type = a->type,
                        .seg_hi = a->seg_hi,
                        .picks = s->batch_size * s->picks,
                        .pick_row = a->pick_row,
                        .pick_target = a->pick_target,
                        .seqs = s->batch_size * s->seqs,
                        .seq_row = a->seq_row,
                        .seq_target = a->seq_target,
                        .span_target = a->span_target};
}

// Run a step's op calls in plan mode.
static Status measure_ops(Trainer *t, TrainPlan *out, Err *err)
{
    OpPlan micro = {0}, update = {0};
    const TrainSetup *s = &t->setup;
    const ModelBatch b = any_batch(t);
    const ModelLossScale one = {.row = 1, .seq = 1};
    t->cx.plan = &micro;
    if (s->prec.fp8) { // the first step: scratch only
        TRY(model_gradients(&t->model, &t->cx, &b, one, true, err));
        micro = (OpPlan){.scratch_bytes = micro.scratch_bytes};
        t->fp8.started = true;
        t->fp8.cast = optimizer_writes_fp8(&t->opt);
    }
    TRY(micro_step(t, &b, one, true, err));
    const OpPlan gradients = micro;
    TRY(micro_eval(t, &b, true, err)); // scratch only
    if (trainer_scores_each(t)) {
        const void *rows, *seqs;
        TRY(model_scores(&t->model, &t->cx, &b, &rows, &seqs, err)); // scratch only
    }
    t->cx.plan = &update;
    TRY(optimizer_step(&t->opt, &t->cx, t->grads, err));
    TRY(optimizer_refresh(&t->opt, &t->cx, err));
    t->cx.plan = NULL;
    const double micros = (double)(s->samples / s->batch_size);
    out->scratch_bytes = LT_MAX(micro.scratch_bytes, update.scratch_bytes);
    out->flops_a_step = gradients.flops * micros + update.flops;
    out->matmul_flops_a_step = gradients.matmul_flops * micros;
    out->tokens_a_step = s->samples * s->block_size * t->dist.ranks;
    out->flops_a_token = gradients.flops / (double)(s->batch_size * s->block_size);
    return ERR_NONE;
}

static Status measure(Trainer *t, TrainPlan *out, Err *err)
{
    *out = (TrainPlan){0};
    arena_init_counting(&out->run, "run");
    arena_init_counting(&out->step, "step");
    arena_init_counting(&out->host, "host");
    arena_init_counting(&out->pinned, "pinned");
    TRY(carve(t, &out->run, &out->step, &out->host, &out->pinned, err));
    const Status st = measure_ops(t, out, err);
    model_free(&t->model);
    TRY(st);
    out->n_params = t->params.n_params;
    out->n_params_embedding = 0;
    for (int i = 0; i < t->params.n; i++)
        if (t->params.param[i].block == 0) out->n_params_embedding += t->params.param[i].count;
    out->total_bytes =
        out->run.used + out->step.used + out->host.used + out->pinned.used + out->scratch_bytes;
    return ERR_NONE;
}

Status train_plan(TrainPlan *out, const TrainSetup *s, const Ops *ops, Device *device, Err *err)
{
    Trainer t = {.setup = *s, .device = device};
    t.cx = (OpCtx){.ops = ops, .device = device};
    TRY(dist_open(&t.dist, err));
    TRY(params_layout(&t.params, &s->model, err));
    const Status st = measure(&t, out, err);
    params_free(&t.params);
    dist_close(&t.dist);
    return st;
}

static Status take_blocks(Trainer *t, Err *err)
{
    const TrainPlan *p = &t->plan;
    TRY_CTX(device_alloc(t->device, p->run.used, &t->run_mem, err), err,
            "taking memory for weights and optimizer");
    TRY_CTX(device_alloc(t->device, p->step.used, &t->step_mem, err), err,
            "taking memory for activations");
    TRY_CTX(device_alloc(t->device, p->scratch_bytes, &t->cx.scratch, err), err,
            "taking scratch memory");
    t->cx.scratch_bytes = p->scratch_bytes;
    TRY_CTX(device_host_alloc(t->device, p->pinned.used, &t->pinned_mem, err), err,
            "taking memory of the host");
    t->host_mem = mem_map(p->host.used);
    if (!t->host_mem) return mem_err(err, p->host.used, "the snapshot for saving");
    return ERR_NONE;
}

static Status take_memory(Trainer *t, Err *err)
{
    const TrainPlan *p = &t->plan;
    const Status st = take_blocks(t, err);
    if (st == ERR_NOMEM)
        err_hint(err, "a smaller batch_size, recompute=true or save_async=false need less; "
                      "`lathe plan` says how much");
    TRY(st);
    arena_init(&t->run, "run", t->run_mem, p->run.used);
    arena_init(&t->step_arena, "step", t->step_mem, p->step.used);
    arena_init(&t->host, "host", t->host_mem, p->host.used);
    arena_init(&t->pinned, "pinned", t->pinned_mem, p->pinned.used);
    TRY(carve(t, &t->run, &t->step_arena, &t->host, &t->pinned, err));
    arena_seal(&t->run);
    arena_seal(&t->step_arena);
    arena_seal(&t->host);
    arena_seal(&t->pinned);
    return ERR_NONE;
}

Status trainer_open(Trainer *t, const TrainSetup *s, const Ops *ops, Device *device, Err *err)
{
    ASSERT(s->samples % s->batch_size == 0, "%lld samples, micro-batches of %lld",
           (long long)s->samples, (long long)s->batch_size);
    *t = (Trainer){.setup = *s, .device = device};
    t->cx = (OpCtx){.ops = ops, .device = device};
    Status st = dist_open(&t->dist, err);
    if (st == ERR_NONE) st = params_layout(&t->params, &s->model, err);
    if (st == ERR_NONE) st = measure(t, &t->plan, err);
    if (st == ERR_NONE) st = take_memory(t, err);
    if (st == ERR_NONE && s->prec.fp8) st = fp8_reset(&t->fp8, device, err);
    if (st != ERR_NONE) trainer_close(t);
    return st;
}

// A recorded step may still be running.
static Status forget_graph(Trainer *t, Err *err)
{
    if (!t->graph) return ERR_NONE;
    const Status st = device_sync(t->device, err);
    device_graph_free(t->device, t->graph);
    t->graph = NULL;
    return st;
}

void trainer_close(Trainer *t)
{
    (void)forget_graph(t, NULL);
    if (t->run_mem) device_free(t->device, t->run_mem, t->plan.run.used);
    if (t->step_mem) device_free(t->device, t->step_mem, t->plan.step.used);
    if (t->cx.scratch) device_free(t->device, t->cx.scratch, t->plan.scratch_bytes);
    if (t->pinned_mem) device_host_free(t->device, t->pinned_mem, t->plan.pinned.used);
    mem_unmap(t->host_mem, t->plan.host.used);
    model_free(&t->model);
    params_free(&t->params);
    dist_close(&t->dist);
    *t = (Trainer){0};
}

// ---- weights ----------------------------------------------------------------------------------

// A host buffer for the flat master weights: they themselves, or memory to be uploaded.
static Status host_weights(Trainer *t, float **flat, Err *err)
{
    const size_t bytes = (size_t)t->params.total * sizeof(float);
    *flat = t->device->is_host ? t->opt.w : mem_map(bytes);
    return *flat ? ERR_NONE : mem_err(err, bytes, "weights on their way to the device");
}

static Status put_weights(Trainer *t, float *flat, Err *err)
{
    Status st = ERR_NONE;
    const size_t bytes = (size_t)t->params.total * sizeof(float);
    if (!t->device->is_host) {
        st = device_upload(t->device, t->opt.w, flat, bytes, err);
        mem_unmap(flat, bytes);
    }
    if (st == ERR_NONE) st = optimizer_refresh(&t->opt, &t->cx, err);
    return st;
}

Status trainer_set_state(Trainer *t, int64_t step, int64_t skipped, LossScale scale, Err *err)
{
    ASSERT(trainer_in_flight(t) == 0, "%d steps in flight", trainer_in_flight(t));
    t->step = step;
    t->skipped = skipped;
    t->scale = scale;
    return optimizer_start(&t->opt, t->device, step, scale, err);
}

// Step 0.
static Status set_start(Trainer *t, Err *err)
{
    const TrainSetup *s = &t->setup;
    const LossScale none = {.scale = 1};
    const LossScale first = {.scale = s->loss_scale, .left = s->rule.hysteresis};
    return trainer_set_state(t, 0, 0, s->loss_scale > 0 ? first : none, err);
}

Status trainer_init_weights(Trainer *t, Err *err)
{
    float *flat;
    TRY(host_weights(t, &flat, err));
    params_init(&t->params, flat, t->setup.seed);
    TRY(put_weights(t, flat, err));
    return set_start(t, err);
}

// model NULL: all of the folder's tensors, no others. Else see hf_load_trunk.
static Status load_tensors(const Trainer *t, const char *dir, const HfConfig *model, HfHeads *heads,
                           float *flat, Tensor *tensors, Err *err)
{
    HfConfig hf;
    params_tensors(&t->params, flat, DTYPE_F32, "", tensors);
    if (model) {
        params_init(&t->params, flat, t->setup.seed);
        return hf_load_trunk(dir, model, tensors, t->params.n, heads, err);
    }
    TRY(hf_config_read(&hf, dir, err));
    return hf_load(dir, &hf, tensors, t->params.n, err);
}

static Status load_weights(Trainer *t, const char *dir, const HfConfig *model, HfHeads *heads,
                           Err *err)
{
    Tensor *tensors = mem_calloc((size_t)t->params.n, sizeof *tensors);
    if (!tensors) return mem_err(err, (size_t)t->params.n * sizeof *tensors, "the tensor table");
    float *flat;
    Status st = host_weights(t, &flat, err);
    if (st == ERR_NONE) {
        st = load_tensors(t, dir, model, heads, flat, tensors, err);
        const Status put = put_weights(t, flat, st == ERR_NONE ? err : NULL);
        if (st == ERR_NONE) st = put;
        if (st == ERR_NONE) st = set_start(t, err);
    }
    mem_free(tensors);
    return st;
}

Status trainer_load_model(Trainer *t, const char *dir, Err *err)
{
    return load_weights(t, dir, NULL, NULL, err);
}

Status trainer_load_trunk(Trainer *t, const char *dir, const HfConfig *model, HfHeads *heads,
                          Err *err)
{
    return load_weights(t, dir, model, heads, err);
}

// ---- the step ---------------------------------------------------------------------------------

Status trainer_put(Trainer *t, const StreamBatch *b, Err *err)
{
    const TrainSetup *s = &t->setup;
    const ModelBatch host = {.B = b->samples,
                             .T = s->block_size,
                             .input = b->input,
                             .target = b->target,
                             .position = b->position,
                             .seg_lo = b->seg_lo,
                             .sample = b->sample,
                             .type = b->type,
                             .seg_hi = b->seg_hi,
                             .picks = b->picks,
                             .pick_row = b->pick_row,
                             .pick_target = b->pick_target,
                             .seqs = b->seqs,
                             .seq_row = b->seq_row,
                             .seq_target = b->seq_target,
                             .span_target = b->span_target};
    ASSERT(!t->batch.position || (b->position && b->seg_lo), "the stream gives no positions");
    ASSERT(!t->batch.type || (b->type && b->seg_hi), "the stream gives no token types");
    ASSERT(b->picks == s->picks && b->seqs == s->seqs, "%lld picks and %lld sequences in a sample",
           (long long)b->picks, (long long)b->seqs);
    return batch_put(&t->batch, t->device, &host, err);
}

// The step itself, on what trainer_begin has sent; nothing is waited for.
static Status queue_step(Trainer *t, ModelLossScale scale, Err *err)
{
    const TrainSetup *s = &t->setup;
    for (int64_t i = 0; i < s->samples; i += s->batch_size) {
        const ModelBatch m = batch_part(&t->batch, i, s->batch_size);
        TRY(micro_step(t, &m, scale, i == 0, err));
    }
    TRY(dist_sum_grads(&t->dist, &t->cx, t->grads, t->params.total, err));
    TRY(dist_sum_device(&t->dist, &t->cx, t->opt.loss, 1, err));
    TRY(dist_sum_device(&t->dist, &t->cx, t->sum_seqs, 1, err));
    return optimizer_step(&t->opt, &t->cx, t->grads, err);
}

// All that changes from step to step is in device memory, but for the numbers of counted targets.
static Status record_step(Trainer *t, ModelLossScale scale, Err *err)
{
    DeviceGraph *g = NULL;
    TRY(forget_graph(t, err));
    TRY(device_record(t->device, err));
    const Status st = queue_step(t, scale, err);
    const Status end = device_record_end(t->device, &g, st == ERR_NONE ? err : NULL);
    t->graph = g;
    t->graph_scale = scale;
    return st == ERR_NONE ? end : st;
}

// The first steps are not recorded: kernels are loaded and chosen in them. Nor is one that makes
// the FP8 weights that the next ones get from the update.
static Status run_step(Trainer *t, ModelLossScale scale, Err *err)
{
    const bool casts = optimizer_writes_fp8(&t->opt) && !t->fp8.cast;
    if (!t->setup.graph || !t->warm || casts) return queue_step(t, scale, err);
    const bool same = t->graph_scale.row == scale.row && t->graph_scale.seq == scale.seq;
    if (!t->graph || !same) TRY(record_step(t, scale, err));
    return device_replay(t->device, t->graph, err);
}

int trainer_in_flight(const Trainer *t)
{
    return (int)(t->begun - t->ended);
}

const TrainCounts *trainer_next(const Trainer *t)
{
    ASSERT(trainer_in_flight(t) > 0, "no step in flight");
    return &t->n[t->ended % 2];
}

static Status count(const Trainer *t, const StreamBatch *b, TrainCounts *n, Err *err)
{
    int64_t all[] = {learns_rows(t) ? b->counted : 0, learns_sequences(t) ? b->counted_seqs : 0,
                     b->tokens, b->sequences};
    TRY(dist_sum_i64(&t->dist, all, LT_COUNT(all), err));
    *n = (TrainCounts){.rows = all[0], .seqs = all[1], .tokens = all[2], .sequences = all[3]};
    return ERR_NONE;
}

// Targets of the loss without which a step is none.
static int64_t counted(const Trainer *t, const TrainCounts *n)
{
    return learns_rows(t) ? n->rows : n->seqs;
}

static float one_of(int64_t n)
{
    return n ? (float)(1.0 / (double)n) : 0;
}

Status trainer_begin(Trainer *t, const StreamBatch *b, Err *err)
{
    const TrainSetup *s = &t->setup;
    const int slot = (int)(t->begun % 2);
    TrainCounts *n = &t->n[slot];
    ASSERT(b->samples == s->samples, "%lld samples, a step has %lld", (long long)b->samples,
           (long long)s->samples);
    ASSERT(trainer_in_flight(t) < 2, "%d steps in flight", trainer_in_flight(t));
    TRY(count(t, b, n, err));
    t->begun++;
    if (counted(t, n) == 0) return ERR_NONE;
    // The step in flight counts, or it does not.
    const double lr[2] = {schedule_at(&s->schedule, t->step),
                          schedule_at(&s->schedule, t->step + 1)};
    TRY(optimizer_rates(&t->opt, t->device, t->step, lr, err));
    TRY(trainer_put(t, b, err));
    TRY(run_step(t, (ModelLossScale){.row = one_of(n->rows), .seq = one_of(n->seqs)}, err));
    TRY(device_download_later(t->device, &t->gate_host[slot], t->opt.gate, sizeof *t->gate_host,
                              err));
    TRY(device_download_later(t->device, &t->seqs_host[slot], t->sum_seqs, sizeof(double), err));
    return device_mark(t->device, slot, err);
}

// Means of two sums of losses, and the sum of these.
static void means(double sum_rows, double sum_seqs, const TrainCounts *n, double *rows,
                  double *seqs, double *both)
{
    *rows = n->rows ? sum_rows / (double)n->rows : (double)NAN;
    *seqs = n->seqs ? sum_seqs / (double)n->seqs : (double)NAN;
    *both = !n->seqs ? *rows : !n->rows ? *seqs : *rows + *seqs;
}

// Whose gradient is this element of the flat buffer?
static const char *name_at(const ParamSet *p, int64_t i)
{
    for (int k = 0; k < p->n; k++)
        if (i >= p->param[k].offset && i < p->param[k].offset + p->param[k].count)
            return p->param[k].name;
    return NULL;
}

Status trainer_end(Trainer *t, TrainStep *out, Err *err)
{
    const TrainSetup *s = &t->setup;
    const int slot = (int)(t->ended % 2);
    ASSERT(trainer_in_flight(t) > 0, "no step in flight");
    *out = (TrainStep){.loss = NAN,
                       .loss_rows = NAN,
                       .loss_seqs = NAN,
                       .n = t->n[slot],
                       .counted = counted(t, &t->n[slot]),
                       .lr = schedule_at(&s->schedule, t->step),
                       .loss_scale = s->loss_scale > 0 ? (double)t->scale.scale : 0};
    t->ended++;
    if (out->counted == 0) {
        out->skipped = true;
        t->skipped++;
        return ERR_NONE;
    }
    TRY(device_wait(t->device, slot, err));
    const StepGate *g = &t->gate_host[slot];
    const double of_seqs = out->n.seqs ? t->seqs_host[slot] : 0;
    means(g->loss - of_seqs, of_seqs, &out->n, &out->loss_rows, &out->loss_seqs, &out->loss);
    out->grad_norm = g->norm;
    out->skipped = g->skip;
    out->bad = g->bad >= 0 ? name_at(&t->params, g->bad) : NULL;
    out->overflow = g->skip && isfinite(out->loss) && out->loss_scale > 1;
    t->skipped += g->skip;
    t->step += !g->skip;
    ASSERT(t->step == g->t, "step %lld here, %lld on the device", (long long)t->step,
           (long long)g->t);
    t->scale = g->scale;
    if (!g->skip) t->fp8.started = true;
    t->warm |= !g->skip;
    return ERR_NONE;
}

Status trainer_step(Trainer *t, const StreamBatch *b, TrainStep *out, Err *err)
{
    ASSERT(trainer_in_flight(t) == 0, "%d steps in flight", trainer_in_flight(t));
    TRY(trainer_begin(t, b, err));
    return trainer_end(t, out, err);
}

Status trainer_eval(Trainer *t, Stream *val, int64_t batches, TrainEval *out, Err *err)
{
    double sum[EVAL_SUMS] = {0};
    TrainCounts n = {0};
    ASSERT(trainer_in_flight(t) == 0, "%d steps in flight", trainer_in_flight(t));
    TRY(stream_seek(val, 0, err));
    for (int64_t i = 0; batches == 0 || i < batches; i++) {
        StreamBatch b;
        if (stop_requested()) return err_set(err, ERR_STOPPED, "told to stop");
        TRY(stream_next(val, &b, err));
        if (b.samples == 0) break;
        TRY(trainer_put(t, &b, err));
        for (int64_t k = 0; k < b.samples; k += t->setup.batch_size) {
            const int64_t B = LT_MIN(t->setup.batch_size, b.samples - k);
            const ModelBatch m = batch_part(&t->batch, k, B);
            TRY(micro_eval(t, &m, i == 0 && k == 0, err));
        }
        TrainCounts more;
        TRY(count(t, &b, &more, err));
        n.rows += more.rows;
        n.seqs += more.seqs;
        n.tokens += more.tokens;
        n.sequences += more.sequences;
    }
    const int sums = t->setup.model.head == HEAD_LM ? 1 : EVAL_SUMS;
    if (n.tokens)
        TRY(device_download(t->device, sum, t->sum_eval, (size_t)sums * sizeof *sum, err));
    TRY(dist_sum_f64(&t->dist, sum, sums, err));
    *out = (TrainEval){.accuracy_rows = sums > 1 && n.rows ? sum[2] / (double)n.rows : (double)NAN,
                       .accuracy_seqs = sums > 1 && n.seqs ? sum[3] / (double)n.seqs : (double)NAN,
                       .n = n,
                       .counted = counted(t, &n)};
    means(sum[0], sum[1], &n, &out->loss_rows, &out->loss_seqs, &out->loss);
    return ERR_NONE;
}

Status trainer_probe(Trainer *t, double *flops_a_second, Err *err)
{
    // The first MLP product of the model, on whatever the buffers hold.
    const ModelConfig *c = &t->setup.model;
    const DType act = t->setup.prec.act;
    const int64_t N = t->setup.batch_size * t->setup.block_size;
    const Param *p = NULL;
    for (int i = 0; i < t->params.n && !p; i++)
        if (t->params.param[i].shape[0] == c->n_inner && t->params.param[i].rank == 2)
            p = &t->params.param[i];
    ASSERT(p, "no MLP weight");
    const MatmulArgs a = {.C = t->model.dwide,
                          .A = t->model.tmp,
                          .B = (char *)optimizer_weights(&t->opt) +
                               (size_t)p->offset * dtype_bytes(t->setup.prec.param),
                          .M = N,
                          .N = c->n_inner,
                          .K = c->n_embd,
                          .lda = c->n_embd,
                          .ldb = c->n_embd,
                          .ldc = c->n_inner,
                          .trans_b = true,
                          .ab_dtype = act,
                          .c_dtype = act};
    double best = INFINITY, spent = 0;
    for (int i = 0; i < 50 && (i < 2 || spent < 0.05); i++) {
        const double start = clock_seconds();
        TRY(op_matmul(&t->cx, &a, err));
        TRY(device_sync(t->device, err));
        const double took = clock_seconds() - start;
        spent += took;
        best = LT_MIN(best, took);
    }
    *flops_a_second = matmul_flops(&a) / best;
    return ERR_NONE;
}
