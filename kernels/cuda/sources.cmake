# The CUDA kernels. Plain files are compiled for sm_80 and sm_90 (and as PTX for what comes later),
# Hopper files for sm_90a only.
set(CUDA_PLAIN_SOURCES cublaslt_kernels.cu cast.cu)
set(CUDA_HOPPER_SOURCES
    attention_fwd_hopper.cu attention_fwd_hopper_causal.cu attention_fwd_hopper_dropout.cu
    attention_fwd_hopper_spans.cu)
