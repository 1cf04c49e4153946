// SPDX-License-Identifier: Apache-2.0
// Who lets launches through: ours, and what others do, as their sources describe it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/sharing/event_queue.h"
#include "bench/sharing/program.h"
#include "bench/sharing/sim_device.h"
#include "quota/compute_quota.h"
#include "quota/scheduling/device_scheduler.h"

namespace farcall::sharing {

struct Tenant {
  Program* program = nullptr;
  quota::ComputeQuota quota;
};

class Policy {
 public:
  virtual ~Policy() = default;
  virtual void Start() {}
  // The tenant has, or may have, something to launch.
  virtual void OnWork(size_t tenant) = 0;
};

struct Bench {
  EventQueue& time;
  SimDevice& device;
  std::vector<Tenant>& tenants;
};

// The driver alone: slices of 2 ms, 1024 launches ahead.
std::unique_ptr<Policy> MakeFree(Bench bench);
// quota/: leases, fair queue, caps, classes.
std::unique_ptr<Policy> MakeLeases(Bench bench, const quota::SchedulerOptions& options = {});
// A token a block, a controller every 120 ms on utilization sampled every `sample_ns`.
std::unique_ptr<Policy> MakeBlockTokens(Bench bench, Ns sample_ns);
// One lock, first come first served, handed on after 30 s.
std::unique_ptr<Policy> MakeLock(Bench bench, Ns quantum_ns);
// Tokens at a rate that a PID controller sets every 100 ms from sampled utilization.
std::unique_ptr<Policy> MakeSampledPid(Bench bench, Ns sample_ns);

// "farcall", "free", "block_tokens", "block_tokens_1s", "lock_30s", "sampled_pid".
std::unique_ptr<Policy> MakePolicy(const std::string& name, Bench bench);

}  // namespace farcall::sharing
