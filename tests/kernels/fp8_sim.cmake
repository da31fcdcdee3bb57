# FP8 in kernels, in the simulator, beyond the op matrix: conversions, and layer normalisation that
# writes FP8 itself. Included by tests/sim.cmake.
cudasim_kernels(fp8_convert ${CMAKE_CURRENT_SOURCE_DIR}/kernels/test_fp8_convert.cu)
add_executable(test_fp8_convert ${CMAKE_CURRENT_SOURCE_DIR}/cudasim/tests/empty.cpp)
target_link_libraries(test_fp8_convert PRIVATE fp8_convert $<LINK_ONLY:lathe_base>)
set_target_properties(fp8_convert test_fp8_convert PROPERTIES EXCLUDE_FROM_ALL ON)
add_dependencies(sim test_fp8_convert)
lathe_sim_test(sim_fp8_convert COMMAND test_fp8_convert)

lathe_sim_programs(test_layernorm_fp8
    SOURCES kernels/test_layernorm_fp8.c kernels/backends_cuda.c
    LIBS lathe_kernels PkgConfig::CMOCKA)
lathe_sim_schedules(sim_layernorm_fp8 test_layernorm_fp8_sim)
lathe_sim_test(sim_layernorm_fp8_race COMMAND test_layernorm_fp8_race short_rows*)
