// SPDX-License-Identifier: Apache-2.0
// A reservation: GPUs that are kept for those who name it, from one time of day to another.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "pool/core/model/selector.h"
#include "pool/core/model/types.h"

namespace farcall::pool {

inline constexpr uint32_t kMaxReservedGpus = 10'000;
inline constexpr int64_t kMaxReservationSeconds = 366LL * 24 * 3600;  // from now to its end

struct Reservation {
  struct Held {
    std::string host;
    uint32_t device = 0;
    bool operator==(const Held&) const = default;
  };
  std::string name;
  uint32_t gpus = 1;
  int64_t begin_unix = 0, end_unix = 0;  // seconds; begin 0: at once
  std::string group = {};                // of whose hosts they are; empty: the default one
  std::string project;                   // whose claims, and those below, may name it; empty: any
  std::string model;
  Selector selector;
  std::vector<Held> held;
  uint64_t number = 0;
  uint64_t revision = 0;
  bool has_begun = false;  // not stored: what has begun stays so, whatever the clock then says
};

// What cannot be at that time, and the field; "": nothing.
std::pair<std::string, std::string> FaultOf(const Reservation& reservation, int64_t now_unix);

}  // namespace farcall::pool
