"""bugs.py -- the bugs that inject.py plants, by kernel.

A bug's text must occur exactly once in its file. `runs` says which runs are made, in this order,
until one fails: a bug that only the race checker can see has ("race",). Keep the number of lines, so
that reports name the line of the source.

SPDX-License-Identifier: MIT
"""
from dataclasses import dataclass, field

ANY = ("plain", "lazy", "seeds", "race")
PLAIN, RACE = ("plain",), ("race",)


@dataclass
class Bug:
    name: str
    file: str
    old: str
    new: str
    why: str
    runs: tuple = ANY


@dataclass
class Kernel:
    name: str
    sources: list  # the .cu files to compile again
    program: str
    race_program: str
    arguments: dict  # of a run by its kind; None: of all others
    seconds: int  # of one run; a hang counts as caught
    bugs: list = field(default_factory=list)


TOY = "tests/cudasim/tests/gemm_wgmma.cu"
FWD = "kernels/cuda/attention_fwd_hopper.cuh"
FWD_CAUSAL = "kernels/cuda/attention_fwd_hopper_causal.cu"
BWD = "kernels/cuda/attention_bwd_hopper.cuh"
BWD_PLAIN = "kernels/cuda/attention_bwd_hopper_plain.cu"
LOOP = "kernels/cuda/matmul_hopper_loop.cuh"
EPILOGUE = "kernels/cuda/matmul_hopper_epilogue.cuh"
KERNEL = "kernels/cuda/matmul_hopper_kernel.cuh"
NT = "kernels/cuda/matmul_hopper_nt.cu"
PAGE = "kernels/cuda/matmul_hopper.cuh"
FP8 = "kernels/cuda/matmul_hopper_fp8.cuh"
FP8_FAST = "kernels/cuda/matmul_fp8_hopper_fast.cu"
FP8_PROMOTED = "kernels/cuda/matmul_fp8_hopper_promoted.cu"
QUANTIZE = "kernels/cuda/fp8_quantize.cu"
FP8_TILE = "kernels/cuda/fp8_tile.cuh"
ADAMW = "kernels/cuda/adamw.cu"
LAYERNORM = "kernels/cuda/layernorm_fwd.cu"
FP8_COMMON = "kernels/cuda/fp8.cuh"

TOY_GEMM = Kernel("toy GEMM", [TOY], "sim_kernels_test", "sim_kernels_race_test", {None: ["wgmma"]}, 120, [
    Bug("missing barrier", TOY, "    __syncthreads();\n    if (wg == 0) {",
        "    if (wg == 0) {\n", "mbarriers used before they are initialised"),
    Bug("wrong parity", TOY, "ptx::mbar_wait(&s.full[st], (k / STAGES) & 1);",
        "ptx::mbar_wait(&s.full[st], (k / STAGES + 1) & 1);", "reads before the data are there"),
    Bug("early release", TOY,
        "            ptx::wgmma_wait<0>();\n            ptx::wgmma_fence_regs(d);\n"
        "            if (t == 0) ptx::mbar_arrive(&s.empty[st]);",
        "            if (t == 0) ptx::mbar_arrive(&s.empty[st]);\n            ptx::wgmma_wait<0>();\n"
        "            ptx::wgmma_fence_regs(d);", "a stage is refilled while wgmma reads it"),
    Bug("missing proxy fence", TOY, "        ptx::fence_async_proxy();\n", "\n",
        "the TMA store reads what was not made visible to it", RACE),
    Bug("wrong expect_tx", TOY, "ptx::mbar_arrive_expect_tx(&s.full[st], (BM + BN) * BK * 2);",
        "ptx::mbar_arrive_expect_tx(&s.full[st], (BM + BN) * BK);", "half the bytes are expected"),
])

ATTENTION_FWD = Kernel("attention_fwd hopper", [FWD_CAUSAL],
                       "test_attention_fwd_hopper_sim", "test_attention_fwd_hopper_race",
                       {"plain": ["equal_lengths"], None: ["few_shapes"]}, 300, [
    Bug("missing rescale", FWD, "c.o[i] *= c.alpha[i / 2 % 2];", "c.o[i] *= 1.f;",
        "o keeps the scale of an older maximum", PLAIN),
    Bug("mask off by one", FWD, "const int lim0 = (L::CAUSAL ? min(at.row, a.Tk - 1) : a.Tk - 1) - base;",
        "const int lim0 = (L::CAUSAL ? min(at.row + 1, a.Tk - 1) : a.Tk - 1) - base;",
        "a query sees the key after its own", PLAIN),
    Bug("second masked tile left out", FWD, "step<true>(c, p, r, signal, lim0 + L::BN",
        "step<false>(c, p, r, signal, lim0 + L::BN", "head size 64: 192 rows reach over two tiles",
        PLAIN),
    Bug("swapped coordinates", FWD,
        "ptx::tma_load_4d(dst + i * ROWS * 128, map, bar, i * 64, row, head, batch);",
        "ptx::tma_load_4d(dst + i * ROWS * 128, map, bar, i * 64, row, batch, head);",
        "head and sample", PLAIN),
    Bug("wrong head stride", FWD, "ptx::tma_load_4d(dst + i * ROWS * 128, map, bar, i * 64, row",
        "ptx::tma_load_4d(dst + i * ROWS * 128, map, bar, 0 * 64, row",
        "the second half of a head is the first again", PLAIN),
    Bug("wrong expect_tx", FWD, "ptx::mbar_arrive_expect_tx(k_full + s * 8, L::BYTES);",
        "ptx::mbar_arrive_expect_tx(k_full + s * 8, L::BYTES + 16);",
        "waits for bytes that never come", PLAIN),
    Bug("wrong parity of v_empty", FWD,
        "ptx::mbar_wait(v_empty + s * 8, ((t - 1) / STAGES & 1) ^ 1);",
        "ptx::mbar_wait(v_empty + s * 8, ((t - 1) / STAGES & 1));",
        "the producer waits for a stage that is free, or overwrites one that is not"),
    Bug("V released early", FWD,
        "    ptx::wgmma_wait<0>();\n    ptx::pin(c.o);\n    ptx::pin(c.s);\n"
        "    if (signal) ptx::mbar_arrive(c.v_empty + 8 - r.slot);",
        "    if (signal) ptx::mbar_arrive(c.v_empty + 8 - r.slot);\n    ptx::wgmma_wait<0>();\n"
        "    ptx::pin(c.o);\n    ptx::pin(c.s);", "the next V comes while P V reads this one"),
    Bug("K released early", FWD,
        "    ptx::wgmma_wait<1>();\n    ptx::pin(c.s);\n"
        "    if (signal) ptx::mbar_arrive(c.k_empty + r.slot);",
        "    if (signal) ptx::mbar_arrive(c.k_empty + r.slot);\n    ptx::wgmma_wait<1>();\n"
        "    ptx::pin(c.s);", "the next K comes while Q K^T reads this one"),
    Bug("scores read in flight", FWD,
        "    ptx::wgmma_wait<1>();\n    ptx::pin(c.s);\n    if (signal)",
        "    ptx::wgmma_wait<2>();\n    ptx::pin(c.s);\n    if (signal)",
        "softmax of an accumulator that is being written", PLAIN),
    Bug("missing proxy fence", FWD,
        "    ptx::fence_async_proxy();\n    ptx::bar_sync(BAR_EPILOGUE + c.wg, 128);\n    const int row",
        "\n    ptx::bar_sync(BAR_EPILOGUE + c.wg, 128);\n    const int row",
        "the store of out reads what was not made visible to it", RACE),
    Bug("missing barrier", FWD,
        "    ptx::fence_async_proxy();\n    ptx::bar_sync(BAR_EPILOGUE + c.wg, 128);\n    const int row",
        "    ptx::fence_async_proxy();\n\n    const int row",
        "out is stored before every warp has staged its rows"),
    Bug("wrong swizzle", FWD, "((chunk % 8) ^ (in_tile % 8)) * 16, x[0],", "(chunk % 8) * 16, x[0],",
        "out is staged without the swizzle of its tensor map", PLAIN),
    Bug("wrong descriptor", FWD, "const uint32_t v0 = ptx::desc_lo(ptx::smem_addr(sm.v), L::BN * 128);",
        "const uint32_t v0 = ptx::desc_lo(ptx::smem_addr(sm.v), 16);",
        "head size 128: the second half of V is not where the descriptor says", PLAIN),
])

ATTENTION_BWD = Kernel("attention_bwd hopper", [BWD_PLAIN],
                       "test_attention_bwd_hopper_sim", "test_attention_bwd_hopper_race",
                       {None: ["small_shapes_with_every_mask"]}, 300, [
    Bug("missing barrier", BWD,
        "    ptx::bar_sync(BAR_DS, 256); // dS of both warpgroups is there\n", "\n",
        "dQ is computed from a dS that is half there"),
    Bug("missing proxy fence", BWD, "    ptx::fence_async_proxy();\n    if (!EARLY_DV) {\n",
        "\n    if (!EARLY_DV) {\n", "wgmma reads dS without its having been made visible", RACE),
    Bug("Q released early", BWD,
        "    ptx::wgmma_wait<0>();\n    ptx::pin(c.dk);\n    if (ptx::elect_one()) ptx::mbar_arrive(bars + 16);\n",
        "    if (ptx::elect_one()) ptx::mbar_arrive(bars + 16);\n    ptx::wgmma_wait<0>();\n    ptx::pin(c.dk);\n",
        "the next Q comes while dK += dS^T Q reads this one"),
    Bug("wrong parity of dq_empty", BWD, "    if (EARLY_DV) ptx::mbar_wait(c.dq_full + 16, r.stage ^ 1);",
        "    if (EARLY_DV) ptx::mbar_wait(c.dq_full + 16, r.stage);", "waits for a buffer that is free, or not at all"),
    Bug("dQ out of turn", BWD,
        "            while (ptx::ld_acquire_gpu(a.turns + at) != v.turn) __nanosleep(64);\n", "\n",
        "blocks add to dQ without waiting for those before them"),
    Bug("dQ overwritten", BWD, "        if (v.turn == 0) {", "        if (v.turn <= 1) {",
        "the second block stores where it should add", PLAIN),
    Bug("dropped accumulate", BWD, "    product_keys<L>(c.dk, ds, r.q);\n",
        "    product_keys<L>(c.dv, ds, r.q);\n", "dS^T Q goes to the wrong sum", PLAIN),
    Bug("wrong expect_tx", BWD, "L::Q_BYTES + (masked ? 2 * L::STATS_BYTES : L::STATS_BYTES));",
        "L::Q_BYTES + (masked ? L::STATS_BYTES : L::STATS_BYTES));",
        "the barrier completes before the spans of a masked tile are there"),
    Bug("mask off by one", BWD, "(uint32_t)(key + j / 2 * 8 - x[j % 2 * 2] < x[j % 2 * 2 + 1]) << j;",
        "(uint32_t)(key + j / 2 * 8 - x[j % 2 * 2] <= x[j % 2 * 2 + 1]) << j;",
        "a query sees the key after its last", PLAIN),
])

MATMUL = Kernel("matmul hopper", [NT], "test_matmul_hopper_sim", "test_matmul_hopper_race", {None: ["quick"]},
                300, [
    Bug("missing barrier", EPILOGUE,
        "    fence_async_proxy();\n    bar_sync(o.bar, WARPGROUP);\n",
        "    fence_async_proxy();\n\n", "C is stored before every warp has staged its rows"),
    Bug("missing proxy fence", EPILOGUE, "    fence_async_proxy();\n    bar_sync(o.bar, WARPGROUP);\n",
        "\n    bar_sync(o.bar, WARPGROUP);\n", "the store reads what was not made visible to it",
        RACE),
    Bug("wrong parity", LOOP, "mbar_wait(empty + 8 * ring.stage, ring.parity ^ 1);",
        "mbar_wait(empty + 8 * ring.stage, ring.parity);", "the first stage is never free"),
    Bug("parity that never flips", LOOP, "        r.stage = 0;\n        r.parity ^= 1;\n",
        "        r.stage = 0;\n\n", "the second turn of the ring is taken for the first"),
    Bug("stage released early", LOOP,
        "        wgmma_wait<1>();\n        release_last<C>(s);\n        advance<C>(s);\n",
        "        release_last<C>(s);\n        wgmma_wait<1>();\n        advance<C>(s);\n",
        "a stage is refilled while wgmma reads it"),
    Bug("wrong stage released", LOOP,
        "    s.last_empty = s.to_empty + (s.full + 8 * s.ring.stage);\n    ring_next<C>(s.ring);\n",
        "    ring_next<C>(s.ring);\n    s.last_empty = s.to_empty + (s.full + 8 * s.ring.stage);\n",
        "the stage after the one that was read"),
    Bug("wrong expect_tx", LOOP, "mbar_arrive_expect_tx(bar, C::STAGE_BYTES);",
        "mbar_arrive_expect_tx(bar, C::A_BYTES);", "the barrier completes before B is there"),
    Bug("swapped coordinates", LOOP, "        tma_load_2d(a, ta, bar, k, m0);",
        "        tma_load_2d(a, ta, bar, m0, k);", "row and column of A", PLAIN),
    Bug("dropped accumulate", LOOP, "multiply<C>(d, s.a_lo + at, s.b_lo + at, keep);",
        "multiply<C>(d, s.a_lo + at, s.b_lo + at, 0);", "each k-block starts afresh", PLAIN),
    Bug("wrong swizzle", EPILOGUE,
        "stmatrix_x4(buffer + row * 128 + ((part ^ (row & 7)) << 4), h[4 * i]",
        "stmatrix_x4(buffer + row * 128 + (part << 4), h[4 * i]",
        "C is staged without the swizzle of its tensor map", PLAIN),
    Bug("missing __threadfence", LOOP,
        "        __threadfence(); // publishes the sums of all 128 threads: they came before the barrier\n",
        "\n", "split-K: a part is counted before its sums are there", RACE),
    Bug("one buffer for two chunks", EPILOGUE, "    o.turn ^= 1;\n", "\n",
        "a chunk is staged while the last one is stored"),
    Bug("cluster: only one CTA is waited for", KERNEL, "mbar_init(empty + 8 * i, C::READERS);",
        "mbar_init(empty + 8 * i, C::READERS / C::CLUSTER);",
        "a stage is refilled while the other CTA reads it"),
    Bug("no wait before the epilogue", LOOP, "    wgmma_wait<0>();\n    pin(acc);\n    release_last",
        "\n    pin(acc);\n    release_last", "sums read while they are being written", PLAIN),
])

MATMUL_FP8 = Kernel("matmul_fp8 hopper, fast", [FP8_FAST], "test_matmul_fp8_hopper_sim",
                    "test_matmul_fp8_hopper_race", {None: ["quick"]}, 300, [
    Bug("wrong k advance", PAGE, "BK = ROW / elem_bytes(E); // BK", "BK = ROW / 2; // BK",
        "rows of 128 bytes are taken for 64 elements", PLAIN),
    Bug("transpose to the wrong place", EPILOGUE,
        "tma_store_2d(maps.qt, buffer + FP8_BYTES, m0, n0);",
        "tma_store_2d(maps.qt, buffer + FP8_BYTES, n0, m0);", "row and column of a box", PLAIN),
    Bug("transpose with rows swapped", FP8, "r0 = r ? 0x3254 : 0x5410", "r0 = r ? 0x5432 : 0x5410",
        "bytes of one lane in the place of another's", PLAIN),
    Bug("wrong swizzle", FP8, "((part ^ (row >> 1 & 3)) << 4)", "((part ^ (row & 3)) << 4)",
        "rows of 64 bytes have another one than rows of 128", PLAIN),
    Bug("amax after scaling", FP8, "seen.largest = fmaxf(seen.largest, top);",
        "seen.largest = fmaxf(seen.largest, top * scale);", "amax is of x, not of q", PLAIN),
    Bug("amax of the last chunk", FP8, "seen.largest = fmaxf(seen.largest, top);",
        "seen.largest = top;", "what earlier chunks have seen is lost", PLAIN),
    Bug("rows beyond the edge", EPILOGUE, "if (w.m0 + 64 > p.M || n0 + COLS > p.N) clear",
        "if (n0 + COLS > p.N) clear", "the bias of rows that are not there is counted", PLAIN),
])

MATMUL_FP8_PROMOTED = Kernel("matmul_fp8 hopper, promoted", [FP8_PROMOTED],
                             "test_matmul_fp8_hopper_sim", "test_matmul_fp8_hopper_race",
                             {None: ["quick"]}, 300, [
    Bug("dropped promotion", LOOP, "acc[i] += done[i];", "acc[i] = done[i];",
        "only the last k-block counts", PLAIN),
    Bug("promoted accumulator not fresh", LOOP, "    issue<C>(next, s, 0);\n",
        "    issue<C>(next, s, 1);\n", "k-blocks are added twice", PLAIN),
    Bug("promoted before it is done", LOOP,
        "    wgmma_wait<1>();\n    add_done<C>(acc, done, s);\n    advance<C>(s);\n",
        "    add_done<C>(acc, done, s);\n    wgmma_wait<1>();\n    advance<C>(s);\n",
        "the accumulator is read and its stage released while wgmma runs"),
    Bug("scale of one operand only", KERNEL, "C::FP8 ? *p.a_inv * *p.b_inv : 1.f",
        "C::FP8 ? *p.a_inv : 1.f", "sums in the wrong unit", PLAIN),
    Bug("columns summed too early", FP8, "    bar_sync(bar, WARPGROUP);\n    if (t >= 64",
        "\n    if (t >= 64", "sums of warps are read before they are written"),
])

PLAIN_SUMS = Kernel("sum_squares", ["kernels/cuda/sum_squares.cu"], "op_check_sim", "op_check_race",
                    {None: ["--first", "--once", "sum_squares", "cuda"]}, 120, [
    Bug("missing barrier", "kernels/cuda/reduce.cuh",
        "    __syncthreads();\n#pragma unroll\n    for (int i = 0; i < K; i++) {\n        v[i] = s[i]",
        "\n#pragma unroll\n    for (int i = 0; i < K; i++) {\n        v[i] = s[i]",
        "sums of warps are read before they are written"),
])

PLAIN_MATMUL = Kernel("matmul plain", ["kernels/cuda/matmul.cu"], "op_check_sim", "op_check_race",
                      {None: ["--first", "--once", "matmul", "cuda"]}, 300, [
    Bug("missing barrier", "kernels/cuda/matmul.cu",
        "        __syncthreads();\n#pragma unroll 1\n        for (int i = threadIdx.x; i < SIDE / 2",
        "\n#pragma unroll 1\n        for (int i = threadIdx.x; i < SIDE / 2",
        "the epilogue reads sums that are not there yet"),
    Bug("last part of K left out", "kernels/cuda/matmul.cu",
        "for (int part = 0; part < plan.parts; part++) s +=",
        "for (int part = 0; part < plan.parts - 1; part++) s +=", "split-K", PLAIN),
])

PLAIN_ATTENTION = Kernel("attention_fwd plain", ["kernels/cuda/attention_fwd.cu"], "op_check_sim",
                         "op_check_race", {None: ["--first", "--once", "attention_fwd", "cuda"]}, 300, [
    Bug("missing rescale", "kernels/cuda/attention_fwd.cu",
        "o[c][n / 4][n % 4] *= row_factor[tile_row<1, T>(n)];", "o[c][n / 4][n % 4] *= 1.0f;",
        "out keeps the scale of an older maximum", PLAIN),
])

PLAIN_QUANTIZE = Kernel("fp8_quantize", [QUANTIZE], "op_check_sim", "op_check_race",
                        {None: ["--first", "--once", "fp8_quantize", "cuda"]}, 120, [
    Bug("missing barrier", QUANTIZE, "        __syncthreads();\n        fp8_tile_store",
        "\n        fp8_tile_store", "a tile is copied before it is there"),
    Bug("one tile for all turns", QUANTIZE, "row0 += FP8_TILE_ROWS, turn ^= 1)",
        "row0 += FP8_TILE_ROWS)", "the next rows are written while the last ones are copied"),
    Bug("wrong swizzle", FP8_TILE, "tile.cell[c][cell ^ (c / GRID_VECTOR)]", "tile.cell[c][cell]",
        "the copy looks for a cell where it is not", PLAIN),
    Bug("infinity enters amax", FP8_COMMON, "finite ? size : 0.0f);", "size);",
        "one element makes the scale 0", PLAIN),
    Bug("zeros are flushed", FP8_COMMON, "size > 0.0f && scaled <=", "scaled <=",
        "what was 0 before is counted", PLAIN),
])

PLAIN_ADAMW = Kernel("adamw FP8", [ADAMW], "test_fp8_makers_sim", "test_fp8_makers_race",
                     {None: ["small_matrices*"]}, 120, [
    Bug("missing barrier", ADAMW, "        __syncthreads();\n        fp8_tile_store",
        "\n        fp8_tile_store", "a tile is copied before it is there"),
    Bug("FP8 of what is not rounded", ADAMW, "    unpack(w, rounded, a.param_dtype);", "    (void)rounded;",
        "other bits than a pass over param gives", PLAIN),
])

PLAIN_LAYERNORM = Kernel("layernorm_fwd FP8", [LAYERNORM], "test_fp8_makers_sim",
                         "test_fp8_makers_race", {None: ["short_rows*"]}, 120, [
    Bug("missing barrier", LAYERNORM, "        __syncthreads();\n        store_turned", "\n        store_turned",
        "rows are turned before they are there"),
    Bug("padding not written", LAYERNORM, "if (QUANT && C == 0 && c < a.C) put_eight",
        "if (QUANT && C == 0 && c < 0) put_eight", "rows behind the last are not 0", PLAIN),
    Bug("FP8 of what is not rounded", LAYERNORM, "        unpack(y, out, a.out_dtype);\n", "\n",
        "other bits than by a pass", PLAIN),
])

KERNELS = [TOY_GEMM, MATMUL, MATMUL_FP8, MATMUL_FP8_PROMOTED, ATTENTION_FWD, ATTENTION_BWD,
           PLAIN_SUMS, PLAIN_MATMUL, PLAIN_ATTENTION, PLAIN_QUANTIZE, PLAIN_ADAMW, PLAIN_LAYERNORM]
