// test_cudnn_graph.c -- the graphs of kernels/cuda/cudnn_sdpa.h against the real cuDNN, without a
// GPU: its descriptors and heuristics need none if they are told what GPU to think of. What cannot
// be tested this way is everything from the plan on.
//
// Needs libcudnn.so.9, and some libcuda.so.1 for it to open: the toolkit's stub will do.
//
// SPDX-License-Identifier: MIT
#include "engine/base/dtype.h"
#include "kernels/cuda/cudnn_sdpa.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { B = 2, H = 3 };

static const char h100[] =
    "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"
    "\"regsPerBlock\":65536,\"multiProcessorCount\":132,\"warpSize\":32,"
    "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":232448,"
    "\"reservedSharedMemoryPerBlock\":1024,\"maxSharedMemoryPerSM\":233472,"
    "\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,"
    "\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,"
    "\"smClockRateKHz\":1980000,\"memClockRateKHz\":2619000,\"l2CacheSize\":52428800,"
    "\"deviceName\":\"NVIDIA H100 80GB HBM3\",\"deviceVer\":900,\"driverVer\":13000,"
    "\"cudaDeviceId\":0,\"totalGlobalMem\":85000000000,\"smVersion\":900,\"clusterLaunch\":1}";

static CudnnSdpaShape shape(int64_t T, int64_t D, int backward, int causal, DType t)
{
    return (CudnnSdpaShape){.B = B,
                            .H = H,
                            .Tq = T,
                            .Tk = T,
                            .D = D,
                            .q_batch = T * 3 * H * D,
                            .q_row = 3 * H * D,
                            .kv_batch = T * 3 * H * D,
                            .kv_row = 3 * H * D,
                            .out_batch = T * H * D,
                            .out_row = H * D,
                            .backward = backward,
                            .causal = causal,
                            .dtype = (int32_t)t};
}

// Engines of an H100 for this shape whose bits repeat; *workspace: of the first.
static int engines(const CudnnApi *api, const CudnnSdpaShape *s, int64_t *workspace)
{
    CudnnGraph g;
    cudnnBackendDescriptor_t gpu = NULL, found[CUDNN_GRAPH_ENGINES];
    cudnn_graph_open(&g, api, NULL);
    if (!cudnn_sdpa_build(&g, s)) fail_msg("%s: %s", g.where, api->GetErrorString(g.status));
    assert_int_equal(api->BackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &gpu), 0);
    assert_int_equal(api->BackendSetAttribute(gpu, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                              CUDNN_TYPE_CHAR, sizeof h100, h100),
                     0);
    assert_int_equal(api->BackendFinalize(gpu), 0);
    const int n = cudnn_graph_engines(&g, gpu, found);
    int64_t count = 0;
    *workspace = -1;
    if (n > 0)
        assert_int_equal(api->BackendGetAttribute(found[0], CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE,
                                                  CUDNN_TYPE_INT64, 1, &count, workspace),
                         0);
    (void)api->BackendDestroyDescriptor(gpu);
    cudnn_graph_free(&g);
    return n;
}

static void cudnn_has_engines_for_our_graphs(void **state)
{
    const CudnnApi *api = *state;
    static const int64_t lengths[] = {1, 128, 512, 1000, 1024};
    for (int t = 0; t < (int)LT_COUNT(lengths); t++)
        for (int64_t D = 64; D <= 128; D += 64)
            for (int i = 0; i < 8; i++) {
                int64_t workspace;
                const CudnnSdpaShape s =
                    shape(lengths[t], D, i & 1, i >> 1 & 1, i >> 2 ? DTYPE_F16 : DTYPE_BF16);
                if (engines(api, &s, &workspace) == 0)
                    fail_msg("T %lld, D %lld, backward %d, causal %d, %s: none",
                             (long long)lengths[t], (long long)D, s.backward, s.causal,
                             dtype_name((DType)s.dtype));
            }
}

static void the_gradient_pays_for_repeatable_bits_with_a_square(void **state)
{
    int64_t workspace;
    const CudnnSdpaShape s = shape(512, 64, 1, 1, DTYPE_BF16);
    assert_true(engines(*state, &s, &workspace) > 0);
    assert_true(workspace >= B * H * 512 * 512 * 2);
}

static void engines_that_cannot_exist_are_not_found(void **state)
{
    int64_t workspace;
    const CudnnSdpaShape s = shape(512, 264, 1, 0, DTYPE_BF16); // heads end at 256
    assert_int_equal(engines(*state, &s, &workspace), 0);
}

static void the_first_failure_is_kept(void **state)
{
    CudnnGraph g;
    const CudnnShape bad = {{1, 1, -1, 1}, {1, 1, 1, 1}};
    cudnn_graph_open(&g, *state, NULL);
    CudnnTensor x = cudnn_graph_tensor(&g, CUDNN_GRAPH_REAL, 1, &bad, CUDNN_DATA_FLOAT);
    CudnnTensor y = cudnn_graph_tensor(&g, CUDNN_GRAPH_REAL, 2, &bad, CUDNN_DATA_FLOAT);
    cudnn_graph_pointwise(&g, CUDNN_POINTWISE_EXP, x, NULL, NULL, y);
    assert_false(cudnn_graph_close(&g));
    assert_int_not_equal(g.status, CUDNN_STATUS_SUCCESS);
    assert_non_null(strstr(g.where, "a tensor"));
    cudnn_graph_free(&g);
}

int main(void)
{
    char why[256];
    CudnnApi api;
    if (!cudnn_api_open(&api, why, sizeof why)) {
        printf("SKIP: %s\n", why);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(cudnn_has_engines_for_our_graphs, &api),
        cmocka_unit_test_prestate(the_gradient_pays_for_repeatable_bits_with_a_square, &api),
        cmocka_unit_test_prestate(engines_that_cannot_exist_are_not_found, &api),
        cmocka_unit_test_prestate(the_first_failure_is_kept, &api),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
