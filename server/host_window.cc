// SPDX-License-Identifier: Apache-2.0
// Host memory of the application's that the device reaches: made, filled, ended.
#include "server/current_context.h"
#include "server/session.h"

namespace farcall::server {

Status Session::ServeHostWindow(const RecordHeader& header, Reader& in) {
  auto address = in.Get<uint64_t>();
  auto bytes = in.Get<uint64_t>();
  auto device = in.Get<int32_t>();
  if (!in.Done() || device >= options_.devices) {
    return Malformed(header, "kHostWindow's body");
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
  if (!in.Done() || (transfer != 0 && !mirrors_.Contains(address, bytes))) {
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
    mirrors_.Apply(address + piece.offset, piece.bytes);
  }
  landing_.Release(transfer, 0, bytes);
  return {};
}

}  // namespace farcall::server
