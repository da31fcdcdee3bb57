// hf_match.c -- see hf_match.h.
//
// SPDX-License-Identifier: MIT
#include "checkpoints/hf_match.h"

#include "checkpoints/json_read.h"
#include "engine/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

Status hf_match_begin(HfMatch *m, const HfConfig *model, Err *err)
{
    *m = (HfMatch){.model = model};
    TRY(hf_slots_make(model, &m->slot, &m->n, err));
    m->found = mem_calloc((size_t)m->n, sizeof *m->found);
    if (m->found) return ERR_NONE;
    hf_match_end(m);
    return mem_err(err, (size_t)m->n * sizeof *m->found, "the list of tensors");
}

void hf_match_end(HfMatch *m)
{
    mem_free((void *)(uintptr_t)m->found);
    mem_free(m->slot);
    *m = (HfMatch){0};
}

static void shape_text(char out[256], const int64_t *shape, int rank)
{
    size_t n = (size_t)snprintf(out, 256, "[");
    for (int i = 0; i < rank; i++)
        n += (size_t)snprintf(out + n, 256 - n, "%s%" PRId64, i ? ", " : "", shape[i]);
    snprintf(out + n, 256 - n, "]");
}

static Status check_entry(const HfEntry *h, const HfSlot *s, Err *err)
{
    char show[JSON_SHOW_CAP], have[256], want[256];
    const int64_t shape[2] = {s->shape[s->transposed ? 1 : 0], s->shape[s->transposed ? 0 : 1]};
    bool same = h->e->rank == s->rank;
    for (int i = 0; same && i < s->rank; i++) same = h->e->shape[i] == shape[i];
    json_read_show(show, h->e->name);
    if (!same) {
        shape_text(have, h->e->shape, h->e->rank);
        shape_text(want, shape, s->rank);
        return err_set(err, ERR_FORMAT, "%s: tensor \"%s\" has shape %s, the model wants %s",
                       h->file->path, show, have, want);
    }
    if (h->e->dtype > DTYPE_F16)
        return err_set(err, ERR_FORMAT,
                       "%s: tensor \"%s\" has dtype %s; weights are F32, F16 or BF16",
                       h->file->path, show, h->e->type);
    return ERR_NONE;
}

// Two tensors of the file, both checked: the same numbers?
static Status equal_entries(const HfEntry *a, const HfEntry *b, bool *same, Err *err)
{
    int64_t n = 1;
    Strip strip;
    for (int d = 0; d < a->e->rank; d++) n *= a->e->shape[d];
    TRY(strip_init(&strip, err));
    *same = strip_equal(&strip, a->e->data, a->e->dtype, b->e->data, b->e->dtype, n);
    strip_free(&strip);
    return ERR_NONE;
}

// Under both of its names a tensor may be in the file if that makes no difference. (The twins of an
// untied output layer do differ: each slot takes the name that is its own.)
static Status check_other_name(const HfMatch *m, const HfFiles *f, int i, Err *err)
{
    const HfSlot *s = &m->slot[i];
    const HfEntry *h = m->found[i], *other = s->other[0] ? hf_files_find(f, s->other) : NULL;
    const bool twins = s->twin || (i && m->slot[i - 1].twin);
    if (!other || other == h || twins) return ERR_NONE;
    bool same = false;
    char a[JSON_SHOW_CAP], b[JSON_SHOW_CAP];
    TRY(check_entry(other, s, err));
    TRY(equal_entries(h, other, &same, err));
    if (same) return ERR_NONE;
    return err_set(err, ERR_FORMAT, "%s: tensors \"%s\" and \"%s\" are the same one, but differ",
                   f->dir, json_read_show(a, h->e->name), json_read_show(b, other->e->name));
}

// A classifier of something else, or of the same things in another order, is another classifier.
static bool same_classes(const HfConfig *a, const HfConfig *b)
{
    return strcmp(a->architecture, b->architecture) == 0 && a->n_labels == b->n_labels &&
           memcmp(a->label, b->label, (size_t)a->n_labels * sizeof a->label[0]) == 0;
}

static void add_name(char *text, size_t cap, const char *name)
{
    const size_t n = strlen(text);
    snprintf(text + n, cap - n, "%s%s", n ? ", " : "", name);
}

// Heads of the model of which the file has nothing.
static void find_lacking(HfMatch *m, const HfConfig *file)
{
    for (int p = HF_TRUNK + 1; p < HF_PARTS; p++) {
        int slots = 0, found = 0;
        const bool other = p == HF_CLASSIFIER && !same_classes(m->model, file);
        for (int i = 0; i < m->n; i++) {
            if (m->slot[i].of != (HfPart)p) continue;
            if (other) m->found[i] = NULL;
            slots++;
            found += m->found[i] != NULL;
        }
        m->lacks[p] = slots && !found;
        if (m->lacks[p])
            add_name(m->heads.lacking, sizeof m->heads.lacking, hf_slots_part_name((HfPart)p));
    }
}

static Status check_missing(const HfMatch *m, const HfFiles *f, Err *err)
{
    const HfSlot *first = NULL;
    int count = 0;
    for (int i = 0; i < m->n; i++) {
        const HfSlot *s = &m->slot[i];
        if (m->found[i] || m->lacks[s->of] || (s->is_bias && !m->model->bias)) continue;
        if (!first) first = s;
        count++;
    }
    if (!first) return ERR_NONE;
    char more[40] = "";
    if (count > 1) snprintf(more, sizeof more, " (and %d more)", count - 1);
    const Status s = err_set(err, ERR_FORMAT, "%s: tensor \"%s%s\" is missing%s", f->dir,
                             first->prefix, first->name, more);
    if (first->is_output)
        err_hint(err,
                 "if the output layer shares the token embedding, set tie_word_embeddings to true "
                 "in config.json");
    return s;
}

static bool model_has(const HfMatch *m, HfPart p)
{
    for (int i = m->n - 1; i >= 0 && m->slot[i].of != HF_TRUNK; i--)
        if (m->slot[i].of == p) return !m->lacks[p];
    return false;
}

// May this tensor, which fills no slot, be in the file?
static bool may_be_extra(const HfMatch *m, const char *name, bool other_heads)
{
    const char *output = hf_slots_output(m->model);
    if (output && m->model->tie_word_embeddings && strcmp(name, output) == 0) return true;
    if (strcmp(m->model->model_type, "bert") != 0) return false;
    const HfPart p = hf_slots_part(name);
    return p == HF_PARTS ? other_heads : p != HF_TRUNK && !model_has(m, p);
}

static void name_ignored(HfMatch *m, const HfEntry *h, char last[JSON_SHOW_CAP])
{
    char name[JSON_SHOW_CAP];
    const HfPart p = hf_slots_part(h->name);
    json_read_show(name, h->name);
    if (p < HF_PARTS)
        snprintf(name, sizeof name, "%s", hf_slots_part_name(p));
    else
        name[strcspn(name, ".")] = 0;
    if (strcmp(name, last) == 0) return; // entries are sorted
    memcpy(last, name, sizeof name);
    add_name(m->heads.ignored, sizeof m->heads.ignored, name);
}

static Status check_extra(HfMatch *m, const HfFiles *f, bool other_heads, Err *err)
{
    char *used = mem_calloc((size_t)f->n, 1);
    if (!used) return mem_err(err, (size_t)f->n, "checking tensors");
    for (int i = 0; i < m->n; i++) {
        const HfEntry *other = m->slot[i].other[0] ? hf_files_find(f, m->slot[i].other) : NULL;
        if (m->found[i]) used[m->found[i] - f->entry] = 1;
        if (m->found[i] && other) used[other - f->entry] = 1;
    }
    int count = 0, first = -1;
    char last[JSON_SHOW_CAP] = "";
    const char *output = hf_slots_output(m->model);
    for (int i = 0; i < f->n; i++) {
        if (used[i]) continue;
        if (may_be_extra(m, f->entry[i].name, other_heads)) {
            if (!output || strcmp(f->entry[i].name, output) != 0)
                name_ignored(m, &f->entry[i], last);
            continue;
        }
        if (first < 0) first = i;
        count++;
    }
    mem_free(used);
    if (first < 0) return ERR_NONE;
    char show[JSON_SHOW_CAP], more[40] = "";
    if (count > 1) snprintf(more, sizeof more, " (nor are %d more)", count - 1);
    return err_set(err, ERR_FORMAT,
                   "%s: tensor \"%s\" is not part of a %s with %" PRId64 " layers%s",
                   f->entry[first].file->path, json_read_show(show, f->entry[first].e->name),
                   m->model->architecture, m->model->n_layer, more);
}

// A tied model may carry its output layer all the same, when it is the embedding.
static Status check_tied(const HfMatch *m, const HfFiles *f, Err *err)
{
    const char *output = hf_slots_output(m->model), *embedding = hf_slots_embedding(m->model);
    const HfEntry *head = output ? hf_files_find(f, output) : NULL;
    const HfEntry *wte = hf_files_find(f, embedding);
    if (!head) return ERR_NONE;
    const HfSlot as_embedding = {.rank = 2, .shape = {wte->e->shape[0], wte->e->shape[1]}};
    bool same = false;
    TRY(check_entry(head, &as_embedding, err));
    TRY(equal_entries(wte, head, &same, err));
    if (same) return ERR_NONE;
    const Status s = err_set(err, ERR_FORMAT,
                             "%s: config.json ties the output layer to the token embedding, but "
                             "%s differs from %s",
                             f->dir, output, embedding);
    err_hint(err, "set tie_word_embeddings to false in config.json if both are meant");
    return s;
}

// A model without biases is written with zeros in their place; anything else would be lost.
static Status check_no_bias(const HfMatch *m, Err *err)
{
    Strip strip;
    TRY(strip_init(&strip, err));
    Status s = ERR_NONE;
    for (int i = 0; i < m->n && s == ERR_NONE; i++) {
        const HfEntry *h = m->found[i];
        if (!m->slot[i].is_bias || !h) continue;
        if (strip_is_zero(&strip, h->e->data, h->e->dtype, m->slot[i].shape[0])) continue;
        char show[JSON_SHOW_CAP];
        s = err_set(err, ERR_FORMAT,
                    "%s: config.json says the model has no biases, but tensor \"%s\" is not zero",
                    h->file->path, json_read_show(show, h->e->name));
    }
    strip_free(&strip);
    return s;
}

Status hf_match_files(HfMatch *m, const HfFiles *f, const HfConfig *file, Err *err)
{
    m->heads = (HfHeads){0};
    memset(m->lacks, 0, sizeof m->lacks);
    for (int i = 0; i < m->n; i++) {
        const HfSlot *s = &m->slot[i];
        m->found[i] = hf_files_find(f, s->name);
        if (!m->found[i] && s->other[0]) m->found[i] = hf_files_find(f, s->other);
    }
    if (file) find_lacking(m, file);
    TRY(check_missing(m, f, err));
    TRY(check_extra(m, f, file != NULL, err));
    for (int i = 0; i < m->n; i++) {
        if (!m->found[i]) continue;
        TRY(check_entry(m->found[i], &m->slot[i], err));
        TRY(check_other_name(m, f, i, err));
    }
    if (m->model->tie_word_embeddings) TRY(check_tied(m, f, err));
    if (!m->model->bias) TRY(check_no_bias(m, err));
    return ERR_NONE;
}
