// atomics.cpp -- atom, red, and loads and stores that order.
//
// One OS thread runs every CUDA thread and switches only inside a call, so a plain
// read-modify-write is atomic; what is left is the arithmetic and telling the race checker.
// A loop that spins on such an operation never switches by itself: every 16th in a row yields.
//
// SPDX-License-Identifier: MIT
#include <cmath>
#include <cstring>
#include "tests/cudasim/src/machine.h"
#include "tests/cudasim/src/numbers.h"
#include "tests/cudasim/src/reduce.h"

namespace cudasim
{

namespace
{

enum { SPINS_PER_YIELD = 16 };

template <class T> T as(uint64_t bits)
{
    T t;
    memcpy(&t, &bits, sizeof t);
    return t;
}

template <class T> uint64_t bits_of(T t)
{
    uint64_t u = 0;
    memcpy(&u, &t, sizeof t);
    return u;
}

template <class T> uint64_t integer_op(Atom op, uint64_t old_bits, uint64_t v_bits)
{
    const T old = as<T>(old_bits), v = as<T>(v_bits);
    switch (op) {
    case Atom::ADD:
        return bits_of(static_cast<T>(static_cast<uint64_t>(old) + static_cast<uint64_t>(v)));
    case Atom::MIN: return bits_of(v < old ? v : old);
    case Atom::MAX: return bits_of(v > old ? v : old);
    case Atom::INC: return bits_of(old >= v ? static_cast<T>(0) : static_cast<T>(old + 1));
    case Atom::DEC: return bits_of(old == 0 || old > v ? v : static_cast<T>(old - 1));
    default: die("atomic: operation %d has no meaning for this type", static_cast<int>(op));
    }
}

template <class T> T float_op(Atom op, T a, T b)
{
    switch (op) {
    case Atom::ADD: return a + b;
    case Atom::MIN: return std::fmin(a, b);
    case Atom::MAX: return std::fmax(a, b);
    default: die("atomic: operation %d has no meaning for a float", static_cast<int>(op));
    }
}

uint16_t half_op(Atom op, bool bf16, uint16_t a, uint16_t b)
{
    if (bf16) return bf16_of_float(float_op(op, float_of_bf16(a), float_of_bf16(b)));
    return f16_of_float(float_op(op, float_of_f16(a), float_of_f16(b)));
}

uint64_t arithmetic(Atom op, Ty type, uint64_t old, uint64_t v)
{
    const auto lo = [](uint64_t x) { return static_cast<uint16_t>(x); };
    const auto hi = [](uint64_t x) { return static_cast<uint16_t>(x >> 16); };
    switch (type) {
    case Ty::B32:
    case Ty::U32: return integer_op<uint32_t>(op, old, v);
    case Ty::S32: return integer_op<int32_t>(op, old, v);
    case Ty::B64:
    case Ty::U64: return integer_op<uint64_t>(op, old, v);
    case Ty::S64: return integer_op<int64_t>(op, old, v);
    case Ty::B16: return integer_op<uint16_t>(op, old, v);
    case Ty::F32: return bits_of(float_op(op, as<float>(old), as<float>(v)));
    case Ty::F64: return bits_of(float_op(op, as<double>(old), as<double>(v)));
    case Ty::F16: return half_op(op, false, lo(old), lo(v));
    case Ty::BF16: return half_op(op, true, lo(old), lo(v));
    case Ty::F16X2:
    case Ty::BF16X2: {
        const bool bf = type == Ty::BF16X2;
        return half_op(op, bf, lo(old), lo(v)) |
               static_cast<uint64_t>(half_op(op, bf, hi(old), hi(v))) << 16;
    }
    case Ty::B128: break;
    }
    die("atomic: 128-bit operands are not implemented");
}

void count_spin()
{
    if (++m.fiber->spins % SPINS_PER_YIELD == 0) yield_here();
}

} // namespace

int type_bytes(Ty type)
{
    switch (type) {
    case Ty::F16:
    case Ty::BF16:
    case Ty::B16: return 2;
    case Ty::B64:
    case Ty::U64:
    case Ty::S64:
    case Ty::F64: return 8;
    case Ty::B128: return 16;
    default: return 4;
    }
}

uint64_t atomic_result(Atom op, Ty type, uint64_t old, uint64_t v, uint64_t cmp)
{
    switch (op) {
    case Atom::EXCH: return v;
    case Atom::CAS: return old == cmp ? v : old;
    case Atom::AND: return old & v;
    case Atom::OR: return old | v;
    case Atom::XOR: return old ^ v;
    default: return arithmetic(op, type, old, v);
    }
}

void reduce_bytes(char *p, const char *src, size_t n, Reduce op, Ty type)
{
    static const Atom as_atom[] = {Atom::EXCH, Atom::ADD, Atom::MIN, Atom::MAX, Atom::INC,
                                   Atom::DEC,  Atom::AND, Atom::OR,  Atom::XOR};
    const auto size = static_cast<size_t>(type_bytes(type));
    for (size_t i = 0; i < n; i += size) {
        uint64_t old = 0, v = 0;
        memcpy(&old, p + i, size);
        memcpy(&v, src + i, size);
        const uint64_t r = atomic_result(as_atom[static_cast<int>(op)], type, old, v, 0);
        memcpy(p + i, &r, size);
    }
}

uint64_t atomic(void *p, Atom op, Ty type, uint64_t v, uint64_t cmp, Sem sem, Scope scope)
{
    NOTE_CALLER();
    const auto size = static_cast<size_t>(type_bytes(type));
    if (size > 8) die("atomic: 128-bit operands are not implemented");
    if (reinterpret_cast<uintptr_t>(p) % size != 0) misaligned(p, static_cast<int>(size), true);
    if (chance(8)) yield_here();
    uint64_t old = 0;
    memcpy(&old, p, size);
    const uint64_t mask = size == 8 ? ~0ull : (1ull << 8 * size) - 1;
    const uint64_t now = atomic_result(op, type, old, v & mask, cmp & mask);
    const bool writes = op != Atom::CAS || old == (cmp & mask);
    if (race_on) race_atomic(m.fiber, p, size, true, writes, sem, scope);
    if (writes) memcpy(p, &now, size);
    if (now != old) m.idle_yields = 0;
    if (op == Atom::CAS || now == old) count_spin();
    return old;
}

uint64_t strong_load(const void *p, int bytes, Sem sem, Scope scope)
{
    NOTE_CALLER();
    const auto size = static_cast<size_t>(bytes);
    if (reinterpret_cast<uintptr_t>(p) % size != 0) misaligned(p, bytes, false);
    count_spin();
    uint64_t v = 0;
    memcpy(&v, p, size);
    if (race_on) race_atomic(m.fiber, p, size, true, false, sem, scope);
    return v;
}

void strong_store(void *p, int bytes, uint64_t v, Sem sem, Scope scope)
{
    NOTE_CALLER();
    const auto size = static_cast<size_t>(bytes);
    if (reinterpret_cast<uintptr_t>(p) % size != 0) misaligned(p, bytes, true);
    if (race_on) race_atomic(m.fiber, p, size, false, true, sem, scope);
    memcpy(p, &v, size);
    m.idle_yields = 0;
    m.fiber->spins = 0;
}

void fence(Scope scope)
{
    NOTE_CALLER();
    if (race_on) race_fence(m.fiber, scope);
    if (chance(8)) yield_here();
}

void fence_proxy_async(bool global)
{
    NOTE_CALLER();
    if (race_on) race_proxy_fence(m.fiber, global);
}

void fence_mbarrier_init()
{
    NOTE_CALLER();
    if (race_on) race_mbar_init_fence(m.fiber);
}

} // namespace cudasim
