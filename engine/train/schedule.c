// schedule.c -- see schedule.h.
//
// SPDX-License-Identifier: MIT
#include "engine/train/schedule.h"
#include "engine/base/compiler.h"

#include <math.h>
#include <string.h>

Status schedule_init(Schedule *s, const char *kind, double peak, double end, int64_t warmup,
                     int64_t max_steps, int64_t decay_steps, Err *err)
{
    static const char *const names[] = {"cosine", "linear", "constant", "wsd", "poly"};
    *s = (Schedule){
        .peak = peak, .end = end, .warmup = warmup, .end_step = max_steps, .power = 1};
    for (size_t i = 0; i < LT_COUNT(names); i++) {
        if (strcmp(kind, names[i]) != 0) continue;
        s->kind = (ScheduleKind)i;
        if (s->kind == SCHEDULE_WSD) {
            s->decay = decay_steps ? decay_steps : max_steps / 5;
            s->decay = LT_MAX(1, LT_MIN(s->decay, max_steps - warmup));
        } else if (decay_steps) {
            s->end_step = decay_steps;
        }
        return ERR_NONE;
    }
    return err_set(err, ERR_USAGE, "schedule = %s: cosine, linear, constant, wsd or poly", kind);
}

double schedule_at(const Schedule *s, int64_t step)
{
    if (step < s->warmup) return s->peak * (double)(step + 1) / (double)(s->warmup + 1);
    if (s->kind == SCHEDULE_CONSTANT) return s->peak;
    if (step >= s->end_step - 1) return s->end;
    const int64_t from = s->kind == SCHEDULE_WSD ? s->end_step - 1 - s->decay : s->warmup;
    if (step <= from) return s->peak;
    const double u = (double)(step - from) / (double)(s->end_step - 1 - from);
    if (s->kind == SCHEDULE_COSINE)
        return s->end + (s->peak - s->end) * 0.5 * (1.0 + cos(3.14159265358979323846 * u));
    if (s->kind == SCHEDULE_POLY) return s->end + (s->peak - s->end) * pow(1.0 - u, s->power);
    return s->peak + (s->end - s->peak) * u;
}
