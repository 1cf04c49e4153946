// SPDX-License-Identifier: Apache-2.0
// What a worker sends, taken one message at a time. A worker may have been taken over: nothing it
// sends makes the supervisor wait, or keeps a descriptor that no message carries.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "server/session/control.h"

namespace farcall::server {

// One message; `descriptor` is the caller's to close, -1: none came.
//   Errors  kTimeout (nothing there), kDisconnected,
//           kMalformed (not a message of a worker's, or with descriptors that it may not carry; it
//           stays in the queue, so that what comes with it is closed with the socket: Closer)
Status TakeFromWorker(int control, ControlMessage* message, int* descriptor);

// Whether the descriptor is of a kind that sessions share: memory without a name, a dma-buf, or one
// of NVIDIA's devices. Closing any of these does not wait.
bool IsMemoryDescriptor(int fd);

// How many messages of a worker are read: so many a second, and at most a burst at once. What is
// beyond stays in its socket, and the worker waits.
class MessageRate {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr double kPerSecond = 20'000;
  static constexpr double kBurst = 4'000;

  explicit MessageRate(TimePoint now) : at_(now) {}
  // False: not now; at PauseUntil().
  bool Take(TimePoint now) {
    Fill(now);
    if (left_ < 1) return false;
    left_ -= 1;
    return true;
  }
  // When there is enough again for it to be worth a look.
  TimePoint PauseUntil() const {
    return at_ + std::chrono::milliseconds(static_cast<int64_t>(kBurst / 20 / kPerSecond * 1000));
  }

 private:
  void Fill(TimePoint now) {
    const std::chrono::duration<double> since = now - at_;
    at_ = now;
    left_ = std::min(left_ + since.count() * kPerSecond, kBurst);
  }
  TimePoint at_;
  double left_ = kBurst;
};

}  // namespace farcall::server
