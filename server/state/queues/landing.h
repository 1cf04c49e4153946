// SPDX-License-Identifier: Apache-2.0
// Where chunks from the client land until the record that uses them is served.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "proto/wire.h"
#include "server/device/staging.h"
#include "sync/cond_var.h"

namespace farcall::server {

// Pieces of 1 MiB slots, then the heap. A lane is held back only while slots are in use by copies
// the device will finish by itself; otherwise a held lane could hold the very chunk that would free
// one.
class Landing {
 public:
  // `landed` runs after each chunk, on the lane's thread; `used` with the bytes released so far,
  // every kUsedStepBytes.
  Landing(const DriverApi& api, size_t max_slots, size_t max_heap_bytes,
          std::function<void()> landed, std::function<void(uint64_t)> used);
  ~Landing();

  // ---- lane threads
  std::span<std::byte> Destination(
      const ChunkHeader& header);  // empty: the peer is past every bound, or lies
  void Landed(const ChunkHeader& header);
  void Stop();  // frees blocked lanes for good

  // ---- issue thread
  enum class Cover { kWhole, kAwaited, kViolation };
  // Are transfer's bytes [offset, offset + bytes) here? `chunks_sent` is the frame's: once those
  // have landed, a gap is a lie.
  Cover Check(uint64_t transfer, uint64_t offset, uint64_t bytes, uint64_t chunks_sent);
  struct Piece {
    uint64_t offset = 0;  // from the range's start
    std::span<const std::byte> bytes;
  };
  // After kWhole: takes the range for one use; false (a lie) if its bytes were all taken before.
  // The pieces, in order, stay valid until Release of the same range. `in_flight`: the device
  // finishes with them by itself.
  bool Claim(uint64_t transfer, uint64_t offset, uint64_t bytes, bool in_flight,
             std::vector<Piece>* pieces);
  void Release(uint64_t transfer, uint64_t offset, uint64_t bytes);

  SlotPool& slots() { return slots_; }

 private:
  struct Chunk {
    std::span<std::byte> bytes;
    SlotPool::Slot slot;  // empty: `bytes` is heap memory
    bool landed = false;
    bool in_flight = false;
    uint64_t claimed_bytes = 0;   // by records; never more than there are
    uint64_t released_bytes = 0;  // all of them: freed
  };
  using Chunks = std::map<uint64_t, Chunk>;  // by offset in the transfer
  void Free(Chunk& chunk);
  template <typename Visit>
  void ForRange(uint64_t transfer, uint64_t offset, uint64_t bytes, Visit visit);

  SlotPool slots_;
  const size_t max_heap_bytes_;
  std::function<void()> landed_;
  std::function<void(uint64_t)> used_;
  std::mutex mutex_;
  CondVar freed_;
  std::unordered_map<uint64_t, Chunks> transfers_;
  std::set<uint64_t> ahead_;  // landed chunk numbers past the contiguous prefix
  uint64_t prefix_ = 0;
  size_t in_flight_slots_ = 0;
  size_t heap_bytes_ = 0;
  uint64_t used_bytes_ = 0, reported_bytes_ = 0;
  bool stopping_ = false;
};

}  // namespace farcall::server
