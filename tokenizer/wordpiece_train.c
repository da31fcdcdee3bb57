// wordpiece_train.c -- learns a WordPiece vocabulary.
//
// The words of the text, normalised, are counted; then pairs are merged as for BPE (bpe_train.c),
// the most frequent first, where the symbols of a word are its characters, all but the first
// written "##x". So does Hugging Face's trainer (the first description of WordPiece chose pairs by
// the gain in likelihood; the vocabularies differ little). What a merge makes becomes a token; the
// merges themselves are forgotten, for encoding takes the longest token that fits (wordpiece.c).
//
// ids: [PAD] [UNK] [CLS] [SEP] [MASK]; the characters, in the order of their bytes, first those
// that begin a word; the merged tokens in the order in which they were found. Of characters ("x"
// and "##x" count as two) the most frequent are taken, ALPHABET at most; a word with another
// character would be [UNK] and is left out, and so is a word that is too long to be encoded.
//
// SPDX-License-Identifier: MIT
#include "engine/base/mem.h"
#include "tokenizer/tokenizer_impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ALPHABET = 2000 };

size_t wordpiece_symbol(const char *word, int64_t at, int64_t bytes, char *name, int64_t *len)
{
    const uint8_t *p = (const uint8_t *)word;
    const size_t hashes = at > 0 ? 2 : 0;
    int n;
    (void)utf8_decode(p + at, p + bytes, &n);
    *len = n;
    memcpy(name, "##", hashes);
    memcpy(name + hashes, word + at, (size_t)n);
    return hashes + (size_t)n;
}

// The words that the pieces of a text become.
static Status normalize_words(const WordCount *pieces, const WordRules *rules, WordCount *words,
                              Err *err)
{
    Buf text = {0};
    Status s = ERR_NONE;
    for (int64_t k = 0; k < pieces->n && s == ERR_NONE; k++) {
        const Word *piece = &pieces->word[k];
        const uint8_t *bytes = (const uint8_t *)pieces->text.data + piece->at;
        buf_clear(&text);
        s = bert_normalize(rules->steps, bytes, (size_t)piece->bytes, &text, err);
        const char *at = text.data, *const end = at + text.len;
        int64_t n, chars;
        for (const char *w; s == ERR_NONE && (w = bert_word(&at, end, &n, &chars));)
            if (chars <= rules->max_chars) s = word_count_add(words, w, n, piece->count, err);
    }
    buf_free(&text);
    return s;
}

// The alphabet -----------------------------------------------------------------------------------

typedef struct Symbol {
    const char *name;
    int64_t bytes, count;
} Symbol;

static int by_name(const void *pa, const void *pb)
{
    const Symbol *a = pa, *b = pb;
    const bool x = a->bytes > 2 && memcmp(a->name, "##", 2) == 0;
    const bool y = b->bytes > 2 && memcmp(b->name, "##", 2) == 0;
    if (x != y) return x ? 1 : -1;
    const int order = memcmp(a->name, b->name, (size_t)LT_MIN(a->bytes, b->bytes));
    return order ? order : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static int by_count(const void *pa, const void *pb)
{
    const Symbol *a = pa, *b = pb;
    if (a->count != b->count) return a->count > b->count ? -1 : 1;
    return by_name(pa, pb);
}

static Status count_symbols(const WordCount *words, WordCount *symbols, Err *err)
{
    for (int64_t k = 0; k < words->n; k++) {
        const Word *w = &words->word[k];
        int64_t len;
        for (int64_t at = 0; at < w->bytes; at += len) {
            char name[WORDPIECE_SYMBOL];
            const size_t n = wordpiece_symbol(words->text.data + w->at, at, w->bytes, name, &len);
            TRY(word_count_add(symbols, name, (int64_t)n, w->count, err));
        }
    }
    return ERR_NONE;
}

static Status add_alphabet(Tokenizer *vocab, int64_t vocab_size, const WordCount *symbols, Err *err)
{
    Symbol *list = mem_alloc((size_t)symbols->n * sizeof *list);
    if (!list) return mem_err(err, (size_t)symbols->n * sizeof *list, "tokenizer training");
    for (int64_t k = 0; k < symbols->n; k++) {
        const Word *w = &symbols->word[k];
        list[k] = (Symbol){symbols->text.data + w->at, w->bytes, w->count};
    }
    const int64_t room = LT_MIN((int64_t)ALPHABET, vocab_size - vocab->n);
    const int64_t n = LT_MIN(symbols->n, room);
    qsort(list, (size_t)symbols->n, sizeof *list, by_count);
    qsort(list, (size_t)n, sizeof *list, by_name);
    Status s = ERR_NONE;
    for (int64_t k = 0; k < n && s == ERR_NONE; k++)
        s = vocab_add(vocab, vocab->n, list[k].name, (size_t)list[k].bytes, TOKEN_PLAIN, err);
    mem_free(list);
    return s;
}

// Sets the count of words to 0 that have a character the vocabulary has not.
static void leave_out_unknown(const Tokenizer *vocab, WordCount *words)
{
    for (int64_t k = 0; k < words->n; k++) {
        Word *w = &words->word[k];
        int64_t len;
        for (int64_t at = 0; at < w->bytes && w->count > 0; at += len) {
            char name[WORDPIECE_SYMBOL];
            const size_t n = wordpiece_symbol(words->text.data + w->at, at, w->bytes, name, &len);
            if (vocab_find(vocab, name, n) < 0) w->count = 0;
        }
    }
}

static Status learn(Tokenizer *vocab, int64_t vocab_size, WordCount *words, const OnProgress *on,
                    Err *err)
{
    WordCount symbols = {0};
    if (words->n == 0) return err_set(err, ERR_FORMAT, "the text has no words");
    for (int id = 0; id < WORDPIECE_SPECIALS; id++) {
        const char *special = wordpiece_specials[id];
        TRY(vocab_add(vocab, id, special, strlen(special), TOKEN_SPECIAL, err));
    }
    Status s = count_symbols(words, &symbols, err);
    if (s == ERR_NONE) s = add_alphabet(vocab, vocab_size, &symbols, err);
    word_count_free(&symbols);
    if (s != ERR_NONE) return s;
    leave_out_unknown(vocab, words);
    TRY(bpe_learn(vocab, vocab_size, words, on, NULL, err));
    wordpiece_name_tokens(vocab);
    return tokenizer_finish(vocab, err);
}

Status wordpiece_check_size(int64_t vocab_size, Err *err)
{
    const int64_t least = WORDPIECE_SPECIALS + 1;
    if (vocab_size >= least && vocab_size <= TOKEN_MAX_ID) return ERR_NONE;
    const Status wrong =
        err_set(err, ERR_USAGE, "vocab_size %" PRId64 " is not between %" PRId64 " and %d",
                vocab_size, least, TOKEN_MAX_ID);
    err_hint(err, "five ids are special tokens, the others characters and parts of words; BERT has "
                  "30522, and 4096 suits a small model");
    return wrong;
}

Status wordpiece_train(Tokenizer **out, PretokenPattern pattern, int64_t vocab_size,
                       WordCount *words, const OnProgress *on, Err *err)
{
    Tokenizer *vocab = NULL;
    WordCount normal = {0};
    Status s = tokenizer_new(&vocab, KIND_WORDPIECE, pattern, err);
    if (s == ERR_NONE) {
        vocab->word.steps = bert_steps(pattern);
        s = normalize_words(words, &vocab->word, &normal, err);
        word_count_free(words);
    }
    if (s == ERR_NONE) s = learn(vocab, vocab_size, &normal, on, err);
    word_count_free(&normal);
    if (s != ERR_NONE) {
        tokenizer_close(vocab);
        return s;
    }
    *out = vocab;
    return ERR_NONE;
}
