// SPDX-License-Identifier: Apache-2.0
#include "listener/tls/tls_acceptor.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "listener/source.h"

namespace farcall {

namespace {

constexpr size_t kMaxHandshakes = 512;  // some 40 KiB each
constexpr int kAcceptsAtOnce = 64;
constexpr std::chrono::seconds kPatience(10);  // for a handshake
// What epoll knows beside handshakes, by their number.
constexpr uint64_t kListenerName = ~uint64_t{0}, kStopName = kListenerName - 1;

}  // namespace

TlsAcceptor::TlsAcceptor(TlsFiles files, Connected connected, Warn warn)
    : files_(std::move(files)), connected_(std::move(connected)), warn_(std::move(warn)) {}

TlsAcceptor::~TlsAcceptor() {
  if (epoll_ >= 0) close(epoll_);
}

Status TlsAcceptor::Load() {
  Result<std::shared_ptr<TlsContext>> made =
      TlsContext::Make(TlsContext::Side::kServer, files_.files());
  if (made.ok()) context_ = *made;
  return made.status();
}

Status TlsAcceptor::Open(int listener, int stop) {
  FARCALL_TRY(Load());
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0) return {Code::kUnavailable, "no descriptors"};
  listener_ = listener;
  fcntl(listener_, F_SETFL, fcntl(listener_, F_GETFL) | O_NONBLOCK);
  Watch(EPOLL_CTL_ADD, listener_, EPOLLIN, kListenerName);
  Watch(EPOLL_CTL_ADD, stop, EPOLLIN, kStopName);
  return {};
}

void TlsAcceptor::Run() {
  for (;;) {
    std::array<epoll_event, 64> events;
    const int count =
        epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), WaitMilliseconds());
    DropLate();
    for (int i = 0; i < count; ++i) {
      const uint64_t name = events[static_cast<size_t>(i)].data.u64;
      if (name == kStopName) return;
      if (name == kListenerName)
        AcceptSome();
      else
        Step(name);
    }
  }
}

void TlsAcceptor::Watch(int operation, int fd, uint32_t wanted, uint64_t name) {
  epoll_event event{};
  event.events = wanted;
  event.data.u64 = name;
  epoll_ctl(epoll_, operation, fd, &event);
}

int TlsAcceptor::WaitMilliseconds() const {
  if (guests_.empty()) return -1;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      guests_.begin()->second->deadline - Clock::now());
  return static_cast<int>(std::max<int64_t>(left.count(), 0)) + 1;
}

void TlsAcceptor::AcceptSome() {
  if (files_.HaveChanged()) {
    if (Status loaded = Load(); !loaded.ok()) warn_(loaded.message());
  }
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      if ((errno == EMFILE || errno == ENFILE || errno == ENOMEM) && !guests_.empty()) {
        Drop(sources_.PickOfFullest());
        continue;
      }
      return;
    }
    while (guests_.size() >= kMaxHandshakes) Drop(sources_.PickOfFullest());
    const uint64_t number = next_number_++;
    sources_.Add(number, SourceOfSocket(fd), 1);
    auto guest = std::make_unique<Guest>(AdoptSocket(fd), context_);
    guest->deadline = Clock::now() + kPatience;
    guests_.emplace(number, std::move(guest));
    Watch(EPOLL_CTL_ADD, fd, EPOLLIN, number);
  }
}

void TlsAcceptor::Step(uint64_t number) {
  auto found = guests_.find(number);
  if (found == guests_.end()) return;  // dropped since the event
  Guest& guest = *found->second;
  Result<TlsHandshake::Progress> progress = guest.handshake.Step();
  if (!progress.ok()) return Drop(number);
  if (*progress == TlsHandshake::Progress::kDone) {
    std::unique_ptr<Guest> done = Take(number);
    const std::string identity = done->handshake.PeerIdentity();
    return connected_(std::move(done->channel), done->handshake.keys(), identity);
  }
  const bool wants_write = *progress == TlsHandshake::Progress::kWantsWrite;
  if (wants_write != guest.wants_write) {
    guest.wants_write = wants_write;
    Watch(EPOLL_CTL_MOD, guest.channel->Descriptor(), wants_write ? EPOLLOUT : EPOLLIN, number);
  }
}

std::unique_ptr<TlsAcceptor::Guest> TlsAcceptor::Take(uint64_t number) {
  auto found = guests_.find(number);
  if (found == guests_.end()) return nullptr;
  std::unique_ptr<Guest> guest = std::move(found->second);
  guests_.erase(found);
  sources_.Remove(number);
  Watch(EPOLL_CTL_DEL, guest->channel->Descriptor(), 0, number);
  return guest;
}

void TlsAcceptor::Drop(uint64_t number) {
  if (std::unique_ptr<Guest> guest = Take(number)) guest->channel->Abandon();
}

void TlsAcceptor::DropLate() {
  const Clock::time_point now = Clock::now();
  while (!guests_.empty() && guests_.begin()->second->deadline <= now) Drop(guests_.begin()->first);
}

}  // namespace farcall
