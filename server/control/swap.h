// SPDX-License-Identifier: Apache-2.0
// Memory that leaves the device and comes back (swap_desk.h, memory_swap.h).
#pragma once

#include "server/control/field.h"
#include "server/control/message.h"

namespace farcall::server::control {

// How SwapOut and SwapIn ended. kStayed: its work did not end in time, or nothing could be copied;
// kNoRoom: the device refused.
enum class SwapOutcome : uint8_t { kOut, kStayed, kIn, kNoRoom };
template <>
struct EnumRange<SwapOutcome> {
  static constexpr SwapOutcome kLast = SwapOutcome::kNoRoom;
};

// ---- supervisor -> worker

// The session's memory leaves the device.
struct SwapOut {
  static constexpr Type kType = Type::kSwapOut;
  static constexpr Direction kDirection = Direction::kToWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  uint64_t patience_ns = 0;  // its work has so long to end
  static auto Fields(auto& self) { return std::tie(self.patience_ns); }
};

// It comes back.
struct SwapIn {
  static constexpr Type kType = Type::kSwapIn;
  static constexpr Direction kDirection = Direction::kToWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  bool keeps_host_memory = false;  // that it lay in, for the next time
  static auto Fields(auto& self) { return std::tie(self.keeps_host_memory); }
};

// ---- worker -> supervisor

struct Idle {
  static constexpr Type kType = Type::kIdle;
  static constexpr Direction kDirection = Direction::kFromWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  bool is_idle = false;  // nothing of its on any device since a while; else it works again
  static auto Fields(auto& self) { return std::tie(self.is_idle); }
};

// A record waits for its memory.
struct WantIn {
  static constexpr Type kType = Type::kWantIn;
  static constexpr Direction kDirection = Direction::kFromWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  static auto Fields(auto&) { return std::tie(); }
};

// Before SwapDone, of each device.
struct Moved {
  static constexpr Type kType = Type::kMoved;
  static constexpr Direction kDirection = Direction::kFromWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  int32_t device = 0;
  uint64_t out_bytes = 0;  // that are not on the device now
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

// The device refused them though there was to be room.
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
