// SPDX-License-Identifier: Apache-2.0
// The client's window of host addresses: reserved once, handed out in whole pages.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

#include "proto/codec.h"
#include "proto/cuda/host_window.h"

namespace farcall {
class Link;
}

namespace farcall::client {

class HostWindow {
 public:
  // Addresses of at least `bytes`, without memory behind them yet; 0: none are free, or this
  // process lets us reserve none.
  uint64_t Take(uint64_t bytes);
  // Memory there, zeroed. False: there is none.
  static bool Back(uint64_t address, uint64_t bytes);
  // Addresses that are taken, and behind which nothing lies any more, stay taken.
  static void Hold(uint64_t address, uint64_t bytes);
  // Whatever lay there is gone.
  void Give(uint64_t address, uint64_t bytes);

  bool available();
  // Without a lock: what a launch looks through its parameters for. {0, 0} before the first Take.
  static bool Holds(uint64_t address) {
    return address - base_.load(std::memory_order_relaxed) < bytes_.load(std::memory_order_relaxed);
  }

 private:
  bool ReserveLocked();

  std::mutex mutex_;
  bool tried_ = false;
  static inline constinit std::atomic<uint64_t> base_{0}, bytes_{0};
  std::map<uint64_t, uint64_t> free_;
};

// kMirrored's body, taken in (cuda/state/mirror.cc). False: malformed, or of memory that can be
// nobody's.
//   Thread  the one that pumps
//   `server`  routing.h's index of who says so
bool NoteMirrored(Reader body, uint8_t server);

// kHostShared's body, taken in (cuda/objects/shared_host.cc). False: malformed, or not what was
// asked for.
//   Thread  the one that pumps
bool NoteHostShared(Reader body, Link& link);

// The process's; leaked.
HostWindow& HostAddresses();

}  // namespace farcall::client
