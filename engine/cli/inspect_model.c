// inspect_model.c -- runs, checkpoints, Hugging Face folders and tensor files.
//
// SPDX-License-Identifier: MIT
#include "engine/cli/inspect.h"

#include "checkpoints/checkpoint.h"
#include "checkpoints/hf_match.h"
#include "checkpoints/manifest.h"
#include "checkpoints/safetensors.h"
#include "checkpoints/steps.h"
#include "engine/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char not_checked[] = "checksums: not checked (--verify does)\n";

// One table row a tensor: type, shape, bytes, name.
static Status put_tensors(const SafeFile *f, Buf *out, Err *err)
{
    for (int i = 0; i < f->n; i++) {
        const SafeEntry *e = &f->entry[i];
        char shape[256];
        size_t n = (size_t)snprintf(shape, sizeof shape, "[");
        for (int d = 0; d < e->rank; d++)
            n += (size_t)snprintf(shape + n, sizeof shape - n, "%s%" PRId64, d ? ", " : "",
                                  e->shape[d]);
        snprintf(shape + n, sizeof shape - n, "]");
        TRY(buf_printf(out, err, "  %-7s %-16s %12" PRIu64 "  %s\n", e->type, shape, e->bytes,
                       e->name));
    }
    return ERR_NONE;
}

static uint64_t elements(const SafeEntry *e)
{
    uint64_t n = 1;
    for (int d = 0; d < e->rank; d++) n *= (uint64_t)e->shape[d];
    return n;
}

static Status put_file(const SafeFile *f, Buf *out, Err *err)
{
    uint64_t values = 0, bytes = 0;
    for (int i = 0; i < f->n; i++) {
        values += elements(&f->entry[i]);
        bytes += f->entry[i].bytes;
    }
    TRY(buf_printf(out, err,
                   "%s: safetensors, %d tensors, %" PRIu64 " values, %" PRIu64 " bytes of data\n",
                   path_base(f->path), f->n, values, bytes));
    for (int i = 0; i < f->n_meta; i++)
        TRY(buf_printf(out, err, "  metadata: %s = %s\n", f->meta_key[i], f->meta_value[i]));
    return put_tensors(f, out, err);
}

Status inspect_safetensors(const char *path, Buf *out, Err *err)
{
    SafeFile f;
    TRY(safe_open(&f, path, err));
    Status s = put_file(&f, out, err);
    if (s == ERR_NONE)
        s = buf_puts(out, "checksums: the format has none; sizes and offsets are consistent\n",
                     err);
    safe_close(&f);
    return s;
}

static Status put_bert(const HfConfig *c, Buf *out, Err *err)
{
    TRY(buf_printf(out, err, "       %" PRId64 " token type%s, %s pooler, padding token ",
                   c->n_types, plural_s((int)c->n_types), c->has_pooler ? "with" : "no"));
    TRY(c->pad_token_id < 0 ? buf_puts(out, "none\n", err)
                            : buf_printf(out, err, "%" PRId64 "\n", c->pad_token_id));
    if (!c->n_labels) return ERR_NONE;
    TRY(buf_printf(out, err, "labels: %" PRId64 ":", c->n_labels));
    for (int64_t i = 0; i < c->n_labels; i++)
        TRY(buf_printf(out, err, " %s%s", c->label[i], i + 1 < c->n_labels ? "," : "\n"));
    return ERR_NONE;
}

static Status put_config(const HfConfig *c, Buf *out, Err *err)
{
    TRY(buf_printf(out, err,
                   "model: %s, n_layer %" PRId64 ", n_head %" PRId64 ", n_embd %" PRId64
                   ", n_inner %" PRId64 ", n_positions %" PRId64 ", vocab_size %" PRId64 "\n",
                   c->architecture, c->n_layer, c->n_head, c->n_embd, c->n_inner, c->n_positions,
                   c->vocab_size));
    TRY(buf_printf(out, err, "       %s, %s, %s, %s biases, layer norm epsilon %g\n", c->dtype,
                   c->activation, hf_slots_output_text(c), c->bias ? "with" : "no",
                   c->layer_norm_epsilon));
    return strcmp(c->model_type, "bert") == 0 ? put_bert(c, out, err) : ERR_NONE;
}

static Status put_matched(const HfFiles *f, const HfConfig *c, Buf *out, Err *err)
{
    HfMatch m;
    TRY(hf_match_begin(&m, c, err));
    Status s = hf_match_files(&m, f, NULL, err);
    int64_t parameters = 0;
    for (int i = 0; i < m.n && s == ERR_NONE; i++)
        if (m.found[i] && !m.slot[i].twin && (c->bias || !m.slot[i].is_bias))
            parameters += (int64_t)elements(m.found[i]->e);
    if (s == ERR_NONE)
        s = buf_printf(out, err, "parameters: %" PRId64 "; the tensors are those of config.json\n",
                       parameters);
    if (s == ERR_NONE && m.heads.ignored[0])
        s = buf_printf(out, err, "ignored: %s, which a %s does not have\n", m.heads.ignored,
                       c->architecture);
    hf_match_end(&m);
    return s;
}

static Status put_weights(const char *dir, Buf *out, Err *err)
{
    HfConfig c;
    TRY(hf_config_read(&c, dir, err));
    TRY(put_config(&c, out, err));
    HfFiles f;
    TRY(hf_files_open(&f, dir, err));
    Status s = put_matched(&f, &c, out, err);
    for (int i = 0; i < f.n_file && s == ERR_NONE; i++) s = put_file(&f.file[i], out, err);
    hf_files_close(&f);
    return s;
}

// The lines of MANIFEST, each with its own verdict. *first: of the first that is not true.
static Status put_manifest(const char *dir, OnPart *check, Err *first, Buf *out, Err *err)
{
    Manifest *m = mem_calloc(2, sizeof *m);
    if (!m) return mem_err(err, 2 * sizeof *m, "a manifest");
    Status s = manifest_read(m, dir, err);
    if (check) check->total = (double)manifest_bytes(m);
    for (int i = 0; i < m->n && s == ERR_NONE; i++) {
        Err bad = {0};
        m[1].n = 1;
        m[1].line[0] = m->line[i];
        const OnProgress on = on_part(check);
        const Status one = manifest_check(&m[1], dir, check != NULL, &on, &bad);
        on_part_done(check, (double)m->line[i].bytes);
        if (one != ERR_NONE && first->code == ERR_NONE) *first = bad;
        s = buf_printf(out, err, "  %08" PRIx32 " %12" PRIu64 "  %s%s%s\n", m->line[i].crc,
                       m->line[i].bytes, m->line[i].name,
                       one == ERR_NONE ? "" : "  DAMAGED: ", bad.text);
    }
    mem_free(m);
    return s;
}

static Status inspect_step(const char *dir, OnPart *check, Buf *out, Err *err)
{
    Err first = {0};
    TRY(buf_printf(out, err, "%s: checkpoint%s\n", dir,
                   ckpt_has_trainer(dir) ? ", with trainer state" : ""));
    TRY(put_manifest(dir, check, &first, out, err));
    const bool whole = first.code == ERR_NONE;
    TRY(buf_puts(out,
                 !whole  ? "checksums: DAMAGED\n"
                 : check ? "checksums: every file is as MANIFEST says\n"
                         : not_checked,
                 err));
    // The verdict of the same check that resuming makes; it names the file. Checksums that were all
    // right a moment ago are not computed again.
    TRY(ckpt_verify(dir, check && !whole, err));
    if (!whole) return err_set(err, first.code, "%s", first.text); // it could not be read just then
    TRY(put_weights(dir, out, err));
    if (!ckpt_has_trainer(dir)) return ERR_NONE;
    char path[PATH_CAP];
    SafeFile f;
    TRY(path_join(path, dir, "trainer.safetensors", err));
    TRY(safe_open(&f, path, err));
    const Status s = put_file(&f, out, err);
    safe_close(&f);
    return s;
}

Status inspect_model(const char *dir, OnPart *check, Buf *out, Err *err)
{
    char manifest[PATH_CAP];
    TRY(path_join(manifest, dir, "MANIFEST", err));
    if (file_exists(manifest)) return inspect_step(dir, check, out, err);
    TRY(buf_printf(out, err, "%s: model folder\n", dir));
    TRY(put_weights(dir, out, err));
    return buf_puts(out, "checksums: none in this folder (no MANIFEST)\n", err);
}

// Of the files of a step; 0 when its MANIFEST cannot be read.
static uint64_t step_bytes(const char *run_dir, int64_t step)
{
    char dir[PATH_CAP];
    Manifest *m = mem_calloc(1, sizeof *m);
    uint64_t n = 0;
    if (m && steps_path(dir, run_dir, step, NULL) == ERR_NONE &&
        manifest_read(m, dir, NULL) == ERR_NONE)
        n = manifest_bytes(m);
    mem_free(m);
    return n;
}

Status inspect_run(const char *dir, OnPart *check, Buf *out, Err *err)
{
    Steps all;
    int64_t best = -1;
    Err bad = {0}, first = {0};
    char steps[PATH_CAP];
    uint64_t bytes = 0;
    TRY(steps_dir(steps, dir, err));
    TRY(file_size(steps, &bytes, err)); // is it there? Who called us may not have been able to see
    TRY(buf_printf(out, err, "%s: run folder\n", dir));
    const Status named = steps_best(dir, &best, &bad);
    if (named == ERR_NOMEM) return err_set(err, named, "%s", bad.text);
    if (named != ERR_NONE) TRY(buf_printf(out, err, "  DAMAGED: %s\n", bad.text));
    first = bad;
    TRY(steps_list(&all, dir, err));
    for (int i = 0; i < all.n && check; i++) check->total += (double)step_bytes(dir, all.step[i]);
    Status s = ERR_NONE;
    int damaged = 0;
    for (int i = 0; i < all.n && s == ERR_NONE; i++) {
        char step_dir[PATH_CAP], name[STEPS_NAME_CAP];
        steps_name(name, all.step[i]);
        s = steps_path(step_dir, dir, all.step[i], err);
        if (s != ERR_NONE) break;
        const OnProgress on = on_part(check);
        const Status one = ckpt_verify_on(step_dir, check != NULL, &on, &bad);
        if (check) on_part_done(check, (double)step_bytes(dir, all.step[i]));
        if (one == ERR_NOMEM) { // says nothing about the step
            s = err_set(err, one, "%s", bad.text);
            break;
        }
        damaged += one != ERR_NONE;
        if (one != ERR_NONE && first.code == ERR_NONE) first = bad;
        s = buf_printf(out, err, "  %s  %s%s%s\n", name,
                       one == ERR_NONE ? "complete" : "DAMAGED: ", one == ERR_NONE ? "" : bad.text,
                       all.step[i] == best ? "  (best)" : "");
    }
    if (s == ERR_NONE)
        s = buf_printf(out, err, "%d checkpoint%s, %d damaged\n", all.n, plural_s(all.n), damaged);
    if (s == ERR_NONE)
        s = buf_puts(out, check ? "checksums: every file of every step was read\n" : not_checked,
                     err);
    steps_free(&all);
    if (s == ERR_NONE && first.code != ERR_NONE) return err_set(err, ERR_FORMAT, "%s", first.text);
    return s;
}
