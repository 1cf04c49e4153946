// SPDX-License-Identifier: Apache-2.0
// A connection over two rings in shared memory. It begins on a UNIX socket, which carries the
// handshake; then the server's side makes the rings and passes their descriptors on with one byte,
// the offer. From there on the socket wakes who sleeps, and its end is the connection's.
#pragma once

#include <memory>
#include <span>

#include "transport/channel.h"

namespace farcall {

// Bytes of each ring: of a log, whose batches should stay in a cache, and of a lane.
inline constexpr size_t kLogRingBytes = 256u << 10, kLaneRingBytes = 1u << 20;

// Server: makes the rings and offers them. The client has sent all that it says before the answer
// to its HELLO. Takes `fd`, unless it fails.
//   Errors  kUnavailable: no memory, no descriptors, or the peer takes none
Result<std::unique_ptr<Channel>> ServeRings(int fd, size_t ring_bytes);

// Client: a connection whose server will offer rings. Takes `fd`.
std::unique_ptr<Channel> AwaitRings(int fd, std::string peer);

// What HandOver of a connection says whose next process is to call ServeRings.
std::span<const std::byte> RingState();
bool IsRingState(std::span<const std::byte> state);

}  // namespace farcall
