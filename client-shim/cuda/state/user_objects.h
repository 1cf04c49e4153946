// SPDX-License-Identifier: Apache-2.0
// User objects: references counted here, destructors run on the thread that runs host functions.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>

namespace farcall::client {

struct UserObject;

// References to user objects, given back when the last holder is gone.
class UserObjects {
 public:
  UserObjects() = default;
  UserObjects(const UserObjects&) = delete;
  ~UserObjects();
  bool empty() const { return held_.empty(); }
  void Take(const std::shared_ptr<UserObject>& object, unsigned count) { held_[object] += count; }
  // False: fewer are held. The references are the caller's now.
  bool Drop(const std::shared_ptr<UserObject>& object, unsigned count);
  // References of its own to what `other` holds.
  void Share(const UserObjects& other);

 private:
  std::map<std::shared_ptr<UserObject>, unsigned> held_;
};

}  // namespace farcall::client
