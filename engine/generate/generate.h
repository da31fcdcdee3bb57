// generate.h -- text that continues a prompt.
//
// When the context is full, the older half of it is forgotten and the newer half read again; the
// text goes on without a limit.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/on_progress.h"
#include "engine/generate/infer.h"
#include "engine/generate/sampler.h"
#include "tokenizer/tokenizer.h"

typedef struct GenerateOptions {
    int64_t max_new_tokens, num_samples, top_k;
    double temperature, top_p;
    uint64_t seed;
    int32_t end_token;   // stop there; -1: never
    OnProgress on;       // hears tokens written, of how many at most
    int32_t start_token; // what an empty prompt begins with
} GenerateOptions;

// Called with complete pieces of text as they come; `text` counts the samples; end: the text is
// over (bytes == 0). Returns an error to stop.
typedef Status (*GenerateSink)(void *arg, int64_t text, const char *bytes, size_t n, bool end,
                               Err *err);

LT_C_BEGIN
LT_MUST_CHECK Status generate_text(Infer *f, const Tokenizer *t, const GenerateOptions *o,
                                   const TokenIds *prompt, GenerateSink sink, void *arg, Err *err);
LT_C_END
