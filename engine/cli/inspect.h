// inspect.h -- the parts of `lathe inspect`: each appends to *out what is in one kind of thing.
//
// With a Check checksums are computed and compared where there are any; damage is reported in the
// text and makes the result ERR_FORMAT. A terminal sees how far it is.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/report/progress.h"

typedef struct Check { // of checksums; NULL: none are computed
    Progress progress;
    double before, total; // bytes of files that are done; of all
} Check;

LT_C_BEGIN
// Checksums are computed one file or folder after the other: a listener for the next one, and what
// to say when it is done. The one who knows sets `total` before. Both accept NULL.
OnProgress check_listener(Check *c);
void check_done(Check *c, uint64_t bytes);

// A run folder: its steps, and which are whole.
LT_MUST_CHECK Status inspect_run(const char *dir, Check *check, Buf *out, Err *err);
// A step folder (with MANIFEST) or a Hugging Face folder: config, files, tensors.
LT_MUST_CHECK Status inspect_model(const char *dir, Check *check, Buf *out, Err *err);
LT_MUST_CHECK Status inspect_safetensors(const char *path, Buf *out, Err *err);
LT_MUST_CHECK Status inspect_data(const char *dir, Check *check, Buf *out, Err *err);
// Token files of other programs (see corpus.h), a folder of them or one.
LT_MUST_CHECK Status inspect_corpus(const char *path, Buf *out, Err *err);
bool inspect_is_shard(const char *path); // does it begin as one?
LT_MUST_CHECK Status inspect_shard(const char *path, Buf *out, Err *err);
LT_MUST_CHECK Status inspect_tokenizer(const char *path, Buf *out, Err *err);
LT_C_END
