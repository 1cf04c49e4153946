// SPDX-License-Identifier: Apache-2.0
// Memory for the nodes of a map or a set whose elements come and go: a node that goes is kept for
// the next that comes, so that a container of a steady size asks the heap for nothing.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace farcall::client {

// Each container keeps nodes of its own, as many as it ever had at once.
//   Thread  whoever may change the container
template <typename T>
class NodeAllocator {
 public:
  using value_type = T;
  using is_always_equal = std::true_type;  // any may give back what another has given out

  NodeAllocator() = default;
  NodeAllocator(const NodeAllocator&) {}  // nodes kept stay where they are
  template <typename Other>
  explicit NodeAllocator(const NodeAllocator<Other>&) {}
  NodeAllocator& operator=(const NodeAllocator&) = delete;
  ~NodeAllocator() {
    while (kept_ != nullptr) ::operator delete(std::exchange(kept_, kept_->next));
  }

  T* allocate(size_t count) {
    if (count == 1 && kept_ != nullptr) [[likely]]
      return reinterpret_cast<T*>(std::exchange(kept_, kept_->next));
    return static_cast<T*>(::operator new(count * sizeof(T)));
  }
  void deallocate(T* node, size_t count) {
    if (count != 1) return ::operator delete(node);
    kept_ = new (node) Kept{kept_};
  }
  bool operator==(const NodeAllocator&) const { return true; }

 private:
  struct Kept {
    Kept* next;
  };
  static_assert(sizeof(T) >= sizeof(Kept) && alignof(T) <= alignof(std::max_align_t));
  Kept* kept_ = nullptr;
};

}  // namespace farcall::client
