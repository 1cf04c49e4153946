// SPDX-License-Identifier: Apache-2.0
// Resources and green contexts. A resource crosses as the way to it, and is asked for again:
// nothing of the driver's leaves this process, nothing of a client's is taken for it. The partner
// is client-shim/cuda/state/green_context.cc.
#include <algorithm>
#include <vector>

#include "generated/server/driver_api.h"
#include "generated/server/handwritten.h"
#include "server/calls/context.h"
#include "server/device/current_context.h"
#include "server/state/session.h"

namespace farcall::server {

namespace {

constexpr uint32_t kRemaining = 0xFFFF;
constexpr uint32_t kMaxGroups = 1024;

struct Origin {
  int32_t device = 0;
  CUgreenCtx green = nullptr;  // null: the device's own resource
};

struct Split {
  uint32_t groups = 0, flags = 0, min_count = 0;
};

Origin GetOrigin(ServeCall& call, uint64_t* wire_green) {
  Origin origin;
  origin.device = call.in.Get<int32_t>();
  *wire_green = call.in.Get<uint64_t>();
  return origin;
}

void ResolveOrigin(ServeCall& call, uint64_t wire_green, Origin* origin) {
  call.ResolveDevice(origin->device);
  if (wire_green != 0)
    origin->green = call.Resolve<CUgreenCtx>(HandleKind::kGreenContext, wire_green);
}

CUresult GetResource(const DriverApi& api, const Origin& origin, CUdevResource* resource) {
  if (origin.green != nullptr) {
    return api.cuGreenCtxGetDevResource == nullptr
               ? CUDA_ERROR_NOT_SUPPORTED
               : api.cuGreenCtxGetDevResource(origin.green, resource, CU_DEV_RESOURCE_TYPE_SM);
  }
  return api.cuDeviceGetDevResource == nullptr
             ? CUDA_ERROR_NOT_SUPPORTED
             : api.cuDeviceGetDevResource(origin.device, resource, CU_DEV_RESOURCE_TYPE_SM);
}

// `groups` takes as many as were asked for and came; `possible` is how many there could be.
CUresult SplitResource(const DriverApi& api, const CUdevResource& input, const Split& split,
                       std::vector<CUdevResource>* groups, CUdevResource* remaining,
                       uint32_t* possible) {
  if (api.cuDevSmResourceSplitByCount == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  groups->assign(split.groups, {});
  unsigned count = split.groups;
  CUresult result =
      api.cuDevSmResourceSplitByCount(split.groups == 0 ? nullptr : groups->data(), &count, &input,
                                      remaining, split.flags, split.min_count);
  *possible = count;
  groups->resize(std::min(count, split.groups));
  return result;
}

void PutResource(Builder& out, const CUdevResource& resource) {
  bool is_sm = resource.type == CU_DEV_RESOURCE_TYPE_SM;
  out.Put<uint32_t>(is_sm ? resource.sm.smCount : 0);
  out.Put<uint32_t>(is_sm ? resource.sm.minSmPartitionSize : 0);
  out.Put<uint32_t>(is_sm ? resource.sm.smCoscheduledAlignment : 0);
}

CUresult Describe(const DriverApi& api, const Origin& origin, bool has_split, const Split& split,
                  const std::vector<uint32_t>& indices, CUdevResourceDesc* description) {
  CUdevResource whole{}, remaining{};
  CUresult result = GetResource(api, origin, &whole);
  std::vector<CUdevResource> groups, chosen;
  uint32_t possible = 0;
  if (result == CUDA_SUCCESS && has_split)
    result = SplitResource(api, whole, split, &groups, &remaining, &possible);
  if (result != CUDA_SUCCESS) return result;
  for (uint32_t index : indices) {
    if (has_split && index != kRemaining && index >= groups.size())
      return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    chosen.push_back(!has_split ? whole : index == kRemaining ? remaining : groups[index]);
  }
  return api.cuDevResourceGenerateDesc == nullptr
             ? CUDA_ERROR_NOT_SUPPORTED
             : api.cuDevResourceGenerateDesc(description, chosen.data(),
                                             static_cast<unsigned>(chosen.size()));
}

}  // namespace

Status Serve_cuDeviceGetDevResource(ServeCall& call) {
  uint64_t wire_green = 0;
  Origin origin = GetOrigin(call, &wire_green);
  if (!call.in.Done()) return call.Malformed("body");
  ResolveOrigin(call, wire_green, &origin);
  if (!call.ready()) return call.RejectStatus();
  CUdevResource resource{};
  call.result = GetResource(call.api, origin, &resource);
  if (call.result == CUDA_SUCCESS) PutResource(call.out, resource);
  return {};
}

Status Serve_cuDevSmResourceSplitByCount(ServeCall& call) {
  uint64_t wire_green = 0;
  Origin origin = GetOrigin(call, &wire_green);
  Split split;
  split.groups = call.in.Get<uint32_t>();
  split.flags = call.in.Get<uint32_t>();
  split.min_count = call.in.Get<uint32_t>();
  if (!call.in.Done() || split.groups > kMaxGroups) return call.Malformed("body");
  ResolveOrigin(call, wire_green, &origin);
  if (!call.ready()) return call.RejectStatus();
  CUdevResource whole{}, remaining{};
  std::vector<CUdevResource> groups;
  uint32_t possible = 0;
  call.result = GetResource(call.api, origin, &whole);
  if (call.result == CUDA_SUCCESS)
    call.result = SplitResource(call.api, whole, split, &groups, &remaining, &possible);
  if (call.result != CUDA_SUCCESS) return {};
  call.out.Put<uint32_t>(possible);
  PutResource(call.out, remaining);
  call.out.Put<uint64_t>(groups.size());
  for (const CUdevResource& group : groups) PutResource(call.out, group);
  return {};
}

Status Serve_cuGreenCtxCreate(ServeCall& call) {
  auto wire = call.in.Get<uint64_t>();
  auto wire_context = call.in.Get<uint64_t>();
  auto flags = call.in.Get<uint32_t>();
  uint64_t wire_green = 0;
  Origin origin = GetOrigin(call, &wire_green);
  bool has_split = call.in.Get<uint32_t>() != 0;
  Split split;
  split.groups = call.in.Get<uint32_t>();
  split.flags = call.in.Get<uint32_t>();
  split.min_count = call.in.Get<uint32_t>();
  size_t count = call.in.GetCount(4);
  if (count == 0 || count > kMaxGroups || split.groups > kMaxGroups) return call.Malformed("body");
  std::vector<uint32_t> indices(count);
  for (uint32_t& index : indices) index = call.in.Get<uint32_t>();
  if (!call.in.Done()) return call.Malformed("body");
  ResolveOrigin(call, wire_green, &origin);
  call.CheckNew(HandleKind::kGreenContext, wire);
  call.CheckNew(HandleKind::kContext, wire_context);
  if (!call.ready()) return call.RejectStatus();
  const DriverApi& api = call.api;
  if (api.cuGreenCtxCreate == nullptr || api.cuCtxFromGreenCtx == nullptr ||
      api.cuGreenCtxDestroy == nullptr) {
    call.result = CUDA_ERROR_NOT_SUPPORTED;
    return {};
  }
  CUdevResourceDesc description = nullptr;
  CUgreenCtx green = nullptr;
  CUcontext native = nullptr;
  call.result = Describe(api, origin, has_split, split, indices, &description);
  if (call.result == CUDA_SUCCESS)
    call.result = api.cuGreenCtxCreate(&green, description, origin.device, flags);
  if (call.result != CUDA_SUCCESS) return {};
  call.result = api.cuCtxFromGreenCtx(&native, green);
  if (call.result != CUDA_SUCCESS) {
    api.cuGreenCtxDestroy(green);
    return {};
  }
  ContextState& context =
      ComeToLife(call.session, SplitHandle(wire_context), native, origin.device, false);
  context.green = green;
  call.context = nullptr;  // it belongs to none
  call.Insert(HandleKind::kGreenContext, wire, green);
  return {};
}

Status Serve_cuGreenCtxDestroy(ServeCall& call) {
  auto wire = call.in.Get<uint64_t>();
  auto wire_context = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  auto green = call.Resolve<CUgreenCtx>(HandleKind::kGreenContext, wire);
  call.Resolve<CUcontext>(HandleKind::kContext, wire_context);
  if (!call.ready()) return call.RejectStatus();
  ContextState* context =
      call.session.contexts().at(static_cast<uint16_t>(SplitHandle(wire_context).index));
  if (context->green != green) return call.Malformed("a context that is not the green one's");
  call.Erase(HandleKind::kGreenContext, wire);
  EndContext(call, context, [&api = call.api, green] { return api.cuGreenCtxDestroy(green); });
  return {};
}

Status Serve_cuGreenCtxStreamCreate(ServeCall& call) {
  auto wire = call.in.Get<uint64_t>();
  auto wire_green = call.in.Get<uint64_t>();
  auto flags = call.in.Get<uint32_t>();
  auto priority = call.in.Get<int32_t>();
  if (!call.in.Done()) return call.Malformed("body");
  auto green = call.Resolve<CUgreenCtx>(HandleKind::kGreenContext, wire_green);
  call.CheckNew(HandleKind::kStream, wire);
  if (!call.ready()) return call.RejectStatus();
  if (call.context == nullptr || call.context->green != green)
    return call.Malformed("a context that is not the green one's");
  CUstream native = nullptr;
  call.result = call.api.cuGreenCtxStreamCreate == nullptr
                    ? CUDA_ERROR_NOT_SUPPORTED
                    : call.api.cuGreenCtxStreamCreate(&native, green, flags, priority);
  if (call.result == CUDA_SUCCESS) call.Insert(HandleKind::kStream, wire, native);
  return {};
}

}  // namespace farcall::server
