// SPDX-License-Identifier: Apache-2.0
// One end of a stream that a fabric's library or card moves, between a ring of each side for each
// direction. It knows no socket and does not wait; fabric_channel.cc does.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "proto/status.h"

namespace farcall {

//   Thread  one at a time, but for what Memory and Readable gave
class FabricEnd {
 public:
  // Lets what was posted go out for a moment. Memory that may still be touched is left behind.
  virtual ~FabricEnd() = default;

  // "ucx", for messages.
  virtual const char* name() const = 0;
  // What the peer has to know, and how long its own packet is: of so many bytes the beginning says.
  virtual std::vector<std::byte> Hello() const = 0;
  virtual size_t hello_header_bytes() const = 0;
  //   Errors  kMalformed, kUnsupported (another version)
  virtual Result<size_t> HelloBytes(std::span<const std::byte> header) const = 0;
  // Takes a whole packet of the peer's.
  //   Errors  kUnavailable, kUnsupported, kMalformed
  virtual Status Connect(std::span<const std::byte> hello) = 0;
  virtual bool is_connected() const = 0;
  // Whether a side may send only when the peer has said, on the socket, that it has connected.
  virtual bool NeedsReadyPeer() const { return false; }
  virtual void OnPeerReady() {}
  // A message of the peer's has come by the fabric, so both reach each other.
  virtual bool has_heard() const = 0;

  // Takes what has come, sends what is due.
  virtual void Progress() = 0;
  // Readable when there may be something to take, once Arm was true. False: something has come.
  virtual int descriptor() const = 0;
  virtual bool Arm() = 0;
  // How long whoever waits may sleep without looking.
  virtual std::chrono::milliseconds longest_sleep() const = 0;
  virtual bool LooksAreCheap() const { return false; }
  // Not ok: the stream has ended, or (kMalformed) the peer broke the protocol.
  virtual const Status& failure() const = 0;

  // How many bytes may be put there and posted now; 0 until there is room.
  virtual size_t Room() const = 0;
  virtual std::byte* Memory() const = 0;
  virtual void Post(size_t bytes) = 0;
  virtual uint64_t sent() const = 0;
  // Whether the peer may still need this side for what was posted.
  virtual bool HasUnread() const = 0;
  // Whether the peer reads out of this side's memory by itself, some of it after this side closed.
  virtual bool IsReadByPeer() const { return false; }
  // Nothing is under way that takes more calls of Progress.
  virtual bool IsIdle() const = 0;

  // The next bytes of the stream that are here, until Consume.
  virtual std::span<const std::byte> Readable() const = 0;
  virtual bool HasReadable() const = 0;
  virtual void Consume(size_t bytes) = 0;
  virtual uint64_t arrived() const = 0;
  // Tells the peer all that was read, which it is otherwise told now and then.
  virtual void TellAllRead() = 0;

  // Progress, and where nothing came a millisecond's sleep: for loops that end by a limit.
  virtual void Turn() = 0;
  // Until all that was posted has left this process, or the time is over.
  virtual void Drain(std::chrono::steady_clock::time_point deadline) = 0;
  // In a forked child: the fabric must not be touched any more.
  virtual void Forget() = 0;
};

}  // namespace farcall
