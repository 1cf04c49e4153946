// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/channel/library_channel.h"

#include <cuda.h>

#include "client-shim/core/answer_cache.h"
#include "client-shim/core/channel/library_objects.h"
#include "client-shim/core/connection/connect.h"
#include "client-shim/core/report/log.h"
#include "client-shim/core/roles.h"
#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/thread_state.h"
#include "client-shim/cuda/state/mirror.h"
#include "client-shim/cuda/state/stream.h"
#include "generated/client/handwritten.h"
#include "proto/library/library_inventory.h"

namespace farcall::client {

namespace {

// The session, if there is one that runs libraries.
CUresult CheckSession() {
  Life life = g_life.load(std::memory_order_acquire);
  if (life != Life::kReady) [[unlikely]]
    return life == Life::kLeft ? CUDA_ERROR_DEINITIALIZED : CUDA_ERROR_NOT_INITIALIZED;
  Session* session = CurrentSession();
  if (session->ended() != CUDA_SUCCESS) [[unlikely]]
    return session->ended();
  if (!HasFeature(session->welcome(), SessionFeature::kLibraries)) [[unlikely]] {
    static std::atomic<bool> said{false};
    if (!said.exchange(true))
      Log(LogLevel::kWarn,
          "the server runs no mathematics libraries: it is older than this client");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}

int BeginLibrary() {
  CUresult status = Initialise();
  return status == CUDA_SUCCESS ? CheckSession() : status;
}

bool IsForked() {
  return g_life.load(std::memory_order_acquire) == Life::kForked;
}

bool ServerHas(SessionFeature feature) {
  const Session* session = CurrentSession();
  return session != nullptr && HasFeature(session->welcome(), feature);
}

bool ServerLacks(LibraryId library) {
  const Session* session = CurrentSession();
  return session != nullptr && ServerHas(SessionFeature::kLibraryInventory) &&
         IsLacking(session->welcome().libraries, library);
}

// A library of CUDA's works without cuInit and without a current context: as cudart would.
int EnterLibrary() {
  if (HasSeveralServers()) [[unlikely]]
    BeginRoute();
  Context* current = Self()->current;
  if (current == nullptr) [[unlikely]] {
    CUresult status = Initialise();
    if (status != CUDA_SUCCESS) return status;
    CUcontext primary = nullptr;
    status = Enter(CallId::cuDevicePrimaryCtxRetain, Needs::kInit);
    if (status == CUDA_SUCCESS) status = Call_cuDevicePrimaryCtxRetain(&primary, 0);
    if (status == CUDA_SUCCESS) status = Call_cuCtxSetCurrent(primary);
    if (status != CUDA_SUCCESS) return status;
  }
  CUresult ready = CheckSession();
  if (ready != CUDA_SUCCESS) [[unlikely]]
    return ready;
  if (!Self()->current->alive.load(std::memory_order_relaxed))
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return CUDA_SUCCESS;
}

// The record, its stream named; *status: why it cannot be.
Record LibraryRecord(void* body, size_t bytes, void* stream, StreamUse use, CUresult* status) {
  auto* header = static_cast<LibraryHeader*>(body);
  *status = CUDA_SUCCESS;
  header->stream = use == StreamUse::kNone
                       ? uint64_t{0}
                       : WireStream(static_cast<CUstream>(stream), false, status);
  if (*status != CUDA_SUCCESS && use == StreamUse::kIfAlive) {
    header->stream = 0;
    *status = CUDA_SUCCESS;
  }
  ThreadState* self = Self();
  self->call = 0;  // no entry of the driver API's
  Record record;
  record.call = static_cast<uint16_t>(SessionCall::kLibrary);
  record.thread = self->slot;
  record.context = self->current == nullptr ? 0 : self->current->slot;
  record.head = {static_cast<const std::byte*>(body), bytes};
  return record;
}

int LibraryStatus(const Reply& reply) {
  Reader in = reply.outputs();
  auto status = in.Get<int32_t>();
  return in.ok() ? status : -1;
}

int AskLibrary(void* body, size_t bytes, void* stream, StreamUse use, TakeReply take, void* user) {
  CUresult status = CUDA_SUCCESS;
  Record record = LibraryRecord(body, bytes, stream, use, &status);
  if (status != CUDA_SUCCESS) return status;
  PushMirrors();
  Reply reply;
  status = AskRecord(record, &reply);
  if (status != CUDA_SUCCESS) return status;
  PullMirrors();
  take(user, reply.body.data(), reply.body.size());
  return CUDA_SUCCESS;
}

int PostLibrary(void* body, size_t bytes, void* stream, StreamUse use, int* library_status) {
  CUresult status = CUDA_SUCCESS;
  *library_status = 0;
  Record record = LibraryRecord(body, bytes, stream, use, &status);
  if (status != CUDA_SUCCESS) [[unlikely]]
    return status;
  PushMirrors();
  if (!IsSync()) [[likely]] {
    status = PostRecord(record);
    const Context* context = Self()->current;
    // After a sticky error every call of the context fails, a library's too.
    return status == CUDA_SUCCESS && context != nullptr &&
                   context->sticky.load(std::memory_order_acquire)
               ? context->late_error.load(std::memory_order_relaxed)
               : static_cast<int>(status);
  }
  Reply reply;
  status = AskRecord(record, &reply);
  if (status == CUDA_SUCCESS) *library_status = LibraryStatus(reply);
  return status;
}

uint64_t OnDevice(uint64_t address) {
  if (IsForked()) [[unlikely]]
    return address;
  if (!HostAddresses().Holds(address)) [[likely]]
    return AddressOnDevice(address);
  return mirror_internal::ExposeWord(address);
}

int CaptureStatusOf(void* stream) {
  if (IsForked()) return CU_STREAM_CAPTURE_STATUS_NONE;
  const Stream* found = FindStream(static_cast<CUstream>(stream));
  return found == nullptr ? CU_STREAM_CAPTURE_STATUS_NONE
                          : found->capture.load(std::memory_order_relaxed);
}

void BreakCapture(void* stream) {
  Call_cuStreamSynchronize(static_cast<CUstream>(stream));
}

LibraryObject* NewObject(uint8_t library, uint8_t kind, void* state) {
  return IsForked() ? nullptr : NewLibraryObject(library, kind, state);
}

void EndObject(LibraryObject* object) {
  if (!IsForked()) EndLibraryObject(object);
}

bool TakeFailure(uint64_t object, uint16_t* function, int* status) {
  return !IsForked() && TakeLibraryFailure(object, function, status);
}

void LogLine(int level, const char* line) {
  auto at = static_cast<LogLevel>(level);
  if (LogEnabled(at)) Log(at, "%s", line);
}

}  // namespace

const LibraryChannel* TheLibraryChannel() {
  static const LibraryChannel kChannel = {sizeof(LibraryChannel),
                                          EnterLibrary,
                                          BeginLibrary,
                                          IsForked,
                                          ServerHas,
                                          ServerLacks,
                                          PostLibrary,
                                          AskLibrary,
                                          OnDevice,
                                          CaptureStatusOf,
                                          BreakCapture,
                                          NewObject,
                                          FindLibraryObject,
                                          EndObject,
                                          &LibraryFailures(),
                                          TakeFailure,
                                          KeptAnswer,
                                          KeepAnswer,
                                          LogLine};
  return &kChannel;
}

}  // namespace farcall::client
