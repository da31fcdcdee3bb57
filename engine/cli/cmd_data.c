// cmd_data.c -- lathe data: text to a folder of token shards (engine/data/build.h), and a summary
// that says what became of every document.
//
// SPDX-License-Identifier: MIT
#include "engine/base/buf.h"
#include "engine/base/log.h"
#include "engine/cli/cli.h"
#include "engine/data/build.h"
#include "engine/data/text_source.h"
#include "engine/report/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SEPARATOR_CAP = 256 };

static void tell_split(const char *name, const MetaSplit *s)
{
    if (s->tokens == 0) {
        log_note("%s: nothing", name);
        return;
    }
    log_note("%s: %" PRId64 " token%s, %" PRId64 " document%s, %" PRId64 " byte%s of text "
             "(%.3f bytes a token), %d shard%s",
             name, s->tokens, plural_s(s->tokens), s->documents, plural_s(s->documents),
             s->text_bytes, plural_s(s->text_bytes), (double)s->text_bytes / (double)s->tokens,
             s->shards, plural_s(s->shards));
    if (s->mask.name[0])
        log_note("%s: counted under loss.mask=completion: %" PRId64 " token%s", name,
                 s->counted_tokens, plural_s(s->counted_tokens));
}

static void tell_pairs(const char *name, const MetaSplit *s)
{
    if (s->tokens == 0) {
        log_note("%s: nothing", name);
        return;
    }
    log_note("%s: %" PRId64 " pair%s of %" PRId64 " document%s, %.1f%% with a random second "
             "segment; %" PRId64 " tokens (%.1f a pair), %" PRId64 " bytes of text, %d shard%s",
             name, s->documents, plural_s(s->documents), s->texts, plural_s(s->texts),
             100 * (double)s->random_next / (double)s->documents, s->tokens,
             (double)s->tokens / (double)s->documents, s->text_bytes, s->shards,
             plural_s(s->shards));
}

static void tell_bert(const DataBuilt *b)
{
    static const char *const name[2] = {"train", "val"};
    for (int i = 0; i < 2; i++) tell_pairs(name[i], &b->meta.split[i]);
    for (int i = 0; i < 2; i++)
        if (b->lone[i])
            log_warn("%s: of one document: its random second segments are its own; "
                     "data.document_separator and sentences say where documents begin",
                     name[i]);
    if (b->unpaired)
        log_note("left out: %" PRId64 " document%s of one sentence, alone in %s split", b->unpaired,
                 plural_s(b->unpaired), b->unpaired == 1 ? "its" : "their");
}

static void tell(const DataBuilt *b, const char *out)
{
    const DataMeta *m = &b->meta;
    if (m->pairs.max_seq_length) {
        tell_bert(b);
    } else {
        tell_split("train", &m->split[0]);
        tell_split("val", &m->split[1]);
    }
    if (b->split_by_stream)
        log_note("fewer than %d documents: validation is the end of the token stream",
                 DATA_SPLIT_DOCUMENTS);
    if (m->end_token < 0)
        log_note("the tokenizer has no end token: nothing stands between documents");
    if (m->empty_documents)
        log_note("left out: %" PRId64 " empty document%s", m->empty_documents,
                 plural_s(m->empty_documents));
    if (b->skipped_files)
        log_note("not read: %" PRId64 " file%s, neither .txt nor .jsonl, such as %s",
                 b->skipped_files, plural_s(b->skipped_files), b->first_skipped);
    if (b->marks) log_note("removed: %" PRId64 " byte order mark%s", b->marks, plural_s(b->marks));
    log_note("%s: %s tokenizer of %" PRId64 " ids, fingerprint %016" PRIx64 ", %d-byte tokens, "
             "made in %.1f s",
             out, m->kind, m->vocab_size, m->tokenizer, m->token_bytes, b->seconds);
}

Status cmd_data(const Options *o, Err *err)
{
    char separator[SEPARATOR_CAP];
    TRY_CTX(text_unescape(o->data_document_separator, separator, sizeof separator, err), err,
            "reading data.document_separator");
    const bool lines = strcmp(o->sentences, "line") == 0;
    const DataPairs pairs = {.max_seq_length = o->max_seq_length,
                             .short_seq_prob = o->short_seq_prob,
                             .dupe_factor = o->dupe_factor,
                             .seed = (uint64_t)o->data_seed,
                             .lines = lines,
                             .empty_line = lines && !separator[0]};
    DataBuild how = {.input = o->input,
                     .out = o->out,
                     .separator = separator,
                     .val_fraction = o->val_fraction,
                     .shard_tokens = o->shard_tokens,
                     .allow_special = o->allow_special,
                     .pairs = strcmp(o->format, "bert") == 0 ? &pairs : NULL,
                     .threads = cli_threads(o)};
    Tokenizer *t;
    TRY(tokenizer_load(&t, o->tokenizer, o->pattern[0] ? o->pattern : NULL, err));
    DataBuilt built;
    Progress progress;
    progress_begin(&progress, "data", NULL, o->progress_after);
    how.on = progress_listener(&progress);
    const Status s = data_build(&how, t, &built, err);
    progress_end(&progress);
    tokenizer_close(t);
    TRY(s);
    tell(&built, o->out);
    data_meta_free(&built.meta);
    return ERR_NONE;
}
