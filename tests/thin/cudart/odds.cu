// SPDX-License-Identifier: Apache-2.0
#include <cuda_profiler_api.h>

#include <thread>

#include "trace.h"

namespace {

void OtherThread() {
  T(cudaPeekAtLastError());
  int device = -1;
  T(cudaGetDevice(&device));
  V(device);
  void* p = nullptr;
  T(cudaMalloc(&p, 64));
  T(cudaFree(p));
  cudaSetDevice(31);
}

}  // namespace

void TraceOdds() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult status;
  T(cudaGetDriverEntryPoint("cuMemAlloc", &function, cudaEnableDefault, &status));
  V(function != nullptr);
  V(status);
  T(cudaGetDriverEntryPoint("cuNoSuchCall", &function, cudaEnableDefault, &status));
  V(status);
  T(cudaGetDriverEntryPoint("cuNoSuchCall", &function, cudaEnableDefault));
  T(cudaGetDriverEntryPoint("cuMemAlloc", &function, 77, &status));
  T(cudaGetDriverEntryPoint(nullptr, &function, 0, &status));
  T(cudaGetDriverEntryPoint("cuMemAlloc", nullptr, 0, &status));
  T(cudaGetDriverEntryPointByVersion("cuStreamGetCaptureInfo", &function, 12000, cudaEnableDefault,
                                     &status));
  V(status);
  T(cudaGetDriverEntryPointByVersion("cuStreamGetCaptureInfo", &function, 2000, cudaEnableDefault,
                                     &status));
  V(status);
  T(cudaProfilerStart());
  T(cudaProfilerStop());
  cudaSetDevice(30);
  std::thread(OtherThread).join();
  T(cudaPeekAtLastError());
  const void* table = nullptr;
  cudaUUID_t unknown = {};
  T(cudaGetExportTable(&table, &unknown));
  T(cudaGetExportTable(nullptr, &unknown));
  T(cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTargetCurrentDevice,
                                       cudaFlushGPUDirectRDMAWritesToOwner));
  cudaExternalMemory_t memory = nullptr;
  cudaExternalMemoryHandleDesc handle = {};
  handle.type = static_cast<cudaExternalMemoryHandleType>(99);
  T(cudaImportExternalMemory(&memory, &handle));
  T(cudaImportExternalMemory(nullptr, &handle));
  T(cudaDestroyExternalMemory(nullptr));
  cudaLogIterator iterator = 0;
  T(cudaLogsCurrent(&iterator, 0));
  char text[256] = "";
  size_t size = sizeof(text);
  T(cudaLogsDumpToMemory(nullptr, text, &size, 0));
  unsigned capabilities[1] = {};
  cudaAtomicOperation operations[] = {cudaAtomicOperationIntegerAdd};
  T(cudaDeviceGetHostAtomicCapabilities(capabilities, operations, 1, 0));
  T(cudaDeviceGetP2PAtomicCapabilities(capabilities, operations, 1, 0, 0));
}

// Last: what was made before is gone, and the runtime starts anew.
void TraceReset() {
  void *p = nullptr, *q = nullptr;
  T(cudaMalloc(&p, 128));
  T(cudaDeviceReset());
  T(cudaFree(p));
  T(cudaMalloc(&q, 128));
  T(cudaMemset(q, 1, 128));
  T(cudaFree(q));
  int device = -1;
  T(cudaGetDevice(&device));
  V(device);
  T(cudaDeviceReset());
  T(cudaDeviceReset());
}
