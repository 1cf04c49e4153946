// SPDX-License-Identifier: Apache-2.0
// Functions: attributes, parameters, occupancy.
#include <algorithm>

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/state/module.h"
#include "cpu-device/driver/work/function_info.h"

namespace farcall::cpu_device {
namespace {

CUresult Enter(CUfunction handle, std::shared_ptr<Function>* function) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  return ResolveFunction(*context, handle, function);
}

CUresult BestBlockSize(int* grid, int* block, CUfunction handle, CUoccupancyB2DSize shared_of,
                       size_t dynamic_shared, int limit) {
  std::shared_ptr<Function> function;
  if (const CUresult result = Enter(handle, &function)) return result;
  if (grid == nullptr || block == nullptr) return CUDA_ERROR_INVALID_VALUE;
  int most = kMaxThreadsPerBlock;
  if (const CUresult result =
          FunctionAttribute(*function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &most))
    return result;
  if (limit > 0) most = std::min(most, limit);
  int best_threads = 0;
  // From the largest down, so that of equal occupancies the largest block wins.
  for (int size = (most + kWarpSize - 1) / kWarpSize * kWarpSize; size > 0; size -= kWarpSize) {
    const int threads = std::min(size, most);
    const size_t shared = shared_of != nullptr ? shared_of(threads) : dynamic_shared;
    const int blocks = ActiveBlocks(*function, threads, shared);
    if (blocks * threads <= best_threads) continue;
    best_threads = blocks * threads;
    *block = threads;
    *grid = blocks * function->context().device().profile.multiprocessors;
  }
  return best_threads == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // namespace
}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;

extern "C" {

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction handle) {
  std::shared_ptr<Function> function;
  if (const CUresult result = Enter(handle, &function)) return result;
  return value == nullptr ? CUDA_ERROR_INVALID_VALUE
                          : FunctionAttribute(*function, attribute, value);
}

CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value) {
  std::shared_ptr<Function> function;
  if (const CUresult result = Enter(handle, &function)) return result;
  return SetFunctionAttribute(*function, attribute, value);
}

CUresult cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache config) {
  if (static_cast<unsigned>(config) > CU_FUNC_CACHE_PREFER_EQUAL) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Function> function;
  return Enter(handle, &function);
}

CUresult cuFuncSetSharedMemConfig(CUfunction handle, CUsharedconfig config) {
  if (static_cast<unsigned>(config) > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE)
    return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Function> function;
  return Enter(handle, &function);
}

CUresult cuFuncGetModule(CUmodule* module, CUfunction handle) {
  std::shared_ptr<Function> function;
  if (const CUresult result = Enter(handle, &function)) return result;
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *module = function->module().handle();
  return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char** name, CUfunction handle) {
  std::shared_ptr<Function> function;
  if (const CUresult result = Enter(handle, &function)) return result;
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = function->name().c_str();
  return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction handle, size_t index, size_t* offset, size_t* size) {
  std::shared_ptr<Function> function;
  if (const CUresult result = Enter(handle, &function)) return result;
  return ParamInfo(*function, index, offset, size);
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction handle) {
  std::shared_ptr<Function> function;
  if (const CUresult result = Enter(handle, &function)) return result;
  if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *state = function->loaded ? CU_FUNCTION_LOADING_STATE_LOADED : CU_FUNCTION_LOADING_STATE_UNLOADED;
  return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction handle) {
  std::shared_ptr<Function> function;
  if (const CUresult result = Enter(handle, &function)) return result;
  return function->Load();
}

namespace {

int MostClusterBlocks(const Function& function) {
  if (!function.context().device().profile.clusters) return 1;
  return function.non_portable_cluster ? 16 : 8;
}

// Of the cluster that the launch asks for, else of the one the kernel was compiled with.
CUresult ClusterBlocks(const Function& function, const CUlaunchConfig& config, uint64_t* blocks) {
  const uint32_t* required = function.info().required_cluster;
  *blocks = required[0] == 0 ? 1 : uint64_t{required[0]} * required[1] * required[2];
  if (config.numAttrs != 0 && config.attrs == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    if (config.attrs[i].id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) continue;
    const auto& size = config.attrs[i].value.clusterDim;
    constexpr unsigned kMax = 1 << 20;  // no product overflows
    if (size.x > kMax || size.y > kMax || size.z > kMax) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    *blocks = uint64_t{size.x} * size.y * size.z;
  }
  if (*blocks <= static_cast<uint64_t>(MostClusterBlocks(function)) && *blocks != 0)
    return CUDA_SUCCESS;
  return function.context().device().profile.clusters ? CUDA_ERROR_INVALID_CLUSTER_SIZE
                                                      : CUDA_ERROR_NOT_SUPPORTED;
}

// Of the launch's shape, on one multiprocessor.
CUresult BlocksOf(const Function& function, const CUlaunchConfig& config, int* blocks) {
  constexpr unsigned kMax = kMaxThreadsPerBlock;
  if (config.blockDimX > kMax || config.blockDimY > kMax || config.blockDimZ > kMax)
    return CUDA_ERROR_INVALID_VALUE;
  const uint64_t threads = uint64_t{config.blockDimX} * config.blockDimY * config.blockDimZ;
  if (threads == 0 || threads > kMax) return CUDA_ERROR_INVALID_VALUE;
  *blocks = ActiveBlocks(function, static_cast<int>(threads), config.sharedMemBytes);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction handle,
                                                              int block_size, size_t dynamic_shared,
                                                              unsigned int flags) {
  std::shared_ptr<Function> function;
  if (const CUresult result = Enter(handle, &function)) return result;
  if (blocks == nullptr || block_size <= 0 || (flags & ~CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  *blocks = ActiveBlocks(*function, block_size, dynamic_shared);
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function,
                                                     int block_size, size_t dynamic_shared) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size,
                                                              dynamic_shared, 0);
}

// How many clusters fit is told from how many blocks do: what a card's clusters lose at the edges
// of its processor groups is not modelled.
CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction handle,
                                      const CUlaunchConfig* config) {
  if (clusters == nullptr || config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Function> function;
  if (const CUresult result = Enter(handle, &function)) return result;
  uint64_t size = 1;
  if (const CUresult result = ClusterBlocks(*function, *config, &size)) return result;
  int blocks = 0;
  if (const CUresult result = BlocksOf(*function, *config, &blocks)) return result;
  const auto fitting = static_cast<uint64_t>(blocks) *
                       static_cast<uint64_t>(TheDriver().profile.multiprocessors) / size;
  *clusters = static_cast<int>(fitting);
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialClusterSize(int* size, CUfunction handle,
                                            const CUlaunchConfig* config) {
  if (size == nullptr || config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Function> function;
  if (const CUresult result = Enter(handle, &function)) return result;
  int blocks = 0;
  if (const CUresult result = BlocksOf(*function, *config, &blocks)) return result;
  *size = blocks == 0 ? 0 : MostClusterBlocks(*function);
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction function,
                                          CUoccupancyB2DSize shared_of, size_t dynamic_shared,
                                          int limit) {
  return BestBlockSize(grid, block, function, shared_of, dynamic_shared, limit);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction function,
                                                   CUoccupancyB2DSize shared_of,
                                                   size_t dynamic_shared, int limit, unsigned int) {
  return BestBlockSize(grid, block, function, shared_of, dynamic_shared, limit);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, CUfunction handle, int blocks,
                                                 int block_size) {
  std::shared_ptr<Function> function;
  if (const CUresult result = Enter(handle, &function)) return result;
  if (bytes == nullptr || blocks <= 0 || block_size <= 0) return CUDA_ERROR_INVALID_VALUE;
  const Profile& profile = function->context().device().profile;
  if (ActiveBlocks(*function, block_size, 0) < blocks) {
    *bytes = 0;
    return CUDA_SUCCESS;
  }
  const int each =
      std::min(profile.shared_per_multiprocessor / blocks, profile.shared_per_block_optin);
  *bytes = static_cast<size_t>(
      std::max(0, each - static_cast<int>(function->info().static_shared_bytes)));
  return CUDA_SUCCESS;
}

}  // extern "C"
