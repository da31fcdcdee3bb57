// scores.c -- see scores.h.
//
// SPDX-License-Identifier: MIT
#include "engine/report/scores.h"
#include "engine/base/assert.h"
#include "engine/base/buf.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

static double ratio(double a, double b)
{
    return b > 0 ? a / b : (double)NAN;
}

static double f1_of(int64_t is, int64_t said, int64_t both)
{
    return is + said > 0 ? 2.0 * (double)both / (double)(is + said) : 0;
}

// ---------------------------------------------------------------- classes

void class_score_add(ClassScore *s, int is, int said)
{
    ASSERT(is >= 0 && is < SCORE_CLASSES && said >= 0 && said < SCORE_CLASSES, "%d, %d", is, said);
    s->n++;
    s->right += is == said;
    s->is[is]++;
    s->said[said]++;
    s->both[is] += is == said;
}

double class_score_accuracy(const ClassScore *s)
{
    return ratio((double)s->right, (double)s->n);
}

double class_score_macro_f1(const ClassScore *s)
{
    double sum = 0;
    int n = 0;
    for (int i = 0; i < SCORE_CLASSES; i++) {
        if (s->is[i] + s->said[i] == 0) continue;
        sum += f1_of(s->is[i], s->said[i], s->both[i]);
        n++;
    }
    return ratio(sum, n);
}

// ---------------------------------------------------------------- tags

typedef struct Entities { // found one after another in a sentence
    const TagScore *s;
    const int32_t *tag;
    int64_t n, at;    // the next word to look at
    int64_t from, to; // of the entity found: [from, to)
    int type;
} Entities;

void tag_score_init(TagScore *s, const char (*name)[SCORE_NAME_CAP], int n)
{
    const char *types[SCORE_CLASSES];
    *s = (TagScore){0};
    ASSERT(n <= SCORE_CLASSES, "%d tags", n);
    for (int i = 0; i < n; i++) {
        const char *dash = strchr(name[i], '-');
        s->mark[i] = name[i][0];
        types[i] = dash ? dash + 1 : "";
        s->type[i] = 0;
        while (strcmp(types[s->type[i]], types[i]) != 0) s->type[i]++;
        s->entities |= dash == name[i] + 1 && strchr("BIES", name[i][0]);
    }
}

static bool inside(char mark)
{
    return mark != 'O' && mark != '.';
}

// Does the entity that `before` is of end before the word `now`?
static bool ends(const TagScore *s, int32_t before, int32_t now)
{
    const char a = s->mark[before], b = s->mark[now];
    if (a == 'E' || a == 'S') return true;
    if ((a == 'B' || a == 'I') && (b == 'B' || b == 'S' || b == 'O')) return true;
    return inside(a) && s->type[before] != s->type[now];
}

// Does one begin at `now`?
static bool begins(const TagScore *s, int32_t before, int32_t now)
{
    const char a = before < 0 ? 'O' : s->mark[before], b = s->mark[now];
    if (b == 'B' || b == 'S') return true;
    if ((a == 'E' || a == 'S' || a == 'O') && (b == 'E' || b == 'I')) return true;
    return inside(b) && before >= 0 && s->type[before] != s->type[now];
}

static bool next_entity(Entities *e)
{
    const TagScore *s = e->s;
    while (e->at < e->n && !begins(s, e->at ? e->tag[e->at - 1] : -1, e->tag[e->at])) e->at++;
    if (e->at >= e->n) return false;
    e->from = e->at++;
    e->type = s->type[e->tag[e->from]];
    while (e->at < e->n && inside(s->mark[e->tag[e->at]]) &&
           !ends(s, e->tag[e->at - 1], e->tag[e->at]))
        e->at++;
    e->to = e->at;
    return true;
}

void tag_score_add(TagScore *s, const int32_t *is, const int32_t *said, int64_t n)
{
    for (int64_t i = 0; i < n; i++) class_score_add(&s->word, is[i], said[i]);
    if (!s->entities) return;
    Entities a = {.s = s, .tag = is, .n = n}, b = {.s = s, .tag = said, .n = n};
    bool more_a = next_entity(&a), more_b = next_entity(&b);
    while (more_a || more_b) { // in the order of their first words
        const bool take_a = more_a && (!more_b || a.from <= b.from);
        const bool take_b = more_b && (!more_a || b.from <= a.from);
        s->both += take_a && take_b && a.to == b.to && a.type == b.type;
        s->is += take_a;
        s->said += take_b;
        if (take_a) more_a = next_entity(&a);
        if (take_b) more_b = next_entity(&b);
    }
}

double tag_score_f1(const TagScore *s)
{
    if (!s->entities) return class_score_macro_f1(&s->word);
    return s->word.n ? f1_of(s->is, s->said, s->both) : (double)NAN;
}

// ---------------------------------------------------------------- answers

// Bytes of the blank at p: of ASCII, the no-break space, U+2000 to U+200A, U+3000.
static int blank(const char *p, const char *end)
{
    const unsigned char *u = (const unsigned char *)p;
    if (isspace(u[0]) || (u[0] >= 0x1c && u[0] <= 0x1f)) return 1;
    if (end - p >= 2 && u[0] == 0xc2 && (u[1] == 0xa0 || u[1] == 0x85)) return 2;
    if (end - p < 3) return 0;
    if (u[0] == 0xe2 && u[1] == 0x80 && u[2] >= 0x80 && u[2] <= 0x8a) return 3;
    return u[0] == 0xe3 && u[1] == 0x80 && u[2] == 0x80 ? 3 : 0;
}

static bool is_article(const char *w, size_t n)
{
    return (n == 1 && w[0] == 'a') || (n == 2 && memcmp(w, "an", 2) == 0) ||
           (n == 3 && memcmp(w, "the", 3) == 0);
}

// Words with one blank between.
static Status normal_form(ScoreText t, Buf *out, Err *err)
{
    size_t word = 0; // where the word at hand begins
    buf_clear(out);
    const char *p = t.text, *const end = t.text + t.bytes;
    for (;;) {
        const int gap = p < end ? blank(p, end) : 1;
        if (gap == 0) {
            const unsigned char c = (unsigned char)*p++;
            const char low = (char)(c < 0x80 ? tolower(c) : c);
            if (c >= 0x80 || !ispunct(c)) TRY(buf_append(out, &low, 1, err));
            continue;
        }
        if (out->len > word && is_article(out->data + word, out->len - word)) out->len = word;
        if (out->len > word) {
            TRY(buf_append(out, " ", 1, err));
            word = out->len;
        }
        if (p >= end) break;
        p += gap;
    }
    if (out->len) out->len--;
    return buf_append(out, "", 0, err);
}

static const char *next_word(const char **at, size_t *n)
{
    const char *w = *at;
    *n = strcspn(w, " ");
    *at = w + *n + (w[*n] == ' ');
    return w;
}

// How often this word stands in the text, or (before: a place in it) in the part in front of that.
static int64_t times(const char *text, const char *before, const char *w, size_t n)
{
    int64_t k = 0;
    size_t m;
    for (const char *at = text; *at && (!before || at < before);) {
        const char *v = next_word(&at, &m);
        k += m == n && memcmp(v, w, n) == 0;
    }
    return k;
}

static double words_f1(const char *said, const char *right)
{
    int64_t n_said = 0, n_right = 0, both = 0;
    size_t n;
    for (const char *at = right; *at; n_right++) (void)next_word(&at, &n);
    for (const char *at = said; *at; n_said++) {
        const char *w = next_word(&at, &n);
        both += times(said, w, w, n) < times(right, NULL, w, n); // the k-th here needs a k-th there
    }
    if (n_said == 0 || n_right == 0) return n_said == n_right;
    return f1_of(n_right, n_said, both);
}

static Status best_of(const Buf *said, const ScoreText *right, int n, Buf *form, bool *exact,
                      double *f1, Err *err)
{
    int answers = 0; // that have words
    *exact = false;
    *f1 = 0;
    for (int i = 0; i < n; i++) {
        TRY(normal_form(right[i], form, err));
        if (form->len == 0) continue;
        answers++;
        *exact |= strcmp(said->data, form->data) == 0;
        *f1 = fmax(*f1, words_f1(said->data, form->data));
    }
    if (answers == 0) {
        *exact = said->len == 0;
        *f1 = *exact;
    }
    return ERR_NONE;
}

Status answer_score_add(AnswerScore *s, ScoreText said, const ScoreText *right, int n, Err *err)
{
    Buf a = {0}, b = {0};
    bool exact;
    double f1;
    Status st = normal_form(said, &a, err);
    if (st == ERR_NONE) st = best_of(&a, right, n, &b, &exact, &f1, err);
    buf_free(&a);
    buf_free(&b);
    TRY(st);
    s->n++;
    s->exact += exact;
    s->f1 += f1;
    return ERR_NONE;
}

double answer_score_exact(const AnswerScore *s)
{
    return ratio((double)s->exact, (double)s->n);
}

double answer_score_f1(const AnswerScore *s)
{
    return ratio(s->f1, (double)s->n);
}
