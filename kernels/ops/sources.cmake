set(OPS_SOURCES
    ops/act_bwd.c ops/adamw.c ops/attention_bwd.c ops/attention_fwd.c ops/bias_bwd.c ops/cast.c ops/cross_entropy.c
    ops/dropout.c ops/embedding_bwd.c ops/embedding_fwd.c ops/fp8_quantize.c ops/fp8_update.c
    ops/gather_rows.c ops/lamb.c ops/layernorm_bwd.c ops/layernorm_fwd.c
    ops/legal.c ops/matmul.c ops/matmul_fp8.c ops/scatter_rows.c ops/step_gate.c
    ops/sum.c ops/sum_squares.c)
