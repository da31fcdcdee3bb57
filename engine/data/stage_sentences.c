// stage_sentences.c -- see stage_sentences.h.
//
// SPDX-License-Identifier: MIT
#include "engine/data/stage_sentences.h"

#include <string.h>

enum { IDS, SENTENCES, DOCUMENTS, FILES };

Status stage_open(SentenceStage *s, const char *dir, Err *err)
{
    static const char *const name[FILES] = {"staging.ids", "staging.sentences",
                                            "staging.documents"};
    *s = (SentenceStage){0};
    for (int i = 0; i < FILES; i++) s->writer[i].fd = -1;
    for (int i = 0; i < FILES; i++) {
        char path[PATH_CAP];
        TRY(path_join(path, dir, name[i], err));
        TRY(file_create(&s->writer[i], path, err));
    }
    return ERR_NONE;
}

static Status end_document(SentenceStage *s, Err *err)
{
    if (!s->is_open || s->sentences == (int64_t)s->open.first) return ERR_NONE;
    s->documents++;
    return file_write(&s->writer[DOCUMENTS], &s->open, sizeof s->open, err);
}

Status stage_document(SentenceStage *s, Err *err)
{
    TRY(end_document(s, err));
    s->open = (StagedText){(uint64_t)s->sentences, 0};
    s->is_open = true;
    return ERR_NONE;
}

Status stage_sentence(SentenceStage *s, const int32_t *id, int64_t n, Err *err)
{
    const uint64_t first = (uint64_t)s->tokens;
    s->sentences++;
    s->tokens += n;
    TRY(file_write(&s->writer[SENTENCES], &first, sizeof first, err));
    return file_write(&s->writer[IDS], id, (size_t)n * sizeof *id, err);
}

Status stage_map(SentenceStage *s, Err *err)
{
    TRY(end_document(s, err));
    for (int i = 0; i < FILES; i++) {
        TRY(file_commit(&s->writer[i], err));
        TRY(file_map(s->writer[i].path, &s->map[i], err));
    }
    // A map begins at a page: aligned for any type.
    s->id = (const void *)s->map[IDS].data;
    s->sentence = (const void *)s->map[SENTENCES].data;
    s->document = (const void *)s->map[DOCUMENTS].data;
    return ERR_NONE;
}

int64_t stage_first(const SentenceStage *s, int64_t i)
{
    return (int64_t)s->document[i].first;
}

int64_t stage_end(const SentenceStage *s, int64_t i)
{
    return i + 1 < s->documents ? stage_first(s, i + 1) : s->sentences;
}

int64_t stage_token(const SentenceStage *s, int64_t k)
{
    return k < s->sentences ? (int64_t)s->sentence[k] : s->tokens;
}

Status stage_close(SentenceStage *s, Err *err)
{
    Status status = ERR_NONE;
    for (int i = 0; i < FILES; i++) {
        file_unmap(&s->map[i]);
        file_abandon(&s->writer[i]);
        if (s->writer[i].path[0] && status == ERR_NONE)
            status = file_remove(s->writer[i].path, err);
    }
    return status;
}
