// SPDX-License-Identifier: Apache-2.0
// Changes of running vGPUs' quotas: an operator's, or a pool's of its claim. One below what is
// charged waits for what sessions hold unspent.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "proto/handshake/handshake.h"
#include "quota/compute_quota.h"
#include "server/control/control_plane.h"
#include "server/supervisor/sharing/memory_charges.h"
#include "server/supervisor/sharing/net_scheduler.h"

namespace farcall::server {

// Time comes in with every call.
class QuotaChanges {
 public:
  struct Task {
    std::string vgpu, name;    // the latter for people
    std::vector<int> devices;  // whose memory changes
    bool is_claims = false;    // the pool's ledger has admitted it already
    QuotaChange change;
    // Called once.
    std::function<void(ChangeOutcome, const std::string& why)> done;
  };
  struct Hooks {
    std::function<bool(const std::string& vgpu)> runs;  // some session is of it
    std::function<uint64_t(int device)> ceiling_bytes;  // of a quota that is no claim's
    std::function<Status(const std::string& vgpu, const QuotaChange&)> change_compute;
    std::function<void(const std::string& name, const QuotaChange&)> changed;
  };

  // `is_in_pool`: only claims' quotas change.
  QuotaChanges(MemoryCharges& charges, NetScheduler& net, bool is_in_pool, Hooks hooks)
      : charges_(charges), net_(net), is_in_pool_(is_in_pool), hooks_(std::move(hooks)) {}

  // All of a change, or nothing of it.
  void Begin(Task task, quota::Ns now);
  // Tries again what waits.
  void Tick(quota::Ns now);
  bool has_waiting() const { return !waiting_.empty(); }

 private:
  enum class Attempt { kFirst, kAgain, kLast };
  enum class Fit { kFits, kWaits, kRefused };
  struct Waiting {
    Task task;
    quota::Ns until = 0;
  };

  // False: left for later.
  bool Try(const Task& task, Attempt attempt, quota::Ns now);
  Fit FitMemory(const Task& task, Attempt attempt);

  MemoryCharges& charges_;
  NetScheduler& net_;
  const bool is_in_pool_;
  const Hooks hooks_;
  std::vector<Waiting> waiting_;
};

}  // namespace farcall::server
