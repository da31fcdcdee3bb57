# The CUDA backend, or the file that says that it is not there. Its objects go into lathe_kernels,
# which every program links; which runtime a program links is a property of the program:
#
#   (none)          NVIDIA's libcudart_static
#   LATHE_SIM ON    the simulator of tests/cudasim, which also needs the translated kernels
#                   (lathe_simulated, tests/CMakeLists.txt)
if(NOT LATHE_HAS_CUDA)
    target_sources(lathe_kernels PRIVATE cuda/cuda_none.c)
    return()
endif()

include(cuda/sources.cmake) # CUDA_PLAIN_SOURCES, CUDA_HOPPER_SOURCES
set(cublaslt cuda/cublaslt_none.c)
set(cudnn cuda/cudnn_none.c)
if(EXISTS ${LATHE_CUDA_INCLUDE}/cublasLt.h)
    set(cublaslt cuda/cublaslt.c cuda/cublaslt_api.c cuda/cublaslt_choice.c cuda/cublaslt_fp8.c
        cuda/cublaslt_library.c)
endif()
if(EXISTS ${LATHE_CUDA_INCLUDE}/cudnn.h)
    set(cudnn cuda/cudnn_api.c cuda/cudnn_attention.c cuda/cudnn_graph.c cuda/cudnn_sdpa.c)
endif()
add_library(lathe_cuda OBJECT
    cuda/cuda_clock.c cuda/cuda_open.c cuda/cuda_register.c cuda/device_cuda.c
    cuda/shared_library.c ${cublaslt} ${cudnn})
target_link_libraries(lathe_cuda PRIVATE lathe_flags)
target_include_directories(lathe_cuda SYSTEM PRIVATE ${LATHE_CUDA_INCLUDE})
target_sources(lathe_kernels PRIVATE $<TARGET_OBJECTS:lathe_cuda>)

# lathe_cuda_objects(FLAGS nvcc flags SOURCES files): each file becomes an object with the code of
# the given GPUs and its host half, compiled as plain as C: no exceptions, no locks around statics.
set(nvcc_flags -std=c++17 -O3 -lineinfo -I${CMAKE_SOURCE_DIR}
    -Xcompiler=-fPIC,-fno-exceptions,-fno-threadsafe-statics
    -Xcompiler=-Wall,-Wextra,-Wno-missing-field-initializers)
if(LATHE_WERROR)
    list(APPEND nvcc_flags -Werror=all-warnings)
endif()
function(lathe_cuda_objects)
    cmake_parse_arguments(K "" "" "FLAGS;SOURCES" ${ARGN})
    foreach(source ${K_SOURCES})
        get_filename_component(stem ${source} NAME_WE)
        set(path ${CMAKE_CURRENT_SOURCE_DIR}/cuda/${source})
        set(object ${CMAKE_CURRENT_BINARY_DIR}/cuda_${stem}.o)
        set(log ${CMAKE_CURRENT_BINARY_DIR}/cuda_${stem}.ptxas) # for scripts/check_sass
        string(REPLACE " " "\\ " target ${object}) # nvcc does not escape it in the depfile
        add_custom_command(OUTPUT ${object}
            COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/cuda/nvcc_logged.sh ${log}
                    ${LATHE_NVCC} ${nvcc_flags} -Xptxas=-v ${K_FLAGS}
                    -MD -MT ${target} -MF ${object}.d -c ${path} -o ${object}
            BYPRODUCTS ${log} DEPENDS ${path} DEPFILE ${object}.d VERBATIM
            COMMENT "nvcc ${source}")
        set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
        target_sources(lathe_kernels PRIVATE ${object})
    endforeach()
endfunction()
lathe_cuda_objects(SOURCES ${CUDA_PLAIN_SOURCES}
    FLAGS -gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=[sm_90,compute_90])
lathe_cuda_objects(SOURCES ${CUDA_HOPPER_SOURCES} FLAGS -gencode=arch=compute_90a,code=sm_90a)

add_library(lathe_cudart INTERFACE)
target_link_libraries(lathe_cudart INTERFACE
    ${LATHE_CUDART} Threads::Threads ${CMAKE_DL_LIBS} rt)
target_link_libraries(lathe_kernels PUBLIC
    $<IF:$<BOOL:$<TARGET_PROPERTY:LATHE_SIM>>,cudasim,lathe_cudart>)
