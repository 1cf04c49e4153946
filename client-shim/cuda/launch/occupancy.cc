// SPDX-License-Identifier: Apache-2.0
#include "client-shim/cuda/launch/occupancy.h"

#include <algorithm>

#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/devices.h"
#include "client-shim/cuda/state/module.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

constexpr size_t kSharedUnit = 128;  // bytes, since compute capability 7.0
constexpr int kRegisterUnit = 256;   // registers a warp takes at a time
constexpr int kWarpGranularity = 4;  // warps are given out in fours

size_t RoundUp(size_t value, size_t unit) {
  return (value + unit - 1) / unit * unit;
}

OccupancyInputs InputsOf(const Function* function, const Device* device) {
  OccupancyInputs inputs;
  inputs.warp_size = std::max(1, device->Attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE));
  inputs.max_threads_per_sm = device->Attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  inputs.max_blocks_per_sm = device->Attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  inputs.registers_per_sm = device->Attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  inputs.shared_per_sm =
      device->Attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  inputs.reserved_shared_per_block =
      device->Attribute(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
  inputs.registers_per_thread = function->info->Attribute(CU_FUNC_ATTRIBUTE_NUM_REGS);
  inputs.static_shared = function->info->Attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  return inputs;
}

}  // namespace

int ActiveBlocks(const OccupancyInputs& inputs, int block_size, size_t dynamic_shared) {
  if (block_size <= 0 || inputs.max_threads_per_sm <= 0) return 0;
  int warps = (block_size + inputs.warp_size - 1) / inputs.warp_size;
  int blocks = inputs.max_threads_per_sm / inputs.warp_size / warps;
  if (inputs.max_blocks_per_sm > 0) blocks = std::min(blocks, inputs.max_blocks_per_sm);
  if (inputs.registers_per_thread > 0 && inputs.registers_per_sm > 0) {
    size_t per_warp =
        RoundUp(static_cast<size_t>(inputs.registers_per_thread) * inputs.warp_size, kRegisterUnit);
    int warps_by_registers =
        static_cast<int>(inputs.registers_per_sm / per_warp) / kWarpGranularity * kWarpGranularity;
    blocks = std::min(blocks, warps_by_registers / warps);
  }
  size_t shared = RoundUp(inputs.static_shared + dynamic_shared + inputs.reserved_shared_per_block,
                          kSharedUnit);
  if (shared > inputs.reserved_shared_per_block && inputs.shared_per_sm > 0 &&
      inputs.static_shared + dynamic_shared > 0)
    blocks = std::min(blocks, static_cast<int>(inputs.shared_per_sm / shared));
  return blocks;
}

CUresult Call_cuOccupancyMaxPotentialBlockSizeWithFlags(
    int* minGridSize, int* blockSize, CUfunction func,
    CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit,
    unsigned int flags) {
  Function* function = FindFunction(reinterpret_cast<uint64_t>(func));
  if (minGridSize == nullptr || blockSize == nullptr ||
      flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
    return CUDA_ERROR_INVALID_VALUE;
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Device* device = FindDevice(CurrentContext()->device);
  OccupancyInputs inputs = InputsOf(function, device);
  int limit = device->Attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  int own = function->info->Attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  if (own > 0) limit = std::min(limit, own);
  if (blockSizeLimit > 0) limit = std::min(limit, blockSizeLimit);
  int best_threads = 0;
  *minGridSize = *blockSize = 0;
  // The largest block wins among equals; the first try may be no multiple of a warp.
  for (int size = limit; size > 0; size = (size - 1) / inputs.warp_size * inputs.warp_size) {
    size_t dynamic =
        blockSizeToDynamicSMemSize != nullptr ? blockSizeToDynamicSMemSize(size) : dynamicSMemSize;
    int blocks = ActiveBlocks(inputs, size, dynamic);
    if (blocks * size <= best_threads) continue;
    best_threads = blocks * size;
    *blockSize = size;
    *minGridSize =
        blocks * std::max(1, device->Attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  }
  return CUDA_SUCCESS;
}

CUresult Call_cuOccupancyMaxPotentialBlockSize(int* minGridSize, int* blockSize, CUfunction func,
                                               CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                               size_t dynamicSMemSize, int blockSizeLimit) {
  return Call_cuOccupancyMaxPotentialBlockSizeWithFlags(
      minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit, 0);
}

}  // namespace farcall::client
