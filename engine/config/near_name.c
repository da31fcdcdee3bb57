// near_name.c -- see near_name.h.
//
// SPDX-License-Identifier: MIT
#include "engine/config/near_name.h"

#include <string.h>

enum { LONGEST = 63 };

int near_distance(const char *a, const char *b)
{
    const int na = (int)strnlen(a, LONGEST), nb = (int)strnlen(b, LONGEST);
    int       d[LONGEST + 1][LONGEST + 1];
    for (int i = 0; i <= na; i++) d[i][0] = i;
    for (int j = 0; j <= nb; j++) d[0][j] = j;
    for (int i = 1; i <= na; i++) {
        for (int j = 1; j <= nb; j++) {
            int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            best     = LT_MIN(best, d[i - 1][j] + 1);
            best     = LT_MIN(best, d[i][j - 1] + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = LT_MIN(best, d[i - 2][j - 2] + 1);
            d[i][j] = best;
        }
    }
    return d[na][nb];
}

void near_offer(NearName *near, const char *word, const char *candidate)
{
    const int n     = (int)strnlen(word, LONGEST);
    const int limit = LT_MAX(1, n / 3);
    const int d     = near_distance(word, candidate);
    if (d > limit || (near->best && d >= near->distance)) return;
    near->best     = candidate;
    near->distance = d;
}
