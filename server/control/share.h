// SPDX-License-Identifier: Apache-2.0
// The messages about memory and events shared inside a vGPU, named by tokens (control_client.h).
#pragma once

#include "proto/wire.h"
#include "server/control/field.h"
#include "server/control/message.h"

namespace farcall::server::control {

struct ShareReply {
  static constexpr Type kType = Type::kShareReply;
  static constexpr Direction kDirection = Direction::kToWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  uint64_t id = 0;
  bool is_shared = false;
  ShareToken token{};
  Reason why{};  // why it was refused
  static auto Fields(auto& self) {
    return std::tie(self.id, self.is_shared, self.token.high, self.token.low, self.why);
  }
};

struct Share {
  using Reply = ShareReply;
  static constexpr Type kType = Type::kShare;
  static constexpr Direction kDirection = Direction::kFromWorker;
  static constexpr Carries kCarries = Carries::kMemory;
  uint64_t id = 0;
  int32_t device = 0;
  uint64_t bytes = 0;  // charged bytes that move from the worker to the shared object
  static auto Fields(auto& self) { return std::tie(self.id, self.device, self.bytes); }
  bool IsValid() const { return id != 0 && IsDevice(device); }
};

struct RedeemReply {
  static constexpr Type kType = Type::kRedeemReply;
  static constexpr Direction kDirection = Direction::kToWorker;
  static constexpr Carries kCarries = Carries::kMemory;
  uint64_t id = 0;
  bool is_there = false;
  int32_t device = 0;
  uint64_t bytes = 0;
  Reason why{};  // why it was refused
  static auto Fields(auto& self) {
    return std::tie(self.id, self.is_there, self.device, self.bytes, self.why);
  }
};

struct Redeem {
  using Reply = RedeemReply;
  static constexpr Type kType = Type::kRedeem;
  static constexpr Direction kDirection = Direction::kFromWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  uint64_t id = 0;
  ShareToken token{};
  static auto Fields(auto& self) { return std::tie(self.id, self.token.high, self.token.low); }
  bool IsValid() const { return id != 0; }
};

// Releases the worker's hold on the object.
struct Drop {
  static constexpr Type kType = Type::kDrop;
  static constexpr Direction kDirection = Direction::kFromWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  ShareToken token{};
  static auto Fields(auto& self) { return std::tie(self.token.high, self.token.low); }
};

}  // namespace farcall::server::control
