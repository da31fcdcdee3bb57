// fuzz_model_folder.c -- config.json and model.safetensors of one model folder, as two parts.
//
// A folder whose tensors are those of its config loads; what was loaded, saved and loaded again is
// the same to the bit; and the folder can be converted, to another element type and vocabulary.
//
// SPDX-License-Identifier: MIT
#include "tests/fuzz/fuzz.h"

#include "checkpoints/hf_convert.h"
#include "checkpoints/hf_slots.h"
#include "engine/base/mem.h"

#include <stdio.h>
#include <string.h>

enum { LAYERS_MAX = 4, TENSORS_MAX = 16 + 16 * LAYERS_MAX, ELEMENTS_MAX = 1 << 16 };

typedef struct Model {
    Tensor t[TENSORS_MAX];
    int n;
    float *block;
    size_t bytes;
} Model;

// Memory for the tensors that the config describes; false when they are too many for this program.
static bool model_make(Model *m, const HfConfig *c)
{
    HfSlot *slot;
    Err err = {0};
    *m = (Model){0};
    if (c->n_layer > LAYERS_MAX || c->n_embd > 64 || c->n_inner > 256 || c->vocab_size > 256 ||
        c->n_positions > 256 || c->n_types > 256 ||
        hf_slots_make(c, &slot, &m->n, &err) != ERR_NONE)
        return false;
    int64_t total = 0;
    const int slots = m->n;
    m->n = 0;
    for (int i = 0; i < slots; i++) {
        if (hf_slots_again(&slot[i])) continue;
        fuzz_must(m->n < TENSORS_MAX, "more than %d tensors", m->n);
        Tensor *t = &m->t[m->n++];
        *t = (Tensor){.dtype = DTYPE_F32, .rank = slot[i].rank};
        snprintf(t->name, sizeof t->name, "%s", slot[i].engine);
        memcpy(t->shape, slot[i].shape, sizeof slot[i].shape);
        t->shape[0] *= slot[i].parts;
        total += tensor_count(t);
    }
    mem_free(slot);
    m->bytes = (size_t)total * sizeof(float);
    m->block = total <= ELEMENTS_MAX ? mem_calloc((size_t)total, sizeof(float)) : NULL;
    float *at = m->block;
    for (int i = 0; i < m->n && at; i++) {
        m->t[i].data = at;
        at += tensor_count(&m->t[i]);
    }
    return m->block != NULL;
}

static void save_and_load(const Model *m, const HfConfig *c)
{
    char dir[PATH_CAP];
    Err err = {0};
    Model again;
    uint32_t crc;
    uint64_t bytes;
    fuzz_must(file_mkdirs(fuzz_path(dir, "saved"), &err) == ERR_NONE, "%s", err.text);
    fuzz_must(hf_save(dir, c, m->t, m->n, DTYPE_F32, &crc, &bytes, &err) == ERR_NONE, "%s",
              err.text);
    fuzz_must(model_make(&again, c), "a model that was just made");
    fuzz_must(hf_load(dir, c, again.t, again.n, &err) == ERR_NONE, "cannot load what was saved: %s",
              err.text);
    fuzz_must(memcmp(again.block, m->block, m->bytes) == 0, "other numbers when loaded again");
    mem_free(again.block);
}

static void convert(const char *dir, const HfConfig *c)
{
    HfConvert h = {
        .dtype = DTYPE_BF16, .tie = HF_AS_IS, .vocab_size = c->vocab_size + 3, .shard_bytes = 160};
    HfConverted done;
    Err err = {0};
    snprintf(h.from, sizeof h.from, "%s", dir);
    fuzz_path(h.to, "converted");
    fuzz_must(file_remove_tree(h.to, &err) == ERR_NONE, "%s", err.text);
    if (!fuzz_good(hf_convert(&h, &done, &err), &err)) return;
    fuzz_must(done.config.vocab_size == c->vocab_size + 3 && done.tensors > 0, "another model");
    Model m;
    if (model_make(&m, &done.config))
        fuzz_must(hf_load(h.to, &done.config, m.t, m.n, &err) == ERR_NONE,
                  "cannot load what was converted: %s", err.text);
    mem_free(m.block);
}

// The trunk under the head of a classifier; what was loaded of it is what the folder has.
static void under_another_head(const char *dir, const HfConfig *c, const Model *whole)
{
    HfConfig to = *c;
    HfHeads heads;
    Err err = {0};
    Model m;
    if (strcmp(c->model_type, "bert") != 0) return;
    snprintf(to.architecture, sizeof to.architecture, "BertForSequenceClassification");
    snprintf(to.label[0], sizeof to.label[0], "yes");
    to.n_labels = 1;
    to.has_pooler = true;
    if (model_make(&m, &to) && fuzz_good(hf_load_trunk(dir, &to, m.t, m.n, &heads, &err), &err))
        for (int i = 0; i < m.n && strncmp(m.t[i].name, "pooler", 6) != 0; i++)
            fuzz_must(memcmp(m.t[i].data, whole->t[i].data,
                             (size_t)tensor_count(&m.t[i]) * sizeof(float)) == 0,
                      "another %s", m.t[i].name);
    mem_free(m.block);
}

static void feed(const uint8_t *data, size_t size)
{
    char dir[PATH_CAP], path[PATH_CAP];
    Err err = {0};
    HfConfig c;
    FuzzPart part[2];
    fuzz_must(file_mkdirs(fuzz_path(dir, "model"), &err) == ERR_NONE, "%s", err.text);
    fuzz_split(data, size, part, 2);
    fuzz_put(path, "model/config.json", part[0].data, part[0].size);
    fuzz_put(path, "model/model.safetensors", part[1].data, part[1].size);
    if (!fuzz_good(hf_config_read(&c, dir, &err), &err)) return;
    Model m;
    if (model_make(&m, &c) && fuzz_good(hf_load(dir, &c, m.t, m.n, &err), &err)) {
        save_and_load(&m, &c);
        under_another_head(dir, &c, &m);
        convert(dir, &c);
    }
    mem_free(m.block);
}

// The base: two strips of work, write buffers, and the models of ELEMENTS_MAX.
const FuzzTarget fuzz_target = {feed, .memory_factor = 192, .memory_base = 32 << 20};
