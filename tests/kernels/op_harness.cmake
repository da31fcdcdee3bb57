# The op harness, its cases, and the references compiled a second time in single precision. Needs
# no library but the kernels and the base.
include_guard(GLOBAL)
include(${CMAKE_SOURCE_DIR}/kernels/ref/sources.cmake) # REF_SOURCES
list(TRANSFORM REF_SOURCES PREPEND ${CMAKE_SOURCE_DIR}/kernels/)
add_library(lathe_naive STATIC ${REF_SOURCES})
target_link_libraries(lathe_naive PUBLIC lathe_base)
target_compile_options(lathe_naive PRIVATE -w -include ${CMAKE_SOURCE_DIR}/tests/support/naive.h)
add_library(lathe_op_harness STATIC
    ${CMAKE_SOURCE_DIR}/tests/kernels/op_cases.c
    ${CMAKE_SOURCE_DIR}/tests/kernels/op_cases_attention.c
    ${CMAKE_SOURCE_DIR}/tests/kernels/op_cases_fp8.c
    ${CMAKE_SOURCE_DIR}/tests/support/op_harness.c
    ${CMAKE_SOURCE_DIR}/tests/kernels/op_cases_adamw.c
    ${CMAKE_SOURCE_DIR}/tests/kernels/op_cases_matmul_fp8.c
    ${CMAKE_SOURCE_DIR}/tests/kernels/op_cases_lamb.c
    ${CMAKE_SOURCE_DIR}/tests/kernels/op_cases_step.c)
target_link_libraries(lathe_op_harness PUBLIC lathe_naive lathe_kernels)
