// load_ranks.c -- tiktoken's rank files: a line a token, its bytes in base64, a space, its rank.
//
// Ranks are ids. Merges are not listed: any two tokens whose bytes together are a token merge, the
// smallest rank first. Neither the pattern nor the special tokens are in the file; both follow from
// the number of ranks, or the caller names the pattern and the end token follows the last rank.
//
// SPDX-License-Identifier: MIT
#include "tokenizer/tokenizer_impl.h"

#include <inttypes.h>
#include <string.h>

enum { GPT2_RANKS = 50256, CL100K_RANKS = 100256 };

static int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

// n characters to out; the number of bytes, or -1 when it is not base64.
static int64_t base64_read(const char *p, size_t n, uint8_t *out)
{
    if (n == 0 || n % 4) return -1;
    const size_t pad = p[n - 1] != '=' ? 0 : p[n - 2] != '=' ? 1 : 2;
    int64_t bytes = 0;
    for (size_t i = 0; i < n; i += 4) {
        uint32_t bits = 0;
        const size_t keep = i + 4 == n ? 4 - pad : 4;
        for (size_t k = 0; k < 4; k++) {
            const int d = k < keep ? base64_digit(p[i + k]) : 0;
            if (d < 0) return -1;
            bits = bits << 6 | (uint32_t)d;
        }
        for (size_t k = 0; k + 1 < keep; k++) out[bytes++] = (uint8_t)(bits >> (16 - 8 * k));
    }
    return bytes;
}

static Status read_line(Tokenizer *t, const char *line, size_t n, int64_t number, Buf *bytes,
                        Err *err)
{
    const char *space = memchr(line, ' ', n);
    int64_t rank = 0;
    int64_t len = -1;
    bool good = space && space + 1 < line + n && line + n - space <= 10;
    if (good) {
        buf_clear(bytes);
        TRY(buf_reserve(bytes, n, err));
        len = base64_read(line, (size_t)(space - line), (uint8_t *)bytes->data);
        for (const char *p = space + 1; p < line + n; p++) {
            good = good && *p >= '0' && *p <= '9';
            rank = 10 * rank + (*p - '0');
        }
    }
    if (!good || len < 0)
        return err_set(err, ERR_FORMAT,
                       "line %" PRId64 " is not a token in base64, a space and its rank", number);
    TRY_CTX(vocab_add(t, rank, bytes->data, (size_t)len, TOKEN_PLAIN, err), err,
            "reading line %" PRId64, number);
    return ERR_NONE;
}

static Status read_lines(Tokenizer *t, const Buf *text, Err *err)
{
    Buf bytes = {0};
    const char *p = text->data, *const end = p + text->len;
    Status s = ERR_NONE;
    for (int64_t number = 1; p < end && s == ERR_NONE; number++) {
        const char *eol = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((eol ? eol : end) - p);
        if (n > 0 && p[n - 1] == '\r') n--;
        if (n > 0) s = read_line(t, p, n, number, &bytes, err);
        p = eol ? eol + 1 : end;
    }
    buf_free(&bytes);
    return s;
}

static Status add_specials(Tokenizer *t, int64_t ranks, Err *err)
{
    static const struct {
        int behind; // the last rank
        const char *text;
    } cl100k[] = {
        {1, "<|endoftext|>"},  {2, "<|fim_prefix|>"},   {3, "<|fim_middle|>"},
        {4, "<|fim_suffix|>"}, {20, "<|endofprompt|>"},
    };
    if (t->pattern != PRETOKEN_CL100K || ranks != CL100K_RANKS)
        return vocab_add(t, ranks, "<|endoftext|>", 13, TOKEN_SPECIAL, err);
    for (size_t i = 0; i < LT_COUNT(cl100k); i++)
        TRY(vocab_add(t, ranks + cl100k[i].behind, cl100k[i].text, strlen(cl100k[i].text),
                      TOKEN_SPECIAL, err));
    return ERR_NONE;
}

static Status read_ranks(Tokenizer *t, const Buf *text, bool choose, Err *err)
{
    TRY(read_lines(t, text, err));
    const int64_t ranks = t->n;
    if (ranks == 0) return err_set(err, ERR_FORMAT, "the vocabulary is empty");
    if (choose && ranks != GPT2_RANKS && ranks != CL100K_RANKS) {
        const Status wrong = err_set(
            err, ERR_USAGE, "a rank file of %" PRId64 " ranks is neither gpt2 nor cl100k", ranks);
        err_hint(err, "name its pattern with --pattern=gpt2 or --pattern=cl100k");
        return wrong;
    }
    if (choose) t->pattern = ranks == GPT2_RANKS ? PRETOKEN_GPT2 : PRETOKEN_CL100K;
    t->whole_first = true;
    TRY(vocab_all_splits(t, err));
    TRY(add_specials(t, ranks, err));
    return tokenizer_finish(t, err);
}

Status load_ranks(Tokenizer **out, const Buf *text, PretokenPattern pattern, Err *err)
{
    Tokenizer *t = NULL;
    TRY(tokenizer_new(&t, KIND_BPE, pattern, err));
    vocab_expect(t, (int64_t)(text->len / 7 + 1)); // the shortest line: "AA== 0" and its end
    const Status s = read_ranks(t, text, pattern == PRETOKEN_NONE, err);
    if (s != ERR_NONE) {
        tokenizer_close(t);
        return s;
    }
    *out = t;
    return ERR_NONE;
}
