// SPDX-License-Identifier: Apache-2.0
// descriptors N: describes the same tile of memory N times, as a launch that copies by tiles does.
#include <cudaTypedefs.h>

#include <cstdlib>
#include <cstring>

#include "check.h"

namespace {
PFN_cuTensorMapEncodeTiled_v12000 encode = nullptr;

// 32 x 32 numbers in tiles of 8 x 8.
CUtensorMap Describe(int* data) {
  CUtensorMap map;
  cuuint64_t extent[] = {32, 32}, strides[] = {128};
  cuuint32_t box[] = {8, 8}, steps[] = {1, 1};
  EXPECT(encode(&map, CU_TENSOR_MAP_DATA_TYPE_INT32, 2, data, extent, strides, box, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                CU_TENSOR_MAP_L2_PROMOTION_NONE,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS);
  return map;
}
}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 1;
  int* data = nullptr;
  cudaDriverEntryPointQueryResult found;
  CHECK(cudaMalloc(&data, 8192));
  CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled",
                                         reinterpret_cast<void**>(&encode), 12000,
                                         cudaEnableDefault, &found));
  const CUtensorMap here = Describe(data), there = Describe(data + 1024);
  EXPECT(std::memcmp(&here, &there, sizeof(here)) != 0);
  for (int round = 0; round < rounds; ++round) {
    const CUtensorMap again = Describe(round % 2 == 0 ? data : data + 1024);
    EXPECT(std::memcmp(&again, round % 2 == 0 ? &here : &there, sizeof(again)) == 0);
  }
  std::printf("ok\n");
  return 0;
}
