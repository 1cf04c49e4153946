// SPDX-License-Identifier: Apache-2.0
// Kernel launches: checked here as CUDA checks them, packed by the kernel's own layout, posted.
#include <cstring>
#include <memory>

#include "client-shim/core/calls.h"
#include "client-shim/core/devices.h"
#include "client-shim/cuda/launch_check.h"
#include "client-shim/cuda/module.h"
#include "client-shim/cuda/stream.h"
#include "client/calls.h"

namespace farcall::client {

namespace {

constexpr size_t kStackParameters = 4096;
constexpr size_t kAttributeBytes = 72;  // {u32 id, 8 u64 words}
constexpr unsigned kMaxAttributes = 32;
constexpr uint32_t kDefaultShared = 48u << 10;

// The record's body up to the parameters, in codec.h's layout.
struct LaunchHead {
  uint64_t function;
  LaunchShape shape;
  uint32_t padding = 0;
  uint64_t stream;
  uint64_t attributes = 0;
};
static_assert(sizeof(LaunchHead) == 56);

LaunchLimits DeviceLimits(const Device& device) {
  LaunchLimits limits{};
  for (int i = 0; i < 3; ++i) {
    limits.max_grid[i] =
        static_cast<uint32_t>(device.Attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i));
    limits.max_block[i] =
        static_cast<uint32_t>(device.Attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i));
  }
  limits.max_threads =
      static_cast<uint32_t>(device.Attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  return limits;
}

// One table per process, filled on first use: device facts do not change.
const LaunchLimits& LimitsOf(int device) {
  static auto* table = [] {
    auto* limits = new std::vector<LaunchLimits>;
    for (int i = 0; i < VisibleDeviceCount(); ++i) limits->push_back(DeviceLimits(*FindDevice(i)));
    return limits;
  }();
  return (*table)[static_cast<size_t>(device)];
}

uint32_t MaxDynamicShared(const Function* function) {
  int set = function->max_dynamic_shared.load(std::memory_order_relaxed);
  if (set < 0) set = function->info->Attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  uint32_t used =
      static_cast<uint32_t>(function->info->Attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
  uint32_t plain = used < kDefaultShared ? kDefaultShared - used : 0;
  return set > 0 && static_cast<uint32_t>(set) > plain ? static_cast<uint32_t>(set) : plain;
}

CUresult Check(const Function* function, const LaunchShape& shape) {
  LaunchLimits limits = LimitsOf(CurrentContext()->device);
  limits.function_threads =
      static_cast<uint32_t>(function->info->Attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  limits.max_dynamic_shared = MaxDynamicShared(function);
  return CheckLaunch(shape, limits);
}

// The `extra` form hands over a packed buffer.
CUresult FindPacked(void** extra, const void** buffer, size_t* bytes) {
  for (void** at = extra; *at != CU_LAUNCH_PARAM_END; at += 2) {
    if (*at == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      *buffer = at[1];
    } else if (*at == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      *bytes = *static_cast<const size_t*>(at[1]);
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return *buffer == nullptr && *bytes != 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult Pack(const KernelInfo& info, void** parameters, void** extra, std::byte* out) {
  if (extra != nullptr) {
    if (parameters != nullptr) return CUDA_ERROR_INVALID_VALUE;
    const void* buffer = nullptr;
    size_t bytes = 0;
    CUresult status = FindPacked(extra, &buffer, &bytes);
    if (status != CUDA_SUCCESS || bytes < info.parameter_bytes) return CUDA_ERROR_INVALID_VALUE;
    if (info.parameter_bytes != 0) std::memcpy(out, buffer, info.parameter_bytes);
    return CUDA_SUCCESS;
  }
  if (info.parameters.empty()) return CUDA_SUCCESS;
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::memset(out, 0, info.parameter_bytes);
  for (size_t i = 0; i < info.parameters.size(); ++i) {
    if (parameters[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(out + info.parameters[i].offset, parameters[i], info.parameters[i].bytes);
  }
  return CUDA_SUCCESS;
}

struct Attributes {
  const CUlaunchAttribute* list = nullptr;
  unsigned count = 0;
};

CUresult PostLaunch(const LaunchHead& head, const Attributes& attributes,
                    std::span<const std::byte> parameters) {
  if (attributes.count == 0) [[likely]] {
    struct {
      LaunchHead head;
      uint64_t parameter_bytes;
    } body = {head, parameters.size()};
    return PostParts(CallId::cuLaunchKernel, std::as_bytes(std::span(&body, 1)), parameters);
  }
  std::byte room[sizeof(LaunchHead) + kMaxAttributes * kAttributeBytes + 8];
  std::byte* at = room;
  std::memcpy(at, &head, sizeof(head));
  at += sizeof(head);
  for (unsigned i = 0; i < attributes.count; ++i) {
    uint64_t id = attributes.list[i].id;  // a u32 and its padding
    std::memcpy(at, &id, 8);
    static_assert(sizeof(CUlaunchAttributeValue) == 64);
    std::memcpy(at + 8, &attributes.list[i].value, 64);
    at += kAttributeBytes;
  }
  uint64_t bytes = parameters.size();
  std::memcpy(at, &bytes, 8);
  at += 8;
  return PostParts(CallId::cuLaunchKernel, {room, static_cast<size_t>(at - room)}, parameters);
}

CUresult Launch(CUfunction f, const LaunchShape& shape, CUstream stream, void** parameters,
                void** extra, const Attributes& attributes) {
  Function* function = FindFunction(reinterpret_cast<uint64_t>(f));
  if (function == nullptr) [[unlikely]]
    return CUDA_ERROR_INVALID_HANDLE;
  CUresult status = CUDA_SUCCESS;
  LaunchHead head;
  head.function = function->handle;
  head.shape = shape;
  head.stream = WireStream(stream, false, &status);
  head.attributes = attributes.count;
  if (status != CUDA_SUCCESS) [[unlikely]]
    return status;
  status = Check(function, shape);
  if (status != CUDA_SUCCESS) [[unlikely]]
    return status;
  const KernelInfo& info = *function->info;
  std::byte stack[kStackParameters];
  std::unique_ptr<std::byte[]> heap;
  std::byte* packed = stack;
  if (info.parameter_bytes > kStackParameters) [[unlikely]] {
    heap = std::make_unique<std::byte[]>(info.parameter_bytes);
    packed = heap.get();
  }
  status = Pack(info, parameters, extra, packed);
  if (status != CUDA_SUCCESS) [[unlikely]]
    return status;
  return PostLaunch(head, attributes, {packed, info.parameter_bytes});
}

}  // namespace

CUresult Call_cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                             unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                             unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                             void** kernelParams, void** extra) {
  LaunchShape shape = {
      {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes};
  return Launch(f, shape, hStream, kernelParams, extra, {});
}

CUresult Call_cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** kernelParams,
                               void** extra) {
  if (config == nullptr || (config->numAttrs != 0 && config->attrs == nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  CUlaunchAttribute kept[kMaxAttributes];
  unsigned count = 0;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_IGNORE) continue;
    if (count == kMaxAttributes) return CUDA_ERROR_INVALID_VALUE;
    kept[count++] = config->attrs[i];
  }
  LaunchShape shape = {{config->gridDimX, config->gridDimY, config->gridDimZ},
                       {config->blockDimX, config->blockDimY, config->blockDimZ},
                       config->sharedMemBytes};
  return Launch(f, shape, config->hStream, kernelParams, extra, {kept, count});
}

CUresult Call_cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                        unsigned int gridDimZ, unsigned int blockDimX,
                                        unsigned int blockDimY, unsigned int blockDimZ,
                                        unsigned int sharedMemBytes, CUstream hStream,
                                        void** kernelParams) {
  LaunchShape shape = {
      {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes};
  CUlaunchAttribute cooperative{};
  cooperative.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  cooperative.value.cooperative = 1;
  return Launch(f, shape, hStream, kernelParams, nullptr, {&cooperative, 1});
}

}  // namespace farcall::client
