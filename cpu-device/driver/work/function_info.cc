// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/work/function_info.h"

#include <algorithm>

#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/state/module.h"

namespace farcall::cpu_device {
namespace {

const Profile& ProfileOf(const Function& function) {
  return function.context().device().profile;
}

int MaxThreads(const KernelInfo& info) {
  return static_cast<int>(std::min<uint32_t>(info.max_threads_per_block, kMaxThreadsPerBlock));
}

}  // namespace

int DynamicSharedLimit(const Function& function) {
  const int asked = function.max_dynamic_shared.load();
  if (asked >= 0) return asked;
  return std::max(0, ProfileOf(function).shared_per_block -
                         static_cast<int>(function.info().static_shared_bytes));
}

CUresult FunctionAttribute(const Function& function, CUfunction_attribute attribute, int* value) {
  const KernelInfo& info = function.info();
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = MaxThreads(info);
      break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = static_cast<int>(info.static_shared_bytes);
      break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      *value = static_cast<int>(info.const_bytes);
      break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *value = static_cast<int>(info.local_bytes);
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = static_cast<int>(std::min<uint32_t>(info.registers, 255));
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      *value = static_cast<int>(info.ptx_version);
      break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = info.binary_version != 0 ? static_cast<int>(info.binary_version)
                                        : ProfileOf(function).cc();
      break;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
      *value = 0;
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = DynamicSharedLimit(function);
      break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *value = function.carveout;
      break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
      *value = info.needs_cluster;
      break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      *value = static_cast<int>(
          info.required_cluster[attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH]);
      break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      *value = function.non_portable_cluster;
      break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      *value = function.cluster_policy;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult SetFunctionAttribute(Function& function, CUfunction_attribute attribute, int value) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: {
      const int room = ProfileOf(function).shared_per_block_optin -
                       static_cast<int>(function.info().static_shared_bytes);
      if (value < 0 || value > room) return CUDA_ERROR_INVALID_VALUE;
      function.max_dynamic_shared = value;
      return CUDA_SUCCESS;
    }
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
      function.carveout = value;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      if (!ProfileOf(function).clusters)
        return value == 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
      function.non_portable_cluster = value != 0;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      if (!ProfileOf(function).clusters)
        return value == 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
      if (value < 0 || value > CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING)
        return CUDA_ERROR_INVALID_VALUE;
      function.cluster_policy = value;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult ParamInfo(const Function& function, size_t index, size_t* offset, size_t* size) {
  const std::vector<KernelParam>& params = function.info().params;
  if (offset == nullptr || index >= params.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = params[index].offset_bytes;
  if (size != nullptr) *size = params[index].size_bytes;
  return CUDA_SUCCESS;
}

int ActiveBlocks(const Function& function, int block_size, size_t dynamic_shared) {
  const Profile& profile = ProfileOf(function);
  if (block_size > MaxThreads(function.info())) return 0;
  const int threads = (block_size + kWarpSize - 1) / kWarpSize * kWarpSize;
  int blocks =
      std::min(profile.blocks_per_multiprocessor, profile.threads_per_multiprocessor / threads);
  const size_t shared = function.info().static_shared_bytes + dynamic_shared;
  if (shared > static_cast<size_t>(profile.shared_per_block_optin)) return 0;
  if (shared != 0)
    blocks = std::min(
        blocks, static_cast<int>(static_cast<size_t>(profile.shared_per_multiprocessor) / shared));
  return blocks;
}

}  // namespace farcall::cpu_device
