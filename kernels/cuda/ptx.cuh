// ptx.cuh -- the PTX instructions of the kernels: one small named function each, nothing else.
//
// CUDA C++ has no names for TMA, mbarrier and wgmma, so they are written as inline assembly here
// and nowhere else. Three conventions:
//   * shared memory is named by its 32-bit address, which is what the instructions take. Keep
//     addresses as integers: the compiler then holds them in uniform registers;
//   * barriers (`bar`) are mbarriers, 8 bytes of shared memory; named barriers 1..15 are numbers,
//     0 is __syncthreads();
//   * a wgmma function is chosen by the number of accumulators: N columns are N/2 floats a thread.
//
// The instruction set reference is NVIDIA's "PTX ISA", whose names are kept where they are short.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <cuda.h>
#include <cuda_runtime.h>

#define PTX_FN __device__ __forceinline__

namespace ptx
{

PTX_FN uint32_t smem_addr(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

// ---- named barriers: some warps of a block, `threads` of them in all ----------------------------

PTX_FN void bar_sync(uint32_t id, uint32_t threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
PTX_FN void bar_arrive(uint32_t id, uint32_t threads) // does not wait
{
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
PTX_FN bool elect_one() // true in one lane of a whole warp
{
    uint32_t p;
    asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}\n"
                 : "=r"(p));
    return p != 0;
}

// ---- mbarriers ----------------------------------------------------------------------------------
// A phase ends when `count` arrivals and all announced bytes have come. Waiting names the parity of
// the phase: 0 for the first. A fresh barrier passes a wait for parity 1 at once.

PTX_FN void mbar_init(uint32_t bar, uint32_t count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
PTX_FN void mbar_init_fence() // TMA and the other CTAs of the cluster see the barriers
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
PTX_FN void mbar_arrive(uint32_t bar)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
PTX_FN void mbar_arrive_expect_tx(uint32_t bar, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes)
                 : "memory");
}
PTX_FN bool mbar_try_wait(uint32_t bar, uint32_t parity)
{
    uint32_t ok;
    asm volatile("{\n.reg .pred p;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n}\n"
                 : "=r"(ok)
                 : "r"(bar), "r"(parity)
                 : "memory");
    return ok != 0;
}
PTX_FN void mbar_wait(uint32_t bar, uint32_t parity)
{
    while (!mbar_try_wait(bar, parity)) {}
}

// ---- clusters -----------------------------------------------------------------------------------

PTX_FN uint32_t cluster_rank()
{
    uint32_t r;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}
PTX_FN uint32_t cluster_addr(uint32_t addr, uint32_t rank) // the same address in another CTA
{
    uint32_t r;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(addr), "r"(rank));
    return r;
}
// Without .release.cluster, which would be a fence of all memory: good for wgmma's operands, which
// have been read when the wait for the group is over.
PTX_FN void mbar_arrive_cluster(uint32_t bar)
{
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(bar) : "memory");
}
PTX_FN void cluster_sync()
{
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}

// ---- fences -------------------------------------------------------------------------------------

// Own stores to shared memory, before TMA or wgmma reads them. Each thread that stored needs it.
PTX_FN void fence_async_proxy()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
PTX_FN void fence_async_proxy_global() // the same for global memory
{
    asm volatile("fence.proxy.async.global;" ::: "memory");
}

// ---- TMA: boxes of tensors, coordinates innermost first -----------------------------------------

PTX_FN void tma_prefetch_map(const CUtensorMap *m)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(m) : "memory");
}

#define PTX_TMA_LOAD "shared::cluster.global.mbarrier::complete_tx::bytes"

PTX_FN void tma_load_2d(uint32_t dst, const CUtensorMap *m, uint32_t bar, int c0, int c1)
{
    asm volatile("cp.async.bulk.tensor.2d." PTX_TMA_LOAD " [%0], [%1, {%3, %4}], [%2];" ::"r"(dst),
                 "l"(m), "r"(bar), "r"(c0), "r"(c1)
                 : "memory");
}
PTX_FN void tma_load_3d(uint32_t dst, const CUtensorMap *m, uint32_t bar, int c0, int c1, int c2)
{
    asm volatile("cp.async.bulk.tensor.3d." PTX_TMA_LOAD
                 " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(dst),
                 "l"(m), "r"(bar), "r"(c0), "r"(c1), "r"(c2)
                 : "memory");
}
PTX_FN void tma_load_4d(uint32_t dst, const CUtensorMap *m, uint32_t bar, int c0, int c1, int c2,
                        int c3)
{
    asm volatile("cp.async.bulk.tensor.4d." PTX_TMA_LOAD
                 " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(dst),
                 "l"(m), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
                 : "memory");
}
PTX_FN void tma_load_5d(uint32_t dst, const CUtensorMap *m, uint32_t bar, int c0, int c1, int c2,
                        int c3, int c4)
{
    asm volatile("cp.async.bulk.tensor.5d." PTX_TMA_LOAD
                 " [%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(dst),
                 "l"(m), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
                 : "memory");
}
// The box lands at the same address in every CTA of the mask, and counts on each one's barrier.
PTX_FN void tma_multicast_2d(uint32_t dst, const CUtensorMap *m, uint32_t bar, int c0, int c1,
                             uint16_t mask)
{
    asm volatile("cp.async.bulk.tensor.2d." PTX_TMA_LOAD
                 ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(dst),
                 "l"(m), "r"(bar), "r"(c0), "r"(c1), "h"(mask)
                 : "memory");
}
// Stores belong to the thread that issued them: that thread commits and waits.
PTX_FN void tma_store_2d(const CUtensorMap *m, uint32_t src, int c0, int c1)
{
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(m),
        "r"(src), "r"(c0), "r"(c1)
        : "memory");
}
PTX_FN void tma_store_4d(const CUtensorMap *m, uint32_t src, int c0, int c1, int c2, int c3)
{
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group "
                 "[%0, {%2, %3, %4, %5}], [%1];" ::"l"(m),
                 "r"(src), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
                 : "memory");
}
PTX_FN void tma_store_5d(const CUtensorMap *m, uint32_t src, int c0, int c1, int c2, int c3, int c4)
{
    asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group "
                 "[%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(m),
                 "r"(src), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
                 : "memory");
}
// Adds the box to global memory (in L2); the order of several adders is not defined.
PTX_FN void tma_reduce_add_2d(const CUtensorMap *m, uint32_t src, int c0, int c1)
{
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group "
                 "[%0, {%2, %3}], [%1];" ::"l"(m),
                 "r"(src), "r"(c0), "r"(c1)
                 : "memory");
}

// ---- bulk copies without a tensor: 16-byte addresses and sizes ----------------------------------

PTX_FN void bulk_load(uint32_t dst, const void *src, uint32_t bytes, uint32_t bar)
{
    asm volatile("cp.async.bulk." PTX_TMA_LOAD " [%0], [%1], %2, [%3];" ::"r"(dst), "l"(src),
                 "r"(bytes), "r"(bar)
                 : "memory");
}
PTX_FN void bulk_store(void *dst, uint32_t src, uint32_t bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(dst), "r"(src),
                 "r"(bytes)
                 : "memory");
}
PTX_FN void bulk_reduce_add_f32(float *dst, uint32_t src, uint32_t bytes)
{
    asm volatile(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(dst),
        "r"(src), "r"(bytes)
        : "memory");
}
PTX_FN void bulk_commit()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
template <int N> PTX_FN void bulk_wait_read() // all but the last N groups have read their source
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}
template <int N> PTX_FN void bulk_wait() // all but the last N groups are complete
{
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}

// ---- cp.async (sm_80): 16 bytes a thread --------------------------------------------------------

PTX_FN void cp_async_16(uint32_t dst, const void *src, uint32_t src_bytes) // the rest is zeroed
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src),
                 "r"(src_bytes)
                 : "memory");
}
PTX_FN void cp_async_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int N> PTX_FN void cp_async_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// ---- shared memory and registers ----------------------------------------------------------------

PTX_FN uint32_t ld_shared(uint32_t src)
{
    uint32_t x;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(src) : "memory");
    return x;
}
PTX_FN void st_shared(uint32_t dst, uint32_t x)
{
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(dst), "r"(x) : "memory");
}
PTX_FN void st_shared_v2(uint32_t dst, float x, float y)
{
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(dst), "f"(x), "f"(y) : "memory");
}
PTX_FN void st_shared_v4(uint32_t dst, float x, float y, float z, float w)
{
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(dst), "f"(x), "f"(y), "f"(z),
                 "f"(w)
                 : "memory");
}

// Four 8x8 matrices of 16-bit elements; lane i names row i % 8 of matrix i / 8.
PTX_FN void ldmatrix_x4(uint32_t (&r)[4], uint32_t src)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(src)
                 : "memory");
}
PTX_FN void ldmatrix_x4_trans(uint32_t (&r)[4], uint32_t src)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(src)
                 : "memory");
}
PTX_FN void stmatrix_x4(uint32_t dst, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(dst),
                 "r"(a), "r"(b), "r"(c), "r"(d)
                 : "memory");
}
PTX_FN void stmatrix_x4_trans(uint32_t dst, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    asm volatile(
        "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(dst), "r"(a),
        "r"(b), "r"(c), "r"(d)
        : "memory");
}

// ---- arithmetic ---------------------------------------------------------------------------------

PTX_FN float ex2(float x) // 2^x
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
PTX_FN float tanh_approx(float x)
{
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
PTX_FN float max_nan(float a, float b) // NaN wins
{
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}
PTX_FN uint32_t pack_bf16(float lo, float hi)
{
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}
PTX_FN uint32_t pack_f16(float lo, float hi)
{
    uint32_t r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}
// Four FP8 numbers, a in the lowest byte; what is too large becomes the largest, NaN stays.
#define PTX_PACK8_(TYPE)                                                                           \
    PTX_FN uint32_t pack_##TYPE(float a, float b, float c, float d)                                \
    {                                                                                              \
        uint32_t r;                                                                                \
        asm("{\n.reg .b16 lo, hi;\ncvt.rn.satfinite." #TYPE "x2.f32 lo, %2, %1;\n"                 \
            "cvt.rn.satfinite." #TYPE "x2.f32 hi, %4, %3;\nmov.b32 %0, {lo, hi};\n}\n"             \
            : "=r"(r)                                                                              \
            : "f"(a), "f"(b), "f"(c), "f"(d));                                                     \
        return r;                                                                                  \
    }
PTX_PACK8_(e4m3)
PTX_PACK8_(e5m2)
#undef PTX_PACK8_
PTX_FN float2 unpack_bf16(uint32_t x)
{
    return make_float2(__uint_as_float(x << 16), __uint_as_float(x & 0xffff0000u));
}
PTX_FN float2 unpack_f16(uint32_t x)
{
    float2 r;
    asm("{\n.reg .b16 lo, hi;\nmov.b32 {lo, hi}, %2;\n"
        "cvt.f32.f16 %0, lo;\ncvt.f32.f16 %1, hi;\n}\n"
        : "=f"(r.x), "=f"(r.y)
        : "r"(x));
    return r;
}

// A warp-uniform value of which ptxas does not know how it came about. What it knows it computes
// again in every iteration of a loop; a value out of a shuffle stays in a uniform register.
PTX_FN uint32_t opaque(uint32_t x)
{
    return __shfl_sync(0xffffffffu, x, 0);
}

// ---- mma.sync (sm_80): D[16,8] += A[16,16] B[16,8], a warp --------------------------------------

#define PTX_MMA_(TYPE)                                                                             \
    PTX_FN void mma_##TYPE(float(&d)[4], const uint32_t(&a)[4], const uint32_t(&b)[2])             \
    {                                                                                              \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." #TYPE "." #TYPE ".f32 "              \
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"             \
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                              \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));          \
    }
PTX_MMA_(bf16)
PTX_MMA_(f16)

// ---- warpgroups: 128 threads --------------------------------------------------------------------

template <int N> PTX_FN void regs_dec() // give registers back: N a thread are left
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> PTX_FN void regs_inc()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

// Before the first wgmma, and after accumulators or A fragments were written by other instructions.
PTX_FN void wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
PTX_FN void wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int N> PTX_FN void wgmma_wait() // all but the last N groups are complete
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
// The front end may move plain arithmetic on accumulators across the (volatile) wgmma statements;
// passing every register through an empty volatile statement pins the order. No code.
template <int R> PTX_FN void pin(float (&d)[R])
{
#pragma unroll
    for (int i = 0; i < R; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
template <int R> PTX_FN void pin(uint32_t (&d)[R])
{
#pragma unroll
    for (int i = 0; i < R; ++i) asm volatile("" : "+r"(d[i])::"memory");
}

// Matrix descriptor: where an operand tile lies in shared memory. All tiles here have rows of 128
// bytes with the 128-byte swizzle, and start at a multiple of 1024 bytes (plus the offset of k):
//   high word   SBO = 1024 bytes from 8 rows to the next 8; swizzle code 1 in the top two bits
//   low word    address, and LBO: from one 128-byte column of a tile to the next (MN-major only)
// both in units of 16 bytes. To step along k add to the low word, not to the address.
constexpr uint32_t DESC_HI = (1024u >> 4) | (1u << 30);
PTX_FN uint32_t desc_lo(uint32_t addr, uint32_t lbo_bytes)
{
    return ((addr & 0x3FFFF) >> 4) | ((lbo_bytes >> 4) << 16);
}
PTX_FN uint64_t desc(uint32_t lo)
{
    return (uint64_t)DESC_HI << 32 | lo;
}

// wgmma: D[64,N] = A[64,K] B[K,N] (+ D unless keep is 0), K = 32 bytes, f32 accumulate.
//   wgmma_TYPE     A and B by descriptor
//   wgmma_TYPE_rs  A from registers (the fragment layout of D, packed in pairs)
// TA, TB: 1 when the operand's rows in shared memory run along m (n), not along k.
// Register 4i + 2r + e of a thread is row 16 warp + lane / 4 + 8r, column 8i + 2 (lane % 4) + e.
//
// The lists below are assembly operands: "%0, %1, ..." and the accumulators behind them.
#define PTX_TEN_(t)                                                                                \
    "%" t "0, %" t "1, %" t "2, %" t "3, %" t "4, %" t "5, %" t "6, %" t "7, %" t "8, %" t "9, "
#define PTX_LIST32_ PTX_TEN_("") PTX_TEN_("1") PTX_TEN_("2") "%30, %31"
#define PTX_SIXTY_                                                                                 \
    PTX_TEN_("") PTX_TEN_("1") PTX_TEN_("2") PTX_TEN_("3") PTX_TEN_("4") PTX_TEN_("5")
#define PTX_LIST64_ PTX_SIXTY_ "%60, %61, %62, %63"
#define PTX_LIST88_ PTX_SIXTY_ PTX_TEN_("6") PTX_TEN_("7") "%80, %81, %82, %83, %84, %85, %86, %87"
#define PTX_LIST96_                                                                                \
    PTX_SIXTY_ PTX_TEN_("6") PTX_TEN_("7") PTX_TEN_("8") "%90, %91, %92, %93, %94, %95"
#define PTX_LIST128_                                                                               \
    PTX_SIXTY_ PTX_TEN_("6") PTX_TEN_("7") PTX_TEN_("8") PTX_TEN_("9") PTX_TEN_("10")              \
        PTX_TEN_("11") "%120, %121, %122, %123, %124, %125, %126, %127"

#define PTX_ACC8_(i)                                                                               \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]),    \
        "+f"(d[i + 6]), "+f"(d[i + 7])
#define PTX_ACC32_(i) PTX_ACC8_(i), PTX_ACC8_(i + 8), PTX_ACC8_(i + 16), PTX_ACC8_(i + 24)
#define PTX_ACC64_    PTX_ACC32_(0), PTX_ACC32_(32)
#define PTX_ACC88_    PTX_ACC64_, PTX_ACC8_(64), PTX_ACC8_(72), PTX_ACC8_(80)
#define PTX_ACC96_    PTX_ACC64_, PTX_ACC32_(64)
#define PTX_ACC128_   PTX_ACC64_, PTX_ACC32_(64), PTX_ACC32_(96)

// I0..: the numbers of the operands behind the accumulators.
#define PTX_WGMMA16_(TYPE, N, R, LIST, ACC, I0, I1, I2, I3, I4)                                    \
    template <int TA, int TB>                                                                      \
    PTX_FN void wgmma_##TYPE(float(&d)[R], uint64_t a, uint64_t b, int keep)                       \
    {                                                                                              \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" I2 ", 0;\n"                              \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." #TYPE "." #TYPE " {" LIST   \
                     "}, %" I0 ", %" I1 ", p, 1, 1, %" I3 ", %" I4 ";\n}\n"                        \
                     : ACC                                                                         \
                     : "l"(a), "l"(b), "r"(keep), "n"(TA), "n"(TB));                               \
    }
#define PTX_WGMMA16_RS_(TYPE, N, R, LIST, ACC, I0, I1, I2, I3, I4, I5, I6)                         \
    template <int TB>                                                                              \
    PTX_FN void wgmma_##TYPE##_rs(float(&d)[R], uint32_t a0, uint32_t a1, uint32_t a2,             \
                                  uint32_t a3, uint64_t b, int keep)                               \
    {                                                                                              \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" I5 ", 0;\n"                              \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." #TYPE "." #TYPE " {" LIST   \
                     "}, {%" I0 ", %" I1 ", %" I2 ", %" I3 "}, %" I4 ", p, 1, 1, %" I6 ";\n}\n"    \
                     : ACC                                                                         \
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(keep), "n"(TB));            \
    }
#define PTX_WGMMA8_(TYPE, AB, N, R, LIST, ACC, I0, I1, I2)                                         \
    PTX_FN void wgmma_##TYPE(float(&d)[R], uint64_t a, uint64_t b, int keep)                       \
    {                                                                                              \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" I2 ", 0;\n"                              \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32." AB " {" LIST "}, %" I0      \
                     ", %" I1 ", p, 1, 1;\n}\n"                                                    \
                     : ACC                                                                         \
                     : "l"(a), "l"(b), "r"(keep));                                                 \
    }

#define PTX_WGMMA16_ALL_(TYPE)                                                                     \
    PTX_WGMMA16_(TYPE, 64, 32, PTX_LIST32_, PTX_ACC32_(0), "32", "33", "34", "35", "36")           \
    PTX_WGMMA16_(TYPE, 128, 64, PTX_LIST64_, PTX_ACC64_, "64", "65", "66", "67", "68")             \
    PTX_WGMMA16_(TYPE, 176, 88, PTX_LIST88_, PTX_ACC88_, "88", "89", "90", "91", "92")             \
    PTX_WGMMA16_(TYPE, 192, 96, PTX_LIST96_, PTX_ACC96_, "96", "97", "98", "99", "100")            \
    PTX_WGMMA16_(TYPE, 256, 128, PTX_LIST128_, PTX_ACC128_, "128", "129", "130", "131", "132")     \
    PTX_WGMMA16_RS_(TYPE, 64, 32, PTX_LIST32_, PTX_ACC32_(0), "32", "33", "34", "35", "36", "37",  \
                    "38")                                                                          \
    PTX_WGMMA16_RS_(TYPE, 128, 64, PTX_LIST64_, PTX_ACC64_, "64", "65", "66", "67", "68", "69",    \
                    "70")                                                                          \
    PTX_WGMMA16_RS_(TYPE, 256, 128, PTX_LIST128_, PTX_ACC128_, "128", "129", "130", "131", "132",  \
                    "133", "134")
PTX_WGMMA16_ALL_(bf16)
PTX_WGMMA16_ALL_(f16)

// FP8: both operands have their rows along k. The first type is A's.
#define PTX_WGMMA8_ALL_(TYPE, AB)                                                                  \
    PTX_WGMMA8_(TYPE, AB, 128, 64, PTX_LIST64_, PTX_ACC64_, "64", "65", "66")                      \
    PTX_WGMMA8_(TYPE, AB, 256, 128, PTX_LIST128_, PTX_ACC128_, "128", "129", "130")
PTX_WGMMA8_ALL_(e4m3, "e4m3.e4m3")
PTX_WGMMA8_ALL_(e5m2, "e5m2.e4m3")

#undef PTX_WGMMA8_ALL_
#undef PTX_WGMMA16_ALL_
#undef PTX_WGMMA8_
#undef PTX_WGMMA16_RS_
#undef PTX_WGMMA16_
#undef PTX_MMA_

// ---- between blocks: a counter in global memory -------------------------------------------------

PTX_FN uint32_t ld_acquire_gpu(const uint32_t *p)
{
    uint32_t x;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(p) : "memory");
    return x;
}
PTX_FN void red_release_gpu_add(uint32_t *p, uint32_t x)
{
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(p), "r"(x) : "memory");
}

// ---- several words of shared memory -------------------------------------------------------------

PTX_FN void ld_shared_v2(float &x, float &y, uint32_t src)
{
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x), "=f"(y) : "r"(src) : "memory");
}
PTX_FN void ld_shared_v4(uint32_t (&x)[4], uint32_t src)
{
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(src)
                 : "memory");
}

} // namespace ptx
