// example_question.c -- a question and its context as windows of tokens; see examples.h.
//
// SPDX-License-Identifier: MIT
#include "engine/data/examples_impl.h"

#include <string.h>

static bool is_blank(unsigned char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_mark(unsigned char c) // punctuation of ASCII: a word of its own
{
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~');
}

static size_t word_end(const char *p, size_t from, size_t n)
{
    size_t i = from;
    if (is_mark((unsigned char)p[i])) return i + 1;
    while (i < n && !is_blank((unsigned char)p[i]) && !is_mark((unsigned char)p[i])) i++;
    return i;
}

// The bytes that a word's tokens stand for.
static Status place_tokens(Examples *e, const char *p, int64_t from, int64_t to, int64_t first,
                           Err *err)
{
    const Tokenizer *t = e->o.tokenizer;
    const TokenIds *ids = &e->scratch;
    int64_t sum = 0;
    bool exact = true;
    for (int64_t i = from; i < to; i++) exact &= (unsigned char)p[i] < 0x80;
    for (int64_t i = first; i < ids->n; i++) {
        size_t bytes;
        (void)tokenizer_token(t, ids->id[i], &bytes);
        sum += (int64_t)bytes - (tokenizer_goes_on(t, ids->id[i]) ? 2 : 0);
    }
    exact &= sum == to - from;
    for (int64_t i = first, at = from; i < ids->n; i++) {
        size_t bytes;
        (void)tokenizer_token(t, ids->id[i], &bytes);
        const int64_t n = (int64_t)bytes - (tokenizer_goes_on(t, ids->id[i]) ? 2 : 0);
        TRY(token_ids_push(&e->piece_lo, (int32_t)(exact ? at : from), err));
        TRY(token_ids_push(&e->piece_hi, (int32_t)(exact ? at + n : to), err));
        at += n;
    }
    return ERR_NONE;
}

// The context into e->scratch, e->piece_lo and e->piece_hi.
static Status encode_context(Examples *e, ExampleText c, Err *err)
{
    e->scratch.n = e->piece_lo.n = e->piece_hi.n = 0;
    for (size_t i = 0, end; i < c.bytes; i = end) {
        if (is_blank((unsigned char)c.text[i])) {
            end = i + 1;
            continue;
        }
        end = word_end(c.text, i, c.bytes);
        const int64_t first = e->scratch.n;
        TRY(tokenizer_encode(e->o.tokenizer, c.text + i, end - i, false, 1, &e->scratch, err));
        TRY(place_tokens(e, c.text, (int64_t)i, (int64_t)end, first, err));
    }
    return ERR_NONE;
}

static Status keep_texts(Examples *e, const ExampleRecord *r, Example *x, Err *err)
{
    x->text = (int64_t)e->text.len;
    x->bytes = (int64_t)r->pair.bytes;
    x->answer = e->answers;
    x->answers = r->answers;
    TRY(buf_append(&e->text, r->pair.text, r->pair.bytes, err));
    for (int64_t i = 0; i < r->answers; i++) {
        const ExampleAnswer a = {x->text + r->answer_at[i], (int64_t)r->answer[i].bytes};
        ExampleAnswer *list = examples_grow(e->answer, e->answers, &e->cap_answers, sizeof a, err);
        if (!list) return ERR_NOMEM;
        e->answer = list;
        e->answer[e->answers++] = a;
    }
    return ERR_NONE;
}

// First and last token of the answer in the context; -1: no token stands for a byte of it.
static void find_answer(const Examples *e, const ExampleRecord *r, int64_t span[2])
{
    span[0] = span[1] = -1;
    if (r->answers == 0) return;
    const int64_t from = r->answer_at[0], to = from + (int64_t)r->answer[0].bytes;
    for (int64_t i = 0; i < e->scratch.n; i++) {
        if (e->piece_hi.id[i] <= from || e->piece_lo.id[i] >= to) continue;
        if (span[0] < 0) span[0] = i;
        span[1] = i;
    }
}

// [CLS] question [SEP] context[from, to) [SEP]
static Status add_window(Examples *e, const TokenIds *question, int64_t q, int64_t from, int64_t to,
                         const int64_t answer[2], Err *err)
{
    ExampleSample s = {.example = e->n, .id = e->ids.n};
    TRY(token_ids_push(&e->ids, e->cls, err));
    TRY(examples_append(&e->ids, question->id, q, err));
    TRY(token_ids_push(&e->ids, e->sep, err));
    s.second = (int32_t)(e->ids.n - s.id);
    TRY(examples_append(&e->ids, e->scratch.id + from, to - from, err));
    TRY(token_ids_push(&e->ids, e->sep, err));
    for (int32_t i = 0; i < s.second; i++) {
        TRY(token_ids_push(&e->lo, 0, err));
        TRY(token_ids_push(&e->hi, 0, err));
    }
    TRY(examples_append(&e->lo, e->piece_lo.id + from, to - from, err));
    TRY(examples_append(&e->hi, e->piece_hi.id + from, to - from, err));
    TRY(token_ids_push(&e->lo, 0, err));
    TRY(token_ids_push(&e->hi, 0, err));
    for (int k = 0; k < 2 && answer[0] >= from && answer[1] >= 0 && answer[1] < to; k++)
        s.span[k] = (int32_t)(answer[k] - from + s.second);
    return examples_end_sample(e, &s, err);
}

static Status add_windows(Examples *e, const ExampleRecord *r, TokenIds *question, Err *err)
{
    TRY(tokenizer_encode(e->o.tokenizer, r->text.text, r->text.bytes, false, 1, question, err));
    TRY(encode_context(e, r->pair, err));
    const int64_t q = LT_MIN(question->n, e->o.block / 2 - 2), n = e->scratch.n;
    const int64_t room = e->o.block - q - 3, step = room - LT_MIN((int64_t)QA_OVERLAP, room / 2);
    int64_t answer[2];
    find_answer(e, r, answer);
    e->cut += q < question->n;
    for (int64_t from = 0;; from += step) {
        const int64_t to = LT_MIN(from + room, n);
        TRY(add_window(e, question, q, from, to, answer, err));
        if (to == n) return ERR_NONE;
    }
}

Status examples_add_question(Examples *e, const ExampleRecord *r, Example *x, Err *err)
{
    if (r->pair.bytes > INT32_MAX) return err_set(err, ERR_USAGE, "a context of over 2 GB");
    TokenIds question = {0};
    TRY(keep_texts(e, r, x, err));
    const Status st = add_windows(e, r, &question, err);
    token_ids_free(&question);
    return st;
}
