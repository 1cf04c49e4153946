// SPDX-License-Identifier: Apache-2.0
// Buffers of frames and of copied chunks, kept for reuse by size class. The caller locks.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "transport/link.h"

namespace farcall {

// The link's way into a FrameBuffer.
class FrameAccess {
 public:
  static std::span<const std::byte> Frame(const FrameBuffer& frame) {
    return {frame.bytes_.get(), frame.used_};
  }
  static std::byte* Header(FrameBuffer& frame) { return frame.bytes_.get(); }
  static size_t CapacityBytes(const FrameBuffer& frame) { return frame.capacity_; }
  static void Reset(FrameBuffer& frame) {
    frame.used_ = sizeof(FrameHeader);
    frame.records_ = 0;
  }
};

class FramePool {
 public:
  // Null if the pool has none of that class; Capacity() is what to allocate then.
  std::unique_ptr<FrameBuffer> Take(size_t record_bytes) {
    const bool is_at_hand = record_bytes == kBatchRoomBytes && at_hand_ != nullptr;
    return is_at_hand ? std::move(at_hand_) : TakeOfClass(record_bytes);
  }
  void Give(std::unique_ptr<FrameBuffer>&& frame) {
    FrameAccess::Reset(*frame);
    if (FrameAccess::CapacityBytes(*frame) == kBatchRoomBytes + sizeof(FrameHeader) &&
        at_hand_ == nullptr) [[likely]]
      at_hand_ = std::move(frame);
    else
      GiveToClass(std::move(frame));
  }
  static size_t Capacity(size_t record_bytes);

 private:
  std::unique_ptr<FrameBuffer> TakeOfClass(size_t record_bytes);
  void GiveToClass(std::unique_ptr<FrameBuffer>&& frame);

  static constexpr size_t kKeepBytes = 4u << 20;  // per class
  std::array<std::vector<std::unique_ptr<FrameBuffer>>, 6> free_;
  std::unique_ptr<FrameBuffer> at_hand_;  // of a batch's size: all that a caller in turn needs
};

// Memory for copies of chunks, not cleared.
struct CopyBlock {
  std::unique_ptr<std::byte[]> bytes;
  size_t capacity_bytes = 0;
};

class CopyPool {
 public:
  CopyBlock Take(size_t bytes);  // bytes null: allocate capacity_bytes
  void Give(CopyBlock block);

 private:
  static constexpr size_t kKeepBytes = 8u << 20;  // per class
  std::array<std::vector<CopyBlock>, 5> free_;
};

}  // namespace farcall
