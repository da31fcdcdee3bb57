// predict.h -- a BERT at work: logits of labelled or unlabelled examples, embeddings of texts.
//
// Rows of a batch are as long as its longest sample. So samples are taken in the order of their
// lengths, and short texts are not padded to the length of long ones.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/on_progress.h"
#include "engine/data/verdict.h"
#include "engine/generate/loaded.h"
#include "engine/model/batch.h"

enum { PREDICT_CHUNK = 512 }; // samples that are in memory at one time

typedef enum PredictWhat {
    PREDICT_LOGITS = 0, // see judge_logits
    PREDICT_MEAN, // embedding: the mean of the trunk's output over the tokens, [CLS] and [SEP]
                  // among them
    PREDICT_CLS   // embedding: the trunk's output at the first token
} PredictWhat;

typedef struct Predictor { // a model with room for batches, forward only
    const Loaded *m;       // borrowed
    OpCtx cx;
    Model model;
    Batch batch;
    int64_t samples, block; // of a batch, of a sample: at most
    void *mem, *host_mem;
    size_t mem_bytes, host_bytes;
    ExampleRow rows; // host, the first sample's
    int64_t *sample; // [samples] host
    void *raw;       // host: what came from the device
    float *out;      // of the samples of the newest predictor_run, one after another
    int64_t *at;     // [n + 1] where each begins, and the end
    int64_t *order;  // [n] by length
    int64_t cap_out, cap_at;
} Predictor;

LT_C_BEGIN
// What a model was made for. ERR_USAGE: it has no labels and gives no answers; the hint says how it
// could.
LT_MUST_CHECK Status predict_task(const Loaded *m, ExampleTask *task, Err *err);
// The model's map of labels.
void predict_labels(const Loaded *m, Labels *out);

LT_MUST_CHECK Status predictor_open(Predictor *p, const Loaded *m, Backend *backend,
                                    int64_t samples, int64_t block, Err *err);
void predictor_close(Predictor *p); // also of a zeroed one
// Samples first .. first + n of e into p->out; j says how many logits each has.
LT_MUST_CHECK Status predictor_run(Predictor *p, const Judge *j, int64_t first, int64_t n,
                                   PredictWhat what, Err *err);
// All of the labelled examples e. `on` (or NULL) hears the samples done, and how many there are.
LT_MUST_CHECK Status predictor_score(Predictor *p, const Examples *e, const OnProgress *on,
                                     Score *out, Err *err);
LT_C_END
