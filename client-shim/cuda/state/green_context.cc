// SPDX-License-Identifier: Apache-2.0
// Resources and green contexts. A resource holds the way to it, kept in the part of the structure
// that is the driver's: where it came from, and how that was split. The server goes that way again
// with its own driver.
#include "client-shim/cuda/state/green_context.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <mutex>
#include <vector>

#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/devices.h"
#include "client-shim/core/session/handles.h"
#include "client-shim/cuda/state/context.h"
#include "client-shim/cuda/state/stream.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

constexpr uint32_t kMagic = 0x52434646;
constexpr uint32_t kRemaining = 0xFFFF;
constexpr unsigned kMaxGroups = 1024;  // more than any device has multiprocessors

struct Way {
  uint32_t magic = kMagic;
  int32_t device = 0;   // as the server counts
  uint64_t green = 0;   // 0: the device's own
  uint32_t split = 0;   // the number of the split it came from; 0: none
  uint32_t groups = 0;  // of that split: what was asked for
  uint32_t flags = 0;
  uint32_t min_count = 0;
  uint32_t index = 0;  // which of its groups, or kRemaining
};
static_assert(sizeof(Way) <= sizeof(CUdevResource::_internal_padding));

CUdevResource MakeResource(const Way& way, Reader& outputs) {
  CUdevResource resource{};
  resource.type = CU_DEV_RESOURCE_TYPE_SM;
  std::memcpy(resource._internal_padding, &way, sizeof(way));
  resource.sm.smCount = outputs.Get<uint32_t>();
  resource.sm.minSmPartitionSize = outputs.Get<uint32_t>();
  resource.sm.smCoscheduledAlignment = outputs.Get<uint32_t>();
  return resource;
}

CUresult ReadWay(const CUdevResource& resource, Way* way) {
  if (resource.type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  std::memcpy(way, resource._internal_padding, sizeof(*way));
  return way->magic == kMagic ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void PutOrigin(Builder& body, const Way& way) {
  body.Put<int32_t>(way.device);
  body.Put<uint64_t>(way.green);
}

CUresult GetResource(int server_device, uint64_t green, CUdevResource* resource,
                     CUdevResourceType type) {
  if (resource == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  Way way;
  way.device = server_device;
  way.green = green;
  Builder body;
  PutOrigin(body, way);
  Reply reply;
  CUresult status = Query(CallId::cuDeviceGetDevResource, body.bytes(), &reply);
  if (status != CUDA_SUCCESS) return status;
  Reader outputs = reply.outputs();
  CUdevResource found = MakeResource(way, outputs);
  if (!outputs.Done()) return CUDA_ERROR_UNKNOWN;
  *resource = found;
  return CUDA_SUCCESS;
}

// What cuDevResourceGenerateDesc gave. CUDA has no call to end one.
struct Description {
  Way way;
  std::vector<uint32_t> indices;
  CUdevResource resource{};  // the first, and what all together have
};

struct Descriptions {
  std::mutex mutex;
  std::deque<Description> all;
  uint32_t last_split = 0;
  const Description* Find(CUdevResourceDesc handle) {
    std::lock_guard lock(mutex);
    for (const Description& one : all)
      if (reinterpret_cast<CUdevResourceDesc>(const_cast<Description*>(&one)) == handle)
        return &one;
    return nullptr;
  }
};
Descriptions* g_descriptions = new Descriptions;

bool SameSplit(const Way& a, const Way& b) {
  return a.device == b.device && a.green == b.green && a.split == b.split;
}

}  // namespace

GreenContext* FindGreenContext(CUgreenCtx handle) {
  return FindObject<GreenContext>(HandleKind::kGreenContext, reinterpret_cast<uint64_t>(handle));
}

CUgreenCtx GreenHandle(const Context* context) {
  return context == nullptr || context->green == nullptr
             ? nullptr
             : reinterpret_cast<CUgreenCtx>(context->green->handle);
}

CUresult Call_cuDeviceGetDevResource(CUdevice device, CUdevResource* resource,
                                     CUdevResourceType type) {
  const Device* found = FindDevice(device);
  if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  return GetResource(found->server_index, 0, resource, type);
}

CUresult Call_cuCtxGetDevResource(CUcontext hCtx, CUdevResource* resource, CUdevResourceType type) {
  Context* context = FindContext(hCtx);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return GetResource(context->server_device, reinterpret_cast<uint64_t>(GreenHandle(context)),
                     resource, type);
}

CUresult Call_cuGreenCtxGetDevResource(CUgreenCtx hCtx, CUdevResource* resource,
                                       CUdevResourceType type) {
  GreenContext* green = FindGreenContext(hCtx);
  if (green == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return GetResource(green->context->server_device, green->handle, resource, type);
}

CUresult Call_cuDevSmResourceSplitByCount(CUdevResource* result, unsigned int* nbGroups,
                                          const CUdevResource* input, CUdevResource* remaining,
                                          unsigned int useFlags, unsigned int minCount) {
  if (nbGroups == nullptr || input == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Way way;
  CUresult status = ReadWay(*input, &way);
  if (status != CUDA_SUCCESS) return status;
  if (way.split != 0) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  if (minCount > input->sm.smCount || (result != nullptr && *nbGroups == 0))
    return CUDA_ERROR_INVALID_VALUE;
  way.groups = result == nullptr ? 0 : std::min(*nbGroups, kMaxGroups);
  way.flags = useFlags;
  way.min_count = minCount;
  Builder body;
  PutOrigin(body, way);
  body.Put<uint32_t>(way.groups);
  body.Put<uint32_t>(way.flags);
  body.Put<uint32_t>(way.min_count);
  Reply reply;
  status = Query(CallId::cuDevSmResourceSplitByCount, body.bytes(), &reply);
  if (status != CUDA_SUCCESS) return status;
  {
    std::lock_guard lock(g_descriptions->mutex);
    way.split = ++g_descriptions->last_split;
  }
  Reader outputs = reply.outputs();
  auto possible = outputs.Get<uint32_t>();
  way.index = kRemaining;
  CUdevResource left = MakeResource(way, outputs);
  if (left.sm.smCount == 0) left.type = CU_DEV_RESOURCE_TYPE_INVALID;
  std::vector<CUdevResource> groups(outputs.GetCount(12));
  for (way.index = 0; way.index < groups.size(); ++way.index)
    groups[way.index] = MakeResource(way, outputs);
  if (!outputs.Done() || groups.size() > way.groups) return CUDA_ERROR_UNKNOWN;
  if (result != nullptr) std::copy(groups.begin(), groups.end(), result);
  if (remaining != nullptr) *remaining = left;
  *nbGroups = result == nullptr ? possible : static_cast<unsigned>(groups.size());
  return CUDA_SUCCESS;
}

CUresult Call_cuDevResourceGenerateDesc(CUdevResourceDesc* phDesc, CUdevResource* resources,
                                        unsigned int nbResources) {
  if (phDesc == nullptr || resources == nullptr || nbResources == 0 || nbResources > kMaxGroups)
    return CUDA_ERROR_INVALID_VALUE;
  Description made;
  for (unsigned i = 0; i < nbResources; ++i) {
    Way way;
    CUresult status = ReadWay(resources[i], &way);
    if (status != CUDA_SUCCESS) return status;
    if (i == 0) {
      made.way = way;
      made.resource = resources[0];
    } else {
      made.resource.sm.smCount += resources[i].sm.smCount;
    }
    bool twice =
        std::find(made.indices.begin(), made.indices.end(), way.index) != made.indices.end();
    if (twice || !SameSplit(way, made.way)) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    made.indices.push_back(way.index);
  }
  std::lock_guard lock(g_descriptions->mutex);
  g_descriptions->all.push_back(std::move(made));
  *phDesc = reinterpret_cast<CUdevResourceDesc>(&g_descriptions->all.back());
  return CUDA_SUCCESS;
}

CUresult Call_cuGreenCtxCreate(CUgreenCtx* phCtx, CUdevResourceDesc desc, CUdevice dev,
                               unsigned int flags) {
  const Device* device = FindDevice(dev);
  const Description* description = g_descriptions->Find(desc);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (phCtx == nullptr || description == nullptr || flags != CU_GREEN_CTX_DEFAULT_STREAM)
    return CUDA_ERROR_INVALID_VALUE;
  if (description->way.device != device->server_index) return CUDA_ERROR_INVALID_VALUE;
  CUcontext primary = nullptr;
  CUresult status = Call_cuDevicePrimaryCtxRetain(&primary, dev);
  if (status != CUDA_SUCCESS) return status;
  auto* green = new GreenContext;
  green->handle = Handles(HandleKind::kGreenContext).New(green);
  green->context = green->handle == 0 ? nullptr : NewContext(dev, *device, false, 0);
  status = green->context == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  if (status == CUDA_SUCCESS) {
    green->context->green = green;
    Builder body;
    body.Put<uint64_t>(green->handle);
    body.Put<uint64_t>(green->context->handle);
    body.Put<uint32_t>(flags);
    PutOrigin(body, description->way);
    body.Put<uint32_t>(description->way.split != 0 ? 1 : 0);
    body.Put<uint32_t>(description->way.groups);
    body.Put<uint32_t>(description->way.flags);
    body.Put<uint32_t>(description->way.min_count);
    body.Put<uint64_t>(description->indices.size());
    for (uint32_t index : description->indices) body.Put<uint32_t>(index);
    status = RoundTrip(CallId::cuGreenCtxCreate, body.bytes(), nullptr);
  }
  if (status != CUDA_SUCCESS) {
    if (green->context != nullptr) RetireContext(green->context);
    if (green->handle != 0) Handles(HandleKind::kGreenContext).Free(green->handle);
    Call_cuDevicePrimaryCtxRelease_v2(dev);
    return status;
  }
  *phCtx = reinterpret_cast<CUgreenCtx>(green->handle);
  return CUDA_SUCCESS;
}

CUresult Call_cuGreenCtxDestroy(CUgreenCtx hCtx) {
  GreenContext* green = FindGreenContext(hCtx);
  if (green == nullptr || !Handles(HandleKind::kGreenContext).Free(green->handle))
    return CUDA_ERROR_INVALID_CONTEXT;
  FixedBody<16> body;
  body.Put<uint64_t>(green->handle);
  body.Put<uint64_t>(green->context->handle);
  CUresult status = RoundTrip(CallId::cuGreenCtxDestroy, body.bytes(), nullptr);
  RetireContext(green->context);
  DropContextHandles(green->context);
  Call_cuDevicePrimaryCtxRelease_v2(green->context->device);
  return status;  // the object stays: contexts do, and one names it
}

CUresult Call_cuCtxFromGreenCtx(CUcontext* pContext, CUgreenCtx hCtx) {
  GreenContext* green = FindGreenContext(hCtx);
  if (pContext == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (green == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *pContext = AsCuda(green->context);
  return CUDA_SUCCESS;
}

CUresult Call_cuGreenCtxGetId(CUgreenCtx greenCtx, unsigned long long* greenCtxId) {
  GreenContext* green = FindGreenContext(greenCtx);
  if (greenCtxId == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (green == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *greenCtxId = green->context->id;
  return CUDA_SUCCESS;
}

CUresult Call_cuGreenCtxStreamCreate(CUstream* phStream, CUgreenCtx greenCtx, unsigned int flags,
                                     int priority) {
  GreenContext* green = FindGreenContext(greenCtx);
  if (green == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (phStream == nullptr || flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  ContextScope scope(green->context);
  return CreateStream(phStream, flags, priority, [&](uint64_t handle, int clamped) {
    FixedBody<24> body;
    body.Put<uint64_t>(handle);
    body.Put<uint64_t>(green->handle);
    body.Put<uint32_t>(flags);
    body.Put<int32_t>(clamped);
    return RoundTrip(CallId::cuGreenCtxStreamCreate, body.bytes(), nullptr);
  });
}

CUresult Call_cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx* phCtx) {
  CUcontext context = nullptr;
  CUresult status = Call_cuStreamGetCtx(hStream, &context);
  if (status != CUDA_SUCCESS) return status;
  if (phCtx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *phCtx = GreenHandle(FindContext(context));
  return CUDA_SUCCESS;
}

CUresult Call_cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent) {
  Context* context = FindContext(hCtx);
  Event* event = FindEvent(hEvent);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  // A green context shares its events with the primary one and its other parts.
  bool related =
      context == event->context || (context->green != nullptr || event->context->green != nullptr);
  if (!related || context->device != event->context->device) return CUDA_ERROR_INVALID_HANDLE;
  if (context->captures.load() != 0) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  event->capture_stream.store(nullptr);
  event->recorded.store(true);
  uint64_t evidence = CurrentSession()->evidence();
  FixedBody<16> body;
  body.Put<uint64_t>(reinterpret_cast<uint64_t>(hEvent));
  body.Put<uint64_t>(context->handle);
  uint32_t serial = 0;
  CUresult posted = Post(CallId::cuCtxRecordEvent, body.bytes(), {}, {.serial = &serial});
  event->pending_since.store(evidence);
  event->serial.store(serial, std::memory_order_release);
  return posted;
}

CUresult Call_cuGreenCtxRecordEvent(CUgreenCtx hCtx, CUevent hEvent) {
  GreenContext* green = FindGreenContext(hCtx);
  return green == nullptr ? CUDA_ERROR_INVALID_CONTEXT
                          : Call_cuCtxRecordEvent(AsCuda(green->context), hEvent);
}

CUresult Call_cuGreenCtxWaitEvent(CUgreenCtx hCtx, CUevent hEvent) {
  GreenContext* green = FindGreenContext(hCtx);
  return green == nullptr ? CUDA_ERROR_INVALID_CONTEXT
                          : Post_cuCtxWaitEvent(AsCuda(green->context), hEvent);
}

CUresult Call_cuCtxGetExecAffinity(CUexecAffinityParam* pExecAffinity, CUexecAffinityType type) {
  if (pExecAffinity == nullptr || type < 0 || type >= CU_EXEC_AFFINITY_TYPE_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  const Context* context = CurrentContext();
  int supported = 0;
  CUresult status = RoundTrip_cuDeviceGetExecAffinitySupport(&supported, type, context->device);
  if (status != CUDA_SUCCESS) return status;
  if (supported == 0) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  // Contexts here are made without a part of the device: theirs is the whole.
  int count = FindDevice(context->device)->Attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  pExecAffinity->type = type;
  pExecAffinity->param.smCount.val = static_cast<unsigned>(count);
  return CUDA_SUCCESS;
}

}  // namespace farcall::client
