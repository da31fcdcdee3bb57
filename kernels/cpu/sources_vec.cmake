# Every op but matmul, built once an instruction set.
set(CPU_VEC_SOURCES
    cpu/vec_register.c cpu/vec_elementwise.c cpu/vec_layernorm.c cpu/vec_cross_entropy.c
    cpu/vec_act.c cpu/vec_adamw.c cpu/vec_fp8.c cpu/vec_lamb.c cpu/attention_fwd_vec.c cpu/attention_bwd_vec.c)
