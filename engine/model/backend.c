// backend.c -- see backend.h.
//
// SPDX-License-Identifier: MIT
#include "engine/model/backend.h"

#include <string.h>

Status backend_open(Backend *b, const char *device, const char *isa, int threads, Err *err)
{
    if (strcmp(device, "auto") != 0 && strcmp(device, "cpu") != 0) {
        const Status st =
            err_set(err, strncmp(device, "cuda", 4) == 0 ? ERR_UNSUPPORTED : ERR_USAGE,
                    "device = %s: this build of lathe runs on the CPU", device);
        err_hint(err, "device = auto or cpu");
        return st;
    }
    device_cpu_init(&b->device, threads);
    ops_init(&b->ops);
    return cpu_open(&b->ops, isa, &b->cpu, err);
}

Status backend_of_options(Backend *b, const Options *o, Err *err)
{
    TRY(backend_open(b, o->device, o->cpu_isa, (int)o->threads, err));
    if (strcmp(o->cpu_pin, "auto") == 0) device_cpu_pin(&b->device);
    for (int i = 0; i < o->n_ops; i++) TRY(ops_force(&b->ops, o->ops[i].name, o->ops[i].impl, err));
    return ERR_NONE;
}
