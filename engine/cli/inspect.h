// inspect.h -- the parts of `lathe inspect`: each appends to *out what is in one kind of thing.
//
// With a `check` checksums are computed and compared where there are any, and it is told how many
// bytes of all are done (the one who knows sets check->total); damage is reported in the text and
// makes the result ERR_FORMAT. NULL: no checksums.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/base/on_progress.h"

LT_C_BEGIN
// A run folder: its steps, and which are whole.
LT_MUST_CHECK Status inspect_run(const char *dir, OnPart *check, Buf *out, Err *err);
// A step folder (with MANIFEST) or a Hugging Face folder: config, files, tensors.
LT_MUST_CHECK Status inspect_model(const char *dir, OnPart *check, Buf *out, Err *err);
LT_MUST_CHECK Status inspect_safetensors(const char *path, Buf *out, Err *err);
LT_MUST_CHECK Status inspect_data(const char *dir, OnPart *check, Buf *out, Err *err);
// Token files of other programs (see corpus.h), a folder of them or one.
LT_MUST_CHECK Status inspect_corpus(const char *path, Buf *out, Err *err);
bool inspect_is_shard(const char *path); // does it begin as one?
LT_MUST_CHECK Status inspect_shard(const char *path, Buf *out, Err *err);
LT_MUST_CHECK Status inspect_tokenizer(const char *path, Buf *out, Err *err);
LT_C_END
