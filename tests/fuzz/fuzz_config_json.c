// fuzz_config_json.c -- config.json of a model folder.
//
// What is accepted has sizes a model can have, and the text lathe writes for it says the same.
//
// SPDX-License-Identifier: MIT
#include "tests/fuzz/fuzz.h"

#include "checkpoints/hf_slots.h"
#include "engine/base/mem.h"

#include <string.h>

static void check_slots(const HfConfig *c)
{
    HfSlot *slot;
    int n = 0;
    Err err = {0};
    if (!fuzz_good(hf_slots_make(c, &slot, &n, &err), &err)) return;
    fuzz_must(n >= 12 * c->n_layer, "%d tensors for %lld layers", n, (long long)c->n_layer);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < slot[i].rank; k++)
            fuzz_must(slot[i].shape[k] > 0, "tensor %s has no elements", slot[i].engine);
    mem_free(slot);
}

static void write_text(const HfConfig *c, Buf *text)
{
    Err err = {0};
    fuzz_must(hf_config_text(c, text, &err) == ERR_NONE, "cannot write what was read: %s",
              err.text);
}

static void feed(const uint8_t *data, size_t size)
{
    char path[PATH_CAP], dir[PATH_CAP];
    Err err = {0};
    HfConfig c, again;
    Buf first = {0}, second = {0};
    fuzz_put(path, "config.json", data, size);
    memcpy(dir, path, sizeof dir);
    *strrchr(dir, '/') = 0;
    if (!fuzz_good(hf_config_read(&c, dir, &err), &err)) return;
    fuzz_must(c.n_layer > 0 && c.n_head > 0 && c.n_embd % c.n_head == 0 && c.vocab_size > 0 &&
                  c.n_positions > 0 && c.n_inner > 0,
              "a model of impossible sizes");
    check_slots(&c);
    write_text(&c, &first);
    fuzz_put(path, "config.json", first.data, first.len);
    fuzz_must(hf_config_read(&again, dir, &err) == ERR_NONE, "cannot read what was written: %s",
              err.text);
    write_text(&again, &second);
    fuzz_must(strcmp(first.data, second.data) == 0, "changes when written and read:\n%s\n%s",
              first.data, second.data);
    buf_free(&first);
    buf_free(&second);
}

// The table of tensors: 4095 layers are legal in a file of any size.
const FuzzTarget fuzz_target = {feed, .memory_factor = 192, .memory_base = 24 << 20};
