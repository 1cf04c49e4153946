// SPDX-License-Identifier: Apache-2.0
// The messages between the supervisor and the process that queries NVML (overhead_meter.h).
#pragma once

#include "server/control/field.h"
#include "server/control/message.h"

namespace farcall::server::control {

// ---- supervisor -> process

struct AskProcessMemory {
  static constexpr Type kType = Type::kAskProcessMemory;
  static constexpr Direction kDirection = Direction::kToProcessMemory;
  static constexpr Carries kCarries = Carries::kNothing;
  uint64_t id = 0;
  static auto Fields(auto& self) { return std::tie(self.id); }
};

// ---- process -> supervisor: one ProcessMemory per process and device, then the end

struct ProcessMemory {
  static constexpr Type kType = Type::kProcessMemory;
  static constexpr Direction kDirection = Direction::kFromProcessMemory;
  static constexpr Carries kCarries = Carries::kNothing;
  int32_t device = 0;
  uint32_t pid = 0;
  uint64_t bytes = 0;
  static auto Fields(auto& self) { return std::tie(self.device, self.pid, self.bytes); }
  bool IsValid() const { return IsDevice(device); }
};

struct ProcessMemoryEnd {
  static constexpr Type kType = Type::kProcessMemoryEnd;
  static constexpr Direction kDirection = Direction::kFromProcessMemory;
  static constexpr Carries kCarries = Carries::kNothing;
  uint64_t id = 0;       // of the question
  Reason why_unknown{};  // why the list is incomplete; empty: it is complete
  static auto Fields(auto& self) { return std::tie(self.id, self.why_unknown); }
};

}  // namespace farcall::server::control
