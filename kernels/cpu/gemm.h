// gemm.h -- packed matrix product: what the driver and the kernels of an instruction set agree on.
//
// One driver (gemm_driver.c, compiled once) does everything that does not depend on the instruction
// set: it cuts C into blocks, calls `pack` to bring operands into panels, hands blocks of packed
// operands to `block`, and shares the work among threads. A kernel (gemm_f32.c for each vector
// width, gemm_bf16dot.c, gemm_amx.c) is a row of constants and these two functions.
//
//     A, M x K                 packed: panels of mr rows         B likewise, panels of nr columns
//     +-----------+            +--------+ panel 0: for each k the mr values of its rows,
//     |           |            |        | then the next k ...
//     |           |  ------->  +--------+ panel 1
//     +-----------+            |        | a panel is read front to back by the inner loop
//        K in chunks of kc     +--------+
//
// The smaller of M and N is the *shared* side: packed once, read by every thread. Blocks of the
// other, *private* side are packed by the thread that multiplies them. So a product has one
// barrier, between packing the shared side and the multiplications, and the tasks after it are
// drawn from a queue, which forgives a busy neighbour. A long K (the gradient that leaves the
// output head) goes in slabs of chunks, so that a cache still has what was packed when it is
// multiplied; partial sums wait in the task's own room meanwhile.
//
// Invariants
//   (1) How K is split depends on K and the kernel alone, never on threads, M or N; an element of C
//       is the same chain of operations wherever its block lies. Hence bitwise repeatable.
//   (2) Panels are padded with zeros in M, N and K; padded results are computed and never stored.
//   (3) No memory but the caller's scratch, sized by gemm_scratch for the same arguments and
//   threads.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kernels/ops.h"

// One operand as packing sees it: element (i, k), i along M or N.
typedef struct GemmOperand {
    const void *p;
    int64_t ld;
    bool k_rows; // (i,k) at p[k*ld + i]; else at p[i*ld + k]
    bool is_b;
    DType dtype;
} GemmOperand;

// What a product of FP8 operands has beyond MatmulArgs (gemm_fp8.h).
typedef struct GemmExtra {
    DType a_dtype, b_dtype; // of the operands as they lie in memory
    float alpha;            // the sums are multiplied by it
    bool read_back;         // C is read again at once: it should stay in the caches
} GemmExtra;

// The part of the private side that will be packed next, for kernels that prefetch it: `rows` runs
// of `bytes`, `ld` bytes apart. rows == 0: nothing.
typedef struct GemmNext {
    const char *p;
    int64_t ld, rows, bytes;
} GemmNext;

// One chunk of K of one block of C.
typedef struct GemmBlock {
    const MatmulArgs *args;
    const GemmExtra *extra;
    const char *a, *b;      // packed panels of rows r0.. and columns c0..
    int64_t kp;             // K of the chunk, padded to k_step
    int64_t r0, r1, c0, c1; // the block of C
    bool first, last;       // chunk of K; after the last one: bias, epilogue, store
    GemmNext next;
} GemmBlock;

// What a thread has during one product.
typedef struct GemmThread {
    char *priv;  // packed private block
    float *part; // part_bytes of it: partial sums of the block at hand
    void *state; // state_bytes, zero at the start: the kernel's own
} GemmThread;

typedef struct GemmPlan {
    bool priv_a; // the private side is A (M > N)
    int threads;
    int64_t sn, pn;     // length of the shared and of the private side
    int64_t sw, pw;     // panel widths
    int64_t kc, nk;     // K chunk, how many
    int64_t slab;       // chunks of K packed and multiplied at a time
    int64_t tasks;      // blocks of C
    int64_t sb, pb;     // block of C: shared x private
    int64_t part_rooms; // one a thread; with several slabs one a task
    size_t shared_bytes, priv_bytes, part_bytes, state_bytes;
} GemmPlan;

typedef struct GemmKernel {
    int64_t mr, nr;     // panel widths: rows of A, columns of B
    int64_t k_step;     // K of a packed chunk is a multiple of this
    int64_t elem_bytes; // of a packed element
    int64_t kc;         // largest chunk of K
    int64_t shared_block, priv_block;
    int tasks; // at least so many tasks a thread, if the private side is long enough
    size_t state_bytes;
    size_t (*part_bytes)(const MatmulArgs *a, const GemmPlan *p);
    void (*pack)(void *dst, const GemmOperand *x, int64_t i0, int64_t n, int64_t k0, int64_t k);
    void (*begin)(GemmThread *t); // once a thread and product, or NULL
    void (*block)(GemmThread *t, const GemmPlan *p, const GemmBlock *b);
    void (*end)(GemmThread *t); // or NULL
} GemmKernel;

LT_C_BEGIN
size_t gemm_scratch(const GemmKernel *k, const MatmulArgs *a, const OpCtx *cx);
void gemm_run(const GemmKernel *k, const MatmulArgs *a, OpCtx *cx);
// The same with operands of other types than a->ab_dtype says. `pack` must know them.
void gemm_run_extra(const GemmKernel *k, const MatmulArgs *a, const GemmExtra *extra, OpCtx *cx);
LT_C_END
