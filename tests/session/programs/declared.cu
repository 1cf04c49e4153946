// SPDX-License-Identifier: Apache-2.0
// Variables in device memory under a quota of 64 MiB: a library's (machine code and PTX in one
// image), then a module's, by PTX text. Freed memory is back when its owner is unloaded.
#include <cstring>
#include <string>

#include "check.h"
#include "driver.h"

namespace {

constexpr size_t kMiB = 1 << 20;

__device__ unsigned char declared[32 * kMiB];

__global__ void Touch(int at) {
  declared[at] += 1;
}

size_t Free() {
  size_t free = 0, total = 0;
  CHECK(cudaMemGetInfo(&free, &total));
  return free;
}

std::string Text(size_t bytes) {
  return ".version 7.0\n.target sm_75\n.address_size 64\n.visible .global .align 8 .b8 room[" +
         std::to_string(bytes) + "];\n";
}

// Loads the text and sees its variable: it is there when this returns.
CUmodule Load(size_t bytes) {
  CUmodule module = nullptr;
  CUdeviceptr room = 0;
  size_t found = 0;
  CU_CHECK(CU(cuModuleLoadData)(&module, Text(bytes).c_str()));
  CU_CHECK(CU(cuModuleGetGlobal)(&room, &found, module, "room"));
  EXPECT(found == bytes);
  return module;
}

// A load is not waited for: the next wait tells.
bool Refused(const std::string& text) {
  CUmodule module = nullptr;
  CUresult result = CU(cuModuleLoadData)(&module, text.c_str());
  if (result == CUDA_SUCCESS) result = CU(cuCtxSynchronize)();
  return result == CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace

int main() {
  const size_t before = Free();
  Touch<<<1, 1>>>(5);
  CHECK(cudaDeviceSynchronize());
  EXPECT(before - Free() == 32 * kMiB);

  const CUmodule module = Load(12 * kMiB);
  EXPECT(before - Free() == 44 * kMiB);
  EXPECT(Refused(Text(21 * kMiB)) && Refused(Text(size_t{1} << 40)));
  EXPECT(before - Free() == 44 * kMiB);
  void* rest = nullptr;
  EXPECT(cudaMalloc(&rest, 20 * kMiB + 1) == cudaErrorMemoryAllocation);
  EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaMalloc(&rest, 20 * kMiB));
  EXPECT(Free() == 0);
  CU_CHECK(CU(cuModuleUnload)(module));
  EXPECT(Free() == 12 * kMiB);
  CHECK(cudaFree(rest));
  EXPECT(Free() == 32 * kMiB);
  Load(15 * kMiB);
  EXPECT(Free() == 17 * kMiB);
  std::printf("done\n");
}
