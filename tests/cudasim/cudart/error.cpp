// error.cpp -- error codes: their names and texts, the last one, and sticky ones.
//
// SPDX-License-Identifier: MIT
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include "tests/cudasim/cudart/runtime.h"

namespace cudasim
{
namespace rt
{

namespace
{

thread_local cudaError_t last_error = cudaSuccess;
cudaError_t sticky_error = cudaSuccess;

struct ErrorText {
    cudaError_t code;
    const char *name, *text;
};

#define ERROR(code, text)                                                                          \
    {                                                                                              \
        code, #code, text                                                                          \
    }
const ErrorText error_texts[] = {
    ERROR(cudaSuccess, "no error"),
    ERROR(cudaErrorInvalidValue, "invalid argument"),
    ERROR(cudaErrorMemoryAllocation, "out of memory"),
    ERROR(cudaErrorInitializationError, "initialization error"),
    ERROR(cudaErrorCudartUnloading, "driver shutting down"),
    ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    ERROR(cudaErrorInvalidPitchValue, "invalid pitch argument"),
    ERROR(cudaErrorInvalidSymbol, "invalid device symbol"),
    ERROR(cudaErrorInvalidHostPointer, "invalid host pointer"),
    ERROR(cudaErrorInvalidDevicePointer, "invalid device pointer"),
    ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    ERROR(cudaErrorInsufficientDriver,
          "CUDA driver version is insufficient for CUDA runtime version"),
    ERROR(cudaErrorDevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable"),
    ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    ERROR(cudaErrorInvalidKernelImage, "device kernel image is invalid"),
    ERROR(cudaErrorNoKernelImageForDevice,
          "no kernel image is available for execution on the device"),
    ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    ERROR(cudaErrorSymbolNotFound, "named symbol not found"),
    ERROR(cudaErrorNotReady, "device not ready"),
    ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    ERROR(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    ERROR(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
    ERROR(cudaErrorHostMemoryAlreadyRegistered,
          "part or all of the requested memory range is already mapped"),
    ERROR(cudaErrorHostMemoryNotRegistered,
          "pointer does not correspond to a registered memory region"),
    ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    ERROR(cudaErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch"),
    ERROR(cudaErrorNotPermitted, "operation not permitted"),
    ERROR(cudaErrorNotSupported, "operation not supported"),
    ERROR(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    ERROR(cudaErrorInvalidClusterSize, "cluster target block count is invalid"),
    ERROR(cudaErrorUnknown, "unknown error"),
};

const ErrorText *find_text(cudaError_t e)
{
    for (const ErrorText &t : error_texts) {
        if (t.code == e) return &t;
    }
    return nullptr;
}

} // namespace

uint64_t env_number(const char *name, uint64_t otherwise)
{
    const char *const s = getenv(name);
    return s != nullptr && *s != 0 ? strtoull(s, nullptr, 10) : otherwise;
}

cudaError_t fail(cudaError_t e)
{
    if (e != cudaSuccess) last_error = e;
    return e;
}

cudaError_t misuse(cudaError_t e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "cudasim: ");
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, " (%s)\n", cudaGetErrorName(e));
    va_end(ap);
    return fail(e);
}

void set_sticky(cudaError_t e)
{
    if (sticky_error == cudaSuccess) sticky_error = e;
}

cudaError_t sticky()
{
    return fail(sticky_error);
}

cudaError_t check_device()
{
    const char *const driver = getenv("CUDASIM_DRIVER");
    const bool fits =
        driver == nullptr || (strcmp(driver, "none") != 0 && strcmp(driver, "old") != 0);
    if (!fits) return fail(cudaErrorInsufficientDriver);
    if (env_number("CUDASIM_DEVICES", 1) == 0) return fail(cudaErrorNoDevice);
    return sticky();
}

} // namespace rt
} // namespace cudasim

using namespace cudasim::rt;

extern "C" {

const char *CUDARTAPI cudaGetErrorName(cudaError_t e)
{
    const ErrorText *const t = find_text(e);
    return t != nullptr ? t->name : "unrecognized error code";
}

const char *CUDARTAPI cudaGetErrorString(cudaError_t e)
{
    const ErrorText *const t = find_text(e);
    return t != nullptr ? t->text : "unrecognized error code";
}

cudaError_t CUDARTAPI cudaPeekAtLastError(void)
{
    return sticky_error != cudaSuccess ? sticky_error : last_error;
}

cudaError_t CUDARTAPI cudaGetLastError(void)
{
    const cudaError_t e = cudaPeekAtLastError();
    last_error = cudaSuccess;
    return e;
}

} // extern "C"
