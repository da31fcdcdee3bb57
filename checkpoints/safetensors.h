// safetensors.h -- Hugging Face's tensor file: 8 bytes of header length (little endian), a JSON
// header {"name": {"dtype", "shape", "data_offsets"}, "__metadata__": {...}}, then the bytes.
//
// Reading maps the file and checks everything before a byte of it is used: header length against the
// file's size, every offset against the data and the shape, no overlap, no gap, no overflow. A wrong
// file is ERR_FORMAT with the path and the tensor's name.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include "checkpoints/tensor.h"
#include "engine/base/err.h"
#include "engine/base/file.h"

typedef struct SafeEntry { // a tensor in a file
    char          *name; // owned by the SafeFile
    DType          dtype;
    int            rank;
    int64_t        shape[8];
    const uint8_t *data; // in the map; alignment is not promised
    uint64_t       bytes;
} SafeEntry;

typedef struct SafeFile {
    char       path[PATH_CAP];
    FileMap    map;
    SafeEntry *entry; // in the order of their data
    int        n;
    char     **meta_key, **meta_value; // of __metadata__
    int        n_meta;
} SafeFile;

LT_C_BEGIN
LT_MUST_CHECK Status safe_open(SafeFile *f, const char *path, Err *err);
const SafeEntry     *safe_find(const SafeFile *f, const char *name); // NULL: not there
const char          *safe_meta(const SafeFile *f, const char *key);  // NULL: not there
void                 safe_close(SafeFile *f);                        // also of a zeroed one

// Write tensors (names and shapes as given) with string metadata, atomically. A tensor whose
// `dtype` differs from `as` is converted while it is written (f32, bf16, f16); `as` < 0: as it is.
LT_MUST_CHECK Status safe_write(const char *path, const Tensor *t, int n, int as,
                                const char *const *meta /* key, value, ..., NULL */, uint32_t *crc,
                                uint64_t *bytes, Err *err);
LT_C_END
