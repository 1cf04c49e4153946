// SPDX-License-Identifier: Apache-2.0
#include "server/worker/connection/net_pacer.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "transport/poll.h"

namespace farcall::server {

namespace {

constexpr size_t kUnlimited = SIZE_MAX;
constexpr int64_t kLogDebtBytes = 64 << 10;

// Bounded by what the budget lets pass; who may not send or receive waits for the budget in the
// place of the socket. So a session without bytes keeps nobody's thread but its own.
class PacedChannel final : public Channel {
 public:
  PacedChannel(std::unique_ptr<Channel> channel, NetPacer& pacer, bool is_log)
      : channel_(std::move(channel)), pacer_(pacer), is_log_(is_log) {}

  Result<size_t> TrySend(std::span<const std::span<const std::byte>> parts) override {
    size_t most = ended_.load() ? kUnlimited : pacer_.MayPass(is_log_);
    if (most == 0) return size_t{0};
    std::array<std::span<const std::byte>, 16> bounded;
    size_t count = 0;
    for (; count < parts.size() && count < bounded.size() && most != 0; ++count) {
      bounded[count] = parts[count].first(std::min(parts[count].size(), most));
      most -= bounded[count].size();
    }
    Result<size_t> sent = channel_->TrySend({bounded.data(), count});
    if (sent.ok()) pacer_.Passed(*sent, /*is_in=*/false);
    return sent;
  }
  Result<size_t> TryReceive(std::span<std::byte> into) override {
    size_t most = ended_.load() ? kUnlimited : pacer_.MayPass(is_log_);
    if (most == 0) return size_t{0};
    Result<size_t> got = channel_->TryReceive(into.first(std::min(into.size(), most)));
    if (got.ok()) pacer_.Passed(*got, /*is_in=*/true);
    return got;
  }
  bool WaitReadable(Clock::time_point deadline, int wake_fd) override {
    if (pacer_.MayPass(is_log_) == 0 && WaitBudget(deadline, wake_fd) != Waited::kReady)
      return ended_.load();
    return channel_->WaitReadable(deadline, wake_fd);
  }
  bool WaitWritable(Clock::time_point deadline) override {
    if (pacer_.MayPass(is_log_) == 0 && WaitBudget(deadline, -1) != Waited::kReady)
      return ended_.load();
    return channel_->WaitWritable(deadline);
  }
  void Close() override {
    ended_.store(true);
    channel_->Close();
  }
  void Abandon() override { channel_->Abandon(); }
  int Descriptor() const override { return channel_->Descriptor(); }
  std::string PeerName() const override { return channel_->PeerName(); }
  bool IsHolding() const override { return channel_->IsHolding(); }
  Result<bool> Flush() override { return channel_->Flush(); }
  void ReadAhead() override { channel_->ReadAhead(); }
  bool LooksAreCheap() const override { return channel_->LooksAreCheap(); }
  bool ChecksBytes() const override { return channel_->ChecksBytes(); }
  bool CarriesDescriptors() const override { return channel_->CarriesDescriptors(); }
  Status SendDescriptor(int descriptor) override { return channel_->SendDescriptor(descriptor); }
  int TakeDescriptor() override { return channel_->TakeDescriptor(); }

 private:
  enum class Waited { kReady, kTimeout, kWoken };
  static constexpr auto kSlice = std::chrono::milliseconds(50);  // after which Close() is seen

  Waited WaitBudget(Clock::time_point deadline, int wake_fd) {
    while (!ended_.load()) {
      std::array<pollfd, 2> fds = {{{pacer_.descriptor(), POLLIN, 0}, {wake_fd, POLLIN, 0}}};
      PollUntil({fds.data(), wake_fd < 0 ? 1u : 2u}, std::min(deadline, Clock::now() + kSlice));
      if (fds[0].revents != 0) return Waited::kReady;
      if (wake_fd >= 0 && fds[1].revents != 0) return Waited::kWoken;
      if (Clock::now() >= deadline) return Waited::kTimeout;
    }
    return Waited::kWoken;
  }

  const std::unique_ptr<Channel> channel_;
  NetPacer& pacer_;
  const bool is_log_;
  std::atomic<bool> ended_{false};
};

}  // namespace

NetPacer::NetPacer(std::function<void(const control::WantNetBytes&)> ask,
                   std::function<quota::Ns()> now)
    : ask_(std::move(ask)),
      now_(std::move(now)),
      ready_(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)),
      news_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

NetPacer::~NetPacer() {
  close(ready_);
  close(news_);
}

std::unique_ptr<Channel> NetPacer::Pace(std::unique_ptr<Channel> channel, NetPacer& pacer,
                                        bool is_log) {
  return std::make_unique<PacedChannel>(std::move(channel), pacer, is_log);
}

void NetPacer::SetReady(bool ready) {
  if (ready == std::exchange(is_ready_, ready)) return;
  eventfd_t count = 0;
  (void)(ready ? eventfd_write(ready_, 1) : eventfd_read(ready_, &count));
}

void NetPacer::Ask() {
  if (!std::exchange(asked_, true)) ask_(control::WantNetBytes{});
}

void NetPacer::OnMessage(const control::NetLimit& message) {
  std::lock_guard lock(mutex_);
  limited_.store(message.is_limited);
  left_bytes_ = 0;
  UpdateReady();
}

void NetPacer::OnMessage(const control::NetBytes& message) {
  std::lock_guard lock(mutex_);
  left_bytes_ += static_cast<int64_t>(std::min<uint64_t>(message.bytes, INT64_MAX / 4));
  UpdateReady();
}

void NetPacer::UpdateReady() {
  asked_ = false;
  bool ready = !limited_.load() || left_bytes_ > 0;
  SetReady(ready);
  if (!ready) return Ask();
  if (blocked_since_ != 0) waited_ns_ += now_() - std::exchange(blocked_since_, 0);
}

size_t NetPacer::MayPass(bool is_log) {
  if (!limited_.load(std::memory_order_relaxed)) return kUnlimited;
  std::lock_guard lock(mutex_);
  if (!limited_.load()) return kUnlimited;
  if (left_bytes_ > 0) return static_cast<size_t>(left_bytes_);
  Ask();
  if (is_log && left_bytes_ > -kLogDebtBytes)
    return static_cast<size_t>(left_bytes_ + kLogDebtBytes);
  if (blocked_since_ == 0) blocked_since_ = now_();
  return 0;
}

void NetPacer::Passed(size_t bytes, bool is_in) {
  if (bytes == 0) return;
  (is_in ? bytes_in_ : bytes_out_).fetch_add(bytes);
  if (news_wanted_.load() && news_wanted_.exchange(false)) eventfd_write(news_, 1);
  if (!limited_.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(mutex_);
  left_bytes_ -= static_cast<int64_t>(bytes);
  SetReady(!limited_.load() || left_bytes_ > 0);
}

bool NetPacer::AwaitNews() {
  eventfd_t count = 0;
  eventfd_read(news_, &count);
  news_wanted_.store(true);  // before the look: what passes after it is news
  std::lock_guard lock(mutex_);
  return bytes_in_.load() + bytes_out_.load() == reported_bytes_;
}

std::optional<control::NetUse> NetPacer::Use() {
  std::lock_guard lock(mutex_);
  const control::NetUse use{.received_bytes = bytes_in_.load(),
                            .sent_bytes = bytes_out_.load(),
                            .waited_ns = static_cast<uint64_t>(waited_ns_)};
  const uint64_t bytes = use.received_bytes + use.sent_bytes;
  if (std::exchange(reported_bytes_, bytes) == bytes) return std::nullopt;
  return use;
}

}  // namespace farcall::server
