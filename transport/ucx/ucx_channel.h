// SPDX-License-Identifier: Apache-2.0
// A connection whose bytes travel by UCX. It begins on a socket that has carried the handshake;
// both ends tell each other there where their UCX worker is. From then on bytes are active
// messages, long ones by rendezvous, between two rings of each end. The socket stays: its end is
// the connection's, and it tells how many bytes there were.
#pragma once

#include <memory>

#include "transport/channel.h"
#include "transport/ucx/ucx_api.h"

namespace farcall {

// Bytes of each ring: of a log, and of a lane.
inline constexpr size_t kUcxLogWindowBytes = 256u << 10, kUcxLaneWindowBytes = 1u << 20;

// This side's end of a connection: a UCX worker of its own. Made before the peer is promised one,
// so that what is missing here is known in time.
class UcxEnd;
struct UcxEndDeleter {
  void operator()(UcxEnd* end) const;
};
using UcxEndPointer = std::unique_ptr<UcxEnd, UcxEndDeleter>;

// `context` outlives it.   Errors  kUnavailable   Thread  any
Result<UcxEndPointer> MakeUcxEnd(UcxContext& context, size_t window_bytes);

class UcxConnection : public Channel {
 public:
  // Waits until both sides have heard each other by UCX: what fails at the beginning fails here.
  //   Errors  kMalformed, kUnsupported, kUnavailable, kDisconnected, kTimeout
  virtual Status AwaitPeer(Clock::time_point deadline) = 0;
};

// Goes on by UCX. Nothing but the handshake has crossed `socket`, all of which was read. The peer
// is told at once where this end is; what it says itself is read when it comes.
//   Thread  any
std::unique_ptr<UcxConnection> MakeUcxChannel(std::unique_ptr<Channel> socket, UcxEndPointer end);

}  // namespace farcall
