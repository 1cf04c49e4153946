// SPDX-License-Identifier: Apache-2.0
// The messages between the supervisor and a pool's agent (pool_member.h,
// server/pool_agent/agent.h).
#pragma once

#include "server/control/field.h"
#include "server/control/message.h"

namespace farcall::server::control {

// ---- agent -> supervisor

// Asks for a report.
struct PoolBeat {
  static constexpr Type kType = Type::kPoolBeat;
  static constexpr Direction kDirection = Direction::kFromPoolAgent;
  static constexpr Carries kCarries = Carries::kNothing;
  uint64_t beat = 0;
  static auto Fields(auto& self) { return std::tie(self.beat); }
};

// The memory file holds pool.proto's HostAnswer as JSON.
struct PoolAnswer {
  static constexpr Type kType = Type::kPoolAnswer;
  static constexpr Direction kDirection = Direction::kFromPoolAgent;
  static constexpr Carries kCarries = Carries::kMemoryFile;
  uint64_t beat = 0;  // of the report that the pool answers
  static auto Fields(auto& self) { return std::tie(self.beat); }
};

// ---- supervisor -> agent

// The memory file holds pool.proto's HostReport as JSON.
struct PoolReport {
  static constexpr Type kType = Type::kPoolReport;
  static constexpr Direction kDirection = Direction::kToPoolAgent;
  static constexpr Carries kCarries = Carries::kMemoryFile;
  uint64_t beat = 0;
  static auto Fields(auto& self) { return std::tie(self.beat); }
};

// Something changed: the agent reports at once.
struct PoolChanged {
  static constexpr Type kType = Type::kPoolChanged;
  static constexpr Direction kDirection = Direction::kToPoolAgent;
  static constexpr Carries kCarries = Carries::kNothing;
  static auto Fields(auto&) { return std::tie(); }
};

}  // namespace farcall::server::control
