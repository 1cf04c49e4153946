// SPDX-License-Identifier: Apache-2.0
// The order of a stream whose pieces may arrive, or land, out of order: bytes `begin` to `end` of
// it belong at that position of a ring. Every position comes once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "proto/status.h"

namespace farcall {

//   Thread  one at a time
class StreamWindow {
 public:
  explicit StreamWindow(size_t window_bytes) : window_bytes_(window_bytes) {}

  // A piece that begins to arrive. It lies in the ring without a wrap.
  //   Errors  kMalformed: beyond the window, here already, across the ring's end, or one of more
  //           pieces than an honest peer sends
  Status Claim(uint64_t begin, uint64_t bytes);
  // All bytes of the piece that begins there are in the ring.
  void Land(uint64_t begin);
  // Read, of those that are here.
  void Consume(size_t bytes) { consumed_ += bytes; }

  // Positions: read up to, and here without a gap up to.
  uint64_t consumed() const { return consumed_; }
  uint64_t arrived() const { return arrived_; }
  size_t window_bytes() const { return window_bytes_; }
  size_t OffsetOf(uint64_t position) const { return position & (window_bytes_ - 1); }

 private:
  struct Piece {
    uint64_t begin = 0, end = 0;
    bool has_landed = false;
  };

  const size_t window_bytes_;  // a power of two
  uint64_t consumed_ = 0, arrived_ = 0;
  std::deque<Piece> pieces_;  // beyond arrived_, by position
};

// A ring that a card or UCX reads and writes: whole pages, which a forked child does not have.
class FabricRing {
 public:
  FabricRing() = default;
  ~FabricRing();
  FabricRing(const FabricRing&) = delete;
  FabricRing& operator=(const FabricRing&) = delete;

  //   Errors  kUnavailable
  Status Map(size_t bytes);
  // Somebody may still write there: the pages stay until the process ends.
  void Forget() { memory_ = nullptr; }
  std::byte* at(size_t offset) const { return memory_ + offset; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* memory_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace farcall
