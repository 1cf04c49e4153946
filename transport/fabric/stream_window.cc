// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/stream_window.h"

#include <sys/mman.h>

#include <algorithm>
#include <string>

namespace farcall {
namespace {

// Frames and chunks are longer than this; beginnings and ends of a ring may cut some short.
constexpr size_t kLeastPieceBytes = 16;

}  // namespace

Status StreamWindow::Claim(uint64_t begin, uint64_t bytes) {
  const uint64_t limit = consumed_ + window_bytes_;
  if (bytes == 0 || begin < arrived_ || begin > limit || bytes > limit - begin) {
    return {Code::kMalformed, "the peer sends bytes " + std::to_string(begin) + " to " +
                                  std::to_string(begin + bytes) + " of the stream, expected are " +
                                  std::to_string(arrived_) + " to " + std::to_string(limit)};
  }
  if (OffsetOf(begin) + bytes > window_bytes_)
    return {Code::kMalformed, "the peer sends a message across the end of the ring"};
  auto next = pieces_.end();
  while (next != pieces_.begin() && std::prev(next)->begin >= begin) --next;
  if ((next != pieces_.end() && next->begin < begin + bytes) ||
      (next != pieces_.begin() && std::prev(next)->end > begin)) {
    return {Code::kMalformed,
            "the peer sends byte " + std::to_string(begin) + " of the stream twice"};
  }
  if (pieces_.size() >= window_bytes_ / kLeastPieceBytes) {
    return {Code::kMalformed, "the peer sends more pieces than " +
                                  std::to_string(window_bytes_ / kLeastPieceBytes) + " at once"};
  }
  pieces_.insert(next, {begin, begin + bytes, false});
  return {};
}

void StreamWindow::Land(uint64_t begin) {
  const auto found =
      std::lower_bound(pieces_.begin(), pieces_.end(), begin,
                       [](const Piece& piece, uint64_t at) { return piece.begin < at; });
  if (found != pieces_.end() && found->begin == begin) found->has_landed = true;
  while (!pieces_.empty() && pieces_.front().has_landed && pieces_.front().begin == arrived_) {
    arrived_ = pieces_.front().end;
    pieces_.pop_front();
  }
}

FabricRing::~FabricRing() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

Status FabricRing::Map(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return {Code::kUnavailable, "no memory for " + std::to_string(bytes) + " bytes of ring"};
  madvise(memory, bytes, MADV_DONTFORK);
  memory_ = static_cast<std::byte*>(memory);
  bytes_ = bytes;
  return {};
}

}  // namespace farcall
