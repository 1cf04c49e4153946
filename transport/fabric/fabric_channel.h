// SPDX-License-Identifier: Apache-2.0
// A connection whose bytes travel by a fabric: UCX, or RDMA verbs. It begins on a socket that has
// carried the handshake; both ends tell each other there where they are. From then on bytes travel
// between two rings of each end. The socket stays: its end is the connection's, and it tells how
// many bytes there were.
#pragma once

#include <memory>

#include "transport/channel.h"
#include "transport/fabric/fabric_end.h"

namespace farcall {

// This side's end of a connection. Made before the peer is promised one, so that what is missing
// here is known in time.
using FabricEndPointer = std::unique_ptr<FabricEnd>;

// What closes the socket in good order: how many bytes of the stream there were.
struct FabricTrailer {
  uint64_t total_bytes = 0;
};
// That a side has connected, where the fabric needs it said.
inline constexpr uint32_t kFabricReady = 0x52434346;  // "FCCR"

class FabricConnection : public Channel {
 public:
  // Waits until both sides have heard each other by the fabric: what fails at the beginning fails
  // here.
  //   Errors  kMalformed, kUnsupported, kUnavailable, kDisconnected, kTimeout
  virtual Status AwaitPeer(Clock::time_point deadline) = 0;
};

// Goes on by the fabric. Nothing but the handshake has crossed `socket`, all of which was read. The
// peer is told at once where this end is; what it says itself is read when it comes.
//   Thread  any
std::unique_ptr<FabricConnection> MakeFabricChannel(std::unique_ptr<Channel> socket,
                                                    FabricEndPointer end);

}  // namespace farcall
