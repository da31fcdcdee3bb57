// hf_convert.c -- see hf_convert.h.
//
// SPDX-License-Identifier: MIT
#include "checkpoints/hf_convert.h"

#include "checkpoints/hf_match.h"
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
    bool twin; // of another piece: no parameters of its own
    int shard;
} Piece;

typedef struct Job {
    const HfConvert *how;
    HfConfig from, config; // of the source and of the result
    HfFiles files;
    HfMatch source;
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

static const HfEntry *embedding_of(const Job *j)
{
    return hf_files_find(&j->files, hf_slots_embedding(&j->from));
}

// Is there an output layer, and does a source that is to be tied have the embedding for it?
static Status check_can_tie(Job *j, Err *err)
{
    const char *output = hf_slots_output(&j->from);
    if (!output)
        return err_set(err, ERR_USAGE, "%s: a %s has no output layer to tie or untie", j->files.dir,
                       j->from.architecture);
    if (!j->how->tie || j->from.tie_word_embeddings) return ERR_NONE;
    const HfEntry *head = hf_files_find(&j->files, output), *wte = embedding_of(j);
    if (strip_equal(&j->strip, head->e->data, head->e->dtype, wte->e->data, wte->e->dtype,
                    wte->e->shape[0] * wte->e->shape[1]))
        return ERR_NONE;
    return err_set(err, ERR_FORMAT, "%s: %s differs from %s, so the model cannot be tied",
                   j->files.dir, output, hf_slots_embedding(&j->from));
}

// The source's tensor for a slot of the result; *at: where the last one was (both lists have about
// the same order).
static const HfEntry *source_of(const Job *j, const HfSlot *want, int *at)
{
    for (int k = 0; k < j->source.n; k++) {
        const int i = (*at + k) % j->source.n;
        const HfSlot *s = &j->source.slot[i];
        if (s->twin || s->part != want->part || strcmp(s->engine, want->engine) != 0) continue;
        *at = i;
        return j->source.found[i];
    }
    return want->is_output ? embedding_of(j) : NULL; // an output layer made of the embedding
}

static int64_t token_within(int64_t id, int64_t vocab)
{
    return id < vocab ? id : -1;
}

static void make_config(Job *j)
{
    static const char *const names[] = {"float32", "bfloat16", "float16"}; // by DType
    HfConfig *c = &j->config;
    const HfConvert *h = j->how;
    *c = j->from;
    if (h->tie != HF_AS_IS) c->tie_word_embeddings = h->tie;
    if (h->vocab_size) c->vocab_size = h->vocab_size;
    c->bos_token_id = token_within(c->bos_token_id, c->vocab_size);
    c->eos_token_id = token_within(c->eos_token_id, c->vocab_size);
    c->pad_token_id = token_within(c->pad_token_id, c->vocab_size);
    const DType dtype = h->dtype < 0 ? embedding_of(j)->e->dtype : (DType)h->dtype;
    snprintf(c->dtype, sizeof c->dtype, "%s", names[dtype]);
}

static Status plan(Job *j, Err *err)
{
    TRY(hf_slots_make(&j->config, &j->slot, &j->n, err));
    j->piece = mem_calloc((size_t)j->n, sizeof *j->piece);
    if (!j->piece) return mem_err(err, (size_t)j->n * sizeof *j->piece, "the list of tensors");
    const HfEntry *wte = embedding_of(j);
    uint64_t fill = 0;
    int at = 0;
    j->shards = 1;
    for (int i = 0; i < j->n; i++) {
        const HfSlot *s = &j->slot[i];
        Piece *p = &j->piece[i];
        snprintf(p->name, sizeof p->name, "%s%s", s->prefix, s->name);
        p->source = source_of(j, s, &at);
        p->twin = s->twin;
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
        if (!p->twin) out->parameters += count_of(p);
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
    TRY(hf_config_read(&j->from, j->how->from, err));
    TRY(hf_files_open(&j->files, j->how->from, err));
    TRY(hf_match_begin(&j->source, &j->from, err));
    TRY(hf_match_files(&j->source, &j->files, NULL, err));
    TRY(strip_init(&j->strip, err));
    if (j->how->tie != HF_AS_IS) TRY(check_can_tie(j, err));
    make_config(j);
    TRY(plan(j, err));
    out->config = j->config;
    out->left_out = j->source.heads;
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
    hf_match_end(&j->source);
    hf_files_close(&j->files);
    mem_free(j->piece);
    mem_free(j->slot);
    mem_free(j);
    return s;
}
