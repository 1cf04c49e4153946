// SPDX-License-Identifier: Apache-2.0
// Host functions and callbacks in stream order.
#include "client-shim/cuda/state/stream_function.h"

#include "client-shim/core/session/calls.h"
#include "client-shim/cuda/state/capture_rules.h"
#include "client-shim/cuda/state/captured.h"
#include "client-shim/cuda/state/stream.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {
// `enroll` gives the function's number, once the stream is known to be one.
template <typename Enroll>
CUresult PostFunction(CUstream stream, Enroll enroll) {
  CUresult status = CUDA_SUCCESS;
  uint64_t wire = WireStream(stream, false, &status);
  if (status != CUDA_SUCCESS) return status;
  FixedBody<24> body;
  body.Put<uint64_t>(enroll());
  body.Put<uint64_t>(0);
  body.Put<uint64_t>(wire);
  return Post(CallId::cuLaunchHostFunc, body.bytes());
}
}  // namespace

CUresult PostHostFunction(CUstream stream, std::function<void(CUresult)> function,
                          HostFunctionKind kind) {
  return PostFunction(stream, [&] { return RegisterHostFunction(std::move(function), kind); });
}

CUresult PostDeferred(CUstream stream, std::function<void(std::function<void()> done)> function) {
  return PostFunction(stream, [&] { return RegisterDeferred(std::move(function)); });
}

namespace {
HostFunctionKind KindOn(CUstream handle) {
  return Captures(FindStream(handle)) ? HostFunctionKind::kCaptured : HostFunctionKind::kOnce;
}
}  // namespace

CUresult Call_cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void* userData) {
  if (fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (Captures(FindStream(hStream))) return CaptureHostFunction(hStream, fn, userData);
  // A host function does not run after a failure; a callback does.
  auto call = [fn, userData](CUresult status) {
    if (status == CUDA_SUCCESS) fn(userData);
  };
  return PostHostFunction(hStream, call, HostFunctionKind::kOnce);
}

CUresult Call_cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void* userData,
                                  unsigned int flags) {
  if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  auto call = [=](CUresult status) { callback(hStream, status, userData); };
  return PostHostFunction(hStream, call, KindOn(hStream));
}

}  // namespace farcall::client
