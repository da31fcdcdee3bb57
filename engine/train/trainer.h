// trainer.h -- everything a training step touches, and the step.
//
//   TrainSetup   decided from options, data and checkpoints before memory is taken
//   TrainPlan    what a setup costs: memory by part, FLOPs; made by the code that trains, on
//                counting arenas (`lathe plan` prints it for shapes no machine here could hold)
//   Trainer      the memory itself, and the step counter
//
// One step takes a StreamBatch of `samples` samples, cuts it into micro-batches of batch_size,
// accumulates gradients, and updates once. The loss is the true token mean: the sum over all
// counted targets of all micro-batches and ranks, divided once. A step whose loss or gradient norm
// is not finite, or that has no counted target, is skipped: weights, moments, schedule and t stay.
//
// BERT has two losses, each with its own mean, and learns their sum: of rows (masked tokens, tags,
// spans) and of sequences (the next sentence, a label). What the model's head does not have is not
// there. A step without a single masked token has no mean of them: it is skipped.
//
// A step is begun and ended. trainer_begin queues all of it, the update too: the device decides by
// itself whether the step counts (optimizer.h). trainer_end waits for the step and reads what
// became of it. A second step may be begun before the first one is ended, so that a GPU never waits
// for the host:
//
//     host   begin 1 | begin 2 | end 1 | begin 3 | end 2 | ...
//     GPU             step 1 ......... | step 2 ......... | step 3 ...
//
// With a step in flight the weights are of no definite step: end it before they are looked at.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "checkpoints/hf.h"
#include "engine/base/arena.h"
#include "engine/config/options.h"
#include "engine/data/stream.h"
#include "engine/dist/dist.h"
#include "engine/model/batch.h"
#include "engine/model/model.h"
#include "engine/train/optimizer.h"
#include "engine/train/schedule.h"

typedef struct TrainSetup {
    ModelConfig model;
    Precision prec;
    Fp8Recipe fp8; // with prec.fp8
    Schedule schedule;
    int64_t block_size; // T
    int64_t batch_size; // B of a micro-batch
    int64_t samples;    // of a step, on this rank; a multiple of batch_size
    int64_t picks;      // BERT: of a sample, as the stream has them
    int64_t seqs;       // BERT: of a sample
    int64_t head_rows;
    bool recompute;
    bool document_mask; // positions and segments come with the batch
    bool snapshot;      // saving runs beside training
    bool graph;         // record a step once, replay it from then on; the device must have graphs
    bool lamb;          // the optimizer is LAMB, not AdamW
    double beta1, beta2, eps, weight_decay, grad_clip;
    float loss_scale;   // at the start; 0: the loss is not scaled
    LossScaleRule rule; // with a loss scale
    uint64_t seed;
} TrainSetup;

typedef struct TrainPlan {
    Arena run, step, host, pinned; // counting arenas: parts and sizes
    size_t scratch_bytes;
    size_t total_bytes;
    int64_t n_params, n_params_embedding;
    int64_t tokens_a_step;
    double flops_a_token; // forward and backward, attention included
    double flops_a_step, matmul_flops_a_step;
} TrainPlan;

typedef struct TrainCounts { // of a step or an evaluation, over all ranks
    int64_t rows;            // targets of rows that count
    int64_t seqs;            // targets of sequences that count
    int64_t tokens;          // of text: padding is none
    int64_t sequences;       // BERT: that begin
} TrainCounts;

typedef struct TrainStep { // what a step did
    double loss;           // of rows + of sequences, NaN when no target is counted
    double loss_rows;      // mean over the counted ones; NaN when there are none
    double loss_seqs;
    double grad_norm; // before clipping
    double lr;
    double loss_scale; // that the step had, 0: none
    TrainCounts n;
    int64_t counted; // of the loss that must be there: of rows, or of sequences
    bool skipped;
    bool overflow;   // skipped, but the loss is finite and its scale comes down for it
    const char *bad; // skipped: the first parameter with a gradient that is not finite, or NULL
} TrainStep;

typedef struct TrainEval {               // what is not there is NaN
    double loss, loss_rows, loss_seqs;   // as of a step
    double accuracy_rows, accuracy_seqs; // share of counted targets that score highest; BERT
    TrainCounts n;
    int64_t counted;
} TrainEval;

typedef struct Trainer {
    TrainSetup setup;
    TrainPlan plan;
    ParamSet params;
    Optimizer opt;
    Fp8State fp8; // with setup.prec.fp8; the model points to it
    Model model;
    OpCtx cx;
    Device *device; // borrowed
    Dist dist;
    Arena run, step_arena, host, pinned;
    void *run_mem, *step_mem, *host_mem, *pinned_mem;
    float *grads;
    Batch batch;
    double *sum_seqs;                // one, device: a step's losses of sequences
    double *sum_eval;                // [4], device: an evaluation's losses and hits
    StepGate *gate_host;             // [2] pinned: on their way from the device
    double *seqs_host;               // [2] pinned: likewise
    float *snap_w, *snap_m, *snap_v; // [total] host; NULL without snapshot
    TrainCounts n[2];                // of the steps in flight
    int64_t begun, ended;            // steps
    bool warm;                       // one has counted: the next ones are like it
    DeviceGraph *graph;              // a recorded step, NULL: none yet
    ModelLossScale graph_scale;      // that it was recorded with
    int64_t step;                    // optimizer steps done
    int64_t skipped;                 // steps skipped so far
    LossScale scale;                 // after the last step that was ended
} Trainer;

LT_C_BEGIN
// Measure. `ops` must be open: scratch depends on the kernels. Touches no tensor memory.
LT_MUST_CHECK Status train_plan(TrainPlan *out, const TrainSetup *s, const Ops *ops, Device *device,
                                Err *err);
// Take the memory; weights are zero. `ops` and `device` are borrowed until trainer_close.
LT_MUST_CHECK Status trainer_open(Trainer *t, const TrainSetup *s, const Ops *ops, Device *device,
                                  Err *err);
void trainer_close(Trainer *t); // also of a zeroed one

// Weights from the initialisation, step 0.
LT_MUST_CHECK Status trainer_init_weights(Trainer *t, Err *err);
// Weights from a model folder (fine-tuning), step 0.
LT_MUST_CHECK Status trainer_load_model(Trainer *t, const char *dir, Err *err);
// The same of a BERT's folder with other heads than `model`'s, the trainer's: what the folder lacks
// is initialised.
LT_MUST_CHECK Status trainer_load_trunk(Trainer *t, const char *dir, const HfConfig *model,
                                        HfHeads *heads, Err *err);

// See above; at most two steps are in flight.
LT_MUST_CHECK Status trainer_begin(Trainer *t, const StreamBatch *b, Err *err);
LT_MUST_CHECK Status trainer_end(Trainer *t, TrainStep *out, Err *err);
int trainer_in_flight(const Trainer *t);
const TrainCounts *trainer_next(const Trainer *t); // of the step that would be ended next
// Both; none may be in flight.
LT_MUST_CHECK Status trainer_step(Trainer *t, const StreamBatch *b, TrainStep *out, Err *err);
// `step` updates are done, `skipped` steps were skipped, and that is the loss scale.
LT_MUST_CHECK Status trainer_set_state(Trainer *t, int64_t step, int64_t skipped, LossScale scale,
                                       Err *err);
// Losses and accuracies over up to `batches` micro-batches (0: until the stream ends) from `val`,
// which starts at its beginning. Touches nothing that training reads. A signal gives it up:
// ERR_STOPPED.
LT_MUST_CHECK Status trainer_eval(Trainer *t, Stream *val, int64_t batches, TrainEval *out,
                                  Err *err);
// BERT, fine-tuning (trainer_scores.c): logits of a batch's samples as f32, in host memory:
// [samples,labels], [samples,picks,labels] of tags, [samples,T,2] of the ends of answers.
LT_MUST_CHECK Status trainer_scores(Trainer *t, const StreamBatch *b, float *logits, Err *err);
// How many these are of one sample; 0: the model has no such head.
int64_t trainer_scores_each(const Trainer *t);
// A batch to the device; for trainer_scores.
LT_MUST_CHECK Status trainer_put(Trainer *t, const StreamBatch *b, Err *err);
// Rate of the matrix kernels, FLOP/s, from a few products of the model's own size (takes ~50 ms).
LT_MUST_CHECK Status trainer_probe(Trainer *t, double *flops_a_second, Err *err);
LT_C_END
