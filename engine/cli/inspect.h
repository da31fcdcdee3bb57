// inspect.h -- the parts of `lathe inspect`: each appends to *out what is in one kind of thing.
//
// verify: checksums are computed and compared where there are any; damage is reported in the text
// and makes the result ERR_FORMAT.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/buf.h"
#include "engine/base/err.h"

LT_C_BEGIN
// A run folder: its steps, and which are whole.
LT_MUST_CHECK Status inspect_run(const char *dir, bool verify, Buf *out, Err *err);
// A step folder (with MANIFEST) or a Hugging Face folder: config, files, tensors.
LT_MUST_CHECK Status inspect_model(const char *dir, bool verify, Buf *out, Err *err);
LT_MUST_CHECK Status inspect_safetensors(const char *path, Buf *out, Err *err);
LT_MUST_CHECK Status inspect_data(const char *dir, bool verify, Buf *out, Err *err);
// Token files of other programs (see corpus.h), a folder of them or one.
LT_MUST_CHECK Status inspect_corpus(const char *path, Buf *out, Err *err);
bool inspect_is_shard(const char *path); // does it begin as one?
LT_MUST_CHECK Status inspect_shard(const char *path, Buf *out, Err *err);
LT_MUST_CHECK Status inspect_tokenizer(const char *path, Buf *out, Err *err);
LT_C_END
