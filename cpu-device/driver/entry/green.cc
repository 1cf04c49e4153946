// SPDX-License-Identifier: Apache-2.0
// Green contexts: shares of the multiprocessors, kept as numbers. All of them run on the same
// cores; nothing is held apart.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/base/registry.h"
#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/state/event.h"
#include "cpu-device/driver/state/graph.h"
#include "cpu-device/driver/state/stream.h"

namespace farcall::cpu_device {
namespace {

// What a resource holds besides the numbers everybody sees.
struct Origin {
  uint32_t magic = 0x4e455247;
  int32_t device = 0;
  uint32_t split = 0;  // which split it came from; 0: none
};

struct Description {
  int device = 0;
  CUdevResource resource{};
};

struct GreenContext {
  Device* device = nullptr;
  std::shared_ptr<Context> context;  // the primary one
  CUdevResource resource{};
  uint64_t id = 0;
  CUgreenCtx handle() { return reinterpret_cast<CUgreenCtx>(this); }
};

Registry<GreenContext>& Greens() {
  static auto* greens = new Registry<GreenContext>;
  return *greens;
}

Registry<Description>& Descriptions() {
  static auto* descriptions = new Registry<Description>;
  return *descriptions;
}

struct GreenStreams {
  std::mutex mutex;
  std::map<CUstream, CUgreenCtx> of;
};
GreenStreams& TheGreenStreams() {
  static auto* streams = new GreenStreams;
  return *streams;
}

bool ClustersFit(const Device& device) {
  return device.profile.cc() >= 90;
}

CUdevResource MakeResource(const Device& device, unsigned count, uint32_t split) {
  CUdevResource resource{};
  resource.type = CU_DEV_RESOURCE_TYPE_SM;
  resource.sm.smCount = count;
  resource.sm.minSmPartitionSize = ClustersFit(device) ? 8 : 4;
  resource.sm.smCoscheduledAlignment = ClustersFit(device) ? 8 : 2;
  Origin origin;
  origin.device = device.ordinal;
  origin.split = split;
  memcpy(resource._internal_padding, &origin, sizeof(origin));
  return resource;
}

CUresult ReadOrigin(const CUdevResource& resource, Origin* origin) {
  if (resource.type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  memcpy(origin, resource._internal_padding, sizeof(*origin));
  return origin->magic == Origin().magic && FindDevice(origin->device) != nullptr
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

CUresult Give(const CUdevResource& found, CUdevResource* resource, CUdevResourceType type) {
  if (resource == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  *resource = found;
  return CUDA_SUCCESS;
}

CUdevResource Whole(const Device& device) {
  return MakeResource(device, static_cast<unsigned>(device.profile.multiprocessors), 0);
}

std::vector<std::shared_ptr<Stream>> AllStreams(Context& context) {
  std::vector<std::shared_ptr<Stream>> streams = context.Streams();
  if (std::find(streams.begin(), streams.end(), context.legacy()) == streams.end())
    streams.push_back(context.legacy());
  return streams;
}

// A stream that waits for all others, and the event behind that.
CUresult RecordAll(Context& context, Event& event) {
  const auto streams = AllStreams(context);
  for (const auto& stream : streams)
    if (stream->capture() != nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const std::shared_ptr<Stream> last = context.CreateStream(CU_STREAM_NON_BLOCKING, 0);
  for (const auto& stream : streams) {
    Event here(context, CU_EVENT_DISABLE_TIMING);
    CUresult result = here.Record(*stream);
    if (result == CUDA_SUCCESS) result = WaitForEvent(*last, here);
    if (result != CUDA_SUCCESS) return result;
  }
  const CUresult result = event.Record(*last);
  context.DestroyStream(last->handle());
  return result;
}

CUresult WaitAll(Context& context, Event& event) {
  for (const auto& stream : AllStreams(context))
    if (const CUresult result = WaitOrCapture(*stream, event)) return result;
  return CUDA_SUCCESS;
}

CUresult Enter(CUcontext handle, CUevent event_handle, std::shared_ptr<Context>* context,
               std::shared_ptr<Event>* event) {
  if (const CUresult result = CheckInitialized()) return result;
  *context = TheDriver().contexts.Find(handle);
  if (*context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *event = TheDriver().events.Find(event_handle);
  return *event == nullptr || &(*event)->context() != context->get() ? CUDA_ERROR_INVALID_HANDLE
                                                                     : CUDA_SUCCESS;
}

}  // namespace
}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;

extern "C" {

CUresult cuDeviceGetDevResource(CUdevice ordinal, CUdevResource* resource, CUdevResourceType type) {
  if (const CUresult result = CheckInitialized()) return result;
  const Device* device = FindDevice(ordinal);
  return device == nullptr ? CUDA_ERROR_INVALID_DEVICE : Give(Whole(*device), resource, type);
}

CUresult cuCtxGetDevResource(CUcontext handle, CUdevResource* resource, CUdevResourceType type) {
  if (const CUresult result = CheckInitialized()) return result;
  if (const auto green = Greens().Find(handle)) return Give(green->resource, resource, type);
  const auto context = TheDriver().contexts.Find(handle);
  return context == nullptr ? CUDA_ERROR_INVALID_CONTEXT
                            : Give(Whole(context->device()), resource, type);
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx handle, CUdevResource* resource,
                                  CUdevResourceType type) {
  if (const CUresult result = CheckInitialized()) return result;
  const auto green = Greens().Find(handle);
  return green == nullptr ? CUDA_ERROR_INVALID_CONTEXT : Give(green->resource, resource, type);
}

CUresult cuDevSmResourceSplitByCount(CUdevResource* groups, unsigned int* count,
                                     const CUdevResource* input, CUdevResource* remaining,
                                     unsigned int flags, unsigned int min_count) {
  static std::atomic<uint32_t> splits{0};
  if (const CUresult result = CheckInitialized()) return result;
  constexpr unsigned kFlags = CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING |
                              CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE;
  if (count == nullptr || input == nullptr || (flags & ~kFlags) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  Origin origin;
  if (const CUresult result = ReadOrigin(*input, &origin)) return result;
  if (origin.split != 0) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  if (min_count > input->sm.smCount || (groups != nullptr && *count == 0))
    return CUDA_ERROR_INVALID_VALUE;
  const bool single = (flags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING) != 0;
  const unsigned least = single ? 2 : input->sm.minSmPartitionSize;
  const unsigned step = single ? 2 : input->sm.smCoscheduledAlignment;
  const unsigned size = std::max(least, (min_count + step - 1) / step * step);
  unsigned possible = input->sm.smCount / size;
  if (groups != nullptr) {
    possible = std::min(possible, *count);
    if (possible == 0) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  }
  const Device& device = *FindDevice(origin.device);
  const uint32_t split = ++splits;
  for (unsigned i = 0; groups != nullptr && i < possible; ++i)
    groups[i] = MakeResource(device, size, split);
  if (remaining != nullptr) {
    *remaining = MakeResource(device, input->sm.smCount - possible * size, split);
    if (remaining->sm.smCount == 0) *remaining = {};
  }
  *count = possible;
  return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* out, CUdevResource* resources,
                                   unsigned int count) {
  if (const CUresult result = CheckInitialized()) return result;
  if (out == nullptr || resources == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  auto description = std::make_shared<Description>();
  Origin first;
  if (const CUresult result = ReadOrigin(resources[0], &first)) return result;
  description->device = first.device;
  description->resource = resources[0];
  for (unsigned i = 1; i < count; ++i) {
    Origin origin;
    if (const CUresult result = ReadOrigin(resources[i], &origin)) return result;
    if (origin.device != first.device || origin.split != first.split)
      return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    description->resource.sm.smCount += resources[i].sm.smCount;
  }
  *out = reinterpret_cast<CUdevResourceDesc>(description.get());
  Descriptions().Add(std::move(description));
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxCreate(CUgreenCtx* out, CUdevResourceDesc handle, CUdevice ordinal,
                          unsigned int flags) {
  if (const CUresult result = CheckInitialized()) return result;
  Device* device = FindDevice(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  const auto description = Descriptions().Find(handle);
  if (out == nullptr || description == nullptr || flags != CU_GREEN_CTX_DEFAULT_STREAM ||
      description->device != ordinal)
    return CUDA_ERROR_INVALID_VALUE;
  CUcontext primary = nullptr;
  if (const CUresult result = cuDevicePrimaryCtxRetain(&primary, ordinal)) return result;
  static std::atomic<uint64_t> ids{1ull << 32};
  auto green = std::make_shared<GreenContext>();
  green->device = device;
  green->context = TheDriver().contexts.Find(primary);
  // A part of this device can be split again.
  green->resource = MakeResource(*device, description->resource.sm.smCount, 0);
  green->id = ++ids;
  *out = green->handle();
  TheDriver().contexts.AddAs(green.get(), green->context);
  Greens().Add(std::move(green));
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxDestroy(CUgreenCtx handle) {
  if (const CUresult result = CheckInitialized()) return result;
  const auto green = Greens().Take(handle);
  if (green == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  TheDriver().contexts.Take(green.get());
  {
    std::lock_guard lock(TheGreenStreams().mutex);
    std::erase_if(TheGreenStreams().of, [&](const auto& one) { return one.second == handle; });
  }
  return cuDevicePrimaryCtxRelease_v2(green->device->ordinal);
}

// The handle of the part; work under it is the primary context's.
CUresult cuCtxFromGreenCtx(CUcontext* out, CUgreenCtx handle) {
  if (const CUresult result = CheckInitialized()) return result;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto green = Greens().Find(handle);
  if (green == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *out = reinterpret_cast<CUcontext>(green.get());
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxGetId(CUgreenCtx handle, unsigned long long* id) {
  if (const CUresult result = CheckInitialized()) return result;
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto green = Greens().Find(handle);
  if (green == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *id = green->id;
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxStreamCreate(CUstream* out, CUgreenCtx handle, unsigned int flags,
                                int priority) {
  if (const CUresult result = CheckInitialized()) return result;
  const auto green = Greens().Find(handle);
  if (green == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (out == nullptr || flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  priority = std::clamp(priority, kGreatestPriority, kLeastPriority);
  const auto stream = green->context->CreateStream(flags, priority);
  *out = stream->handle();
  std::lock_guard lock(TheGreenStreams().mutex);
  TheGreenStreams().of[*out] = handle;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetGreenCtx(CUstream stream, CUgreenCtx* out) {
  CUcontext context = nullptr;
  if (const CUresult result = cuStreamGetCtx(stream, &context)) return result;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(TheGreenStreams().mutex);
  const auto found = TheGreenStreams().of.find(stream);
  *out = found == TheGreenStreams().of.end() ? nullptr : found->second;
  return CUDA_SUCCESS;
}

CUresult cuCtxRecordEvent(CUcontext handle, CUevent event_handle) {
  std::shared_ptr<Context> context;
  std::shared_ptr<Event> event;
  if (const CUresult result = Enter(handle, event_handle, &context, &event)) return result;
  return RecordAll(*context, *event);
}

CUresult cuCtxWaitEvent(CUcontext handle, CUevent event_handle) {
  std::shared_ptr<Context> context;
  std::shared_ptr<Event> event;
  if (const CUresult result = Enter(handle, event_handle, &context, &event)) return result;
  return WaitAll(*context, *event);
}

CUresult cuGreenCtxRecordEvent(CUgreenCtx handle, CUevent event) {
  return cuCtxRecordEvent(reinterpret_cast<CUcontext>(handle), event);
}

CUresult cuGreenCtxWaitEvent(CUgreenCtx handle, CUevent event) {
  return cuCtxWaitEvent(reinterpret_cast<CUcontext>(handle), event);
}

}  // extern "C"
