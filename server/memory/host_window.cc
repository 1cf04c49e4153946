// SPDX-License-Identifier: Apache-2.0
// Host memory of the application's that the device reaches: made, filled, ended.
#include <cstring>

#include "proto/changed_bytes.h"
#include "server/session/current_context.h"
#include "server/session/session.h"

namespace farcall::server {

Status Session::ServeHostWindow(const RecordHeader& header, Reader& in) {
  auto address = in.Get<uint64_t>();
  auto bytes = in.Get<uint64_t>();
  auto device = in.Get<int32_t>();
  if (!in.Done() || device >= options_.devices) {
    return Malformed(header, "kHostWindow's body");
  }
  if (!options_.client_takes_mirrors) {  // an older client: kMirrored would end its session
    Answer(header, CUDA_ERROR_NOT_SUPPORTED, {});
    return {};
  }
  ContextState* context = nullptr;
  bool stalled = false;
  CUresult result = PrepareContext(header, &context, &stalled);
  if (context == nullptr) {
    Answer(header, result, {});
    return {};
  }
  OnMemoryHelper([this, header, address, bytes, device, native = context->native] {
    CurrentContext::Set(api_, native);
    std::string detail;
    CUresult made = mirrors_.Create(address, bytes, device, &detail);
    Answer(header, made, {}, detail);
  });
  return {};
}

Status Session::ServeHostWindowEnd(const RecordHeader& header, Reader& in, Served* served) {
  auto address = in.Get<uint64_t>();
  if (!in.Done()) {
    return Malformed(header, "kHostWindowEnd's body");
  }
  if (!ahead().empty()) {  // copies from there may be among them
    head_.touched.everything = head_.blocked = true;
    *served = Served::kStalled;
    return {};
  }
  ContextState* context = nullptr;
  bool stalled = false;
  PrepareContext(header, &context, &stalled);
  MakeCurrent(context);
  if (!mirrors_.Remove(address)) {
    return Malformed(header, "kHostWindowEnd of what is not mirrored");
  }
  return {};
}

Status Session::ServeMirrorUp(const RecordHeader& header, Reader& in, Served* served) {
  auto transfer = in.Get<uint64_t>();
  auto address = in.Get<uint64_t>();
  auto bytes = in.Get<uint64_t>();
  std::span<const std::byte> runs = in.GetBytes();
  if (!in.Done() ||
      (transfer != 0 && (!MaskFits(runs.size(), bytes) || !mirrors_.MayApply(address, bytes)))) {
    return Malformed(header, "kMirrorUp's body");
  }
  if (transfer == 0) {
    return mirrors_.ApplyRuns(runs) ? Status() : Malformed(header, "kMirrorUp's runs");
  }
  switch (landing_.Check(transfer, 0, bytes, head_.chunks_sent)) {
    case Landing::Cover::kAwaited:
      *served = Served::kStalled;
      return {};
    case Landing::Cover::kLie:
      return Malformed(header, "kMirrorUp before its bytes");
    case Landing::Cover::kWhole:
      break;
  }
  std::vector<Landing::Piece> pieces;
  if (!landing_.Claim(transfer, 0, bytes, false, &pieces)) {
    return Malformed(header, "kMirrorUp of bytes already used");
  }
  for (const Landing::Piece& piece : pieces) {
    std::span<const std::byte> mask = runs;
    if (!mask.empty()) {
      if (piece.offset % 8 != 0) {
        return Malformed(header, "kMirrorUp's chunks, which divide a word of its mask");
      }
      mask = mask.subspan(piece.offset / 8, MaskBytes(piece.bytes.size()));
    }
    mirrors_.Apply(address + piece.offset, piece.bytes, mask);
  }
  landing_.Release(transfer, 0, bytes);
  return {};
}

namespace {
constexpr size_t kMostPushedBytes = 256u << 10;
constexpr size_t kMirroredBytes = 512u << 10;    // of a record that was asked for
constexpr size_t kMostAnsweredBytes = 4u << 20;  // then the client acknowledges, and asks again

// kMirrored: {u64 more, runs}.
Builder EmptyMirrored() {
  Builder body;
  body.Put<uint64_t>(0);
  return body;
}
}  // namespace

// A little goes along; of much, or where looking takes long, the client is told to ask.
void Session::TellMirrored() {
  if (mirrors_.bytes() == 0) {
    return;
  }
  std::lock_guard lock(tell_mutex_);  // whoever finds nothing left comes after what was found
  if (!mirror_work_.Take()) {
    return;
  }
  Builder body = EmptyMirrored();
  uint64_t more = 1;
  if (mirrors_.bytes() <= Mirrors::kMostLookedBytes) {
    more = mirrors_.Collect(0, kMostPushedBytes, &body) != 0 ? 1 : 0;
  }
  if (more != 0) {
    mirror_work_.PutBack();
    std::memcpy(body.mutable_bytes().data(), &more, sizeof(more));
  }
  if (more != 0 || body.bytes().size() > sizeof(more)) {
    outbox_.Push(SessionCall::kMirrored, body.bytes());
  }
}

Status Session::ServeMirrorDown(const RecordHeader& header, Reader& in) {
  auto from = in.Get<uint64_t>();
  if (!in.Done()) {
    return Malformed(header, "kMirrorDown's body");
  }
  OnMemoryHelper([this, header, from] {
    uint64_t next = from;
    for (size_t sent_bytes = 0; sent_bytes < kMostAnsweredBytes;) {
      Builder body = EmptyMirrored();
      std::lock_guard lock(tell_mutex_);
      if (from == 0 && sent_bytes == 0) {
        mirror_work_.Take();  // from here on it is seen
      }
      next = mirrors_.Collect(next, kMirroredBytes, &body);
      if (body.bytes().size() > sizeof(uint64_t)) {
        outbox_.Push(SessionCall::kMirrored, body.bytes());
      }
      sent_bytes += body.bytes().size();
      if (next == 0) {
        break;
      }
    }
    Builder out;
    out.Put<uint64_t>(next);
    Answer(header, CUDA_SUCCESS, out.bytes());
  });
  return {};
}

}  // namespace farcall::server
