// SPDX-License-Identifier: Apache-2.0
// The session's own messages: credit, fences, host functions, images.
#include <cstring>

#include "generated/proto/call_id.h"
#include "server/session/session_loop.h"

namespace farcall::server {

Status SessionLoop::ServeSessionCall(const RecordView& record, Turn& turn, Served* served) {
  const RecordHeader& header = record.header;
  Reader in(record.body);
  switch (static_cast<SessionCall>(header.call)) {
    case SessionCall::kHeartbeat:
    case SessionCall::kGoodbye:  // the link ends the session with its reason
      return {};
    case SessionCall::kNeedCredit:
      return ServeNeedCredit(header, in);
    case SessionCall::kReturnCredit:
      return ServeReturnCredit(header, in);
    case SessionCall::kFenceFrees:
      return ServeFenceFrees(header, in, served);
    case SessionCall::kHostDone:
      return ServeHostDone(header, in);
    case SessionCall::kNamedImage:
      return ServeNamedImage(record, served);
    case SessionCall::kNvml:
      return ServeNvml(record);
    case SessionCall::kLibrary:
      return libraries_.Serve(record, turn, served);
    case SessionCall::kHostWindow:
      return ServeHostMemory(header, in, /*is_shared=*/false, served);
    case SessionCall::kShareHost:
      return ServeHostMemory(header, in, /*is_shared=*/true, served);
    case SessionCall::kHostWindowEnd:
      return ServeHostWindowEnd(header, in, served);
    case SessionCall::kMirrorUp:
      return ServeMirrorUp(header, in, served);
    case SessionCall::kMirrorDown:
      return ServeMirrorDown(header, in);
    default:
      return Malformed(header, "no message of a client");
  }
}

Status SessionLoop::Malformed(const RecordHeader& header, const std::string& what) {
  return {Code::kMalformed, "session call " + std::to_string(header.call) + ": " + what};
}

bool SessionLoop::WaitsForSideQueue(Served* served) {
  if (session_->ahead().empty()) return false;
  head_.touched.everything = head_.blocked = true;
  *served = Served::kStalled;
  return true;
}

Status SessionLoop::ServeNeedCredit(const RecordHeader& header, Reader& in) {
  auto device = in.Get<int32_t>();
  auto bytes = in.Get<uint64_t>();
  in.Get<uint8_t>();  // contiguous: always so
  if (!in.Done() || device < 0 || device >= options_.devices)
    return Malformed(header, "kNeedCredit's body");
  session_->OnMemoryHelper([this, header, device, bytes] {
    Window range;
    std::string detail;
    CUresult result = session_->credit().Grant(device, bytes, &range, &detail);
    // Without a reply wanted the grant itself is the answer: it must not be lost.
    if ((header.flags & kWantReply) == 0 && result == CUDA_SUCCESS)
      return session_->credit().Push(device, range);
    Builder out;
    if (result == CUDA_SUCCESS) {
      out.Put<uint64_t>(range.base);
      out.Put<uint64_t>(range.bytes);
    } else if (result == CUDA_ERROR_OUT_OF_MEMORY) {
      DeviceMemory& memory = session_->memory();
      out.Put<uint64_t>(memory.AvailableBytes(device, memory.Query(device)));
    }
    session_->Answer(header, result, out.bytes(), detail);
  });
  return {};
}

Status SessionLoop::ServeReturnCredit(const RecordHeader& header, Reader& in) {
  auto device = in.Get<int32_t>();
  auto base = in.Get<uint64_t>();
  auto bytes = in.Get<uint64_t>();
  if (!in.Done()) return Malformed(header, "kReturnCredit's body");
  if (!session_->memory().ReturnCredit(device, base, bytes)) {
    return Malformed(
        header, "kReturnCredit of " + std::to_string(bytes) + " bytes that are no unspent credit");
  }
  if (options_.swap != nullptr) options_.swap->NoteReturn(*this);
  return {};
}

Status SessionLoop::ServeFenceFrees(const RecordHeader& header, Reader& in, Served* served) {
  auto epoch = in.Get<uint64_t>();
  if (!in.Done()) return Malformed(header, "kFenceFrees' body");
  if (WaitsForSideQueue(served))  // frees may be among them
    return {};
  ContextState* context = nullptr;
  bool stalled = false;
  CUresult result = session_->contexts().Find(header, session_->helper_busy(), &context, &stalled);
  if (context == nullptr) {
    session_->Answer(header, stalled ? CUDA_ERROR_INVALID_CONTEXT : result, {});
    return {};
  }
  if (epoch > context->noted_epoch) {
    return Malformed(header, "kFenceFrees of epoch " + std::to_string(epoch) +
                                 ", the last free was " + std::to_string(context->noted_epoch));
  }
  session_->contexts().FenceFrees(*context);
  auto reply = [session = session_.get(), header](CUresult status) {
    session->Answer(header, status, {});
  };
  session_->contexts().MakeCurrent(context);
  if (context->freed_epoch.load() >= epoch || !session_->streams().Fence(*context, reply, &result))
    reply(CUDA_SUCCESS);
  return {};
}

Status SessionLoop::ServeHostDone(const RecordHeader& header, Reader& in) {
  auto token = in.Get<uint64_t>();
  if (!in.Done()) return Malformed(header, "kHostDone's body");
  if (!session_->host_calls().Finish(token)) {
    return {Code::kMalformed,
            "kHostDone: no host function " + std::to_string(token) + " is running"};
  }
  return {};
}

Status SessionLoop::ServeNamedImage(const RecordView& record, Served* served) {
  Reader in(record.body);
  std::span<const std::byte> hash_bytes = in.GetBytes();
  auto bytes = in.Get<uint64_t>();
  auto transfer = in.Get<uint64_t>();
  std::span<const std::byte> inline_bytes = in.GetBytes();
  Hash256 hash;
  if (!in.Done() || hash_bytes.size() != hash.size() || bytes == 0 ||
      bytes > ImageStore::kMaxImageBytes || (transfer == 0) != (inline_bytes.size() == bytes))
    return Malformed(record.header, "kNamedImage's body");
  std::memcpy(hash.data(), hash_bytes.data(), hash.size());
  std::vector<std::byte> image(inline_bytes.begin(), inline_bytes.end());
  if (transfer != 0) {
    std::vector<Landing::Piece> pieces;
    switch (session_->landing().Check(transfer, 0, bytes, head_.chunks_sent)) {
      case Landing::Cover::kAwaited:
        *served = Served::kStalled;
        return {};
      case Landing::Cover::kViolation:
        return Malformed(record.header, "kNamedImage before its bytes");
      case Landing::Cover::kWhole:
        break;
    }
    if (!session_->landing().Claim(transfer, 0, bytes, false, &pieces))
      return Malformed(record.header, "kNamedImage of bytes already used");
    image.reserve(bytes + 1);
    for (const Landing::Piece& piece : pieces)
      image.insert(image.end(), piece.bytes.begin(), piece.bytes.end());
    session_->landing().Release(transfer, 0, bytes);
  }
  // Hashing takes a while; what loads the image comes after it on the same helper.
  auto held = std::make_shared<std::vector<std::byte>>(std::move(image));
  RecordHeader header = record.header;
  session_->OnHelper([this, hash, held, header] {
    Status status = session_->images().Put(hash, std::move(*held));
    if (!status.ok()) return Stop(status);
    session_->Answer(header, CUDA_SUCCESS, {});
  });
  return {};
}

}  // namespace farcall::server
