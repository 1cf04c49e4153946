// SPDX-License-Identifier: Apache-2.0
// Leases of device time (lease_desk.h, compute_gate.h).
#pragma once

#include "server/control/field.h"
#include "server/control/message.h"

namespace farcall::server::control {

// Of the holder of a lease, as quota::Company has it.
enum class Company : uint8_t { kWaiting, kIdle, kNone };
template <>
struct EnumRange<Company> {
  static constexpr Company kLast = Company::kNone;
};

// ---- supervisor -> worker

// Devices are shared by leases from now on.
struct Sharing {
  static constexpr Type kType = Type::kSharing;
  static constexpr Direction kDirection = Direction::kToWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  static auto Fields(auto&) { return std::tie(); }
};

struct Lease {
  static constexpr Type kType = Type::kLease;
  static constexpr Direction kDirection = Direction::kToWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  int32_t device = 0;
  uint64_t device_ns = 0;  // of the device's time: may be submitted
  Company company = Company::kWaiting;
  static auto Fields(auto& self) { return std::tie(self.device, self.device_ns, self.company); }
};

// For the holder of the lease; nobody waits.
struct LeaseMore {
  static constexpr Type kType = Type::kLeaseMore;
  static constexpr Direction kDirection = Direction::kToWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  int32_t device = 0;
  uint64_t device_ns = 0;
  static auto Fields(auto& self) { return std::tie(self.device, self.device_ns); }
};

struct LeaseLimit {
  static constexpr Type kType = Type::kLeaseLimit;
  static constexpr Direction kDirection = Direction::kToWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  int32_t device = 0;
  uint64_t left_ns = 0;  // of the lease, from now on
  Company company = Company::kWaiting;
  static auto Fields(auto& self) { return std::tie(self.device, self.left_ns, self.company); }
};

// ---- worker -> supervisor

struct WantLease {
  static constexpr Type kType = Type::kWantLease;
  static constexpr Direction kDirection = Direction::kFromWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  int32_t device = 0;
  uint64_t first_clock_ns = 0;  // the first piece of work takes this at most, as far as known
  uint32_t pace_milli = 0;      // what device time takes by the clock
  static auto Fields(auto& self) {
    return std::tie(self.device, self.first_clock_ns, self.pace_milli);
  }
  bool IsValid() const { return IsDevice(device); }
};

struct LeaseUse {
  static constexpr Type kType = Type::kLeaseUse;
  static constexpr Direction kDirection = Direction::kFromWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  int32_t device = 0;
  uint64_t used_ns = 0;  // device time, since it was last told
  uint64_t left_ns = 0;  // of the lease
  uint64_t outstanding_clock_ns = 0;
  static auto Fields(auto& self) {
    return std::tie(self.device, self.used_ns, self.left_ns, self.outstanding_clock_ns);
  }
  bool IsValid() const { return IsDevice(device); }
};

// Of what still runs.
struct LeaseRuns {
  static constexpr Type kType = Type::kLeaseRuns;
  static constexpr Direction kDirection = Direction::kFromWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  int32_t device = 0;
  uint64_t used_ns = 0;  // device time, since it was last told
  static auto Fields(auto& self) { return std::tie(self.device, self.used_ns); }
  bool IsValid() const { return IsDevice(device); }
};

struct LeaseDone {
  static constexpr Type kType = Type::kLeaseDone;
  static constexpr Direction kDirection = Direction::kFromWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  int32_t device = 0;
  bool wants_next = false;
  uint64_t first_clock_ns = 0;  // as in WantLease
  uint32_t pace_milli = 0;
  static auto Fields(auto& self) {
    return std::tie(self.device, self.wants_next, self.first_clock_ns, self.pace_milli);
  }
  bool IsValid() const { return IsDevice(device); }
};

}  // namespace farcall::server::control
