// text_source.h -- documents, one after another, from files, folders or standard input.
//
//     .txt, and any single file that is not .jsonl    one document; or as many as a separator makes
//     .jsonl                                          one document a line
//     the same with .gz behind it                     unpacked on the way
//     a folder                                        its .txt and .jsonl files and those of its
//                                                     folders, sorted by the bytes of their names
//     -                                               standard input: text, or jsonl when its first
//                                                     line is a JSON object with a field it needs
//
// A jsonl line is {"prompt": ..., "completion": ...} or {"text": ...} (the pair wins); other fields
// are ignored, blank lines are skipped, anything else is an error that names file and line.
//
// Bytes are kept as they are: CR LF, NUL and invalid UTF-8 reach the tokenizer untouched. Two
// exceptions, both counted in TextStats: a UTF-8 byte order mark at the start of a file is removed,
// and a document of no bytes is left out. A UTF-16 or UTF-32 byte order mark is an error.
//
// One document is in memory at a time.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/err.h"

typedef struct TextSource TextSource;

typedef struct TextDocument { // owned by the TextSource, valid until the next text_source_next
    const char *text;         // or the prompt
    size_t      bytes;
    const char *completion; // NULL: this is not a prompt/completion pair
    size_t      completion_bytes;
    const char *file; // where it began
    int64_t     line; // of a jsonl file, else 0
    bool        more; // the document goes on in the next one (text_source_in_parts)
} TextDocument;

typedef struct TextStats {
    int64_t     files;          // opened so far
    int64_t     documents;      // handed out so far
    int64_t     empty;          // documents of no bytes, left out
    int64_t     marks;          // byte order marks removed
    int64_t     skipped;        // files of a folder that are neither .txt nor .jsonl
    const char *first_skipped;  // "" when there is none; owned by the TextSource
    uint64_t    bytes_consumed; // of the files, before unpacking
    uint64_t    bytes_total;    // of all files when they were found; 0: not known
} TextStats;

LT_C_BEGIN
// separator: the bytes between two documents of a text file; "" for none.
LT_MUST_CHECK Status text_source_open(TextSource **out, const char *input, const char *separator,
                                      Err *err);
// From now on a text file that is one document comes in parts of a megabyte or two, cut anywhere:
// it need not fit in memory.
void text_source_in_parts(TextSource *s);
// *more == false: there are no further documents, and *doc is not set.
LT_MUST_CHECK Status text_source_next(TextSource *s, TextDocument *doc, bool *more, Err *err);
void                 text_source_stats(const TextSource *s, TextStats *out);
void                 text_source_close(TextSource *s); // NULL is fine
// \n, \t, \r and \\ of an option's value as the bytes they stand for; another escape is an error.
LT_MUST_CHECK Status text_unescape(const char *s, char *out, size_t cap, Err *err);
LT_C_END
