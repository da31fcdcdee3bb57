# The simulator tier, label sim: the CUDA backend on the CPU (tests/cudasim), as it is built for a
# GPU but for its runtime and the machine code of its kernels.
#
#   lathe_sim        the whole program: lathe_sim train --device=cuda ...
#   op_check_sim     the op matrix: op_check_sim [OP [IMPL [MIX [VARIANT...]]]], see tests/gpu
#   op_check_race    the same with the race checker
#
# Nothing of this is part of the default build. `cmake --build build --target sim` makes it, and so
# does the first test of the tier.
if(NOT LATHE_HAS_CUDA OR NOT Python3_Interpreter_FOUND)
    message(STATUS "no simulator tests: they need nvcc and python3")
    return()
endif()
set(CUDASIM_FIXTURE sim_build)
add_subdirectory(cudasim EXCLUDE_FROM_ALL)
add_custom_target(sim)
foreach(folder tests cudart/tests ptx2c/tests)
    get_property(programs DIRECTORY cudasim/${folder} PROPERTY BUILDSYSTEM_TARGETS)
    add_dependencies(sim ${programs})
endforeach()
add_test(NAME sim_build COMMAND ${CMAKE_COMMAND} --build ${CMAKE_BINARY_DIR} --target sim)
set_tests_properties(sim_build PROPERTIES LABELS sim TIMEOUT 1800 FIXTURES_SETUP sim_build)

include(${CMAKE_SOURCE_DIR}/kernels/cuda/sources.cmake) # CUDA_PLAIN_SOURCES, CUDA_HOPPER_SOURCES
set(kernels ${CUDA_PLAIN_SOURCES} ${CUDA_HOPPER_SOURCES})
list(TRANSFORM kernels PREPEND ${CMAKE_SOURCE_DIR}/kernels/cuda/)
cudasim_translate(lathe_simulated ${kernels})
cudasim_translate(lathe_raced ${kernels} RACE)
set_target_properties(lathe_simulated lathe_raced PROPERTIES EXCLUDE_FROM_ALL ON)

# lathe_simulate(PROGRAM lathe_simulated|lathe_raced): link it with the simulator.
function(lathe_simulate program kernels)
    set_target_properties(${program} PROPERTIES LATHE_SIM ON EXCLUDE_FROM_ALL ON)
    target_link_libraries(${program} PRIVATE ${kernels})
    add_dependencies(sim ${program})
endfunction()

# NAME_sim, and NAME_race with the race checker.
function(lathe_sim_programs name)
    cmake_parse_arguments(P "" "" "SOURCES;LIBS" ${ARGN})
    set(kernels_sim lathe_simulated)
    set(kernels_race lathe_raced)
    foreach(kind sim race)
        add_executable(${name}_${kind} ${P_SOURCES})
        target_link_libraries(${name}_${kind} PRIVATE ${P_LIBS})
        target_compile_options(${name}_${kind} PRIVATE -Wno-missing-prototypes)
        lathe_simulate(${name}_${kind} ${kernels_${kind}})
    endforeach()
endfunction()

add_executable(lathe_sim ${CMAKE_SOURCE_DIR}/engine/main.c)
target_link_libraries(lathe_sim PRIVATE lathe_cli)
set_target_properties(lathe_sim PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
lathe_simulate(lathe_sim lathe_simulated)
lathe_sim_programs(op_check SOURCES gpu/op_check.c kernels/backends_cuda.c LIBS lathe_op_harness)

# ---- tests ----
function(lathe_sim_test name)
    cmake_parse_arguments(T "" "" "ENV;COMMAND" ${ARGN})
    add_test(NAME ${name} COMMAND ${T_COMMAND})
    lathe_test_properties(${name} sim 600)
    set_tests_properties(${name} PROPERTIES FIXTURES_REQUIRED sim_build)
    foreach(setting ${T_ENV})
        string(REPLACE "=" "=set:" setting ${setting})
        set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT_MODIFICATION ${setting})
    endforeach()
endfunction()

# A program in order, with the times of its kernels, and by random schedules.
function(lathe_sim_schedules name)
    lathe_sim_test(${name} ENV CUDASIM_TIMES=1 COMMAND ${ARGN})
    foreach(seed 1 2 4)
        lathe_sim_test(${name}_seed${seed} ENV CUDASIM_SEED=${seed} COMMAND ${ARGN})
    endforeach()
endfunction()

# Each kernel that cuda_rows.def lists: in order (with its time), by random schedules, and small
# cases with the race checker.
set(rows_file ${CMAKE_SOURCE_DIR}/kernels/cuda/cuda_rows.def)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${rows_file})
file(STRINGS ${rows_file} rows REGEX "^ROW_[A-Z]+\\(")
foreach(row ${rows})
    string(REGEX REPLACE "^ROW_([A-Z]+)\\(([a-z0-9_]+),.*" "\\1;\\2" row "${row}")
    list(GET row 0 kind)
    list(GET row 1 op)
    set(impl cuda)
    set(most 3e5)
    if(kind STREQUAL HOPPER)
        set(impl cuda-hopper)
        set(most 3e6) # its tiles are larger
    endif()
    set(name sim_${op}_${impl})
    lathe_sim_schedules(${name} op_check_sim ${op} ${impl})
    lathe_sim_test(${name}_race COMMAND op_check_race --most=${most} ${op} ${impl})
endforeach()

# The program.
function(lathe_sim_program name)
    lathe_sim_test(sim_program_${name} ENV LATHE_BIN=$<TARGET_FILE:lathe_sim>
        COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/cli/cuda_sim.py ${ARGN})
endfunction()
lathe_sim_program(devices version without_a_gpu says_why that_is_not_there)
lathe_sim_program(errors too_little_memory late_error a_graph_is_refused)
lathe_sim_program(resume goes_on)
lathe_sim_program(f32 in_f32)
lathe_sim_program(bf16 in_bf16)
lathe_sim_program(fp8 in_fp8)
lathe_sim_program(fp16 fp16_skips)

include(kernels/hopper.cmake)
include(kernels/cublaslt.cmake)
include(kernels/cudnn.cmake)
include(kernels/fp8_sim.cmake)
