// hf_convert.c -- see hf_convert.h.
//
// SPDX-License-Identifier: MIT
#include "checkpoints/hf_convert.h"

#include "checkpoints/hf_files.h"
#include "checkpoints/tokenizer_files.h"
#include "engine/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct Piece { // a tensor to be written, in the orientation of the file
    char name[HF_NAME_CAP + 16];
    const HfEntry *source; // NULL: zeros
    DType dtype;
    int rank;
    int64_t shape[2];
    int shard;
} Piece;

typedef struct Job {
    const HfConvert *how;
    HfConfig config; // of the source, then of the result
    HfFiles files;
    HfSlot *slot; // of the result
    int n;
    Piece *piece; // [n]
    int shards;
    Strip strip;
    const Piece *now;        // the first piece of the shard being written
    uint64_t written, total; // bytes of tensors
} Job;

static int64_t count_of(const Piece *p)
{
    return p->shape[0] * (p->rank == 2 ? p->shape[1] : 1);
}

static uint64_t bytes_of(const Piece *p)
{
    return (uint64_t)count_of(p) * dtype_bytes(p->dtype);
}

// Refuses a source whose head is a layer of its own.
static Status check_can_tie(Job *j, Err *err)
{
    const HfEntry *head = hf_files_find(&j->files, "lm_head.weight");
    const HfEntry *wte = hf_files_find(&j->files, "wte.weight");
    if (strip_equal(&j->strip, head->e->data, head->e->dtype, wte->e->data, wte->e->dtype,
                    wte->e->shape[0] * wte->e->shape[1]))
        return ERR_NONE;
    return err_set(err, ERR_FORMAT,
                   "%s: lm_head.weight differs from wte.weight, so the model cannot be tied",
                   j->files.dir);
}

// The source against its own config.
static Status check_source(Job *j, Err *err)
{
    HfSlot *slot = NULL;
    int n = 0;
    TRY(hf_slots_make(&j->config, &slot, &n, err));
    const HfEntry **found = mem_calloc((size_t)n, sizeof *found);
    Status s = found ? ERR_NONE : mem_err(err, (size_t)n * sizeof *found, "the list of tensors");
    if (s == ERR_NONE) s = hf_files_match(&j->files, &j->config, slot, n, found, err);
    mem_free((void *)(uintptr_t)found);
    mem_free(slot);
    return s;
}

static const HfEntry *source_of(const Job *j, const HfSlot *s)
{
    const HfEntry *e = hf_files_find(&j->files, s->name);
    return e || s->on_body ? e
                           : hf_files_find(&j->files, "wte.weight"); // a head made of the embedding
}

static void make_config(Job *j)
{
    static const char *const names[] = {"float32", "bfloat16", "float16"}; // by DType
    HfConfig *c = &j->config;
    const HfConvert *h = j->how;
    if (h->tie != HF_AS_IS) c->tie_word_embeddings = h->tie;
    if (h->vocab_size) c->vocab_size = h->vocab_size;
    if (c->bos_token_id >= c->vocab_size) c->bos_token_id = -1;
    if (c->eos_token_id >= c->vocab_size) c->eos_token_id = -1;
    const HfEntry *wte = hf_files_find(&j->files, "wte.weight");
    snprintf(c->dtype, sizeof c->dtype, "%s", names[h->dtype < 0 ? (int)wte->e->dtype : h->dtype]);
}

static Status plan(Job *j, Err *err)
{
    TRY(hf_slots_make(&j->config, &j->slot, &j->n, err));
    j->piece = mem_calloc((size_t)j->n, sizeof *j->piece);
    if (!j->piece) return mem_err(err, (size_t)j->n * sizeof *j->piece, "the list of tensors");
    const HfEntry *wte = hf_files_find(&j->files, "wte.weight");
    uint64_t fill = 0;
    j->shards = 1;
    for (int i = 0; i < j->n; i++) {
        const HfSlot *s = &j->slot[i];
        Piece *p = &j->piece[i];
        snprintf(p->name, sizeof p->name, "%s%s", s->on_body ? "transformer." : "", s->name);
        p->source = source_of(j, s);
        p->dtype =
            j->how->dtype >= 0 ? (DType)j->how->dtype : (p->source ? p->source : wte)->e->dtype;
        p->rank = s->rank;
        for (int d = 0; d < s->rank; d++)
            p->shape[d] = s->shape[s->transposed ? s->rank - 1 - d : d];
        if (j->how->shard_bytes && fill && fill + bytes_of(p) > j->how->shard_bytes) {
            j->shards++;
            fill = 0;
        }
        fill += bytes_of(p);
        j->total += bytes_of(p);
        p->shard = j->shards - 1;
    }
    return ERR_NONE;
}

// Rows that source and result share, then zeros.
static Status write_piece(void *user, int i, FileWriter *w, Err *err)
{
    Job *j = user;
    const Piece *p = &j->now[i];
    int64_t have = 0;
    const int64_t total = count_of(p);
    if (p->source) {
        have = 1;
        for (int d = 0; d < p->rank; d++) have *= p->source->e->shape[d];
        have = LT_MIN(have, total);
        TRY(strip_write(&j->strip, w, p->source->e->data, p->source->e->dtype, p->dtype, 1, have,
                        false, err));
    }
    TRY(strip_write_zeros(&j->strip, w, (uint64_t)(total - have) * dtype_bytes(p->dtype), err));
    j->written += bytes_of(p);
    on_progress(&j->how->on, (double)j->written, (double)j->total);
    return ERR_NONE;
}

static void shard_name(const Job *j, int shard, char out[64])
{
    if (j->shards == 1)
        snprintf(out, 64, "model.safetensors");
    else
        snprintf(out, 64, "model-%05d-of-%05d.safetensors", shard + 1, j->shards);
}

static Status write_shard(Job *j, const char *dir, int first, int n, HfConverted *out, Err *err)
{
    char path[PATH_CAP], name[64];
    uint64_t bytes = 0;
    SafeOut *o = mem_calloc((size_t)n, sizeof *o);
    if (!o) return mem_err(err, (size_t)n * sizeof *o, "the list of tensors");
    for (int i = 0; i < n; i++) {
        const Piece *p = &j->piece[first + i];
        o[i] = (SafeOut){.name = p->name, .dtype = p->dtype, .rank = p->rank};
        memcpy(o[i].shape, p->shape, sizeof p->shape);
        out->parameters += count_of(p);
    }
    j->now = &j->piece[first];
    shard_name(j, j->now->shard, name);
    const char *const meta[] = {"format", "pt", NULL};
    Status s = path_join(path, dir, name, err);
    if (s == ERR_NONE) s = safe_write_body(path, o, n, meta, write_piece, j, NULL, &bytes, err);
    mem_free(o);
    out->files++;
    out->tensors += n;
    out->bytes += bytes;
    return s;
}

static Status put_index(const Job *j, Buf *b, Err *err)
{
    uint64_t total = 0;
    for (int i = 0; i < j->n; i++) total += bytes_of(&j->piece[i]);
    TRY(buf_printf(b, err, "{\n  \"metadata\": {\n    \"total_size\": %" PRIu64 "\n  },\n", total));
    TRY(buf_puts(b, "  \"weight_map\": {\n", err));
    for (int i = 0; i < j->n; i++) {
        char name[64];
        shard_name(j, j->piece[i].shard, name);
        TRY(buf_printf(b, err, "    \"%s\": \"%s\"%s\n", j->piece[i].name, name,
                       i + 1 < j->n ? "," : ""));
    }
    return buf_puts(b, "  }\n}\n", err);
}

static Status put_file(const char *dir, const char *name, Buf *text, Status made, Err *err)
{
    char path[PATH_CAP];
    if (made == ERR_NONE) made = path_join(path, dir, name, err);
    if (made == ERR_NONE) made = file_replace(path, text->data, text->len, err);
    buf_free(text);
    return made;
}

static Status write_folder(Job *j, const char *dir, HfConverted *out, Err *err)
{
    TRY(file_mkdirs(dir, err));
    for (int i = 0, n; i < j->n; i += n) {
        for (n = 1; i + n < j->n && j->piece[i + n].shard == j->piece[i].shard;) n++;
        TRY(write_shard(j, dir, i, n, out, err));
    }
    Buf text = {0};
    Status s;
    if (j->shards > 1) {
        s = put_index(j, &text, err);
        TRY(put_file(dir, "model.safetensors.index.json", &text, s, err));
    }
    s = hf_config_text(&j->config, &text, err);
    TRY(put_file(dir, "config.json", &text, s, err));
    return tokenizer_files_copy(dir, j->how->from, true, NULL, err);
}

static Status check_target(const char *to, Err *err)
{
    if (!file_exists(to)) return ERR_NONE;
    if (!file_is_dir(to)) return err_set(err, ERR_USAGE, "%s: not a folder", to);
    FileList l;
    TRY(file_list(to, &l, err));
    const int n = l.n;
    file_list_free(&l);
    if (n) return err_set(err, ERR_USAGE, "%s: the folder is not empty", to);
    return ERR_NONE;
}

// Beside the target until it is whole.
static Status write_target(Job *j, HfConverted *out, Err *err)
{
    char to[PATH_CAP], partial[PATH_CAP];
    snprintf(to, sizeof to, "%s", j->how->to);
    for (size_t n = strlen(to); n > 1 && to[n - 1] == '/'; n--) to[n - 1] = 0;
    const int n = snprintf(partial, sizeof partial, "%.*s.partial", PATH_CAP - 16, to);
    if (n != (int)strlen(to) + 8) return err_set(err, ERR_USAGE, "path too long: %.60s...", to);
    TRY(check_target(to, err));
    TRY(file_remove_tree(partial, err));
    Status s = write_folder(j, partial, out, err);
    if (s == ERR_NONE) s = file_rename(partial, to, err);
    if (s != ERR_NONE && file_remove_tree(partial, NULL) != ERR_NONE)
        err_hint(err, "%.200s could not be removed and can be deleted", partial);
    return s;
}

static Status run(Job *j, HfConverted *out, Err *err)
{
    TRY(hf_config_read(&j->config, j->how->from, err));
    TRY(hf_files_open(&j->files, j->how->from, err));
    TRY(check_source(j, err));
    TRY(strip_init(&j->strip, err));
    if (j->how->tie == 1 && !j->config.tie_word_embeddings) TRY(check_can_tie(j, err));
    make_config(j);
    TRY(plan(j, err));
    out->config = j->config;
    return write_target(j, out, err);
}

Status hf_convert(const HfConvert *h, HfConverted *out, Err *err)
{
    Job *j = mem_calloc(1, sizeof *j);
    *out = (HfConverted){0};
    if (!j) return mem_err(err, sizeof *j, "the conversion");
    j->how = h;
    const Status s = run(j, out, err);
    strip_free(&j->strip);
    hf_files_close(&j->files);
    mem_free(j->piece);
    mem_free(j->slot);
    mem_free(j);
    return s;
}
