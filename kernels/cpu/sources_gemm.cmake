set(CPU_GEMM_SOURCES cpu/gemm_f32.c cpu/gemv.c cpu/cpu_peak.c) # once an instruction set
set(CPU_ONCE_SOURCES cpu/cpu.c cpu/gemm_driver.c)
set(BF16_SOURCES cpu/gemm_bf16dot.c)
set(AMX_SOURCES cpu/gemm_amx.c cpu/attention_fwd_amx.c cpu/attention_bwd_amx.c)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64|AMD64")
    list(APPEND CPU_ONCE_SOURCES cpu/cpu_x86.c)
else()
    list(APPEND CPU_ONCE_SOURCES cpu/cpu_generic.c)
endif()
