// fake_cublaslt.c -- a stand-in for libcublasLt.so in the simulator, where the memory of the GPU is
// memory of the host: the entry points that lathe uses, by plain loops, in the order of the stream.
//
// It is stricter than the real one: an attribute of the wrong size, a matrix that does not fit, an
// algorithm of another product, a workspace too small or not aligned end the program. Its
// algorithms are what the choice of one must cope with:
//
//   0  the product                        4  refuses when it runs
//   1  the same bits                      5  parts of K in any order: not repeatable, only offered
//   2  other bits                            when the mask of the preference allows it
//   3  K in two parts (workspace), other bits
//
// 1 to 5 need operands at multiples of 16 bytes. Without a bias, 0 comes first; with one, 3 does.
// GELU is the tanh form, taken of the f32 sum; aux holds the rounded sum. FP8 is taken as on
// Hopper: both operands with k contiguous, not both in E5M2, m, k, rows and addresses multiples of
// 16, n of 8, and with a scale for each.
//
// SPDX-License-Identifier: MIT
#include "tests/kernels/fake_cublaslt.h"
#include "engine/base/dtype.h"
#include "kernels/ref/act.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALGOS = 6, MAGIC = 0x4c744661 };

struct cublasLtContext {
    int magic;
};

typedef struct Op {
    cublasOperation_t ta, tb;
    cublasLtEpilogue_t epilogue;
    const void *bias;
    void *aux;
    int64_t aux_ld;
    const float *a_scale, *b_scale;
    int8_t fast;
} Op;

typedef struct Layout {
    cudaDataType type;
    uint64_t rows, cols;
    int64_t ld;
} Layout;

typedef struct Preference {
    uint64_t workspace;
    uint32_t schemes, align[4]; // A, B, C, D
} Preference;

typedef struct Algo { // what is in a cublasLtMatmulAlgo_t
    int32_t magic, id;
    uint64_t product; // a number of its op and layouts
} Algo;

typedef struct Job {
    Op op;
    Layout a, b, d;
    float alpha, beta;
    const void *A, *B, *C;
    void *D, *workspace;
    int id;
    uint64_t turn;
} Job;

static FakeCublasltCounts counts;

FakeCublasltCounts *fake_cublaslt_counts(void)
{
    return &counts;
}

static bool told_to(const char *word)
{
    const char *words = getenv("FAKE_CUBLASLT");
    return words && strstr(words, word);
}

static cublasStatus_t misuse(const char *what)
{
    fprintf(stderr, "cuBLASLt (fake): %s\n", what);
    abort();
}

// ---- handles ----------------------------------------------------------------------------------

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
    if (told_to("no_start")) return CUBLAS_STATUS_NOT_INITIALIZED;
    *out = calloc(1, sizeof **out);
    if (!*out) return CUBLAS_STATUS_ALLOC_FAILED;
    (*out)->magic = MAGIC;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t h)
{
    if (!h || h->magic != MAGIC) return misuse("Destroy: no handle");
    free(h);
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void)
{
    return 130100;
}

const char *cublasLtGetStatusString(cublasStatus_t s)
{
    switch (s) {
    case CUBLAS_STATUS_SUCCESS: return "success (fake)";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "not initialised (fake)";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "not supported (fake)";
    default: return "invalid value (fake)";
    }
}

// ---- descriptors ------------------------------------------------------------------------------

static bool is_fp8(cudaDataType t)
{
    return t == CUDA_R_8F_E4M3 || t == CUDA_R_8F_E5M2;
}

static size_t bytes_of(cudaDataType t)
{
    return is_fp8(t) ? 1 : t == CUDA_R_32F ? 4 : 2;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F)
        return misuse("MatmulDescCreate: other sums than f32");
    Op *op = calloc(1, sizeof *op);
    if (!op) return CUBLAS_STATUS_ALLOC_FAILED;
    *op = (Op){.epilogue = CUBLASLT_EPILOGUE_DEFAULT};
    *out = (cublasLtMatmulDesc_t)op;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t op)
{
    free(op);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t name,
                                              const void *value, size_t size)
{
    Op *op = (Op *)desc;
    const struct {
        cublasLtMatmulDescAttributes_t name;
        size_t size;
        void *at;
    } known[] = {{CUBLASLT_MATMUL_DESC_TRANSA, 4, &op->ta},
                 {CUBLASLT_MATMUL_DESC_TRANSB, 4, &op->tb},
                 {CUBLASLT_MATMUL_DESC_EPILOGUE, 4, &op->epilogue},
                 {CUBLASLT_MATMUL_DESC_BIAS_POINTER, 8, &op->bias},
                 {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, 8, &op->aux},
                 {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 8, &op->aux_ld},
                 {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, 8, &op->a_scale},
                 {CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, 8, &op->b_scale},
                 {CUBLASLT_MATMUL_DESC_FAST_ACCUM, 1, &op->fast}};
    for (int i = 0; i < (int)LT_COUNT(known); i++) {
        if (known[i].name != name) continue;
        if (known[i].size != size) return misuse("MatmulDescSetAttribute: size");
        memcpy(known[i].at, value, size);
        return CUBLAS_STATUS_SUCCESS;
    }
    return misuse("MatmulDescSetAttribute: unknown");
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld)
{
    if (type != CUDA_R_32F && type != CUDA_R_16BF && type != CUDA_R_16F && !is_fp8(type))
        return misuse("MatrixLayoutCreate: type");
    if (rows == 0 || cols == 0 || ld < (int64_t)rows) return misuse("MatrixLayoutCreate: size");
    Layout *l = calloc(1, sizeof *l);
    if (!l) return CUBLAS_STATUS_ALLOC_FAILED;
    *l = (Layout){type, rows, cols, ld};
    *out = (cublasLtMatrixLayout_t)l;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    free(l);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    Preference *p = calloc(1, sizeof *p);
    if (!p) return CUBLAS_STATUS_ALLOC_FAILED;
    *p = (Preference){.schemes = CUBLASLT_REDUCTION_SCHEME_MASK, .align = {256, 256, 256, 256}};
    *out = (cublasLtMatmulPreference_t)p;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    free(p);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref,
                                                    cublasLtMatmulPreferenceAttributes_t name,
                                                    const void *value, size_t size)
{
    Preference *p = (Preference *)pref;
    const struct {
        cublasLtMatmulPreferenceAttributes_t name;
        size_t size;
        void *at;
    } known[] = {{CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 8, &p->workspace},
                 {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 4, &p->schemes},
                 {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 4, &p->align[0]},
                 {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 4, &p->align[1]},
                 {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 4, &p->align[2]},
                 {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 4, &p->align[3]}};
    for (int i = 0; i < (int)LT_COUNT(known); i++) {
        if (known[i].name != name) continue;
        if (known[i].size != size) return misuse("MatmulPreferenceSetAttribute: size");
        memcpy(known[i].at, value, size);
        return CUBLAS_STATUS_SUCCESS;
    }
    return misuse("MatmulPreferenceSetAttribute: unknown");
}

// ---- which algorithms -------------------------------------------------------------------------

static uint64_t number_of(const Op *op, const Layout *a, const Layout *b, const Layout *d)
{
    const uint64_t parts[] = {(uint64_t)op->ta,
                              (uint64_t)op->tb,
                              (uint64_t)op->epilogue,
                              (uint64_t)a->type,
                              (uint64_t)b->type,
                              (uint64_t)d->type,
                              (uint64_t)op->fast,
                              a->rows,
                              a->cols,
                              b->rows,
                              b->cols,
                              (uint64_t)a->ld,
                              (uint64_t)b->ld,
                              (uint64_t)d->ld};
    uint64_t h = 1469598103934665603u;
    for (int i = 0; i < (int)LT_COUNT(parts); i++) h = (h ^ parts[i]) * 1099511628211u;
    return h;
}

static bool has_bias(const Op *op)
{
    return (op->epilogue & CUBLASLT_EPILOGUE_BIAS) != 0 && op->epilogue != CUBLASLT_EPILOGUE_DGELU;
}

static bool has_aux(const Op *op)
{
    return (op->epilogue & 128) != 0;
}

// What Hopper does not do in FP8 is refused, what makes no sense ends the program.
static cublasStatus_t check_fp8(const Op *op, const Layout *a, const Layout *b, const Layout *d)
{
    if (!is_fp8(a->type) || !is_fp8(b->type)) return misuse("FP8 and another type");
    if (!op->a_scale || (uintptr_t)op->a_scale % 16) return misuse("FP8: the scale of A");
    if (!op->b_scale || (uintptr_t)op->b_scale % 16) return misuse("FP8: the scale of B");
    if (has_bias(op) && d->type == CUDA_R_32F) return misuse("FP8: a bias of f32");
    const bool same_e5m2 = a->type == CUDA_R_8F_E5M2 && b->type == CUDA_R_8F_E5M2;
    if (op->ta != CUBLAS_OP_T || op->tb != CUBLAS_OP_N || same_e5m2)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (op->epilogue != CUBLASLT_EPILOGUE_DEFAULT && op->epilogue != CUBLASLT_EPILOGUE_BIAS)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const uint64_t sizes[] = {a->rows, a->cols, 2 * b->cols, (uint64_t)a->ld, (uint64_t)b->ld};
    for (int i = 0; i < (int)LT_COUNT(sizes); i++)
        if (sizes[i] % 16) return CUBLAS_STATUS_NOT_SUPPORTED;
    return CUBLAS_STATUS_SUCCESS;
}

// What is legal to ask for at all.
static cublasStatus_t check_product(const Op *op, const Layout *a, const Layout *b, const Layout *c,
                                    const Layout *d)
{
    const bool ta = op->ta == CUBLAS_OP_T, tb = op->tb == CUBLAS_OP_T;
    const uint64_t m = ta ? a->cols : a->rows, k = ta ? a->rows : a->cols;
    const uint64_t k2 = tb ? b->cols : b->rows, n = tb ? b->rows : b->cols;
    if (k != k2 || d->rows != m || d->cols != n) return misuse("the matrices do not fit");
    if (memcmp(c, d, sizeof *c) != 0) return misuse("C and D differ");
    const bool fp8 = is_fp8(a->type) || is_fp8(b->type);
    if (!fp8 && a->type != b->type) return misuse("A and B differ in type");
    if (is_fp8(d->type) || (!fp8 && d->type != a->type && d->type != CUDA_R_32F))
        return misuse("type of D");
    if (!fp8 && (op->a_scale || op->b_scale || op->fast)) return misuse("scales without FP8");
    if (has_bias(op) && !op->bias) return misuse("bias: no address");
    if (!has_bias(op) && op->bias) return misuse("a bias that no one reads");
    if (!has_aux(op) && op->aux) return misuse("an aux that no one reads");
    if (fp8) return check_fp8(op, a, b, d);
    if (!has_aux(op)) return CUBLAS_STATUS_SUCCESS;
    if (!op->aux || (uintptr_t)op->aux % 16 != 0) return misuse("aux: address");
    if (op->aux_ld % 8 != 0 || op->aux_ld < (int64_t)m) return misuse("aux: leading dimension");
    return CUBLAS_STATUS_SUCCESS;
}

static size_t workspace_of(int id, const Layout *d)
{
    return id == 3 || id == 5 ? 2 * sizeof(float) * d->rows * d->cols : 0;
}

static uint32_t scheme_of(int id)
{
    return id == 3   ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
           : id == 5 ? CUBLASLT_REDUCTION_SCHEME_INPLACE
                     : CUBLASLT_REDUCTION_SCHEME_NONE;
}

static bool offered(int id, const Preference *p, const Layout *a, const Layout *b, const Layout *d)
{
    const uint32_t scheme = scheme_of(id);
    if (scheme && !(p->schemes & scheme)) return false;
    if (workspace_of(id, d) > p->workspace) return false;
    if (id == 0 && !is_fp8(a->type)) return true;
    const size_t size_ab = bytes_of(a->type), size_d = bytes_of(d->type);
    for (int i = 0; i < 4; i++)
        if (p->align[i] < 16) return false;
    return (size_t)a->ld * size_ab % 16 == 0 && (size_t)b->ld * size_ab % 16 == 0 &&
           (size_t)d->ld * size_d % 16 == 0;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t h, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t la, cublasLtMatrixLayout_t lb,
                                              cublasLtMatrixLayout_t lc, cublasLtMatrixLayout_t ld,
                                              cublasLtMatmulPreference_t pref, int wanted,
                                              cublasLtMatmulHeuristicResult_t found[], int *n)
{
    const Op *op = (const Op *)desc;
    const Layout *a = (const Layout *)la, *b = (const Layout *)lb, *d = (const Layout *)ld;
    static const int plain[ALGOS] = {0, 5, 4, 3, 2, 1}, with_bias[ALGOS] = {3, 0, 5, 4, 2, 1};
    *n = 0;
    counts.asked++;
    if (!h || h->magic != MAGIC) return misuse("no handle");
    const cublasStatus_t s = check_product(op, a, b, (const Layout *)lc, d);
    if (s) return s;
    if (told_to("no_algorithm")) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (told_to("no_epilogue") && op->epilogue != CUBLASLT_EPILOGUE_DEFAULT)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    for (int i = 0; i < ALGOS && *n < wanted; i++) {
        const int id = has_bias(op) ? with_bias[i] : plain[i];
        if (!offered(id, (const Preference *)pref, a, b, d)) continue;
        cublasLtMatmulHeuristicResult_t *r = &found[(*n)++];
        const Algo algo = {MAGIC, id, number_of(op, a, b, d)};
        *r = (cublasLtMatmulHeuristicResult_t){.workspaceSize = workspace_of(id, d)};
        memcpy(&r->algo, &algo, sizeof algo);
    }
    return *n ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t name,
                                                    void *value, size_t size, size_t *written)
{
    Algo a;
    memcpy(&a, algo, sizeof a);
    if (a.magic != MAGIC || name != CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME || size != 4)
        return misuse("MatmulAlgoConfigGetAttribute");
    const uint32_t scheme = scheme_of(a.id);
    memcpy(value, &scheme, sizeof scheme);
    *written = sizeof scheme;
    return CUBLAS_STATUS_SUCCESS;
}

// ---- running ----------------------------------------------------------------------------------

static DType dtype_of(cudaDataType t)
{
    switch (t) {
    case CUDA_R_16BF: return DTYPE_BF16;
    case CUDA_R_16F: return DTYPE_F16;
    case CUDA_R_8F_E4M3: return DTYPE_E4M3;
    case CUDA_R_8F_E5M2: return DTYPE_E5M2;
    default: return DTYPE_F32;
    }
}

// Of k terms from `from` on, every `step`-th.
static float part(const Job *j, int64_t row, int64_t col, int64_t from, int64_t to, bool backwards)
{
    const bool ta = j->op.ta == CUBLAS_OP_T, tb = j->op.tb == CUBLAS_OP_T;
    float s = 0;
    for (int64_t i = from; i < to; i++) {
        const int64_t k = backwards ? to - 1 - (i - from) : i;
        const int64_t at_a = ta ? k + row * j->a.ld : row + k * j->a.ld;
        const int64_t at_b = tb ? col + k * j->b.ld : k + col * j->b.ld;
        s += dtype_load(j->A, dtype_of(j->a.type), at_a) *
             dtype_load(j->B, dtype_of(j->b.type), at_b);
    }
    return s;
}

static float sum_of(const Job *j, int64_t row, int64_t col)
{
    const int64_t k = (int64_t)(j->op.ta == CUBLAS_OP_T ? j->a.rows : j->a.cols);
    switch (j->id) {
    case 2: return part(j, row, col, 0, k, true);
    case 3: {
        float *w = (float *)j->workspace + 2 * (row + col * (int64_t)j->d.rows);
        w[0] = part(j, row, col, 0, k / 2, false);
        w[1] = part(j, row, col, k / 2, k, false);
        return w[0] + w[1];
    }
    case 5: return part(j, row, col, 0, k, j->turn % 2);
    default: return part(j, row, col, 0, k, false);
    }
}

static void finish(const Job *j, int64_t row, int64_t col, float s)
{
    const DType t = dtype_of(j->d.type);
    const int64_t at = row + col * j->d.ld, aux = row + col * j->op.aux_ld;
    s *= j->alpha;
    if (is_fp8(j->a.type)) s *= *j->op.a_scale * *j->op.b_scale;
    if (j->beta != 0) s += j->beta * dtype_load(j->C, t, at);
    if (has_bias(&j->op)) s += dtype_load(j->op.bias, t, row);
    if (j->op.epilogue == CUBLASLT_EPILOGUE_DGELU)
        s *= (float)act_slope(ACT_GELU_TANH, (double)dtype_load(j->op.aux, t, aux));
    else if (j->op.epilogue & CUBLASLT_EPILOGUE_GELU) {
        if (has_aux(&j->op)) dtype_store(j->op.aux, t, aux, s);
        s = (float)act_value(ACT_GELU_TANH, (double)s);
    }
    dtype_store(j->D, t, at, s);
}

static void work(void *job)
{
    Job *j = job;
    for (int64_t col = 0; col < (int64_t)j->d.cols; col++)
        for (int64_t row = 0; row < (int64_t)j->d.rows; row++)
            finish(j, row, col, sum_of(j, row, col));
    if (told_to("slow") && j->id != 1 && j->id != 2) usleep(20000);
    free(j);
}

static cublasStatus_t check_run(const Algo *algo, const Job *j, size_t workspace)
{
    const uint32_t align = algo->id == 0 && !is_fp8(j->a.type) ? 1 : 16;
    const size_t size = bytes_of(j->a.type);
    if (algo->magic != MAGIC || algo->product != number_of(&j->op, &j->a, &j->b, &j->d))
        return misuse("an algorithm of another product");
    if ((uintptr_t)j->A % size || (uintptr_t)j->B % size || (uintptr_t)j->A % align ||
        (uintptr_t)j->B % align || (uintptr_t)j->C % align || (uintptr_t)j->D % align)
        return misuse("an operand is not aligned as the algorithm needs it");
    if (workspace < workspace_of(algo->id, &j->d)) return misuse("the workspace is too small");
    if (workspace && (!j->workspace || (uintptr_t)j->workspace % 256))
        return misuse("the workspace is not aligned");
    if (j->beta != 0 && j->op.epilogue != CUBLASLT_EPILOGUE_DEFAULT &&
        j->op.epilogue != CUBLASLT_EPILOGUE_BIAS)
        return misuse("beta with an activation");
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *A, cublasLtMatrixLayout_t la, const void *B,
                              cublasLtMatrixLayout_t lb, const void *beta, const void *C,
                              cublasLtMatrixLayout_t lc, void *D, cublasLtMatrixLayout_t ld,
                              const cublasLtMatmulAlgo_t *chosen, void *workspace, size_t bytes,
                              cudaStream_t stream)
{
    Algo algo;
    if (!h || h->magic != MAGIC || !A || !B || !C || !D || !chosen) return misuse("Matmul: NULL");
    memcpy(&algo, chosen, sizeof algo);
    Job *j = calloc(1, sizeof *j);
    if (!j) return CUBLAS_STATUS_ALLOC_FAILED;
    *j = (Job){.op = *(const Op *)desc,
               .a = *(const Layout *)la,
               .b = *(const Layout *)lb,
               .d = *(const Layout *)ld,
               .alpha = *(const float *)alpha,
               .beta = *(const float *)beta,
               .A = A,
               .B = B,
               .C = C,
               .D = D,
               .workspace = workspace,
               .id = algo.id,
               .turn = (uint64_t)counts.queued};
    cublasStatus_t s = check_product(&j->op, &j->a, &j->b, (const Layout *)lc, &j->d);
    if (!s) s = check_run(&algo, j, bytes);
    if (!s && (told_to("no_run") || algo.id == 4)) s = CUBLAS_STATUS_NOT_SUPPORTED;
    if (!s && cudaLaunchHostFunc(stream, work, j) != cudaSuccess)
        s = CUBLAS_STATUS_EXECUTION_FAILED;
    if (s) {
        free(j);
        return s;
    }
    counts.queued++;
    counts.fused += ((const Op *)desc)->epilogue != CUBLASLT_EPILOGUE_DEFAULT;
    counts.last_algo = algo.id;
    counts.last_fast = ((const Op *)desc)->fast;
    return CUBLAS_STATUS_SUCCESS;
}
