# cuBLASLt: our host code in the simulator against a stand-in of the library, found first because
# its folder is in LD_LIBRARY_PATH; and our descriptors against the real library. Included by
# tests/sim.cmake.
if(NOT EXISTS ${LATHE_CUDA_INCLUDE}/cublasLt.h)
    message(STATUS "no test of cuBLASLt: it needs cublasLt.h")
    return()
endif()
set(fake_folder ${CMAKE_BINARY_DIR}/tests/fake_cublaslt)
add_library(fake_cublaslt SHARED EXCLUDE_FROM_ALL
    kernels/fake_cublaslt.c ${CMAKE_SOURCE_DIR}/engine/base/dtype.c)
target_link_libraries(fake_cublaslt PRIVATE lathe_flags)
target_include_directories(fake_cublaslt SYSTEM PRIVATE ${LATHE_CUDA_INCLUDE})
target_compile_options(fake_cublaslt PRIVATE -Wno-missing-prototypes)
set_target_properties(fake_cublaslt PROPERTIES
    SUFFIX .so.13 OUTPUT_NAME cublasLt LIBRARY_OUTPUT_DIRECTORY ${fake_folder})
add_dependencies(sim fake_cublaslt)

# The stand-in queues its work on the simulator that is in the program.
set_target_properties(op_check_sim PROPERTIES ENABLE_EXPORTS ON)
add_executable(test_cublaslt kernels/test_cublaslt.c)
target_link_libraries(test_cublaslt PRIVATE lathe_kernels PkgConfig::CMOCKA)
target_compile_options(test_cublaslt PRIVATE -Wno-missing-prototypes)
set_target_properties(test_cublaslt PROPERTIES ENABLE_EXPORTS ON)
lathe_simulate(test_cublaslt lathe_simulated)

lathe_sim_test(sim_cublaslt ENV LD_LIBRARY_PATH=${fake_folder} COMMAND test_cublaslt)
lathe_sim_test(sim_matmul_cublaslt ENV LD_LIBRARY_PATH=${fake_folder}
               COMMAND op_check_sim matmul cublaslt)
lathe_sim_test(sim_matmul_fp8_cublaslt ENV LD_LIBRARY_PATH=${fake_folder}
               COMMAND op_check_sim matmul_fp8 cublaslt)
lathe_sim_test(sim_matmul_cublaslt_split
               ENV LD_LIBRARY_PATH=${fake_folder} FAKE_CUBLASLT=no_epilogue
               COMMAND op_check_sim matmul cublaslt)

add_executable(test_cublaslt_calls EXCLUDE_FROM_ALL kernels/test_cublaslt_calls.c)
target_link_libraries(test_cublaslt_calls PRIVATE lathe_kernels PkgConfig::CMOCKA)
target_include_directories(test_cublaslt_calls SYSTEM PRIVATE ${LATHE_CUDA_INCLUDE})
target_compile_options(test_cublaslt_calls PRIVATE -Wno-missing-prototypes)
add_dependencies(sim test_cublaslt_calls)
lathe_sim_test(cublaslt_calls COMMAND test_cublaslt_calls)
