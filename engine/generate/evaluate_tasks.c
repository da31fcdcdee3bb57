// evaluate_tasks.c -- multiple choice (as HellaSwag) and last words (as LAMBADA); see evaluate.h.
//
// Both score an ending behind a context: the log-probability of the ending's tokens given
// everything before them. A context too long for the model loses its oldest tokens.
//
// SPDX-License-Identifier: MIT
#include "engine/generate/evaluate_row.h"
#include "engine/base/assert.h"
#include "engine/base/json_text.h"
#include "engine/base/mem.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Ending { // of one context
    double nats;        // minus the log-probability
    int64_t tokens;
    bool greedy; // every token of it is the likeliest
} Ending;

typedef struct Task {
    Evaluator *e;
    const Tokenizer *t;
    const char *path;
    int64_t line;
    TokenIds ids;    // context, then ending
    int32_t *target; // [block]
} Task;

typedef Status (*LineFn)(Task *k, const json_t *object, void *out, Err *err);

static Status bad_line(const Task *k, Err *err, const char *what)
{
    return err_set(err, ERR_FORMAT, "%s:%" PRId64 ": %s", k->path, k->line, what);
}

// Is the likeliest token of every counted row its target?
// The sample is the one evaluate_row ran last: its ids are on the device.
static Status is_greedy(Task *k, int64_t T, int64_t first, bool *greedy, Err *err)
{
    Evaluator *e = k->e;
    const ModelBatch b = batch_part(&e->in, 0, 1);
    ASSERT(b.T == T, "%lld tokens, the last sample had %lld", (long long)T, (long long)b.T);
    const void *logits;
    TRY(model_logits(&e->model, &e->cx, &b, &logits, err));
    const int64_t V = e->m->c.vocab_size, Vp = model_config_vocab_padded(&e->m->c);
    const DType act = e->m->prec.act;
    *greedy = true;
    for (int64_t r = first; r < T && *greedy; r++) {
        const size_t bytes = (size_t)Vp * dtype_bytes(act);
        const void *row = e->logits_row;
        TRY(device_download(e->cx.device, e->logits_row, (const char *)logits + (size_t)r * bytes,
                            bytes, err));
        const float want = dtype_load(row, act, k->target[r]);
        for (int64_t v = 0; v < V && *greedy; v++) {
            const float x = dtype_load(row, act, v);
            if (x > want || (x == want && v < k->target[r])) *greedy = false;
        }
    }
    return ERR_NONE;
}

static Status score(Task *k, const char *context, const char *ending, bool want_greedy, Ending *out,
                    Err *err)
{
    Evaluator *e = k->e;
    k->ids.n = 0;
    TRY(tokenizer_encode(k->t, context, strlen(context), false, 1, &k->ids, err));
    const int64_t n_context = k->ids.n;
    TRY(tokenizer_encode(k->t, ending, strlen(ending), false, 1, &k->ids, err));
    const int64_t n = k->ids.n - n_context;
    if (n_context == 0) return bad_line(k, err, "the context is empty");
    if (n == 0) return bad_line(k, err, "an ending is empty");
    if (n > e->block) return bad_line(k, err, "an ending is longer than the model's context");
    const int64_t T = LT_MIN(e->block, k->ids.n - 1);
    const int32_t *input = k->ids.id + k->ids.n - 1 - T;
    for (int64_t i = 0; i < T; i++) k->target[i] = i >= T - n ? input[i + 1] : TOKEN_IGNORE;
    *out = (Ending){.tokens = n};
    TRY(evaluate_row(e, T, input, k->target, &out->nats, err));
    return want_greedy ? is_greedy(k, T, T - n, &out->greedy, err) : ERR_NONE;
}

static Status each_line(Task *k, const char *data, LineFn fn, void *out, Err *err)
{
    const char *const begin = data;
    const double bytes = (double)strlen(data);
    while (*data) {
        const size_t n = strcspn(data, "\n");
        k->line++;
        if (strspn(data, " \t\r") < n) {
            json_error_t problem;
            json_t *o;
            const Status parsed = json_text_parse(&o, data, n, 0, &problem, err);
            if (parsed == ERR_NOMEM) return parsed;
            if (!json_is_object(o)) {
                json_decref(o);
                return bad_line(k, err, o ? "not an object" : problem.text);
            }
            const Status st = fn(k, o, out, err);
            json_decref(o);
            TRY(st);
        }
        data += n + (data[n] == '\n');
        on_progress(&k->e->on, (double)(data - begin), bytes);
    }
    return k->line ? ERR_NONE : err_set(err, ERR_FORMAT, "%s is empty", k->path);
}

static Status run_task(Evaluator *e, const Tokenizer *t, const char *path, LineFn fn, void *out,
                       Err *err)
{
    Task k = {.e = e, .t = t, .path = path};
    Buf text = {0};
    Status st = file_read(path, &text, err);
    if (st == ERR_NONE && memchr(text.data, 0, text.len))
        st = err_set(err, ERR_FORMAT, "%s holds a zero byte: not a jsonl file", path);
    k.target = st == ERR_NONE ? mem_calloc((size_t)e->block, sizeof *k.target) : NULL;
    if (st == ERR_NONE && !k.target) st = mem_err(err, (size_t)e->block * 4, "targets");
    if (st == ERR_NONE) st = each_line(&k, text.data ? text.data : "", fn, out, err);
    mem_free(k.target);
    token_ids_free(&k.ids);
    buf_free(&text);
    return st;
}

// A whole number, or one written as text, as copies of HellaSwag on the web have it. -1: neither.
static int64_t ending_number(const json_t *label)
{
    if (json_is_integer(label)) return json_integer_value(label);
    const char *text = json_string_value(label);
    if (!text || !isdigit((unsigned char)text[0]) || strlen(text) > 9) return -1;
    char *end;
    const long n = strtol(text, &end, 10);
    return *end ? -1 : n;
}

static Status choices_line(Task *k, const json_t *o, void *out_, Err *err)
{
    EvalChoices *out = out_;
    const char *context = json_string_value(json_object_get(o, "context"));
    if (!context) context = json_string_value(json_object_get(o, "ctx"));
    const json_t *endings = json_object_get(o, "endings"), *label = json_object_get(o, "label");
    if (!context) return bad_line(k, err, "no text \"context\"");
    if (!json_is_array(endings) || json_array_size(endings) < 2)
        return bad_line(k, err, "\"endings\" must be a list of two texts or more");
    const int64_t right = ending_number(label);
    if (right < 0 || (size_t)right >= json_array_size(endings))
        return bad_line(k, err, "\"label\" must be the number of an ending");
    int64_t best_sum = 0, best_mean = 0;
    double sum = INFINITY, mean = INFINITY;
    for (size_t i = 0; i < json_array_size(endings); i++) {
        const char *ending = json_string_value(json_array_get(endings, i));
        if (!ending) return bad_line(k, err, "an ending is not a text");
        // Endings follow the context behind one space, as HellaSwag's do.
        Buf spaced = {0};
        Ending s;
        Status st = buf_printf(&spaced, err, "%s%s", ending[0] == ' ' ? "" : " ", ending);
        if (st == ERR_NONE) st = score(k, context, spaced.data, false, &s, err);
        buf_free(&spaced);
        TRY(st);
        if (s.nats < sum) {
            sum = s.nats;
            best_sum = (int64_t)i;
        }
        if (s.nats / (double)s.tokens < mean) {
            mean = s.nats / (double)s.tokens;
            best_mean = (int64_t)i;
        }
    }
    out->n++;
    out->right_sum += best_sum == right;
    out->right_mean += best_mean == right;
    return ERR_NONE;
}

Status evaluate_choices(Evaluator *e, const Tokenizer *t, const char *path, EvalChoices *out,
                        Err *err)
{
    *out = (EvalChoices){0};
    return run_task(e, t, path, choices_line, out, err);
}

static Status lastword_line(Task *k, const json_t *o, void *out_, Err *err)
{
    EvalLastWord *out = out_;
    const char *text = json_string_value(json_object_get(o, "text"));
    if (!text) return bad_line(k, err, "no text \"text\"");
    size_t n = strlen(text);
    while (n && strchr(" \t\r\n", text[n - 1])) n--;
    size_t space = n;
    while (space && text[space - 1] != ' ') space--;
    if (space < 2) return bad_line(k, err, "a text needs a context and a last word");
    char *context = mem_strndup(text, space - 1),
         *word = mem_strndup(text + space - 1, n - space + 1);
    Ending s;
    Status st =
        context && word ? score(k, context, word, true, &s, err) : mem_err(err, n, "a text");
    mem_free(context);
    mem_free(word);
    TRY(st);
    out->n++;
    out->right += s.greedy;
    out->nats += s.nats;
    return ERR_NONE;
}

Status evaluate_lastword(Evaluator *e, const Tokenizer *t, const char *path, EvalLastWord *out,
                         Err *err)
{
    *out = (EvalLastWord){0};
    return run_task(e, t, path, lastword_line, out, err);
}
