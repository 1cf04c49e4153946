// SPDX-License-Identifier: Apache-2.0
// Takes each VGPUClaim that may have changed one step further, until there is nothing to do for it.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "pool/k8s/api/events.h"
#include "pool/k8s/claims/claim_plan.h"
#include "pool/k8s/claims/pool_claims.h"
#include "pool/k8s/controller/cluster_view.h"
#include "sync/cond_var.h"

namespace farcall::k8s {

//   Thread  Wake, WakeAll: any
class ClaimLoop final {
 public:
  // `leads`: whether this process may change anything now; `renews`: whether it keeps the pool's
  // claims from expiring, which the last leader does also while the API server is away.
  ClaimLoop(ApiClient* api, ClusterView* view, PoolClaims* pool, std::function<bool()> leads,
            std::function<bool()> renews)
      : api_(api),
        view_(view),
        pool_(pool),
        leads_(std::move(leads)),
        renews_(std::move(renews)),
        events_(api) {}
  ~ClaimLoop() { Stop(); }
  void Start();
  void Stop();

  void Wake(const ClaimKey& key);
  void WakeUid(const std::string& uid);  // of a VGPUClaim; "": all
  void WakeAll();

 private:
  using Clock = std::chrono::steady_clock;
  void Run();
  bool MayAct() { return leads_() && view_->is_synced() && pool_->is_synced(); }
  // Steps until there is none. False: try again later.
  bool Settle(const ClaimKey& key);
  Status Do(const ClaimObject& object, const ClaimClass* of_class, const Step& step);
  Status Request(const ClaimObject& object, const ClaimClass* of_class, const ClaimStatus& status);
  Status Change(const ClaimObject& object, const ClaimClass* of_class, const Step& step);
  Status Report(const ClaimObject& object, const ClaimStatus& status);
  Status Patch(const ClaimObject& object, const char* part, const nlohmann::json& patch);
  // Makes VGPUClaims for the containers of a gated pod that name none, and has the pod name them.
  // One that should have no gate, since somebody has changed it meanwhile, loses it.
  Status Provide(const Pod& pod);
  Status RemoveGate(const std::string& space, const PodUse& pod);
  // Lets the claim's pod be scheduled, if it waits for that and has all claims that it names.
  Status Ungate(const ClaimObject& object, const std::vector<PodUse>& pods);
  void TellOthers(const ClaimObject& object, const std::vector<PodUse>& pods);
  void TellChange(const ClaimObject& object, const ClaimStatus& status);
  // Whether a claim that is held back may go on at once.
  bool IsUrgent(const ClaimKey& key);
  // Claims of the pool whose VGPUClaim is gone, whatever removed it.
  Status ReleaseOrphans();
  void Renew();
  void Delay(const ClaimKey& key);

  ApiClient* const api_;
  ClusterView* const view_;
  PoolClaims* const pool_;
  const std::function<bool()> leads_, renews_;

  std::mutex mutex_;
  CondVar wake_;
  std::set<ClaimKey> waiting_;
  bool is_all_ = false, has_orphans_ = false, is_stopped_ = false;
  std::thread thread_;
  // The thread's own.
  Events events_;
  std::map<ClaimKey, Clock::time_point> delayed_;
  std::map<ClaimKey, int> failures_;
  std::map<std::string, Clock::time_point> explained_;  // by the pool's claim
  Clock::time_point next_renewal_{};
  std::string said_;
};

}  // namespace farcall::k8s
