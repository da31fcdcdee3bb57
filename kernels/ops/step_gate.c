// step_gate.c -- legality and cost of step_gate.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ops/legal.h"
#include "kernels/ops.h"

_Static_assert(sizeof(StepGate) % 8 == 0 && sizeof(StepGate) == 88, "StepGate has no gaps");

Status step_gate_check(const StepGateArgs *a, Err *err)
{
    const LossScaleRule *r = &a->rule;
    if (!legal_size(a->n, 1)) return err_set(err, ERR_USAGE, "n = %lld", (long long)a->n);
    if (!a->gate || !a->norm2 || !a->loss || !a->rates || (a->n > 0 && !a->grad))
        return err_set(err, ERR_USAGE, "gate, norm2, loss, rates or grad is NULL");
    if (!(a->clip >= 0)) return err_set(err, ERR_USAGE, "clip = %g", a->clip);
    if (r->interval < 0) return err_set(err, ERR_USAGE, "interval = %d", r->interval);
    if (r->interval == 0) return ERR_NONE;
    if (!(r->growth >= 1 && r->backoff > 0 && r->backoff <= 1) || r->hysteresis < 1)
        return err_set(err, ERR_USAGE, "growth = %g, backoff = %g, hysteresis = %d",
                       (double)r->growth, (double)r->backoff, r->hysteresis);
    return ERR_NONE;
}

double step_gate_flops(const StepGateArgs *a)
{
    (void)a;
    return 10;
}

double step_gate_bytes(const StepGateArgs *a) // of a step that is skipped
{
    return 2.0 * (double)sizeof(StepGate) + 2.0 * (double)sizeof(StepRates) + 16 + 4 * (double)a->n;
}
