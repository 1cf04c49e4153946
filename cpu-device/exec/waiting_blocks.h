// SPDX-License-Identifier: Apache-2.0
// The blocks one host thread has begun that wait for others, and whose turn it is.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cpu-device/exec/cluster.h"

namespace farcall::cpu_device {

// A block that has begun. One that found nothing to do in its last turns is looked at ever more
// rarely: of a thousand blocks that wait for each other in a row one gets on at a time.
struct BegunBlock {
  std::unique_ptr<Cluster> cluster;
  uint32_t pause = 0;  // turns of other blocks before its next
  uint64_t due = 0;    // turn
};

class WaitingBlocks {
 public:
  bool empty() const { return heap_.empty(); }
  size_t size() const { return heap_.size(); }

  // `moved`: whether any of its threads got on in the turn it just had.
  void Add(BegunBlock block, bool moved) {
    // Looks at those that wait take half of all turns at most.
    const auto longest =
        static_cast<uint32_t>(std::max<size_t>(kLongestPause, 2 * (heap_.size() + 1)));
    block.pause = moved ? 1 : std::min(std::max(2 * block.pause, 1u), longest);
    block.due = ++turn_ + block.pause;
    heap_.push_back(std::move(block));
    std::push_heap(heap_.begin(), heap_.end(), &Later);
  }

  // The one whose turn is first. There must be one.
  BegunBlock Take() {
    std::pop_heap(heap_.begin(), heap_.end(), &Later);
    BegunBlock block = std::move(heap_.back());
    heap_.pop_back();
    turn_ = std::max(turn_, block.due);
    return block;
  }

 private:
  static constexpr size_t kLongestPause = 64;

  static bool Later(const BegunBlock& a, const BegunBlock& b) { return a.due > b.due; }

  std::vector<BegunBlock> heap_;
  uint64_t turn_ = 0;
};

}  // namespace farcall::cpu_device
