// SPDX-License-Identifier: Apache-2.0
// The loop: accepting, greeting, reading. What follows a whole HELLO: judge.cc.
#include "server/door/handshake_server.h"

#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>

#include "server/door/source.h"
#include "server/supervisor/version.h"

namespace farcall::server {

namespace {

constexpr size_t kUnitBytes = 4096;   // in which the tables are bounded
constexpr size_t kGuestBytes = 1024;  // what one holds beside its HELLO, at most
constexpr size_t kMoreBytes = 512;    // by which the room for a HELLO grows
constexpr int kAcceptsAtOnce = 32;    // then those who wait are heard
constexpr size_t kReserve = 32;       // descriptors kept for handshakes
constexpr size_t kReserveForJudges = 16;  // of them, not for accepting
constexpr std::chrono::milliseconds kPause(50);
// What epoll knows: guests by their number, listeners by their index above kListeners.
constexpr uint64_t kListeners = uint64_t{1} << 62;
constexpr uint64_t kWake = ~uint64_t{0};

uint64_t RandomSeed() {
  std::array<uint8_t, 8> bytes{};
  RandomBytes(bytes);
  uint64_t seed = 0;
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<uint8_t*>(&seed));
  return seed;
}

void Watch(int epoll, int operation, int fd, uint32_t events, uint64_t name) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = name;
  epoll_ctl(epoll, operation, fd, &event);
}

}  // namespace

HandshakeServer::Guest::Guest(std::unique_ptr<Channel> from, bool needs_token)
    : channel(std::move(from)),
      exchange(needs_token, kServerVersion),
      source(SourceOfSocket(channel->Descriptor())) {}

size_t HandshakeServer::Guest::Weight() const {
  return (kGuestBytes + packet.capacity() + kUnitBytes - 1) / kUnitBytes;
}

HandshakeServer::HandshakeServer(bool needs_token, Admit admit)
    : HandshakeServer(needs_token, std::move(admit), Bounds()) {}

HandshakeServer::HandshakeServer(bool needs_token, Admit admit, const Bounds& bounds)
    : needs_token_(needs_token),
      admit_(std::move(admit)),
      bounds_(bounds),
      most_waiting_(std::min(bounds.waiting, RaiseDescriptorLimit() / 2)),
      most_ready_(std::min(bounds.ready, RaiseDescriptorLimit() / 8)),
      reserve_(kReserve),
      judges_(bounds.judges),
      waiting_(RandomSeed()),
      turns_(RandomSeed()) {}

Status HandshakeServer::Start() {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (epoll_ < 0 || wake_ < 0) {
    return {Code::kUnavailable, "no descriptors for handshakes"};
  }
  Watch(epoll_, EPOLL_CTL_ADD, wake_, EPOLLIN, kWake);
  for (size_t i = 0; i < listeners_.size(); ++i) {
    Watch(epoll_, EPOLL_CTL_ADD, listeners_[i]->PollDescriptor(), EPOLLIN, kListeners + i);
  }
  bool all = loop_.Start("fc-door", &HandshakeServer::Loop, this);
  for (WorkerThread& judge : judges_) {
    all = all && judge.Start("fc-judge", &HandshakeServer::Judge, this);
  }
  return all ? Status()
             : Status(Code::kUnavailable, "no threads for handshakes: raise the limit of processes");
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
  if (resume_at_ && Clock::now() >= *resume_at_) {
    PauseListeners(false);
  }
  for (int i = 0; i < count; ++i) {
    const uint64_t name = events[static_cast<size_t>(i)].data.u64;
    if (name < kListeners) {
      Read(name);
    } else if (name != kWake) {
      AcceptSome(*listeners_[name - kListeners]);
    }
  }
  reserve_.Refill();
}

int HandshakeServer::WaitMilliseconds() const {
  Clock::time_point until = Clock::time_point::max();
  if (!guests_.empty()) {
    until = guests_.begin()->second->deadline;  // all have the same patience
  }
  if (resume_at_) {
    until = std::min(until, *resume_at_);
  }
  if (until == Clock::time_point::max()) {
    return -1;
  }
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
  return static_cast<int>(std::max<decltype(left)>(left, 0)) + 1;
}

void HandshakeServer::AcceptSome(Listener& listener) {
  for (int i = 0; i < kAcceptsAtOnce && !stopping_; ++i) {
    Result<std::unique_ptr<Channel>> channel = AcceptOne(listener);
    if (channel.ok()) {
      Greet(std::move(*channel));
      continue;
    }
    if (channel.status().code() != Code::kTimeout) {
      PauseListeners(true);  // nothing can be freed here: some will come back
    }
    return;
  }
}

// Where there are no descriptors: by one of the reserve, or by one of those who wait.
Result<std::unique_ptr<Channel>> HandshakeServer::AcceptOne(Listener& listener) {
  constexpr auto kAtOnce = Clock::time_point::min();
  Result<std::unique_ptr<Channel>> channel = listener.Accept(kAtOnce);
  if (channel.status().code() == Code::kUnavailable &&
      (reserve_.Lend(1, kReserveForJudges) != 0 || ShedWaiting())) {
    return listener.Accept(kAtOnce);
  }
  return channel;
}

void HandshakeServer::PauseListeners(bool is_paused) {
  for (size_t i = 0; i < listeners_.size(); ++i) {
    Watch(epoll_, EPOLL_CTL_MOD, listeners_[i]->PollDescriptor(), is_paused ? 0u : uint32_t{EPOLLIN},
          kListeners + i);
  }
  resume_at_.reset();
  if (is_paused) {
    resume_at_ = Clock::now() + kPause;
  }
}

void HandshakeServer::Greet(std::unique_ptr<Channel> channel) {
  auto guest = std::make_unique<Guest>(std::move(channel), needs_token_);
  guest->deadline = Clock::now() + bounds_.patience;
  const std::span<const std::byte> greeting = guest->exchange.greeting();
  Result<size_t> sent = guest->channel->TrySend({&greeting, 1});
  if (!sent.ok() || *sent != greeting.size()) {  // a new connection has room for it
    return;
  }
  while (waiting_.weight() >= most_waiting_) {
    ShedWaiting();
  }
  const uint64_t number = next_number_++;
  waiting_.Add(number, guest->source, guest->Weight());
  Watch(epoll_, EPOLL_CTL_ADD, guest->channel->PollDescriptor(), EPOLLIN, number);
  guests_.emplace(number, std::move(guest));
}

void HandshakeServer::Read(uint64_t number) {
  auto found = guests_.find(number);
  if (found == guests_.end()) {
    return;  // dropped since the event
  }
  Guest& guest = *found->second;
  if (guest.is_leaving) {
    return Discard(number, guest);
  }
  while (ReadSome(number, guest)) {
  }
}

// False: that was all for now, and the guest may be gone.
bool HandshakeServer::ReadSome(uint64_t number, Guest& guest) {
  const size_t wanted = guest.total == 0 ? sizeof(HandshakeHeader) : guest.total;
  if (guest.got == guest.packet.size()) {
    const size_t room = std::min(wanted, guest.packet.size() + kMoreBytes);
    guest.packet.reserve(room);  // no more than that
    guest.packet.resize(room);
    waiting_.SetWeight(number, guest.Weight());
    while (waiting_.weight() > most_waiting_) {
      ShedWaiting();
    }
    if (guests_.count(number) == 0) {
      return false;
    }
  }
  Result<size_t> got = guest.channel->TryReceive(std::span(guest.packet).subspan(guest.got));
  if (!got.ok()) {
    Drop(number);
    return false;
  }
  guest.got += *got;
  if (guest.got == sizeof(HandshakeHeader) && guest.total == 0 && !TakeHeader(number, guest)) {
    return false;
  }
  if (guest.got == guest.total) {
    Queue(number);
    return false;
  }
  return *got != 0;
}

// False: it is no HELLO of ours.
bool HandshakeServer::TakeHeader(uint64_t number, Guest& guest) {
  Result<size_t> total =
      HelloPacketBytes(std::span(guest.packet).first<sizeof(HandshakeHeader)>());
  if (total.ok()) {
    guest.total = *total;
    return true;
  }
  const std::vector<std::byte> refusal =
      MakeRefusal({Code::kUnsupported, total.status().message()});
  const std::span<const std::byte> bytes = refusal;
  if (total.status().code() != Code::kUnsupported || !guest.channel->TrySend({&bytes, 1}).ok()) {
    Drop(number);
    return false;
  }
  // What it is still sending would turn the end of the connection into a reset, which overtakes the
  // refusal.
  guest.is_leaving = true;
  guest.got = 0;
  return false;
}

void HandshakeServer::Discard(uint64_t number, Guest& guest) {
  std::array<std::byte, 4096> rest;
  Result<size_t> got = guest.channel->TryReceive(rest);
  guest.got += got.ok() ? *got : 0;
  if (!got.ok() || guest.got > kMaxHelloBytes) {
    Drop(number);
  }
}

bool HandshakeServer::ShedWaiting() {
  if (waiting_.empty()) {
    return false;
  }
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
  while (!guests_.empty() && guests_.begin()->second->deadline <= now) {
    Drop(guests_.begin()->first);
  }
}

void HandshakeServer::Queue(uint64_t number) {
  auto found = guests_.find(number);
  waiting_.Remove(number);
  epoll_ctl(epoll_, EPOLL_CTL_DEL, found->second->channel->PollDescriptor(), nullptr);
  std::vector<std::unique_ptr<Guest>> shed;  // closed without the lock
  {
    std::lock_guard lock(mutex_);
    while (!turns_.empty() && turns_.weight() >= most_ready_) {
      const uint64_t other = turns_.PickOfFullest();
      turns_.Remove(other);
      shed.push_back(std::move(ready_.at(other)));
      ready_.erase(other);
    }
    turns_.Add(number, found->second->source, found->second->Weight());
    ready_[number] = std::move(found->second);
  }
  came_.notify_one();
  guests_.erase(found);
  for (const std::unique_ptr<Guest>& guest : shed) {
    guest->channel->Abandon();
  }
}

void HandshakeServer::Stop() {
  {
    std::lock_guard lock(mutex_);
    if (stopping_.exchange(true)) {
      return;
    }
  }
  came_.notify_all();
  if (wake_ >= 0) {
    eventfd_write(wake_, 1);
  }
  loop_.Join();
  for (WorkerThread& judge : judges_) {
    judge.Join();
  }
  for (auto& listener : listeners_) {
    listener->Close();
  }
  guests_.clear();
  ready_.clear();
  close(wake_);
  close(epoll_);
}

}  // namespace farcall::server
