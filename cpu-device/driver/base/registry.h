// SPDX-License-Identifier: Apache-2.0
// The live objects of one kind, found by the handle an application holds: a stale or wrong handle
// is an error, not a crash.
#pragma once

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace farcall::cpu_device {

//   Thread  all methods from any thread
template <typename T>
class Registry {
 public:
  void Add(std::shared_ptr<T> object) {
    std::unique_lock lock(mutex_);
    const void* key = object.get();
    objects_.emplace(key, std::move(object));
  }

  // Under another handle than its own address.
  void AddAs(const void* key, std::shared_ptr<T> object) {
    std::unique_lock lock(mutex_);
    objects_.emplace(key, std::move(object));
  }

  std::shared_ptr<T> Find(const void* handle) const {
    std::shared_lock lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }

  // Takes the object out; nullptr if the handle is not (or no longer) one of ours.
  std::shared_ptr<T> Take(const void* handle) {
    std::unique_lock lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    std::shared_ptr<T> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }

  template <typename Predicate>
  std::vector<std::shared_ptr<T>> TakeIf(Predicate predicate) {
    std::vector<std::shared_ptr<T>> taken;
    std::unique_lock lock(mutex_);
    for (auto it = objects_.begin(); it != objects_.end();) {
      if (predicate(*it->second)) {
        taken.push_back(std::move(it->second));
        it = objects_.erase(it);
      } else {
        ++it;
      }
    }
    return taken;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<T>> objects_;
};

}  // namespace farcall::cpu_device
