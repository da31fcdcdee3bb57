// pack.c -- see pack.h.
//
// SPDX-License-Identifier: MIT
#include "engine/data/pack.h"
#include "engine/base/mem.h"

#include <string.h>

#define NO_ROW UINT32_MAX

typedef struct Row {
    uint32_t below; // in its bin
    int32_t picks;
    uint32_t sequences;
    uint32_t room;
} Row;

typedef struct Packer {
    const PackRule *rule;
    const uint64_t *begin;
    int64_t n, end;
    uint32_t *order; // sequences, the longest first
    uint32_t *row_of;
    Row *row;
    int64_t rows, cap_rows;
    uint32_t *bin;   // [tokens + 1] a row with so much room; NO_ROW
    uint64_t *taken; // one bit a bin: is there a row in it?
} Packer;

static int64_t length_of(const Packer *p, int64_t i)
{
    return (i + 1 < p->n ? (int64_t)p->begin[i + 1] : p->end) - (int64_t)p->begin[i];
}

static Status take_memory(Packer *p, Err *err)
{
    const size_t n = (size_t)p->n, bins = (size_t)p->rule->tokens + 1;
    p->order = mem_alloc(n * sizeof *p->order);
    p->row_of = mem_alloc(n * sizeof *p->row_of);
    p->bin = mem_alloc(bins * sizeof *p->bin);
    p->taken = mem_calloc(bins / 64 + 1, sizeof *p->taken);
    if (!p->order || !p->row_of || !p->bin || !p->taken)
        return mem_err(err, 8 * n + 5 * bins, "the packs");
    memset(p->bin, 0xff, bins * sizeof *p->bin);
    return ERR_NONE;
}

// Counting sort by length, descending; equal ones keep their order.
static Status sort_by_length(Packer *p, Err *err)
{
    const int64_t most = p->rule->tokens;
    int64_t *at = mem_calloc((size_t)most + 2, sizeof *at);
    if (!at) return mem_err(err, (size_t)most * 8, "the packs");
    for (int64_t i = 0; i < p->n; i++) at[most - length_of(p, i) + 1]++;
    for (int64_t k = 1; k <= most + 1; k++) at[k] += at[k - 1];
    for (int64_t i = 0; i < p->n; i++) p->order[at[most - length_of(p, i)]++] = (uint32_t)i;
    mem_free(at);
    return ERR_NONE;
}

static void push(Packer *p, uint32_t row)
{
    const uint32_t room = p->row[row].room;
    p->row[row].below = p->bin[room];
    p->bin[room] = row;
    p->taken[room / 64] |= UINT64_C(1) << room % 64;
}

static void pop(Packer *p, uint32_t room)
{
    p->bin[room] = p->row[p->bin[room]].below;
    if (p->bin[room] == NO_ROW) p->taken[room / 64] &= ~(UINT64_C(1) << room % 64);
}

// The first bin from `room` on that holds a row, or -1.
static int64_t next_bin(const Packer *p, int64_t room)
{
    const int64_t last = p->rule->tokens / 64;
    for (int64_t w = room / 64; w <= last; w++) {
        const uint64_t from = w == room / 64 ? ~UINT64_C(0) << room % 64 : ~UINT64_C(0);
        if (p->taken[w] & from) return 64 * w + __builtin_ctzll(p->taken[w] & from);
    }
    return -1;
}

// A row for a sequence, taken out of its bin. Of a bin only the uppermost row is looked at.
static Status find_row(Packer *p, int64_t length, int32_t picks, uint32_t *out, Err *err)
{
    for (int64_t b = next_bin(p, length); b >= 0; b = next_bin(p, b + 1)) {
        if (p->row[p->bin[b]].picks + picks > p->rule->picks) continue;
        *out = p->bin[b];
        pop(p, (uint32_t)b);
        return ERR_NONE;
    }
    if (p->rows == p->cap_rows) {
        const int64_t n = p->cap_rows ? 2 * p->cap_rows : 1024;
        Row *more = mem_realloc(p->row, (size_t)n * sizeof *more);
        if (!more) return mem_err(err, (size_t)n * sizeof *more, "the packs");
        p->row = more;
        p->cap_rows = n;
    }
    *out = (uint32_t)p->rows++;
    p->row[*out] = (Row){.room = (uint32_t)p->rule->tokens};
    return ERR_NONE;
}

static Status fill_rows(Packer *p, Err *err)
{
    for (int64_t k = 0; k < p->n; k++) {
        const int64_t length = length_of(p, p->order[k]);
        const int32_t picks = p->rule->picks_of[length];
        uint32_t i = 0;
        TRY(find_row(p, length, picks, &i, err));
        Row *row = &p->row[i];
        row->room -= (uint32_t)length;
        row->picks += picks;
        p->row_of[p->order[k]] = i;
        if (++row->sequences < p->rule->sequences) push(p, i);
    }
    return ERR_NONE;
}

// From "row of a sequence" to "sequences of a row"; rows in the order of their first sequences.
static Status list_packs(Packer *p, Packs *out, Err *err)
{
    out->n = p->rows;
    out->first = mem_calloc((size_t)p->rows + 1, sizeof *out->first);
    if (!out->first) return mem_err(err, (size_t)p->rows * 4, "the packs");
    uint32_t rows = 0, at = 0;
    for (int64_t i = 0; i < p->rows; i++) p->row[i].below = NO_ROW;
    for (int64_t i = 0; i < p->n; i++) {
        Row *row = &p->row[p->row_of[i]];
        if (row->below == NO_ROW) { // its place in the list from now on
            row->below = at;
            at += row->sequences;
            out->first[rows++] = row->below;
        }
        p->order[row->below++] = (uint32_t)i;
    }
    out->first[rows] = at;
    out->document = p->order;
    p->order = NULL;
    return ERR_NONE;
}

Status packs_make(Packs *out, const PackRule *rule, const uint64_t *begin, int64_t n, int64_t end,
                  Err *err)
{
    *out = (Packs){0};
    if (n >= NO_ROW)
        return err_set(err, ERR_UNSUPPORTED, "%lld sequences are too many to pack (data.pack=1)",
                       (long long)n);
    Packer p = {.rule = rule, .begin = begin, .n = n, .end = end};
    Status s = take_memory(&p, err);
    if (s == ERR_NONE) s = sort_by_length(&p, err);
    if (s == ERR_NONE) s = fill_rows(&p, err);
    if (s == ERR_NONE) s = list_packs(&p, out, err);
    mem_free(p.order);
    mem_free(p.row_of);
    mem_free(p.row);
    mem_free(p.bin);
    mem_free(p.taken);
    if (s != ERR_NONE) packs_free(out);
    return s;
}

void packs_free(Packs *p)
{
    mem_free(p->first);
    mem_free(p->document);
    *p = (Packs){0};
}
