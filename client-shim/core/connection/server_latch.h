// SPDX-License-Identifier: Apache-2.0
// What a stream of one server waits for until another server has got somewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

namespace farcall::client {

//   Thread  any
class ServerLatch {
 public:
  // Of something that `server` (routing.h's index) will say. One that is lost sets its latches:
  // what waits goes on, and what it would use of that server fails by itself.
  static std::shared_ptr<ServerLatch> New(uint8_t server);
  void Set();
  // Calls `then` once it is set: now, or on the thread that sets it.
  void WhenSet(std::function<void()> then);

 private:
  std::mutex mutex_;
  bool is_set_ = false;
  std::function<void()> then_;
};

// The session with `server` is over.
void SetLatchesOf(uint8_t server);

}  // namespace farcall::client
