// SPDX-License-Identifier: Apache-2.0
// The pool's claims for a cluster's VGPUClaims: as the pool tells of them, and what is asked of it.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "pool/client/rest_watch.h"
#include "pool/k8s/api/api_client.h"
#include "pool/k8s/claims/claim_object.h"
#include "pool/k8s/claims/space_project.h"
#include "sync/cond_var.h"

namespace farcall::k8s {

// The beginning of the owners of claims that one of a cluster made: a node's plugin, or the
// controller. `cluster` is the uid of the namespace kube-system, since a cluster has no name of its
// own; `node` is "" for the controller.
std::string OwnerPrefix(const std::string& cluster, const std::string& node);
// Asks the API server for that uid.   Errors  of ApiClient::Get; kMalformed
Status FindCluster(ApiClient* api, std::string* uid);

// Live claims of the pool whose owner begins so.   Errors  of RestClient::Get; kMalformed
Status ListOwned(pool::RestClient* pool, const std::string& owner,
                 std::vector<pool::v1::Claim>* claims);

// Turns a part of a device's memory into bytes: of the largest device that the pool has for it, so
// that it is at least that part of any. Rounded up to 1 MiB.
//   Errors  kUnavailable, kRefused (the pool has no such device)
Status SizeMemory(pool::RestClient* pool, Ask* ask);

//   Thread  any
class PoolClaims final {
 public:
  // `on_change`: a VGPUClaim's uid; "": any may have changed. Called by the watch's own thread.
  PoolClaims(const pool::PoolAddress& pool, const std::string& project_root, std::string prefix,
             std::function<void(const std::string& uid)> on_change);
  ~PoolClaims() { Stop(); }
  void Start();
  void Stop();

  // Whether the pool's word is complete and current.
  bool is_synced();
  // The live claim of a VGPUClaim.
  std::optional<pool::v1::Claim> Of(const std::string& uid);
  // All live ones, with the uid that each is for.
  std::vector<std::pair<std::string, pool::v1::Claim>> All();
  // By the last Explain; "": nothing yet.
  std::string WhyOf(const std::string& id);

  // The claim of a binding: twice the same one for the same number.
  //   Errors  kUnavailable, kRefused (with the pool's reason)
  Result<pool::v1::Claim> Request(const ClaimObject& object, Ask ask, uint64_t binding);
  Status Change(const std::string& id, Ask ask);
  Status Release(const std::string& id);
  Status Renew(const std::string& id);
  Status Explain(const std::string& id);

 private:
  void Run();
  bool Take(const std::string& kind, const std::string& json);
  void Keep(const pool::v1::Claim& claim);
  std::string Forget(const std::string& id);  // the uid it was for
  std::string UidOf(const pool::v1::Claim& claim) const;
  Status Call(const char* method, const std::string& path, const google::protobuf::Message* in,
              google::protobuf::Message* out);

  pool::RestClient pool_;
  SpaceProjects projects_;
  const std::string prefix_;
  const std::function<void(const std::string&)> on_change_;
  pool::RestWatch watch_;
  std::mutex mutex_;
  CondVar wake_;
  struct Table {
    std::map<std::string, pool::v1::Claim> claims;         // by id; also such as have just ended
    std::map<std::string, std::set<std::string>> of_uids;  // VGPUClaim -> ids
  };
  Table known_;
  std::optional<Table> listed_;  // while the pool tells all anew
  std::map<std::string, std::string> why_;
  bool is_synced_ = false, is_stopped_ = false;
  std::thread thread_;
};

}  // namespace farcall::k8s
