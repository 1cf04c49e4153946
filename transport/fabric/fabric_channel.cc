// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/fabric_channel.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "transport/fabric/fabric_lingerer.h"
#include "transport/fabric/fabric_tender.h"
#include "transport/poll.h"

namespace farcall {
namespace {

constexpr auto kFlushLimit = std::chrono::seconds(1);
// After the socket's end, for bytes that were sent before it and come another way.
constexpr auto kStragglers = std::chrono::milliseconds(500);
constexpr auto kLinger = std::chrono::milliseconds(100);
constexpr auto kBriefly = std::chrono::milliseconds(1);

// Wakes those who sleep in one direction: set while there is something for them, written only if
// somebody sleeps.
class Bell {
 public:
  Bell() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Bell() { close(fd_); }
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  void Set(bool is_ready) {
    if (is_ready == is_set_ || (is_ready && sleepers_ == 0)) return;
    is_set_ = is_ready;
    eventfd_t count = 0;
    (void)(is_ready ? eventfd_write(fd_, 1) : eventfd_read(fd_, &count));
  }
  void Sleep() { ++sleepers_; }
  void Wake() { --sleepers_; }
  int fd() const { return fd_; }

 private:
  const int fd_;
  int sleepers_ = 0;
  bool is_set_ = false;
};

class FabricChannel final : public FabricConnection, private FabricTended {
 public:
  FabricChannel(std::unique_ptr<Channel> socket, FabricEndPointer end)
      : socket_(std::move(socket)), end_(std::move(end)), to_say_(end_->Hello()) {
    FabricTender::OfProcess().Add(this);
    std::lock_guard lock(mutex_);
    Say();
    FabricTender::OfProcess().Notice();
  }
  ~FabricChannel() override {
    if (is_abandoned_) {
      end_->Forget();
      return;
    }
    Close();
    FabricTender::OfProcess().Remove(this);
    Linger();
  }

  Status AwaitPeer(Clock::time_point deadline) override {
    const auto is_decided = [this] { return HasHeard() || HasEnded(); };
    bool is_ready = false;
    while (!is_ready && Clock::now() < deadline)  // no bell rings for it
      is_ready = Wait(readable_, std::min(deadline, Clock::now() + kBriefly), -1, is_decided);
    std::lock_guard lock(mutex_);
    if (HasHeard()) return {};
    return is_ready ? Ended()
                    : Status(Code::kTimeout, PeerName() + ": " + end_->name() +
                                                 ": no word of the peer comes that way; a firewall "
                                                 "may drop it, or the networks are not one");
  }

  Result<size_t> TrySend(std::span<const std::span<const std::byte>> parts) override {
    std::unique_lock lock(mutex_);
    FARCALL_TRY(Step());
    if (HasEnded()) return Ended();
    size_t total = 0;
    Cursor from{parts};
    while (!from.AtEnd()) {
      const size_t room = end_->Room();
      if (room == 0) break;
      std::byte* memory = end_->Memory();
      lock.unlock();  // the sender's own until it is posted
      const size_t bytes = from.CopyTo({memory, room});
      lock.lock();
      end_->Post(bytes);
      total += bytes;
      end_->Progress();
    }
    NoticeWork();
    Ring();
    return total;
  }

  Result<size_t> TryReceive(std::span<std::byte> into) override {
    std::unique_lock lock(mutex_);
    FARCALL_TRY(Step());
    size_t total = 0;
    while (!into.empty() && !is_closed_) {
      const std::span<const std::byte> there = end_->Readable();
      const size_t bytes = std::min(there.size(), into.size());
      if (bytes == 0) break;
      lock.unlock();  // the receiver's own until it is consumed
      std::memcpy(into.data(), there.data(), bytes);
      lock.lock();
      end_->Consume(bytes);
      into = into.subspan(bytes);
      total += bytes;
    }
    NoticeWork();
    Ring();
    if (total == 0 && (is_closed_ || (HasEnded() && !into.empty()))) return Ended();
    return total;
  }

  bool WaitReadable(Clock::time_point deadline, int wake_fd) override {
    return Wait(readable_, deadline, wake_fd, [this] { return IsReadable(); });
  }
  bool WaitWritable(Clock::time_point deadline) override {
    return Wait(writable_, deadline, -1, [this] { return IsWritable(); });
  }

  void Close() override {
    if (is_closed_.exchange(true)) return;
    std::lock_guard lock(mutex_);
    if (end_->is_connected() && !has_socket_ended_ && end_->failure().ok()) {
      end_->Drain(Clock::now() + kFlushLimit);
      const FabricTrailer trailer{end_->sent()};
      const std::span<const std::byte> bytes = std::as_bytes(std::span(&trailer, 1));
      (void)socket_->TrySend({&bytes, 1});
      (void)socket_->Flush();
    }
    socket_->Close();
    Ring();
  }
  void Abandon() override {
    is_abandoned_ = true;
    socket_->Abandon();
  }
  int Descriptor() const override { return socket_->Descriptor(); }
  std::string PeerName() const override { return socket_->PeerName(); }
  std::string PeerIdentity() const override { return socket_->PeerIdentity(); }
  std::optional<std::chrono::microseconds> RoundTrip() const override {
    return socket_->RoundTrip();
  }
  bool LooksAreCheap() const override { return end_->LooksAreCheap(); }

 private:
  // Where the parts to be sent have been taken up to.
  struct Cursor {
    std::span<const std::span<const std::byte>> parts;
    size_t index = 0, offset = 0;

    bool AtEnd() {
      while (index < parts.size() && offset == parts[index].size()) {
        ++index;
        offset = 0;
      }
      return index == parts.size();
    }
    size_t CopyTo(std::span<std::byte> memory) {
      size_t total = 0;
      while (!memory.empty() && !AtEnd()) {
        const size_t bytes = std::min(memory.size(), parts[index].size() - offset);
        std::memcpy(memory.data(), parts[index].data() + offset, bytes);
        memory = memory.subspan(bytes);
        offset += bytes;
        total += bytes;
      }
      return total;
    }
  };

  template <typename Condition>
  bool Wait(Bell& bell, Clock::time_point deadline, int wake_fd, Condition is_ready) {
    for (bool is_woken = false;;) {
      int fabric = -1, socket = -1;
      {
        std::lock_guard lock(mutex_);
        if (!Step().ok() || is_ready()) return true;
        if (is_woken || Clock::now() >= deadline) return false;
        if (end_->is_connected() && !end_->Arm()) continue;
        fabric = end_->is_connected() ? end_->descriptor() : -1;
        socket = has_socket_ended_ ? -1 : socket_->PollDescriptor();
        NoticeWork();
        bell.Sleep();
      }
      std::array<pollfd, 4> fds = {
          {{bell.fd(), POLLIN, 0}, {fabric, POLLIN, 0}, {socket, POLLIN, 0}, {wake_fd, POLLIN, 0}}};
      PollUntil(fds, std::min(deadline, Clock::now() + end_->longest_sleep()));
      std::lock_guard lock(mutex_);
      bell.Wake();
      is_woken = fds[3].revents != 0;
      if (fds[2].revents != 0) ReadSocket();
    }
  }

  // Somebody else is in it: that one moves it.
  bool Tend() override {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return true;
    return Step().ok() && !is_closed_ && !HasEnded() && !IsSettled();
  }
  bool HasHeard() const { return end_->is_connected() && end_->has_heard(); }
  // Nothing is under way that takes more calls of the fabric.
  bool IsSettled() const { return HasHeard() && end_->IsIdle(); }
  void NoticeWork() {
    if (!IsSettled()) FabricTender::OfProcess().Notice();
  }

  // The exchange of addresses until it is done, then the fabric's work.   Errors  as TrySend
  Status Step() {
    if (!IsReady() && !has_socket_ended_ && failure_.ok()) {
      Say();
      ReadSocket();
    }
    if (end_->is_connected()) {
      end_->Progress();
      if (has_socket_ended_)
        end_->TellAllRead();  // the peer waits for it before it lets its end go
    }
    if (end_->failure().code() == Code::kMalformed) NoteFailure(end_->failure());
    Ring();
    return failure_;
  }

  // Both ends have connected, and know it of each other where that is needed.
  bool IsReady() const {
    return end_->is_connected() && (!end_->NeedsReadyPeer() || is_peer_ready_) && to_say_.empty();
  }

  void Say() {
    const std::span<const std::byte> rest(to_say_);
    if (rest.empty()) return;
    Result<size_t> sent = socket_->TrySend({&rest, 1});
    if (sent.ok()) {
      to_say_.erase(to_say_.begin(), to_say_.begin() + static_cast<ptrdiff_t>(*sent));
      (void)socket_->Flush();
    }
  }

  // What the socket has: first the peer's address, then the end.
  void ReadSocket() {
    while (!has_socket_ended_ && failure_.ok()) {
      std::array<std::byte, 1024> buffer;
      const size_t wanted = WantedBytes();
      if (wanted == 0)
        return NoteFailure({Code::kMalformed, Named("more than an end on the socket")});
      Result<size_t> got =
          socket_->TryReceive(std::span(buffer).first(std::min(wanted, buffer.size())));
      if (!got.ok()) return EndSocket(got.status());
      if (*got == 0) return;
      said_.insert(said_.end(), buffer.begin(), buffer.begin() + static_cast<ptrdiff_t>(*got));
      if (!end_->is_connected())
        TakeHello();
      else if (IsAwaitingReady())
        TakeReady();
    }
  }
  std::string Named(const std::string& what) const {
    return PeerName() + ": " + end_->name() + ": " + what;
  }
  bool IsAwaitingReady() const { return end_->NeedsReadyPeer() && !is_peer_ready_; }

  // Of the packet that is being read; one more than its end is asked for, to see the socket's.
  size_t WantedBytes() const {
    if (end_->is_connected() && IsAwaitingReady()) return sizeof(kFabricReady) - said_.size();
    if (end_->is_connected())
      return said_.size() > sizeof(FabricTrailer) ? 0 : sizeof(FabricTrailer) + 1 - said_.size();
    return (hello_bytes_ == 0 ? end_->hello_header_bytes() : hello_bytes_) - said_.size();
  }

  void TakeHello() {
    if (hello_bytes_ == 0 && said_.size() == end_->hello_header_bytes()) {
      Result<size_t> bytes = end_->HelloBytes(said_);
      if (!bytes.ok()) return NoteFailure(bytes.status());
      hello_bytes_ = *bytes;
    }
    if (hello_bytes_ == 0 || said_.size() < hello_bytes_) return;
    const std::vector<std::byte> packet = std::exchange(said_, {});
    if (Status connected = end_->Connect(packet); !connected.ok()) {
      // Nobody is reached where somebody has just gone.
      std::byte more;
      Result<size_t> got = socket_->TryReceive({&more, 1});
      got.ok() ? NoteFailure(connected) : EndSocket(got.status());
      return;
    }
    if (end_->NeedsReadyPeer()) {
      const auto mark = std::as_bytes(std::span(&kFabricReady, 1));
      to_say_.insert(to_say_.end(), mark.begin(), mark.end());
      Say();
    }
  }

  void TakeReady() {
    uint32_t mark = 0;
    if (said_.size() < sizeof(mark)) return;
    std::memcpy(&mark, said_.data(), sizeof(mark));
    said_.clear();
    if (mark != kFabricReady)
      return NoteFailure({Code::kMalformed, Named("the peer does not say that it is ready")});
    is_peer_ready_ = true;
    end_->OnPeerReady();
  }

  void EndSocket(const Status& why) {
    has_socket_ended_ = true;
    socket_end_ = Clock::now();
    socket_why_ = why;
    FabricTrailer trailer;
    if (said_.size() == sizeof(trailer)) {
      std::memcpy(&trailer, said_.data(), sizeof(trailer));
      total_bytes_ = trailer.total_bytes;
    }
  }

  // Nothing more comes: the peer has gone and what it sent is here, or will never be.
  bool HasEnded() {
    if (is_closed_ || !failure_.ok()) return true;
    if (has_socket_ended_) {
      const bool is_all_here = end_->arrived() >= total_bytes_;
      return is_all_here || !end_->failure().ok() || Clock::now() >= socket_end_ + kStragglers;
    }
    return !end_->failure().ok();
  }
  bool IsReadable() { return end_->HasReadable() || HasEnded(); }
  bool IsWritable() { return end_->Room() != 0 || HasEnded(); }

  Status Ended() const {
    if (!failure_.ok()) return failure_;
    if (is_closed_) return {Code::kDisconnected, PeerName() + ": connection closed by this side"};
    return !has_socket_ended_ && !end_->failure().ok()
               ? Status(Code::kDisconnected, PeerName() + ": " + end_->failure().message())
               : Status(Code::kDisconnected, PeerName() + ": connection closed by the peer");
  }

  void NoteFailure(const Status& why) {
    if (failure_.ok()) failure_ = why;
  }

  void Ring() {
    readable_.Set(IsReadable());
    writable_.Set(IsWritable());
  }

  // What the peer has not read yet may still be in this side's memory, and a socket of the fabric's
  // that is closed with bytes unread would take back what was sent last. A short while here, so
  // that a program that ends next loses nothing to a peer that reads; then in the background.
  void Linger() {
    std::lock_guard lock(mutex_);
    const Clock::time_point limit = Clock::now() + kLinger;
    while (IsStillRead() && Clock::now() < limit) end_->Turn();
    if (end_->IsReadByPeer() && IsStillRead()) FabricLingerer::OfProcess().Keep(std::move(end_));
  }
  bool IsStillRead() const {
    return end_->is_connected() && !has_socket_ended_ && end_->failure().ok() && end_->HasUnread();
  }

  const std::unique_ptr<Channel> socket_;
  FabricEndPointer end_;
  std::atomic<bool> is_closed_{false};
  std::atomic<bool> is_abandoned_{false};
  std::mutex mutex_;               // of all below, and of the end
  std::vector<std::byte> to_say_;  // on the socket: what is still to be sent
  std::vector<std::byte> said_;    // by the peer, on the socket
  size_t hello_bytes_ = 0;         // of the peer's; 0: not known yet
  bool is_peer_ready_ = false;
  Status failure_;  // the peer broke the protocol, or is not reached
  bool has_socket_ended_ = false;
  Clock::time_point socket_end_{};
  Status socket_why_;
  uint64_t total_bytes_ = 0;  // of the stream, as the peer says at its end
  Bell readable_, writable_;
};

}  // namespace

std::unique_ptr<FabricConnection> MakeFabricChannel(std::unique_ptr<Channel> socket,
                                                    FabricEndPointer end) {
  return std::make_unique<FabricChannel>(std::move(socket), std::move(end));
}

}  // namespace farcall
