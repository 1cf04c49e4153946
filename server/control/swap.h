// SPDX-License-Identifier: Apache-2.0
// The messages about swapping a session (swap_scheduler.h, memory_swap.h).
#pragma once

#include "server/control/field.h"
#include "server/control/message.h"

namespace farcall::server::control {

// The result of SwapOut or SwapIn. kStayed: the session's work did not end in time, or the copy
// failed. kNoRoom: the device refused the memory.
enum class SwapOutcome : uint8_t { kOut, kStayed, kIn, kNoRoom };
template <>
struct EnumRange<SwapOutcome> {
  static constexpr SwapOutcome kLast = SwapOutcome::kNoRoom;
};

// ---- supervisor -> worker

// Moves the session's memory off the device.
struct SwapOut {
  static constexpr Type kType = Type::kSwapOut;
  static constexpr Direction kDirection = Direction::kToWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  uint64_t patience_ns = 0;  // how long its work may take to end
  static auto Fields(auto& self) { return std::tie(self.patience_ns); }
};

// Moves it back.
struct SwapIn {
  static constexpr Type kType = Type::kSwapIn;
  static constexpr Direction kDirection = Direction::kToWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  bool keeps_host_memory = false;  // keeps the host buffers for the next swap
  static auto Fields(auto& self) { return std::tie(self.keeps_host_memory); }
};

// ---- worker -> supervisor

struct Idle {
  static constexpr Type kType = Type::kIdle;
  static constexpr Direction kDirection = Direction::kFromWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  bool is_idle = false;  // no work on any device for a while; false: it works again
  static auto Fields(auto& self) { return std::tie(self.is_idle); }
};

// A record waits for the session's memory.
struct WantIn {
  static constexpr Type kType = Type::kWantIn;
  static constexpr Direction kDirection = Direction::kFromWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  static auto Fields(auto&) { return std::tie(); }
};

// Sent once per device before SwapDone.
struct Moved {
  static constexpr Type kType = Type::kMoved;
  static constexpr Direction kDirection = Direction::kFromWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  int32_t device = 0;
  uint64_t out_bytes = 0;  // bytes that are off the device now
  static auto Fields(auto& self) { return std::tie(self.device, self.out_bytes); }
  bool IsValid() const { return IsDevice(device); }
};

struct SwapDone {
  static constexpr Type kType = Type::kSwapDone;
  static constexpr Direction kDirection = Direction::kFromWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  SwapOutcome outcome = SwapOutcome::kStayed;
  uint64_t took_ns = 0;
  uint64_t moved_bytes = 0;
  static auto Fields(auto& self) { return std::tie(self.outcome, self.took_ns, self.moved_bytes); }
};

// The device refused an allocation that the supervisor had granted.
struct DeviceFull {
  static constexpr Type kType = Type::kDeviceFull;
  static constexpr Direction kDirection = Direction::kFromWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  int32_t device = 0;
  uint64_t bytes = 0;
  static auto Fields(auto& self) { return std::tie(self.device, self.bytes); }
  bool IsValid() const { return IsDevice(device); }
};

}  // namespace farcall::server::control
