// SPDX-License-Identifier: Apache-2.0
// What a probe of the device (worker_probe.h) answers.
#pragma once

#include "server/control/field.h"
#include "server/control/message.h"

namespace farcall::server::control {

// The memory file: the report.
struct ProbeReport {
  static constexpr Type kType = Type::kProbeReport;
  static constexpr Direction kDirection = Direction::kFromProbe;
  static constexpr Carries kCarries = Carries::kMemoryFile;
  Reason why{};  // there is no file
  static auto Fields(auto& self) { return std::tie(self.why); }
};

}  // namespace farcall::server::control
