// evaluate.h -- how good a model is: loss on tokens, multiple choice, last words; of a BERT, losses
// and accuracies of its pretraining.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/on_progress.h"
#include "engine/data/stream.h"
#include "engine/generate/loaded.h"
#include "engine/model/batch.h"
#include "engine/model/model.h"
#include "tokenizer/tokenizer.h"

typedef struct Evaluator { // a model with room for batches, forward only
    const Loaded *m;       // borrowed
    OnProgress on;         // hears what is done: tokens, or bytes of a file of questions
    OpCtx cx;
    Model model;
    int64_t batch, block;
    int64_t picks, seqs; // BERT: of a sample
    void *mem, *host_mem;
    size_t mem_bytes, host_bytes;
    Batch in;
    int64_t *sample;  // [batch] host: numbers that nothing depends on
    float *loss;      // [batch*block] host
    void *logits_row; // [Vp] host, activation type
} Evaluator;

typedef struct EvalLoss {
    double nats;     // sum of the counted losses
    int64_t counted; // targets
    double bytes;    // of text the targets stand for; 0: not known
    // BERT: how many of these score highest; and the same of sequences
    double hits, nats_seqs, hits_seqs;
    int64_t counted_seqs, sequences;
} EvalLoss;

typedef struct EvalChoices {
    int64_t n, right_sum, right_mean; // by summed and by mean log-probability of the ending
} EvalChoices;

typedef struct EvalLastWord {
    int64_t n, right; // greedy decoding writes exactly the word
    double nats;      // sum over words
} EvalLastWord;

LT_C_BEGIN
// picks, seqs: of a sample of data for BERT, as the stream has them; 0 for others.
LT_MUST_CHECK Status evaluator_open(Evaluator *e, const Loaded *m, Backend *backend, int64_t batch,
                                    int64_t block, int64_t picks, int64_t seqs, Err *err);
void evaluator_close(Evaluator *e); // also of a zeroed one

// A validation stream of e->block tokens; `batches` of e->batch samples at most, 0: all.
LT_MUST_CHECK Status evaluate_stream(Evaluator *e, Stream *s, int64_t batches, EvalLoss *out,
                                     Err *err);
// Text in windows of e->block tokens without overlap; every token but the first is counted.
LT_MUST_CHECK Status evaluate_text(Evaluator *e, const Tokenizer *t, const char *text, size_t bytes,
                                   int threads, EvalLoss *out, Err *err);
// A jsonl file of {"context" (or "ctx"): text, "endings": [text, ...], "label": index}.
LT_MUST_CHECK Status evaluate_choices(Evaluator *e, const Tokenizer *t, const char *path,
                                      EvalChoices *out, Err *err);
// A jsonl file of {"text": text}; the word behind the last space is to be predicted.
LT_MUST_CHECK Status evaluate_lastword(Evaluator *e, const Tokenizer *t, const char *path,
                                       EvalLastWord *out, Err *err);
LT_C_END
