// SPDX-License-Identifier: Apache-2.0
// A transport is a byte stream with deadlines: it knows no CUDA, no frames, no sessions.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/status.h"

namespace farcall {

using Clock = std::chrono::steady_clock;

class Channel {
 public:
  virtual ~Channel() = default;

  // Sends some bytes without blocking; returns how many (0 = would block).
  //   Errors  kDisconnected (peer closed, Close() called)
  //   Thread  one sender at a time
  virtual Result<size_t> TrySend(std::span<const std::span<const std::byte>> parts) = 0;
  // Receives what is there without blocking; 0 = nothing yet.
  //   Errors  kDisconnected (also on orderly end of stream)
  //   Thread  one receiver at a time, beside a sender
  virtual Result<size_t> TryReceive(std::span<std::byte> into) = 0;
  // Blocks until readable (or writable), `wake_fd` is readable, the deadline, or Close(); true =
  // ready. Any thread.
  virtual bool WaitReadable(Clock::time_point deadline, int wake_fd = -1) = 0;
  virtual bool WaitWritable(Clock::time_point deadline) = 0;
  // Ends the stream for both sides; idempotent, any thread, wakes waiters.
  virtual void Close() = 0;
  // In a forked child: releases the descriptor without any traffic or shutdown(2).
  virtual void Abandon() = 0;
  // The descriptor to hand to another process, -1 if the transport has none (inproc).
  virtual int Descriptor() const = 0;
  // For epoll: readable while TryReceive has something to say. By itself it can do nothing else.
  virtual int PollDescriptor() const { return Descriptor(); }
  virtual std::string PeerName() const = 0;
  // Who the peer has proven to be, by a certificate; empty: nobody in particular.
  virtual std::string PeerIdentity() const { return {}; }

  // Whether it took bytes in TrySend that the socket has not taken: a channel that seals records
  // may. Whoever has no more to send then calls Flush, until it is true.
  //   Errors, Thread  as TrySend
  virtual bool IsHolding() const { return false; }
  virtual Result<bool> Flush() { return true; }
  // What a process needs to go on with the descriptor, beside it; this one stops. Empty: nothing.
  //   Errors  kMalformed: the peer has sent more than was received
  //   Thread  the sender and the receiver
  virtual Result<std::vector<std::byte>> HandOver() { return std::vector<std::byte>(); }
  // From now on more may be taken from the socket than is asked for: it is not handed over again.
  virtual void ReadAhead() {}
  // The user of the peer's process, as the kernel says of a UNIX socket.
  virtual std::optional<uint32_t> PeerUser() const { return std::nullopt; }
  // How long the network takes there and back, by the kernel's own measure; none where there is no
  // network.
  virtual std::optional<std::chrono::microseconds> RoundTrip() const { return std::nullopt; }
  // Whether TryReceive needs no system call: to look often costs nothing but time.
  virtual bool LooksAreCheap() const { return false; }
  // Whether bytes come as they were sent or not at all: a checksum would tell nothing.
  virtual bool ChecksBytes() const { return false; }

  // Whether descriptors reach the peer's process: from the side that accepted to the one that
  // dialled.
  virtual bool CarriesDescriptors() const { return false; }
  // Sends a descriptor, which the peer has before any byte that is sent later.
  //   Errors  kUnavailable (the peer takes none now), kUnsupported.   Thread  any
  virtual Status SendDescriptor(int /*descriptor*/) {
    return {Code::kUnsupported, PeerName() + ": this transport carries no descriptors"};
  }
  // The one that came first and was not taken yet, the caller's to close; -1: none.
  //   Thread  the receiver
  virtual int TakeDescriptor() { return -1; }
};

class Listener {
 public:
  virtual ~Listener() = default;
  virtual Result<std::unique_ptr<Channel>> Accept(
      Clock::time_point deadline) = 0;  // kTimeout, kDisconnected, kUnavailable (no descriptors)
  // For epoll: readable while Accept has something to say.
  virtual int PollDescriptor() const = 0;
  virtual void Close() = 0;
  virtual std::string Url() const = 0;  // with the port really bound
};

// URL = tcp://host:port (port 0 to listen on any; [::1] for IPv6), inproc://name, shm:///path of a
// UNIX socket. Others are kUnsupported with the list of what is built in.
Result<std::unique_ptr<Channel>> Dial(std::string_view url, Clock::time_point deadline);
Result<std::unique_ptr<Listener>> Listen(std::string_view url);
// Adds a transport that this library does not hold (tls://), which Dial and Listen then know. Null:
// it cannot do that.
//   Before   others dial or listen   Thread  any
struct Url;
using Dialer = Result<std::unique_ptr<Channel>> (*)(const Url& url, Clock::time_point deadline);
using Opener = Result<std::unique_ptr<Listener>> (*)(const Url& url);
void AddTransport(std::string_view scheme, Dialer dial, Opener listen);
// Wraps a connected socket received from another process.
std::unique_ptr<Channel> AdoptSocket(int fd);
// Sends all / receives exactly, blocking until the deadline.
Status SendAll(Channel& channel, std::span<const std::byte> bytes, Clock::time_point deadline);
Status ReceiveAll(Channel& channel, std::span<std::byte> into, Clock::time_point deadline);

}  // namespace farcall
