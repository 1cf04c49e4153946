// SPDX-License-Identifier: Apache-2.0
// The meeting point's own side: one thread that gathers what each rank sends in a round, and gives
// all of it to all.
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>
#include <thread>

#include "client-shim/nccl/base/error.h"
#include "client-shim/nccl/net/bootstrap.h"
#include "client-shim/nccl/net/bootstrap_wire.h"
#include "client-shim/nccl/net/sockets.h"

namespace farcall::nccl {

namespace {

// Who connects and says nothing is not waited for beyond this many at once.
constexpr size_t kMaxStrangers = 64;

struct Guest {
  int socket = -1;
  int rank = -1;  // -1: has not said hello
  std::string received;
  bool has_blob = false;
  std::string blob;
};

class Meeting {
 public:
  Meeting(int listener, const uint8_t* secret) : listener_(listener) {
    std::memcpy(secret_, secret, kSecretBytes);
  }
  ~Meeting() {
    close(listener_);
    for (const auto& guest : guests_) close(guest->socket);
  }

  void Serve() {
    while (!over_) {
      std::vector<pollfd> waits = {{listener_, POLLIN, 0}};
      for (const auto& guest : guests_) waits.push_back({guest->socket, POLLIN, 0});
      if (poll(waits.data(), waits.size(), -1) < 0) continue;
      for (size_t i = 1; i < waits.size(); ++i)
        if (waits[i].revents != 0) ReadFrom(*guests_[i - 1]);
      if (waits[0].revents != 0) Accept();
      auto gone = [](const std::unique_ptr<Guest>& guest) { return guest->socket < 0; };
      guests_.erase(std::remove_if(guests_.begin(), guests_.end(), gone), guests_.end());
    }
  }

 private:
  void Accept() {
    int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) return;
    auto is_stranger = [](const std::unique_ptr<Guest>& guest) { return guest->rank < 0; };
    if (static_cast<size_t>(std::count_if(guests_.begin(), guests_.end(), is_stranger)) >=
        kMaxStrangers) {
      close(socket);
      return;
    }
    guests_.push_back(std::make_unique<Guest>());
    guests_.back()->socket = socket;
  }

  // A stranger's mistake costs the stranger; a rank that goes without a word ends the meeting, so
  // that the others learn of it.
  void Drop(Guest& guest, bool said_bye) {
    close(guest.socket);
    guest.socket = -1;
    if (guest.rank < 0) return;
    --present_;
    left_ |= said_bye;
    over_ |= !said_bye || present_ == 0;
  }

  void ReadFrom(Guest& guest) {
    char bytes[4096];
    ssize_t got = recv(guest.socket, bytes, sizeof(bytes), 0);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) return Drop(guest, false);
    guest.received.append(bytes, static_cast<size_t>(got));
    MessageHead head;
    while (guest.socket >= 0 && guest.received.size() >= sizeof(head)) {
      std::memcpy(&head, guest.received.data(), sizeof(head));
      if (head.bytes > kMaxBlobBytes) return Drop(guest, false);
      if (guest.received.size() - sizeof(head) < head.bytes) return;
      std::string payload = guest.received.substr(sizeof(head), head.bytes);
      guest.received.erase(0, sizeof(head) + head.bytes);
      Take(guest, head, std::move(payload));
    }
  }

  void Take(Guest& guest, const MessageHead& head, std::string payload) {
    switch (static_cast<MessageKind>(head.kind)) {
      case MessageKind::kHello:
        if (!Welcome(guest, payload)) Drop(guest, false);
        return;
      case MessageKind::kBlob:
        if (guest.rank < 0 || guest.has_blob || head.round != round_) return Drop(guest, false);
        guest.has_blob = true;
        guest.blob = std::move(payload);
        return AnswerWhenComplete();
      case MessageKind::kBye:
        return Drop(guest, guest.rank >= 0);
      default:
        return Drop(guest, false);
    }
  }

  bool Welcome(Guest& guest, const std::string& payload) {
    Hello hello;
    if (guest.rank >= 0 || payload.size() != sizeof(hello)) return false;
    std::memcpy(&hello, payload.data(), sizeof(hello));
    if (!SameSecret(hello.secret, secret_) || hello.ranks < 1 || hello.ranks > kMaxRanks ||
        hello.rank >= hello.ranks)
      return false;
    auto same = [&](const std::unique_ptr<Guest>& other) {
      return other->rank == static_cast<int>(hello.rank);
    };
    if ((ranks_ != 0 && hello.ranks != ranks_) || std::any_of(guests_.begin(), guests_.end(), same))
      return false;
    ranks_ = hello.ranks;
    guest.rank = static_cast<int>(hello.rank);
    ++present_;
    return true;
  }

  void AnswerWhenComplete() {
    std::vector<std::string> blobs(ranks_);
    size_t have = 0;
    for (const auto& guest : guests_) {
      if (guest->socket < 0 || guest->rank < 0 || !guest->has_blob) continue;
      blobs[guest->rank] = guest->blob;
      ++have;
    }
    // Whoever has left in peace will not come back: the others would wait for ever.
    if (left_) over_ = true;
    if (have < ranks_) return;
    std::string all = Message(MessageKind::kAll, round_++, JoinBlobs(blobs));
    for (const auto& guest : guests_) {
      if (guest->rank < 0) continue;
      guest->has_blob = false;
      SendOrGiveUp(guest->socket, all);  // whose end is gone is heard of next
    }
  }

  // The sockets do not block; a few hundred bytes a rank wait for room at most ten seconds.
  static void SendOrGiveUp(int socket, const std::string& bytes) {
    pollfd writable = {socket, POLLOUT, 0};
    for (size_t sent = 0; sent < bytes.size();) {
      ssize_t now = send(socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (now > 0) {
        sent += static_cast<size_t>(now);
      } else if (errno == EAGAIN || errno == EINTR) {
        if (poll(&writable, 1, 10000) == 0) return;
      } else {
        return;
      }
    }
  }

  int listener_;
  uint8_t secret_[kSecretBytes];
  uint32_t ranks_ = 0, round_ = 0;
  int present_ = 0;
  bool left_ = false, over_ = false;
  std::vector<std::unique_ptr<Guest>> guests_;
};

}  // namespace

ncclResult_t OpenMeeting(ncclUniqueId* unique_id) {
  MeetingId id = {};
  int listener = -1;
  FARCALL_NCCL_TRY(ListenAnywhere(&id, &listener));
  // Signals belong to the application's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([meeting = std::make_shared<Meeting>(listener, id.secret)] {
    meeting->Serve();
  }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  std::memset(unique_id, 0, sizeof(*unique_id));
  std::memcpy(unique_id, &id, sizeof(id));
  return ncclSuccess;
}

}  // namespace farcall::nccl
