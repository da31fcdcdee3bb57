// vmath.h -- tanh and GELU of a vector of floats, at most 4 ulp from the exact value.
//
// No libm, no fast-math flags, no branches, no tables. NaN stays NaN, overflow is infinity, and
// underflow goes through the subnormals to zero. Nothing here needs a fused multiply-add, nothing
// breaks when the compiler forms one. Polynomials are minimax, fitted for this file.
//
//   e^x    x = n ln2 + r, |r| <= ln2/2;  e^x = 2^n P(r), P of degree 7
//          (softmax takes vec_exp2 of vec_simd.h: scores that are sums have no last bits to keep)
//   GELU   far to the left it is x times a tiny exponential, and an exponent z of 100 that is off
//          by half an ulp would cost 50 ulp in 2^z. So z is an exact head and a small tail:
//          vm_head() cuts a float to 12 significant bits, and products of two such are exact.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/vec_simd.h"

#define VM_LOG2E  0x1.715476p+0f
#define VM_LN2    0x1.62e430p-1f
#define VM_LN2_HI 0x1.63p-1f // 9 bits: times an integer exponent it is exact
#define VM_LN2_LO -0x1.bd0106p-13f
#define VM_MAGIC  0x1.8p23f // adding it rounds to an integer, in the low bits of the sum

// The first 12 significant bits, towards zero.
LT_INLINE VecF vm_head(VecF x)
{
    return (VecF)((VecI)x & (int32_t)0xfffff000);
}

// e^r for |r| <= ln2/2.
LT_INLINE VecF vm_exp_poly(VecF r)
{
    VecF p = vec_set(0x1.9f0816p-13f);
    p = p * r + 0x1.6d8db2p-10f;
    p = p * r + 0x1.111272p-7f;
    p = p * r + 0x1.55548ep-5f;
    p = p * r + 0x1.555554p-3f;
    p = p * r + 0.5f;
    return p * (r * r) + r + 1.0f;
}
// 2^r for |r| <= 1/2.
LT_INLINE VecF vm_exp2_poly(VecF r)
{
    VecF p = vec_set(0x1.41fb2cp-13f);
    p = p * r + 0x1.5f3f32p-10f;
    p = p * r + 0x1.3b2d50p-7f;
    p = p * r + 0x1.c6aee6p-5f;
    p = p * r + 0x1.ebfbdcp-3f;
    p = p * r + 0x1.62e430p-1f;
    return p * r + 1.0f;
}
// 2^n for integers n in [-126, 127]; n = -127 gives 0.
LT_INLINE VecF vm_pow2(VecI n)
{
    return (VecF)(((VecU)n + 127u) << 23);
}

// x * 2^n, rounded once: in two steps, so that it reaches subnormals and infinity. |n| <= 252.
LT_INLINE VecF vm_scale(VecF x, VecI n)
{
    const VecI half = n >> 1;
    return x * vm_pow2(half) * vm_pow2(n - half);
}

// tanh: odd polynomial below 0.625, 1 - 2 / (e^2x + 1) above.
LT_INLINE VecF vm_tanh(VecF x)
{
    const VecF s = x * x;
    VecF p = vec_set(0x1.124ffcp-9f);
    p = p * s - 0x1.0a2d76p-7f;
    p = p * s + 0x1.633042p-6f;
    p = p * s - 0x1.b9e65ep-5f;
    p = p * s + 0x1.11103ep-3f;
    p = p * s - 0x1.555554p-2f;
    const VecF a = vec_abs(x), near0 = x + x * (s * p);
    const VecF y = vec_min(vec_set(20.0f), a + a);
    const VecF t = y * VM_LOG2E + VM_MAGIC, n = t - VM_MAGIC;
    const VecF e = vm_exp_poly(y - n * VM_LN2_HI - n * VM_LN2_LO) * vm_pow2((VecI)t - 0x4b400000);
    const VecF b = 1.0f - 2.0f / (e + 1.0f);
    const VecF r = (VecF)((VecI)b | ((VecI)x & (int32_t)0x80000000));
    return vec_select(a < 0.625f, near0, r);
}

// ---- GELU, tanh form: x (1 + tanh u) / 2 = x / (1 + 2^z),  z = x (K1 + K3 x^2) ----
#define VM_GT_K1H -0x1.26a000p+1f // -2 sqrt(2/pi) log2(e), head and tail
#define VM_GT_K1L -0x1.d8437ap-12f
#define VM_GT_K3H -0x1.a5ap-4f // 0.044715 K1; the head has 12 bits
#define VM_GT_K3L -0x1.f3dd5cp-18f

LT_INLINE VecF vm_gelu_tanh(VecF x)
{
    const VecF num = vec_max(vec_set(-11.5f), x); // below, the result is -0
    const VecF a = vec_min(vec_set(8.0f), num);   // above, it is x
    const VecF ah = vm_head(a), al = a - ah;
    const VecF s = a * a, sh = vm_head(s);
    const VecF sl = (ah * ah - sh) + al * (a + ah);
    const VecF th = vm_head(s * VM_GT_K3H + VM_GT_K1H);
    const VecF tl =
        (sh * VM_GT_K3H - (th - VM_GT_K1H)) + (sl * VM_GT_K3H + (s * VM_GT_K3L + VM_GT_K1L));
    const VecF zh = ah * th, zl = al * th + a * tl;
    const VecF t = (zh + zl) + VM_MAGIC, n = t - VM_MAGIC;
    const VecF e = vm_exp2_poly((zh - n) + zl);
    // 2^n is split at 126, where 1 + 2^n is 2^n: the rest of the exponent is applied at the end.
    const VecF n0 = vec_min(vec_set(126.0f), n);
    const VecI i0 = (VecI)(n0 + VM_MAGIC) - 0x4b400000, i1 = (VecI)t - 0x4b400000 - i0;
    return num / (1.0f + e * vm_pow2(i0)) * vm_pow2(-i1);
}
// Its derivative; the error is below 4 ulp of max(1, |result|).
LT_INLINE VecF vm_dgelu_tanh(VecF x)
{
    const VecF a = vec_min(vec_set(8.0f), vec_max(vec_set(-9.9f), x)), s = a * a;
    const VecF z = a * ((VM_GT_K1H + VM_GT_K1L) + (VM_GT_K3H + VM_GT_K3L) * s);
    const VecF t = z + VM_MAGIC, n = t - VM_MAGIC;
    const VecF e = vm_exp2_poly(z - n) * vm_pow2((VecI)t - 0x4b400000);
    const VecF sigma = 1.0f / (1.0f + e);
    // 2 du/dx = 2 sqrt(2/pi) (1 + 3 * 0.044715 x^2)
    return sigma + a * (e * sigma * sigma) * (0x1.988454p+0f + 0x1.b6676cp-3f * s);
}

// ---- GELU, erf form: x Phi(x) ----
// With a = |x|, in two pieces that meet at 0.9:
//     near  Phi(x)    = 1/2 + x Q(x^2)
//     tail  a Phi(-a) = G(t) e^(-a^2/2),  t = 1 / (1 + a/2)
// G is nearly constant, so t's rounding hardly matters; a^2 is an exact head and a small tail.
typedef struct VmNormal {
    VecF near; // Phi(x) - 1/2
    VecF g, e; // a Phi(-a) = g * e * 2^n,  e^(-a^2/2) = e * 2^n
    VecI n;
} VmNormal;

LT_INLINE VmNormal vm_normal(VecF x, VecF a) // a = |x| <= 15
{
    const VecF s = x * x;
    VecF q = vec_set(-0x1.f4cd70p-18f);
    q = q * s + 0x1.d9d5c8p-14f;
    q = q * s - 0x1.36db78p-10f;
    q = q * s + 0x1.46cc80p-7f;
    q = q * s - 0x1.105828p-4f;
    q = q * s + 0x1.988454p-2f;

    const VecF t = 1.0f / (1.0f + 0.5f * a);
    VecF g = vec_set(0x1.3f19f0p-2f);
    g = g * t - 0x1.2ed204p+0f;
    g = g * t + 0x1.ac2d74p+0f;
    g = g * t - 0x1.bf6cb4p-1f;
    g = g * t + 0x1.ddf306p-7f;
    g = g * t - 0x1.f73ca6p-3f;
    g = g * t - 0x1.8219eep-4f;
    g = g * t - 0x1.7a0994p-12f;
    g = g * t + 0x1.9886f8p-2f;

    const VecF ah = vm_head(a), al = a - ah;
    const VecF zh = -0.5f * (ah * ah), zl = -0.5f * (al * (a + ah));
    const VecF k = (zh + zl) * VM_LOG2E + VM_MAGIC, n = k - VM_MAGIC;
    const VecF e = vm_exp_poly(((zh - n * VM_LN2_HI) - n * VM_LN2_LO) + zl);
    return (VmNormal){.near = x * q, .g = g, .e = e, .n = (VecI)k - 0x4b400000};
}
LT_INLINE VecF vm_gelu_erf(VecF x)
{
    const VecF a = vec_min(vec_set(14.6f), vec_abs(x));
    const VmNormal q = vm_normal(x, a);
    const VecF tail = vec_max(vec_set(0.0f), x) - vm_scale(q.g * q.e, q.n);
    return vec_select(a < 0.9f, x * (0.5f + q.near), tail);
}
// Its derivative Phi(x) + x phi(x); the error is below 4 ulp of max(1, |result|).
LT_INLINE VecF vm_dgelu_erf(VecF x)
{
    const VecF c = vec_min(vec_set(14.6f), vec_max(vec_set(-14.6f), x)), a = vec_abs(c);
    const VmNormal q = vm_normal(c, a);
    const VecF e = vm_scale(q.e, q.n), up = q.g * e / a;
    const VecF tail = vec_select(c > 0.0f, 1.0f - up, up);
    return vec_select(a < 0.9f, 0.5f + q.near, tail) + c * (e * 0x1.988454p-2f);
}
