set(REF_SOURCES
    ref/act_bwd_ref.c ref/adamw_ref.c ref/attention_bwd_ref.c ref/attention_fwd_ref.c ref/bias_bwd_ref.c ref/cast_ref.c
    ref/cross_entropy_ref.c ref/dropout_ref.c ref/embedding_bwd_ref.c ref/embedding_fwd_ref.c
    ref/fp8_quantize_ref.c ref/fp8_update_ref.c ref/gather_rows_ref.c
    ref/lamb_ref.c ref/layernorm_bwd_ref.c ref/layernorm_fwd_ref.c ref/matmul_fp8_ref.c ref/matmul_ref.c ref/ref.c ref/scatter_rows_ref.c
    ref/step_gate_ref.c ref/sum_ref.c ref/sum_squares_ref.c)
