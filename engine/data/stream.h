// stream.h -- training samples as a pure function of (seed, epoch, global sample index).
//
//     sample index   0    1    2    3    4    5    6    7  ...      (over all epochs)
//     2 ranks        r0   r0   r1   r1   r0   r0   r1   r1          2 ranks, 4 samples a step
//
// so a run can stop on 8 ranks and go on with 4, change its micro-batch or its shards' sizes, and
// still see each sample once. A sample is block_size + 1 consecutive tokens with stride block_size:
// every token but the first of the stream is a target once an epoch; a tail shorter than a block is
// dropped (and counted in StreamInfo). A skipped optimizer step advances the position all the same.
//
// Invariants
//   (1) stream_tell() is the number of samples handed out over ALL ranks; stream_seek() of it gives
//       the same next batch.
//   (2) A shard is opened only after its size matched its header (else ERR_FORMAT).
//   (3) Every id is below the vocabulary size that was asked for (else ERR_FORMAT, with the place).
//
// Threads: one prefetch thread, started by open, joined by close. The calls are for one caller
// thread. An error in the prefetch thread comes out of the next stream_next.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/err.h"
#include "engine/base/token.h"

typedef struct Stream Stream;

typedef enum StreamSplit { STREAM_TRAIN = 0, STREAM_VAL } StreamSplit;

// What the model reads; data of another kind is refused.
typedef enum StreamContent {
    STREAM_TOKENS = 0, // windows of a run of tokens
    STREAM_PAIRS,      // pairs of segments, masked: BERT
    STREAM_EXAMPLES    // labelled examples, of o->examples and not of o->data
} StreamContent;

typedef struct StreamOptions {
    const char *data;      // DIR, or DIR:WEIGHT,DIR:WEIGHT,...  borrowed during open
    StreamContent content;
    StreamSplit split;
    int64_t     block_size; // T
    int64_t     batch;      // samples a call of stream_next returns (this rank's share of a step)
    int         rank, ranks;
    uint64_t    seed;
    bool        shuffle;        // validation: off; each source in order, all evenly interleaved
    bool        document_mask;  // see StreamBatch
    bool        completion_only; // loss.mask=completion: count the loss on completions only
    int64_t     vocab_size;     // of the model; 0: not checked

    // Pairs. Without shuffle the masks are those of seed 0 and epoch 0: every evaluation sees the
    // same ones.
    int64_t     pack;            // most sequences in a sample; 0 is 1
    double      mask_prob;       // share of a sequence's tokens that are predicted
    int64_t     max_predictions; // in a sample; 0: mask_prob of block_size, and 1 a sequence
    bool        whole_word;      // words are masked with all of their tokens

    const struct ExampleView *examples; // STREAM_EXAMPLES: must outlive the stream
} StreamOptions;

typedef struct StreamBatch { // owned by the Stream, valid until the next stream_next
    int64_t        samples;  // S: `batch`, or fewer at the end of a validation pass
    const int32_t *input;    // [S,T]
    const int32_t *target;   // [S,T]  TOKEN_IGNORE where nothing is to be predicted
    const int32_t *position; // [S,T]  restarting at each document; NULL without document_mask
    const int32_t *seg_lo;   // [S,T]  row where the own document begins; NULL without document_mask
    const int64_t *sample;   // [S]    global sample index
    int64_t        counted;  // targets that are not TOKEN_IGNORE
    int64_t        tokens;   // of text: padding is none

    // BERT pairs and labelled examples; NULL and 0 otherwise. Then target is NULL and counted is
    // that of pick_target (of span_target, where there is one). Rows count in their own sample.
    const int32_t *type;        // [S,T] token types
    const int32_t *seg_hi;      // [S,T] one past the own sequence; padding: seg_lo == seg_hi
    int64_t        picks;       // P: most predicted rows of a sample
    const int32_t *pick_row;    // [S,P] 0..T-1, -1: none
    const int32_t *pick_target; // [S,P] TOKEN_IGNORE: not counted
    int64_t        seqs;        // Q: most sequences in a sample
    const int32_t *seq_row;     // [S,Q] first row of a sequence, -1: none
    const int32_t *seq_target;  // [S,Q] next sentence (0: it is, 1: it is not) or label
    const int32_t *span_target; // [S,2] question answering: first and last row of the answer
    int64_t        counted_seqs; // seq_targets that are not TOKEN_IGNORE
    int64_t        sequences;    // that begin in the batch: the samples of MLPerf
} StreamBatch;

typedef struct StreamInfo {
    int64_t  tokens;           // in the split
    int64_t  documents;
    int64_t  samples_an_epoch;
    int64_t  dropped_tokens;   // tail shorter than a block
    int64_t  sequences;        // pairs: in the samples of an epoch; else 0
    int64_t  picks, seqs;      // pairs: StreamBatch's of every batch; else 0
    int64_t  max_seq_length;   // pairs: tokens of one at most; else 0
    int64_t  vocab_size;       // the tokenizer's, 0 when the files do not say
    uint64_t tokenizer;        // fingerprint, 0 when the files do not say
    double   bytes_per_token;  // of the split's text, 0 when the files do not say
    char     tokenizer_dir[4096]; // the tokenizer stored with the data, "" when there is none
} StreamInfo;

LT_C_BEGIN
// On failure *out is NULL. All memory is taken now.
LT_MUST_CHECK Status stream_open(Stream **out, const StreamOptions *o, Err *err);
// What the files say of a split, and no samples: block_size, batch and content need not be known.
// Counts of samples, sequences and picks are 0.
LT_MUST_CHECK Status stream_facts(StreamInfo *out, const StreamOptions *o, Err *err);
// StreamBatch's picks for pairs, from the options alone.
int64_t stream_picks(const StreamOptions *o);
// The next batch. A validation stream (shuffle off) ends after one epoch: then samples == 0.
LT_MUST_CHECK Status stream_next(Stream *s, StreamBatch *out, Err *err);
LT_MUST_CHECK Status stream_seek(Stream *s, int64_t global_samples, Err *err);
int64_t              stream_tell(const Stream *s);
void                 stream_info(const Stream *s, StreamInfo *out);
void                 stream_close(Stream *s); // NULL is fine
LT_C_END
