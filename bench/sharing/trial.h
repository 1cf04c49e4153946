// SPDX-License-Identifier: Apache-2.0
// One run of programs under a policy on the simulated device, and what an observer of the device
// measures.
#pragma once

#include <string>
#include <vector>

#include "bench/sharing/policy.h"

namespace farcall::sharing {

struct TrialTenant {
  Load load;
  quota::ComputeQuota quota;
};

struct Trial {
  std::string policy = "farcall";
  std::vector<TrialTenant> tenants;
  Ns length_ns = 60 * quota::kSecond;
  Ns warm_up_ns = 5 * quota::kSecond;  // passes before anything is measured
  bool until_finished = false;         // of all that do finish; length_ns is then the most
  uint64_t seed = 1;
  Ns tick_ns = 100 * quota::kMillisecond;  // how finely device time is looked at
  quota::SchedulerOptions scheduler;
};

struct TenantResult {
  std::vector<Ns> busy_ns;       // in each tick
  std::vector<Ns> iteration_ns;  // wall time of each
  uint64_t iterations = 0;
  Ns finished_at = 0;
};

struct TrialResult {
  std::vector<TenantResult> tenants;
  Ns tick_ns = 0;
  Ns ended_at = 0;
  double busy_part = 0;  // of the device
};

TrialResult Run(const Trial& trial);

struct ErrorPoints {  // percentage points of device time
  double mean = 0, max = 0, least = 0, most = 0;
};
// Of the tenant's share of device time in windows of `window_ns`, against `wanted` (0 to 1).
// `of_busy`: of what the device did rather than of the clock.
ErrorPoints ShareError(const TrialResult& result, size_t tenant, double wanted, Ns window_ns,
                       bool of_busy);
// The mean over windows, and the least: (sum x)^2 / (n sum x^2), x = busy / weight.
struct Jain {
  double mean = 1, least = 1;
};
Jain JainIndex(const TrialResult& result, const std::vector<double>& weights, Ns window_ns);
double Mean(const std::vector<Ns>& values);
double Percentile(std::vector<Ns> values, double part);

}  // namespace farcall::sharing
