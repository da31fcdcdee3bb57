// fuzz_safetensors.c -- the tensor file: header, offsets, metadata.
//
// What is accepted lies inside the file to its last byte, and reads the same after it was written
// once more.
//
// SPDX-License-Identifier: MIT
#include "tests/fuzz/fuzz.h"

#include "checkpoints/safetensors.h"

#include <stdlib.h>
#include <string.h>

enum { WRITTEN_MAX = 64 }; // tensors of a file that is written again

static uint32_t sum; // so that no read is optimised away

static bool writable(const SafeFile *f)
{
    bool ok = f->n > 0 && f->n <= WRITTEN_MAX;
    for (int i = 0; i < f->n && ok; i++) ok = f->entry[i].dtype != DTYPE_COUNT;
    return ok;
}

static Status body(void *user, int i, FileWriter *w, Err *err)
{
    const SafeFile *f = user;
    return file_write(w, f->entry[i].data, f->entry[i].bytes, err);
}

static bool same_entry(const SafeEntry *a, const SafeEntry *b)
{
    return b && a->dtype == b->dtype && a->rank == b->rank && a->bytes == b->bytes &&
           memcmp(a->shape, b->shape, sizeof a->shape) == 0 &&
           (a->bytes == 0 || memcmp(a->data, b->data, a->bytes) == 0);
}

static void write_again(SafeFile *f)
{
    SafeOut out[WRITTEN_MAX] = {0};
    const char *meta[2 * 8 + 1] = {0};
    const int n_meta = f->n_meta <= 8 ? f->n_meta : 0;
    char path[PATH_CAP];
    uint32_t crc;
    uint64_t bytes;
    Err err = {0};
    for (int i = 0; i < f->n; i++) {
        const SafeEntry *e = &f->entry[i];
        out[i] = (SafeOut){.name = e->name, .dtype = e->dtype, .rank = e->rank};
        memcpy(out[i].shape, e->shape, sizeof e->shape);
    }
    for (int i = 0; i < n_meta; i++) {
        meta[2 * i] = f->meta_key[i];
        meta[2 * i + 1] = f->meta_value[i];
    }
    fuzz_path(path, "again.safetensors");
    fuzz_must(safe_write_body(path, out, f->n, meta, body, f, &crc, &bytes, &err) == ERR_NONE,
              "cannot write what was read: %s", err.text);
    SafeFile g;
    fuzz_must(safe_open(&g, path, &err) == ERR_NONE, "cannot read what was written: %s", err.text);
    fuzz_must(g.n == f->n, "%d tensors, %d when read again", f->n, g.n);
    for (int i = 0; i < f->n; i++)
        fuzz_must(same_entry(&f->entry[i], safe_find(&g, f->entry[i].name)),
                  "tensor %d is another when read again", i);
    for (int i = 0; i < n_meta; i++) {
        const char *v = safe_meta(&g, f->meta_key[i]);
        fuzz_must(v && strcmp(v, f->meta_value[i]) == 0, "metadata %d changed", i);
    }
    safe_close(&g);
}

static void feed(const uint8_t *data, size_t size)
{
    char path[PATH_CAP];
    Err err = {0};
    SafeFile f;
    fuzz_put(path, "model.safetensors", data, size);
    if (!fuzz_good(safe_open(&f, path, &err), &err)) return;
    uint64_t bytes = 0;
    for (int i = 0; i < f.n; i++) {
        const SafeEntry *e = &f.entry[i];
        for (uint64_t b = 0; b < e->bytes; b++) sum += e->data[b];
        fuzz_must(safe_find(&f, e->name) == e, "tensor %d is not found by its name", i);
        bytes += e->bytes;
    }
    fuzz_must(bytes < size, "%llu bytes of tensors in %zu", (unsigned long long)bytes, size);
    if (writable(&f)) write_again(&f);
    safe_close(&f);
}

const FuzzTarget fuzz_target = {feed, .memory_factor = 192, .memory_base = 4 << 20};
