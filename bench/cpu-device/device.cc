// SPDX-License-Identifier: Apache-2.0
#include "bench/cpu-device/device.h"

#include <dlfcn.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>

namespace farcall::bench {

double ProcessorMs() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

// cuda.h gives the type, the library of the path the function.
template <typename Function, typename... Arguments>
void Device::Call(const char* name, Arguments... arguments) {
  const auto function = reinterpret_cast<Function*>(dlsym(library_, name));
  if (function == nullptr) {
    fprintf(stderr, "bench: the library has no %s\n", name);
    exit(1);
  }
  if (const CUresult result = function(arguments...); result != CUDA_SUCCESS) {
    fprintf(stderr, "bench: %s returned %d\n", name, static_cast<int>(result));
    exit(1);
  }
}

Device::Device(const std::string& library) {
  const double start = ProcessorMs();
  library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) {
    fprintf(stderr, "bench: %s\n", dlerror());
    exit(1);
  }
  Call<decltype(cuInit)>("cuInit", 0u);
  initialised_ms_ = ProcessorMs() - start;
}

void Device::MakeContext() {
  Call<decltype(cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain", &context_, 0);
  Call<decltype(cuCtxSetCurrent)>("cuCtxSetCurrent", context_);
}

CUmodule Device::Load(const char* image) {
  CUmodule module = nullptr;
  Call<decltype(cuModuleLoadData)>("cuModuleLoadData", &module, image);
  return module;
}

CUfunction Device::Find(CUmodule module, const char* kernel) {
  CUfunction function = nullptr;
  Call<decltype(cuModuleGetFunction)>("cuModuleGetFunction", &function, module, kernel);
  return function;
}

CUdeviceptr Device::Allocate(size_t bytes) {
  CUdeviceptr address = 0;
  Call<decltype(cuMemAlloc_v2)>("cuMemAlloc_v2", &address, bytes);
  return address;
}

CUdeviceptr Device::AllocateHost(size_t bytes) {
  void* memory = nullptr;
  Call<decltype(cuMemHostAlloc)>("cuMemHostAlloc", &memory, bytes, CU_MEMHOSTALLOC_DEVICEMAP);
  return reinterpret_cast<CUdeviceptr>(memory);
}

CUdeviceptr Device::Register(void* memory, size_t bytes) {
  Call<decltype(cuMemHostRegister_v2)>("cuMemHostRegister_v2", memory, bytes,
                                       CU_MEMHOSTREGISTER_DEVICEMAP);
  return reinterpret_cast<CUdeviceptr>(memory);
}

void Device::Unregister(CUdeviceptr memory) {
  Call<decltype(cuMemHostUnregister)>("cuMemHostUnregister", reinterpret_cast<void*>(memory));
}

void Device::Up(CUdeviceptr to, const void* from, size_t bytes) {
  Call<decltype(cuMemcpyHtoD_v2)>("cuMemcpyHtoD_v2", to, from, bytes);
}

void Device::Down(void* to, CUdeviceptr from, size_t bytes) {
  Call<decltype(cuMemcpyDtoH_v2)>("cuMemcpyDtoH_v2", to, from, bytes);
}

void Device::Zero(CUdeviceptr at, size_t bytes) {
  Call<decltype(cuMemsetD8_v2)>("cuMemsetD8_v2", at, 0, bytes);
}

void Device::Launch(CUfunction kernel, unsigned grid_x, unsigned grid_y, unsigned block_x,
                    unsigned block_y, std::initializer_list<const void*> arguments) {
  void* list[8] = {};
  size_t count = 0;
  for (const void* argument : arguments) list[count++] = const_cast<void*>(argument);
  Call<decltype(cuLaunchKernel)>("cuLaunchKernel", kernel, grid_x, grid_y, 1u, block_x, block_y, 1u,
                                 0u, nullptr, list, nullptr);
}

void Device::Wait() {
  Call<decltype(cuCtxSynchronize)>("cuCtxSynchronize");
}

}  // namespace farcall::bench
