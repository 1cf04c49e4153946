// SPDX-License-Identifier: Apache-2.0
// A cuSOLVER handle's stream, and the library's version.
#include <cusolverDn.h>
#include <cusolverSp.h>

#include "client-shim/thin/call.h"
#include "generated/proto/cusolver_call.h"

#define CUSOLVER_ENTRY extern "C" __attribute__((visibility("default"))) cusolverStatus_t

using farcall::cusolver::Function;
using farcall::cusolver::kKind_cusolverDnHandle_t;
using farcall::cusolver::kKind_cusolverSpHandle_t;
using farcall::thin::State;
using farcall::thin::StateOf;

namespace {

template <typename Handle>
cusolverStatus_t Create(Handle* handle, uint16_t kind, Function function) {
  return static_cast<cusolverStatus_t>(
      farcall::thin::MakeObject(function, handle, kind, new State));
}

cusolverStatus_t SetStream(const void* handle, uint16_t kind, cudaStream_t stream) {
  State* state = StateOf<State>(handle, kind);
  if (state == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  state->stream = stream;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t GetStream(const void* handle, uint16_t kind, cudaStream_t* stream) {
  State* state = StateOf<State>(handle, kind);
  if (state == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  if (stream == nullptr) return CUSOLVER_STATUS_INVALID_VALUE;
  *stream = static_cast<cudaStream_t>(state->stream);
  return CUSOLVER_STATUS_SUCCESS;
}

}  // namespace

CUSOLVER_ENTRY cusolverDnCreate(cusolverDnHandle_t* handle) {
  return Create(handle, kKind_cusolverDnHandle_t, Function::cusolverDnCreate);
}
CUSOLVER_ENTRY cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t streamId) {
  return SetStream(handle, kKind_cusolverDnHandle_t, streamId);
}
CUSOLVER_ENTRY cusolverDnGetStream(cusolverDnHandle_t handle, cudaStream_t* streamId) {
  return GetStream(handle, kKind_cusolverDnHandle_t, streamId);
}
CUSOLVER_ENTRY cusolverSpCreate(cusolverSpHandle_t* handle) {
  return Create(handle, kKind_cusolverSpHandle_t, Function::cusolverSpCreate);
}
CUSOLVER_ENTRY cusolverSpSetStream(cusolverSpHandle_t handle, cudaStream_t streamId) {
  return SetStream(handle, kKind_cusolverSpHandle_t, streamId);
}
CUSOLVER_ENTRY cusolverSpGetStream(cusolverSpHandle_t handle, cudaStream_t* streamId) {
  return GetStream(handle, kKind_cusolverSpHandle_t, streamId);
}

CUSOLVER_ENTRY cusolverGetProperty(libraryPropertyType type, int* value) {
  if (value == nullptr || type < MAJOR_VERSION || type > PATCH_LEVEL)
    return CUSOLVER_STATUS_INVALID_VALUE;
  *value = farcall::thin::VersionPart(type);
  return CUSOLVER_STATUS_SUCCESS;
}

CUSOLVER_ENTRY cusolverGetVersion(int* version) {
  if (version == nullptr) return CUSOLVER_STATUS_INVALID_VALUE;
  *version = farcall::thin::VersionPart(MAJOR_VERSION) * 1000 +
             farcall::thin::VersionPart(MINOR_VERSION) * 100 +
             farcall::thin::VersionPart(PATCH_LEVEL);
  return CUSOLVER_STATUS_SUCCESS;
}

// The library that would log runs on the server.
CUSOLVER_ENTRY cusolverDnLoggerSetCallback(cusolverDnLoggerCallback_t) {
  return CUSOLVER_STATUS_SUCCESS;
}
CUSOLVER_ENTRY cusolverDnLoggerSetFile(FILE*) {
  return CUSOLVER_STATUS_SUCCESS;
}
CUSOLVER_ENTRY cusolverDnLoggerOpenFile(const char*) {
  return CUSOLVER_STATUS_SUCCESS;
}
CUSOLVER_ENTRY cusolverDnLoggerSetLevel(int) {
  return CUSOLVER_STATUS_SUCCESS;
}
CUSOLVER_ENTRY cusolverDnLoggerSetMask(int) {
  return CUSOLVER_STATUS_SUCCESS;
}
CUSOLVER_ENTRY cusolverDnLoggerForceDisable() {
  return CUSOLVER_STATUS_SUCCESS;
}
