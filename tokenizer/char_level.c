// char_level.c -- one id for each character that occurs in the training text.
//
// Ids are in the order of code points, as Python's sorted(set(text)) has them; a byte that is no
// part of valid UTF-8 is a character of its own and comes behind all others. No end token. A
// character that was not in the training text is an error when encoding, never a silent loss.
//
// SPDX-License-Identifier: MIT
#include "tokenizer/tokenizer_impl.h"

#include <inttypes.h>
#include <string.h>

void char_set_add(CharSet *set, const uint8_t *text, size_t bytes)
{
    const uint8_t *p = text, *const end = text + bytes;
    for (int len; p < end; p += len) set->seen[utf8_decode(p, end, &len)] = true;
}

const uint8_t *char_last_cut(const uint8_t *begin, const uint8_t *end)
{
    // Only a first byte among the last three can be waiting for more.
    for (int k = 1; k <= 3 && end - k >= begin; k++)
        if (end[-k] >= 0xC0) return end - k;
    return end;
}

Status char_train(Tokenizer **out, const CharSet *set, Err *err)
{
    Tokenizer *t = NULL;
    Status s = tokenizer_new(&t, KIND_CHAR, PRETOKEN_NONE, err);
    int64_t id = 0;
    for (uint32_t cp = 0; cp < LT_COUNT(set->seen) && s == ERR_NONE; cp++) {
        if (!set->seen[cp]) continue;
        uint8_t utf8[4];
        const int len = utf8_encode(cp, utf8);
        s = vocab_add(t, id++, utf8, (size_t)len, TOKEN_PLAIN, err);
    }
    if (s == ERR_NONE) s = tokenizer_finish(t, err);
    if (s != ERR_NONE) {
        tokenizer_close(t);
        return s;
    }
    *out = t;
    return ERR_NONE;
}

Status char_encode(const Tokenizer *t, const uint8_t *text, size_t bytes, size_t offset,
                   TokenIds *out, Err *err)
{
    TRY(token_ids_reserve(out, (int64_t)(bytes / 2) + 16, err));
    const uint8_t *p = text, *const end = text + bytes;
    for (int len; p < end; p += len) {
        const uint32_t cp = utf8_decode(p, end, &len);
        const int32_t id = cp < 0x80 ? t->byte_id[cp] : vocab_find(t, p, (size_t)len);
        if (id < 0) {
            const size_t at = offset + (size_t)(p - text);
            if (cp >= UTF8_INVALID)
                return err_set(err, ERR_FORMAT,
                               "byte 0x%02X at offset %zu is not in the vocabulary", *p, at);
            if (cp < 0x20 || cp == 0x7F)
                return err_set(err, ERR_FORMAT,
                               "character U+%04" PRIX32 " at offset %zu is not in the vocabulary",
                               cp, at);
            return err_set(err, ERR_FORMAT,
                           "character '%.*s' (U+%04" PRIX32
                           ") at offset %zu is not in the vocabulary",
                           len, (const char *)p, cp, at);
        }
        TRY(token_ids_push(out, id, err));
    }
    return ERR_NONE;
}

bool char_byte_name(const char *text, size_t n, uint8_t *byte)
{
    static const char digits[] = "0123456789ABCDEF";
    if (n != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return false;
    const char *hi = memchr(digits, text[3], 16), *lo = memchr(digits, text[4], 16);
    if (!hi || !lo) return false;
    *byte = (uint8_t)((hi - digits) << 4 | (lo - digits));
    return *byte == 0 || *byte >= 0x80;
}
