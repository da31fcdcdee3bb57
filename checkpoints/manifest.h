// manifest.h -- what a complete folder holds: name, size and CRC-32 of each file, as text.
//
//     lathe-manifest 1
//     1c291ca3 3471 config.json
//     8f3a0b77 497774208 model.safetensors
//     end
//
// Written last. A folder is complete when every line of its MANIFEST is true. Files that no line
// names do not matter.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/err.h"
#include "engine/base/file.h"

enum { MANIFEST_NAME_CAP = 256, MANIFEST_FILES_MAX = 64 };

typedef struct ManifestLine {
    char name[MANIFEST_NAME_CAP];
    uint64_t bytes;
    uint32_t crc;
} ManifestLine;

typedef struct Manifest {
    ManifestLine line[MANIFEST_FILES_MAX];
    int n;
} Manifest;

LT_C_BEGIN
LT_MUST_CHECK Status manifest_add(Manifest *m, const char *name, uint32_t crc, uint64_t bytes,
                                  Err *err);
LT_MUST_CHECK Status manifest_write(const Manifest *m, const char *dir, Err *err); // dir/MANIFEST
LT_MUST_CHECK Status manifest_read(Manifest *m, const char *dir, Err *err);
// Is every line true? full: checksums too, else sizes alone. ERR_FORMAT names the file. `on` (or
// NULL) hears the bytes whose checksums were computed, and how many there will be.
LT_MUST_CHECK Status manifest_check(const Manifest *m, const char *dir, bool full,
                                    const OnProgress *on, Err *err);
// Sum of the sizes.
uint64_t manifest_bytes(const Manifest *m);
// Is there a file of that name in it?
bool manifest_has(const Manifest *m, const char *name);
LT_C_END
