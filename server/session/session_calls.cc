// SPDX-License-Identifier: Apache-2.0
// The session's own messages: credit, fences, host functions, images.
#include <algorithm>

#include "proto/call_id.h"
#include "server/session/session.h"

namespace farcall::server {

namespace {
constexpr uint64_t kMaxCreditAheadBytes = 256u << 20;
}  // namespace

Status Session::ServeSessionCall(const RecordView& record, Turn& turn, Served* served) {
  const RecordHeader& header = record.header;
  Reader in(record.body);
  switch (static_cast<SessionCall>(header.call)) {
    case SessionCall::kHeartbeat:
    case SessionCall::kGoodbye:  // the link ends the session with its reason
      return {};
    case SessionCall::kNeedCredit: {
      auto device = in.Get<int32_t>();
      auto bytes = in.Get<uint64_t>();
      in.Get<uint8_t>();  // contiguous: always so
      if (!in.Done() || device < 0 || device >= options_.devices) {
        return Malformed(header, "kNeedCredit's body");
      }
      OnMemoryHelper([this, header, device, bytes] { ServeNeedCredit(header, device, bytes); });
      return {};
    }
    case SessionCall::kReturnCredit: {
      auto device = in.Get<int32_t>();
      auto base = in.Get<uint64_t>();
      auto bytes = in.Get<uint64_t>();
      if (!in.Done()) {
        return Malformed(header, "kReturnCredit's body");
      }
      if (!memory_.ReturnCredit(device, base, bytes)) {
        return Malformed(header, "kReturnCredit of " + std::to_string(bytes) +
                                     " bytes that are no unspent credit");
      }
      if (options_.swap != nullptr) {
        options_.swap->NoteReturn(*this);
      }
      return {};
    }
    case SessionCall::kFenceFrees: {
      auto epoch = in.Get<uint64_t>();
      if (!in.Done()) {
        return Malformed(header, "kFenceFrees' body");
      }
      if (!ahead().empty()) {  // frees may be among them
        head_.touched.everything = head_.blocked = true;
        *served = Served::kStalled;
        return {};
      }
      return ServeFenceFrees(header, epoch);
    }
    case SessionCall::kHostDone: {
      auto token = in.Get<uint64_t>();
      if (!in.Done()) {
        return Malformed(header, "kHostDone's body");
      }
      return ServeHostDone(token);
    }
    case SessionCall::kNamedImage:
      return ServeNamedImage(record, served);
    case SessionCall::kNvml:
      return ServeNvml(record);
    case SessionCall::kLibrary:
      return ServeLibrary(record, turn, served);
    case SessionCall::kHostWindow: {
      ContextState* context = nullptr;
      bool stalled = false;
      PrepareContext(header, &context, &stalled);
      if (stalled) {  // it is still in the making
        *served = Served::kStalled;
        return {};
      }
      return ServeHostWindow(header, in);
    }
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

void Session::ServeNeedCredit(const RecordHeader& header, int device, uint64_t bytes) {
  Window range;
  std::string detail;
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  // A program that allocates goes on allocating: as much again as it has taken so far, so that one
  // that grows asks seldom. A refusal of the surplus is none.
  uint64_t free_bytes = memory_.Query(device).free_bytes();
  // Where others may have to leave for it, no more than is asked.
  bool swaps = options_.swap != nullptr && options_.swap->swaps();
  uint64_t most_ahead = swaps ? 0 : kMaxCreditAheadBytes;
  uint64_t ahead = std::min({memory_.granted_bytes(device), most_ahead, free_bytes / 8}) /
                   kChunkGranularityBytes * kChunkGranularityBytes;
  if (ahead != 0 && bytes <= free_bytes - ahead) {
    result = memory_.Grant(device, bytes, &range, &detail, ahead);
  }
  if (result != CUDA_SUCCESS) {
    result = memory_.Grant(device, bytes, &range, &detail);
  }
  if (result == CUDA_ERROR_OUT_OF_MEMORY && MakeRoom(device, bytes)) {
    result = memory_.Grant(device, bytes, &range, &detail);
  }
  Builder out;
  if (result == CUDA_SUCCESS) {
    out.Put<uint64_t>(range.base);
    out.Put<uint64_t>(range.bytes);
  } else if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    out.Put<uint64_t>(memory_.AvailableBytes(device, memory_.Query(device)));
  }
  // Without a reply wanted the grant itself is the answer: it must not be lost.
  if ((header.flags & kWantReply) == 0 && result == CUDA_SUCCESS) {
    return PushGrant(device, range);
  }
  Answer(header, result, out.bytes(), detail);
}

void Session::PushGrant(int device, const Window& range) {
  Builder body;
  body.Put<int32_t>(device);
  body.Put<uint64_t>(range.base);
  body.Put<uint64_t>(range.bytes);
  outbox_.Push(SessionCall::kGrant, body.bytes());
}

// A quota too small for it is no error.
Window Session::FirstCredit(int device) {
  if (!memory_.has_window() || options_.first_credit_bytes == 0) {
    return {};
  }
  const uint64_t bytes =
      std::min(options_.first_credit_bytes, memory_.Query(device).free_bytes() / 4 /
                                                kChunkGranularityBytes * kChunkGranularityBytes);
  Window range;
  std::string detail;
  if (bytes == 0 || memory_.Grant(device, bytes, &range, &detail) != CUDA_SUCCESS) {
    return {};
  }
  return range;
}

Window Session::WelcomeCredit() {
  const bool swaps = options_.swap != nullptr && options_.swap->swaps();
  const Window range = swaps ? Window() : FirstCredit(0);
  welcomed_with_credit_ = range.bytes != 0;
  return range;
}

// A context just came to life: its program will want memory.
void Session::GrantFirstCredit(int device) {
  if (device == 0 && welcomed_with_credit_.exchange(false)) {
    return;  // it has it
  }
  OnMemoryHelper([this, device] {
    const Window range = FirstCredit(device);
    if (range.bytes != 0) {
      PushGrant(device, range);
    }
  });
}

void Session::FenceFrees(ContextState& context) {
  if (context.noted_epoch <= context.fenced_epoch) {
    return;
  }
  context.fenced_epoch = context.noted_epoch;
  auto frees = std::make_shared<std::vector<std::function<void()>>>(std::move(context.noted_frees));
  context.noted_frees.clear();
  ContextState* of = &context;
  auto passed = [this, of, epoch = context.noted_epoch, frees](CUresult) {
    for (std::function<void()>& free : *frees) {
      free();
    }
    uint64_t before = of->freed_epoch.load();
    if (before >= epoch) {
      return;
    }
    of->freed_epoch.store(epoch);
    Builder body;
    body.Put<uint16_t>(of->slot);
    body.Put<uint64_t>(epoch);
    outbox_.Push(SessionCall::kFreed, body.bytes());
  };
  MakeCurrent(&context);
  CUresult result = CUDA_SUCCESS;
  if (!Fence(context, passed, &result)) {
    passed(result);
  }
}

Status Session::ServeFenceFrees(const RecordHeader& header, uint64_t epoch) {
  ContextState* context = nullptr;
  bool stalled = false;
  CUresult result = PrepareContext(header, &context, &stalled);
  if (context == nullptr) {
    Answer(header, stalled ? CUDA_ERROR_INVALID_CONTEXT : result, {});
    return {};
  }
  if (epoch > context->noted_epoch) {
    return Malformed(header, "kFenceFrees of epoch " + std::to_string(epoch) +
                                 ", the last free was " + std::to_string(context->noted_epoch));
  }
  FenceFrees(*context);
  auto reply = [this, header](CUresult status) { Answer(header, status, {}); };
  MakeCurrent(context);
  if (context->freed_epoch.load() >= epoch || !Fence(*context, reply, &result)) {
    reply(CUDA_SUCCESS);
  }
  return {};
}

uint64_t Session::AddHostCall(std::function<void()> done) {
  std::lock_guard lock(host_calls_mutex_);
  host_calls_[++last_host_token_] = std::move(done);
  return last_host_token_;
}

Status Session::ServeHostDone(uint64_t token) {
  std::function<void()> done;
  {
    std::lock_guard lock(host_calls_mutex_);
    auto call = host_calls_.find(token);
    if (call == host_calls_.end()) {
      return {Code::kMalformed,
              "kHostDone: no host function " + std::to_string(token) + " is running"};
    }
    done = std::move(call->second);
    host_calls_.erase(call);
  }
  done();
  return {};
}

void Session::EndHostCalls() {
  std::map<uint64_t, std::function<void()>> calls;
  {
    std::lock_guard lock(host_calls_mutex_);
    calls.swap(host_calls_);
  }
  for (auto& [token, done] : calls) {
    done();
  }
}

Status Session::ServeNamedImage(const RecordView& record, Served* served) {
  Reader in(record.body);
  std::span<const std::byte> hash_bytes = in.GetBytes();
  auto bytes = in.Get<uint64_t>();
  auto transfer = in.Get<uint64_t>();
  std::span<const std::byte> inline_bytes = in.GetBytes();
  Hash256 hash;
  if (!in.Done() || hash_bytes.size() != hash.size() || bytes == 0 ||
      bytes > ImageStore::kMaxImageBytes || (transfer == 0) != (inline_bytes.size() == bytes)) {
    return Malformed(record.header, "kNamedImage's body");
  }
  std::memcpy(hash.data(), hash_bytes.data(), hash.size());
  std::vector<std::byte> image(inline_bytes.begin(), inline_bytes.end());
  if (transfer != 0) {
    std::vector<Landing::Piece> pieces;
    switch (landing_.Check(transfer, 0, bytes, head_.chunks_sent)) {
      case Landing::Cover::kAwaited:
        *served = Served::kStalled;
        return {};
      case Landing::Cover::kLie:
        return Malformed(record.header, "kNamedImage before its bytes");
      case Landing::Cover::kWhole:
        break;
    }
    if (!landing_.Claim(transfer, 0, bytes, false, &pieces)) {
      return Malformed(record.header, "kNamedImage of bytes already used");
    }
    image.reserve(bytes + 1);
    for (const Landing::Piece& piece : pieces) {
      image.insert(image.end(), piece.bytes.begin(), piece.bytes.end());
    }
    landing_.Release(transfer, 0, bytes);
  }
  // Hashing takes a while; what loads the image comes after it on the same helper.
  auto held = std::make_shared<std::vector<std::byte>>(std::move(image));
  RecordHeader header = record.header;
  OnHelper([this, hash, held, header] {
    Status status = images_.Put(hash, std::move(*held));
    if (!status.ok()) {
      return Stop(status);
    }
    Answer(header, CUDA_SUCCESS, {});
  });
  return {};
}

}  // namespace farcall::server
