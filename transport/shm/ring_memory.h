// SPDX-License-Identifier: Apache-2.0
// The memory of a connection's two rings. The server makes and seals it, so that neither side can
// take pages away from under the other; the client checks that before it maps anything.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "proto/status.h"
#include "transport/shm/ring.h"

namespace farcall {

inline constexpr size_t kMinRingBytes = 64u << 10, kMaxRingBytes = 64u << 20;  // powers of two

// One side's memory, mapped.
class RingMapping {
 public:
  RingMapping() = default;
  RingMapping(RingMapping&& other) noexcept { *this = std::move(other); }
  RingMapping& operator=(RingMapping&& other) noexcept {
    std::swap(words_, other.words_);
    std::swap(ring_bytes_, other.ring_bytes_);
    return *this;
  }
  ~RingMapping();

  RingWords* words() const { return words_; }
  std::byte* ring() const { return reinterpret_cast<std::byte*>(words_) + kRingOffset; }
  size_t ring_bytes() const { return ring_bytes_; }
  // In a forked child, which has no such mapping.
  void Forget() { words_ = nullptr; }

  // Maps the whole file; a child forked later does not have it.   Errors  kUnavailable
  static Result<RingMapping> Map(int fd, size_t ring_bytes, bool writable);

 private:
  RingWords* words_ = nullptr;
  size_t ring_bytes_ = 0;
};

struct Rings {
  RingMapping own, peer;  // written by this side, and by the other
};

struct OfferedRings {
  Rings rings;
  std::array<int, 2> descriptors{-1, -1};  // the client's memory, the server's; to be closed
};
// Server: memory for both directions. The client's is not writable here. The server's can be mapped
// for writing by nobody else, where the kernel has such a seal (5.1).   Errors  kUnavailable
Result<OfferedRings> MakeRings(size_t ring_bytes);

// Client: maps what came, in the same order; closes nothing.
//   Errors  kMalformed: a file that could shrink, of a wrong size or version; kUnavailable
Result<Rings> MapRings(const std::array<int, 2>& descriptors);

}  // namespace farcall
