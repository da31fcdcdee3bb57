// safetensors.h -- Hugging Face's tensor file: 8 bytes of header length (little endian), a JSON
// header {"name": {"dtype", "shape", "data_offsets"}, "__metadata__": {...}}, then the bytes.
//
// Reading maps the file and checks everything before a byte of it is used: header length against
// the file's size, every offset against the data and the shape, no overlap, no gap, no overflow.
// A wrong file is ERR_FORMAT with the path and the tensor's name. Memory is bounded by the size
// of the file.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include "checkpoints/tensor.h"
#include "engine/base/err.h"
#include "engine/base/file.h"

enum { SAFE_RANK_MAX = 8, SAFE_TYPE_CAP = 12 };

typedef struct SafeEntry {    // a tensor in a file
    char *name;               // owned by the SafeFile
    DType dtype;              // DTYPE_COUNT: a type of the format that lathe does not compute with
    char type[SAFE_TYPE_CAP]; // as the file spells it: "BF16", "BOOL"
    int rank;
    int64_t shape[SAFE_RANK_MAX];
    const uint8_t *data; // in the map; alignment is not promised
    uint64_t bytes;
} SafeEntry;

typedef struct SafeFile {
    char path[PATH_CAP];
    FileMap map;
    SafeEntry *entry; // in the order of their data
    int n;
    char **meta_key, **meta_value; // of __metadata__
    int n_meta;
} SafeFile;

typedef struct SafeOut { // a tensor to be written
    const char *name;
    DType dtype;
    int rank;
    int64_t shape[SAFE_RANK_MAX];
} SafeOut;

// Writes exactly the bytes of tensor i.
typedef Status (*SafeBody)(void *user, int i, FileWriter *w, Err *err);

LT_C_BEGIN
LT_MUST_CHECK Status safe_open(SafeFile *f, const char *path, Err *err);
const SafeEntry *safe_find(const SafeFile *f, const char *name); // NULL: not there
const char *safe_meta(const SafeFile *f, const char *key);       // NULL: not there
void safe_close(SafeFile *f);                                    // also of a zeroed one

// Write tensors (names and shapes as given) with string metadata, atomically. A tensor whose
// `dtype` differs from `as` is converted while it is written (f32, bf16, f16); `as` < 0: as it is.
LT_MUST_CHECK Status safe_write(const char *path, const Tensor *t, int n, int as,
                                const char *const *meta /* key, value, ..., NULL */, uint32_t *crc,
                                uint64_t *bytes, Err *err);
// The same with the bytes made by `body`, called once a tensor: memory for one strip is enough
// for any file. Wider element types come first in the file, so that every tensor is aligned to
// its own size.
LT_MUST_CHECK Status safe_write_body(const char *path, const SafeOut *o, int n,
                                     const char *const *meta, SafeBody body, void *user,
                                     uint32_t *crc, uint64_t *bytes, Err *err);
LT_C_END
