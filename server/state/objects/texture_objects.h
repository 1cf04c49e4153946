// SPDX-License-Identifier: Apache-2.0
// The texture and surface objects a session may name: the driver's values, as kernels take them.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

namespace farcall::server {

enum class ObjectKind : uint8_t { kTexture, kSurface };

//   Thread  any
class TextureObjects {
 public:
  void Add(ObjectKind kind, uint64_t object, uint16_t context) {
    std::lock_guard lock(mutex_);
    objects_[{kind, object}] = context;
  }
  // False: it is none of the session's.
  bool Remove(ObjectKind kind, uint64_t object) {
    std::lock_guard lock(mutex_);
    return objects_.erase({kind, object}) != 0;
  }
  // The context is gone, and its objects with it.
  void ForgetContext(uint16_t context) {
    std::lock_guard lock(mutex_);
    std::erase_if(objects_, [context](const auto& one) { return one.second == context; });
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<ObjectKind, uint64_t>, uint16_t> objects_;
};

}  // namespace farcall::server
