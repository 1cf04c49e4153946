// SPDX-License-Identifier: Apache-2.0
// The other process of ipc_memory_test.cc: opens what it is given, checks it and doubles it.
//
//   ipc_child memory HEX           a CUipcMemHandle
//   ipc_child pool DESCRIPTOR HEX  a pool's file and a CUmemPoolPtrExportData
//
// 64 ints are there, 0 1 2 ...; exits with 0, or with the number of the line that failed.
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/cpu_device/driver_fixture.h"
#include "tests/cpu_device/hex.h"

using namespace farcall::cpu_device;

#define CHECK(condition) \
  if (!(condition)) exit(__LINE__ % 100 + 1)
#define CHECK_OK(call) CHECK((call) == CUDA_SUCCESS)

namespace {

void Double(CUdeviceptr data) {
  constexpr unsigned kCount = 64;
  std::vector<int> values(kCount);
  CHECK_OK(CU(cuMemcpyDtoH_v2)(values.data(), data, kCount * sizeof(int)));
  for (unsigned i = 0; i < kCount; ++i) CHECK(values[i] == static_cast<int>(i));
  CUmodule module = nullptr;
  CUfunction scale = nullptr;
  CHECK_OK(CU(cuModuleLoadData)(&module, Ptx()));
  CHECK_OK(CU(cuModuleGetFunction)(&scale, module, "scale"));
  int factor = 2, count = kCount;
  void* params[] = {&data, &factor, &count};
  CHECK_OK(CU(cuLaunchKernel)(scale, 1, 1, 1, kCount, 1, 1, 0, nullptr, params, nullptr));
  CHECK_OK(CU(cuCtxSynchronize)());
}

void OpenMemory(const std::string& text) {
  CUipcMemHandle handle;
  CHECK(FromHex(text, &handle));
  CUdeviceptr data = 0, again = 0;
  CHECK_OK(CU(cuIpcOpenMemHandle_v2)(&data, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  CHECK_OK(CU(cuIpcOpenMemHandle_v2)(&again, handle, 0));
  CHECK(again == data);
  CHECK(CU(cuMemFree_v2)(data) == CUDA_ERROR_INVALID_VALUE);
  CHECK_OK(CU(cuIpcCloseMemHandle)(again));
  Double(data);
  CHECK_OK(CU(cuIpcCloseMemHandle)(data));
  CHECK(CU(cuIpcCloseMemHandle)(data) == CUDA_ERROR_INVALID_VALUE);
}

void OpenPool(int descriptor, const std::string& text) {
  CUmemPoolPtrExportData exported;
  CHECK(FromHex(text, &exported));
  CUmemoryPool pool = nullptr;
  CHECK_OK(CU(cuMemPoolImportFromShareableHandle)(
      &pool, reinterpret_cast<void*>(static_cast<intptr_t>(descriptor)),
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  CUdeviceptr data = 0, other = 0;
  CHECK(CU(cuMemAllocFromPoolAsync)(&other, 64, pool, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK_OK(CU(cuMemPoolImportPointer)(&data, pool, &exported));
  Double(data);
  CHECK_OK(CU(cuMemFreeAsync)(data, nullptr));
  CHECK_OK(CU(cuMemPoolDestroy)(pool));
}

}  // namespace

int main(int argc, char** argv) {
  CUcontext context = nullptr;
  CHECK(argc >= 3);
  CHECK_OK(CU(cuInit)(0));
  CHECK_OK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
  CHECK_OK(CU(cuCtxSetCurrent)(context));
  if (std::string(argv[1]) == "memory") {
    OpenMemory(argv[2]);
  } else {
    CHECK(argc == 4);
    OpenPool(atoi(argv[2]), argv[3]);
  }
  return 0;
}
