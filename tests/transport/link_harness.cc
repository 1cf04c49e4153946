// SPDX-License-Identifier: Apache-2.0
#include "tests/transport/link_harness.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstring>

#include "tests/transport/shm_listener.h"
#include "tests/transport/tls_listener.h"
#include "tests/transport/ucx_listener.h"
#ifdef FARCALL_HAS_VERBS
#include "tests/transport/verbs_listener.h"
#endif
#include "transport/handshake.h"

namespace farcall::test {
namespace {

class FaultyChannel final : public Channel {
 public:
  FaultyChannel(std::unique_ptr<Channel> inner, std::shared_ptr<Faults> faults)
      : inner_(std::move(inner)), faults_(std::move(faults)) {}

  Result<size_t> TrySend(std::span<const std::span<const std::byte>> parts) override {
    if (InHole()) {
      size_t total = 0;
      for (auto part : parts) total += part.size();
      return total;
    }
    int64_t left = faults_->cut_after_bytes;
    if (left < 0) return WithReason(inner_->TrySend(parts));
    // Byte by byte towards the cut, so that it falls anywhere in a header or a payload.
    for (auto part : parts) {
      if (part.empty()) continue;
      std::span<const std::byte> some =
          part.first(std::min<size_t>(part.size(), static_cast<size_t>(left)));
      if (some.empty()) return Cut();
      Result<size_t> sent = WithReason(inner_->TrySend({&some, 1}));
      if (sent.ok()) faults_->cut_after_bytes -= static_cast<int64_t>(*sent);
      return sent;
    }
    return size_t{0};
  }
  Result<size_t> TryReceive(std::span<std::byte> into) override {
    if (InHole()) return size_t{0};
    int64_t left = faults_->cut_after_bytes;
    if (left < 0) return WithReason(inner_->TryReceive(into));
    if (left == 0) return Cut();
    Result<size_t> got = WithReason(
        inner_->TryReceive(into.first(std::min<size_t>(into.size(), static_cast<size_t>(left)))));
    if (got.ok()) faults_->cut_after_bytes -= static_cast<int64_t>(*got);
    return got;
  }
  bool WaitReadable(Clock::time_point deadline, int wake_fd) override {
    while (InHole() && !closed_) {
      if (Clock::now() >= deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return inner_->WaitReadable(deadline, wake_fd);
  }
  bool WaitWritable(Clock::time_point deadline) override { return inner_->WaitWritable(deadline); }
  void Close() override {
    closed_ = true;
    inner_->Close();
  }
  void Abandon() override { inner_->Abandon(); }
  int Descriptor() const override { return inner_->Descriptor(); }
  std::string PeerName() const override { return inner_->PeerName(); }
  bool IsHolding() const override { return inner_->IsHolding(); }
  Result<bool> Flush() override { return inner_->Flush(); }
  void ReadAhead() override { inner_->ReadAhead(); }
  bool LooksAreCheap() const override { return inner_->LooksAreCheap(); }
  bool ChecksBytes() const override { return inner_->ChecksBytes(); }

 private:
  // For good: a connection never loses bytes from its middle.
  bool InHole() {
    if (faults_->black_hole) hole_ = true;
    return hole_;
  }
  Result<size_t> Cut() {
    faults_->cut_after_bytes = -1;
    ++faults_->cuts;
    cut_ = true;
    inner_->Close();
    return Status(Code::kDisconnected, "cut by the test");
  }
  // A reader sees the close of a cut that a writer made, or the other way round; either may be the
  // first to say so.
  Result<size_t> WithReason(Result<size_t> done) const {
    if (!done.ok() && cut_) return Status(Code::kDisconnected, "cut by the test");
    return done;
  }
  std::unique_ptr<Channel> inner_;
  std::shared_ptr<Faults> faults_;
  std::atomic<bool> closed_ = false;
  std::atomic<bool> hole_ = false;
  std::atomic<bool> cut_ = false;
};

}  // namespace

std::unique_ptr<Channel> WithFaults(std::unique_ptr<Channel> inner,
                                    std::shared_ptr<Faults> faults) {
  return std::make_unique<FaultyChannel>(std::move(inner), std::move(faults));
}

Status Recorder::OnFrame(const FrameView& frame) {
  uint64_t number = 0;
  std::memcpy(&number, frame.records.data() + sizeof(RecordHeader), 8);
  RecordHeader record;
  std::memcpy(&record, frame.records.data(), sizeof(record));
  if (record.call == static_cast<uint16_t>(SessionCall::kGoodbye)) return {};
  std::function<Status(const FrameView&)> then;
  {
    std::lock_guard lock(mutex);
    if (number != frames + 1) ++wrong_frames;
    ++frames;
    changed.notify_all();
    then = on_frame_;
  }
  return then ? then(frame) : Status();
}

std::span<std::byte> Recorder::ChunkDestination(const ChunkHeader& header) {
  std::lock_guard lock(mutex);
  auto at = transfers_.find(header.transfer);
  if (at == transfers_.end() || header.offset > at->second.size() ||
      header.bytes > at->second.size() - header.offset)
    return {};
  return std::span(at->second).subspan(header.offset, header.bytes);
}

void Recorder::OnChunk(const ChunkHeader& header) {
  std::lock_guard lock(mutex);
  ++chunks;
  chunk_bytes += header.bytes;
  changed.notify_all();
}

void Recorder::OnDetached(const Status& why) {
  std::lock_guard lock(mutex);
  ++detached;
  detach_reason = why;
  changed.notify_all();
}
void Recorder::OnReattached() {
  std::lock_guard lock(mutex);
  ++reattached;
  changed.notify_all();
}
void Recorder::OnClosed(const Status& why) {
  std::lock_guard lock(mutex);
  ++closed;
  close_reason = why;
  changed.notify_all();
}

void Recorder::OnEachFrame(std::function<Status(const FrameView&)> then) {
  std::lock_guard lock(mutex);
  on_frame_ = std::move(then);
}
void Recorder::Expect(uint64_t transfer, size_t bytes) {
  std::lock_guard lock(mutex);
  transfers_[transfer].resize(bytes);
}
std::vector<std::byte>& Recorder::Landed(uint64_t transfer) {
  std::lock_guard lock(mutex);
  return transfers_[transfer];
}
bool Recorder::Until(const std::function<bool()>& condition) {
  std::unique_lock lock(mutex);
  for (Clock::time_point end = In(kLong); Clock::now() < end;) {
    if (condition()) return true;
    changed.wait_for(lock, std::chrono::milliseconds(20));
  }
  return false;
}

End::End(const LinkOptions& options, Link::Reconnect reconnect)
    : link(std::make_unique<Link>(recorder, options, std::move(reconnect))),
      wake_(options.idle_after_ms == 0 ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

End::~End() {
  link->Close({Code::kDisconnected, "test over"});
  if (pump_.joinable()) pump_.join();
  if (wake_ >= 0) close(wake_);
}

void End::AwaitAnswer() {
  awaits_answer_ = true;
  eventfd_write(wake_, 1);
}

void End::StartPump() {
  pump_ = std::thread([this] {
    for (;;) {
      Status status = wake_ < 0 || awaits_answer_ ? link->Pump(In(1000))
                                                  : link->Pump(Clock::time_point::max(), wake_);
      if (!status.ok() && status.code() != Code::kTimeout) return;
      if (!link->closed().ok()) return;
    }
  });
}

Status End::Send(size_t extra_bytes) {
  RecordHeader record;
  record.bytes = static_cast<uint32_t>(sizeof(record) + 8 + (extra_bytes + 7) / 8 * 8);
  record.call = 1;
  std::unique_ptr<FrameBuffer> frame = link->TakeBuffer(record.bytes);
  uint64_t number = ++sent;
  std::memcpy(frame->room().data(), &record, sizeof(record));
  std::memcpy(frame->room().data() + sizeof(record), &number, 8);
  std::memset(frame->room().data() + sizeof(record) + 8, static_cast<int>(number & 0xFF),
              record.bytes - sizeof(record) - 8);
  frame->Commit(record.bytes);
  return link->SendFrame(std::move(frame));
}

Pair::Pair(const std::string& url, LinkOptions client_options, LinkOptions server_options) {
  client_options.is_client = true;
  server_options.is_client = false;
  Result<std::unique_ptr<Listener>> listener = Listen(url);
  if (!listener.ok()) return;
  listener_ = std::move(*listener);
  server = std::make_unique<End>(server_options, nullptr);
  client = std::make_unique<End>(
      client_options, [this](LinkRole role, uint32_t lane, uint64_t seq, uint64_t chunks) {
        return Connect(role, lane, seq, chunks);
      });
  supervisor_ = std::thread([this] { Supervise(); });
  Result<Link::Reconnected> log = Connect(LinkRole::kLog, 0, 0, 0);
  if (!log.ok()) return;
  client->link->AttachLog(std::move(log->channel), 0, 0);
  client->StartPump();
  server->StartPump();
  ok_ = true;
}

Pair::~Pair() {
  client.reset();
  listener_->Close();
  if (supervisor_.joinable()) supervisor_.join();
  server.reset();
}

Result<Link::Reconnected> Pair::Connect(LinkRole role, uint32_t lane, uint64_t seq,
                                        uint64_t chunks) {
  if (faults->refuse_dial) return Status(Code::kUnavailable, "refused by the test");
  if (role == LinkRole::kLane && ++faults->lanes_about <= faults->lanes_meet) {
    const Clock::time_point end = In(5000);
    while (faults->lanes_about < faults->lanes_meet) {
      if (Clock::now() > end) return Status(Code::kInvalid, "a lane is dialled alone");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  Result<std::unique_ptr<Channel>> channel = Dial(listener_->Url(), In(5000));
  if (!channel.ok()) return channel.status();
  Hello hello;
  hello.role = role;
  hello.lane = lane;
  hello.received_seq = seq;
  hello.received_chunks = chunks;
  Result<Welcomed> welcomed = ClientHandshake(**channel, hello, {}, In(5000));
  if (!welcomed.ok()) return welcomed.status();
  return Link::Reconnected{WithFaults(std::move(*channel), faults), welcomed->welcome.received_seq,
                           welcomed->welcome.received_chunks};
}

void Pair::Supervise() {
  for (;;) {
    Result<std::unique_ptr<Channel>> channel = listener_->Accept(In(kLong));
    if (!channel.ok()) return;
    const ServerExchange exchange(false, "test");
    Result<ReceivedHello> heard = GreetAndReceive(**channel, exchange, In(5000));
    if (!heard.ok()) continue;
    const Hello* hello = &heard->hello();
    Welcome welcome;
    welcome.received_seq = server->link->received_seq();
    welcome.received_chunks = server->link->chunks_received();
    if (!SendWelcome(**channel, heard->AcceptAnyone().answer, welcome, In(5000)).ok()) continue;
    if (hello->role == LinkRole::kLane)
      server->link->AttachLane(hello->lane, std::move(*channel));
    else
      server->link->AttachLog(std::move(*channel), hello->received_seq, hello->received_chunks);
  }
}

std::vector<std::byte> Pattern(size_t bytes, uint32_t seed) {
  std::vector<std::byte> out(bytes);
  uint64_t value = seed * 2654435761u + 1;
  for (size_t at = 0; at < bytes; at += sizeof(value)) {
    value = value * 6364136223846793005u + 1442695040888963407u;
    std::memcpy(out.data() + at, &value, std::min(sizeof(value), bytes - at));
  }
  return out;
}

std::vector<std::string> TransportUrls() {
  std::vector<std::string> urls = {"inproc://suite", "tcp://127.0.0.1:0"};
  if (Listen("tcp://[::1]:0").ok()) urls.push_back("tcp://[::1]:0");
  AddTlsForTests();
  urls.push_back("tls://127.0.0.1:0");
  AddShmForTests();
  urls.push_back("shm://suite");
  if (AddUcxForTests()) {
    urls.push_back("ucx://127.0.0.1:0/tcp");
    urls.push_back("ucx://127.0.0.1:0/posix");
  }
#ifdef FARCALL_HAS_VERBS
  for (const std::string& url : AddVerbsForTests()) urls.push_back(url);
#endif
  return urls;
}

std::string UrlTestName(const std::string& url) {
  if (url.find("inproc") == 0) return "inproc";
  if (url.find("tls") == 0) return "tls";
  if (url.find("shm") == 0) return "shm";
  if (url.find("verbs") == 0) return "verbs_" + url.substr(url.rfind('/') + 1);
  if (url.find("ucx") == 0) return "ucx_" + url.substr(url.rfind('/') + 1);
  return url.find('[') == std::string::npos ? "tcp_v4" : "tcp_v6";
}

std::string FreshUrl(const std::string& url) {
  static std::atomic<int> next = 0;
  if (url.find("shm") == 0) {
    return "shm://" + std::string(testing::TempDir()) + "farcall-" + std::to_string(getpid()) +
           "-" + std::to_string(++next) + ".shm";
  }
  return url.find("inproc") == 0 ? url + std::to_string(++next) : url;
}

}  // namespace farcall::test
