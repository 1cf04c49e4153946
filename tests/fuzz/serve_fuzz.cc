// SPDX-License-Identifier: Apache-2.0
// A real session fed by a hostile client. Input: {u8 mode}, then items {u16 call, u16 flags, u16
// thread, u16 context, u32 body bytes, body}. The session may refuse at any point; it never
// crashes, hangs, or takes records whose sizes lie.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "proto/call_id.h"
#include "proto/codec.h"
#include "server/session.h"
#include "tests/fuzz/serve_device.h"

namespace {

using farcall::AlignUp;
using farcall::ChunkHeader;
using farcall::Clock;
using farcall::Code;
using farcall::FrameHeader;
using farcall::HandleKind;
using farcall::RecordHeader;
using farcall::Result;
using farcall::SessionCall;
using farcall::Status;
using farcall::Window;
using farcall::server::Session;

constexpr Window kWindow{0x200000000000, 64u << 20};
constexpr uint64_t kCreditBytes = 4u << 20;
constexpr uint32_t kLiveHandles = 32;
constexpr uint32_t kContexts = 6;
constexpr size_t kMostItems = 400;
constexpr int kMostChunks = 16;

enum Mode : uint8_t {
  kPrepared = 1,  // contexts, handles of every kind and memory are there
  kRawFrame = 2,  // the rest of the input is one frame's records, sizes and all
};
enum ItemFlags : uint16_t {
  kSameFrame = 0x8000,  // with the next item, if there is one
  kBusy = 0x4000,       // sent without waiting for what the session has begun
};
constexpr uint16_t kChunkItem = 0xFFFF;  // {u64 transfer, u64 offset, payload}, as from a lane

struct ItemHeader {
  uint16_t call, flags, thread, context;
  uint32_t bytes;
};
static_assert(sizeof(ItemHeader) == 12);

class Broker final : public farcall::server::MemoryBroker {
 public:
  Status Charge(int, uint64_t bytes) override {
    uint64_t before = charged_.fetch_add(bytes);
    if (before + bytes >= before && before + bytes <= kWindow.bytes) {
      return {};
    }
    charged_ -= bytes;
    return {Code::kQuotaExceeded, "over the quota"};
  }
  void Refund(int, uint64_t bytes) override { charged_ -= bytes; }
  farcall::quota::Usage Query(int) override { return {kWindow.bytes, charged_}; }

 private:
  std::atomic<uint64_t> charged_{0};
};

// The call an item means: its own if there is such, else one of those that are served.
uint16_t ChooseCall(uint16_t call) {
  using farcall::server::kDispatchRows;
  using farcall::server::kDispatchTable;
  static const std::vector<uint16_t> served = [] {
    std::vector<uint16_t> calls;
    for (uint16_t id = 0; id < kDispatchRows; ++id) {
      if (kDispatchTable[id].serve != nullptr) {
        calls.push_back(id);
      }
    }
    return calls;
  }();
  bool is_known = call >= farcall::kFirstSessionCall ||
                  (call < kDispatchRows && kDispatchTable[call].serve != nullptr);
  return is_known ? call : served[call % served.size()];
}

// The client's end: turns items into frames as the session reads, and drops what it answers.
class Client final : public farcall::Channel {
 public:
  Client(Session& session, std::span<const uint8_t> input, bool is_raw)
      : session_(session), left_(input) {
    if (!is_raw) {
      return;
    }
    is_raw_ = true;
    size_t room = farcall::kMaxFrameBytes - sizeof(FrameHeader);
    auto bytes = std::as_bytes(left_.first(std::min(left_.size(), room)));
    farcall::RecordCursor cursor(bytes);
    farcall::RecordView record;
    while (cursor.Next(record)) {
    }
    is_sound_ = cursor.Done();
    AppendFrame(bytes, static_cast<uint16_t>(cursor.count()));
    left_ = {};
  }

  bool sizes_lie() const { return is_raw_ && !is_sound_; }

  Result<size_t> TrySend(std::span<const std::span<const std::byte>> parts) override {
    size_t bytes = 0;
    for (auto part : parts) {
      bytes += part.size();
    }
    return bytes;
  }
  Result<size_t> TryReceive(std::span<std::byte> into) override {
    if (sent_ == frame_.size()) {
      NextFrame();
    }
    size_t bytes = std::min(into.size(), frame_.size() - sent_);
    std::memcpy(into.data(), frame_.data() + sent_, bytes);
    sent_ += bytes;
    return bytes;
  }
  bool WaitReadable(Clock::time_point, int) override { return true; }
  bool WaitWritable(Clock::time_point) override { return true; }
  void Close() override {}
  void Abandon() override {}
  int Descriptor() const override { return -1; }
  std::string PeerName() const override { return "fuzzer"; }

 private:
  // What the session does beside its log comes to rest first, so that an input means the same each
  // time.
  void WaitUntilQuiet() {
    auto end = Clock::now() + std::chrono::milliseconds(100);
    while ((session_.helper_busy() || !session_.completion().idle()) && Clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  void AppendFrame(std::span<const std::byte> records, uint16_t count) {
    FrameHeader header;
    header.bytes = static_cast<uint32_t>(sizeof(header) + records.size());
    header.seq = ++seq_;
    header.chunks_sent = chunks_;
    header.records = count;
    frame_.resize(header.bytes);
    std::memcpy(frame_.data(), &header, sizeof(header));
    if (!records.empty()) {
      std::memcpy(frame_.data() + sizeof(header), records.data(), records.size());
    }
    sent_ = 0;
  }

  void NextFrame() {
    std::vector<std::byte> records;
    uint16_t count = 0;
    bool again = true;
    bool is_busy = false;
    while (again && left_.size() >= sizeof(ItemHeader) && items_ < kMostItems) {
      ItemHeader item;
      std::memcpy(&item, left_.data(), sizeof(item));
      left_ = left_.subspan(sizeof(item));
      size_t bytes = std::min<size_t>({item.bytes, left_.size(), farcall::kMaxInlineBytes});
      auto body = std::as_bytes(left_.first(bytes));
      left_ = left_.subspan(bytes);
      ++items_;
      again = (item.flags & kSameFrame) != 0 && records.size() < farcall::kMaxFrameBytes / 4;
      is_busy = is_busy || (item.flags & kBusy) != 0;
      if (item.call == kChunkItem) {
        Land(body);
        again = true;
        continue;
      }
      Append(item, body, &records);
      ++count;
    }
    if (!is_busy) {
      WaitUntilQuiet();
    }
    if (count == 0) {
      ItemHeader goodbye{static_cast<uint16_t>(SessionCall::kGoodbye), 0, 0, 0, 0};
      farcall::Builder body;
      body.Put<int32_t>(0);
      body.PutString("done");
      Append(goodbye, body.bytes(), &records);
      count = 1;
    }
    AppendFrame(records, count);
  }

  void Append(const ItemHeader& item, std::span<const std::byte> body,
              std::vector<std::byte>* records) {
    RecordHeader header;
    header.bytes = static_cast<uint32_t>(sizeof(header) + AlignUp(body.size(), 8));
    header.call = ChooseCall(item.call);
    header.flags = item.flags & farcall::kWantReply;
    header.serial = ++serial_;
    header.thread = item.thread;
    header.context = item.context;
    size_t at = records->size();
    records->resize(at + header.bytes);
    std::memcpy(records->data() + at, &header, sizeof(header));
    if (!body.empty()) {
      std::memcpy(records->data() + at + sizeof(header), body.data(), body.size());
    }
  }

  void Land(std::span<const std::byte> body) {
    farcall::Reader in(body);
    ChunkHeader header;
    header.transfer = in.Get<uint64_t>();
    header.offset = in.Get<uint64_t>();
    if (!in.ok() || in.remaining_bytes() == 0 || chunks_ >= kMostChunks) {
      return;
    }
    auto payload = body.subspan(16);
    header.bytes = static_cast<uint32_t>(payload.size());
    header.seq = chunks_ + 1;
    std::span<std::byte> room = session_.ChunkDestination(header);
    if (room.empty()) {
      return;
    }
    if (room.size() != payload.size()) {
      std::abort();
    }
    std::memcpy(room.data(), payload.data(), payload.size());
    ++chunks_;
    session_.OnChunk(header);
  }

  Session& session_;
  std::span<const uint8_t> left_;
  std::vector<std::byte> frame_;
  size_t sent_ = 0;
  size_t items_ = 0;
  uint64_t seq_ = 0;
  uint64_t chunks_ = 0;
  uint32_t serial_ = 0;
  bool is_raw_ = false;
  bool is_sound_ = true;
};

// What a client would have made by then.
void Prepare(Session& session, const farcall::server::DriverApi& api) {
  uintptr_t native = 0x100000;
  for (uint16_t slot = 1; slot <= kContexts; ++slot) {
    farcall::server::ContextState& context = session.MakeContext(slot);
    context.generation = 1;
    context.native = reinterpret_cast<CUcontext>(native += 16);
    session.table(HandleKind::kContext)
        .Set(slot, 1, farcall::server::HandleTable::State::kLive, context.native);
  }
  RecordHeader header;
  farcall::server::ServeCall call(session, api, header, {});
  call.context = session.context(1);
  for (auto kind = static_cast<uint8_t>(HandleKind::kStream);
       kind <= static_cast<uint8_t>(HandleKind::kLast); ++kind) {
    for (uint32_t index = 1; index <= kLiveHandles; ++index) {
      auto of = static_cast<HandleKind>(kind);
      call.Insert(of, farcall::MakeHandle(of, index, 1), reinterpret_cast<void*>(native += 16));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  if (std::getenv("FARCALL_FUZZ_REPORT") != nullptr) {
    std::atexit(farcall::fuzz::ReportReached);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  static const bool is_initialized =
      LLVMFuzzerInitialize(nullptr, nullptr) == 0;  // replay_main does not
  (void)is_initialized;
  const farcall::server::DriverApi& api = farcall::fuzz::FuzzDevice();
  Broker broker;
  farcall::server::SessionOptions options;
  options.devices = 8;
  options.grace_ms = 1;
  options.spin_us = 0;
  options.first_credit_bytes = 0;
  {
    Session session(api, options, broker);
    if (session.memory().ReserveWindow({kWindow}) != 0) {
      std::abort();
    }
    Window credit;
    std::string detail;
    if (session.memory().Grant(0, kCreditBytes, &credit, &detail) != CUDA_SUCCESS) {
      std::abort();
    }
    if ((data[0] & kPrepared) != 0) {
      Prepare(session, api);
    }
    auto client = std::make_unique<Client>(session, std::span(data + 1, size - 1),
                                           (data[0] & kRawFrame) != 0);
    bool sizes_lie = client->sizes_lie();
    session.link().AttachLog(std::move(client), 0, 0);
    Status why = session.Run();
    if (sizes_lie && why.code() != Code::kMalformed) {
      std::abort();
    }
  }
  cuMemAddressFree(kWindow.base, kWindow.bytes);
  return 0;
}
