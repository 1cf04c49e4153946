// SPDX-License-Identifier: Apache-2.0
// A client of hand-made records: what the shim would say, and what it never would.
#pragma once

#include <cuda.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "generated/proto/call_id.h"
#include "proto/codec.h"
#include "proto/handshake/handshake.h"
#include "proto/handshake/session_features.h"
#include "proto/records.h"
#include "transport/handshake.h"
#include "transport/link.h"

namespace farcall::testing {

inline constexpr uint64_t kContext = MakeHandle(HandleKind::kContext, 1, 1);
inline constexpr uint64_t kLegacy = 1;
inline constexpr uint64_t kWindowBase = 0x7e9000000000;  // a sanitizer leaves this range free

struct RawReply {
  bool arrived = false;
  int32_t status = -1;
  std::vector<std::byte> out;  // after the status
};

struct ConnectOptions {
  std::string token = {}, vgpu = {};
  uint64_t memory_bytes = 0;
  bool offer_window = true;
  uint32_t pid = 0;  // 0: this process
  uint64_t features = FeatureBit(SessionFeature::kMirrors);
};

class RawClient final : public LinkObserver {
 public:
  ~RawClient() override {
    stopping_ = true;
    if (link_ != nullptr) link_->Close(Status(Code::kDisconnected, "the test is over"));
    if (pump_.joinable()) pump_.join();
    link_.reset();
  }

  Status Connect(const std::string& url, ConnectOptions options = {}) {
    auto deadline = Clock::now() + std::chrono::seconds(20);
    Result<std::unique_ptr<Channel>> channel = Dial(url, deadline);
    if (!channel.ok()) return channel.status();
    Hello hello;
    hello.pid = options.pid == 0 ? static_cast<uint32_t>(getpid()) : options.pid;
    hello.user = "tester";
    char host[256] = {};
    gethostname(host, sizeof(host) - 1);
    hello.host = host;
    hello.program = "raw client";
    hello.client_version = "0";
    hello.features = options.features;
    hello.vgpu = options.vgpu;
    hello.quota.memory_bytes = options.memory_bytes;
    if (options.offer_window) hello.device_windows = {{kWindowBase, uint64_t{1} << 36}};
    Result<Welcomed> welcomed =
        ClientHandshake(**channel, hello, ClientCredentials::OfToken(options.token), deadline);
    if (!welcomed.ok()) return welcomed.status();
    welcome_ = welcomed->welcome;
    key_ = welcomed->key;
    LinkOptions link;
    link.is_client = true;
    link.lanes = welcome_.lanes;
    link_ = std::make_unique<Link>(
        *this, link,
        [this, url, hello](LinkRole role, uint32_t lane, uint64_t seq, uint64_t chunks) {
          return Again(url, hello, role, lane, seq, chunks);
        });
    log_socket_ = (*channel)->Descriptor();
    link_->AttachLog(std::move(*channel), 0, 0);
    pump_ = std::thread([this] {
      while (!stopping_) {
        Status pumped = link_->Pump(Clock::now() + std::chrono::milliseconds(100));
        if (!pumped.ok() && pumped.code() != Code::kTimeout) return;
      }
    });
    return {};
  }

  // Sends one record; its serial. `context` is the header's slot.
  uint32_t Send(uint16_t call, const Builder& body, uint16_t flags = 0, uint16_t context = 1) {
    std::vector<std::byte> bytes(AlignUp(sizeof(RecordHeader) + body.bytes().size(), 8));
    RecordHeader header;
    header.bytes = static_cast<uint32_t>(bytes.size());
    header.call = call;
    header.flags = flags;
    header.serial = ++serial_;
    header.context = context;
    std::memcpy(bytes.data(), &header, sizeof(header));
    if (!body.bytes().empty())
      std::memcpy(bytes.data() + sizeof(header), body.bytes().data(), body.bytes().size());
    SendRaw(bytes);
    return header.serial;
  }
  uint32_t Post(CallId call, const Builder& body, uint16_t context = 1) {
    return Send(static_cast<uint16_t>(call), body, 0, context);
  }
  RawReply Ask(CallId call, const Builder& body, uint16_t context = 1) {
    return WaitReply(Send(static_cast<uint16_t>(call), body, kWantReply, context));
  }
  RawReply Ask(SessionCall call, const Builder& body, uint16_t context = 1) {
    return WaitReply(Send(static_cast<uint16_t>(call), body, kWantReply, context));
  }
  // Bytes as they are, as one frame's records.
  void SendRaw(std::span<const std::byte> bytes) {
    auto frame = link_->TakeBuffer(bytes.size());
    std::memcpy(frame->room().data(), bytes.data(), bytes.size());
    frame->Commit(bytes.size());
    (void)link_->SendFrame(std::move(frame));
  }
  RawReply WaitReply(uint32_t serial) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20),
                      [&] { return replies_.count(serial) != 0 || closed_; });
    auto reply = replies_.find(serial);
    return reply == replies_.end() ? RawReply() : reply->second;
  }
  // The last `count` answers' serials, in their order.
  std::vector<uint32_t> LastAnswered(size_t count) {
    std::lock_guard lock(mutex_);
    count = std::min(count, answered_.size());
    return {answered_.end() - static_cast<ptrdiff_t>(count), answered_.end()};
  }
  // Waits until the server has ended the session; why.
  Status WaitEnd() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return closed_; });
    return why_;
  }
  template <typename Ready>
  bool WaitFor(Ready ready) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), ready);
  }

  // ---- what a program begins with
  void RetainPrimary() {
    Builder body;
    body.Put<int32_t>(0);
    body.Put<uint64_t>(kContext);
    Post(CallId::cuDevicePrimaryCtxRetain, body, 0);
  }
  // A granted range; {0, 0} if refused.
  Window NeedCredit(uint64_t bytes) {
    Builder body;
    body.Put<int32_t>(0);
    body.Put<uint64_t>(bytes);
    body.Put<uint8_t>(1);
    RawReply reply = Ask(SessionCall::kNeedCredit, body);
    if (reply.status != 0) return {};
    Reader in(reply.out);
    Window range;
    range.base = in.Get<uint64_t>();
    range.bytes = in.Get<uint64_t>();
    return range;
  }
  void Alloc(uint64_t address, uint64_t bytes) {
    Builder body;
    body.Put<int32_t>(0);
    body.Put<uint64_t>(address);
    body.Put<uint64_t>(bytes);
    Post(CallId::cuMemAlloc_v2, body);
  }
  RawReply Synchronize() {
    Builder body;
    body.Put<uint64_t>(kContext);
    return Ask(CallId::cuCtxSynchronize_v2, body);
  }

  Status OnFrame(const FrameView& frame) override {
    RecordCursor cursor(frame.records);
    for (RecordView record; cursor.Next(record);) {
      Reader in(record.body);
      std::lock_guard lock(mutex_);
      if ((record.header.flags & kReply) != 0) {
        RawReply reply;
        reply.arrived = true;
        reply.status = in.Get<int32_t>();
        reply.out.assign(record.body.begin() + 8, record.body.end());
        replies_[record.header.serial] = reply;
        answered_.push_back(record.header.serial);
      } else if (record.header.call == static_cast<uint16_t>(SessionCall::kError)) {
        auto serial = in.Get<uint32_t>();
        in.Get<uint16_t>();
        in.Get<uint16_t>();
        errors_[serial] = in.Get<int32_t>();
      } else if (record.header.call == static_cast<uint16_t>(SessionCall::kHostCall)) {
        host_token_ = in.Get<uint64_t>();
        host_function_ = in.Get<uint64_t>();
      } else if (record.header.call == static_cast<uint16_t>(SessionCall::kRecall)) {
        in.Get<int32_t>();
        recalled_bytes_ = in.Get<uint64_t>();
      } else if (record.header.call == static_cast<uint16_t>(SessionCall::kFreed)) {
        in.Get<uint16_t>();
        freed_epoch_ = in.Get<uint64_t>();
      }
      changed_.notify_all();
    }
    return {};
  }
  std::span<std::byte> ChunkDestination(const ChunkHeader& header) override {
    std::lock_guard lock(mutex_);
    std::vector<std::byte>& bytes = landed_[header.transfer];
    if (bytes.size() < landing_bytes_) bytes.resize(landing_bytes_);
    return std::span(bytes).subspan(header.offset, header.bytes);
  }
  void OnChunk(const ChunkHeader& header) override {
    std::lock_guard lock(mutex_);
    landed_bytes_[header.transfer] += header.bytes;
    changed_.notify_all();
  }
  void OnClosed(const Status& why) override {
    std::lock_guard lock(mutex_);
    closed_ = true;
    why_ = why;
    changed_.notify_all();
  }

  // Ends the log's connection as a broken network would: without a word to the link.
  void CutLink() { shutdown(log_socket_, SHUT_RDWR); }
  Link& link() { return *link_; }
  const Welcome& welcome() const { return welcome_; }
  void ExpectTransfers(size_t bytes) { landing_bytes_ = bytes; }

  // Guarded by the mutex WaitFor holds.
  std::map<uint32_t, int32_t> errors_;
  std::map<uint64_t, std::vector<std::byte>> landed_;
  std::map<uint64_t, uint64_t> landed_bytes_;
  uint64_t host_token_ = 0, host_function_ = 0, freed_epoch_ = 0, recalled_bytes_ = 0;

 private:
  Result<Link::Reconnected> Again(const std::string& url, Hello hello, LinkRole role, uint32_t lane,
                                  uint64_t seq, uint64_t chunks) {
    auto deadline = Clock::now() + std::chrono::seconds(5);
    Result<std::unique_ptr<Channel>> channel = Dial(url, deadline);
    if (!channel.ok()) return channel.status();
    hello.role = role;
    hello.lane = lane;
    hello.session = welcome_.session;
    hello.received_seq = seq;
    hello.received_chunks = chunks;
    Result<Welcomed> welcomed =
        ClientHandshake(**channel, hello, ClientCredentials::OfSession(key_), deadline);
    if (!welcomed.ok()) return welcomed.status();
    if (role == LinkRole::kLog) log_socket_ = (*channel)->Descriptor();
    return Link::Reconnected{std::move(*channel), welcomed->welcome.received_seq,
                             welcomed->welcome.received_chunks};
  }

  Welcome welcome_;
  SessionKey key_;
  std::unique_ptr<Link> link_;
  std::thread pump_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint32_t, RawReply> replies_;
  std::vector<uint32_t> answered_;
  bool closed_ = false;
  Status why_;
  uint32_t serial_ = 0;
  size_t landing_bytes_ = 8u << 20;
  std::atomic<int> log_socket_{-1};
};

}  // namespace farcall::testing
