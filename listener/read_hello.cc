// SPDX-License-Identifier: Apache-2.0
// A HELLO as its bytes come.
#include <sys/epoll.h>

#include <algorithm>
#include <array>

#include "listener/handshake_server.h"
#include "listener/source.h"
#include "settings/version.h"

namespace farcall {

namespace {

constexpr size_t kUnitBytes = 4096;   // in which the tables are bounded
constexpr size_t kGuestBytes = 1024;  // what one holds beside its HELLO, at most
constexpr size_t kMoreBytes = 512;    // by which the room for a HELLO grows

}  // namespace

HandshakeServer::Guest::Guest(std::unique_ptr<Channel> from, const Listener& by, bool needs_token)
    : channel(std::move(from)),
      listener(&by),
      exchange(needs_token, kServerVersion),
      source(SourceOfSocket(channel->Descriptor())) {}

size_t HandshakeServer::Guest::Weight() const {
  return (kGuestBytes + packet.capacity() + kUnitBytes - 1) / kUnitBytes;
}

void HandshakeServer::Read(uint64_t number) {
  auto found = guests_.find(number);
  if (found == guests_.end()) return;  // dropped since the event
  Guest& guest = *found->second;
  if (guest.is_leaving) return Discard(number, guest);
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
    while (waiting_.weight() > most_waiting_) ShedWaiting();
    if (guests_.count(number) == 0) return false;
  }
  Result<size_t> got = guest.channel->TryReceive(std::span(guest.packet).subspan(guest.got));
  if (!got.ok()) {
    Drop(number);
    return false;
  }
  guest.got += *got;
  if (guest.got == sizeof(HandshakeHeader) && guest.total == 0 && !TakeHeader(number, guest))
    return false;
  if (guest.got == guest.total) {
    Queue(number);
    return false;
  }
  return *got != 0;
}

// False: it is no HELLO of ours.
bool HandshakeServer::TakeHeader(uint64_t number, Guest& guest) {
  Result<size_t> total = HelloPacketBytes(std::span(guest.packet).first<sizeof(HandshakeHeader)>());
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
  if (!got.ok() || guest.got > kMaxHelloBytes) Drop(number);
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
  for (const std::unique_ptr<Guest>& guest : shed) guest->channel->Abandon();
}

}  // namespace farcall
