// tokenizer_files.c -- see tokenizer_files.h.
//
// SPDX-License-Identifier: MIT
#include "checkpoints/tokenizer_files.h"

#include <string.h>

static const char *const names[] = {
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "generation_config.json",
    "chat_template.jinja",
    "encoder.json",
    "vocab.bpe",
};

// Rank files have names of their own: anything.tiktoken.
static bool is_rank_file(const char *name)
{
    static const char end[] = ".tiktoken";
    const size_t n = strlen(name);
    return n > sizeof end - 1 && name[0] != '.' && strcmp(name + n - (sizeof end - 1), end) == 0;
}

static bool wanted(const char *name)
{
    for (size_t i = 0; i < LT_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0) return true;
    return is_rank_file(name);
}

static Status copy_file(const char *to, const char *from, uint32_t *crc, uint64_t *bytes, Err *err)
{
    FileMap map;
    TRY(file_map(from, &map, err));
    FileWriter w;
    Status s = file_create(&w, to, err);
    if (s == ERR_NONE) {
        s = file_write(&w, map.data, map.size, err);
        if (s == ERR_NONE)
            s = file_commit(&w, err);
        else
            file_abandon(&w);
    }
    file_unmap(&map);
    if (s != ERR_NONE) return s;
    *crc = w.crc;
    *bytes = w.written;
    return ERR_NONE;
}

static Status copy_named(const char *dir, const char *from, const char *name, Manifest *m, Err *err)
{
    char to[PATH_CAP];
    uint32_t crc = 0;
    uint64_t bytes = 0;
    TRY(path_join(to, dir, name, err));
    TRY(copy_file(to, from, &crc, &bytes, err));
    return m ? manifest_add(m, name, crc, bytes, err) : ERR_NONE;
}

Status tokenizer_files_copy(const char *dir, const char *from, bool optional, Manifest *m, Err *err)
{
    if (!file_is_dir(from)) return copy_named(dir, from, path_base(from), m, err);
    FileList l;
    TRY(file_list(from, &l, err));
    Status s = ERR_NONE;
    int count = 0;
    for (int i = 0; i < l.n && s == ERR_NONE; i++) {
        char path[PATH_CAP];
        if (!wanted(l.name[i])) continue;
        s = path_join(path, from, l.name[i], err);
        if (s == ERR_NONE) s = copy_named(dir, path, l.name[i], m, err);
        count++;
    }
    file_list_free(&l);
    if (s == ERR_NONE && !count && !optional)
        s = err_set(err, ERR_IO, "%s: no tokenizer files in this folder", from);
    return s;
}
