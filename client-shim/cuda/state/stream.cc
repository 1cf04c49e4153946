// SPDX-License-Identifier: Apache-2.0
// Streams: flags, priorities and capture state are ours; order is the server's.
#include "client-shim/cuda/state/stream.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/devices.h"
#include "client-shim/core/session/handles.h"
#include "client-shim/cuda/objects/memory_pool.h"
#include "client-shim/cuda/state/across.h"
#include "client-shim/cuda/state/capture_rules.h"
#include "client-shim/cuda/state/captured.h"
#include "client-shim/cuda/state/context.h"
#include "client-shim/cuda/state/copy.h"
#include "client-shim/cuda/state/green_context.h"
#include "client-shim/cuda/state/mirror.h"
#include "client-shim/cuda/state/settled.h"
#include "generated/client/calls.h"

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

std::atomic<bool> g_own_streams{false};

// The calling thread's own stream of its current context: it captures like any other.
Stream* OwnStream() {
  ThreadState* self = Self();
  if (self->current == nullptr) return nullptr;
  for (Stream* stream : self->own_streams)
    if (stream->context == self->current) return stream;
  Stream* stream = TakeSpareStream();
  if (stream == nullptr || Captures(stream)) stream = new Stream;
  stream->capture_id.store(0);
  stream->handle = 0;
  stream->context = self->current;
  g_own_streams.store(true);
  self->own_streams.push_back(stream);
  return stream;
}
}  // namespace

bool IsKnownIdle(Session* session) {
  // Of another thread's own stream nothing can be asked here.
  if (g_own_streams.load()) return false;
  std::vector<std::pair<Context*, uint64_t>> streams;
  Handles(HandleKind::kContext).FreeIf([&](void* object) {
    auto* context = static_cast<Context*>(object);
    if (context != nullptr && context->session == session && context->alive.load())
      streams.emplace_back(context, kLegacyStream);
    return false;
  });
  Handles(HandleKind::kStream).FreeIf([&](void* object) {
    const auto* stream = static_cast<Stream*>(object);
    if (stream != nullptr && stream->context->session == session && stream->context->alive.load())
      streams.emplace_back(stream->context, stream->handle);
    return false;
  });
  return std::all_of(streams.begin(), streams.end(), [](const auto& each) {
    const ContextScope scope(each.first);
    return AskStream(CallId::cuStreamQuery, each.second) == CUDA_SUCCESS;
  });
}

Stream* FindStream(CUstream stream) {
  if (stream == CU_STREAM_PER_THREAD) return OwnStream();
  void* object = nullptr;
  const bool is_live = FindLive<HandleKind::kStream>(reinterpret_cast<uint64_t>(stream), &object);
  if (HasSeveralServers() && is_live) [[unlikely]]
    Handles(HandleKind::kStream).Note(reinterpret_cast<uint64_t>(stream));
  return is_live ? static_cast<Stream*>(object) : nullptr;
}

namespace {
// The default streams are the context's, whoever's memory the call names.
void NoteStream(uint64_t wire) {
  if (wire > kPerThreadStream) Handles(HandleKind::kStream).Note(wire);
}
}  // namespace

uint64_t WireStream(CUstream stream, bool per_thread_default, CUresult* error) {
  *error = CUDA_SUCCESS;
  if (stream == nullptr) return per_thread_default ? kPerThreadStream : kLegacyStream;
  uint64_t wire = 0;
  if (ToWire(stream, &wire)) {
    if (HasSeveralServers()) [[unlikely]]
      NoteStream(wire);
    return wire;
  }
  *error = CUDA_ERROR_INVALID_HANDLE;
  return 0;
}

namespace {
// What is known here of a stream that is about to be.
void Adopt(CUstream handle, Context* context, unsigned flags, int priority) {
  auto* stream = FormerObject<Stream>(HandleKind::kStream, reinterpret_cast<uint64_t>(handle));
  // One that its context took along amid a capture is still named by it.
  if (stream == nullptr || Captures(stream)) stream = new Stream;
  stream->capture_id.store(0);
  stream->handle = reinterpret_cast<uint64_t>(handle);
  stream->context = context;
  stream->flags = flags;
  stream->priority = priority;
  Handles(HandleKind::kStream).SetObject(reinterpret_cast<uint64_t>(handle), stream);
  if (flags == CU_STREAM_NON_BLOCKING) context->unordered_streams.fetch_add(1);
}

int Clamped(const Context* context, int priority) {
  const Device* device = FindDevice(context->device);
  int least = device->snapshot->least_priority, greatest = device->snapshot->greatest_priority;
  return priority > least ? least : priority < greatest ? greatest : priority;  // CUDA clamps
}
}  // namespace

CUresult CreateStream(CUstream* out, unsigned flags, int priority,
                      const std::function<CUresult(uint64_t handle, int priority)>& create) {
  Context* context = CurrentContext();
  CUresult status = CUDA_SUCCESS;
  uint64_t handle = NewHandle(HandleKind::kStream, &status);
  if (status != CUDA_SUCCESS) return status;
  priority = Clamped(context, priority);
  status = create(handle, priority);
  if (status != CUDA_SUCCESS) {
    FreeHandle(HandleKind::kStream, handle);
    return status;
  }
  *out = reinterpret_cast<CUstream>(handle);
  Adopt(*out, context, flags, priority);
  return CUDA_SUCCESS;
}

CUresult Call_cuStreamCreateWithPriority(CUstream* phStream, unsigned int flags, int priority) {
  if (phStream == nullptr || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  Context* context = CurrentContext();
  priority = Clamped(context, priority);
  CUstream handle = nullptr;
  CUresult status = Post_cuStreamCreateWithPriority(&handle, flags, priority);
  if (status != CUDA_SUCCESS) return status;
  Adopt(handle, context, flags, priority);
  *phStream = handle;
  return CUDA_SUCCESS;
}

CUresult Call_cuStreamDestroy_v2(CUstream hStream) {
  Stream* stream = FindStream(hStream);
  if (stream == nullptr || hStream == CU_STREAM_PER_THREAD) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->flags == CU_STREAM_NON_BLOCKING) stream->context->unordered_streams.fetch_sub(1);
  if (Captures(stream)) AbandonCapture(stream, hStream);
  ReleaseIdleOfStream(reinterpret_cast<uint64_t>(hStream));
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
  CUcontext context = nullptr;
  CUresult status = Call_cuStreamGetCtx(hStream, &context);
  if (status != CUDA_SUCCESS) return status;
  if (pCtx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* found = FindContext(context);
  CUgreenCtx green = GreenHandle(found);
  *pCtx = green == nullptr ? context : AsCuda(PrimaryContext(found->device));
  if (pGreenCtx != nullptr) *pGreenCtx = green;
  return CUDA_SUCCESS;
}

CUresult Call_cuStreamQuery(CUstream hStream) {
  CUresult status = CUDA_SUCCESS;
  uint64_t stream = WireStream(hStream, false, &status);
  if (status != CUDA_SUCCESS) return status;
  if (Captures(FindStream(hStream))) return RefuseOn(FindStream(hStream));
  PushMirrorsAtWait();
  status = AskStream(CallId::cuStreamQuery, stream);
  if (status == CUDA_SUCCESS) PullMirrors();
  return status;
}

CUresult Call_cuStreamSynchronize(CUstream hStream) {
  uint64_t wire = 0;
  void* object = nullptr;
  if (!ToWire(hStream, &wire, &object)) return CUDA_ERROR_INVALID_HANDLE;
  if (HasSeveralServers()) [[unlikely]]
    NoteStream(wire);
  Stream* stream = wire == kPerThreadStream ? FindStream(hStream) : static_cast<Stream*>(object);
  if (Captures(stream)) return RefuseOn(stream);
  const LastWait last = LastWaitOf(stream);
  if (HasNothingToTell(last)) {
    CUresult status = PostBarrier(wire);
    TrimPoolsAtWait();
    return status == CUDA_SUCCESS ? TakeErrorAtWait(CurrentContext()) : status;
  }
  PushMirrorsAtWait();
  uint64_t records = CurrentSession()->records();
  CUresult status = AskStream(CallId::cuStreamSynchronize, wire);
  TrimPoolsAtWait();
  if (status != CUDA_SUCCESS) return status;
  NoteStreamWaited(last, records);
  PullMirrors();
  return status;
}

CUresult Call_cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags) {
  Event* event = FindEvent(hEvent);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (Flags > CU_EVENT_WAIT_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  if (Flags == CU_EVENT_WAIT_EXTERNAL && Captures(FindStream(hStream)))
    return CaptureEvent(hStream, hEvent, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
  if (HasSeveralServers() &&
      event->context->session != SessionOfStream(reinterpret_cast<uint64_t>(hStream)))
    return WaitAcross(hStream, event, hEvent);
  Stream *stream = FindStream(hStream), *origin = event->capture_stream.load();
  // Waiting for an event of a capture joins it.
  if (origin != nullptr && stream != nullptr && Captures(origin) && !Captures(stream))
    JoinCapture(stream, origin);
  return Post_cuStreamWaitEvent(hStream, hEvent, Flags);
}

namespace {
constexpr unsigned kMaxMemOps = 256;

bool IsMemOp(const CUstreamBatchMemOpParams& op) {
  switch (op.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      return HoldsMemory(op.waitValue.address, 4);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return HoldsMemory(op.waitValue.address, 8);
    case CU_STREAM_MEM_OP_BARRIER:
      return op.memoryBarrier.flags <= CU_STREAM_MEMORY_BARRIER_TYPE_GPU;
    default:
      return false;
  }
}

CUresult PostMemOp(CUstream stream, const CUstreamBatchMemOpParams& op) {
  switch (op.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      return Post_cuStreamWaitValue32_v2(stream, op.waitValue.address, op.waitValue.value,
                                         op.waitValue.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      return Post_cuStreamWriteValue32_v2(stream, op.writeValue.address, op.writeValue.value,
                                          op.writeValue.flags);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      return Post_cuStreamWaitValue64_v2(stream, op.waitValue.address, op.waitValue.value64,
                                         op.waitValue.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return Post_cuStreamWriteValue64_v2(stream, op.writeValue.address, op.writeValue.value64,
                                          op.writeValue.flags);
    default:
      return CUDA_SUCCESS;  // a barrier: in one stream, what comes after sees what came before
  }
}
}  // namespace

CUresult Call_cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
                                    CUstreamBatchMemOpParams* paramArray, unsigned int flags) {
  CUresult status = CUDA_SUCCESS;
  WireStream(stream, false, &status);
  if (status != CUDA_SUCCESS) return status;
  if (flags != 0 || count > kMaxMemOps || (count != 0 && paramArray == nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    if (paramArray[i].operation == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES)
      return NotSupported(CallId::cuStreamBatchMemOp_v2);
    if (!IsMemOp(paramArray[i])) return CUDA_ERROR_INVALID_VALUE;
  }
  for (unsigned i = 0; i < count && status == CUDA_SUCCESS; ++i)
    status = PostMemOp(stream, paramArray[i]);
  return status;
}

}  // namespace farcall::client
