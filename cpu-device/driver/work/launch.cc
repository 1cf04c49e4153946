// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/work/launch.h"

#include <climits>
#include <cstring>

#include "cpu-device/driver/base/log.h"
#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/state/module.h"
#include "cpu-device/driver/work/function_info.h"

namespace farcall::cpu_device {
namespace {

// A cluster is of at most eight blocks, or of sixteen where the function allows it, and divides the
// grid. One that the kernel was compiled with holds where the launch gives none.
CUresult CheckCluster(const Function& function, const LaunchConfig& config) {
  const uint32_t* required = function.info().required_cluster;
  const Dim3 given = config.cluster;
  const bool is_given = given.x != 1 || given.y != 1 || given.z != 1;
  const Dim3 cluster =
      is_given || required[0] == 0 ? given : Dim3{required[0], required[1], required[2]};
  const uint64_t blocks = uint64_t{cluster.x} * cluster.y * cluster.z;
  if (!is_given && required[0] == 0)
    return function.info().needs_cluster ? CUDA_ERROR_INVALID_CLUSTER_SIZE : CUDA_SUCCESS;
  if (!function.context().device().profile.clusters)
    return blocks == 1 ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
  const bool differs = required[0] != 0 && (cluster.x != required[0] || cluster.y != required[1] ||
                                            cluster.z != required[2]);
  const uint64_t most = function.non_portable_cluster ? 16 : 8;
  if (differs || blocks == 0 || blocks > most || config.grid.x % cluster.x != 0 ||
      config.grid.y % cluster.y != 0 || config.grid.z % cluster.z != 0)
    return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  return CUDA_SUCCESS;
}

CUresult CheckShape(const Function& function, const LaunchConfig& config) {
  const Dim3 &grid = config.grid, &block = config.block;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (grid.x > INT_MAX || grid.y > 65535 || grid.z > 65535) return CUDA_ERROR_INVALID_VALUE;
  if (block.x > 1024 || block.y > 1024 || block.z > 64) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads > kMaxThreadsPerBlock) return CUDA_ERROR_INVALID_VALUE;
  const KernelInfo& info = function.info();
  const uint32_t* required = info.required_block;
  if (required[0] != 0 &&
      (block.x != required[0] || block.y != required[1] || block.z != required[2]))
    return CUDA_ERROR_INVALID_VALUE;
  if (threads > info.max_threads_per_block) {
    Log(LogLevel::kInfo, "kernel %s: block of %llu threads, at most %u", info.name.c_str(),
        static_cast<unsigned long long>(threads), info.max_threads_per_block);
    // Of PTX, what limits a block is what the kernel declares; of machine code, its registers too.
    return info.binary_version != 0 ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES : CUDA_ERROR_INVALID_VALUE;
  }
  if (config.dynamic_shared_bytes > static_cast<uint32_t>(DynamicSharedLimit(function)))
    return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = CheckCluster(function, config)) return result;
  if (!config.cooperative) return CUDA_SUCCESS;
  const uint64_t resident =
      static_cast<uint64_t>(
          ActiveBlocks(function, static_cast<int>(threads), config.dynamic_shared_bytes)) *
      static_cast<uint64_t>(function.context().device().profile.multiprocessors);
  const bool fits = uint64_t{grid.x} * grid.y * grid.z <= resident;
  return fits ? CUDA_SUCCESS : CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
}

CUresult FromExtra(void** extra, std::vector<uint8_t>* params) {
  const void* buffer = nullptr;
  const size_t* bytes = nullptr;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2)
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
      buffer = extra[1];
    else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
      bytes = static_cast<const size_t*>(extra[1]);
    else
      return CUDA_ERROR_INVALID_VALUE;
  if (bytes == nullptr || (buffer == nullptr && *bytes != 0) || *bytes < params->size())
    return CUDA_ERROR_INVALID_VALUE;
  if (buffer != nullptr) memcpy(params->data(), buffer, params->size());
  return CUDA_SUCCESS;
}

}  // namespace

CUresult PrepareLaunch(std::shared_ptr<Function> function, const LaunchConfig& config,
                       void** kernel_params, void** extra, KernelOp* op) {
  if (const CUresult result = CheckShape(*function, config)) return result;
  const KernelInfo& info = function->info();
  op->config = config;
  op->params.assign(info.param_bytes, 0);
  if (kernel_params != nullptr && extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (extra != nullptr) {
    if (const CUresult result = FromExtra(extra, &op->params)) return result;
  } else if (!info.params.empty()) {
    if (kernel_params == nullptr) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < info.params.size(); ++i) {
      if (kernel_params[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
      memcpy(op->params.data() + info.params[i].offset_bytes, kernel_params[i],
             info.params[i].size_bytes);
    }
  }
  op->function = std::move(function);
  return CUDA_SUCCESS;
}

}  // namespace farcall::cpu_device
