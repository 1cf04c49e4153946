// SPDX-License-Identifier: Apache-2.0
// Control messages over a SOCK_SEQPACKET socketpair: one packet each, descriptors beside it.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "proto/status.h"
#include "server/control/codec.h"
#include "server/control/message.h"

namespace farcall::server {

// Where a process that the supervisor starts finds its end.
inline constexpr int kControlDescriptor = 3;

}  // namespace farcall::server

namespace farcall::server::control {

struct Packet {
  std::array<std::byte, kMaxMessageBytes> room;
  size_t size = 0;
  std::span<const std::byte> bytes() const { return std::span(room).first(size); }
};

// Sends bytes as one packet. Never blocks: a peer that does not read is an error.
//   Errors  kDisconnected, kUnavailable (its queue is full)
Status SendPacket(int fd, std::span<const std::byte> bytes, std::span<const int> descriptors);
inline Status SendPacket(int fd, std::span<const std::byte> bytes,
                         std::initializer_list<int> descriptors = {}) {
  return SendPacket(fd, bytes, std::span(descriptors.begin(), descriptors.size()));
}
// The same, but waits for room.   Errors  kDisconnected
Status SendPacketAndWait(int fd, std::span<const std::byte> bytes,
                         std::initializer_list<int> descriptors = {});
// Receives one packet and its descriptors (the caller's to close, in any case). Blocks unless the
// socket is non-blocking.
//   Errors  kDisconnected (end), kTimeout (nothing there), kMalformed (longer than any message)
Status ReceivePacket(int fd, Packet* packet, std::vector<int>* descriptors);
// The descriptors that a packet came with, which are the caller's now.
std::vector<int> ReceivedDescriptors(msghdr* header);

// Sends one message.   Errors  as SendPacket
template <Message M>
Status Send(int fd, const M& message, std::initializer_list<int> descriptors = {}) {
  return SendPacket(fd, Encoded<M>(message).bytes(), descriptors);
}
template <Message... Ms>
Status Send(int fd, const std::variant<Ms...>& message,
            std::initializer_list<int> descriptors = {}) {
  return std::visit([&](const auto& each) { return Send(fd, each, descriptors); }, message);
}

// For workers and the other processes that the supervisor starts: waits for room. The supervisor
// always reads and never waits. These messages (charges, refunds, times) must
// not be lost.
//   Errors  kDisconnected
template <Message M>
Status SendToSupervisor(int fd, const M& message, std::initializer_list<int> descriptors = {}) {
  return SendPacketAndWait(fd, Encoded<M>(message).bytes(), descriptors);
}
template <Message... Ms>
Status SendToSupervisor(int fd, const std::variant<Ms...>& message,
                        std::initializer_list<int> descriptors = {}) {
  return std::visit([&](const auto& each) { return SendToSupervisor(fd, each, descriptors); },
                    message);
}

// Receives one of the messages that the peer may send, and its descriptors (the caller's to close,
// in any case).
//   Errors  as ReceivePacket; kMalformed (none of these messages, or too many descriptors)
template <Message... Ms>
Status Receive(int fd, std::variant<Ms...>* message, std::vector<int>* descriptors) {
  Packet packet;
  FARCALL_TRY(ReceivePacket(fd, &packet, descriptors));
  FARCALL_TRY(Decode(packet.bytes(), message));
  if (descriptors->size() > MaxDescriptors(CarriesOf(*message)))
    return {Code::kMalformed, "control socket: descriptors that the message may not carry"};
  return {};
}

}  // namespace farcall::server::control
