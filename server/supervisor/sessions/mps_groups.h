// SPDX-License-Identifier: Apache-2.0
// Mode mps: the groups of sessions that share a daemon, with what each may take.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "proto/handshake/handshake.h"
#include "quota/claim_ledger.h"
#include "server/supervisor/services/mps_service.h"
#include "server/supervisor/sessions/admission_policy.h"
#include "server/supervisor/sessions/session_placement.h"

namespace farcall::server {

class MpsGroups {
 public:
  // All outlive it.
  MpsGroups(const ServeOptions& options, const ProbedDevices& devices,
            const AdmissionPolicy& policy, const SessionPlacement& placement)
      : options_(options), devices_(devices), policy_(policy), placement_(placement) {}

  // Finds NVIDIA's control daemon, if a device is in this mode.
  //   Errors  kUnavailable
  Status Open(MpsService::End end, MpsService::Count count);
  bool is_open() const { return service_ != nullptr; }
  // The group's server takes clients when this returns. `grant`: of the pool's claim it is for,
  // nullptr without a pool.
  //   Errors  kUnavailable   Thread  any that may wait, without locks of `end`'s
  Status Ensure(const std::string& group, const quota::ClaimGrant* grant);
  // Of a session's worker; empty: it is no MPS client. `compute`: what the session may have;
  // `asked_bytes`: of memory, without a pool.
  std::vector<std::string> EnvironmentOf(const WorkerSession& session, const QuotaRequest& compute,
                                         const quota::ClaimGrant* grant, uint64_t asked_bytes);
  // A client that is killed amid a kernel may take its group along: the daemon ends it first.
  void Terminate(const WorkerSession& session) {
    service_->Terminate(session.mps_group, session.process.pid);
  }
  // The group has no session any more.
  void Release(const std::string& group) { service_->Release(group); }

 private:
  const ServeOptions& options_;
  const ProbedDevices& devices_;
  const AdmissionPolicy& policy_;
  const SessionPlacement& placement_;
  std::unique_ptr<MpsService> service_;
};

// The limits of a client, as its environment has them: the session's, within the server's.
//   `quotas`  of its devices' memory, in its own order
std::vector<std::string> MpsClientLimits(const QuotaRequest& compute, uint32_t max_limit_milli,
                                         const std::vector<uint64_t>& quotas);

}  // namespace farcall::server
