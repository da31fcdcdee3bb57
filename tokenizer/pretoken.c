// pretoken.c -- see pretoken.h.
//
// SPDX-License-Identifier: MIT
#include "tokenizer/pretoken.h"
#include "engine/base/assert.h"
#include "tokenizer/unicode_class.h"

#include <string.h>

enum {
    C_OTHER = UNI_OTHER,
    C_LETTER = UNI_LETTER,
    C_NUMBER = UNI_NUMBER,
    C_SPACE = UNI_SPACE,
    C_HIGH = 4 // not ASCII, look closer
};

static const uint8_t byte_class[256] = {
    ['\t'] = C_SPACE, ['\n'] = C_SPACE, ['\v'] = C_SPACE, ['\f'] = C_SPACE, ['\r'] = C_SPACE,
    [' '] = C_SPACE,  ['0'] = C_NUMBER, ['1'] = C_NUMBER, ['2'] = C_NUMBER, ['3'] = C_NUMBER,
    ['4'] = C_NUMBER, ['5'] = C_NUMBER, ['6'] = C_NUMBER, ['7'] = C_NUMBER, ['8'] = C_NUMBER,
    ['9'] = C_NUMBER,
#define LETTER(l, u) [l] = C_LETTER, [u] = C_LETTER
    LETTER('a', 'A'), LETTER('b', 'B'), LETTER('c', 'C'), LETTER('d', 'D'), LETTER('e', 'E'),
    LETTER('f', 'F'), LETTER('g', 'G'), LETTER('h', 'H'), LETTER('i', 'I'), LETTER('j', 'J'),
    LETTER('k', 'K'), LETTER('l', 'L'), LETTER('m', 'M'), LETTER('n', 'N'), LETTER('o', 'O'),
    LETTER('p', 'P'), LETTER('q', 'Q'), LETTER('r', 'R'), LETTER('s', 'S'), LETTER('t', 'T'),
    LETTER('u', 'U'), LETTER('v', 'V'), LETTER('w', 'W'), LETTER('x', 'X'), LETTER('y', 'Y'),
    LETTER('z', 'Z'),
#undef LETTER
#define HIGH4(b)  [b] = C_HIGH, [(b) + 1] = C_HIGH, [(b) + 2] = C_HIGH, [(b) + 3] = C_HIGH
#define HIGH16(b) HIGH4(b), HIGH4((b) + 4), HIGH4((b) + 8), HIGH4((b) + 12)
    HIGH16(0x80),     HIGH16(0x90),     HIGH16(0xA0),     HIGH16(0xB0),     HIGH16(0xC0),
    HIGH16(0xD0),     HIGH16(0xE0),     HIGH16(0xF0),
#undef HIGH4
#undef HIGH16
};

// What stands where for WordPiece: all white space that is removed and not joined over, all
// punctuation of ASCII.
enum { B_WORD, B_SPACE, B_PUNCT };

static const uint8_t bert_byte[256] = {
    ['\t'] = B_SPACE,           ['\n'] = B_SPACE,
    ['\r'] = B_SPACE,           [' '] = B_SPACE,
#define PUNCT4(a, b, c, d) [a] = B_PUNCT, [b] = B_PUNCT, [c] = B_PUNCT, [d] = B_PUNCT
    PUNCT4('!', '"', '#', '$'), PUNCT4('%', '&', '\'', '('),
    PUNCT4(')', '*', '+', ','), PUNCT4('-', '.', '/', ':'),
    PUNCT4(';', '<', '=', '>'), PUNCT4('?', '@', '[', '\\'),
    PUNCT4(']', '^', '_', '`'), PUNCT4('{', '|', '}', '~'),
#undef PUNCT4
};

// Class and length of the character at p < end.
LT_INLINE int class_at(const uint8_t *p, const uint8_t *end, int *bytes)
{
    *bytes = 1;
    const int c = byte_class[*p];
    if (c != C_HIGH) return c;
    const uint32_t cp = utf8_decode(p, end, bytes);
    return cp < UTF8_INVALID ? (int)unicode_class(cp) : C_OTHER;
}

// The end of the run of characters of `class` that starts at p.
LT_INLINE const uint8_t *run_end(const uint8_t *p, const uint8_t *end, int class)
{
    for (;;) {
        while (p < end && byte_class[*p] == class) p++;
        if (p == end || byte_class[*p] != C_HIGH) return p;
        int bytes;
        if (class_at(p, end, &bytes) != class) return p;
        p += bytes;
    }
}

// Length of 's 't 'd 'm 'll 've 're at p (which is an apostrophe), or 0. With fold also in
// capitals, and with U+017F (long s), which folds to s.
LT_INLINE int contraction(const uint8_t *p, const uint8_t *end, bool fold)
{
    if (end - p < 2) return 0;
    const int up = fold ? 32 : 0;
    const int a = p[1] | up;
    if (a == 's' || a == 't' || a == 'd' || a == 'm') return 2;
    if (fold && p[1] == 0xC5 && end - p >= 3 && p[2] == 0xBF) return 3;
    if (end - p < 3) return 0;
    const int b = p[2] | up;
    return (a == 'l' && b == 'l') || (a == 'v' && b == 'e') || (a == 'r' && b == 'e') ? 3 : 0;
}

LT_INLINE const uint8_t *next_gpt2(const uint8_t *p, const uint8_t *end)
{
    if (*p == '\'') {
        const int n = contraction(p, end, false);
        if (n) return p + n;
    }
    int bytes;
    const uint8_t *q = *p == ' ' && p + 1 < end ? p + 1 : p;
    const int c = class_at(q, end, &bytes);
    if (c != C_SPACE) {
        // One loop for each class, so that each is a tight one.
        if (c == C_LETTER) return run_end(q + bytes, end, C_LETTER);
        if (c == C_NUMBER) return run_end(q + bytes, end, C_NUMBER);
        return run_end(q + bytes, end, C_OTHER);
    }
    // White space: all of it at the end of the text, else all but the last character.
    const uint8_t *last = p;
    for (q = p; q < end && class_at(q, end, &bytes) == C_SPACE; q += bytes) last = q;
    return q == end || last == p ? q : last;
}

LT_INLINE const uint8_t *next_cl100k(const uint8_t *p, const uint8_t *end, int digits, bool tail)
{
    if (*p == '\'') {
        const int n = contraction(p, end, true);
        if (n) return p + n;
    }
    int bytes, more;
    const int c = class_at(p, end, &bytes);
    if (c == C_LETTER) return run_end(p + bytes, end, C_LETTER);
    if (c == C_NUMBER) {
        p += bytes;
        for (int i = 1; i < digits && p < end && class_at(p, end, &bytes) == C_NUMBER; i++)
            p += bytes;
        return p;
    }
    const bool newline = *p == '\r' || *p == '\n';
    const uint8_t *q = p + bytes;
    const int follow = q < end ? class_at(q, end, &more) : C_SPACE;
    if (!newline && follow == C_LETTER) return run_end(q + more, end, C_LETTER);
    if (c == C_OTHER || (*p == ' ' && follow == C_OTHER)) {
        q = run_end(c == C_OTHER ? q : q + more, end, C_OTHER);
        while (q < end && (*q == '\r' || *q == '\n')) q++;
        return q;
    }
    // White space: up to its last newline if it has one (or all of it, when it ends the text and
    // `tail`), else all but its last character.
    const uint8_t *last = p, *line = NULL;
    for (q = p; q < end && class_at(q, end, &bytes) == C_SPACE; q += bytes) {
        last = q;
        if (*q == '\r' || *q == '\n') line = q + 1;
    }
    if (q == end && tail) return q;
    if (line) return line;
    return q == end || last == p ? q : last;
}

static const uint8_t *next_bert(const uint8_t *p, const uint8_t *end)
{
    while (p < end && bert_byte[*p] == B_SPACE) p++;
    if (p == end || bert_byte[*p] == B_PUNCT) return LT_MIN(p + 1, end);
    while (p < end && bert_byte[*p] == B_WORD) p++;
    return p;
}

#define SCAN(next)                                                                                 \
    while (n < cap && p < end) {                                                                   \
        p = next;                                                                                  \
        ends[n++] = p;                                                                             \
    }

int pretoken_scan(PretokenPattern pattern, const uint8_t **at, const uint8_t *end,
                  const uint8_t **ends, int cap)
{
    const uint8_t *p = *at;
    int n = 0;
    switch (pattern) {
    case PRETOKEN_GPT2: SCAN(next_gpt2(p, end)) break;
    case PRETOKEN_CL100K: SCAN(next_cl100k(p, end, 3, true)) break;
    case PRETOKEN_LLAMA3: SCAN(next_cl100k(p, end, 3, false)) break;
    case PRETOKEN_QWEN2: SCAN(next_cl100k(p, end, 1, false)) break;
    case PRETOKEN_UNCASED:
    case PRETOKEN_CASED:
    case PRETOKEN_LOWER:
    case PRETOKEN_BERT: SCAN(next_bert(p, end)) break;
    case PRETOKEN_NONE:
    case PRETOKEN_COUNT: SCAN(end) break;
    }
    *at = p;
    return n;
}

LT_INLINE bool is_cut(PretokenPattern pattern, const uint8_t *p)
{
    const int before = byte_class[p[-1]];
    return byte_class[*p] == C_SPACE && (before == C_LETTER || before == C_NUMBER) &&
           (!pretoken_is_bert(pattern) || bert_byte[*p] == B_SPACE);
}

const uint8_t *pretoken_cut(PretokenPattern pattern, const uint8_t *begin, const uint8_t *p,
                            const uint8_t *end)
{
    if (pattern == PRETOKEN_NONE) return end;
    if (p == begin) p++;
    for (; p < end; p++)
        if (is_cut(pattern, p)) return p;
    return end;
}

const uint8_t *pretoken_last_cut(PretokenPattern pattern, const uint8_t *begin, const uint8_t *end)
{
    if (pattern == PRETOKEN_NONE) return begin;
    for (const uint8_t *p = end - 1; p > begin; p--)
        if (is_cut(pattern, p)) return p;
    return begin;
}

static const char *const names[PRETOKEN_COUNT] = {
    [PRETOKEN_NONE] = "none",     [PRETOKEN_GPT2] = "gpt2",   [PRETOKEN_CL100K] = "cl100k",
    [PRETOKEN_LLAMA3] = "llama3", [PRETOKEN_QWEN2] = "qwen2", [PRETOKEN_UNCASED] = "uncased",
    [PRETOKEN_CASED] = "cased",   [PRETOKEN_LOWER] = "lower", [PRETOKEN_BERT] = "bert",
};

const char *pretoken_name(PretokenPattern pattern)
{
    return names[pattern];
}

bool pretoken_by_name(const char *name, PretokenPattern *out)
{
    static const PretokenPattern can_be_asked_for[] = {
        PRETOKEN_GPT2, PRETOKEN_CL100K, PRETOKEN_UNCASED, PRETOKEN_CASED, PRETOKEN_LOWER};
    for (size_t i = 0; i < LT_COUNT(can_be_asked_for); i++)
        if (strcmp(names[can_be_asked_for[i]], name) == 0) {
            *out = can_be_asked_for[i];
            return true;
        }
    return false;
}

// The first entry of a pattern is the one we write. The others mean the same; files have them.
static const struct {
    PretokenPattern pattern;
    const char *regex;
} known[] = {
    {PRETOKEN_GPT2,
     "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"},
    {PRETOKEN_GPT2,
     "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"},
    {PRETOKEN_GPT2, "'(?:[sdmt]|ll|ve|re)| ?\\p{L}++| ?\\p{N}++| ?[^\\s\\p{L}\\p{N}]++|\\s++$|"
                    "\\s+(?!\\S)|\\s"},
    {PRETOKEN_CL100K, "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
                      " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s+\\z|\\s*[\\r\\n]|\\s+(?!\\S)|\\s"},
    {PRETOKEN_CL100K, "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+|"
                      " ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s"},
    {PRETOKEN_LLAMA3, "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
                      " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
    {PRETOKEN_LLAMA3, "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}|"
                      " ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"},
    {PRETOKEN_QWEN2, "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
                     " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
};

bool pretoken_by_regex(const char *regex, PretokenPattern *out)
{
    for (size_t i = 0; i < LT_COUNT(known); i++)
        if (strcmp(known[i].regex, regex) == 0) {
            *out = known[i].pattern;
            return true;
        }
    return false;
}

const char *pretoken_regex(PretokenPattern pattern)
{
    for (size_t i = 0; i < LT_COUNT(known); i++)
        if (known[i].pattern == pattern) return known[i].regex;
    ASSERT(pattern == PRETOKEN_NONE, "pattern %d", (int)pattern);
    return NULL;
}
