# The CUDA kernels. Plain files are compiled for sm_80 and sm_90 (and as PTX for what comes later),
# Hopper files for sm_90a only.
set(CUDA_PLAIN_SOURCES
    act_bwd.cu adamw.cu attention_bwd.cu attention_fwd.cu bias_bwd.cu cast.cu cross_entropy.cu
    cublaslt_kernels.cu dropout.cu embedding_bwd.cu embedding_fwd.cu fp8_quantize.cu fp8_update.cu
    gather_rows.cu lamb.cu layernorm_bwd.cu layernorm_fwd.cu matmul.cu matmul_fp8.cu
    scatter_rows.cu step_gate.cu sum.cu sum_squares.cu)
set(CUDA_HOPPER_SOURCES
    attention_bwd_hopper.cu attention_bwd_hopper_dropout.cu attention_bwd_hopper_plain.cu
    attention_fwd_hopper.cu attention_fwd_hopper_causal.cu attention_fwd_hopper_dropout.cu
    attention_fwd_hopper_spans.cu
    matmul_fp8_hopper.cu matmul_fp8_hopper_fast.cu matmul_fp8_hopper_promoted.cu
    matmul_hopper.cu matmul_hopper_dgelu.cu matmul_hopper_f16.cu matmul_hopper_gelu.cu
    matmul_hopper_nn.cu matmul_hopper_nt.cu matmul_hopper_tn.cu)
