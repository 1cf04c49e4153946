// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/jit/address/components.h"

#include <algorithm>

namespace farcall::cpu_device::jit {

Components::Components(const std::vector<std::vector<uint32_t>>& to)
    : to_(to), number_(to.size(), 0), low_(to.size(), 0), of_(to.size(), 0) {
  for (uint32_t node = 0; node < to.size(); ++node)
    if (number_[node] == 0) Visit(node);
}

void Components::Open(uint32_t node) {
  number_[node] = low_[node] = ++next_;
  path_.push_back({node, 0});
  stack_.push_back(node);
}

void Components::Visit(uint32_t first) {
  Open(first);
  while (!path_.empty()) {
    const uint32_t node = path_.back().first;
    if (path_.back().second < to_[node].size()) {
      const uint32_t next = to_[node][path_.back().second++];
      if (number_[next] == 0)
        Open(next);
      else if (of_[next] == 0)
        low_[node] = std::min(low_[node], number_[next]);
      continue;
    }
    path_.pop_back();
    if (!path_.empty()) {
      uint32_t& low = low_[path_.back().first];
      low = std::min(low, low_[node]);
    }
    if (low_[node] == number_[node]) Close(node);
  }
}

void Components::Close(uint32_t root) {
  ++count_;
  for (;;) {
    const uint32_t node = stack_.back();
    stack_.pop_back();
    of_[node] = count_;
    if (node == root) return;
  }
}

}  // namespace farcall::cpu_device::jit
