// finetune_eval.c -- how well the model in training does; see finetune.h.
//
// SPDX-License-Identifier: MIT
#include "engine/base/mem.h"
#include "engine/base/stop.h"
#include "engine/train/finetune.h"

#include <math.h>

static Status judge_batch(const Finetune *f, Judge *j, const StreamBatch *b, const float *logits,
                          int64_t each, Score *score, Err *err)
{
    for (int64_t i = 0; i < b->samples; i++) {
        const int64_t sample = f->val_view.sample[b->sample[i]]; // in order: not shuffled
        TRY(score_sample(score, j, sample, logits + i * each, err));
    }
    return ERR_NONE;
}

static Status judge_all(const Finetune *f, Trainer *t, Stream *val, int64_t batches, Judge *j,
                        float *logits, Score *score, TrainEval *out, Err *err)
{
    const int64_t each = trainer_scores_each(t);
    TRY(stream_seek(val, 0, err));
    for (int64_t i = 0; batches == 0 || i < batches; i++) {
        StreamBatch b;
        if (stop_requested()) return err_set(err, ERR_STOPPED, "told to stop");
        TRY(stream_next(val, &b, err));
        if (b.samples == 0) break;
        TRY(trainer_scores(t, &b, logits, err));
        TRY(judge_batch(f, j, &b, logits, each, score, err));
        out->n.tokens += b.tokens;
        out->n.sequences += b.sequences;
    }
    return ERR_NONE;
}

Status finetune_eval(const Finetune *f, Trainer *t, Stream *val, int64_t batches, TrainEval *out,
                     Score *score, Err *err)
{
    Judge j;
    const Examples *e = f->val_view.of;
    const size_t bytes = (size_t)(t->setup.batch_size * trainer_scores_each(t)) * sizeof(float);
    float *logits = mem_alloc(bytes);
    if (!logits) return mem_err(err, bytes, "logits of a batch");
    *out = (TrainEval){.loss_rows = (double)NAN,
                       .loss_seqs = (double)NAN,
                       .accuracy_rows = (double)NAN,
                       .accuracy_seqs = (double)NAN};
    judge_open(&j, e, (int)t->setup.model.n_labels);
    score_init(score, e);
    const Status st = judge_all(f, t, val, batches, &j, logits, score, out, err);
    out->loss = score_mean_loss(score);
    out->counted = score->counted;
    judge_close(&j);
    mem_free(logits);
    return st;
}
