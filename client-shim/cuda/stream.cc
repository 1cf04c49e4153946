// SPDX-License-Identifier: Apache-2.0
// Streams: flags, priorities and capture state are ours; order is the server's.
#include "client-shim/cuda/stream.h"

#include <mutex>
#include <vector>

#include "client-shim/core/calls.h"
#include "client-shim/core/devices.h"
#include "client-shim/core/handles.h"
#include "client-shim/cuda/capture_rules.h"
#include "client/calls.h"

namespace farcall::client {

namespace {
CUresult AskStream(CallId call, uint64_t stream) {
  FixedBody<8> body;
  body.Put<uint64_t>(stream);
  return RoundTrip(call, body.bytes(), nullptr);
}

// Streams 0 and 1 have no object: they are the current context's legacy stream.
Context* ContextOf(CUstream handle, CUresult* error) {
  *error = CUDA_SUCCESS;
  Stream* stream = FindStream(handle);
  if (stream != nullptr) return stream->context;
  WireStream(handle, false, error);
  return *error == CUDA_SUCCESS ? CurrentContext() : nullptr;
}

// The calling thread's own stream of its current context: it captures like any other.
Stream* OwnStream() {
  ThreadState* self = Self();
  if (self->current == nullptr) return nullptr;
  for (Stream* stream : self->own_streams) {
    if (stream->context == self->current) return stream;
  }
  Stream* stream = TakeSpareStream();
  if (stream == nullptr || Captures(stream)) stream = new Stream;
  stream->capture_id.store(0);
  stream->context = self->current;
  self->own_streams.push_back(stream);
  return stream;
}
}  // namespace

Stream* FindStream(CUstream stream) {
  if (stream == CU_STREAM_PER_THREAD) return OwnStream();
  return FindObject<Stream>(HandleKind::kStream, reinterpret_cast<uint64_t>(stream));
}

uint64_t WireStream(CUstream stream, bool per_thread_default, CUresult* error) {
  uint64_t value = reinterpret_cast<uint64_t>(stream);
  *error = CUDA_SUCCESS;
  if (value == 0) return per_thread_default ? kPerThreadStream : kLegacyStream;
  if (value <= kPerThreadStream) return value;
  void* object = nullptr;
  if (Handles(HandleKind::kStream).Find(value, &object) == HandleState::kLive) return value;
  *error = CUDA_ERROR_INVALID_HANDLE;
  return 0;
}

CUresult Call_cuStreamCreateWithPriority(CUstream* phStream, unsigned int flags, int priority) {
  if (phStream == nullptr || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  Context* context = CurrentContext();
  const Device* device = FindDevice(context->device);
  int least = device->snapshot->least_priority, greatest = device->snapshot->greatest_priority;
  priority = priority > least ? least : priority < greatest ? greatest : priority;  // CUDA clamps
  CUstream handle = nullptr;
  CUresult status = Post_cuStreamCreateWithPriority(&handle, flags, priority);
  if (status != CUDA_SUCCESS) return status;
  auto* stream = FormerObject<Stream>(HandleKind::kStream, reinterpret_cast<uint64_t>(handle));
  // One that its context took along amid a capture is still named by it.
  if (stream == nullptr || Captures(stream)) stream = new Stream;
  stream->capture_id.store(0);
  stream->context = context;
  stream->flags = flags;
  stream->priority = priority;
  Handles(HandleKind::kStream).SetObject(reinterpret_cast<uint64_t>(handle), stream);
  if (flags == CU_STREAM_NON_BLOCKING) context->unordered_streams.fetch_add(1);
  *phStream = handle;
  return CUDA_SUCCESS;
}

CUresult Call_cuStreamDestroy_v2(CUstream hStream) {
  Stream* stream = FindStream(hStream);
  if (stream == nullptr || hStream == CU_STREAM_PER_THREAD) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->flags == CU_STREAM_NON_BLOCKING) stream->context->unordered_streams.fetch_sub(1);
  if (Captures(stream)) EndCapture(stream);
  // Another thread may be looking at the object: it stays, for a later stream.
  return Post_cuStreamDestroy_v2(hStream);
}

CUresult Call_cuStreamGetPriority(CUstream hStream, int* priority) {
  Stream* stream = FindStream(hStream);
  CUresult status = CUDA_SUCCESS;
  if (ContextOf(hStream, &status) == nullptr) return status;
  if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *priority = stream == nullptr ? 0 : stream->priority;
  return CUDA_SUCCESS;
}

CUresult Call_cuStreamGetFlags(CUstream hStream, unsigned int* flags) {
  Stream* stream = FindStream(hStream);
  CUresult status = CUDA_SUCCESS;
  if (ContextOf(hStream, &status) == nullptr) return status;
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = stream == nullptr ? 0u : stream->flags;
  return CUDA_SUCCESS;
}

CUresult Call_cuStreamGetId(CUstream hStream, unsigned long long* streamId) {
  CUresult status = CUDA_SUCCESS;
  Context* context = ContextOf(hStream, &status);
  if (context == nullptr) return status;
  if (streamId == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint64_t wire = WireStream(hStream, false, &status);
  // Handles are unique; default streams are told apart by context and, for the per-thread one, by
  // thread.
  uint64_t thread = wire == kPerThreadStream ? Self()->slot : 0;
  *streamId = wire > kPerThreadStream ? wire : wire | context->id << 8 | thread << 24;
  return CUDA_SUCCESS;
}

CUresult Call_cuStreamGetDevice(CUstream hStream, CUdevice* device) {
  CUresult status = CUDA_SUCCESS;
  Context* context = ContextOf(hStream, &status);
  if (context == nullptr) return status;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = context->device;
  return CUDA_SUCCESS;
}

CUresult Call_cuStreamGetCtx(CUstream hStream, CUcontext* pctx) {
  CUresult status = CUDA_SUCCESS;
  Context* context = ContextOf(hStream, &status);
  if (context == nullptr) return status;
  if (pctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pctx = AsCuda(context);
  return CUDA_SUCCESS;
}

CUresult Call_cuStreamGetCtx_v2(CUstream hStream, CUcontext* pCtx, CUgreenCtx* pGreenCtx) {
  CUresult status = Call_cuStreamGetCtx(hStream, pCtx);
  if (status == CUDA_SUCCESS && pGreenCtx != nullptr) *pGreenCtx = nullptr;
  return status;
}

CUresult Call_cuStreamQuery(CUstream hStream) {
  CUresult status = CUDA_SUCCESS;
  uint64_t stream = WireStream(hStream, false, &status);
  if (status != CUDA_SUCCESS) return status;
  if (Captures(FindStream(hStream))) return RefuseOn(FindStream(hStream));
  return AskStream(CallId::cuStreamQuery, stream);
}

CUresult Call_cuStreamSynchronize(CUstream hStream) {
  CUresult status = CUDA_SUCCESS;
  uint64_t stream = WireStream(hStream, false, &status);
  if (status != CUDA_SUCCESS) return status;
  if (Captures(FindStream(hStream))) return RefuseOn(FindStream(hStream));
  return AskStream(CallId::cuStreamSynchronize, stream);
}

CUresult Call_cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags) {
  Event* event = FindEvent(hEvent);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (Flags > CU_EVENT_WAIT_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  Stream *stream = FindStream(hStream), *origin = event->capture_stream.load();
  // Waiting for an event of a capture joins it.
  if (origin != nullptr && stream != nullptr && Captures(origin) && !Captures(stream)) {
    JoinCapture(stream, origin);
  }
  return Post_cuStreamWaitEvent(hStream, hEvent, Flags);
}

}  // namespace farcall::client
