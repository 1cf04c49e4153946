// SPDX-License-Identifier: Apache-2.0
// The answer of a device probe (worker_probe.h).
#pragma once

#include "server/control/field.h"
#include "server/control/message.h"

namespace farcall::server::control {

// The memory file holds the report.
struct ProbeReport {
  static constexpr Type kType = Type::kProbeReport;
  static constexpr Direction kDirection = Direction::kFromProbe;
  static constexpr Carries kCarries = Carries::kMemoryFile;
  Reason why{};  // why there is no file
  static auto Fields(auto& self) { return std::tie(self.why); }
};

}  // namespace farcall::server::control
