// build.c -- see build.h.
//
// SPDX-License-Identifier: MIT
#include "engine/data/build.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/data/build_pairs.h"
#include "engine/data/encode_batch.h"
#include "engine/data/shard.h"
#include "engine/data/split_pick.h"
#include "engine/data/text_source.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WIDE_VOCAB = 65535, STAGE_RUN = 4096 };

// A staged token is its id and a mark; ids are below 2^31.
#define STAGE_PROMPT ((uint32_t)1 << 31) // does not count under loss.mask=completion
#define STAGE_ID     (STAGE_PROMPT - 1)
#define STAGE_NAME   "staging.ids"

typedef struct StagedDocument {
    int64_t tokens;
    int64_t text_bytes;
} StagedDocument;

typedef struct Builder {
    const DataBuild *how;
    const Tokenizer *tokenizer;
    int32_t end_token;
    TextSource *source;
    EncodeBatch batch;
    SplitWriter *split[2];
    int64_t text_bytes[2];
    int64_t texts[2];  // pairs: documents of text
    int64_t documents; // that went to a split or to the stage

    bool staging;
    FileWriter stage;
    StagedDocument *staged; // [documents while staging]
    int64_t cap_staged;
    int64_t stage_limit; // documents to wait for

    SplitPick pick;
    double started; // clock_seconds
} Builder;

// ---------------------------------------------------------------- staging

static Status stage_document(Builder *b, const EncodedDocument *e, Err *err)
{
    if (b->documents == b->cap_staged) {
        const int64_t n = b->cap_staged ? b->cap_staged * 2 : 64;
        StagedDocument *p = mem_realloc(b->staged, (size_t)n * sizeof *p);
        if (!p) return mem_err(err, (size_t)n * sizeof *p, "the list of documents");
        b->staged = p;
        b->cap_staged = n;
    }
    b->staged[b->documents] =
        (StagedDocument){e->ids.n, (int64_t)(e->bytes + (e->pair ? e->pair_bytes : 0))};
    uint32_t run[STAGE_RUN];
    for (int64_t i = 0; i < e->ids.n;) {
        const int64_t n = LT_MIN(e->ids.n - i, (int64_t)STAGE_RUN);
        for (int64_t k = 0; k < n; k++) {
            run[k] = (uint32_t)e->ids.id[i + k];
            if (i + k < e->prompt_ids) run[k] |= STAGE_PROMPT;
        }
        TRY(file_write(&b->stage, run, (size_t)n * sizeof *run, err));
        i += n;
    }
    return ERR_NONE;
}

// Tokens [from, to) of the stage to a split, in runs of equal PROMPT marks.
static Status put_staged(SplitWriter *w, const uint32_t *staged, int64_t from, int64_t to, Err *err)
{
    int32_t run[STAGE_RUN];
    for (int64_t i = from; i < to;) {
        const uint32_t prompt = staged[i] & STAGE_PROMPT;
        int n = 0;
        for (; n < STAGE_RUN && i < to && (staged[i] & STAGE_PROMPT) == prompt; i++)
            run[n++] = (int32_t)(staged[i] & STAGE_ID);
        TRY(split_writer_put(w, run, n, !prompt, err));
    }
    return ERR_NONE;
}

static int64_t sum_text_bytes(const Builder *b, const uint32_t *staged, int64_t from, int64_t to)
{
    int64_t sum = 0;
    for (int64_t i = from; i < to; i++)
        sum += (int64_t)tokenizer_text_bytes(b->tokenizer, (int32_t)(staged[i] & STAGE_ID));
    return sum;
}

// Of the bytes of text of document d, which begins at token `at`, those before token `cut`. Where
// tokens say only about how many they stand for (WordPiece), the two sides share what there is.
static int64_t text_bytes_before(const Builder *b, const uint32_t *staged, const StagedDocument *d,
                                 int64_t at, int64_t cut)
{
    const int64_t end = at + d->tokens;
    if (end <= cut) return d->text_bytes;
    if (at >= cut) return 0;
    const int64_t head = sum_text_bytes(b, staged, at, cut);
    const int64_t tail = sum_text_bytes(b, staged, cut, end - (b->end_token >= 0));
    if (head + tail == d->text_bytes) return head;
    return (int64_t)((double)d->text_bytes * ((double)head / (double)LT_MAX(head + tail, 1)));
}

// Few documents: the last val_fraction of the tokens, wherever documents end. The cut is nanoGPT's,
// int(n * (1 - val_fraction)), so that losses can be compared.
static Status split_stream(Builder *b, const uint32_t *staged, int64_t tokens, Err *err)
{
    const int64_t cut = (int64_t)((double)tokens * (1 - b->how->val_fraction));
    int64_t at = 0;
    for (int64_t i = 0; i < b->documents; i++) {
        const int64_t end = at + b->staged[i].tokens;
        if (at < cut) {
            TRY(split_writer_document(b->split[0], err));
            TRY(put_staged(b->split[0], staged, at, LT_MIN(end, cut), err));
        }
        if (end > cut) {
            TRY(split_writer_document(b->split[1], err));
            TRY(put_staged(b->split[1], staged, LT_MAX(at, cut), end, err));
        }
        const int64_t head = text_bytes_before(b, staged, &b->staged[i], at, cut);
        b->text_bytes[0] += head;
        b->text_bytes[1] += b->staged[i].text_bytes - head;
        at = end;
    }
    return ERR_NONE;
}

static Status split_documents(Builder *b, const uint32_t *staged, int64_t limit, Err *err)
{
    int64_t at = 0;
    for (int64_t i = 0; i < b->documents; i++) {
        const int to = split_of(&b->pick, i, limit);
        TRY(split_writer_document(b->split[to], err));
        TRY(put_staged(b->split[to], staged, at, at + b->staged[i].tokens, err));
        b->text_bytes[to] += b->staged[i].text_bytes;
        at += b->staged[i].tokens;
    }
    return ERR_NONE;
}

// The staged documents go to their splits; from here on documents go there directly.
// at_end: there are no further documents.
static Status unstage(Builder *b, bool at_end, Err *err)
{
    char path[PATH_CAP];
    memcpy(path, b->stage.path, sizeof path);
    TRY(file_commit(&b->stage, err));
    FileMap map;
    TRY(file_map(path, &map, err));
    // A map begins at a page: aligned for any type.
    const uint32_t *staged = (const uint32_t *)(const void *)map.data;
    b->staging = false;
    const Status s = at_end && b->documents < DATA_SPLIT_DOCUMENTS
                         ? split_stream(b, staged, (int64_t)(map.size / 4), err)
                         : split_documents(b, staged, at_end ? b->documents : INT64_MAX, err);
    file_unmap(&map);
    mem_free(b->staged);
    b->staged = NULL;
    TRY(s);
    return file_remove(path, err);
}

// ---------------------------------------------------------------- documents

static Status put_document(Builder *b, const EncodedDocument *e, Err *err)
{
    if (b->staging) {
        TRY(stage_document(b, e, err));
        if (++b->documents == b->stage_limit) return unstage(b, false, err);
        return ERR_NONE;
    }
    const int to = split_of(&b->pick, b->documents++, INT64_MAX);
    SplitWriter *w = b->split[to];
    TRY(split_writer_document(w, err));
    TRY(split_writer_put(w, e->ids.id, e->prompt_ids, false, err));
    TRY(split_writer_put(w, e->ids.id + e->prompt_ids, e->ids.n - e->prompt_ids, true, err));
    b->text_bytes[to] += (int64_t)(e->bytes + (e->pair ? e->pair_bytes : 0));
    return ERR_NONE;
}

static void tell(const Builder *b)
{
    TextStats st;
    text_source_stats(b->source, &st);
    on_progress(&b->how->on, (double)st.bytes_consumed, (double)st.bytes_total);
}

static Status flush(Builder *b, Err *err)
{
    TRY(encode_batch_run(&b->batch, err));
    for (int i = 0; i < b->batch.n; i++) TRY(put_document(b, &b->batch.doc[i], err));
    encode_batch_clear(&b->batch);
    tell(b);
    return ERR_NONE;
}

static Status read_all(Builder *b, Err *err)
{
    for (;;) {
        TRY(build_stop_if_told(err));
        TextDocument d;
        bool more;
        TRY(text_source_next(b->source, &d, &more, err));
        if (!more) return flush(b, err);
        if (!encode_batch_fits(&b->batch, &d)) TRY(flush(b, err));
        TRY(encode_batch_add(&b->batch, &d, err));
        if (encode_batch_borrows(&b->batch)) TRY(flush(b, err));
    }
}

// ---------------------------------------------------------------- the folder

static Status check_folder(const char *out, Err *err)
{
    if (!file_exists(out)) return ERR_NONE;
    FileList list;
    TRY(file_list(out, &list, err));
    bool incomplete = false, complete = false;
    for (int i = 0; i < list.n; i++) {
        incomplete |= strcmp(list.name[i], META_MARKER) == 0;
        complete |= strcmp(list.name[i], META_FILE) == 0;
    }
    const int n = list.n;
    file_list_free(&list);
    if (n == 0) return ERR_NONE;
    const Status s = err_set(err, ERR_USAGE, "%s: the folder is not empty (%s)", out,
                             complete     ? "it holds data already"
                             : incomplete ? "left by an interrupted lathe data"
                                          : "its files are not data of lathe");
    err_hint(err, "name another folder, or remove this one first");
    return s;
}

static Status remove_in(const char *out, const char *name)
{
    char path[PATH_CAP];
    TRY(path_join(path, out, name, NULL));
    return file_remove_tree(path, NULL);
}

// What makes it data goes first, what says that it is none goes last: whatever is left of a folder
// that cannot be emptied is not taken for data.
static Status empty_folder(const char *out)
{
    FileList list;
    TRY(remove_in(out, META_FILE));
    TRY(file_list(out, &list, NULL));
    Status s = ERR_NONE;
    for (int i = 0; i < list.n; i++)
        if (strcmp(list.name[i], META_MARKER) != 0 && remove_in(out, list.name[i]) != ERR_NONE)
            s = ERR_IO;
    file_list_free(&list);
    return s == ERR_NONE ? remove_in(out, META_MARKER) : s;
}

// The folder was empty when we came, so all in it is ours. The error being reported stays.
static void clean_folder(const char *out, bool was_there)
{
    Status s = empty_folder(out);
    if (s == ERR_NONE && !was_there) s = file_remove_tree(out, NULL);
    if (s != ERR_NONE) log_warn("%s: files of the failed attempt are left", out);
}

static Status open_outputs(Builder *b, Err *err)
{
    const DataBuild *how = b->how;
    char path[PATH_CAP];
    TRY(path_join(path, how->out, META_MARKER, err));
    TRY(file_replace(path, "lathe data is at work here, or was interrupted\n", 47, err));
    const int wide = tokenizer_vocab_size(b->tokenizer) > WIDE_VOCAB;
    for (int i = 0; i < 2; i++)
        TRY(split_writer_open(&b->split[i], how->out, i ? "val" : "train", wide ? 4 : 2,
                              how->shard_tokens, err));
    b->pick = split_pick(how->val_fraction);
    b->stage_limit = DATA_SPLIT_DOCUMENTS;
    b->staging = how->val_fraction > 0 && !how->pairs;
    if (!b->staging) return ERR_NONE;
    b->stage_limit = LT_MAX(b->stage_limit, (int64_t)ceil(fmin(1 / how->val_fraction, 1e15)));
    TRY(path_join(path, how->out, STAGE_NAME, err));
    return file_create(&b->stage, path, err);
}

static Status read_pairs(Builder *b, DataBuilt *out, Err *err)
{
    PairBuild p = {.how = b->how,
                   .tokenizer = b->tokenizer,
                   .source = b->source,
                   .split = {b->split[0], b->split[1]}};
    TRY(build_pairs(&p, err));
    b->documents = p.documents;
    for (int i = 0; i < 2; i++) {
        b->text_bytes[i] = p.text_bytes[i];
        b->texts[i] = p.texts[i];
        out->lone[i] = p.texts[i] == 1;
    }
    out->meta.pairs = p.meta;
    out->meta.empty_documents = p.empty;
    out->unpaired = p.unpaired;
    return ERR_NONE;
}

static Status finish(Builder *b, DataBuilt *out, Err *err)
{
    TextStats st;
    text_source_stats(b->source, &st);
    const int64_t empty = out->meta.empty_documents + st.empty;
    if (b->documents == 0)
        return err_set(err, ERR_USAGE, "%s: no text in it (%lld file%s, %lld empty document%s)",
                       b->how->input, (long long)st.files, plural_s(st.files), (long long)empty,
                       plural_s(empty));
    out->split_by_stream = b->staging && b->documents < DATA_SPLIT_DOCUMENTS;
    if (b->staging) TRY(unstage(b, true, err));
    DataMeta *m = &out->meta;
    m->tokenizer = tokenizer_fingerprint(b->tokenizer);
    m->vocab_size = tokenizer_vocab_size(b->tokenizer);
    m->end_token = b->end_token;
    m->token_bytes = m->vocab_size > WIDE_VOCAB ? 4 : 2;
    m->empty_documents = empty;
    snprintf(m->kind, sizeof m->kind, "%s", tokenizer_kind(b->tokenizer));
    for (int i = 0; i < 2; i++) {
        TRY(split_writer_finish(b->split[i], &m->split[i], err));
        m->split[i].text_bytes = b->text_bytes[i];
        m->split[i].texts = b->texts[i];
    }
    out->files = st.files;
    out->marks = st.marks;
    out->skipped_files = st.skipped;
    snprintf(out->first_skipped, sizeof out->first_skipped, "%s", st.first_skipped);
    TRY(tokenizer_save(b->tokenizer, b->how->out, err));
    TRY(data_meta_write(m, b->how->out, err));
    char path[PATH_CAP];
    TRY(path_join(path, b->how->out, META_MARKER, err));
    return file_remove(path, err);
}

Status data_build(const DataBuild *how, const Tokenizer *t, DataBuilt *out, Err *err)
{
    *out = (DataBuilt){0};
    if (how->shard_tokens < 1 || how->shard_tokens > SHARD_MAX_TOKENS)
        return err_set(err, ERR_USAGE, "shard_tokens=%lld: a shard holds 1 to %lld tokens",
                       (long long)how->shard_tokens, (long long)SHARD_MAX_TOKENS);
    TRY(check_folder(how->out, err));
    const bool was_there = file_exists(how->out);
    Builder b = {.how = how,
                 .tokenizer = t,
                 .end_token = tokenizer_end_token(t),
                 .stage = {.fd = -1},
                 .started = clock_seconds()};
    Status s = text_source_open(&b.source, how->input, how->separator, err);
    if (s == ERR_NONE) s = file_mkdirs(how->out, err);
    const bool made = s == ERR_NONE;
    if (s == ERR_NONE) s = open_outputs(&b, err);
    if (s == ERR_NONE) s = encode_batch_init(&b.batch, t, how->allow_special, how->threads, err);
    if (s == ERR_NONE) s = how->pairs ? read_pairs(&b, out, err) : read_all(&b, err);
    if (s == ERR_NONE) s = finish(&b, out, err);
    out->seconds = clock_seconds() - b.started;
    encode_batch_free(&b.batch);
    file_abandon(&b.stage);
    for (int i = 0; i < 2; i++) split_writer_close(b.split[i]);
    text_source_close(b.source);
    mem_free(b.staged);
    if (s != ERR_NONE) {
        data_meta_free(&out->meta);
        if (made) clean_folder(how->out, was_there);
    }
    return s;
}
