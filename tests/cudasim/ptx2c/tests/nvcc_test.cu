// nvcc_test.cu -- what nvcc makes of ordinary CUDA: device and host run the same functions.
//
// A function of two numbers is compiled for both sides from one text, so that the host compiler is
// the reference; what only the device has (warp functions, atomics, conversions of pairs) has its
// expected value beside it.
//
// SPDX-License-Identifier: MIT
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace
{

enum { N = 64 };
int failures;

#define EXPECT(what)                                                                               \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #what);                              \
            ++failures;                                                                            \
        }                                                                                          \
    } while (0)

// ---- the same text on both sides ----
#define BOTH __host__ __device__

BOTH float polynomial(float x, float y)
{
    return ((x * 0.25f + y) * x - 3.0f) * x + y / (1.0f + x * x);
}

BOTH float elementary(float x, float y)
{
    return expf(x * 0.1f) + logf(1.0f + y * y) + sqrtf(fabsf(x)) + tanhf(y) + erff(x * 0.3f);
}

BOTH float trigonometric(float x, float y)
{
    return sinf(x) + cosf(y * 2.0f) + sinf(x * 1e6f) * 0.5f; // the last one needs the slow path
}

BOTH float powers(float x, float y)
{
    return powf(fabsf(x) + 0.5f, y * 0.3f) + exp2f(y * 0.2f) + log2f(fabsf(x) + 1.0f) + cbrtf(x) +
           log1pf(fabsf(y)) + expm1f(x * 0.01f) + fmodf(x, 3.0f) + hypotf(x, y);
}

BOTH float rounding(float x, float y)
{
    return floorf(x) + ceilf(y) * 10.0f + truncf(x * 3.0f) + rintf(y * 5.0f) +
           static_cast<float>(static_cast<int>(x)) + static_cast<float>(lrintf(y));
}

BOTH float choices(float x, float y)
{
    const float m = fmaxf(fminf(x, y), -1.0f);
    return x > y && m < 0.5f || x == 1.0f ? m : copysignf(y, x);
}

BOTH double doubles(double x, double y)
{
    return exp(x * 0.1) + log(1 + y * y) + sqrt(x * x + y * y) + sin(x) / (2 + cos(y)) +
           fma(x, y, 1.5);
}

BOTH int32_t integers32(int32_t a, int32_t b)
{
    const uint32_t u = static_cast<uint32_t>(a), v = static_cast<uint32_t>(b) | 1;
    return a / (b | 1) + a % (b | 1) + static_cast<int32_t>(u / v ^ u % v) + (a >> 3) + (a << 5) +
           static_cast<int32_t>(u >> 7) + (a < b ? a : b) + abs(a / 2) + (~a & b);
}

BOTH int64_t integers64(int64_t a, int64_t b)
{
    const uint64_t u = static_cast<uint64_t>(a), v = static_cast<uint64_t>(b) | 1;
    return a / (b | 1) + a % (b | 1) + static_cast<int64_t>(u / v ^ u % v) + (a >> 33) + a * b +
           static_cast<int64_t>(u >> 40) + (a > b ? a : b);
}

BOTH int32_t small_integers(int32_t a, int32_t b)
{
    const int8_t c = static_cast<int8_t>(a);
    const uint8_t d = static_cast<uint8_t>(b);
    const int16_t e = static_cast<int16_t>(a * b);
    const uint16_t f = static_cast<uint16_t>(a + b);
    return c * d + e - f + static_cast<int8_t>(c >> 1) + static_cast<uint16_t>(f << 3) + (e < f);
}

BOTH int32_t chosen(int32_t a, int32_t b)
{
    switch (a & 15) {
    case 0: return b;
    case 1: return b * 3;
    case 2: return b - 7;
    case 3: return b ^ 0x55;
    case 4: return b / 3;
    case 5: return b << 2;
    case 6: return -b;
    case 7: return ~b;
    case 9: return b * b;
    case 11: return b + 1000;
    default: return 0;
    }
}

BOTH int32_t array_on_the_stack(int32_t a, int32_t b)
{
    int32_t x[24];
    for (int i = 0; i < 24; ++i) x[i] = a * i + b;
    int32_t s = 0;
    for (int i = 0; i < 100; ++i) s += x[(i * 7 + (b & 7)) % 24] ^ i;
    return s;
}

// Philox 4x32-10, the generator of the dropout masks.
BOTH int32_t philox(int32_t a, int32_t b)
{
    uint32_t c[4] = {static_cast<uint32_t>(a), static_cast<uint32_t>(b), 1, 2}, k[2] = {7, 9};
    for (int r = 0; r < 10; ++r) {
        const uint64_t p = static_cast<uint64_t>(0xd2511f53u) * c[0];
        const uint64_t q = static_cast<uint64_t>(0xcd9e8d57u) * c[2];
        const uint32_t n[4] = {
            static_cast<uint32_t>(q >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(q),
            static_cast<uint32_t>(p >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p)};
        for (int i = 0; i < 4; ++i) c[i] = n[i];
        k[0] += 0x9e3779b9u;
        k[1] += 0xbb67ae85u;
    }
    return static_cast<int32_t>(c[0] ^ c[1] ^ c[2] ^ c[3]);
}

__device__ __noinline__ float called(float x, int depth)
{
    return depth == 0 ? x : called(x * 0.5f + 1.0f, depth - 1);
}

template <class T, T (*F)(T, T)> __global__ void apply(T *out, const T *x, const T *y)
{
    out[threadIdx.x] = F(x[threadIdx.x], y[threadIdx.x]);
}

template <class T> T *to_device(const T *h, int n)
{
    T *d = nullptr;
    cudaMalloc(&d, n * sizeof(T));
    cudaMemcpy(d, h, n * sizeof(T), cudaMemcpyHostToDevice);
    return d;
}

template <class T> void to_host(T *h, T *d, int n)
{
    cudaMemcpy(h, d, n * sizeof(T), cudaMemcpyDeviceToHost);
    cudaFree(d);
}

uint32_t next_random()
{
    static uint32_t s = 1;
    s = s * 1664525u + 1013904223u;
    return s;
}

template <class T> T some(int i);
template <> float some<float>(int i)
{
    return i < 4 ? static_cast<float>(i)
                 : (static_cast<float>(next_random() >> 8) / (1 << 23) - 1.0f) * 8;
}
template <> double some<double>(int i)
{
    return static_cast<double>(some<float>(i));
}
template <> int32_t some<int32_t>(int i)
{
    return i < 4 ? i - 2 : static_cast<int32_t>(next_random()) >> (i % 20);
}
template <> int64_t some<int64_t>(int i)
{
    return i < 4 ? i - 2
                 : static_cast<int64_t>((static_cast<uint64_t>(next_random()) << 32) |
                                        next_random()) >>
                       (i % 50);
}

template <class T, T (*F)(T, T)> void compare(const char *name, double tolerance)
{
    T x[N], y[N], got[N];
    for (int i = 0; i < N; ++i) x[i] = some<T>(i), y[i] = some<T>(N - i);
    T *const dx = to_device(x, N), *const dy = to_device(y, N), *const out = to_device(got, N);
    apply<T, F><<<1, N>>>(out, dx, dy);
    to_host(got, out, N);
    cudaFree(dx);
    cudaFree(dy);
    int bad = 0;
    for (int i = 0; i < N; ++i) {
        const T want = F(x[i], y[i]);
        const double d = std::fabs(static_cast<double>(got[i]) - static_cast<double>(want));
        if (tolerance == 0 ? got[i] == want
                           : d <= tolerance * (1 + std::fabs(static_cast<double>(want)))) {
            continue;
        }
        if (++bad == 1) {
            printf("%s(%.9g, %.9g) is %.9g on the device, %.9g on the host\n", name,
                   static_cast<double>(x[i]), static_cast<double>(y[i]),
                   static_cast<double>(got[i]), static_cast<double>(want));
        }
    }
    failures += bad != 0;
}

// ---- conversions ----
__global__ void halves(float *out, const float *in)
{
    const int i = threadIdx.x;
    const float x = in[i], y = in[(i + 1) % N];
    const __nv_bfloat162 b = __floats2bfloat162_rn(x, y);
    const __nv_bfloat162 c = __hfma2(b, b, __hmul2(b, __float2bfloat162_rn(0.5f)));
    const __half2 h = __floats2half2_rn(x, y);
    const __half2 g = __hmax2(__hadd2(h, h), __hneg2(h));
    const __half e = hexp(__float2half(x * 0.1f));
    out[4 * i] = __low2float(c) + __high2float(c);
    out[4 * i + 1] = __low2float(g) - __high2float(g);
    out[4 * i + 2] = __half2float(e) + __bfloat162float(__hmax(b.x, b.y));
    out[4 * i + 3] = __half2float(__float2half_rz(x)) + __bfloat162float(__float2bfloat16_rz(y)) +
                     static_cast<float>(__half2int_rz(h.x)) + __half2float(__short2half_rn(i));
}

__global__ void eights(uint32_t *out, const float *in)
{
    const int i = threadIdx.x;
    const float4 v = make_float4(in[i], in[i] * 100, -in[i], in[i] * 1e-3f);
    __nv_fp8x4_e4m3 a(v);
    __nv_fp8x4_e5m2 b(v);
    const float4 f = static_cast<float4>(a), g = static_cast<float4>(b);
    out[3 * i] = a.__x;
    out[3 * i + 1] = b.__x;
    out[3 * i + 2] = __float_as_uint(f.x + f.y + f.z + f.w + g.x + g.y + g.z + g.w);
}

void check_conversions()
{
    float x[N], got[4 * N];
    for (int i = 0; i < N; ++i) x[i] = some<float>(i);
    float *const dx = to_device(x, N), *const out = to_device(got, 4 * N);
    halves<<<1, N>>>(out, dx);
    to_host(got, out, 4 * N);
    for (int i = 0; i < N; ++i) {
        const float y = x[(i + 1) % N];
        const auto bf = [](float v) { return __bfloat162float(__float2bfloat16_rn(v)); };
        const auto h = [](float v) { return __half2float(__float2half_rn(v)); };
        const auto poly = [&](float v) { return bf(bf(v) * bf(v) + bf(bf(v) * 0.5f)); };
        EXPECT(got[4 * i] == poly(x[i]) + poly(y));
        const auto top = [&](float v) { return std::fmax(h(2 * h(v)), -h(v)); };
        EXPECT(got[4 * i + 1] == top(x[i]) - top(y));
        EXPECT(std::fabs(got[4 * i + 2] - (std::exp(h(x[i] * 0.1f)) + std::fmax(bf(x[i]), bf(y)))) <
               5e-3f);
        const float cut =
            __half2float(__float2half_rz(x[i])) + __bfloat162float(__float2bfloat16_rz(y));
        EXPECT(got[4 * i + 3] == cut + std::trunc(h(x[i])) + static_cast<float>(i));
    }
    uint32_t e[3 * N];
    uint32_t *const de = to_device(e, 3 * N);
    eights<<<1, N>>>(de, dx);
    to_host(e, de, 3 * N);
    cudaFree(dx);
    for (int i = 0; i < N; ++i) {
        const float4 v = make_float4(x[i], x[i] * 100, -x[i], x[i] * 1e-3f);
        EXPECT(e[3 * i] == __nv_fp8x4_e4m3(v).__x);
        EXPECT(e[3 * i + 1] == __nv_fp8x4_e5m2(v).__x);
    }
}

// ---- what only the device has ----
__global__ void bits(uint32_t *out, const uint32_t *in)
{
    const int i = threadIdx.x;
    const uint32_t a = in[i], b = in[(i + 1) % N];
    out[8 * i] = __popc(a) + __clz(a) * 100 + __ffs(a) * 10000;
    out[8 * i + 1] = __brev(a) ^ __byte_perm(a, b, 0x3715);
    out[8 * i + 2] = __funnelshift_l(a, b, i) ^ __funnelshift_rc(a, b, i);
    out[8 * i + 3] =
        __umulhi(a, b) ^ static_cast<uint32_t>(__mulhi(static_cast<int>(a), static_cast<int>(b)));
    out[8 * i + 4] = static_cast<uint32_t>(__dp4a(static_cast<int>(a), static_cast<int>(b), 5));
    out[8 * i + 5] = __vaddus4(a, b) ^ __vmaxs2(a, b);
    out[8 * i + 6] =
        __usad(a, b, 3) ^ static_cast<uint32_t>(__mul24(static_cast<int>(a), static_cast<int>(b)));
    out[8 * i + 7] = __float_as_uint(
        __fadd_rz(__uint_as_float(a & 0x7fffff | 0x3f800000), __fdiv_rd(1.0f, 3.0f + i)));
}

void check_bits()
{
    uint32_t x[N], got[8 * N];
    for (uint32_t &v : x) v = next_random();
    uint32_t *const dx = to_device(x, N), *const out = to_device(got, 8 * N);
    bits<<<1, N>>>(out, dx);
    to_host(got, out, 8 * N);
    cudaFree(dx);
    for (int i = 0; i < N; ++i) {
        const uint32_t a = x[i], b = x[(i + 1) % N];
        EXPECT(got[8 * i] ==
               static_cast<uint32_t>(__builtin_popcount(a) + __builtin_clz(a | 1) * 100 +
                                     __builtin_ffs(static_cast<int>(a)) * 10000));
        const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
        const uint32_t s = i & 31, clamped = i < 32 ? i : 32;
        EXPECT(got[8 * i + 2] ==
               (static_cast<uint32_t>(both << s >> 32) ^ static_cast<uint32_t>(both >> clamped)));
        const int64_t wide =
            static_cast<int64_t>(static_cast<int32_t>(a)) * static_cast<int32_t>(b);
        EXPECT(got[8 * i + 3] == (static_cast<uint32_t>(static_cast<uint64_t>(a) * b >> 32) ^
                                  static_cast<uint32_t>(wide >> 32)));
        int32_t dot = 5;
        for (int k = 0; k < 4; ++k) {
            dot += static_cast<int8_t>(a >> 8 * k) * static_cast<int8_t>(b >> 8 * k);
        }
        EXPECT(got[8 * i + 4] == static_cast<uint32_t>(dot));
    }
}

__global__ void warp_functions(uint32_t *out)
{
    const unsigned i = threadIdx.x, lane = i % 32;
    uint32_t v = 0;
    v += __shfl_sync(~0u, i, 3) + __shfl_up_sync(~0u, i, 2) + __shfl_down_sync(~0u, i, 5, 8);
    v += __shfl_xor_sync(~0u, i, 16) + __popc(__ballot_sync(~0u, i % 3 == 0));
    v += __any_sync(~0u, i == 40) + 2 * __all_sync(~0u, i < 100);
    v += __reduce_add_sync(~0u, lane) + __reduce_max_sync(~0u, lane) +
         __reduce_min_sync(~0u, static_cast<int>(lane) - 4);
    v += __popc(__match_any_sync(~0u, lane / 4));
    int same = 0;
    v += __match_all_sync(~0u, 7, &same) == ~0u;
    v += static_cast<uint32_t>(same);
    const double d = __shfl_xor_sync(~0u, static_cast<double>(lane), 1);
    v += static_cast<uint32_t>(d);
    v += __syncthreads_count(i & 1) + __syncthreads_or(i == 5) + __syncthreads_and(i < 3);
    out[i] = v;
}

void check_warp()
{
    uint32_t got[N];
    uint32_t *const out = to_device(got, N);
    warp_functions<<<1, N>>>(out);
    to_host(got, out, N);
    for (uint32_t i = 0; i < N; ++i) {
        const uint32_t lane = i % 32, base = i - lane;
        uint32_t v = base + 3 + (lane < 2 ? i : i - 2) + (lane % 8 + 5 < 8 ? i + 5 : i) + (i ^ 16);
        for (uint32_t j = base; j < base + 32; ++j) v += j % 3 == 0;
        v += (base == 32) + 2 + 496 + 31 - 4 + 4 + 1 + 1 + (lane ^ 1) + 32 + 1 + 0;
        EXPECT(got[i] == v);
    }
}

__device__ unsigned long long counter64;

__global__ void atomics(float *f, int *n, double *d, __nv_bfloat162 *b, __half2 *h)
{
    const int i = threadIdx.x;
    atomicAdd(f, 0.5f);
    atomicAdd(d, 0.25);
    atomicAdd(b, __float2bfloat162_rn(1.0f));
    atomicAdd(h, __floats2half2_rn(1.0f, 2.0f));
    atomicAdd(&n[0], i);
    atomicMax(&n[1], i * 3);
    atomicMin(&n[2], -i);
    atomicOr(&n[3], 1 << (i % 31));
    atomicXor(&n[4], i);
    atomicExch(&n[5], 77);
    atomicInc(reinterpret_cast<unsigned *>(&n[6]), 9u);
    atomicAdd(&counter64, 1ull << 33);
    int old = n[7], seen = 0; // adds by compare and swap
    do {
        seen = old;
        old = atomicCAS(&n[7], seen, seen + i);
    } while (old != seen);
    __threadfence();
    volatile int *const p = &n[8];
    if (i == 0) *p = 5;
    __syncthreads();
    if (*p != 5) n[9] = 1;
}

void check_atomics()
{
    float f = 0;
    double d = 0;
    int n[10] = {};
    uint32_t zero = 0;
    float *const df = to_device(&f, 1);
    double *const dd = to_device(&d, 1);
    int *const dn = to_device(n, 10);
    uint32_t *const db = to_device(&zero, 1), *const dh = to_device(&zero, 1);
    atomics<<<1, N>>>(df, dn, dd, reinterpret_cast<__nv_bfloat162 *>(db),
                      reinterpret_cast<__half2 *>(dh));
    to_host(&f, df, 1);
    to_host(&d, dd, 1);
    to_host(n, dn, 10);
    uint32_t b = 0, h = 0;
    to_host(&b, db, 1);
    to_host(&h, dh, 1);
    unsigned long long wide = 0;
    cudaMemcpyFromSymbol(&wide, counter64, sizeof wide);
    EXPECT(f == 32.0f && d == 16.0 && b == 0x42804280u && h == 0x58005400u);
    EXPECT(n[0] == 2016 && n[1] == 189 && n[2] == -63 && n[3] == 0x7fffffff && n[4] == 0);
    EXPECT(n[5] == 77 && n[6] == 4 && n[7] == 2016 && n[9] == 0 && wide == 1ull << 39);
}

__global__ void memory_shapes(float4 *out, const float4 *in, const __nv_bfloat16 *half,
                              int8_t *bytes)
{
    __shared__ float tile[N][5];
    const int i = threadIdx.x;
    const float4 a = in[i], b = __ldg(&in[N - 1 - i]), c = __ldcs(&in[i]);
    tile[i][i % 5] = a.x;
    __syncthreads();
    float4 r =
        make_float4(a.x + b.y, a.y * c.z, tile[(i + 1) % N][(i + 1) % N % 5], called(a.w, i % 4));
    r.x += __bfloat162float(half[2 * i + 1]);
    __stcg(&out[i], r);
    bytes[i] = static_cast<int8_t>(bytes[i] * 2 - 1);
}

void check_memory()
{
    float4 in[N], got[N];
    __nv_bfloat16 half[2 * N];
    int8_t bytes[N];
    for (int i = 0; i < N; ++i) {
        in[i] = make_float4(some<float>(9), some<float>(9), some<float>(9), some<float>(9));
        half[2 * i] = __float2bfloat16(0.0f);
        half[2 * i + 1] = __float2bfloat16(static_cast<float>(i));
        bytes[i] = static_cast<int8_t>(i - 30);
    }
    float4 *const di = to_device(in, N), *const out = to_device(got, N);
    __nv_bfloat16 *const dh = to_device(half, 2 * N);
    int8_t *const db = to_device(bytes, N);
    memory_shapes<<<1, N>>>(out, di, dh, db);
    to_host(got, out, N);
    to_host(bytes, db, N);
    cudaFree(di);
    cudaFree(dh);
    for (int i = 0; i < N; ++i) {
        float w = in[i].w;
        for (int k = 0; k < i % 4; ++k) w = w * 0.5f + 1.0f;
        EXPECT(got[i].x == in[i].x + in[N - 1 - i].y + static_cast<float>(i));
        EXPECT(got[i].y == in[i].y * in[i].z && got[i].z == in[(i + 1) % N].x && got[i].w == w);
        EXPECT(bytes[i] == static_cast<int8_t>((i - 30) * 2 - 1));
    }
}

} // namespace

int main()
{
    compare<float, polynomial>("polynomial", 3e-7);
    compare<float, elementary>("elementary", 1e-6);
    compare<float, trigonometric>("trigonometric", 2e-6);
    compare<float, powers>("powers", 2e-6);
    compare<float, rounding>("rounding", 0);
    compare<float, choices>("choices", 0);
    compare<double, doubles>("doubles", 1e-14);
    compare<int32_t, integers32>("integers32", 0);
    compare<int64_t, integers64>("integers64", 0);
    compare<int32_t, small_integers>("small_integers", 0);
    compare<int32_t, chosen>("chosen", 0);
    compare<int32_t, array_on_the_stack>("array_on_the_stack", 0);
    compare<int32_t, philox>("philox", 0);
    check_conversions();
    check_bits();
    check_warp();
    check_atomics();
    check_memory();
    printf("%s\n", failures == 0 ? "ok" : "FAILED");
    return failures != 0;
}
