// SPDX-License-Identifier: Apache-2.0
// The messages about leases of device time (lease_scheduler.h, compute_gate.h).
#pragma once

#include "server/control/field.h"
#include "server/control/message.h"

namespace farcall::server::control {

// What other work competes with the holder of a lease; the values of quota::Company.
enum class Company : uint8_t { kWaiting, kIdle, kNone };
template <>
struct EnumRange<Company> {
  static constexpr Company kLast = Company::kNone;
};

// ---- supervisor -> worker

// From now on, workers share the devices by leases.
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
  uint64_t device_ns = 0;  // device time that the worker may submit
  Company company = Company::kWaiting;
  static auto Fields(auto& self) { return std::tie(self.device, self.device_ns, self.company); }
};

// Extends the lease of its holder while nobody else waits.
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
  uint64_t left_ns = 0;  // device time left of the lease
  Company company = Company::kWaiting;
  static auto Fields(auto& self) { return std::tie(self.device, self.left_ns, self.company); }
};

// ---- worker -> supervisor

struct WantLease {
  static constexpr Type kType = Type::kWantLease;
  static constexpr Direction kDirection = Direction::kFromWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  int32_t device = 0;
  uint64_t first_clock_ns = 0;  // upper estimate of the first piece of work, by the clock
  uint32_t pace_milli = 0;      // clock time per device time
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
  uint64_t used_ns = 0;  // device time since the previous report
  uint64_t left_ns = 0;  // device time left of the lease
  uint64_t outstanding_clock_ns = 0;
  static auto Fields(auto& self) {
    return std::tie(self.device, self.used_ns, self.left_ns, self.outstanding_clock_ns);
  }
  bool IsValid() const { return IsDevice(device); }
};

// Reports the use of work that still runs.
struct LeaseRuns {
  static constexpr Type kType = Type::kLeaseRuns;
  static constexpr Direction kDirection = Direction::kFromWorker;
  static constexpr Carries kCarries = Carries::kNothing;
  int32_t device = 0;
  uint64_t used_ns = 0;  // device time since the previous report
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
