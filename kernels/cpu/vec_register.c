// vec_register.c -- enters the vectorised ops of this instruction set into the op table.
//
// SPDX-License-Identifier: MIT
#include "kernels/cpu/vec_ops.h"

// No `supports`: each serves everything that its op's check allows.
#define ADD(op) ops_add_##op(ops, (Impl_##op){.impl = ISA_STRING, .run = ISA_NAME(vec_##op)})
#define ADD_SCRATCH(op)                                                                            \
    ops_add_##op(ops, (Impl_##op){.impl = ISA_STRING,                                              \
                                  .scratch = ISA_NAME(vec_##op##_scratch),                         \
                                  .run = ISA_NAME(vec_##op)})

void ISA_NAME(cpu_vec_register)(Ops *ops)
{
    ADD(embedding_fwd);
    ADD(embedding_bwd);
    ADD(gather_rows);
    ADD(scatter_rows);
    ADD(act_bwd);
    ADD(dropout);
    ADD_SCRATCH(layernorm_fwd);
    ADD_SCRATCH(layernorm_bwd);
    ADD(bias_bwd);
    ADD_SCRATCH(attention_fwd);
    ADD_SCRATCH(attention_bwd);
    ADD(cross_entropy);
    ADD_SCRATCH(sum_squares);
    ADD_SCRATCH(fp8_quantize);
    ADD_SCRATCH(adamw);
    ADD_SCRATCH(lamb);
    ADD(cast);
}
