// example_json.c -- a line of jsonl as an example; see example_file.h.
//
// SPDX-License-Identifier: MIT
#include "engine/base/json_text.h"
#include "engine/base/mem.h"
#include "engine/data/example_file_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NUMBER_CAP = 24 };

static Status no_field(const ExampleFile *f, const char *name, const char *kind, const json_t *is,
                       Err *err)
{
    char what[120];
    snprintf(what, sizeof what, is ? "\"%s\" is no %s" : "no field \"%s\" (a %s)", name, kind);
    return example_file_bad(f, err, what);
}

static ExampleText text_of(const json_t *s)
{
    return (ExampleText){json_string_value(s), json_string_length(s)};
}

static Status get_text(const ExampleFile *f, const char *name, ExampleText *out, Err *err)
{
    const json_t *v = json_object_get(f->object, name);
    if (!json_is_string(v)) return no_field(f, name, "text", v, err);
    *out = text_of(v);
    return ERR_NONE;
}

static Status get_list(const ExampleFile *f, const char *name, const json_t **out, Err *err)
{
    *out = json_object_get(f->object, name);
    return json_is_array(*out) ? ERR_NONE : no_field(f, name, "list", *out, err);
}

// A label: a text; or an integer, true or false, whose text goes into f->numbers, where there is
// room.
static bool label_of(ExampleFile *f, const json_t *v, ExampleText *out)
{
    if (json_is_string(v)) {
        *out = text_of(v);
        return true;
    }
    if (json_is_boolean(v)) {
        *out = json_is_true(v) ? (ExampleText){"true", 4} : (ExampleText){"false", 5};
        return true;
    }
    if (!json_is_integer(v)) return false;
    char *at = f->numbers.data + f->numbers.len;
    const int n = snprintf(at, NUMBER_CAP, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    f->numbers.len += (size_t)n;
    *out = (ExampleText){at, (size_t)n};
    return true;
}

static Status room_for_numbers(ExampleFile *f, size_t n, Err *err)
{
    buf_clear(&f->numbers);
    return buf_reserve(&f->numbers, (n + 1) * NUMBER_CAP, err);
}

static Status classify(ExampleFile *f, ExampleRecord *r, Err *err)
{
    const json_t *pair = json_object_get(f->object, "text_pair");
    const json_t *label = json_object_get(f->object, "label");
    TRY(get_text(f, "text", &r->text, err));
    if (pair && !json_is_null(pair)) TRY(get_text(f, "text_pair", &r->pair, err));
    if (!f->labelled) return ERR_NONE;
    TRY(room_for_numbers(f, 1, err));
    if (!label_of(f, label, &r->label)) return no_field(f, "label", "label", label, err);
    return ERR_NONE;
}

static Status tag(ExampleFile *f, ExampleRecord *r, Err *err)
{
    const json_t *words = json_object_get(f->object, "tokens"), *tags = NULL;
    f->words = 0;
    if (!words && !f->labelled) {
        TRY(get_text(f, "text", &r->text, err));
        TRY(example_file_cut(f, r->text, err));
    } else {
        TRY(get_list(f, "tokens", &words, err));
        if (f->labelled) TRY(get_list(f, "tags", &tags, err));
        const size_t n = json_array_size(words), n_tags = tags ? json_array_size(tags) : n;
        if (n != n_tags) {
            char what[80];
            snprintf(what, sizeof what, "%zu tokens, but %zu tags", n, n_tags);
            return example_file_bad(f, err, what);
        }
        TRY(room_for_numbers(f, n, err));
        for (size_t i = 0; i < n; i++) {
            const json_t *w = json_array_get(words, i);
            ExampleText t = {0};
            if (!json_is_string(w)) return no_field(f, "tokens", "list of texts", w, err);
            if (tags && !label_of(f, json_array_get(tags, i), &t))
                return no_field(f, "tags", "list of labels", tags, err);
            TRY(example_file_word(f, text_of(w), t, err));
        }
    }
    r->word = f->word;
    r->tag = tags ? f->tag : NULL;
    r->words = f->words;
    return ERR_NONE;
}

// ---------------------------------------------------------------- questions

// Where character number `at` of valid UTF-8 begins; bytes + 1: behind the end.
static size_t byte_at(ExampleText t, int64_t at)
{
    size_t i = 0;
    for (; i < t.bytes; i++) {
        const bool begins = ((unsigned char)t.text[i] & 0xc0) != 0x80;
        if (begins && at-- == 0) return i;
    }
    return at == 0 ? i : t.bytes + 1;
}

static Status add_answer(ExampleFile *f, ExampleText context, const json_t *text,
                         const json_t *start, Err *err)
{
    if (!json_is_string(text))
        return example_file_bad(f, err, "an answer's \"text\" is missing or no text");
    if (!json_is_integer(start))
        return example_file_bad(f, err, "an answer's \"answer_start\" is missing or no integer");
    const ExampleText t = text_of(text);
    const int64_t chars = json_integer_value(start);
    const size_t at = chars < 0 ? context.bytes + 1 : byte_at(context, chars);
    if (t.bytes == 0) return example_file_bad(f, err, "an answer is empty");
    if (at > context.bytes || t.bytes > context.bytes - at ||
        memcmp(context.text + at, t.text, t.bytes) != 0) {
        char what[100];
        snprintf(what, sizeof what,
                 "the context has not the answer's text at its character %" PRId64, chars);
        return example_file_bad(f, err, what);
    }
    if (f->answers == f->cap_answers) {
        const int64_t cap = f->cap_answers ? 2 * f->cap_answers : 8;
        ExampleText *a = mem_realloc(f->answer, (size_t)cap * sizeof *a);
        if (a) f->answer = a;
        int64_t *b = a ? mem_realloc(f->answer_at, (size_t)cap * sizeof *b) : NULL;
        if (!b) return mem_err(err, (size_t)cap * sizeof *a, "the answers to a question");
        f->answer_at = b;
        f->cap_answers = cap;
    }
    f->answer[f->answers] = t;
    f->answer_at[f->answers++] = (int64_t)at;
    return ERR_NONE;
}

// {"text": [...], "answer_start": [...]}, the same without lists, or a list of such.
static Status add_answers(ExampleFile *f, ExampleText context, const json_t *a, Err *err)
{
    if (json_is_array(a)) {
        for (size_t i = 0; i < json_array_size(a); i++)
            TRY(add_answers(f, context, json_array_get(a, i), err));
        return ERR_NONE;
    }
    const json_t *text = json_object_get(a, "text"), *start = json_object_get(a, "answer_start");
    if (!json_is_array(text)) return add_answer(f, context, text, start, err);
    if (!json_is_array(start) || json_array_size(start) != json_array_size(text))
        return example_file_bad(f, err, "\"answer_start\" is no list as long as \"text\"");
    for (size_t i = 0; i < json_array_size(text); i++)
        TRY(add_answer(f, context, json_array_get(text, i), json_array_get(start, i), err));
    return ERR_NONE;
}

static Status qa(ExampleFile *f, ExampleRecord *r, Err *err)
{
    const json_t *answers = json_object_get(f->object, "answers");
    TRY(get_text(f, "question", &r->text, err));
    TRY(get_text(f, "context", &r->pair, err));
    if (!f->labelled) return ERR_NONE;
    if (!json_is_array(answers) && !json_is_object(answers))
        return no_field(f, "answers", "list of answers", answers, err);
    f->answers = 0;
    TRY(add_answers(f, r->pair, answers, err));
    r->answered = true;
    r->answer = f->answer;
    r->answer_at = f->answer_at;
    r->answers = f->answers;
    return ERR_NONE;
}

Status example_json_record(ExampleFile *f, const char *p, size_t n, ExampleRecord *r, Err *err)
{
    json_error_t why;
    json_decref(f->object);
    const size_t flags = JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES;
    const Status st = json_text_parse(&f->object, p, n, flags, &why, err);
    if (st == ERR_FORMAT) {
        err_plain(why.text);
        return example_file_bad(f, err, why.text);
    }
    TRY(st);
    if (!json_is_object(f->object)) return example_file_bad(f, err, "not a JSON object");
    *r = (ExampleRecord){.line = f->line};
    if (f->task == EXAMPLE_QA) return qa(f, r, err);
    return f->task == EXAMPLE_TAG ? tag(f, r, err) : classify(f, r, err);
}
