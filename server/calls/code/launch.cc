// SPDX-License-Identifier: Apache-2.0
// Kernel launches: geometry, attributes and the packed parameter buffer of the layout the client
// was given.
#include <cstring>

#include "generated/server/driver_api.h"
#include "generated/server/handwritten.h"
#include "server/state/objects/context_state.h"
#include "server/state/session.h"

namespace farcall::server {

namespace {

constexpr size_t kMaxAttributes = 32;
constexpr size_t kMaxParameterBytes = 32768;  // no architecture takes more

// What a value's first eight bytes are, where they are more than numbers.
bool ResolveAttribute(ServeCall& call, CUlaunchAttribute& attribute) {
  switch (attribute.id) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW: {
      CUaccessPolicyWindow& window = attribute.value.accessPolicyWindow;
      call.ResolveAddress(reinterpret_cast<uint64_t>(window.base_ptr), window.num_bytes);
      return true;
    }
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT: {
      uint64_t wire = 0;
      std::memcpy(&wire, &attribute.value, sizeof(wire));
      auto event = call.Resolve<CUevent>(HandleKind::kEvent, wire);
      std::memcpy(&attribute.value, &event, sizeof(event));
      return true;
    }
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
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
      return true;
    default:
      return false;
  }
}

bool GetAttributes(Reader& in, CUlaunchAttribute (&attributes)[kMaxAttributes], size_t* count) {
  *count = in.GetCount(68);
  if (*count > kMaxAttributes) return false;
  for (size_t i = 0; i < *count; ++i) {
    attributes[i].id = static_cast<CUlaunchAttributeID>(in.Get<uint32_t>());
    uint64_t words[8];  // the value, as eight words
    for (uint64_t& word : words) word = in.Get<uint64_t>();
    std::memcpy(&attributes[i].value, words, sizeof(words));
  }
  return true;
}

void ResolveAttributes(ServeCall& call, CUlaunchAttribute* attributes, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (!ResolveAttribute(call, attributes[i])) {
      call.result = CUDA_ERROR_NOT_SUPPORTED;
      call.detail =
          "cuLaunchKernelEx: attribute " + std::to_string(attributes[i].id) + " is not supported";
    }
  }
}

HandleKind FunctionKind(uint64_t wire) {
  return SplitHandle(wire).kind == HandleKind::kKernel ? HandleKind::kKernel
                                                       : HandleKind::kFunction;
}

// What a launch of this shape would do. Its stream does not matter.
Status AnswerAboutLaunch(ServeCall& call,
                         CUresult (*ask)(int*, CUfunction, const CUlaunchConfig*)) {
  auto wire_function = call.in.Get<uint64_t>();
  CUlaunchConfig config{};
  for (unsigned* part : {&config.gridDimX, &config.gridDimY, &config.gridDimZ, &config.blockDimX,
                         &config.blockDimY, &config.blockDimZ, &config.sharedMemBytes})
    *part = call.in.Get<uint32_t>();
  CUlaunchAttribute attributes[kMaxAttributes] = {};
  size_t count = 0;
  if (!GetAttributes(call.in, attributes, &count) || !call.in.Done()) return call.Malformed("body");
  auto function = call.Resolve<CUfunction>(FunctionKind(wire_function), wire_function);
  ResolveAttributes(call, attributes, count);
  if (!call.ready()) return call.RejectStatus();
  if (ask == nullptr) {
    call.result = CUDA_ERROR_NOT_SUPPORTED;
    return {};
  }
  config.attrs = attributes;
  config.numAttrs = static_cast<unsigned>(count);
  int answer = 0;
  call.result = ask(&answer, function, &config);
  if (call.result == CUDA_SUCCESS) call.out.Put<int32_t>(answer);
  return {};
}

}  // namespace

Status Serve_cuLaunchKernel(ServeCall& call) {
  auto wire_function = call.in.Get<uint64_t>();
  CUlaunchConfig config{};
  config.gridDimX = call.in.Get<uint32_t>();
  config.gridDimY = call.in.Get<uint32_t>();
  config.gridDimZ = call.in.Get<uint32_t>();
  config.blockDimX = call.in.Get<uint32_t>();
  config.blockDimY = call.in.Get<uint32_t>();
  config.blockDimZ = call.in.Get<uint32_t>();
  config.sharedMemBytes = call.in.Get<uint32_t>();
  auto wire_stream = call.in.Get<uint64_t>();
  CUlaunchAttribute attributes[kMaxAttributes] = {};
  size_t count = 0;
  if (!GetAttributes(call.in, attributes, &count))
    return call.Malformed("more attributes than there are");
  std::span<const std::byte> parameters = call.in.GetBytes();
  if (!call.in.Done() || parameters.size() > kMaxParameterBytes) return call.Malformed("body");

  HandleKind kind = FunctionKind(wire_function);
  auto function = call.Resolve<CUfunction>(kind, wire_function);
  config.hStream = call.ResolveStream(wire_stream);
  ResolveAttributes(call, attributes, count);
  if (!call.ready()) return call.RejectStatus();
  auto* state = static_cast<FunctionState*>(call.ResolveExtra(kind, wire_function));
  if (state != nullptr && state->parameter_bytes != FunctionState::kUnknown &&
      parameters.size() < state->parameter_bytes) {
    call.result = CUDA_ERROR_INVALID_VALUE;
    call.detail = "cuLaunchKernel: " + std::to_string(parameters.size()) +
                  " bytes of parameters, the kernel takes " +
                  std::to_string(state->parameter_bytes);
    return {};
  }
  // The driver copies the buffer before it returns.
  size_t parameter_bytes = parameters.size();
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<std::byte*>(parameters.data()),
                   CU_LAUNCH_PARAM_BUFFER_SIZE, &parameter_bytes, CU_LAUNCH_PARAM_END};
  if (count == 0) {
    call.result = call.api.cuLaunchKernel(
        function, config.gridDimX, config.gridDimY, config.gridDimZ, config.blockDimX,
        config.blockDimY, config.blockDimZ, config.sharedMemBytes, config.hStream, nullptr, extra);
    return {};
  }
  if (call.api.cuLaunchKernelEx == nullptr) {
    call.result = CUDA_ERROR_NOT_SUPPORTED;
    return {};
  }
  config.attrs = attributes;
  config.numAttrs = static_cast<unsigned>(count);
  call.result = call.api.cuLaunchKernelEx(&config, function, nullptr, extra);
  return {};
}

Status Serve_cuOccupancyMaxActiveClusters(ServeCall& call) {
  return AnswerAboutLaunch(call, call.api.cuOccupancyMaxActiveClusters);
}

Status Serve_cuOccupancyMaxPotentialClusterSize(ServeCall& call) {
  return AnswerAboutLaunch(call, call.api.cuOccupancyMaxPotentialClusterSize);
}

}  // namespace farcall::server
