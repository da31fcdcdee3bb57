// labels.c -- see labels.h.
//
// SPDX-License-Identifier: MIT
#include "engine/data/labels.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void labels_from(Labels *l, const char (*name)[LABEL_CAP], int n)
{
    *l = (Labels){.n = n};
    memcpy(l->name, name, (size_t)n * sizeof l->name[0]);
}

int labels_find(const Labels *l, const char *name, size_t bytes)
{
    for (int i = 0; i < l->n; i++)
        if (strlen(l->name[i]) == bytes && memcmp(l->name[i], name, bytes) == 0) return i;
    return -1;
}

// How many bytes the character at p takes, 0: it is none that may stand in a label. The name goes
// into config.json, which is UTF-8.
static size_t printable(const uint8_t *p, size_t left)
{
    if (p[0] < 0x80) return p[0] >= ' ' && p[0] != 0x7f ? 1 : 0;
    const size_t n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || n > left) return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    const bool overlong = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90);
    const bool surrogate = p[0] == 0xed && p[1] >= 0xa0;
    const bool beyond = p[0] == 0xf4 && p[1] >= 0x90;
    return overlong || surrogate || beyond ? 0 : n;
}

Status labels_add(Labels *l, const char *name, size_t bytes, int *number, Err *err)
{
    *number = labels_find(l, name, bytes);
    if (*number >= 0) return ERR_NONE;
    if (bytes == 0) return err_set(err, ERR_USAGE, "the label is empty");
    if (bytes >= LABEL_CAP)
        return err_set(err, ERR_USAGE, "a label of %zu bytes: at most %d", bytes, LABEL_CAP - 1);
    for (size_t i = 0, n; i < bytes; i += n) {
        n = printable((const uint8_t *)name + i, bytes - i);
        if (n == 0) return err_set(err, ERR_USAGE, "a label that is not printable UTF-8");
    }
    if (l->n == LABELS_MAX)
        return err_set(err, ERR_USAGE, "more than %d different labels", LABELS_MAX);
    memcpy(l->name[l->n], name, bytes);
    l->name[l->n][bytes] = 0;
    *number = l->n++;
    return ERR_NONE;
}

static bool is_integer(const char *s)
{
    const size_t sign = *s == '-';
    const size_t digits = strspn(s + sign, "0123456789");
    return digits > 0 && digits <= 18 && s[sign + digits] == 0;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(a, b); // of unsigned bytes, says C
}

static int by_value(const void *a, const void *b)
{
    const long long x = atoll(a), y = atoll(b);
    return x != y ? (x < y ? -1 : 1) : by_bytes(a, b);
}

void labels_sort(Labels *l)
{
    bool integers = true;
    for (int i = 0; i < l->n; i++) integers &= is_integer(l->name[i]);
    qsort(l->name, (size_t)l->n, sizeof l->name[0], integers ? by_value : by_bytes);
}

bool labels_unnamed(const Labels *l)
{
    for (int i = 0; i < l->n; i++) {
        char name[LABEL_CAP];
        snprintf(name, sizeof name, "LABEL_%d", i);
        if (strcmp(name, l->name[i]) != 0) return false;
    }
    return true;
}

const char *labels_show(const Labels *l, char out[256])
{
    size_t n = 0;
    out[0] = 0;
    for (int i = 0; i < l->n; i++) {
        const bool room = n + strlen(l->name[i]) + 8 < 256;
        n += (size_t)snprintf(out + n, 256 - n, "%s%s", i ? ", " : "", room ? l->name[i] : "...");
        if (!room) break;
    }
    return out;
}
