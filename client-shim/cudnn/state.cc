// SPDX-License-Identifier: Apache-2.0
// Handles, versions and texts: what is answered here.
#include <cudnn.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

#include "client-shim/core/report/fork_lock.h"
#include "client-shim/cudnn/backend.h"
#include "client-shim/thin/call.h"
#include "generated/proto/cudnn_call.h"

#define CUDNN_EXPORT extern "C" __attribute__((visibility("default")))

using farcall::cudnn::Function;
using farcall::cudnn::kKind_cudnnHandle_t;
using farcall::thin::Call;
using farcall::thin::LastError;
using farcall::thin::MakeObject;
using farcall::thin::SetLastError;
using farcall::thin::State;
using farcall::thin::StateOf;

namespace {

struct Versions {
  uint64_t library = 0;
  uint64_t cudart = 0;
  uint64_t device = 0;
};

// Of the server's library; of the headers this one was built with if there is no server.
Versions TheVersions() {
  static auto* mutex = new farcall::client::ForkLock;
  static Versions known;
  {
    std::lock_guard lock(*mutex);
    if (known.library != 0) return known;
  }
  Versions asked;
  Call call(Function::cudnnGetCudartVersion);
  call.OutValue(&asked.library);
  call.OutValue(&asked.cudart);
  call.OutValue(&asked.device);
  if (call.AskAnywhere() == 0) {
    std::lock_guard lock(*mutex);
    known = asked;
    return known;
  }
  return {CUDNN_VERSION, 0, 0};
}

struct Callback {
  farcall::client::ForkLock mutex;
  unsigned mask = 0;
  void* user = nullptr;
  cudnnCallback_t function = nullptr;
};
Callback& TheCallback() {
  static auto* callback = new Callback;
  return *callback;
}

}  // namespace

CUDNN_EXPORT cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  return static_cast<cudnnStatus_t>(
      MakeObject(Function::cudnnCreate, handle, kKind_cudnnHandle_t, new State));
}

CUDNN_EXPORT cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t streamId) {
  State* state = StateOf<State>(handle, kKind_cudnnHandle_t);
  if (state == nullptr) return CUDNN_STATUS_BAD_PARAM;
  state->stream = streamId;
  return CUDNN_STATUS_SUCCESS;
}
CUDNN_EXPORT cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* streamId) {
  State* state = StateOf<State>(handle, kKind_cudnnHandle_t);
  if (state == nullptr || streamId == nullptr) return CUDNN_STATUS_BAD_PARAM;
  *streamId = static_cast<cudaStream_t>(state->stream);
  return CUDNN_STATUS_SUCCESS;
}

CUDNN_EXPORT size_t cudnnGetVersion() {
  return TheVersions().library;
}
CUDNN_EXPORT size_t cudnnGetCudartVersion() {
  return TheVersions().cudart;
}
CUDNN_EXPORT size_t cudnnGetMaxDeviceVersion() {
  return TheVersions().device;
}
CUDNN_EXPORT cudnnStatus_t cudnnGetProperty(libraryPropertyType type, int* value) {
  if (value == nullptr || type < MAJOR_VERSION || type > PATCH_LEVEL) return CUDNN_STATUS_BAD_PARAM;
  auto version = static_cast<int>(cudnnGetVersion());
  *value = type == MAJOR_VERSION   ? version / 10000
           : type == MINOR_VERSION ? version / 100 % 100
                                   : version % 100;
  return CUDNN_STATUS_SUCCESS;
}

// The library that would call it runs on the server: it is only remembered.
CUDNN_EXPORT cudnnStatus_t cudnnSetCallback(unsigned mask, void* udata, cudnnCallback_t fptr) {
  Callback& callback = TheCallback();
  std::lock_guard lock(callback.mutex);
  callback.mask = mask;
  callback.user = udata;
  callback.function = fptr;
  return CUDNN_STATUS_SUCCESS;
}
CUDNN_EXPORT cudnnStatus_t cudnnGetCallback(unsigned* mask, void** udata, cudnnCallback_t* fptr) {
  if (mask == nullptr || udata == nullptr || fptr == nullptr) return CUDNN_STATUS_BAD_PARAM;
  Callback& callback = TheCallback();
  std::lock_guard lock(callback.mutex);
  *mask = callback.mask;
  *udata = callback.user;
  *fptr = callback.function;
  return CUDNN_STATUS_SUCCESS;
}

// Of this thread's last call that waited; telling it forgets it.
CUDNN_EXPORT void cudnnGetLastErrorString(char* message, size_t max_size) {
  if (message == nullptr || max_size == 0) return;
  size_t bytes = std::min(LastError().size(), max_size - 1);
  std::memcpy(message, LastError().data(), bytes);
  message[bytes] = 0;
  SetLastError("");
}
