// trainer_scores.c -- what the model in training says of examples; see trainer.h.
//
// SPDX-License-Identifier: MIT
#include "engine/base/mem.h"
#include "engine/train/trainer.h"

int64_t trainer_scores_each(const Trainer *t)
{
    const TrainSetup *s = &t->setup;
    switch (s->model.head) {
    case HEAD_CLASSIFY: return s->model.n_labels;
    case HEAD_TAG: return s->picks * s->model.n_labels;
    case HEAD_QA: return 2 * s->block_size;
    default: return 0;
    }
}

static Status micro_scores(Trainer *t, int64_t first, int64_t B, void *raw, float *to, Err *err)
{
    const ModelBatch m = batch_part(&t->batch, first, B);
    const int64_t n = B * trainer_scores_each(t);
    const DType act = t->setup.prec.act;
    const void *rows, *seqs;
    TRY(model_scores(&t->model, &t->cx, &m, &rows, &seqs, err));
    TRY(device_download(t->device, raw, t->setup.model.head == HEAD_CLASSIFY ? seqs : rows,
                        (size_t)n * dtype_bytes(act), err));
    for (int64_t i = 0; i < n; i++) to[i] = dtype_load(raw, act, i);
    return ERR_NONE;
}

Status trainer_scores(Trainer *t, const StreamBatch *b, float *logits, Err *err)
{
    const int64_t each = trainer_scores_each(t), most = t->setup.batch_size;
    const size_t bytes = (size_t)(most * each) * dtype_bytes(t->setup.prec.act);
    void *raw = mem_alloc(bytes);
    Status st = raw ? trainer_put(t, b, err) : mem_err(err, bytes, "logits of a batch");
    for (int64_t k = 0; k < b->samples && st == ERR_NONE; k += most)
        st = micro_scores(t, k, LT_MIN(most, b->samples - k), raw, logits + k * each, err);
    mem_free(raw);
    return st;
}
