// cmd_tokenizer.c -- lathe tokenizer train | encode | decode.
//
//   train   --input=FILE|DIR|- --type=bpe|wordpiece|char --vocab_size=N --out=DIR [--pattern=...]
//   encode  --tokenizer=DIR|FILE [--allow_special] [--add_special] [FILE ...]
//           ids in decimal, one line a file
//   decode  --tokenizer=DIR|FILE [FILE ...]
//           the inverse: exact bytes; of WordPiece, readable text
//
// encode and decode read standard input when no file is named (or "-"); they write to standard
// output.
//
// SPDX-License-Identifier: MIT
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/cli/cli.h"
#include "engine/data/text_source.h"
#include "engine/report/progress.h"
#include "tokenizer/tokenizer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// RANGE: bytes of text, or ids, between two looks at the clock.
enum { DEFAULT_VOCAB = 4096, STDIN_FD = 0, RANGE = 16 << 20 };

static Status write_out(const Buf *text, Err *err)
{
    if (text->len && fwrite(text->data, 1, text->len, stdout) != text->len)
        return err_errno(err, errno, "write to standard output");
    return ERR_NONE;
}

static Status flush_out(Err *err)
{
    return fflush(stdout) ? err_errno(err, errno, "write to standard output") : ERR_NONE;
}

// Appends a file, or everything that standard input has, to `out`.
static Status read_input(const char *path, Buf *out, Err *err)
{
    if (strcmp(path, "-") == 0) return file_read_fd(STDIN_FD, "standard input", out, err);
    if (file_is_dir(path)) return err_set(err, ERR_USAGE, "%s is a folder, not a file", path);
    return file_read(path, out, err);
}

// Gives all documents of a file, a folder or standard input to the trainer.
static Status feed(TokenizerTrainer *r, const char *input, Progress *p, uint64_t *bytes, Err *err)
{
    TextSource *source = NULL;
    TRY(text_source_open(&source, input, "", err));
    text_source_in_parts(source);
    TextDocument doc;
    bool more;
    Status s = text_source_next(source, &doc, &more, err);
    for (; s == ERR_NONE && more; s = text_source_next(source, &doc, &more, err)) {
        s = tokenizer_trainer_add(r, doc.text, doc.bytes, doc.more, err);
        if (s == ERR_NONE && doc.completion)
            s = tokenizer_trainer_add(r, doc.completion, doc.completion_bytes, false, err);
        if (s != ERR_NONE) break;
        *bytes += doc.bytes + doc.completion_bytes;
        TextStats stats;
        text_source_stats(source, &stats);
        progress_at(p, (double)stats.bytes_consumed, (double)stats.bytes_total);
    }
    text_source_close(source);
    return s;
}

// Data and models name a tokenizer by its ids: one that exists is not replaced.
static Status refuse_existing(const char *dir, Err *err)
{
    char path[PATH_CAP];
    TRY(path_join(path, dir, "tokenizer.json", err));
    if (!file_exists(path)) return ERR_NONE;
    const Status s = err_set(err, ERR_USAGE, "%s has a tokenizer already", dir);
    err_hint(err, "name another --out, or remove %s first", path);
    return s;
}

static Status train(const Options *o, Err *err)
{
    const bool merges = strcmp(o->type, "char") != 0;
    if (o->n_args > 1)
        return err_set(err, ERR_USAGE, "\"%s\" is not expected: the text is named by --input",
                       o->args[1]);
    TRY(refuse_existing(o->out, err));
    const int64_t vocab_size = o->vocab_size > 0 ? o->vocab_size : DEFAULT_VOCAB;

    const TokenizerTrain how = {.type = o->type,
                                .vocab_size = vocab_size,
                                .threads = cli_threads(o),
                                .pattern = o->pattern};
    TokenizerTrainer *r = NULL;
    Tokenizer *t = NULL;
    uint64_t bytes = 0;
    Progress p;
    TRY(tokenizer_trainer_open(&r, &how, err));
    progress_begin(&p, "counting words", NULL, o->progress_after);
    Status s = feed(r, o->input, &p, &bytes, err);
    progress_end(&p);
    progress_begin(&p, "merging", "ids", o->progress_after);
    const OnProgress on = progress_listener(&p);
    if (s == ERR_NONE) s = tokenizer_trainer_finish(r, &on, &t, err);
    progress_end(&p);
    tokenizer_trainer_close(r);
    if (s == ERR_NONE) s = tokenizer_save(t, o->out, err);
    if (s == ERR_NONE) {
        const int64_t got = tokenizer_vocab_size(t);
        if (merges && got < vocab_size)
            log_warn("the text has no more pairs that occur twice: %" PRId64 " ids, not %" PRId64,
                     got, vocab_size);
        log_note("%s: %s tokenizer, %" PRId64 " ids, from %" PRIu64 " bytes of text", o->out,
                 tokenizer_kind(t), got, bytes);
    }
    tokenizer_close(t);
    return s;
}

// Writes ids in decimal, a space between two.
static Status write_ids(const TokenIds *ids, bool first, Buf *line, Err *err)
{
    buf_clear(line);
    TRY(buf_reserve(line, (size_t)ids->n * 11 + 1, err));
    for (int64_t i = 0; i < ids->n; i++) {
        char digits[12];
        int n = 0;
        int32_t id = ids->id[i];
        do digits[n++] = (char)('0' + id % 10);
        while ((id /= 10) > 0);
        if (i > 0 || !first) line->data[line->len++] = ' ';
        while (n > 0) line->data[line->len++] = digits[--n];
    }
    return write_out(line, err);
}

// --add_special: the ids to put around a text; -1: none.
static Status ids_around(const Tokenizer *t, const Options *o, int32_t *before, int32_t *after,
                         Err *err)
{
    *before = *after = -1;
    if (!o->add_special) return ERR_NONE;
    tokenizer_around(t, before, after);
    if (*before >= 0 || *after >= 0) return ERR_NONE;
    const Status s =
        err_set(err, ERR_USAGE, "this %s tokenizer puts no special tokens around a text",
                tokenizer_kind(t));
    err_hint(err, "encode without --add_special");
    return s;
}

static Status encode_one(const Tokenizer *t, const Options *o, const char *path, Err *err)
{
    int32_t before, after;
    TRY(ids_around(t, o, &before, &after, err));
    Buf text = {0}, line = {0};
    TokenIds ids = {0};
    Progress p;
    progress_begin(&p, "encoding", NULL, o->progress_after);
    Status s = read_input(path, &text, err);
    bool first = true; // no id was written yet
    if (s == ERR_NONE && before >= 0) s = token_ids_push(&ids, before, err);
    for (size_t at = 0; s == ERR_NONE && at < text.len;) {
        const size_t to = tokenizer_cut(t, text.data, text.len, at + RANGE, o->allow_special);
        s = tokenizer_encode_range(t, text.data, at, to, o->allow_special, cli_threads(o), &ids,
                                   err);
        if (s == ERR_NONE) s = write_ids(&ids, first, &line, err);
        first = first && ids.n == 0;
        ids.n = 0;
        at = to;
        progress_at(&p, (double)at, (double)text.len);
    }
    progress_end(&p);
    if (s == ERR_NONE && after >= 0) s = token_ids_push(&ids, after, err);
    if (s == ERR_NONE) s = write_ids(&ids, first, &line, err);
    buf_clear(&line);
    if (s == ERR_NONE) s = buf_append(&line, "\n", 1, err);
    if (s == ERR_NONE) s = write_out(&line, err);
    buf_free(&text);
    buf_free(&line);
    token_ids_free(&ids);
    return s;
}

static Status parse_ids(const Buf *text, TokenIds *ids, Progress *progress, Err *err)
{
    const char *p = text->data, *const end = p + text->len;
    while (p < end) {
        if (*p == ' ' || (*p >= '\t' && *p <= '\r')) {
            p++;
            continue;
        }
        const char *word = p;
        int64_t id = 0;
        while (p < end && *p >= '0' && *p <= '9' && id <= INT32_MAX) id = 10 * id + (*p++ - '0');
        const bool ends = p == end || *p == ' ' || (*p >= '\t' && *p <= '\r');
        if (!ends || id > INT32_MAX) {
            const int64_t left = end - word;
            return err_set(err, ERR_FORMAT, "\"%.*s\" at offset %" PRId64 " is not a token id",
                           (int)LT_MIN(strcspn(word, " \t\r\n"), (size_t)LT_MIN(left, 40)), word,
                           (int64_t)(word - text->data));
        }
        TRY(token_ids_push(ids, (int32_t)id, err));
        if (ids->n % RANGE == 0) progress_at(progress, (double)(p - text->data), (double)text->len);
    }
    return ERR_NONE;
}

static Status decode_one(const Tokenizer *t, const Options *o, const char *path, Err *err)
{
    Buf text = {0}, bytes = {0};
    TokenIds ids = {0};
    Progress p;
    progress_begin(&p, "decoding", NULL, o->progress_after);
    Status s = read_input(path, &text, err);
    if (s == ERR_NONE) s = parse_ids(&text, &ids, &p, err);
    progress_end(&p);
    if (s == ERR_NONE) s = tokenizer_decode(t, ids.id, ids.n, &bytes, err);
    if (s == ERR_NONE) s = write_out(&bytes, err);
    buf_free(&text);
    buf_free(&bytes);
    token_ids_free(&ids);
    return s;
}

// Loads the tokenizer and does `one` for each file named, or for standard input.
static Status each_file(const Options *o,
                        Status (*one)(const Tokenizer *, const Options *, const char *, Err *),
                        Err *err)
{
    const char *const doing = one == encode_one ? "encoding" : "decoding";
    Tokenizer *t = NULL;
    TRY(tokenizer_load(&t, o->tokenizer, o->pattern, err));
    Status s = ERR_NONE;
    for (int i = 1; i < LT_MAX(o->n_args, 2) && s == ERR_NONE; i++) {
        const char *path = i < o->n_args ? o->args[i] : "-";
        s = one(t, o, path, err);
        const char *name = strcmp(path, "-") ? path : "standard input";
        if (s != ERR_NONE) s = err_add(err, s, "%s %s", doing, name);
    }
    if (s == ERR_NONE) s = flush_out(err);
    tokenizer_close(t);
    return s;
}

Status cmd_tokenizer(const Options *o, Err *err)
{
    const char *what = o->args[0]; // one of three: the option rules saw to it
    if (strcmp(what, "train") == 0) return train(o, err);
    return each_file(o, strcmp(what, "encode") == 0 ? encode_one : decode_one, err);
}
