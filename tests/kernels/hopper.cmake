# The Hopper kernels, each against double precision in the simulator, beyond the op matrix.
# Included by tests/sim.cmake.
#
# lathe_hopper_test(NAME SMALL [libraries...]) makes test_NAME_sim and test_NAME_race of
# test_NAME.c. It runs in order (with times), as late as is legal, by random schedules, and its
# test SMALL with the race checker.
function(lathe_hopper_test name small)
    lathe_sim_programs(test_${name} SOURCES kernels/test_${name}.c
                       LIBS ${ARGN} lathe_kernels PkgConfig::CMOCKA m)
    lathe_sim_schedules(sim_${name} test_${name}_sim)
    lathe_sim_test(sim_${name}_late ENV CUDASIM_LAZY=1 COMMAND test_${name}_sim)
    lathe_sim_test(sim_${name}_race COMMAND test_${name}_race ${small})
endfunction()

lathe_hopper_test(attention_fwd_hopper few_shapes)
lathe_hopper_test(attention_bwd_hopper small_shapes_with_every_mask)
lathe_hopper_test(attention_sequences small) # and the plain kernels
lathe_hopper_test(matmul_hopper quick lathe_op_harness)
lathe_hopper_test(matmul_fp8_hopper quick lathe_op_harness)

# The longest sequences of FlashAttention's tests.
lathe_sim_test(sim_attention_bwd_hopper_4096
    COMMAND test_attention_bwd_hopper_sim four_thousand_tokens)
set_tests_properties(sim_attention_bwd_hopper_4096 PROPERTIES LABELS slow TIMEOUT 3600)
