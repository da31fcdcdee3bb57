// bert_normal.c -- see bert_normal.h.
//
// One pass, character by character. The only thing that looks further is canonical order: marks
// that follow one another are sorted by their combining classes. Accents go in any case, so what
// must be kept until its neighbours are known is a row of the few marks that stay
// (BERT_NONSTARTER).
//
// SPDX-License-Identifier: MIT
#include "tokenizer/bert_normal.h"
#include "engine/base/assert.h"
#include "tokenizer/bert_chars.h"
#include "tokenizer/unicode_class.h"

#include <string.h>

enum {
    GROWTH = 3, // bytes that one byte can become: a Hangul syllable is three letters
    REPLACEMENT = 0xFFFD,
    DOTTED_I = 0x130, // the one character whose lower case is two: i, and
    DOT_ABOVE = 0x307
};

typedef struct Writer {
    uint32_t steps;
    uint8_t *at;
    int row_n; // marks in a row, sorted
    struct {
        uint32_t cp;
        int32_t order;
    } row[BERT_WORD_MAX + 1];
} Writer;

static const BertRange *range_find(const BertRange *range, int n, uint32_t cp)
{
    int low = 0, high = n; // the last one with first <= cp is before `high`
    while (low < high) {
        const int mid = (low + high) / 2;
        if (range[mid].first <= cp)
            low = mid + 1;
        else
            high = mid;
    }
    const BertRange *r = &range[low - 1];
    return low > 0 && cp <= r->last && (cp - r->first) % (uint32_t)r->step == 0 ? r : NULL;
}

static bool is_cjk(uint32_t cp)
{
    return cp >= bert_cjk_range[0].first && range_find(bert_cjk_range, BERT_CJK_RANGES, cp);
}

static void put_bytes(Writer *w, uint32_t cp)
{
    w->at += utf8_encode(cp, w->at);
}

// A character after normalisation.
static void put_word(Writer *w, uint32_t cp)
{
    const uint32_t class = bert_class(cp) % BERT_CLASSES;
    if (class == BERT_SPACE || class == BERT_DROP_SPACE) {
        *w->at++ = ' ';
    } else if (class == BERT_PUNCT) {
        *w->at++ = ' ';
        put_bytes(w, cp);
        *w->at++ = ' ';
    } else {
        put_bytes(w, cp);
    }
}

static void put_lower(Writer *w, uint32_t cp)
{
    if (!(w->steps & BERT_LOWER)) {
        put_word(w, cp);
    } else if (cp < 0x80) {
        put_word(w, cp >= 'A' && cp <= 'Z' ? cp + 32 : cp);
    } else if (cp == DOTTED_I) {
        put_word(w, 'i');
        put_word(w, DOT_ABOVE);
    } else {
        const BertRange *r = bert_class(cp) & BERT_MAPPED
                                 ? range_find(bert_lower_range, BERT_LOWER_RANGES, cp)
                                 : NULL;
        put_word(w, r ? (uint32_t)((int32_t)cp + r->value) : cp);
    }
}

static void end_row(Writer *w)
{
    for (int i = 0; i < w->row_n; i++) put_lower(w, w->row[i].cp);
    w->row_n = 0;
}

static void add_to_row(Writer *w, uint32_t cp)
{
    const BertRange *r = range_find(bert_order_range, BERT_ORDER_RANGES, cp);
    ASSERT(r, "U+%04X has no order", (unsigned)cp);
    if (w->row_n == (int)LT_COUNT(w->row)) end_row(w);
    int i = w->row_n++;
    for (; i > 0 && w->row[i - 1].order > r->value; i--) w->row[i] = w->row[i - 1];
    w->row[i].cp = cp;
    w->row[i].order = r->value;
}

// A character of a canonical decomposition that is no accent.
static void put_part(Writer *w, uint32_t cp)
{
    if (bert_class(cp) % BERT_CLASSES == BERT_NONSTARTER) {
        add_to_row(w, cp);
    } else {
        end_row(w);
        put_lower(w, cp);
    }
}

// Hangul syllables are two or three letters, by arithmetic (the Unicode Standard, 3.12).
static void put_hangul(Writer *w, uint32_t syllable)
{
    enum { L = 0x1100, V = 0x1161, T = 0x11A7, VS = 21, TS = 28 };
    end_row(w);
    put_lower(w, L + syllable / (VS * TS));
    put_lower(w, V + syllable / TS % VS);
    if (syllable % TS) put_lower(w, T + syllable % TS);
}

static void put_mapped(Writer *w, uint32_t cp)
{
    int low = 0, high = BERT_STRIP_ONE;
    while (low < high) {
        const int mid = (low + high) / 2;
        if (bert_strip_one[mid].from < cp)
            low = mid + 1;
        else
            high = mid;
    }
    if (low < BERT_STRIP_ONE && bert_strip_one[low].from == cp) {
        put_part(w, bert_strip_one[low].to);
        return;
    }
    for (int i = 0; i < BERT_STRIP_MORE && bert_strip_more[i][0] <= cp; i++) {
        if (bert_strip_more[i][0] != cp) continue;
        for (int k = 1; k < 4 && bert_strip_more[i][k]; k++) put_part(w, bert_strip_more[i][k]);
        return;
    }
    put_part(w, cp); // only lower case changes it
}

static void put_stripped(Writer *w, uint32_t cp, uint32_t class)
{
    enum { HANGUL = 0xAC00, HANGUL_COUNT = 11172 };
    switch (class % BERT_CLASSES) {
    case BERT_MARK: return;
    case BERT_MARK_STARTER: end_row(w); return;
    case BERT_NONSTARTER: add_to_row(w, cp); return;
    default: break;
    }
    if (cp - HANGUL < HANGUL_COUNT)
        put_hangul(w, cp - HANGUL);
    else if (class & BERT_MAPPED)
        put_mapped(w, cp);
    else
        put_part(w, cp);
}

static void put(Writer *w, uint32_t cp)
{
    const uint32_t all = bert_class(cp), class = all % BERT_CLASSES;
    if ((w->steps & BERT_CLEAN) && class >= BERT_DROP) return;
    if (class == BERT_SPACE) {
        end_row(w);
        *w->at++ = ' ';
        return;
    }
    const bool alone = (w->steps & BERT_CJK) && is_cjk(cp);
    if (alone) {
        end_row(w);
        *w->at++ = ' ';
    }
    if (w->steps & BERT_STRIP)
        put_stripped(w, cp, all);
    else
        put_lower(w, cp);
    if (alone) *w->at++ = ' ';
}

// Letters and digits of ASCII, which most text is made of.
static const uint8_t *put_ascii(Writer *w, const uint8_t *p, const uint8_t *end)
{
    const int up = w->steps & BERT_LOWER ? 32 : 0;
    uint8_t *at = w->at;
    for (; p < end; p++) {
        const int c = *p, letter = c | 32;
        if (letter >= 'a' && letter <= 'z')
            *at++ = (uint8_t)(c | up);
        else if (c >= '0' && c <= '9')
            *at++ = (uint8_t)c;
        else
            break;
    }
    w->at = at;
    return p;
}

Status bert_normalize(uint32_t steps, const uint8_t *text, size_t bytes, Buf *out, Err *err)
{
    TRY(buf_reserve(out, GROWTH * bytes + 1, err));
    Writer w; // the row is set as it fills
    w.steps = steps;
    w.row_n = 0;
    w.at = (uint8_t *)out->data + out->len;
    const uint8_t *p = text, *const end = text + bytes;
    for (int len; p < end; p += len) {
        if (w.row_n == 0) p = put_ascii(&w, p, end);
        if (p == end) break;
        const uint32_t cp = utf8_decode(p, end, &len);
        put(&w, cp < UTF8_INVALID ? cp : REPLACEMENT);
    }
    end_row(&w);
    const size_t len = (size_t)(w.at - (uint8_t *)out->data);
    DASSERT(len - out->len <= GROWTH * bytes, "%zu bytes became %zu", bytes, len - out->len);
    out->len = len;
    out->data[len] = 0;
    return ERR_NONE;
}

const char *bert_word(const char **at, const char *end, int64_t *bytes, int64_t *chars)
{
    const char *p = *at;
    while (p < end && *p == ' ') p++;
    const char *const word = p;
    int64_t n = 0;
    for (; p < end && *p != ' '; p++) n += (*p & 0xC0) != 0x80;
    *at = p;
    *bytes = p - word;
    *chars = n;
    return n > 0 ? word : NULL;
}

static const struct {
    PretokenPattern pattern;
    uint32_t steps;
} named[] = {
    {PRETOKEN_UNCASED, BERT_CLEAN | BERT_CJK | BERT_STRIP | BERT_LOWER},
    {PRETOKEN_CASED, BERT_CLEAN | BERT_CJK},
    {PRETOKEN_LOWER, BERT_CLEAN | BERT_CJK | BERT_LOWER},
};

uint32_t bert_steps(PretokenPattern pattern)
{
    for (size_t i = 0; i < LT_COUNT(named); i++)
        if (named[i].pattern == pattern) return named[i].steps;
    return 0;
}

PretokenPattern bert_pattern(uint32_t steps)
{
    for (size_t i = 0; i < LT_COUNT(named); i++)
        if (named[i].steps == steps) return named[i].pattern;
    return PRETOKEN_BERT;
}
