// SPDX-License-Identifier: Apache-2.0
// On which of the server's devices a session is, and beside whom: exclusive devices, MPS groups,
// MIG instances. Time slices are sharing/time_sharing.h.
#pragma once

#include <string>
#include <vector>

#include "quota/claim_ledger.h"
#include "server/supervisor/options/serve_options.h"
#include "server/supervisor/sessions/session_table.h"
#include "server/worker/worker_process.h"

namespace farcall::server {

// The one MPS group of those who hold the server's token.
inline constexpr char kAllSessions[] = "server";

//   Thread  one at a time; those that do not look at sessions: any
class SessionPlacement {
 public:
  // All outlive it.
  SessionPlacement(const ServeOptions& options, const ProbedDevices& devices,
                   const SessionTable& sessions)
      : options_(options), devices_(devices), sessions_(sessions) {}

  DeviceMode ModeOf(int device) const { return options_.modes.Of(device); }
  uint64_t BytesOf(int device) const;
  // All of the server's, by its numbers.
  std::vector<int> AllDevices() const;
  // Those of a new session. `grant`: of the pool's claim it is for, nullptr without a pool.
  std::vector<int> DevicesFor(const std::string& vgpu, const quota::ClaimGrant* grant) const;
  // A process sees one MIG instance, is an MPS client with all of its devices or with none, and has
  // an exclusive device to itself.
  //   Errors  kRefused
  Status Check(const WorkerSession& session) const;
  // Whoever holds the server's token trusts the others who do; each claim of a pool is by itself.
  //   Returns  empty: it is no MPS client
  std::string MpsGroupFor(const quota::ClaimGrant* grant) const;
  // What CUDA_VISIBLE_DEVICES says to its worker: of the server's own list, those of the session.
  std::string GpusOf(const WorkerSession& session) const;
  // The same of a session that has all devices. `is_in_pool`: and is a claim's.
  std::string GpusOfAll(bool is_in_pool) const;

 private:
  Status CheckExclusive(const WorkerSession& session) const;
  int PickInstance(const std::string& vgpu) const;

  const ServeOptions& options_;
  const ProbedDevices& devices_;
  const SessionTable& sessions_;
};

}  // namespace farcall::server
