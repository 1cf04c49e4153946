// SPDX-License-Identifier: Apache-2.0
#include "quota/memory/memory_overhead.h"

#include <algorithm>

namespace farcall::quota {

void MemoryOverhead::Note(uint64_t used_bytes, uint64_t own_bytes) {
  uint64_t own = std::max(own_before_, own_bytes);
  last_[readings_++ % last_.size()] = used_bytes > own ? used_bytes - own : 0;
}

uint64_t MemoryOverhead::bytes() const {
  auto sorted = last_;
  size_t count = std::min(readings_, last_.size());
  std::sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(count));
  return count == 0 ? 0 : sorted[(count - 1) / 2];
}

}  // namespace farcall::quota
