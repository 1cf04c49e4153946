// SPDX-License-Identifier: Apache-2.0
// Chunks that cross a lane compressed, where that is worth it: the lane is slower than the
// compressor, and the bytes are of a kind that gets smaller.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "proto/status.h"
#include "proto/wire.h"

namespace farcall {

struct ZSTD_CCtx_s;  // zstd.h
struct ZSTD_DCtx_s;

// When the chunks of a lane are compressed: what the lane has been seen to take against what the
// compressor has.
//   Thread  one at a time
class PackingPolicy {
 public:
  using Ns = std::chrono::nanoseconds;

  // `lanes` of the link, which may all be as busy as this one.
  explicit PackingPolicy(uint32_t lanes) : lanes_(lanes) {}

  // The lane took a chunk: `bytes` on the wire in the time since it took the one before, or since
  // it began this one if it had nothing to do between. `was_full`: its socket was meanwhile.
  void Sent(size_t bytes, Ns took, bool was_full);
  // A try: `bytes` became `packed_bytes`, in so much of a processor's time.
  void Tried(size_t bytes, size_t packed_bytes, Ns took);
  // Whether the next chunk should be compressed.
  bool ShouldPack() const;
  // Whether a part of it should, to learn what comes of it.
  bool ShouldTry();

 private:
  static constexpr double kMaxRatio = 0.95;  // else a chunk gets too little smaller
  // Of one processor, what all lanes together may keep busy: copies and records need theirs.
  static constexpr double kMaxProcessor = 0.45;
  static constexpr uint32_t kFirstRetry = 4, kLastRetry = 256;  // chunks between tries in vain

  static constexpr double kWindowBytes = 8 << 20;  // of the lane's speed

  bool is_slow() const { return lane_bytes_ > 0; }
  // For each byte on the wire; 0: the lane is not known to be the slower side.
  double lane_ns() const { return is_slow() ? lane_took_ns_ / lane_bytes_ : 0; }

  const uint32_t lanes_;
  double lane_bytes_ = 0, lane_took_ns_ = 0;  // what was long ago counts less
  double pack_ns_ = 0;                        // for each byte before
  double ratio_ = 1;                          // packed to unpacked
  bool was_tried_ = false;
  uint32_t chunks_until_try_ = 0, retry_ = kFirstRetry;
};

// The sender's side of one lane.
//   Thread  one at a time
class ChunkPacker {
 public:
  // `always`: without a look at the lane, for tests.
  explicit ChunkPacker(bool always, uint32_t lanes = 1) : always_(always), policy_(lanes) {}
  ~ChunkPacker();
  ChunkPacker(const ChunkPacker&) = delete;
  ChunkPacker& operator=(const ChunkPacker&) = delete;

  // What to send in the place of `bytes`, valid until the next call; empty: `bytes` as they are.
  std::span<const std::byte> Pack(std::span<const std::byte> bytes);
  void Sent(size_t bytes, PackingPolicy::Ns took, bool was_full) {
    policy_.Sent(bytes, took, was_full);
  }

 private:
  size_t TryPack(std::span<const std::byte> bytes);

  const bool always_;
  PackingPolicy policy_;
  ZSTD_CCtx_s* compressor_ = nullptr;
  std::unique_ptr<std::byte[]> packed_;  // kMaxChunkBytes
};

// The receiver's side of one lane. A sender's bytes are hostile.
//   Thread  one at a time
class ChunkUnpacker {
 public:
  ChunkUnpacker() = default;
  ~ChunkUnpacker();
  ChunkUnpacker(const ChunkUnpacker&) = delete;
  ChunkUnpacker& operator=(const ChunkUnpacker&) = delete;

  // Where `bytes` packed ones are to be received, at most kMaxChunkBytes.
  std::span<std::byte> Room(size_t bytes);
  // Fills `into` from the room.   Errors  kMalformed, kUnsupported
  Status Unpack(size_t packed_bytes, std::span<std::byte> into);

 private:
  ZSTD_DCtx_s* decompressor_ = nullptr;
  std::unique_ptr<std::byte[]> packed_;
};

// Whether this process can compress at all.   Thread  any
bool CanPackChunks();

}  // namespace farcall
