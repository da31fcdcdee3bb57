// cmd_ops.c -- lathe ops [NAME]: which implementation each op would use on this machine.
//
// Asks the op table with the first call that a step of GPT-2 makes (op_call.h), in the policies
// fp32, bf16 and fp16. --cpu.isa and --ops.NAME=IMPL count as they do in training. With a NAME:
// what each implementation of that op says to these calls. --device=cuda asks a GPU's table.
//
// SPDX-License-Identifier: MIT
#include "engine/base/mem.h"
#include "engine/cli/cli.h"
#include "engine/cli/op_call.h"
#include "engine/model/backend.h"

#include <stdio.h>
#include <string.h>

static const char *const policies[] = {"fp32", "bf16", "fp16"};
enum { POLICIES = LT_COUNT(policies) };

typedef struct OpTable {
    Backend back;
    OpCtx cx;
    const OpShape *shape;
    Precision policy[POLICIES];
} OpTable;

// The call that the table is asked with; its tensors have addresses that nobody follows.
static OpArgs first_call(const OpTable *t, OpId id, int policy)
{
    Arena memory;
    arena_init_counting(&memory, "ops");
    OpCall c = {.shape = t->shape, .prec = &t->policy[policy], .memory = &memory};
    OpArgs a;
    memset(&a, 0, sizeof a);
    op_call_make(&c, id, 0, &a);
    return a;
}

static void print_table(const OpTable *t)
{
    printf("%-14s", "op");
    for (int k = 0; k < POLICIES; k++) printf(" %-12s", t->policy[k].name);
    printf(" what it does\n");
    for (int id = 0; id < OP_COUNT; id++) {
        printf("%-14s", ops_name((OpId)id));
        for (int k = 0; k < POLICIES; k++) {
            const OpArgs a = first_call(t, (OpId)id, k);
            const char *impl = op_call_impl((OpId)id, &t->cx, &a);
            printf(" %-12s", impl ? impl : "none");
        }
        printf(" %s\n", ops_summary((OpId)id));
    }
}

static void print_op(const OpTable *t, OpId id)
{
    printf("%s: %s\n", ops_name(id), ops_summary(id));
    for (int i = t->cx.ops->info[id].n - 1; i >= 0; i--) {
        for (int k = 0; k < POLICIES; k++) {
            const OpArgs a = first_call(t, id, k);
            const char *why = "", *used = op_call_impl(id, &t->cx, &a);
            const char *impl = ops_impl_name(t->cx.ops, id, i);
            const bool yes = op_call_serves(id, &t->cx, &a, i, &why);
            printf("  %-12s %-5s %s%s\n", impl, t->policy[k].name, yes ? "serves" : "refuses: ",
                   !yes                              ? why
                   : used && strcmp(used, impl) == 0 ? ", is used"
                                                     : "");
        }
    }
}

static Status print_ops(const Options *o, OpTable *t, Err *err)
{
    OpId id = OP_COUNT;
    if (o->n_args > 0) TRY(op_call_find(o->args[0], &id, err));
    TRY(backend_of_options(&t->back, o, err));
    TRY(op_call_shape("124m-4x64", &t->shape, err));
    for (int k = 0; k < POLICIES; k++)
        TRY(precision_from_name(&t->policy[k], policies[k], "f32", err));
    t->cx = (OpCtx){.ops = &t->back.ops, .device = &t->back.device};
    if (id == OP_COUNT) {
        if (t->back.device.is_host)
            printf("cpu, %d threads: %s\n", t->back.device.threads, t->back.cpu.why);
        else
            printf("%s\n", t->back.device.name);
        if (t->back.no_gpu[0]) printf("no GPU: %s\n", t->back.no_gpu);
        puts("");
        print_table(t);
    } else {
        print_op(t, id);
    }
    return ERR_NONE;
}

Status cmd_ops(const Options *o, Err *err)
{
    if (o->n_args > 1) return err_set(err, ERR_USAGE, "one op at a time: %.100s", o->args[1]);
    OpTable *t = mem_calloc(1, sizeof *t);
    if (!t) return mem_err(err, sizeof *t, "the op table");
    const Status s = print_ops(o, t, err);
    backend_close(&t->back);
    mem_free(t);
    return s;
}
