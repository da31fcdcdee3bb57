// kernels_test.cpp -- host references against the k_* launchers of the kernels here.
//
// The same file links with nvcc-built objects and libcudart.
//
// SPDX-License-Identifier: MIT
#include <cuda_runtime_api.h>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
extern "C" int k_layernorm_fwd(void *, const void *, const void *, const void *, float *, float *,
                               int, int, float, cudaStream_t);
extern "C" int k_gemm_mma(float *, const void *, const void *, int, int, int, cudaStream_t);
extern "C" int k_gemm_wgmma(void *, const void *, const void *, int, int, int, int, cudaStream_t);
extern "C" int k_wgmma_modes(int, int, int, int, float *, const void *, const void *, cudaStream_t);
typedef uint16_t bf;
static float f(bf h)
{
    uint32_t u = (uint32_t)h << 16;
    float x;
    memcpy(&x, &u, 4);
    return x;
}
static bf tobf(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return (u + 0x7fff + ((u >> 16) & 1)) >> 16;
}
static uint32_t rs = 12345;
static float rnd()
{
    rs = rs * 1664525u + 1013904223u;
    return ((rs >> 8) / 8388608.0f) - 1.0f;
}
static std::vector<bf> rand_bf(size_t n)
{
    std::vector<bf> v(n);
    for (auto &x : v) x = tobf(rnd());
    return v;
}
template <class T> static T *dev(const std::vector<T> &h)
{
    void *p;
    cudaMalloc(&p, h.size() * sizeof(T));
    cudaMemcpy(p, h.data(), h.size() * sizeof(T), cudaMemcpyHostToDevice);
    return (T *)p;
}
template <class T> static T *devn(size_t n)
{
    void *p;
    cudaMalloc(&p, n * sizeof(T));
    return (T *)p;
}
template <class T> static std::vector<T> host(T *d, size_t n)
{
    std::vector<T> v(n);
    cudaDeviceSynchronize();
    cudaMemcpy(v.data(), d, n * sizeof(T), cudaMemcpyDeviceToHost);
    return v;
}
static double now()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}
static int fails, passes;
static void report(const char *name, double err, double tol, double sec, double flop)
{
    bool ok = err <= tol;
    ok ? ++passes : ++fails;
    printf("%-34s max err %.3g (tol %.3g)  %.4f s  %.1f MFLOP/s  %s\n", name, err, tol, sec,
           flop / sec / 1e6, ok ? "ok" : "FAIL");
}
static void t_layernorm(int R, int C)
{
    auto x = rand_bf((size_t)R * C), g = rand_bf(C), b = rand_bf(C);
    bf *dx = dev(x), *dg = dev(g), *db = dev(b), *d_o = devn<bf>((size_t)R * C);
    float *dm = devn<float>(R), *dr = devn<float>(R);
    double t = now();
    int e = k_layernorm_fwd(d_o, dx, dg, db, dm, dr, R, C, 1e-5f, 0);
    auto o = host(d_o, (size_t)R * C);
    t = now() - t;
    double err = e;
    for (int r = 0; r < R; ++r) {
        double m = 0, v = 0;
        for (int c = 0; c < C; ++c) m += f(x[(size_t)r * C + c]);
        m /= C;
        for (int c = 0; c < C; ++c) {
            double d = f(x[(size_t)r * C + c]) - m;
            v += d * d;
        }
        double s = 1 / sqrt(v / C + 1e-5);
        for (int c = 0; c < C; ++c) {
            double y = (f(x[(size_t)r * C + c]) - m) * s * f(g[c]) + f(b[c]),
                   d = fabs(y - f(o[(size_t)r * C + c]));
            if (!(d <= err)) err = d;
        }
    }
    char n[64];
    snprintf(n, 64, "layernorm %dx%d", R, C);
    report(n, err, 0.02, t, 9.0 * R * C);
}
static void gemm_ref(std::vector<double> &o, const std::vector<bf> &a, const std::vector<bf> &b,
                     int M, int N, int K, bool tb)
{
    o.assign((size_t)M * N, 0);
    std::vector<float> A(a.size()), B((size_t)K * N);
    for (size_t i = 0; i < a.size(); ++i) A[i] = f(a[i]);
    for (int k = 0; k < K; ++k)
        for (int n = 0; n < N; ++n)
            B[(size_t)k * N + n] = f(tb ? b[(size_t)k * N + n] : b[(size_t)n * K + k]);
    for (int m = 0; m < M; ++m)
        for (int k = 0; k < K; ++k) {
            double x = A[(size_t)m * K + k];
            for (int n = 0; n < N; ++n) o[(size_t)m * N + n] += x * B[(size_t)k * N + n];
        }
}
static void t_mma(int M, int N, int K)
{
    auto a = rand_bf((size_t)M * K), b = rand_bf((size_t)N * K);
    bf *da = dev(a), *db = dev(b);
    float *dc = devn<float>((size_t)M * N);
    double t = now();
    int e = k_gemm_mma(dc, da, db, M, N, K, 0);
    auto c = host(dc, (size_t)M * N);
    t = now() - t;
    std::vector<double> r;
    gemm_ref(r, a, b, M, N, K, false);
    double err = e;
    for (size_t i = 0; i < c.size(); ++i) {
        double d = fabs(c[i] - r[i]);
        if (!(d <= err)) err = d;
    }
    char n[64];
    snprintf(n, 64, "gemm mma.sync %dx%dx%d", M, N, K);
    report(n, err, 1e-4 * sqrt(K) * 2, t, 2.0 * M * N * K);
}
static void t_wgmma(int M, int N, int K, int tb)
{
    auto a = rand_bf((size_t)M * K), b = rand_bf((size_t)N * K);
    bf *da = dev(a), *db = dev(b), *dc = devn<bf>((size_t)M * N);
    double t = now();
    int e = k_gemm_wgmma(dc, da, db, M, N, K, tb, 0);
    auto c = host(dc, (size_t)M * N);
    t = now() - t;
    std::vector<double> r;
    gemm_ref(r, a, b, M, N, K, tb);
    double err = e;
    for (size_t i = 0; i < c.size(); ++i) {
        double d = fabs(f(c[i]) - r[i]) / (1 + fabs(r[i]));
        if (!(d <= err)) err = d;
    }
    char n[64];
    snprintf(n, 64, "gemm TMA+wgmma %s %dx%dx%d", tb ? "NN" : "NT", M, N, K);
    report(n, err, 0.008, t, 2.0 * M * N * K);
}
static float e4m3(uint8_t x)
{
    int e = x >> 3 & 15, m = x & 7;
    float v = e ? ldexpf(8 + m, e - 10) : ldexpf(m, -9);
    return x & 128 ? -v : v;
}
static void t_modes(int sw, int am, int bmn, int kind)
{
    std::vector<uint8_t> A(8192), B(8192);
    const int K = kind == 2 ? 128 : 64;
    std::vector<double> fa(64 * K), fb(64 * K);
    for (int i = 0; i < 64 * K; ++i) {
        if (kind == 2) {
            A[i] = (rs = rs * 1664525u + 1013904223u) >> 24;
            B[i] = (rs = rs * 1664525u + 1013904223u) >> 24;
            A[i] &= 0xBF;
            B[i] &= 0xBF;
            fa[i] = e4m3(A[i]);
            fb[i] = e4m3(B[i]);
        } else {
            bf x = tobf(rnd()), y = tobf(rnd());
            memcpy(&A[i * 2], &x, 2);
            memcpy(&B[i * 2], &y, 2);
            fa[i] = f(x);
            fb[i] = f(y);
        }
    }
    uint8_t *da = dev(A), *db = dev(B);
    float *dd = devn<float>(4096);
    double t = now();
    double err = k_wgmma_modes(sw, am, bmn, kind, dd, da, db, 0);
    auto c = host(dd, 4096);
    t = now() - t;
    for (int m = 0; m < 64; ++m)
        for (int n = 0; n < 64; ++n) {
            double r = 0;
            for (int k = 0; k < K; ++k)
                r += fa[am ? k * 64 + m : m * K + k] * fb[bmn ? k * 64 + n : n * K + k];
            double d = fabs(r - c[m * 64 + n]);
            if (!(d <= err)) err = d;
        }
    static const char *S[] = {"none", "128B", "64B", "32B"},
                      *Kd[] = {"bf16 SS", "bf16 RS", "e4m3 SS"};
    char n[80];
    snprintf(n, 80, "wgmma %s sw=%s A:%s B:%s", Kd[kind], S[sw], am ? "M" : "K", bmn ? "N" : "K");
    report(n, err, kind == 2 ? 1e-3 : 1e-4, t, 2.0 * 64 * 64 * 64);
}
int main(int argc, char **argv)
{
    const char *w = argc > 1 ? argv[1] : "all";
    const bool big = argc > 2;
    if (!strcmp(w, "all") || !strcmp(w, "ln")) {
        t_layernorm(4, 768);
        t_layernorm(3, 1000);
        if (big) t_layernorm(512, 1024);
    }
    if (!strcmp(w, "all") || !strcmp(w, "mma")) {
        t_mma(64, 64, 64);
        t_mma(100, 90, 96);
        if (big) t_mma(256, 256, 256);
    }
    if (!strcmp(w, "all") || !strcmp(w, "wgmma")) {
        t_wgmma(128, 128, 64, 0);
        t_wgmma(128, 128, 512, 1);
        t_wgmma(200, 136, 320, 0);
        t_wgmma(200, 136, 320, 1);
        if (big) {
            t_wgmma(256, 256, 256, 0);
            t_wgmma(512, 512, 512, 1);
        }
    }
    if (!strcmp(w, "all") || !strcmp(w, "modes"))
        for (int sw = 0; sw < 4; ++sw) {
            for (int am = 0; am < 2; ++am)
                for (int b = 0; b < 2; ++b) t_modes(sw, am, b, 0);
            t_modes(sw, 0, 0, 1);
            t_modes(sw, 0, 1, 1);
            t_modes(sw, 0, 0, 2);
        }
    printf("%d passed, %d failed\n", passes, fails);
    return fails != 0;
}
