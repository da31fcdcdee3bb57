// examples.c -- see examples.h: the growing set, classes and tags, rows of a batch, views.
//
// SPDX-License-Identifier: MIT
#include "engine/data/examples.h"
#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/base/token.h"
#include "engine/data/examples_impl.h"
#include "engine/data/order.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const double HELD_OUT = 0.1;

Status examples_check_block(int64_t block, int64_t most, const char *dir, Err *err)
{
    if (block >= EXAMPLE_BLOCK_MIN && block <= most) return ERR_NONE;
    return err_set(err, ERR_USAGE,
                   "block_size = %" PRId64 ", but for the model in %s it is %d to %" PRId64, block,
                   dir, EXAMPLE_BLOCK_MIN, most);
}

Status examples_open(Examples *e, const ExampleOptions *o, Err *err)
{
    ASSERT(o->block >= EXAMPLE_BLOCK_MIN && o->block <= INT32_MAX, "block %" PRId64, o->block);
    *e = (Examples){.o = *o};
    if (o->labels) e->labels = *o->labels;
    tokenizer_around(o->tokenizer, &e->cls, &e->sep);
    e->pad = tokenizer_special(o->tokenizer, "[PAD]");
    e->unk = tokenizer_special(o->tokenizer, "[UNK]");
    if (e->cls >= 0 && e->sep >= 0 && e->unk >= 0) {
        e->pad = LT_MAX(e->pad, 0);
        return ERR_NONE;
    }
    return err_set(err, ERR_USAGE,
                   "the tokenizer has no [CLS], [SEP] and [UNK]: it is not one of a BERT model");
}

void examples_close(Examples *e)
{
    TokenIds *const lists[] = {&e->ids, &e->lo,      &e->hi,       &e->row,
                               &e->tag, &e->scratch, &e->piece_lo, &e->piece_hi};
    for (size_t i = 0; i < LT_COUNT(lists); i++) token_ids_free(lists[i]);
    mem_free(e->example);
    mem_free(e->sample);
    mem_free(e->answer);
    buf_free(&e->text);
    *e = (Examples){0};
}

void examples_clear(Examples *e)
{
    e->ids.n = e->lo.n = e->hi.n = e->row.n = e->tag.n = 0;
    e->n = e->samples = e->answers = 0;
    e->longest = e->most_picks = e->tokens = e->cut = 0;
    buf_clear(&e->text);
}

void *examples_grow(void *list, int64_t n, int64_t *cap, size_t size, Err *err)
{
    if (n < *cap) return list;
    const int64_t more = *cap ? 2 * *cap : 64;
    void *p = mem_realloc(list, (size_t)more * size);
    if (p)
        *cap = more;
    else
        (void)mem_err(err, (size_t)more * size, "examples");
    return p;
}

Status examples_append(TokenIds *to, const int32_t *id, int64_t n, Err *err)
{
    for (int64_t i = 0; i < n; i++) TRY(token_ids_push(to, id[i], err));
    return ERR_NONE;
}

Status examples_end_sample(Examples *e, ExampleSample *s, Err *err)
{
    ExampleSample *list = examples_grow(e->sample, e->samples, &e->cap_samples, sizeof *s, err);
    if (!list) return ERR_NOMEM;
    e->sample = list;
    s->n = (int32_t)(e->ids.n - s->id);
    e->tokens += s->n;
    e->longest = LT_MAX(e->longest, s->n);
    e->most_picks = LT_MAX(e->most_picks, s->picks);
    e->sample[e->samples++] = *s;
    return ERR_NONE;
}

static Status encode(Examples *e, ExampleText t, TokenIds *to, Err *err)
{
    return tokenizer_encode(e->o.tokenizer, t.text, t.bytes, false, 1, to, err);
}

// ---------------------------------------------------------------- labels

static Status number_of(Examples *e, ExampleText label, int32_t *number, Err *err)
{
    char known[256];
    int n;
    if (!e->o.labels) {
        TRY(labels_add(&e->labels, label.text, label.bytes, &n, err));
        *number = n;
        return ERR_NONE;
    }
    *number = labels_find(&e->labels, label.text, label.bytes);
    if (*number >= 0) return ERR_NONE;
    const Status st = err_set(err, ERR_USAGE, "the label \"%.*s\" is none of the model's %d: %s",
                              (int)LT_MIN(label.bytes, (size_t)LABEL_CAP), label.text, e->labels.n,
                              labels_show(&e->labels, known));
    if (err) err_plain(err->text);
    return st;
}

// ---------------------------------------------------------------- classify

static Status add_texts(Examples *e, const ExampleRecord *r, Example *x, Err *err)
{
    TokenIds *const b = &e->scratch;
    ExampleSample s = {.example = e->n, .id = e->ids.n};
    TRY(token_ids_push(&e->ids, e->cls, err));
    TRY(encode(e, r->text, &e->ids, err));
    b->n = 0;
    const bool pair = r->pair.text != NULL;
    if (pair) TRY(encode(e, r->pair, b, err));
    int64_t first = e->ids.n - s.id - 1, second = b->n;
    const int64_t room = e->o.block - 2 - pair, over = first + second - room;
    for (int64_t i = 0; i < over; i++) *(first > second ? &first : &second) -= 1;
    e->cut += over > 0;
    e->ids.n = s.id + 1 + first;
    TRY(token_ids_push(&e->ids, e->sep, err));
    s.second = (int32_t)(e->ids.n - s.id);
    if (pair) {
        TRY(examples_append(&e->ids, b->id, second, err));
        TRY(token_ids_push(&e->ids, e->sep, err));
    }
    x->label = -1;
    if (e->o.labelled) TRY(number_of(e, r->label, &x->label, err));
    return examples_end_sample(e, &s, err);
}

// ---------------------------------------------------------------- tag

static Status add_words(Examples *e, const ExampleRecord *r, Example *x, Err *err)
{
    ExampleSample s = {.example = e->n, .id = e->ids.n, .row = e->row.n};
    const int64_t end = s.id + e->o.block - 1; // of the words
    TRY(token_ids_push(&e->ids, e->cls, err));
    x->tag = e->tag.n;
    x->words = r->words;
    x->text = (int64_t)e->text.len;
    for (int64_t i = 0; i < r->words; i++) {
        const int64_t at = e->ids.n;
        int32_t tag;
        if (e->o.keep_text) {
            TRY(buf_append(&e->text, r->word[i].text, r->word[i].bytes, err));
            TRY(buf_append(&e->text, "", 1, err));
        }
        if (e->o.labelled) {
            TRY(number_of(e, r->tag[i], &tag, err));
            TRY(token_ids_push(&e->tag, tag, err));
        }
        if (at >= end) continue;
        TRY(encode(e, r->word[i], &e->ids, err));
        if (e->ids.n == at) TRY(token_ids_push(&e->ids, e->unk, err));
        TRY(token_ids_push(&e->row, (int32_t)(at - s.id), err));
    }
    s.picks = (int32_t)(e->row.n - s.row);
    e->cut += e->ids.n > end || s.picks < r->words;
    e->ids.n = LT_MIN(e->ids.n, end);
    TRY(token_ids_push(&e->ids, e->sep, err));
    s.second = (int32_t)(e->ids.n - s.id);
    x->bytes = (int64_t)e->text.len - x->text;
    return examples_end_sample(e, &s, err);
}

// ---------------------------------------------------------------- the set

Status examples_add(Examples *e, const ExampleRecord *r, const char *file, Err *err)
{
    Example *list = examples_grow(e->example, e->n, &e->cap, sizeof *list, err);
    if (!list) return ERR_NOMEM;
    e->example = list;
    Example x = {.line = r->line, .sample = e->samples};
    Status st;
    if (e->o.task == EXAMPLE_CLASSIFY)
        st = add_texts(e, r, &x, err);
    else if (e->o.task == EXAMPLE_TAG)
        st = add_words(e, r, &x, err);
    else
        st = examples_add_question(e, r, &x, err);
    if (st == ERR_USAGE || st == ERR_FORMAT) {
        char why[ERR_MOST];
        memcpy(why, err ? err->text : "", err ? strnlen(err->text, sizeof why - 1) + 1 : 1);
        why[sizeof why - 1] = 0;
        return err_set(err, st, "%s:%" PRId64 ": %s", file, r->line, why);
    }
    TRY(st);
    x.samples = e->samples - x.sample;
    e->example[e->n++] = x;
    return ERR_NONE;
}

// The file's own labels get their numbers when all of them are known.
static void sort_labels(Examples *e)
{
    int32_t number[LABELS_MAX];
    const Labels was = e->labels;
    labels_sort(&e->labels);
    for (int i = 0; i < was.n; i++)
        number[i] = labels_find(&e->labels, was.name[i], strlen(was.name[i]));
    for (int64_t i = 0; i < e->n && e->o.task == EXAMPLE_CLASSIFY; i++)
        e->example[i].label = number[e->example[i].label];
    for (int64_t i = 0; i < e->tag.n; i++) e->tag.id[i] = number[e->tag.id[i]];
}

static Status read_records(Examples *e, ExampleFile *f, Err *err)
{
    for (;;) {
        ExampleRecord r;
        bool more;
        TRY(example_file_next(f, &r, &more, err));
        if (!more) return ERR_NONE;
        TRY(examples_add(e, &r, example_file_name(f), err));
    }
}

Status examples_read(Examples *e, const char *path, Err *err)
{
    ExampleFile *f;
    TRY(example_file_open(&f, path, e->o.task, e->o.labelled, err));
    const Status st = read_records(e, f, err);
    example_file_close(f);
    TRY(st);
    if (e->n == 0) return err_set(err, ERR_USAGE, "%s: there is no example in it", path);
    if (e->o.labels || e->o.task == EXAMPLE_QA) return ERR_NONE;
    if (e->labels.n == 1)
        return err_set(err, ERR_USAGE,
                       "%s: every %s in it is labelled \"%s\": there is nothing to learn", path,
                       e->o.task == EXAMPLE_TAG ? "word" : "example", e->labels.name[0]);
    if (e->labels.n == 0) return err_set(err, ERR_USAGE, "%s: there is no word in it", path);
    sort_labels(e);
    return ERR_NONE;
}

void examples_put(const Examples *e, int64_t sample, int64_t T, int64_t P, const ExampleRow *to)
{
    const ExampleSample *s = &e->sample[sample];
    const Example *x = &e->example[s->example];
    const int32_t *id = e->ids.id + s->id;
    ASSERT(s->n <= T && s->picks <= P, "%d tokens of %" PRId64, s->n, T);
    for (int32_t t = 0; t < T; t++) {
        const bool real = t < s->n;
        to->input[t] = real ? id[t] : e->pad;
        to->type[t] = real && t >= s->second;
        to->position[t] = real ? t : 0;
        to->seg_lo[t] = real ? 0 : s->n;
        to->seg_hi[t] = s->n;
    }
    if (e->o.task == EXAMPLE_CLASSIFY) {
        to->seq_row[0] = 0;
        to->seq_target[0] = x->label >= 0 ? x->label : TOKEN_IGNORE;
    }
    if (e->o.task == EXAMPLE_QA) memcpy(to->span_target, s->span, sizeof s->span);
    for (int32_t p = 0; e->o.task == EXAMPLE_TAG && p < P; p++) {
        const bool real = p < s->picks;
        to->pick_row[p] = real ? e->row.id[s->row + p] : -1;
        to->pick_target[p] = real && e->o.labelled ? e->tag.id[x->tag + p] : TOKEN_IGNORE;
    }
}

// ---------------------------------------------------------------- views

static Status view_open(ExampleView *v, const Examples *e, Err *err)
{
    *v = (ExampleView){.of = e, .picks = e->most_picks};
    v->sample = mem_alloc((size_t)e->samples * sizeof *v->sample);
    return v->sample ? ERR_NONE
                     : mem_err(err, (size_t)e->samples * sizeof *v->sample, "a list of examples");
}

static void view_add(ExampleView *v, int64_t example)
{
    const Example *x = &v->of->example[example];
    for (int64_t s = x->sample; s < x->sample + x->samples; s++) {
        v->sample[v->samples++] = s;
        v->tokens += v->of->sample[s].n;
    }
    v->examples++;
}

Status example_view_all(ExampleView *v, const Examples *e, Err *err)
{
    TRY(view_open(v, e, err));
    for (int64_t i = 0; i < e->n; i++) view_add(v, i);
    return ERR_NONE;
}

Status example_view_split(ExampleView *rest, ExampleView *held, const Examples *e, uint64_t seed,
                          Err *err)
{
    const int64_t n = LT_MAX((int64_t)((double)e->n * HELD_OUT), (int64_t)1);
    *rest = *held = (ExampleView){0};
    if (e->n < 2)
        return err_set(err, ERR_USAGE,
                       "of %" PRId64 " example%s none can be held out for evaluation", e->n,
                       plural_s(e->n));
    Shuffle draw; // of no epoch that training reaches
    shuffle_init(&draw, seed, UINT64_MAX, 0, (uint64_t)e->n);
    bool *out = mem_calloc((size_t)e->n, sizeof *out);
    Status st = out ? ERR_NONE : mem_err(err, (size_t)e->n, "a list of examples");
    for (int64_t i = 0; i < n && st == ERR_NONE; i++) out[shuffle_at(&draw, (uint64_t)i)] = true;
    if (st == ERR_NONE) st = view_open(rest, e, err);
    if (st == ERR_NONE) st = view_open(held, e, err);
    for (int64_t i = 0; i < e->n && st == ERR_NONE; i++) view_add(out[i] ? held : rest, i);
    mem_free(out);
    if (st != ERR_NONE) {
        example_view_close(rest);
        example_view_close(held);
    }
    return st;
}

void example_view_close(ExampleView *v)
{
    mem_free(v->sample);
    *v = (ExampleView){0};
}
