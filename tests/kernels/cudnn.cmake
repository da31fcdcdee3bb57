# cuDNN: our host code in the simulator against a stand-in of the library that interprets graphs,
# and our graphs against the real library, which needs no GPU to judge them. Included by
# tests/sim.cmake.
if(NOT EXISTS ${LATHE_CUDA_INCLUDE}/cudnn.h)
    message(STATUS "no test of cuDNN: it needs cudnn.h")
    return()
endif()
set(fake_folder ${CMAKE_BINARY_DIR}/tests/fake_cudnn)
add_library(fake_cudnn SHARED EXCLUDE_FROM_ALL
    kernels/fake_cudnn.c ${CMAKE_SOURCE_DIR}/engine/base/dtype.c)
target_link_libraries(fake_cudnn PRIVATE lathe_flags m)
target_include_directories(fake_cudnn SYSTEM PRIVATE ${LATHE_CUDA_INCLUDE})
target_compile_options(fake_cudnn PRIVATE -Wno-missing-prototypes)
set_target_properties(fake_cudnn PROPERTIES
    SUFFIX .so.9 OUTPUT_NAME cudnn LIBRARY_OUTPUT_DIRECTORY ${fake_folder})
add_dependencies(sim fake_cudnn)

foreach(name test_cudnn test_cudnn_graph)
    add_executable(${name} EXCLUDE_FROM_ALL kernels/${name}.c)
    target_link_libraries(${name} PRIVATE lathe_kernels PkgConfig::CMOCKA)
    target_include_directories(${name} SYSTEM PRIVATE ${LATHE_CUDA_INCLUDE})
    target_compile_options(${name} PRIVATE -Wno-missing-prototypes)
endforeach()
set_target_properties(test_cudnn PROPERTIES ENABLE_EXPORTS ON) # the stand-in queues work on it
lathe_simulate(test_cudnn lathe_simulated)
lathe_sim_test(sim_cudnn ENV LD_LIBRARY_PATH=${fake_folder} COMMAND test_cudnn)

# The real library wants to open a libcuda.so.1, which comes with the driver; the toolkit has a stub.
add_dependencies(sim test_cudnn_graph)
get_filename_component(stub ${LATHE_CUDART} DIRECTORY)
set(stub_folder ${CMAKE_BINARY_DIR}/tests/stub_cuda)
if(EXISTS ${stub}/stubs/libcuda.so)
    file(MAKE_DIRECTORY ${stub_folder})
    file(CREATE_LINK ${stub}/stubs/libcuda.so ${stub_folder}/libcuda.so.1 SYMBOLIC)
    lathe_sim_test(cudnn_graph ENV LD_LIBRARY_PATH=${stub_folder} COMMAND test_cudnn_graph)
endif()
