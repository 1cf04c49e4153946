// SPDX-License-Identifier: Apache-2.0
#include "client-shim/cuda/launch/launch_attributes.h"

#include <algorithm>

#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/devices.h"
#include "client-shim/core/session/event_state.h"
#include "client-shim/cuda/state/module.h"
#include "client-shim/cuda/state/stream.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

constexpr uint64_t kPortableClusterBlocks = 8, kMaxClusterBlocks = 16;

enum class Kind { kCarried, kEvent, kUnsupported, kNone };

Kind KindOf(CUlaunchAttributeID id) {
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
      return Kind::kCarried;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
      return Kind::kEvent;
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
      return Kind::kUnsupported;
    default:
      return Kind::kNone;
  }
}

const Device& CurrentDevice() {
  return *FindDevice(CurrentContext()->device);
}

bool MayBeNonPortable(const Function& function) {
  constexpr int kAttribute = CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
  if (function.info->Attribute(kAttribute) != 0) return true;
  Function* root = function.kernel == nullptr ? const_cast<Function*>(&function) : function.kernel;
  std::lock_guard lock(root->mutex);
  return std::any_of(root->settings.begin(), root->settings.end(), [](const FunctionSetting& set) {
    return set.attribute == kAttribute && set.value != 0;
  });
}

CUresult CheckCluster(const Function& function, const LaunchShape& shape,
                      const unsigned (&cluster)[3]) {
  const bool is_one = cluster[0] == 1 && cluster[1] == 1 && cluster[2] == 1;
  if (CurrentDevice().Attribute(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH) == 0)
    return is_one ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
  uint64_t blocks = 1;
  for (int i = 0; i < 3; ++i) {
    if (cluster[i] == 0 || cluster[i] > kMaxClusterBlocks || shape.grid[i] % cluster[i] != 0)
      return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    blocks *= cluster[i];
  }
  const bool fits = blocks <= kPortableClusterBlocks ||
                    (blocks <= kMaxClusterBlocks && MayBeNonPortable(function));
  return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CLUSTER_SIZE;
}

// The driver knows what is resident at once; it is asked once for each function and block.
CUresult CheckCooperative(const Function& function, const LaunchShape& shape) {
  const Device& device = CurrentDevice();
  if (device.Attribute(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH) == 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  const uint64_t threads = uint64_t{shape.block[0]} * shape.block[1] * shape.block[2];
  int blocks = 0;
  const CUresult status = RoundTrip_cuOccupancyMaxActiveBlocksPerMultiprocessor(
      &blocks, reinterpret_cast<CUfunction>(function.handle), static_cast<int>(threads),
      shape.dynamic_shared);
  if (status != CUDA_SUCCESS) return status;
  const auto processors =
      static_cast<uint64_t>(device.Attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  const uint64_t rows = uint64_t{shape.grid[0]} * shape.grid[1];
  uint64_t grid = 0;
  const bool fits = !__builtin_mul_overflow(rows, uint64_t{shape.grid[2]}, &grid) &&
                    grid <= static_cast<uint64_t>(std::max(blocks, 0)) * processors;
  return fits ? CUDA_SUCCESS : CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
}

}  // namespace

CUresult TakeAttributes(const CUlaunchConfig& config, LaunchAttributes* taken) {
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config.attrs[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_IGNORE) continue;
    if (taken->count == LaunchAttributes::kMax || taken->event_count == LaunchAttributes::kMax)
      return CUDA_ERROR_INVALID_VALUE;
    switch (KindOf(attribute.id)) {
      case Kind::kCarried:
        taken->list[taken->count++] = attribute;
        break;
      case Kind::kEvent: {
        // Both unions begin with the event.
        CUevent event = attribute.value.programmaticEvent.event;
        if (FindEvent(event) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
        taken->events[taken->event_count++] = event;
        break;
      }
      case Kind::kUnsupported:
        return NotSupported(CallId::cuLaunchKernelEx);
      case Kind::kNone:
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

CUresult CheckAttributes(const Function& function, const LaunchShape& shape,
                         const CUlaunchAttribute* list, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    CUresult status = CUDA_SUCCESS;
    if (list[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      const auto& dimension = list[i].value.clusterDim;
      status = CheckCluster(function, shape, {dimension.x, dimension.y, dimension.z});
    } else if (list[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && list[i].value.cooperative != 0) {
      status = CheckCooperative(function, shape);
    }
    if (status != CUDA_SUCCESS) return status;
  }
  return CUDA_SUCCESS;
}

}  // namespace farcall::client
