// example_file_impl.h -- internal to example_file.c and example_json.c.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <jansson.h>
#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "engine/data/example_file.h"

enum { COLUMN_TEXT = 0, COLUMN_PAIR, COLUMN_LABEL, COLUMN_COUNT };

struct ExampleFile {
    char name[PATH_CAP];
    ExampleTask task;
    bool labelled;
    bool jsonl;
    bool plain; // a text or a pair a line, nothing names columns
    Buf bytes;
    size_t at;
    int64_t line; // of the record at hand
    // tsv
    bool begun;
    int column[COLUMN_COUNT]; // -1: there is none
    int columns;
    // jsonl
    json_t *object; // what the record's texts lie in
    Buf numbers;    // labels and tags that were no texts
    // of the record at hand
    ExampleText *word, *tag;
    int64_t words, cap_words;
    ExampleText *answer;
    int64_t *answer_at;
    int64_t answers, cap_answers;
};

LT_C_BEGIN
// "FILE:LINE: ..."
LT_MUST_CHECK Status example_file_bad(const ExampleFile *f, Err *err, const char *what);
LT_MUST_CHECK Status example_file_word(ExampleFile *f, ExampleText word, ExampleText tag, Err *err);
// Words parted by blanks and tabs.
LT_MUST_CHECK Status example_file_cut(ExampleFile *f, ExampleText text, Err *err);
LT_MUST_CHECK Status example_json_record(ExampleFile *f, const char *p, size_t n, ExampleRecord *r,
                                         Err *err);
LT_C_END
