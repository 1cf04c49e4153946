// SPDX-License-Identifier: Apache-2.0
// The names that default to the thread's own stream, by symbol, by cuGetProcAddress, and from a
// second thread.
#include <thread>
#include <vector>

#include "tests/api_trace/trace.h"

namespace {

// The function that a program compiled for per-thread default streams is given.
template <typename Function>
Function PerThread(const char* name, int version) {
  void* found = nullptr;
  CUdriverProcAddressQueryResult status{};
  auto get = reinterpret_cast<decltype(&cuGetProcAddress_v2)>(
      dlsym(trace::Library(), "cuGetProcAddress_v2"));
  CUresult result =
      get(name, &found, version, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status);
  std::printf("cuGetProcAddress_v2 %s -> %d\n", name, static_cast<int>(result));
  return reinterpret_cast<Function>(found);
}

void TraceFillsAndCopies(CUdeviceptr a, CUdeviceptr b) {
  std::vector<unsigned char> up(1024, 3), down(1024);
  T("", cuMemcpyHtoD_v2_ptds, a, up.data(), up.size());
  T("", cuMemcpyDtoD_v2_ptds, b, a, 1024);
  T("", cuMemcpyDtoH_v2_ptds, down.data(), b, down.size());
  V("arrived", "%d", down == up);
  T("", cuMemcpy_ptds, b, a, 100);
  T("", cuMemcpyAsync_ptsz, b, a, 100, nullptr);
  T("", cuMemcpyHtoDAsync_v2_ptsz, a, up.data(), 512, nullptr);
  T("", cuMemcpyDtoDAsync_v2_ptsz, b, a, 512, nullptr);
  T("", cuMemcpyDtoHAsync_v2_ptsz, down.data(), b, 512, nullptr);
  T("", cuMemsetD8_v2_ptds, a, 1, 64);
  T("", cuMemsetD16_v2_ptds, a, 1, 64);
  T("", cuMemsetD32_v2_ptds, a, 1, 64);
  T("", cuMemsetD2D8_v2_ptds, a, 64, 1, 16, 4);
  T("", cuMemsetD2D16_v2_ptds, a, 64, 1, 16, 4);
  T("", cuMemsetD2D32_v2_ptds, a, 64, 1, 16, 4);
  T("", cuMemsetD8Async_ptsz, a, 2, 64, nullptr);
  T("", cuMemsetD16Async_ptsz, a, 2, 64, nullptr);
  T("", cuMemsetD32Async_ptsz, a, 2, 64, nullptr);
  T("", cuMemsetD2D8Async_ptsz, a, 64, 2, 16, 4, nullptr);
  T("", cuMemsetD2D16Async_ptsz, a, 64, 2, 16, 4, nullptr);
  T("", cuMemsetD2D32Async_ptsz, a, 64, 2, 16, 4, nullptr);
  T("", cuStreamSynchronize_ptsz, nullptr);
  T("wild", cuMemsetD8_v2_ptds, 0x100, 1, 64);
  T("wild", cuMemcpyHtoD_v2_ptds, 0x100, up.data(), 64);
  T("odd", cuMemsetD32_v2_ptds, a + 1, 1, 64);
}

void TraceByLookup(CUdeviceptr a) {
  auto fill = PerThread<decltype(&cuMemsetD32Async)>("cuMemsetD32Async", 12000);
  auto wait = PerThread<decltype(&cuStreamSynchronize)>("cuStreamSynchronize", 12000);
  auto create = PerThread<decltype(&cuCtxCreate_v2)>("cuCtxCreate", 4000);
  trace::Call("cuMemsetD32Async", "by lookup", fill, a, 5u, size_t{10}, CUstream{nullptr});
  trace::Call("cuStreamSynchronize", "by lookup", wait, CUstream{nullptr});
  V("older", "%d", create != nullptr);
  for (const char* name :
       {"cuMemAlloc", "cuMemcpyHtoD", "cuEventElapsedTime", "cuStreamGetCaptureInfo",
        "cuGraphInstantiate", "cuCtxDestroy", "cuMemHostRegister", "cuGetProcAddress"}) {
    for (int version : {2000, 4000, 6050, 11000, 12000, 13000}) {
      void* found = nullptr;
      CUdriverProcAddressQueryResult status{};
      T(name, cuGetProcAddress_v2, name, &found, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM,
        &status);
      V("status", "%d", static_cast<int>(status));
    }
  }
}

void TraceOtherThread(CUdeviceptr a) {
  CUcontext context = nullptr, none = nullptr;
  T("", cuCtxGetCurrent, &context);
  std::thread([&] {
    T("second thread", cuCtxGetCurrent, &none);
    V("none", "%d", none == nullptr);
    T("second thread", cuMemsetD8_v2, a, 1, 16);
    T("second thread", cuCtxSetCurrent, context);
    T("second thread", cuMemsetD8Async_ptsz, a, 7, 16, nullptr);
    T("second thread", cuStreamSynchronize_ptsz, nullptr);
    T("second thread", cuMemsetD16_v2, a, 7, 16);
    T("second thread", cuCtxSynchronize);
  }).join();
  unsigned char byte = 0;
  T("", cuMemcpyDtoH_v2, &byte, a, 1);
  V("byte", "%d", byte);
}

}  // namespace

void TraceDefaultStreams(const char* ptx) {
  CUdeviceptr a = 0, b = 0;
  CUmodule module = nullptr;
  CUfunction fill = nullptr;
  unsigned value = 77, count = 16, back = 0;
  T("", cuMemAlloc_v2, &a, 1024);
  T("", cuMemAlloc_v2, &b, 1024);
  TraceFillsAndCopies(a, b);
  TraceByLookup(a);
  TraceOtherThread(a);
  T("", cuModuleLoadData, &module, ptx);
  T("", cuModuleGetFunction, &fill, module, "fill");
  void* parameters[] = {&a, &value, &count};
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 16, config.blockDimY = config.blockDimZ = 1;
  T("", cuLaunchKernel_ptsz, fill, 1, 1, 1, 16, 1, 1, 0u, nullptr, parameters, nullptr);
  T("", cuLaunchKernelEx_ptsz, &config, fill, parameters, nullptr);
  T("", cuLaunchCooperativeKernel_ptsz, fill, 1, 1, 1, 16, 1, 1, 0u, nullptr, parameters);
  T("null", cuLaunchKernel_ptsz, nullptr, 1, 1, 1, 16, 1, 1, 0u, nullptr, parameters, nullptr);
  T("", cuStreamSynchronize_ptsz, nullptr);
  T("", cuMemcpyDtoH_v2_ptds, &back, a, 4);
  V("back", "%u", back);
  T("", cuModuleUnload, module);
  T("", cuMemFree_v2, a);
  T("", cuMemFree_v2, b);
}
