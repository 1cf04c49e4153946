// SPDX-License-Identifier: Apache-2.0
// Kernel launches: checked here as CUDA checks them, packed by the kernel's own layout, posted.
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "client-shim/core/first_run.h"
#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/devices.h"
#include "client-shim/cuda/launch/launch_attributes.h"
#include "client-shim/cuda/launch/launch_check.h"
#include "client-shim/cuda/launch/launch_pack.h"
#include "client-shim/cuda/state/mirror.h"
#include "client-shim/cuda/state/module.h"
#include "client-shim/cuda/state/stream.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

constexpr size_t kStackParameters = 4096;
constexpr size_t kAttributeBytes = 72;  // {u32 id, 8 u64 words}
constexpr unsigned kMaxAttributes = LaunchAttributes::kMax;

// The record's body up to the parameters, in codec.h's layout.
struct LaunchHead {
  uint64_t function;
  LaunchShape shape;
  uint32_t padding;
  uint64_t stream;
  uint64_t attributes;
};
static_assert(sizeof(LaunchHead) == 56);

// The usual launch whole, so that one copy under the batch's lock does.
struct LaunchRecord {
  RecordHeader header;
  LaunchHead head;
  uint64_t parameter_bytes;
  std::byte parameters[kStackParameters + 8];  // and what pads the last
};
static_assert(offsetof(LaunchRecord, parameters) == 80);

DeviceLimits ReadLimits(const Device& device) {
  DeviceLimits limits{};
  for (int i = 0; i < 3; ++i) {
    limits.max_grid[i] =
        static_cast<uint32_t>(device.Attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i));
    limits.max_block[i] =
        static_cast<uint32_t>(device.Attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i));
  }
  limits.max_threads =
      static_cast<uint32_t>(device.Attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  limits.registers =
      static_cast<uint32_t>(device.Attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK));
  return limits;
}

// One table per process, filled on first use: device facts do not change.
[[gnu::noinline]] const DeviceLimits* FindLimits(Context* context) {
  static auto* table = [] {
    auto* limits = new std::vector<DeviceLimits>;
    for (int i = 0; i < VisibleDeviceCount(); ++i) limits->push_back(ReadLimits(*FindDevice(i)));
    return limits;
  }();
  const DeviceLimits* found = &(*table)[static_cast<size_t>(context->device)];
  context->limits.store(found, std::memory_order_release);
  return found;
}

inline const DeviceLimits& LimitsOf(Context* context) {
  const DeviceLimits* known = context->limits.load(std::memory_order_acquire);
  return known != nullptr ? *known : *FindLimits(context);
}

inline CUresult CheckAgainst(const DeviceLimits& device, const Function& function,
                             const LaunchShape& shape) {
  FunctionLimits limits = {function.max_threads,
                           function.launch_shared_limit.load(std::memory_order_relaxed),
                           function.registers};
  return CheckLaunch(shape, device, limits);
}

// The `extra` form hands over a packed buffer.
CUresult FindPacked(void** extra, const void** buffer, size_t* bytes) {
  for (void** at = extra; *at != CU_LAUNCH_PARAM_END; at += 2)
    if (*at == CU_LAUNCH_PARAM_BUFFER_POINTER)
      *buffer = at[1];
    else if (*at == CU_LAUNCH_PARAM_BUFFER_SIZE)
      *bytes = *static_cast<const size_t*>(at[1]);
    else
      return CUDA_ERROR_INVALID_VALUE;
  return *buffer == nullptr && *bytes != 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult PackBuffer(const KernelInfo& info, void** extra, std::byte* out) {
  const void* buffer = nullptr;
  size_t bytes = 0;
  CUresult status = FindPacked(extra, &buffer, &bytes);
  if (status != CUDA_SUCCESS || bytes < info.parameter_bytes) return CUDA_ERROR_INVALID_VALUE;
  if (info.parameter_bytes != 0) std::memcpy(out, buffer, info.parameter_bytes);
  return CUDA_SUCCESS;
}

// `expose`: and what they point to is made reachable (mirror.h).
template <bool expose>
inline CUresult Pack(const KernelInfo& info, void** parameters, void** extra, std::byte* out) {
  if (extra != nullptr) [[unlikely]] {
    CUresult status =
        parameters != nullptr ? CUDA_ERROR_INVALID_VALUE : PackBuffer(info, extra, out);
    if (expose && status == CUDA_SUCCESS) ExposeParameters(info, out);
    return status;
  }
  if (info.parameters.empty()) return CUDA_SUCCESS;
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (info.has_gaps) std::memset(out, 0, info.parameter_bytes);
  for (const Parameter& parameter : info.parameters) {
    const void* value = *parameters++;
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::byte* place = out + parameter.offset;
    if (parameter.bytes == 8) {
      std::memcpy(place, value, 8);
      if (expose) ExposeParameter(8, place);
    } else if (parameter.bytes == 4) {
      std::memcpy(place, value, 4);
    } else {
      std::memcpy(place, value, parameter.bytes);
      if (expose) ExposeParameter(parameter.bytes, place);
    }
  }
  return CUDA_SUCCESS;
}

struct Attributes {
  const CUlaunchAttribute* list = nullptr;
  unsigned count = 0;
};

// With attributes, or parameters too large for the stack.
CUresult PostLarge(const LaunchHead& head, Attributes attributes, const KernelInfo& info,
                   void** values, void** extra) {
  auto packed = std::make_unique<std::byte[]>(info.parameter_bytes);
  CUresult status = Pack<true>(info, values, extra, packed.get());
  if (status != CUDA_SUCCESS) return status;
  PushMirrors();
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
  uint64_t bytes = info.parameter_bytes;
  std::memcpy(at, &bytes, 8);
  at += 8;
  return Post(CallId::cuLaunchKernel, {room, static_cast<size_t>(at - room)},
              {packed.get(), info.parameter_bytes});
}

// In a process with several servers: a launch goes to the current context's, where its stream must
// be.
[[gnu::noinline]] CUresult BringToStream(Function* function, CUstream stream) {
  CUresult status = CUDA_SUCCESS;
  WireStream(stream, false, &status);
  NoteServer(CurrentContext()->session);
  if (status != CUDA_SUCCESS || Self()->spans || CurrentSession() != CurrentContext()->session)
    return CUDA_ERROR_INVALID_HANDLE;
  return BringHere(function);
}

[[gnu::noinline]] void NoteLaunch(Function* function) {
  function->is_new.store(false, std::memory_order_relaxed);
  Function* owner = function->kernel == nullptr ? function : function->kernel;
  if (owner == function || owner->is_new.exchange(false)) NoteFirstRun(function->info->name);
}

// After Enter, which has seen that the thread has a context.
//   `is_clear`  and that g_all_clear was true
template <bool is_clear>
[[gnu::always_inline]] inline CUresult Launch(const ThreadState* self, CUfunction f,
                                              const LaunchShape& shape, CUstream stream,
                                              void** values, void** extra, Attributes attributes) {
  Function* function = FindFunction(reinterpret_cast<uint64_t>(f));
  LaunchRecord record;  // not cleared: only what is written leaves
  if (function == nullptr || !ToWire(stream, &record.head.stream)) [[unlikely]]
    return CUDA_ERROR_INVALID_HANDLE;
  if (!is_clear && HasSeveralServers()) [[unlikely]] {
    const CUresult here = BringToStream(function, stream);
    if (here != CUDA_SUCCESS) return here;
  }
  record.head.function = function->handle;
  record.head.shape = shape;
  record.head.padding = 0;
  record.head.attributes = attributes.count;
  CUresult status = CheckAgainst(LimitsOf(self->current), *function, record.head.shape);
  if (status != CUDA_SUCCESS) [[unlikely]]
    return status;
  if (attributes.count != 0) [[unlikely]] {
    status = CheckAttributes(*function, shape, attributes.list, attributes.count);
    if (status != CUDA_SUCCESS) return status;
  }
  const KernelInfo& info = *function->info;
  if (function->is_new.load(std::memory_order_relaxed)) [[unlikely]]
    NoteLaunch(function);
  if (attributes.count != 0 || info.parameter_bytes > kStackParameters) [[unlikely]]
    return PostLarge(record.head, attributes, info, values, extra);
  std::memset(record.parameters + info.last_word, 0, 8);  // what pads the last parameter
  status = Pack<true>(info, values, extra, record.parameters);
  if (status != CUDA_SUCCESS) [[unlikely]]
    return status;
  PushMirrors();
  record.parameter_bytes = info.parameter_bytes;
  const size_t bytes = offsetof(LaunchRecord, parameters) + AlignUp(info.parameter_bytes, 8);
  return PostWhole(CallId::cuLaunchKernel, *self, &record.header, bytes,
                   is_clear || g_all_clear.load(std::memory_order_acquire));
}

// One for all calls but the usual one.
CUresult LaunchAny(CUfunction f, const LaunchShape& shape, CUstream stream, void** values,
                   void** extra, Attributes attributes) {
  return Launch<false>(t_thread, f, shape, stream, values, extra, attributes);
}

}  // namespace

CUresult PackParameters(const KernelInfo& info, void** values, void** extra, std::byte* out) {
  return Pack<false>(info, values, extra, out);
}

CUresult CheckLaunchOf(const Function& function, const LaunchShape& shape) {
  return CheckAgainst(LimitsOf(CurrentContext()), function, shape);
}

CUresult Call_cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                             unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                             unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                             void** kernelParams, void** extra) {
  LaunchShape shape = {
      {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes};
  return LaunchAny(f, shape, hStream, kernelParams, extra, {});
}

CUresult Entry_cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                              unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                              unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                              void** kernelParams, void** extra) {
  static_assert(InfoOf(CallId::cuLaunchKernel).capture != CallCapture::kUnsafe);
  LaunchShape shape = {
      {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes};
  const ThreadState* self = ClearThread();
  if (self != nullptr) [[likely]]
    return Launch<true>(self, f, shape, hStream, kernelParams, extra, {});
  const CUresult refused = EnterWithCare(CallId::cuLaunchKernel, Needs::kContext);
  return refused != CUDA_SUCCESS ? refused : LaunchAny(f, shape, hStream, kernelParams, extra, {});
}

CUresult Call_cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** kernelParams,
                               void** extra, CUstream default_stream) {
  if (config == nullptr || (config->numAttrs != 0 && config->attrs == nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  LaunchAttributes taken;
  CUresult status = TakeAttributes(*config, &taken);
  if (status != CUDA_SUCCESS) return status;
  LaunchShape shape = {{config->gridDimX, config->gridDimY, config->gridDimZ},
                       {config->blockDimX, config->blockDimY, config->blockDimZ},
                       config->sharedMemBytes};
  CUstream stream = config->hStream == nullptr ? default_stream : config->hStream;
  status = LaunchAny(f, shape, stream, kernelParams, extra, {taken.list, taken.count});
  for (unsigned i = 0; i < taken.event_count && status == CUDA_SUCCESS; ++i)
    status = Call_cuEventRecordWithFlags(taken.events[i], stream, CU_EVENT_RECORD_DEFAULT);
  return status;
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
  return LaunchAny(f, shape, hStream, kernelParams, nullptr, {&cooperative, 1});
}

CUresult Call_cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS* launchParamsList,
                                                   unsigned int numDevices, unsigned int flags) {
  constexpr unsigned kFlags = CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_PRE_LAUNCH_SYNC |
                              CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_POST_LAUNCH_SYNC;
  if (launchParamsList == nullptr || numDevices == 0 || (flags & ~kFlags) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (numDevices != 1) return NotSupported(CallId::cuLaunchCooperativeKernelMultiDevice);
  const CUDA_LAUNCH_PARAMS& one = *launchParamsList;
  // The default streams would synchronise with what is not part of the launch.
  if (reinterpret_cast<uint64_t>(one.hStream) <= kPerThreadStream) return CUDA_ERROR_INVALID_HANDLE;
  return Call_cuLaunchCooperativeKernel(one.function, one.gridDimX, one.gridDimY, one.gridDimZ,
                                        one.blockDimX, one.blockDimY, one.blockDimZ,
                                        one.sharedMemBytes, one.hStream, one.kernelParams);
}

namespace {
// A question about a launch that is not made: {function, shape, attributes} -> i32.
CUresult AskAboutLaunch(CallId call, int* answer, CUfunction func, const CUlaunchConfig* config) {
  const Function* function = FindFunction(reinterpret_cast<uint64_t>(func));
  if (answer == nullptr || config == nullptr ||
      (config->numAttrs != 0 && config->attrs == nullptr) || config->numAttrs > kMaxAttributes)
    return CUDA_ERROR_INVALID_VALUE;
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Builder body;
  body.Put<uint64_t>(function->handle);
  for (uint32_t part : {config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                        config->blockDimY, config->blockDimZ, config->sharedMemBytes})
    body.Put<uint32_t>(part);
  body.Put<uint64_t>(config->numAttrs);
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    uint64_t words[8] = {};
    // The same question in the same bytes: nothing of what the application left behind a size.
    const bool is_size = config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    std::memcpy(words, &config->attrs[i].value, is_size ? 3 * sizeof(unsigned) : sizeof(words));
    body.Put<uint32_t>(config->attrs[i].id);
    for (uint64_t word : words) body.Put<uint64_t>(word);
  }
  Reply reply;
  CUresult status = Query(call, body.bytes(), &reply);
  if (status != CUDA_SUCCESS) return status;
  Reader outputs = reply.outputs();
  auto value = outputs.Get<int32_t>();
  if (!outputs.Done()) return CUDA_ERROR_UNKNOWN;
  *answer = value;
  return CUDA_SUCCESS;
}
}  // namespace

CUresult Call_cuOccupancyMaxActiveClusters(int* numClusters, CUfunction func,
                                           const CUlaunchConfig* config) {
  return AskAboutLaunch(CallId::cuOccupancyMaxActiveClusters, numClusters, func, config);
}

CUresult Call_cuOccupancyMaxPotentialClusterSize(int* clusterSize, CUfunction func,
                                                 const CUlaunchConfig* config) {
  return AskAboutLaunch(CallId::cuOccupancyMaxPotentialClusterSize, clusterSize, func, config);
}

}  // namespace farcall::client
