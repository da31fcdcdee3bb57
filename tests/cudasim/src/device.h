// device.h -- what a device thread can do: the functions that translated kernels call.
//
// A kernel reaches the simulator as C++ in which every PTX instruction that touches other
// threads, shared memory or an asynchronous engine is a call of one function below; arithmetic
// and plain loads and stores stay inline C++. A call may switch to another thread of the
// simulated GPU, so nothing but locals survives it (every CUDA thread has its own stack).
//
// Addresses. Shared memory is a window of 256 KiB a block with the true 18-bit addresses, so
// that wgmma descriptors and swizzles see real address bits; a block's allocation starts at
// 1024, as on the hardware. `uint32_t` addresses below are of that window. An address of another
// block of the cluster (mapa) has the block's rank plus one in bits 24..31. Global memory is host
// memory, and a generic address is a host pointer (smem_generic, smem_of_generic).
//
// Lines. Every function notes its return address, so that a report can name the line of the .cu
// file (translated code carries #line directives).
//
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

namespace cudasim
{

struct Dim3 {
    unsigned x, y, z;
};

// The special registers of one thread.
struct Ctx {
    Dim3 tid, bid, bdim, gdim;     // threadIdx, blockIdx, blockDim, gridDim
    unsigned lane, warp, lin;      // lane in the warp, warp in the block, thread in the block
    unsigned crank, csize;         // rank of the block in its cluster, blocks of the cluster
    Dim3 cid, cdim;                // the same in three dimensions
    unsigned dyn_smem, total_smem; // bytes of dynamic and of all shared memory
    char *window;                  // host address of the block's shared window
};
extern Ctx *cur; // the running thread

// Ends the program (exit code 86) with the kernel, block, thread and line.
[[noreturn]] void die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

// ---- shared memory ----
// The host pointer of `bytes` bytes at `addr`; outside the block's allocation is an error.
void *smem_ptr(uint32_t addr, size_t bytes, const char *what);
uint32_t smem_addr(const void *generic);             // error when it is not shared memory
uint64_t smem_generic(uint32_t addr);                // cvta.shared
uint64_t smem_of_generic(uint64_t generic);          // cvta.to.shared
bool is_shared(const void *generic);                 // isspacep.shared
uint32_t cluster_addr(uint32_t addr, uint32_t rank); // mapa
uint64_t cluster_generic(uint64_t generic, uint32_t rank);
uint32_t cluster_rank(uint32_t addr); // getctarank

// ---- a warp ----
enum class Shfl { IDX, UP, DOWN, BFLY };
// shfl.sync: `c` is clamp and segment mask as in the PTX; *in_range is the predicate.
uint32_t shfl(Shfl mode, uint32_t v, uint32_t b, uint32_t c, uint32_t mask, bool *in_range);
uint32_t ballot(uint32_t mask, bool p);                 // vote.sync.ballot; any and all follow
uint32_t match_any(uint32_t mask, uint64_t v);          // match.any.sync
uint32_t match_all(uint32_t mask, uint64_t v, bool *p); // match.all.sync
enum class Redux { ADD, MIN, MAX, AND, OR, XOR };
uint32_t redux(uint32_t mask, Redux op, bool is_signed, uint32_t v);
uint32_t elect(uint32_t mask, bool *leader); // elect.sync: the leader's lane
uint32_t activemask();
void syncwarp(uint32_t mask);
void setmaxnreg(bool inc, int n);

// ---- barriers of a block and of a cluster ----
void bar_sync(uint32_t id, uint32_t threads); // threads == 0: all of the block
void bar_arrive(uint32_t id, uint32_t threads);
enum class BarRed { POPC, AND, OR };
uint32_t bar_red(BarRed op, uint32_t id, uint32_t threads, bool p);
void cluster_arrive(bool release); // release false: barrier.cluster.arrive.relaxed
void cluster_wait();
void yield(); // nanosleep; also what a spinning loop must call

// ---- fences and memory operations that order ----
enum class Scope { CTA, CLUSTER, GPU, SYS };
enum class Sem { WEAK, RELAXED, ACQUIRE, RELEASE, ACQ_REL };
void fence(Scope scope); // fence.acq_rel, fence.sc, membar
// fence.proxy.async: generic writes before it are seen by TMA and wgmma; of shared memory only
// when `global` is false (.shared::cta).
void fence_proxy_async(bool global = true);
void fence_mbarrier_init();
enum class Atom { ADD, MIN, MAX, AND, OR, XOR, EXCH, CAS, INC, DEC };
enum class Ty { B32, B64, U32, U64, S32, S64, F32, F64, F16, BF16, F16X2, BF16X2, B16, B128 };
// One atom.* or red.*: `v` is the operand, `cmp` is compared by CAS. Returns the old value.
uint64_t atomic(void *p, Atom op, Ty type, uint64_t v, uint64_t cmp, Sem sem, Scope scope);
// ld and st with .relaxed, .acquire, .release or .volatile, at most 8 bytes.
uint64_t strong_load(const void *p, int bytes, Sem sem, Scope scope);
void strong_store(void *p, int bytes, uint64_t v, Sem sem, Scope scope);

// ---- mbarrier ----
void mbar_init(uint32_t bar, uint32_t count);
void mbar_inval(uint32_t bar);
uint64_t mbar_arrive(uint32_t bar, uint32_t count); // own or cluster address; returns the state
uint64_t mbar_arrive_expect_tx(uint32_t bar, uint32_t bytes);
void mbar_expect_tx(uint32_t bar, uint32_t bytes);
void mbar_complete_tx(uint32_t bar, uint32_t bytes);
bool mbar_test_wait(uint32_t bar, uint32_t parity);
bool mbar_try_wait(uint32_t bar, uint32_t parity); // waits; may give up when schedules are random
bool mbar_test_wait_state(uint32_t bar, uint64_t state);
bool mbar_try_wait_state(uint32_t bar, uint64_t state);

// ---- asynchronous copies ----
void cp_async(uint32_t dst, const void *src, int bytes, int src_bytes); // zero-fills the rest
void cp_async_commit();
void cp_async_wait(int groups);
void cp_async_wait_all();
void cp_async_mbar_arrive(uint32_t bar, bool noinc);
enum class Reduce { NONE, ADD, MIN, MAX, INC, DEC, AND, OR, XOR };
// TMA by a tensor map (128 bytes as tensor_map.h encodes them); `c` has `rank` coordinates,
// innermost first. A load into the blocks of `cta_mask` of the cluster when it is not 0.
void tma_load(uint32_t dst, const void *map, uint32_t bar, const int *c, int rank,
              uint32_t cta_mask);
void tma_store(const void *map, uint32_t src, const int *c, int rank, Reduce op);
void bulk_load(uint32_t dst, const void *src, uint32_t bytes, uint32_t bar, uint32_t cta_mask);
void bulk_store(void *dst, uint32_t src, uint32_t bytes);
void bulk_reduce(void *dst, uint32_t src, uint32_t bytes, Reduce op, Ty type);
void bulk_copy_cluster(uint32_t dst, uint32_t src, uint32_t bytes, uint32_t bar);
void bulk_commit();
void bulk_wait(int groups, bool read_only);

// ---- matrices of a warp ----
enum class Num { BF16, F16, TF32, E4M3, E5M2 };
void ldmatrix(uint32_t *r, int n, uint32_t addr, bool trans);
void stmatrix(uint32_t addr, const uint32_t *r, int n, bool trans);
// mma.sync m16n8kK with K = 16 or 8 (bf16, f16), 8 or 4 (tf32), 32 or 16 (fp8); f32 accumulators.
void mma_sync(float *d, const float *c, const uint32_t *a, const uint32_t *b, int k, Num ta,
              Num tb);
// The same with f16 accumulators: c and d are two registers of two halves.
void mma_sync_f16(uint32_t *d, const uint32_t *c, const uint32_t *a, const uint32_t *b, int k,
                  Num ta, Num tb);

// ---- wgmma ----
// The instruction is asynchronous, and here it is executed at the latest legal moment: when a
// thread has waited for it. Until then the accumulator registers hold *tags*, signalling NaNs that
// name an accumulator of the simulator and the register's place in it. A register that may hold
// one (it was an operand d of wgmma, or a copy of such) is exchanged for its value
//   - where it is used, by wgmma_use(): reports a register whose wgmma is in flight; the best way,
//     because a chain of instructions on untouched accumulators then moves no data; or
//   - after a wait_group, by wgmma_result(): leaves a tag that is still in flight as it is.
// Plain moves may keep tags.
//
//     Wgmma w = {...};
//     if (!wgmma_chained(w, r1, r64)) {                  // the usual case in a loop: nothing to do
//         uint32_t d[64] = {r1, ..., r64};
//         wgmma(d, w);
//         r1 = d[0]; ... r64 = d[63];
//     }
struct Wgmma {
    int n; // columns: 8..256
    Num ta, tb;
    bool scale_d; // false: what d holds is ignored
    bool neg_a, neg_b;
    bool trans_a, trans_b; // operand is MN-major in shared memory
    uint64_t desc_a, desc_b;
    const uint32_t *a; // four registers, or nullptr: A is in shared memory
    bool f16_acc;      // accumulators are halves, two a register
};
// True when d (given by its first and last register) still is one accumulator: d keeps its tags.
bool wgmma_chained(const Wgmma &op, uint32_t first, uint32_t last);
void wgmma(uint32_t *d, const Wgmma &op); // d: n/2 registers (n/4 of halves), in and out
void wgmma_fence();
void wgmma_commit();
void wgmma_wait(int groups);
uint32_t wgmma_use_slow(uint32_t v);
uint32_t wgmma_result_slow(uint32_t v);
inline bool wgmma_is_tag(uint32_t v)
{
    return (v & 0xffc00000u) == 0xff800000u && v != 0xff800000u;
}
inline uint32_t wgmma_use(uint32_t v)
{
    return wgmma_is_tag(v) ? wgmma_use_slow(v) : v;
}
inline uint32_t wgmma_result(uint32_t v)
{
    return wgmma_is_tag(v) ? wgmma_result_slow(v) : v;
}

// ---- the rest ----
void device_printf(const char *fmt, const char *args); // vprintf's packed arguments
[[noreturn]] void device_assert(const char *what, const char *file, unsigned line,
                                const char *function);
[[noreturn]] void device_trap();
[[noreturn]] void misaligned(const void *p, int bytes, bool store);

} // namespace cudasim
