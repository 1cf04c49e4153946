// SPDX-License-Identifier: Apache-2.0
// Supervisor and the process that asks NVML what processes hold (overhead_desk.h).
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

// ---- process -> supervisor: one message for each process on each device, then the end

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
  Reason why_unknown{};  // why some are not known; empty: all are
  static auto Fields(auto& self) { return std::tie(self.id, self.why_unknown); }
};

}  // namespace farcall::server::control
