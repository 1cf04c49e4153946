// SPDX-License-Identifier: Apache-2.0
// Memory that ran out and was freed serves the driver too: code with variables loads, first seen
// and known.
#include <string>
#include <vector>

#include "driver.h"

namespace {

constexpr size_t kSmallest = size_t{1} << 20;

std::string WithVariable(const char* name) {
  return std::string(R"(.version 7.0
.target sm_70
.address_size 64
.visible .global .align 8 .b8 )") +
         name + "[4194304];\n";
}

std::vector<CUdeviceptr> TakeAll() {
  std::vector<CUdeviceptr> blocks;
  size_t free_bytes = 0, total = 0;
  CHECK(D(cuMemGetInfo_v2)(&free_bytes, &total));
  for (size_t bytes = free_bytes; bytes >= kSmallest;) {
    CUdeviceptr block = 0;
    CUresult result = D(cuMemAlloc_v2)(&block, bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
      bytes /= 2;
      continue;
    }
    CHECK(result);
    blocks.push_back(block);
  }
  return blocks;
}

void LoadAndUnload(const std::string& image, const char* name) {
  CUmodule module = nullptr;
  CUdeviceptr address = 0;
  size_t bytes = 0;
  CHECK(D(cuModuleLoadData)(&module, image.c_str()));
  CHECK(D(cuModuleGetGlobal_v2)(&address, &bytes, module, name));
  EXPECT(bytes == 4194304);
  unsigned word = 0;
  CHECK(D(cuMemsetD32_v2)(address, 77, bytes / 4));
  CHECK(D(cuMemcpyDtoH_v2)(&word, address + bytes - 4, 4));
  EXPECT(word == 77);
  CHECK(D(cuModuleUnload)(module));
}

}  // namespace

void Room() {
  std::string known = WithVariable("known"), fresh = WithVariable("fresh");
  LoadAndUnload(known, "known");
  std::vector<CUdeviceptr> blocks = TakeAll();
  EXPECT(!blocks.empty());
  for (CUdeviceptr block : blocks) CHECK(D(cuMemFree_v2)(block));
  LoadAndUnload(known, "known");
  blocks = TakeAll();
  for (CUdeviceptr block : blocks) CHECK(D(cuMemFree_v2)(block));
  LoadAndUnload(fresh, "fresh");
}
