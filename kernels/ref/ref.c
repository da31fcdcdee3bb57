// ref.c -- puts every reference implementation into the table. See ref.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ref/ref.h"

void ref_register(Ops *ops)
{
#define OP(name, Args, summary)                                                                    \
    ops_add_##name(ops, (Impl_##name){.impl = "ref", .run = name##_ref});
#include "kernels/ops.def"
#undef OP
}
