// SPDX-License-Identifier: Apache-2.0
// The loop: accepting, greeting, making room. Reading: read_hello.cc; what follows a whole HELLO:
// judge.cc.
#include "listener/handshake_server.h"

#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>

namespace farcall {

namespace {

constexpr int kAcceptsAtOnce = 128;       // then those who wait are heard
constexpr size_t kReserve = 32;           // descriptors kept for handshakes
constexpr size_t kReserveForJudges = 16;  // of them, not for accepting
constexpr std::chrono::milliseconds kPause(50);
// What epoll knows: guests by their number, listeners by their index above kListeners.
constexpr uint64_t kListeners = uint64_t{1} << 62;
constexpr uint64_t kWake = ~uint64_t{0};

// Most of a flood of connections have ended when their turn comes: they get no key.
bool HasEnded(int fd) {
  char byte;
  return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

void Watch(int epoll, int operation, int fd, uint32_t events, uint64_t name) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = name;
  epoll_ctl(epoll, operation, fd, &event);
}

}  // namespace

HandshakeServer::HandshakeServer(bool needs_token, Admit admit)
    : HandshakeServer(needs_token, std::move(admit), Bounds()) {}

HandshakeServer::HandshakeServer(bool needs_token, Admit admit, const Bounds& bounds)
    : needs_token_(needs_token),
      admit_(std::move(admit)),
      bounds_(bounds),
      most_waiting_(std::min(bounds.waiting, RaiseDescriptorLimit() / 2)),
      most_ready_(std::min(bounds.ready, RaiseDescriptorLimit() / 8)),
      reserve_(kReserve),
      judges_(bounds.judges) {}

Status HandshakeServer::Start() {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (epoll_ < 0 || wake_ < 0) return {Code::kUnavailable, "no descriptors for handshakes"};
  Watch(epoll_, EPOLL_CTL_ADD, wake_, EPOLLIN, kWake);
  for (size_t i = 0; i < listeners_.size(); ++i)
    Watch(epoll_, EPOLL_CTL_ADD, listeners_[i]->PollDescriptor(), EPOLLIN, kListeners + i);
  bool all = loop_.Start("fc-listen", &HandshakeServer::Loop, this);
  for (WorkerThread& judge : judges_)
    all = all && judge.Start("fc-judge", &HandshakeServer::Judge, this);
  return all ? Status()
             : Status(Code::kUnavailable,
                      "no threads for handshakes: raise the limit of processes");
}

void HandshakeServer::Loop() {
  while (!stopping_) {
    try {
      Turn();
    } catch (const std::exception& error) {  // out of memory: those who wait hold some
      spdlog::error("the handshake port: {}", error.what());
      ShedWaiting();
    }
  }
}

void HandshakeServer::Turn() {
  std::array<epoll_event, 64> events;
  const int count =
      epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), WaitMilliseconds());
  DropLate();
  if (resume_at_ && Clock::now() >= *resume_at_) PauseListeners(false);
  for (int i = 0; i < count; ++i) {
    const uint64_t name = events[static_cast<size_t>(i)].data.u64;
    if (name < kListeners)
      Read(name);
    else if (name != kWake)
      AcceptSome(*listeners_[name - kListeners]);
  }
  reserve_.Refill();
}

int HandshakeServer::WaitMilliseconds() const {
  Clock::time_point until = Clock::time_point::max();
  if (!guests_.empty()) until = guests_.begin()->second->deadline;  // all have the same patience
  if (resume_at_) until = std::min(until, *resume_at_);
  if (until == Clock::time_point::max()) return -1;
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
  return static_cast<int>(std::max<decltype(left)>(left, 0)) + 1;
}

void HandshakeServer::AcceptSome(Listener& listener) {
  for (int i = 0; i < kAcceptsAtOnce && !stopping_; ++i) {
    Result<std::unique_ptr<Channel>> channel = AcceptOne(listener);
    if (channel.ok()) {
      Greet(std::move(*channel), listener);
      continue;
    }
    if (channel.status().code() != Code::kTimeout)
      PauseListeners(true);  // nothing can be freed here: some will come back
    return;
  }
}

// Where there are no descriptors: by one of the reserve, or by one of those who wait.
Result<std::unique_ptr<Channel>> HandshakeServer::AcceptOne(Listener& listener) {
  constexpr auto kAtOnce = Clock::time_point::min();
  Result<std::unique_ptr<Channel>> channel = listener.Accept(kAtOnce);
  if (channel.status().code() == Code::kUnavailable &&
      (reserve_.Lend(1, kReserveForJudges) != 0 || ShedWaiting()))
    return listener.Accept(kAtOnce);
  return channel;
}

void HandshakeServer::PauseListeners(bool is_paused) {
  for (size_t i = 0; i < listeners_.size(); ++i) {
    Watch(epoll_, EPOLL_CTL_MOD, listeners_[i]->PollDescriptor(),
          is_paused ? 0u : uint32_t{EPOLLIN}, kListeners + i);
  }
  resume_at_.reset();
  if (is_paused) resume_at_ = Clock::now() + kPause;
}

void HandshakeServer::Greet(std::unique_ptr<Channel> channel, const Listener& listener) {
  if (HasEnded(channel->Descriptor())) return channel->Abandon();
  auto guest = std::make_unique<Guest>(std::move(channel), listener, needs_token_);
  guest->deadline = Clock::now() + bounds_.patience;
  const std::span<const std::byte> greeting = guest->exchange.greeting();
  Result<size_t> sent = guest->channel->TrySend({&greeting, 1});
  if (!sent.ok() || *sent != greeting.size())  // a new connection has room for it
    return;
  while (waiting_.weight() >= most_waiting_) ShedWaiting();
  const uint64_t number = next_number_++;
  waiting_.Add(number, guest->source, guest->Weight());
  Watch(epoll_, EPOLL_CTL_ADD, guest->channel->PollDescriptor(), EPOLLIN, number);
  guests_.emplace(number, std::move(guest));
}

bool HandshakeServer::ShedWaiting() {
  if (waiting_.empty()) return false;
  Drop(waiting_.PickOfFullest());
  return true;
}

// Without a word and without draining: the kernel resets what has sent something.
void HandshakeServer::Drop(uint64_t number) {
  auto found = guests_.find(number);
  waiting_.Remove(number);
  epoll_ctl(epoll_, EPOLL_CTL_DEL, found->second->channel->PollDescriptor(), nullptr);
  found->second->channel->Abandon();
  guests_.erase(found);
}

void HandshakeServer::DropLate() {
  const Clock::time_point now = Clock::now();
  while (!guests_.empty() && guests_.begin()->second->deadline <= now) Drop(guests_.begin()->first);
}

void HandshakeServer::Stop() {
  {
    std::lock_guard lock(mutex_);
    if (stopping_.exchange(true)) return;
  }
  came_.notify_all();
  if (wake_ >= 0) eventfd_write(wake_, 1);
  loop_.Join();
  for (WorkerThread& judge : judges_) judge.Join();
  for (auto& listener : listeners_) listener->Close();
  guests_.clear();
  ready_.clear();
  close(wake_);
  close(epoll_);
}

}  // namespace farcall
