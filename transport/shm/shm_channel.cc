// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/shm_channel.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>

#include "transport/poll.h"
#include "transport/shm/descriptors.h"
#include "transport/shm/ring_memory.h"
#include "transport/shm/ring_words.h"
#include "transport/tcp/tcp_channel.h"

namespace farcall {
namespace {

constexpr std::array<std::byte, 4> kRingState = {std::byte{'r'}, std::byte{'i'}, std::byte{'n'},
                                                 std::byte{'g'}};
// Copied before the other side is told: both copy at once.
constexpr size_t kStrideBytes = 64u << 10;
// A writer's sleep, after which it looks whether the peer still lives.
constexpr auto kRoomSlice = std::chrono::milliseconds(50);

class ShmChannel final : public Channel {
 public:
  // The client's.
  ShmChannel(int fd, std::string peer) : fd_(fd), peer_(std::move(peer)), is_client_(true) {
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  }
  // The server's.
  ShmChannel(int fd, std::string peer, Rings rings)
      : fd_(fd), peer_(std::move(peer)), is_client_(false) {
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    Attach(std::move(rings));
  }
  ~ShmChannel() override {
    if (fd_ >= 0) close(fd_);
  }

  Result<size_t> TrySend(std::span<const std::span<const std::byte>> parts) override {
    if (has_ended_ || is_closed_) return Ended();
    if (!has_rings_.load(std::memory_order_acquire)) {
      std::lock_guard lock(offer_mutex_);
      FARCALL_TRY(LookForOffer());
      if (!has_rings_) return SendOnSocket(parts);
    }
    size_t total = 0;
    for (std::span<const std::byte> part : parts) {
      while (!part.empty()) {
        Result<size_t> room = Room();
        if (!room.ok()) return room;
        if (*room == 0) {
          Publish();
          return total;
        }
        const size_t bytes = std::min({part.size(), *room, kStrideBytes});
        CopyIn(part.first(bytes));
        part = part.subspan(bytes);
        total += bytes;
        // A batch is told of once; of what is long the other side reads the beginning meanwhile.
        if (bytes == kStrideBytes) Publish();
      }
    }
    Publish();
    return total;
  }

  Result<size_t> TryReceive(std::span<std::byte> into) override {
    if (is_closed_) return Ended();
    if (!has_rings_.load(std::memory_order_acquire)) {
      std::lock_guard lock(offer_mutex_);
      return ReceiveOnSocket(into);
    }
    const bool has_ended = has_ended_.load(std::memory_order_acquire);  // before the look
    const size_t ring_bytes = rings_.peer.ring_bytes();
    size_t total = 0;
    while (!into.empty()) {
      const uint64_t head = head_.load(std::memory_order_relaxed);
      const uint64_t there = rings_.peer.words()->tail.load(std::memory_order_acquire) - head;
      if (there > ring_bytes) {
        return Status(Code::kMalformed, peer_ + ": shared memory: " + std::to_string(there) +
                                            " bytes are said to be in a ring of " +
                                            std::to_string(ring_bytes));
      }
      if (there == 0) break;
      const size_t bytes = std::min({into.size(), static_cast<size_t>(there), kStrideBytes});
      CopyOut(head, into.first(bytes));
      into = into.subspan(bytes);
      total += bytes;
      head_.store(head + bytes, std::memory_order_relaxed);
      rings_.own.words()->head.store(head + bytes, std::memory_order_release);
      Words words(*this);
      WakeWriter(words);
    }
    if (total == 0 && has_ended && !into.empty()) return Ended();
    return total;
  }

  bool WaitReadable(Clock::time_point deadline, int wake_fd) override {
    while (!has_rings_.load(std::memory_order_acquire)) {
      std::array<pollfd, 2> fds = {{{fd_, POLLIN, 0}, {wake_fd, POLLIN, 0}}};
      PollUntil({fds.data(), wake_fd < 0 ? 1u : 2u}, deadline);
      if (fds[0].revents == 0) return is_closed_;
      std::lock_guard lock(offer_mutex_);
      if (!LookForOffer().ok() || !has_rings_) return true;
    }
    Words words(*this, deadline, wake_fd);
    while (!IsReadable()) {
      if (words.is_woken) return false;
      if (deadline <= Clock::now()) return HasHungUp();
      SleepForData(words, head_.load(std::memory_order_relaxed), &sleep_);
    }
    return true;
  }

  bool WaitWritable(Clock::time_point deadline) override {
    if (!has_rings_.load(std::memory_order_acquire)) {
      pollfd fd{fd_, POLLOUT, 0};
      PollUntil({&fd, 1}, deadline);
      return fd.revents != 0 || is_closed_;
    }
    for (;;) {
      const uint64_t head = rings_.peer.words()->head.load(std::memory_order_acquire);
      // Also where that is no position: TrySend says so.
      if (is_closed_ || has_ended_ || tail_.load() - head != rings_.own.ring_bytes()) return true;
      const Clock::time_point now = Clock::now();
      if (HasHungUp() || deadline <= now) return has_ended_;
      const Clock::duration left =
          deadline < now + kRoomSlice ? deadline - now : Clock::duration(kRoomSlice);
      Words words(*this);
      words.room_patience = left;
      SleepForRoom(words, head);
    }
  }

  void Close() override {
    if (is_closed_.exchange(true)) return;
    shutdown(fd_, SHUT_RDWR);
    if (has_rings_.load(std::memory_order_acquire))
      FutexWake(rings_.peer.words()->head);  // whoever waits for room on this side
  }
  void Abandon() override {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
    rings_.own.Forget();
    rings_.peer.Forget();
  }
  int Descriptor() const override { return fd_; }
  std::string PeerName() const override { return peer_; }
  bool LooksAreCheap() const override { return has_rings_; }
  bool ChecksBytes() const override { return true; }

  bool CarriesDescriptors() const override { return true; }
  // Its byte rings the bell once more, which does no harm.
  Status SendDescriptor(int descriptor) override {
    return SendDescriptors(fd_, {&descriptor, 1}, peer_);
  }
  int TakeDescriptor() override {
    while (descriptors_.empty())
      if (!TakeBells()) return -1;
    return descriptors_.Take();
  }

 private:
  struct Words : SharedWords {
    explicit Words(ShmChannel& channel, Clock::time_point until = {}, int wake = -1)
        : SharedWords(*channel.rings_.own.words(), *channel.rings_.peer.words()),
          self(channel),
          deadline(until),
          wake_fd(wake) {}

    // A full socket has a byte that wakes the reader.
    void RingBell() {
      const char byte = 0;
      (void)send(self.fd_, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    bool WaitForBell() {
      std::array<pollfd, 2> fds = {{{self.fd_, POLLIN | POLLRDHUP, 0}, {wake_fd, POLLIN, 0}}};
      const bool any = PollUntil({fds.data(), wake_fd < 0 ? 1u : 2u}, deadline);
      is_woken = !any || fds[1].revents != 0;
      if (fds[0].revents != 0) self.TakeBells();
      return fds[0].revents != 0;
    }

    ShmChannel& self;
    const Clock::time_point deadline;
    const int wake_fd;
    bool is_woken = false;  // by `wake_fd`, or by the deadline
  };

  void Attach(Rings rings) {
    rings_ = std::move(rings);
    has_rings_.store(true, std::memory_order_release);
  }

  // ---- the sender's

  Result<size_t> Room() {
    const size_t ring_bytes = rings_.own.ring_bytes();
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    uint64_t used = tail - head_seen_;
    if (used == ring_bytes || used + kStrideBytes > ring_bytes) {
      head_seen_ = rings_.peer.words()->head.load(std::memory_order_acquire);
      used = tail - head_seen_;
    }
    if (used > ring_bytes) {
      return Status(Code::kMalformed,
                    peer_ + ": shared memory: the peer has taken bytes that it was not sent");
    }
    return ring_bytes - static_cast<size_t>(used);
  }

  void CopyIn(std::span<const std::byte> bytes) {
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    const size_t at = static_cast<size_t>(tail) & (rings_.own.ring_bytes() - 1);
    const size_t first = std::min(bytes.size(), rings_.own.ring_bytes() - at);
    std::memcpy(rings_.own.ring() + at, bytes.data(), first);
    std::memcpy(rings_.own.ring(), bytes.data() + first, bytes.size() - first);
    tail_.store(tail + bytes.size(), std::memory_order_relaxed);
  }

  void Publish() {
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (tail == published_) return;
    published_ = tail;
    rings_.own.words()->tail.store(tail, std::memory_order_release);
    Words words(*this);
    WakeReader(words, &rung_);
  }

  Result<size_t> SendOnSocket(std::span<const std::span<const std::byte>> parts) {
    std::array<iovec, 8> vectors;
    msghdr message{};
    message.msg_iov = vectors.data();
    message.msg_iovlen = std::min(parts.size(), vectors.size());
    for (size_t i = 0; i < message.msg_iovlen; ++i)
      vectors[i] = {const_cast<std::byte*>(parts[i].data()), parts[i].size()};
    const ssize_t sent = sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent >= 0 ? Result<size_t>(static_cast<size_t>(sent)) : Blocked();
  }

  // Whether the next byte of the socket is the offer; takes it.
  Status LookForOffer() {
    char byte;
    iovec vector{&byte, 1};
    msghdr message{};
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    const ssize_t got = recvmsg(fd_, &message, MSG_PEEK | MSG_DONTWAIT);
    if (got != 1 || (message.msg_flags & MSG_CTRUNC) == 0) return {};
    std::byte offer;
    return ReceiveOnSocket({&offer, 1}).status();
  }

  // ---- the receiver's

  void CopyOut(uint64_t head, std::span<std::byte> into) const {
    const size_t at = static_cast<size_t>(head) & (rings_.peer.ring_bytes() - 1);
    const size_t first = std::min(into.size(), rings_.peer.ring_bytes() - at);
    std::memcpy(into.data(), rings_.peer.ring() + at, first);
    std::memcpy(into.data() + first, rings_.peer.ring(), into.size() - first);
  }

  // Something to take, or an end, or what TryReceive will call malformed.
  bool IsReadable() const {
    return is_closed_ || has_ended_ ||
           rings_.peer.words()->tail.load(std::memory_order_acquire) !=
               head_.load(std::memory_order_relaxed);
  }

  // What rang so far has been heard, and the descriptors among it are kept. A server is sent none:
  // the kernel drops what has no room. A peer that floods the socket costs its own session time.
  // False: nothing was there.
  bool TakeBells() {
    std::array<char, 1024> bells;
    alignas(cmsghdr) std::array<char, kDescriptorRoomBytes> control;
    iovec vector{bells.data(), bells.size()};
    msghdr message{};
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    message.msg_control = is_client_ ? control.data() : nullptr;
    message.msg_controllen = is_client_ ? control.size() : 0;
    const ssize_t got = recvmsg(fd_, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got > 0 && is_client_) {
      if (const cmsghdr* header = CMSG_FIRSTHDR(&message)) descriptors_.Keep(*header);
    }
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
      has_ended_.store(true, std::memory_order_release);
    return got > 0;
  }

  bool HasHungUp() {
    pollfd fd{fd_, POLLRDHUP, 0};
    if (PollUntil({&fd, 1}, Clock::time_point::min()) && fd.revents != 0)
      has_ended_.store(true, std::memory_order_release);
    return has_ended_;
  }

  Result<size_t> ReceiveOnSocket(std::span<std::byte> into) {
    if (into.empty() || has_rings_) return size_t{0};
    if (has_ended_) return Ended();
    alignas(cmsghdr) std::array<char, kDescriptorRoomBytes> control;
    iovec vector{into.data(), into.size()};
    msghdr message{};
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = recvmsg(fd_, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0) return Blocked();
    if (got == 0) {
      has_ended_ = true;
      return Ended();
    }
    const cmsghdr* header = CMSG_FIRSTHDR(&message);
    if (header == nullptr) return static_cast<size_t>(got);
    FARCALL_TRY(TakeOffer(message, *header));
    // Its byte ends what was received: the kernel puts nothing behind descriptors.
    return static_cast<size_t>(got) - 1;
  }

  Status TakeOffer(const msghdr& message, const cmsghdr& header) {
    std::array<int, kMaxSentDescriptors> descriptors;
    const size_t count = DescriptorsOf(header, &descriptors);
    const bool is_cut = (message.msg_flags & MSG_CTRUNC) != 0;
    Status status(Code::kMalformed, peer_ + ": shared memory: the server offers " +
                                        std::to_string(count) + " descriptors, right are " +
                                        std::to_string(kMaxSentDescriptors));
    if (is_cut) {
      status = {Code::kUnavailable,
                peer_ + ": shared memory: this process may open no more files (ulimit -n)"};
    }
    if (count == kMaxSentDescriptors && !is_cut) {
      Result<Rings> rings = MapRings(descriptors);
      status = rings.status();
      if (rings.ok()) Attach(std::move(*rings));
    }
    for (const int fd : descriptors)
      if (fd >= 0) close(fd);
    if (!status.ok()) {
      failure_ = status;
      has_ended_.store(true, std::memory_order_release);
    }
    return status;
  }

  // ---- of both

  Status Ended() const {
    if (!failure_.ok()) return failure_;
    return {Code::kDisconnected, peer_ + (is_closed_ ? ": connection closed by this side"
                                                     : ": connection closed by the peer")};
  }
  Result<size_t> Blocked() const {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOBUFS)
      return size_t{0};
    return is_closed_ ? Ended() : Status(Code::kDisconnected, peer_ + ": " + strerror(errno));
  }

  int fd_;
  const std::string peer_;
  const bool is_client_;
  Rings rings_;
  std::atomic<bool> has_rings_{false};
  std::atomic<bool> is_closed_{false};
  std::atomic<bool> has_ended_{false};  // the socket has; the ring may still hold something

  std::mutex offer_mutex_;  // of the socket, until there are rings
  Status failure_;          // of the offer; set before has_ended_

  // The sender's. Nothing of it is read back from memory that the peer sees.
  alignas(64) std::atomic<uint64_t> tail_{0};
  uint64_t published_ = 0, head_seen_ = 0;
  uint32_t rung_ = 0;
  // The receiver's.
  alignas(64) std::atomic<uint64_t> head_{0};
  uint32_t sleep_ = 0;
  DescriptorQueue descriptors_;
};

}  // namespace

Result<std::unique_ptr<Channel>> ServeRings(int fd, size_t ring_bytes) {
  std::string peer = UnixPeerName(fd);
  Result<OfferedRings> made = MakeRings(ring_bytes);
  Status status = made.status();
  if (made.ok()) {
    status = SendDescriptors(fd, made->descriptors, peer);
    for (const int each : made->descriptors) close(each);
  }
  if (!status.ok()) return status;
  return std::unique_ptr<Channel>(
      std::make_unique<ShmChannel>(fd, std::move(peer), std::move(made->rings)));
}

std::unique_ptr<Channel> AwaitRings(int fd, std::string peer) {
  return std::make_unique<ShmChannel>(fd, std::move(peer));
}

std::span<const std::byte> RingState() {
  return kRingState;
}

bool IsRingState(std::span<const std::byte> state) {
  return std::equal(state.begin(), state.end(), kRingState.begin(), kRingState.end());
}

}  // namespace farcall
