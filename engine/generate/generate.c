// generate.c -- see generate.h.
//
// SPDX-License-Identifier: MIT
#include "engine/generate/generate.h"

typedef struct Writer { // one text on its way out
    const Tokenizer *t;
    GenerateSink sink;
    void *arg;
    Buf pending, piece;
} Writer;

static Status write_token(Writer *w, int64_t text, int32_t id, Err *err)
{
    buf_clear(&w->piece);
    TRY(tokenizer_decode_stream(w->t, id, &w->pending, &w->piece, err));
    return w->piece.len ? w->sink(w->arg, text, w->piece.data, w->piece.len, false, err) : ERR_NONE;
}

// What was cut off in the middle of a character comes out as it is.
static Status write_end(Writer *w, int64_t text, Err *err)
{
    if (w->pending.len) TRY(w->sink(w->arg, text, w->pending.data, w->pending.len, false, err));
    buf_clear(&w->pending);
    return w->sink(w->arg, text, "", 0, true, err);
}

// Read the end of `ids` into the cache: all of it if it fits, else the newest half of a full
// context.
static Status read_context(Infer *f, const TokenIds *ids, const float **logits, Err *err)
{
    const int64_t n = ids->n < f->max_tokens ? ids->n : (f->max_tokens + 1) / 2;
    infer_rewind(f, 0);
    return infer_append(f, ids->id + ids->n - n, n, logits, err);
}

static Status one_text(Infer *f, Sampler *s, const GenerateOptions *o, Writer *w, TokenIds *ids,
                       int64_t text, Err *err)
{
    const float *logits;
    TRY(read_context(f, ids, &logits, err));
    for (int64_t i = 0; i < o->max_new_tokens; i++) {
        int32_t id;
        TRY(sampler_draw(s, logits, text, i, &id, err));
        if (id == o->end_token) break;
        TRY(write_token(w, text, id, err));
        TRY(token_ids_push(ids, id, err));
        on_progress(&o->on, (double)(text * o->max_new_tokens + i + 1),
                    (double)(o->num_samples * o->max_new_tokens));
        if (i + 1 == o->max_new_tokens) break;
        if (f->pos < f->max_tokens)
            TRY(infer_append(f, &id, 1, &logits, err));
        else
            TRY(read_context(f, ids, &logits, err));
    }
    return write_end(w, text, err);
}

static Status all_texts(Infer *f, Sampler *s, const GenerateOptions *o, Writer *w, TokenIds *ids,
                        Err *err)
{
    if (ids->n == 0) TRY(token_ids_push(ids, o->start_token, err));
    const int64_t prompt = ids->n;
    for (int64_t text = 0; text < o->num_samples; text++) {
        ids->n = prompt;
        TRY(one_text(f, s, o, w, ids, text, err));
    }
    return ERR_NONE;
}

Status generate_text(Infer *f, const Tokenizer *t, const GenerateOptions *o, const TokenIds *prompt,
                     GenerateSink sink, void *arg, Err *err)
{
    Sampler s;
    // A padded model has rows that no token stands for.
    const int64_t V = LT_MIN(f->m->c.vocab_size, tokenizer_vocab_size(t));
    TRY(sampler_open(&s, V, o->temperature, o->top_k, o->top_p, o->seed, err));
    Writer w = {.t = t, .sink = sink, .arg = arg};
    TokenIds ids = {0};
    Status st = ERR_NONE;
    for (int64_t i = 0; i < prompt->n && st == ERR_NONE; i++)
        st = token_ids_push(&ids, prompt->id[i], err);
    if (st == ERR_NONE) st = all_texts(f, &s, o, &w, &ids, err);
    token_ids_free(&ids);
    buf_free(&w.pending);
    buf_free(&w.piece);
    sampler_close(&s);
    return st;
}
