// tma.cpp -- copies of boxes by a tensor map.
//
// A box is walked one innermost row at a time. In shared memory the rows lie one after the other,
// and each 16-byte chunk goes to the address that the swizzle gives; in global memory the part of
// the row that lies inside the tensor is copied, the rest is zero (or NaN) on a load and skipped
// on a store.
//
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>
#include "tests/cudasim/src/machine.h"
#include "tests/cudasim/src/reduce.h"
#include "tests/cudasim/src/tensor_map.h"

namespace cudasim
{

namespace
{

enum {
    TYPE_U8,
    TYPE_U16,
    TYPE_U32,
    TYPE_S32,
    TYPE_U64,
    TYPE_S64,
    TYPE_F16,
    TYPE_F32,
    TYPE_F64,
    TYPE_BF16,
    TYPE_F32_FTZ
};

const TensorMap &map_of(const void *p)
{
    const auto *const t = static_cast<const TensorMap *>(p);
    if (t->magic != TENSOR_MAP_MAGIC) die("TMA: %p is not an encoded tensor map", p);
    return *t;
}

uint32_t box_bytes(const TensorMap &t)
{
    uint32_t n = t.elem_bytes;
    for (int i = 0; i < t.rank; ++i) n *= t.box[i];
    return n;
}

// The bytes [from, to) of an innermost row that starts at coordinate c0 and lie in the tensor.
struct Inside {
    uint32_t from, to;
};

Inside inside_of_row(const TensorMap &t, int c0)
{
    const int64_t dim = static_cast<int64_t>(t.dim[0]) + 1, box = t.box[0];
    const int64_t lo = std::clamp<int64_t>(-static_cast<int64_t>(c0), 0, box);
    const int64_t hi = std::clamp<int64_t>(dim - c0, lo, box);
    return {static_cast<uint32_t>(lo * t.elem_bytes), static_cast<uint32_t>(hi * t.elem_bytes)};
}

// A walk over the rows of a box.
struct Rows {
    const TensorMap &t;
    const int *c;
    int idx[5] = {};
    char *global = nullptr; // of the row's first element, which may lie outside
    bool inside = false;

    Rows(const TensorMap &map, const int *coords) : t(map), c(coords) { locate(); }

    void locate()
    {
        int64_t off = static_cast<int64_t>(c[0]) * t.elem_bytes;
        inside = true;
        for (int i = 1; i < t.rank; ++i) {
            const int64_t x = static_cast<int64_t>(c[i]) + idx[i];
            if (x < 0 || x > static_cast<int64_t>(t.dim[i])) inside = false;
            off += x * static_cast<int64_t>(t.stride[i - 1]);
        }
        global = reinterpret_cast<char *>(t.base + static_cast<uint64_t>(off));
    }

    bool next()
    {
        for (int i = 1; i < t.rank; ++i) {
            if (++idx[i] < t.box[i]) {
                locate();
                return true;
            }
            idx[i] = 0;
        }
        return false;
    }
};

void fill_outside(const TensorMap &t, char *row, uint32_t n)
{
    memset(row, t.nan_fill ? 0xff : 0, n);
}

void load_rows(const Copy &k, const TensorMap &t)
{
    const uint32_t row = t.box[0] * t.elem_bytes;
    const Inside in = inside_of_row(t, k.c[0]);
    char buf[256 * 8];
    uint32_t at = k.smem;
    Rows r(t, k.c);
    do {
        char *const window = k.block->window;
        const bool whole = r.inside && in.from == 0 && in.to == row;
        const char *src = r.global;
        if (!whole) {
            fill_outside(t, buf, row);
            if (r.inside && in.to > in.from) {
                memcpy(buf + in.from, r.global + in.from, in.to - in.from);
            }
            src = buf;
        }
        if (t.swizzle == 0) {
            memcpy(window + at, src, row);
            if (race_on) race_async_access(k.tag, window + at, row, true);
        } else {
            for (uint32_t b = 0; b < row; b += 16) {
                char *const p = window + swizzle_addr(at + b, t.swizzle);
                memcpy(p, src + b, 16);
                if (race_on) race_async_access(k.tag, p, 16, true);
            }
        }
        if (race_on && r.inside && in.to > in.from) {
            race_async_access(k.tag, r.global + in.from, in.to - in.from, false);
        }
        at += row;
    } while (r.next());
}

Ty reduce_type(const TensorMap &t)
{
    switch (t.data_type) {
    case TYPE_U32: return Ty::U32;
    case TYPE_S32: return Ty::S32;
    case TYPE_U64: return Ty::U64;
    case TYPE_S64: return Ty::S64;
    case TYPE_F16: return Ty::F16;
    case TYPE_BF16: return Ty::BF16;
    case TYPE_F32:
    case TYPE_F32_FTZ: return Ty::F32;
    case TYPE_F64: return Ty::F64;
    default: die("TMA reduction: data type %d has none", t.data_type);
    }
}

void write_rows(const Copy &k, const TensorMap &t)
{
    const uint32_t row = t.box[0] * t.elem_bytes;
    const Inside in = inside_of_row(t, k.c[0]);
    const char *src = k.data.data();
    Rows r(t, k.c);
    do {
        if (r.inside && in.to > in.from) {
            char *const p = r.global + in.from;
            const uint32_t n = in.to - in.from;
            if (k.op == Reduce::NONE)
                memcpy(p, src + in.from, n);
            else
                reduce_bytes(p, src + in.from, n, k.op, reduce_type(t));
            if (race_on) race_async_access(k.tag, p, n, true, k.op != Reduce::NONE);
        }
        src += row;
    } while (r.next());
}

void check_smem(Block *b, uint32_t addr, const TensorMap &t, const char *what)
{
    if (addr % 128 != 0) die("%s: shared address 0x%x is not 128-byte aligned", what, addr);
    smem_in(b, addr, box_bytes(t), what);
}

Copy new_copy(Copy::Kind kind, const void *map, const int *c, int rank)
{
    const TensorMap &t = map_of(map);
    if (t.rank != rank)
        die("TMA: a %d-dimensional instruction with a map of rank %d", rank, t.rank);
    if (reinterpret_cast<uintptr_t>(map) % 64 != 0)
        die("TMA: the map at %p is not 64-byte aligned", map);
    Copy k;
    k.kind = kind;
    k.map = map;
    k.rank = rank;
    k.pc = m.fiber->pc;
    for (int i = 0; i < rank; ++i) k.c[i] = c[i];
    k.bytes = box_bytes(t);
    return k;
}

void load_into(Copy k, Block *b)
{
    k.block = k.bar_block = b;
    check_smem(b, k.smem, map_of(k.map), "TMA load");
    async_load_issue(std::move(k));
}

} // namespace

uint32_t tma_bytes(const void *map)
{
    return box_bytes(map_of(map));
}

void tma_run(Copy &k)
{
    const TensorMap &t = map_of(k.map);
    if (k.kind == Copy::TMA_LOAD) {
        load_rows(k, t);
    } else {
        if (!k.was_read) tma_read_source(k);
        write_rows(k, t);
    }
}

// A store reads its source, which the thread may then reuse, before it writes.
void tma_read_source(Copy &k)
{
    const TensorMap &t = map_of(k.map);
    k.data.resize(k.bytes);
    const char *const window = k.block->window;
    for (uint32_t b = 0; b < k.bytes; b += 16) {
        const char *const p = window + swizzle_addr(k.smem + b, t.swizzle);
        memcpy(k.data.data() + b, p, 16);
        if (race_on) race_async_access(k.read_tag, p, 16, false);
    }
    k.was_read = true;
}

void tma_load(uint32_t dst, const void *map, uint32_t bar, const int *c, int rank,
              uint32_t cta_mask)
{
    NOTE_CALLER();
    Copy k = new_copy(Copy::TMA_LOAD, map, c, rank);
    k.smem = local_addr(dst);
    k.bar = local_addr(bar);
    if (cta_mask == 0) {
        load_into(std::move(k), block_of(dst));
        return;
    }
    Cluster *const cl = m.block->cluster;
    if (cta_mask >> cl->size != 0) {
        die("TMA multicast: mask 0x%x in a cluster of %u", cta_mask, cl->size);
    }
    for (unsigned r = 0; r < cl->size; ++r) {
        if (cta_mask >> r & 1) load_into(k, block_of((r + 1) << 24));
    }
}

void tma_store(const void *map, uint32_t src, const int *c, int rank, Reduce op)
{
    NOTE_CALLER();
    Copy k = new_copy(Copy::TMA_STORE, map, c, rank);
    k.block = m.block;
    k.smem = src;
    k.op = op;
    check_smem(m.block, src, map_of(map), "TMA store");
    async_store_issue(std::move(k));
}

} // namespace cudasim
