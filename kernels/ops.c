// ops.c -- see ops.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ops.h"
#include "engine/base/assert.h"
#include "kernels/ref/ref.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *summary;
} ops_rows[OP_COUNT] = {
#define OP(name, Args, summary) {#name, summary},
#include "kernels/ops.def"
#undef OP
};

void ops_init(Ops *ops)
{
    memset(ops, 0, sizeof *ops);
    ref_register(ops);
}

#define OP(name, Args, summary)                                                                    \
    void ops_add_##name(Ops *ops, Impl_##name impl)                                                \
    {                                                                                              \
        int *n = &ops->info[OP_##name].n;                                                          \
        ASSERT(*n < OPS_IMPL_MAX, "%s: too many implementations", #name);                          \
        ops->name[(*n)++] = impl;                                                                  \
    }
#include "kernels/ops.def"
#undef OP

const char *ops_name(OpId id) { return ops_rows[id].name; }
const char *ops_summary(OpId id) { return ops_rows[id].summary; }

const char *ops_impl_name(const Ops *ops, OpId id, int i)
{
    ASSERT(i < ops->info[id].n, "%s has %d implementations", ops_rows[id].name, ops->info[id].n);
    switch (id) {
#define OP(name, Args, summary)                                                                    \
    case OP_##name: return ops->name[i].impl;
#include "kernels/ops.def"
#undef OP
    case OP_COUNT: break;
    }
    return "?";
}

// Is row `id` the op `name`, or the forward or backward half of it ("attention")?
static bool ops_named(OpId id, const char *name)
{
    const char *row  = ops_rows[id].name;
    const size_t len = strlen(name);
    if (strncmp(row, name, len) != 0) return false;
    return row[len] == 0 || strcmp(row + len, "_fwd") == 0 || strcmp(row + len, "_bwd") == 0;
}

static Status force_row(Ops *ops, OpId id, const char *impl, Err *err)
{
    char have[256] = "";
    for (int i = 0; i < ops->info[id].n; i++) {
        const char  *is   = ops_impl_name(ops, id, i);
        const size_t used = strlen(have);
        snprintf(have + used, sizeof have - used, "%s%s", used ? ", " : "", is);
        if (strcmp(is, impl) != 0) continue;
        switch (id) {
#define OP(row, Args, summary)                                                                     \
    case OP_##row: ops->row[0] = ops->row[i]; break;
#include "kernels/ops.def"
#undef OP
        case OP_COUNT: break;
        }
        ops->info[id].n      = 1;
        ops->info[id].forced = true;
        return ERR_NONE;
    }
    return err_set(err, ERR_USAGE, "ops.%s = %s: here it has %s", ops_rows[id].name, impl, have);
}

Status ops_force(Ops *ops, const char *name, const char *impl, Err *err)
{
    int rows = 0;
    for (int id = 0; id < OP_COUNT; id++) {
        if (!ops_named((OpId)id, name)) continue;
        TRY(force_row(ops, (OpId)id, impl, err));
        rows++;
    }
    return rows ? ERR_NONE : err_set(err, ERR_USAGE, "ops.%s: there is no such op", name);
}

static void ops_plan_add(OpPlan *p, OpId id, size_t scratch, double flops, double bytes)
{
    p->scratch_bytes = LT_MAX(p->scratch_bytes, scratch);
    p->flops += flops;
    p->bytes += bytes;
    p->calls++;
    const bool product = id == OP_matmul || id == OP_matmul_fp8 || id == OP_attention_fwd ||
                         id == OP_attention_bwd;
    if (product) p->matmul_flops += flops;
}

// The op calls, written once as a macro: C has no other way to say "the same for each row". A step
// makes hundreds of them, so the text of a refusal is put together only when nothing serves one.
#define OP(name, Args, summary)                                                                    \
    bool op_##name##_serves(const OpCtx *cx, const Args *a, int i, const char **why)               \
    {                                                                                              \
        const Impl_##name *im = &cx->ops->name[i];                                                 \
        *why                  = "";                                                                \
        return !im->supports || im->supports(a, cx, why);                                          \
    }                                                                                              \
    static const Impl_##name *pick_##name(const OpCtx *cx, const Args *a)                          \
    {                                                                                              \
        const char *why;                                                                           \
        for (int i = cx->ops->info[OP_##name].n - 1; i >= 0; i--)                                  \
            if (op_##name##_serves(cx, a, i, &why)) return &cx->ops->name[i];                      \
        return NULL;                                                                               \
    }                                                                                              \
    static Status refuse_##name(const OpCtx *cx, const Args *a, Err *err)                          \
    {                                                                                              \
        Status s = err_set(err, ERR_UNSUPPORTED, "%s: no implementation serves this call", #name); \
        for (int i = cx->ops->info[OP_##name].n - 1; i >= 0; i--) {                                \
            const char *why;                                                                       \
            if (op_##name##_serves(cx, a, i, &why)) continue;                                      \
            s = err_add(err, s, "asking %s: %s", cx->ops->name[i].impl, why);                      \
        }                                                                                          \
        return s;                                                                                  \
    }                                                                                              \
    const char *op_##name##_impl(const OpCtx *cx, const Args *a)                                   \
    {                                                                                              \
        const Impl_##name *im = pick_##name(cx, a);                                                \
        return im ? im->impl : NULL;                                                               \
    }                                                                                              \
    Status op_##name(OpCtx *cx, const Args *a, Err *err)                                           \
    {                                                                                              \
        Err problem;                                                                               \
        ASSERT(name##_check(a, &problem) == ERR_NONE, "%s: %s", #name, problem.text);              \
        const Impl_##name *im = pick_##name(cx, a);                                                \
        if (!im) return refuse_##name(cx, a, err);                                                 \
        const size_t scratch = im->scratch ? im->scratch(a, cx) : 0;                               \
        if (cx->plan) {                                                                            \
            ops_plan_add(cx->plan, OP_##name, scratch, name##_flops(a), name##_bytes(a));          \
            return ERR_NONE;                                                                       \
        }                                                                                          \
        ASSERT(scratch <= cx->scratch_bytes, "%s (%s): needs %zu bytes of scratch, has %zu",       \
               #name, im->impl, scratch, cx->scratch_bytes);                                       \
        return im->run(a, cx, err);                                                                \
    }

#include "kernels/ops.def"
#undef OP
