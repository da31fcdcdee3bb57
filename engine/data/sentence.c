// sentence.c -- see sentence.h.
//
// SPDX-License-Identifier: MIT
#include "engine/data/sentence.h"

#include <string.h>

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

static bool is_small(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_letter(char c)
{
    return is_small(c) || (c >= 'A' && c <= 'Z');
}

// The marks of the list that stands at text[at], as bytes of UTF-8; 0: none.
static size_t mark_at(const char *const *list, const char *text, size_t bytes, size_t at)
{
    for (; *list; list++) {
        const size_t n = strlen(*list);
        if (n <= bytes - at && memcmp(text + at, *list, n) == 0) return n;
    }
    return 0;
}

static size_t end_mark(const char *text, size_t bytes, size_t at)
{
    static const char *const marks[] = {".", "!", "?", "\xe2\x80\xa6", "\xd8\x9f", NULL};
    return mark_at(marks, text, bytes, at);
}

static size_t full_stop(const char *text, size_t bytes, size_t at) // needs no space behind it
{
    static const char *const marks[] = {"\xe3\x80\x82",
                                        "\xef\xbc\x81",
                                        "\xef\xbc\x8e",
                                        "\xef\xbc\x9f",
                                        "\xef\xbd\xa1",
                                        "\xe0\xa5\xa4",
                                        NULL};
    return mark_at(marks, text, bytes, at);
}

static size_t closer(const char *text, size_t bytes, size_t at)
{
    static const char *const marks[] = {"\"",
                                        "'",
                                        ")",
                                        "]",
                                        "}",
                                        "*",
                                        "_",
                                        "\xe2\x80\x9d",
                                        "\xe2\x80\x99",
                                        "\xc2\xbb",
                                        "\xe3\x80\x8d",
                                        "\xe3\x80\x8f",
                                        "\xef\xbc\x89",
                                        "\xe3\x80\x91",
                                        NULL};
    return mark_at(marks, text, bytes, at);
}

// What may stand in front of a sentence's first letter.
static size_t opener(const char *text, size_t bytes, size_t at)
{
    static const char *const marks[] = {
        "\"", "'", "(", "[", "{", "*", "_", "\xe2\x80\x9c", "\xe2\x80\x98", "\xc2\xab", NULL};
    return mark_at(marks, text, bytes, at);
}

// Is the full stop at text[at] that of an abbreviation or an initial? `from`: of the sentence.
static bool abbreviates(const char *text, size_t from, size_t at)
{
    static const char *const list[] = {
        "Mr",  "Mrs",  "Ms",  "Dr",   "St",     "Prof", "Sr",   "Jr",   "Rev", "Hon", "Gen",
        "Col", "Capt", "Lt",  "Sgt",  "Messrs", "Mme",  "Mlle", "vs",   "etc", "cf",  "Fig",
        "fig", "No",   "no",  "Vol",  "vol",    "pp",   "Ch",   "chap", "viz", "ed",  "al",
        "Inc", "Ltd",  "Co",  "Corp", "approx", "ca",   "Jan",  "Feb",  "Mar", "Apr", "Jun",
        "Jul", "Aug",  "Sep", "Sept", "Oct",    "Nov",  "Dec"};
    size_t begin = at;
    while (begin > from && is_letter(text[begin - 1])) begin--;
    const size_t n = at - begin;
    if (n == 1) return true; // "J. Smith", "e.g.", "U.S."
    for (size_t i = 0; i < LT_COUNT(list); i++)
        if (strlen(list[i]) == n && memcmp(list[i], text + begin, n) == 0) return true;
    return false;
}

// The first byte from `at` on that is no white space. *empty_line: one was passed, of white space
// alone, or the text ended.
static size_t skip_space(const char *text, size_t bytes, size_t at, bool *empty_line)
{
    int lines = 0;
    for (; at < bytes && is_space(text[at]); at++) lines += text[at] == '\n';
    *empty_line = lines > 1 || at == bytes;
    return at;
}

// Does the next sentence begin at text[at], behind a mark and white space?
static bool begins_sentence(const char *text, size_t bytes, size_t at)
{
    for (size_t n; at < bytes && (n = opener(text, bytes, at)) > 0;) at += n;
    return at == bytes || !is_small(text[at]);
}

// Most bytes begin no mark.
static bool begins_mark(char c)
{
    return c == '.' || c == '!' || c == '?' || (unsigned char)c >= 0xc0;
}

bool sentence_next(const char *text, size_t bytes, size_t *at, Sentence *out)
{
    bool empty_line;
    const size_t from = skip_space(text, bytes, *at, &empty_line);
    out->from = from;
    for (size_t i = from; i < bytes;) {
        if (is_space(text[i])) {
            const size_t next = skip_space(text, bytes, i, &empty_line);
            if (empty_line) {
                out->to = i;
                *at = next;
                return true;
            }
            i = next;
            continue;
        }
        const bool maybe = begins_mark(text[i]);
        const size_t hard = maybe ? full_stop(text, bytes, i) : 0;
        const size_t soft = maybe ? end_mark(text, bytes, i) : 0;
        if (hard + soft == 0) {
            i++;
            continue;
        }
        const bool stop = text[i] == '.' && abbreviates(text, from, i);
        size_t end = i + hard + soft;
        for (size_t n; end < bytes; end += n) { // "?!", "...", closing quotes
            n = full_stop(text, bytes, end) + end_mark(text, bytes, end) + closer(text, bytes, end);
            if (n == 0) break;
        }
        i = end;
        if (end < bytes && !hard && (stop || !is_space(text[end]))) continue;
        const size_t next = skip_space(text, bytes, end, &empty_line);
        if (!hard && !empty_line && !begins_sentence(text, bytes, next)) continue;
        out->to = end;
        *at = next;
        return true;
    }
    *at = bytes;
    out->to = bytes;
    return from < bytes;
}

bool sentence_next_line(const char *text, size_t bytes, size_t *at, Sentence *out, bool *gap)
{
    *gap = false;
    while (*at < bytes) {
        const char *end = memchr(text + *at, '\n', bytes - *at);
        size_t from = *at, to = end ? (size_t)(end - text) : bytes;
        *at = LT_MIN(to + 1, bytes);
        while (from < to && is_space(text[from])) from++;
        while (from < to && is_space(text[to - 1])) to--;
        *out = (Sentence){from, to};
        if (from < to) return true;
        *gap = true;
    }
    return false;
}
