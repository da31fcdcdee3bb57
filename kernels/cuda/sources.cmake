# The CUDA kernels. Plain files are compiled for sm_80 and sm_90 (and as PTX for what comes later),
# Hopper files for sm_90a only.
set(CUDA_PLAIN_SOURCES cublaslt_kernels.cu cast.cu)
set(CUDA_HOPPER_SOURCES)
