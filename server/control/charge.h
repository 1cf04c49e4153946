// SPDX-License-Identifier: Apache-2.0
// The messages about the memory ledger (control_client.h): charges, refunds, usage and credit.
#pragma once

#include "server/control/field.h"
#include "server/control/message.h"

namespace farcall::server::control {

// ---- worker -> supervisor, and the answers

struct ChargeReply {
  static constexpr Type kType = Type::kChargeReply;
  static constexpr Direction kDirection = Direction::kToWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  uint64_t id = 0;
  bool is_granted = false;
  uint64_t charged_bytes = 0, quota_bytes = 0;  // after the charge
  Reason why{};                                 // why it was refused
  static auto Fields(auto& self) {
    return std::tie(self.id, self.is_granted, self.charged_bytes, self.quota_bytes, self.why);
  }
};

struct Charge {
  using Reply = ChargeReply;
  static constexpr Type kType = Type::kCharge;
  static constexpr Direction kDirection = Direction::kFromWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  uint64_t id = 0;
  int32_t device = 0;  // or kHostMemory
  uint64_t bytes = 0;
  static auto Fields(auto& self) { return std::tie(self.id, self.device, self.bytes); }
  bool IsValid() const { return id != 0 && (IsDevice(device) || device == kHostMemory); }
};

struct Refund {
  static constexpr Type kType = Type::kRefund;
  static constexpr Direction kDirection = Direction::kFromWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  int32_t device = 0;  // or kHostMemory
  uint64_t bytes = 0;
  static auto Fields(auto& self) { return std::tie(self.device, self.bytes); }
  bool IsValid() const { return IsDevice(device) || device == kHostMemory; }
};

struct Usage {
  static constexpr Type kType = Type::kUsage;
  static constexpr Direction kDirection = Direction::kToWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  uint64_t id = 0;
  uint64_t unspent_by_others_bytes = 0;
  uint64_t charged_bytes = 0, quota_bytes = 0;
  static auto Fields(auto& self) {
    return std::tie(self.id, self.unspent_by_others_bytes, self.charged_bytes, self.quota_bytes);
  }
};

struct AskUsage {
  using Reply = Usage;
  static constexpr Type kType = Type::kAskUsage;
  static constexpr Direction kDirection = Direction::kFromWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  uint64_t id = 0;
  int32_t device = 0;
  static auto Fields(auto& self) { return std::tie(self.id, self.device); }
  bool IsValid() const { return id != 0 && IsDevice(device); }
};

// Credit that holds no allocation. The vGPU's other sessions may recall it.
struct Unspent {
  static constexpr Type kType = Type::kUnspent;
  static constexpr Direction kDirection = Direction::kFromWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  int32_t device = 0;
  uint64_t bytes = 0;
  static auto Fields(auto& self) { return std::tie(self.device, self.bytes); }
  bool IsValid() const { return IsDevice(device); }
};

// ---- supervisor -> worker

// Asks for unspent credit that another session of the vGPU needs.
struct RecallCredit {
  static constexpr Type kType = Type::kRecallCredit;
  static constexpr Direction kDirection = Direction::kToWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  int32_t device = 0;
  uint64_t bytes = 0;
  static auto Fields(auto& self) { return std::tie(self.device, self.bytes); }
};

}  // namespace farcall::server::control
