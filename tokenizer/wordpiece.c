// wordpiece.c -- WordPiece (Schuster, Nakajima: "Japanese and Korean voice search", 2012; as in
// BERT): a word becomes the longest token it begins with, then the longest that goes on with it,
// and so on.
//
//     unaffable  ->  un ##aff ##able          a token that goes on with a word is written "##..."
//
// A word that cannot be covered so, or that is too long, is the one token [UNK]. What is encoded
// here is a piece of pretoken.h: its words come from bert_normalize. Above this, piece_encode.c
// remembers the ids of pieces, so that most words are normalised and matched once.
//
// Decoding joins tokens with spaces, takes the "##" off, and with clean-up takes the space in front
// of marks and contractions away, token by token: the text of Hugging Face's WordPiece decoder.
//
// SPDX-License-Identifier: MIT
#include "engine/base/mem.h"
#include "tokenizer/tokenizer_impl.h"

#include <string.h>

enum { HASHES = 2 };

const char *const wordpiece_specials[WORDPIECE_SPECIALS] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]",
                                                            "[MASK]"};

void wordpiece_name_tokens(Tokenizer *t)
{
    t->word.unknown = tokenizer_special(t, "[UNK]");
    t->word.before = tokenizer_special(t, "[CLS]");
    t->word.after = tokenizer_special(t, "[SEP]");
}

// The plain token of these bytes, or -1; PIECE_MAX bytes may be read.
static int32_t find(const Tokenizer *t, const uint8_t *p, int64_t n)
{
    if (n > PIECE_MAX) return vocab_find(t, p, (size_t)n);
    const PieceKey key = piece_key(p, n, PIECE_MAX);
    return piece_find(t, &key, n, piece_key_hash(&key, n));
}

// Appends the tokens of a word; false when it cannot be covered. The word is overwritten: the "##"
// of a token is put where the end of the token before it was. Two bytes in front of it are ours,
// too.
static bool match(const Tokenizer *t, uint8_t *word, int64_t n, TokenIds *out)
{
    uint8_t *p = word, *const end = word + n;
    for (int64_t mark = 0; p + mark < end; mark = HASHES) {
        int64_t len = LT_MIN(end - p, (int64_t)t->word.longest);
        int32_t id = -1;
        for (; len > mark; len--) {
            if (p + len < end && (p[len] & 0xC0) == 0x80) continue; // inside a character
            id = find(t, p, len);
            if (id >= 0) break;
        }
        if (id < 0) return false;
        out->id[out->n++] = id;
        p += len - HASHES;
        if (p + HASHES < end) memset(p, '#', HASHES);
    }
    return true;
}

Status wordpiece_encode(const Tokenizer *t, const uint8_t *piece, int64_t n, Buf *words,
                        TokenIds *out, Err *err)
{
    buf_clear(words);
    TRY(buf_append(words, "  ", HASHES, err));
    TRY(bert_normalize(t->word.steps, piece, (size_t)n, words, err));
    const size_t len = words->len;
    TRY(buf_append(words, (const char[PIECE_MAX]){0}, PIECE_MAX, err)); // find may read these
    const char *at = words->data + HASHES, *const end = words->data + len;
    int64_t bytes, chars;
    for (const char *w; (w = bert_word(&at, end, &bytes, &chars));) {
        const int64_t first = out->n;
        TRY(token_ids_reserve(out, LT_MIN(chars, (int64_t)BERT_WORD_MAX) + 1, err));
        uint8_t *const word = (uint8_t *)words->data + (w - words->data);
        if (chars <= t->word.max_chars && match(t, word, bytes, out)) continue;
        out->n = first;
        out->id[out->n++] = t->word.unknown;
    }
    return ERR_NONE;
}

// Decoding ---------------------------------------------------------------------------------------

static Status replace_all(Buf *text, const char *from, const char *to, Err *err)
{
    const size_t n = strlen(from), m = strlen(to); // m < n
    char *at = text->data, *out = at, *const end = at + text->len;
    while (at < end) {
        if ((size_t)(end - at) >= n && memcmp(at, from, n) == 0) {
            memcpy(out, to, m);
            out += m;
            at += n;
        } else {
            *out++ = *at++;
        }
    }
    text->len = (size_t)(out - text->data);
    return buf_append(text, "", 0, err);
}

static Status clean_up(Buf *text, Err *err)
{
    static const char *const rules[][2] = {{" .", "."},     {" ?", "?"},           {" !", "!"},
                                           {" ,", ","},     {" ' ", "'"},          {" n't", "n't"},
                                           {" 'm", "'m"},   {" do not", " don't"}, {" 's", "'s"},
                                           {" 've", "'ve"}, {" 're", "'re"}};
    for (size_t i = 0; i < LT_COUNT(rules); i++)
        TRY(replace_all(text, rules[i][0], rules[i][1], err));
    return ERR_NONE;
}

Status wordpiece_decode(const Tokenizer *t, int32_t id, bool first, Buf *text, Buf *out, Err *err)
{
    const char *token = token_bytes(t, id);
    const size_t n = (size_t)t->token[id].bytes;
    const bool goes_on = !first && wordpiece_goes_on(t, id);
    buf_clear(text);
    if (!first && !goes_on) TRY(buf_append(text, " ", 1, err));
    TRY(buf_append(text, token + (goes_on ? HASHES : 0), n - (goes_on ? HASHES : 0), err));
    // Rules begin with a space and one of these.
    const bool rules = memchr(token, ' ', n) || memchr(".?!,'nd", *token, 7);
    if (t->word.clean_up && rules) TRY(clean_up(text, err));
    return buf_append(out, text->data, text->len, err);
}
