// SPDX-License-Identifier: Apache-2.0
// Uploads from what has landed, readbacks through staging slots.
#include "server/calls/memory/host_copy.h"

#include <algorithm>
#include <atomic>

#include "generated/server/driver_api.h"
#include "server/state/session.h"

namespace farcall::server {

namespace {

// What a post must still hear of an upload: its slots back, and the reply if one is wanted.
void FinishUpload(ServeCall& call, StreamState& stream, uint64_t transfer, uint64_t offset,
                  uint64_t bytes) {
  Session& session = call.session;
  bool reply = (call.header.flags & kWantReply) != 0 && call.result == CUDA_SUCCESS;
  CUresult watched = session.completion().Add(
      stream.key, stream.context->native, stream.native, false,
      [&session, transfer, offset, bytes, reply, header = call.header](CUresult result) {
        if (transfer != 0) session.landing().Release(transfer, offset, bytes);
        if (reply) session.Answer(header, result, {});
      });
  if (watched == CUDA_SUCCESS) {
    call.parked = reply;
  } else if (call.result == CUDA_SUCCESS) {
    call.result =
        watched;  // the slots stay taken: whether the device still reads them is not known
  }
}

// Ordered with nothing that does not name it or an event of it.
bool IsOwn(const StreamState& stream) {
  return !stream.is_default && !stream.per_thread;
}

// A slot for a copy to the host, counted to its stream until GiveBack. Those of a stream that
// stands still may hold all of the pool, so a stream that has none gets one from the heap; and what
// waits for one holds up only what is ordered with it. Empty: the call is stalled.
SlotPool::Slot TakeReadbackSlot(ServeCall& call, SlotPool& pool, StreamState& stream) {
  if (stream.readback_slots == nullptr)
    stream.readback_slots = std::make_shared<std::atomic<int>>(0);
  SlotPool::Slot slot = pool.Take(call.session.backlog_full() || *stream.readback_slots == 0);
  if (slot) {
    ++*stream.readback_slots;
    return slot;
  }
  call.turn.awaits_bytes = IsOwn(stream) && !call.session.streams().capturing(stream.native);
  call.stalled = true;
  return slot;
}

using HeldSlots = std::shared_ptr<std::atomic<int>>;

void GiveBack(SlotPool& pool, SlotPool::Slot slot, const HeldSlots& held) {
  --*held;
  pool.Put(slot);
}

}  // namespace

Status UploadInline(ServeCall& call, StreamState& stream, std::span<const std::byte> bytes,
                    const CopyIn& copy) {
  const std::byte* source = bytes.data();
  if (call.session.streams().capturing(stream.native))
    source = call.session.retained().KeepBytes(bytes);
  // Pageable memory: the driver has taken the bytes when it returns.
  call.result = copy(source, 0, bytes.size());
  if (call.result == CUDA_SUCCESS && (call.header.flags & kWantReply) != 0)
    FinishUpload(call, stream, 0, 0, 0);
  return {};
}

Status SkipLanded(ServeCall& call, uint64_t bytes, uint64_t transfer, uint64_t offset) {
  Landing& landing = call.session.landing();
  switch (landing.Check(transfer, offset, bytes, call.turn.chunks_sent)) {
    case Landing::Cover::kAwaited:
      call.turn.awaits_bytes = call.stalled = true;
      return {};
    case Landing::Cover::kViolation:
      return {};  // the failure itself is the answer
    case Landing::Cover::kWhole:
      break;
  }
  std::vector<Landing::Piece> pieces;
  if (!landing.Claim(transfer, offset, bytes, false, &pieces))
    return call.Malformed("bytes of a transfer that were used before");
  landing.Release(transfer, offset, bytes);
  return {};
}

Status UploadLanded(ServeCall& call, StreamState& stream, uint64_t bytes, uint64_t transfer,
                    uint64_t offset, const CopyIn& copy) {
  Landing& landing = call.session.landing();
  bool bytes_follow = (call.header.flags & kBytesFollow) != 0;
  switch (landing.Check(transfer, offset, bytes, call.turn.chunks_sent)) {
    case Landing::Cover::kViolation:
      if (!bytes_follow) return call.Malformed("a transfer whose bytes were not sent before it");
      [[fallthrough]];
    case Landing::Cover::kAwaited:
      // An own stream's copy is asynchronous: only what is ordered with it waits for its bytes.
      call.turn.awaits_bytes =
          (bytes_follow || IsOwn(stream)) && !call.session.streams().capturing(stream.native);
      call.stalled = true;
      return {};
    case Landing::Cover::kWhole:
      break;
  }
  bool captured = call.session.streams().capturing(stream.native);
  std::vector<Landing::Piece> pieces;
  if (!landing.Claim(transfer, offset, bytes, !captured, &pieces))
    return call.Malformed("bytes of a transfer that were used before");
  for (const Landing::Piece& piece : pieces) {
    const std::byte* source = piece.bytes.data();
    if (captured)
      source = call.session.retained().KeepBytes(piece.bytes);
    else
      landing.slots().Pin(source, stream.context->native);
    call.result = copy(source, piece.offset, piece.bytes.size());
    if (call.result != CUDA_SUCCESS) break;
  }
  if (captured)
    landing.Release(transfer, offset, bytes);
  else
    FinishUpload(call, stream, transfer, offset, bytes);
  return {};
}

namespace {

// One readback in pieces of a slot each; shared by their actions.
struct Readback {
  RecordHeader header;
  uint64_t transfer = 0;
  std::atomic<bool> failed{false};
};

void SendPiece(Session& session, SlotPool& pool, SlotPool::Slot slot, const HeldSlots& held,
               const std::shared_ptr<Readback>& readback, uint64_t offset, uint64_t bytes,
               bool last, CUresult result) {
  auto give_back = [&session, &pool, slot, held] {
    GiveBack(pool, slot, held);
    session.Wake();
  };
  if (result == CUDA_SUCCESS && !readback->failed) {
    Status sent = session.link().SendTransfer(readback->transfer, offset, {slot.data, bytes},
                                              Link::Retain::kOwned, give_back);
    if (!sent.ok()) give_back();
    if (last) session.Answer(readback->header, CUDA_SUCCESS, {});
    return;
  }
  give_back();
  if (!readback->failed.exchange(true))
    session.Answer(readback->header, result, {}, "a copy to the host failed");
}

// Nothing is ahead of the copy: into memory that is not page-locked the driver copies before it
// returns, and the answer needs neither an event nor a look at one. It follows what was passed
// before it and is still to be told.
void ReadAtOnce(ServeCall& call, StreamState& stream, uint64_t bytes, const CopyOut& copy) {
  Session& session = call.session;
  call.out.Put<uint64_t>(bytes);
  std::vector<std::byte>& out = call.out.mutable_bytes();
  const size_t at = out.size();
  out.resize(at + bytes);
  call.result = copy(out.data() + at, 0, bytes);
  if (call.result != CUDA_SUCCESS) {
    out.clear();
    return;
  }
  const CUcontext native = stream.context->native;
  if (session.completion().idle()) {
    session.streams().NoteIdle(stream);
    session.output().FlushPrintf(native);
    return;
  }
  auto kept = std::make_shared<std::vector<std::byte>>(std::move(out));
  auto told = session.completion().AddManual(
      stream.key, native, [&session, native, kept, header = call.header](CUresult result) {
        session.output().FlushPrintf(native);
        session.Answer(header, result, *kept);
      });
  told->ready.store(true);  // the issue thread looks behind this frame
  call.parked = true;
}

}  // namespace

Status ReadInline(ServeCall& call, StreamState& stream, uint64_t bytes, const CopyOut& copy) {
  Session& session = call.session;
  if (bytes > kMaxInlineBytes || (call.header.flags & kWantReply) == 0)
    return call.Malformed("bytes in a reply");
  if (session.streams().StartsAtOnce(stream)) {
    ReadAtOnce(call, stream, bytes, copy);
    return {};
  }
  SlotPool& pool = session.small_readback();
  SlotPool::Slot slot = TakeReadbackSlot(call, pool, stream);
  if (!slot) return {};
  pool.Pin(slot.data, stream.context->native);
  call.result = copy(slot.data, 0, bytes);
  if (call.result == CUDA_SUCCESS) {
    call.result = session.completion().Add(
        stream.key, stream.context->native, stream.native, false,
        [&session, &pool, slot, bytes, held = stream.readback_slots,
         native = stream.context->native, header = call.header](CUresult result) {
          Builder out;
          if (result == CUDA_SUCCESS) out.PutBytes(slot.data, bytes);
          session.output().FlushPrintf(native);
          session.Answer(header, result, out.bytes());
          GiveBack(pool, slot, held);
          session.Wake();
        });
  }
  if (call.result == CUDA_SUCCESS)
    call.parked = true;
  else
    GiveBack(pool, slot, stream.readback_slots);
  return {};
}

Status ReadInChunks(ServeCall& call, StreamState& stream, uint64_t bytes, uint64_t transfer,
                    const CopyOut& copy) {
  Session& session = call.session;
  if (call.turn.kept == nullptr) {
    auto fresh = std::make_shared<Readback>();
    fresh->header = call.header;
    fresh->transfer = transfer;
    call.turn.kept = fresh;
  }
  auto readback = std::static_pointer_cast<Readback>(call.turn.kept);
  while (call.turn.progress < bytes) {
    uint64_t offset = call.turn.progress;
    uint64_t piece = std::min<uint64_t>(bytes - offset, kMaxChunkBytes);
    SlotPool& pool = piece <= kMaxInlineBytes ? session.small_readback() : session.readback();
    SlotPool::Slot slot = TakeReadbackSlot(call, pool, stream);
    if (!slot) return {};  // goes on from `progress` once the client has acknowledged a piece
    pool.Pin(slot.data, stream.context->native);
    bool last = offset + piece == bytes;
    call.result = copy(slot.data, offset, piece);
    if (call.result == CUDA_SUCCESS) {
      call.result = session.completion().Add(
          stream.key, stream.context->native, stream.native, true,
          [&session, &pool, slot, held = stream.readback_slots, readback, offset, piece,
           last](CUresult result) {
            SendPiece(session, pool, slot, held, readback, offset, piece, last, result);
          });
    }
    if (call.result != CUDA_SUCCESS) {
      GiveBack(pool, slot, stream.readback_slots);
      if (readback->failed.exchange(true)) {
        call.parked = true;
      }  // a piece before has told of its own failure
      return {};
    }
    call.turn.progress += piece;
  }
  call.parked = true;
  return {};
}

}  // namespace farcall::server
