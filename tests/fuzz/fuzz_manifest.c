// fuzz_manifest.c -- MANIFEST of a step folder, and the line in `best`.
//
// An accepted manifest says the same after it was written once more; an accepted line names a step.
//
// SPDX-License-Identifier: MIT
#include "tests/fuzz/fuzz.h"

#include "checkpoints/manifest.h"
#include "checkpoints/steps.h"

#include <string.h>

static Manifest first, second; // too large for the stack of every build

static void check_manifest(const char *dir)
{
    Err err = {0};
    if (!fuzz_good(manifest_read(&first, dir, &err), &err)) return;
    for (int i = 0; i < first.n; i++)
        fuzz_must(first.line[i].name[0] && !strchr(first.line[i].name, '/') &&
                      manifest_has(&first, first.line[i].name),
                  "line %d names no file of the folder", i);
    (void)fuzz_good(manifest_check(&first, dir, true, NULL, &err), &err);
    fuzz_must(manifest_write(&first, dir, &err) == ERR_NONE, "%s", err.text);
    fuzz_must(manifest_read(&second, dir, &err) == ERR_NONE, "cannot read what was written: %s",
              err.text);
    fuzz_must(first.n == second.n, "%d lines, then %d", first.n, second.n);
    for (int i = 0; i < first.n; i++)
        fuzz_must(strcmp(first.line[i].name, second.line[i].name) == 0 &&
                      first.line[i].bytes == second.line[i].bytes &&
                      first.line[i].crc == second.line[i].crc,
                  "line %d changed", i);
}

static void feed(const uint8_t *data, size_t size)
{
    char path[PATH_CAP], dir[PATH_CAP];
    Err err = {0};
    int64_t step = -1;
    fuzz_put(path, "MANIFEST", data, size);
    memcpy(dir, path, sizeof dir);
    *strrchr(dir, '/') = 0;
    check_manifest(dir);
    fuzz_must(file_mkdirs(fuzz_path(path, "checkpoints"), &err) == ERR_NONE, "%s", err.text);
    fuzz_put(path, "checkpoints/best", data, size);
    if (fuzz_good(steps_best(dir, &step, &err), &err)) fuzz_must(step >= 0, "best names no step");
}

const FuzzTarget fuzz_target = {feed, .memory_factor = 4, .memory_base = 4 << 20};
