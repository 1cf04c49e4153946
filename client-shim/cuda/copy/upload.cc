// SPDX-License-Identifier: Apache-2.0
// Uploads: small ones inside their record; large ones on the lanes, from where they lie as far as
// may be; those whose source may still change when the stream gets there.
#include <mutex>

#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/devices.h"
#include "client-shim/core/session/error_map.h"
#include "client-shim/cuda/objects/moved_bytes.h"
#include "client-shim/cuda/objects/shared_host.h"
#include "client-shim/cuda/state/across.h"
#include "client-shim/cuda/state/copy.h"
#include "client-shim/cuda/state/green_context.h"
#include "client-shim/cuda/state/memory.h"
#include "client-shim/cuda/state/mirror.h"
#include "client-shim/cuda/state/settled.h"
#include "client-shim/cuda/state/stream.h"
#include "client-shim/cuda/state/stream_function.h"
#include "transport/sync.h"

namespace farcall::client {

namespace {

constexpr CallId kCall = CallId::cuMemcpyHtoDAsync_v2;
// The end of a large copy is copied: the caller need not wait until the peer has acknowledged it.
constexpr uint64_t kCopiedEndBytes = kCopyPieceBytes;
constexpr uint64_t kMaxBorrowedBytes = 64u << 20;

// Of a record whose bytes are on the lanes.
constexpr PostOptions kAtOnce{.leaves = Leaves::kNow};

struct Span {
  CUdeviceptr dst = 0;
  const std::byte* src = nullptr;
  uint64_t bytes = 0;
  uint64_t stream = 0;
};

FixedBody<48> Body(const Span& all, uint64_t transfer, uint64_t offset, uint64_t bytes) {
  FixedBody<48> body;
  body.Put<uint64_t>(all.dst + offset);
  body.Put<uint64_t>(bytes);
  body.Put<uint64_t>(all.stream);
  body.Put<uint64_t>(transfer);
  body.Put<uint64_t>(offset);
  return body;
}

CUresult SendInline(const Span& all, bool settle) {
  FixedBody<48> body = Body(all, 0, 0, all.bytes);
  body.Put<uint64_t>(all.bytes);  // of the run that follows
  std::span tail(all.src, all.bytes);
  return settle ? RoundTripParts(kCall, body.bytes(), tail, nullptr)
                : Post(kCall, body.bytes(), tail);
}

// Visits pieces as (offset, bytes) until one fails.
template <typename Visit>
CUresult ForPieces(uint64_t bytes, Visit visit) {
  CUresult status = CUDA_SUCCESS;
  for (uint64_t offset = 0; offset < bytes && status == CUDA_SUCCESS; offset += kCopyPieceBytes)
    status = visit(offset, bytes - offset < kCopyPieceBytes ? bytes - offset : kCopyPieceBytes);
  return status;
}

// Memory of the caller's that the link still reads; the caller stays until it does not.
class Borrowed {
 public:
  ~Borrowed() { Await(0); }
  void Await(uint64_t at_most) {
    std::unique_lock lock(mutex_);
    awaited_ = at_most;
    while (bytes_ > at_most) less_.wait(lock);
  }
  Status Send(Link& link, uint64_t transfer, uint64_t offset, std::span<const std::byte> piece) {
    Await(kMaxBorrowedBytes - piece.size());
    {
      std::lock_guard lock(mutex_);
      bytes_ += piece.size();
    }
    Status sent = link.SendTransfer(transfer, offset, piece, Link::Retain::kOwned,
                                    [this, bytes = piece.size()] { GiveBack(bytes); });
    if (!sent.ok()) GiveBack(piece.size());
    return sent;
  }

 private:
  // Wakes the caller for nothing less than it waits for.
  void GiveBack(uint64_t bytes) {
    std::lock_guard lock(mutex_);
    bytes_ -= bytes;
    if (bytes_ <= awaited_) less_.notify_all();
  }
  Mutex mutex_;
  CondVar less_;
  uint64_t bytes_ = 0, awaited_ = 0;
};

// Each piece's bytes go ahead of its record, so the record never waits behind more than what is in
// flight.
CUresult SendCaptured(Session* session, const Span& all, bool settle) {
  const CopyStep step(all.bytes, "copying to the device", &Link::Counters::chunk_bytes_out);
  Borrowed borrowed;
  uint64_t transfer = session->transfers().NewId();
  uint64_t copied_from = all.bytes > 2 * kCopiedEndBytes ? all.bytes - kCopiedEndBytes : 0;
  return ForPieces(all.bytes, [&](uint64_t offset, uint64_t bytes) {
    session->transfers().AwaitRoom(bytes);
    std::span piece(all.src + offset, bytes);
    Status sent = offset < copied_from ? borrowed.Send(session->link(), transfer, offset, piece)
                                       : session->link().SendTransfer(transfer, offset, piece,
                                                                      Link::Retain::kCopied);
    if (!sent.ok()) return MapSessionError(sent.code());
    FixedBody<48> body = Body(all, transfer, offset, bytes);
    bool last = offset + bytes == all.bytes;
    return settle && last ? RoundTripParts(kCall, body.bytes(), {}, nullptr)
                          : Post(kCall, body.bytes(), {}, kAtOnce);
  });
}

// Page-locked memory: read when the sockets take it, while the caller goes on.
Status SendLent(Session* session, uint64_t transfer, uint64_t offset,
                std::span<const std::byte> piece) {
  uint64_t loan = session->transfers().Lend(piece.data(), piece.size());
  Status sent =
      session->link().SendTransfer(transfer, offset, piece, Link::Retain::kOwned,
                                   [session, loan] { session->transfers().Return(loan); });
  if (!sent.ok()) session->transfers().Return(loan);
  return sent;
}

CUresult SendPinned(Session* session, const Span& all) {
  uint64_t transfer = session->transfers().NewId();
  return ForPieces(all.bytes, [&](uint64_t offset, uint64_t bytes) {
    session->transfers().AwaitRoom(bytes);
    Status sent = SendLent(session, transfer, offset, {all.src + offset, bytes});
    if (!sent.ok()) return MapSessionError(sent.code());
    CUresult posted = Post(kCall, Body(all, transfer, offset, bytes).bytes(), {}, kAtOnce);
    session->NoteWork();  // the program may change the memory behind a wait
    return posted;
  });
}

// The stream calls us when it gets there; until the bytes have come, the server sets the records
// and what depends on them aside. A failed stream is sent them as well: it refuses the copy itself.
CUresult SendWhenReached(Session* session, const Span& all) {
  uint64_t transfer = session->transfers().NewId();
  uint64_t loan = session->transfers().Lend(all.src, all.bytes);
  auto send = [session, all, transfer, loan](CUresult) {
    ForPieces(all.bytes, [&](uint64_t offset, uint64_t bytes) {
      session->transfers().CountSent(bytes);
      Status sent = SendLent(session, transfer, offset, {all.src + offset, bytes});
      return sent.ok() ? CUDA_SUCCESS : MapSessionError(sent.code());
    });
    session->transfers().Return(loan);
  };
  CUresult status = PostHostFunction(reinterpret_cast<CUstream>(all.stream), std::move(send),
                                     HostFunctionKind::kOurs);
  if (status != CUDA_SUCCESS) {
    session->transfers().Return(loan);
    return status;
  }
  return ForPieces(all.bytes, [&](uint64_t offset, uint64_t bytes) {
    FixedBody<48> body = Body(all, transfer, offset, bytes);
    Record record = MakeRecord(kCall, body.bytes());
    record.flags = kBytesFollow;
    CUresult posted = PostRecord(record);
    session->NoteWork();
    return posted;
  });
}

}  // namespace

bool MayStillChange(const void* src, size_t bytes) {
  Transfers& transfers = CurrentSession()->transfers();
  return HostFunctionsPending() ||
         (transfers.expected() != 0 &&
          transfers.AnyInRange(static_cast<const std::byte*>(src), bytes));
}

CUresult AwaitWhatTheHostSees(uint64_t stream) {
  const bool may_write = HostFunctionsPending() || AnyMirrors() || AnySharedHost() ||
                         CurrentSession()->transfers().expected() != 0;
  return may_write ? AwaitStream(stream) : CUDA_SUCCESS;
}

CUresult AwaitStream(uint64_t stream) {
  FixedBody<8> body;
  body.Put<uint64_t>(stream);
  CUresult status = RoundTrip(CallId::cuStreamSynchronize, body.bytes(), nullptr);
  PullMirrors();
  return status;
}

bool OthersLookAtUploads() {
  return AnyShared() || CurrentContext()->unordered_streams.load(std::memory_order_relaxed) != 0;
}

CUresult PostBarrier(uint64_t stream) {
  FixedBody<8> body;
  body.Put<uint64_t>(stream);
  return Post(CallId::cuStreamSynchronize, body.bytes());
}

namespace {

// The bytes have been captured at the call.
CUresult SendNow(Session* session, const Span& all, bool settle) {
  const bool fences = settle && BarrierSettles(all.stream);
  const bool waits = settle && !fences;
  const CUresult sent =
      all.bytes <= kMaxInlineBytes ? SendInline(all, waits) : SendCaptured(session, all, waits);
  return fences && sent == CUDA_SUCCESS ? PostBarrier(all.stream) : sent;
}

}  // namespace

CUresult CopyToDevice(CUdeviceptr dst, const void* src, size_t bytes, uint64_t stream,
                      Upload upload) {
  if (bytes == 0) return CUDA_SUCCESS;
  if (VisibleDeviceCount() > 1) [[unlikely]] {
    CUresult status = CUDA_SUCCESS;
    Context* elsewhere = AwaitElsewhere(dst, stream, &status);
    if (status != CUDA_SUCCESS) return status;
    if (elsewhere != nullptr) {
      const ContextScope scope(elsewhere);
      return CopyToDevice(dst, src, bytes, kLegacyStream, Upload::kSettled);
    }
  }
  dst = DeviceAddress(dst);
  if (src == nullptr || IsVacant(src) || !IsDeviceRange(dst, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  auto place = reinterpret_cast<CUdeviceptr>(src);
  if (IsMirroredRange(src, bytes) || DeviceAddress(place) != place) {
    CUresult status = CopyOnDevice(dst, place, bytes, stream);
    return upload == Upload::kSettled && status == CUDA_SUCCESS ? AwaitStream(stream) : status;
  }
  Session* session = CurrentSession();
  Span all = {dst, static_cast<const std::byte*>(src), bytes, stream};
  if (HasAlias(src)) {  // a kernel ahead may write it
    CUresult status = AwaitStream(stream);
    if (status != CUDA_SUCCESS) return status;
  }
  if (upload != Upload::kAsync && upload != Upload::kLater) {
    CUresult status = AwaitWhatTheHostSees(stream);
    if (status != CUDA_SUCCESS) return status;
  }
  bool pinned = upload == Upload::kLater || (upload == Upload::kAsync && IsPinned(src, bytes));
  bool may_change = MayStillChange(src, bytes);
  if (may_change && !pinned) {
    // Only page-locked memory may be read later than at the call.
    if (upload != Upload::kAsync) {
      CUresult status = AwaitStream(stream);
      if (status != CUDA_SUCCESS) return status;
    }
    may_change = false;
  }
  const bool settle = upload == Upload::kSettled;
  if (bytes <= kMaxInlineBytes && !may_change) return SendNow(session, all, settle);
  Status opened = session->link().OpenLanes();
  if (!opened.ok()) return MapSessionError(opened.code());
  if (may_change) return SendWhenReached(session, all);
  // On a default stream a record without its bytes would hold up the whole log.
  if (pinned && stream > kPerThreadStream) return SendPinned(session, all);
  return SendNow(session, all, settle);
}

}  // namespace farcall::client
