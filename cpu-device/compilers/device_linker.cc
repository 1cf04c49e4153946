// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/compilers/device_linker.h"

#include <dlfcn.h>

#include "cpu-device/driver/base/log.h"

namespace farcall::cpu_device {

namespace {

template <typename Function>
Function* Driver(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
}
// Of its type alone: nothing here links with a driver.
#define FARCALL_DRIVER(name) Driver<decltype(::name)>(#name)

// nvJitLink wants no context and cuLink does: device 0's, where the thread has none.
class SomeContext {
 public:
  SomeContext() {
    const auto init = FARCALL_DRIVER(cuInit);
    const auto current = FARCALL_DRIVER(cuCtxGetCurrent);
    const auto retain = FARCALL_DRIVER(cuDevicePrimaryCtxRetain);
    const auto push = FARCALL_DRIVER(cuCtxPushCurrent_v2);
    CUcontext context = nullptr;
    if (init == nullptr || current == nullptr || retain == nullptr || push == nullptr) return;
    if (init(0) != CUDA_SUCCESS || current(&context) != CUDA_SUCCESS || context != nullptr) return;
    if (retain(&context, 0) != CUDA_SUCCESS) return;
    retained_ = true;
    pushed_ = push(context) == CUDA_SUCCESS;
  }
  ~SomeContext() {
    CUcontext context = nullptr;
    if (pushed_) FARCALL_DRIVER(cuCtxPopCurrent_v2)(&context);
    if (retained_) FARCALL_DRIVER(cuDevicePrimaryCtxRelease_v2)(0);
  }
  SomeContext(const SomeContext&) = delete;
  SomeContext& operator=(const SomeContext&) = delete;

 private:
  bool retained_ = false, pushed_ = false;
};

}  // namespace

DeviceLinker::~DeviceLinker() {
  if (state_ != nullptr) FARCALL_DRIVER(cuLinkDestroy)(state_);
}

bool DeviceLinker::Fail(const char* call, CUresult result) {
  error_ = std::string(call) + ": error " + std::to_string(result);
  if (log_[0] != 0) error_ += std::string(": ") + log_;
  Log(LogLevel::kError, "nvJitLink: %s", error_.c_str());
  return false;
}

bool DeviceLinker::Begin() {
  if (state_ != nullptr) return true;
  const auto create = FARCALL_DRIVER(cuLinkCreate_v2);
  if (create == nullptr) {
    error_ = "no libcuda.so.1 that links";
    return false;
  }
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  const CUresult result = create(2, options, values_, &state_);
  return result == CUDA_SUCCESS || Fail("cuLinkCreate", result);
}

bool DeviceLinker::Add(CUjitInputType type, const void* data, size_t bytes) {
  SomeContext context;
  if (!Begin()) return false;
  const CUresult result = FARCALL_DRIVER(cuLinkAddData_v2)(state_, type, const_cast<void*>(data),
                                                           bytes, nullptr, 0, nullptr, nullptr);
  return result == CUDA_SUCCESS || Fail("cuLinkAddData", result);
}

bool DeviceLinker::Complete() {
  SomeContext context;
  void* image = nullptr;
  size_t bytes = 0;
  if (!Begin()) return false;
  const CUresult result = FARCALL_DRIVER(cuLinkComplete)(state_, &image, &bytes);
  if (result != CUDA_SUCCESS) return Fail("cuLinkComplete", result);
  linked_.assign(static_cast<const char*>(image), bytes);
  return true;
}

}  // namespace farcall::cpu_device
