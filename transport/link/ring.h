// SPDX-License-Identifier: Apache-2.0
// A queue on one array that grows by doubling: no allocation once it has reached its working size.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace farcall {

template <typename T>
class Ring {
 public:
  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }
  T& operator[](size_t i) { return slots_[(first_ + i) & (slots_.size() - 1)]; }
  T& front() { return (*this)[0]; }

  void PushBack(T value) {
    if (count_ == slots_.size()) Grow();
    (*this)[count_] = std::move(value);
    ++count_;
  }
  T PopFront() {
    T value = std::move(front());
    front() = T();
    first_ = (first_ + 1) & (slots_.size() - 1);
    --count_;
    return value;
  }

 private:
  void Grow() {
    std::vector<T> larger(slots_.empty() ? 64 : slots_.size() * 2);
    for (size_t i = 0; i < count_; ++i) larger[i] = std::move((*this)[i]);
    slots_ = std::move(larger);
    first_ = 0;
  }

  std::vector<T> slots_;  // a power of two
  size_t first_ = 0;
  size_t count_ = 0;
};

}  // namespace farcall
