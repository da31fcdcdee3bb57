# The matrix product for Hopper, tile by tile: in order, as late as is legal, by random schedules,
# and its small cases with the race checker. Included by tests/sim.cmake.
set(kernels_sim lathe_simulated)
set(kernels_race lathe_raced)
foreach(kind sim race)
    set(name test_matmul_hopper_${kind})
    add_executable(${name} kernels/test_matmul_hopper.c)
    target_link_libraries(${name} PRIVATE lathe_op_harness PkgConfig::CMOCKA m)
    target_compile_options(${name} PRIVATE -Wno-missing-prototypes)
    lathe_simulate(${name} ${kernels_${kind}})
endforeach()
set(products test_matmul_hopper_sim)
lathe_sim_test(sim_matmul_hopper_tiles ENV CUDASIM_TIMES=1 COMMAND ${products})
lathe_sim_test(sim_matmul_hopper_tiles_late ENV CUDASIM_LAZY=1 COMMAND ${products})
foreach(seed 1 2 4)
    lathe_sim_test(sim_matmul_hopper_tiles_seed${seed} ENV CUDASIM_SEED=${seed}
                   COMMAND ${products})
endforeach()
lathe_sim_test(sim_matmul_hopper_tiles_race COMMAND test_matmul_hopper_race quick)
