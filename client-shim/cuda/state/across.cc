// SPDX-License-Identifier: Apache-2.0
#include "client-shim/cuda/state/across.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "client-shim/core/connection/server_latch.h"
#include "client-shim/core/memory_map.h"
#include "client-shim/core/report/log.h"
#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/devices.h"
#include "client-shim/cuda/state/capture_rules.h"
#include "client-shim/cuda/state/copy.h"
#include "client-shim/cuda/state/green_context.h"
#include "client-shim/cuda/state/stream_function.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

// Streams of ours, which wait for no default stream. One is lent to a copy or a wait and comes back
// when that is over.
struct OwnStreams {
  struct Idle {
    Context* context;
    CUstream stream;
  };
  std::mutex mutex;
  std::vector<Idle> idle;
};
OwnStreams* g_streams = new OwnStreams;

CUresult TakeStream(Context* context, CUstream* stream) {
  {
    std::lock_guard lock(g_streams->mutex);
    for (auto at = g_streams->idle.begin(); at != g_streams->idle.end(); ++at) {
      if (at->context != context) continue;
      const CUstream found = at->stream;
      g_streams->idle.erase(at);
      const ServerScope scope(context->session);
      if (FindStream(found) == nullptr) break;  // it went with its context
      *stream = found;
      return CUDA_SUCCESS;
    }
  }
  const ContextScope scope(context);
  return Call_cuStreamCreateWithPriority(stream, CU_STREAM_NON_BLOCKING, 0);
}

void GiveStream(Context* context, CUstream stream) {
  std::lock_guard lock(g_streams->mutex);
  g_streams->idle.push_back({context, stream});
}

// One side of a copy: a context, a stream of ours there.
class Side {
 public:
  explicit Side(CUdeviceptr address) : context_(ContextAt(address)) {
    status_ = context_ == nullptr ? CUDA_ERROR_INVALID_CONTEXT : TakeStream(context_, &stream_);
  }
  ~Side() {
    if (status_ == CUDA_SUCCESS) GiveStream(context_, stream_);
  }
  Side(const Side&) = delete;

  CUresult status() const { return status_; }
  Context* context() const { return context_; }
  uint64_t stream() const { return reinterpret_cast<uint64_t>(stream_); }
  CUresult Await() const {
    const ContextScope scope(context_);
    return AwaitStream(stream());
  }

 private:
  Context* context_;
  CUstream stream_ = nullptr;
  CUresult status_;
};

// Large enough that the round trip at the end of each counts for little.
constexpr size_t kMinPieceBytes = 1u << 20, kMaxPieceBytes = 16u << 20, kPiecesOfACopy = 8;

// One piece comes down while the one before it goes up.
CUresult CopyPieces(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
  const Side from(src), to(dst);
  if (from.status() != CUDA_SUCCESS) return from.status();
  if (to.status() != CUDA_SUCCESS) return to.status();
  const size_t piece = std::clamp(bytes / kPiecesOfACopy, kMinPieceBytes, kMaxPieceBytes);
  const size_t room = std::min(bytes, piece);
  std::unique_ptr<std::byte[]> rooms[2];
  for (auto& each : rooms) each = std::make_unique_for_overwrite<std::byte[]>(room);
  auto fetch = [&](size_t offset, bool wait) {
    const ContextScope scope(from.context());
    return CopyToHost(rooms[offset / piece % 2].get(), src + offset,
                      std::min(bytes - offset, piece), from.stream(), wait);
  };
  CUresult status = fetch(0, true);
  for (size_t offset = 0; offset < bytes && status == CUDA_SUCCESS; offset += piece) {
    const size_t next = offset + piece;
    if (next < bytes) status = fetch(next, false);
    if (status == CUDA_SUCCESS) {
      const ContextScope scope(to.context());
      status = CopyToDevice(dst + offset, rooms[offset / piece % 2].get(),
                            std::min(bytes - offset, piece), to.stream(), Upload::kSync);
    }
    // Also behind a failure: the room is ours until the piece has landed.
    if (next < bytes) {
      const CUresult landed = from.Await();
      if (status == CUDA_SUCCESS) status = landed;
    }
  }
  const CUresult arrived = to.Await();
  return status == CUDA_SUCCESS ? arrived : status;
}

CUresult AwaitContext(Context* context) {
  const ContextScope scope(context);
  return Call_cuCtxSynchronize_v2(AsCuda(context));
}

// What the stream waits for is done on a thread of its own: the one that runs host functions has
// others to run.
CUresult PostCopy(CUdeviceptr dst, CUdeviceptr src, size_t bytes, Session* session,
                  uint64_t stream) {
  const ServerScope scope(session);
  Context* context = FindStream(reinterpret_cast<CUstream>(stream))->context;
  auto copy = [=](const std::function<void()>& done) {
    auto work = [=] {
      const CUresult status = CopyPieces(dst, src, bytes);
      if (status != CUDA_SUCCESS) RecordLateError(context, status);
      done();
    };
    if (!StartThread("farcall-across", work)) work();
  };
  const CUresult posted = PostDeferred(reinterpret_cast<CUstream>(stream), copy);
  session->NoteWork();
  return posted;
}

}  // namespace

Context* ContextAt(CUdeviceptr address) {
  Session* session = ServerOfAddress(address);
  const ServerScope scope(session);
  Allocation found;
  if (Memory().Find(address, &found) && found.context != nullptr && found.context->alive.load() &&
      found.context->session == session)
    return found.context;
  return ContextFor(session);
}

namespace {

// Which devices may copy from and to whose memory: asked for once.
struct Reached {
  std::mutex mutex;
  std::set<std::pair<int, int>> devices;  // who, whose
};
Reached* g_reached = new Reached;

// Whether `context`'s device may copy from and to the memory at `address`.
bool MayReach(Context* context, CUdeviceptr address, CUresult* status) {
  Allocation found;
  if (!Memory().Find(address, &found) || found.kind != MemoryKind::kDevice ||
      found.mapped_handle != 0 || found.device == context->device)
    return true;  // its own, the host's, or what the program has mapped as it likes
  int can = 0;
  if (Call_cuDeviceCanAccessPeer(&can, context->device, found.device) != CUDA_SUCCESS || can == 0)
    return false;
  std::lock_guard lock(g_reached->mutex);
  const std::pair pair(context->device, found.device);
  if (g_reached->devices.count(pair) != 0) return true;
  const ContextScope scope(context);
  *status = AskPeerAccess(found.server_device);
  if (*status == CUDA_SUCCESS) g_reached->devices.insert(pair);
  return true;
}

}  // namespace

bool IsAcross(CUdeviceptr dst, CUdeviceptr src, uint64_t stream, CUresult* status) {
  *status = CUDA_SUCCESS;
  if (VisibleDeviceCount() < 2) [[likely]]
    return false;
  const Session *to = ServerOfAddress(dst), *from = ServerOfAddress(src);
  if (to != from && to != nullptr && from != nullptr) return true;
  Context* context = ContextOfStream(stream);
  if (context == nullptr || (HasSeveralServers() && context->session != to)) return false;
  return !MayReach(context, dst, status) ||
         (*status == CUDA_SUCCESS && !MayReach(context, src, status));
}

Context* ContextOfStream(uint64_t stream) {
  if (stream <= kPerThreadStream) return CurrentContext();
  const ServerScope scope(nullptr);
  const Stream* found = FindStream(reinterpret_cast<CUstream>(stream));
  return found == nullptr ? nullptr : found->context;
}

Session* SessionOfStream(uint64_t stream) {
  const Context* context = ContextOfStream(stream);
  return context == nullptr ? nullptr : context->session;
}

CUresult WaitAcross(CUstream stream, Event* event, CUevent handle) {
  Session* waiting = SessionOfStream(reinterpret_cast<uint64_t>(stream));
  if (waiting == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  {
    const ServerScope scope(waiting);
    if (Captures(FindStream(stream)) || event->capture_stream.load() != nullptr)
      return NotSupported(CallId::cuStreamWaitEvent);
  }
  if (!event->recorded.load()) return CUDA_SUCCESS;
  Context* context = event->context;
  std::shared_ptr<ServerLatch> latch = ServerLatch::New(context->session->index());
  {
    const ContextScope scope(context);
    CUstream own = nullptr;
    CUresult status = TakeStream(context, &own);
    if (status == CUDA_SUCCESS) status = Post_cuStreamWaitEvent(own, handle, 0);
    auto reached = [latch, context, own](CUresult) {
      GiveStream(context, own);
      latch->Set();
    };
    if (status == CUDA_SUCCESS) status = PostHostFunction(own, reached, HostFunctionKind::kOurs);
    if (status != CUDA_SUCCESS) return status;
    context->session->Flush();
  }
  const ServerScope scope(waiting);
  return PostDeferred(stream,
                      [latch](std::function<void()> done) { latch->WhenSet(std::move(done)); });
}

CUresult CopyAcross(CUdeviceptr dst, CUdeviceptr src, size_t bytes, uint64_t stream) {
  if (bytes == 0) return CUDA_SUCCESS;
  Session* session = SessionOfStream(stream);
  if (session == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  for (const CUdeviceptr side : {dst, src}) {
    const ServerScope scope(ServerOfAddress(side));
    Allocation found;
    if (!Memory().Holds(side, bytes, &found)) return CUDA_ERROR_INVALID_VALUE;
  }
  {
    const ServerScope scope(session);
    if (Captures(FindStream(reinterpret_cast<CUstream>(stream))))
      return NotSupported(CallId::cuMemcpyPeerAsync);
  }
  if (stream > kPerThreadStream) return PostCopy(dst, src, bytes, session, stream);
  CUresult status = CUDA_SUCCESS;
  if (stream == kPerThreadStream) {
    const ServerScope scope(session);
    status = AwaitStream(stream);
  }
  for (const CUdeviceptr side : {dst, src}) {
    Context* context = ContextAt(side);
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (status == CUDA_SUCCESS) status = AwaitContext(context);
  }
  return status == CUDA_SUCCESS ? CopyPieces(dst, src, bytes) : status;
}

Context* AwaitElsewhere(CUdeviceptr address, uint64_t stream, CUresult* status) {
  *status = CUDA_SUCCESS;
  Context* there = nullptr;
  {
    const ServerScope scope(ServerOfAddress(address));
    Allocation found;
    if (!Memory().Find(address, &found) || found.kind != MemoryKind::kDevice) return nullptr;
    there = found.context != nullptr && found.context->alive.load() ? found.context : nullptr;
    if (there == nullptr && HasSeveralServers()) there = ContextAt(address);
  }
  Context* here = ContextOfStream(stream);
  if (there == nullptr || here == nullptr || there->device == here->device) return nullptr;
  const ContextScope scope(here);
  *status = Captures(FindStream(reinterpret_cast<CUstream>(stream)))
                ? NotSupported(CallId::cuMemcpyAsync)
                : AwaitStream(stream);
  return there;
}

}  // namespace farcall::client
