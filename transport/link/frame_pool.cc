// SPDX-License-Identifier: Apache-2.0
#include "transport/link/frame_pool.h"

namespace farcall {
namespace {

// Of records; the last is the largest frame there is. Small classes keep a tail of small replies
// small; one is a client's batch exactly, as most frames are.
constexpr std::array<size_t, 6> kFrameClasses = {
    256, 4u << 10, kBatchRoomBytes, 96u << 10, 256u << 10, kMaxFrameBytes - sizeof(FrameHeader)};
constexpr std::array<size_t, 5> kCopyClasses = {64u << 10, 128u << 10, 256u << 10, 512u << 10,
                                                kMaxChunkBytes};

template <size_t kCount>
size_t ClassOf(const std::array<size_t, kCount>& classes, size_t bytes) {
  size_t at = 0;
  while (at + 1 < kCount && classes[at] < bytes) ++at;
  return at;
}

}  // namespace

size_t FramePool::Capacity(size_t record_bytes) {
  return kFrameClasses[ClassOf(kFrameClasses, record_bytes)];
}

std::unique_ptr<FrameBuffer> FramePool::TakeOfClass(size_t record_bytes) {
  auto& list = free_[ClassOf(kFrameClasses, record_bytes)];
  if (list.empty()) return nullptr;
  std::unique_ptr<FrameBuffer> frame = std::move(list.back());
  list.pop_back();
  return frame;
}

void FramePool::GiveToClass(std::unique_ptr<FrameBuffer>&& frame) {
  size_t record_bytes = FrameAccess::CapacityBytes(*frame) - sizeof(FrameHeader);
  size_t at = ClassOf(kFrameClasses, record_bytes);
  if (kFrameClasses[at] != record_bytes || (free_[at].size() + 1) * record_bytes > kKeepBytes)
    return;
  free_[at].push_back(std::move(frame));
}

CopyBlock CopyPool::Take(size_t bytes) {
  size_t at = ClassOf(kCopyClasses, bytes);
  if (free_[at].empty()) return {nullptr, kCopyClasses[at]};
  CopyBlock block = std::move(free_[at].back());
  free_[at].pop_back();
  return block;
}

void CopyPool::Give(CopyBlock block) {
  if (block.bytes == nullptr) return;
  auto& list = free_[ClassOf(kCopyClasses, block.capacity_bytes)];
  if ((list.size() + 1) * block.capacity_bytes <= kKeepBytes) list.push_back(std::move(block));
}

}  // namespace farcall
