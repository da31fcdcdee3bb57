# Tests of the vector headers (built once an instruction set, as the kernels are) and of attention.
set(vec_objects)
set(vec_tables)
foreach(isa baseline avx2 avx512 neon)
    if(NOT TARGET lathe_cpu_${isa})
        continue()
    endif()
    add_library(vec_math_${isa} OBJECT vec_math_isa.c)
    target_link_libraries(vec_math_${isa} PRIVATE lathe_flags)
    target_compile_options(vec_math_${isa} PRIVATE
        $<TARGET_PROPERTY:lathe_cpu_${isa},COMPILE_OPTIONS>)
    target_compile_definitions(vec_math_${isa} PRIVATE
        $<TARGET_PROPERTY:lathe_cpu_${isa},COMPILE_DEFINITIONS>)
    list(APPEND vec_objects $<TARGET_OBJECTS:vec_math_${isa}>)
    string(APPEND vec_tables "&vec_math_${isa},")
endforeach()
lathe_test(test_vec_math unit test_vec_math.c ${vec_objects} LIBS lathe_kernels m)
target_compile_definitions(test_vec_math PRIVATE "VEC_MATH_ISAS=${vec_tables}")
lathe_test(test_vec_attention unit test_vec_attention.c LIBS lathe_kernels m)
set_tests_properties(test_vec_attention PROPERTIES
                     ENVIRONMENT_MODIFICATION "OMP_WAIT_POLICY=set:passive")
