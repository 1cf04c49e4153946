// SPDX-License-Identifier: Apache-2.0
#include "trace.h"

namespace {

const char kPtx[] =
    ".version 8.0\n.target sm_75\n.address_size 64\n"
    ".visible .global .align 4 .u32 counter = 17;\n"
    ".visible .entry store(.param .u64 to, .param .u32 value) {\n"
    "  .reg .b64 %rd<3>;\n  .reg .b32 %r<2>;\n"
    "  ld.param.u64 %rd1, [to];\n  ld.param.u32 %r1, [value];\n  cvta.to.global.u64 %rd2, %rd1;\n"
    "  st.global.u32 [%rd2], %r1;\n  ret;\n}\n";

}  // namespace

void TraceLibraries() {
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr, kernels[4] = {};
  void* address = nullptr;
  size_t bytes = 0;
  unsigned count = 0;
  T(cudaLibraryLoadData(&library, "nonsense", nullptr, nullptr, 0, nullptr, nullptr, 0));
  T(cudaLibraryLoadData(nullptr, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  T(cudaLibraryLoadData(&library, nullptr, nullptr, nullptr, 0, nullptr, nullptr, 0));
  T(cudaLibraryLoadFromFile(&library, "/nowhere", nullptr, nullptr, 0, nullptr, nullptr, 0));
  T(cudaLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  T(cudaLibraryGetKernel(&kernel, library, "store"));
  T(cudaLibraryGetKernel(&kernel, library, "none"));
  T(cudaLibraryGetKernel(nullptr, library, "store"));
  T(cudaLibraryGetKernel(&kernel, library, "store"));
  T(cudaLibraryGetGlobal(&address, &bytes, library, "counter"));
  V(bytes);
  int value = 0;
  T(cudaMemcpy(&value, address, 4, cudaMemcpyDeviceToHost));
  V(value);
  T(cudaLibraryGetGlobal(&address, &bytes, library, "none"));
  T(cudaLibraryGetManaged(&address, &bytes, library, "none"));
  T(cudaLibraryGetKernelCount(&count, library));
  V(count);
  T(cudaLibraryEnumerateKernels(kernels, 4, library));
  V(kernels[0] == kernel);
  int* device = nullptr;
  unsigned stored = 99;
  void* args[] = {&device, &stored};
  T(cudaMalloc(&device, 4));
  auto symbol = reinterpret_cast<const void*>(kernel);
  T(cudaLaunchKernel(symbol, dim3(1), dim3(1), args, 0, 0));
  T(cudaMemcpy(&value, device, 4, cudaMemcpyDeviceToHost));
  V(value);
  cudaFuncAttributes attributes = {};
  T(cudaFuncGetAttributes(&attributes, symbol));
  V(attributes.maxThreadsPerBlock);
  const char* name = nullptr;
  T(cudaFuncGetName(&name, symbol));
  TEXT(name);
  T(cudaFree(device));
  T(cudaLibraryUnload(library));
  T(cudaLibraryUnload(nullptr));
}
