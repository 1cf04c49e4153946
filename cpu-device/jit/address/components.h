// SPDX-License-Identifier: Apache-2.0
// The strongly connected components of a graph, by Tarjan's algorithm without recursion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace farcall::cpu_device::jit {

class Components {
 public:
  // to[i]: the nodes that edges lead to from node i; read while this is made.
  explicit Components(const std::vector<std::vector<uint32_t>>& to);

  bool Same(uint32_t a, uint32_t b) const { return of_[a] == of_[b]; }
  uint32_t Of(uint32_t node) const { return of_[node]; }  // from 1 to count()
  uint32_t count() const { return count_; }

 private:
  void Open(uint32_t node);
  void Visit(uint32_t first);
  void Close(uint32_t root);

  const std::vector<std::vector<uint32_t>>& to_;
  std::vector<uint32_t> number_, low_, of_;  // 0: none yet
  std::vector<uint32_t> stack_;
  std::vector<std::pair<uint32_t, size_t>> path_;  // node, edges gone
  uint32_t next_ = 0, count_ = 0;
};

}  // namespace farcall::cpu_device::jit
