// tokenizer_files.h -- the files that travel with a model: which they are, and copying them.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "checkpoints/manifest.h"

LT_C_BEGIN
// Copy the tokenizer files of `from` (a folder, or one file) into dir, and note them in *m (NULL:
// not noted). A folder without any is ERR_IO unless `optional`.
LT_MUST_CHECK Status tokenizer_files_copy(const char *dir, const char *from, bool optional,
                                          Manifest *m, Err *err);
LT_C_END
