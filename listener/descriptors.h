// SPDX-License-Identifier: Apache-2.0
// Descriptors for handshakes, whatever sessions and silent peers hold.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

namespace farcall {

// Raises the soft limit of open files to the hard one (at most 2^20) and returns what it is now.
size_t RaiseDescriptorLimit();

// Descriptors that are held open for nothing, to be closed when others are needed.   Thread  any
class DescriptorReserve {
 public:
  explicit DescriptorReserve(size_t count);
  ~DescriptorReserve();
  DescriptorReserve(const DescriptorReserve&) = delete;
  DescriptorReserve& operator=(const DescriptorReserve&) = delete;

  // Closes up to `count` of them as long as more than `keep` remain; how many.
  size_t Lend(size_t count, size_t keep);
  // Opens those again that are missing, as far as there are any.
  void Refill();

 private:
  const size_t count_;
  std::mutex mutex_;
  int first_ = -1;  // what the others are copies of
  std::vector<int> held_;
};

}  // namespace farcall
