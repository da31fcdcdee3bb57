# Attention forward for Hopper in the simulator: every way through its kernels. Included by
# tests/sim.cmake.
foreach(kernels lathe_simulated lathe_raced)
    set(name test_attention_hopper_fwd_${kernels})
    add_executable(${name} kernels/test_attention_hopper_fwd.c)
    target_link_libraries(${name} PRIVATE lathe_kernels PkgConfig::CMOCKA m)
    target_compile_options(${name} PRIVATE -Wno-missing-prototypes)
    lathe_simulate(${name} ${kernels})
endforeach()
set(fwd test_attention_hopper_fwd_lathe_simulated)
lathe_sim_test(sim_attention_hopper_fwd ENV CUDASIM_TIMES=1 COMMAND ${fwd})
lathe_sim_test(sim_attention_hopper_fwd_late ENV CUDASIM_LAZY=1 COMMAND ${fwd})
foreach(seed 1 2 4)
    lathe_sim_test(sim_attention_hopper_fwd_seed${seed} ENV CUDASIM_SEED=${seed} COMMAND ${fwd})
endforeach()
lathe_sim_test(sim_attention_hopper_fwd_race
               COMMAND test_attention_hopper_fwd_lathe_raced few_shapes)
