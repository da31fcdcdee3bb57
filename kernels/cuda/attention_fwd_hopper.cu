// attention_fwd_hopper.cu -- attention, forward, for Hopper: which calls, by which kernel; and the
// kernel for queries that all see the same keys.
// Contract: kernels/ops/attention_fwd.h   The kernel and its page: attention_fwd_hopper.cuh
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/attention_fwd_hopper.cuh"
#include "kernels/cuda/attention_tma.cuh"
#include "kernels/cuda/cuda_kernels.h"

namespace
{

enum { HEAD_MAX = 128, GRID_MAX = 65535, SMEM_NEEDED = 216 * 1024 };
const int64_t POSITION_MAX = (int64_t)1 << 30;

const char *refuses(const CudaDevice *d, const AttentionFwdArgs *a)
{
    if (a->dtype != DTYPE_BF16) return "bf16 only";
    if (a->D > HEAD_MAX) return "head sizes up to 128";
    if (a->Tk == 0) return "no keys";
    if (a->B > GRID_MAX) return "up to 65535 samples";
    if (a->Tq > POSITION_MAX || a->Tk > POSITION_MAX) return "up to 2^30 queries and keys";
    if (!(a->scale > 0)) return "the scale is not positive";
    if (d->smem_per_block < SMEM_NEEDED) return "a block may not ask for 216 KB of shared memory";
    const char *why = attention_map_refuses(a->q, a->B, a->Tq, a->H, a->D, a->q_row, a->q_batch);
    if (!why) why = attention_map_refuses(a->k, a->B, a->Tk, a->H, a->D, a->kv_row, a->kv_batch);
    if (!why) why = attention_map_refuses(a->v, a->B, a->Tk, a->H, a->D, a->kv_row, a->kv_batch);
    if (!why)
        why = attention_map_refuses(a->out, a->B, a->Tq, a->H, a->D, a->out_row, a->out_batch);
    return why;
}

// Of query i, documents aside.
KeySpan span_of(const AttentionFwdArgs *a, int64_t i)
{
    const int64_t at = a->q_pos0 + i;
    KeySpan s = {0, (int)a->Tk};
    if (a->mask.causal) s.hi = (int)LT_MIN(a->Tk, at + 1);
    if (a->mask.window > 0) s.lo = (int)LT_MIN(a->Tk, LT_MAX(at - a->mask.window + 1, 0));
    return s;
}

} // namespace

cudaError_t fwd_maps(FwdMaps *maps, const FwdCall &f, int q_rows, int k_rows)
{
    const int64_t B = f.B, H = f.H, D = f.D, Tq = f.params.Tq, Tk = f.params.Tk;
    const DType t = DTYPE_BF16;
    cudaError_t e = attention_map(&maps->q, t, f.q, B, Tq, H, D, f.q_row, f.q_batch, q_rows);
    if (e == cudaSuccess)
        e = attention_map(&maps->k, t, f.k, B, Tk, H, D, f.kv_row, f.kv_batch, k_rows);
    if (e == cudaSuccess)
        e = attention_map(&maps->v, t, f.v, B, Tk, H, D, f.kv_row, f.kv_batch, k_rows);
    if (e == cudaSuccess)
        e = attention_map(&maps->out, t, f.out, B, Tq, H, D, f.out_row, f.out_batch, 64);
    return e;
}

extern "C" bool hopper_attention_fwd_supports(const CudaDevice *d, const AttentionFwdArgs *a,
                                              const char **why)
{
    *why = refuses(d, a);
    return *why == nullptr;
}

extern "C" size_t hopper_attention_fwd_scratch(const CudaDevice *d, const AttentionFwdArgs *a)
{
    (void)d;
    (void)a;
    return 0;
}

extern "C" int hopper_attention_fwd(const CudaDevice *d, const AttentionFwdArgs *a, void *scratch)
{
    (void)scratch;
    if (a->B == 0 || a->H == 0 || a->Tq == 0) return (int)cudaSuccess;
    FwdCall f = {a->out,     a->q,     a->k,        a->v,      a->B,         a->H,       a->D,
                 a->q_batch, a->q_row, a->kv_batch, a->kv_row, a->out_batch, a->out_row, {}};
    f.params.lse = a->lse;
    f.params.Tq = (int)a->Tq;
    f.params.Tk = (int)a->Tk;
    f.params.scale = a->scale;
    f.params.mask = attention_mask_params(a->mask, a->Tq, a->Tk, a->q_pos0);
    f.params.drop = dropout_of(a->drop);
    if (f.params.drop.on) return (int)fwd_dropout(f, d->stream);

    // Both ends of a span only grow with the query, so that the first and the last tell about all.
    const KeySpan first = span_of(a, 0), last = span_of(a, a->Tq - 1);
    const bool documents = a->mask.seg_lo || a->mask.seg_hi;
    if (!documents && first.lo == last.lo && first.hi == last.hi && first.lo < first.hi) {
        f.k = (const uint16_t *)a->k + first.lo * a->kv_row; // all see these keys, and no others
        f.v = (const uint16_t *)a->v + first.lo * a->kv_row;
        f.params.Tk = first.hi - first.lo;
        return (int)fwd_mask<FWD_FULL>(f, d->stream);
    }
    if (!documents && a->mask.causal && a->q_pos0 == 0 && last.lo == 0) {
        f.params.Tk = last.hi; // whatever later keys hold, NaN included
        return (int)fwd_causal(f, d->stream);
    }
    return (int)fwd_spans(f, d->stream);
}
