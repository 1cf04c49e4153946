// SPDX-License-Identifier: Apache-2.0
#include "client-shim/nccl/base/driver.h"

#include <dlfcn.h>

#include "client-shim/nccl/base/error.h"

namespace farcall::nccl {

namespace {

struct Found {
  Driver driver;
  const char* missing = nullptr;  // a call, or the library itself
};

Found Load() {
  Found found;
  // Held for the life of the process: collectives may be the last to use it.
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    found.missing = "libcuda.so.1";
    return found;
  }
#define FARCALL_NCCL_LOOK_UP(name)                                                \
  found.driver.name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name)); \
  if (found.driver.name == nullptr) found.missing = #name;
  FARCALL_NCCL_DRIVER_CALLS(FARCALL_NCCL_LOOK_UP)
#undef FARCALL_NCCL_LOOK_UP
  return found;
}

}  // namespace

const Driver* FindDriver() {
  static const Found found = Load();
  if (found.missing == nullptr) return &found.driver;
  Fail(ncclSystemError, "the CUDA driver lacks %s", found.missing);
  return nullptr;
}

ncclResult_t CudaFailure(const char* call, CUresult result) {
  const char* name = nullptr;
  FindDriver()->cuGetErrorName(result, &name);
  return Fail(ncclUnhandledCudaError, "%s: %s", call, name == nullptr ? "unknown error" : name);
}

InContext::InContext(CUcontext context) {
  pushed_ = FindDriver()->cuCtxPushCurrent_v2(context) == CUDA_SUCCESS;
}

InContext::~InContext() {
  CUcontext popped = nullptr;
  if (pushed_) FindDriver()->cuCtxPopCurrent_v2(&popped);
}

}  // namespace farcall::nccl
