// SPDX-License-Identifier: Apache-2.0
// What a process has of a device's memory beside what was charged ahead of its calls: contexts,
// machine code, stacks. Known by looking at the driver's own figure only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace farcall::quota {

class MemoryOverhead {
 public:
  // What of its charges lies on the device, before the driver's figure is read.
  void Before(uint64_t own_bytes) { own_before_ = own_bytes; }
  // The figure, and the same charges after it was read. They are taken before the driver's call and
  // given back after it, so the larger of both is what the figure may hold of them; a burst between
  // the two spoils one reading alone.
  void Note(uint64_t used_bytes, uint64_t own_bytes);
  // The middle one of the last three readings, of two the smaller one.
  uint64_t bytes() const;
  bool is_known() const { return readings_ != 0; }

 private:
  std::array<uint64_t, 3> last_{};
  size_t readings_ = 0;
  uint64_t own_before_ = 0;
};

}  // namespace farcall::quota
