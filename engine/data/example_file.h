// example_file.h -- labelled examples as people keep them: .tsv, .jsonl, columns of words.
//
//   classify  text TAB label, or text TAB text TAB label, one a line. A first line that has a
//             column called `label` (or `text`) names the columns: text, text_pair, label; others
//             are passed over. There are no quotes and no escapes: a tab ends a column.
//             jsonl: {"text": ..., "label": ...} or {"text", "text_pair", "label"}
//   tag       columns: a word, perhaps others, its tag; blanks or tabs between; a blank line
//             ends a sentence; -DOCSTART- lines are passed over (CoNLL 2003)
//             jsonl: {"tokens": [word, ...], "tags": [tag, ...]}
//   qa        jsonl: {"question", "context", "answers": {"text": [...], "answer_start": [...]}},
//             the flattened form of SQuAD; one text and one number will do, a list of pairs also.
//             answer_start counts characters. No answers: the context has none.
//
// A label is a text, or in jsonl an integer, true or false. What has no labels (texts to be
// predicted) may also be a text a line, or with a tab a pair; words of a sentence are then parted
// by blanks.
//
// jsonl is told by the name (.jsonl) or by a first byte `{`. gzip is undone, a UTF-8 byte order
// mark removed, CR LF taken as LF. Blank lines of tsv and jsonl are passed over; of plain texts
// they are empty texts. Everything else that does not fit is ERR_FORMAT with file and line. The
// file is in memory as a whole, one record of it at a time is taken apart.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/err.h"

typedef enum ExampleTask { EXAMPLE_CLASSIFY = 0, EXAMPLE_TAG, EXAMPLE_QA } ExampleTask;

typedef struct ExampleFile ExampleFile;

typedef struct ExampleText { // bytes that lie elsewhere; NULL: not there
    const char *text;
    size_t bytes;
} ExampleText;

typedef struct ExampleRecord { // owned by the ExampleFile, valid until the next record
    int64_t line;
    ExampleText text, pair; // qa: question and context; tag by line: the text
    ExampleText label;
    const ExampleText *word, *tag; // [words]; tag NULL: not given
    int64_t words;
    bool answered;             // qa: the record says what the answers are
    const ExampleText *answer; // [answers] equal texts of the context
    const int64_t *answer_at;  // [answers] byte of the context
    int64_t answers;
} ExampleRecord;

LT_C_BEGIN
// path "-": standard input. labelled: a record without its label is an error.
LT_MUST_CHECK Status example_file_open(ExampleFile **out, const char *path, ExampleTask task,
                                       bool labelled, Err *err);
// *more == false: that was all, and *r is not set.
LT_MUST_CHECK Status example_file_next(ExampleFile *f, ExampleRecord *r, bool *more, Err *err);
bool example_file_is_jsonl(const ExampleFile *f);
const char *example_file_name(const ExampleFile *f); // for messages
void example_file_close(ExampleFile *f);             // NULL is fine
LT_C_END
