# Is there a CUDA toolkit that can build kernels/cuda/? Sets LATHE_HAS_CUDA, LATHE_NVCC,
# LATHE_CUDA_INCLUDE, LATHE_CUDART, and says in one line what was decided.
#
#   LATHE_CUDA=auto   with CUDA when a small kernel compiles; not in a cross build
#   LATHE_CUDA=on     as above, but an error when it does not
#   LATHE_CUDA=off    CPU only
set(LATHE_CUDA auto CACHE STRING "the CUDA part: auto (when nvcc is there), on, off")
set_property(CACHE LATHE_CUDA PROPERTY STRINGS auto on off)
find_program(LATHE_NVCC nvcc HINTS /usr/local/cuda/bin)
set(LATHE_HAS_CUDA OFF)

if(LATHE_CUDA STREQUAL "off")
    set(why "LATHE_CUDA is off")
elseif(NOT LATHE_NVCC)
    set(why "no nvcc")
elseif(CMAKE_CROSSCOMPILING AND LATHE_CUDA STREQUAL "auto")
    set(why "a cross build")
else()
    get_filename_component(cuda_root "${LATHE_NVCC}" REALPATH)
    get_filename_component(cuda_root "${cuda_root}/../.." ABSOLUTE)
    find_path(LATHE_CUDA_INCLUDE cuda_runtime_api.h HINTS ${cuda_root}/include)
    find_library(LATHE_CUDART cudart_static HINTS ${cuda_root}/lib64 ${cuda_root}/lib)
    # nvcc needs a C++ compiler of an age it knows: one kernel for sm_90a shows whether it works.
    if(LATHE_CUDA_INCLUDE AND LATHE_CUDART AND NOT LATHE_NVCC_WORKS STREQUAL LATHE_NVCC)
        file(WRITE ${CMAKE_BINARY_DIR}/CMakeFiles/probe.cu "__global__ void probe_kernel() {}\n")
        execute_process(COMMAND ${LATHE_NVCC} -std=c++17 -gencode=arch=compute_90a,code=sm_90a
                                -c probe.cu -o probe.o
                        WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/CMakeFiles
                        RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
        if(failed)
            string(REGEX REPLACE "\n.*" "" said "${said}")
            if(said STREQUAL "") # it did not even start
                set(said "${failed}")
            endif()
        else()
            set(LATHE_NVCC_WORKS "${LATHE_NVCC}" CACHE INTERNAL "the nvcc that compiled a kernel")
        endif()
    endif()
    if(NOT LATHE_CUDA_INCLUDE OR NOT LATHE_CUDART)
        set(why "nvcc is there, cuda_runtime_api.h or libcudart_static.a is not")
    elseif(NOT LATHE_NVCC_WORKS STREQUAL LATHE_NVCC)
        set(why "${LATHE_NVCC} fails: ${said}")
    else()
        set(LATHE_HAS_CUDA ON)
    endif()
endif()

if(LATHE_HAS_CUDA)
    message(STATUS "CUDA: kernels for sm_80, sm_90 and sm_90a by ${LATHE_NVCC}")
elseif(LATHE_CUDA STREQUAL "on")
    message(FATAL_ERROR "LATHE_CUDA is on, but: ${why}")
else()
    message(STATUS "CUDA: this build runs on the CPU only (${why})")
endif()
