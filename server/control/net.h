// SPDX-License-Identifier: Apache-2.0
// The messages about the vGPU's network budget (net_scheduler.h, net_pacer.h).
#pragma once

#include "server/control/field.h"
#include "server/control/message.h"

namespace farcall::server::control {

// ---- supervisor -> worker

struct NetLimit {
  static constexpr Type kType = Type::kNetLimit;
  static constexpr Direction kDirection = Direction::kToWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  bool is_limited = false;  // the worker must ask for bytes
  static auto Fields(auto& self) { return std::tie(self.is_limited); }
};

struct NetBytes {
  static constexpr Type kType = Type::kNetBytes;
  static constexpr Direction kDirection = Direction::kToWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  uint64_t bytes = 0;  // granted to the session's connections
  static auto Fields(auto& self) { return std::tie(self.bytes); }
};

// ---- worker -> supervisor

// Asks for bytes: none are left.
struct WantNetBytes {
  static constexpr Type kType = Type::kWantNetBytes;
  static constexpr Direction kDirection = Direction::kFromWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  static auto Fields(auto&) { return std::tie(); }
};

// Totals since the session began.
struct NetUse {
  static constexpr Type kType = Type::kNetUse;
  static constexpr Direction kDirection = Direction::kFromWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  uint64_t received_bytes = 0, sent_bytes = 0;
  uint64_t waited_ns = 0;  // for bytes
  static auto Fields(auto& self) {
    return std::tie(self.received_bytes, self.sent_bytes, self.waited_ns);
  }
};

}  // namespace farcall::server::control
