# FP8 in kernels, in the simulator, beyond the op matrix: conversions, and ops that write FP8 beside
# their result. Included by tests/sim.cmake.
cudasim_kernels(fp8_convert ${CMAKE_CURRENT_SOURCE_DIR}/kernels/test_fp8_convert.cu)
add_executable(test_fp8_convert ${CMAKE_CURRENT_SOURCE_DIR}/cudasim/tests/empty.cpp)
target_link_libraries(test_fp8_convert PRIVATE fp8_convert $<LINK_ONLY:lathe_base>)
set_target_properties(fp8_convert test_fp8_convert PROPERTIES EXCLUDE_FROM_ALL ON)
add_dependencies(sim test_fp8_convert)
lathe_sim_test(sim_fp8_convert COMMAND test_fp8_convert)

lathe_sim_programs(test_fp8_makers
    SOURCES kernels/test_fp8_makers.c kernels/backends_cuda.c
    LIBS lathe_kernels PkgConfig::CMOCKA)
lathe_sim_schedules(sim_fp8_makers test_fp8_makers_sim)
lathe_sim_test(sim_fp8_makers_race COMMAND test_fp8_makers_race s*_give_the_bits*)
