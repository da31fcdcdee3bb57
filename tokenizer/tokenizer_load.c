// tokenizer_load.c -- finds out what a path names and calls the loader for it.
//
// SPDX-License-Identifier: MIT
#include "engine/base/file.h"
#include "tokenizer/tokenizer_impl.h"

#include <ctype.h>
#include <string.h>

// The first of `names` that exists in dir: its path in out, true.
static Status find_in(const char *dir, const char *const names[2], char out[PATH_CAP], bool *found,
                      Err *err)
{
    *found = false;
    for (int i = 0; i < 2 && !*found; i++) {
        TRY(path_join(out, dir, names[i], err));
        *found = file_exists(out);
    }
    return ERR_NONE;
}

static const char *const vocab_names[2] = {"vocab.json", "encoder.json"};
static const char *const merge_names[2] = {"merges.txt", "vocab.bpe"};

// Is a file a vocab.txt? By its name or by a line that all of them have and rank files have not.
static bool is_vocab_txt(const char *path, const Buf *text)
{
    static const char line[] = "[UNK]", name[] = "vocab.txt";
    const size_t n = strlen(path), k = sizeof name - 1;
    if (n >= k && strcmp(path + n - k, name) == 0) return true;
    for (const char *p = text->data; p && (p = strstr(p, line)); p++) {
        const char after = p[sizeof line - 1];
        if ((p == text->data || p[-1] == '\n') && (after == '\n' || after == '\r')) return true;
    }
    return false;
}

static Status not_for(const char *what, PretokenPattern pattern, Err *err)
{
    return err_set(err, ERR_USAGE, "the pattern %s is not one for %s", pretoken_name(pattern),
                   what);
}

static Status load_lines(Tokenizer **out, const char *path, const Buf *text,
                         PretokenPattern pattern, Err *err)
{
    const bool bert = pretoken_is_bert(pattern);
    if (is_vocab_txt(path, text)) {
        if (pattern != PRETOKEN_NONE && !bert) return not_for("a vocab.txt", pattern, err);
        return load_vocab_txt(out, path, text, pattern, err);
    }
    if (bert) return not_for("a rank file", pattern, err);
    return load_ranks(out, text, pattern, err);
}

static Status load_file(Tokenizer **out, const char *path, PretokenPattern pattern, Err *err)
{
    Buf text = {0};
    Status s = file_read(path, &text, err);
    size_t i = 0;
    while (i < text.len && isspace((unsigned char)text.data[i])) i++;
    if (s == ERR_NONE && i == text.len)
        s = err_set(err, ERR_FORMAT, "the file is empty");
    else if (s == ERR_NONE && text.data[i] == '{' && strcmp(path_base(path), "vocab.txt") != 0)
        s = load_hf_json(out, &text, err);
    else if (s == ERR_NONE)
        s = load_lines(out, path, &text, pattern, err);
    buf_free(&text);
    return s;
}

static Status load_two(Tokenizer **out, const char *vocab, const char *merges,
                       PretokenPattern pattern, Err *err)
{
    if (pretoken_is_bert(pattern)) return not_for("vocab.json with merges.txt", pattern, err);
    return load_gpt2_files(out, vocab, merges, pattern == PRETOKEN_NONE ? PRETOKEN_GPT2 : pattern,
                           err);
}

static Status load_dir(Tokenizer **out, const char *dir, PretokenPattern pattern, Err *err)
{
    char vocab[PATH_CAP], merges[PATH_CAP];
    bool found;
    TRY(path_join(vocab, dir, "tokenizer.json", err));
    if (file_exists(vocab)) {
        TRY_CTX(load_file(out, vocab, pattern, err), err, "reading %s", vocab);
        return ERR_NONE;
    }
    TRY(find_in(dir, vocab_names, vocab, &found, err));
    if (found) TRY(find_in(dir, merge_names, merges, &found, err));
    if (found) return load_two(out, vocab, merges, pattern, err);
    TRY(path_join(vocab, dir, "vocab.txt", err));
    if (file_exists(vocab)) {
        TRY_CTX(load_file(out, vocab, pattern, err), err, "reading %s", vocab);
        return ERR_NONE;
    }
    const Status s = err_set(err, ERR_USAGE,
                             "no tokenizer in this folder: neither tokenizer.json nor vocab.json "
                             "with merges.txt (encoder.json with vocab.bpe) nor vocab.txt");
    err_hint(err, "make one with `lathe tokenizer train`");
    return s;
}

// A path to one file of the two-file form stands for both.
static bool is_one_of_two(const char *path)
{
    for (int i = 0; i < 2; i++)
        if (strcmp(path_base(path), vocab_names[i]) == 0 ||
            strcmp(path_base(path), merge_names[i]) == 0)
            return true;
    return false;
}

static Status load_any(Tokenizer **out, const char *path, PretokenPattern pattern, Err *err)
{
    if (file_is_dir(path)) return load_dir(out, path, pattern, err);
    if (!is_one_of_two(path)) return load_file(out, path, pattern, err);
    char dir[PATH_CAP], vocab[PATH_CAP], merges[PATH_CAP];
    bool found;
    TRY(path_dir(dir, path, err));
    TRY(find_in(dir, vocab_names, vocab, &found, err));
    if (found) TRY(find_in(dir, merge_names, merges, &found, err));
    if (!found)
        return err_set(err, ERR_USAGE,
                       "vocab.json needs merges.txt beside it (encoder.json: vocab.bpe)");
    return load_two(out, vocab, merges, pattern, err);
}

Status tokenizer_load(Tokenizer **out, const char *path, const char *pattern, Err *err)
{
    *out = NULL;
    PretokenPattern asked = PRETOKEN_NONE;
    const bool choose = !pattern || !*pattern;
    if (!choose && !pretoken_by_name(pattern, &asked))
        return err_set(err, ERR_USAGE,
                       "no pattern is called \"%s\" (for the tokenizer %s): gpt2 and "
                       "cl100k are, and for WordPiece uncased, cased and lower",
                       pattern, path);
    Tokenizer *t = NULL;
    TRY_CTX(load_any(&t, path, asked, err), err, "loading the tokenizer %s", path);
    if (!choose && t->pattern != asked) {
        const Status s = err_set(err, ERR_USAGE, "the tokenizer %s has the pattern %s, not %s",
                                 path, pretoken_name(t->pattern), pattern);
        tokenizer_close(t);
        return s;
    }
    *out = t;
    return ERR_NONE;
}
