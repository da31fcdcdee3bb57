// fuzz_index_json.c -- model.safetensors.index.json beside two shards that stay as they are.
//
// Accepted is only an index that lists the tensors of its shards, each in its place.
//
// SPDX-License-Identifier: MIT
#include "tests/fuzz/fuzz.h"

#include "checkpoints/hf_files.h"

#include <string.h>

// Two shards: "a" and "b" in one, "c" in the other; four bytes each.
static void put_shards(void)
{
    static const char one[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                              "\"b\":{\"dtype\":\"U8\",\"shape\":[2,2],\"data_offsets\":[4,8]}}";
    static const char two[] = "{\"c\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]}}";
    const struct {
        const char *name, *header;
        size_t data;
    } shards[] = {{"1.safetensors", one, 8}, {"2.safetensors", two, 4}};
    for (size_t i = 0; i < LT_COUNT(shards); i++) {
        char path[PATH_CAP], bytes[512] = {0};
        const size_t n = strlen(shards[i].header);
        bytes[0] = (char)n;
        memcpy(bytes + 8, shards[i].header, n);
        fuzz_put(path, shards[i].name, bytes, 8 + n + shards[i].data);
    }
}

static void feed(const uint8_t *data, size_t size)
{
    char path[PATH_CAP];
    Err err = {0};
    HfFiles f;
    if (!file_exists(fuzz_path(path, "1.safetensors"))) put_shards();
    fuzz_put(path, "model.safetensors.index.json", data, size);
    *strrchr(path, '/') = 0;
    if (!fuzz_good(hf_files_open(&f, path, &err), &err)) return;
    fuzz_must(f.sharded && f.n_file >= 1 && f.n_file <= 2, "%d shards", f.n_file);
    for (int i = 0; i < f.n_file; i++)
        for (int k = 0; k < f.file[i].n; k++) {
            const char *name = f.file[i].entry[k].name;
            const HfEntry *e = hf_files_find(&f, name);
            fuzz_must(e && e->file == &f.file[i], "tensor \"%s\" is not where it lies", name);
            fuzz_must(memmem(data, size, name, strlen(name)) || memchr(data, '\\', size),
                      "tensor \"%s\" is not in the index", name);
        }
    hf_files_close(&f);
}

const FuzzTarget fuzz_target = {feed, .memory_factor = 192, .memory_base = 4 << 20};
