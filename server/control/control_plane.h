// SPDX-License-Identifier: Apache-2.0
// The messages between the supervisor and farcall-control (control_service.h, supervisor_client.h).
#pragma once

#include <optional>

#include "proto/priority.h"
#include "server/control/field.h"
#include "server/control/message.h"

namespace farcall::server {

// A change of a vGPU's quota. A field without a value stays as it is.
struct QuotaChange {
  std::optional<uint64_t> memory_bytes{};  // on each device
  std::optional<uint32_t> share_milli{}, limit_milli{};
  std::optional<WirePriority> priority{};
  std::optional<uint64_t> net_bytes_per_s{};  // 0: the server's ceiling

  bool ChangesCompute() const { return share_milli || limit_milli || priority; }
};

enum class ChangeOutcome : uint8_t { kDone, kNoSuchVgpu, kInvalid, kRefused };

}  // namespace farcall::server

namespace farcall::server::control {

template <>
struct EnumRange<WirePriority> {
  static constexpr WirePriority kLast = WirePriority::kLow;
};
template <>
struct EnumRange<ChangeOutcome> {
  static constexpr ChangeOutcome kLast = ChangeOutcome::kRefused;
};

// ---- supervisor -> farcall-control

// The memory file holds control.proto's ServerStatus as JSON.
struct ServerStatus {
  static constexpr Type kType = Type::kServerStatus;
  static constexpr Direction kDirection = Direction::kToControlPlane;
  static constexpr Carries kCarries = Carries::kMemoryFile;
  uint64_t id = 0;
  static auto Fields(auto& self) { return std::tie(self.id); }
};

struct QuotaReply {
  static constexpr Type kType = Type::kQuotaReply;
  static constexpr Direction kDirection = Direction::kToControlPlane;
  static constexpr Carries kCarries = Carries::kNothing;
  uint64_t id = 0;
  ChangeOutcome outcome = ChangeOutcome::kDone;
  Reason why{};  // why it was refused
  static auto Fields(auto& self) { return std::tie(self.id, self.outcome, self.why); }
};

// ---- farcall-control -> supervisor

struct AskStatus {
  using Reply = ServerStatus;
  static constexpr Type kType = Type::kAskStatus;
  static constexpr Direction kDirection = Direction::kFromControlPlane;
  static constexpr Carries kCarries = Carries::kNothing;
  uint64_t id = 0;
  static auto Fields(auto& self) { return std::tie(self.id); }
  bool IsValid() const { return id != 0; }
};

struct SetQuota {
  using Reply = QuotaReply;
  static constexpr Type kType = Type::kSetQuota;
  static constexpr Direction kDirection = Direction::kFromControlPlane;
  static constexpr Carries kCarries = Carries::kNothing;
  uint64_t id = 0;
  Name vgpu{};  // its id
  QuotaChange change{};
  static auto Fields(auto& self) {
    auto& change = self.change;
    return std::tie(self.id, self.vgpu, change.memory_bytes, change.share_milli, change.limit_milli,
                    change.priority, change.net_bytes_per_s);
  }
  bool IsValid() const { return id != 0; }
};

// Moves the vGPU's memory off the device.
struct Park {
  using Reply = QuotaReply;
  static constexpr Type kType = Type::kPark;
  static constexpr Direction kDirection = Direction::kFromControlPlane;
  static constexpr Carries kCarries = Carries::kNothing;
  uint64_t id = 0;
  Name vgpu{};  // its id
  static auto Fields(auto& self) { return std::tie(self.id, self.vgpu); }
  bool IsValid() const { return id != 0; }
};

}  // namespace farcall::server::control
