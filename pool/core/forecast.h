// SPDX-License-Identifier: Apache-2.0
// When claims that wait are expected to start: the queue simulated on a copy of the pool, on any
// thread, for a bounded time.
//
// What runs ends with its lifetime, or after a typical run where it has none; what waits is tried
// in its order at each end, and what does not fit holds nobody up. Claims that may come later,
// preemption, and limits that a project has reached are left out.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pool/core/core.h"

namespace farcall::pool {

struct Expected {
  std::optional<Ms> starts_in, ends_in;
};

struct Forecast {
  std::map<std::string, Expected> claims;  // of gangs the first members
  bool is_cut_short = false;               // the time was over before the queue was empty
};

// A copy of what decides about places.
class PoolCopy {
 public:
  // Of the core's thread. The first so many that wait.
  PoolCopy(const Core& core, Ms now, size_t most);
  // One more that waits, the last of its queue priority; its name is then "plan".
  //   Before  Core::Completed
  void Add(const Ask& ask, uint32_t members);
  // What claims without a lifetime are taken to run.
  Ms typical_run() const { return typical_run_; }
  bool Waits(const std::string& claim) const;

  // Runs are taken to last for `factor` times as long, but no longer than a lifetime.
  Forecast Foresee(double factor, std::chrono::steady_clock::time_point until) const;

 private:
  struct Run {
    std::string host;
    std::vector<uint32_t> devices;
    uint64_t bytes = 0;
    uint32_t milli = 0;
    bool is_exclusive = false;
    Ms begun = 0, latest = kNever;  // its lifetime's end
  };
  class Course;

  Ms now_, typical_run_;
  Hosts hosts_;
  std::vector<Run> runs_;
  std::vector<Claim> queue_;
  std::map<std::string, uint64_t> reservations_;               // their numbers
  std::map<std::string, Demand> demands_;                      // of the groups whose claims wait
  std::map<std::string, std::vector<RoundTrip>> round_trips_;  // by group
};

// All that is told of one claim.
struct StartEstimate {
  std::optional<Ms> starts_in, earliest, latest;
  bool is_cut_short = false;
  std::string basis;  // one line: what was assumed
};
// Three courses of the queue: runs as they are taken to last, half and twice as long; 100 ms at
// most.
StartEstimate EstimateStart(const PoolCopy& copy, const std::string& claim);
std::string BasisOf(const PoolCopy& copy);

}  // namespace farcall::pool
